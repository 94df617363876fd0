/* Rows of at most CR_FOLD_ROW columns with reductions as CUDA C++.
 *
 * As in cuda.c, a thread has the same elements in every sweep: a vector of 8 or 16 bytes in
 * each of the rows_steps() groups of CR_FOLD_LANES elements of its chunk.  This dialect holds
 * them in registers, h<k>[q], so each element is read once, and all reads begin before the
 * first sweep. Values that a sweep keeps for a later one stay in registers too.  Operands
 * without registers are read in each sweep, as in cuda.c. */
#include "emit/dialect.h"
#include <string.h>

/* The number of registers that may hold elements, and the steps of a whole chunk. */
enum { ROWS_REGISTERS = 128, ROWS_STEPS = CR_FOLD_CHUNK / CR_FOLD_LANES };
/* The most lanes of 4 bytes of a vector. */
enum { ROWS_VECTOR = 4 };
/* The bytes of vectors of which a warp has those of a chunk. */
enum { ROWS_CHUNK_VECTOR = 8 };
/* The registers with elements of a thread for which vectors of halves are longer. */
enum { ROWS_FEW = 32 };
/* The same for which more threads share a multiprocessor's registers. */
enum { ROWS_SHARED = 16 };
/* Operands that only a later sweep reads are read before the first one, too, where a thread
 * then has at most so many registers with elements. */
enum { ROWS_EARLY = 40 };

static int rows_steps(const cr_printer *p)
{
    return p->choice.steps ? p->choice.steps : ROWS_STEPS;
}

/* --- which operands are held --- */

typedef struct {
    uint32_t first, again; /* operands that are read in sweep 0, and in several sweeps */
    uint32_t later;        /* operands that one sweep reads, not sweep 0 */
    uint32_t often;        /* operands that are read in more than two sweeps */
    uint32_t kept;         /* outputs that are read in place of a value that they keep */
} rows_reads;

static void rows_note(const cr_printer *p, cr_expr_set *seen, const cr_expr *e, int sweep,
                      uint32_t *read, uint32_t *kept)
{
    const cr_buffer *b = cr_nest_kept(p->n, e, sweep);

    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e))
        return;
    if (b) {
        *kept |= 1u << cr_operand_number(p, b);
        return;
    }
    if (cr_expr_is_indexed(e) || cr_expr_takes_scalars(e))
        return;
    if (e->kind == CR_EXPR_LOAD)
        *read |= 1u << cr_operand_number(p, e->buffer);
    for (int i = 0; i < e->count; i++)
        rows_note(p, seen, e->args[i], sweep, read, kept);
}

static rows_reads rows_find_reads(const cr_printer *p)
{
    rows_reads r = {0};
    uint32_t before = 0;

    for (int k = 0; k < p->n->sweeps; k++) {
        const cr_sweep *sweep = &p->n->sweep[k];
        cr_expr_set seen = cr_expr_set_new(p->n->loop);
        uint32_t read = 0;
        for (int i = 0; i < sweep->reduces.count; i++)
            rows_note(p, &seen, sweep->reduces.at[i]->args[0], k, &read, &r.kept);
        for (int i = 0; i < sweep->stores; i++)
            rows_note(p, &seen, sweep->store[i].value, k, &read, &r.kept);
        if (k == 0)
            r.first = read;
        r.often |= r.again & read;
        r.again |= before & read;
        before |= read;
    }
    r.later = before & ~r.first & ~r.again;
    return r;
}

/* The operands whose halves are converted once: those read often, in rows that may end in the
 * middle of a vector. */
static uint32_t rows_widened(const cr_printer *p, const rows_reads *r)
{
    return p->choice.whole ? 0 : r->often;
}

/* True if the registers of an operand hold halves: those of an input, unless it is read so
 * often that it is converted once.  A value that an output keeps for a later sweep is not
 * rounded. */
static bool rows_holds_halves(const cr_printer *p, const cr_buffer *b)
{
    return b->role == CR_BUFFER_INPUT && cr_operand_stored(p, b) != b->dtype &&
           !(p->widened >> cr_operand_number(p, b) & 1);
}

/* Registers for operand k's elements of a step; each has at most 32 bits of an element. */
static int rows_cost(const cr_printer *p, int k)
{
    cr_dtype t = (cr_dtype)p->operand[k]->dtype;
    int lanes = p->lanes.vector * 8 / p->lanes.width, words = ((int)cr_dtype_size(t) + 3) / 4;

    if (rows_holds_halves(p, p->operand[k]))
        return lanes / 2;
    return t == CR_BOOL && p->lanes.width == 64 ? 2 * lanes : lanes * words;
}

/* Adds operands of `wanted` to *held as long as *left registers suffice.  An input that all
 * rows share is read again, from the cache. */
static void rows_hold(const cr_printer *p, uint32_t *held, uint32_t wanted, int *left)
{
    for (int k = 0; k < p->operands; k++) {
        if (!(wanted >> k & 1) || *held >> k & 1 || rows_cost(p, k) > *left)
            continue;
        if (p->operand[k]->role == CR_BUFFER_INPUT && p->operand[k]->ndim < 2 && !p->n->one_row)
            continue;
        *held |= 1u << k;
        *left -= rows_cost(p, k);
    }
}

/* --- elements --- */

static bool rows_holds(const cr_printer *p, const cr_buffer *b)
{
    return !p->at.base && p->held >> cr_operand_number(p, b) & 1;
}

/* The access of a body's values. */
static cr_access rows_how(const cr_printer *p)
{
    return p->choice.whole ? CR_ACCESS_WHOLE : CR_ACCESS_REST;
}

/* The access of a load or a store that is not in registers. */
static cr_access rows_memory(const cr_printer *p)
{
    return p->choice.whole ? CR_ACCESS_WHOLE : CR_ACCESS_EITHER;
}

/* Loads have whole vectors; lanes beyond the row are neither accumulated nor stored. */
static const char *rows_load(cr_printer *p, const cr_buffer *b)
{
    int k = cr_operand_number(p, b);

    if (rows_holds(p, b))
        return rows_holds_halves(p, b)
                   ? cr_session_printf(p->s, "ck_wide_%s(h%d[q])",
                                       cr_spell_dtype(cr_operand_stored(p, b)), k)
                   : cr_session_printf(p->s, "h%d[q]", k);
    p->at.how = rows_memory(p);
    const char *text = cr_dialect_cuda.load(p, b);
    p->at.how = rows_how(p);
    return text;
}

/* True when a sweep after the current one stores in the same buffer. */
static bool rows_stored_later(const cr_printer *p, const cr_buffer *b)
{
    for (int k = p->at.sweep + 1; k < p->n->sweeps; k++)
        for (int i = 0; i < p->n->sweep[k].stores; i++)
            if (p->n->sweep[k].store[i].buffer == b)
                return true;
    return false;
}

static void rows_store(cr_printer *p, const cr_store *st)
{
    if (rows_holds(p, st->buffer))
        cr_print_line(p, "h%d[q] = v%u;", cr_operand_number(p, st->buffer), st->value->id);
    if (rows_holds(p, st->buffer) && rows_stored_later(p, st->buffer))
        return;
    p->at.how = rows_memory(p);
    cr_dialect_cuda.store(p, st);
    p->at.how = rows_how(p);
}

/* --- loops --- */

/* A loop over the thread's vectors; its body follows. */
static void rows_open_steps(cr_printer *p)
{
    const char *lane = cr_spell_dtype(p->lanes.lane);

    if (p->choice.whole && rows_steps(p) == ROWS_STEPS)
        cr_print_line(p, "if (first < width)");
    cr_print_line(p, "CV_UNROLL(%d)", ROWS_STEPS);
    cr_print_open(p, cr_session_printf(p->s, "for (int q = 0; q < %d; q++)", rows_steps(p)));
    cr_print_line(p, "const int at = first + q * CR_FOLD_LANES;");
    if (p->choice.whole)
        return;
    cr_print_line(p, "if (at >= width)");
    cr_print_line(p, "    break;");
    cr_print_line(p, "const int m = width - at < CV_LANES_%s ? width - at : CV_LANES_%s;", lane,
                  lane);
}

/* Loads the operands of the first sweep from memory: a vector, or a vector in two halves. */
static const char *rows_loaded(cr_printer *p, const cr_buffer *b)
{
    const char *at = cr_spell_address(p, b);

    if (!rows_holds_halves(p, b))
        return cr_dialect_cuda.load(p, b);
    return p->at.how == CR_ACCESS_WHOLE ? cr_session_printf(p->s, "ck_load_halves(%s)", at)
                                        : cr_session_printf(p->s, "ck_loadn_halves(%s, m)", at);
}

static void rows_read(cr_printer *p, uint32_t which, cr_access how)
{
    p->at.how = how;
    rows_open_steps(p);
    for (int k = 0; k < p->operands; k++)
        if (which >> k & 1)
            cr_print_line(p, "h%d[q] = %s;", k, rows_loaded(p, p->operand[k]));
    cr_print_shut(p);
}

/* Reads the held inputs, before the first sweep. */
static void rows_read_inputs(cr_printer *p, uint32_t inputs)
{
    if (p->choice.whole) {
        rows_read(p, inputs, CR_ACCESS_WHOLE);
        return;
    }
    cr_print_open(p, cr_session_printf(p->s, "if (wide && width %% CV_LANES_%s == 0)",
                                       cr_spell_dtype(p->lanes.lane)));
    rows_read(p, inputs, CR_ACCESS_WHOLE);
    cr_print_shut(p);
    cr_print_open(p, "else");
    rows_read(p, inputs, CR_ACCESS_REST);
    cr_print_shut(p);
}

static const char *rows_type(cr_printer *p, const cr_buffer *b)
{
    return rows_holds_halves(p, b)
               ? "ck_halves"
               : cr_session_printf(p->s, "cv_%s", cr_spell_vector(p, (cr_dtype)b->dtype));
}

/* Whole rows of several chunks whose halves take so many instructions that threads do not wait
 * for memory alone: a row's block begins when its elements are near. */
static void rows_fetch_ahead(cr_printer *p, uint32_t inputs)
{
    if (!p->choice.whole || p->choice.outer || p->choice.list || p->few || p->n->sweeps < 2 ||
        rows_steps(p) < ROWS_STEPS)
        return;
    for (int k = 0; k < p->operands; k++) {
        int bytes = (int)cr_dtype_size(cr_operand_stored(p, p->operand[k]));
        if (!(inputs >> k & 1) || !rows_holds_halves(p, p->operand[k]))
            continue;
        cr_print_line(p, "if (columns > CR_FOLD_CHUNK && ck_x() == 0)");
        cr_print_line(p,
                      "    ck_fetch_ahead(p%d, stride[%d], rows - r, (unsigned)columns * %d);",
                      k, 2 * k, bytes);
    }
}

static void rows_open_row(cr_printer *p)
{
    rows_reads r = rows_find_reads(p);
    const char *lane = cr_spell_dtype(p->lanes.lane);
    int left = ROWS_REGISTERS / ROWS_STEPS, early;

    p->held = 0;
    p->widened = rows_widened(p, &r);
    rows_hold(p, &p->held, r.kept, &left);
    uint32_t kept = p->held;
    rows_hold(p, &p->held, r.again, &left);
    rows_hold(p, &p->held, r.first, &left);
    early = left - ROWS_REGISTERS / ROWS_STEPS + ROWS_EARLY / rows_steps(p);
    rows_hold(p, &p->held, r.later, &early);
    cr_dialect_cuda.open_row(p);
    cr_print_line(p, "const int width = (int)columns;");
    cr_print_line(
        p, "const int first = CK_CHUNK_(%s) * CR_FOLD_CHUNK + CK_PLACE_(%s) * CV_LANES_%s;",
        lane, lane, lane);
    for (int k = 0; k < p->operands; k++)
        if (p->held >> k & 1)
            cr_print_line(p, "%s h%d[%d];", rows_type(p, p->operand[k]), k, rows_steps(p));
    rows_fetch_ahead(p, p->held & r.first);
    if (p->held & ~kept)
        rows_read_inputs(p, p->held & ~kept);
}

static void rows_plain_loop(cr_printer *p)
{
    p->at.how = rows_how(p);
    rows_open_steps(p);
    cr_print_body(p, "0");
    cr_print_shut(p);
}

/* --- halves, two at once --- */

/* The operand whose halves a value is, where registers hold them and rows have no rest; a warp
 * then has a chunk.  Else -1. */
static int rows_halves(const cr_printer *p, const cr_expr *e)
{
    bool plain = e->kind == CR_EXPR_LOAD && !cr_expr_is_indexed(e) && p->choice.whole &&
                 p->lanes.vector == ROWS_CHUNK_VECTOR && p->lanes.width == 32;

    return plain && rows_holds(p, e->buffer) && rows_holds_halves(p, e->buffer)
               ? cr_operand_number(p, e->buffer)
               : -1;
}

/* Prints x<id>: the greatest or least of the thread's halves of operand k, lane by lane. */
static void rows_extreme(cr_printer *p, int k, const char *word, unsigned id)
{
    const char *t = cr_spell_dtype(cr_operand_stored(p, p->operand[k]));

    cr_print_line(p, "ck_halves x%u = ck_halves_%s_%s();", id, word, t);
    rows_open_steps(p);
    cr_print_line(p, "(void)at;");
    cr_print_line(p, "x%u = ck_%s_%s(x%u, h%d[q]);", id, word, t, id, k);
    cr_print_shut(p);
}

/* The first value e^(x - max(x)) under `e` for halves x that the sweep computes, or NULL. */
static const cr_expr *rows_find_exp(const cr_printer *p, cr_expr_set *seen, const cr_expr *e)
{
    const cr_expr *found = NULL;

    if (cr_nest_scope(p->n, e) != CR_SCOPE_COLUMN || !cr_expr_set_add(seen, e) ||
        cr_nest_kept(p->n, e, p->at.sweep) || cr_expr_is_indexed(e) || cr_expr_takes_scalars(e))
        return NULL;
    if (e->kind == CR_EXPR_CALL && e->fn == CR_FN_exp && e->dtype == CR_F32 &&
        cr_expr_is_below_zero(e->args[0]) && rows_halves(p, e->args[0]->args[0]) >= 0)
        return e;
    for (int i = 0; i < e->count && !found; i++)
        found = rows_find_exp(p, seen, e->args[i]);
    return found;
}

static const cr_expr *rows_exp_of_sweep(const cr_printer *p, bool *several)
{
    const cr_sweep *sweep = &p->n->sweep[p->at.sweep];
    cr_expr_set seen = cr_expr_set_new(p->n->loop);
    const cr_expr *found = NULL;

    *several = false;
    for (int i = 0; i < sweep->reduces.count + sweep->stores; i++) {
        bool fold = i < sweep->reduces.count;
        const cr_expr *e =
            fold ? sweep->reduces.at[i]->args[0] : sweep->store[i - sweep->reduces.count].value;
        const cr_expr *other = rows_find_exp(p, &seen, e);
        *several = *several || (found && other);
        found = found ? found : other;
    }
    return found;
}

/* A sweep over all columns.  Most rows have no element that is more than 87 below their
 * greatest: then exponentials have fewer instructions.  Each warp decides for its elements. */
static void rows_columns_loop(cr_printer *p)
{
    bool several;
    const cr_expr *e = rows_exp_of_sweep(p, &several);

    if (!e || several) {
        rows_plain_loop(p);
        return;
    }
    const cr_expr *most = e->args[0]->args[1];
    int k = rows_halves(p, most->args[0]);
    rows_extreme(p, k, "leasts", e->id);
    cr_print_line(p,
                  "const bool near = CK_BALLOT_(ck_least_lane(ck_wide_%s(x%u)) - s%u >= "
                  "-87.0f) == ~0u;",
                  cr_spell_dtype(cr_operand_stored(p, p->operand[k])), e->id, most->id);
    p->near = true;
    cr_print_open(p, "if (near)");
    rows_plain_loop(p);
    cr_print_shut(p);
    p->near = false;
    cr_print_open(p, "else");
    rows_plain_loop(p);
    cr_print_shut(p);
}

static const char *rows_word(const cr_printer *p, const cr_expr *e)
{
    return cr_dialect_cuda.word(p, e);
}

/* Whether all that a sweep does is to find extremes of halves. */
static bool rows_finds_extremes(const cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        if (e->dtype != CR_F32 || !rows_word(p, e) || rows_halves(p, e->args[0]) < 0)
            return false;
    }
    return !sweep->stores;
}

/* --- reductions --- */

static const char *rows_fold(cr_printer *p, const cr_expr *e)
{
    return cr_session_printf(p->s, "%s_%s", cr_fn_infos[e->fn].name,
                             cr_spell_vector(p, (cr_dtype)e->dtype));
}

static void rows_begin_folds(cr_printer *p, const cr_sweep *sweep)
{
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        cr_print_line(p, "cv_%s a%u[1] = {z%u};", cr_spell_vector(p, (cr_dtype)e->dtype), e->id,
                      e->id);
    }
}

static void rows_fold_row(cr_printer *p, const cr_sweep *sweep)
{
    if (!rows_finds_extremes(p, sweep)) {
        rows_columns_loop(p);
        return;
    }
    for (int i = 0; i < sweep->reduces.count; i++) {
        const cr_expr *e = sweep->reduces.at[i];
        int k = rows_halves(p, e->args[0]);
        rows_extreme(p, k, !strcmp(rows_word(p, e), "most") ? "mosts" : "leasts", e->id);
        cr_print_line(p, "a%u[0] = ck_wide_%s(x%u);", e->id,
                      cr_spell_dtype(cr_operand_stored(p, p->operand[k])), e->id);
    }
}

static void rows_end_fold(cr_printer *p, const cr_expr *e)
{
    const char *t = e->dtype == CR_BOOL ? "int"
                                        : cr_session_printf(p->s, "cv_s_%s",
                                                            cr_spell_dtype((cr_dtype)e->dtype));
    const char *full = cr_expr_has_order(e) ? "ck_chunks(columns)" : "CR_FOLD_CHUNKS";

    cr_print_line(p, "%s s%u = ck_tree_%s(a%u[0], %s, turn);", t, e->id, rows_fold(p, e), e->id,
                  full);
    cr_print_line(p, "turn ^= 1;");
    if (cr_expr_has_order(e) && e->fn == CR_FN_add)
        cr_print_line(p, "s%u = columns ? s%u : %s;", e->id, e->id, cr_spell_empty_sum(p, e));
}

/* --- the function --- */

/* Registers for the elements that a thread holds at once, with vectors of so many bytes: those
 * of results that keep values for a later sweep, or else those of the inputs. */
static int rows_registers(const cr_printer *p, int vector, bool halves)
{
    cr_printer with = *p;
    rows_reads r = rows_find_reads(p);
    uint32_t held = r.kept ? r.kept : r.first | r.again;
    int n = 0;

    with.lanes.vector = vector;
    with.widened = halves ? rows_widened(p, &r) : r.often;
    for (int k = 0; k < p->operands; k++)
        if (held >> k & 1 && (r.kept || p->operand[k]->ndim > 1 || p->n->one_row))
            n += rows_cost(&with, k);
    return n * rows_steps(p);
}

/* From 5 steps on, vectors of 8 bytes leave registers to more threads.  (Lanes of 64 bits would
 * then have more threads than a warp a chunk.)  Halves of which a thread holds few registers
 * are read by accesses of 8 bytes instead of 4. */
static int rows_vector(const cr_printer *p)
{
    bool plain = p->lanes.width == 32 && !p->lanes.complex && !p->lanes.mixed &&
                 !p->u->random && !p->u->special;

    if (rows_steps(p) <= 4 || !plain)
        return 16;
    return p->u->halves && rows_registers(p, 16, false) <= ROWS_FEW ? 16 : 8;
}

bool cr_nest_fits_registers(const cr_nest *n)
{
    int reduces = 0;

    for (int k = 0; k < n->sweeps; k++)
        reduces += n->sweep[k].reduces.count;
    return reduces && n->kind == CR_NEST_ROWS && !cr_nest_keeps_index(n);
}

bool cr_nest_keeps_in_registers(const cr_nest *n)
{
    int registers = 0;

    if (!cr_nest_fits_registers(n))
        return false;
    for (int q = 0; q < n->keeps; q++) {
        bool first = true;
        if (cr_dtype_size((cr_dtype)n->keep[q].buffer->dtype) != 4)
            return false;
        for (int k = 0; k < q; k++)
            first = first && n->keep[k].buffer != n->keep[q].buffer;
        registers += first ? ROWS_VECTOR : 0;
    }
    return registers <= ROWS_REGISTERS / ROWS_STEPS;
}

static void rows_define_folds(cr_printer *p) { cr_dialect_cuda.define_folds(p); }

static void rows_open_kernel(cr_printer *p, const char *symbol)
{
    cr_print_line(p, "/* %d%s steps */", rows_steps(p), p->choice.whole ? " whole" : "");
    p->few = rows_registers(p, p->lanes.vector, true) <= ROWS_SHARED;
    cr_dialect_cuda.open_kernel(p, symbol);
    cr_print_line(p, "int turn = 0;");
}

static void rows_store_row(cr_printer *p, const cr_store *st)
{
    cr_dialect_cuda.store_row(p, st);
}

static void rows_end_kernel(cr_printer *p) { cr_dialect_cuda.end_kernel(p); }

const cr_dialect cr_dialect_cuda_rows = {
    .name = "cuda_rows",
    .first_header = "emit/vec.cuh",
    .last_header = "emit/kernel.cuh",
    .vector = rows_vector,
    .define_folds = rows_define_folds,
    .open_kernel = rows_open_kernel,
    .end_kernel = rows_end_kernel,
    .load = rows_load,
    .store = rows_store,
    .store_row = rows_store_row,
    .word = rows_word,
    .open_row = rows_open_row,
    .columns_loop = rows_columns_loop,
    .begin_folds = rows_begin_folds,
    .fold_row = rows_fold_row,
    .end_fold = rows_end_fold,
};
