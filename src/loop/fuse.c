/* Fusing: locals are computed where they are read.
 *
 * Reading a[p, q] of `a[i<.., j<..] = v` becomes v with p for i and q for j. Several reads of
 * the same element become one expression, because expressions are hash-consed, so a nest
 * computes shared values once.  Axes are first renamed so that equal loops have equal names:
 * the k-th axis of every definition that runs to the same extent is the same axis.
 *
 * Invariant: an expression's free axes are those of its definition and of the
 * reductions around it.  A bound axis that an index would capture is renamed. */
#include "loop/loop.h"
#include <string.h>

typedef struct {
    cr_loop *l;
    cr_session *s;
    cr_def **producer; /* by position in l->buffers; NULL for inputs */
    int fresh;
} work;

static int buffer_position(const cr_loop *l, const cr_buffer *b)
{
    for (size_t i = 0; i < l->buffers.len; i++)
        if (l->buffers.at[i] == b)
            return (int)i;
    CR_ASSERT(!"a buffer of this program");
    return -1;
}

/* --- substitution --- */

/* Axes from[k] become to[k], all at the same time. */
typedef struct {
    int count;
    const cr_sym *from[CR_LOOP_DIMS + 1], *to[CR_LOOP_DIMS + 1];
} renaming;

/* Uses temporary names, so that i -> j and j -> i do not interfere. */
static const cr_sym *rename_index(work *w, const cr_sym *e, const renaming *r)
{
    const cr_sym *between[CR_LOOP_DIMS + 1];

    for (int k = 0; k < r->count; k++) {
        between[k] = cr_sym_name(w->l->syms, cr_session_printf(w->s, "?%d", k), 0, CR_SYM_HIGH);
        e = cr_sym_replace(w->l->syms, e, r->from[k], between[k]);
    }
    for (int k = 0; k < r->count; k++)
        e = cr_sym_replace(w->l->syms, e, between[k], r->to[k]);
    return e;
}

/* Results by expression id; grows with the ids. */
typedef struct {
    const cr_expr **at;
    size_t room;
} memo;

static const cr_expr *memo_get(const memo *m, const cr_expr *e)
{
    return e->id < m->room ? m->at[e->id] : NULL;
}

static const cr_expr *memo_put(work *w, memo *m, const cr_expr *e, const cr_expr *result)
{
    if (e->id >= m->room) {
        size_t room = (size_t)e->id * 2 + 16;
        const cr_expr **at = CR_NEW_N(w->s, const cr_expr *, room);
        if (m->room)
            memcpy(at, m->at, m->room * sizeof *at);
        m->at = at;
        m->room = room;
    }
    return m->at[e->id] = result;
}

static const cr_expr *rename_axes(work *w, memo *m, const cr_expr *e, const renaming *r);

static bool captures(const renaming *r, const cr_sym *axis)
{
    for (int k = 0; k < r->count; k++)
        if (cr_sym_uses(r->to[k], axis))
            return true;
    return false;
}

static const cr_expr *rename_reduce(work *w, const cr_expr *e, const renaming *r)
{
    renaming inside = {.count = 0};
    cr_axis axis = e->axis;
    memo fresh = {0};

    for (int k = 0; k < r->count; k++)
        if (r->from[k] != axis.index) {
            inside.from[inside.count] = r->from[k];
            inside.to[inside.count++] = r->to[k];
        }
    if (captures(&inside, axis.index)) {
        const char *name = cr_session_printf(w->s, "%s%d", axis.index->name, ++w->fresh);
        inside.from[inside.count] = axis.index;
        axis.index = cr_sym_name(w->l->syms, name, 0, CR_SYM_HIGH);
        inside.to[inside.count++] = axis.index;
    }
    axis.extent = rename_index(w, axis.extent, r);
    return cr_expr_reduce(w->l, (cr_fn)e->fn, axis,
                          rename_axes(w, &fresh, e->args[0], &inside));
}

/* A scan's axis stays an axis: the elements before another place are not those before it. */
static const cr_expr *rename_scan(work *w, memo *m, const cr_expr *e, const renaming *r)
{
    cr_axis axis = {rename_index(w, e->axis.index, r), rename_index(w, e->axis.extent, r)};

    if (axis.index->kind != CR_SYM_NAME)
        cr_bail(w->s, CR_VALUE, "a scan is read at other places than its own");
    return cr_expr_scan(w->l, (cr_fn)e->fn, e->back, axis, rename_axes(w, m, e->args[0], r));
}

static const cr_expr *rename_load(work *w, memo *m, const cr_expr *e, const renaming *r)
{
    const cr_sym *index[CR_LOOP_DIMS];
    const cr_expr *at[CR_LOOP_DIMS];
    int n = 0;

    for (int i = 0; i < e->buffer->ndim; i++) {
        const cr_expr *computed = cr_load_computed(e, i);
        index[i] = computed ? NULL : rename_index(w, e->index[i], r);
        if (computed)
            at[n++] = rename_axes(w, m, computed, r);
    }
    return cr_expr_load_at(w->l, e->buffer, index, at);
}

static const cr_expr *rename_axes(work *w, memo *m, const cr_expr *e, const renaming *r)
{
    const cr_expr *args[3], *known = memo_get(m, e);

    if (known)
        return known;
    if (e->kind == CR_EXPR_REDUCE)
        return memo_put(w, m, e, rename_reduce(w, e, r));
    if (e->kind == CR_EXPR_SCAN)
        return memo_put(w, m, e, rename_scan(w, m, e, r));
    if (e->kind == CR_EXPR_LOAD)
        return memo_put(w, m, e, rename_load(w, m, e, r));
    if (e->kind == CR_EXPR_INTEGER)
        return memo_put(
            w, m, e,
            cr_expr_integer(w->l, (cr_dtype)e->dtype, rename_index(w, e->index[0], r)));
    for (int i = 0; i < e->count; i++)
        args[i] = rename_axes(w, m, e->args[i], r);
    return memo_put(w, m, e, cr_expr_with(w->l, e, args));
}

/* --- equal names for equal loops --- */

typedef struct {
    cr_axis at[64];
    int depth[64];
    int count;
} loops;

static void learn_axis(loops *known, cr_axis a, int depth)
{
    for (int i = 0; i < known->count; i++)
        if (known->at[i].extent == a.extent && known->depth[i] == depth)
            return;
    if (known->count < (int)CR_LEN(known->at)) {
        known->at[known->count] = a;
        known->depth[known->count++] = depth;
    }
}

/* Collects the loops by extent and depth.  Definitions with more axes come first, so theirs are
 * the names that others get. */
static void learn_axes(work *w, loops *known)
{
    for (int axes = CR_LOOP_DIMS; axes > 0; axes--)
        for (size_t i = 0; i < w->l->defs.len; i++) {
            const cr_def *d = w->l->defs.at[i];
            bool fits = d->axes == axes && (axes > 1 || !known->count);
            for (int k = 0; k < d->axes && fits; k++)
                learn_axis(known, d->axis[k], k);
        }
}

/* The known axis for loop `depth` of a definition, or the definition's axis.  A definition of
 * one axis gets the first known loop of its extent. */
static const cr_sym *shared_axis(const loops *known, const cr_def *d, int depth)
{
    for (int i = 0; i < known->count; i++)
        if (known->at[i].extent == d->axis[depth].extent && known->depth[i] == depth)
            return known->at[i].index;
    for (int i = 0; i < known->count && d->axes == 1; i++)
        if (known->at[i].extent == d->axis[0].extent)
            return known->at[i].index;
    return d->axis[depth].index;
}

/* A reduction over a known extent gets the known axis, unless its definition runs along
 * that axis alone. */
static const cr_expr *share_here(work *w, loops *known, const cr_def *d, const cr_expr *e)
{
    const cr_sym *axis = e->axis.index;
    renaming r = {.count = 1};
    memo m = {0};

    bool found = false;

    for (int i = 0; i < known->count && !found; i++) {
        bool taken = d->axes == 1 && d->axis[0].index == known->at[i].index;
        found = known->at[i].extent == e->axis.extent && known->depth[i] > 0 && !taken;
        axis = found ? known->at[i].index : axis;
    }
    if (!found && known->count < (int)CR_LEN(known->at)) {
        known->at[known->count] = e->axis;
        known->depth[known->count++] = 1;
    }
    r.from[0] = e->axis.index;
    r.to[0] = axis;
    if (axis == e->axis.index)
        return e;
    return cr_expr_reduce(w->l, (cr_fn)e->fn, (cr_axis){axis, e->axis.extent},
                          rename_axes(w, &m, e->args[0], &r));
}

static const cr_expr *share_reductions(work *w, memo *m, loops *known, const cr_def *d,
                                       const cr_expr *e)
{
    const cr_expr *args[3], *r = memo_get(m, e);

    if (r)
        return r;
    for (int i = 0; i < e->count; i++)
        args[i] = share_reductions(w, m, known, d, e->args[i]);
    r = e->count ? cr_expr_with(w->l, e, args) : e;
    return memo_put(w, m, e, r->kind == CR_EXPR_REDUCE ? share_here(w, known, d, r) : r);
}

static void share_axes(work *w)
{
    loops known = {.count = 0};

    learn_axes(w, &known);
    for (size_t i = 0; i < w->l->defs.len; i++) {
        cr_def *d = w->l->defs.at[i];
        renaming r = {.count = d->axes};
        memo m = {0}, again = {0};
        for (int k = 0; k < d->axes; k++) {
            r.from[k] = d->axis[k].index;
            r.to[k] = d->axis[k].index = shared_axis(&known, d, k);
        }
        d->value = rename_axes(w, &m, d->value, &r);
        d->value = share_reductions(w, &again, &known, d, d->value);
    }
}

/* --- joining --- */

static const cr_expr *join_loads(work *w, memo *m, const cr_expr *e);

/* The producer's value at the load's indices. */
static const cr_expr *producer_value(work *w, const cr_expr *load)
{
    const cr_def *d = w->producer[buffer_position(w->l, load->buffer)];
    renaming r = {.count = d->axes};
    memo m = {0};
    bool same = true;

    if (load->count)
        cr_bail(w->s, CR_VALUE, "'%s' is read at computed indices by the program that makes it",
                load->buffer->name);
    for (int k = 0; k < d->axes; k++) {
        r.from[k] = d->axis[k].index;
        r.to[k] = load->index[k];
        same = same && r.from[k] == r.to[k];
    }
    return same ? d->value : rename_axes(w, &m, d->value, &r);
}

static const cr_expr *join_loads(work *w, memo *m, const cr_expr *e)
{
    const cr_expr *args[3], *known = memo_get(m, e);

    if (known)
        return known;
    if (e->kind == CR_EXPR_LOAD && e->buffer->role == CR_BUFFER_LOCAL)
        return memo_put(w, m, e, producer_value(w, e));
    for (int i = 0; i < e->count; i++)
        args[i] = join_loads(w, m, e->args[i]);
    return memo_put(w, m, e, e->count ? cr_expr_with(w->l, e, args) : e);
}

static void drop_locals(cr_loop *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->defs.len; i++)
        if (l->defs.at[i]->target->role != CR_BUFFER_LOCAL)
            l->defs.at[n++] = l->defs.at[i];
    l->defs.len = n;
    n = 0;
    for (size_t i = 0; i < l->buffers.len; i++)
        if (l->buffers.at[i]->role != CR_BUFFER_LOCAL)
            l->buffers.at[n++] = l->buffers.at[i];
    l->buffers.len = n;
}

void cr_loop_fuse(cr_loop *l)
{
    work w = {.l = l, .s = l->session};

    share_axes(&w);
    w.producer = CR_NEW_N(w.s, cr_def *, l->buffers.len);
    for (size_t i = 0; i < l->defs.len; i++) {
        cr_def *d = l->defs.at[i];
        memo m = {0};
        d->value = join_loads(&w, &m, d->value);
        w.producer[buffer_position(l, d->target)] = d;
    }
    drop_locals(l);
}

void cr_loop_fuse_whole(cr_loop *l)
{
    cr_loop_verify(l);
    cr_loop_simplify(l);
    cr_loop_fuse(l);
    cr_loop_simplify(l);
    cr_loop_verify(l);
}
