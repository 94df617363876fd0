/* Floating point operations of a call: evaluates the entry's rule over expressions. */
#include "graph/cost.h"
#include "ops/eval.h"
#include <string.h>

typedef struct {
    cr_syms *t;
    const cr_op *op;
    const cr_measure *arg, *result;
} counter;

static cr_measure flops_eval(counter *c, const cr_rule *r);
static cr_measure flops_logic(counter *c, const cr_rule *r);

CR_NORETURN static void misuse(const counter *c, const cr_rule *r, const char *what)
{
    cr_bail(c->t->session, CR_RUNTIME, "%s:%d: in flops of %s: %s %s", c->op->text.file,
            c->op->text.line, c->op->name, r && r->name ? r->name : "", what);
}

/* --- values --- */

static cr_measure of_list(counter *c, const cr_sym *const *at, int n)
{
    const cr_sym **copy = CR_NEW_N(c->t->session, const cr_sym *, n + 1);

    for (int i = 0; i < n; i++)
        copy[i] = at[i];
    return (cr_measure){CR_INTS, n, copy};
}

static cr_measure of_sym(counter *c, const cr_sym *e)
{
    cr_measure m = of_list(c, &e, 1);

    m.tag = CR_INT;
    return m;
}

static cr_measure of_int(counter *c, int64_t i) { return of_sym(c, cr_sym_int(c->t, i)); }

static const cr_sym *sym(counter *c, const cr_rule *r)
{
    cr_measure m = flops_eval(c, r);

    if (m.tag != CR_INT && m.tag != CR_TRUTH)
        misuse(c, r, "is no integer");
    return m.at[0];
}

static int64_t integer_of(counter *c, const cr_rule *r, const cr_sym *e)
{
    if (e->kind != CR_SYM_INT)
        misuse(c, r, "is not known");
    return e->integer;
}

/* The value of a number on which the rule branches; it must be an integer. */
static int64_t known_integer(counter *c, const cr_rule *r)
{
    return integer_of(c, r, sym(c, r));
}

/* --- rules --- */

static const cr_sym *flops_product(cr_syms *t, const cr_sym *const *at, int n)
{
    const cr_sym *e = cr_sym_int(t, 1);

    for (int i = 0; i < n; i++)
        e = cr_sym_mul(t, e, at[i]);
    return e;
}

static cr_measure list_item(counter *c, const cr_rule *r, const cr_measure *list, int64_t i)
{
    i += i < 0 ? list->len : 0;
    if (i < 0 || i >= list->len)
        misuse(c, r, "has no such item");
    return of_sym(c, list->at[i]);
}

static cr_measure name(counter *c, const cr_rule *r)
{
    int param = cr_op_find_param(c->op, r->name);

    if (param >= 0)
        return c->arg[param];
    for (int i = 0; i < c->op->result_count; i++)
        if (!strcmp(*c->op->result[i].name ? c->op->result[i].name : "result", r->name))
            return c->result[i];
    misuse(c, r, "is not known");
}

static cr_measure arithmetic(counter *c, const cr_rule *r)
{
    const cr_sym *a = sym(c, r->args[0]), *b = sym(c, r->args[1]);

    switch (r->builtin) {
    case CR_BUILTIN_add: return of_sym(c, cr_sym_add(c->t, a, b));
    case CR_BUILTIN_sub: return of_sym(c, cr_sym_sub(c->t, a, b));
    case CR_BUILTIN_mul: return of_sym(c, cr_sym_mul(c->t, a, b));
    case CR_BUILTIN_floordiv: return of_sym(c, cr_sym_floordiv(c->t, a, b));
    case CR_BUILTIN_least: return of_sym(c, cr_sym_min(c->t, a, b));
    case CR_BUILTIN_most: return of_sym(c, cr_sym_max(c->t, a, b));
    default: misuse(c, r, "is not for counts");
    }
}

static cr_measure flops_compare(counter *c, const cr_rule *r)
{
    cr_measure a = flops_eval(c, r->args[0]), b = flops_eval(c, r->args[1]);
    bool whole = a.tag == CR_INT || a.tag == CR_TRUTH;

    /* None and floats differ from every integer. */
    if (a.tag != b.tag && (!whole || (b.tag != CR_INT && b.tag != CR_TRUTH)))
        return of_int(c, r->builtin == CR_BUILTIN_ne);
    if (a.tag == CR_NONE)
        return of_int(c, r->builtin == CR_BUILTIN_eq);
    int64_t x = known_integer(c, r->args[0]), y = known_integer(c, r->args[1]);
    switch (r->builtin) {
    case CR_BUILTIN_eq: return of_int(c, x == y);
    case CR_BUILTIN_ne: return of_int(c, x != y);
    case CR_BUILTIN_lt: return of_int(c, x < y);
    case CR_BUILTIN_le: return of_int(c, x <= y);
    case CR_BUILTIN_gt: return of_int(c, x > y);
    default: return of_int(c, x >= y);
    }
}

static cr_measure flops_call(counter *c, const cr_rule *r)
{
    cr_measure m;

    switch (r->builtin) {
    case CR_BUILTIN_size:
        m = flops_eval(c, r->args[0]);
        return r->count == 1 ? of_list(c, m.at, m.len)
                             : list_item(c, r, &m, known_integer(c, r->args[1]));
    case CR_BUILTIN_ndim:
    case CR_BUILTIN_len: return of_int(c, flops_eval(c, r->args[0]).len);
    case CR_BUILTIN_numel:
    case CR_BUILTIN_product:
        m = flops_eval(c, r->args[0]);
        return of_sym(c, flops_product(c->t, m.at, m.len));
    case CR_BUILTIN_and:
    case CR_BUILTIN_or:
    case CR_BUILTIN_not: return flops_logic(c, r);
    case CR_BUILTIN_neg:
        return of_sym(c, cr_sym_sub(c->t, cr_sym_int(c->t, 0), sym(c, r->args[0])));
    case CR_BUILTIN_eq:
    case CR_BUILTIN_ne:
    case CR_BUILTIN_lt:
    case CR_BUILTIN_le:
    case CR_BUILTIN_gt:
    case CR_BUILTIN_ge: return flops_compare(c, r);
    default: return arithmetic(c, r);
    }
}

/* --- the domain: expressions over sizes --- */

static cr_status flops_part(void *in, const cr_rule *r, void *out);

static cr_status flops_constant(void *in, cr_value v, void *out)
{
    if (v.tag != CR_INT && v.tag != CR_TRUTH && v.tag != CR_NONE)
        misuse(in, NULL, "floats and texts are not for counts");
    *(cr_measure *)out = v.tag == CR_NONE ? (cr_measure){.tag = CR_NONE} : of_int(in, v.i);
    return CR_OK;
}

static cr_measure flops_list(counter *c, const cr_rule *r)
{
    misuse(c, r, "lists are not for counts");
}

static cr_measure flops_index(counter *c, const cr_rule *r)
{
    cr_measure m = flops_eval(c, r->args[0]);

    return list_item(c, r, &m, known_integer(c, r->args[1]));
}

static cr_rule_truth flops_truth(void *in, const cr_rule *r, const void *value)
{
    const cr_measure *m = value;
    bool number = m->tag == CR_INT || m->tag == CR_TRUTH;

    return (number ? integer_of(in, r, m->at[0]) != 0 : m->tag != CR_NONE) ? CR_RULE_TRUE
                                                                           : CR_RULE_FALSE;
}

CR_RULE_PART(flops_name_part, cr_measure, name)
CR_RULE_PART(flops_call_part, cr_measure, flops_call)
CR_RULE_PART(flops_list_part, cr_measure, flops_list)
CR_RULE_PART(flops_index_part, cr_measure, flops_index)

static const cr_rule_domain measures = {.eval = flops_part,
                                        .constant = flops_constant,
                                        .name = flops_name_part,
                                        .call = flops_call_part,
                                        .list = flops_list_part,
                                        .each = flops_list_part,
                                        .index = flops_index_part,
                                        .truth = flops_truth};

static cr_status flops_part(void *in, const cr_rule *r, void *out)
{
    return cr_rule_eval(&measures, in, r, out);
}

static cr_measure flops_eval(counter *c, const cr_rule *r)
{
    cr_measure m = {.tag = CR_NONE};

    flops_part(c, r, &m);
    return m;
}

static cr_measure flops_logic(counter *c, const cr_rule *r)
{
    cr_measure m = {.tag = CR_NONE};

    cr_rule_logic(&measures, c, r, &m);
    return m;
}

/* --- by the kind of entry --- */

typedef struct {
    const cr_op *op;
    uint64_t seen; /* lets that are counted already */
} call_counter;

static int64_t calls_in(call_counter *c, const cr_rule *r)
{
    int64_t n = r->kind == CR_RULE_CALL || r->kind == CR_RULE_CHOOSE;

    if (r->kind == CR_RULE_NAME)
        for (int i = 0; i < c->op->let_count && i < 64; i++)
            if (!strcmp(c->op->lets[i].name, r->name) && !(c->seen >> i & 1)) {
                c->seen |= (uint64_t)1 << i;
                n += calls_in(c, c->op->lets[i].rule);
            }
    for (int i = 0; i < r->count; i++)
        n += calls_in(c, r->args[i]);
    return n;
}

static const cr_sym *each_element(cr_syms *t, const cr_measure *m, int64_t n)
{
    return cr_sym_mul(t, cr_sym_int(t, n), flops_product(t, m->at, m->len));
}

/* --- compositions with a row kernel --- */

typedef enum {
    NUMBER,
    ROW,
    COLUMN,
    FULL
} extent; /* one a call, a row, a place in a row, an element */

typedef struct {
    const cr_op *op;
    uint64_t seen;    /* lets that are counted already */
    uint8_t of[64];   /* extents of the lets */
    int64_t count[4]; /* operations, by extent */
} row_counter;

static extent rule_extent(row_counter *c, const cr_rule *r);

static extent named(row_counter *c, const cr_rule *r)
{
    static const uint8_t operand[] = {
        [CR_OPERAND_FULL] = FULL, [CR_OPERAND_ROW] = ROW, [CR_OPERAND_COLUMN] = COLUMN};
    int param = cr_op_find_param(c->op, r->name);

    if (param >= 0)
        return c->op->param[param].type == CR_T_TENSOR
                   ? (extent)operand[c->op->rows.operand[param]]
                   : NUMBER;
    for (int i = 0; i < c->op->let_count && i < 64; i++) {
        if (strcmp(c->op->lets[i].name, r->name))
            continue;
        if (!(c->seen >> i & 1)) {
            c->of[i] = (uint8_t)rule_extent(c, c->op->lets[i].rule);
            c->seen |= (uint64_t)1 << i;
        }
        return (extent)c->of[i];
    }
    return NUMBER;
}

static extent wider(extent a, extent b)
{
    if ((a == ROW && b == COLUMN) || (a == COLUMN && b == ROW))
        return FULL;
    return a > b ? a : b;
}

static extent rule_extent(row_counter *c, const cr_rule *r)
{
    extent e = NUMBER;
    bool call = r->kind == CR_RULE_CALL || r->kind == CR_RULE_CHOOSE;
    call_counter inner = {.op = r->op};

    if (r->kind == CR_RULE_NAME)
        return named(c, r);
    if (call && !r->op && r->builtin >= 0 && r->builtin < CR_BUILTIN_add)
        return NUMBER; /* reads sizes */
    for (int i = 0; call && i < r->count; i++)
        e = wider(e, rule_extent(c, r->args[i]));
    if (!call || e == NUMBER)
        return e;
    if (r->op && r->op->does == CR_DOES_FOLD) {
        c->count[e] += calls_in(&inner, r->op->fold.rule);
        return e == FULL ? ROW : e;
    }
    if (!r->op || r->op->does != CR_DOES_BODY || r->builtin >= CR_BUILTIN_add)
        c->count[e]++; /* a sign is one operation, whatever factor its entry takes */
    else
        c->count[e] += calls_in(&inner, r->op->body[0]);
    return e;
}

static const cr_sym *row_length(cr_syms *t, const cr_op *op, const cr_measure *arg)
{
    const cr_measure *dim = &arg[op->rows.dim];
    int64_t d = dim->len && dim->at[0]->kind == CR_SYM_INT ? dim->at[0]->integer : -1;

    if (dim->tag == CR_INTS)
        return flops_product(t, arg[0].at + (arg[0].len - dim->len), dim->len);
    d += d < 0 ? arg[0].len : 0;
    return d >= 0 && d < arg[0].len ? arg[0].at[d] : cr_sym_int(t, 1);
}

static const cr_sym *row_flops(cr_syms *t, const cr_op *op, const cr_measure *arg)
{
    row_counter c = {.op = op};
    const cr_sym *length = row_length(t, op, arg),
                 *all = flops_product(t, arg[0].at, arg[0].len), *sum;

    for (int i = 0; i < op->body_count; i++)
        rule_extent(&c, op->body[i]);
    sum = cr_sym_mul(t, cr_sym_int(t, c.count[FULL]), all);
    sum = cr_sym_add(t, sum, cr_sym_mul(t, cr_sym_int(t, c.count[COLUMN]), length));
    if (!c.count[ROW] || (length->kind == CR_SYM_INT && !length->integer))
        return sum;
    return cr_sym_add(
        t, sum, cr_sym_mul(t, cr_sym_int(t, c.count[ROW]), cr_sym_floordiv(t, all, length)));
}

const cr_sym *cr_op_flops(cr_syms *t, const cr_op *op, const cr_measure *arg,
                          const cr_measure *result)
{
    call_counter calls = {.op = op->inplace_of ? op->inplace_of : op};
    int64_t n = 0;

    op = calls.op;
    if (op->flops) {
        counter c = {.t = t, .op = op, .arg = arg, .result = result};
        return sym(&c, op->flops);
    }
    switch ((cr_does)op->does) {
    case CR_DOES_MAP: return cr_sym_int(t, 0);
    case CR_DOES_BODY:
        for (int i = 0; i < op->body_count; i++)
            n += calls_in(&calls, op->body[i]);
        return each_element(t, &result[0], n);
    case CR_DOES_IS: return op->fused ? row_flops(t, op, arg) : NULL;
    case CR_DOES_FOLD: return each_element(t, &arg[0], calls_in(&calls, op->fold.rule));
    case CR_DOES_SCAN: return each_element(t, &result[0], calls_in(&calls, op->scan.rule));
    default: return NULL;
    }
}
