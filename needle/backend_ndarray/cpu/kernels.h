// The native kernels, by file. Their meaning is that of needle/backend_ndarray/kernels.py; views are float32 or float64,
// all of one dtype unless said (masks, indices and positions are bool, int64 and uint8 or int32). They are checked by the
// bindings: equal or broadcastable shapes, bounds, dtypes, no overlap of what is written with what is read.
#pragma once

#include <vector>

#include "array.h"

namespace needle {

using Axes = std::vector<int>;
using Views = std::vector<View>;

// elementwise.cc
enum class Unary { negate, absolute, sign, sqrt, exp, log, tanh, sigmoid, erf };
enum class Binary { add, subtract, multiply, divide, power, maximum, minimum, relu_gradient };
enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal };
void unary(Unary op, const View& a, const View& out);
void binary(Binary op, const Operand& a, const Operand& b, const View& out);
void compare(Comparison op, const Operand& a, const Operand& b, const View& out);  // out is bool
void where(const View& condition, const Operand& a, const Operand& b, const View& out);
void fill(const View& out, double value);

// copy.cc
void copy(const View& a, const View& out);  // float32 and float64 in any combination

// reduce.cc
enum class Reduction { sum, max, min };
void reduce(Reduction op, const View& a, const Axes& axes, const View& out);

// scan.cc
void argmax(const View& a, int axis, const View& out);  // out int64
void cumsum(const View& a, int axis, const View& out);

// softmax.cc: over one axis, views of one shape
void softmax(const View& a, int axis, const View& out);
void log_softmax(const View& a, int axis, const View& out);

// cross_entropy.cc: labels (int64), out, d and what is kept for the gradient have length 1 along the axis
void cross_entropy(const View& a, const View& labels, int axis, const View& out, const View& largest,
                   const View& inverse);
void cross_entropy_gradient(const View& d, const View& a, const View& labels, const View& largest, const View& inverse,
                            int axis, const View& out);

// gather.cc
void gather(const View& a, const View& indices, const View& out);
void scatter_add(const View& a, const View& indices, const View& out);

// matmul.cc
void matmul(const View& a, const View& b, const View& out);
void matmul_tiled(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t p);

// conv.cc, conv_weight.cc
enum class ConvAlgorithm { automatic, direct, winograd4 };
void set_conv_algorithm(ConvAlgorithm algorithm);
struct ConvSettings {
  Pair stride, padding, dilation;
  int64_t groups;
};
void conv(const View& x, const View& weight, const View* bias, const View& out, const ConvSettings& settings);
void conv_input_gradient(const View& d, const View& weight, const View& out, const ConvSettings& settings);
void conv_weight_gradient(const View& x, const View& d, const View& out, const ConvSettings& settings);

// pool.cc
struct PoolSettings {
  Pair kernel, stride, padding;
};
void max_pool(const View& x, const View& out, const View& positions, const PoolSettings& settings);
void max_pool_gradient(const View& d, const View& positions, const View& out, const PoolSettings& settings);
void max_pool_gather(const View& x, const View& positions, const View& out, const PoolSettings& settings);
void avg_pool(const View& x, const View& out, const PoolSettings& settings, bool count_include_pad);
void avg_pool_gradient(const View& d, const View& out, const PoolSettings& settings, bool count_include_pad);

// norm.cc
void normalize(const View& x, const View* weight, const View* bias, const Axes& axes, double eps, bool relu,
               const View& out, const View& mean, const View& variance);
void normalize_gradient(const View& d, const View& x, const View* y, const View* weight, const View& mean,
                        const View& inv_std, const Axes& axes, const View& out, const View* out_weight,
                        const View* out_bias);

// update.cc
void sgd_update(const Views& params, const Views& grads, const Views& velocities, double lr, double momentum,
                double dampening, double weight_decay, bool nesterov);
void adam_update(const Views& params, const Views& grads, const Views& firsts, const Views& seconds, double lr,
                 double beta1, double beta2, double eps, double weight_decay, bool decoupled, int64_t step);

}  // namespace needle
