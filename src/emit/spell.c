/* Values as words of the vocabulary.
 *
 * A value per column is a vector of as many lanes as a step of the target's loop has; a value
 * per row or per kernel is such a vector with equal lanes, so that the same function computes
 * it and it has the same bits wherever it is computed. */
#include "emit/dialect.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* --- lines --- */

void cr_print_line(cr_printer *p, const char *fmt, ...)
{
    va_list args;

    cr_text_pad(p->out, (size_t)p->at.indent * 4, ' ');
    va_start(args, fmt);
    cr_text_printf_va(p->out, fmt, args);
    va_end(args);
    cr_text_char(p->out, '\n');
}

void cr_print_open(cr_printer *p, const char *head)
{
    cr_print_line(p, "%s {", head);
    p->at.indent++;
}

void cr_print_shut(cr_printer *p)
{
    p->at.indent--;
    cr_print_line(p, "}");
}

/* --- words --- */

const char *cr_spell_dtype(cr_dtype t) { return cr_dtype_infos[t].suffix; }

/* "f32", or "m32" for truth values. */
const char *cr_spell_vector(const cr_printer *p, cr_dtype t)
{
    static const char *const masks[] = {"m8", "m32", "m64"};

    if (p->lanes.mixed && t == CR_U8)
        return "i32";
    return t != CR_BOOL ? cr_spell_dtype(t)
                        : masks[p->lanes.width == 8    ? 0
                                : p->lanes.width == 32 ? 1
                                                       : 2];
}

int cr_spell_parts(const cr_printer *p, cr_dtype t)
{
    return p->lanes.mixed && t != CR_BOOL && cr_dtype_size(t) == 8 ? 2 : 1;
}

const char *cr_spell_name(cr_printer *p, const cr_expr *e)
{
    return cr_spell_parts(p, (cr_dtype)e->dtype) == 2
               ? cr_session_printf(p->s, "v%u_%d", e->id, p->lanes.part)
               : cr_session_printf(p->s, "v%u", e->id);
}

const char *cr_spell_rest(cr_printer *p, cr_dtype t)
{
    return cr_spell_parts(p, t) == 2
               ? cr_session_printf(p->s, "cv_rest64(m, %d)", p->lanes.part)
               : "m";
}

const char *cr_spell_memory(const cr_printer *p, cr_dtype t, const char **letter)
{
    if (p->lanes.mixed && t == CR_U8) {
        *letter = "32";
        return "u8";
    }
    *letter = t == CR_BOOL ? "b" : "";
    return t == CR_BOOL ? cr_spell_vector(p, t) + 1 : cr_spell_dtype(t);
}

int cr_operand_number(const cr_printer *p, const cr_buffer *b)
{
    int k = 0;

    while (k < p->operands && p->operand[k] != b)
        k++;
    CR_ASSERT(k < p->operands);
    return k;
}

cr_dtype cr_operand_stored(const cr_printer *p, const cr_buffer *b)
{
    int stored = p->choice.stored ? p->choice.stored[cr_operand_number(p, b)] : 0;

    return (cr_dtype)(stored ? stored : b->dtype);
}

/* --- integer expressions --- */

static void spell_integer(cr_printer *p, cr_text *out, const cr_sym *e, const char *column)
{
    static const char *const sign[] = {[CR_SYM_ADD] = " + ",
                                       [CR_SYM_MUL] = " * ",
                                       [CR_SYM_FLOORDIV] = " / ",
                                       [CR_SYM_MOD] = " % "};
    const cr_nest *n = p->n;

    if (e == n->row.extent && e->kind == CR_SYM_NAME)
        cr_text_put(out, "rows");
    else if (e == n->column.extent && e->kind == CR_SYM_NAME)
        cr_text_put(out, "columns");
    else if (e == n->row.index)
        cr_text_put(out, n->kind == CR_NEST_ROWS ? "(row0 + r)" : "r");
    else if (e == n->column.index)
        cr_text_put(out, column);
    else if (e->kind == CR_SYM_INT)
        cr_text_printf(out, "%" PRId64, e->integer);
    else if (e->kind == CR_SYM_NAME)
        cr_bail(p->s, CR_VALUE, "the size '%s' is no size of the kernel's loops", e->name);
    else if (e->kind == CR_SYM_MIN || e->kind == CR_SYM_MAX || e->kind == CR_SYM_FRACTION)
        cr_bail(p->s, CR_VALUE, "minima, maxima and fractions of sizes are not emitted");
    else {
        cr_text_char(out, '(');
        for (int i = 0; i < e->count; i++) {
            cr_text_put(out, i ? sign[e->kind] : "");
            spell_integer(p, out, e->args[i], column);
        }
        cr_text_char(out, ')');
    }
}

static char *spell_integer_text(cr_printer *p, const cr_sym *e, const char *column)
{
    cr_text t = {0};

    spell_integer(p, &t, e, column);
    return cr_session_take_text(p->s, &t);
}

/* --- one value --- */

static const char *spell_real(cr_printer *p, cr_dtype t, double v)
{
    const char *f = t == CR_F32 ? "f" : "";

    if (isnan(v))
        return cr_session_printf(p->s, "__builtin_nan%s(\"\")", f);
    if (isinf(v))
        return cr_session_printf(p->s, "%s__builtin_inf%s()", v < 0 ? "-" : "", f);
    return cr_session_printf(p->s, "%a%s", v, f);
}

static const char *spell_literal(cr_printer *p, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype, part = cr_dtype_real(t);

    switch (cr_dtype_category(t)) {
    case CR_CAT_FLOAT: return spell_real(p, t, e->value.d);
    case CR_CAT_COMPLEX:
        return cr_session_printf(p->s, "CV_MAKE(cv_s_%s, %s, %s)", cr_spell_dtype(t),
                                 spell_real(p, part, e->value.c.re),
                                 spell_real(p, part, e->value.c.im));
    case CR_CAT_INT:
        if (e->value.i == INT64_MIN)
            return "(-9223372036854775807 - 1)";
        break;
    case CR_CAT_BOOL: break;
    }
    return cr_session_printf(p->s, "%" PRId64, e->value.i);
}

const char *cr_spell_set1(cr_printer *p, cr_dtype t, const char *scalar)
{
    if (t == CR_BOOL)
        return cr_session_printf(p->s, "cv_set1b_%d(%s)", p->lanes.width, scalar);
    return cr_session_printf(p->s, "cv_set1_%s(%s)", cr_spell_vector(p, t), scalar);
}

static const char *spell_scalar_type(cr_printer *p, cr_dtype t)
{
    return t == CR_BOOL ? "cv_s_u8" : cr_session_printf(p->s, "cv_s_%s", cr_spell_dtype(t));
}

static const char *spell_param(cr_printer *p, const cr_expr *e)
{
    return cr_session_printf(p->s, "*(const %s *)((const char *)param + %d)",
                             spell_scalar_type(p, (cr_dtype)e->dtype),
                             e->param->slot * CR_PARAM_BYTES);
}

/* The address of element `at` of an operand's row. */
const char *cr_spell_address(cr_printer *p, const cr_buffer *b)
{
    int k;

    if (p->at.base && p->at.from_first)
        return cr_session_printf(p->s, "%s + (at - first) * %d", p->at.base,
                                 (int)cr_dtype_size((cr_dtype)b->dtype));
    if (p->at.base)
        return cr_session_printf(p->s, "%s + at * %d", p->at.base,
                                 (int)cr_dtype_size((cr_dtype)b->dtype));
    k = cr_operand_number(p, b);
    if (p->dialect->lanes_are_rows)
        return b->ndim == 2 ? cr_session_printf(p->s, "p%d + j * stride[%d]", k, 2 * k + 1)
                            : cr_session_printf(p->s, "p%d", k);
    if (p->at.stepping && b->flexible)
        return cr_session_printf(p->s, "p%d + at * d%d", k, k);
    return cr_session_printf(p->s, "p%d + at * %d", k,
                             (int)cr_dtype_size(cr_operand_stored(p, b)));
}

const char *cr_spell_element(cr_printer *p, const cr_buffer *b)
{
    cr_dtype t = (cr_dtype)b->dtype, stored = cr_operand_stored(p, b);
    int k = cr_operand_number(p, b);

    return stored == t ? cr_session_printf(p->s, "*(const %s *)p%d", spell_scalar_type(p, t), k)
                       : cr_session_printf(p->s, "ck_get_%s(p%d)", cr_spell_dtype(stored), k);
}

static const char *spell_row_load(cr_printer *p, const cr_expr *e)
{
    return cr_spell_set1(p, (cr_dtype)e->dtype, cr_spell_element(p, e->buffer));
}

/* An integer as a vector of numbers; along columns the lanes count up. */
static const char *spell_integer_vector(cr_printer *p, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;
    const cr_sym *j = p->n->column.index, *step;
    const char *first = cr_session_printf(p->s, "(%s)%s", spell_scalar_type(p, t),
                                          spell_integer_text(p, e->index[0], "at"));

    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN)
        return cr_spell_set1(p, t, first);
    if (p->lanes.mixed)
        cr_bail(p->s, CR_TYPE, "numbers of columns beside values of several widths");
    step = cr_sym_sub(
        p->n->loop->syms,
        cr_sym_replace(p->n->loop->syms, e->index[0], j,
                       cr_sym_add(p->n->loop->syms, j, cr_sym_int(p->n->loop->syms, 1))),
        e->index[0]);
    if (cr_sym_uses(step, j))
        cr_bail(p->s, CR_VALUE, "an integer expression does not grow evenly along the columns");
    return cr_session_printf(p->s, "cv_add_%s(%s, cv_mul_%s(cv_iota_%s(), cv_set1_%s((%s)%s)))",
                             cr_spell_dtype(t), cr_spell_set1(p, t, first), cr_spell_dtype(t),
                             cr_spell_dtype(t), cr_spell_dtype(t), spell_scalar_type(p, t),
                             spell_integer_text(p, step, "at"));
}

/* The arguments of random() are plain integers. */
const char *cr_spell_scalar(cr_printer *p, const cr_expr *e, const char *column)
{
    if (e->kind == CR_EXPR_PARAM)
        return spell_param(p, e);
    if (e->kind == CR_EXPR_CONST)
        return spell_literal(p, e);
    if (e->kind == CR_EXPR_INTEGER)
        return spell_integer_text(p, e->index[0], column);
    if (e->kind == CR_EXPR_CALL && (e->fn == CR_FN_add || e->fn == CR_FN_mul))
        return cr_session_printf(p->s, "(%s %c %s)", cr_spell_scalar(p, e->args[0], column),
                                 e->fn == CR_FN_add ? '+' : '*',
                                 cr_spell_scalar(p, e->args[1], column));
    cr_bail(p->s, CR_VALUE, "random() takes integers that are known before the loop");
}

/* Seed, offset and the number of the element in column `column`. */
const char *cr_spell_random(cr_printer *p, const cr_expr *e, const char *column)
{
    return cr_session_printf(p->s, "(cv_s_u64)(%s), (cv_s_u64)(%s), (cv_s_u64)(%s)",
                             cr_spell_scalar(p, e->args[0], column),
                             cr_spell_scalar(p, e->args[1], column),
                             cr_spell_scalar(p, e->args[2], column));
}

/* An argument of a function on vectors of type t: the mask of a half, or the part at hand. */
static const char *spell_arg(cr_printer *p, const cr_expr *e, cr_dtype t)
{
    if (e->dtype == CR_BOOL && cr_spell_parts(p, t) == 2)
        return cr_session_printf(p->s, "cv_half_m64(v%u, %d)", e->id, p->lanes.part);
    return cr_spell_name(p, e);
}

static const char *spell_cast(cr_printer *p, const cr_expr *e)
{
    const cr_expr *x = e->args[0];
    cr_dtype t = (cr_dtype)e->dtype, from = (cr_dtype)x->dtype;
    int parts = cr_spell_parts(p, t), given = cr_spell_parts(p, from);
    const char *to = cr_spell_dtype(t), *of = cr_spell_dtype(from);

    if (from == CR_BOOL)
        return cr_session_printf(p->s, "cv_frommask_%s(%s)", cr_spell_vector(p, t),
                                 spell_arg(p, x, t));
    if (parts > given)
        return cr_session_printf(p->s, "cv_widen_%s_%s(v%u, %d)", to, of, x->id, p->lanes.part);
    if (parts < given)
        return cr_session_printf(p->s, "cv_narrow_%s_%s(v%u_0, v%u_1)", to, of, x->id, x->id);
    return cr_session_printf(p->s, "cv_cast_%s_%s(%s)", to, of, cr_spell_name(p, x));
}

static const char *spell_function(cr_printer *p, const cr_expr *e, const char *name, cr_dtype t)
{
    const char *text = cr_session_printf(p->s, "cv_%s_%s(%s", name, cr_spell_vector(p, t),
                                         spell_arg(p, e->args[0], t));

    for (int i = 1; i < e->count; i++)
        text = cr_session_printf(p->s, "%s, %s", text, spell_arg(p, e->args[i], t));
    return cr_session_printf(p->s, "%s)", text);
}

/* A test of values of two parts gives one mask. */
static const char *spell_joined(cr_printer *p, const cr_expr *e, const char *name, cr_dtype t)
{
    const char *half[2];

    for (p->lanes.part = 0; p->lanes.part < 2; p->lanes.part++)
        half[p->lanes.part] = spell_function(p, e, name, t);
    p->lanes.part = 0;
    return cr_session_printf(p->s, "cv_join_m32(%s, %s)", half[0], half[1]);
}

static const char *spell_call(cr_printer *p, const cr_expr *e)
{
    const cr_fn_info *info = &cr_fn_infos[e->fn];
    cr_dtype t = (cr_dtype)e->args[info->kind == CR_FN_SELECT]->dtype;
    const char *other = p->dialect->word ? p->dialect->word(p, e) : NULL;
    const char *name = other ? other : e->fn == CR_FN_where ? "select" : info->name;

    if (info->kind == CR_FN_CAST)
        return spell_cast(p, e);
    if (info->kind == CR_FN_RANDOM && p->batched)
        return cr_session_printf(p->s, "cv_uniform_f32(q%u[k])", e->id);
    if (info->kind == CR_FN_RANDOM)
        return cr_session_printf(p->s, "cv_random_%s(%s)", cr_spell_dtype((cr_dtype)e->dtype),
                                 cr_spell_random(p, e, "at"));
    if (info->kind == CR_FN_JOIN)
        t = (cr_dtype)e->dtype;
    if (e->dtype == CR_BOOL && cr_spell_parts(p, t) == 2)
        return spell_joined(p, e, name, t);
    return spell_function(p, e, name, t);
}

/* The index that a reduction kept: a vector when lanes are rows, or else one number. */
static const char *spell_index(cr_printer *p, const cr_expr *e)
{
    if (!p->dialect->lanes_are_rows)
        return cr_spell_set1(p, CR_I64, cr_session_printf(p->s, "k%u", e->args[0]->id));
    if (cr_spell_parts(p, CR_I64) == 2)
        return cr_session_printf(p->s, "cv_widen_i64_i32(k%u, %d)", e->args[0]->id,
                                 p->lanes.part);
    return cr_session_printf(p->s, "k%u", e->args[0]->id);
}

const char *cr_spell_value(cr_printer *p, const cr_expr *e)
{
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: return cr_spell_set1(p, (cr_dtype)e->dtype, spell_literal(p, e));
    case CR_EXPR_PARAM: return cr_spell_set1(p, (cr_dtype)e->dtype, spell_param(p, e));
    case CR_EXPR_LOAD:
        return cr_nest_scope(p->n, e) == CR_SCOPE_COLUMN || p->dialect->lanes_are_rows
                   ? p->dialect->load(p, e->buffer)
                   : spell_row_load(p, e);
    case CR_EXPR_INTEGER: return spell_integer_vector(p, e);
    case CR_EXPR_CALL: return spell_call(p, e);
    case CR_EXPR_INDEX_OF: return spell_index(p, e);
    case CR_EXPR_SCAN:
    case CR_EXPR_REDUCE: break;
    }
    cr_bail(p->s, CR_VALUE, "a reduction is read before it is complete");
}

bool cr_expr_takes_scalars(const cr_expr *e)
{
    return e->kind == CR_EXPR_CALL && cr_fn_infos[e->fn].kind == CR_FN_RANDOM;
}

/* --- reductions --- */

const char *cr_spell_identity(cr_printer *p, const cr_expr *e)
{
    cr_expr start = {.kind = CR_EXPR_CONST, .dtype = e->dtype};
    const cr_expr *c = cr_expr_const(p->n->loop, (cr_dtype)e->dtype,
                                     cr_fn_identity((cr_fn)e->fn, (cr_dtype)e->dtype));

    start.value = c->value;
    return spell_literal(p, &start);
}

const char *cr_spell_combiner(const cr_expr *e)
{
    cr_fn fn = (cr_fn)e->fn;

    return cr_fn_infos[cr_fn_keeps_index(fn) ? cr_fn_without_index(fn, (cr_dtype)e->dtype) : fn]
        .name;
}

const char *cr_spell_combine(cr_printer *p, const cr_expr *e, const char *a, const char *b)
{
    const char *other = p->dialect->word ? p->dialect->word(p, e) : NULL;

    return cr_session_printf(p->s, "cv_%s_%s(%s, %s)", other ? other : cr_spell_combiner(e),
                             cr_spell_vector(p, (cr_dtype)e->dtype), a, b);
}

bool cr_expr_has_order(const cr_expr *e)
{
    return cr_fn_has_order((cr_fn)e->fn, (cr_dtype)e->dtype);
}

/* The sum of no elements is +0.0, although sums start at -0.0. */
const char *cr_spell_empty_sum(cr_printer *p, const cr_expr *e)
{
    return cr_session_printf(
        p->s, cr_dtype_is_complex((cr_dtype)e->dtype) ? "CV_MAKE(cv_s_%s, 0)" : "(cv_s_%s)0",
        cr_spell_dtype((cr_dtype)e->dtype));
}

/* An extreme of +0 and -0 is the later one; converted to +0 it does not depend on the order. */
const char *cr_spell_without_order(cr_printer *p, const cr_expr *e, const char *v)
{
    if (!cr_dtype_is_float((cr_dtype)e->dtype) || cr_expr_has_order(e) ||
        cr_expr_keeps_index(e))
        return v;
    return cr_session_printf(p->s, "cv_add_%s(%s, cv_set1_%s(0))",
                             cr_spell_dtype((cr_dtype)e->dtype), v,
                             cr_spell_dtype((cr_dtype)e->dtype));
}

/* The names of one reduction: "add_f32". */
const char *cr_spell_fold(cr_printer *p, const cr_expr *e)
{
    return cr_session_printf(p->s, "%s_%s", cr_fn_infos[e->fn].name,
                             cr_spell_dtype((cr_dtype)e->dtype));
}
