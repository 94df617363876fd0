/* Statements: variables, branches, loops, returns.
 *
 * A branch is compiled with a log of the variables that it sets, and then undone.  The
 * variables that a branch changed become results of the node.  A loop carries the variables
 * that its body assigns and that have a value before it.  `return`, `break` and `continue` are
 * nodes, which exits.c removes. */
#include "base/map.h"
#include "script/compile.h"
#include "script/inline.h"
#include "script/passes.h"
#include <stdlib.h>
#include <string.h>

/* Statements of a function, with those that were compiled twice. */
enum { MOST_STEPS = 300000 };

typedef enum { FLOW_ON, FLOW_LEFT } flow;

static flow compile_statements(compiler *c, cr_sast *const *at, int count);

/* --- variables --- */

variable *compile_variable(compiler *c, const char *name)
{
    uint64_t hash = cr_hash(name, strlen(name)) % VARIABLE_CHAINS;
    variable *v = c->variables[hash];

    while (v && strcmp(v->name, name))
        v = v->next;
    if (v)
        return v;
    v = CR_NEW(c->s, variable);
    *v = (variable){.next = c->variables[hash], .name = name};
    return c->variables[hash] = v;
}

static void variable_change(compiler *c, variable *v, term *now, const loss *lost)
{
    change one = {v, v->now, v->lost, v->depth};

    CR_PUSH(c->s, &c->log, one);
    v->now = now;
    v->lost = lost;
    v->depth = c->depth;
}

/* Names like _ and _3 are not kept. */
static bool variable_is_meant(const char *name)
{
    return *name != '_' || name[1 + strspn(name + 1, "0123456789")];
}

/* A variable of an enclosing block keeps its type. */
void compile_set(compiler *c, const char *name, term *t, cr_srange range)
{
    variable *v = compile_variable(c, name);
    cr_svalue *given = t->kind == TERM_VALUE ? t->value : NULL;
    bool outer = v->now && v->depth < c->depth && v->now->kind == TERM_VALUE && given;

    if (outer &&
        (t->value->type->kind == CR_STYPE_TUPLE || t->value->type->kind == CR_STYPE_LIST))
        t = compile_term_value(c,
                               compile_convert(c, t->value, v->now->value->type, false, range));
    if (outer && !cr_stype_is_subtype(t->value->type, v->now->value->type) &&
        !cr_stype_join(c->unit, t->value->type, v->now->value->type))
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Variable '%s' previously had type %s but is now being assigned to a "
                       "value of type %s\n",
                       name, cr_stype_annotation(v->now->value->type),
                       cr_stype_annotation(t->value->type));
    if (given)
        compile_close(t->value);
    if (given && !given->name && variable_is_meant(name))
        given->name = cr_session_text(c->s, name);
    variable_change(c, v, t, NULL);
}

void compile_undo(compiler *c, size_t mark)
{
    while (c->log.len > mark) {
        change *one = &c->log.at[--c->log.len];
        one->var->now = one->before;
        one->var->lost = one->lost;
        one->var->depth = one->depth;
    }
}

/* --- branches --- */

static const change *branch_change_of(const changes *l, const variable *v)
{
    for (size_t i = 0; i < l->len; i++)
        if (l->at[i].var == v)
            return &l->at[i];
    return NULL;
}

static int change_by_name(const void *a, const void *b)
{
    return strcmp(((const change *)a)->var->name, ((const change *)b)->var->name);
}

changes compile_branch_leave(compiler *c, size_t mark)
{
    changes l = {0};

    for (size_t i = mark; i < c->log.len; i++) {
        change one = {c->log.at[i].var, c->log.at[i].var->now, c->log.at[i].var->lost, 0};
        CR_PUSH(c->s, &l, one);
    }
    compile_undo(c, mark);
    if (l.len)
        qsort(l.at, l.len, sizeof *l.at, change_by_name);
    size_t kept = 0;
    for (size_t i = 0; i < l.len; i++)
        if (!kept || l.at[kept - 1].var != l.at[i].var)
            l.at[kept++] = l.at[i];
    l.len = kept;
    return l;
}

typedef struct {
    cr_sast *const *at;
    int count;
} statements;

static statements body_of(const cr_sast *a) { return (statements){a->at, a->count}; }

static flow branch_compile(compiler *c, cr_sblock *b, statements s, const facts *known,
                           cr_srange range, changes *out)
{
    cr_sblock *outer = c->block;
    size_t mark = c->log.len;
    flow f;

    c->block = b;
    c->depth++;
    compile_assume(c, known, range);
    f = compile_statements(c, s.at, s.count);
    c->depth--;
    *out = compile_branch_leave(c, mark);
    c->block = outer;
    return f;
}

static const loss *loss_new(compiler *c, loss fields)
{
    loss *l = CR_NEW(c->s, loss);

    *l = fields;
    return l;
}

const char *compile_lost_text(compiler *c, const variable *v)
{
    const loss *l = v->lost;
    cr_text text = {0};

    if (l->branch)
        cr_text_printf(&text, "\n%s is not defined in the %s branch:\n", v->name, l->branch);
    else
        cr_text_printf(
            &text,
            "\nType mismatch: %s is set to type %s in the true branch and type %s in the "
            "false branch:\n",
            v->name, cr_stype_annotation(l->yes), cr_stype_annotation(l->no));
    cr_srange_mark(&text, l->range);
    cr_text_put(&text, "and was used here");
    return cr_session_take_text(c->s, &text);
}

/* The term of a variable at the end of a branch. */
static term *branch_term(const changes *l, const variable *v)
{
    const change *one = branch_change_of(l, v);

    return one ? one->before : v->now;
}

/* The branch ends without the variable, because of a `del`. */
static bool branch_deletes(const changes *l, const variable *v)
{
    const change *one = branch_change_of(l, v);

    return one && !one->before && !one->lost;
}

static cr_svalue *branch_uninitialized(compiler *c, cr_sblock *b, const cr_stype *type,
                                       cr_srange range)
{
    cr_sblock *outer = c->block;
    cr_svalue *v;

    c->block = b;
    v = compile_construct(c, CR_SPRIM_UNINITIALIZED, type, 0, NULL, range);
    c->block = outer;
    return v;
}

/* The type behind both branches: of a variable that is a union, also a union of both. */
static const cr_stype *branch_type(compiler *c, const variable *v, const cr_stype *yes,
                                   const cr_stype *no)
{
    const cr_stype *joined = cr_stype_join(c->unit, yes, no);
    bool of_union =
        v->now && v->now->kind == TERM_VALUE && v->now->value->type->kind == CR_STYPE_UNION;

    return joined || !of_union ? joined
                               : cr_stype_union(c->unit, 2, (const cr_stype *[]){yes, no});
}

/* Makes the variable's values in both branches a result of the node. */
static void branch_join(compiler *c, cr_snode *n, variable *v, const changes *yes,
                        const changes *no, const flow *f)
{
    term *a = branch_term(yes, v), *b = branch_term(no, v);
    cr_svalue *of[2];
    const cr_stype *type;

    if (f[0] == FLOW_ON && f[1] == FLOW_ON &&
        (branch_deletes(yes, v) || branch_deletes(no, v))) {
        variable_change(c, v, NULL, NULL);
        return;
    }
    if (f[0] == FLOW_ON && f[1] == FLOW_ON && (!a || !b)) {
        variable_change(
            c, v, NULL,
            loss_new(c, (loss){.branch = a ? "false" : "true", .range = n->from.range}));
        return;
    }
    if (a == b || (f[0] == FLOW_ON ? a : b)->kind != TERM_VALUE) {
        variable_change(c, v, f[0] == FLOW_ON ? a : b, NULL);
        return;
    }
    if (f[0] == FLOW_ON && f[1] == FLOW_ON &&
        (a->kind != TERM_VALUE || b->kind != TERM_VALUE)) {
        variable_change(c, v, NULL,
                        loss_new(c, (loss){.branch = "false", .range = n->from.range}));
        return;
    }
    type = f[0] != FLOW_ON   ? b->value->type
           : f[1] != FLOW_ON ? a->value->type
                             : branch_type(c, v, a->value->type, b->value->type);
    if (!type) {
        variable_change(c, v, NULL,
                        loss_new(c, (loss){.yes = a->value->type,
                                           .no = b->value->type,
                                           .range = n->from.range}));
        return;
    }
    for (int i = 0; i < 2; i++) {
        of[i] = f[i] == FLOW_ON ? (i ? b : a)->value
                                : branch_uninitialized(c, n->block[i], type, n->from.range);
        cr_sblock_output(n->block[i], of[i]);
    }
    variable_change(c, v, compile_term_value(c, cr_snode_output(n, v->name, type)), NULL);
}

static void branches_join(compiler *c, cr_snode *n, const changes *yes, const changes *no,
                          const flow *f)
{
    size_t i = 0, k = 0;

    while (i < yes->len || k < no->len) {
        int order = i == yes->len  ? 1
                    : k == no->len ? -1
                                   : strcmp(yes->at[i].var->name, no->at[k].var->name);
        variable *v = order <= 0 ? yes->at[i].var : no->at[k].var;
        i += order <= 0;
        k += order >= 0;
        if (f[0] == FLOW_ON ? branch_term(yes, v) != NULL || f[1] == FLOW_ON
                            : branch_term(no, v) != NULL)
            branch_join(c, n, v, yes, no, f);
    }
}

void compile_branches_join(compiler *c, cr_snode *n, const changes *yes, const changes *no)
{
    branches_join(c, n, yes, no, (flow[]){FLOW_ON, FLOW_ON});
}

static flow compile_if(compiler *c, const cr_sast *a)
{
    condition *k = compile_condition(c, a->at[0]);
    changes l[2];
    cr_snode *n;
    flow f[2];

    if (c->env && k->known >= 0) {
        compile_assume(c, k->known ? k->yes : k->no, a->range);
        return compile_statements(c, a->at[k->known ? 1 : 2]->at,
                                  a->at[k->known ? 1 : 2]->count);
    }
    n = cr_snode_new(c->block, CR_SPRIM_IF, a->range);
    cr_snode_input(n, k->value);
    for (int i = 0; i < 2; i++)
        f[i] = branch_compile(c, cr_snode_block(n), body_of(a->at[1 + i]), i ? k->no : k->yes,
                              a->range, &l[i]);
    if (f[0] == FLOW_LEFT && f[1] == FLOW_LEFT)
        return FLOW_LEFT;
    branches_join(c, n, &l[0], &l[1], f);
    return FLOW_ON;
}

/* --- loops --- */

typedef CR_VEC(variable *) variables;

static void assigned_name(compiler *c, variables *out, const cr_sast *target)
{
    if (target->kind == CR_SAST_NAME) {
        variable *v = compile_variable(c, target->text);
        for (size_t i = 0; i < out->len; i++)
            if (out->at[i] == v)
                return;
        CR_PUSH(c->s, out, v);
        return;
    }
    if (target->kind == CR_SAST_TUPLE || target->kind == CR_SAST_LIST ||
        target->kind == CR_SAST_STAR)
        for (int i = 0; i < target->count; i++)
            assigned_name(c, out, target->at[i]);
}

/* The variables that statements assign. */
static void assigned(compiler *c, variables *out, const cr_sast *a)
{
    int from = a->kind == CR_SAST_ASSIGN ? 2 : 0;
    int to = a->kind == CR_SAST_ASSIGN                                ? a->count
             : a->kind == CR_SAST_AUGMENTED || a->kind == CR_SAST_FOR ? 1
                                                                      : 0;

    for (int i = from; i < to; i++)
        assigned_name(c, out, a->at[i]);
    if (a->kind == CR_SAST_BODY || a->kind == CR_SAST_IF || a->kind == CR_SAST_WHILE ||
        a->kind == CR_SAST_FOR || a->kind == CR_SAST_WITH)
        for (int i = 0; i < a->count; i++)
            if (a->at[i])
                assigned(c, out, a->at[i]);
}

static int variable_by_name(const void *a, const void *b)
{
    return strcmp((*(variable *const *)a)->name, (*(variable *const *)b)->name);
}

/* The variables that a loop carries: assigned in the body, with a value before it. */
static variables loop_carried(compiler *c, const cr_sast *loop)
{
    variables all = {0}, carried = {0};

    assigned(c, &all, loop);
    for (size_t i = 0; i < all.len; i++)
        if (all.at[i]->now && all.at[i]->now->kind == TERM_VALUE)
            CR_PUSH(c->s, &carried, all.at[i]);
    if (carried.len)
        qsort(carried.at, carried.len, sizeof(*carried.at), variable_by_name);
    return carried;
}

/* A loop that is being compiled. */
typedef struct looping {
    cr_snode *node;
    variables carried;
    bool *deleted; /* of each carried variable: there is a way out of the body without it */
    cr_sblock *outer;
    size_t mark;
    cr_svalue *trip, *go;     /* go: the constant condition of a `for`, made before it */
    const cr_sast *condition; /* of a `while` */
    struct looping *around;
} looping;

static looping loop_enter(compiler *c, const cr_sast *a, cr_svalue *most, cr_svalue *go)
{
    looping l = {
        .carried = loop_carried(c, a), .outer = c->block, .mark = c->log.len, .go = go};
    cr_sblock *b;

    l.deleted = CR_NEW_N(c->s, bool, l.carried.len + 1);
    l.node = cr_snode_new(c->block, CR_SPRIM_LOOP, a->range);
    cr_snode_input(l.node, most);
    cr_snode_input(l.node, go);
    b = cr_snode_block(l.node);
    l.trip = cr_sblock_input(b, NULL, CR_STYPE_OF(INT));
    for (size_t i = 0; i < l.carried.len; i++) {
        variable *v = l.carried.at[i];
        cr_snode_input(l.node, v->now->value);
        const cr_stype *type = v->now->value->type;
        if (v->declared && cr_stype_is_subtype(type, v->declared))
            type = v->declared;
        cr_svalue *in = cr_sblock_input(b, v->name, type);
        variable_change(c, v, compile_term_value(c, in), NULL);
    }
    c->block = b;
    c->depth++;
    return l;
}

/* What a loop goes on with as a variable that it carries: of one that was deleted, the value
 * that it had, which is not read. */
static cr_svalue *loop_value(compiler *c, looping *l, size_t i, cr_srange range)
{
    variable *v = l->carried.at[i];

    l->deleted[i] |= !v->now;
    return v->now ? compile_as_value(c, v->now, range) : l->node->block[0]->input[1 + i];
}

static void loop_leave(compiler *c, looping *l, cr_svalue *go)
{
    cr_sblock *b = l->node->block[0];
    changes end_of;

    cr_sblock_output(b, go);
    for (size_t i = 0; i < l->carried.len; i++) {
        variable *v = l->carried.at[i];
        const cr_stype *type = b->input[1 + i]->type;
        cr_svalue *end = v->now && v->now->kind != TERM_VALUE
                             ? NULL
                             : loop_value(c, l, i, l->node->from.range);
        if (!end || !cr_stype_is_subtype(end->type, type))
            cr_srange_bail(c->s, CR_RUNTIME, l->node->from.range,
                           "Variable '%s' previously had type %s but is now being assigned "
                           "to a value of type %s\n",
                           v->name, cr_stype_annotation(type),
                           end ? cr_stype_annotation(end->type) : "undefined");
        cr_sblock_output(b, end);
    }
    c->depth--;
    c->block = l->outer;
    end_of = compile_branch_leave(c, l->mark);
    for (size_t i = 0; i < end_of.len; i++)
        if (!end_of.at[i].var->now) /* what the body alone sets has no value behind the loop */
            variable_change(c, end_of.at[i].var, NULL, end_of.at[i].lost);
    for (size_t i = 0; i < l->carried.len; i++) {
        cr_svalue *out =
            cr_snode_output(l->node, l->carried.at[i]->name, b->input[1 + i]->type);
        variable_change(c, l->carried.at[i], l->deleted[i] ? NULL : compile_term_value(c, out),
                        NULL);
    }
}

static void loop_refuse_else(compiler *c, const cr_sast *a, int at)
{
    const char *word = a->kind == CR_SAST_FOR ? "for" : "while";
    cr_srange range = a->range;

    if (!a->at[at])
        return;
    range.end = range.start + (uint32_t)strlen(word);
    define_refuse(c, "NotSupportedError", range,
                  cr_session_printf(c->s, "else branches of %s loops aren't supported", word));
}

static cr_svalue *constant_true(compiler *c, cr_srange range)
{
    return compile_constant(c, &(cr_sconstant){.type = CR_STYPE_OF(BOOL), .i = 1}, range);
}

/* The loop's condition after an iteration. */
static cr_svalue *loop_condition(compiler *c, const looping *l)
{
    return l->condition ? compile_truth(c, l->condition) : l->go;
}

static void loop_body(compiler *c, looping *l, const cr_sast *body)
{
    l->around = c->loop;
    c->loop = l;
    compile_statements(c, body->at, body->count);
    c->loop = l->around;
    loop_leave(c, l, loop_condition(c, l));
}

static void compile_while(compiler *c, const cr_sast *a)
{
    cr_svalue *most;
    looping l;

    loop_refuse_else(c, a, 2);
    most = compile_literal(c, INT64_MAX, a->range);
    l = loop_enter(c, a, most, compile_truth(c, a->at[0]));
    l.condition = a->at[0];
    loop_body(c, &l, a->at[1]);
}

/* break and continue: a node with the condition and the carried values. */
static flow compile_leave_loop(compiler *c, const cr_sast *a)
{
    bool stop = a->kind == CR_SAST_BREAK;
    cr_svalue *go;
    cr_snode *n;

    if (!c->loop)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "SyntaxError: '%s' outside loop",
                       stop ? "break" : "continue");
    go = stop ? compile_constant(c, &(cr_sconstant){.type = CR_STYPE_OF(BOOL)}, a->range)
              : loop_condition(c, c->loop);
    n = cr_snode_new(c->block, CR_SPRIM_CONTINUATION, a->range);
    cr_snode_input(n, go);
    for (size_t i = 0; i < c->loop->carried.len; i++)
        cr_snode_input(n, loop_value(c, c->loop, i, a->range));
    return FLOW_LEFT;
}

/* --- what loops go over --- */

/* The name of a function of Python that makes an iterable, which is called here; or NULL. */
static const char *iterable_call(compiler *c, const cr_sast *over)
{
    static const char *const names[] = {"range", "enumerate", "zip"};

    if (over->kind != CR_SAST_CALL || over->at[0]->kind != CR_SAST_NAME)
        return NULL;
    for (size_t i = 0; i < CR_LEN(names); i++)
        if (!strcmp(names[i], over->at[0]->text) && !compile_variable(c, names[i])->now)
            return names[i];
    return NULL;
}

/* A list, a range, or several that go together. */
typedef struct iteration iteration;
struct iteration {
    cr_svalue *list;               /* or NULL */
    cr_svalue *start, *end, *step; /* of a range; start NULL: 0, in steps of 1 */
    bool counts; /* enumerate: the number of the item, of this range, comes first */
    term *items; /* known when compiled */
    int parts;   /* zip, enumerate */
    iteration *part;
};

static iteration iterate_range(compiler *c, const cr_sast *over)
{
    cr_svalue *arg[3];
    int n = over->count - 1;
    iteration it = {0};

    if (n < 1 || n > 3)
        cr_srange_bail(c->s, CR_RUNTIME, over->range, "range expected 1 to 3 arguments, got %d",
                       n);
    for (int i = 0; i < n; i++) {
        arg[i] = compile_convert(c, compile_value(c, over->at[i + 1], NULL), CR_STYPE_OF(INT),
                                 true, over->range);
        if (!cr_stype_is_subtype(arg[i]->type, CR_STYPE_OF(INT)))
            cr_srange_bail(c->s, CR_RUNTIME, over->range,
                           "all inputs of range must be ints, found %s in argument %d",
                           cr_stype_annotation(arg[i]->type), i);
    }
    if (n == 1) {
        it.end = arg[0];
        return it;
    }
    it.start = arg[0];
    it.end = arg[1];
    it.step = n == 3 ? arg[2] : compile_int(c, 1, over->range);
    return it;
}

static iteration iterate_over(compiler *c, const cr_sast *over, cr_srange range);

/* The known items of the part with the fewest; NULL when the program counts all parts. */
static term *iterate_fewest(compiler *c, const iteration *it, cr_srange range)
{
    term *fewest = it->part[0].items;

    for (int i = 1; i < it->parts; i++) {
        term *items = it->part[i].items;
        if (!items != !fewest)
            cr_srange_bail(c->s, CR_RUNTIME, range,
                           "Can not iterate over a module list or tuple with a value that does "
                           "not have a static length");
        if (fewest && items->count < fewest->count)
            fewest = items;
    }
    return fewest;
}

static iteration iterate_parts(compiler *c, const cr_sast *over, bool counts, cr_srange range)
{
    iteration it = {.counts = counts, .parts = over->count - 1};

    if (counts && it.parts == 2) {
        it.start = compile_convert(c, compile_value(c, over->at[2], NULL), CR_STYPE_OF(INT),
                                   true, over->range);
        it.step = compile_int(c, 1, over->range);
        it.parts = 1;
    }
    if (it.parts < 1 || (counts && it.parts != 1))
        cr_srange_bail(c->s, CR_RUNTIME, over->range, "%s expects %s",
                       counts ? "enumerate" : "zip",
                       counts ? "1 or 2 arguments" : "at least 1 argument");
    it.part = CR_NEW_N(c->s, iteration, it.parts);
    for (int i = 0; i < it.parts; i++)
        it.part[i] = iterate_over(c, over->at[1 + i], range);
    it.items = iterate_fewest(c, &it, range);
    if (counts)
        it.end = compile_literal(c, INT64_MAX, over->range);
    return it;
}

typedef CR_VEC(cr_svalue *) lengths;

/* The lengths of all lists and ranges that go together. */
static void iterate_lengths(compiler *c, const iteration *it, cr_srange range, lengths *out)
{
    cr_svalue *bounds[] = {it->start, it->end, it->step}, *list = it->list, *n = it->end;

    if (list)
        n = compile_one(c, "aten::len", range, 1, &list);
    else if (it->start)
        n = compile_one(c, "aten::__range_length", range, 3, bounds);
    if (n)
        CR_PUSH(c->s, out, n);
    for (int i = 0; i < it->parts; i++)
        iterate_lengths(c, &it->part[i], range, out);
}

/* The number of iterations. */
static cr_svalue *iterate_most(compiler *c, const iteration *it, cr_srange range)
{
    const cr_stype *type = cr_stype_list(c->unit, CR_STYPE_OF(INT));
    lengths all = {0};
    cr_svalue *list;

    iterate_lengths(c, it, range, &all);
    if (all.len == 1)
        return all.at[0];
    list = compile_construct(c, CR_SPRIM_LIST_CONSTRUCT, type, (int)all.len, all.at, range);
    return compile_one(c, "prim::min", range, 1, &list);
}

/* The members of an enum: a constant list. */
static cr_svalue *enum_members(compiler *c, const cr_stype *type, cr_srange range)
{
    int n = (int)type->cls->constants.len;
    cr_sconstant *item = CR_NEW_N(c->s, cr_sconstant, n + 1);
    cr_sconstant all = {.type = cr_stype_list(c->unit, type), .count = n, .item = item};

    for (int i = 0; i < n; i++) {
        const char *name = type->cls->constants.at[i].name;
        item[i] = (cr_sconstant){.type = type, .s = name, .len = strlen(name)};
    }
    return compile_constant(c, &all, range);
}

static iteration iterate_value(compiler *c, term *t, cr_srange range)
{
    iteration it = {0};
    const cr_stype *type;

    if (t->kind == TERM_ITEMS) {
        it.items = t;
        return it;
    }
    it.list = c->env && t->kind == TERM_CLASS && t->type->kind == CR_STYPE_ENUM
                  ? enum_members(c, t->type, range)
                  : compile_as_value(c, t, range);
    type = it.list->type;
    if (type->kind == CR_STYPE_CLASS && (it.items = compile_modules(c, it.list, range)))
        return it;
    if (type->kind == CR_STYPE_TUPLE) {
        it.items = CR_NEW(c->s, term);
        *it.items = (term){.kind = TERM_ITEMS, .count = type->count};
        it.items->items = CR_NEW_N(c->s, term *, type->count + 1);
        cr_snode *unpack = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, range);
        cr_snode_input(unpack, it.list);
        for (int i = 0; i < type->count; i++)
            it.items->items[i] =
                compile_term_value(c, cr_snode_output(unpack, NULL, type->item[i]));
        return it;
    }
    if (type->kind == CR_STYPE_DICT)
        it.list = compile_one(c, "aten::keys", range, 1, &it.list);
    else if (type->kind != CR_STYPE_LIST && type->kind != CR_STYPE_TENSOR &&
             type->kind != CR_STYPE_STR)
        cr_srange_bail(c->s, CR_RUNTIME, range, "'%s' object is not iterable",
                       cr_stype_annotation(type));
    return it;
}

static iteration iterate_over(compiler *c, const cr_sast *over, cr_srange range)
{
    const char *name = iterable_call(c, over);

    if (name && *name == 'r')
        return iterate_range(c, over);
    if (name)
        return iterate_parts(c, over, *name == 'e', range);
    return iterate_value(c, compile_term(c, over, NULL), range);
}

/* The item of iteration `i`: a value in a loop, or a number that is known. */
static term *iterate_item(compiler *c, const iteration *it, cr_svalue *trip, int i,
                          cr_srange range);

static term *iterate_together(compiler *c, const iteration *it, cr_svalue *trip, int i,
                              cr_srange range)
{
    term *made = CR_NEW(c->s, term);

    *made = (term){.kind = TERM_ITEMS};
    made->items = CR_NEW_N(c->s, term *, it->parts + 1);
    if (it->counts) {
        cr_svalue *number = it->items ? compile_literal(c, i, range) : trip;
        if (it->start && it->items)
            number = compile_one(c, "aten::add", range, 2, (cr_svalue *[]){number, it->start});
        else if (it->start)
            number = compile_one(c, "aten::__derive_index", range, 3,
                                 (cr_svalue *[]){number, it->start, it->step});
        made->items[made->count++] = compile_term_value(c, number);
    }
    for (int k = 0; k < it->parts; k++)
        made->items[made->count++] = iterate_item(c, &it->part[k], trip, i, range);
    return made;
}

static term *iterate_item(compiler *c, const iteration *it, cr_svalue *trip, int i,
                          cr_srange range)
{
    cr_svalue *v = trip;

    if (it->parts)
        return iterate_together(c, it, trip, i, range);
    if (it->items)
        return it->items->items[i];
    if (!trip)
        trip = v = compile_literal(c, i, range);
    if (it->list && it->list->type->kind == CR_STYPE_TENSOR)
        v = compile_one(c, "aten::select", range, 3,
                        (cr_svalue *[]){it->list, compile_int(c, 0, range), trip});
    else if (it->list)
        v = compile_one(c, "aten::__getitem__", range, 2, (cr_svalue *[]){it->list, trip});
    else if (it->start)
        v = compile_one(c, "aten::__derive_index", range, 3,
                        (cr_svalue *[]){trip, it->start, it->step});
    return compile_term_value(c, v);
}

/* The body of a loop: statements, or the element of a comprehension. */
typedef struct {
    const cr_sast *target, *body;   /* target NULL: the element is the item */
    const cr_sast *element, *value; /* of a comprehension; value: of a dict's */
    const cr_sast *loop;            /* for its range and what it assigns */
    cr_svalue *list;                /* of a comprehension: the list or dict */
    bool typed, pairs;              /* pairs: items are keys and values of a dict */
    term *item;
} loop_work;

static void comprehension_check(compiler *c, const loop_work *w, const cr_stype *key,
                                const cr_stype *value)
{
    if (key->kind == CR_STYPE_UNION)
        cr_srange_bail(c->s, CR_RUNTIME, w->loop->range,
                       "Dicts may only contain homogeneous keys, but the type of the first "
                       "generated key was %s",
                       cr_stype_annotation(key));
    if (w->typed && !cr_stype_is_subtype(value, w->list->type->item[1]))
        cr_srange_bail(c->s, CR_RUNTIME, w->loop->range,
                       "Dict type annotation `%s` did not match the type of an actual value "
                       "type `%s`\n",
                       cr_stype_annotation(w->list->type), cr_stype_annotation(value));
}

/* A key and a value of a dict comprehension, or of an item that has both. */
static void comprehension_set(compiler *c, loop_work *w)
{
    cr_svalue *v[3] = {w->list};
    const cr_stype *const *hint = w->typed ? w->list->type->item : NULL;

    if (w->element) {
        v[1] = compile_value(c, w->element, hint ? hint[0] : NULL);
        v[2] = compile_value(c, w->value, hint ? hint[1] : NULL);
        comprehension_check(c, w, v[1]->type, v[2]->type);
    } else {
        cr_svalue *pair = compile_as_value(c, w->item, w->loop->range);
        if (pair->type->kind != CR_STYPE_TUPLE || pair->type->count != 2)
            cr_srange_bail(c->s, CR_RUNTIME, w->loop->range,
                           "dict() takes pairs of keys and values, not values of type '%s'",
                           cr_stype_annotation(pair->type));
        cr_snode *n = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, w->loop->range);
        cr_snode_input(n, pair);
        for (int i = 0; i < 2; i++)
            v[1 + i] = cr_snode_output(n, NULL, pair->type->item[i]);
        comprehension_check(c, w, v[1]->type, v[2]->type);
    }
    if (!w->typed)
        w->list->type = compile_dict_type(c, v[1]->type, v[2]->type);
    w->typed = true;
    compile_one(c, "aten::_set_item", w->loop->range, 3, v);
}

static void comprehension_append(compiler *c, loop_work *w)
{
    if (w->pairs) {
        comprehension_set(c, w);
        return;
    }
    cr_svalue *v = w->element
                       ? compile_value(c, w->element, w->typed ? w->list->type->item[0] : NULL)
                       : compile_as_value(c, w->item, w->loop->range);

    if (!w->typed) {
        w->list->type = cr_stype_list(c->unit, v->type);
        w->typed = true;
    } else if (c->env) {
        v = compile_convert(c, v, w->list->type->item[0], false, w->loop->range);
        if (!cr_stype_is_subtype(v->type, w->list->type->item[0]))
            cr_srange_bail(
                c->s, CR_RUNTIME, w->loop->range,
                "List type annotation `%s` did not match the types of the given list "
                "elements, which were unified to %s",
                cr_stype_annotation(w->list->type), cr_stype_annotation(v->type));
    }
    compile_one(c, "aten::append", w->loop->range, 2, (cr_svalue *[]){w->list, v});
}

static flow loop_work_run(compiler *c, loop_work *w)
{
    if (w->body)
        return compile_statements(c, w->body->at, w->body->count);
    comprehension_append(c, w);
    return FLOW_ON;
}

static void loop_assign(compiler *c, loop_work *w, term *item)
{
    w->item = item;
    if (w->target)
        compile_target(c, w->target, item, w->target->range);
}

/* A loop over what is known is unrolled. */
static flow loop_unrolled(compiler *c, const iteration *it, loop_work *w)
{
    looping *around = c->loop;
    flow f = FLOW_ON;

    c->loop = NULL;
    for (int i = 0; i < it->items->count && f == FLOW_ON; i++) {
        loop_assign(c, w, iterate_item(c, it, NULL, i, w->loop->range));
        f = loop_work_run(c, w);
    }
    c->loop = around;
    return f;
}

static flow loop_over(compiler *c, const iteration *it, loop_work *w)
{
    looping l;
    term *item;

    if (it->items)
        return loop_unrolled(c, it, w);
    l = loop_enter(c, w->loop, iterate_most(c, it, w->loop->range),
                   constant_true(c, w->loop->range));
    l.condition = NULL;
    l.around = c->loop;
    item = iterate_item(c, it, l.trip, 0, w->loop->range);
    loop_assign(c, w, item);
    c->loop = w->body ? &l : c->loop;
    loop_work_run(c, w);
    c->loop = l.around;
    loop_leave(c, &l, l.go);
    return FLOW_ON;
}

static flow compile_for(compiler *c, const cr_sast *a)
{
    const cr_sast *over = a->at[1];
    loop_work w = {.target = a->at[0], .body = a->at[2], .loop = a};
    iteration it;

    loop_refuse_else(c, a, 3);
    if (c->env && !a->range.source->python && over->kind == CR_SAST_TUPLE &&
        over->range.source->text[over->range.start] != '(') /* in source texts only, as torch */
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "List of iterables is not supported currently");
    it = iterate_over(c, over, a->range);
    return loop_over(c, &it, &w);
}

/* The list or dict of a comprehension, which is empty before the loop. */
static cr_svalue *comprehension_run(compiler *c, loop_work *w, const cr_sast *over,
                                    const cr_stype *hint)
{
    cr_stype_kind kind = w->pairs ? CR_STYPE_DICT : CR_STYPE_LIST;
    size_t mark = c->log.len;
    const cr_stype *type = compile_display_hint(c, hint, kind, w->loop->range);
    term *pairs = NULL;
    iteration it;

    w->typed = type && type->kind == (uint8_t)kind;
    if (!w->typed)
        type = w->pairs ? cr_stype_dict(c->unit, CR_STYPE_OF(STR), CR_STYPE_OF(TENSOR))
                        : cr_stype_list(c->unit, CR_STYPE_OF(TENSOR));
    if (!w->element && w->pairs && !iterable_call(c, over)) /* dict(pairs): the pairs first */
        pairs = compile_term(c, over, NULL);
    w->list = compile_construct(c, w->pairs ? CR_SPRIM_DICT_CONSTRUCT : CR_SPRIM_LIST_CONSTRUCT,
                                type, 0, NULL, w->loop->range);
    it =
        pairs ? iterate_value(c, pairs, w->loop->range) : iterate_over(c, over, w->loop->range);
    loop_over(c, &it, w);
    compile_undo(c, mark);
    return w->list;
}

static const cr_sast *comprehension_loop(compiler *c, const cr_sast *a, int at)
{
    if (a->count == at + 1 && a->at[at]->count != 2)
        define_refuse(c, "NotSupportedError",
                      (cr_srange){a->range.source, a->range.start, a->range.start},
                      "Comprehension ifs are not supported yet");
    if (a->count != at + 1)
        define_refuse(c, "NotSupportedError", a->range,
                      "Only a single generator is currently supported");
    return a->at[at];
}

cr_svalue *compile_comprehension(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    const cr_sast *loop = comprehension_loop(c, a, 1);
    loop_work w = {.target = loop->at[0], .element = a->at[0], .loop = a};

    return comprehension_run(c, &w, loop->at[1], hint);
}

cr_svalue *compile_dict_comprehension(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    const cr_sast *loop = comprehension_loop(c, a, 2);
    loop_work w = {.target = loop->at[0],
                   .element = a->at[0],
                   .value = a->at[1],
                   .loop = a,
                   .pairs = true};

    return compile_display_cast(c, comprehension_run(c, &w, loop->at[1], hint), hint, a->range);
}

/* --- list(x), dict(x) --- */

cr_svalue *compile_list_call(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    loop_work w = {.loop = a};
    term *t;
    cr_svalue *v;

    if (a->count == 1)
        return compile_construct(c, CR_SPRIM_LIST_CONSTRUCT,
                                 hint && hint->kind == CR_STYPE_LIST
                                     ? hint
                                     : cr_stype_list(c->unit, CR_STYPE_OF(TENSOR)),
                                 0, NULL, a->range);
    if (a->count != 2)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "list() takes at most 1 argument (%d given)",
                       a->count - 1);
    if (iterable_call(c, a->at[1]))
        return comprehension_run(c, &w, a->at[1], hint);
    t = compile_term(c, a->at[1], hint);
    if (t->kind == TERM_VALUE && t->value->type->kind != CR_STYPE_LIST &&
        t->value->type->kind != CR_STYPE_STR)
        return comprehension_run(c, &w, a->at[1], hint);
    v = compile_as_value(c, t, a->range);
    return compile_one(c, "aten::list", a->range, 1, &v);
}

/* A string's node, for the name of an argument. */
static cr_sast *dict_key(compiler *c, const cr_sast *keyword)
{
    cr_sast *key = cr_session_copy(c->s, keyword, sizeof *keyword);

    key->kind = CR_SAST_STRING;
    key->count = 0;
    return key;
}

/* [*list, ("name", value)...]: the pairs of dict(list, name=value). */
static cr_sast *dict_pairs(compiler *c, const cr_sast *a, const cr_sast *list, int from)
{
    cr_sast *all = cr_session_copy(c->s, a, sizeof *a);
    int n = 0;

    all->kind = CR_SAST_LIST;
    all->at = CR_NEW_N(c->s, cr_sast *, a->count + (list ? list->count : 0) + 1);
    for (int i = 0; list && i < list->count; i++)
        all->at[n++] = list->at[i];
    for (int i = from; i < a->count; i++) {
        cr_sast *pair = cr_session_copy(c->s, a->at[i], sizeof *a);
        pair->kind = CR_SAST_TUPLE;
        pair->count = 2;
        pair->at = CR_NEW_N(c->s, cr_sast *, 2);
        pair->at[0] = dict_key(c, a->at[i]);
        pair->at[1] = a->at[i]->at[0];
        all->at[n++] = pair;
    }
    all->count = n;
    return all;
}

static void dict_refuse_type(compiler *c, const cr_svalue *made, const cr_stype *hint,
                             cr_srange range)
{
    if (!hint || hint->kind != CR_STYPE_DICT || cr_stype_is_subtype(made->type, hint))
        return;
    bool key = !cr_stype_is_subtype(made->type->item[0], hint->item[0]);
    cr_srange_bail(c->s, CR_RUNTIME, range,
                   "Dict type annotation `%s` did not match the type of an actual %s type `%s`",
                   cr_stype_annotation(hint), key ? "key" : "value",
                   cr_stype_annotation(made->type->item[!key]));
}

/* A copy of a dict, and the arguments with names. */
static cr_svalue *dict_copied(compiler *c, const cr_sast *a, cr_svalue *v)
{
    v = compile_one(c, "aten::dict", a->range, 1, &v);
    for (int i = 2; i < a->count; i++) {
        cr_svalue *item[] = {v, compile_value(c, dict_key(c, a->at[i]), NULL),
                             compile_value(c, a->at[i]->at[0], NULL)};
        compile_one(c, "aten::_set_item", a->range, 3, item);
    }
    return v;
}

cr_svalue *compile_dict_call(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    const cr_sast *first = a->count > 1 && a->at[1]->kind != CR_SAST_KEYWORD ? a->at[1] : NULL;
    loop_work w = {.loop = a, .pairs = true};
    cr_svalue *made;
    cr_sast empty = {.kind = CR_SAST_DICT, .range = a->range};

    for (int i = first ? 2 : 1; i < a->count; i++)
        if (a->at[i]->kind != CR_SAST_KEYWORD)
            cr_srange_bail(c->s, CR_RUNTIME, a->range,
                           "dict expected at most 1 argument without a name");
    if (a->count == 1 || (first && a->count == 2 && !first->count &&
                          (first->kind == CR_SAST_LIST || first->kind == CR_SAST_DICT)))
        return compile_value(c, cr_session_copy(c->s, &empty, sizeof empty), hint);
    if (c->env && compile_display_members(hint, CR_STYPE_DICT) > 1)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "There are multiple candidate Dict types in the Union type annotation "
                       "`%s`, and full "
                       "type inference is not yet supported for the `dict()` constructor.",
                       cr_stype_annotation(hint));
    if (!first || first->kind == CR_SAST_LIST)
        made = comprehension_run(c, &w, dict_pairs(c, a, first, first ? 2 : 1), NULL);
    else if (first->kind == CR_SAST_LIST_COMP || iterable_call(c, first))
        made = comprehension_run(c, &w, first, NULL);
    else {
        made = compile_value(c, first, NULL);
        made = made->type->kind == CR_STYPE_DICT ? dict_copied(c, a, made)
                                                 : comprehension_run(c, &w, first, NULL);
    }
    dict_refuse_type(c, made, hint, a->range);
    return made;
}

/* --- other statements --- */

static const cr_stype *return_type(compiler *c, cr_svalue *v, cr_srange range)
{
    const cr_stype *joined;

    if (c->declared) {
        if (!cr_stype_is_subtype(v->type, c->declared))
            cr_srange_bail(c->s, CR_RUNTIME, range,
                           "Return value was annotated as having type %s but is actually of "
                           "type %s",
                           cr_stype_annotation(c->declared), cr_stype_annotation(v->type));
        return c->declared;
    }
    joined = c->result ? cr_stype_join(c->unit, c->result, v->type) : v->type;
    if (!joined)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Previous return statement returned a value of type %s but this return "
                       "statement returns a value of type %s",
                       cr_stype_annotation(c->result), cr_stype_annotation(v->type));
    return joined;
}

static void emit_return(compiler *c, cr_svalue *v, cr_srange range)
{
    if (c->declared && v->type->kind != CR_STYPE_NONE)
        v = compile_convert(c, v, c->declared, true, range);
    c->result = return_type(c, v, range);
    if (c->declared && c->declared->kind == CR_STYPE_ANY && v->type->kind != CR_STYPE_ANY)
        v = compile_construct(c, CR_SPRIM_UNCHECKED_CAST, c->declared, 1, &v, range);
    cr_snode_input(cr_snode_new(c->block, CR_SPRIM_RETURN, range), v);
}

/* A body that ends without `return` returns None. */
static void body_end(compiler *c, const cr_sast *def)
{
    if (c->declared && c->declared->kind != CR_STYPE_NONE)
        cr_srange_bail(c->s, CR_RUNTIME, def->range,
                       "Function was not annotated as having type None, but does not return "
                       "along all paths");
    emit_return(c, compile_none(c, def->range), def->range);
}

/* The value of a call that raises, in a branch: nothing is returned there. */
static bool return_is_not_reached(const compiler *c, const cr_svalue *v)
{
    return c->depth && v->by && v->by->prim == CR_SPRIM_UNINITIALIZED;
}

static void compile_return(compiler *c, const cr_sast *a)
{
    cr_svalue *v =
        a->at[0] ? compile_value(c, a->at[0], c->declared) : compile_none(c, a->range);

    if (!return_is_not_reached(c, v))
        emit_return(c, v, a->range);
}

static void emit_raise(compiler *c, cr_svalue *message, const char *class, cr_srange range)
{
    cr_sconstant value = {.type = CR_STYPE_OF(STR)};
    cr_svalue *both[2] = {message, NULL};

    value.s = class;
    value.len = class ? strlen(class) : 0;
    both[1] = class ? compile_constant(c, &value, range) : compile_none(c, range);
    compile_one(c, "prim::RaiseException", range, 2, both);
}

static cr_svalue *string_constant(compiler *c, const char *s, size_t len, cr_srange range)
{
    cr_sconstant value = {.type = CR_STYPE_OF(STR)};

    value.s = s;
    value.len = len;
    return compile_constant(c, &value, range);
}

/* The name of an exception's class: "builtins.ValueError". */
static const char *raise_class(compiler *c, const cr_sast *name)
{
    const char *plain = cr_session_printf(c->s, "builtins.%s", name->text);
    term *t = !c->env                      ? NULL
              : name->kind == CR_SAST_NAME ? define_name(c, name->text, name->range)
                                           : compile_term(c, name, NULL);
    const char *full;

    if (!t && c->env && name->kind == CR_SAST_NAME)
        cr_srange_bail(c->s, CR_RUNTIME, name->range, "undefined value %s", name->text);
    full = t && t->kind == TERM_PYTHON ? define_exception(c, t, name->range) : NULL;
    return full ? full : plain;
}

/* The texts of the arguments, one behind the other. */
static cr_svalue *raise_message(compiler *c, const cr_sast *e)
{
    int count = e->kind == CR_SAST_CALL ? e->count - 1 : 0;
    cr_svalue **part = CR_NEW_N(c->s, cr_svalue *, count + 1);

    for (int i = 0; i < count; i++)
        part[i] = compile_value(c, e->at[i + 1], NULL);
    if (!count)
        return string_constant(c, "", 0, e->range);
    cr_svalue *message = count == 1 ? part[0] : compile_tuple_of(c, count, part, e->range);
    if (message->type->kind == CR_STYPE_STR)
        return message;
    return compile_one(c, "aten::str", e->range, 1, &message);
}

/* The text of an AssertionError: literals behind one another at its start are one constant. */
static cr_svalue *assertion_text(compiler *c, const cr_sast *const *part, int count,
                                 cr_srange range)
{
    const char *start = "AssertionError: ";
    int i = 0;

    for (; i < count && (part[i]->kind == CR_SAST_STRING || part[i]->kind == CR_SAST_NUMBER);
         i++)
        start = cr_session_printf(c->s, "%s%s", start, part[i]->text);
    cr_svalue *both[2] = {NULL, NULL};
    for (; i < count; i++) {
        both[1] = compile_value(c, part[i], NULL);
        if (!both[0]) /* behind the value: the order of constants follows */
            both[0] = string_constant(c, start, strlen(start), range);
        if (both[1]->type->kind != CR_STYPE_STR)
            both[1] = compile_one(c, "aten::str", range, 1, &both[1]);
        both[0] = compile_one(c, "aten::add", range, 2, both);
    }
    return both[0] ? both[0] : string_constant(c, start, strlen(start), range);
}

static bool raise_is_assertion(const cr_sast *e, const char *class)
{
    return e->kind == CR_SAST_CALL && class && !strcmp(class, "builtins.AssertionError");
}

/* raise ValueError("...") */
static void compile_raise(compiler *c, const cr_sast *a)
{
    const cr_sast *e = a->at[0];
    const cr_sast *name = e && e->kind == CR_SAST_CALL ? e->at[0] : e;
    const char *class = NULL;

    if (!e || (name->kind != CR_SAST_NAME && name->kind != CR_SAST_ATTRIBUTE) ||
        (name->kind == CR_SAST_NAME && compile_variable(c, name->text)->now))
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "exceptions must derive from BaseException");
    if (e->kind == CR_SAST_CALL)
        class = raise_class(c, name);
    if (raise_is_assertion(e, class))
        emit_raise(c,
                   assertion_text(c, (const cr_sast *const *)e->at + 1, e->count - 1, a->range),
                   NULL, a->range);
    else
        emit_raise(c, raise_message(c, e), class, a->range);
}

static cr_svalue *assert_message(compiler *c, const cr_sast *a)
{
    const cr_sast *message = a->at[1];

    return assertion_text(c, &message, message != NULL, a->range);
}

/* An assertion whose condition is known: behind one that fails, nothing is compiled. */
static flow assert_known(compiler *c, const condition *k, const cr_sast *a)
{
    compile_assume(c, k->known ? k->yes : k->no, a->range);
    if (k->known)
        return FLOW_ON;
    emit_raise(c, assert_message(c, a), NULL, a->range);
    return FLOW_LEFT;
}

static flow compile_assert(compiler *c, const cr_sast *a)
{
    condition *k = compile_condition(c, a->at[0]);
    cr_sblock *outer = c->block;
    changes l[2] = {{0}};
    cr_snode *n;

    if (c->env && k->known >= 0)
        return assert_known(c, k, a);
    n = cr_snode_new(c->block, CR_SPRIM_IF, a->range);
    cr_snode_input(n, k->value);
    branch_compile(c, cr_snode_block(n), (statements){0}, k->yes, a->range, &l[0]);
    c->block = cr_snode_block(n);
    emit_raise(c, assert_message(c, a), NULL, a->range);
    c->block = outer;
    branches_join(c, n, &l[0], &l[1], (flow[]){FLOW_ON, FLOW_LEFT});
    return FLOW_ON;
}

static void compile_delete(compiler *c, const cr_sast *a)
{
    for (int i = 0; i < a->count; i++) {
        const cr_sast *target = a->at[i];
        if (target->kind == CR_SAST_NAME) {
            variable *v = compile_variable(c, target->text);
            if (!v->now)
                cr_srange_bail(c->s, CR_RUNTIME, target->range, "undefined value %s",
                               target->text);
            variable_change(c, v, NULL, NULL);
            continue;
        }
        if (target->kind == CR_SAST_SUBSCRIPT && target->at[1]->kind == CR_SAST_SLICE)
            cr_srange_bail(
                c->s, CR_RUNTIME, target->range,
                "del statements only support deletion at a single index, slicing is "
                "not supported (see https://github.com/pytorch/pytorch/issues/31430)");
        if (target->kind != CR_SAST_SUBSCRIPT || target->count != 2)
            cr_srange_bail(c->s, CR_RUNTIME, target->range,
                           "del statements are only supported for deleting list and dict "
                           "items and variables");
        cr_svalue *object = compile_value(c, target->at[0], NULL);
        cr_svalue *at = compile_value(c, target->at[1], NULL);
        if (object->type->kind == CR_STYPE_CLASS &&
            !compile_has(c, object, "__delitem__", target->range))
            cr_srange_bail(c->s, CR_RUNTIME, target->range,
                           "Class does not define __delitem__");
        if (object->type->kind == CR_STYPE_CLASS)
            compile_magic(c, "__delitem__", object, 1, &at, target->range);
        else
            compile_one(c, "aten::Delete", target->range, 2, (cr_svalue *[]){object, at});
    }
}

/* True for a call of the operator that raises: what follows it is not reached. */
static bool is_raising(compiler *c)
{
    const cr_snode *n = c->block->last;

    return n && n->prim == CR_SPRIM_OPERATOR &&
           !strcmp(n->schema->name, "prim::RaiseException");
}

static flow compile_expression(compiler *c, const cr_sast *a)
{
    if (a->at[0]->kind == CR_SAST_STRING || (a->at[0]->kind == CR_SAST_ELLIPSIS && c->archive))
        return FLOW_ON;
    compile_term(c, a->at[0], NULL);
    return is_raising(c) ? FLOW_LEFT : FLOW_ON;
}

/* --- with --- */

static cr_sfunction *with_method(compiler *c, cr_svalue *object, const char *name, int params,
                                 cr_srange range)
{
    cr_sfunction *f = object->type->kind == CR_STYPE_CLASS
                          ? compile_method(c, object->type->cls, name, range)
                          : NULL;

    if (object->type->kind != CR_STYPE_CLASS)
        cr_srange_bail(c->s, CR_RUNTIME, range, "With item expression must return an object");
    if (!f)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Object returned by with item expression does not define __enter__ and "
                       "__exit__ methods");
    compile_function(c, f, range);
    if (f->schema.param_count != params)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       params == 1 ? "%s must have only one argument and one return value"
                                   : "%s must have four arguments",
                       name);
    for (int i = 1; i < params; i++)
        if (f->schema.param[i].type->kind != CR_STYPE_ANY)
            cr_srange_bail(
                c->s, CR_RUNTIME, range,
                "argument %d of __exit__ must have Any type; TorchScript does not "
                "support passing exception type, value, or traceback to this function.",
                i);
    return f;
}

/* The body is a block of its own until exits.c has run; then it is a part of the block around
 * it, between ENTER and EXIT. */
static flow with_items(compiler *c, const cr_sast *a, int i)
{
    const cr_sast *item = a->at[i];
    cr_sblock *outer = c->block;
    cr_svalue *object;
    cr_snode *enter, *with, *leave;
    flow f;

    object = compile_value(c, item->at[0], NULL);
    cr_sfunction *method = with_method(c, object, "__enter__", 1, item->at[0]->range);
    with_method(c, object, "__exit__", 4, item->at[0]->range);
    enter = cr_snode_new(outer, CR_SPRIM_ENTER, a->range);
    cr_snode_input(enter, object);
    cr_snode_output(enter, NULL, method->schema.result[0].type);
    if (item->at[1])
        compile_target(c, item->at[1], compile_term_value(c, enter->output[0]), item->range);
    with = cr_snode_new(outer, CR_SPRIM_WITH, a->range);
    c->block = cr_snode_block(with);
    f = i + 1 < a->count ? with_items(c, a, i + 1)
                         : compile_statements(c, a->at[0]->at, a->at[0]->count);
    c->block = outer;
    leave = cr_snode_new(cr_snode_block(with), CR_SPRIM_EXIT, a->range);
    cr_snode_input(leave, object);
    cr_snode_output(leave, NULL, CR_STYPE_OF(TENSOR));
    return f;
}

static flow compile_with(compiler *c, const cr_sast *a) { return with_items(c, a, 1); }

/* --- closures --- */

/* A function inside a function is compiled where fork(f) calls it.  torch has them in its own
 * texts only. */
static void compile_closure(compiler *c, const cr_sast *a)
{
    term *t = CR_NEW(c->s, term);

    if (a->range.source->python)
        define_unsupported(c, a);

    *t = (term){.kind = TERM_CLOSURE, .name = a->text, .ast = a};
    compile_set(c, a->text, t, a->range);
}

cr_svalue *compile_fork(compiler *c, const cr_sast *def, cr_srange range)
{
    cr_snode *n = cr_snode_new(c->block, CR_SPRIM_FORK, range);
    const cr_stype *declared = c->declared, *result = c->result;
    cr_sblock *outer = c->block, *b = cr_snode_block(n);
    changes end;
    size_t mark = c->log.len;
    looping *loop = c->loop;

    c->declared = def->at[1] ? compile_type(c, def->at[1]) : NULL;
    c->result = NULL;
    c->loop = NULL;
    c->block = b;
    c->depth++;
    if (compile_statements(c, def->at[2]->at, def->at[2]->count) == FLOW_ON)
        body_end(c, def);
    cr_sblock_output(b, compile_construct(c, CR_SPRIM_UNINITIALIZED,
                                          c->result ? c->result : CR_STYPE_OF(NONE), 0, NULL,
                                          range));
    c->depth--;
    end = compile_branch_leave(c, mark);
    (void)end;
    c->block = outer;
    c->declared = declared;
    c->result = result;
    c->loop = loop;
    return cr_snode_output(n, NULL, cr_stype_future(c->unit, b->output[0]->type));
}

static flow compile_statement(compiler *c, const cr_sast *a)
{
    if (++c->steps > MOST_STEPS)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "the function is too long");
    compile_note(c, a->range);
    switch (a->kind) {
    case CR_SAST_EXPRESSION: return compile_expression(c, a);
    case CR_SAST_ASSIGN: compile_assign(c, a); return FLOW_ON;
    case CR_SAST_AUGMENTED: compile_augmented(c, a); return FLOW_ON;
    case CR_SAST_RETURN: compile_return(c, a); return FLOW_LEFT;
    case CR_SAST_BREAK:
    case CR_SAST_CONTINUE: return compile_leave_loop(c, a);
    case CR_SAST_RAISE: compile_raise(c, a); return FLOW_LEFT;
    case CR_SAST_IF: return compile_if(c, a);
    case CR_SAST_WITH: return compile_with(c, a);
    case CR_SAST_FUNCTION: compile_closure(c, a); return FLOW_ON;
    case CR_SAST_ASSERT: return compile_assert(c, a);
    case CR_SAST_WHILE: compile_while(c, a); return FLOW_ON;
    case CR_SAST_FOR: return compile_for(c, a);
    case CR_SAST_DELETE: compile_delete(c, a); return FLOW_ON;
    case CR_SAST_PASS: return FLOW_ON;
    default: define_unsupported(c, a);
    }
}

static flow compile_statements(compiler *c, cr_sast *const *at, int count)
{
    flow f = FLOW_ON;

    for (int i = 0; i < count && f == FLOW_ON; i++) {
        compile_enter(c, at[i]->range);
        f = compile_statement(c, at[i]);
        compile_leave(c);
    }
    return f;
}

/* A method that @classmethod marks: programs call it on objects, and its first name is the
 * class. */
static bool is_of_class(const compiler *c, const cr_sast *def)
{
    for (int i = 3; c->env && c->function->owner && i < def->count; i++)
        if (def->at[i]->kind == CR_SAST_NAME && !strcmp(def->at[i]->text, "classmethod"))
            return true;
    return false;
}

static term *class_term(compiler *c)
{
    term *t = CR_NEW(c->s, term);

    *t = (term){.kind = TERM_CLASS, .type = c->function->owner->type};
    return t;
}

void compile_body(compiler *c, const cr_sast *def)
{
    const cr_sast *body = def->at[2];

    for (int i = 0; i < c->function->schema.param_count; i++) {
        const cr_sparam *p = &c->function->schema.param[i];
        cr_svalue *v = cr_sblock_input(c->graph->body, p->name, p->type);
        compile_set(c, p->name,
                    !i && is_of_class(c, def) ? class_term(c) : compile_term_value(c, v),
                    def->range);
    }
    if (compile_statements(c, body->at, body->count) == FLOW_ON)
        body_end(c, def);
    if (!c->result)
        c->result = c->declared ? c->declared : CR_STYPE_OF(NONE);
    cr_sblock_output(c->graph->body, compile_construct(c, CR_SPRIM_UNINITIALIZED, c->result, 0,
                                                       NULL, def->range));
    cr_spasses_run(c->graph);
    if (c->archive && cr_spass_inline_former(c->graph))
        cr_spasses_tidy(c->graph);
}
