// The forward pass and the input gradient: tiles of pixels against panels of the filter.
#include <algorithm>

#include "conv.h"
#include "conv_regions.h"
#include "parallel.h"

namespace needle {
namespace {

// Joins loops over pixels where one goes on where the other ends, and makes tiles along the one with the tallest.
template <class T>
Rows<T> arrange(const T* source, T* result, Loop images, Loop h, Loop w, int registers) {
  const auto join = [](Loop* outer, Loop* inner) {
    if (outer->a != inner->a * inner->count || outer->c != inner->c * inner->count) return;
    inner->count *= outer->count;
    outer->count = 1;
  };
  join(&h, &w);
  join(&images, &h);
  if (h.count == 1) join(&images, &w);
  const auto height = [registers](const Loop& loop) {
    return static_cast<double>(loop.count) / ceil_div(loop.count, tile_rows<T>(loop.a, registers));
  };
  constexpr double kTallEnough = std::min(6, kTileRows);
  if (height(w) < kTallEnough && height(h) > height(w)) std::swap(h, w);
  if (height(w) < kTallEnough && height(images) > height(w)) std::swap(images, w);
  return {source, result, w, h, images};
}

// How the result is cut into tasks: some images, some rows of pixels, some columns (of one channel group).
struct Cut {
  int64_t images, rows, columns;
  int64_t image_blocks, row_blocks, column_blocks;
};

template <class T>
Cut cut(const Images<const T>& source, const Images<T>& result, const Filter<T>& filter, int64_t groups) {
  constexpr int64_t kPixels = 192 << 10, kWeights = 512 << 10;  // bytes that stay in the second cache
  Cut c;
  const int64_t panels = ceil_div(filter.results, kTileColumns<T>);
  const int64_t panel_bytes = filter.rows() * kTileColumns<T> * int64_t{sizeof(T)};
  c.column_blocks = ceil_div(panels, std::max<int64_t>(1, kWeights / std::max<int64_t>(1, panel_bytes)));
  c.columns = ceil_div(panels, c.column_blocks) * kTileColumns<T>;
  c.column_blocks = ceil_div(filter.results, c.columns);
  // Heavy filters want many pixels for each time that they are read.
  const int64_t row_bytes = std::max<int64_t>(1, (source.h * source.w * filter.sources / result.h +
                                                  result.w * c.columns) * int64_t{sizeof(T)});
  const int64_t rows_at_least = ceil_div(panel_bytes * ceil_div(c.columns, kTileColumns<T>) > kWeights / 2 ? 1024 : 64,
                                         result.w);
  int64_t rows = std::max(rows_at_least, kPixels / row_bytes);
  const int64_t wanted = num_threads() == 1 ? 1 : 4 * num_threads();
  const int64_t others = groups * c.column_blocks;
  while (rows > rows_at_least && ceil_div(result.n * result.h, rows) * others < wanted) rows = ceil_div(rows, 2);
  if (ceil_div(result.n * result.h, rows) * others < num_threads())
    rows = std::max<int64_t>(1, ceil_div(result.n * result.h * others, num_threads()));
  c.images = std::max<int64_t>(1, std::min(result.n, rows / result.h));
  c.rows = std::min(rows, result.h);
  c.image_blocks = ceil_div(result.n, c.images);
  if (c.image_blocks > num_threads()) {  // an equal share for each thread
    c.images = ceil_div(result.n, ceil_div(c.image_blocks, num_threads()) * num_threads());
    c.image_blocks = ceil_div(result.n, c.images);
  }
  c.row_blocks = ceil_div(result.h, c.rows);
  return c;
}

template <class T>
class Convolution {
 public:
  Convolution(const Images<const T>& source, const std::vector<Run>& h_runs, const std::vector<Run>& w_runs,
              const Filter<T>& filter, int64_t groups, const T* bias, const Images<T>& result)
      : source_(source), result_(result), filter_(filter), groups_(groups), bias_(bias),
        cut_(cut(source, result, filter, groups)), regions_(make_regions(h_runs, w_runs, source, filter)) {}

  void run() {
    pack_filter();
    parallel_for(groups_ * cut_.column_blocks * cut_.image_blocks * cut_.row_blocks, 1,
                 [this](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) task(i);
                 });
  }

 private:
  void pack_filter() {
    group_size_ = packed_size<T>(filter_.rows(), filter_.results);
    packed_ = static_cast<T*>(scratch(kShared, groups_ * group_size_ * sizeof(T)));
    const int64_t taps = filter_.kh * filter_.kw;
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, filter_.sources * filter_.results));
    parallel_for(groups_ * taps, grain, [this, taps](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / taps, tap = i % taps;
        const T* from = filter_.data + group * filter_.group_stride + tap / filter_.kw * filter_.kh_stride +
                        tap % filter_.kw * filter_.kw_stride;
        pack(from, filter_.source_stride, filter_.result_stride, filter_.sources, filter_.results,
             packed_ + group * group_size_ + tap * filter_.sources * kTileColumns<T>,
             filter_.rows() * kTileColumns<T>);
      }
    });
  }

  void task(int64_t index) const {
    const int64_t row0 = index % cut_.row_blocks * cut_.rows;
    index /= cut_.row_blocks;
    const int64_t image0 = index % cut_.image_blocks * cut_.images;
    index /= cut_.image_blocks;
    const int64_t column0 = index % cut_.column_blocks * cut_.columns, group = index / cut_.column_blocks;
    const int64_t images = std::min(cut_.images, result_.n - image0);
    const int64_t columns = std::min(cut_.columns, filter_.results - column0);

    const Right<T> all = packed_panels<T>(packed_ + group * group_size_, filter_.rows(), filter_.results);
    const Right<T> right{all.data + column0 / kTileColumns<T> * all.panel, all.row, all.panel, columns, true};
    const T* bias = bias_ ? bias_ + group * filter_.results + column0 : nullptr;
    const T* source = source_.data + image0 * source_.n_stride + group * filter_.sources * source_.c_stride;
    T* result = result_.data + image0 * result_.n_stride + group * filter_.results + column0;
    const int registers = columns > kRegisterLanes<T> ? 2 : 1;

    for (const Region& region : regions_) {
      const Run &h = *region.h, &w = *region.w;
      const int64_t i0 = h.index_from(row0), i1 = h.index_from(row0 + cut_.rows);
      if (i0 == i1) continue;
      Rows<T> rows = arrange<T>(
          source + i0 * h.source_step * source_.h_stride,
          result + (h.first + i0 * h.step) * result_.h_stride + w.first * result_.w_stride,
          {images, source_.n_stride, result_.n_stride},
          {i1 - i0, h.source_step * source_.h_stride, h.step * result_.h_stride},
          {w.count, w.source_step * source_.w_stride, w.step * result_.w_stride}, registers);
      const Steps& steps = region.steps;
      if (steps.count() == 0) multiply<T>(rows, nullptr, nullptr, right, true, bias);
      for (int64_t g = 0; g < steps.count(); ++g) {
        rows.cold_steps = g == 0 ? filter_.sources : 0;  // the last tap's: those before read what tiles before read
        multiply(rows, steps.begin(g), steps.end(g), right, g == 0, g + 1 == steps.count() ? bias : nullptr);
      }
    }
  }

  Images<const T> source_;
  Images<T> result_;
  Filter<T> filter_;
  int64_t groups_;
  const T* bias_;
  Cut cut_;
  std::vector<Region> regions_;
  T* packed_ = nullptr;
  int64_t group_size_ = 0;
};

}  // namespace

template <class T>
void convolve(const Images<const T>& source, const std::vector<Run>& h_runs, const std::vector<Run>& w_runs,
              const Filter<T>& filter, int64_t groups, const T* bias, const Images<T>& result) {
  if (result.n * result.h * result.w * result.c == 0) return;
  Convolution<T>(source, h_runs, w_runs, filter, groups, bias, result).run();
}

template void convolve<float>(const Images<const float>&, const std::vector<Run>&, const std::vector<Run>&,
                              const Filter<float>&, int64_t, const float*, const Images<float>&);
template void convolve<double>(const Images<const double>&, const std::vector<Run>&, const std::vector<Run>&,
                               const Filter<double>&, int64_t, const double*, const Images<double>&);

}  // namespace needle
