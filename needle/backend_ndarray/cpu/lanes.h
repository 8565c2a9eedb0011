// Which lanes of a vector are in memory, and vectors of small integers.
#pragma once

#include "simd.h"

namespace needle {

struct AllLanes {
  template <class To, class From>
  NEEDLE_INLINE Vec<To> load(const From* p) const {
    return load_as<To>(p);
  }
  template <class T>
  NEEDLE_INLINE void store(T* p, Vec<T> v) const {
    needle::store(p, v);
  }
};

struct FirstLanes {
  int64_t n;
  template <class To, class From>
  NEEDLE_INLINE Vec<To> load(const From* p) const {
    return convert<To>(load_first(p, n, From(0)));
  }
  template <class T>
  NEEDLE_INLINE void store(T* p, Vec<T> v) const {
    store_first(p, v, n);
  }
};

// 16 integers of another width, from and to memory.
template <class I, class Small>
NEEDLE_INLINE Vec<I> load_integers(const Small* p) {
  Vec<I> v;
  NEEDLE_EACH_PART(I, {
    Register<Small, Vec<I>::kWidth> piece;
    std::memcpy(&piece, p + i * Vec<I>::kWidth, sizeof piece);
    v.part[i] = __builtin_convertvector(piece, Register<I>);
  });
  return v;
}
template <class Small, class I>
NEEDLE_INLINE void store_integers(Small* p, Vec<I> v) {
  NEEDLE_EACH_PART(I, {
    auto piece = __builtin_convertvector(v.part[i], Register<Small, Vec<I>::kWidth>);
    std::memcpy(p + i * Vec<I>::kWidth, &piece, sizeof piece);
  });
}

}  // namespace needle
