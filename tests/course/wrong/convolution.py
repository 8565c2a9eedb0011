"""Typical wrong solutions of the assignment `convolution`: what is edited, the check that fails, the hint."""

WRONG = [
    ("return Flip(self.axes)(out_grad)", "return out_grad", "Flip", "flipped, too"),
    ("a.flip(self.axes)", "a.flip()", "Flip", "All axes are flipped"),
    ("slice(None, None, self.dilation + 1 if", "slice(None, None, self.dilation if", "Dilate", ""),
    (
        (
            "        return out\n"
            "        ### END SOLUTION\n"
            "\n"
            "    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:"
        ),
        (
            "        return out[:, : out.shape[1] - self.dilation, : out.shape[2] - self.dilation]\n"
            "\n"
            "    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:"
        ),
        "Dilate",
        "zeros after the last element",
    ),
    (
        "slice(None, None, self.dilation + 1 if axis in self.axes else 1)",
        "slice(self.dilation if axis in self.axes else None, None, self.dilation + 1 if axis in self.axes else 1)",
        "Dilate",
        "not before it",
    ),
    ("return out_grad[self.places(out_grad.ndim)]", "return out_grad", "Dilate", "has the shape of a"),
    (
        "return out_grad[self.places(out_grad.ndim)]",
        "return out_grad[:, self.dilation :: self.dilation + 1, self.dilation :: self.dilation + 1]",
        "Dilate",
        "wrong places",
    ),
    (
        "x.pad(((0, 0), (p, p), (p, p), (0, 0))).compact()",
        "x.compact()",
        "Conv with stride 1 and padding 1",
        "not padded",
    ),
    (
        "weight.compact().reshape",
        "weight.flip((0, 1)).compact().reshape",
        "Conv with stride 1 and padding 1",
        "in the forward pass it is not",
    ),
    (
        "s * column, row, column, channel",
        "s * column, column, row, channel",
        "Conv with stride 1 and padding 1",
        "Height and width are swapped",
    ),
    ("ndl.flip(weight, (0, 1))", "weight", "Conv with stride 1 and padding 1", "flip is forgotten"),
    (
        "ndl.permute(ndl.flip(weight, (0, 1)), (0, 1, 3, 2))",
        "ndl.flip(weight, (0, 1))",
        "Conv with stride 1 and padding 1",
        "channels of the kernel are not swapped",
    ),
    (
        "ndl.permute(to_weight, (1, 2, 0, 3))",
        "ndl.permute(to_weight, (2, 1, 0, 3))",
        "Conv with stride 1 and padding 1",
        "Height and width of the kernel's gradient",
    ),
    ("ndl.permute(to_weight, (1, 2, 0, 3))", "to_weight", "Conv with stride 1 and padding 1", "permute it to"),
    (
        "(image, s * row, s * column, row",
        "(image, row, column, row",
        "Conv with a stride that leaves rows over",
        "one row and column apart",
    ),
    (
        "p, s = self.padding, self.stride",
        "p, s = self.padding, 1",
        "Conv with a stride that leaves rows over",
        "stride is not used",
    ),
    (
        "[:, :rows, :columns]",
        "[:, : rows - 1, : columns - 1]",
        "Conv with a stride that leaves rows over",
        "bottom row and the right column are lost to the stride",
    ),
    ("Conv(1, k - 1 - p)", "Conv(1, p)", "Conv with a stride that leaves rows over", "K - 1 - P, not P"),
    (
        "ndl.dilate(out_grad, (1, 2), self.stride - 1)[:, :rows, :columns]",
        "out_grad",
        "Conv with a stride that leaves rows over",
        "out_grad is not dilated",
    ),
    ("self.stride - 1)[:", "self.stride)[:", "Conv with a stride that leaves rows over", "S - 1, not S"),
    (
        "ndl.permute(spread, (1, 2, 0, 3))",
        "ndl.permute(spread[:, : rows - 1, : columns - 1], (1, 2, 0, 3))",
        "Conv with a stride that leaves rows over",
        "more rows than the kernel",
    ),
    (
        "ndl.permute(spread, (1, 2, 0, 3))",
        "ndl.permute(out_grad, (1, 2, 0, 3))",
        "Conv with a stride that leaves rows over",
        "out_grad is not dilated",
    ),
    (
        "columns = (size + 2 * p - k + 1 for size in x.shape[1:3])",
        "columns = [x.shape[1] + 2 * p - k + 1] * 2",
        "Conv of images that are not square",
        "last entries are missing",
    ),
    (
        "fan_in, fan_out = in_channels * k * k",
        "fan_in, fan_out = in_channels",
        "ConvLayer: what it makes",
        "fan_in is wrong",
    ),
    (
        "shape=(k, k, in_channels, out_channels))",
        "shape=(out_channels, in_channels, k, k))",
        "ConvLayer: what it makes",
        "shape is (K,K,C,O)",
    ),
    (
        "nn.Parameter(init.rand(out_channels, low=-bound, high=bound))",
        "nn.Parameter(init.zeros(out_channels))",
        "ConvLayer: what it makes",
        "bias is drawn",
    ),
    (
        "self.weight = nn.Parameter(weight)",
        "self.weight = weight",
        "ConvLayer: what it makes",
        "wrapped in nn.Parameter",
    ),
    ("self.kernel_size // 2)", "0)", "ConvLayer: forward", "padding is K // 2"),
    ("(images, self.weight) + self.bias", "(images, self.weight)", "ConvLayer: forward", "bias is not added"),
    ("return ndl.permute(out, (0, 3, 1, 2))", "return out", "ConvLayer: forward", "still: permute it"),
    (
        "ndl.permute(x, (0, 2, 3, 1))",
        "x.reshape((x.shape[0], x.shape[2], x.shape[3], x.shape[1]))",
        "ConvLayer: forward",
        "axes of x are permuted",
    ),
]
