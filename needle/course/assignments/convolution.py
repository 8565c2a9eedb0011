"""Convolution, its gradients, and the layer.

`conv` takes images (N,H,W,C) and a kernel (K,K,C,O) to (N,Ho,Wo,O), with Ho = (H + 2P - K) // S + 1 for the padding P
(of zeros, on all four sides) and the stride S:

    out[n, i, j, o] = sum over k, l, c of x[n, i * S + k - P, j * S + l - P, c] * weight[k, l, c, o]

In `compute` you have NDArray's `pad`, `as_strided`, `compact`, `reshape`, `strides`, `flip`, `@` and assignment to
`out[slices]`; in `gradient` the ops `ndl.flip`, `ndl.dilate`, `ndl.permute` and slices of Tensors.

Check your work with `python -m needle.course check convolution.py`.
"""

from __future__ import annotations

import needle as ndl
from needle import init, nn
from needle.autograd import NDArray, Tensor, TensorOp


class Flip(TensorOp):
    """The elements in reverse order along the given axes."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def compute(self, a: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        return a.flip(self.axes)
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return Flip(self.axes)(out_grad)
        ### END SOLUTION


class Dilate(TensorOp):
    """`dilation` zeros after every element along the given axes, the last one too: n becomes n * (dilation + 1)."""

    def __init__(self, axes: tuple[int, ...], dilation: int) -> None:
        self.axes, self.dilation = axes, dilation

    def places(self, ndim: int) -> tuple[slice, ...]:
        """Give the slices of the result at which the elements are."""
        ### BEGIN SOLUTION
        return tuple(slice(None, None, self.dilation + 1 if axis in self.axes else 1) for axis in range(ndim))
        ### END SOLUTION

    def compute(self, a: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        shape = [n * (self.dilation + 1) if axis in self.axes else n for axis, n in enumerate(a.shape)]
        out = a.device.zeros(*shape, dtype=a.dtype)
        out[self.places(a.ndim)] = a
        return out
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return out_grad[self.places(out_grad.ndim)]
        ### END SOLUTION


class Conv(TensorOp):
    """The convolution of images (N,H,W,C) with a kernel (K,K,C,O)."""

    def __init__(self, stride: int = 1, padding: int = 0) -> None:
        self.stride, self.padding = stride, padding

    def compute(self, x: NDArray, weight: NDArray) -> NDArray:
        # The windows are a view, (N,Ho,Wo,K,K,C), of the padded images: from one window to the next it is `stride` rows
        # or columns. Made compact and reshaped to a matrix, they are multiplied by the kernel, (K*K*C,O).
        ### BEGIN SOLUTION
        p, s = self.padding, self.stride
        x = x.pad(((0, 0), (p, p), (p, p), (0, 0))).compact()
        n, height, width, c = x.shape
        kh, kw, _, o = weight.shape
        ho, wo = (height - kh) // s + 1, (width - kw) // s + 1
        image, row, column, channel = x.strides
        windows = x.as_strided((n, ho, wo, kh, kw, c), (image, s * row, s * column, row, column, channel))
        matrix = windows.compact().reshape((n * ho * wo, kh * kw * c))
        return (matrix @ weight.compact().reshape((kh * kw * c, o))).reshape((n, ho, wo, o))
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        # Both are convolutions with stride 1 of `spread`: out_grad with S - 1 zeros after every row and column, of
        # which the first H + 2P - K + 1 are taken. (Those are all places at which a window can begin, also where the
        # stride does not divide H + 2P - K and the last rows of x are read by no window.)
        # - of x (N,H,W,C): `spread`, padded by K - 1 - P, with the kernel flipped in height and width, and its
        #   channels swapped: (K,K,O,C);
        # - of weight (K,K,C,O): x, padded by P, with `spread` as the kernel; what is summed is the batch, so that x has
        #   to become (C,H,W,N) and `spread` (.,.,N,O); the result, (C,K,K,O), is permuted back.
        ### BEGIN SOLUTION
        x, weight = node.inputs
        k, p = weight.shape[0], self.padding
        rows, columns = (size + 2 * p - k + 1 for size in x.shape[1:3])
        spread = ndl.dilate(out_grad, (1, 2), self.stride - 1)[:, :rows, :columns]
        flipped = ndl.permute(ndl.flip(weight, (0, 1)), (0, 1, 3, 2))
        to_x = Conv(1, k - 1 - p)(spread, flipped)
        to_weight = Conv(1, p)(ndl.permute(x, (3, 1, 2, 0)), ndl.permute(spread, (1, 2, 0, 3)))
        return to_x, ndl.permute(to_weight, (1, 2, 0, 3))
        ### END SOLUTION


class ConvLayer(nn.Module):
    """Convolve (N,C,H,W) images with padding K // 2, and add a bias for each output channel; gives (N,O,Ho,Wo).

    `weight` (K,K,C,O) is drawn by `init.kaiming_uniform(C*K*K, O*K*K, shape=...)`, then `bias` (O,) by `init.rand`,
    from -1/sqrt(C*K*K) to 1/sqrt(C*K*K). Use your Conv.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride
        ### BEGIN SOLUTION
        k = kernel_size
        fan_in, fan_out = in_channels * k * k, out_channels * k * k
        weight = init.kaiming_uniform(fan_in, fan_out, shape=(k, k, in_channels, out_channels))
        self.weight = nn.Parameter(weight)
        bound = fan_in**-0.5
        self.bias = nn.Parameter(init.rand(out_channels, low=-bound, high=bound))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        images = ndl.permute(x, (0, 2, 3, 1))
        out = Conv(self.stride, self.kernel_size // 2)(images, self.weight) + self.bias
        return ndl.permute(out, (0, 3, 1, 2))
        ### END SOLUTION
