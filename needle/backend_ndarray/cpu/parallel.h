// Fork and join over a persistent pool of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace needle {

// Call body(begin, end) for pieces that together are [0, n), on several threads. Pieces are multiples of `grain` long
// (but for the last). What body(begin, end) writes must not depend on how [0, n) is cut: that is how results come to
// have the same bits on any number of threads. Runs in the calling thread where n <= grain or one thread is set, where
// it is called from within a body, and while another thread has the pool. What a body throws is thrown here again.
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

// Of all later calls, from any thread; n >= 1. The default is the number of processors that the process may use.
void set_num_threads(int n);
int num_threads();
int available_processors();

// Scratch memory of at least `bytes`, 64-byte aligned, that belongs to the calling thread until its next call with
// the same slot (0..7). Its content is not defined. Throws std::bad_alloc.
void* scratch(int slot, int64_t bytes);

}  // namespace needle
