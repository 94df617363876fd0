/* Graphs from their text, as cr_sgraph_print writes it.
 *
 * A call has the first schema of its name whose parameters and results fit the types.  A
 * constant tensor is written by its sizes, <Tensor 2, 3>, and its elements are ones.  Classes
 * have no methods. */
#include "entry.h"
#include "script/operators.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { GPARSE_DEEPEST = 100, GPARSE_MOST = 64, GPARSE_ELEMENTS = 1024 };

typedef struct {
    const char *name;
    cr_svalue *value;
} gparse_name;

typedef struct {
    cr_session *s;
    cr_sunit *unit;
    cr_sgraph *graph;
    const char *text, *at;
    int depth;
    CR_VEC(gparse_name) names;
} gparser;

/* --- words --- */

static CR_NORETURN void gparse_wrong(gparser *p, const char *wanted)
{
    int line = 1;

    for (const char *c = p->text; c < p->at; c++)
        line += *c == '\n';
    size_t n = strcspn(p->at, "\n");
    cr_bail(p->s, CR_VALUE, "line %d of the graph: %s is expected at '%.*s'", line, wanted,
            n < 40 ? (int)n : 40, p->at);
}

static void gparse_enter(gparser *p)
{
    if (++p->depth > GPARSE_DEEPEST)
        cr_bail(p->s, CR_VALUE, "the graph is nested more than %d deep", GPARSE_DEEPEST);
}

/* Spaces, line ends, and comments. */
static void gparse_space(gparser *p)
{
    for (;;) {
        p->at += strspn(p->at, " \t\r\n");
        if (*p->at != '#')
            return;
        p->at += strcspn(p->at, "\n");
    }
}

static bool gparse_take(gparser *p, const char *word)
{
    size_t n = strlen(word);

    gparse_space(p);
    if (strncmp(p->at, word, n))
        return false;
    p->at += n;
    return true;
}

static void gparse_want(gparser *p, const char *word)
{
    if (!gparse_take(p, word))
        gparse_wrong(p, word);
}

static char *gparse_word(gparser *p)
{
    size_t n = 0;
    char *word;

    gparse_space(p);
    while (isalnum((unsigned char)p->at[n]) || (p->at[n] && strchr("_.:", p->at[n])))
        n++;
    while (n && p->at[n - 1] == ':') /* of `block0():` */
        n--;
    if (!n)
        gparse_wrong(p, "a name");
    word = cr_session_printf(p->s, "%.*s", (int)n, p->at);
    p->at += n;
    return word;
}

static int64_t gparse_int(gparser *p)
{
    char *end;

    gparse_space(p);
    int64_t i = strtoll(p->at, &end, 10);
    if (end == p->at)
        gparse_wrong(p, "an integer");
    p->at = end;
    return i;
}

/* --- types --- */

static const cr_stype *gparse_type(gparser *p);

static int gparse_types(gparser *p, const cr_stype **item, const char *close)
{
    int n = 0;

    while (!gparse_take(p, close)) {
        if (n == GPARSE_MOST)
            gparse_wrong(p, close);
        item[n++] = gparse_type(p);
        gparse_take(p, ",");
    }
    return n;
}

static const cr_stype *gparse_named(gparser *p)
{
    char *name = gparse_word(p);

    for (int i = 0; i < CR_STYPE_COUNT; i++) {
        static const char *const text[] = {
#define CR_STYPE(NAME, text, annotation) text,
#include "script/types.def"
#undef CR_STYPE
        };
        if (text[i] && !strcmp(text[i], name))
            return &cr_stype_plain[i];
    }
    if (!strncmp(name, "__torch__.", 10)) {
        cr_sclass *cls = cr_sunit_class(p->unit, name);
        return (cls ? cls : cr_sunit_add_class(p->unit, name, CR_STYPE_CLASS))->type;
    }
    p->at -= strlen(name);
    gparse_wrong(p, "a type");
}

/* The dtype that a type such as Float(2, 3) names, or -1. */
static int gparse_dtype(gparser *p)
{
    gparse_space(p);
    for (int i = 0; i < CR_DTYPE_COUNT; i++) {
        size_t n = strlen(cr_dtype_infos[i].legacy);
        if (!strncmp(p->at, cr_dtype_infos[i].legacy, n) && p->at[n] == '(') {
            p->at += n + 1;
            return i;
        }
    }
    return -1;
}

/* At most GPARSE_MOST integers with commas; a `*` is -1, a size that is not known. */
static int gparse_ints(gparser *p, int64_t *out)
{
    int n = 0;

    for (gparse_space(p); n < GPARSE_MOST; gparse_take(p, ",")) {
        if (gparse_take(p, "*"))
            out[n++] = -1;
        else if (isdigit((unsigned char)*p->at) || *p->at == '-')
            out[n++] = gparse_int(p);
        else
            break;
        gparse_space(p);
    }
    return n;
}

static const int64_t *gparse_kept(gparser *p, const int64_t *from, int n)
{
    return memcpy(CR_NEW_N(p->s, int64_t, n + 1), from, (size_t)n * sizeof *from);
}

/* Reads the sizes, strides, requires_grad and device of a type such as `Float(2, 3, ...)`, from
 * behind its parenthesis. */
static const cr_stype *gparse_facts(gparser *p, int dtype)
{
    cr_stype_tensor *t = CR_NEW(p->s, cr_stype_tensor);
    int64_t sizes[GPARSE_MOST], strides[GPARSE_MOST];
    bool known = true;

    *t = (cr_stype_tensor){.dtype = (uint8_t)dtype, .requires = -1};
    t->ndim = (int8_t)gparse_ints(p, sizes);
    for (int i = 0; i < t->ndim; i++)
        known = known && sizes[i] >= 0;
    t->size = known ? gparse_kept(p, sizes, t->ndim) : NULL;
    if (gparse_take(p, "strides=[")) {
        if (gparse_ints(p, strides) != t->ndim)
            gparse_wrong(p, "a stride for each size");
        t->stride = gparse_kept(p, strides, t->ndim);
        gparse_want(p, "]");
        gparse_take(p, ",");
    }
    if (gparse_take(p, "requires_grad=")) {
        t->requires = gparse_int(p) != 0;
        gparse_take(p, ",");
    }
    if (gparse_take(p, "device="))
        t->device = gparse_word(p);
    gparse_want(p, ")");
    return cr_stype_seen(p->unit, t);
}

static const cr_stype *gparse_base(gparser *p)
{
    const cr_stype *item[GPARSE_MOST];
    int dtype = gparse_dtype(p);

    if (dtype >= 0)
        return gparse_facts(p, dtype);
    if (gparse_take(p, "("))
        return cr_stype_tuple(p->unit, gparse_types(p, item, ")"), item, NULL);
    if (gparse_take(p, "Union("))
        return cr_stype_union(p->unit, gparse_types(p, item, ")"), item);
    if (gparse_take(p, "Future["))
        return gparse_types(p, item, "]") == 1 ? cr_stype_future(p->unit, item[0])
                                               : (gparse_wrong(p, "one type"), NULL);
    if (gparse_take(p, "Dict("))
        return gparse_types(p, item, ")") == 2 ? cr_stype_dict(p->unit, item[0], item[1])
                                               : (gparse_wrong(p, "two types"), NULL);
    return gparse_named(p);
}

static const cr_stype *gparse_type(gparser *p)
{
    gparse_enter(p);
    const cr_stype *t = gparse_base(p);
    for (;;) {
        if (gparse_take(p, "[]")) {
            t = cr_stype_list(p->unit, t);
        } else if (gparse_take(p, "?")) {
            t = cr_stype_optional(p->unit, t);
        } else {
            p->depth--;
            return t;
        }
    }
}

/* --- values --- */

static const char *gparse_value_name(gparser *p)
{
    gparse_want(p, "%");
    return gparse_word(p);
}

static cr_svalue *gparse_value(gparser *p)
{
    const char *name = gparse_value_name(p);

    for (size_t i = p->names.len; i-- > 0;)
        if (!strcmp(p->names.at[i].name, name))
            return p->names.at[i].value;
    p->at -= strlen(name);
    gparse_wrong(p, "a value that is defined");
}

/* The name of %x.3 is x, %3 has none. */
static const char *gparse_stem(gparser *p, const char *name)
{
    size_t n = strlen(name), digits = 0;

    while (digits < n && isdigit((unsigned char)name[n - 1 - digits]))
        digits++;
    if (digits == n)
        return NULL;
    if (digits && n > digits + 1 && name[n - digits - 1] == '.')
        n -= digits + 1;
    return cr_session_printf(p->s, "%.*s", (int)n, name);
}

typedef struct {
    int count;
    const char *name[GPARSE_MOST];
    const cr_stype *type[GPARSE_MOST];
} gparse_list;

/* Reads "%x.1 : int, %y.2 : Tensor", up to a character that follows. */
static void gparse_definitions(gparser *p, gparse_list *out, char close)
{
    out->count = 0;
    for (gparse_space(p); *p->at != close; gparse_space(p)) {
        if (out->count == GPARSE_MOST)
            gparse_wrong(p, "an end of the list");
        out->name[out->count] = gparse_value_name(p);
        gparse_space(p);
        if (gparse_take(p, ":"))
            out->type[out->count] = gparse_type(p);
        else
            out->type[out->count] = CR_STYPE_OF(TENSOR);
        out->count++;
        gparse_take(p, ",");
    }
    p->at++;
}

static void gparse_define(gparser *p, const char *name, cr_svalue *v)
{
    gparse_name made = {name, v};

    CR_PUSH(p->s, &p->names, made);
}

static void gparse_block_inputs(gparser *p, cr_sblock *b)
{
    gparse_list list;

    gparse_want(p, "(");
    gparse_definitions(p, &list, ')');
    gparse_want(p, ":");
    for (int i = 0; i < list.count; i++)
        gparse_define(p, list.name[i],
                      cr_sblock_input(b, gparse_stem(p, list.name[i]), list.type[i]));
}

static void gparse_outputs(gparser *p, cr_sblock *b)
{
    gparse_want(p, "(");
    while (!gparse_take(p, ")")) {
        cr_sblock_output(b, gparse_value(p));
        gparse_take(p, ",");
    }
}

/* --- constants --- */

static void gparse_constant(gparser *p, const cr_stype *type, cr_sconstant *out);

static void gparse_items(gparser *p, const cr_stype *type, cr_sconstant *out)
{
    const char *close = type->kind == CR_STYPE_LIST ? "]" : ")";
    cr_sconstant item[GPARSE_MOST];

    gparse_enter(p);
    gparse_want(p, type->kind == CR_STYPE_LIST ? "[" : "(");
    while (!gparse_take(p, close)) {
        if (out->count == GPARSE_MOST ||
            (type->kind == CR_STYPE_TUPLE && out->count == type->count))
            gparse_wrong(p, close);
        gparse_constant(p, type->item[type->kind == CR_STYPE_LIST ? 0 : out->count],
                        &item[out->count]);
        out->count++;
        gparse_take(p, ",");
    }
    out->item = cr_session_copy(p->s, item, (size_t)out->count * sizeof *item + 1);
    p->depth--;
}

/* A character of a quoted text; escapes are those that cr_sconstant_print writes. */
static char gparse_char(gparser *p)
{
    static const char letters[] = "abfnrtv\"\\'", chars[] = "\a\b\f\n\r\t\v\"\\'";
    int code = 0, digits = 0;

    if (*p->at != '\\')
        return *p->at++;
    p->at++;
    const char *letter = *p->at ? strchr(letters, *p->at) : NULL;
    if (letter) {
        p->at++;
        return chars[letter - letters];
    }
    for (; digits < 3 && *p->at >= '0' && *p->at <= '7'; digits++)
        code = code * 8 + *p->at++ - '0';
    if (digits < 3 || code > 255)
        gparse_wrong(p, "an escape");
    return (char)code;
}

static void gparse_text(gparser *p, cr_sconstant *out)
{
    gparse_want(p, "\"");
    size_t most = strcspn(p->at, "\n");
    char *made = cr_session_copy(p->s, p->at, most + 1);
    for (out->len = 0; *p->at && *p->at != '"' && *p->at != '\n'; out->len++)
        made[out->len] = gparse_char(p);
    made[out->len] = '\0';
    out->s = made;
    gparse_want(p, "\"");
}

/* A text that is a name: without zeros. */
static const char *gparse_name_text(gparser *p)
{
    cr_sconstant name = {0};

    gparse_text(p, &name);
    if (strlen(name.s) != name.len)
        gparse_wrong(p, "a name");
    return name.s;
}

static void gparse_tensor(gparser *p, cr_sconstant *out)
{
    int64_t size[CR_MAX_DIMS], count = 1;
    int ndim = 0;

    gparse_want(p, "<Tensor ");
    while (!gparse_take(p, ">")) {
        if (ndim == CR_MAX_DIMS)
            gparse_wrong(p, ">");
        size[ndim] = gparse_int(p);
        if (size[ndim] < 0 || size[ndim] > GPARSE_ELEMENTS ||
            (count *= size[ndim]) > GPARSE_ELEMENTS)
            gparse_wrong(p, "a tensor of at most 1024 elements");
        ndim++;
        gparse_take(p, ",");
    }
    cr_session_check(p->s, cr_call_tensor(&out->tensor, cr_entry.ones,
                                          (cr_value[]){cr_of_ints(size, (size_t)ndim)}, 1));
    cr_sunit_keep_tensor(p->unit, out->tensor);
    cr_drop(out->tensor);
}

static void gparse_constant(gparser *p, const cr_stype *type, cr_sconstant *out)
{
    char *end;

    *out = (cr_sconstant){.type = type};
    gparse_space(p);
    switch (type->kind) {
    case CR_STYPE_INT: out->i = gparse_int(p); return;
    case CR_STYPE_BOOL:
        out->i = gparse_take(p, "True") || (!gparse_take(p, "False") && gparse_int(p));
        return;
    case CR_STYPE_FLOAT:
        out->d[0] = strtod(p->at, &end);
        if (end == p->at)
            gparse_wrong(p, "a number");
        p->at = end;
        return;
    case CR_STYPE_STR:
    case CR_STYPE_DEVICE: gparse_text(p, out); return;
    case CR_STYPE_NONE: gparse_want(p, "None"); return;
    case CR_STYPE_LIST:
    case CR_STYPE_TUPLE: gparse_items(p, type, out); return;
    case CR_STYPE_TENSOR: gparse_tensor(p, out); return;
    default: gparse_wrong(p, "a constant of another type");
    }
}

/* --- nodes --- */

static void gparse_attribute_types(gparser *p, cr_snode *n)
{
    const cr_stype *item[GPARSE_MOST];

    gparse_want(p, "[");
    n->tests.type_count = gparse_types(p, item, "]");
    n->tests.types =
        cr_session_copy(p->s, item, (size_t)n->tests.type_count * sizeof *item + 1);
}

static void gparse_attributes(gparser *p, cr_snode *n, const cr_stype *type)
{
    cr_sconstant value = {.type = CR_STYPE_OF(NONE)};

    while (!gparse_take(p, "]")) {
        if (gparse_take(p, "value=")) {
            gparse_constant(p, type, &value);
        } else if (gparse_take(p, "name=")) {
            n->name = gparse_name_text(p);
        } else if (gparse_take(p, "beg=")) {
            n->slice.begin = gparse_int(p);
        } else if (gparse_take(p, "end=")) {
            n->slice.end = gparse_int(p);
        } else if (gparse_take(p, "types=")) {
            gparse_attribute_types(p, n);
        } else {
            gparse_wrong(p, "an attribute");
        }
        gparse_take(p, ",");
    }
    if (n->prim == CR_SPRIM_CONSTANT)
        n->value = cr_session_copy(p->s, &value, sizeof value);
}

static bool gparse_fits(const cr_stype *formal, const cr_stype *actual)
{
    if (formal->kind == CR_STYPE_OPTIONAL && actual->kind != CR_STYPE_OPTIONAL)
        return actual->kind == CR_STYPE_NONE || gparse_fits(formal->item[0], actual);
    if (!cr_stype_has_var(formal))
        return cr_stype_is_subtype(actual, formal);
    return formal->kind == CR_STYPE_VAR || formal->kind == actual->kind;
}

static bool gparse_matches(const cr_snode *n, const cr_sschema *s, const gparse_list *outs)
{
    if (n->input_count < s->param_count || (n->input_count > s->param_count && !s->any_params))
        return false;
    for (int i = 0; i < n->input_count && i < s->param_count; i++)
        if (!gparse_fits(s->param[i].type, n->input[i]->type))
            return false;
    for (int i = 0; i < outs->count && i < s->result_count; i++)
        if (!gparse_fits(s->result[i].type, outs->type[i]))
            return false;
    return outs->count <= s->result_count;
}

static void gparse_schema(gparser *p, cr_snode *n, const char *kind, const gparse_list *outs)
{
    const cr_sschemas *all;

    cr_session_check(p->s, cr_soperators(&all, kind));
    for (size_t i = 0; i < all->len && !n->schema; i++)
        if (gparse_matches(n, all->at[i], outs))
            n->schema = all->at[i];
    if (!n->schema)
        cr_bail(p->s, CR_VALUE, "no schema of %s takes these arguments", kind);
}

static cr_sprim gparse_prim(const char *kind)
{
    for (int i = 1; i < CR_SPRIM_COUNT; i++) {
        cr_snode n = {.prim = (uint8_t)i};
        if (!strcmp(cr_snode_kind(&n), kind))
            return (cr_sprim)i;
    }
    return CR_SPRIM_OPERATOR;
}

static void gparse_nodes(gparser *p, cr_sblock *b, const char *end);

static void gparse_blocks(gparser *p, cr_snode *n)
{
    gparse_enter(p);
    while (gparse_take(p, "block")) {
        size_t names = p->names.len;
        cr_sblock *b = cr_snode_block(n);
        gparse_int(p);
        gparse_block_inputs(p, b);
        gparse_nodes(p, b, "->");
        gparse_outputs(p, b);
        p->names.len = names;
    }
    p->depth--;
}

/* --- what passes take for granted of nodes --- */

static bool gparse_is(const cr_svalue *v, cr_stype_kind kind) { return v->type->kind == kind; }

static bool gparse_check_if(const cr_snode *n, int outs)
{
    return n->input_count == 1 && n->block_count == 2 &&
           gparse_is(n->input[0], CR_STYPE_BOOL) && !n->block[0]->input_count &&
           !n->block[1]->input_count && n->block[0]->output_count == outs &&
           n->block[1]->output_count == outs;
}

static bool gparse_check_loop(const cr_snode *n, int outs)
{
    const cr_sblock *b = n->block_count == 1 ? n->block[0] : NULL;

    return b && n->input_count == outs + 2 && b->input_count == outs + 1 &&
           b->output_count == outs + 1 && gparse_is(n->input[0], CR_STYPE_INT) &&
           gparse_is(n->input[1], CR_STYPE_BOOL) && gparse_is(b->input[0], CR_STYPE_INT) &&
           gparse_is(b->output[0], CR_STYPE_BOOL);
}

static bool gparse_check_tuple(const cr_snode *n, const gparse_list *outs)
{
    if (n->prim == CR_SPRIM_TUPLE_CONSTRUCT)
        return outs->count == 1 && outs->type[0]->kind == CR_STYPE_TUPLE &&
               outs->type[0]->count == n->input_count;
    if (!n->input_count || !gparse_is(n->input[0], CR_STYPE_TUPLE))
        return false;
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_TUPLE_UNPACK:
        return n->input_count == 1 && outs->count == n->input[0]->type->count;
    case CR_SPRIM_TUPLE_INDEX: return n->input_count == 2 && outs->count == 1;
    default:
        return n->input_count == 1 && outs->count == 1 && n->slice.begin >= 0 &&
               n->slice.begin <= n->slice.end && n->slice.end <= n->input[0]->type->count;
    }
}

static bool gparse_check_kind(const cr_snode *n, const gparse_list *outs)
{
    bool one = outs->count == 1;

    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_OPERATOR: return outs->count == n->schema->result_count;
    case CR_SPRIM_IF: return gparse_check_if(n, outs->count);
    case CR_SPRIM_LOOP: return gparse_check_loop(n, outs->count);
    case CR_SPRIM_CONSTANT: return one && !n->input_count;
    case CR_SPRIM_GET_ATTR: return one && n->input_count == 1 && n->name;
    case CR_SPRIM_SET_ATTR: return n->input_count == 2 && n->name;
    case CR_SPRIM_MODULE_INDEX: return one && n->input_count == 2;
    case CR_SPRIM_CALL_METHOD: return n->input_count && n->name;
    case CR_SPRIM_LIST_CONSTRUCT: return one && outs->type[0]->kind == CR_STYPE_LIST;
    case CR_SPRIM_DICT_CONSTRUCT: return one && outs->type[0]->kind == CR_STYPE_DICT;
    case CR_SPRIM_LIST_UNPACK:
        return n->input_count == 1 && gparse_is(n->input[0], CR_STYPE_LIST);
    case CR_SPRIM_TUPLE_CONSTRUCT:
    case CR_SPRIM_TUPLE_UNPACK:
    case CR_SPRIM_TUPLE_INDEX:
    case CR_SPRIM_TUPLE_SLICE: return gparse_check_tuple(n, outs);
    case CR_SPRIM_UNCHECKED_CAST:
    case CR_SPRIM_IS_INSTANCE: return one && n->input_count == 1;
    case CR_SPRIM_UNINITIALIZED:
    case CR_SPRIM_CREATE_OBJECT: return one && !n->input_count;
    default: return false;
    }
}

static void gparse_check(gparser *p, const cr_snode *n, const gparse_list *outs)
{
    bool blocks = n->prim == CR_SPRIM_IF || n->prim == CR_SPRIM_LOOP;

    if ((n->block_count && !blocks) || !gparse_check_kind(n, outs))
        cr_bail(p->s, CR_VALUE, "%s has other inputs, results or blocks", cr_snode_kind(n));
}

/* The module path of a traced node, up to a space. */
static const char *gparse_scope(gparser *p)
{
    gparse_space(p);
    size_t n = strcspn(p->at, " \n");
    p->at += n;
    return cr_session_printf(p->s, "%.*s", (int)n, p->at - n);
}

static void gparse_node(gparser *p, cr_sblock *b)
{
    gparse_list outs;
    cr_snode *n;
    char *kind;

    gparse_definitions(p, &outs, '=');
    kind = gparse_word(p);
    n = cr_snode_new(b, gparse_prim(kind), (cr_srange){0});
    if (n->prim == CR_SPRIM_CONSTANT) {
        static const cr_sconstant none = {.type = CR_STYPE_OF(NONE)};
        n->value = &none;
    }
    if (gparse_take(p, "["))
        gparse_attributes(p, n, outs.count ? outs.type[0] : CR_STYPE_OF(NONE));
    gparse_want(p, "(");
    while (!gparse_take(p, ")")) {
        cr_snode_input(n, gparse_value(p));
        gparse_take(p, ",");
    }
    if (gparse_take(p, ", scope:"))
        n->from.scope = gparse_scope(p);
    if (n->prim == CR_SPRIM_OPERATOR)
        gparse_schema(p, n, kind, &outs);
    gparse_blocks(p, n);
    gparse_check(p, n, &outs);
    for (int i = 0; i < outs.count; i++)
        gparse_define(p, outs.name[i],
                      cr_snode_output(n, gparse_stem(p, outs.name[i]), outs.type[i]));
}

static void gparse_nodes(gparser *p, cr_sblock *b, const char *end)
{
    while (!gparse_take(p, end))
        gparse_node(p, b);
}

const cr_stype *cr_stype_parse(cr_sunit *u, const char *text)
{
    gparser p = {.s = cr_sunit_session(u), .unit = u, .text = text, .at = text};
    const cr_stype *type = gparse_type(&p);

    gparse_space(&p);
    if (*p.at)
        gparse_wrong(&p, "the end");
    return type;
}

cr_sgraph *cr_sgraph_parse(cr_sunit *u, const char *text)
{
    gparser p = {.s = cr_sunit_session(u), .unit = u, .text = text, .at = text};

    p.graph = cr_sgraph_new(p.s, u);
    gparse_want(&p, "graph");
    gparse_block_inputs(&p, p.graph->body);
    gparse_nodes(&p, p.graph->body, "return");
    gparse_outputs(&p, p.graph->body);
    gparse_space(&p);
    if (*p.at)
        gparse_wrong(&p, "the end");
    return p.graph;
}
