// Walking over the elements of several strided operands of one shape at once.
#pragma once

#include "array.h"

namespace needle {

constexpr int kMaxOperands = 4;

// Operands of one shape; operand 0 is written, the others are read. Strides count bytes.
struct Loops {
  struct Operand {
    char* data;
    int64_t itemsize;
    int64_t strides[kMaxDims];
  };
  int count = 0, ndim = 0;
  int64_t shape[kMaxDims];
  Operand operands[kMaxOperands];

  explicit Loops(const View& written);
  void add(const View& view);
  void add_number(void* number, int64_t itemsize);  // repeated everywhere; `number` outlives the loops
};

int64_t itemsize(DType dtype);

// Remove axes of length 1, turn axes along which operand 0 runs backwards, order the axes by its strides (the smallest
// last), and merge neighbours that are one axis for every operand. What is left has ndim >= 1.
void simplify(Loops& loops);

// A kernel on n elements in a row of each operand: operand k's are p[k][0], p[k][1], ..., or all p[k][0] where step[k] is
// 0 (it is 1 otherwise). step[0] is 1.
using RowKernel = void (*)(char* const* p, const int64_t* step, int64_t n);

// Call the kernel on rows that together are all elements, on several threads. Operands whose elements do not lie side by
// side are copied to and from scratch memory (slot 7) tile by tile, so that permuted ones are read along their memory.
// `cost` is about the time of an element, in units of an addition's. Without a kernel (nullptr), operand 1 is copied to
// operand 0 as it is.
void for_each_row(Loops loops, RowKernel kernel, int64_t cost);

// Call body(offsets) for every index of the axes [0, ndim), in row-major order from the begin-th to before the end-th;
// offsets[k] is what strides[k] make of the index.
template <int operands, class Body>
void for_each_index(int ndim, const int64_t* shape, const int64_t* const (&strides)[operands], int64_t begin, int64_t end,
                    Body body) {
  int64_t index[kMaxDims], offsets[operands] = {};
  int64_t rest = begin;
  for (int d = ndim - 1; d >= 0; --d) {
    index[d] = rest % shape[d];
    rest /= shape[d];
    for (int k = 0; k < operands; ++k) offsets[k] += index[d] * strides[k][d];
  }
  for (int64_t i = begin; i < end; ++i) {
    body(offsets);
    for (int d = ndim - 1; d >= 0; --d) {
      for (int k = 0; k < operands; ++k) offsets[k] += strides[k][d];
      if (++index[d] < shape[d]) break;
      for (int k = 0; k < operands; ++k) offsets[k] -= shape[d] * strides[k][d];
      index[d] = 0;
    }
  }
}

}  // namespace needle
