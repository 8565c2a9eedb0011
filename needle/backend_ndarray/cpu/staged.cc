#include "staged.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "kernels.h"

namespace needle {
namespace {

int64_t item_size(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    default:
      return 1;
  }
}

// Positions are copied here, one element after the other: the kernel `copy` knows floating-point numbers only.
template <class T>
void copy_axes(const T* from, T* to, const View& a, const View& out, int axis) {
  if (axis == a.ndim) {
    *to = *from;
    return;
  }
  for (int64_t i = 0; i < a.shape[axis]; ++i)
    copy_axes(from + i * a.strides[axis], to + i * out.strides[axis], a, out, axis + 1);
}

void copy_any(const View& a, const View& out) {
  if (a.dtype == DType::float32 || a.dtype == DType::float64) return copy(a, out);
  if (a.dtype == DType::int32) return copy_axes(a.as<int32_t>(), out.as<int32_t>(), a, out, 0);
  copy_axes(a.as<uint8_t>(), out.as<uint8_t>(), a, out, 0);
}

}  // namespace

Order memory_order(const View& a) {
  Order order(a.ndim);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int i, int j) { return std::abs(a.strides[i]) > std::abs(a.strides[j]); });
  return order;
}

bool is_dense(const View& a, const Order& order) {
  int64_t filled = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (a.shape[*axis] == 1) continue;
    if (a.strides[*axis] != filled) return false;
    filled *= a.shape[*axis];
  }
  return true;
}

Staged::Staged(const View& a, const Order& order, bool read)
    : original_(a), view_(a), memory_(new std::byte[a.size() * item_size(a.dtype)]) {
  view_.data = memory_.get();
  int64_t filled = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    view_.strides[*axis] = filled;
    filled *= a.shape[*axis];
  }
  if (read) copy_any(original_, view_);
}

void Staged::write_back() const {
  if (memory_) copy_any(view_, original_);
}

Staged stage_dense(const View& a, const Order& order, bool read) {
  return is_dense(a, order) ? Staged(a) : Staged(a, order, read);
}

}  // namespace needle
