// The weight gradient: rows are taps and input channels, columns output channels, and the reduction runs over pixels.
#include <algorithm>

#include "conv.h"
#include "conv_pixels.h"
#include "depthwise.h"
#include "parallel.h"

namespace needle {
namespace {

template <class T>
class WeightGradient {
 public:
  WeightGradient(const View& x, const View& d, const View& out, const ConvSettings& settings)
      : pixels_(x, d, out, settings), out_(out), groups_(settings.groups), inputs_(out.shape[2]),
        outputs_(out.shape[3] / settings.groups), taps_(out.shape[0] * out.shape[1]) {}

  void run() {
    constexpr int64_t kFewInputs = 16;   // few for the rows of a tile, which then run over the taps too
    constexpr int64_t kSmall = 1 << 14;  // elements of a gradient so small that each block of pixels may have its own
    const int64_t size = taps_ * inputs_ * groups_ * outputs_;
    if (inputs_ <= kFewInputs)
      by_pixels();
    else if (size <= kSmall)
      sum_blocks([this](int64_t block, T* sums) { taps_task(block, sums); });
    else
      by_weights();
  }

 private:
  struct Span {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };

  T* result(int64_t tap, int64_t c, int64_t column) {
    return out_.data + tap / out_.h * out_.n_stride + tap % out_.h * out_.h_stride + c * out_.w_stride + column;
  }

  // Many channels: a task owns a part of the result, and walks over all pixels.
  void by_weights() {
    constexpr int64_t kColumns = 128, kRows = 16;
    const int64_t threads = num_threads(), panels = ceil_div(outputs_, kTileColumns<T>);
    int64_t column_parts = ceil_div(outputs_, kColumns);
    const int64_t row_parts = std::min(ceil_div(inputs_, kRows), ceil_div(threads, groups_ * column_parts));
    while (groups_ * row_parts * column_parts < threads && panels >= 2 * column_parts) column_parts *= 2;
    const int64_t tap_parts = std::min(taps_, ceil_div(threads, groups_ * row_parts * column_parts));

    parallel_for(groups_ * row_parts * column_parts * tap_parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        int64_t index = task;
        const auto part = [&index](int64_t count, int64_t parts) {
          const int64_t i = index % parts;
          index /= parts;
          return Span{count * i / parts, count * (i + 1) / parts};
        };
        const Span taps = part(taps_, tap_parts);
        Span columns = part(panels, column_parts);
        columns = {columns.begin * kTileColumns<T>, std::min(outputs_, columns.end * kTileColumns<T>)};
        const Span rows = part(inputs_, row_parts);
        weights_task(index, taps, rows, columns);
      }
    });
  }

  void weights_task(int64_t group, Span taps, Span rows, Span columns) {
    constexpr int64_t kBytes = 256 << 10;  // of d at once: half of what the second cache holds
    const int64_t panels_size = packed_size<T>(kGroup, columns.size());
    const int64_t at_once =
        std::min(pixels_.blocks, std::max<int64_t>(1, kBytes / (panels_size * int64_t{sizeof(T)})));
    T* packed = static_cast<T*>(scratch(kOwn, at_once * panels_size * sizeof(T)));
    std::vector<Right<T>> right(at_once);
    std::vector<Step> steps(kGroup);
    for (int64_t block0 = 0; block0 < pixels_.blocks; block0 += at_once) {
      const int64_t count = std::min(at_once, pixels_.blocks - block0);
      for (int64_t i = 0; i < count; ++i)
        right[i] = pixels_.right(block0 + i, group * outputs_ + columns.begin, columns.size(),
                                  packed + i * panels_size);
      for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
        const Rows<T> to{pixels_.x.data + (group * inputs_ + rows.begin) * pixels_.x.c_stride,
                         result(tap, rows.begin, group * outputs_ + columns.begin),
                         {rows.size(), pixels_.x.c_stride, out_.w_stride}};
        for (int64_t i = 0; i < count; ++i) {
          const Step* end = pixels_.steps(block0 + i, tap / out_.h, tap % out_.h, steps.data());
          const bool first = block0 + i == 0;
          if (first || end != steps.data()) multiply<T>(to, steps.data(), end, right[i], first, nullptr);
        }
      }
    }
  }

  // Few channels: blocks of pixels are computed in parallel, for all taps at once. The input rows of a block are
  // copied between zeros, so that a tap lies equally far from every pixel.
  void by_pixels() {
    const ConvAxis &h = pixels_.h, &w = pixels_.w;
    row_size_ = std::max((w.output - 1) * w.stride + (w.kernel - 1) * w.dilation + 1, w.padding + w.input) * inputs_;
    adjacent_ = w.dilation == 1 && w.kernel * inputs_ >= kTileRows / 2;
    for (int64_t kh = 0; kh < h.kernel; ++kh)
      for (int64_t kw = 0; kw < w.kernel; ++kw)
        for (int64_t c = 0; c < inputs_; ++c)
          offsets_.push_back(kh * h.dilation * row_size_ + kw * w.dilation * inputs_ + c);
    sum_blocks([this](int64_t block, T* sums) { pixels_task(block, sums); });
  }

  // task(block, sums) gives the sums (group, tap, input, output) over a block of pixels.
  template <class Task>
  void sum_blocks(Task task) {
    const int64_t rows = taps_ * inputs_;
    sum_over_blocks<T>(pixels_.blocks, groups_ * rows * outputs_, task, [&](const T* sums) {
      for (int64_t i = 0; i < groups_ * rows; ++i) {
        const T* from = sums + i * outputs_;
        std::copy(from, from + outputs_, result(i / inputs_ % taps_, i % inputs_, i / rows * outputs_));
      }
    });
  }

  // A small gradient: blocks of pixels are computed in parallel, a tap at a time.
  void taps_task(int64_t block, T* sums) const {
    T* packed = static_cast<T*>(scratch(kOwn, packed_size<T>(kGroup, outputs_) * sizeof(T)));
    Step steps[kGroup];
    for (int64_t group = 0; group < groups_; ++group) {
      const Right<T> right = pixels_.right(block, group * outputs_, outputs_, packed);
      for (int64_t tap = 0; tap < taps_; ++tap, sums += inputs_ * outputs_) {
        const Step* end = pixels_.steps(block, tap / out_.h, tap % out_.h, steps);
        multiply<T>({pixels_.x.data + group * inputs_ * pixels_.x.c_stride, sums,
                     {inputs_, pixels_.x.c_stride, outputs_}},
                    steps, end, right, true, nullptr);
      }
    }
  }

  void pixels_task(int64_t block, T* sums) const {
    const ConvAxis& h = pixels_.h;
    const int64_t rows = taps_ * inputs_, tallest = (h.kernel - 1) * h.dilation + 1;
    int64_t input_rows = 0;  // of the block: each stretch brings those of its windows
    pixels_.each_stretch(block, [&](int64_t, int64_t, int64_t, int64_t, int64_t) {
      input_rows += std::max(h.stride, tallest);
    });
    input_rows += tallest;
    T* padded = static_cast<T*>(
        scratch(kOwn, (input_rows * row_size_ + packed_size<T>(kGroup, outputs_)) * sizeof(T)));
    T* packed = padded + input_rows * row_size_;
    Step steps[kGroup];
    for (int64_t group = 0; group < groups_; ++group, sums += rows * outputs_) {
      const Step* end = pad(block, group, tallest, padded, steps);
      const Right<T> right = pixels_.right(block, group * outputs_, outputs_, packed);
      if (!adjacent_) {
        multiply<T>(padded, offsets_, steps, end, right, sums, outputs_);
      } else {
        const int64_t n = rows / h.kernel;  // (kw, input) of one kh
        for (int64_t row = 0; row < rows; row += n)
          multiply<T>({padded + offsets_[row], sums + row * outputs_, {n, 1, outputs_}}, steps, end, right, true,
                      nullptr);
      }
    }
  }

  // Copies the input rows that the windows of a block reach, and lists where its pixels' windows begin there.
  Step* pad(int64_t block, int64_t group, int64_t tallest, T* padded, Step* step) const {
    const ConvAxis &h = pixels_.h, &w = pixels_.w;
    int64_t image = -1, next = 0, first = 0;  // rows `first`, ... of the image lie before `next`
    T* image_rows = padded;
    T* free = padded;
    pixels_.each_stretch(block, [&](int64_t at, int64_t n, int64_t ho, int64_t wo, int64_t length) {
      const int64_t top = ho * h.stride - h.padding;
      if (n != image) {
        image = n;
        first = next = top;
        image_rows = free;
      }
      next = std::max(next, top);
      for (; next < top + tallest; ++next) pad_row(n, group, next, image_rows + (next - first) * row_size_);
      free = image_rows + (next - first) * row_size_;
      const T* begin = image_rows + (top - first) * row_size_;
      for (int64_t i = 0; i < length; ++i)
        *step++ = {begin - padded + (wo + i) * w.stride * inputs_, at + i};
    });
    return step;
  }

  void pad_row(int64_t n, int64_t group, int64_t row, T* to) const {
    const Images<const T>& x = pixels_.x;
    const int64_t padding = pixels_.w.padding * inputs_;
    if (row < 0 || row >= x.h) return std::fill_n(to, row_size_, T{}), void();
    std::fill_n(to, padding, T{});
    const T* from = x.data + n * x.n_stride + row * x.h_stride + group * inputs_ * x.c_stride;
    to += padding;
    if (x.w_stride == inputs_ && x.c_stride == 1) {
      std::copy(from, from + x.w * inputs_, to);
    } else {
      for (int64_t i = 0; i < x.w; ++i)
        for (int64_t c = 0; c < inputs_; ++c) to[i * inputs_ + c] = from[i * x.w_stride + c * x.c_stride];
    }
    const int64_t used = padding + x.w * inputs_;
    std::fill_n(to + x.w * inputs_, row_size_ - used, T{});
  }

  const Pixels<T> pixels_;
  const Images<T> out_;  // its axes are (Kh, Kw, C / groups, O)
  const int64_t groups_, inputs_, outputs_, taps_;
  std::vector<int64_t> offsets_;  // of (tap, input) from a window's begin, by_pixels
  bool adjacent_ = false;         // those of one kh are 0, 1, 2, ... from its first
  int64_t row_size_ = 0;
};

template <class T>
void weight_gradient(const View& x, const View& d, const View& out, const ConvSettings& settings) {
  if (out.size() == 0) return;
  const View source = with_dense_channels(x, kDense);
  into_dense_channels(out, [&](const View& result) {
    if (is_depthwise(out, settings))
      depthwise_weight_gradient<T>(source, d, result, settings);
    else
      WeightGradient<T>(source, d, result, settings).run();
  });
}

}  // namespace

void conv_weight_gradient(const View& x, const View& d, const View& out, const ConvSettings& settings) {
  if (x.dtype == DType::float32)
    weight_gradient<float>(x, d, out, settings);
  else
    weight_gradient<double>(x, d, out, settings);
}

}  // namespace needle
