// What matrix products and convolutions share: many rows of A against panels of B, one group of the reduction axis at
// a time. Every element of C is a chain of fused multiply-adds in ascending order in groups of kGroup, each group from
// zero, the groups' sums added in order; so nothing depends on how the work is cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gemm_tile.h"

namespace needle {

constexpr int64_t kGroup = 256;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Slots of scratch(): what one call shares with all threads, and what each thread needs for itself.
enum Slot { kShared = 0, kOwn = 1, kDense = 2, kResult = 3, kDenseGradient = 4 };

// A loop over rows: how many, and how far apart in A and in C.
struct Loop {
  int64_t count, a, c;
};
// Rows of A and C that meet the same steps. Tiles run along `rows`, where they are `rows.a` apart in A; where those are
// few, a tile has those of two neighbours along `middle`.
template <class T>
struct Rows {
  const T* a;
  T* c;
  Loop rows;
  Loop middle{1, 0, 0}, outer{1, 0, 0};
  int64_t cold_steps = 0;  // what so many of the last steps read, and C, is in no near cache: it is asked for ahead
};

// Columns of B, in panels of kTileColumns. Packed panels are padded with zeros; in place, a panel that is not full is
// read from further left on, so that it must not be the first (see `can_stay`).
template <class T>
struct Right {
  const T* data;
  int64_t row, panel;  // elements from a row to the next, from a panel to the next
  int64_t columns;
  bool packed;
};

template <class T>
inline Right<T> in_place(const T* data, int64_t row, int64_t columns) {
  return {data, row, kTileColumns<T>, columns, false};
}
template <class T>
inline bool can_stay(int64_t columns, int64_t column_stride) {
  return column_stride == 1 && (columns == kRegisterLanes<T> || columns >= kTileColumns<T>);
}

// Elements that packing takes.
template <class T>
inline int64_t packed_size(int64_t rows, int64_t columns) {
  return ceil_div(columns, kTileColumns<T>) * kTileColumns<T> * rows;
}
// Packs `rows` rows; `packed` is the place of the first in the first panel, the next panel is `panel` elements on.
template <class T>
void pack(const T* b, int64_t row_stride, int64_t column_stride, int64_t rows, int64_t columns, T* packed,
          int64_t panel);
template <class T>
inline Right<T> packed_panels(const T* data, int64_t rows, int64_t columns) {
  return {data, kTileColumns<T>, kTileColumns<T> * rows, columns, true};
}

// C (+)= A B for the steps of one group. `first` says that C is not to be read; the bias is added at the end.
template <class T>
void multiply(const Rows<T>& rows, const Step* begin, const Step* end, const Right<T>& b, bool first, const T* bias);
// The same for rows at a + offsets[i], which are `c_stride` apart in C = A B.
template <class T>
void multiply(const T* a, const std::vector<int64_t>& offsets, const Step* begin, const Step* end, const Right<T>& b,
              T* c, int64_t c_stride);

// The number of rows of a tile that is so many registers wide: no more than it may read without evicting itself. Rows a
// multiple of 4096 bytes apart share the sets of a cache, whose ways are 8 at least.
template <class T>
inline int64_t tile_rows(int64_t a_stride, int registers) {
  constexpr int64_t kPeriod = 4096, kWays = 8;
  const int64_t apart = (a_stride * int64_t{sizeof(T)}) | kPeriod;
  const int64_t places = kPeriod / (apart & -apart);  // the greatest power of two that divides `apart`
  return std::min<int64_t>(registers == 1 ? 2 * kTileRows : kTileRows, kWays * places);
}

// A list of steps, cut into the groups of the reduction axis that are not empty.
struct Steps {
  std::vector<Step> list;
  std::vector<int64_t> groups{0};  // group i is list[groups[i]] ... list[groups[i + 1]]

  // Positions ascend; `length` of them, from `position` on, lie a_step apart in A and one apart in B from `b` on.
  void append(int64_t position, int64_t length, int64_t a, int64_t a_step, int64_t b);
  int64_t count() const { return static_cast<int64_t>(groups.size()) - 1; }
  const Step* begin(int64_t group) const { return list.data() + groups[group]; }
  const Step* end(int64_t group) const { return list.data() + groups[group + 1]; }

 private:
  int64_t last_group_ = -1;
};

}  // namespace needle
