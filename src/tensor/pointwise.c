/* Elementwise entries.
 *
 * The fast path is one kernel call without a plan, when all tensors are contiguous and have the
 * same size and the kernel's compute dtype.  All other calls are a command KERNEL. */
#include "base/parallel.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <string.h>

/* One operand of a kernel: its address and layout. */
typedef struct {
    char *data;
    const int64_t *size, *stride; /* elements; broadcast against the iteration space */
    int ndim;
} operand_view;

/* A call's operands: results, then tensors in schema order; numbers are values of the compute
 * type. */
typedef struct {
    int count;
    operand_view view[CR_MAX_OPERANDS];
    cr_host_values values;
    _Alignas(16) char number[CR_MAX_OPERANDS][16];
} operands;

/* The dtype in which a kernel reads a parameter. */
static cr_dtype wanted(const cr_op *op, int param, cr_dtype compute)
{
    return op->mask_params >> param & 1 ? CR_BOOL : cr_dtype_compute(compute);
}

static void put_tensor(operands *o, const cr_tensor *t, cr_dtype value)
{
    o->view[o->count] = (operand_view){t->address, t->size, t->stride, t->ndim};
    o->values.memory[o->count] = t->dtype;
    o->values.value[o->count++] = (uint8_t)value;
}

static void put_number(operands *o, cr_scalar number, cr_dtype value)
{
    cr_scalar_store(number, value, o->number[o->count]);
    o->view[o->count] = (operand_view){o->number[o->count], NULL, NULL, 0};
    o->values.memory[o->count] = o->values.value[o->count] = (uint8_t)value;
    o->count++;
}

/* Adds the arguments after the results. */
static cr_status put_arguments(operands *o, const cr_op *op, const cr_value *arg,
                               cr_dtype compute)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        int i = (int)CR_CTZ(mask);
        const cr_value *v = &arg[i];
        cr_dtype want = wanted(op, i, compute);
        if (v->tag == CR_TENSOR)
            put_tensor(o, v->t, want);
        else if (v->tag == CR_NUMBER)
            put_number(o, v->number, want);
        else
            return cr_fail(CR_TYPE, "%s(): argument '%s' must be Tensor, not None", op->name,
                           op->param[i].name);
    }
    return CR_OK;
}

/* --- the fast path --- */

/* The first tensor when all tensor arguments are contiguous, of one size and of the compute
 * type, and the result is row-major, or else NULL.  Beside a number, or where the result is
 * `like` a tensor, strides of dims of size 1 matter. */
static const cr_tensor *same_everywhere(const cr_op *op, const cr_value *arg, cr_dtype compute)
{
    const cr_tensor *first = NULL;
    bool exact = op->format.rule == CR_FORMAT_RULE_LIKE;

    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_NUMBER) {
            exact = true;
            continue;
        }
        if (v->tag != CR_TENSOR)
            return NULL;
        const cr_tensor *t = v->t;
        if (t->dtype != wanted(op, (int)CR_CTZ(mask), compute) || !t->contiguous || !t->address)
            return NULL;
        if (!first)
            first = t;
        else if (t->ndim != first->ndim ||
                 memcmp(t->size, first->size, t->ndim * sizeof *t->size))
            return NULL;
    }
    return first && exact && first->ndim > 1 &&
                   !cr_is_row_major(first->ndim, first->size, first->stride)
               ? NULL
               : first;
}

typedef struct {
    cr_kernel kernel;
    void *const *ptr;
    const int64_t *stride;
    const void *param;
    int64_t n;
    int count;
} span_call;

enum { SPAN = 4096, GRAIN_SPANS = 8 };

static void run_body_spans(void *context, int64_t begin, int64_t end)
{
    const span_call *c = context;
    int64_t from = begin * SPAN, to = end * SPAN < c->n ? end * SPAN : c->n;
    int64_t size[2] = {1, to - from};
    void *ptr[CR_MAX_OPERANDS];

    for (int k = 0; k < c->count; k++)
        ptr[k] = (char *)c->ptr[k] + from * c->stride[2 * k + 1];
    c->kernel(ptr, c->stride, size, c->param);
}

static void run_contiguous(cr_kernel kernel, void *const *ptr, const int64_t *stride, int count,
                           int64_t n, const void *param)
{
    if (CR_LIKELY(n <= SPAN * GRAIN_SPANS)) {
        int64_t size[2] = {1, n};
        if (n)
            kernel(ptr, stride, size, param);
        return;
    }
    span_call c = {kernel, ptr, stride, param, n, count};
    cr_parallel_for((n + SPAN - 1) / SPAN, GRAIN_SPANS, run_body_spans, &c);
}

/* One result, one kernel call. */
static cr_status run_body_short(const cr_op *op, const cr_value *arg, cr_tensor *out,
                                const cr_tensor *like, cr_dtype compute, cr_kernel kernel)
{
    void *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS];
    _Alignas(16) char number[CR_MAX_OPERANDS][16];
    cr_params params;
    int k = 1;

    ptr[0] = out->address;
    stride[0] = 0;
    stride[1] = (int64_t)cr_dtype_size((cr_dtype)out->dtype);
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1, k++) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        stride[2 * k] = 0;
        if (v->tag == CR_TENSOR) {
            ptr[k] = v->t->address;
            stride[2 * k + 1] = (int64_t)cr_dtype_size((cr_dtype)v->t->dtype);
        } else {
            cr_scalar_store(v->number, wanted(op, (int)CR_CTZ(mask), compute), number[k]);
            ptr[k] = number[k];
            stride[2 * k + 1] = 0;
        }
    }
    cr_fill_params(&params, op, arg, compute);
    run_contiguous(kernel, ptr, stride, k, like->numel, params.slot);
    return CR_OK;
}

/* --- the command --- */

/* Dims in the order of the first result's memory, merged where all operands allow it; steps are
 * bytes. */
static void lay_out(cr_space *s, const operands *o, int ndim, const int64_t *size)
{
    int64_t item[CR_MAX_OPERANDS];

    for (int k = 0; k < o->count; k++)
        item[k] = (int64_t)cr_dtype_size((cr_dtype)o->values.memory[k]);
    cr_space_start(s, o->count);
    for (int d = 0; d < ndim; d++) {
        int64_t *step = cr_space_add(s, size[d], d);
        for (int k = 0; k < o->count; k++) {
            const operand_view *v = &o->view[k];
            step[k] = cr_broadcast_step(v->ndim, v->size, v->stride, ndim, d) * item[k];
        }
    }
    cr_space_order(s);
    cr_space_merge(s, 0);
}

/* The last dims are the rows and the columns of the kernel. */
static cr_status launch_operands(cr_kernel kernel, const operands *o, const cr_tensor *out,
                                 const cr_params *params)
{
    cr_space s; /* not initialized: a space is long */
    cr_placed_kernel k = {
        .device = out->device, .fn = kernel, .cut = {.wide = true, .values = &o->values}};
    void *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS];

    lay_out(&s, o, out->ndim, out->size);
    const cr_space_dim *row = cr_space_last(&s, 1), *column = cr_space_last(&s, 0);
    for (int i = 0; i < o->count; i++) {
        ptr[i] = o->view[i].data;
        stride[2 * i] = row->step[i];
        stride[2 * i + 1] = column->size == 1 && i < o->values.results
                                ? (int64_t)cr_dtype_size((cr_dtype)o->values.memory[i])
                                : column->step[i];
    }
    return cr_launch_space(&k,
                           &(cr_launch){.operands = o->count,
                                        .pointer = ptr,
                                        .stride = stride,
                                        .size = {row->size, column->size},
                                        .param = params->slot,
                                        .param_bytes = sizeof params->slot},
                           &s, s.ndim > 2 ? s.ndim - 2 : 0);
}

static cr_status run_read(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                          cr_dtype compute, cr_kernel kernel, const cr_dtype *kernel_result)
{
    operands o;
    cr_params params;

    if (!cr_is_host(out[0]->device))
        return cr_remote_body(op, arg, out, compute, kernel_result);
    if (!out[0]->numel)
        return CR_OK;
    o.count = 0;
    o.values.results = op->result_count;
    for (int k = 0; k < op->result_count; k++)
        put_tensor(&o, out[k], kernel_result[k]);
    CR_TRY(put_arguments(&o, op, arg, compute));
    cr_fill_params(&params, op, arg, cr_dtype_compute(compute));
    return launch_operands(kernel, &o, out[0], &params);
}

/* *v rounded to `t`; a tensor is a cast that the caller owns. */
static cr_status round_argument(cr_value *v, cr_dtype t)
{
    _Alignas(16) char element[16];

    if (v->tag == CR_NUMBER) {
        cr_scalar_store(v->number, t, element);
        v->number = cr_scalar_load(t, element);
    }
    return v->tag == CR_TENSOR && v->t->dtype != t ? cr_cast_plain(&v->t, v->t, t) : CR_OK;
}

/* Clause `rounds`. */
static CR_NOINLINE cr_status run_rounded(const cr_op *op, const cr_value *arg,
                                         cr_tensor *const *out, cr_dtype compute,
                                         cr_kernel kernel, const cr_dtype *kernel_result)
{
    cr_value v[CR_MAX_ARGS];
    uint32_t left = op->rounds;
    cr_status st = CR_OK;

    memcpy(v, arg, op->param_count * sizeof *arg);
    for (; left && !st; left &= left - 1)
        st = round_argument(&v[CR_CTZ(left)], compute);
    if (!st)
        st = run_read(op, v, out, compute, kernel, kernel_result);
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1)
        if (v[CR_CTZ(mask)].tag == CR_TENSOR && v[CR_CTZ(mask)].t != arg[CR_CTZ(mask)].t)
            cr_drop(v[CR_CTZ(mask)].t);
    return st;
}

static cr_status run_plan(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                          cr_dtype compute, cr_kernel kernel, const cr_dtype *kernel_result)
{
    if (op->rounds && cr_dtype_is_float(compute) && compute != cr_dtype_compute(compute))
        return run_rounded(op, arg, out, compute, kernel, kernel_result);
    return run_read(op, arg, out, compute, kernel, kernel_result);
}

/* The dtype in which a kernel writes a result, from the result's dtype. */
static cr_dtype kernel_result_type(cr_dtype result, cr_dtype compute)
{
    return result == compute ? cr_dtype_compute(compute) : cr_dtype_compute(result);
}

static bool is_fake(cr_tensor *const *out, int n)
{
    for (int k = 0; k < n; k++)
        if (!cr_has_bytes(out[k]->device))
            return true;
    return false;
}

static cr_status make_results(const cr_op *op, const cr_value *arg, const cr_dtype *dtypes,
                              cr_tensor **out)
{
    cr_shape shape;
    cr_device device;

    CR_TRY(cr_broadcast(&shape, arg, op->param_count));
    CR_TRY(cr_common_device(&device, op, arg));
    for (int k = 0; k < op->result_count; k++) {
        cr_status st = cr_result_like(&out[k], dtypes[k], device, &shape, op, arg);
        if (st) {
            while (k--)
                cr_drop(out[k]);
            return st;
        }
    }
    return CR_OK;
}

static CR_NOINLINE cr_status run_long(const cr_op *op, const cr_value *arg, cr_value *result,
                                      cr_dtype compute, cr_kernel kernel,
                                      const cr_dtype *dtypes)
{
    cr_tensor *out[CR_MAX_RESULTS];
    cr_dtype written[CR_MAX_RESULTS];
    cr_status st = CR_OK;

    CR_TRY(make_results(op, arg, dtypes, out));
    for (int k = 0; k < op->result_count; k++)
        written[k] = kernel_result_type(dtypes[k], compute);
    if (!is_fake(out, op->result_count))
        st = run_plan(op, arg, out, compute, kernel, written);
    for (int k = 0; k < op->result_count; k++) {
        result[k] = cr_of_tensor(out[k]);
        if (st)
            cr_drop(out[k]);
    }
    return st;
}

/* --- divisors of integers --- */

#define HAS_ZERO(type)                                                                         \
    static bool has_zero_##type(const void *data, int64_t n)                                   \
    {                                                                                          \
        const type *x = data;                                                                  \
        bool any = false;                                                                      \
        for (int64_t i = 0; i < n; i++)                                                        \
            any |= x[i] == 0;                                                                  \
        return any;                                                                            \
    }
HAS_ZERO(uint8_t)
HAS_ZERO(uint16_t)
HAS_ZERO(uint32_t)
HAS_ZERO(uint64_t)

static bool has_zero(const cr_tensor *t)
{
    switch (cr_dtype_size(t->dtype)) {
    case 1: return has_zero_uint8_t(t->address, t->numel);
    case 2: return has_zero_uint16_t(t->address, t->numel);
    case 4: return has_zero_uint32_t(t->address, t->numel);
    default: return has_zero_uint64_t(t->address, t->numel);
    }
}

static bool is_empty_call(const cr_op *op, const cr_value *arg)
{
    bool empty = false;

    for (uint32_t m = op->tensor_params; m; m &= m - 1)
        empty |= arg[CR_CTZ(m)].tag == CR_TENSOR && arg[CR_CTZ(m)].t->numel == 0;
    return empty;
}

/* Word `divides`: of integers, no element of `other` may be zero.  Other devices do not
 * look. */
static CR_NOINLINE cr_status check_divisors(const cr_op *op, const cr_value *arg)
{
    const cr_value *other = &arg[cr_op_find_param(op, "other")];
    cr_tensor *plain = NULL;

    if (other->tag != CR_TENSOR || !other->t->address || !cr_is_host(other->t->device) ||
        is_empty_call(op, arg))
        return CR_OK;
    CR_TRY(cr_contiguous_plain(&plain, other->t));
    cr_status st = has_zero(plain) ? cr_fail(CR_RUNTIME, "ZeroDivisionError") : CR_OK;
    cr_drop(plain);
    return st;
}

/* Finds the dtypes of a call and the kernel for them. */
static inline cr_status decide(const cr_op *op, const cr_value *arg, cr_dtype *compute,
                               cr_dtype *dtypes, cr_kernel *kernel)
{
    CR_TRY(cr_decide_types(op, arg, compute, dtypes));
    CR_TRY(cr_find_kernel(kernel, op, *compute, CR_FORM_MAIN));
    return CR_UNLIKELY(op->words & CR_WORD_DIVIDES) && !cr_dtype_is_float(*compute)
               ? check_divisors(op, arg)
               : CR_OK;
}

cr_status cr_run_body(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_dtype compute, dtypes[CR_MAX_RESULTS];
    cr_kernel kernel;
    cr_tensor *out;

    CR_TRY(decide(op, arg, &compute, dtypes, &kernel));
    const cr_tensor *like = op->result_count == 1 && compute == cr_dtype_compute(compute)
                                ? same_everywhere(op, arg, compute)
                                : NULL;
    if (!like || kernel_result_type(dtypes[0], compute) != dtypes[0])
        return run_long(op, arg, result, compute, kernel, dtypes);
    CR_TRY(cr_tensor_new(&out, dtypes[0], CR_HOST, like->ndim, like->size));
    CR_TRY(run_body_short(op, arg, out, like, compute, kernel));
    result[0] = cr_of_tensor(out);
    return CR_OK;
}

cr_status cr_run_body_planned(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_dtype compute, dtypes[CR_MAX_RESULTS];
    cr_kernel kernel;

    CR_TRY(decide(op, arg, &compute, dtypes, &kernel));
    return run_long(op, arg, result, compute, kernel, dtypes);
}

cr_status cr_run_body_into(const cr_op *op, const cr_value *arg, cr_tensor *const *out)
{
    cr_dtype compute, dtypes[CR_MAX_RESULTS], written[CR_MAX_RESULTS];
    cr_kernel kernel;

    CR_TRY(decide(op, arg, &compute, dtypes, &kernel));
    for (int k = 0; k < op->result_count; k++) {
        if (!cr_can_cast(dtypes[k], (cr_dtype)out[k]->dtype))
            return cr_fail(
                CR_RUNTIME, "result type %s can't be cast to the desired output type %s",
                cr_dtype_infos[dtypes[k]].legacy, cr_dtype_infos[out[k]->dtype].legacy);
        written[k] = kernel_result_type(dtypes[k], compute);
    }
    if (is_fake(out, op->result_count))
        return CR_OK;
    if (op->result_count == 1 && out[0]->dtype == compute && dtypes[0] == compute &&
        compute == cr_dtype_compute(compute) && out[0]->contiguous &&
        cr_is_host(out[0]->device)) {
        const cr_tensor *like = same_everywhere(op, arg, compute);
        if (like && like->ndim == out[0]->ndim && like->numel == out[0]->numel)
            return run_body_short(op, arg, out[0], like, compute, kernel);
    }
    return run_plan(op, arg, out, compute, kernel, written);
}
