"""Embedding: a gather whose gradient adds up."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, ops
from needle.errors import BoundsError, DTypeError, ShapeError
from needle.testing import check_gradients
from tests.tolerances import assert_close

IDS = np.array([[0, 3, 3], [1, 0, 3]])


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "uint8"])
def test_ids_of_any_dtype_with_whole_values(device, dtype, kind):
    layer = nn.Embedding(5, 2, device=device, dtype=dtype)
    y = layer(ndl.Tensor(IDS, device=device, dtype=kind))
    assert (y.shape, y.dtype, y.device) == ((2, 3, 2), dtype, device)
    assert (y.numpy() == layer.weight.numpy()[IDS]).all()


@pytest.mark.parametrize("ids", [IDS, IDS.tolist(), IDS[0], np.array(3), np.zeros((0, 2))])
def test_ids_of_any_shape(device, ids):
    layer = nn.Embedding(5, 2, device=device)
    assert (layer(ids).numpy() == layer.weight.numpy()[np.array(ids, dtype=int)]).all()


def test_a_negative_id_is_not_answered_by_more_rows():
    with pytest.raises(BoundsError, match=r"^embedding: id -1 at \(1,\) is not in 0..2; ids count from 0$"):
        nn.Embedding(3, 4)([0, -1])


def test_gradients_add_up(device, dtype):
    layer = nn.Embedding(5, 2, device=device, dtype=dtype)
    ids = ndl.Tensor(IDS, device=device, dtype="float32")
    weights = np.random.randn(2, 3, 2).astype(dtype)
    layer(ids).backward(ndl.Tensor(weights, device=device, dtype=dtype))
    expected = np.zeros((5, 2), dtype)
    np.add.at(expected, IDS, weights)
    assert_close(layer.weight.grad, expected)
    assert ids.grad is None


def test_gradients_to_second_order(tensor):
    check_gradients(lambda w: ops.embedding(w, IDS) ** 3, tensor(np.random.randn(5, 2)))


def test_one_row_taken_often_adds_in_one_order(device):
    """The bits do not depend on the run or the threads."""
    ids = np.random.randint(0, 3, 5000)
    weights = np.random.randn(5000, 4)
    found = set()
    for threads in (1, 2, 3, 7):
        w = ndl.Tensor(np.zeros((3, 4)), device=device)
        with ndl.set_num_threads(threads):
            ops.embedding(w, ids).backward(ndl.Tensor(weights, device=device))
        found.add(w.grad.numpy().tobytes())
    assert len(found) == 1


def test_ids_are_copied(tensor):
    ids, w = np.array([0, 1]), tensor(np.eye(3))
    y = ops.embedding(w, ids)
    ids[:] = 2
    y.backward()
    assert_close(w.grad, [[1, 1, 1], [1, 1, 1], [0, 0, 0]])


def test_records_one_node(tensor):
    w = tensor(np.eye(3))
    y = ops.embedding(w, tensor([0.0, 1.0]))
    assert y.inputs == (w,)


def test_printed():
    assert repr(nn.Embedding(5, 2)) == "Embedding(5, 2)"


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda: nn.Embedding(5, 2)([[0, 1], [5, 7]]), BoundsError, r"embedding: id 5 at \(1, 0\) is not in 0..4; "),
        (lambda: nn.Embedding(5, 2)([0, -1]), BoundsError, r"embedding: id -1 at \(1,\) is not in 0..4"),
        (lambda: nn.Embedding(5, 2)([0.5]), DTypeError, "embedding: ids must be whole numbers, got 0.5"),
        (lambda: nn.Embedding(5, 2)([float("nan")]), DTypeError, "embedding: ids must be whole numbers, got nan"),
        (lambda: nn.Embedding(5, 2)(["a"]), DTypeError, "embedding: expected real numbers"),
        (lambda: nn.Embedding(0, 2), ShapeError, "Embedding: num_embeddings must be at least 1"),
        (lambda: nn.Embedding(5, 2.5), DTypeError, "Embedding: embedding_dim must be a whole number"),
        (lambda: nn.Embedding(5, 2, dtype="int64"), DTypeError, "Embedding: dtype must be float32 or float64"),
        (lambda: ops.embedding(ndl.Tensor([1.0]), [0]), ShapeError, r"embedding: expected a weight .* shape \(1,\)"),
        (lambda: ops.embedding(np.eye(2), [0]), DTypeError, "embedding: the weight must be a needle"),
    ],
)  # fmt: skip
def test_wrong_input(call, error, said):
    with pytest.raises(error, match=said):
        call()
