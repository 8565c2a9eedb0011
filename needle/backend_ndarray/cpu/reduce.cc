// Sums, maxima and minima over axes.
//
// The order is fixed by shape and strides. Where the elements that lie side by side are reduced ("rows"), 16 lanes take
// elements j, j + 16, ...; groups of 256 elements start afresh and are combined in order, then the lanes by a fixed tree.
// Where they are kept ("columns"), each column is combined in the order of memory. Either way long reductions are cut
// into chunks of a length that the shape fixes, whose results are combined in order; chunks and outputs run in parallel.
#include "parallel.h"
#include "reduction.h"

namespace needle {

namespace {

constexpr int64_t kChunk = 1 << 16;  // elements that one task combines, about

// One output from the begin-th to the end-th element of its reduced axes; the last axis is the one that rows lie along.
template <class Op>
typename Op::Accumulator reduce_rows(const typename Op::Element* p, const Plan& plan, int64_t begin, int64_t end) {
  using A = typename Op::Accumulator;
  const Axis& last = plan.reduced.back();
  Vec<A> lanes(Op::kStart);
  if (plan.reduced.size() == 1) {
    reduce_row<Op>(p + begin * last.stride, last.stride, end - begin, lanes);
  } else {
    int64_t row = begin / last.length, end_row = (end + last.length - 1) / last.length;
    for_each_offset(plan.reduced, 1, row, end_row, [&](int64_t offset, int64_t) {
      int64_t from = std::max<int64_t>(0, begin - row * last.length), to = std::min(last.length, end - row * last.length);
      reduce_row<Op>(p + offset + from * last.stride, last.stride, to - from, lanes);
      ++row;
    });
  }
  return join(lanes, [](A a, A b) { return Op::combine(a, b); });
}

template <class Op>
void reduce_by_rows(const View& a, const Plan& plan, const View& out) {
  using T = typename Op::Element;
  using A = typename Op::Accumulator;
  const T* p = a.as<T>();
  T* result = out.as<T>();
  if (plan.count <= 2 * kChunk) {
    int64_t grain = std::max<int64_t>(1, kChunk / 2 / plan.count);
    parallel_for(plan.outputs, grain, [&](int64_t begin, int64_t end) {
      for_each_offset(plan.kept, 0, begin, end, [&](int64_t from, int64_t to) {
        result[to] = static_cast<T>(reduce_rows<Op>(p + from, plan, 0, plan.count));
      });
    });
    return;
  }
  int64_t chunks = (plan.count + kChunk - 1) / kChunk;
  A* partial = static_cast<A*>(scratch(6, chunks * sizeof(A)));
  for_each_offset(plan.kept, 0, 0, plan.outputs, [&](int64_t from, int64_t to) {
    parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        partial[i] = reduce_rows<Op>(p + from, plan, i * kChunk, std::min(plan.count, (i + 1) * kChunk));
    });
    A total = partial[0];
    for (int64_t i = 1; i < chunks; ++i) total = Op::combine(total, partial[i]);
    result[to] = static_cast<T>(total);
  });
}

constexpr int64_t kWidth = 1024;       // columns that are combined together
constexpr int64_t kVisit = 8 * kWidth;  // elements that are combined before the next columns' turn

// Combine n rows, `row_stride` apart, of `width` columns side by side, into their sums.
template <class Op>
void combine_rows(const typename Op::Element* p, int64_t row_stride, int64_t n, int64_t width,
                  typename Op::Accumulator* sums) {
  using A = typename Op::Accumulator;
  int64_t column = 0;
  for (; column + kLanes <= width; column += kLanes) {
    Vec<A> sum = load(sums + column);
    auto combine = [&](int64_t row) NEEDLE_INLINE_LAMBDA {
      sum = Op::combine(sum, load_as<A>(p + row * row_stride + column));
    };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) unroll<8>([&](int k) NEEDLE_INLINE_LAMBDA { combine(i + k); });
    for (; i < n; ++i) combine(i);
    store(sums + column, sum);
  }
  for (; column < width; ++column)
    for (int64_t i = 0; i < n; ++i) sums[column] = Op::combine(sums[column], static_cast<A>(p[i * row_stride + column]));
}

// Columns: `width` of them, `stride` apart at p, over the begin-th to the end-th index of the reduced axes, into `sums`.
template <class Op>
void reduce_columns(const typename Op::Element* p, int64_t width, int64_t stride, const Plan& plan, int64_t begin,
                    int64_t end, typename Op::Accumulator* sums) {
  using T = typename Op::Element;
  using A = typename Op::Accumulator;
  const Axis& last = plan.reduced.back();
  std::fill_n(sums, width, A(Op::kStart));
  T* gathered = stride == 1 ? nullptr : static_cast<T*>(scratch(5, kVisit * sizeof(T)));
  int64_t row = begin, end_stretch = (end + last.length - 1) / last.length;
  for_each_offset(plan.reduced, 1, begin / last.length, end_stretch, [&](int64_t offset, int64_t) {
    for (int64_t i = row % last.length; i < last.length && row < end;) {
      int64_t n = std::min({last.length - i, end - row, kVisit / width});
      const T* rows = p + offset + i * last.stride;
      if (stride == 1) {
        combine_rows<Op>(rows, last.stride, n, width, sums);
      } else {
        for (int64_t j = 0; j < n; ++j)
          for (int64_t column = 0; column < width; ++column)
            gathered[j * width + column] = rows[j * last.stride + column * stride];
        combine_rows<Op>(gathered, width, n, width, sums);
      }
      i += n;
      row += n;
    }
  });
}

template <class Op>
void reduce_by_columns(const View& a, const Plan& plan, const View& out) {
  using T = typename Op::Element;
  using A = typename Op::Accumulator;
  const Axis& last = plan.kept.back();
  int64_t width = std::min(kWidth, last.length);
  ColumnBlocks blocks(plan, width);
  auto write = [&](const A* sums, int64_t columns, int64_t to) {
    T* p = out.as<T>() + to;
    for (int64_t column = 0; column < columns; ++column) p[column * last.out_stride] = static_cast<T>(sums[column]);
  };

  constexpr int64_t kManyBlocks = 16;
  if (blocks.count >= kManyBlocks) {
    int64_t grain = std::max<int64_t>(1, kChunk / 2 / (plan.count * width));
    parallel_for(blocks.count, grain, [&](int64_t begin, int64_t end) {
      A* sums = static_cast<A*>(scratch(6, width * sizeof(A)));
      blocks.for_each(begin, end, [&](int64_t, int64_t columns, int64_t from, int64_t to) {
        reduce_columns<Op>(a.as<T>() + from, columns, last.stride, plan, 0, plan.count, sums);
        write(sums, columns, to);
      });
    });
    return;
  }
  // Few blocks of columns: the reduced axes are cut into chunks. Tasks go along the blocks of a chunk first.
  int64_t chunk = std::min(plan.count, std::max<int64_t>(16, kChunk / width)), chunks = (plan.count + chunk - 1) / chunk;
  A* partial = static_cast<A*>(scratch(6, chunks * blocks.count * width * sizeof(A)));
  int64_t grain = std::max<int64_t>(1, kChunk / 2 / (chunk * width));
  parallel_for(chunks * blocks.count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t first = task / blocks.count * chunk;
      int64_t block = task % blocks.count;
      blocks.for_each(block, block + 1, [&](int64_t, int64_t columns, int64_t from, int64_t) {
        reduce_columns<Op>(a.as<T>() + from, columns, last.stride, plan, first, std::min(plan.count, first + chunk),
                           partial + task * width);
      });
    }
  });
  blocks.for_each(0, blocks.count, [&](int64_t block, int64_t columns, int64_t, int64_t to) {
    A* total = partial + block * width;
    for (int64_t i = 1; i < chunks; ++i) {
      const A* next = total + i * blocks.count * width;
      for (int64_t column = 0; column < columns; ++column) total[column] = Op::combine(total[column], next[column]);
    }
    write(total, columns, to);
  });
}

template <class Op>
void run_reduce(const View& a, const Axes& axes, const View& out) {
  Plan plan = make_plan(a, axes, out);
  if (plan.outputs == 0) return;
  if (plan.count == 0) return fill(out, Op::kStart);
  bool short_rows = plan.count < kLanes && plan.kept.back().length >= 4 * kLanes;
  (keeps_columns(plan) || short_rows ? reduce_by_columns<Op> : reduce_by_rows<Op>)(a, plan, out);
}

template <class T>
void reduce_of(Reduction op, const View& a, const Axes& axes, const View& out) {
  switch (op) {
    case Reduction::sum: return run_reduce<Sum<T>>(a, axes, out);
    case Reduction::max: return run_reduce<Max<T>>(a, axes, out);
    case Reduction::min: return run_reduce<Min<T>>(a, axes, out);
  }
}

}  // namespace

void reduce(Reduction op, const View& a, const Axes& axes, const View& out) {
  (a.dtype == DType::float32 ? reduce_of<float> : reduce_of<double>)(op, a, axes, out);
}

}  // namespace needle
