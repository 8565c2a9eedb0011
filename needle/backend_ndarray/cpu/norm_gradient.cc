// The gradients of a normalisation: of out = (x - mean) * inv_std * weight + bias. With g = d * weight,
//   to x = (g - mean of g - (x - mean) * inv_std^2 * mean of g * (x - mean)) * inv_std.
#include "norm.h"

namespace needle {
namespace {

template <class T>
struct Known {  // by number
  std::vector<T> mean, inv_std, weight;
  std::vector<double> to_weight, to_bias;
};

// The gradient that comes in: all of it, or what ReLU lets through, where y is what it gave.
template <class T>
struct Plain {
  const T* d;
  Plain from(int64_t i) const { return {d + i}; }
  T operator[](int64_t i) const { return d[i]; }
  template <class To, class Lanes>
  NEEDLE_INLINE Vec<To> load(Lanes lanes, int64_t i) const {
    return lanes.template load<To>(d + i);
  }
};
template <class T>
struct Rectified {
  const T *d, *y;
  Rectified from(int64_t i) const { return {d + i, y + i}; }
  T operator[](int64_t i) const {
    const T value = d[i];  // read in any case: so the loop has no branch
    return y[i] <= 0 ? T(0) : value;
  }
  template <class To, class Lanes>
  NEEDLE_INLINE Vec<To> load(Lanes lanes, int64_t i) const {
    const Vec<T> zero(T(0));
    return convert<To>(select(lanes.template load<T>(y + i) <= zero, zero, lanes.template load<T>(d + i)));
  }
};

struct Sums {
  double d, products;  // of d and of d * (x - mean)
};

template <class D, class T>
Sums row_sums(const D& d, const T* x, int64_t n, double mean) {
  const int64_t whole = n / kLanes * kLanes;
  Vec<double> plain(0.0), products(0.0);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Vec<double> of_d = d.template load<double>(AllLanes{}, i);
    plain += of_d;
    products += of_d * (load_as<double>(x + i) - mean);
  }
  Sums sums{join_sum(plain), join_sum(products)};
  for (int64_t i = whole; i < n; ++i) {
    sums.d += double(d[i]);
    sums.products += double(d[i]) * (double(x[i]) - mean);
  }
  return sums;
}

template <class D, class T>
void column_sums(const NormLayout& layout, const D& d, const T* x, int64_t n, const double* means, double* sum,
                 double* products, double* room) {
  const int64_t wide = layout.columns * layout.fold;
  double *wide_sum = room, *wide_products = room + folded_room(layout);
  std::fill(room, room + 2 * folded_room(layout), 0.0);
  for_tiles(layout, n, [&](auto width, auto lanes, int64_t c, int64_t at, int64_t rows) {
    constexpr int W = decltype(width)::value;
    Vec<double> total[W], product[W], mean[W];
    unroll<W>([&](int w) {
      const int64_t k = c + w * kLanes;
      total[w] = load(wide_sum + k), product[w] = load(wide_products + k), mean[w] = load(means + k);
    });
    for (int64_t r = 0; r < rows; ++r, at += wide)
      unroll<W>([&](int w) {
        const Vec<double> of_d = d.template load<double>(lanes, at + w * kLanes);
        total[w] += of_d;
        product[w] += of_d * (lanes.template load<double>(x + at + w * kLanes) - mean[w]);
      });
    unroll<W>([&](int w) {
      lanes.store(wide_sum + c + w * kLanes, total[w]);
      lanes.store(wide_products + c + w * kLanes, product[w]);
    });
  });
  unfold(layout, wide_sum, sum);
  unfold(layout, wide_products, products);
}

// What the gradient with respect to x takes off d * weight, by statistic: shift + (x - mean) * slope.
template <class T>
struct Taken {
  std::vector<T> shift, slope;
};

template <class T, class D>
Taken<T> measure(const NormLayout& layout, const D& d, const T* x, Known<T>& known) {
  const int64_t partial_count = layout.outer * layout.pieces, columns = layout.columns, room = folded_room(layout);
  double* partial = scratch_of<double>(0, partial_count * columns * 2);  // of each piece: sums, then products
  parallel_for(partial_count, layout.piece_grain(), [&](int64_t begin, int64_t end) {
    double *means = scratch_of<double>(1, 3 * room), *own = means + room;
    for (int64_t i = begin; i < end; ++i) {
      const auto piece = layout.piece(i);
      const T* mean = known.mean.data() + layout.outer_statistic[piece.outer];
      double* sum = partial + i * columns * 2;
      if (columns > 1) {
        fill_folded(layout, means, [&](int64_t c) { return double(mean[c]); });
        column_sums(layout, d.from(piece.first), x + piece.first, piece.rows, means, sum, sum + columns, own);
      } else {
        const Sums sums = row_sums(d.from(piece.first), x + piece.first, piece.rows, double(*mean));
        sum[0] = sums.d, sum[1] = sums.products;
      }
    }
  });
  std::vector<double> sum(layout.statistics, 0.0), products(layout.statistics, 0.0);
  for (int64_t i = 0; i < partial_count; ++i) {
    const int64_t block = layout.piece(i).outer;
    const double *of_d = partial + i * columns * 2, *of_products = of_d + columns;
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t s = layout.outer_statistic[block] + c;
      const int64_t p = layout.outer_parameter[block] + layout.column_parameter[c];
      sum[s] += double(known.weight[p]) * of_d[c];
      products[s] += double(known.weight[p]) * of_products[c];
      known.to_bias[p] += of_d[c];
      known.to_weight[p] += double(known.inv_std[s]) * of_products[c];
    }
  }
  Taken<T> taken;
  for (int64_t s = 0; s < layout.statistics; ++s) {
    const double inv_std = double(known.inv_std[s]);
    taken.shift.push_back(T(sum[s] / double(layout.count)));
    taken.slope.push_back(T(products[s] / double(layout.count) * inv_std * inv_std));
  }
  return taken;
}

template <class T, class D>
void blocks_gradient(const NormLayout& layout, const D& d, const T* x, T* out, Known<T>& known) {
  const Taken<T> taken = measure(layout, d, x, known);
  const int64_t wide = layout.columns * layout.fold, room = folded_room(layout);
  parallel_for(layout.outer * layout.pieces, layout.piece_grain(), [&](int64_t begin, int64_t end) {
    T *weights = scratch_of<T>(1, 5 * room), *shifts = weights + room, *means = shifts + room;
    T *slopes = means + room, *inv_stds = slopes + room;
    int64_t filled = -1;  // the outer index that these are of
    for (int64_t i = begin; i < end; ++i) {
      const auto piece = layout.piece(i);
      const D of_d = d.from(piece.first);
      const T* of_x = x + piece.first;
      T* to = out + piece.first;
      const int64_t s = layout.outer_statistic[piece.outer], p = layout.outer_parameter[piece.outer];
      if (layout.columns == 1) {
        const T weight = known.weight[p], shift = taken.shift[s], mean = known.mean[s];
        const T slope = taken.slope[s], inv_std = known.inv_std[s];
        for (int64_t r = 0; r < piece.rows; ++r)
          to[r] = (of_d[r] * weight - shift - (of_x[r] - mean) * slope) * inv_std;
        continue;
      }
      if (filled != piece.outer) {
        fill_folded(layout, weights, [&](int64_t c) { return known.weight[p + layout.column_parameter[c]]; });
        fill_folded(layout, shifts, [&](int64_t c) { return taken.shift[s + c]; });
        fill_folded(layout, means, [&](int64_t c) { return known.mean[s + c]; });
        fill_folded(layout, slopes, [&](int64_t c) { return taken.slope[s + c]; });
        fill_folded(layout, inv_stds, [&](int64_t c) { return known.inv_std[s + c]; });
        filled = piece.outer;
      }
      for_tiles(layout, piece.rows, [&](auto width, auto lanes, int64_t c, int64_t at, int64_t rows) {
        constexpr int W = decltype(width)::value;
        Vec<T> weight[W], shift[W], mean[W], slope[W], inv_std[W];
        unroll<W>([&](int w) {
          const int64_t k = c + w * kLanes;
          weight[w] = load(weights + k), shift[w] = load(shifts + k), mean[w] = load(means + k);
          slope[w] = load(slopes + k), inv_std[w] = load(inv_stds + k);
        });
        for (int64_t r = 0; r < rows; ++r, at += wide)
          unroll<W>([&](int w) {
            const int64_t k = at + w * kLanes;
            const Vec<T> g = of_d.template load<T>(lanes, k) * weight[w] - shift[w];
            lanes.store(to + k, (g - (lanes.template load<T>(of_x + k) - mean[w]) * slope[w]) * inv_std[w]);
          });
      });
    }
  });
}

// Layer norm: x's gradient of a row at once, the parameters' over groups of rows, joined in order.
template <class T, class D>
void rows_gradient(const NormLayout& layout, const D& d, const T* x, T* out, Known<T>& known) {
  const int64_t n = layout.columns, group = std::max<int64_t>(16, 8192 / n);
  const int64_t groups = (layout.outer + group - 1) / group;
  std::vector<T> weights(n);
  for (int64_t c = 0; c < n; ++c) weights[c] = known.weight[layout.column_parameter[c]];
  double* partial = scratch_of<double>(0, groups * n * 2);  // of each group: to_weight, then to_bias
  parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
    T* scaled = scratch_of<T>(1, n);  // d * weight
    for (int64_t i = begin; i < end; ++i) {
      double *to_weight = partial + i * n * 2, *to_bias = to_weight + n;
      std::fill(to_weight, to_weight + 2 * n, 0.0);
      for (int64_t row = i * group; row < std::min(layout.outer, (i + 1) * group); ++row) {
        const D of_d = d.from(row * n);
        const T mean = known.mean[row], inv_std = known.inv_std[row];
        for_vectors(n, [&](auto lanes, int64_t c) __attribute__((always_inline)) {
          lanes.store(scaled + c, of_d.template load<T>(lanes, c) * lanes.template load<T>(weights.data() + c));
        });
        const Sums sums = row_sums(Plain<T>{scaled}, x + row * n, n, double(mean));
        const T shift = T(sums.d / double(n));
        const T slope = T(sums.products / double(n) * double(inv_std) * double(inv_std));
        for_vectors(n, [&](auto lanes, int64_t c) __attribute__((always_inline)) {
          const Vec<T> distance = lanes.template load<T>(x + row * n + c) - mean, g = of_d.template load<T>(lanes, c);
          const Vec<T> left = lanes.template load<T>(scaled + c) - shift - distance * slope;
          lanes.store(out + row * n + c, left * inv_std);
          const auto add = [&](double* sum, Vec<T> v) __attribute__((always_inline)) {
            lanes.store(sum, lanes.template load<double>(sum) + convert<double>(v));
          };
          add(to_weight + c, g * (distance * inv_std));
          add(to_bias + c, g);
        });
      }
    }
  });
  for (int64_t i = 0; i < groups; ++i)
    for (int64_t c = 0; c < n; ++c) {
      known.to_weight[layout.column_parameter[c]] += partial[i * n * 2 + c];
      known.to_bias[layout.column_parameter[c]] += partial[i * n * 2 + n + c];
    }
}

template <class T>
void gradient_as(const View& d, const View& x, const View* y, const View* weight, const View& mean, const View& inv_std,
                 const Axes& axes, const View& out, const View* out_weight, const View* out_bias) {
  const NormLayout layout(x, axes, weight, nullptr);
  const Order& order = layout.order;
  const Staged of_d = stage_dense(d, order), of_x = stage_dense(x, order), to = stage_dense(out, order, false);
  Known<T> known;
  known.mean = layout.read_statistics<T>(mean);
  known.inv_std = layout.read_statistics<T>(inv_std);
  known.weight = layout.read_parameters(weight, T(1));
  known.to_weight.resize(layout.parameters);
  known.to_bias.resize(layout.parameters);
  const auto run = [&](const auto& incoming) {
    using D = std::decay_t<decltype(incoming)>;
    const auto gradient = layout.whole_rows ? rows_gradient<T, D> : blocks_gradient<T, D>;
    gradient(layout, incoming, of_x.view().as<T>(), to.view().as<T>(), known);
  };
  if (y) {
    const Staged of_y = stage_dense(*y, order);
    run(Rectified<T>{of_d.view().as<T>(), of_y.view().as<T>()});
  } else {
    run(Plain<T>{of_d.view().as<T>()});
  }
  to.write_back();
  if (out_weight) layout.write_parameters<T>(known.to_weight, *out_weight);
  if (out_bias) layout.write_parameters<T>(known.to_bias, *out_bias);
}

}  // namespace

void normalize_gradient(const View& d, const View& x, const View* y, const View* weight, const View& mean,
                        const View& inv_std, const Axes& axes, const View& out, const View* out_weight,
                        const View* out_bias) {
  if (x.size() == 0) return;
  const auto run = x.dtype == DType::float32 ? gradient_as<float> : gradient_as<double>;
  run(d, x, y, weight, mean, inv_std, axes, out, out_weight, out_bias);
}

}  // namespace needle
