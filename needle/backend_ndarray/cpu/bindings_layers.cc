// Convolution, pooling, normalisation and optimizer steps. Sizes are checked here as far as memory is at stake; what
// says why sizes do not fit is layers.py.
#include <cmath>
#include <limits>

#include "dispatch.h"

namespace needle {
namespace {

using py::handle;

constexpr int64_t kMostLength = std::numeric_limits<int32_t>::max();  // so that no product of two overflows

void expect_axes(const Call& call, const Argument& a, int ndim) {
  bool fits = a.view.ndim == ndim;
  for (int i = 0; fits && i < ndim; ++i) fits = a.view.shape[i] <= kMostLength;
  if (!fits) {
    call.shape_error(std::string(a.name) + " has shape " + a.shape() + "; it must have " + std::to_string(ndim) +
                     " axes, none longer than 2**31 - 1");
  }
}

// An argument that may be None.
class Optional {
 public:
  Optional(const Call& call, const char* name, handle object, bool written) : given_(!object.is_none()) {
    if (given_) argument_ = written ? Argument::output(call, name, object) : Argument(call, name, object);
  }
  explicit operator bool() const { return given_; }
  Argument& operator*() { return argument_; }
  const View* view() const { return given_ ? &argument_.view : nullptr; }

 private:
  bool given_;
  Argument argument_;
};

// Convolution.

ConvSettings parse_settings(const Call& call, handle stride, handle padding, handle dilation, int64_t groups) {
  call.expect(groups >= 1, "groups must be positive");
  return {parse_pair(call, "stride", stride, 1), parse_pair(call, "padding", padding, 0),
          parse_pair(call, "dilation", dilation, 1), groups};
}

// x (N, H, W, C), weight (Kh, Kw, C / groups, O), y (N, Ho, Wo, O), whichever of them is the result.
void expect_conv(const Call& call, const Argument& x, const Argument& weight, const Argument& y,
                 const ConvSettings& settings) {
  for (const Argument* a : {&x, &weight, &y}) expect_axes(call, *a, 4);
  expect_same_dtype(call, x, weight);
  expect_same_dtype(call, x, y);
  const int64_t *in = x.view.shape, *kernel = weight.view.shape, *out = y.view.shape;
  auto size = [](int64_t n, int64_t k, int64_t stride, int64_t padding, int64_t dilation) {
    int64_t room = n + 2 * padding - dilation * (k - 1) - 1;
    return room < 0 ? -1 : room / stride + 1;
  };
  call.expect(in[0] == out[0] && kernel[0] >= 1 && kernel[1] >= 1 &&
                  out[1] == size(in[1], kernel[0], settings.stride.h, settings.padding.h, settings.dilation.h) &&
                  out[2] == size(in[2], kernel[1], settings.stride.w, settings.padding.w, settings.dilation.w),
              "the sizes of input, weight and output do not belong together");
  call.expect(in[3] % settings.groups == 0 && in[3] / settings.groups == kernel[2] && out[3] == kernel[3] &&
                  out[3] % settings.groups == 0,
              "the channels of input, weight and output do not belong together");
}

void bind_conv(py::module_& m) {
  def(m, "conv", [](handle x, handle weight, handle bias, handle out, handle stride, handle padding, handle dilation,
                    int64_t groups) {
    const Call call{"conv"};
    ConvSettings settings = parse_settings(call, stride, padding, dilation, groups);
    Argument image(call, "x", x), filter(call, "weight", weight), y = Argument::output(call, "out", out);
    expect_conv(call, image, filter, y, settings);
    Optional shift(call, "bias", bias, false);
    if (shift) {
      expect_same_dtype(call, *shift, y);
      call.expect((*shift).view.ndim == 1 && (*shift).view.shape[0] == y.view.shape[3], "the bias must be (O,)");
    }
    if (y.is_float()) {
      image.separate_from(y);
      filter.separate_from(y);
      if (shift) (*shift).separate_from(y);
    }
    dispatch(call, y.is_float(), std::max(y.size(), image.size()),
             [&] { conv(image.view, filter.view, shift.view(), y.view, settings); },
             x, weight, bias, out, stride, padding, dilation, groups);
  }, "x", "weight", "bias", "out", "stride", "padding", "dilation", "groups");

  def(m, "conv_input_gradient", [](handle d, handle weight, handle out, handle stride, handle padding,
                                   handle dilation, int64_t groups) {
    const Call call{"conv_input_gradient"};
    ConvSettings settings = parse_settings(call, stride, padding, dilation, groups);
    Argument gradient(call, "d", d), filter(call, "weight", weight), y = Argument::output(call, "out", out);
    expect_conv(call, y, filter, gradient, settings);
    if (y.is_float()) {
      gradient.separate_from(y);
      filter.separate_from(y);
    }
    dispatch(call, y.is_float(), std::max(y.size(), gradient.size()),
             [&] { conv_input_gradient(gradient.view, filter.view, y.view, settings); },
             d, weight, out, stride, padding, dilation, groups);
  }, "d", "weight", "out", "stride", "padding", "dilation", "groups");

  def(m, "conv_weight_gradient", [](handle x, handle d, handle out, handle stride, handle padding, handle dilation,
                                    int64_t groups) {
    const Call call{"conv_weight_gradient"};
    ConvSettings settings = parse_settings(call, stride, padding, dilation, groups);
    Argument image(call, "x", x), gradient(call, "d", d), y = Argument::output(call, "out", out);
    expect_conv(call, image, y, gradient, settings);
    if (y.is_float()) {
      image.separate_from(y);
      gradient.separate_from(y);
    }
    dispatch(call, y.is_float(), std::max({y.size(), image.size(), gradient.size()}),
             [&] { conv_weight_gradient(image.view, gradient.view, y.view, settings); },
             x, d, out, stride, padding, dilation, groups);
  }, "x", "d", "out", "stride", "padding", "dilation", "groups");
}

// Pooling.

PoolSettings parse_pool(const Call& call, handle kernel, handle stride, handle padding) {
  return {parse_pair(call, "kernel", kernel, 1), parse_pair(call, "stride", stride, 1),
          parse_pair(call, "padding", padding, 0)};
}

// Images (N, C, H, W) and windows (N, C, Ho, Wo): every window begins on the padded image, and reaches a pixel.
void expect_pool(const Call& call, const Argument& images, const Argument& windows, const PoolSettings& settings) {
  expect_axes(call, images, 4);
  expect_axes(call, windows, 4);
  auto fits = [](int64_t n, int64_t windows, int64_t kernel, int64_t stride, int64_t padding) {
    return windows == 0 || (padding < kernel && (windows - 1) * stride < n + padding);
  };
  const int64_t *in = images.view.shape, *out = windows.view.shape;
  call.expect(in[0] == out[0] && in[1] == out[1] &&
                  fits(in[2], out[2], settings.kernel.h, settings.stride.h, settings.padding.h) &&
                  fits(in[3], out[3], settings.kernel.w, settings.stride.w, settings.padding.w),
              "the sizes of images and windows do not belong together");
}

void expect_positions(const Call& call, const Argument& positions, const PoolSettings& settings) {
  const bool small = settings.kernel.h * settings.kernel.w <= 256;
  if (positions.view.dtype != DType::int32 && !(small && positions.view.dtype == DType::uint8)) {
    call.dtype_error("positions must be uint8 for windows of at most 256 pixels, or int32");
  }
}

void bind_pool(py::module_& m) {
  def(m, "max_pool", [](handle x, handle out, handle positions, handle kernel, handle stride, handle padding) {
    const Call call{"max_pool"};
    PoolSettings settings = parse_pool(call, kernel, stride, padding);
    Argument images(call, "x", x), y = Argument::output(call, "out", out),
             place = Argument::output(call, "positions", positions);
    expect_same_dtype(call, images, y);
    expect_positions(call, place, settings);
    expect_pool(call, images, y, settings);
    expect_same_shape(call, y, place);
    if (y.is_float()) images.separate_from(y);
    dispatch(call, y.is_float(), images.size(), [&] { max_pool(images.view, y.view, place.view, settings); },
             x, out, positions, kernel, stride, padding);
  }, "x", "out", "positions", "kernel", "stride", "padding");

  def(m, "max_pool_gradient", [](handle d, handle positions, handle out, handle kernel, handle stride,
                                 handle padding) {
    const Call call{"max_pool_gradient"};
    PoolSettings settings = parse_pool(call, kernel, stride, padding);
    Argument gradient(call, "d", d), place(call, "positions", positions), y = Argument::output(call, "out", out);
    expect_same_dtype(call, gradient, y);
    expect_positions(call, place, settings);
    expect_pool(call, y, gradient, settings);
    expect_same_shape(call, gradient, place);
    if (y.is_float()) gradient.separate_from(y);
    dispatch(call, y.is_float(), y.size(), [&] { max_pool_gradient(gradient.view, place.view, y.view, settings); },
             d, positions, out, kernel, stride, padding);
  }, "d", "positions", "out", "kernel", "stride", "padding");

  def(m, "max_pool_gather", [](handle x, handle positions, handle out, handle kernel, handle stride, handle padding) {
    const Call call{"max_pool_gather"};
    PoolSettings settings = parse_pool(call, kernel, stride, padding);
    Argument images(call, "x", x), place(call, "positions", positions), y = Argument::output(call, "out", out);
    expect_same_dtype(call, images, y);
    expect_positions(call, place, settings);
    expect_pool(call, images, y, settings);
    expect_same_shape(call, y, place);
    if (y.is_float()) images.separate_from(y);
    dispatch(call, y.is_float(), images.size(), [&] { max_pool_gather(images.view, place.view, y.view, settings); },
             x, positions, out, kernel, stride, padding);
  }, "x", "positions", "out", "kernel", "stride", "padding");

  def(m, "avg_pool", [](handle x, handle out, handle kernel, handle stride, handle padding, bool count_include_pad) {
    const Call call{"avg_pool"};
    PoolSettings settings = parse_pool(call, kernel, stride, padding);
    Argument images(call, "x", x), y = Argument::output(call, "out", out);
    expect_same_dtype(call, images, y);
    expect_pool(call, images, y, settings);
    if (y.is_float()) images.separate_from(y);
    dispatch(call, y.is_float(), images.size(), [&] { avg_pool(images.view, y.view, settings, count_include_pad); },
             x, out, kernel, stride, padding, count_include_pad);
  }, "x", "out", "kernel", "stride", "padding", "count_include_pad");

  def(m, "avg_pool_gradient", [](handle d, handle out, handle kernel, handle stride, handle padding,
                                 bool count_include_pad) {
    const Call call{"avg_pool_gradient"};
    PoolSettings settings = parse_pool(call, kernel, stride, padding);
    Argument gradient(call, "d", d), y = Argument::output(call, "out", out);
    expect_same_dtype(call, gradient, y);
    expect_pool(call, y, gradient, settings);
    if (y.is_float()) gradient.separate_from(y);
    dispatch(call, y.is_float(), y.size(),
             [&] { avg_pool_gradient(gradient.view, y.view, settings, count_include_pad); },
             d, out, kernel, stride, padding, count_include_pad);
  }, "d", "out", "kernel", "stride", "padding", "count_include_pad");
}

// Normalisation. Statistics have length 1 along the axes; a weight's lengths are x's or 1.

void expect_statistic(const Call& call, const Argument& x, const Argument& statistic, const Axes& axes) {
  expect_same_dtype(call, x, statistic);
  bool fits = statistic.view.ndim == x.view.ndim;
  for (int i = 0; fits && i < x.view.ndim; ++i) {
    const bool along = std::find(axes.begin(), axes.end(), i) != axes.end();
    fits = statistic.view.shape[i] == (along ? 1 : x.view.shape[i]);
  }
  call.expect(fits, "statistics must have x's shape, with length 1 along the axes");
}

void expect_weight(const Call& call, const Argument& x, const Argument& weight) {
  expect_same_dtype(call, x, weight);
  bool fits = weight.view.ndim == x.view.ndim;
  for (int i = 0; fits && i < x.view.ndim; ++i) {
    fits = weight.view.shape[i] == 1 || weight.view.shape[i] == x.view.shape[i];
  }
  call.expect(fits, "weight and bias must have as many axes as x, and broadcast to it");
}

void expect_apart(const Call& call, const Argument& a, const Argument& b) {
  call.expect(!a.overlaps(b), "arrays that are written must not share memory");
}

void bind_norm(py::module_& m) {
  def(m, "normalize", [](handle x, handle weight, handle bias, handle axes, double eps, bool relu, handle out,
                         handle mean, handle variance) {
    const Call call{"normalize"};
    Argument a(call, "x", x), y = Argument::output(call, "out", out), centre = Argument::output(call, "mean", mean),
             spread = Argument::output(call, "variance", variance);
    Optional scale(call, "weight", weight, false), shift(call, "bias", bias, false);
    Axes along = parse_axes(call, axes, a.view.ndim);
    expect_same_shape(call, a, y);
    expect_same_dtype(call, a, y);
    expect_statistic(call, a, centre, along);
    expect_statistic(call, a, spread, along);
    expect_apart(call, y, centre);
    expect_apart(call, y, spread);
    expect_apart(call, centre, spread);
    for (Optional* given : {&scale, &shift}) {
      if (!*given) continue;
      expect_weight(call, a, **given);
      if (a.is_float()) for (const Argument* written : {&y, &centre, &spread}) (**given).separate_from(*written);
    }
    if (a.is_float()) for (const Argument* written : {&y, &centre, &spread}) a.separate_from(*written);
    if (a.size() == 0) return;
    dispatch(call, a.is_float(), a.size(),
             [&] { normalize(a.view, scale.view(), shift.view(), along, eps, relu, y.view, centre.view, spread.view); },
             x, weight, bias, axes, eps, relu, out, mean, variance);
  }, "x", "weight", "bias", "axes", "eps", "relu", "out", "mean", "variance");

  def(m, "normalize_gradient", [](handle d, handle x, handle y, handle weight, handle mean, handle inv_std,
                                  handle axes, handle out, handle out_weight, handle out_bias) {
    const Call call{"normalize_gradient"};
    Argument g(call, "d", d), a(call, "x", x), centre(call, "mean", mean), scale(call, "inv_std", inv_std),
             to_x = Argument::output(call, "out", out);
    Optional rectified(call, "y", y, false), w(call, "weight", weight, false),
             to_weight(call, "out_weight", out_weight, true), to_bias(call, "out_bias", out_bias, true);
    Axes along = parse_axes(call, axes, a.view.ndim);
    expect_same_shape(call, g, a);
    expect_same_shape(call, g, to_x);
    expect_same_dtype(call, g, a);
    expect_same_dtype(call, g, to_x);
    expect_statistic(call, a, centre, along);
    expect_statistic(call, a, scale, along);
    call.expect(bool(w) == bool(to_weight) && bool(w) == bool(to_bias), "there are gradients of weight and bias or neither");
    std::vector<Argument*> read{&g, &a, &centre, &scale}, written{&to_x};
    if (rectified) {
      expect_same_shape(call, g, *rectified);
      expect_same_dtype(call, g, *rectified);
      read.push_back(&*rectified);
    }
    if (w) {
      expect_weight(call, a, *w);
      for (Optional* result : {&to_weight, &to_bias}) {
        expect_same_shape(call, *w, **result);
        expect_same_dtype(call, *w, **result);
        expect_apart(call, to_x, **result);
        written.push_back(&**result);
      }
      expect_apart(call, *to_weight, *to_bias);
      read.push_back(&*w);
    }
    if (a.is_float()) for (Argument* r : read) for (Argument* result : written) r->separate_from(*result);
    if (a.size() == 0) return;
    dispatch(call, a.is_float(), a.size(), [&] {
      normalize_gradient(g.view, a.view, rectified.view(), w.view(), centre.view, scale.view, along, to_x.view,
                         to_weight.view(), to_bias.view());
    }, d, x, y, weight, mean, inv_std, axes, out, out_weight, out_bias);
  }, "d", "x", "y", "weight", "mean", "inv_std", "axes", "out", "out_weight", "out_bias");
}

// Optimizer steps: lists of one length, the first of parameters, the second of gradients, then states.

struct Rows {
  std::vector<std::vector<Argument>> lists;
  int64_t elements = 0;

  Rows(const Call& call, std::initializer_list<std::pair<const char*, handle>> given) {
    for (const auto& [name, list] : given) lists.push_back(parse_list(call, name, list, lists.size() != 1));
    for (const auto& list : lists) call.expect(list.size() == lists[0].size(), "the lists differ in length");
    for (size_t i = 0; i < lists[0].size(); ++i) {
      elements += lists[0][i].size();
      if (!lists[0][i].is_float()) call.dtype_error("parameters must be float32 or float64");
      for (size_t k = 1; k < lists.size(); ++k) {
        expect_same_shape(call, lists[0][i], lists[k][i]);
        expect_same_dtype(call, lists[0][i], lists[k][i]);
        if (k == 1) continue;
        expect_apart(call, lists[0][i], lists[k][i]);
        for (size_t other = 2; other < k; ++other) expect_apart(call, lists[other][i], lists[k][i]);
      }
      for (size_t k = 0; k < lists.size(); ++k) {
        if (k != 1) lists[1][i].separate_from(lists[k][i]);
      }
    }
  }

  Views views(size_t k) const {
    Views views;
    views.reserve(lists[k].size());
    for (const Argument& argument : lists[k]) views.push_back(argument.view);
    return views;
  }
};

void bind_update(py::module_& m) {
  def(m, "sgd_update", [](handle params, handle grads, handle velocities, double lr, double momentum,
                          double dampening, double weight_decay, bool nesterov) {
    const Call call{"sgd_update"};
    Rows rows(call, {{"params", params}, {"grads", grads}, {"velocities", velocities}});
    Views p = rows.views(0), g = rows.views(1), u = rows.views(2);
    dispatch(call, true, rows.elements,
             [&] { sgd_update(p, g, u, lr, momentum, dampening, weight_decay, nesterov); },
             params, grads, velocities, lr, momentum, dampening, weight_decay, nesterov);
  }, "params", "grads", "velocities", "lr", "momentum", "dampening", "weight_decay", "nesterov");

  def(m, "adam_update", [](handle params, handle grads, handle firsts, handle seconds, double lr, double beta1,
                           double beta2, double eps, double weight_decay, bool decoupled, int64_t step) {
    const Call call{"adam_update"};
    Rows rows(call, {{"params", params}, {"grads", grads}, {"firsts", firsts}, {"seconds", seconds}});
    Views p = rows.views(0), g = rows.views(1), a = rows.views(2), b = rows.views(3);
    dispatch(call, true, rows.elements,
             [&] { adam_update(p, g, a, b, lr, beta1, beta2, eps, weight_decay, decoupled, step); },
             params, grads, firsts, seconds, lr, beta1, beta2, eps, weight_decay, decoupled, step);
  }, "params", "grads", "firsts", "seconds", "lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "step");
}

}  // namespace

void bind_layers(py::module_& m) {
  bind_conv(m);
  bind_pool(m);
  bind_norm(m);
  bind_update(m);
}

}  // namespace needle
