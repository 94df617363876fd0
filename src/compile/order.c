/* Reorders steps so that less memory is in use.
 *
 * A step with a large result moves down to the first reader of the result, so that steps
 * between the two can free memory before.  Example: eager computes the gradient of a linear
 * layer's input first, and holds it while it computes the gradient of the weight, which is the
 * last reader of its arguments.
 *
 * A step does not move across writes, nor past the last other reader of its arguments; so the
 * bytes in use at every step do not increase.  Plans with branches keep their order. */
#include "compile/program_impl.h"
#include "graph/graph.h"

enum { LARGE = 1 << 20, MOST_STEPS = 64 /* the most steps that one moves down */ };

typedef struct {
    cr_program_steps *p;
    unsigned *root; /* by value id: the same for values that may share a storage */
    int64_t *last;  /* by root: the last step that reads it */
} sorter;

static unsigned root_of(const sorter *x, cr_gvalue *v)
{
    return x->root[cr_program_value(x->p, v)->id];
}

static bool is_plain(const cr_step *s)
{
    return s->kind == CR_STEP_CALL || s->kind == CR_STEP_GROUP;
}

static bool has_effect(const cr_step *s)
{
    return s->kind == CR_STEP_CALL && cr_gnode_has_effect(s->values.node);
}

/* True if results may be views of arguments of the call. */
static bool may_alias(const cr_step *s)
{
    return s->kind == CR_STEP_CALL &&
           (s->call.op->does == CR_DOES_MAP || s->call.op->result[0].alias);
}

static bool find_roots(sorter *x)
{
    cr_program_steps *p = x->p;

    for (unsigned v = 0; v < p->value.values; v++) {
        x->root[v] = v;
        x->last[v] = -1;
    }
    for (size_t i = 0; i < p->steps.len; i++) {
        const cr_step *s = &p->steps.at[i];
        if (!is_plain(s))
            return false;
        for (uint32_t k = 0; may_alias(s) && s->reads && k < s->results; k++)
            x->root[s->values.made_value[k]->id] = root_of(x, s->values.read_value[0]);
        for (uint32_t k = 0; k < s->reads; k++)
            x->last[root_of(x, s->values.read_value[k])] = (int64_t)i;
    }
    for (uint32_t k = 0; k < p->out.outputs; k++)
        if (p->out.output_value[k])
            x->last[root_of(x, p->out.output_value[k])] = (int64_t)p->steps.len;
    return true;
}

static int64_t bytes_made(const cr_step *s)
{
    int64_t bytes = 0;

    for (uint32_t k = 0; k < s->results; k++) {
        const cr_gtype *t = &s->values.made_value[k]->type;
        if (t->known)
            bytes += (int64_t)cr_dtype_size((cr_dtype)t->dtype) * cr_numel(t->ndim, t->size);
    }
    return bytes;
}

static bool reads_from(const sorter *x, const cr_step *s, const cr_step *made)
{
    for (uint32_t i = 0; i < s->reads; i++)
        for (uint32_t k = 0; k < made->results; k++)
            if (root_of(x, s->values.read_value[i]) == made->values.made_value[k]->id)
                return true;
    return false;
}

/* The last place to which step i may move. */
static size_t place_of(const sorter *x, size_t i)
{
    const cr_step *s = &x->p->steps.at[i];
    size_t end = i + 1, most = x->p->steps.len;

    for (uint32_t k = 0; k < s->reads; k++) {
        size_t last = (size_t)x->last[root_of(x, s->values.read_value[k])];
        most = last < most ? last : most;
    }
    most = most < i + MOST_STEPS ? most : i + MOST_STEPS;
    while (end < most && !has_effect(&x->p->steps.at[end]) &&
           !reads_from(x, &x->p->steps.at[end], s))
        end++;
    return end - 1;
}

static void move(sorter *x, size_t from, size_t to)
{
    cr_step *at = x->p->steps.at, moved = at[from];

    for (size_t i = from; i < to; i++) {
        at[i] = at[i + 1];
        for (uint32_t k = 0; k < at[i].reads; k++) {
            int64_t *last = &x->last[root_of(x, at[i].values.read_value[k])];
            *last = *last == (int64_t)i + 1 ? (int64_t)i : *last;
        }
    }
    at[to] = moved;
}

void cr_program_order(cr_program_steps *p)
{
    sorter x = {p, CR_NEW_N(p->s, unsigned, p->value.values),
                CR_NEW_N(p->s, int64_t, p->value.values)};

    if (!find_roots(&x))
        return;
    for (size_t i = p->steps.len; i-- > 0;) {
        const cr_step *s = &p->steps.at[i];
        if (has_effect(s) || may_alias(s) || bytes_made(s) < LARGE)
            continue;
        size_t to = place_of(&x, i);
        if (to > i)
            move(&x, i, to);
    }
}
