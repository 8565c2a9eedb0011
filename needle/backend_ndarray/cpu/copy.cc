#include <cstring>

#include "kernels.h"
#include "rows.h"
#include "strides.h"

namespace needle {

namespace {

template <class From, class To>
void copy_row(char* const* p, const int64_t* step, int64_t n) {
  To* out = reinterpret_cast<To*>(p[0]);
  if (std::is_same_v<From, To> && step[1] == 1) {
    std::memcpy(out, p[1], n * sizeof(To));
    return;
  }
  Input<From> a(p[1], step[1]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_as(out + i, a.at(i));
  if (i < n) store_first(out + i, convert<To>(a.last(i, n - i)), n - i);
}

}  // namespace

void copy(const View& a, const View& out) {
  Loops loops(out);
  loops.add(a);
  bool from_float = a.dtype == DType::float32, to_float = out.dtype == DType::float32;
  for_each_row(loops,
               from_float ? (to_float ? copy_row<float, float> : copy_row<float, double>)
                          : (to_float ? copy_row<double, float> : copy_row<double, double>),
               1);
}

}  // namespace needle
