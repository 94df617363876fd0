/* autograd_impl.h - what the files of this room share. */
#ifndef CR_AUTOGRAD_IMPL_H
#define CR_AUTOGRAD_IMPL_H

#include "autograd/autograd.h"

#define CR_AUTOGRAD_BIT CR_STAGE_BIT(AUTOGRAD)

/* Floating-point and complex dtypes come after all others (num/dtype.def). */
static inline bool cr_is_inexact(const cr_tensor *t) { return t->dtype >= CR_F16; }

static inline bool cr_recording(void) { return !cr_thread.no_grad && !cr_thread.inference; }

extern _Atomic bool cr_anomaly_flag;
static inline bool cr_anomaly(void)
{
    return atomic_load_explicit(&cr_anomaly_flag, memory_order_relaxed);
}

/* --- pool.c: blocks for nodes and slots, kept by each thread --- */
void *cr_grad_pool_get(size_t bytes); /* undefined; NULL with a record */
void cr_grad_pool_put(void *p, size_t bytes);
CR_MUST cr_status cr_grad_pool_start(void);

/* --- node.c --- */
struct cr_hook {
    _Atomic int32_t count;
    struct cr_hook *next;
    cr_hook_call call; /* fn NULL: removed */
    uint32_t output;   /* tensor hooks: of which result */
};
/* A tensor that wants the cotangent of a result in its .grad. */
typedef struct cr_retain {
    struct cr_retain *next;
    cr_tensor *tensor; /* borrowed; its slot's end removes the entry */
    cr_grad_meta *meta;
    uint32_t output;
} cr_retain;
struct cr_node_extra {
    cr_hook *tensor_hooks, *before, *after, *accumulated;
    cr_retain *retains;
    void *made_at; /* anomaly mode */
};
/* A node whose edges are empty and whose fields beyond struct cr_node are undefined. */
CR_MUST cr_status cr_node_make(cr_node **out, size_t size, const cr_node_kind *kind,
                               uint32_t edges, uint32_t results);
CR_MUST cr_status cr_node_extra_of(struct cr_node_extra **out, cr_node *n);
/* Calls release and free of the kind under the right lock, then returns the block. */
void cr_node_destroy(cr_node *n);
/* "Add" for AddBackward0, "Sum1" for SumBackward1: as torch names nodes inside messages. */
void cr_node_short_name(char *out, size_t size, cr_node *n);
CR_MUST cr_status cr_node_result_set(cr_node_result *r, const cr_tensor *t);

/* --- autocast.c --- */
void cr_autocast_start(void);

/* --- meta.c --- */
CR_MUST cr_status cr_meta_of(cr_grad_meta **out, cr_tensor *t);
/* As cr_set_history for a tensor without one, but takes over one count of `node`, on
 * success only. */
CR_MUST cr_status cr_set_history_take(cr_tensor *t, cr_node *node, uint32_t output);
CR_MUST cr_status cr_accumulate_of(cr_node **out, cr_tensor *t); /* borrowed */
/* Puts `t` (taken) into .grad and returns what was there (owned). */
cr_tensor *cr_exchange_grad(cr_grad_meta *m, cr_tensor *t);
/* Adds the cotangents that retain_grad asked for into .grad. */
CR_MUST cr_status cr_run_retains(cr_node *n, cr_tensor *const *grads);

/* --- accumulate.c --- */
typedef struct {
    cr_node node;
    cr_tensor *variable; /* borrowed: the tensor holds the node; a count of the node is a
                            count of the tensor */
} cr_accumulate;
extern const cr_node_kind cr_accumulate_kind;
/* A gradient that nobody else sees: may be changed or adopted. */
bool cr_is_sole(const cr_tensor *t);
/* Fresh memory with the strides of `like` (row-major when that has gaps); recorded when
 * grad mode is on. */
CR_MUST cr_status cr_clone_like(cr_tensor **out, cr_tensor *t, const cr_tensor *like);

/* --- layout.c: a view and its base as two layouts over one block --- */
typedef struct {
    uint8_t ndim, dtype, device;
    int64_t offset; /* elements of dtype from the storage's start */
    int64_t *size, *stride;
} cr_layout;
CR_MUST cr_status cr_layout_of(cr_layout *out, const cr_tensor *t);
void cr_layout_drop(cr_layout *l);
/* A copy of `t` (shape and dtype of base) in the base's layout, and the view over it. */
CR_MUST cr_status cr_layout_spread(cr_tensor **out, cr_tensor **view_out, cr_tensor *t,
                                   const cr_layout *base, const cr_layout *view);
/* Zeros in the layout of base, with `t` added where the view looks. */
CR_MUST cr_status cr_layout_scatter(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                    const cr_layout *view);
/* Node of a view over `base` (edge counted by the node); `name`: see cr_view_node. */
CR_MUST cr_status cr_layout_node(cr_node **out, cr_tensor *base, const cr_tensor *view,
                                 const char *name);
/* The same over result 0 of `to`. */
CR_MUST cr_status cr_layout_node_of(cr_node **out, cr_node *to, const cr_layout *base,
                                    const cr_layout *view);
/* Both maps, recorded when grad mode is on and `t` requires a gradient. */
CR_MUST cr_status cr_layout_gather_recorded(cr_tensor **out, cr_tensor *t,
                                            const cr_layout *base, const cr_layout *view);
CR_MUST cr_status cr_layout_scatter_recorded(cr_tensor **out, cr_tensor *t,
                                             const cr_layout *base, const cr_layout *view);

/* --- view.c --- */
/* As cr_set_history, for a saved result that `node` reads back: when the node changed a view
 * in place, the result is that view of what CopySlices made. */
bool cr_changes_view(const cr_node *node); /* it is being applied for such a change */
CR_MUST cr_status cr_set_result_history(cr_tensor *t, cr_node *node, uint32_t output);
/* Brings grad_fn of a view up to date with its base. */
CR_MUST cr_status cr_refresh_view(cr_tensor *t);

/* --- bring.c --- */
/* What a gradient shall look like; size is borrowed. */
typedef struct {
    const int64_t *size;
    uint8_t ndim, dtype, device;
} cr_target;
/* Of the tensor behind an edge; false when its shape is not known. */
bool cr_target_of(cr_target *out, const cr_edge *edge);
/* Replaces *grad (owned) by one of the target's shape and dtype.  `from` (may be NULL) and
 * `index` are for the message. */
CR_MUST cr_status cr_bring(cr_tensor **grad, const cr_target *to, cr_node *from,
                           uint32_t index);
static inline bool cr_same_sizes(const cr_tensor *t, int ndim, const int64_t *size)
{
    if (t->ndim != ndim)
        return false;
    for (int i = 0; i < ndim; i++)
        if (t->size[i] != size[i])
            return false;
    return true;
}
CR_MUST cr_status cr_zero_tensor(cr_tensor **out, cr_dtype dtype, int device, int ndim,
                           const int64_t *size);

/* --- calls.c: operators that backward itself needs, through every stage --- */
CR_MUST cr_status cr_call_add(cr_tensor **out, cr_tensor *a, cr_tensor *b);
CR_MUST cr_status cr_call_add_inplace(cr_tensor *a, cr_tensor *b);
CR_MUST cr_status cr_call_unary(cr_tensor **out, const char *name, cr_tensor *a);
CR_MUST cr_status cr_call_where(cr_tensor **out, cr_tensor *mask, cr_tensor *a, cr_tensor *b);
CR_MUST cr_status cr_call_cast(cr_tensor **out, cr_tensor *t, cr_dtype dtype);

/* --- plan.c: what a derivative needs, found once for each entry --- */
typedef struct {
    uint64_t values; /* slots whose values the formula reads */
    uint64_t shapes; /* slots of which it reads sizes and dtype only */
    uint32_t cotangents; /* bit k: it reads the cotangent of result k */
    uint8_t param;   /* the input it is for */
    const cr_rule *rule;
} cr_need;
/* The slots that some of an entry's derivatives read together. */
typedef struct {
    uint64_t values, shapes; /* disjoint */
    uint32_t count;          /* of both */
} cr_reads;
enum { CR_READS = 8 }; /* subsets of the first three derivatives */
typedef struct {
    cr_node_kind kind; /* first: a node's kind leads to its plan */
    const cr_op *op;   /* the functional entry */
    char *name;
    bool lists;        /* some input of a derivative is a list */
    bool list_result;  /* the result is a list */
    bool views;        /* results may share memory with an argument */
    bool no_history;   /* a tensor that requires a gradient is refused */
    int8_t written;    /* the parameter that result 0 is, or -1 */
    cr_reads reads[CR_READS]; /* by the bits of the derivatives */
    cr_call_fn kernel_stage; /* views: the entry's own, behind the one that tracks */
    uint8_t count;
    cr_need need[];
} cr_plan;
extern cr_plan **cr_plans; /* by index of the record; in-place forms share their entry's */
CR_MUST cr_status cr_plans_start(cr_status (*apply)(cr_node *, cr_tensor *const *,
                                                    cr_tensor **),
                                 void (*release)(cr_node *));
static inline const cr_plan *cr_plan_of(const cr_op *op)
{
    return cr_plans[op->index];
}
cr_reads cr_plan_reads(const cr_plan *p, uint32_t wanted);

/* --- formula.c: nodes that evaluate derivatives from the table --- */
/* A node with its edges and the saved arguments; bit d of `wanted`: derivative d. */
CR_MUST cr_status cr_formula_new(cr_node **out, const cr_plan *plan, const cr_value *arg,
                                 uint32_t wanted);
/* Saves result `k`, which has its history already. */
CR_MUST cr_status cr_formula_save_result(cr_node *n, int k, const cr_value *result);
/* Room for the results of a list, known only after the call. */
CR_MUST cr_status cr_node_set_results(cr_node *n, uint32_t count);
/* Whether values that the node saved are released; false of nodes of other kinds. */
bool cr_formula_is_released(const cr_node *n);
/* Clause `node`, evaluated: what the node of such an entry is called. */
const char *cr_formula_name(cr_node *n);
CR_MUST cr_status cr_formula_start(void);

/* --- record.c --- */
CR_MUST cr_status cr_record_start(void);

/* --- hook.c: running them --- */
CR_MUST cr_status cr_run_tensor_hooks(cr_node *n, cr_tensor **grads);
CR_MUST cr_status cr_run_before(cr_node *n, cr_tensor **grads);
CR_MUST cr_status cr_run_after(cr_node *n, cr_tensor **out, cr_tensor *const *given);
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
