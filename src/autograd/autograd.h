/* autograd.h - the tape.
 *
 * A tensor that requires a gradient either is a leaf, or has a node that knows
 * how to turn its cotangent into its inputs' cotangents.  Nodes are counted;
 * backward runs in the calling thread, newest node first, without recursion. */
#ifndef CR_AUTOGRAD_AUTOGRAD_H
#define CR_AUTOGRAD_AUTOGRAD_H

#include "tensor/tensor.h"

typedef struct cr_node cr_node;

/* Where a cotangent goes: input number `input` of `node`. */
typedef struct {
    cr_node *node; /* counted; NULL: no gradient wanted */
    uint32_t input;
} cr_edge;

/* What a kind of node does. */
typedef struct {
    const char *name; /* "AddBackward0"; NULL: asks name_of */
    const char *(*name_of)(cr_node *n);
    /* Cotangents of the node's outputs (some NULL) to those of its edges; grads_out[i]
     * starts NULL and is owned by the caller afterwards. */
    cr_status (*apply)(cr_node *n, cr_tensor *const *grads, cr_tensor **grads_out);
    void (*release)(cr_node *n); /* drops saved values; called by backward without
                                    retain_graph and before free; may be called twice */
    void (*free)(cr_node *n);    /* frees what the kind added to the node */
} cr_node_kind;

/* Called with (context, gradients); may replace gradients in place (owned). */
typedef cr_status (*cr_grad_hook)(void *context, cr_tensor **grads, int n);
typedef struct cr_hook cr_hook;

struct cr_node {
    _Atomic int32_t count;
    const cr_node_kind *kind;
    uint64_t sequence; /* order of making; the engine takes the newest first */
    uint32_t edge_count, result_count;
    cr_edge *edges;
    void *peer;        /* Python's node object, see py/bind */
    cr_hook *pre_hooks, *post_hooks; /* on the cotangents in, on the gradients out */
    /* The kind's own fields follow. */
};

/* A tensor's autograd slot. */
struct cr_grad_meta {
    cr_node *grad_fn;      /* NULL for a leaf */
    uint32_t output;       /* which result of grad_fn this tensor is */
    cr_tensor *grad;       /* .grad */
    cr_node *accumulate;   /* a leaf's node: borrowed, it holds the tensor */
    cr_hook *hooks;        /* tensor hooks */
    bool retains_grad;
    /* A view that autograd tracks. */
    cr_tensor *base;       /* counted; NULL: not a view */
    cr_geometry *geometry; /* of the view over its base */
    uint32_t view_version; /* base version when grad_fn was made */
    bool view_no_grad;     /* made under no_grad: in-place changes are refused */
};

/* Installs the autograd stage and the slot functions. */
CR_MUST cr_status cr_autograd_start(void);

CR_MUST cr_status cr_set_requires_grad(cr_tensor *t, bool on);
bool cr_is_leaf(const cr_tensor *t);
/* The node behind `t` (borrowed): grad_fn, refreshed when the base of a view was
 * changed in place; NULL for a leaf.  Errors: CR_RUNTIME. */
CR_MUST cr_status cr_grad_fn(cr_node **out, cr_tensor *t);
/* Edge for `t` as an input: its grad_fn or its accumulate node (counted). */
CR_MUST cr_status cr_edge_of(cr_edge *out, cr_tensor *t);
cr_tensor *cr_grad_of(const cr_tensor *t); /* .grad, borrowed; may be NULL */
CR_MUST cr_status cr_set_grad(cr_tensor *t, cr_tensor *grad);
CR_MUST cr_status cr_retain_grad(cr_tensor *t);
/* detach(): a view without history, version shared. */
CR_MUST cr_status cr_detach(cr_tensor **out, cr_tensor *t);
/* Makes `t` the result `output` of `node`. */
CR_MUST cr_status cr_set_history(cr_tensor *t, cr_node *node, uint32_t output);
/* In-place: checks that `t` may be changed (leaf, view rules), to call before writing. */
CR_MUST cr_status cr_check_inplace(cr_tensor *t);
/* In-place: `t` now is result `output` of `node`; rebases the base when `t` is a view. */
CR_MUST cr_status cr_rebase_history(cr_tensor *t, cr_node *node, uint32_t output);

cr_node *cr_node_keep(cr_node *n);
void cr_node_drop(cr_node *n); /* iterative: a chain of any length */
/* A node of `size` bytes in all with room for `edges` edges. */
CR_MUST cr_status cr_node_new(cr_node **out, size_t size, const cr_node_kind *kind,
                              uint32_t edges, uint32_t results);
const char *cr_node_name(cr_node *n);

/* Hooks: return an id for removal. `drop(context)` when removed. */
CR_MUST cr_status cr_add_hook(cr_hook **list, cr_grad_hook fn, void *context,
                              void (*drop)(void *), uint64_t *id);
void cr_remove_hook(cr_hook **list, uint64_t id);

/* Backward from `roots` with cotangents (NULL entries: ones, for single elements).
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

/* Set by py/: take and give back the interpreter lock around Python nodes and hooks. */
extern void (*cr_lock_python)(void);
extern void (*cr_unlock_python)(void);

#endif
