// The innermost kernel of all products: a tile of C held in registers, and the one loop that does the arithmetic.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd.h"

namespace needle {

// A tile is up to kTileRows x 2 registers: as many accumulators as fit beside two registers of B and one of A.
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

// Where the rows of a tile begin in A: one element apart, evenly spaced, or listed.
struct Adjacent {
  int64_t operator()(int m) const { return m; }
};
struct Spaced {
  int64_t stride;
  int64_t operator()(int m) const { return m * stride; }
};
struct Listed {
  const int64_t* offsets;
  int64_t operator()(int m) const { return offsets[m]; }
};

// C (+)= A B over one group of the reduction axis: M rows, `c_stride` apart in C, by V registers. Each element is a
// chain of fused multiply-adds from zero, which is then added to C (to zero for the first group).
template <class T, int M, int V, class Place>
void tile(const T* a, Place place, const T* b, int64_t b_stride, const Step* step, const Step* end, T* c,
          int64_t c_stride, bool first, const T* bias) {
  constexpr int lanes = kRegisterLanes<T>;
  Register<T> sum[M][V] = {};
  if (!first) {  // C is needed at the end
    for (int m = 0; m < M; ++m)
      for (int v = 0; v < V; ++v) __builtin_prefetch(c + m * c_stride + v * lanes, 1, 3);
  }
  for (; step != end; ++step) {
    const T* left = a + step->a;
    const T* row = b + step->b * b_stride;
    Register<T> right[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) right[v] = load_register(row + v * lanes);
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
      const Register<T> x = left[place(m)] - Register<T>{};  // minus 0, since -0 plus 0 is not -0
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[m][v] = fma<T>(x, right[v], sum[m][v]);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      T* to = c + m * c_stride + v * lanes;
      Register<T> total = (first ? Register<T>{} : load_register(to)) + sum[m][v];
      if (bias) total += load_register(bias + v * lanes);
      store_register(to, total);
    }
  }
}

}  // namespace needle
