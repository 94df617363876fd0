/* Lifetimes of tensors, reuse of memory, and slots.
 *
 * A value dies at the last step that reads it; a value from outside that a branch reads dies
 * where the branches join.  Values share a storage if one is a view of the other or was written
 * in its place; a storage dies with the last of its values.
 *
 * A result takes over the tensor of a value that dies at its step if both have one type, no
 * other value uses the storage, and the kernel reads every element before it writes it.  A run
 * does so only if it has the only reference to the tensor. */
#include "compile/program_impl.h"
#include "jit/oracle.h"
#include "tensor/remote.h"
#include <string.h>

enum { NEVER = -1 };

/* Invariant: made[v] <= last[v] for every value that has a reader. Each slot is of one
 * living value, or in `spare`. */
typedef struct {
    cr_program_steps *p;
    cr_session *s;
    int64_t *made, *last; /* by value id: the step that makes it, the last that reads it */
    int *in;              /* by value id: its storage, or -1 */
    uint32_t *slot;       /* by value id */
    CR_VEC(cr_life) storages;
    struct {
        size_t len, cap;
        struct open_if {
            int64_t choose, end;
        } * at;
    } open;
    CR_VEC(uint32_t) spare; /* free slots */
} planner;

/* --- lifetimes --- */

/* The step at which a value that step i reads may die, if no later step reads it. */
static int64_t death_at(const planner *x, const cr_gvalue *v, int64_t i)
{
    for (size_t k = 0; k < x->open.len; k++)
        if (x->open.at[k].choose > x->made[v->id])
            return x->open.at[k].end;
    return i;
}

static void open_and_close(planner *x, int64_t i)
{
    const cr_step *s = &x->p->steps.at[i];

    while (x->open.len && x->open.at[x->open.len - 1].end == i)
        x->open.len--;
    if (s->kind == CR_STEP_CHOOSE)
        CR_PUSH(x->s, &x->open, ((struct open_if){i, (int64_t)x->p->steps.at[s->to - 1].to}));
}

static void find_lives(planner *x)
{
    cr_program_steps *p = x->p;

    for (unsigned v = 0; v < p->value.values; v++)
        x->made[v] = x->last[v] = NEVER;
    for (size_t i = 0; i < p->steps.len; i++) {
        const cr_step *s = &p->steps.at[i];
        open_and_close(x, (int64_t)i);
        for (uint32_t k = 0; k < s->reads; k++) {
            const cr_gvalue *v = cr_program_value(p, s->values.read_value[k]);
            x->last[v->id] = death_at(x, v, (int64_t)i);
        }
        for (uint32_t k = 0; k < s->results; k++)
            if (x->made[s->values.made_value[k]->id] == NEVER)
                x->made[s->values.made_value[k]->id] = (int64_t)i;
    }
    for (uint32_t i = 0; i < p->out.outputs; i++)
        if (p->out.output_value[i])
            x->last[p->out.output_value[i]->id] = (int64_t)p->steps.len;
}

/* --- storages --- */

static int64_t bytes_of(const cr_gtype *t)
{
    return t->known ? (int64_t)cr_dtype_size((cr_dtype)t->dtype) * cr_numel(t->ndim, t->size)
                    : 0;
}

bool cr_same_types(const cr_gtype *a, const cr_gtype *b)
{
    return a->known && b->known && !a->stride && !b->stride &&
           cr_same_device(a->device, b->device) && cr_gtype_has_sizes_of(a, b);
}

/* The argument of which result k of a call is, or may be, a view; NULL: none. */
static cr_gvalue *viewed(const cr_step *s, uint32_t k)
{
    const cr_op *op = s->call.op;
    const cr_result *r = &op->result[s->call.list_result ? 0 : k];

    for (int i = 0; i < op->param_count; i++)
        if (s->values.node->arg[i].tag == CR_TENSOR &&
            (r->alias ? op->param[i].alias == r->alias : op->does == CR_DOES_MAP && !i))
            return s->values.node->arg[i].value;
    return NULL;
}

/* True if result k is always a view of `of`: for maps, parts (split) and writes; and for
 * entries that copy only if necessary (reshape, contiguous, to) when no copy is necessary. */
static bool is_view(const cr_step *s, uint32_t k, const cr_gvalue *of)
{
    const cr_gtype *a = &of->type, *b = &s->values.made_value[k]->type;

    if (s->kind == CR_STEP_VIEW || s->call.op->does == CR_DOES_MAP || s->call.tracked ||
        s->call.list_result || s->call.op->result[k].written)
        return true;
    for (int i = 0; i < s->call.arg_count; i++)
        if (!strcmp(s->call.op->param[i].name, "copy") && s->call.arg[i].tag == CR_TRUTH &&
            s->call.arg[i].i)
            return false;
    return a->known && b->known && a->dtype == b->dtype && cr_gtype_is_contiguous(a) &&
           !b->stride && bytes_of(a) == bytes_of(b);
}

static int new_storage(planner *x, const cr_gvalue *v, int64_t i)
{
    cr_life l = {.born = i, .dies = x->last[v->id], .holds = -1};

    l.bytes = !cr_has_bytes(v->type.device) ? 0 : bytes_of(&v->type);
    CR_PUSH(x->s, &x->storages, l);
    return (int)x->storages.len - 1;
}

static void live_until(planner *x, int k, int64_t step)
{
    for (; k >= 0 && x->storages.at[k].dies < step; k = x->storages.at[k].holds)
        x->storages.at[k].dies = step;
}

/* A value without readers dies at the step that makes it. */
static void give_storage(planner *x, const cr_step *s, uint32_t k, int64_t i)
{
    const cr_gvalue *v = s->values.made_value[k];
    cr_gvalue *of = s->kind == CR_STEP_CALL || s->kind == CR_STEP_VIEW ? viewed(s, k)
                    : s->kind == CR_STEP_MOVE && s->reads              ? s->values.read_value[0]
                                                                       : NULL;
    int other = of ? x->in[cr_program_value(x->p, of)->id] : -1;

    if (x->last[v->id] == NEVER)
        x->last[v->id] = i;
    if (of && (s->kind == CR_STEP_MOVE || is_view(s, k, of))) {
        x->in[v->id] = other;
    } else {
        x->in[v->id] = new_storage(x, v, i);
        x->storages.at[x->in[v->id]].holds = other;
    }
    live_until(x, x->in[v->id], x->last[v->id]);
    live_until(x, other, x->last[v->id]);
}

/* Both branches of a choice move their results to the same values; the storages of both live
 * until these die. */
static void find_storages(planner *x)
{
    cr_program_steps *p = x->p;

    for (unsigned v = 0; v < p->value.values; v++)
        x->in[v] = -1;
    for (size_t i = 0; i < p->steps.len; i++)
        for (uint32_t k = 0; k < p->steps.at[i].results; k++)
            give_storage(x, &p->steps.at[i], k, (int64_t)i);
}

/* --- reuse --- */

static bool is_copy(const cr_step *s)
{
    unsigned both = CR_WORD_IDENTITY | CR_WORD_COPY;

    for (int i = 0; i < s->call.arg_count; i++)
        if (s->call.arg[i].tag == CR_FORMAT_VAL && s->call.arg[i].i != CR_FORMAT_CONTIGUOUS &&
            s->call.arg[i].i != CR_FORMAT_PRESERVE)
            return false;
    return (s->call.op->words & both) == both;
}

bool cr_step_may_overwrite(const cr_step *s, uint32_t k)
{
    if (s->kind == CR_STEP_GROUP)
        return s->code->overwrites >> k & 1;
    if (s->kind == CR_STEP_OWN)
        return s->own->overwrites >> k & 1;
    return s->kind == CR_STEP_CALL && !s->call.tracked && !s->call.list_room &&
           (s->call.op->does == CR_DOES_BODY ? s->call.op->result_count == 1 : is_copy(s));
}

/* True if a kernel of the result's device may write over read k. */
static bool writes_over(const cr_step *s, uint32_t k)
{
    const cr_gtype *t = &s->values.made_value[0]->type;

    return s->kind == CR_STEP_CALL && !s->call.tracked && !s->call.list_room &&
           k < s->call.patches && s->call.op->does != CR_DOES_BODY && t->known &&
           !cr_is_host(t->device) &&
           cr_remote_over(s->call.op, t->device) == s->call.patch[k].arg;
}

/* The value ends at step i.  A view of an input may be all that is left of it: only the run
 * knows. */
static bool ends(const planner *x, const cr_gvalue *v, size_t i)
{
    int in = x->in[v->id];

    if (x->made[v->id] == NEVER || (v->by && v->by->kind == CR_GNODE_IF))
        return false;
    return in < 0 ? v->by && x->last[v->id] == (int64_t)i
                  : x->storages.at[in].dies == (int64_t)i && x->storages.at[in].holds < 0;
}

/* Another argument over the same storage holds a reference to it, so that the run does not
 * reuse the storage. */
static void find_reuse(planner *x, size_t i)
{
    cr_step *s = &x->p->steps.at[i];

    if (s->results != 1 || s->back_read >= 0 || cr_oracle_wanted() ||
        x->last[s->values.made_value[0]->id] <= (int64_t)i)
        return;
    for (uint32_t k = 0; k < s->reads && k < 32; k++) {
        const cr_gvalue *v = cr_program_value(x->p, s->values.read_value[k]);
        int in = x->in[v->id];
        bool over = writes_over(s, k);
        if (!(over || cr_step_may_overwrite(s, k)) || !ends(x, v, i) ||
            !cr_same_types(&v->type, &s->values.made_value[0]->type))
            continue;
        s->reuse_read = (int32_t)k;
        s->call.over = over;
        if (in < 0)
            return;
        int gone = x->in[s->values.made_value[0]->id];
        x->storages.at[gone].bytes = 0;
        live_until(x, in, x->storages.at[gone].dies);
        x->in[s->values.made_value[0]->id] = in;
        x->p->memory.reused++;
        return;
    }
}

/* Updates the storage of a view whose base has moved to the storage of an argument. */
static void follow(planner *x, size_t i)
{
    const cr_step *s = &x->p->steps.at[i];

    for (uint32_t k = 0; (s->kind == CR_STEP_CALL || s->kind == CR_STEP_VIEW) && k < s->results;
         k++) {
        cr_gvalue *of = viewed(s, k);
        if (of && x->in[s->values.made_value[k]->id] >= 0 && is_view(s, k, of))
            x->in[s->values.made_value[k]->id] = x->in[cr_program_value(x->p, of)->id];
    }
}

/* --- slots --- */

static uint32_t new_slot(planner *x)
{
    return x->spare.len ? x->spare.at[--x->spare.len] : x->p->frame.slots++;
}

static void give_result_slots(planner *x, cr_step *s)
{
    s->result = CR_NEW_N(x->s, uint32_t, s->results);
    for (uint32_t k = 0; k < s->results; k++) {
        uint32_t *slot = &x->slot[s->values.made_value[k]->id];
        if (*slot == CR_NO_SLOT &&
            x->last[s->values.made_value[k]->id] > x->made[s->values.made_value[k]->id])
            *slot = new_slot(x);
        s->result[k] = *slot;
    }
}

static void set_read_slots(planner *x, cr_step *s)
{
    s->read = CR_NEW_N(x->s, uint32_t, s->reads);
    for (uint32_t k = 0; k < s->reads; k++)
        s->read[k] = x->slot[cr_program_value(x->p, s->values.read_value[k])->id];
    for (uint32_t k = 0; k < s->call.patches; k++)
        s->call.patch[k].slot = s->read[s->call.patch[k].slot];
}

static void release_dying(planner *x, cr_step *s)
{
    s->drop.release = CR_NEW_N(x->s, uint32_t, s->values.deaths);
    for (uint32_t k = 0; k < s->values.deaths; k++) {
        s->drop.release[s->drop.releases++] = x->slot[s->values.dies[k]->id];
        CR_PUSH(x->s, &x->spare, x->slot[s->values.dies[k]->id]);
    }
}

/* Lists the program's values at the steps where they die. */
static void list_deaths(planner *x)
{
    cr_program_steps *p = x->p;
    bool *seen = CR_NEW_N(x->s, bool, p->value.values);
    uint32_t *count = CR_NEW_N(x->s, uint32_t, p->steps.len + 1);

    for (int fill = 0; fill < 2; fill++) {
        memset(seen, 0, p->value.values * sizeof *seen);
        for (size_t i = 0; i < p->steps.len; i++)
            for (uint32_t k = 0; k < p->steps.at[i].results; k++) {
                cr_gvalue *v = p->steps.at[i].values.made_value[k];
                int64_t at = x->last[v->id];
                if (seen[v->id] || at <= x->made[v->id] || at >= (int64_t)p->steps.len)
                    continue;
                seen[v->id] = true;
                if (fill)
                    p->steps.at[at].values.dies[p->steps.at[at].values.deaths++] = v;
                else
                    count[at]++;
            }
        for (size_t i = 0; !fill && i < p->steps.len; i++)
            p->steps.at[i].values.dies = CR_NEW_N(x->s, cr_gvalue *, count[i]);
    }
}

/* Lists the inputs at the last steps that read them. */
static void list_given(planner *x)
{
    cr_program_steps *p = x->p;
    uint32_t *count = CR_NEW_N(x->s, uint32_t, p->steps.len + 1);

    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t i = 0; i < p->frame.inputs; i++) {
            int64_t at = x->last[p->g->input[i]->id];
            if (at < 0 || at >= (int64_t)p->steps.len)
                continue;
            if (fill)
                p->steps.at[at].drop.given[p->steps.at[at].drop.given_releases++] = i;
            else
                count[at]++;
        }
        for (size_t i = 0; !fill && i < p->steps.len; i++)
            p->steps.at[i].drop.given = CR_NEW_N(x->s, uint32_t, count[i]);
    }
}

static void give_slots(planner *x)
{
    cr_program_steps *p = x->p;

    for (unsigned v = 0; v < p->value.values; v++)
        x->slot[v] = CR_NO_SLOT;
    for (uint32_t i = 0; i < p->frame.inputs; i++)
        x->slot[p->g->input[i]->id] = p->frame.slots++;
    for (size_t i = 0; i < p->constants.len; i++)
        x->slot[p->constant_values.at[i]->id] = p->frame.slots++;
    p->frame.first_made = p->frame.slots;
    list_given(x);
    for (size_t i = 0; i < p->steps.len; i++) {
        cr_step *s = &p->steps.at[i];
        give_result_slots(x, s);
        set_read_slots(x, s);
        release_dying(x, s);
    }
}

static void give_output_slots(planner *x)
{
    cr_program_steps *p = x->p;
    bool *taken = CR_NEW_N(x->s, bool, p->frame.slots);

    p->out.output = CR_NEW_N(x->s, uint32_t, p->out.outputs);
    p->out.output_moves = CR_NEW_N(x->s, bool, p->out.outputs);
    for (uint32_t i = p->out.outputs; i-- > 0;) {
        uint32_t slot =
            p->out.output_value[i] ? x->slot[p->out.output_value[i]->id] : CR_NO_SLOT;
        p->out.output[i] = slot;
        p->out.output_moves[i] =
            slot != CR_NO_SLOT && slot >= p->frame.first_made && !taken[slot];
        if (slot != CR_NO_SLOT)
            taken[slot] = true;
    }
}

/* Lists outputs at the last steps that make or read them, where steps run once, in order, and
 * write nothing. */
static void list_early(planner *x)
{
    cr_program_steps *p = x->p;
    int64_t *at = CR_NEW_N(x->s, int64_t, p->frame.slots);
    uint32_t *uses = CR_NEW_N(x->s, uint32_t, p->frame.slots);

    for (size_t i = 0; i < p->steps.len; i++) {
        const cr_step *s = &p->steps.at[i];
        if (s->kind == CR_STEP_CHOOSE || s->kind == CR_STEP_JUMP || p->writes)
            return;
        for (uint32_t k = 0; k < s->reads; k++)
            at[s->read[k]] = (int64_t)i;
        for (uint32_t k = 0; k < s->results; k++)
            if (s->result[k] != CR_NO_SLOT)
                at[s->result[k]] = (int64_t)i;
    }
    for (uint32_t i = 0; i < p->out.outputs; i++)
        if (p->out.output[i] != CR_NO_SLOT)
            uses[p->out.output[i]]++;
    for (uint32_t i = 0; i < p->out.outputs; i++) {
        if (!p->out.output_moves[i] || uses[p->out.output[i]] > 1)
            continue;
        cr_step *s = &p->steps.at[at[p->out.output[i]]];
        s->drop.early =
            s->drop.early ? s->drop.early : CR_NEW_N(x->s, uint32_t, p->out.outputs);
        s->drop.early[s->drop.earlies++] = i;
    }
}

/* --- the peak --- */

/* Counts both branches of a choice as if both ran. */
static void find_peak(planner *x)
{
    cr_program_steps *p = x->p;
    int64_t *change = CR_NEW_N(x->s, int64_t, p->steps.len + 2), now = 0;

    for (size_t k = 0; k < x->storages.len; k++) {
        const cr_life *t = &x->storages.at[k];
        change[t->born] += t->bytes;
        change[(t->dies < (int64_t)p->steps.len ? t->dies : (int64_t)p->steps.len) + 1] -=
            t->bytes;
    }
    for (size_t i = 0; i < p->steps.len; i++) {
        p->steps.at[i].values.alive = now += change[i];
        if (now > p->memory.peak) {
            p->memory.peak = now;
            p->memory.peak_at = i;
        }
    }
}

void cr_program_lives(cr_program_steps *p)
{
    planner x = {.p = p, .s = p->s};
    size_t values = p->value.values;

    x.made = CR_NEW_N(p->s, int64_t, values);
    x.last = CR_NEW_N(p->s, int64_t, values);
    x.in = CR_NEW_N(p->s, int, values);
    x.slot = CR_NEW_N(p->s, uint32_t, values);
    find_lives(&x);
    find_storages(&x);
    for (size_t i = 0; i < p->steps.len; i++) {
        follow(&x, i);
        find_reuse(&x, i);
    }
    list_deaths(&x);
    give_slots(&x);
    give_output_slots(&x);
    list_early(&x);
    find_peak(&x);
}
