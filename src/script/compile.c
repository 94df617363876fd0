/* Expressions. */
#include "script/compile.h"
#include "base/map.h"
#include "script/lex.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Levels of expressions, branches and classes in all functions that are being compiled. */
enum { MOST_NESTING = 2000 };

/* --- terms and constants --- */

term *compile_term_value(compiler *c, cr_svalue *v)
{
    term *t = CR_NEW(c->s, term);

    t->kind = TERM_VALUE;
    t->value = v;
    return t;
}

/* The text that equal constants share. */
static char *constant_key(compiler *c, const cr_sconstant *value)
{
    cr_text text = {0};
    const void *identity = value->type->kind == CR_STYPE_TENSOR     ? (void *)value->tensor
                           : value->type->kind == CR_STYPE_FUNCTION ? (void *)value->function
                           : value->type->kind == CR_STYPE_CLASS    ? value->object
                                                                    : NULL;

    cr_stype_print(&text, value->type);
    cr_text_printf(&text, " %p ", identity);
    cr_sconstant_print(&text, value);
    return cr_session_take_text(c->s, &text);
}

/* Literals of numbers are made once, at the start of the graph. */
static cr_svalue *constant_literal(compiler *c, const cr_sconstant *value, cr_srange range)
{
    char *key = constant_key(c, value);
    uint64_t hash = cr_hash(key, strlen(key)) % VARIABLE_CHAINS;
    variable *v;

    for (v = c->constants[hash]; v; v = v->next)
        if (!strcmp(v->name, key))
            return v->now->value;
    v = CR_NEW(c->s, variable);
    *v = (variable){.next = c->constants[hash], .name = key};
    v->now = compile_term_value(
        c, cr_sgraph_constant_first(c->graph, cr_session_copy(c->s, value, sizeof *value)));
    v->now->value->by->from.range = range;
    c->constants[hash] = v;
    return v->now->value;
}

cr_svalue *compile_constant(compiler *c, const cr_sconstant *value, cr_srange range)
{
    return cr_sblock_constant(c->block, cr_session_copy(c->s, value, sizeof *value), range);
}

cr_svalue *compile_int(compiler *c, int64_t i, cr_srange range)
{
    return compile_constant(c, &(cr_sconstant){.type = CR_STYPE_OF(INT), .i = i}, range);
}

cr_svalue *compile_literal(compiler *c, int64_t i, cr_srange range)
{
    return constant_literal(c, &(cr_sconstant){.type = CR_STYPE_OF(INT), .i = i}, range);
}

cr_svalue *compile_none(compiler *c, cr_srange range)
{
    return compile_constant(c, &(cr_sconstant){.type = CR_STYPE_OF(NONE)}, range);
}

static cr_svalue *compile_bool(compiler *c, bool b, cr_srange range)
{
    return compile_constant(c, &(cr_sconstant){.type = CR_STYPE_OF(BOOL), .i = b}, range);
}

static cr_svalue *compile_string(compiler *c, const char *s, size_t len, cr_srange range)
{
    cr_sconstant value = {.type = CR_STYPE_OF(STR)};

    value.s = s;
    value.len = len;
    return compile_constant(c, &value, range);
}

static bool term_is_enum(const term *t)
{
    return t->kind == TERM_CLASS && t->type->kind == CR_STYPE_ENUM;
}

cr_svalue *compile_as_value(compiler *c, term *t, cr_srange range)
{
    if (t->kind == TERM_FUNCTION) {
        cr_sconstant f = {.type = cr_stype_function(c->unit, t->function),
                          .function = t->function};
        return compile_constant(c, &f, range);
    }
    if (t->kind == TERM_ITEMS) {
        cr_svalue **item = CR_NEW_N(c->s, cr_svalue *, t->count + 1);
        for (int i = 0; i < t->count; i++)
            item[i] = compile_as_value(c, t->items[i], range);
        return compile_tuple_of(c, t->count, item, range);
    }
    if (t->kind != TERM_VALUE)
        cr_srange_bail(c->s, CR_RUNTIME, range, "%s cannot be used as a value",
                       term_is_enum(t)            ? "EnumClass"
                       : t->kind == TERM_PATH     ? "module"
                       : t->kind == TERM_OPERATOR ? "builtin"
                       : t->kind == TERM_METHOD   ? "method"
                       : t->kind == TERM_CLASS    ? "class"
                       : t->kind == TERM_PYTHON   ? "python value"
                                                  : "function");
    return t->value;
}

cr_svalue *compile_value(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    compile_note(c, a->range);
    return compile_as_value(c, compile_term(c, a, hint), a->range);
}

/* --- literals --- */

static CR_NORETURN void number_wrong(compiler *c, const cr_sast *a)
{
    cr_srange_bail(c->s, CR_RUNTIME, a->range, "invalid numeric constant %s", a->text);
}

/* The text without the underscores of 1_000. */
static char *number_digits(compiler *c, const cr_sast *a)
{
    char *digits = cr_session_text(c->s, a->text), *to = digits;

    for (const char *from = digits; *from; from++)
        if (*from != '_')
            *to++ = *from;
    *to = '\0';
    return digits;
}

static bool number_is_float(const char *digits)
{
    if (digits[0] == '0' && strchr("xXoObB", digits[1]) && digits[1])
        return false;
    return strpbrk(digits, ".eE") != NULL;
}

static cr_svalue *compile_number(compiler *c, const cr_sast *a)
{
    char *digits = number_digits(c, a), *end;
    size_t n = strlen(digits);
    cr_sconstant value = {.type = CR_STYPE_OF(FLOAT)};

    if (n > 1 && (digits[n - 1] | 32) == 'j' && (digits[1] | 32) != 'x') {
        value.type = CR_STYPE_OF(COMPLEX);
        value.d[0] = 0;
        value.d[1] = strtod(digits, &end);
        if (end != digits + n - 1)
            number_wrong(c, a);
    } else if (number_is_float(digits)) {
        value.d[0] = strtod(digits, &end);
        if (*end)
            number_wrong(c, a);
    } else {
        bool two = digits[0] == '0' && (digits[1] | 32) == 'b';
        bool eight = digits[0] == '0' && (digits[1] | 32) == 'o';
        errno = 0;
        value.type = CR_STYPE_OF(INT);
        value.i = strtoll(two || eight ? digits + 2 : digits, &end,
                          two                       ? 2
                          : eight                   ? 8
                          : (digits[1] | 32) == 'x' ? 16
                                                    : 10);
        if (errno == ERANGE && !*end)
            cr_srange_bail(
                c->s, CR_RUNTIME, a->range,
                "Integral constant out of range (must fit in a signed 64 bit integer)");
        if (*end || errno)
            number_wrong(c, a);
    }
    return constant_literal(c, &value, a->range);
}

const cr_stype *compile_display_hint(compiler *c, const cr_stype *hint, cr_stype_kind kind,
                                     cr_srange range)
{
    const char *name = kind == CR_STYPE_LIST ? "List" : "Dict";
    const cr_stype *found = NULL;
    int n = 0;

    if (hint && hint->kind == CR_STYPE_OPTIONAL)
        hint = hint->item[0];
    for (int i = 0; hint && hint->kind == CR_STYPE_UNION && i < hint->count; i++)
        if (hint->item[i]->kind == (uint8_t)kind) {
            found = hint->item[i];
            n++;
        }
    if (hint && hint->kind == CR_STYPE_UNION && !n && c->env && kind != CR_STYPE_TUPLE)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "Expected an Union type annotation with an inner %s type, but got %s",
                       name, cr_stype_annotation(hint));
    if (n)
        return n == 1 ? found : NULL;
    if (hint && hint->kind == (uint8_t)kind)
        return hint;
    if (hint && c->env && kind != CR_STYPE_TUPLE && hint->kind != CR_STYPE_ANY &&
        hint->kind != CR_STYPE_UNION)
        cr_srange_bail(c->s, CR_RUNTIME, range, "Expected an annotation of type %s but got %s",
                       name, cr_stype_annotation(hint));
    return NULL;
}

int compile_display_members(const cr_stype *hint, cr_stype_kind kind)
{
    int n = 0;

    for (int i = 0; hint && hint->kind == CR_STYPE_UNION && i < hint->count; i++)
        n += hint->item[i]->kind == (uint8_t)kind;
    return n;
}

static CR_NORETURN void display_refuse(compiler *c, const cr_stype *hint, cr_stype_kind kind,
                                       const cr_stype *found, cr_srange range)
{
    bool list = kind == CR_STYPE_LIST;
    cr_text text = {0};

    cr_text_printf(&text, "Union type annotation `%s` can hold ", cr_stype_annotation(hint));
    for (int i = 0, n = 0; i < hint->count; i++)
        if (hint->item[i]->kind == (uint8_t)kind)
            cr_text_printf(&text, "%s%s", n++ ? " or " : "",
                           cr_stype_annotation(hint->item[i]));
    cr_text_printf(&text,
                   list ? ", but none of those types match the types of the given list "
                          "elements, which were unified to %s"
                        : ", but none of those dict types can hold the types of the given keys "
                          "and values, which were unified to %s",
                   cr_stype_annotation(found));
    int n = (int)text.len - !list; /* torch's text of a dict lacks the last bracket */
    char *kept = cr_session_take_text(c->s, &text);
    cr_srange_bail(c->s, CR_RUNTIME, range, "%.*s", n, kept);
}

/* The member of an annotation with several lists or dicts that a display of type `found` has;
 * `found` NULL: it is empty. */
static const cr_stype *display_member(compiler *c, const cr_stype *hint, cr_stype_kind kind,
                                      const cr_stype *found, cr_srange range)
{
    const char *name = kind == CR_STYPE_LIST ? "list" : "dict";

    if (!c->env || compile_display_members(hint, kind) < 2)
        return found;
    if (!found)
        cr_srange_bail(
            c->s, CR_RUNTIME, range,
            "Cannot assign an empty %s to a variable annotated to be type %s because "
            "there are multiple possible %s type candidates in the Union annotation",
            name, cr_stype_annotation(hint), kind == CR_STYPE_LIST ? "List" : "Dict");
    for (int i = 0; i < hint->count; i++)
        if (cr_stype_equal(hint->item[i], found))
            return found;
    display_refuse(c, hint, kind, kind == CR_STYPE_LIST ? found->item[0] : found, range);
}

/* A display has the type of its annotation, of which its own is a member. */
cr_svalue *compile_display_cast(compiler *c, cr_svalue *made, const cr_stype *hint,
                                cr_srange range)
{
    if (!c->env || !hint || (hint->kind != CR_STYPE_OPTIONAL && hint->kind != CR_STYPE_UNION) ||
        !cr_stype_is_subtype(made->type, hint))
        return made;
    return compile_construct(c, CR_SPRIM_UNCHECKED_CAST, hint, 1, &made, range);
}

/* Values of the items; a starred tuple gives several. */
static void compile_items(compiler *c, const cr_sast *a, const cr_stype *list, arguments *out)
{
    for (int i = 0; i < a->count; i++) {
        const cr_sast *item = a->at[i];
        const cr_stype *hint = !list                         ? NULL
                               : list->kind == CR_STYPE_LIST ? list->item[0]
                               : i < list->count             ? list->item[i]
                                                             : NULL;
        if (item->kind == CR_SAST_STAR)
            cr_srange_bail(c->s, CR_RUNTIME, item->range,
                           "Starred expressions can only be used on the lhs of an assignment");
        cr_svalue *v = compile_value(c, item, hint);
        CR_PUSH(c->s, out, ((argument){.value = v, .range = item->range}));
    }
}

cr_svalue **compile_item_values(compiler *c, const arguments *args)
{
    cr_svalue **v = CR_NEW_N(c->s, cr_svalue *, args->len + 1);

    for (size_t i = 0; i < args->len; i++)
        v[i] = args->at[i].value;
    return v;
}

/* The type that an item of `type` and those before, of `joined`, have. */
static const cr_stype *unified(compiler *c, const cr_stype *joined, const cr_stype *type)
{
    const cr_stype *both = joined ? cr_stype_join(c->unit, joined, type) : type;

    return both ? both : cr_stype_union(c->unit, 2, (const cr_stype *[]){joined, type});
}

static const cr_stype *unified_items(compiler *c, const arguments *items)
{
    const cr_stype *t = NULL;

    for (size_t i = 0; i < items->len; i++)
        t = unified(c, t, items->at[i].value->type);
    return t;
}

/* Converts the items to those of the annotation. */
static void list_convert(compiler *c, arguments *items, const cr_stype *list, cr_srange range)
{
    const cr_stype *item = list->item[0];
    bool fits = true;

    for (size_t i = 0; i < items->len; i++) {
        argument *one = &items->at[i];
        cr_svalue *v = compile_convert(c, one->value, item, false, one->range);
        fits &= cr_stype_is_subtype(v->type, item);
        one->value = fits ? v : one->value;
    }
    if (!fits)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "List type annotation `%s` did not match the types of the given list "
                       "elements, which were unified to %s",
                       cr_stype_annotation(list), cr_stype_annotation(unified_items(c, items)));
}

static cr_svalue *compile_list(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    const cr_stype *list = compile_display_hint(c, hint, CR_STYPE_LIST, a->range);
    arguments items = {0};

    compile_items(c, a, list, &items);
    if (list)
        list_convert(c, &items, list, a->range);
    const cr_stype *item = list ? list->item[0] : unified_items(c, &items);
    if (!list)
        display_member(c, hint, CR_STYPE_LIST, item ? cr_stype_list(c->unit, item) : NULL,
                       a->range);
    item = item ? item : CR_STYPE_OF(TENSOR);
    item = !list && item->kind == CR_STYPE_TENSOR ? CR_STYPE_OF(TENSOR) : item;
    cr_svalue *made = compile_construct(
        c, CR_SPRIM_LIST_CONSTRUCT, list ? list : cr_stype_list(c->unit, item), (int)items.len,
        compile_item_values(c, &items), a->range);
    made->by->widens = !list && !items.len;
    return compile_display_cast(c, made, hint, a->range);
}

static cr_svalue *compile_tuple(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    arguments items = {0};

    compile_items(c, a, compile_display_hint(c, hint, CR_STYPE_TUPLE, a->range), &items);
    return compile_tuple_of(c, (int)items.len, compile_item_values(c, &items), a->range);
}

/* Converts the keys (first 0) or values (1) of a dict to the annotation's. */
static void dict_convert(compiler *c, cr_svalue **v, const cr_sast *a, const cr_stype *dict,
                         int first)
{
    const cr_stype *want = dict->item[first], *found = NULL;
    bool fits = true;

    for (int i = first; i < a->count; i += 2) {
        found = unified(c, found, v[i]->type);
        v[i] = compile_convert(c, v[i], want, false, a->range);
        fits &= cr_stype_is_subtype(v[i]->type, want);
    }
    if (!fits)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       first
                           ? "Type annotation was inferred to be `%s`, but the type of values "
                             "given by the dict literal is %s"
                           : "Type annotation was inferred to be %sbut the type of keys given "
                             "by the dict literal is %s",
                       cr_stype_annotation(dict), cr_stype_annotation(found));
}

/* The type of a dict without an annotation: keys have one type. */
static const cr_stype *dict_type(compiler *c, cr_svalue *const *v, const cr_sast *a)
{
    const cr_stype *key = a->count ? v[0]->type : CR_STYPE_OF(STR), *value = NULL;

    for (int i = 0; i < a->count; i += 2) {
        if (!cr_stype_is_subtype(v[i]->type, key))
            cr_srange_bail(c->s, CR_RUNTIME, a->at[i]->range,
                           "Dict keys must contain only a single type. Expected: %s but found "
                           "%s instead",
                           cr_stype_annotation(key), cr_stype_annotation(v[i]->type));
        value = unified(c, value, v[i + 1]->type);
    }
    return compile_dict_type(c, key, value ? value : CR_STYPE_OF(TENSOR));
}

static cr_svalue *compile_dict(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    const cr_stype *dict = compile_display_hint(c, hint, CR_STYPE_DICT, a->range);
    cr_svalue **v = CR_NEW_N(c->s, cr_svalue *, a->count + 1);

    for (int i = 0; i < a->count; i++) {
        if (!a->at[i])
            define_refuse(c, "NotSupportedError",
                          (cr_srange){a->range.source, a->range.start, a->range.start + 1},
                          "Dict expansion (e.g. `{**dict}`) is not supported");
        v[i] = compile_value(c, a->at[i], dict ? dict->item[i % 2] : NULL);
    }
    for (int first = 0; dict && first < 2; first++)
        dict_convert(c, v, a, dict, first);
    if (!dict && !a->count)
        display_member(c, hint, CR_STYPE_DICT, NULL, a->range);
    if (!dict)
        dict = display_member(c, hint, CR_STYPE_DICT, dict_type(c, v, a), a->range);
    return compile_display_cast(
        c, compile_construct(c, CR_SPRIM_DICT_CONSTRUCT, dict, a->count, v, a->range), hint,
        a->range);
}

/* --- operators --- */

/* An operator's sign, the operator of values, and the method of objects. */
typedef struct {
    const char *sign, *name, *method;
} binary_operator;

static const binary_operator *binary_of(const char *sign)
{
    static const binary_operator all[] = {{"+", "aten::add", "__add__"},
                                          {"-", "aten::sub", "__sub__"},
                                          {"*", "aten::mul", "__mul__"},
                                          {"/", "aten::div", "__truediv__"},
                                          {"//", "aten::floordiv", "__floordiv__"},
                                          {"%", "aten::remainder", "__mod__"},
                                          {"**", "aten::pow", "__pow__"},
                                          {"@", "aten::matmul", "__matmul__"},
                                          {"&", "aten::__and__", "__and__"},
                                          {"|", "aten::__or__", "__or__"},
                                          {"^", "aten::__xor__", "__xor__"},
                                          {"<<", "aten::__lshift__", "__lshift__"},
                                          {">>", "aten::__rshift__", "__rshift__"},
                                          {"==", "aten::eq", "__eq__"},
                                          {"!=", "aten::ne", "__ne__"},
                                          {"<", "aten::lt", "__lt__"},
                                          {"<=", "aten::le", "__le__"},
                                          {">", "aten::gt", "__gt__"},
                                          {">=", "aten::ge", "__ge__"},
                                          {"is", "aten::__is__", NULL},
                                          {"is not", "aten::__isnot__", NULL}};

    for (size_t i = 0; i < CR_LEN(all); i++)
        if (!strcmp(all[i].sign, sign))
            return &all[i];
    return NULL;
}

/* text.find(part, 0, len(text)) != -1 */
static cr_svalue *contains_text(compiler *c, cr_svalue *text, cr_svalue *part, cr_srange range)
{
    cr_svalue *zero = compile_int(c, 0, range), *minus = compile_int(c, -1, range);
    cr_svalue *len = compile_one(c, "aten::len", range, 1, &text);
    cr_svalue *at =
        compile_one(c, "aten::find", range, 4, (cr_svalue *[]){text, part, zero, len});

    return compile_one(c, "aten::ne", range, 2, (cr_svalue *[]){at, minus});
}

/* "name" in modules, which is known; NULL for others. */
static cr_svalue *contains_module(compiler *c, cr_svalue *self, const cr_svalue *item,
                                  cr_srange range)
{
    const cr_sconstant *key = cr_svalue_constant(item), *name;
    term *t;
    bool found = false;

    if (!c->env || self->type->kind != CR_STYPE_CLASS || !self->type->cls->is_module || !key ||
        key->type->kind != CR_STYPE_STR ||
        compile_method(c, self->type->cls, "__contains__", range))
        return NULL;
    t = define_member(c, self, self->type->cls, "keys", range);
    for (int i = 0; t && t->kind == TERM_ITEMS && i < t->count; i++) {
        name = cr_svalue_constant(t->items[i]->value);
        found |= name && !strcmp(name->s, key->s);
    }
    return t && t->kind == TERM_ITEMS ? compile_bool(c, found, range) : NULL;
}

static cr_svalue *compile_contains(compiler *c, const cr_sast *a)
{
    cr_svalue *item = compile_value(c, a->at[0], NULL);
    cr_svalue *both[] = {compile_value(c, a->at[1], NULL), item}, *found;

    found = contains_module(c, both[0], item, a->range);
    found = found ? found
            : both[0]->type->kind == CR_STYPE_CLASS
                ? compile_magic(c, "__contains__", both[0], 1, &item, a->range)
            : c->env && both[0]->type->kind == CR_STYPE_STR && item->type->kind == CR_STYPE_STR
                ? contains_text(c, both[0], item, a->range)
                : compile_one(c, "aten::__contains__", a->range, 2, both);
    return *a->text == 'n' ? compile_one(c, "aten::__not__", a->range, 1, &found) : found;
}

static bool type_is_number(const cr_stype *t)
{
    return t->kind == CR_STYPE_INT || t->kind == CR_STYPE_FLOAT || t->kind == CR_STYPE_COMPLEX;
}

/* A number before a tensor: the tensor comes first.  NULL: the operator takes both as they
 * are. */
static cr_svalue *compile_swapped(compiler *c, const char *name, cr_svalue *const *both,
                                  cr_srange range)
{
    static const struct {
        const char *name, *before, *call;
    } rules[] = {
        {"aten::add", NULL, "aten::add"}, {"aten::sub", "aten::neg", "aten::add"},
        {"aten::mul", NULL, "aten::mul"}, {"aten::div", "aten::reciprocal", "aten::mul"},
        {"aten::eq", NULL, "aten::eq"},   {"aten::ne", NULL, "aten::ne"},
        {"aten::lt", NULL, "aten::gt"},   {"aten::le", NULL, "aten::ge"},
        {"aten::gt", NULL, "aten::lt"},   {"aten::ge", NULL, "aten::le"}};
    cr_svalue *arg[2] = {both[1], both[0]};

    for (size_t i = 0; i < CR_LEN(rules); i++) {
        if (strcmp(rules[i].name, name))
            continue;
        if (rules[i].before)
            arg[0] = compile_one(c, rules[i].before, range, 1, arg);
        return compile_one(c, rules[i].call, range, 2, arg);
    }
    return NULL;
}

/* A tuple with the items of both. */
static cr_svalue *compile_joined(compiler *c, cr_svalue *const *both, cr_srange range)
{
    int count = both[0]->type->count + both[1]->type->count, n = 0;
    cr_svalue **item = CR_NEW_N(c->s, cr_svalue *, count + 1);

    for (int i = 0; i < 2; i++) {
        cr_snode *unpack = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, range);
        cr_snode_input(unpack, both[i]);
        for (int k = 0; k < both[i]->type->count; k++)
            item[n++] = cr_snode_output(unpack, NULL, both[i]->type->item[k]);
    }
    return compile_tuple_of(c, count, item, range);
}

static cr_svalue *compile_binary(compiler *c, const cr_sast *a)
{
    const binary_operator *operator= binary_of(a->text);
    const char *name = operator? operator->name : NULL;
    cr_svalue *both[2];

    if (!strncmp(a->text, "is", 2))
        return compile_condition(c, a)->value;
    if (!name)
        return compile_contains(c, a);
    both[0] = compile_value(c, a->at[0], NULL);
    both[1] = compile_value(c, a->at[1], NULL);
    if (both[0]->type->kind == CR_STYPE_CLASS && operator->method)
        return compile_magic(c, operator->method, both[0], 1, &both[1], a->range);
    if (*a->text == '+' && both[0]->type->kind == CR_STYPE_TUPLE &&
        both[1]->type->kind == CR_STYPE_TUPLE)
        return compile_joined(c, both, a->range);
    if (!strcmp(a->text, "%") && both[0]->type->kind == CR_STYPE_STR)
        name = "aten::percentFormat";
    if (c->env && type_is_number(both[0]->type) && both[1]->type->kind == CR_STYPE_TENSOR) {
        cr_svalue *swapped = compile_swapped(c, name, both, a->range);
        if (swapped)
            return swapped;
    }
    if (!strcmp(name, "aten::floordiv") && both[0]->type->kind == CR_STYPE_TENSOR)
        name = "aten::floor_divide";
    return compile_one(c, name, a->range, 2, both);
}

/* A negative literal is a constant. */
bool compile_is_least_int(const cr_sast *a)
{
    return a->kind == CR_SAST_UNARY && *a->text == '-' && a->at[0]->kind == CR_SAST_NUMBER &&
           !strcmp(a->at[0]->text, "9223372036854775808");
}

static cr_svalue *compile_unary(compiler *c, const cr_sast *a)
{
    cr_svalue *v;

    if (!strcmp(a->text, "not"))
        return compile_condition(c, a)->value;
    if (!c->env && compile_is_least_int(a)) /* torch has it in archives only */
        return compile_int(c, INT64_MIN, a->range);
    v = compile_value(c, a->at[0], NULL);
    if (v->type->kind == CR_STYPE_CLASS)
        return compile_magic(c,
                             *a->text == '-'   ? "__neg__"
                             : *a->text == '+' ? "__pos__"
                                               : "__invert__",
                             v, 0, NULL, a->range);
    if (*a->text == '+')
        return v;
    if (*a->text == '-' && v->by && v->by->prim == CR_SPRIM_CONSTANT) {
        cr_sconstant value = *v->by->value;
        if (value.type->kind == CR_STYPE_INT && value.i != INT64_MIN) {
            value.i = -value.i;
            return compile_constant(c, &value, a->range);
        }
        if (value.type->kind == CR_STYPE_FLOAT || value.type->kind == CR_STYPE_COMPLEX) {
            value.d[0] =
                value.type->kind == CR_STYPE_COMPLEX && value.d[0] == 0 ? 0 : -value.d[0];
            value.d[1] = -value.d[1];
            return compile_constant(c, &value, a->range);
        }
    }
    return compile_one(c, *a->text == '-' ? "aten::neg" : "aten::bitwise_not", a->range, 1, &v);
}

/* The truth of a value: numbers, tensors, containers and objects have one. */
static cr_svalue *truth_of(compiler *c, cr_svalue *v, cr_srange range)
{
    cr_svalue *both[2];

    switch (v->type->kind) {
    case CR_STYPE_BOOL: return v;
    case CR_STYPE_CLASS:
        v = compile_magic(c, "__bool__", v, 0, NULL, range);
        if (v->type->kind != CR_STYPE_BOOL)
            cr_srange_bail(c->s, CR_RUNTIME, range,
                           "expected a bool expression for condition but found %s",
                           cr_stype_annotation(v->type));
        return v;
    case CR_STYPE_TENSOR:
    case CR_STYPE_INT:
    case CR_STYPE_FLOAT: return compile_one(c, "aten::Bool", range, 1, &v);
    case CR_STYPE_LIST:
    case CR_STYPE_DICT:
    case CR_STYPE_STR:
        both[0] = compile_one(c, "aten::len", range, 1, &v);
        both[1] = compile_int(c, 0, range);
        return compile_one(c, "aten::gt", range, 2, both);
    default:
        cr_srange_bail(c->s, CR_RUNTIME, range, "Could not cast value of type %s to bool",
                       cr_stype_annotation(v->type));
    }
}

cr_svalue *compile_truth(compiler *c, const cr_sast *a)
{
    bool is_condition = a->kind == CR_SAST_BOOLEAN ||
                        (a->kind == CR_SAST_UNARY && !strcmp(a->text, "not")) ||
                        (a->kind == CR_SAST_BINARY && !strncmp(a->text, "is", 2));
    cr_svalue *v = is_condition ? compile_condition(c, a)->value : compile_value(c, a, NULL);

    return truth_of(c, v, a->range);
}

/* --- a if b else c --- */

static changes choice_branch(compiler *c, cr_snode *n, const facts *known, const cr_sast *a,
                             const cr_stype *hint)
{
    cr_sblock *outer = c->block;
    size_t mark = c->log.len;

    c->block = cr_snode_block(n);
    c->depth++;
    compile_assume(c, known, a->range);
    cr_sblock_output(c->block, compile_value(c, a, hint));
    c->depth--;
    c->block = outer;
    return compile_branch_leave(c, mark);
}

static cr_svalue *compile_choice(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    condition *k = compile_condition(c, a->at[0]);
    const cr_stype *left, *right, *joined;
    size_t mark = c->log.len;
    changes yes, no;
    cr_svalue *v;
    cr_snode *n;

    if (c->env && k->known >= 0) {
        compile_assume(c, k->known ? k->yes : k->no, a->range);
        v = compile_value(c, a->at[k->known ? 1 : 2], hint);
        compile_undo(c, mark);
        return v;
    }
    n = cr_snode_new(c->block, CR_SPRIM_IF, a->range);
    cr_snode_input(n, k->value);
    yes = choice_branch(c, n, k->yes, a->at[1], hint);
    no = choice_branch(c, n, k->no, a->at[2], hint);
    left = n->block[0]->output[0]->type;
    right = n->block[1]->output[0]->type;
    joined = cr_stype_join(c->unit, left, right);
    if (!joined)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "if-expression's true branch has type %s but false branch has type %s",
                       cr_stype_annotation(left), cr_stype_annotation(right));
    v = cr_snode_output(n, NULL, joined);
    compile_branches_join(c, n, &yes, &no);
    return v;
}

/* --- attributes --- */

static term *term_method(compiler *c, cr_sfunction *f, cr_svalue *self)
{
    term *t = CR_NEW(c->s, term);

    *t = (term){.kind = TERM_METHOD, .function = f, .self = self};
    return t;
}

static term *term_named(compiler *c, term_kind kind, const char *name)
{
    term *t = CR_NEW(c->s, term);

    t->kind = (uint8_t)kind;
    t->name = name;
    return t;
}

/* The operator behind a property of a tensor or a device, x.dtype: prim::dtype(Tensor a). */
static const char *property_name(compiler *c, const cr_stype *type, const char *name)
{
    /* attributes of tensors that are operators: archives call these */
    static const struct {
        const char *name, *operator;
    } attributes[] = {{"shape", "aten::size"},
                      {"T", "aten::numpy_T"},
                      {"H", "aten::matrix_H"},
                      {"mT", "aten::mT"},
                      {"mH", "aten::mH"},
                      {"real", "aten::real"},
                      {"imag", "aten::imag"},
                      {"is_leaf", "aten::is_leaf"},
                      {"retains_grad", "aten::retains_grad"},
                      {"ndim", "aten::dim"}};
    const char *full = cr_session_printf(c->s, "prim::%s", name);
    const cr_sschemas *all;

    for (size_t i = 0; type->kind == CR_STYPE_TENSOR && i < CR_LEN(attributes); i++)
        if (!strcmp(name, attributes[i].name) && (c->env || !i))
            return attributes[i].operator;
    cr_session_check(c->s, cr_soperators(&all, full));
    for (size_t i = 0; i < all->len; i++)
        if (all->at[i]->param_count == 1 && cr_stype_equal(all->at[i]->param[0].type, type))
            return full;
    return NULL;
}

/* A function of a class without self; or NULL. */
static term *class_function(compiler *c, const cr_sclass *cls, const char *name)
{
    cr_sfunction *f =
        cr_sunit_function(c->unit, cr_session_printf(c->s, "%s.%s", cls->name, name));
    term *t;

    if (!f && c->env)
        f = define_static(c, cls, name);
    if (!f || f->owner)
        return NULL;
    t = term_named(c, TERM_FUNCTION, name);
    t->function = f;
    return t;
}

static CR_NORETURN void object_lacks(compiler *c, const cr_svalue *v, const char *name,
                                     cr_srange range)
{
    const cr_sclass *cls = v->type->cls;

    if (cls->is_module && v->type->kind == CR_STYPE_CLASS)
        cr_srange_bail(c->s, CR_RUNTIME, range, "Module '%s' has no attribute '%s' ",
                       strrchr(cls->name, '.') ? strrchr(cls->name, '.') + 1 : cls->name, name);
    cr_srange_bail(c->s, CR_RUNTIME, range, "'%s' object has no attribute or method '%s'.%s",
                   cr_stype_annotation(v->type), name,
                   v->type->kind == CR_STYPE_CLASS
                       ? " Did you forget to initialize an attribute in __init__()?"
                       : "");
}

static term *object_attribute(compiler *c, cr_svalue *v, const char *name, cr_srange range)
{
    cr_sclass *cls = v->type->cls;
    int slot = cr_sclass_attribute(cls, name);
    cr_sfunction *f = cr_sclass_method(cls, name);
    const cr_sconstant *value = cr_sclass_constant_value(cls, name);
    cr_snode *n;

    if (v->type->kind == CR_STYPE_TUPLE && slot >= 0)
        return compile_term_value(
            c, compile_construct(c, CR_SPRIM_TUPLE_INDEX, cls->attributes.at[slot].type, 2,
                                 (cr_svalue *[]){v, compile_int(c, slot, range)}, range));
    if (slot >= 0) {
        n = cr_snode_new(c->block, CR_SPRIM_GET_ATTR, range);
        n->name = cls->attributes.at[slot].name;
        cr_snode_input(n, v);
        return compile_term_value(c, cr_snode_output(n, name, cls->attributes.at[slot].type));
    }
    if (f)
        return term_method(c, f, v);
    if (value)
        return compile_term_value(c, compile_constant(c, value, range));
    term *member = define_member(c, v, cls, name, range);
    if (member)
        return member;
    if (c->env &&
        (f = compile_method(c, cls, cr_session_printf(c->s, "__%s_getter", name), range)))
        return compile_term_value(c, compile_call(c, f, v, &(arguments){0}, range));
    if ((member = class_function(c, cls, name)))
        return member;
    object_lacks(c, v, name, range);
}

/* The dtype that a method like long() casts to. */
static cr_dtype cast_dtype(const char *name)
{
    static const struct {
        const char *name;
        cr_dtype dtype;
    } casts[] = {{"long", CR_I64},  {"int", CR_I32},      {"short", CR_I16}, {"char", CR_I8},
                 {"byte", CR_U8},   {"float", CR_F32},    {"half", CR_F16},  {"double", CR_F64},
                 {"bool", CR_BOOL}, {"bfloat16", CR_BF16}};

    for (size_t i = 0; i < CR_LEN(casts); i++)
        if (!strcmp(casts[i].name, name))
            return casts[i].dtype;
    return CR_DTYPE_NONE;
}

/* The name or the value of a member of an enum; those of a known member are constants. */
static cr_svalue *enum_part(compiler *c, cr_svalue *v, bool is_name, cr_srange range)
{
    const cr_sconstant *member = cr_svalue_constant(v);
    const cr_sclass *cls = v->type->cls;

    if (c->env && member && is_name)
        return compile_string(c, member->s, member->len, range);
    if (c->env && member)
        return compile_constant(c, cr_sclass_constant_value(cls, member->s), range);
    return compile_construct(c, is_name ? CR_SPRIM_ENUM_NAME : CR_SPRIM_ENUM_VALUE,
                             is_name ? CR_STYPE_OF(STR) : cls->base, 1, &v, range);
}

/* Whether a schema has a parameter `self` that takes the value. */
static bool method_takes(compiler *c, const cr_sschemas *all, const cr_svalue *v)
{
    for (size_t i = 0; i < all->len; i++)
        for (int k = 0; k < all->at[i]->param_count; k++)
            if (!strcmp(all->at[i]->param[k].name, "self") &&
                compile_takes(c, all->at[i]->param[k].type, v->type))
                return true;
    return false;
}

static term *value_attribute(compiler *c, cr_svalue *v, const char *name, cr_srange range)
{
    const cr_sschemas *all;
    const char *property;
    term *t;

    if (v->type->kind == CR_STYPE_NEVER)
        return compile_term_value(c, v);
    if (v->type->kind == CR_STYPE_CLASS || v->type->kind == CR_STYPE_INTERFACE ||
        (v->type->kind == CR_STYPE_TUPLE && v->type->cls))
        return object_attribute(c, v, name, range);
    if (v->type->kind == CR_STYPE_ENUM && (!strcmp(name, "name") || !strcmp(name, "value")))
        return compile_term_value(c, enum_part(c, v, *name == 'n', range));
    for (int i = 0; v->type->kind == CR_STYPE_TUPLE && i < v->type->count; i++)
        if (cr_stype_field(v->type, i) && !strcmp(cr_stype_field(v->type, i), name))
            return compile_term_value(
                c, compile_construct(c, CR_SPRIM_TUPLE_INDEX, v->type->item[i], 2,
                                     (cr_svalue *[]){v, compile_int(c, i, range)}, range));
    property = property_name(c, v->type, name);
    if (property)
        return compile_term_value(c, compile_one(c, property, range, 1, &v));
    t = term_named(c, TERM_OPERATOR, cr_session_printf(c->s, "aten::%s", name));
    t->self = v;
    t->dtype = cast_dtype(name);
    t->casts = v->type->kind == CR_STYPE_TENSOR && t->dtype != CR_DTYPE_NONE;
    if (t->casts)
        return t;
    cr_session_check(c->s, cr_soperators(&all, t->name));
    if ((!all->len && !import_operator(c, t->name, false, 0)) ||
        (c->env && all->len && !method_takes(c, all, v)))
        cr_srange_bail(c->s, CR_RUNTIME, range, "'%s' object has no attribute or method '%s'.",
                       cr_stype_annotation(v->type), name);
    return t;
}

static term *enum_member(compiler *c, const cr_stype *type, const cr_sast *a)
{
    cr_sconstant value = cr_sclass_member(type->cls, a->text);

    if (value.s)
        return compile_term_value(c, compile_constant(c, &value, a->range));
    cr_srange_bail(c->s, CR_RUNTIME, a->range, "Enum<%s>' has no attribute '%s'",
                   type->cls->name, a->text);
}

static term *compile_attribute(compiler *c, const cr_sast *a)
{
    term *t = compile_term(c, a->at[0], NULL);

    if (t->kind == TERM_PYTHON)
        return define_attribute(c, t, a->text, a->range);
    if (t->kind == TERM_PATH)
        return import_path(c, cr_session_printf(c->s, "%s.%s", t->name, a->text), a->range);
    if (t->kind == TERM_CLASS && t->type->kind == CR_STYPE_ENUM)
        return enum_member(c, t->type, a);
    if (t->kind == TERM_CLASS && t->type->kind == CR_STYPE_CLASS &&
        class_function(c, t->type->cls, a->text))
        return class_function(c, t->type->cls, a->text);
    if (t->kind == TERM_CLASS && t->type->kind == CR_STYPE_CLASS &&
        compile_method(c, t->type->cls, a->text, a->range)) {
        term *method = term_named(c, TERM_FUNCTION, a->text);
        method->function = compile_method(c, t->type->cls, a->text, a->range);
        return method;
    }
    if (t->kind == TERM_CLASS && t->type->kind == CR_STYPE_CLASS &&
        !strcmp(a->text, "__new__")) {
        term *made = term_named(c, TERM_SPECIAL, a->text);
        made->type = t->type;
        return made;
    }
    return value_attribute(c, compile_as_value(c, t, a->at[0]->range), a->text, a->range);
}

/* --- calls --- */

/* *t: the items of a tuple. */
static void arguments_unpack(compiler *c, const cr_sast *star, arguments *out)
{
    cr_svalue *v = compile_value(c, star->at[0], NULL);
    cr_snode *n;

    if (v->type->kind != CR_STYPE_TUPLE)
        cr_srange_bail(c->s, CR_RUNTIME, star->range,
                       "cannot statically infer the expected size of a list in this context");
    n = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, star->range);
    cr_snode_input(n, v);
    for (int i = 0; i < v->type->count; i++)
        CR_PUSH(c->s, out,
                ((argument){.value = cr_snode_output(n, NULL, v->type->item[i]),
                            .range = star->range}));
}

static void compile_arguments(compiler *c, const cr_sast *a, int from, arguments *out)
{
    for (int i = from; i < a->count; i++) {
        const cr_sast *item = a->at[i];
        bool named = item->kind == CR_SAST_KEYWORD;
        if (item->kind == CR_SAST_STARSTAR)
            define_refuse(c, "NotSupportedError", item->at[0]->range,
                          "keyword-arg expansion is not supported");
        if (item->kind == CR_SAST_STAR) {
            arguments_unpack(c, item, out);
            continue;
        }
        if (!named && out->len && out->at[out->len - 1].name)
            cr_srange_bail(c->s, CR_RUNTIME, item->range,
                           "positional argument follows keyword argument");
        cr_svalue *v = compile_value(c, named ? item->at[0] : item, NULL);
        CR_PUSH(
            c->s, out,
            ((argument){.name = named ? item->text : NULL, .value = v, .range = item->range}));
    }
}

static void want_arguments(compiler *c, const cr_sast *a, int n)
{
    if (a->count - 1 != n)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "%s expected %d arguments but got %d",
                       a->at[0]->text ? a->at[0]->text : "the call", n, a->count - 1);
}

static cr_svalue *special_annotate(compiler *c, const cr_sast *a)
{
    const cr_stype *type;
    cr_svalue *v;

    want_arguments(c, a, 2);
    type = compile_type(c, a->at[1]);
    v = compile_convert(c, compile_value(c, a->at[2], type), type, true, a->range);
    if (!cr_stype_is_subtype(v->type, type))
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "expected an expression of type %s but found %s",
                       cr_stype_annotation(type), cr_stype_annotation(v->type));
    /* None of a type T? is that type from here on. */
    if (v->type->kind == CR_STYPE_NONE && type->kind != CR_STYPE_NONE) {
        v = compile_none(c, a->range);
        v->type = type;
    }
    return v;
}

static cr_svalue *special_cast(compiler *c, const cr_sast *a)
{
    const cr_stype *type;
    cr_svalue *v;

    want_arguments(c, a, 2);
    type = compile_type(c, a->at[1]);
    v = compile_value(c, a->at[2], type);
    return compile_construct(c, CR_SPRIM_UNCHECKED_CAST, type, 1, &v, a->range);
}

static cr_svalue *special_uninitialized(compiler *c, const cr_sast *a)
{
    want_arguments(c, a, 1);
    return compile_construct(c, CR_SPRIM_UNINITIALIZED, compile_type(c, a->at[1]), 0, NULL,
                             a->range);
}

bool compile_has(compiler *c, cr_svalue *v, const char *name, cr_srange range)
{
    cr_sclass *cls = v->type->cls;

    if (v->type->kind != CR_STYPE_CLASS && v->type->kind != CR_STYPE_INTERFACE &&
        !(v->type->kind == CR_STYPE_TUPLE && cls))
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       v->type->kind == CR_STYPE_TUPLE
                           ? "hasattr's first argument must be a object or NamedTuple, but got "
                             "a normal Tuple "
                             "%s instead"
                           : "hasattr's first argument must be an object, got %s",
                       cr_stype_annotation(v->type));
    return cr_sclass_attribute(cls, name) >= 0 || cr_sclass_constant_value(cls, name) ||
           compile_method(c, cls, name, range) ||
           compile_method(c, cls, cr_session_printf(c->s, "__%s_getter", name), range) ||
           class_function(c, cls, name) != NULL;
}

static term *special_getattr(compiler *c, const cr_sast *a)
{
    if (a->count < 3 || a->at[2]->kind != CR_SAST_STRING)
        cr_srange_bail(c->s, CR_RUNTIME, a->count < 3 ? a->range : a->at[2]->range,
                       "getattr's second argument must be a string literal");
    if (a->count == 4) {
        cr_svalue *v = compile_value(c, a->at[1], NULL);
        return compile_has(c, v, a->at[2]->text, a->range)
                   ? value_attribute(c, v, a->at[2]->text, a->range)
                   : compile_term(c, a->at[3], NULL);
    }
    return value_attribute(c, compile_value(c, a->at[1], NULL), a->at[2]->text, a->range);
}

static term *apply_term(compiler *c, term *t, const arguments *args, cr_srange range);

/* fork(f, x): the call is the block of a node, whose result is a future. */
static cr_svalue *special_fork(compiler *c, const cr_sast *a)
{
    term *t = a->count > 1 ? compile_term(c, a->at[1], NULL) : NULL;
    arguments args = {0};
    cr_sblock *outer = c->block;
    cr_snode *n;

    if (!t)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "fork takes a function");
    if (t->kind == TERM_CLOSURE)
        return compile_fork(c, t->ast, a->range);
    compile_arguments(c, a, 2, &args);
    n = cr_snode_new(outer, CR_SPRIM_FORK, a->range);
    c->block = cr_snode_block(n);
    cr_svalue *v = compile_as_value(c, apply_term(c, t, &args, a->range), a->range);
    cr_sblock_output(c->block, v);
    c->block = outer;
    return cr_snode_output(n, NULL, cr_stype_future(c->unit, v->type));
}

/* int(x), float(x), bool(x), str(x): of their own type, x. */
static cr_svalue *special_convert(compiler *c, const cr_sast *a, const char *called,
                                  cr_stype_kind kind, const char *name)
{
    cr_srange range = a->at[0]->range;
    cr_svalue *v;

    want_arguments(c, a, 1);
    v = compile_value(c, a->at[1], NULL);
    if (v->type->kind == CR_STYPE_CLASS && kind != CR_STYPE_STR)
        return compile_magic(c, cr_session_printf(c->s, "__%s__", called), v, 0, NULL, range);
    if (v->type->kind == CR_STYPE_CLASS && compile_method(c, v->type->cls, "__str__", range))
        return compile_magic(c, "__str__", v, 0, NULL, range);
    if (kind == CR_STYPE_BOOL &&
        (v->type->kind == CR_STYPE_LIST || v->type->kind == CR_STYPE_DICT ||
         v->type->kind == CR_STYPE_STR))
        return truth_of(c, v, range);
    return v->type->kind == (uint8_t)kind ? v : compile_one(c, name, range, 1, &v);
}

/* slice(stop), slice(start, stop), slice(start, stop, step) */
static term *special_slice(compiler *c, const cr_sast *a)
{
    term *t = term_named(c, TERM_SLICE, "slice");
    int n = a->count - 1;

    if (n < 1 || n > 3)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "slice expected 1 to 3 arguments, got %d",
                       n);
    t->items = CR_NEW_N(c->s, term *, 3);
    for (int i = 0; i < n; i++) {
        const cr_sast *part = a->at[1 + i];
        if (part->kind == CR_SAST_KEYWORD)
            cr_srange_bail(c->s, CR_RUNTIME, a->at[0]->range,
                           "Slice does not accept any keyword arguments");
        cr_svalue *v = compile_value(c, part, NULL);
        if (v->type->kind != CR_STYPE_NONE)
            t->items[n == 1 ? 1 : i] = compile_term_value(c, v);
    }
    return t;
}

/* x.tolist(): the annotation says how the lists are nested. */
static cr_svalue *special_tolist(compiler *c, cr_svalue *self, const cr_stype *hint,
                                 cr_srange range)
{
    const cr_stype *t = hint;
    int64_t dims = 0, kind;
    cr_svalue *v;

    for (; t && t->kind == CR_STYPE_LIST; t = t->item[0])
        dims++;
    kind = !t                            ? -1
           : t->kind == CR_STYPE_INT     ? 0
           : t->kind == CR_STYPE_FLOAT   ? 1
           : t->kind == CR_STYPE_BOOL    ? 2
           : t->kind == CR_STYPE_COMPLEX ? 3
                                         : -1;
    if (!t)
        cr_srange_bail(c->s, CR_RUNTIME, range, "Expected type hint for result of tolist()");
    if (kind < 0)
        cr_srange_bail(c->s, CR_RUNTIME, range,
                       "%s is not one of the supported element types for tolist: int, float, "
                       "complex, bool",
                       cr_stype_annotation(t));
    v = compile_one(
        c, "prim::tolist", range, 3,
        (cr_svalue *[]){self, compile_int(c, dims, range), compile_int(c, kind, range)});
    v->type = hint;
    return v;
}

/* tuple(x) of a value whose length is known. */
static cr_svalue *special_tuple(compiler *c, const cr_sast *a)
{
    cr_svalue *v;

    want_arguments(c, a, 1);
    v = compile_value(c, a->at[1], NULL);
    if (v->type->kind != CR_STYPE_TUPLE)
        cr_srange_bail(c->s, CR_RUNTIME, a->range,
                       "cannot statically infer the expected size of a list in this context");
    return v;
}

/* isinstance(x, T) and hasattr(x, name) are conditions. */
static cr_svalue *special_condition(compiler *c, const cr_sast *a)
{
    want_arguments(c, a, 2);
    return compile_condition(c, a)->value;
}

special compile_special_of(const char *name)
{
    static const char *const names[] = {
#define CR_SPECIAL(name) #name,
#include "script/specials.def"
#undef CR_SPECIAL
    };

    for (size_t i = 0; i < CR_LEN(names); i++)
        if (!strcmp(names[i], name))
            return (special)i;
    return SPECIAL_COUNT;
}

/* The value of a form; NULL for those that are terms. */
static cr_svalue *special_value(compiler *c, special which, const cr_sast *a,
                                const cr_stype *hint)
{
    switch (which) {
    case SPECIAL_annotate: return special_annotate(c, a);
    case SPECIAL_unchecked_cast: return special_cast(c, a);
    case SPECIAL_uninitialized: return special_uninitialized(c, a);
    case SPECIAL_isinstance:
    case SPECIAL_hasattr: return special_condition(c, a);
    case SPECIAL_is_scripting:
    case SPECIAL_is_tracing: return compile_bool(c, which == SPECIAL_is_scripting, a->range);
    case SPECIAL_fork: return special_fork(c, a);
    case SPECIAL_list: return compile_list_call(c, a, hint);
    case SPECIAL_dict: return compile_dict_call(c, a, hint);
    case SPECIAL_tuple: return special_tuple(c, a);
    case SPECIAL_int: return special_convert(c, a, "int", CR_STYPE_INT, "aten::Int");
    case SPECIAL_float: return special_convert(c, a, "float", CR_STYPE_FLOAT, "aten::Float");
    case SPECIAL_bool: return special_convert(c, a, "bool", CR_STYPE_BOOL, "aten::Bool");
    case SPECIAL_str: return special_convert(c, a, "str", CR_STYPE_STR, "aten::str");
    default: return NULL;
    }
}

static term *compile_special(compiler *c, const char *name, const cr_sast *a,
                             const cr_stype *hint)
{
    special which = compile_special_of(name);
    cr_svalue *v;

    if (which == SPECIAL_getattr)
        return special_getattr(c, a);
    if (which == SPECIAL_slice)
        return special_slice(c, a);
    v = special_value(c, which, a, hint);
    if (!v)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "'%s' cannot be called here", name);
    return compile_term_value(c, v);
}

/* A named tuple, or an object whose __init__ is called. */
static cr_svalue *compile_new(compiler *c, const cr_stype *type, const arguments *args,
                              cr_srange range)
{
    cr_sfunction *init = cr_sclass_method(type->cls, "__init__");
    cr_svalue *made;

    if (type->kind == CR_STYPE_TUPLE)
        return compile_construct(c, CR_SPRIM_TUPLE_CONSTRUCT, type, type->count,
                                 compile_fields(c, type->cls, args, range), range);
    if (type->kind != CR_STYPE_CLASS)
        cr_srange_bail(c->s, CR_RUNTIME, range, "cannot call a %s",
                       type->kind == CR_STYPE_ENUM ? "EnumClass" : "class");
    made = compile_construct(c, CR_SPRIM_CREATE_OBJECT, type, 0, NULL, range);
    if (init)
        compile_call(c, init, made, args, range);
    return made;
}

static bool constant_text(const cr_svalue *v)
{
    return v->by && v->by->prim == CR_SPRIM_CONSTANT && v->type->kind == CR_STYPE_STR;
}

/* torch.device("cpu") is a constant. */
static cr_svalue *constant_device(compiler *c, const cr_svalue *text, cr_srange range)
{
    cr_sconstant value = *text->by->value;

    value.type = CR_STYPE_OF(DEVICE);
    return compile_constant(c, &value, range);
}

/* What len() measures of tuples is a list of the items; of values without a length, as in
 * torch, a list of the value. */
static cr_svalue *listed_length(compiler *c, cr_svalue *v, cr_srange range)
{
    const cr_stype *type = cr_stype_list(c->unit, CR_STYPE_OF(ANY));
    cr_svalue *const *item = &v, *list;
    int count = 1;

    if (v->type->kind == CR_STYPE_TUPLE) {
        cr_snode *n = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, range);
        cr_snode_input(n, v);
        for (int i = 0; i < v->type->count; i++)
            cr_snode_output(n, NULL, v->type->item[i]);
        item = n->output;
        count = n->output_count;
    }
    list = compile_construct(c, CR_SPRIM_LIST_CONSTRUCT, type, count, item, range);
    return compile_one(c, "aten::len", range, 1, &list);
}

static bool length_is_listed(const compiler *c, const cr_stype *t)
{
    switch (t->kind) {
    case CR_STYPE_TUPLE: return true;
    case CR_STYPE_INT:
    case CR_STYPE_FLOAT:
    case CR_STYPE_BOOL:
    case CR_STYPE_COMPLEX:
    case CR_STYPE_NONE:
    case CR_STYPE_OPTIONAL:
    case CR_STYPE_UNION: return c->env != NULL;
    default: return false;
    }
}

/* len(x), abs(x) and the like of an object call the method of its name; NULL: x is none. */
static term *call_magic(compiler *c, const term *t, const arguments *args, cr_srange range)
{
    static const char *const names[] = {"aten::len", "prim::abs", "aten::abs", "aten::hash",
                                        "aten::round"};
    cr_svalue *v = args->len ? args->at[0].value : NULL;

    if (args->len != 1 || !v || t->self || v->type->kind != CR_STYPE_CLASS)
        return NULL;
    bool counts =
        !strcmp(t->name, "aten::len") && !compile_method(c, v->type->cls, "__len__", range);
    term *modules = counts ? compile_modules(c, v, range) : NULL;
    if (modules && modules->kind == TERM_ITEMS)
        return compile_term_value(c, compile_int(c, modules->count, range));
    for (size_t i = 0; i < CR_LEN(names); i++)
        if (!strcmp(names[i], t->name))
            return compile_term_value(
                c, compile_magic(c, cr_session_printf(c->s, "__%s__", strchr(t->name, ':') + 2),
                                 v, 0, NULL, range));
    return NULL;
}

/* x.long(): x.to(int64). */
static term *cast_call(compiler *c, const term *t, cr_srange range)
{
    arguments all = {0};

    CR_PUSH(c->s, &all, ((argument){.value = t->self, .range = range}));
    CR_PUSH(c->s, &all,
            ((argument){.value = compile_int(c, cr_dtype_number(t->dtype), range),
                        .range = range}));
    return compile_operator(c, "aten::to", &all, range);
}

static term *call_operator(compiler *c, term *t, const arguments *args, cr_srange range)
{
    arguments all = {0};

    if (c->env && !strcmp(t->name, "prim::Print") && args->len && args->at[args->len - 1].name)
        cr_srange_bail(c->s, CR_RUNTIME, range, "print doesn't accept any keyword arguments");

    if (!strcmp(t->name, "prim::abs") && args->len &&
        args->at[0].value->type->kind == CR_STYPE_TENSOR)
        return compile_operator(c, "aten::abs", args, range);
    if (!strcmp(t->name, "prim::unchecked_unwrap_optional") && args->len == 1) {
        cr_svalue *v = args->at[0].value;
        const cr_stype *type = v->type->kind == CR_STYPE_OPTIONAL ? v->type->item[0] : v->type;
        return compile_term_value(
            c, compile_construct(c, CR_SPRIM_UNCHECKED_CAST, type, 1, &v, range));
    }
    if (!strcmp(t->name, "aten::device") && args->len == 1 && constant_text(args->at[0].value))
        return compile_term_value(c, constant_device(c, args->at[0].value, range));
    if (!strcmp(t->name, "aten::len") && args->len == 1 &&
        length_is_listed(c, args->at[0].value->type))
        return compile_term_value(c, listed_length(c, args->at[0].value, range));
    if (t->casts)
        return cast_call(c, t, range);
    term *magic = call_magic(c, t, args, range);
    if (magic)
        return magic;
    if (!t->self)
        return compile_operator(c, t->name, args, range);
    CR_PUSH(c->s, &all, ((argument){.value = t->self, .range = range}));
    for (size_t i = 0; i < args->len; i++)
        CR_PUSH(c->s, &all, args->at[i]);
    return compile_operator(c, t->name, &all, range);
}

static cr_sfunction *call_method_of(compiler *c, const term *t, cr_srange range)
{
    if (t->kind != TERM_VALUE ||
        (t->value->type->kind != CR_STYPE_CLASS && t->value->type->kind != CR_STYPE_INTERFACE))
        return NULL;
    return compile_method(c, t->value->type->cls,
                          t->value->type->cls->is_module ? "forward" : "__call__", range);
}

/* The inputs of a module as its hooks before `forward` leave them: a tuple. */
static cr_svalue *hooked_input(compiler *c, cr_svalue *self, const arguments *args,
                               cr_srange range)
{
    const cr_sclass *cls = self->type->cls;
    cr_svalue *input = compile_tuple_of(c, (int)args->len, compile_item_values(c, args), range);

    for (size_t i = 0; i < cls->prehooks.len; i++) {
        argument both[] = {{.value = self, .range = range}, {.value = input, .range = range}};
        cr_svalue *v =
            compile_call(c, cls->prehooks.at[i], NULL, &(arguments){both, 2, 2}, range);
        if (v->type->kind != CR_STYPE_NONE)
            input = v->type->kind == CR_STYPE_TUPLE ? v : compile_tuple_of(c, 1, &v, range);
    }
    return input;
}

/* Calls a module that has hooks: those before `forward`, it, and those behind it. */
static cr_svalue *hooked_call(compiler *c, cr_sfunction *forward, cr_svalue *self,
                              const arguments *args, cr_srange range)
{
    const cr_sclass *cls = self->type->cls;
    cr_svalue *input = hooked_input(c, self, args, range), *result;
    cr_snode *unpack = cr_snode_new(c->block, CR_SPRIM_TUPLE_UNPACK, range);
    arguments unpacked = {0};

    cr_snode_input(unpack, input);
    for (int i = 0; i < input->type->count; i++) {
        argument one = {.value = cr_snode_output(unpack, NULL, input->type->item[i]),
                        .range = range};
        CR_PUSH(c->s, &unpacked, one);
    }
    result = compile_call(c, forward, self, &unpacked, range);
    for (size_t i = 0; i < cls->hooks.len; i++) {
        argument all[] = {{.value = self, .range = range},
                          {.value = input, .range = range},
                          {.value = result, .range = range}};
        cr_svalue *v = compile_call(c, cls->hooks.at[i], NULL, &(arguments){all, 3, 3}, range);
        result = v->type->kind == CR_STYPE_NONE ? result : v;
    }
    return result;
}

static cr_svalue *call_object(compiler *c, cr_sfunction *f, cr_svalue *self,
                              const arguments *args, cr_srange range)
{
    const cr_sclass *cls = self->type->cls;

    return c->env && cls->is_module && cls->hooks.len + cls->prehooks.len
               ? hooked_call(c, f, self, args, range)
               : compile_call(c, f, self, args, range);
}

static term *apply_term(compiler *c, term *t, const arguments *args, cr_srange range)
{
    cr_sfunction *f;

    switch (t->kind) {
    case TERM_OPERATOR: return call_operator(c, t, args, range);
    case TERM_METHOD:
    case TERM_FUNCTION:
        return compile_term_value(c, compile_call(c, t->function, t->self, args, range));
    case TERM_CLASS: return compile_term_value(c, compile_new(c, t->type, args, range));
    case TERM_ITEMS: /* keys(), values() and items() of modules */
        if (!args->len)
            return t;
        break;
    case TERM_CHOICE: return apply_term(c, define_choose(c, t, args, range), args, range);
    default: break;
    }
    if (t->kind == TERM_PYTHON && define_exception(c, t, range))
        cr_srange_bail(c->s, CR_RUNTIME, range, "exception message cannot be used as a value");
    f = t->kind == TERM_PYTHON ? define_called(c, t, (int)args->len, range) : NULL;
    if (f)
        return compile_term_value(c, compile_call(c, f, NULL, args, range));
    f = call_method_of(c, t, range);
    if (f)
        return compile_term_value(c, call_object(c, f, t->value, args, range));
    if (t->kind == TERM_VALUE)
        cr_srange_bail(c->s, CR_RUNTIME, range, "cannot call a value of type '%s'",
                       t->value->type == &cr_stype_inferred
                           ? "Tensor"
                           : cr_stype_annotation(t->value->type));
    cr_srange_bail(c->s, CR_RUNTIME, range, "cannot call a %s",
                   t->kind == TERM_PYTHON ? "python value" : "module");
}

cr_svalue *compile_magic(compiler *c, const char *name, cr_svalue *self, int count,
                         cr_svalue *const *arg, cr_srange range)
{
    arguments args = {0};

    for (int i = 0; i < count; i++)
        CR_PUSH(c->s, &args, ((argument){.value = arg[i], .range = range}));
    return compile_as_value(
        c, apply_term(c, object_attribute(c, self, name, range), &args, range), range);
}

static bool is_tolist(const cr_sast *a)
{
    return a->at[0]->kind == CR_SAST_ATTRIBUTE && !strcmp(a->at[0]->text, "tolist") &&
           a->count == 1;
}

static term *compile_apply(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    cr_srange range = a->at[0]->range;
    arguments args = {0};
    term *t;

    if (is_tolist(a)) {
        cr_svalue *self = compile_value(c, a->at[0]->at[0], NULL);
        if (self->type->kind == CR_STYPE_TENSOR)
            return compile_term_value(c, special_tolist(c, self, hint, a->range));
    }
    t = compile_term(c, a->at[0], NULL);
    if (t->kind == TERM_SPECIAL && t->type) /* K.__new__(K) */
        return compile_term_value(
            c, compile_construct(c, CR_SPRIM_CREATE_OBJECT, t->type, 0, NULL, range));
    if (t->kind == TERM_SPECIAL)
        return compile_special(c, t->name, a, hint);
    cr_srange at = c->caller ? c->caller->at : range;
    compile_arguments(c, a, 1, &args);
    compile_note(c, at);
    return apply_term(c, t, &args, range);
}

/* --- names --- */

static term *compile_name(compiler *c, const cr_sast *a)
{
    variable *v = compile_variable(c, a->text);
    term *t = v->now;

    if (!t && v->lost)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "%s", compile_lost_text(c, v));
    if (!t && c->env)
        t = define_name(c, a->text, a->range);
    if (!t)
        t = import_name(c, a->text, a->range);
    if (!t)
        cr_srange_bail(c->s, CR_RUNTIME, a->range, "undefined value %s", a->text);
    return t;
}

static cr_svalue *compile_fstring(compiler *c, const cr_sast *a)
{
    cr_text text = {0};
    arguments args = {0};

    CR_PUSH(c->s, &args, ((argument){.range = a->range}));
    for (int i = 0; i < a->count; i++) {
        const cr_sast *part = a->at[i];
        if (part->kind == CR_SAST_STRING) {
            cr_text_put_n(&text, part->text, part->len);
            continue;
        }
        if (part->kind != CR_SAST_FIELD || part->len) {
            cr_text_drop(&text);
            define_refuse(c, "NotSupportedError",
                          (cr_srange){a->range.source, a->range.start, a->range.start + 1},
                          part->kind == CR_SAST_FIELD && *part->text == '!'
                              ? "Don't support conversion in JoinedStr"
                              : "Don't support formatting in JoinedStr");
        }
        cr_text_put(&text, "{}");
        char *so_far = cr_session_take_text(c->s, &text);
        cr_svalue *v = compile_value(c, part->at[0], NULL);
        cr_text_put(&text, so_far);
        CR_PUSH(c->s, &args, ((argument){.value = v, .range = part->range}));
    }
    size_t len = text.len;
    args.at[0].value = compile_string(c, cr_session_take_text(c->s, &text), len, a->range);
    return compile_operator(c, "aten::format", &args, a->range)->value;
}

static cr_svalue *compile_chain(compiler *c, const cr_sast *a)
{
    cr_sast both = {.kind = CR_SAST_BOOLEAN, .range = a->range, .count = 2, .text = "and"};
    cr_sast *left = a->at[0];

    for (int i = 1; i < a->count; i++) {
        cr_sast *joined = cr_session_copy(c->s, &both, sizeof both);
        joined->at = CR_NEW_N(c->s, cr_sast *, 2);
        joined->at[0] = left;
        joined->at[1] = a->at[i];
        left = joined;
    }
    return compile_value(c, left, NULL);
}

static cr_svalue *compile_plain(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    switch (a->kind) {
    case CR_SAST_NUMBER: return compile_number(c, a);
    case CR_SAST_STRING: return compile_string(c, a->text, a->len, a->range);
    case CR_SAST_FSTRING: return compile_fstring(c, a);
    case CR_SAST_TRUE:
    case CR_SAST_FALSE: return compile_bool(c, a->kind == CR_SAST_TRUE, a->range);
    case CR_SAST_NONE: return compile_none(c, a->range);
    case CR_SAST_UNARY: return compile_unary(c, a);
    case CR_SAST_BINARY: return compile_binary(c, a);
    case CR_SAST_CHAIN: return compile_chain(c, a);
    case CR_SAST_BOOLEAN: return compile_condition(c, a)->value;
    case CR_SAST_CONDITION: return compile_choice(c, a, hint);
    case CR_SAST_LIST_COMP: return compile_comprehension(c, a, hint);
    case CR_SAST_DICT_COMP: return compile_dict_comprehension(c, a, hint);
    case CR_SAST_TUPLE: return compile_tuple(c, a, hint);
    case CR_SAST_LIST: return compile_list(c, a, hint);
    case CR_SAST_DICT: return compile_dict(c, a, hint);
    case CR_SAST_GENERATOR: return compile_comprehension(c, a, hint);
    default: define_unsupported(c, a);
    }
}

void compile_enter(compiler *c, cr_srange range)
{
    if (++*c->nesting > MOST_NESTING)
        cr_srange_bail(c->s, CR_RUNTIME, range, "too deeply nested");
}

void compile_leave(compiler *c) { --*c->nesting; }

term *compile_term(compiler *c, const cr_sast *a, const cr_stype *hint)
{
    term *t;

    compile_enter(c, a->range);
    switch (a->kind) {
    case CR_SAST_NAME: t = compile_name(c, a); break;
    case CR_SAST_ATTRIBUTE: t = compile_attribute(c, a); break;
    case CR_SAST_CALL: t = compile_apply(c, a, hint); break;
    case CR_SAST_SUBSCRIPT: t = compile_subscript(c, a, hint); break;
    default: t = compile_term_value(c, compile_plain(c, a, hint));
    }
    compile_leave(c);
    return t;
}
