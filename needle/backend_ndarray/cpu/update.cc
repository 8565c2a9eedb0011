// Optimizer steps over many parameters at once: their elements count as one range, which the threads share.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernels.h"
#include "parallel.h"
#include "staged.h"

namespace needle {
namespace {

constexpr int64_t kGrain = 8192;

// Rules, in the parameters' dtype. Pointers do not alias, which lets the compiler compute on whole registers.
template <class T, bool nesterov>
struct Sgd {
  T lr, momentum, share, weight_decay;

  void operator()(const std::array<T*, 3>& arrays, int64_t n) const {
    T* __restrict p = arrays[0];
    const T* __restrict grad = arrays[1];
    T* __restrict u = arrays[2];
    for (int64_t i = 0; i < n; ++i) {
      const T g = grad[i] + weight_decay * p[i];
      const T velocity = momentum * u[i] + share * g;
      u[i] = velocity;
      p[i] -= lr * (nesterov ? g + momentum * velocity : velocity);
    }
  }
};

template <class T, bool decoupled>
struct Adam {
  T rate, share1, share2, root_scale, eps, weight_decay, shrink;

  void operator()(const std::array<T*, 4>& arrays, int64_t n) const {
    T* __restrict p = arrays[0];
    const T* __restrict grad = arrays[1];
    T* __restrict first = arrays[2];
    T* __restrict second = arrays[3];
    for (int64_t i = 0; i < n; ++i) {
      const T was = decoupled ? p[i] * shrink : p[i];
      const T g = decoupled ? grad[i] : grad[i] + weight_decay * was;
      const T m = first[i] + share1 * (g - first[i]);
      const T v = second[i] + share2 * (g * g - second[i]);
      first[i] = m;
      second[i] = v;
      p[i] = was - rate * m / (std::sqrt(v) * root_scale + eps);
    }
  }
};

// Call rule(pointers to a parameter, its gradient and its states, count) for all elements of all parameters of dtype T.
template <class T, size_t N, class Rule>
void update(const std::array<const Views*, N>& views, const Rule& rule) {
  std::vector<std::array<T*, N>> arrays;
  std::vector<int64_t> starts{0};  // where each parameter begins in the common range
  std::vector<Staged> copies, gradient_copies;
  for (size_t i = 0; i < views[0]->size(); ++i) {
    const View& param = (*views[0])[i];
    if (param.dtype != (sizeof(T) == 4 ? DType::float32 : DType::float64)) continue;
    const Order order = memory_order(param);
    std::array<T*, N> row;
    for (size_t k = 0; k < N; ++k) {
      const View& view = (*views[k])[i];
      const bool dense = is_dense(view, order);
      auto& staged = k == 1 ? gradient_copies : copies;
      if (!dense) staged.emplace_back(view, order);
      row[k] = (dense ? view : staged.back().view()).template as<T>();
    }
    arrays.push_back(row);
    starts.push_back(starts.back() + param.size());
  }
  parallel_for(starts.back(), kGrain, [&](int64_t begin, int64_t end) {
    int64_t i = std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin() - 1;
    for (; begin < end; ++i) {
      const int64_t stop = std::min(end, starts[i + 1]);
      std::array<T*, N> at = arrays[i];
      for (T*& pointer : at) pointer += begin - starts[i];
      if (stop > begin) rule(at, stop - begin);
      begin = stop;
    }
  });
  for (const Staged& copy : copies) copy.write_back();
}

template <class T>
void sgd_step(const Views& params, const Views& grads, const Views& velocities, double lr, double momentum,
              double dampening, double weight_decay, bool nesterov) {
  const std::array<const Views*, 3> views{&params, &grads, &velocities};
  const T share = T(1 - dampening);
  if (nesterov)
    update<T>(views, Sgd<T, true>{T(lr), T(momentum), share, T(weight_decay)});
  else
    update<T>(views, Sgd<T, false>{T(lr), T(momentum), share, T(weight_decay)});
}

double integer_power(double base, int64_t exponent) {  // by squaring: no library's `pow` shows in the bits
  double power = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) power *= base;
  return power;
}

template <class T>
void adam_step(const Views& params, const Views& grads, const Views& firsts, const Views& seconds, double lr,
               double beta1, double beta2, double eps, double weight_decay, bool decoupled, int64_t step) {
  const std::array<const Views*, 4> views{&params, &grads, &firsts, &seconds};
  const T rate = T(lr / (1 - integer_power(beta1, step)));
  const T root_scale = T(1 / std::sqrt(1 - integer_power(beta2, step)));
  const T share1 = T(1 - beta1), share2 = T(1 - beta2), shrink = T(1 - lr * weight_decay);
  if (decoupled)
    update<T>(views, Adam<T, true>{rate, share1, share2, root_scale, T(eps), T(weight_decay), shrink});
  else
    update<T>(views, Adam<T, false>{rate, share1, share2, root_scale, T(eps), T(weight_decay), shrink});
}

}  // namespace

void sgd_update(const Views& params, const Views& grads, const Views& velocities, double lr, double momentum,
                double dampening, double weight_decay, bool nesterov) {
  for (const auto step : {sgd_step<float>, sgd_step<double>})
    step(params, grads, velocities, lr, momentum, dampening, weight_decay, nesterov);
}

void adam_update(const Views& params, const Views& grads, const Views& firsts, const Views& seconds, double lr,
                 double beta1, double beta2, double eps, double weight_decay, bool decoupled, int64_t step) {
  for (const auto take : {adam_step<float>, adam_step<double>})
    take(params, grads, firsts, seconds, lr, beta1, beta2, eps, weight_decay, decoupled, step);
}

}  // namespace needle
