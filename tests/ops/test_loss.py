"""Losses against PyTorch and central differences."""

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle import ops
from needle.errors import BoundsError, DTypeError, OptionError, ShapeError
from tests.ops.differences import check_to_second_order
from tests.tolerances import assert_close

LOGITS = [(5, 4), (3, 4, 2), (2, 3, 2, 2), (4,), (1, 1)]


def labels_for(shape):
    classes, rows = (shape[1], (shape[0], *shape[2:])) if len(shape) > 1 else (shape[0], ())
    return np.random.randint(0, classes, rows)


def rows_of_probabilities(shape):
    axis = min(1, len(shape) - 1)
    values = np.random.uniform(0, 1, shape)
    return values / values.sum(axis, keepdims=True)


@pytest.mark.parity
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["labels", "ignored", "probabilities"])
@pytest.mark.parametrize("shape", LOGITS)
def test_cross_entropy_against_pytorch(tensor, shape, kind, weighted, smoothing, reduction):
    torch = pytest.importorskip("torch")
    z = np.random.randn(*shape)
    y = np.asarray(rows_of_probabilities(shape) if kind == "probabilities" else labels_for(shape))
    arguments = {"reduction": reduction, "label_smoothing": smoothing}
    if kind == "ignored":
        y.reshape(-1)[:1] = arguments["ignore_index"] = 7
    weight = np.random.uniform(0.5, 2, shape[min(1, len(shape) - 1)]) if weighted else None
    a, b = tensor(z), torch.tensor(z, requires_grad=True)
    wanted = torch.nn.functional.cross_entropy(
        b, torch.tensor(y), weight=None if weight is None else torch.tensor(weight), **arguments
    )
    got = ops.cross_entropy(a, y, weight, **arguments)
    d = np.array(np.random.randn(*wanted.shape))
    got.backward(tensor(d))
    wanted.backward(torch.tensor(d))
    assert_close(got, wanted.detach().numpy(), rtol=1e-11, atol=1e-11)
    if np.isfinite(wanted.detach().numpy()).all():
        assert_close(a.grad, b.grad.numpy())


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2)])
def test_cross_entropy_to_second_order(tensor, shape, smoothing):
    weight = np.random.uniform(0.5, 2, shape[1])
    for y in (labels_for(shape), rows_of_probabilities(shape)):
        check_to_second_order(lambda z, y=y: ops.cross_entropy(z, y, weight, label_smoothing=smoothing), tensor, shape)
    y = labels_for(shape)
    y[0] = -100
    check_to_second_order(lambda z: ops.cross_entropy(z, y, ignore_index=-100, reduction="none"), tensor, shape)


@pytest.mark.parametrize("make", [list, np.array, nd.array, ndl.Tensor])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8"])
def test_labels_of_any_kind(tensor, make, dtype):
    z, y = np.random.randn(3, 4), np.array([2, 0, 3])
    given = make(y) if make is list else make(y, dtype=dtype)
    expected = np.log(np.exp(z).sum(1)) - z[np.arange(3), y]
    assert_close(ops.cross_entropy(tensor(z), given, reduction="none"), expected)


def test_the_dtype_of_the_logits_is_kept(tensor, dtype):
    z = tensor(np.random.randn(3, 4), dtype=dtype)
    loss = ops.cross_entropy(z, np.array([0, 1, 2]), np.ones(4), label_smoothing=0.1)
    loss.backward()
    assert loss.dtype == z.grad.dtype == dtype and loss.shape == ()


def test_ignored_rows_count_nowhere_whatever_they_hold(tensor):
    z = tensor([[1.0, 2.0], [np.nan, np.inf], [0.0, 3.0]])
    loss = ops.cross_entropy(z, [0, -100, 1], ignore_index=-100)
    loss.backward()
    assert_close(loss, ops.cross_entropy(z[[0, 2]], [0, 1]).numpy())
    assert np.isfinite(z.grad.numpy()).all() and not z.grad.numpy()[1].any()


def test_a_class_may_be_ignored(tensor):
    z = tensor(np.random.randn(3, 2))
    assert_close(ops.cross_entropy(z, [0, 1, 1], ignore_index=0), ops.cross_entropy(z[1:], [1, 1]).numpy())


def test_no_rows(tensor):
    for z, y in ((tensor(np.zeros((0, 3))), np.zeros(0)), (tensor(np.ones((2, 3))), [-100, -100])):
        loss = ops.cross_entropy(z, y, ignore_index=-100)
        loss.backward()
        assert np.isnan(loss.numpy())
        assert_close(z.grad, np.zeros(z.shape))
        assert ops.cross_entropy(z, y, ignore_index=-100, reduction="sum").item() == 0


def test_masked_logits(tensor):
    z = tensor([[0.0, -np.inf, 1.0]])
    loss = ops.cross_entropy(z, [0])
    loss.backward()
    assert np.isfinite(loss.numpy()) and np.isfinite(z.grad.numpy()).all()
    assert ops.cross_entropy(z, [1]).item() == np.inf


def test_targets_are_data(tensor):
    """Neither labels nor probabilities are inputs of the graph, and what is handed over stays as it was."""
    z, y = tensor(np.random.randn(2, 3)), tensor(rows_of_probabilities((2, 3)))
    before = y.numpy()
    ops.cross_entropy(z, y, label_smoothing=0.5).backward()
    assert y.grad is None
    np.testing.assert_array_equal(y.numpy(), before)


@pytest.mark.parametrize("label", [4, -1, -100, 1.5, np.nan])
def test_labels_out_of_range_raise(tensor, label):
    with pytest.raises(BoundsError, match=rf"^cross_entropy: label {label}(\.0)? at \(1,\) .* 4 classes.*0 to 3"):
        ops.cross_entropy(tensor(np.zeros((3, 4))), np.array([0, label, 9]))
    with pytest.raises(BoundsError, match=r"at \(0, 1\)"):
        ops.cross_entropy(tensor(np.zeros((1, 4, 2))), [[0, label]])


def test_what_does_not_fit_raises(tensor):
    z = tensor(np.zeros((3, 4)))
    for call, message in (
        (lambda: ops.cross_entropy(z, [0, 1]), r"cross_entropy: y of shape \(2,\) .*\(3, 4\).*\(3,\)"),
        (lambda: ops.cross_entropy(z, np.zeros((3, 1))), r"cross_entropy: y of shape \(3, 1\)"),
        (lambda: ops.cross_entropy(tensor(0.0), 0), r"cross_entropy: the logits .*\(\)"),
        (lambda: ops.cross_entropy(tensor(np.zeros((3, 0))), [0, 0, 0]), r"cross_entropy: the logits .*\(3, 0\)"),
        (lambda: ops.cross_entropy(tensor(np.zeros(0)), np.zeros(0)), r"cross_entropy: the logits .*\(0,\)"),
        (lambda: ops.cross_entropy(z, [0, 1, 2], np.ones(3)), r"cross_entropy: weight has shape \(3,\).*\(4,\)"),
        (lambda: ops.mse_loss(z, z[:2]), r"mse_loss: prediction \(3, 4\) and target \(2, 4\)"),
    ):
        with pytest.raises(ShapeError, match=f"^{message}"):
            call()


def test_options_out_of_range_raise(tensor):
    z = tensor(np.zeros((3, 4)))
    for call, message in (
        (lambda: ops.cross_entropy(z, [0, 1, 2], reduction="avg"), "cross_entropy: reduction .*'avg'"),
        (lambda: ops.cross_entropy(z, [0, 1, 2], label_smoothing=1.1), r"cross_entropy: label_smoothing .*1\.1"),
        (lambda: ops.cross_entropy(z, np.zeros((3, 4)), ignore_index=1), "cross_entropy: ignore_index needs labels"),
        (lambda: ops.mse_loss(z, z, reduction="avg"), "mse_loss: reduction .*'avg'"),
    ):
        with pytest.raises(OptionError, match=f"^{message}"):
            call()


def test_wrong_kinds_raise(tensor):
    with pytest.raises(DTypeError, match=r"^cross_entropy: the logits must be float32 or float64, got int64"):
        ops.cross_entropy(tensor(np.zeros((3, 4)), dtype="int64"), [0, 1, 2])
    with pytest.raises(DTypeError, match=r"^cross_entropy: logits must be .*Tensor"):
        ops.cross_entropy(np.zeros((3, 4)), [0, 1, 2])
    with pytest.raises(DTypeError, match=r"^cross_entropy: label_smoothing must be a number"):
        ops.cross_entropy(tensor(np.zeros((3, 4))), [0, 1, 2], label_smoothing="a little")


def test_mse_loss(tensor, dtype):
    a, b = (np.random.randn(3, 4).astype(dtype) for _ in range(2))
    for reduction, reduce in (("mean", np.mean), ("sum", np.sum), ("none", np.asarray)):
        for target in (b, tensor(b, dtype=dtype), b.tolist()):
            got = ops.mse_loss(tensor(a, dtype=dtype), target, reduction)
            assert got.dtype == dtype
            assert_close(got, reduce((a.astype(float) - b) ** 2))
    check_to_second_order(ops.mse_loss, tensor, (2, 3), (2, 3))
