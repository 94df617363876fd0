/* Iteration spaces for several shapes.
 *
 * Nodes of a group may have different shapes with the same number of elements.  Their common
 * refinement has a dim boundary wherever a shape has one, so that an operand of any of the
 * shapes has one step along each dim. */
#include "compile/facts.h"
#include <string.h>

int64_t cr_sizes_numel(int ndim, const int64_t *size)
{
    int64_t n = 1;

    for (int d = 0; d < ndim; d++)
        n *= size[d];
    return n;
}

/* The size of the next dim from the end that is not 1; 1 if there is none. */
static int64_t next_size(const int64_t *size, int *d)
{
    while (*d > 0)
        if (size[--*d] != 1)
            return size[*d];
    return 1;
}

bool cr_space_refine(cr_space *s, int ndim, const int64_t *size)
{
    int64_t back[CR_SPACE_DIMS], a, b;
    int i = s->ndim, j = ndim, n = 0;

    if (!cr_sizes_numel(ndim, size)) {
        *s = (cr_space){1, {0}};
        return true;
    }
    a = next_size(s->size, &i);
    b = next_size(size, &j);
    if (!s->ndim)
        a = 0; /* an empty space accepts every size */
    while (b != 1 || a > 1) {
        int64_t least = !a || b < a ? b : a;
        if (n == CR_SPACE_DIMS || least == 1 || (a && a % least) || b % least)
            return false;
        back[n++] = least;
        if (a && (a /= least) == 1)
            a = next_size(s->size, &i);
        if ((b /= least) == 1)
            b = next_size(size, &j);
    }
    s->ndim = n;
    for (int d = 0; d < n; d++)
        s->size[d] = back[n - 1 - d];
    return true;
}

void cr_space_steps(int64_t *step, const cr_space *s, int dims, int ndim, const int64_t *size,
                    const cr_gtype *in)
{
    int64_t dense = 1;
    int at = dims;

    for (int d = ndim - 1; d >= 0; d--) {
        int own = d - (ndim - in->ndim);
        int64_t left = size[d], along = 0;
        if (own >= 0 && in->size[own] != 1)
            along = in->stride ? in->stride[own] : dense;
        if (own >= 0)
            dense *= in->size[own];
        while (left > 1) {
            step[--at] = along;
            along *= s->size[at];
            left /= s->size[at];
        }
    }
    while (at > 0)
        step[--at] = 0;
}

int cr_space_columns(const cr_space *s, int64_t columns)
{
    int n = 0;

    while (columns > 1)
        columns /= s->size[s->ndim - ++n];
    return n;
}

bool cr_is_one_a_row(int ndim, const int64_t *size, int64_t columns, const cr_gtype *in)
{
    int lead = ndim - in->ndim;

    if (lead < 0)
        return false;
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t own = d >= lead ? in->size[d - lead] : 1;
        if (columns > 1 ? own != 1 : own != size[d])
            return false;
        if (columns > 1 && columns % size[d])
            return false;
        columns = columns > 1 ? columns / size[d] : columns;
    }
    return columns == 1;
}
