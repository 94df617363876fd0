/* distinct.h - whether objects are one.
 *
 * A program may ask whether two objects are one in many ways: by `is`, by a lookup, by a
 * comparison of containers, by changing one and reading the other.  A recording therefore fits
 * only calls in which objects that were apart are apart again.  A set of objects, compared by
 * address, answers that in one pass. */
#ifndef CR_PY_BIND_COMPILE_DISTINCT_H
#define CR_PY_BIND_COMPILE_DISTINCT_H

#include "py/bind/bind.h"

/* Open addressing; at most half of the places are taken.  The objects are borrowed. */
typedef struct {
    const PyObject **at;
    size_t places; /* a power of two, or 0 */
} cr_object_set;

/* Empties the set and makes room for n objects.  Returns false without memory; no exception. */
bool cr_object_set_clear(cr_object_set *s, size_t n);
void cr_object_set_drop(cr_object_set *s);
bool cr_object_set_has(const cr_object_set *s, const PyObject *x);
/* Adds x.  Returns false when the set had it already. */
bool cr_object_set_add(cr_object_set *s, const PyObject *x);

#endif
