/* task.h - the state of one backward. */
#ifndef CR_AUTOGRAD_TASK_H
#define CR_AUTOGRAD_TASK_H

#include "autograd/autograd_impl.h"

typedef struct {
    cr_node *node;  /* kept alive by the roots' edges */
    cr_tensor *one; /* cotangent of a node with one result */
    /* cotangents of a node with several results; NULL before the first arrives */
    cr_tensor **many;
    uint32_t dependencies; /* edges whose cotangent has not arrived */
    int32_t capture;       /* first of the inputs that capture its cotangents, or -1 */
    bool needed;           /* the node must be applied */
    bool reached;          /* a cotangent came, or a node that has no `joined` gave none */
    bool counted;          /* edges have been counted */
} cr_task_item;

/* A function that runs at the end of a backward. */
typedef struct {
    cr_status (*fn)(void *context);
    void *context;
} cr_task_end;

typedef struct cr_task {
    const cr_backward_call *call;
    struct cr_task *outer; /* the run in which a hook started this one */
    CR_VEC(cr_task_end) ends;
    int64_t number;        /* number of this run */
    cr_tensor **results;   /* one per input, or NULL */
    int32_t *next_capture; /* linked list of the inputs with the same node */
    uint32_t *capture_input;
    cr_edge *root; /* references */
    CR_VEC(cr_task_item) items;
    CR_VEC(uint32_t) ready; /* heap, newest node first; the walks use it as a stack */
    uint32_t *table;        /* open addressing: item index + 1 */
    size_t table_size;      /* power of two */
    uint64_t oldest;        /* least sequence of the inputs' nodes, 0 for leaves */
    bool inputs_are_new;    /* cr_backward_by_new */
    bool pruned;            /* apply only nodes that lead to the inputs */
} cr_task;

/* Finds the nodes, decides which are needed, and counts dependencies. */
CR_MUST cr_status cr_task_plan(cr_task *t);
void cr_task_drop(cr_task *t);
/* The item of a node; NULL when the node takes no part. */
cr_task_item *cr_task_find(const cr_task *t, const cr_node *n);
static inline bool cr_task_wants(const cr_task_item *i) { return i->needed || i->capture >= 0; }
/* Adds `grad` (ownership taken, also on failure) to the cotangent of result `k`. */
CR_MUST cr_status cr_task_give(cr_task_item *item, uint32_t k, cr_tensor *grad);
/* The heap of items whose cotangents are complete. */
CR_MUST cr_status cr_task_push(cr_task *t, uint32_t item);
uint32_t cr_task_pop(cr_task *t);

#endif
