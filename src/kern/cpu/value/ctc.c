/* Connectionist temporal classification: the probability of all alignments of a label sequence
 * with the steps of an input.
 *
 * Labels alternate with blanks: state 2k + 1 is label k, even states are blanks.  alpha[t, s]
 * is the log-probability of all paths from the start to state s at step t; beta[t, s] that of
 * all paths from there to the end.  Both include the probability of the step itself.  Each
 * sample is computed in double. */
#include "base/memory.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/value/real.h"
#include <math.h>

typedef struct {
    const cr_view *logp, *targets;
    const int64_t *steps, *labels; /* lengths, one for each sample */
    int64_t blank, first;          /* first: where the targets of this sample begin */
    int64_t n, time, states;
} sample;

static int64_t label_at(const cr_view *v, int64_t at)
{
    size_t item = cr_dtype_size((cr_dtype)v->dtype);

    return cr_scalar_as_int(cr_scalar_load((cr_dtype)v->dtype, v->data + at * (int64_t)item));
}

static int64_t state_class(const sample *x, int64_t s)
{
    const cr_view *v = x->targets;

    return s & 1 ? label_at(v, x->first + s / 2 * v->stride[v->ndim - 1]) : x->blank;
}

static double step_at(const sample *x, int64_t t, int64_t class)
{
    const cr_view *v = x->logp;

    return cr_real_get(v, t * v->stride[0] + x->n * v->stride[1] + class * v->stride[2]);
}

static double log_sum(double a, double b)
{
    double most = a > b ? a : b, least = a > b ? b : a;

    return isinf(most) && most < 0 ? most : most + log1p(exp(least - most));
}

/* Two equal labels in sequence need the blank between them. */
static bool may_skip(const sample *x, int64_t s)
{
    return s >= 2 && (s & 1) && state_class(x, s) != state_class(x, s - 2);
}

static void forwards(const sample *x, double *alpha)
{
    for (int64_t s = 0; s < x->states; s++)
        alpha[s] = s < 2 ? step_at(x, 0, state_class(x, s)) : -HUGE_VAL;
    for (int64_t t = 1; t < x->time; t++) {
        const double *was = alpha + (t - 1) * x->states;
        double *now = alpha + t * x->states;
        for (int64_t s = 0; s < x->states; s++) {
            double p = s ? log_sum(was[s], was[s - 1]) : was[s];
            if (may_skip(x, s))
                p = log_sum(p, was[s - 2]);
            now[s] = p + step_at(x, t, state_class(x, s));
        }
    }
}

static void backwards(const sample *x, double *beta)
{
    double *last = beta + (x->time - 1) * x->states;

    for (int64_t s = 0; s < x->states; s++)
        last[s] = s + 2 >= x->states ? step_at(x, x->time - 1, state_class(x, s)) : -HUGE_VAL;
    for (int64_t t = x->time - 1; t-- > 0;) {
        const double *next = beta + (t + 1) * x->states;
        double *now = beta + t * x->states;
        for (int64_t s = 0; s < x->states; s++) {
            double p = s + 1 < x->states ? log_sum(next[s], next[s + 1]) : next[s];
            if (s + 2 < x->states && may_skip(x, s + 2))
                p = log_sum(p, next[s + 2]);
            now[s] = p + step_at(x, t, state_class(x, s));
        }
    }
}

static double total(const sample *x, const double *alpha)
{
    const double *last = alpha + (x->time - 1) * x->states;

    if (!x->time)
        return x->states == 1 ? 0 : -HUGE_VAL;
    return x->states == 1 ? last[0] : log_sum(last[x->states - 1], last[x->states - 2]);
}

/* arg: log_probs, targets, input lengths, target lengths, blank */
static sample sample_at(const cr_value *arg, int64_t n)
{
    sample x = {.logp = arg[0].view,
                .targets = arg[1].view,
                .steps = arg[2].ints,
                .labels = arg[3].ints,
                .blank = arg[4].i,
                .n = n};

    x.time = x.steps[n];
    x.states = 2 * x.labels[n] + 1;
    if (x.targets->ndim == 2)
        x.first = n * x.targets->stride[0];
    for (int64_t i = 0; x.targets->ndim == 1 && i < n; i++)
        x.first += x.labels[i] * x.targets->stride[0];
    return x;
}

static cr_status check_labels(const sample *x)
{
    for (int64_t s = 1; s < x->states; s += 2)
        if (state_class(x, s) < 0 || state_class(x, s) >= x->logp->size[2])
            return cr_fail(CR_INDEX,
                           "ctc_loss: the target %lld is out of range for %lld classes",
                           (long long)state_class(x, s), (long long)x->logp->size[2]);
    return CR_OK;
}

static cr_status table_of(double **out, const sample *x)
{
    *out = cr_alloc((size_t)(x->time * x->states) * sizeof **out + 1);
    return *out ? CR_OK : CR_MEMORY;
}

/* _ctc_loss: from log_probs [T, N, C], targets [N, S] or concatenated, input lengths, target
 * lengths and blank to losses [N] and log_alpha [N, T, 2S + 1].  Fails with CR_INDEX for a
 * label out of range. */
cr_status cr_kern_ctc_loss(const cr_value *arg, cr_view *out)
{
    const cr_view *logs = &out[1];

    for (int64_t n = 0; n < arg[0].view->size[1]; n++) {
        sample x = sample_at(arg, n);
        double *alpha;
        CR_TRY(check_labels(&x));
        CR_TRY(table_of(&alpha, &x));
        if (x.time)
            forwards(&x, alpha);
        cr_real_put(&out[0], n * out[0].stride[0], -total(&x, alpha));
        for (int64_t t = 0; t < logs->size[1]; t++)
            for (int64_t s = 0; s < logs->size[2]; s++)
                cr_real_put(logs,
                            n * logs->stride[0] + t * logs->stride[1] + s * logs->stride[2],
                            t < x.time && s < x.states ? alpha[t * x.states + s] : -HUGE_VAL);
        cr_free(alpha);
    }
    return CR_OK;
}

/* The logarithm of the share of each class in all alignments at step t. */
static void class_shares(const sample *x, const double *alpha, const double *beta, int64_t t,
                         double *share)
{
    for (int64_t c = 0; c < x->logp->size[2]; c++)
        share[c] = -HUGE_VAL;
    for (int64_t s = 0; s < x->states; s++) {
        double *to = &share[state_class(x, s)];
        *to = log_sum(*to, alpha[t * x->states + s] + beta[t * x->states + s]);
    }
}

static void slopes(const sample *x, const double *alpha, const double *beta, double *share,
                   double loss, double g, const cr_view *out)
{
    for (int64_t t = 0; t < x->time; t++) {
        class_shares(x, alpha, beta, t, share);
        for (int64_t c = 0; c < x->logp->size[2]; c++) {
            double p = step_at(x, t, c);
            cr_real_put(out, t * out->stride[0] + x->n * out->stride[1] + c * out->stride[2],
                        (exp(p) - exp(share[c] + loss - p)) * g);
        }
    }
}

static cr_status backward_sample(const sample *x, double g, double loss, const cr_view *out)
{
    double *alpha = NULL, *beta = NULL,
           *share = cr_alloc((size_t)x->logp->size[2] * sizeof *share + 1);
    cr_status st = share ? CR_OK : CR_MEMORY;

    CR_GO(st);
    CR_GO(table_of(&alpha, x));
    CR_GO(table_of(&beta, x));
    if (x->time) {
        forwards(x, alpha);
        backwards(x, beta);
    }
    slopes(x, alpha, beta, share, loss, g, out);
done:
    cr_free(share);
    cr_free(alpha);
    cr_free(beta);
    return st;
}

/* grad, then the arguments of cr_kern_ctc_loss, its losses, zero_infinity. */
cr_status cr_kern_ctc_loss_backward(const cr_value *arg, cr_view *out)
{
    const cr_view *grad = arg[0].view, *losses = arg[6].view, *to = &out[0];

    for (int64_t t = 0; t < to->size[0]; t++)
        for (int64_t n = 0; n < to->size[1]; n++)
            for (int64_t c = 0; c < to->size[2]; c++)
                cr_real_put(to, t * to->stride[0] + n * to->stride[1] + c * to->stride[2], 0);
    for (int64_t n = 0; n < to->size[1]; n++) {
        sample x = sample_at(arg + 1, n);
        double loss = cr_real_get(losses, n * losses->stride[0]);
        CR_TRY(check_labels(&x));
        if (arg[7].i && isinf(loss))
            continue;
        CR_TRY(backward_sample(&x, cr_real_get(grad, n * grad->stride[0]), loss, to));
    }
    return CR_OK;
}
