#include "arguments.h"

#include <structmember.h>

#include <algorithm>
#include <limits>

namespace needle {
namespace {

// The attributes of a view, by name and, for NDArrays, by their place in the object: a kernel reads a dozen of them,
// and to look each up would take as long as all the rest of a small kernel's call.
struct Attributes {
  enum { handle, shape, strides, offset, count };
  PyObject* names[count];
  Py_ssize_t places[count];
  PyTypeObject* type;  // that has these places

  Attributes() {
    static const char* const spelled[count] = {"_handle", "_shape", "_strides", "_offset"};
    py::object strided = py::module_::import("needle.backend_ndarray.strided").attr("StridedArray");
    for (int i = 0; i < count; ++i) {
      names[i] = PyUnicode_InternFromString(spelled[i]);
      py::object slot = strided.attr(spelled[i]);
      if (Py_TYPE(slot.ptr()) != &PyMemberDescr_Type) throw py::type_error("StridedArray has slots");
      places[i] = reinterpret_cast<PyMemberDescrObject*>(slot.ptr())->d_member->offset;
    }
    type = reinterpret_cast<PyTypeObject*>(strided.release().ptr());
  }
};

const Attributes& attributes() {
  static const Attributes* const attributes = new Attributes;
  return *attributes;
}

py::object attribute(const Call& call, const char* argument, py::handle object, int which) {
  const Attributes& known = attributes();
  PyObject* value;
  if (PyType_IsSubtype(Py_TYPE(object.ptr()), known.type)) {
    value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object.ptr()) + known.places[which]);
    Py_XINCREF(value);
  } else {
    value = PyObject_GetAttr(object.ptr(), known.names[which]);
    if (value == nullptr && !PyErr_ExceptionMatches(PyExc_AttributeError)) throw py::error_already_set();
    PyErr_Clear();
  }
  if (value == nullptr) {
    call.dtype_error(std::string(argument) + " must be an NDArray, got " + Py_TYPE(object.ptr())->tp_name);
  }
  return py::reinterpret_steal<py::object>(value);
}

int64_t integer(const Call& call, PyObject* object) {
  if (!PyLong_Check(object)) call.shape_error("lengths, strides and offsets are integers");
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) call.shape_error("a length, a stride or an offset does not fit 64 bits");
  return value;
}

}  // namespace

void Argument::parse(const Call& call, const char* argument, py::handle object) {
  name = argument;
  handle_ = attribute(call, argument, object, Attributes::handle);
  if (!is_handle(handle_.ptr())) {
    throw Error{"DeviceError", std::string(call.op) + ": " + argument + " is not on cpu(); move it with .to(device)"};
  }
  view.dtype = reinterpret_cast<Handle*>(handle_.ptr())->dtype;
  parse_lengths(call, attribute(call, argument, object, Attributes::shape),
                attribute(call, argument, object, Attributes::strides),
                attribute(call, argument, object, Attributes::offset));
}

void Argument::parse_lengths(const Call& call, py::handle shape, py::handle strides, py::handle offset) {
  if (!PyTuple_Check(shape.ptr()) || !PyTuple_Check(strides.ptr())) {
    call.shape_error("a shape and its strides are tuples of integers");
  }
  Py_ssize_t ndim = PyTuple_GET_SIZE(shape.ptr());
  if (ndim != PyTuple_GET_SIZE(strides.ptr())) call.shape_error("a shape and its strides differ in length");
  if (ndim > kMaxDims) call.shape_error("an array has more than " + std::to_string(kMaxDims) + " axes");
  view.ndim = static_cast<int>(ndim);
  // Overflow is remembered and not acted on at once: an axis of length 0 makes all else harmless.
  bool overflow = false;
  const int64_t start = integer(call, offset.ptr());
  int64_t first = start, last = start;
  size_ = 1;
  bool empty = false;
  for (int i = 0; i < view.ndim; ++i) {
    int64_t length = view.shape[i] = integer(call, PyTuple_GET_ITEM(shape.ptr(), i));
    int64_t stride = view.strides[i] = integer(call, PyTuple_GET_ITEM(strides.ptr(), i));
    if (length < 0) call.shape_error("a length is negative");
    if (length == 0) {
      empty = true;
      continue;
    }
    int64_t reach;
    overflow |= __builtin_mul_overflow(size_, length, &size_);
    overflow |= __builtin_mul_overflow(length - 1, stride, &reach);
    int64_t& end = reach < 0 ? first : last;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  auto* handle = reinterpret_cast<Handle*>(handle_.ptr());
  const int64_t bytes = item_size(view.dtype);
  if (empty) {
    size_ = 0;
    std::fill_n(view.strides, view.ndim, 0);
    view.data = handle->data;
    first_ = last_ = static_cast<char*>(handle->data);
    return;
  }
  if (overflow || size_ > std::numeric_limits<int64_t>::max() / bytes) {
    call.shape_error(std::string(name) + " of shape " + this->shape() + " has more elements than 64 bits count");
  }
  if (first < 0 || last >= handle->size) {
    call.shape_error(std::string(name) + " of shape " + this->shape() + " reaches elements " + std::to_string(first) +
                     " to " + std::to_string(last) + " of a buffer that has " + std::to_string(handle->size));
  }
  char* data = static_cast<char*>(handle->data);
  first_ = data + first * bytes;
  last_ = data + (last + 1) * bytes;
  view.data = data + start * bytes;
}

Argument Argument::output(const Call& call, const char* argument, py::handle object) {
  Argument out(call, argument, object);
  for (int i = 0; i < out.view.ndim; ++i) {
    if (out.view.strides[i] == 0 && out.view.shape[i] > 1 && out.size() > 0) {
      call.shape_error(std::string(argument) + " of shape " + out.shape() + " is broadcast along axis " +
                       std::to_string(i) + ", and cannot be written to");
    }
  }
  return out;
}

std::string Argument::shape() const {
  std::string text = "(";
  for (int i = 0; i < view.ndim; ++i) text += (i > 0 ? ", " : "") + std::to_string(view.shape[i]);
  return text + (view.ndim == 1 ? ",)" : ")");
}

void Argument::broadcast(const Call& call, const Argument& out, int kept) {
  const int added = out.view.ndim - view.ndim;
  bool fits = added >= 0;
  for (int i = 0; fits && i < view.ndim - kept; ++i) {
    fits = view.shape[i] == out.view.shape[i + added] || view.shape[i] == 1;
  }
  if (!fits) call.shape_error(std::string(name) + " of shape " + shape() + " does not broadcast to " + out.shape());
  for (int i = out.view.ndim - 1; i >= 0; --i) {  // backwards: places move up
    const int from = i - added;
    const bool matrix = i >= out.view.ndim - kept;
    const bool repeated = !matrix && (from < 0 || view.shape[from] != out.view.shape[i]);
    view.strides[i] = repeated ? 0 : view.strides[from];
    view.shape[i] = matrix ? view.shape[from] : out.view.shape[i];
  }
  view.ndim = out.view.ndim;
}

bool Argument::overlaps(const Argument& other) const {
  return handle_.is(other.handle_) && first_ < other.last_ && other.first_ < last_;
}

bool Argument::same_view(const Argument& other) const {
  return view.data == other.view.data && view.ndim == other.view.ndim &&
         std::equal(view.shape, view.shape + view.ndim, other.view.shape) &&
         std::equal(view.strides, view.strides + view.ndim, other.view.strides);
}

void Argument::separate_from(const Argument& out, bool one_by_one) {
  if (!overlaps(out) || (one_by_one && same_view(out))) return;
  int64_t size = 1;
  for (int i = 0; i < view.ndim; ++i) {
    if (__builtin_mul_overflow(size, view.shape[i], &size)) throw std::bad_alloc();
  }
  Handle* handle = new_handle(size, view.dtype);
  if (handle == nullptr) throw py::error_already_set();
  py::object owner = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(handle));
  View copied = view;
  copied.data = handle->data;
  int64_t step = 1;
  for (int i = view.ndim - 1; i >= 0; --i) {
    copied.strides[i] = step;
    step *= view.shape[i];
  }
  copy(view, copied);
  view = copied;
  handle_ = std::move(owner);
  first_ = static_cast<char*>(handle->data);
  last_ = first_ + size * item_size(view.dtype);
}

Number parse_number(py::handle object) {
  PyObject* o = object.ptr();
  if (PyFloat_CheckExact(o)) return {true, PyFloat_AS_DOUBLE(o)};
  const bool is_view = !PyLong_Check(o) && PyObject_HasAttr(o, attributes().names[Attributes::handle]);
  if (is_view || !PyNumber_Check(o)) return {};
  double value = PyFloat_AsDouble(o);
  if (value == -1 && PyErr_Occurred()) throw py::error_already_set();
  return {true, value};
}

void expect_same_shape(const Call& call, const Argument& a, const Argument& b) {
  bool same = a.view.ndim == b.view.ndim && std::equal(a.view.shape, a.view.shape + a.view.ndim, b.view.shape);
  if (!same) {
    call.shape_error(std::string(a.name) + " has shape " + a.shape() + ", " + b.name + " " + b.shape() +
                     "; they must be equal");
  }
}

void expect_same_dtype(const Call& call, const Argument& a, const Argument& b) {
  if (a.view.dtype != b.view.dtype) {
    call.dtype_error(std::string(a.name) + " has dtype " + dtype_name(a.view.dtype) + ", " + b.name + " " +
                     dtype_name(b.view.dtype) + "; convert one with astype");
  }
}

void expect_dtype(const Call& call, const Argument& a, DType dtype) {
  if (a.view.dtype != dtype) {
    call.dtype_error(std::string(a.name) + " has dtype " + dtype_name(a.view.dtype) + ", it must be " +
                     dtype_name(dtype));
  }
}

Pair parse_pair(const Call& call, const char* name, py::handle object, int64_t least) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  bool is_pair = PyTuple_Check(object.ptr()) && PyTuple_GET_SIZE(object.ptr()) == 2;
  Pair pair{0, 0};
  if (is_pair) {
    pair = {integer(call, PyTuple_GET_ITEM(object.ptr(), 0)), integer(call, PyTuple_GET_ITEM(object.ptr(), 1))};
  }
  if (!is_pair || std::min(pair.h, pair.w) < least || std::max(pair.h, pair.w) > kMost) {
    call.shape_error(std::string(name) + " must be two integers from " + std::to_string(least) + " to 2**31 - 1");
  }
  return pair;
}

Axes parse_axes(const Call& call, py::handle object, int ndim) {
  Axes axes;
  auto add = [&](PyObject* axis) {
    int64_t value = integer(call, axis);
    if (value < (axes.empty() ? 0 : axes.back() + 1) || value >= ndim) {
      call.shape_error("axes must be ascending, and from 0 to " + std::to_string(ndim - 1));
    }
    axes.push_back(static_cast<int>(value));
  };
  if (PyTuple_Check(object.ptr())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object.ptr()); ++i) add(PyTuple_GET_ITEM(object.ptr(), i));
  } else {
    add(object.ptr());
  }
  return axes;
}

std::vector<Argument> parse_list(const Call& call, const char* name, py::handle list, bool written) {
  if (!PyList_Check(list.ptr()) && !PyTuple_Check(list.ptr())) {
    call.dtype_error(std::string(name) + " must be a list of NDArrays, got " + Py_TYPE(list.ptr())->tp_name);
  }
  std::vector<Argument> arguments;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(list.ptr());
  arguments.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    // The list may change while an attribute of an odd object is asked for, so its item is held.
    py::object item = PySequence_Fast_GET_SIZE(list.ptr()) > i
                          ? py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(list.ptr(), i))
                          : py::none();
    arguments.push_back(written ? Argument::output(call, name, item) : Argument(call, name, item));
  }
  return arguments;
}

}  // namespace needle
