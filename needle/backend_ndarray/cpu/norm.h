// How normalisations run over memory, forward and backward.
//
// Arrays lie densely in one order of axes, and count as `outer` blocks of `rows` x `columns`. Statistics and parameters
// are numbered in the same order. Along the rows of a block both are the same (batch norm's pixels); along its columns
// statistics differ (channels that are innermost in memory). Where the innermost axis has one statistic (N,C,H,W
// memory) there is one column. Sums are taken over pieces of a fixed number of rows and joined in their order.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels.h"
#include "lanes.h"
#include "parallel.h"
#include "staged.h"

namespace needle {

struct NormLayout {
  NormLayout(const View& x, const Axes& axes, const View* weight, const View* bias);

  Order order;
  bool whole_rows;  // an outer index is a statistic, and its columns are all its elements (layer norm); rows is 1
  int64_t outer = 1, rows = 1, columns = 1;
  int64_t statistics = 1, parameters = 1;  // how many there are
  int64_t count;                           // the elements behind a statistic
  std::vector<int64_t> outer_statistic, outer_parameter, column_parameter;  // numbers: the sum of outer's and column's
  int64_t fold;        // so many rows count as one, that is as long as vectors like it
  int64_t piece_rows;  // a multiple of fold
  int64_t pieces;      // of a block

  struct Piece {
    int64_t outer, first, rows;  // first: the number of its first element
  };
  Piece piece(int64_t index) const {
    const int64_t block = index / pieces, row = index % pieces * piece_rows;
    return {block, (block * rows + row) * columns, std::min(piece_rows, rows - row)};
  }
  int64_t piece_grain() const { return std::max<int64_t>(1, 8192 / (std::min(piece_rows, rows) * columns)); }

  // The elements of an array of statistics or of parameters, in the order of their numbers.
  template <class T>
  std::vector<T> read_statistics(const View& a) const {
    return read<T>(a, kept_);
  }
  template <class T>
  std::vector<T> read_parameters(const View* a, T missing) const {
    return a ? read<T>(*a, parameter_axes_) : std::vector<T>(parameters, missing);
  }
  template <class T, class From>
  void write_statistics(const std::vector<From>& values, const View& a) const {
    write<T>(values, a, kept_);
  }
  template <class T, class From>
  void write_parameters(const std::vector<From>& values, const View& a) const {
    write<T>(values, a, parameter_axes_);
  }

 private:
  void cut();
  std::vector<int64_t> offsets(const View& a, const std::vector<bool>& chosen) const;
  template <class T>
  std::vector<T> read(const View& a, const std::vector<bool>& chosen) const {
    std::vector<T> values;
    for (const int64_t offset : offsets(a, chosen)) values.push_back(a.as<T>()[offset]);
    return values;
  }
  template <class T, class From>
  void write(const std::vector<From>& values, const View& a, const std::vector<bool>& chosen) const {
    size_t i = 0;
    for (const int64_t offset : offsets(a, chosen)) a.as<T>()[offset] = T(values[i++]);
  }

  std::vector<bool> kept_, parameter_axes_;  // by axis
  std::vector<int64_t> lengths_;
};

// Tiles of columns are 4 vectors wide, 1, or less than one.
template <class Tile>
NEEDLE_INLINE void for_columns(int64_t columns, Tile tile) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) tile(std::integral_constant<int, 4>{}, AllLanes{}, c);
  for (; c + kLanes <= columns; c += kLanes) tile(std::integral_constant<int, 1>{}, AllLanes{}, c);
  if (c < columns) tile(std::integral_constant<int, 1>{}, FirstLanes{columns - c}, c);
}

// body(lanes, c) for vectors of columns.
template <class Body>
NEEDLE_INLINE void for_vectors(int64_t columns, Body body) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) body(AllLanes{}, c);
  if (c < columns) body(FirstLanes{columns - c}, c);
}

// tile(width, lanes, c, at, rows) for all tiles of n rows: columns c... (of folded rows) of `rows` folded rows, the
// first of which begins at element `at` of the piece. The rows that fill no folded one follow as a shorter one.
template <class Tile>
NEEDLE_INLINE void for_tiles(const NormLayout& layout, int64_t n, Tile tile) {
  const int64_t wide = layout.columns * layout.fold, full = n / layout.fold;
  if (full)
    for_columns(wide, [&](auto width, auto lanes, int64_t c) __attribute__((always_inline)) {
      tile(width, lanes, c, c, full);
    });
  for_columns(n % layout.fold * layout.columns, [&](auto width, auto lanes, int64_t c) __attribute__((always_inline)) {
    tile(width, lanes, c, full * wide + c, int64_t{1});
  });
}

// Room for one value per column of a folded row, filled by value(column); vectors may be read up to its end.
inline int64_t folded_room(const NormLayout& layout) { return layout.columns * layout.fold + 4 * kLanes; }

template <class T, class Value>
void fill_folded(const NormLayout& layout, T* out, Value value) {
  for (int64_t c = 0; c < layout.columns; ++c) out[c] = value(c);
  for (int64_t i = layout.columns; i < layout.columns * layout.fold; ++i) out[i] = out[i - layout.columns];
}

// sum[c] = the sum over the fold of wide[c], wide[c + columns], ...
inline void unfold(const NormLayout& layout, const double* wide, double* sum) {
  std::copy(wide, wide + layout.columns, sum);
  for (int64_t k = 1; k < layout.fold; ++k)
    for (int64_t c = 0; c < layout.columns; ++c) sum[c] += wide[k * layout.columns + c];
}

}  // namespace needle
