// What the convolutions share: which taps of the kernel meet which pixels, and the one routine that computes the
// forward pass and the input gradient from that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gemm.h"
#include "kernels.h"

namespace needle {

// A view (N, H, W, C) with its strides.
template <class T>
struct Images {
  T* data;
  int64_t n, h, w, c;
  int64_t n_stride, h_stride, w_stride, c_stride;

  explicit Images(const View& v)
      : data(v.as<T>()), n(v.shape[0]), h(v.shape[1]), w(v.shape[2]), c(v.shape[3]),
        n_stride(v.strides[0]), h_stride(v.strides[1]), w_stride(v.strides[2]), c_stride(v.strides[3]) {}
};

// Along one axis: results first, first + step, ... (`count` of them) have the same taps; the tap with index k reads
// the source at `at` for the first of them, and `source_step` further on for each next one.
struct Tap {
  int64_t k, at;
};
struct Run {
  int64_t first, step, count, source_step;
  std::vector<Tap> taps;  // k ascends

  // The first result of this run that is not before `place`.
  int64_t index_from(int64_t place) const {
    return place <= first ? 0 : std::min(count, (place - first + step - 1) / step);
  }
};

// The kernel along one axis, and how long its input (before padding) and its output are.
struct ConvAxis {
  int64_t kernel, stride, padding, dilation;
  int64_t input, output;

  // ConvAxis 1 (height) or 2 (width) of the input and the output.
  ConvAxis(int axis, const View& in, const View& weight, const View& out, const ConvSettings& s)
      : kernel(weight.shape[axis - 1]),
        stride(axis == 1 ? s.stride.h : s.stride.w),
        padding(axis == 1 ? s.padding.h : s.padding.w),
        dilation(axis == 1 ? s.dilation.h : s.dilation.w),
        input(in.shape[axis]),
        output(out.shape[axis]) {}

  // All outputs of the forward pass, which reads the input; taps on the padding are left out.
  std::vector<Run> forward() const;
  // All inputs, whose gradients read the output's gradient. Stride s makes s phases, each a convolution of stride 1.
  std::vector<Run> gradient() const;
  // The outputs [first, last) for which tap k lies on the input.
  void reached(int64_t k, int64_t* first, int64_t* last) const;
};

// The weight of one call as a matrix: row (kh, kw, source channel) by result channel, within a group. The strides
// are those of the view, or of one that reads it otherwise.
template <class T>
struct Filter {
  const T* data;
  int64_t kh, kw, sources, results;
  int64_t kh_stride, kw_stride, source_stride, result_stride, group_stride;

  int64_t rows() const { return kh * kw * sources; }
};

// result[n, h, w, group, :] = sum over taps and source channels of source[...] * filter, plus the bias; each result
// element in the fixed order of gemm.h, groups of the reduction axis counted over all taps.
template <class T>
void convolve(const Images<const T>& source, const std::vector<Run>& h_runs, const std::vector<Run>& w_runs,
              const Filter<T>& filter, int64_t groups, const T* bias, const Images<T>& result);

// A row-major view of v's shape and dtype on scratch memory.
View dense_scratch(const View& v, Slot slot);
// v, or a copy of it in scratch memory where its channels do not lie in one piece.
View with_dense_channels(const View& v, Slot slot);

// Calls f on `result`, or on dense scratch that is copied to it where its channels do not lie in one piece.
template <class F>
void into_dense_channels(const View& result, F f) {
  if (result.strides[3] == 1 || result.shape[3] <= 1) return f(result);
  const View dense = dense_scratch(result, kResult);
  f(dense);
  copy(dense, result);
}

}  // namespace needle
