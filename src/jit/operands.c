/* The operands of commands KERNEL, from the program of their kernel.
 *
 * The program of a plan may be any text.  A kernel accesses its operands without a test, so
 * each index of the program must be an axis that is as long as the operand's dim. */
#include "jit/oracle.h"
#include "loop/nest.h"

typedef struct {
    const cr_launch *l;
    cr_plan_operand *out;
    cr_loop *loop;
    const cr_nest *nest;
    const cr_sym *row, *column; /* sizes; NULL without such an axis */
} operands_job;

CR_NORETURN static void operands_refuse(const operands_job *j, const char *what)
{
    cr_bail(j->loop->session, CR_VALUE, "the kernel %s: %s",
            ((const cr_plan_kernel *)j->l->code)->name, what);
}

/* --- indices --- */

/* The extent of the axes that have this name; NULL if there is none, or if they differ. */
typedef struct {
    const cr_sym *index, *extent;
    bool found, differs;
} axis_search;

static void search_axis(axis_search *s, const cr_axis *a)
{
    if (a->index != s->index)
        return;
    s->differs = s->differs || (s->found && s->extent != a->extent);
    s->found = true;
    s->extent = a->extent;
}

static const cr_sym *extent_of(const operands_job *j, const cr_sym *index)
{
    axis_search s = {.index = index};

    for (size_t i = 0; i < j->loop->defs.len; i++)
        for (int a = 0; a < j->loop->defs.at[i]->axes; a++)
            search_axis(&s, &j->loop->defs.at[i]->axis[a]);
    for (size_t i = 0; i < j->loop->chains; i++)
        for (const cr_expr *e = j->loop->chain[i]; e; e = e->next)
            if (e->kind == CR_EXPR_REDUCE)
                search_axis(&s, &e->axis);
    return s.differs ? NULL : s.extent;
}

static void check_load(const operands_job *j, const cr_expr *e)
{
    for (int k = 0; k < e->buffer->ndim; k++)
        if (cr_load_computed(e, k) || extent_of(j, e->index[k]) != e->buffer->size[k])
            operands_refuse(j, "an index is no axis of an operand's dim");
}

static void check_loads(const operands_job *j)
{
    for (size_t i = 0; i < j->loop->chains; i++)
        for (const cr_expr *e = j->loop->chain[i]; e; e = e->next)
            if (e->kind == CR_EXPR_LOAD)
                check_load(j, e);
}

/* --- operands --- */

static const cr_sym *size_named(const operands_job *j, const cr_axis *a)
{
    return a->extent && a->extent->kind == CR_SYM_NAME
               ? cr_sym_find(j->loop->syms, a->extent->name)
               : NULL;
}

/* A fold of columns stores one row of results for every CR_FOLD_COLUMN rows, and one for no
 * rows. */
static int64_t rows_of(const operands_job *j, const cr_buffer *b)
{
    int64_t rows = j->l->size[0];

    if (b->ndim && b->size[0] == j->row)
        return rows;
    return b->role == CR_BUFFER_OUTPUT && j->nest->kind == CR_NEST_COLUMNS && rows
               ? (rows - 1) / CR_FOLD_COLUMN + 1
               : 1;
}

/* A kernel steps every operand that it reads over its rows and columns, also where the operand
 * does not vary.  A result that does not vary is one of a fold, which is stored once; but a
 * fold of rows steps all results over the rows. */
static void check_steps(const operands_job *j, int k, const cr_buffer *b, bool row, bool column)
{
    const int64_t *step = j->l->stride + 2 * k, *size = j->l->size;
    bool result = b->role == CR_BUFFER_OUTPUT;
    bool stored = result && j->nest->kind == CR_NEST_COLUMNS;

    if ((!row && !stored && size[0] > 1 && step[0]) ||
        (!column && !result && size[1] > 1 && step[1]))
        operands_refuse(j, "an operand has a step where it does not vary");
}

static cr_plan_operand operand_of(const operands_job *j, int k, const cr_buffer *b)
{
    bool row = b->ndim && b->size[0] == j->row,
         column = b->ndim && b->size[b->ndim - 1] == j->column;

    if (b->ndim > 2 || b->ndim != row + column)
        operands_refuse(j, "an operand has other dims than rows and columns");
    check_steps(j, k, b, row, column);
    return (cr_plan_operand){.dtype = b->dtype,
                             .written = b->role == CR_BUFFER_OUTPUT,
                             .rows = rows_of(j, b),
                             .columns = column ? j->l->size[1] : 1};
}

static void check_params(const operands_job *j)
{
    size_t slots = j->l->param ? j->l->param_bytes / CR_PARAM_BYTES : 0;

    for (size_t i = 0; i < j->loop->params.len; i++)
        if (j->loop->params.at[i]->slot < 0 || (size_t)j->loop->params.at[i]->slot >= slots)
            operands_refuse(j, "a parameter is missing");
}

static void find_operands(cr_session *s, void *context)
{
    operands_job *j = context;
    const char *program = ((const cr_plan_kernel *)j->l->code)->program;
    cr_loop *copy = cr_loop_parse(s, program);
    cr_buffer *buffer[CR_PLAN_OPERANDS];

    j->loop = cr_loop_parse(s, program);
    cr_loop_verify(j->loop);
    cr_loop_fuse(copy);
    j->nest = cr_nest_schedule(copy);
    j->row = size_named(j, &j->nest->row);
    j->column = size_named(j, &j->nest->column);
    if ((!j->row && (!j->column || j->l->size[0] != 1)) || j->row == j->column ||
        cr_loop_operands(j->loop, buffer, CR_PLAN_OPERANDS) != j->l->operands)
        operands_refuse(j, "it is called with other operands, or has no rows and columns");
    for (int k = 0; k < j->l->operands; k++)
        j->out[k] = operand_of(j, k, buffer[k]);
    check_params(j);
    check_loads(j);
}

cr_status cr_kernel_operands(const cr_launch *l, cr_plan_operand *out)
{
    operands_job j = {.l = l, .out = out};
    cr_session s = {.status = CR_OK};
    cr_status st = cr_session_run(&s, find_operands, &j);

    cr_session_drop(&s);
    return st;
}
