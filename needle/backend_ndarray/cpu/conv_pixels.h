// What weight gradients share: the reduction runs over the output pixels (n, ho, wo), in blocks of one group each.
#pragma once

#include <algorithm>
#include <vector>

#include "conv.h"
#include "parallel.h"

namespace needle {

template <class T>
struct Pixels {
  Images<const T> x, d;
  ConvAxis h, w;
  int64_t count, blocks;

  Pixels(const View& input, const View& gradient, const View& weight, const ConvSettings& settings)
      : x(input), d(gradient), h(1, input, weight, gradient, settings), w(2, input, weight, gradient, settings),
        count(d.n * d.h * d.w), blocks(std::max<int64_t>(1, (count + kGroup - 1) / kGroup)) {}

  int64_t begin(int64_t block) const { return block * kGroup; }
  int64_t end(int64_t block) const { return std::min(count, (block + 1) * kGroup); }

  // Calls f(at, n, ho, wo, length) for the stretches of output rows in a block; `at` counts from the block's begin.
  template <class F>
  void each_stretch(int64_t block, F f) const {
    const int64_t first = begin(block), last = end(block);
    if (first >= last) return;
    int64_t n = first / d.w / d.h, ho = first / d.w % d.h, wo = first % d.w;
    for (int64_t pixel = first; pixel < last; wo = 0) {
      const int64_t length = std::min(d.w - wo, last - pixel);
      f(pixel - first, n, ho, wo, length);
      pixel += length;
      if (++ho == d.h) ho = 0, ++n;
    }
  }

  // The pixels of a block for which a tap lies on the input: their places in x, and in the block (b counts pixels).
  Step* steps(int64_t block, int64_t kh, int64_t kw, Step* step) const {
    each_reached(block, kh, kw, [&](int64_t at, int64_t, int64_t, int64_t, int64_t length, int64_t a) {
      for (int64_t i = 0; i < length; ++i) *step++ = {a + i * w.stride * x.w_stride, at + i};
    });
    return step;
  }
  // The same with their places in d.
  Step* steps_in_both(int64_t block, int64_t kh, int64_t kw, Step* step) const {
    each_reached(block, kh, kw, [&](int64_t, int64_t n, int64_t ho, int64_t wo, int64_t length, int64_t a) {
      const int64_t b = n * d.n_stride + ho * d.h_stride + wo * d.w_stride;
      for (int64_t i = 0; i < length; ++i) *step++ = {a + i * w.stride * x.w_stride, b + i * d.w_stride};
    });
    return step;
  }

  // The block's rows of d, `columns` of them from `column` on: where they lie, if that is a matrix of short rows, else
  // as panels.
  Right<T> right(int64_t block, int64_t column, int64_t columns, T* packed) const {
    constexpr int64_t kShortRow = 512;  // bytes; longer ones may share the sets of a cache
    if (can_stay<T>(columns, d.c_stride) && d.h_stride == d.w * d.w_stride && d.n_stride == d.h * d.h_stride &&
        d.w_stride * int64_t{sizeof(T)} <= kShortRow)
      return in_place(d.data + begin(block) * d.w_stride + column, d.w_stride, columns);
    each_stretch(block, [&](int64_t at, int64_t n, int64_t ho, int64_t wo, int64_t length) {
      pack(d.data + n * d.n_stride + ho * d.h_stride + wo * d.w_stride + column * d.c_stride, d.w_stride, d.c_stride,
           length, columns, packed + at * kTileColumns<T>, kGroup * kTileColumns<T>);
    });
    return packed_panels<T>(packed, kGroup, columns);
  }

 private:
  // Calls f(at, n, ho, wo, length, a) for the stretches for which a tap lies on the input, from x.data + a on.
  template <class F>
  void each_reached(int64_t block, int64_t kh, int64_t kw, F f) const {
    int64_t first, last;
    w.reached(kw, &first, &last);
    each_stretch(block, [&](int64_t at, int64_t n, int64_t ho, int64_t wo, int64_t length) {
      const int64_t row = ho * h.stride - h.padding + kh * h.dilation;
      const int64_t from = std::max(wo, first), to = std::min(wo + length, last);
      if (row < 0 || row >= x.h || from >= to) return;
      const int64_t column = from * w.stride - w.padding + kw * w.dilation;
      f(at + from - wo, n, ho, from, to - from, n * x.n_stride + row * x.h_stride + column * x.w_stride);
    });
  }
};

// Sums what task(block, sums) gives for each block, `size` elements, in the order of the blocks, though blocks are
// computed in parallel. add(i, sum) takes each sum. Blocks go in rounds, to bound the memory.
template <class T, class Task, class Add>
void sum_over_blocks(int64_t blocks, int64_t size, Task task, Add add) {
  constexpr int64_t kAtOnce = 1 << 10;  // elements of the sum, which stay in the first cache
  const int64_t round = std::min(blocks, std::max<int64_t>(2 * num_threads(), (1 << 20) / size));
  T* sums = static_cast<T*>(scratch(kShared, (round + 1) * size * sizeof(T)));
  T* total = sums + round * size;
  for (int64_t first = 0; first < blocks; first += round) {
    const int64_t count = std::min(round, blocks - first);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) task(first + i, sums + i * size);
    });
    parallel_for(size, std::max<int64_t>(kTileColumns<T>, (1 << 16) / count), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; at += kAtOnce) {
        const int64_t last = std::min(end, at + kAtOnce);
        if (first == 0) std::fill(total + at, total + last, T{});
        for (int64_t i = 0; i < count; ++i)
          for (int64_t j = at; j < last; ++j) total[j] += sums[i * size + j];
      }
    });
  }
  add(total);
}

}  // namespace needle
