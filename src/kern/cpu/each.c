/* Functions of corresponding elements. */
#include "kern/cpu/each.h"
#include "device/generators.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"

/* `v` broadcast to the sizes of `out`, as dense elements of dtype t. */
static cr_status each_load(cr_dense *d, const cr_view *v, const cr_view *out, cr_dtype t)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view all = *v;

    cr_broadcast_strides(stride, v, out->ndim, out->size);
    all.ndim = out->ndim;
    all.size = out->size;
    all.stride = stride;
    return cr_dense_in(d, &all, t);
}

static cr_status each_run(const cr_loops *l, cr_each *job, const cr_value *arg, int count,
                          const cr_view *out, int64_t grain)
{
    cr_dtype t = out->dtype == CR_F64 ? CR_F64 : CR_F32;
    cr_dense in[3] = {{0}}, to = {0};
    cr_status st;

    for (int i = 0; i < count; i++) {
        CR_GO(each_load(&in[i], arg[i].view, out, t));
        job->in[i] = in[i].data;
    }
    CR_GO(cr_dense_out(&to, out, t));
    job->out = to.data;
    CR_GO(cr_loops_run(out->device, l, t, cr_view_numel(out), grain, job));
    CR_GO(cr_dense_store(&to, out, t));
done:
    for (int i = 0; i < count; i++)
        cr_dense_drop(&in[i]);
    cr_dense_drop(&to);
    return st;
}

cr_status cr_each_run(const cr_loops *l, int64_t which, const cr_value *arg, int count,
                      const cr_view *out, int64_t grain)
{
    cr_each job = {.which = which};

    return each_run(l, &job, arg, count, out, grain);
}

/* Blocks of four words that an element may draw before it meets those of the next call. */
enum { EACH_BLOCKS = 64 };

cr_status cr_each_draw(const cr_loops *l, const cr_value *arg, int count,
                       const cr_value *generator, const char *text, const cr_view *out)
{
    bool given = generator->tag == CR_GENERATOR && generator->generator;
    cr_each job = {.which = 0};

    cr_generator_reserve_on(given ? generator->generator : cr_device_generator(out->device),
                            4 * EACH_BLOCKS, &job.seed, &job.block, &job.state);
    job.block /= 4;
    CR_TRY(cr_loops_error_begin(&job.wrong, out->device, CR_RUNTIME, text));
    return each_run(l, &job, arg, count, out, 1);
}
