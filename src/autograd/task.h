/* task.h - what one backward knows about the nodes it reaches. */
#ifndef CR_AUTOGRAD_TASK_H
#define CR_AUTOGRAD_TASK_H

#include "autograd/autograd_impl.h"

typedef struct {
    cr_node *node;        /* held by the roots, through edges */
    cr_tensor *one;       /* cotangent of a node with one result */
    cr_tensor **many;     /* of a node with several; NULL until the first arrives */
    uint32_t dependencies;/* edges that still bring a cotangent */
    int32_t capture;      /* first of the inputs that want its cotangents, or -1 */
    bool needed;          /* is to be applied */
    bool counted;         /* its edges were counted */
} cr_task_item;

typedef struct {
    const cr_backward_call *call;
    int64_t number;        /* of this run */
    cr_tensor **results;   /* of inputs, or NULL */
    int32_t *next_capture; /* inputs of the same node, linked */
    uint32_t *capture_input;
    cr_edge *root;         /* counted */
    CR_VEC(cr_task_item) items;
    CR_VEC(uint32_t) ready; /* heap: newest node first; before that a stack */
    uint32_t *table;        /* open addressing: item index + 1 */
    size_t table_size;      /* power of two */
    bool pruned;            /* only what leads to the inputs is applied */
} cr_task;

/* Finds the nodes, what is needed of them, and counts dependencies. */
CR_MUST cr_status cr_task_plan(cr_task *t);
void cr_task_drop(cr_task *t);
/* The item of a node, or NULL. */
cr_task_item *cr_task_find(const cr_task *t, const cr_node *n);
static inline bool cr_task_wants(const cr_task_item *i) { return i->needed || i->capture >= 0; }
/* Adds `grad` (taken, on failure too) to what arrived for result `k`. */
CR_MUST cr_status cr_task_give(cr_task_item *item, uint32_t k, cr_tensor *grad);
/* The heap of items that have all their cotangents. */
CR_MUST cr_status cr_task_push(cr_task *t, uint32_t item);
uint32_t cr_task_pop(cr_task *t);

#endif
