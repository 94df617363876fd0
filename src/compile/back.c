/* Computes what a program copies back to an input in the input's memory.
 *
 * A functional graph computes the new elements of a written input, and copies them at its end.
 * Where one elementwise step computes them from the old ones, the step moves down to the copy
 * and writes the input itself; the copy then only counts the write.  Example: the running
 * statistics of batch norms, three small arrays for each.
 *
 * The elements are written where the copy would write them, so a run that fails before has
 * written nothing more.  A step that reads large results of others stays: they would live
 * longer.
 *
 * Two inputs may be one memory.  Unless they are known to be apart (CR_HOW_APART), no step
 * moves behind a copy to any input.  A run checks only that the written input shares no memory
 * with other reads of the step (exec.c). */
#include "compile/how.h"
#include "compile/program_impl.h"
#include "entry.h"
#include "jit/oracle.h"

enum { LARGE = 1 << 20, NONE = -1 };

typedef struct {
    const cr_program_steps *p;
    int64_t *made;     /* by value id: the step that makes it, or NONE */
    int64_t *copied;   /* by value id: the copy that writes the input, or NONE */
    uint32_t *readers; /* by value id, steps and outputs */
    int64_t *before;   /* by step: the step that moves to the place before it, or NONE */
    bool *moves;       /* by step */
    int64_t last;      /* the last copy before the one that is visited, or NONE */
    bool any;
} backer;

static cr_gvalue *value_of(const backer *x, cr_gvalue *v) { return cr_program_value(x->p, v); }

static bool copies_back(const cr_step *s)
{
    return s->kind == CR_STEP_CALL && s->call.op == cr_entry.copy_ && s->reads == 2 &&
           cr_gnode_copies_back(s->values.node);
}

/* False for a program with branches, or with other writes. */
static bool find_readers(backer *x)
{
    const cr_program_steps *p = x->p;

    for (unsigned v = 0; v < p->value.values; v++)
        x->made[v] = x->copied[v] = NONE;
    for (size_t i = 0; i < p->steps.len; i++) {
        const cr_step *s = &p->steps.at[i];
        x->before[i] = NONE;
        if (s->kind == CR_STEP_CHOOSE || s->kind == CR_STEP_JUMP || s->kind == CR_STEP_NONE ||
            (s->kind == CR_STEP_CALL && cr_gnode_writes(s->values.node) && !copies_back(s)))
            return false;
        for (uint32_t k = 0; k < s->results; k++)
            x->made[s->values.made_value[k]->id] = (int64_t)i;
        for (uint32_t k = 0; k < s->reads; k++)
            x->readers[value_of(x, s->values.read_value[k])->id]++;
        if (copies_back(s))
            x->copied[value_of(x, s->values.read_value[0])->id] = (int64_t)i;
    }
    for (uint32_t k = 0; k < p->out.outputs; k++)
        if (p->out.output_value[k])
            x->readers[value_of(x, p->out.output_value[k])->id]++;
    return true;
}

/* A result of a step that is large, or may share an input's memory. */
static bool binds(const backer *x, const cr_gvalue *v)
{
    const cr_step *s = x->made[v->id] >= 0 ? &x->p->steps.at[x->made[v->id]] : NULL;
    const cr_gtype *t = &v->type;

    return s &&
           (s->kind == CR_STEP_VIEW || s->kind == CR_STEP_MOVE || !t->known ||
            (s->kind == CR_STEP_CALL &&
             (s->call.op->does == CR_DOES_MAP || s->call.op->result[0].alias)) ||
            (int64_t)cr_dtype_size((cr_dtype)t->dtype) * cr_numel(t->ndim, t->size) >= LARGE);
}

/* Step `from` may run in front of copy `to`: no copy before it writes what the step reads. */
static bool may_move(const backer *x, int64_t from, const cr_gvalue *input, size_t to)
{
    const cr_step *s = &x->p->steps.at[from];

    if (!(x->p->how & CR_HOW_APART) && x->last > from)
        return false;
    for (uint32_t k = 0; k < s->reads; k++) {
        const cr_gvalue *v = value_of(x, s->values.read_value[k]);
        int64_t copy = x->copied[v->id];
        if (v != input && (binds(x, v) || (copy != NONE && copy < (int64_t)to)))
            return false;
    }
    return true;
}

/* The read that is the input, if the step may write over it; NONE: there is none. */
static int32_t read_of(const backer *x, const cr_step *s, const cr_gvalue *input)
{
    bool computes = s->kind == CR_STEP_GROUP ||
                    (s->kind == CR_STEP_CALL && s->call.op->does == CR_DOES_BODY &&
                     !cr_gnode_has_effect(s->values.node));

    for (uint32_t k = 0; computes && k < s->reads && k < 32; k++)
        if (value_of(x, s->values.read_value[k]) == input && cr_step_may_overwrite(s, k))
            return (int32_t)k;
    return NONE;
}

static void visit(backer *x, size_t to)
{
    const cr_step *copy = &x->p->steps.at[to];
    cr_gvalue *input = value_of(x, copy->values.read_value[0]),
              *v = value_of(x, copy->values.read_value[1]);
    int64_t from = x->made[v->id];
    cr_step *s = from == NONE ? NULL : &x->p->steps.at[from];

    if (!s || input->by || x->readers[v->id] != 1 || s->results != 1 ||
        input->type.requires_grad || !cr_same_types(&input->type, &v->type))
        return;
    int32_t k = read_of(x, s, input);
    if (k == NONE || !may_move(x, from, input, to))
        return;
    s->back_read = k;
    x->before[to] = from;
    x->moves[from] = x->any = true;
}

static void reorder(const backer *x, cr_program_steps *p)
{
    cr_step *now = CR_NEW_N(p->s, cr_step, p->steps.len);
    size_t n = 0;

    for (size_t i = 0; i < p->steps.len; i++) {
        if (x->before[i] != NONE)
            now[n++] = p->steps.at[x->before[i]];
        if (!x->moves[i])
            now[n++] = p->steps.at[i];
    }
    memcpy(p->steps.at, now, n * sizeof *now);
}

void cr_program_back(cr_program_steps *p)
{
    size_t n = p->steps.len;
    backer x = {.p = p,
                .made = CR_NEW_N(p->s, int64_t, p->value.values),
                .copied = CR_NEW_N(p->s, int64_t, p->value.values),
                .readers = CR_NEW_N(p->s, uint32_t, p->value.values),
                .before = CR_NEW_N(p->s, int64_t, n),
                .moves = CR_NEW_N(p->s, bool, n),
                .last = NONE};

    if (!p->writes || p->varies || cr_oracle_wanted() || !find_readers(&x))
        return;
    for (size_t i = 0; i < n; i++)
        if (copies_back(&p->steps.at[i])) {
            visit(&x, i);
            x.last = (int64_t)i;
        }
    if (x.any)
        reorder(&x, p);
}
