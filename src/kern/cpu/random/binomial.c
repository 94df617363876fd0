/* Binomial numbers, in torch's order and roundings.
 *
 * Few expected successes: the lengths of runs of failures are drawn until they exceed the
 * count. Many: Hoermann's transformed rejection ("The generation of binomial random variates",
 * 1993). Probabilities above one half count the failures instead. */
#include "kern/cpu/entries.h"
#include "kern/cpu/random/draw.h"

typedef struct {
    cr_generator *g;
    bool single; /* arithmetic of count and probability is rounded to float */
    cr_dtype dtype;
} binomial_context;

static double fit(const binomial_context *c, double x)
{
    return c->single ? (double)(float)x : x;
}

static double binomial_by_runs(const binomial_context *c, double count, double p)
{
    double logarithm = c->single ? (double)log1pf(-(float)p) : log1p(-p);
    double length = 0, runs = 0;

    for (;; runs++) {
        length += ceil(log(cr_generator_double(c->g)) / logarithm);
        if (!(length <= count))
            return runs;
    }
}

/* log(k!) less Stirling's formula. */
static double stirling_tail(double k)
{
    static const double small[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,
                                   0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
                                   0.0118967099458917,  0.0104112652619720, 0.00925546218271273,
                                   0.00833056343336287};
    double square = (k + 1) * (k + 1);

    if (k >= 0 && k < (double)CR_LEN(small))
        return small[(size_t)k];
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/* The logarithm of the probability of k relative to that of the mode m. */
static double log_ratio(const binomial_context *c, double count, double k, double m,
                        double odds)
{
    double above_m = count - m + 1, above_k = fit(c, fit(c, count - k) + 1);

    return (m + 0.5) * log((m + 1) / (odds * above_m)) +
           fit(c, count + 1) * log(above_m / above_k) +
           (k + 0.5) * log(odds * above_k / fit(c, k + 1)) + stirling_tail(m) +
           stirling_tail(count - m) - stirling_tail(k) - stirling_tail(fit(c, count - k));
}

static double binomial_by_rejection(const binomial_context *c, double count, double p)
{
    double mean = fit(c, count * p), failing = fit(c, 1 - p);
    double std = fit(c, sqrt(fit(c, mean * failing)));
    double b = 1.15 + 2.53 * std, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double quick = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * std;
    double m = floor(fit(c, fit(c, count + 1) * p)), odds = fit(c, p / failing);

    for (;;) {
        double u = cr_generator_double(c->g) - 0.5, v = cr_generator_double(c->g);
        double us = 0.5 - fabs(u), k = fit(c, floor((2 * a / us + b) * u + (mean + 0.5)));
        if (k < 0 || k > count)
            continue;
        if (us >= 0.07 && v <= quick)
            return k;
        if (log(v * alpha / (a / (us * us) + b)) <= log_ratio(c, count, k, m, odds))
            return k;
    }
}

static double binomial_below_half(const binomial_context *c, double count, double p)
{
    return fit(c, count * p) >= 10 ? binomial_by_rejection(c, count, p)
                                   : binomial_by_runs(c, count, p);
}

static double binomial_number(const binomial_context *c, double count, double p)
{
    if (count <= 0 || p <= 0)
        return 0;
    if (p >= 1)
        return count;
    if (isnan(p) || isnan(count))
        return (double)NAN;
    if (p <= 0.5)
        return binomial_below_half(c, count, p);
    return fit(c, count - binomial_below_half(c, count, fit(c, 1 - p)));
}

static void binomial_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const binomial_context *c = context;

    for (int64_t i = 0; i < n; i++) {
        double count = cr_real_load(c->dtype, at[1] + i * step[1]);
        double p = cr_real_load(c->dtype, at[2] + i * step[2]);
        cr_scalar_store(cr_scalar_float(binomial_number(c, count, p)), c->dtype,
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
    binomial_context c = {cr_generator_of(&arg[2]), out->dtype == CR_F32, (cr_dtype)out->dtype};
    cr_walk w;

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
