// Convolution where each channel has a kernel of its own: vectors run over channels instead of rows and columns of a
// matrix product. The order of each sum is the same.
#pragma once

#include "conv.h"

namespace needle {

// `weight` is (Kh, Kw, C / groups, O).
inline bool is_depthwise(const View& weight, const ConvSettings& settings) {
  return weight.shape[2] == 1 && weight.shape[3] == settings.groups && weight.shape[0] * weight.shape[1] <= kGroup;
}

// See `convolve`; channels of source and result lie next to each other.
template <class T>
void depthwise(const Images<const T>& source, const std::vector<Run>& h_runs, const std::vector<Run>& w_runs,
               const Filter<T>& filter, const T* bias, const Images<T>& result);

// Channels of x and out lie next to each other.
template <class T>
void depthwise_weight_gradient(const View& x, const View& d, const View& out, const ConvSettings& settings);

}  // namespace needle
