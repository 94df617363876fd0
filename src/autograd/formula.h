/* formula.h - nodes that evaluate derivatives of the table: what backward (formula.c) and
 * forward mode (tangent.c) share. */
#ifndef CR_AUTOGRAD_FORMULA_H
#define CR_AUTOGRAD_FORMULA_H

#include "autograd/autograd_impl.h"

typedef enum {
    CR_HELD_VALUE,
    CR_HELD_TENSOR,
    CR_HELD_SHAPE,
    CR_HELD_LIST,
    CR_HELD_RESULT_SHAPE
} cr_held_as;

/* A saved slot of the entry. */
typedef struct {
    uint8_t slot, as; /* cr_held_as */
    union {
        cr_value value; /* lists are in the node's tail */
        cr_view shape;
        cr_saved saved;
        struct {
            cr_saved *items;
            uint32_t len;
        } list;
    };
} cr_held;

typedef struct {
    cr_node node;
    uint32_t wanted; /* bit d: derivative d */
    uint8_t held_count;
    bool has_tensors, released, reads_results;
    uint32_t *first_edge; /* first edge of each derivative; NULL: derivative d has edge d */
    char *tail;           /* unused bytes of the tail */
    cr_held held[];
} cr_formula;

static inline const cr_derivative_plan *cr_formula_plan(const cr_node *n)
{
    return (const cr_derivative_plan *)n->kind;
}
/* The edges of derivative `d` are those from *from to *to, without *to. */
static inline void cr_formula_edges(const cr_formula *f, int d, uint32_t *from, uint32_t *to)
{
    *from = f->first_edge ? f->first_edge[d] : (uint32_t)d;
    *to = f->first_edge ? f->first_edge[d + 1] : (uint32_t)d + 1;
}

/* What the formulas of a node are evaluated in. */
typedef struct {
    cr_frame frame;
    cr_value arg[CR_MAX_ARGS];
    cr_view result_shape[CR_MAX_RESULTS];
    CR_VEC(cr_tensor *) mine; /* used when `few` is full */
    cr_tensor *few[12];
    int few_count;
    cr_arena lists;
} cr_formula_frame;

void cr_formula_begin(cr_formula_frame *e, const cr_op *op);
void cr_formula_end(cr_formula_frame *e);
/* Sets the values that the node has saved. */
CR_MUST cr_status cr_formula_unpack(cr_formula_frame *e, cr_formula *f);
/* Keeps `t`, whose reference is taken (also on failure), until the frame ends. */
CR_MUST cr_status cr_formula_own(cr_formula_frame *e, cr_tensor *t);

/* --- tangent.c --- */
/* cr_node_kind.push of these nodes. */
CR_MUST cr_status cr_formula_push(cr_node *n, cr_tensor *const *tangents, cr_tensor **out);
/* What a call saves beside what its derivatives read, while forward mode is on. */
cr_reads cr_formula_further_reads(const cr_derivative_plan *plan);

#endif
