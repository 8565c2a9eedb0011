// Cross entropy of rows that have one label each: read once forward; read once and written once backward.
#include "softmax.h"

namespace needle {
namespace {

// body(row, offsets of the operands) for all rows along an axis of `a`: n elements side by side, where they do not lie
// so in a copy. `views` have length 1 along the axis, or are not looked at along it.
template <class T, int operands, class Body>
void for_each_labelled_row(const View& a, int axis, const View* const (&views)[operands], Body body) {
  const int64_t n = a.shape[axis], stride = a.strides[axis];
  int64_t shape[kMaxDims], rows = 1;
  for (int d = 0; d < a.ndim; ++d) rows *= shape[d] = d == axis ? 1 : a.shape[d];
  parallel_for(rows, std::max<int64_t>(1, kSoftmaxGrain / n), [&](int64_t begin, int64_t end) {
    const int64_t* strides[operands + 1] = {a.strides};
    for (int k = 0; k < operands; ++k) strides[k + 1] = views[k]->strides;
    const int64_t* const(&all)[operands + 1] = strides;
    T* copy = stride == 1 || n == 1 ? nullptr : static_cast<T*>(scratch(5, n * sizeof(T)));
    for_each_index(a.ndim, shape, all, begin, end, [&](const int64_t* offsets) {
      const T* row = a.as<T>() + offsets[0];
      for (int64_t i = 0; copy && i < n; ++i) copy[i] = row[i * stride];
      body(copy ? copy : row, offsets + 1);
    });
  });
}

template <class T>
void forward(const View& a, const View& labels, int axis, const View& out, const View& largest, const View& inverse) {
  const int64_t n = a.shape[axis];
  const View* const views[] = {&labels, &out, &largest, &inverse};
  for_each_labelled_row<T>(a, axis, views, [&](const T* row, const int64_t* at) {
    const T top = largest_of(row, n);
    Vec<double> sums(0);
    for_each_shifted(row, n, Vec<T>(top), [&](Vec<T> shifted, int64_t, int64_t) NEEDLE_INLINE_LAMBDA {
      sums += convert<double>(exp(shifted));
    });
    const double total = join_sum(sums);
    out.as<T>()[at[1]] = T(log(Vec<double>(total))[0]) - (row[labels.as<int64_t>()[at[0]]] - top);
    largest.as<T>()[at[2]] = top;
    inverse.as<T>()[at[3]] = T(1 / total);
  });
}

template <class T>
void backward(const View& d, const View& a, const View& labels, const View& largest, const View& inverse, int axis,
              const View& out) {
  const int64_t n = a.shape[axis], stride = out.strides[axis];
  const View* const views[] = {&d, &labels, &largest, &inverse, &out};
  for_each_labelled_row<T>(a, axis, views, [&](const T* row, const int64_t* at) {
    T* to = out.as<T>() + at[4];
    T* result = stride == 1 || n == 1 ? to : static_cast<T*>(scratch(6, n * sizeof(T)));
    const T top = largest.as<T>()[at[2]];
    const Vec<T> factor = inverse.as<T>()[at[3]], scale = d.as<T>()[at[0]];
    for_each_shifted(row, n, Vec<T>(top), [&](Vec<T> shifted, int64_t i, int64_t count) NEEDLE_INLINE_LAMBDA {
      store_some(result + i, exp(shifted) * factor * scale, count);
    });
    const int64_t label = labels.as<int64_t>()[at[1]];
    result[label] = ((exp(Vec<T>(row[label] - top)) * factor - Vec<T>(1)) * scale)[0];
    for (int64_t i = 0; result != to && i < n; ++i) to[i * stride] = result[i];
  });
}

}  // namespace

void cross_entropy(const View& a, const View& labels, int axis, const View& out, const View& largest,
                   const View& inverse) {
  (a.dtype == DType::float32 ? forward<float> : forward<double>)(a, labels, axis, out, largest, inverse);
}

void cross_entropy_gradient(const View& d, const View& a, const View& labels, const View& largest, const View& inverse,
                            int axis, const View& out) {
  (a.dtype == DType::float32 ? backward<float> : backward<double>)(d, a, labels, largest, inverse, axis, out);
}

}  // namespace needle
