/* Shape rules of factorizations and solvers.
 *
 * Most entries are internal.  Their last argument is the name of the public operator, for
 * messages. */
#include "base/integer.h"
#include "ops/shape.h"
#include "space/shape_text.h"
#include <stdio.h>
#include <string.h>

typedef long long ll; /* for printf */

static cr_status check_inexact(const cr_view *v, const cr_value *name)
{
    if (!cr_dtype_is_inexact((cr_dtype)v->dtype))
        return cr_fail(CR_RUNTIME,
                       "%.*s: Expected a floating point or complex tensor as input. Got %s",
                       (int)name->len, name->s, cr_legacy_name(v));
    if (v->dtype == CR_F16 || v->dtype == CR_BF16)
        return cr_fail(CR_RUNTIME, "%.*s: Low precision dtypes not supported. Got %s",
                       (int)name->len, name->s, cr_legacy_name(v));
    return CR_OK;
}

static cr_status check_matrix(const cr_view *v, const cr_value *name, const char *which)
{
    if (v->ndim < 2)
        return cr_fail(CR_RUNTIME, "%.*s: The input tensor %s must have at least 2 dimensions.",
                       (int)name->len, name->s, which);
    return CR_OK;
}

static cr_status check_square(const cr_view *v, const cr_value *name)
{
    CR_TRY(check_matrix(v, name, "A"));
    if (cr_view_rows(v) != cr_view_cols(v))
        return cr_fail(
            CR_RUNTIME,
            "%.*s: A must be batches of square matrices, but they are %lld by %lld matrices",
            (int)name->len, name->s, (ll)cr_view_rows(v), (ll)cr_view_cols(v));
    return CR_OK;
}

/* The batch dimensions of `v`: all but its last `last` dimensions. */
static void batch_of(cr_shape *out, const cr_view *v, int last)
{
    out->ndim = v->ndim - last;
    for (int d = 0; d < out->ndim; d++)
        out->size[d] = v->size[d];
}

static void push(cr_shape *out, int64_t n) { out->size[out->ndim++] = n; }

static void push_matrix(cr_shape *out, const cr_view *like, int64_t m, int64_t n)
{
    batch_of(out, like, 2);
    push(out, m);
    push(out, n);
}

static void vector(cr_shape *out, const cr_view *like, int64_t n)
{
    batch_of(out, like, 2);
    push(out, n);
}

static void empty_vector(cr_shape *out)
{
    out->ndim = 1;
    out->size[0] = 0;
}

/* (self, upper, check, name) -> (L, info) */
cr_status cr_shape_cholesky(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;

    CR_TRY(check_square(v, &arg[3]));
    CR_TRY(check_inexact(v, &arg[3]));
    push_matrix(&out[0], v, cr_view_rows(v), cr_view_cols(v));
    batch_of(&out[1], v, 2);
    return CR_OK;
}

/* (A, pivot, check, name) -> (LU, pivots, info) */
cr_status cr_shape_lu(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;
    char text[CR_SIZES_TEXT];

    if (v->ndim < 2)
        return cr_fail(CR_RUNTIME,
                       "%.*s: Expected tensor with 2 or more dimensions. Got size: %s instead",
                       (int)arg[3].len, arg[3].s, cr_sizes_text(text, v->ndim, v->size));
    if (!cr_dtype_is_inexact((cr_dtype)v->dtype) || v->dtype == CR_F16 || v->dtype == CR_BF16)
        return cr_fail(CR_NOT_IMPLEMENTED, "\"lu_cpu\" not implemented for '%s'",
                       cr_legacy_name(v));
    push_matrix(&out[0], v, cr_view_rows(v), cr_view_cols(v));
    vector(&out[1], v, cr_least(cr_view_rows(v), cr_view_cols(v)));
    batch_of(&out[2], v, 2);
    return CR_OK;
}

/* The broadcast batch dimensions of a and b. */
static cr_status common_batch(cr_shape *out, const cr_view *a, const cr_view *b)
{
    int na = a->ndim - 2, nb = b->ndim - 2, n = na > nb ? na : nb;

    out->ndim = n;
    for (int d = n - 1; d >= 0; d--) {
        int64_t x = d < n - na ? 1 : a->size[d - (n - na)],
                y = d < n - nb ? 1 : b->size[d - (n - nb)];
        if (x != y && x != 1 && y != 1)
            return cr_fail(
                CR_RUNTIME,
                "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                "non-singleton dimension %d",
                (ll)y, (ll)x, d);
        out->size[d] = x == 1 ? y : x;
    }
    return CR_OK;
}

static cr_status check_same_type(const cr_view *a, const cr_view *b, const cr_value *name,
                                 const char *first)
{
    if (a->dtype == b->dtype)
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "%.*s: Expected %s and B to have the same dtype, but found %s of type %s and B of "
        "type %s instead",
        (int)name->len, name->s, first, first, cr_legacy_name(a), cr_legacy_name(b));
}

static cr_status check_equation(const cr_view *a, const cr_view *b, bool left,
                                const cr_value *name)
{
    CR_TRY(check_matrix(b, name, "B"));
    if (left ? cr_view_cols(a) == cr_view_rows(b) : cr_view_cols(a) == cr_view_cols(b))
        return CR_OK;
    return cr_fail(
        CR_RUNTIME,
        "%.*s: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)",
        (int)name->len, name->s, left ? "AX = B" : "XA = B", (ll)cr_view_rows(a),
        (ll)cr_view_cols(a), (ll)cr_view_rows(b), (ll)cr_view_cols(b));
}

static cr_status solution_shape(const cr_view *a, const cr_view *b, cr_shape *out)
{
    CR_TRY(common_batch(out, a, b));
    push(out, cr_view_rows(b));
    push(out, cr_view_cols(b));
    return CR_OK;
}

static const cr_value lu_solve_name = {.tag = CR_STRING, .len = 15, .s = "linalg.lu_solve"};
static const cr_value triangular_name = {
    .tag = CR_STRING, .len = 23, .s = "linalg.solve_triangular"};

/* (LU, pivots, B, adjoint) */
cr_status cr_shape_lu_solve(const cr_value *arg, cr_shape *out)
{
    const cr_view *lu = arg[0].view, *pivots = arg[1].view, *b = arg[2].view;

    CR_TRY(check_inexact(lu, &lu_solve_name));
    CR_TRY(check_same_type(lu, b, &lu_solve_name, "LU"));
    if (pivots->dtype != CR_I32)
        return cr_fail(CR_RUNTIME,
                       "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
    CR_TRY(check_square(lu, &lu_solve_name));
    CR_TRY(check_equation(lu, b, true, &lu_solve_name));
    if (pivots->ndim == 0 || cr_view_cols(lu) != pivots->size[pivots->ndim - 1])
        return cr_fail(CR_RUNTIME,
                       "linalg.lu_solve: Number of pivots per batch should be same as the "
                       "dimension of the matrix");
    if (pivots->ndim != lu->ndim - 1 ||
        memcmp(pivots->size, lu->size, (size_t)pivots->ndim * sizeof *lu->size)) {
        char text[CR_SIZES_TEXT];
        return cr_fail(
            CR_RUNTIME,
            "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but "
            "got pivots with shape %s instead",
            cr_sizes_text(text, pivots->ndim, pivots->size));
    }
    return solution_shape(lu, b, out);
}

/* (A, B, left, check, name) -> (X, info) */
cr_status cr_shape_solve(const cr_value *arg, cr_shape *out)
{
    const cr_view *a = arg[0].view, *b = arg[1].view;
    cr_value name = arg[4];

    /* torch's checks name "linalg.solve"; its error about a singular matrix names
     * "torch.linalg.solve" */
    if (name.len > 6 && !memcmp(name.s, "torch.", 6))
        name.s += 6, name.len -= 6;
    CR_TRY(check_inexact(a, &name));
    CR_TRY(check_same_type(a, b, &name, "A"));
    CR_TRY(check_square(a, &name));
    CR_TRY(check_equation(a, b, arg[2].i, &name));
    CR_TRY(solution_shape(a, b, &out[0]));
    out[1] = out[0];
    out[1].ndim -= 2;
    return CR_OK;
}

/* (A, check, name) -> (inverse, info) */
cr_status cr_shape_inv(const cr_value *arg, cr_shape *out)
{
    CR_TRY(check_square(arg[0].view, &arg[2]));
    CR_TRY(check_inexact(arg[0].view, &arg[2]));
    push_matrix(&out[0], arg[0].view, cr_view_rows(arg[0].view), cr_view_cols(arg[0].view));
    batch_of(&out[1], arg[0].view, 2);
    return CR_OK;
}

/* (self, B, upper, left, unitriangular) */
cr_status cr_shape_solve_triangular(const cr_value *arg, cr_shape *out)
{
    const cr_view *a = arg[0].view, *b = arg[1].view;

    CR_TRY(check_inexact(a, &triangular_name));
    CR_TRY(check_same_type(a, b, &triangular_name, "A"));
    CR_TRY(check_square(a, &triangular_name));
    CR_TRY(check_equation(a, b, arg[3].i, &triangular_name));
    return solution_shape(a, b, out);
}

/* (self) -> (a, tau) */
cr_status cr_shape_geqrf(const cr_value *arg, cr_shape *out)
{
    static const cr_value name = {.tag = CR_STRING, .len = 5, .s = "geqrf"};
    const cr_view *v = arg[0].view;

    if (v->ndim < 2)
        return cr_fail(CR_RUNTIME, "torch.geqrf: input must have at least 2 dimensions.");
    CR_TRY(check_inexact(v, &name));
    push_matrix(&out[0], v, cr_view_rows(v), cr_view_cols(v));
    vector(&out[1], v, cr_least(cr_view_rows(v), cr_view_cols(v)));
    return CR_OK;
}

/* (A, compute_q, reduced) -> (Q, R) */
cr_status cr_shape_qr(const cr_value *arg, cr_shape *out)
{
    static const cr_value name = {.tag = CR_STRING, .len = 9, .s = "linalg.qr"};
    const cr_view *v = arg[0].view;
    int64_t k;

    CR_TRY(check_matrix(v, &name, "A"));
    CR_TRY(check_inexact(v, &name));
    k = arg[2].i ? cr_least(cr_view_rows(v), cr_view_cols(v)) : cr_view_rows(v);
    push_matrix(&out[0], v, cr_view_rows(v), k);
    push_matrix(&out[1], v, k, cr_view_cols(v));
    if (!arg[1].i)
        empty_vector(&out[0]);
    return CR_OK;
}

static cr_status check_reflectors(const cr_view *v, const cr_view *tau, const char *name)
{
    bool batch = tau->ndim == v->ndim - 1;
    char text[CR_SIZES_TEXT];

    if (v->dtype != tau->dtype)
        return cr_fail(CR_RUNTIME, "%s: tau dtype %s does not match input dtype %s", name,
                       cr_legacy_name(tau), cr_legacy_name(v));
    if (!batch)
        return cr_fail(
            CR_RUNTIME,
            "%s: Expected tau to have one dimension less than input, but got tau.ndim equal "
            "to %d and input.ndim is equal to %d",
            name, tau->ndim, v->ndim);
    if (memcmp(tau->size, v->size, (tau->ndim - 1) * sizeof *v->size))
        return cr_fail(
            CR_RUNTIME,
            "%s: Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s",
            name, cr_sizes_text(text, tau->ndim - 1, tau->size));
    return CR_OK;
}

/* (input, tau) */
cr_status cr_shape_householder_product(const cr_value *arg, cr_shape *out)
{
    static const char *const name = "torch.linalg.householder_product";
    static const cr_value plain = {
        .tag = CR_STRING, .len = 26, .s = "linalg.householder_product"};
    const cr_view *v = arg[0].view, *tau = arg[1].view;

    if (v->ndim < 2)
        return cr_fail(CR_RUNTIME, "%s: input must have at least 2 dimensions.", name);
    if (cr_view_rows(v) < cr_view_cols(v))
        return cr_fail(CR_RUNTIME,
                       "%s: input.shape[-2] must be greater than or equal to input.shape[-1]",
                       name);
    if (tau->ndim && cr_view_cols(v) < tau->size[tau->ndim - 1])
        return cr_fail(CR_RUNTIME,
                       "%s: input.shape[-1] must be greater than or equal to tau.shape[-1]",
                       name);
    CR_TRY(check_reflectors(v, tau, name));
    push_matrix(out, v, cr_view_rows(v), cr_view_cols(v));
    return check_inexact(v, &plain);
}

/* (input, tau, other, left, transpose) */
cr_status cr_shape_ormqr(const cr_value *arg, cr_shape *out)
{
    static const cr_value name = {.tag = CR_STRING, .len = 11, .s = "torch.ormqr"};
    const cr_view *v = arg[0].view, *tau = arg[1].view, *other = arg[2].view;
    const char *side = arg[3].i ? "-2" : "-1";
    char text[CR_SIZES_TEXT];
    int64_t k;

    if (v->ndim < 2 || other->ndim < 2)
        return cr_fail(CR_RUNTIME, "torch.ormqr: %s must have at least 2 dimensions.",
                       v->ndim < 2 ? "input" : "other");
    k = arg[3].i ? cr_view_rows(other) : cr_view_cols(other);
    if (tau->ndim == 0 || tau->size[tau->ndim - 1] > k)
        return cr_fail(
            CR_RUNTIME,
            "torch.ormqr: other.shape[%s] must be greater than or equal to tau.shape[-1]",
            side);
    if (k != cr_view_rows(v))
        return cr_fail(CR_RUNTIME,
                       "torch.ormqr: other.shape[%s] must be equal to input.shape[-2]", side);
    if (tau->size[tau->ndim - 1] != cr_least(k, cr_view_cols(v)))
        return cr_fail(CR_RUNTIME,
                       "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[%s], "
                       "input.shape[-1])",
                       side);
    if (v->dtype != tau->dtype)
        return cr_fail(
            CR_RUNTIME,
            "torch.ormqr: Expected input and tau to have the same dtype, but input has "
            "dtype%s and tau has dtype %s",
            cr_legacy_name(v), cr_legacy_name(tau));
    if (v->dtype != other->dtype)
        return cr_fail(
            CR_RUNTIME,
            "torch.ormqr: Expected input and other to have the same dtype, but input has "
            "dtype%s and other has dtype %s",
            cr_legacy_name(v), cr_legacy_name(other));
    CR_TRY(check_reflectors(v, tau, "torch.ormqr"));
    if (other->ndim != v->ndim)
        return cr_fail(CR_RUNTIME,
                       "torch.ormqr: Expected other to have the same number of dimensions as "
                       "input, but got "
                       "other.ndim equal to %d and input.ndim is equal to %d",
                       other->ndim, v->ndim);
    if (memcmp(other->size, v->size, (v->ndim - 2) * sizeof *v->size))
        return cr_fail(CR_RUNTIME,
                       "torch.ormqr: Expected batch dimensions of other to be equal to "
                       "input.shape[:-2], but got %s",
                       cr_sizes_text(text, other->ndim - 2, other->size));
    push_matrix(out, other, cr_view_rows(other), cr_view_cols(other));
    return check_inexact(v, &name);
}

/* (A, full_matrices, compute_uv, name) -> (U, S, Vh) */
cr_status cr_shape_svd(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;
    int64_t k;

    CR_TRY(check_matrix(v, &arg[3], "A"));
    CR_TRY(check_inexact(v, &arg[3]));
    k = cr_least(cr_view_rows(v), cr_view_cols(v));
    push_matrix(&out[0], v, cr_view_rows(v), arg[1].i ? cr_view_rows(v) : k);
    vector(&out[1], v, k);
    push_matrix(&out[2], v, arg[1].i ? cr_view_cols(v) : k, cr_view_cols(v));
    if (!arg[2].i) {
        empty_vector(&out[0]);
        empty_vector(&out[2]);
    }
    return CR_OK;
}

/* (A, UPLO, compute_v, name) -> (eigenvalues, eigenvectors) */
cr_status cr_shape_eigh(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;

    CR_TRY(check_square(v, &arg[3]));
    CR_TRY(check_inexact(v, &arg[3]));
    if (arg[1].len != 1 || !strchr("LUlu", arg[1].s[0]))
        return cr_fail(CR_RUNTIME, "Expected UPLO argument to be 'L' or 'U', but got %.*s",
                       (int)arg[1].len, arg[1].s);
    vector(&out[0], v, cr_view_cols(v));
    push_matrix(&out[1], v, cr_view_rows(v), cr_view_cols(v));
    if (!arg[2].i)
        empty_vector(&out[1]);
    return CR_OK;
}

/* (A, compute_v, name) -> (eigenvalues, eigenvectors) */
cr_status cr_shape_eig(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;

    CR_TRY(check_square(v, &arg[2]));
    CR_TRY(check_inexact(v, &arg[2]));
    vector(&out[0], v, cr_view_cols(v));
    push_matrix(&out[1], v, cr_view_rows(v), cr_view_cols(v));
    if (!arg[1].i)
        empty_vector(&out[1]);
    return CR_OK;
}

static bool is_driver(const cr_value *v, const char *name)
{
    return v->len == strlen(name) && !memcmp(v->s, name, v->len);
}

/* (A, B, rcond, driver) -> (solution, rank, singular_values) */
cr_status cr_shape_lstsq(const cr_value *arg, cr_shape *out)
{
    const cr_view *a = arg[0].view, *b = arg[1].view;
    const cr_value *driver = &arg[3];

    CR_TRY(common_batch(&out[0], a, b));
    out[1] = out[2] = out[0];
    push(&out[0], cr_view_cols(a));
    push(&out[0], cr_view_cols(b));
    push(&out[2], cr_least(cr_view_rows(a), cr_view_cols(a)));
    if (is_driver(driver, "gels"))
        empty_vector(&out[1]);
    if (is_driver(driver, "gels") || is_driver(driver, "gelsy"))
        empty_vector(&out[2]);
    return CR_OK;
}

/* (self, hermitian, check, name) -> (LD, pivots, info) */
cr_status cr_shape_ldl(const cr_value *arg, cr_shape *out)
{
    const cr_view *v = arg[0].view;

    CR_TRY(check_square(v, &arg[3]));
    CR_TRY(check_inexact(v, &arg[3]));
    push_matrix(&out[0], v, cr_view_rows(v), cr_view_cols(v));
    vector(&out[1], v, cr_view_cols(v));
    batch_of(&out[2], v, 2);
    return CR_OK;
}

/* (LD, pivots, B, hermitian) */
cr_status cr_shape_ldl_solve(const cr_value *arg, cr_shape *out)
{
    static const cr_value name = {.tag = CR_STRING, .len = 22, .s = "torch.linalg.ldl_solve"};
    const cr_view *a = arg[0].view, *pivots = arg[1].view, *b = arg[2].view;
    char text[CR_SIZES_TEXT];

    CR_TRY(check_square(a, &name));
    CR_TRY(check_inexact(a, &name));
    CR_TRY(check_matrix(b, &name, "B"));
    if (cr_view_cols(a) != cr_view_rows(b))
        return cr_fail(
            CR_RUNTIME,
            "Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is %lld by "
            "%lld but each b matrix is %lld by %lld",
            (ll)cr_view_rows(a), (ll)cr_view_cols(a), (ll)cr_view_rows(b), (ll)cr_view_cols(b));
    if (pivots->ndim != a->ndim - 1 ||
        memcmp(pivots->size, a->size, pivots->ndim * sizeof *a->size))
        return cr_fail(CR_RUNTIME,
                       "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be "
                       "the same, but got "
                       "pivots with shape %s instead",
                       cr_sizes_text(text, pivots->ndim, pivots->size));
    if (cr_dtype_category((cr_dtype)pivots->dtype) != CR_CAT_INT)
        return cr_fail(CR_RUNTIME,
                       "torch.linalg.ldl_solve: Expected pivots to be integers. Got %s",
                       cr_legacy_name(pivots));
    CR_TRY(check_same_type(a, b, &name, "A"));
    return solution_shape(a, b, out);
}

/* (pivots, m, dtype) */
cr_status cr_shape_pivots_to_matrix(const cr_value *arg, cr_shape *out)
{
    const cr_view *pivots = arg[0].view;

    if (!pivots->ndim || pivots->size[pivots->ndim - 1] > arg[1].i)
        return cr_fail(CR_RUNTIME,
                       "lu_unpack: there are more pivots than the %lld rows they exchange",
                       (long long)arg[1].i);
    batch_of(out, pivots, 1);
    push(out, arg[1].i);
    push(out, arg[1].i);
    return CR_OK;
}

/* (self) */
cr_status cr_shape_matrix_exp(const cr_value *arg, cr_shape *out)
{
    static const cr_value name = {.tag = CR_STRING, .len = 17, .s = "linalg.matrix_exp"};
    const cr_view *v = arg[0].view;

    if (!cr_dtype_is_inexact((cr_dtype)v->dtype))
        return check_inexact(v, &name);
    CR_TRY(check_square(v, &name));
    push_matrix(out, v, cr_view_rows(v), cr_view_cols(v));
    return CR_OK;
}
