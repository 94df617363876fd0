/* Averages over parts, by one tree. */
#include "dist/parts.h"
#include "base/memory.h"
#include "comm/reduce.h"
#include <string.h>

/* The sum of parts index << level up to (index + 1) << level, in the layout of cr_parts. */
typedef struct {
    int level, index;
    char *at;
} node;

typedef CR_VEC(node) nodes;

typedef struct {
    cr_dtype dtype;
    cr_device device;
    int ndim;
    int64_t size[CR_MAX_DIMS], numel;
    size_t offset; /* of the elements in a node */
} item;

struct cr_parts {
    cr_comm *comm;
    int parts, first, after, next, count;
    item *at;
    size_t bytes; /* of a node */
    nodes own;
    int32_t *used; /* by item: parts that had a tensor */
};

enum { ITEM_ALIGN = 64 };

/* How many parts a rank computes. */
static int parts_share(const cr_parts *p) { return p->parts / cr_comm_size(p->comm); }

static size_t item_bytes(const item *t) { return (size_t)t->numel * cr_dtype_size(t->dtype); }

static void nodes_free(nodes *list)
{
    for (size_t i = 0; i < list->len; i++)
        cr_free(list->at[i].at);
    list->len = 0;
}

static void node_add(const cr_parts *p, node *to, const node *from)
{
    for (int i = 0; i < p->count; i++) {
        const item *t = &p->at[i];
        cr_reduce(CR_REDUCE_SUM, t->dtype, to->at + t->offset, to->at + t->offset,
                  from->at + t->offset, t->numel);
    }
}

/* Adds neighbours at the end of a list.  With p NULL, only the list changes. */
static void nodes_join(const cr_parts *p, nodes *list)
{
    while (list->len > 1) {
        node *a = &list->at[list->len - 2], *b = a + 1;
        if (a->level != b->level || a->index % 2 || b->index != a->index + 1)
            return;
        if (p)
            node_add(p, a, b);
        cr_free(b->at);
        a->level++;
        a->index /= 2;
        list->len--;
    }
}

static cr_status nodes_push(const cr_parts *p, nodes *list, node n)
{
    CR_TRY(cr_vec_reserve(list, 1));
    cr_vec_put(list, n);
    nodes_join(p, list);
    return CR_OK;
}

/* --- taking --- */
static cr_status item_take(const item *t, char *to, const cr_tensor *x)
{
    cr_tensor *plain = NULL;

    if (x->numel != t->numel || (cr_dtype)x->dtype != t->dtype ||
        x->layout != CR_LAYOUT_STRIDED || !cr_is_host(x->device))
        return cr_fail(CR_VALUE,
                       "a part has a tensor of %lld elements of %s where %lld elements of %s "
                       "in host memory are averaged",
                       (long long)x->numel, cr_dtype_name((cr_dtype)x->dtype),
                       (long long)t->numel, cr_dtype_name(t->dtype));
    CR_TRY(cr_tensor_new(&plain, t->dtype, t->device, t->ndim, t->size));
    char *from = NULL;
    cr_status st = cr_copy_tensor(plain, x);
    if (!st)
        st = cr_reach(&from, plain);
    if (!st && t->numel)
        memcpy(to, from, item_bytes(t));
    cr_drop(plain);
    return st;
}

cr_status cr_parts_take(cr_parts *p, cr_tensor *const *tensor)
{
    node n = {.index = p->next};
    cr_status st = CR_OK;

    if (p->next == p->after)
        return cr_fail(CR_RUNTIME, "all %d parts of this rank were computed already",
                       p->after - p->first);
    n.at = cr_alloc_zero(p->bytes);
    CR_NEED(n.at);
    for (int i = 0; i < p->count && !st; i++)
        if (tensor[i])
            st = item_take(&p->at[i], n.at + p->at[i].offset, tensor[i]);
    if (!st)
        st = nodes_push(p, &p->own, n);
    if (st) {
        cr_free(n.at);
        return st;
    }
    for (int i = 0; i < p->count; i++)
        p->used[i] += tensor[i] != NULL;
    p->next++;
    return CR_OK;
}

/* --- exchanging --- */
/* The nodes of a rank: what joining leaves of its range. */
static cr_status nodes_of_rank(nodes *out, const cr_parts *p, int rank)
{
    int n = parts_share(p);

    for (int v = rank * n; v < (rank + 1) * n; v++)
        CR_TRY(nodes_push(NULL, out, (node){.index = v}));
    return CR_OK;
}

/* Where each rank's nodes go in `all`; *list has the nodes of all ranks. */
static cr_status exchange_plan(const cr_parts *p, nodes *list, cr_buffer *out)
{
    nodes one = {0};
    cr_status st = CR_OK;

    for (int r = 0; r < cr_comm_size(p->comm) && !st; r++) {
        one.len = 0;
        st = nodes_of_rank(&one, p, r);
        out[r].count = (int64_t)(one.len * p->bytes);
        if (!st)
            st = cr_vec_reserve(list, one.len);
        for (size_t i = 0; i < one.len && !st; i++)
            cr_vec_put(list, one.at[i]);
    }
    cr_vec_drop(&one);
    return st;
}

static cr_status exchange_run(const cr_parts *p, cr_buffer *out, char *own, char *all)
{
    int size = cr_comm_size(p->comm);
    cr_buffer in = {own, (int64_t)(p->own.len * p->bytes)};
    cr_call_args call = {.kind = CR_CALL_ALL_GATHER,
                         .dtype = CR_U8,
                         .root = -1,
                         .ins = 1,
                         .in = &in,
                         .outs = size,
                         .out = out};

    for (size_t i = 0; i < p->own.len; i++)
        memcpy(own + i * p->bytes, p->own.at[i].at, p->bytes);
    for (int r = 0; r < size; r++) {
        out[r].at = all;
        all += out[r].count;
    }
    return cr_comm_run(p->comm, &call, "parts of gradients");
}

/* *list: the nodes of all ranks, in order, each with memory of its own. */
static cr_status parts_exchange(const cr_parts *p, nodes *list)
{
    cr_buffer *out = cr_alloc_zero((size_t)cr_comm_size(p->comm) * sizeof *out);
    char *own = NULL, *all = NULL;
    cr_status st = out ? CR_OK : CR_MEMORY;

    if (!st)
        st = exchange_plan(p, list, out);
    CR_GO(st);
    own = cr_alloc(p->own.len * p->bytes + 1);
    all = cr_alloc(list->len * p->bytes + 1);
    CR_GO(own && all ? CR_OK : CR_MEMORY);
    CR_GO(exchange_run(p, out, own, all));
    for (size_t i = 0; i < list->len; i++) {
        list->at[i].at = cr_alloc(p->bytes);
        CR_GO(list->at[i].at ? CR_OK : CR_MEMORY);
        memcpy(list->at[i].at, all + i * p->bytes, p->bytes);
    }
done:
    cr_free(out);
    cr_free(own);
    cr_free(all);
    return st;
}

/* Adds up which items had tensors. */
static cr_status parts_count_used(cr_parts *p)
{
    cr_buffer all = {p->used, p->count};
    cr_call_args call = {
        .kind = CR_CALL_ALL_REDUCE, .dtype = CR_I32, .root = -1, .outs = 1, .out = &all};

    return cr_comm_run(p->comm, &call, "used parts");
}

/* --- the tree --- */
/* Joins the nodes of one level; the last one may go up alone.  The level's nodes end the
 * list. */
static void level_join(const cr_parts *p, nodes *list, int level)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->len; i++) {
        node *a = &list->at[i], *b = i + 1 < list->len ? a + 1 : NULL;
        if (a->level == level && !(a->index % 2)) {
            if (b && b->level == level && b->index == a->index + 1) {
                node_add(p, a, b);
                cr_free(b->at);
                i++;
            }
            a->level++;
            a->index /= 2;
        }
        list->at[kept++] = *a;
    }
    list->len = kept;
}

static void nodes_to_root(const cr_parts *p, nodes *list)
{
    for (int level = 0; list->len > 1; level++)
        level_join(p, list, level);
}

static cr_status item_make(cr_tensor **out, const cr_parts *p, int i, const char *root)
{
    const item *t = &p->at[i];
    char *to = NULL;

    *out = NULL;
    if (!p->used[i])
        return CR_OK;
    CR_TRY(cr_tensor_new(out, t->dtype, t->device, t->ndim, t->size));
    cr_status st = cr_reach(&to, *out);
    if (st) {
        cr_drop(*out);
        return st;
    }
    if (t->numel)
        memcpy(to, root + t->offset, item_bytes(t));
    cr_reduce_scale(t->dtype, to, t->numel, 1.0 / p->parts);
    return CR_OK;
}

cr_status cr_parts_finish(cr_parts *p, cr_tensor **out)
{
    nodes list = {0};
    int made = 0;
    cr_status st = CR_OK;

    if (p->next != p->after)
        return cr_fail(CR_RUNTIME, "%d of this rank's %d parts were computed",
                       p->next - p->first, p->after - p->first);
    CR_GO(parts_exchange(p, &list));
    CR_GO(parts_count_used(p));
    nodes_to_root(p, &list);
    for (; made < p->count; made++)
        CR_GO(item_make(&out[made], p, made, list.at[0].at));
done:
    for (int i = 0; st && i < made; i++)
        cr_drop(out[i]);
    nodes_free(&list);
    cr_vec_drop(&list);
    nodes_free(&p->own);
    memset(p->used, 0, (size_t)p->count * sizeof *p->used);
    p->next = p->first;
    return st;
}

/* --- making --- */
static cr_status item_init(item *t, const cr_tensor *x, size_t offset)
{
    if (!cr_dtype_is_float((cr_dtype)x->dtype) && !cr_dtype_is_complex((cr_dtype)x->dtype))
        return cr_fail(CR_VALUE, "there is no average of %s",
                       cr_dtype_name((cr_dtype)x->dtype));
    *t = (item){.dtype = (cr_dtype)x->dtype,
                .device = x->device,
                .ndim = x->ndim,
                .numel = x->numel,
                .offset = offset};
    memcpy(t->size, x->size, (size_t)x->ndim * sizeof *t->size);
    return CR_OK;
}

static cr_status parts_init(cr_parts *p, cr_tensor *const *like)
{
    for (int i = 0; i < p->count; i++) {
        CR_TRY(item_init(&p->at[i], like[i], p->bytes));
        p->bytes += (item_bytes(&p->at[i]) + ITEM_ALIGN - 1) / ITEM_ALIGN * ITEM_ALIGN;
    }
    return CR_OK;
}

cr_status cr_parts_new(cr_parts **out, cr_comm *comm, int parts, cr_tensor *const *like,
                       int count)
{
    int size = cr_comm_size(comm);

    if (parts < 1 || parts % size)
        return cr_fail(CR_VALUE, "%d ranks do not divide %d parts", size, parts);
    cr_parts *p = cr_alloc_zero(sizeof *p);
    CR_NEED(p);
    p->comm = cr_comm_keep(comm);
    p->parts = parts;
    p->count = count;
    p->first = p->next = cr_comm_rank(comm) * parts_share(p);
    p->after = p->first + parts_share(p);
    p->at = cr_alloc_zero(((size_t)count + 1) * sizeof *p->at);
    p->used = cr_alloc_zero(((size_t)count + 1) * sizeof *p->used);
    cr_status st = p->at && p->used ? parts_init(p, like) : CR_MEMORY;
    CR_GIVE(st, out, p, cr_parts_free);
}

void cr_parts_free(cr_parts *p)
{
    if (!p)
        return;
    nodes_free(&p->own);
    cr_vec_drop(&p->own);
    cr_comm_drop(p->comm);
    cr_free(p->at);
    cr_free(p->used);
    cr_free(p);
}

void cr_parts_range(const cr_parts *p, int *first, int *after)
{
    *first = p->first;
    *after = p->after;
}
