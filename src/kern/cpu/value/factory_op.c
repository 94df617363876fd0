/* Entries that make sequences and patterns. */
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/value/choices_job.h"
#include "kern/cpu/value/factory.h"
#include "kern/cpu/walk.h"

static cr_scalar scalar_arg(const cr_value *v) { return v->number; }

/* (start, end, step, ...) */
cr_status cr_kern_arange(const cr_value *arg, cr_view *out)
{
    cr_fill_arange(out, scalar_arg(&arg[0]), scalar_arg(&arg[2]));
    return CR_OK;
}

/* (start, end, step, ...) */
cr_status cr_kern_range(const cr_value *arg, cr_view *out)
{
    cr_fill_range(out, scalar_arg(&arg[0]), scalar_arg(&arg[2]));
    return CR_OK;
}

/* (start, end, steps, ...) and (start, end, steps, base, ...) */
cr_status cr_kern_linspace(const cr_value *arg, cr_view *out)
{
    cr_fill_linspace(out, scalar_arg(&arg[0]), scalar_arg(&arg[1]));
    return CR_OK;
}

cr_status cr_kern_logspace(const cr_value *arg, cr_view *out)
{
    cr_fill_logspace(out, scalar_arg(&arg[0]), scalar_arg(&arg[1]), arg[3].d);
    return CR_OK;
}

/* (row, col, offset, ...) */
cr_status cr_kern_tril_indices(const cr_value *arg, cr_view *out)
{
    cr_fill_triangle_indices(out, arg[0].i, arg[1].i, arg[2].i, false);
    return CR_OK;
}

cr_status cr_kern_triu_indices(const cr_value *arg, cr_view *out)
{
    cr_fill_triangle_indices(out, arg[0].i, arg[1].i, arg[2].i, true);
    return CR_OK;
}

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/value/choices_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/value/choices_loops.inc"

/* (self, r, with_replacement) */
cr_status cr_kern_combinations(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_CHOICES, choices_job, choices);
    choices_job w = {(int64_t *)(void *)out->data, cr_view_numel(arg[0].view), arg[1].i,
                     arg[2].i};

    return cr_loops_run(out->device, &loops, CR_F32, out->size[0], 4096, &w);
}

/* Windows: w(k) over `span` steps.  A periodic window is a symmetric one without its last
 * element. */

static const double PI = 3.14159265358979323846;

typedef double (*window_fn)(double k, double span, const double *param);

static double cosine_sum(double k, double span, const double *a)
{
    double angle = 2 * PI * k / span;

    return a[0] - a[1] * cos(angle) + a[2] * cos(2 * angle);
}

static double triangle_window(double k, double span, const double *unused)
{
    (void)unused;
    return k <= span / 2 ? 2 * k / span : 2 - 2 * k / span;
}

/* The modified Bessel function of order zero, as its power series. */
static double bessel_i0(double x)
{
    double term = 1, sum = 1;

    for (int k = 1; term > sum * 0x1p-54; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

static double kaiser(double k, double span, const double *beta)
{
    double x = 2 * k / span - 1;

    return bessel_i0(beta[0] * sqrt(x * x < 1 ? 1 - x * x : 0)) / bessel_i0(beta[0]);
}

static cr_status fill_window(window_fn fn, const double *param, bool periodic, cr_view *out)
{
    int64_t n = cr_view_numel(out), item = (int64_t)cr_view_item(out);
    double span = (double)(periodic ? n : n - 1);

    for (int64_t k = 0; k < n; k++)
        cr_scalar_store(cr_scalar_float(n == 1 ? 1 : fn((double)k, span, param)),
                        (cr_dtype)out->dtype, out->data + k * item);
    return CR_OK;
}

/* (length, periodic, a0, a1, a2, ...): a0 - a1 cos + a2 cos 2 */
cr_status cr_kern_cosine_window(const cr_value *arg, cr_view *out)
{
    double a[3] = {arg[2].d, arg[3].d, arg[4].d};

    return fill_window(cosine_sum, a, arg[1].i, out);
}

/* (length, periodic, ...) */
cr_status cr_kern_bartlett_window(const cr_value *arg, cr_view *out)
{
    return fill_window(triangle_window, NULL, arg[1].i, out);
}

/* (length, periodic, beta, ...) */
cr_status cr_kern_kaiser_window(const cr_value *arg, cr_view *out)
{
    return fill_window(kaiser, &arg[2].d, arg[1].i, out);
}
