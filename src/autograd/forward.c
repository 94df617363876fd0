/* Forward mode: a walk along the recorded graph that sends tangents from inputs to results. */
#include "autograd/forward.h"
#include "entry.h"
#include "tensor/sparse.h"
#include "whole/whole.h"
#include <string.h>

_Atomic bool cr_forward_mode;

/* --- one tangent --- */
/* Sums the dims that the result has not, and those that it has with size 1. */
static cr_status without_excess(cr_tensor **t, const cr_node_result *to)
{
    int64_t size[CR_MAX_DIMS];
    int n = (*t)->ndim < to->ndim ? (*t)->ndim : to->ndim;
    cr_tensor *made;

    for (int i = 0; i < n; i++) {
        size[n - 1 - i] = (*t)->size[(*t)->ndim - 1 - i];
        if (to->size[to->ndim - 1 - i] == 1)
            size[n - 1 - i] = 1;
    }
    if (cr_has_sizes(*t, n, size))
        return CR_OK;
    CR_TRY(cr_reduce_to_size(&made, *t, n, size));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

static cr_status expanded(cr_tensor **t, const cr_node_result *to)
{
    cr_value arg[] = {cr_of_tensor(*t), cr_of_ints(to->size, to->ndim), cr_of_bool(false)};
    cr_tensor *made;

    CR_TRY(cr_call_tensor(&made, cr_entry.expand, arg, CR_LEN(arg)));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

static cr_status tangent_bring(cr_tensor **t, cr_node *n, uint32_t k)
{
    const cr_node_result *r = &n->results[k];
    cr_target to = {r->size, r->ndim, r->dtype, r->device};

    if (!cr_has_sizes(*t, r->ndim, r->size)) {
        CR_TRY(without_excess(t, r));
        if (!cr_has_sizes(*t, r->ndim, r->size))
            CR_TRY(expanded(t, r));
    }
    if (!cr_same_device((*t)->device, r->device))
        CR_TRY(cr_bring_to_device(t, &to)); /* copy_() took a source on another device */
    return cr_bring(t, &to, n, k);
}

cr_status cr_tangent_add(cr_tensor **out, cr_node *n, uint32_t k, cr_tensor *t)
{
    cr_tensor *sum;
    cr_status st = CR_OK;

    if (!t || !n->results[k].known) {
        cr_drop(t);
        return CR_OK;
    }
    st = tangent_bring(&t, n, k);
    if (st || !*out) {
        if (st)
            cr_drop(t);
        else
            *out = t;
        return st;
    }
    st = cr_call_add(&sum, *out, t);
    cr_drop(t);
    if (st)
        return st;
    cr_drop(*out);
    *out = sum;
    return CR_OK;
}

/* --- by two backward passes through one node --- */
typedef struct {
    uint32_t edges, results;
    cr_tensor **cotangent, **by; /* by result: a leaf of zeros, and an alias of it */
    cr_tensor **grad;            /* by edge */
    cr_tensor **root, **with, **input, **found;
    int root_count, input_count;
    uint32_t *input_result;
} pull;

/* The call that runs, for its function `leaf`. */
static CR_THREAD const cr_push_call *running;

static cr_status make_cotangents(pull *p, cr_node *n)
{
    for (uint32_t k = 0; k < p->results; k++) {
        const cr_node_result *r = &n->results[k];
        if (!r->known || !cr_dtype_is_inexact((cr_dtype)r->dtype))
            continue;
        CR_TRY(cr_node_zeros(&p->cotangent[k], n, k));
        CR_TRY(cr_set_requires_grad(p->cotangent[k], true));
        if (running && running->leaf)
            CR_TRY(running->leaf(running->context, p->cotangent[k]));
        /* Its node is younger than what the node saved, which the second pass need not
         * search. */
        CR_TRY(cr_call_unary(&p->by[k], cr_entry.alias, p->cotangent[k]));
    }
    return CR_OK;
}

static cr_status pull_gradients(pull *p, cr_node *n, cr_tensor *const *tangents)
{
    CR_TRY(cr_node_apply_for(n, tangents, p->by, p->grad));
    for (uint32_t i = 0; i < p->edges; i++) {
        cr_target to;
        if (!p->grad[i] || !tangents[i])
            continue;
        if (cr_target_of(&to, &n->edges[i]))
            CR_TRY(cr_bring(&p->grad[i], &to, n, i));
        if (!cr_requires_grad(p->grad[i]))
            continue;
        p->root[p->root_count] = p->grad[i];
        p->with[p->root_count++] = tangents[i];
    }
    for (uint32_t k = 0; k < p->results; k++)
        if (p->by[k]) {
            p->input_result[p->input_count] = k;
            p->input[p->input_count++] = p->by[k];
        }
    return CR_OK;
}

static cr_status push_cotangents(pull *p, cr_node *n, cr_tensor **out)
{
    cr_backward_call call = {.roots = p->root,
                             .grads = p->with,
                             .root_count = p->root_count,
                             .inputs = p->input,
                             .input_count = p->input_count,
                             .retain_graph = true,
                             .create_graph = true,
                             .allow_unused = true};

    if (!p->root_count || !p->input_count)
        return CR_OK;
    cr_status st = cr_backward_by_new(&call, p->found);
    for (int i = 0; i < p->input_count; i++) {
        uint32_t k = p->input_result[i];
        cr_tensor *t = p->found[i];
        p->found[i] = NULL;
        if (st)
            cr_drop(t);
        else
            st = cr_tangent_add(&out[k], n, k, t);
    }
    return st;
}

static void pull_drop(pull *p)
{
    for (uint32_t k = 0; k < p->results; k++) {
        cr_drop(p->by[k]);
        cr_drop(p->cotangent[k]);
    }
    for (uint32_t i = 0; i < p->edges; i++)
        cr_drop(p->grad[i]);
}

cr_status cr_node_pull(cr_node *n, cr_tensor *const *tangents, cr_tensor **out)
{
    pull p = {.edges = n->edge_count, .results = n->result_count};
    cr_arena a = {0};
    bool was = cr_thread.no_grad;
    cr_status st = CR_MEMORY;
    size_t edges = p.edges + 1, results = p.results + 1;
    cr_tensor **all = cr_arena_get(&a, (4 * results + 3 * edges) * sizeof *all);

    p.input_result = cr_arena_get(&a, results * sizeof *p.input_result);
    if (all && p.input_result) {
        memset(all, 0, (4 * results + 3 * edges) * sizeof *all);
        p.cotangent = all;
        p.by = all + results;
        p.input = all + 2 * results;
        p.found = all + 3 * results;
        p.grad = all + 4 * results;
        p.root = p.grad + edges;
        p.with = p.root + edges;
        cr_thread.no_grad = false;
        st = make_cotangents(&p, n);
        if (!st)
            st = pull_gradients(&p, n, tangents);
        if (!st)
            st = push_cotangents(&p, n, out);
        cr_thread.no_grad = was;
        pull_drop(&p);
    }
    cr_arena_drop(&a);
    return st;
}

/* --- the walk --- */
typedef struct {
    cr_node *node;
    cr_tensor *one, **many; /* tangents, by result: of a node with one, and with several */
    bool visited;
    uint64_t given; /* bits of results whose tangents are inputs; the last: all from there */
} walked;

typedef struct {
    uint32_t item, edge;
} walk_step;

typedef struct {
    CR_VEC(walked) items;
    CR_VEC(walk_step) path;
    CR_VEC(cr_tensor *) room; /* tangents of a node's edges */
    uint32_t *table;          /* open addressing: item + 1 */
    size_t table_size;
} walk;

static uint32_t *walk_place(const walk *w, const cr_node *n)
{
    uint64_t h = ((uint64_t)(uintptr_t)n >> 4) * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)(h >> 20) & (w->table_size - 1);

    while (w->table[i] && w->items.at[w->table[i] - 1].node != n)
        i = (i + 1) & (w->table_size - 1);
    return &w->table[i];
}

static cr_status walk_grow(walk *w)
{
    size_t size = w->table_size ? w->table_size * 4 : 64;
    uint32_t *table = cr_alloc_zero(size * sizeof *table);

    CR_NEED(table);
    cr_free(w->table);
    w->table = table;
    w->table_size = size;
    for (size_t i = 0; i < w->items.len; i++)
        *walk_place(w, w->items.at[i].node) = (uint32_t)i + 1;
    return CR_OK;
}

static cr_status walk_item(walk *w, cr_node *n, uint32_t *out)
{
    if (w->items.len * 2 >= w->table_size)
        CR_TRY(walk_grow(w));
    uint32_t *at = walk_place(w, n);
    if (!*at) {
        CR_TRY(cr_vec_reserve(&w->items, 1));
        cr_vec_put(&w->items, ((walked){.node = n}));
        *at = (uint32_t)w->items.len;
    }
    *out = *at - 1;
    return CR_OK;
}

static uint32_t slot_count(const cr_node *n) { return n->result_count ? n->result_count : 1; }

static cr_tensor **slots_of(walked *x) { return slot_count(x->node) == 1 ? &x->one : x->many; }

static cr_status need_slots(walked *x)
{
    if (slot_count(x->node) == 1 || x->many)
        return CR_OK;
    x->many = cr_alloc_zero(slot_count(x->node) * sizeof *x->many);
    CR_NEED(x->many);
    return CR_OK;
}

static bool is_given(const walked *x, uint32_t k)
{
    return k < 64 ? x->given >> k & 1 : x->given >> 63 && slots_of((walked *)x)[k];
}

static cr_status walk_give(walk *w, const cr_edge *edge, cr_tensor *tangent)
{
    uint32_t i, k = edge->input;

    CR_TRY(walk_item(w, edge->node, &i));
    walked *x = &w->items.at[i];
    if (k >= slot_count(edge->node))
        return CR_OK;
    CR_TRY(need_slots(x));
    cr_drop(slots_of(x)[k]);
    slots_of(x)[k] = cr_keep(tangent);
    x->given |= (uint64_t)1 << (k < 63 ? k : 63);
    return CR_OK;
}

/* The tangent of an edge's result, borrowed; NULL: none, or the node is not visited. */
static cr_tensor *walk_tangent(const walk *w, const cr_edge *edge)
{
    uint32_t at = edge->node ? *walk_place(w, edge->node) : 0;
    walked *x = at ? &w->items.at[at - 1] : NULL;
    cr_tensor **slots = x ? slots_of(x) : NULL;

    return slots && edge->input < slot_count(edge->node) ? slots[edge->input] : NULL;
}

static cr_status push_kind(cr_node *n, cr_tensor *const *tangents, cr_tensor **out)
{
    cr_lock(n->kind->python);
    cr_status st =
        n->kind->push ? n->kind->push(n, tangents, out) : cr_node_pull(n, tangents, out);
    cr_unlock(n->kind->python);
    return st;
}

/* Gives the results their tangents, but for those that have one. */
static cr_status keep_made(walked *x, cr_tensor **made)
{
    uint32_t n = slot_count(x->node);
    cr_status st = need_slots(x);

    for (uint32_t k = 0; k < n; k++) {
        if (!st && made[k] && !is_given(x, k)) {
            slots_of(x)[k] = made[k];
        } else {
            cr_drop(made[k]);
        }
    }
    return st;
}

static cr_status walk_push(walk *w, uint32_t item)
{
    cr_node *n = w->items.at[item].node;
    uint32_t results = slot_count(n);
    cr_tensor *one[1] = {NULL}, **made = one;
    bool any = false;

    w->room.len = 0;
    CR_TRY(cr_vec_reserve(&w->room, n->edge_count + 1));
    for (uint32_t i = 0; i < n->edge_count; i++) {
        cr_vec_put(&w->room, walk_tangent(w, &n->edges[i]));
        any |= w->room.at[i] != NULL;
    }
    if (!any)
        return CR_OK;
    if (results > 1) {
        made = cr_alloc_zero(results * sizeof *made);
        CR_NEED(made);
    }
    cr_status st = push_kind(n, w->room.at, made);
    if (!st)
        st = keep_made(&w->items.at[item], made);
    else
        for (uint32_t k = 0; k < results; k++)
            cr_drop(made[k]);
    if (made != one)
        cr_free(made);
    return st;
}

/* Follows an edge to a node that has not been visited, unless its result has a tangent. */
static cr_status walk_visit(walk *w, const cr_edge *edge)
{
    uint32_t i;

    if (!edge->node)
        return CR_OK;
    CR_TRY(walk_item(w, edge->node, &i));
    walked *x = &w->items.at[i];
    if (x->visited || is_given(x, edge->input))
        return CR_OK;
    x->visited = true;
    CR_TRY(cr_vec_reserve(&w->path, 1));
    cr_vec_put(&w->path, ((walk_step){i, 0}));
    return CR_OK;
}

static cr_status walk_from(walk *w, const cr_edge *root)
{
    CR_TRY(walk_visit(w, root));
    while (w->path.len) {
        walk_step *s = &w->path.at[w->path.len - 1];
        cr_node *n = w->items.at[s->item].node;
        if (s->edge < n->edge_count) {
            CR_TRY(walk_visit(w, &n->edges[s->edge++]));
            continue;
        }
        w->path.len--;
        CR_TRY(walk_push(w, s->item));
    }
    return CR_OK;
}

static void walk_drop(walk *w)
{
    for (size_t i = 0; i < w->items.len; i++) {
        walked *x = &w->items.at[i];
        for (uint32_t k = 0; slots_of(x) && k < slot_count(x->node); k++)
            cr_drop(slots_of(x)[k]);
        cr_free(x->many);
    }
    cr_vec_drop(&w->items);
    cr_vec_drop(&w->path);
    cr_vec_drop(&w->room);
    cr_free(w->table);
}

static cr_status give_inputs(walk *w, const cr_push_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        cr_edge edge = {0};
        CR_TRY(cr_edge_of(&edge, call->inputs[i]));
        cr_status st = edge.node ? walk_give(w, &edge, call->tangents[i]) : CR_OK;
        cr_node_drop(edge.node);
        CR_TRY(st);
    }
    return CR_OK;
}

/* Who may write the result may write its tangent: a broadcast one is copied. */
static cr_status without_overlap(cr_tensor **t, const cr_tensor *root)
{
    cr_value arg[] = {cr_of_tensor(*t), {.tag = CR_FORMAT_VAL, .i = CR_FORMAT_CONTIGUOUS}};
    cr_tensor *made;

    if (!*t || cr_is_sparse(*t) || cr_is_sparse(root) || !cr_has_internal_overlap(*t) ||
        cr_has_internal_overlap(root))
        return CR_OK;
    CR_TRY(cr_call_tensor(&made, cr_entry.clone, arg, CR_LEN(arg)));
    cr_drop(*t);
    *t = made;
    return CR_OK;
}

static cr_status forward_result(walk *w, cr_tensor *root, cr_tensor **out)
{
    cr_edge edge = {0};
    cr_status st;

    CR_TRY(cr_edge_of(&edge, root));
    st = edge.node ? walk_from(w, &edge) : CR_OK;
    if (!st && edge.node) {
        *out = cr_keep(walk_tangent(w, &edge));
        st = without_overlap(out, root);
    }
    cr_node_drop(edge.node);
    return st;
}

cr_status cr_push_tangents(const cr_push_call *call, cr_tensor **out)
{
    walk w = {.table = NULL};
    const cr_push_call *outer = running;
    bool was = cr_thread.no_grad;
    cr_status st = walk_grow(&w);

    for (int i = 0; i < call->root_count; i++)
        out[i] = NULL;
    cr_thread.no_grad = false;
    running = call;
    if (!st)
        st = give_inputs(&w, call);
    for (int i = 0; i < call->root_count && !st; i++)
        st = forward_result(&w, call->roots[i], &out[i]);
    running = outer;
    cr_thread.no_grad = was;
    for (int i = 0; i < call->root_count && st; i++) {
        cr_drop(out[i]);
        out[i] = NULL;
    }
    walk_drop(&w);
    return st;
}
