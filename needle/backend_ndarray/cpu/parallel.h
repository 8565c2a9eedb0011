// Fork and join over a persistent pool of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace needle {

// Call body(begin, end) for pieces that together are [0, n), on several threads. Pieces are multiples of `grain` long
// (but for the last). What body(begin, end) writes must not depend on how [0, n) is cut: that is how results come to
// have the same bits on any number of threads. Runs in the calling thread where n <= grain or one thread is set.
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

void set_num_threads(int n);
int num_threads();

// Scratch memory of at least `bytes`, 64-byte aligned, that belongs to the calling thread until its next call with
// the same slot (0..3). Its content is not defined.
void* scratch(int slot, int64_t bytes);

}  // namespace needle
