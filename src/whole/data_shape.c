/* Operators whose result sizes depend on elements. */
#include "kern/cpu/order/unique.h"
#include "ops/shape.h"
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

/* (self, sorted, return_inverse, return_counts) */
cr_status cr_do_unique2(const cr_value *arg, cr_value *result)
{
    return unique(result, arg[0].t, NULL, true, arg[2].i, arg[3].i);
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
    return unique_along(arg, arg[1].i, true, arg[3].i, arg[4].i, result);
}

/* (self, return_inverse, return_counts, dim) */
cr_status cr_do_unique_consecutive(const cr_value *arg, cr_value *result)
{
    if (arg[3].tag == CR_NONE)
        return unique(result, arg[0].t, NULL, false, arg[1].i, arg[2].i);
    return unique_along(arg, arg[3].i, false, arg[1].i, arg[2].i, result);
}
