// Arrays as a kernel wants them to lie in memory: a view itself, or a dense copy of it in a given order of axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "array.h"
#include "parallel.h"

namespace needle {

using Order = std::vector<int>;  // axes, from the outermost in memory to the innermost

Order memory_order(const View& a);                 // by falling strides; row-major where they are equal
bool is_dense(const View& a, const Order& order);  // fills a stretch of memory in this order of axes

class Staged {
 public:
  explicit Staged(const View& a) : original_(a), view_(a) {}
  Staged(const View& a, const Order& order, bool read = true);  // a dense copy; not filled unless to be read

  const View& view() const { return view_; }
  void write_back() const;  // copies the elements to the original, if this is a copy

 private:
  View original_, view_;
  std::unique_ptr<std::byte[]> memory_;
};

// The view itself where it is dense in this order, else a copy.
Staged stage_dense(const View& a, const Order& order, bool read = true);

template <class T>
T* scratch_of(int slot, int64_t count) {
  return static_cast<T*>(scratch(slot, count * int64_t{sizeof(T)}));
}

}  // namespace needle
