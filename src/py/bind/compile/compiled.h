/* compiled.h - compiled functions, for the files of this folder and module.c. */
#ifndef CR_PY_BIND_COMPILE_COMPILED_H
#define CR_PY_BIND_COMPILE_COMPILED_H

#include "graph/graph.h"
#include "py/bind/bind.h"

/* Makes a Call of a recording without constants; NULL with an exception. */
PyObject *cr_py_compiled_call(const cr_graph *g, bool grad, unsigned how);
/* Makes a Calls object of a recording with symbols. */
PyObject *cr_py_compiled_calls(const cr_graph *g, bool grad, unsigned how);

/* The graph for compiler/_picture.py: (title, (name, label) of its inputs, nodes, names of its
 * outputs).  A node is (kind, [(name, source)], names of values that it reads, results as
 * (name, label)); a group has a line for each of its nodes. */
PyObject *cr_py_graph_listing(const char *title, const cr_graph *g);

/* _facts_of_code(code) -> (set of the global names that it reads, set of all its names),
 * including nested code objects. */
PyObject *cr_py_code_facts(PyObject *module, PyObject *code);

/* --- symbols (symbol.c) --- */

/* The Symbol of the recorder's number `k`. */
PyObject *cr_py_symbol(cr_recorder *r, int k);
/* Makes numbers of the recorder's symbols that are still referred to, and fixes these by
 * guards. False with an exception. */
bool cr_py_symbols_settle(const cr_recorder *r);
/* Lets a function of Python decide comparisons of the recording's symbols (Recorder.decides).
 * False with an exception. */
bool cr_py_symbols_decided(const cr_recorder *r, PyObject *function);
/* _symbol_texts(function): texts of symbols in this thread are function(symbol), and make no
 * guards; where it returns NotImplemented, or is None, they are those of the values.  Returns
 * the function from before. */
PyObject *cr_py_symbol_texts(PyObject *m, PyObject *function);
/* Recorder.enter() and leave(): between them other recordings record parts of its program.
 * leave() returns the symbols, and tensors with symbolic sizes, of recordings around that the
 * part used as if they were plain. */
PyObject *cr_py_symbols_enter(cr_recorder *r);
PyObject *cr_py_symbols_leave(void);
/* The dims of a tensor that are symbols of a recording that was entered, as a mask. */
PyObject *cr_py_symbolic_around(cr_tensor *t);
/* _symbol_of(number): see graph.c. */
PyObject *cr_py_symbol_of(PyObject *m, PyObject *x);
/* 1: the guards of a _C.RecordedGraph hold for these inputs and numbers; 0: one fails; -1:
 * raised. */
int cr_py_graph_fits(PyObject *graph, cr_tensor *const *input, const cr_scalar *number);
/* The graph of a RecordedGraph, borrowed; NULL with an exception. */
const struct cr_graph *cr_py_graph_of(PyObject *x);
/* The tensors of a sequence, one for each input, in a new array (PyMem_Free) that has space for
 * the outputs, too.  NULL with an exception.  The tensors are borrowed from *items, which the
 * caller must release. */
cr_tensor **cr_py_graph_inputs(const struct cr_graph *g, PyObject *given, PyObject **items);
int cr_py_compiled_start(PyObject *m);
int cr_py_symbol_start(PyObject *m);
int cr_py_size_expression_start(PyObject *m);

#endif
