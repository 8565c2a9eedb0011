// What Python hands to a kernel, parsed and checked: whatever it is, a kernel sees views that lie in buffers which stay
// alive while it runs, and the caller sees one of the package's errors.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "handle.h"
#include "kernels.h"

namespace needle {

namespace py = pybind11;

constexpr int64_t kTile = 8;  // the course's __tile_size__

// An error class of needle.errors, by name, and its message.
struct Error {
  const char* kind;
  std::string message;
};

struct Call {
  const char* op;

  [[noreturn]] void shape_error(const std::string& what) const { throw Error{"ShapeError", op + (": " + what)}; }
  [[noreturn]] void dtype_error(const std::string& what) const { throw Error{"DTypeError", op + (": " + what)}; }
  void expect(bool fits, const char* rule) const {
    if (!fits) shape_error(rule);
  }
};

// A view, and a reference to the handle under it.
class Argument {
 public:
  Argument() = default;
  Argument(const Call& call, const char* name, py::handle object) { parse(call, name, object); }

  void parse(const Call& call, const char* name, py::handle object);
  // With what the view may be written through checked besides.
  static Argument output(const Call& call, const char* name, py::handle object);

  View view;
  const char* name = nullptr;

  bool is_float() const { return view.dtype == DType::float32 || view.dtype == DType::float64; }
  int64_t size() const { return size_; }
  std::string shape() const;

  // Repeat along new axes and axes of length 1, as `shape` of `out` has it.
  void broadcast_to(const Call& call, const Argument& out) { broadcast(call, out, 0); }
  // Likewise, all axes but the last two, which make a matrix.
  void broadcast_batch(const Call& call, const Argument& out) { broadcast(call, out, 2); }
  // Read from a copy where a write through `out` could change what is still to be read. Where elements are computed
  // one by one, the very same view is none of these cases.
  void separate_from(const Argument& out, bool one_by_one = false);
  bool overlaps(const Argument& other) const;
  bool same_view(const Argument& other) const;

 private:
  void broadcast(const Call& call, const Argument& out, int kept);
  void parse_lengths(const Call& call, py::handle shape, py::handle strides, py::handle offset);

  py::object handle_;
  int64_t size_ = 0;
  const char *first_ = nullptr, *last_ = nullptr;  // of the bytes that the view reaches
};

// A view, or a number beside one.
struct Number {
  bool is_number = false;
  double value = 0;
};
Number parse_number(py::handle object);

void expect_same_shape(const Call& call, const Argument& a, const Argument& b);
void expect_same_dtype(const Call& call, const Argument& a, const Argument& b);
void expect_dtype(const Call& call, const Argument& a, DType dtype);

// Two integers, each from `least` to 2^31 - 1.
Pair parse_pair(const Call& call, const char* name, py::handle object, int64_t least);
// Ascending axes of an array that has `ndim`.
Axes parse_axes(const Call& call, py::handle axes, int ndim);

std::vector<Argument> parse_list(const Call& call, const char* name, py::handle list, bool written);

}  // namespace needle
