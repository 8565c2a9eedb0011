"""CASES.md, section SM: softmax, logsumexp, losses and labels."""

import numpy as np
import pytest

from needle import init, nn, ops
from tests.tolerances import GIVEN_DIGITS, assert_close


@pytest.mark.parametrize("loss", [nn.SoftmaxLoss(), nn.CrossEntropyLoss(), ops.cross_entropy])
def test_sm01_huge_equal_logits(tensor, loss):
    logits, labels = tensor([[1e8, 1e8]], dtype="float32"), tensor([1], dtype="float32")
    value = loss(logits, labels)
    value.backward()
    assert_close(value, 0.6931472, rtol=0, atol=1e-7)
    assert_close(logits.grad, [[0.5, -0.5]])


@pytest.mark.parametrize("axes", [None, 1, (1,)])
def test_sm01_logsumexp_keeps_the_small_term(tensor, axes):
    logits = tensor([[1e3, 1e3]])
    assert_close(ops.logsumexp(logits, axes).numpy().ravel(), [1e3 + np.log(2)])
    assert_close(ops.logsoftmax(logits), [[-np.log(2), -np.log(2)]])


@pytest.mark.parametrize(
    "logits, expected", [([0, -1e30], [1, 0]), ([0, -np.inf], [1, 0]), ([1000, 0, -1000], [1, 0, 0])]
)
def test_sm05_masked_logits(tensor, logits, expected):
    z = tensor([logits])
    y = ops.softmax(z)
    y.backward(tensor([np.arange(1.0, len(logits) + 1)]))
    assert_close(y, [np.asarray(expected, float)])
    assert np.isfinite(z.grad.numpy()).all()
    loss = ops.cross_entropy(z, tensor([0]))
    loss.backward()
    assert loss.item() == 0 and np.isfinite(z.grad.numpy()).all()


@pytest.mark.parametrize("smoothing, mean", [(0.0, 2.7104959), (0.1, 2.6771626), (0.2, 2.6438293)])
def test_sm07_label_smoothing_leaves_ignored_rows_out(tensor, smoothing, mean):
    z = tensor([[1.0, 2, 3], [1, 1, 1], [0, 0, 5]])
    options = {"label_smoothing": smoothing, "ignore_index": -100}
    value = ops.cross_entropy(z, tensor([2, -100, 0]), **options)
    value.backward()
    assert_close(value, mean, **GIVEN_DIGITS)
    assert not z.grad.numpy()[1].any() and z.grad.numpy()[[0, 2]].all()
    assert_close(ops.cross_entropy(z, tensor([2, -100, 0]), reduction="sum", **options), 2 * value.numpy())


@pytest.mark.parametrize("bad", [4, -1])
def test_sm09_labels_out_of_range(tensor, device, bad):
    labels, logits = [0, 3, bad], tensor(np.zeros((3, 4)))
    for use in (
        lambda: init.one_hot(4, tensor(labels), device=device),
        lambda: device.one_hot(4, np.array(labels)),
        lambda: nn.SoftmaxLoss()(logits, tensor(labels)),
        lambda: ops.cross_entropy(logits, tensor(labels)),
    ):
        with pytest.raises((ValueError, IndexError), match=rf"\b{bad}\b" if bad > 0 else r"-1\b"):
            use()
