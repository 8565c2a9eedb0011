// exp, log, tanh, sigmoid, erf and power over 16 lanes, for float and double, by +, -, *, /, fma and selects alone, so that
// neither a libm nor an instruction set shows. Within 2 ulp everywhere; infinities, NaN and subnormal numbers as in C.
// Polynomials are minimax fits (weighted by the relative error of the function), lowest coefficient first.
#pragma once

#include <limits>

#include "simd.h"

namespace needle {

template <class T>
struct MathConstants;

template <>
struct MathConstants<float> {
  static constexpr int kMantissaBits = 23, kBias = 127;
  static constexpr float kRound = 0x1.8p23f;       // x + kRound - kRound rounds to an integer, kept in the low bits
  static constexpr float kTwoToMantissa = 0x1p23f;
  static constexpr int32_t kSqrtHalfBits = 0x3f3504f3;
  static constexpr float kLog2e = 1.44269504f, kLn2High = 0x1.62e4p-1f, kLn2Low = 1.42860682e-06f;  // 9 zeros end High
  static constexpr float kExpLow = -104, kExpHigh = 89;  // exp is 0 below, infinite above
  static constexpr float kTanhOne = 10, kErfOne = 4;     // from here on the value rounds to 1
  // (exp(r) - 1 - r) / r^2, |r| <= ln(2) / 2
  static constexpr float kExp[] = {0.499999935f, 0.166665202f, 0.0416683581f, 0.00836876215f, 0.00138168395f};
  // (log((1 + s) / (1 - s)) - 2 s) / s^3 in s^2
  static constexpr float kLog[] = {0.666666656f, 0.400003357f, 0.285372656f, 0.235831031f};
  // erf(x) / x - 1 in x^2, x <= 1
  static constexpr float kErfSmall[] = {0.128379167f,   -0.376126258f,   0.112835852f,  -0.0268538168f,
                                        0.00518833802f, -0.00080102923f, 7.85420865e-05f};
  // -log(1 - erf(x)), 1 <= x <= kErfOne
  static constexpr float kErfLarge[] = {-0.000204482769f, 1.1296618f,      0.633038184f,   0.108640786f,   -0.0253749266f,
                                        0.00428304094f,   -0.000463981378f, 2.53465551e-05f, -2.53556837e-07f};
};

template <>
struct MathConstants<double> {
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kRound = 0x1.8p52, kTwoToMantissa = 0x1p52;
  static constexpr int64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  static constexpr double kLog2e = 1.4426950408889634;
  static constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;  // 11 zeros end High
  static constexpr double kExpLow = -746, kExpHigh = 710;
  static constexpr double kTanhOne = 20, kErfOne = 6;
  static constexpr double kExp[] = {0.50000000000000111,    0.16666666666666408,    0.041666666666529489,
                                    0.0083333333334970651,  0.0013888888943848952,  0.00019841269501538798,
                                    2.4801492833601039e-05, 2.7557590348912648e-06, 2.7630355047042354e-07,
                                    2.4998975910957392e-08};
  static constexpr double kLog[] = {0.66666666666667351, 0.39999999999411645, 0.2857142874311156, 0.22222198492675568,
                                    0.18183568849632567, 0.1531392612589535,  0.14797280194930224};
  // (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in s^2
  static constexpr double kLogTail[] = {0.3999999999999998,  0.28571428571445229, 0.22222222217509213,
                                        0.18181818873584044, 0.15384556651141446, 0.13336325801994409,
                                        0.11674649254383392, 0.11990418452379184};
  static constexpr double kErfSmall[] = {0.12837916709551257,     -0.37612638903183748,    0.11283791670954857,
                                         -0.02686617064507292,    0.0052239776247811447,   -0.0008548326978760133,
                                         0.00012055331037612707,  -1.4925593525202056e-05, 1.6460973126419783e-06,
                                         -1.6350028640321834e-07, 1.4657903596792477e-08,  -1.1365760226652757e-09,
                                         5.9454245966787581e-11};
  static constexpr double kErfLarge[] = {
      -2.6693257233686221e-08, 1.1283795078653434,      0.63661771540591883,     0.10278041455290064,
      -0.019149390799371092,   -0.00016702070864539262, 0.0016299913045011252,   -0.00050710153039912364,
      -5.8524911223100045e-05, 0.00013463596670351392,  -7.7441810247016175e-05, 2.9776412481291728e-05,
      -8.7227730683238019e-06, 2.0231353956429682e-06,  -3.7475663907294191e-07, 5.5053462257825479e-08,
      -6.2882885611784873e-09, 5.3910849213714189e-10,  -3.2650825253040956e-11, 1.2454157769722138e-12,
      -2.2491060993622466e-14};
};

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

template <class T>
NEEDLE_INLINE Vec<T> absolute(Vec<T> x) {
  return from_bits<T>(to_bits(x) & Vec<Int<T>>(std::numeric_limits<Int<T>>::max()));
}
template <class T>
NEEDLE_INLINE Vec<T> with_sign_of(Vec<T> x, Vec<T> sign) {  // x >= 0
  return from_bits<T>(to_bits(x) | (to_bits(sign) & Vec<Int<T>>(std::numeric_limits<Int<T>>::min())));
}

template <int n, class T, size_t size>
NEEDLE_INLINE Vec<T> polynomial(Vec<T> x, const T (&c)[size]) {
  if constexpr (n + 1 == size) return Vec<T>(c[n]);
  else return fma(polynomial<n + 1>(x, c), x, Vec<T>(c[n]));
}
template <class T, size_t size>
NEEDLE_INLINE Vec<T> polynomial(Vec<T> x, const T (&c)[size]) {
  return polynomial<0>(x, c);
}

// x = n ln 2 + r with |r| <= ln(2) / 2.
template <class T>
struct ExpArgument {
  Vec<T> r, n;
};
template <class T>
NEEDLE_INLINE ExpArgument<T> exp_argument(Vec<T> x) {
  using C = MathConstants<T>;
  Vec<T> n = fma(x, Vec<T>(C::kLog2e), Vec<T>(C::kRound)) - C::kRound;
  return {fma(n, Vec<T>(-C::kLn2Low), fma(n, Vec<T>(-C::kLn2High), x)), n};
}

// exp(r) - 1 for |r| <= ln(2) / 2.
template <class T>
NEEDLE_INLINE Vec<T> expm1_small(Vec<T> r) {
  return fma(r * r, polynomial(r, MathConstants<T>::kExp), r);
}

template <class T>
NEEDLE_INLINE Vec<Int<T>> to_int(Vec<T> n) {  // of small integers
  return to_bits(n + MathConstants<T>::kRound) - to_bits(Vec<T>(MathConstants<T>::kRound));
}
template <class T>
NEEDLE_INLINE Vec<T> power_of_two(Vec<Int<T>> n) {  // a normal number
  return from_bits<T>(shift_left(n + Int<T>(MathConstants<T>::kBias), MathConstants<T>::kMantissaBits));
}

// x * 2^n, rounded once, for x about 1 and any n that exp meets: in two steps, since 2^n may be no normal number.
template <class T>
NEEDLE_INLINE Vec<T> scale(Vec<T> x, Vec<T> n) {
#if defined(NEEDLE_HAS_SCALEF)
  return scalef(x, n);
#else
  Vec<Int<T>> whole = to_int(n), half = shift_right(whole + Int<T>(2048), 1) - Int<T>(1024);
  return x * power_of_two<T>(half) * power_of_two<T>(whole - half);
#endif
}

// NaN passes. Written so that compilers see the instructions min and max.
template <class T>
NEEDLE_INLINE Vec<T> at_most(Vec<T> x, T limit) {
  return select(Vec<T>(limit) < x, Vec<T>(limit), x);
}
template <class T>
NEEDLE_INLINE Vec<T> at_least(Vec<T> x, T limit) {
  return select(Vec<T>(limit) > x, Vec<T>(limit), x);
}

template <class T>
NEEDLE_INLINE Vec<T> exp(Vec<T> x) {
  using C = MathConstants<T>;
  auto [r, n] = exp_argument(at_least(at_most(x, C::kExpHigh), C::kExpLow));
  return scale(expm1_small(r) + T(1), n);
}

// x > 0 as m * 2^k with m in [sqrt(1/2), sqrt(2)).
template <class T>
struct Decomposed {
  Vec<T> m, k;
};
template <class T>
NEEDLE_INLINE Decomposed<T> decompose(Vec<T> x) {
  using C = MathConstants<T>;
  auto subnormal = x < Vec<T>(std::numeric_limits<T>::min());
  x = select(subnormal, x * C::kTwoToMantissa, x);
  constexpr Int<T> one = Int<T>(C::kBias) << C::kMantissaBits;
  auto bits = to_bits(x) + (one - C::kSqrtHalfBits);  // the exponent field steps at sqrt(1/2), not at 1
  auto m = (bits & ((Int<T>(1) << C::kMantissaBits) - 1)) + C::kSqrtHalfBits;
  auto biased = from_bits<T>(shift_right(bits, C::kMantissaBits) | to_bits(Vec<T>(C::kTwoToMantissa)));
  Vec<T> offset = select(subnormal, Vec<T>(C::kBias + C::kMantissaBits), Vec<T>(C::kBias));
  return {from_bits<T>(m), biased - C::kTwoToMantissa - offset};
}

template <class T>
NEEDLE_INLINE Vec<T> log_special(Vec<T> x, Vec<T> result) {
  result = select(x == Vec<T>(kInfinity<T>), x, result);
  result = select(x >= Vec<T>(0), result, Vec<T>(kNaN<T>));
  return select(x == Vec<T>(0), Vec<T>(-kInfinity<T>), result);
}

template <class T>
NEEDLE_INLINE Vec<T> log(Vec<T> x) {  // as in FreeBSD's msun
  using C = MathConstants<T>;
  auto [m, k] = decompose(x);
  Vec<T> f = m - T(1), s = f / (m + T(1)), z = s * s, half_square = T(0.5) * f * f;
  Vec<T> tail = s * fma(z, polynomial(z, C::kLog), half_square);
  Vec<T> low = half_square - fma(k, Vec<T>(C::kLn2Low), tail);
  return log_special(x, fma(k, Vec<T>(C::kLn2High), f - low));
}

// (a + a_low) / (b + b_low), the quotient of the high parts corrected once.
template <class T>
NEEDLE_INLINE Vec<T> precise_quotient(Vec<T> a, Vec<T> a_low, Vec<T> b, Vec<T> b_low) {
  Vec<T> inverse = T(1) / b, quotient = a * inverse;
  Vec<T> rest = fma(-quotient, b_low, fma(-quotient, b, a)) + a_low;
  return fma(rest, inverse, quotient);
}

template <class T>
NEEDLE_INLINE Vec<T> tanh(Vec<T> x) {  // (exp(2 x) - 1) / (exp(2 x) + 1)
  using C = MathConstants<T>;
  Vec<T> a = at_most(absolute(x), C::kTanhOne);
  auto [r, n] = exp_argument(a + a);  // n >= 0
  Vec<T> tail = r * r * polynomial(r, C::kExp), small = r + tail, small_low = tail - (small - r);
  Vec<T> scale = power_of_two<T>(to_int(n)), whole = scale - T(1), fraction = small * scale;
  Vec<T> expm1 = whole + fraction, expm1_low = fma(small_low, scale, fraction - (expm1 - whole));
  Vec<T> sum = expm1 + T(2), sum_low = expm1 - (sum - T(2)) + expm1_low;
  return with_sign_of(precise_quotient(expm1, expm1_low, sum, sum_low), x);
}

template <class T>
NEEDLE_INLINE Vec<T> sigmoid(Vec<T> x) {
  Vec<T> e = exp(-absolute(x)), sum = e + T(1);
  return precise_quotient(select(x < Vec<T>(0), e, Vec<T>(1)), Vec<T>(0), sum, e - (sum - T(1)));
}

template <class T>
NEEDLE_INLINE Vec<T> erf(Vec<T> x) {
  using C = MathConstants<T>;
  Vec<T> a = at_most(absolute(x), C::kErfOne);
  Vec<T> small = fma(a, polynomial(a * a, C::kErfSmall), a), large = T(1) - exp(-polynomial(a, C::kErfLarge));
  return with_sign_of(select(a < Vec<T>(1), small, large), x);
}

// log(x) as an unevaluated sum to about 68 bits, for power; x >= 0.
struct DoubleDouble {
  Vec<double> high, low;
};
NEEDLE_INLINE DoubleDouble precise_log(Vec<double> x) {
  using V = Vec<double>;
  using C = MathConstants<double>;
  auto [m, k] = decompose(x);
  // s = (m - 1) / (m + 1), its square and its cube, each with what it lacks
  V f = m - 1.0, sum = m + 1.0, sum_low = m - (sum - 1.0);
  V s = f / sum, s_low = fma(-s, sum_low, fma(-s, sum, f)) / sum;
  V square = s * s, square_low = fma(s + s, s_low, fma(s, s, -square));
  V cube = square * s, cube_low = fma(square, s_low, fma(square_low, s, fma(square, s, -cube)));
  // log(m) = 2 s + 2/3 s^3 + s^5 tail(s^2)
  const V third(2.0 / 3), third_low(0x1.5555555555555p-55);
  V term = cube * third, term_low = fma(cube, third_low, fma(cube_low, third, fma(cube, third, -term)));
  V rest = cube * square * polynomial(square, C::kLogTail);
  // k ln 2 + 2 s + 2/3 s^3, from the largest down
  V first = k * C::kLn2High, second = first + (s + s), second_low = (s + s) - (second - first);
  V third_sum = second + term, third_sum_low = term - (third_sum - second);
  V low = second_low + third_sum_low + fma(k, V(C::kLn2Low), s_low + s_low + term_low + rest);
  V high = third_sum + low;
  return {log_special(x, high), low - (high - third_sum)};
}

NEEDLE_INLINE Vec<double> precise_exp(Vec<double> x, Vec<double> low) {  // of x + low, |low| far below |x|
  using V = Vec<double>;
  using C = MathConstants<double>;
  x = at_least(at_most(x, C::kExpHigh), C::kExpLow);
  V n = fma(x, V(C::kLog2e), V(C::kRound)) - C::kRound;
  V exact = fma(n, V(-C::kLn2High), x), rest = fma(n, V(-C::kLn2Low), low);
  V r = exact + rest, r_low = rest - (r - exact), sum = r + 1.0, sum_low = r - (sum - 1.0);
  V tail = fma(r * r, polynomial(r, C::kExp), sum_low + fma(r_low, r, r_low));
  return scale(sum + tail, n);
}

// pow's cases beside exp(y log|x|): signs, zeros and infinities as in C.
NEEDLE_INLINE Vec<double> power_special(Vec<double> x, Vec<double> y, Vec<double> result) {
  using V = Vec<double>;
  auto is_integer = [](V a) { return (a + 0x1p52) - 0x1p52 == a; };  // for 0 <= a < 2^53
  V size = absolute(y);
  auto integer = is_integer(size) | (size >= V(0x1p52));
  auto odd = integer & ~is_integer(size * 0.5) & (size < V(0x1p53));
  auto negative = to_bits(x) < Vec<int64_t>(0);
  result = select(odd & negative, -result, result);
  result = select((x < V(0)) & (x > V(-kInfinity<double>)) & ~integer, V(kNaN<double>), result);
  auto one = (y == V(0)) | (x == V(1)) | ((x == V(-1)) & (size == V(kInfinity<double>)));
  return select(one, V(1), result);
}

NEEDLE_INLINE Vec<double> power(Vec<double> x, Vec<double> y) {
  using V = Vec<double>;
  auto [high, low] = precise_log(absolute(x));
  V product = y * high, product_low = fma(y, low, fma(y, high, -product));
  product_low = select(absolute(product) < V(1000), product_low, V(0));  // beyond, it is NaN or does not matter
  return power_special(x, y, precise_exp(product, product_low));
}
NEEDLE_INLINE Vec<float> power(Vec<float> x, Vec<float> y) {
  Vec<double> a = convert<double>(x), b = convert<double>(y);
  return convert<float>(power_special(a, b, exp(b * log(absolute(a)))));
}

}  // namespace needle
