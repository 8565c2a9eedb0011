#include "strides.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "parallel.h"
#include "simd.h"

namespace needle {

int64_t itemsize(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::int64: return 8;
    case DType::float32:
    case DType::int32: return 4;
    default: return 1;
  }
}

Loops::Loops(const View& written) : ndim(written.ndim) {
  std::copy_n(written.shape, ndim, shape);
  add(written);
}

void Loops::add(const View& view) {
  Operand& operand = operands[count++];
  operand.data = view.as<char>();
  operand.itemsize = itemsize(view.dtype);
  for (int d = 0; d < ndim; ++d) {  // along a single element nobody steps, so any number may stand there
    operand.strides[d] = shape[d] > 1 ? view.strides[d] * operand.itemsize : 0;
  }
}

void Loops::add_number(void* number, int64_t size) {
  Operand& operand = operands[count++];
  operand = {static_cast<char*>(number), size, {}};
}

static void move_axis(Loops& loops, int from, int to) {
  auto move = [=](int64_t* values) {
    if (from < to) std::rotate(values + from, values + from + 1, values + to + 1);
    else std::rotate(values + to, values + from, values + from + 1);
  };
  move(loops.shape);
  for (int k = 0; k < loops.count; ++k) move(loops.operands[k].strides);
}

static void remove_axis(Loops& loops, int axis) {
  move_axis(loops, axis, --loops.ndim);
}

static bool is_one_axis(const Loops& loops, int outer, int inner) {
  for (int k = 0; k < loops.count; ++k) {
    const int64_t* strides = loops.operands[k].strides;
    if (strides[outer] != strides[inner] * loops.shape[inner]) return false;
  }
  return true;
}

void simplify(Loops& loops) {
  for (int d = loops.ndim - 1; d >= 0; --d) {
    if (loops.shape[d] == 1) {
      remove_axis(loops, d);
    } else if (loops.operands[0].strides[d] < 0) {
      for (int k = 0; k < loops.count; ++k) {
        auto& operand = loops.operands[k];
        operand.data += (loops.shape[d] - 1) * operand.strides[d];
        operand.strides[d] = -operand.strides[d];
      }
    }
  }
  const int64_t* written = loops.operands[0].strides;
  for (int d = 1; d < loops.ndim; ++d) {  // insertion sort; equal strides stay in order
    int to = d;
    while (to > 0 && written[to - 1] < written[d]) --to;
    move_axis(loops, d, to);
  }
  for (int d = loops.ndim - 2; d >= 0; --d) {
    if (!is_one_axis(loops, d, d + 1)) continue;
    loops.shape[d + 1] *= loops.shape[d];
    remove_axis(loops, d);
  }
  if (loops.ndim == 0) {
    loops.ndim = 1;
    loops.shape[0] = 1;
    for (int k = 0; k < loops.count; ++k) loops.operands[k].strides[0] = loops.operands[k].itemsize;
  }
}

namespace {

constexpr int64_t kTaskElements = 8192;            // of a tile; also what a thread takes at least, of additions
constexpr int64_t kTileRows = 32, kTileColumns = 128;  // of a tile that is copied: 32 KB of doubles

// A matrix in memory: strides in bytes.
struct Matrix {
  char* data;
  int64_t row_stride, column_stride;
};

// A square of 16-byte registers, its rows in memory as columns: read at p, `stride` bytes apart, and written so.
void transpose(const char* p, int64_t stride, char* out, int64_t out_stride, std::integral_constant<int, 4>) {
  typedef Register<float, 4> R;
  R a, b, c, d;
  std::memcpy(&a, p, 16), std::memcpy(&b, p + stride, 16);
  std::memcpy(&c, p + 2 * stride, 16), std::memcpy(&d, p + 3 * stride, 16);
  R ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  R ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  R rows[] = {__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
              __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(out + i * out_stride, &rows[i], 16);
}
void transpose(const char* p, int64_t stride, char* out, int64_t out_stride, std::integral_constant<int, 8>) {
  typedef Register<double, 2> R;
  R a, b;
  std::memcpy(&a, p, 16), std::memcpy(&b, p + stride, 16);
  R rows[] = {__builtin_shufflevector(a, b, 0, 2), __builtin_shufflevector(a, b, 1, 3)};
  for (int i = 0; i < 2; ++i) std::memcpy(out + i * out_stride, &rows[i], 16);
}

template <int size>
void copy_tile(const Matrix& from, const Matrix& to, int64_t rows, int64_t columns) {
  auto source = [&](int64_t row, int64_t column) {
    return from.data + row * from.row_stride + column * from.column_stride;
  };
  auto target = [&](int64_t row, int64_t column) { return to.data + row * to.row_stride + column * to.column_stride; };
  auto copy = [&](int64_t first_row, int64_t first_column, int64_t end_row, int64_t end_column) {
    for (int64_t row = first_row; row < end_row; ++row)
      for (int64_t column = first_column; column < end_column; ++column)
        std::memcpy(target(row, column), source(row, column), size);
  };
  if (to.column_stride == size && from.column_stride == size) {
    for (int64_t row = 0; row < rows; ++row) std::memcpy(target(row, 0), source(row, 0), columns * size);
  } else if (to.column_stride == size && from.row_stride == size && size > 1) {
    constexpr int kSquare = 16 / size, kRows = 64 / size;  // a cache line is read at once
    int64_t full_rows = rows / kRows * kRows, full_columns = columns / kSquare * kSquare;
    for (int64_t row = 0; row < full_rows; row += kRows)
      for (int64_t column = 0; column < full_columns; column += kSquare)
        for (int64_t i = row; i < row + kRows; i += kSquare)
          transpose(source(i, column), from.column_stride, target(i, column), to.row_stride,
                    std::integral_constant<int, size == 1 ? 4 : size>());
    copy(0, full_columns, full_rows, columns);
    copy(full_rows, 0, rows, columns);
  } else {
    copy(0, 0, rows, columns);
  }
}

void copy_tile(int64_t itemsize, const Matrix& from, const Matrix& to, int64_t rows, int64_t columns) {
  if (from.row_stride == 0 && rows > 1 && to.row_stride == columns * itemsize && to.column_stride == itemsize) {
    copy_tile(itemsize, from, to, 1, columns);  // one row, repeated by doubling
    for (int64_t done = 1; done < rows; done *= 2)
      std::memcpy(to.data + done * to.row_stride, to.data, std::min(done, rows - done) * to.row_stride);
    return;
  }
  if (itemsize == 8) copy_tile<8>(from, to, rows, columns);
  else if (itemsize == 4) copy_tile<4>(from, to, rows, columns);
  else copy_tile<1>(from, to, rows, columns);
}

// The last two axes are cut into tiles; a task is a tile. `copied` operands go through scratch memory.
struct Tiling {
  int64_t rows, columns;            // of a full tile
  int64_t row_tiles, column_tiles;  // along the last two axes
  bool copied[kMaxOperands];
  bool joined;  // a tile's rows are short: they lie in scratch one behind the other, and are one row for the kernel
};

// The axis along which a permuted operand lies in memory becomes the last but one, so that a tile spans both.
void choose_row_axis(Loops& loops) {
  int last = loops.ndim - 1;
  for (int k = loops.count - 1; k >= 0; --k) {
    const auto& operand = loops.operands[k];
    int64_t stride = std::llabs(operand.strides[last]);
    if (stride == 0 || stride == operand.itemsize) continue;
    int best = last;
    for (int d = 0; d < last; ++d)
      if (operand.strides[d] != 0 && std::llabs(operand.strides[d]) < std::llabs(operand.strides[best])) best = d;
    if (best != last) {
      move_axis(loops, best, last - 1);
      return;
    }
  }
}

void add_axis(Loops& loops) {
  loops.shape[loops.ndim] = 1;
  for (int k = 0; k < loops.count; ++k) loops.operands[k].strides[loops.ndim] = 0;
  move_axis(loops, loops.ndim++, 0);
}

Tiling choose_tiling(const Loops& loops) {
  int64_t rows = loops.shape[loops.ndim - 2], columns = loops.shape[loops.ndim - 1];
  Tiling tiling{};
  tiling.joined = columns < 16 && rows > 1;
  bool any_copied = false, any_permuted = false;
  for (int k = 0; k < loops.count; ++k) {
    const auto& operand = loops.operands[k];
    int64_t row_stride = operand.strides[loops.ndim - 2], stride = operand.strides[loops.ndim - 1];
    bool plain = stride == operand.itemsize || (stride == 0 && k > 0);
    if (tiling.joined) plain &= row_stride == columns * stride;
    tiling.copied[k] = !plain;
    any_copied |= tiling.copied[k];
    any_permuted |= tiling.copied[k] && std::llabs(row_stride) < std::llabs(stride);
  }
  tiling.columns = std::min(columns, !any_copied ? kTaskElements : any_permuted ? kTileColumns : kTileRows * kTileColumns);
  tiling.rows = std::min(rows, std::max<int64_t>(1, (any_copied ? kTileRows * kTileColumns : kTaskElements) / tiling.columns));
  tiling.row_tiles = (rows + tiling.rows - 1) / tiling.rows;
  tiling.column_tiles = (columns + tiling.columns - 1) / tiling.columns;
  return tiling;
}

void run_tile(const Loops& loops, const Tiling& tiling, RowKernel kernel, const Matrix* matrices, int64_t rows,
              int64_t columns, char* scratch_memory) {
  if (kernel == nullptr) return copy_tile(loops.operands[0].itemsize, matrices[1], matrices[0], rows, columns);
  char* p[kMaxOperands];
  int64_t row_strides[kMaxOperands], steps[kMaxOperands];
  for (int k = 0; k < loops.count; ++k) {
    int64_t size = loops.operands[k].itemsize;
    const Matrix& matrix = matrices[k];
    p[k] = matrix.data;
    row_strides[k] = matrix.row_stride;
    steps[k] = matrix.column_stride != 0;
    if (!tiling.copied[k]) continue;
    p[k] = scratch_memory + k * tiling.rows * tiling.columns * 8;
    row_strides[k] = columns * size;
    steps[k] = 1;
    if (k > 0) copy_tile(size, matrix, {p[k], row_strides[k], size}, rows, columns);
  }
  char* first = p[0];
  if (tiling.joined) {
    kernel(p, steps, rows * columns);
  } else {
    for (int64_t row = 0; row < rows; ++row) {
      kernel(p, steps, columns);
      for (int k = 0; k < loops.count; ++k) p[k] += row_strides[k];
    }
  }
  int64_t size = loops.operands[0].itemsize;
  if (tiling.copied[0]) copy_tile(size, {first, row_strides[0], size}, matrices[0], rows, columns);
}

}  // namespace

void for_each_row(Loops loops, RowKernel kernel, int64_t cost) {
  simplify(loops);
  int64_t size = 1;
  for (int d = 0; d < loops.ndim; ++d) size *= loops.shape[d];
  if (size == 0) return;
  if (loops.ndim == 1) add_axis(loops);
  choose_row_axis(loops);
  Tiling tiling = choose_tiling(loops);

  // The tasks' index: the axes before the last two, then the tiles along these.
  int64_t shape[kMaxDims];
  int64_t strides[kMaxOperands][kMaxDims], numbers[2][kMaxDims] = {};
  int row = loops.ndim - 2, column = loops.ndim - 1;
  std::copy_n(loops.shape, row, shape);
  shape[row] = tiling.row_tiles, shape[column] = tiling.column_tiles;
  for (int k = 0; k < kMaxOperands; ++k) {
    const auto& operand = loops.operands[k < loops.count ? k : 0];
    std::copy_n(operand.strides, row, strides[k]);
    strides[k][row] = operand.strides[row] * tiling.rows, strides[k][column] = operand.strides[column] * tiling.columns;
  }
  numbers[0][row] = tiling.rows, numbers[1][column] = tiling.columns;

  int64_t tasks = 1;
  for (int d = 0; d < loops.ndim; ++d) tasks *= shape[d];
  int64_t grain = std::max<int64_t>(1, 4 * kTaskElements / (tiling.rows * tiling.columns * cost));
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
    bool any_copied = std::find(tiling.copied, tiling.copied + loops.count, true) != tiling.copied + loops.count;
    auto* memory = any_copied ? static_cast<char*>(scratch(7, loops.count * tiling.rows * tiling.columns * 8)) : nullptr;
    const int64_t* const all_strides[] = {strides[0], strides[1], strides[2], strides[3], numbers[0], numbers[1]};
    for_each_index(loops.ndim, shape, all_strides, begin, end, [&](const int64_t* offsets) {
      Matrix matrices[kMaxOperands];
      for (int k = 0; k < loops.count; ++k) {
        const auto& operand = loops.operands[k];
        matrices[k] = {operand.data + offsets[k], operand.strides[row], operand.strides[column]};
      }
      int64_t rows = std::min(tiling.rows, loops.shape[row] - offsets[4]);
      int64_t columns = std::min(tiling.columns, loops.shape[column] - offsets[5]);
      run_tile(loops, tiling, kernel, matrices, rows, columns, memory);
    });
  });
}

}  // namespace needle
