/* The oracle: compares the results of a kernel with those of the interpreter.
 *
 * The program is read from its text, before any pass touched it.  The interpreter uses the
 * kernels' functions and order of reductions, so every bit must be equal. */
#include "jit/oracle.h"
#include "base/env.h"
#include "jit/entry.h"
#include "jit/generated.h"
#include "loop/interp.h"
#include "loop/nest.h"
#include "space/space.h"
#include <math.h>
#include <string.h>

enum { MOST_OPERANDS = CR_PLAN_OPERANDS, MOST_ELEMENTS = 1 << 16 };

bool cr_oracle_wanted(void) { return cr_env_int(CR_ENV_CR_ORACLE) != 0; }

typedef struct {
    const char *text;
    void *const *ptr;
    const int64_t *stride;
    int64_t rows, columns;
    const void *param;
    cr_session *s;
    cr_loop *l;
    cr_nest *nest;
    cr_buffer *operand[MOST_OPERANDS];
    int operands;
} check;

/* The name of an extent in the program; NULL for a number. */
static const cr_sym *extent_name(const check *c, const cr_sym *extent)
{
    return extent->kind == CR_SYM_NAME ? cr_sym_find(c->l->syms, extent->name) : NULL;
}

typedef enum { NO_DIM, ROW, COLUMN, PLANE, UNKNOWN } operand_dims;

static operand_dims dims_of(const check *c, int k)
{
    const cr_buffer *b = c->operand[k];

    if (b->ndim != 1)
        return b->ndim ? PLANE : NO_DIM;
    if (b->size[0]->kind != CR_SYM_NAME)
        return UNKNOWN;
    return b->size[0] == extent_name(c, c->nest->row.extent) ? ROW : COLUMN;
}

/* The strides decide where extents are numbers. */
static bool by_row(const check *c, int k)
{
    operand_dims dims = dims_of(c, k);

    return dims == PLANE || dims == ROW ||
           (dims == UNKNOWN && c->stride[2 * k] && !c->stride[2 * k + 1]);
}

static bool by_column(const check *c, int k)
{
    operand_dims dims = dims_of(c, k);

    return dims == PLANE || dims == COLUMN || (dims == UNKNOWN && c->stride[2 * k + 1]);
}

/* An input whose strides are zero may be indexed by row or by column.  Its copy has enough
 * elements for both. */
static int64_t elements(const check *c, int k)
{
    if (dims_of(c, k) == UNKNOWN && c->operand[k]->role == CR_BUFFER_INPUT && !by_row(c, k) &&
        !by_column(c, k))
        return c->rows > c->columns ? c->rows : c->columns;
    return (by_row(c, k) ? c->rows : 1) * (by_column(c, k) ? c->columns : 1);
}

static const char *operand_place(const check *c, int k, int64_t i)
{
    int64_t columns = by_column(c, k) ? c->columns : 1;

    return (const char *)c->ptr[k] + i / columns * c->stride[2 * k] +
           i % columns * c->stride[2 * k + 1];
}

static void *operand_copy(const check *c, int k)
{
    size_t item = cr_dtype_size((cr_dtype)c->operand[k]->dtype);
    char *to = cr_session_get(c->s, (size_t)elements(c, k) * item);

    for (int64_t i = 0; c->operand[k]->role == CR_BUFFER_INPUT && i < elements(c, k); i++)
        memcpy(to + (size_t)i * item, operand_place(c, k, i), item);
    return to;
}

static double operand_value(const check *c, int k, const char *p)
{
    return cr_scalar_as_double(cr_scalar_load((cr_dtype)c->operand[k]->dtype, p));
}

/* Equal bits, or NaN for NaN. */
static bool equal_elements(cr_dtype t, const char *a, const char *b)
{
    cr_scalar x = cr_scalar_load(t, a), y = cr_scalar_load(t, b);
    int64_t part = (int64_t)cr_dtype_size(t) / 2;

    if (!memcmp(a, b, cr_dtype_size(t)))
        return true;
    if (cr_dtype_is_float(t))
        return isnan(x.d) && isnan(y.d);
    return cr_dtype_is_complex(t) &&
           ((isnan(x.c.re) && isnan(y.c.re)) || !memcmp(a, b, (size_t)part)) &&
           ((isnan(x.c.im) && isnan(y.c.im)) || !memcmp(a + part, b + part, (size_t)part));
}

static void compare_operand(const check *c, int k, const char *wanted)
{
    cr_dtype t = (cr_dtype)c->operand[k]->dtype;
    int64_t n = elements(c, k), item = (int64_t)cr_dtype_size(t);

    for (int64_t i = 0; i < n; i++)
        if (!equal_elements(t, wanted + i * item, operand_place(c, k, i)))
            cr_bail(c->s, CR_RUNTIME,
                    "CR_ORACLE: element %lld of '%s' is %.17g, not %.17g, in\n%s", (long long)i,
                    c->operand[k]->name, operand_value(c, k, operand_place(c, k, i)),
                    operand_value(c, k, wanted + i * item), c->text);
}

static void oracle_read(cr_session *s, check *c)
{
    cr_loop *copy = cr_loop_parse(s, c->text);

    c->s = s;
    c->l = cr_loop_parse(s, c->text);
    c->operands = cr_loop_operands(c->l, c->operand, MOST_OPERANDS);
    cr_loop_fuse(copy);
    c->nest = cr_nest_schedule(copy);
}

/* Computes the results in memory of the session. */
static void oracle_compute(const check *c, int64_t first, void **memory)
{
    const cr_sym *row = extent_name(c, c->nest->row.extent),
                 *column = extent_name(c, c->nest->column.extent);
    cr_loop_size sizes[2];
    int count = 0;

    if (row)
        sizes[count++] = (cr_loop_size){row, c->rows};
    if (column)
        sizes[count++] = (cr_loop_size){column, c->columns};
    for (int k = 0; k < c->operands; k++)
        memory[k] = operand_copy(c, k);
    cr_loop_interpret(c->l, &(cr_loop_run){.sizes = sizes,
                                           .size_count = count,
                                           .operand = memory,
                                           .param = c->param,
                                           .eval = cr_fn_one,
                                           .row = row,
                                           .first = first});
}

static void oracle_run(cr_session *s, void *context)
{
    check *c = context;
    void *memory[MOST_OPERANDS];

    oracle_read(s, c);
    oracle_compute(c, 0, memory);
    for (int k = 0; k < c->operands && c->operand[k]->role == CR_BUFFER_OUTPUT; k++)
        compare_operand(c, k, memory[k]);
}

cr_status cr_oracle_check(const char *text, void *const *ptr, const int64_t *stride,
                          int64_t rows, int64_t columns, const void *param)
{
    int64_t most = columns < MOST_ELEMENTS ? MOST_ELEMENTS / (columns ? columns : 1) : 1;
    check c = {.text = text, .ptr = ptr, .stride = stride, .columns = columns, .param = param};
    cr_session s = {.status = CR_OK};
    cr_status st;

    c.rows = rows < most ? rows : most;
    st = cr_session_run(&s, oracle_run, &c);
    cr_session_drop(&s);
    return st;
}

/* --- the command KERNEL of the oracle (plan/plan.h) --- */

typedef struct {
    check c;
    const cr_launch *l;
    int64_t first; /* the number of the first row */
} launching;

static void store_results(const check *c, void *const *memory)
{
    for (int k = 0; k < c->operands && c->operand[k]->role == CR_BUFFER_OUTPUT; k++) {
        int64_t n = elements(c, k),
                item = (int64_t)cr_dtype_size((cr_dtype)c->operand[k]->dtype);
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)(uintptr_t)operand_place(c, k, i),
                   (const char *)memory[k] + i * item, (size_t)item);
    }
}

/* Rows [from, from + rows), whose results are at row `result`. */
static void launch_rows(launching *w, char *const *at, int64_t from, int64_t rows,
                        int64_t result)
{
    void *pointer[MOST_OPERANDS], *memory[MOST_OPERANDS];
    check *c = &w->c;

    for (int k = 0; k < c->operands; k++)
        pointer[k] = at[k] + (c->operand[k]->role == CR_BUFFER_OUTPUT ? result : from) *
                                 c->stride[2 * k];
    c->ptr = pointer;
    c->rows = rows;
    oracle_compute(c, w->first + from, memory);
    store_results(c, memory);
}

/* All rows at one index of the outer dims.  A fold of columns has a result for every
 * CR_FOLD_COLUMN rows, one row of results after the other. */
static void launch_plane(launching *w, char *const *at)
{
    int64_t all = w->l->size[0];
    bool parts = w->c.nest->kind == CR_NEST_COLUMNS && w->l->stride[0];
    int64_t width = parts ? CR_FOLD_COLUMN : all;

    for (int64_t from = 0; from < all; from += width)
        launch_rows(w, at, from, all - from < width ? all - from : width, from / width);
    w->first += all;
}

static void launch_planes(void *context, char *const *at, const int64_t *step, int64_t n)
{
    launching *w = context;
    char *pointer[MOST_OPERANDS];

    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < w->l->operands; k++)
            pointer[k] = at[k] + i * step[k];
        launch_plane(w, pointer);
    }
}

static void launch_all(cr_session *s, void *context)
{
    launching *w = context;
    const cr_launch *l = w->l;
    cr_space space;

    oracle_read(s, &w->c);
    if (w->c.operands != l->operands)
        cr_bail(s, CR_VALUE, "the kernel has %d operands, not %d", w->c.operands, l->operands);
    cr_space_start(&space, l->operands);
    for (int d = 0; d < l->outer; d++) {
        int64_t *step = cr_space_add(&space, l->outer_size[d], d);
        for (int k = 0; k < l->operands; k++)
            step[k] = l->numbers >> k & 1 ? 0 : l->outer_stride[k * l->outer + d];
    }
    cr_space_walk(&space, space.ndim, (char *const *)l->pointer, 0,
                  cr_space_count(&space, space.ndim), launch_planes, w);
}

static const char *oracle_launch(int index, const cr_launch *l)
{
    launching w = {.c = {.text = ((const cr_plan_kernel *)l->code)->program,
                         .stride = l->stride,
                         .columns = l->size[1],
                         .param = l->param},
                   .l = l,
                   .first = l->size[2]};
    cr_session s = {.status = CR_OK};

    (void)index;
    cr_status st = cr_session_run(&s, launch_all, &w);
    cr_session_drop(&s);
    return st ? cr_error_message() : NULL;
}

static cr_plan_kernel describe_source(const cr_kernel_source *source)
{
    static const char prefix[] = "ck_device_";
    const char *symbol = cr_kernel_symbol(source);
    bool has = !strncmp(symbol, prefix, sizeof prefix - 1);

    return (cr_plan_kernel){symbol + (has ? sizeof prefix - 1 : 0), cr_kernel_program(source)};
}

const cr_executor cr_oracle = {
    .ops = &cr_oracle_ops, .operands = cr_kernel_operands, .describe = describe_source};

void cr_oracle_install(void) { cr_oracle_ops.launch = oracle_launch; }

/* --- executors that build kernels --- */

const char *cr_plan_build(const cr_device_ops *ops, int index, const cr_plan_kernel *k,
                          void **code)
{
    cr_kernel_source *source;

    if (cr_group_source(&source, k->program))
        return cr_error_message();
    const char *error = ops->build(index, source, code);
    cr_kernel_source_drop(source);
    return error;
}
