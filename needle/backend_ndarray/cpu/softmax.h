// One row of n elements side by side, as softmax and cross entropy read it.
#pragma once

#include "parallel.h"
#include "reduction.h"

namespace needle {

constexpr int64_t kSoftmaxGrain = 1 << 13;  // elements

template <class T>
NEEDLE_INLINE T largest_of(const T* p, int64_t n) {
  Vec<T> lanes(Max<T>::kStart);
  reduce_row<Max<T>>(p, 1, n, lanes);
  return join(lanes, [](T a, T b) { return Max<T>::combine(a, b); });
}

// body(16 elements less the largest, where they begin, how many count). The others are -inf, whose exponential is 0.
template <class T, class Body>
NEEDLE_INLINE void for_each_shifted(const T* p, int64_t n, Vec<T> largest, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(load(p + i) - largest, i, int64_t(kLanes));
  if (i < n) body(load_first(p + i, n - i, -kInfinity<T>) - largest, i, n - i);
}

template <class T>
NEEDLE_INLINE void store_some(T* p, Vec<T> v, int64_t count) {
  if (count == kLanes) store(p, v);
  else store_first(p, v, count);
}

}  // namespace needle
