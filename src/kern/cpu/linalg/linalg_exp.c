/* The matrix exponential by scaling, a Pade approximant of degree 13, and squaring (Higham
 * 2005).  Numerator and denominator of the approximant commute with the matrix, so LAPACK may
 * work on the transpose. */
#include "kern/cpu/entries.h"
#include "kern/cpu/library/lapack.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/product/matmul.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <string.h>

static const double pade[14] = {64764752532480000.0,
                                32382376266240000.0,
                                7771770303897600.0,
                                1187353796428800.0,
                                129060195264000.0,
                                10559470521600.0,
                                670442572800.0,
                                33522128640.0,
                                1323241920.0,
                                40840800.0,
                                960960.0,
                                16380.0,
                                182.0,
                                1.0};
/* the approximant is exact for norms up to this */
static const double pade_norm = 5.371920351148152;

typedef struct {
    cr_lapack_job *j;
    int n;
    int64_t reals; /* real numbers in a matrix */
    char *a, *a2, *a4, *a6, *u, *v, *t;
    int *pivot;
} exponential;

/* y = the sum of c[i] * x[i], over the real numbers of the matrices. */
static void exp_combine(const exponential *e, char *y, int count, const double *c,
                        char *const *x)
{
    for (int64_t i = 0; i < e->reals; i++) {
        double sum = 0;
        for (int k = 0; k < count; k++)
            sum += c[k] * (e->j->real == sizeof(double)
                               ? ((const double *)(void *)x[k])[i]
                               : (double)((const float *)(void *)x[k])[i]);
        if (e->j->real == sizeof(double))
            ((double *)(void *)y)[i] = sum;
        else
            ((float *)(void *)y)[i] = (float)sum;
    }
}

static void add_identity(const exponential *e, char *y, double c)
{
    int64_t step = (e->n + 1) * (e->j->complex ? 2 : 1);

    for (int64_t i = 0; i < e->n; i++) {
        if (e->j->real == sizeof(double))
            ((double *)(void *)y)[i * step] += c;
        else
            ((float *)(void *)y)[i * step] += (float)c;
    }
}

static cr_status exp_product(const exponential *e, char *c, char *a, char *b)
{
    cr_gemm g = cr_gemm_plain(e->j->dtype, e->n, e->n, e->n);

    g.a = (cr_matrix){a, e->n, 1};
    g.b = (cr_matrix){b, e->n, 1};
    g.c = (cr_matrix){c, e->n, 1};
    return cr_gemm_run(&g);
}

/* The largest sum of absolute values in a row. */
static double norm(const exponential *e)
{
    double most = 0;

    for (int64_t r = 0; r < e->n; r++) {
        double sum = 0;
        for (int64_t c = 0; c < e->n; c++) {
            cr_complex z = cr_scalar_as_complex(
                cr_scalar_load(e->j->dtype, e->a + (size_t)(r * e->n + c) * e->j->item));
            sum += hypot(z.re, z.im);
        }
        most = sum > most || sum != sum ? sum : most;
    }
    return most;
}

/* Computes u and v, the odd and even parts of the approximant. */
static cr_status parts(exponential *e)
{
    char *even[] = {e->a6, e->a4, e->a2};

    CR_TRY(exp_product(e, e->a2, e->a, e->a));
    CR_TRY(exp_product(e, e->a4, e->a2, e->a2));
    CR_TRY(exp_product(e, e->a6, e->a4, e->a2));
    exp_combine(e, e->t, 3, (double[]){pade[13], pade[11], pade[9]}, even);
    CR_TRY(exp_product(e, e->u, e->a6, e->t));
    exp_combine(e, e->t, 4, (double[]){1, pade[7], pade[5], pade[3]},
                (char *[]){e->u, e->a6, e->a4, e->a2});
    add_identity(e, e->t, pade[1]);
    CR_TRY(exp_product(e, e->u, e->a, e->t));
    exp_combine(e, e->t, 3, (double[]){pade[12], pade[10], pade[8]}, even);
    CR_TRY(exp_product(e, e->v, e->a6, e->t));
    exp_combine(e, e->v, 4, (double[]){1, pade[6], pade[4], pade[2]},
                (char *[]){e->v, e->a6, e->a4, e->a2});
    add_identity(e, e->v, pade[0]);
    return CR_OK;
}

/* Replaces a by its exponential. */
static cr_status exponentiate(exponential *e)
{
    double size = norm(e);
    int squarings = size > pade_norm && isfinite(size) ? (int)ceil(log2(size / pade_norm)) : 0;
    int n = e->n, info = 0;

    exp_combine(e, e->a, 1, (double[]){ldexp(1, -squarings)}, &e->a);
    CR_TRY(parts(e));
    exp_combine(e, e->t, 2, (double[]){1, -1}, (char *[]){e->v, e->u});
    exp_combine(e, e->a, 2, (double[]){1, 1}, (char *[]){e->v, e->u});
    e->j->l->getrf[e->j->type](&n, &n, e->t, &n, e->pivot, &info);
    if (!info)
        e->j->l->getrs[e->j->type]("N", &n, &n, e->t, &n, e->pivot, e->a, &n, &info, 1);
    for (; squarings > 0; squarings--) {
        char *was = e->a;
        CR_TRY(exp_product(e, e->t, e->a, e->a));
        e->a = e->t;
        e->t = was;
    }
    return CR_OK;
}

static cr_status exp_prepare(exponential *e)
{
    char **const all[] = {&e->a, &e->a2, &e->a4, &e->a6, &e->u, &e->v, &e->t};

    for (size_t i = 0; i < CR_LEN(all); i++)
        if (!(*all[i] = cr_lapack_take(e->j, (int64_t)e->n * e->n, e->j->item)))
            return CR_MEMORY;
    e->pivot = cr_lapack_take(e->j, e->n, sizeof *e->pivot);
    return e->pivot ? CR_OK : CR_MEMORY;
}

static cr_status exp_run(cr_lapack_job *j, const cr_view *self, char *out)
{
    exponential e = {.j = j, .n = (int)self->size[self->ndim - 1]};
    size_t bytes = (size_t)e.n * (size_t)e.n * j->item;

    e.reals = (int64_t)(bytes / j->real);
    CR_TRY(exp_prepare(&e));
    for (int64_t i = 0; i < j->batch && e.n; i++) {
        /* columns of the transpose are rows */
        memcpy(e.a, out + (size_t)i * bytes, bytes);
        CR_TRY(exponentiate(&e));
        memcpy(out + (size_t)i * bytes, e.a, bytes);
    }
    return CR_OK;
}

/* Converts the result to its own type; half types are converted from float32. */
static void exp_store(cr_dense *d, const cr_view *out, cr_dtype t)
{
    float *f = (float *)(void *)d->data;
    const double *wide = (const double *)(const void *)d->data;

    if (out->dtype == CR_F16 || out->dtype == CR_BF16) {
        for (int64_t i = 0; i < cr_view_numel(out); i++)
            f[i] = (float)wide[i];
        t = CR_F32;
    }
    cr_dense_store(d, out, t);
}

/* (self).  Computed in double precision, because squaring loses digits of small elements. */
cr_status cr_kern_matrix_exp(const cr_value *arg, cr_view *out)
{
    cr_view self = *arg[0].view;
    cr_dtype t = cr_dtype_is_complex((cr_dtype)self.dtype) ? CR_C128 : CR_F64;
    cr_dense result = {0};
    cr_lapack_job j;
    cr_status st;

    self.dtype = (uint8_t)t;
    CR_TRY(cr_lapack_begin(&j, "linalg.matrix_exp", &self, 2));
    CR_GO(cr_dense_out(&result, out, t));
    cr_pack(result.data, t, arg[0].view);
    CR_GO(exp_run(&j, &self, result.data));
    exp_store(&result, out, t);
done:
    cr_dense_drop(&result);
    return cr_lapack_end(&j, st);
}
