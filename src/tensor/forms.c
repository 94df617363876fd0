/* In-place and out= forms.
 *
 * A body writes directly to its target unless an operand overlaps it and is not exactly the
 * same elements.  In all other cases a result is computed and copied. */
#include "entry.h"
#include "ops/shape.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include "tensor/sparse.h"
#include <string.h>

cr_status cr_call_inplace(const cr_op *op, const cr_value *arg, cr_value *result)
{
    if (!op->inplace)
        return cr_fail(CR_RUNTIME, "%s has no in-place form", op->name);
    return cr_call(op->inplace, arg, result);
}

/* --- overlap --- */

static cr_overlap overlap_of(const cr_tensor *a, const cr_tensor *b)
{
    cr_view va = cr_view_of(a), vb = cr_view_of(b);

    if (CR_UNLIKELY(!va.data && a->storage == b->storage && a->storage->size)) {
        /* Places in a storage without bytes: any address will do. */
        static char start[1];
        va.data = cr_moved(start, a->offset, cr_dtype_size((cr_dtype)a->dtype));
        vb.data = cr_moved(start, b->offset, cr_dtype_size((cr_dtype)b->dtype));
    }
    return cr_overlap_of(&va, &vb);
}

bool cr_meets(const cr_tensor *a, const cr_tensor *b)
{
    cr_overlap overlap = overlap_of(a, b);

    return overlap != CR_APART && (overlap != CR_SAME || a->dtype != b->dtype);
}

static bool overlaps_operand(const cr_op *op, const cr_value *arg, const cr_tensor *out)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_TENSOR && cr_meets(out, v->t))
            return true;
    }
    return false;
}

cr_status cr_refuse_internal_overlap(void)
{
    return cr_fail(CR_RUNTIME,
                   "unsupported operation: more than one element of the written-to tensor "
                   "refers to a single memory location. Please clone() the tensor before "
                   "performing the operation.");
}

cr_status cr_check_target(const cr_tensor *out)
{
    return cr_has_internal_overlap(out) ? cr_refuse_internal_overlap() : CR_OK;
}

/* Whether self, whose elements share memory, is written by clause `expanded`. */
static bool takes_expanded(const cr_op *op, const cr_tensor *self)
{
    return op->expanded && cr_has_internal_overlap(self);
}

cr_status cr_check_shared(const cr_tensor *out, const cr_tensor *arg, bool same)
{
    cr_overlap overlap;

    if (!arg->numel || !out->numel)
        return CR_OK;
    overlap = arg == out ? CR_SAME : overlap_of(out, arg);
    if (overlap != CR_PARTLY && (same || overlap != CR_SAME))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "unsupported operation: some elements of the input tensor and the "
                   "written-to tensor refer to a single memory location. Please clone() the "
                   "tensor before performing the operation.");
}

static cr_status check_overlap_with(const cr_op *op, const cr_value *v, const cr_tensor *out)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        CR_TRY(check_overlap_with(op, &v->list[i], out));
    return v->tag == CR_TENSOR ? cr_check_shared(out, v->t, !(op->out.rule & CR_OUT_APART))
                               : CR_OK;
}

/* Refuses a target that shares elements with an argument, as far as clause `out` says so. */
static cr_status check_overlap(const cr_op *op, const cr_value *arg, const cr_tensor *out)
{
    if (!(op->out.rule & (CR_OUT_ALIGNED | CR_OUT_APART)))
        return CR_OK;
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1)
        CR_TRY(check_overlap_with(op, &arg[CR_CTZ(mask)], out));
    return CR_OK;
}

/* --- in place --- */

/* Refuses values whose broadcast sizes differ from those of self. */
static cr_status check_inplace_size(const cr_tensor *self, const cr_value *arg, int n)
{
    cr_shape shape;

    CR_TRY(cr_broadcast(&shape, arg, n));
    if (shape.ndim == self->ndim &&
        !memcmp(shape.size, self->size, self->ndim * sizeof *self->size))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                   cr_view_text(self), cr_view_text(&shape));
}

static cr_status check_cast(const cr_tensor *self, const cr_tensor *from)
{
    if (cr_can_cast((cr_dtype)from->dtype, (cr_dtype)self->dtype))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "result type %s can't be cast to the desired output type %s",
                   cr_dtype_infos[from->dtype].legacy, cr_dtype_infos[self->dtype].legacy);
}

static cr_status copy_into(cr_tensor *self, cr_tensor *from)
{
    return cr_has_elements(self) && cr_has_elements(from) ? cr_copy_tensor(self, from) : CR_OK;
}

/* *changed: false for a composition that returned self, as dropout of no element does. */
static cr_status inplace_by_copy(const cr_op *op, const cr_value *arg, bool *changed)
{
    cr_tensor *self = arg[0].t;
    cr_value made[CR_MAX_RESULTS];

    CR_TRY(op->kernel_stage(op, arg, made));
    cr_tensor *from = made[0].t;
    cr_status st = CR_OK;
    *changed = from != self;
    if (!cr_has_sizes(from, self->ndim, self->size))
        st = check_inplace_size(self, made, 1);
    if (!st && *changed)
        st = check_cast(self, from);
    if (!st && *changed)
        st = copy_into(self, from);
    cr_drop_values(made, op->result_count);
    return st;
}

/* True when a kernel may write self itself: it changes elements one after the other, so no
 * other operand may share their memory. */
static bool may_run_in_place(const cr_op *op, const cr_value *arg)
{
    if (!cr_op_on_views(op) || !(op->words & CR_WORD_INPLACE))
        return false;
    for (uint32_t mask = op->tensor_params & ~1u; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_TENSOR && overlap_of(arg[0].t, v->t) != CR_APART)
            return false;
    }
    return true;
}

/* Refuses to write a fake's missing elements to a tensor with bytes. */
static cr_status check_written_device(const cr_op *op, const cr_value *arg)
{
    if (!cr_has_bytes(arg[0].t->device))
        return CR_OK;
    for (uint32_t mask = op->tensor_params & ~1u; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_TENSOR && !cr_has_bytes(v->t->device))
            return cr_fail(CR_RUNTIME,
                           "Tensor on device meta is not on the expected device cpu!");
    }
    return CR_OK;
}

/* Writes a self whose elements share memory by its clause `expanded`. */
static cr_status write_expanded(const cr_op *of, const cr_value *arg)
{
    cr_value made = {0}, memory = {0};
    cr_status st;

    CR_GO(cr_call_given(&memory, cr_entry._memory_of, arg, 1));
    CR_GO(cr_run_expanded(of, arg, &made));
    CR_GO(check_cast(arg[0].t, made.t));
    CR_GO(copy_into(memory.t, made.t));
done:
    cr_drop_values(&made, 1);
    cr_drop_values(&memory, 1);
    return st;
}

/* Makes the checks of a call on fakes. */
static cr_status compute_only(const cr_op *of, const cr_value *arg)
{
    cr_value made[CR_MAX_RESULTS];

    CR_TRY(of->kernel_stage(of, arg, made));
    cr_drop_values(made, of->result_count);
    return CR_OK;
}

static cr_status run_inplace_expanded(const cr_op *of, const cr_value *arg, cr_value *result)
{
    CR_TRY(check_written_device(of, arg));
    CR_TRY(check_overlap(of, arg, arg[0].t));
    CR_TRY(cr_has_bytes(arg[0].t->device) ? write_expanded(of, arg) : compute_only(of, arg));
    arg[0].t->storage->version++;
    result[0] = cr_of_tensor(cr_keep(arg[0].t));
    return CR_OK;
}

cr_status cr_run_inplace(const cr_op *op, const cr_value *arg, cr_value *result)
{
    const cr_op *of = op->inplace_of;
    cr_tensor *self = arg[0].t;
    bool changed = true;
    cr_status st;

    if (CR_UNLIKELY(takes_expanded(of, self)))
        return run_inplace_expanded(of, arg, result);
    CR_TRY(cr_check_target(self));
    CR_TRY(check_written_device(of, arg));
    CR_TRY(check_overlap(of, arg, self));
    if (of->does == CR_DOES_BODY) {
        CR_TRY(check_inplace_size(self, arg, of->param_count));
        st = overlaps_operand(of, arg, self) ? inplace_by_copy(of, arg, &changed)
                                             : cr_run_body_into(of, arg, &self);
    } else if (may_run_in_place(of, arg)) {
        st = cr_run_extern_into(of, arg, self);
    } else {
        st = inplace_by_copy(of, arg, &changed);
    }
    if (st)
        return st;
    self->storage->version += changed;
    result[0] = cr_of_tensor(cr_keep(self));
    return CR_OK;
}

/* --- out= --- */

static bool forms_needs_grad(const cr_tensor *t) { return t->requires_grad; }

/* The strides that `out` gets when its sizes are not the result's: those of the result. */
static void strides_to_fit(int64_t *stride, const cr_tensor *made)
{
    if (cr_is_dense(made))
        memcpy(stride, made->stride, made->ndim * sizeof *stride);
    else
        cr_row_major_strides(stride, made->ndim, made->size);
}

/* Gives `out` the result's sizes and strides and grows its storage when needed. */
static cr_status fit_target(cr_tensor *out, const cr_tensor *made)
{
    cr_geometry g = {.ndim = made->ndim, .offset = 0};
    uint64_t need;

    if (cr_has_sizes(out, made->ndim, made->size))
        return CR_OK;
    memcpy(g.size, made->size, made->ndim * sizeof *g.size);
    strides_to_fit(g.stride, made);
    CR_TRY(cr_view_bytes(&need, (cr_dtype)out->dtype, out->offset, g.ndim, g.size, g.stride));
    if (out->storage->size < need)
        CR_TRY(cr_storage_resize(out->storage, need));
    return cr_tensor_set_geometry(out, &g);
}

static cr_status call_on(const cr_op *op, cr_tensor *out, cr_value arg)
{
    cr_value result;

    CR_TRY(cr_call_given(&result, op, (cr_value[]){cr_of_tensor(out), arg}, 2));
    cr_drop_values(&result, 1);
    return CR_OK;
}

/* The same by calls of operators: a recorder or a handler (__torch_dispatch__) gets them. */
static cr_status deliver_by_calls(cr_tensor *made, cr_tensor *out)
{
    int64_t stride[CR_MAX_DIMS];
    cr_value result;

    if (!cr_has_sizes(out, made->ndim, made->size)) {
        CR_TRY(call_on(cr_entry.resize_, out, cr_of_ints(made->size, made->ndim)));
        strides_to_fit(stride, made);
        if (memcmp(out->stride, stride, made->ndim * sizeof *stride)) {
            CR_TRY(cr_call_given(&result, cr_entry.as_strided_,
                                 (cr_value[]){cr_of_tensor(out),
                                              cr_of_ints(made->size, made->ndim),
                                              cr_of_ints(stride, made->ndim)},
                                 3));
            cr_drop_values(&result, 1);
        }
    }
    return call_on(cr_entry.copy_, out, cr_of_tensor(made));
}

static bool calls_are_recorded(void)
{
    return cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(CAPTURE);
}

void cr_numbers_were_elements(void)
{
    cr_sizes_of_values = cr_sizes_of_values || calls_are_recorded();
}

/* The text of a message: {result} and {out} are dtypes' names, {result_c} and {out_c} their
 * names in C++. */
static cr_status refuse_out(const cr_op *op, cr_dtype made, cr_dtype out)
{
    const char *at = op->out.message ? op->out.message
                                     : "Expected out tensor to have dtype {result_c}, but got "
                                       "{out_c} instead";
    const char *const names[] = {
        "{result}",   cr_dtype_infos[made].legacy, "{out}",   cr_dtype_infos[out].legacy,
        "{result_c}", cr_dtype_cpp_name(made),     "{out_c}", cr_dtype_cpp_name(out)};
    cr_text text = {0};

    while (*at) {
        size_t k = 0;
        while (k < CR_LEN(names) && strncmp(at, names[k], strlen(names[k])))
            k += 2;
        cr_text_put_n(&text, k < CR_LEN(names) ? names[k + 1] : at,
                      k < CR_LEN(names) ? strlen(names[k + 1]) : 1);
        at += k < CR_LEN(names) ? strlen(names[k]) : 1;
    }
    cr_status st = cr_fail((cr_status)op->out.error, "%s", cr_text_str(&text));
    cr_text_drop(&text);
    return st;
}

static cr_status check_out_type(const cr_op *op, const cr_tensor *made, const cr_tensor *out)
{
    bool fits = op->out.rule & (CR_OUT_EXACT | CR_OUT_TYPED) ? made->dtype == out->dtype
                : op->out.rule & CR_OUT_BOOLS ? out->dtype == CR_BOOL || out->dtype == CR_U8
                : op->out.rule & CR_OUT_ANY
                    ? true
                    : cr_can_cast((cr_dtype)made->dtype, (cr_dtype)out->dtype);

    if (fits)
        return CR_OK;
    return op->out.rule & (CR_OUT_EXACT | CR_OUT_TYPED) || op->out.message
               ? refuse_out(op, (cr_dtype)made->dtype, (cr_dtype)out->dtype)
               : check_cast(out, made);
}

/* A result or an `out` of a sparse layout. */
static cr_status deliver_sparse(const cr_tensor *made, cr_tensor *out)
{
    if (made->layout != out->layout)
        return cr_fail(CR_RUNTIME, "Expected out tensor to have layout %s, but got %s instead",
                       cr_layout_text(made->layout), cr_layout_text(out->layout));
    if (made->dtype != out->dtype)
        return cr_fail(CR_RUNTIME, "Expected out tensor to have dtype %s, but got %s instead",
                       cr_dtype_cpp_name((cr_dtype)made->dtype),
                       cr_dtype_cpp_name((cr_dtype)out->dtype));
    return cr_sparse_assign(out, made);
}

static cr_status deliver_out(const cr_op *op, const cr_value *made, cr_tensor *out)
{
    if (!cr_same_device(out->device, made->t->device))
        return cr_fail(CR_RUNTIME, "Expected out tensor to have device %s, but got %s instead",
                       cr_device_print(made->t->device).text,
                       cr_device_print(out->device).text);
    if (CR_UNLIKELY(made->t->layout || out->layout))
        return deliver_sparse(made->t, out);
    CR_TRY(check_out_type(op, made->t, out));
    CR_TRY(cr_check_target(out));
    if (calls_are_recorded() || cr_is_dispatched(made->t))
        return deliver_by_calls(made->t, out);
    CR_TRY(fit_target(out, made->t));
    CR_TRY(copy_into(out, made->t));
    out->storage->version++;
    return CR_OK;
}

/* The parameter whose default is the dtype of `out`: that of a factory, and with `out typed`.
 * -1: none. */
static int dtype_of_out(const cr_op *op)
{
    bool makes =
        cr_op_find_param(op, "device") >= 0 && ((op->forms & CR_AS_OUT) || !op->tensor_params);

    return makes || (op->out.rule & CR_OUT_TYPED) ? cr_op_find_param(op, "dtype") : -1;
}

static bool is_default(const cr_param *p, const cr_value *v)
{
    return v->tag == CR_NONE ||
           (p->has_default && p->preset.tag == CR_DTYPE_VAL && v->i == p->preset.i);
}

/* The call.  The device of `out` is the default of a factory's `device`. */
static cr_status call_for_out(const cr_op *op, const cr_value *arg, const cr_tensor *out,
                              cr_value *made)
{
    cr_value given[CR_MAX_ARGS];
    int dtype = dtype_of_out(op);
    int device = op->tensor_params ? -1 : cr_op_find_param(op, "device");

    memcpy(given, arg, op->param_count * sizeof *given);
    if (dtype >= 0 && is_default(&op->param[dtype], &arg[dtype]))
        given[dtype] = cr_of_dtype((cr_dtype)out->dtype);
    if (device >= 0 && arg[device].tag == CR_NONE)
        given[device] = (cr_value){.tag = CR_DEVICE_VAL, .i = cr_packed_device(out->device)};
    return cr_call(op, given, made);
}

static cr_status call_and_deliver(const cr_op *op, const cr_value *arg, cr_tensor *const *out)
{
    cr_value made[CR_MAX_RESULTS];
    cr_status st = CR_OK;

    for (int k = 0; k < op->result_count; k++)
        CR_TRY(check_overlap(op, arg, out[k]));
    CR_TRY(call_for_out(op, arg, out[0], made));
    for (int k = 0; !st && k < op->result_count; k++)
        if (made[k].tag == CR_TENSOR) /* masked results are none */
            st = deliver_out(op, &made[k], out[k]);
    cr_drop_values(made, op->result_count);
    return st;
}

/* Results that are written to given tensors have no history. */
static cr_status refuse_history(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                                int n)
{
    bool recording = !cr_thread.no_grad;

    for (int k = 0; k < n; k++)
        if (recording && (cr_any_tensor(op, arg, forms_needs_grad) || out[k]->requires_grad))
            return cr_fail(CR_RUNTIME,
                           "%s(): functions with out=... arguments don't support automatic "
                           "differentiation, but one of the arguments requires grad.",
                           op->name);
    return CR_OK;
}

static uint32_t out_stages(uint32_t excluded)
{
    return excluded | (CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD) & ~CR_STAGE_BIT(CAPTURE));
}

static cr_status deliver_list(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                              int n)
{
    cr_value made;
    cr_status st = CR_OK;

    for (int k = 0; k < n; k++)
        CR_TRY(check_overlap(op, arg, out[k]));
    CR_TRY(cr_call(op, arg, &made));
    if (made.len != (uint32_t)n)
        st = cr_fail(CR_RUNTIME, "%s: expected out to have %u tensors, but got %d", op->name,
                     made.len, n);
    for (int k = 0; !st && k < n; k++)
        st = deliver_out(op, &made.list[k], out[k]);
    cr_drop_values(&made, 1);
    return st;
}

cr_status cr_call_out_list(const cr_op *op, const cr_value *arg, cr_tensor *const *out, int n)
{
    uint32_t was = cr_thread.exclude;
    cr_status st;

    CR_TRY(refuse_history(op, arg, out, n));
    cr_thread.exclude = out_stages(was);
    st = deliver_list(op, arg, out, n);
    cr_thread.exclude = was;
    return st;
}

cr_status cr_call_out(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                      cr_value *result)
{
    uint32_t was = cr_thread.exclude;
    cr_status st;

    CR_TRY(refuse_history(op, arg, out, op->result_count));
    cr_thread.exclude = out_stages(was);
    st = call_and_deliver(op, arg, out);
    cr_thread.exclude = was;
    for (int k = 0; !st && k < op->result_count; k++)
        result[k] = cr_of_tensor(cr_keep(out[k]));
    return st;
}
