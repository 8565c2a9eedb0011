"""INTERFACE.md, "Autograd"."""

import gc
import weakref

import numpy as np
import pytest

import needle as ndl
from apps import models, simple_ml
from needle import autograd, nn, ops
from needle import backend_ndarray as nd
from needle.data import NDArrayDataset
from needle.errors import GradientError
from tests.tolerances import assert_close


def test_constructor_copies_from_numpy(device):
    values = np.ones((2, 2))
    x = ndl.Tensor(values, device=device)
    values[...] = 5
    assert x.numpy().max() == 1
    assert (x.device, x.dtype, x.requires_grad) == (device, np.float32, True)


def test_constructor_shares_or_converts_a_tensor(tensor):
    x = tensor([1.0, 2])
    shared, converted = ndl.Tensor(x), ndl.Tensor(x, dtype="float32")
    assert shared.cached_data._handle is x.cached_data._handle
    assert converted.dtype == "float32"
    assert shared.is_leaf()
    assert ndl.Tensor(x.cached_data).cached_data._handle is not x.cached_data._handle


def test_integer_tensors_differentiate():
    a, b = ndl.Tensor([6], dtype="int64"), ndl.Tensor([7], dtype="int64")
    c = a * b
    c.backward()
    assert (c.numpy().item(), a.grad.numpy().item(), b.grad.numpy().item()) == (42, 7, 6)
    power = ndl.Tensor([[0.0, 1.0]]) ** ndl.Tensor([[0, 2]])
    assert power.numpy().tolist() == [[1, 1]]
    mixed = ndl.Tensor([2], dtype="int32") * ndl.Tensor([0.5], dtype="float64")
    assert mixed.dtype == np.result_type("int32", "float64")


def test_attributes(tensor, device):
    x = tensor(np.ones((2, 3)))
    y = x * 2
    assert isinstance(y.cached_data, nd.NDArray)
    assert y.realize_cached_data() is y.cached_data
    assert (y.shape, y.device, y.ndim, y.size) == ((2, 3), device, 2, 6)
    assert y.dtype == "float64"
    assert x.is_leaf()
    assert not y.is_leaf()
    assert y.inputs[0] is x
    assert type(y.op).__name__ == "MulScalar"
    assert x.grad is None
    assert hash(x) != hash(ndl.Tensor(x))
    assert (x == x) is True
    assert (x == ndl.Tensor(x)) is False


def test_data_is_detached_and_settable(tensor):
    x = tensor([1.0, 2])
    assert x.data.cached_data._handle is x.cached_data._handle
    assert not x.data.requires_grad
    x.data = x.data - 0.5 * tensor([1.0, 1.0])
    assert x.numpy().tolist() == [0.5, 1.5]
    assert x.is_leaf()
    with pytest.raises((TypeError, ValueError), match=r"float32.*float64|float64.*float32"):
        x.data = tensor([1.0, 2], dtype="float32")


def test_make_const_and_make_from_op(tensor):
    x = tensor([1.0, 2])
    constant = ndl.Tensor.make_const(x.cached_data)
    assert constant.cached_data is x.cached_data
    assert constant.requires_grad is False
    assert ndl.Tensor.make_const(x.cached_data, requires_grad=True).requires_grad is True
    y = ndl.Tensor.make_from_op(ops.EWiseAdd(), [x, x])
    assert y.numpy().tolist() == [2, 4]


def test_backward_of_a_tensor_that_is_no_scalar(tensor):
    x = tensor(np.arange(6.0).reshape(2, 3))
    (x * x).backward()
    assert_close(x.grad, 2 * x.numpy())
    (x * x).backward(tensor(np.full((2, 3), 0.5)))
    assert_close(x.grad, x.numpy())
    assert x.sum().shape == ()


def test_methods_and_operators(tensor):
    values = np.random.rand(2, 3) + 1
    x, w = tensor(values), tensor(values.T)
    for result, expected in (
        (x + x, 2 * values), (x + 1, values + 1), (1 + x, values + 1), (x - x, 0 * values), (x - 1, values - 1),
        (1 - x, 1 - values), (x * x, values**2), (2 * x, 2 * values), (x / x, values / values), (x / 2, values / 2),
        (2 / x, 2 / values), (x**2, values**2), (x**x, values**values), (-x, -values), (x @ w, values @ values.T),
        (x.matmul(w), values @ values.T), (x.sum(), values.sum()), (x.sum(axes=1), values.sum(1)),
        (x.reshape((3, 2)), values.reshape(3, 2)), (x.reshape(shape=(3, 2)), values.reshape(3, 2)),
        (x.transpose(), values.T), (x.transpose((0, 1)), values.T), (x.transpose(axes=(0, 1)), values.T),
        (x.broadcast_to((4, 2, 3)), np.broadcast_to(values, (4, 2, 3))),
        (x.broadcast_to(shape=(4, 2, 3)), np.broadcast_to(values, (4, 2, 3))),
        (x[1], values[1]), (x[:, -1], values[:, -1]), (x[0, 1:], values[0, 1:]), (x[..., None], values[..., None]),
    ):  # fmt: skip
        assert_close(result, expected)


@pytest.mark.parametrize("other", [nd.array([3.0], dtype="float64"), np.array([3.0]), np.array(3.0), np.float64(3), 3])
def test_arrays_beside_a_tensor_are_constants(other):
    x = ndl.Tensor([2.0], dtype="float64")
    for result, value, gradient in (
        (x * other, 6.0, 3.0),
        (other * x, 6.0, 3.0),
        (x + other, 5.0, 1.0),
        (other - x, 1.0, -1.0),
    ):
        assert isinstance(result, ndl.Tensor)
        assert result.numpy().item() == value
        result.backward()
        assert x.grad.numpy().item() == gradient


def test_tensor_tuple(tensor):
    pair = ops.make_tuple(tensor([1.0]), tensor([2.0]))
    assert isinstance(pair, ndl.TensorTuple)
    assert len(pair) == 2
    assert pair[1].numpy().tolist() == [2]
    assert isinstance(pair.tuple(), tuple)
    assert [t.numpy().item() for t in (pair + pair)] == [2, 4]


def test_module_names():
    for name in (
        "Op", "TensorOp", "TensorTupleOp", "Value", "Tensor", "TensorTuple", "NDArray", "find_topo_sort",
        "compute_gradient_of_variables",
    ):  # fmt: skip
        assert getattr(autograd, name) is not None
    assert autograd.LAZY_MODE is False
    assert isinstance(autograd.TENSOR_COUNTER, int)


def test_users_op(tensor):
    class Scale(ndl.TensorOp):
        def __init__(self, factor):
            self.factor = factor

        def compute(self, a):
            return a * self.factor

        def gradient(self, out_grad, node):
            return out_grad * self.factor

    x = tensor([1.0, 2])
    y = Scale(3.0)(x)
    y.backward()
    assert_close(x.grad, [3.0, 3.0])
    assert [g.numpy().tolist() for g in y.op.gradient_as_tuple(tensor([1.0, 1.0]), y)] == [[3, 3]]


def bad_op(gradients):
    class Bad(ndl.TensorOp):
        def compute(self, a, b):
            return a + b

        def gradient(self, out_grad, node):
            return gradients(out_grad)

    return Bad()


@pytest.mark.parametrize(
    "gradients",
    [lambda g: (g,), lambda g: (g, g, g), lambda g: (g, g.sum()), lambda g: (g, g.numpy()), lambda g: (g, 1.0)],
)
def test_what_gradient_returns_is_checked(tensor, gradients):
    out = bad_op(gradients)(tensor([1.0, 2]), tensor([3.0, 4]))
    with pytest.raises(GradientError, match="Bad"):
        out.backward()


def test_topological_order_is_post_order(tensor):
    a, b = tensor(1.0), tensor(2.0)
    c = a * b
    d = c + a
    e = b * d + c
    order = autograd.find_topo_sort([e])
    assert [id(node) for node in order] == [id(node) for node in (b, a, c, d, e.inputs[0], e)]


def test_topological_order_as_the_course_checks_it(tensor):
    a1, b1 = tensor([[0.88282157]]), tensor([[0.90170084]])
    c1 = 3 * a1 * a1 + 4 * b1 * a1 - a1
    values = [node.numpy().item() for node in autograd.find_topo_sort([c1])]
    a, b = 0.88282157, 0.90170084
    assert_close(
        np.array(values),
        [a, 3 * a, 3 * a * a, b, 4 * b, 4 * b * a, 3 * a * a + 4 * b * a, -a, 3 * a * a + 4 * b * a - a],
    )


RECORDED = [
    (lambda a, b: a - b, ["Negate", "EWiseAdd"]),
    (lambda a, b: a - 3, ["AddScalar"]),
    (lambda a, b: 3 - a, ["Negate", "AddScalar"]),
    (lambda a, b: 3 * a, ["MulScalar"]),
    (lambda a, b: a / 3, ["DivScalar"]),
    (lambda a, b: a**2, ["PowerScalar"]),
    (lambda a, b: a**b, ["EWisePow"]),
    (lambda a, b: a / b, ["EWiseDiv"]),
    (lambda a, b: a @ b, ["MatMul"]),
    (lambda a, b: ops.add_scalar(a, 2) + ops.multiply(a, b), ["AddScalar", "EWiseMul", "EWiseAdd"]),
    (lambda a, b: a + ops.summation(b, axes=(0, 1)), ["Summation", "BroadcastTo", "EWiseAdd"]),
]


@pytest.mark.parametrize(("function", "expected"), RECORDED)
def test_what_a_graph_records(tensor, function, expected):
    a, b = tensor(np.full((2, 2), 2.0)), tensor(np.full((2, 2), 3.0))
    nodes = autograd.find_topo_sort([function(a, b)])
    assert [type(node.op).__name__ for node in nodes if node.op is not None] == expected


def test_scalar_of_a_subtraction(tensor):
    assert (tensor([1.0]) - 3).op.scalar == -3
    assert (3 * tensor([1.0])).op.scalar == 3


def test_results_without_a_gradient_are_leaves(tensor):
    x = tensor([1.0], requires_grad=False)
    y = x * x + 1
    assert y.is_leaf()
    assert not y.requires_grad
    assert len(y.inputs) == 0


def test_compute_gradient_of_variables_sums_and_sets(tensor):
    x = tensor([3.0])
    y = x * x + x
    autograd.compute_gradient_of_variables(y, tensor([1.0]))
    assert_close(x.grad, [7.0])


def test_second_backward_replaces_unless_told(tensor):
    x = tensor([3.0])
    for _ in range(2):
        (x * x).backward()
        assert_close(x.grad, [6.0])
    (x * x).backward(accumulate=True)
    assert_close(x.grad, [12.0])


def test_grad_of_other_tensors_warns_once(tensor):
    x = tensor([3.0])
    y = x * x
    z = y * y
    z.backward()
    with pytest.warns(UserWarning, match="retain_grad"):
        assert y.grad is None
    assert y.grad is None  # a second warning would be an error
    w = x * x
    w.retain_grad()
    (w * w).backward()
    assert_close(w.grad, [18.0])


def test_grads_of_grads_without_a_flag(tensor):
    x = tensor([2.0])
    y = x**4
    y.backward()
    assert_close(x.grad, [32.0])
    for expected in (48.0, 48.0, 24.0):
        x.grad.backward()
        assert_close(x.grad, [expected])


def test_plain_backward_records_nothing_and_keeps_nothing(tensor):
    x = tensor(np.ones(10))
    hidden = ops.exp(x)
    y = (hidden * hidden).sum()
    y.backward()
    assert x.grad.is_leaf()
    assert not x.grad.requires_grad
    activation = weakref.ref(hidden)
    del hidden, y
    assert activation() is None, "without waiting for the garbage collector"
    with pytest.raises(GradientError, match="create_graph=True"):
        x.grad.backward()


def test_backward_without_a_graph_names_create_graph(tensor):
    with pytest.raises(GradientError, match="create_graph=True"):
        tensor([1.0], requires_grad=False).backward()


def test_replay_notices_changes(tensor):
    x, w = tensor([2.0]), tensor([3.0])
    y = x**3 * w
    y.backward()
    w.data = tensor([5.0])
    with pytest.raises(GradientError):
        x.grad.backward()


def test_create_graph(tensor):
    x = tensor([2.0])
    (x**3).backward(create_graph=True)
    gradient = x.grad
    gradient.backward()
    assert_close(gradient, [12.0])
    assert_close(x.grad, [12.0])
    (first,) = ndl.grad([x**3], [x], create_graph=True)
    (second,) = ndl.grad([first * first], [x])
    assert_close(second, [2 * 12 * 12.0])


def test_computing_with_grad_never_replays(tensor):
    x = tensor([2.0])
    y = x**3
    y.backward()
    step = x - 0.1 * x.grad
    assert x.grad.is_leaf()
    step.backward()
    assert_close(x.grad, [1.0])


def test_gradients_are_summed_per_argument(tensor):
    x = tensor([2.0, 3.0])
    y = x
    for _ in range(3):
        y = y + x
    y.backward()
    assert_close(x.grad, [4.0, 4.0])


def test_lazy_mode_gives_the_same_bits(tensor):
    values = np.random.randn(4, 4)

    def run():
        x = tensor(values)
        y = ops.tanh(x @ x) / 3 + x
        y.sum().backward()
        return y.numpy().tobytes(), x.grad.numpy().tobytes()

    eager = run()
    autograd.LAZY_MODE = True
    try:
        assert run() == eager
        node = ops.exp(tensor([0.0]))
        assert node.numpy().tolist() == [1]
    finally:
        autograd.LAZY_MODE = False


def test_lazy_mode_defers_until_realized(monkeypatch):
    class Noted(ndl.TensorOp):
        def compute(self, a):
            computed.append(a)
            return a + 1

    computed: list[nd.NDArray] = []
    monkeypatch.setattr(autograd, "LAZY_MODE", True)
    y = Noted()(ops.exp(Noted()(ndl.Tensor([1.0]))))
    assert not computed
    assert isinstance(y.realize_cached_data(), nd.NDArray)
    assert len(computed) == 2
    assert y.realize_cached_data() is y.cached_data
    assert len(computed) == 2


def trained_cnn(device):
    data = ndl.data.Digits(train=True)
    loader = ndl.data.DataLoader(NDArrayDataset(*data[:60]), 20, shuffle=True, device=device)
    model = nn.Sequential(
        nn.Conv(1, 4, 3, device=device), nn.BatchNorm2d(4, device=device), nn.ReLU(), nn.MaxPool2d(2),
        nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 10, device=device),
    )  # fmt: skip
    simple_ml.train_cifar10(model, loader, n_epochs=2)
    return model


def trained_language_model(kind):
    def trained(device):
        text = ndl.data.batchify(list(np.random.randint(0, 12, 100)), 4)
        model = models.LanguageModel(6, 12, 8, 2, kind, seq_len=5, device=device)
        simple_ml.train_ptb(model, text, seq_len=5, n_epochs=2, clip=0.25, device=device)
        return model

    return trained


@pytest.mark.parametrize(
    "trained",
    [trained_cnn, *map(trained_language_model, ("rnn", "lstm", "transformer"))],
    ids=["cnn", "rnn", "lstm", "transformer"],
)
def test_training_lazily_gives_the_same_weights(trained, device, monkeypatch):
    def weights():
        np.random.seed(0)
        return {name: array.tobytes() for name, array in trained(device).state_dict().items()}

    eager = weights()
    monkeypatch.setattr(autograd, "LAZY_MODE", True)
    assert weights() == eager


def test_tensor_counter(tensor):
    before = autograd.TENSOR_COUNTER
    kept = [tensor([1.0]) for _ in range(7)]
    assert before + len(kept) == autograd.TENSOR_COUNTER
    del kept
    gc.collect()
    assert before == autograd.TENSOR_COUNTER


def test_tensor_counter_is_bounded_by_training(device):
    model = nn.Sequential(
        nn.Linear(4, 8, device=device), nn.BatchNorm1d(8, device=device), nn.ReLU(), nn.Linear(8, 2, device=device)
    )
    for make in (ndl.optim.SGD, ndl.optim.Adam):
        opt = make(model.parameters(), lr=0.01, weight_decay=0.001)
        counts = []
        for _ in range(4):
            opt.reset_grad()
            loss = nn.SoftmaxLoss()(
                model(ndl.init.randn(5, 4, device=device)), ndl.Tensor([0, 1, 0, 1, 1], device=device)
            )
            loss.backward()
            opt.step()
            counts.append(autograd.TENSOR_COUNTER)
        assert counts[1] == counts[3]
        assert counts[3] < 100
