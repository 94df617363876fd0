/* Operators whose result sizes depend on elements. */
#include "kern/cpu/order/unique.h"
#include "ops/shape.h"
#include "tensor/remote.h"
#include "whole/steps.h"
#include "whole/whole_impl.h"
#include <string.h>

static cr_status int64_tensor(cr_value *out, cr_tensor *like, int ndim, const int64_t *size)
{
    cr_tensor *t;

    CR_TRY(cr_tensor_new(&t, CR_I64, like->device, ndim, size));
    *out = cr_of_tensor(t);
    return CR_OK;
}

/* Picks the first item of each group from self: elements, or slices along dim. */
static cr_status pick_group_firsts(cr_value *out, cr_tensor *self, const cr_groups *g,
                                   bool slices, int64_t dim)
{
    static const int64_t flat = -1;
    cr_value index, args[2] = {cr_of_tensor(self), cr_of_ints(&flat, 1)}, list[CR_MAX_DIMS];
    cr_tensor *t = NULL, *elements = NULL;
    cr_status st;

    CR_TRY(int64_tensor(&index, self, 1, &g->count));
    cr_groups_describe(g, (int64_t *)(void *)index.t->address, NULL, NULL);
    if (!slices) {
        CR_GO(cr_call_tensor(&elements, cr_entry.reshape, args, 2));
        args[0] = cr_of_tensor(elements);
    }
    for (int64_t d = 0; slices && d < dim; d++)
        list[d] = cr_of_none();
    list[slices ? dim : 0] = index;
    args[1] = (cr_value){.tag = CR_TENSORS, .len = slices ? (uint32_t)dim + 1 : 1};
    args[1].list = list;
    CR_GO(cr_call_tensor(&t, cr_entry.index_Tensor, args, 2));
    *out = cr_of_tensor(t);
done:
    cr_drop(elements);
    cr_drop_values(&index, 1);
    return st;
}

/* Makes the inverse and the counts; those not requested are empty vectors. */
static cr_status make_inverse_and_counts(cr_value *result, cr_tensor *self, const cr_groups *g,
                                         bool slices, bool inverse, bool counts)
{
    static const int64_t none;
    bool whole = inverse && !slices;

    CR_TRY(int64_tensor(&result[1], self, whole ? self->ndim : 1,
                        whole     ? self->size
                        : inverse ? &g->n
                                  : &none));
    CR_TRY(int64_tensor(&result[2], self, 1, counts ? &g->count : &none));
    cr_groups_describe(g, NULL, counts ? (int64_t *)(void *)result[2].t->address : NULL,
                       inverse ? (int64_t *)(void *)result[1].t->address : NULL);
    return CR_OK;
}

static cr_status check_unique_dtype(const cr_tensor *self)
{
    cr_dtype t = (cr_dtype)self->dtype;

    return cr_dtype_is_complex(t) || cr_dtype_is_float8(t)
               ? cr_fail(CR_NOT_IMPLEMENTED, "\"unique\" not implemented for '%s'",
                         cr_dtype_infos[t].legacy)
               : CR_OK;
}

/* Groups elements when dim is NULL, slices along dim when it is not. */
static cr_status unique(cr_value *result, cr_tensor *self, const int64_t *dim, bool sorted,
                        bool inverse, bool counts)
{
    cr_view v = cr_view_of(self);
    cr_groups g = {0};
    cr_status st;

    cr_sizes_of_values = true;
    if (!cr_has_bytes(self->device))
        return cr_fail(CR_RUNTIME, "unique: the size of the result depends on the values");
    CR_TRY(check_unique_dtype(self));
    memset(result, 0, 3 * sizeof *result);
    CR_TRY(dim ? cr_group_slices(&g, &v, *dim, sorted) : cr_group_elements(&g, &v, sorted));
    st = pick_group_firsts(&result[0], self, &g, dim, dim ? *dim : 0);
    if (!st)
        st = make_inverse_and_counts(result, self, &g, dim, inverse, counts);
    cr_groups_drop(&g);
    if (st)
        cr_drop_values(result, 3);
    return st;
}

/* --- on devices that find true elements: calls of other entries --- */

static cr_value number_of(int64_t i)
{
    return (cr_value){.tag = CR_NUMBER, .number = cr_scalar_int(i)};
}

/* The places in v, a vector, that begin a group of equal neighbours; *first is true there.
 * `alone`, unless it is NULL, is true where an element equals no other one. */
static cr_tensor *group_places(cr_steps *s, cr_tensor **first, cr_tensor *v, cr_tensor *alone,
                               int64_t n)
{
    static const int64_t flat = -1, before[2] = {1, 0};
    cr_tensor *next = CR_STEP(s, slice_Tensor, T(v), I(0), I(1), I(n), I(1));
    cr_tensor *last = CR_STEP(s, slice_Tensor, T(v), I(0), I(0), I(n - 1), I(1));
    cr_tensor *differ = CR_STEP(s, ne, T(next), T(last));

    *first = CR_STEP(s, constant_pad_nd, T(differ), cr_of_ints(before, 2), number_of(1));
    if (alone)
        *first = CR_STEP(s, logical_or, T(*first), T(alone));
    return CR_STEP(s, reshape, T(CR_STEP(s, nonzero, T(*first))), cr_of_ints(&flat, 1));
}

/* The number of each element's group; order[i] is the element at place i. */
static cr_tensor *group_numbers(cr_steps *s, cr_tensor *first, cr_tensor *order)
{
    cr_tensor *number =
        CR_STEP(s, sub, T(CR_STEP(s, cumsum, T(first), I(0))), number_of(1), number_of(1));

    return order ? CR_STEP(s, index_copy, T(CR_STEP(s, empty_like, T(number))), I(0), T(order),
                           T(number))
                 : number;
}

typedef struct {
    bool sorted, inverse, counts;
} unique_call;

static cr_tensor *nothing(cr_steps *s, cr_tensor *like)
{
    static const int64_t none = 0;

    return CR_STEP(s, new_empty, T(like), cr_of_ints(&none, 1));
}

/* Groups the elements of the vector `by`: made[0] gets the place of the first one of each
 * group, made[1] the numbers of the elements' groups, made[2] the groups' sizes. */
static void group_by_steps(cr_steps *s, cr_tensor **made, cr_tensor *by, cr_tensor *alone,
                           unique_call c)
{
    static const int64_t after[2] = {0, 1};
    cr_tensor *first, *pair[2] = {by, NULL};
    int64_t n = s->st ? 0 : by->numel;

    if (c.sorted)
        cr_step_all(s, pair, cr_entry.sort_stable, 4,
                    (cr_value[]){T(by), cr_of_bool(true), I(0), cr_of_bool(false)});
    if (c.sorted && alone)
        alone = CR_STEP(s, index_select, T(alone), I(0), T(pair[1]));
    cr_tensor *at = group_places(s, &first, pair[0], alone, n);
    made[0] = c.sorted ? CR_STEP(s, index_select, T(pair[1]), I(0), T(at)) : at;
    made[1] = c.inverse ? group_numbers(s, first, pair[1]) : nothing(s, at);
    cr_tensor *ends = CR_STEP(s, constant_pad_nd, T(at), cr_of_ints(after, 2), number_of(n));
    made[2] = c.counts ? CR_STEP(s, diff, T(ends)) : nothing(s, at);
}

static cr_status unique_by_steps(cr_value *result, cr_tensor *self, unique_call c)
{
    static const int64_t flat = -1;
    cr_steps s = {.st = CR_OK};
    cr_tensor *made[3], *all = CR_STEP(&s, reshape, T(self), cr_of_ints(&flat, 1));

    group_by_steps(&s, made, all, NULL, c);
    made[0] = CR_STEP(&s, index_select, T(all), I(0), T(made[0]));
    if (c.inverse)
        made[1] = CR_STEP(&s, reshape, T(made[1]), cr_of_ints(self->size, self->ndim));
    return cr_steps_give_all(&s, result, made, 3);
}

/* Numbers in the order of the elements, from 0 to *count - 1. */
static cr_tensor *rank_elements(cr_steps *s, cr_tensor *t, int64_t *count)
{
    cr_tensor *made[3] = {NULL};

    cr_step_all(s, made, cr_entry._unique2, 4,
                (cr_value[]){T(t), cr_of_bool(true), cr_of_bool(true), cr_of_bool(false)});
    *count = s->st ? 0 : made[0]->numel;
    return made[1];
}

/* Numbers in the lexicographic order of the rows of t, a matrix: the ranks of two adjacent
 * columns are the digits of one number, whose rank replaces them, until one column is left.
 * NaNs have one rank, the last. */
static cr_tensor *rank_rows(cr_steps *s, cr_tensor *t, cr_tensor *nan)
{
    static const int64_t flat = -1, after[2] = {0, 1};
    int64_t count, m = s->st ? 0 : t->size[1];
    cr_tensor *rank = rank_elements(s, t, &count);

    if (nan)
        rank = CR_STEP(s, masked_fill_Scalar, T(rank), T(nan), number_of(count));
    for (count++; m > 1 && !s->st; m = (m + 1) / 2) {
        if (m % 2)
            rank = CR_STEP(s, constant_pad_nd, T(rank), cr_of_ints(after, 2), number_of(0));
        cr_tensor *high = CR_STEP(s, slice_Tensor, T(rank), I(1), I(0), I(m), I(2));
        cr_tensor *low = CR_STEP(s, slice_Tensor, T(rank), I(1), I(1), I(m + 1), I(2));
        rank = CR_STEP(s, mul, T(high), number_of(count));
        rank = CR_STEP(s, add, T(rank), T(low), number_of(1));
        if (m > 2)
            rank = rank_elements(s, rank, &count);
    }
    return CR_STEP(s, reshape, T(rank), cr_of_ints(&flat, 1));
}

static cr_status unique_rows_by_steps(cr_value *result, cr_tensor *self, int64_t dim,
                                      unique_call c)
{
    static const int64_t one = 1;
    const int64_t size[2] = {self->size[dim], -1};
    cr_steps s = {.st = CR_OK};
    cr_tensor *made[3], *nan = NULL, *alone = NULL;
    cr_tensor *rows = CR_STEP(&s, movedim_int, T(self), I(dim), I(0));

    rows = CR_STEP(&s, reshape, T(rows), cr_of_ints(size, 2));
    if (cr_dtype_category((cr_dtype)self->dtype) == CR_CAT_FLOAT) {
        nan = CR_STEP(&s, isnan, T(rows));
        alone = CR_STEP(&s, any, T(nan), cr_of_ints(&one, 1));
    }
    group_by_steps(&s, made, rank_rows(&s, rows, nan), alone, c);
    made[0] = CR_STEP(&s, index_select, T(self), I(dim), T(made[0]));
    return cr_steps_give_all(&s, result, made, 3);
}

static cr_status unique_of_nothing(cr_value *result, cr_tensor *self, bool rows, unique_call c)
{
    static const int64_t none = 0;
    bool sizes = c.inverse && !rows;

    cr_tensor *t;
    cr_status st;

    memset(result, 0, 3 * sizeof *result);
    CR_TRY(cr_tensor_new(&t, (cr_dtype)self->dtype, self->device, rows ? self->ndim : 1,
                         rows ? self->size : &none));
    result[0] = cr_of_tensor(t);
    st = int64_tensor(&result[1], self, sizes ? self->ndim : 1, sizes ? self->size : &none);
    if (!st)
        st = int64_tensor(&result[2], self, 1, &none);
    if (st)
        cr_drop_values(result, 3);
    return st;
}

/* True when the elements are not the host's. */
static bool is_elsewhere(const cr_tensor *t)
{
    return cr_has_bytes(t->device) && !cr_is_host(t->device);
}

/* Ranks of pairs are products of two numbers of elements. */
enum { UNIQUE_MOST = INT32_MAX };

/* Groups elements when dim is NULL, slices along dim when it is not; on the device, where it
 * finds true elements. */
static cr_status unique_anywhere(const cr_op *op, const cr_value *arg, const int64_t *dim,
                                 unique_call c, cr_value *result)
{
    cr_tensor *self = arg[0].t;

    if (!is_elsewhere(self))
        return unique(result, self, dim, c.sorted, c.inverse, c.counts);
    cr_sizes_of_values = true;
    CR_TRY(check_unique_dtype(self));
    if (!self->numel)
        return unique_of_nothing(result, self, dim != NULL, c);
    if (!cr_remote_has_kernel(cr_entry.nonzero, self->device) ||
        (dim && self->numel > UNIQUE_MOST))
        return cr_remote_whole(op, arg, result, self->device);
    return dim ? unique_rows_by_steps(result, self, *dim, c) : unique_by_steps(result, self, c);
}

/* (self, sorted, return_inverse, return_counts) */
cr_status cr_do_unique2(const cr_value *arg, cr_value *result)
{
    return unique_anywhere(cr_entry._unique2, arg, NULL,
                           (unique_call){true, arg[2].i, arg[3].i}, result);
}

/* Lays the slices along dim one after another in memory, each of them row-major. */
static cr_status lay_out_slices(cr_value *v, int64_t dim)
{
    const cr_tensor *t = v->t;
    int64_t stride[CR_MAX_DIMS], step = 1;
    cr_tensor *laid;

    for (int d = t->ndim - 1; d >= 0; d--) {
        stride[d] = d == dim ? 0 : step;
        step = d == dim ? step : cr_step_over(step, t->size[d]);
    }
    stride[dim] = step;
    if (!t->numel || !memcmp(stride, t->stride, t->ndim * sizeof *stride))
        return CR_OK;
    CR_TRY(
        cr_tensor_new_strided(&laid, (cr_dtype)t->dtype, t->device, t->ndim, t->size, stride));
    cr_status st = cr_copy_tensor(laid, v->t);
    if (st) {
        cr_drop(laid);
        return st;
    }
    cr_drop(v->t);
    v->t = laid;
    return CR_OK;
}

static cr_status unique_along(const cr_op *op, const cr_value *arg, int64_t dim, unique_call c,
                              cr_value *result)
{
    const cr_tensor *self = arg[0].t;

    CR_TRY(cr_wrap_dim(&dim, dim, self->ndim));
    for (int d = 0; d < self->ndim; d++)
        if (d != dim && self->size[d] == 0 && self->size[dim] != 0)
            return cr_fail(CR_RUNTIME,
                           "There are 0 sized dimensions, and they aren't selected, so "
                           "unique cannot be applied");
    CR_TRY(unique_anywhere(op, arg, self->ndim ? &dim : NULL, c, result));
    cr_status st = self->ndim ? lay_out_slices(&result[0], dim) : CR_OK;
    if (st)
        cr_drop_values(result, 3);
    return st;
}

/* (self, dim, sorted, return_inverse, return_counts): as in torch, the last two are not
 * read. */
cr_status cr_do_unique_dim(const cr_value *arg, cr_value *result)
{
    return unique_along(cr_entry.unique_dim, arg, arg[1].i, (unique_call){true, 1, 1}, result);
}

/* (self, return_inverse, return_counts, dim) */
cr_status cr_do_unique_consecutive(const cr_value *arg, cr_value *result)
{
    unique_call c = {false, arg[1].i, arg[2].i};

    return arg[3].tag == CR_NONE
               ? unique_anywhere(cr_entry.unique_consecutive, arg, NULL, c, result)
               : unique_along(cr_entry.unique_consecutive, arg, arg[3].i, c, result);
}
