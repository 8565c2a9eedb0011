// Normalisation by mean and variance. The bits depend on shapes and layouts: sums are of pieces of fixed length.
#include "norm.h"

#include <cmath>
#include <limits>

#include "math.h"

namespace needle {
namespace {

// Sums are taken in float64: in float32 a constant's mean is not that constant. A piece's squares are those of the
// distances to its own mean, so that one trip through memory serves both passes (Chan et al., 1979, join them).
struct Moments {
  double sum, squares;
};

template <class T>
Moments row_moments(const T* x, int64_t n) {
  const int64_t whole = n / kLanes * kLanes;
  const auto sum_of = [&](auto term) {
    Vec<double> lanes(0.0);
    for (int64_t i = 0; i < whole; i += kLanes) lanes += term(load_as<double>(x + i));
    double sum = join_sum(lanes);
    for (int64_t i = whole; i < n; ++i) sum += term(double(x[i]));
    return sum;
  };
  const double sum = sum_of([](auto v) { return v; });
  const double mean = sum / double(n);
  return {sum, sum_of([mean](auto v) { return (v - mean) * (v - mean); })};
}

// The same for each of n rows' columns. `room` is for a folded row of sums and one of means.
template <class T>
void column_moments(const NormLayout& layout, const T* x, int64_t n, double* sum, double* squares, double* room) {
  const int64_t wide = layout.columns * layout.fold;
  double *sums = room, *means = room + folded_room(layout);
  const auto add_up = [&](auto term) {
    std::fill(sums, sums + wide, 0.0);
    for_tiles(layout, n, [&](auto width, auto lanes, int64_t c, int64_t at, int64_t rows) {
      constexpr int W = decltype(width)::value;
      Vec<double> total[W], mean[W];
      unroll<W>([&](int w) { total[w] = load(sums + c + w * kLanes), mean[w] = load(means + c + w * kLanes); });
      for (int64_t r = 0; r < rows; ++r, at += wide)
        unroll<W>([&](int w) { total[w] += term(lanes.template load<double>(x + at + w * kLanes), mean[w]); });
      unroll<W>([&](int w) { lanes.store(sums + c + w * kLanes, total[w]); });
    });
  };
  add_up([](auto v, auto) { return v; });
  unfold(layout, sums, sum);
  fill_folded(layout, means, [&](int64_t c) { return sum[c] / double(n); });
  add_up([](auto v, auto mean) { return (v - mean) * (v - mean); });
  unfold(layout, sums, squares);
}

// Everything that is known by statistic or by parameter, by number.
template <class T>
struct Known {
  std::vector<T> mean, weight, bias;
  std::vector<double> variance;
  T lowest;  // of the result: 0 where ReLU follows, else -inf
};

// As for vectors: what ReLU makes of x where `least` is 0, and x itself where it is -inf. NaN passes.
template <class T>
T at_least(T x, T least) {
  return least > x ? least : x;
}

template <class T>
T inverse_root(double variance, double eps) {
  return T(1 / std::sqrt(variance + eps));
}

// Layer norm: a row is read from memory once.
template <class T>
void normalize_rows(const NormLayout& layout, const T* x, double eps, T* out, Known<T>& known) {
  const int64_t n = layout.columns;
  std::vector<T> weights(n), biases(n);
  for (int64_t c = 0; c < n; ++c) {
    weights[c] = known.weight[layout.column_parameter[c]];
    biases[c] = known.bias[layout.column_parameter[c]];
  }
  parallel_for(layout.outer, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
    const T *__restrict weight = weights.data(), *__restrict bias = biases.data();
    const T lowest = known.lowest;
    for (int64_t i = begin; i < end; ++i) {
      const T* __restrict row = x + i * n;
      T* __restrict result = out + i * n;
      const Moments moments = row_moments(row, n);
      const T mean = known.mean[i] = T(moments.sum / double(n));
      known.variance[i] = moments.squares / double(n);
      const T inv_std = inverse_root<T>(known.variance[i], eps);
      for (int64_t c = 0; c < n; ++c)
        result[c] = at_least((row[c] - mean) * (inv_std * weight[c]) + bias[c], lowest);
    }
  });
}

template <class T>
void measure(const NormLayout& layout, const T* x, Known<T>& known) {
  const int64_t partial_count = layout.outer * layout.pieces, columns = layout.columns;
  double* partial = scratch_of<double>(0, partial_count * columns * 2);  // of each piece: sums, then squares
  parallel_for(partial_count, layout.piece_grain(), [&](int64_t begin, int64_t end) {
    double* room = scratch_of<double>(1, 2 * folded_room(layout));
    for (int64_t i = begin; i < end; ++i) {
      const auto piece = layout.piece(i);
      double* sum = partial + i * columns * 2;
      if (columns > 1) {
        column_moments(layout, x + piece.first, piece.rows, sum, sum + columns, room);
      } else {
        const Moments moments = row_moments(x + piece.first, piece.rows);
        sum[0] = moments.sum, sum[1] = moments.squares;
      }
    }
  });
  std::vector<double> mean(layout.statistics, 0.0);
  const auto for_pieces = [&](auto add) {
    for (int64_t i = 0; i < partial_count; ++i) {
      const auto piece = layout.piece(i);
      const double* sum = partial + i * columns * 2;
      const int64_t first = layout.outer_statistic[piece.outer];
      for (int64_t c = 0; c < columns; ++c) add(first + c, double(piece.rows), sum[c], sum[columns + c]);
    }
  };
  for_pieces([&](int64_t s, double, double sum, double) { mean[s] += sum; });
  for (double& m : mean) m /= double(layout.count);
  for_pieces([&](int64_t s, double n, double sum, double squares) {
    const double distance = sum / n - mean[s];
    known.variance[s] += squares + n * distance * distance;
  });
  for (int64_t s = 0; s < layout.statistics; ++s) {
    known.mean[s] = T(mean[s]);
    known.variance[s] /= double(layout.count);
  }
}

template <class T>
void normalize_blocks(const NormLayout& layout, const T* x, double eps, T* out, Known<T>& known) {
  measure(layout, x, known);
  std::vector<T> inv_std(layout.statistics);
  for (int64_t s = 0; s < layout.statistics; ++s) inv_std[s] = inverse_root<T>(known.variance[s], eps);
  const int64_t wide = layout.columns * layout.fold, room = folded_room(layout);
  parallel_for(layout.outer * layout.pieces, layout.piece_grain(), [&](int64_t begin, int64_t end) {
    T *means = scratch_of<T>(1, 3 * room), *scales = means + room, *shifts = scales + room;
    const T lowest = known.lowest;
    int64_t filled = -1;  // the outer index that these are of
    for (int64_t i = begin; i < end; ++i) {
      const auto piece = layout.piece(i);
      const T* from = x + piece.first;
      T* to = out + piece.first;
      const int64_t s = layout.outer_statistic[piece.outer], p = layout.outer_parameter[piece.outer];
      if (layout.columns == 1) {
        const T mean = known.mean[s], scale = inv_std[s] * known.weight[p], shift = known.bias[p];
        for (int64_t r = 0; r < piece.rows; ++r) to[r] = at_least((from[r] - mean) * scale + shift, lowest);
        continue;
      }
      if (filled != piece.outer) {
        const std::vector<int64_t>& q = layout.column_parameter;
        fill_folded(layout, means, [&](int64_t c) { return known.mean[s + c]; });
        fill_folded(layout, scales, [&](int64_t c) { return inv_std[s + c] * known.weight[p + q[c]]; });
        fill_folded(layout, shifts, [&](int64_t c) { return known.bias[p + q[c]]; });
        filled = piece.outer;
      }
      for_tiles(layout, piece.rows, [&](auto width, auto lanes, int64_t c, int64_t at, int64_t rows) {
        constexpr int W = decltype(width)::value;
        Vec<T> mean[W], scale[W], shift[W];
        unroll<W>([&](int w) {
          const int64_t k = c + w * kLanes;
          mean[w] = load(means + k), scale[w] = load(scales + k), shift[w] = load(shifts + k);
        });
        for (int64_t r = 0; r < rows; ++r, at += wide)
          unroll<W>([&](int w) {
            const int64_t k = at + w * kLanes;
            const Vec<T> result = (lanes.template load<T>(from + k) - mean[w]) * scale[w] + shift[w];
            lanes.store(to + k, at_least(result, lowest));
          });
      });
    }
  });
}

template <class T>
void normalize_as(const View& x, const View* weight, const View* bias, const Axes& axes, double eps, bool relu,
                  const View& out, const View& mean, const View& variance) {
  const NormLayout layout(x, axes, weight, bias);
  const Staged from = stage_dense(x, layout.order), to = stage_dense(out, layout.order, false);
  Known<T> known;
  known.mean.resize(layout.statistics);
  known.variance.resize(layout.statistics);
  known.weight = layout.read_parameters(weight, T(1));
  known.bias = layout.read_parameters(bias, T(0));
  known.lowest = relu ? T(0) : -std::numeric_limits<T>::infinity();
  const auto run = layout.whole_rows ? normalize_rows<T> : normalize_blocks<T>;
  run(layout, from.view().as<T>(), eps, to.view().as<T>(), known);
  to.write_back();
  layout.write_statistics<T>(known.mean, mean);
  layout.write_statistics<T>(known.variance, variance);
}

}  // namespace

void normalize(const View& x, const View* weight, const View* bias, const Axes& axes, double eps, bool relu,
               const View& out, const View& mean, const View& variance) {
  if (x.size() == 0) return;
  const auto run = x.dtype == DType::float32 ? normalize_as<float> : normalize_as<double>;
  run(x, weight, bias, axes, eps, relu, out, mean, variance);
}

}  // namespace needle
