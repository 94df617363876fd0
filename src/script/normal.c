/* Operators with two names: graphs have one of them, as those of torch.  The names are in
 * library.def. */
#include "script/operators.h"
#include "script/passes.h"

static const struct {
    const char *name, *other;
} normal_names[] = {
#define CR_SLIBRARY(name, last, source)
#define CR_SWRAPPED(name)
#define CR_SNORMAL(name, other) {"aten::" name, "aten::" other},
#include "script/library.def"
#undef CR_SNORMAL
#undef CR_SWRAPPED
#undef CR_SLIBRARY
};

static bool normal_fits(const cr_sschema *a, const cr_sschema *b)
{
    if (a->param_count != b->param_count || a->result_count != b->result_count)
        return false;
    for (int i = 0; i < a->param_count; i++)
        if (!cr_stype_equal(a->param[i].type, b->param[i].type) ||
            a->param[i].written != b->param[i].written)
            return false;
    return true;
}

static void normal_node(cr_sgraph *g, cr_snode *n)
{
    const cr_sschemas *all;

    for (size_t i = 0; i < CR_LEN(normal_names); i++) {
        if (strcmp(normal_names[i].name, n->schema->name))
            continue;
        cr_session_check(g->session, cr_soperators(&all, normal_names[i].other));
        for (size_t k = 0; k < all->len; k++)
            if (normal_fits(n->schema, all->at[k])) {
                n->schema = all->at[k];
                return;
            }
    }
}

static void normal_in(cr_sblock *b)
{
    for (cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->block_count; i++)
            normal_in(n->block[i]);
        if (n->prim == CR_SPRIM_OPERATOR)
            normal_node(b->graph, n);
    }
}

void cr_spass_normal(cr_sgraph *g) { normal_in(g->body); }
