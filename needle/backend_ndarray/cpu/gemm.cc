#include "gemm.h"

#include <algorithm>
#include <array>
#include <utility>

namespace needle {
namespace {

template <class T>
using Kernel = void (*)(const T*, int64_t, const T*, int64_t, const Step*, const Step*, T*, int64_t, bool, const T*);

template <class T, int V, int... M>
constexpr std::array<Kernel<T>, sizeof...(M)> kernels_of(std::integer_sequence<int, M...>) {
  return {tile<T, M + 1, V>...};
}
// kKernels[V - 1][M - 1]
template <class T>
constexpr std::array<std::array<Kernel<T>, kTileRows>, 2> kKernels = {
    kernels_of<T, 1>(std::make_integer_sequence<int, kTileRows>()),
    kernels_of<T, 2>(std::make_integer_sequence<int, kTileRows>())};

// A panel: where it begins, how many registers wide it is, and which of its columns [from, to) are C's.
template <class T>
struct Panel {
  const T* b;
  int64_t column;  // of C, of the panel's first column that is C's
  int registers, from, to;

  Panel(const Right<T>& right, int64_t index) {
    constexpr int lanes = kRegisterLanes<T>;
    column = index * kTileColumns<T>;
    const int width = static_cast<int>(std::min<int64_t>(right.columns - column, kTileColumns<T>));
    registers = width > lanes ? 2 : 1;
    from = right.packed ? 0 : registers * lanes - width;
    to = from + width;
    b = right.data + index * right.panel - from;
  }
  bool full() const { return to - from == registers * kRegisterLanes<T>; }
};

template <class T>
void ragged_tile(Kernel<T> kernel, int64_t m, const T* a, int64_t a_stride, const Panel<T>& panel, int64_t b_stride,
                 const Step* begin, const Step* end, T* c, int64_t c_stride, bool first, const T* bias) {
  T product[kTileRows * kTileColumns<T>];
  kernel(a, a_stride, panel.b, b_stride, begin, end, product, kTileColumns<T>, true, nullptr);
  for (int64_t i = 0; i < m; ++i) {
    const T* from = product + i * kTileColumns<T> + panel.from;
    T* to = c + i * c_stride;
    for (int j = 0; j < panel.to - panel.from; ++j) {
      const T total = first ? from[j] : to[j] + from[j];
      to[j] = bias ? total + bias[j] : total;
    }
  }
}

// Row i of `parts` nearly equal parts of [0, count).
inline int64_t part(int64_t count, int64_t parts, int64_t i) { return count / parts * i + std::min(i, count % parts); }

}  // namespace

template <class T>
void multiply(const Rows<T>& rows, const Step* begin, const Step* end, const Right<T>& b, bool first, const T* bias) {
  constexpr int64_t kTilesAtOnce = 4;  // share a panel while it is in the first cache
  const int64_t panels = (b.columns + kTileColumns<T> - 1) / kTileColumns<T>;
  const int64_t most = tile_rows<T>(rows.a_stride), tiles = (rows.count + most - 1) / most;
  for (int64_t chunk = 0; chunk < tiles; chunk += kTilesAtOnce) {
    for (int64_t j = 0; j < panels; ++j) {
      const Panel<T> panel(b, j);
      const T* panel_bias = bias ? bias + panel.column : nullptr;
      for (int64_t i = chunk; i < std::min(chunk + kTilesAtOnce, tiles); ++i) {
        const int64_t row = part(rows.count, tiles, i), m = part(rows.count, tiles, i + 1) - row;
        const T* a = rows.a + row * rows.a_stride;
        T* c = rows.c + row * rows.c_stride + panel.column;
        const Kernel<T> kernel = kKernels<T>[panel.registers - 1][m - 1];
        if (panel.full())
          kernel(a, rows.a_stride, panel.b, b.row, begin, end, c, rows.c_stride, first, panel_bias);
        else
          ragged_tile(kernel, m, a, rows.a_stride, panel, b.row, begin, end, c, rows.c_stride, first, panel_bias);
      }
    }
  }
}

template <class T>
void multiply_all(const Rows<T>& rows, const Steps& steps, const Right<T>& b, const T* bias) {
  if (steps.count() == 0) return multiply<T>(rows, nullptr, nullptr, b, true, bias);
  for (int64_t group = 0; group < steps.count(); ++group)
    multiply(rows, steps.begin(group), steps.end(group), b, group == 0, group + 1 == steps.count() ? bias : nullptr);
}

void Steps::append(int64_t position, int64_t length, int64_t a, int64_t a_step, int64_t b) {
  while (length > 0) {
    const int64_t group = position / kGroup, n = std::min(length, (group + 1) * kGroup - position);
    if (group != last_group_) groups.push_back(groups.back());
    last_group_ = group;
    const size_t old = list.size();
    list.resize(old + n);
    for (int64_t i = 0; i < n; ++i) list[old + i] = {a + i * a_step, b + i};
    groups.back() += n;
    position += n, length -= n, a += n * a_step, b += n;
  }
}

template <class T>
void pack(const T* b, int64_t row_stride, int64_t column_stride, int64_t rows, int64_t columns, T* packed,
          int64_t panel) {
  constexpr int64_t width = kTileColumns<T>;
  for (int64_t column = 0; column < columns; column += width, packed += panel) {
    const int64_t n = std::min(width, columns - column);
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = b + row * row_stride + column * column_stride;
      T* to = packed + row * width;
      if (column_stride == 1 && n == width) {
        std::memcpy(to, from, width * sizeof(T));
      } else {
        for (int64_t j = 0; j < n; ++j) to[j] = from[j * column_stride];
        std::fill(to + n, to + width, T{});
      }
    }
  }
}

#define NEEDLE_INSTANTIATE(T)                                                                                   \
  template void multiply<T>(const Rows<T>&, const Step*, const Step*, const Right<T>&, bool, const T*);         \
  template void multiply_all<T>(const Rows<T>&, const Steps&, const Right<T>&, const T*);                       \
  template void pack<T>(const T*, int64_t, int64_t, int64_t, int64_t, T*, int64_t);
NEEDLE_INSTANTIATE(float)
NEEDLE_INSTANTIATE(double)

}  // namespace needle
