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

bool cr_is_one_a_row(int ndim, const int64_t *size, int64_t columns, int own,
                     const int64_t *own_size)
{
    int lead = ndim - own;

    if (lead < 0)
        return false;
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t here = d >= lead ? own_size[d - lead] : 1;
        if (columns > 1 ? here != 1 : here != size[d])
            return false;
        if (columns > 1 && (!size[d] || columns % size[d]))
            return false;
        columns = columns > 1 ? columns / size[d] : columns;
    }
    return columns == 1;
}

/* From the last dim on, neighbouring dims without gaps between them form a block.  The size of
 * each block must be the product of successive new dims. */
bool cr_strides_for_sizes(int64_t *stride, int ndim, const int64_t *size, int own,
                          const int64_t *own_size, const int64_t *own_stride)
{
    int64_t step = own ? own_stride[own - 1] : 1, block = 1, used = 1;
    int n = ndim - 1;

    for (int d = own - 1; d >= 0; d--) {
        block *= own_size[d];
        if (d > 0 && (own_size[d - 1] == 1 || own_stride[d - 1] == block * step))
            continue;
        for (; n >= 0 && (used < block || size[n] == 1); n--) {
            stride[n] = used * step;
            used *= size[n];
        }
        if (used != block)
            return false;
        if (d > 0)
            step = own_stride[d - 1];
        block = used = 1;
    }
    for (; n >= 0 && size[n] == 1; n--)
        stride[n] = 1;
    return n < 0;
}
