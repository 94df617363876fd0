/* comm.h - shared by the files of stores and groups of processes. */
#ifndef CR_PY_BIND_COMM_COMM_H
#define CR_PY_BIND_COMM_COMM_H

#include "comm/group.h"
#include "py/bind/bind.h"

/* The store of a _CommStore, borrowed; NULL with an exception. */
cr_store *cr_py_store_of(PyObject *x);
/* The group of a _CommGroup, borrowed; NULL with an exception, also when it was closed. */
cr_comm *cr_py_comm_of(PyObject *x);
/* The program's file and line, for the messages of calls; "" where it has no frame. */
enum { CR_PY_WHERE_BYTES = 160 };
void cr_py_comm_where(char *out, size_t size);

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

/* Runs a call that waits: handlers of signals run meanwhile.  The exception of one is the
 * call's failure; if the call succeeds, the program gets it at its next instruction. */
#define CR_PY_AWAITING(st, call)                                                               \
    do {                                                                                       \
        bool cr_py_before = cr_py_waits(true);                                                 \
        CR_PY_WAITING(st = (call));                                                            \
        st = cr_py_waited(st, cr_py_before);                                                   \
    } while (0)
/* Whether handlers run in waits of the program's first thread; returns the setting before. */
bool cr_py_waits(bool on);
/* Restores the setting; returns the status of a call that waited. */
cr_status cr_py_waited(cr_status st, bool before);

#endif
