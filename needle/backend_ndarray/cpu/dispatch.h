// From a Python call to a native kernel, or to the reference kernel of that name.
#pragma once

#include <unistd.h>

#include "arguments.h"

namespace needle {

// Where Python ends a thread, after the interpreter's own end, it does so (glibc, before 3.14) by unwinding its stack.
// That would drop references to Python's objects without the GIL, so such a thread waits until the process is gone.
[[noreturn]] inline void wait_for_the_end() {
  while (true) ::pause();
}

class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      wait_for_the_end();
    }
  }
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Run a kernel that touches `work` elements. What is over within microseconds keeps the GIL: to give it away and take
// it back would cost as much, and wait for whoever got it.
template <class Kernel>
void run(int64_t work, const Kernel& kernel) {
  constexpr int64_t kShort = 4096;
  if (work < kShort) return kernel();
  WithoutGil without_gil;
  kernel();
}

inline PyObject* call_python(PyObject* function, PyObject* const* arguments, size_t count) {
  try {
    return PyObject_Vectorcall(function, arguments, count, nullptr);
  } catch (...) {
    wait_for_the_end();
  }
}

inline py::object as_object(py::handle object) { return py::reinterpret_borrow<py::object>(object); }
template <class T>
py::object as_object(const T& value) {
  return py::cast(value);
}

// Call a reference kernel. NumPy says what it cannot do in TypeErrors of its own.
template <class... Arguments>
py::object reference(const Call& call, const Arguments&... arguments) {
  static const py::handle module = py::module_::import("needle.backend_ndarray.ndarray_backend_numpy").release();
  const py::object function = module.attr(call.op), given[] = {as_object(arguments)...};
  PyObject* pointers[sizeof...(arguments)];
  for (size_t i = 0; i < sizeof...(arguments); ++i) pointers[i] = given[i].ptr();
  PyObject* result = call_python(function.ptr(), pointers, sizeof...(arguments));
  if (result != nullptr) return py::reinterpret_steal<py::object>(result);
  py::error_already_set error;
  if (!error.matches(PyExc_TypeError)) throw error;
  call.dtype_error(py::str(error.value()));
}

// Floating-point kernels are native; those of integers and bools are the reference's.
template <class Kernel, class... Arguments>
void dispatch(const Call& call, bool native, int64_t work, const Kernel& kernel, const Arguments&... arguments) {
  if (native) return run(work, kernel);
  reference(call, arguments...);
}

// A function with the parameters that the comma-separated `names` says, in a form that inspect.signature understands.
template <class Function, class... Names>
void def(py::module_& m, const char* name, Function function, const Names*... names) {
  py::options options;
  options.disable_function_signatures();
  std::string doc = std::string(name) + "(";
  bool first = true;
  ((doc += (first ? "" : ", ") + std::string(names), first = false), ...);
  doc += ")\n--\n\nSee needle.backend_ndarray.kernels.";
  m.def(name, function, py::arg(names)..., doc.c_str());
}

void bind_layers(py::module_& m);  // convolution, pooling, normalisation, optimizer steps
void bind_runtime(py::module_& m);  // threads, the cache, the facts of this build

}  // namespace needle
