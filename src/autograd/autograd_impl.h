/* autograd_impl.h - shared by the files of this room. */
#ifndef CR_AUTOGRAD_IMPL_H
#define CR_AUTOGRAD_IMPL_H

#include "autograd/autograd.h"
#include "tensor/geometry.h"

#define CR_AUTOGRAD_BIT CR_STAGE_BIT(AUTOGRAD)

/* True for floating-point and complex dtypes. */
static inline bool cr_is_inexact(const cr_tensor *t)
{
    return cr_dtype_is_inexact((cr_dtype)t->dtype);
}

static inline bool cr_recording(void) { return !cr_thread.no_grad && !cr_thread.inference; }

extern _Atomic bool cr_anomaly_flag;
static inline bool cr_anomaly(void)
{
    return atomic_load_explicit(&cr_anomaly_flag, memory_order_relaxed);
}

/* --- pool.c: cached blocks for nodes and slots, one cache a thread --- */
void *cr_grad_pool_get(size_t bytes); /* undefined contents; NULL with a record */
void cr_grad_pool_put(void *p, size_t bytes);
CR_MUST cr_status cr_grad_pool_start(void);

/* --- node.c --- */
struct cr_hook {
    _Atomic int32_t count;
    struct cr_hook *next;
    cr_hook_call call; /* fn is NULL after removal */
    uint32_t output;   /* tensor hooks: index of the result */
};
/* A tensor whose .grad receives the cotangent of a result (retain_grad). */
typedef struct cr_retain {
    struct cr_retain *next;
    cr_tensor *tensor; /* borrowed; freeing the tensor's slot removes the entry */
    cr_grad_meta *meta;
    uint32_t output;
} cr_retain;
struct cr_node_extra {
    cr_hook *tensor_hooks, *before, *after, *accumulated;
    cr_retain *retains;
    void *made_at; /* anomaly mode: where the node was made */
};
/* Makes a node with empty edges.  The fields after struct cr_node are undefined. */
CR_MUST cr_status cr_node_make(cr_node **out, size_t size, const cr_node_kind *kind,
                               uint32_t edges, uint32_t results);
CR_MUST cr_status cr_node_extra_of(struct cr_node_extra **out, cr_node *n);
/* Calls release and free of the kind, with the Python lock if need be, and frees the node. */
void cr_node_destroy(cr_node *n);
/* "Add" for AddBackward0, "Sum1" for SumBackward1: torch's node names in messages. */
void cr_node_short_name(char *out, size_t size, cr_node *n);
CR_MUST cr_status cr_node_result_set(cr_node_result *r, const cr_tensor *t);

/* --- autocast.c --- */
void cr_autocast_start(void);

/* --- meta.c --- */
CR_MUST cr_status cr_meta_of(cr_grad_meta **out, cr_tensor *t);
/* As cr_set_history for a tensor without history, but takes ownership of one reference on
 * `node` when it succeeds. */
CR_MUST cr_status cr_set_history_take(cr_tensor *t, cr_node *node, uint32_t output);
CR_MUST cr_status cr_accumulate_of(cr_node **out, cr_tensor *t); /* borrowed */
/* Stores `t` (ownership taken) in .grad and returns the earlier .grad (owned). */
cr_tensor *cr_exchange_grad(cr_grad_meta *m, cr_tensor *t);
/* Adds cotangents to .grad of the tensors that called retain_grad. */
CR_MUST cr_status cr_run_retains(cr_node *n, cr_tensor *const *grads);

/* --- accumulate.c --- */
typedef struct {
    cr_node node;
    /* borrowed: the tensor owns the node, and a reference on the node is a reference on the
     * tensor */
    cr_tensor *variable;
} cr_accumulate;
/* Whether cr_set_released_history made the node. */
bool cr_node_is_released(const cr_node *n);
extern const cr_node_kind cr_accumulate_kind;
/* True when a gradient has no other owner, so that it may be changed or adopted. */
bool cr_is_sole(const cr_tensor *t);
/* Copies `t` to new memory with the strides of `like` (row-major when these have gaps).
 * Recorded when grad mode is on. */
CR_MUST cr_status cr_clone_like(cr_tensor **out, cr_tensor *t, const cr_tensor *like);

/* --- layout.c: a view and its base as two layouts of one block --- */
typedef struct {
    uint8_t ndim, dtype;
    bool conj, neg; /* the tensor's bits */
    cr_device device;
    int64_t offset; /* elements of `dtype` from the storage's start */
    int64_t *size, *stride;
} cr_layout;
CR_MUST cr_status cr_layout_of(cr_layout *out, const cr_tensor *t);
void cr_layout_drop(cr_layout *l);
/* Makes both layouts as tensors over one new block, which is zeroed when `zero` is set. */
CR_MUST cr_status cr_layout_pair(cr_tensor **b, cr_tensor **v, const cr_layout *base,
                                 const cr_layout *view, bool zero);
/* False only when each stride steps over all elements that the smaller strides span. */
bool cr_layout_may_overlap(int ndim, const int64_t *size, const int64_t *stride);
/* True for a tensor that wraps another one: a batch or a level of derivatives. */
static inline bool cr_only_wraps(const cr_tensor *t)
{
    return cr_is_dispatched(t) && !cr_has_elements(t);
}
/* True if gather and scatter of `t` have no bytes to copy, so that they are calls. */
static inline bool cr_layout_needs_calls(const cr_tensor *t, const cr_layout *base)
{
    return cr_only_wraps(t) || (base->device.fake && !t->device.fake);
}
/* True if calls are recorded, and gather and scatter of `t` with them where the layouts allow
 * it. */
static inline bool cr_layout_wants_calls(const cr_tensor *t)
{
    return cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(CAPTURE) && cr_has_elements(t);
}
/* layout_calls.c: gather and scatter by calls.  CR_RUNTIME where the view shows other memory
 * than the base's elements, or has another dtype. */
CR_MUST cr_status cr_layout_gather_called(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                          const cr_layout *view);
CR_MUST cr_status cr_layout_scatter_called(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                           const cr_layout *view);
/* Copies `t` (shape and dtype of the base) to the base's layout.  *view_out is the view of the
 * copy. */
CR_MUST cr_status cr_layout_spread(cr_tensor **out, cr_tensor **view_out, cr_tensor *t,
                                   const cr_layout *base, const cr_layout *view);
/* Zeros in the base's layout, with `t` added at the view's elements. */
CR_MUST cr_status cr_layout_scatter(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                    const cr_layout *view);
/* Makes the node of a view over `base` and holds an edge to the base's history.  `name`: see
 * cr_view_node. */
CR_MUST cr_status cr_layout_node(cr_node **out, cr_tensor *base, const cr_tensor *view,
                                 const char *name);
/* The same over a result of a node. */
CR_MUST cr_status cr_layout_node_of(cr_node **out, cr_edge to, const cr_layout *base,
                                    const cr_layout *view);
/* Gather and scatter, recorded when grad mode is on and `t` requires a gradient. */
CR_MUST cr_status cr_layout_gather_recorded(cr_tensor **out, cr_tensor *t,
                                            const cr_layout *base, const cr_layout *view);
CR_MUST cr_status cr_layout_scatter_recorded(cr_tensor **out, cr_tensor *t,
                                             const cr_layout *base, const cr_layout *view);

/* --- view.c --- */
/* As cr_set_history, for a saved result that `node` reads.  When the node changed a view in
 * place, the result becomes the view of CopySlices' result. */
bool cr_changes_view(const cr_node *node); /* true while `node` is applied for such a change */
CR_MUST cr_status cr_set_result_history(cr_tensor *t, cr_node *node, uint32_t output);
/* Refreshes grad_fn of a view after a change of its base. */
CR_MUST cr_status cr_refresh_view(cr_tensor *t);

/* --- bring.c --- */
/* The shape, dtype and device that a gradient must have; size is borrowed. */
typedef struct {
    const int64_t *size;
    uint8_t ndim, dtype;
    cr_device device;
} cr_target;
/* The target of an edge; false when its shape is not known. */
bool cr_target_of(cr_target *out, const cr_edge *edge);
/* Replaces *grad (owned) by a gradient with the target's shape and dtype.  `from` (may be NULL)
 * and `index` appear in error messages. */
CR_MUST cr_status cr_bring(cr_tensor **grad, const cr_target *to, cr_node *from,
                           uint32_t index);
/* Replaces *grad by a copy on the device of `to`. */
CR_MUST cr_status cr_bring_to_device(cr_tensor **grad, const cr_target *to);
/* A new contiguous tensor whose elements are `number`. */
CR_MUST cr_status cr_filled_tensor(cr_tensor **out, cr_dtype dtype, cr_device device, int ndim,
                                   const int64_t *size, cr_scalar number);

/* --- calls.c: operators that backward itself calls, through every stage --- */
CR_MUST cr_status cr_call_add(cr_tensor **out, cr_tensor *a, cr_tensor *b);
CR_MUST cr_status cr_call_add_inplace(cr_tensor *a, cr_tensor *b);
CR_MUST cr_status cr_call_unary(cr_tensor **out, const cr_op *op, cr_tensor *a);
CR_MUST cr_status cr_call_where(cr_tensor **out, cr_tensor *mask, cr_tensor *a, cr_tensor *b);
CR_MUST cr_status cr_call_cast(cr_tensor **out, cr_tensor *t, cr_dtype dtype);

/* --- plan.c: the values that a derivative needs, computed once for each entry --- */
typedef struct {
    uint64_t values;     /* slots whose values the formula reads */
    uint64_t shapes;     /* slots whose sizes and dtype the formula reads, but not the values */
    uint32_t cotangents; /* bit k: it reads the cotangent of result k */
    uint8_t param;       /* index of the input */
    const cr_rule *rule;
} cr_need;
/* The slots that a set of an entry's derivatives reads. */
typedef struct {
    uint64_t values, shapes; /* disjoint */
    uint32_t count;          /* number of slots in both */
} cr_reads;
enum { CR_READS = 8 }; /* one for each subset of the first three derivatives */
typedef struct {
    cr_node_kind kind; /* first member, so that a node's kind is its plan */
    const cr_op *op;   /* the functional entry */
    char *name;
    bool lists;               /* an input of a derivative is a list */
    bool list_result;         /* the result is a list */
    bool views;               /* results may share memory with an argument */
    bool no_history;          /* tensors that require a gradient are refused */
    uint32_t refused;         /* bits of parameters that must not require a gradient */
    int8_t written;           /* index of the parameter that result 0 is, or -1 */
    cr_reads reads[CR_READS]; /* indexed by the bits of the derivatives */
    /* for views: the entry's own kernel stage, which the tracking one replaced */
    cr_call_fn kernel_stage;
    uint8_t count;
    cr_need need[];
} cr_derivative_plan;
/* by the record's index; in-place forms share the plan of their entry */
extern cr_derivative_plan **cr_derivative_plans;
/* `kind`: the functions of the plans' nodes. */
CR_MUST cr_status cr_derivative_plans_start(const cr_node_kind *kind);
static inline const cr_derivative_plan *cr_derivative_plan_of(const cr_op *op)
{
    return cr_derivative_plans[op->index];
}
cr_reads cr_derivative_plan_reads(const cr_derivative_plan *p, uint32_t wanted);

/* --- formula.c: nodes that evaluate derivatives from the table --- */
/* Makes a node with its edges and the saved arguments.  Bit d of `wanted`: derivative d. */
CR_MUST cr_status cr_formula_new(cr_node **out, const cr_derivative_plan *plan,
                                 const cr_value *arg, uint32_t wanted);
/* Saves result `k`, whose history is already set. */
CR_MUST cr_status cr_formula_save_result(cr_node *n, int k, const cr_value *result);
/* Allocates the result records of a list result, whose length is known after the call. */
CR_MUST cr_status cr_node_set_results(cr_node *n, uint32_t count);
/* True when the node's saved values were released; false for nodes of other kinds. */
bool cr_formula_is_released(const cr_node *n);
/* Evaluates the entry's clause `node`, which gives the node's name. */
const char *cr_formula_name(cr_node *n);
CR_MUST cr_status cr_formula_start(void);

/* --- record.c --- */
CR_MUST cr_status cr_record_start(void);

/* --- hook.c: running hooks --- */
CR_MUST cr_status cr_run_tensor_hooks(cr_node *n, cr_tensor **grads);
CR_MUST cr_status cr_run_before(cr_node *n, cr_tensor **grads);
CR_MUST cr_status cr_run_after(cr_node *n, cr_tensor **out, cr_tensor *const *given);
/* True for a node that has hooks, all of which are `early` now. */
bool cr_hooks_are_early(const cr_node *n);
CR_MUST cr_status cr_run_accumulated(cr_node *n, cr_tensor *leaf);
void cr_hooks_drop(cr_hook *list);
static inline void cr_lock(bool python)
{
    if (python && cr_lock_python)
        cr_lock_python();
}
static inline void cr_unlock(bool python)
{
    if (python && cr_unlock_python)
        cr_unlock_python();
}

#endif
