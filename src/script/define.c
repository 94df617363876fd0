/* Functions that a caller's language defines: their names, through the unit's environment. */
#include "script/compile.h"
#include "script/python.h"
#include <string.h>

static const char *define_function(const compiler *c)
{
    return c->function ? c->function->qualified : "";
}

static term *define_new(compiler *c, term_kind kind)
{
    term *t = CR_NEW(c->s, term);

    t->kind = (uint8_t)kind;
    return t;
}

static term *define_known(compiler *c, const cr_sname *n, cr_srange range)
{
    term *t;

    if (n->kind == CR_SNAME_FUNCTION) {
        t = define_new(c, TERM_FUNCTION);
        t->function = n->function ? n->function : cr_sunit_function(c->unit, n->name);
        if (t->function && t->function->unit != c->unit)
            cr_sunit_keep_unit(c->unit, t->function->unit);
        if (!t->function)
            cr_srange_bail(c->s, CR_RUNTIME, range, "function '%s' is not defined", n->name);
        return t;
    }
    cr_sclass *cls = cr_sunit_class(c->unit, n->name);
    if (!cls)
        cr_srange_bail(c->s, CR_RUNTIME, range, "class '%s' is not defined", n->name);
    t = define_new(c, TERM_CLASS);
    t->type = cls->type;
    return t;
}

/* The member of an enum with this qualified name. */
static cr_sconstant define_enum_member(compiler *c, const char *name, cr_srange range)
{
    const char *dot = strrchr(name, '.');
    char *owner = cr_arena_text(&c->s->keep, name, (size_t)(dot - name));
    cr_sclass *cls;

    if (!owner)
        cr_session_check(c->s, CR_MEMORY);
    cls = cr_sunit_class(c->unit, owner);
    if (!cls)
        cr_srange_bail(c->s, CR_RUNTIME, range, "class '%s' is not defined", owner);
    return cr_sclass_member(cls, dot + 1);
}

static term *define_term(compiler *c, const cr_sname *n, cr_srange range)
{
    cr_sconstant member;
    term *t;

    switch ((cr_sname_kind)n->kind) {
    case CR_SNAME_MEMBER:
        member = define_enum_member(c, n->name, range);
        return compile_term_value(c, compile_constant(c, &member, range));
    case CR_SNAME_CONSTANT: return compile_term_value(c, compile_constant(c, &n->value, range));
    case CR_SNAME_OPERATOR:
    case CR_SNAME_SPECIAL:
        t = define_new(c, n->kind == CR_SNAME_OPERATOR ? TERM_OPERATOR : TERM_SPECIAL);
        t->name = n->name;
        return t;
    case CR_SNAME_FUNCTION:
    case CR_SNAME_CLASS: return define_known(c, n, range);
    case CR_SNAME_OBJECT:
    case CR_SNAME_CHOICE:
        t = define_new(c, n->kind == CR_SNAME_OBJECT ? TERM_PYTHON : TERM_CHOICE);
        t->handle = n->handle;
        return t;
    case CR_SNAME_REFUSED: cr_srange_bail(c->s, CR_RUNTIME, range, "%s", n->name);
    default: return NULL;
    }
}

/* Notes the place of a name, for errors of the functions that its look-up compiles. */
static void define_ask(compiler *c, cr_srange range)
{
    cr_scaller *caller = c->s->place;

    if (caller)
        caller->asked = range;
}

term *define_name(compiler *c, const char *name, cr_srange range)
{
    cr_sname n = {0};

    define_ask(c, range);
    cr_session_check(c->s, c->env->name(define_function(c), name, &n));
    return define_term(c, &n, range);
}

term *define_attribute(compiler *c, const term *object, const char *name, cr_srange range)
{
    cr_sname n = {0};
    term *t;

    define_ask(c, range);
    cr_session_check(c->s, c->env->attribute(object->handle, name, &n));
    t = define_term(c, &n, range);
    if (!t)
        cr_srange_bail(c->s, CR_RUNTIME, range, "object has no attribute %s", name);
    return t;
}

cr_sfunction *define_called(compiler *c, const term *object, int count, cr_srange range)
{
    cr_sname n = {0};
    term *t;

    define_ask(c, range);
    cr_session_check(c->s, c->env->call(object->handle, count, &n));
    t = define_term(c, &n, range);
    return t && t->kind == TERM_FUNCTION ? t->function : NULL;
}

/* An attribute that is a constant of this type. */
static cr_sconstant define_want(compiler *c, const term *object, const char *name,
                                cr_stype_kind kind, cr_srange range)
{
    cr_sname n = {0};

    cr_session_check(c->s, c->env->attribute(object->handle, name, &n));
    if (n.kind != CR_SNAME_CONSTANT || n.value.type->kind != kind)
        cr_srange_bail(c->s, CR_RUNTIME, range, "'%s' of a boolean dispatch must be a %s", name,
                       kind == CR_STYPE_STR   ? "str"
                       : kind == CR_STYPE_INT ? "int"
                                              : "bool");
    return n.value;
}

term *define_choose(compiler *c, const term *choice, const arguments *args, cr_srange range)
{
    const char *name = define_want(c, choice, "arg_name", CR_STYPE_STR, range).s;
    int64_t index = define_want(c, choice, "index", CR_STYPE_INT, range).i;
    bool yes = define_want(c, choice, "default", CR_STYPE_BOOL, range).i != 0;

    for (size_t i = 0; i < args->len; i++) {
        const argument *one = &args->at[i];
        if (one->name ? strcmp(one->name, name) != 0 : (int64_t)i != index)
            continue;
        if (!one->value->by || one->value->by->prim != CR_SPRIM_CONSTANT)
            cr_srange_bail(
                c->s, CR_RUNTIME, range, "%s was not constant",
                one->name
                    ? cr_session_printf(
                          c->s, "Keyword argument '%s' for boolean dispatch at position", name)
                    : cr_session_printf(c->s, "Argument for boolean dispatch at position %lld",
                                        (long long)index));
        const cr_sconstant *flag = one->value->by->value;
        yes = flag->type->kind == CR_STYPE_BOOL && flag->i; /* calls refuse other types */
        break;
    }
    return define_attribute(c, choice, yes ? "if_true" : "if_false", range);
}

const char *define_exception(compiler *c, const term *object, cr_srange range)
{
    cr_sname n = {0};

    (void)range;
    cr_session_check(c->s, c->env->attribute(object->handle, "__exception__", &n));
    return n.kind == CR_SNAME_CONSTANT && n.value.type->kind == CR_STYPE_STR ? n.value.s : NULL;
}

static cr_svalue *define_get(compiler *c, cr_svalue *self, const char *name, cr_srange range)
{
    int slot = cr_sclass_attribute(self->type->cls, name);
    cr_snode *n;

    if (slot < 0)
        cr_srange_bail(c->s, CR_RUNTIME, range, "there is no attribute '%s'", name);
    n = cr_snode_new(c->block, CR_SPRIM_GET_ATTR, range);
    n->name = self->type->cls->attributes.at[slot].name;
    cr_snode_input(n, self);
    return cr_snode_output(n, name, self->type->cls->attributes.at[slot].type);
}

/* "a.b": attribute b of attribute a; ".": self. */
static cr_svalue *define_get_path(compiler *c, cr_svalue *self, const char *path,
                                  cr_srange range)
{
    char *at = cr_session_text(c->s, path), *name;

    while ((name = strsep(&at, ".")) != NULL)
        if (*name)
            self = define_get(c, self, name, range);
    return self;
}

static term *define_key(compiler *c, const char *name, cr_srange range)
{
    cr_sconstant value = {.type = CR_STYPE_OF(STR)};

    value.s = cr_session_text(c->s, name);
    value.len = strlen(name);
    return compile_term_value(c, compile_constant(c, &value, range));
}

/* "0 1 a.b": the list of these attributes of self; "keys 0 1 a.b": of their names;
 * "items 0 1 a.b": of pairs of both. */
static term *define_items(compiler *c, cr_svalue *self, const char *names, cr_srange range)
{
    term *t = define_new(c, TERM_ITEMS), *pair;
    bool keys = !strncmp(names, "keys ", 5), pairs = !strncmp(names, "items ", 6);
    char *at = cr_session_text(c->s, names + (keys ? 5 : pairs ? 6 : 0)), *word;

    t->items = CR_NEW_N(c->s, term *, strlen(names) + 1);
    while ((word = strsep(&at, " ")) != NULL) {
        if (!*word)
            continue;
        pair = define_new(c, TERM_ITEMS);
        pair->items = CR_NEW_N(c->s, term *, 2);
        if (keys || pairs)
            pair->items[pair->count++] = define_key(c, strcmp(word, ".") ? word : "", range);
        if (!keys)
            pair->items[pair->count++] =
                compile_term_value(c, define_get_path(c, self, word, range));
        t->items[t->count++] = pairs ? pair : pair->items[0];
    }
    return t;
}

term *define_member(compiler *c, cr_svalue *self, const cr_sclass *cls, const char *name,
                    cr_srange range)
{
    cr_sname n = {0};
    term *t;

    if (!c->env)
        return NULL;
    define_ask(c, range);
    cr_session_check(c->s, c->env->member(cls->name, name, &n));
    if (n.kind == CR_SNAME_ATTRIBUTES)
        return define_items(c, self, n.name, range);
    t = define_term(c, &n, range);
    if (t && t->kind == TERM_FUNCTION && t->function->owner == cls) {
        t->kind = TERM_METHOD;
        t->self = self;
    }
    return t;
}

cr_sfunction *define_static(compiler *c, const cr_sclass *cls, const char *name)
{
    cr_sname n = {0};

    cr_session_check(c->s, c->env->member(cls->name, name, &n));
    if (n.kind != CR_SNAME_FUNCTION)
        return NULL;
    return n.function ? n.function : cr_sunit_function(c->unit, n.name);
}

static char *define_text(compiler *c, const cr_sast *a)
{
    const cr_ssource *s = a->range.source;
    size_t n = a->text_end - a->range.start;
    char *copy = cr_arena_text(&c->s->keep, s->text + a->range.start, n);

    if (!copy)
        cr_session_check(c->s, CR_MEMORY);
    return copy;
}

CR_NORETURN void define_refuse(compiler *c, const char *kind, cr_srange range, const char *what)
{
    cr_text text = {0};

    if (!c->env)
        cr_srange_bail(c->s, CR_RUNTIME, range, "%s", what);
    const cr_scaller *caller = c->s->place;

    cr_text_printf(&text, "%s:\n", what);
    cr_srange_mark(&text, range);
    cr_scallers_put(&text,
                    caller ? caller->outer : NULL); /* torch refuses it before it begins */
    cr_status st = c->env->refuse(kind, cr_session_take_text(c->s, &text));
    cr_session_check(c->s, st ? st : CR_RUNTIME);
    cr_bail(c->s, CR_RUNTIME, "%s", what);
}

CR_NORETURN void define_unsupported(compiler *c, const cr_sast *a)
{
    static const struct {
        uint8_t kind;
        const char *word, *what;
    } all[] = {{CR_SAST_GLOBAL, "global", "global variables"},
               {CR_SAST_NONLOCAL, "nonlocal", "nonlocal variables"},
               {CR_SAST_TRY, "try", "try blocks"},
               {CR_SAST_IMPORT, "import", "import statements"},
               {CR_SAST_FROM_IMPORT, "from", "import statements"},
               {CR_SAST_CLASS, "class", "class definitions"},
               {CR_SAST_FUNCTION, "def", "function definitions"},
               {CR_SAST_LAMBDA, " ", "Lambda"},
               {CR_SAST_YIELD, " ", "Yield"},
               {CR_SAST_AWAIT, " ", "Await"},
               {CR_SAST_SET, " ", "Set"},
               {CR_SAST_SET_COMP, " ", "SetComp"},
               {CR_SAST_NAMED, " ", "NamedExpr"},
               {CR_SAST_MATCH, " ", "Match"},
               {CR_SAST_BYTES, " ", "Bytes"}};

    for (size_t i = 0; i < CR_LEN(all); i++)
        if (all[i].kind == a->kind) {
            cr_srange range = a->range;
            range.end = range.start + (uint32_t)strlen(all[i].word);
            define_refuse(c, "UnsupportedNodeError", range,
                          cr_session_printf(c->s, "%s aren't supported", all[i].what));
        }
    if (a->kind == CR_SAST_ELLIPSIS)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "Cannot emit expr for: (dots)\n");
    cr_srange_bail(c->s, CR_RUNTIME, a->range, "this is not supported in TorchScript");
}

const cr_stype *define_type(compiler *c, const cr_sast *a)
{
    cr_ssource *source = CR_NEW(c->s, cr_ssource);
    const cr_senv *env = c->env;
    const cr_stype *type;
    char *text = NULL;

    define_ask(c, a->range);
    cr_session_check(c->s, env->type(define_function(c), define_text(c, a), &text));
    if (!text)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "Unknown type name '%s'",
                       a->kind == CR_SAST_NAME ? a->text : define_text(c, a));
    *source = (cr_ssource){.text = text, .len = strlen(text), .first_line = 1};
    c->env = NULL; /* the text has no free names */
    type = compile_type(c, cr_sast_parse_expression(c->s, source));
    c->env = env;
    return type;
}

const cr_sconstant *define_constant(compiler *c, const cr_sast *a)
{
    cr_sname n = {0};

    cr_session_check(c->s, c->env->value(define_function(c), define_text(c, a), &n));
    if (n.kind == CR_SNAME_MEMBER)
        n = (cr_sname){.kind = CR_SNAME_CONSTANT,
                       .value = define_enum_member(c, n.name, a->range)};
    if (n.kind != CR_SNAME_CONSTANT)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "the value is not a constant");
    return cr_session_copy(c->s, &n.value, sizeof n.value);
}

/* --- entry points --- */

cr_status cr_sunit_enter(cr_sunit *u, const char *name)
{
    cr_session *s = cr_sunit_session(u);
    cr_scaller *outer = s->place, *c = cr_arena_get(&s->keep, sizeof *c);
    char *kept = cr_arena_text(&s->keep, name, strlen(name));

    CR_NEED(c && kept);
    *c = (cr_scaller){.name = kept, .outer = outer};
    if (outer)
        c->at = outer->asked;
    s->place = c;
    return CR_OK;
}

void cr_sunit_leave(cr_sunit *u)
{
    cr_session *s = cr_sunit_session(u);
    const cr_scaller *c = s->place;

    s->place = c ? c->outer : NULL;
}

typedef struct {
    cr_sunit *unit;
    const char *qualified;
    cr_sclass *owner;
    const cr_ssource *source;
    const char *text;
    cr_sfunction *function;
} defining;

static compiler *define_compiler(cr_session *s, cr_sunit *u)
{
    compiler *c = CR_NEW(s, compiler);

    *c = (compiler){.s = s, .unit = u, .env = cr_sunit_env(u), .nesting = CR_NEW(s, int)};
    return c;
}

static bool define_is_async(const cr_sast *function)
{
    cr_srange r = function->range;

    return r.start + 5 < r.source->len && !memcmp(r.source->text + r.start, "async", 5) &&
           strchr(" \t\f\\", r.source->text[r.start + 5]);
}

static void define_it(cr_session *s, void *context)
{
    defining *d = context;
    compiler *c = define_compiler(s, d->unit);
    cr_ssource *source = cr_session_copy(s, d->source, sizeof *source);
    const cr_sast *body;

    source->text = cr_session_text(s, source->text);
    source->name = source->name ? cr_session_text(s, source->name) : NULL;
    body = cr_sast_parse(s, source);
    if (body->count != 1 || body->at[0]->kind != CR_SAST_FUNCTION ||
        define_is_async(body->at[0]))
        cr_bail(s, CR_RUNTIME, "Expected a single top-level function%s%s%s",
                source->name ? ": " : "", source->name ? source->name : "",
                source->name ? cr_session_printf(s, ":%d", source->first_line) : "");
    d->function = import_define(c, d->qualified, d->owner, body->at[0]);
    if (d->owner)
        cr_sclass_add_method(d->owner, d->function);
}

cr_status cr_sunit_define(cr_sunit *u, const char *qualified, cr_sclass *owner,
                          const cr_ssource *source, cr_sfunction **out)
{
    defining d = {.unit = u, .qualified = qualified, .owner = owner, .source = source};

    CR_TRY(cr_session_run(cr_sunit_session(u), define_it, &d));
    *out = d.function;
    return CR_OK;
}

static void define_declare(cr_session *s, void *context)
{
    defining *d = context;
    cr_sfunction *f = d->function;
    const cr_sast *body = f->ast ? f->ast->at[2] : NULL;

    for (int i = 0; body && i < body->count; i++)
        if (body->at[i]->kind != CR_SAST_PASS && body->at[i]->kind != CR_SAST_EXPRESSION)
            cr_srange_bail(s, CR_RUNTIME, body->at[i]->range,
                           "interfaces declare methods: the body must be 'pass'");
    f->ast = NULL;
    if (f->schema.result_count)
        return;
    f->schema.result = CR_NEW(s, cr_sparam);
    *f->schema.result = (cr_sparam){.name = "", .type = CR_STYPE_OF(TENSOR)};
    f->schema.result_count = 1;
}

cr_status cr_sunit_declare(cr_sunit *u, cr_sfunction *f)
{
    defining d = {.unit = u, .function = f};

    return cr_session_run(cr_sunit_session(u), define_declare, &d);
}

static const char *define_stem(cr_session *s, const cr_svalue *v, int i)
{
    return v->name ? v->name : cr_session_printf(s, "argument_%d", i + 1);
}

static void define_from_graph(cr_session *s, void *context)
{
    defining *d = context;
    cr_sgraph *g = cr_sgraph_parse(d->unit, d->text);
    cr_sblock *b = g->body;
    cr_sfunction *f;

    if (b->output_count != 1)
        cr_bail(s, CR_RUNTIME, "expected a graph with one result, it has %d", b->output_count);
    f = cr_sunit_add_function(d->unit, d->qualified, NULL);
    f->schema.param_count = b->input_count;
    f->schema.param = CR_NEW_N(s, cr_sparam, b->input_count + 1);
    for (int i = 0; i < b->input_count; i++)
        f->schema.param[i] =
            (cr_sparam){.name = define_stem(s, b->input[i], i), .type = b->input[i]->type};
    f->schema.result_count = 1;
    f->schema.result = CR_NEW(s, cr_sparam);
    *f->schema.result = (cr_sparam){.name = "", .type = b->output[0]->type};
    f->graph = g;
    d->function = f;
}

cr_status cr_sunit_define_graph(cr_sunit *u, const char *qualified, const char *text,
                                cr_sfunction **out)
{
    defining d = {.unit = u, .qualified = qualified, .text = text};

    CR_TRY(cr_session_run(cr_sunit_session(u), define_from_graph, &d));
    *out = d.function;
    return CR_OK;
}

typedef struct {
    cr_sfunction *method;
    const cr_sfunction *from;
} define_body;

static void define_as(cr_session *s, void *context)
{
    const define_body *d = context;
    const cr_sblock *self = d->method->graph->body, *from = d->from->graph->body;
    cr_sgraph *g = cr_sgraph_new(s, d->method->graph->unit);
    cr_svalue **map = CR_NEW_N(s, cr_svalue *, d->from->graph->values + 1);

    g->traced = d->from->graph->traced;
    cr_sblock_input(g->body, self->input[0]->name, self->input[0]->type);
    for (int i = 0; i < from->input_count; i++)
        map[from->input[i]->id] =
            cr_sblock_input(g->body, from->input[i]->name, from->input[i]->type);
    cr_sblock_copy(g->body, from, map);
    d->method->graph = g;
}

cr_status cr_sunit_define_as(cr_sunit *u, cr_sfunction *method, const cr_sfunction *f)
{
    CR_ASSERT(method->graph && f->graph && !method->code);
    return cr_session_run(cr_sunit_session(u), define_as, &(define_body){method, f});
}

static void define_compile(cr_session *s, void *context)
{
    defining *d = context;

    compile_function(define_compiler(s, d->unit), d->function, (cr_srange){0});
}

cr_status cr_sunit_compile(cr_sunit *u, cr_sfunction *f)
{
    defining d = {.unit = u, .function = f};

    return cr_session_run(cr_sunit_session(u), define_compile, &d);
}
