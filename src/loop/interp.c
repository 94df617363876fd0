/* The interpreter.
 *
 * A value is a scalar of its node's type.  The caller supplies the functions, which compute one
 * value at a time; selection, casts and random numbers are computed here.  Reductions use order
 * P (num/order.h): that of rows when they run along the last index of their operand, that of
 * columns when they do not.  A scan computes a whole line, which serves all its elements. */
#include "loop/interp.h"
#include "num/convert.h"
#include "num/philox.h"
#include <string.h>

typedef union {
    int64_t i;
    float f;
    double d;
    cr_complex c;
} scalar;

enum { INTERP_AXES = CR_LOOP_DIMS + 32 };

/* The last value of a reduction, or the last line of a scan, valid while the axes that it reads
 * keep their values. */
typedef struct folded folded;
struct folded {
    const cr_expr *e;
    int axes;
    struct {
        const cr_sym *index;
        int64_t value;
    } axis[INTERP_AXES];
    scalar value;
    int64_t index; /* of the value, where the reduction keeps it */
    scalar *line;  /* of a scan */
    int64_t *line_index;
    folded *next;
};

typedef struct {
    cr_loop *l;
    const cr_loop_run *run;
    folded *folds;
    char **memory; /* by position in l->buffers */
    struct {
        const cr_sym *index;
        int64_t value, first;
    } axis[INTERP_AXES];
    int axes;
    bool numbers; /* a value is computed of the numbers of rows */
} machine;

/* --- integers --- */

static int64_t interp_name_value(void *context, const cr_sym *name)
{
    machine *m = context;

    for (int i = m->axes - 1; i >= 0; i--)
        if (m->axis[i].index == name)
            return m->axis[i].value + (m->numbers ? m->axis[i].first : 0);
    for (int i = 0; i < m->run->size_count; i++)
        if (m->run->sizes[i].name == name)
            return m->run->sizes[i].value;
    cr_bail(m->l->session, CR_VALUE, "the size '%s' has no value", name->name);
}

static int64_t interp_integer(machine *m, const cr_sym *e)
{
    bool wrong = false;
    int64_t v = cr_sym_eval(e, interp_name_value, m, &wrong);

    if (wrong)
        cr_bail(m->l->session, CR_ARITHMETIC, "an index overflows or divides by zero");
    return v;
}

/* The same of the numbers of rows in the whole call. */
static int64_t interp_number(machine *m, const cr_sym *e)
{
    m->numbers = true;
    int64_t v = interp_integer(m, e);
    m->numbers = false;
    return v;
}

/* --- memory --- */

static scalar load_element(cr_dtype t, const void *p)
{
    scalar v = {0};
    cr_scalar s;

    if (t == CR_F32) {
        memcpy(&v.f, p, sizeof v.f);
        return v;
    }
    s = cr_scalar_load(t, p);
    if (s.category <= CR_CAT_INT)
        v.i = t == CR_BOOL ? s.i != 0 : s.i;
    else if (s.category == CR_CAT_FLOAT)
        v.d = s.d;
    else
        v.c = s.c;
    return v;
}

static cr_scalar as_scalar(cr_dtype t, scalar v)
{
    cr_scalar s = {.category = cr_dtype_category(t)};

    if (s.category <= CR_CAT_INT)
        s.i = v.i;
    else if (s.category == CR_CAT_FLOAT)
        s.d = t == CR_F32 ? (double)v.f : v.d;
    else
        s.c = v.c;
    return s;
}

static void store_element(cr_dtype t, void *p, scalar v)
{
    if (t == CR_F32)
        memcpy(p, &v.f, sizeof v.f);
    else
        cr_scalar_store(as_scalar(t, v), t, p);
}

static scalar of_scalar(cr_dtype t, cr_scalar s)
{
    char bytes[CR_PARAM_BYTES];

    cr_scalar_store(s, t, bytes);
    return load_element(t, bytes);
}

static scalar interp_cast(cr_dtype to, cr_dtype from, scalar v)
{
    char given[CR_PARAM_BYTES], made[CR_PARAM_BYTES];

    store_element(from, given, v);
    cr_convert_row(to, from)(made, 0, given, 0, 1);
    return load_element(to, made);
}

/* The address of the element at index[0..ndim). */
static char *interp_place(machine *m, const cr_buffer *b, const int64_t *index)
{
    int64_t at = 0;
    size_t k = 0;

    for (int i = 0; i < b->ndim; i++) {
        int64_t n = interp_integer(m, b->size[i]), v = index[i];
        if (v < 0 || v >= n)
            cr_bail(m->l->session, CR_INDEX, "index %lld of '%s' is outside [0, %lld)",
                    (long long)v, b->name, (long long)n);
        at = at * n + v;
    }
    while (m->l->buffers.at[k] != b)
        k++;
    return m->memory[k] + at * (int64_t)cr_dtype_size((cr_dtype)b->dtype);
}

/* --- functions --- */

/* Calls the caller's function `fn` on values of the types `from`, which it takes as elements in
 * memory. */
static scalar interp_call_fn(machine *m, cr_fn fn, cr_dtype to, const cr_dtype *from,
                             const scalar *v)
{
    char element[3][CR_PARAM_BYTES], result[CR_PARAM_BYTES] = {0};
    const void *in[3] = {element[0], element[1], element[2]};

    for (int i = 0; i < cr_fn_infos[fn].args; i++)
        store_element(from[i], element[i], v[i]);
    if (!m->run->eval(fn, from[0], result, in))
        cr_bail(m->l->session, CR_VALUE, "%s of %s is not interpreted", cr_fn_infos[fn].name,
                cr_dtype_name(from[0]));
    return load_element(to, result);
}

static scalar interp_eval(machine *m, const cr_expr *e);

static scalar interp_load(machine *m, const cr_expr *e)
{
    int64_t index[CR_LOOP_DIMS];

    for (int i = 0; i < e->buffer->ndim; i++) {
        const cr_expr *computed = cr_load_computed(e, i);
        index[i] = computed ? interp_eval(m, computed).i : interp_integer(m, e->index[i]);
    }
    return load_element((cr_dtype)e->dtype, interp_place(m, e->buffer, index));
}

static scalar interp_call(machine *m, const cr_expr *e)
{
    cr_dtype from[3] = {CR_F32, CR_F32, CR_F32};
    scalar v[3] = {{0}};

    if (cr_fn_infos[e->fn].kind == CR_FN_SELECT)
        return interp_eval(m, e->args[interp_eval(m, e->args[0]).i ? 1 : 2]);
    for (int i = 0; i < e->count; i++) {
        from[i] = (cr_dtype)e->args[i]->dtype;
        v[i] = interp_eval(m, e->args[i]);
    }
    switch ((cr_fn_kind)cr_fn_infos[e->fn].kind) {
    case CR_FN_CAST: return interp_cast((cr_dtype)e->dtype, from[0], v[0]);
    case CR_FN_RANDOM:
        return (scalar){.f = cr_philox_float(cr_philox_word((uint64_t)v[0].i, (uint64_t)v[1].i,
                                                            (uint64_t)v[2].i))};
    case CR_FN_SELECT:
    case CR_FN_SAME:
    case CR_FN_TEST:
    case CR_FN_PARTS:
    case CR_FN_JOIN: break;
    }
    return interp_call_fn(m, (cr_fn)e->fn, (cr_dtype)e->dtype, from, v);
}

/* --- reductions --- */

static scalar interp_combine(machine *m, const cr_expr *e, scalar a, scalar b)
{
    cr_dtype t = (cr_dtype)e->dtype, from[2] = {t, t};

    return interp_call_fn(m, (cr_fn)e->fn, t, from, (scalar[]){a, b});
}

static scalar fold_identity(const cr_expr *e)
{
    return of_scalar((cr_dtype)e->dtype, cr_fn_identity((cr_fn)e->fn, (cr_dtype)e->dtype));
}

/* Combines lane[l] with lane[l + n / 2], then with half the distance, until one lane is left.
 * Lanes from `there` on do not exist and are skipped. */
static scalar fold_halves(machine *m, const cr_expr *e, scalar *lane, int n, int64_t there)
{
    for (int half = n / 2; half; half /= 2)
        for (int k = 0; k < half && k + half < there; k++)
            lane[k] = interp_combine(m, e, lane[k], lane[k + half]);
    return lane[0];
}

/* Folds up to CR_FOLD_CHUNK elements into lanes. */
static void fold_chunk(machine *m, const cr_expr *e, scalar *lane, const scalar *v, int64_t n)
{
    for (int k = 0; k < CR_FOLD_LANES; k++)
        lane[k] = fold_identity(e);
    for (int64_t i = 0; i < n; i++)
        lane[i % CR_FOLD_LANES] = interp_combine(m, e, lane[i % CR_FOLD_LANES], v[i]);
}

static scalar fold_row_block(machine *m, const cr_expr *e, const scalar *v, int64_t n)
{
    scalar chunk[CR_FOLD_CHUNKS][CR_FOLD_LANES], lane[CR_FOLD_LANES], of_lane[CR_FOLD_CHUNKS];
    int64_t chunks = 0;

    for (; chunks == 0 || chunks * CR_FOLD_CHUNK < n; chunks++) {
        int64_t left = n - chunks * CR_FOLD_CHUNK;
        fold_chunk(m, e, chunk[chunks], v + chunks * CR_FOLD_CHUNK,
                   left < CR_FOLD_CHUNK ? left : CR_FOLD_CHUNK);
    }
    for (int l = 0; l < CR_FOLD_LANES; l++) {
        for (int64_t c = 0; c < chunks; c++)
            of_lane[c] = chunk[c][l];
        lane[l] = fold_halves(m, e, of_lane, CR_FOLD_CHUNKS, chunks);
    }
    return fold_halves(m, e, lane, CR_FOLD_LANES, CR_FOLD_LANES);
}

/* Folds a block of a column: rows r, r + 4, ... go to accumulator r. */
static scalar fold_block(machine *m, const cr_expr *e, const scalar *v, int64_t n)
{
    scalar acc[CR_FOLD_ACCUMULATORS];

    for (int k = 0; k < CR_FOLD_ACCUMULATORS; k++)
        acc[k] = fold_identity(e);
    for (int64_t i = 0; i < n; i++)
        acc[i % CR_FOLD_ACCUMULATORS] =
            interp_combine(m, e, acc[i % CR_FOLD_ACCUMULATORS], v[i]);
    return interp_combine(m, e, interp_combine(m, e, acc[0], acc[1]),
                          interp_combine(m, e, acc[2], acc[3]));
}

static scalar fold_column_blocks(machine *m, const cr_expr *e, const scalar *v, int64_t n)
{
    scalar block[CR_FOLD_BLOCKS];
    int64_t blocks = 0;

    for (; blocks == 0 || blocks * CR_FOLD_BLOCK < n; blocks++) {
        int64_t left = n - blocks * CR_FOLD_BLOCK;
        block[blocks] = fold_block(m, e, v + blocks * CR_FOLD_BLOCK,
                                   left < CR_FOLD_BLOCK ? left : CR_FOLD_BLOCK);
    }
    return fold_halves(m, e, block, CR_FOLD_BLOCKS, blocks);
}

typedef scalar (*part_fn)(machine *m, const cr_expr *e, const scalar *v, int64_t n);

/* Folds parts of `width` elements, then folds their results in the same way. */
static scalar fold_parts(machine *m, const cr_expr *e, const scalar *v, int64_t n,
                         int64_t width, part_fn fold)
{
    int64_t parts = (n + width - 1) / width;
    scalar *part;

    if (parts <= 1)
        return fold(m, e, v, n);
    part = CR_NEW_N(m->l->session, scalar, parts);
    for (int64_t k = 0; k < parts; k++)
        part[k] = fold(m, e, v + k * width, n - k * width < width ? n - k * width : width);
    return fold_parts(m, e, part, parts, width, fold);
}

static bool along_last(const cr_expr *e, const cr_sym *axis)
{
    if (e->kind == CR_EXPR_LOAD)
        return e->buffer->ndim && cr_sym_uses(e->index[e->buffer->ndim - 1], axis);
    for (int i = 0; i < e->count; i++)
        if (along_last(e->args[i], axis))
            return true;
    return false;
}

typedef struct {
    scalar *at;
    int64_t n;
} values;

/* Makes a zero positive, so that the sign of an extreme does not depend on the order. */
static scalar positive_zero(const cr_expr *e, scalar v)
{
    if (e->dtype == CR_F32)
        v.f += 0.0f;
    else if (e->dtype == CR_F64)
        v.d += 0.0;
    return v;
}

static scalar fold_values(machine *m, const cr_expr *e, values v)
{
    if (!v.n && e->fn == CR_FN_add)
        return (scalar){0};
    if (along_last(e->args[0], e->axis.index))
        return fold_parts(m, e, v.at, v.n, CR_FOLD_ROW, fold_row_block);
    return fold_parts(m, e, v.at, v.n, CR_FOLD_COLUMN, fold_column_blocks);
}

/* The index of the first element that no other element is beyond. */
static int64_t index_of_extreme(machine *m, const cr_expr *e, values v)
{
    cr_dtype t = (cr_dtype)e->dtype, from[2] = {t, t};
    int64_t at = 0;

    if (!v.n)
        cr_bail(m->l->session, CR_VALUE, "%s of no elements", cr_fn_infos[e->fn].name);
    for (int64_t i = 1; i < v.n; i++)
        if (interp_call_fn(m, (cr_fn)e->fn, CR_BOOL, from, (scalar[]){v.at[i], v.at[at]}).i)
            at = i;
    return at;
}

static scalar eval_reduce(machine *m, const cr_expr *e, int64_t *index)
{
    values v = {NULL, interp_integer(m, e->axis.extent)};
    int k = m->axes++;

    m->axis[k].first = 0;
    v.at = CR_NEW_N(m->l->session, scalar, v.n);
    m->axis[k].index = e->axis.index;
    for (int64_t i = 0; i < v.n; i++) {
        m->axis[k].value = i;
        v.at[i] = interp_eval(m, e->args[0]);
    }
    m->axes--;
    if (cr_expr_keeps_index(e)) {
        *index = index_of_extreme(m, e, v);
        return v.at[*index];
    }
    return cr_fn_has_order((cr_fn)e->fn, (cr_dtype)e->dtype)
               ? fold_values(m, e, v)
               : positive_zero(e, fold_values(m, e, v));
}

/* --- scans --- */

/* combine(a, b) of values of the running type. */
static scalar scan_combine(machine *m, const cr_expr *e, scalar a, scalar b)
{
    cr_dtype t = cr_scan_running((cr_fn)e->fn, (cr_dtype)e->dtype), from[2] = {t, t};

    return interp_call_fn(m, (cr_fn)e->fn, t, from, (scalar[]){a, b});
}

/* The order of num/order.h: level[k] is the fold of `count` runs of 16^k elements that are not
 * part of a longer run yet.  A value that does not exist yet is left out, because combining it
 * with the identity changes no bit. */
typedef struct {
    scalar total;
    int count;
} scan_level;
enum { SCAN_LEVELS = CR_SCAN_LEVELS + 2 };

static void scan_put(machine *m, const cr_expr *e, scan_level *l, scalar x)
{
    l->total = l->count++ ? scan_combine(m, e, l->total, x) : x;
}

/* Returns the value after element x, whose run becomes part of longer ones only afterwards. */
static scalar scan_add(machine *m, const cr_expr *e, scan_level *level, scalar x)
{
    scalar sum = {0};
    bool any = false;

    scan_put(m, e, level, x);
    for (int k = SCAN_LEVELS; k-- > 0;)
        if (level[k].count) {
            sum = any ? scan_combine(m, e, sum, level[k].total) : level[k].total;
            any = true;
        }
    for (scan_level *l = level; l->count == CR_SCAN_RUN; l++) {
        scan_put(m, e, l + 1, l->total);
        l->count = 0;
    }
    return sum;
}

static void scan_runs(machine *m, const cr_expr *e, scalar *v, int64_t n)
{
    cr_dtype t = (cr_dtype)e->dtype, wide = cr_scan_running((cr_fn)e->fn, t);
    scan_level level[SCAN_LEVELS] = {0};

    for (int64_t i = 0; i < n; i++)
        v[i] = interp_cast(t, wide, scan_add(m, e, level, interp_cast(wide, t, v[i])));
}

/* The extremes so far; the last of equal ones counts. */
static void scan_extremes(machine *m, const cr_expr *e, scalar *v, int64_t *index, int64_t n)
{
    cr_dtype t = (cr_dtype)e->dtype, from[2] = {t, t};
    int64_t at = 0;

    for (int64_t i = 0; i < n; i++) {
        scalar best = v[i ? i - 1 : 0];
        if (!interp_call_fn(m, (cr_fn)e->fn, CR_BOOL, from, (scalar[]){best, v[i]}).i)
            at = i;
        else
            v[i] = best;
        index[i] = at;
    }
}

/* Turns the elements 0..n of a line into the scan's values, in the scan's direction. */
static void scan_line(machine *m, const cr_expr *e, folded *f, int64_t n)
{
    scalar *v = CR_NEW_N(m->l->session, scalar, n);

    for (int64_t i = 0; i < n; i++)
        v[i] = f->line[e->back ? n - 1 - i : i];
    if (cr_fn_keeps_index((cr_fn)e->fn))
        scan_extremes(m, e, v, f->line_index, n);
    else
        scan_runs(m, e, v, n);
    for (int64_t i = 0; i < n; i++)
        f->line[e->back ? n - 1 - i : i] = v[i];
}

/* The line through the place at hand: all elements along the scan's axis. */
static void eval_line(machine *m, const cr_expr *e, folded *f)
{
    int64_t n = interp_integer(m, e->axis.extent);
    int k = m->axes++;

    m->axis[k].first = 0;
    f->line = CR_NEW_N(m->l->session, scalar, n);
    f->line_index = CR_NEW_N(m->l->session, int64_t, n);
    m->axis[k].index = e->axis.index;
    for (int64_t i = 0; i < n; i++) {
        m->axis[k].value = i;
        f->line[i] = interp_eval(m, e->args[0]);
    }
    m->axes--;
    scan_line(m, e, f, n);
}

/* --- values that serve several places --- */

/* The free axes of an expression; a scan's line does not depend on the place along its axis. */
static bool expr_reads_axis(const cr_expr *e, const cr_sym *axis)
{
    if (e->kind == CR_EXPR_SCAN && e->axis.index == axis)
        return false;
    if (e->kind == CR_EXPR_REDUCE && cr_sym_uses(e->axis.extent, axis))
        return true;
    if (e->kind == CR_EXPR_REDUCE && e->axis.index == axis)
        return false;
    for (int i = 0; e->kind == CR_EXPR_LOAD && i < e->buffer->ndim; i++)
        if (cr_sym_uses(e->index[i], axis))
            return true;
    if (e->kind == CR_EXPR_INTEGER && cr_sym_uses(e->index[0], axis))
        return true;
    for (int i = 0; i < e->count; i++)
        if (expr_reads_axis(e->args[i], axis))
            return true;
    return false;
}

static folded *folded_of(machine *m, const cr_expr *e)
{
    folded *f = m->folds;

    while (f && f->e != e)
        f = f->next;
    if (f)
        return f;
    f = CR_NEW(m->l->session, folded);
    *f = (folded){.e = e, .axes = -1, .next = m->folds};
    return m->folds = f;
}

/* Computes a reduction, or a scan's line, once for each combination of the axes that it reads:
 * the sum of a row is read at each of its columns. */
static folded *eval_once(machine *m, const cr_expr *e)
{
    folded *f = folded_of(m, e);
    bool same = f->axes >= 0;

    for (int i = 0; same && i < f->axes; i++)
        same = interp_name_value(m, f->axis[i].index) == f->axis[i].value;
    if (same)
        return f;
    f->axes = 0;
    for (int i = 0; i < m->axes; i++)
        if (expr_reads_axis(e, m->axis[i].index)) {
            f->axis[f->axes].index = m->axis[i].index;
            f->axis[f->axes++].value = interp_name_value(m, m->axis[i].index);
        }
    if (e->kind == CR_EXPR_SCAN)
        eval_line(m, e, f);
    else
        f->value = eval_reduce(m, e, &f->index);
    return f;
}

static scalar eval_index_of(machine *m, const cr_expr *e)
{
    folded *f = eval_once(m, e);
    int64_t at, n;

    if (e->kind == CR_EXPR_REDUCE)
        return (scalar){.i = f->index};
    at = interp_name_value(m, e->axis.index);
    n = interp_integer(m, e->axis.extent);
    return (scalar){.i = e->back ? n - 1 - f->line_index[n - 1 - at] : f->line_index[at]};
}

static scalar eval_scan(machine *m, const cr_expr *e)
{
    return eval_once(m, e)->line[interp_name_value(m, e->axis.index)];
}

static scalar interp_eval(machine *m, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;

    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: return of_scalar(t, e->value);
    case CR_EXPR_PARAM:
        return load_element(t, (const char *)m->run->param + e->param->slot * CR_PARAM_BYTES);
    case CR_EXPR_LOAD: return interp_load(m, e);
    case CR_EXPR_INTEGER: return of_scalar(t, cr_scalar_int(interp_number(m, e->index[0])));
    case CR_EXPR_CALL: return interp_call(m, e);
    case CR_EXPR_INDEX_OF: return eval_index_of(m, e->args[0]);
    case CR_EXPR_SCAN: return eval_scan(m, e);
    case CR_EXPR_REDUCE: break;
    }
    return eval_once(m, e)->value;
}

/* --- definitions --- */

static void run_def(machine *m, const cr_def *d, int k)
{
    int64_t index[CR_LOOP_DIMS], n;

    if (k == d->axes) {
        for (int i = 0; i < d->axes; i++)
            index[i] = m->axis[i].value;
        store_element((cr_dtype)d->target->dtype, interp_place(m, d->target, index),
                      interp_eval(m, d->value));
        return;
    }
    n = interp_integer(m, d->axis[k].extent);
    m->axes = k + 1;
    m->axis[k].index = d->axis[k].index;
    m->axis[k].first = d->axis[k].extent == m->run->row ? m->run->first : 0;
    for (int64_t i = 0; i < n; i++) {
        m->axis[k].value = i;
        m->axes = k + 1;
        run_def(m, d, k + 1);
    }
}

static char *local_memory(machine *m, const cr_buffer *b)
{
    int64_t n = 1;

    for (int i = 0; i < b->ndim; i++)
        n *= interp_integer(m, b->size[i]);
    return cr_session_get(m->l->session, (size_t)n * cr_dtype_size((cr_dtype)b->dtype));
}

void cr_loop_interpret(cr_loop *l, const cr_loop_run *run)
{
    machine m = {.l = l, .run = run};
    cr_buffer *order[64];
    int n = cr_loop_operands(l, order, (int)CR_LEN(order));

    m.memory = CR_NEW_N(l->session, char *, l->buffers.len);
    for (size_t i = 0; i < l->buffers.len; i++) {
        if (l->buffers.at[i]->role == CR_BUFFER_LOCAL)
            m.memory[i] = local_memory(&m, l->buffers.at[i]);
        for (int k = 0; k < n; k++)
            if (order[k] == l->buffers.at[i])
                m.memory[i] = run->operand[k];
    }
    for (size_t i = 0; i < l->defs.len; i++)
        run_def(&m, l->defs.at[i], 0);
}
