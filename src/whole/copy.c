/* Copies and conversions. */
#include "device/facts.h"
#include "tensor/geometry.h"
#include "whole/whole_impl.h"
#include <string.h>

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
    cr_tensor *t = arg[0].t, *made;
    int64_t format = cr_int_or(&arg[1], CR_FORMAT_PRESERVE);

    if (CR_LIKELY(!cr_is_lazy(t)) || format != CR_FORMAT_PRESERVE)
        return copy_to_result(result, t, t->dtype, t->device, format);
    CR_TRY(cr_tensor_resolved(&made, t));
    *result = cr_of_tensor(made);
    return CR_OK;
}

/* A tensor over page-locked memory, for a device. */
static cr_status new_pinned(cr_tensor **out, const cr_tensor *like, cr_device device)
{
    const cr_device_facts *facts = cr_device_facts_of(cr_device_pinning());
    size_t item = cr_dtype_size((cr_dtype)like->dtype), n = 0;
    cr_storage *storage;

    for (int d = 0; d < like->ndim && like->numel; d++)
        n += (size_t)((like->size[d] - 1) * like->stride[d]);
    n = like->numel ? (n + 1) * item : 0;
    int index =
        cr_is_host(device) ? cr_device_of(cr_device_pinning())->current() : device.index;
    void *p = facts->pinned_get(index, n);
    if (!p)
        return cr_fail(CR_RUNTIME, "%s: no page-locked memory of %zu bytes",
                       cr_device_backend(cr_device_pinning()).text, n);
    cr_status st = cr_storage_foreign(&storage, p, n, facts->pinned_release, p);
    if (st) {
        facts->pinned_release(p);
        return st;
    }
    st = cr_tensor_over(out, storage, (cr_dtype)like->dtype, like->ndim, like->size,
                        like->stride, 0);
    if (st)
        cr_storage_drop(storage);
    return st;
}

cr_status cr_do_pin_memory(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_device device = CR_HOST;
    cr_tensor *made;

    if (arg[1].tag != CR_NONE)
        CR_TRY(cr_device_to_copy_to(&device, arg[1].i));
    if (!cr_is_host(device) && !cr_device_facts_of((cr_device_kind)device.kind)->pinned_get)
        return cr_fail(CR_RUNTIME,
                       "Need to provide pin_memory allocator to use pin memory on %s.",
                       cr_device_print(device).text);
    if (cr_device_pinning() == CR_CPU)
        return cr_fail(CR_RUNTIME, "Cannot access accelerator device when none is available.");
    if (t->device.kind != CR_CPU)
        return cr_fail(CR_RUNTIME,
                       "cannot pin 'torch.%s.%sTensor' only dense CPU tensors can be pinned",
                       cr_device_kind_name((cr_device_kind)t->device.kind),
                       cr_dtype_infos[t->dtype].legacy);
    if (!cr_has_bytes(t->device))
        return copy_to_result(result, t, t->dtype, t->device, CR_FORMAT_PRESERVE);
    CR_TRY(new_pinned(&made, t, device));
    cr_view to = cr_view_of(made), from = cr_view_of(t);
    cr_status st = cr_copy_elements(&to, &from);
    if (st)
        cr_drop(made);
    else
        *result = cr_of_tensor(made);
    return st;
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
        return cr_give(result, t);
    if (t->contiguous && format == CR_FORMAT_CONTIGUOUS)
        return cr_give(result, t);
    CR_TRY(cr_format_strides(format, t->ndim, t->size, stride));
    if (cr_has_format(format, t->ndim, t->size, t->stride))
        return cr_give(result, t);
    cr_value wanted = {.tag = CR_FORMAT_VAL, .i = format};
    return cr_call_given(result, cr_entry.clone, (cr_value[]){arg[0], wanted}, 2);
}

/* Calls `_to_dtype`, which is differentiable; returns self when the dtype is the same. */
cr_status cr_do_to_dtype(const cr_value *arg, cr_value *result)
{

    if (arg[0].t->dtype == arg[1].i)
        return cr_give(result, arg[0].t);
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

/* Calls `_to_copy`, which is differentiable; returns self when nothing has to change. */
cr_status cr_do_to_place(const cr_value *arg, cr_value *result)
{
    cr_value none = cr_of_none(), copy[] = {arg[0], arg[1], none, arg[2]};

    if (arg[0].t->dtype == arg[1].i && cr_packed_device(arg[0].t->device) == arg[2].i)
        return cr_give(result, arg[0].t);
    return cr_call_given(result, cr_entry._to_copy, copy, CR_LEN(copy));
}

static CR_NOINLINE cr_status refuse_source(const cr_value *arg)
{
    const cr_tensor *to = arg[0].t;
    cr_shape shape = {0};

    CR_TRY(cr_broadcast(&shape, arg, 2));
    return cr_fail(CR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                   cr_view_text(to), cr_view_text(&shape));
}

cr_status cr_do_copy(const cr_value *arg, cr_value *result)
{
    cr_tensor *to = arg[0].t;
    const cr_tensor *from = arg[1].t;

    if (!cr_expands(from->ndim, from->size, to->ndim, to->size))
        return refuse_source(arg);
    if (cr_has_internal_overlap(to))
        return cr_refuse_internal_overlap();
    CR_TRY(cr_check_copy(to, from));
    CR_TRY(cr_check_shared(to, from, true));
    if (from != to)
        CR_TRY(cr_copy_tensor(to, from));
    return cr_give_changed(result, to);
}

/* (self, like): self or, where it shares `like`'s memory or has other strides than those of
 * `like`'s memory format, a copy that has them. */
cr_status cr_do_in_format_of(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    const cr_tensor *like = arg[1].t;
    int64_t stride[CR_MAX_DIMS], format = cr_suggested_format(like);

    CR_TRY(cr_format_strides(format, t->ndim, t->size, stride));
    if (t->storage == like->storage || memcmp(t->stride, stride, t->ndim * sizeof *stride))
        return cr_call_given(result, cr_entry.clone,
                             (cr_value[]){arg[0], {.tag = CR_FORMAT_VAL, .i = format}}, 2);
    return cr_give(result, t);
}
