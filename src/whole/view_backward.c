/* Derivatives of views: cotangents are copied or added to the elements that the view
 * selected. */
#include "space/space.h"
#include "tensor/entries.h"
#include "whole/whole_impl.h"
#include <string.h>

/* --- one piece into zeros --- */

static cr_status zeros(cr_tensor **out, const cr_tensor *like, int ndim, const int64_t *size)
{
    cr_tensor *t;

    CR_TRY(cr_tensor_new(&t, like->dtype, like->device, ndim, size));
    cr_status st = cr_fill(t, cr_scalar_int(0));
    CR_GIVE(st, out, t, cr_drop);
}

/* Refuses a cotangent that does not broadcast to the view. */
static cr_status check_piece(const cr_view *to, const cr_view *from)
{
    return cr_expands(from->ndim, from->size, to->ndim, to->size)
               ? CR_OK
               : cr_fail(CR_RUNTIME, "grad_output has sizes %s, expected %s",
                         cr_view_text(from), cr_view_text(to));
}

/* arg: cotangent, sizes, then the arguments of the map. */
static cr_status put_back(const cr_value *arg, int count, cr_map_fn map, cr_value *result)
{
    cr_value given[CR_MAX_ARGS];
    cr_tensor *whole = NULL;
    cr_geometry g;
    cr_status st;

    CR_TRY(zeros(&whole, arg[0].t, (int)arg[1].len, arg[1].ints));
    given[0] = cr_of_tensor(whole);
    memcpy(given + 1, arg + 2, (size_t)count * sizeof *arg);
    cr_view to = cr_view_of(whole), from = cr_view_of(arg[0].t);
    CR_GO(map(given, &to, &g));
    if (to.data)
        to.data += g.offset * (int64_t)cr_dtype_size(whole->dtype);
    to.ndim = (uint8_t)g.ndim;
    to.size = g.size;
    to.stride = g.stride;
    CR_GO(check_piece(&to, &from));
    CR_GO(cr_copy_elements(&to, &from));
    *result = cr_of_tensor(whole);
    whole = NULL;
done:
    cr_drop(whole);
    return st;
}

cr_status cr_do_select_backward(const cr_value *arg, cr_value *result)
{
    return put_back(arg, 2, cr_map_select, result);
}

cr_status cr_do_slice_backward(const cr_value *arg, cr_value *result)
{
    return put_back(arg, 4, cr_map_slice, result);
}

cr_status cr_do_diagonal_backward(const cr_value *arg, cr_value *result)
{
    return put_back(arg, 3, cr_map_diagonal, result);
}

/* --- any strides --- */

typedef struct {
    int ndim;
    const int64_t *size, *stride;
    int64_t offset;
} layout;

static int64_t end_of(const layout *l)
{
    int64_t last = l->offset;

    if (!cr_numel(l->ndim, l->size))
        return l->offset;
    for (int i = 0; i < l->ndim; i++)
        last += (l->size[i] - 1) * l->stride[i];
    return last + 1;
}

/* The position of each element of the layout in a row that starts at offset `first`; on the
 * host. */
static cr_status positions(cr_tensor **out, const layout *l, int64_t first, bool fake)
{
    int64_t n = cr_numel(l->ndim, l->size), *at;
    cr_tensor *t;

    CR_TRY(cr_tensor_new(&t, CR_I64, fake ? cr_as_fake(CR_HOST) : CR_HOST, 1, &n));
    at = (int64_t *)(void *)t->address;
    for (int64_t i = 0; at && i < n; i++)
        at[i] = l->offset - first +
                cr_broadcast_offset(l->ndim, l->size, l->stride, l->ndim, l->size, i);
    *out = t;
    return CR_OK;
}

/* Zeros of `len` elements, with `values` (of any sizes) added at the layout's positions. */
static cr_status scatter_to_layout(cr_tensor **out, cr_tensor *values, const layout *l,
                                   int64_t first, int64_t len)
{
    const int64_t flat = -1;
    cr_tensor *row = NULL, *here = NULL, *at = NULL, *source = NULL;
    cr_status st;

    CR_GO(zeros(&row, values, 1, &len));
    CR_GO(positions(&here, l, first, !cr_has_bytes(values->device)));
    CR_GO(cr_copy_as(&at, here, CR_I64, values->device, CR_FORMAT_CONTIGUOUS));
    CR_GO(cr_call_tensor(&source, cr_entry.reshape,
                         (cr_value[]){cr_of_tensor(values), cr_of_ints(&flat, 1)}, 2));
    CR_GO(cr_call_tensor(
        out, cr_entry.index_add,
        (cr_value[]){cr_of_tensor(row), cr_of_int(0), cr_of_tensor(at), cr_of_tensor(source)},
        4));
done:
    cr_drop(source);
    cr_drop(at);
    cr_drop(here);
    cr_drop(row);
    return st;
}

static cr_status ones(cr_tensor **out, const cr_tensor *like)
{
    CR_TRY(cr_tensor_new(out, like->dtype, like->device, like->ndim, like->size));
    return cr_fill(*out, cr_scalar_int(1));
}

/* Divides the cotangent of an element that the base has in several places among them. */
static cr_status share_cotangent(cr_tensor **row, const cr_tensor *self, const layout *base,
                                 int64_t first, int64_t len)
{
    cr_tensor *one = NULL, *count = NULL, *shared = NULL;
    cr_status st;

    CR_GO(ones(&one, self));
    CR_GO(scatter_to_layout(&count, one, base, first, len));
    CR_GO(cr_call_tensor(&shared, cr_entry.div,
                         (cr_value[]){cr_of_tensor(*row), cr_of_tensor(count)}, 2));
    cr_drop(*row);
    *row = shared;
done:
    cr_drop(count);
    cr_drop(one);
    return st;
}

/* Whether two elements may have one position.  They have not when each stride, in ascending
 * order, exceeds the reach of all smaller strides. */
static bool may_meet(const layout *l)
{
    int64_t order[CR_MAX_DIMS], reach = 0;
    int n = 0;

    if (!cr_numel(l->ndim, l->size))
        return false;
    for (int i = 0; i < l->ndim; i++) {
        int at = n;
        if (l->size[i] < 2)
            continue;
        for (; at > 0 && l->stride[order[at - 1]] > l->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    for (int i = 0; i < n; i++) {
        if (l->stride[order[i]] <= reach)
            return true;
        reach += (l->size[order[i]] - 1) * l->stride[order[i]];
    }
    return false;
}

static cr_status check_part_layout(const cr_value *size, const cr_value *stride,
                                   const layout *part, const cr_tensor *grad)
{
    uint64_t bytes;

    if (size->len != stride->len)
        return cr_fail(CR_RUNTIME, "mismatch in length of strides and shape");
    if (size->len > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    CR_TRY(
        cr_view_bytes(&bytes, grad->dtype, part->offset, part->ndim, part->size, part->stride));
    if (grad->numel != cr_numel(part->ndim, part->size))
        return cr_fail(CR_RUNTIME, "as_strided_backward: %lld cotangents for %lld elements",
                       (long long)grad->numel, (long long)cr_numel(part->ndim, part->size));
    return CR_OK;
}

cr_status cr_do_as_strided_backward(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[1].t, *row = NULL, *view = NULL;
    layout base = {self->ndim, self->size, self->stride, self->offset};
    layout part = {(int)arg[2].len, arg[2].ints, arg[3].ints, cr_int_or(&arg[4], self->offset)};
    int64_t first = base.offset < part.offset ? base.offset : part.offset, end;
    cr_status st;

    CR_TRY(check_part_layout(&arg[2], &arg[3], &part, arg[0].t));
    end = end_of(&base) > end_of(&part) ? end_of(&base) : end_of(&part);
    CR_GO(scatter_to_layout(&row, arg[0].t, &part, first, end - first));
    if (may_meet(&base))
        CR_GO(share_cotangent(&row, self, &base, first, end - first));
    CR_GO(cr_call_tensor(&view, cr_entry.as_strided,
                         (cr_value[]){cr_of_tensor(row), cr_of_ints(base.size, self->ndim),
                                      cr_of_ints(base.stride, self->ndim),
                                      cr_of_int(base.offset - first)},
                         4));
    *result = cr_of_tensor(view);
done:
    cr_drop(row);
    return st;
}

/* --- expanded tensors that are written --- */

static layout layout_of(const cr_tensor *t)
{
    return (layout){t->ndim, t->size, t->stride, t->offset};
}

cr_status cr_do_memory_of(const cr_value *arg, cr_value *result)
{
    const layout l = layout_of(arg[0].t);
    const int64_t len = end_of(&l) - l.offset, one = 1;

    return cr_call_given(
        result, cr_entry.as_strided,
        (cr_value[]){arg[0], cr_of_ints(&len, 1), cr_of_ints(&one, 1), cr_of_int(l.offset)}, 4);
}

cr_status cr_do_places_of(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *here = NULL, *at = NULL;
    const layout l = layout_of(self);
    cr_status st;

    CR_GO(positions(&here, &l, l.offset, !cr_has_bytes(self->device)));
    CR_GO(cr_copy_as(&at, here, CR_I64, self->device, CR_FORMAT_CONTIGUOUS));
    CR_GO(cr_call_given(result, cr_entry.view,
                        (cr_value[]){cr_of_tensor(at), cr_of_ints(self->size, self->ndim)}, 2));
done:
    cr_drop(at);
    cr_drop(here);
    return st;
}
