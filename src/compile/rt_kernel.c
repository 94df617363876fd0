/* Kernels as instructions: each definition of a loop program is loops over its axes.
 *
 * The last loop of a definition computes a register at a time, unless a fold depends on its
 * index.  What does not depend on that index is computed before, for one lane, and copied to
 * all lanes.  Registers are numbered as values are made; at the end those whose values are not
 * needed at the same time become one. */
#include "compile/products.h"
#include "compile/rt_file.h"
#include "loop/nest.h"
#include "num/convert.h"
#include "rt/format.h"
#include "space/space.h"
#include <string.h>

enum { DEPTHS = RT_MOST_NESTED + 1, PART_ROWS = 512 };

/* The register of a value, while the loop in which it was computed is open. */
typedef struct {
    int at, depth; /* at 0: none; else the register's number + 1 */
} kept;

/* A kernel that is written as instructions of the runtime.
 * Invariant: outputs <= operands; registers are numbered below `registers`; narrow, all,
 * index and scan have one entry for each expression of `l`; start has `depth` entries in
 * use. */
typedef struct {
    cr_rt_job *j;
    cr_session *s;
    cr_loop *l;
    const cr_nest *nest;
    const cr_launch *launch;
    const char *name;
    cr_buffer *operand[CR_PLAN_OPERANDS];
    int operands, outputs, registers, depth;
    bool wide;
    kept *narrow, *all, *index; /* by expression: in lane 0; in all lanes; of extremes */
    int *scan;                  /* by expression: the register of what a scan keeps */
    size_t start[DEPTHS];       /* the FOR of each open loop */
    cr_rt_words constants, code;
} kernel_job;

CR_NORETURN static void kernel_refuse(const kernel_job *k, const char *what)
{
    cr_bail(k->s, CR_VALUE, "to_rt: the kernel %s has %s, which has no instruction", k->name,
            what);
}

/* --- operations --- */

enum { REAL, TEST, INTEGER };

static const struct {
    const char *name;
    int number, kind, arguments;
} operations[] = {
#define RT_FLOAT(number, name, arguments, value)   {#name, number, REAL, arguments},
#define RT_TEST(number, name, arguments, value)    {#name, number, TEST, arguments},
#define RT_INTEGER(number, name, arguments, value) {#name, number, INTEGER, arguments},
#include "rt/ops.def"
};

static int operation_of(const kernel_job *k, const char *name, cr_dtype t)
{
    bool real = cr_dtype_is_float(t);

    for (size_t i = 0; i < CR_LEN(operations); i++)
        if (!strcmp(operations[i].name, name) && (operations[i].kind != INTEGER) == real)
            return operations[i].number;
    cr_bail(k->s, CR_VALUE, "to_rt: %s of %s, in the kernel %s, has no instruction", name,
            cr_dtype_name(t), k->name);
}

static int dtype_of(const kernel_job *k, int dtype)
{
    if (dtype > CR_I64 && dtype != CR_F32 && dtype != CR_F64)
        kernel_refuse(k, cr_dtype_name((cr_dtype)dtype));
    return dtype;
}

static void emit(kernel_job *k, int operation, int dtype, int d, int a, int b, int c,
                 int number)
{
    cr_rt_push(k->j, &k->code, RT_PARTS(operation, dtype_of(k, dtype), d, a));
    cr_rt_push(k->j, &k->code, RT_PARTS(b, c, number, 0));
    if (k->code.len > 2 * 65535)
        kernel_refuse(k, "too many instructions");
}

static int new_register(kernel_job *k)
{
    if (k->registers == 65535)
        kernel_refuse(k, "too many values");
    return k->registers++;
}

static int emit_constant(kernel_job *k, int dtype, int64_t word)
{
    int d = new_register(k);
    size_t i = 0;

    while (i < k->constants.len && k->constants.at[i] != word)
        i++;
    if (i == k->constants.len)
        cr_rt_push(k->j, &k->constants, word);
    emit(k, RT_CONSTANT, dtype, d, 0, 0, 0, (int)i);
    return d;
}

static int64_t word_of(int dtype, cr_scalar v)
{
    int64_t word = v.i;

    if (v.category == CR_CAT_FLOAT || cr_dtype_is_float((cr_dtype)dtype)) {
        double wide = cr_scalar_as_double(v);
        float narrow = (float)wide;
        word = 0;
        if (dtype == CR_F32)
            memcpy(&word, &narrow, sizeof narrow);
        else
            memcpy(&word, &wide, sizeof wide);
    } else if (dtype == CR_BOOL) {
        word = v.i != 0;
    }
    return word;
}

/* --- axes --- */

/* 0: rows, 1: columns. */
static int axis_of(const kernel_job *k, const cr_sym *extent)
{
    if (!k->nest->one_row && cr_same_name(extent, k->nest->row.extent))
        return 0;
    if (!cr_same_name(extent, k->nest->column.extent))
        kernel_refuse(k, "a dim that is neither rows nor columns");
    return 1;
}

static int64_t size_of(const kernel_job *k, int axis)
{
    return axis == 0 && k->nest->one_row ? 1 : k->launch->size[axis];
}

/* Whether a value is of no axis and no reduction. */
static bool is_free(const cr_expr *e)
{
    if (e->kind == CR_EXPR_REDUCE || e->kind == CR_EXPR_SCAN || cr_expr_is_indexed(e))
        return false;
    if (e->kind == CR_EXPR_INTEGER)
        return e->index[0]->kind == CR_SYM_INT;
    if (e->kind == CR_EXPR_LOAD)
        return e->buffer->ndim == 0;
    for (int i = 0; i < e->count; i++)
        if (!is_free(e->args[i]))
            return false;
    return true;
}

static void open_loop(kernel_job *k, int axis, bool wide)
{
    if (k->depth == RT_MOST_NESTED)
        kernel_refuse(k, "too many loops");
    k->start[k->depth++] = k->code.len;
    k->wide = wide;
    emit(k, RT_FOR, CR_I64, axis, wide, 0, 0, 0);
}

static void close_loop(kernel_job *k)
{
    size_t start = k->start[--k->depth];
    int64_t inside = (int64_t)(k->code.len - start) / 2 - 1;

    k->code.at[start + 1] = RT_PARTS(0, 0, inside, 0);
    k->wide = false;
    for (size_t i = 0; i <= k->l->nodes; i++) {
        kept *const maps[] = {&k->narrow[i], &k->all[i], &k->index[i]};
        for (size_t m = 0; m < CR_LEN(maps); m++)
            if (maps[m]->depth > k->depth)
                maps[m]->at = 0;
    }
}

/* --- values --- */

static int operand_number(const kernel_job *k, const cr_buffer *b)
{
    for (int i = 0; i < k->operands; i++)
        if (k->operand[i] == b)
            return i;
    kernel_refuse(k, "a local array");
}

static int emit_cast(kernel_job *k, int to, int from, int a)
{
    int d = new_register(k);

    emit(k, RT_CAST, to, d, a, 0, 0, dtype_of(k, from));
    return d;
}

/* #i, or an expression of sizes. */
static int emit_integer(kernel_job *k, const cr_expr *e)
{
    const cr_sym *n = e->index[0];
    int d;

    if (n->kind == CR_SYM_INT) {
        d = emit_constant(k, CR_I64, n->integer);
    } else if (cr_same_name(n, k->nest->row.extent) ||
               cr_same_name(n, k->nest->column.extent)) {
        d = emit_constant(k, CR_I64, size_of(k, axis_of(k, n)));
    } else {
        bool row = !k->nest->one_row && cr_same_name(n, k->nest->row.index);
        if (!row && !cr_same_name(n, k->nest->column.index))
            kernel_refuse(k, "an integer that is no axis");
        d = new_register(k);
        emit(k, RT_INDEX, CR_I64, d, 0, 0, 0, !row);
    }
    return e->dtype == CR_I64 ? d : emit_cast(k, e->dtype, CR_I64, d);
}

static int emit_param(kernel_job *k, const cr_expr *e)
{
    size_t at = (size_t)e->param->slot * CR_PARAM_BYTES;
    const char *q = k->launch->param;

    if (at + cr_dtype_size((cr_dtype)e->dtype) > k->launch->param_bytes)
        kernel_refuse(k, "a parameter that the call lacks");
    return emit_constant(k, e->dtype,
                         word_of(e->dtype, cr_scalar_load((cr_dtype)e->dtype, q + at)));
}

static int emit_load(kernel_job *k, const cr_expr *e)
{
    int d = new_register(k);

    for (int i = 0; i < e->buffer->ndim; i++)
        if (!e->index[i] || e->index[i]->kind != CR_SYM_NAME)
            kernel_refuse(k, "an index that is no axis");
    emit(k, RT_LOAD, e->dtype, d, 0, 0, 0, operand_number(k, e->buffer));
    return d;
}

static int value_of(kernel_job *k, const cr_expr *e);

static int emit_call(kernel_job *k, const cr_expr *e)
{
    const cr_fn_info *info = &cr_fn_infos[e->fn];
    int r[3] = {0}, d;

    for (int i = 0; i < e->count; i++)
        r[i] = value_of(k, e->args[i]);
    if (info->kind == CR_FN_CAST)
        return emit_cast(k, e->dtype, e->args[0]->dtype, r[0]);
    d = new_register(k);
    if (info->kind == CR_FN_SELECT)
        emit(k, RT_SELECT, e->dtype, d, r[0], r[1], r[2], 0);
    else
        emit(k, operation_of(k, info->name, (cr_dtype)e->args[0]->dtype), e->args[0]->dtype, d,
             r[0], r[1], r[2], 0);
    return d;
}

/* The scan's values; its places have another register. */
static int emit_scan(kernel_job *k, const cr_expr *e)
{
    bool extreme = cr_fn_keeps_index((cr_fn)e->fn);
    int a = value_of(k, e->args[0]), d = new_register(k), place = d,
        number = e->fn == CR_FN_add     ? RT_SCAN_ADD
                 : e->fn == CR_FN_mul   ? RT_SCAN_MUL
                 : e->fn == CR_FN_above ? RT_SCAN_ABOVE
                                        : RT_SCAN_BELOW;

    if (extreme) {
        place = new_register(k);
        k->index[e->id] = (kept){place + 1, k->depth};
    }
    emit(k, RT_SCAN, e->dtype, d, a, k->scan[e->id], place, number);
    return d;
}

static int emit_value(kernel_job *k, const cr_expr *e)
{
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: return emit_constant(k, e->dtype, word_of(e->dtype, e->value));
    case CR_EXPR_PARAM: return emit_param(k, e);
    case CR_EXPR_INTEGER: return emit_integer(k, e);
    case CR_EXPR_CALL: return emit_call(k, e);
    case CR_EXPR_LOAD:
        if (!cr_expr_is_indexed(e))
            return emit_load(k, e);
        kernel_refuse(k, "a computed index");
    case CR_EXPR_SCAN: return emit_scan(k, e);
    default: kernel_refuse(k, "a fold inside of a loop of lanes");
    }
}

/* The register of a value at this place of the code. */
static int value_of(kernel_job *k, const cr_expr *e)
{
    kept *map = k->wide ? k->all : k->narrow;

    if (cr_expr_is_scan_index(e))
        (void)value_of(k, e->args[0]);
    if (e->kind == CR_EXPR_INDEX_OF && (!k->wide || cr_expr_is_scan_index(e)) &&
        k->index[e->args[0]->id].at)
        return k->index[e->args[0]->id].at - 1;
    if (!map[e->id].at)
        map[e->id] = (kept){emit_value(k, e) + 1, k->depth};
    return map[e->id].at - 1;
}

/* Computes a value in lane 0 and copies it to all lanes. */
static void spread(kernel_job *k, const cr_expr *e)
{
    if (k->all[e->id].at)
        return;
    int a = value_of(k, e), d = new_register(k);
    emit(k, RT_SPLAT, e->dtype, d, a, 0, 0, 0);
    k->all[e->id] = (kept){d + 1, k->depth};
}

static bool has_scan(const cr_expr *e)
{
    bool found = e->kind == CR_EXPR_SCAN;

    for (int i = 0; i < e->count && !found; i++)
        found = has_scan(e->args[i]);
    return found;
}

/* Spreads the largest parts of a value that do not depend on an axis, before its loop. */
static void prepare(kernel_job *k, const cr_expr *e, const cr_sym *axis)
{
    if (!cr_expr_uses_axis(e, axis) && !has_scan(e)) {
        spread(k, e);
        return;
    }
    for (int i = 0; i < e->count; i++)
        prepare(k, e->args[i], axis);
}

static void prepare_free(kernel_job *k, const cr_expr *e)
{
    if (is_free(e)) {
        spread(k, e);
        return;
    }
    for (int i = 0; i < e->count; i++)
        prepare_free(k, e->args[i]);
}

/* --- reductions --- */

static int open_operand(kernel_job *k, const cr_expr *e)
{
    prepare(k, e->args[0], e->axis.index);
    open_loop(k, axis_of(k, e->axis.extent), true);
    return value_of(k, e->args[0]);
}

static int put_ordered(kernel_job *k, const cr_expr *e)
{
    int axis = axis_of(k, e->axis.extent), v = open_operand(k, e), d = new_register(k);
    bool column = !cr_expr_lies_along(e->args[0], e->axis.index);

    emit(k, RT_PUT, e->dtype, 0, v, axis, 0, 0);
    close_loop(k);
    emit(k, RT_FOLD, e->dtype, d, axis, column, 0, e->fn == CR_FN_mul);
    return d;
}

static int put_beyond(kernel_job *k, const cr_expr *e)
{
    int axis = axis_of(k, e->axis.extent), d = emit_constant(k, e->dtype, 0),
        at = emit_constant(k, CR_I64, 0), v = open_operand(k, e);

    emit(k, RT_BEYOND, e->dtype, d, v, at, axis, e->fn == CR_FN_below);
    close_loop(k);
    k->index[e->id] = (kept){at + 1, k->depth};
    return d;
}

/* Folds that do not depend on the order. */
static int put_plain(kernel_job *k, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;
    const char *fn = cr_fn_infos[e->fn].name;
    int d = emit_constant(k, t, word_of(t, cr_fn_identity((cr_fn)e->fn, t))),
        v = open_operand(k, e), other = new_register(k);

    emit(k, RT_REDUCE, t, d, v, other, 0, operation_of(k, fn, t));
    close_loop(k);
    if (!cr_dtype_is_float(t) || (strcmp(fn, "maximum") && strcmp(fn, "minimum")))
        return d;
    int zero = emit_constant(k, t, 0), test = new_register(k), out = new_register(k);
    emit(k, operation_of(k, "eq", t), t, test, d, zero, 0, 0);
    emit(k, RT_SELECT, t, out, test, zero, d, 0);
    return out;
}

static void put_reduction(kernel_job *k, const cr_expr *e)
{
    int d;

    if (cr_expr_keeps_index(e))
        d = put_beyond(k, e);
    else if (cr_fn_has_order((cr_fn)e->fn, (cr_dtype)e->dtype))
        d = put_ordered(k, e);
    else
        d = put_plain(k, e);
    k->narrow[e->id] = (kept){d + 1, k->depth};
}

/* Computes the reductions of a value that depend on the first `level` axes, inner ones
 * first. */
static void put_reductions(kernel_job *k, const cr_def *def, const cr_expr *e, int level)
{
    for (int i = 0; i < e->count; i++)
        put_reductions(k, def, e->args[i], level);
    if (e->kind == CR_EXPR_REDUCE && !k->narrow[e->id].at && cr_def_level(def, e) <= level)
        put_reduction(k, e);
}

static bool has_reduction_at(const cr_def *def, const cr_expr *e, int level)
{
    if (e->kind == CR_EXPR_REDUCE && cr_def_level(def, e) == level)
        return true;
    for (int i = 0; i < e->count; i++)
        if (has_reduction_at(def, e->args[i], level))
            return true;
    return false;
}

/* --- definitions --- */

static void put_store(kernel_job *k, const cr_def *def)
{
    int v = value_of(k, def->value), dtype = def->target->dtype;

    if (def->value->dtype != dtype)
        v = emit_cast(k, dtype, def->value->dtype, v);
    emit(k, RT_STORE, dtype, 0, v, 0, 0, operand_number(k, def->target));
}

static void find_scans(kernel_job *k, const cr_expr *e, const cr_expr **first)
{
    for (int i = 0; i < e->count; i++)
        find_scans(k, e->args[i], first);
    if (e->kind == CR_EXPR_REDUCE)
        kernel_refuse(k, "a scan beside a fold");
    if (e->kind != CR_EXPR_SCAN)
        return;
    *first = *first ? *first : e;
    if (e->back || !cr_same_name((*first)->axis.index, e->axis.index))
        kernel_refuse(k, e->back ? "a scan from the end" : "scans along several axes");
}

/* Registers of what the scans of a value keep, at their start. */
static void start_scans(kernel_job *k, const cr_expr *e)
{
    for (int i = 0; i < e->count; i++)
        start_scans(k, e->args[i]);
    if (e->kind == CR_EXPR_SCAN)
        k->scan[e->id] = emit_constant(k, CR_I64, 0);
}

/* A definition with scans: the last loop is along their axis. */
static void put_scanned(kernel_job *k, const cr_def *def)
{
    const cr_expr *first = NULL;
    const cr_axis *along = NULL;

    find_scans(k, def->value, &first);
    prepare_free(k, def->value);
    for (int a = 0; a < def->axes; a++)
        if (cr_same_name(def->axis[a].index, first->axis.index))
            along = &def->axis[a];
        else
            open_loop(k, axis_of(k, def->axis[a].extent), false);
    if (!along)
        kernel_refuse(k, "a scan along no axis");
    start_scans(k, def->value);
    prepare(k, def->value, along->index);
    open_loop(k, axis_of(k, along->extent), true);
    put_store(k, def);
    for (int a = 0; a < def->axes; a++)
        close_loop(k);
}

static void put_definition(kernel_job *k, const cr_def *def)
{
    bool wide = def->axes && !has_reduction_at(def, def->value, def->axes);

    for (size_t i = 0; i <= k->l->nodes; i++)
        k->narrow[i].at = k->all[i].at = k->index[i].at = 0;
    if (has_scan(def->value)) {
        put_scanned(k, def);
        return;
    }
    if (wide)
        prepare_free(k, def->value);
    for (int a = 0; a < def->axes; a++) {
        bool last = a == def->axes - 1;
        put_reductions(k, def, def->value, a);
        if (last && wide)
            prepare(k, def->value, def->axis[a].index);
        open_loop(k, axis_of(k, def->axis[a].extent), last && wide);
    }
    if (!wide)
        put_reductions(k, def, def->value, def->axes);
    put_store(k, def);
    for (int a = 0; a < def->axes; a++)
        close_loop(k);
}

/* --- registers --- */

/* Which parts of an instruction are registers: bits for the result and three arguments. */
static int registers_of(int operation)
{
    switch (operation) {
    case RT_LOAD:
    case RT_CONSTANT:
    case RT_INDEX:
    case RT_FOLD: return 1;
    case RT_STORE:
    case RT_PUT: return 2;
    case RT_CAST:
    case RT_SPLAT: return 3;
    case RT_REDUCE:
    case RT_BEYOND: return 7;
    case RT_SELECT: return 15;
    case RT_SCAN: return 15;
    case RT_FOR: return 0;
    }
    for (size_t i = 0; i < CR_LEN(operations); i++)
        if (operations[i].number == operation)
            return (2 << operations[i].arguments) - 1;
    return 0;
}

static int register_at(const kernel_job *k, size_t i, int part)
{
    return part < 2 ? RT_PART(k->code.at[2 * i], 2 + part)
                    : RT_PART(k->code.at[2 * i + 1], part - 2);
}

static void set_register(kernel_job *k, size_t i, int part, int r)
{
    int64_t *w = &k->code.at[2 * i + (part >= 2)];
    int shift = 16 * (part < 2 ? 2 + part : part - 2);

    *w = (int64_t)(((uint64_t)*w & ~(UINT64_C(0xffff) << shift)) | (uint64_t)r << shift);
}

/* The first and the last instruction at which each register is needed.  A value that is made
 * before a loop and used inside is needed up to the loop's end. */
static void find_lives(const kernel_job *k, size_t *first, size_t *last)
{
    size_t n = k->code.len / 2, end[DEPTHS], start[DEPTHS];
    int depth = 0;

    for (size_t i = 0; i < n; i++) {
        int operation = RT_PART(k->code.at[2 * i], 0), parts = registers_of(operation);
        while (depth && end[depth - 1] < i)
            depth--;
        for (int part = 0; part < 4; part++) {
            if (!(parts >> part & 1))
                continue;
            int r = register_at(k, i, part);
            size_t to = i;
            first[r] = first[r] == SIZE_MAX ? i : first[r];
            for (int d = depth - 1; d >= 0; d--)
                to = first[r] < start[d] ? end[d] : to;
            last[r] = to > last[r] ? to : last[r];
        }
        if (operation == RT_FOR) {
            start[depth] = i;
            end[depth++] = i + (size_t)RT_PART(k->code.at[2 * i + 1], 2);
        }
    }
}

/* Gives values that are not needed at the same time one register; returns how many there
 * are. */
static int share_registers(kernel_job *k)
{
    size_t count = (size_t)k->registers, *first = CR_NEW_N(k->s, size_t, count + 1),
           *last = CR_NEW_N(k->s, size_t, count + 1);
    int *to = CR_NEW_N(k->s, int, count + 1), most = 0;
    size_t *busy = CR_NEW_N(k->s, size_t, count + 1); /* up to which instruction, plus one */

    for (size_t r = 0; r < count; r++)
        first[r] = SIZE_MAX;
    find_lives(k, first, last);
    for (size_t r = 0; r < count; r++) {
        if (first[r] == SIZE_MAX)
            continue;
        while (busy[to[r]] > first[r])
            to[r]++;
        busy[to[r]] = last[r] + 1;
        most = to[r] + 1 > most ? to[r] + 1 : most;
    }
    for (size_t i = 0; i < k->code.len / 2; i++) {
        int parts = registers_of(RT_PART(k->code.at[2 * i], 0));
        for (int part = 0; part < 4; part++)
            set_register(k, i, part,
                         parts >> part & 1 ? to[register_at(k, i, part)]
                                           : register_at(k, i, part));
    }
    return most;
}

/* --- calls --- */

/* The step of an operand along an axis; 0 where it has no such dim. */
static int64_t step_of(const kernel_job *k, int operand, int axis)
{
    const cr_buffer *b = k->operand[operand];

    for (int d = 0; d < b->ndim; d++)
        if (axis_of(k, b->size[d]) == axis)
            return k->launch->stride[2 * operand + axis];
    return 0;
}

/* Rows of a call: `count` times `rows` after `start` others. */
typedef struct {
    int64_t start, rows, count;
    bool parts;
} call_rows;

static void put_operand(kernel_job *k, cr_rt_words *w, int i, const call_rows *r)
{
    const cr_launch *l = k->launch;
    int64_t own = l->stride[2 * i],
            part = i < k->outputs ? own : PART_ROWS * own; /* from part to part */
    bool number = l->numbers >> i & 1;
    int64_t at = number ? cr_rt_data(k->j, l->pointer[i], 16)
                        : cr_rt_address(k->j, l->pointer[i], i < k->outputs);

    cr_rt_push(k->j, w, at + r->start / PART_ROWS * part);
    cr_rt_push(k->j, w, dtype_of(k, k->operand[i]->dtype));
    cr_rt_push(k->j, w, step_of(k, i, 0));
    cr_rt_push(k->j, w, step_of(k, i, 1));
    for (int d = 0; d < l->outer; d++)
        cr_rt_push(k->j, w, number ? 0 : l->outer_stride[i * l->outer + d]);
    if (r->parts)
        cr_rt_push(k->j, w, part);
}

static void put_outer(kernel_job *k, cr_rt_words *w, const call_rows *r)
{
    const cr_launch *l = k->launch;

    for (int d = 0; d < l->outer; d++)
        cr_rt_push(k->j, w, l->outer_size[d]);
    if (r->parts)
        cr_rt_push(k->j, w, r->count);
    for (int d = 0; d < l->outer; d++) {
        int64_t step = l->size[0];
        for (int e = d + 1; e < l->outer; e++)
            step *= l->outer_size[e];
        cr_rt_push(k->j, w, step);
    }
    if (r->parts)
        cr_rt_push(k->j, w, r->rows);
}

static void put_call(kernel_job *k, const call_rows *r, int registers)
{
    const cr_launch *l = k->launch;
    int64_t columns = l->size[1], longest = r->rows > columns ? r->rows : columns;
    cr_rt_words w = {0};
    const int64_t head[RT_KERNEL_WORDS] = {
        [RT_KERNEL_ROWS] = r->rows,
        [RT_KERNEL_COLUMNS] = columns,
        [RT_KERNEL_OUTER] = l->outer + r->parts,
        [RT_KERNEL_OPERANDS] = k->operands,
        [RT_KERNEL_RESULTS] = k->outputs,
        [RT_KERNEL_CONSTANTS] = (int64_t)k->constants.len,
        [RT_KERNEL_INSTRUCTIONS] = (int64_t)k->code.len / 2,
        [RT_KERNEL_REGISTERS] = registers,
        [RT_KERNEL_MEMORY] =
            cr_rt_scratch(k->j, 8 * ((int64_t)registers * CR_RT_LANES + longest)),
    };

    if (l->outer + r->parts > RT_MOST_OUTER)
        kernel_refuse(k, "too many dims");
    for (int i = 0; i < RT_KERNEL_WORDS; i++)
        cr_rt_push(k->j, &w, head[i]);
    put_outer(k, &w, r);
    for (int i = 0; i < k->operands; i++)
        put_operand(k, &w, i, r);
    for (size_t i = 0; i < k->constants.len; i++)
        cr_rt_push(k->j, &w, k->constants.at[i]);
    for (size_t i = 0; i < k->code.len; i++)
        cr_rt_push(k->j, &w, k->code.at[i]);
    cr_rt_command(k->j, RT_KERNEL, &w);
}

/* A fold of columns makes a result of each 512 rows, if its first result says so. */
static void put_calls(kernel_job *k, int registers)
{
    const cr_launch *l = k->launch;
    int64_t rows = size_of(k, 0), whole = rows / PART_ROWS, rest = rows % PART_ROWS;
    bool parts = k->nest->kind == CR_NEST_COLUMNS && l->stride[0];

    if (!parts || rows <= PART_ROWS) {
        put_call(k, &(call_rows){0, rows, 1, false}, registers);
        return;
    }
    if (k->nest->counts_rows)
        kernel_refuse(k, "numbers of rows in a fold of columns");
    put_call(k, &(call_rows){0, PART_ROWS, whole, true}, registers);
    if (rest)
        put_call(k, &(call_rows){whole * PART_ROWS, rest, 1, true}, registers);
}

static bool is_empty(const kernel_job *k)
{
    const cr_launch *l = k->launch;

    for (int d = 0; d < l->outer; d++)
        if (!l->outer_size[d])
            return true;
    if (l->size[1] || !l->size[0])
        return !l->size[0];
    for (size_t i = 0; i < k->l->defs.len; i++)
        if (k->l->defs.at[i]->target->role == CR_BUFFER_OUTPUT && k->l->defs.at[i]->axes < 2 &&
            !k->nest->one_row)
            kernel_refuse(k, "a fold of no elements");
    return true;
}

void cr_rt_kernel(cr_rt_job *j, const cr_launch *l)
{
    const cr_plan_kernel *source = l->code;
    kernel_job k = {.j = j, .s = j->s, .launch = l, .name = source->name};

    k.l = cr_loop_parse(j->s, source->program);
    cr_loop_fuse(k.l);
    k.nest = cr_nest_schedule(k.l);
    k.operands = cr_loop_operands(k.l, k.operand, CR_PLAN_OPERANDS);
    for (int i = 0; i < k.operands; i++)
        k.outputs += k.operand[i]->role == CR_BUFFER_OUTPUT;
    if (is_empty(&k))
        return;
    k.narrow = CR_NEW_N(j->s, kept, k.l->nodes + 1);
    k.all = CR_NEW_N(j->s, kept, k.l->nodes + 1);
    k.index = CR_NEW_N(j->s, kept, k.l->nodes + 1);
    k.scan = CR_NEW_N(j->s, int, k.l->nodes + 1);
    for (size_t i = 0; i < k.l->defs.len; i++)
        if (k.l->defs.at[i]->target->role == CR_BUFFER_OUTPUT)
            put_definition(&k, k.l->defs.at[i]);
    put_calls(&k, share_registers(&k));
}

/* The instructions of a scan along the columns, of operand 1 to operand 0. */
static void put_log_code(kernel_job *k, int dtype)
{
    int state = emit_constant(k, CR_I64, 0), v, d;
    size_t start = k->code.len;

    emit(k, RT_FOR, CR_I64, 1, 1, 0, 0, 3);
    v = new_register(k);
    emit(k, RT_LOAD, dtype, v, 0, 0, 0, 1);
    d = new_register(k);
    emit(k, RT_SCAN, dtype, d, v, state, d, RT_SCAN_LOG);
    emit(k, RT_STORE, dtype, 0, d, 0, 0, 0);
    CR_ASSERT(k->code.len - start == 4 * RT_INSTRUCTION_WORDS);
}

void cr_rt_log_scan(cr_rt_job *j, const cr_library *c)
{
    const cr_array *from = &c->arg[0].array, *to = &c->result[0], *operand[2] = {to, from};
    int dim = cr_library_dim(c), outer[RT_MOST_OUTER], dims = 0;
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)from->dtype),
            n = from->ndim ? from->size[dim] : 1;
    kernel_job k = {.j = j, .s = j->s, .name = c->entry};
    cr_rt_words w = {0};

    if (from->dtype != CR_F32 && from->dtype != CR_F64)
        kernel_refuse(&k, cr_dtype_name((cr_dtype)from->dtype));
    if (!cr_numel(from->ndim, from->size))
        return;
    for (int d = 0; d < from->ndim; d++) {
        if (d == dim || from->size[d] == 1)
            continue;
        if (dims == RT_MOST_OUTER)
            kernel_refuse(&k, "too many dims");
        outer[dims++] = d;
    }
    put_log_code(&k, from->dtype);
    const int64_t head[RT_KERNEL_WORDS] = {
        [RT_KERNEL_ROWS] = 1,
        [RT_KERNEL_COLUMNS] = n,
        [RT_KERNEL_OUTER] = dims,
        [RT_KERNEL_OPERANDS] = 2,
        [RT_KERNEL_RESULTS] = 1,
        [RT_KERNEL_CONSTANTS] = (int64_t)k.constants.len,
        [RT_KERNEL_INSTRUCTIONS] = (int64_t)k.code.len / RT_INSTRUCTION_WORDS,
        [RT_KERNEL_REGISTERS] = k.registers,
        [RT_KERNEL_MEMORY] = cr_rt_scratch(j, 8 * ((int64_t)k.registers * CR_RT_LANES + n)),
    };
    for (int i = 0; i < RT_KERNEL_WORDS; i++)
        cr_rt_push(j, &w, head[i]);
    for (int i = 0; i < dims; i++)
        cr_rt_push(j, &w, from->size[outer[i]]);
    for (int i = 0; i < dims; i++)
        cr_rt_push(j, &w, 0);
    for (int i = 0; i < 2; i++) {
        cr_rt_push(j, &w, cr_rt_address(j, operand[i]->data, i == 0));
        cr_rt_push(j, &w, from->dtype);
        cr_rt_push(j, &w, 0);
        cr_rt_push(j, &w, from->ndim ? operand[i]->stride[dim] * item : 0);
        for (int d = 0; d < dims; d++)
            cr_rt_push(j, &w, operand[i]->stride[outer[d]] * item);
    }
    for (size_t i = 0; i < k.constants.len; i++)
        cr_rt_push(j, &w, k.constants.at[i]);
    for (size_t i = 0; i < k.code.len; i++)
        cr_rt_push(j, &w, k.code.at[i]);
    cr_rt_command(j, RT_KERNEL, &w);
}
