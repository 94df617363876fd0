/* Checks of every graph. */
#include "graph/graph.h"

typedef struct {
    const cr_graph *g;
    const cr_gnode *node;
    bool *made; /* by value id */
} checker;

CR_NORETURN static void wrong(checker *c, const char *what, const char *name)
{
    cr_text t = {0};
    const cr_gnode *n = c->node;
    const char *where = n && n->result_count ? n->result[0]->name : n ? n->op->name : "return";

    cr_text_printf(&t, "%s%s: %s%s%s", n && n->result_count ? "%" : "", where, what,
                   *name ? " " : "", name);
    cr_bail(c->g->session, CR_VALUE, "%s", cr_session_take_text(c->g->session, &t));
}

static void check_read(void *context, cr_gvalue *v)
{
    checker *c = context;

    if (!v || v->id >= c->g->values || !c->made[v->id])
        wrong(c, "reads a value that is not made before:", v ? v->name : "(none)");
}

static void checker_make(checker *c, const cr_gvalue *v)
{
    if (v->id >= c->g->values || c->made[v->id])
        wrong(c, "makes a value twice:", v->name);
    c->made[v->id] = true;
}

/* A tensor may be missing until a rule asks for it. */
static bool literal_fits(const cr_param *p, const cr_garg *a)
{
    return cr_param_takes(p, (cr_tag)a->tag) || (a->tag == CR_NONE && p->type == CR_T_TENSOR);
}

static void check_symbol(checker *c, int64_t k)
{
    if (k < 0 || (uint64_t)k >= c->g->numbers.list.len)
        wrong(c, "has a symbol that the graph has not", "");
}

static void check_symbols(checker *c, const cr_garg *a)
{
    switch (a->tag) {
    case CR_INT:
        if (cr_gnum_is_int(a->i))
            check_symbol(c, cr_gnum_of_int(a->i));
        return;
    case CR_FLOAT:
        if (cr_gnum_is_float(a->d))
            check_symbol(c, cr_gnum_of_float(a->d));
        return;
    case CR_NUMBER:
        if (cr_gnum_of(a->number) >= 0)
            check_symbol(c, cr_gnum_of(a->number));
        return;
    case CR_INTS:
    case CR_FLOATS:
    case CR_NUMBERS: break;
    default: return;
    }
    for (uint32_t i = 0; i < a->len; i++)
        if (a->tag == CR_NUMBERS)
            check_symbols(c, &a->list[i]);
        else if (a->tag == CR_INTS ? cr_gnum_is_int(a->ints[i])
                                   : cr_gnum_is_float(a->floats[i]))
            check_symbol(c, a->tag == CR_INTS ? cr_gnum_of_int(a->ints[i])
                                              : cr_gnum_of_float(a->floats[i]));
}

static void verify_call(checker *c, const cr_gnode *n)
{
    if (n->arg_count != n->op->param_count)
        wrong(c, "has a wrong number of arguments for", n->op->name);
    for (int i = 0; i < n->arg_count; i++)
        if (!literal_fits(&n->op->param[i], &n->arg[i]))
            wrong(c, "a literal does not fit the parameter", n->op->param[i].name);
    for (int i = 0; i < n->arg_count; i++)
        check_symbols(c, &n->arg[i]);
}

static void check_block(checker *c, const cr_gblock *b);

static void verify_node(checker *c, const cr_gnode *n)
{
    c->node = n;
    cr_gnode_each_read(n, check_read, c);
    if (n->kind == CR_GNODE_CALL)
        verify_call(c, n);
    for (int k = 0; k < cr_gnode_blocks(n); k++) {
        check_block(c, n->block[k]);
        c->node = n;
        if (n->block[k]->output_count != n->result_count)
            wrong(c, "a block returns another number of values than", n->result[0]->name);
    }
    for (int k = 0; k < n->result_count; k++)
        checker_make(c, n->result[k]);
}

static void checker_forget(checker *c, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++)
        for (int k = 0; k < b->at[i]->result_count; k++)
            c->made[b->at[i]->result[k]->id] = false;
}

static void check_block(checker *c, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++)
        verify_node(c, b->at[i]);
    c->node = NULL;
    for (int i = 0; i < b->output_count; i++)
        if (b->output[i].tag != CR_NONE)
            check_read(c, b->output[i].tag == CR_TENSOR ? b->output[i].value : NULL);
    if (b != c->g->body)
        checker_forget(c, b); /* not visible outside of the block */
}

/* A symbol must depend on earlier symbols, and on sizes of values that exist at the end. */
static void verify_numbers(checker *c)
{
    const cr_gnumbers *n = &c->g->numbers;

    c->node = NULL;
    for (size_t k = 0; k < n->list.len; k++) {
        const cr_gnumber *x = &n->list.at[k];
        if (x->fn == CR_GNUM_SIZE)
            check_read(c, (cr_gvalue *)(uintptr_t)x->of);
        else if (x->fn > CR_GNUM_CONST &&
                 (x->a < 0 || (size_t)x->a >= k || x->b < 0 || (size_t)x->b >= k))
            wrong(c, "a symbol is computed of later ones", "");
    }
    for (size_t i = 0; i < n->guards.len; i++) {
        check_symbol(c, n->guards.at[i].a);
        check_symbol(c, n->guards.at[i].b);
    }
}

void cr_graph_verify(const cr_graph *g)
{
    checker c = {.g = g, .made = CR_NEW_N(g->session, bool, g->values)};

    for (int i = 0; i < g->input_count; i++)
        checker_make(&c, g->input[i]);
    check_block(&c, g->body);
    verify_numbers(&c);
}
