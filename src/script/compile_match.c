/* Calls: which schema takes the arguments, and conversions of arguments.
 *
 * Schemas are tried in order, first without conversions that change values, then with them. */
#include "script/compile.h"
#include <string.h>

enum { MOST_VARS = 8 };

typedef struct {
    const char *name[MOST_VARS];
    const cr_stype *type[MOST_VARS];
    int count;
    const char *why; /* of a type that does not match; NULL: "Cannot match" both */
} match_vars;

/* --- type variables --- */

static const cr_stype *match_var(const match_vars *vars, const char *name)
{
    for (int i = 0; i < vars->count; i++)
        if (!strcmp(vars->name[i], name))
            return vars->type[i];
    return NULL;
}

static bool match_bind(compiler *c, match_vars *vars, const char *name, const cr_stype *actual)
{
    for (int i = 0; i < vars->count; i++)
        if (!strcmp(vars->name[i], name)) {
            const cr_stype *joined = cr_stype_join(c->unit, vars->type[i], actual);
            if (!joined)
                vars->why = cr_session_printf(
                    c->s,
                    "Type variable '%s' previously matched to type %s is matched to type %s",
                    name, cr_stype_annotation(vars->type[i]), cr_stype_annotation(actual));
            vars->type[i] = joined ? joined : vars->type[i];
            return joined;
        }
    if (vars->count == MOST_VARS)
        return false;
    vars->name[vars->count] = name;
    vars->type[vars->count++] = actual;
    return true;
}

static bool match_type(compiler *c, match_vars *vars, const cr_stype *formal,
                       const cr_stype *actual)
{
    if (!cr_stype_has_var(formal))
        return true;
    if (formal->kind == CR_STYPE_VAR)
        return match_bind(c, vars, formal->name, actual);
    if (formal->kind == CR_STYPE_OPTIONAL && actual->kind != CR_STYPE_OPTIONAL)
        return actual->kind == CR_STYPE_NONE || match_type(c, vars, formal->item[0], actual);
    if (formal->kind == CR_STYPE_LIST && actual->kind == CR_STYPE_TUPLE) {
        for (int i = 0; i < actual->count; i++)
            if (!match_type(c, vars, formal->item[0], actual->item[i]))
                return false;
        return actual->count > 0;
    }
    if (formal->kind != actual->kind || formal->count != actual->count) {
        vars->why = cr_session_printf(
            c->s, "Cannot match %s to %s",
            formal->kind == CR_STYPE_DICT ? "a dict" : cr_stype_annotation(formal),
            cr_stype_annotation(actual));
        return false;
    }
    for (int i = 0; i < formal->count; i++)
        if (!match_type(c, vars, formal->item[i], actual->item[i]))
            return false;
    return true;
}

/* `formal` with its variables replaced; NULL when one is not known. */
static const cr_stype *match_replace(compiler *c, const match_vars *vars,
                                     const cr_stype *formal)
{
    const cr_stype *item[16];

    if (formal->kind == CR_STYPE_VAR)
        return match_var(vars, formal->name);
    if (!cr_stype_has_var(formal))
        return formal;
    for (int i = 0; i < formal->count; i++)
        if (i == 16 || !(item[i] = match_replace(c, vars, formal->item[i])))
            return NULL;
    switch (formal->kind) {
    case CR_STYPE_LIST: return cr_stype_list(c->unit, item[0]);
    case CR_STYPE_OPTIONAL: return cr_stype_optional(c->unit, item[0]);
    case CR_STYPE_FUTURE: return cr_stype_future(c->unit, item[0]);
    case CR_STYPE_DICT: return cr_stype_dict(c->unit, item[0], item[1]);
    default: return cr_stype_tuple(c->unit, formal->count, item, NULL);
    }
}

bool compile_takes(compiler *c, const cr_stype *formal, const cr_stype *actual)
{
    match_vars vars = {0};
    const cr_stype *to =
        match_type(c, &vars, formal, actual) ? match_replace(c, &vars, formal) : NULL;

    return to && cr_stype_is_subtype(actual, to);
}

/* --- conversions --- */

cr_svalue *compile_construct(compiler *c, cr_sprim prim, const cr_stype *type, int count,
                             cr_svalue *const *item, cr_srange range)
{
    cr_snode *n = cr_snode_new(c->block, prim, range);

    for (int i = 0; i < count; i++)
        cr_snode_input(n, item[i]);
    return cr_snode_output(n, NULL, type);
}

cr_svalue *compile_tuple_of(compiler *c, int count, cr_svalue *const *item, cr_srange range)
{
    const cr_stype **type = CR_NEW_N(c->s, const cr_stype *, count + 1);

    for (int i = 0; i < count; i++)
        type[i] = item[i]->type;
    return compile_construct(c, CR_SPRIM_TUPLE_CONSTRUCT,
                             cr_stype_tuple(c->unit, count, type, NULL), count, item, range);
}

/* The items of a tuple. */
static cr_svalue **match_unpacked(compiler *c, cr_svalue *v, cr_srange range)
{
    cr_snode *unpack = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, range);

    cr_snode_input(unpack, v);
    for (int i = 0; i < v->type->count; i++)
        cr_snode_output(unpack, NULL, v->type->item[i]);
    return unpack->output;
}

static cr_svalue *match_list_of_tuple(compiler *c, cr_svalue *v, const cr_stype *list,
                                      cr_srange range)
{
    for (int i = 0; i < v->type->count; i++)
        if (!cr_stype_is_subtype(v->type->item[i], list->item[0]))
            return v;
    return compile_construct(c, CR_SPRIM_LIST_CONSTRUCT, list, v->type->count,
                             match_unpacked(c, v, range), range);
}

/* Whether a value is [], or a tuple of displays with [] in it, that no variable has. */
static bool match_is_open(const cr_svalue *v)
{
    const cr_snode *n = v->by;
    bool open = n && n->prim == CR_SPRIM_LIST_CONSTRUCT && n->widens;

    if (n && n->prim == CR_SPRIM_TUPLE_CONSTRUCT)
        for (int i = 0; i < n->input_count && !open; i++)
            open = match_is_open(n->input[i]);
    return open;
}

/* [] gets the type of what takes it. */
static cr_svalue *match_typed(compiler *c, cr_svalue *v, const cr_stype *to)
{
    const cr_snode *by = v->by;
    const cr_stype **type;
    cr_snode *n;

    if (to->kind == CR_STYPE_OPTIONAL)
        to = to->item[0];
    if (!match_is_open(v) || to->kind != v->type->kind ||
        (to->kind == CR_STYPE_TUPLE && to->count != by->input_count))
        return v;
    n = cr_snode_before(v->by, (cr_sprim)by->prim, by->from.range);
    type = CR_NEW_N(c->s, const cr_stype *, by->input_count + 1);
    for (int i = 0; i < by->input_count; i++) {
        cr_snode_input(n, match_typed(c, by->input[i], to->item[i]));
        type[i] = n->input[i]->type;
    }
    return cr_snode_output(
        n, NULL,
        to->kind == CR_STYPE_LIST ? to : cr_stype_tuple(c->unit, by->input_count, type, NULL));
}

void compile_close(const cr_svalue *v)
{
    cr_snode *n = v->by;

    if (n && n->prim == CR_SPRIM_LIST_CONSTRUCT)
        n->widens = false;
    if (n && n->prim == CR_SPRIM_TUPLE_CONSTRUCT)
        for (int i = 0; i < n->input_count; i++)
            compile_close(n->input[i]);
}

/* The operator that makes a value of type `from` one of type `to` where no schema takes it as
 * it is; NULL: there is none. */
static const char *match_implicit(const cr_stype *from, const cr_stype *to)
{
    bool tensor = from->kind == CR_STYPE_TENSOR, number = from->kind == CR_STYPE_NUMBER;
    bool truth = from->kind == CR_STYPE_BOOL;

    if (from->kind == CR_STYPE_STR && to->kind == CR_STYPE_DEVICE)
        return "aten::device";
    switch (to->kind) {
    case CR_STYPE_INT:
        return tensor ? "aten::IntImplicit" : number || truth ? "aten::Int" : NULL;
    case CR_STYPE_FLOAT:
        return tensor ? "aten::FloatImplicit" : number || truth ? "aten::Float" : NULL;
    case CR_STYPE_COMPLEX:
        return tensor ? "aten::ComplexImplicit" : number ? "aten::Complex" : NULL;
    case CR_STYPE_NUMBER: return tensor ? "aten::ScalarImplicit" : truth ? "aten::Int" : NULL;
    default: return NULL;
    }
}

cr_svalue *compile_convert(compiler *c, cr_svalue *v, const cr_stype *to, bool implicit,
                           cr_srange range)
{
    const cr_stype *inner = to->kind == CR_STYPE_OPTIONAL ? to->item[0] : to;
    const char *name;

    if (cr_stype_is_subtype(v->type, to))
        return v;
    v = match_typed(c, v, inner);
    if (v->type->kind == CR_STYPE_TUPLE && inner->kind == CR_STYPE_LIST)
        v = match_list_of_tuple(c, v, inner, range);
    name = implicit ? match_implicit(v->type, inner) : NULL;
    return name ? compile_one(c, name, range, 1, &v) : v;
}

/* --- one schema --- */

typedef struct {
    compiler *c;
    const cr_sschema *schema;
    const arguments *args;
    bool implicit, exact; /* exact: several arguments are no list */
    cr_text *why;         /* gets the reason of a failure; or NULL */
    match_vars vars;
    cr_srange range;
    size_t positional; /* number of arguments without a name */
    size_t used;
    cr_svalue **value; /* for each parameter */
    cr_svalue **rest;  /* the further arguments of `...` */
    size_t rests;
} matching;

static bool match_fail(matching *m, const char *fmt, ...) CR_PRINTF(2, 3);
static bool match_fail(matching *m, const char *fmt, ...)
{
    va_list args;

    if (!m->why)
        return false;
    va_start(args, fmt);
    (void)cr_fail_va(CR_RUNTIME, fmt, args);
    va_end(args);
    cr_text_put(m->why, cr_error_message());
    cr_text_put(m->why, ".\n");
    return false;
}

/* The text of an argument whose type was not written. */
static const char *match_inferred(const matching *m, const cr_sparam *p, const cr_svalue *v)
{
    if (p->type == &cr_stype_inferred)
        return cr_session_printf(m->c->s,
                                 ".\nInferred '%s' to be of type 'Tensor' because it was not "
                                 "annotated with an explicit type",
                                 p->name);
    if (v->type == &cr_stype_inferred)
        return cr_session_printf(
            m->c->s,
            ".\nInferred the value for argument '%s' to be of type 'Tensor' "
            "because it was not annotated with an explicit type",
            p->name);
    return "";
}

/* Entries of the table only read lists: they take a list of tensors for a list of tensors and
 * None. */
static bool match_reads_list(const matching *m, const cr_stype *from, const cr_stype *to)
{
    return m->schema->op && from->kind == CR_STYPE_LIST && to->kind == CR_STYPE_LIST &&
           to->item[0]->kind == CR_STYPE_OPTIONAL &&
           cr_stype_equal(from->item[0], to->item[0]->item[0]);
}

static bool match_value(matching *m, int i, cr_svalue *v, cr_srange range)
{
    const cr_sparam *p = &m->schema->param[i];
    const cr_stype *to;

    if (!match_type(m->c, &m->vars, p->type, v->type))
        return match_fail(m, "Could not match type %s to %s in argument '%s': %s",
                          cr_stype_annotation(v->type), cr_stype_annotation(p->type), p->name,
                          m->vars.why ? m->vars.why : "they differ");
    to = match_replace(m->c, &m->vars, p->type);
    if (!to)
        return match_fail(m, "Type variable in argument '%s' cannot be inferred", p->name);
    v = compile_convert(m->c, v, to, m->implicit, range);
    if (!cr_stype_is_subtype(v->type, to) && !match_reads_list(m, v->type, to)) {
        match_fail(
            m, "Expected a value of type '%s' for argument '%s' but instead found type '%s'%s",
            cr_stype_annotation(p->type), p->name, cr_stype_annotation(v->type),
            match_inferred(m, p, v));
        if (m->why)
            cr_stype_print_misfit(m->why, v->type, to);
        if (m->why && v->type->kind == CR_STYPE_LIST &&
            v->type->item[0]->kind == CR_STYPE_TENSOR)
            cr_text_put(m->why,
                        "Empty lists default to List[Tensor]. Add a variable annotation "
                        "to the assignment to create an empty list of another type "
                        "(torch.jit.annotate(List[T, []]) where T is the type of "
                        "elements in the list for Python 2)\n");
        return false;
    }
    m->value[i] = v;
    return true;
}

/* Parameter i is a list, the last positional one, and the arguments from here are its items. */
static bool match_is_rest(const matching *m, int i)
{
    const cr_sschema *s = m->schema;
    const cr_stype *t = s->param[i].type;
    const argument *a = &m->args->at[m->used];

    if (m->exact || t->kind != CR_STYPE_LIST || t->item[0]->kind == CR_STYPE_VAR ||
        s->param[i].fixed == 1)
        return false;
    if (s->param[i].fixed && m->positional - m->used == 1) /* it stands for all items */
        return false;
    if (i + 1 < s->param_count && !s->param[i + 1].keyword_only)
        return false;
    return a->value->type->kind != CR_STYPE_LIST && a->value->type->kind != CR_STYPE_TUPLE &&
           cr_stype_is_subtype(a->value->type, t->item[0]);
}

static bool match_rest(matching *m, int i)
{
    const cr_stype *t = m->schema->param[i].type;
    size_t n = m->positional - m->used;
    cr_svalue **item = CR_NEW_N(m->c->s, cr_svalue *, n + 1);

    for (size_t k = 0; k < n; k++) {
        item[k] = m->args->at[m->used + k].value;
        if (!cr_stype_is_subtype(item[k]->type, t->item[0]))
            return match_fail(m, "Expected a value of type '%s' for argument '%s'",
                              cr_stype_annotation(t->item[0]), m->schema->param[i].name);
    }
    m->used = m->positional;
    m->value[i] = compile_construct(m->c, CR_SPRIM_LIST_CONSTRUCT, t, (int)n, item, m->range);
    return true;
}

/* One number for a list of a fixed length. */
static bool match_repeated(matching *m, int i, cr_svalue *v)
{
    const cr_sparam *p = &m->schema->param[i];
    const cr_stype *t = p->type->kind == CR_STYPE_OPTIONAL ? p->type->item[0] : p->type;
    cr_svalue *item[8];

    if (!p->fixed || p->fixed > 8 || t->kind != CR_STYPE_LIST ||
        !cr_stype_is_subtype(v->type, t->item[0]))
        return false;
    for (int k = 0; k < p->fixed; k++)
        item[k] = v;
    m->value[i] = compile_construct(m->c, CR_SPRIM_LIST_CONSTRUCT, t, p->fixed, item, m->range);
    return true;
}

static const argument *match_named(const matching *m, const char *name)
{
    for (size_t i = m->positional; i < m->args->len; i++)
        if (!strcmp(m->args->at[i].name, name))
            return &m->args->at[i];
    return NULL;
}

static bool match_param(matching *m, int i)
{
    const cr_sparam *p = &m->schema->param[i];
    const argument *named = match_named(m, p->name), *a;

    if (!p->keyword_only && m->used < m->positional) {
        a = &m->args->at[m->used];
        if (match_is_rest(m, i))
            return match_rest(m, i);
        m->used++;
        return match_repeated(m, i, a->value) || match_value(m, i, a->value, a->range);
    }
    if (named)
        return match_repeated(m, i, named->value) ||
               match_value(m, i, named->value, named->range);
    if (!p->preset)
        return match_fail(m, "Argument %s not provided", p->name);
    m->value[i] = compile_constant(m->c, p->preset, (cr_srange){0});
    return true;
}

static bool match_known_names(matching *m)
{
    for (size_t i = m->positional; i < m->args->len; i++) {
        const char *name = m->args->at[i].name;
        int k = 0;
        while (k < m->schema->param_count && strcmp(m->schema->param[k].name, name) != 0)
            k++;
        if (k == m->schema->param_count)
            return match_fail(m, "Keyword argument %s unknown", name);
        if (!m->schema->param[k].keyword_only && (size_t)k < m->used)
            return match_fail(m, "Keyword argument %s specified twice", name);
    }
    return true;
}

/* A later argument may have widened a type variable: None to a dict of str keys. */
static bool match_vars_hold(matching *m)
{
    for (int i = 0; i < m->schema->param_count; i++) {
        const cr_sparam *p = &m->schema->param[i];
        const cr_stype *to =
            cr_stype_has_var(p->type) ? match_replace(m->c, &m->vars, p->type) : NULL;
        if (to && !cr_stype_is_subtype(m->value[i]->type, to))
            return match_fail(
                m,
                "Expected a value of type '%s' for argument '%s' but instead found type '%s'",
                cr_stype_annotation(to), p->name, cr_stype_annotation(m->value[i]->type));
    }
    return true;
}

static bool match_all(matching *m)
{
    const cr_sschema *s = m->schema;

    m->value = CR_NEW_N(m->c->s, cr_svalue *, s->param_count + 1);
    for (int i = 0; i < s->param_count; i++)
        if (!match_param(m, i))
            return false;
    if (!match_known_names(m) || !match_vars_hold(m))
        return false;
    if (m->used < m->positional && !s->any_params)
        return match_fail(m, "Expected at most %d arguments but found %zu positional arguments",
                          s->param_count, m->positional);
    m->rests = m->positional - m->used;
    m->rest = CR_NEW_N(m->c->s, cr_svalue *, m->rests + 1);
    for (size_t i = 0; i < m->rests; i++)
        m->rest[i] = m->args->at[m->used + i].value;
    return true;
}

static void match_drop_since(compiler *c, cr_snode *last)
{
    while (c->block->last != last) {
        cr_snode *n = c->block->last;
        for (int i = 0; i < n->output_count; i++)
            if (n->output[i]->uses)
                return;
        if (n->prim == CR_SPRIM_CONSTANT)
            return;
        cr_snode_remove(n);
    }
}

/* Nodes of conversions are removed when the schema does not match. */
static bool match_schema(matching *m)
{
    cr_snode *last = m->c->block->last;
    size_t named = 0;

    while (named < m->args->len && !m->args->at[named].name)
        named++;
    m->positional = named;
    if (match_all(m))
        return true;
    match_drop_since(m->c, last);
    return false;
}

/* --- calls --- */

static void match_inputs(matching *m, cr_snode *n)
{
    for (int i = 0; i < m->schema->param_count; i++)
        cr_snode_input(n, m->value[i]);
    for (size_t i = 0; i < m->rests; i++)
        cr_snode_input(n, m->rest[i]);
}

/* The tuple of the node's results, with the schema's names when each result has one. */
static const cr_stype *match_tuple_type(matching *m, const cr_snode *n)
{
    const cr_stype **item = CR_NEW_N(m->c->s, const cr_stype *, n->output_count);
    const char **field = CR_NEW_N(m->c->s, const char *, n->output_count);
    bool named = m->c->env != NULL;

    for (int i = 0; i < n->output_count; i++) {
        item[i] = n->output[i]->type;
        field[i] = m->schema->result[i].name;
        named &= field[i] && *field[i];
    }
    return named ? cr_stype_tuple_of_fields(m->c->unit, n->output_count, item, field)
                 : cr_stype_tuple(m->c->unit, n->output_count, item, NULL);
}

/* The node's results as one term: several are a tuple, none is None. */
static term *match_results(matching *m, cr_snode *n)
{
    compiler *c = m->c;
    const cr_sschema *s = m->schema;

    for (int i = 0; i < s->result_count; i++) {
        const cr_stype *t = match_replace(c, &m->vars, s->result[i].type);
        cr_snode_output(n, NULL, t ? t : CR_STYPE_OF(ANY));
    }
    if (s->result_count == 1)
        return compile_term_value(c, n->output[0]);
    if (!s->result_count)
        return compile_term_value(c, compile_none(c, m->range));
    return compile_term_value(c, compile_construct(c, CR_SPRIM_TUPLE_CONSTRUCT,
                                                   match_tuple_type(m, n), n->output_count,
                                                   n->output, m->range));
}

cr_svalue **compile_fields(compiler *c, const cr_sclass *cls, const arguments *args,
                           cr_srange range)
{
    const char *last = strrchr(cls->name, '.');
    cr_sschema s = {.name = last ? last + 1 : cls->name,
                    .overload = "",
                    .param_count = (int)cls->attributes.len,
                    .param = CR_NEW_N(c->s, cr_sparam, cls->attributes.len + 1),
                    .builtin = -1};
    matching m = {.c = c, .schema = &s, .args = args, .implicit = true, .range = range};
    cr_text why = {0};

    for (int i = 0; i < s.param_count; i++)
        s.param[i] =
            (cr_sparam){.name = cls->attributes.at[i].name,
                        .type = cls->attributes.at[i].type,
                        .preset = cr_sclass_constant_value(cls, cls->attributes.at[i].name)};
    if (match_schema(&m))
        return m.value;
    m.why = &why;
    m.used = 0;
    cr_text_put(&why, "\n");
    cr_sschema_print(&why, &s);
    cr_text_put(&why, ":\n");
    (void)match_schema(&m);
    cr_srange_bail(c->s, CR_RUNTIME, range, "%s", cr_session_take_text(c->s, &why));
}

static term *match_emit(matching *m)
{
    cr_snode *n = cr_snode_new(m->c->block, CR_SPRIM_OPERATOR, m->range);

    n->schema = m->schema;
    match_inputs(m, n);
    return match_results(m, n);
}

static void match_indent(cr_text *text, const char *lines)
{
    for (; *lines; lines++) {
        cr_text_char(text, *lines);
        if (*lines == '\n' && lines[1])
            cr_text_put(text, "  ");
    }
}

/* Appends every schema with the reason why it does not take the arguments. */
static void match_explain(compiler *c, cr_text *text, const cr_sschemas *all,
                          const arguments *args, cr_srange range)
{
    for (size_t i = 0; i < all->len; i++) {
        matching m = {
            .c = c, .schema = all->at[i], .args = args, .implicit = true, .range = range};
        cr_text why = {0};
        m.why = &why;
        cr_text_put(text, "  \n  ");
        cr_sschema_print(text, all->at[i]);
        cr_text_put(text, ":\n  ");
        (void)match_schema(&m);
        match_indent(text, cr_text_str(&why));
        cr_text_drop(&why);
    }
}

/* The only schema, with its reason. */
static CR_NORETURN void match_report_one(compiler *c, const cr_sschema *schema,
                                         const arguments *args, cr_srange range)
{
    cr_text why = {0};
    matching m = {
        .c = c, .schema = schema, .args = args, .implicit = true, .range = range, .why = &why};

    cr_text_put(&why, "\n");
    cr_sschema_print(&why, schema);
    cr_text_put(&why, ":\n");
    (void)match_schema(&m);
    cr_srange_bail(c->s, CR_RUNTIME, range, "%s", cr_session_take_text(c->s, &why));
}

/* "Arguments for call are not valid": every schema with its reason. */
static CR_NORETURN void match_report(compiler *c, const cr_sschemas *all, const char *name,
                                     const arguments *args, cr_srange range)
{
    const cr_sschemas *swapped = NULL; /* with the number first (compile_swapped) */
    cr_text text = {0};
    char *kept;

    if (c->env && !strncmp(name, "aten::", 6))
        cr_session_check(c->s, cr_soperators(&swapped, name + 6));
    /* entries of the table have other overloads in torch, such as those with out= */
    if (all->len + (swapped ? swapped->len : 0) == 1 && !all->at[0]->op)
        match_report_one(c, all->at[0], args, range);
    match_explain(c, &text, all, args, range);
    if (swapped)
        match_explain(c, &text, swapped, args, range);
    cr_text_put(&text, "\nThe original call is:\n");
    cr_srange_mark(&text, range);
    cr_scallers_put(&text, c->s->place);
    kept = cr_session_take_text(c->s, &text);
    cr_bail(c->s, CR_RUNTIME,
            "\nArguments for call are not valid.\nThe following variants are available:\n%s",
            kept);
}

/* A call of an operator that is missing: an error when it runs. */
static term *match_missing(compiler *c, const char *name, const arguments *args,
                           cr_srange range)
{
    cr_snode *n = cr_snode_new(c->block, CR_SPRIM_OPERATOR, range);
    cr_sschema *s = CR_NEW(c->s, cr_sschema);

    *s = (cr_sschema){.name = cr_session_text(c->s, name),
                      .overload = "",
                      .any_params = true,
                      .result_count = 1,
                      .builtin = -1,
                      .text = name};
    s->result = CR_NEW(c->s, cr_sparam);
    *s->result = (cr_sparam){.name = "", .type = CR_STYPE_OF(NEVER)};
    s->param_count = (int)args->len;
    s->param = CR_NEW_N(c->s, cr_sparam, args->len);
    n->schema = s;
    for (size_t i = 0; i < args->len; i++) {
        const argument *a = &args->at[i];
        s->param[i] = (cr_sparam){.name = a->name ? a->name : "",
                                  .type = a->value->type,
                                  .keyword_only = a->name != NULL};
        cr_snode_input(n, a->value);
    }
    return compile_term_value(c, cr_snode_output(n, NULL, CR_STYPE_OF(NEVER)));
}

/* A call of the function that stands for the operator in this archive; NULL: there is none that
 * takes the arguments. */
static term *match_library(compiler *c, const char *name, bool known, const arguments *args,
                           bool implicit, cr_srange range)
{
    cr_sfunction *f;

    for (int i = 0; (f = import_operator(c, name, known, i)); i++) {
        matching m = {
            .c = c, .schema = &f->schema, .args = args, .implicit = implicit, .range = range};
        if (match_schema(&m))
            return compile_term_value(c, compile_call(c, f, NULL, args, range));
    }
    return NULL;
}

/* A call of the operator that takes the arguments, by its former meaning where the archive is
 * as old, or by a function where the table lacks it; NULL: there is none. */
static term *match_call(compiler *c, const cr_sschemas *all, const char *name,
                        const arguments *args, bool implicit, cr_srange range)
{
    term *t = NULL;

    if (c->archive && all->len)
        t = match_library(c, name, true, args, implicit, range);
    for (size_t i = 0; !t && i < all->len; i++) {
        matching m = {
            .c = c, .schema = all->at[i], .args = args, .implicit = implicit, .range = range};
        if (match_schema(&m))
            return match_emit(&m);
    }
    return t ? t : match_library(c, name, false, args, implicit, range);
}

/* --- out= of entries without it --- */

/* Whether a schema reads a parameter of this name. */
static bool match_is_input(const cr_sschemas *all, const char *name)
{
    for (size_t i = 0; i < all->len; i++)
        for (int k = 0; k < all->at[i]->param_count; k++)
            if (!all->at[i]->param[k].written && !strcmp(all->at[i]->param[k].name, name))
                return true;
    return false;
}

/* Whether torch names an output of the operator so.  Archives have right names. */
static bool match_is_out(const compiler *c, const cr_sschemas *all, const char *name)
{
    if (c->archive || !strcmp(name, "out"))
        return true;
    for (size_t i = 0; i < all->len; i++) {
        const cr_sschema *s = all->at[i];
        for (int k = 0; k < s->result_count; k++)
            if (s->result[k].name && !strcmp(s->result[k].name, name))
                return true;
        for (int o = 0; s->op && o < s->op->aten.out_count; o++)
            for (int k = 0; k < s->op->result_count; k++)
                if (!strcmp(s->op->aten.out[o].given[k], name))
                    return true;
    }
    return false;
}

/* Puts the arguments that may be outputs, tensors by names that no schema reads, into `out`,
 * and the others into `other`. */
static void match_split_outs(compiler *c, const cr_sschemas *all, const arguments *args,
                             arguments *other, arguments *out)
{
    for (size_t i = 0; i < args->len; i++) {
        const argument *a = &args->at[i];
        bool given = a->name && a->value->type->kind == CR_STYPE_TENSOR &&
                     !match_is_input(all, a->name) && match_is_out(c, all, a->name);
        arguments *to = given ? out : other;
        CR_PUSH(c->s, to, *a);
    }
}

static bool match_gives_tensors(const cr_sschema *s, int count)
{
    for (int i = 0; i < s->result_count; i++)
        if (s->result[i].type->kind != CR_STYPE_TENSOR || s->result[i].alias)
            return false;
    return s->result_count == count;
}

/* Copies a result to the tensor of out=, which gets its size. */
static void match_copy_out(compiler *c, cr_svalue *made, cr_svalue *out, cr_srange range)
{
    static const char why[] = "result type can't be cast to the desired output type";
    const cr_sconstant text = {.type = CR_STYPE_OF(STR), .s = why, .len = sizeof why - 1};
    cr_svalue *from = compile_one(c, "prim::dtype", range, 1, &made);
    cr_svalue *to = compile_one(c, "prim::dtype", range, 1, &out);
    cr_svalue *fits = compile_one(c, "aten::can_cast", range, 2, (cr_svalue *[]){from, to});
    cr_svalue *size = compile_one(c, "aten::size", range, 1, &made);

    fits = compile_one(c, "aten::Int", range, 1, &fits);
    compile_one(c, "aten::_assert_scalar", range, 2,
                (cr_svalue *[]){fits, compile_constant(c, &text, range)});
    compile_one(c, "aten::resize_", range, 2, (cr_svalue *[]){out, size});
    compile_one(c, "aten::copy_", range, 2, (cr_svalue *[]){out, made});
}

/* The output for result i: the one of its name, else the one at its place. */
static cr_svalue *match_out_of(const cr_sschema *s, const arguments *out, int i)
{
    for (size_t k = 0; k < out->len; k++)
        if (s->result_count && s->result[i].name && !strcmp(s->result[i].name, out->at[k].name))
            return out->at[k].value;
    return out->at[i].value;
}

/* Copies the results to the tensors of out=; the term has these. */
static term *match_copy_outs(matching *m, cr_svalue *const *made, const arguments *out)
{
    compiler *c = m->c;
    int count = (int)out->len;
    cr_svalue **outs = CR_NEW_N(c->s, cr_svalue *, count);

    for (int i = 0; i < count; i++) {
        outs[i] = match_out_of(m->schema, out, i);
        match_copy_out(c, made[i], outs[i], m->range);
    }
    return compile_term_value(c, count == 1 ? outs[0]
                                            : compile_tuple_of(c, count, outs, m->range));
}

static term *match_outs(matching *m, const arguments *out)
{
    cr_svalue *result = match_emit(m)->value;

    return match_copy_outs(m, out->len == 1 ? &result : result->by->input, out);
}

/* The same of a function of the library, whose results are a tuple when there are several. */
static term *match_library_outs(compiler *c, const char *name, const arguments *args,
                                const arguments *out, bool implicit, cr_srange range)
{
    cr_sfunction *f;

    for (int i = 0; (f = import_operator(c, name, false, i)); i++) {
        const cr_stype *type = f->schema.result->type;
        int count = type->kind == CR_STYPE_TUPLE ? type->count : 1;
        matching m = {
            .c = c, .schema = &f->schema, .args = args, .implicit = implicit, .range = range};
        if (count != (int)out->len || !match_schema(&m))
            continue;
        cr_svalue *result = compile_call(c, f, NULL, args, range), **made = &result;
        if (count > 1)
            made = match_unpacked(c, result, range);
        m.schema = &(cr_sschema){.result_count = 0}; /* its results have no names */
        return match_copy_outs(&m, made, out);
    }
    return NULL;
}

/* A call with out= of an operator that has no such schema: its results are copied.  NULL: no
 * schema takes the other arguments and has as many results. */
static term *match_without_out(compiler *c, const cr_sschemas *all, const char *name,
                               const arguments *args, bool implicit, cr_srange range)
{
    arguments others = {0}, outs = {0};

    match_split_outs(c, all, args, &others, &outs);
    if (!outs.len)
        return NULL;
    for (size_t i = 0; i < all->len; i++) {
        matching m = {.c = c,
                      .schema = all->at[i],
                      .args = &others,
                      .implicit = implicit,
                      .range = range};
        if (match_gives_tensors(all->at[i], (int)outs.len) && match_schema(&m))
            return match_outs(&m, &outs);
    }
    return match_library_outs(c, name, &others, &outs, implicit, range);
}

static bool match_has_missing(const arguments *args)
{
    for (size_t i = 0; i < args->len; i++)
        if (args->at[i].value->type->kind == CR_STYPE_NEVER)
            return true;
    return false;
}

term *compile_operator(compiler *c, const char *name, const arguments *args, cr_srange range)
{
    const cr_sschemas *all;
    term *t;

    cr_session_check(c->s, cr_soperators(&all, name));
    if (!c->archive || !match_has_missing(args)) {
        for (int implicit = 0; implicit < 2; implicit++)
            if ((t = match_call(c, all, name, args, implicit, range)))
                return t;
        for (int implicit = 0; implicit < 2; implicit++)
            if ((t = match_without_out(c, all, name, args, implicit, range)))
                return t;
    }
    if (c->archive && (!all->len || match_has_missing(args)))
        return match_missing(c, name, args, range);
    if (!all->len)
        cr_srange_bail(c->s, CR_RUNTIME, range, "Unknown builtin op: %s", name);
    match_report(c, all, name, args, range);
}

cr_svalue *compile_one(compiler *c, const char *name, cr_srange range, int count,
                       cr_svalue *const *arg)
{
    arguments args = {0};

    for (int i = 0; i < count; i++)
        CR_PUSH(c->s, &args, ((argument){.value = arg[i], .range = range}));
    return compile_operator(c, name, &args, range)->value;
}

static cr_snode *match_call_node(matching *m, cr_sfunction *f)
{
    cr_svalue *callee;
    cr_snode *n;

    cr_sconstant value = {.type = cr_stype_function(m->c->unit, f), .function = f};

    if (f->caller || (f->owner && !f->is_hook)) {
        n = cr_snode_new(m->c->block, f->caller ? CR_SPRIM_PYTHON : CR_SPRIM_CALL_METHOD,
                         m->range);
        n->name = f->name;
        if (f->caller)
            n->value = cr_session_copy(m->c->s, &value, sizeof value);
        return n;
    }
    callee = compile_constant(m->c, &value, (cr_srange){0});
    n = cr_snode_new(m->c->block, CR_SPRIM_CALL_FUNCTION, m->range);
    cr_snode_input(n, callee);
    return n;
}

/* The overload of f that takes the arguments: without conversions if there is one; f when none
 * does. */
static cr_sfunction *match_overload(compiler *c, cr_sfunction *f, const arguments *args,
                                    cr_srange range)
{
    cr_snode *last = c->block->last;

    for (int implicit = 0; f->next && implicit < 2; implicit++)
        for (cr_sfunction *one = f; one; one = one->next) {
            matching m = {.c = c,
                          .schema = &one->schema,
                          .args = args,
                          .implicit = implicit,
                          .exact = !implicit,
                          .range = range};
            if (!match_schema(&m))
                continue;
            match_drop_since(c, last);
            return one;
        }
    return f;
}

/* A function marked with `unused`: its call raises. */
static cr_svalue *call_dropped(compiler *c, const cr_sfunction *f, cr_srange range)
{
    static const char why[] =
        "This Python function is annotated to be ignored and cannot be run";
    cr_sconstant text = {.type = CR_STYPE_OF(STR), .s = why, .len = sizeof why - 1};
    cr_srange none = {0};
    cr_svalue *both[] = {compile_constant(c, &text, none), compile_none(c, none)};

    compile_one(c, "prim::RaiseException", range, 2, both);
    return compile_construct(c, CR_SPRIM_UNINITIALIZED, f->schema.result->type, 0, NULL, range);
}

/* A function's schema as errors name it. */
static cr_sschema *match_shown(compiler *c, const cr_sfunction *f)
{
    cr_sschema *shown = cr_session_copy(c->s, &f->schema, sizeof f->schema);

    shown->name = f->name;
    shown->overload = "";
    return shown;
}

/* No overload of f takes the arguments. */
static CR_NORETURN void match_report_call(compiler *c, cr_sfunction *f, const arguments *args,
                                          cr_srange range)
{
    cr_sschemas all = {0};

    if (!f->next)
        match_report_one(c, match_shown(c, f), args, range);
    for (cr_sfunction *one = f; one; one = one->next)
        CR_PUSH(c->s, &all, match_shown(c, one));
    match_report(c, &all, f->name, args, range);
}

cr_svalue *compile_call(compiler *c, cr_sfunction *f, cr_svalue *self, const arguments *args,
                        cr_srange range)
{
    arguments all = {0};
    matching m = {.c = c, .args = &all, .implicit = true, .range = range};
    cr_sfunction *first = f;
    cr_snode *n;

    if (self)
        CR_PUSH(c->s, &all, ((argument){.value = self, .range = range}));
    for (size_t i = 0; i < args->len; i++)
        CR_PUSH(c->s, &all, args->at[i]);
    f = match_overload(c, f, &all, range);
    m.schema = &f->schema;
    compile_function(c, f, range);
    if (!match_schema(&m))
        match_report_call(c, first, &all, range);
    if (f->dropped)
        return call_dropped(c, f, range);
    n = match_call_node(&m, f);
    match_inputs(&m, n);
    return match_results(&m, n)->value;
}
