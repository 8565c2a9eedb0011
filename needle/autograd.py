"""The graph: values, the ops that made them, and what `backward` leaves behind. No concrete op.

An op's call computes at once and records a node; `needle.engine` carries gradients back through the nodes.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from needle import backend_ndarray as nd
from needle.backend_ndarray import BackendDevice, NDArray
from needle.backend_ndarray.dtypes import as_dtype, as_ndarray
from needle.engine import (
    BackwardCall,
    check_unchanged,
    enable_grad,
    find_topo_sort,
    is_grad_enabled,
    no_grad,
    propagate,
    state,
)
from needle.errors import DTypeError, GradientError, ShapeError, kind_of, with_article

__all__ = [
    "Op", "TensorOp", "TensorTupleOp", "Value", "Tensor", "TensorTuple", "NDArray", "find_topo_sort",
    "compute_gradient_of_variables", "no_grad", "enable_grad", "is_grad_enabled",
]  # fmt: skip

LAZY_MODE = False
"""When true, an op's call only makes the node; `realize_cached_data()` computes it, with the same bits.

So does whatever asks for the value, shape or dtype, as operators of two tensors do of their operands.
"""

TENSOR_COUNTER: int
"""How many Values are alive now, counted when it is read."""


def __getattr__(name: str) -> int:
    if name == "TENSOR_COUNTER":
        gc.collect()
        return sum(issubclass(type(obj), Value) for obj in gc.get_objects())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Op:
    """A differentiable operation: `compute` on arrays, `gradient` on the graph."""

    reads_values = True
    """Whether `gradient` reads values of the inputs or the result, which must not change then before it does."""

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: subclass TensorOp or TensorTupleOp")

    def compute(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result from the inputs' NDArrays, without changing them."""
        raise NotImplementedError(f"{type(self).__name__}: define compute(), from arrays to an array")

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Give the gradient of each of `node.inputs`, in terms of ops, from the gradient of `node`."""
        raise NotImplementedError(f"{type(self).__name__}: define gradient(out_grad, node), one gradient per input")

    def gradient_as_tuple(self, out_grad: Value, node: Value) -> tuple[Any, ...]:
        """Give `gradient`'s result as a tuple, one entry per input."""
        gradients = self.gradient(out_grad, node)
        if gradients is None:
            raise GradientError(
                f"{type(self).__name__}.gradient returned None; return a gradient for each input, None standing in the "
                "tuple for one that has none"
            )
        return tuple(gradients) if isinstance(gradients, (tuple, list)) else (gradients,)


class TensorOp(Op):
    """An op whose result is a Tensor. Subclass it to add an op of your own.

    `gradient` returns one Tensor per input (a single Tensor where there is one input); None stands for no gradient.

    >>> import needle as ndl
    >>> class Cube(TensorOp):
    ...     def compute(self, a):
    ...         return a**3
    ...     def gradient(self, out_grad, node):
    ...         return out_grad * 3 * node.inputs[0] ** 2
    >>> x = ndl.Tensor([2.0])
    >>> Cube()(x).backward()
    >>> x.grad.numpy().tolist()
    [12.0]
    """

    def __call__(self, *args: Value) -> Tensor:
        return Tensor.make_from_op(self, args)


class TensorTupleOp(Op):
    """An op whose result is a TensorTuple: `compute` returns a tuple of NDArrays."""

    def __call__(self, *args: Value) -> TensorTuple:
        return TensorTuple.make_from_op(self, args)


class _Freed(Op):
    """Stands where an op was that `backward(free_graph=True)` has used and dropped."""

    def gradient(self, out_grad: Any, node: Any) -> Any:
        raise GradientError(
            "backward: this part of the graph was dropped by backward(free_graph=True); "
            "compute the output again, or leave free_graph out"
        )


V = TypeVar("V", bound="Value")


class Value:
    """A node: what it holds, the op that made it and that op's inputs."""

    __slots__ = (
        "op", "inputs", "requires_grad", "versions", "_array", "_grad", "_unread", "__dict__", "__weakref__",
    )  # fmt: skip

    op: Op | None
    inputs: tuple[Any, ...]
    requires_grad: bool
    versions: tuple[Any, ...]  # of the inputs and of the result, when the op ran
    _grad: Any  # what backward left here; of Tensors only
    _unread: bool  # whether backward passed and left nothing
    hooks: Mapping[int, Callable[[Any], Any]] = MappingProxyType({})
    kind: type[Value]  # Tensor or TensorTuple
    watch: Any = None  # what `needle.anomaly` has look at every result and gradient, while it is on
    made_at: str | None = None  # the line of the program that made it, where that was asked for

    @classmethod
    def make_from_op(cls: type[V], op: Op, inputs: Sequence[Value]) -> V:
        """Make the node for `op` on `inputs`, and compute it (later, in LAZY_MODE)."""
        requires_grad = False
        for value in inputs:
            if not isinstance(value, Value):
                raise not_a_tensor(type(op).__name__, "an input", value)
            if value.requires_grad:
                requires_grad = state.recording
            if value._array is None and not LAZY_MODE:
                value._realize_below()
        node = cls.__new__(cls)
        node.op, node.inputs, node.requires_grad = op, tuple(inputs), requires_grad
        node._array = node._grad = None
        node._unread = False
        if LAZY_MODE:
            node.versions = tuple([value.version for value in inputs])
        else:
            node._run()
        return node

    def _run(self) -> None:
        """Compute this node; its inputs are computed already."""
        op, inputs = self.op, self.inputs
        assert op is not None
        if state.changed:
            for value in inputs:
                check_unchanged(value)
        result = op.compute(*[value._array for value in inputs])
        self._array = result if isinstance(result, NDArray) else self._wrap(result)
        if self.watch is not None:
            self.watch.made(self, op, inputs)
        if self.requires_grad:
            self.versions = (*[value.version for value in inputs], self.version) if op.reads_values else ()
        else:  # nothing to differentiate: the result is a leaf
            self.op, self.inputs, self.versions = None, (), ()

    def _wrap(self, result: Any) -> Any:
        """Make what a `compute` returned this node's value, where it is not an NDArray."""
        raise NotImplementedError

    def _realize_below(self) -> None:
        """Compute the nodes below this one that LAZY_MODE has put off, and this one."""
        for node in find_topo_sort([self]):
            if node._array is None:
                for value, version in zip(node.inputs, node.versions):
                    if version is not None and value.version != version:
                        raise GradientError(
                            f"{type(node.op).__name__}: an input of shape {value.shape} was changed before this "
                            "deferred op was computed; call realize_cached_data() before changing it"
                        )
                node._run()

    def _computed(self) -> Any:
        """Give the value for what does not depend on its elements, which may have changed."""
        if self._array is None:
            self._realize_below()
        return self._array

    def realize_cached_data(self) -> Any:
        """Give the value, an NDArray (a tuple of them for a TensorTuple), computing it first where it was deferred."""
        if self._array is None:
            self._realize_below()
        if state.changed:
            check_unchanged(self)
        return self._array

    def _set_array(self, array: Any) -> None:
        self._array = array

    cached_data = property(realize_cached_data, _set_array, doc="The value; see `realize_cached_data`.")

    @property
    def version(self) -> Any:
        """What identifies the present content of the memory behind this value; None before it is computed."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def has_shape_of(self, other: Value) -> bool:
        """Whether this is of the same shape."""
        return self.shape == other.shape

    def is_leaf(self) -> bool:
        """Whether no recorded op made this value."""
        return self.op is None


def is_foreign(value: object) -> bool:
    """Whether `value` belongs to a second copy of the package, imported under another name."""
    names = [(base.__module__.split(".")[-1], base.__name__) for base in type(value).__mro__]
    return ("autograd", "Value") in names and not isinstance(value, Value)


def not_a_tensor(op: str, name: str, value: object) -> DTypeError:
    """Make the error for an argument called `name` that should be a Tensor."""
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    if value is None:
        found, remedy = "None", "a forward() or a function that forgot its `return` gives None"
    else:
        found, remedy = with_article(f"{module}{kind.__qualname__}"), "wrap it in needle.Tensor"
    if isinstance(value, NDArray):
        remedy = f"inside compute() use its own operators and methods, or NumPy's functions; elsewhere {remedy}"
    elif is_foreign(value):
        remedy = "the package was imported under two names, import it as `needle` only"
    return DTypeError(f"{op}: {name} must be a {Value.__module__}.Tensor, got {found}; {remedy}")


class TensorTuple(Value):
    """Several tensors made by one op.

    >>> import needle as ndl
    >>> pair = ndl.ops.split(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    >>> len(pair), pair[1].numpy().tolist()
    (2, [3.0, 4.0])
    """

    __slots__ = ()

    def _wrap(self, result: Any) -> tuple[NDArray, ...]:
        if not isinstance(result, (tuple, list)):
            raise DTypeError(f"{type(self.op).__name__}.compute returned {kind_of(result)}; return a tuple of arrays")
        return tuple([_as_array(part, self) for part in result])

    @property
    def version(self) -> Any:
        return self._array and tuple([part._handle.version for part in self._array])

    @property
    def shape(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the entries."""
        return tuple([part.shape for part in self._computed()])

    def __len__(self) -> int:
        return len(self._computed())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tuple())

    def tuple(self) -> tuple[Tensor, ...]:
        """Give the entries as a Python tuple of Tensors."""
        return tuple([self[index] for index in range(len(self))])

    def detach(self) -> TensorTuple:
        """Give the same values, sharing memory, cut off from the graph."""
        return self.make_const(self.realize_cached_data())

    @classmethod
    def make_const(cls, arrays: Sequence[NDArray], requires_grad: bool = False) -> TensorTuple:
        """Make a leaf of arrays, sharing their memory."""
        value = cls.__new__(cls)
        value.op, value.inputs, value.versions = None, (), ()
        value.requires_grad, value._array = requires_grad, tuple(arrays)
        return value

    def __repr__(self) -> str:
        return f"TensorTuple({', '.join(map(repr, self.tuple()))})"

    if TYPE_CHECKING:  # installed by ops.tensor_methods

        def __getitem__(self, index: int) -> Tensor: ...
        def __add__(self, other: TensorTuple) -> TensorTuple: ...


class Tensor(Value):
    """A multi-dimensional array with the graph of the operations that made it.

    Args:
        array: numbers, nested lists, an ndarray or an NDArray (copied), or a Tensor (shared where device and dtype
            are kept, else converted).
        device: default `needle.default_device()`, or that of a Tensor or NDArray.
        dtype: default that of a Tensor or NDArray, else `float32` (see `needle.set_default_dtype`).
        requires_grad: whether `backward` should fill `.grad`.

    >>> import needle as ndl
    >>> x = ndl.Tensor([1.0, 2.0, 3.0])
    >>> y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.numpy().tolist()
    [2.0, 4.0, 6.0]
    >>> x.grad.backward()  # differentiate again: d(sum of 2x)/dx
    >>> x.grad.numpy().tolist()
    [2.0, 2.0, 2.0]
    """

    __slots__ = ()

    __array_priority__ = 1000  # NumPy leaves `numpy_array * tensor` to us
    _call: BackwardCall | None = None  # the backward call that made this gradient
    _retains_grad = False

    def __init__(
        self, array: Any, *, device: BackendDevice | None = None, dtype: Any = None, requires_grad: bool = True
    ) -> None:
        if isinstance(array, Tensor):
            data = array.realize_cached_data()
            converts = dtype is not None and as_dtype(dtype, "Tensor") != data.dtype
            if converts or (device is not None and device != data.device):
                data = nd.array(data, dtype=dtype, device=device)
        else:
            data = nd.array(array, dtype=dtype, device=device)
        self._set(data, requires_grad)

    def _set(self, data: NDArray, requires_grad: bool) -> None:
        self.op, self.inputs, self.versions = None, (), ()
        self._array, self.requires_grad, self._grad, self._unread = data, requires_grad, None, False

    @staticmethod
    def make_const(data: NDArray | Tensor, requires_grad: bool = False) -> Tensor:
        """Make a leaf of an array, sharing its memory."""
        tensor = Tensor.__new__(Tensor)
        tensor._set(data._array if isinstance(data, Tensor) else data, requires_grad)
        return tensor

    def _wrap(self, result: Any) -> NDArray:
        return _as_array(result, self)

    # What it holds

    @property
    def version(self) -> Any:
        return None if self._array is None else self._array._handle.version

    @property
    def shape(self) -> tuple[int, ...]:
        return self._computed().shape if self._array is None else self._array._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._computed().dtype if self._array is None else self._array._dtype

    @property
    def device(self) -> BackendDevice:
        return self._computed().device if self._array is None else self._array._device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self._computed().size

    @property
    def data(self) -> Tensor:
        """The same values cut off from the graph, sharing memory. Settable, from a Tensor of the same dtype."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise DTypeError(f"data: expected a Tensor, got {kind_of(value)}; wrap it in needle.Tensor")
        if value.dtype != self.dtype:
            raise DTypeError(f"data: expected dtype {self.dtype}, got {value.dtype}; convert with astype")
        self._array = value.realize_cached_data()

    def detach(self) -> Tensor:
        """Give the same values cut off from the graph, sharing memory.

        >>> import needle as ndl
        >>> x = ndl.Tensor([3.0])
        >>> z = x * x.detach()
        >>> z.backward()
        >>> x.grad.numpy().tolist()
        [3.0]
        """
        return Tensor.make_const(self.realize_cached_data())

    def numpy(self) -> np.ndarray[Any, Any]:
        """Give the values as a NumPy array, always a copy."""
        return self.realize_cached_data().numpy()

    def item(self) -> Any:
        """Give the only element as a Python number; ShapeError where there are more or none."""
        if self.size != 1:
            raise ShapeError(f"item: shape {self.shape} has {self.size} elements, not one; index or reduce the tensor")
        return self.realize_cached_data().item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.realize_cached_data().__array__(dtype, copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Share the elements with another library, by DLPack; as `detach`, without the graph."""
        return self.realize_cached_data().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.realize_cached_data().__dlpack_device__()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item() if spec else str(self), spec)

    def __len__(self) -> int:
        if not self.ndim:
            raise DTypeError("len: a tensor of shape () has no length; use item()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[index] for index in range(len(self))])

    def __repr__(self) -> str:
        values = np.array2string(self._computed().numpy(), separator=", ", prefix=f"{type(self).__name__}(")
        notes = "" if self.dtype == np.float32 else f", dtype={self.dtype}"
        if self.op is not None:
            notes += f", op={type(self.op).__name__}"
        elif not self.requires_grad:
            notes += ", requires_grad=False"
        return f"{type(self).__name__}({values}{notes})"

    def __str__(self) -> str:
        return str(self._computed().numpy())

    def __reduce__(self) -> tuple[Any, ...]:
        """Let pickle and deepcopy make a leaf with its gradient, without graph or hooks."""
        gradient = None if self._grad is None else self._grad.detach()
        return _rebuild, (type(self), self.realize_cached_data(), self.requires_grad, gradient)

    # Gradients

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` left here, or None. Settable."""
        if self._unread and self._grad is None:
            self._unread = False
            warnings.warn(
                "grad: this tensor is the result of an op, and backward keeps only the gradients of leaves; "
                "call retain_grad() on it before backward()",
                stacklevel=2,
            )
        return self._grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if not (gradient is None or isinstance(gradient, Tensor)):
            raise DTypeError(
                f"grad: expected a Tensor or None, got {kind_of(gradient)}; wrap it in needle.Tensor"
            )
        self._grad = gradient

    def retain_grad(self) -> None:
        """Let `backward` keep this tensor's gradient, though it is no leaf."""
        self._retains_grad = True

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(gradient)` when backward has this tensor's gradient; what it returns, if not None, replaces it.

        Returns a function that removes the hook.

        >>> import needle as ndl
        >>> x = ndl.Tensor([1.0])
        >>> remove = x.register_hook(lambda gradient: gradient * 10)
        >>> (x * 2).backward()
        >>> x.grad.numpy().tolist()
        [20.0]
        """
        if not callable(hook):
            raise DTypeError(f"register_hook: expected a function of the gradient, got {kind_of(hook)}")
        key = max(self.hooks, default=0) + 1
        self.hooks = {**self.hooks, key: hook}

        def remove() -> None:
            self.hooks = {other: hook for other, hook in self.hooks.items() if other != key}

        return remove

    def backward(
        self,
        out_grad: Any = None,
        *,
        create_graph: bool = False,
        accumulate: bool = False,
        free_graph: bool = False,
    ) -> None:
        """Set `.grad` of every leaf below that requires a gradient, replacing what was there.

        Args:
            out_grad: the gradient of this tensor, a Tensor or array of its shape; ones by default.
            create_graph: record the backward pass, so that each `.grad` is a node of the graph at once.
            accumulate: add to the gradients that are there instead of replacing them.
            free_graph: drop the graph, and give back its memory, on the way.

        Without `create_graph`, `x.grad.backward()` still works while this tensor is referenced: it runs this call
        again, recorded. Leaves of the first call that the second does not reach get zeros.

        Raises:
            GradientError: no graph; a value that is needed was changed since; an op returned a wrong gradient.
            ShapeError: `out_grad` of another shape.
        """
        origin = self._call
        if self.op is None and origin is not None:
            origin.replay(self)
        elif not self.requires_grad:
            raise GradientError(
                f"backward: a tensor of shape {self.shape} without a graph cannot be differentiated; no input required "
                "a gradient, or no_grad() was on, or it was computed from a `.grad`, which only "
                "backward(create_graph=True) records"
            )
        call = BackwardCall(self, self._seed(out_grad, copy=not create_graph))
        found = _gradients_below(self, call._out_grad, create_graph, _Freed() if free_graph else None)
        for leaf in origin.leaves() if origin is not None else ():
            found.setdefault(leaf, _zeros_like(leaf))
        for leaf, gradient in found.items():
            if not create_graph:
                gradient = gradient.detach()  # a Tensor of its own, since one gradient may have reached two leaves
            if accumulate and leaf._grad is not None:
                leaf.grad = leaf._grad + gradient
            elif create_graph:
                leaf.grad = gradient
            else:
                call.assign(leaf, gradient)

    def _seed(self, out_grad: Any, copy: bool) -> Tensor:
        """Give the gradient to begin with, checked."""
        if out_grad is None:
            return Tensor.make_const(nd.full(self.shape, 1.0, dtype=self.dtype, device=self.device))
        if not isinstance(out_grad, Tensor):
            out_grad = Tensor(out_grad, device=self.device, dtype=self.dtype, requires_grad=False)
        elif copy:  # so that a later change of the caller's tensor does not show in a gradient
            out_grad = Tensor.make_const(NDArray(out_grad.realize_cached_data()))
        if out_grad.shape != self.shape:
            raise ShapeError(f"backward: out_grad has shape {out_grad.shape}, the tensor {self.shape}; make them equal")
        return out_grad.astype(self.dtype) if self.dtype.kind == "f" else out_grad

    if TYPE_CHECKING:  # operators and methods come from the table in ops.tensor_methods

        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __matmul__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __rpow__(self, other: Any) -> Tensor: ...
        def __rmatmul__(self, other: Any) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        @property
        def T(self) -> Tensor: ...


Tensor.kind, TensorTuple.kind = Tensor, TensorTuple


def _as_array(result: Any, node: Value) -> NDArray:
    """Make what a `compute` returned an NDArray: an ndarray keeps its dtype, a number takes the first input's."""
    if isinstance(result, NDArray):
        return result
    name = f"{type(node.op).__name__}.compute"
    if result is None:
        raise DTypeError(f"{name} returned None; return an array")
    values = as_ndarray(name, result)
    first = node.inputs[0].realize_cached_data() if node.inputs else None
    first = first[0] if isinstance(first, tuple) else first
    device = None if first is None else first.device
    if isinstance(result, (np.ndarray, np.generic)):
        return nd.array(values, dtype=as_dtype(values.dtype, name), device=device)
    return nd.array(values, dtype=None if first is None else first.dtype, device=device)


def _rebuild(kind: type[Tensor], array: NDArray, requires_grad: bool, gradient: Tensor | None) -> Tensor:
    tensor = kind.__new__(kind)
    tensor._set(array, requires_grad)
    tensor.grad = gradient
    return tensor


def _zeros_like(tensor: Tensor) -> Tensor:
    return Tensor.make_const(nd.full(tensor.shape, 0.0, dtype=tensor.dtype, device=tensor.device))


def _gradients_below(output: Tensor, out_grad: Tensor, create_graph: bool, freed: Op | None) -> dict[Tensor, Tensor]:
    """Give the gradients of the leaves, and of the tensors that retain theirs, below `output`."""
    output.realize_cached_data()
    found: dict[Tensor, Tensor] = {}

    def visit(node: Any, gradient: Any) -> None:
        if isinstance(node, Tensor):
            if node._retains_grad or (node.op is None and node.requires_grad):
                gradient.realize_cached_data()
                found[node] = gradient
            elif node.op is not None:
                node._unread = True

    with enable_grad() if create_graph else no_grad():
        propagate({output: out_grad}, visit, freed=freed)
    return found


def compute_gradient_of_variables(output_tensor: Tensor, out_grad: Tensor) -> None:
    """Set `.grad` of every leaf below `output_tensor`; the course's name for `output_tensor.backward(out_grad)`."""
    output_tensor.backward(out_grad)
