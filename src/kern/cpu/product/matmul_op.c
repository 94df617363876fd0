/* The table entries of matrix products: translate arguments to products.
 *
 * The entry's rules checked the sizes; results are contiguous.  The product
 * of a batch of rows with one matrix is a single product. */
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/product/matmul.h"
#include "kern/cpu/walk.h"

static cr_matrix matrix_of_view(const cr_view *v, int row, int col)
{
    return (cr_matrix){v->data, v->stride[row], v->stride[col]};
}

/* The last two dimensions. */
static cr_matrix last_matrix(const cr_view *v)
{
    return matrix_of_view(v, v->ndim - 2, v->ndim - 1);
}

static cr_matrix dense_rows(const cr_view *out, int64_t n)
{
    return (cr_matrix){out->data, n, 1};
}

/* A scalar argument; the default is 1. */
static cr_scalar scalar_factor(const cr_value *v)
{
    switch (v->tag) {
    case CR_INT:
    case CR_TRUTH: return cr_scalar_int(v->i);
    case CR_FLOAT: return cr_scalar_float(v->d);
    case CR_NUMBER: return v->number;
    default: return cr_scalar_int(1);
    }
}

/* Without a factor there is no product, whatever its matrices hold: torch's products of these
 * types are BLAS's, which do not read the matrices then. */
static void set_factors(cr_gemm *g, cr_scalar alpha, cr_scalar beta)
{
    bool of_blas = g->dtype == CR_F32 || g->dtype == CR_F64 || cr_dtype_is_complex(g->dtype);

    g->alpha = alpha;
    g->beta = beta;
    if (of_blas && !cr_scalar_is_nonzero(alpha))
        g->k = 0;
}

static cr_status matrix_product(const cr_view *a, const cr_view *b, const cr_view *out,
                                cr_scalar alpha, cr_scalar beta)
{
    cr_gemm g = cr_gemm_plain((cr_dtype)out->dtype, a->size[0], b->size[1], a->size[1]);

    g.a = matrix_of_view(a, 0, 1);
    g.b = matrix_of_view(b, 0, 1);
    g.c = dense_rows(out, g.n);
    set_factors(&g, alpha, beta);
    return cr_gemm_run(&g);
}

cr_status cr_kern_mm(const cr_value *arg, cr_view *out)
{
    return matrix_product(arg[0].view, arg[1].view, out, cr_scalar_int(1), cr_scalar_int(0));
}

/* Broadcasts the added term into the result when the term's factor is not zero. */
static void put_term(const cr_view *out, const cr_view *term, cr_scalar beta)
{
    if (cr_scalar_is_nonzero(beta))
        cr_copy_view(out, term);
}

cr_status cr_kern_addmm(const cr_value *arg, cr_view *out)
{
    cr_scalar beta = scalar_factor(&arg[3]);

    put_term(out, arg[0].view, beta);
    return matrix_product(arg[1].view, arg[2].view, out, scalar_factor(&arg[4]), beta);
}

/* One product for each index of the first dimension. */
/* The product of the first matrices of two batches. */
static cr_gemm first_product(const cr_view *a, const cr_view *b, const cr_view *out,
                             cr_scalar alpha, cr_scalar beta)
{
    cr_gemm g = cr_gemm_plain((cr_dtype)out->dtype, a->size[1], b->size[2], a->size[2]);

    g.a = last_matrix(a);
    g.b = last_matrix(b);
    g.c = dense_rows(out, g.n);
    set_factors(&g, alpha, beta);
    return g;
}

static cr_status batched(const cr_view *a, const cr_view *b, const cr_view *out,
                         cr_scalar alpha, cr_scalar beta)
{
    cr_gemm g = first_product(a, b, out, alpha, beta);
    cr_gemm_batch w; /* not initialized: a space is long */

    cr_gemm_batch_start(&w, &g);
    cr_gemm_batch_add(&w, a->size[0], a->stride[0], b->stride[0], g.m * g.n);
    return cr_gemm_batch_run(&w);
}

cr_status cr_kern_bmm(const cr_value *arg, cr_view *out)
{
    return batched(arg[0].view, arg[1].view, out, cr_scalar_int(1), cr_scalar_int(0));
}

cr_status cr_kern_baddbmm(const cr_value *arg, cr_view *out)
{
    cr_scalar beta = scalar_factor(&arg[3]);

    put_term(out, arg[0].view, beta);
    return batched(arg[1].view, arg[2].view, out, scalar_factor(&arg[4]), beta);
}

/* Adds the products of a batch in order. */
cr_status cr_kern_addbmm(const cr_value *arg, cr_view *out)
{
    const cr_view *a = arg[1].view, *b = arg[2].view;
    cr_scalar beta = scalar_factor(&arg[3]);
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)a->dtype);
    cr_gemm g = first_product(a, b, out, scalar_factor(&arg[4]), beta);

    put_term(out, arg[0].view, beta);
    if (a->size[0] == 0) {
        g.k = 0;
        return cr_gemm_run(&g);
    }
    for (int64_t i = 0; i < a->size[0]; i++) {
        CR_TRY(cr_gemm_run(&g));
        g.a.data += a->stride[0] * item;
        g.b.data += b->stride[0] * item;
        g.beta = cr_scalar_int(1);
    }
    return CR_OK;
}

static cr_status matrix_vector(const cr_view *m, const cr_view *v, const cr_view *out,
                               cr_scalar alpha, cr_scalar beta)
{
    cr_gemm g = cr_gemm_plain((cr_dtype)out->dtype, m->size[0], 1, m->size[1]);

    g.a = matrix_of_view(m, 0, 1);
    g.b = (cr_matrix){v->data, v->stride[0], 1};
    g.c = dense_rows(out, 1);
    set_factors(&g, alpha, beta);
    return cr_gemm_run(&g);
}

cr_status cr_kern_mv(const cr_value *arg, cr_view *out)
{
    return matrix_vector(arg[0].view, arg[1].view, out, cr_scalar_int(1), cr_scalar_int(0));
}

cr_status cr_kern_addmv(const cr_value *arg, cr_view *out)
{
    cr_scalar beta = scalar_factor(&arg[3]);

    put_term(out, arg[0].view, beta);
    return matrix_vector(arg[1].view, arg[2].view, out, scalar_factor(&arg[4]), beta);
}

cr_status cr_kern_dot(const cr_value *arg, cr_view *out)
{
    const cr_view *a = arg[0].view, *b = arg[1].view;
    cr_gemm g = cr_gemm_plain((cr_dtype)out->dtype, 1, 1, a->size[0]);

    g.a = (cr_matrix){a->data, a->size[0], a->stride[0]};
    g.b = (cr_matrix){b->data, b->stride[0], 1};
    g.c = dense_rows(out, 1);
    return cr_gemm_run(&g);
}

/* --- matmul --- */

/* An operand as [batch..., rows, cols]; a vector gets the missing dimension. */
typedef struct {
    int batch; /* dimensions before the matrix */
    int64_t rows, cols;
    cr_matrix m;
    const cr_view *view;
} operand;

static operand left_operand(const cr_view *v)
{
    if (v->ndim == 1)
        return (operand){0, 1, v->size[0], {v->data, v->size[0], v->stride[0]}, v};
    return (operand){v->ndim - 2, v->size[v->ndim - 2], v->size[v->ndim - 1], last_matrix(v),
                     v};
}

static operand right_operand(const cr_view *v)
{
    if (v->ndim == 1)
        return (operand){0, v->size[0], 1, {v->data, v->stride[0], 1}, v};
    return (operand){v->ndim - 2, v->size[v->ndim - 2], v->size[v->ndim - 1], last_matrix(v),
                     v};
}

/* Size and stride of batch dimension d of n, by dimension of the result. */
static int64_t operand_batch_size(const operand *o, int d, int n)
{
    int own = d - (n - o->batch);

    return own < 0 ? 1 : o->view->size[own];
}

static int64_t batch_stride(const operand *o, int d, int n)
{
    return cr_broadcast_step(o->batch, o->view->size, o->view->stride, n, d);
}

/* Joins the batch dimensions of `o` with its rows when one stride covers them all.  So [i, j,
 * k] x [k, n] is one product with i*j rows. */
static bool fold_batch_rows(operand *o)
{
    int dims = o->view->ndim - 1;

    if (!cr_one_step(&o->m.row, dims, o->view->size, o->view->stride))
        return false;
    for (int d = 0; d < o->batch; d++)
        o->rows *= o->view->size[d];
    o->batch = 0;
    return true;
}

static cr_status run_product(const operand *a, const operand *b, const cr_view *out)
{
    int n = a->batch > b->batch ? a->batch : b->batch;
    int64_t step = cr_view_numel(out);
    cr_gemm g = cr_gemm_plain((cr_dtype)out->dtype, a->rows, b->cols, a->cols);
    cr_gemm_batch w; /* not initialized: a space is long */

    g.a = a->m;
    g.b = b->m;
    g.c = dense_rows(out, b->cols);
    cr_gemm_batch_start(&w, &g);
    for (int d = 0; d < n; d++) {
        int64_t sa = operand_batch_size(a, d, n), sb = operand_batch_size(b, d, n);

        step /= sa == 1 ? sb : sa;
        cr_gemm_batch_add(&w, sa == 1 ? sb : sa, batch_stride(a, d, n), batch_stride(b, d, n),
                          step);
    }
    return n ? cr_gemm_batch_run(&w) : cr_gemm_run(&g);
}

cr_status cr_kern_matmul(const cr_value *arg, cr_view *out)
{
    operand a = left_operand(arg[0].view), b = right_operand(arg[1].view);

    if (!cr_view_numel(out)) /* the batch may be huge */
        return CR_OK;
    if (b.batch == 0)
        fold_batch_rows(&a);
    return run_product(&a, &b, out);
}

/* input weight^T + bias.  A weight of one dimension gives one number per row. */
cr_status cr_kern_linear(const cr_value *arg, cr_view *out)
{
    const cr_view *weight = arg[1].view, *bias = arg[2].tag == CR_VIEW ? arg[2].view : NULL;
    int64_t n = weight->ndim == 1 ? 1 : weight->size[0];
    operand a = left_operand(arg[0].view);
    cr_dense copy = {0};
    cr_gemm g;
    cr_status st;

    if (!fold_batch_rows(&a)) {
        CR_TRY(cr_dense_in(&copy, a.view, (cr_dtype)a.view->dtype));
        a.m = (cr_matrix){copy.data, a.cols, 1};
        a.rows = n ? cr_view_numel(out) / n : 0;
    }
    g = cr_gemm_plain((cr_dtype)out->dtype, a.rows, n, a.cols);
    g.a = a.m;
    g.b = (cr_matrix){weight->data, weight->stride[weight->ndim - 1],
                      weight->ndim == 1 ? 1 : weight->stride[0]};
    g.c = dense_rows(out, n);
    if (bias && bias->ndim == 1 && bias->size[0] == n && bias->stride[0] == 1) {
        g.bias = bias->data;
    } else if (bias) {
        cr_copy_view(out, bias);
        g.beta = cr_scalar_int(1);
    }
    st = cr_gemm_run(&g);
    cr_dense_drop(&copy);
    return st;
}
