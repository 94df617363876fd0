/* guard.h - what a recording took for granted, as a program of checks.
 *
 * A guard is a list of nodes, parents before children.  A node says where to find an object
 * (its source) and what must be true of it (its check).  Checks read only; they call no code
 * of the user's beyond comparisons of numbers and strings.
 *
 * A dict that was not changed since the last passed check holds the same objects, so that what
 * is below it is taken from memory and plain values there are not looked at again. */
#ifndef CR_PY_BIND_GUARD_H
#define CR_PY_BIND_GUARD_H

#include "py/bind/bind.h"

typedef struct cr_guard cr_guard;

/* From a list of lists [source, parent, key, check, expected, slot(, dims)]; NULL with an
 * exception.
 *
 *   source        parent        key             the object
 *   "arg"         -             position        positional argument
 *   "kwarg"       -             position        value of a keyword
 *   "const"       -             object          the object itself
 *   "item"        a dict        key             its item; missing fails
 *   "none"        a dict        key             there is no such item
 *   "at"          tuple, list   position        its item
 *   "cell"        a cell        -               its contents
 *   "dict"        any object    -               its __dict__
 *   "attr"        any object    name            its attribute, by getattr
 *   "type"        any object    name            what its class has under that name
 *   "grad"        a tensor      -               its .grad or None
 *
 *   check         expected          holds when the object
 *   "any"         -                 is there
 *   "is"          object            is that object
 *   "same"        node's number     is the object of another node
 *   "instance"    type              has exactly this class
 *   "equal"       value             has its class and is equal; floats by their bits
 *   "number"      type              has exactly this class (int, float); its value is number
 * `slot` "list"        (type, length)    has exactly this class and length "mapping"     (type,
 * length)    has exactly this class and length "tensor"      tensor            has its class,
 * dtype, device, sizes, strides and need of a gradient; it is input `slot`, or none when slot
 * is -1; along dimensions in the mask `dims` any size but 0 and 1 will do */
cr_guard *cr_guard_new(PyObject *nodes);
void cr_guard_drop(cr_guard *g);
int cr_guard_traverse(const cr_guard *g, visitproc visit, void *arg);

/* Runs the checks.  -1: all hold; then input[] are borrowed tensors and number[] is filled.
 * Otherwise the number of the node that fails.  Never raises. */
int cr_guard_check(cr_guard *g, PyObject *const *args, Py_ssize_t positional, cr_tensor **input,
                   cr_scalar *number);
/* The object at which the last check failed, NULL where it was missing; borrowed, until
 * anything else runs. */
PyObject *cr_guard_failed(const cr_guard *g);
/* The object of a node after a check that held; borrowed. */
PyObject *cr_guard_object(const cr_guard *g, int node);
/* Whether the tensor of a node is an input. */
bool cr_guard_is_input(const cr_guard *g, int node);
/* Holds the object of a node no longer, which the caller does not look at again. */
void cr_guard_release(cr_guard *g, int node);
/* After a check that failed: holds nothing any longer. */
void cr_guard_release_all(cr_guard *g);

#endif
