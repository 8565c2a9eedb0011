// Many jobs on the pool of threads, from one caller and from several at once: each piece once, no race. For ThreadSanitizer
// (`make sanitize`); prints what went wrong.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../../needle/backend_ndarray/cpu/parallel.h"

namespace {

bool every_element_once(int64_t n, int64_t grain) {
  std::vector<int> visits(static_cast<size_t>(n));  // no atomics: two threads in one element are a race
  needle::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    auto* buffer = static_cast<int64_t*>(needle::scratch(0, 64));  // each thread's own
    for (*buffer = begin; *buffer < end; ++*buffer) ++visits[static_cast<size_t>(*buffer)];
  });
  for (int v : visits) {
    if (v != 1) return false;
  }
  return true;
}

bool an_exception_arrives() {
  try {
    needle::parallel_for(1000, 1, [](int64_t, int64_t end) {
      if (end > 500) throw std::runtime_error("from a body");
    });
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

bool jobs() {
  bool right = true;
  for (int round = 0; round < 300; ++round) right &= every_element_once(1 + round * 37 % 5000, 1 + round % 7);
  return right && an_exception_arrives() && every_element_once(1000, 1);
}

}  // namespace

int main() {
  bool right = true;
  for (int threads : {1, 2, 3, 7, 2}) {
    needle::set_num_threads(threads);
    right &= jobs();
    bool others[3];
    std::vector<std::thread> callers;
    for (bool& other : others) callers.emplace_back([&other] { other = jobs(); });
    for (std::thread& caller : callers) caller.join();
    for (bool other : others) right &= other;
  }
  std::puts(right ? "the pool ran every piece once" : "WRONG: a piece ran twice or never, or an exception was lost");
  return right ? 0 : 1;
}
