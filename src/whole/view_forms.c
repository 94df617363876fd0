/* Views that a map function cannot make: other dtypes, possible copies. */
#include "tensor/batch.h"
#include "tensor/entries.h"
#include "whole/whole_impl.h"
#include <stdio.h>
#include <string.h>

/* --- other dtypes --- */

static CR_PRINTF(2, 3) cr_status refuse_dtype(const cr_value *arg, const char *fmt, ...)
{
    cr_text t = {0};
    va_list args;
    char what[160];

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    const char *comma = strchr(what, ',');
    int front = comma ? (int)(comma - what) : (int)strlen(what);
    cr_text_printf(&t, "%.*s to view %s as %s (different element sizes)%s", front, what,
                   cr_dtype_infos[arg[0].t->dtype].legacy, cr_dtype_infos[arg[1].i].legacy,
                   comma ? comma : "");
    cr_fail(CR_RUNTIME, "%s", cr_text_str(&t));
    cr_text_drop(&t);
    return CR_RUNTIME;
}

static cr_status need_unit_stride(const cr_value *arg, int64_t stride)
{
    if (stride == 1)
        return CR_OK;
    return refuse_dtype(arg, "self.stride(-1) must be 1, but got %lld", (long long)stride);
}

static cr_status smaller_elements(const cr_value *arg, int64_t ratio, cr_geometry *g)
{
    int last = g->ndim - 1;

    CR_TRY(need_unit_stride(arg, g->stride[last]));
    for (int i = 0; i < last; i++)
        g->stride[i] = CR_WRAP_MUL(g->stride[i], ratio);
    if (CR_MUL_OVERFLOW(g->size[last], ratio, &g->size[last]))
        return cr_fail(CR_RUNTIME, "numel: integer multiplication overflow");
    g->offset *= ratio;
    return CR_OK;
}

static cr_status larger_elements(const cr_value *arg, int64_t ratio, cr_geometry *g)
{
    int last = g->ndim - 1;
    long long by = (long long)ratio;

    if (g->size[last] % ratio)
        return refuse_dtype(arg, "self.size(-1) must be divisible by %lld, but got %lld", by,
                            (long long)g->size[last]);
    if (g->offset % ratio)
        return refuse_dtype(arg,
                            "self.storage_offset() must be divisible by %lld, but got %lld", by,
                            (long long)g->offset);
    CR_TRY(need_unit_stride(arg, g->stride[last]));
    for (int i = 0; i < last; i++) {
        if (g->stride[i] % ratio)
            return refuse_dtype(arg, "self.stride(%d) must be divisible by %lld, but got %lld",
                                i, by, (long long)g->stride[i]);
        g->stride[i] /= ratio;
    }
    g->size[last] /= ratio;
    g->offset /= ratio;
    return CR_OK;
}

/* g->offset counts from the storage's start. */
static void geometry_of(const cr_tensor *t, cr_geometry *g)
{
    g->ndim = t->ndim;
    g->offset = t->offset;
    for (int i = 0; i < t->ndim; i++) {
        g->size[i] = t->size[i];
        g->stride[i] = t->stride[i];
    }
}

static cr_status over_same(cr_value *result, const cr_tensor *t, cr_dtype dtype,
                           const cr_geometry *g)
{
    cr_tensor *made;

    CR_TRY(cr_tensor_over(&made, t->storage, dtype, g->ndim, g->size, g->stride, g->offset));
    cr_storage_keep(t->storage);
    cr_tensor_set_inference(made, t->inference);
    if (CR_UNLIKELY(cr_is_lazy(t)))
        cr_tensor_set_bits(made, t->conj && cr_dtype_is_complex(dtype), t->neg);
    *result = cr_of_tensor(made);
    return CR_OK;
}

static cr_status refuse_bits(const cr_tensor *t)
{
    return cr_fail(CR_RUNTIME,
                   "torch.Tensor.view is not supported for %s when converting to a "
                   "different dtype.",
                   t->conj ? "conjugate view tensors" : "tensors with negative bit set");
}

cr_status cr_do_view_dtype(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_dtype to = (cr_dtype)arg[1].i;
    int64_t from_size = (int64_t)cr_dtype_size(t->dtype), to_size = (int64_t)cr_dtype_size(to);
    cr_geometry g;

    if (CR_UNLIKELY(cr_is_lazy(t)))
        return refuse_bits(t);
    geometry_of(t, &g);
    if (from_size != to_size && t->ndim == 0)
        return refuse_dtype(arg, "self.dim() cannot be 0");
    if (to_size < from_size)
        CR_TRY(smaller_elements(arg, from_size / to_size, &g));
    if (to_size > from_size)
        CR_TRY(larger_elements(arg, to_size / from_size, &g));
    return over_same(result, t, to, &g);
}

cr_status cr_do_view_as_real(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_geometry g;

    if (!cr_dtype_is_complex(t->dtype))
        return cr_fail(CR_RUNTIME, "view_as_real is only supported for complex tensors");
    if (t->conj)
        return cr_fail(CR_RUNTIME,
                       "view_as_real doesn't work on unresolved conjugated tensors.  To "
                       "resolve the conjugate tensor so you can view it as real, use "
                       "self.resolve_conj(); however, be warned that the resulting tensor will "
                       "NOT alias the original.");
    if (t->ndim == CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    geometry_of(t, &g);
    for (int i = 0; i < g.ndim; i++)
        g.stride[i] = CR_WRAP_MUL(g.stride[i], 2);
    g.offset = CR_WRAP_MUL(g.offset, 2);
    g.size[g.ndim] = 2;
    g.stride[g.ndim++] = 1;
    return over_same(result, t, cr_dtype_real(t->dtype), &g);
}

static cr_status check_pairs(const cr_tensor *t)
{
    if (t->dtype != CR_F16 && t->dtype != CR_F32 && t->dtype != CR_F64)
        return cr_fail(CR_RUNTIME,
                       "view_as_complex is only supported for half, float and double "
                       "tensors, but got a tensor of scalar type: %s",
                       cr_dtype_infos[t->dtype].legacy);
    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME, "Input tensor must have one or more dimensions");
    if (t->size[t->ndim - 1] != 2)
        return cr_fail(CR_RUNTIME, "Tensor must have a last dimension of size 2");
    if (t->stride[t->ndim - 1] != 1)
        return cr_fail(CR_RUNTIME, "Tensor must have a last dimension with stride 1");
    for (int i = 0; i < t->ndim - 1; i++)
        if (t->stride[i] % 2 && t->size[i] != 1)
            return cr_fail(CR_RUNTIME,
                           "Tensor must have a stride divisible by 2 for all but last "
                           "dimension");
    if (t->offset % 2)
        return cr_fail(CR_RUNTIME, "Tensor must have a storage_offset divisible by 2");
    return CR_OK;
}

cr_status cr_do_view_as_complex(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    cr_geometry g;

    CR_TRY(check_pairs(t));
    geometry_of(t, &g);
    g.ndim--;
    for (int i = 0; i < g.ndim; i++)
        g.stride[i] /= 2;
    g.offset /= 2;
    return over_same(result, t, cr_dtype_complex(t->dtype), &g);
}

/* --- conjugates and negatives --- */

static cr_status with_bits(cr_value *result, const cr_tensor *t, bool conj, bool neg)
{
    cr_tensor *made;

    CR_TRY(cr_tensor_alias(&made, t));
    cr_tensor_set_bits(made, conj, neg);
    *result = cr_of_tensor(made);
    return CR_OK;
}

cr_status cr_do_conj_view(const cr_value *arg, cr_value *result)
{
    return with_bits(result, arg[0].t, !arg[0].t->conj, arg[0].t->neg);
}

cr_status cr_do_neg_view(const cr_value *arg, cr_value *result)
{
    return with_bits(result, arg[0].t, arg[0].t->conj, !arg[0].t->neg);
}

/* --- other sizes: a view, or a copy when no view has them --- */

static cr_status reshape_or_copy(cr_value *result, cr_tensor *t, const int64_t *size, int ndim)
{
    cr_value arg[2] = {cr_of_tensor(t), cr_of_ints(size, (size_t)ndim)};
    cr_value format = {.tag = CR_FORMAT_VAL, .i = CR_FORMAT_CONTIGUOUS};
    int64_t stride[CR_MAX_DIMS];
    cr_view v = cr_view_of(t);
    cr_tensor *copy = NULL;

    if (cr_view_strides(&v, ndim, size, stride))
        return cr_call_given(result, cr_entry.view, arg, 2);
    CR_TRY(cr_call_tensor(&copy, cr_entry.clone, (cr_value[]){arg[0], format}, 2));
    arg[0].t = copy;
    cr_status st = cr_call_given(result, cr_entry._unsafe_view, arg, 2);
    cr_drop(copy);
    return st;
}

cr_status cr_do_reshape(const cr_value *arg, cr_value *result)
{
    int64_t size[CR_MAX_DIMS];

    CR_TRY(cr_infer_sizes(size, &arg[1], arg[0].t->numel));
    return reshape_or_copy(result, arg[0].t, size, (int)arg[1].len);
}

cr_status cr_do_unsafe_view(const cr_value *arg, cr_value *result)
{
    cr_view v = cr_view_of(arg[0].t);
    cr_geometry g;
    cr_tensor *made;

    CR_TRY(cr_map_view(arg, &v, &g));
    CR_TRY(cr_tensor_view(&made, arg[0].t, &g));
    *result = cr_of_tensor(made);
    return CR_OK;
}

cr_status cr_do_flatten(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t;
    int64_t first, last, size[CR_MAX_DIMS], n = 0;

    CR_TRY(cr_wrap_dim(&first, arg[1].i, t->ndim));
    CR_TRY(cr_wrap_dim(&last, arg[2].i, t->ndim));
    if (first > last)
        return cr_fail(CR_RUNTIME, "flatten() has invalid args: start_dim cannot come after "
                                   "end_dim");
    if (t->ndim && first == last)
        return cr_give(result, t);
    for (int i = 0; i < t->ndim; i++) {
        if (i <= first || i > last)
            size[n++] = t->size[i];
        else if (CR_MUL_OVERFLOW(size[n - 1], t->size[i], &size[n - 1]))
            return cr_fail(CR_RUNTIME, "numel: integer multiplication overflow");
    }
    if (t->ndim == 0)
        size[n++] = 1;
    return reshape_or_copy(result, t, size, (int)n);
}
