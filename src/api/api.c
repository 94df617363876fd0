/* Functions of the C API that the rooms have only as inline functions or as parts of functions.
 *
 * This file includes the public header, so the compiler compares the header's declarations with
 * those of the rooms. */
#include "autograd/autograd.h"
#include "autograd/print.h"
#include "base/parallel.h"
#include "device/device.h"
#include "io/safetensors.h"
#include "num/generator.h"
#include <string.h>

#define CR_INSIDE
#define cr_view cr_view_operator /* `cr_view` is a type here and an operator in the header */
#include "cresset.h"
#undef cr_view

_Static_assert((int)CR_GENERATOR_BYTES == (int)CR_GENERATOR_STATE_BYTES,
               "one size of a generator's state");

cr_status cr_init(void)
{
    CR_TRY(cr_tensor_start());
    return cr_autograd_start();
}

/* --- printing --- */

cr_status cr_tensor_text(char **out, cr_tensor *t)
{
    cr_text text = {0};

    if (!t || !out)
        return cr_fail(CR_TYPE, "repr(): argument '%s' must not be NULL", t ? "out" : "self");
    cr_status st = cr_print_tensor(&text, t);
    if (st)
        cr_text_drop(&text);
    else
        *out = text.at;
    return st;
}

/* --- making --- */

static cr_status check_kind(cr_dtype dtype, int ndim)
{
    if ((unsigned)dtype >= CR_DTYPE_COUNT)
        return cr_fail(CR_VALUE, "%d is no dtype", (int)dtype);
    if (ndim < 0 || ndim > CR_MAX_DIMS)
        return cr_fail(CR_VALUE, "a tensor has between 0 and %d dimensions, not %d",
                       CR_MAX_DIMS, ndim);
    return CR_OK;
}

/* `elements` may be NULL when a size is zero. */
static cr_status check_memory(int ndim, const int64_t *size, const void *elements)
{
    bool none = false;

    if (ndim && !size)
        return cr_fail(CR_TYPE, "a tensor of %d dimensions needs sizes, not NULL", ndim);
    for (int d = 0; d < ndim; d++)
        none |= size[d] <= 0;
    return elements || none ? CR_OK : cr_fail(CR_TYPE, "a tensor needs elements, not NULL");
}

cr_status cr_tensor_from(cr_tensor **out, cr_dtype dtype, int ndim, const int64_t *size,
                         const void *elements)
{
    cr_tensor *t = NULL;
    char *to;

    CR_TRY(check_kind(dtype, ndim));
    CR_TRY(check_memory(ndim, size, elements));
    CR_TRY(cr_tensor_new(&t, dtype, CR_HOST, ndim, size));
    CR_TRY(cr_reach(&to, t));
    if (t->numel)
        memcpy(to, elements, (size_t)t->numel * cr_dtype_size(dtype));
    *out = t;
    return CR_OK;
}

static cr_status api_row_major(int64_t *stride, int64_t *bytes, cr_dtype dtype, int ndim,
                               const int64_t *size)
{
    int64_t step = 1;

    for (int d = ndim - 1; d >= 0; d--) {
        stride[d] = step;
        if (size[d] < 0 || CR_MUL_OVERFLOW(step, size[d] > 1 ? size[d] : 1, &step))
            return cr_fail(CR_RUNTIME, "size %lld of dimension %d is not possible",
                           (long long)size[d], d);
    }
    if (CR_MUL_OVERFLOW(step, (int64_t)cr_dtype_size(dtype), bytes))
        return cr_fail(CR_RUNTIME, "the tensor's size in bytes is not possible");
    return CR_OK;
}

cr_status cr_tensor_borrow(cr_tensor **out, cr_dtype dtype, int ndim, const int64_t *size,
                           void *elements, void (*release)(void *owner), void *owner)
{
    int64_t stride[CR_MAX_DIMS], bytes = 0;
    cr_storage *s = NULL;
    cr_status st;

    CR_TRY(check_kind(dtype, ndim));
    CR_TRY(check_memory(ndim, size, elements));
    CR_TRY(api_row_major(stride, &bytes, dtype, ndim, size));
    CR_TRY(cr_storage_foreign(&s, elements, (size_t)bytes, NULL, NULL));
    st = cr_tensor_over(out, s, dtype, ndim, size, stride, 0);
    if (st) {
        cr_storage_drop(s);
        return st;
    }
    s->release = release; /* set last: after a failure the caller still owns the elements */
    s->owner = owner;
    return CR_OK;
}

cr_tensor *cr_hold(cr_tensor *t) { return cr_keep(t); }

/* --- properties --- */

cr_dtype cr_tensor_dtype(const cr_tensor *t) { return t ? (cr_dtype)t->dtype : CR_DTYPE_NONE; }
cr_device_kind cr_tensor_device(const cr_tensor *t)
{
    return t ? (cr_device_kind)t->device.kind : CR_HOST.kind;
}
int cr_tensor_ndim(const cr_tensor *t) { return t ? t->ndim : 0; }
int64_t cr_tensor_numel(const cr_tensor *t) { return t ? t->numel : 0; }
const int64_t *cr_tensor_size(const cr_tensor *t) { return t ? t->size : NULL; }
const int64_t *cr_tensor_stride(const cr_tensor *t) { return t ? t->stride : NULL; }
bool cr_tensor_is_contiguous(const cr_tensor *t) { return t && t->contiguous; }
void *cr_tensor_data(const cr_tensor *t)
{
    char *data;

    if (!t || cr_reach_to_write(&data, t))
        return NULL;
    t->storage->exposed = true;
    return data;
}

static bool is_dtype(cr_dtype t) { return (unsigned)t < CR_DTYPE_COUNT; }
size_t cr_dtype_bytes(cr_dtype dtype) { return is_dtype(dtype) ? cr_dtype_size(dtype) : 0; }
const char *cr_dtype_text(cr_dtype dtype)
{
    return is_dtype(dtype) ? cr_dtype_name(dtype) : "";
}

/* --- gradients --- */

bool cr_tensor_requires_grad(const cr_tensor *t) { return t && cr_requires_grad(t); }
cr_tensor *cr_tensor_grad(const cr_tensor *t) { return t ? cr_grad_of(t) : NULL; }

bool cr_set_grad_enabled(bool on)
{
    bool before = !cr_thread.no_grad;

    cr_thread.no_grad = !on;
    return before;
}
