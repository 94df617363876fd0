/* Instances: makes graphs with symbols concrete for given sizes.
 *
 * The operators' rules run in order on fake tensors, which gives every size.  A symbol is
 * computed when it is first read. */
#include "graph/graph.h"
#include <string.h>

typedef struct {
    const cr_graph *from;
    cr_graph *to;
    cr_session *s;
    cr_tensor *const *input;
    const cr_scalar *number;
    cr_tensor **fake;     /* by value id of `from`; references */
    cr_gvalue **now;      /* by value id of `from` */
    cr_scalar *value;     /* by number */
    bool *known, *varies; /* by number; varies: depends on a float input */
    bool holds, open;
    bool sized; /* all sizes are as recorded: types are copied without running rules */
} maker;

/* --- symbols --- */

static cr_scalar value_of(maker *x, int k);

static void work_out(maker *x, int k)
{
    const cr_gnumber *n = &x->from->numbers.list.at[k];
    cr_scalar *out = &x->value[k];

    switch ((cr_gnum_fn)n->fn) {
    case CR_GNUM_INPUT:
        *out = x->number[n->a];
        x->varies[k] = x->open && out->category == CR_CAT_FLOAT;
        return;
    case CR_GNUM_CONST: *out = n->value; return;
    case CR_GNUM_SIZE: {
        if (x->sized) {
            *out = n->value;
            return;
        }
        const cr_tensor *t = x->fake[n->of->id];
        if (!t || n->a >= t->ndim)
            cr_bail(x->s, CR_RUNTIME, "a size is read of %%%s, which is not there",
                    n->of->name);
        *out = cr_scalar_int(t->size[n->a]);
        return;
    }
    default: break;
    }
    cr_scalar a = value_of(x, n->a), b = value_of(x, n->b);
    if (!cr_gnum_apply((cr_gnum_fn)n->fn, a, b, out))
        cr_bail(x->s, CR_VALUE, "arithmetic of sizes has no value");
    x->varies[k] = x->varies[n->a] || x->varies[n->b];
}

static cr_scalar value_of(maker *x, int k)
{
    if (!x->known[k]) {
        x->known[k] = true;
        work_out(x, k);
    }
    return x->value[k];
}

/* *stays: the number remains a symbol in the instance. */
static cr_scalar plain(maker *x, cr_scalar s, bool *stays)
{
    int k = cr_gnum_of(s);
    cr_scalar v;

    *stays = false;
    if (k < 0)
        return s;
    v = value_of(x, k);
    *stays = x->varies[k] && v.category == CR_CAT_FLOAT;
    return s.category == CR_CAT_FLOAT ? cr_scalar_float(cr_scalar_as_double(v)) : v;
}

/* Converts an argument for the rules and for the instance. */
static void load(maker *x, const cr_garg *a, cr_value *rule, cr_garg *made)
{
    bool stays;

    *rule = (cr_value){.tag = a->tag, .len = a->len};
    *made = *a;
    switch (a->tag) {
    case CR_TENSOR:
        *rule = x->fake[a->value->id] ? cr_of_tensor(x->fake[a->value->id])
                                      : (cr_value){.tag = CR_NONE};
        made->value = x->now[a->value->id];
        return;
    case CR_INT: rule->i = made->i = plain(x, cr_scalar_int(a->i), &stays).i; return;
    case CR_FLOAT:
        rule->d = cr_scalar_as_double(plain(x, cr_scalar_float(a->d), &stays));
        made->d = stays ? a->d : rule->d;
        return;
    case CR_NUMBER:
        rule->number = plain(x, a->number, &stays);
        made->number = stays ? a->number : rule->number;
        return;
    case CR_INTS: {
        int64_t *list = CR_NEW_N(x->s, int64_t, a->len + 1);
        for (uint32_t i = 0; i < a->len; i++)
            list[i] = plain(x, cr_scalar_int(a->ints[i]), &stays).i;
        rule->ints = made->ints = list;
        return;
    }
    case CR_FLOATS: {
        double *list = CR_NEW_N(x->s, double, a->len + 1),
               *shown = CR_NEW_N(x->s, double, a->len + 1);
        for (uint32_t i = 0; i < a->len; i++) {
            list[i] = cr_scalar_as_double(plain(x, cr_scalar_float(a->floats[i]), &stays));
            if (stays)
                cr_bail(x->s, CR_VALUE, "a number that varies stands in a list");
            shown[i] = list[i];
        }
        rule->floats = list;
        made->floats = shown;
        return;
    }
    case CR_TENSORS:
    case CR_NUMBERS: {
        cr_value *list = CR_NEW_N(x->s, cr_value, a->len + 1);
        cr_garg *shown = CR_NEW_N(x->s, cr_garg, a->len + 1);
        for (uint32_t i = 0; i < a->len; i++) {
            load(x, &a->list[i], &list[i], &shown[i]);
            if (a->tag == CR_NUMBERS && cr_gnum_of(shown[i].number) >= 0)
                cr_bail(x->s, CR_VALUE, "a number that varies stands in a list");
        }
        rule->list = list;
        made->list = shown;
        return;
    }
    case CR_STRING:
        made->s = rule->s = cr_session_printf(x->s, "%.*s", (int)a->len, a->s);
        return;
    default: memcpy(&rule->number, &a->number, sizeof a->number); return;
    }
}

/* --- nodes --- */

static void type_value(maker *x, cr_gvalue *made, const cr_gvalue *from, const cr_tensor *t)
{
    made->type = cr_gtype_of(x->s, t);
    made->type.device = from->type.device;
    made->type.requires_grad = from->type.requires_grad;
}

static void keep_type(maker *x, const cr_gvalue *from, cr_gvalue *made)
{
    size_t bytes = from->type.ndim * sizeof *from->type.size;

    made->type = from->type;
    if (from->type.size)
        made->type.size = cr_session_copy(x->s, from->type.size, bytes);
    if (from->type.stride)
        made->type.stride = cr_session_copy(x->s, from->type.stride, bytes);
    x->now[from->id] = made;
}

static void take_result(maker *x, cr_gvalue *from, cr_gvalue *made, cr_value *v)
{
    x->now[from->id] = made;
    if (v->tag != CR_TENSOR)
        return;
    x->fake[from->id] = v->t;
    v->tag = CR_NONE;
    type_value(x, made, from, x->fake[from->id]);
}

/* Rules are called with fakes of the tensors that they need. */
static void need_tensor(maker *x, const cr_gnode *n, int i, const cr_value *v)
{
    const cr_param *p = &n->op->param[i];
    bool missing = v->tag == CR_NONE && p->type == CR_T_TENSOR && !p->optional;

    for (uint32_t k = 0; v->tag == CR_TENSORS && k < v->len; k++)
        missing |= v->list[k].tag == CR_NONE && !p->item_optional;
    if (missing)
        cr_bail(x->s, CR_VALUE, "%s has no tensor '%s'", n->op->name, p->name);
}

static void make_constant(maker *x, const cr_gnode *n)
{
    const cr_tensor *t = n->constant;
    const cr_gvalue *v = n->result[0];

    keep_type(x, v, cr_graph_constant(x->to, x->to->body, n->constant, v->name));
    cr_session_check(x->s,
                     cr_tensor_new_strided(&x->fake[v->id], (cr_dtype)t->dtype,
                                           cr_as_fake(t->device), t->ndim, t->size, t->stride));
}

bool cr_op_gives_back(const cr_op *op, const cr_value *arg, const cr_value *result)
{
    for (int i = 0; i < op->param_count && op->result_count; i++)
        if (arg[i].tag == CR_TENSOR && result[0].tag == CR_TENSOR && arg[i].t == result[0].t)
            return !op->param[i].written;
    return false;
}

static void make_node(maker *x, const cr_gnode *n)
{
    cr_value rule[CR_MAX_ARGS], result[CR_MAX_RESULTS], *list = result;
    cr_garg made[CR_MAX_ARGS];
    const char **names = CR_NEW_N(x->s, const char *, n->result_count + 1);

    if (n->kind == CR_GNODE_CONSTANT) {
        make_constant(x, n);
        return;
    }
    if (n->kind != CR_GNODE_CALL)
        cr_bail(x->s, CR_VALUE, "a graph with symbols has no nested blocks");
    for (int i = 0; i < n->arg_count; i++) {
        load(x, &n->arg[i], &rule[i], &made[i]);
        if (!x->sized)
            need_tensor(x, n, i, &rule[i]);
    }
    for (int k = 0; k < n->result_count; k++)
        names[k] = n->result[k]->name;
    cr_gnode *copy = cr_graph_call(x->to, x->to->body, n->op, made, n->result_count, names);
    copy->source = n->source ? cr_session_text(x->s, n->source) : NULL;
    copy->no_grad = n->no_grad;
    if (x->sized || !n->result_count) { /* a node that only writes has no result sizes */
        for (int k = 0; k < n->result_count; k++)
            keep_type(x, n->result[k], copy->result[k]);
        return;
    }
    cr_session_check(x->s, cr_call(n->op, rule, result));
    x->holds = x->holds &&
               (!cr_gnode_sizes_vary(n) || n->same == cr_op_gives_back(n->op, rule, result));
    if (n->op->result_count == 1 && result[0].tag == CR_TENSORS)
        list = (cr_value *)(uintptr_t)result[0].list;
    bool right = list == result || (int)result[0].len == n->result_count;
    for (int k = 0; right && k < n->result_count; k++)
        take_result(x, n->result[k], copy->result[k], &list[k]);
    cr_drop_values(result, n->op->result_count);
    if (!right)
        cr_bail(x->s, CR_RUNTIME, "%s returns another number of tensors for these sizes",
                n->op->name);
}

/* --- the instance --- */

static void make_input(maker *x, int i)
{
    const cr_gvalue *v = x->from->input[i];
    const cr_tensor *t = x->input[i];
    cr_tensor **fake = &x->fake[v->id];
    cr_gtype type = cr_gtype_of_input(x->s, t);

    type.requires_grad = v->type.requires_grad;
    type.device = v->type.known ? v->type.device : type.device;
    x->now[v->id] = cr_graph_input(x->to, v->name, &type);
    if (x->sized)
        return;
    cr_session_check(x->s,
                     cr_tensor_new_strided(fake, (cr_dtype)t->dtype, cr_as_fake(t->device),
                                           t->ndim, t->size, t->stride));
    (*fake)->number = t->number;
}

/* Sizes become constants.  Comparisons of numbers that may still vary stay guards. */
static void copy_numbers(maker *x)
{
    const cr_gnumbers *n = &x->from->numbers;

    for (size_t k = 0; k < n->list.len; k++) {
        cr_gnumber one = n->list.at[k];
        one.value = value_of(x, (int)k);
        if (!x->varies[k])
            one = (cr_gnumber){.fn = CR_GNUM_CONST, .value = one.value};
        CR_PUSH(x->s, &x->to->numbers.list, one);
    }
    for (size_t i = 0; i < n->guards.len; i++) {
        const cr_gnum_guard *g = &n->guards.at[i];
        x->holds = x->holds && cr_gnum_compare((cr_gnum_test)g->test, x->value[g->a],
                                               x->value[g->b]) == g->holds;
        if (x->varies[g->a] || x->varies[g->b])
            CR_PUSH(x->s, &x->to->numbers.guards, *g);
    }
    x->to->numbers.inputs = n->inputs;
}

static void make(cr_session *s, void *context)
{
    maker *x = context;
    const cr_gblock *b = x->from->body;
    cr_garg *out = CR_NEW_N(s, cr_garg, b->output_count + 1);

    x->to = cr_graph_new(s);
    x->sized = true;
    for (int i = 0; i < x->from->input_count; i++)
        x->sized = x->sized && !x->from->input[i]->symbolic;
    for (int k = 0; k < x->from->numbers.inputs; k++)
        x->sized = x->sized && x->number[k].category == CR_CAT_FLOAT;
    x->now = CR_NEW_N(s, cr_gvalue *, x->from->values + 1);
    x->value = CR_NEW_N(s, cr_scalar, x->from->numbers.list.len + 1);
    x->known = CR_NEW_N(s, bool, x->from->numbers.list.len + 1);
    x->varies = CR_NEW_N(s, bool, x->from->numbers.list.len + 1);
    for (int i = 0; i < x->from->input_count; i++)
        make_input(x, i);
    for (size_t i = 0; i < b->len; i++)
        make_node(x, b->at[i]);
    for (int i = 0; i < b->output_count; i++) {
        out[i] = b->output[i].tag == CR_TENSOR ? cr_garg_value(x->now[b->output[i].value->id])
                                               : b->output[i];
        if (b->output[i].tag == CR_TENSOR && x->fake[b->output[i].value->id])
            cr_gvalue_show_as(x->s, out[i].value, x->fake[b->output[i].value->id]);
    }
    cr_gblock_return(x->to, x->to->body, out, b->output_count);
    copy_numbers(x);
}

cr_status cr_graph_instantiate(cr_graph **out, cr_session *s, const cr_graph *g,
                               cr_tensor *const *input, const cr_scalar *number, bool open)
{
    maker x = {
        .from = g, .s = s, .input = input, .number = number, .holds = true, .open = open};
    cr_thread_state was = cr_thread;
    cr_status st;

    x.fake = cr_alloc_zero((g->values + 1) * sizeof *x.fake);
    CR_NEED(x.fake);
    cr_thread.no_grad = cr_thread.fakes = true;
    cr_thread.include &= ~(CR_STAGE_BIT(CAPTURE) | CR_STAGE_BIT(AUTOCAST));
    st = cr_session_run(s, make, &x);
    cr_thread.no_grad = was.no_grad;
    cr_thread.fakes = was.fakes;
    cr_thread.include = was.include;
    for (unsigned i = 0; i < g->values; i++)
        cr_drop(x.fake[i]);
    cr_free(x.fake);
    if (x.to && (st || !x.holds))
        cr_graph_drop(x.to);
    *out = !st && x.holds ? x.to : NULL;
    return st;
}

static void set_sizes(int64_t *size, const cr_graph *g, const cr_gvalue *v,
                      const cr_scalar *symbol)
{
    for (int d = 0; d < v->type.ndim; d++)
        size[d] = v->type.size[d];
    for (size_t k = 0; k < g->numbers.list.len; k++) {
        const cr_gnumber *n = &g->numbers.list.at[k];
        if (n->fn == CR_GNUM_SIZE && n->of == v && n->a < v->type.ndim)
            size[n->a] = symbol[k].i;
    }
}

static cr_status fake_input(cr_tensor **out, const cr_graph *g, const cr_gvalue *v,
                            const cr_scalar *symbol)
{
    int64_t size[CR_MAX_DIMS];
    const cr_gtype *t = &v->type;

    if (!t->known)
        return cr_fail(CR_VALUE, "%%%s has no type", v->name);
    set_sizes(size, g, v, symbol);
    for (int d = 0; d < t->ndim; d++)
        if (size[d] < 0)
            return cr_fail(CR_VALUE, "%%%s has a negative size", v->name);
    if (t->stride && t->ndim && !memcmp(size, t->size, t->ndim * sizeof *size))
        return cr_tensor_new_strided(out, (cr_dtype)t->dtype, cr_as_fake(t->device), t->ndim,
                                     size, t->stride);
    return cr_tensor_new(out, (cr_dtype)t->dtype, cr_as_fake(t->device), t->ndim, size);
}

cr_status cr_graph_instantiate_at(cr_graph **out, cr_session *s, const cr_graph *g,
                                  const cr_scalar *symbol, bool open)
{
    cr_tensor **input = cr_alloc_zero((size_t)g->input_count * sizeof *input + 1);
    cr_scalar *number = cr_alloc_zero((size_t)g->numbers.inputs * sizeof *number + 1);
    cr_status st = input && number ? CR_OK : CR_MEMORY;

    for (size_t k = 0; !st && k < g->numbers.list.len; k++)
        if (g->numbers.list.at[k].fn == CR_GNUM_INPUT)
            number[g->numbers.list.at[k].a] = symbol[k];
    for (int i = 0; !st && i < g->input_count; i++)
        st = fake_input(&input[i], g, g->input[i], symbol);
    if (!st)
        st = cr_graph_instantiate(out, s, g, input, number, open);
    for (int i = 0; input && i < g->input_count; i++)
        cr_drop(input[i]);
    cr_free(number);
    cr_free(input);
    return st;
}

/* --- properties --- */

static bool has_symbol(const cr_garg *a)
{
    switch (a->tag) {
    case CR_INT: return cr_gnum_is_int(a->i);
    case CR_FLOAT: return cr_gnum_is_float(a->d);
    case CR_NUMBER: return cr_gnum_of(a->number) >= 0;
    case CR_INTS:
    case CR_FLOATS:
    case CR_NUMBERS: break;
    default: return false; /* `len` is meaningful for lists only */
    }
    for (uint32_t i = 0; i < a->len; i++)
        if (a->tag == CR_INTS     ? cr_gnum_is_int(a->ints[i])
            : a->tag == CR_FLOATS ? cr_gnum_is_float(a->floats[i])
                                  : has_symbol(&a->list[i]))
            return true;
    return false;
}

bool cr_gnode_has_symbol(const cr_gnode *n)
{
    for (int i = 0; i < n->arg_count; i++)
        if (has_symbol(&n->arg[i]))
            return true;
    return false;
}

bool cr_graph_is_symbolic(const cr_graph *g)
{
    for (int i = 0; i < g->input_count; i++)
        if (g->input[i]->symbolic)
            return true;
    return g->numbers.inputs > 0;
}

static void any_symbolic(void *context, cr_gvalue *v)
{
    bool *any = context;

    *any = *any || v->symbolic;
}

bool cr_gnode_sizes_vary(const cr_gnode *n)
{
    bool any = cr_gnode_has_symbol(n);

    cr_gnode_each_read(n, any_symbolic, &any);
    return any;
}

bool cr_graph_sizes_vary(const cr_graph *g)
{
    for (int i = 0; i < g->input_count; i++)
        if (g->input[i]->symbolic)
            return true;
    for (size_t k = 0; k < g->numbers.list.len; k++)
        if (g->numbers.list.at[k].fn == CR_GNUM_INPUT &&
            g->numbers.list.at[k].value.category == CR_CAT_INT)
            return true;
    return false;
}

void cr_graph_need_sizes(const cr_graph *g)
{
    if (cr_graph_sizes_vary(g))
        cr_bail(g->session, CR_VALUE, "sizes of the graph are symbols: it takes an instance");
}
