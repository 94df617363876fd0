/* Ordering, merging and walking dims.  Tensors have few dims, usually in order: the loops are
 * short, and sorting is by insertion. */
#include "space/space.h"
#include "base/integer.h"

/* Spaces are long, so only the steps of operands in use are copied. */
static void dim_copy(cr_space *s, int to, int from)
{
    s->dim[to].size = s->dim[from].size;
    s->dim[to].number = s->dim[from].number;
    for (int k = 0; k < s->operands; k++)
        s->dim[to].step[k] = s->dim[from].step[k];
}

static void dim_swap(cr_space *s, int a, int b)
{
    cr_space_dim *x = &s->dim[a], *y = &s->dim[b];
    int64_t size = x->size, number = x->number;

    x->size = y->size;
    y->size = size;
    x->number = y->number;
    y->number = number;
    for (int k = 0; k < s->operands; k++) {
        int64_t step = x->step[k];
        x->step[k] = y->step[k];
        y->step[k] = step;
    }
}

void cr_space_order(cr_space *s)
{
    for (int i = 1; i < s->ndim; i++)
        for (int d = i; d > 0; d--) {
            if (cr_magnitude(s->dim[d - 1].step[0]) >= cr_magnitude(s->dim[d].step[0]))
                break;
            dim_swap(s, d - 1, d);
        }
}

static bool is_one_dim(const cr_space *s, int outer, int inner)
{
    const cr_space_dim *in = &s->dim[inner];

    for (int k = 0; k < s->operands; k++)
        if (s->dim[outer].step[k] != CR_WRAP_MUL(in->step[k], in->size))
            return false;
    return true;
}

void cr_space_merge(cr_space *s, uint64_t apart)
{
    int n = 0;

    for (int d = 1; d < s->ndim; d++) {
        if (!(apart >> d & 1) && is_one_dim(s, n, d)) {
            int64_t size = s->dim[n].size * s->dim[d].size;
            dim_copy(s, n, d);
            s->dim[n].size = size;
        } else if (++n != d) {
            dim_copy(s, n, d);
        }
    }
    s->ndim = s->ndim ? n + 1 : 0;
}

void cr_space_fill(cr_space *s, int ndim)
{
    for (; s->ndim < ndim; s->ndim++) {
        for (int d = s->ndim; d > 0; d--)
            dim_copy(s, d, d - 1);
        s->dim[0].size = 1;
        s->dim[0].number = -1;
        for (int k = 0; k < s->operands; k++)
            s->dim[0].step[k] = 0;
    }
}

void cr_space_remove(cr_space *s, int d)
{
    for (s->ndim--; d < s->ndim; d++)
        dim_copy(s, d, d + 1);
}

bool cr_one_step(int64_t *step, int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t n = 1, one = *step;

    for (int d = ndim - 1; d >= 0; d--) {
        if (size[d] == 1)
            continue;
        one = n == 1 ? stride[d] : one;
        if (stride[d] != CR_WRAP_MUL(one, n))
            return false;
        n = CR_WRAP_MUL(n, size[d]);
    }
    *step = one;
    return true;
}

/* --- walking --- */

void cr_place_seek(cr_place *p, const cr_space *s, int dims, char *const *at, int64_t i)
{
    for (int k = 0; k < s->operands; k++)
        p->at[k] = at[k];
    for (int d = dims - 1; d >= 0; d--) {
        const cr_space_dim *x = &s->dim[d];
        p->index[d] = i ? i % x->size : 0;
        i = i ? i / x->size : 0;
        for (int k = 0; p->index[d] && k < s->operands; k++)
            p->at[k] += p->index[d] * x->step[k];
    }
}

void cr_place_next(cr_place *p, const cr_space *s, int dims)
{
    for (int d = dims - 1; d >= 0; d--) {
        const cr_space_dim *x = &s->dim[d];
        int64_t by = p->index[d] + 1 < x->size ? 1 : -p->index[d];
        p->index[d] += by;
        for (int k = 0; k < s->operands; k++)
            p->at[k] += by * x->step[k];
        if (by > 0)
            return;
    }
}

void cr_space_walk(const cr_space *s, int dims, char *const *at, int64_t begin, int64_t end,
                   cr_row_fn fn, void *context)
{
    static const int64_t still[CR_SPACE_OPERANDS];
    int last = dims - 1;
    cr_place p;

    if (begin >= end)
        return;
    if (!dims) {
        fn(context, at, still, 1);
        return;
    }
    for (cr_place_seek(&p, s, dims, at, begin);; cr_place_next(&p, s, last)) {
        const cr_space_dim *row = &s->dim[last];
        int64_t first = p.index[last], n = cr_least(row->size - first, end - begin);
        fn(context, p.at, row->step, n);
        begin += n;
        if (begin == end)
            return;
        p.index[last] = 0;
        for (int k = 0; first && k < s->operands; k++)
            p.at[k] -= first * row->step[k];
    }
}
