// The innermost kernel of all products: a tile of C held in registers, and the one loop that does the arithmetic.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd.h"

namespace needle {

// A tile is up to kTileRows x 2 registers, or twice as many rows of one: as many accumulators as fit beside two registers
// of B and one of A.
#if defined(__AVX512F__)
constexpr int kTileRows = 14;
#elif defined(__aarch64__)
constexpr int kTileRows = 12;
#elif defined(__AVX2__)
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 4;
#endif

template <class T>
constexpr int kRegisterLanes = kRegisterBytes / sizeof(T);
template <class T>
constexpr int kTileColumns = 2 * kRegisterLanes<T>;

template <class T>
NEEDLE_INLINE Register<T> load_register(const T* p) {
  Register<T> r;
  std::memcpy(&r, p, sizeof r);
  return r;
}
template <class T>
NEEDLE_INLINE void store_register(T* p, Register<T> r) {
  std::memcpy(p, &r, sizeof r);
}

// A place on the reduction axis: an offset into A, and a row of B. Lists of steps let one kernel read plain matrices,
// windows of images and the pixels of a batch where they lie; a list costs nothing beside the arithmetic.
struct Step {
  int64_t a, b;
};

// Where the rows of a tile begin in A. They lie in two lines: the first `half` rows, and the others, which begin
// `second` further on. In a line, rows are one element apart, or evenly spaced; or all of them are listed.
struct Adjacent {
  int64_t second;
  int64_t operator()(int m, int half) const { return m < half ? m : m - half; }
};
struct Spaced {
  int64_t second, stride;
  int64_t operator()(int m, int half) const { return (m < half ? m : m - half) * stride; }
};
struct Listed {
  const int64_t* offsets;
  static constexpr int64_t second = 0;
  int64_t operator()(int m, int) const { return offsets[m]; }
};

// How many of a tile's rows are in its first line.
constexpr int first_line(int rows) { return (rows + 1) / 2; }

// C (+)= A B over one group of the reduction axis: M rows by V registers; those of C's second line are `c_second` after
// the first. Each element is a chain of fused multiply-adds from zero, which is then added to C (to zero for the first
// group).
template <class T, int M, int V, class Place>
void tile(const T* a, Place place, const T* b, int64_t b_stride, const Step* step, const Step* end, T* c,
          int64_t c_stride, int64_t c_second, bool first, const T* bias) {
  constexpr int lanes = kRegisterLanes<T>, half = first_line(M);
  const auto row_of_c = [=](int m) NEEDLE_INLINE_LAMBDA {
    return m < half ? c + m * c_stride : c + c_second + (m - half) * c_stride;
  };
  Register<T> sum[M][V] = {};
  if (!first) {  // C is needed at the end
    for (int m = 0; m < M; ++m)
      for (int v = 0; v < V; ++v) __builtin_prefetch(row_of_c(m) + v * lanes, 1, 3);
  }
  const T* a_second = a + place.second;
  for (; step != end; ++step) {
    const T* left = a + step->a;
    const T* second = a_second + step->a;
    const T* row = b + step->b * b_stride;
    Register<T> right[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) right[v] = load_register(row + v * lanes);
#pragma GCC unroll 32
    for (int m = 0; m < M; ++m) {
      const T one = (m < half ? left : second)[place(m, half)];
      const Register<T> x = one - Register<T>{};  // minus 0, since -0 plus 0 is not -0
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[m][v] = fma<T>(x, right[v], sum[m][v]);
    }
  }
#pragma GCC unroll 32
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      T* to = row_of_c(m) + v * lanes;
      Register<T> total = (first ? Register<T>{} : load_register(to)) + sum[m][v];
      if (bias) total += load_register(bias + v * lanes);
      store_register(to, total);
    }
  }
}

}  // namespace needle
