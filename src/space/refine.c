/* Common refinements of shapes.
 *
 * Shapes of one number of elements are walked from their last dims: the refinement has a
 * boundary between dims wherever a shape has one, so that an operand of any of the shapes has
 * one step along each dim. */
#include "space/space.h"

/* The size of the next dim from the end that is not 1; 1 if there is none. */
static int64_t next_size(const int64_t *size, int *d)
{
    while (*d > 0)
        if (size[--*d] != 1)
            return size[*d];
    return 1;
}

static bool is_empty(int ndim, const int64_t *size)
{
    for (int d = 0; d < ndim; d++)
        if (!size[d])
            return true;
    return false;
}

bool cr_refine(cr_refined *r, int ndim, const int64_t *size)
{
    int64_t back[CR_REFINED_DIMS], a, b;
    int i = r->ndim, j = ndim, n = 0;

    if (is_empty(ndim, size)) {
        *r = (cr_refined){1, {0}};
        return true;
    }
    a = next_size(r->size, &i);
    b = next_size(size, &j);
    if (!r->ndim)
        a = 0; /* no dims accept every size */
    while (b != 1 || a > 1) {
        int64_t least = !a || b < a ? b : a;
        if (n == CR_REFINED_DIMS || least == 1 || (a && a % least) || b % least)
            return false;
        back[n++] = least;
        if (a && (a /= least) == 1)
            a = next_size(r->size, &i);
        if ((b /= least) == 1)
            b = next_size(size, &j);
    }
    r->ndim = n;
    for (int d = 0; d < n; d++)
        r->size[d] = back[n - 1 - d];
    return true;
}

void cr_refined_steps(int64_t *step, const cr_refined *r, int dims, int ndim,
                      const int64_t *size, int own, const int64_t *own_size,
                      const int64_t *own_stride)
{
    int64_t dense = 1;
    int at = dims;

    for (int d = ndim - 1; d >= 0; d--) {
        int k = d - (ndim - own);
        int64_t left = size[d], along = 0;
        if (k >= 0 && own_size[k] != 1)
            along = own_stride ? own_stride[k] : dense;
        if (k >= 0)
            dense *= own_size[k];
        while (left > 1) {
            step[--at] = along;
            along *= r->size[at];
            left /= r->size[at];
        }
    }
    while (at > 0)
        step[--at] = 0;
}

int cr_refined_cut(const cr_refined *r, int64_t columns)
{
    int n = 0;

    while (columns > 1)
        columns /= r->size[r->ndim - ++n];
    return n;
}
