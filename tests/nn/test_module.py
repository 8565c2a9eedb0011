"""needle.nn.module: finding, naming, replacing, freezing, moving, saving, hooks, copies, repr."""

import copy
import pickle

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.errors import DeviceError, DTypeError, ShapeError
from tests.tolerances import assert_close


class Block(nn.Module):
    """Holds something of everything."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter([1.0])
        self.layers = [nn.Linear(2, 3), {"norm": nn.BatchNorm1d(3)}]
        self.again = self.layers[0]
        self.tied = {"scale": self.scale}
        self.plain = ndl.Tensor([5.0])
        self.last = nn.Parameter([2.0])

    def forward(self, x):
        return self.layers[1]["norm"](self.layers[0](x)) * self.scale


class Forgetful(nn.Module):
    def __init__(self):
        self.weight = nn.Parameter([3.0])

    def forward(self, x):
        return x * self.weight


def names(pairs):
    return [name for name, _ in pairs]


# Finding


def test_names_follow_the_attributes_each_object_once():
    block = Block()
    assert names(block.named_modules()) == ["", "layers.0", "layers.1.norm"]
    assert names(block.named_parameters()) == [
        "scale", "layers.0.weight", "layers.0.bias", "layers.1.norm.weight", "layers.1.norm.bias", "last",
    ]  # fmt: skip
    assert names(block.named_buffers()) == ["layers.1.norm.running_mean", "layers.1.norm.running_var"]
    assert [id(p) for p in block.parameters()] == [id(p) for _, p in block.named_parameters()]
    assert block._children() == [block.layers[0], block.layers[1]["norm"]]


def test_sequential_names_its_modules_by_number_and_keeps_other_attributes():
    class Net(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(2, 2), nn.Residual(nn.Linear(2, 2, bias=False)))
            self.extra = nn.Parameter([1.0])

    assert names(Net().named_parameters()) == ["0.weight", "0.bias", "1.fn.weight", "extra"]
    assert isinstance(Net().modules, tuple)


def test_modules_that_hold_each_other_are_walked_once():
    child, parent = Forgetful(), Forgetful()
    parent.child, child.parent = child, parent
    assert names(parent.named_modules()) == ["", "child"]
    assert len(parent.parameters()) == 2
    assert parent.eval().child.training is False
    assert "..." in repr(parent)


def test_lists_that_hold_themselves():
    module = nn.Module()
    module.items = [nn.ReLU()]
    module.items.append(module.items)
    assert len(module._children()) == 1


def test_forgotten_super_init_does_not_matter():
    module = Forgetful()
    assert module.training is True
    assert names(module.named_parameters()) == ["weight"]
    calls = []
    module.register_forward_hook(lambda *call: calls.append(call))
    assert module.eval()(ndl.Tensor([2.0])).item() == 6
    assert len(calls) == 1
    assert Forgetful().training is True


def test_mistyped_attribute_and_missing_forward():
    with pytest.raises(AttributeError, match="wieght"):
        nn.Linear(2, 3).wieght  # noqa: B018
    with pytest.raises(NotImplementedError, match="Module: define forward"):
        nn.Module()(1)


def test_two_tensors_of_one_name():
    module = nn.Module()
    module.items = {"a.b": nn.Parameter([1.0]), "a": {"b": nn.Parameter([2.0])}}
    assert len(module.parameters()) == 2
    with pytest.raises(ShapeError, match=r"two tensors are named items\.a\.b"):
        module.state_dict()


# Replacing and buffers


def test_plain_tensor_takes_the_place_of_a_parameter(tensor, device):
    layer = nn.Linear(2, 1, device=device, dtype="float64")
    replacement = tensor([[2.0], [3.0]])
    layer.weight = replacement
    assert layer.weight is replacement
    assert layer.parameters()[0] is replacement
    layer.weight = None
    assert len(layer.parameters()) == 1
    layer.weight = tensor([[1.0], [1.0]])
    assert len(layer.parameters()) == 2
    layer(tensor([[1.0, 2.0]])).backward()
    opt = optim.SGD(layer.parameters(), lr=1.0)
    opt.step()
    assert_close(layer.weight, [[0.0], [-1.0]])


def test_plain_tensor_attribute_is_neither_parameter_nor_buffer():
    module = nn.Module()
    module.table = ndl.Tensor([1.0])
    assert module.parameters() == [] and module.state_dict() == {}


def test_result_of_an_op_may_stand_for_a_parameter(tensor, device):
    """As where one network computes the weights of another."""
    source = tensor([[1.0], [2.0]])
    layer = nn.Linear(2, 1, bias=False, device=device, dtype="float64")
    layer.weight = source * 2
    layer(tensor([[1.0, 10.0]])).backward()
    assert_close(source.grad, [[2.0], [20.0]])


def test_buffers(tensor):
    module = nn.Module()
    given = tensor([1.0])
    module.register_buffer("mean", given)
    module.register_buffer("none", None)
    assert given.requires_grad and not module.mean.requires_grad
    assert names(module.named_buffers()) == ["mean"]
    module.mean = tensor([2.0])
    assert_close(module.state_dict()["mean"], [2.0])
    module.none = tensor([3.0])
    assert names(module.named_buffers()) == ["mean", "none"]
    assert module.parameters() == []
    module.mean = nn.Parameter(tensor([4.0]))
    assert names(module.named_buffers()) == ["none"] and names(module.named_parameters()) == ["mean"]
    module.register_buffer("mean", tensor([5.0]))
    assert module.parameters() == []
    with pytest.raises(DTypeError, match="register_buffer: mean must be a Tensor or None, got a list"):
        module.register_buffer("mean", [1.0])


# Modes and freezing


def test_train_eval_and_apply_give_the_module():
    block, seen = Block(), []
    assert block.eval() is block and block.train() is block and block.train(False) is block
    assert not any(module.training for _, module in block.named_modules())
    assert block.apply(lambda module: seen.append(type(module).__name__)) is block
    assert seen == ["Linear", "BatchNorm1d", "Block"]


def test_freezing_at_any_time(tensor, device):
    layer = nn.Linear(2, 1, device=device, dtype="float64")
    opt = optim.SGD(layer.parameters(), lr=1.0)
    x = tensor([[1.0, 2.0]])
    layer(x).backward()
    before = layer.weight.numpy()
    layer.weight.requires_grad = False
    opt.step()
    assert (layer.weight.numpy() == before).all(), "a frozen parameter stays, whatever gradient it has left"
    opt.reset_grad()
    layer(x).backward()
    assert layer.weight.grad is None and layer.bias.grad is not None
    layer.weight.requires_grad = True
    layer(x).backward()
    opt.step()
    assert_close(layer.weight, before - [[1.0], [2.0]])


def test_zero_grad_is_reset_grad(tensor, device):
    layer = nn.Linear(2, 1, device=device, dtype="float64")
    for reset in (layer.reset_grad, layer.zero_grad):
        layer(tensor([[1.0, 2.0]])).backward()
        assert all(p.grad is not None for p in layer.parameters())
        reset()
        assert all(p.grad is None for p in layer.parameters())


# Moving


def test_to_keeps_the_objects(device):
    model = nn.Sequential(nn.Linear(2, 3, device=device), nn.BatchNorm1d(3, device=device))
    model.register_buffer("count", ndl.Tensor([1], dtype="int64", device=device))
    parameters = model.parameters()
    model(ndl.init.rand(4, 2, device=device)).backward()
    assert model.to(dtype="float64") is model
    assert all(p is q for p, q in zip(model.parameters(), parameters, strict=True))
    assert {str(p.dtype) for p in parameters} == {str(p.grad.dtype) for p in parameters} == {"float64"}
    assert {name: str(buffer.dtype) for name, buffer in model.named_buffers()} == {
        "1.running_mean": "float64", "1.running_var": "float64", "count": "int64",
    }  # fmt: skip
    optim.Adam(parameters).step()
    assert model(ndl.init.rand(4, 2, device=device, dtype="float64")).dtype == "float64"
    memory = parameters[0].cached_data._handle
    model.to(device, "float64")
    assert parameters[0].cached_data._handle is memory, "what is right already is not copied"
    assert model.to(ndl.cpu_numpy()).parameters()[0].device == ndl.cpu_numpy()


def test_to_errors():
    with pytest.raises(DeviceError, match="to: expected a device"):
        nn.Linear(2, 3).to("float64")
    with pytest.raises(DTypeError, match="to: dtype must be float32 or float64, got int32"):
        nn.Linear(2, 3).to(dtype="int32")


# Saving


def test_state_dict_is_a_copy_and_loads_in_place(device):
    model, twin = (nn.Sequential(nn.Linear(2, 3, device=device), nn.BatchNorm1d(3, device=device)) for _ in range(2))
    model(ndl.init.rand(4, 2, device=device))
    state = model.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    assert all(isinstance(array, np.ndarray) for array in state.values())
    memory = twin.modules[0].weight.cached_data._handle
    version = memory.version
    twin.load_state_dict(state)
    assert twin.modules[0].weight.cached_data._handle is memory and memory.version != version
    assert all((twin.state_dict()[name] == array).all() for name, array in state.items())
    state["0.weight"][:] = 7
    assert not (model.modules[0].weight.numpy() == 7).any()


def test_load_takes_tensors_and_converts(tensor):
    layer = nn.Linear(2, 1)
    layer.load_state_dict({"weight": tensor([[1.5], [2.5]]), "bias": [[3]]})
    assert layer.weight.dtype == "float32"
    assert layer.weight.numpy().tolist() == [[1.5], [2.5]] and layer.bias.numpy().tolist() == [[3]]


def test_load_names_all_that_is_wrong_and_changes_nothing():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    before = model.state_dict()
    state = {**before, "0.weight": np.zeros((3, 2)), "extra": np.zeros(1), "0.bias": np.zeros((1, 3))}
    del state["1.weight"], state["1.bias"]
    with pytest.raises(ShapeError) as error:
        model.load_state_dict(state)
    for part in (
        "Sequential.load_state_dict", "missing 1.weight", "missing 1.bias", "unexpected extra",
        "0.weight of shape (3, 2), expected (2, 3)",
    ):  # fmt: skip
        assert part in str(error.value)
    assert all((array == before[name]).all() for name, array in model.state_dict().items())


def test_load_of_what_is_no_number_changes_nothing():
    layer = nn.Linear(2, 1)
    before = layer.weight.numpy()
    for bias, error in (([["x"]], DTypeError), ([[1], [1, 2]], ShapeError), ([[1j]], DTypeError)):
        with pytest.raises(error, match=r"Linear\.load_state_dict: bias: "):
            layer.load_state_dict({"weight": np.ones((2, 1)), "bias": bias})
    with pytest.raises(DTypeError, match=r"Linear\.load_state_dict: expected a dict of arrays by path, got a list"):
        layer.load_state_dict([1, 2])
    with pytest.raises(DTypeError, match=r"got a Linear; give its state_dict\(\)"):
        layer.load_state_dict(layer)
    assert (layer.weight.numpy() == before).all()


# Copies


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_share_what_was_shared_and_no_more(copied):
    block = Block()
    block.layers[0].weight.requires_grad = False
    block.layers[0].weight = ndl.Tensor([[1.0] * 3] * 2)
    twin = copied(block)
    assert twin.again is twin.layers[0] and twin.tied["scale"] is twin.scale
    assert isinstance(twin.scale, nn.Parameter)
    assert names(twin.named_parameters()) == names(block.named_parameters())
    assert names(twin.named_buffers()) == names(block.named_buffers())
    assert all((twin.state_dict()[name] == array).all() for name, array in block.state_dict().items())
    before = block.last.numpy()
    optimizer = optim.SGD(twin.parameters(), lr=1.0)
    twin.last.grad = ndl.Tensor([1.0])
    optimizer.step()
    assert (block.last.numpy() == before).all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_model_and_optimizer_copied_together_stay_together(copied):
    model = nn.Linear(2, 1)
    opt = optim.Adam(model.parameters())
    model(ndl.Tensor([[1.0, 2.0]])).backward()
    opt.step()
    twin, twin_opt = copied((model, opt))
    before = twin.weight.numpy()
    assert twin_opt.m[twin.weight].numpy().tolist() == opt.m[model.weight].numpy().tolist()
    twin(ndl.Tensor([[1.0, 2.0]])).backward()
    twin_opt.step()
    assert not (twin.weight.numpy() == before).any()
    assert (model.weight.numpy() == before).all()


# Hooks


def test_forward_hooks(tensor):
    layer, seen = nn.ReLU(), []
    remove_pre = layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    layer.register_forward_pre_hook(lambda module, args: None)
    remove = layer.register_forward_hook(lambda module, args, output: seen.append((module, args[0].item())))
    remove_last = layer.register_forward_hook(lambda module, args, output: output + 1)
    assert layer(tensor([3.0])).item() == 7
    assert seen == [(layer, 6.0)]
    remove()
    remove()
    assert layer(tensor([3.0])).item() == 7 and len(seen) == 1
    remove_pre()
    remove_last()
    assert layer(tensor([3.0])).item() == 3
    layer.register_forward_pre_hook(lambda module, args: args[0] * 5)
    assert layer(tensor([3.0])).item() == 15


def test_hooks_take_part_in_the_graph_and_are_no_children():
    layer = nn.Identity()
    scale = Forgetful()
    remove = layer.register_forward_hook(lambda module, args, output: scale(output))
    layer(ndl.Tensor([2.0])).backward()
    assert scale.weight.grad.item() == 2
    remove()
    layer.register_forward_hook(scale)  # a module is callable, and so may stand among the hooks
    assert layer._children() == []


# Printing


def test_repr_is_a_tree():
    model = nn.Sequential(
        nn.Conv(1, 4, 3, stride=2, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Residual(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1))), nn.LeakyReLU(0.2),
    )  # fmt: skip
    assert (
        repr(model)
        == """\
Sequential(
  (0): Conv(1, 4, kernel_size=3, stride=2, padding=(1, 1), bias=False)
  (1): BatchNorm2d(4, eps=1e-05, momentum=0.1)
  (2): ReLU()
  (3): MaxPool2d(kernel_size=2, stride=2, padding=0)
  (4): Flatten()
  (5): Residual(
    (fn): Sequential(
      (0): Linear(in_features=4, out_features=4, bias=True)
      (1): Dropout(p=0.1)
    )
  )
  (6): LeakyReLU(negative_slope=0.2)
)"""
    )
    assert repr(Block()).splitlines()[1] == "  (layers.0): Linear(in_features=2, out_features=3, bias=True)"


def test_repr_of_every_layer_names_its_settings():
    for layer, text in (
        (nn.ELU(2.0), "ELU(alpha=2.0)"),
        (nn.GELU(), "GELU(approximate='none')"),
        (nn.Softmax(), "Softmax(axis=-1)"),
        (nn.AvgPool2d((2, 3), stride=1), "AvgPool2d(kernel_size=(2, 3), stride=1, padding=0)"),
        (nn.BatchNorm1d(3, relu=True), "BatchNorm1d(3, eps=1e-05, momentum=0.1, relu=True)"),
        (nn.GroupNorm(2, 4), "GroupNorm(2, 4, eps=1e-05)"),
        (nn.LayerNorm1d(3), "LayerNorm1d(3, eps=1e-05)"),
        (nn.ConvTranspose(2, 4, 2, groups=2, dilation=2),
         "ConvTranspose(2, 4, kernel_size=2, stride=1, padding=0, dilation=2, groups=2)"),
        (nn.MultiHeadAttention(causal=True), "MultiHeadAttention(\n  causal=True\n  (dropout): Dropout(p=0.0)\n)"),
        (nn.MSELoss(), "MSELoss(reduction='mean')"),
        (nn.CrossEntropyLoss(), "CrossEntropyLoss(ignore_index=None, label_smoothing=0.0, reduction='mean')"),
    ):  # fmt: skip
        assert repr(layer) == text
    assert "\n  batch_first=True\n" in repr(nn.Transformer(2, 2, 1, sequence_len=3, batch_first=True))


# Summary


def test_summary_leaves_no_trace():
    shared = nn.Linear(4, 4)
    model = nn.Sequential(
        nn.Flatten(), shared, nn.BatchNorm1d(4), nn.Dropout(0.5), shared, nn.Residual(nn.Linear(4, 4, bias=False))
    )
    model.modules[1].bias.requires_grad = False
    model.modules[3].eval()
    calls = []
    model.register_forward_hook(lambda *call: calls.append(call))
    before, modes = model.state_dict(), [module.training for _, module in model.named_modules()]
    random_state = np.random.get_state()[1].copy()
    table = model.summary((5, 2, 2))
    assert all((array == before[name]).all() for name, array in model.state_dict().items())
    assert modes == [module.training for _, module in model.named_modules()]
    assert (np.random.get_state()[1] == random_state).all()
    assert calls == []
    assert [line.split() for line in table.splitlines()] == [
        ["Name", "Layer", "Output", "shape", "Parameters"],
        ["Sequential", "(5,", "4)", "0"],
        ["0", "Flatten", "(5,", "4)", "0"],
        ["1", "Linear", "(5,", "4)", "20"],
        ["2", "BatchNorm1d", "(5,", "4)", "8"],
        ["3", "Dropout", "(5,", "4)", "0"],
        ["5", "Residual", "(5,", "4)", "0"],
        ["5.fn", "Linear", "(5,", "4)", "16"],
        ["44", "parameters,", "40", "of", "them", "trainable"],
    ]


def test_summary_of_results_that_are_no_tensors_and_of_modules_not_called():
    class Pair(nn.Module):
        def __init__(self):
            self.used, self.unused = nn.Linear(2, 3, dtype="float64"), nn.ReLU()

        def forward(self, x):
            return self.used(x), [x], None

    table = Pair().summary((1, 2)).splitlines()
    assert "(1, 3), (1, 2), -" in table[1]
    assert "not called" in table[3]


def test_summary_raises_what_forward_raises_and_leaves_no_trace():
    model = nn.Sequential(nn.Dropout(), nn.Linear(4, 4))
    state = np.random.get_state()[1].copy()
    with pytest.raises(ShapeError, match="Linear: expected last dimension"):
        model.summary((1, 3))
    assert (np.random.get_state()[1] == state).all()


def test_a_nested_state_is_told_to_be_one():
    model = nn.Linear(2, 3)
    with pytest.raises(DTypeError, match=r"Linear.load_state_dict: 'model' is a dict; give state\['model'\]"):
        model.load_state_dict({"model": model.state_dict(), "settings": {}})
