/* Nests as C with vector extensions.
 *
 * A value per column is a vector of as many lanes as fit; a value per row or per kernel
 * is such a vector with equal lanes, so that the same function computes it and it has
 * the same bits wherever it is computed.  Cheap loops are unrolled, with one masked step
 * for what is left; costly ones have one body that masks in its last step. */
#include "emit/emit.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* How a loop body reads and writes. */
typedef enum {
    WHOLE, /* full vectors */
    REST,  /* the first `m` lanes */
    EITHER /* full vectors or, when m says so, fewer lanes */
} access;

enum { MOST_OPERANDS = 32 };

typedef struct {
    cr_unit *u;
    cr_text *out;
    const cr_nest *n;
    cr_emit_choice choice;
    cr_session *s;
    cr_buffer *operand[MOST_OPERANDS];
    int operands;
    cr_dtype lane;              /* names the lane count: CV_LANES_<lane> */
    int width;                  /* bits a lane: masks are cv_m<width> */
    cr_expr_set hoisted, inner; /* declared outside, and inside the body at hand */
    int sweep, indent;
    access how;
    bool stepping; /* operands have steps d<k> of their own */
    bool batched;  /* random words of four vectors lie in q<id>[4] */
} printer;

static void line(printer *p, const char *fmt, ...) CR_PRINTF(2, 3);
static void line(printer *p, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    CR_ASSERT(n >= 0 && (size_t)n < sizeof text);
    cr_text_pad(p->out, (size_t)p->indent * 4, ' ');
    cr_text_put(p->out, text);
    cr_text_char(p->out, '\n');
}

static void open(printer *p, const char *head)
{
    line(p, "%s {", head);
    p->indent++;
}

static void shut(printer *p)
{
    p->indent--;
    line(p, "}");
}

static const char *suffix(cr_dtype t) { return cr_dtype_infos[t].suffix; }

/* "f32", or "m32" for truth values. */
static const char *vector(const printer *p, cr_dtype t)
{
    static const char *const masks[] = {"m8", "m32", "m64"};

    return t != CR_BOOL ? suffix(t) : masks[p->width == 8 ? 0 : p->width == 32 ? 1 : 2];
}

static int width_of(cr_dtype t) { return 8 * (int)cr_dtype_size(cr_dtype_real(t)); }

static int operand_number(const printer *p, const cr_buffer *b)
{
    int k = 0;

    while (k < p->operands && p->operand[k] != b)
        k++;
    CR_ASSERT(k < p->operands);
    return k;
}

/* --- integer expressions --- */

static void print_integer(printer *p, cr_text *out, const cr_sym *e, const char *column)
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
    else if (e->kind == CR_SYM_MIN || e->kind == CR_SYM_MAX)
        cr_bail(p->s, CR_VALUE, "minimum and maximum of sizes are not emitted");
    else {
        cr_text_char(out, '(');
        for (int i = 0; i < e->count; i++) {
            cr_text_put(out, i ? sign[e->kind] : "");
            print_integer(p, out, e->args[i], column);
        }
        cr_text_char(out, ')');
    }
}

static char *integer(printer *p, const cr_sym *e, const char *column)
{
    cr_text t = {0};

    print_integer(p, &t, e, column);
    return cr_session_take_text(p->s, &t);
}

/* --- one value --- */

static const char *real_literal(printer *p, cr_dtype t, double v)
{
    const char *f = t == CR_F32 ? "f" : "";

    if (isnan(v))
        return cr_session_printf(p->s, "__builtin_nan%s(\"\")", f);
    if (isinf(v))
        return cr_session_printf(p->s, "%s__builtin_inf%s()", v < 0 ? "-" : "", f);
    return cr_session_printf(p->s, "%a%s", v, f);
}

static const char *literal(printer *p, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype, part = cr_dtype_real(t);

    switch (cr_dtype_category(t)) {
    case CR_CAT_FLOAT: return real_literal(p, t, e->value.d);
    case CR_CAT_COMPLEX:
        return cr_session_printf(p->s, "((cv_s_%s){%s, %s})", suffix(t),
                                 real_literal(p, part, e->value.c.re),
                                 real_literal(p, part, e->value.c.im));
    case CR_CAT_INT:
        if (e->value.i == INT64_MIN)
            return "(-9223372036854775807 - 1)";
        break;
    case CR_CAT_BOOL: break;
    }
    return cr_session_printf(p->s, "%" PRId64, e->value.i);
}

static const char *set1(printer *p, cr_dtype t, const char *scalar)
{
    if (t == CR_BOOL)
        return cr_session_printf(p->s, "cv_set1b_%d(%s)", p->width, scalar);
    return cr_session_printf(p->s, "cv_set1_%s(%s)", suffix(t), scalar);
}

static const char *scalar_type(printer *p, cr_dtype t)
{
    return t == CR_BOOL ? "cv_s_u8" : cr_session_printf(p->s, "cv_s_%s", suffix(t));
}

static const char *scalar_param(printer *p, const cr_expr *e)
{
    return cr_session_printf(p->s, "*(const %s *)((const char *)param + %d)",
                             scalar_type(p, (cr_dtype)e->dtype),
                             e->param->slot * CR_PARAM_BYTES);
}

/* Where element `at` of an operand's row lies. */
static const char *address(printer *p, const cr_buffer *b)
{
    int k = operand_number(p, b);

    if (p->stepping && b->flexible)
        return cr_session_printf(p->s, "p%d + at * d%d", k, k);
    return cr_session_printf(p->s, "p%d + at * %d", k, (int)cr_dtype_size((cr_dtype)b->dtype));
}

static const char *load(printer *p, const cr_buffer *b)
{
    cr_dtype t = (cr_dtype)b->dtype;
    const char *at = address(p, b), *name = suffix(t), *letter = "";
    const char *whole, *rest;

    if (t == CR_BOOL) {
        name = vector(p, t) + 1;
        letter = "b";
    }
    whole = cr_session_printf(p->s, "cv_load%s_%s(%s)", letter, name, at);
    rest = cr_session_printf(p->s, "cv_load%sn_%s(%s, m)", letter, name, at);
    if (p->how == EITHER)
        return cr_session_printf(p->s, "m == CV_LANES_%s ? %s : %s", suffix(p->lane), whole,
                                 rest);
    return p->how == WHOLE ? whole : rest;
}

static const char *row_load(printer *p, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;

    return set1(p, t,
                cr_session_printf(p->s, "*(const %s *)p%d", scalar_type(p, t),
                                  operand_number(p, e->buffer)));
}

/* An integer as a vector of numbers; along columns the lanes count up. */
static const char *integer_vector(printer *p, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;
    const cr_sym *j = p->n->column.index, *step;
    const char *first =
        cr_session_printf(p->s, "(%s)%s", scalar_type(p, t), integer(p, e->index[0], "at"));

    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN)
        return set1(p, t, first);
    step = cr_sym_sub(
        p->n->loop->syms,
        cr_sym_replace(p->n->loop->syms, e->index[0], j,
                       cr_sym_add(p->n->loop->syms, j, cr_sym_int(p->n->loop->syms, 1))),
        e->index[0]);
    if (cr_sym_uses(step, j))
        cr_bail(p->s, CR_VALUE, "an integer expression does not grow evenly along the columns");
    return cr_session_printf(p->s, "cv_add_%s(%s, cv_mul_%s(cv_iota_%s(), cv_set1_%s((%s)%s)))",
                             suffix(t), set1(p, t, first), suffix(t), suffix(t), suffix(t),
                             scalar_type(p, t), integer(p, step, "at"));
}

/* The arguments of random() are plain integers. */
static const char *scalar_of(printer *p, const cr_expr *e, const char *column)
{
    if (e->kind == CR_EXPR_PARAM)
        return scalar_param(p, e);
    if (e->kind == CR_EXPR_CONST)
        return literal(p, e);
    if (e->kind == CR_EXPR_INTEGER)
        return integer(p, e->index[0], column);
    if (e->kind == CR_EXPR_CALL && (e->fn == CR_FN_add || e->fn == CR_FN_mul))
        return cr_session_printf(p->s, "(%s %c %s)", scalar_of(p, e->args[0], column),
                                 e->fn == CR_FN_add ? '+' : '*',
                                 scalar_of(p, e->args[1], column));
    cr_bail(p->s, CR_VALUE, "random() takes integers that are known before the loop");
}

/* Seed, offset and the element that column `column` has. */
static const char *random_arguments(printer *p, const cr_expr *e, const char *column)
{
    return cr_session_printf(p->s, "(cv_s_u64)(%s), (cv_s_u64)(%s), (cv_s_u64)(%s)",
                             scalar_of(p, e->args[0], column), scalar_of(p, e->args[1], column),
                             scalar_of(p, e->args[2], column));
}

static const char *cast(printer *p, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype, from = (cr_dtype)e->args[0]->dtype;

    if (from == CR_BOOL)
        return cr_session_printf(p->s, "cv_frommask_%s(v%u)", suffix(t), e->args[0]->id);
    return cr_session_printf(p->s, "cv_cast_%s_%s(v%u)", suffix(t), suffix(from),
                             e->args[0]->id);
}

static const char *call(printer *p, const cr_expr *e)
{
    const cr_fn_info *info = &cr_fn_infos[e->fn];
    cr_dtype t = (cr_dtype)e->args[info->kind == CR_FN_SELECT]->dtype;
    const char *name = e->fn == CR_FN_where ? "select" : info->name;

    if (info->kind == CR_FN_CAST)
        return cast(p, e);
    if (info->kind == CR_FN_RANDOM && p->batched)
        return cr_session_printf(p->s, "cv_uniform_f32(q%u[k])", e->id);
    if (info->kind == CR_FN_RANDOM)
        return cr_session_printf(p->s, "cv_random_%s(%s)", suffix((cr_dtype)e->dtype),
                                 random_arguments(p, e, "at"));
    if (info->kind == CR_FN_JOIN)
        t = (cr_dtype)e->dtype;
    name = cr_session_printf(p->s, "cv_%s_%s(v%u", name, vector(p, t), e->args[0]->id);
    for (int i = 1; i < e->count; i++)
        name = cr_session_printf(p->s, "%s, v%u", name, e->args[i]->id);
    return cr_session_printf(p->s, "%s)", name);
}

static const char *value(printer *p, const cr_expr *e)
{
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: return set1(p, (cr_dtype)e->dtype, literal(p, e));
    case CR_EXPR_PARAM: return set1(p, (cr_dtype)e->dtype, scalar_param(p, e));
    case CR_EXPR_LOAD:
        return cr_nest_scope(p->n, e) == CR_SCOPE_COLUMN ? load(p, e->buffer) : row_load(p, e);
    case CR_EXPR_INTEGER: return integer_vector(p, e);
    case CR_EXPR_CALL: return call(p, e);
    case CR_EXPR_REDUCE: break;
    }
    cr_bail(p->s, CR_VALUE, "a reduction is read before it is complete");
}

static void declare(printer *p, const cr_expr *e, const char *text)
{
    line(p, "const cv_%s v%u = %s;", vector(p, (cr_dtype)e->dtype), e->id, text);
}

static bool takes_scalars(const cr_expr *e)
{
    return e->kind == CR_EXPR_CALL && cr_fn_infos[e->fn].kind == CR_FN_RANDOM;
}

/* Declares the kernel's values under `e`, once. */
static void hoist(printer *p, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e))
        return;
    if (!takes_scalars(e))
        for (int i = 0; i < e->count; i++)
            hoist(p, seen, e->args[i]);
    if (cr_nest_scope(p->n, e) == CR_SCOPE_KERNEL) {
        cr_expr_set_add(&p->hoisted, e);
        declare(p, e, value(p, e));
    }
}

/* What sweep `p->sweep` needs beside its columns; deeper sweeps are not entered. */
static void hoist_row(printer *p, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e) || cr_nest_kept(p->n, e, p->sweep))
        return;
    if (cr_nest_scope(p->n, e) <= CR_SCOPE_ROW) {
        if (e->kind != CR_EXPR_REDUCE)
            for (int i = 0; i < e->count && !takes_scalars(e); i++)
                hoist_row(p, seen, e->args[i]);
        if (e->kind != CR_EXPR_REDUCE && cr_expr_set_add(&p->hoisted, e))
            declare(p, e, value(p, e));
        return;
    }
    for (int i = 0; i < e->count && !takes_scalars(e); i++)
        hoist_row(p, seen, e->args[i]);
}

/* Declares the per-column values under `e`. */
static void inner(printer *p, const cr_expr *e)
{
    const cr_buffer *kept = cr_nest_kept(p->n, e, p->sweep);

    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN || !cr_expr_set_add(&p->inner, e))
        return;
    if (kept) {
        declare(p, e, load(p, kept));
        return;
    }
    if (!takes_scalars(e))
        for (int i = 0; i < e->count; i++)
            inner(p, e->args[i]);
    declare(p, e, value(p, e));
}

/* Nothing of the kernel reads it again, and its vectors are those of memory. */
static bool streams(const printer *p, const cr_store *st)
{
    cr_dtype t = (cr_dtype)st->buffer->dtype;

    for (int q = 0; q < p->n->keeps; q++)
        if (p->n->keep[q].buffer == st->buffer && p->n->keep[q].value == st->value)
            return false;
    return p->choice.stream && t != CR_BOOL && !cr_dtype_is_complex(t);
}

static void store(printer *p, const cr_store *st)
{
    cr_dtype t = (cr_dtype)st->buffer->dtype;
    const char *name = t == CR_BOOL ? vector(p, t) + 1 : suffix(t);
    const char *letter = t == CR_BOOL ? "b" : "", *at = address(p, st->buffer);
    const char *way = streams(p, st) ? "streamto" : "store";

    if (p->how == EITHER)
        line(p, "if (m == CV_LANES_%s)", suffix(p->lane));
    if (p->how != REST)
        line(p, "%scv_%s%s_%s(%s, v%u);", p->how == EITHER ? "    " : "", way, letter, name, at,
             st->value->id);
    if (p->how == EITHER)
        line(p, "else");
    if (p->how != WHOLE)
        line(p, "%scv_store%sn_%s(%s, v%u, m);", p->how == EITHER ? "    " : "", letter, name,
             at, st->value->id);
}

/* --- reductions --- */

static const char *identity(printer *p, const cr_expr *e)
{
    cr_expr start = {.kind = CR_EXPR_CONST, .dtype = e->dtype};
    const cr_expr *c = cr_expr_const(p->n->loop, (cr_dtype)e->dtype,
                                     cr_fn_identity((cr_fn)e->fn, (cr_dtype)e->dtype));

    start.value = c->value;
    return literal(p, &start);
}

static const char *combine(printer *p, const cr_expr *e, const char *a, const char *b)
{
    return cr_session_printf(p->s, "cv_%s_%s(%s, %s)", cr_fn_infos[e->fn].name,
                             vector(p, (cr_dtype)e->dtype), a, b);
}

static bool has_order(const cr_expr *e)
{
    return cr_fn_has_order((cr_fn)e->fn, (cr_dtype)e->dtype);
}

/* The sum of nothing is +0.0, though sums start at -0.0. */
static const char *empty_sum(printer *p, const cr_expr *e)
{
    return cr_session_printf(
        p->s, cr_dtype_is_complex((cr_dtype)e->dtype) ? "(cv_s_%s){0}" : "(cv_s_%s)0",
        suffix((cr_dtype)e->dtype));
}

/* Of +0 and -0 an extreme is what came last: as +0 it does not depend on the order. */
static const char *without_order(printer *p, const cr_expr *e, const char *v)
{
    if (!cr_dtype_is_float((cr_dtype)e->dtype) || has_order(e))
        return v;
    return cr_session_printf(p->s, "cv_add_%s(%s, cv_set1_%s(0))", suffix((cr_dtype)e->dtype),
                             v, suffix((cr_dtype)e->dtype));
}

/* a<id>[k] takes in the operand; lanes beyond the row count as the identity. */
static void accumulate(printer *p, const cr_expr *e, const char *target)
{
    const cr_expr *x = e->args[0];
    const char *t = vector(p, (cr_dtype)e->dtype), *v = cr_session_printf(p->s, "v%u", x->id);

    if (p->how != WHOLE) {
        const char *full = cr_session_printf(p->s, "cv_select_%s(cv_firstn_%d(m), v%u, z%u)", t,
                                             p->width, x->id, e->id);
        if (p->how == EITHER)
            full =
                cr_session_printf(p->s, "m == CV_LANES_%s ? %s : %s", suffix(p->lane), v, full);
        line(p, "const cv_%s x%u = %s;", t, e->id, full);
        v = cr_session_printf(p->s, "x%u", e->id);
    }
    line(p, "%s = %s;", target, combine(p, e, target, v));
}

static bool sweep_has_order(const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++)
        if (has_order(sweep->reduces.at[i]))
            return true;
    return false;
}

/* The names of one reduction: "add_f32". */
static const char *join_name(printer *p, const cr_expr *e)
{
    return cr_session_printf(p->s, "%s_%s", cr_fn_infos[e->fn].name,
                             suffix((cr_dtype)e->dtype));
}

static void need_joins(printer *p)
{
    for (int k = 0; k < p->n->sweeps; k++)
        for (int i = 0; i < p->n->sweep[k].reduces.count; i++) {
            const cr_expr *e = p->n->sweep[k].reduces.at[i];
            if (!has_order(e) || p->u->chunks[e->fn] >> e->dtype & 1)
                continue;
            p->u->chunks[e->fn] |= 1u << e->dtype;
            cr_text_printf(p->out, "CK_DEFINE_CHUNKS(%s, %s)\n\n", cr_fn_infos[e->fn].name,
                           suffix((cr_dtype)e->dtype));
        }
}

/* --- bodies and loops over columns --- */

static void body(printer *p, const char *index)
{
    const cr_sweep *sweep = &p->n->sweep[p->sweep];

    p->inner = cr_expr_set_new(p->n->loop);
    for (int i = 0; i < sweep->reduces.count; i++)
        inner(p, sweep->reduces.at[i]->args[0]);
    for (int i = 0; i < sweep->stores; i++)
        inner(p, sweep->store[i].value);
    for (int i = 0; i < sweep->stores; i++)
        store(p, &sweep->store[i]);
    for (int i = 0; i < sweep->reduces.count; i++)
        accumulate(p, sweep->reduces.at[i],
                   cr_session_printf(p->s, "a%u[%s]", sweep->reduces.at[i]->id, index));
}

/* One step of one vector from `at = j` on, or what is left of the row. */
static void single_steps(printer *p, access how, const char *end, const char *accumulators)
{
    const char *lane = suffix(p->lane);

    p->how = how;
    if (*accumulators)
        open(p, cr_session_printf(p->s,
                                  "for (int k = 0; j < %s; j += CV_LANES_%s, "
                                  "k = k + 1 == %s ? 0 : k + 1)",
                                  end, lane, accumulators));
    else
        open(p, cr_session_printf(p->s, "for (; j < %s; j += CV_LANES_%s)", end, lane));
    line(p, "const cv_s_i64 at = j, m = ck_least(%s - j, CV_LANES_%s);", end, lane);
    body(p, "k");
    shut(p);
}

/* The random numbers that the sweep's stores need. */
typedef struct {
    const cr_expr *at[8];
    int count;
} randoms;

static void find_randoms(printer *p, cr_expr_set *seen, const cr_expr *e, randoms *out)
{
    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e) ||
        cr_nest_kept(p->n, e, p->sweep))
        return;
    if (takes_scalars(e)) {
        if (out->count < (int)CR_LEN(out->at))
            out->at[out->count] = e;
        out->count++;
        return;
    }
    for (int i = 0; i < e->count; i++)
        find_randoms(p, seen, e->args[i], out);
}

/* Four vectors at once share the blocks of the random stream, where their first element
 * begins a block. */
static void random_loop(printer *p, const char *end, const randoms *r)
{
    const char *test = "";

    for (int i = 0; i < r->count; i++)
        test = cr_session_printf(p->s, "%s%s(%s) %% 4 == 0", test, i ? " && " : "",
                                 scalar_of(p, r->at[i]->args[2], "j"));
    open(p, cr_session_printf(p->s, "if (%s)", test));
    p->how = WHOLE;
    p->batched = true;
    open(p, cr_session_printf(p->s, "for (; j + 4 * CV_LANES_f32 <= %s; j += 4 * CV_LANES_f32)",
                              end));
    for (int i = 0; i < r->count; i++) {
        line(p, "cv_i32 q%u[4];", r->at[i]->id);
        line(p, "cv_philox4(%s, q%u);", random_arguments(p, r->at[i], "j"), r->at[i]->id);
    }
    line(p, "CV_UNROLL(16)");
    open(p, "for (int k = 0; k < 4; k++)");
    line(p, "const cv_s_i64 at = j + k * CV_LANES_f32;");
    body(p, "k");
    shut(p);
    shut(p);
    shut(p);
    p->batched = false;
}

static void try_random_loop(printer *p, const char *end)
{
    const cr_sweep *sweep = &p->n->sweep[p->sweep];
    cr_expr_set seen = cr_expr_set_new(p->n->loop);
    randoms r = {.count = 0};

    for (int i = 0; i < sweep->stores; i++)
        find_randoms(p, &seen, sweep->store[i].value, &r);
    if (!sweep->reduces.count && p->lane == CR_F32 && r.count && r.count <= (int)CR_LEN(r.at))
        random_loop(p, end, &r);
}

static void heavy_loop(printer *p, const char *end)
{
    bool reduces = p->n->sweep[p->sweep].reduces.count > 0;
    const char *name = vector(p, p->lane);

    try_random_loop(p, end);
    single_steps(p, EITHER, end, reduces ? cr_session_printf(p->s, "CV_REDUCE_%s", name) : "");
}

/* Whole vectors, `count` of them a step. */
static void unrolled(printer *p, const char *end, const char *count)
{
    const char *lane = suffix(p->lane);

    p->how = WHOLE;
    open(p, cr_session_printf(p->s, "for (; j + %s * CV_LANES_%s <= %s; j += %s * CV_LANES_%s)",
                              count, lane, end, count, lane));
    line(p, "CV_UNROLL(16)");
    open(p, cr_session_printf(p->s, "for (int k = 0; k < %s; k++)", count));
    line(p, "const cv_s_i64 at = j + k * CV_LANES_%s;", lane);
    body(p, "k");
    shut(p);
    shut(p);
}

/* What is left of a reduced row: fewer than CV_REDUCE vectors, each with its accumulator. */
static void reduced_rest(printer *p, const char *end)
{
    const char *lane = suffix(p->lane);

    p->how = REST;
    line(p, "CV_UNROLL(16)");
    open(p,
         cr_session_printf(p->s, "for (int k = 0; k < CV_REDUCE_%s; k++)", vector(p, p->lane)));
    line(p, "const cv_s_i64 at = j + k * CV_LANES_%s, m = ck_least(%s - at, CV_LANES_%s);",
         lane, end, lane);
    line(p, "if (m <= 0)");
    line(p, "    break;");
    body(p, "k");
    shut(p);
    line(p, "j = %s;", end);
}

static void light_loop(printer *p, const char *end)
{
    const cr_sweep *sweep = &p->n->sweep[p->sweep];

    if (!sweep->reduces.count) {
        int count = p->choice.unroll ? p->choice.unroll : sweep->cost <= 5 ? 4 : 2;
        unrolled(p, end, cr_session_printf(p->s, "%d", count));
        single_steps(p, REST, end, "");
        return;
    }
    unrolled(p, end, cr_session_printf(p->s, "CV_REDUCE_%s", vector(p, p->lane)));
    reduced_rest(p, end);
}

static void loop(printer *p, const char *end)
{
    const cr_sweep *sweep = &p->n->sweep[p->sweep];
    bool heavy = sweep->cost >= CR_COST_HEAVY;

    if (heavy && p->choice.unroll > 1 && !sweep->reduces.count)
        light_loop(p, end);
    else if (heavy)
        heavy_loop(p, end);
    else
        light_loop(p, end);
}

/* Contiguous operands first; any operand may instead be one value a row, which is laid
 * out as a vector that does not advance. */
static bool any_flexible(const printer *p)
{
    for (int k = 0; k < p->operands; k++)
        if (p->operand[k]->flexible)
            return true;
    return false;
}

static void lay_out_scalars(printer *p)
{
    for (int k = 0; k < p->operands; k++) {
        const cr_buffer *b = p->operand[k];
        int item = (int)cr_dtype_size((cr_dtype)b->dtype);
        if (!b->flexible)
            continue;
        line(p, "cv_s_i64 d%d = %d;", k, item);
        line(p, "char s%d[CV_LANES_%s * %d] __attribute__((aligned(64)));", k, suffix(p->lane),
             item);
        open(p, cr_session_printf(p->s, "if (stride[%d] == 0)", 2 * k + 1));
        p->how = WHOLE;
        if (b->dtype == CR_BOOL)
            line(p, "cv_storeb_%d(s%d, cv_set1b_%d(*p%d));", p->width, k, p->width, k);
        else
            line(p, "cv_store_%s(s%d, cv_set1_%s(*(const cv_s_%s *)p%d));",
                 suffix((cr_dtype)b->dtype), k, suffix((cr_dtype)b->dtype),
                 suffix((cr_dtype)b->dtype), k);
        line(p, "p%d = s%d;", k, k);
        line(p, "d%d = 0;", k);
        shut(p);
    }
}

static const char *all_contiguous(printer *p)
{
    const char *test = "";

    for (int k = 0; k < p->operands; k++)
        if (p->operand[k]->flexible)
            test = cr_session_printf(p->s, "%s%sstride[%d] == %d", test, *test ? " && " : "",
                                     2 * k + 1,
                                     (int)cr_dtype_size((cr_dtype)p->operand[k]->dtype));
    return test;
}

static void pointwise(printer *p)
{
    bool light = p->n->sweep[0].cost < CR_COST_HEAVY;

    line(p, "cv_s_i64 j = 0;");
    if (!any_flexible(p)) {
        loop(p, "columns");
        return;
    }
    if (light) {
        open(p, cr_session_printf(p->s, "if (%s)", all_contiguous(p)));
        light_loop(p, "columns");
        line(p, "continue;");
        shut(p);
    }
    lay_out_scalars(p);
    p->stepping = true;
    if (light)
        unrolled(p, "columns", "2");
    single_steps(p, light ? REST : EITHER, "columns", "");
    p->stepping = false;
}

/* --- sweeps with reductions --- */

/* Accumulators of the reductions that have an order, or of those that have none. */
static void start_accumulators(printer *p, const cr_sweep *sweep, bool order)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        const char *t = vector(p, (cr_dtype)e->dtype);
        if (has_order(e) != order)
            continue;
        line(p, "cv_%s a%u[CV_REDUCE_%s];", t, e->id, t);
        line(p, "CV_UNROLL(16)");
        line(p, "for (int k = 0; k < CV_REDUCE_%s; k++)", t);
        line(p, "    a%u[k] = z%u;", e->id, e->id);
    }
}

static void declare_result(printer *p, const cr_expr *e)
{
    if (e->dtype == CR_BOOL)
        line(p, "int s%u;", e->id);
    else
        line(p, "cv_s_%s s%u = %s;", suffix((cr_dtype)e->dtype), e->id, identity(p, e));
}

static void begin_rows(printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        declare_result(p, e);
        if (!has_order(e))
            continue;
        line(p, "ck_chunks_%s c%u;", join_name(p, e), e->id);
        line(p, "if (columns > CR_FOLD_CHUNK)");
        line(p, "    ck_start_%s(&c%u, s%u);", join_name(p, e), e->id, e->id);
    }
}

static void end_chunk(printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (!has_order(e))
            continue;
        line(p, "if (columns > CR_FOLD_CHUNK)");
        line(p, "    ck_put_%s(&c%u, a%u);", join_name(p, e), e->id, e->id);
        line(p, "else");
        line(p, "    s%u = cv_reduce_%s(a%u);", e->id, join_name(p, e), e->id);
    }
}

/* Where order does not matter the accumulators live as long as the row. */
static void end_unordered(printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (!has_order(e))
            line(p, "s%u = cv_reduce_%s_%s(a%u);", e->id, cr_fn_infos[e->fn].name,
                 vector(p, (cr_dtype)e->dtype), e->id);
    }
}

static void end_rows(printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (has_order(e)) {
            line(p, "if (columns > CR_FOLD_CHUNK)");
            line(p, "    s%u = ck_end_%s(&c%u);", e->id, join_name(p, e), e->id);
            if (e->fn == CR_FN_add)
                line(p, "s%u = columns ? s%u : %s;", e->id, e->id, empty_sum(p, e));
        }
        cr_expr_set_add(&p->hoisted, e);
        declare(p, e,
                without_order(
                    p, e, set1(p, (cr_dtype)e->dtype, cr_session_printf(p->s, "s%u", e->id))));
    }
}

static void hoist_sweep(printer *p, const cr_sweep *sweep)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);

    for (int i = 0; i < sweep->reduces.count; i++)
        hoist_row(p, &seen, sweep->reduces.at[i]->args[0]);
    for (int i = 0; i < sweep->stores; i++)
        hoist_row(p, &seen, sweep->store[i].value);
}

static void chunks(printer *p, const cr_sweep *sweep)
{
    open(p, "do");
    line(p, "const cv_s_i64 end = ck_least(columns, j + CR_FOLD_CHUNK);");
    start_accumulators(p, sweep, true);
    loop(p, "end");
    end_chunk(p, sweep);
    p->indent--;
    line(p, "} while (j < columns);");
}

static void reduce_row(printer *p, const cr_sweep *sweep)
{
    line(p, "{");
    p->indent++;
    line(p, "cv_s_i64 j = 0;");
    start_accumulators(p, sweep, false);
    if (sweep_has_order(sweep))
        chunks(p, sweep);
    else
        loop(p, "columns");
    end_unordered(p, sweep);
    shut(p);
}

/* Names of a sweep's loop live in a block of their own, its results outlive it. */
static void sweep_rows(printer *p, int k)
{
    const cr_sweep *sweep = &p->n->sweep[k];

    p->sweep = k;
    hoist_sweep(p, sweep);
    if (p->n->sweeps == 1 && !sweep->reduces.count) {
        pointwise(p);
        return;
    }
    if (!sweep->reduces.count && sweep->stores) {
        line(p, "{");
        p->indent++;
        line(p, "cv_s_i64 j = 0;");
        loop(p, "columns");
        shut(p);
    }
    if (sweep->reduces.count) {
        begin_rows(p, sweep);
        reduce_row(p, sweep);
        end_rows(p, sweep);
    }
}

static void store_row_values(printer *p)
{
    for (int i = 0; i < p->n->row_stores; i++) {
        const cr_store *st = &p->n->row_store[i];
        cr_expr_set seen = cr_expr_set_new(p->n->loop);
        cr_dtype t = (cr_dtype)st->buffer->dtype;
        int k = operand_number(p, st->buffer);
        hoist_row(p, &seen, st->value);
        if (t == CR_BOOL)
            line(p, "cv_storebn_%d(p%d, v%u, 1);", p->width, k, st->value->id);
        else
            line(p, "cv_storen_%s(p%d, v%u, 1);", suffix(t), k, st->value->id);
    }
}

static void pointers(printer *p, bool outputs_too)
{
    for (int k = 0; k < p->operands; k++) {
        bool out = p->operand[k]->role == CR_BUFFER_OUTPUT;
        if (out && !outputs_too)
            continue;
        line(p, "%schar *%sp%d = (%schar *)ptr[%d] + r * stride[%d];", out ? "" : "const ",
             p->operand[k]->flexible ? "" : "const ", k, out ? "" : "const ", k, 2 * k);
    }
}

/* Row values computed inside one row are forgotten with it. */
static void rows_nest(printer *p)
{
    cr_expr_set outside = p->hoisted;

    open(p, "for (cv_s_i64 r = 0; r < rows; r++)");
    pointers(p, true);
    p->hoisted.bits = cr_session_copy(p->s, outside.bits, outside.words * sizeof *outside.bits);
    for (int k = 0; k < p->n->sweeps; k++)
        sweep_rows(p, k);
    store_row_values(p);
    shut(p);
    p->hoisted = outside;
}

/* --- columns --- */

/* Row r of a block goes to accumulator r mod 4; a strip of columns stays in the cache
 * while the rows pass. */
static void columns_rows(printer *p, const cr_expr *e)
{
    const char *lane = suffix(p->lane), *t = vector(p, (cr_dtype)e->dtype);
    bool heavy = p->n->sweep[0].cost >= CR_COST_HEAVY;

    open(p, "for (cv_s_i64 r = top; r < end; r++)");
    pointers(p, false);
    hoist_sweep(p, &p->n->sweep[0]);
    line(p, "cv_%s *const a%u = b[r %% CR_FOLD_ACCUMULATORS];", t, e->id);
    line(p, "int k = 0;");
    if (!heavy) {
        p->how = WHOLE;
        open(p, cr_session_printf(p->s, "for (; (k + 1) * CV_LANES_%s <= wide; k++)", lane));
        line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
        body(p, "k");
        shut(p);
    }
    p->how = heavy ? EITHER : REST;
    open(p, cr_session_printf(p->s, "for (; k * CV_LANES_%s < wide; k++)", lane));
    line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
    line(p, "const cv_s_i64 m = ck_least(first + wide - at, CV_LANES_%s);", lane);
    body(p, "k");
    shut(p);
    shut(p);
}

static const char *combine_if(printer *p, const cr_expr *e, const char *test, const char *a,
                              const char *b)
{
    return cr_session_printf(p->s, "%s ? %s : %s", test, combine(p, e, a, b), a);
}

/* The result of block `top / CR_FOLD_BLOCK` goes to w[it mod 4]: blocks b and b + 4 meet. */
static void columns_end_block(printer *p, const cr_expr *e)
{
    const char *t = vector(p, (cr_dtype)e->dtype);

    open(p, cr_session_printf(p->s, "for (int k = 0; k * CV_LANES_%s < wide; k++)",
                              suffix(p->lane)));
    line(p, "const cv_%s x = %s;", t,
         combine(p, e, combine(p, e, "b[0][k]", "b[1][k]"),
                 combine(p, e, "b[2][k]", "b[3][k]")));
    line(p, "w[block %% 4][k] = block < 4 ? x : %s;", combine(p, e, "w[block % 4][k]", "x"));
    shut(p);
}

static void columns_end(printer *p, const cr_expr *e)
{
    const char *lane = suffix(p->lane), *t = vector(p, (cr_dtype)e->dtype);
    const cr_store *st = &p->n->row_store[0];
    int k = operand_number(p, st->buffer);

    line(p, "char *const p%d = (char *)ptr[%d];", k, k);
    open(p, cr_session_printf(p->s, "for (int k = 0; k * CV_LANES_%s < wide; k++)", lane));
    line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
    line(p, "const cv_s_i64 m = ck_least(first + wide - at, CV_LANES_%s);", lane);
    line(p, "const cv_%s x = %s;", t, combine_if(p, e, "blocks > 2", "w[0][k]", "w[2][k]"));
    line(p, "const cv_%s y = %s;", t, combine_if(p, e, "blocks > 3", "w[1][k]", "w[3][k]"));
    line(p, "const cv_%s v = %s;", t, combine_if(p, e, "blocks > 1", "x", "y"));
    declare(p, e, without_order(p, e, "v"));
    p->how = EITHER;
    store(p, st);
    shut(p);
}

static void columns_blocks(printer *p, const cr_expr *e)
{
    const char *lane = suffix(p->lane);

    open(p, cr_session_printf(p->s, "for (cv_s_i64 block = 0; block < blocks; block++)"));
    line(p, "const cv_s_i64 top = block * CR_FOLD_BLOCK, end = ck_least(rows, top + "
            "CR_FOLD_BLOCK);");
    line(p, "for (int k = 0; k * CV_LANES_%s < wide; k++)", lane);
    line(p, "    b[0][k] = b[1][k] = b[2][k] = b[3][k] = z%u;", e->id);
    columns_rows(p, e);
    columns_end_block(p, e);
    shut(p);
}

/* At most CR_FOLD_COLUMN rows; no rows are one block of identities. */
static void columns_nest(printer *p)
{
    const cr_expr *e = p->n->sweep[0].reduces.at[0];
    const char *lane = suffix(p->lane), *t = vector(p, (cr_dtype)e->dtype);

    line(p, "const cv_s_i64 blocks = (rows + CR_FOLD_BLOCK - 1) / CR_FOLD_BLOCK;");
    open(p, cr_session_printf(p->s,
                              "for (cv_s_i64 first = 0; first < columns; "
                              "first += CK_STRIP * CV_LANES_%s)",
                              lane));
    line(p, "const cv_s_i64 wide = ck_least(columns - first, CK_STRIP * CV_LANES_%s);", lane);
    line(p, "cv_%s b[CR_FOLD_ACCUMULATORS][CK_STRIP], w[4][CK_STRIP];", t);
    columns_blocks(p, e);
    columns_end(p, e);
    shut(p);
}

/* --- the function --- */

static void note_type(printer *p, cr_dtype t)
{
    p->u->dtypes |= 1u << t;
    p->u->complex = p->u->complex || cr_dtype_is_complex(t);
    if (t == CR_BOOL)
        return;
    if (p->width && width_of(t) != p->width)
        cr_bail(p->s, CR_TYPE, "values of %d and %d bits in one kernel", p->width, width_of(t));
    p->width = width_of(t);
    if (p->lane == CR_BOOL || cr_dtype_is_complex(t))
        p->lane = t;
}

static void note_types(printer *p, cr_expr_set *seen, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e))
        return;
    note_type(p, (cr_dtype)e->dtype);
    if (takes_scalars(e)) {
        p->u->random = true;
        return;
    }
    if (e->kind == CR_EXPR_CALL && cr_fn_infos[e->fn].cost >= 60)
        p->u->special = true;
    for (int i = 0; i < e->count; i++)
        note_types(p, seen, e->args[i]);
}

static void find_types(printer *p)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);

    for (size_t i = 0; i < p->n->loop->defs.len; i++)
        note_types(p, &seen, p->n->loop->defs.at[i]->value);
    if (!p->width)
        p->width = 8;
    if (p->lane == CR_BOOL)
        p->lane = CR_U8;
}

/* Kernel values that something below uses, and the reductions' identities. */
static void hoist_kernel(printer *p)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);

    for (size_t i = 0; i < p->n->loop->defs.len; i++)
        hoist(p, &seen, p->n->loop->defs.at[i]->value);
    for (int k = 0; k < p->n->sweeps; k++)
        for (int i = 0; i < p->n->sweep[k].reduces.count; i++) {
            const cr_expr *e = p->n->sweep[k].reduces.at[i];
            const char *start =
                e->dtype == CR_BOOL ? (e->fn == CR_FN_and ? "1" : "0") : identity(p, e);
            line(p, "const cv_%s z%u = %s;", vector(p, (cr_dtype)e->dtype), e->id,
                 set1(p, (cr_dtype)e->dtype, start));
        }
}

void cr_emit_c(cr_unit *u, const cr_nest *n, const char *symbol)
{
    cr_emit_c_choice(u, n, symbol, &(cr_emit_choice){.unroll = 0});
}

void cr_emit_c_choice(cr_unit *u, const cr_nest *n, const char *symbol,
                      const cr_emit_choice *choice)
{
    printer p = {.u = u,
                 .out = &u->body,
                 .n = n,
                 .s = n->loop->session,
                 .lane = CR_BOOL,
                 .choice = *choice};

    p.operands = cr_loop_operands(n->loop, p.operand, MOST_OPERANDS);
    find_types(&p);
    p.hoisted = cr_expr_set_new(n->loop);
    need_joins(&p);
    line(&p, "/* %s */", n->loop->origin);
    line(&p, "void CK(%s)(void *const *ptr, const cv_s_i64 *stride, const cv_s_i64 *size,",
         symbol);
    line(&p, "    const void *param);");
    line(&p, "void CK(%s)(void *const *ptr, const cv_s_i64 *stride, const cv_s_i64 *size,",
         symbol);
    line(&p, "    const void *param)");
    line(&p, "{");
    p.indent++;
    line(&p, "const cv_s_i64 rows = size[0], columns = size[1];");
    line(&p, "(void)param;");
    if (n->counts_rows)
        line(&p, "const cv_s_i64 row0 = size[2];");
    hoist_kernel(&p);
    if (n->kind == CR_NEST_ROWS)
        rows_nest(&p);
    else
        columns_nest(&p);
    if (choice->stream)
        line(&p, "cv_stream_end();");
    shut(&p);
    line(&p, "%s", "");
    cr_session_check(p.s, cr_text_status(p.out));
}

void cr_emit_c_includes(cr_text *out, const cr_unit *u)
{
    unsigned ints = 1u << CR_I32 | 1u << CR_I64 | 1u << CR_U8;

    cr_text_put(out, "#include \"emit/vec.h\"\n");
    cr_text_put(out, "#include \"emit/vec_f32.h\"\n#include \"emit/vec_f64.h\"\n");
    if (u->dtypes & ints)
        cr_text_put(out, "#include \"emit/vec_int.h\"\n");
    if (u->complex)
        cr_text_put(out, "#include \"emit/vec_complex.h\"\n");
    if (u->special)
        cr_text_put(out, "#include \"emit/vec_special.h\"\n");
    if (u->random)
        cr_text_put(out, "#include \"emit/vec_random.h\"\n");
    cr_text_put(out, "#include \"emit/kernel.h\"\n\n");
}

void cr_unit_drop(cr_unit *u) { cr_text_drop(&u->body); }
