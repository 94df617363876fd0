/* The entry of binomial numbers. */
#include "kern/cpu/random/binomial.h"
#include "kern/cpu/each.h"
#include "kern/cpu/entries.h"

static void binomial_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const binomial_context *c = context;

    for (int64_t i = 0; i < n; i++) {
        double count = cr_real_load((cr_dtype)c->dtype, at[1] + i * step[1]);
        double p = cr_real_load((cr_dtype)c->dtype, at[2] + i * step[2]);
        cr_scalar_store(cr_scalar_float(binomial_number(c, count, p)), (cr_dtype)c->dtype,
                        at[0] + i * step[0]);
    }
}

static void add_broadcast(cr_walk *w, const cr_view *v, const cr_view *out)
{
    int64_t stride[CR_MAX_DIMS];

    cr_broadcast_strides(stride, v, out->ndim, out->size);
    cr_walk_add_strides(w, v->data, stride, cr_view_item(v));
}

/* (count, prob, generator) */
cr_status cr_kern_binomial(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_DRAW_LOOPS(binomial);
    cr_walk w;

    if (!cr_is_host(out->device))
        return cr_each_draw(&loops, arg, 2, &arg[2], "", out);
    binomial_context c = {cr_generator_of(&arg[2]), out->dtype == CR_F32, out->dtype};

    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    add_broadcast(&w, arg[0].view, out);
    add_broadcast(&w, arg[1].view, out);
    cr_walk_merge(&w);
    cr_generator_lock(c.g);
    cr_walk_all(&w, binomial_row, &c);
    cr_generator_unlock(c.g);
    return CR_OK;
}
