"""needle.optim.optimizer: groups, hyperparameters, what a step touches, saving, errors; for every optimizer."""

import json

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.errors import DeviceError, DTypeError, GradientError, OptionError, ShapeError
from tests.tolerances import assert_close

OPTIMIZERS = {
    "SGD": lambda ps, **k: optim.SGD(ps, **{"lr": 0.1, **k}),
    "momentum": lambda ps, **k: optim.SGD(ps, **{"lr": 0.1, "momentum": 0.9, **k}),
    "dampening": lambda ps, **k: optim.SGD(ps, **{"lr": 0.1, "momentum": 0.9, "dampening": 0.5, **k}),
    "nesterov": lambda ps, **k: optim.SGD(ps, **{"lr": 0.1, "momentum": 0.9, "dampening": 0, "nesterov": True, **k}),
    "Adam": lambda ps, **k: optim.Adam(ps, **{"lr": 0.1, "weight_decay": 0.1, **k}),
    "AdamW": lambda ps, **k: optim.AdamW(ps, **{"lr": 0.1, **k}),
}


@pytest.fixture(params=OPTIMIZERS)
def make(request):
    return OPTIMIZERS[request.param]


def parameter(value, grad=None, **options):
    p = nn.Parameter(value, **options)
    if grad is not None:
        p.grad = ndl.Tensor(grad, dtype=p.dtype, device=p.device)
    return p


def train(model, opt, steps, seed=0):
    rng = np.random.RandomState(seed)
    for _ in range(steps):
        x = ndl.Tensor(rng.randn(8, 4), dtype=model.parameters()[0].dtype, device=model.parameters()[0].device)
        opt.reset_grad()
        (model(x) ** 2).sum().backward()
        opt.step()


# Which parameters


def test_any_iterable_and_each_parameter_once(make):
    p, q = parameter([1.0], [1.0]), parameter([1.0], [1.0])
    opt = make(x for x in (p, q, p, q))
    assert opt.params == [p, q]
    opt.step()
    assert p.item() == q.item()
    single = parameter([1.0], [1.0])
    make([single]).step()
    assert p.item() == single.item()


def test_frozen_and_gradientless_parameters_are_left_alone(make):
    frozen, missing, moved = parameter([1.0], [1.0]), parameter([1.0]), parameter([1.0], [1.0])
    frozen.requires_grad = False
    opt = make([frozen, missing, moved])
    opt.step()
    assert frozen.item() == missing.item() == 1 != moved.item()
    frozen.requires_grad, missing.grad = True, ndl.Tensor([1.0])
    opt.step()
    assert frozen.item() != 1 and missing.item() != 1


def test_gradients_are_not_changed_and_can_be_cleared(make):
    p = parameter([1.0, 2.0], [3.0, 4.0])
    grad, opt = p.grad, make([p])
    opt.step()
    assert p.grad is grad and grad.numpy().tolist() == [3, 4]
    for clear in (opt.reset_grad, opt.zero_grad):
        p.grad = grad
        clear()
        assert p.grad is None


# Groups and hyperparameters


def test_groups_have_their_own_hyperparameters():
    p, q, r = (parameter([1.0], [1.0]) for _ in range(3))
    opt = optim.SGD([{"params": [p]}, {"params": q, "lr": 0.5}, {"params": iter([r]), "weight_decay": 2.0}], lr=0.1)
    opt.step()
    assert_close(np.array([p.item(), q.item(), r.item()]), [0.9, 0.5, 0.7], rtol=1e-6)
    assert [len(group["params"]) for group in opt.param_groups] == [1, 1, 1]
    assert optim.SGD.lr is vars(optim.SGD)["lr"]  # of the class, the attribute itself
    with pytest.raises(AttributeError, match="SGD: lr differs between groups"):
        opt.lr  # noqa: B018
    opt.lr = 0.25
    assert opt.lr == 0.25 and [group["lr"] for group in opt.param_groups] == [0.25] * 3
    opt.add_param_group({"params": [parameter([1.0])], "lr": 1.0})
    assert opt.param_groups[3]["lr"] == 1.0 and len(opt.params) == 4


def test_hyperparameters_are_attributes():
    p = parameter([1.0], [1.0])
    sgd, adam = optim.SGD([p], 0.5, 0.9, 0.1), optim.Adam([p], 0.5, 0.8, 0.9, 1e-3, 0.1)
    assert (sgd.lr, sgd.momentum, sgd.weight_decay, sgd.dampening, sgd.nesterov) == (0.5, 0.9, 0.1, None, False)
    assert (adam.lr, adam.beta1, adam.beta2, adam.eps, adam.weight_decay, adam.t) == (0.5, 0.8, 0.9, 1e-3, 0.1, 0)
    adam.step()
    assert adam.t == 1 and adam.m[p].numpy() == pytest.approx(0.2 * 1.1) and adam.v[p].shape == (1,)
    sgd.step()
    assert sgd.u[p].shape == (1,)
    assert "lr=0.5" in repr(sgd) and "1 parameters" in repr(sgd)


def test_course_style_subclass():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params)
            self.lr = lr

        def step(self):
            for p in self.params:
                p.data = p.data - self.lr * ndl.Tensor(np.sign(p.grad.numpy()))

    p = parameter([1.0], [-3.0])
    Sign([p], lr=0.5).step()
    assert p.item() == 1.5
    with pytest.raises(NotImplementedError, match="Optimizer: define _update"):
        optim.Optimizer([p]).step()


# What a step does to memory, dtypes, graphs


def test_parameters_keep_dtype_and_memory(device, dtype, make):
    p = parameter([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0], [1.0, 1.0]], device=device, dtype=dtype)
    view, handle, version = p.data, p.cached_data._handle, p.version
    opt = make([p], lr=np.float64(0.1), weight_decay=np.float32(0.1))
    opt.step()
    assert p.dtype == dtype and p.cached_data._handle is handle and p.version != version
    assert (view.numpy() == p.numpy()).all(), "p.data taken before shows the step"
    assert all(array.dtype == dtype for arrays in opt._states().values() for array in arrays.values())


def test_parameter_in_any_layout(make):
    values, grads = np.arange(12.0).reshape(3, 4), np.arange(12.0)[::-1].reshape(3, 4) / 10
    plain = parameter(values, grads)
    make([plain]).step()
    turned = ndl.Tensor(np.ascontiguousarray(values.T)).cached_data.permute((1, 0))
    rows = ndl.Tensor(np.repeat(values, 2, 0)).cached_data[::2, :]
    for array in (turned, rows):
        p = ndl.Tensor.make_const(array, requires_grad=True)
        p.grad = ndl.Tensor.make_const(ndl.Tensor(np.ascontiguousarray(grads.T)).cached_data.permute((1, 0)))
        make([p]).step()
        assert_close(p, plain.numpy())
    p = ndl.Tensor.make_const(ndl.Tensor([1.0]).cached_data.broadcast_to((3,)), requires_grad=True)
    p.grad = ndl.Tensor([1.0, 2.0, 3.0])
    spread = parameter([1.0] * 3, [1.0, 2.0, 3.0])
    make([p]).step()
    make([spread]).step()
    assert_close(p, spread.numpy())


def test_empty_and_scalar_parameters(make):
    empty, scalar = parameter(np.zeros((0, 3)), np.zeros((0, 3))), parameter(np.float32(1.0), np.float32(1.0))
    make([empty, scalar]).step()
    assert empty.shape == (0, 3) and scalar.item() != 1


def test_no_graph_is_kept_alive(make):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = make(model.parameters())
    counts = []
    for steps in (2, 6):
        train(model, opt, steps)
        opt.clip_grad_norm(1.0)
        counts.append(ndl.autograd.TENSOR_COUNTER)
    assert counts[0] == counts[1]
    assert all(isinstance(array, ndl.NDArray) for arrays in opt._states().values() for array in arrays.values())


def test_backward_after_a_step_needs_the_forward_pass_again(make):
    p = parameter([2.0])
    y = p * p
    y.backward()
    make([p]).step()
    with pytest.raises(GradientError, match="changed"):
        y.backward()


# Saving


def test_resumes_bit_for_bit(device, make):
    np.random.seed(1)
    models = [nn.Sequential(nn.Linear(4, 8, device=device), nn.Tanh(), nn.Linear(8, 1, device=device)) for _ in "abc"]
    whole, first, second = models
    first.load_state_dict(whole.state_dict())
    opt = make(whole.parameters())
    train(whole, opt, 3)
    train(whole, opt, 4, seed=1)
    opt = make(first.parameters())
    opt.lr = 0.1
    train(first, opt, 3)
    state, weights = opt.state_dict(), first.state_dict()
    train(first, opt, 1)  # a state is a copy
    second.load_state_dict(weights)
    opt = make(second.parameters(), lr=7.0)
    opt.load_state_dict(state)
    assert opt.lr == 0.1 and opt.t == 3
    train(second, opt, 4, seed=1)
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_state_is_plain_data_and_arrays():
    p = parameter([1.0, 2.0], [1.0, 1.0])
    opt = optim.Adam([p, parameter([1.0])])
    opt.step()
    twin = optim.Adam([p, parameter([1.0])])
    twin.load_state_dict(json.loads(json.dumps(opt.state_dict(), default=np.ndarray.tolist)))
    assert_close(twin.m[p], opt.m[p].numpy())


def test_state_of_groups_by_numbers():
    p, q, r = (parameter([1.0], [1.0]) for _ in range(3))
    opt = optim.Adam([{"params": [p, q]}, {"params": [r], "lr": 0.5}])
    q.grad = None
    opt.step()
    state = opt.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2]]
    for name in ("m", "v"):
        assert [array is None for array in state["state"][name]] == [False, True, False]
    twin = optim.Adam([{"params": [p, q]}, {"params": [r]}])
    twin.load_state_dict(state)
    assert twin.param_groups[1]["lr"] == 0.5 and set(twin.m) == {p, r}


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda s: s.pop("t"), "missing t"),
        (lambda s: s["param_groups"].pop(), r"groups of \[\] parameters, expected \[2\]"),
        (lambda s: s["param_groups"][0].pop("lr"), "missing lr"),
        (lambda s: s["state"].update(u={}), r"state of \['m', 'u', 'v'\], expected \['m', 'v'\]"),
        (lambda s: s["state"]["m"].__setitem__(0, np.zeros(3)), r"m of parameter 0 has shape \(3,\), expected \(1,\)"),
        (lambda s: s["state"]["v"].pop(), "v of 1 parameters, expected 2"),
        (lambda s: s["state"]["v"].__setitem__(1, [[1], [1, 2]]), "v of parameter 1: "),
        (lambda s: s["state"]["v"].__setitem__(1, np.array(["x"])), "v of parameter 1: expected real numbers"),
        (lambda s: s["param_groups"][0].update(lr=-1.0), "lr must be at least 0, got -1.0"),
        (lambda s: s["param_groups"][0].update(lr=0.5, beta1="0.9"), "beta1 must be a number, got a str"),
        (lambda s: s.update(t="one"), "t must be a whole number"),
        (lambda s: s.update(t=-1), "t must be at least 0"),
    ],
)
def test_state_that_does_not_fit(change, said):
    p, q = parameter([1.0], [1.0]), parameter([1.0], [1.0])
    opt = optim.Adam([p, q])
    opt.step()
    state = opt.state_dict()
    change(state)
    before = opt.m[p], opt.v[p]
    with pytest.raises((ShapeError, DTypeError, OptionError), match=rf"Adam.*: .*{said}"):
        opt.load_state_dict(state)
    assert opt.t == 1 and opt.lr == 0.01 and opt.m[p] is before[0] and opt.v[p] is before[1]


def test_state_that_is_none():
    with pytest.raises(DTypeError, match=r"Adam.load_state_dict: expected what state_dict\(\) gives, got None"):
        optim.Adam([parameter([1.0])]).load_state_dict(None)


# Errors


@pytest.mark.parametrize(
    "params, error, said",
    [
        ([], ShapeError, r"there are no parameters; .* wrapped in nn\.Parameter"),
        (nn.Sequential(nn.Linear(2, 3)), DTypeError, r".* got a Sequential; give model\.parameters\(\)"),
        (iter(()), ShapeError, "there are no parameters"),
        (ndl.Tensor([1.0]), DTypeError, "expected an iterable of tensors, got a Tensor"),
        (3, DTypeError, "expected an iterable of tensors, got an int"),
        (["weight"], DTypeError, "parameter 0 must be a Tensor, got a str"),
        ([ndl.Tensor([1.0]), None], DTypeError, "parameter 1 must be a Tensor, got None"),
        ([ndl.Tensor([1], dtype="int64")], DTypeError, "parameter 0 is of dtype int64"),
        ([ndl.Tensor([1.0]) * 2], GradientError, "parameter 0 is the result of an op"),
        ([np.ones(2)], DTypeError, "parameter 0 must be a Tensor, got an ndarray"),
        ([{"params": None}], DTypeError, "params of a group: expected an iterable of tensors, got None"),
        ([{"params": []}, ndl.Tensor([1.0])], DTypeError, "a group must be a dict with params, got a Tensor"),
        ([ndl.Tensor([1.0]), {"params": []}], DTypeError, "a group must be a dict with params, got a Tensor"),
        ([{"lr": 0.1}], OptionError, "a group has params and maybe some of params, lr"),
        ([{"params": [], "learning_rate": 1.0}], OptionError, "a group has .*; got params, learning_rate"),
        ([{"params": [p := ndl.Tensor([1.0])]}, {"params": [p]}], OptionError, "a parameter is in two groups"),
        ([{"params": [ndl.Tensor([1.0])], "lr": -1.0}], OptionError, "lr must be at least 0, got -1.0"),
    ],
)
def test_wrong_parameters(make, params, error, said):
    with pytest.raises(error, match=rf"(SGD|Adam|AdamW): {said}"):
        make(params)


@pytest.mark.parametrize(
    "kind, options, said",
    [
        (optim.SGD, {"lr": float("nan")}, "SGD: lr must be at least 0, got nan"),
        (optim.SGD, {"momentum": -0.1}, "SGD: momentum must be at least 0"),
        (optim.SGD, {"weight_decay": -0.1}, "SGD: weight_decay must be at least 0"),
        (optim.SGD, {"nesterov": True, "momentum": 0.9}, "SGD: nesterov needs .* dampening=None"),
        (optim.SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "SGD: nesterov needs"),
        (optim.SGD, {"nesterov": True, "dampening": 0}, "SGD: nesterov needs momentum above 0"),
        (optim.Adam, {"beta1": 1.0}, "Adam: beta1 must be at least 0 and below 1, got 1.0"),
        (optim.Adam, {"beta2": -0.1}, "Adam: beta2 must be"),
        (optim.AdamW, {"eps": -1e-8}, "AdamW: eps must be at least 0"),
        (optim.SGD, {"dampening": -0.5}, "SGD: dampening must be at least 0"),
        (optim.SGD, {"dampening": "none"}, "SGD: dampening must be a number, got a str"),
        (optim.SGD, {"lr": None}, "SGD: lr must be a number, got None"),
        (optim.Adam, {"beta1": "0.9"}, "Adam: beta1 must be a number"),
    ],
)
def test_wrong_hyperparameters(kind, options, said):
    with pytest.raises((OptionError, DTypeError), match=said):
        kind([parameter([1.0])], **options)


def test_gradient_or_state_that_does_not_fit(make):
    p, q = parameter([1.0], [1.0], dtype="float32"), parameter([1.0], [1.0], dtype="float32")
    opt = make([p, q])
    q.grad = ndl.Tensor([1.0, 2.0])
    with pytest.raises(ShapeError, match="_update"):
        opt.step()
    assert p.item() == 1, "nothing is changed"
    q.grad = ndl.Tensor([1.0])
    opt.step()
    q.cached_data = q.cached_data.astype("float64")
    with pytest.raises(DTypeError, match="float64 and float32"):
        opt.step()


@pytest.mark.parametrize("name", ["momentum", "Adam", "AdamW"])
def test_a_step_after_moving_says_what_to_do_and_changes_nothing(name):
    other = ndl.BackendDevice("other", "needle.backend_ndarray.ndarray_backend_numpy")
    model = nn.Linear(2, 3, device=ndl.cpu_numpy())
    opt = OPTIMIZERS[name](model.parameters())
    model(ndl.ones(1, 2, device=ndl.cpu_numpy())).sum().backward()
    opt.step()
    model.to(other)
    with pytest.raises(
        DeviceError, match=r"state is on cpu_numpy\(\), the parameters on other\(\); make the optimizer"
    ):
        opt.step()
    opt.load_state_dict(opt.state_dict())
    opt.step()
    assert opt.t == 2
