#include "functors.h"
#include "kernels.h"
#include "rows.h"
#include "strides.h"

namespace needle {

namespace {

// Operands' numbers, rounded to the dtype of the arrays.
class Numbers {
 public:
  explicit Numbers(DType dtype) : dtype_(dtype) {}

  void add(Loops& loops, const Operand& operand) {
    if (!operand.is_number) return loops.add(operand.view);
    float32_ = static_cast<float>(operand.number);
    float64_ = operand.number;
    if (dtype_ == DType::float32) loops.add_number(&float32_, sizeof float32_);
    else loops.add_number(&float64_, sizeof float64_);
  }

 private:
  DType dtype_;
  float float32_;
  double float64_;
};

template <class F>
void run_unary(const View& a, const View& out) {
  Loops loops(out);
  loops.add(a);
  for_each_row(loops, out.dtype == DType::float32 ? unary_row<F, float> : unary_row<F, double>, F::kCost);
}

template <class F>
void run_binary(const Operand& a, const Operand& b, const View& out) {
  Loops loops(out);
  Numbers number_a(out.dtype), number_b(out.dtype);
  number_a.add(loops, a);
  number_b.add(loops, b);
  for_each_row(loops, out.dtype == DType::float32 ? binary_row<F, float> : binary_row<F, double>, F::kCost);
}

template <class F>
void run_comparison(const Operand& a, const Operand& b, const View& out) {
  DType dtype = a.is_number ? b.view.dtype : a.view.dtype;
  Loops loops(out);
  Numbers number_a(dtype), number_b(dtype);
  number_a.add(loops, a);
  number_b.add(loops, b);
  for_each_row(loops, dtype == DType::float32 ? comparison_row<F, float> : comparison_row<F, double>, 1);
}

}  // namespace

void unary(Unary op, const View& a, const View& out) {
  switch (op) {
    case Unary::negate: return run_unary<Negate>(a, out);
    case Unary::absolute: return run_unary<Absolute>(a, out);
    case Unary::sign: return run_unary<Sign>(a, out);
    case Unary::sqrt: return run_unary<Sqrt>(a, out);
    case Unary::exp: return run_unary<Exp>(a, out);
    case Unary::log: return run_unary<Log>(a, out);
    case Unary::tanh: return run_unary<Tanh>(a, out);
    case Unary::sigmoid: return run_unary<Sigmoid>(a, out);
    case Unary::erf: return run_unary<Erf>(a, out);
  }
}

void binary(Binary op, const Operand& a, const Operand& b, const View& out) {
  switch (op) {
    case Binary::add: return run_binary<Add>(a, b, out);
    case Binary::subtract: return run_binary<Subtract>(a, b, out);
    case Binary::multiply: return run_binary<Multiply>(a, b, out);
    case Binary::divide: return run_binary<Divide>(a, b, out);
    case Binary::power: return run_binary<Power>(a, b, out);
    case Binary::maximum: return run_binary<Maximum>(a, b, out);
    case Binary::minimum: return run_binary<Minimum>(a, b, out);
    case Binary::relu_gradient: return run_binary<ReLUGradient>(a, b, out);
  }
}

void compare(Comparison op, const Operand& a, const Operand& b, const View& out) {
  switch (op) {
    case Comparison::equal: return run_comparison<Equal>(a, b, out);
    case Comparison::not_equal: return run_comparison<NotEqual>(a, b, out);
    case Comparison::less: return run_comparison<Less>(a, b, out);
    case Comparison::less_equal: return run_comparison<LessEqual>(a, b, out);
    case Comparison::greater: return run_comparison<Greater>(a, b, out);
    case Comparison::greater_equal: return run_comparison<GreaterEqual>(a, b, out);
  }
}

void where(const View& condition, const Operand& a, const Operand& b, const View& out) {
  Loops loops(out);
  Numbers number_a(out.dtype), number_b(out.dtype);
  loops.add(condition);
  number_a.add(loops, a);
  number_b.add(loops, b);
  for_each_row(loops, out.dtype == DType::float32 ? where_row<float> : where_row<double>, 1);
}

void fill(const View& out, double value) {
  Loops loops(out);
  Numbers number(out.dtype);
  number.add(loops, {true, value, {}});
  for_each_row(loops, out.dtype == DType::float32 ? unary_row<Identity, float> : unary_row<Identity, double>, 1);
}

}  // namespace needle
