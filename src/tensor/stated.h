/* stated.h - plans of entries that are stated as loops.  Inside tensor/ only. */
#ifndef CR_TENSOR_STATED_H
#define CR_TENSOR_STATED_H

#include "kern/move.h"
#include "kern/window.h"
#include "tensor/internal.h"

enum { CR_STATED_KEY = 96, CR_STATED_CACHED = 512 };

/* A box of the result, in elements: the offsets of its first elements in result, source and
 * index.  Its dims, and the parts of its lines, are in lists of the plan, in the order of the
 * boxes: the sizes, then the strides of result, source and index. */
typedef struct {
    int64_t to, from, index;
    int parts; /* 0: its lines are not cut */
    bool fill; /* instead of a copy */
} cr_stated_box;
enum { CR_STATED_DIM = 4, CR_STATED_RESULT = 63 };

/* The key of a plan that is kept. */
typedef struct {
    int64_t key[CR_STATED_KEY];
    int words;     /* of the key; 0: the plan is not kept */
    uint64_t hash; /* of the key */
} cr_stated_kept;

/* The index tensor of a loop that reads or writes at computed places. */
typedef struct {
    int index; /* the parameter of the index tensor, or -1 */
    const cr_loop_index *bounds;
    cr_kernel kernel[2]; /* for indices of int64, and of int32 */
    bool is32;
    cr_status outside_kind; /* of another device: the error of an index out of range */
    char outside[240];
} cr_stated_index;

/* What the axes of the loop do. */
typedef struct {
    uint64_t picked; /* bit d: axis d does not number a dim of the result */
    uint64_t even;   /* bit d: axis d numbers a dim of the result and affects no other index */
    uint64_t even_dims; /* these dims of the result */
    bool unravel;       /* indices are row-major numbers; they become offsets of elements */
} cr_stated_axes;

/* The moves of a call, for given sizes, strides and numbers; addresses are relative.
 * Invariant: dim has CR_STATED_DIM * ndim numbers for each of `box`, and part the parts of
 * all boxes in their order. A plan with a window has no boxes. kept.words is 0 or the length
 * of kept.key. */
typedef struct {
    cr_stated_kept kept;
    int from;  /* the parameter that is read; -1: the result is written there */
    int plain; /* of a loop with a start, the parameter whose elements it writes; -1: a
                * number */
    cr_stated_axes axes;
    uint64_t dense; /* bit i: parameter i (CR_STATED_RESULT: the result) is replaced by a
                     * row-major copy, and the plan has no boxes */
    cr_stated_index picks;
    int64_t unit, extent;
    const cr_rule *fill; /* the number outside of the boxes, or the number that is written */
    int ndim;
    CR_VEC(cr_stated_box) box;
    CR_VEC(int64_t) dim;       /* CR_STATED_DIM lists of ndim numbers for each box */
    CR_VEC(cr_move_part) part; /* of all boxes */
    cr_window *window;         /* of a loop that folds windows, instead of boxes; or NULL */
} cr_stated_plan;

/* The number parameter by which a loop multiplies what it writes, or -1: the tensor that it
 * then names is given multiplied. */
static inline int cr_stated_scale(const cr_op *op)
{
    const cr_rule *r = op->loop.value;

    return op->loop.start && r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_mul
               ? r->args[0]->slot
               : -1;
}

/* A loop that reads a list of tensors (stated_list.c). */
typedef struct {
    int param, dim; /* the list, and the dim of the result along which its tensors are pieces */
    bool stacked;   /* the tensors do not have this dim */
} cr_stated_list_of;

static inline bool cr_stated_has_list(const cr_op *op)
{
    const cr_rule *r = op->loop.value;

    return r->kind == CR_RULE_INDEX && r->args[0]->kind == CR_RULE_INDEX;
}

CR_MUST cr_status cr_stated_list(cr_stated_list_of *l, const cr_op *op, const cr_value *arg,
                                 const cr_view *out);
CR_MUST cr_status cr_run_stated_list(const cr_op *op, const cr_value *arg, cr_view *out);

/* How written elements are combined with present ones. */
typedef struct {
    cr_combine how;
    bool mean;  /* the sum is divided by the number of its terms */
    bool fresh; /* written places start as the identity */
} cr_stated_combination;

/* Evaluates the entry's clauses for a call.  The caller drops the lists, also on failure. */
CR_MUST cr_status cr_stated_make(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                                 const cr_view *out);

/* A number, or the element of a tensor of one, as an element of dtype `dtype` at `item`. */
CR_MUST cr_status cr_stated_number(void *item, const cr_rule *number, const cr_op *op,
                                   const cr_value *arg, cr_dtype dtype);
/* The error of clause `index` if an element of the index tensor is not in [low, high). */
CR_MUST cr_status cr_stated_check(const cr_loop_index *b, const cr_op *op,
                                  const cr_value *given, int64_t low, int64_t high);

/* Bytes of the plans for windows that the calling thread keeps: a few megabytes at most. */
size_t cr_stated_kept_bytes(void);

#endif
