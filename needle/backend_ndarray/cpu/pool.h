// How pooling runs over images: windows of pixels, and for gradients the windows that hold a pixel.
//
// Vectors run along the channels where these are innermost in memory, and along the width elsewhere. For the latter, a
// row of an image is first taken apart by the stride (column j goes to phase j % stride), so that a tap of neighbouring
// windows is 16 neighbours in memory, and padding is written out.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels.h"
#include "lanes.h"
#include "parallel.h"
#include "staged.h"

namespace needle {

struct Span {
  int64_t begin, end;
  int64_t length() const { return end - begin; }
};

struct PoolAxis {
  int64_t size, windows, kernel, stride, padding;

  Span taps(int64_t window) const {  // those on the image
    const int64_t start = window * stride - padding;
    return {std::max<int64_t>(0, -start), std::min(kernel, size - start)};
  }
  Span holders(int64_t pixel) const {  // the windows that hold it
    const int64_t reach = pixel + padding - kernel;
    return {reach < 0 ? 0 : reach / stride + 1, std::min(windows, (pixel + padding) / stride + 1)};
  }
  bool is_tiled() const { return padding == 0 && kernel == stride && kernel * windows == size; }
  int64_t count(int64_t window, bool include_pad) const {  // what a mean is divided by
    const int64_t border = include_pad ? padding : 0, start = window * stride - padding;
    return std::min(start + kernel, size + border) - std::max(start, -border);
  }
};

struct PoolLayout {
  PoolLayout(const View& image, const View& windows, const PoolSettings& settings, const View& lead);

  int64_t images, channels;
  PoolAxis h, w;
  bool channels_inner;  // memory is in the order N,H,W,C, else in N,C,H,W

  bool has_kernel(int64_t size) const { return h.kernel == size && w.kernel == size; }
  Order order() const { return channels_inner ? Order{0, 2, 3, 1} : Order{0, 1, 2, 3}; }
  int64_t windows() const { return images * channels * h.windows * w.windows; }
  int64_t grain(int64_t elements) const { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, elements)); }
  int64_t phase_length() const { return w.windows + (w.kernel - 1) / w.stride + kLanes; }
  int64_t columns_reached() const { return std::min(w.size, (w.windows - 1) * w.stride + w.kernel - w.padding); }
  std::vector<int64_t> tap_offsets() const;  // by kw: of window 0's pixel in a row that is taken apart
};

// body(lanes, channel) for vectors of channels; the last one overlaps the one before, which writes the same again.
template <class Body>
NEEDLE_INLINE void for_channels(int64_t channels, Body body) {
  if (channels < kLanes) return body(FirstLanes{channels}, 0);
  for (int64_t c = 0; c < channels; c += kLanes) body(AllLanes{}, std::min(c, channels - kLanes));
}

// A pooling is a functor: begin(first tap), then tap(state, pixels, k) for the taps on the image (and on padding, with
// pixels that change nothing) and end_row(state) after each row of them, then finish(state, lanes, window, counts).
// `known` is the kernel's height and width, where the compiler is to know them.
template <int known, class T, class Pooling>
void pool_channels(const PoolLayout& g, const T* x, bool include_pad, const Pooling& pooling) {
  std::vector<Span> columns;
  for (int64_t wo = 0; wo < g.w.windows; ++wo) columns.push_back(g.w.taps(wo));
  const int64_t row = g.w.windows * g.channels;
  parallel_for(g.images * g.h.windows, g.grain(row), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / g.h.windows, ho = i % g.h.windows, count = g.h.count(ho, include_pad);
      const Span rows = g.h.taps(ho);
      for (int64_t wo = 0; wo < g.w.windows; ++wo) {
        const Span taps = columns[wo];
        const T* corner = x + ((n * g.h.size + ho * g.h.stride - g.h.padding) * g.w.size + wo * g.w.stride -
                               g.w.padding) * g.channels;
        const T total = T(count * g.w.count(wo, include_pad));
        const auto pool = [&](Span rows, Span taps, int64_t width) __attribute__((always_inline)) {
          for_channels(g.channels, [&](auto lanes, int64_t c) __attribute__((always_inline)) {
            auto state = pooling.begin(Vec<Int<T>>(Int<T>(rows.begin * width + taps.begin)));
            for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
              const T* pixels = corner + kh * g.w.size * g.channels + c;
              for (int64_t kw = taps.begin; kw < taps.end; ++kw)
                pooling.tap(state, lanes.template load<T>(pixels + kw * g.channels), kh * width + kw);
              pooling.end_row(state);
            }
            pooling.finish(state, lanes, i * row + wo * g.channels + c, Vec<T>(total));
          });
        };
        if (known && rows.length() == known && taps.length() == known) pool({0, known}, {0, known}, known);
        else pool(rows, taps, g.w.kernel);
      }
    }
  });
}

// Columns 0, stride, 2 * stride, ... of a row lie side by side, from begins[0] on, columns 1, 1 + stride, ... from
// begins[1] on, and so on. `known` is the stride, where it is known to the compiler.
inline std::vector<int64_t> phase_begins(const PoolLayout& g) {
  std::vector<int64_t> begins;
  for (int64_t j = g.w.padding; j < g.w.padding + g.w.stride; ++j)
    begins.push_back(j % g.w.stride * g.phase_length() + j / g.w.stride);
  return begins;
}

template <int known, class T>
void take_apart(const int64_t* begins, int64_t stride, int64_t columns, const T* __restrict row, T* __restrict phases) {
  const int64_t step = known ? known : stride;
  for (int64_t p = 0; p < std::min(step, columns); ++p)
    for (int64_t i = 0; i * step + p < columns; ++i) phases[begins[p] + i] = row[i * step + p];
}

template <int known, class T>
void put_together(const int64_t* begins, int64_t stride, int64_t columns, const T* __restrict phases,
                  T* __restrict row) {
  const int64_t step = known ? known : stride, whole = columns / step;
  for (int64_t i = 0; i < whole; ++i)
    for (int64_t p = 0; p < step; ++p) row[i * step + p] = phases[begins[p] + i];
  for (int64_t p = 0; p < columns % step; ++p) row[whole * step + p] = phases[begins[p] + whole];
}

template <class T, class Pooling>
void pool_rows(const PoolLayout& g, const T* x, T padding, bool include_pad, const Pooling& pooling) {
  const auto take = g.w.stride == 1 ? take_apart<1, T> : g.w.stride == 2 ? take_apart<2, T> : take_apart<0, T>;
  const int64_t band = g.w.stride * g.phase_length(), columns = g.columns_reached(), plane = g.h.windows * g.w.windows;
  const std::vector<int64_t> offsets = g.tap_offsets(), begins = phase_begins(g);
  std::vector<Int<T>> first_taps(g.w.windows + kLanes, 0);
  std::vector<T> counts(g.w.windows + kLanes, T(1));
  for (int64_t wo = 0; wo < g.w.windows; ++wo) {
    first_taps[wo] = Int<T>(g.w.taps(wo).begin);
    counts[wo] = T(g.w.count(wo, include_pad));
  }
  parallel_for(g.images * g.channels, g.grain(plane), [&](int64_t begin, int64_t end) {
    T* bands = scratch_of<T>(1, g.h.kernel * band);
    std::fill(bands, bands + g.h.kernel * band, padding);  // what lies beside the image stays so
    for (int64_t i = begin * g.h.windows; i < end * g.h.windows; ++i) {
      const int64_t image = i / g.h.windows, ho = i % g.h.windows;
      const Span rows = g.h.taps(ho);
      for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
        const int64_t row = image * g.h.size + ho * g.h.stride - g.h.padding + kh;
        take(begins.data(), g.w.stride, columns, x + row * g.w.size, bands + kh * band);
      }
      for (int64_t wo = 0; wo < g.w.windows; wo += kLanes) {
        auto state = pooling.begin(load(&first_taps[wo]) + Int<T>(rows.begin * g.w.kernel));
        for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
          for (int64_t kw = 0; kw < g.w.kernel; ++kw)
            pooling.tap(state, load(bands + kh * band + offsets[kw] + wo), kh * g.w.kernel + kw);
          pooling.end_row(state);
        }
        const int64_t at = i * g.w.windows + wo;
        const Vec<T> total = load(&counts[wo]) * T(g.h.count(ho, include_pad));
        if (at + kLanes <= (image + 1) * plane)  // what is written too far is written again by the next row
          pooling.finish(state, AllLanes{}, at, total);
        else
          pooling.finish(state, FirstLanes{std::min<int64_t>(kLanes, g.w.windows - wo)}, at, total);
      }
    }
  });
}

// Gradients: share.load(lanes, window) reads what windows have to give; share.at(that, k) is what their tap k gets.
template <class T, class Share>
void unpool_channels(const PoolLayout& g, T* out, const Share& share) {
  std::vector<Span> columns;
  for (int64_t w = 0; w < g.w.size; ++w) columns.push_back(g.w.holders(w));
  parallel_for(g.images * g.h.size, g.grain(g.w.size * g.channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / g.h.size, h = i % g.h.size;
      const Span rows = g.h.holders(h);
      for (int64_t w = 0; w < g.w.size; ++w) {
        const Span holders = columns[w];
        const auto pixel = [&](auto lanes, int64_t c) __attribute__((always_inline)) {
          Vec<T> sum(T(0));
          for (int64_t ho = rows.begin; ho < rows.end; ++ho) {
            const int64_t k = (h + g.h.padding - ho * g.h.stride) * g.w.kernel + w + g.w.padding;
            const int64_t window = (n * g.h.windows + ho) * g.w.windows;
            for (int64_t wo = holders.begin; wo < holders.end; ++wo)
              sum += share.at(share.load(lanes, (window + wo) * g.channels + c), k - wo * g.w.stride);
          }
          lanes.store(out + (i * g.w.size + w) * g.channels + c, sum);
        };
        for_channels(g.channels, pixel);
      }
    }
  });
}

// The same where no two windows overlap: each window writes its pixels.
template <int known, class T, class Share>
void unpool_channels_apart(const PoolLayout& g, T* out, const Share& share) {
  std::vector<Span> columns;
  for (int64_t wo = 0; wo < g.w.windows; ++wo) columns.push_back(g.w.taps(wo));
  const int64_t row = g.w.size * g.channels;
  const bool gaps = !g.h.is_tiled() || !g.w.is_tiled();
  parallel_for(g.images * g.h.windows, g.grain(g.h.stride * row), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / g.h.windows, ho = i % g.h.windows;
      const int64_t top = ho * g.h.stride - g.h.padding;
      if (gaps) {  // the rows from these windows' first to the next ones'
        const int64_t first = ho == 0 ? 0 : top, last = ho + 1 == g.h.windows ? g.h.size : top + g.h.stride;
        std::fill(out + (n * g.h.size + first) * row, out + (n * g.h.size + last) * row, T(0));
      }
      const Span rows = g.h.taps(ho);
      for (int64_t wo = 0; wo < g.w.windows; ++wo) {
        const Span taps = columns[wo];
        T* corner = out + (n * g.h.size + top) * row + (wo * g.w.stride - g.w.padding) * g.channels;
        const auto unpool = [&](Span rows, Span taps, int64_t width) __attribute__((always_inline)) {
          for_channels(g.channels, [&](auto lanes, int64_t c) __attribute__((always_inline)) {
            const auto given = share.load(lanes, (i * g.w.windows + wo) * g.channels + c);
            for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
              T* pixels = corner + kh * row + c;
              for (int64_t kw = taps.begin; kw < taps.end; ++kw)
                lanes.store(pixels + kw * g.channels, share.at(given, kh * width + kw));
            }
          });
        };
        if (known && rows.length() == known && taps.length() == known) unpool({0, known}, {0, known}, known);
        else unpool(rows, taps, g.w.kernel);
      }
    }
  });
}

template <class T, class Share>
void unpool_rows(const PoolLayout& g, T* out, const Share& share) {
  const auto put = g.w.stride == 1 ? put_together<1, T> : g.w.stride == 2 ? put_together<2, T> : put_together<0, T>;
  const int64_t band = g.w.stride * g.phase_length(), columns = g.columns_reached(), all = g.windows();
  const std::vector<int64_t> offsets = g.tap_offsets(), begins = phase_begins(g);
  parallel_for(g.images * g.channels, g.grain(g.h.size * g.w.size), [&](int64_t begin, int64_t end) {
    T* phases = scratch_of<T>(1, band);
    for (int64_t i = begin * g.h.size; i < end * g.h.size; ++i) {
      const int64_t image = i / g.h.size, h = i % g.h.size;
      std::fill(phases, phases + band, T(0));
      const Span rows = g.h.holders(h);
      for (int64_t ho = rows.begin; ho < rows.end; ++ho) {
        const int64_t k = (h + g.h.padding - ho * g.h.stride) * g.w.kernel;
        for (int64_t wo = 0; wo < g.w.windows; wo += kLanes) {
          const int64_t at = (image * g.h.windows + ho) * g.w.windows + wo, n = g.w.windows - wo;
          const auto given = n >= kLanes         ? share.load(AllLanes{}, at)
                             : at + kLanes <= all ? share.first(share.load(AllLanes{}, at), n)
                                                  : share.load(FirstLanes{n}, at);
          for (int64_t kw = g.w.kernel - 1; kw >= 0; --kw) {  // a pixel's windows come from left to right
            T* to = phases + offsets[kw] + wo;
            store(to, load(to) + share.at(given, k + kw));
          }
        }
      }
      T* row = out + i * g.w.size;
      put(begins.data(), g.w.stride, columns, phases, row);
      std::fill(row + columns, row + g.w.size, T(0));
    }
  });
}

}  // namespace needle
