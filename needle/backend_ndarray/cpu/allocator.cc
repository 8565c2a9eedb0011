#include "allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "sanitizer.h"

namespace needle {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{1} << 21;
constexpr int64_t kDefaultLimit = int64_t{1} << 30;

// Blocks come in classes, 8 to each power of two: at most an eighth of a block is never used, and arrays of about one
// size share a class.
struct SizeClass {
  int index;
  int64_t bytes;
};

SizeClass size_class(int64_t bytes) {
  int64_t lines = std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment);
  if (lines <= 16) return {static_cast<int>(lines), lines * kAlignment};
  int shift = 63 - __builtin_clzll(static_cast<unsigned long long>(lines - 1)) - 3;  // lines - 1 is in 8..15 << shift
  int64_t eighths = ((lines - 1) >> shift) + 1;                                      // 9..16
  return {8 * shift + static_cast<int>(eighths), (eighths << shift) * kAlignment};
}

constexpr int kClasses = 8 * 60;

int64_t physical_memory() {
  static const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return bytes;
}

std::vector<void*> cache[kClasses];
int64_t cached = 0;
int64_t limit = -1;  // -1: not set yet

void* from_system(int64_t bytes) {
  int64_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  void* block = nullptr;
  if (posix_memalign(&block, static_cast<size_t>(alignment), static_cast<size_t>(bytes)) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  // Large products walk several thousand pages of 4 KB, more than the processor keeps translations of.
  if (alignment == kHugePage) madvise(block, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
#endif
  return block;
}

void* cut_to(int64_t bytes, void* block, const SizeClass& c) {
  permit(block, bytes);
  forbid(static_cast<char*>(block) + bytes, c.bytes - bytes);
  return block;
}

}  // namespace

void* allocate(int64_t bytes) {
  // Systems promise memory that they do not have; what exceeds the machine's could only fail when it is written.
  if (bytes < 0 || bytes > physical_memory()) throw std::bad_alloc();
  SizeClass c = size_class(bytes);
  std::vector<void*>& free = cache[c.index];
  if (!free.empty()) {
    void* block = free.back();
    free.pop_back();
    cached -= c.bytes;
    return cut_to(bytes, block, c);
  }
  void* block = from_system(c.bytes);
  if (block == nullptr) {
    empty_cache();
    block = from_system(c.bytes);
    if (block == nullptr) throw std::bad_alloc();
  }
  return cut_to(bytes, block, c);
}

void release(void* block, int64_t bytes) {
  SizeClass c = size_class(bytes);
  if (cached + c.bytes > cache_limit()) empty_cache();  // what is there may be of sizes that are not used any more
  if (c.bytes > cache_limit()) return std::free(block);
  try {
    cache[c.index].push_back(block);
    cached += c.bytes;
    forbid(block, c.bytes);
  } catch (const std::bad_alloc&) {
    std::free(block);
  }
}

void empty_cache() {
  for (std::vector<void*>& free : cache) {
    for (void* block : free) std::free(block);
    free.clear();
  }
  cached = 0;
}

int64_t cached_bytes() { return cached; }

int64_t cache_limit() {
  if (limit < 0) limit = std::min(kDefaultLimit, physical_memory() / 4);
  return limit;
}

void set_cache_limit(int64_t bytes) {
  limit = std::max<int64_t>(0, bytes);
  if (cached > limit) empty_cache();
}

}  // namespace needle
