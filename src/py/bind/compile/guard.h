/* guard.h - guards: the assumptions of a recording as a list of checks.
 *
 * A guard is a list of nodes, parents before children.  A node's source states where to find an
 * object and its check states a condition on it.  Checks only read.  They call no code of the
 * user except comparisons of numbers and strings.
 *
 * Objects that nodes describe by their contents ("instance" to "tensor") must be apart from
 * each other and from those that nodes name: where the recorded call had one object in two
 * places, a node checks "same".
 *
 * A dict that has not changed since the last passed check contains the same objects.  The guard
 * then uses the objects it remembers and does not check plain values in the dict again. */
#ifndef CR_PY_BIND_COMPILE_GUARD_H
#define CR_PY_BIND_COMPILE_GUARD_H

#include "py/bind/bind.h"

typedef struct cr_guard cr_guard;

/* Makes a guard from a list of lists [source, parent, key, check, expected, slot(, dims)]; NULL
 * with an exception.
 *
 *   source        parent        key             the object
 *   "arg"         -             position        positional argument
 *   "kwarg"       -             position        value of a keyword
 *   "const"       -             object          the object itself
 *   "item"        a dict        key             its item; the check fails if missing
 *   "item"        tuple, list   position        its item
 *   "cell"        a cell        -               its contents
 *   "dict"        any object    -               its __dict__
 *   "attr"        any object    name            its attribute, by getattr
 *   "type"        any object    name            the attribute of its class
 *   "grad"        a tensor      -               its .grad or None
 *
 *   check         expected          condition on the object
 *   "any"         -                 exists
 *   "is"          object            is that object
 *   "same"        node's number     is the object of another node
 *   "instance"    type              has exactly this class
 *   "equal"       value             has its class and is equal; floats by their bits
 *   "number"      type              has exactly this class (int, float); its value is number
 *                                   `slot`
 *   "list"        (type, length,   is a list or tuple of exactly this class and length, and
 *                  items)          has these items, a dict by position, which may be missing
 *   "mapping"     (type, keys,     has exactly this class, these keys in this order, and these
 *                  items)          items, a dict, which may be missing
 *   "items"       (type, items)    is a set, list or tuple of exactly this class, and has just
 *                                  these items in this order
 *   "holds"       (items, names,   is a dict or a class with this __mro__, and has these items
 *                  mro, exact)     and none of these names; just these items, if exact
 *   "derived"     (type, value)    has exactly this class, which derives from a class of
 *                                  numbers or strings, and this value
 *   "returns"     (arguments,       is a function in C that returns this object for these
 *                  object)          arguments
 *   "tensor"      tensor            has its class, dtype, device, sizes, strides and
 *                                   requires_grad; it is input `slot`, or no input when slot is
 *                                   -1; dims in the mask `dims` may have any size but 0 and
 * 1 */
cr_guard *cr_guard_new(PyObject *nodes);
void cr_guard_drop(cr_guard *g);
int cr_guard_traverse(const cr_guard *g, visitproc visit, void *arg);

/* Runs the checks.  Returns -1 when all hold; input[] then contains borrowed tensors and
 * number[] the numbers.  Otherwise returns the number of the first node that fails.  Never
 * raises. */
int cr_guard_check(cr_guard *g, PyObject *const *args, Py_ssize_t positional, cr_tensor **input,
                   cr_scalar *number);
/* The object that failed in the last check, NULL when it was missing.  Borrowed, valid until
 * other Python code runs. */
PyObject *cr_guard_failed(const cr_guard *g);
/* The node that has the object of the node that failed in the last check, which has to have
 * another one; otherwise -1. */
int cr_guard_twin(const cr_guard *g);
/* Whether node i failed in the last check because a tensor is not like the recorded one. */
bool cr_guard_misfits(const cr_guard *g, int i);
/* The object of a node after a successful check; borrowed. */
PyObject *cr_guard_object(const cr_guard *g, int node);
/* True when the tensor of the node is an input. */
bool cr_guard_is_input(const cr_guard *g, int node);
/* Drops the reference on a node's object.  The caller must not use the object afterwards. */
void cr_guard_release(cr_guard *g, int node);
/* Drops all references on objects.  Call it after a failed check. */
void cr_guard_release_all(cr_guard *g);

#endif
