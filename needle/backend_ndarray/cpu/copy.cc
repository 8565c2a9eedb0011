#include "kernels.h"
#include "rows.h"
#include "strides.h"

namespace needle {

namespace {

template <class From, class To>
void cast_row(char* const* p, const int64_t* step, int64_t n) {
  To* out = reinterpret_cast<To*>(p[0]);
  Input<From> a(p[1], step[1]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_as(out + i, a.at(i));
  if (i < n) store_first(out + i, convert<To>(a.last(i, n - i)), n - i);
}

}  // namespace

void copy(const View& a, const View& out) {
  Loops loops(out);
  loops.add(a);
  RowKernel cast = a.dtype == DType::float32 ? cast_row<float, double> : cast_row<double, float>;
  for_each_row(loops, a.dtype == out.dtype ? nullptr : cast, 1);
}

}  // namespace needle
