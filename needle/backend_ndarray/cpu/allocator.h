// Memory of arrays: 64-byte aligned blocks, cached when they are freed. All of it is called with the GIL held, which
// makes it safe in threads, and after a fork, without a lock of its own.
#pragma once

#include <cstdint>

namespace needle {

// Throws std::bad_alloc where there is not so much memory, before any is touched. `bytes` may be 0.
void* allocate(int64_t bytes);
void release(void* block, int64_t bytes);  // `bytes` as they were asked for

void empty_cache();
int64_t cached_bytes();
int64_t cache_limit();
void set_cache_limit(int64_t bytes);

}  // namespace needle
