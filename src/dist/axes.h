/* axes.h - the axes of a call: which dims of operands and results are computed independently.
 *
 * An axis of a call runs along one dim of some operands and results.  Parts of a result along
 * an axis need only the same parts of the operands that have it.  An axis that no result has
 * is reduced: results are the sums (or products, extremes) of those of the parts.  Axes follow
 * from the entry's statement: body, fold, scan, loop, view, a word, or clause `axes` of a
 * function.  A composition's calls are recorded, and their axes joined.
 *
 * Nodes are in a session; functions bail from it. */
#ifndef CR_DIST_AXES_H
#define CR_DIST_AXES_H

#include "sym/session.h"
#include "tensor/tensor.h"

enum { CR_AXES_DIMS = 12, CR_AXES_TENSORS = 32, CR_AXES_MOST = 512 };

/* How the results without an axis depend on it. */
typedef enum {
    CR_AXIS_ALONG, /* they do not: every result of the call has the axis, or no operand has
                    * it */
    CR_AXIS_SUM,
    CR_AXIS_PRODUCT,
    CR_AXIS_MIN,
    CR_AXIS_MAX
} cr_axis_how;

typedef struct {
    uint8_t how;  /* cr_axis_how */
    bool whole;   /* a call needs all of it */
    bool divided; /* its dims have several sizes: all are divided by one number, without rest */
    /* 1 + the operand whose values are places along it; 0: none.  A part of the call has the
     * elements at the places of its part, and zeros at others.  Of a composition: any. */
    uint8_t looked;
    uint32_t apart; /* results that need no part of an operand along it */
} cr_axis;

/* A tensor of a call.  axis[d] is the axis along dim d, or -1 where a call needs all of it. */
typedef struct {
    cr_tensor *t; /* without bytes */
    int param;    /* of an operand */
    bool added;   /* to the sum along reduced axes: each part of the call adds a part of it */
    int16_t axis[CR_AXES_DIMS];
} cr_axes_tensor;

typedef struct cr_axes cr_axes;
/* A call of a composition; its operands and results are values of the composition. */
typedef struct {
    cr_axes *call;
    int operand[CR_AXES_TENSORS], result[CR_AXES_TENSORS];
} cr_axes_part;

/* The axes of a call.
 * Invariant: every dim of an operand or result has an axis below `count`, or -1: it is
 * needed whole. Of a composition the first values are the operands; `dim` and `part_axis`
 * have one list for each value and part. */
struct cr_axes {
    const cr_op *op;
    const cr_value *arg;
    int operands, results, count;
    cr_axes_tensor operand[CR_AXES_TENSORS], result[CR_AXES_TENSORS];
    cr_axis *axis;
    const char *rule; /* the kind of the rule that answered; NULL: the call has no answer */
    /* Of a composition: values are numbered, operands first. */
    int parts, values;
    cr_axes_part *part;
    cr_tensor **value;
    int16_t (*dim)[CR_AXES_DIMS]; /* of each value, the axis of each dim */
    int16_t **part_axis;          /* of each part, its axes */
    int out[CR_AXES_TENSORS];     /* the values of the results */
    bool writes;                  /* a part writes a value */
};

/* Finds the axes of a call of `op`.  Tensors among `arg` are read for types alone; they stay
 * borrowed from the caller.  Sets up fake results, which live as long as the session's caller
 * keeps `*fakes`.  Bails where the call itself is an error. */
typedef struct {
    cr_session *session;
    CR_VEC(cr_tensor *) fakes; /* owned */
    int depth, calls;
} cr_axes_maker;
cr_axes *cr_axes_of(cr_axes_maker *m, const cr_op *op, const cr_value *arg);
void cr_axes_maker_drop(cr_axes_maker *m);

/* True if results are partial (to be reduced by `how`) when the operands of bits `partial` are,
 * and the others are whole. */
bool cr_axes_keep_partial(const cr_axes *a, uint32_t partial, cr_axis_how how);

/* The state of a value of a call whose axis is split over ranks. */
typedef enum { CR_PART_WHOLE, CR_PART_SPLIT, CR_PART_PARTIAL } cr_part_state;

/* Inside dist/ only: the rules of single entries (axes_rule.c), of clause `axes`
 * (axes_clause.c), and of loops (axes_loop.c).  Each sets axes and `rule`, or leaves it
 * NULL. */
void cr_axes_by_rule(cr_axes_maker *m, cr_axes *a);
void cr_axes_by_clause(cr_axes_maker *m, cr_axes *a);
void cr_axes_by_loop(cr_axes_maker *m, cr_axes *a);
/* A new axis. */
int cr_axes_add(cr_axes_maker *m, cr_axes *a, cr_axis_how how);
/* Gives two dims one axis; `axis` is -1 or an axis of the call. */
void cr_axes_put(cr_axes *a, cr_axes_tensor *t, int dim, int axis);
/* The degree of an expression in the operands of bits `partial`: 0 or 1; CR_DEGREE_ZERO of a
 * zero, CR_DEGREE_NONE where the expression is not linear. */
enum { CR_DEGREE_ZERO = 2, CR_DEGREE_NONE = 3 };
int cr_axes_degree(const cr_axes *a, const cr_rule *r, uint32_t partial);
/* The operand that parameter `param` is, or -1. */
int cr_axes_operand(const cr_axes *a, int param);

#endif
