/* stated.h - plans of entries that are stated as loops.  Inside tensor/ only. */
#ifndef CR_TENSOR_STATED_H
#define CR_TENSOR_STATED_H

#include "tensor/internal.h"

enum { CR_STATED_KEY = 96, CR_STATED_CACHED = 512 };

/* The moves of a call, for given sizes, strides and numbers; addresses are relative.  A box is
 * the offsets of its first elements in result, source and index, in elements, then four numbers
 * for each dim: size, and the strides of result, source and index. */
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
    int ndim, boxes;
    CR_VEC(int64_t) box;
} cr_stated_plan;

/* Evaluates the entry's clauses for a call.  The caller drops p->box, also on failure. */
CR_MUST cr_status cr_stated_make(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                                 const cr_view *out);

#endif
