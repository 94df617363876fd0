/* Graphs as source text.
 *
 * A node is written inside the expression that reads it where this keeps the order in which
 * the text is run: it is read once, has no name, and stands directly before its reader.  Then
 * long expressions are split into lines: what was to stand in the line before them is written
 * as lines of its own. */
#include "script/code.h"
#include "base/map.h"
#include "script/passes.h"
#include <ctype.h>
#include <string.h>

enum { CODE_LINE = 40 };

/* A reader: a node, or the end of a block. */
typedef struct {
    const cr_snode *node;
    const cr_sblock *end;
    int offset;
} code_use;

typedef struct {
    cr_session *s;
    cr_text *out;
    const cr_scode *how;
    int level;
    const char **text; /* by value: the expression or the name that reads it */
    bool *inside;      /* by value: written inside the expression of its reader */
    code_use *use;     /* by value: its last reader */
    cr_map split;      /* by reader: offset + 2 up to which it was split */
    cr_map used, next; /* names, and the number that the next name gets */
    cr_map seen;       /* constants that are written */
} coder;

/* --- readers --- */

static void code_note_use(coder *c, cr_svalue *v, code_use u) { c->use[v->id] = u; }

static void code_find_uses(coder *c, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->input_count; i++)
            code_note_use(c, n->input[i], (code_use){n, NULL, i});
        for (int i = 0; i < n->block_count; i++)
            code_find_uses(c, n->block[i]);
    }
    for (int i = 0; i < b->output_count; i++)
        code_note_use(c, b->output[i], (code_use){NULL, b, i});
}

static bool code_is_constant(const cr_snode *n) { return n && n->prim == CR_SPRIM_CONSTANT; }

/* --- what is written inside other expressions --- */

static bool code_can_be_inside(const coder *c, const cr_svalue *v)
{
    const cr_snode *n = v->by;
    code_use u = c->use[v->id];

    if (n->output_count != 1 || v->uses != 1 || (v->name && u.node) || n->block_count)
        return false;
    if (u.node && u.node->prim == CR_SPRIM_LOOP && u.offset >= 2)
        return false;
    return n->prim != CR_SPRIM_IS_INSTANCE && n->prim != CR_SPRIM_ENTER &&
           n->prim != CR_SPRIM_MODULE_INDEX;
}

static const cr_snode *code_before(const cr_snode *n)
{
    while (code_is_constant(n))
        n = n->prev;
    return n;
}

static const cr_snode *code_scan(coder *c, const cr_snode *n);
static void code_scan_block(coder *c, const cr_sblock *b);

static const cr_snode *code_scan_value(coder *c, const cr_snode *at, cr_svalue *v)
{
    if (v->by && v->by == at && code_can_be_inside(c, v)) {
        at = code_scan(c, at);
        c->inside[v->id] = true;
    } else if (code_is_constant(v->by)) {
        c->inside[v->id] = true;
    }
    return at;
}

/* The node that may be next to be written inside, going up from `n`. */
static const cr_snode *code_scan(coder *c, const cr_snode *n)
{
    const cr_snode *at;

    if (n->output_count == 1 && c->inside[n->output[0]->id])
        return n;
    for (int i = 0; i < n->block_count; i++)
        code_scan_block(c, n->block[i]);
    at = code_before(n->prev);
    for (int i = n->input_count - 1; i >= 0; i--)
        at = code_scan_value(c, at, n->input[i]);
    return at;
}

static void code_scan_block(coder *c, const cr_sblock *b)
{
    const cr_snode *at = code_before(b->last);

    for (int i = b->output_count - 1; i >= 0; i--)
        at = code_scan_value(c, at, b->output[i]);
    for (const cr_snode *n = b->last; n; n = n->prev)
        code_scan(c, n);
}

/* --- names --- */

bool cr_scode_is_reserved(const char *name)
{
    static const char *const words[] = {"_",
                                        "as",
                                        "aten",
                                        "attribute",
                                        "CONSTANTS",
                                        "fork",
                                        "getattr",
                                        "inf",
                                        "nan",
                                        "infj",
                                        "nanj",
                                        "ops",
                                        "__torch__",
                                        "and",
                                        "assert",
                                        "async",
                                        "await",
                                        "break",
                                        "class",
                                        "continue",
                                        "def",
                                        "del",
                                        "elif",
                                        "else",
                                        "except",
                                        "False",
                                        "finally",
                                        "for",
                                        "from",
                                        "global",
                                        "if",
                                        "import",
                                        "in",
                                        "is",
                                        "lambda",
                                        "None",
                                        "nonlocal",
                                        "not",
                                        "or",
                                        "pass",
                                        "raise",
                                        "return",
                                        "True",
                                        "try",
                                        "while",
                                        "with",
                                        "yield",
                                        "uninitialized",
                                        "unchecked_cast"};

    for (size_t i = 0; i < CR_LEN(words); i++)
        if (*words[i] == *name && !strcmp(words[i], name))
            return true;
    return false;
}

static const char *code_name(coder *c, const char *candidate)
{
    const char *name = candidate;

    while (cr_scode_is_reserved(name) || cr_map_get(&c->used, name, strlen(name))) {
        uintptr_t next = (uintptr_t)cr_map_get(&c->next, name, strlen(name));
        cr_session_check(c->s, cr_map_set(&c->next, name, strlen(name), (void *)(next + 1)));
        name = cr_session_printf(c->s, "%s%u", candidate, (unsigned)next);
    }
    cr_session_check(c->s, cr_map_set(&c->used, name, strlen(name), c));
    return name;
}

static const char *code_name_of(coder *c, const cr_svalue *v)
{
    char *name;

    if (!v->name)
        return code_name(c, "_");
    name =
        cr_session_printf(c->s, "%s%s", isdigit((unsigned char)*v->name) ? "_" : "", v->name);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_')
            *p = '_';
    return code_name(c, name);
}

static void code_name_all(coder *c, cr_svalue *const *v, int n)
{
    for (int i = 0; i < n; i++)
        c->text[v[i]->id] = code_name_of(c, v[i]);
}

static const char *code_of(const coder *c, const cr_svalue *v)
{
    const char *text = c->text[v->id];

    if (!text)
        cr_session_check(c->s, cr_fail(CR_RUNTIME, "a value of the graph has no source text"));
    return text;
}

/* --- lines --- */

static void code_indent(coder *c) { cr_text_pad(c->out, (size_t)c->level * 2, ' '); }

static void code_values(const coder *c, cr_text *out, cr_svalue *const *v, int n,
                        const char *open, const char *close)
{
    cr_text_put(out, open);
    for (int i = 0; i < n; i++)
        cr_text_printf(out, "%s%s", i ? ", " : "", code_of(c, v[i]));
    cr_text_put(out, close);
}

static void code_assign(coder *c, cr_svalue *const *to, cr_svalue *const *from, int n)
{
    if (!n)
        return;
    code_indent(c);
    code_values(c, c->out, to, n, "", " = ");
    code_values(c, c->out, from, n, "", "\n");
}

static void code_define(coder *c, const cr_snode *n, const char *text)
{
    code_name_all(c, n->output, n->output_count);
    code_indent(c);
    if (n->output_count)
        code_values(c, c->out, n->output, n->output_count, "", " = ");
    cr_text_printf(c->out, "%s\n", text);
}

static bool code_is_long(const coder *c, const char *text)
{
    return strlen(text) + (size_t)c->level * 2 >= CODE_LINE;
}

/* --- long expressions --- */

typedef CR_VEC(const cr_snode *) code_nodes;

static void code_scan_long(coder *c, const cr_snode *node, const cr_sblock *end, int offset,
                           code_nodes *out)
{
    const void *user = node ? (const void *)node : (const void *)end;
    /* The stored number is the offset + 2, so that it is never 0. */
    uintptr_t done = (uintptr_t)cr_map_get(&c->split, (const char *)&user, sizeof user);
    cr_svalue *const *input = node ? node->input : end->output;

    for (int i = offset; i >= (done ? (int)done - 1 : 0); i--) {
        const cr_snode *by = input[i]->by;
        if (by && !code_is_constant(by) && c->inside[input[i]->id])
            CR_PUSH(c->s, out, by);
    }
    cr_session_check(c->s, cr_map_set(&c->split, (const char *)&user, sizeof user,
                                      (void *)(uintptr_t)(offset + 2)));
    if (!done && node && node->output_count == 1 && c->inside[node->output[0]->id]) {
        code_use u = c->use[node->output[0]->id];
        code_scan_long(c, u.node, u.end, u.offset - 1, out);
    }
}

static void code_split_long(coder *c, const cr_svalue *v)
{
    code_use u = c->use[v->id];
    code_nodes nodes = {0};

    code_scan_long(c, u.node, u.end, u.offset, &nodes);
    for (size_t i = nodes.len; i-- > 0;)
        code_define(c, nodes.at[i], code_of(c, nodes.at[i]->output[0]));
}

/* --- constants --- */

static void code_items(cr_text *out, const cr_sconstant *v, const cr_scode *how,
                       const char *open, const char *close)
{
    cr_text_put(out, open);
    for (int i = 0; i < v->count; i++) {
        cr_text_put(out, i ? ", " : "");
        cr_scode_constant(out, &v->item[i], how);
    }
    cr_text_put(out, close);
}

static void code_dict_constant(cr_text *out, const cr_sconstant *v, const cr_scode *how)
{
    cr_text_put(out, "{");
    for (int i = 0; i + 1 < v->count; i += 2) {
        cr_text_put(out, i ? ", " : "");
        cr_scode_constant(out, &v->item[i], how);
        cr_text_put(out, ": ");
        cr_scode_constant(out, &v->item[i + 1], how);
    }
    cr_text_put(out, "}");
}

static void code_tensor(cr_text *out, cr_tensor *t, const cr_scode *how)
{
    size_t i = 0;

    while (i < how->tensors->len && how->tensors->at[i] != t)
        i++;
    if (i == how->tensors->len) {
        if (cr_vec_reserve(how->tensors, 1)) {
            out->failed = CR_MEMORY;
            return;
        }
        cr_vec_put(how->tensors, t);
    }
    cr_text_printf(out, "CONSTANTS.c%zu", i);
}

static void code_function(cr_text *out, const cr_sfunction *f, const cr_scode *how)
{
    if (f->owner)
        cr_text_printf(out, "%s.%s", cr_sname_as(f->owner, f->owner->name, how->names),
                       f->name);
    else
        cr_text_put(out, cr_sname_as(f, f->qualified, how->names));
}

void cr_scode_constant(cr_text *out, const cr_sconstant *v, const cr_scode *how)
{
    switch (v->type->kind) {
    case CR_STYPE_LIST:
    case CR_STYPE_DICT:
        if (v->count) {
            if (v->type->kind == CR_STYPE_LIST)
                code_items(out, v, how, "[", "]");
            else
                code_dict_constant(out, v, how);
            return;
        }
        cr_text_put(out, "annotate(");
        cr_stype_annotate_as(out, v->type, how->names);
        cr_text_put(out, v->type->kind == CR_STYPE_LIST ? ", [])" : ", {})");
        return;
    case CR_STYPE_TUPLE: code_items(out, v, how, "(", v->count == 1 ? ",)" : ")"); return;
    case CR_STYPE_DEVICE:
        cr_text_put(out, "torch.device(");
        cr_sconstant_print(out, v);
        cr_text_put(out, ")");
        return;
    case CR_STYPE_TENSOR: code_tensor(out, v->tensor, how); return;
    case CR_STYPE_FUNCTION: code_function(out, v->function, how); return;
    case CR_STYPE_ENUM:
        cr_text_printf(out, "%s.%s", cr_sname_as(v->type->cls, v->type->cls->name, how->names),
                       v->s);
        return;
    default: cr_sconstant_print(out, v);
    }
}

/* --- expressions --- */

static void code_annotate(const coder *c, cr_text *out, const cr_stype *t)
{
    cr_stype_annotate_as(out, t, c->how->names);
}

/* The text of its items tells the type of a list. */
static bool code_is_told(const cr_stype *t)
{
    return t->kind != CR_STYPE_OPTIONAL && t->kind != CR_STYPE_UNION &&
           t->kind != CR_STYPE_INTERFACE && t->kind != CR_STYPE_ANY &&
           t->kind != CR_STYPE_NUMBER;
}

static void code_pairs(const coder *c, cr_text *out, const cr_snode *n)
{
    cr_text_put(out, "{");
    for (int i = 0; i + 1 < n->input_count; i += 2)
        cr_text_printf(out, "%s%s: %s", i ? ", " : "", code_of(c, n->input[i]),
                       code_of(c, n->input[i + 1]));
    cr_text_put(out, "}");
}

static void code_display(const coder *c, cr_text *out, const cr_snode *n)
{
    const cr_stype *t = n->output[0]->type;
    bool list = n->prim == CR_SPRIM_LIST_CONSTRUCT, told = n->input_count > 0;

    for (int i = 0; i < t->count; i++)
        told &= code_is_told(t->item[i]);
    if (!told) {
        cr_text_put(out, "annotate(");
        code_annotate(c, out, t);
        cr_text_put(out, ", ");
    }
    if (list)
        code_values(c, out, n->input, n->input_count, "[", "]");
    else
        code_pairs(c, out, n);
    cr_text_put(out, told ? "" : ")");
}

static void code_typed(const coder *c, cr_text *out, const char *name, const cr_stype *type,
                       const cr_svalue *v)
{
    cr_text_printf(out, "%s(", name);
    code_annotate(c, out, type);
    if (v)
        cr_text_printf(out, ", %s", code_of(c, v));
    cr_text_put(out, ")");
}

static void code_get_attribute(const coder *c, cr_text *out, const cr_snode *n)
{
    cr_sconstant name = {.type = CR_STYPE_OF(STR)};

    if (cr_is_identifier(n->name)) {
        cr_text_printf(out, "%s.%s", code_of(c, n->input[0]), n->name);
        return;
    }
    name.s = n->name;
    name.len = strlen(n->name);
    cr_text_printf(out, "getattr(%s, ", code_of(c, n->input[0]));
    cr_sconstant_print(out, &name);
    cr_text_put(out, ")");
}

/* A function that replaces an operator is printed as that operator. */
static bool code_is_operator(const cr_sconstant *f)
{
    return f && f->type->kind == CR_STYPE_FUNCTION && f->function->stands_for;
}

static void code_replaced(const coder *c, cr_text *out, const cr_snode *n,
                          const cr_sfunction *f)
{
    cr_text_printf(out, "torch.%s(", strstr(f->stands_for, "::") + 2);
    for (int i = 1; i < n->input_count; i++) {
        const cr_sparam *p = i <= f->schema.param_count ? &f->schema.param[i - 1] : NULL;
        cr_text_put(out, i > 1 ? ", " : "");
        if (p && p->keyword_only)
            cr_text_printf(out, "%s=", p->name);
        cr_text_put(out, code_of(c, n->input[i]));
    }
    cr_text_put(out, ")");
}

static void code_call(const coder *c, cr_text *out, const cr_snode *n)
{
    const cr_sconstant *f =
        n->prim == CR_SPRIM_CALL_FUNCTION ? cr_svalue_constant(n->input[0]) : NULL;

    if (code_is_operator(f)) {
        code_replaced(c, out, n, f->function);
        return;
    }
    if (n->prim == CR_SPRIM_CALL_FUNCTION)
        cr_text_printf(out, "%s(", code_of(c, n->input[0]));
    else
        cr_text_printf(out, "(%s).%s(", code_of(c, n->input[0]), n->name);
    for (int i = 1; i < n->input_count; i++)
        cr_text_printf(out, "%s, ", code_of(c, n->input[i]));
    cr_text_put(out, ")");
}

static void code_is_instance(const coder *c, cr_text *out, const cr_snode *n)
{
    cr_text_printf(out, "isinstance(%s, %s", code_of(c, n->input[0]),
                   n->tests.type_count == 1 ? "" : "(");
    for (int i = 0; i < n->tests.type_count; i++) {
        cr_text_put(out, i ? ", " : "");
        code_annotate(c, out, n->tests.types[i]);
    }
    cr_text_put(out, n->tests.type_count == 1 ? ")" : "))");
}

static bool code_same_constant(const cr_sconstant *a, const cr_sconstant *b)
{
    cr_text x = {0}, y = {0};

    cr_sconstant_print(&x, a);
    cr_sconstant_print(&y, b);
    bool same = (a->type->kind == b->type->kind || a->type->kind == CR_STYPE_LIST) &&
                !strcmp(cr_text_str(&x), cr_text_str(&y));
    cr_text_drop(&x);
    cr_text_drop(&y);
    return same;
}

/* The parameters from here on are those of out=. */
static int code_outs(const cr_sschema *s)
{
    int i = s->param_count;

    while (i && s->param[i - 1].keyword_only && s->param[i - 1].written)
        i--;
    return i;
}

/* Arguments that have their defaults, at the end or before those of out=, are not written. */
static int code_needed(const cr_snode *n)
{
    const cr_sschema *s = n->schema;
    int i = code_outs(s) - 1;

    if (n->input_count != s->param_count)
        return n->input_count;
    for (; i >= 0; i--) {
        const cr_sconstant *given = cr_svalue_constant(n->input[i]);
        if (!s->param[i].preset || !given || !code_same_constant(given, s->param[i].preset))
            break;
    }
    return i + 1;
}

static void code_operator(const coder *c, cr_text *out, const cr_snode *n)
{
    const char *name = n->schema->name, *colons = strstr(name, "::");
    int needed = code_needed(n), outs = code_outs(n->schema);
    const char *between = "";

    if (!strcmp(name, "aten::backward") || !strcmp(name, "aten::grad"))
        cr_text_printf(out, "torch.autograd.%s(", name + 6);
    else if (!strncmp(name, "aten::", 6))
        cr_text_printf(out, "torch.%s(", name + 6);
    else
        cr_text_printf(out, "ops.%.*s.%s(", (int)(colons - name), name, colons + 2);
    for (int i = 0; i < n->input_count; i++) {
        if (i >= needed && i < outs)
            continue;
        cr_text_put(out, between);
        between = ", ";
        if (i < n->schema->param_count && n->schema->param[i].keyword_only)
            cr_text_printf(out, "%s=", n->schema->param[i].name);
        cr_text_put(out, code_of(c, n->input[i]));
    }
    cr_text_put(out, ")");
}

/* Operators with a form of their own; false for the others. */
static bool code_special(const coder *c, cr_text *out, const cr_snode *n)
{
    static const struct {
        const char *name, *open;
    } calls[] = {{"aten::Int", "int("}, {"aten::Float", "float("}, {"aten::Bool", "bool("},
                 {"aten::str", "str("}, {"prim::Print", "print("}, {"aten::sorted", "sorted("}};
    const char *name = n->schema->name;

    for (size_t i = 0; i < CR_LEN(calls); i++)
        if (!strcmp(calls[i].name, name)) {
            code_values(c, out, n->input, n->input_count, calls[i].open, ")");
            return true;
        }
    if (!strcmp(name, "aten::IntImplicit") || !strcmp(name, "aten::FloatImplicit") ||
        !strcmp(name, "aten::ComplexImplicit") || !strcmp(name, "aten::ScalarImplicit")) {
        code_typed(c, out, "annotate", n->output[0]->type, n->input[0]);
        return true;
    }
    if (!strcmp(name, "prim::tolist")) {
        cr_text_put(out, "annotate(");
        code_annotate(c, out, n->output[0]->type);
        cr_text_printf(out, ", %s.tolist())", code_of(c, n->input[0]));
        return true;
    }
    if (!strcmp(name, "aten::__getitem__")) {
        const char *of = code_of(c, n->input[0]);
        cr_text_printf(out, cr_is_identifier(of) ? "%s[%s]" : "(%s)[%s]", of,
                       code_of(c, n->input[1]));
        return true;
    }
    return false;
}

static void code_tuple(const coder *c, cr_text *out, const cr_snode *n)
{
    const cr_stype *t = n->output[0]->type;

    if (t->cls)
        code_annotate(c, out, t);
    code_values(c, out, n->input, n->input_count, "(", n->input_count == 1 ? ",)" : ")");
}

static void code_expression(const coder *c, cr_text *out, const cr_snode *n)
{
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_CONSTANT:
        cr_scode_constant(out, cr_sconstant_now(c->s, n->value), c->how);
        break;
    case CR_SPRIM_TUPLE_CONSTRUCT: code_tuple(c, out, n); break;
    case CR_SPRIM_TUPLE_INDEX:
        cr_text_printf(out, "(%s)[%s]", code_of(c, n->input[0]), code_of(c, n->input[1]));
        break;
    case CR_SPRIM_TUPLE_SLICE:
        cr_text_printf(out, "(%s)[%lld:%lld]", code_of(c, n->input[0]),
                       (long long)n->slice.begin, (long long)n->slice.end);
        break;
    case CR_SPRIM_LIST_CONSTRUCT:
    case CR_SPRIM_DICT_CONSTRUCT: code_display(c, out, n); break;
    case CR_SPRIM_CREATE_OBJECT:
        code_annotate(c, out, n->output[0]->type);
        code_typed(c, out, ".__new__", n->output[0]->type, NULL);
        break;
    case CR_SPRIM_GET_ATTR: code_get_attribute(c, out, n); break;
    case CR_SPRIM_CALL_FUNCTION:
    case CR_SPRIM_CALL_METHOD:
    case CR_SPRIM_INTERFACE_METHOD: code_call(c, out, n); break;
    case CR_SPRIM_UNCHECKED_CAST:
        code_typed(c, out, "unchecked_cast", n->output[0]->type, n->input[0]);
        break;
    case CR_SPRIM_UNINITIALIZED:
        code_typed(c, out, "uninitialized", n->output[0]->type, NULL);
        break;
    case CR_SPRIM_IS_INSTANCE: code_is_instance(c, out, n); break;
    case CR_SPRIM_ENUM_NAME: cr_text_printf(out, "(%s).name", code_of(c, n->input[0])); break;
    case CR_SPRIM_ENUM_VALUE: cr_text_printf(out, "(%s).value", code_of(c, n->input[0])); break;
    case CR_SPRIM_PYTHON:
        cr_text_printf(out, "^%s(", n->name);
        code_values(c, out, n->input, n->input_count, ")(", ")");
        break;
    default:
        if (!code_special(c, out, n))
            code_operator(c, out, n);
    }
}

/* --- statements --- */

static void code_block(coder *c, const cr_sblock *b, bool more);
static void code_node(coder *c, const cr_snode *n, bool constants);

static void code_plain(coder *c, const cr_snode *n)
{
    cr_text text = {0};
    const char *kept;

    code_expression(c, &text, n);
    kept = cr_session_take_text(c->s, &text);
    bool inside = n->output_count == 1 && c->inside[n->output[0]->id];
    bool apart = code_is_constant(n) && !code_is_operator(n->value) && code_is_long(c, kept);
    if (!inside || apart) {
        code_define(c, n, kept);
        return;
    }
    c->text[n->output[0]->id] = kept;
    if (code_is_long(c, kept))
        code_split_long(c, n->output[0]);
}

/* x : T = v */
static void code_assign_typed(coder *c, const cr_svalue *to, const cr_svalue *from, bool typed,
                              const char *colon)
{
    code_indent(c);
    cr_text_put(c->out, code_of(c, to));
    if (typed) {
        cr_text_put(c->out, colon);
        code_annotate(c, c->out, to->type);
    }
    cr_text_printf(c->out, " = %s\n", code_of(c, from));
}

static bool code_is_union(const cr_stype *t)
{
    return t->kind == CR_STYPE_OPTIONAL || t->kind == CR_STYPE_UNION;
}

/* torch writes the type of a result that is the only one, in the first branch. */
static void code_if(coder *c, const cr_snode *n)
{
    code_name_all(c, n->output, n->output_count);
    const char *condition = code_of(c, n->input[0]);
    for (int i = 0; i < 2; i++) {
        code_indent(c);
        cr_text_printf(c->out, i ? "else:\n" : "if %s:\n", condition);
        c->level++;
        code_block(c, n->block[i], n->output_count > 0);
        if (!i && n->output_count == 1)
            code_assign_typed(c, n->output[0], n->block[0]->output[0],
                              code_is_union(n->output[0]->type), " : ");
        else
            code_assign(c, n->output, n->block[i]->output, n->output_count);
        c->level--;
    }
}

static void code_loop(coder *c, const cr_snode *n)
{
    const cr_sblock *b = n->block[0];
    bool counted = cr_sloop_kind_of(n) == CR_SLOOP_FOR;
    int from = counted ? 1 : 0;

    code_name_all(c, n->output, n->output_count);
    for (int i = 0; i < n->output_count; i++)
        c->text[b->input[i + 1]->id] = code_of(c, n->output[i]);
    for (int i = 0; i < n->output_count; i++)
        code_assign_typed(c, n->output[i], n->input[2 + i],
                          !cr_stype_equal(n->output[i]->type, n->input[2 + i]->type), ": ");
    code_name_all(c, b->input, 1);
    if (!counted)
        code_assign(c, b->input, n->input + 1, 1);
    code_indent(c);
    if (counted)
        cr_text_printf(c->out, "for %s in range(%s):\n", code_of(c, b->input[0]),
                       code_of(c, n->input[0]));
    else
        cr_text_printf(c->out, "while %s:\n", code_of(c, b->input[0]));
    c->level++;
    code_block(c, b, b->input_count > from);
    code_assign(c, b->input + from, b->output + from, b->output_count - from);
    c->level--;
}

static void code_return(coder *c, const cr_sblock *b)
{
    if (!b->output_count)
        return;
    code_indent(c);
    code_values(c, c->out, b->output, b->output_count, "return ", "\n");
}

static void code_fork(coder *c, const cr_snode *n)
{
    const char *name = code_name(c, "__forked_function");
    cr_text text = {0};

    code_indent(c);
    cr_text_printf(c->out, "def %s():\n", name);
    c->level++;
    code_block(c, n->block[0], true);
    code_return(c, n->block[0]);
    c->level--;
    cr_text_printf(&text, "fork(%s)", name);
    code_define(c, n, cr_session_take_text(c->s, &text));
}

static void code_enter(coder *c, const cr_snode *n)
{
    code_indent(c);
    cr_text_printf(c->out, "with %s", code_of(c, n->input[0]));
    if (n->output[0]->uses) {
        code_name_all(c, n->output, 1);
        cr_text_printf(c->out, " as %s", code_of(c, n->output[0]));
    }
    cr_text_put(c->out, ":\n");
    c->level++;
}

static void code_exit(coder *c, const cr_snode *n)
{
    if (n->prev && n->prev->prim == CR_SPRIM_ENTER) {
        code_indent(c);
        cr_text_put(c->out, "pass\n");
    }
    c->level--;
}

static void code_unpack(coder *c, const cr_snode *n)
{
    code_name_all(c, n->output, n->output_count);
    code_indent(c);
    if (n->output_count)
        code_values(c, c->out, n->output, n->output_count, "", ", = ");
    cr_text_printf(c->out, "%s\n", code_of(c, n->input[0]));
}

/* value : T = modules[key] */
static void code_module_index(coder *c, const cr_snode *n)
{
    code_name_all(c, n->output, 1);
    code_indent(c);
    cr_text_printf(c->out, "%s : ", code_of(c, n->output[0]));
    code_annotate(c, c->out, n->output[0]->type);
    cr_text_printf(c->out, " = %s[%s]\n", code_of(c, n->input[0]), code_of(c, n->input[1]));
}

static void code_node(coder *c, const cr_snode *n, bool constants)
{
    if (!constants && code_is_constant(n))
        return;
    switch ((cr_sprim)n->prim) {
    case CR_SPRIM_LOOP: code_loop(c, n); break;
    case CR_SPRIM_IF: code_if(c, n); break;
    case CR_SPRIM_TUPLE_UNPACK:
    case CR_SPRIM_LIST_UNPACK: code_unpack(c, n); break;
    case CR_SPRIM_SET_ATTR:
        code_indent(c);
        cr_text_printf(c->out, "%s.%s = %s\n", code_of(c, n->input[0]), n->name,
                       code_of(c, n->input[1]));
        break;
    case CR_SPRIM_MODULE_INDEX: code_module_index(c, n); break;
    case CR_SPRIM_FORK: code_fork(c, n); break;
    case CR_SPRIM_ENTER: code_enter(c, n); break;
    case CR_SPRIM_EXIT: code_exit(c, n); break;
    default: code_plain(c, n);
    }
}

static void code_block(coder *c, const cr_sblock *b, bool more)
{
    if (!more && !b->first) {
        code_indent(c);
        cr_text_put(c->out, "pass\n");
    }
    for (const cr_snode *n = b->first; n; n = n->next)
        code_node(c, n, false);
}

/* --- constants in the order of their use --- */

static void code_constant_value(coder *c, const cr_svalue *v)
{
    if (!code_is_constant(v->by) || cr_map_get(&c->seen, (const char *)&v->by, sizeof v->by))
        return;
    cr_session_check(c->s, cr_map_set(&c->seen, (const char *)&v->by, sizeof v->by, c));
    code_node(c, v->by, true);
}

static void code_constants(coder *c, const cr_sblock *b)
{
    for (const cr_snode *n = b->first; n; n = n->next) {
        for (int i = 0; i < n->input_count; i++)
            code_constant_value(c, n->input[i]);
        for (int i = 0; i < n->block_count; i++)
            code_constants(c, n->block[i]);
    }
    for (int i = 0; i < b->output_count; i++)
        code_constant_value(c, b->output[i]);
}

/* --- functions --- */

static void code_header(coder *c, const cr_sfunction *f)
{
    const cr_sschema *s = &f->schema;
    const char *own = cr_sname_as(f, f->name, f->owner ? NULL : c->how->names);
    const char *dot = strrchr(own, '.');

    cr_text_printf(c->out, "def %s(", dot ? dot + 1 : own);
    for (int i = 0; i < s->param_count; i++) {
        const char *name = code_name(c, s->param[i].name);
        bool bare = f->owner && !i && !c->how->self_type;
        cr_text_printf(c->out, "%s%s", i ? ",\n    " : "", name);
        if (!bare) {
            cr_text_put(c->out, ": ");
            code_annotate(c, c->out, s->param[i].type);
        }
        if (s->param[i].preset) {
            cr_text_put(c->out, "=");
            cr_scode_constant(c->out, s->param[i].preset, c->how);
        }
        c->text[f->graph->body->input[i]->id] = name;
    }
    cr_text_put(c->out, ") -> ");
    code_annotate(c, c->out, s->result[0].type);
    cr_text_put(c->out, ":\n");
}

typedef struct {
    cr_text *out;
    const cr_sfunction *f;
    const cr_scode *how;
    coder c;
} code_job;

static void code_maps_drop(coder *c)
{
    cr_map_drop(&c->split);
    cr_map_drop(&c->used);
    cr_map_drop(&c->next);
    cr_map_drop(&c->seen);
}

static void code_run(cr_session *s, void *context)
{
    code_job *job = context;
    const cr_sgraph *g = job->f->graph;
    coder *c = &job->c;

    *c = (coder){.s = s, .out = job->out, .how = job->how};
    c->text = CR_NEW_N(s, const char *, g->values + 1);
    c->inside = CR_NEW_N(s, bool, g->values + 1);
    c->use = CR_NEW_N(s, code_use, g->values + 1);
    code_find_uses(c, g->body);
    code_scan_block(c, g->body);
    code_header(c, job->f);
    c->level = 1;
    code_constants(c, g->body);
    code_block(c, g->body, g->body->output_count > 0);
    code_return(c, g->body);
}

cr_status cr_scode_function(cr_text *out, const cr_sfunction *f, const cr_scode *how)
{
    cr_scode_tensors own = {0};
    cr_scode used = how ? *how : (cr_scode){0};
    code_job job = {.out = out, .f = f, .how = &used};
    cr_session s = {0};
    cr_status st;

    if (!f->graph)
        return cr_fail(CR_RUNTIME, "'%s' has no code", f->qualified);
    used.tensors = used.tensors ? used.tensors : &own;
    st = cr_session_run(&s, code_run, &job);
    code_maps_drop(&job.c);
    cr_vec_drop(&own);
    cr_session_drop(&s);
    return st ? st : cr_text_status(out);
}
