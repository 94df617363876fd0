/* comm.h - shared by the files of stores and groups of processes. */
#ifndef CR_PY_BIND_COMM_COMM_H
#define CR_PY_BIND_COMM_COMM_H

#include "comm/group.h"
#include "py/bind/bind.h"

/* The store of a _CommStore, borrowed; NULL with an exception. */
cr_store *cr_py_store_of(PyObject *x);
/* The group of a _CommGroup, borrowed; NULL with an exception, also when it was closed. */
cr_comm *cr_py_comm_of(PyObject *x);

/* Adds a tuple of names to a module.  -1 with an exception. */
int cr_py_add_names(PyObject *m, const char *name, const char *const *names, size_t n);

/* Runs `code` without the interpreter lock.  Unlike CR_PY_UNLOCKED it leaves garbage collection
 * on: the code changes no reference of tensors, and may wait for minutes. */
#define CR_PY_WAITING(code)                                                                    \
    do {                                                                                       \
        PyThreadState *cr_py_saved = PyEval_SaveThread();                                      \
        code;                                                                                  \
        PyEval_RestoreThread(cr_py_saved);                                                     \
    } while (0)

#endif
