/* Running a program.
 *
 * A frame has the tensors by slot, and memory for lists of tensors and for the operands of a
 * group.  Small frames are on the stack.  A program keeps one large frame for its next run. */
#include "compile/program_impl.h"
#include "space/space.h"
#include "tensor/defer.h"
#include "tensor/geometry.h"
#include "tensor/profile.h"
#include "tensor/remote.h"
#include <string.h>

typedef struct {
    const cr_program_steps *p;
    const cr_sized_steps *sizes;
    const cr_step_sizes *now; /* of the step that runs */
    cr_tensor **slot;
    cr_value *lists;
    cr_tensor **operands;
    const cr_scalar *number;       /* values of the graph's symbols */
    cr_tensor **own;               /* inputs that the run may drop, or NULL */
    const cr_program_taker *taker; /* or NULL */
    uint32_t exclude;              /* the caller's */
    bool no_grad;
    cr_memory_mode mode;
    uint32_t tracking; /* stages excluded in calls that autograd has to see */
    bool direct;       /* other calls go straight to their kernels (no autocast) */
} machine;

/* --- inputs --- */

/* Calls that wait read what the input has now, and may make what the run reads. */
static cr_status settle_input(cr_tensor *t, bool written)
{
    if (written && !t->layout && !t->storage->device.fake)
        CR_TRY(cr_defer_before_write(t->storage));
    return cr_defer_settle(t);
}

static cr_status take_inputs(const machine *m, cr_tensor *const *input)
{
    const cr_program_steps *p = m->p;

    for (uint32_t i = 0; i < p->frame.inputs; i++) {
        if (CR_UNLIKELY(!cr_tensor_is_of(input[i], m->sizes->input[i])))
            return cr_refuse_tensor(p->g->input[i], input[i], "the program");
        if (CR_UNLIKELY(input[i]->stages & CR_STAGE_BIT(DEFER) || atomic_load(&cr_defer_live)))
            CR_TRY(settle_input(input[i], p->writes));
        if (CR_UNLIKELY(!input[i]->address && cr_is_emptied(input[i])))
            return cr_fail_emptied(input[i]);
        m->slot[i] = input[i];
    }
    if (p->constants.len)
        memcpy(m->slot + p->frame.inputs, p->constants.at,
               p->constants.len * sizeof *p->constants.at);
    memset(m->slot + p->frame.first_made, 0,
           (p->frame.slots - p->frame.first_made) * sizeof *m->slot);
    return CR_OK;
}

/* --- steps --- */

/* Stores `t` in its slot and takes the reference. */
static inline void put(const machine *m, uint32_t slot, cr_tensor *t)
{
    if (CR_LIKELY(slot != CR_NO_SLOT))
        m->slot[slot] = t;
    else
        cr_drop(t);
}

/* Whether the strides are those of the type in dims of size 1, too, which later calls may
 * see. */
static bool has_strides_of(const cr_tensor *t, const cr_gtype *type)
{
    int64_t stride = 1;

    if (type->stride)
        return !memcmp(t->stride, type->stride, t->ndim * sizeof *t->stride);
    for (int d = t->ndim - 1; d >= 0; stride *= t->size[d--])
        if (t->stride[d] != stride)
            return false;
    return true;
}

/* True when a result may be written to the memory of `t`: the run has the only reference to the
 * tensor and to its storage, the storage has no more bytes, and the type is the planned one,
 * which strides without elements do not show. */
static bool may_take_over(const cr_tensor *t, const cr_gtype *type)
{
    return t && atomic_load_explicit(&t->count, memory_order_acquire) == 1 && !t->peer &&
           !t->grad && atomic_load_explicit(&t->storage->count, memory_order_acquire) == 1 &&
           !t->storage->release && cr_tensor_is_of(t, type) && t->contiguous && t->numel &&
           has_strides_of(t, type) &&
           t->storage->size == (size_t)t->numel * cr_dtype_size((cr_dtype)t->dtype);
}

/* Replaces symbols in the arguments by the numbers of this run. */
static CR_NOINLINE void load_numbers(const machine *m, const cr_step *s, cr_value *arg)
{
    for (int i = 0; i < s->call.arg_count; i++) {
        if (arg[i].tag == CR_FLOAT && cr_gnum_is_float(arg[i].d))
            arg[i].d = cr_scalar_as_double(m->number[cr_gnum_of_float(arg[i].d)]);
        else if (arg[i].tag == CR_NUMBER && cr_gnum_of(arg[i].number) >= 0)
            arg[i].number = m->number[cr_gnum_of(arg[i].number)];
    }
}

static void load_args(const machine *m, const cr_step *s, cr_value *arg)
{
    cr_value *list = m->lists;
    cr_value *at[CR_MAX_ARGS];

    memcpy(arg, m->now->arg, s->call.arg_count * sizeof *arg);
    for (int i = 0; s->call.list_room && i < s->call.arg_count; i++)
        if (arg[i].tag == CR_TENSORS) {
            at[i] = memcpy(list, arg[i].list, arg[i].len * sizeof *list);
            arg[i].list = list;
            list += arg[i].len;
        }
    if (CR_UNLIKELY(s->call.symbols))
        load_numbers(m, s, arg);
    for (uint32_t k = 0; k < s->call.patches; k++) {
        const cr_patch *h = &s->call.patch[k];
        *(h->in_list ? &at[h->arg][h->item] : &arg[h->arg]) = cr_of_tensor(m->slot[h->slot]);
    }
}

/* Moves the tensors of a Tensor[] result to their slots. */
static cr_status put_list(const machine *m, const cr_step *s, cr_value *v)
{
    cr_value *list = (cr_value *)(uintptr_t)v->list;

    if (v->len != s->results) {
        uint32_t n = v->len;
        cr_drop_values(v, 1);
        return cr_fail(CR_RUNTIME, "%s returned %u tensors, the graph has %u", s->call.op->name,
                       (unsigned)n, (unsigned)s->results);
    }
    for (uint32_t k = 0; k < v->len; k++) {
        put(m, s->result[k], list[k].tag == CR_TENSOR ? list[k].t : NULL);
        list[k].tag = CR_NONE;
    }
    cr_drop_values(v, 1);
    return CR_OK;
}

static cr_status call_tracked(const machine *m, const cr_op *op, const cr_value *arg,
                              cr_value *result)
{
    uint32_t was = cr_thread.exclude;

    cr_thread.exclude = m->tracking;
    cr_status st = cr_call(op, arg, result);
    cr_thread.exclude = was;
    return st;
}

/* The argument that dies in this step and whose memory the result uses; NULL: none. */
static cr_tensor *dying(const machine *m, const cr_step *s)
{
    cr_tensor *t = s->reuse_read >= 0 ? m->slot[s->read[s->reuse_read]] : NULL;
    const cr_step_sizes *z = m->now;

    if (!t || (s->kind == CR_STEP_GROUP && !(z->code->overwrites >> s->reuse_read & 1)))
        return NULL;
    return may_take_over(t, z->made) ? t : NULL;
}

/* The input into whose memory the step writes; NULL: none, or it does not lie as planned, or
 * shares its memory with another argument. */
static cr_tensor *written_back(const machine *m, const cr_step *s)
{
    cr_tensor *t = s->back_read >= 0 ? m->slot[s->read[s->back_read]] : NULL;

    if (!t || (s->kind == CR_STEP_GROUP && !(m->now->code->overwrites >> s->back_read & 1)) ||
        t->layout || !t->contiguous || !t->numel || !cr_tensor_is_of(t, m->now->made))
        return NULL;
    for (uint32_t k = 0; k < s->reads; k++)
        if ((int32_t)k != s->back_read && m->slot[s->read[k]] &&
            cr_storage_key(m->slot[s->read[k]]->storage) == cr_storage_key(t->storage))
            return NULL;
    return t;
}

/* The memory of the dying argument becomes that of a new result, which nothing has written in
 * place yet. */
static cr_tensor *take_over(const machine *m, const cr_step *s, cr_tensor *t)
{
    m->slot[s->read[s->reuse_read]] = NULL;
    t->storage->version = 0;
    return t;
}

/* The result of an elementwise operator, or of a device's kernel, is written to the memory of
 * `t`.  A copy of a dying tensor needs no work: it is the tensor.  *declined: the kernel does
 * not take the call, and `t` is unchanged. */
static cr_status run_over(const machine *m, const cr_step *s, const cr_value *arg, cr_tensor *t,
                          bool *declined)
{
    *declined = false;
    if (s->call.over)
        CR_TRY(cr_remote_into(s->call.op, arg, t, declined));
    else if (s->call.op->does == CR_DOES_BODY)
        CR_TRY(cr_call_into(s->call.op, arg, t));
    if (*declined)
        return CR_OK;
    put(m, s->result[0], take_over(m, s, t));
    return CR_OK;
}

static cr_status run_call(const machine *m, const cr_step *s)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_tensor *t = dying(m, s), *back = written_back(m, s);
    bool declined;
    cr_status st;

    load_args(m, s, arg);
    if (back && m->direct) {
        CR_TRY(cr_call_into(s->call.op, arg, back));
        put(m, s->result[0], cr_keep(back));
        return CR_OK;
    }
    if (t && m->direct) {
        CR_TRY(run_over(m, s, arg, t, &declined));
        if (!declined)
            return CR_OK;
    }
    st = s->call.tracked || !m->direct
             ? call_tracked(m, s->call.op, arg, result)
             : cr_call_past(CR_STAGE_AUTOGRAD, s->call.op, arg, result);
    CR_TRY(st);
    if (s->call.list_result)
        return put_list(m, s, &result[0]);
    for (uint32_t k = 0; k < s->results; k++)
        put(m, s->result[k], result[k].tag == CR_TENSOR ? result[k].t : NULL);
    return CR_OK;
}

static cr_status run_view(const machine *m, const cr_step *s)
{
    const cr_static_view *v = m->now->view;
    cr_tensor *t = m->slot[s->read[0]], *made;

    if (CR_UNLIKELY(!v || !t || !cr_tensor_is_of(t, v->from) ||
                    (v->assumed && memcmp(t->stride, v->assumed, t->ndim * sizeof *t->stride))))
        return run_call(m, s);
    CR_TRY(cr_tensor_over(&made, t->storage, (cr_dtype)t->dtype, v->ndim, v->size, v->stride,
                          t->offset + v->offset));
    cr_storage_keep(t->storage);
    put(m, s->result[0], made);
    return CR_OK;
}

static cr_status run_group(const machine *m, const cr_step *s)
{
    cr_tensor **read = m->operands, **output = read + s->reads;
    const cr_step_sizes *z = m->now;
    cr_tensor *t = dying(m, s), *back = written_back(m, s);

    for (uint32_t i = 0; i < s->reads; i++)
        read[i] = m->slot[s->read[i]];
    memset(output, 0, s->results * sizeof *output);
    if (t)
        output[0] = take_over(m, s, t);
    else if (back)
        output[0] = cr_keep(back);
    CR_TRY(s->kind == CR_STEP_OWN ? z->own->run(z->own, read, output)
                                  : z->code->run(z->code, read, output));
    for (uint32_t k = 0; k < s->results; k++)
        put(m, s->result[k], output[k]);
    return CR_OK;
}

static cr_status choose(const machine *m, const cr_step *s, size_t *next)
{
    cr_scalar truth;

    CR_TRY(cr_tensor_item(&truth, m->slot[s->read[0]]));
    if (cr_scalar_as_double(truth) == 0)
        *next = s->to;
    return CR_OK;
}

static inline cr_status run_step(const machine *m, const cr_step *s, size_t *next)
{
    switch ((cr_step_kind)s->kind) {
    case CR_STEP_CALL: return run_call(m, s);
    case CR_STEP_VIEW: return run_view(m, s);
    case CR_STEP_GROUP:
    case CR_STEP_OWN: return run_group(m, s);
    case CR_STEP_MOVE:
        put(m, s->result[0], s->reads ? cr_keep(m->slot[s->read[0]]) : NULL);
        return CR_OK;
    case CR_STEP_CHOOSE: return choose(m, s, next);
    case CR_STEP_JUMP: *next = s->to; return CR_OK;
    case CR_STEP_NONE: return CR_OK;
    }
    return CR_OK;
}

/* The name of the event that a step writes; NULL: it writes none, or its call does. */
static const char *step_event(const machine *m, const cr_step *s)
{
    switch ((cr_step_kind)s->kind) {
    case CR_STEP_GROUP:
    case CR_STEP_OWN: return "cresset::fused";
    case CR_STEP_CALL: return s->call.tracked || !m->direct ? NULL : s->call.op->name;
    case CR_STEP_VIEW: return s->call.op ? s->call.op->name : NULL;
    default: return NULL;
    }
}

static cr_status run_step_profiled(const machine *m, const cr_step *s, size_t *next)
{
    bool call = s->kind == CR_STEP_CALL || s->kind == CR_STEP_VIEW;
    const char *name = step_event(m, s);
    int32_t event =
        name ? cr_profile_enter(call ? CR_PROFILE_OP : CR_PROFILE_GROUP, name, -1) : -1;
    cr_status st = run_step(m, s, next);

    cr_profile_leave(event);
    return st;
}

/* Gives a result eager's strides in dims of size 1: steps that compute it in another way than
 * eager calls may have left others.  Inputs and constants keep theirs. */
static void show_output(const machine *m, uint32_t k, cr_tensor *t)
{
    const cr_gtype *type = m->sizes->shown[k];
    int64_t dense[CR_MAX_DIMS];
    const int64_t *stride = type && type->stride ? type->stride : dense;

    if (!type || !t || !cr_tensor_is_of(t, type))
        return;
    if (!type->stride)
        cr_row_major_strides(dense, type->ndim, type->size);
    if (!memcmp(t->stride, stride, t->ndim * sizeof *stride))
        return;
    for (uint32_t i = 0; i < m->p->frame.first_made; i++)
        if (m->slot[i] == t)
            return;
    memcpy(t->stride, stride, t->ndim * sizeof *stride);
}

/* Offers outputs of a step to the taker, in the caller's state. */
static cr_status offer(const machine *m, const cr_step *s)
{
    uint32_t was = cr_thread.exclude;
    bool no_grad = cr_thread.no_grad;
    cr_memory_mode mode = cr_cpu_memory_set_mode(m->mode);
    cr_status st = CR_OK;

    cr_thread.exclude = m->exclude;
    cr_thread.no_grad = m->no_grad;
    for (uint32_t k = 0; k < s->drop.earlies && !st; k++) {
        cr_tensor **t = &m->slot[m->p->out.output[s->drop.early[k]]];
        show_output(m, s->drop.early[k], *t);
        if (*t)
            st = m->taker->give(m->taker->context, s->drop.early[k], t);
    }
    cr_thread.exclude = was;
    cr_thread.no_grad = no_grad;
    cr_cpu_memory_set_mode(mode);
    return st;
}

static cr_status run_steps(machine *m)
{
    const cr_step *steps = m->p->steps.at;

    for (size_t i = 0, next; i < m->p->steps.len; i = next) {
        const cr_step *s = &steps[i];
        next = i + 1;
        m->now = &m->sizes->step[i];
        CR_TRY(CR_UNLIKELY(cr_profiling()) ? run_step_profiled(m, s, &next)
                                           : run_step(m, s, &next));
        for (uint32_t k = 0; k < s->drop.releases; k++) {
            cr_drop(m->slot[s->drop.release[k]]);
            m->slot[s->drop.release[k]] = NULL;
        }
        for (uint32_t k = 0; m->own && k < s->drop.given_releases; k++) {
            cr_drop(m->own[s->drop.given[k]]);
            m->own[s->drop.given[k]] = NULL;
        }
        if (m->taker && s->drop.earlies)
            CR_TRY(offer(m, s));
    }
    return CR_OK;
}

static void give_outputs(const machine *m, cr_tensor **output)
{
    const cr_program_steps *p = m->p;

    for (uint32_t i = 0; i < p->out.outputs; i++) {
        uint32_t slot = p->out.output[i];
        output[i] = slot == CR_NO_SLOT ? NULL : m->slot[slot];
        show_output(m, i, output[i]);
        if (p->out.output_moves[i])
            m->slot[slot] = NULL;
        else
            cr_keep(output[i]);
    }
}

/* --- a run --- */

static cr_status run_in(machine *m, cr_tensor *const *input, cr_tensor **output)
{
    uint32_t was = cr_thread.exclude;
    bool no_grad = cr_thread.no_grad;
    cr_status st;

    CR_TRY(take_inputs(m, input));
    m->exclude = was;
    m->no_grad = no_grad;
    m->mode = cr_cpu_memory_set_mode(CR_MEMORY_FIT);
    m->direct = !(cr_thread.include & ~was & CR_STAGE_BIT(AUTOCAST));
    m->tracking = was | CR_STAGE_BIT(CAPTURE) | CR_STAGE_BIT(DEFER);
    cr_thread.exclude =
        m->direct ? m->tracking | CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD) : m->tracking;
    cr_thread.no_grad = true;
    st = run_steps(m);
    cr_thread.exclude = was;
    cr_thread.no_grad = no_grad;
    cr_cpu_memory_set_mode(m->mode);
    if (!st) {
        give_outputs(m, output);
        return CR_OK;
    }
    for (uint32_t i = m->p->frame.first_made; i < m->p->frame.slots; i++)
        cr_drop(m->slot[i]);
    return st;
}

enum { SMALL_FRAME = 1024 };

static size_t frame_bytes(const cr_program_steps *p)
{
    return (p->frame.slots + p->frame.operands) * sizeof(cr_tensor *) +
           p->frame.list_room * sizeof(cr_value) + sizeof(cr_value);
}

static void lay_out(machine *m, void *frame)
{
    m->lists = frame;
    m->slot = (cr_tensor **)(void *)(m->lists + m->p->frame.list_room);
    m->operands = m->slot + m->p->frame.slots;
}

static cr_status run_large(machine *m, cr_tensor *const *input, cr_tensor **output)
{
    void *frame = atomic_exchange(&((cr_program_steps *)(uintptr_t)m->p)->spare, NULL);
    cr_status st;

    if (!frame && !(frame = cr_alloc(frame_bytes(m->p))))
        return CR_MEMORY;
    lay_out(m, frame);
    st = run_in(m, input, output);
    cr_free(atomic_exchange(&((cr_program_steps *)(uintptr_t)m->p)->spare, frame));
    return st;
}

static cr_status run_with(cr_program *p, machine m, cr_tensor *const *input, cr_tensor **output)
{
    _Alignas(cr_value) char frame[SMALL_FRAME];
    cr_program_steps *plan;

    if (p->of) {
        CR_TRY(cr_program_sizes(&m.sizes, p));
        plan = m.sizes->plan;
    } else {
        CR_TRY(cr_program_plan(&plan, p));
        m.sizes = &plan->sizes;
    }
    m.p = plan;
    if (frame_bytes(plan) > sizeof frame)
        return run_large(&m, input, output);
    lay_out(&m, frame);
    return run_in(&m, input, output);
}

cr_status cr_program_run(cr_program *p, cr_tensor *const *input, const cr_scalar *number,
                         cr_tensor **output)
{
    return run_with(p, (machine){.number = number}, input, output);
}

cr_status cr_program_consume(cr_program *p, cr_tensor **input, cr_tensor **output,
                             const cr_program_taker *taker)
{
    return run_with(p, (machine){.own = input, .taker = taker}, input, output);
}
