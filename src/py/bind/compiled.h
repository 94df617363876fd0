/* compiled.h - compiled functions, for the files of this folder. */
#ifndef CR_PY_BIND_COMPILED_H
#define CR_PY_BIND_COMPILED_H

#include "graph/graph.h"
#include "py/bind/bind.h"

/* A recording without constants as a Call; NULL with an exception. */
PyObject *cr_py_compiled_call(const cr_graph *g, bool grad, unsigned how);
/* The same of a recording with symbols: Calls. */
PyObject *cr_py_compiled_calls(const cr_graph *g, bool grad, unsigned how);

/* _facts_of_code(code) -> (set of the names of globals that it reads, set of all names in it),
 * the codes in it included. */
PyObject *cr_py_code_facts(PyObject *module, PyObject *code);

/* _walk_items(holder, source, node, nodes, known, holders, kept, values) -> [(key, object)]
 * left to the caller.
 *
 * Nodes (guard.h) of the plain items of a dict, list or tuple that is node `node`, of its empty
 * dicts and its tuples of plain items; known, holders and kept are Walk's (guards.py).
 * `values`: numbers and strings are plain, too. */
PyObject *cr_py_walk_items(PyObject *module, PyObject *args);

/* --- symbols (symbol.c) --- */

/* Number `k` of the thread's recorder as a Python number. */
PyObject *cr_py_symbol(cr_recorder *r, int k);
int cr_py_compiled_start(PyObject *m);
int cr_py_symbol_start(PyObject *m);

#endif
