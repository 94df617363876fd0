/* Classes and functions of an archive's sources, and the names that these sources use.
 *
 * A file is parsed at first use.  A class is registered before its attributes are read, because
 * its methods name it; methods are compiled at their first call or at the end of the import. */
#include "script/compile.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A source file of the archive; body NULL: there is no such file. */
struct cr_sfile {
    struct cr_sfile *next;
    const char *qualifier;
    const cr_sast *body;
};

static const char *after_dot(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? dot + 1 : name;
}

static const char *before_dot(compiler *c, const char *name)
{
    const char *dot = strrchr(name, '.');
    char *left = cr_arena_text(&c->s->keep, name, dot ? (size_t)(dot - name) : 0);

    if (!left)
        cr_session_check(c->s, CR_MEMORY);
    return left;
}

/* --- operators that are functions --- */

#define LIBRARY "__library__"
#define CR_SWRAPPED(name)
#define CR_SNORMAL(name, other)

static const char library_text[] = ""
#define CR_SLIBRARY(name, last, source) source
#include "script/library.def"
#undef CR_SLIBRARY
    ;

static const struct {
    const char *name;
    int last;
    const char *source;
} library[] = {
#define CR_SLIBRARY(name, last, source) {name, last, source},
#include "script/library.def"
#undef CR_SLIBRARY
};
#undef CR_SWRAPPED
#undef CR_SNORMAL

static const cr_sast *file_body(compiler *c, const char *qualifier)
{
    struct cr_sfile **files = cr_sunit_files(c->unit), *f = *files;
    cr_ssource *source;
    const char *text = NULL;
    size_t len = 0;

    for (; f; f = f->next)
        if (!strcmp(f->qualifier, qualifier))
            return f->body;
    if (!strcmp(qualifier, LIBRARY)) {
        text = library_text;
        len = strlen(text);
    } else if (c->archive && c->archive->read) {
        cr_session_check(c->s, c->archive->read(c->archive->context, qualifier, &text, &len));
    } else {
        return NULL;
    }
    f = CR_NEW(c->s, struct cr_sfile);
    f->qualifier = cr_session_text(c->s, qualifier);
    if (text) {
        if (len > INT32_MAX)
            cr_bail(c->s, CR_RUNTIME, "the source of %s is too long", qualifier);
        source = CR_NEW(c->s, cr_ssource);
        *source = (cr_ssource){.text = text, .len = len, .first_line = 1};
        source->name = cr_session_printf(c->s, "code/%s.py", qualifier);
        for (char *at = (char *)source->name + 5; strchr(at, '.') && strchr(at, '.')[3];)
            *strchr(at, '.') = '/';
        f->body = cr_sast_parse(c->s, source);
    }
    f->next = *files;
    *files = f;
    return f->body;
}

static const cr_sast *file_find(compiler *c, const char *name, cr_sast_kind kind)
{
    const cr_sast *body = file_body(c, before_dot(c, name));

    for (int i = 0; body && i < body->count; i++)
        if (body->at[i]->kind == kind && !strcmp(body->at[i]->text, after_dot(name)))
            return body->at[i];
    return NULL;
}

/* --- constants --- */

static cr_sconstant *constant_of(compiler *c, const cr_sast *a, const cr_stype *type);

static CR_NORETURN void constant_wrong(compiler *c, const cr_sast *a)
{
    cr_srange_bail(c->s, CR_RUNTIME, a->range, "the value is not a constant");
}

static void constant_items(compiler *c, const cr_sast *a, const cr_stype *type,
                           cr_sconstant *out)
{
    cr_sconstant *item = CR_NEW_N(c->s, cr_sconstant, a->count + 1);
    const cr_stype **types = CR_NEW_N(c->s, const cr_stype *, a->count + 1);

    for (int i = 0; i < a->count; i++) {
        const cr_stype *of = !type || type->count == 0     ? NULL
                             : a->kind == CR_SAST_DICT     ? type->item[i % 2]
                             : type->kind == CR_STYPE_LIST ? type->item[0]
                             : i < type->count             ? type->item[i]
                                                           : NULL;
        if (!a->at[i])
            constant_wrong(c, a);
        item[i] = *constant_of(c, a->at[i], of);
        types[i] = item[i].type;
    }
    out->item = item;
    out->count = a->count;
    if (a->kind == CR_SAST_TUPLE)
        out->type = cr_stype_tuple(c->unit, a->count, types, NULL);
    else if (type && (type->kind == CR_STYPE_LIST || type->kind == CR_STYPE_DICT))
        out->type = type;
    else if (a->kind == CR_SAST_LIST && a->count)
        out->type = cr_stype_list(c->unit, types[0]);
    else
        constant_wrong(c, a);
}

static void constant_number(compiler *c, const cr_sast *a, cr_sconstant *out)
{
    size_t n = strlen(a->text);
    char *end;

    errno = 0;
    if ((a->text[n - 1] | 32) == 'j') {
        out->type = CR_STYPE_OF(COMPLEX);
        out->d[1] = strtod(a->text, &end);
        end++;
    } else if (strpbrk(a->text, ".eE")) {
        out->type = CR_STYPE_OF(FLOAT);
        out->d[0] = strtod(a->text, &end);
        errno = 0;
    } else {
        out->type = CR_STYPE_OF(INT);
        out->i = strtoll(a->text, &end, 10);
    }
    if (*end || errno)
        constant_wrong(c, a);
}

static void constant_negate(compiler *c, const cr_sast *a, cr_sconstant *out)
{
    if (!c->env && compile_is_least_int(a)) {
        *out = (cr_sconstant){.type = CR_STYPE_OF(INT), .i = INT64_MIN};
        return;
    }
    *out = *constant_of(c, a->at[0], NULL);
    if (out->type->kind == CR_STYPE_INT) {
        out->i = (int64_t)(0 - (uint64_t)out->i);
    } else if (out->type->kind == CR_STYPE_FLOAT || out->type->kind == CR_STYPE_COMPLEX) {
        out->d[0] = -out->d[0];
        out->d[1] = -out->d[1];
    } else {
        constant_wrong(c, a);
    }
}

/* inf, nan, and torch.device("cpu"). */
static void constant_other(compiler *c, const cr_sast *a, cr_sconstant *out)
{
    if (a->kind == CR_SAST_NAME && (!strcmp(a->text, "inf") || !strcmp(a->text, "nan"))) {
        out->type = CR_STYPE_OF(FLOAT);
        out->d[0] = strtod(a->text, NULL);
        return;
    }
    if (a->kind == CR_SAST_CALL && a->count == 2 && a->at[0]->kind == CR_SAST_ATTRIBUTE &&
        !strcmp(a->at[0]->text, "device") && a->at[1]->kind == CR_SAST_STRING) {
        out->type = CR_STYPE_OF(DEVICE);
        out->s = a->at[1]->text;
        out->len = a->at[1]->len;
        return;
    }
    if (a->kind == CR_SAST_CALL && a->count == 3 && a->at[0]->kind == CR_SAST_NAME &&
        !strcmp(a->at[0]->text, "annotate")) {
        *out = *constant_of(c, a->at[2], compile_type(c, a->at[1]));
        return;
    }
    if (c->env) {
        *out = *define_constant(c, a);
        return;
    }
    constant_wrong(c, a);
}

/* The value of a default or a class constant. */
static cr_sconstant *constant_of(compiler *c, const cr_sast *a, const cr_stype *type)
{
    cr_sconstant *out = CR_NEW(c->s, cr_sconstant);

    if (type && type->kind == CR_STYPE_OPTIONAL)
        type = type->item[0];
    switch (a->kind) {
    case CR_SAST_NUMBER: constant_number(c, a, out); break;
    case CR_SAST_UNARY: constant_negate(c, a, out); break;
    case CR_SAST_NONE: out->type = CR_STYPE_OF(NONE); break;
    case CR_SAST_TRUE:
    case CR_SAST_FALSE:
        out->type = CR_STYPE_OF(BOOL);
        out->i = a->kind == CR_SAST_TRUE;
        break;
    case CR_SAST_STRING:
        out->type = CR_STYPE_OF(STR);
        out->s = a->text;
        out->len = a->len;
        break;
    case CR_SAST_TUPLE:
    case CR_SAST_LIST:
    case CR_SAST_DICT: constant_items(c, a, type, out); break;
    default: constant_other(c, a, out);
    }
    if (type && type->kind == CR_STYPE_FLOAT && out->type->kind == CR_STYPE_INT) {
        out->d[0] = (double)out->i;
        out->type = type;
    }
    return out;
}

/* --- functions --- */

/* The default of a list of fixed length: one number is the value of every item. */
static const cr_sconstant *param_preset(compiler *c, const cr_sconstant *given,
                                        const cr_sparam *p)
{
    cr_sconstant *list, *item;

    if (!p->fixed || p->type->kind != CR_STYPE_LIST ||
        !cr_stype_is_subtype(given->type, p->type->item[0]))
        return given;
    list = CR_NEW(c->s, cr_sconstant);
    item = CR_NEW_N(c->s, cr_sconstant, p->fixed);
    for (int i = 0; i < p->fixed; i++)
        item[i] = *given;
    *list = (cr_sconstant){.type = p->type};
    list->count = p->fixed;
    list->item = item;
    return list;
}

/* BroadcastingList2[int]: 2; a single int is given for both. */
static int param_fixed(const cr_sast *type)
{
    static const char name[] = "BroadcastingList";
    const cr_sast *of = type->kind == CR_SAST_SUBSCRIPT ? type->at[0] : type;

    if (of->kind == CR_SAST_NAME && !strcmp(of->text, "Optional"))
        return param_fixed(type->at[1]);
    return of->kind == CR_SAST_NAME && !strncmp(of->text, name, sizeof name - 1)
               ? atoi(of->text + sizeof name - 1)
               : 0;
}

/* The name of *args or **kwargs: torch marks the stars of *args. */
static cr_srange param_name_range(const cr_sast *p)
{
    cr_srange range = p->range;

    range.end = range.start + (uint32_t)strlen(p->text);
    range.start += !strncmp(p->text, "**", 2);
    return range;
}

CR_NORETURN static void refuse_variable(compiler *c, const cr_sast *p)
{
    define_refuse(c, "NotSupportedError", param_name_range(p),
                  "Compiled functions can't take variable number of arguments or use "
                  "keyword-only arguments with defaults");
}

static void function_params(compiler *c, cr_sfunction *f, const cr_sast *params)
{
    cr_sschema *s = &f->schema;
    bool keywords = false;

    for (int i = 0; i < params->count; i++)
        if (!strncmp(params->at[i]->text, "**", 2))
            refuse_variable(c, params->at[i]);
    s->param = CR_NEW_N(c->s, cr_sparam, params->count + 1);
    for (int i = 0; i < params->count; i++) {
        const cr_sast *p = params->at[i];
        if (!strcmp(p->text, "*")) {
            keywords = true;
            continue;
        }
        if (*p->text == '*' || *p->text == '/')
            refuse_variable(c, p);
        cr_sparam *to = &s->param[s->param_count++];
        to->name = p->text;
        to->keyword_only = keywords;
        to->type = p->at[0]                          ? compile_type(c, p->at[0])
                   : f->owner && s->param_count == 1 ? f->owner->type
                   : c->env                          ? &cr_stype_inferred
                                                     : CR_STYPE_OF(TENSOR);
        to->fixed = p->at[0] ? param_fixed(p->at[0]) : 0;
        to->preset = p->at[1] ? param_preset(c, constant_of(c, p->at[1], to->type), to) : NULL;
    }
}

static void function_set_result(compiler *c, cr_sfunction *f, const cr_stype *type)
{
    f->schema.result = CR_NEW(c->s, cr_sparam);
    *f->schema.result = (cr_sparam){.name = "", .type = type};
    f->schema.result_count = 1;
}

cr_sfunction *import_define(compiler *c, const char *name, cr_sclass *owner, const cr_sast *a)
{
    cr_sfunction *f, *around = c->function;

    if (cr_sunit_function(c->unit, name))
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "method '%s' already defined.", name);
    f = cr_sunit_add_function(c->unit, name, owner);
    f->ast = a;
    c->function = f;
    function_params(c, f, a->at[0]);
    if (a->at[1])
        function_set_result(c, f, compile_type(c, a->at[1]));
    c->function = around;
    return f;
}

/* `__setstate__` without annotations takes what `__getstate__` of its class returns. */
static void function_take_state(compiler *c, cr_sfunction *f)
{
    cr_sschema *s = &f->schema;
    cr_sfunction *get;

    if (!c->env || !f->owner || strcmp(f->name, "__setstate__"))
        return;
    for (int i = 1; i < s->param_count; i++)
        if (s->param[i].type != &cr_stype_inferred)
            return;
    if (s->param_count != 2)
        cr_srange_bail(c->s, CR_RUNTIME, f->ast->range,
                       "Expected 2 arguments for `__setstate__`, got: %d", s->param_count);
    get = cr_sclass_method(f->owner, "__getstate__");
    if (!get)
        cr_srange_bail(c->s, CR_RUNTIME, f->ast->range,
                       "`__setstate__` defined but not `__getstate__`. You must have both "
                       "defined on a ScriptModule to customize serialization.\n"
                       "Did you forget to use `@torch.jit.export`?");
    compile_function(c, get, f->ast->range);
    s->param[1].type = get->schema.result->type;
}

static void compile_new_function(compiler *c, cr_sfunction *f)
{
    f->compiling = true;
    c->function = f;
    c->declared = f->schema.result_count ? f->schema.result->type : NULL;
    c->graph = cr_sgraph_new(c->s, c->unit);
    c->block = c->graph->body;
    function_take_state(c, f);
    compile_body(c, f->ast);
    if (!f->schema.result_count)
        function_set_result(c, f, c->result);
    f->graph = c->graph;
    f->compiling = false;
}

/* "f", "A.f" of a method of class A. */
static const char *function_short_name(compiler *c, const cr_sfunction *f)
{
    const char *dot = f->owner ? strrchr(f->owner->name, '.') : NULL;

    if (!f->owner)
        return f->name;
    return cr_session_printf(c->s, "%s.%s", dot ? dot + 1 : f->owner->name, f->name);
}

/* torch compiles the modules inside of a module before it, so errors do not name their
 * callers. */
static bool function_comes_first(const compiler *from, const cr_sfunction *f)
{
    return f->owner && f->owner->is_module && !strcmp(f->name, "forward") && from->function &&
           from->function->owner != f->owner;
}

/* Compiles f; its errors name the function whose compilation needs it. */
static void compile_called(compiler *from, compiler *c, cr_sfunction *f)
{
    cr_scaller *outer = c->s->place;

    if (c->env) {
        c->caller = CR_NEW(c->s, cr_scaller);
        c->caller->name = function_short_name(c, f);
        c->caller->outer = function_comes_first(from, f) ? NULL : outer;
        c->s->place = c->caller;
    }
    compile_new_function(c, f);
    c->s->place = outer;
}

void compile_function(compiler *from, cr_sfunction *f, cr_srange range)
{
    compiler *c;

    if (f->graph || !f->ast)
        return;
    if (f->compiling)
        cr_srange_bail(from->s, CR_RUNTIME, range,
                       "%s '%s' is called recursively. Recursive calls are not supported",
                       f->owner ? "method" : "function", f->name);
    c = CR_NEW(from->s, compiler);
    *c = (compiler){.s = from->s,
                    .unit = from->unit,
                    .archive = from->archive,
                    .env = cr_sunit_env(from->unit),
                    .nesting = from->nesting};
    if (!strncmp(f->qualified, LIBRARY ".", sizeof LIBRARY))
        c->archive = NULL, c->env = NULL; /* it means today's operators, by names of archives */
    compile_called(from, c, f);
}

cr_sfunction *compile_method(compiler *c, cr_sclass *cls, const char *name, cr_srange range)
{
    cr_sfunction *f = cr_sclass_method(cls, name);
    term *member = f ? NULL : define_member(c, NULL, cls, name, range);

    return member && member->kind == TERM_METHOD ? member->function : f;
}

/* --- classes --- */

static const char *base_of(const cr_sast *a)
{
    const cr_sast *bases = a->at[1];

    if (!bases || bases->count < 2)
        return "";
    return bases->at[1]->text ? bases->at[1]->text : "";
}

static bool list_has(const cr_sast *list, const char *name)
{
    for (int i = 0; list && i < list->count; i++)
        if (list->at[i]->kind == CR_SAST_STRING && !strcmp(list->at[i]->text, name))
            return true;
    return false;
}

typedef struct {
    cr_sclass *cls;
    const cr_sast *parameters, *buffers; /* the lists __parameters__ and __buffers__ */
    const cr_sast *hooks, *prehooks;     /* and the names of methods that are hooks */
} class_reader;

static bool is_final(const cr_sast *type)
{
    return type->kind == CR_SAST_SUBSCRIPT && type->at[0]->kind == CR_SAST_NAME &&
           !strcmp(type->at[0]->text, "Final");
}

static void class_attribute(compiler *c, class_reader *r, const char *name, const cr_sast *type,
                            const cr_sast *value)
{
    cr_sattribute a = {.name = name, .type = compile_type(c, type)};

    if (is_final(type) && value) {
        cr_sclass_add_constant(r->cls, name, constant_of(c, value, a.type));
        return;
    }
    if (cr_sclass_attribute(r->cls, name) >= 0)
        cr_srange_bail(c->s, CR_RUNTIME, type->range, "attribute '%s' already exists", name);
    a.parameter = list_has(r->parameters, name);
    a.buffer = list_has(r->buffers, name);
    cr_sclass_add_attribute(r->cls, a);
}

static void class_method(compiler *c, cr_sclass *cls, const cr_sast *a)
{
    const char *name = cr_session_printf(c->s, "%s.%s", cls->name, a->text);

    cr_sclass_add_method(cls, import_define(c, name, cls, a));
}

/* name : T, name : Final[T] = value, __parameters__ = [...], __annotations__["0"] = T. */
static void class_assignment(compiler *c, class_reader *r, const cr_sast *a)
{
    const cr_sast *target = a->at[2], *value = a->at[0];

    if (target->kind == CR_SAST_NAME && a->at[1]) {
        class_attribute(c, r, target->text, a->at[1], value);
    } else if (target->kind == CR_SAST_NAME && value && value->kind == CR_SAST_LIST &&
               !strncmp(target->text, "__", 2)) {
        if (!strcmp(target->text, "__parameters__"))
            r->parameters = value;
        else if (!strcmp(target->text, "__buffers__"))
            r->buffers = value;
        else if (!strcmp(target->text, "__forward_hooks__"))
            r->hooks = value;
        else if (!strcmp(target->text, "__forward_pre_hooks__"))
            r->prehooks = value;
        else if (strcmp(target->text, "__annotations__") || value->count)
            cr_srange_bail(c->s, CR_RUNTIME, a->range, "unknown list %s of a class",
                           target->text);
    } else if (target->kind == CR_SAST_SUBSCRIPT && target->count == 2 && value &&
               target->at[1]->kind == CR_SAST_STRING) {
        class_attribute(c, r, target->at[1]->text, value, NULL);
    } else if (target->kind == CR_SAST_NAME && value) {
        cr_sclass_add_constant(r->cls, target->text, constant_of(c, value, NULL));
    } else {
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "unexpected statement in a class");
    }
}

/* The type of a named tuple has its fields' types: it is made when they are known. */
static void class_finish_tuple(compiler *c, cr_sclass *cls)
{
    const cr_stype **item = CR_NEW_N(c->s, const cr_stype *, cls->attributes.len + 1);

    for (size_t i = 0; i < cls->attributes.len; i++)
        item[i] = cls->attributes.at[i].type;
    cls->type = cr_stype_tuple(c->unit, (int)cls->attributes.len, item, cls);
}

static void class_hooks(compiler *c, cr_sclass *cls, const cr_sast *names, bool before)
{
    for (int i = 0; names && i < names->count; i++) {
        const cr_sast *name = names->at[i];
        cr_sfunction *f =
            name->kind == CR_SAST_STRING ? cr_sclass_method(cls, name->text) : NULL;
        if (!f)
            cr_srange_bail(c->s, CR_RUNTIME, name->range,
                           "a hook is not a method of the class");
        cr_sclass_add_hook(cls, f, before);
    }
}

static void class_read(compiler *c, cr_sclass *cls, const cr_sast *a)
{
    class_reader r = {.cls = cls};
    const cr_sast *body = a->at[0];

    for (int i = 0; i < body->count; i++)
        if (body->at[i]->kind == CR_SAST_ASSIGN)
            class_assignment(c, &r, body->at[i]);
    for (int i = 0; i < body->count; i++)
        if (body->at[i]->kind == CR_SAST_FUNCTION)
            class_method(c, cls, body->at[i]);
        else if (body->at[i]->kind != CR_SAST_ASSIGN && body->at[i]->kind != CR_SAST_PASS)
            cr_srange_bail(c->s, CR_RUNTIME, body->at[i]->range,
                           "unexpected statement in a class");
    class_hooks(c, cls, r.hooks, false);
    class_hooks(c, cls, r.prehooks, true);
    if (cls->type->kind == CR_STYPE_TUPLE)
        class_finish_tuple(c, cls);
    if (cls->type->kind == CR_STYPE_ENUM)
        cls->base = cls->constants.len ? cls->constants.at[0].value->type : CR_STYPE_OF(INT);
    if (cls->type->kind == CR_STYPE_INTERFACE)
        for (size_t i = 0; i < cls->methods.len; i++)
            cls->methods.at[i]->ast = NULL;
}

static cr_stype_kind class_kind(const char *base)
{
    return !strcmp(base, "NamedTuple")                                      ? CR_STYPE_TUPLE
           : !strcmp(base, "Enum")                                          ? CR_STYPE_ENUM
           : !strcmp(base, "Interface") || !strcmp(base, "ModuleInterface") ? CR_STYPE_INTERFACE
                                                                            : CR_STYPE_CLASS;
}

cr_sclass *import_class(compiler *c, const char *name, cr_srange range)
{
    cr_sclass *known = cr_sunit_class(c->unit, name);
    cr_sclass *cls = known ? known : cr_soperators_class(name);
    const cr_sast *a = cls ? NULL : file_find(c, name, CR_SAST_CLASS);

    if (!a)
        return cls;
    compile_enter(c, range);
    cls = cr_sunit_add_class(c->unit, name, class_kind(base_of(a)));
    cls->is_module = !strcmp(base_of(a), "Module") || !strcmp(base_of(a), "ModuleInterface");
    cls->source_file = before_dot(c, cls->name);
    class_read(c, cls, a);
    compile_leave(c);
    return cls;
}

/* --- operators that are functions --- */

static cr_sfunction *library_function(compiler *c, const char *source)
{
    const char *open = strchr(source, '(');
    char *name = cr_session_printf(c->s, LIBRARY ".%.*s", (int)(open - source - 4), source + 4);
    cr_sfunction *f = cr_sunit_function(c->unit, name);
    const cr_sast *a = f ? NULL : file_find(c, name, CR_SAST_FUNCTION);

    return a ? import_define(c, name, NULL, a) : f;
}

bool cr_slibrary_has(const char *name)
{
    for (size_t k = 0; k < CR_LEN(library); k++)
        if (!library[k].last && !strcmp(library[k].name, name))
            return true;
    return false;
}

int cr_slibrary_version(const char *name)
{
    for (size_t k = 0; k < CR_LEN(library); k++)
        if (library[k].last && !strcmp(library[k].name, name))
            return library[k].last + 1;
    return 0;
}

cr_sfunction *import_operator(compiler *c, const char *name, bool known, int i)
{
    int version = c->archive ? c->archive->version : INT_MAX;

    for (size_t k = 0; k < CR_LEN(library); k++) {
        bool used = library[k].last ? version <= library[k].last : !known;
        if (!used || strcmp(library[k].name, name) || i--)
            continue;
        cr_sfunction *f = library_function(c, library[k].source);
        f->stands_for = library[k].last ? NULL : library[k].name;
        f->former = library[k].last > 0;
        return f;
    }
    return NULL;
}

/* --- names --- */

static term *term_of(compiler *c, term_kind kind, const char *name)
{
    term *t = CR_NEW(c->s, term);

    t->kind = (uint8_t)kind;
    t->name = cr_session_text(c->s, name);
    return t;
}

static bool name_is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], name))
            return true;
    return false;
}

static term *name_of_number(compiler *c, const char *name, cr_srange range)
{
    cr_sconstant value = {.type = CR_STYPE_OF(FLOAT)};
    bool imaginary = strlen(name) == 4;

    value.type = imaginary ? CR_STYPE_OF(COMPLEX) : value.type;
    value.d[imaginary] = strtod(name, NULL);
    return compile_term_value(c, compile_constant(c, &value, range));
}

/* A name that is no variable: the names that torch gives archives, and Python's functions that
 * are operators. */
term *import_name(compiler *c, const char *name, cr_srange range)
{
    static const char *const paths[] = {"torch", "ops", "__torch__", "CONSTANTS"};
    static const char *const numbers[] = {"inf", "nan", "infj", "nanj"};
    const cr_sschemas *all;
    const char *full;

    if (name_is_one_of(name, paths, CR_LEN(paths)))
        return term_of(c, TERM_PATH, name);
    if (compile_special_of(name) != SPECIAL_COUNT)
        return term_of(c, TERM_SPECIAL, name);
    if (name_is_one_of(name, numbers, CR_LEN(numbers)))
        return name_of_number(c, name, range);
    if (!strcmp(name, "print"))
        return term_of(c, TERM_OPERATOR, "prim::Print");
    /* abs, max and min of numbers are in prim, len and the like in aten, each without a tensor
     * as the first parameter. */
    for (int i = 0; i < 2; i++) {
        full = cr_session_printf(c->s, "%s::%s", i ? "aten" : "prim", name);
        cr_session_check(c->s, cr_soperators(&all, full));
        for (size_t k = 0; k < all->len; k++)
            if (all->at[k]->param_count && !all->at[k]->op)
                return term_of(c, TERM_OPERATOR, full);
    }
    return NULL;
}

static term *path_constant(compiler *c, const char *name, cr_srange range)
{
    size_t i = (size_t)strtoull(name + 1, NULL, 10);

    if (*name != 'c' || !c->archive || i >= c->archive->constant_count)
        cr_srange_bail(c->s, CR_RUNTIME, range, "the archive has no constant %s", name);
    return compile_term_value(c, compile_constant(c, &c->archive->constant[i], range));
}

static term *path_of_archive(compiler *c, const char *path, cr_srange range)
{
    cr_sclass *cls = import_class(c, path, range);
    cr_sfunction *f = cls ? NULL : cr_sunit_function(c->unit, path);
    const cr_sast *a = cls || f ? NULL : file_find(c, path, CR_SAST_FUNCTION);
    term *t = term_of(c, cls ? TERM_CLASS : f || a ? TERM_FUNCTION : TERM_PATH, path);

    t->type = cls ? cls->type : NULL;
    t->function = a ? import_define(c, t->name, NULL, a) : f;
    return t;
}

/* torch.add, ops.prim.Print, CONSTANTS.c0, __torch__.a.B. */
term *import_path(compiler *c, const char *path, cr_srange range)
{
    const char *second = strchr(path, '.') + 1, *third = strchr(second, '.');

    if (!strncmp(path, "torch.autograd.", 15))
        return term_of(c, TERM_OPERATOR, cr_session_printf(c->s, "aten::%s", path + 15));
    if (!strncmp(path, "torch.", 6) && strcmp(second, "autograd"))
        return term_of(c, TERM_OPERATOR, cr_session_printf(c->s, "aten::%s", second));
    if (!strncmp(path, "CONSTANTS.", 10))
        return path_constant(c, second, range);
    if (!strncmp(path, "ops.", 4) && third)
        return term_of(
            c, TERM_OPERATOR,
            cr_session_printf(c->s, "%.*s::%s", (int)(third - second), second, third + 1));
    if (!strncmp(path, "__torch__.", 10))
        return path_of_archive(c, path, range);
    return term_of(c, TERM_PATH, path);
}

/* --- entry points --- */

typedef struct {
    cr_sunit *unit;
    const cr_sarchive *archive;
    const char *name;
    cr_sclass *cls;
    const cr_stype *type;
} importing;

static compiler *import_compiler(cr_session *s, const importing *x)
{
    compiler *c = CR_NEW(s, compiler);

    c->s = s;
    c->unit = x->unit;
    c->archive = x->archive;
    c->nesting = CR_NEW(s, int);
    return c;
}

/* The functions of an archive; other programs compile what is called. */
static void import_compile_all(compiler *c)
{
    if (!c->archive)
        return;
    for (size_t i = 0; i < cr_sunit_function_count(c->unit); i++)
        compile_function(c, cr_sunit_function_at(c->unit, i), (cr_srange){0});
}

static void import_it(cr_session *s, void *context)
{
    importing *x = context;
    compiler *c = import_compiler(s, x);

    x->cls = import_class(c, x->name, (cr_srange){0});
    if (!x->cls)
        cr_bail(s, CR_RUNTIME, "Unknown type name '%s': the archive has no such class",
                x->name);
    import_compile_all(c);
}

cr_status cr_sunit_import(cr_sunit *u, const cr_sarchive *a, const char *name, cr_sclass **out)
{
    importing x = {.unit = u, .archive = a, .name = name};

    CR_TRY(cr_session_run(cr_sunit_session(u), import_it, &x));
    *out = x.cls;
    return CR_OK;
}

static void import_type_it(cr_session *s, void *context)
{
    importing *x = context;
    compiler *c = import_compiler(s, x);
    cr_ssource *source = CR_NEW(s, cr_ssource);

    *source = (cr_ssource){
        .text = cr_session_text(s, x->name), .len = strlen(x->name), .first_line = 1};
    x->type = compile_type(c, cr_sast_parse_expression(s, source));
    import_compile_all(c);
}

cr_status cr_sunit_import_type(cr_sunit *u, const cr_sarchive *a, const char *text,
                               const cr_stype **out)
{
    importing x = {.unit = u, .archive = a, .name = text};

    CR_TRY(cr_session_run(cr_sunit_session(u), import_type_it, &x));
    *out = x.type;
    return CR_OK;
}
