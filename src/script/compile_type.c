/* Types from annotations. */
#include "script/compile.h"
#include <string.h>

/* List, Dict, Tuple and Optional need the types inside. */
static void type_refuse_bare(compiler *c, const cr_sast *a, const char *name)
{
    static const char *const names[] = {"List", "Tuple", "Optional", "Dict"};

    for (size_t i = 0; c->env && i < CR_LEN(names); i++)
        if (!strcmp(names[i], name))
            cr_srange_bail(c->s, CR_RUNTIME, a->range,
                           *name == 'D'
                               ? "Attempted to use %s without contained types. Please add "
                                 "contained type, e.g. %s[int, int]"
                               : "Attempted to use %s without a contained type. Please add a "
                                 "contained type, e.g. %s[int]",
                           name, name);
}

static const cr_stype *type_of_name(compiler *c, const cr_sast *a, const char *name)
{
    static const struct {
        const char *name;
        cr_stype_kind kind;
    } known[] = {{"Tensor", CR_STYPE_TENSOR},
                 {"int", CR_STYPE_INT},
                 {"float", CR_STYPE_FLOAT},
                 {"complex", CR_STYPE_COMPLEX},
                 {"bool", CR_STYPE_BOOL},
                 {"str", CR_STYPE_STR},
                 {"NoneType", CR_STYPE_NONE},
                 {"number", CR_STYPE_NUMBER},
                 {"Device", CR_STYPE_DEVICE},
                 {"Generator", CR_STYPE_GENERATOR},
                 {"Any", CR_STYPE_ANY},
                 {"Storage", CR_STYPE_STORAGE},
                 {"Stream", CR_STYPE_STREAM},
                 {"Capsule", CR_STYPE_CAPSULE},
                 {"List", CR_STYPE_ANY_LIST},
                 {"Tuple", CR_STYPE_ANY_TUPLE},
                 {"list", CR_STYPE_ANY_LIST},
                 {"tuple", CR_STYPE_ANY_TUPLE},
                 {"AnyClassType", CR_STYPE_ANY_CLASS},
                 {"AnyEnumType", CR_STYPE_ANY_ENUM}};

    type_refuse_bare(c, a, name);
    for (size_t i = 0; i < CR_LEN(known); i++)
        if (!strcmp(known[i].name, name))
            return &cr_stype_plain[known[i].kind];
    if (!strncmp(name, "__torch__.", 10)) {
        cr_sclass *cls = import_class(c, name, a->range);
        if (cls)
            return cls->type;
    }
    if (c->env)
        return define_type(c, a);
    cr_srange_bail(c->s, CR_RUNTIME, a->range, "Unknown type name '%s'", name);
}

/* "a.b.c" of nested attributes, or NULL. */
static const char *type_path(compiler *c, const cr_sast *a)
{
    const char *left;

    if (a->kind == CR_SAST_NAME)
        return a->text;
    if (a->kind != CR_SAST_ATTRIBUTE)
        return NULL;
    left = type_path(c, a->at[0]);
    return left ? cr_session_printf(c->s, "%s.%s", left, a->text) : NULL;
}

static const cr_stype *type_of_tuple(compiler *c, const cr_sast *a)
{
    const cr_stype **item = CR_NEW_N(c->s, const cr_stype *, a->count);

    if (a->count == 2 && a->at[1]->kind == CR_SAST_TUPLE && !a->at[1]->count)
        return cr_stype_tuple(c->unit, 0, NULL, NULL);
    for (int i = 1; i < a->count; i++)
        item[i - 1] = compile_type(c, a->at[i]);
    return cr_stype_tuple(c->unit, a->count - 1, item, NULL);
}

static void type_want_members(compiler *c, const cr_sast *a, const char *name, int n)
{
    if (a->count - 1 != n)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       " expected exactly %d element type%s but found %d", n, n == 1 ? "" : "s",
                       a->count - 1);
    (void)name;
}

static const cr_stype *type_of_union(compiler *c, const cr_sast *a)
{
    const cr_stype **item = CR_NEW_N(c->s, const cr_stype *, a->count);

    for (int i = 1; i < a->count; i++)
        item[i - 1] = compile_type(c, a->at[i]);
    return cr_stype_union(c->unit, a->count - 1, item);
}

static bool type_is_key(const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_INT:
    case CR_STYPE_BOOL:
    case CR_STYPE_FLOAT:
    case CR_STYPE_COMPLEX:
    case CR_STYPE_STR:
    case CR_STYPE_TENSOR:
    case CR_STYPE_DEVICE:
    case CR_STYPE_ANY: return true;
    default: return false;
    }
}

static void type_want_key(compiler *c, const cr_stype *key)
{
    if (!type_is_key(key))
        cr_bail(c->s, CR_RUNTIME,
                "Cannot create dict for key type '%s', only int, float, complex, Tensor, "
                "device and string keys are supported",
                cr_stype_text(key));
}

const cr_stype *compile_dict_type(compiler *c, const cr_stype *key, const cr_stype *value)
{
    type_want_key(c, key);
    return cr_stype_dict(c->unit, key, value);
}

static const cr_stype *type_of_subscript(compiler *c, const cr_sast *a)
{
    const char *path = type_path(c, a->at[0]);
    const char *name = path && strrchr(path, '.') ? strrchr(path, '.') + 1 : path;

    if (!name)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "Unknown type constructor");
    if (!strcmp(name, "Tuple") || !strcmp(name, "tuple"))
        return type_of_tuple(c, a);
    if (!strcmp(name, "Union"))
        return type_of_union(c, a);
    if (!strcmp(name, "Dict") || !strcmp(name, "dict")) {
        type_want_members(c, a, name, 2);
        const cr_stype *key = compile_type(c, a->at[1]);
        type_want_key(c, key);
        return cr_stype_dict(c->unit, key, compile_type(c, a->at[2]));
    }
    if (!strncmp(name, "BroadcastingList", 16))
        return cr_stype_list(c->unit, compile_type(c, a->at[1]));
    if (strcmp(name, "List") && strcmp(name, "list") && strcmp(name, "Optional") &&
        strcmp(name, "Future") && strcmp(name, "Final") && c->env)
        return define_type(c, a);
    if (strcmp(name, "List") && strcmp(name, "list") && strcmp(name, "Optional") &&
        strcmp(name, "Future") && strcmp(name, "Final"))
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "Unknown type constructor %s", name);
    type_want_members(c, a, name, 1);
    const cr_stype *item = compile_type(c, a->at[1]);
    return *name == 'O'              ? cr_stype_optional(c->unit, item)
           : !strcmp(name, "Future") ? cr_stype_future(c->unit, item)
           : !strcmp(name, "Final")  ? item
                                     : cr_stype_list(c->unit, item);
}

/* An annotation in quotes. */
static const cr_stype *type_of_name_in(compiler *c, const cr_sast *quoted, const char *name)
{
    cr_sast *a = cr_session_copy(c->s, quoted, sizeof *quoted);

    a->kind = CR_SAST_NAME;
    a->text = name;
    return compile_type(c, a);
}

static const cr_stype *type_of_text(compiler *c, const cr_sast *a)
{
    cr_sast *parsed;
    cr_ssource *source = cr_session_copy(c->s, a->range.source, sizeof *source);

    source->text = a->text;
    source->len = a->len;
    parsed = cr_sast_parse_expression(c->s, source);
    if (parsed->kind == CR_SAST_NAME)
        return type_of_name_in(c, a, parsed->text);
    return compile_type(c, parsed);
}

const cr_stype *compile_type(compiler *c, const cr_sast *a)
{
    const char *path;

    if (a->kind == CR_SAST_NONE)
        return CR_STYPE_OF(NONE);
    if (a->kind == CR_SAST_SUBSCRIPT)
        return type_of_subscript(c, a);
    if (a->kind == CR_SAST_BINARY && !strcmp(a->text, "|")) {
        const cr_stype *left = compile_type(c, a->at[0]);
        const cr_stype *both[] = {left, compile_type(c, a->at[1])};
        return cr_stype_union(c->unit, 2, both);
    }
    if (a->kind == CR_SAST_STRING && c->env)
        return type_of_text(c, a);
    path = type_path(c, a);
    if (path && c->env && !strcmp(path, "torch.Tensor"))
        return CR_STYPE_OF(TENSOR);
    if (!path)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "Expression of type %s cannot be used in a type expression",
                       a->kind == CR_SAST_STRING     ? "string_literal"
                       : a->kind == CR_SAST_ELLIPSIS ? "dots"
                                                     : "expression");
    return type_of_name(c, a, path);
}
