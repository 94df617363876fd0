/* scale.cuh - a number times each element, as a loop of kern/loops.h that only devices have. */
#ifndef CR_EMIT_SCALE_CUH
#define CR_EMIT_SCALE_CUH

static void cl_scaled(void *context, int64_t begin, int64_t end)
{
    const cr_each *c = (const cr_each *)context;

    for (int64_t i = begin; i < end; i++)
        ((T *)c->out)[i] = ((const T *)c->in[0])[i] * (T)c->number;
}

#endif
