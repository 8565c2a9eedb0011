// The weight gradient: rows are taps and input channels, columns output channels, and the reduction runs over the
// pixels (n, ho, wo) in groups of 256. The input is read where it lies; the output's gradient is packed.
#include <algorithm>

#include "conv.h"
#include "parallel.h"

namespace needle {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
class WeightGradient {
 public:
  WeightGradient(const View& x, const View& d, const View& out, const ConvSettings& settings)
      : x_(x), d_(d), out_(out), h_(1, x, out, d, settings), w_(2, x, out, d, settings), groups_(settings.groups),
        inputs_(out.shape[2]), outputs_(out.shape[3] / settings.groups), taps_(h_.kernel * w_.kernel),
        pixels_(d.shape[0] * d.shape[1] * d.shape[2]), blocks_(std::max<int64_t>(1, ceil_div(pixels_, kGroup))) {}

  void run() {
    if (out_.n * out_.h * out_.w * out_.c == 0) return;
    if (inputs_ < kFewInputs)
      by_pixels();
    else
      by_weights();
  }

 private:
  static constexpr int64_t kFewInputs = 8;  // too few for the rows of a tile: taps are gathered too

  // Calls f(pixel, n, ho, wo, length) for the stretches of output rows in pixels [begin, end).
  template <class F>
  void each_stretch(int64_t begin, int64_t end, F f) const {
    for (int64_t pixel = begin; pixel < end;) {
      const int64_t row = pixel / d_.w, wo = pixel % d_.w, length = std::min(d_.w - wo, end - pixel);
      f(pixel - begin, row / d_.h, row % d_.h, wo, length);
      pixel += length;
    }
  }

  int64_t block_end(int64_t block) const { return std::min(pixels_, (block + 1) * kGroup); }

  void pack_gradient(int64_t block, int64_t column, int64_t columns, T* packed) const {
    const int64_t begin = block * kGroup, end = block_end(block);
    each_stretch(begin, end, [&](int64_t at, int64_t n, int64_t ho, int64_t wo, int64_t length) {
      pack(d_.data + n * d_.n_stride + ho * d_.h_stride + wo * d_.w_stride + column * d_.c_stride, d_.w_stride,
           d_.c_stride, length, columns, packed + at * kTileColumns<T>, kGroup * kTileColumns<T>);
    });
  }
  Right<T> panels(const T* packed, int64_t columns) const { return packed_panels<T>(packed, kGroup, columns); }

  // The pixels of a block for which a tap lies on the input.
  Step* steps(int64_t block, int64_t kh, int64_t kw, Step* step) const {
    int64_t first, last;
    w_.reached(kw, &first, &last);
    each_stretch(block * kGroup, block_end(block), [&](int64_t at, int64_t n, int64_t ho, int64_t wo, int64_t length) {
      const int64_t h = ho * h_.stride - h_.padding + kh * h_.dilation;
      if (h < 0 || h >= x_.h) return;
      const int64_t from = std::max(wo, first), to = std::min(wo + length, last);
      const int64_t a_step = w_.stride * x_.w_stride;
      int64_t a = n * x_.n_stride + h * x_.h_stride + (from * w_.stride - w_.padding + kw * w_.dilation) * x_.w_stride;
      for (int64_t b = at + from - wo; b < at + to - wo; ++b, a += a_step) *step++ = {a, b};
    });
    return step;
  }

  // Many channels: a task owns a block of the result, and walks over all pixels.
  void by_weights() {
    constexpr int64_t kColumns = 128, kBytes = 256 << 10;
    const int64_t threads = num_threads();
    int64_t column_parts = ceil_div(outputs_, kColumns), tap_parts = 1;
    const int64_t most_row_parts = ceil_div(inputs_, 2 * kFewInputs);
    const int64_t row_parts = std::min(most_row_parts, ceil_div(threads, groups_ * column_parts));
    while (groups_ * row_parts * column_parts < threads && outputs_ / column_parts >= 2 * kTileColumns<T>)
      column_parts *= 2;
    if (groups_ * row_parts * column_parts < threads)
      tap_parts = std::min(taps_, ceil_div(threads, groups_ * row_parts * column_parts));
    const int64_t panels_in_all = ceil_div(outputs_, kTileColumns<T>);
    const int64_t at_once = std::max<int64_t>(
        1, kBytes / (kGroup * ceil_div(panels_in_all, column_parts) * kTileColumns<T> * int64_t{sizeof(T)}));

    parallel_for(groups_ * row_parts * column_parts * tap_parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t index = i;
        const auto part = [&index](int64_t count, int64_t parts) {
          const int64_t p = index % parts;
          index /= parts;
          return std::pair<int64_t, int64_t>(count * p / parts, count * (p + 1) / parts);
        };
        const auto taps = part(taps_, tap_parts);
        const auto columns = part(panels_in_all, column_parts);
        const auto rows = part(inputs_, row_parts);
        weights_task(index, taps.first, taps.second, rows.first, rows.second, columns.first * kTileColumns<T>,
                     std::min(outputs_, columns.second * kTileColumns<T>), std::min(at_once, blocks_));
      }
    });
  }

  void weights_task(int64_t group, int64_t tap0, int64_t tap1, int64_t c0, int64_t c1, int64_t o0, int64_t o1,
                    int64_t at_once) {
    const int64_t block_size = packed_size<T>(kGroup, o1 - o0);
    Step* list = static_cast<Step*>(scratch(kOwn, at_once * (kGroup * sizeof(Step) + block_size * sizeof(T))));
    T* packed = reinterpret_cast<T*>(list + at_once * kGroup);
    std::vector<Step*> ends(at_once);
    for (int64_t block0 = 0; block0 < blocks_; block0 += at_once) {
      const int64_t count = std::min(at_once, blocks_ - block0);
      for (int64_t i = 0; i < count; ++i)
        pack_gradient(block0 + i, group * outputs_ + o0, o1 - o0, packed + i * block_size);
      for (int64_t tap = tap0; tap < tap1; ++tap) {
        const int64_t kh = tap / w_.kernel, kw = tap % w_.kernel;
        for (int64_t i = 0; i < count; ++i) ends[i] = steps(block0 + i, kh, kw, list + i * kGroup);
        const Rows<T> rows{x_.data + (group * inputs_ + c0) * x_.c_stride, x_.c_stride,
                           out_.data + kh * out_.n_stride + kw * out_.h_stride + c0 * out_.w_stride +
                               group * outputs_ + o0,
                           out_.w_stride, c1 - c0};
        for (int64_t i = 0; i < count; ++i) {
          const bool first = block0 + i == 0;
          if (first || ends[i] != list + i * kGroup)
            multiply<T>(rows, list + i * kGroup, ends[i], panels(packed + i * block_size, o1 - o0), first, nullptr);
        }
      }
    }
  }

  // Few channels: the windows of a block of pixels are gathered, blocks are computed in parallel, and their sums added
  // in order; a round of blocks at a time, to bound the memory.
  void by_pixels() {
    const int64_t size = groups_ * taps_ * inputs_ * outputs_;
    const int64_t round = std::min(blocks_, std::max<int64_t>(2 * num_threads(), (1 << 20) / size));
    T* sums = static_cast<T*>(scratch(kShared, round * size * sizeof(T)));
    for (int64_t block0 = 0; block0 < blocks_; block0 += round) {
      const int64_t count = std::min(round, blocks_ - block0);
      parallel_for(count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) pixels_task(block0 + i, sums + i * size);
      });
      const int64_t rows = groups_ * taps_ * inputs_;
      parallel_for(rows, std::max<int64_t>(1, (1 << 14) / (count * outputs_)), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) add(sums + row * outputs_, size, count, row, block0 == 0);
      });
    }
  }

  // sums (group, tap, input, output)
  void pixels_task(int64_t block, T* sums) const {
    const int64_t rows = taps_ * inputs_, begin = block * kGroup, count = block_end(block) - begin;
    Step list[kGroup];
    for (int64_t i = 0; i < count; ++i) list[i] = {i * rows, i};
    T* windows = static_cast<T*>(scratch(kOwn, (kGroup * rows + packed_size<T>(kGroup, outputs_)) * sizeof(T)));
    T* packed = windows + kGroup * rows;
    for (int64_t group = 0; group < groups_; ++group, sums += rows * outputs_) {
      each_stretch(begin, begin + count, [&](int64_t at, int64_t n, int64_t ho, int64_t wo, int64_t length) {
        gather(x_.data + n * x_.n_stride + group * inputs_ * x_.c_stride, ho, wo, length, windows + at * rows);
      });
      pack_gradient(block, group * outputs_, outputs_, packed);
      multiply<T>({windows, 1, sums, outputs_, rows}, list, list + count, panels(packed, outputs_), true, nullptr);
    }
  }

  // The windows of `length` outputs from (ho, wo) on, zero on the padding.
  void gather(const T* image, int64_t ho, int64_t wo, int64_t length, T* windows) const {
    const int64_t rows = taps_ * inputs_;
    for (int64_t kh = 0; kh < h_.kernel; ++kh) {
      const int64_t h = ho * h_.stride - h_.padding + kh * h_.dilation;
      for (int64_t kw = 0; kw < w_.kernel; ++kw) {
        int64_t first = wo, last = wo;
        if (h >= 0 && h < x_.h) w_.reached(kw, &first, &last);
        first = std::min(std::max(first, wo), wo + length), last = std::max(first, std::min(last, wo + length));
        T* to = windows + (kh * w_.kernel + kw) * inputs_;
        for (int64_t i = wo; i < first; ++i, to += rows) std::fill(to, to + inputs_, T{});
        const T* from = image + h * x_.h_stride + (first * w_.stride - w_.padding + kw * w_.dilation) * x_.w_stride;
        for (int64_t i = first; i < last; ++i, to += rows, from += w_.stride * x_.w_stride)
          for (int64_t c = 0; c < inputs_; ++c) to[c] = from[c * x_.c_stride];
        for (int64_t i = last; i < wo + length; ++i, to += rows) std::fill(to, to + inputs_, T{});
      }
    }
  }

  void add(const T* sums, int64_t size, int64_t count, int64_t row, bool first) {
    const int64_t c = row % inputs_, tap = row / inputs_ % taps_, group = row / inputs_ / taps_;
    T* out = out_.data + tap / w_.kernel * out_.n_stride + tap % w_.kernel * out_.h_stride + c * out_.w_stride +
             group * outputs_;
    if (first) std::fill(out, out + outputs_, T{});
    for (int64_t i = 0; i < count; ++i)
      for (int64_t o = 0; o < outputs_; ++o) out[o] += sums[i * size + o];
  }

  const Images<const T> x_, d_;
  const Images<T> out_;  // its axes are (Kh, Kw, C / groups, O)
  const Axis h_, w_;
  const int64_t groups_, inputs_, outputs_, taps_, pixels_, blocks_;
};

template <class T>
void weight_gradient(const View& x, const View& d, const View& out, const ConvSettings& settings) {
  const View source = x.strides[3] == 1 ? x : with_dense_channels(x, kDense);
  if (out.strides[3] == 1 || out.shape[3] == 1) return WeightGradient<T>(source, d, out, settings).run();
  const View dense = dense_scratch(out, kResult);
  WeightGradient<T>(source, d, dense, settings).run();
  copy(dense, out);
}

}  // namespace

void conv_weight_gradient(const View& x, const View& d, const View& out, const ConvSettings& settings) {
  if (x.dtype == DType::float32)
    weight_gradient<float>(x, d, out, settings);
  else
    weight_gradient<double>(x, d, out, settings);
}

}  // namespace needle
