/* Ordering, merging and walking dims.  Tensors have few dims, usually in order: the loops are
 * short, and sorting is by insertion. */
#include "space/space.h"
#include "base/integer.h"

const cr_space_dim cr_single_dim = {1, -1, {0}};

/* Spaces are long, so only the steps of operands in use are copied. */
static inline void dim_copy(cr_space_dim *to, const cr_space_dim *from, int operands)
{
    to->size = from->size;
    to->number = from->number;
    for (int k = 0; k < operands; k++)
        to->step[k] = from->step[k];
}

static void dim_swap(cr_space_dim *a, cr_space_dim *b, int operands)
{
    cr_space_dim t;

    dim_copy(&t, a, operands);
    dim_copy(a, b, operands);
    dim_copy(b, &t, operands);
}

void cr_space_order(cr_space *s)
{
    for (int i = 1; i < s->ndim; i++)
        for (cr_space_dim *d = &s->dim[i]; d > s->dim; d--) {
            if (cr_magnitude(d[-1].step[0]) >= cr_magnitude(d->step[0]))
                break;
            dim_swap(d - 1, d, s->operands);
        }
}

static inline bool is_one_dim(const cr_space_dim *outer, const cr_space_dim *inner,
                              int operands)
{
    for (int k = 0; k < operands; k++)
        if (outer->step[k] != CR_WRAP_MUL(inner->step[k], inner->size))
            return false;
    return true;
}

void cr_space_merge(cr_space *s, uint64_t apart)
{
    cr_space_dim *last = s->dim, *next = s->dim;
    int ndim = s->ndim, operands = s->operands;

    for (int d = 1; d < ndim; d++) {
        int64_t outer = 1;
        next++;
        apart >>= 1;
        if (!(apart & 1) && is_one_dim(last, next, operands)) {
            outer = last->size;
            s->ndim--;
        } else {
            last++;
        }
        if (last != next)
            dim_copy(last, next, operands);
        last->size *= outer;
    }
}

void cr_space_of_view(cr_space *s, const cr_view *v)
{
    cr_space_start(s, 1);
    for (int d = 0; d < v->ndim; d++)
        *cr_space_add(s, v->size[d], d) =
            CR_WRAP_MUL(v->stride[d], cr_dtype_size((cr_dtype)v->dtype));
}

void cr_space_remove(cr_space *s, int d)
{
    for (s->ndim--; d < s->ndim; d++)
        dim_copy(&s->dim[d], &s->dim[d + 1], s->operands);
}

void cr_space_move(cr_space *s, int from, int to)
{
    for (; from < to; from++)
        dim_swap(&s->dim[from], &s->dim[from + 1], s->operands);
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

/* Addresses of operands without elements may wrap; they are not read. */
static inline void place_move(cr_place *p, int k, int64_t by, int64_t step)
{
    p->at[k] = (char *)((uintptr_t)p->at[k] + (uintptr_t)by * (uintptr_t)step);
}

void cr_place_seek(cr_place *p, const cr_space *s, int dims, char *const *at, int64_t i)
{
    for (int k = 0; k < s->operands; k++)
        p->at[k] = at[k];
    for (int d = dims - 1; d >= 0; d--) {
        const cr_space_dim *x = &s->dim[d];
        p->index[d] = i ? i % x->size : 0;
        i = i ? i / x->size : 0;
        for (int k = 0; p->index[d] && k < s->operands; k++)
            place_move(p, k, p->index[d], x->step[k]);
    }
}

void cr_place_next(cr_place *p, const cr_space *s, int dims)
{
    for (int d = dims - 1; d >= 0; d--) {
        const cr_space_dim *x = &s->dim[d];
        int64_t by = p->index[d] + 1 < x->size ? 1 : -p->index[d];
        p->index[d] += by;
        for (int k = 0; k < s->operands; k++)
            place_move(p, k, by, x->step[k]);
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
    if (!dims || (!last && !begin)) {
        fn(context, at, dims ? s->dim->step : still, end);
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
