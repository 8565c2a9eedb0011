"""Faults to plant, one at a time: each a line as it is, the line made wrong, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`right` occurs once in `file`; with `wrong` in its place some of `tests` must fail."""

    what: str
    file: str
    right: str
    wrong: str
    tests: str


OPS, KERNELS = "needle/ops", "needle/backend_ndarray"
TABLE = "tests/ops/test_table.py"

GRADIENTS = [
    Fault(
        "product: operands swapped",
        f"{OPS}/elementwise.py",
        "out_grad * b if a.requires_grad else None, out_grad * a if b",
        "out_grad * a if a.requires_grad else None, out_grad * b if b",
        TABLE,
    ),
    Fault(
        "quotient: sign lost", f"{OPS}/elementwise.py", "return to_a, -(to_a * node)", "return to_a, to_a * node", TABLE
    ),
    Fault(
        "power: exponent not lowered",
        f"{OPS}/elementwise.py",
        "node.inputs[0] ** (self.scalar - 1) * self.scalar",
        "node.inputs[0] ** self.scalar * self.scalar",
        TABLE,
    ),
    Fault(
        "square root: a factor of two",
        f"{OPS}/elementwise.py",
        "return out_grad / (node * 2)",
        "return out_grad / node",
        TABLE,
    ),
    Fault(
        "ReLU: the gradient by its own sign",
        f"{OPS}/activation.py",
        "layers.relu_gradient(d, self.condition)",
        "layers.relu_gradient(d, d)",
        TABLE,
    ),
    Fault("tanh: square forgotten", f"{OPS}/activation.py", "(1 - node * node)", "(1 - node)", TABLE),
    Fault(
        "SiLU: a factor forgotten",
        f"{OPS}/activation.py",
        "return out_grad * (gate * (1 + a * (1 - gate)))",
        "return out_grad * (gate * (1 + (1 - gate)))",
        TABLE,
    ),
    Fault(
        "broadcast: gradient not summed over axes of length 1",
        f"{OPS}/shape.py",
        "if axis < lead or shape[axis - lead] != n]",
        "if axis < lead]",
        TABLE,
    ),
    Fault(
        "permute: the order itself for its inverse",
        f"{OPS}/shape.py",
        "permute(out_grad, sorted(range(len(self.axes)), key=self.axes.__getitem__))",
        "permute(out_grad, self.axes)",
        TABLE,
    ),
    Fault("flip dropped", f"{OPS}/shape.py", "return flip(out_grad, self.axes)", "return out_grad", TABLE),
    Fault(
        "dilate: one zero too few",
        f"{OPS}/shape.py",
        "axes, step = _within(self.axes, a.ndim), self.dilation + 1",
        "axes, step = _within(self.axes, a.ndim), self.dilation or 1",
        TABLE,
    ),
    Fault(
        "cumulative sum: runs forwards",
        f"{OPS}/reduce.py",
        "return flip(cumsum(flip(out_grad, self.axis), self.axis), self.axis)",
        "return cumsum(out_grad, self.axis)",
        TABLE,
    ),
    Fault(
        "maximum over axes: ties not shared",
        f"{OPS}/reduce.py",
        "self.spread(out_grad / count, a.shape)",
        "self.spread(out_grad, a.shape)",
        "tests/ops tests/cases",
    ),
    Fault("variance: wrong divisor", f"{OPS}/reduce.py", 'number("var", "correction", correction)', "1", TABLE),
    Fault(
        "softmax: sum over the wrong axis",
        f"{OPS}/softmax.py",
        "summation(out_grad * node, self.axis, keepdims=True)",
        "summation(out_grad * node, 0, keepdims=True)",
        "tests/ops/test_softmax.py " + TABLE,
    ),
    Fault(
        "log-softmax: exponential forgotten",
        f"{OPS}/softmax.py",
        "exp(node) * summation(out_grad, self.axis, keepdims=True)",
        "node * summation(out_grad, self.axis, keepdims=True)",
        "tests/ops/test_softmax.py " + TABLE,
    ),
    Fault(
        "matrix product: batch not summed",
        f"{OPS}/linalg.py",
        "to_b = _fit(sum_to(matmul(transpose(rows), d), columns.shape), b.shape)",
        "to_b = _fit(matmul(transpose(rows), d), b.shape)",
        TABLE,
    ),
    Fault(
        "convolution: second derivative doubled",
        f"{OPS}/conv.py",
        "self.to_output(x, out_grad) if d.requires_grad",
        "self.to_output(x, out_grad) * 2 if d.requires_grad",
        "tests/ops/test_conv.py",
    ),
    Fault(
        "convolution: stride and padding swapped",
        f"{OPS}/conv.py",
        'pair(op, "stride", stride, 1),\n        pair(op, "padding", padding, 0),',
        'pair(op, "stride", padding, 0),\n        pair(op, "padding", stride, 1),',
        "tests/ops/test_conv.py",
    ),
    Fault(
        "transposed convolution: output padding lost",
        f"{OPS}/conv.py",
        "+ 1 + extra[i] for i in (0, 1)",
        "+ 1 for i in (0, 1)",
        "tests/ops/test_conv.py",
    ),
    Fault(
        "indexing: gradient set, not added",
        f"{OPS}/indexing.py",
        "out.add_at(self.index, a)",
        "out[self.index] = a",
        "tests/ops " + TABLE,
    ),
    Fault(
        "where: the branches swapped",
        f"{OPS}/selection.py",
        "return MaskedFill(self.condition == 0, 0)(out_grad), MaskedFill(self.condition, 0)(out_grad)",
        "return MaskedFill(self.condition, 0)(out_grad), MaskedFill(self.condition == 0, 0)(out_grad)",
        TABLE,
    ),
    Fault(
        "label smoothing: over one class too few",
        f"{OPS}/loss.py",
        "label_smoothing / logits.shape[axis] * counted",
        "label_smoothing / (logits.shape[axis] - 1) * counted",
        "tests/ops/test_loss.py tests/cases",
    ),
    Fault(
        "a gradient that arrives twice replaces the first",
        "needle/engine.py",
        "pending[value] = part if before is None else before + part",
        "pending[value] = part",
        "tests/test_autograd.py",
    ),
]

TRAINING = [
    Fault(
        "momentum: 1 - momentum forgotten",
        "needle/optim/sgd.py",
        "self._move(params, grads, group, momentum)",
        "self._move(params, grads, group, 0.0)",
        "tests/optim tests/interface",
    ),
    Fault("Adam: step not counted", "needle/optim/adam.py", "step=self.t,", "step=1,", "tests/optim"),
    Fault(
        "clipping: by the largest, not the norm",
        "needle/optim/clip.py",
        "math.sqrt(sum(",
        "math.sqrt(max(",
        "tests/optim/test_clip.py",
    ),
    Fault("dropout: not scaled", "needle/nn/dropout.py", "(1 / (1 - p) if p < 1 else 0.0)", "1", "tests/nn"),
    Fault(
        "crop: shifted the other way",
        "needle/data/transforms.py",
        "top, left = self.padding + shift_x, self.padding + shift_y",
        "top, left = self.padding - shift_x, self.padding - shift_y",
        "tests/data tests/interface/test_data.py",
    ),
    Fault(
        "flip: upside down",
        "needle/data/transforms.py",
        "np.flip(x, axis=1)",
        "np.flip(x, axis=0)",
        "tests/data tests/interface/test_data.py",
    ),
]

REFERENCE = [
    Fault(
        "reference input gradient: kernel not flipped",
        f"{KERNELS}/numpy_layers.py",
        "to_numpy(weight)[::-1, ::-1].reshape",
        "to_numpy(weight).reshape",
        "tests/ops/test_conv.py",
    ),
    Fault(
        "reference input gradient: padding on the far side",
        f"{KERNELS}/numpy_layers.py",
        "spread[:, padding[0] : padding[0] + h",
        "spread[:, 0 : h",
        "tests/ops/test_conv.py",
    ),
    Fault(
        "reference max pooling: the last maximum wins",
        f"{KERNELS}/numpy_layers.py",
        "for k, windows, pixels in reversed(taps):",
        "for k, windows, pixels in taps:",
        "tests/ops/test_pool.py tests/cases",
    ),
    Fault(
        "reference average pooling: border counts",
        f"{KERNELS}/numpy_layers.py",
        "border = padding[axis] if count_include_pad else 0",
        "border = padding[axis]",
        "tests/ops/test_pool.py",
    ),
    Fault(
        "reference norm gradient: mean not subtracted",
        f"{KERNELS}/numpy_layers.py",
        "(g - _mean(g, axes).astype(g.dtype) - normalized",
        "(g - normalized",
        "tests/ops/test_norm.py",
    ),
    Fault(
        "reference ReLU gradient: < for <=",
        f"{KERNELS}/ndarray_backend_numpy.py",
        "np.where(_operand(y, out) <= 0",
        "np.where(_operand(y, out) < 0",
        "tests/ops/test_special_values.py",
    ),
]

CPU = f"{KERNELS}/cpu"
LAYERS = "tests/backend_ndarray/test_native_layers.py tests/backend_ndarray/test_native_products.py tests/ops"
MATH = "tests/backend_ndarray/test_native_math.py"

NATIVE = [
    Fault(
        "forward: the first row of the padding is a pixel",
        f"{CPU}/conv_axis.cc",
        "if (at >= 0 && at < input) taps.push_back({k, at});",
        "if (at >= -1 && at < input) taps.push_back({k, at < 0 ? 0 : at});",
        LAYERS,
    ),
    Fault(
        "input gradient: bottom row lost to the stride",
        f"{CPU}/conv_axis.cc",
        "at / stride < output) taps.push_back",
        "at / stride < output - (stride > 1)) taps.push_back",
        LAYERS,
    ),
    Fault(
        "input gradient: dilation ignored",
        f"{CPU}/conv_axis.cc",
        "const int64_t at = i + padding - k * dilation;",
        "const int64_t at = i + padding - k;",
        LAYERS,
    ),
    Fault(
        "depthwise: channels of the last register",
        f"{CPU}/depthwise.cc",
        "body(std::min(c, channels - lanes), Register<T>{});",
        "if (c + lanes <= channels) body(c, Register<T>{});",
        LAYERS,
    ),
    Fault(
        "depthwise: bias of the first channels for all",
        f"{CPU}/depthwise.cc",
        "if (row.bias) at.bias += c;",
        "",
        LAYERS,
    ),
    Fault("Winograd: bias forgotten", f"{CPU}/winograd.cc", "y[i][j] + bias);", "y[i][j]);", LAYERS),
    Fault(
        "Winograd: padding of the height for the width",
        f"{CPU}/winograd.cc",
        "% across_ * F::outputs - padding_.w;",
        "% across_ * F::outputs - padding_.h;",
        LAYERS,
    ),
    Fault(
        "product: each group starts from zero",
        f"{CPU}/matmul.cc",
        "multiply<T>(rows, steps, steps + length, panels, k0 == 0, nullptr);",
        "multiply<T>(rows, steps, steps + length, panels, true, nullptr);",
        "tests/backend_ndarray/test_native_products.py",
    ),
    Fault(
        "scatter-add: the last one stays",
        f"{CPU}/gather.cc",
        "for (int64_t j = 0; j < n; ++j) sums[j] += terms[j];",
        "for (int64_t j = 0; j < n; ++j) sums[j] = terms[j];",
        f"{MATH} tests/ops tests/backend_ndarray/test_indexing.py",
    ),
    Fault(
        "argmax: the last of equal ones",
        f"{CPU}/scan.cc",
        "bool better = (x > best) |",
        "bool better = (x >= best) |",
        f"{MATH} tests/backend_ndarray/test_reduction.py",
    ),
    Fault(
        "cumulative sum in columns: in float32",
        f"{CPU}/scan.cc",
        "double sums[kColumns] = {};",
        "T sums[kColumns] = {};",
        f"{MATH} tests/backend_ndarray tests/ops",
    ),
    Fault(
        "sum: off by one in the last chunk",
        f"{CPU}/reduce.cc",
        "std::min(plan.count, (i + 1) * kChunk));",
        "std::min(plan.count, (i + 1) * kChunk - 1));",
        MATH,
    ),
    Fault(
        "sum of columns: a chunk left out",
        f"{CPU}/reduce.cc",
        "for (int64_t i = 1; i < chunks; ++i) {\n      const A* next",
        "for (int64_t i = 2; i < chunks; ++i) {\n      const A* next",
        MATH,
    ),
    Fault(
        "copies: the last columns of a transposed tile",
        f"{CPU}/strides.cc",
        "copy(0, full_columns, full_rows, columns);",
        "",
        "tests/backend_ndarray",
    ),
    Fault(
        "strides: negative ones start at the wrong end",
        f"{CPU}/strides.cc",
        "operand.data += (loops.shape[d] - 1) * operand.strides[d];",
        "",
        "tests/backend_ndarray",
    ),
    Fault(
        "handed in: a view may end one element late",
        f"{CPU}/arguments.cc",
        "last >= handle->size)",
        "last > handle->size)",
        "tests/backend_ndarray/test_native_bad_input.py",
    ),
    Fault(
        "max pooling: >= for >", f"{CPU}/pool.cc", "wins = ~(v <= state.best) &", "wins = ~(v < state.best) &", LAYERS
    ),
    Fault(
        "average pooling: padding counts always",
        f"{CPU}/pool.h",
        "const int64_t border = include_pad ? padding : 0,",
        "const int64_t border = padding,",
        LAYERS,
    ),
    Fault(
        "cross entropy: maximum not subtracted at the label",
        f"{CPU}/cross_entropy.cc",
        "- (row[labels.as<int64_t>()[at[0]]] - top);",
        "- row[labels.as<int64_t>()[at[0]]];",
        "tests/ops/test_loss.py",
    ),
    Fault(
        "cross entropy gradient: label not subtracted",
        f"{CPU}/cross_entropy.cc",
        "* factor - Vec<T>(1)) * scale)[0];",
        "* factor) * scale)[0];",
        "tests/ops/test_loss.py",
    ),
    Fault(
        "SGD: Nesterov's step is the plain one",
        f"{CPU}/update.cc",
        "(nesterov ? g + momentum * velocity : velocity)",
        "velocity",
        "tests/optim",
    ),
    Fault(
        "Adam: eps inside the root",
        f"{CPU}/update.cc",
        "(std::sqrt(v) * root_scale + eps)",
        "(std::sqrt(v + eps) * root_scale)",
        "tests/optim tests/cases",
    ),
    Fault(
        "AdamW: decay twice",
        f"{CPU}/update.cc",
        "decoupled ? grad[i] : grad[i] + weight_decay * was",
        "grad[i] + weight_decay * was",
        "tests/optim",
    ),
    Fault(
        "ReLU gradient: < for <=",
        f"{CPU}/functors.h",
        "select(b <= Vec<T>(0), Vec<T>(0), a)",
        "select(b < Vec<T>(0), Vec<T>(0), a)",
        "tests/ops/test_special_values.py",
    ),
    Fault(
        "variance: divided by N - 1",
        f"{CPU}/norm.cc",
        "known.variance[s] /= double(layout.count);",
        "known.variance[s] /= double(layout.count - 1);",
        "tests/ops/test_norm.py",
    ),
    Fault(
        "variance: pieces' means taken for the mean",
        f"{CPU}/norm.cc",
        "known.variance[s] += squares + n * distance * distance;",
        "known.variance[s] += squares;",
        "tests/ops tests/backend_ndarray/test_native_layers.py",
    ),
    Fault(
        "layer norm: bias of the first column",
        f"{CPU}/norm.cc",
        "biases[c] = known.bias[layout.column_parameter[c]];",
        "biases[c] = known.bias[0];",
        "tests/ops/test_norm.py",
    ),
]

FAULTS = [*GRADIENTS, *TRAINING, *REFERENCE, *NATIVE]
