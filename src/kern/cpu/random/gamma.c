/* Entries of gamma and Dirichlet numbers. */
#include "kern/cpu/random/gamma.h"
#include "base/memory.h"
#include "kern/cpu/each.h"
#include "kern/cpu/entries.h"
#include <float.h>

typedef struct {
    cr_generator *g;
    cr_dtype dtype;
} gamma_context;

/* A result is a positive normal number, also where alpha was negative or NaN. */
static double smallest(cr_dtype t) { return t == CR_F32 ? (double)FLT_MIN : DBL_MIN; }

static void gamma_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const gamma_context *c = context;
    bool single = c->dtype == CR_F32;
    double least = smallest(c->dtype);

    for (int64_t i = 0; i < n; i++) {
        double x = gamma_number(c->g, cr_real_load(c->dtype, at[1] + i * step[1]), single);
        x = rounded(x, single);
        x = x > least ? x : least;
        cr_scalar_store(cr_scalar_float(x), c->dtype, at[0] + i * step[0]);
    }
}

/* (self, generator) */
cr_status cr_kern_standard_gamma(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_DRAW_LOOPS(gamma);
    cr_walk w;

    if (!cr_is_host(out->device))
        return cr_each_draw(&loops, arg, 1, &arg[1], "", out);
    gamma_context c = {cr_generator_of(&arg[1]), (cr_dtype)out->dtype};
    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add(&w, arg[0].view);
    cr_walk_merge(&w);
    cr_generator_lock(c.g);
    cr_walk_all(&w, gamma_row, &c);
    cr_generator_unlock(c.g);
    return CR_OK;
}

/* A Dirichlet number is a row of gamma numbers, in double precision, divided by their sum. */

typedef struct {
    double *x; /* the next number of the rows */
    cr_generator *g;
    cr_dtype dtype;
} dirichlet_context;

static void dirichlet_draw_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    dirichlet_context *c = context;

    for (int64_t i = 0; i < n; i++)
        *c->x++ = gamma_number(c->g, cr_real_load(c->dtype, at[0] + i * step[0]), false);
}

enum { LANES = 16, LEVELS = 4 }; /* four vectors of four doubles */

/* Adds a level's sums to the next level and starts it again. */
static void pass_up(double sum[LEVELS][LANES], int level)
{
    for (int k = 0; k < LANES; k++) {
        sum[level + 1][k] += sum[level][k];
        sum[level][k] = 0;
    }
}

/* Lane sums of blocks of 16 numbers.  After `step` blocks they are passed to the next level,
 * and so on (pairwise summation with a wide base). */
static void lane_sums(double *out, const double *x, int64_t blocks)
{
    double sum[LEVELS][LANES] = {{0}};
    int power = 4;

    while (blocks > (int64_t)1 << ((power + 1) * LEVELS - 1))
        power++;
    for (int64_t b = 0; b < blocks; b++) {
        for (int k = 0; k < LANES; k++)
            sum[0][k] += x[b * LANES + k];
        for (int level = 0; level < LEVELS - 1; level++) {
            if ((b + 1) & (((int64_t)1 << (level + 1) * power) - 1))
                break;
            pass_up(sum, level);
        }
    }
    for (int k = 0; k < LANES; k++)
        out[k] = ((sum[0][k] + sum[1][k]) + sum[2][k]) + sum[3][k];
}

/* The sum in torch's order: single numbers behind the last vector, then the lanes. */
static double row_sum(const double *x, int64_t n)
{
    double part[LANES], sum = 0;
    int64_t vectors = n / 4, blocks = vectors / 4;

    lane_sums(part, x, blocks);
    for (int64_t v = blocks * 4; v < vectors; v++)
        for (int lane = 0; lane < 4; lane++)
            part[lane] += x[4 * v + lane];
    for (int64_t i = vectors * 4; i < n; i++)
        sum += x[i];
    for (int lane = 0; lane < 4; lane++)
        sum += part[lane] + part[lane + 4] + part[lane + 8] + part[lane + 12];
    return sum;
}

/* Results are between the smallest normal number and the largest one below 1. */
static void put_shares(const double *x, int64_t n, cr_dtype t, char *to)
{
    double sum = row_sum(x, n), least = smallest(t);
    double most = t == CR_F32 ? 1 - 0x1p-24 : 1 - 0x1p-53;
    int64_t item = (int64_t)cr_dtype_size(t);

    for (int64_t i = 0; i < n; i++) {
        double share = rounded(x[i] / sum, t == CR_F32);
        share = share > least ? share : least;
        cr_scalar_store(cr_scalar_float(share < most ? share : most), t, to + i * item);
    }
}

/* (self, generator).  out is dense; torch takes a number without dimensions as a row. */
cr_status cr_kern_sample_dirichlet(const cr_value *arg, cr_view *out)
{
    int64_t total = cr_view_numel(out), n = cr_view_size(out, out->ndim ? out->ndim - 1 : 0);
    double *x = cr_alloc((size_t)total * sizeof *x + 1);
    dirichlet_context c = {x, cr_generator_of(&arg[1]), (cr_dtype)out->dtype};
    cr_walk w;

    CR_NEED(x);
    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, arg[0].view);
    cr_walk_merge(&w);
    cr_generator_lock(c.g);
    cr_walk_all(&w, dirichlet_draw_row, &c);
    cr_generator_unlock(c.g);
    for (int64_t i = 0; i < total; i += n)
        put_shares(x + i, n, c.dtype, out->data + i * (int64_t)cr_view_item(out));
    cr_free(x);
    return CR_OK;
}
