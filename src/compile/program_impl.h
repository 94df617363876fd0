/* program_impl.h - what program.c makes, plan.c completes and exec.c runs. */
#ifndef CR_COMPILE_PROGRAM_IMPL_H
#define CR_COMPILE_PROGRAM_IMPL_H

#include "compile/compile.h"
#include "compile/program.h"

enum { CR_NO_SLOT = UINT32_MAX };

/* A tensor that is put into an argument when the step runs. */
typedef struct {
    uint16_t arg;
    bool in_list;
    uint32_t item; /* of the list */
    uint32_t slot;
} cr_patch;

typedef enum {
    CR_STEP_CALL,
    CR_STEP_GROUP,
    CR_STEP_MOVE,   /* a second count of a tensor: result[0] = read[0] */
    CR_STEP_CHOOSE, /* goes to step `to` when read[0] is false */
    CR_STEP_JUMP,   /* goes to step `to` */
    CR_STEP_NONE    /* a place where tensors die */
} cr_step_kind;

typedef struct {
    uint8_t kind;
    bool tracked;     /* CALL: through the autograd stage, which tracks views and checks writes */
    bool list_result; /* CALL: the results are the items of a Tensor[] */
    uint16_t arg_count;
    int32_t reuse_read; /* the read whose tensor becomes result 0 when nobody else has it; -1: none */
    uint32_t reads, results, patches, releases, list_room, deaths;
    size_t to;
    const cr_op *op;
    cr_value *arg; /* complete but for the patches */
    cr_patch *patch;
    const cr_gcode *code;
    uint32_t *read;    /* slots, once planned */
    uint32_t *result;  /* slots; CR_NO_SLOT: nobody reads it */
    uint32_t *release; /* slots whose tensors are dropped afterwards */
    /* for planning and printing */
    const cr_gnode *node;
    cr_gvalue **read_value; /* what is read, repetitions included */
    cr_gvalue **made_value;
    cr_gvalue **dies; /* values that are read here last */
    int64_t alive;    /* bytes of the program's tensors while the step runs */
} cr_step;

/* Slots: inputs and constants, which are borrowed, then tensors that the program makes. */
struct cr_program {
    cr_session *s;     /* the graph's */
    const cr_graph *g; /* that is run */
    cr_graph *own;     /* the same when the program made it, or NULL */
    cr_compiled *code;
    struct { size_t len, cap; cr_step *at; } steps;
    struct { size_t len, cap; cr_tensor **at; } constants; /* g's */
    struct { size_t len, cap; cr_gvalue **at; } constant_values;
    uint32_t inputs, first_made, slots, list_room, outputs;
    uint32_t operands; /* the most that a group reads and makes */
    cr_gvalue **output_value;
    uint32_t *output;       /* slots; CR_NO_SLOT: None */
    bool *output_moves;     /* the output takes the slot's count */
    int64_t peak;
    size_t peak_at;         /* the step during which it is reached */
    int reused;             /* results that take over a dying tensor */
    cr_gvalue **stands_for; /* by value id: the value whose slot it has, or NULL */
    _Atomic(void *) spare;  /* a frame that no run uses */
};

/* Liveness, slots, reuse and the peak; bails. */
void cr_program_plan(cr_program *p);

/* The value whose slot `v` has. */
static inline cr_gvalue *cr_program_value(const cr_program *p, cr_gvalue *v)
{
    while (p->stands_for[v->id])
        v = p->stands_for[v->id];
    return v;
}

#endif
