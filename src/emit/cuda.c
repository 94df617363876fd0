/* Nests as CUDA C++.
 *
 * A thread computes with the vectors of the vocabulary, 16 bytes each, or 32 beside halves.
 * Pointwise programs: a thread has a vector.  Rows with reductions: threads hold the lanes of
 * order P's chunks.  An element is in the same thread in all sweeps of a row, so a sweep needs
 * no barrier to read values that an earlier sweep stored.  Columns: a thread reduces a vector
 * of columns over 512 rows; the grid's y blocks share longer columns, and each part of 512 rows
 * has its own result.
 *
 * A body exists twice, for whole vectors at aligned addresses and element by element. */
#include "emit/dialect.h"
#include <string.h>

/* The cost of a step from which its body exists once. */
enum { CUDA_COST_ONCE = 100 };
/* The cost from which the values of halves are read from a table (jit/cuda_table.h). */
enum { CUDA_COST_TABLE = 14, CUDA_COST_PRODUCT = 20 };
/* Threads of a multiprocessor that have 80 registers each, and 64 each: for whole rows of
 * halves, of which registers hold two each. */
enum { CUDA_SHARED_THREADS = 768, CUDA_HALF_THREADS = 1024, CUDA_FEW_THREADS = 1536 };
/* Threads of a pointwise kernel's block, and of a multiprocessor where they have 32 registers
 * each: with one or two operands of 16 bytes a thread, fewer threads have not as many bytes
 * underway as memory needs.  Kernels that cost less take no more registers than these, and
 * those that cost more would spill. */
enum { CUDA_POINTWISE_THREADS = 256, CUDA_ALL_THREADS = 2048, CUDA_COST_CALL = 40 };
/* The bytes of columns that a thread loads before it adds them up. */
enum { CUDA_COLUMN_BYTES = 128 };

/* --- elements --- */

/* How many bytes a vector of the operand's elements has. */
static int cuda_bytes(const cr_printer *p, const cr_buffer *b)
{
    int lanes = p->lanes.vector * 8 / p->lanes.width;

    return lanes * (int)cr_dtype_size(cr_operand_stored(p, b));
}

/* The bytes to which an operand's vectors are aligned where whole ones are accessed. */
static int cuda_alignment(const cr_printer *p, const cr_buffer *b)
{
    int bytes = cuda_bytes(p, b), most = p->lanes.vector < 16 ? 16 : p->lanes.vector;

    return bytes < most ? bytes : most;
}

/* What follows "ck_load" in the name of an operand's load: "_f32", "b_32", or "_bf16". */
static const char *cuda_memory(cr_printer *p, const cr_buffer *b, const char *some)
{
    cr_dtype stored = cr_operand_stored(p, b);
    const char *letter = "", *name = cr_spell_dtype(stored);

    if (stored == b->dtype)
        name = cr_spell_memory(p, stored, &letter);
    return cr_session_printf(p->s, "%s%s_%s", letter, some, name);
}

static const char *cuda_load(cr_printer *p, const cr_buffer *b)
{
    int k = cr_operand_number(p, b);
    const char *at = cr_spell_address(p, b);

    if (b->role == CR_BUFFER_OUTPUT && cr_operand_stored(p, b) != b->dtype)
        cr_bail(p->s, CR_TYPE, "a later sweep reads values that are rounded to halves");
    const char *whole = cr_session_printf(p->s, "ck_load%s(%s)", cuda_memory(p, b, ""), at);
    const char *rest = cr_session_printf(p->s, "ck_load%s(%s, m)", cuda_memory(p, b, "n"), at);

    if (p->at.how == CR_ACCESS_EITHER)
        whole = cr_session_printf(p->s, "wide && m == CV_LANES_%s ? %s : %s",
                                  cr_spell_dtype(p->lanes.lane), whole, rest);
    else if (p->at.how == CR_ACCESS_REST)
        whole = rest;
    return b->flexible ? cr_session_printf(p->s, "d%d ? %s : f%d", k, whole, k) : whole;
}

/* The value that is stored: a store of halves rounds, so a value that was rounded to the same
 * halves in this sweep is stored as it was before. */
static const cr_expr *cuda_unrounded(const cr_printer *p, const cr_store *st)
{
    const cr_expr *e = st->value;
    cr_dtype stored = cr_operand_stored(p, st->buffer);
    cr_fn rounds = stored == CR_BF16 ? CR_FN_roundbfloat : CR_FN_roundhalf;
    bool halves = (stored == CR_BF16 || stored == CR_F16) && stored != st->buffer->dtype;

    if (e->kind != CR_EXPR_CALL ||
        (p->choice.exact ? e->fn != CR_FN_roundbfloat && e->fn != CR_FN_roundhalf
                         : !halves || e->fn != rounds) ||
        cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN ||
        cr_nest_scope(p->n, e->args[0]) != CR_SCOPE_COLUMN ||
        cr_nest_kept(p->n, e, p->at.sweep) || e->args[0]->kind != CR_EXPR_CALL)
        return e;
    return e->args[0];
}

static void cuda_store(cr_printer *p, const cr_store *st)
{
    const char *at = cr_spell_address(p, st->buffer);
    unsigned v = cuda_unrounded(p, st)->id;

    if (p->at.how == CR_ACCESS_EITHER)
        cr_print_line(p, "if (wide && m == CV_LANES_%s)", cr_spell_dtype(p->lanes.lane));
    p->at.indent += p->at.how == CR_ACCESS_EITHER;
    if (p->at.how != CR_ACCESS_REST)
        cr_print_line(p, "ck_store%s(%s, v%u);", cuda_memory(p, st->buffer, ""), at, v);
    p->at.indent -= p->at.how == CR_ACCESS_EITHER;
    if (p->at.how == CR_ACCESS_EITHER)
        cr_print_line(p, "else");
    p->at.indent += p->at.how == CR_ACCESS_EITHER;
    if (p->at.how != CR_ACCESS_WHOLE)
        cr_print_line(p, "ck_store%s(%s, v%u, m);", cuda_memory(p, st->buffer, "n"), at, v);
    p->at.indent -= p->at.how == CR_ACCESS_EITHER;
}

static void cuda_store_row(cr_printer *p, const cr_store *st)
{
    cr_print_line(p, "if (ck_x() == 0)");
    if (st->value->kind == CR_EXPR_INDEX_OF) {
        cr_print_line(p, "    *(ck_int8 *)p%d = k%u;", cr_operand_number(p, st->buffer),
                      st->value->args[0]->id);
        return;
    }
    cr_print_line(p, "    ck_store%s(p%d, v%u, 1);", cuda_memory(p, st->buffer, "n"),
                  cr_operand_number(p, st->buffer), st->value->id);
}

/* The word of a reduction whose result does not tell zeros apart. */
static const char *cuda_extreme(const cr_expr *e)
{
    cr_fn fn = (cr_fn)cr_fn_find(cr_spell_combiner(e));

    return fn == CR_FN_maximum ? "most" : fn == CR_FN_minimum ? "least" : NULL;
}

bool cr_expr_is_below_zero(const cr_expr *e)
{
    const cr_expr *most = e->kind == CR_EXPR_CALL && e->fn == CR_FN_sub ? e->args[1] : NULL;

    return most && most->kind == CR_EXPR_REDUCE && most->fn == CR_FN_maximum &&
           most->args[0] == e->args[0];
}

static const char *cuda_word(const cr_printer *p, const cr_expr *e)
{
    if (e->dtype != CR_F32)
        return NULL;
    if (e->kind == CR_EXPR_REDUCE)
        return cuda_extreme(e);
    if (e->fn != CR_FN_exp || !cr_expr_is_below_zero(e->args[0]))
        return NULL;
    return p->near ? "expnear" : "expdown";
}

/* --- loops over columns --- */

static bool cuda_reduces(const cr_printer *p)
{
    for (int k = 0; k < p->n->sweeps; k++)
        if (p->n->sweep[k].reduces.count)
            return true;
    return false;
}

static void cuda_note_loads(cr_printer *p, cr_expr_set *seen, const cr_expr *e, bool *column)
{
    if (!cr_expr_set_add(seen, e))
        return;
    if (e->kind == CR_EXPR_LOAD && cr_nest_scope(p->n, e) == CR_SCOPE_COLUMN)
        column[cr_operand_number(p, e->buffer)] = true;
    for (int i = 0; i < e->count && !cr_expr_takes_scalars(e); i++)
        cuda_note_loads(p, seen, e->args[i], column);
}

/* Which operands have an element a column. */
static void cuda_column_operands(cr_printer *p, bool *column)
{
    cr_expr_set seen = cr_expr_set_new(p->n->loop);

    memset(column, 0, CR_EMIT_OPERANDS * sizeof *column);
    for (size_t i = 0; i < p->n->loop->defs.len; i++)
        cuda_note_loads(p, &seen, p->n->loop->defs.at[i]->value, column);
    for (int k = 0; k < p->n->sweeps; k++)
        for (int i = 0; i < p->n->sweep[k].stores; i++)
            column[cr_operand_number(p, p->n->sweep[k].store[i].buffer)] = true;
}

/* `wide`: vectors of the row's operands are at addresses where one access reads them. */
static void cuda_wide(cr_printer *p, const bool *column)
{
    const char *test = "";

    for (int k = 0; k < p->operands; k++) {
        const cr_buffer *b = p->operand[k];
        int bytes = cuda_alignment(p, b);
        const char *aligned = cr_session_printf(p->s, "ck_aligned(p%d, %d)", k, bytes);
        p->u->launch.align[k] = (uint8_t)(column[k] ? bytes : 0);
        if (b->flexible)
            aligned = cr_session_printf(p->s, "(!d%d || %s)", k, aligned);
        if (column[k])
            test = cr_session_printf(p->s, "%s%s%s", test, *test ? " && " : "", aligned);
    }
    cr_print_line(p, "const bool wide = %s;", *test ? test : "true");
}

/* A flexible operand has a step d<k>, and the value f<k> when the step is 0.  A number has the
 * address NULL; its value is in the place of its strides. */
static void cuda_flexible(cr_printer *p, int k)
{
    cr_dtype dtype = (cr_dtype)p->operand[k]->dtype;
    const char *t = dtype == CR_BOOL ? "u8" : cr_spell_dtype(dtype);
    const char *one = cr_session_printf(p->s, "ptr[%d] ? %s : *(const cv_s_%s *)(stride + %d)",
                                        k, cr_spell_element(p, p->operand[k]), t, 2 * k);

    p->u->launch.flexible |= 1u << k;
    cr_print_line(p, "const cv_s_i64 d%d = ptr[%d] ? stride[%d] : 0;", k, k, 2 * k + 1);
    const char *vector = cr_spell_vector(p, dtype);
    cr_print_line(p, "const cv_%s f%d = d%d ? cv_%s{} : %s;", vector, k, k, vector,
                  cr_spell_set1(p, dtype, one));
}

static void cuda_block(cr_printer *p, const char *head, cr_access how)
{
    p->at.how = how;
    cr_print_open(p, head);
    if (how != CR_ACCESS_WHOLE)
        cr_print_line(p, "const cv_s_i64 m = ck_least(columns - at, CV_LANES_%s);",
                      cr_spell_dtype(p->lanes.lane));
    cr_print_body(p, "0");
    cr_print_shut(p);
}

/* Vectors `step` apart from column `at` on, below `end`.  Whole ones come first, with `unroll`
 * several at once so that their loads overlap; a costly body is there only once. */
static void cuda_vectors(cr_printer *p, const char *end, const char *step, bool unroll)
{
    int cost = p->n->sweep[p->at.sweep].cost;

    if (cost < CUDA_COST_ONCE) {
        cr_print_open(p, "if (wide)");
        if (unroll)
            cr_print_line(p, "CV_UNROLL(%d)", cost < CR_COST_HEAVY ? 8 : 4);
        cuda_block(p,
                   cr_session_printf(p->s, "for (; at + CV_LANES_%s <= %s; at += %s)",
                                     cr_spell_dtype(p->lanes.lane), end, step),
                   CR_ACCESS_WHOLE);
        cr_print_shut(p);
    }
    cuda_block(p, cr_session_printf(p->s, "for (; at < %s; at += %s)", end, step),
               cost < CUDA_COST_ONCE ? CR_ACCESS_REST : CR_ACCESS_EITHER);
}

/* The block's part of an array of a list. */
static void cuda_pointwise_part(cr_printer *p, const char *lane)
{
    cr_print_line(p, "const cv_s_i64 part = (cv_s_i64)%d * ck_wide() * CV_LANES_%s;",
                  CR_EMIT_LIST_STEPS, lane);
    cr_print_line(p, "const cv_s_i64 end = ck_least(columns, (nth + 1) * part);");
    cr_print_line(p, "cv_s_i64 at = nth * part + ck_x() * CV_LANES_%s;", lane);
    cuda_vectors(p, "end", cr_session_printf(p->s, "ck_wide() * CV_LANES_%s", lane), true);
}

static void cuda_pointwise(cr_printer *p)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    if (p->choice.list) {
        cuda_pointwise_part(p, lane);
        return;
    }
    cr_print_line(p, "cv_s_i64 at = ck_first_x() * CV_LANES_%s;", lane);
    cuda_vectors(p, "columns", cr_session_printf(p->s, "ck_step_x() * CV_LANES_%s", lane),
                 false);
}

/* The thread's vectors of the block's chunks, ascending. */
static void cuda_chunk(cr_printer *p)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    cr_print_line(p, "const cv_s_i64 top = block + CK_CHUNK_(%s) * CR_FOLD_CHUNK;", lane);
    cr_print_line(p, "const cv_s_i64 end = ck_least(columns, top + CR_FOLD_CHUNK);");
    cr_print_line(p, "cv_s_i64 at = top + CK_PLACE_(%s) * CV_LANES_%s;", lane, lane);
    cuda_vectors(p, "end", "CR_FOLD_LANES", true);
}

static void cuda_columns_loop(cr_printer *p)
{
    cr_print_open(p, "for (cv_s_i64 block = 0; block < columns; block += CR_FOLD_ROW)");
    cuda_chunk(p);
    cr_print_shut(p);
}

/* --- reductions along rows --- */

static const char *cuda_fold(cr_printer *p, const cr_expr *e)
{
    return cr_session_printf(p->s, "%s_%s", cr_spell_combiner(e),
                             cr_spell_vector(p, (cr_dtype)e->dtype));
}

/* The bit of cr_unit.chunks; masks of each width have one. */
static int cuda_definition(const cr_printer *p, const cr_expr *e)
{
    return e->dtype == CR_BOOL ? (p->lanes.width == 8    ? 29
                                  : p->lanes.width == 32 ? 30
                                                         : 31)
                               : e->dtype;
}

static void cuda_define(cr_printer *p, const cr_expr *e)
{
    cr_fn fn = (cr_fn)cr_fn_find(cr_spell_combiner(e));
    const char *name = cr_fn_infos[fn].name, *t = cr_spell_vector(p, (cr_dtype)e->dtype);
    const char *word = cuda_word(p, e);
    int bit = cuda_definition(p, e);

    if (p->u->chunks[fn] >> bit & 1)
        return;
    p->u->chunks[fn] |= 1u << bit;
    if (e->dtype == CR_BOOL)
        cr_print_line(p, "CK_DEFINE_MASK_TREE(%s, %s, %s)\n", name, t,
                      fn == CR_FN_and ? "all" : "any");
    else if (cr_expr_has_order(e))
        cr_print_line(p, "CK_DEFINE_BLOCKS(%s, %s)\n", name, t);
    else
        cr_print_line(p, "CK_DEFINE_FREE_TREE(%s, %s, %s)\n", name, word ? word : name, t);
}

static void cuda_define_folds(cr_printer *p)
{
    for (int k = 0; k < p->n->sweeps && p->n->kind == CR_NEST_ROWS; k++)
        for (int i = 0; i < p->n->sweep[k].reduces.count; i++)
            cuda_define(p, p->n->sweep[k].reduces.at[i]);
}

static void cuda_begin_folds(cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (e->dtype == CR_BOOL)
            cr_print_line(p, "int s%u;", e->id);
        else
            cr_print_line(p, "cv_s_%s s%u;", cr_spell_dtype((cr_dtype)e->dtype), e->id);
        if (!cr_expr_has_order(e))
            continue;
        cr_print_line(p, "ck_blocks_%s c%u;", cuda_fold(p, e), e->id);
        cr_print_line(p, "ck_start_%s(&c%u, z%u);", cuda_fold(p, e), e->id, e->id);
    }
}

static void cuda_accumulators(cr_printer *p, const cr_sweep *sweep, bool order)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (cr_expr_has_order(e) == order)
            cr_print_line(p, "cv_%s a%u[1] = {z%u};", cr_spell_vector(p, (cr_dtype)e->dtype),
                          e->id, e->id);
    }
}

static void cuda_fold_row(cr_printer *p, const cr_sweep *sweep)
{
    cr_print_line(p, "{");
    p->at.indent++;
    cr_print_line(p, "cv_s_i64 block = 0;");
    cuda_accumulators(p, sweep, false);
    cr_print_open(p, "do");
    cuda_accumulators(p, sweep, true);
    cuda_chunk(p);
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (cr_expr_has_order(e))
            cr_print_line(p, "ck_put_%s(&c%u, a%u[0], columns - block, z%u);", cuda_fold(p, e),
                          e->id, e->id, e->id);
    }
    cr_print_line(p, "block += CR_FOLD_ROW;");
    p->at.indent--;
    cr_print_line(p, "} while (block < columns);");
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (!cr_expr_has_order(e))
            cr_print_line(p, "s%u = ck_tree_%s(a%u[0], CR_FOLD_CHUNKS, CK_ALONE);", e->id,
                          cuda_fold(p, e), e->id);
    }
    cr_print_shut(p);
}

/* The condition that lane l has the extreme.  A NaN in the row is its extreme. */
static const char *cuda_hit(cr_printer *p, const cr_expr *e)
{
    unsigned v = e->args[0]->id;

    if (e->dtype == CR_BOOL)
        return cr_session_printf(p->s, "(v%u[l] != 0) == (s%u != 0)", v, e->id);
    return cr_session_printf(p->s, "v%u[l] == s%u || v%u[l] != v%u[l]", v, e->id, v, v);
}

/* Each thread searches its elements again for the extreme; the row's lowest index is kept. */
static void cuda_find_index(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);
    const char *t = e->dtype == CR_BOOL ? "int" : cr_session_printf(p->s, "cv_s_%s", lane);

    cr_print_line(p, "ck_found<%s> f%u = {columns, s%u};", t, e->id, e->id);
    cr_print_open(p, cr_session_printf(p->s,
                                       "for (cv_s_i64 block = 0; block < f%u.at; block += "
                                       "CR_FOLD_ROW)",
                                       e->id));
    cr_print_line(p, "const cv_s_i64 top = block + CK_CHUNK_(%s) * CR_FOLD_CHUNK;", lane);
    cr_print_line(p, "const cv_s_i64 end = ck_least(f%u.at, top + CR_FOLD_CHUNK);", e->id);
    cr_print_open(p, cr_session_printf(p->s,
                                       "for (cv_s_i64 at = top + CK_PLACE_(%s) * CV_LANES_%s; "
                                       "at < ck_least(end, f%u.at); at += CR_FOLD_LANES)",
                                       lane, lane, e->id));
    cr_print_line(p, "const cv_s_i64 m = ck_least(columns - at, CV_LANES_%s);", lane);
    p->at.how = CR_ACCESS_EITHER;
    cr_print_column_value(p, e->args[0]);
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_line(p, "for (int l = CV_LANES_%s - 1; l >= 0; l--)", lane);
    cr_print_line(p, "    if (l < m && (%s))", cuda_hit(p, e));
    cr_print_line(p, "        f%u = {at + l, (%s)v%u[l]};", e->id, t, e->args[0]->id);
    cr_print_shut(p);
    cr_print_shut(p);
    cr_print_line(p, "f%u = ck_first(f%u, CK_THREADS_(%s));", e->id, e->id, lane);
    cr_print_line(p, "const cv_s_i64 k%u = f%u.at;", e->id, e->id);
    if (e->dtype != CR_BOOL)
        cr_print_line(p, "s%u = f%u.value;", e->id, e->id);
}

static void cuda_end_fold(cr_printer *p, const cr_expr *e)
{
    if (cr_expr_keeps_index(e))
        cuda_find_index(p, e);
    if (!cr_expr_has_order(e))
        return;
    cr_print_line(p, "s%u = ck_end_%s(&c%u);", e->id, cuda_fold(p, e), e->id);
    if (e->fn == CR_FN_add)
        cr_print_line(p, "s%u = columns ? s%u : %s;", e->id, e->id, cr_spell_empty_sum(p, e));
}

/* --- columns --- */

/* Declares `wide`, as cuda_wide() does for a row: all rows and the result are aligned. */
static void cuda_columns_wide(cr_printer *p)
{
    const char *test = "";
    bool column[CR_EMIT_OPERANDS];

    cuda_column_operands(p, column);
    column[cr_operand_number(p, p->n->row_store[0].buffer)] = true;
    for (int k = 0; k < p->operands; k++) {
        int bytes = cuda_alignment(p, p->operand[k]);
        if (column[k])
            test = cr_session_printf(p->s,
                                     "%s && ck_aligned(ptr[%d], %d) && stride[%d] %% %d == 0",
                                     test, k, bytes, 2 * k, bytes);
    }
    cr_print_line(p, "const bool wide = m == CV_LANES_%s%s;", cr_spell_dtype(p->lanes.lane),
                  test);
}

/* A line for each input, of a format with its number twice. */
static void cuda_each_input(cr_printer *p, const char *line)
{
    for (int k = 0; k < p->operands; k++)
        if (p->operand[k]->role != CR_BUFFER_OUTPUT)
            cr_print_line(p, line, k, k);
}

/* The body for the rows q + k that are below `end`, or, if `near` is set, for q + g + k, whose
 * addresses are in from[]. */
static void cuda_columns_step(cr_printer *p, bool near, cr_access how)
{
    p->at.how = how;
    cr_print_line(p, "CV_UNROLL(4)");
    cr_print_open(p, "for (int k = 0; k < CR_FOLD_ACCUMULATORS; k++)");
    cr_print_line(p, "const cv_s_i64 r = first + q + %sk;", near ? "g + " : "");
    if (how != CR_ACCESS_WHOLE) {
        cr_print_line(p, "if (q + k >= end)");
        cr_print_line(p, "    break;");
    }
    if (near) {
        cuda_each_input(p, "const char *const p%d = from[%d];");
        cuda_each_input(p, "from[%d] += stride[2 * %d];");
    } else {
        cr_print_pointers(p, false);
    }
    cr_print_sweep_values(p, &p->n->sweep[0]);
    cr_print_body(p, "k");
    cr_print_shut(p);
}

/* How many rows' vectors a thread loads before it uses one: 4, 8 or 16. */
static int cuda_columns_at_once(const cr_printer *p)
{
    int bytes = 0, rows = 16;

    for (int k = 0; k < p->operands; k++)
        bytes += p->operand[k]->role != CR_BUFFER_OUTPUT ? cuda_bytes(p, p->operand[k]) : 0;
    while (rows > CR_FOLD_ACCUMULATORS && rows * bytes > CUDA_COLUMN_BYTES)
        rows /= 2;
    return rows;
}

/* Row r of a block goes to accumulator r mod 4.  Loops over whole vectors come first: of as
 * many rows as are loaded at once, then of four.  A costly body is printed once, without these
 * loops, and a heavy one without the first. */
static void cuda_columns_rows(cr_printer *p, const cr_expr *e)
{
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype);
    int cost = p->n->sweep[0].cost, rows = cuda_columns_at_once(p);

    cr_print_line(p, "cv_%s a%u[CR_FOLD_ACCUMULATORS] = {z%u, z%u, z%u, z%u};", t, e->id, e->id,
                  e->id, e->id, e->id);
    cr_print_line(p, "int q = top;");
    if (cost < CR_COST_HEAVY) {
        cr_print_line(p, "const char *from[%d];", p->operands);
        cuda_each_input(p, "from[%d] = (const char *)ptr[%d];");
        cuda_each_input(p, "from[%d] += (first + top) * stride[2 * %d];");
        cr_print_open(
            p, cr_session_printf(p->s, "for (; wide && q + %d <= end; q += %d)", rows, rows));
        cr_print_line(p, "CV_UNROLL(4)");
        cr_print_open(p, cr_session_printf(
                             p->s, "for (int g = 0; g < %d; g += CR_FOLD_ACCUMULATORS)", rows));
        cuda_columns_step(p, true, CR_ACCESS_WHOLE);
        cr_print_shut(p);
        cr_print_shut(p);
    }
    if (cost < CUDA_COST_ONCE) {
        cr_print_line(p, "CV_UNROLL(1)");
        cr_print_open(p, "for (; wide && q + CR_FOLD_ACCUMULATORS <= end; q += "
                         "CR_FOLD_ACCUMULATORS)");
        cuda_columns_step(p, false, CR_ACCESS_WHOLE);
        cr_print_shut(p);
    }
    cr_print_line(p, "CV_UNROLL(1)");
    cr_print_open(p, "for (; q < end; q += CR_FOLD_ACCUMULATORS)");
    cuda_columns_step(p, false, CR_ACCESS_EITHER);
    cr_print_shut(p);
}

/* The accumulators combined. */
static const char *cuda_columns_joined(cr_printer *p, const cr_expr *e)
{
    const char *a[CR_FOLD_ACCUMULATORS];

    for (int k = 0; k < CR_FOLD_ACCUMULATORS; k++)
        a[k] = cr_session_printf(p->s, "a%u[%d]", e->id, k);
    return cr_spell_combine(p, e, cr_spell_combine(p, e, a[0], a[1]),
                            cr_spell_combine(p, e, a[2], a[3]));
}

/* The pair of blocks b and b + by, when the part has rows for the second. */
static void cuda_columns_meet(cr_printer *p, const cr_expr *e, int by)
{
    cr_print_line(p, "CV_UNROLL(4)");
    cr_print_line(p, "for (int b = 0; b < %d; b++)", by);
    cr_print_line(p, "    if ((b + %d) * CR_FOLD_BLOCK < rows)", by);
    cr_print_line(p, "        w[b] = %s;",
                  cr_spell_combine(p, e, "w[b]", cr_session_printf(p->s, "w[b + %d]", by)));
}

/* Stores the fold of the thread's block of rows in kept[][]; the first thread of the column
 * declares v, the fold of all blocks. */
static void cuda_columns_fold(cr_printer *p, const cr_expr *e)
{
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype);

    cr_print_line(p, "const int top = ck_y() * CR_FOLD_BLOCK;");
    cr_print_line(p, "const int end = m > 0 ? (int)ck_least(rows, top + CR_FOLD_BLOCK) : 0;");
    cuda_columns_rows(p, e);
    cr_print_line(p, "__syncthreads();");
    cr_print_line(p, "kept[ck_y()][ck_x()] = %s;", cuda_columns_joined(p, e));
    cr_print_line(p, "__syncthreads();");
    cr_print_line(p, "if (m <= 0 || ck_y() > 0)");
    cr_print_line(p, "    continue;");
    cr_print_line(p, "cv_%s w[CR_FOLD_BLOCKS];", t);
    cr_print_line(p, "CV_UNROLL(8)");
    cr_print_line(p, "for (int b = 0; b < CR_FOLD_BLOCKS; b++)");
    cr_print_line(p, "    w[b] = kept[b][ck_x()];");
    for (int by = CR_FOLD_BLOCKS / 2; by > 0; by /= 2)
        cuda_columns_meet(p, e, by);
    cr_print_line(p, "const cv_%s v = w[0];", t);
}

/* Takes row r in the lanes in which it is beyond the accumulator. */
static void cuda_index_rows(cr_printer *p, const cr_expr *e)
{
    const char *t = cr_spell_vector(p, (cr_dtype)e->dtype);
    bool column[CR_EMIT_OPERANDS];

    cr_print_line(p, "cv_%s a = z%u;", t, e->id);
    cr_print_line(p, "cv_s_i64 found[CV_LANES_%s] = {0};", cr_spell_dtype(p->lanes.lane));
    cr_print_open(p, "for (cv_s_i64 r = 0; r < rows; r++)");
    cr_print_pointers(p, false);
    cuda_column_operands(p, column);
    cuda_wide(p, column);
    cr_print_sweep_values(p, &p->n->sweep[0]);
    p->at.how = CR_ACCESS_EITHER;
    cr_print_column_value(p, e->args[0]);
    cr_print_line(p, "const cv_%s take = cv_%s_%s(v%u, a);", cr_spell_vector(p, CR_BOOL),
                  cr_fn_infos[e->fn].name, t, e->args[0]->id);
    cr_print_line(p, "a = cv_select_%s(take, v%u, a);", t, e->args[0]->id);
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_line(p, "for (int l = 0; l < CV_LANES_%s; l++)", cr_spell_dtype(p->lanes.lane));
    cr_print_line(p, "    if (take[l])");
    cr_print_line(p, "        found[l] = r;");
    cr_print_shut(p);
}

static void cuda_index_store(cr_printer *p, const cr_expr *e, const cr_store *st)
{
    int k = cr_operand_number(p, st->buffer);

    cr_print_line(p, "char *const p%d = (char *)ptr[%d];", k, k);
    if (st->value == e) {
        cr_print_value(p, e, "a");
        cr_print_line(p, "const bool wide = ck_aligned(p%d, %d);", k,
                      cuda_alignment(p, st->buffer));
        cuda_store(p, st);
        return;
    }
    cr_print_line(p, "CV_UNROLL(16)");
    cr_print_line(p, "for (int l = 0; l < CV_LANES_%s; l++)", cr_spell_dtype(p->lanes.lane));
    cr_print_line(p, "    if (l < m)");
    cr_print_line(p, "        ((ck_int8 *)p%d)[at + l] = found[l];", k);
}

/* Declares the addresses of the plane at hand, in place of the call's. */
static void cuda_plane(cr_printer *p)
{
    cr_print_line(p, "const ck_place<%d> place = ck_place_of(call, plane);", CR_EMIT_OUTER);
    cr_print_line(p, "void *const ptr[%d] = {", p->operands);
    for (int k = 0; k < p->operands; k++)
        cr_print_line(p, "    ck_at(call, place, %d),", k);
    cr_print_line(p, "};");
}

/* The extreme of each column and the number of its row. */
static void cuda_columns_index(cr_printer *p, const cr_expr *e)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    if (p->choice.outer) {
        cr_print_open(p, "for (cv_s_i64 plane = CK_BLOCK_(y); plane < call.planes; plane += "
                         "CK_BLOCKS_(y))");
        cuda_plane(p);
    }

    cr_print_open(p, cr_session_printf(p->s,
                                       "for (cv_s_i64 at = ck_first_x() * CV_LANES_%s; "
                                       "at < columns; at += ck_step_x() * CV_LANES_%s)",
                                       lane, lane));
    cr_print_line(p, "const cv_s_i64 m = ck_least(columns - at, CV_LANES_%s);", lane);
    cuda_index_rows(p, e);
    for (int i = 0; i < p->n->row_stores; i++)
        cuda_index_store(p, e, &p->n->row_store[i]);
    cr_print_shut(p);
    if (p->choice.outer)
        cr_print_shut(p);
}

/* The head of the loop over the parts of CR_FOLD_COLUMN rows, of all planes. */
static void cuda_columns_parts(cr_printer *p)
{
    if (!p->choice.outer) {
        cr_print_open(p, "for (cv_s_i64 part = CK_BLOCK_(y); part * CR_FOLD_COLUMN < size[0]; "
                         "part += CK_BLOCKS_(y))");
        return;
    }
    cr_print_line(p, "const cv_s_i64 parts = (size[0] + CR_FOLD_COLUMN - 1) / CR_FOLD_COLUMN;");
    cr_print_open(p, "for (cv_s_i64 unit = CK_BLOCK_(y); unit < parts * call.planes; "
                     "unit += CK_BLOCKS_(y))");
    cr_print_line(
        p, "const cv_s_i64 plane = ck_quotient(unit, parts), part = unit - plane * parts;");
    cuda_plane(p);
}

static void cuda_columns(cr_printer *p)
{
    const cr_expr *e = p->n->sweep[0].reduces.at[0];
    const cr_store *st = &p->n->row_store[0];
    const char *lane = cr_spell_dtype(p->lanes.lane);
    int k = cr_operand_number(p, st->buffer);

    if (cr_expr_keeps_index(e)) {
        cuda_columns_index(p, e);
        return;
    }

    cr_print_line(p, "CK_SHARED cv_%s kept[CR_FOLD_BLOCKS][32];",
                  cr_spell_vector(p, (cr_dtype)e->dtype));
    cuda_columns_parts(p);
    cr_print_line(p, "const cv_s_i64 first = part * CR_FOLD_COLUMN;");
    cr_print_line(p, "const cv_s_i64 rows = ck_least(size[0] - first, CR_FOLD_COLUMN);");
    cr_print_open(p, cr_session_printf(p->s,
                                       "for (cv_s_i64 at = ck_first_x() * CV_LANES_%s; "
                                       "at - ck_x() * CV_LANES_%s < columns; "
                                       "at += ck_step_x() * CV_LANES_%s)",
                                       lane, lane, lane));
    cr_print_line(p, "const cv_s_i64 m = ck_least(columns - at, CV_LANES_%s);", lane);
    cuda_columns_wide(p);
    cuda_columns_fold(p, e);
    cr_print_value(p, e, cr_spell_without_order(p, e, "v"));
    cr_print_line(p, "char *const p%d = (char *)ptr[%d] + part * stride[%d];", k, k, 2 * k);
    p->at.how = CR_ACCESS_EITHER;
    cuda_store(p, st);
    cr_print_shut(p);
    cr_print_shut(p);
}

/* --- the function --- */

static void cuda_open_row(cr_printer *p)
{
    bool column[CR_EMIT_OPERANDS];

    cr_print_open(
        p, cuda_reduces(p) && p->choice.list ? "for (cv_s_i64 r = nth; r < rows; r += rows)"
           : cuda_reduces(p) ? "for (cv_s_i64 r = ck_first_row(); r < rows; r += ck_step_row())"
                             : "for (cv_s_i64 r = ck_first_y(); r < rows; r += ck_step_y())");
    if (p->choice.outer)
        cr_print_line(p, "const ck_place<%d> place = ck_place_of(call, r);", CR_EMIT_OUTER);
    cr_print_pointers(p, true);
    cuda_column_operands(p, column);
    for (int k = 0; k < p->operands; k++)
        if (column[k] && p->operand[k]->flexible)
            cuda_flexible(p, k);
    cuda_wide(p, column);
}

/* The most threads of a block: all chunks of a row, or 256 threads of short rows. */
static int cuda_most_threads(int chunk)
{
    return chunk * CR_FOLD_CHUNKS < 256 ? 256 : chunk * CR_FOLD_CHUNKS;
}

/* How many arrays fit into a ck_list_call. */
static int cuda_list_most(int operands, int params)
{
    int fixed = 16 * params + 16 * operands + 8, each = 8 * operands + 16 + 4;

    return (CR_EMIT_CALL_BYTES - 16 - fixed) / each;
}

/* The type of the kernel's argument. */
static const char *cuda_call(cr_printer *p, int params)
{
    if (p->choice.list)
        return cr_session_printf(p->s, "ck_list_call<%d, %d, %d>", p->operands, params,
                                 p->u->launch.most);
    if (p->choice.outer)
        return cr_session_printf(p->s, "ck_outer_call<%d, %d, %d>", p->operands, params,
                                 CR_EMIT_OUTER);
    if (cr_computed_dims(p))
        return cr_session_printf(p->s, "ck_call<%d, %d, %d>", p->operands, params,
                                 cr_computed_dims(p));
    return cr_session_printf(p->s, "ck_call<%d, %d>", p->operands, params);
}

/* Declares what other kernels have in their argument, of the array at hand; `nth` is the number
 * of the block in the array. */
static void cuda_open_list(cr_printer *p)
{
    cr_print_line(p, "const int array = ck_array(call);");
    cr_print_line(p, "const cv_s_i64 nth = (cv_s_i64)CK_BLOCK_(x) - call.first[array];");
    cr_print_line(p, "const cv_s_i64 size[3] = {call.size[array][0], call.size[array][1]};");
    cr_print_line(p, "const cv_s_i64 *const stride = call.stride;");
    cr_print_line(p, "void *const ptr[%d] = {", p->operands);
    for (int k = 0; k < p->operands; k++)
        cr_print_line(p, "    call.ptr[array][%d],", k);
    cr_print_line(p, "};");
}

static bool cuda_is_half(const cr_printer *p, int k)
{
    return p->choice.stored && cr_dtype_size((cr_dtype)p->choice.stored[k]) == 2;
}

static bool cuda_reads(cr_expr_set *seen, const cr_expr *e, const cr_buffer *b)
{
    bool reads = e->kind == CR_EXPR_LOAD && e->buffer == b;

    if (!cr_expr_set_add(seen, e))
        return false;
    for (int i = 0; i < e->count && !reads; i++)
        reads = cuda_reads(seen, e->args[i], b);
    return reads;
}

/* The operand by which a function of another one is multiplied, or 0. */
static int cuda_factor(const cr_printer *p)
{
    const cr_expr *e = cuda_unrounded(p, &p->n->sweep[0].store[0]);
    const uint8_t *stored = p->choice.stored;

    if (p->operands != 3 || e->kind != CR_EXPR_CALL || e->fn != CR_FN_mul ||
        e->dtype != CR_F32 || stored[0] != stored[1] || stored[1] != stored[2])
        return 0;
    for (int i = 0; i < 2; i++) {
        const cr_expr *by = e->args[i];
        cr_expr_set seen = cr_expr_set_new(p->n->loop);
        if (by->kind == CR_EXPR_LOAD && !cr_expr_is_indexed(by) &&
            !cuda_reads(&seen, e->args[1 - i], by->buffer))
            return cr_operand_number(p, by->buffer);
    }
    return 0;
}

/* A result's element is a function of one operand's and of parameters, or this one's product
 * with another operand's element, and costs more than to read it from a table. */
static bool cuda_is_tabled(const cr_printer *p)
{
    const cr_nest *n = p->n;
    bool plain = n->kind == CR_NEST_ROWS && !cuda_reduces(p) && n->sweeps == 1 &&
                 !n->row_stores && n->sweep[0].stores == 1 && !n->counts_columns &&
                 !n->counts_rows && !n->scans.count && !p->u->random && !cr_computed_dims(p);

    if (!plain || !cuda_is_half(p, 0) || !cuda_is_half(p, 1))
        return false;
    return p->operands == 2 ? n->sweep[0].cost >= CUDA_COST_TABLE
                            : n->sweep[0].cost >= CUDA_COST_PRODUCT && cuda_factor(p);
}

/* How many inputs differ from row to row. */
static int cuda_row_inputs(const cr_printer *p)
{
    int n = 0;

    for (int k = 0; k < p->operands; k++)
        n += p->operand[k]->role == CR_BUFFER_INPUT && p->operand[k]->ndim > 1;
    return n;
}

/* Whether CUDA_SHARED_THREADS threads, or more, are to share the registers: columns,
 * which then begin all loads before they add, and rows of one input that several sweeps read in
 * registers, more of which would keep out other blocks. */
static bool cuda_shares(const cr_printer *p)
{
    const cr_nest *n = p->n;
    bool plain = p->lanes.width == 32 && !p->lanes.complex && !p->lanes.mixed &&
                 !p->u->random && !p->u->special;
    bool rows = p->choice.steps && n->sweeps > 1 && cuda_row_inputs(p) == 1;

    return plain && !cr_nest_keeps_index(n) &&
           (n->kind == CR_NEST_COLUMNS || (rows && cuda_reduces(p)));
}

/* Whether CUDA_ALL_THREADS threads are to share the registers: pointwise kernels that read one
 * or two operands.  A thread of several arrays' kernel reads several vectors. */
static bool cuda_is_light(const cr_printer *p)
{
    bool plain = p->lanes.width == 32 && !p->lanes.complex && !p->lanes.mixed &&
                 !p->u->random && !p->u->special;

    return plain && p->u->launch.kind == CR_LAUNCH_POINTWISE && p->lanes.vector == 16 &&
           !p->choice.list && !p->choice.outer && !cr_computed_dims(p) && p->n->sweeps == 1 &&
           p->n->sweep[0].cost >= CR_COST_HEAVY && p->n->sweep[0].cost < CUDA_COST_CALL &&
           cuda_row_inputs(p) <= 2 && p->operands == 1 + cuda_row_inputs(p);
}

static void cuda_open_kernel(cr_printer *p, const char *symbol)
{
    int params = 1;

    for (size_t i = 0; i < p->n->loop->params.len; i++)
        if (p->n->loop->params.at[i]->slot >= params)
            params = p->n->loop->params.at[i]->slot + 1;
    int lanes = p->lanes.vector * 8 / p->lanes.width, row_lanes = p->choice.lanes;
    if (row_lanes && row_lanes < lanes)
        row_lanes = lanes;
    p->u->launch =
        (cr_emit_launch){.kind = p->n->kind == CR_NEST_COLUMNS ? CR_LAUNCH_COLUMNS
                                 : cuda_reduces(p)             ? CR_LAUNCH_ROWS
                                                               : CR_LAUNCH_POINTWISE,
                         .threads = p->n->kind != CR_NEST_COLUMNS
                                        ? (row_lanes ? row_lanes : CR_FOLD_LANES) / lanes
                                    : cr_nest_keeps_index(p->n) ? 1
                                                                : CR_FOLD_BLOCKS,
                         .lanes = lanes,
                         .row_lanes = row_lanes,
                         .vector = p->lanes.vector,
                         .operands = p->operands,
                         .params = params,
                         .computed = cr_computed_dims(p),
                         .rows_fit = cr_nest_fits_registers(p->n),
                         .tabled = cuda_is_tabled(p),
                         .factor = cuda_is_tabled(p) && p->operands == 3 ? cuda_factor(p) : 0,
                         .most = p->choice.list ? cuda_list_most(p->operands, params) : 0};
    if (p->u->launch.kind == CR_LAUNCH_COLUMNS)
        cr_print_line(p, "/* columns of %d */", p->u->launch.threads);
    else if (p->u->launch.kind == CR_LAUNCH_ROWS)
        cr_print_line(p, "/* rows of %d */", p->u->launch.threads);
    else
        cr_print_line(p, "/* pointwise */");
    const char *call = cuda_call(p, params);
    int threads = cuda_most_threads(p->u->launch.threads);
    bool halves = p->u->halves && p->choice.whole;
    if (cuda_shares(p))
        cr_print_line(p, "CK_KERNEL_OF(CK_AT_ONCE(%d, %d), CK(%s), %s)", threads,
                      (!halves  ? CUDA_SHARED_THREADS
                       : p->few ? CUDA_FEW_THREADS
                                : CUDA_HALF_THREADS) /
                          threads,
                      symbol, call);
    else if (cuda_is_light(p))
        cr_print_line(p, "CK_KERNEL_OF(CK_AT_ONCE(%d, %d), CK(%s), %s)", CUDA_POINTWISE_THREADS,
                      CUDA_ALL_THREADS / CUDA_POINTWISE_THREADS, symbol, call);
    else if (p->u->launch.kind != CR_LAUNCH_POINTWISE)
        cr_print_line(p, "CK_KERNEL_OF(%d, CK(%s), %s)", threads, symbol, call);
    else
        cr_print_line(p, "CK_KERNEL(CK(%s), %s)", symbol, call);
    cr_print_line(p, "{");
    p->at.indent++;
    if (p->choice.list) {
        cuda_open_list(p);
    } else {
        cr_print_line(p, "void *const *const ptr = call.ptr;");
        cr_print_line(p,
                      "const cv_s_i64 *const stride = call.stride, *const size = call.size;");
    }
    cr_print_line(p, "const void *const param = call.param;");
}

static void cuda_end_kernel(cr_printer *p) { (void)p; }

/* Pointwise kernels of halves read 16 bytes as vectors of eight lanes. */
static int cuda_vector(const cr_printer *p)
{
    bool plain = p->lanes.width == 32 && !p->lanes.complex && !p->u->random && !p->u->special;

    return p->u->halves && plain && p->n->kind == CR_NEST_ROWS && !cuda_reduces(p) &&
                   p->n->sweep[0].cost < CUDA_COST_ONCE
               ? 32
               : 16;
}

const cr_dialect cr_dialect_cuda = {
    .name = "cuda",
    .first_header = "emit/vec.cuh",
    .last_header = "emit/kernel.cuh",
    .vector = cuda_vector,
    .define_folds = cuda_define_folds,
    .open_kernel = cuda_open_kernel,
    .end_kernel = cuda_end_kernel,
    .load = cuda_load,
    .store = cuda_store,
    .store_row = cuda_store_row,
    .word = cuda_word,
    .open_row = cuda_open_row,
    .pointwise = cuda_pointwise,
    .columns_loop = cuda_columns_loop,
    .begin_folds = cuda_begin_folds,
    .fold_row = cuda_fold_row,
    .end_fold = cuda_end_fold,
    .fold_columns = cuda_columns,
};
