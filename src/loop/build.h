/* build.h - operator entries as loop programs.
 *
 * The program of an entry works on rows and columns: axes i < R and j < C.
 *   body           out[i, j] = body(self[i, j], ...)
 *   fold           out[i] = combine[j < C](expr), and its other forms; the index that a
 *                  reduction keeps is the second result, or the only one.  With a form of
 *                  joins, such a reduction has both results, in the forms of rows and columns
 *   scan           out[i, j] = scan combine[j < C](expr), along i < R in the form of columns
 *   is with fused  operands as the entry declares them: [i, j], [i] or [j]
 *   loop           out[i, j] = table[i, j, $index[i, j]], of an entry with one index tensor; a
 *                  kernel for each size of an item
 * Operands are the results, then the tensor parameters in schema order.  Parameters of
 * type Scalar, int, float and bool take slots in schema order, in the compute type.
 * A tensor parameter has the compute type; those in cr_op.mask_params are bool. */
#ifndef CR_LOOP_BUILD_H
#define CR_LOOP_BUILD_H

#include "loop/loop.h"
#include "ops/ops.h"

/* True for a fold that keeps the index of its value. */
bool cr_op_keeps_index(const cr_op *op);
/* True when opgen makes a kernel of this form for the entry. */
bool cr_loop_has_form(const cr_op *op, cr_form form);
/* True when opgen makes the kernel CR_FORM_ACROSS for the entry: no operand has one element for
 * each column. */
bool cr_loop_has_across(const cr_op *op);
/* The program for compute type `t`.  Bails with CR_TYPE when a function of the entry
 * does not exist for `t`, with CR_VALUE when the entry cannot be read as loops. */
cr_loop *cr_loop_of_op(cr_session *s, const cr_op *op, cr_dtype t, cr_form form);
/* True when the entry's `dtypes` and type rule allow compute type `t`. */
bool cr_loop_wants(const cr_op *op, cr_dtype t);

/* The dtype whose kernel moves elements of type `t`: it has the same size. */
cr_dtype cr_loop_moved_as(cr_dtype t);

/* The kinds of arguments of an entry inside a larger program. */
typedef enum {
    CR_LOOP_NONE,
    CR_LOOP_TENSOR,
    CR_LOOP_PARAM,
    CR_LOOP_NUMBER,
    CR_LOOP_TRUTH,
    CR_LOOP_STRING,
    CR_LOOP_ROW_DIMS, /* the dimensions of a row, in any notation */
    CR_LOOP_DTYPE
} cr_loop_arg_kind;
typedef struct {
    uint8_t kind;     /* cr_loop_arg_kind */
    const cr_expr *e; /* TENSOR, PARAM: a value read when the program runs */
    cr_scalar number; /* NUMBER: a literal; TRUTH: i */
    const char *text; /* STRING */
    cr_dtype dtype;   /* DTYPE */
} cr_loop_arg;

typedef struct {
    const cr_op *op;
    cr_dtype t; /* the compute type, which is that of the loops */
    /* The half type to which eager rounds every operator's result, or CR_DTYPE_NONE.  Results
     * of operators inside a composition are rounded here; the caller rounds the entry's
     * results. */
    cr_dtype half;
    int64_t columns; /* elements of a row (axes i < R and j < C); 0: no rows */
} cr_loop_call;

/* Makes the expressions result[k] of an entry from its arguments.  The entry is a body, a
 * reduction over the row with keepdim, a composition of such entries, or a scan along the row.
 * Bails as cr_loop_of_op does. */
void cr_loop_apply(cr_loop *l, const cr_loop_call *c, const cr_loop_arg *arg,
                   const cr_expr **result);

/* A program of one loop function, as tier 0 uses them in its steps:
 *   CR_FORM_MAIN     out[i, j] = fn(a[i, j], ...); CAST reads bool;
 *                    RANDOM: element first + i * length + j, with parameters seed,
 *                    offset, first, length
 *   CR_FORM_JOIN     out[i] = fn[j < C](a[i, j])
 * `t` is the arguments' type.  Bails with CR_TYPE when the function does not exist. */
cr_loop *cr_loop_of_fn(cr_session *s, cr_fn fn, cr_dtype t, cr_form form);

#endif
