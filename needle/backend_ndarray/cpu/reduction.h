// What reductions share: how elements are combined, and the axes that are reduced and kept.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "functors.h"
#include "kernels.h"
#include "strides.h"

namespace needle {

template <class T>
struct Sum {
  using Element = T;
  using Accumulator = double;
  static constexpr bool kIsExtreme = false;
  static constexpr double kStart = 0;
  template <class V>
  static NEEDLE_INLINE V combine(V a, V b) {
    return a + b;
  }
};

template <class T, class F, bool largest>
struct Extreme {
  using Element = T;
  using Accumulator = T;
  static constexpr bool kIsExtreme = true;
  static constexpr T kStart = largest ? -kInfinity<T> : kInfinity<T>;
  static NEEDLE_INLINE Vec<T> combine(Vec<T> a, Vec<T> b) { return F()(a, b); }
  static NEEDLE_INLINE T combine(T a, T b) { return (largest ? a >= b : a <= b) || a != a ? a : b; }
  // One instruction, that takes no notice of a NaN in b.
  static NEEDLE_INLINE Vec<T> combine_number(Vec<T> a, Vec<T> b) { return select(largest ? b > a : b < a, b, a); }
};
template <class T>
using Max = Extreme<T, Maximum, true>;
template <class T>
using Min = Extreme<T, Minimum, false>;

// The axes of a reduction: of the reduced ones and of the kept ones each, ordered and merged as far as they can be.
struct Axis {
  int64_t length, stride, out_stride;
};
struct Plan {
  std::vector<Axis> reduced, kept;  // the largest stride first
  int64_t count = 1, outputs = 1;   // elements for each output; outputs
};

inline void simplify(std::vector<Axis>& axes) {
  axes.erase(std::remove_if(axes.begin(), axes.end(), [](const Axis& a) { return a.length == 1; }), axes.end());
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::llabs(a.stride) > std::llabs(b.stride); });
  for (size_t i = 1; i < axes.size();) {
    Axis &outer = axes[i - 1], &inner = axes[i];
    if (outer.stride == inner.stride * inner.length && outer.out_stride == inner.out_stride * inner.length) {
      inner.length *= outer.length;
      axes.erase(axes.begin() + (i - 1));
    } else {
      ++i;
    }
  }
  if (axes.empty()) axes.push_back({1, 0, 0});
}

inline Plan make_plan(const View& a, const Axes& axes, const View& out) {
  Plan plan;
  for (int d = 0; d < a.ndim; ++d) {
    bool is_reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    (is_reduced ? plan.reduced : plan.kept).push_back({a.shape[d], a.strides[d], is_reduced ? 0 : out.strides[d]});
    (is_reduced ? plan.count : plan.outputs) *= a.shape[d];
  }
  simplify(plan.reduced);
  simplify(plan.kept);
  return plan;
}

// body(offset in a, offset in out) for the begin-th to the end-th index of all axes but the last `without`.
template <class Body>
void for_each_offset(const std::vector<Axis>& axes, int without, int64_t begin, int64_t end, Body body) {
  int64_t shape[kMaxDims], strides[kMaxDims], out_strides[kMaxDims];
  int ndim = static_cast<int>(axes.size()) - without;
  for (int d = 0; d < ndim; ++d) shape[d] = axes[d].length, strides[d] = axes[d].stride, out_strides[d] = axes[d].out_stride;
  const int64_t* const both[] = {strides, out_strides};
  for_each_index(ndim, shape, both, begin, end, [&](const int64_t* offsets) { body(offsets[0], offsets[1]); });
}

// body(p, n) for groups of at most 256 elements, side by side at p, of a row of `length` elements that are `stride` apart.
template <class T, class Body>
NEEDLE_INLINE void for_each_group(const T* p, int64_t stride, int64_t length, Body body) {
  constexpr int64_t kGroup = 256;
  for (int64_t begin = 0; begin < length; begin += kGroup) {
    int64_t n = std::min(kGroup, length - begin);
    const T* group = p + begin * stride;
    T gathered[kGroup];
    if (stride != 1) {
      for (int64_t i = 0; i < n; ++i) gathered[i] = group[i * stride];
      group = gathered;
    }
    body(group, n);
  }
}

// Combine a row that holds no NaN into `lanes`; false, and nothing done, if it may hold one: if its sum is NaN.
template <class Op>
NEEDLE_INLINE bool reduce_numbers(const typename Op::Element* p, int64_t stride, int64_t length,
                                  Vec<typename Op::Element>& lanes) {
  using V = Vec<typename Op::Element>;
  V extreme = lanes, sum(0);
  for_each_group(p, stride, length, [&](const auto* group, int64_t n) NEEDLE_INLINE_LAMBDA {
    V of_group(Op::kStart);
    auto combine = [&](V x) NEEDLE_INLINE_LAMBDA {
      of_group = Op::combine_number(of_group, x);
      sum += x;
    };
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) combine(load(group + i));
    if (i < n) combine(load_first(group + i, n - i, group[0]));
    extreme = Op::combine_number(extreme, of_group);
  });
  auto total = join_sum(sum);
  if (total != total) return false;
  lanes = extreme;
  return true;
}

// Combine a row into `lanes`.
template <class Op>
NEEDLE_INLINE void reduce_row(const typename Op::Element* p, int64_t stride, int64_t length,
                              Vec<typename Op::Accumulator>& lanes) {
  using A = typename Op::Accumulator;
  if constexpr (Op::kIsExtreme)
    if (reduce_numbers<Op>(p, stride, length, lanes)) return;
  for_each_group(p, stride, length, [&](const auto* group, int64_t n) NEEDLE_INLINE_LAMBDA {
    Vec<A> of_group(Op::kStart);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) of_group = Op::combine(of_group, load_as<A>(group + i));
    if (i < n) {
      typename Op::Element rest = Op::kStart;
      of_group = Op::combine(of_group, convert<A>(load_first(group + i, n - i, rest)));
    }
    lanes = Op::combine(lanes, of_group);
  });
}

// The kept elements in blocks of at most `width` along their last axis.
class ColumnBlocks {
 public:
  ColumnBlocks(const Plan& plan, int64_t width)
      : length_(plan.kept.back().length), width_(width), in_last_((length_ + width - 1) / width), axes_(plan.kept) {
    Axis& last = axes_.back();
    last = {in_last_, last.stride * width, last.out_stride * width};
    count = in_last_ * (plan.outputs / length_);
  }

  // body(block, its number of columns, its offsets in a and in out)
  template <class Body>
  void for_each(int64_t block, int64_t end, Body body) const {
    for_each_offset(axes_, 0, block, end, [&](int64_t from, int64_t to) {
      body(block, std::min(width_, length_ - block % in_last_ * width_), from, to);
      ++block;
    });
  }

  int64_t count;

 private:
  int64_t length_, width_, in_last_;
  std::vector<Axis> axes_;
};

// Whether 16 lanes had better be taken from kept elements, which lie side by side.
inline bool keeps_columns(const Plan& plan) {
  const Axis &kept = plan.kept.back(), &reduced = plan.reduced.back();
  return kept.stride == 1 && kept.length >= 8 && reduced.stride != 1;
}

}  // namespace needle
