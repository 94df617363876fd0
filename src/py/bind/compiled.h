/* compiled.h - compiled functions, for the files of this folder. */
#ifndef CR_PY_BIND_COMPILED_H
#define CR_PY_BIND_COMPILED_H

#include "graph/graph.h"
#include "py/bind/bind.h"

/* A recording without constants as a Call; NULL with an exception. */
PyObject *cr_py_compiled_call(const cr_graph *g, bool grad);

int cr_py_compiled_start(PyObject *m);

#endif
