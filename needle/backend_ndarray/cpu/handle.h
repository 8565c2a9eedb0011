// Array, the handle of a flat buffer, as a Python type. It is written on Python's C interface: one is made for every
// result, at a quarter of what a class bound with pybind11 costs, and libraries of several instruction sets may each
// register theirs.
#pragma once

#include <Python.h>

#include "array.h"

namespace needle {

struct Handle {
  PyObject_HEAD
  void* data;
  int64_t size;     // elements that were asked for
  int64_t version;  // renewed by NDArray at every write; nothing else of a handle changes while it lives
  DType dtype;
  Py_buffer* foreign;  // where the memory is another object's
};

int64_t item_size(DType dtype);
const char* dtype_name(DType dtype);

// Make the type and add it to the module as `Array`. False, with a Python error set, where that fails.
bool add_handle_type(PyObject* module);
bool is_handle(PyObject* object);

// A new handle; null, with a Python error set, where there is not so much memory.
Handle* new_handle(int64_t size, DType dtype);

}  // namespace needle
