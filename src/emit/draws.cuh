/* draws.cuh - loops of random numbers that devices have: each element draws its own. */
#ifndef CR_EMIT_DRAWS_CUH
#define CR_EMIT_DRAWS_CUH

static cr_draw cl_draw_of(const cr_each *c, int64_t i)
{
    cr_draw g;

    g.seed = c->state ? c->state[0] : c->seed;
    g.block = c->block + (c->state ? c->state[1] : 0);
    g.element = (uint64_t)i, g.left = 0;
    return g;
}

static void cl_binomial(void *context, int64_t begin, int64_t end)
{
    const cr_each *c = (const cr_each *)context;

    for (int64_t i = begin; i < end; i++) {
        cr_draw g = cl_draw_of(c, i);
        binomial_context b = {&g, !CL_DOUBLE, 0};
        ((T *)c->out)[i] = (T)binomial_number(&b, (double)((const T *)c->in[0])[i],
                                              (double)((const T *)c->in[1])[i]);
    }
}

static void cl_gamma(void *context, int64_t begin, int64_t end)
{
    const cr_each *c = (const cr_each *)context;
    const T least = CL_DOUBLE ? (T)0x1p-1022 : (T)0x1p-126f;

    for (int64_t i = begin; i < end; i++) {
        cr_draw g = cl_draw_of(c, i);
        T x = (T)gamma_number(&g, (double)((const T *)c->in[0])[i], !CL_DOUBLE);
        ((T *)c->out)[i] = x > least ? x : least;
    }
}

static void cl_poisson(void *context, int64_t begin, int64_t end)
{
    const cr_each *c = (const cr_each *)context;

    for (int64_t i = begin; i < end; i++) {
        cr_draw g = cl_draw_of(c, i);
        const double rate = (double)((const T *)c->in[0])[i];
        if (!(rate >= 0))
            cr_loops_report(&c->wrong, 0);
        ((T *)c->out)[i] = rate >= 0 ? (T)poisson_number(&g, rate) : 0;
    }
}

#endif
