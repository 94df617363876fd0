/* program_impl.h - plans: made by program.c, changed by layout.c and product.c, completed by
 * plan.c, run by exec.c. */
#ifndef CR_COMPILE_PROGRAM_IMPL_H
#define CR_COMPILE_PROGRAM_IMPL_H

#include "compile/compile.h"
#include "compile/program.h"
#include "compile/sizes.h"
#include <pthread.h>

enum { CR_NO_SLOT = UINT32_MAX, CR_CALLS_ONLY = -1 };

/* A tensor that a run stores in an argument. */
typedef struct {
    uint16_t arg;
    bool in_list;
    uint32_t item; /* index in the list */
    uint32_t slot;
} cr_patch;

typedef enum {
    CR_STEP_CALL,
    CR_STEP_GROUP,
    CR_STEP_VIEW,   /* a view with known sizes and strides; other views are CALLs */
    CR_STEP_OWN,    /* a cr_own */
    CR_STEP_MOVE,   /* a new reference to a tensor: result[0] = read[0] */
    CR_STEP_CHOOSE, /* continues at step `to` if read[0] is false */
    CR_STEP_JUMP,   /* continues at step `to` */
    CR_STEP_NONE    /* no operation; tensors die here */
} cr_step_kind;

struct cr_step;

/* A step that is neither an operator nor a group (layout.c, product.c); `overwrites` as in
 * cr_gcode. */
typedef struct cr_own cr_own;
struct cr_own {
    cr_status (*run)(cr_own *own, cr_tensor *const *read, cr_tensor **output);
    void (*drop)(cr_own *own);
    /* Makes the function for step `s` at other sizes, whose types `kept` has; `own` outlives
     * it. Fails with CR_VALUE if the layouts differ.  NULL: the function runs for all sizes. */
    cr_status (*resize)(cr_own **out, const cr_own *own, const struct cr_step *s,
                        const cr_kept_types *kept);
    const char *name;
    uint32_t overwrites;
    cr_own *next; /* next of the plan */
};

/* A view of a tensor of type `from`; `offset` is relative to the tensor's first element. */
typedef struct {
    const cr_gtype *from;
    const int64_t *assumed; /* strides that the tensor must have even in dims of one element; or
                             * NULL */
    int ndim;
    int64_t offset;
    const int64_t *size, *stride;
} cr_static_view;

/* The lifetime of a storage of the program, in steps from 0. */
typedef struct {
    int64_t bytes, born, dies;
    int holds; /* a storage that must live as long, because the result may be a view of it; or
                * -1 */
} cr_life;

/* What a step of the kind CALL passes to its operator. */
typedef struct {
    bool tracked;     /* CALL: runs through the autograd stage, which tracks views and checks
                       * writes */
    bool over;        /* CALL: a device's kernel writes the result over read `reuse_read` */
    bool list_result; /* CALL: the results are the items of one Tensor[] */
    bool symbols;     /* CALL: an argument is a symbol, replaced by a number of the run
                         (graph/number.h) */
    uint16_t arg_count;
    uint32_t patches, list_room;
    const cr_op *op;
    cr_value *arg; /* complete except for the patches */
    cr_patch *patch;
} cr_step_call;

/* The slots whose tensors end with a step. */
typedef struct {
    uint32_t releases;
    uint32_t *release;               /* slots whose tensors are dropped after the step */
    uint32_t *given, given_releases; /* inputs with their last reader here: dropped if the run
                                      * owns them */
    uint32_t *early, earlies; /* outputs that no later step reads, if nothing is written */
} cr_step_drops;

/* The values of the graph that a step is about, for planning and printing. */
typedef struct {
    uint32_t deaths;
    const cr_gnode *node;
    cr_gvalue **read_value; /* arguments, with repetitions */
    cr_gvalue **made_value;
    cr_gvalue **dies; /* values with their last reader here */
    int64_t alive;    /* bytes of the program's tensors while the step runs */
} cr_step_values;

/* A step of a program.
 * Invariant: kind decides which members are set: call of CALL, code and own of GROUP, view
 * of VIEW. read has `reads` slots and result `results`. reuse_read and back_read are reads
 * or -1, and not both are reads. */
typedef struct cr_step {
    uint8_t kind;
    cr_step_call call;
    int32_t reuse_read; /* the read whose tensor becomes result 0 if the run has the only
                         * reference to it; -1: none */
    int32_t back_read;  /* the read, an input, into whose memory result 0 is computed where it
                         * lies as planned (back.c); -1: none */
    cr_step_drops drop;
    uint32_t reads, results;
    size_t to;
    const cr_gcode *code;
    cr_own *own;
    const cr_static_view *view;
    uint32_t *read;   /* slots */
    uint32_t *result; /* slots; CR_NO_SLOT: no reader */
    cr_step_values values;
} cr_step;

/* The parts of a step that depend on sizes. */
typedef struct {
    const cr_value *arg;
    const cr_gcode *code;
    const cr_static_view *view; /* of a VIEW; NULL: the run calls its operator */
    cr_own *own;                /* of an OWN step */
    const cr_gtype *made;       /* type of result 0, or NULL */
} cr_step_sizes;

/* The parts of a plan that depend on sizes. */
typedef struct cr_sized_steps {
    cr_session session; /* empty if the plan owns the data */
    const cr_gtype **input;
    const cr_gtype **shown; /* by output: the type whose strides the run gives it, or NULL */
    cr_step_sizes *step;
    /* of a program for other sizes: */
    const cr_gtype **type; /* by class of the values (cr_gsizes) */
    cr_compiled *code;
    cr_own *own; /* list of cr_own that the plan does not own */
    struct cr_program_steps *plan;
    int threads; /* for these; `plan` may have plain layouts */
    struct cr_sized_steps *next;
} cr_sized_steps;

/* The slots of a run, in this order: inputs, constants, tensors that the program makes. */
typedef struct {
    uint32_t inputs, first_made, slots, list_room;
    uint32_t operands; /* the most reads and results of a group */
} cr_steps_frame;

/* The outputs of a run. */
typedef struct {
    uint32_t outputs;
    cr_gvalue **output_value;
    uint32_t *output;   /* slots; CR_NO_SLOT: the output is None */
    bool *output_moves; /* the output takes the slot's reference */
} cr_steps_outputs;

/* The memory that a run takes at most. */
typedef struct {
    int64_t peak;
    size_t peak_at; /* the step with the peak */
    int reused;     /* results that take over a dying tensor */
} cr_steps_memory;

/* Values beside those of the graph, by id. */
typedef struct {
    unsigned values;             /* ids of values are below this */
    CR_VEC(cr_gvalue *) blocked; /* by id minus g's values: the value that is held in blocks */
    cr_gvalue **stands_for; /* by id of g's values: another value with the same slot, or NULL */
} cr_steps_values;

/* The steps for one number of threads.  Slots hold inputs and constants, which are borrowed,
 * then tensors that the program makes.
 * Invariant: slots below frame.inputs are the inputs, those from frame.first_made on are
 * made by steps; all slots are below frame.slots. Every slot that a step reads is an input,
 * a constant, or the result of an earlier step. memory.peak is the most that steps have
 * `alive`. */
typedef struct cr_program_steps {
    cr_session session;
    cr_session *s;     /* &session */
    const cr_graph *g; /* the graph that runs */
    unsigned how;      /* cr_how */
    bool varies;       /* runs for other sizes, too */
    bool writes;       /* a tensor, which may be an input */
    /* Number of threads that the layouts are for.  0: plain layouts, for any number.
     * CR_CALLS_ONLY: operator calls only, because autocast has to see them. */
    int threads;
    struct cr_program_steps *next;
    CR_VEC(cr_step) steps;
    cr_sized_steps sizes;          /* sizes for which the plan was made */
    CR_VEC(cr_tensor *) constants; /* g's */
    CR_VEC(cr_gvalue *) constant_values;
    cr_own *own;                /* list of the steps' cr_own */
    struct cr_resizer *resizer; /* of a program that varies */
    cr_steps_values value;
    cr_steps_frame frame;
    cr_steps_outputs out;
    cr_steps_memory memory;
    _Atomic(void *) spare; /* an unused frame */
} cr_program_steps;

/* A graph that is run repeatedly.
 * Invariant: if `of` is not NULL, the program has no steps; it runs the steps of `of` for its
 * own sizes. One that `varies` never runs. plans is only added to, under `lock`. */
struct cr_program {
    _Atomic int32_t holders;
    cr_program *of; /* the program for all sizes whose plan it runs; NULL: its own */
    _Atomic(cr_sized_steps *) sizes; /* of a program for other sizes, by number of threads */
    cr_scalar *value;                /* the numbers of its sizes, or NULL */
    bool varies;                     /* only a source of programs for other sizes; never runs */
    cr_gvarying_dims varying;
    cr_gsizes *types;   /* types of `g` for other sizes */
    size_t numbers;     /* count for a choice of sizes */
    const cr_graph *g;  /* the graph that runs */
    cr_graph *own;      /* `g` if the program owns it, or NULL */
    cr_session session; /* of `own` */
    cr_compiled *code;
    unsigned how;                      /* cr_how */
    bool layouts;                      /* plans depend on the number of threads */
    pthread_mutex_t lock;              /* held while a plan is made */
    _Atomic(cr_program_steps *) plans; /* newest first; they live as long as the program */
};

/* The plan for the calling thread; makes it at first use. */
CR_MUST cr_status cr_program_plan(cr_program_steps **out, cr_program *p);
/* The number of threads of the calling thread's plan (cr_program_steps.threads), and the plan
 * for a number.  The caller holds the program's lock. */
int cr_program_threads(const cr_program *p);
CR_MUST cr_status cr_program_plan_for(cr_program_steps **out, cr_program *p, int threads);
/* The plan and the sizes of a program for other sizes, for the calling thread. */
CR_MUST cr_status cr_program_sizes(const cr_sized_steps **out, cr_program *p);

/* The type of output k if its strides may differ from a computed tensor's in dims of size 1;
 * else NULL. */
const cr_gtype *cr_shown_type(const cr_graph *g, uint32_t k);

/* Moves steps with large results down to their first readers; bails. */
void cr_program_order(cr_program_steps *p);
/* Keeps blocked layouts between convolutions, and packed weights; bails. */
void cr_program_layouts(cr_program_steps *p);
/* Replaces products by steps that cache a copy of the weight; bails. */
void cr_program_products(cr_program_steps *p);
/* True if cr_program_layouts may change the plan. */
bool cr_has_layouts(const cr_graph *g);
/* Replaces calls by VIEW steps where types determine the geometry; bails. */
void cr_program_views(cr_program_steps *p);
/* The strides of the type, if a view may depend on strides in dims of one element; else
 * NULL. */
const int64_t *cr_assumed_strides(cr_session *s, const cr_gtype *from);
/* Moves steps whose results are copied back to inputs to the copies, where they write the
 * inputs; bails. */
void cr_program_back(cr_program_steps *p);
/* True if the step's result may overwrite its argument k; the result of a copy may be the
 * argument itself. */
bool cr_step_may_overwrite(const cr_step *s, uint32_t k);
/* True if both types are known and are one. */
bool cr_same_types(const cr_gtype *a, const cr_gtype *b);
/* Finds lifetimes, slots, reuse and the peak; bails. */
void cr_program_lives(cr_program_steps *p);

/* All of a list. */
void cr_sized_steps_drop(cr_sized_steps *z);

/* The data of a varying program from which programs for other sizes are made (resize.c). */
CR_MUST cr_status cr_resizer_new(struct cr_resizer **out, const cr_program *p,
                                 const cr_program_steps *plan);
void cr_resizer_drop(struct cr_resizer *x);

/* The value that has the slot of `v`. */
static inline cr_gvalue *cr_program_value(const cr_program_steps *p, cr_gvalue *v)
{
    while (v->id < p->g->values && p->value.stands_for[v->id])
        v = p->value.stands_for[v->id];
    return v;
}

/* --- cr_own steps; they belong to the plan, and making them bails --- */
void cr_program_own(cr_program_steps *p, cr_own *own);
void cr_own_drop(cr_own *own); /* all of a list */
/* Pointwise nodes over blocked tensors. */
typedef struct {
    cr_gnode *const *node; /* in order; each has one result */
    size_t nodes;
    cr_gvalue **read; /* values of the plan */
    int reads;
    cr_gvalue *const *made; /* the results of nodes that are results of the step */
    int results;
    const cr_gtype *space; /* [N, C, ...] */
    int64_t block;
} cr_blocked_work;
/* How an operand broadcasts to a blocked space: one value an element, a channel, or for all;
 * OTHER: no blocked kernel reads it. */
typedef enum {
    CR_BLOCKED_FULL,
    CR_BLOCKED_PER_CHANNEL,
    CR_BLOCKED_SCALAR,
    CR_BLOCKED_OTHER
} cr_blocked_operand;
cr_blocked_operand cr_blocked_operand_of(const cr_gtype *space, const cr_gtype *in);
/* NULL if there are no tiles for the nodes. */
cr_own *cr_blocked_new(cr_program_steps *p, const cr_blocked_work *w);

#endif
