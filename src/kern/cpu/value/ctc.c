/* Connectionist temporal classification: the probability of all alignments of a label sequence
 * with the steps of an input.
 *
 * Labels alternate with blanks: state 2k + 1 is label k, even states are blanks.  alpha[t, s]
 * is the log-probability of all paths from the start to state s at step t; beta[t, s] that of
 * all paths from there to the end.  Both include the probability of the step itself. */
#include "base/memory.h"
#include "device/device.h"
#include "device/facts.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/value/ctc_job.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <stdio.h>

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/value/ctc_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/value/ctc_loops.inc"

/* A call: the job, and the memory of its arrays. */
typedef struct {
    ctc_job job;
    cr_device device;
    cr_dtype dtype; /* of the elements in the job */
    cr_dense logp, targets, length, alpha, beta, share;
} ctc_call;

static void ctc_drop(ctc_call *c)
{
    cr_dense_drop(&c->logp);
    cr_dense_drop(&c->targets);
    cr_dense_drop(&c->length);
    cr_dense_drop(&c->alpha);
    cr_dense_drop(&c->beta);
    cr_dense_drop(&c->share);
}

/* steps, labels: lengths of each sample */
static cr_status ctc_lengths(ctc_call *c, const cr_value *steps, const cr_value *labels,
                             const cr_view *targets)
{
    int64_t n = c->job.samples, row = targets->ndim == 2 ? targets->size[1] : 0, sum = 0;
    size_t bytes = 3 * (size_t)n * sizeof(int64_t);
    int64_t *all = cr_alloc(bytes + 1);
    cr_status st = all ? CR_OK : CR_MEMORY;

    c->job.states = 1;
    for (int64_t i = 0; !st && i < n; i++) {
        int64_t count = labels->ints[i];
        all[3 * i] = steps->ints[i];
        all[3 * i + 1] = count;
        all[3 * i + 2] = row ? i * row : sum;
        sum += count;
        c->job.states = 2 * count + 1 > c->job.states ? 2 * count + 1 : c->job.states;
    }
    if (!st)
        st = cr_dense_take(&c->length, c->device, bytes);
    if (!st && bytes)
        st = cr_device_copy_in(c->device, c->length.data, all, bytes);
    c->job.length = (const int64_t *)(const void *)c->length.data;
    cr_free(all);
    return st;
}

static cr_status ctc_check_labels(const ctc_job *w)
{
    for (int64_t n = 0; n < w->samples; n++)
        for (int64_t i = 0; i < w->length[3 * n + 1]; i++) {
            int64_t label = w->targets[w->length[3 * n + 2] + i];
            if (label < 0 || label >= w->classes)
                return cr_fail(CR_INDEX,
                               "ctc_loss: the target %lld is out of range for %lld classes",
                               (long long)label, (long long)w->classes);
        }
    return CR_OK;
}

static cr_status ctc_error(ctc_call *c)
{
    char text[128];

    if (cr_is_host(c->device))
        return ctc_check_labels(&c->job);
    snprintf(text, sizeof text, "ctc_loss: the target %c is out of range for %lld classes",
             CR_INDEX_MARK, (long long)c->job.classes);
    return cr_loops_error_begin(&c->job.wrong, c->device, CR_INDEX, text);
}

static cr_status ctc_doubles(cr_dense *d, double **out, const ctc_call *c, int64_t n)
{
    CR_TRY(cr_dense_take(d, c->device, (size_t)n * sizeof **out));
    *out = (double *)(void *)d->data;
    return CR_OK;
}

/* arg: log_probs, targets, input lengths, target lengths, blank.  The caller drops the call,
 * also after a failure. */
static cr_status ctc_start(ctc_call *c, const cr_value *arg)
{
    const cr_view *logp = arg[0].view, *targets = arg[1].view;

    *c = (ctc_call){.device = logp->device,
                    .dtype = logp->dtype == CR_F64 ? CR_F64 : CR_F32,
                    .job = {.steps = logp->size[0],
                            .samples = logp->size[1],
                            .classes = logp->size[2],
                            .blank = arg[4].i}};
    CR_TRY(cr_dense_in(&c->logp, logp, c->dtype));
    CR_TRY(cr_dense_in(&c->targets, targets, CR_I64));
    c->job.logp = c->logp.data;
    c->job.targets = (const int64_t *)(const void *)c->targets.data;
    CR_TRY(ctc_lengths(c, &arg[2], &arg[3], targets));
    CR_TRY(ctc_doubles(&c->alpha, &c->job.alpha, c,
                       c->job.samples * c->job.steps * c->job.states));
    return ctc_error(c);
}

/* _ctc_loss: from log_probs [T, N, C], targets [N, S] or concatenated, input lengths, target
 * lengths and blank to losses [N] and log_alpha [N, T, 2S + 1].  Fails with CR_INDEX for a
 * label out of range. */
cr_status cr_kern_ctc_loss(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_CTC, ctc_job, ctc);
    cr_dense loss = {0}, table = {0};
    ctc_call c;
    cr_status st;

    CR_GO(ctc_start(&c, arg));
    CR_GO(cr_dense_out(&loss, &out[0], c.dtype));
    CR_GO(cr_dense_out(&table, &out[1], c.dtype));
    c.job.loss = loss.data;
    c.job.log_alpha = table.data;
    CR_GO(cr_loops_run(c.device, &loops, c.dtype, c.job.samples, 1, &c.job));
    CR_GO(cr_dense_store(&loss, &out[0], c.dtype));
    CR_GO(cr_dense_store(&table, &out[1], c.dtype));
done:
    cr_dense_drop(&loss);
    cr_dense_drop(&table);
    ctc_drop(&c);
    return st;
}

static cr_status ctc_run_backward(ctc_call *c)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_CTC, ctc_job, ctc_backward);

    CR_TRY(
        ctc_doubles(&c->beta, &c->job.beta, c, c->job.samples * c->job.steps * c->job.states));
    CR_TRY(ctc_doubles(&c->share, &c->job.share, c, c->job.samples * c->job.classes));
    return cr_loops_run(c->device, &loops, c->dtype, c->job.samples, 1, &c->job);
}

/* grad, then the arguments of cr_kern_ctc_loss, its losses, zero_infinity. */
cr_status cr_kern_ctc_loss_backward(const cr_value *arg, cr_view *out)
{
    cr_dense grad = {0}, loss = {0}, slope = {0};
    ctc_call c;
    cr_status st;

    CR_GO(ctc_start(&c, arg + 1));
    CR_GO(cr_dense_in(&grad, arg[0].view, c.dtype));
    CR_GO(cr_dense_in(&loss, arg[6].view, c.dtype));
    CR_GO(cr_dense_out(&slope, &out[0], c.dtype));
    CR_GO(cr_dense_clear(&slope, (size_t)cr_view_numel(&out[0]) * cr_dtype_size(c.dtype)));
    c.job.grad = grad.data;
    c.job.loss = loss.data;
    c.job.slope = slope.data;
    c.job.skips = arg[7].i;
    CR_GO(ctc_run_backward(&c));
    CR_GO(cr_dense_store(&slope, &out[0], c.dtype));
done:
    cr_dense_drop(&grad);
    cr_dense_drop(&loss);
    cr_dense_drop(&slope);
    ctc_drop(&c);
    return st;
}
