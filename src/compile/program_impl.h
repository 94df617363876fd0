/* program_impl.h - what program.c makes, layout.c changes, plan.c completes and exec.c runs. */
#ifndef CR_COMPILE_PROGRAM_IMPL_H
#define CR_COMPILE_PROGRAM_IMPL_H

#include "compile/compile.h"
#include "compile/program.h"
#include "compile/sizes.h"
#include <pthread.h>

enum { CR_NO_SLOT = UINT32_MAX, CR_CALLS_ONLY = -1 };

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
    CR_STEP_VIEW,   /* a view whose sizes and strides are known; else a CALL */
    CR_STEP_OWN,    /* a function of our own: cr_own */
    CR_STEP_MOVE,   /* a second count of a tensor: result[0] = read[0] */
    CR_STEP_CHOOSE, /* goes to step `to` when read[0] is false */
    CR_STEP_JUMP,   /* goes to step `to` */
    CR_STEP_NONE    /* a place where tensors die */
} cr_step_kind;

struct cr_step;

/* A step that is neither an operator nor a group (layout.c): as a cr_gcode. */
typedef struct cr_own cr_own;
struct cr_own {
    cr_status (*run)(cr_own *own, cr_tensor *const *read, cr_tensor **output);
    void (*drop)(cr_own *own);
    /* The same for step `s` at other sizes, of which `kept` has the types; `own` outlives it.
     * CR_VALUE where the layouts are others.  NULL: it runs for all sizes. */
    cr_status (*resize)(cr_own **out, const cr_own *own, const struct cr_step *s,
                        const cr_kept_types *kept);
    const char *name;
    uint32_t overwrites;
    cr_own *next; /* of the plan */
};

/* A view of a tensor of type `from`; the offset counts from its first element. */
typedef struct {
    const cr_gtype *from;
    const int64_t *assumed; /* strides, where dims of one position may have others than types
                               tell; or NULL */
    int ndim;
    int64_t offset;
    const int64_t *size, *stride;
} cr_static_view;

/* A storage that the program makes, in steps counted from 0. */
typedef struct {
    int64_t bytes, born, dies;
    int holds; /* a storage that lives as long as this one: the result may be a view of it; or
                  -1 */
} cr_life;

typedef struct cr_step {
    uint8_t kind;
    bool tracked; /* CALL: through the autograd stage, which tracks views and checks writes */
    bool list_result; /* CALL: the results are the items of a Tensor[] */
    bool symbols;     /* CALL: an argument is a number of the run (graph/number.h) */
    uint16_t arg_count;
    int32_t reuse_read; /* the read whose tensor becomes result 0 when nobody else has it; -1:
                           none */
    uint32_t reads, results, patches, releases, list_room, deaths;
    size_t to;
    const cr_op *op;
    cr_value *arg; /* complete but for the patches */
    cr_patch *patch;
    const cr_gcode *code;
    cr_own *own;
    const cr_static_view *view;
    uint32_t *read;                  /* slots, once planned */
    uint32_t *result;                /* slots; CR_NO_SLOT: nobody reads it */
    uint32_t *release;               /* slots whose tensors are dropped afterwards */
    uint32_t *given, given_releases; /* inputs that are read here last: dropped when they are
                                        the run's own */
    /* for planning and printing */
    const cr_gnode *node;
    cr_gvalue **read_value; /* what is read, repetitions included */
    cr_gvalue **made_value;
    cr_gvalue **dies; /* values that are read here last */
    int64_t alive;    /* bytes of the program's tensors while the step runs */
} cr_step;

/* What of a step depends on sizes; a run reads it here. */
typedef struct {
    const cr_value *arg;
    const cr_gcode *code;
    const cr_static_view *view; /* of a VIEW; NULL: its operator is called */
    cr_own *own;                /* of an OWN */
    const cr_gtype *made; /* of result 0 where it takes over a tensor or is hosted; else NULL */
} cr_step_sizes;

/* All that depends on sizes in the steps of a plan. */
typedef struct cr_plan_sizes {
    cr_session session; /* empty: the plan's */
    const cr_gtype **input;
    cr_step_sizes *step;
    /* of a program for other sizes: */
    const cr_gtype **type; /* by class of the values (cr_gsizes) */
    cr_compiled *code;
    cr_own *own; /* all that are not the plan's */
    struct cr_plan *plan;
    int threads; /* that were asked for; the plan may be that of plain layouts */
    struct cr_plan_sizes *next;
} cr_plan_sizes;

/* The steps for one number of threads.  Slots: inputs and constants, which are borrowed, then
 * tensors that the program makes. */
typedef struct cr_plan {
    cr_session session;
    cr_session *s;     /* the same */
    const cr_graph *g; /* that is run */
    unsigned how;      /* cr_how */
    bool varies;       /* runs for other sizes than it was made for, too */
    /* Number of threads that the layouts are for.  0: plain layouts, for any number.
     * CR_CALLS_ONLY: operator calls only, because autocast has to see them. */
    int threads;
    struct cr_plan *next;
    struct {
        size_t len, cap;
        cr_step *at;
    } steps;
    cr_plan_sizes sizes; /* that it was made for */
    struct {
        size_t len, cap;
        cr_tensor **at;
    } constants; /* g's */
    struct {
        size_t len, cap;
        cr_gvalue **at;
    } constant_values;
    cr_own *own;                /* all of the steps' */
    struct cr_resizer *resizer; /* of a program that varies */
    unsigned values;            /* ids of values are below this */
    struct {
        size_t len, cap;
        cr_gvalue **at;
    } blocked; /* by id, from those of the graph on: of which the value is the twin in blocks */
    uint32_t inputs, first_made, slots, list_room, outputs;
    uint32_t operands; /* the most that a group reads and makes */
    cr_gvalue **output_value;
    uint32_t *output;   /* slots; CR_NO_SLOT: None */
    bool *output_moves; /* the output takes the slot's count */
    int64_t peak;
    size_t peak_at;         /* the step during which it is reached */
    int reused;             /* results that take over a dying tensor */
    cr_gvalue **stands_for; /* by id of g's values: the value whose slot it has, or NULL */
    _Atomic(void *) spare;  /* a frame that no run uses */
} cr_plan;

struct cr_program {
    _Atomic int32_t holders;
    cr_program *of; /* the program of other sizes whose plan is run; NULL: its own */
    _Atomic(cr_plan_sizes *)
        sizes;        /* of a program for other sizes: for each number of threads */
    cr_scalar *value; /* the numbers of its sizes, where there are such plans */
    bool varies;      /* programs for other sizes are made of it, and it is never run itself */
    cr_gvarying_dims varying;
    cr_gsizes *types;   /* of `g`, for other sizes */
    size_t numbers;     /* of a choice of sizes */
    const cr_graph *g;  /* that is run */
    cr_graph *own;      /* the same when the program made it, or NULL */
    cr_session session; /* of `own` */
    cr_compiled *code;
    unsigned how;             /* cr_how */
    bool layouts;             /* plans differ by the number of threads */
    pthread_mutex_t lock;     /* of making a plan */
    _Atomic(cr_plan *) plans; /* newest first; they stay until the program goes */
};

/* The plan for the calling thread, made when it is new. */
CR_MUST cr_status cr_program_plan(cr_plan **out, cr_program *p);
/* The number of threads that the calling thread's plan is for (cr_plan.threads), and that plan;
 * the caller has locked the program. */
int cr_program_threads(const cr_program *p);
CR_MUST cr_status cr_program_plan_for(cr_plan **out, cr_program *p, int threads);
/* The plan and the sizes of a program for other sizes, for the calling thread. */
CR_MUST cr_status cr_program_sizes(const cr_plan_sizes **out, cr_program *p);

/* Large results are made when they are read; bails. */
void cr_plan_order(cr_plan *p);
/* Steps that keep blocked layouts between convolutions, with weights packed once; bails. */
void cr_plan_layouts(cr_plan *p);
/* Products whose weights are copied once; bails. */
void cr_plan_products(cr_plan *p);
/* Whether cr_plan_layouts may find something. */
bool cr_has_layouts(const cr_graph *g);
/* Views whose geometry follows from the types; bails. */
void cr_plan_views(cr_plan *p);
/* The strides that a view of the type relies on beyond what types tell; NULL: none. */
const int64_t *cr_assumed_strides(cr_session *s, const cr_gtype *from);
/* Liveness, slots, reuse and the peak; bails. */
void cr_plan_lives(cr_plan *p);

/* All of a list. */
void cr_plan_sizes_drop(cr_plan_sizes *z);

/* What programs for other sizes need of a program that varies (resize.c). */
CR_MUST cr_status cr_resizer_new(struct cr_resizer **out, const cr_program *p,
                                 const cr_plan *plan);
void cr_resizer_drop(struct cr_resizer *x);

/* The value whose slot `v` has. */
static inline cr_gvalue *cr_plan_value(const cr_plan *p, cr_gvalue *v)
{
    while (v->id < p->g->values && p->stands_for[v->id])
        v = p->stands_for[v->id];
    return v;
}

/* --- steps of our own; each bails, and belongs to the plan --- */
void cr_plan_own(cr_plan *p, cr_own *own);
void cr_own_drop(cr_own *own); /* all of a list */
/* Pointwise nodes over blocked tensors. */
typedef struct {
    cr_gnode *const *node; /* in order; every one has one result */
    size_t nodes;
    cr_gvalue **read; /* of the plan */
    int reads;
    cr_gvalue *const *made; /* results of nodes that are results of the step */
    int results;
    const cr_gtype *space; /* [N, C, ...] */
    int64_t block;
} cr_blocked_work;
/* How an operand lies over a blocked space. */
typedef enum {
    CR_LIES_OVER_ALL,
    CR_LIES_OVER_CHANNELS,
    CR_LIES_OVER_NOTHING,
    CR_LIES_NOWHERE
} cr_lies;
cr_lies cr_lies_over(const cr_gtype *space, const cr_gtype *in);
/* NULL: the nodes cannot be done. */
cr_own *cr_blocked_new(cr_plan *p, const cr_blocked_work *w);

#endif
