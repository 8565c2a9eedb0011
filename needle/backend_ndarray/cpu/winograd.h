// 3x3 convolutions of stride 1 with fewer multiplications: Winograd's minimal filtering, F(2x2,3x3) and F(4x4,3x3)
// (Lavin and Gray, https://arxiv.org/abs/1509.09308). The order is fixed too, but not that of the direct sum.
#pragma once

#include "conv.h"

namespace needle {

struct WinogradPadding {
  int64_t h, w;  // negative where the source is cropped
};

// Whether F(2x2,3x3) is to be faster than the direct sum: a matter of the shape alone.
bool winograd_wins(int64_t images, const std::vector<Run>& h, const std::vector<Run>& w, int64_t sources,
                   int64_t results);

// Shapes that it serves: a 3x3 kernel, stride and dilation 1, one group, channels in whole vectors.
bool winograd_serves(const View& weight, const ConvSettings& settings);

// result[n, i, j] = sum over taps of source[n, i + kh - padding.h, j + kw - padding.w] * filter[kh, kw], plus the bias.
// Tiles are of outputs x outputs results: 2, or 4, which is faster and less exact.
template <class T>
void winograd(int outputs, const Images<const T>& source, const Filter<T>& filter, WinogradPadding padding,
              const T* bias, const Images<T>& result);

}  // namespace needle
