// The forward pass and the input gradient: tiles of pixels against panels of the filter. A region is a rectangle of
// result pixels whose windows hold the same taps, so nothing is padded and no tap on the padding is computed.
#include <algorithm>
#include <array>

#include "conv.h"
#include "parallel.h"

namespace needle {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A loop over pixels: how many, and how far apart in source and result.
struct Loop {
  int64_t count, source, result;
};

struct Region {
  const Run *h, *w;
  Steps steps;
};

template <class T>
Region make_region(const Run& h, const Run& w, const Images<const T>& source, const Filter<T>& filter) {
  Region region{&h, &w, {}};
  for (const Tap& i : h.taps)
    for (const Tap& j : w.taps) {
      const int64_t row = (i.k * filter.kw + j.k) * filter.sources;
      region.steps.append(row, filter.sources, i.at * source.h_stride + j.at * source.w_stride, source.c_stride, row);
    }
  return region;
}

// Joins loops where one goes on where the other ends, and puts the one that makes the tallest tiles last.
template <class T>
std::array<Loop, 3> arrange(std::array<Loop, 3> loops) {
  for (int outer = 1; outer >= 0; --outer)
    for (int inner = outer + 1; inner < 3; ++inner) {
      Loop &o = loops[outer], &i = loops[inner];
      if (o.count > 1 && o.source == i.source * i.count && o.result == i.result * i.count) {
        i.count *= o.count;
        o.count = 1;
      }
    }
  const auto height = [](const Loop& loop) {
    const int64_t most = tile_rows<T>(loop.source);
    return static_cast<double>(loop.count) / ceil_div(loop.count, most);
  };
  constexpr double kTallEnough = 6;
  int rows = 2;
  for (int i = 1; i >= 0 && height(loops[rows]) < std::min<double>(kTallEnough, kTileRows); --i)
    if (height(loops[i]) > height(loops[rows])) rows = i;
  std::swap(loops[rows], loops[2]);
  return loops;
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
  c.row_blocks = ceil_div(result.h, c.rows);
  return c;
}

template <class T>
class Convolution {
 public:
  Convolution(const Images<const T>& source, const std::vector<Run>& h_runs, const std::vector<Run>& w_runs,
              const Filter<T>& filter, int64_t groups, const T* bias, const Images<T>& result)
      : source_(source), result_(result), filter_(filter), groups_(groups), bias_(bias),
        cut_(cut(source, result, filter, groups)) {
    for (const Run& h : h_runs)
      for (const Run& w : w_runs) regions_.push_back(make_region(h, w, source, filter));
  }

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

    for (const Region& region : regions_) {
      const Run &h = *region.h, &w = *region.w;
      // The part of the run that lies in rows [row0, row0 + rows).
      const int64_t i0 = std::min(h.count, std::max<int64_t>(0, ceil_div(row0 - h.first, h.step)));
      const int64_t i1 = std::max(i0, std::min(h.count, ceil_div(row0 + cut_.rows - h.first, h.step)));
      if (i0 == i1) continue;
      const auto loops = arrange<T>({{{images, source_.n_stride, result_.n_stride},
                                      {i1 - i0, h.source_step * source_.h_stride, h.step * result_.h_stride},
                                      {w.count, w.source_step * source_.w_stride, w.step * result_.w_stride}}});
      compute(loops, region.steps, right, bias, source + i0 * h.source_step * source_.h_stride,
              result + (h.first + i0 * h.step) * result_.h_stride + w.first * result_.w_stride);
    }
  }

  void compute(const std::array<Loop, 3>& loops, const Steps& steps, const Right<T>& right, const T* bias,
               const T* source, T* result) const {
    const int64_t groups = std::max<int64_t>(1, steps.count());
    for (int64_t g = 0; g < groups; ++g) {
      const Step* begin = steps.count() ? steps.begin(g) : nullptr;
      const Step* end = steps.count() ? steps.end(g) : nullptr;
      for (int64_t panel = 0; panel * kTileColumns<T> < right.columns; ++panel) {
        const int64_t column = panel * kTileColumns<T>;
        const Right<T> one{right.data + panel * right.panel, right.row, right.panel,
                           std::min<int64_t>(kTileColumns<T>, right.columns - column), true};
        for (int64_t i = 0; i < loops[0].count; ++i)
          for (int64_t j = 0; j < loops[1].count; ++j) {
            const Rows<T> rows{source + i * loops[0].source + j * loops[1].source, loops[2].source,
                               result + i * loops[0].result + j * loops[1].result + column, loops[2].result,
                               loops[2].count};
            multiply(rows, begin, end, one, g == 0, bias && g + 1 == groups ? bias + column : nullptr);
          }
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
