#include <algorithm>

#include "gemm.h"
#include "kernels.h"
#include "parallel.h"

namespace needle {
namespace {

constexpr int64_t kColumns = 512;  // of B at once: a group of them fills half of the second cache
constexpr int64_t kChunk = 4 * kTileRows;  // rows of A at once: share a panel while it is in the first cache

template <class T>
struct Matrix {
  T* data;
  int64_t row, column;  // strides
};

// One matrix product, C = A B with A (m, k) and B (k, n); the columns of C lie next to each other.
template <class T>
struct Product {
  Matrix<const T> a, b;
  Matrix<T> c;
  int64_t m, k, n;

  // A is read where it lies if its rows or its columns are lines of memory that the caches can hold together.
  bool a_stays() const {
    if (a.column == 1 || n <= kTileColumns<T>) return true;
    return a.row == 1 && a.column * int64_t{sizeof(T)} % 2048 != 0;
  }
  bool b_stays(int64_t rows) const {
    if (!can_stay<T>(n, b.column)) return false;
    return rows <= 2 * kTileRows || b.row * int64_t{sizeof(T)} % 2048 != 0;
  }

  // C[m0:m1, n0:n1]
  void block(int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    const bool pack_a = !a_stays(), pack_b = !b_stays(m1 - m0) || !can_stay<T>(n1 - n0, b.column);
    Step steps[kGroup];
    const int64_t longest = std::min(k, kGroup), step = pack_a ? kChunk : a.column;
    for (int64_t i = 0; i < longest; ++i) steps[i] = {i * step, i};
    const int64_t b_size = pack_b ? packed_size<T>(longest, n1 - n0) : 0;
    T* own = pack_a || pack_b
                 ? static_cast<T*>(scratch(kOwn, (b_size + (pack_a ? kChunk * longest : 0)) * sizeof(T)))
                 : nullptr;
    int64_t k0 = 0;
    do {  // at least once: an empty sum is zero
      const int64_t length = std::min(k - k0, kGroup);
      const T* right = b.data + k0 * b.row + n0 * b.column;
      if (pack_b) pack(right, b.row, b.column, length, n1 - n0, own, kTileColumns<T> * length);
      const Right<T> panels =
          pack_b ? packed_panels<T>(own, length, n1 - n0) : in_place<T>(right, b.row, n1 - n0);
      for (int64_t row = m0; row < m1;) {
        const int64_t count = std::min(kChunk, m1 - row);
        Rows<T> rows{a.data + row * a.row + k0 * a.column, c.data + row * c.row + n0, {count, a.row, c.row}};
        if (pack_a) {
          pack_rows(rows, length, own + b_size);
          rows.a = own + b_size;
          rows.rows.a = 1;
        }
        if (a.column == 1 && !pack_a) rows.cold_steps = length;
        multiply<T>(rows, steps, steps + length, panels, k0 == 0, nullptr);
        row += count;
      }
      k0 += kGroup;
    } while (k0 < k);
  }

 private:
  // (rows, length) -> (length, kChunk)
  void pack_rows(const Rows<T>& rows, int64_t length, T* packed) const {
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j < rows.rows.count; ++j) packed[i * kChunk + j] = rows.a[j * a.row + i * a.column];
  }
};

// How C is cut: along n until a block of B is small, then along the longer side until there is work for all threads.
struct Cut {
  int64_t m, n;  // parts
};
template <class T>
Cut cut(const Product<T>& p, int64_t batch) {
  constexpr int64_t kWorthATask = 1 << 18;  // multiplications
  Cut parts{1, ceil_div(p.n, kColumns)};
  const double work = static_cast<double>(p.m) * p.n * p.k * batch;
  const int64_t wanted = std::min<int64_t>(num_threads() == 1 ? 1 : 4 * num_threads(), work / kWorthATask);
  while (batch * parts.m * parts.n < wanted) {
    const int64_t rows = p.m / parts.m, columns = p.n / parts.n;
    const bool along_m = p.b_stays(rows) ? rows >= 2 * kTileRows : rows > 4 * columns;
    if (along_m && rows >= 2 * kTileRows)
      parts.m *= 2;
    else if (columns >= 4 * kTileColumns<T>)
      parts.n *= 2;
    else if (rows >= 2 * kTileRows)
      parts.m *= 2;
    else
      break;
  }
  return parts;
}

// The offset of the matrix at `index` (row-major over out's leading axes) in an operand that broadcasts to out.
int64_t leading_offset(const View& operand, const View& out, int64_t index) {
  int64_t offset = 0;
  for (int i = out.ndim - 3; i >= 0; --i) {
    const int axis = i - (out.ndim - operand.ndim);
    if (axis >= 0 && operand.shape[axis] != 1) offset += index % out.shape[i] * operand.strides[axis];
    index /= out.shape[i];
  }
  return offset;
}

// How many rows the left matrices have together, if all meet the same right one and their rows lie evenly; else 0.
int64_t joined_rows(const View& a, const View& b, const View& out) {
  int64_t rows = out.shape[out.ndim - 2];
  for (int i = out.ndim - 3; i >= 0; --i) {
    const int of_a = i - (out.ndim - a.ndim), of_b = i - (out.ndim - b.ndim);
    if (of_b >= 0 && b.shape[of_b] != 1) return 0;
    if (out.shape[i] == 1) continue;
    if (of_a < 0 || a.shape[of_a] == 1 || a.strides[of_a] != rows * a.strides[a.ndim - 2] ||
        out.strides[i] != rows * out.strides[out.ndim - 2])
      return 0;
    rows *= out.shape[i];
  }
  return rows;
}

template <class T>
void matmul_to_rows(const View& a, const View& b, const View& out) {
  const int last = out.ndim - 1;
  Product<T> p{{a.as<T>(), a.strides[a.ndim - 2], a.strides[a.ndim - 1]},
               {b.as<T>(), b.strides[b.ndim - 2], b.strides[b.ndim - 1]},
               {out.as<T>(), out.strides[last - 1], out.strides[last]},
               out.shape[last - 1],
               a.shape[a.ndim - 1],
               out.shape[last]};
  if (const int64_t rows = joined_rows(a, b, out)) p.m = rows;
  const int64_t batch = out.size() / (p.m * p.n);
  const Cut parts = cut(p, batch);
  const int64_t blocks = parts.m * parts.n;
  const int64_t column_tiles = ceil_div(p.n, kTileColumns<T>);
  parallel_for(batch * blocks, std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, p.m * p.n * p.k)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t matrix = i / blocks, row = i % blocks / parts.n, column = i % parts.n;
                   Product<T> one = p;
                   one.a.data += leading_offset(a, out, matrix);
                   one.b.data += leading_offset(b, out, matrix);
                   one.c.data += leading_offset(out, out, matrix);
                   one.block(p.m * row / parts.m, p.m * (row + 1) / parts.m,
                             column_tiles * column / parts.n * kTileColumns<T>,
                             std::min(p.n, column_tiles * (column + 1) / parts.n * kTileColumns<T>));
                 }
               });
}

View dense_like(const View& view, void* data) {
  View dense = view;
  dense.data = data;
  for (int64_t i = view.ndim - 1, stride = 1; i >= 0; stride *= view.shape[i--]) dense.strides[i] = stride;
  return dense;
}

template <class T>
void matmul_of(const View& a, const View& b, const View& out) {
  if (out.size() == 0) return;
  if (out.strides[out.ndim - 1] == 1 || out.shape[out.ndim - 1] == 1) return matmul_to_rows<T>(a, b, out);
  const View dense = dense_like(out, scratch(kResult, out.size() * sizeof(T)));
  matmul_to_rows<T>(a, b, dense);
  copy(dense, out);
}

}  // namespace

void matmul(const View& a, const View& b, const View& out) {
  if (out.dtype == DType::float32)
    matmul_of<float>(a, b, out);
  else
    matmul_of<double>(a, b, out);
}

void matmul_tiled(const float* a, const float* b, float* out, int64_t m, int64_t n, int64_t p) {
  constexpr int64_t t = 8;
  // Tiles (rows/t, columns/t, t, t) as (rows/t, t, columns/t, t).
  const auto tiled = [](const float* data, int64_t rows, int64_t columns) {
    return View{const_cast<float*>(data), DType::float32, 4,
                {rows / t, t, columns / t, t},
                {columns * t, t, t * t, 1}};
  };
  float* plain = static_cast<float*>(scratch(kShared, (m * n + n * p + m * p) * sizeof(float)));
  const View plain_a = dense_like(tiled(a, m, n), plain);
  const View plain_b = dense_like(tiled(b, n, p), plain + m * n);
  const View plain_out = dense_like(tiled(out, m, p), plain + m * n + n * p);
  copy(tiled(a, m, n), plain_a);
  copy(tiled(b, n, p), plain_b);
  matmul(View{plain_a.data, DType::float32, 2, {m, n}, {n, 1}}, View{plain_b.data, DType::float32, 2, {n, p}, {p, 1}},
         View{plain_out.data, DType::float32, 2, {m, p}, {p, 1}});
  copy(plain_out, tiled(out, m, p));
}

}  // namespace needle
