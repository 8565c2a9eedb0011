// Threads, the cache of memory, and the facts of this build.
#include <vector>

#include "allocator.h"
#include "dispatch.h"
#include "parallel.h"

namespace needle {
namespace {

// The instruction sets of this processor for which there are builds, the best one first.
std::vector<std::string> supported_isas() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  std::vector<std::string> isas;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    isas.push_back("avx512");
  }
  if (avx2) isas.push_back("avx2");
  isas.push_back("baseline");
  return isas;
#elif defined(__aarch64__)
  return {"neon"};
#else
  return {"baseline"};
#endif
}

}  // namespace

void bind_runtime(py::module_& m) {
  m.def("supported_isas", [] {
    py::list isas;
    for (const std::string& isa : supported_isas()) isas.append(isa);
    return isas;
  });
  m.def("set_num_threads", &set_num_threads);
  m.def("num_threads", &num_threads);
  m.def("available_processors", &available_processors);
  m.def("empty_cache", &empty_cache);
  m.def("cached_bytes", &cached_bytes);
  m.def("cache_limit", &cache_limit);
  m.def("set_cache_limit", &set_cache_limit);
  m.def("set_conv_algorithm", [](const std::string& name) {
    set_conv_algorithm(name == "auto" ? ConvAlgorithm::automatic
                                      : name == "direct" ? ConvAlgorithm::direct : ConvAlgorithm::winograd4);
  });
}

}  // namespace needle
