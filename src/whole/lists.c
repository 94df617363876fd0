/* Operators that return several tensors: pieces of a dim, grids, broadcasts. */
#include "ops/shape.h"
#include "whole/whole_impl.h"
#include <string.h>

cr_value *cr_list_new(int64_t n)
{
    cr_value *list = NULL;

    if (n > INT32_MAX)
        cr_fail(CR_MEMORY, "not enough memory for %lld tensors", (long long)n);
    else
        list = cr_alloc((size_t)(n ? n : 1) * sizeof *list);
    for (int64_t i = 0; list && i < n; i++)
        list[i] = cr_of_none();
    return list;
}

void cr_list_drop(cr_value *list, uint32_t n)
{
    cr_value v = cr_of_list(list, n);

    if (list)
        cr_drop_values(&v, 1);
}

/* --- pieces --- */

/* A piece of `t` along dim; without the dim when `length` is negative. */
static cr_status piece(cr_value *out, const cr_tensor *t, int64_t dim, int64_t start,
                       int64_t length)
{
    cr_geometry g = {.ndim = 0};
    cr_tensor *made;

    g.offset = CR_WRAP_MUL(start, t->stride[dim]);
    for (int i = 0; i < t->ndim; i++) {
        if (i == dim && length < 0)
            continue;
        g.size[g.ndim] = i == dim ? length : t->size[i];
        g.stride[g.ndim++] = t->stride[i];
    }
    CR_TRY(cr_tensor_view(&made, t, &g));
    *out = cr_of_tensor(made);
    return CR_OK;
}

cr_status cr_do_unbind(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t dim;

    CR_TRY(cr_wrap_dim(&dim, arg[1].i, t->ndim));
    if (t->ndim == 0)
        return cr_fail(CR_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                       (long long)arg[1].i);
    int64_t n = t->size[dim];
    cr_value *list = cr_list_new(n);
    cr_status st = list ? CR_OK : CR_MEMORY;
    for (int64_t i = 0; !st && i < n; i++)
        st = piece(&list[i], t, dim, i, -1);
    if (st)
        cr_list_drop(list, (uint32_t)n);
    else
        *result = cr_of_list(list, (uint32_t)n);
    return st;
}

/* n pieces: of length[i], or of `step` with a shorter last one. */
static cr_status pieces(cr_value *result, const cr_tensor *t, int64_t dim, int64_t n,
                        const int64_t *length, int64_t step)
{
    cr_value *list = cr_list_new(n);
    cr_status st = list ? CR_OK : CR_MEMORY;
    int64_t start = 0;

    for (int64_t i = 0; !st && i < n; i++) {
        int64_t left = t->size[dim] - start, one = length        ? length[i]
                                                   : step < left ? step
                                                                 : left;
        st = piece(&list[i], t, dim, start, one);
        start += one;
    }
    if (st)
        cr_list_drop(list, (uint32_t)n);
    else
        *result = cr_of_list(list, (uint32_t)n);
    return st;
}

cr_status cr_do_split(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t dim, step = arg[1].i;

    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME, "split expects at least a 1-dimensional tensor");
    if (step < 0)
        return cr_fail(CR_RUNTIME,
                       "split expects split_size be non-negative, but got "
                       "split_size=%lld",
                       (long long)step);
    CR_TRY(cr_wrap_dim(&dim, arg[2].i, t->ndim));
    if (step == 0 && t->size[dim])
        return cr_fail(CR_RUNTIME,
                       "split_size can only be 0 if dimension size is 0, but got "
                       "dimension size of %lld",
                       (long long)t->size[dim]);
    int64_t n = t->size[dim] ? (t->size[dim] - 1) / step + 1 : 1;
    return pieces(result, t, dim, n, NULL, step);
}

static cr_status refuse_split_negative(const cr_value *sizes)
{
    return cr_fail(CR_RUNTIME,
                   "split_with_sizes expects split_sizes have only non-negative entries, but "
                   "got split_sizes=%s",
                   cr_shape_text(sizes->len, sizes->ints));
}

static cr_status refuse_split_sum(const cr_value *sizes, int64_t size, int64_t dim)
{
    return cr_fail(CR_RUNTIME,
                   "split_with_sizes expects split_sizes to sum exactly to %lld (input "
                   "tensor's size at dimension %lld), but got split_sizes=%s",
                   (long long)size, (long long)dim, cr_shape_text(sizes->len, sizes->ints));
}

cr_status cr_do_split_sizes(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    const cr_value *sizes = &arg[1];
    int64_t dim, sum = 0;
    bool overflow = false;

    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME, "split expects at least a 1-dimensional tensor");
    CR_TRY(cr_wrap_dim(&dim, arg[2].i, t->ndim));
    for (uint32_t i = 0; i < sizes->len; i++) {
        if (sizes->ints[i] < 0)
            return refuse_split_negative(sizes);
        overflow |= CR_ADD_OVERFLOW(sum, sizes->ints[i], &sum);
    }
    if (overflow || sum != t->size[dim])
        return refuse_split_sum(sizes, t->size[dim], dim);
    return pieces(result, t, dim, sizes->len, sizes->ints, 0);
}

/* --- pieces with versions of their own --- */

/* Replaces *piece by a tensor with another storage over the same bytes. */
static cr_status separate(cr_tensor **piece)
{
    cr_tensor *t = *piece, *made;
    cr_storage *own;

    CR_TRY(cr_storage_alias(&own, t->storage));
    cr_status st =
        cr_tensor_over(&made, own, (cr_dtype)t->dtype, t->ndim, t->size, t->stride, t->offset);
    if (st) {
        cr_storage_drop(own);
        return st;
    }
    cr_tensor_set_inference(made, t->inference);
    cr_tensor_set_bits(made, t->conj, t->neg);
    *piece = made;
    cr_drop(t);
    return CR_OK;
}

static cr_status separate_all(cr_status st, cr_value *result)
{
    for (uint32_t i = 0; !st && i < result->len; i++) {
        st = separate(&((cr_value *)result->list)[i].t);
        if (st)
            cr_drop_values(result, 1);
    }
    return st;
}

cr_status cr_do_unsafe_split(const cr_value *arg, cr_value *result)
{
    return separate_all(cr_do_split(arg, result), result);
}

cr_status cr_do_unsafe_split_sizes(const cr_value *arg, cr_value *result)
{
    return separate_all(cr_do_split_sizes(arg, result), result);
}

/* The operators below call the operators above through all stages, so that autograd records
 * these. */

/* n pieces whose lengths differ by at most one, the longer ones first. */
static cr_status split_evenly(const cr_op *by_lengths, cr_value *result, const cr_value *self,
                              int64_t dim, int64_t n, int64_t size)
{
    int64_t *length;

    if (n > INT64_MAX / (int64_t)sizeof *length)
        return cr_fail(CR_RUNTIME, "cannot create std::vector larger than max_size()");
    if (n > INT32_MAX)
        return cr_fail(CR_MEMORY, "not enough memory for %lld tensors", (long long)n);
    length = cr_alloc((size_t)n * sizeof *length);
    CR_NEED(length);
    for (int64_t i = 0; i < n; i++)
        length[i] = size / n + (i < size % n);
    cr_value arg[3] = {*self, cr_of_ints(length, (size_t)n), cr_of_int(dim)};
    cr_status st = cr_call_given(result, by_lengths, arg, 3);
    cr_free(length);
    return st;
}

/* Pieces by an entry that takes their lengths, and one that takes the length of all. */
static cr_status chunk_by(const cr_op *by_lengths, const cr_op *by_one, const cr_value *arg,
                          cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t n = arg[1].i, dim;

    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME, "chunk expects at least a 1-dimensional tensor");
    if (n <= 0)
        return cr_fail(CR_RUNTIME, "chunk expects `chunks` to be greater than 0, got: %lld",
                       (long long)n);
    CR_TRY(cr_wrap_dim(&dim, arg[2].i, t->ndim));
    if (t->size[dim] == 0)
        return split_evenly(by_lengths, result, &arg[0], dim, n, 0);
    cr_value step = cr_of_int((t->size[dim] - 1) / n + 1);
    return cr_call_given(result, by_one, (cr_value[]){arg[0], step, cr_of_int(dim)}, 3);
}

cr_status cr_do_chunk(const cr_value *arg, cr_value *result)
{
    return chunk_by(cr_entry.split_with_sizes, cr_entry.split_Tensor, arg, result);
}

cr_status cr_do_unsafe_chunk(const cr_value *arg, cr_value *result)
{
    return chunk_by(cr_entry.unsafe_split_with_sizes, cr_entry.unsafe_split_Tensor, arg,
                    result);
}

static cr_status check_split(const cr_tensor *t, int64_t dim, int64_t *wrapped)
{
    *wrapped = 0;
    if (t->ndim == 0)
        return cr_fail(CR_RUNTIME,
                       "tensor_split expected at least a 1-dimensional tensor, but got "
                       "a tensor with 0 dims");
    return cr_wrap_dim(wrapped, dim, t->ndim);
}

cr_status cr_do_tensor_split(const cr_value *arg, cr_value *result)
{
    const cr_tensor *t = arg[0].t;
    int64_t dim;

    CR_TRY(check_split(t, arg[2].i, &dim));
    if (arg[1].i <= 0)
        return cr_fail(CR_RUNTIME, "number of sections must be larger than 0, got %lld",
                       (long long)arg[1].i);
    return split_evenly(cr_entry.split_with_sizes, result, &arg[0], dim, arg[1].i,
                        t->size[dim]);
}

static cr_status one_slice(cr_value *out, const cr_value *self, int64_t dim, int64_t start,
                           const int64_t *end)
{
    cr_value arg[4] = {*self, cr_of_int(dim), cr_of_int(start),
                       end ? cr_of_int(*end) : cr_of_none()};

    return cr_call_given(out, cr_entry.slice_Tensor, arg, 4);
}

cr_status cr_do_tensor_split_at(const cr_value *arg, cr_value *result)
{
    const cr_value *at = &arg[1];
    uint32_t n = at->len + 1;
    int64_t dim;

    CR_TRY(check_split(arg[0].t, arg[2].i, &dim));
    cr_value *list = cr_list_new(n);
    cr_status st = list ? CR_OK : CR_MEMORY;
    for (uint32_t i = 0; !st && i < n; i++)
        st = one_slice(&list[i], &arg[0], dim, i ? at->ints[i - 1] : 0,
                       i < at->len ? &at->ints[i] : NULL);
    if (st)
        cr_list_drop(list, n);
    else
        *result = cr_of_list(list, n);
    return st;
}

/* Number i of a tensor without bytes: a class that wraps tensors gives it, of a fake it is an
 * error. */
static cr_status place_of_item(int64_t *out, cr_tensor *by, int64_t i)
{
    cr_value one, arg[] = {cr_of_tensor(by), cr_of_int(0), cr_of_int(i)};
    cr_scalar number;
    cr_status st;

    if (!by->ndim) {
        CR_TRY(cr_tensor_item(&number, by));
    } else {
        CR_TRY(cr_call_given(&one, cr_entry.select_int, arg, 3));
        st = cr_tensor_item(&number, one.t);
        cr_drop(one.t);
        CR_TRY(st);
    }
    *out = number.i;
    return CR_OK;
}

/* The numbers of `by`, in at[numel]. */
static cr_status read_places(int64_t *at, cr_tensor *by)
{
    cr_tensor *plain = NULL;

    for (int64_t i = 0; !by->address && i < by->numel; i++)
        CR_TRY(place_of_item(&at[i], by, i));
    if (!by->address || !by->numel)
        return CR_OK;
    CR_TRY(cr_contiguous_plain(&plain, by));
    memcpy(at, plain->address, (size_t)by->numel * sizeof *at);
    cr_drop(plain);
    return CR_OK;
}

static cr_status check_split_tensor(cr_tensor *by)
{
    if (by->dtype != CR_I64)
        return cr_fail(CR_RUNTIME,
                       "tensor_split expected tensor_indices_or_sections to have dtype "
                       "of long, but got %s",
                       cr_dtype_infos[by->dtype].legacy);
    if (by->ndim > 1)
        return cr_fail(
            CR_RUNTIME,
            "tensor_split expected tensor_indices_or_sections to be a "
            "zero-dimensional or one-dimensional tensor, but got a tensor with %d dims",
            by->ndim);
    if (!cr_is_host(by->device) && !cr_is_meta(by->device))
        return cr_fail(
            CR_RUNTIME,
            "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on %s",
            cr_device_print(by->device).text);
    return CR_OK;
}

cr_status cr_do_tensor_split_tensor(const cr_value *arg, cr_value *result)
{
    cr_tensor *by = arg[1].t;
    int64_t dim, *at;
    cr_status st;

    cr_sizes_of_values = true;
    CR_TRY(check_split(arg[0].t, arg[2].i, &dim));
    CR_TRY(check_split_tensor(by));
    at = cr_alloc((size_t)by->numel * sizeof *at + 1);
    CR_NEED(at);
    CR_GO(read_places(at, by));
    cr_value given[3] = {arg[0], cr_of_int(by->ndim ? 0 : *at), arg[2]};
    if (by->ndim)
        given[1] = cr_of_ints(at, (size_t)by->numel);
    st = (by->ndim ? cr_do_tensor_split_at : cr_do_tensor_split)(given, result);
done:
    cr_free(at);
    return st;
}

/* --- lists in, lists out --- */

/* Calls `fn` for each tensor of arg[0]. */
static cr_status each(const cr_value *arg, cr_value *result,
                      cr_status (*fn)(cr_value *out, cr_value v, void *context), void *context)
{
    uint32_t n = arg[0].len;
    cr_value *list = cr_list_new(n);
    cr_status st = list ? CR_OK : CR_MEMORY;

    for (uint32_t i = 0; !st && i < n; i++)
        st = fn(&list[i], arg[0].list[i], context);
    if (st)
        cr_list_drop(list, n);
    else
        *result = cr_of_list(list, n);
    return st;
}

static cr_status expand_to(cr_value *out, cr_value v, void *context)
{
    const cr_shape *s = context;

    return cr_call_given(out, cr_entry.expand,
                         (cr_value[]){v, cr_of_ints(s->size, (size_t)s->ndim)}, 2);
}

cr_status cr_do_broadcast_tensors(const cr_value *arg, cr_value *result)
{
    cr_shape shape = {0};

    if (arg[0].len)
        CR_TRY(cr_broadcast(&shape, arg[0].list, (int)arg[0].len));
    return each(arg, result, expand_to, &shape);
}

static cr_status call_one(cr_value *out, cr_value v, void *context)
{
    return cr_call_given(out, context, &v, 1);
}

cr_status cr_do_atleast_1d(const cr_value *arg, cr_value *result)
{
    return each(arg, result, call_one, (void *)(uintptr_t)cr_entry.atleast_1d);
}

cr_status cr_do_atleast_2d(const cr_value *arg, cr_value *result)
{
    return each(arg, result, call_one, (void *)(uintptr_t)cr_entry.atleast_2d);
}

cr_status cr_do_atleast_3d(const cr_value *arg, cr_value *result)
{
    return each(arg, result, call_one, (void *)(uintptr_t)cr_entry.atleast_3d);
}

/* --- grids --- */

static cr_status refuse_axis(const cr_tensor *t)
{
    cr_text text = {0};

    cr_text_printf(&text, "%s{", cr_tensor_type_name(t));
    for (int i = 0; i < t->ndim; i++)
        cr_text_printf(&text, "%s%lld", i ? "," : "", (long long)t->size[i]);
    cr_fail(CR_RUNTIME,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: [ "
            "%s} ]",
            cr_text_str(&text));
    cr_text_drop(&text);
    return CR_RUNTIME;
}

static cr_status check_axes(const cr_value *axes)
{
    if (axes->len == 0)
        return cr_fail(CR_RUNTIME, "meshgrid expects a non-empty TensorList");
    if (axes->len > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions", CR_MAX_DIMS);
    for (uint32_t i = 0; i < axes->len; i++) {
        if (axes->list[i].t->ndim > 1)
            return refuse_axis(axes->list[i].t);
        if (axes->list[i].t->dtype != axes->list[0].t->dtype)
            return cr_fail(CR_RUNTIME, "meshgrid expects all tensors to have the same dtype");
        if (!cr_same_device(axes->list[i].t->device, axes->list[0].t->device))
            return cr_fail(CR_RUNTIME, "meshgrid expects all tensors to have the same device");
    }
    return CR_OK;
}

/* Tensor `at` of a grid: its coordinates along dim `at`, repeated along the others. */
static cr_status one_axis(cr_value *out, const cr_value *axis, const cr_shape *grid, int at)
{
    int64_t size[CR_MAX_DIMS];
    cr_tensor *t = NULL;

    for (int i = 0; i < grid->ndim; i++)
        size[i] = i == at ? axis->t->numel : 1;
    CR_TRY(cr_call_tensor(&t, cr_entry.reshape,
                          (cr_value[]){*axis, cr_of_ints(size, (size_t)grid->ndim)}, 2));
    cr_status st = expand_to(out, cr_of_tensor(t), (void *)grid);
    cr_drop(t);
    return st;
}

static cr_status take_indexing(const cr_value *indexing, uint32_t axes, bool *exchange)
{
    const char *s = indexing->tag == CR_STRING ? indexing->s : "ij";
    uint32_t len = indexing->tag == CR_STRING ? indexing->len : 2;

    *exchange = false;
    if (len == 2 && !memcmp(s, "ij", 2))
        return CR_OK;
    if (len != 2 || memcmp(s, "xy", 2))
        return cr_fail(CR_RUNTIME,
                       "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but "
                       "received: %.*s",
                       (int)len, s);
    *exchange = axes > 1;
    return CR_OK;
}

static cr_status meshgrid(const cr_value *axes, bool exchange, cr_value *result)
{
    uint32_t n = axes->len;
    cr_shape grid = {.ndim = (int)n};
    cr_value *list = cr_list_new(n);
    cr_status st = list ? CR_OK : CR_MEMORY;

    for (uint32_t i = 0; i < n; i++)
        grid.size[exchange && i < 2 ? 1 - i : i] = axes->list[i].t->numel;
    for (uint32_t i = 0; !st && i < n; i++)
        st = one_axis(&list[i], &axes->list[i], &grid, (int)(exchange && i < 2 ? 1 - i : i));
    if (st)
        cr_list_drop(list, n);
    else
        *result = cr_of_list(list, n);
    return st;
}

cr_status cr_do_meshgrid(const cr_value *arg, cr_value *result)
{
    bool exchange;

    CR_TRY(check_axes(&arg[0]));
    CR_TRY(take_indexing(&arg[1], arg[0].len, &exchange));
    return meshgrid(&arg[0], exchange, result);
}

cr_status cr_do_meshgrid_plain(const cr_value *arg, cr_value *result)
{
    CR_TRY(check_axes(&arg[0]));
    return meshgrid(&arg[0], false, result);
}
