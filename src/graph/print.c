/* Graphs as text, which parse.c reads. */
#include "graph/graph.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Constants with at most this many elements print their values. */
enum { SHOWN = 16 };

/* --- literals --- */

/* Prints the shortest digits that read back as the same number, with a point or an exponent. */
static void print_float(cr_text *out, double d)
{
    if (cr_gnum_is_float(d)) {
        cr_text_printf(out, "$%d", cr_gnum_of_float(d));
        return;
    }
    char text[32];

    if (isnan(d) || isinf(d)) {
        cr_text_put(out, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    cr_text_put(out, text);
    if (!strpbrk(text, ".e"))
        cr_text_put(out, ".0");
}

static void print_int(cr_text *out, int64_t i)
{
    if (cr_gnum_is_int(i))
        cr_text_printf(out, "$%d", cr_gnum_of_int(i));
    else
        cr_text_printf(out, "%lld", (long long)i);
}

static void print_number(cr_text *out, cr_scalar n)
{
    switch (n.category) {
    case CR_CAT_BOOL: cr_text_put(out, n.i ? "True" : "False"); break;
    case CR_CAT_INT: print_int(out, n.i); break;
    case CR_CAT_FLOAT: print_float(out, n.d); break;
    default:
        cr_text_put(out, "complex(");
        print_float(out, n.c.re);
        cr_text_put(out, ", ");
        print_float(out, n.c.im);
        cr_text_char(out, ')');
    }
}

static void print_string(cr_text *out, const char *s, uint32_t n)
{
    cr_text_char(out, '"');
    for (uint32_t i = 0; i < n; i++) {
        if (s[i] == '"' || s[i] == '\\')
            cr_text_char(out, '\\');
        if (s[i] == '\n')
            cr_text_put(out, "\\n");
        else
            cr_text_char(out, s[i]);
    }
    cr_text_char(out, '"');
}

/* A CR_DEVICE_VAL. */
static void print_device(cr_text *out, int64_t packed)
{
    int index = cr_packed_index(packed);

    cr_text_printf(out, "\"%s", cr_device_kind_name(cr_packed_kind(packed)));
    if (index >= 0)
        cr_text_printf(out, ":%d", index);
    cr_text_char(out, '"');
}

static void print_graph_arg(cr_text *out, const cr_garg *a);

static void print_item(cr_text *out, const cr_garg *a, uint32_t i)
{
    switch (a->tag) {
    case CR_INTS: print_int(out, a->ints[i]); break;
    case CR_TRUTHS: cr_text_put(out, a->ints[i] ? "True" : "False"); break;
    case CR_FLOATS: print_float(out, a->floats[i]); break;
    default: print_graph_arg(out, &a->list[i]);
    }
}

static void print_graph_arg(cr_text *out, const cr_garg *a)
{
    switch (a->tag) {
    case CR_NONE: cr_text_put(out, "None"); break;
    case CR_TENSOR: cr_text_printf(out, "%%%s", a->value->name); break;
    case CR_NUMBER: print_number(out, a->number); break;
    case CR_INT: print_int(out, a->i); break;
    case CR_FLOAT: print_float(out, a->d); break;
    case CR_TRUTH: cr_text_put(out, a->i ? "True" : "False"); break;
    case CR_DTYPE_VAL: cr_text_put(out, cr_dtype_name((cr_dtype)a->i)); break;
    case CR_DEVICE_VAL: print_device(out, a->i); break;
    case CR_LAYOUT_VAL: cr_text_put(out, "strided"); break;
    case CR_FORMAT_VAL: cr_text_put(out, cr_format_names[a->i]); break;
    case CR_STRING: print_string(out, a->s, a->len); break;
    case CR_GENERATOR: cr_text_put(out, "generator"); break;
    default:
        cr_text_char(out, '[');
        for (uint32_t i = 0; i < a->len; i++) {
            cr_text_put(out, i ? ", " : "");
            print_item(out, a, i);
        }
        cr_text_char(out, ']');
    }
}

/* --- types --- */

static void print_sizes(cr_text *out, int n, const int64_t *at)
{
    for (int i = 0; i < n; i++)
        cr_text_printf(out, "%s%lld", i ? ", " : "", (long long)at[i]);
}

static void print_gtype(cr_text *out, const cr_gtype *t)
{
    if (!t->known)
        return;
    cr_text_printf(out, ": %s[", cr_dtype_name((cr_dtype)t->dtype));
    print_sizes(out, t->ndim, t->size);
    cr_text_char(out, ']');
    if (t->stride) {
        cr_text_put(out, " by [");
        print_sizes(out, t->ndim, t->stride);
        cr_text_char(out, ']');
    }
    if (!cr_is_host(t->device))
        cr_text_printf(out, " on %s", cr_device_print(t->device).text);
    if (t->requires_grad)
        cr_text_put(out, " grad");
}

/* --- nodes --- */

static bool arg_is_default(const cr_garg *a, const cr_param *p)
{
    const cr_value *d = &p->preset;

    if (!p->has_default || a->tag != d->tag)
        return false;
    switch (a->tag) {
    case CR_NONE: return true;
    /* compares bits: -0.0 differs from 0.0 */
    case CR_NUMBER:
        return a->number.category == d->number.category &&
               a->number.category != CR_CAT_COMPLEX && a->number.i == d->number.i;
    case CR_FLOAT:
    case CR_INT:
    case CR_TRUTH:
    case CR_DTYPE_VAL:
    case CR_FORMAT_VAL:
    case CR_LAYOUT_VAL: return a->i == d->i;
    case CR_STRING: return a->len == d->len && (!a->len || !memcmp(a->s, d->s, a->len));
    case CR_INTS:
    case CR_TRUTHS:
        return a->len == d->len &&
               (!a->len || !memcmp(a->ints, d->ints, a->len * sizeof *a->ints));
    default: return false;
    }
}

/* Prints arguments by position up to the first one with its default value, then by name. */
static void print_node_args(cr_text *out, const cr_gnode *n)
{
    const char *comma = "";
    bool named = false;

    for (int i = 0; i < n->arg_count; i++) {
        const cr_param *p = &n->op->param[i];
        if (arg_is_default(&n->arg[i], p)) {
            named = true;
            continue;
        }
        cr_text_put(out, comma);
        if (named || p->keyword_only)
            cr_text_printf(out, "%s=", p->name);
        print_graph_arg(out, &n->arg[i]);
        comma = ", ";
    }
}

static void print_constant(cr_text *out, const cr_gnode *n)
{
    const cr_tensor *t = n->constant;
    char *p;

    cr_text_put(out, "constant(");
    if (cr_reach(&p, t) || t->numel > SHOWN || !t->contiguous || !p) {
        cr_text_put(out, "...)");
        return;
    }
    for (int64_t i = 0; i < t->numel; i++, p += cr_dtype_size((cr_dtype)t->dtype)) {
        cr_text_put(out, i ? ", " : "");
        print_number(out, cr_scalar_load((cr_dtype)t->dtype, p));
    }
    cr_text_char(out, ')');
}

/* A name without overload is the first overload. */
static void print_op(cr_text *out, const cr_op *op)
{
    const char *overload =
        *op->overload || cr_ops_find(op->name) == op ? op->overload : "default";

    cr_text_printf(out, "%s%s%s(", op->name, *overload ? "." : "", overload);
}

static void print_block(cr_text *out, const cr_gblock *b, size_t indent);

static void print_node(cr_text *out, const cr_gnode *n, size_t indent)
{
    cr_text_pad(out, indent, ' ');
    for (int k = 0; k < n->result_count; k++) {
        cr_text_printf(out, "%s%%%s", k ? ", " : "", n->result[k]->name);
        print_gtype(out, &n->result[k]->type);
    }
    cr_text_put(out, n->result_count ? " = " : "");
    if (n->kind == CR_GNODE_CONSTANT) {
        print_constant(out, n);
    } else if (n->kind == CR_GNODE_IF) {
        cr_text_printf(out, "if %%%s {\n", n->arg[0].value->name);
        print_block(out, n->block[0], indent + 2);
        cr_text_pad(out, indent, ' ');
        cr_text_put(out, "} else {\n");
        print_block(out, n->block[1], indent + 2);
        cr_text_pad(out, indent, ' ');
        cr_text_char(out, '}');
    } else if (n->kind == CR_GNODE_GROUP) {
        cr_text_put(out, "group {\n");
        print_block(out, n->block[0], indent + 2);
        cr_text_pad(out, indent, ' ');
        cr_text_char(out, '}');
    } else {
        print_op(out, n->op);
        print_node_args(out, n);
        cr_text_put(out, n->no_grad ? ") no_grad" : n->same ? ") same" : ")");
    }
    if (n->source)
        cr_text_printf(out, "  # %s", n->source);
    cr_text_char(out, '\n');
}

static void print_block(cr_text *out, const cr_gblock *b, size_t indent)
{
    for (size_t i = 0; i < b->len; i++)
        print_node(out, b->at[i], indent);
    cr_text_pad(out, indent, ' ');
    cr_text_put(out, "return");
    for (int i = 0; i < b->output_count; i++) {
        cr_text_put(out, i ? ", " : " ");
        print_graph_arg(out, &b->output[i]);
    }
    cr_text_char(out, '\n');
}

/* Prints "$2: 12 = mul($0, $1)": the recorded value and the origin. */
static void print_symbol(cr_text *out, const cr_gnumbers *n, size_t k)
{
    const cr_gnumber *x = &n->list.at[k];

    cr_text_printf(out, "  $%zu%s ", k, x->fn == CR_GNUM_CONST ? " =" : ":");
    print_number(out, x->value);
    if (x->fn == CR_GNUM_INPUT)
        cr_text_printf(out, " = number(%d)", x->a);
    else if (x->fn == CR_GNUM_SIZE)
        cr_text_printf(out, " = size(%%%s, %d)", x->of->name, x->a);
    else if (cr_gnum_is_unary((cr_gnum_fn)x->fn))
        cr_text_printf(out, " = %s($%d)", cr_gnum_fn_name[x->fn], x->a);
    else if (x->fn != CR_GNUM_CONST)
        cr_text_printf(out, " = %s($%d, $%d)", cr_gnum_fn_name[x->fn], x->a, x->b);
    cr_text_char(out, '\n');
}

static void print_numbers(cr_text *out, const cr_gnumbers *n)
{
    for (size_t k = 0; k < n->list.len; k++)
        print_symbol(out, n, k);
    for (size_t i = 0; i < n->guards.len; i++) {
        const cr_gnum_guard *g = &n->guards.at[i];
        cr_text_printf(out, "  guard %s$%d %s $%d\n", g->holds ? "" : "not ", g->a,
                       cr_gnum_test_name[g->test], g->b);
    }
}

void cr_graph_print(cr_text *out, const cr_graph *g)
{
    cr_text_put(out, "graph(");
    for (int i = 0; i < g->input_count; i++) {
        cr_text_printf(out, "%s%%%s", i ? ", " : "", g->input[i]->name);
        print_gtype(out, &g->input[i]->type);
    }
    cr_text_put(out, ") {\n");
    print_numbers(out, &g->numbers);
    print_block(out, g->body, 2);
    cr_text_put(out, "}\n");
}
