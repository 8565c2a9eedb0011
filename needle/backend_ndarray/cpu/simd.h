// Vectors of 16 lanes on every instruction set, made of as many registers as they take, and fused multiply-add.
// The same source gives the same bits everywhere: lanes are independent, and every rounding is written out.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

#define NEEDLE_INLINE inline __attribute__((always_inline))
#define NEEDLE_INLINE_LAMBDA __attribute__((always_inline))  // after a lambda's parameters

namespace needle {

constexpr int kLanes = 16;

#if defined(__AVX512F__)
constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

// A vector of `n` elements in one register, as the compiler knows it.
template <class T, int n = kRegisterBytes / static_cast<int>(sizeof(T))>
struct RegisterOf {
  typedef T type __attribute__((vector_size(n * sizeof(T))));
};
template <class T, int n = kRegisterBytes / static_cast<int>(sizeof(T))>
using Register = typename RegisterOf<T, n>::type;

// The integer as wide as T: what masks and bit patterns are made of.
template <class T>
using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// What T's arithmetic is done in: integers wrap around, as they do in lanes whose floating-point value is NaN.
template <class T>
struct WrappingOf {
  using type = T;
};
template <>
struct WrappingOf<int32_t> {
  using type = uint32_t;
};
template <>
struct WrappingOf<int64_t> {
  using type = uint64_t;
};
template <class T>
using Wrapping = typename WrappingOf<T>::type;

// body(0), ..., body(n - 1) without a loop, which GCC would unroll only after it has put arrays on the stack.
template <int n, class Body>
NEEDLE_INLINE void unroll(Body body) {
  if constexpr (n > 0) {
    unroll<n - 1>(body);
    body(n - 1);
  }
}
// A statement for every part i of a Vec<T>.
#define NEEDLE_EACH_PART(T, ...) unroll<Vec<T>::kParts>([&](int i) NEEDLE_INLINE_LAMBDA { __VA_ARGS__; })

template <class T>
struct Vec {
  static constexpr int kWidth = kRegisterBytes / sizeof(T);
  static constexpr int kParts = kLanes / kWidth;
  static_assert(kParts * kWidth == kLanes);

  Register<T> part[kParts];

  Vec() = default;
  NEEDLE_INLINE Vec(T x) {  // every lane x; implicit, so that `v * 2` is written as for numbers
    NEEDLE_EACH_PART(T, part[i] = x - Register<T>{});  // minus 0, since -0 plus 0 is not -0
  }
  NEEDLE_INLINE T operator[](int i) const { return part[i / kWidth][i % kWidth]; }
  NEEDLE_INLINE void set(int i, T x) { part[i / kWidth][i % kWidth] = x; }

  using Word = Register<Wrapping<T>>;
#define NEEDLE_OPERATOR(op) \
  friend NEEDLE_INLINE Vec operator op(Vec a, Vec b) { \
    NEEDLE_EACH_PART(T, a.part[i] = (Register<T>)((Word)a.part[i] op (Word)b.part[i])); \
    return a; \
  }
  NEEDLE_OPERATOR(+)
  NEEDLE_OPERATOR(-)
  NEEDLE_OPERATOR(*)
  NEEDLE_OPERATOR(/)
  NEEDLE_OPERATOR(&)  // the bitwise ones: of integers
  NEEDLE_OPERATOR(|)
  NEEDLE_OPERATOR(^)
#undef NEEDLE_OPERATOR

// Comparisons give a mask: all bits set in the lanes where they hold.
#define NEEDLE_COMPARISON(op) \
  friend NEEDLE_INLINE Vec<Int<T>> operator op(Vec a, Vec b) { \
    Vec<Int<T>> r; \
    NEEDLE_EACH_PART(T, r.part[i] = (Register<Int<T>>)(a.part[i] op b.part[i])); \
    return r; \
  }
  NEEDLE_COMPARISON(==)
  NEEDLE_COMPARISON(!=)
  NEEDLE_COMPARISON(<)
  NEEDLE_COMPARISON(<=)
  NEEDLE_COMPARISON(>)
  NEEDLE_COMPARISON(>=)
#undef NEEDLE_COMPARISON

  friend NEEDLE_INLINE Vec operator-(Vec a) {
    NEEDLE_EACH_PART(T, a.part[i] = -a.part[i]);
    return a;
  }
  friend NEEDLE_INLINE Vec operator~(Vec a) {
    NEEDLE_EACH_PART(T, a.part[i] = ~a.part[i]);
    return a;
  }
  NEEDLE_INLINE Vec& operator+=(Vec b) { return *this = *this + b; }
  NEEDLE_INLINE Vec& operator-=(Vec b) { return *this = *this - b; }
  NEEDLE_INLINE Vec& operator*=(Vec b) { return *this = *this * b; }
};

// Memory of any alignment. Register by register, since GCC copies a whole array of them through the stack.
template <class T>
NEEDLE_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  NEEDLE_EACH_PART(T, std::memcpy(&v.part[i], p + i * Vec<T>::kWidth, kRegisterBytes));
  return v;
}
template <class T>
NEEDLE_INLINE void store(T* p, Vec<T> v) {
  NEEDLE_EACH_PART(T, std::memcpy(p + i * Vec<T>::kWidth, &v.part[i], kRegisterBytes));
}
template <class T>
NEEDLE_INLINE Vec<T> splat(T x) {
  return Vec<T>(x);
}

template <class T>
NEEDLE_INLINE Vec<T> select(Vec<Int<T>> mask, Vec<T> a, Vec<T> b) {
  NEEDLE_EACH_PART(T, a.part[i] = mask.part[i] ? a.part[i] : b.part[i]);
  return a;
}

// The first n lanes from memory, the others `rest`; and the first n lanes to memory. n < 16.
template <class T>
NEEDLE_INLINE Vec<T> load_first(const T* p, int64_t n, T rest) {
  Vec<T> v(rest);
#if defined(__AVX512F__)
  unsigned mask = (1u << n) - 1;
  if constexpr (std::is_same_v<T, float>) {
    v.part[0] = _mm512_mask_loadu_ps(v.part[0], mask, p);
    return v;
  } else if constexpr (std::is_same_v<T, double>) {
    v.part[0] = _mm512_mask_loadu_pd(v.part[0], mask & 0xff, p);
    v.part[1] = _mm512_mask_loadu_pd(v.part[1], mask >> 8, p + 8);
    return v;
  }
#endif
  T lane[kLanes];
  store(lane, v);
  for (int64_t i = 0; i < n; ++i) lane[i] = p[i];
  return load(lane);
}
template <class T>
NEEDLE_INLINE void store_first(T* p, Vec<T> v, int64_t n) {
#if defined(__AVX512F__)
  unsigned mask = (1u << n) - 1;
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_mask_storeu_ps(p, mask, v.part[0]);
  } else if constexpr (std::is_same_v<T, double>) {
    _mm512_mask_storeu_pd(p, mask & 0xff, v.part[0]);
    return _mm512_mask_storeu_pd(p + 8, mask >> 8, v.part[1]);
  }
#endif
  T lane[kLanes];
  store(lane, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lane[i];
}

// The same bits as integers, and back.
template <class T>
NEEDLE_INLINE Vec<Int<T>> to_bits(Vec<T> v) {
  Vec<Int<T>> r;
  NEEDLE_EACH_PART(T, r.part[i] = (Register<Int<T>>)v.part[i]);
  return r;
}
template <class T>
NEEDLE_INLINE Vec<T> from_bits(Vec<Int<T>> v) {
  Vec<T> r;
  NEEDLE_EACH_PART(T, r.part[i] = (Register<T>)v.part[i]);
  return r;
}
template <class I>
NEEDLE_INLINE Vec<I> shift_left(Vec<I> v, int n) {
  NEEDLE_EACH_PART(I, v.part[i] = v.part[i] << n);
  return v;
}
template <class I>
NEEDLE_INLINE Vec<I> shift_right(Vec<I> v, int n) {  // zeros come in from the left
  NEEDLE_EACH_PART(I, v.part[i] = (Register<I>)((Register<std::make_unsigned_t<I>>)v.part[i] >> n));
  return v;
}

// Floats as doubles, and doubles as floats.
NEEDLE_INLINE Register<double> widen(Register<float, Vec<double>::kWidth> v) {
#if defined(__AVX512F__)  // intrinsics, since GCC 12 converts in halves
  return _mm512_maskz_cvtps_pd(0xff, v);
#elif defined(__FMA__)
  return _mm256_cvtps_pd(v);
#else
  return __builtin_convertvector(v, Register<double>);
#endif
}

// 16 lanes read from memory as To; 16 lanes written as To; and 16 lanes as To.
template <class To, class From>
NEEDLE_INLINE Vec<To> load_as(const From* p) {
  Vec<To> r;
  if constexpr (std::is_same_v<To, From>) {
    r = load(p);
  } else if constexpr (std::is_same_v<To, double>) {
    NEEDLE_EACH_PART(double, {
      Register<float, Vec<double>::kWidth> piece;
      std::memcpy(&piece, p + i * Vec<double>::kWidth, sizeof piece);
      r.part[i] = widen(piece);
    });
  } else {
    To lane[kLanes];
    store_as(lane, load(p));
    r = load(lane);
  }
  return r;
}
template <class To, class From>
NEEDLE_INLINE void store_as(To* p, Vec<From> v) {
  if constexpr (std::is_same_v<To, From>) {
    store(p, v);
  } else if constexpr (std::is_same_v<To, double>) {
    float lane[kLanes];
    store(lane, v);
    store(p, load_as<double>(lane));
  } else {
    NEEDLE_EACH_PART(double, {
      auto piece = __builtin_convertvector(v.part[i], Register<float, Vec<double>::kWidth>);
      std::memcpy(p + i * Vec<double>::kWidth, &piece, sizeof piece);
    });
  }
}
template <class To, class From>
NEEDLE_INLINE Vec<To> convert(Vec<From> v) {
  if constexpr (std::is_same_v<To, From>) return v;
#if defined(__AVX512F__)  // from halves of the register: a way through memory would wait for it
  if constexpr (std::is_same_v<To, double> && std::is_same_v<From, float>) {
    Vec<double> r;
    r.part[0] = widen(_mm512_maskz_extractf32x8_ps(0xff, v.part[0], 0));
    r.part[1] = widen(_mm512_maskz_extractf32x8_ps(0xff, v.part[0], 1));
    return r;
  }
#elif defined(__FMA__)
  if constexpr (std::is_same_v<To, double> && std::is_same_v<From, float>) {
    Vec<double> r;
    NEEDLE_EACH_PART(float, {
      r.part[2 * i] = widen(_mm256_castps256_ps128(v.part[i]));
      r.part[2 * i + 1] = widen(_mm256_extractf128_ps(v.part[i], 1));
    });
    return r;
  }
#endif
  To lane[kLanes];
  store_as(lane, v);
  return load(lane);
}

// a * b + c with one rounding.
NEEDLE_INLINE float fma(float a, float b, float c) { return std::fma(a, b, c); }
NEEDLE_INLINE double fma(double a, double b, double c) { return std::fma(a, b, c); }

#if defined(__SSE2__) && !defined(__FMA__)
// std::fma is a call here. Products of floats are exact in double; their sums are rounded to odd there (the last bit set
// where the sum is not exact), so that rounding them to float rounds what they stand for. Not inlined: it is long.
__attribute__((noinline)) inline Register<float> emulated_fma(Register<float> a, Register<float> b, Register<float> c) {
  typedef Register<double> D;
  typedef Register<int64_t> I;
  Register<float> result;
  for (int half = 0; half < 2; ++half) {
    Register<float, 2> x{a[2 * half], a[2 * half + 1]}, y{b[2 * half], b[2 * half + 1]}, z{c[2 * half], c[2 * half + 1]};
    D product = __builtin_convertvector(x, D) * __builtin_convertvector(y, D), addend = __builtin_convertvector(z, D);
    D sum = product + addend, of_addend = sum - product;
    D error = (product - (sum - of_addend)) + (addend - of_addend);
    I finite_and_inexact = (I)(error != 0) & (I)(sum - sum == 0), even = ((I)sum & 1) - 1;
    I away_from_zero = ((I)(error > 0) ^ (I)(sum > 0)) | 1;  // 1, or -1 where the error has the other sign
    auto rounded = __builtin_convertvector((D)((I)sum + (away_from_zero & finite_and_inexact & even)), decltype(x));
    result[2 * half] = rounded[0], result[2 * half + 1] = rounded[1];
  }
  return result;
}
__attribute__((noinline)) inline Register<double> emulated_fma(Register<double> a, Register<double> b, Register<double> c) {
  return Register<double>{std::fma(a[0], b[0], c[0]), std::fma(a[1], b[1], c[1])};
}
#endif

template <class T>
NEEDLE_INLINE Register<T> fma(Register<T> a, Register<T> b, Register<T> c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_fmadd_ps(a, b, c);
  else return _mm512_fmadd_pd(a, b, c);
#elif defined(__FMA__)
  if constexpr (sizeof(T) == 4) return _mm256_fmadd_ps(a, b, c);
  else return _mm256_fmadd_pd(a, b, c);
#elif defined(__SSE2__)
  return emulated_fma(a, b, c);
#else
  Register<T> r;
  for (int i = 0; i < Vec<T>::kWidth; ++i) r[i] = std::fma(a[i], b[i], c[i]);
  return r;
#endif
}

template <class T>
NEEDLE_INLINE Register<T> sqrt(Register<T> a) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) return _mm512_maskz_sqrt_ps(0xffff, a);  // GCC 12 warns of its own header without a mask
  else return _mm512_maskz_sqrt_pd(0xff, a);
#elif defined(__FMA__)
  if constexpr (sizeof(T) == 4) return _mm256_sqrt_ps(a);
  else return _mm256_sqrt_pd(a);
#else
  for (int i = 0; i < Vec<T>::kWidth; ++i) a[i] = std::sqrt(a[i]);
  return a;
#endif
}

#if defined(__AVX512F__)
#define NEEDLE_HAS_SCALEF
template <class T>
NEEDLE_INLINE Vec<T> scalef(Vec<T> x, Vec<T> n) {  // x * 2^n for integers n, rounded once
  if constexpr (sizeof(T) == 4) NEEDLE_EACH_PART(T, x.part[i] = _mm512_maskz_scalef_ps(0xffff, x.part[i], n.part[i]));
  else NEEDLE_EACH_PART(T, x.part[i] = _mm512_maskz_scalef_pd(0xff, x.part[i], n.part[i]));
  return x;
}
#endif

template <class T>
NEEDLE_INLINE Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  NEEDLE_EACH_PART(T, a.part[i] = fma<T>(a.part[i], b.part[i], c.part[i]));
  return a;
}
template <class T>
NEEDLE_INLINE Vec<T> sqrt(Vec<T> a) {
  NEEDLE_EACH_PART(T, a.part[i] = sqrt<T>(a.part[i]));
  return a;
}

// The fixed tree that joins the lanes: halves are combined until one number is left.
template <class T, class Combine>
NEEDLE_INLINE T join(Vec<T> v, Combine combine) {
  T lane[kLanes];
  store(lane, v);
  for (int i = 0; i < 8; ++i) lane[i] = combine(lane[i], lane[i + 8]);
  for (int i = 0; i < 4; ++i) lane[i] = combine(lane[i], lane[i + 4]);
  for (int i = 0; i < 2; ++i) lane[i] = combine(lane[i], lane[i + 2]);
  return combine(lane[0], lane[1]);
}
template <class T>
NEEDLE_INLINE T join_sum(Vec<T> v) {
  return join(v, [](T a, T b) { return a + b; });
}

}  // namespace needle
