// The module of one instruction set: elementwise kernels, reductions, moving data, products. Each function checks what
// it is handed, so that no call crashes, and runs the native kernel or the reference.
#include "dispatch.h"
#include "strides.h"

namespace needle {
namespace {

using py::handle;

void expect_float(const Call& call, const Argument& a) {
  if (a.is_float()) return;
  call.dtype_error(std::string(a.name) + " must be float32 or float64, not " + dtype_name(a.view.dtype));
}

// Elementwise.

void bind_unary(py::module_& m, const char* name, Unary op, bool only_float) {
  def(m, name, [=](handle a, handle out) {
    const Call call{name};
    Argument x(call, "a", a), y = Argument::output(call, "out", out);
    expect_same_shape(call, x, y);
    expect_same_dtype(call, x, y);
    if (only_float) expect_float(call, x);
    if (x.is_float()) x.separate_from(y, true);
    dispatch(call, x.is_float(), y.size(), [&] { unary(op, x.view, y.view); }, a, out);
  }, "a", "out");
}

// One operand of two: a view broadcast to the result's shape, or a number.
struct Side {
  Argument argument;
  Operand operand;

  Side(const Call& call, const char* name, handle object, const Argument& out) {
    Number number = parse_number(object);
    operand.is_number = number.is_number;
    operand.number = number.value;
    if (number.is_number) return;
    argument.parse(call, name, object);
    argument.broadcast_to(call, out);
    if (argument.is_float()) argument.separate_from(out, true);
    operand.view = argument.view;
  }
};

// The dtype in which two operands combine, which must be the same.
DType common_dtype(const Call& call, const Side& a, const Side& b) {
  if (a.operand.is_number && b.operand.is_number) call.dtype_error("a and b are both numbers; one must be an NDArray");
  if (!a.operand.is_number && !b.operand.is_number) expect_same_dtype(call, a.argument, b.argument);
  return a.operand.is_number ? b.operand.view.dtype : a.operand.view.dtype;
}

bool floating(DType dtype) { return dtype == DType::float32 || dtype == DType::float64; }

template <class Op, class Kernel>
void bind_binary(py::module_& m, const char* name, Op op, Kernel* kernel, bool gives_bool, const char* first = "a",
                 const char* second = "b") {
  def(m, name, [=](handle a, handle b, handle out) {
    const Call call{name};
    Argument y = Argument::output(call, "out", out);
    Side left(call, first, a, y), right(call, second, b, y);
    DType dtype = common_dtype(call, left, right);
    expect_dtype(call, y, gives_bool ? DType::boolean : dtype);
    dispatch(call, floating(dtype), y.size(), [&] { kernel(op, left.operand, right.operand, y.view); }, a, b, out);
  }, first, second, "out");
}

void bind_where(py::module_& m) {
  def(m, "where", [](handle condition, handle a, handle b, handle out) {
    const Call call{"where"};
    Argument y = Argument::output(call, "out", out), mask(call, "condition", condition);
    expect_dtype(call, mask, DType::boolean);
    mask.broadcast_to(call, y);
    Side left(call, "a", a, y), right(call, "b", b, y);
    for (Side* side : {&left, &right}) {
      if (!side->operand.is_number) expect_same_dtype(call, side->argument, y);
    }
    dispatch(call, y.is_float(), y.size(), [&] { where(mask.view, left.operand, right.operand, y.view); },
             condition, a, b, out);
  }, "condition", "a", "b", "out");
}

// Moving data.

void bind_moves(py::module_& m) {
  def(m, "from_numpy", [](handle a, handle out) {
    const Call call{"from_numpy"};
    Argument::output(call, "out", out);
    reference(call, a, out);
  }, "a", "out");
  def(m, "to_numpy", [](handle a) {
    const Call call{"to_numpy"};
    Argument(call, "a", a);
    return reference(call, a);
  }, "a");
  def(m, "fill", [](handle out, handle value) {
    const Call call{"fill"};
    Argument y = Argument::output(call, "out", out);
    Number number = parse_number(value);
    if (!number.is_number) call.dtype_error("the value must be a number");
    dispatch(call, y.is_float(), y.size(), [&] { fill(y.view, number.value); }, out, value);
  }, "out", "value");
  def(m, "copy", [](handle a, handle out) {
    const Call call{"copy"};
    Argument x(call, "a", a), y = Argument::output(call, "out", out);
    expect_same_shape(call, x, y);
    bool native = x.is_float() && y.is_float();
    if (native) x.separate_from(y, true);
    dispatch(call, native, y.size(), [&] { copy(x.view, y.view); }, a, out);
  }, "a", "out");
}

// Rows (n, ...) picked from, or added to, those of a table (m, ...).
void expect_rows(const Call& call, const Argument& rows, const Argument& indices, const Argument& table) {
  expect_same_dtype(call, rows, table);
  expect_dtype(call, indices, DType::int64);
  bool fits = indices.view.ndim == 1 && rows.view.ndim == table.view.ndim && rows.view.ndim >= 1 &&
              rows.view.shape[0] == indices.view.shape[0];
  for (int i = 1; fits && i < rows.view.ndim; ++i) fits = rows.view.shape[i] == table.view.shape[i];
  call.expect(fits, "indices (n,) pick rows (n, ...) of a table (m, ...)");
  const auto* index = indices.view.as<int64_t>();
  for (int64_t i = 0; i < indices.view.shape[0]; ++i, index += indices.view.strides[0]) {
    if (*index < 0 || *index >= table.view.shape[0]) {
      throw Error{"BoundsError", std::string(call.op) + ": index " + std::to_string(*index) + " at " +
                                     std::to_string(i) + " is not in 0.." + std::to_string(table.view.shape[0] - 1)};
    }
  }
}

void bind_rows(py::module_& m) {
  def(m, "gather", [](handle a, handle indices, handle out) {
    const Call call{"gather"};
    Argument table(call, "a", a), index(call, "indices", indices), y = Argument::output(call, "out", out);
    expect_rows(call, y, index, table);
    if (table.is_float()) table.separate_from(y);
    dispatch(call, table.is_float(), y.size(), [&] { gather(table.view, index.view, y.view); }, a, indices, out);
  }, "a", "indices", "out");
  def(m, "scatter_add", [](handle a, handle indices, handle out) {
    const Call call{"scatter_add"};
    Argument rows(call, "a", a), index(call, "indices", indices), y = Argument::output(call, "out", out);
    expect_rows(call, rows, index, y);
    if (rows.is_float()) rows.separate_from(y);
    dispatch(call, rows.is_float(), rows.size(), [&] { scatter_add(rows.view, index.view, y.view); }, a, indices, out);
  }, "a", "indices", "out");
}

// Reductions.

void bind_reduction(py::module_& m, const char* name, Reduction op) {
  def(m, name, [=](handle a, handle axes, handle out) {
    const Call call{name};
    Argument x(call, "a", a), y = Argument::output(call, "out", out);
    expect_same_dtype(call, x, y);
    Axes reduced = parse_axes(call, axes, x.view.ndim);
    bool fits = x.view.ndim == y.view.ndim;
    for (int i = 0; fits && i < x.view.ndim; ++i) {
      bool along = std::find(reduced.begin(), reduced.end(), i) != reduced.end();
      fits = y.view.shape[i] == (along ? 1 : x.view.shape[i]);
    }
    call.expect(fits, "out must have a's shape, with length 1 along the axes");
    call.expect(op == Reduction::sum || x.size() > 0 || y.size() == 0, "there are no elements along the axes");
    if (x.is_float()) x.separate_from(y);
    dispatch(call, x.is_float(), x.size(), [&] { reduce(op, x.view, reduced, y.view); }, a, axes, out);
  }, "a", "axes", "out");
}

int parse_axis(const Call& call, handle axis, int ndim) {
  Axes axes = parse_axes(call, axis, ndim);
  call.expect(axes.size() == 1, "there must be one axis");
  return axes[0];
}

// Kernels whose result has the shape and the dtype of their operand.
void bind_along_axis(py::module_& m, const char* name, void (*kernel)(const View&, int, const View&), bool only_float) {
  def(m, name, [=](handle a, handle axis, handle out) {
    const Call call{name};
    Argument x(call, "a", a), y = Argument::output(call, "out", out);
    expect_same_dtype(call, x, y);
    expect_same_shape(call, x, y);
    if (only_float) expect_float(call, x);
    int along = parse_axis(call, axis, x.view.ndim);
    if (x.is_float()) x.separate_from(y);
    dispatch(call, x.is_float(), x.size(), [&] { kernel(x.view, along, y.view); }, a, axis, out);
  }, "a", "axis", "out");
}

void bind_along_axis(py::module_& m) {
  bind_along_axis(m, "cumsum", cumsum, false);
  bind_along_axis(m, "softmax", softmax, true);
  bind_along_axis(m, "log_softmax", log_softmax, true);
  def(m, "argmax", [](handle a, handle axis, handle out) {
    const Call call{"argmax"};
    Argument x(call, "a", a), y = Argument::output(call, "out", out);
    expect_dtype(call, y, DType::int64);
    int along = parse_axis(call, axis, x.view.ndim);
    bool fits = x.view.ndim == y.view.ndim;
    for (int i = 0; fits && i < x.view.ndim; ++i) fits = y.view.shape[i] == (i == along ? 1 : x.view.shape[i]);
    call.expect(fits, "out must have a's shape, with length 1 along the axis");
    call.expect(x.size() > 0 || y.size() == 0, "there are no elements along the axis");
    dispatch(call, x.is_float(), x.size(), [&] { argmax(x.view, along, y.view); }, a, axis, out);
  }, "a", "axis", "out");
  def(m, "argsort", [](handle a, handle axis, handle out) {
    const Call call{"argsort"};
    Argument x(call, "a", a), y = Argument::output(call, "out", out);
    expect_dtype(call, y, DType::int64);
    expect_same_shape(call, x, y);
    parse_axis(call, axis, x.view.ndim);
    reference(call, a, axis, out);
  }, "a", "axis", "out");
}

// Rows along an axis of a, which is not empty, and what has one element for each: a label or a number.
void expect_per_row(const Call& call, const Argument& a, int axis, std::initializer_list<const Argument*> per_row) {
  expect_float(call, a);
  call.expect(a.view.shape[axis] > 0, "there are no elements along the axis");
  for (const Argument* one : per_row) {
    bool fits = one->view.ndim == a.view.ndim;
    for (int i = 0; fits && i < a.view.ndim; ++i) fits = one->view.shape[i] == (i == axis ? 1 : a.view.shape[i]);
    if (!fits) call.shape_error(std::string(one->name) + " must have a's shape, with length 1 along the axis");
    if (one->view.dtype != DType::int64) expect_same_dtype(call, a, *one);
  }
}

void expect_labels(const Call& call, const Argument& labels, int64_t classes) {
  expect_dtype(call, labels, DType::int64);
  const int64_t* const strides[] = {labels.view.strides};
  for_each_index(labels.view.ndim, labels.view.shape, strides, 0, labels.size(), [&](const int64_t* at) {
    const int64_t label = labels.view.as<int64_t>()[*at];
    if (label < 0 || label >= classes) {
      throw Error{"BoundsError", std::string(call.op) + ": label " + std::to_string(label) + " is not in 0.." +
                                     std::to_string(classes - 1)};
    }
  });
}

void bind_cross_entropy(py::module_& m) {
  def(m, "cross_entropy", [](handle a, handle labels, handle axis, handle out, handle largest, handle inverse) {
    const Call call{"cross_entropy"};
    Argument x(call, "a", a), classes(call, "labels", labels), y = Argument::output(call, "out", out),
             top = Argument::output(call, "largest", largest), factor = Argument::output(call, "inverse", inverse);
    int along = parse_axis(call, axis, x.view.ndim);
    expect_per_row(call, x, along, {&classes, &y, &top, &factor});
    expect_labels(call, classes, x.view.shape[along]);
    call.expect(!y.overlaps(top) && !y.overlaps(factor) && !top.overlaps(factor),
                "arrays that are written must not share memory");
    for (const Argument* written : {&y, &top, &factor}) {
      x.separate_from(*written);
      classes.separate_from(*written);
    }
    dispatch(call, true, x.size(),
             [&] { cross_entropy(x.view, classes.view, along, y.view, top.view, factor.view); },
             a, labels, axis, out, largest, inverse);
  }, "a", "labels", "axis", "out", "largest", "inverse");
  def(m, "cross_entropy_gradient", [](handle d, handle a, handle labels, handle largest, handle inverse, handle axis,
                                      handle out) {
    const Call call{"cross_entropy_gradient"};
    Argument g(call, "d", d), x(call, "a", a), classes(call, "labels", labels), top(call, "largest", largest),
             factor(call, "inverse", inverse), y = Argument::output(call, "out", out);
    int along = parse_axis(call, axis, x.view.ndim);
    expect_same_shape(call, x, y);
    expect_same_dtype(call, x, y);
    expect_per_row(call, x, along, {&g, &classes, &top, &factor});
    expect_labels(call, classes, x.view.shape[along]);
    for (Argument* read : {&g, &x, &classes, &top, &factor}) read->separate_from(y);
    dispatch(call, true, x.size(),
             [&] { cross_entropy_gradient(g.view, x.view, classes.view, top.view, factor.view, along, y.view); },
             d, a, labels, largest, inverse, axis, out);
  }, "d", "a", "labels", "largest", "inverse", "axis", "out");
}

// Products.

void bind_matmul(py::module_& m) {
  def(m, "matmul", [](handle a, handle b, handle out) {
    const Call call{"matmul"};
    Argument x(call, "a", a), w(call, "b", b), y = Argument::output(call, "out", out);
    expect_same_dtype(call, x, w);
    expect_same_dtype(call, x, y);
    const int nx = x.view.ndim, nw = w.view.ndim, ny = y.view.ndim;
    call.expect(nx >= 2 && nw >= 2 && ny >= 2 && x.view.shape[nx - 1] == w.view.shape[nw - 2] &&
                    y.view.shape[ny - 2] == x.view.shape[nx - 2] && y.view.shape[ny - 1] == w.view.shape[nw - 1],
                "shapes must be (..., m, n), (..., n, p) and (..., m, p)");
    x.broadcast_batch(call, y);
    w.broadcast_batch(call, y);
    if (x.is_float()) {
      x.separate_from(y);
      w.separate_from(y);
    }
    const int64_t work = std::max({x.size(), w.size(), y.size()});
    dispatch(call, x.is_float(), work, [&] { matmul(x.view, w.view, y.view); }, a, b, out);
  }, "a", "b", "out");
}

// The course's product of tiled matrices, on handles: (m/t, n/t, t, t) x (n/t, p/t, t, t) -> (m/t, p/t, t, t).
void bind_matmul_tiled(py::module_& m) {
  def(m, "matmul_tiled", [](handle a, handle b, handle out, int64_t rows, int64_t inner, int64_t columns) {
    const Call call{"matmul_tiled"};
    auto tiles = [&](handle object, int64_t height, int64_t width) {
      if (!is_handle(object.ptr())) throw Error{"DeviceError", "matmul_tiled: expected handles of cpu() arrays"};
      auto* array = reinterpret_cast<Handle*>(object.ptr());
      int64_t size;
      if (array->dtype != DType::float32) call.dtype_error("arrays must be float32");
      call.expect(height >= 0 && width >= 0 && height % kTile == 0 && width % kTile == 0,
                  "m, n and p must be multiples of 8, none negative");
      call.expect(!__builtin_mul_overflow(height, width, &size) && size <= array->size,
                  "a buffer is smaller than its matrix");
      return static_cast<float*>(array->data);
    };
    call.expect(!out.is(a) && !out.is(b), "out must have a buffer of its own");
    const float* x = tiles(a, rows, inner);
    const float* w = tiles(b, inner, columns);
    float* y = tiles(out, rows, columns);
    run(std::max(rows * inner, inner * columns), [&] { matmul_tiled(x, w, y, rows, inner, columns); });
  }, "a", "b", "out", "m", "n", "p");
  m.attr("__tile_size__") = kTile;
}

}  // namespace

void bind(py::module_& m) {
  if (!add_handle_type(m.ptr())) throw py::error_already_set();
  py::register_local_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const Error& e) {
      py::set_error(py::module_::import("needle.errors").attr(e.kind), e.message.c_str());
    } catch (const std::bad_alloc&) {
      PyErr_SetString(PyExc_MemoryError, "there is no memory for a kernel's intermediate results; use smaller arrays");
    }
  });
  bind_moves(m);
  bind_rows(m);
  bind_unary(m, "negate", Unary::negate, false);
  bind_unary(m, "absolute", Unary::absolute, false);
  bind_unary(m, "sign", Unary::sign, false);
  bind_unary(m, "sqrt", Unary::sqrt, true);
  bind_unary(m, "exp", Unary::exp, true);
  bind_unary(m, "log", Unary::log, true);
  bind_unary(m, "tanh", Unary::tanh, true);
  bind_unary(m, "sigmoid", Unary::sigmoid, true);
  bind_unary(m, "erf", Unary::erf, true);
  bind_binary(m, "add", Binary::add, binary, false);
  bind_binary(m, "subtract", Binary::subtract, binary, false);
  bind_binary(m, "multiply", Binary::multiply, binary, false);
  bind_binary(m, "divide", Binary::divide, binary, false);
  bind_binary(m, "power", Binary::power, binary, false);
  bind_binary(m, "maximum", Binary::maximum, binary, false);
  bind_binary(m, "minimum", Binary::minimum, binary, false);
  bind_binary(m, "relu_gradient", Binary::relu_gradient, binary, false, "d", "y");
  bind_binary(m, "equal", Comparison::equal, compare, true);
  bind_binary(m, "not_equal", Comparison::not_equal, compare, true);
  bind_binary(m, "less", Comparison::less, compare, true);
  bind_binary(m, "less_equal", Comparison::less_equal, compare, true);
  bind_binary(m, "greater", Comparison::greater, compare, true);
  bind_binary(m, "greater_equal", Comparison::greater_equal, compare, true);
  bind_where(m);
  bind_reduction(m, "reduce_sum", Reduction::sum);
  bind_reduction(m, "reduce_max", Reduction::max);
  bind_reduction(m, "reduce_min", Reduction::min);
  bind_along_axis(m);
  bind_cross_entropy(m);
  bind_matmul(m);
  bind_matmul_tiled(m);
  bind_layers(m);
  bind_runtime(m);
}

}  // namespace needle

PYBIND11_MODULE(NEEDLE_MODULE, m) { needle::bind(m); }
