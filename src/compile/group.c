/* Gathers nodes into groups.
 *
 * The pass visits nodes in order.  If loops can compute a node, the pass merges the open groups
 * that produce the node's arguments and adds the node to the merged group, as far as shapes,
 * rows and types agree.  A view of a group's value joins the group.  On a device other than the
 * host, an elementwise node that joined no such group joins an open group that reads one of the
 * same arguments from outside.  A group is computed at the place of its last node.  A group
 * closes, and takes no more nodes, when a node outside reads one of its values.  All groups
 * close at a node that writes a tensor.
 *
 * Invariant: a group reads and stores at most MOST_OPERANDS values.  The count is exact: a
 * value that the group computes counts as long as a node that was not visited yet reads it.
 * Every step is bounded, so the pass is linear. */
#include "base/parallel.h"
#include "compile/facts.h"
#include "entry.h"
#include "graph/rewrite.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include <string.h>

enum { MOST_OPERANDS = 28, MOST_NODES = 64 };

/* The space of a group. */
typedef struct {
    int64_t numel, columns; /* of the space; columns 0: no node reduces rows */
    cr_refined space;
    bool full;    /* a node computes all elements of the space */
    int64_t last; /* size of the last dim in all nodes; -1 if the nodes differ */
} group_over;

/* Numbers of nodes and values in a group. */
typedef struct {
    int real;        /* nodes, views left out */
    int count, live; /* nodes that will be computed; computed values that have readers left */
    int more;        /* operands beyond `reads` and `live`: further windows of a value */
    int parts;       /* results that the group reads part by part */
} group_tally;

/* Flags of the group's values.  Windows are equal parts of a value's last dim. */
typedef struct {
    bool split, joined; /* the space is that of one window; a result concatenates values */
    bool spread;        /* each value became one value a row, which an expand node repeats */
} group_windows;

/* A group of nodes while groups are formed.
 * Invariant: a group that was merged into another one is empty, and `into` is that other one.
 * tally.live <= tally.count, and tally.real <= tally.count. `read` has `reads` different
 * values, and no node of the group computes any of them. */
typedef struct group {
    group_over over;
    unsigned types; /* the types in which the group's loops compute, bits by cr_dtype */
    cr_device device;
    bool open;
    unsigned era;       /* a group of an earlier era is closed */
    struct group *into; /* the group into which this one was merged, or NULL */
    group_tally tally;
    group_windows windows;
    unsigned scans; /* bits by cr_scan_way */
    int reads;
    cr_gvalue *read[MOST_OPERANDS]; /* values that it reads from outside */
    CR_VEC(size_t) nodes;           /* its nodes in order, filled at the end */
} group;

typedef struct {
    const cr_graph *g;
    cr_session *s;
    cr_facts_cache *facts;
    group **of;          /* by value id: the group that computes it */
    uint32_t *left;      /* by value id: readers not visited yet */
    bool *sealed;        /* by value id: no node of its group may read it */
    bool *scanned;       /* by value id: it depends on a scan of its group */
    bool *dead;          /* by node: its results have no reader */
    group **reader;      /* by value id: the last group that reads it from outside */
    cr_gvalue **instead; /* by node: replaces its first argument, or NULL */
    const cr_op *mask, *expand;
    group **at;   /* by node: its group */
    unsigned era; /* number of nodes so far that write */
    size_t place; /* the next node to be emitted */
} gatherer;

static group *root(group *p)
{
    while (p && p->into)
        p = p->into;
    return p;
}

static group *maker(const gatherer *x, const cr_gvalue *v)
{
    group *p = root(x->of[v->id]);

    return p && p->open && p->era == x->era ? p : NULL;
}

static int load(const group *p) { return p->reads + p->tally.live + p->tally.more; }

static int64_t numel_of(const cr_gtype *t) { return cr_numel(t->ndim, t->size); }
static int64_t numel(const cr_gvalue *v) { return numel_of(&v->type); }

static int64_t last_dim(const cr_gtype *t) { return t->ndim ? t->size[t->ndim - 1] : 1; }

/* --- requirements of a node on its group --- */

typedef struct {
    const cr_gnode *n;
    const cr_facts *facts;
    const cr_gtype *shape; /* the shape to which the node's arguments are broadcast */
    int64_t numel, columns;
    unsigned types;
    cr_device device;
    bool row; /* it has one value for each row of the group that it joins */
} wish;

static bool makes_rows_of(const group *p, const wish *w)
{
    return w->facts->kind == CR_FACT_POINT && p->over.columns &&
           w->numel * p->over.columns == p->over.numel;
}

/* The value has one element for each row of p. */
static bool is_row_of(const group *p, const cr_gvalue *v)
{
    return p->over.columns && numel(v) != p->over.numel;
}

static bool converts(const wish *w, const cr_gvalue *v, cr_dtype wanted)
{
    cr_dtype lane = cr_lane_type(v->type.dtype);

    return lane == CR_BOOL || wanted == CR_BOOL || lane == wanted ||
           cr_node_converts(w->n, (int)lane, wanted);
}

/* True if the node reduces rows; false if it scans them. */
static bool reduces_rows(const wish *w) { return w->columns && !w->facts->scans; }

/* True if loops that compute the node can read argument i, a value of p: the value's type
 * converts, and the value has one element for each element, or for each row, of the node. */
static bool fits_argument(const group *p, const wish *w, int i)
{
    const cr_gvalue *v = w->n->arg[i].value;
    bool row = is_row_of(p, v);
    int64_t columns = w->columns ? w->columns : p->over.columns;

    if (!converts(w, v, cr_node_wants(w->n, w->facts, i)))
        return false;
    if (!row && !w->row)
        return numel(v) == w->numel;
    if (row && w->row)
        return numel(v) == w->numel;
    return row &&
           cr_is_one_a_row(w->shape->ndim, w->shape->size, columns, v->type.ndim, v->type.size);
}

static bool refines(cr_refined *s, const group *p, const wish *w)
{
    int64_t both[2] = {w->columns ? p->over.numel / w->columns : 1, w->columns};

    *s = p->over.space;
    if (w->row) {
        int64_t size[CR_MAX_DIMS];
        memcpy(size, w->shape->size, w->shape->ndim * sizeof *size);
        size[w->shape->ndim] = p->over.columns;
        return cr_refine(s, w->shape->ndim + 1, size);
    }
    return (!w->columns || cr_refine(s, 2, both)) &&
           cr_refine(s, w->shape->ndim, w->shape->size);
}

static bool fits(const group *p, wish *w)
{
    cr_refined s;

    w->row = w->numel != p->over.numel;
    if (p->tally.count >= MOST_NODES || !cr_types_mix(p->types | w->types, p->device))
        return false;
    if (w->row ? !makes_rows_of(p, w)
               : w->columns && p->over.columns && p->over.columns != w->columns)
        return false;
    if (p->over.columns && !w->row && w->n->result[0]->type.stride &&
        p->over.columns != last_dim(w->shape))
        return false;
    if (w->columns && (p->windows.joined || (p->windows.split && w->columns != p->over.last)))
        return false;
    if ((p->scans | w->facts->scans) == CR_SCAN_BOTH)
        return false;
    return w->shape->ndim < CR_MAX_DIMS && refines(&s, p, w);
}

/* --- joining --- */

static bool reads_it(const group *p, const cr_gvalue *v)
{
    for (int i = 0; i < p->reads; i++)
        if (p->read[i] == v)
            return true;
    return false;
}

static void add_read(group *p, cr_gvalue *v)
{
    if (!reads_it(p, v))
        p->read[p->reads++] = v;
}

/* The number of operands that the node adds to p: new values from outside, and its results. */
static int growth(const gatherer *x, const group *p, const cr_gnode *n)
{
    int more = n->result_count;

    for (int i = 0; i < n->arg_count; i++)
        if (n->arg[i].tag == CR_TENSOR && root(x->of[n->arg[i].value->id]) != p)
            more += !reads_it(p, n->arg[i].value);
    return more;
}

static bool mergeable(const group *p, const group *q)
{
    cr_refined s = p->over.space;
    int64_t size[CR_REFINED_DIMS];

    memcpy(size, q->over.space.size, sizeof size);
    return p->over.numel == q->over.numel &&
           !((p->windows.split || q->windows.split) && (p->tally.parts || q->tally.parts)) &&
           p->tally.parts + q->tally.parts <= CR_GROUP_SOURCES &&
           (!p->over.columns || !q->over.columns || p->over.columns == q->over.columns) &&
           (p->scans | q->scans) != CR_SCAN_BOTH &&
           cr_types_mix(p->types | q->types, p->device) &&
           p->tally.count + q->tally.count < MOST_NODES && load(p) + load(q) < MOST_OPERANDS &&
           cr_refine(&s, q->over.space.ndim, size) &&
           !((p->windows.joined || q->windows.joined) && (p->over.columns || q->over.columns));
}

static void merge(group *p, group *q)
{
    cr_refined s = p->over.space;

    CR_ASSERT(cr_refine(&s, q->over.space.ndim, q->over.space.size));
    p->over.space = s;
    p->over.columns = p->over.columns ? p->over.columns : q->over.columns;
    p->types |= q->types;
    p->tally.count += q->tally.count;
    p->tally.real += q->tally.real;
    p->over.last = p->over.last == q->over.last ? p->over.last : -1;
    p->tally.live += q->tally.live;
    p->tally.more += q->tally.more;
    p->scans |= q->scans;
    p->windows.split = p->windows.split || q->windows.split;
    p->windows.joined = p->windows.joined || q->windows.joined;
    p->tally.parts += q->tally.parts;
    p->windows.spread = p->windows.spread || q->windows.spread;
    p->over.full = p->over.full || q->over.full;
    for (int i = 0; i < q->reads; i++)
        add_read(p, q->read[i]);
    q->into = p;
}

/* Merges the open groups that produce the arguments; closes those that cannot be merged. */
static group *join_arguments(gatherer *x, wish *w)
{
    const cr_gnode *n = w->n;
    group *into = NULL;

    for (int i = 0; i < n->arg_count; i++) {
        group *p = n->arg[i].tag == CR_TENSOR ? maker(x, n->arg[i].value) : NULL;
        if (!p)
            continue;
        bool well = !x->sealed[n->arg[i].value->id] &&
                    !(reduces_rows(w) && x->scanned[n->arg[i].value->id]) && fits(p, w) &&
                    fits_argument(p, w, i);
        if (p == into && well)
            continue;
        if (!well || (into && !mergeable(into, p)) ||
            load(into ? into : p) + growth(x, into ? into : p, n) >= MOST_OPERANDS) {
            p->open = false;
            into = p == into ? NULL : into;
            continue;
        }
        if (into)
            merge(into, p);
        else
            into = p;
    }
    if (!into || (fits(into, w) && load(into) + growth(x, into, n) < MOST_OPERANDS))
        return into;
    into->open = false;
    return NULL;
}

static group *new_group(gatherer *x, const wish *w)
{
    group *p = CR_NEW(x->s, group);

    *p = (group){.over.numel = w->numel, .device = w->device, .open = true, .era = x->era};
    return p;
}

/* Counts one reader of `v` as visited. */
static void take_reader(gatherer *x, group *p, const cr_gvalue *v)
{
    x->left[v->id]--;
    if (root(x->of[v->id]) == p && !x->left[v->id])
        p->tally.live--;
}

static void put(gatherer *x, group *p, const cr_gnode *n, size_t i)
{
    bool scanned = false;

    x->at[i] = p;
    for (int k = 0; k < n->arg_count; k++)
        if (n->arg[k].tag == CR_TENSOR) {
            if (root(x->of[n->arg[k].value->id]) != p) {
                add_read(p, n->arg[k].value);
                x->reader[n->arg[k].value->id] = p;
            } else
                scanned = scanned || x->scanned[n->arg[k].value->id];
            take_reader(x, p, n->arg[k].value);
        }
    for (int k = 0; k < n->result_count; k++) {
        x->of[n->result[k]->id] = p;
        x->scanned[n->result[k]->id] = scanned;
        p->tally.live += x->left[n->result[k]->id] > 0;
    }
}

static void put_scan(gatherer *x, group *p, const wish *w)
{
    p->scans |= w->facts->scans;
    for (int k = 0; w->facts->scans && k < w->n->result_count; k++)
        x->scanned[w->n->result[k]->id] = true;
}

/* An open group that reads one of the node's arguments from outside, or NULL.  On a device, one
 * launch then reads the argument for both.  The group and the node are elementwise, and the
 * argument has as many elements as the node. */
static group *join_readers(const gatherer *x, wish *w)
{
    for (int i = 0; i < w->n->arg_count && w->facts->kind == CR_FACT_POINT; i++) {
        const cr_gvalue *v = w->n->arg[i].tag == CR_TENSOR ? w->n->arg[i].value : NULL;
        group *p =
            v && !cr_is_host(w->device) && numel(v) == w->numel ? root(x->reader[v->id]) : NULL;
        if (p && p->open && p->era == x->era && !p->over.columns && p->over.numel == w->numel &&
            !p->windows.split && !p->windows.joined && !p->tally.parts && fits(p, w) &&
            load(p) + growth(x, p, w->n) < MOST_OPERANDS)
            return p;
    }
    return NULL;
}

static void place(gatherer *x, wish *w, size_t i)
{
    group *p = join_arguments(x, w);
    cr_refined s;

    p = p ? p : join_readers(x, w);
    if (!p) {
        p = new_group(x, w);
        w->row = false;
    }
    if (!refines(&s, p, w)) /* more dims than a space can have */
        p->open = false;
    p->over.space = s;
    p->over.columns = p->over.columns ? p->over.columns : w->columns;
    p->types |= w->types;
    p->over.full = p->over.full || !w->row;
    p->tally.count++;
    p->tally.real++;
    p->over.last =
        !p->over.last || p->over.last == last_dim(w->shape) ? last_dim(w->shape) : -1;
    put(x, p, w->n, i);
    put_scan(x, p, w);
}

/* --- views --- */

/* The view repeats a value of each row along the row. */
static bool repeats_rows(const gatherer *x, const group *p, const cr_gnode *n)
{
    const cr_gvalue *v = n->arg[0].value, *r = n->result[0];

    return n->op == x->expand && p->over.columns && numel(r) == p->over.numel &&
           numel(v) * p->over.columns == p->over.numel &&
           cr_is_one_a_row(r->type.ndim, r->type.size, p->over.columns, v->type.ndim,
                           v->type.size);
}

/* The least length of the rows that spread() gives to a group.  To compute one value for each
 * row takes as long as to compute one vector of the row's elements. */
enum { LEAST_SPREAD = 32 };

/* If `n` repeats a value of an elementwise group along rows, the group's space is extended by
 * these rows.  Each earlier value of the group becomes one value a row. */
static void spread(const gatherer *x, group *p, const cr_gnode *n)
{
    int64_t own = numel(n->arg[0].value), columns = own ? numel(n->result[0]) / own : 0;

    if (n->op != x->expand || p->over.columns || own != p->over.numel || p->windows.split ||
        p->windows.joined || p->tally.parts || columns < LEAST_SPREAD ||
        p->over.space.ndim == CR_REFINED_DIMS)
        return;
    p->over.space.size[p->over.space.ndim++] = columns;
    p->over.numel *= columns;
    p->over.columns = columns;
    p->windows.spread = true;
    p->over.full = false;
}

static bool is_in(const gatherer *x, const group *p, size_t i)
{
    return x->at[i] && root(x->at[i]) == p;
}

static void leave(gatherer *x, const cr_gnode *n, size_t i)
{
    x->at[i] = NULL;
    for (int k = 0; k < n->result_count; k++)
        x->of[n->result[k]->id] = NULL;
}

/* The expand node leaves a spread group if all readers of the expanded value are outside.  If
 * other nodes of the group come after the expand node, the group is computed too late for the
 * expand node to read its argument, so all nodes leave the group. */
static void leave_spread(gatherer *x, const cr_gblock *b, size_t i)
{
    const group *p = x->at[i] ? root(x->at[i]) : NULL;
    size_t first = i, last = i;

    if (!p || !p->windows.spread || p->over.full || b->at[i]->kind != CR_GNODE_CALL ||
        b->at[i]->op != x->expand)
        return;
    for (size_t k = i + 1; k < b->len; k++)
        if (is_in(x, p, k)) {
            first = 0;
            last = b->len - 1;
        }
    for (size_t k = first; k <= last; k++)
        if (is_in(x, p, k))
            leave(x, b->at[k], k);
}

/* The view has the same elements in the same order. */
static bool keeps_order(const group *p, const cr_gvalue *v, const cr_gvalue *r)
{
    return !r->type.stride && numel(v) == numel(r) && v->type.dtype == r->type.dtype &&
           (numel(v) == p->over.numel || numel(v) * p->over.columns == p->over.numel);
}

/* Adds a view to the group of its argument, if loops can read the argument instead. */
static bool place_view(gatherer *x, const cr_gnode *n, size_t i)
{
    const cr_gvalue *v = n->arg[0].tag == CR_TENSOR ? n->arg[0].value : NULL, *r = n->result[0];
    group *p = v && n->result_count == 1 ? maker(x, v) : NULL;

    if (!p || x->sealed[v->id] || !cr_gtype_is_contiguous(&v->type) ||
        p->tally.count >= MOST_NODES)
        return false;
    if (cr_is_one_a_row(r->type.ndim, r->type.size, numel(v) ? numel(r) / numel(v) : 0,
                        v->type.ndim, v->type.size))
        spread(x, p, n);
    if (!(keeps_order(p, v, r) || repeats_rows(x, p, n)))
        return false;
    put(x, p, n, i);
    return true;
}

/* --- windows of columns --- */

/* A value that is split into equal windows of its last dim is computed window by window, and so
 * is the whole group: its space becomes that of one window.  If the value has other readers,
 * each window of it is stored, too. */
static bool place_split(gatherer *x, const cr_gnode *n, size_t i)
{
    const cr_gvalue *v = n->arg[0].value;
    group *p = maker(x, v);
    int64_t wide = v->type.size[v->type.ndim - 1];
    int parts = n->result_count, stored = x->left[v->id] > 1 ? parts : 0;
    cr_refined s;

    if (!p || x->sealed[v->id] || p->over.columns || p->windows.split || p->windows.joined ||
        p->tally.parts || p->over.numel != numel(v) || !p->over.numel || p->tally.live != 1 ||
        p->over.last != wide || p->over.space.size[p->over.space.ndim - 1] != wide ||
        wide == parts || p->tally.count * parts >= MOST_NODES ||
        p->reads * parts + parts + stored >= MOST_OPERANDS)
        return false;
    s = (cr_refined){.ndim = p->over.space.ndim};
    memcpy(s.size, p->over.space.size, sizeof s.size);
    s.size[s.ndim - 1] = wide / parts;
    p->over.space = s;
    p->over.numel /= parts;
    p->windows.split = true;
    p->over.last = wide / parts;
    p->tally.more += p->reads * (parts - 1) + stored;
    p->tally.count *= parts;
    put(x, p, n, i);
    x->sealed[v->id] = true;
    return true;
}

/* Merges the open groups that produce the values of the list; NULL if one cannot be merged. */
static group *join_members(gatherer *x, const cr_garg *list)
{
    group *p = maker(x, list->list[0].value);
    bool all =
        p && !x->sealed[list->list[0].value->id] && numel(list->list[0].value) == p->over.numel;

    for (uint32_t k = 1; all && k < list->len; k++) {
        group *q = maker(x, list->list[k].value);
        all = q && !x->sealed[list->list[k].value->id] &&
              numel(list->list[k].value) == p->over.numel && (q == p || mergeable(p, q));
        if (all && q != p)
            merge(p, q);
    }
    return all ? p : NULL;
}

/* A node that joins values of one group becomes part of it: the group stores the values side by
 * side in the result. */
static bool place_join(gatherer *x, const cr_gnode *n, size_t i)
{
    const cr_garg *list = &n->arg[0];
    const cr_gtype *window = &list->list[0].value->type;
    int64_t wide = window->size[n->result[0]->type.ndim - 1];
    group *p = wide > 1 ? join_members(x, list) : NULL;
    cr_refined s = p ? p->over.space : (cr_refined){0};

    if (!p || (p->over.columns && p->over.columns != wide) ||
        load(p) + (int)list->len >= MOST_OPERANDS || !cr_refine(&s, window->ndim, window->size))
        return false;
    p->over.space = s;
    for (uint32_t k = 0; k < list->len; k++)
        take_reader(x, p, list->list[k].value);
    x->at[i] = x->of[n->result[0]->id] = p;
    p->tally.live += x->left[n->result[0]->id] > 0;
    p->tally.more += (int)list->len - 1;
    p->windows.joined = true;
    x->sealed[n->result[0]->id] = true;
    return true;
}

/* --- columns --- */

/* A thread stores a block of rows until it folds them, so wide rows need much memory. */
enum { WIDEST_FOLD = 4096, NARROWEST_FOLD = 64 };

/* Adds a node that reduces leading dims: the group folds the columns while it computes the
 * rows.  If a large value has too few rows for all threads, the node stays a call, because
 * eager also divides the columns among threads. */
static bool place_fold(gatherer *x, const cr_gnode *n, size_t i)
{
    const cr_gvalue *v = n->arg[0].value;
    group *p = maker(x, v);
    int64_t columns = cr_node_kept(n), rows = columns ? numel(v) / columns : 0;
    cr_refined s;

    if (!p || x->sealed[v->id] || !p->over.numel || numel(v) != p->over.numel ||
        (p->over.columns && p->over.columns != columns) || p->windows.joined ||
        p->windows.split || columns > WIDEST_FOLD || load(p) + 1 >= MOST_OPERANDS ||
        (p->over.numel > CR_FOLD_ROW && columns < NARROWEST_FOLD) ||
        (p->over.numel > CR_FOLD_ROW && rows < 2 * CR_FOLD_BLOCK * cr_threads()))
        return false;
    s = p->over.space;
    if (!cr_refine(&s, 2, (int64_t[2]){rows, columns}))
        return false;
    p->over.space = s;
    p->over.columns = columns;
    p->tally.real++;
    put(x, p, n, i);
    x->sealed[n->result[0]->id] = true;
    return true;
}

/* --- results that are read part by part --- */

static void close_group(void *context, cr_gvalue *v)
{
    gatherer *x = context;
    group *p = root(x->of[v->id]);

    x->left[v->id]--;
    if (p)
        p->open = false;
}

static void add_outside(void *context, cr_gvalue *v) { add_read(context, v); }

/* Starts a group with a node whose result the group reads part by part.  The node's arguments
 * are computed before the group.  The node's result is an operand of the group. */
static bool place_read(gatherer *x, const cr_gnode *n, size_t i)
{
    const cr_gtype *t = &n->result[0]->type;
    group *p = CR_NEW(x->s, group);

    *p = (group){.over.numel = numel_of(t), .device = t->device, .open = true, .era = x->era};
    if (!cr_refine(&p->over.space, t->ndim, t->size))
        return false;
    for (int k = 0; k < n->arg_count; k++) {
        cr_garg_each(&n->arg[k], close_group, x);
        cr_garg_each(&n->arg[k], add_outside, p);
    }
    p->tally.count = p->tally.real = 1;
    p->tally.more = 1;
    p->over.last = last_dim(t);
    p->tally.parts = 1;
    x->at[i] = x->of[n->result[0]->id] = p;
    p->tally.live = x->left[n->result[0]->id] > 0;
    return true;
}

/* --- masks --- */

static bool is_alike(const cr_gtype *a, const cr_gtype *b)
{
    return a->known && !a->stride && !b->stride && cr_same_device(a->device, b->device) &&
           a->ndim == b->ndim && !memcmp(a->size, b->size, a->ndim * sizeof *a->size);
}

/* A dropout mask uses only the sizes and strides of its argument.  It is drawn for an operand
 * of the group with the same sizes and strides instead, so that the group stays open. */
static bool place_mask(gatherer *x, const cr_gnode *n, size_t i)
{
    const cr_gvalue *v = n->arg[0].value;
    group *p = maker(x, v);

    for (int k = 0; p && k < p->reads; k++)
        if (is_alike(&p->read[k]->type, &v->type)) {
            group *q = root(x->of[p->read[k]->id]);
            if (q)
                q->open = false;
            x->instead[i] = p->read[k];
            take_reader(x, p, v);
            return true;
        }
    return false;
}

/* --- other nodes --- */

static void close_read(gatherer *x, const cr_gnode *n)
{
    cr_gnode_each_read(n, close_group, x);
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        cr_gblock_each_read(n->block[k], close_group, x);
}

static void count_reader(void *context, cr_gvalue *v) { ((gatherer *)context)->left[v->id]++; }

static bool is_dead(const gatherer *x, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (x->left[n->result[k]->id])
            return false;
    return n->kind == CR_GNODE_CALL && !cr_gnode_stays(n);
}

/* In reverse order: the producers of a dead node's arguments may be dead, too. */
static void count_block(gatherer *x, const cr_gblock *b)
{
    cr_gblock_each_output(b, count_reader, x);
    for (size_t i = b->len; i-- > 0;) {
        if (b == x->g->body && (x->dead[i] = is_dead(x, b->at[i])))
            continue;
        cr_gnode_each_read(b->at[i], count_reader, x);
        for (int k = 0; k < cr_gnode_blocks(b->at[i]); k++)
            count_block(x, b->at[i]->block[k]);
    }
}

/* The longest row, in elements, that a group takes when there are few rows.  Longer rows stay
 * calls, because eager divides a row among threads. */
enum { LONGEST_ROW = 2 * CR_FOLD_ROW };

/* Loops go through a space in the order of the result's memory. */
enum { RESULT, OPERAND };

static int64_t step_of(const cr_gtype *in, int d)
{
    int64_t step = 1;

    if (d < 0 || in->size[d] == 1)
        return 0;
    if (in->stride)
        return in->stride[d];
    for (int i = d + 1; i < in->ndim; i++)
        step *= in->size[i];
    return step;
}

static void loops_over(cr_space *s, const cr_gtype *result, const cr_gtype *in)
{
    cr_space_start(s, 2);
    for (int d = 0; d < result->ndim; d++) {
        int64_t *step = cr_space_add(s, result->size[d], d);
        step[RESULT] = step_of(result, d);
        step[OPERAND] = step_of(in, d - (result->ndim - in->ndim));
    }
    cr_space_order(s);
}

/* The number of innermost elements along which the operand's step is constant, if that step is
 * at most `most` elements (0 if an element repeats); 1 if the innermost step is larger. */
static int64_t run_of(const cr_space *s, int64_t most)
{
    return cr_space_last(s, 0)->step[OPERAND] <= most ? cr_space_run(s, OPERAND) : 1;
}

/* The operand's memory is in the order of the loops, apart from repetitions. */
static bool goes_forward(const cr_space *s)
{
    int64_t last = 0;

    for (int d = s->ndim - 1; d >= 0; d--) {
        int64_t step = s->dim[d].step[OPERAND];
        if (step && step < last)
            return false;
        last = step ? step : last;
    }
    return true;
}

/* Kernels loop along rows.  If loops would jump through a large operand, eager's calls are
 * faster. */
enum { SHORTEST_RUN = 8, LONGEST_STEP = 8, FEW = 4096 };

static bool jumps(const wish *w, const cr_gtype *in)
{
    const cr_gtype *result = &w->n->result[0]->type;
    cr_space over;

    loops_over(&over, w->columns ? w->shape : result, in);
    if (w->columns)
        return w->columns >= SHORTEST_RUN && run_of(&over, 1) < SHORTEST_RUN;
    return numel_of(in) > FEW && !goes_forward(&over) &&
           run_of(&over, LONGEST_STEP) < SHORTEST_RUN;
}

static bool runs_are_short(const wish *w)
{
    if (w->numel <= FEW)
        return false;
    for (int i = 0; i < w->n->arg_count; i++)
        if (w->n->arg[i].tag == CR_TENSOR && jumps(w, &w->n->arg[i].value->type))
            return true;
    return false;
}

/* A group makes results whose elements are in any order, without gaps; results of reductions
 * are row-major. */
static bool makes_result(const wish *w, const cr_gtype *t)
{
    return !t->stride || (!w->columns && cr_is_dense_view(t->ndim, t->size, t->stride));
}

/* Fills `w`; false if the node cannot be part of a group.  Reductions in a group need row-major
 * arguments. */
static bool wishes(wish *w, const cr_gnode *n, const cr_facts *f)
{
    *w = (wish){.n = n, .facts = f};
    if (f->kind != CR_FACT_POINT && f->kind != CR_FACT_ROWS)
        return false;
    w->shape = f->kind == CR_FACT_ROWS ? cr_node_first_tensor(n) : &n->result[0]->type;
    w->columns = f->kind == CR_FACT_ROWS ? cr_node_columns(n) : 0;
    w->numel = cr_numel(w->shape->ndim, w->shape->size);
    w->types = cr_node_types(n, f);
    w->device = n->result[0]->type.device;
    for (int k = 0; k < n->result_count; k++)
        if (!makes_result(w, &n->result[k]->type))
            return false;
    for (int i = 0; i < n->arg_count; i++) {
        const cr_gtype *t = n->arg[i].tag == CR_TENSOR ? &n->arg[i].value->type : NULL;
        if (t && (!cr_expands(t->ndim, t->size, w->shape->ndim, w->shape->size) ||
                  (w->columns && !cr_gtype_is_contiguous(t))))
            return false;
    }
    if (runs_are_short(w))
        return false;
    return !w->columns || (w->numel && (w->columns <= LONGEST_ROW ||
                                        w->numel / w->columns >= 2 * cr_threads()));
}

static void gather(gatherer *x)
{
    const cr_gblock *b = x->g->body;

    count_block(x, b);
    for (size_t i = 0; i < b->len; i++) {
        cr_facts f = cr_facts_of(x->facts, b->at[i]);
        wish w;
        if (x->dead[i])
            continue;
        if (wishes(&w, b->at[i], &f)) {
            place(x, &w, i);
            continue;
        }
        if ((f.kind == CR_FACT_VIEW && place_view(x, b->at[i], i)) ||
            (f.kind == CR_FACT_SPLIT && place_split(x, b->at[i], i)) ||
            (f.kind == CR_FACT_JOIN && place_join(x, b->at[i], i)) ||
            (f.kind == CR_FACT_FOLD && place_fold(x, b->at[i], i)) ||
            ((f.kind == CR_FACT_READ ||
              (f.kind == CR_FACT_JOIN && cr_node_has_part(b->at[i]))) &&
             place_read(x, b->at[i], i)) ||
            (b->at[i]->op == x->mask && b->at[i]->kind == CR_GNODE_CALL &&
             place_mask(x, b->at[i], i)))
            continue;
        close_read(x, b->at[i]);
        x->era += cr_gnode_writes(b->at[i]);
    }
    for (size_t i = 0; i < b->len; i++)
        leave_spread(x, b, i);
    for (size_t i = 0; i < b->len; i++)
        if (x->at[i])
            CR_PUSH(x->s, &root(x->at[i])->nodes, i);
}

/* --- the new graph --- */

typedef struct {
    gatherer *x;
    bool *outside; /* by value id of the old graph: it has a reader outside its group */
    const group *reader;
} emitter;

static const group *emitted(const gatherer *x, const cr_gvalue *v)
{
    const group *p = root(x->of[v->id]);

    return p && p->tally.real > 1 ? p : NULL;
}

static bool is_view(const emitter *e, const cr_gnode *n)
{
    uint8_t kind = cr_facts_of(e->x->facts, n).kind;

    return kind == CR_FACT_VIEW || kind == CR_FACT_SPLIT;
}

static bool any_outside(const emitter *e, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (e->outside[n->result[k]->id])
            return true;
    return false;
}

/* A view with a reader outside is made again from the group's result, so the base of the view
 * is an output of the group, too. */
static void mark_outside(void *context, cr_gvalue *v)
{
    emitter *e = context;
    const group *p = emitted(e->x, v);

    if (!p || p == e->reader)
        return;
    e->outside[v->id] = true;
    while (is_view(e, v->by) && emitted(e->x, v->by->arg[0].value) == p) {
        v = v->by->arg[0].value;
        e->outside[v->id] = true;
    }
}

static void mark_block(emitter *e, const cr_gblock *b, bool top)
{
    for (size_t i = 0; i < b->len; i++) {
        if (top && e->x->dead[i])
            continue;
        e->reader = top ? root(e->x->at[i]) : NULL;
        if (top && e->x->instead[i])
            mark_outside(e, e->x->instead[i]);
        for (int k = top && e->x->instead[i] ? 1 : 0; k < b->at[i]->arg_count; k++)
            cr_garg_each(&b->at[i]->arg[k], mark_outside, e);
        for (int k = 0; k < cr_gnode_blocks(b->at[i]); k++)
            mark_block(e, b->at[i]->block[k], false);
    }
    e->reader = NULL;
    cr_gblock_each_output(b, mark_outside, e);
}

typedef struct {
    cr_garg *out;
    const cr_gvalue **old;
    const char **names;
    int count;
} outputs;

static void add_outputs(const emitter *e, outputs *o, const cr_gnode *n, const cr_gnode *made)
{
    for (int k = 0; k < n->result_count; k++)
        if (e->outside[n->result[k]->id]) {
            o->old[o->count] = n->result[k];
            o->names[o->count] = made->result[k]->name;
            o->out[o->count++] = cr_garg_value(made->result[k]);
        }
}

/* Makes the views that have readers outside, from the group's results. */
static void emit_views(cr_rewrite *w, cr_gblock *to, const group *p)
{
    const emitter *e = w->context;

    for (size_t k = 0; k < p->nodes.len; k++) {
        const cr_gnode *n = e->x->g->body->at[p->nodes.at[k]];
        if (is_view(e, n) && any_outside(e, n))
            cr_rewrite_copy(w, to, n);
    }
}

/* Emits the group with all its nodes, at the place of the last one. */
static void emit_group(cr_rewrite *w, cr_gblock *to, const group *p)
{
    emitter *e = w->context;
    cr_session *s = e->x->s;
    cr_gblock *inner = cr_graph_block(w->to);
    size_t most = 1;

    for (size_t k = 0; k < p->nodes.len; k++)
        most += (size_t)e->x->g->body->at[p->nodes.at[k]]->result_count;
    outputs o = {CR_NEW_N(s, cr_garg, most), CR_NEW_N(s, const cr_gvalue *, most),
                 CR_NEW_N(s, const char *, most), 0};
    for (size_t k = 0; k < p->nodes.len; k++) {
        const cr_gnode *n = e->x->g->body->at[p->nodes.at[k]],
                       *made = cr_rewrite_copy(w, inner, n);
        if (!is_view(e, n))
            add_outputs(e, &o, n, made);
    }
    if (!o.count)
        return; /* no value of it has a reader outside */
    cr_gblock_return(w->to, inner, o.out, o.count);
    cr_gnode *made = cr_graph_group(w->to, to, inner, o.names);
    for (int k = 0; k < o.count; k++)
        w->now[o.old[k]->id] = made->result[k];
    emit_views(w, to, p);
}

static void emit_mask(cr_rewrite *w, cr_gblock *to, const cr_gnode *n, cr_gvalue *instead)
{
    cr_gnode like = *n;
    cr_garg arg[CR_MAX_ARGS];

    memcpy(arg, n->arg, (size_t)n->arg_count * sizeof *arg);
    arg[0] = cr_garg_value(instead);
    like.arg = arg;
    cr_rewrite_copy(w, to, &like);
}

static bool emit(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    emitter *e = w->context;
    const group *p;

    if (to != w->to->body)
        return false; /* inside a block */
    p = root(e->x->at[e->x->place++]);
    if (e->x->dead[e->x->place - 1])
        return true;
    if (e->x->instead[e->x->place - 1]) {
        emit_mask(w, to, n, e->x->instead[e->x->place - 1]);
        return true;
    }
    if (!p || p->tally.real < 2)
        return false;
    if (p->nodes.at[p->nodes.len - 1] == e->x->place - 1)
        emit_group(w, to, p);
    return true;
}

cr_graph *cr_compile_group(const cr_graph *g)
{
    cr_session *s = g->session;
    gatherer x = {.g = g,
                  .s = s,
                  .facts = cr_facts_cache_new(s),
                  .of = CR_NEW_N(s, group *, g->values),
                  .left = CR_NEW_N(s, uint32_t, g->values),
                  .sealed = CR_NEW_N(s, bool, g->values),
                  .scanned = CR_NEW_N(s, bool, g->values),
                  .dead = CR_NEW_N(s, bool, g->body->len),
                  .reader = CR_NEW_N(s, group *, g->values),
                  .instead = CR_NEW_N(s, cr_gvalue *, g->body->len),
                  .mask = cr_entry._dropout_mask,
                  .expand = cr_entry.expand,
                  .at = CR_NEW_N(s, group *, g->body->len)};
    emitter e = {.x = &x, .outside = CR_NEW_N(s, bool, g->values)};
    cr_rewrite w = {.from = g, .node = emit, .context = &e};

    cr_graph_need_sizes(g);
    gather(&x);
    mark_block(&e, g->body, true);
    return cr_rewrite_run(&w);
}
