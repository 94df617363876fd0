/* Copies, conversions, fills, single elements: operators that tensor functions do whole. */
#include "whole/whole_impl.h"
#include <math.h>
#include <string.h>

static cr_status give(cr_value *result, cr_tensor *t)
{
    *result = cr_of_tensor(cr_keep(t));
    return CR_OK;
}

/* self was written. */
static cr_status give_changed(cr_value *result, cr_tensor *self)
{
    self->storage->version++;
    return give(result, self);
}

/* --- copies --- */

static cr_status copy_to_result(cr_value *result, const cr_tensor *t, cr_dtype dtype,
                                cr_device device, int64_t format)
{
    cr_tensor *made;

    CR_TRY(cr_copy_as(&made, t, dtype, device, format));
    *result = cr_of_tensor(made);
    return CR_OK;
}

cr_status cr_do_clone(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;

    return copy_to_result(result, t, t->dtype, t->device,
                          cr_int_or(&arg[1], CR_FORMAT_PRESERVE));
}

cr_status cr_do_clone_strided(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    const int64_t step = 1;
    cr_tensor *made = NULL;
    cr_status st;

    CR_GO(cr_tensor_new_strided(&made, (cr_dtype)t->dtype, t->device, t->ndim, t->size,
                                t->stride));
    int64_t reach = (int64_t)(made->storage->size / cr_dtype_size((cr_dtype)t->dtype));
    cr_view to = cr_view_of(made), from = cr_view_of(t);
    to.ndim = from.ndim = 1;
    to.size = from.size = &reach;
    to.stride = from.stride = &step;
    CR_GO(cr_copy_elements(&to, &from));
    *result = cr_of_tensor(made);
    made = NULL;
done:
    cr_drop(made);
    return st;
}

cr_status cr_do_plain_copy(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;

    return copy_to_result(result, t, t->dtype, t->device, CR_FORMAT_CONTIGUOUS);
}

cr_status cr_do_contiguous(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    int64_t format = arg[1].i, stride[CR_MAX_DIMS];

    if (format == CR_FORMAT_PRESERVE)
        return give(result, t);
    if (t->contiguous && format == CR_FORMAT_CONTIGUOUS)
        return give(result, t);
    CR_TRY(cr_format_strides(format, t->ndim, t->size, stride));
    if (cr_has_format(format, t->ndim, t->size, t->stride))
        return give(result, t);
    cr_value wanted = {.tag = CR_FORMAT_VAL, .i = format};
    return cr_call_given(result, cr_entry.clone, (cr_value[]){arg[0], wanted}, 2);
}

/* Differentiable through `_to_dtype`, so that an unchanged tensor stays itself. */
cr_status cr_do_to_dtype(const cr_value *arg, cr_value *result)
{

    if (arg[0].t->dtype == arg[1].i)
        return give(result, arg[0].t);
    return cr_call_given(result, cr_entry._to_dtype, arg, 2);
}

cr_status cr_do_cast(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;

    return copy_to_result(result, t, (cr_dtype)arg[1].i, t->device, CR_FORMAT_PRESERVE);
}

/* self, dtype, layout, device, pin_memory, non_blocking, memory_format */
cr_status cr_do_to_copy(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_device device = t->device;

    if (arg[3].tag != CR_NONE)
        CR_TRY(cr_device_to_copy_to(&device, arg[3].i));
    device.fake |= t->device.fake || cr_thread.fakes;
    return copy_to_result(result, t, (cr_dtype)cr_int_or(&arg[1], t->dtype), device,
                          cr_int_or(&arg[6], CR_FORMAT_PRESERVE));
}

/* Whether `from` broadcasts to exactly the sizes of `to`. */
static bool fills(const cr_tensor *to, const cr_tensor *from)
{
    int shift = to->ndim - from->ndim;

    if (shift < 0)
        return false;
    for (int i = 0; i < from->ndim; i++)
        if (from->size[i] != 1 && from->size[i] != to->size[i + shift])
            return false;
    return true;
}

static CR_NOINLINE cr_status refuse_source(const cr_value *arg)
{
    const cr_tensor *to = arg[0].t;
    cr_shape shape = {0};
    cr_text have = {0}, want = {0};

    CR_TRY(cr_broadcast(&shape, arg, 2));
    cr_print_sizes(&have, to->ndim, to->size);
    cr_print_sizes(&want, shape.ndim, shape.size);
    cr_fail(CR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
            cr_text_str(&have), cr_text_str(&want));
    cr_text_drop(&want);
    cr_text_drop(&have);
    return CR_RUNTIME;
}

static cr_status refuse_repeated(void)
{
    return cr_fail(
        CR_RUNTIME,
        "unsupported operation: more than one element of the written-to "
        "tensor refers to a single memory location. Please clone() the tensor before "
        "performing the operation.");
}

cr_status cr_do_copy(const cr_value *arg, cr_value *result)
{
    cr_tensor *to = arg[0].t;
    const cr_tensor *from = arg[1].t;

    if (!fills(to, from))
        return refuse_source(arg);
    if (cr_has_internal_overlap(to))
        return refuse_repeated();
    CR_TRY(cr_check_copy(to, from));
    cr_view t = cr_view_of(to), f = cr_view_of(from);
    CR_TRY(cr_copy_elements(&t, &f));
    return give_changed(result, to);
}

/* --- fills --- */

static const char *c_type_name(cr_dtype t)
{
    static const char *const names[CR_DTYPE_COUNT] = {[CR_BOOL] = "bool",
                                                      [CR_U8] = "uint8_t",
                                                      [CR_I8] = "int8_t",
                                                      [CR_I16] = "int16_t",
                                                      [CR_I32] = "int",
                                                      [CR_I64] = "int64_t",
                                                      [CR_F16] = "c10::Half",
                                                      [CR_BF16] = "c10::BFloat16",
                                                      [CR_F32] = "float",
                                                      [CR_F64] = "double",
                                                      [CR_C64] = "c10::complex<float>",
                                                      [CR_C128] = "c10::complex<double>"};
    return names[t];
}

cr_status cr_check_fits(cr_scalar value, cr_dtype dtype)
{
    if (CR_LIKELY(cr_scalar_fits(value, dtype)))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "value cannot be converted to type %s without overflow",
                   c_type_name(dtype));
}

cr_status cr_fill(cr_tensor *t, cr_scalar value)
{
    cr_view v = cr_view_of(t);

    return t->data ? cr_fill_elements(&v, value) : CR_OK;
}

cr_status cr_do_fill(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_check_fits(arg[1].number, arg[0].t->dtype));
    CR_TRY(cr_fill(arg[0].t, arg[1].number));
    return give_changed(result, arg[0].t);
}

cr_status cr_do_fill_tensor(const cr_value *arg, cr_value *result)
{
    cr_view to = cr_view_of(arg[0].t), value = cr_view_of(arg[1].t);

    if (value.ndim)
        return cr_fail(CR_RUNTIME,
                       "fill_ only supports 0-dimension value tensor but got tensor "
                       "with %d dimensions.",
                       value.ndim);
    CR_TRY(cr_check_copy(arg[0].t, arg[1].t));
    CR_TRY(cr_copy_elements(&to, &value));
    return give_changed(result, arg[0].t);
}

cr_status cr_do_zero(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_fill(arg[0].t, cr_scalar_int(0)));
    return give_changed(result, arg[0].t);
}

/* --- other bytes for self --- */

static cr_status check_no_grad(const cr_tensor *t)
{
    if (t->requires_grad)
        return cr_fail(CR_RUNTIME, "cannot resize variables that require grad");
    return CR_OK;
}

static cr_status resize_self(cr_tensor *t, int ndim, const int64_t *size, int64_t format,
                             cr_value *result)
{
    int64_t stride[CR_MAX_DIMS];

    CR_TRY(check_no_grad(t));
    if (ndim > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    if (format == CR_FORMAT_PRESERVE)
        return cr_fail(CR_RUNTIME, "Unsupported memory formatPreserve");
    CR_TRY(cr_format_strides(format, ndim, size, stride));
    CR_TRY(cr_tensor_resize(t, ndim, size, stride));
    return give_changed(result, t);
}

cr_status cr_do_resize(const cr_value *arg, cr_value *result)
{
    return resize_self(arg[0].t, (int)arg[1].len, arg[1].ints,
                       cr_int_or(&arg[2], CR_FORMAT_CONTIGUOUS), result);
}

cr_status cr_do_resize_as(const cr_value *arg, cr_value *result)
{
    const cr_tensor *as = arg[1].t;
    int64_t format = cr_int_or(&arg[2], CR_FORMAT_CONTIGUOUS);

    if (format == CR_FORMAT_PRESERVE)
        format = cr_is_channels_last(as) && !as->contiguous ? CR_FORMAT_CHANNELS_LAST
                                                            : CR_FORMAT_CONTIGUOUS;
    return resize_self(arg[0].t, as->ndim, as->size, format, result);
}

cr_status cr_do_set_tensor(const cr_value *arg, cr_value *result)
{
    if (arg[0].t->dtype != arg[1].t->dtype)
        return cr_fail(CR_RUNTIME, "Could not set tensor of type %s to a tensor of type %s",
                       cr_dtype_name(arg[1].t->dtype), cr_dtype_name(arg[0].t->dtype));
    CR_TRY(cr_tensor_set_from(arg[0].t, arg[1].t));
    return give(result, arg[0].t);
}

cr_status cr_do_set_empty(const cr_value *arg, cr_value *result)
{
    cr_tensor *none, *self = arg[0].t;
    const int64_t size = 0;

    CR_TRY(cr_tensor_new(&none, self->dtype, self->device, 1, &size));
    cr_status st = cr_tensor_set_from(self, none);
    cr_drop(none);
    return st ? st : give(result, self);
}

/* --- tensors to values --- */

cr_status cr_do_item(const cr_value *arg, cr_value *result)
{
    cr_scalar s;

    CR_TRY(cr_tensor_item(&s, arg[0].t));
    *result = cr_of_number(s);
    return CR_OK;
}

static bool scalar_is_nonzero(cr_scalar s)
{
    cr_complex c = cr_scalar_as_complex(s);

    return c.re != 0 || c.im != 0;
}

cr_status cr_do_is_nonzero(const cr_value *arg, cr_value *result)
{
    cr_scalar s;

    if (arg[0].t->numel != 1)
        return cr_fail(CR_RUNTIME, "Boolean value of Tensor with %s is ambiguous",
                       arg[0].t->numel ? "more than one value" : "no values");
    CR_TRY(cr_tensor_item(&s, arg[0].t));
    *result = cr_of_bool(scalar_is_nonzero(s));
    return CR_OK;
}

cr_status cr_do_is_same_size(const cr_value *arg, cr_value *result)
{
    *result = cr_of_bool(cr_has_sizes(arg[0].t, arg[1].t->ndim, arg[1].t->size));
    return CR_OK;
}

cr_status cr_do_is_set_to(const cr_value *arg, cr_value *result)
{
    const cr_tensor *a = arg[0].t, *b = arg[1].t;
    bool same =
        a->storage == b->storage && a->offset == b->offset && cr_has_sizes(a, b->ndim, b->size);

    *result = cr_of_bool(same && !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride));
    return CR_OK;
}

static cr_status all_true(const cr_tensor *t, cr_value *result)
{
    cr_tensor *plain = NULL;

    if (!t->data && t->numel)
        return cr_fail(CR_NOT_IMPLEMENTED, "meta tensors have no values to compare");
    CR_TRY(cr_is_host(t->device)
               ? cr_contiguous_plain(&plain, (cr_tensor *)t)
               : cr_copy_as(&plain, t, t->dtype, CR_HOST, CR_FORMAT_CONTIGUOUS));
    bool some_false = plain->numel && memchr(plain->data, 0, (size_t)plain->numel);
    *result = cr_of_bool(!some_false);
    cr_drop(plain);
    return CR_OK;
}

cr_status cr_do_equal(const cr_value *arg, cr_value *result)
{
    cr_tensor *same = NULL;

    if (!cr_has_sizes(arg[0].t, arg[1].t->ndim, arg[1].t->size)) {
        *result = cr_of_bool(false);
        return CR_OK;
    }
    CR_TRY(cr_call_tensor(&same, cr_entry.eq, arg, 2));
    cr_status st = all_true(same, result);
    cr_drop(same);
    return st;
}

cr_status cr_do_allclose(const cr_value *arg, cr_value *result)
{
    cr_tensor *close = NULL;

    CR_TRY(cr_call_tensor(&close, cr_entry.isclose, arg, 5));
    cr_status st = all_true(close, result);
    cr_drop(close);
    return st;
}

/* --- sums --- */

static cr_status refuse_reduction(const cr_tensor *t, int ndim, const int64_t *size)
{
    cr_text want = {0}, have = {0};

    cr_print_sizes(&want, ndim, size);
    cr_print_sizes(&have, t->ndim, t->size);
    cr_fail(CR_RUNTIME, "size {%s} is not expandable to size {%s}.", cr_text_str(&want),
            cr_text_str(&have));
    cr_text_drop(&have);
    cr_text_drop(&want);
    return CR_RUNTIME;
}

/* The dims to sum over; -1 when `size` does not broadcast to t's. */
static int dims_to_sum(const cr_tensor *t, int ndim, const int64_t *size, int64_t *dims)
{
    int shift = t->ndim - ndim, n = 0;

    if (shift < 0)
        return -1;
    for (int i = 0; i < t->ndim; i++) {
        if (i >= shift && size[i - shift] != 1 && size[i - shift] != t->size[i])
            return -1;
        if (i < shift || (size[i - shift] == 1 && t->size[i] != 1))
            dims[n++] = i;
    }
    return n;
}

cr_status cr_reduce_to_size(cr_tensor **out, cr_tensor *t, int ndim, const int64_t *size)
{
    int64_t dims[CR_MAX_DIMS];
    int n = dims_to_sum(t, ndim, size, dims);
    cr_tensor *summed = NULL;

    if (n < 0)
        return refuse_reduction(t, ndim, size);
    if (n == 0) {
        *out = cr_keep(t);
        return CR_OK;
    }
    cr_value arg[4] = {cr_of_tensor(t), cr_of_ints(dims, (size_t)n), cr_of_bool(true),
                       cr_of_dtype((cr_dtype)t->dtype)};
    CR_TRY(cr_call_tensor(&summed, cr_entry.sum, arg, 4));
    if (summed->ndim == ndim) {
        *out = summed;
        return CR_OK;
    }
    cr_status st =
        cr_call_tensor(out, cr_entry.reshape,
                       (cr_value[]){cr_of_tensor(summed), cr_of_ints(size, (size_t)ndim)}, 2);
    cr_drop(summed);
    return st;
}

cr_status cr_do_sum_to_size(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t, *from = NULL, *made = NULL;
    int64_t dims[CR_MAX_DIMS];
    cr_status st;

    /* like sum, integers that are added become int64 */
    if (cr_dtype_category(t->dtype) < CR_CAT_FLOAT &&
        dims_to_sum(t, (int)arg[1].len, arg[1].ints, dims) > 0)
        CR_TRY(cr_call_tensor(&from, cr_entry.to_dtype,
                              (cr_value[]){arg[0], cr_of_dtype(CR_I64)}, 2));
    st = cr_reduce_to_size(&made, from ? from : t, (int)arg[1].len, arg[1].ints);
    cr_drop(from);
    if (!st)
        *result = cr_of_tensor(made);
    return st;
}

/* --- nan_to_num --- */

static double largest_of(cr_dtype t)
{
    switch (t) {
    case CR_F16: return 65504.0;
    case CR_BF16: return 0x1.fep127;
    case CR_F64:
    case CR_C128: return 0x1.fffffffffffffp1023;
    default: return 0x1.fffffep127;
    }
}

typedef struct {
    cr_dtype dtype;
    double nan, high, low;
} replacement;

static double replaced(const replacement *r, double x)
{
    return isnan(x) ? r->nan : isinf(x) ? (x > 0 ? r->high : r->low) : x;
}

/* n floats (or halves of complex numbers) in place. */
static void replace(const replacement *r, char *data, int64_t n)
{
    size_t item = cr_dtype_size(r->dtype);

    for (int64_t i = 0; i < n; i++) {
        char *at = data + (size_t)i * item;
        double x = cr_scalar_load(r->dtype, at).d;
        if (!isfinite(x))
            cr_scalar_store(cr_scalar_float(replaced(r, x)), r->dtype, at);
    }
}

cr_status cr_do_nan_to_num(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    double most = largest_of(t->dtype);
    replacement r = {cr_dtype_real(t->dtype), arg[1].tag == CR_NONE ? 0 : arg[1].d,
                     arg[2].tag == CR_NONE ? most : arg[2].d,
                     arg[3].tag == CR_NONE ? -most : arg[3].d};

    CR_TRY(copy_to_result(result, t, t->dtype, t->device, CR_FORMAT_PRESERVE));
    if (cr_dtype_is_inexact(t->dtype) && result->t->data)
        replace(&r, result->t->data, t->numel * (1 + cr_dtype_is_complex(t->dtype)));
    return CR_OK;
}
