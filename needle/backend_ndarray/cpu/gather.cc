// Rows picked by indices, which the bindings have checked: copied, or added to.
#include <algorithm>
#include <cstring>

#include "kernels.h"
#include "parallel.h"
#include "strides.h"

namespace needle {

namespace {

// Rows of `picked` (its first axis runs over the indices) beside rows of `table` (its first axis is the one indexed).
struct Rows {
  Loops loops;  // over a row: operand 0 is what is written
  int64_t picked_stride, table_stride, index_stride, count, size;
  const int64_t* indices;

  Rows(const View& picked, const View& table, const View& index, bool table_is_written)
      : loops(row_of(table_is_written ? table : picked)),
        picked_stride(picked.strides[0] * itemsize(picked.dtype)),
        table_stride(table.strides[0] * itemsize(table.dtype)),
        index_stride(index.strides[0]),
        count(index.shape[0]),
        size(count == 0 ? 0 : picked.size() / count),
        indices(index.as<int64_t>()) {
    loops.add(row_of(table_is_written ? picked : table));
    simplify(loops);
  }

  static View row_of(View view) {
    std::copy(view.shape + 1, view.shape + view.ndim, view.shape);
    std::copy(view.strides + 1, view.strides + view.ndim, view.strides);
    --view.ndim;
    return view;
  }

  // body(to, from, their strides in bytes, n) for the stretches of row i along the last axis, from column `begin` to `end`
  template <class Body>
  void for_each_stretch(int64_t to, int64_t from, int64_t begin, int64_t end, Body body) const {
    const auto &written = loops.operands[0], &read = loops.operands[1];
    int last = loops.ndim - 1;
    int64_t to_step = written.strides[last], from_step = read.strides[last];
    const int64_t* const strides[] = {written.strides, read.strides};
    for_each_index(last, loops.shape, strides, 0, size / loops.shape[last], [&](const int64_t* offsets) {
      body(written.data + to + offsets[0] + begin * to_step, read.data + from + offsets[1] + begin * from_step, to_step,
           from_step, end - begin);
    });
  }
};

template <class T>
void gather_of(const View& a, const View& indices, const View& out) {
  Rows rows(out, a, indices, false);
  if (rows.size == 0) return;
  int64_t columns = rows.loops.shape[rows.loops.ndim - 1];
  parallel_for(rows.count, std::max<int64_t>(1, (1 << 14) / rows.size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t from = rows.indices[i * rows.index_stride] * rows.table_stride;
      rows.for_each_stretch(i * rows.picked_stride, from, 0, columns,
                            [](char* to, const char* p, int64_t to_step, int64_t step, int64_t n) {
                              constexpr int64_t size = sizeof(T);
                              if (to_step == size && step == size && n > 4) std::memcpy(to, p, n * size);
                              else
                                for (int64_t j = 0; j < n; ++j) std::memcpy(to + j * to_step, p + j * step, size);
                            });
    }
  });
}

// Every thread adds all rows in their order, each thread in columns of its own.
template <class T>
void scatter_add_of(const View& a, const View& indices, const View& out) {
  Rows rows(a, out, indices, true);
  if (rows.size == 0) return;
  int64_t columns = rows.loops.shape[rows.loops.ndim - 1];
  int64_t grain = rows.count * rows.size < (1 << 15) ? columns : 16;
  parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < rows.count; ++i) {
      int64_t to = rows.indices[i * rows.index_stride] * rows.table_stride;
      rows.for_each_stretch(to, i * rows.picked_stride, begin, end,
                            [](char* q, const char* p, int64_t to_step, int64_t step, int64_t n) {
                              constexpr int64_t size = sizeof(T);
                              T* sums = reinterpret_cast<T*>(q);
                              const T* terms = reinterpret_cast<const T*>(p);
                              if (to_step == size && step == size)
                                for (int64_t j = 0; j < n; ++j) sums[j] += terms[j];
                              else
                                for (int64_t j = 0; j < n; ++j) sums[j * (to_step / size)] += terms[j * (step / size)];
                            });
    }
  });
}

}  // namespace

void gather(const View& a, const View& indices, const View& out) {
  (a.dtype == DType::float32 ? gather_of<float> : gather_of<double>)(a, indices, out);
}

void scatter_add(const View& a, const View& indices, const View& out) {
  (a.dtype == DType::float32 ? scatter_add_of<float> : scatter_add_of<double>)(a, indices, out);
}

}  // namespace needle
