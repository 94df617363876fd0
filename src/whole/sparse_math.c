/* Sparse tensors: arithmetic, sums, softmax. */
#include "base/parallel.h"
#include "whole/sparse_impl.h"
#include <string.h>

static bool same_sizes(const cr_tensor *a, const cr_tensor *b)
{
    return cr_has_sizes(a, b->ndim, b->size);
}

/* CR_RUNTIME with the sizes of both in the places of %s. */
static cr_status refuse_sizes(const char *format, const cr_tensor *a, const cr_tensor *b)
{
    return cr_fail(CR_RUNTIME, format, cr_view_text(a), cr_view_text(b));
}

static cr_tensor *cast(cr_steps *s, cr_tensor *t, cr_dtype dtype)
{
    return CR_STEP(s, to_dtype, T(t), cr_of_dtype(dtype));
}

/* A tensor with the layout and the indices of `t`, and other values. */
static cr_tensor *with_values(cr_steps *s, cr_tensor *t, cr_tensor *values)
{
    return CR_STEP(s, _sparse_with_values, T(t), T(values));
}

/* --- addition --- */

static bool is_one(const cr_value *alpha) { return cr_scalar_as_double(alpha->number) == 1; }

static cr_tensor *scaled(cr_steps *s, cr_tensor *values, const cr_value *alpha, cr_dtype dtype)
{
    values = cast(s, values, dtype);
    return is_one(alpha) ? values : CR_STEP(s, mul, T(values), *alpha);
}

/* For the merge of two sequences of positions: the place of each item in the result, and for
 * each place the first item that it gets.  Items with one position at the heads of both go to
 * one place, so sorted sequences give a sorted result. */
static int64_t merge_places(const int64_t *a, int64_t n, const int64_t *b, int64_t m,
                            int64_t *place, int64_t *first)
{
    int64_t i = 0, k = 0, count = 0;

    while (i < n || k < m) {
        bool from_a = k == m || (i < n && a[i] <= b[k]);
        bool from_b = i == n || (k < m && b[k] <= a[i]);
        first[count] = from_a ? i : n + k;
        if (from_a)
            place[i++] = count;
        if (from_b)
            place[n + k++] = count;
        count++;
    }
    return count;
}

static cr_tensor *host_ints(cr_steps *s, int64_t n)
{
    cr_tensor *t;

    if (s->st)
        return NULL;
    cr_step_fail(s, cr_tensor_new(&t, CR_I64, CR_HOST, 1, &n));
    return s->st ? NULL : cr_step_own(s, t);
}

/* The sum of two tensors on the host as torch makes it: the items are merged by position. */
static cr_tensor *add_merged(cr_steps *s, cr_tensor *a, cr_tensor *b, cr_tensor *values)
{
    const cr_sparse *p = cr_sparse_of(a), *q = cr_sparse_of(b);
    int dims = cr_sparse_dims(a);
    int64_t n = cr_sparse_count(a), m = cr_sparse_count(b), count = 0;

    cr_step_product(s, dims, a->size);
    cr_tensor *x = CR_STEP(s, contiguous, T(cr_step_flat(s, p->indices, dims, a->size)));
    cr_tensor *y = CR_STEP(s, contiguous, T(cr_step_flat(s, q->indices, dims, a->size)));
    cr_tensor *place = host_ints(s, n + m), *first = host_ints(s, n + m);
    if (s->st)
        return NULL;
    count = merge_places((const int64_t *)(void *)x->address, n,
                         (const int64_t *)(void *)y->address, m,
                         (int64_t *)(void *)place->address, (int64_t *)(void *)first->address);
    first = CR_STEP(s, narrow, T(first), I(0), I(0), I(count));
    cr_value both[] = {T(p->indices), T(q->indices)};
    cr_tensor *indices = cr_step_cat(s, both, 2, 1);
    indices = CR_STEP(s, index_select, T(indices), I(1), T(first));
    values = cr_step_add_rows(s, values, place, count);
    return cr_step_coo_like(s, a, indices, values, p->coalesced && q->coalesced);
}

static cr_tensor *add_coo(cr_steps *s, cr_tensor *a, cr_tensor *b, const cr_value *alpha,
                          cr_dtype dtype)
{
    if (s->st)
        return NULL;
    const cr_sparse *p = cr_sparse_of(a), *q = cr_sparse_of(b);
    bool merged = cr_is_host(a->device) && p->indices->address && p->values->contiguous &&
                  q->values->contiguous;
    cr_value values[] = {T(cast(s, p->values, dtype)), T(scaled(s, q->values, alpha, dtype))};
    cr_value indices[] = {T(p->indices), T(q->indices)};
    cr_tensor *both = cr_step_cat(s, values, 2, 0);
    if (merged)
        return add_merged(s, a, b, both);
    cr_tensor *made = cr_step_coo_like(s, a, cr_step_cat(s, indices, 2, 1), both, false);
    return p->coalesced && q->coalesced && !s->st ? cr_step_coalesced(s, made) : made;
}

/* Adds a sparse tensor to a strided one in place. */
static void add_to_strided(cr_steps *s, cr_tensor *self, cr_tensor *sparse,
                           const cr_value *alpha)
{
    cr_tensor *coo = cr_step_indexed(s, sparse);
    cr_value result, list[CR_MAX_DIMS], rows[CR_MAX_DIMS];
    int dims = cr_sparse_dims(sparse);
    int64_t size[CR_MAX_DIMS];

    if (s->st)
        return;
    const cr_sparse *p = cr_sparse_of(coo);
    cr_tensor *values = scaled(s, p->values, alpha, (cr_dtype)self->dtype);
    if (values && values->storage == self->storage)
        values = CR_STEP(s, clone, T(values));
    if (!self->contiguous && dims) {
        for (int d = 0; d < dims; d++)
            list[d] = rows[d] = T(cr_step_row(s, p->indices, d));
        cr_value all = {.tag = CR_TENSORS, .len = (uint32_t)dims, .list = list};
        if (!s->st)
            cr_step_fail(
                s, cr_call_inplace(cr_entry.index_put,
                                   (cr_value[]){T(self), all, T(values), cr_of_bool(true)},
                                   &result));
    } else {
        size[0] = cr_step_product(s, dims, self->size);
        memcpy(size + 1, self->size + dims, (size_t)(self->ndim - dims) * sizeof *size);
        cr_tensor *flat = cr_step_flat(s, p->indices, dims, self->size);
        cr_tensor *lines =
            CR_STEP(s, view, T(self), cr_of_ints(size, (size_t)(self->ndim - dims + 1)));
        cr_value one = cr_of_number(cr_scalar_int(1));
        if (!s->st)
            cr_step_fail(s,
                         cr_call_inplace(cr_entry.index_add,
                                         (cr_value[]){T(lines), I(0), T(flat), T(values), one},
                                         &result));
    }
    if (!s->st)
        cr_drop_values(&result, 1);
}

static cr_status refuse_dense(void)
{
    return cr_fail(CR_RUNTIME, "add(sparse, dense) is not supported. Use add(dense, sparse) "
                               "instead.");
}

static const char unlike_dense[] =
    "add: expected 'self' and 'other' to have same size, but self "
    "has size %s while other has size %s (FYI: dense-sparse "
    "addition does not currently support broadcasting)";

static cr_status check_add(const cr_tensor *self, const cr_tensor *other)
{
    if (!cr_is_sparse(other) && cr_is_coo(self))
        return refuse_dense();
    if (!same_sizes(self, other) && !cr_is_sparse(self))
        return refuse_sizes(unlike_dense, self, other);
    if (!same_sizes(self, other))
        return refuse_sizes("add: expected sizes of 'self' and 'other' to match, but %s != %s",
                            self, other);
    if (cr_is_sparse(self) && cr_is_sparse(other) && self->layout == other->layout &&
        cr_is_coo(self) && cr_sparse_dims(self) != cr_sparse_dims(other))
        return cr_fail(CR_RUNTIME,
                       "add: expected 'self' and 'other' to have same number of sparse "
                       "dimensions");
    return CR_OK;
}

/* self, other, alpha */
cr_status cr_do_sparse_add(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *other = arg[1].t, *sum;
    cr_dtype dtype;
    cr_steps s = {0};

    if (arg[1].tag != CR_TENSOR)
        return refuse_dense();
    if (arg[0].tag != CR_TENSOR)
        return refuse_sizes(unlike_dense, &(cr_tensor){0}, other);
    CR_TRY(cr_promote_values(&dtype, arg, 2));
    if (!cr_is_sparse(self))
        CR_TRY(cr_expect_sparse("add", other));
    if (cr_is_sparse(self) && !cr_is_coo(self) && !cr_is_sparse(other)) {
        self = scaled(&s, other, &arg[2], dtype); /* alpha * other + self */
        if (s.st)
            return cr_steps_give(&s, result, NULL);
        cr_value one = cr_of_number(cr_scalar_int(1));
        cr_status st = cr_do_sparse_add((cr_value[]){T(self), arg[0], one}, result);
        return cr_steps_end(&s, &sum, self) ? s.st : (cr_drop(sum), st);
    }
    CR_TRY(check_add(self, other));
    if (cr_is_sparse(self)) {
        cr_tensor *b = cr_step_as_coo(&s, other);
        sum = add_coo(&s, cr_step_as_coo(&s, self), b, &arg[2], dtype);
        if (!cr_is_coo(self))
            sum = cr_step_as_layout(&s, sum, self);
        return cr_steps_give(&s, result, sum);
    }
    sum = CR_STEP(&s, _to_copy, T(self), cr_of_dtype(dtype));
    if (!s.st)
        add_to_strided(&s, sum, other, &arg[2]);
    return cr_steps_give(&s, result, sum);
}

/* The same in place. */
cr_status cr_do_sparse_add_inplace(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t;
    cr_value made;
    cr_dtype dtype;
    cr_steps s = {0};

    if (arg[1].tag != CR_TENSOR)
        return refuse_dense();
    if (cr_is_sparse(self)) {
        CR_TRY(cr_do_sparse_add(arg, &made));
        cr_status st = cr_do_sparse_become((cr_value[]){arg[0], made}, result);
        cr_drop_values(&made, 1);
        return st;
    }
    CR_TRY(cr_expect_sparse("add_", arg[1].t));
    CR_TRY(check_add(self, arg[1].t));
    CR_TRY(cr_promote_values(&dtype, arg, 2));
    if (!cr_can_cast(dtype, (cr_dtype)self->dtype))
        return cr_fail(CR_RUNTIME, "result type %s can't be cast to the desired output type %s",
                       cr_dtype_infos[dtype].legacy, cr_dtype_infos[self->dtype].legacy);
    add_to_strided(&s, self, arg[1].t, &arg[2]);
    return cr_steps_give(&s, result, self);
}

/* --- products with numbers, strided and sparse tensors --- */

/* A number, or a strided tensor without dims. */
static bool is_number(const cr_value *v)
{
    return v->tag != CR_TENSOR || (!cr_is_sparse(v->t) && v->t->ndim == 0);
}

static cr_tensor *mul_strided(cr_steps *s, cr_tensor *sparse, cr_tensor *dense)
{
    cr_tensor *coo = cr_step_indexed(s, sparse);
    cr_tensor *full = CR_STEP(s, expand, T(dense), cr_of_ints(sparse->size, sparse->ndim));

    if (s->st)
        return NULL;
    cr_tensor *stored = cr_sparse_of(sparse)->values, *values = cr_step_at(s, full, coo);
    if (cr_is_blocked(sparse))
        values = CR_STEP(s, reshape, T(values), cr_of_ints(stored->size, stored->ndim));
    return with_values(s, sparse, CR_STEP(s, mul, T(stored), T(values)));
}

/* The items of `a` that `b`, which becomes coalesced, has, too. */
static cr_tensor *mul_sparse(cr_steps *s, cr_tensor *a, cr_tensor *b)
{
    cr_tensor *found;

    b = cr_step_coalesced(s, b);
    if (s->st)
        return NULL;
    const cr_sparse *p = cr_sparse_of(a), *q = cr_sparse_of(b);
    if (cr_same_indices(a, b))
        return cr_step_coo_like(s, a, p->indices, CR_STEP(s, mul, T(p->values), T(q->values)),
                                p->coalesced);
    cr_tensor *flat = cr_step_flat(s, p->indices, cr_sparse_dims(a), a->size);
    cr_tensor *place = cr_step_find(s, b, flat, &found);
    cr_tensor *kept = cr_step_places(s, found);
    cr_tensor *x = CR_STEP(s, index_select, T(p->values), I(0), T(kept));
    place = CR_STEP(s, index_select, T(place), I(0), T(kept));
    cr_tensor *y = CR_STEP(s, index_select, T(q->values), I(0), T(place));
    cr_tensor *indices = CR_STEP(s, index_select, T(p->indices), I(1), T(kept));
    return cr_step_coo_like(s, a, indices, CR_STEP(s, mul, T(x), T(y)), p->coalesced);
}

static cr_status check_mul(const cr_tensor *a, const cr_tensor *b)
{
    if (same_sizes(a, b) && cr_sparse_dims(a) == cr_sparse_dims(b))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "sparse_binary_op_intersection_cpu(): expects sparse inputs with "
                   "equal dimensionality, number of sparse dimensions, and shape of "
                   "sparse dimensions");
}

/* self, other */
cr_status cr_do_sparse_mul(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *other = arg[1].t, *made;
    cr_steps s = {0};

    if (is_number(&arg[0]) || !cr_is_sparse(self)) { /* other is sparse: a product commutes */
        if (is_number(&arg[1]) || !cr_is_sparse(other))
            return cr_sparse_refuse(cr_entry.mul, arg);
        return cr_do_sparse_mul((cr_value[]){arg[1], arg[0]}, result);
    }
    if (!is_number(&arg[1]) &&
        (cr_sparse_batch(self) || (cr_is_sparse(other) && cr_sparse_batch(other))))
        return cr_sparse_refuse_batch();
    if (is_number(&arg[1]))
        made = with_values(&s, self, CR_STEP(&s, mul, T(cr_sparse_of(self)->values), arg[1]));
    else if (!cr_is_sparse(other))
        made = mul_strided(&s, self, other);
    else if (!cr_is_coo(self)) {
        CR_TRY(check_mul(self, other));
        other = cr_step_as_coo(&s, other);
        made = s.st ? NULL : mul_sparse(&s, cr_step_as_coo(&s, self), other);
        made = cr_step_as_layout(&s, made, self);
    } else {
        CR_TRY(check_mul(self, other));
        other = cr_step_as_coo(&s, other);
        if (s.st)
            return cr_steps_give(&s, result, NULL);
        bool swap = cr_sparse_of(self)->coalesced && !cr_sparse_of(other)->coalesced;
        made = swap ? mul_sparse(&s, other, self) : mul_sparse(&s, self, other);
    }
    return cr_steps_give(&s, result, made);
}

static cr_status refuse_divisor(const cr_value *other)
{
    return cr_fail(CR_RUNTIME,
                   "Sparse division requires a scalar or zero-dim dense tensor divisor (got "
                   "shape %s for divisor)",
                   other->tag == CR_TENSOR ? cr_view_text(other->t) : "");
}

/* An entry on the values and a number. */
static cr_status on_values(const cr_value *arg, cr_value *result, const cr_op *op, int n,
                           bool coalesced)
{
    cr_tensor *self = arg[0].t;
    cr_value call[3] = {0};
    cr_steps s = {0};

    if (!is_number(&arg[1]) || is_number(&arg[0]) || !cr_is_sparse(self))
        return refuse_divisor(&arg[1]);
    if (coalesced && cr_is_coo(self))
        self = cr_step_coalesced(&s, self);
    if (s.st)
        return cr_steps_give(&s, result, NULL);
    memcpy(call, arg, (size_t)n * sizeof *call);
    call[0] = T(cr_sparse_of(self)->values);
    return cr_steps_give(&s, result, with_values(&s, self, cr_step(&s, op, n, call)));
}

cr_status cr_do_sparse_div(const cr_value *arg, cr_value *result)
{
    return on_values(arg, result, cr_entry.div, 2, false);
}

cr_status cr_do_sparse_div_mode(const cr_value *arg, cr_value *result)
{
    return on_values(arg, result, cr_entry.div_Tensor_mode, 3, true);
}

cr_status cr_do_sparse_floor_divide(const cr_value *arg, cr_value *result)
{
    return on_values(arg, result, cr_entry.floor_divide, 2, true);
}

static cr_status read_exponent(double *out, const cr_value *v)
{
    cr_scalar number = v->number;

    if (v->tag == CR_TENSOR)
        CR_TRY(cr_tensor_item(&number, v->t));
    *out = cr_scalar_as_double(number);
    return CR_OK;
}

cr_status cr_do_sparse_pow(const cr_value *arg, cr_value *result)
{
    double exponent;

    if (!is_number(&arg[1]) || is_number(&arg[0]) || !cr_is_sparse(arg[0].t))
        return cr_sparse_refuse(cr_entry.pow, arg);
    CR_TRY(read_exponent(&exponent, &arg[1]));
    if (exponent == 0)
        return cr_fail(CR_RUNTIME,
                       "pow: cannot raise to zeroth power on sparse tensor; it would "
                       "make the result tensor dense");
    return on_values(arg, result, cr_entry.pow, 2, true);
}

/* --- sums --- */

/* Bits of the first n dims, of at most 64. */
static uint64_t first_dims(int n) { return n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0; }

/* Dims to sum as bits; all dims for None and an empty list. */
static cr_status sum_dims(uint64_t *out, const cr_tensor *t, const cr_value *dim)
{
    int64_t d;

    *out = 0;
    if (dim->tag == CR_NONE || !dim->len) {
        *out = first_dims(t->ndim);
        return CR_OK;
    }
    for (uint32_t i = 0; i < dim->len; i++) {
        CR_TRY(cr_wrap_dim(&d, dim->ints[i], t->ndim));
        if (*out >> d & 1)
            return cr_fail(CR_RUNTIME, "dim %lld appears multiple times in the list of dims",
                           (long long)d);
        *out |= (uint64_t)1 << d;
    }
    return CR_OK;
}

/* The values summed over the dense dims among `bits`. */
static cr_tensor *sum_values(cr_steps *s, cr_tensor *t, uint64_t bits, cr_dtype dtype,
                             bool keep)
{
    cr_tensor *values = cast(s, cr_sparse_of(t)->values, dtype);
    int64_t dims[CR_MAX_DIMS];
    int sparse = cr_sparse_dims(t), n = 0;

    for (int d = sparse; d < t->ndim; d++)
        if (bits >> d & 1)
            dims[n++] = d - sparse + 1;
    return n ? CR_STEP(s, sum, T(values), cr_of_ints(dims, (size_t)n), cr_of_bool(keep),
                       cr_of_dtype(dtype))
             : values;
}

/* The indices without, or with zeros in, the rows of the dims among `bits`. */
static cr_tensor *kept_rows(cr_steps *s, const cr_tensor *t, uint64_t bits, bool keep)
{
    cr_tensor *indices = cr_sparse_of(t)->indices;
    cr_value row[CR_MAX_DIMS];
    uint32_t n = 0;

    for (int d = 0; d < cr_sparse_dims(t); d++) {
        bool gone = bits >> d & 1;
        if (gone && !keep)
            continue;
        cr_tensor *r = cr_step_row(s, indices, d);
        row[n++] = T(gone ? CR_STEP(s, zeros_like, T(r)) : r);
    }
    cr_value list = {.tag = CR_TENSORS, .len = n, .list = row};
    return CR_STEP(s, stack, list);
}

static cr_tensor *sum_some(cr_steps *s, cr_tensor *t, uint64_t bits, cr_dtype dtype, bool keep)
{
    int64_t size[CR_MAX_DIMS], first = 0;
    uint64_t sparse = first_dims(cr_sparse_dims(t));
    int n = 0;

    for (int d = 0; d < t->ndim; d++)
        if (keep || !(bits >> d & 1))
            size[n++] = bits >> d & 1 ? 1 : t->size[d];
    cr_tensor *values = sum_values(s, t, bits, dtype, keep);
    if ((bits & sparse) == sparse && !keep) /* no index is left: the result is strided */
        return CR_STEP(s, sum, T(values), cr_of_ints(&first, 1), cr_of_bool(false),
                       cr_of_dtype(dtype));
    cr_tensor *indices = kept_rows(s, t, bits, keep);
    cr_tensor *made = cr_step_coo(s, n, size, indices, values, false);
    return s->st ? NULL : cr_step_coalesced(s, made);
}

/* self, dim, keepdim, dtype */
cr_status cr_do_sparse_sum(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_sparse("sum", arg[0].t));
    cr_tensor *self = arg[0].t;
    cr_dtype own = (cr_dtype)self->dtype;
    bool integral = cr_dtype_category(own) < CR_CAT_FLOAT;
    cr_dtype dtype = (cr_dtype)cr_int_or(&arg[3], integral ? CR_I64 : own);
    cr_steps s = {0};
    uint64_t bits;

    CR_TRY(sum_dims(&bits, self, &arg[1]));
    if (arg[1].tag == CR_NONE || !arg[1].len) {
        cr_value call[] = {T(cr_sparse_of(self)->values), cr_of_none(), cr_of_bool(false),
                           cr_of_dtype(dtype)};
        return cr_call_given(result, cr_entry.sum, call, 4);
    }
    if (!cr_is_coo(self))
        return cr_sparse_refuse(cr_entry.sum, arg);
    return cr_steps_give(&s, result, sum_some(&s, self, bits, dtype, arg[2].i));
}

/* self, dim, dtype */
cr_status cr_do_sparse_sum_sparse(const cr_value *arg, cr_value *result)
{
    return cr_do_sparse_sum((cr_value[]){arg[0], arg[1], cr_of_bool(false), arg[2]}, result);
}

/* grad, self, dim, keepdim: the cotangents of a sum at self's indices */
cr_status cr_do_sparse_sum_backward(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_sparse("_sparse_sum_backward", arg[1].t));
    cr_tensor *grad = arg[0].t, *self = arg[1].t;
    cr_steps s = {0};
    uint64_t bits;

    CR_TRY(sum_dims(&bits, self, &arg[2]));
    grad = CR_STEP(&s, to_dense, T(grad));
    for (int d = 0; d < self->ndim; d++)
        if (bits >> d & 1 && !arg[3].i)
            grad = CR_STEP(&s, unsqueeze, T(grad), I(d));
    grad = CR_STEP(&s, expand, T(grad), cr_of_ints(self->size, self->ndim));
    return cr_steps_give(&s, result, CR_STEP(&s, sparse_mask, T(grad), T(self)));
}

/* --- softmax --- */

/* For each value the number of its group: of values whose indices differ in `dim` only. */
static cr_tensor *groups_of(cr_steps *s, const cr_tensor *t, int dim, int64_t *count)
{
    cr_tensor *indices = cr_sparse_of(t)->indices, *others = indices;
    int64_t size[CR_MAX_DIMS];
    cr_value row[CR_MAX_DIMS];
    uint32_t n = 0;

    for (int d = 0; d < cr_sparse_dims(t); d++)
        if (d != dim) {
            size[n] = t->size[d];
            row[n++] = T(cr_step_row(s, indices, d));
        }
    *count = cr_step_product(s, (int)n, size);
    if (n) {
        cr_value list = {.tag = CR_TENSORS, .len = n, .list = row};
        others = CR_STEP(s, stack, list);
    }
    cr_tensor *flat = cr_step_flat(s, others, (int)n, size);
    cr_tensor *place, *found = cr_step_distinct(s, flat, &place);
    if (s->st)
        return NULL;
    *count = found->size[0];
    return place;
}

/* The sum of the values of each value's group. */
static cr_tensor *group_sum(cr_steps *s, cr_tensor *values, cr_tensor *group, int64_t count)
{
    cr_tensor *sum = cr_step_add_rows(s, values, group, count);

    return CR_STEP(s, index_select, T(sum), I(0), T(group));
}

static cr_tensor *group_max(cr_steps *s, cr_tensor *values, cr_tensor *group, int64_t count)
{
    int64_t size[CR_MAX_DIMS];
    cr_value amax = {.tag = CR_STRING, .len = 4, .s = "amax"};

    if (s->st)
        return NULL;
    memcpy(size, values->size, (size_t)values->ndim * sizeof *size);
    size[0] = count;
    cr_tensor *most = CR_STEP(s, new_zeros, T(values), cr_of_ints(size, values->ndim));
    most =
        CR_STEP(s, index_reduce, T(most), I(0), T(group), T(values), amax, cr_of_bool(false));
    return CR_STEP(s, index_select, T(most), I(0), T(group));
}

static cr_tensor *softmax_of(cr_steps *s, cr_tensor *t, int dim, bool logarithm)
{
    cr_tensor *values = cr_sparse_of(t)->values;
    int sparse = cr_sparse_dims(t);
    int64_t count;

    if (dim >= sparse)
        return logarithm ? CR_STEP(s, log_softmax, T(values), I(dim - sparse + 1))
                         : CR_STEP(s, softmax, T(values), I(dim - sparse + 1));
    cr_tensor *group = groups_of(s, t, dim, &count);
    cr_tensor *moved = CR_STEP(s, sub, T(values), T(group_max(s, values, group, count)));
    cr_tensor *powers = CR_STEP(s, exp, T(moved));
    cr_tensor *sum = group_sum(s, powers, group, count);
    return logarithm ? CR_STEP(s, sub, T(moved), T(CR_STEP(s, log, T(sum))))
                     : CR_STEP(s, div, T(powers), T(sum));
}

static cr_status softmax_entry(const cr_value *arg, cr_value *result, bool logarithm)
{
    const char *name = logarithm ? "log_softmax" : "softmax";
    cr_steps s = {0};
    int64_t dim;

    CR_TRY(cr_expect_coo(name, arg[0].t));
    if (cr_dtype_category((cr_dtype)arg[0].t->dtype) != CR_CAT_FLOAT)
        return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", name,
                       cr_dtype_infos[arg[0].t->dtype].legacy);
    CR_TRY(cr_wrap_dim(&dim, arg[1].i, arg[0].t->ndim));
    cr_tensor *self = cr_step_coalesced(&s, arg[0].t);
    if (s.st)
        return cr_steps_give(&s, result, NULL);
    cr_tensor *values = softmax_of(&s, self, (int)dim, logarithm);
    return cr_steps_give(&s, result, with_values(&s, self, values));
}

/* self, dim */
cr_status cr_do_sparse_softmax(const cr_value *arg, cr_value *result)
{
    return softmax_entry(arg, result, false);
}

cr_status cr_do_sparse_log_softmax(const cr_value *arg, cr_value *result)
{
    return softmax_entry(arg, result, true);
}

/* grad, output, dim, logarithm */
cr_status cr_do_sparse_softmax_backward(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_expect_coo("_sparse_softmax_backward", arg[1].t));
    cr_tensor *output = arg[1].t, *grad = arg[0].t, *sum, *made;
    int64_t dim, count;
    cr_steps s = {0};

    CR_TRY(cr_wrap_dim(&dim, arg[2].i, output->ndim));
    grad = CR_STEP(&s, _sparse_values_like, T(grad), T(output));
    cr_tensor *y = cr_sparse_of(output)->values;
    int sparse = cr_sparse_dims(output);
    cr_tensor *weighed = arg[3].i ? grad : CR_STEP(&s, mul, T(grad), T(y));
    int64_t along = dim - sparse + 1;
    if (dim < sparse) {
        cr_tensor *group = groups_of(&s, output, (int)dim, &count);
        sum = group_sum(&s, weighed, group, count);
    } else {
        sum = CR_STEP(&s, sum, T(weighed), cr_of_ints(&along, 1), cr_of_bool(true));
    }
    if (arg[3].i)
        made =
            CR_STEP(&s, sub, T(grad), T(CR_STEP(&s, mul, T(CR_STEP(&s, exp, T(y))), T(sum))));
    else
        made = CR_STEP(&s, mul, T(CR_STEP(&s, sub, T(grad), T(sum))), T(y));
    return cr_steps_give(&s, result, with_values(&s, output, made));
}
