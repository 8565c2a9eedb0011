// A region is a rectangle of result pixels whose windows hold the same taps: nothing is padded, and no tap on the
// padding is computed.
#pragma once

#include <vector>

#include "conv.h"

namespace needle {

struct Region {
  const Run *h, *w;
  Steps steps;  // from the region's first pixel
};

template <class T>
std::vector<Region> make_regions(const std::vector<Run>& h_runs, const std::vector<Run>& w_runs,
                                 const Images<const T>& source, const Filter<T>& filter) {
  std::vector<Region> regions;
  for (const Run& h : h_runs)
    for (const Run& w : w_runs) {
      Region region{&h, &w, {}};
      for (const Tap& i : h.taps)
        for (const Tap& j : w.taps) {
          const int64_t row = (i.k * filter.kw + j.k) * filter.sources;
          const int64_t at = i.at * source.h_stride + j.at * source.w_stride;
          region.steps.append(row, filter.sources, at, source.c_stride, row);
        }
      regions.push_back(std::move(region));
    }
  return regions;
}

}  // namespace needle
