/* rule_code.h - what the C of rules is written in (tools/opgen_rules.c).
 *
 * A function that returns bool returns false where the code cannot decide: then the evaluator
 * of rule trees (rule.c) does, and says what is wrong.  Only generated code includes this
 * file. */
#ifndef CR_TENSOR_RULE_CODE_H
#define CR_TENSOR_RULE_CODE_H

#include "base/integer.h"
#include "entry.h"
#include "tensor/internal.h"
#include "tensor/sparse.h"
#include <math.h>

/* What rules read of a tensor, or of sizes that stand for one. */
typedef struct {
    const int64_t *size;
    int ndim;
    cr_dtype dtype;
} rule_tensor;

typedef struct {
    const int64_t *at;
    int64_t n;
} rule_list;

typedef struct {
    const cr_value *at;
    int64_t n;
} rule_tensors;

static inline bool rule_argument(const cr_value *v, rule_tensor *out)
{
    if (CR_LIKELY(v->tag == CR_TENSOR))
        *out = (rule_tensor){v->t->size, v->t->ndim, (cr_dtype)v->t->dtype};
    else if (v->tag == CR_VIEW)
        *out = (rule_tensor){v->view->size, v->view->ndim, (cr_dtype)v->view->dtype};
    else
        return false;
    return true;
}

/* For rules that read nothing else of a tensor. */
static inline bool rule_dtype(const cr_value *v, cr_dtype *out)
{
    if (CR_LIKELY(v->tag == CR_TENSOR))
        *out = (cr_dtype)v->t->dtype;
    else if (v->tag == CR_VIEW)
        *out = (cr_dtype)v->view->dtype;
    else
        return false;
    return true;
}

static inline bool rule_truth(const cr_value *v, bool *out)
{
    *out = v->tag != CR_NONE && v->i;
    return v->tag == CR_NONE || v->tag == CR_TRUTH || v->tag == CR_INT;
}

static inline bool rule_real(const cr_value *v, double *out)
{
    if (v->tag == CR_INT)
        *out = (double)v->i;
    else if (v->tag == CR_FLOAT)
        *out = v->d;
    else if (v->tag == CR_NUMBER && v->number.category != CR_CAT_COMPLEX)
        *out = cr_scalar_as_double(v->number);
    else
        return false;
    return true;
}

static inline bool rule_is_tensor(const cr_value *v)
{
    return v->tag == CR_TENSOR || v->tag == CR_VIEW;
}

static inline bool rule_on_host(const cr_value *v)
{
    return (v->tag == CR_TENSOR && cr_is_host(v->t->device)) ||
           (v->tag == CR_VIEW && cr_is_host(v->view->device));
}

static inline bool rule_is_sparse(const cr_value *v)
{
    return v->tag == CR_TENSOR && v->t->layout != CR_LAYOUT_STRIDED;
}

static inline bool rule_is_coo(const cr_value *v)
{
    return v->tag == CR_TENSOR && cr_is_coo(v->t);
}

static inline bool rule_is_blocked(const cr_value *v)
{
    return v->tag == CR_TENSOR && cr_is_blocked(v->t);
}

static inline bool rule_by_rows(const cr_value *v)
{
    return v->tag == CR_TENSOR && cr_by_rows(v->t->layout);
}

static inline bool rule_coalesced(const cr_value *v)
{
    return rule_is_sparse(v) && cr_sparse_of(v->t)->coalesced;
}

static inline int64_t rule_sparse_dims(const cr_value *v)
{
    return rule_is_sparse(v) ? cr_sparse_dims(v->t) : 0;
}

static inline int64_t rule_batch_dims(const cr_value *v)
{
    return rule_is_sparse(v) ? cr_sparse_batch(v->t) : 0;
}

static inline bool rule_nnz(const cr_value *v, int64_t *out)
{
    *out = rule_is_sparse(v) ? cr_sparse_count(v->t) : 0;
    return rule_is_sparse(v);
}

static inline bool rule_values_fit(const cr_value *v, const cr_value *values)
{
    return rule_is_sparse(v) && values->tag == CR_TENSOR && cr_values_fit(v->t, values->t);
}

static inline bool rule_is_text(const cr_value *a, const cr_value *b)
{
    return a->tag == b->tag && (a->tag == CR_NONE || (a->tag == CR_STRING && a->len == b->len &&
                                                      !memcmp(a->s, b->s, a->len)));
}

static inline bool rule_is_list(rule_list a, rule_list b)
{
    return a.n == b.n && !memcmp(a.at, b.at, (size_t)a.n * sizeof *a.at);
}

static inline bool rule_is_category(cr_dtype t, cr_category least, cr_category most)
{
    return t != CR_DTYPE_NONE && cr_dtype_category(t) >= least && cr_dtype_category(t) <= most;
}

CR_ALWAYS_INLINE bool rule_size(rule_tensor t, int64_t d, int64_t *out)
{
    int64_t n = t.ndim ? t.ndim : 1;

    if (d < -n || d >= n)
        return false;
    *out = t.ndim ? t.size[d < 0 ? d + n : d] : 1;
    return true;
}

static inline bool rule_wrap(int64_t d, int64_t ndim, int64_t *out)
{
    int64_t n = ndim > 0 ? ndim : 1;

    *out = d < 0 ? d + n : d;
    return d >= -n && d < n;
}

CR_ALWAYS_INLINE bool rule_at(rule_list list, int64_t i, int64_t *out)
{
    if (i < -list.n || i >= list.n)
        return false;
    *out = list.at[i < 0 ? i + list.n : i];
    return true;
}

static inline bool rule_real_at(const cr_value *v, int64_t i, double *out)
{
    if (v->tag != CR_FLOATS || i < 0 || i >= v->len)
        return false;
    *out = v->floats[i];
    return true;
}

static inline bool rule_item(rule_tensors list, int64_t i, int64_t *out)
{
    *out = i < 0 ? i + list.n : i;
    return i >= -list.n && i < list.n;
}

static inline bool rule_device(const cr_value *v, int64_t *out)
{
    *out = rule_is_tensor(v)
               ? cr_packed_device(v->tag == CR_VIEW ? v->view->device : v->t->device)
               : 0;
    return rule_is_tensor(v);
}

static inline cr_value rule_type_value(cr_dtype t)
{
    return t == CR_DTYPE_NONE ? cr_of_none() : cr_of_dtype(t);
}

static inline bool rule_list_value(cr_frame *f, rule_list list, cr_value *out)
{
    int64_t *ints = cr_frame_get(f, (size_t)(list.n ? list.n : 1) * sizeof *ints);

    if (!ints)
        return false;
    for (int64_t i = 0; i < list.n; i++)
        ints[i] = list.at[i];
    *out = cr_of_ints(ints, (size_t)list.n);
    return true;
}

static inline int64_t rule_first(rule_list list, int64_t x)
{
    for (int64_t i = 0; i < list.n; i++)
        if (list.at[i] == x)
            return i;
    return -1;
}

static inline bool rule_add(int64_t a, int64_t b, int64_t *out)
{
    return !CR_ADD_OVERFLOW(a, b, out);
}

static inline bool rule_sub(int64_t a, int64_t b, int64_t *out)
{
    return !CR_SUB_OVERFLOW(a, b, out);
}

static inline bool rule_mul(int64_t a, int64_t b, int64_t *out)
{
    return !CR_MUL_OVERFLOW(a, b, out);
}

static inline bool rule_product(rule_list list, int64_t *out)
{
    *out = 1;
    for (int64_t i = 0; i < list.n; i++)
        if (CR_MUL_OVERFLOW(*out, list.at[i], out))
            return false;
    return true;
}

static inline bool rule_total(rule_list list, int64_t *out)
{
    *out = 0;
    for (int64_t i = 0; i < list.n; i++)
        if (CR_ADD_OVERFLOW(*out, list.at[i], out))
            return false;
    return true;
}

/* Neither 0 nor -1 divides here, whose quotients do not exist or may overflow. */
CR_ALWAYS_INLINE bool rule_quotient(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    if (b == 0 || b == -1)
        return false;
    *quotient = cr_floor_div(a, b);
    *rest = a - *quotient * b;
    return true;
}

static inline bool rule_reduced(rule_tensor t, cr_value dim, bool keep, int64_t *size,
                                rule_list *out)
{
    uint64_t mask;

    if (cr_dim_mask(&mask, &dim, t.ndim))
        return false;
    *out = (rule_list){size, cr_reduced_sizes(size, t.ndim, t.size, mask, keep)};
    return true;
}

/* Sizes that stand for a tensor. */
static inline bool rule_stands(rule_list list, cr_dtype dtype, rule_tensor *out)
{
    int64_t n = 1;

    if (list.n > CR_MAX_DIMS)
        return false;
    for (int64_t i = 0; i < list.n; i++)
        if (list.at[i] < 0 || CR_MUL_OVERFLOW(n, list.at[i] ? list.at[i] : 1, &n))
            return false;
    *out = (rule_tensor){list.at, (int)list.n, dtype};
    return true;
}

/* An argument of a shape function. */
static inline cr_value rule_given(const cr_value *v, cr_view *view)
{
    if (v->tag != CR_TENSOR)
        return *v;
    *view = cr_shape_view(v->t);
    return (cr_value){.tag = CR_VIEW, .view = view};
}

static inline cr_value rule_given_sizes(rule_tensor t, cr_view *view)
{
    *view = (cr_view){.size = t.size,
                      .stride = t.size,
                      .ndim = (uint8_t)t.ndim,
                      .dtype = (uint8_t)t.dtype,
                      .device = CR_META_DEVICE};
    return (cr_value){.tag = CR_VIEW, .view = view};
}

static inline bool rule_result(rule_list list, cr_shape *out)
{
    if (list.n > CR_MAX_DIMS)
        return false;
    out->ndim = (int)list.n;
    for (int64_t i = 0; i < list.n; i++)
        out->size[i] = list.at[i];
    return true;
}

#endif
