/* The values that each derivative of the table needs.
 *
 * The free names of a formula decide which values a node saves.  Names whose values are read
 * are saved whole.  Names of which only sizes or dtypes are read are saved as shapes, so they
 * hold no memory and in-place changes do not matter. */
#include "autograd/autograd_impl.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

cr_derivative_plan **cr_derivative_plans;

typedef struct {
    const cr_op *op;
    cr_need *need;
    uint64_t stands_for[CR_MAX_SLOTS]; /* by loop variable: mask of the list parameter it
                                          iterates over */
} walk_state;

static void walk_rule(walk_state *s, const cr_rule *r, bool shape);

static void use_slot(walk_state *s, int slot, bool shape)
{
    const cr_op *op = s->op;

    if (slot < 0)
        return;
    if (slot >= op->slots.let + op->let_count) {
        if (shape)
            s->need->shapes |= s->stands_for[slot];
        else
            s->need->values |= s->stands_for[slot];
    } else if (slot >= op->slots.let)
        walk_rule(s, op->lets[slot - op->slots.let].rule, shape);
    else if (slot >= op->slots.grad)
        s->need->cotangents |= 1u << (slot - op->slots.grad);
    else if (shape)
        s->need->shapes |= (uint64_t)1 << slot;
    else
        s->need->values |= (uint64_t)1 << slot;
}

/* [x in list if condition : body]: a read of x is a read of the list. */
static void walk_each(walk_state *s, const cr_rule *r)
{
    const cr_rule *over = r->args[0];
    bool tensors = over->kind == CR_RULE_NAME && over->slot >= 0 &&
                   over->slot < s->op->param_count &&
                   s->op->param[over->slot].type == CR_T_TENSORS;

    s->stands_for[r->slot] = tensors ? (uint64_t)1 << over->slot : 0;
    walk_rule(s, over, tensors);
    walk_rule(s, r->args[1], false);
    if (r->count > 2)
        walk_rule(s, r->args[2], false);
}

static void walk_rule(walk_state *s, const cr_rule *r, bool shape)
{
    if (r->kind == CR_RULE_NAME)
        use_slot(s, r->slot, shape);
    else if (r->kind == CR_RULE_EACH)
        walk_each(s, r);
    else
        for (int i = 0; i < r->count; i++)
            walk_rule(s, r->args[i],
                      r->kind == CR_RULE_CALL
                          ? cr_builtin_reads_only(r->builtin, CR_READS_SHAPE)
                          : shape && r->kind != CR_RULE_CHOOSE);
}

static void find_need(cr_need *need, const cr_op *op, const cr_derivative *d)
{
    walk_state s = {.op = op, .need = need};

    need->param = (uint8_t)d->arg;
    need->rule = d->rule;
    if (d->rule)
        walk_rule(&s, d->rule, false);
    need->shapes &= ~need->values;
}

/* The node's name in torch: "log_softmax" becomes LogSoftmaxBackward0.  The digit is the
 * overload's number.  An entry may state another name. */
static void make_name(char *out, const cr_op *op)
{
    const char *s = op->name;
    bool start = true;
    int number = 0;

    if (op->node && op->node->kind == CR_RULE_STRING) {
        strcpy(out, op->node->name);
        return;
    }
    for (; *s; s++) {
        if (isalpha((unsigned char)*s))
            *out++ = (char)(start ? toupper((unsigned char)*s) : tolower((unsigned char)*s));
        else if (*s != '_')
            *out++ = *s;
        start = !isalpha((unsigned char)*s);
    }
    for (const cr_op *o = cr_ops_find(op->name); o && o != op; o = o->next)
        number++;
    sprintf(out, "Backward%d", number);
}

static int8_t written_param(const cr_op *op)
{
    if (!op->result_count || !op->result[0].written)
        return -1;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written && op->param[i].alias == op->result[0].alias)
            return (int8_t)i;
    return -1;
}

static cr_reads plan_join(const cr_derivative_plan *p, uint32_t wanted)
{
    cr_reads r = {0};

    for (int d = 0; d < p->count; d++)
        if (wanted >> d & 1) {
            r.values |= p->need[d].values;
            r.shapes |= p->need[d].shapes;
        }
    r.shapes &= ~r.values;
    r.count = CR_POPCOUNT64(r.values | r.shapes);
    return r;
}

cr_reads cr_derivative_plan_reads(const cr_derivative_plan *p, uint32_t wanted)
{
    return CR_LIKELY(wanted < CR_READS) ? p->reads[wanted] : plan_join(p, wanted);
}

static cr_derivative_plan *plan_make(const cr_op *op)
{
    bool stated = op->node && op->node->kind == CR_RULE_STRING;
    size_t name_size = strlen(stated ? op->node->name : op->name) + 24;
    cr_derivative_plan *p =
        cr_alloc_zero(sizeof *p + (size_t)op->grad_count * sizeof *p->need + name_size);

    if (!p)
        return NULL;
    p->op = op;
    p->name = (char *)&p->need[op->grad_count];
    for (int i = 0; i < op->grad_count; i++) {
        if (!op->grads[i].rule)
            continue;
        find_need(&p->need[p->count], op, &op->grads[i]);
        p->lists |= op->param[op->grads[i].arg].type == CR_T_TENSORS;
        p->count++;
    }
    p->list_result = op->result_count && op->result[0].type == CR_T_TENSORS;
    p->views = cr_op_may_view(op) && !op->result[0].constant;
    p->no_history = strstr(op->text.tags, "no_history") != NULL;
    p->written = written_param(op);
    for (int i = 0; i < op->param_count; i++)
        p->refused |= (uint32_t)op->param[i].constant << i;
    for (uint32_t wanted = 0; wanted < CR_READS; wanted++)
        p->reads[wanted] = plan_join(p, wanted);
    make_name(p->name, op);
    p->kind.name = op->node && !stated ? NULL : p->name;
    p->kind.name_of = cr_formula_name;
    return p;
}

cr_status cr_derivative_plan_add(const cr_op *op)
{
    cr_derivative_plan *p = plan_make(op);

    CR_NEED(p);
    cr_derivative_plans[op->index] = p;
    return CR_OK;
}

cr_status cr_derivative_plans_start(const cr_node_kind *kind)
{
    int n = cr_ops_table_count(), records = cr_ops_count();
    cr_derivative_plan **all = cr_alloc_zero(CR_MOST_OPS * sizeof *all);

    CR_NEED(all);
    for (int i = 0; i < n; i++) {
        cr_derivative_plan *p = plan_make(cr_ops_at(i));
        CR_NEED(p);
        p->kind.apply = kind->apply;
        p->kind.push = kind->push;
        p->kind.release = kind->release;
        all[i] = p;
    }
    for (int i = n; i < records; i++)
        all[i] = all[cr_ops_at(i)->inplace_of->index];
    cr_derivative_plans = all;
    return CR_OK;
}
