/* Types: making, comparing, printing. */
#include "script/type.h"
#include "num/dtype.h"
#include "script/unit.h"
#include <stdio.h>
#include <string.h>

const cr_stype cr_stype_plain[CR_STYPE_COUNT] = {
#define CR_STYPE(NAME, text, annotation)                                                       \
    [CR_STYPE_##NAME] = {.kind = CR_STYPE_##NAME, .weight = 1},
#include "script/types.def"
#undef CR_STYPE
};
static const char *const type_text[CR_STYPE_COUNT] = {
#define CR_STYPE(NAME, text, annotation) [CR_STYPE_##NAME] = text,
#include "script/types.def"
#undef CR_STYPE
};
static const char *const type_annotation[CR_STYPE_COUNT] = {
#define CR_STYPE(NAME, text, annotation) [CR_STYPE_##NAME] = annotation,
#include "script/types.def"
#undef CR_STYPE
};

static cr_stype *type_new(cr_sunit *u, cr_stype_kind kind, int count,
                          const cr_stype *const *item)
{
    cr_session *s = cr_sunit_session(u);
    cr_stype *t = CR_NEW(s, cr_stype);

    t->kind = (uint8_t)kind;
    t->count = count;
    t->item = count ? cr_session_copy(s, item, (size_t)count * sizeof(*item)) : NULL;
    t->unit = u;
    t->weight = 1;
    for (int i = 0; i < count; i++)
        t->weight += item[i]->weight;
    if (t->weight > CR_STYPE_MOST)
        cr_bail(s, CR_RUNTIME, "a type with more than %d members", CR_STYPE_MOST);
    return t;
}

const cr_stype *cr_stype_list(cr_sunit *u, const cr_stype *item)
{
    return type_new(u, CR_STYPE_LIST, 1, &item);
}

const cr_stype *cr_stype_optional(cr_sunit *u, const cr_stype *item)
{
    if (item->kind == CR_STYPE_OPTIONAL || item->kind == CR_STYPE_NONE ||
        item->kind == CR_STYPE_ANY)
        return item;
    if (item->kind == CR_STYPE_UNION)
        return cr_stype_union(u, 2, (const cr_stype *[]){item, CR_STYPE_OF(NONE)});
    return type_new(u, CR_STYPE_OPTIONAL, 1, &item);
}

const cr_stype *cr_stype_dict(cr_sunit *u, const cr_stype *key, const cr_stype *value)
{
    return type_new(u, CR_STYPE_DICT, 2, (const cr_stype *[]){key, value});
}

const cr_stype *cr_stype_future(cr_sunit *u, const cr_stype *item)
{
    return type_new(u, CR_STYPE_FUTURE, 1, &item);
}

const cr_stype *cr_stype_tuple(cr_sunit *u, int count, const cr_stype *const *item,
                               cr_sclass *cls)
{
    cr_stype *t = type_new(u, CR_STYPE_TUPLE, count, item);

    t->cls = cls;
    return t;
}

const cr_stype *cr_stype_tuple_of_fields(cr_sunit *u, int count, const cr_stype *const *item,
                                         const char *const *field)
{
    cr_stype *t = type_new(u, CR_STYPE_TUPLE, count, item);

    t->field = cr_session_copy(cr_sunit_session(u), field, (size_t)count * sizeof(*field));
    return t;
}

const char *cr_stype_field(const cr_stype *t, int i)
{
    return t->cls ? t->cls->attributes.at[i].name : t->field ? t->field[i] : NULL;
}

/* Adds a member to a union's list, unless a member covers it; drops those that it covers. */
static int union_add(const cr_stype **list, int n, const cr_stype *t)
{
    int kept = 0;

    for (int i = 0; i < n; i++)
        if (cr_stype_is_subtype(t, list[i]))
            return n;
    for (int i = 0; i < n; i++)
        if (!cr_stype_is_subtype(list[i], t))
            list[kept++] = list[i];
    list[kept++] = t;
    return kept;
}

/* By kind, then by text: equal unions have one text.  Unions are short. */
static void union_sort(const cr_stype **list, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0; k--) {
            const cr_stype *a = list[k - 1], *b = list[k];
            if (a->kind < b->kind ||
                (a->kind == b->kind && strcmp(cr_stype_text(a), cr_stype_text(b)) <= 0))
                break;
            list[k - 1] = b;
            list[k] = a;
        }
}

static int union_size(int count, const cr_stype *const *item)
{
    int n = 0;

    for (int i = 0; i < count; i++)
        n += item[i]->kind == CR_STYPE_UNION      ? item[i]->count
             : item[i]->kind == CR_STYPE_OPTIONAL ? 2
                                                  : 1;
    return n;
}

const cr_stype *cr_stype_union(cr_sunit *u, int count, const cr_stype *const *item)
{
    const cr_stype **list =
        CR_NEW_N(cr_sunit_session(u), const cr_stype *, union_size(count, item) + 1);
    int n = 0, none = -1;

    for (int i = 0; i < count; i++) {
        if (item[i]->kind == CR_STYPE_UNION)
            for (int k = 0; k < item[i]->count; k++)
                n = union_add(list, n, item[i]->item[k]);
        else if (item[i]->kind == CR_STYPE_OPTIONAL) {
            n = union_add(list, n, item[i]->item[0]);
            n = union_add(list, n, CR_STYPE_OF(NONE));
        } else {
            n = union_add(list, n, item[i]);
        }
    }
    union_sort(list, n);
    for (int i = 0; i < n; i++)
        none = list[i]->kind == CR_STYPE_NONE ? i : none;
    if (n == 1)
        return list[0];
    if (n == 2 && none >= 0)
        return type_new(u, CR_STYPE_OPTIONAL, 1, &list[1 - none]);
    return type_new(u, CR_STYPE_UNION, n, list);
}

const cr_stype *cr_stype_var(cr_sunit *u, const char *name)
{
    cr_stype *t = type_new(u, CR_STYPE_VAR, 0, NULL);

    t->name = cr_session_text(cr_sunit_session(u), name);
    return t;
}

const cr_stype *cr_stype_function(cr_sunit *u, cr_sfunction *f)
{
    cr_stype *t = type_new(u, CR_STYPE_FUNCTION, 0, NULL);

    t->function = f;
    return t;
}

const cr_stype *cr_stype_seen(cr_sunit *u, const cr_stype_tensor *facts)
{
    cr_stype *t = type_new(u, CR_STYPE_TENSOR, 0, NULL);

    t->tensor = facts;
    return t;
}

/* --- comparing --- */

static bool union_equal(const cr_stype *a, const cr_stype *b)
{
    for (int i = 0; i < a->count; i++) {
        bool found = false;
        for (int k = 0; k < b->count && !found; k++)
            found = cr_stype_equal(a->item[i], b->item[k]);
        if (!found)
            return false;
    }
    return true;
}

bool cr_stype_equal(const cr_stype *a, const cr_stype *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->count != b->count || a->cls != b->cls)
        return false;
    if (a->kind == CR_STYPE_VAR)
        return !strcmp(a->name, b->name);
    if (a->kind == CR_STYPE_FUNCTION)
        return a->function == b->function;
    if (a->kind == CR_STYPE_UNION)
        return union_equal(a, b);
    for (int i = 0; i < a->count; i++)
        if (!cr_stype_equal(a->item[i], b->item[i]))
            return false;
    return true;
}

static bool tuple_is_subtype(const cr_stype *a, const cr_stype *b)
{
    if (a->kind != CR_STYPE_TUPLE || a->count != b->count || (b->cls && a->cls != b->cls))
        return false;
    for (int i = 0; i < a->count; i++)
        if (!cr_stype_is_subtype(a->item[i], b->item[i]))
            return false;
    return true;
}

static bool method_is_subtype(const cr_sfunction *a, const cr_sfunction *b)
{
    if (!a || a->schema.param_count != b->schema.param_count || !a->schema.result_count ||
        !b->schema.result_count)
        return a && a->schema.param_count == b->schema.param_count;
    for (int i = 1; i < a->schema.param_count; i++)
        if (!cr_stype_is_subtype(b->schema.param[i].type, a->schema.param[i].type))
            return false;
    return cr_stype_is_subtype(a->schema.result->type, b->schema.result->type);
}

/* A class or interface has all methods of the interface. */
static bool interface_is_super(const cr_stype *a, const cr_stype *b)
{
    if (a->kind != CR_STYPE_CLASS && a->kind != CR_STYPE_INTERFACE)
        return false;
    if (b->cls->is_module && !a->cls->is_module)
        return false;
    for (size_t i = 0; i < b->cls->methods.len; i++) {
        const cr_sfunction *f = b->cls->methods.at[i];
        if (!method_is_subtype(cr_sclass_method(a->cls, f->name), f))
            return false;
    }
    return true;
}

static bool union_has(const cr_stype *a, const cr_stype *b)
{
    for (int i = 0; i < b->count; i++)
        if (cr_stype_is_subtype(a, b->item[i]))
            return true;
    return false;
}

static bool members_are_subtypes(const cr_stype *a, const cr_stype *b)
{
    for (int i = 0; i < a->count; i++)
        if (!cr_stype_is_subtype(a->item[i], b))
            return false;
    return a->kind == CR_STYPE_UNION || cr_stype_is_subtype(CR_STYPE_OF(NONE), b);
}

bool cr_stype_is_subtype(const cr_stype *a, const cr_stype *b)
{
    if (b->kind == CR_STYPE_ANY || a->kind == CR_STYPE_NEVER || cr_stype_equal(a, b))
        return true;
    if (a->kind == CR_STYPE_UNION || a->kind == CR_STYPE_OPTIONAL)
        return members_are_subtypes(a, b);
    switch (b->kind) {
    case CR_STYPE_NUMBER:
        return a->kind == CR_STYPE_INT || a->kind == CR_STYPE_FLOAT ||
               a->kind == CR_STYPE_COMPLEX;
    case CR_STYPE_OPTIONAL: return a->kind == CR_STYPE_NONE || union_has(a, b);
    case CR_STYPE_UNION: return union_has(a, b);
    case CR_STYPE_TUPLE: return tuple_is_subtype(a, b);
    case CR_STYPE_FUTURE:
        return a->kind == CR_STYPE_FUTURE && cr_stype_is_subtype(a->item[0], b->item[0]);
    case CR_STYPE_ANY_LIST: return a->kind == CR_STYPE_LIST;
    case CR_STYPE_ANY_TUPLE: return a->kind == CR_STYPE_TUPLE;
    case CR_STYPE_ANY_ENUM: return a->kind == CR_STYPE_ENUM;
    case CR_STYPE_ANY_CLASS: return a->kind == CR_STYPE_CLASS;
    case CR_STYPE_INTERFACE: return interface_is_super(a, b);
    default: return false;
    }
}

static const cr_stype *join_tuples(cr_sunit *u, const cr_stype *a, const cr_stype *b)
{
    const cr_stype **item;

    if (a->count != b->count)
        return NULL;
    item = CR_NEW_N(cr_sunit_session(u), const cr_stype *, a->count + 1);
    for (int i = 0; i < a->count; i++)
        if (!(item[i] = cr_stype_join(u, a->item[i], b->item[i])))
            return NULL;
    return cr_stype_tuple(u, a->count, item, a->cls == b->cls ? a->cls : NULL);
}

const cr_stype *cr_stype_join(cr_sunit *u, const cr_stype *a, const cr_stype *b)
{
    const cr_stype *in_a = a->kind == CR_STYPE_OPTIONAL ? a->item[0] : a;
    const cr_stype *in_b = b->kind == CR_STYPE_OPTIONAL ? b->item[0] : b, *joined;

    if (a->kind == CR_STYPE_TENSOR && b->kind == CR_STYPE_TENSOR)
        return a == b ? a : CR_STYPE_OF(TENSOR);
    if (cr_stype_is_subtype(a, b))
        return b;
    if (cr_stype_is_subtype(b, a))
        return a;
    if (b->kind == CR_STYPE_NONE)
        return cr_stype_optional(u, a);
    if (a->kind == CR_STYPE_NONE)
        return cr_stype_optional(u, b);
    if (in_a != a || in_b != b) {
        joined = cr_stype_join(u, in_a, in_b);
        return joined ? cr_stype_optional(u, joined) : NULL;
    }
    if (a->kind == CR_STYPE_TUPLE && b->kind == CR_STYPE_TUPLE)
        return join_tuples(u, a, b);
    if (a->kind == CR_STYPE_FUTURE && b->kind == CR_STYPE_FUTURE) {
        joined = cr_stype_join(u, a->item[0], b->item[0]);
        return joined ? cr_stype_future(u, joined) : NULL;
    }
    return NULL;
}

bool cr_stype_has_var(const cr_stype *t)
{
    for (int i = 0; i < t->count; i++)
        if (cr_stype_has_var(t->item[i]))
            return true;
    return t->kind == CR_STYPE_VAR;
}

/* --- printing --- */

static void print_ints(cr_text *out, const int64_t *at, int n)
{
    for (int i = 0; i < n; i++)
        cr_text_printf(out, "%s%lld", i ? ", " : "", (long long)at[i]);
}

static void print_traced(cr_text *out, const cr_stype_tensor *t)
{
    cr_text_printf(out, "%s(", cr_dtype_infos[t->dtype].legacy);
    if (t->ndim >= 0 && !t->size)
        for (int i = 0; i < t->ndim; i++)
            cr_text_put(out, i ? ", *" : "*");
    else if (t->size)
        print_ints(out, t->size, t->ndim);
    if (t->ndim > 0 && t->stride) {
        cr_text_put(out, ", strides=[");
        print_ints(out, t->stride, t->ndim);
        cr_text_put(out, "]");
    }
    if (t->requires >= 0)
        cr_text_printf(out, "%srequires_grad=%d", t->ndim > 0 ? ", " : "", t->requires);
    if (t->device)
        cr_text_printf(out, "%sdevice=%s", t->ndim > 0 || t->requires >= 0 ? ", " : "",
                       t->device);
    cr_text_put(out, ")");
}

static void print_around(cr_text *out, const char *before, const cr_stype *t, const char *after)
{
    cr_text_put(out, before);
    for (int i = 0; i < t->count; i++) {
        cr_text_put(out, i ? ", " : "");
        cr_stype_print(out, t->item[i]);
    }
    cr_text_put(out, after);
}

static void print_tuple(cr_text *out, const cr_stype *t)
{
    cr_text_put(out, t->cls || t->field ? "NamedTuple(" : "(");
    for (int i = 0; i < t->count; i++) {
        cr_text_put(out, i ? ", " : "");
        if (cr_stype_field(t, i))
            cr_text_printf(out, "%s : ", cr_stype_field(t, i));
        cr_stype_print(out, t->item[i]);
        const cr_sconstant *preset =
            t->cls ? cr_sclass_constant_value(t->cls, cr_stype_field(t, i)) : NULL;
        if (preset)
            cr_text_put(out, " = ");
        if (preset && preset->type->kind == CR_STYPE_STR)
            cr_text_put_n(out, preset->s, preset->len);
        else if (preset)
            cr_sconstant_print(out, preset);
    }
    cr_text_put(out, ")");
}

static const char *last_name(const char *qualified)
{
    const char *dot = strrchr(qualified, '.');

    return dot ? dot + 1 : qualified;
}

void cr_stype_print(cr_text *out, const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_TENSOR:
        if (t->tensor)
            print_traced(out, t->tensor);
        else
            cr_text_put(out, "Tensor");
        break;
    case CR_STYPE_OPTIONAL: print_around(out, "", t, "?"); break;
    case CR_STYPE_UNION: print_around(out, "Union(", t, ")"); break;
    case CR_STYPE_LIST: print_around(out, "", t, "[]"); break;
    case CR_STYPE_DICT: print_around(out, "Dict(", t, ")"); break;
    case CR_STYPE_TUPLE: print_tuple(out, t); break;
    case CR_STYPE_FUTURE: print_around(out, "Future[", t, "]"); break;
    case CR_STYPE_CLASS: cr_text_put(out, t->cls->name); break;
    case CR_STYPE_INTERFACE:
        cr_text_printf(out, "InterfaceType<%s>", last_name(t->cls->name));
        break;
    case CR_STYPE_ENUM: cr_text_printf(out, "Enum<%s>", t->cls->name); break;
    case CR_STYPE_FUNCTION: cr_text_put(out, "Function"); break;
    case CR_STYPE_VAR: cr_text_put(out, t->name); break;
    default: cr_text_put(out, type_text[t->kind]);
    }
}

const char *cr_sname_as(const void *of, const char *own, const cr_map *names)
{
    const char *name = names ? cr_map_get(names, (const char *)&of, sizeof of) : NULL;

    return name ? name : own;
}

static void annotate_around(cr_text *out, const char *before, const cr_stype *t,
                            const cr_map *names)
{
    cr_text_put(out, before);
    for (int i = 0; i < t->count; i++) {
        cr_text_put(out, i ? ", " : "");
        cr_stype_annotate_as(out, t->item[i], names);
    }
    cr_text_put(out, "]");
}

void cr_stype_annotate_as(cr_text *out, const cr_stype *t, const cr_map *names)
{
    switch (t->kind) {
    case CR_STYPE_OPTIONAL: annotate_around(out, "Optional[", t, names); break;
    case CR_STYPE_UNION: annotate_around(out, "Union[", t, names); break;
    case CR_STYPE_LIST: annotate_around(out, "List[", t, names); break;
    case CR_STYPE_DICT: annotate_around(out, "Dict[", t, names); break;
    case CR_STYPE_FUTURE: annotate_around(out, "Future[", t, names); break;
    case CR_STYPE_TUPLE:
        if (t->cls)
            cr_text_put(out, cr_sname_as(t->cls, t->cls->name, names));
        else if (!t->count)
            cr_text_put(out, "Tuple[()]");
        else
            annotate_around(out, "Tuple[", t, names);
        break;
    case CR_STYPE_CLASS:
    case CR_STYPE_INTERFACE:
    case CR_STYPE_ENUM: cr_text_put(out, cr_sname_as(t->cls, t->cls->name, names)); break;
    case CR_STYPE_FUNCTION: cr_text_put(out, "Function"); break;
    case CR_STYPE_VAR: cr_text_put(out, t->name); break;
    default: cr_text_put(out, type_annotation[t->kind]);
    }
}

void cr_stype_annotate(cr_text *out, const cr_stype *t) { cr_stype_annotate_as(out, t, NULL); }

const cr_stype cr_stype_inferred = {.kind = CR_STYPE_TENSOR, .weight = 1};

static const char *text_in_scratch(const cr_stype *t,
                                   void (*print)(cr_text *out, const cr_stype *t))
{
    char *at = cr_error_scratch();
    cr_text text = {0};

    print(&text, t);
    snprintf(at, CR_SCRATCH_BYTES, "%s", cr_text_str(&text));
    cr_text_drop(&text);
    return at;
}

const char *cr_stype_text(const cr_stype *t) { return text_in_scratch(t, cr_stype_print); }

const char *cr_stype_in_source(const cr_stype *t)
{
    return text_in_scratch(t, cr_stype_annotate);
}

static void print_named(cr_text *out, const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_ENUM: cr_stype_print(out, t); break;
    case CR_STYPE_CLASS:
        /* "0" for a class that no program defines, as torch has it */
        cr_text_printf(out, "%s (of Python compilation unit at: ", t->cls->name);
        cr_text_printf(out,
                       strncmp(t->cls->name, "__torch__.torch.classes.", 24) ? "%p)" : "0)",
                       (void *)t->cls->unit);
        break;
    default: cr_stype_annotate(out, t);
    }
}

static void print_method(cr_text *out, int number, const cr_sfunction *f)
{
    cr_sschema shown = f->schema;

    shown.name = f->name;
    shown.overload = "";
    cr_text_printf(out, "  (%d) ", number);
    cr_sschema_print(out, &shown);
    cr_text_put(out, "\n");
}

/* The first method, by name, that `a` lacks or has with other types; NULL: none. */
static const cr_sfunction *misfit_method(const cr_stype *a, const cr_stype *b)
{
    const cr_sfunction *found = NULL;

    for (size_t i = 0; i < b->cls->methods.len; i++) {
        const cr_sfunction *f = b->cls->methods.at[i];
        if (!method_is_subtype(cr_sclass_method(a->cls, f->name), f) &&
            (!found || strcmp(f->name, found->name) < 0))
            found = f;
    }
    return found;
}

void cr_stype_print_misfit(cr_text *out, const cr_stype *a, const cr_stype *b)
{
    const cr_sfunction *f = NULL, *own;

    if (b->kind == CR_STYPE_INTERFACE && a->cls && b->cls->is_module && !a->cls->is_module) {
        cr_text_put(out, "Class '");
        print_named(out, a);
        cr_text_printf(
            out,
            "' is not a subtype of the module interface '%s' , only ScriptModule class "
            "can be subtype of module interface.\n",
            b->cls->name);
        return;
    }
    if (b->kind == CR_STYPE_INTERFACE && a->cls)
        f = misfit_method(a, b);
    if (!f)
        return;
    own = cr_sclass_method(a->cls, f->name);
    cr_text_put(out, own ? "Method on class '" : "Class '");
    print_named(out, a);
    if (!own) {
        cr_text_printf(out, "' does not have method '%s' but '%s' does.\n", f->name,
                       b->cls->name);
        return;
    }
    cr_text_printf(out, "' (1) is not compatible with interface '%s' (2)\n", b->cls->name);
    print_method(out, 1, own);
    print_method(out, 2, f);
}

const char *cr_stype_annotation(const cr_stype *t)
{
    return t == &cr_stype_inferred ? "Tensor (inferred)" : text_in_scratch(t, print_named);
}
