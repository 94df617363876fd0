/* The plan of one backward.
 *
 * A walk from the roots finds the nodes and counts how many edges lead to each.  With inputs,
 * an earlier walk marks the nodes that lead to an input, and only these nodes take part.  Both
 * walks use an explicit stack.  A hash table over node addresses finds a node's item, so the
 * nodes are not written, which another thread's backward may be using. */
#include "autograd/task.h"
#include <string.h>

/* --- items --- */
static size_t task_place(const cr_task *t, const cr_node *n)
{
    uint64_t h = ((uint64_t)(uintptr_t)n >> 4) * UINT64_C(0x9E3779B97F4A7C15);

    return (size_t)(h >> 20) & (t->table_size - 1);
}

static uint32_t *task_find_place(const cr_task *t, const cr_node *n)
{
    size_t i = task_place(t, n);

    while (t->table[i] && t->items.at[t->table[i] - 1].node != n)
        i = (i + 1) & (t->table_size - 1);
    return &t->table[i];
}

cr_task_item *cr_task_find(const cr_task *t, const cr_node *n)
{
    uint32_t at = *task_find_place(t, n);

    return at ? &t->items.at[at - 1] : NULL;
}

static cr_status task_grow(cr_task *t)
{
    size_t size = t->table_size ? t->table_size * 4 : 64;
    uint32_t *table = cr_alloc_zero(size * sizeof *table);

    CR_NEED(table);
    cr_free(t->table);
    t->table = table;
    t->table_size = size;
    for (size_t i = 0; i < t->items.len; i++)
        *task_find_place(t, t->items.at[i].node) = (uint32_t)i + 1;
    return CR_OK;
}

/* The index of `n`, which is added when it is new. */
static cr_status task_item_of(cr_task *t, cr_node *n, uint32_t *out, bool *is_new)
{
    if (t->items.len * 2 >= t->table_size)
        CR_TRY(task_grow(t));
    uint32_t *at = task_find_place(t, n);
    *is_new = !*at;
    if (!*at) {
        CR_TRY(cr_vec_reserve(&t->items, 1));
        cr_vec_put(&t->items, ((cr_task_item){.node = n, .capture = -1}));
        *at = (uint32_t)t->items.len;
    }
    *out = *at - 1;
    return CR_OK;
}

/* --- the walk that counts edges --- */
static cr_status stack_put(cr_task *t, uint32_t item)
{
    CR_TRY(cr_vec_reserve(&t->ready, 1));
    cr_vec_put(&t->ready, item);
    return CR_OK;
}

static cr_status task_visit(cr_task *t, uint32_t i)
{
    if (t->items.at[i].counted || (t->pruned && !t->items.at[i].needed))
        return CR_OK;
    t->items.at[i].counted = true;
    t->items.at[i].needed = true;
    return stack_put(t, i);
}

static cr_status task_count_edges(cr_task *t, uint32_t i)
{
    cr_node *n = t->items.at[i].node;

    for (uint32_t e = 0; e < n->edge_count; e++) {
        uint32_t to;
        bool is_new;
        if (!n->edges[e].node)
            continue;
        CR_TRY(task_item_of(t, n->edges[e].node, &to, &is_new));
        t->items.at[to].dependencies++;
        CR_TRY(task_visit(t, to));
    }
    return CR_OK;
}

static cr_status count(cr_task *t)
{
    for (int r = 0; r < t->call->root_count; r++) {
        uint32_t i;
        bool is_new;
        CR_TRY(task_item_of(t, t->root[r].node, &i, &is_new));
        CR_TRY(task_visit(t, i));
    }
    while (t->ready.len)
        CR_TRY(task_count_edges(t, t->ready.at[--t->ready.len]));
    return CR_OK;
}

/* --- the walk that marks nodes leading to an input --- */
typedef struct {
    uint32_t item, edge;
} step;
typedef CR_VEC(step) path;

static cr_status path_enter(path *p, uint32_t item)
{
    CR_TRY(cr_vec_reserve(p, 1));
    cr_vec_put(p, ((step){item, 0}));
    return CR_OK;
}

/* True when the walk need not follow the node's edges. */
static bool task_ends_at(const cr_task *t, const cr_task_item *item)
{
    return t->inputs_are_new && item->node->sequence < t->oldest;
}

/* Follows one edge of the path's last node, or returns from this node. */
static cr_status path_advance(cr_task *t, path *p)
{
    step *s = &p->at[p->len - 1];
    cr_node *n = t->items.at[s->item].node;
    uint32_t to;
    bool is_new;

    if (s->edge == n->edge_count) {
        bool wanted = cr_task_wants(&t->items.at[s->item]);
        p->len--;
        if (p->len && wanted)
            t->items.at[p->at[p->len - 1].item].needed = true;
        return CR_OK;
    }
    cr_node *next = n->edges[s->edge++].node;
    if (!next)
        return CR_OK;
    uint32_t from = s->item;
    CR_TRY(task_item_of(t, next, &to, &is_new));
    /* In this walk `counted` means visited. */
    if (!t->items.at[to].counted && !task_ends_at(t, &t->items.at[to])) {
        t->items.at[to].counted = true;
        return path_enter(p, to);
    }
    if (cr_task_wants(&t->items.at[to]))
        t->items.at[from].needed = true;
    return CR_OK;
}

static cr_status task_mark(cr_task *t)
{
    path p = {0};
    cr_status st = CR_OK;

    for (int r = 0; r < t->call->root_count && !st; r++) {
        uint32_t i;
        bool is_new;
        st = task_item_of(t, t->root[r].node, &i, &is_new);
        if (st || t->items.at[i].counted)
            continue;
        t->items.at[i].counted = true;
        st = path_enter(&p, i);
        while (!st && p.len)
            st = path_advance(t, &p);
    }
    cr_vec_drop(&p);
    for (size_t i = 0; i < t->items.len; i++)
        t->items.at[i].counted = false;
    return st;
}

/* --- inputs --- */
static cr_status capture(cr_task *t, int k)
{
    cr_edge edge;
    uint32_t i;
    bool is_new;

    CR_TRY(cr_edge_of(&edge, t->call->inputs[k]));
    cr_node_drop(edge.node); /* the tensor keeps the node alive */
    if (!edge.node)
        return cr_fail(CR_RUNTIME, "One of the differentiated Tensors does not require grad");
    CR_TRY(task_item_of(t, edge.node, &i, &is_new));
    t->next_capture[k] = t->items.at[i].capture;
    t->capture_input[k] = edge.input;
    uint64_t made = edge.node->kind == &cr_accumulate_kind ? 0 : edge.node->sequence;
    if (!k || made < t->oldest)
        t->oldest = made;
    t->items.at[i].capture = k;
    return CR_OK;
}

/* backward(inputs=...): adds to .grad of leaves; other tensors retain their gradient. */
static cr_status task_target(cr_task *t, int k)
{
    cr_edge edge;
    uint32_t i;
    bool is_new;

    CR_TRY(cr_retain_grad(t->call->inputs[k]));
    CR_TRY(cr_edge_of(&edge, t->call->inputs[k]));
    cr_node_drop(edge.node);
    CR_TRY(task_item_of(t, edge.node, &i, &is_new));
    t->items.at[i].needed = true;
    return CR_OK;
}

static cr_status task_take_inputs(cr_task *t)
{
    size_t n = (size_t)t->call->input_count;

    t->next_capture = cr_alloc_zero(n * sizeof *t->next_capture + 1);
    t->capture_input = cr_alloc_zero(n * sizeof *t->capture_input + 1);
    CR_NEED(t->next_capture && t->capture_input);
    for (int k = 0; k < t->call->input_count; k++)
        CR_TRY(t->call->accumulate_inputs ? task_target(t, k) : capture(t, k));
    return task_mark(t);
}

cr_status cr_task_plan(cr_task *t)
{
    if (t->call->inputs) {
        t->pruned = true;
        CR_TRY(task_take_inputs(t));
    }
    return count(t);
}

void cr_task_drop(cr_task *t)
{
    for (size_t i = 0; i < t->items.len; i++) {
        cr_task_item *item = &t->items.at[i];
        cr_drop(item->one);
        for (uint32_t k = 0; item->many && k < item->node->result_count; k++)
            cr_drop(item->many[k]);
        cr_free(item->many);
    }
    cr_vec_drop(&t->ends);
    cr_vec_drop(&t->items);
    cr_vec_drop(&t->ready);
    cr_free(t->table);
    cr_free(t->next_capture);
    cr_free(t->capture_input);
    for (int r = 0; t->root && r < t->call->root_count; r++)
        cr_node_drop(t->root[r].node);
    cr_free(t->root);
}

/* --- cotangents --- */
static bool may_grow(const cr_tensor *t, const cr_tensor *by)
{
    return !cr_recording() && !(cr_thread.include & CR_STAGE_BIT(PYTHON)) &&
           t->dtype == by->dtype && cr_has_sizes(t, by->ndim, by->size) && cr_is_sole(t) &&
           cr_is_dense(t);
}

/* True when was + grad, a call, has the layout of grad.  A recorded pass makes that call, and
 * later sums have an order by layout. */
static bool adds_in_layout(const cr_tensor *was, const cr_tensor *grad)
{
    bool same = true, expanded = true;

    for (int i = 0; i < was->ndim; i++) {
        same = same && (was->stride[i] == grad->stride[i] || was->size[i] <= 1);
        expanded = expanded && (was->stride[i] == 0 || was->size[i] <= 1);
    }
    return same || expanded;
}

/* *sum += grad.  Takes ownership of both. */
static cr_status task_add(cr_tensor **sum, cr_tensor *grad)
{
    cr_tensor *was = *sum, *made = NULL;
    cr_status st;

    if (may_grow(was, grad)) {
        st = cr_call_add_inplace(was, grad);
        cr_drop(grad);
        return st;
    }
    if (may_grow(grad, was) && adds_in_layout(was, grad)) {
        st = cr_call_add_inplace(grad, was);
        *sum = grad;
        cr_drop(was);
        return st;
    }
    st = cr_call_add(&made, was, grad);
    cr_drop(grad);
    if (st)
        return st;
    *sum = made;
    cr_drop(was);
    return CR_OK;
}

cr_status cr_task_give(cr_task_item *item, uint32_t k, cr_tensor *grad)
{
    cr_tensor **at = &item->one;

    item->reached = true;
    if (item->node->result_count != 1) {
        if (!item->many)
            item->many = cr_alloc_zero(item->node->result_count * sizeof *item->many);
        if (!item->many) {
            cr_drop(grad);
            return CR_MEMORY;
        }
        at = &item->many[k];
    }
    if (*at)
        return task_add(at, grad);
    *at = grad;
    return CR_OK;
}

/* --- the heap --- */
static bool task_before(const cr_task *t, uint32_t a, uint32_t b)
{
    return t->items.at[a].node->sequence > t->items.at[b].node->sequence;
}

cr_status cr_task_push(cr_task *t, uint32_t item)
{
    CR_TRY(cr_vec_reserve(&t->ready, 1));
    size_t i = t->ready.len++;
    uint32_t *heap = t->ready.at;
    while (i && task_before(t, item, heap[(i - 1) / 2])) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = item;
    return CR_OK;
}

uint32_t cr_task_pop(cr_task *t)
{
    uint32_t *heap = t->ready.at, top = heap[0], last = heap[--t->ready.len];
    size_t i = 0, n = t->ready.len;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        if (child + 1 < n && task_before(t, heap[child + 1], heap[child]))
            child++;
        if (!task_before(t, heap[child], last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    if (n)
        heap[i] = last;
    return top;
}
