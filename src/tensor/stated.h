/* stated.h - plans of entries that are stated as loops.  Inside tensor/ only. */
#ifndef CR_TENSOR_STATED_H
#define CR_TENSOR_STATED_H

#include "kern/move.h"
#include "tensor/internal.h"

enum { CR_STATED_KEY = 96, CR_STATED_CACHED = 512 };

/* A box of the result, in elements: the offsets of its first elements in result, source and
 * index.  Its dims, and the parts of its lines, are in lists of the plan, in the order of the
 * boxes. */
typedef struct {
    int64_t to, from, index;
    int parts; /* 0: its lines are not cut */
    bool fill; /* instead of a copy */
} cr_stated_box;
enum { CR_STATED_DIM = 4 };

/* The moves of a call, for given sizes, strides and numbers; addresses are relative. */
typedef struct {
    int64_t key[CR_STATED_KEY];
    int words; /* of the key; 0: the plan is not kept */
    int from;  /* the parameter that is read */
    int index; /* the parameter of the index tensor, or -1 */
    const cr_loop_index *bounds;
    cr_kernel kernel;
    bool is32;
    int64_t unit, extent;
    const cr_rule *fill; /* the value outside of the boxes, or NULL */
    int ndim;
    CR_VEC(cr_stated_box) box;
    CR_VEC(int64_t) dim;       /* CR_STATED_DIM numbers for each dim of each box */
    CR_VEC(cr_move_part) part; /* of all boxes */
} cr_stated_plan;

/* Evaluates the entry's clauses for a call.  The caller drops the lists, also on failure. */
CR_MUST cr_status cr_stated_make(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                                 const cr_view *out);

#endif
