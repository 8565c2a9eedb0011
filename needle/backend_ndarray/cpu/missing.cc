// Stands in for kernels that are still to be written: the bindings then call the reference. Goes when all are there.
#include "kernels.h"
#include "missing.h"

namespace needle {

#if !__has_include("elementwise.cc")
void unary(Unary, const View&, const View&) { throw Missing(); }
void binary(Binary, const Operand&, const Operand&, const View&) { throw Missing(); }
void compare(Comparison, const Operand&, const Operand&, const View&) { throw Missing(); }
void where(const View&, const Operand&, const Operand&, const View&) { throw Missing(); }
void fill(const View&, double) { throw Missing(); }
#endif
#if !__has_include("copy.cc")
void copy(const View&, const View&) { throw Missing(); }
#endif
#if !__has_include("reduce.cc")
void reduce(Reduction, const View&, const Axes&, const View&) { throw Missing(); }
void argmax(const View&, int, const View&) { throw Missing(); }
void cumsum(const View&, int, const View&) { throw Missing(); }
#endif
#if !__has_include("gather.cc")
void gather(const View&, const View&, const View&) { throw Missing(); }
void scatter_add(const View&, const View&, const View&) { throw Missing(); }
#endif
#if !__has_include("matmul.cc")
void matmul(const View&, const View&, const View&) { throw Missing(); }
#endif
#if !__has_include("conv.cc")
void set_conv_algorithm(ConvAlgorithm) {}
void conv(const View&, const View&, const View*, const View&, const ConvSettings&) { throw Missing(); }
void conv_input_gradient(const View&, const View&, const View&, const ConvSettings&) { throw Missing(); }
void conv_weight_gradient(const View&, const View&, const View&, const ConvSettings&) { throw Missing(); }
#endif
#if !__has_include("pool.cc")
void max_pool(const View&, const View&, const View&, const PoolSettings&) { throw Missing(); }
void max_pool_gradient(const View&, const View&, const View&, const PoolSettings&) { throw Missing(); }
void max_pool_gather(const View&, const View&, const View&, const PoolSettings&) { throw Missing(); }
void avg_pool(const View&, const View&, const PoolSettings&, bool) { throw Missing(); }
void avg_pool_gradient(const View&, const View&, const PoolSettings&, bool) { throw Missing(); }
#endif
#if !__has_include("norm.cc")
void normalize(const View&, const View*, const View*, const Axes&, double, const View&, const View&, const View&) {
  throw Missing();
}
void normalize_gradient(const View&, const View&, const View*, const View&, const View&, const Axes&, const View&,
                        const View*, const View*) {
  throw Missing();
}
#endif
#if !__has_include("update.cc")
void sgd_update(const Views&, const Views&, const Views&, double, double, double, double, bool) { throw Missing(); }
void adam_update(const Views&, const Views&, const Views&, const Views&, double, double, double, double, double, bool,
                 int64_t) {
  throw Missing();
}
#endif

}  // namespace needle
