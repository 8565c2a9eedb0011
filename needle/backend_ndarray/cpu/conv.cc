#include "conv.h"

#include <algorithm>

#include "depthwise.h"
#include "parallel.h"

namespace needle {
namespace {

template <class T>
void forward(const View& x, const View& weight, const View* bias, const View& out, const ConvSettings& settings) {
  const Axis h(1, x, weight, out, settings), w(2, x, weight, out, settings);
  const Filter<T> filter{weight.as<T>(),
                         weight.shape[0], weight.shape[1], weight.shape[2], weight.shape[3] / settings.groups,
                         weight.strides[0], weight.strides[1], weight.strides[2], weight.strides[3],
                         weight.shape[3] / settings.groups * weight.strides[3]};
  std::vector<T> dense_bias;
  if (bias)
    for (int64_t i = 0; i < bias->shape[0]; ++i) dense_bias.push_back(bias->as<T>()[i * bias->strides[0]]);
  const View source = with_dense_channels(x, kDense);
  into_dense_channels(out, [&](const View& result) {
    const T* to_add = bias ? dense_bias.data() : nullptr;
    if (is_depthwise(weight, settings))
      depthwise<T>(Images<const T>(source), h.forward(), w.forward(), filter, to_add, Images<T>(result));
    else
      convolve<T>(Images<const T>(source), h.forward(), w.forward(), filter, settings.groups, to_add,
                  Images<T>(result));
  });
}

template <class T>
void input_gradient(const View& d, const View& weight, const View& out, const ConvSettings& settings) {
  const Axis h(1, out, weight, d, settings), w(2, out, weight, d, settings);
  const int64_t channels = weight.shape[3] / settings.groups;
  const Filter<T> filter{weight.as<T>(),
                         weight.shape[0], weight.shape[1], channels, weight.shape[2],
                         weight.strides[0], weight.strides[1], weight.strides[3], weight.strides[2],
                         channels * weight.strides[3]};
  const View source = with_dense_channels(d, kDense);
  into_dense_channels(out, [&](const View& result) {
    if (is_depthwise(weight, settings))
      depthwise<T>(Images<const T>(source), h.gradient(), w.gradient(), filter, nullptr, Images<T>(result));
    else
      convolve<T>(Images<const T>(source), h.gradient(), w.gradient(), filter, settings.groups, nullptr,
                  Images<T>(result));
  });
}

}  // namespace

View dense_scratch(const View& v, Slot slot) {
  View dense = v;
  dense.data = scratch(slot, v.size() * (v.dtype == DType::float32 ? sizeof(float) : sizeof(double)));
  for (int64_t i = v.ndim - 1, stride = 1; i >= 0; stride *= v.shape[i--]) dense.strides[i] = stride;
  return dense;
}

void conv(const View& x, const View& weight, const View* bias, const View& out, const ConvSettings& settings) {
  if (x.dtype == DType::float32)
    forward<float>(x, weight, bias, out, settings);
  else
    forward<double>(x, weight, bias, out, settings);
}

void conv_input_gradient(const View& d, const View& weight, const View& out, const ConvSettings& settings) {
  if (d.dtype == DType::float32)
    input_gradient<float>(d, weight, out, settings);
  else
    input_gradient<double>(d, weight, out, settings);
}

void set_conv_algorithm(ConvAlgorithm) {}

}  // namespace needle
