#include "winograd.h"

#include <algorithm>

#include "parallel.h"

namespace needle {
namespace {

constexpr int64_t kChannels = 16;  // a whole number of registers, of any instruction set

// The transforms along one axis, of registers of channels. Points 0, 1, -1 and infinity.
struct F2 {
  static constexpr int outputs = 2, size = 4;

  template <class T>
  static NEEDLE_INLINE void input(const Register<T>* x, Register<T>* y) {
    y[0] = x[0] - x[2];
    y[1] = x[1] + x[2];
    y[2] = x[2] - x[1];
    y[3] = x[1] - x[3];
  }
  template <class T>
  static NEEDLE_INLINE void filter(const Register<T>* x, Register<T>* y) {
    const Register<T> sum = (x[0] + x[2]) * T(0.5), middle = x[1] * T(0.5);
    y[0] = x[0];
    y[1] = sum + middle;
    y[2] = sum - middle;
    y[3] = x[2];
  }
  template <class T>
  static NEEDLE_INLINE void output(const Register<T>* x, Register<T>* y) {
    y[0] = x[0] + x[1] + x[2];
    y[1] = x[1] - x[2] - x[3];
  }
};

// Points 0, 1, -1, 2, -2 and infinity.
struct F4 {
  static constexpr int outputs = 4, size = 6;

  template <class T>
  static NEEDLE_INLINE void input(const Register<T>* x, Register<T>* y) {
    const Register<T> even = x[4] - x[2] * T(4), odd = x[3] - x[1] * T(4);
    const Register<T> near = x[4] - x[2], far = (x[3] - x[1]) * T(2);
    y[0] = x[0] * T(4) - x[2] * T(5) + x[4];
    y[1] = even + odd;
    y[2] = even - odd;
    y[3] = near + far;
    y[4] = near - far;
    y[5] = x[1] * T(4) - x[3] * T(5) + x[5];
  }
  template <class T>
  static NEEDLE_INLINE void filter(const Register<T>* x, Register<T>* y) {
    const Register<T> sum = (x[0] + x[2]) * T(-1.0 / 6), middle = x[1] * T(1.0 / 6);
    const Register<T> wide = x[0] * T(1.0 / 24) + x[2] * T(1.0 / 6), wide_middle = x[1] * T(1.0 / 12);
    y[0] = x[0] * T(0.25);
    y[1] = sum - middle;
    y[2] = sum + middle;
    y[3] = wide + wide_middle;
    y[4] = wide - wide_middle;
    y[5] = x[2];
  }
  template <class T>
  static NEEDLE_INLINE void output(const Register<T>* x, Register<T>* y) {
    const Register<T> sum = x[1] + x[2], difference = x[1] - x[2];
    const Register<T> far_sum = x[3] + x[4], far_difference = x[3] - x[4];
    y[0] = x[0] + sum + far_sum;
    y[1] = difference + far_difference * T(2);
    y[2] = sum + far_sum * T(4);
    y[3] = difference + far_difference * T(8) + x[5];
  }
};

// Both axes of a square of registers, from a x a to b x b: along(x, y) transforms one line.
template <class T, int a, int b, class Along>
NEEDLE_INLINE void both_axes(const Register<T> (&x)[a][a], Register<T> (&y)[b][b], Along along) {
  Register<T> half[a][b];
  unroll<a>([&](int i) __attribute__((always_inline)) { along(x[i], half[i]); });
  unroll<b>([&](int j) __attribute__((always_inline)) {
    Register<T> column[a], result[b];
    unroll<a>([&](int i) __attribute__((always_inline)) { column[i] = half[i][j]; });
    along(column, result);
    unroll<b>([&](int i) __attribute__((always_inline)) { y[i][j] = result[i]; });
  });
}

template <class F, class T>
class Winograd {
 public:
  Winograd(const Images<const T>& source, const Filter<T>& filter, WinogradPadding padding, const T* bias,
           const Images<T>& result)
      : source_(source), filter_(filter), padding_(padding), bias_(bias), result_(result),
        down_(ceil_div(result.h, F::outputs)), across_(ceil_div(result.w, F::outputs)),
        tiles_(result.n * down_ * across_), panels_(ceil_div(result.c, kTileColumns<T>)) {
    constexpr int64_t kBytes = 448 << 10;  // of transformed input: it stays in the second cache
    at_once_ = kBytes / (kPlanes * source.c * int64_t{sizeof(T)}) / kTileRows * kTileRows;
    at_once_ = std::min(std::max<int64_t>(at_once_, 2 * kTileRows), ceil_div(tiles_, num_threads()));
    filter_plane_ = apart(source.c * kTileColumns<T>);
    input_plane_ = apart(at_once_ * source.c);
    product_plane_ = apart(at_once_ * kTileColumns<T>);
    for (int64_t c = 0; c < source.c; ++c) steps_.push_back({c, c});
  }

  void run() {
    transform_filter();
    parallel_for(ceil_div(tiles_, at_once_), 1, [this](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) block(i * at_once_, std::min(tiles_, (i + 1) * at_once_));
    });
  }

 private:
  static constexpr int kSize = F::size, kPlanes = kSize * kSize;
  using Lanes = Register<T>;
  static constexpr int64_t kWidth = kRegisterLanes<T>;

  // Planes a multiple of 4096 bytes apart would share the sets of a cache.
  static int64_t apart(int64_t elements) {
    constexpr int64_t page = 4096 / sizeof(T), line = 64 / sizeof(T);
    return ceil_div(elements, page) * page + 3 * line;
  }

  // filter_planes_: (panel, plane, source channel, column)
  void transform_filter() {
    const int64_t rows = filter_.rows(), raw = packed_size<T>(rows, result_.c);
    T* packed = static_cast<T*>(scratch(kShared, (raw + panels_ * kPlanes * filter_plane_) * sizeof(T)));
    filter_planes_ = packed + raw;
    const int64_t grain = std::max<int64_t>(1, (1 << 13) / result_.c);
    parallel_for(source_.c, grain, [&](int64_t begin, int64_t end) {
      for (int64_t tap = 0; tap < 9; ++tap)
        pack(filter_.data + tap / 3 * filter_.kh_stride + tap % 3 * filter_.kw_stride + begin * filter_.source_stride,
             filter_.source_stride, filter_.result_stride, end - begin, result_.c,
             packed + (tap * source_.c + begin) * kTileColumns<T>, rows * kTileColumns<T>);
      for (int64_t panel = 0; panel < panels_; ++panel)
        for (int64_t c = begin; c < end; ++c)
          for (int64_t v = 0; v < kTileColumns<T>; v += kWidth)
            transform_filter_at(packed + panel * rows * kTileColumns<T> + c * kTileColumns<T> + v,
                                filter_planes_ + panel * kPlanes * filter_plane_ + c * kTileColumns<T> + v);
    });
  }

  void transform_filter_at(const T* from, T* to) const {
    Lanes x[3][3], y[kSize][kSize];
    const int64_t tap = source_.c * kTileColumns<T>;
    unroll<9>([&](int i) __attribute__((always_inline)) { x[i / 3][i % 3] = load_register(from + i * tap); });
    both_axes<T>(x, y, [](const Lanes* line, Lanes* into) __attribute__((always_inline)) {
      F::template filter<T>(line, into);
    });
    unroll<kPlanes>([&](int i) __attribute__((always_inline)) {
      store_register(to + i * filter_plane_, y[i / kSize][i % kSize]);
    });
  }

  void block(int64_t begin, int64_t end) const {
    const int64_t sizes = kPlanes * (input_plane_ + product_plane_) + source_.c;
    T* inputs = static_cast<T*>(scratch(kOwn, sizes * sizeof(T)));
    T* products = inputs + kPlanes * input_plane_;
    T* zeros = products + kPlanes * product_plane_;
    std::fill_n(zeros, source_.c, T{});
    for (int64_t tile = begin; tile < end; ++tile) transform_input(tile, zeros, inputs + (tile - begin) * source_.c);
    for (int64_t panel = 0; panel < panels_; ++panel) {
      const int64_t column = panel * kTileColumns<T>, columns = std::min<int64_t>(kTileColumns<T>, result_.c - column);
      for (int64_t plane = 0; plane < kPlanes; ++plane) {
        const T* filter = filter_planes_ + (panel * kPlanes + plane) * filter_plane_;
        const Right<T> right{filter, kTileColumns<T>, 0, columns, true};
        const Rows<T> rows{inputs + plane * input_plane_, products + plane * product_plane_,
                           {end - begin, source_.c, kTileColumns<T>}};
        for (int64_t c = 0; c < source_.c; c += kGroup)
          multiply<T>(rows, steps_.data() + c, steps_.data() + std::min(c + kGroup, source_.c), right, c == 0, nullptr);
      }
      for (int64_t tile = begin; tile < end; ++tile)
        transform_output(tile, products + (tile - begin) * kTileColumns<T>, column, columns);
    }
  }

  void transform_input(int64_t tile, const T* zeros, T* to) const {
    const int64_t n = tile / (down_ * across_);
    const int64_t top = tile / across_ % down_ * F::outputs - padding_.h;
    const int64_t left = tile % across_ * F::outputs - padding_.w;
    const T* image = source_.data + n * source_.n_stride;
    const T* pixel[kSize][kSize];
    for (int64_t i = 0; i < kSize; ++i)
      for (int64_t j = 0; j < kSize; ++j) {
        const int64_t h = top + i, w = left + j;
        const bool inside = h >= 0 && h < source_.h && w >= 0 && w < source_.w;
        pixel[i][j] = inside ? image + h * source_.h_stride + w * source_.w_stride : zeros;
      }
    for (int64_t c = 0; c < source_.c; c += kWidth) {
      Lanes x[kSize][kSize], y[kSize][kSize];
      unroll<kPlanes>([&](int i) __attribute__((always_inline)) {
        x[i / kSize][i % kSize] = load_register(pixel[i / kSize][i % kSize] + c);
      });
      both_axes<T>(x, y, [](const Lanes* from, Lanes* into) __attribute__((always_inline)) {
        F::template input<T>(from, into);
      });
      unroll<kPlanes>([&](int i) __attribute__((always_inline)) {
        store_register(to + c + i * input_plane_, y[i / kSize][i % kSize]);
      });
    }
  }

  void transform_output(int64_t tile, const T* from, int64_t column, int64_t columns) const {
    constexpr int outputs = F::outputs;
    const int64_t n = tile / (down_ * across_);
    const int64_t top = tile / across_ % down_ * outputs, left = tile % across_ * outputs;
    const int64_t rows = std::min<int64_t>(outputs, result_.h - top);
    const int64_t wide = std::min<int64_t>(outputs, result_.w - left);
    T* to = result_.data + n * result_.n_stride + top * result_.h_stride + left * result_.w_stride + column;
    for (int64_t c = 0; c < columns; c += kWidth) {
      Lanes x[kSize][kSize], y[outputs][outputs];
      unroll<kPlanes>([&](int i) __attribute__((always_inline)) {
        x[i / kSize][i % kSize] = load_register(from + c + i * product_plane_);
      });
      both_axes<T>(x, y, [](const Lanes* line, Lanes* into) __attribute__((always_inline)) {
        F::template output<T>(line, into);
      });
      const Lanes bias = bias_ ? load_register(bias_ + column + c) : Lanes{};
      unroll<outputs * outputs>([&](int k) __attribute__((always_inline)) {
        const int i = k / outputs, j = k % outputs;
        if (i < rows && j < wide)
          store_register(to + i * result_.h_stride + j * result_.w_stride + c, y[i][j] + bias);
      });
    }
  }

  const Images<const T> source_;
  const Filter<T> filter_;
  const WinogradPadding padding_;
  const T* const bias_;
  const Images<T> result_;
  const int64_t down_, across_, tiles_, panels_;
  int64_t at_once_, filter_plane_, input_plane_, product_plane_;
  std::vector<Step> steps_;
  T* filter_planes_ = nullptr;
};

// How many (result, tap) pairs along an axis lie on the source.
int64_t taps_reached(const std::vector<Run>& runs) {
  int64_t taps = 0;
  for (const Run& run : runs) taps += run.count * static_cast<int64_t>(run.taps.size());
  return taps;
}

}  // namespace

bool winograd_serves(const View& weight, const ConvSettings& s) {
  return weight.shape[0] == 3 && weight.shape[1] == 3 && s.groups == 1 && s.stride.h == 1 && s.stride.w == 1 &&
         s.dilation.h == 1 && s.dilation.w == 1 && weight.shape[2] % kChannels == 0 && weight.shape[3] % kChannels == 0;
}

bool winograd_wins(int64_t images, const std::vector<Run>& h, const std::vector<Run>& w, int64_t sources,
                   int64_t results) {
  // In multiplications of the product; a transform moves and adds what costs as much as so many of them.
  constexpr double kTransform = 8, kFilterTransform = 2000, kMargin = 1.1;
  const auto length = [](const std::vector<Run>& runs) {
    int64_t n = 0;
    for (const Run& run : runs) n += run.count;
    return n;
  };
  const double tiles = static_cast<double>(images) * ceil_div(length(h), 2) * ceil_div(length(w), 2);
  const double products = static_cast<double>(sources) * results;
  const double direct = static_cast<double>(images) * taps_reached(h) * taps_reached(w) * products;
  const double planes = 16 * tiles, transforms = planes * kTransform * (sources + results);
  return direct > kMargin * (planes * products + transforms + kFilterTransform * products);
}

template <class T>
void winograd(int outputs, const Images<const T>& source, const Filter<T>& filter, WinogradPadding padding,
              const T* bias, const Images<T>& result) {
  if (result.n * result.h * result.w * result.c == 0) return;
  if (outputs == F4::outputs)
    Winograd<F4, T>(source, filter, padding, bias, result).run();
  else
    Winograd<F2, T>(source, filter, padding, bias, result).run();
}

template void winograd<float>(int, const Images<const float>&, const Filter<float>&, WinogradPadding, const float*,
                              const Images<float>&);
template void winograd<double>(int, const Images<const double>&, const Filter<double>&, WinogradPadding, const double*,
                               const Images<double>&);

}  // namespace needle
