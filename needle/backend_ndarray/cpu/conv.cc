#include "conv.h"

#include <algorithm>
#include <atomic>

#include "depthwise.h"
#include "parallel.h"
#include "winograd.h"

namespace needle {
namespace {

std::atomic<ConvAlgorithm> chosen{ConvAlgorithm::automatic};

// The one place that chooses an algorithm: by the shape and the setting alone. Winograd's padding is that of the sum as
// a correlation with `correlated`, which is the filter, or for the input gradient the reversed one.
template <class T>
void compute(const View& source_view, const std::vector<Run>& h, const std::vector<Run>& w, const View& weight,
             const Filter<T>& filter, const Filter<T>& correlated, WinogradPadding padding, const T* bias,
             const View& out, const ConvSettings& settings) {
  const Images<const T> source(with_dense_channels(source_view, kDense));
  into_dense_channels(out, [&](const View& result_view) {
    const Images<T> result(result_view);
    if (is_depthwise(weight, settings))
      depthwise(source, h, w, filter, bias, result);
    else if (chosen == ConvAlgorithm::winograd4 && winograd_serves(weight, settings))
      winograd(4, source, correlated, padding, bias, result);
    else if (chosen == ConvAlgorithm::automatic && winograd_serves(weight, settings) &&
             winograd_wins(result.n, h, w, source.c, result.c))
      winograd(2, source, correlated, padding, bias, result);
    else
      convolve(source, h, w, filter, settings.groups, bias, result);
  });
}

template <class T>
void forward(const View& x, const View& weight, const View* bias, const View& out, const ConvSettings& settings) {
  const ConvAxis h(1, x, weight, out, settings), w(2, x, weight, out, settings);
  const int64_t *shape = weight.shape, *stride = weight.strides, outputs = shape[3] / settings.groups;
  const Filter<T> filter{weight.as<T>(), shape[0],  shape[1],  shape[2],  outputs,
                         stride[0],      stride[1], stride[2], stride[3], outputs * stride[3]};
  std::vector<T> dense_bias;
  if (bias)
    for (int64_t i = 0; i < bias->shape[0]; ++i) dense_bias.push_back(bias->as<T>()[i * bias->strides[0]]);
  compute(x, h.forward(), w.forward(), weight, filter, filter, {h.padding, w.padding},
          bias ? dense_bias.data() : nullptr, out, settings);
}

template <class T>
void input_gradient(const View& d, const View& weight, const View& out, const ConvSettings& settings) {
  const ConvAxis h(1, out, weight, d, settings), w(2, out, weight, d, settings);
  const int64_t *shape = weight.shape, *stride = weight.strides, outputs = shape[3] / settings.groups;
  const Filter<T> filter{weight.as<T>(), shape[0],  shape[1],  outputs,   shape[2],
                         stride[0],      stride[1], stride[3], stride[2], outputs * stride[3]};
  Filter<T> reversed = filter;
  reversed.data += (shape[0] - 1) * stride[0] + (shape[1] - 1) * stride[1];
  reversed.kh_stride = -stride[0];
  reversed.kw_stride = -stride[1];
  compute<T>(d, h.gradient(), w.gradient(), weight, filter, reversed,
             {h.kernel - 1 - h.padding, w.kernel - 1 - w.padding}, nullptr, out, settings);
}

}  // namespace

View dense_scratch(const View& v, Slot slot) {
  View dense = v;
  dense.data = scratch(slot, v.size() * (v.dtype == DType::float32 ? sizeof(float) : sizeof(double)));
  for (int64_t i = v.ndim - 1, stride = 1; i >= 0; stride *= v.shape[i--]) dense.strides[i] = stride;
  return dense;
}

View with_dense_channels(const View& v, Slot slot) {
  if (v.strides[3] == 1 || v.shape[3] <= 1) return v;
  const View dense = dense_scratch(v, slot);
  copy(v, dense);
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

void set_conv_algorithm(ConvAlgorithm algorithm) { chosen = algorithm; }

}  // namespace needle
