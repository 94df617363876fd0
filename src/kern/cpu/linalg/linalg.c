/* Factorizations and solvers: table entries that use LAPACK.
 *
 * Every function runs over a batch, one matrix at a time, in column-major order.  The last
 * arguments of most entries are `check` (raise the error that LAPACK reports) and `name` (the
 * operator that messages name). */
#include "base/integer.h"
#include "device/device.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/library/lapack.h"
#include "kern/cpu/linalg/linalg_job.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/product/matmul.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TAKE(j, p, count, size)                                                                \
    do {                                                                                       \
        (p) = cr_lapack_take(j, count, size);                                                  \
        CR_GO((p) ? CR_OK : CR_MEMORY);                                                        \
    } while (0)

/* The message for an info that is not zero, by operator family, and the error's class. */
static const struct {
    const char *family, *message;
    cr_status kind;
} meanings[] = {
    {"cholesky",
     "The factorization could not be completed because the input is not "
     "positive-definite (the leading minor of order %d is not positive-definite).",
     CR_LINALG},
    {"inv",
     "The diagonal element %d is zero, the inversion could not be completed because the "
     "input matrix is singular.",
     CR_LINALG},
    {"solve", "The solver failed because the input matrix is singular.", CR_LINALG},
    {"lu_factor",
     "U[%d,%d] is zero and using it on lu_solve would result in a division by zero. If "
     "you still want to perform the factorization, consider calling linalg.lu(A, "
     "pivot) or linalg.lu_factor_ex(A, pivot)",
     CR_RUNTIME},
    {"svd",
     "The algorithm failed to converge because the input matrix is ill-conditioned or has "
     "too many repeated singular values (error code: %d).",
     CR_LINALG},
    {"eig",
     "The algorithm failed to converge because the input matrix is ill-conditioned or has "
     "too many repeated eigenvalues (error code: %d).",
     CR_LINALG},
    {"lstsq",
     "The least squares solution could not be computed because the input matrix does not "
     "have full rank (error code: %d).",
     CR_LINALG},
    {"ldl_factor",
     "The factorization has been completed, but the diagonal element %d is exactly "
     "zero: using it in a solve would divide by zero.",
     CR_LINALG},
};

cr_status cr_lapack_refuse(const char *name, const char *family, int info, int64_t element,
                           bool batched)
{
    char where[48] = "", what[512] = "";
    cr_status kind = CR_LINALG;

    if (!info)
        return CR_OK;
    if (batched)
        snprintf(where, sizeof where, "(Batch element %lld): ", (long long)element);
    if (info < 0)
        return cr_fail(CR_LINALG,
                       "%s: %sThe algorithm failed to converge because the input matrix "
                       "contained non-finite values.",
                       name, where);
    for (size_t i = 0; i < CR_LEN(meanings); i++)
        if (!strcmp(meanings[i].family, family)) {
            snprintf(what, sizeof what, meanings[i].message, info, info);
            kind = meanings[i].kind;
        }
    return cr_fail(kind, "%s: %s%s", name, where, what);
}

/* The arguments `check` and `name`. */
static cr_status check_info(const cr_value *arg, const char *family, const cr_lapack_job *j,
                            int info, int64_t element)
{
    char name[64];

    if (!info || !arg[0].i)
        return CR_OK;
    snprintf(name, sizeof name, "%.*s", (int)arg[1].len, arg[1].s);
    return cr_lapack_refuse(name, family, info, element, j->batch_dims > 0);
}

static cr_status set_info(const cr_lapack_job *j, const cr_view *out, int64_t i, int info)
{
    int32_t *at = (int32_t *)(void *)out->data + i;

    if (!cr_is_host(j->device))
        return cr_device_copy_in(j->device, at, &info, sizeof info);
    *at = info;
    return CR_OK;
}

/* --- loops over elements of matrices --- */

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/linalg/linalg_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/linalg/linalg_loops.inc"

/* Clears the strict triangle above (or below) the diagonal of a column-major matrix. */
static cr_status clear_triangle(const cr_lapack_job *j, void *a, int64_t m, int64_t n,
                                bool above)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, triangle);
    linalg_job w = {.to = a, .m = m, .n = n, .parts = 1 + j->complex, .above = above};

    return cr_loops_run(j->device, &loops, cr_dtype_real(j->dtype), m * n, 1 << 20, &w);
}

/* The first NaN of `n` elements, counted from 1; 0 for none. */
static int first_nan(const cr_lapack_job *j, const char *a, int n, int step)
{
    for (int k = 0; k < n; k++) {
        const char *at = a + (size_t)k * (size_t)step * j->item;
        if (j->real == sizeof(double) ? isnan(*(const double *)(const void *)at)
                                      : isnan(*(const float *)(const void *)at))
            return k + 1;
    }
    return 0;
}

/* Copies the diagonal of a device's matrix to the host. */
static cr_status read_diagonal(const cr_lapack_job *j, char *to, const char *a, int n)
{
    int64_t size = n, step = n + 1, one = 1;
    cr_array from = {(char *)(uintptr_t)a, j->dtype, 1, &size, &step}, dense = from;
    cr_dense there = {0};
    cr_status st;

    CR_TRY(cr_dense_take(&there, j->device, (size_t)n * j->item));
    dense.data = there.data;
    dense.stride = &one;
    CR_GO(cr_device_status(
        cr_device_of((cr_device_kind)j->device.kind)->move(j->device.index, &dense, &from)));
    CR_GO(cr_device_copy_out(to, j->device, there.data, (size_t)n * j->item));
done:
    cr_dense_drop(&there);
    return st;
}

/* *info: the first NaN on the diagonal of a factor, unless an earlier pivot is refused.  Some
 * libraries go on after a pivot that is NaN. */
static cr_status nan_pivot(const cr_lapack_job *j, const char *a, int n, int *info)
{
    cr_status st = CR_OK;
    int known = *info ? *info - 1 : n, k;

    if (known <= 0)
        return CR_OK;
    if (cr_is_host(j->device)) {
        k = first_nan(j, a, known, n + 1);
        *info = k ? k : *info;
        return CR_OK;
    }
    if (*info)
        return CR_OK;
    char *diagonal = cr_alloc((size_t)n * j->item);
    CR_GO(diagonal ? CR_OK : CR_MEMORY);
    CR_GO(read_diagonal(j, diagonal, a, n));
    *info = first_nan(j, diagonal, n, 1);
done:
    cr_free(diagonal);
    return st;
}

/* --- batches of small real matrices on a device: all at once, a thread a matrix --- */

enum { FEW_MATRICES = 4, SMALL_MATRIX = 32 };

static bool is_at_once(const cr_lapack_job *j, int m, int n)
{
    return !cr_is_host(j->device) && !j->complex && j->batch >= FEW_MATRICES && m && n &&
           m <= SMALL_MATRIX && n <= SMALL_MATRIX;
}

/* Copies all matrices of `v`, or their transposes, to columns, or back. */
static cr_status move_all(const cr_lapack_job *j, const cr_view *v, void *columns, bool turned,
                          bool back)
{
    int64_t size[CR_MAX_DIMS], mine[CR_MAX_DIMS], dense[CR_MAX_DIMS];
    int last = j->batch_dims, lead = last - (v->ndim - 2);
    int row = v->ndim - (turned ? 1 : 2), column = v->ndim - (turned ? 2 : 1);

    for (int d = 0; d < last; d++) {
        size[d] = j->batch_size[d];
        mine[d] = d < lead || v->size[d - lead] == 1 ? 0 : v->stride[d - lead];
    }
    size[last] = v->size[row], mine[last] = v->stride[row], dense[last] = 1;
    size[last + 1] = v->size[column], mine[last + 1] = v->stride[column];
    dense[last + 1] = size[last];
    int64_t step = size[last] * size[last + 1];
    for (int d = last - 1; d >= 0; step *= size[d--])
        dense[d] = step;
    cr_array a = {v->data, v->dtype, last + 2, size, mine};
    cr_array b = {columns, j->dtype, last + 2, size, dense};
    return cr_device_status(cr_device_of((cr_device_kind)j->device.kind)
                                ->move(j->device.index, back ? &a : &b, back ? &b : &a));
}

static cr_status run_at_once(const cr_lapack_job *j, const cr_loops *loops, int64_t units,
                             linalg_job *w)
{
    return cr_loops_run(j->device, loops, j->dtype, units, 1, w);
}

/* Waits only for the arguments `check` and `name` to raise an error. */
static cr_status check_all(const cr_value *arg, const char *family, const cr_lapack_job *j,
                           const cr_view *info)
{
    int32_t *here;
    cr_status st;

    if (!arg[0].i)
        return CR_OK;
    here = cr_alloc((size_t)j->batch * sizeof *here);
    CR_GO(here ? CR_OK : CR_MEMORY);
    CR_GO(cr_device_copy_out(here, j->device, info->data, (size_t)j->batch * sizeof *here));
    for (int64_t i = 0; i < j->batch; i++)
        CR_GO(check_info(arg, family, j, here[i], i));
done:
    cr_free(here);
    return st;
}

static cr_status cholesky_at_once(cr_lapack_job *j, const cr_value *arg, int n, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, cholesky);
    linalg_job w = {.n = n, .info = (int32_t *)(void *)out[1].data};
    bool upper = arg[1].i;
    cr_status st;

    TAKE(j, w.to, j->batch * n * n, j->item);
    CR_GO(move_all(j, arg[0].view, w.to, upper, false));
    CR_GO(run_at_once(j, &loops, j->batch, &w));
    CR_GO(check_all(arg + 2, "cholesky", j, &out[1]));
    CR_GO(move_all(j, &out[0], w.to, upper, true));
done:
    return st;
}

/* Factors the matrices of `v`, or their transposes; w has m, n, pivots and info. */
static cr_status factor_at_once(cr_lapack_job *j, linalg_job *w, const cr_view *v, bool turned)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, factor);
    cr_status st;

    TAKE(j, w->to, j->batch * w->m * w->n, j->item);
    CR_GO(move_all(j, v, w->to, turned, false));
    CR_GO(run_at_once(j, &loops, j->batch, w));
done:
    return st;
}

/* Solves the systems that w factored, for `sides` columns at x of each. */
static cr_status substitute_at_once(const cr_lapack_job *j, const linalg_job *w, void *x,
                                    int sides)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, substitute);
    linalg_job s = *w;

    s.from = w->to;
    s.to = x;
    s.sides = sides;
    return run_at_once(j, &loops, j->batch * sides, &s);
}

/* Factors and substitutes; `b` NULL: the right sides are identities.  `check` and the next
 * argument are as for check_info. */
static cr_status solve_at_once(cr_lapack_job *j, const cr_value *check, const char *family,
                               const cr_view *a, const cr_view *b, bool left, cr_view *out)
{
    static const cr_loops identity = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, identity);
    int n = cr_lapack_cols(a), sides = left ? cr_lapack_cols(out) : cr_lapack_rows(out);
    linalg_job w = {.m = n, .n = n, .parts = 1, .info = (int32_t *)(void *)out[1].data};
    linalg_job ones = w;
    cr_status st;
    void *x;

    TAKE(j, w.pivots, j->batch * n, sizeof *w.pivots);
    TAKE(j, x, j->batch * n * sides, j->item);
    CR_GO(factor_at_once(j, &w, a, !left));
    CR_GO(check_all(check, family, j, &out[1]));
    ones.to = x;
    CR_GO(b ? move_all(j, b, x, !left, false)
            : run_at_once(j, &identity, j->batch * n * n, &ones));
    CR_GO(substitute_at_once(j, &w, x, sides));
    CR_GO(move_all(j, &out[0], x, !left, true));
done:
    return st;
}

/* (self, upper, check, name) -> (L, info) */
cr_status cr_kern_cholesky(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int n = cr_lapack_cols(self), info = 0;
    bool upper = arg[1].i;
    cr_lapack_job j;
    cr_status st;
    char *a;

    CR_TRY(cr_lapack_begin(&j, "linalg.cholesky", self, 2));
    if (is_at_once(&j, n, n)) {
        CR_GO(cholesky_at_once(&j, arg, n, out));
        goto done;
    }
    TAKE(&j, a, (int64_t)n * n, j.item);
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, n));
        if (n)
            j.l->potrf[j.type](upper ? "U" : "L", &n, a, &n, &info, 1);
        CR_GO(nan_pivot(&j, a, n, &info));
        CR_GO(check_info(arg + 2, "cholesky", &j, info, i));
        CR_GO(clear_triangle(&j, a, n, n, !upper));
        CR_GO(cr_lapack_store(&j, &out[0], i, a, n));
        CR_GO(set_info(&j, &out[1], i, info));
    }
done:
    return cr_lapack_end(&j, st);
}

/* --- LU --- */

/* Elimination without row exchanges; info is the index of the first zero on the diagonal. */
#define PLAIN_LU(T, name, ZERO, DIV, SUBMUL)                                                   \
    static int name(T *a, int m, int n)                                                        \
    {                                                                                          \
        int info = 0, least = m < n ? m : n;                                                   \
        for (int k = 0; k < least; k++) {                                                      \
            T *col = a + (size_t)k * (size_t)m, pivot = col[k];                                \
            if (ZERO(pivot)) {                                                                 \
                info = info ? info : k + 1;                                                    \
                continue;                                                                      \
            }                                                                                  \
            for (int i = k + 1; i < m; i++)                                                    \
                col[i] = DIV(col[i], pivot);                                                   \
            for (int c = k + 1; c < n; c++) {                                                  \
                T *to = a + (size_t)c * (size_t)m;                                             \
                for (int i = k + 1; i < m; i++)                                                \
                    to[i] = SUBMUL(to[i], col[i], to[k]);                                      \
            }                                                                                  \
        }                                                                                      \
        return info;                                                                           \
    }

#define REAL_ZERO(a)         ((a) == 0)
#define REAL_DIV(a, b)       ((a) / (b))
#define REAL_SUBMUL(c, a, b) ((c) - (a) * (b))
#define COMPLEX_LU_OPS(T, name, real)                                                          \
    static inline T name##_div(T a, T b)                                                       \
    {                                                                                          \
        double d = (double)b.re * (double)b.re + (double)b.im * (double)b.im;                  \
        double re = ((double)a.re * (double)b.re + (double)a.im * (double)b.im) / d;           \
        double im = ((double)a.im * (double)b.re - (double)a.re * (double)b.im) / d;           \
        return (T){(real)re, (real)im};                                                        \
    }                                                                                          \
    static inline T name##_submul(T c, T a, T b)                                               \
    {                                                                                          \
        c.re -= a.re * b.re - a.im * b.im;                                                     \
        c.im -= a.re * b.im + a.im * b.re;                                                     \
        return c;                                                                              \
    }
#define COMPLEX_ZERO(a) ((a).re == 0 && (a).im == 0)
COMPLEX_LU_OPS(cr_complex_float, c64, float)
COMPLEX_LU_OPS(cr_complex, c128, double)
PLAIN_LU(float, plain_lu_f32, REAL_ZERO, REAL_DIV, REAL_SUBMUL)
PLAIN_LU(double, plain_lu_f64, REAL_ZERO, REAL_DIV, REAL_SUBMUL)
PLAIN_LU(cr_complex_float, plain_lu_c64, COMPLEX_ZERO, c64_div, c64_submul)
PLAIN_LU(cr_complex, plain_lu_c128, COMPLEX_ZERO, c128_div, c128_submul)

static int plain_lu(const cr_lapack_job *j, void *a, int m, int n, int *pivot)
{
    for (int i = 0; i < cr_least(m, n); i++)
        pivot[i] = i + 1;
    switch (j->type) {
    case 0: return plain_lu_f32(a, m, n);
    case 1: return plain_lu_f64(a, m, n);
    case 2: return plain_lu_c64(a, m, n);
    default: return plain_lu_c128(a, m, n);
    }
}

/* Writes `count` real NaNs. */
static cr_status fill_nan(const cr_lapack_job *j, void *at, int64_t count)
{
    const double d = (double)NAN;
    const float f = NAN;
    int64_t one = 1;
    cr_array a = {at, cr_dtype_real(j->dtype), 1, &count, &one};

    if (!cr_is_host(j->device))
        return cr_device_status(
            cr_device_of((cr_device_kind)j->device.kind)
                ->fill(j->device.index, &a, j->real == sizeof f ? (const void *)&f : &d));
    for (int64_t i = 0; i < count; i++) {
        if (j->real == sizeof f)
            ((float *)at)[i] = f;
        else
            ((double *)at)[i] = d;
    }
    return CR_OK;
}

/* Some libraries take a pivot that is NaN for a zero.  What depends on it becomes NaN. */
static void spread_nan(const cr_lapack_job *j, char *a, int m, int n)
{
    int k = first_nan(j, a, m < n ? m : n, m + 1);

    for (int col = k - 1; k && col < n; col++)
        (void)fill_nan(j, a + ((size_t)col * (size_t)m + (size_t)k) * j->item,
                       (int64_t)(m - k) * (int64_t)(j->item / j->real));
}

static int factor_lu(const cr_lapack_job *j, void *a, int m, int n, int *pivot, bool exchange)
{
    int info = 0;

    if (!m || !n)
        return 0;
    if (!exchange && cr_is_host(j->device))
        return plain_lu(j, a, m, n, pivot);
    j->l->getrf[j->type](&m, &n, a, &m, exchange ? pivot : NULL, &info);
    if (cr_is_host(j->device))
        spread_nan(j, a, m, n);
    return info;
}

/* The numbers 1 to n, row by row, on a device. */
static cr_status number_pivots(const cr_lapack_job *j, int32_t *to, int64_t rows, int64_t n)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, numbers);
    linalg_job w = {.to = to, .n = n};

    return cr_loops_run(j->device, &loops, CR_F32, rows * n, 1 << 20, &w);
}

static cr_status lu_at_once(cr_lapack_job *j, const cr_value *arg, int m, int n, cr_view *out)
{
    linalg_job w = {.m = m,
                    .n = n,
                    .pivots = (int32_t *)(void *)out[1].data,
                    .info = (int32_t *)(void *)out[2].data};
    cr_status st;

    CR_GO(factor_at_once(j, &w, arg[0].view, false));
    CR_GO(check_all(arg + 2, "lu_factor", j, &out[2]));
    CR_GO(move_all(j, &out[0], w.to, false, true));
done:
    return st;
}

/* (A, pivot, check, name) -> (LU, pivots, info) */
cr_status cr_kern_lu(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int m = cr_lapack_rows(self), n = cr_lapack_cols(self), k = cr_least(m, n), info;
    cr_lapack_job j;
    cr_status st;
    char *a;

    CR_TRY(cr_lapack_begin(&j, "linalg.lu_factor", self, 2));
    if (arg[1].i && is_at_once(&j, m, n)) {
        CR_GO(lu_at_once(&j, arg, m, n, out));
        goto done;
    }
    TAKE(&j, a, (int64_t)m * n, j.item);
    if (!arg[1].i)
        CR_GO(number_pivots(&j, (int32_t *)(void *)out[1].data, j.batch, k));
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, m));
        info = factor_lu(&j, a, m, n, (int *)(void *)out[1].data + i * k, arg[1].i);
        CR_GO(check_info(arg + 2, "lu_factor", &j, info, i));
        CR_GO(cr_lapack_store(&j, &out[0], i, a, m));
        CR_GO(set_info(&j, &out[2], i, info));
    }
done:
    return cr_lapack_end(&j, st);
}

/* Replaces B (n x nrhs) by the solution of the factored system. */
static void solve_lu(const cr_lapack_job *j, int n, int nrhs, const void *lu, const int *pivot,
                     void *b, bool adjoint)
{
    int info = 0;

    if (n && nrhs)
        j->l->getrs[j->type](adjoint ? (j->complex ? "C" : "T") : "N", &n, &nrhs, lu, &n, pivot,
                             b, &n, &info, 1);
}

/* Errors of row numbers that are too low and too high. */
typedef struct {
    const char *low, *high;
} pivot_words;

static const pivot_words unpack_words = {
    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
    "Did you properly pass the result of lu_factor?",
    "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
    "Did you properly pass the result of lu_factor?"};
static const pivot_words lu_solve_words = {
    "Pivots given to lu_solve must all be greater or equal to 1. "
    "Did you properly pass the result of lu_factor?",
    "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). "
    "Did you properly pass the result of lu_factor?"};
static const pivot_words ldl_solve_words = {
    "Pivots given to ldl_solve must all satisfy |pivot| >= 1. "
    "Did you properly pass the result of ldl_factor?",
    "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2). "
    "Did you properly pass the result of ldl_factor?"};

/* Checks the row numbers of a factorization, because LAPACK's solvers use them as indices
 * unchecked.  Row numbers are 1 to n; with `blocks`, also their negatives. */
static cr_status check_pivots(const pivot_words *words, const int32_t *at, int64_t count,
                              int64_t n, bool blocks)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t row = blocks && at[i] < 0 ? -(int64_t)at[i] : at[i];
        if (row < 1 || row > n)
            return cr_fail(CR_RUNTIME, "%s", row < 1 ? words->low : words->high);
    }
    return CR_OK;
}

/* A pair of adjacent negative pivots means a diagonal block of 2 x 2, so none stands alone. */
static cr_status check_blocks(const char *name, const int32_t *at, int64_t count, int64_t n)
{
    for (int64_t i = 0; i < count; i++) {
        if (at[i] > 0)
            continue;
        if (i % n == n - 1 || at[i + 1] > 0)
            return cr_fail(CR_RUNTIME,
                           "%s: the pivots of a block of two rows are expected to be negative, "
                           "both of them. "
                           "Did you properly pass the result of the factorization?",
                           name);
        i++;
    }
    return CR_OK;
}

/* On a device wrong row numbers are replaced by the first one, and the error comes later. */
static cr_status check_pivots_there(cr_lapack_job *j, const char *name, cr_view *pivots,
                                    int64_t n)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, pivots);
    linalg_job w = {.from = pivots->data, .n = n};
    char text[200];
    cr_status st;

    snprintf(text, sizeof text,
             "%s: pivots are expected to be between 1 and %lld, but \1 was given. "
             "Did you properly pass the result of the factorization?",
             name, (long long)n);
    CR_TRY(cr_loops_error_begin(&w.wrong, j->device, CR_RUNTIME, text));
    TAKE(j, w.to, cr_view_numel(pivots), sizeof(int32_t));
    CR_GO(cr_loops_run(j->device, &loops, CR_F32, cr_view_numel(pivots), 1, &w));
    pivots->data = w.to;
done:
    return st;
}

/* The view's elements as int32, in row-major order.  `held` and `stride` hold the memory of
 * *out. */
static cr_status load_pivots(cr_view *out, cr_dense *held, int64_t *stride,
                             const cr_view *pivots)
{
    *out = *pivots;
    CR_TRY(cr_dense_in(held, pivots, CR_I32));
    cr_dense_strides(stride, out->ndim, out->size);
    out->data = held->data;
    out->stride = stride;
    out->dtype = CR_I32;
    return CR_OK;
}

/* Each position of the batch of X has its row numbers. */
static cr_status lu_solve_at_once(cr_lapack_job *j, const cr_value *arg, int n,
                                  const cr_view *pivots, cr_view *out)
{
    linalg_job w = {.m = n, .n = n, .pivots = (int32_t *)(void *)pivots->data};
    int sides = cr_lapack_cols(out);
    cr_status st;
    void *x;

    TAKE(j, w.to, j->batch * n * n, j->item);
    TAKE(j, x, j->batch * n * sides, j->item);
    CR_GO(move_all(j, arg[0].view, w.to, false, false));
    CR_GO(move_all(j, arg[2].view, x, false, false));
    CR_GO(substitute_at_once(j, &w, x, sides));
    CR_GO(move_all(j, out, x, false, true));
done:
    return st;
}

/* (LU, pivots, B, adjoint) -> X; the batch of X covers both batches. */
cr_status cr_kern_lu_solve(const cr_value *arg, cr_view *out)
{
    const cr_view *lu = arg[0].view, *b = arg[2].view;
    int n = cr_lapack_cols(lu), nrhs = cr_lapack_cols(out);
    int64_t stride[CR_MAX_DIMS];
    cr_dense held = {0};
    cr_view pivots;
    cr_lapack_job j;
    cr_status st;
    char *a, *x;

    CR_TRY(cr_lapack_begin(&j, "linalg.lu_solve", out, 2));
    CR_GO(load_pivots(&pivots, &held, stride, arg[1].view));
    if (!cr_is_host(j.device))
        CR_GO(check_pivots_there(&j, "linalg.lu_solve", &pivots, n));
    else
        CR_GO(check_pivots(&lu_solve_words, (int *)(void *)pivots.data, cr_view_numel(&pivots),
                           n, false));
    if (!arg[3].i && cr_view_numel(&pivots) == j.batch * n && is_at_once(&j, n, n)) {
        CR_GO(lu_solve_at_once(&j, arg, n, &pivots, out));
        goto done;
    }
    TAKE(&j, a, (int64_t)n * n, j.item);
    TAKE(&j, x, (int64_t)n * nrhs, j.item);
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, lu, i, a, n));
        CR_GO(cr_lapack_load(&j, b, i, x, n));
        solve_lu(&j, n, nrhs, a, (int *)(void *)cr_lapack_at(&j, &pivots, 1, i), x, arg[3].i);
        CR_GO(cr_lapack_store(&j, out, i, x, n));
    }
done:
    cr_dense_drop(&held);
    return cr_lapack_end(&j, st);
}

/* `v`, or its transpose, whose sizes and strides are in `room`: X A = B is solved as
 * A^T X^T = B^T. */
static cr_view side_of(const cr_view *v, bool left, int64_t room[static 2 * CR_MAX_DIMS])
{
    int64_t *size = room, *stride = room + CR_MAX_DIMS;
    int last = v->ndim - 1;
    cr_view turned = *v;

    if (left)
        return turned;
    memcpy(size, v->size, (size_t)v->ndim * sizeof *size);
    memcpy(stride, v->stride, (size_t)v->ndim * sizeof *stride);
    size[last - 1] = v->size[last], size[last] = v->size[last - 1];
    stride[last - 1] = v->stride[last], stride[last] = v->stride[last - 1];
    turned.size = size;
    turned.stride = stride;
    return turned;
}

static cr_status set_identity(const cr_lapack_job *j, void *x, int64_t n)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, identity);
    linalg_job w = {.to = x, .m = n, .n = n, .parts = 1 + j->complex};

    return cr_loops_run(j->device, &loops, cr_dtype_real(j->dtype), n * n, 1 << 20, &w);
}

/* Factors and substitutes one matrix after another; the arguments are those of
 * solve_at_once. */
static cr_status solve_each(cr_lapack_job *j, const cr_value *check, const char *family,
                            const cr_view *self, const cr_view *b, bool left, cr_view *out)
{
    int64_t room[3][2 * CR_MAX_DIMS];
    cr_view from = side_of(self, left, room[0]), to = side_of(&out[0], left, room[1]);
    cr_view right = b ? side_of(b, left, room[2]) : to;
    int n = cr_lapack_cols(self), sides = cr_lapack_cols(&to), info, *pivot;
    cr_status st;
    char *a, *x;

    TAKE(j, a, (int64_t)n * n, j->item);
    TAKE(j, x, (int64_t)n * sides, j->item);
    TAKE(j, pivot, n, sizeof *pivot);
    for (int64_t i = 0; i < j->batch; i++) {
        CR_GO(cr_lapack_load(j, &from, i, a, n));
        CR_GO(b ? cr_lapack_load(j, &right, i, x, n) : set_identity(j, x, n));
        info = factor_lu(j, a, n, n, pivot, true);
        CR_GO(check_info(check, family, j, info, i));
        if (!info)
            solve_lu(j, n, sides, a, pivot, x, false);
        CR_GO(cr_lapack_store(j, &to, i, x, n));
        CR_GO(set_info(j, &out[1], i, info));
    }
done:
    return st;
}

/* (A, B, left, check, name) -> (X, info); B and X are matrices */
cr_status cr_kern_solve(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *b = arg[1].view;
    int n = cr_lapack_cols(self), sides = arg[2].i ? cr_lapack_cols(out) : cr_lapack_rows(out);
    cr_lapack_job j;

    CR_TRY(cr_lapack_begin(&j, "linalg.solve", out, 2));
    return cr_lapack_end(&j, (is_at_once(&j, n, n) && sides ? solve_at_once : solve_each)(
                                 &j, arg + 3, "solve", self, b, arg[2].i, out));
}

/* (A, check, name) -> (inverse, info) */
cr_status cr_kern_inv(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int n = cr_lapack_cols(self);
    cr_lapack_job j;

    CR_TRY(cr_lapack_begin(&j, "linalg.inv", self, 2));
    return cr_lapack_end(&j, (is_at_once(&j, n, n) ? solve_at_once : solve_each)(
                                 &j, arg + 1, "inv", self, NULL, true, out));
}

/* (self, B, upper, left, unitriangular) -> X */
cr_status cr_kern_solve_triangular(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *b = arg[1].view;
    bool upper = arg[2].i, left = arg[3].i;
    int m = cr_lapack_rows(out), n = cr_lapack_cols(out), k = cr_lapack_cols(self);
    cr_complex one = {1, 0};
    cr_complex_float one_f = {1, 0};
    cr_lapack_job j;
    cr_status st;
    char *a, *x;

    CR_TRY(cr_lapack_begin(&j, "linalg.solve_triangular", out, 2));
    TAKE(&j, a, (int64_t)k * k, j.item);
    TAKE(&j, x, (int64_t)m * n, j.item);
    for (int64_t i = 0; i < j.batch && m && n; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, k));
        CR_GO(cr_lapack_load(&j, b, i, x, m));
        j.l->trsm[j.type](left ? "L" : "R", upper ? "U" : "L", "N", arg[4].i ? "U" : "N", &m,
                          &n, j.pair ? (void *)&one : (void *)&one_f, a, &k, x, &m, 1, 1, 1, 1);
        CR_GO(cr_lapack_store(&j, out, i, x, m));
    }
done:
    return cr_lapack_end(&j, st);
}

/* --- QR --- */

static cr_status factor_qr(cr_lapack_job *j, int m, int n, char *a, char *tau, char **work,
                           int *size)
{
    char answer[16];
    int info, query = -1;
    cr_status st;

    if (!m || !n)
        return CR_OK;
    if (!*work) {
        j->l->geqrf[j->type](&m, &n, a, &m, tau, answer, &query, &info);
        *size = cr_lapack_answer(j, answer);
        TAKE(j, *work, *size, j->item);
    }
    j->l->geqrf[j->type](&m, &n, a, &m, tau, *work, size, &info);
    st = CR_OK;
done:
    return st;
}

/* (self) -> (a, tau) */
cr_status cr_kern_geqrf(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int m = cr_lapack_rows(self), n = cr_lapack_cols(self), size = 0;
    int64_t k = cr_least(m, n);
    cr_lapack_job j;
    cr_status st;
    char *a, *work = NULL;

    CR_TRY(cr_lapack_begin(&j, "geqrf", self, 2));
    TAKE(&j, a, (int64_t)m * n, j.item);
    for (int64_t i = 0; i < j.batch && k; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, m));
        CR_GO(factor_qr(&j, m, n, a, out[1].data + i * k * (int64_t)j.item, &work, &size));
        CR_GO(cr_lapack_store(&j, &out[0], i, a, m));
    }
done:
    return cr_lapack_end(&j, st);
}

/* Writes the first `width` columns of the product of `k` reflectors to `q` (m x width). */
static cr_status form_q(cr_lapack_job *j, int m, int width, int k, char *q, const char *tau,
                        char **work, int *size)
{
    char answer[16];
    int info, query = -1;
    cr_status st;

    if (!m || !width)
        return CR_OK;
    if (!*work) {
        j->l->orgqr[j->type](&m, &width, &k, q, &m, tau, answer, &query, &info);
        *size = cr_lapack_answer(j, answer);
        TAKE(j, *work, *size, j->item);
    }
    j->l->orgqr[j->type](&m, &width, &k, q, &m, tau, *work, size, &info);
    st = CR_OK;
done:
    return st;
}

/* (A, compute_q, reduced) -> (Q, R); Q is empty when it is not computed. */
cr_status cr_kern_qr(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int m = cr_lapack_rows(self), n = cr_lapack_cols(self), k = cr_least(m, n), size = 0,
        q_size = 0;
    int width = arg[2].i ? k : m;
    cr_lapack_job j;
    cr_status st;
    char *a, *r, *tau, *work = NULL, *q_work = NULL;

    CR_TRY(cr_lapack_begin(&j, "linalg.qr", self, 2));
    TAKE(&j, a, (int64_t)m * cr_most(n, width), j.item);
    TAKE(&j, r, (int64_t)m * n, j.item);
    TAKE(&j, tau, k, j.item);
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, m));
        CR_GO(factor_qr(&j, m, n, a, tau, &work, &size));
        CR_GO(cr_lapack_copy(&j, r, a, (size_t)m * (size_t)n * j.item));
        CR_GO(clear_triangle(&j, r, m, n, false));
        CR_GO(cr_lapack_store(&j, &out[1], i, r, m));
        if (!arg[1].i)
            continue;
        if (!k)
            CR_GO(set_identity(&j, a, width));
        else
            CR_GO(form_q(&j, m, width, k, a, tau, &q_work, &q_size));
        CR_GO(cr_lapack_store(&j, &out[0], i, a, m));
    }
done:
    return cr_lapack_end(&j, st);
}

/* (input, tau) -> Q */
cr_status cr_kern_householder_product(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *tau = arg[1].view;
    int m = cr_lapack_rows(self), n = cr_lapack_cols(self), k = cr_lapack_cols(tau), size = 0;
    cr_dense t = {0};
    cr_lapack_job j;
    cr_status st;
    char *a, *work = NULL;

    CR_TRY(cr_lapack_begin(&j, "linalg.householder_product", self, 2));
    CR_GO(cr_dense_in(&t, tau, j.dtype));
    TAKE(&j, a, (int64_t)m * n, j.item);
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, m));
        CR_GO(form_q(&j, m, n, k, a, t.data + i * k * (int64_t)j.item, &work, &size));
        CR_GO(cr_lapack_store(&j, out, i, a, m));
    }
done:
    cr_dense_drop(&t);
    return cr_lapack_end(&j, st);
}

/* (input, tau, other, left, transpose) -> op(Q) other or other op(Q) */
cr_status cr_kern_ormqr(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *tau = arg[1].view, *other = arg[2].view;
    int m = cr_lapack_rows(out), n = cr_lapack_cols(out), k = cr_lapack_cols(tau),
        lda = cr_lapack_rows(self);
    int size = -1, info = 0;
    const char *side = arg[3].i ? "L" : "R", *turn;
    cr_dense t = {0};
    cr_lapack_job j;
    cr_status st;
    char *a, *c, *work, answer[16];

    CR_TRY(cr_lapack_begin(&j, "ormqr", out, 2));
    turn = !arg[4].i ? "N" : j.complex ? "C" : "T";
    CR_GO(cr_dense_in(&t, tau, j.dtype));
    TAKE(&j, a, (int64_t)lda * cr_lapack_cols(self), j.item);
    TAKE(&j, c, (int64_t)m * n, j.item);
    if (!m || !n)
        goto done;
    j.l->ormqr[j.type](side, turn, &m, &n, &k, a, &lda, t.data, c, &m, answer, &size, &info, 1,
                       1);
    size = cr_lapack_answer(&j, answer);
    TAKE(&j, work, size, j.item);
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, lda));
        CR_GO(cr_lapack_load(&j, other, i, c, m));
        j.l->ormqr[j.type](side, turn, &m, &n, &k, a, &lda, t.data + i * k * (int64_t)j.item, c,
                           &m, work, &size, &info, 1, 1);
        CR_GO(cr_lapack_store(&j, out, i, c, m));
    }
done:
    cr_dense_drop(&t);
    return cr_lapack_end(&j, st);
}

/* --- infinities and NaN --- */

/* LAPACK's iterations may not end when a number is infinite or NaN, so the iterative drivers
 * are not called for such numbers. */
typedef enum { FINITE, INFINITE, NOT_A_NUMBER } range;

static cr_status range_there(range *out, const cr_lapack_job *j, const void *at, int64_t count)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, not_finite);
    int32_t found[2] = {0};
    cr_dense flags = {0};
    cr_status st;

    CR_TRY(cr_dense_take(&flags, j->device, sizeof found));
    CR_GO(cr_dense_clear(&flags, sizeof found));
    linalg_job w = {.to = flags.data, .from = at};
    CR_GO(cr_loops_run(j->device, &loops, cr_dtype_real(j->dtype), count, 1, &w));
    CR_GO(cr_device_copy_out(found, j->device, flags.data, sizeof found));
    *out = found[1] ? NOT_A_NUMBER : found[0] ? INFINITE : FINITE;
done:
    cr_dense_drop(&flags);
    return st;
}

static cr_status range_of(range *out, const cr_lapack_job *j, const void *at, int64_t count)
{
    const double *d = at;
    const float *f = at;

    *out = FINITE;
    count *= (int64_t)(j->item / j->real);
    if (!cr_is_host(j->device))
        return range_there(out, j, at, count);
    for (int64_t i = 0; i < count && *out != NOT_A_NUMBER; i++) {
        double x = j->real == sizeof *f ? (double)f[i] : d[i];
        if (!isfinite(x))
            *out = isnan(x) ? NOT_A_NUMBER : INFINITE;
    }
    return CR_OK;
}

/* --- SVD --- */

typedef struct {
    int m, n, k, ldu, ldvt, size;
    const char *job;
    char *a, *s, *u, *vt, *work, *rwork;
    int *iwork;
} svd_call;

static int run_svd(const cr_lapack_job *j, svd_call *c, void *work, int size)
{
    int info = 0;

    if (j->complex)
        j->l->gesdd_complex[j->pair](c->job, &c->m, &c->n, c->a, &c->m, c->s, c->u, &c->ldu,
                                     c->vt, &c->ldvt, work, &size, c->rwork, c->iwork, &info,
                                     1);
    else
        j->l->gesdd_real[j->pair](c->job, &c->m, &c->n, c->a, &c->m, c->s, c->u, &c->ldu, c->vt,
                                  &c->ldvt, work, &size, c->iwork, &info, 1);
    return info;
}

/* Like run_svd; gives NaN for matrices with infinities. */
static cr_status find_svd(int *info, const cr_lapack_job *j, svd_call *c, int ucols)
{
    int parts = (int)(j->item / j->real);
    range r;

    CR_TRY(range_of(&r, j, c->a, (int64_t)c->m * c->n));
    /* -4 is LAPACK's result for NaN: its fourth argument is wrong */
    *info = r == FINITE ? run_svd(j, c, c->work, c->size) : r == NOT_A_NUMBER ? -4 : 0;
    if (r != INFINITE)
        return CR_OK;
    CR_TRY(fill_nan(j, c->s, c->k));
    CR_TRY(fill_nan(j, c->u, (int64_t)c->ldu * cr_most(ucols, 1) * parts));
    return fill_nan(j, c->vt, (int64_t)c->ldvt * cr_most(c->n, 1) * parts);
}

static cr_status prepare_svd(cr_lapack_job *j, svd_call *c, int ucols, int vrows)
{
    int64_t big = cr_most(c->m, c->n), small = c->k,
            rwork = small * cr_most(5 * small + 7, 2 * big + 2 * small + 1);
    char answer[16];
    cr_status st;

    c->ldu = cr_most(c->m, 1);
    c->ldvt = cr_most(vrows, 1);
    TAKE(j, c->a, (int64_t)c->m * c->n, j->item);
    TAKE(j, c->s, c->k, j->real);
    TAKE(j, c->u, (int64_t)c->ldu * cr_most(ucols, 1), j->item);
    TAKE(j, c->vt, (int64_t)c->ldvt * cr_most(c->n, 1), j->item);
    TAKE(j, c->iwork, 8 * c->k, sizeof *c->iwork);
    TAKE(j, c->rwork, rwork, j->real);
    if (c->k)
        run_svd(j, c, answer, -1);
    c->size = c->k ? cr_lapack_answer(j, answer) : 1;
    TAKE(j, c->work, c->size, j->item);
done:
    return st;
}

/* (A, full_matrices, compute_uv, name) -> (U, S, Vh); without compute_uv, U and Vh are
 * empty. */
cr_status cr_kern_svd(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    bool full = arg[1].i, vectors = arg[2].i;
    svd_call c = {.m = cr_lapack_rows(self), .n = cr_lapack_cols(self)};
    int info = 0;
    cr_value checked[2] = {cr_of_bool(true), arg[3]};
    cr_lapack_job j;
    cr_status st;

    c.k = cr_least(c.m, c.n);
    c.job = !vectors ? "N" : full ? "A" : "S";
    CR_TRY(cr_lapack_begin(&j, "linalg.svd", self, 2));
    CR_GO(prepare_svd(&j, &c, full ? c.m : c.k, full ? c.n : c.k));
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, self, i, c.a, c.m));
        if (c.k)
            CR_GO(find_svd(&info, &j, &c, full ? c.m : c.k));
        CR_GO(check_info(checked, "svd", &j, info, i));
        if (c.k)
            CR_GO(cr_lapack_copy(&j, out[1].data + (size_t)(i * c.k) * j.real, c.s,
                                 (size_t)c.k * j.real));
        if (!vectors)
            continue;
        if (!c.k && full) {
            CR_GO(set_identity(&j, c.u, c.m));
            CR_GO(set_identity(&j, c.vt, c.n));
        }
        CR_GO(cr_lapack_store(&j, &out[0], i, c.u, c.ldu));
        CR_GO(cr_lapack_store(&j, &out[2], i, c.vt, c.ldvt));
    }
done:
    return cr_lapack_end(&j, st);
}

/* --- eigenvalues --- */

typedef struct {
    int n, size, rsize, isize;
    const char *job, *triangle;
    char *a, *w, *work, *rwork;
    int *iwork;
} eigh_call;

static int run_eigh(const cr_lapack_job *j, eigh_call *c, void *work, int size, void *rwork,
                    int rsize, int *iwork, int isize)
{
    int info = 0;

    if (j->complex)
        j->l->heevd[j->pair](c->job, c->triangle, &c->n, c->a, &c->n, c->w, work, &size, rwork,
                             &rsize, iwork, &isize, &info, 1, 1);
    else
        j->l->syevd[j->pair](c->job, c->triangle, &c->n, c->a, &c->n, c->w, work, &size, iwork,
                             &isize, &info, 1, 1);
    return info;
}

static cr_status prepare_eigh(cr_lapack_job *j, eigh_call *c)
{
    char work[16], rwork[16];
    int iwork = 1;
    cr_status st;

    TAKE(j, c->a, (int64_t)c->n * c->n, j->item);
    TAKE(j, c->w, c->n, j->real);
    if (!c->n)
        goto done;
    run_eigh(j, c, work, -1, rwork, -1, &iwork, -1);
    c->size = cr_lapack_answer(j, work);
    c->rsize = j->complex ? cr_lapack_answer(j, rwork) : 1;
    c->isize = iwork;
    TAKE(j, c->work, c->size, j->item);
    TAKE(j, c->rwork, c->rsize, j->real);
    TAKE(j, c->iwork, c->isize, sizeof *c->iwork);
done:
    return st;
}

/* (A, UPLO, compute_v, name) -> (eigenvalues, eigenvectors); without compute_v the eigenvectors
 * are empty. */
cr_status cr_kern_eigh(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    bool vectors = arg[2].i;
    eigh_call c = {.n = cr_lapack_cols(self), .job = vectors ? "V" : "N"};
    cr_value checked[2] = {cr_of_bool(true), arg[3]};
    cr_lapack_job j;
    cr_status st;

    c.triangle = arg[1].s[0] == 'U' || arg[1].s[0] == 'u' ? "U" : "L";
    CR_TRY(cr_lapack_begin(&j, "linalg.eigh", self, 2));
    CR_GO(prepare_eigh(&j, &c));
    for (int64_t i = 0; i < j.batch && c.n; i++) {
        CR_GO(cr_lapack_load(&j, self, i, c.a, c.n));
        CR_GO(check_info(checked, "eig", &j,
                         run_eigh(&j, &c, c.work, c.size, c.rwork, c.rsize, c.iwork, c.isize),
                         i));
        CR_GO(cr_lapack_copy(&j, out[0].data + (size_t)(i * c.n) * j.real, c.w,
                             (size_t)c.n * j.real));
        if (vectors)
            CR_GO(cr_lapack_store(&j, &out[1], i, c.a, c.n));
    }
done:
    return cr_lapack_end(&j, st);
}

typedef struct {
    int n, size;
    const char *job;
    char *a, *w, *wi, *v, *work, *rwork;
} eig_call;

static int run_eig(const cr_lapack_job *j, eig_call *c, void *work, int size)
{
    int info = 0, one = 1;
    char none[16];

    if (j->complex)
        j->l->geev_complex[j->pair]("N", c->job, &c->n, c->a, &c->n, c->w, none, &one, c->v,
                                    &c->n, work, &size, c->rwork, &info, 1, 1);
    else
        j->l->geev_real[j->pair]("N", c->job, &c->n, c->a, &c->n, c->w, c->wi, none, &one, c->v,
                                 &c->n, work, &size, &info, 1, 1);
    return info;
}

static cr_status prepare_eig(cr_lapack_job *j, eig_call *c)
{
    char answer[16];
    cr_status st;

    TAKE(j, c->a, (int64_t)c->n * c->n, j->item);
    TAKE(j, c->v, (int64_t)c->n * c->n, j->item);
    TAKE(j, c->w, c->n, j->item);
    TAKE(j, c->wi, c->n, j->item);
    TAKE(j, c->rwork, 2 * c->n, j->real);
    if (c->n)
        run_eig(j, c, answer, -1);
    c->size = c->n ? cr_lapack_answer(j, answer) : 1;
    TAKE(j, c->work, c->size, j->item);
done:
    return st;
}

static double job_real(const cr_lapack_job *j, const char *p, int64_t i)
{
    double d;
    float f;

    if (j->real == sizeof d) {
        memcpy(&d, p + (size_t)i * sizeof d, sizeof d);
        return d;
    }
    memcpy(&f, p + (size_t)i * sizeof f, sizeof f);
    return (double)f;
}

static void put_complex(cr_dtype t, char *to, int64_t i, double re, double im)
{
    cr_scalar_store((cr_scalar){.category = CR_CAT_COMPLEX, .c = {re, im}}, t,
                    to + (size_t)i * cr_dtype_size(t));
}

/* LAPACK's real functions store the vector of a conjugate pair as two real columns. */
static void put_vectors(const cr_lapack_job *j, const eig_call *c, const cr_view *out,
                        int64_t i)
{
    cr_dtype t = (cr_dtype)out->dtype;
    int64_t n = c->n;
    char *to = cr_lapack_at(j, out, 2, i);
    int64_t down = out->stride[out->ndim - 2], right = out->stride[out->ndim - 1];

    for (int64_t col = 0; col < n; col++) {
        double im = job_real(j, c->wi, col);
        int64_t re_col = im < 0 ? col - 1 : col, im_col = im > 0 ? col + 1 : col;
        for (int64_t row = 0; row < n; row++) {
            double re = job_real(j, c->v, re_col * n + row);
            double part = im != 0 ? job_real(j, c->v, im_col * n + row) : 0;
            put_complex(t, to, row * down + col * right, re, im < 0 ? -part : part);
        }
    }
}

/* Like run_eig; gives NaN for matrices with infinities, of which there are no vectors. */
static cr_status find_eig(int *info, const cr_lapack_job *j, eig_call *c, bool vectors)
{
    range r;

    CR_TRY(range_of(&r, j, c->a, (int64_t)c->n * c->n));
    if (vectors && r != FINITE)
        return cr_fail(CR_RUNTIME,
                       "torch.linalg.eig: input tensor should not contain infs or NaNs.");
    *info = r == FINITE ? run_eig(j, c, c->work, c->size) : r == NOT_A_NUMBER ? -4 : 0;
    if (r == FINITE)
        return CR_OK;
    CR_TRY(fill_nan(j, c->w, (int64_t)c->n * (int64_t)(j->item / j->real)));
    return fill_nan(j, c->wi, c->n);
}

static cr_status put_eig(const cr_lapack_job *j, const eig_call *c, cr_view *out, int64_t i,
                         bool vectors)
{
    size_t item = cr_dtype_size((cr_dtype)out[0].dtype);
    char *w = out[0].data + (size_t)(i * c->n) * item;

    if (j->complex) {
        CR_TRY(cr_lapack_copy(j, w, c->w, (size_t)c->n * item));
        return vectors ? cr_lapack_store(j, &out[1], i, c->v, c->n) : CR_OK;
    }
    for (int64_t k = 0; k < c->n; k++)
        put_complex((cr_dtype)out[0].dtype, w, k, job_real(j, c->w, k), job_real(j, c->wi, k));
    if (vectors)
        put_vectors(j, c, &out[1], i);
    return CR_OK;
}

/* (A, compute_v, name) -> (eigenvalues, eigenvectors), complex */
cr_status cr_kern_eig(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    bool vectors = arg[1].i;
    eig_call c = {.n = cr_lapack_cols(self), .job = vectors ? "V" : "N"};
    cr_value checked[2] = {cr_of_bool(true), arg[2]};
    int info = 0;
    cr_lapack_job j;
    cr_status st;

    cr_view like = *self;

    if (!cr_is_host(self->device))
        like.dtype = out[0].dtype; /* a device computes real matrices as complex ones */
    CR_TRY(cr_lapack_begin(&j, "linalg.eig", &like, 2));
    CR_GO(prepare_eig(&j, &c));
    for (int64_t i = 0; i < j.batch && c.n; i++) {
        CR_GO(cr_lapack_load(&j, self, i, c.a, c.n));
        CR_GO(find_eig(&info, &j, &c, vectors));
        CR_GO(check_info(checked, "eig", &j, info, i));
        CR_GO(put_eig(&j, &c, out, i, vectors));
    }
done:
    return cr_lapack_end(&j, st);
}

/* --- least squares --- */

typedef enum { GELS, GELSY, GELSD, GELSS } ls_driver;

typedef struct {
    ls_driver driver;
    int m, n, nrhs, ldb, rank, size;
    char *a, *b, *s, *work, *rwork;
    int *iwork;
    char rcond[8];
} ls_call;

static int run_ls(const cr_lapack_job *j, ls_call *c, void *work, int size)
{
    const cr_lapack_table *l = j->l;
    int info = 0, p = j->pair;

#define COMMON &c->m, &c->n, &c->nrhs, c->a, &c->m, c->b, &c->ldb
    if (c->driver == GELS)
        l->gels[j->type]("N", COMMON, work, &size, &info, 1);
    else if (c->driver == GELSY && j->complex)
        l->gelsy_complex[p](COMMON, c->iwork, c->rcond, &c->rank, work, &size, c->rwork, &info);
    else if (c->driver == GELSY)
        l->gelsy_real[p](COMMON, c->iwork, c->rcond, &c->rank, work, &size, &info);
    else if (c->driver == GELSS && j->complex)
        l->gelss_complex[p](COMMON, c->s, c->rcond, &c->rank, work, &size, c->rwork, &info);
    else if (c->driver == GELSS)
        l->gelss_real[p](COMMON, c->s, c->rcond, &c->rank, work, &size, &info);
    else if (j->complex)
        l->gelsd_complex[p](COMMON, c->s, c->rcond, &c->rank, work, &size, c->rwork, c->iwork,
                            &info);
    else
        l->gelsd_real[p](COMMON, c->s, c->rcond, &c->rank, work, &size, c->iwork, &info);
#undef COMMON
    return info;
}

/* Like run_ls; drivers with an SVD or pivots refuse infinities and NaN. */
static cr_status find_ls(int *info, const cr_lapack_job *j, ls_call *c)
{
    range r = FINITE;

    if (c->driver != GELS)
        CR_TRY(range_of(&r, j, c->a, (int64_t)c->m * c->n));
    *info = r == FINITE ? run_ls(j, c, c->work, c->size) : -4;
    return CR_OK;
}

/* The bounds of the work arrays in LAPACK's manual, for the smallest leaf size (25). */
static void ls_sizes(const ls_call *c, int64_t *iwork, int64_t *rwork)
{
    int64_t small = cr_least(c->m, c->n), big = cr_most(c->m, c->n), levels = 1;

    while ((26 << levels) <= small)
        levels++;
    *iwork = 3 * small * levels + 11 * small + c->n + 8;
    *rwork =
        10 * big + 2 * big * 25 + 8 * big * levels + 3 * 25 * c->nrhs +
        (26 * 26 > c->n * (1 + c->nrhs) + 2 * c->nrhs ? 26 * 26
                                                      : c->n * (1 + c->nrhs) + 2 * c->nrhs) +
        64;
}

static cr_status prepare_ls(cr_lapack_job *j, ls_call *c)
{
    int64_t iwork, rwork;
    char answer[16];
    cr_status st;

    c->ldb = cr_most(cr_most(c->m, c->n), 1);
    ls_sizes(c, &iwork, &rwork);
    TAKE(j, c->a, (int64_t)c->m * c->n, j->item);
    TAKE(j, c->b, (int64_t)c->ldb * c->nrhs, j->item);
    TAKE(j, c->s, cr_least(c->m, c->n), j->real);
    TAKE(j, c->iwork, iwork, sizeof *c->iwork);
    TAKE(j, c->rwork, rwork, j->real);
    if (c->m && c->n && c->nrhs)
        run_ls(j, c, answer, -1);
    c->size = c->m && c->n && c->nrhs ? cr_lapack_answer(j, answer) : 1;
    TAKE(j, c->work, c->size, j->item);
done:
    return st;
}

static ls_driver driver_of(const cr_value *name)
{
    static const char *const names[] = {"gels", "gelsy", "gelsd", "gelss"};

    for (int i = 0; i < 4; i++)
        if (name->len == strlen(names[i]) && !memcmp(name->s, names[i], name->len))
            return (ls_driver)i;
    return GELSY;
}

/* (A, B, rcond, driver) -> (solution, rank, singular_values).  B is a matrix.  Rank and
 * singular values are empty for drivers that do not compute them. */
cr_status cr_kern_lstsq(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view, *b = arg[1].view;
    ls_call c = {.m = cr_lapack_rows(self),
                 .n = cr_lapack_cols(self),
                 .nrhs = cr_lapack_cols(b),
                 .driver = driver_of(&arg[3])};
    cr_value name = {.tag = CR_STRING, .len = 12, .s = "linalg.lstsq"};
    cr_value checked[2] = {cr_of_bool(true), name};
    int64_t k = cr_least(c.m, c.n);
    int info = 0;
    cr_lapack_job j;
    cr_status st;

    if (!cr_is_host(self->device) && c.driver != GELS)
        return cr_fail(CR_RUNTIME, "torch.linalg.lstsq: parameter `driver` should be one of "
                                   "(gels) for matrices of a device");
    CR_TRY(cr_lapack_counts("linalg.lstsq", self, 2));
    CR_TRY(cr_lapack_begin(&j, "linalg.lstsq", out, 2));
    cr_scalar_store(cr_scalar_float(arg[2].d), cr_dtype_real(j.dtype), c.rcond);
    CR_GO(prepare_ls(&j, &c));
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_clear(&j, c.b, (size_t)c.ldb * (size_t)c.nrhs * j.item));
        CR_GO(cr_lapack_clear(&j, c.iwork, (size_t)c.n * sizeof *c.iwork));
        CR_GO(cr_lapack_load(&j, self, i, c.a, c.m));
        CR_GO(cr_lapack_load(&j, b, i, c.b, c.ldb));
        if (c.m && c.n && c.nrhs)
            CR_GO(find_ls(&info, &j, &c));
        CR_GO(check_info(checked, "lstsq", &j, info, i));
        CR_GO(cr_lapack_store(&j, &out[0], i, c.b, c.ldb));
        if (c.driver != GELS)
            ((int64_t *)(void *)out[1].data)[i] = c.rank;
        if (k && (c.driver == GELSD || c.driver == GELSS))
            memcpy(out[2].data + (size_t)(i * k) * j.real, c.s, (size_t)k * j.real);
    }
done:
    return cr_lapack_end(&j, st);
}

/* --- LDL --- */

/* Loops of ldl_loops.inc, which devices have. */
static cr_status run_ldl(const cr_lapack_job *j, const char *name, int64_t units, linalg_job *w)
{
    cr_loops loops = {CR_LOOPS_LDL, name, NULL, NULL, sizeof *w};

    return cr_loops_run(j->device, &loops, cr_dtype_real(j->dtype), units, 1, w);
}

/* All matrices of a device, a thread a matrix: no library has the Hermitian factors. */
static cr_status ldl_there(cr_lapack_job *j, const cr_value *arg, int n, cr_view *out)
{
    linalg_job w = {.n = n,
                    .parts = 1 + j->complex,
                    .pivots = (int32_t *)(void *)out[1].data,
                    .info = (int32_t *)(void *)out[2].data,
                    .hermitian = arg[1].i};
    cr_status st;

    TAKE(j, w.to, j->batch * n * n, j->item);
    CR_GO(move_all(j, arg[0].view, w.to, false, false));
    CR_GO(run_ldl(j, "ldl", j->batch, &w));
    CR_GO(check_all(arg + 2, "ldl_factor", j, &out[2]));
    CR_GO(move_all(j, &out[0], w.to, false, true));
done:
    return st;
}

/* The row numbers of each matrix of the batch, checked as by check_pivots_there. */
static cr_status ldl_pivots_there(cr_lapack_job *j, const cr_view *pivots, linalg_job *w)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    cr_lapack_job rows = *j;
    cr_view column = *pivots;
    char text[240];
    cr_status st;

    snprintf(
        text, sizeof text,
        "linalg.ldl_solve: pivots are expected to be rows between 1 and %lld, or two "
        "adjacent negatives of such, but \1 was given. Did you properly pass the result of "
        "ldl_factor?",
        (long long)w->n);
    CR_TRY(cr_loops_error_begin(&w->wrong, j->device, CR_RUNTIME, text));
    memcpy(size, pivots->size, (size_t)pivots->ndim * sizeof *size);
    memcpy(stride, pivots->stride, (size_t)pivots->ndim * sizeof *stride);
    size[pivots->ndim] = stride[pivots->ndim] = 1;
    column.size = size;
    column.stride = stride;
    column.ndim++;
    rows.dtype = CR_I32;
    TAKE(j, w->pivots, j->batch * w->n, sizeof *w->pivots);
    CR_GO(move_all(&rows, &column, w->pivots, false, false));
    CR_GO(run_ldl(j, "ldl_pivots", j->batch, w));
done:
    return st;
}

static cr_status ldl_solve_there(cr_lapack_job *j, const cr_value *arg, int n, cr_view *out)
{
    linalg_job w = {
        .n = n, .parts = 1 + j->complex, .sides = cr_lapack_cols(out), .hermitian = arg[3].i};
    cr_status st;

    CR_GO(ldl_pivots_there(j, arg[1].view, &w));
    TAKE(j, w.ldl, j->batch * n * n, j->item);
    TAKE(j, w.to, j->batch * n * w.sides, j->item);
    CR_GO(move_all(j, arg[0].view, w.ldl, false, false));
    CR_GO(move_all(j, arg[2].view, w.to, false, false));
    CR_GO(run_ldl(j, "ldl_substitute", j->batch * w.sides, &w));
    CR_GO(move_all(j, out, w.to, false, true));
done:
    return st;
}

/* (self, hermitian, check, name) -> (LD, pivots, info) */
cr_status cr_kern_ldl(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int n = cr_lapack_cols(self), info = 0, size = -1;
    cr_lapack_job j;
    cr_status st;
    char *a, *work, answer[16];

    CR_TRY(cr_lapack_begin(&j, "linalg.ldl_factor", self, 2));
    if (!cr_is_host(j.device) && n) {
        CR_GO(ldl_there(&j, arg, n, out));
        goto done;
    }
    TAKE(&j, a, (int64_t)n * n, j.item);
    for (int64_t i = 0; !n && i < j.batch; i++)
        CR_GO(set_info(&j, &out[2], i, 0));
    if (!n)
        goto done;
    (arg[1].i ? j.l->hetrf : j.l->sytrf)[j.type]("L", &n, a, &n, (int *)(void *)out[1].data,
                                                 answer, &size, &info, 1);
    size = cr_lapack_answer(&j, answer);
    TAKE(&j, work, size, j.item);
    for (int64_t i = 0; i < j.batch; i++) {
        CR_GO(cr_lapack_load(&j, self, i, a, n));
        CR_GO(clear_triangle(&j, a, n, n, true));
        (arg[1].i ? j.l->hetrf : j.l->sytrf)[j.type](
            "L", &n, a, &n, (int *)(void *)out[1].data + i * n, work, &size, &info, 1);
        CR_GO(check_info(arg + 2, "ldl_factor", &j, info, i));
        CR_GO(cr_lapack_store(&j, &out[0], i, a, n));
        CR_GO(set_info(&j, &out[2], i, info));
    }
done:
    return cr_lapack_end(&j, st);
}

/* (LD, pivots, B, hermitian) -> X */
cr_status cr_kern_ldl_solve(const cr_value *arg, cr_view *out)
{
    const cr_view *ld = arg[0].view, *b = arg[2].view;
    int n = cr_lapack_cols(ld), nrhs = cr_lapack_cols(out), info = 0;
    int64_t stride[CR_MAX_DIMS];
    cr_dense held = {0};
    cr_view pivots;
    cr_lapack_job j;
    cr_status st = CR_OK;
    char *a, *x;

    CR_TRY(cr_lapack_begin(&j, "linalg.ldl_solve", out, 2));
    if (!cr_is_host(j.device)) {
        if (n && nrhs)
            CR_GO(ldl_solve_there(&j, arg, n, out));
        goto done;
    }
    CR_GO(load_pivots(&pivots, &held, stride, arg[1].view));
    CR_GO(check_pivots(&ldl_solve_words, (int *)(void *)pivots.data, cr_view_numel(&pivots), n,
                       true));
    CR_GO(check_blocks("linalg.ldl_solve", (int *)(void *)pivots.data, cr_view_numel(&pivots),
                       n));
    TAKE(&j, a, (int64_t)n * n, j.item);
    TAKE(&j, x, (int64_t)n * nrhs, j.item);
    for (int64_t i = 0; i < j.batch && n && nrhs; i++) {
        int *p = (int *)(void *)cr_lapack_at(&j, &pivots, 1, i);
        CR_GO(cr_lapack_load(&j, ld, i, a, n));
        CR_GO(cr_lapack_load(&j, b, i, x, n));
        (arg[3].i ? j.l->hetrs : j.l->sytrs)[j.type]("L", &n, &nrhs, a, &n, p, x, &n, &info, 1);
        CR_GO(cr_lapack_store(&j, out, i, x, n));
    }
done:
    cr_dense_drop(&held);
    return cr_lapack_end(&j, st);
}

/* --- the permutation of an LU factorization --- */

/* The dtype in which a loop writes a result: its own where the loops have it. */
static cr_dtype permutation_dtype(cr_dtype t)
{
    cr_dtype wide = cr_dtype_is_complex(t) ? CR_C64 : CR_F32;

    return t == CR_F64 || t == CR_C128 ? t : wide;
}

/* (pivots, m) -> P, m x m in the dtype of the result */
cr_status cr_kern_pivots_to_matrix(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_LINALG, linalg_job, permutation);
    const cr_view *pivots = arg[0].view;
    int64_t k = pivots->size[pivots->ndim - 1], m = arg[1].i, batch = 1;
    cr_dtype t = permutation_dtype((cr_dtype)out->dtype);
    cr_lapack_job j = {.device = out->device};
    int64_t stride[CR_MAX_DIMS];
    cr_dense p = {0}, order = {0}, to = {0};
    cr_view held;
    cr_status st;

    for (int d = 0; d + 1 < pivots->ndim; d++)
        batch *= pivots->size[d];
    CR_GO(load_pivots(&held, &p, stride, pivots));
    if (!cr_is_host(out->device))
        CR_GO(check_pivots_there(&j, "lu_unpack", &held, m));
    else
        CR_GO(check_pivots(&unpack_words, (const int32_t *)(const void *)held.data,
                           cr_view_numel(pivots), m, false));
    CR_GO(cr_dense_take(&order, out->device, (size_t)(batch * m) * sizeof(int64_t)));
    CR_GO(cr_dense_out(&to, out, t));
    CR_GO(cr_dense_clear(&to, (size_t)cr_view_numel(out) * cr_dtype_size(t)));
    linalg_job w = {.to = to.data,
                    .from = held.data,
                    .order = (int64_t *)(void *)order.data,
                    .m = m,
                    .n = k,
                    .parts = 1 + cr_dtype_is_complex(t)};
    CR_GO(cr_loops_run(out->device, &loops, cr_dtype_real(t), batch, 1, &w));
    CR_GO(cr_dense_store(&to, out, t));
done:
    cr_dense_drop(&p);
    cr_dense_drop(&order);
    cr_dense_drop(&to);
    return cr_lapack_end(&j, st);
}
