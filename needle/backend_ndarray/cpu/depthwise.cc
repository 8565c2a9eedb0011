#include "depthwise.h"

#include <algorithm>

#include "conv_pixels.h"
#include "conv_regions.h"
#include "parallel.h"

namespace needle {
namespace {

// What holds channels: a register, or one number for those that do not fill one.
template <class V, class T>
V load_part(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
NEEDLE_INLINE Register<T> fused(Register<T> a, Register<T> b, Register<T> c) {
  return fma<T>(a, b, c);
}
template <class T>
NEEDLE_INLINE T fused(T a, T b, T c) {
  return fma(a, b, c);
}

// Calls body(channel, V()) for registers that cover [0, channels): the last one overlaps the one before it. Fewer
// channels than a register holds are taken one by one.
template <class T, class F>
void each_vector(int64_t channels, F body) {
  constexpr int64_t lanes = kRegisterLanes<T>;
  if (channels < lanes) {
    for (int64_t c = 0; c < channels; ++c) body(c, T{});
    return;
  }
  for (int64_t c = 0; c < channels; c += lanes) body(std::min(c, channels - lanes), Register<T>{});
}

// Pixels of one row: filter (tap, channel), source and result at the first pixel's channel.
template <class T>
struct PixelRow {
  const T* source;
  int64_t source_stride;
  T* result;
  int64_t result_stride;
  const T* filter;
  int64_t channels;
  const T* bias;
};

template <class V, int P, class T>
void pixels(const PixelRow<T>& row, const Step* begin, const Step* end) {
  V sum[P] = {};
  for (const Step* step = begin; step != end; ++step) {
    const V tap = load_part<V>(row.filter + step->b * row.channels);
    const T* from = row.source + step->a;
#pragma GCC unroll 8
    for (int i = 0; i < P; ++i) sum[i] = fused<T>(load_part<V>(from + i * row.source_stride), tap, sum[i]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < P; ++i) {
    V total = V{} + sum[i];
    if (row.bias) total += load_part<V>(row.bias);
    std::memcpy(row.result + i * row.result_stride, &total, sizeof total);
  }
}

template <int P, class T>
void all_channels(const PixelRow<T>& row, const Step* begin, const Step* end) {
  each_vector<T>(row.channels, [&](int64_t c, auto vector) {
    PixelRow<T> at = row;
    at.source += c, at.result += c, at.filter += c;
    if (row.bias) at.bias += c;
    pixels<decltype(vector), P>(at, begin, end);
  });
}

template <class T>
void whole_row(PixelRow<T> row, int64_t count, const Step* begin, const Step* end) {
  const auto advance = [&](int64_t n) {
    row.source += n * row.source_stride;
    row.result += n * row.result_stride;
    return n;
  };
  for (; count >= 8; count -= advance(8)) all_channels<8>(row, begin, end);
  for (; count >= 3; count -= advance(3)) all_channels<3>(row, begin, end);
  for (; count >= 1; count -= advance(1)) all_channels<1>(row, begin, end);
}

// N registers of channels, each a chain over the pixels of a block.
template <class V, int N, class T>
void chain(const T* x, const T* d, const Step* begin, const Step* end, T* sums) {
  constexpr int lanes = sizeof(V) / sizeof(T);
  V sum[N] = {};
  for (const Step* step = begin; step != end; ++step) {
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i)
      sum[i] = fused<T>(load_part<V>(x + step->a + i * lanes), load_part<V>(d + step->b + i * lanes), sum[i]);
  }
  std::memcpy(sums, sum, sizeof sum);
}

}  // namespace

template <class T>
void depthwise(const Images<const T>& source, const std::vector<Run>& h_runs, const std::vector<Run>& w_runs,
               const Filter<T>& filter, const T* bias, const Images<T>& result) {
  if (result.n * result.h * result.w * result.c == 0) return;
  const std::vector<Region> regions = make_regions(h_runs, w_runs, source, filter);
  const int64_t channels = result.c, taps = filter.kh * filter.kw;
  T* packed = static_cast<T*>(scratch(kShared, taps * channels * sizeof(T)));
  for (int64_t tap = 0; tap < taps; ++tap) {
    const T* from = filter.data + tap / filter.kw * filter.kh_stride + tap % filter.kw * filter.kw_stride;
    for (int64_t c = 0; c < channels; ++c) packed[tap * channels + c] = from[c * filter.group_stride];
  }

  const int64_t row_work = std::max<int64_t>(1, result.w * channels * taps);
  parallel_for(result.n * result.h, std::max<int64_t>(1, (1 << 17) / row_work), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end;) {
      const int64_t n = row / result.h, first = row % result.h, rows = std::min(result.h - first, end - row);
      for (const Region& region : regions) {
        const Run &h = *region.h, &w = *region.w;
        for (int64_t i = h.index_from(first); i < h.index_from(first + rows); ++i) {
          const PixelRow<T> pixel_row{source.data + n * source.n_stride + i * h.source_step * source.h_stride,
                                      w.source_step * source.w_stride,
                                      result.data + n * result.n_stride + (h.first + i * h.step) * result.h_stride +
                                          w.first * result.w_stride,
                                      w.step * result.w_stride, packed, channels, bias};
          const Step* steps = region.steps.list.data();
          whole_row(pixel_row, w.count, steps, steps + region.steps.list.size());
        }
      }
      row += rows;
    }
  });
}

template <class T>
void depthwise_weight_gradient(const View& x, const View& gradient, const View& out, const ConvSettings& settings) {
  const View d = with_dense_channels(gradient, kDenseGradient);
  const Pixels<T> pixels(x, d, out, settings);
  const int64_t channels = out.shape[3], kw = out.shape[1], taps = out.shape[0] * kw;
  sum_over_blocks<T>(
      pixels.blocks, taps * channels,
      [&](int64_t block, T* sums) {
        Step steps[kGroup];
        for (int64_t tap = 0; tap < taps; ++tap) {
          const Step* end = pixels.steps_in_both(block, tap / kw, tap % kw, steps);
          constexpr int64_t lanes = kRegisterLanes<T>;
          int64_t c = 0;
          for (; c + 4 * lanes <= channels; c += 4 * lanes)
            chain<Register<T>, 4>(pixels.x.data + c, pixels.d.data + c, steps, end, sums + tap * channels + c);
          for (; c + lanes <= channels; c += lanes)
            chain<Register<T>, 1>(pixels.x.data + c, pixels.d.data + c, steps, end, sums + tap * channels + c);
          for (; c < channels; ++c)
            chain<T, 1>(pixels.x.data + c, pixels.d.data + c, steps, end, sums + tap * channels + c);
        }
      },
      [&](const T* sums) {
        for (int64_t tap = 0; tap < taps; ++tap)
          std::copy(sums + tap * channels, sums + (tap + 1) * channels,
                    out.as<T>() + tap / kw * out.strides[0] + tap % kw * out.strides[1]);
      });
}

#define NEEDLE_INSTANTIATE(T)                                                                                     \
  template void depthwise<T>(const Images<const T>&, const std::vector<Run>&, const std::vector<Run>&,            \
                             const Filter<T>&, const T*, const Images<T>&);                                       \
  template void depthwise_weight_gradient<T>(const View&, const View&, const View&, const ConvSettings&);
NEEDLE_INSTANTIATE(float)
NEEDLE_INSTANTIATE(double)

}  // namespace needle
