/* onnx.h - files of ONNX for _C.RecordedGraph. */
#ifndef CR_PY_BIND_COMPILE_ONNX_H
#define CR_PY_BIND_COMPILE_ONNX_H

#include "onnx/onnx.h"
#include "py/bind/bind.h"

/* (bytes, list of (tensor, offset)); NULL with an exception.  The arguments are those of
 * RecordedGraph.onnx(). */
PyObject *cr_py_onnx_file(const cr_graph *g, const cr_scalar *const *sample, int samples,
                          PyObject *inputs, PyObject *outputs, PyObject *how);

#endif
