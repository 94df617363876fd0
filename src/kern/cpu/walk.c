/* Iterates over several views together. */
#include "kern/cpu/walk.h"
#include "base/memory.h"
#include <string.h>

void cr_walk_start(cr_walk *w, int ndim, const int64_t *size, int skip)
{
    cr_space_start(&w->space, 0);
    w->total = 1;
    for (int d = 0; d < ndim; d++) {
        if (d == skip)
            continue;
        (void)cr_space_add(&w->space, size[d], d);
        w->total *= size[d];
    }
}

void cr_walk_add_strides(cr_walk *w, char *at, const int64_t *stride, size_t item)
{
    int k = w->space.operands++;

    w->at[k] = at;
    for (int d = 0; d < w->space.ndim; d++) {
        cr_space_dim *dim = &w->space.dim[d];
        dim->step[k] = CR_WRAP_MUL(stride[dim->number], item);
    }
}

void cr_walk_add(cr_walk *w, const cr_view *v)
{
    cr_walk_add_strides(w, v->data, v->stride, cr_view_item(v));
}

typedef struct {
    const cr_walk *w;
    cr_row_fn fn;
    void *context;
} run_context;

static void run_range(void *context, int64_t begin, int64_t end)
{
    run_context *c = context;
    const cr_space *s = &c->w->space;

    cr_space_walk(s, s->ndim, c->w->at, begin, end, c->fn, c->context);
}

void cr_walk_run(const cr_walk *w, int64_t grain, cr_row_fn fn, void *context)
{
    run_context c = {w, fn, context};

    cr_parallel_for(w->total, grain, run_range, &c);
}

void cr_walk_all(const cr_walk *w, cr_row_fn fn, void *context)
{
    cr_space_walk(&w->space, w->space.ndim, w->at, 0, w->total, fn, context);
}

char *cr_dense_copy(const cr_view *v)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view copy = *v;

    cr_dense_strides(stride, v->ndim, v->size);
    copy.stride = stride;
    copy.data = cr_alloc((size_t)cr_view_numel(v) * cr_view_item(v));
    if (copy.data)
        cr_copy_view(&copy, v);
    return copy.data;
}
