/* stated_piece.h - integers and conditions of clause `loop` as functions of one axis.  Inside
 * tensor/ only. */
#ifndef CR_TENSOR_STATED_PIECE_H
#define CR_TENSOR_STATED_PIECE_H

#include "tensor/stated.h"

/* Axes of a result and of a window. */
enum { CR_STATED_AXES = CR_MAX_DIMS + CR_WINDOW_DIMS };

/* A source's dim that is not indexed by an axis or an index tensor. */
typedef struct {
    int axis, item; /* item: the axis's place in its pack */
    const cr_rule *rule;
    int64_t stride;   /* elements of the source from one index to the next */
    unsigned at_zero; /* of a sum over axes: bits of the other names, which count as 0 */
    int64_t less;     /* subtracted from the rule's value */
} stated_map;

/* Strides, and the offset of the box at hand, in elements. */
typedef struct {
    /* Strides, and the offset of the box at hand, in elements. */
    int64_t to_stride[CR_MAX_DIMS], from_stride[CR_MAX_DIMS], index_stride[CR_MAX_DIMS];
    int64_t to, from, index;
} stated_steps;

/* The guard of a piece. */
typedef struct {
    const cr_rule *guard;
    int guarded; /* the name of the guard's last axis */
    bool joint;  /* the guard names several axes */
} stated_choice;

/* A loop that is being made a plan.
 * Invariant: axis d is below ndim, and the axes of name k are first[k] .. first[k] +
 * count[k]. An axis of `steps` has its value in `at`; the others go as a whole. */
typedef struct {
    const cr_op *op;
    cr_frame f;
    unsigned let_names[CR_MAX_SLOTS]; /* by let: the axis names in it */
    cr_stated_plan *plan;
    int first[CR_LOOP_AXES], count[CR_LOOP_AXES]; /* axes of each name */
    int ndim;
    int64_t size[CR_STATED_AXES];
    stated_steps in;
    stated_map map[CR_MAX_DIMS];
    int maps;
    stated_choice guards;
    bool cut[CR_MAX_DIMS];      /* by axis: maps or the guard cut it */
    bool steps[CR_MAX_DIMS];    /* the guard names it and a later axis: it goes one by one */
    int64_t at[CR_STATED_AXES]; /* the values of axes that go one by one */
} stated;

/* value + slope * (t - start) for start <= t < end; end is INT64_MAX when there is none. */
typedef struct {
    int64_t value, slope, end;
} piece;

/* The place where a piece is made: at t of an axis, which has the place `item` in its pack. */
typedef struct {
    stated *s;
    int axis, item;
    bool joint; /* the rule names further axes, which go one by one */
    int64_t t;
    unsigned at_zero;    /* bits of the names of axes that count as 0 */
    int64_t start, step; /* the axis's value is start + step * t; step 0: t */
    int bound;           /* a let's slot, which then is the varying value; 0: none */
    int64_t *period;     /* if not NULL: becomes a multiple of the steps between divisions */
} place;

/* The piece of a rule at a place. */
CR_MUST cr_status cr_stated_piece(const place *p, const cr_rule *r, piece *out);
/* The axis names in a rule, a bit each. */
unsigned cr_stated_names(const stated *s, const cr_rule *r);
/* Fails: the clause has a form that is not carried out. */
CR_MUST cr_status cr_stated_refuse(const stated *s, const cr_rule *r, const char *what);
/* The plan of a loop that folds windows. */
CR_MUST cr_status cr_stated_window(stated *s, const cr_value *arg, const cr_view *out);

#endif
