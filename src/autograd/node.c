/* Nodes: creation, refcounts, names.
 *
 * A node is one block: the kind's structure, then edges, then result records.  Freeing a long
 * chain recursively would overflow the stack, so nodes to be freed are put in a list of the
 * thread and freed one after the other.
 *
 * A reference on an accumulate node is a reference on its tensor.  The tensor owns the node, so
 * neither outlives the other and there is no cycle. */
#include "autograd/autograd_impl.h"
#include "base/map.h"
#include <stdio.h>
#include <string.h>

void (*cr_lock_python)(void);
void (*cr_unlock_python)(void);

static CR_THREAD uint64_t made; /* creation order; compared within a thread only */

uint64_t cr_node_next_sequence(void) { return made; }
static CR_THREAD cr_node *dying;
static CR_THREAD bool reaping;

static size_t align8(size_t n) { return (n + 7) & ~(size_t)7; }

static void note_place(cr_node *n)
{
    struct cr_node_extra *extra;

    if (cr_anomaly_record && !cr_node_extra_of(&extra, n))
        extra->made_at = cr_anomaly_record();
}

cr_status cr_node_make(cr_node **out, size_t size, const cr_node_kind *kind, uint32_t edges,
                       uint32_t results)
{
    size_t at_edges = align8(size), at_results = at_edges + edges * sizeof(cr_edge);
    size_t bytes = at_results + results * sizeof(cr_node_result);
    cr_node *n = cr_grad_pool_get(bytes);

    CR_NEED(n);
    atomic_init(&n->count, 1);
    n->kind = kind;
    n->bytes = (uint32_t)bytes;
    n->sequence = made++;
    n->edge_count = edges;
    n->result_count = results;
    n->edges = (cr_edge *)((char *)n + at_edges);
    n->results = (cr_node_result *)((char *)n + at_results);
    n->extra = NULL;
    n->peer = NULL;
    for (uint32_t i = 0; i < edges; i++)
        n->edges[i] = (cr_edge){0};
    for (uint32_t i = 0; i < results; i++)
        n->results[i].size = NULL, n->results[i].known = false;
    if (CR_UNLIKELY(cr_anomaly()))
        note_place(n);
    *out = n;
    return CR_OK;
}

cr_status cr_node_new(cr_node **out, size_t size, const cr_node_kind *kind, uint32_t edges,
                      uint32_t results)
{
    CR_TRY(cr_node_make(out, size, kind, edges, results));
    memset(*out + 1, 0, size - sizeof **out);
    return CR_OK;
}

cr_status cr_node_set_results(cr_node *n, uint32_t count)
{
    CR_ASSERT(!n->result_count);
    n->results = cr_alloc_zero(count * sizeof *n->results);
    CR_NEED(n->results);
    n->result_count = count;
    return CR_OK;
}

static bool results_apart(const cr_node *n)
{
    return (char *)n->results < (char *)n || (char *)n->results > (char *)n + n->bytes;
}

cr_status cr_node_extra_of(struct cr_node_extra **out, cr_node *n)
{
    if (!n->extra) {
        n->extra = cr_alloc_zero(sizeof *n->extra);
        CR_NEED(n->extra);
    }
    *out = n->extra;
    return CR_OK;
}

cr_status cr_node_result_set(cr_node_result *r, const cr_tensor *t)
{
    int64_t *size = r->dims;

    if (CR_UNLIKELY(t->ndim > CR_LEN(r->dims))) {
        size = cr_alloc(t->ndim * sizeof *size);
        CR_NEED(size);
    }
    if (CR_UNLIKELY(r->size && r->size != r->dims))
        cr_free(r->size);
    r->size = size;
    for (int i = 0; i < t->ndim; i++)
        size[i] = t->size[i];
    r->ndim = t->ndim;
    r->dtype = t->dtype;
    r->device = cr_device_beside(t);
    r->known = true;
    return CR_OK;
}

static void extra_drop(struct cr_node_extra *e)
{
    cr_hooks_drop(e->tensor_hooks);
    cr_hooks_drop(e->before);
    cr_hooks_drop(e->after);
    cr_hooks_drop(e->accumulated);
    while (e->retains) {
        cr_retain *r = e->retains;
        e->retains = r->next;
        cr_free(r);
    }
    if (e->made_at && cr_anomaly_free)
        cr_anomaly_free(e->made_at);
    cr_free(e);
}

void cr_node_destroy(cr_node *n)
{
    bool python = n->kind->python;

    cr_lock(python);
    if (n->kind->release)
        n->kind->release(n);
    if (n->kind->free)
        n->kind->free(n);
    cr_unlock(python);
    for (uint32_t i = 0; i < n->edge_count; i++)
        cr_node_drop(n->edges[i].node);
    for (uint32_t i = 0; i < n->result_count; i++)
        if (n->results[i].size && n->results[i].size != n->results[i].dims)
            cr_free(n->results[i].size);
    if (results_apart(n))
        cr_free(n->results);
    if (n->extra)
        extra_drop(n->extra);
    cr_grad_pool_put(n, n->bytes);
}

static void reap(void)
{
    reaping = true;
    while (dying) {
        cr_node *n = dying;
        dying = n->peer;
        n->peer = NULL;
        cr_node_destroy(n);
    }
    reaping = false;
}

cr_node *cr_node_keep(cr_node *n)
{
    if (!n)
        return NULL;
    if (n->kind == &cr_accumulate_kind)
        cr_keep(((cr_accumulate *)n)->variable);
    else
        atomic_fetch_add_explicit(&n->count, 1, memory_order_relaxed);
    return n;
}

void cr_node_drop(cr_node *n)
{
    if (!n)
        return;
    if (n->kind == &cr_accumulate_kind) {
        cr_drop(((cr_accumulate *)n)->variable);
        return;
    }
    /* A refcount of one means that no other thread has a reference. */
    if (atomic_load_explicit(&n->count, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&n->count, 1, memory_order_acq_rel) != 1)
        return;
    n->peer = dying; /* peer is unused here: a peer would hold a reference */
    dying = n;
    if (!reaping)
        reap();
}

const char *cr_node_name(cr_node *n)
{
    return n->kind->name ? n->kind->name : n->kind->name_of(n);
}

void cr_node_short_name(char *out, size_t size, cr_node *n)
{
    const char *name = cr_node_name(n);
    char *at = NULL;

    /* CopyBackwards and CopySlices have whole names */
    snprintf(out, size, "%s%s", strncmp(name, "Copy", 4) ? "" : "torch::autograd::", name);
    for (char *next = out; (next = strstr(next, "Backward")); next++)
        at = next;
    if (!at)
        return;
    const char *number = at + 8;
    if (number[strspn(number, "0123456789")])
        return;
    if (!strcmp(number, "0"))
        number = "";
    memmove(at, number, strlen(number) + 1);
}

cr_tensor *cr_node_variable(const cr_node *n)
{
    return n->kind == &cr_accumulate_kind ? ((const cr_accumulate *)n)->variable : NULL;
}

cr_status cr_node_zeros(cr_tensor **out, const cr_node *n, uint32_t i)
{
    const cr_node_result *r = &n->results[i];

    CR_ASSERT(r->known);
    return cr_filled_tensor(out, r->dtype, r->device, r->ndim, r->size, cr_scalar_int(0));
}

/* --- nodes that a node can reach --- */

typedef struct {
    cr_map met; /* visited nodes, by address */
    CR_VEC(const cr_node *) left;
} search;

static cr_status search_meet(search *x, const cr_node *n)
{
    if (!n || cr_map_get(&x->met, (const char *)&n, sizeof n))
        return CR_OK;
    CR_TRY(cr_map_set(&x->met, (const char *)&n, sizeof n, x));
    CR_TRY(cr_vec_reserve(&x->left, 1));
    cr_vec_put(&x->left, n);
    return CR_OK;
}

cr_status cr_history_is_released(bool *out, cr_tensor *t)
{
    search x = {0};
    cr_node *start = NULL;
    cr_status st = cr_grad_fn(&start, t);

    *out = false;
    st = st ? st : search_meet(&x, start);
    while (!st && x.left.len && !*out) {
        const cr_node *n = x.left.at[--x.left.len];
        *out = cr_formula_is_released(n) || cr_node_is_released(n);
        for (uint32_t i = 0; !st && i < n->edge_count; i++)
            st = search_meet(&x, n->edges[i].node);
    }
    cr_map_drop(&x.met);
    cr_vec_drop(&x.left);
    return st;
}
