// In a build with AddressSanitizer (`make sanitize`) memory that nobody asked for is out of bounds, though it lies in a
// cached block or in scratch memory that is longer. In other builds these do nothing.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <cstdint>

namespace needle {

inline void forbid(const void* begin, int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(begin, static_cast<size_t>(bytes));
#else
  static_cast<void>(begin), static_cast<void>(bytes);
#endif
}

inline void permit(const void* begin, int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(begin, static_cast<size_t>(bytes));
#else
  static_cast<void>(begin), static_cast<void>(bytes);
#endif
}

}  // namespace needle
