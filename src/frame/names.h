/* names.h - functions in C that read attributes by strings, such as getattr. */
#ifndef CR_FRAME_NAMES_H
#define CR_FRAME_NAMES_H

#include "frame/frame_compat.h"

/* Whether calling `f` reads attributes whose names are in the strings that it gets, or calls a
 * function that it gets with further arguments. */
int cr_names_are_read_by(PyObject *f);
/* Adds to the set the names in `x`: the string itself and, of "a.b" or "{0.b}", its parts; of a
 * tuple or list those of its items.  0, or -1 with an exception. */
int cr_names_add(PyObject *set, PyObject *x);
/* Adds the names that a class pattern reads: those of its keywords, and the class's for
 * positions.  0, or -1 with an exception. */
int cr_names_add_pattern(PyObject *set, PyObject *type, PyObject *keywords);

#endif
