/* Other sizes or another storage for self: resize_, set_. */
#include "whole/whole_impl.h"

/* No memory format was given: a tensor that has the sizes already keeps its strides. */
enum { KEEP_STRIDES = -1 };

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
    if (format != KEEP_STRIDES || !cr_has_sizes(t, ndim, size)) {
        CR_TRY(cr_format_strides(format == KEEP_STRIDES ? CR_FORMAT_CONTIGUOUS : format, ndim,
                                 size, stride));
        CR_TRY(cr_tensor_resize(t, ndim, size, stride));
    }
    return cr_give_changed(result, t);
}

cr_status cr_do_resize(const cr_value *arg, cr_value *result)
{
    return resize_self(arg[0].t, (int)arg[1].len, arg[1].ints, cr_int_or(&arg[2], KEEP_STRIDES),
                       result);
}

cr_status cr_do_resize_as(const cr_value *arg, cr_value *result)
{
    const cr_tensor *as = arg[1].t;
    int64_t format = cr_int_or(&arg[2], KEEP_STRIDES);

    if (format == CR_FORMAT_PRESERVE)
        format = cr_is_channels_last(as) && !as->contiguous ? CR_FORMAT_CHANNELS_LAST
                                                            : CR_FORMAT_CONTIGUOUS;
    return resize_self(arg[0].t, as->ndim, as->size, format, result);
}

cr_status cr_do_set_tensor(const cr_value *arg, cr_value *result)
{
    const cr_tensor *self = arg[0].t, *source = arg[1].t;

    if (self->dtype != source->dtype)
        return cr_fail(CR_RUNTIME, "Could not set tensor of type %s to a tensor of type %s",
                       cr_dtype_cpp_name(source->dtype), cr_dtype_cpp_name(self->dtype));
    if (!cr_same_device(self->device, source->device))
        return cr_fail(CR_RUNTIME,
                       "Attempted to set the storage of a tensor on device \"%s\" to a storage "
                       "on different device \"%s\".  This is no longer allowed; the devices "
                       "must match.",
                       cr_device_print(self->device).text,
                       cr_device_print(source->device).text);
    CR_TRY(cr_tensor_set_from(arg[0].t, arg[1].t));
    return cr_give(result, arg[0].t);
}

cr_status cr_do_set_empty(const cr_value *arg, cr_value *result)
{
    cr_tensor *none, *self = arg[0].t;
    const int64_t size = 0;

    CR_TRY(cr_tensor_new(&none, self->dtype, self->device, 1, &size));
    cr_status st = cr_tensor_set_from(self, none);
    cr_drop(none);
    return st ? st : cr_give(result, self);
}
