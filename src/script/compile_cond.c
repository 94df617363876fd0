/* Conditions: their value, what they say about variables, and whether they are known.
 *
 * `x is None` and isinstance(x, T) say in each branch of which type the variable x is: there
 * the variable is a cast.  A condition that is known when the program is compiled leaves only
 * the branch that is taken, so the other one need not be valid. */
#include "script/compile.h"
#include <string.h>

/* --- facts about variables --- */

typedef struct {
    const char *name;
    const cr_stype *type;
} fact;

struct facts {
    size_t len, cap;
    fact *at;
};

static void fact_add(compiler *c, facts *to, const char *name, const cr_stype *type)
{
    for (size_t i = 0; i < to->len; i++)
        if (!strcmp(to->at[i].name, name)) {
            to->at[i].type = type;
            return;
        }
    CR_PUSH(c->s, to, ((fact){name, type}));
}

/* Both hold. */
static facts *facts_and(compiler *c, const facts *a, const facts *b)
{
    facts *made = CR_NEW(c->s, facts);

    for (size_t i = 0; i < a->len; i++)
        fact_add(c, made, a->at[i].name, a->at[i].type);
    for (size_t i = 0; i < b->len; i++)
        fact_add(c, made, b->at[i].name, b->at[i].type);
    return made;
}

/* One of them holds. */
static facts *facts_or(compiler *c, const facts *a, const facts *b)
{
    facts *made = CR_NEW(c->s, facts);

    for (size_t i = 0; i < a->len; i++)
        for (size_t k = 0; k < b->len; k++) {
            const cr_stype *joined = !strcmp(a->at[i].name, b->at[k].name)
                                         ? cr_stype_join(c->unit, a->at[i].type, b->at[k].type)
                                         : NULL;
            if (joined)
                fact_add(c, made, a->at[i].name, joined);
        }
    return made;
}

void compile_assume(compiler *c, const facts *f, cr_srange range)
{
    for (size_t i = 0; f && i < f->len; i++) {
        term *now = compile_variable(c, f->at[i].name)->now;
        if (!now || now->kind != TERM_VALUE)
            continue;
        cr_svalue *v =
            compile_construct(c, CR_SPRIM_UNCHECKED_CAST, f->at[i].type, 1, &now->value, range);
        compile_set(c, f->at[i].name, compile_term_value(c, v), range);
    }
}

/* --- conditions --- */

static condition *condition_of(compiler *c, cr_svalue *v, int known)
{
    condition *made = CR_NEW(c->s, condition);

    *made = (condition){v, known, CR_NEW(c->s, facts), CR_NEW(c->s, facts)};
    return made;
}

static condition *condition_known(compiler *c, bool b, cr_srange range)
{
    cr_sconstant value = {.type = CR_STYPE_OF(BOOL), .i = b};

    return condition_of(c, compile_constant(c, &value, range), b);
}

static bool type_may_be_none(const cr_stype *t)
{
    return t->kind == CR_STYPE_ANY || cr_stype_is_subtype(CR_STYPE_OF(NONE), t);
}

/* The type without None. */
static const cr_stype *type_without_none(compiler *c, const cr_stype *t)
{
    const cr_stype **item;
    int n = 0;

    if (t->kind == CR_STYPE_OPTIONAL)
        return t->item[0];
    if (t->kind != CR_STYPE_UNION)
        return NULL;
    item = CR_NEW_N(c->s, const cr_stype *, t->count + 1);
    for (int i = 0; i < t->count; i++)
        if (t->item[i]->kind != CR_STYPE_NONE)
            item[n++] = t->item[i];
    return cr_stype_union(c->unit, n, item);
}

static void condition_none_facts(compiler *c, condition *made, const cr_sast *name,
                                 const cr_svalue *v, const cr_svalue *other, bool is)
{
    const cr_stype *rest = type_without_none(c, v->type);

    if (name->kind == CR_SAST_NAME && other->type->kind == CR_STYPE_NONE && rest)
        fact_add(c, is ? made->no : made->yes, name->text, rest);
}

static condition *condition_is(compiler *c, const cr_sast *a)
{
    cr_svalue *v[2] = {compile_value(c, a->at[0], NULL), compile_value(c, a->at[1], NULL)};
    bool is = a->text[2] == '\0', always[2], never[2];
    condition *made;

    for (int i = 0; i < 2; i++) {
        always[i] = v[i]->type->kind == CR_STYPE_NONE;
        never[i] = !type_may_be_none(v[i]->type);
    }
    if (c->env && always[0] && always[1])
        return condition_known(c, is, a->range);
    if (c->env && ((always[0] && never[1]) || (never[0] && always[1])))
        return condition_known(c, !is, a->range);
    made = condition_of(
        c, compile_one(c, is ? "aten::__is__" : "aten::__isnot__", a->range, 2, v), -1);
    if (c->env) {
        condition_none_facts(c, made, a->at[0], v[0], v[1], is);
        condition_none_facts(c, made, a->at[1], v[1], v[0], is);
    }
    return made;
}

/* --- isinstance --- */

typedef CR_VEC(const cr_stype *) type_list;

static void instance_types(compiler *c, const cr_sast *a, type_list *out)
{
    if (a->kind == CR_SAST_TUPLE || a->kind == CR_SAST_LIST) {
        for (int i = 0; i < a->count; i++)
            instance_types(c, a->at[i], out);
        return;
    }
    const cr_stype *t = compile_type(c, a);
    CR_PUSH(c->s, out, t);
}

static bool instance_matches(const cr_stype *t, const type_list *types)
{
    for (size_t i = 0; i < types->len; i++)
        if (cr_stype_is_subtype(t, types->at[i]))
            return true;
    return false;
}

/* The members of `t` that are, or are not, of the types; NULL when there are none. */
static const cr_stype *instance_members(compiler *c, const cr_stype *t, const type_list *types,
                                        bool matching)
{
    bool optional = t->kind == CR_STYPE_OPTIONAL;
    int count = optional ? 2 : t->kind == CR_STYPE_UNION ? t->count : 1, n = 0;
    const cr_stype **item = CR_NEW_N(c->s, const cr_stype *, count);

    for (int i = 0; i < count; i++) {
        const cr_stype *one = optional                    ? i ? CR_STYPE_OF(NONE) : t->item[0]
                                                 : t->kind == CR_STYPE_UNION ? t->item[i]
                                                          : t;
        if (instance_matches(one, types) == matching)
            item[n++] = one;
    }
    return n ? cr_stype_union(c->unit, n, item) : NULL;
}

/* The types in the order of a union, as torch has them. */
static void instance_sort(compiler *c, type_list *types)
{
    const cr_stype *all = cr_stype_union(c->unit, (int)types->len, types->at);

    if (c->env && all->kind == CR_STYPE_UNION) {
        types->at = cr_session_copy(c->s, all->item, (size_t)all->count * sizeof *all->item);
        types->len = (size_t)all->count;
    }
}

static condition *condition_instance(compiler *c, const cr_sast *a)
{
    cr_svalue *v = compile_value(c, a->at[1], NULL);
    type_list types = {0};
    const cr_stype *yes, *no;
    condition *made;
    cr_snode *n;

    instance_types(c, a->at[2], &types);
    yes = instance_members(c, v->type, &types, true);
    no = instance_members(c, v->type, &types, false);
    if (c->env && v->type->kind != CR_STYPE_ANY && (!yes || !no)) {
        made = condition_known(c, yes != NULL, a->range);
        if (a->at[1]->kind == CR_SAST_NAME)
            fact_add(c, yes ? made->yes : made->no, a->at[1]->text, yes ? yes : no);
        return made;
    }
    n = cr_snode_new(c->block, CR_SPRIM_IS_INSTANCE, a->range);
    cr_snode_input(n, v);
    instance_sort(c, &types);
    n->tests.types = types.at;
    n->tests.type_count = (int)types.len;
    made = condition_of(c, cr_snode_output(n, NULL, CR_STYPE_OF(BOOL)), -1);
    if (!c->env || a->at[1]->kind != CR_SAST_NAME)
        return made;
    if (v->type->kind == CR_STYPE_ANY)
        yes = types.len == 1 ? types.at[0] : cr_stype_union(c->unit, (int)types.len, types.at);
    if (yes)
        fact_add(c, made->yes, a->at[1]->text, yes);
    if (no)
        fact_add(c, made->no, a->at[1]->text, no);
    return made;
}

/* hasattr(x, "name") is known when it is compiled. */
static condition *condition_has(compiler *c, const cr_sast *a)
{
    if (a->at[2]->kind != CR_SAST_STRING)
        cr_srange_bail(c->s, CR_RUNTIME, a->at[2]->range,
                       "hasattr's second argument must be a string literal");
    return condition_known(
        c, compile_has(c, compile_value(c, a->at[1], NULL), a->at[2]->text, a->range),
        a->range);
}

/* --- and, or, not --- */

typedef struct {
    const cr_sast *a;
    condition *made;
    bool constant, value;
    changes left; /* variables that it changed */
} side;

static cr_svalue *side_compile(compiler *c, cr_snode *n, side *s, const facts *known,
                               cr_srange range)
{
    cr_sblock *outer = c->block;
    size_t mark = c->log.len;

    c->block = cr_snode_block(n);
    c->depth++;
    compile_assume(c, known, range);
    if (s->constant)
        s->made = condition_known(c, s->value, range);
    else
        s->made = compile_condition(c, s->a);
    cr_sblock_output(c->block, s->made->value);
    c->depth--;
    s->left = compile_branch_leave(c, mark);
    c->block = outer;
    return s->made->value;
}

/* What is known of `a or b` or `a and b`; -1: nothing. */
static int boolean_known(int a, int b, bool is_or)
{
    if (a == is_or || b == is_or)
        return is_or;
    return a >= 0 && b >= 0 ? !is_or : -1;
}

static condition *condition_boolean(compiler *c, const cr_sast *a)
{
    bool is_or = *a->text == 'o';
    condition *first = compile_condition(c, a->at[0]), *made;
    side rest = {.a = a->at[1]}, constant = {.constant = true, .value = is_or};
    cr_snode *n;

    if (c->env && first->known >= 0) {
        if (first->known == is_or)
            return condition_known(c, is_or, a->range);
        compile_assume(c, is_or ? first->no : first->yes, a->range);
        return compile_condition(c, a->at[1]);
    }
    n = cr_snode_new(c->block, CR_SPRIM_IF, a->range);
    cr_snode_input(n, first->value);
    side_compile(c, n, is_or ? &constant : &rest, first->yes, a->range);
    side_compile(c, n, is_or ? &rest : &constant, first->no, a->range);
    made = condition_of(c, cr_snode_output(n, NULL, CR_STYPE_OF(BOOL)),
                        boolean_known(first->known, rest.made->known, is_or));
    compile_branches_join(c, n, is_or ? &constant.left : &rest.left,
                          is_or ? &rest.left : &constant.left);
    made->yes = is_or ? facts_or(c, first->yes, rest.made->yes)
                      : facts_and(c, first->yes, rest.made->yes);
    made->no =
        is_or ? facts_and(c, first->no, rest.made->no) : facts_or(c, first->no, rest.made->no);
    return made;
}

static condition *condition_not(compiler *c, const cr_sast *a)
{
    condition *of = compile_condition(c, a->at[0]), *made;

    made = condition_of(c, compile_one(c, "aten::__not__", a->range, 1, &of->value),
                        of->known < 0 ? -1 : !of->known);
    made->yes = of->no;
    made->no = of->yes;
    return made;
}

static condition *condition_value(compiler *c, const cr_sast *a)
{
    cr_svalue *v = compile_truth(c, a);
    const cr_sconstant *constant = c->env ? cr_svalue_constant(v) : NULL;

    return condition_of(c, v, constant ? constant->i != 0 : -1);
}

static bool calls(compiler *c, const cr_sast *a, const char *name)
{
    term *t;

    if (a->kind != CR_SAST_CALL || a->count != 3 ||
        (a->at[0]->kind != CR_SAST_NAME && a->at[0]->kind != CR_SAST_ATTRIBUTE) ||
        strcmp(a->at[0]->text, name))
        return false;
    t = compile_term(c, a->at[0], NULL);
    return t->kind == TERM_SPECIAL && !strcmp(t->name, name);
}

condition *compile_condition(compiler *c, const cr_sast *a)
{
    condition *made;

    compile_enter(c, a->range);
    if (a->kind == CR_SAST_BOOLEAN)
        made = condition_boolean(c, a);
    else if (a->kind == CR_SAST_UNARY && !strcmp(a->text, "not"))
        made = condition_not(c, a);
    else if (a->kind == CR_SAST_BINARY && !strncmp(a->text, "is", 2))
        made = condition_is(c, a);
    else if (calls(c, a, "isinstance"))
        made = condition_instance(c, a);
    else if (calls(c, a, "hasattr"))
        made = condition_has(c, a);
    else
        made = condition_value(c, a);
    compile_leave(c);
    return made;
}
