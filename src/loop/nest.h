/* nest.h - scheduled programs: loops over rows and columns.
 *
 * A nest computes all outputs of a fused program.
 *
 *   ROWS     for each row, sweeps along its columns.  A sweep stores full values and
 *            accumulates reductions; a reduction's result is one value a row, known
 *            before the next sweep.  Pointwise programs are one sweep.
 *   COLUMNS  each column of all rows becomes one value (the blocks of a column fold)
 *
 * A scan is along the columns of each row, in the last sweep, or down the rows of each column,
 * in the only sweep.  Phases order the values of such a sweep: a scan's value is one phase
 * after its operand, and any other value is in the highest phase of its arguments.
 *
 * A value needed in two sweeps is computed again when that is cheap; otherwise the
 * first sweep keeps it where a later sweep will store its output row. */
#ifndef CR_LOOP_NEST_H
#define CR_LOOP_NEST_H

#include "loop/loop.h"

typedef enum { CR_NEST_ROWS, CR_NEST_COLUMNS } cr_nest_kind;

/* How often a value is computed: once in the kernel, once a row, once a column of each row. */
typedef enum { CR_SCOPE_KERNEL, CR_SCOPE_ROW, CR_SCOPE_COLUMN } cr_scope;

typedef struct {
    const cr_buffer *buffer;
    const cr_expr *value;
} cr_store;

typedef struct {
    const cr_expr *const *at;
    int count;
} cr_exprs;

typedef struct {
    cr_exprs reduces; /* the reductions that this sweep accumulates */
    cr_store *store;  /* values written by this sweep, kept ones among them */
    int stores;
    int cost; /* of one step, in additions */
} cr_sweep;

/* The loops of a kernel.
 * Invariant: scope, level and phase have one entry for each expression of `loop`. A value's
 * level is below `sweeps`, and no sweep reads a kept value before the sweep that keeps it. */
typedef struct {
    cr_loop *loop;
    cr_nest_kind kind;
    cr_axis row, column; /* a pointwise program of one axis has one row */
    bool one_row;
    bool counts_columns; /* a value depends on the column's number */
    bool counts_rows;    /* a value depends on the row's number: size[2] is the first row's */
    cr_sweep *sweep;
    int sweeps;
    cr_store *row_store; /* one value a row */
    int row_stores;
    const uint8_t *scope; /* cr_scope by expression id */
    const uint8_t *level; /* first sweep in which the value can be computed, by id */
    cr_exprs scans;       /* in order: the operand of a scan may need earlier ones */
    bool scans_rows;      /* they go down the rows */
    const uint8_t *phase; /* by id */
    int phases;           /* 1 without scans */
    const cr_store *keep; /* kept values: read from buffer in sweeps after level */
    int keeps;
} cr_nest;

/* The cost of a load whose place is computed, beyond that of another load. */
enum { CR_COST_INDEXED = 8 };

/* The least costs at which a loop is not unrolled, and at which a value is kept instead of
 * recomputed. */
enum { CR_COST_HEAVY = 14, CR_COST_KEEP = 6 };

/* Schedules a fused program.  Bails with CR_VALUE when that is not possible. */
cr_nest *cr_nest_schedule(cr_loop *l);
static inline cr_scope cr_nest_scope(const cr_nest *n, const cr_expr *e)
{
    return (cr_scope)n->scope[e->id];
}
/* The buffer that keeps `e` in sweep `at`; NULL when the sweep must compute `e`. */
const cr_buffer *cr_nest_kept(const cr_nest *n, const cr_expr *e, int at);
/* The program and its sweeps as text. */
void cr_nest_print(cr_text *out, const cr_nest *n);

/* Whether both are one expression, or names with one text; false of NULL. */
bool cr_same_name(const cr_sym *a, const cr_sym *b);
/* Whether a value depends on an axis that a reduction inside does not bind. */
bool cr_expr_uses_axis(const cr_expr *e, const cr_sym *axis);
/* Whether an operand lies along the axis in memory: a fold of it has the order of rows. */
bool cr_expr_lies_along(const cr_expr *e, const cr_sym *axis);
/* The last axis of a definition that a value depends on, counted from 1; 0: none. */
int cr_def_level(const cr_def *def, const cr_expr *e);

#endif
