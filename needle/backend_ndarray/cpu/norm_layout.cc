#include "norm.h"

namespace needle {
namespace {

constexpr int64_t kPiece = 8192;  // elements, about: two arrays of them stay in the first cache

// The offsets of all elements with these (length, stride), the first pair outermost.
std::vector<int64_t> enumerate(const std::vector<std::pair<int64_t, int64_t>>& axes) {
  std::vector<int64_t> offsets{0};
  for (const auto& [length, stride] : axes) {
    std::vector<int64_t> longer;
    longer.reserve(offsets.size() * length);
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < length; ++i) longer.push_back(offset + i * stride);
    offsets = std::move(longer);
  }
  return offsets;
}

}  // namespace

NormLayout::NormLayout(const View& x, const Axes& axes, const View* weight, const View* bias)
    : order(memory_order(x)), kept_(x.ndim, true), parameter_axes_(x.ndim, false), lengths_(x.shape, x.shape + x.ndim) {
  for (const int axis : axes) kept_[axis] = false;
  for (const View* a : {weight, bias})
    for (int axis = 0; a && axis < x.ndim; ++axis) parameter_axes_[axis] = parameter_axes_[axis] || a->shape[axis] > 1;
  cut();
  if (whole_rows || rows > 1) return;
  // Blocks are short in x's own order. One that puts apart what is alike may be worth a copy.
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) {
    const auto rank = [&](int axis) { return kept_[axis] ? 0 : parameter_axes_[axis] ? 1 : 2; };
    return rank(i) < rank(j);
  });
  cut();
  if (whole_rows || rows > 1) return;
  order = memory_order(x);
  cut();
}

// Find the blocks: from the innermost axis outwards, first columns, then rows.
void NormLayout::cut() {
  Order longer;  // axes of length 1 do not matter
  for (const int axis : order)
    if (lengths_[axis] != 1) longer.push_back(axis);
  bool kept_first = true, any_parameter = false, all_parameter = true, kept_parameter = false, reduced_seen = false;
  outer = rows = columns = statistics = parameters = count = 1;
  for (const int axis : longer) {
    kept_first = kept_first && !(kept_[axis] && reduced_seen);
    reduced_seen = reduced_seen || !kept_[axis];
    any_parameter = any_parameter || parameter_axes_[axis];
    all_parameter = all_parameter && (kept_[axis] || parameter_axes_[axis]);
    kept_parameter = kept_parameter || (kept_[axis] && parameter_axes_[axis]);
    (kept_[axis] ? statistics : count) *= lengths_[axis];
    if (parameter_axes_[axis]) parameters *= lengths_[axis];
  }
  whole_rows = kept_first && !kept_parameter && (any_parameter ? all_parameter : count <= kPiece);
  const auto in_columns = [&](int axis) { return kept_[axis] != whole_rows; };
  const auto in_rows = [&](int axis) { return !whole_rows && !kept_[axis] && !parameter_axes_[axis]; };
  auto last_row = std::find_if_not(longer.rbegin(), longer.rend(), in_columns);
  auto last_outer = std::find_if_not(last_row, longer.rend(), in_rows);
  for (auto axis = longer.rbegin(); axis != longer.rend(); ++axis)
    (axis < last_row ? columns : axis < last_outer ? rows : outer) *= lengths_[*axis];

  // Numbers are row-major in the order of axes.
  std::vector<std::pair<int64_t, int64_t>> of_statistic, of_parameter, of_column;
  int64_t statistic_step = 1, parameter_step = 1;
  for (auto axis = longer.rbegin(); axis != longer.rend(); ++axis) {
    const int64_t length = lengths_[*axis];
    const bool parameter = parameter_axes_[*axis];
    if (axis < last_row) of_column.insert(of_column.begin(), {length, parameter ? parameter_step : 0});
    if (axis >= last_outer) {
      of_statistic.insert(of_statistic.begin(), {length, kept_[*axis] ? statistic_step : 0});
      of_parameter.insert(of_parameter.begin(), {length, parameter ? parameter_step : 0});
    }
    if (kept_[*axis]) statistic_step *= length;
    if (parameter) parameter_step *= length;
  }
  outer_statistic = enumerate(of_statistic);
  outer_parameter = enumerate(of_parameter);
  column_parameter = enumerate(of_column);

  fold = 1;
  while (columns * fold % kLanes || columns * fold < 4 * kLanes) ++fold;
  if (columns == 1 || fold > rows || columns * fold > kPiece / 4) fold = 1;
  piece_rows = columns == 1 ? kPiece : std::max<int64_t>(64, 2 * kPiece / columns) / fold * fold;
  pieces = (rows + piece_rows - 1) / piece_rows;
}

std::vector<int64_t> NormLayout::offsets(const View& a, const std::vector<bool>& chosen) const {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (const int axis : order)
    if (chosen[axis]) axes.push_back({lengths_[axis], a.shape[axis] == 1 ? 0 : a.strides[axis]});
  return enumerate(axes);
}

}  // namespace needle
