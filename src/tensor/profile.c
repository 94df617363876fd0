/* The events of a profile.  The running events of a thread form a stack through `parent`. */
#include "tensor/profile.h"
#include "base/clock.h"
#include "tensor/defer.h"
#include <string.h>

static CR_THREAD cr_profile *profile;

static int64_t profile_memory(void)
{
    cr_memory_stats s;

    cr_cpu_memory_stats(&s);
    return s.used;
}

cr_status cr_profile_start(bool with_inputs)
{
    if (profile)
        return cr_fail(CR_RUNTIME, "Can't start a profiler: one is already running on this "
                                   "thread");
    CR_TRY(cr_defer_flush("a profile"));
    profile = cr_alloc_zero(sizeof *profile);
    CR_NEED(profile);
    profile->open = -1;
    profile->with_inputs = with_inputs;
    cr_thread.include |= CR_STAGE_BIT(PROFILE);
    return CR_OK;
}

cr_profile *cr_profile_stop(void)
{
    cr_profile *p = profile;

    cr_thread.include &= ~CR_STAGE_BIT(PROFILE);
    profile = NULL;
    while (p && p->open >= 0) {
        cr_profile_event *e = &p->events.at[p->open];
        e->end = cr_nanoseconds();
        e->memory_end = profile_memory();
        p->open = e->parent;
    }
    return p;
}

void cr_profile_drop(cr_profile *p)
{
    if (!p)
        return;
    cr_arena_drop(&p->names);
    cr_vec_drop(&p->inputs);
    cr_vec_drop(&p->events);
    cr_free(p);
}

/* --- events --- */

static int32_t profile_open(cr_profile_kind kind, const char *name, int64_t sequence)
{
    cr_profile *p = profile;

    if (cr_vec_reserve(&p->events, 1)) {
        p->incomplete = true;
        return -1;
    }
    int32_t index = (int32_t)p->events.len;
    cr_vec_put(&p->events, ((cr_profile_event){.name = name,
                                               .kind = kind,
                                               .parent = p->open,
                                               .sequence = sequence,
                                               .inputs = p->inputs.len,
                                               .memory = profile_memory()}));
    p->open = index;
    p->events.at[index].start = cr_nanoseconds();
    return index;
}

int32_t cr_profile_enter(cr_profile_kind kind, const char *name, int64_t sequence)
{
    const char *copy = profile ? cr_arena_text(&profile->names, name, strlen(name)) : NULL;

    if (profile && !copy)
        profile->incomplete = true;
    return copy ? profile_open(kind, copy, sequence) : -1;
}

/* The profile may have ended, or another may have started, since the event was entered. */
void cr_profile_leave(int32_t event)
{
    int64_t now = cr_nanoseconds();

    if (!profile || event < 0 || (size_t)event >= profile->events.len)
        return;
    cr_profile_event *e = &profile->events.at[event];
    if (e->end)
        return;
    e->end = now;
    e->memory_end = profile_memory();
    if (profile->open == event)
        profile->open = e->parent;
}

/* --- arguments --- */

static void inputs_put(int64_t x)
{
    if (cr_vec_reserve(&profile->inputs, 1))
        profile->incomplete = true;
    else
        cr_vec_put(&profile->inputs, x);
}

static void inputs_put_tensor(const cr_tensor *t)
{
    inputs_put(t->dtype);
    inputs_put(t->ndim);
    for (int i = 0; i < t->ndim; i++)
        inputs_put(t->size[i]);
}

static void inputs_put_tensors(const cr_value *v)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->len; i++)
        n += v->list[i].tag == CR_TENSOR;
    inputs_put(n);
    for (uint32_t i = 0; i < v->len; i++)
        if (v->list[i].tag == CR_TENSOR)
            inputs_put_tensor(v->list[i].t);
}

static void inputs_put_value(const cr_value *v)
{
    int64_t bits;

    inputs_put(v->tag);
    switch ((cr_tag)v->tag) {
    case CR_TENSOR: inputs_put_tensor(v->t); break;
    case CR_TENSORS: inputs_put_tensors(v); break;
    case CR_INT:
    case CR_TRUTH: inputs_put(v->i); break;
    case CR_FLOAT:
        memcpy(&bits, &v->d, sizeof bits);
        inputs_put(bits);
        break;
    case CR_INTS:
    case CR_TRUTHS:
        inputs_put(v->len);
        for (uint32_t i = 0; i < v->len; i++)
            inputs_put(v->ints[i]);
        break;
    default: break;
    }
}

static void inputs_of_call(int32_t event, const cr_op *op, const cr_value *arg)
{
    profile->events.at[event].inputs = profile->inputs.len;
    for (int i = 0; i < op->param_count; i++)
        inputs_put_value(&arg[i]);
    profile->events.at[event].input_count =
        profile->inputs.len - profile->events.at[event].inputs;
}

/* A composition that only entries call has no name that a program knows: its parts are shown,
 * under the caller. */
static bool profile_hides(const cr_op *op)
{
    return *op->name == '_' && op->does == CR_DOES_IS && !op->forms && !op->grad_count;
}

static cr_status profile_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    int32_t event =
        profile && !profile_hides(op) ? profile_open(CR_PROFILE_OP, op->name, -1) : -1;

    if (event >= 0 && profile->with_inputs)
        inputs_of_call(event, op, arg);
    cr_status st = cr_call_past(CR_STAGE_PROFILE, op, arg, result);
    cr_profile_leave(event);
    return st;
}

void cr_profile_install(void) { cr_stage_fns[CR_STAGE_PROFILE] = profile_stage; }
