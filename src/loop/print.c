/* Programs as text.
 *
 * Declarations are omitted when the parser would infer them from the text: all types are
 * float32, and inputs and parameters are numbered in the order of first use. */
#include "loop/loop.h"
#include "loop/nest.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- expressions --- */

enum { LEVEL_COMPARE = 3, LEVEL_SUM = 4, LEVEL_PRODUCT = 5, LEVEL_UNARY = 6, LEVEL_ATOM = 8 };

static const struct {
    cr_fn fn;
    const char *sign;
    int level;
} infix[] = {
    {CR_FN_eq, " == ", LEVEL_COMPARE}, {CR_FN_ne, " != ", LEVEL_COMPARE},
    {CR_FN_lt, " < ", LEVEL_COMPARE},  {CR_FN_le, " <= ", LEVEL_COMPARE},
    {CR_FN_gt, " > ", LEVEL_COMPARE},  {CR_FN_ge, " >= ", LEVEL_COMPARE},
    {CR_FN_add, " + ", LEVEL_SUM},     {CR_FN_sub, " - ", LEVEL_SUM},
    {CR_FN_mul, " * ", LEVEL_PRODUCT}, {CR_FN_div, " / ", LEVEL_PRODUCT},
};

static void print_real(cr_text *out, double v, bool single)
{
    char text[40];

    if (isnan(v)) {
        cr_text_put(out, "nan");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (back == v || (single && (float)back == (float)v))
            break;
    }
    cr_text_put(out, text);
}

static void print_const(cr_text *out, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;

    switch (cr_dtype_category(t)) {
    case CR_CAT_BOOL: cr_text_put(out, e->value.i ? "True" : "False"); break;
    case CR_CAT_INT: cr_text_printf(out, "%" PRId64, e->value.i); break;
    case CR_CAT_FLOAT: print_real(out, e->value.d, t == CR_F32); break;
    case CR_CAT_COMPLEX:
        cr_text_put(out, "complex(");
        print_real(out, e->value.c.re, t == CR_C64);
        cr_text_put(out, ", ");
        print_real(out, e->value.c.im, t == CR_C64);
        cr_text_char(out, ')');
        break;
    }
}

static void print_level(cr_text *out, const cr_expr *e, int level);

static bool prints_as_literal(const cr_expr *e)
{
    return e->kind == CR_EXPR_CONST && e->dtype != CR_BOOL;
}

/* Prints argument i. If all arguments of a call are literals, the first states its type. */
static void print_expr_arg(cr_text *out, const cr_expr *e, int i, int level)
{
    int first = cr_fn_infos[e->fn].kind == CR_FN_SELECT ? 1 : 0;
    bool all = i == first;

    for (int k = first; k < e->count; k++)
        all = all && prints_as_literal(e->args[k]);
    if (all && e->kind == CR_EXPR_CALL) {
        cr_text_printf(out, "%s(", cr_dtype_infos[e->args[i]->dtype].suffix);
        print_const(out, e->args[i]);
        cr_text_char(out, ')');
        return;
    }
    print_level(out, e->args[i], level);
}

static void print_infix(cr_text *out, const cr_expr *e, size_t k, int level)
{
    bool bracket = infix[k].level < level;

    cr_text_put(out, bracket ? "(" : "");
    print_expr_arg(out, e, 0, infix[k].level + (infix[k].level == LEVEL_COMPARE));
    cr_text_put(out, infix[k].sign);
    print_expr_arg(out, e, 1, infix[k].level + 1);
    cr_text_put(out, bracket ? ")" : "");
}

static void print_expr_args(cr_text *out, const cr_expr *e)
{
    cr_text_char(out, '(');
    for (int i = 0; i < e->count; i++) {
        cr_text_put(out, i ? ", " : "");
        print_expr_arg(out, e, i, 0);
    }
    cr_text_char(out, ')');
}

static void print_expr_call(cr_text *out, const cr_expr *e, int level)
{
    if (e->fn == CR_FN_neg) {
        cr_text_put(out, level > LEVEL_UNARY ? "(-" : "-");
        print_expr_arg(out, e, 0, LEVEL_UNARY + 1);
        cr_text_put(out, level > LEVEL_UNARY ? ")" : "");
        return;
    }
    for (size_t k = 0; k < CR_LEN(infix); k++)
        if (infix[k].fn == e->fn) {
            print_infix(out, e, k, level);
            return;
        }
    if (e->fn == CR_FN_cast)
        cr_text_put(out, cr_dtype_infos[e->dtype].suffix);
    else
        cr_text_put(out, cr_fn_infos[e->fn].name);
    print_expr_args(out, e);
}

static void print_axis(cr_text *out, const cr_axis *a)
{
    cr_sym_print(out, a->index);
    cr_text_char(out, '<');
    cr_sym_print(out, a->extent);
}

static void print_load(cr_text *out, const cr_expr *e)
{
    cr_text_printf(out, "%s[", e->buffer->name);
    for (int i = 0; i < e->buffer->ndim; i++) {
        const cr_expr *computed = cr_load_computed(e, i);
        cr_text_put(out, i ? ", " : "");
        if (computed) {
            cr_text_char(out, '$');
            print_level(out, computed, LEVEL_ATOM);
        } else {
            cr_sym_print(out, e->index[i]);
        }
    }
    cr_text_char(out, ']');
}

static void print_level(cr_text *out, const cr_expr *e, int level)
{
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: print_const(out, e); break;
    case CR_EXPR_PARAM: cr_text_put(out, e->param->name); break;
    case CR_EXPR_LOAD: print_load(out, e); break;
    case CR_EXPR_INTEGER:
        cr_text_printf(out, "%s(#", cr_dtype_infos[e->dtype].suffix);
        cr_sym_print(out, e->index[0]);
        cr_text_char(out, ')');
        break;
    case CR_EXPR_CALL: print_expr_call(out, e, level); break;
    case CR_EXPR_SCAN:
    case CR_EXPR_REDUCE:
        if (e->kind == CR_EXPR_SCAN)
            cr_text_put(out, e->back ? "scan_back " : "scan ");
        cr_text_printf(out, "%s[", cr_fn_infos[e->fn].name);
        print_axis(out, &e->axis);
        cr_text_char(out, ']');
        print_expr_args(out, e);
        break;
    case CR_EXPR_INDEX_OF:
        cr_text_put(out, "index");
        print_expr_args(out, e);
        break;
    }
}

void cr_expr_print(cr_text *out, const cr_expr *e) { print_level(out, e, 0); }

/* --- programs --- */

typedef struct {
    const void *seen[64];
    int count;
} order;

static void order_add(order *o, const void *thing)
{
    for (int i = 0; i < o->count; i++)
        if (o->seen[i] == thing)
            return;
    if (o->count < (int)CR_LEN(o->seen))
        o->seen[o->count++] = thing;
}

/* Collects inputs and parameters in the order of the text. */
static void collect_operands(cr_expr_set *set, order *inputs, order *params, const cr_expr *e)
{
    if (!cr_expr_set_add(set, e))
        return;
    if (e->kind == CR_EXPR_LOAD && e->buffer->role == CR_BUFFER_INPUT)
        order_add(inputs, e->buffer);
    if (e->kind == CR_EXPR_PARAM)
        order_add(params, e->param);
    for (int i = 0; i < e->count; i++)
        collect_operands(set, inputs, params, e->args[i]);
}

static bool same_axes(const cr_def *d)
{
    if (d->axes != d->target->ndim)
        return false;
    for (int i = 0; i < d->axes; i++)
        if (d->axis[i].extent != d->target->size[i])
            return false;
    return true;
}

/* True when every index of an input is an axis with the extent of that dim, so that the parser
 * can infer its sizes. */
static bool plainly_read(cr_expr_set *set, const cr_def *d, const cr_axis *inner,
                         const cr_expr *e)
{
    bool plain = true;

    if (!cr_expr_set_add(set, e))
        return true;
    if (e->kind == CR_EXPR_LOAD && e->buffer->role == CR_BUFFER_INPUT)
        for (int k = 0; k < e->buffer->ndim; k++) {
            bool found =
                inner && inner->index == e->index[k] && inner->extent == e->buffer->size[k];
            for (int i = 0; i < d->axes && !found; i++)
                found =
                    d->axis[i].index == e->index[k] && d->axis[i].extent == e->buffer->size[k];
            plain = plain && found;
        }
    for (int i = 0; i < e->count; i++)
        plain = plain &&
                plainly_read(set, d, e->kind == CR_EXPR_REDUCE ? &e->axis : inner, e->args[i]);
    return plain;
}

static bool needs_declarations(const cr_loop *l)
{
    cr_expr_set set = cr_expr_set_new(l), plain = cr_expr_set_new(l);
    order inputs = {.count = 0}, params = {.count = 0};
    int k = 0;

    for (size_t i = 0; i < l->defs.len; i++) {
        const cr_def *d = l->defs.at[i];
        collect_operands(&set, &inputs, &params, d->value);
        if (!same_axes(d) || !plainly_read(&plain, d, NULL, d->value))
            return true;
    }
    for (size_t i = 0; i < l->buffers.len; i++) {
        const cr_buffer *b = l->buffers.at[i];
        if (b->role != CR_BUFFER_INPUT)
            continue;
        if (b->dtype != CR_F32 || k >= inputs.count || inputs.seen[k++] != b ||
            cr_fn_find(b->name) >= 0) /* `min[` would begin a reduction */
            return true;
    }
    for (size_t i = 0; i < l->params.len; i++)
        if (l->params.at[i]->dtype != CR_F32 || l->params.at[i]->slot != (int)i ||
            (int)i >= params.count || params.seen[i] != l->params.at[i])
            return true;
    return false;
}

static void print_buffer(cr_text *out, const cr_buffer *b)
{
    static const char *const role[] = {"input", "output", "local"};

    cr_text_printf(out, "%s %s: %s[", role[b->role], b->name, cr_dtype_infos[b->dtype].suffix);
    for (int i = 0; i < b->ndim; i++) {
        cr_text_put(out, i ? ", " : "");
        cr_sym_print(out, b->size[i]);
    }
    cr_text_put(out, "]\n");
}

static void print_declarations(cr_text *out, const cr_loop *l)
{
    for (size_t i = 0; i < l->buffers.len; i++)
        if (l->buffers.at[i]->role == CR_BUFFER_INPUT)
            print_buffer(out, l->buffers.at[i]);
    for (size_t i = 0; i < l->params.len; i++)
        cr_text_printf(out, "param %s: %s @%d\n", l->params.at[i]->name,
                       cr_dtype_infos[l->params.at[i]->dtype].suffix, l->params.at[i]->slot);
}

static void print_def(cr_text *out, const cr_def *d)
{
    cr_text_printf(out, "%s[", d->target->name);
    for (int i = 0; i < d->axes; i++) {
        cr_text_put(out, i ? ", " : "");
        print_axis(out, &d->axis[i]);
    }
    cr_text_put(out, "] = ");
    cr_expr_print(out, d->value);
    cr_text_char(out, '\n');
}

void cr_loop_print(cr_text *out, const cr_loop *l)
{
    if (needs_declarations(l))
        print_declarations(out, l);
    for (size_t i = 0; i < l->defs.len; i++)
        print_def(out, l->defs.at[i]);
}

/* --- nests --- */

static void print_sweep(cr_text *out, const cr_nest *n, int k, int *reduction)
{
    const cr_sweep *s = &n->sweep[k];

    cr_text_printf(out, "sweep %d cost %d\n", k, s->cost);
    for (int i = 0; i < s->reduces.count; i++) {
        cr_text_printf(out, "    r%d = ", ++*reduction);
        cr_expr_print(out, s->reduces.at[i]);
        cr_text_char(out, '\n');
    }
    for (int i = 0; i < s->stores; i++) {
        bool kept = false;
        for (int q = 0; q < n->keeps; q++)
            kept = kept || (n->keep[q].buffer == s->store[i].buffer &&
                            n->keep[q].value == s->store[i].value);
        cr_text_printf(out, "    %s %s = ", kept ? "keep" : "store", s->store[i].buffer->name);
        cr_expr_print(out, s->store[i].value);
        cr_text_char(out, '\n');
    }
}

void cr_nest_print(cr_text *out, const cr_nest *n)
{
    int reduction = 0;

    cr_text_put(out, n->kind == CR_NEST_ROWS ? "rows " : "columns ");
    if (n->one_row)
        cr_text_put(out, "1");
    else
        print_axis(out, &n->row);
    cr_text_put(out, " by ");
    print_axis(out, &n->column);
    cr_text_char(out, '\n');
    for (int k = 0; k < n->sweeps; k++)
        print_sweep(out, n, k, &reduction);
    for (int i = 0; i < n->row_stores; i++) {
        cr_text_printf(out, "once a %s: %s = ", n->kind == CR_NEST_ROWS ? "row" : "column",
                       n->row_store[i].buffer->name);
        cr_expr_print(out, n->row_store[i].value);
        cr_text_char(out, '\n');
    }
}
