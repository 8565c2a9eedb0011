#include "gemm.h"

#include <algorithm>
#include <array>
#include <utility>

namespace needle {
namespace {

template <class T, class Place>
using Kernel = void (*)(const T*, Place, const T*, int64_t, const Step*, const Step*, T*, int64_t, int64_t, bool,
                        const T*);

// At M - 1: the kernel for M rows.
template <class T, class Place, int V, int... M>
constexpr std::array<Kernel<T, Place>, sizeof...(M)> kernels_of(std::integer_sequence<int, M...>) {
  return {tile<T, M + 1, V, Place>...};
}
template <class T, class Place>
constexpr auto kNarrowKernels = kernels_of<T, Place, 1>(std::make_integer_sequence<int, 2 * kTileRows>());
template <class T, class Place>
constexpr auto kWideKernels = kernels_of<T, Place, 2>(std::make_integer_sequence<int, kTileRows>());

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

// One tile of m rows; of a panel that is not full, the columns that are C's go there by way of a buffer.
template <class T, class Place>
void compute(int64_t m, const T* a, Place place, const Panel<T>& panel, int64_t b_stride, const Step* begin,
             const Step* end, T* c, int64_t c_stride, int64_t c_second, bool first, const T* bias) {
  const Kernel<T, Place> kernel =
      panel.registers == 1 ? kNarrowKernels<T, Place>[m - 1] : kWideKernels<T, Place>[m - 1];
  if (panel.full()) return kernel(a, place, panel.b, b_stride, begin, end, c, c_stride, c_second, first, bias);
  T product[kTileRows * kTileColumns<T>];
  const int64_t stride = panel.registers * kRegisterLanes<T>, half = first_line(m);
  kernel(a, place, panel.b, b_stride, begin, end, product, stride, half * stride, true, nullptr);
  for (int64_t i = 0; i < m; ++i) {
    const T* from = product + i * stride + panel.from;
    T* to = i < half ? c + i * c_stride : c + c_second + (i - half) * c_stride;
    for (int j = 0; j < panel.to - panel.from; ++j) {
      const T total = first ? from[j] : to[j] + from[j];
      to[j] = bias ? total + bias[j] : total;
    }
  }
}

// Asks for what rows of A are going to read, a line at a time: processors see no pattern in so many rows.
template <class T>
void ask_for_rows(const T* a, int64_t stride, int64_t count, const Step* begin, const Step* end) {
  constexpr int64_t line = 64 / sizeof(T);
  const int64_t of_a_line = stride > 0 && stride < line ? line / stride : 1;
  for (const Step* step = begin; step < end; step += line)
    for (int64_t i = 0; i < count; i += of_a_line) __builtin_prefetch(a + step->a + i * stride);
}

// Asks for the place of rows of C that are going to be written.
template <class T>
void ask_for_result(const T* c, int64_t stride, int64_t count, int registers) {
  for (int64_t i = 0; i < count; ++i)
    for (int v = 0; v < registers; ++v) __builtin_prefetch(c + i * stride + v * kRegisterLanes<T>, 1);
}

template <class T>
int64_t panel_count(const Right<T>& b) {
  return ceil_div(b.columns, kTileColumns<T>);
}

}  // namespace

template <class T>
void multiply(const Rows<T>& rows, const Step* begin, const Step* end, const Right<T>& b, bool first, const T* bias) {
  const Loop &row = rows.rows, &line = rows.middle;
  const Step* const cold = end - std::min<int64_t>(rows.cold_steps, end - begin);
  for (int64_t j = 0; j < panel_count(b); ++j) {
    const Panel<T> panel(b, j);
    const T* panel_bias = bias ? bias + panel.column : nullptr;
    // Tiles of nearly equal height: the first `taller` ones have a row more. Two short lines make one tile.
    const int64_t most = tile_rows<T>(row.a, panel.registers), tiles = ceil_div(row.count, most);
    const int64_t height = tiles ? row.count / tiles : 0, taller = row.count - height * tiles;
    const bool in_pairs = 2 * row.count <= most;
    for (int64_t outer = 0; outer < rows.outer.count; ++outer) {
      for (int64_t middle = 0, lines = 1; middle < line.count; middle += lines) {
        lines = in_pairs && middle + 1 < line.count ? 2 : 1;
        const T* a = rows.a + outer * rows.outer.a + middle * line.a;
        T* c = rows.c + outer * rows.outer.c + middle * line.c + panel.column;
        for (int64_t i = 0; i < tiles; ++i) {
          const int64_t m = lines * (height + (i < taller)), half = first_line(m);
          const int64_t a_second = lines == 2 ? line.a : half * row.a, a_next = lines == 2 ? 2 * line.a : m * row.a;
          const int64_t c_second = lines == 2 ? line.c : half * row.c, c_next = lines == 2 ? 2 * line.c : m * row.c;
          if (cold != end) {
            if (j == 0) {
              ask_for_rows(a + a_next, row.a, half, cold, end);
              ask_for_rows(a + a_next + a_second, row.a, m - half, cold, end);
            }
            ask_for_result(c + c_next, row.c, half, panel.registers);
            ask_for_result(c + c_next + c_second, row.c, m - half, panel.registers);
          }
          if (row.a == 1)
            compute(m, a, Adjacent{a_second}, panel, b.row, begin, end, c, row.c, c_second, first, panel_bias);
          else
            compute(m, a, Spaced{a_second, row.a}, panel, b.row, begin, end, c, row.c, c_second, first, panel_bias);
          a += a_next;
          c += c_next;
        }
      }
    }
  }
}

template <class T>
void multiply(const T* a, const std::vector<int64_t>& offsets, const Step* begin, const Step* end, const Right<T>& b,
              T* c, int64_t c_stride) {
  const int64_t count = offsets.size();
  for (int64_t j = 0; j < panel_count(b); ++j) {
    const Panel<T> panel(b, j);
    const int64_t tiles = ceil_div(count, tile_rows<T>(1, panel.registers));
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = count * i / tiles, m = count * (i + 1) / tiles - row;
      compute<T, Listed>(m, a, {offsets.data() + row}, panel, b.row, begin, end, c + row * c_stride + panel.column,
                         c_stride, first_line(m) * c_stride, true, nullptr);
    }
  }
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
  constexpr int64_t width = kTileColumns<T>, kRowsAtOnce = 16;  // written lines stay in the first cache
  const int64_t whole = column_stride == 1 ? columns / width * width : 0;  // columns of full panels, copied row by row
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < whole; column += width)
      std::memcpy(packed + column / width * panel + row * width, b + row * row_stride + column, width * sizeof(T));
  for (int64_t column = whole; column < columns; column += width) {
    const T* from = b + column * column_stride;
    T* to = packed + column / width * panel;
    const int64_t n = std::min(width, columns - column);
    for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
      const int64_t last = std::min(rows, first + kRowsAtOnce);
      for (int64_t j = 0; j < n; ++j)
        for (int64_t row = first; row < last; ++row) to[row * width + j] = from[row * row_stride + j * column_stride];
      for (int64_t row = first; row < last; ++row) std::fill(to + row * width + n, to + (row + 1) * width, T{});
    }
  }
}

#define NEEDLE_INSTANTIATE(T)                                                                                  \
  template void multiply<T>(const Rows<T>&, const Step*, const Step*, const Right<T>&, bool, const T*);        \
  template void multiply<T>(const T*, const std::vector<int64_t>&, const Step*, const Step*, const Right<T>&,  \
                            T*, int64_t);                                                                      \
  template void pack<T>(const T*, int64_t, int64_t, int64_t, int64_t, T*, int64_t);
NEEDLE_INSTANTIATE(float)
NEEDLE_INSTANTIATE(double)

}  // namespace needle
