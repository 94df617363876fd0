/* Tensors that a frozen graph computes of constants alone are constants.  Only results with
 * memory of their own are replaced, and only where nothing writes to them and no caller gets
 * them, so results keep their bits and their owners. */
#include "graph/graph.h"
#include "script/alias.h"
#include "script/execute_impl.h"
#include "script/passes.h"
#include <string.h>

enum { KNOWN_ARGUMENTS = 16, KNOWN_DEEPEST = 64, KNOWN_GROWTH = 4, KNOWN_SMALL = 4096 };

/* By value, while the pass runs. */
typedef struct {
    enum { KNOWN_NEW, KNOWN_NOT, KNOWN_IS } state;
    cr_ivalue value; /* owned */
} known_value;

typedef struct {
    cr_sgraph *g;
    cr_salias *alias;
    known_value *of; /* by id */
    unsigned count;
} known_walk;

static bool known_find(known_walk *w, const cr_svalue *v, int depth);

/* --- values --- */

static bool known_constant(known_walk *w, const cr_svalue *v, const cr_sconstant *c)
{
    cr_stype_kind kind = (cr_stype_kind)c->type->kind;

    if (c->live || kind == CR_STYPE_CLASS || kind == CR_STYPE_FUNCTION ||
        (kind == CR_STYPE_TENSOR && cr_salias_is_changed(w->alias, v)))
        return false;
    return !cr_ivalue_of_constant(&w->of[v->id].value, c);
}

/* The operators that give the same each time, and write to nothing. */
static bool known_is_steady(const cr_snode *n)
{
    const cr_sschema *s = n->schema;
    const cr_op *op = s->op;

    if (!op || s->any_params || !s->result_count || n->output_count != 1 ||
        n->output[0]->type->kind != CR_STYPE_TENSOR || n->input_count > KNOWN_ARGUMENTS ||
        op->updates.params || cr_op_draws(op) ||
        (op->words & (CR_WORD_UNDEFINED | CR_WORD_CHECKS)))
        return false;
    for (int i = 0; i < s->param_count; i++)
        if (s->param[i].written)
            return false;
    return true;
}

static bool known_holds_tensors(const cr_ivalue *v)
{
    bool found = v->kind == CR_IV_TENSOR;

    for (size_t i = 0; v->kind == CR_IV_LIST && i < v->list->len; i++)
        found |= known_holds_tensors(&v->list->at[i]);
    return found;
}

static bool known_operator(known_walk *w, const cr_snode *n, int depth)
{
    cr_ivalue arg[KNOWN_ARGUMENTS], out = cr_iv_none();
    cr_arena arena = {0};
    cr_sop *op = NULL;
    bool tensors = false, before = cr_thread.no_grad;

    if (!known_is_steady(n))
        return false;
    for (int i = 0; i < n->input_count; i++) {
        if (!known_find(w, n->input[i], depth))
            return false;
        arg[i] = w->of[n->input[i]->id].value;
        tensors |= known_holds_tensors(&arg[i]);
    }
    if (!tensors || cr_salias_is_changed(w->alias, n->output[0]))
        return false;
    cr_scall c = {.arg = arg, .count = n->input_count, .out = &out, .outs = 1, .node = n};
    cr_thread.no_grad = true;
    bool done = !cr_sop_prepare(&op, &arena, n->schema) && !cr_sop_call(op, &c);
    cr_thread.no_grad = before;
    cr_arena_drop(&arena);
    w->of[n->output[0]->id].value = out;
    return done && out.kind == CR_IV_TENSOR;
}

static bool known_list(known_walk *w, const cr_snode *n, int depth)
{
    cr_ivalue *out = &w->of[n->output[0]->id].value;

    if (cr_salias_is_changed(w->alias, n->output[0]) || n->input_count > KNOWN_ARGUMENTS)
        return false;
    for (int i = 0; i < n->input_count; i++)
        if (!known_find(w, n->input[i], depth))
            return false;
    if (cr_ilist_new(out, n->output[0]->type, (size_t)n->input_count))
        return false;
    for (int i = 0; i < n->input_count; i++)
        out->list->at[i] = cr_ivalue_keep(w->of[n->input[i]->id].value);
    out->list->len = (size_t)n->input_count;
    return true;
}

static bool known_item(known_walk *w, const cr_snode *n, const cr_svalue *v, int depth)
{
    const cr_ivalue *tuple = &w->of[n->input[0]->id].value;

    if (!known_find(w, n->input[0], depth) || tuple->kind != CR_IV_TUPLE ||
        (size_t)v->index >= tuple->list->len)
        return false;
    w->of[v->id].value = cr_ivalue_keep(tuple->list->at[v->index]);
    return true;
}

static bool known_compute(known_walk *w, const cr_svalue *v, int depth)
{
    const cr_sconstant *c = cr_svalue_constant(v);

    if (c)
        return known_constant(w, v, c);
    if (!v->by || depth == KNOWN_DEEPEST)
        return false;
    switch ((cr_sprim)v->by->prim) {
    case CR_SPRIM_OPERATOR: return known_operator(w, v->by, depth + 1);
    case CR_SPRIM_LIST_CONSTRUCT: return known_list(w, v->by, depth + 1);
    case CR_SPRIM_TUPLE_UNPACK: return known_item(w, v->by, v, depth + 1);
    default: return false;
    }
}

/* Whether the value is known; it is then in `of`. */
static bool known_find(known_walk *w, const cr_svalue *v, int depth)
{
    if (v->id >= w->count)
        return false;
    if (w->of[v->id].state == KNOWN_NEW)
        w->of[v->id].state = known_compute(w, v, depth) ? KNOWN_IS : KNOWN_NOT;
    return w->of[v->id].state == KNOWN_IS;
}

/* --- the pass --- */

static size_t known_bytes(const cr_ivalue *v)
{
    size_t bytes =
        v->kind == CR_IV_TENSOR ? (size_t)v->t->numel * cr_dtype_size(v->t->dtype) : 0;

    for (size_t i = 0; v->kind == CR_IV_LIST && i < v->list->len; i++)
        bytes += known_bytes(&v->list->at[i]);
    return bytes;
}

/* Whether the result becomes a constant: it has few times the bytes of the inputs, or is
 * small. */
static bool known_is_worth(const known_walk *w, const cr_snode *n)
{
    const cr_ivalue *made = &w->of[n->output[0]->id].value;
    size_t from = KNOWN_SMALL;

    for (int i = 0; i < n->input_count; i++)
        from += known_bytes(&w->of[n->input[i]->id].value) * KNOWN_GROWTH;
    return !made->t->requires_grad && known_bytes(made) <= from;
}

static void known_replace(known_walk *w, cr_snode *n)
{
    cr_svalue *v = n->output[0];
    cr_snode *made = cr_snode_before(n, CR_SPRIM_CONSTANT, n->from.range);
    cr_sconstant *value = CR_NEW(w->g->session, cr_sconstant);
    cr_tensor *t = w->of[v->id].value.t;

    cr_sunit_keep_tensor(w->g->unit, t);
    *value = (cr_sconstant){.type = CR_STYPE_OF(TENSOR), .tensor = t};
    made->value = value;
    cr_svalue_replace(w->g, v, cr_snode_output(made, NULL, value->type));
    cr_snode_remove(n);
}

/* Readers come first, so that what only they read is not kept. */
static void known_in(known_walk *w, cr_sblock *b)
{
    for (cr_snode *n = b->last, *prev; n; n = prev) {
        prev = n->prev;
        for (int i = 0; i < n->block_count; i++)
            known_in(w, n->block[i]);
        if (n->prim == CR_SPRIM_OPERATOR && known_is_steady(n) && !n->schema->result[0].alias &&
            n->output[0]->uses && !cr_salias_escapes(w->alias, n->output[0]) &&
            known_find(w, n->output[0], 0) && known_is_worth(w, n))
            known_replace(w, n);
    }
}

void cr_spass_known(cr_sgraph *g)
{
    known_walk w = {.g = g, .alias = cr_salias_find(g), .count = g->values + 1};

    if (cr_salias_has_calls(w.alias))
        return;
    w.of = CR_NEW_N(g->session, known_value, w.count);
    known_in(&w, g->body);
    for (unsigned i = 0; i < w.count; i++)
        cr_ivalue_drop(w.of[i].value);
    cr_spass_dead(g);
}
