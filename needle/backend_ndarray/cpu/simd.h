// Vectors of 16 lanes on every instruction set (the compiler splits them into registers), and fused multiply-add.
// The same source gives the same bits everywhere: lanes are independent, and every rounding is written out.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace needle {

constexpr int kLanes = 16;

template <class T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kLanes * sizeof(T)), aligned(sizeof(T)), may_alias));
};
template <class T>
using Vec = typename VectorOf<T>::type;

template <class T>
inline Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}
template <class T>
inline Vec<T> splat(T x) {
  return Vec<T>{} + x;  // +0 keeps every value but -0; use splat_bits for that
}

// a * b + c with one rounding.
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
inline double fma(double a, double b, double c) { return std::fma(a, b, c); }

template <class T>
inline Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  Vec<T> r;
  for (int i = 0; i < kLanes; ++i) r[i] = fma(a[i], b[i], c[i]);
  return r;
}

// The fixed tree that joins the lanes: halves are added until one number is left.
template <class T>
inline T join_sum(Vec<T> v) {
  T lane[kLanes];
  std::memcpy(lane, &v, sizeof v);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

}  // namespace needle
