// Row kernels: functors applied to n elements in a row, 16 at a time.
#pragma once

#include <algorithm>

#include "simd.h"

namespace needle {

// One operand of a row, read 16 lanes at a time. An operand with step 0 repeats its one element.
template <class T>
class Input {
 public:
  Input(const char* p, int64_t step) : p_(reinterpret_cast<const T*>(p)), step_(step) {
    if (step == 0) {
      std::fill_n(repeated_, kLanes, *p_);
      p_ = repeated_;
    }
  }
  Input(const Input&) = delete;  // p_ may point into it
  NEEDLE_INLINE Vec<T> at(int64_t i) const { return load(p_ + i * step_); }
  // The last n < 16 elements, from the i-th on; the other lanes are 1, with which no functor is slow.
  NEEDLE_INLINE Vec<T> last(int64_t i, int64_t n) const { return step_ == 0 ? load(p_) : load_first(p_ + i, n, T(1)); }

 private:
  const T* p_;
  int64_t step_;
  T repeated_[kLanes];
};

template <class F, class T>
void unary_row(char* const* p, const int64_t* step, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  Input<T> a(p[1], step[1]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, F()(a.at(i)));
  if (i < n) store_first(out + i, F()(a.last(i, n - i)), n - i);
}

template <class F, class T>
void binary_row(char* const* p, const int64_t* step, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  Input<T> a(p[1], step[1]), b(p[2], step[2]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, F()(a.at(i), b.at(i)));
  if (i < n) store_first(out + i, F()(a.last(i, n - i), b.last(i, n - i)), n - i);
}

// Masks are bytes in memory and as wide as T in vectors: they are converted by plain loops over a short stretch, of which
// compilers make the best instructions.
constexpr int64_t kMaskStretch = 256;

template <class F, class T>
void comparison_row(char* const* p, const int64_t* step, int64_t n) {
  Input<T> a(p[1], step[1]), b(p[2], step[2]);
  Int<T> masks[kMaskStretch];
  for (int64_t begin = 0; begin < n; begin += kMaskStretch) {
    int64_t length = std::min(kMaskStretch, n - begin), i = 0;
    for (; i + kLanes <= length; i += kLanes) store(masks + i, F()(a.at(begin + i), b.at(begin + i)));
    if (i < length) store(masks + i, F()(a.last(begin + i, length - i), b.last(begin + i, length - i)));
    uint8_t* out = reinterpret_cast<uint8_t*>(p[0]) + begin;
    for (i = 0; i < length; ++i) out[i] = masks[i] & 1;
  }
}

template <class T>
void where_row(char* const* p, const int64_t* step, int64_t n) {
  T* out = reinterpret_cast<T*>(p[0]);
  Input<T> a(p[2], step[2]), b(p[3], step[3]);
  Int<T> masks[kMaskStretch];
  for (int64_t begin = 0; begin < n; begin += kMaskStretch) {
    int64_t length = std::min(kMaskStretch, n - begin), i = 0;
    const uint8_t* condition = reinterpret_cast<const uint8_t*>(p[1]) + begin * step[1];
    if (step[1] == 0) std::fill_n(masks, length, -Int<T>(*condition));
    else for (i = 0; i < length; ++i) masks[i] = -Int<T>(condition[i]);
    for (i = 0; i + kLanes <= length; i += kLanes)
      store(out + begin + i, select(load(masks + i), a.at(begin + i), b.at(begin + i)));
    if (i < length)
      store_first(out + begin + i,
                  select(load(masks + i), a.last(begin + i, length - i), b.last(begin + i, length - i)), length - i);
  }
}

}  // namespace needle
