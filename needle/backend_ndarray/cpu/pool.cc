// Pooling, its gradients and the adjoint of these.
#include "pool.h"

#include <limits>

namespace needle {

PoolLayout::PoolLayout(const View& image, const View& windows, const PoolSettings& settings, const View& lead)
    : images(image.shape[0]), channels(image.shape[1]),
      h{image.shape[2], windows.shape[2], settings.kernel.h, settings.stride.h, settings.padding.h},
      w{image.shape[3], windows.shape[3], settings.kernel.w, settings.stride.w, settings.padding.w} {
  Order order = memory_order(lead);
  while (order.size() > 1 && lead.shape[order.back()] == 1) order.pop_back();
  channels_inner = order.back() == 1;
}

std::vector<int64_t> PoolLayout::tap_offsets() const {
  std::vector<int64_t> offsets;
  for (int64_t kw = 0; kw < w.kernel; ++kw) offsets.push_back(kw % w.stride * phase_length() + kw / w.stride);
  return offsets;
}

namespace {

template <class T, class Position>
struct Max {
  T* out;
  Position* positions;

  struct State {
    Vec<T> best;
    Vec<Int<T>> position;
  };
  NEEDLE_INLINE State begin(Vec<Int<T>> first_tap) const {
    return {Vec<T>(-std::numeric_limits<T>::infinity()), first_tap};
  }
  NEEDLE_INLINE void tap(State& state, Vec<T> v, int64_t k) const {  // the first maximum stays, and the first NaN
    const Vec<Int<T>> wins = ~(v <= state.best) & (state.best == state.best);
    state.best = select(wins, v, state.best);
    state.position = select(wins, Vec<Int<T>>(Int<T>(k)), state.position);
  }
  NEEDLE_INLINE void end_row(State&) const {}
  NEEDLE_INLINE void finish(const State& state, AllLanes, int64_t at, Vec<T>) const {
    store(out + at, state.best);
    store_integers(positions + at, state.position);
  }
  NEEDLE_INLINE void finish(const State& state, FirstLanes lanes, int64_t at, Vec<T>) const {
    Position whole[kLanes];
    store_integers(whole, state.position);
    std::copy(whole, whole + lanes.n, positions + at);
    lanes.store(out + at, state.best);
  }
};

template <class T>
struct Mean {  // rows are summed first, then their sums
  T* out;

  struct State {
    Vec<T> total, row;
  };
  NEEDLE_INLINE State begin(Vec<Int<T>>) const { return {Vec<T>(T(0)), Vec<T>(T(0))}; }
  NEEDLE_INLINE void tap(State& state, Vec<T> v, int64_t) const { state.row += v; }
  NEEDLE_INLINE void end_row(State& state) const {
    state.total += state.row;
    state.row = Vec<T>(T(0));
  }
  template <class Lanes>
  NEEDLE_INLINE void finish(const State& state, Lanes lanes, int64_t at, Vec<T> count) const {
    lanes.store(out + at, state.total / count);
  }
};

template <class T>
NEEDLE_INLINE Vec<T> first_lanes(Vec<T> v, int64_t n) {
  static constexpr uint8_t kNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return select(load_integers<Int<T>>(kNumbers) < Vec<Int<T>>(Int<T>(n)), v, Vec<T>(T(0)));
}

template <class T, class Position>
struct ToMaximum {
  const T* d;
  const Position* positions;

  struct Given {
    Vec<T> d;
    Vec<Int<T>> position;
  };
  NEEDLE_INLINE Given load(AllLanes, int64_t at) const {
    return {needle::load(d + at), load_integers<Int<T>>(positions + at)};
  }
  NEEDLE_INLINE Given load(FirstLanes lanes, int64_t at) const {
    Position whole[kLanes] = {};
    std::copy(positions + at, positions + at + lanes.n, whole);
    return {lanes.load<T>(d + at), load_integers<Int<T>>(whole)};
  }
  NEEDLE_INLINE Given first(Given given, int64_t n) const { return {first_lanes(given.d, n), given.position}; }
  NEEDLE_INLINE Vec<T> at(const Given& given, int64_t k) const {
    return select(given.position == Vec<Int<T>>(Int<T>(k)), given.d, Vec<T>(T(0)));
  }
};

template <class T>
struct ToAll {
  const T* d;

  template <class Lanes>
  NEEDLE_INLINE Vec<T> load(Lanes lanes, int64_t at) const {
    return lanes.template load<T>(d + at);
  }
  NEEDLE_INLINE Vec<T> first(Vec<T> given, int64_t n) const { return first_lanes(given, n); }
  NEEDLE_INLINE Vec<T> at(Vec<T> given, int64_t) const { return given; }
};

template <class T, class Pooling>
void pool(const PoolLayout& layout, const View& x, T padding, bool include_pad, const Pooling& pooling) {
  if (!layout.channels_inner) return pool_rows(layout, x.as<T>(), padding, include_pad, pooling);
  (layout.has_kernel(2) ? pool_channels<2, T, Pooling> : pool_channels<0, T, Pooling>)(layout, x.as<T>(), include_pad, pooling);
}

template <class T, class Share>
void unpool(const PoolLayout& layout, const View& out, const Share& share) {
  if (!layout.channels_inner) return unpool_rows(layout, out.as<T>(), share);
  const bool apart = layout.h.kernel <= layout.h.stride && layout.w.kernel <= layout.w.stride;
  const auto run = !apart                  ? unpool_channels<T, Share>
                   : layout.has_kernel(2) ? unpool_channels_apart<2, T, Share>
                                           : unpool_channels_apart<0, T, Share>;
  run(layout, out.as<T>(), share);
}

template <class T, class Position>
void max_pool_as(const View& x, const View& out, const View& positions, const PoolSettings& settings) {
  const PoolLayout layout(x, out, settings, x);
  const Staged from = stage_dense(x, layout.order()), to = stage_dense(out, layout.order(), false);
  const Staged places = stage_dense(positions, layout.order(), false);
  pool<T>(layout, from.view(), -std::numeric_limits<T>::infinity(), false,
          Max<T, Position>{to.view().as<T>(), places.view().as<Position>()});
  to.write_back();
  places.write_back();
}

template <class T, class Position>
void max_pool_gradient_as(const View& d, const View& positions, const View& out, const PoolSettings& settings) {
  const PoolLayout layout(out, d, settings, out);
  const Staged from = stage_dense(d, layout.order()), places = stage_dense(positions, layout.order());
  const Staged to = stage_dense(out, layout.order(), false);
  unpool<T>(layout, to.view(), ToMaximum<T, Position>{from.view().as<T>(), places.view().as<Position>()});
  to.write_back();
}

template <class T, class Position>
void max_pool_gather_as(const View& x, const View& positions, const View& out, const PoolSettings& settings) {
  const PoolLayout g(x, out, settings, x);
  const auto element = [](auto* data, const View& a, int64_t n, int64_t c, int64_t i, int64_t j) -> auto& {
    return data[n * a.strides[0] + c * a.strides[1] + i * a.strides[2] + j * a.strides[3]];
  };
  parallel_for(g.images * g.h.windows, g.grain(g.w.windows * g.channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / g.h.windows, ho = i % g.h.windows;
      for (int64_t wo = 0; wo < g.w.windows; ++wo)
        for (int64_t c = 0; c < g.channels; ++c) {
          const int64_t k = element(positions.as<Position>(), positions, n, c, ho, wo);
          const int64_t row = ho * g.h.stride - g.h.padding + k / g.w.kernel;
          const int64_t column = wo * g.w.stride - g.w.padding + k % g.w.kernel;
          const bool inside = k >= 0 && row >= 0 && row < g.h.size && column >= 0 && column < g.w.size;
          element(out.as<T>(), out, n, c, ho, wo) = inside ? element(x.as<T>(), x, n, c, row, column) : T(0);
        }
    }
  });
}

template <class T>
void avg_pool_as(const View& x, const View& out, const PoolSettings& settings, bool include_pad) {
  const PoolLayout layout(x, out, settings, x);
  const Staged from = stage_dense(x, layout.order()), to = stage_dense(out, layout.order(), false);
  pool<T>(layout, from.view(), T(0), include_pad, Mean<T>{to.view().as<T>()});
  to.write_back();
}

template <class T>
void avg_pool_gradient_as(const View& d, const View& out, const PoolSettings& settings, bool include_pad) {
  const PoolLayout g(out, d, settings, out);
  const Staged shares(d, g.order()), to = stage_dense(out, g.order(), false);
  std::vector<T> counts;  // of pixels, by window
  for (int64_t ho = 0; ho < g.h.windows; ++ho)
    for (int64_t wo = 0; wo < g.w.windows; ++wo)
      counts.push_back(T(g.h.count(ho, include_pad) * g.w.count(wo, include_pad)));
  const int64_t plane = int64_t(counts.size());
  T* share = shares.view().as<T>();
  parallel_for(g.images, g.grain(plane * g.channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * plane * g.channels; i < end * plane * g.channels;)
      if (g.channels_inner) {
        const T count = counts[i / g.channels % plane];
        for (int64_t c = 0; c < g.channels; ++c) share[i++] /= count;
      } else {
        for (int64_t p = 0; p < plane; ++p) share[i++] /= counts[p];
      }
  });
  unpool<T>(g, to.view(), ToAll<T>{share});
  to.write_back();
}

// kernel.operator()<T, Position>() for the types of a view and of positions.
template <class Kernel>
void dispatch(const View& a, const View& positions, const Kernel& kernel) {
  const bool small = positions.dtype == DType::uint8;
  if (a.dtype == DType::float32)
    small ? kernel(float{}, uint8_t{}) : kernel(float{}, int32_t{});
  else
    small ? kernel(double{}, uint8_t{}) : kernel(double{}, int32_t{});
}

}  // namespace

void max_pool(const View& x, const View& out, const View& positions, const PoolSettings& settings) {
  if (out.size() == 0) return;
  dispatch(x, positions, [&](auto number, auto position) {
    max_pool_as<decltype(number), decltype(position)>(x, out, positions, settings);
  });
}

void max_pool_gradient(const View& d, const View& positions, const View& out, const PoolSettings& settings) {
  if (out.size() == 0) return;
  dispatch(d, positions, [&](auto number, auto position) {
    max_pool_gradient_as<decltype(number), decltype(position)>(d, positions, out, settings);
  });
}

void max_pool_gather(const View& x, const View& positions, const View& out, const PoolSettings& settings) {
  if (out.size() == 0) return;
  dispatch(x, positions, [&](auto number, auto position) {
    max_pool_gather_as<decltype(number), decltype(position)>(x, positions, out, settings);
  });
}

void avg_pool(const View& x, const View& out, const PoolSettings& settings, bool count_include_pad) {
  if (out.size() == 0) return;
  const auto run = x.dtype == DType::float32 ? avg_pool_as<float> : avg_pool_as<double>;
  run(x, out, settings, count_include_pad);
}

void avg_pool_gradient(const View& d, const View& out, const PoolSettings& settings, bool count_include_pad) {
  if (out.size() == 0) return;
  const auto run = d.dtype == DType::float32 ? avg_pool_gradient_as<float> : avg_pool_gradient_as<double>;
  run(d, out, settings, count_include_pad);
}

}  // namespace needle
