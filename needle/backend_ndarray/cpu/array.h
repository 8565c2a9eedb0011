// What a kernel sees of an NDArray: plain structs, no Python.
#pragma once

#include <cstdint>
#include <vector>

namespace needle {

enum class DType { float32, float64, int64, int32, uint8, boolean };

constexpr int kMaxDims = 32;

// A strided view on a buffer. `data` is the first element of the view (the offset is applied already); shape and
// strides count elements; a stride may be 0 or negative. The binding has checked that all of it lies in the buffer.
struct View {
  void* data;
  DType dtype;
  int ndim;
  int64_t shape[kMaxDims];
  int64_t strides[kMaxDims];

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return n;
  }
};

// An operand of an elementwise kernel: a view, or a number that is rounded to the other operand's dtype.
struct Operand {
  bool is_number;
  double number;
  View view;
};

struct Pair {
  int64_t h, w;
};

}  // namespace needle
