/* Calling operators: stages, then the kernel stage by kind of entry. */
#include "tensor/autocast.h"
#include "tensor/internal.h"
#include "tensor/profile.h"
#include "tensor/remote.h"
#include <string.h>

CR_THREAD cr_thread_state cr_thread;

cr_stage_fn cr_stage_fns[CR_STAGE_COUNT];

bool (*cr_autocast_takes)(const cr_op *op, const cr_value *arg);

static inline uint32_t list_stages(const cr_value *v)
{
    uint32_t bits = 0;

    for (uint32_t i = 0; i < v->len; i++)
        if (v->list[i].tag == CR_TENSOR)
            bits |= v->list[i].t->stages;
    return bits;
}

static inline uint32_t call_stages(const cr_op *op, const cr_value *arg)
{
    uint32_t bits =
        cr_thread.include | atomic_load_explicit(&cr_deferring, memory_order_relaxed);

    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (CR_LIKELY(v->tag == CR_TENSOR))
            bits |= v->t->stages;
        else if (v->tag == CR_TENSORS)
            bits |= list_stages(v);
    }
    return bits & ~cr_thread.exclude;
}

uint32_t cr_call_stages(const cr_op *op, const cr_value *arg) { return call_stages(op, arg); }

cr_status cr_call(const cr_op *op, const cr_value *arg, cr_value *result)
{
    uint32_t bits = call_stages(op, arg);

    if (CR_LIKELY(!bits))
        return op->kernel_stage(op, arg, result);
    return cr_stage_fns[CR_CTZ(bits)](op, arg, result);
}

cr_status cr_call_below(cr_stage stage, const cr_op *op, const cr_value *arg, cr_value *result)
{
    uint32_t was = cr_thread.exclude;

    cr_thread.exclude = was | CR_STAGES_UP_TO(stage);
    uint32_t bits = call_stages(op, arg) & ~CR_STAGE_BIT(PROFILE);
    cr_status st = CR_LIKELY(!bits) ? op->kernel_stage(op, arg, result)
                                    : cr_stage_fns[CR_CTZ(bits)](op, arg, result);
    cr_thread.exclude = was;
    return st;
}

cr_status cr_call_past(cr_stage stage, const cr_op *op, const cr_value *arg, cr_value *result)
{
    uint32_t bits = call_stages(op, arg) & ~((2u << stage) - 1);

    return bits ? cr_stage_fns[CR_CTZ(bits)](op, arg, result)
                : op->kernel_stage(op, arg, result);
}

/* Refuses meta tensors after a first tensor with dims that is not on meta. */
static cr_status check_device(const cr_op *op, const cr_value *arg)
{
    bool real = false, known = false;

    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag != CR_TENSOR)
            continue;
        if (known && real && cr_is_meta(v->t->device))
            return cr_fail(CR_RUNTIME,
                           "Tensor on device meta is not on the expected device cpu!");
        if (!known && v->t->ndim) {
            real = !cr_is_meta(v->t->device);
            known = true;
        }
    }
    return CR_OK;
}

/* Refuses tensors that wrap others beside tensors with bytes, where no handler is called. */
static cr_status check_wrappers(const cr_op *op, const cr_value *arg)
{
    bool wraps = false, bytes = false;

    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        uint32_t n = v->tag == CR_TENSORS ? v->len : 1;
        for (uint32_t i = 0; i < n; i++) {
            const cr_value *one = v->tag == CR_TENSORS ? &v->list[i] : v;
            if (one->tag != CR_TENSOR)
                continue;
            wraps |= cr_is_dispatched(one->t) && !one->t->address;
            bytes |= one->t->address != NULL;
        }
    }
    return wraps && bytes ? cr_fail(CR_RUNTIME,
                                    "%s: a tensor that wraps others has no elements, and "
                                    "__torch_dispatch__ is disabled",
                                    op->name)
                          : CR_OK;
}

/* Fakes run the same code, because every kernel stage checks for missing bytes. */
static cr_status fake_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    CR_TRY(check_wrappers(op, arg));
    if (op->does != CR_DOES_WHOLE)
        CR_TRY(check_device(op, arg));
    return op->kernel_stage(op, arg, result);
}

static cr_status call_run_map(const cr_op *op, const cr_value *arg, cr_value *result);
static cr_status call_run_whole(const cr_op *op, const cr_value *arg, cr_value *result);

cr_status cr_refuse_devices(cr_device a, cr_device b)
{
    if (cr_is_meta(a) || cr_is_meta(b))
        return cr_fail(CR_RUNTIME, "Tensor on device %s is not on the expected device %s!",
                       cr_device_print(b).text, cr_device_print(a).text);
    return cr_fail(CR_RUNTIME,
                   "Expected all tensors to be on the same device, but found at least two "
                   "devices, %s and %s!",
                   cr_device_print(a).text, cr_device_print(b).text);
}

static void follow_one(cr_tensor *t, void *context)
{
    const cr_tensor **emptied = context;

    cr_follow_storage(t);
    if (cr_is_emptied(t))
        *emptied = t;
}

/* Points the tensors to the present blocks of their storages.  Refuses those without a block,
 * but in views, in calls that give a tensor another storage or size, and in compositions, whose
 * parts come here themselves. */
static CR_NOINLINE cr_status follow_arguments(const cr_op *op, const cr_value *arg)
{
    const cr_tensor *emptied = NULL;
    bool reads = op->does != CR_DOES_MAP && (op->does != CR_DOES_IS || op->fused) &&
                 !(op->words & CR_WORD_RESETS);

    cr_each_tensor(op, arg, follow_one, &emptied);
    return emptied && reads ? cr_fail_emptied(emptied) : CR_OK;
}

/* Calls on other devices than the host.  Code that only passes addresses on is shared with the
 * host. */
static cr_status remote_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_device device;

    if (CR_UNLIKELY(atomic_load_explicit(&cr_storages_moved, memory_order_relaxed)))
        CR_TRY(follow_arguments(op, arg));
    if (op->does == CR_DOES_BODY)
        return cr_run_body_planned(op, arg, result);
    if (op->does == CR_DOES_WHOLE || op->does == CR_DOES_MAP ||
        (op->does == CR_DOES_IS && !op->fused))
        return op->kernel_stage(op, arg, result);
    if (op->words & CR_WORD_HOST_INDICES)
        return cr_remote_indices(op, arg, result);
    CR_TRY(cr_common_device(&device, op, arg));
    if (op->does == CR_DOES_INPLACE && !cr_same_device(device, arg[0].t->device))
        return cr_refuse_devices(arg[0].t->device, device);
    return op->kernel_stage(op, arg, result);
}

static const cr_call_fn kernel_stages[] = {
    [CR_DOES_BODY] = cr_run_body,     [CR_DOES_FOLD] = cr_run_fold,
    [CR_DOES_MAP] = call_run_map,     [CR_DOES_IS] = cr_run_composition,
    [CR_DOES_LOOP] = cr_run_extern,   [CR_DOES_SCAN] = cr_run_extern,
    [CR_DOES_STEPS] = cr_run_extern,  [CR_DOES_EXTERN] = cr_run_extern,
    [CR_DOES_WHOLE] = call_run_whole, [CR_DOES_INPLACE] = cr_run_inplace,
};

void cr_install_calls(void)
{
    cr_profile_install();
    cr_extern_start();
    cr_stage_fns[CR_STAGE_SPARSE] = cr_sparse_stage;
    cr_stage_fns[CR_STAGE_CONJ] = cr_conj_stage;
    cr_stage_fns[CR_STAGE_DEFER] = cr_defer_stage;
    cr_stage_fns[CR_STAGE_FAKE] = fake_stage;
    cr_stage_fns[CR_STAGE_KERNEL] = remote_stage;
    for (int i = 0; i < cr_ops_count(); i++) {
        cr_op *op = cr_ops_at(i);
        op->kernel_stage = op->fused ? cr_run_fused : kernel_stages[op->does];
        if (op->does == CR_DOES_FOLD &&
            cr_fn_keeps_index((cr_fn)cr_fn_find(op->fold.rule->name)))
            op->kernel_stage = cr_run_extern;
        if (op->does == CR_DOES_INPLACE)
            op->kernel_stage = cr_run_inplace;
        cr_classify_type(op);
        cr_classify_steady(op);
    }
}

cr_status cr_call_into(const cr_op *op, const cr_value *arg, cr_tensor *out)
{
    CR_ASSERT(op->does == CR_DOES_BODY && op->result_count == 1 && !op->fused);
    return cr_run_body_into(op, arg, &out);
}

cr_status cr_call_given(cr_value *result, const cr_op *op, const cr_value *given, int n)
{
    cr_value arg[CR_MAX_ARGS];

    for (int i = 0; i < op->param_count; i++)
        arg[i] = i < n ? given[i] : op->param[i].preset;
    return cr_call(op, arg, result);
}

cr_status cr_call_tensor(cr_tensor **out, const cr_op *op, const cr_value *arg, int n)
{
    cr_value result[CR_MAX_RESULTS];

    CR_TRY(cr_call_given(result, op, arg, n));
    *out = result[0].t;
    return CR_OK;
}

cr_status cr_call_named(const char *name, const cr_value *arg, int n, cr_value *result)
{
    const cr_op *op = cr_ops_find(name);

    return op ? cr_call_given(result, op, arg, n)
              : cr_fail(CR_RUNTIME, "no operator is called '%s'", name);
}

void cr_drop_values(cr_value *v, int n)
{
    for (int i = 0; i < n; i++) {
        if (v[i].tag == CR_TENSOR)
            cr_drop(v[i].t);
        else if (v[i].tag == CR_TENSORS) {
            cr_drop_values((cr_value *)v[i].list, (int)v[i].len);
            cr_free((cr_value *)v[i].list);
        }
        v[i].tag = CR_NONE;
    }
}

/* --- shared by the kinds --- */

void cr_fill_params(cr_params *out, const cr_op *op, const cr_value *arg, cr_dtype compute)
{
    int n = 0;

    for (int i = 0; i < op->param_count; i++) {
        switch (op->param[i].type) {
        case CR_T_SCALAR:
            if (arg[i].tag == CR_NUMBER)
                cr_scalar_store(arg[i].number, compute, out->slot[n]);
            n++;
            break;
        case CR_T_FLOAT:
            if (arg[i].tag == CR_FLOAT)
                cr_scalar_store(cr_scalar_float(arg[i].d), compute, out->slot[n]);
            n++;
            break;
        case CR_T_INT:
        case CR_T_BOOL:
            if (arg[i].tag == CR_INT || arg[i].tag == CR_TRUTH)
                cr_scalar_store(cr_scalar_int(arg[i].i), compute, out->slot[n]);
            n++;
            break;
        default: break;
        }
    }
}

/* True for a 0-d tensor on the host, which may be combined with tensors of any device. */
static bool device_goes_with(const cr_tensor *number)
{
    return !number->ndim && cr_is_host(number->device);
}

/* Updates the device of a call with one more tensor. */
static cr_status meet_device(cr_device *out, const cr_tensor **seen, const cr_tensor *t)
{
    bool fake = out->fake || t->device.fake;

    if (!*seen || cr_same_device((*seen)->device, t->device)) {
        *out = t->device;
        *seen = t;
    } else if (device_goes_with(*seen)) {
        *out = t->device;
        *seen = t;
    } else if (!device_goes_with(t)) {
        return cr_refuse_devices((*seen)->device, t->device);
    }
    out->fake = fake;
    return CR_OK;
}

/* The device of a factory's result: its argument, or the thread's default.  Refuses other
 * layouts than strided, which factories with kernels cannot make. */
static cr_status named_device(cr_device *out, const cr_op *op, const cr_value *arg)
{
    *out = cr_thread.device;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_LAYOUT && arg[i].tag == CR_LAYOUT_VAL && arg[i].i)
            return cr_fail(CR_NOT_IMPLEMENTED, "aten::%s makes strided tensors only, not %s",
                           op->name, cr_layout_names[arg[i].i]);
        else if (op->param[i].type == CR_T_DEVICE && arg[i].tag == CR_DEVICE_VAL)
            CR_TRY(cr_device_named(out, arg[i].i));
    out->fake = cr_thread.fakes;
    return CR_OK;
}

cr_status cr_common_device(cr_device *out, const cr_op *op, const cr_value *arg)
{
    const cr_tensor *seen = NULL;

    *out = CR_HOST;
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        uint32_t n = v->tag == CR_TENSORS ? v->len : 1;
        for (uint32_t i = 0; i < n; i++) {
            const cr_value *one = v->tag == CR_TENSORS ? &v->list[i] : v;
            if (one->tag == CR_TENSOR)
                CR_TRY(meet_device(out, &seen, one->t));
        }
    }
    return seen ? CR_OK : named_device(out, op, arg);
}

/* --- tensors among arguments --- */

static bool any_tensor_of(const cr_value *v, bool (*test)(const cr_tensor *))
{
    bool any = v->tag == CR_TENSOR && test(v->t);

    for (uint32_t i = 0; !any && v->tag == CR_TENSORS && i < v->len; i++)
        any = any_tensor_of(&v->list[i], test);
    return any;
}

bool cr_any_tensor(const cr_op *op, const cr_value *arg, bool (*test)(const cr_tensor *))
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1)
        if (any_tensor_of(&arg[CR_CTZ(mask)], test))
            return true;
    return false;
}

void cr_each_tensor_of(const cr_value *v, void (*fn)(cr_tensor *, void *), void *context)
{
    if (v->tag == CR_TENSOR)
        fn(v->t, context);
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        cr_each_tensor_of(&v->list[i], fn, context);
}

void cr_each_tensor(const cr_op *op, const cr_value *arg, void (*fn)(cr_tensor *, void *),
                    void *context)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1)
        cr_each_tensor_of(&arg[CR_CTZ(mask)], fn, context);
}

/* --- compositions --- */

/* A tensor of a composition's result that is a number: a fake where factories make fakes. */
static cr_status composition_number(cr_tensor **out, const cr_value *v)
{
    cr_scalar n = v->tag == CR_FLOAT    ? cr_scalar_float(v->d)
                  : v->tag == CR_NUMBER ? v->number
                                        : cr_scalar_int(v->i);
    cr_tensor *t;

    CR_TRY(cr_as_tensor(&t, &(cr_value){.tag = CR_NUMBER, .number = n}));
    t->number = false;
    *out = t;
    if (!cr_thread.fakes)
        return CR_OK;
    cr_status st = cr_tensor_new(out, (cr_dtype)t->dtype, cr_as_fake(t->device), 0, NULL);
    cr_drop(t);
    return st;
}

/* A tensor of a composition's result, owned. */
static cr_status composition_tensor(cr_value *out, const cr_value *v)
{
    cr_tensor *t;

    if (CR_LIKELY(v->len != CR_BORROWED_PART)) {
        *out = cr_of_tensor(cr_keep(v->t));
        return CR_OK;
    }
    CR_TRY(cr_tensor_alias(&t, v->t));
    *out = cr_of_tensor(t);
    return CR_OK;
}

static cr_status composition_result(cr_value *out, const cr_op *op, int k, cr_rule *body,
                                    cr_frame *f)
{
    cr_value v;
    cr_tensor *t;
    bool owned;

    if (op->result[k].type != CR_T_TENSOR && op->result[k].type != CR_T_TENSORS)
        return cr_rule_number(out, body, (cr_type)op->result[k].type, f);
    CR_TRY(cr_rule_result(f, body, &v, &owned));
    if (owned) {
        *out = v;
        return CR_OK;
    }
    if (v.tag == CR_TENSORS ||
        op->result[k].type == CR_T_TENSORS) { /* an empty list has the tag of ints */
        cr_value *list = cr_alloc(v.len * sizeof *list + 1);
        CR_NEED(list);
        for (uint32_t i = 0; i < v.len; i++) {
            list[i] = v.list[i];
            cr_keep(list[i].t);
        }
        *out = (cr_value){.tag = CR_TENSORS, .len = v.len, .list = list};
        return CR_OK;
    }
    if (v.tag != CR_TENSOR) {
        CR_TRY(composition_number(&t, &v));
        *out = cr_of_tensor(t);
        return CR_OK;
    }
    return composition_tensor(out, &v);
}

/* `is (a, b, c)` or one expression whose value is the list of all results. */
static cr_status composition_results(const cr_op *op, cr_frame *f, cr_rule *const *body,
                                     int count, cr_value *result)
{
    cr_value v;

    if (count == op->result_count) {
        for (int i = 0; i < op->result_count; i++) {
            cr_status st = composition_result(&result[i], op, i, body[i], f);
            if (st) {
                cr_drop_values(result, i);
                return st;
            }
        }
        return CR_OK;
    }
    CR_TRY(cr_frame_eval(f, body[0], &v));
    CR_ASSERT(v.tag == CR_TENSORS && v.len >= op->result_count);
    for (int i = 0; i < op->result_count; i++) {
        result[i] = v.list[i];
        if (result[i].tag == CR_TENSOR)
            cr_keep(result[i].t);
    }
    return CR_OK;
}

static bool composition_is_complex(const cr_value *v)
{
    return v->tag == CR_NUMBER && v->number.category == CR_CAT_COMPLEX;
}

/* `unreal`: the numbers that are complex although the compute type is not; they fit, so they
 * have no imaginary part. */
static cr_status composition_check_numbers(uint32_t *unreal, const cr_op *op, cr_frame *f,
                                           const cr_value *arg)
{
    cr_dtype compute;

    CR_TRY(cr_compute_type(&compute, op, arg, f));
    CR_TRY(cr_check_numbers(op, arg, compute));
    for (uint32_t mask = op->scalar_params; mask; mask &= mask - 1)
        if (!cr_dtype_is_complex(compute) && composition_is_complex(&arg[CR_CTZ(mask)]))
            *unreal |= mask & (0 - mask);
    return CR_OK;
}

/* Bodies promote numbers with tensors, so a complex number would make results complex. */
static cr_status composition_run_real(const cr_op *op, cr_rule *const *body, int count,
                                      const cr_value *arg, uint32_t unreal, cr_value *result)
{
    cr_value own[32]; /* as many parameters as a mask has bits */
    cr_frame f;
    cr_status st;

    memcpy(own, arg, (size_t)op->param_count * sizeof *own);
    for (; unreal; unreal &= unreal - 1) {
        cr_scalar *s = &own[CR_CTZ(unreal)].number;
        *s = cr_scalar_float(s->c.re);
    }
    cr_frame_init(&f, op, own);
    st = composition_results(op, &f, body, count, result);
    cr_frame_drop(&f);
    return st;
}

static cr_status composition_run(const cr_op *op, cr_rule *const *body, int count,
                                 const cr_value *arg, cr_value *result)
{
    uint32_t unreal = 0;
    cr_frame f;
    cr_status st;

    cr_frame_init(&f, op, arg);
    st = op->check_count ? cr_run_checks(op, &f) : CR_OK;
    if (!st && op->scalar_params)
        st = composition_check_numbers(&unreal, op, &f, arg);
    if (!st)
        st = CR_UNLIKELY(unreal) ? composition_run_real(op, body, count, arg, unreal, result)
                                 : composition_results(op, &f, body, count, result);
    cr_frame_drop(&f);
    return st;
}

cr_status cr_run_composition(const cr_op *op, const cr_value *arg, cr_value *result)
{
    return composition_run(op, op->body, op->body_count, arg, result);
}

cr_status cr_run_expanded(const cr_op *op, const cr_value *arg, cr_value *result)
{
    return composition_run(op, (cr_rule *const *)&op->expanded, 1, arg, result);
}

cr_status cr_run_functional(const cr_op *op, const cr_value *arg, cr_value *result)
{
    return composition_run(op, (cr_rule *const *)&op->functional, 1, arg, result);
}

cr_status cr_call_dispatch_parts(const cr_op *op, const cr_value *arg, cr_value *result)
{
    if (op->dispatch.calls && op->does == CR_DOES_MAP) { /* the errors of the view */
        cr_view view = cr_shape_view(arg[0].t);
        cr_geometry g;
        CR_TRY(op->fn.on_geometry(arg, &view, &g));
    }
    if (op->dispatch.calls)
        return composition_run(op, (cr_rule *const *)&op->dispatch.calls, 1, arg, result);
    if (op->does == CR_DOES_IS || (op->does == CR_DOES_STEPS && op->body_count))
        return cr_run_composition(op, arg, result);
    CR_TRY(cr_defer_settle_all(op, arg));
    return op->kernel_stage(op, arg, result);
}

/* The in-place form of a view. */
static cr_status call_remap(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t;
    cr_view view = cr_view_of(self);
    cr_geometry g;

    CR_TRY(op->fn.on_geometry(arg, &view, &g));
    CR_TRY(cr_tensor_set_geometry(self, &g));
    self->storage->version++;
    *result = cr_of_tensor(cr_keep(self));
    return CR_OK;
}

static cr_status call_run_whole(const cr_op *op, const cr_value *arg, cr_value *result)
{
    if (op->check_count) {
        cr_frame f;
        cr_frame_init(&f, op, arg);
        cr_status st = cr_run_checks(op, &f);
        cr_frame_drop(&f);
        CR_TRY(st);
    }
    return CR_UNLIKELY(op->fn.remaps) ? call_remap(op, arg, result)
                                      : op->fn.on_tensors(arg, result);
}

/* --- views --- */

static cr_status call_run_map(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *made;
    cr_geometry g;
    cr_view view;

    if (CR_UNLIKELY(op->check_count)) {
        cr_frame f;
        cr_frame_init(&f, op, arg);
        cr_status st = cr_run_checks(op, &f);
        cr_frame_drop(&f);
        CR_TRY(st);
    }
    view = cr_view_of(self);
    CR_TRY(op->fn.on_geometry(arg, &view, &g));
    CR_TRY(cr_tensor_over(&made, self->storage, (cr_dtype)self->dtype, g.ndim, g.size, g.stride,
                          CR_WRAP_ADD(self->offset, g.offset)));
    cr_storage_keep(self->storage);
    if (CR_UNLIKELY(made->inference != self->inference))
        cr_tensor_set_inference(made, self->inference);
    if (CR_UNLIKELY(cr_is_lazy(self)))
        cr_tensor_set_bits(made, self->conj, self->neg);
    result[0] = cr_of_tensor(made);
    return CR_OK;
}
