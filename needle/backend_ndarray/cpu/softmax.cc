// softmax and its logarithm along one axis. The maximum is subtracted first; sums are taken in double.
#include "softmax.h"

namespace needle {

namespace {

template <class T, bool logarithm>
void softmax_row(const T* p, T* out, int64_t n) {
  Vec<T> largest = largest_of(p, n);
  Vec<double> sums(0);
  for_each_shifted(p, n, largest, [&](Vec<T> shifted, int64_t i, int64_t count) NEEDLE_INLINE_LAMBDA {
    Vec<T> e = exp(shifted);
    sums += convert<double>(e);
    if (!logarithm) store_some(out + i, e, count);
  });
  double total = join_sum(sums);
  if (logarithm) {
    Vec<T> log_total = static_cast<T>(log(Vec<double>(total))[0]);
    for_each_shifted(p, n, largest, [&](Vec<T> shifted, int64_t i, int64_t count) NEEDLE_INLINE_LAMBDA {
      store_some(out + i, shifted - log_total, count);
    });
  } else {
    Vec<T> factor = static_cast<T>(1 / total);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(out + i, load(out + i) * factor);
    if (i < n) store_first(out + i, load_first(out + i, n - i, T(0)) * factor, n - i);
  }
}

constexpr int64_t kColumns = 256;

// `columns` columns side by side, each along an axis.
template <class T, bool logarithm>
void softmax_columns(const T* p, T* out, int64_t columns, const Axis& axis, int64_t out_stride) {
  T largest[kColumns], terms[kColumns];  // terms: log(sum) to subtract, or 1 / sum to multiply with
  double sums[kColumns] = {};
  auto read = [&](const auto* from, int64_t c) NEEDLE_INLINE_LAMBDA {
    using E = std::remove_cv_t<std::remove_reference_t<decltype(*from)>>;
    return c + kLanes <= columns ? load(from + c) : load_first(from + c, columns - c, E(0));
  };
  auto write = [&](auto* to, int64_t c, auto v) NEEDLE_INLINE_LAMBDA {
    if (c + kLanes <= columns) store(to + c, v);
    else store_first(to + c, v, columns - c);
  };
  auto for_each_vector = [&](auto body) NEEDLE_INLINE_LAMBDA {
    for (int64_t i = 0; i < axis.length; ++i)
      for (int64_t c = 0; c < columns; c += kLanes) body(read(p + i * axis.stride, c), c, out + i * out_stride);
  };
  std::fill_n(largest, columns, Max<T>::kStart);
  for_each_vector([&](Vec<T> x, int64_t c, T*) NEEDLE_INLINE_LAMBDA {
    write(largest, c, Maximum()(read(largest, c), x));
  });
  for_each_vector([&](Vec<T> x, int64_t c, T* to) NEEDLE_INLINE_LAMBDA {
    Vec<T> e = exp(x - read(largest, c));
    write(sums, c, read(sums, c) + convert<double>(e));
    if (!logarithm) write(to, c, e);
  });
  for (int64_t c = 0; c < columns; c += kLanes) {
    Vec<double> total = read(sums, c);
    write(terms, c, convert<T>(logarithm ? log(total) : 1.0 / total));
  }
  for_each_vector([&](Vec<T> x, int64_t c, T* to) NEEDLE_INLINE_LAMBDA {
    write(to, c, logarithm ? x - read(largest, c) - read(terms, c) : read(to, c) * read(terms, c));
  });
}

template <class T, bool logarithm>
void run_softmax(const View& a, int axis_number, const View& out) {
  Plan plan = make_plan(a, {axis_number}, out);
  if (plan.outputs == 0 || plan.count == 0) return;
  const Axis& axis = plan.reduced.back();
  const T* p = a.as<T>();
  T* q = out.as<T>();
  int64_t out_stride = out.strides[axis_number];

  if (keeps_columns(plan) && plan.kept.back().out_stride == 1) {
    ColumnBlocks blocks(plan, kColumns);
    int64_t grain = std::max<int64_t>(1, kSoftmaxGrain / (plan.count * kColumns));
    parallel_for(blocks.count, grain, [&](int64_t begin, int64_t end) {
      blocks.for_each(begin, end, [&](int64_t, int64_t columns, int64_t from, int64_t to) {
        softmax_columns<T, logarithm>(p + from, q + to, columns, axis, out_stride);
      });
    });
    return;
  }
  bool plain = axis.length == 1 || (axis.stride == 1 && out_stride == 1);
  int64_t grain = std::max<int64_t>(1, kSoftmaxGrain / plan.count);
  parallel_for(plan.outputs, grain, [&](int64_t begin, int64_t end) {
    T* row = plain ? nullptr : static_cast<T*>(scratch(5, axis.length * sizeof(T)));
    for_each_offset(plan.kept, 0, begin, end, [&](int64_t from, int64_t to) {
      if (plain) return softmax_row<T, logarithm>(p + from, q + to, axis.length);
      for (int64_t i = 0; i < axis.length; ++i) row[i] = p[from + i * axis.stride];
      softmax_row<T, logarithm>(row, row, axis.length);
      for (int64_t i = 0; i < axis.length; ++i) q[to + i * out_stride] = row[i];
    });
  });
}

}  // namespace

void softmax(const View& a, int axis, const View& out) {
  (a.dtype == DType::float32 ? run_softmax<float, false> : run_softmax<double, false>)(a, axis, out);
}

void log_softmax(const View& a, int axis, const View& out) {
  (a.dtype == DType::float32 ? run_softmax<float, true> : run_softmax<double, true>)(a, axis, out);
}

}  // namespace needle
