#include "handle.h"

#include <dlfcn.h>
#include <structmember.h>

#include <new>

#include "allocator.h"

namespace needle {
namespace {

// tracemalloc shows buffers, as it does those of NumPy. Python before 3.13 declares these functions for C alone, so
// they are looked up by their names.
constexpr unsigned kTraceDomain = 0x6e64;
const auto track = reinterpret_cast<int (*)(unsigned, uintptr_t, size_t)>(dlsym(RTLD_DEFAULT, "PyTraceMalloc_Track"));
const auto untrack = reinterpret_cast<int (*)(unsigned, uintptr_t)>(dlsym(RTLD_DEFAULT, "PyTraceMalloc_Untrack"));

struct DTypeFacts {
  const char* name;
  const char* format;  // of the buffer protocol
  int64_t bytes;
  PyObject* object;  // NumPy's, of which there is one each
};

DTypeFacts facts[] = {{"float32", "f", 4, nullptr}, {"float64", "d", 8, nullptr}, {"int64", "q", 8, nullptr},
                      {"int32", "i", 4, nullptr},   {"uint8", "B", 1, nullptr},   {"bool", "?", 1, nullptr}};

PyTypeObject* handle_type = nullptr;
PyObject* shape_error = nullptr;
PyObject* as_dtype = nullptr;  // needle.backend_ndarray.dtypes.as_dtype, for dtypes given by name

DTypeFacts& facts_of(DType dtype) { return facts[static_cast<int>(dtype)]; }

// -1, with a Python error set, where arrays cannot have it.
int dtype_index(PyObject* dtype) {
  for (int i = 0; i < 6; ++i) {
    if (facts[i].object == dtype) return i;
  }
  PyObject* known = PyObject_CallOneArg(as_dtype, dtype);
  if (known == nullptr) return -1;
  int found = -1;
  for (int i = 0; i < 6; ++i) {
    if (facts[i].object == known) found = i;
  }
  Py_DECREF(known);
  if (found < 0) PyErr_SetString(PyExc_TypeError, "Array: unknown dtype");
  return found;
}

PyObject* handle_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* names[] = {"size", "dtype", nullptr};
  Py_ssize_t size;
  PyObject* dtype;
  if (kwargs == nullptr && PyTuple_GET_SIZE(args) == 2 && PyLong_CheckExact(PyTuple_GET_ITEM(args, 0))) {
    size = PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 0));
    dtype = PyTuple_GET_ITEM(args, 1);
    if (size == -1 && PyErr_Occurred()) {
      PyErr_SetString(PyExc_MemoryError, "Array: the size does not fit 64 bits; use smaller arrays");
      return nullptr;
    }
  } else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "nO:Array", const_cast<char**>(names), &size, &dtype)) {
    return nullptr;
  }
  int index = dtype_index(dtype);
  if (index < 0) return nullptr;
  if (size < 0) return PyErr_Format(shape_error, "Array: the size must not be negative, got %zd", size);
  return reinterpret_cast<PyObject*>(new_handle(size, static_cast<DType>(index)));
}

Handle* make_handle(void* data, int64_t size, DType dtype, Py_buffer* foreign) {
  auto* handle = reinterpret_cast<Handle*>(handle_type->tp_alloc(handle_type, 0));
  if (handle == nullptr) return nullptr;
  handle->data = data;
  handle->size = size;
  handle->version = 0;
  handle->dtype = dtype;
  handle->foreign = foreign;
  return handle;
}

void release_foreign(Py_buffer* buffer) {
  PyBuffer_Release(buffer);
  delete buffer;
}

PyObject* handle_wrap(PyObject*, PyObject* line) {
  PyObject* dtype = PyObject_GetAttrString(line, "dtype");
  if (dtype == nullptr) return nullptr;
  const int index = dtype_index(dtype);
  Py_DECREF(dtype);
  if (index < 0) return nullptr;
  auto* buffer = new Py_buffer;
  if (PyObject_GetBuffer(line, buffer, PyBUF_WRITABLE) != 0) {
    delete buffer;
    return nullptr;
  }
  const int64_t bytes = facts[index].bytes;
  Handle* handle = nullptr;
  if (reinterpret_cast<uintptr_t>(buffer->buf) % static_cast<size_t>(bytes) != 0) {
    PyErr_SetString(shape_error, "Array.wrap: the memory is not aligned to its elements");
  } else {
    handle = make_handle(buffer->buf, buffer->len / bytes, static_cast<DType>(index), buffer);
  }
  if (handle == nullptr) release_foreign(buffer);
  return reinterpret_cast<PyObject*>(handle);
}

void handle_dealloc(PyObject* self) {
  auto* handle = reinterpret_cast<Handle*>(self);
  PyTypeObject* type = Py_TYPE(self);
  if (handle->foreign != nullptr) {
    release_foreign(handle->foreign);
  } else {
    untrack(kTraceDomain, reinterpret_cast<uintptr_t>(handle->data));
    release(handle->data, handle->size * item_size(handle->dtype));
  }
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* handle_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(reinterpret_cast<Handle*>(self)->data); }

PyObject* handle_dtype(PyObject* self, void*) {
  PyObject* dtype = facts_of(reinterpret_cast<Handle*>(self)->dtype).object;
  Py_INCREF(dtype);
  return dtype;
}

// What the reference kernels take for a buffer: the handle itself, by the buffer protocol.
PyObject* handle_data(PyObject* self, void*) {
  Py_INCREF(self);
  return self;
}

int handle_buffer(PyObject* self, Py_buffer* view, int flags) {
  auto* handle = reinterpret_cast<Handle*>(self);
  DTypeFacts& dtype = facts_of(handle->dtype);
  if (PyBuffer_FillInfo(view, self, handle->data, static_cast<Py_ssize_t>(handle->size * dtype.bytes), 0, flags) != 0) {
    return -1;
  }
  if (flags & PyBUF_FORMAT) {
    view->format = const_cast<char*>(dtype.format);
    view->itemsize = static_cast<Py_ssize_t>(dtype.bytes);
    // One axis; a consumer that asks for formats asks for shapes. Its length has no place in Py_buffer: it stands in
    // the handle, where it never changes.
    static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
    if (view->shape != nullptr) view->shape = reinterpret_cast<Py_ssize_t*>(&handle->size);
    if (view->strides != nullptr) view->strides = &view->itemsize;
  }
  return 0;
}

PyObject* handle_repr(PyObject* self) {
  auto* handle = reinterpret_cast<Handle*>(self);
  return PyUnicode_FromFormat("Array(%lld, %s)", static_cast<long long>(handle->size), dtype_name(handle->dtype));
}

PyMethodDef methods[] = {
    {"ptr", handle_ptr, METH_NOARGS, "Give the address of the first element."},
    {"wrap", handle_wrap, METH_O | METH_CLASS, "Make a handle on the memory of a writable ndarray, one axis, no gaps."},
    {},
};

PyMemberDef members[] = {
    {"size", T_LONGLONG, offsetof(Handle, size), READONLY, "Elements in the buffer."},
    {"version", T_LONGLONG, offsetof(Handle, version), 0, "Renewed at every write."},
    {},
};

PyGetSetDef properties[] = {
    {"dtype", handle_dtype, nullptr, "The NumPy dtype of the elements.", nullptr},
    {"data", handle_data, nullptr, "What shows the buffer protocol: the handle itself.", nullptr},
    {},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Array(size, dtype)\n--\n\nA flat buffer; its elements are not set.")},
    {Py_tp_new, reinterpret_cast<void*>(handle_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(handle_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(handle_repr)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_bf_getbuffer, reinterpret_cast<void*>(handle_buffer)},
    {0, nullptr},
};

PyType_Spec spec = {"needle.backend_ndarray.ndarray_backend_cpu.Array", sizeof(Handle), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

}  // namespace

int64_t item_size(DType dtype) { return facts_of(dtype).bytes; }
const char* dtype_name(DType dtype) { return facts_of(dtype).name; }

bool is_handle(PyObject* object) { return Py_TYPE(object) == handle_type; }

Handle* new_handle(int64_t size, DType dtype) {
  int64_t bytes;
  void* data = nullptr;
  try {
    if (__builtin_mul_overflow(size, item_size(dtype), &bytes)) throw std::bad_alloc();
    data = allocate(bytes);
  } catch (const std::bad_alloc&) {
    PyErr_Format(PyExc_MemoryError, "Array: there is no memory for %lld elements of %s; use smaller arrays",
                 static_cast<long long>(size), dtype_name(dtype));
    return nullptr;
  }
  Handle* handle = make_handle(data, size, dtype, nullptr);
  if (handle == nullptr) {
    release(data, bytes);
  } else {
    track(kTraceDomain, reinterpret_cast<uintptr_t>(data), static_cast<size_t>(bytes));
  }
  return handle;
}

bool add_handle_type(PyObject* module) {
  PyObject* numpy = PyImport_ImportModule("numpy");
  PyObject* dtypes = PyImport_ImportModule("needle.backend_ndarray.dtypes");
  if (numpy == nullptr || dtypes == nullptr) return false;
  for (DTypeFacts& dtype : facts) {
    dtype.object = PyObject_CallMethod(numpy, "dtype", "s", dtype.name);
    if (dtype.object == nullptr) return false;
  }
  as_dtype = PyObject_GetAttrString(dtypes, "as_dtype");
  PyObject* errors = PyImport_ImportModule("needle.errors");
  shape_error = errors == nullptr ? nullptr : PyObject_GetAttrString(errors, "ShapeError");
  Py_XDECREF(errors);
  Py_DECREF(numpy);
  Py_DECREF(dtypes);
  handle_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (as_dtype == nullptr || shape_error == nullptr || handle_type == nullptr) return false;
  Py_INCREF(handle_type);
  return PyModule_AddObject(module, "Array", reinterpret_cast<PyObject*>(handle_type)) == 0;
}

}  // namespace needle
