"""Moving values between devices."""

from __future__ import annotations

from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.devices import as_device
from needle.ops.arguments import tensor


class ToDevice(TensorOp):
    """The same values on another device; the gradient travels back."""

    def __init__(self, device: BackendDevice) -> None:
        self.device = device

    def compute(self, a: NDArray) -> NDArray:
        return a.to(self.device)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return to_device(out_grad, node.inputs[0].device)


def to_device(a: Tensor, device: BackendDevice) -> Tensor:
    """Give `a` on `device`: itself where it is there already, else a differentiable copy.

    >>> import needle as ndl
    >>> ndl.Tensor([1.0, 2.0]).to(ndl.cpu_numpy()).device
    cpu_numpy()
    """
    a = tensor("to_device", a)
    return a if a.device == device else ToDevice(as_device("to_device", device))(a)
