/* autograd.h - the tape.
 *
 * A tensor that requires a gradient is a leaf or has a node.  A node computes the cotangents of
 * its operation's inputs from the cotangents of its results.  Nodes have a refcount.  Backward
 * runs in the calling thread, newest node first, without recursion.
 *
 * cr_backward runs without the Python lock.  It takes the Python lock around kinds and hooks
 * marked `python` (cr_lock_python), and never while it holds a lock of the library. */
#ifndef CR_AUTOGRAD_AUTOGRAD_H
#define CR_AUTOGRAD_AUTOGRAD_H

#include "tensor/tensor.h"

typedef struct cr_node cr_node;

/* The destination of a cotangent: result `input` of `node`'s operation. */
typedef struct {
    cr_node *node; /* a reference; NULL when no gradient is needed */
    uint32_t input;
} cr_edge;

/* The behaviour of a kind of node. */
typedef struct {
    const char *name; /* "AddBackward0"; NULL: the name is name_of() */
    const char *(*name_of)(cr_node *n);
    /* Computes the cotangents of the edges from those of the node's results (borrowed; some may
     * be NULL).  grads_out[i] is NULL at first and owned by the caller afterwards, also on
     * failure.  The engine sums a cotangent to the edge's shape and converts it to the edge's
     * dtype. */
    cr_status (*apply)(cr_node *n, cr_tensor *const *grads, cr_tensor **grads_out);
    /* drops saved values; called by backward without retain_graph and before free; may be
     * called twice */
    void (*release)(cr_node *n);
    /* Adds to the tangents of the results (out, NULL at first) those that follow from the
     * tangents of the edges (borrowed; some are NULL), recorded.  NULL: cr_node_pull does so by
     * `apply`. */
    cr_status (*push)(cr_node *n, cr_tensor *const *tangents, cr_tensor **out);
    void (*free)(cr_node *n); /* frees further fields of the kind; may be NULL */
    bool python;              /* the functions need the Python lock */
    bool joined; /* One node stands for a whole program, so it has edges to inputs that a result
                  * does not depend on; the engine follows only edges with gradients. */
} cr_node_kind;

/* Shape, dtype and device of one result of the forward operation.  Gradients are converted to
 * them. */
typedef struct {
    int64_t *size; /* `dims`, or an allocated block */
    uint8_t ndim, dtype;
    cr_device device;
    bool known; /* set by cr_set_history */
    int64_t dims[4];
} cr_node_result;

struct cr_node {
    _Atomic int32_t count;
    uint32_t edge_count, result_count;
    uint32_t bytes; /* of the node's block */
    const cr_node_kind *kind;
    uint64_t sequence; /* order of creation; the engine takes the newest first */
    cr_edge *edges;
    cr_node_result *results;
    struct cr_node_extra *extra; /* hooks, forward stack; NULL until needed */
    void *peer; /* Python's node object (py/bind), borrowed; it holds a reference */
    /* The fields of the kind follow. */
};

/* How a view was made.  This decides whether the view may be changed in place. */
typedef enum {
    CR_VIEW_NORMAL,
    CR_VIEW_NO_GRAD,   /* made under no_grad */
    CR_VIEW_INFERENCE, /* made in inference mode from a normal tensor */
    CR_VIEW_MULTIPLE,  /* one of several results */
    CR_VIEW_FUNCTION   /* made inside a custom Function */
} cr_view_kind;

/* A tensor's autograd slot. */
struct cr_grad_meta {
    cr_node *grad_fn;  /* NULL for a leaf; call cr_grad_fn to read it */
    uint32_t output;   /* index of this tensor among grad_fn's results */
    uint8_t view_kind; /* cr_view_kind */
    bool retains_grad;
    bool any_grad_dtype; /* reserved: .grad may have another dtype */
    cr_tensor *grad;     /* .grad */
    cr_node *accumulate; /* the node of a leaf, which lives as long as the tensor */
    /* a reference; never a view itself; NULL when this tensor is not a tracked view */
    cr_tensor *base;
    uint32_t view_version; /* the base's version when grad_fn was made */
};

/* Installs the autograd stage and the slot functions.  Call after cr_tensor_start; further
 * calls do nothing. */
CR_MUST cr_status cr_autograd_start(void);

/* --- tensors --- */
/* The flag of `t`, or of its base when `t` is a view. */
static inline bool cr_requires_grad(const cr_tensor *t)
{
    return t->requires_grad || (t->grad && t->grad->base && t->grad->base->requires_grad);
}
/* Fails with torch's errors for non-leaves, dtypes and inference tensors: CR_RUNTIME. */
CR_API CR_MUST cr_status cr_set_requires_grad(cr_tensor *t, bool on);
/* True when no recorded operation made `t`.  Refreshes grad_fn of a view first, and returns
 * true when that runs out of memory. */
CR_API bool cr_is_leaf(cr_tensor *t);
/* The node of `t`, borrowed; NULL for a leaf.  When the base of a view was changed in place,
 * grad_fn is refreshed first.  Fails with CR_RUNTIME when it cannot be refreshed (one of
 * several views, made under no_grad, ...). */
CR_MUST cr_status cr_grad_fn(cr_node **out, cr_tensor *t);
/* The edge for `t` as an input: its grad_fn; or its accumulate node when `t` is a leaf that
 * requires a gradient; or NULL.  The caller owns the reference in the edge. */
CR_MUST cr_status cr_edge_of(cr_edge *out, cr_tensor *t);
static inline cr_tensor *cr_grad_of(const cr_tensor *t) /* .grad, borrowed; may be NULL */
{
    return t->grad ? t->grad->grad : NULL;
}
/* Sets .grad and holds a reference on `grad`; NULL clears it.  Fails with torch's errors. */
CR_API CR_MUST cr_status cr_set_grad(cr_tensor *t, cr_tensor *grad);
CR_API CR_MUST cr_status cr_retain_grad(cr_tensor *t);
/* True when __torch_dispatch__ of a class or mode handles calls with `t`. */
bool cr_goes_to_python(cr_tensor *t);
/* detach(): makes an alias without history that shares the version. */
CR_MUST cr_status cr_detached(cr_tensor **out, cr_tensor *t);
CR_MUST cr_status cr_detach_inplace(cr_tensor *t);
/* The base of a tracked view (borrowed), or NULL: `_base`. */
static inline cr_tensor *cr_base_of(const cr_tensor *t)
{
    return t->grad ? t->grad->base : NULL;
}
/* Tracks `view` as a view of `of` or of its base.  Does nothing when `view` is tracked
 * already. */
CR_MUST cr_status cr_track_view(cr_tensor *view, cr_tensor *of, cr_view_kind kind);
/* Changes the kind of a tracked view. */
static inline void cr_set_view_kind(cr_tensor *t, cr_view_kind kind)
{
    if (cr_base_of(t))
        t->grad->view_kind = (uint8_t)kind;
}
/* `_version`.  Fails for inference tensors. */
CR_MUST cr_status cr_version(uint32_t *out, const cr_tensor *t);

/* Makes `t` result `output` of `node` and holds a reference on the node.  `t` then requires a
 * gradient. */
CR_MUST cr_status cr_set_history(cr_tensor *t, cr_node *node, uint32_t output);
/* Gives `t`, which has no history, that of an alias of `of`, but makes it no view of `of`: it
 * may be changed in place where `of` is a leaf. */
CR_MUST cr_status cr_continue_history(cr_tensor *t, cr_tensor *of);
/* Checks that `t` may be changed in place (leaf, view and inference rules).  Call it before the
 * write.  `recorded`: grad mode is on and an argument requires a gradient. */
CR_MUST cr_status cr_check_inplace(cr_tensor *t, bool recorded);
/* Makes `t`, after an in-place write, result `output` of `node`.  When `t` is a view, its base
 * gets a new history.  The node must already have its edge to the earlier history of `t`. */
CR_MUST cr_status cr_rebase_history(cr_tensor *t, cr_node *node, uint32_t output);

/* --- nodes --- */
cr_node *cr_node_keep(cr_node *n);
void cr_node_drop(cr_node *n); /* iterative: a chain of any length */
/* Makes a node of `size` bytes (zeroed after struct cr_node) with `edges` empty edges and
 * `results` results.  The caller fills the edges with cr_edge_of. */
CR_MUST cr_status cr_node_new(cr_node **out, size_t size, const cr_node_kind *kind,
                              uint32_t edges, uint32_t results);
const char *cr_node_name(cr_node *n);
/* Prepares an entry that cr_ops_add added for calls. */
CR_MUST cr_status cr_derivative_plan_add(const cr_op *op);
/* The `sequence` that the thread's next node will have. */
uint64_t cr_node_next_sequence(void);
/* The leaf of an accumulate node, borrowed; NULL for other nodes. */
cr_tensor *cr_node_variable(const cr_node *n);
/* Zeros for the cotangent of result `i`, whose shape must be known. */
CR_MUST cr_status cr_node_zeros(cr_tensor **out, const cr_node *n, uint32_t i);
/* During apply: true when the running backward needs the gradient of edge `i`. */
bool cr_edge_wanted(const cr_node *n, uint32_t i);
/* During apply: gives the gradient of edge `i` to a leaf before apply returns, and runs the
 * leaf's hooks, so that calls between ranks begin.  It does so only where the leaf waits for
 * this gradient alone, has no .grad, and each hook of it is `early`; then *grad is NULL
 * afterwards and apply leaves the edge's gradient out.  Else nothing happens. */
CR_MUST cr_status cr_backward_give_early(const cr_node *n, uint32_t i, cr_tensor **grad);
/* Saved value `i` of an operator's node, for `_saved_NAME`.  *name is NULL after the last.  A
 * tensor in *out is owned.  Fails with CR_RUNTIME when the values were released. */
CR_MUST cr_status cr_node_saved(const char **name, cr_value *out, cr_node *n, int i);
/* Number of results that an operator's node has saved over the storage. */
int cr_node_results_over(const cr_node *n, const cr_storage *s);

/* *out: true when a backward from `t` would need saved values that were released. */
CR_MUST cr_status cr_history_is_released(bool *out, cr_tensor *t);
/* Gives `t`, which has no history, one whose saved values were released.  `name`: of its node,
 * copied. */
CR_MUST cr_status cr_set_released_history(cr_tensor *t, const char *name);

/* --- values kept for backward --- */
/* Custom Functions and formula nodes save their tensors with these. */
typedef struct {
    cr_tensor *tensor; /* a result is stored without history, to avoid a cycle with its node */
    uint32_t version, output;
    bool is_result;
    uint8_t state;
    void *packed; /* the object that a saved-tensor hook made from the tensor */
} cr_saved;
/* Saves `t`, which may be NULL.  `is_result`: `t` is a result of the node that will own
 * `out`. */
CR_MUST cr_status cr_save(cr_saved *out, cr_tensor *t, bool is_result);
/* Checks the version and returns the tensor (owned; NULL when NULL was saved).  `node` owns
 * `s`. */
CR_MUST cr_status cr_saved_get(cr_tensor **out, const cr_saved *s, cr_node *node);
void cr_saved_drop(cr_saved *s);
/* Fails with the error of a second backward.  For kinds whose values were released. */
cr_status cr_fail_released(void);

/* torch.autograd.graph.saved_tensors_hooks: a stack for each thread, innermost first.  The
 * functions take the Python lock themselves.  `h` must outlive the objects that it packed. */
typedef struct cr_saved_hooks {
    cr_status (*pack)(void *context, cr_tensor *t, void **packed);
    cr_status (*unpack)(void *packed, cr_tensor **out); /* *out is owned */
    void (*drop)(void *packed);
    void *context;
    struct cr_saved_hooks *outer; /* set by cr_saved_hooks_push */
} cr_saved_hooks;
void cr_saved_hooks_push(cr_saved_hooks *h);
void cr_saved_hooks_pop(void);
bool cr_saved_hooks_active(void);

/* --- autocast: per thread and device --- */
bool cr_autocast_on(cr_device_kind device);
CR_MUST cr_status cr_autocast_set(cr_device_kind device, bool on);
/* The lower precision: the dtype that was set; default bfloat16, on CUDA float16. */
cr_dtype cr_autocast_dtype(cr_device_kind device);
CR_MUST cr_status cr_autocast_set_dtype(cr_device_kind device, cr_dtype dtype);
/* True when converted weights are cached.  The cache lasts until cr_autocast_clear. */
bool cr_autocast_caches(void);
CR_MUST cr_status cr_autocast_set_caches(bool on);
void cr_autocast_clear(void);
/* Adds `by` to the number of open autocasts.  *depth is the new number. */
CR_MUST cr_status cr_autocast_nest(int by, int *depth);

/* --- hooks --- */
/* Tensor hooks and node pre-hooks: `grads` are the incoming cotangents.  A hook replaces an
 * entry by dropping it and storing an owned tensor.  Post hooks: `grads` are the outgoing
 * gradients and `given` the incoming cotangents.  Accumulate hooks: grads[0] is the leaf, which
 * must not be replaced. */
typedef cr_status (*cr_grad_hook)(void *context, cr_tensor **grads, int n,
                                  cr_tensor *const *given, int given_n);
typedef struct cr_hook cr_hook; /* a handle with a refcount */
typedef struct {
    cr_grad_hook fn;
    void *context;
    /* called once, when the hook is removed or its node is freed; may be NULL */
    void (*drop)(void *context);
    bool python; /* fn and drop need the Python lock */
    /* Of an accumulate hook: true while `fn` changes neither the leaf nor its gradient and
     * runs no code of the program, so that it may run while the node that made the gradient
     * still computes; NULL: never. */
    bool (*early)(const void *context);
} cr_hook_call;

/* *out is the handle for removal, owned.  `out` may be NULL when the hook is never removed. */
CR_MUST cr_status cr_hook_tensor(cr_hook **out, cr_tensor *t, const cr_hook_call *call);
CR_MUST cr_status cr_hook_accumulated(cr_hook **out, cr_tensor *t, const cr_hook_call *call);
CR_MUST cr_status cr_hook_before(cr_hook **out, cr_node *n, const cr_hook_call *call);
CR_MUST cr_status cr_hook_after(cr_hook **out, cr_node *n, const cr_hook_call *call);
/* The context of a node's hook with this function, before or after the node; NULL: none. */
void *cr_hook_find(const cr_node *n, bool after, cr_grad_hook fn);
/* True when a backward pass that reaches the leaf `t` calls a hook; false for other tensors. */
bool cr_leaf_has_hooks(const cr_tensor *t);
void cr_hook_remove(cr_hook *h); /* further calls do nothing */
void cr_hook_drop(cr_hook *h);   /* drops the handle; the hook stays */

/* Makes a tensor without elements whose history is the edge, for the roots and inputs of
 * backward; for the node of a leaf, the leaf. */
CR_MUST cr_status cr_edge_tensor(cr_tensor **out, const cr_edge *edge);

/* --- backward --- */
/* Runs backward from `roots` with the cotangents `grads`.  A NULL cotangent means ones and is
 * allowed for roots with one element.  Without `inputs` the gradients are added to .grad of the
 * leaves.  With `inputs` they are stored in *results: owned entries, NULL where an input is
 * unused and `allow_unused` is set. */
typedef struct {
    cr_tensor *const *roots;
    cr_tensor *const *grads; /* may be NULL */
    int root_count;
    cr_tensor *const *inputs; /* NULL: accumulate into leaves */
    int input_count;
    bool accumulate_inputs; /* backward(inputs=...): add to .grad of these inputs only */
    bool retain_graph, create_graph, allow_unused;
} cr_backward_call;
CR_API CR_MUST cr_status cr_backward(const cr_backward_call *call, cr_tensor **results);

/* --- forward mode --- */
/* Computes the tangents of `roots` from those of `inputs`, recorded.  The tangents of results
 * that are inputs do not depend on others.  out[i] is owned; NULL: no input leads to it. */
typedef struct {
    cr_tensor *const *roots, *const *inputs, *const *tangents;
    int root_count, input_count;
    /* Called for each leaf that the run makes to differentiate by; may be NULL. */
    cr_status (*leaf)(void *context, cr_tensor *leaf);
    void *context;
} cr_push_call;
CR_MUST cr_status cr_push_tangents(const cr_push_call *call, cr_tensor **out);
/* For `push`: adds `t` (ownership taken, also on failure) to the tangent of result `k`, unless
 * it is NULL or the result has no shape. */
CR_MUST cr_status cr_tangent_add(cr_tensor **out, cr_node *n, uint32_t k, cr_tensor *t);
/* How derivative `d` of an entry gives tangents (autograd/forward.h), in a word, and the name
 * of its parameter; NULL after the last. */
const char *cr_push_way(const cr_op *op, int d, const char **param);
/* Number `i` of the entries some of whose derivatives needed cr_node_pull since the start, and
 * for how many nodes; NULL after the last. */
const cr_op *cr_pulled_at(int i, uint64_t *count);
/* While this is true, nodes also save the values that their tangents need, because the program
 * may ask for tangents of recorded calls. */
extern _Atomic bool cr_forward_mode;

/* Runs `fn` when the outermost backward of the calling thread has applied all nodes; its
 * failure is that backward's.  CR_RUNTIME outside of a backward. */
CR_MUST cr_status cr_backward_at_end(cr_status (*fn)(void *context), void *context);

/* Facts about the innermost running backward of the calling thread: its number, which no other
 * run has (-1 outside a backward); whether `n` takes part; whether gradients go into leaves
 * rather than to inputs. */
int64_t cr_backward_number(void);
bool cr_backward_reaches(const cr_node *n);
bool cr_backward_accumulates(void);
/* True when nodes keep their saved values (retain_graph). */
bool cr_backward_retains(void);

/* Sets anomaly mode for the whole process: nodes record where they were made, and with
 * `check_nan` gradients are checked for NaN. */
void cr_anomaly_set(bool on, bool check_nan);
bool cr_anomaly_on(void);
bool cr_anomaly_checks_nan(void);

/* Functions that py/ sets; NULL in C programs. */
/* A hook runs on the calling thread. */
extern void (*cr_hook_runs)(void);
/* `t`, which has a Python object, got another grad_fn.  Hooks added later belong to the new
 * node; earlier hooks stay with the old node. */
extern void (*cr_history_changed)(cr_tensor *t);
extern void (*cr_lock_python)(void);
extern void (*cr_unlock_python)(void);
/* Anomaly mode: records where a node is made (owned, opaque); prints the record as a warning
 * when the named node fails; frees the record.  The functions take the Python lock
 * themselves. */
extern void *(*cr_anomaly_record)(void);
extern void (*cr_anomaly_report)(void *record, const char *node_name);
extern void (*cr_anomaly_free)(void *record);

#endif
