// Along one axis: the position of the first maximum, and running sums.
#include "parallel.h"
#include "reduction.h"

namespace needle {

namespace {

constexpr int64_t kColumns = 256, kGrainElements = 1 << 15;

int64_t grain(int64_t elements_each) { return std::max<int64_t>(1, kGrainElements / elements_each); }

// Where `wanted`, which may be NaN, stands first.
template <class T>
int64_t first_of(const T* p, int64_t stride, int64_t length, T wanted) {
  auto is_wanted = [=](T x) { return (x == wanted) | ((x != x) & (wanted != wanted)); };
  constexpr int64_t kStretch = 64;
  int64_t i = 0;
  for (bool found = false; stride == 1 && i + kStretch <= length; i += kStretch) {
    for (int64_t j = 0; j < kStretch; ++j) found |= is_wanted(p[i + j]);
    if (found) break;
  }
  while (i < length && !is_wanted(p[i * stride])) ++i;
  return i;
}

template <class T>
void argmax_rows(const View& a, const Plan& plan, const View& out) {
  const Axis& axis = plan.reduced.back();
  parallel_for(plan.outputs, grain(plan.count), [&](int64_t begin, int64_t end) {
    for_each_offset(plan.kept, 0, begin, end, [&](int64_t from, int64_t to) {
      const T* p = a.as<T>() + from;
      Vec<T> lanes(Max<T>::kStart);
      reduce_row<Max<T>>(p, axis.stride, axis.length, lanes);
      T largest = join(lanes, [](T x, T y) { return Max<T>::combine(x, y); });
      out.as<int64_t>()[to] = first_of(p, axis.stride, axis.length, largest);
    });
  });
}

template <class T>
void argmax_columns(const View& a, const Plan& plan, const View& out) {
  const Axis& axis = plan.reduced.back();
  ColumnBlocks blocks(plan, kColumns);
  parallel_for(blocks.count, grain(plan.count * kColumns), [&](int64_t begin, int64_t end) {
    blocks.for_each(begin, end, [&](int64_t, int64_t columns, int64_t from, int64_t to) {
      const T* p = a.as<T>() + from;
      T largest[kColumns];
      int64_t position[kColumns] = {};
      std::copy_n(p, columns, largest);
      for (int64_t i = 1; i < axis.length; ++i) {
        p += axis.stride;
        for (int64_t column = 0; column < columns; ++column) {
          T x = p[column], best = largest[column];
          bool better = (x > best) | ((x != x) & (best == best));
          largest[column] = better ? x : best;
          position[column] = better ? i : position[column];
        }
      }
      for (int64_t column = 0; column < columns; ++column)
        out.as<int64_t>()[to + column * plan.kept.back().out_stride] = position[column];
    });
  });
}

template <class T>
void cumsum_rows(const View& a, const Plan& plan, const View& out, int64_t out_stride) {
  const Axis& axis = plan.reduced.back();
  parallel_for(plan.outputs, grain(plan.count), [&](int64_t begin, int64_t end) {
    for_each_offset(plan.kept, 0, begin, end, [&](int64_t from, int64_t to) {
      double sum = 0;
      for (int64_t i = 0; i < axis.length; ++i) {
        sum += a.as<T>()[from + i * axis.stride];
        out.as<T>()[to + i * out_stride] = static_cast<T>(sum);
      }
    });
  });
}

template <class T>
void cumsum_columns(const View& a, const Plan& plan, const View& out, int64_t out_stride) {
  const Axis& axis = plan.reduced.back();
  ColumnBlocks blocks(plan, kColumns);
  parallel_for(blocks.count, grain(plan.count * kColumns), [&](int64_t begin, int64_t end) {
    blocks.for_each(begin, end, [&](int64_t, int64_t columns, int64_t from, int64_t to) {
      const T* __restrict p = a.as<T>() + from;
      T* __restrict q = out.as<T>() + to;
      double sums[kColumns] = {};
      for (int64_t i = 0; i < axis.length; ++i, p += axis.stride, q += out_stride)
        for (int64_t column = 0; column < columns; ++column) {
          sums[column] += p[column];
          q[column] = static_cast<T>(sums[column]);
        }
    });
  });
}

template <class T>
void argmax_of(const View& a, int axis, const View& out) {
  Plan plan = make_plan(a, {axis}, out);
  if (plan.outputs == 0 || plan.count == 0) return;
  (keeps_columns(plan) ? argmax_columns<T> : argmax_rows<T>)(a, plan, out);
}

template <class T>
void cumsum_of(const View& a, int axis, const View& out) {
  Plan plan = make_plan(a, {axis}, out);
  if (plan.outputs == 0 || plan.count == 0) return;
  bool columns = keeps_columns(plan) && plan.kept.back().out_stride == 1;
  (columns ? cumsum_columns<T> : cumsum_rows<T>)(a, plan, out, out.strides[axis]);
}

}  // namespace

void argmax(const View& a, int axis, const View& out) {
  (a.dtype == DType::float32 ? argmax_of<float> : argmax_of<double>)(a, axis, out);
}

void cumsum(const View& a, int axis, const View& out) {
  (a.dtype == DType::float32 ? cumsum_of<float> : cumsum_of<double>)(a, axis, out);
}

}  // namespace needle
