/* The tile interpreter.
 *
 * A plan lists, for each sweep of a nest, the steps that compute its values; a step calls one
 * kernel over a tile: several short rows, or a part of a long one.  A value with an element for
 * each column is stored in a tile, a value with one for each row in an array, and a value of
 * the whole call in one element.  Kernels read the last two with a column stride of zero.
 *
 * In a sweep that reduces, a long row is cut only between blocks of the reduction's order
 * (CR_FOLD_ROW elements), so the reduction of a tile is that of a block. */
#include "jit/tile.h"
#include "jit/generated.h"
#include "num/convert.h"
#include <string.h>

/* Where a value is stored. */
typedef enum { PLACE_NONE, PLACE_TILE, PLACE_ROW, PLACE_CALL, PLACE_OPERAND } place;

typedef struct {
    uint8_t place, item; /* item: bytes an element */
    bool full;           /* OPERAND: one element a column */
    uint16_t number;     /* tile, row array, call element or operand */
} ref;

typedef enum {
    STEP_FUNCTION,
    STEP_CONVERT,
    STEP_RANDOM,
    STEP_REDUCE,
    STEP_CONST,
    STEP_PARAM,
    STEP_INTEGER
} kind;

typedef struct {
    uint8_t kind, scope, dtype, count;
    cr_kernel kernel, join;
    cr_convert_fn convert;
    ref out, in[3];
    const cr_expr *e;
} step;

typedef CR_VEC(step) steps;

struct cr_tile {
    const cr_nest *n;
    cr_session *s;
    cr_buffer *operand[32];
    int operands;
    steps start;         /* once a call */
    steps *column, *row; /* by sweep: before its columns (row), and over them */
    steps last;          /* row values after the last sweep */
    int tiles, rows, calls, parts;
    int item; /* bytes of the widest value in a tile */
};

enum { TILE = 1024, SLOT = 16 };

/* --- planning --- */

typedef struct {
    cr_tile *t;
    ref *known;      /* by id; PLACE_NONE until computed */
    ref *tile_known; /* the same for values per column; cleared at each sweep */
    int sweep, tiles;
} planner;

static int operand_number(const cr_tile *t, const cr_buffer *b)
{
    int k = 0;

    while (k < t->operands && t->operand[k] != b)
        k++;
    CR_ASSERT(k < t->operands);
    return k;
}

static ref operand_ref(const cr_tile *t, const cr_buffer *b, bool full)
{
    return (ref){PLACE_OPERAND, (uint8_t)cr_dtype_size((cr_dtype)b->dtype), full,
                 (uint16_t)operand_number(t, b)};
}

static cr_kernel prebuilt_kernel(planner *p, cr_fn fn, cr_dtype t, cr_form form)
{
    cr_kernel k = cr_fn_kernel(fn, t, form);

    if (!k)
        cr_bail(p->t->s, CR_VALUE, "no prebuilt kernel of %s for %s", cr_fn_infos[fn].name,
                cr_dtype_name(t));
    return k;
}

static ref new_place(planner *p, const cr_expr *e, cr_scope scope)
{
    ref r = {.item = (uint8_t)cr_dtype_size((cr_dtype)e->dtype)};

    if (scope == CR_SCOPE_COLUMN) {
        r.place = PLACE_TILE;
        r.full = true;
        r.number = (uint16_t)p->tiles++;
        p->t->item = r.item > p->t->item ? r.item : p->t->item;
    } else if (scope == CR_SCOPE_ROW) {
        r.place = PLACE_ROW;
        r.number = (uint16_t)p->t->rows++;
    } else {
        r.place = PLACE_CALL;
        r.number = (uint16_t)p->t->calls++;
    }
    return r;
}

static ref plan_expr(planner *p, const cr_expr *e);

static steps *list_for(planner *p, cr_scope scope)
{
    if (scope == CR_SCOPE_KERNEL)
        return &p->t->start;
    if (scope == CR_SCOPE_COLUMN)
        return &p->t->column[p->sweep];
    return p->sweep < p->t->n->sweeps ? &p->t->row[p->sweep] : &p->t->last;
}

static void plan_function(planner *p, step *st, const cr_expr *e)
{
    const cr_fn_info *info = &cr_fn_infos[e->fn];
    cr_dtype t = (cr_dtype)e->args[info->kind == CR_FN_SELECT]->dtype;

    if (info->kind == CR_FN_RANDOM) {
        st->kind = STEP_RANDOM;
        st->kernel = prebuilt_kernel(p, CR_FN_random, CR_F32, CR_FORM_MAIN);
        return;
    }
    if (info->kind == CR_FN_CAST) {
        t = (cr_dtype)e->dtype;
        if (e->args[0]->dtype != CR_BOOL) {
            st->kind = STEP_CONVERT;
            st->convert = cr_convert_row(t, (cr_dtype)e->args[0]->dtype);
            st->in[0] = plan_expr(p, e->args[0]);
            return;
        }
    }
    st->kind = STEP_FUNCTION;
    st->count = e->count;
    st->kernel = prebuilt_kernel(p, (cr_fn)e->fn, t, CR_FORM_MAIN);
    for (int i = 0; i < e->count; i++)
        st->in[i] = plan_expr(p, e->args[i]);
}

static ref *slot_of(planner *p, const cr_expr *e, cr_scope scope)
{
    return scope == CR_SCOPE_COLUMN ? &p->tile_known[e->id] : &p->known[e->id];
}

/* Bails unless `e` is a number of the whole call that uses no size but the number of columns: a
 * call knows no other. */
static void check_integer(planner *p, const cr_sym *e, cr_scope scope)
{
    if (scope != CR_SCOPE_KERNEL)
        cr_bail(p->t->s, CR_VALUE, "numbers of rows and columns have no prebuilt kernel");
    if (e->kind == CR_SYM_NAME && e != p->t->n->column.extent)
        cr_bail(p->t->s, CR_VALUE, "the size '%s' is not that of the columns", e->name);
    for (int i = 0; i < e->count; i++)
        check_integer(p, e->args[i], scope);
}

/* Adds the steps that compute `e`; returns the place of its result. */
static ref plan_expr(planner *p, const cr_expr *e)
{
    cr_scope scope = cr_nest_scope(p->t->n, e);
    const cr_buffer *kept = cr_nest_kept(p->t->n, e, p->sweep);
    ref *known = slot_of(p, e, scope);
    step st = {.scope = (uint8_t)scope, .dtype = e->dtype, .e = e};

    if (known->place)
        return *known;
    if (e->kind == CR_EXPR_LOAD)
        return *known = operand_ref(p->t, e->buffer, scope == CR_SCOPE_COLUMN);
    if (kept)
        return *known = operand_ref(p->t, kept, true);
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: st.kind = STEP_CONST; break;
    case CR_EXPR_PARAM: st.kind = STEP_PARAM; break;
    case CR_EXPR_INTEGER: st.kind = STEP_INTEGER; break;
    case CR_EXPR_CALL: plan_function(p, &st, e); break;
    case CR_EXPR_SCAN: cr_bail(p->t->s, CR_VALUE, "tiles have no scans");
    case CR_EXPR_INDEX_OF:
    case CR_EXPR_LOAD:
    case CR_EXPR_REDUCE: cr_bail(p->t->s, CR_VALUE, "a reduction is read before it is made");
    }
    if (st.kind == STEP_INTEGER)
        check_integer(p, e->index[0], scope);
    st.out = new_place(p, e, scope);
    *known = st.out;
    CR_PUSH(p->t->s, list_for(p, scope), st);
    return st.out;
}

/* Adds a step that copies `from` to `to`.  There is no kernel for copies: the larger of x and x
 * is x, and so is x | x for integers. */
static void plan_copy(planner *p, const cr_expr *e, ref from, ref to)
{
    cr_dtype t = (cr_dtype)e->dtype;
    cr_fn fn = cr_dtype_category(t) <= CR_CAT_INT ? CR_FN_or : CR_FN_maximum;
    step st = {.kind = STEP_FUNCTION,
               .scope = CR_SCOPE_COLUMN,
               .dtype = (uint8_t)t,
               .count = 2,
               .e = e};

    st.kernel = prebuilt_kernel(p, fn, t, CR_FORM_MAIN);
    st.in[0] = st.in[1] = from;
    st.out = to;
    CR_PUSH(p->t->s, &p->t->column[p->sweep], st);
}

static void plan_reduce(planner *p, const cr_expr *e)
{
    step st = {
        .kind = STEP_REDUCE, .scope = CR_SCOPE_COLUMN, .dtype = e->dtype, .count = 1, .e = e};

    if (cr_expr_keeps_index(e))
        cr_bail(p->t->s, CR_VALUE, "tiles keep no index of a reduction");
    st.in[0] = plan_expr(p, e->args[0]);
    if (!st.in[0].full) {
        ref wide = new_place(p, e->args[0], CR_SCOPE_COLUMN);
        plan_copy(p, e->args[0], st.in[0], wide);
        st.in[0] = wide;
    }
    st.kernel = st.join = prebuilt_kernel(p, (cr_fn)e->fn, (cr_dtype)e->dtype, CR_FORM_JOIN);
    st.out = new_place(p, e, CR_SCOPE_ROW);
    p->known[e->id] = st.out;
    p->t->parts++;
    CR_PUSH(p->t->s, &p->t->column[p->sweep], st);
}

/* True when the current sweep reads a value kept in `b`. */
static bool holds_kept(const planner *p, const cr_buffer *b)
{
    const cr_nest *n = p->t->n;

    for (int q = 0; q < n->keeps; q++)
        if (n->keep[q].buffer == b && cr_nest_kept(n, n->keep[q].value, p->sweep))
            return true;
    return false;
}

/* True when the last step may write its result to the output: no later step of the sweep reads
 * the output's earlier contents. */
static bool may_write_through(planner *p, const cr_store *store)
{
    const steps *list = &p->t->column[p->sweep];
    const cr_sweep *sweep = &p->t->n->sweep[p->sweep];
    bool alone = sweep->stores == 1 && !sweep->reduces.count;

    return list->len && list->at[list->len - 1].e == store->value &&
           list->at[list->len - 1].out.place == PLACE_TILE &&
           (alone || !holds_kept(p, store->buffer));
}

/* Plans a store.  Returns false when the value must be copied to the output afterwards. */
static bool plan_store(planner *p, const cr_store *store)
{
    steps *list = &p->t->column[p->sweep];

    plan_expr(p, store->value);
    if (!may_write_through(p, store))
        return false;
    list->at[list->len - 1].out = operand_ref(p->t, store->buffer, true);
    p->tile_known[store->value->id] = list->at[list->len - 1].out;
    return true;
}

static void plan_sweep(planner *p, int k)
{
    const cr_sweep *sweep = &p->t->n->sweep[k];
    bool *written = CR_NEW_N(p->t->s, bool, sweep->stores);

    p->sweep = k;
    p->tiles = 0;
    memset(p->tile_known, 0, sizeof *p->tile_known * p->t->n->loop->nodes);
    for (int i = 0; i < sweep->stores; i++)
        written[i] = plan_store(p, &sweep->store[i]);
    for (int i = 0; i < sweep->reduces.count; i++)
        plan_reduce(p, sweep->reduces.at[i]);
    for (int i = 0; i < sweep->stores; i++)
        if (!written[i])
            plan_copy(p, sweep->store[i].value, plan_expr(p, sweep->store[i].value),
                      operand_ref(p->t, sweep->store[i].buffer, true));
    p->t->tiles = p->tiles > p->t->tiles ? p->tiles : p->t->tiles;
}

static void plan_row_stores(planner *p)
{
    p->sweep = p->t->n->sweeps;
    for (int i = 0; i < p->t->n->row_stores; i++) {
        const cr_store *store = &p->t->n->row_store[i];
        cr_dtype t = (cr_dtype)store->value->dtype;
        cr_fn fn = cr_dtype_category(t) <= CR_CAT_INT ? CR_FN_or : CR_FN_maximum;
        step st = {.kind = STEP_FUNCTION,
                   .scope = CR_SCOPE_ROW,
                   .dtype = (uint8_t)t,
                   .count = 2,
                   .e = store->value};
        st.in[0] = st.in[1] = plan_expr(p, store->value);
        st.kernel = prebuilt_kernel(p, fn, t, CR_FORM_MAIN);
        st.out = operand_ref(p->t, store->buffer, false);
        CR_PUSH(p->t->s, &p->t->last, st);
    }
}

cr_tile *cr_tile_plan(const cr_nest *n)
{
    cr_session *s = n->loop->session;
    cr_tile *t = CR_NEW(s, cr_tile);
    planner p = {.t = t};

    if (n->kind != CR_NEST_ROWS)
        cr_bail(s, CR_VALUE, "reductions of columns are no chain of steps");
    t->n = n;
    t->s = s;
    t->operands = cr_loop_operands(n->loop, t->operand, (int)CR_LEN(t->operand));
    t->column = CR_NEW_N(s, steps, n->sweeps);
    t->row = CR_NEW_N(s, steps, n->sweeps);
    p.known = CR_NEW_N(s, ref, n->loop->nodes);
    p.tile_known = CR_NEW_N(s, ref, n->loop->nodes);
    for (int k = 0; k < n->sweeps; k++)
        plan_sweep(&p, k);
    plan_row_stores(&p);
    return t;
}

/* --- running --- */

/* Runs a tile program.
 * Invariant: the part's columns, from `from` on, are within those of the call, and its rows
 * within the batch. `tiles` has tile_bytes for each register of a part, row_values row_bytes
 * for each row of the batch. */
typedef struct {
    const cr_tile *t;
    void *const *ptr;
    const int64_t *stride;
    const void *param;
    int64_t columns, first; /* of the call */
    int64_t row, rows;      /* the batch, counted from the call's first row */
    int64_t from, wide;     /* columns of the current part: the first, and how many */
    int64_t tile_width;     /* elements from one row of a tile to the next */
    int64_t chunk;          /* number of the part */
    char *tiles, *row_values, *call_values, *parts;
    int64_t tile_bytes, row_bytes, part_bytes;
} machine;

static void *address(const machine *m, const ref *r, int64_t *stride)
{
    const int64_t *s;

    switch ((place)r->place) {
    case PLACE_TILE:
        stride[0] = m->tile_width * r->item;
        stride[1] = r->item;
        return m->tiles + r->number * m->tile_bytes;
    case PLACE_ROW:
        stride[0] = r->item;
        stride[1] = 0;
        return m->row_values + r->number * m->row_bytes;
    case PLACE_CALL: stride[0] = stride[1] = 0; return m->call_values + r->number * SLOT;
    case PLACE_OPERAND:
    case PLACE_NONE: break;
    }
    s = &m->stride[2 * r->number];
    stride[0] = s[0];
    stride[1] = r->full ? r->item : 0;
    return (char *)m->ptr[r->number] + m->row * s[0] + (r->full ? m->from * r->item : 0);
}

static void tile_call(const machine *m, const step *st)
{
    int64_t stride[8], size[3] = {m->rows, m->wide, 0};
    void *ptr[4];

    ptr[0] = address(m, &st->out, stride);
    for (int i = 0; i < st->count; i++)
        ptr[i + 1] = address(m, &st->in[i], stride + 2 * i + 2);
    if (st->scope == CR_SCOPE_KERNEL)
        size[0] = 1;
    if (st->scope != CR_SCOPE_COLUMN) {
        size[1] = 1;
        stride[1] = st->out.item;
    }
    st->kernel(ptr, stride, size, NULL);
}

static void tile_convert(const machine *m, const step *st)
{
    int64_t to[2], from[2];
    char *out = address(m, &st->out, to), *in = address(m, &st->in[0], from);
    int64_t rows = st->scope == CR_SCOPE_KERNEL ? 1 : m->rows,
            columns = st->scope == CR_SCOPE_COLUMN ? m->wide : 1;

    for (int64_t r = 0; r < rows; r++)
        st->convert(out + r * to[0], to[1], in + r * from[0], from[1], columns);
}

static int64_t tile_name_value(void *context, const cr_sym *name)
{
    const machine *m = context;
    const cr_nest *n = m->t->n;

    if (name == n->column.extent)
        return m->columns;
    if (name == n->row.index)
        return m->first + m->row;
    return name == n->column.index ? m->from : 0;
}

/* The arguments of random(): parameters, literals and integers of the loops. */
static int64_t scalar(const machine *m, const cr_expr *e)
{
    bool wrong = false;

    if (e->kind == CR_EXPR_PARAM)
        return cr_scalar_as_int(cr_scalar_load(
            (cr_dtype)e->dtype, (const char *)m->param + e->param->slot * CR_PARAM_BYTES));
    if (e->kind == CR_EXPR_CONST)
        return e->value.i;
    if (e->kind == CR_EXPR_INTEGER)
        return cr_sym_eval(e->index[0], tile_name_value, (void *)m, &wrong);
    int64_t a = scalar(m, e->args[0]), b = scalar(m, e->args[1]);
    return e->fn == CR_FN_add ? a + b : a * b;
}

static void call_random(const machine *m, const step *st)
{
    int64_t stride[2], size[3] = {m->rows, m->wide, 0};
    void *ptr[1] = {address(m, &st->out, stride)};
    struct {
        int64_t value, unused;
    } param[4] = {{0, 0}};
    machine next = *m;

    next.row++;
    for (int i = 0; i < 3; i++)
        param[i].value = scalar(m, st->e->args[i]);
    param[3].value = scalar(&next, st->e->args[2]) - param[2].value;
    st->kernel(ptr, stride, size, param);
}

/* Stores the result as the row's value or, in a long row, in the array of the parts'
 * results. */
static void call_reduce(const machine *m, const step *st, int part)
{
    int64_t stride[4], size[2] = {m->rows, m->wide};
    void *ptr[2];

    ptr[0] = address(m, &st->out, stride);
    ptr[1] = address(m, &st->in[0], stride + 2);
    if (m->parts)
        ptr[0] = m->parts + part * m->part_bytes + m->chunk * st->out.item;
    stride[0] = st->out.item;
    stride[1] = 0;
    st->kernel(ptr, stride, size, NULL);
}

static void set_call_value(const machine *m, const step *st)
{
    const cr_expr *e = st->e;
    char *out = m->call_values + st->out.number * SLOT;
    bool wrong = false;

    if (st->kind == STEP_CONST)
        cr_scalar_store(e->value, (cr_dtype)e->dtype, out);
    else if (st->kind == STEP_PARAM)
        memcpy(out, (const char *)m->param + e->param->slot * CR_PARAM_BYTES, st->out.item);
    else
        cr_scalar_store(
            cr_scalar_int(cr_sym_eval(e->index[0], tile_name_value, (void *)m, &wrong)),
            (cr_dtype)e->dtype, out);
}

static void tile_steps(const machine *m, const steps *list)
{
    int part = 0;

    for (size_t i = 0; i < list->len; i++) {
        const step *st = &list->at[i];
        switch ((kind)st->kind) {
        case STEP_FUNCTION: tile_call(m, st); break;
        case STEP_CONVERT: tile_convert(m, st); break;
        case STEP_RANDOM: call_random(m, st); break;
        case STEP_REDUCE: call_reduce(m, st, part++); break;
        case STEP_CONST:
        case STEP_PARAM:
        case STEP_INTEGER: set_call_value(m, st); break;
        }
    }
}

/* Folds the parts' results of one long row, in the order in which a row is folded. */
static void join_parts(const machine *m, const step *st, int part, int64_t n)
{
    char *at = m->parts + part * m->part_bytes;
    int64_t stride[4] = {st->out.item, 0, 0, st->out.item};

    while (n > 1) {
        int64_t parts = (n + CR_FOLD_ROW - 1) / CR_FOLD_ROW;
        for (int64_t k = 0; k < parts; k++) {
            int64_t left = n - k * CR_FOLD_ROW;
            int64_t size[2] = {1, left < CR_FOLD_ROW ? left : CR_FOLD_ROW};
            void *ptr[2] = {at + k * st->out.item, at + k * CR_FOLD_ROW * st->out.item};
            st->join(ptr, stride, size, NULL);
        }
        n = parts;
    }
    memcpy(m->row_values + st->out.number * m->row_bytes, at, st->out.item);
}

static bool sweep_reduces(const steps *list)
{
    for (size_t i = 0; i < list->len; i++)
        if (list->at[i].kind == STEP_REDUCE)
            return true;
    return false;
}

static void run_long_row(machine *m, const steps *list)
{
    int64_t step_width = sweep_reduces(list) ? CR_FOLD_ROW : TILE, parts;
    int part = 0;

    parts = (m->columns + step_width - 1) / step_width;
    for (m->chunk = 0; m->chunk < parts; m->chunk++) {
        m->from = m->chunk * step_width;
        m->wide = m->columns - m->from < step_width ? m->columns - m->from : step_width;
        tile_steps(m, list);
    }
    for (size_t i = 0; i < list->len; i++)
        if (list->at[i].kind == STEP_REDUCE)
            join_parts(m, &list->at[i], part++, parts);
}

static void run_sweep(machine *m, const steps *list)
{
    if (m->columns > (sweep_reduces(list) ? CR_FOLD_ROW : TILE)) {
        run_long_row(m, list);
        return;
    }
    m->from = 0;
    m->wide = m->columns;
    tile_steps(m, list);
}

static void run_batch(machine *m)
{
    const cr_tile *t = m->t;

    for (int k = 0; k < t->n->sweeps; k++) {
        m->from = 0;
        tile_steps(m, &t->row[k]);
        run_sweep(m, &t->column[k]);
    }
    m->from = 0;
    tile_steps(m, &t->last);
}

/* Sets the sizes of tiles and arrays.  Returns the number of rows in a batch. */
static int64_t tile_sizes(machine *m, int64_t rows)
{
    int64_t batch = m->columns < TILE ? TILE / (m->columns ? m->columns : 1) : 1;

    batch = batch < rows ? batch : rows;
    m->tile_width = m->columns < CR_FOLD_ROW ? m->columns : CR_FOLD_ROW;
    /* Tiles a multiple of 4 KB apart would share cache sets, so 64 bytes are added. */
    m->tile_bytes = ((batch * m->tile_width * m->t->item + 63) & ~(int64_t)63) + 64;
    m->row_bytes = batch * SLOT;
    m->part_bytes = (m->columns / CR_FOLD_ROW + 1) * SLOT;
    return batch;
}

cr_status cr_tile_run(const cr_tile *t, void *const *ptr, const int64_t *stride,
                      const int64_t *size, const void *param)
{
    machine m = {.t = t,
                 .ptr = ptr,
                 .stride = stride,
                 .param = param,
                 .columns = size[1],
                 .first = t->n->counts_rows ? size[2] : 0};
    int64_t batch = tile_sizes(&m, size[0]), bytes, parts;
    char *memory;

    parts = m.columns > CR_FOLD_ROW ? t->parts * m.part_bytes : 0;
    bytes = t->tiles * m.tile_bytes + t->rows * m.row_bytes + t->calls * SLOT + parts;
    memory = cr_alloc((size_t)bytes + 64);
    CR_NEED(memory);
    m.tiles = memory + (64 - ((uintptr_t)memory & 63));
    m.row_values = m.tiles + t->tiles * m.tile_bytes;
    m.call_values = m.row_values + t->rows * m.row_bytes;
    m.parts = parts ? m.call_values + t->calls * SLOT : NULL;
    tile_steps(&m, &t->start);
    for (m.row = 0; m.row < size[0]; m.row += batch) {
        m.rows = size[0] - m.row < batch ? size[0] - m.row : batch;
        run_batch(&m);
    }
    cr_free(memory);
    return CR_OK;
}
