/* Lists that are filled by `append`, `insert` and item assignment in the block that makes them
 * are made with these items. */
#include "script/alias.h"
#include "script/passes.h"
#include <string.h>

/* Items of a list: each change copies them. */
enum { LIST_MOST = 256 };

/* Whether a node, or one inside of it, does more with the list than to read it. */
static bool list_is_kept_by(const cr_snode *n, const cr_svalue *v)
{
    for (int i = 0; i < n->input_count; i++)
        if (n->input[i] == v && !cr_snode_reads_list(n, i))
            return true;
    for (int k = 0; k < n->block_count; k++) {
        const cr_sblock *b = n->block[k];
        for (const cr_snode *at = b->first; at; at = at->next)
            if (list_is_kept_by(at, v))
                return true;
        for (int i = 0; i < b->output_count; i++)
            if (b->output[i] == v)
                return true;
    }
    return false;
}

static bool list_is_free_before(const cr_snode *n, const cr_svalue *v)
{
    for (const cr_snode *at = v->by->next; at != n; at = at->next)
        if (list_is_kept_by(at, v))
            return false;
    return true;
}

typedef struct {
    int at;        /* the place of the item */
    bool replaces; /* it is set, not inserted */
    cr_svalue *item;
} list_change;

static bool list_is_call(const cr_snode *n, const char *name, const char *overload)
{
    return n->prim == CR_SPRIM_OPERATOR && !n->schema->op && !strcmp(n->schema->name, name) &&
           !strcmp(n->schema->overload, overload);
}

/* Reads a constant index, which counts from the end where it is negative. */
static bool list_index(const cr_snode *n, int count, int64_t *out)
{
    const cr_sconstant *c = cr_svalue_constant(n->input[1]);

    if (!c || c->type->kind != CR_STYPE_INT)
        return false;
    *out = c->i < 0 ? c->i + count : c->i;
    return true;
}

static bool list_change_of(const cr_snode *n, int count, list_change *out)
{
    int64_t at;

    if (list_is_call(n, "aten::append", "t")) {
        *out = (list_change){count, false, n->input[1]};
        return true;
    }
    if (list_is_call(n, "aten::insert", "t") && list_index(n, count, &at)) {
        at = at < 0 ? 0 : at > count ? count : at;
        *out = (list_change){(int)at, false, n->input[2]};
        return true;
    }
    if (list_is_call(n, "aten::_set_item", "t") && list_index(n, count, &at)) {
        *out = (list_change){(int)at, true, n->input[2]};
        return at >= 0 && at < count;
    }
    return false;
}

/* The list after the change, made before the node. */
static cr_svalue *list_changed(cr_snode *n, const cr_svalue *v, const list_change *c)
{
    cr_snode *made = cr_snode_before(n, CR_SPRIM_LIST_CONSTRUCT, v->by->from.range);

    for (int i = 0; i < v->by->input_count; i++) {
        if (i == c->at)
            cr_snode_input(made, c->item);
        if (i != c->at || !c->replaces)
            cr_snode_input(made, v->by->input[i]);
    }
    if (c->at == v->by->input_count)
        cr_snode_input(made, c->item);
    return cr_snode_output(made, v->name, v->type);
}

static void list_visit(cr_snode *n)
{
    cr_svalue *v = n->input_count ? n->input[0] : NULL, *made;
    list_change c;

    if (!v || !v->by || v->by->prim != CR_SPRIM_LIST_CONSTRUCT || v->by->owner != n->owner ||
        v->by->input_count >= LIST_MOST || !list_change_of(n, v->by->input_count, &c) ||
        c.item == v || !list_is_free_before(n, v))
        return;
    made = list_changed(n, v, &c);
    cr_svalue_replace_after(n, v, made);
    for (int i = 0; i < n->output_count; i++)
        cr_svalue_replace(n->owner->graph, n->output[i], made);
    cr_snode_remove(n);
}

static void lists_in(cr_sblock *b)
{
    for (cr_snode *n = b->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < n->block_count; i++)
            lists_in(n->block[i]);
        list_visit(n);
    }
}

void cr_spass_lists(cr_sgraph *g)
{
    lists_in(g->body);
    cr_spass_dead(g);
}
