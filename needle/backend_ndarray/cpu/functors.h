// What elementwise kernels compute, on 16 lanes; and kCost, about its time in units of an addition's.
#pragma once

#include "math.h"

namespace needle {

#define NEEDLE_UNARY(name, cost, expression) \
  struct name { \
    static constexpr int kCost = cost; \
    template <class T> \
    NEEDLE_INLINE Vec<T> operator()(Vec<T> x) const { \
      return expression; \
    } \
  };
NEEDLE_UNARY(Identity, 1, x)
NEEDLE_UNARY(Negate, 1, -x)
NEEDLE_UNARY(Absolute, 1, absolute(x))
NEEDLE_UNARY(Sqrt, 2, sqrt(x))
NEEDLE_UNARY(Exp, 4, exp(x))
NEEDLE_UNARY(Log, 4, log(x))
NEEDLE_UNARY(Tanh, 4, tanh(x))
NEEDLE_UNARY(Sigmoid, 4, sigmoid(x))
NEEDLE_UNARY(Erf, 4, erf(x))
// NaN for NaN, and 0 for -0
NEEDLE_UNARY(Sign, 1, select(x == x, select(x > Vec<T>(0), Vec<T>(1), select(x < Vec<T>(0), Vec<T>(-1), Vec<T>(0))), x))
#undef NEEDLE_UNARY

#define NEEDLE_BINARY(name, cost, expression) \
  struct name { \
    static constexpr int kCost = cost; \
    template <class T> \
    NEEDLE_INLINE Vec<T> operator()(Vec<T> a, Vec<T> b) const { \
      return expression; \
    } \
  };
NEEDLE_BINARY(Add, 1, a + b)
NEEDLE_BINARY(Subtract, 1, a - b)
NEEDLE_BINARY(Multiply, 1, a * b)
NEEDLE_BINARY(Divide, 2, a / b)
NEEDLE_BINARY(Power, 16, power(a, b))
// NaN passes, the first if both are
NEEDLE_BINARY(Maximum, 1, select((a >= b) | (a != a), a, b))
NEEDLE_BINARY(Minimum, 1, select((a <= b) | (a != a), a, b))
NEEDLE_BINARY(ReLUGradient, 1, select(b <= Vec<T>(0), Vec<T>(0), a))
#undef NEEDLE_BINARY

#define NEEDLE_COMPARISON(name, op) \
  struct name { \
    template <class T> \
    NEEDLE_INLINE Vec<Int<T>> operator()(Vec<T> a, Vec<T> b) const { \
      return a op b; \
    } \
  };
NEEDLE_COMPARISON(Equal, ==)
NEEDLE_COMPARISON(NotEqual, !=)
NEEDLE_COMPARISON(Less, <)
NEEDLE_COMPARISON(LessEqual, <=)
NEEDLE_COMPARISON(Greater, >)
NEEDLE_COMPARISON(GreaterEqual, >=)
#undef NEEDLE_COMPARISON

}  // namespace needle
