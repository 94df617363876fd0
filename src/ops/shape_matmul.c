/* Shape rules of the matrix products. */
#include "base/text.h"
#include "ops/shape.h"
#include "space/shape.h"
#include "space/shape_text.h"

typedef long long ll; /* for printf */

static void shape2(cr_shape *out, int64_t rows, int64_t cols)
{
    out->ndim = 2;
    out->size[0] = rows;
    out->size[1] = cols;
}

static cr_status refuse_bool(const cr_view *v, const char *kernel)
{
    if (v->dtype != CR_BOOL)
        return CR_OK;
    return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", kernel);
}

/* uint16, uint32 and uint64, which are stored but not multiplied. */
static cr_status refuse_unsigned(const cr_view *v, const char *kernel)
{
    cr_dtype t = (cr_dtype)v->dtype;

    if (!cr_dtype_is_stored(t) || cr_dtype_category(t) != CR_CAT_INT)
        return CR_OK;
    return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel,
                   cr_dtype_infos[t].legacy);
}

/* Unsigned operands of matrix products may be empty: the product is then empty or zeros. */
static cr_status refuse_product(const cr_view *a, const cr_view *b, const char *kernel)
{
    CR_TRY(refuse_bool(a, kernel));
    return cr_numel(a->ndim, a->size) && cr_numel(b->ndim, b->size) ? refuse_unsigned(a, kernel)
                                                                    : CR_OK;
}

static cr_status check_product(int64_t m, int64_t k, int64_t k2, int64_t n)
{
    if (k == k2)
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (ll)m,
                   (ll)k, (ll)k2, (ll)n);
}

cr_status cr_shape_mm(const cr_value *arg, cr_shape *out)
{
    const cr_view *a = arg[0].view, *b = arg[1].view;

    if (a->ndim != 2)
        return cr_fail(CR_RUNTIME, "self must be a matrix");
    if (b->ndim != 2)
        return cr_fail(CR_RUNTIME, "mat2 must be a matrix");
    CR_TRY(check_product(a->size[0], a->size[1], b->size[0], b->size[1]));
    if (a->dtype != b->dtype)
        return cr_fail(CR_RUNTIME,
                       "expected m1 and m2 to have the same dtype, but got: %s != %s",
                       cr_c_name(a), cr_c_name(b));
    CR_TRY(refuse_product(a, b, "addmm_impl_cpu_"));
    shape2(out, a->size[0], b->size[1]);
    return CR_OK;
}

static cr_status check_pair(const cr_view *self, const cr_view *mat2)
{
    if (self->dtype == mat2->dtype)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "self and mat2 must have the same dtype, but got %s and %s",
                   cr_legacy_name(self), cr_legacy_name(mat2));
}

cr_status cr_shape_addmm(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *a = arg[1].view, *b = arg[2].view;

    if (a->ndim != 2)
        return cr_fail(CR_RUNTIME, "mat1 must be a matrix, got %d-D tensor", a->ndim);
    if (b->ndim != 2)
        return cr_fail(CR_RUNTIME, "mat2 must be a matrix, got %d-D tensor", b->ndim);
    CR_TRY(check_product(a->size[0], a->size[1], b->size[0], b->size[1]));
    CR_TRY(check_pair(self, b));
    CR_TRY(check_pair(a, b));
    CR_TRY(refuse_bool(a, "addmm_impl_cpu_"));
    shape2(out, a->size[0], b->size[1]);
    return cr_check_expand(self, out->ndim, out->size);
}

static cr_status check_batches(const cr_view *a, const cr_view *b)
{
    if (a->ndim != 3)
        return cr_fail(CR_RUNTIME, "batch1 must be a 3D tensor");
    if (b->ndim != 3)
        return cr_fail(CR_RUNTIME, "batch2 must be a 3D tensor");
    return CR_OK;
}

static cr_status batch_shape(const cr_view *a, const cr_view *b, cr_shape *out)
{
    CR_TRY(check_batches(a, b));
    if (a->size[0] != b->size[0] || a->size[2] != b->size[1])
        return cr_fail(CR_RUNTIME,
                       "Expected size for first two dimensions of batch2 tensor to be: "
                       "[%lld, %lld] but got: [%lld, %lld].",
                       (ll)a->size[0], (ll)a->size[2], (ll)b->size[0], (ll)b->size[1]);
    out->ndim = 3;
    out->size[0] = a->size[0];
    out->size[1] = a->size[1];
    out->size[2] = b->size[2];
    return CR_OK;
}

static cr_status check_scalar_types(const cr_view *a, const cr_view *b)
{
    if (a->dtype == b->dtype)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "expected scalar type %s but found %s", cr_legacy_name(a),
                   cr_legacy_name(b));
}

cr_status cr_shape_bmm(const cr_value *arg, cr_shape *out)
{
    CR_TRY(batch_shape(arg[0].view, arg[1].view, out));
    CR_TRY(check_scalar_types(arg[0].view, arg[1].view));
    return refuse_product(arg[0].view, arg[1].view, "bmm");
}

cr_status cr_shape_baddbmm(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *a = arg[1].view, *b = arg[2].view;

    CR_TRY(batch_shape(a, b, out));
    CR_TRY(cr_check_expand(self, out->ndim, out->size));
    CR_TRY(check_scalar_types(a, b));
    if (self->dtype != a->dtype)
        return cr_fail(CR_RUNTIME,
                       "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s",
                       cr_c_name(self), cr_c_name(a), cr_c_name(b));
    return refuse_bool(a, "baddbmm");
}

cr_status cr_shape_addbmm(const cr_value *arg, cr_shape *out)
{
    const cr_view *self = arg[0].view, *a = arg[1].view, *b = arg[2].view;

    CR_TRY(check_batches(a, b));
    if (a->size[0] != b->size[0])
        return cr_fail(CR_RUNTIME,
                       "batch1 and batch2 must have same number of batches, got %lld and %lld",
                       (ll)a->size[0], (ll)b->size[0]);
    if (a->size[2] != b->size[1])
        return cr_fail(CR_RUNTIME,
                       "Incompatible matrix sizes for bmm (%lldx%lld and %lldx%lld)",
                       (ll)a->size[1], (ll)a->size[2], (ll)b->size[1], (ll)b->size[2]);
    shape2(out, a->size[1], b->size[2]);
    CR_TRY(cr_check_expand(self, out->ndim, out->size));
    CR_TRY(check_pair(self, b));
    CR_TRY(check_pair(a, b));
    return refuse_bool(a, "addmm_impl_cpu_");
}

static cr_status size_mismatch(int64_t n, const cr_view *mat, const cr_view *vec)
{
    return cr_fail(CR_RUNTIME, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                   (ll)n, (ll)mat->size[0], (ll)mat->size[1], (ll)vec->size[0]);
}

static cr_status vector_shape(const cr_view *self, const cr_view *mat, const cr_view *vec,
                              cr_shape *out)
{
    int64_t n;

    if ((self && self->ndim > 1) || mat->ndim != 2 || vec->ndim != 1)
        return cr_fail(CR_RUNTIME, "vector + matrix @ vector expected, got %d, %d, %d",
                       self ? self->ndim : 1, mat->ndim, vec->ndim);
    n = self && self->ndim && self->size[0] != 1 ? self->size[0] : mat->size[0];
    if (mat->size[1] != vec->size[0] || n != mat->size[0])
        return size_mismatch(n, mat, vec);
    if (!self)
        self = vec;
    if (self->dtype != mat->dtype || mat->dtype != vec->dtype)
        return cr_fail(CR_RUNTIME,
                       "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                       cr_legacy_name(self), cr_legacy_name(mat), cr_legacy_name(vec));
    out->ndim = 1;
    out->size[0] = n;
    return refuse_product(mat, vec, "addmv_impl_cpu");
}

cr_status cr_shape_mv(const cr_value *arg, cr_shape *out)
{
    return vector_shape(NULL, arg[0].view, arg[1].view, out);
}

cr_status cr_shape_addmv(const cr_value *arg, cr_shape *out)
{
    return vector_shape(arg[0].view, arg[1].view, arg[2].view, out);
}

static cr_status vectors_shape(const cr_view *a, const cr_view *b, cr_shape *out)
{
    if (a->ndim != 1 || b->ndim != 1)
        return cr_fail(CR_RUNTIME, "1D tensors expected, but got %dD and %dD tensors", a->ndim,
                       b->ndim);
    if (a->dtype != b->dtype)
        return cr_fail(CR_RUNTIME,
                       "dot : expected both vectors to have same dtype, but found %s and %s",
                       cr_legacy_name(a), cr_legacy_name(b));
    if (a->size[0] != b->size[0])
        return cr_fail(
            CR_RUNTIME,
            "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the "
            "same number of elements, but got %lld and %lld elements respectively",
            (ll)a->size[0], (ll)b->size[0], (ll)a->size[0], (ll)b->size[0]);
    out->ndim = 0;
    CR_TRY(refuse_bool(a, "dot"));
    return refuse_unsigned(a, "dot");
}

cr_status cr_shape_dot(const cr_value *arg, cr_shape *out)
{
    return vectors_shape(arg[0].view, arg[1].view, out);
}

/* --- matmul: first vectors and matrices, then batches --- */

/* The size of a batch dimension, counted from the outermost; 1 when there is none. */
static int64_t view_batch_size(const cr_view *v, int d, int n)
{
    int own = d - (n - (v->ndim - 2));

    return own < 0 ? 1 : v->size[own];
}

static cr_status batch_dims(const cr_view *a, const cr_view *b, cr_shape *out)
{
    int na = a->ndim > 2 ? a->ndim - 2 : 0, nb = b->ndim > 2 ? b->ndim - 2 : 0;
    int n = na > nb ? na : nb;

    for (int d = 0; d < n; d++) {
        int64_t x = a->ndim > 2 ? view_batch_size(a, d, n) : 1,
                y = b->ndim > 2 ? view_batch_size(b, d, n) : 1;
        if (x != y && x != 1 && y != 1)
            return cr_fail(
                CR_RUNTIME,
                "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                "non-singleton dimension %d",
                (ll)x, (ll)y, d);
        out->size[d] = x == 1 ? y : x;
    }
    out->ndim = n;
    return CR_OK;
}

static int64_t leading(const cr_view *v)
{
    int64_t n = 1;

    for (int d = 0; d + 1 < v->ndim; d++)
        n = CR_WRAP_MUL(n, v->size[d]);
    return n;
}

/* The message of the operator that torch calls in this case. */
static cr_status wrong_inner(const cr_view *a, const cr_view *b, int64_t batch)
{
    int64_t k = a->size[a->ndim - 1], k2 = b->size[b->ndim == 1 ? 0 : b->ndim - 2];

    if (b->ndim == 1)
        return cr_fail(CR_RUNTIME,
                       "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                       (ll)leading(a), (ll)leading(a), (ll)k, (ll)k2);
    if (b->ndim == 2)
        return check_product(leading(a), k, k2, b->size[1]);
    return cr_fail(
        CR_RUNTIME,
        "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but "
        "got: [%lld, %lld].",
        (ll)batch, (ll)k, (ll)batch, (ll)k2);
}

static cr_status check_matmul_types(const cr_view *a, const cr_view *b)
{
    bool vector = a->ndim > 1 && b->ndim == 1;

    if (a->dtype != b->dtype && (a->ndim > 2 || b->ndim > 2) && !vector)
        return check_scalar_types(a, b);
    if (a->dtype != b->dtype && !vector)
        return cr_fail(CR_RUNTIME,
                       "expected m1 and m2 to have the same dtype, but got: %s != %s",
                       cr_c_name(a), cr_c_name(b));
    if (a->dtype != b->dtype)
        return cr_fail(CR_RUNTIME,
                       "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                       cr_legacy_name(b), cr_legacy_name(a), cr_legacy_name(b));
    return refuse_product(a, b,
                          vector                       ? "addmv_impl_cpu"
                          : a->ndim < 3 && b->ndim < 3 ? "addmm_impl_cpu_"
                                                       : "bmm");
}

cr_status cr_shape_matmul(const cr_value *arg, cr_shape *out)
{
    const cr_view *a = arg[0].view, *b = arg[1].view;
    int64_t batch = 1;

    if (a->ndim == 0 || b->ndim == 0)
        return cr_fail(
            CR_RUNTIME,
            "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
            a->ndim, b->ndim);
    if (a->ndim == 1 && b->ndim == 1)
        return vectors_shape(a, b, out);
    CR_TRY(batch_dims(a, b, out));
    for (int d = 0; d < out->ndim; d++)
        batch *= out->size[d];
    if (a->size[a->ndim - 1] != b->size[b->ndim == 1 ? 0 : b->ndim - 2])
        return wrong_inner(a, b, batch);
    if (a->ndim > 1)
        out->size[out->ndim++] = a->size[a->ndim - 2];
    if (b->ndim > 1)
        out->size[out->ndim++] = b->size[b->ndim - 1];
    return check_matmul_types(a, b);
}

/* --- linear --- */

static cr_status check_linear(const cr_view *x, const cr_view *w)
{
    if (x->ndim == 0 || w->ndim == 0)
        return cr_fail(
            CR_RUNTIME,
            "both arguments to linear need to be at least 1D, but they are %dD and %dD",
            x->ndim, w->ndim);
    if (w->ndim > 2)
        return cr_fail(CR_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD",
                       w->ndim);
    return CR_OK;
}

static cr_status check_linear_types(const cr_view *x, const cr_view *w, const cr_view *bias)
{
    if (bias)
        CR_TRY(check_pair(bias, w));
    if (bias && x->dtype != w->dtype)
        return cr_fail(CR_RUNTIME, "mat1 and mat2 must have the same dtype, but got %s and %s",
                       cr_legacy_name(x), cr_legacy_name(w));
    if (x->dtype != w->dtype)
        return cr_fail(CR_RUNTIME,
                       "expected m1 and m2 to have the same dtype, but got: %s != %s",
                       cr_c_name(x), cr_c_name(w));
    return refuse_bool(x, "addmm_impl_cpu_");
}

static cr_status refuse_vector_bias(const cr_view *bias)
{
    cr_text sizes = {0};
    cr_status st;

    cr_text_char(&sizes, '[');
    for (int d = 0; d < bias->ndim; d++)
        cr_text_printf(&sizes, "%s%lld", d ? ", " : "", (ll)bias->size[d]);
    st = cr_fail(CR_RUNTIME, "output with shape [] doesn't match the broadcast shape %s]",
                 cr_text_str(&sizes));
    cr_text_drop(&sizes);
    return st;
}

/* torch's addmm adds the bias to the product of two matrices. */
static cr_status check_linear_bias(const cr_view *bias, int64_t rows, int64_t cols, int ndim)
{
    cr_shape flat;

    if (!bias || (ndim == 0 && bias->ndim == 0))
        return CR_OK;
    if (ndim == 0)
        return refuse_vector_bias(bias);
    shape2(&flat, rows, cols);
    return cr_check_expand(bias, flat.ndim, flat.size);
}

cr_status cr_shape_linear(const cr_value *arg, cr_shape *out)
{
    const cr_view *x = arg[0].view, *w = arg[1].view;
    const cr_view *bias = arg[2].tag == CR_VIEW ? arg[2].view : NULL;
    int64_t k = x->ndim ? x->size[x->ndim - 1] : 0;

    CR_TRY(check_linear(x, w));
    if (k != w->size[w->ndim - 1] && w->ndim == 1)
        return cr_fail(CR_RUNTIME,
                       "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                       (ll)leading(x), (ll)leading(x), (ll)k, (ll)w->size[0]);
    if (w->ndim == 2)
        CR_TRY(check_product(leading(x), k, w->size[1], w->size[0]));
    CR_TRY(check_linear_types(x, w, bias));
    out->ndim = x->ndim - 1;
    for (int d = 0; d < out->ndim; d++)
        out->size[d] = x->size[d];
    if (w->ndim == 2)
        out->size[out->ndim++] = w->size[0];
    return check_linear_bias(bias, leading(x), w->ndim == 2 ? w->size[0] : 1, out->ndim);
}
