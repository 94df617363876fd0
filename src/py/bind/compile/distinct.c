/* Sets of objects: see distinct.h. */
#include "py/bind/compile/distinct.h"
#include <string.h>

bool cr_object_set_clear(cr_object_set *s, size_t n)
{
    size_t places = 4;

    while (places < 2 * n)
        places *= 2;
    if (places > s->places) {
        cr_object_set_drop(s);
        s->at = PyMem_Malloc(places * sizeof *s->at);
        if (!s->at)
            return false;
        s->places = places;
    }
    memset(s->at, 0, s->places * sizeof *s->at);
    return true;
}

void cr_object_set_drop(cr_object_set *s)
{
    PyMem_Free(s->at);
    *s = (cr_object_set){NULL, 0};
}

/* The place of x, or the free one where it belongs. */
static const PyObject **place_of(const cr_object_set *s, const PyObject *x)
{
    size_t i = (size_t)(((uintptr_t)x >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32);

    for (;; i++) {
        const PyObject **at = &s->at[i & (s->places - 1)];
        if (!*at || *at == x)
            return at;
    }
}

bool cr_object_set_has(const cr_object_set *s, const PyObject *x)
{
    return s->places && *place_of(s, x);
}

bool cr_object_set_add(cr_object_set *s, const PyObject *x)
{
    const PyObject **at = place_of(s, x);
    bool had = *at;

    *at = x;
    return !had;
}
