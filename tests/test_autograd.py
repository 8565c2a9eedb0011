"""The graph and the backward pass, apart from any one op."""

import copy
import gc
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest

import needle as ndl
from needle import autograd
from needle.autograd import TensorOp, TensorTuple, TensorTupleOp, find_topo_sort
from needle.errors import DTypeError, GradientError, ShapeError
from needle.gradients import differentiate


def leaf(*values, dtype="float64"):
    return ndl.Tensor(list(values), dtype=dtype)


# Gradients of gradients


@pytest.mark.parametrize("order, expected", [*enumerate([16.0, 32.0, 48.0, 48.0, 24.0, 0.0, 0.0])])
def test_any_order_without_a_flag(order, expected):
    x = leaf(2.0)
    y = x**4
    value = y
    for _ in range(order):
        value.backward()
        value = x.grad
    assert value.item() == expected


def test_a_leaf_that_the_first_gradient_does_not_depend_on_gets_zeros():
    x, z, w = leaf(2.0), leaf(5.0), leaf(1.0)
    y = x * z + w
    y.backward()
    x.grad.backward()
    assert [t.grad.item() for t in (x, z, w)] == [0.0, 1.0, 0.0]


def test_a_replay_goes_through_several_leaves_and_retained_gradients():
    x, z = leaf(2.0), leaf(3.0)
    h = x * z
    h.retain_grad()
    y = h * h * x
    y.backward()
    h.grad.backward()  # dy/dh = 2 h x = 2 x^2 z
    assert x.grad.item() == 4 * 2 * 3 and z.grad.item() == 2 * 4


def test_a_replay_needs_the_output():
    x = leaf(2.0)
    (x * x).backward()
    with pytest.raises(GradientError, match="create_graph=True"):
        x.grad.backward()


def test_computing_with_a_gradient_records_nothing():
    x = leaf(2.0)
    y = x * x
    y.backward()
    assert (x.grad * 3).op is None
    with pytest.raises(GradientError, match="create_graph=True"):
        (x.grad * 3).backward()


def test_create_graph_records():
    x = leaf(2.0)
    (x * x * x).backward(create_graph=True)
    (x.grad * x.grad).backward()  # d(9 x^4)/dx
    assert x.grad.item() == 36 * 8


def test_grad_leaves_grads_alone_and_differentiates_again():
    x, y = leaf(2.0), leaf(5.0)
    z = x * x * y
    dx, dy = ndl.grad(z, [x, y], create_graph=True)
    assert (dx.item(), dy.item()) == (20.0, 4.0)
    (dxy,) = ndl.grad(dx, y)
    assert dxy.item() == 4.0 and x.grad is None


def test_grad_of_results_of_ops_and_of_what_is_not_reached():
    x, other = leaf(2.0), leaf(1.0)
    h = x * x
    (dh, dx) = ndl.grad(h * h, (h, x))
    assert (dh.item(), dx.item()) == (8.0, 32.0)
    with pytest.raises(GradientError, match=r"inputs \[1\].*allow_unused"):
        ndl.grad(h, (x, other))
    assert ndl.grad(h, (x, other), allow_unused=True)[1] is None


def test_grad_sums_over_outputs_and_weighs_them():
    x = leaf(2.0, 3.0)
    (dx,) = ndl.grad([x * x, x], x, [ndl.Tensor([1.0, 10.0], dtype="float64"), None])
    assert dx.numpy().tolist() == [5.0, 61.0]
    with pytest.raises(ShapeError, match="grad: 2 grad_outputs for 3 outputs"):
        ndl.grad([x, x, x], x, [None, None])


def test_differentiate_takes_inputs_as_independent():
    x = leaf(3.0)
    h = x * x
    dx, dh = differentiate(lambda x, h: x * h, [x, h], leaf(1.0))
    assert (dx.item(), dh.item()) == (9.0, 3.0)


def test_differentiate_is_recorded_when_recording_is_on():
    x = leaf(3.0)
    (dx,) = differentiate(lambda x: x * x * x, [x], leaf(1.0))
    dx.backward()
    assert x.grad.item() == 18.0
    with ndl.no_grad():
        assert differentiate(lambda x: x * x * x, [x], leaf(1.0))[0].op is None


# Accumulating, replacing, freeing


def test_a_second_backward_replaces_or_adds():
    x = leaf(3.0)
    y = x * x
    y.backward()
    y.backward()
    assert x.grad.item() == 6.0
    y.backward(accumulate=True)
    assert x.grad.item() == 12.0


def test_free_graph_gives_memory_back_and_says_so():
    x = leaf(3.0)
    h = x * x
    memory = weakref.ref(h)
    y = h * 2
    del h
    y.backward(free_graph=True)
    assert memory() is None and x.grad.item() == 12.0
    with pytest.raises(GradientError, match="free_graph"):
        y.backward()


def test_a_freed_graph_does_not_pass_for_a_leaf():
    x = leaf(3.0)
    h = x * x
    y, z = h * 2, h * 3
    y.backward(free_graph=True)
    with pytest.raises(GradientError, match="free_graph"):
        z.backward()


def test_a_plain_backward_keeps_no_activation():
    x = leaf(3.0)
    h = x * x
    memory = weakref.ref(h)
    y = h * h
    y.backward()
    gc.disable()
    try:
        del h, y
        assert memory() is None
    finally:
        gc.enable()
    assert x.grad.op is None


def test_gradients_of_two_leaves_are_tensors_of_their_own():
    x, y = leaf(1.0), leaf(2.0)
    (x + y).backward()
    x.grad.data = leaf(7.0)
    assert y.grad.item() == 1.0


def test_out_grad_is_copied():
    x, seed = leaf(1.0), leaf(4.0)
    (x + 1).backward(seed)
    seed.cached_data[...] = 9.0
    assert x.grad.item() == 4.0


def test_a_failing_backward_sets_nothing():
    class Fails(TensorOp):
        def compute(self, a):
            return a * 1

        def gradient(self, out_grad, node):
            raise RuntimeError("no")

    x, y = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="no"):
        (Fails()(x) + y).backward()
    assert x.grad is None and y.grad is None


# Changed values


@pytest.mark.parametrize("change", ["data", "in place", "through a view", "fill"])
def test_a_changed_value_raises_where_backward_needs_it(change):
    x, y = leaf(3.0), leaf(4.0)
    z = x * y
    if change == "data":
        x.data = leaf(10.0)
    elif change == "in place":
        x.cached_data[...] = 10.0
    elif change == "through a view":
        x.detach().cached_data.reshape((1, 1))[...] = 10.0
    else:
        x.cached_data.fill(10.0)
    with pytest.raises(GradientError, match="changed"):
        z.backward()


def test_a_changed_value_that_backward_does_not_need_is_fine():
    x, y = leaf(3.0), leaf(4.0)
    z = x + y
    x.data = leaf(10.0)
    z.backward()
    assert y.grad.item() == 1.0


def test_a_changed_result_raises():
    x = leaf(1.0)
    y = x.exp()
    y.cached_data[...] = 5.0
    with pytest.raises(GradientError, match="result of Exp"):
        y.backward()


def test_a_replay_after_an_update_raises():
    x = leaf(3.0)
    y = x * x
    y.backward()
    x.data = leaf(1.0)
    with pytest.raises(GradientError, match="changed"):
        x.grad.backward()


def test_a_gradient_changed_in_place_cannot_be_replayed():
    x = leaf(3.0)
    y = x * x
    y.backward()
    x.grad.cached_data[...] = 1.0
    with pytest.raises(GradientError, match="changed in place"):
        x.grad.backward()


# What gradient returns


class Wrong(TensorOp):
    def __init__(self, result):
        self.result = result

    def compute(self, a, b):
        return a + b

    def gradient(self, out_grad, node):
        return self.result(out_grad)


@pytest.mark.parametrize(
    "result, message",
    [
        (lambda g: g, "Wrong.gradient returned 1 gradients for 2 inputs"),
        (lambda g: (g, g, g), "Wrong.gradient returned 3 gradients for 2 inputs"),
        (lambda g: None, "Wrong.gradient returned None; return a gradient for each input"),
        (lambda g: (g, g.numpy()), "Wrong.gradient returned an ndarray for input 1"),
        (lambda g: (g, g.sum()), r"Wrong.gradient returned shape \(\) for input 1 of shape \(2,\)"),
    ],
)
def test_wrong_gradients_name_the_op(result, message):
    x = leaf(1.0, 2.0)
    with pytest.raises(GradientError, match=message):
        Wrong(result)(x, x).backward()


def test_none_stands_for_no_gradient():
    x, y = leaf(1.0), leaf(2.0)
    Wrong(lambda g: (g, None))(x, y).backward()
    assert x.grad.item() == 1.0 and y.grad is None


def test_compute_may_return_ndarrays_and_numbers():
    class WithNumPy(TensorOp):
        def compute(self, a):
            return np.log(a) + np.swapaxes(a, 0, 1)

    class Number(TensorOp):
        def compute(self, a):
            return 3

    a = ndl.Tensor(np.ones((2, 2)), dtype="float64")
    assert WithNumPy()(a).dtype == "float64"
    assert Number()(a).dtype == "float64" and Number()(a).item() == 3.0


class Computes(TensorOp):
    def __init__(self, result):
        self.result = result

    def compute(self, a):
        return self.result


class ComputesTuple(Computes, TensorTupleOp):
    __call__ = TensorTupleOp.__call__


@pytest.mark.parametrize(
    "kind, result, message",
    [
        (Computes, None, "Computes.compute returned None; return an array"),
        (Computes, "one", "Computes.compute: expected real numbers"),
        (Computes, [[1.0], [1.0, 2.0]], "Computes.compute: .*inhomogeneous"),
        (Computes, np.ones(1, "float16"), "Computes.compute: arrays cannot have dtype float16"),
        (ComputesTuple, None, "ComputesTuple.compute returned None; return a tuple of arrays"),
        (ComputesTuple, 3, "ComputesTuple.compute returned an int; return a tuple of arrays"),
        (ComputesTuple, (None,), "ComputesTuple.compute returned None; return an array"),
    ],
)
def test_a_wrong_result_names_the_op(kind, result, message):
    with pytest.raises((DTypeError, ShapeError), match=f"^{message}"):
        kind(result)(leaf(1.0))


def test_a_forgotten_return_in_an_op_of_one_input():
    class Cube(TensorOp):
        def compute(self, a):
            return a**3

        def gradient(self, out_grad, node):
            out_grad * 3 * node.inputs[0] ** 2

    with pytest.raises(GradientError, match=r"^Cube.gradient returned None; return a gradient"):
        Cube()(leaf(2.0)).backward()


def test_a_missing_method_is_named_with_what_it_takes():
    class Empty(TensorOp):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty: define compute\(\), from arrays to an array"):
        Empty()(leaf(1.0))
    with pytest.raises(NotImplementedError, match=r"Computes: define gradient\(out_grad, node\)"):
        Computes(1.0)(leaf(1.0)).backward()


@pytest.mark.parametrize(
    "argument, message",
    [
        (None, r"got None; a forward\(\) or a function that forgot its `return` gives None"),
        (leaf(1.0).cached_data, r"NDArray; inside compute\(\) use its own .*NumPy's functions; elsewhere wrap"),
        (3, "got an int; wrap it in needle.Tensor"),
    ],
)
def test_what_is_no_tensor_is_told_what_it_may_be(argument, message):
    with pytest.raises(DTypeError, match=message):
        ndl.exp(argument)


@pytest.mark.parametrize("argument", [np.ones(1), 3.0, [1.0]])
def test_an_op_takes_only_tensors(argument):
    with pytest.raises(DTypeError, match=r"Wrong: an input must be a needle.autograd.Tensor"):
        Wrong(None)(leaf(1.0), argument)


def test_two_imports_of_the_package_are_recognised():
    value = type("Value", (), {"__module__": "elsewhere.autograd"})
    other = type("Tensor", (value,), {"__module__": "elsewhere.autograd"})()
    with pytest.raises(TypeError, match=r"needle.autograd.Tensor, got an elsewhere.autograd.Tensor.*two names"):
        Wrong(None)(leaf(1.0), other)


def test_tuples_add_and_differentiate():
    class Twice(TensorTupleOp):
        def compute(self, a):
            return a * 2, a * 3

        def gradient(self, out_grad, node):
            return out_grad[0] * 2 + out_grad[1] * 3

    x = leaf(1.0)
    both = Twice()(x)
    assert isinstance(both, TensorTuple) and len(both) == 2 and both.shape == ((1,), (1,))
    (both[0] * 10 + both[1] * 100 + both[1]).backward()
    assert x.grad.item() == 20 + 300 + 3
    assert [t.item() for t in both + both] == [4.0, 6.0]
    assert both.detach().op is None and "TensorTuple(Tensor(" in repr(both)


# Hooks, retained gradients, warnings


def test_hooks_see_the_sum_and_may_replace_it():
    x, seen = leaf(1.0), []
    remove = x.register_hook(lambda g: seen.append(g.item()))
    x.register_hook(lambda g: g * 10)
    (x * 2 + x * 3).backward()
    assert seen == [5.0] and x.grad.item() == 50.0
    remove()
    (x * 2).backward()
    assert seen == [5.0] and x.grad.item() == 20.0


def test_reading_an_inner_gradient_warns_once():
    x = leaf(1.0)
    h = x * 2
    y = h * 3
    assert h.grad is None  # no backward yet: no warning
    y.backward()
    with pytest.warns(UserWarning, match="retain_grad"):
        assert h.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert h.grad is None


def test_retain_grad():
    x = leaf(1.0)
    h = x * 2
    h.retain_grad()
    (h * 3).backward()
    assert h.grad.item() == 3.0


# Modes


def test_no_grad_undoes_itself_on_an_exception_and_nests():
    with pytest.raises(RuntimeError), ndl.no_grad():
        raise RuntimeError
    assert ndl.is_grad_enabled()
    with ndl.no_grad(), ndl.enable_grad():
        assert ndl.is_grad_enabled()
    mode = ndl.no_grad()
    with mode, mode:
        assert not ndl.is_grad_enabled()
    assert ndl.is_grad_enabled()


def test_no_grad_decorates():
    @ndl.no_grad()
    def square(x):
        return x * x

    assert square(leaf(2.0)).op is None


def test_no_grad_belongs_to_its_thread():
    seen = []
    with ndl.no_grad():
        thread = threading.Thread(target=lambda: seen.append(ndl.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


@pytest.fixture
def lazy(monkeypatch):
    monkeypatch.setattr(autograd, "LAZY_MODE", True)


def test_lazy_mode_computes_when_asked(lazy):
    ran = []

    class Records(TensorOp):
        def compute(self, a):
            ran.append(1)
            return a * 2

        def gradient(self, out_grad, node):
            return out_grad * 2

    x = leaf(3.0)
    y = Records()(Records()(x))
    assert not ran and not y.is_leaf()
    assert y.realize_cached_data().numpy().tolist() == [12.0] and len(ran) == 2
    y.backward()
    assert x.grad.item() == 4.0 and len(ran) == 2


def test_lazy_mode_refuses_changed_inputs(lazy):
    x = leaf(3.0)
    y = x * 2
    x.data = leaf(1.0)
    with pytest.raises(GradientError, match=r"MulScalar: an input .* was changed before"):
        y.numpy()


def test_lazy_chain_of_any_length(lazy):
    x = leaf(1.0)
    y = x
    for _ in range(5000):
        y = y + 1
    assert y.item() == 5001.0


def test_tensor_counter_counts_live_values():
    before = autograd.TENSOR_COUNTER
    kept = [leaf(1.0) for _ in range(3)]
    assert autograd.TENSOR_COUNTER == before + 3
    del kept
    assert autograd.TENSOR_COUNTER == before
    with pytest.raises(AttributeError, match="NOTHING"):
        getattr(autograd, "NOTHING")  # noqa: B009


# Conveniences


def test_topological_order():
    x, y = leaf(1.0), leaf(2.0)
    a = x * y
    b = a + x
    assert find_topo_sort([b]) == [x, y, a, b]
    assert find_topo_sort([a, b]) == [x, y, a, b]
    assert find_topo_sort([b], stop=[a]) == [a, x, b]


def test_scalars_convert():
    x = leaf(2.5)
    assert (float(x), int(x), bool(x), x.item(), f"{x:.2f}") == (2.5, 2, True, 2.5, "2.50")
    with pytest.raises(ShapeError, match=r"item: shape \(2,\) has 2 elements"):
        float(leaf(1.0, 2.0))


def test_len_and_iteration():
    x = ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [row.numpy().tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(TypeError, match="len"):
        len(x.sum())


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: ndl.Tensor([1.0, 2.0]), "Tensor([1., 2.])"),
        (lambda: leaf(1.0).detach(), "Tensor([1.], dtype=float64, requires_grad=False)"),
        (lambda: ndl.Tensor([1.0]) + 1, "Tensor([2.], op=AddScalar)"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text


def test_tensor_from_tensor_shares_or_converts():
    x = leaf(1.0)
    assert ndl.Tensor(x).cached_data is x.cached_data
    assert ndl.Tensor(x, dtype="float32").dtype == "float32"
    array = np.ones(2, "float32")
    t = ndl.Tensor(array)
    array[0] = 5
    assert t.numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "value, message", [(np.ones(1), "expected a Tensor"), (leaf(1.0, dtype="float32"), "dtype float64")]
)
def test_data_takes_a_tensor_of_the_same_dtype(value, message):
    x = leaf(1.0)
    with pytest.raises(DTypeError, match=message):
        x.data = value


def test_out_grad_of_another_shape():
    with pytest.raises(ShapeError, match=r"backward: out_grad has shape \(2,\), the tensor \(1,\)"):
        leaf(1.0).backward(leaf(1.0, 2.0))


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_leaves_with_their_gradient(clone):
    x = leaf(1.0)
    (x * 5).backward()
    first, second = clone([x, x])
    assert first is second and first is not x
    assert first.grad.item() == 5.0 and first.requires_grad
    first.cached_data[...] = 9.0
    assert x.item() == 1.0
    assert clone(x * 2).op is None


def test_numpy_beside_a_tensor():
    x = leaf(2.0)
    for y in (np.float64(3) * x, np.array([3.0]) * x, x * np.array([3.0]), x * np.float32(3)):
        assert isinstance(y, ndl.Tensor) and y.item() == 6.0 and y.dtype == "float64"
    np.testing.assert_allclose(np.exp(x), np.exp([2.0]))


@pytest.mark.parametrize("wrong", [lambda g: g.sum(), lambda g: 5, lambda g: g.numpy()])
def test_a_hook_gives_a_gradient_of_the_same_kind_and_shape(wrong):
    x = ndl.Tensor([1.0, 2.0])
    x.register_hook(wrong)
    with pytest.raises(GradientError, match=r"hook: a gradient of shape \(2,\) was replaced by"):
        (x * 2).backward()
    with pytest.raises(DTypeError, match="register_hook: expected a function of the gradient, got a str"):
        x.register_hook("print")


@pytest.mark.parametrize("options", [{}, {"create_graph": True}])
def test_a_gradient_has_the_dtype_of_what_it_begins_with(options):
    for dtype, other in (("float32", "float64"), ("float64", "float32")):
        x = ndl.Tensor([1.0, 2.0], dtype=dtype)
        (x * 2).backward(ndl.Tensor([1.0, 3.0], dtype=other), **options)
        assert x.grad.dtype == dtype
        assert ndl.grad(x * 2, x, ndl.Tensor([1.0, 3.0], dtype=other))[0].dtype == dtype


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: setattr(x, "grad", np.ones(1)), "grad: expected a Tensor or None, got an ndarray"),
        (lambda x: ndl.grad(None, x), "grad: outputs must be Tensors, got None"),
        (lambda x: ndl.grad([np.ones(1)], x), "grad: outputs must be Tensors, got an ndarray"),
        (lambda x: ndl.grad(x * 2, [3.0]), "grad: inputs must be Tensors, got a float"),
        (lambda x: ndl.Tensor(x, dtype="text"), "Tensor: arrays cannot have dtype text"),
        (lambda x: ndl.ops.split(x, 0)["a"], "tuple_get_item: the index must be an int, got 'a'"),
        (lambda x: ndl.ops.split(x, 0)[0:1], "tuple_get_item: the index must be an int"),
    ],
)
def test_wrong_kinds_of_arguments(call, said):
    with pytest.raises(DTypeError, match=said):
        call(ndl.Tensor([1.0]))


def test_grad_takes_an_ndarray_as_the_gradient_of_the_output():
    x = ndl.Tensor([1.0, 2.0])
    assert ndl.grad(x * 2, x, np.array([1.0, 3.0]))[0].numpy().tolist() == [2, 6]
