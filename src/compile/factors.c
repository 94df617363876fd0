/* Takes products with factors apart, for files, whose products have none.
 *
 * beta * self + alpha * (a @ b) becomes a product, multiplications by the factors, and a sum. A
 * factor of 1 multiplies nothing, and with beta 0 self is not read.  addbmm() also adds up the
 * products of a batch. */
#include "compile/commands.h"
#include "entry.h"
#include "graph/rewrite.h"
#include <string.h>

enum { SELF, LEFT, RIGHT, BETA, ALPHA };

static double factor_of(const cr_gnode *n, int arg)
{
    return n->arg[arg].tag == CR_NUMBER ? cr_scalar_as_double(n->arg[arg].number) : 1;
}

/* The entry of the node's product; NULL: it stays as it is. */
static const cr_op *factors_product(const cr_gnode *n)
{
    if (n->kind != CR_GNODE_CALL)
        return NULL;
    if (n->op == cr_entry.addbmm)
        return cr_entry.bmm;
    const cr_op *op = n->op == cr_entry.addmm     ? cr_entry.mm
                      : n->op == cr_entry.addmv   ? cr_entry.mv
                      : n->op == cr_entry.baddbmm ? cr_entry.bmm
                                                  : NULL;
    return op && (factor_of(n, BETA) != 1 || factor_of(n, ALPHA) != 1) ? op : NULL;
}

/* A call with the given arguments and defaults for the others. */
static cr_gvalue *factors_call(cr_rewrite *w, cr_gblock *to, const cr_gnode *n, const cr_op *op,
                               const cr_garg *given, int count)
{
    cr_garg arg[CR_MAX_ARGS];

    for (int i = 0; i < op->param_count; i++) {
        arg[i] = (cr_garg){.tag = op->param[i].preset.tag};
        memcpy(&arg[i].number, &op->param[i].preset.number, sizeof arg[i].number);
        if (i < count)
            arg[i] = given[i];
    }
    cr_gnode *made = cr_graph_call(w->to, to, op, arg, 1, NULL);
    made->source = n->source;
    return made->result[0];
}

static cr_gvalue *factors_times(cr_rewrite *w, cr_gblock *to, const cr_gnode *n, cr_gvalue *v,
                                int arg)
{
    cr_garg given[] = {cr_garg_value(v), n->arg[arg]};

    return factor_of(n, arg) == 1 ? v : factors_call(w, to, n, cr_entry.mul, given, 2);
}

static bool factors_apart(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    static const int64_t batch = 0;
    const cr_op *op = factors_product(n);

    if (!op)
        return false;
    cr_garg pair[] = {cr_garg_value(w->now[n->arg[LEFT].value->id]),
                      cr_garg_value(w->now[n->arg[RIGHT].value->id])};
    cr_gvalue *product = factors_call(w, to, n, op, pair, 2), *self;
    if (n->op == cr_entry.addbmm) {
        cr_garg sum[] = {cr_garg_value(product), {.tag = CR_INTS, .len = 1, .ints = &batch}};
        product = factors_call(w, to, n, cr_entry.sum, sum, 2);
    }
    product = factors_times(w, to, n, product, ALPHA);
    self = w->now[n->arg[SELF].value->id];
    if (factor_of(n, BETA) != 0) {
        self = factors_times(w, to, n, self, BETA);
        cr_garg both[] = {cr_garg_value(self), cr_garg_value(product)};
        product = factors_call(w, to, n, cr_entry.add, both, 2);
    }
    w->now[n->result[0]->id] = product;
    return true;
}

static void factors_run(cr_session *s, void *context)
{
    cr_rewrite *w = context;

    w->into = s;
    (void)cr_rewrite_run(w);
}

cr_status cr_graph_file_plan(cr_plan *out, const cr_graph *g, cr_tensor *const *input)
{
    cr_session s = {.status = CR_OK};
    cr_rewrite w = {.from = g, .node = factors_apart};
    bool any = false;
    cr_status st;

    for (size_t i = 0; i < g->body->len; i++)
        any = any || factors_product(g->body->at[i]);
    if (!any)
        return cr_graph_plan(out, g, input);
    st = cr_session_run(&s, factors_run, &w);
    if (!st) {
        st = cr_graph_plan(out, w.to, input);
        cr_graph_drop(w.to);
    }
    cr_session_drop(&s);
    return st;
}
