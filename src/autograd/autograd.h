/* autograd.h - the tape.
 *
 * A tensor that requires a gradient either is a leaf, or has a node that knows
 * how to turn its cotangent into its inputs' cotangents.  Nodes are counted;
 * backward runs in the calling thread, newest node first, without recursion.
 *
 * cr_backward runs without the Python lock.  The lock is taken around kinds and
 * hooks marked `python` (cr_lock_python), never while a lock of ours is held. */
#ifndef CR_AUTOGRAD_AUTOGRAD_H
#define CR_AUTOGRAD_AUTOGRAD_H

#include "tensor/tensor.h"

typedef struct cr_node cr_node;

/* Where a cotangent goes: input number `input` of `node`, which is result `input` of
 * the forward operation. */
typedef struct {
    cr_node *node; /* counted; NULL: no gradient wanted */
    uint32_t input;
} cr_edge;

/* What a kind of node does. */
typedef struct {
    const char *name; /* "AddBackward0"; NULL: asks name_of */
    const char *(*name_of)(cr_node *n);
    /* Cotangents of the node's results (some NULL, borrowed) to those of its edges.
     * grads_out[i] starts NULL and is owned by the caller afterwards, on failure too.
     * The engine sums to the edge's shape and converts to its dtype. */
    cr_status (*apply)(cr_node *n, cr_tensor *const *grads, cr_tensor **grads_out);
    void (*release)(cr_node *n); /* drops saved values; called by backward without
                                    retain_graph and before free; may be called twice */
    void (*free)(cr_node *n);    /* frees what the kind added to the node; may be NULL */
    bool python;                 /* all of these are called with the Python lock held */
} cr_node_kind;

/* What is known of one result of the forward operation: gradients are brought to it. */
typedef struct {
    int64_t *size; /* dims, or a block of its own */
    uint8_t ndim, dtype, device;
    bool known;    /* set by cr_set_history */
    int64_t dims[4];
} cr_node_result;

struct cr_node {
    _Atomic int32_t count;
    uint32_t edge_count, result_count;
    uint32_t bytes;    /* of the block, for its return */
    const cr_node_kind *kind;
    uint64_t sequence; /* order of making; the engine takes the newest first */
    cr_edge *edges;
    cr_node_result *results;
    struct cr_node_extra *extra; /* hooks, forward stack; NULL until needed */
    void *peer;        /* Python's node object, see py/bind: borrowed, it holds a count */
    /* The kind's own fields follow. */
};

/* How a view came to be, which decides whether it may be changed in place. */
typedef enum {
    CR_VIEW_NORMAL,
    CR_VIEW_NO_GRAD,   /* made under no_grad */
    CR_VIEW_INFERENCE, /* made in inference mode from a normal tensor */
    CR_VIEW_MULTIPLE,  /* one of several results */
    CR_VIEW_FUNCTION   /* made inside a custom Function */
} cr_view_kind;

/* A tensor's autograd slot. */
struct cr_grad_meta {
    cr_node *grad_fn;      /* NULL for a leaf; read it with cr_grad_fn */
    uint32_t output;       /* which result of grad_fn this tensor is */
    uint8_t view_kind;     /* cr_view_kind */
    bool retains_grad;
    bool any_grad_dtype;   /* reserved: .grad may have another dtype */
    cr_tensor *grad;       /* .grad */
    cr_node *accumulate;   /* a leaf's node; lives as long as the tensor */
    cr_tensor *base;       /* counted, never itself a view; NULL: not a tracked view */
    uint32_t view_version; /* base version when grad_fn was made */
};

/* Installs the autograd stage and the slot functions; after cr_tensor_start; idempotent. */
CR_MUST cr_status cr_autograd_start(void);

/* --- tensors --- */
/* Own flag, or that of the base when `t` is a view. */
static inline bool cr_requires_grad(const cr_tensor *t)
{
    return t->requires_grad || (t->grad && t->grad->base && t->grad->base->requires_grad);
}
/* Torch's errors for non-leaves, dtypes, inference tensors: CR_RUNTIME. */
CR_API CR_MUST cr_status cr_set_requires_grad(cr_tensor *t, bool on);
/* Not the result of a recorded operation.  Views are refreshed first, so this may fail
 * to allocate; it then answers true. */
CR_API bool cr_is_leaf(cr_tensor *t);
/* The node behind `t` (borrowed): grad_fn, refreshed when the base of a view was
 * changed in place; NULL for a leaf.  CR_RUNTIME when such a view has no history that
 * could be refreshed (one of several views, made under no_grad, ...). */
CR_MUST cr_status cr_grad_fn(cr_node **out, cr_tensor *t);
/* Edge for `t` as an input: its grad_fn, or its accumulate node when it is a leaf that
 * requires a gradient, or NULL (counted). */
CR_MUST cr_status cr_edge_of(cr_edge *out, cr_tensor *t);
static inline cr_tensor *cr_grad_of(const cr_tensor *t) /* .grad, borrowed; may be NULL */
{
    return t->grad ? t->grad->grad : NULL;
}
/* .grad = grad (counted; NULL clears).  Checks in torch's words. */
CR_API CR_MUST cr_status cr_set_grad(cr_tensor *t, cr_tensor *grad);
CR_API CR_MUST cr_status cr_retain_grad(cr_tensor *t);
/* detach(): an alias without history, version shared. */
CR_MUST cr_status cr_detached(cr_tensor **out, cr_tensor *t);
CR_MUST cr_status cr_detach_inplace(cr_tensor *t);
/* The tensor that `t` is a tracked view of (borrowed), or NULL: `_base`. */
static inline cr_tensor *cr_base_of(const cr_tensor *t)
{
    return t->grad ? t->grad->base : NULL;
}
/* Tracks `view` as a view of `of` (or of its base); nothing when it is one already. */
CR_MUST cr_status cr_track_view(cr_tensor *view, cr_tensor *of, cr_view_kind kind);
/* For a tracked view: how it came to be, from now on. */
static inline void cr_set_view_kind(cr_tensor *t, cr_view_kind kind)
{
    if (cr_base_of(t))
        t->grad->view_kind = (uint8_t)kind;
}
/* `_version`; fails for inference tensors. */
CR_MUST cr_status cr_version(uint32_t *out, const cr_tensor *t);

/* Makes `t` result `output` of `node` (counted), which then requires a gradient. */
CR_MUST cr_status cr_set_history(cr_tensor *t, cr_node *node, uint32_t output);
/* In-place: checks that `t` may be changed (leaf, view, inference rules).  Call it before
 * writing; `recorded`: the change will be recorded (grad mode on, something requires it). */
CR_MUST cr_status cr_check_inplace(cr_tensor *t, bool recorded);
/* In-place: `t` now is result `output` of `node`; the base is rebased when `t` is a view.
 * The node's edge to what `t` was before must already be there. */
CR_MUST cr_status cr_rebase_history(cr_tensor *t, cr_node *node, uint32_t output);

/* --- nodes --- */
cr_node *cr_node_keep(cr_node *n);
void cr_node_drop(cr_node *n); /* iterative: a chain of any length */
/* A node of `size` bytes in all (zeroed after struct cr_node) with room for `edges` edges
 * (empty) and `results` results.  The caller fills the edges with cr_edge_of. */
CR_MUST cr_status cr_node_new(cr_node **out, size_t size, const cr_node_kind *kind,
                              uint32_t edges, uint32_t results);
const char *cr_node_name(cr_node *n);
/* The leaf of an accumulate node (borrowed), else NULL. */
cr_tensor *cr_node_variable(const cr_node *n);
/* A zero cotangent for result `i`, which must be known. */
CR_MUST cr_status cr_node_zeros(cr_tensor **out, const cr_node *n, uint32_t i);
/* During apply: whether the running backward wants the gradient of edge `i`. */
bool cr_edge_wanted(const cr_node *n, uint32_t i);
/* Saved value number `i` of an operator's node, for `_saved_NAME`: *name is NULL past the
 * last.  *out is owned when it is a tensor.  CR_RUNTIME once released. */
CR_MUST cr_status cr_node_saved(const char **name, cr_value *out, cr_node *n, int i);

/* Whether a backward pass from `t` would find saved values that another one has released. */
CR_MUST cr_status cr_history_is_released(bool *out, cr_tensor *t);

/* --- values kept for backward --- */
/* A custom Function saves its tensors with these; formula nodes do the same. */
typedef struct {
    cr_tensor *tensor; /* a result: without history, so that its node is not kept by itself */
    uint32_t version, output;
    bool is_result;
    uint8_t state;
    void *packed;      /* what saved-tensor hooks made of it */
} cr_saved;
/* `t` may be NULL.  `is_result`: `t` is a result of the node that will own `out`. */
CR_MUST cr_status cr_save(cr_saved *out, cr_tensor *t, bool is_result);
/* The tensor (owned; NULL if NULL was saved), after the version check.  `node` owns `s`. */
CR_MUST cr_status cr_saved_get(cr_tensor **out, const cr_saved *s, cr_node *node);
void cr_saved_drop(cr_saved *s);
/* The error of a second backward, for kinds that find their values released. */
cr_status cr_fail_released(void);

/* torch.autograd.graph.saved_tensors_hooks: per thread, innermost first.  The functions
 * take the Python lock themselves.  `h` must outlive what was packed with it. */
typedef struct cr_saved_hooks {
    cr_status (*pack)(void *context, cr_tensor *t, void **packed);
    cr_status (*unpack)(void *packed, cr_tensor **out); /* owned */
    void (*drop)(void *packed);
    void *context;
    struct cr_saved_hooks *outer; /* set by push */
} cr_saved_hooks;
void cr_saved_hooks_push(cr_saved_hooks *h);
void cr_saved_hooks_pop(void);
bool cr_saved_hooks_active(void);

/* --- autocast: per thread and device --- */
bool cr_autocast_on(cr_device_kind device);
CR_MUST cr_status cr_autocast_set(cr_device_kind device, bool on);
/* The lower precision: what was set, else bfloat16, on CUDA float16. */
cr_dtype cr_autocast_dtype(cr_device_kind device);
CR_MUST cr_status cr_autocast_set_dtype(cr_device_kind device, cr_dtype dtype);
/* Whether converted weights are kept; they are until cr_autocast_clear. */
bool cr_autocast_caches(void);
CR_MUST cr_status cr_autocast_set_caches(bool on);
void cr_autocast_clear(void);
/* Adds `by` to the number of autocasts that are open and says how many are. */
CR_MUST cr_status cr_autocast_nest(int by, int *depth);

/* --- hooks --- */
/* Tensor and node pre-hooks: `grads` are the cotangents coming in; an entry may be replaced
 * (drop the old, store an owned one).  Post hooks: `grads` are the gradients going out and
 * `given` the cotangents that came in.  Accumulate hooks: grads[0] is the leaf, not to be
 * replaced. */
typedef cr_status (*cr_grad_hook)(void *context, cr_tensor **grads, int n,
                                  cr_tensor *const *given, int given_n);
typedef struct cr_hook cr_hook; /* a counted handle */
typedef struct {
    cr_grad_hook fn;
    void *context;
    void (*drop)(void *context); /* called once, when removed or when its node goes; or NULL */
    bool python;                 /* fn and drop are called with the Python lock held */
} cr_hook_call;

/* `out`, the handle for removal, is owned; NULL when it is never removed. */
CR_MUST cr_status cr_hook_tensor(cr_hook **out, cr_tensor *t, const cr_hook_call *call);
CR_MUST cr_status cr_hook_accumulated(cr_hook **out, cr_tensor *t, const cr_hook_call *call);
CR_MUST cr_status cr_hook_before(cr_hook **out, cr_node *n, const cr_hook_call *call);
CR_MUST cr_status cr_hook_after(cr_hook **out, cr_node *n, const cr_hook_call *call);
void cr_hook_remove(cr_hook *h); /* harmless when done already */
void cr_hook_drop(cr_hook *h);   /* the handle only; the hook stays */

/* --- backward --- */
/* From `roots` with cotangents (NULL entries: ones, for single elements).
 * With `inputs`, their gradients go to *results (owned array entries, NULL where
 * unused and `allow_unused`), otherwise into .grad of the leaves. */
typedef struct {
    cr_tensor *const *roots;
    cr_tensor *const *grads; /* may be NULL */
    int root_count;
    cr_tensor *const *inputs; /* NULL: accumulate into leaves */
    int input_count;
    bool accumulate_inputs;   /* backward(inputs=...): into .grad of these only */
    bool retain_graph, create_graph, allow_unused;
} cr_backward_call;
CR_API CR_MUST cr_status cr_backward(const cr_backward_call *call, cr_tensor **results);

/* Of the innermost backward that runs in the calling thread: a number no other run has, -1
 * outside; whether a node takes part; whether its gradients go into leaves, not to inputs. */
int64_t cr_backward_number(void);
bool cr_backward_reaches(const cr_node *n);
bool cr_backward_accumulates(void);
/* Whether nodes keep what they saved (retain_graph). */
bool cr_backward_retains(void);

/* Anomaly mode, whole process: nodes record where they were made, and gradients are
 * searched for NaN when `check_nan`. */
void cr_anomaly_set(bool on, bool check_nan);
bool cr_anomaly_on(void);
bool cr_anomaly_checks_nan(void);

/* Set by py/; NULL in C programs. */
/* `t`, which has a peer, got another grad_fn: hooks that are added from now on belong to it,
 * and those added before stay with the old one. */
extern void (*cr_history_changed)(cr_tensor *t);
extern void (*cr_lock_python)(void);
extern void (*cr_unlock_python)(void);
/* Anomaly mode: where a node is made (owned, opaque); prints it as a warning when the
 * node named fails; frees it.  They take the lock themselves. */
extern void *(*cr_anomaly_record)(void);
extern void (*cr_anomaly_report)(void *record, const char *node_name);
extern void (*cr_anomaly_free)(void *record);

#endif
