"""How far graphs go: depth, sharing, memory over steps, copies, orders of differentiation, versions and threads."""

import copy
import gc
import pickle
import threading
import tracemalloc

import numpy as np
import pytest

import needle as ndl
from needle import autograd, nn, ops, optim
from needle.errors import GradientError
from tests.tolerances import assert_close

DEPTH = 100_000


def test_a_chain_of_100_000_ops(tensor):
    x = y = tensor(1.0)
    before = autograd.TENSOR_COUNTER
    for _ in range(DEPTH):
        y = y + 1.0
    y.backward()
    assert_close(y, DEPTH + 1.0)
    assert_close(x.grad, 1.0)
    del y
    assert autograd.TENSOR_COUNTER - before == 2, "freed, but for x.grad and the seed of its replay"


def test_a_chain_of_100_000_ops_freed_on_the_way(tensor):
    x = y = tensor(2.0)
    for _ in range(DEPTH):
        y = -y
    y.backward(free_graph=True)
    assert_close(x.grad, 1.0)
    with pytest.raises(GradientError, match="free_graph"):
        y.backward()


def test_a_chain_without_a_gradient_records_nothing(tensor):
    x = tensor(1.0)
    with ndl.no_grad():
        for _ in range(100):
            x = x * 1.0
    assert autograd.find_topo_sort([x]) == [x]


def test_60_doublings(tensor):
    x = y = tensor(1.0)
    for _ in range(60):
        y = y + y
    y.backward()
    assert_close(x.grad, 2.0**60)


def test_60_doublings_to_second_order(tensor):
    x = y = tensor(1.0)
    for _ in range(60):
        y = y + y
    (y * y).backward(create_graph=True)
    x.grad.backward()
    assert_close(x.grad, 2.0**121)


def network(device, p=0.1):
    return nn.Sequential(
        nn.Conv(1, 4, 3, device=device), nn.BatchNorm2d(4, device=device), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(p),
        nn.Flatten(), nn.Linear(64, 10, device=device),
    )  # fmt: skip


def steps(device, optimizer, free_graph):
    """Train for ever on one batch; yield after every step."""
    model = network(device)
    opt = optimizer(model.parameters(), lr=0.01)
    x, labels = ndl.init.rand(512, 1, 8, 8, device=device), ndl.Tensor(np.arange(512) % 10, device=device)
    while True:
        opt.reset_grad()
        loss = nn.SoftmaxLoss()(model(x), labels)
        loss.backward(free_graph=free_graph)
        opt.step()
        yield loss


@pytest.mark.parametrize("free_graph", [False, True])
@pytest.mark.parametrize("optimizer", [lambda ps, lr: optim.SGD(ps, lr, momentum=0.9), optim.Adam], ids=["sgd", "adam"])
def test_50_training_steps_hold_no_more_than_5(device, optimizer, free_graph):
    live, peaks = {}, {}
    training = steps(device, optimizer, free_graph)
    next(training)
    gc.collect()
    gc.freeze()  # what other tests have left makes collecting slow
    tracemalloc.start()
    try:
        for step in range(2, 51):
            assert gc.collect() == 0  # reference counts alone free the graph (and free lists are emptied here)
            tracemalloc.reset_peak()
            loss = next(training)
            peaks[step] = tracemalloc.get_traced_memory()[1]
            if step in (5, 50):
                live[step] = autograd.TENSOR_COUNTER
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    assert live[50] == live[5]
    assert max(peaks[step] for step in range(40, 51)) < 1.01 * max(peaks[step] for step in range(5, 16))
    assert np.isfinite(loss.item())


def test_pickle_and_copy_of_tensors(tensor):
    x = tensor([[1.0, 2.0]])
    y = x * 2
    y.backward()
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert type(twin) is ndl.Tensor
        assert twin.requires_grad
        assert (twin.numpy() == x.numpy()).all()
        assert (twin.device, twin.dtype) == (x.device, x.dtype)
    twin = copy.deepcopy(x)
    twin.cached_data[...] = 7.0
    assert x.numpy().tolist() == [[1, 2]]


def test_pickle_of_a_strided_view(tensor):
    view = ndl.Tensor.make_const(tensor(np.arange(6.0).reshape(2, 3)).cached_data.permute((1, 0))[1:])
    for twin in (pickle.loads(pickle.dumps(view)), copy.deepcopy(view)):
        assert (twin.numpy() == view.numpy()).all()


def test_copies_of_modules_keep_sharing(device):
    model = network(device, p=0.0)
    model.tied = model.modules[-1].weight
    model.eval()
    x = ndl.init.rand(2, 1, 8, 8, device=device)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.tied is twin.modules[-1].weight
        assert twin.training is False
        assert all(isinstance(p, nn.Parameter) for p in twin.parameters())
        assert len(twin.parameters()) == len(model.parameters())
        assert twin(x).numpy().tobytes() == model(x).numpy().tobytes()
        twin.tied.cached_data[...] = 0.0
        assert model.tied.numpy().any()


THIRD_ORDER = [
    ("x^4", lambda x: x**4, [lambda v: 4 * v**3, lambda v: 12 * v**2, lambda v: 24 * v]),
    ("exp", ops.exp, [np.exp] * 3),
    ("1/x", lambda x: 1 / x, [lambda v: -(v**-2), lambda v: 2 * v**-3, lambda v: -6 * v**-4]),
    ("log", ops.log, [lambda v: 1 / v, lambda v: -(v**-2), lambda v: 2 * v**-3]),
    ("x*x*x", lambda x: x * x * x, [lambda v: 3 * v**2, lambda v: 6 * v, lambda v: 6 + 0 * v]),
    ("tanh", ops.tanh, [
        lambda v: 1 - np.tanh(v) ** 2,
        lambda v: -2 * np.tanh(v) * (1 - np.tanh(v) ** 2),
        lambda v: (6 * np.tanh(v) ** 2 - 2) * (1 - np.tanh(v) ** 2),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "function", "derivatives"), THIRD_ORDER, ids=[row[0] for row in THIRD_ORDER])
def test_third_order_without_a_flag(tensor, name, function, derivatives):
    values = np.array([0.5, 1.0, 1.5])
    x = tensor(values)
    y = function(x)
    y.backward()
    for order, derivative in enumerate(derivatives):
        if order:
            x.grad.backward()
        assert_close(x.grad, derivative(values))


def test_a_replay_gives_the_same_bits_as_create_graph(tensor):
    values = np.random.randn(1, 5, 5, 2), np.random.randn(3, 3, 2, 2)

    def second(create_graph):
        x, w = tensor(values[0]), tensor(values[1])
        y = ops.tanh(ops.conv(x, w))
        y.backward(create_graph=create_graph)
        gradient = w.grad
        (gradient if create_graph else w.grad).backward()
        return x.grad.numpy().tobytes(), w.grad.numpy().tobytes()

    assert second(create_graph=False) == second(create_graph=True)


def test_an_optimizer_step_between_forward_and_backward_is_noticed(device):
    model = nn.Sequential(nn.Linear(2, 2, device=device), nn.Linear(2, 2, device=device))
    opt = optim.SGD(model.parameters(), lr=0.1)
    x = ndl.init.rand(3, 2, device=device)
    early, late = model(x).sum(), model(x).sum()
    early.backward()
    opt.step()
    with pytest.raises(GradientError, match="Affine"):
        late.backward()


def test_a_change_that_backward_does_not_need_is_no_error(tensor):
    x, y = tensor([1.0]), tensor([2.0])
    z = x + y
    x.data = tensor([5.0])
    z.backward()
    assert_close(y.grad, [1.0])


def in_threads(*functions):
    """Run the functions at once, from one starting line; raise what one of them raised."""
    errors, barrier = [], threading.Barrier(len(functions))

    def run(function):
        try:
            barrier.wait(timeout=30)
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    if errors:
        raise errors[0]


def test_two_threads_train_at_once(device):
    values, labels = np.random.rand(16, 8), np.arange(16) % 4

    def train(model):
        opt = optim.Adam(model.parameters(), lr=0.01)
        x, y = ndl.Tensor(values, device=device), ndl.Tensor(labels, device=device)
        for _ in range(30):
            opt.reset_grad()
            nn.SoftmaxLoss()(model(x), y).backward()
            opt.step()
            with ndl.no_grad():
                assert not model(x).requires_grad
        return [p.numpy().tobytes() for p in model.parameters()]

    first = nn.Sequential(nn.Linear(8, 8, device=device), nn.ReLU(), nn.Linear(8, 4, device=device))
    models = [copy.deepcopy(first) for _ in range(2)]
    expected = train(first)
    results = [None, None]
    in_threads(*[lambda i=i: results.__setitem__(i, train(models[i])) for i in range(2)])
    assert results == [expected, expected]


def test_no_grad_is_of_its_thread(tensor):
    x, entered, checked = tensor([1.0]), threading.Event(), threading.Event()

    def outside():
        assert entered.wait(30)
        try:
            assert ndl.is_grad_enabled()
            assert (x * x).requires_grad
        finally:
            checked.set()

    def inside():
        with ndl.no_grad():
            entered.set()
            assert checked.wait(30)
            assert not (x * x).requires_grad

    in_threads(inside, outside)
    assert ndl.is_grad_enabled()


def test_no_grad_ends_on_an_exception():
    with pytest.raises(ZeroDivisionError), ndl.no_grad():
        _ = 1 / 0
    assert ndl.is_grad_enabled()
