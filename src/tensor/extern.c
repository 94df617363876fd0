/* Entries that name a function of kern, scans, and reductions that keep an index: results are
 * allocated by the entry's rules, then the function is called with plain views in the compute
 * type. */
#include "base/env.h"
#include "num/generator.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include "tensor/stated.h"
#include <string.h>

/* Tensors of a call that need no allocation to be kept. */
enum { FEW = 8 };

/* The function's arguments, and the memory to free after the call. */
typedef struct {
    cr_value arg[CR_MAX_ARGS];
    cr_view view[CR_MAX_ARGS];
    cr_value *list[CR_MAX_ARGS]; /* set for Tensor[] parameters only; views are behind it */
    cr_tensor *few[FEW];         /* casts, copies and numbers; `more` after the first */
    int few_count;
    CR_VEC(cr_tensor *) more;
    bool fake;        /* some tensor has no bytes */
    cr_device device; /* of the results */
} extern_call;

static void call_start(extern_call *c, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_TENSORS)
            c->list[i] = NULL;
    memset(&c->more, 0, sizeof c->more);
    c->few_count = 0;
    c->fake = false;
}

/* The call drops the tensor, also when there is no memory. */
static cr_status call_keep(extern_call *c, cr_tensor *t)
{
    if (c->few_count < FEW) {
        c->few[c->few_count++] = t;
        return CR_OK;
    }
    if (cr_vec_reserve(&c->more, 1)) {
        cr_drop(t);
        return CR_MEMORY;
    }
    cr_vec_put(&c->more, t);
    return CR_OK;
}

static void call_drop(extern_call *c, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_TENSORS)
            cr_free(c->list[i]);
    for (int i = 0; i < c->few_count; i++)
        cr_drop(c->few[i]);
    for (size_t i = 0; i < c->more.len; i++)
        cr_drop(c->more.at[i]);
    cr_vec_drop(&c->more);
}

/* The tensor argument that the entry writes, or NULL. */
static const cr_tensor *written_tensor(const cr_op *op, const cr_value *arg)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written && arg[i].tag == CR_TENSOR)
            return arg[i].t;
    return NULL;
}

/* Makes a view of a tensor argument: converted to the compute type when `typed`, and of a copy
 * when it overlaps `written`. */
static cr_status present(extern_call *c, const cr_value *v, cr_dtype compute, bool typed,
                         const cr_tensor *written, cr_view *view, cr_value *out)
{
    cr_tensor *t = NULL;

    if (v->tag == CR_NONE) {
        *out = *v;
        return CR_OK;
    }
    if (v->tag == CR_TENSOR) {
        t = v->t; /* the caller keeps it */
    } else {
        CR_TRY(cr_as_tensor(&t, v));
        CR_TRY(call_keep(c, t));
    }
    c->fake |= !cr_has_bytes(t->device);
    if (typed && t->dtype != compute) {
        CR_TRY(cr_cast_plain(&t, t, compute));
        CR_TRY(call_keep(c, t));
    } else if (written && cr_meets(written, t)) {
        CR_TRY(cr_copy_plain(&t, t));
        CR_TRY(call_keep(c, t));
    }
    *view = cr_view_of(t);
    *out = (cr_value){.tag = CR_VIEW, .view = view};
    return CR_OK;
}

static cr_status present_list(extern_call *c, int i, const cr_value *v, cr_dtype compute,
                              bool typed)
{
    cr_view *view;

    c->list[i] = cr_alloc(v->len * (sizeof *c->list[i] + sizeof *view));
    CR_NEED(c->list[i]);
    view = (cr_view *)(c->list[i] + v->len);
    for (uint32_t k = 0; k < v->len; k++)
        CR_TRY(present(c, &v->list[k], compute, typed, NULL, &view[k], &c->list[i][k]));
    c->arg[i] = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = c->list[i]};
    return CR_OK;
}

/* Makes views of all tensor arguments.  Those that the type rule leaves out keep their
 * dtype. */
static cr_status present_all(extern_call *c, const cr_op *op, const cr_value *arg,
                             cr_dtype compute)
{
    const cr_tensor *written = written_tensor(op, arg);

    if (written)
        CR_TRY(cr_check_target(written));
    for (int i = 0; i < op->param_count; i++) {
        bool typed = op->type && !(op->mask_params >> i & 1) && !op->param[i].written;
        if (op->param[i].type == CR_T_TENSOR)
            CR_TRY(present(c, &arg[i], compute, typed, written, &c->view[i], &c->arg[i]));
        else if (op->param[i].type == CR_T_TENSORS && arg[i].tag == CR_TENSORS)
            CR_TRY(present_list(c, i, &arg[i], compute, typed));
        else
            c->arg[i] = arg[i];
    }
    return CR_OK;
}

static cr_status result_shapes(cr_shape *shape, const cr_op *op, const cr_value *viewed,
                               const cr_value *arg, cr_device device, cr_frame *f)
{
    if (op->sizes.fn)
        return !cr_is_host(device) &&
                       op->words & (CR_WORD_SIZED_BY_VALUES | CR_WORD_HOST_INDICES)
                   ? cr_remote_shape(op, viewed, shape, device)
                   : op->sizes.fn(viewed, shape);
    if (op->sizes.compiled && CR_LIKELY(op->sizes.compiled(arg, shape)))
        return CR_OK;
    for (int k = 0; k < op->result_count; k++) {
        if (op->sizes.rule[k])
            CR_TRY(cr_rule_shape(&shape[k], op->sizes.rule[k], f));
        else if (op->sizes.rule[0])
            shape[k] = shape[0];
        else
            CR_TRY(cr_broadcast(&shape[k], arg, op->param_count));
    }
    return CR_OK;
}

/* The written parameter that result k aliases. */
static int param_of_result(const cr_op *op, int k)
{
    for (int i = 0; op->result[k].written && i < op->param_count; i++)
        if (op->param[i].written && op->param[i].alias == op->result[k].alias)
            return i;
    return -1;
}

/* The format of all tensors of a list, or of one tensor. */
static int64_t argument_format(const cr_value *v)
{
    int64_t format = CR_FORMAT_CONTIGUOUS;

    if (v->tag == CR_TENSOR)
        return cr_suggested_format(v->t);
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++) {
        int64_t of = argument_format(&v->list[i]);
        if (i && of != format)
            return CR_FORMAT_CONTIGUOUS;
        format = of;
    }
    return format;
}

/* Sizes may be any: a product that overflows is INT64_MAX, and such strides are refused when
 * the result is made. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;

    return CR_MUL_OVERFLOW(a, b, &product) ? INT64_MAX : product;
}

/* Strides of tensors of one memory format along a new dim: those of the tensors one after
 * another along the dim that it stands before. */
static bool stacked_strides(int64_t *stride, const cr_value *list, const cr_shape *shape,
                            int64_t dim)
{
    int n = shape->ndim - 1, d = (int)(dim < 0 ? dim + shape->ndim : dim);
    int64_t joined[CR_MAX_DIMS], size[CR_MAX_DIMS], format = argument_format(list);

    if (format == CR_FORMAT_CONTIGUOUS || d >= n)
        return false;
    for (int i = 0; i < n; i++)
        size[i] = shape->size[i + (i >= d)];
    size[d] = times(size[d], shape->size[d]);
    if (cr_format_strides(format, n, size, joined))
        return false;
    for (int i = 0; i < n; i++)
        stride[i + (i >= d)] = joined[i];
    stride[d] = times(joined[d], shape->size[d + 1]);
    return true;
}

/* Strides of a matrix, or of a batch, column by column. */
static bool column_strides(int64_t *stride, const cr_shape *shape)
{
    int n = shape->ndim;
    int64_t step = 1;

    if (n < 2)
        return false;
    for (int i = 0; i < n; i++) {
        int d = i < 2 ? n - 2 + i : n - 1 - i;
        stride[d] = step;
        step = cr_step_over(step, shape->size[d]);
    }
    return true;
}

/* Inserts dims before position `end` of `order`, sorted by decreasing stride. */
static void insert_dim(int *order, int *end, int d, const int64_t *stride)
{
    int at = (*end)++;

    for (; at > 0 && stride[order[at - 1]] < stride[d]; at--)
        order[at] = order[at - 1];
    order[at] = d;
}

/* One pass of an FFT over the `count` dims `inner`: these are innermost, in this order, and the
 * others have the order of `stride`, which becomes that of the result. */
static void transform_pass(int64_t *stride, const cr_shape *shape, const int *inner, int count)
{
    int order[CR_MAX_DIMS], n = 0;
    unsigned moved = 0;
    int64_t step = 1;

    for (int i = 0; i < count; i++)
        moved |= 1u << inner[i];
    for (int d = 0; d < shape->ndim; d++)
        if (!(moved >> d & 1))
            insert_dim(order, &n, d, stride);
    for (int i = 0; i < count; i++)
        order[n++] = inner[i];
    while (n--) {
        stride[order[n]] = step;
        step = times(step, shape->size[order[n]]);
    }
}

/* Passes over at most seven dims at a time, as many as MKL takes: the last ones first. */
static void transform_passes(int64_t *stride, const cr_shape *shape, const int *dim, int count)
{
    for (int most = 7; count > 0; count -= most) {
        int n = count < most ? count : most;
        transform_pass(stride, shape, dim + count - n, n);
    }
}

/* Strides of an FFT: of complex numbers, to complex ones, or to real ones. */
static bool transform_strides(int64_t *stride, const cr_op *op, const cr_value *arg,
                              const cr_shape *shape)
{
    const cr_value *dims = &arg[cr_op_find_param(op, "dim")];
    const cr_tensor *self = arg[CR_CTZ(op->format.params)].t;
    int count = (int)dims->len, n = 0;
    int last = 0, order[CR_MAX_DIMS];
    bool to_real = cr_op_find_param(op, "last_dim_size") >= 0;
    bool from_real = cr_op_find_param(op, "onesided") >= 0;

    if (!count)
        return cr_strides_like(stride, shape, self);
    if (self->ndim != shape->ndim)
        return false;
    for (int i = 0; i < count; i++) {
        int d = (int)dims->ints[i];
        order[i] = last = d < 0 ? d + self->ndim : d;
    }
    memcpy(stride, self->stride, (size_t)self->ndim * sizeof *stride);
    for (int i = 0; i < count - (to_real || from_real); i++)
        insert_dim(order, &n, order[i], self->stride);
    if (from_real)
        order[n++] = last;
    transform_passes(stride, shape, order, n);
    if (to_real)
        transform_pass(stride, shape, &last, 1);
    return true;
}

/* Functions that write results of any strides, which need no row-major copy. */
static bool writes_any_strides(const cr_op *op)
{
    return op->format.rule == CR_FORMAT_RULE_COLUMNS ||
           op->format.rule == CR_FORMAT_RULE_PICKED;
}

/* Strides of result k by the clause `format`; false: it is row-major.  `view`: the arguments as
 * the function gets them. */
static bool format_strides(int64_t *stride, const cr_op *op, int k, const cr_value *arg,
                           const cr_value *view, const cr_shape *shape)
{
    if (op->format.rule == CR_FORMAT_RULE_PICKED)
        return cr_picked_strides(stride, view[0].view, &view[CR_CTZ(op->format.params)]);
    if (op->format.rule == CR_FORMAT_RULE_COLUMNS)
        return op->format.params >> k & 1 && column_strides(stride, shape);
    if (op->format.rule == CR_FORMAT_RULE_TRANSFORM)
        return transform_strides(stride, op, arg, shape);
    if (op->format.rule == CR_FORMAT_RULE_OPERANDS)
        return cr_body_strides(stride, shape, op, arg);
    if (op->format.rule == CR_FORMAT_RULE_STACKED)
        return stacked_strides(stride, &arg[CR_CTZ(op->format.params)], shape,
                               arg[cr_op_find_param(op, "dim")].i);
    if (op->format.rule != CR_FORMAT_RULE_LIKE && shape->ndim != 4 && shape->ndim != 5)
        return false;
    for (int i = 0; op->format.params >> i; i++) {
        if (!(op->format.params >> i & 1))
            continue;
        if (op->format.rule != CR_FORMAT_RULE_LIKE) {
            int64_t format = argument_format(&arg[i]);
            int ndim = format == CR_FORMAT_CHANNELS_LAST ? 4 : 5;
            if (format != CR_FORMAT_CONTIGUOUS && shape->ndim == ndim &&
                (ndim == 4 || op->format.rule == CR_FORMAT_RULE_CHANNELS) &&
                !cr_format_strides(format, shape->ndim, shape->size, stride))
                return true;
        } else if (arg[i].tag == CR_TENSOR && cr_strides_like(stride, shape, arg[i].t)) {
            return true;
        }
    }
    return false;
}

static cr_status make_result(cr_tensor **out, const cr_op *op, int k, const cr_value *arg,
                             cr_dtype compute, const cr_shape *shape, const extern_call *c,
                             cr_frame *f)
{
    int self = param_of_result(op, k);
    int64_t stride[CR_MAX_DIMS];
    cr_device device = c->device;
    cr_dtype dtype;

    if (self >= 0) {
        *out = cr_keep(arg[self].t);
        return CR_OK;
    }
    CR_TRY(cr_result_type(&dtype, op, k, compute, f));
    bool own = writes_any_strides(op) ||
               op->format.rule == CR_FORMAT_RULE_TRANSFORM; /* devices' kernels are row-major */
    if (op->format.rule && !(own && cr_has_bytes(device) && cr_remote_has_kernel(op, device)) &&
        format_strides(stride, op, k, arg, c->arg, &shape[k]))
        return cr_tensor_new_strided(out, dtype, device, shape[k].ndim, shape[k].size, stride);
    return cr_tensor_new(out, dtype, device, shape[k].ndim, shape[k].size);
}

/* Allocates the results.  `into` is used as the only result unless it is NULL. */
static cr_status extern_results(cr_tensor **out, const cr_op *op, const cr_value *arg,
                                extern_call *c, cr_dtype compute, cr_frame *f, cr_tensor *into)
{
    cr_shape one,
        *shape = op->result_count == 1 ? &one : cr_alloc(op->result_count * sizeof one);
    cr_device device = CR_HOST;
    cr_status st = shape ? CR_OK : CR_MEMORY;

    if (!st)
        st = cr_common_device(&device, op, arg);
    c->device = device;
    if (!st && !(op->result_count == 1 && param_of_result(op, 0) >= 0))
        st = result_shapes(shape, op, c->arg, arg, device, f);
    for (int k = 0; !st && !into && k < op->result_count; k++)
        st = make_result(&out[k], op, k, arg, compute, shape, c, f);
    if (!st && into)
        out[0] = cr_keep(into);
    if (shape != &one)
        cr_free(shape);
    return st;
}

static bool is_empty_argument(const cr_value *v)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        if (!is_empty_argument(&v->list[i]))
            return false;
    return v->tag != CR_VIEW || !cr_numel(v->view->ndim, v->view->size);
}

/* True when no argument and no result has an element.  The function is then not called: it has
 * nothing to read or write, and could loop for hours over other huge sizes. */
static bool is_without_elements(const cr_op *op, const extern_call *c, const cr_view *views)
{
    for (int k = 0; k < op->result_count; k++)
        if (cr_numel(views[k].ndim, views[k].size))
            return false;
    for (int i = 0; i < op->param_count; i++)
        if (!is_empty_argument(&c->arg[i]))
            return false;
    return true;
}

/* A generator can fill only tensors of its kind of device. */
static cr_status check_generator(const cr_op *op, const cr_value *arg, cr_device device)
{
    for (int i = 0; i < op->param_count; i++) {
        if (arg[i].tag != CR_GENERATOR || !arg[i].generator)
            continue;
        cr_device own = cr_generator_device(arg[i].generator);
        if (own.kind != device.kind)
            return cr_fail(CR_RUNTIME,
                           "Expected a '%s' device type for generator but found '%s'",
                           cr_device_kind_name((cr_device_kind)device.kind),
                           cr_device_kind_name((cr_device_kind)own.kind));
    }
    return CR_OK;
}

/* CR_STATED=1: statements run where there is a kernel, too. */
static bool extern_prefers_statement;

void cr_extern_start(void) { extern_prefers_statement = cr_env_int(CR_ENV_CR_STATED) != 0; }

cr_status cr_run_on_views(const cr_op *op, const cr_value *arg, cr_view *out)
{
    bool declined;

    switch ((cr_does)op->does) {
    case CR_DOES_FOLD: return cr_run_fold_index(op, arg, out);
    case CR_DOES_SCAN: return cr_run_scan(op, arg, out);
    case CR_DOES_LOOP:
        if (!op->fn.on_views || extern_prefers_statement)
            return cr_run_stated(op, arg, out, &declined);
        return op->fn.on_views(arg, out);
    default: return op->fn.on_views(arg, out);
    }
}

/* True for a tensor that has all of its storage, and that nothing else refers to. */
static bool extern_is_alone(const cr_tensor *t)
{
    const cr_storage *s = t->storage;

    return t->count == 1 && t->address && !t->peer && !t->grad && !t->watched && !t->offset &&
           !t->conj && !t->neg && s->count == 1 && !s->followed && !s->exposed && !s->pinned &&
           !s->aliases && !s->pending && !s->traces && !s->release;
}

/* Gives `out` the memory of `made` where both are alone and laid out alike; false otherwise. */
static bool extern_takes_memory(cr_tensor *out, cr_tensor *made)
{
    cr_storage *own = out->storage, *its = made->storage;
    uint32_t version;

    if (!extern_is_alone(out) || !extern_is_alone(made) || own->size != its->size ||
        out->dtype != made->dtype || !cr_same_device(out->device, made->device) ||
        !cr_has_sizes(made, out->ndim, out->size) ||
        memcmp(out->stride, made->stride, out->ndim * sizeof *out->stride))
        return false;
    version = own->version;
    own->version = its->version;
    its->version = version;
    out->storage = its;
    made->storage = own;
    char *address = out->address;
    out->address = made->address;
    made->address = address;
    return true;
}

/* Computes the results by the composition that is beside the entry's kernel. */
static cr_status extern_run_composition(const cr_op *op, const cr_value *arg,
                                        cr_tensor *const *out)
{
    cr_value made[CR_MAX_RESULTS];
    cr_status st;

    CR_TRY(cr_run_composition(op, arg, made));
    for (int k = 0; k < op->result_count; k++)
        if (!extern_takes_memory(out[k], made[k].t))
            CR_GO(cr_copy_tensor(out[k], made[k].t));
done:
    cr_drop_values(made, op->result_count);
    return st;
}

/* Whether the host has a function beside the composition for results of this dtype. */
static bool extern_has_function(const cr_op *op, cr_dtype t)
{
    return op->fn.on_views && !extern_prefers_statement &&
           (!op->fn.dtypes || op->fn.dtypes >> t & 1);
}

static cr_status extern_run_on(const cr_op *op, const cr_value *arg, extern_call *c,
                               cr_tensor *const *out, cr_view *views)
{
    const char *declines = cr_command_declines;
    bool declined;

    if (cr_is_host(c->device))
        return op->does == CR_DOES_STEPS && !extern_has_function(op, (cr_dtype)out[0]->dtype)
                   ? extern_run_composition(op, arg, out)
                   : cr_run_on_views(op, c->arg, views);
    if (op->does == CR_DOES_FOLD || (op->does == CR_DOES_SCAN && cr_has_scans(c->device)))
        return cr_run_on_views(op, c->arg, views);
    CR_TRY(cr_remote_kernel(op, c->arg, views, c->device, &declines));
    declined = declines != NULL;
    if (declined && op->does == CR_DOES_LOOP)
        CR_TRY(cr_run_stated(op, c->arg, views, &declined));
    if (declined && op->words & CR_WORD_HOST_INDICES)
        CR_TRY(cr_run_index_list(op, c->arg, views, &declined));
    if (!declined)
        return CR_OK;
    return op->does == CR_DOES_STEPS ? extern_run_composition(op, arg, out)
                                     : cr_remote_extern(op, c->arg, views, c->device, declines);
}

static void raise_versions(const cr_op *op, cr_tensor *const *out)
{
    for (int k = 0; k < op->result_count; k++)
        if (op->result[k].written)
            out[k]->storage->version++;
}

/* *made: the tensor that the function writes, for result `out`: row-major on the host, unless a
 * caller gave the result.  The call keeps a new one. */
static cr_status row_major_result(cr_tensor **made, extern_call *c, const cr_op *op,
                                  cr_tensor *out, const cr_tensor *into)
{
    cr_tensor *t;

    *made = out;
    if (!op->format.rule || out->contiguous || into || !cr_is_host(out->device) ||
        writes_any_strides(op))
        return CR_OK;
    CR_TRY(cr_tensor_new(&t, (cr_dtype)out->dtype, out->device, out->ndim, out->size));
    *made = t;
    return call_keep(c, t);
}

static cr_status call_extern(const cr_op *op, const cr_value *arg, extern_call *c,
                             cr_tensor *const *out, const cr_tensor *into)
{
    cr_view views[CR_MAX_RESULTS];
    cr_tensor *made[CR_MAX_RESULTS];

    for (int k = 0; k < op->result_count; k++) {
        if (!cr_has_bytes(out[k]->device)) {
            raise_versions(op, out);
            return CR_OK;
        }
        CR_TRY(row_major_result(&made[k], c, op, out[k], into));
        views[k] = cr_view_of(made[k]);
    }
    if (c->fake)
        return cr_fail(CR_RUNTIME, "Tensor on device meta is not on the expected device cpu!");
    CR_TRY(check_generator(op, c->arg, c->device));
    if (!is_without_elements(op, c, views))
        CR_TRY(extern_run_on(op, arg, c, made, views));
    for (int k = 0; k < op->result_count; k++)
        if (made[k] != out[k])
            CR_TRY(cr_copy_tensor(out[k], made[k]));
    raise_versions(op, out);
    return CR_OK;
}

static cr_status extern_compute_type(cr_dtype *out, const cr_op *op, const cr_value *arg,
                                     cr_frame *f)
{
    *out = CR_F32;
    if (!op->type && !(op->param_count && op->param[0].type == CR_T_TENSOR))
        return CR_OK;
    return cr_compute_type(out, op, arg, f);
}

static cr_status run_extern(const cr_op *op, const cr_value *arg, cr_tensor *into,
                            cr_value *result)
{
    extern_call c;
    cr_tensor *out[CR_MAX_RESULTS] = {0};
    cr_dtype compute;
    cr_frame f;
    cr_status st;

    call_start(&c, op);
    cr_frame_init(&f, op, arg);
    CR_GO(cr_run_checks(op, &f));
    CR_GO(extern_compute_type(&compute, op, arg, &f));
    CR_GO(cr_check_numbers(op, arg, compute));
    CR_GO(present_all(&c, op, arg, compute));
    CR_GO(extern_results(out, op, arg, &c, compute, &f, into));
    CR_GO(call_extern(op, arg, &c, out, into));
done:
    for (int k = 0; k < op->result_count; k++) {
        if (st)
            cr_drop(out[k]);
        else
            result[k] = cr_of_tensor(out[k]);
    }
    cr_frame_drop(&f);
    call_drop(&c, op);
    return st;
}

cr_status cr_run_extern(const cr_op *op, const cr_value *arg, cr_value *result)
{
    return run_extern(op, arg, NULL, result);
}

cr_status cr_run_extern_into(const cr_op *op, const cr_value *arg, cr_tensor *out)
{
    cr_value result;

    CR_TRY(run_extern(op, arg, out, &result));
    cr_drop_values(&result, 1);
    return CR_OK;
}

/* --- batches of calls --- */

bool cr_extern_takes_batch(const cr_op *op, const cr_value *whole)
{
    cr_device device;

    if (op->kernel_stage != cr_run_extern || written_tensor(op, whole) ||
        cr_common_device(&device, op, whole))
        return false;
    return cr_is_host(device) && (op->does != CR_DOES_STEPS || !op->fn.dtypes) &&
           (op->does != CR_DOES_STEPS || (op->fn.on_views && !extern_prefers_statement));
}

/* The views of one example among the arguments of a batch. */
typedef struct {
    cr_value arg[CR_MAX_ARGS];
    cr_view view[CR_MAX_ARGS];
    cr_value *list[CR_MAX_ARGS]; /* views are behind it; NULL: none */
    int64_t step[CR_MAX_ARGS];   /* bytes from one example to the next */
} extern_example;

/* Shows the first example of a batch; `step`: bytes to the next one. */
static void example_view(cr_view *out, int64_t *step, const cr_view *batch)
{
    *out = *batch;
    *step = batch->stride[0] * (int64_t)cr_dtype_size(batch->dtype);
    out->size++;
    out->stride++;
    out->ndim--;
}

static bool example_is_mapped(const cr_value *one, const cr_value *whole)
{
    return one->tag == CR_TENSOR && one->t != whole->t;
}

static cr_status example_list(extern_example *e, int i, const cr_value *given,
                              const cr_value *arg, const cr_value *whole)
{
    uint32_t n = given->len;

    /* views, then their steps */
    e->list[i] = cr_alloc(n * (sizeof *e->list[i] + sizeof(cr_view) + sizeof(int64_t)) + 1);
    CR_NEED(e->list[i]);
    cr_view *view = (cr_view *)(e->list[i] + n);
    int64_t *step = (int64_t *)(view + n);
    for (uint32_t k = 0; k < n; k++) {
        e->list[i][k] = given->list[k];
        step[k] = 0;
        if (!example_is_mapped(&arg->list[k], &whole->list[k]))
            continue;
        example_view(&view[k], &step[k], given->list[k].view);
        e->list[i][k].view = &view[k];
    }
    e->arg[i] = (cr_value){.tag = CR_TENSORS, .len = n, .list = e->list[i]};
    return CR_OK;
}

static cr_status example_start(extern_example *e, const cr_op *op, const extern_call *c,
                               const cr_value *arg, const cr_value *whole)
{
    memset(e->list, 0, op->param_count * sizeof *e->list);
    for (int i = 0; i < op->param_count; i++) {
        e->arg[i] = c->arg[i];
        e->step[i] = 0;
        if (c->arg[i].tag == CR_TENSORS) {
            CR_TRY(example_list(e, i, &c->arg[i], &arg[i], &whole[i]));
        } else if (example_is_mapped(&arg[i], &whole[i])) {
            example_view(&e->view[i], &e->step[i], c->arg[i].view);
            e->arg[i].view = &e->view[i];
        }
    }
    return CR_OK;
}

static void example_next_list(cr_value *list, uint32_t n)
{
    cr_view *view = (cr_view *)(list + n);
    const int64_t *step = (const int64_t *)(view + n);

    for (uint32_t k = 0; k < n; k++)
        if (step[k])
            view[k].data += step[k];
}

static void example_next(extern_example *e, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (e->list[i])
            example_next_list(e->list[i], e->arg[i].len);
        else if (e->step[i])
            e->view[i].data += e->step[i];
}

static void example_drop(extern_example *e, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        cr_free(e->list[i]);
}

/* A batch of results k: each example has the strides that it has alone. */
static cr_status batch_result(cr_tensor **out, cr_tensor **filled, const cr_op *op, int k,
                              const cr_value *arg, const extern_example *e, cr_dtype dtype,
                              const cr_shape *shape, int64_t size)
{
    int64_t sizes[CR_MAX_DIMS + 1] = {size}, strides[CR_MAX_DIMS + 1], step = 1;
    cr_device device = CR_HOST;

    if (shape->ndim >= CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a batch of results has more than %d dims", CR_MAX_DIMS);
    for (int d = 0; d < shape->ndim; d++)
        sizes[d + 1] = shape->size[d];
    CR_TRY(cr_tensor_new(filled, dtype, device, shape->ndim + 1, sizes));
    *out = cr_keep(*filled);
    if (!op->format.rule || !format_strides(strides + 1, op, k, arg, e->arg, shape))
        return CR_OK;
    for (int d = 0; d < shape->ndim; d++)
        step = cr_step_over(step, shape->size[d]);
    strides[0] = step;
    cr_drop(*out);
    *out = NULL;
    CR_TRY(cr_tensor_new_strided(out, dtype, device, shape->ndim + 1, sizes, strides));
    if (!writes_any_strides(op))
        return CR_OK;
    cr_drop(*filled);
    *filled = cr_keep(*out);
    return CR_OK;
}

static cr_status batch_results(cr_tensor **out, cr_tensor **filled, const cr_op *op,
                               const cr_value *arg, const extern_example *e, cr_dtype compute,
                               int64_t size, cr_frame *f)
{
    cr_shape *shape = cr_alloc(op->result_count * sizeof *shape);
    cr_dtype dtype;
    cr_status st;

    CR_NEED(shape);
    CR_GO(result_shapes(shape, op, e->arg, arg, CR_HOST, f));
    for (int k = 0; k < op->result_count; k++) {
        CR_GO(cr_result_type(&dtype, op, k, compute, f));
        CR_GO(batch_result(&out[k], &filled[k], op, k, arg, e, dtype, &shape[k], size));
    }
done:
    cr_free(shape);
    return st;
}

static cr_status batch_run(const cr_op *op, extern_example *e, cr_tensor *const *filled,
                           int64_t size)
{
    cr_view views[CR_MAX_RESULTS], batch;
    int64_t step[CR_MAX_RESULTS];
    bool empty = true;

    for (int k = 0; k < op->result_count; k++) {
        batch = cr_view_of(filled[k]);
        example_view(&views[k], &step[k], &batch);
        empty &= !filled[k]->numel;
    }
    for (int i = 0; i < op->param_count; i++)
        empty &= is_empty_argument(&e->arg[i]);
    for (int64_t n = 0; !empty && n < size; n++) {
        CR_TRY(cr_run_on_views(op, e->arg, views));
        example_next(e, op);
        for (int k = 0; k < op->result_count; k++)
            views[k].data += step[k];
    }
    return CR_OK;
}

cr_status cr_run_extern_batch(const cr_op *op, const cr_value *arg, const cr_value *whole,
                              int64_t size, cr_value *result)
{
    cr_tensor *out[CR_MAX_RESULTS] = {0}, *filled[CR_MAX_RESULTS] = {0};
    extern_example e;
    extern_call c;
    cr_dtype compute;
    cr_frame f;
    cr_status st;

    call_start(&c, op);
    cr_frame_init(&f, op, arg);
    memset(e.list, 0, sizeof e.list);
    CR_GO(cr_run_checks(op, &f));
    CR_GO(extern_compute_type(&compute, op, arg, &f));
    CR_GO(cr_check_numbers(op, arg, compute));
    CR_GO(present_all(&c, op, whole, compute));
    CR_GO(example_start(&e, op, &c, arg, whole));
    CR_GO(batch_results(out, filled, op, arg, &e, compute, size, &f));
    CR_GO(batch_run(op, &e, filled, size));
    for (int k = 0; k < op->result_count; k++)
        if (filled[k] != out[k])
            CR_GO(cr_copy_tensor(out[k], filled[k]));
done:
    for (int k = 0; k < op->result_count; k++) {
        cr_drop(filled[k]);
        if (st)
            cr_drop(out[k]);
        else
            result[k] = cr_of_tensor(out[k]);
    }
    example_drop(&e, op);
    cr_frame_drop(&f);
    call_drop(&c, op);
    return st;
}
