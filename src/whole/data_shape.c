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
    if (cr_dtype_is_complex((cr_dtype)self->dtype) || cr_dtype_is_float8((cr_dtype)self->dtype))
        return cr_fail(CR_NOT_IMPLEMENTED, "\"unique\" not implemented for '%s'",
                       cr_dtype_infos[self->dtype].legacy);
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

/* The places in v, a vector, that begin a group of equal neighbours; *first is true there. */
static cr_tensor *group_places(cr_steps *s, cr_tensor **first, cr_tensor *v, int64_t n)
{
    static const int64_t flat = -1, before[2] = {1, 0};
    cr_tensor *next = CR_STEP(s, slice_Tensor, T(v), I(0), I(1), I(n), I(1));
    cr_tensor *last = CR_STEP(s, slice_Tensor, T(v), I(0), I(0), I(n - 1), I(1));
    cr_tensor *differ = CR_STEP(s, ne, T(next), T(last));

    *first = CR_STEP(s, constant_pad_nd, T(differ), cr_of_ints(before, 2), number_of(1));
    return CR_STEP(s, reshape, T(CR_STEP(s, nonzero, T(*first))), cr_of_ints(&flat, 1));
}

/* The number of each element's group; order[i] is the element at place i. */
static cr_tensor *group_numbers(cr_steps *s, cr_tensor *self, cr_tensor *first,
                                cr_tensor *order)
{
    cr_tensor *number =
        CR_STEP(s, sub, T(CR_STEP(s, cumsum, T(first), I(0))), number_of(1), number_of(1));

    if (order)
        number = CR_STEP(s, index_copy, T(CR_STEP(s, empty_like, T(number))), I(0), T(order),
                         T(number));
    return CR_STEP(s, reshape, T(number), cr_of_ints(self->size, self->ndim));
}

static cr_status unique_by_steps(cr_value *result, cr_tensor *self, bool sorted, bool inverse,
                                 bool counts)
{
    static const int64_t flat = -1, none = 0, after[2] = {0, 1};
    int64_t n = self->numel;
    cr_steps s = {.st = CR_OK};
    cr_tensor *first, *pair[2] = {NULL, NULL}, *made[3];

    pair[0] = CR_STEP(&s, reshape, T(self), cr_of_ints(&flat, 1));
    if (sorted)
        cr_step_all(&s, pair, cr_entry.sort_stable, 4,
                    (cr_value[]){T(pair[0]), cr_of_bool(true), I(0), cr_of_bool(false)});
    cr_tensor *at = group_places(&s, &first, pair[0], n);
    made[0] = CR_STEP(&s, index_select, T(pair[0]), I(0), T(at));
    made[1] = inverse ? group_numbers(&s, self, first, pair[1])
                      : CR_STEP(&s, new_empty, T(at), cr_of_ints(&none, 1));
    cr_tensor *ends = CR_STEP(&s, constant_pad_nd, T(at), cr_of_ints(after, 2), number_of(n));
    made[2] = counts ? CR_STEP(&s, diff, T(ends))
                     : CR_STEP(&s, new_empty, T(at), cr_of_ints(&none, 1));
    return cr_steps_give_all(&s, result, made, 3);
}

/* True when the elements are not the host's. */
static bool is_elsewhere(const cr_tensor *t)
{
    return cr_has_bytes(t->device) && !cr_is_host(t->device);
}

static cr_status unique_flat(const cr_op *op, const cr_value *arg, cr_value *result,
                             bool sorted, bool inverse, bool counts)
{
    cr_tensor *self = arg[0].t;

    if (!is_elsewhere(self))
        return unique(result, self, NULL, sorted, inverse, counts);
    cr_sizes_of_values = true;
    return self->numel && !cr_dtype_is_complex((cr_dtype)self->dtype) &&
                   cr_remote_has_kernel(cr_entry.nonzero, self->device)
               ? unique_by_steps(result, self, sorted, inverse, counts)
               : cr_remote_whole(op, arg, result, self->device);
}

/* (self, sorted, return_inverse, return_counts) */
cr_status cr_do_unique2(const cr_value *arg, cr_value *result)
{
    return unique_flat(cr_entry._unique2, arg, result, true, arg[2].i, arg[3].i);
}

static cr_status unique_along(const cr_value *arg, int64_t dim, bool sorted, bool inverse,
                              bool counts, cr_value *result)
{
    const cr_tensor *self = arg[0].t;

    CR_TRY(cr_wrap_dim(&dim, dim, self->ndim));
    if (!self->ndim)
        return unique(result, arg[0].t, NULL, sorted, inverse, counts);
    for (int d = 0; d < self->ndim; d++)
        if (d != dim && self->size[d] == 0 && self->size[dim] != 0)
            return cr_fail(CR_RUNTIME,
                           "There are 0 sized dimensions, and they aren't selected, so "
                           "unique cannot be applied");
    return unique(result, arg[0].t, &dim, sorted, inverse, counts);
}

/* (self, dim, sorted, return_inverse, return_counts) */
cr_status cr_do_unique_dim(const cr_value *arg, cr_value *result)
{
    return is_elsewhere(arg[0].t)
               ? cr_remote_whole(cr_entry.unique_dim, arg, result, arg[0].t->device)
               : unique_along(arg, arg[1].i, true, arg[3].i, arg[4].i, result);
}

/* (self, return_inverse, return_counts, dim) */
cr_status cr_do_unique_consecutive(const cr_value *arg, cr_value *result)
{
    if (arg[3].tag == CR_NONE)
        return unique_flat(cr_entry.unique_consecutive, arg, result, false, arg[1].i, arg[2].i);
    if (is_elsewhere(arg[0].t))
        return cr_remote_whole(cr_entry.unique_consecutive, arg, result, arg[0].t->device);
    return unique_along(arg, arg[3].i, false, arg[1].i, arg[2].i, result);
}
