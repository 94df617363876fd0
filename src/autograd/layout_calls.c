/* gather and scatter of layouts (layout.c) as calls: for tensors that only wrap others (a batch
 * or a level of derivatives has no bytes to copy), and where calls are recorded. */
#include "autograd/autograd_impl.h"
#include "entry.h"
#include "tensor/plain.h"
#include <string.h>

static cr_status refuse_wrapped(void)
{
    return cr_fail(CR_RUNTIME, "the derivative of an in-place change of a view, or of a view "
                               "by strides, is not available for tensors that wrap others");
}

static cr_layout with_dtype(const cr_layout *l, cr_dtype dtype)
{
    cr_layout made = *l;

    made.dtype = (uint8_t)dtype;
    made.device = CR_HOST;
    made.conj = made.neg = false;
    return made;
}

static int64_t layout_numel(const cr_layout *l)
{
    int64_t n = 1;

    for (int d = 0; d < l->ndim; d++)
        n *= l->size[d];
    return n;
}

/* Writes 1, 2, ... to the elements of a base in row-major order. */
static cr_status number_elements(cr_tensor *base)
{
    cr_tensor *order = NULL;
    cr_view v;
    cr_status st;

    CR_GO(cr_tensor_new(&order, CR_I64, CR_HOST, base->ndim, base->size));
    CR_GO(cr_reach_view(&v, order));
    for (int64_t i = 0; i < order->numel; i++)
        ((int64_t *)v.data)[i] = i + 1;
    CR_GO(cr_copy_tensor(base, order));
done:
    cr_drop(order);
    return st;
}

/* Numbers become places.  A view by strides may show memory between the base's elements. */
static cr_status numbers_to_places(cr_tensor *t)
{
    cr_view v;

    CR_TRY(cr_reach_view(&v, t));
    for (int64_t i = 0; i < t->numel; i++)
        if (!((int64_t *)v.data)[i]--)
            return refuse_wrapped();
    return CR_OK;
}

/* For each element of the view its place among the base's elements in row-major order. */
static cr_status view_places(cr_tensor **out, const cr_layout *base, const cr_layout *view)
{
    cr_layout b64 = with_dtype(base, CR_I64), v64 = with_dtype(view, CR_I64);
    cr_tensor *b = NULL, *v = NULL, *made = NULL;
    int64_t n = layout_numel(view);
    cr_status st;

    CR_GO(cr_layout_pair(&b, &v, &b64, &v64, true));
    CR_GO(number_elements(b));
    CR_GO(cr_tensor_new(&made, CR_I64, CR_HOST, v->ndim, v->size));
    CR_GO(cr_copy_tensor(made, v));
    CR_GO(numbers_to_places(made));
    cr_value arg[] = {cr_of_tensor(made), cr_of_ints(&n, 1)};
    CR_GO(cr_call_tensor(out, cr_entry.reshape, arg, 2));
done:
    cr_drop(made);
    cr_drop(v);
    cr_drop(b);
    return st;
}

/* Places on the device of the tensors that `of` wraps. */
static cr_status places_beside(cr_tensor **out, const cr_tensor *of, const cr_layout *base,
                               const cr_layout *view)
{
    cr_device device = cr_device_beside(of);
    cr_tensor *host;

    if (base->dtype != view->dtype || base->conj != view->conj || base->neg != view->neg)
        return refuse_wrapped();
    for (int d = 0; d < base->ndim; d++)
        if (!base->stride[d] && base->size[d] > 1)
            return refuse_wrapped();
    CR_TRY(view_places(&host, base, view));
    cr_status st = cr_copy_as(out, host, CR_I64, device, CR_FORMAT_CONTIGUOUS);
    cr_drop(host);
    return st;
}

static cr_status flat(cr_tensor **out, cr_tensor *t)
{
    const int64_t all = -1;
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(&all, 1)};

    return cr_call_tensor(out, cr_entry.reshape, arg, 2);
}

static cr_status shaped(cr_tensor **out, cr_tensor *t, const cr_layout *as)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(as->size, as->ndim)};

    return cr_call_tensor(out, cr_entry.reshape, arg, 2);
}

cr_status cr_layout_gather_called(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                  const cr_layout *view)
{
    cr_tensor *places = NULL, *all = NULL, *picked = NULL;
    cr_status st;

    CR_GO(places_beside(&places, t, base, view));
    CR_GO(flat(&all, t));
    cr_value arg[] = {cr_of_tensor(all), cr_of_int(0), cr_of_tensor(places)};
    CR_GO(cr_call_tensor(&picked, cr_entry.index_select, arg, 3));
    CR_GO(shaped(out, picked, view));
done:
    cr_drop(picked);
    cr_drop(all);
    cr_drop(places);
    return st;
}

cr_status cr_layout_scatter_called(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                   const cr_layout *view)
{
    cr_tensor *places = NULL, *part = NULL, *zeros = NULL, *sum = NULL;
    int64_t n = layout_numel(base);
    cr_status st;

    CR_GO(places_beside(&places, t, base, view));
    CR_GO(flat(&part, t));
    CR_GO(cr_filled_tensor(&zeros, (cr_dtype)base->dtype, cr_device_beside(t), 1, &n,
                           cr_scalar_int(0)));
    cr_value arg[] = {cr_of_tensor(zeros), cr_of_int(0), cr_of_tensor(places),
                      cr_of_tensor(part)};
    const cr_op *put = cr_layout_may_overlap(view->ndim, view->size, view->stride)
                           ? cr_entry.index_add
                           : cr_entry.index_copy;
    CR_GO(cr_call_tensor(&sum, put, arg, 4));
    CR_GO(shaped(out, sum, base));
done:
    cr_drop(sum);
    cr_drop(zeros);
    cr_drop(part);
    cr_drop(places);
    return st;
}
