/* Making tensors: empty, zeros, ones, full and similar entries. */
#include "whole/whole_impl.h"

/* The options of a factory, read from `dtype, layout, device, pin_memory`. */
typedef struct {
    cr_dtype dtype;
    cr_device device;
} options;

static cr_status take_options(const cr_value *arg, cr_dtype dtype, cr_device device,
                              options *out)
{
    out->dtype = (cr_dtype)cr_int_or(&arg[0], dtype);
    out->device = device;
    if (arg[2].tag != CR_NONE)
        CR_TRY(cr_device_named(&out->device, arg[2].i));
    out->device.fake |= device.fake || cr_thread.fakes;
    if (cr_int_or(&arg[1], 0) != 0)
        return cr_fail(CR_RUNTIME, "full(...) is not implemented for sparse layout");
    if (cr_int_or(&arg[3], 0))
        return cr_fail(CR_RUNTIME,
                       "pin_memory=True requires a CUDA or other accelerator backend; "
                       "no pinned memory allocator is available on this system.");
    return CR_OK;
}

/* Whether the options `dtype, layout, device, pin_memory` ask for a sparse layout. */
static bool wants_sparse(const cr_value *option) { return cr_int_or(&option[1], 0) != 0; }

/* A sparse tensor without values. */
static cr_status make_sparse(cr_value *result, const cr_value *size, cr_dtype dtype,
                             const cr_value *option)
{
    cr_value arg[] = {*size, cr_of_dtype((cr_dtype)cr_int_or(&option[0], dtype)), option[1],
                      option[2]};

    return cr_call_given(result, cr_entry._sparse_empty, arg, 4);
}

static cr_status make_by_options(cr_value *result, const options *o, const cr_value *size,
                                 int64_t format)
{
    int64_t stride[CR_MAX_DIMS];
    cr_tensor *t;

    if (format == CR_FORMAT_PRESERVE)
        return cr_fail(CR_RUNTIME, "unsupported memory format Preserve");
    if (format == CR_FORMAT_CONTIGUOUS) {
        CR_TRY(cr_tensor_new(&t, o->dtype, o->device, (int)size->len, size->ints));
    } else {
        CR_TRY(cr_format_strides(format, (int)size->len, size->ints, stride));
        CR_TRY(
            cr_tensor_new_strided(&t, o->dtype, o->device, (int)size->len, size->ints, stride));
    }
    *result = cr_of_tensor(t);
    return CR_OK;
}

static cr_status make_strided(cr_value *result, const options *o, const cr_value *size,
                              const cr_value *stride)
{
    cr_tensor *t;

    if (size->len != stride->len)
        return cr_fail(CR_RUNTIME,
                       "dimensionality of sizes (%u) must match dimensionality of "
                       "strides (%u)",
                       size->len, stride->len);
    CR_TRY(cr_tensor_new_strided(&t, o->dtype, o->device, (int)size->len, size->ints,
                                 stride->ints));
    *result = cr_of_tensor(t);
    return CR_OK;
}

/* Fills a result; drops it on failure. */
static cr_status filled(cr_value *result, cr_scalar value)
{
    cr_status st = cr_fill(result->t, value);

    if (st)
        cr_drop_values(result, 1);
    return st;
}

static cr_status make_filled(cr_value *result, const options *o, const cr_value *size,
                             cr_scalar value)
{
    CR_TRY(cr_check_fits(value, o->dtype));
    CR_TRY(make_by_options(result, o, size, CR_FORMAT_CONTIGUOUS));
    return filled(result, value);
}

/* The dtype of a tensor that is made from a number without a dtype. */
/* size, dtype, layout, device, pin_memory, memory_format */
cr_status cr_do_empty(const cr_value *arg, cr_value *result)
{
    options o;

    if (wants_sparse(arg + 1))
        return make_sparse(result, &arg[0], cr_default_dtype(), arg + 1);
    CR_TRY(take_options(arg + 1, cr_default_dtype(), cr_thread.device, &o));
    return make_by_options(result, &o, &arg[0], cr_int_or(&arg[5], CR_FORMAT_CONTIGUOUS));
}

/* size, stride, options */
cr_status cr_do_empty_strided(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(take_options(arg + 2, cr_default_dtype(), cr_thread.device, &o));
    return make_strided(result, &o, &arg[0], &arg[1]);
}

static cr_status check_order(const cr_value *size, const cr_value *order)
{
    uint64_t seen = 0;

    if (size->len != order->len)
        return cr_fail(
            CR_RUNTIME,
            "Number of dimensions in size does not match the length of the "
            "physical_layout; i.e. len(size) = %u is not equal to len(physical_layout) "
            "= %u",
            size->len, order->len);
    for (uint32_t i = 0; i < order->len; i++) {
        int64_t dim = order->ints[i];
        if (dim < 0 || dim >= (int64_t)order->len || dim >= CR_MAX_DIMS)
            return cr_fail(
                CR_RUNTIME,
                "Dimension out of range (expected to be between 0 and %u, "
                "but got %lld at index %u).  NB: negative dims not currently supported; "
                "file an issue if you want it.",
                order->len - 1, (long long)dim, i);
        if (seen >> dim & 1)
            return cr_fail(CR_RUNTIME, "Duplicate dim not allowed");
        seen |= (uint64_t)1 << dim;
    }
    return CR_OK;
}

/* size, physical_layout, options */
cr_status cr_do_empty_permuted(const cr_value *arg, cr_value *result)
{
    int64_t stride[CR_MAX_DIMS], step = 1;
    options o;

    CR_TRY(take_options(arg + 2, cr_default_dtype(), cr_thread.device, &o));
    CR_TRY(check_order(&arg[0], &arg[1]));
    for (uint32_t i = arg[1].len; i-- > 0;) {
        int64_t dim = arg[1].ints[i], size = arg[0].ints[dim];
        stride[dim] = step;
        if (size > 1 && CR_MUL_OVERFLOW(step, size, &step))
            step = INT64_MAX;
    }
    cr_value strides = cr_of_ints(stride, arg[0].len);
    return make_strided(result, &o, &arg[0], &strides);
}

/* size, options */
cr_status cr_do_zeros(const cr_value *arg, cr_value *result)
{
    options o;

    if (wants_sparse(arg + 1))
        return make_sparse(result, &arg[0], cr_default_dtype(), arg + 1);
    CR_TRY(take_options(arg + 1, cr_default_dtype(), cr_thread.device, &o));
    return make_filled(result, &o, &arg[0], cr_scalar_int(0));
}

cr_status cr_do_ones(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(take_options(arg + 1, cr_default_dtype(), cr_thread.device, &o));
    return make_filled(result, &o, &arg[0], cr_scalar_int(1));
}

/* size, fill_value, options */
cr_status cr_do_full(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(
        take_options(arg + 2, cr_number_dtype(arg[1].number.category), cr_thread.device, &o));
    return make_filled(result, &o, &arg[0], arg[1].number);
}

/* s, options */
cr_status cr_do_scalar_tensor(const cr_value *arg, cr_value *result)
{
    cr_value none = cr_of_ints(NULL, 0);
    options o;

    CR_TRY(take_options(arg + 1, cr_default_dtype(), cr_thread.device, &o));
    return make_filled(result, &o, &none, arg[0].number);
}

/* --- like another tensor: self, options, memory_format --- */

static cr_status make_like(cr_value *result, const cr_value *self, const cr_value *more)
{
    const cr_tensor *like = self->t;
    cr_tensor *t;
    options o;

    CR_TRY(take_options(more, like->dtype, like->device, &o));
    CR_TRY(cr_new_like(&t, like, o.dtype, o.device, cr_int_or(&more[4], CR_FORMAT_PRESERVE)));
    *result = cr_of_tensor(t);
    return CR_OK;
}

static cr_status make_sparse_like(cr_value *result, const cr_value *arg)
{
    const cr_tensor *t = arg[0].t;
    cr_value size = cr_of_ints(t->size, t->ndim);

    return make_sparse(result, &size, (cr_dtype)t->dtype, arg + 1);
}

cr_status cr_do_empty_like(const cr_value *arg, cr_value *result)
{
    if (wants_sparse(arg + 1))
        return make_sparse_like(result, arg);
    return make_like(result, &arg[0], arg + 1);
}

cr_status cr_do_zeros_like(const cr_value *arg, cr_value *result)
{
    if (wants_sparse(arg + 1))
        return make_sparse_like(result, arg);
    CR_TRY(make_like(result, &arg[0], arg + 1));
    return filled(result, cr_scalar_int(0));
}

cr_status cr_do_ones_like(const cr_value *arg, cr_value *result)
{
    CR_TRY(make_like(result, &arg[0], arg + 1));
    return filled(result, cr_scalar_int(1));
}

cr_status cr_do_full_like(const cr_value *arg, cr_value *result)
{
    CR_TRY(cr_check_fits(arg[1].number, (cr_dtype)cr_int_or(&arg[2], arg[0].t->dtype)));
    CR_TRY(make_like(result, &arg[0], arg + 2));
    return filled(result, arg[1].number);
}

/* --- new sizes, dtype and device of another tensor: self, size, options --- */

cr_status cr_do_new_empty(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(take_options(arg + 2, arg[0].t->dtype, arg[0].t->device, &o));
    return make_by_options(result, &o, &arg[1], CR_FORMAT_CONTIGUOUS);
}

cr_status cr_do_new_empty_strided(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(take_options(arg + 3, arg[0].t->dtype, arg[0].t->device, &o));
    return make_strided(result, &o, &arg[1], &arg[2]);
}

cr_status cr_do_new_zeros(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(take_options(arg + 2, arg[0].t->dtype, arg[0].t->device, &o));
    return make_filled(result, &o, &arg[1], cr_scalar_int(0));
}

cr_status cr_do_new_ones(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(take_options(arg + 2, arg[0].t->dtype, arg[0].t->device, &o));
    return make_filled(result, &o, &arg[1], cr_scalar_int(1));
}

cr_status cr_do_new_full(const cr_value *arg, cr_value *result)
{
    options o;

    CR_TRY(take_options(arg + 3, arg[0].t->dtype, arg[0].t->device, &o));
    return make_filled(result, &o, &arg[1], arg[2].number);
}
