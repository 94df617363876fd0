/* torch's text of graphs, constants and schemas. */
#include "autograd/autograd.h"
#include "script/execute.h"
#include "script/unit.h"
#include <math.h>
#include <string.h>

typedef struct {
    cr_text *out;
    unsigned *number; /* by the value's id: its number, from 1 */
    unsigned numbers;
    bool ranges;
    cr_splace place; /* of the last range */
    bool traced;
    cr_map last; /* of a trace: by name, the last value with it, which has no number */
} graph_printer;

/* --- constants --- */

/* The shortest of the forms with 17 digits: "2.", "0.10000000000000001", "1.0e-05". */
static void print_float(cr_text *out, double d)
{
    if (isnan(d))
        cr_text_put(out, "nan");
    else if (isinf(d))
        cr_text_put(out, d < 0 ? "-inf" : "inf");
    else
        cr_text_printf(out, "%.17g%s", d, d == floor(d) && fabs(d) < 1e17 ? "." : "");
}

static void print_escaped(cr_text *out, const char *s, size_t len)
{
    static const char letters[] = "\a\b\f\n\r\t\v\"\\\'", codes[] = "abfnrtv\"\\'";

    cr_text_char(out, '"');
    for (size_t i = 0; i < len; i++) {
        const char *at = s[i] ? strchr(letters, s[i]) : NULL;
        if (at)
            cr_text_printf(out, "\\%c", codes[at - letters]);
        else if ((unsigned char)s[i] < 32 || (unsigned char)s[i] > 126)
            cr_text_printf(out, "\\%03o", (unsigned char)s[i]);
        else
            cr_text_char(out, s[i]);
    }
    cr_text_char(out, '"');
}

static void print_items(cr_text *out, const cr_sconstant *c, const char *open,
                        const char *close)
{
    cr_text_put(out, open);
    for (int i = 0; i < c->count; i++) {
        cr_text_put(out, i ? ", " : "");
        cr_sconstant_print(out, &c->item[i]);
    }
    cr_text_put(out, close);
}

static void print_pairs(cr_text *out, const cr_sconstant *c)
{
    cr_text_put(out, "{");
    for (int i = 0; i + 1 < c->count; i += 2) {
        cr_text_put(out, i ? ", " : "");
        cr_sconstant_print(out, &c->item[i]);
        cr_text_put(out, ": ");
        cr_sconstant_print(out, &c->item[i + 1]);
    }
    cr_text_put(out, "}");
}

void cr_sconstant_print(cr_text *out, const cr_sconstant *c)
{
    switch (c->type->kind) {
    case CR_STYPE_INT: cr_text_printf(out, "%lld", (long long)c->i); break;
    case CR_STYPE_BOOL: cr_text_put(out, c->i ? "True" : "False"); break;
    case CR_STYPE_FLOAT: print_float(out, c->d[0]); break;
    case CR_STYPE_COMPLEX:
        print_float(out, c->d[0]);
        cr_text_put(out, c->d[1] < 0 ? "" : "+");
        print_float(out, c->d[1]);
        cr_text_put(out, "j");
        break;
    case CR_STYPE_STR:
    case CR_STYPE_DEVICE: print_escaped(out, c->s, c->len); break;
    case CR_STYPE_NONE: cr_text_put(out, "None"); break;
    case CR_STYPE_LIST: print_items(out, c, "[", "]"); break;
    case CR_STYPE_TUPLE: print_items(out, c, "(", c->count == 1 ? ",)" : ")"); break;
    case CR_STYPE_DICT: print_pairs(out, c); break;
    case CR_STYPE_ENUM: cr_text_printf(out, "%s.%s", c->type->cls->name, c->s); break;
    case CR_STYPE_TENSOR: cr_text_put(out, "<Tensor>"); break;
    default: cr_text_put(out, "<object>");
    }
}

/* --- nodes --- */

static void print_name(graph_printer *p, const cr_svalue *v)
{
    unsigned n = p->number[v->id];

    if (v->name && !v->by && !v->uses && !v->block->by) /* a parameter that is not read */
        cr_text_printf(p->out, "%%%s", v->name);
    else if (v->name && cr_map_get(&p->last, v->name, strlen(v->name)) == v)
        cr_text_printf(p->out, "%%%s", v->name);
    else if (v->name)
        cr_text_printf(p->out, "%%%s.%u", v->name, n);
    else
        cr_text_printf(p->out, "%%%u", n - p->traced); /* a trace counts from 0 */
}

void cr_stype_print_of(cr_text *out, const cr_tensor *t)
{
    cr_device_text device = cr_device_print(t->device);
    cr_stype_tensor known = {.dtype = t->dtype,
                             .ndim = t->ndim,
                             .size = t->size,
                             .stride = t->stride,
                             .requires = cr_requires_grad(t),
                             .device = device.text};
    cr_stype type = {.kind = CR_STYPE_TENSOR, .tensor = &known};

    if (t->layout != CR_LAYOUT_STRIDED)
        type.tensor = NULL;
    cr_stype_print(out, &type);
}

static void print_definition(graph_printer *p, const cr_svalue *v)
{
    p->number[v->id] = ++p->numbers;
    print_name(p, v);
    cr_text_put(p->out, " : ");
    const cr_sconstant *c = cr_svalue_constant(v);
    if (c && c->type->kind == CR_STYPE_TENSOR && c->tensor)
        cr_stype_print_of(p->out, c->tensor);
    else
        cr_stype_print(p->out, v->type);
}

static void print_uses(graph_printer *p, cr_svalue *const *v, int n)
{
    cr_text_put(p->out, "(");
    for (int i = 0; i < n; i++) {
        cr_text_put(p->out, i ? ", " : "");
        print_name(p, v[i]);
    }
    cr_text_put(p->out, ")");
}

enum { TENSOR_MOST = 10 }; /* elements of a tensor that is printed */

/* {1} for one number; a few numbers in one line, as str() has them. */
static void print_tensor(cr_text *out, cr_tensor *t)
{
    cr_ivalue v = cr_iv_tensor(t);
    cr_text text = {0};
    int64_t n = t->numel;
    const char *end;

    if (n > TENSOR_MOST || cr_ivalue_print(&text, &v)) {
        cr_text_put(out, "<Tensor>");
        cr_text_drop(&text);
        return;
    }
    end = strchr(cr_text_str(&text), '\n');
    const char *start = cr_text_str(&text) + strspn(cr_text_str(&text), " ");
    if (n == 1 && end)
        cr_text_printf(out, "{%.*s}", (int)(end - start), start);
    else
        for (const char *at = cr_text_str(&text); *at; at++)
            cr_text_char(out, *at == '\n' ? ' ' : *at);
    cr_text_drop(&text);
}

static void print_value(graph_printer *p, const cr_sconstant *c)
{
    if (c->type->kind == CR_STYPE_NONE)
        return;
    if (c->type->kind == CR_STYPE_FUNCTION) {
        cr_text_put(p->out, "[name=");
        print_escaped(p->out, c->function->name, strlen(c->function->name));
    } else {
        cr_text_put(p->out, "[value=");
        if (c->type->kind == CR_STYPE_BOOL)
            cr_text_put(p->out, c->i ? "1" : "0");
        else if (c->type->kind == CR_STYPE_TENSOR && c->tensor)
            print_tensor(p->out, c->tensor);
        else
            cr_sconstant_print(p->out, c);
    }
    cr_text_put(p->out, "]");
}

static void print_types(graph_printer *p, const cr_snode *n)
{
    cr_text_put(p->out, "[types=[");
    for (int i = 0; i < n->tests.type_count; i++) {
        cr_text_put(p->out, i ? ", " : "");
        cr_stype_print(p->out, n->tests.types[i]);
    }
    cr_text_put(p->out, "]]");
}

static void print_attributes(graph_printer *p, const cr_snode *n)
{
    if (n->prim == CR_SPRIM_CONSTANT)
        print_value(p, n->value);
    else if (n->prim == CR_SPRIM_PYTHON)
        cr_text_printf(p->out, "^%s[]()", n->name);
    else if (n->prim == CR_SPRIM_TUPLE_SLICE)
        cr_text_printf(p->out, "[beg=%lld, end=%lld]", (long long)n->slice.begin,
                       (long long)n->slice.end);
    else if (n->prim == CR_SPRIM_IS_INSTANCE)
        print_types(p, n);
    else if (n->name) {
        cr_text_put(p->out, "[name=");
        print_escaped(p->out, n->name, strlen(n->name));
        cr_text_put(p->out, "]");
    }
}

static void print_range(graph_printer *p, cr_srange r)
{
    int line, column;

    if (!p->ranges || !r.source || !r.source->name)
        return;
    cr_srange_place(r, &p->place, &line, &column);
    cr_text_printf(p->out, " # %s:%d:%d", r.source->name, line, column);
}

static void print_block(graph_printer *p, const cr_sblock *b, int level);

static void print_blocks(graph_printer *p, const cr_snode *n, int level)
{
    for (int i = 0; i < n->block_count; i++) {
        const cr_sblock *b = n->block[i];
        cr_text_pad(p->out, (size_t)level * 2 + 2, ' ');
        cr_text_printf(p->out, "block%d(", i);
        for (int k = 0; k < b->input_count; k++) {
            cr_text_put(p->out, k ? ", " : "");
            print_definition(p, b->input[k]);
        }
        cr_text_put(p->out, "):\n");
        print_block(p, b, level + 2);
        cr_text_pad(p->out, (size_t)level * 2 + 4, ' ');
        cr_text_put(p->out, "-> ");
        print_uses(p, b->output, b->output_count);
        cr_text_put(p->out, "\n");
    }
}

/* Nodes that torch makes without a place in the source. */
static bool print_has_no_place(const cr_snode *n)
{
    return n->prim == CR_SPRIM_LIST_CONSTRUCT || n->prim == CR_SPRIM_DICT_CONSTRUCT ||
           n->prim == CR_SPRIM_TUPLE_CONSTRUCT || n->prim == CR_SPRIM_UNCHECKED_CAST ||
           n->prim == CR_SPRIM_ENTER || n->prim == CR_SPRIM_EXIT;
}

/* The function of this package by which a node calls an operator that the table lacks; NULL for
 * others. */
static const cr_sfunction *print_stand_in(const cr_snode *n)
{
    const cr_sconstant *c = n->prim == CR_SPRIM_CALL_FUNCTION ? cr_svalue_constant(n->input[0])
                            : n->prim == CR_SPRIM_CONSTANT    ? n->value
                                                              : NULL;

    return c && c->type->kind == CR_STYPE_FUNCTION && c->function->stands_for ? c->function
                                                                              : NULL;
}

static void print_node(graph_printer *p, const cr_snode *n, int level)
{
    const cr_sfunction *in = print_stand_in(n);

    if (in && n->prim == CR_SPRIM_CONSTANT)
        return;
    cr_text_pad(p->out, (size_t)level * 2, ' ');
    for (int i = 0; i < n->output_count; i++) {
        cr_text_put(p->out, i ? ", " : "");
        print_definition(p, n->output[i]);
    }
    cr_text_printf(p->out, " = %s",
                   in                           ? in->stands_for
                   : n->prim == CR_SPRIM_PYTHON ? ""
                                                : cr_snode_kind(n));
    print_attributes(p, n);
    print_uses(p, n->input + (in != NULL), n->input_count - (in != NULL));
    if (n->from.scope)
        cr_text_printf(p->out, ", scope: %s", n->from.scope);
    if (!print_has_no_place(n))
        print_range(p, n->from.range);
    cr_text_put(p->out, "\n");
    print_blocks(p, n, level);
}

static void print_block(graph_printer *p, const cr_sblock *b, int level)
{
    for (const cr_snode *n = b->first; n; n = n->next)
        print_node(p, n, level);
}

static void print_body(graph_printer *p, const cr_sblock *b)
{
    cr_text_put(p->out, "graph(");
    for (int i = 0; i < b->input_count; i++) {
        cr_text_put(p->out, i ? ",\n      " : "");
        print_definition(p, b->input[i]);
    }
    cr_text_put(p->out, "):\n");
    print_block(p, b, 1);
    cr_text_put(p->out, "  return ");
    print_uses(p, b->output, b->output_count);
    cr_text_put(p->out, "\n");
}

static void find_last(graph_printer *p, cr_svalue *const *v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i]->name && strcmp(v[i]->name, "self") &&
            cr_map_set(&p->last, v[i]->name, strlen(v[i]->name), v[i]))
            p->out->failed = CR_MEMORY;
}

static void find_last_in(graph_printer *p, const cr_sblock *b)
{
    find_last(p, b->input, b->input_count);
    for (const cr_snode *n = b->first; n; n = n->next) {
        find_last(p, n->output, n->output_count);
        for (int i = 0; i < n->block_count; i++)
            find_last_in(p, n->block[i]);
    }
}

void cr_sgraph_print(cr_text *out, const cr_sgraph *g, bool ranges)
{
    graph_printer p = {.out = out, .ranges = ranges, .traced = g->traced};

    if (g->traced)
        find_last_in(&p, g->body);
    p.number = cr_alloc_zero((g->values + 1) * sizeof *p.number);
    if (p.number)
        print_body(&p, g->body);
    else
        out->failed = CR_MEMORY;
    cr_free(p.number);
    cr_map_drop(&p.last);
}

/* --- schemas --- */

/* Declarations write named tuples by name and Future(T), graphs their fields and Future[T]. */
static void print_declared(cr_text *out, const cr_stype *t)
{
    if (t->kind == CR_STYPE_TUPLE && t->cls)
        cr_text_put(out, t->cls->name);
    else if (t->kind == CR_STYPE_FUTURE) {
        cr_text_put(out, "Future(");
        print_declared(out, t->item[0]);
        cr_text_put(out, ")");
    } else if (t->kind == CR_STYPE_TUPLE && !t->field) {
        for (int i = 0; i < t->count; i++) {
            cr_text_put(out, i ? ", " : "(");
            print_declared(out, t->item[i]);
        }
        cr_text_put(out, t->count ? ")" : "()");
    } else
        cr_stype_print(out, t);
}

/* A default: strings inside of tuples have no quotes, as in torch. */
static void print_preset(cr_text *out, const cr_sconstant *c)
{
    if (c->type->kind == CR_STYPE_DEVICE) {
        cr_text_put_n(out, c->s, c->len);
        return;
    }
    if (c->type->kind != CR_STYPE_TUPLE || !c->count) {
        cr_sconstant_print(out, c);
        return;
    }
    for (int i = 0; i < c->count; i++) {
        cr_text_put(out, i ? ", " : "(");
        if (c->item[i].type->kind == CR_STYPE_STR)
            cr_text_put_n(out, c->item[i].s, c->item[i].len);
        else
            print_preset(out, &c->item[i]);
    }
    cr_text_put(out, c->count == 1 ? ",)" : ")");
}

static void print_param(cr_text *out, const cr_sparam *p)
{
    if (p->shown)
        cr_text_put(out, p->shown);
    else
        print_declared(out, p->type);
    if (p->alias && !p->shown)
        cr_text_printf(out, "(%c%s)", p->alias, p->written ? "!" : "");
    if (p->name && *p->name)
        cr_text_printf(out, " %s", p->name);
    if (p->preset) {
        cr_text_put(out, "=");
        print_preset(out, p->preset);
    }
}

void cr_sschema_print(cr_text *out, const cr_sschema *s)
{
    bool keywords = false;

    cr_text_printf(out, "%s%s%s(", s->name, *s->overload ? "." : "", s->overload);
    for (int i = 0; i < s->param_count; i++) {
        cr_text_put(out, i ? ", " : "");
        cr_text_put(out, s->param[i].keyword_only && !keywords ? "*, " : "");
        keywords = s->param[i].keyword_only;
        print_param(out, &s->param[i]);
    }
    cr_text_put(out, s->any_params ? s->param_count ? ", ...) -> " : "...) -> " : ") -> ");
    /* so that one tuple is not read as several results */
    bool bare = s->result_count == 1 && (s->result->type->kind != CR_STYPE_TUPLE ||
                                         s->result->type->cls || s->result->type->field);
    cr_text_put(out, bare ? "" : "(");
    for (int i = 0; i < s->result_count; i++) {
        cr_text_put(out, i ? ", " : "");
        print_param(out, &s->result[i]);
    }
    cr_text_put(out, bare ? "" : ")");
}
