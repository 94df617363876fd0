/* Nests as C with vector extensions.
 *
 * A value per column is a vector of as many lanes as fit.  Cheap loops are unrolled, with one
 * masked step for the remainder; costly loops have one body, masked in the last step. */
#include "emit/stages.h"

/* --- elements --- */

/* The second part of a value of two vectors follows the first. */
static const char *c_address(cr_printer *p, const cr_buffer *b)
{
    const char *at = cr_spell_address(p, b);

    return p->lanes.part ? cr_session_printf(p->s, "%s + CV_BYTES", at) : at;
}

static const char *c_load(cr_printer *p, const cr_buffer *b)
{
    const char *letter, *name = cr_spell_memory(p, (cr_dtype)b->dtype, &letter);
    const char *at = c_address(p, b);
    const char *whole = cr_session_printf(p->s, "cv_load%s_%s(%s)", letter, name, at);
    const char *rest = cr_session_printf(p->s, "cv_load%sn_%s(%s, %s)", letter, name, at,
                                         cr_spell_rest(p, (cr_dtype)b->dtype));

    if (p->at.how == CR_ACCESS_EITHER)
        return cr_session_printf(p->s, "m == CV_LANES_%s ? %s : %s",
                                 cr_spell_dtype(p->lanes.lane), whole, rest);
    return p->at.how == CR_ACCESS_WHOLE ? whole : rest;
}

/* True if the kernel does not read the buffer, and its vectors have the same format in
 * memory. */
static bool c_streams(const cr_printer *p, const cr_store *st)
{
    cr_dtype t = (cr_dtype)st->buffer->dtype;

    for (int q = 0; q < p->n->keeps; q++)
        if (p->n->keep[q].buffer == st->buffer && p->n->keep[q].value == st->value)
            return false;
    return p->choice.stream && !p->at.base && t != CR_BOOL && !cr_dtype_is_complex(t) &&
           !(p->lanes.mixed && t == CR_U8);
}

static void c_store_part(cr_printer *p, const cr_store *st)
{
    const char *letter, *name = cr_spell_memory(p, (cr_dtype)st->buffer->dtype, &letter);
    const char *at = c_address(p, st->buffer), *v = cr_spell_name(p, st->value);
    const char *way = c_streams(p, st) ? "streamto" : "store";

    if (p->at.how == CR_ACCESS_EITHER)
        cr_print_line(p, "if (m == CV_LANES_%s)", cr_spell_dtype(p->lanes.lane));
    if (p->at.how != CR_ACCESS_REST)
        cr_print_line(p, "%scv_%s%s_%s(%s, %s);", p->at.how == CR_ACCESS_EITHER ? "    " : "",
                      way, letter, name, at, v);
    if (p->at.how == CR_ACCESS_EITHER)
        cr_print_line(p, "else");
    if (p->at.how != CR_ACCESS_WHOLE)
        cr_print_line(p, "%scv_store%sn_%s(%s, %s, %s);",
                      p->at.how == CR_ACCESS_EITHER ? "    " : "", letter, name, at, v,
                      cr_spell_rest(p, (cr_dtype)st->buffer->dtype));
}

static void c_store(cr_printer *p, const cr_store *st)
{
    int parts = cr_spell_parts(p, (cr_dtype)st->buffer->dtype);

    for (p->lanes.part = 0; p->lanes.part < parts; p->lanes.part++)
        c_store_part(p, st);
    p->lanes.part = 0;
}

static void c_store_row(cr_printer *p, const cr_store *st)
{
    if (st->value->kind == CR_EXPR_INDEX_OF) {
        cr_print_line(p, "*(ck_int8 *)p%d = k%u;", cr_operand_number(p, st->buffer),
                      st->value->args[0]->id);
        return;
    }
    const char *letter, *name = cr_spell_memory(p, (cr_dtype)st->buffer->dtype, &letter);

    cr_print_line(p, "cv_store%sn_%s(p%d, %s, 1);", letter, name,
                  cr_operand_number(p, st->buffer), cr_spell_name(p, st->value));
}

/* --- loops over columns --- */

/* Steps of one vector from `at = j`, or the remainder of the row. */
static void c_single_steps(cr_printer *p, cr_access how, const char *end,
                           const char *accumulators)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    p->at.how = how;
    if (*accumulators)
        cr_print_open(p, cr_session_printf(p->s,
                                           "for (int k = 0; j < %s; j += CV_LANES_%s, "
                                           "k = k + 1 == %s ? 0 : k + 1)",
                                           end, lane, accumulators));
    else
        cr_print_open(p,
                      cr_session_printf(p->s, "for (; j < %s; j += CV_LANES_%s)", end, lane));
    cr_print_line(p, "const cv_s_i64 at = j, m = ck_least(%s - j, CV_LANES_%s);", end, lane);
    cr_print_body(p, "k");
    cr_print_shut(p);
}

/* The random numbers of the sweep's stores. */
typedef struct {
    const cr_expr *at[8];
    int count;
} randoms;

static void c_find_randoms(cr_printer *p, cr_expr_set *seen, const cr_expr *e, randoms *out)
{
    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e) ||
        cr_nest_kept(p->n, e, p->at.sweep))
        return;
    if (cr_expr_takes_scalars(e)) {
        if (out->count < (int)CR_LEN(out->at))
            out->at[out->count] = e;
        out->count++;
        return;
    }
    for (int i = 0; i < e->count; i++)
        c_find_randoms(p, seen, e->args[i], out);
}

/* Four vectors at a time use each block of the random stream once, if their first element
 * starts a block. */
static void c_random_loop(cr_printer *p, const char *end, const randoms *r)
{
    const char *test = "";

    for (int i = 0; i < r->count; i++)
        test = cr_session_printf(p->s, "%s%s(%s) %% 4 == 0", test, i ? " && " : "",
                                 cr_spell_scalar(p, r->at[i]->args[2], "j"));
    cr_print_open(p, cr_session_printf(p->s, "if (%s)", test));
    p->at.how = CR_ACCESS_WHOLE;
    p->batched = true;
    cr_print_open(
        p, cr_session_printf(p->s, "for (; j + 4 * CV_LANES_f32 <= %s; j += 4 * CV_LANES_f32)",
                             end));
    for (int i = 0; i < r->count; i++) {
        cr_print_line(p, "cv_i32 q%u[4];", r->at[i]->id);
        cr_print_line(p, "cv_philox4(%s, q%u);", cr_spell_random(p, r->at[i], "j"),
                      r->at[i]->id);
    }
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_open(p, "for (int k = 0; k < 4; k++)");
    cr_print_line(p, "const cv_s_i64 at = j + k * CV_LANES_f32;");
    cr_print_body(p, "k");
    cr_print_shut(p);
    cr_print_shut(p);
    cr_print_shut(p);
    p->batched = false;
}

static void c_try_random_loop(cr_printer *p, const char *end)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];
    cr_expr_set seen = cr_expr_set_new(p->n->loop);
    randoms r = {.count = 0};

    for (int i = 0; i < sweep->stores; i++)
        c_find_randoms(p, &seen, sweep->store[i].value, &r);
    if (!sweep->reduces.count && p->lanes.lane == CR_F32 && r.count &&
        r.count <= (int)CR_LEN(r.at))
        c_random_loop(p, end, &r);
}

static void c_heavy_loop(cr_printer *p, const char *end)
{
    bool reduces = p->n->sweep[p->at.sweep].reduces.count > 0;
    const char *name = cr_spell_vector(p, p->lanes.lane);

    c_try_random_loop(p, end);
    if (!cr_print_stages(p, end))
        c_single_steps(p, CR_ACCESS_EITHER, end,
                       reduces ? cr_session_printf(p->s, "CV_REDUCE_%s", name) : "");
}

/* True for reductions that have new accumulators for each chunk of a row: those with an order,
 * and those that keep their index, because the index is searched in one chunk. */
static bool c_goes_by_chunk(const cr_expr *e)
{
    return cr_expr_has_order(e) || cr_expr_keeps_index(e);
}

static bool c_sweep_goes_by_chunk(const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++)
        if (c_goes_by_chunk(sweep->reduces.at[i]))
            return true;
    return false;
}

/* Whole vectors, `count` for each step. */
static void c_unrolled(cr_printer *p, const char *end, const char *count)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    p->at.how = CR_ACCESS_WHOLE;
    cr_print_open(
        p, cr_session_printf(p->s, "for (; j + %s * CV_LANES_%s <= %s; j += %s * CV_LANES_%s)",
                             count, lane, end, count, lane));
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_open(p, cr_session_printf(p->s, "for (int k = 0; k < %s; k++)", count));
    cr_print_line(p, "const cv_s_i64 at = j + k * CV_LANES_%s;", lane);
    cr_print_body(p, "k");
    cr_print_shut(p);
    cr_print_shut(p);
}

/* Accumulators that a vector of the sweep needs, as a power of two. */
static int c_accumulators(const cr_printer *p, const cr_sweep *sweep)
{
    int n = 0, power = 1;

    for (int i = 0; i < sweep->reduces.count; i++)
        n += cr_spell_parts(p, (cr_dtype)sweep->reduces.at[i]->dtype) +
             cr_dtype_is_complex((cr_dtype)sweep->reduces.at[i]->dtype);
    while (power < n)
        power *= 2;
    return power;
}

/* Whole vectors of a chunk.  Lanes are independent: where the accumulators of all would not
 * stay in registers, the loop goes through the chunk several times, for a part of the lanes
 * each. */
static void c_reduced_parts(cr_printer *p, const cr_sweep *sweep, const char *end)
{
    const char *lane = cr_spell_dtype(p->lanes.lane), *name = cr_spell_vector(p, p->lanes.lane);

    p->at.how = CR_ACCESS_WHOLE;
    cr_print_line(p, "enum { PART = CV_PART(CV_REDUCE_%s, %d) };", name,
                  c_accumulators(p, sweep));
    cr_print_line(p, "const cv_s_i64 first = j;");
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_open(p, cr_session_printf(
                         p->s, "for (int part = 0; part < CV_REDUCE_%s; part += PART)", name));
    cr_print_open(p, cr_session_printf(p->s,
                                       "for (j = first; j + CV_REDUCE_%s * CV_LANES_%s <= %s; "
                                       "j += CV_REDUCE_%s * CV_LANES_%s)",
                                       name, lane, end, name, lane));
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_open(p, "for (int k = part; k < part + PART; k++)");
    cr_print_line(p, "const cv_s_i64 at = j + k * CV_LANES_%s;", lane);
    cr_print_body(p, "k");
    cr_print_shut(p);
    cr_print_shut(p);
    cr_print_shut(p);
}

/* The remainder of a reduced row: fewer than CV_REDUCE vectors, each with its accumulator. */
static void c_reduced_rest(cr_printer *p, const char *end)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    p->at.how = CR_ACCESS_REST;
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_open(p, cr_session_printf(p->s, "for (int k = 0; k < CV_REDUCE_%s; k++)",
                                       cr_spell_vector(p, p->lanes.lane)));
    cr_print_line(
        p, "const cv_s_i64 at = j + k * CV_LANES_%s, m = ck_least(%s - at, CV_LANES_%s);", lane,
        end, lane);
    cr_print_line(p, "if (m <= 0)");
    cr_print_line(p, "    break;");
    cr_print_body(p, "k");
    cr_print_shut(p);
    cr_print_line(p, "j = %s;", end);
}

static void c_light_loop(cr_printer *p, const char *end)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];

    if (!sweep->reduces.count) {
        int count = p->choice.unroll ? p->choice.unroll : sweep->cost <= 5 ? 4 : 2;
        c_unrolled(p, end, cr_session_printf(p->s, "%d", count));
        c_single_steps(p, CR_ACCESS_REST, end, "");
        return;
    }
    if (c_sweep_goes_by_chunk(sweep))
        c_reduced_parts(p, sweep, end);
    else
        c_unrolled(p, end,
                   cr_session_printf(p->s, "CV_REDUCE_%s", cr_spell_vector(p, p->lanes.lane)));
    c_reduced_rest(p, end);
}

static void c_loop(cr_printer *p, const char *end)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];
    bool heavy = sweep->cost >= CR_COST_HEAVY;

    if (heavy && p->choice.unroll > 1 && !sweep->reduces.count)
        c_light_loop(p, end);
    else if (heavy)
        c_heavy_loop(p, end);
    else
        c_light_loop(p, end);
}

static void c_some_columns(cr_printer *p, const char *from, const char *end)
{
    cr_print_line(p, "cv_s_i64 j = %s;", from);
    c_loop(p, end);
}

static void c_columns_loop(cr_printer *p) { c_some_columns(p, "0", "columns"); }

static void c_open_rows(cr_printer *p)
{
    cr_print_line(p, "const cv_s_i64 together = ck_rows_together(columns);");
    cr_print_open(p, "for (cv_s_i64 from_row = 0; from_row < rows; from_row += together)");
    cr_print_line(p, "const cv_s_i64 end_row = ck_least(rows, from_row + together);");
}

static void c_open_row(cr_printer *p)
{
    cr_print_open(p, p->together ? "for (cv_s_i64 r = from_row; r < end_row; r++)"
                                 : "for (cv_s_i64 r = 0; r < rows; r++)");
    cr_print_pointers(p, true);
}

/* True if an operand may be contiguous or one value for each row.  The first loop is for
 * contiguous operands; in the other a single value is a vector that does not advance. */
static bool c_any_flexible(const cr_printer *p)
{
    for (int k = 0; k < p->operands; k++)
        if (p->operand[k]->flexible)
            return true;
    return false;
}

static void c_lay_out_scalars(cr_printer *p)
{
    for (int k = 0; k < p->operands; k++) {
        const cr_buffer *b = p->operand[k];
        int item = (int)cr_dtype_size((cr_dtype)b->dtype);
        if (!b->flexible)
            continue;
        cr_print_line(p, "cv_s_i64 d%d = %d;", k, item);
        cr_print_line(p, "char s%d[CV_LANES_%s * %d] __attribute__((aligned(64)));", k,
                      cr_spell_dtype(p->lanes.lane), item);
        cr_print_open(p, cr_session_printf(p->s, "if (stride[%d] == 0)", 2 * k + 1));
        p->at.how = CR_ACCESS_WHOLE;
        if (b->dtype == CR_BOOL)
            cr_print_line(p, "cv_storeb_%d(s%d, cv_set1b_%d(*p%d));", p->lanes.width, k,
                          p->lanes.width, k);
        else
            cr_print_line(p, "cv_store_%s(s%d, cv_set1_%s(*(const cv_s_%s *)p%d));",
                          cr_spell_dtype((cr_dtype)b->dtype), k,
                          cr_spell_dtype((cr_dtype)b->dtype),
                          cr_spell_dtype((cr_dtype)b->dtype), k);
        cr_print_line(p, "p%d = s%d;", k, k);
        cr_print_line(p, "d%d = 0;", k);
        cr_print_shut(p);
    }
}

static const char *c_all_contiguous(cr_printer *p)
{
    const char *test = "";

    for (int k = 0; k < p->operands; k++)
        if (p->operand[k]->flexible)
            test = cr_session_printf(p->s, "%s%sstride[%d] == %d", test, *test ? " && " : "",
                                     2 * k + 1,
                                     (int)cr_dtype_size((cr_dtype)p->operand[k]->dtype));
    return test;
}

static void c_pointwise(cr_printer *p)
{
    bool light = p->n->sweep[0].cost < CR_COST_HEAVY;

    if (cr_nest_is_move(p->n)) {
        cr_print_move(p);
        return;
    }
    cr_print_line(p, "cv_s_i64 j = 0;");
    if (!c_any_flexible(p)) {
        c_loop(p, "columns");
        return;
    }
    if (light) {
        cr_print_open(p, cr_session_printf(p->s, "if (%s)", c_all_contiguous(p)));
        c_light_loop(p, "columns");
        cr_print_line(p, "continue;");
        cr_print_shut(p);
    }
    c_lay_out_scalars(p);
    p->at.stepping = true;
    if (light)
        c_unrolled(p, "columns", "2");
    if (light || !cr_print_stages(p, "columns"))
        c_single_steps(p, light ? CR_ACCESS_REST : CR_ACCESS_EITHER, "columns", "");
    p->at.stepping = false;
}

/* --- reductions along rows --- */

static void c_define_folds(cr_printer *p)
{
    for (int k = 0; k < p->n->sweeps; k++)
        for (int i = 0; i < p->n->sweep[k].reduces.count; i++) {
            const cr_expr *e = p->n->sweep[k].reduces.at[i];
            if (!cr_expr_has_order(e) || p->u->chunks[e->fn] >> e->dtype & 1)
                continue;
            p->u->chunks[e->fn] |= 1u << e->dtype;
            cr_text_printf(p->out, "CK_DEFINE_CHUNKS(%s, %s)\n\n", cr_fn_infos[e->fn].name,
                           cr_spell_dtype((cr_dtype)e->dtype));
        }
}

/* Declares the accumulators that are new for each chunk, or those that serve the whole row. */
static void c_start_accumulators(cr_printer *p, const cr_sweep *sweep, bool by_chunk)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        const char *t = cr_spell_vector(p, (cr_dtype)e->dtype);
        if (c_goes_by_chunk(e) != by_chunk)
            continue;
        cr_print_line(p, "cv_%s a%u[CV_REDUCE_%s];", t, e->id, t);
        cr_print_line(p, "CV_UNROLL(16)");
        cr_print_line(p, "for (int k = 0; k < CV_REDUCE_%s; k++)", t);
        cr_print_line(p, "    a%u[k] = z%u;", e->id, e->id);
    }
}

static void c_declare_result(cr_printer *p, const cr_expr *e)
{
    if (e->dtype == CR_BOOL)
        cr_print_line(p, "int s%u = %d;", e->id, cr_fn_identity((cr_fn)e->fn, CR_BOOL).i != 0);
    else
        cr_print_line(p, "cv_s_%s s%u = %s;", cr_spell_dtype((cr_dtype)e->dtype), e->id,
                      cr_spell_identity(p, e));
}

static void c_begin_folds(cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        c_declare_result(p, e);
        if (cr_expr_keeps_index(e))
            cr_print_line(p, "cv_s_i64 k%u = 0;", e->id);
        if (!cr_expr_has_order(e))
            continue;
        cr_print_line(p, "ck_chunks_%s c%u;", cr_spell_fold(p, e), e->id);
        cr_print_line(p, "if (columns > CR_FOLD_CHUNK)");
        cr_print_line(p, "    ck_start_%s(&c%u, s%u);", cr_spell_fold(p, e), e->id, e->id);
    }
}

/* s<id> is the extreme of the chunks so far; k<id> is the first column of the first chunk that
 * has it. */
static void c_end_chunk_of_index(cr_printer *p, const cr_expr *e)
{
    const char *t = e->dtype == CR_BOOL ? "int"
                                        : cr_session_printf(p->s, "cv_s_%s",
                                                            cr_spell_dtype((cr_dtype)e->dtype));

    cr_print_line(p, "const %s t%u = cv_reduce_%s_%s(a%u);", t, e->id, cr_spell_combiner(e),
                  cr_spell_vector(p, (cr_dtype)e->dtype), e->id);
    cr_print_open(p, cr_session_printf(p->s, "if (%s(t%u, s%u))",
                                       e->fn == CR_FN_above ? "CK_ABOVE" : "CK_BELOW", e->id,
                                       e->id));
    cr_print_line(p, "s%u = t%u;", e->id, e->id);
    cr_print_line(p, "k%u = from;", e->id);
    cr_print_shut(p);
}

static void c_end_chunk(cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (cr_expr_keeps_index(e))
            c_end_chunk_of_index(p, e);
        if (!cr_expr_has_order(e))
            continue;
        cr_print_line(p, "if (columns > CR_FOLD_CHUNK)");
        cr_print_line(p, "    ck_put_%s(&c%u, a%u);", cr_spell_fold(p, e), e->id, e->id);
        cr_print_line(p, "else");
        cr_print_line(p, "    s%u = cv_reduce_%s(a%u);", e->id, cr_spell_fold(p, e), e->id);
    }
}

/* Reductions without an order have accumulators for the whole row. */
static void c_end_unordered(cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (!c_goes_by_chunk(e))
            cr_print_line(p, "s%u = cv_reduce_%s_%s(a%u);", e->id, cr_fn_infos[e->fn].name,
                          cr_spell_vector(p, (cr_dtype)e->dtype), e->id);
    }
}

static void c_chunks(cr_printer *p, const cr_sweep *sweep)
{
    cr_print_open(p, "do");
    cr_print_line(p, "const cv_s_i64 end = ck_least(columns, j + CR_FOLD_CHUNK);");
    if (cr_nest_keeps_index(p->n))
        cr_print_line(p, "const cv_s_i64 from = j;");
    c_start_accumulators(p, sweep, true);
    c_loop(p, "end");
    c_end_chunk(p, sweep);
    p->at.indent--;
    cr_print_line(p, "} while (j < columns);");
}

static void c_fold_row(cr_printer *p, const cr_sweep *sweep)
{
    cr_print_line(p, "{");
    p->at.indent++;
    cr_print_line(p, "cv_s_i64 j = 0;");
    c_start_accumulators(p, sweep, false);
    if (c_sweep_goes_by_chunk(sweep))
        c_chunks(p, sweep);
    else
        c_loop(p, "columns");
    c_end_unordered(p, sweep);
    cr_print_shut(p);
}

/* The lanes whose value is the extreme s<id>.  A NaN in the row is its extreme. */
static const char *c_hits(cr_printer *p, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;
    const char *name = cr_spell_vector(p, t), *half[2] = {NULL, NULL};
    int parts = cr_spell_parts(p, t);

    for (p->lanes.part = 0; p->lanes.part < parts; p->lanes.part++) {
        const char *v = cr_spell_name(p, e->args[0]);
        const char *sought = cr_spell_set1(p, t, cr_session_printf(p->s, "s%u", e->id));
        if (t == CR_BOOL)
            half[p->lanes.part] =
                cr_session_printf(p->s, "cv_not_%s(cv_xor_%s(%s, %s))", name, name, v, sought);
        else if (!cr_dtype_is_float(t))
            half[p->lanes.part] = cr_session_printf(p->s, "cv_eq_%s(%s, %s)", name, v, sought);
        else
            half[p->lanes.part] =
                cr_session_printf(p->s, "cv_or_m%d(cv_eq_%s(%s, %s), cv_isnan_%s(%s))",
                                  8 * (int)cr_dtype_size(t), name, v, sought, name, v);
    }
    p->lanes.part = 0;
    return parts == 1 ? half[0]
                      : cr_session_printf(p->s, "cv_join_m32(%s, %s)", half[0], half[1]);
}

/* Sets s<id> to lane `hit` of the operand, because equal floats may differ in bits. */
static void c_take_lane(cr_printer *p, const cr_expr *e)
{
    const char *t = cr_spell_dtype((cr_dtype)e->dtype);
    int parts = cr_spell_parts(p, (cr_dtype)e->dtype);

    cr_print_line(p, "cv_s_%s lane[%d * CV_LANES_%s];", t, parts, t);
    for (p->lanes.part = 0; p->lanes.part < parts; p->lanes.part++)
        cr_print_line(p, "cv_store_%s(lane + %d * CV_LANES_%s, %s);", t, p->lanes.part, t,
                      cr_spell_name(p, e->args[0]));
    p->lanes.part = 0;
    cr_print_line(p, "s%u = lane[hit];", e->id);
}

/* Finds the first element of the chunk from k<id> on that is the extreme. */
static void c_find_index(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane), *mask = cr_spell_vector(p, CR_BOOL);

    cr_print_open(p, cr_session_printf(p->s,
                                       "for (cv_s_i64 at = k%u; at < columns; at += "
                                       "CV_LANES_%s)",
                                       e->id, lane));
    cr_print_line(p, "const cv_s_i64 m = ck_least(columns - at, CV_LANES_%s);", lane);
    p->at.how = CR_ACCESS_EITHER;
    cr_print_column_value(p, e->args[0]);
    cr_print_line(p, "const cv_%s hits = cv_and_%s(cv_firstn_%d(m), %s);", mask, mask,
                  p->lanes.width, c_hits(p, e));
    cr_print_open(p, cr_session_printf(p->s, "if (cv_any_%s(hits))", mask));
    cr_print_line(p, "const int hit = cv_first_%s(hits);", mask);
    cr_print_line(p, "k%u = at + hit;", e->id);
    if (cr_dtype_is_float((cr_dtype)e->dtype))
        c_take_lane(p, e);
    cr_print_line(p, "break;");
    cr_print_shut(p);
    cr_print_shut(p);
}

static void c_end_fold(cr_printer *p, const cr_expr *e)
{
    if (cr_expr_keeps_index(e))
        c_find_index(p, e);
    if (!cr_expr_has_order(e))
        return;
    cr_print_line(p, "if (columns > CR_FOLD_CHUNK)");
    cr_print_line(p, "    s%u = ck_end_%s(&c%u);", e->id, cr_spell_fold(p, e), e->id);
    if (e->fn == CR_FN_add)
        cr_print_line(p, "s%u = columns ? s%u : %s;", e->id, e->id, cr_spell_empty_sum(p, e));
}

/* --- columns --- */

/* Row r of a block is combined into accumulator r mod 4; a strip of columns stays in the cache
 * for all rows. */
static void c_columns_rows(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane),
               *t = cr_spell_vector(p, (cr_dtype)e->dtype);
    bool heavy = p->n->sweep[0].cost >= CR_COST_HEAVY;

    cr_print_open(p, "for (cv_s_i64 r = top; r < end; r++)");
    cr_print_pointers(p, false);
    cr_print_sweep_values(p, &p->n->sweep[0]);
    cr_print_line(p, "cv_%s *const a%u = b[r %% CR_FOLD_ACCUMULATORS];", t, e->id);
    cr_print_line(p, "int k = 0;");
    if (!heavy) {
        p->at.how = CR_ACCESS_WHOLE;
        cr_print_open(
            p, cr_session_printf(p->s, "for (; (k + 1) * CV_LANES_%s <= wide; k++)", lane));
        cr_print_line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
        cr_print_body(p, "k");
        cr_print_shut(p);
    }
    p->at.how = heavy ? CR_ACCESS_EITHER : CR_ACCESS_REST;
    cr_print_open(p, cr_session_printf(p->s, "for (; k * CV_LANES_%s < wide; k++)", lane));
    cr_print_line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
    cr_print_line(p, "const cv_s_i64 m = ck_least(first + wide - at, CV_LANES_%s);", lane);
    cr_print_body(p, "k");
    cr_print_shut(p);
    cr_print_shut(p);
}

static const char *c_combine_if(cr_printer *p, const cr_expr *e, const char *test,
                                const char *a, const char *b)
{
    return cr_session_printf(p->s, "%s ? %s : %s", test, cr_spell_combine(p, e, a, b), a);
}

/* The result of block b, `top / CR_FOLD_BLOCK`, is combined into w[b mod 4]. */
static void c_columns_end_block(cr_printer *p, const cr_expr *e)
{
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype);

    cr_print_open(p, cr_session_printf(p->s, "for (int k = 0; k * CV_LANES_%s < wide; k++)",
                                       cr_spell_dtype(p->lanes.lane)));
    cr_print_line(p, "const cv_%s x = %s;", t,
                  cr_spell_combine(p, e, cr_spell_combine(p, e, "b[0][k]", "b[1][k]"),
                                   cr_spell_combine(p, e, "b[2][k]", "b[3][k]")));
    cr_print_line(p, "w[block %% 4][k] = block < 4 ? x : %s;",
                  cr_spell_combine(p, e, "w[block % 4][k]", "x"));
    cr_print_shut(p);
}

static void c_columns_end(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane),
               *t = cr_spell_vector(p, (cr_dtype)e->dtype);
    const cr_store *st = &p->n->row_store[0];
    int k = cr_operand_number(p, st->buffer);

    cr_print_line(p, "char *const p%d = (char *)ptr[%d];", k, k);
    cr_print_open(
        p, cr_session_printf(p->s, "for (int k = 0; k * CV_LANES_%s < wide; k++)", lane));
    cr_print_line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
    cr_print_line(p, "const cv_s_i64 m = ck_least(first + wide - at, CV_LANES_%s);", lane);
    cr_print_line(p, "const cv_%s x = %s;", t,
                  c_combine_if(p, e, "blocks > 2", "w[0][k]", "w[2][k]"));
    cr_print_line(p, "const cv_%s y = %s;", t,
                  c_combine_if(p, e, "blocks > 3", "w[1][k]", "w[3][k]"));
    cr_print_line(p, "const cv_%s v = %s;", t, c_combine_if(p, e, "blocks > 1", "x", "y"));
    cr_print_value(p, e, cr_spell_without_order(p, e, "v"));
    p->at.how = CR_ACCESS_EITHER;
    c_store(p, st);
    cr_print_shut(p);
}

static void c_columns_blocks(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    cr_print_open(p,
                  cr_session_printf(p->s, "for (cv_s_i64 block = 0; block < blocks; block++)"));
    cr_print_line(p, "const cv_s_i64 top = block * CR_FOLD_BLOCK, end = ck_least(rows, top + "
                     "CR_FOLD_BLOCK);");
    cr_print_line(p, "for (int k = 0; k * CV_LANES_%s < wide; k++)", lane);
    cr_print_line(p, "    b[0][k] = b[1][k] = b[2][k] = b[3][k] = z%u;", e->id);
    c_columns_rows(p, e);
    c_columns_end_block(p, e);
    cr_print_shut(p);
}

/* At most CR_FOLD_COLUMN rows; zero rows are one block of identities. */
static void c_columns_sum(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane),
               *t = cr_spell_vector(p, (cr_dtype)e->dtype);

    cr_print_line(p, "const cv_s_i64 blocks = (rows + CR_FOLD_BLOCK - 1) / CR_FOLD_BLOCK;");
    cr_print_open(p, cr_session_printf(p->s,
                                       "for (cv_s_i64 first = 0; first < columns; "
                                       "first += CK_STRIP * CV_LANES_%s)",
                                       lane));
    cr_print_line(p, "const cv_s_i64 wide = ck_least(columns - first, CK_STRIP * CV_LANES_%s);",
                  lane);
    cr_print_line(p, "cv_%s b[CR_FOLD_ACCUMULATORS][CK_STRIP], w[4][CK_STRIP];", t);
    c_columns_blocks(p, e);
    c_columns_end(p, e);
    cr_print_shut(p);
}

/* Rows for which the accumulators of a vector of columns stay in registers. */
enum { C_INDEX_ROWS = 16 };

/* Takes row r in the lanes in which it is beyond the accumulator x: its value to x, its number,
 * which each lane of n has, to y. */
static void c_index_row(cr_printer *p, const cr_expr *e, const char *counter)
{
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype), *v = cr_spell_name(p, e->args[0]);

    cr_print_pointers(p, false);
    cr_print_sweep_values(p, &p->n->sweep[0]);
    cr_print_column_value(p, e->args[0]);
    cr_print_line(p, "const cv_%s take = cv_%s_%s(%s, x);", cr_spell_vector(p, CR_BOOL),
                  cr_fn_infos[e->fn].name, t, v);
    cr_print_line(p, "x = cv_select_%s(take, %s, x);", t, v);
    cr_print_line(p, "y = cv_select_%s(take, n, y);", counter);
    cr_print_line(p, "n = n + 1;");
}

/* The vectors k of the strip over which the loop `head` goes. */
static void c_index_vectors(cr_printer *p, const cr_expr *e, const char *counter,
                            const char *head, cr_access how)
{
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype),
               *lane = cr_spell_dtype(p->lanes.lane);
    cr_expr_set outside = p->hoisted;

    p->at.how = how;
    p->hoisted.bits = cr_session_copy(p->s, outside.bits, outside.words * sizeof *outside.bits);
    cr_print_open(p, head);
    cr_print_line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
    if (how != CR_ACCESS_WHOLE)
        cr_print_line(p, "const cv_s_i64 m = ck_least(first + wide - at, CV_LANES_%s);", lane);
    cr_print_line(p, "cv_%s x = top ? b[k] : z%u;", t, e->id);
    cr_print_line(p, "cv_%s y = top ? index[k] : cv_set1_%s(0), n = cv_set1_%s((cv_s_%s)top);",
                  counter, counter, counter, counter);
    cr_print_open(p, "for (cv_s_i64 r = top; r < end; r++)");
    c_index_row(p, e, counter);
    cr_print_shut(p);
    cr_print_line(p, "b[k] = x;");
    cr_print_line(p, "index[k] = y;");
    cr_print_shut(p);
    p->hoisted = outside;
}

static void c_index_store(cr_printer *p, const cr_expr *e, const cr_store *st)
{
    int k = cr_operand_number(p, st->buffer);

    cr_print_line(p, "char *const p%d = (char *)ptr[%d];", k, k);
    if (st->value == e)
        cr_print_value(p, e, "b[k]");
    else if (p->lanes.mixed)
        for (p->lanes.part = 0; p->lanes.part < 2; p->lanes.part++)
            cr_print_value(
                p, st->value,
                cr_session_printf(p->s, "cv_widen_i64_i32(index[k], %d)", p->lanes.part));
    else
        cr_print_value(p, st->value, "index[k]");
    p->lanes.part = 0;
    p->at.how = CR_ACCESS_EITHER;
    c_store(p, st);
}

/* The extreme of each column and the number of its row; there are fewer than 2^31 rows. */
static void c_columns_index(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane), *counter = p->lanes.mixed ? "i32" : "i64";

    if (cr_spell_parts(p, (cr_dtype)e->dtype) == 2)
        cr_bail(p->s, CR_TYPE, "values of several widths in a column reduction");
    cr_print_open(p, cr_session_printf(p->s,
                                       "for (cv_s_i64 first = 0; first < columns; "
                                       "first += CK_STRIP * CV_LANES_%s)",
                                       lane));
    cr_print_line(p, "const cv_s_i64 wide = ck_least(columns - first, CK_STRIP * CV_LANES_%s);",
                  lane);
    cr_print_line(p, "cv_%s b[CK_STRIP];", cr_spell_vector(p, (cr_dtype)e->dtype));
    cr_print_line(p, "cv_%s index[CK_STRIP];", counter);
    cr_print_open(p, cr_session_printf(p->s, "for (cv_s_i64 top = 0; top < rows; top += %d)",
                                       C_INDEX_ROWS));
    cr_print_line(p, "const cv_s_i64 end = ck_least(rows, top + %d);", C_INDEX_ROWS);
    cr_print_line(p, "int k = 0;");
    c_index_vectors(p, e, counter,
                    cr_session_printf(p->s, "for (; (k + 1) * CV_LANES_%s <= wide; k++)", lane),
                    CR_ACCESS_WHOLE);
    c_index_vectors(p, e, counter,
                    cr_session_printf(p->s, "for (; k * CV_LANES_%s < wide; k++)", lane),
                    CR_ACCESS_REST);
    cr_print_shut(p);
    cr_print_open(
        p, cr_session_printf(p->s, "for (int k = 0; k * CV_LANES_%s < wide; k++)", lane));
    cr_print_line(p, "const cv_s_i64 at = first + k * CV_LANES_%s;", lane);
    cr_print_line(p, "const cv_s_i64 m = ck_least(first + wide - at, CV_LANES_%s);", lane);
    for (int i = 0; i < p->n->row_stores; i++)
        c_index_store(p, e, &p->n->row_store[i]);
    cr_print_shut(p);
    cr_print_shut(p);
}

static void c_columns(cr_printer *p)
{
    const cr_expr *e = p->n->sweep[0].reduces.at[0];

    if (cr_expr_keeps_index(e))
        c_columns_index(p, e);
    else
        c_columns_sum(p, e);
}

/* --- the function --- */

static void c_open_kernel(cr_printer *p, const char *symbol)
{
    static const char *const end[] = {";", ""};

    for (size_t i = 0; i < CR_LEN(end); i++) {
        cr_print_line(
            p, "void CK(%s)(void *const *ptr, const cv_s_i64 *stride, const cv_s_i64 *size,",
            symbol);
        cr_print_line(p, "    const void *param)%s", end[i]);
    }
    cr_print_line(p, "{");
    p->at.indent++;
}

static void c_end_kernel(cr_printer *p)
{
    if (p->choice.stream)
        cr_print_line(p, "cv_stream_end();");
}

const cr_dialect cr_dialect_c = {
    .name = "c",
    .last_header = "emit/kernel.h",
    .any_address = true,
    .mixes = true,
    .define_folds = c_define_folds,
    .open_kernel = c_open_kernel,
    .end_kernel = c_end_kernel,
    .load = c_load,
    .store = c_store,
    .store_row = c_store_row,
    .open_rows = c_open_rows,
    .open_row = c_open_row,
    .pointwise = c_pointwise,
    .columns_loop = c_columns_loop,
    .some_columns = c_some_columns,
    .begin_folds = c_begin_folds,
    .fold_row = c_fold_row,
    .end_fold = c_end_fold,
    .fold_columns = c_columns,
};
