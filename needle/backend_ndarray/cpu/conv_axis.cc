#include <algorithm>

#include "conv.h"

namespace needle {
namespace {

bool same_taps(const Run& run, const std::vector<Tap>& taps, int64_t distance) {
  return std::equal(run.taps.begin(), run.taps.end(), taps.begin(), taps.end(), [&](const Tap& a, const Tap& b) {
    return a.k == b.k && a.at + distance == b.at;
  });
}

// Cuts first, first + step, ... below `size` into runs; taps_of(i) gives the taps of result i.
template <class F>
void append_runs(std::vector<Run>* runs, int64_t first, int64_t step, int64_t size, int64_t source_step, F taps_of) {
  bool open = false;
  for (int64_t i = first; i < size; i += step) {
    std::vector<Tap> taps = taps_of(i);
    if (open && same_taps(runs->back(), taps, runs->back().count * source_step)) {
      ++runs->back().count;
    } else {
      runs->push_back({i, step, 1, source_step, std::move(taps)});
      open = true;
    }
  }
}

}  // namespace

std::vector<Run> ConvAxis::forward() const {
  std::vector<Run> runs;
  append_runs(&runs, 0, 1, output, stride, [this](int64_t i) {
    std::vector<Tap> taps;
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t at = i * stride - padding + k * dilation;
      if (at >= 0 && at < input) taps.push_back({k, at});
    }
    return taps;
  });
  return runs;
}

std::vector<Run> ConvAxis::gradient() const {
  std::vector<Run> runs;
  for (int64_t phase = 0; phase < std::min(stride, input); ++phase) {
    append_runs(&runs, phase, stride, input, 1, [this](int64_t i) {
      std::vector<Tap> taps;
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t at = i + padding - k * dilation;
        if (at >= 0 && at % stride == 0 && at / stride < output) taps.push_back({k, at / stride});
      }
      return taps;
    });
  }
  return runs;
}

void ConvAxis::reached(int64_t k, int64_t* first, int64_t* last) const {
  const int64_t start = padding - k * dilation;  // the smallest output * stride that is not before the input
  *first = start <= 0 ? 0 : std::min((start + stride - 1) / stride, output);
  *last = start + input <= 0 ? 0 : std::min((start + input - 1) / stride + 1, output);
  *last = std::max(*first, *last);
}

}  // namespace needle
