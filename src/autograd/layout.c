/* A view and its base as two layouts of one block of memory.
 *
 * gather copies the view's elements out of a tensor with the base's shape.  scatter is its
 * transpose.  Each is the other's derivative, so a recorded call is one node.  Both layouts
 * describe the same bytes, so views of another dtype (real and imaginary parts) need no special
 * case.  A base whose elements overlap is not divided by the number of places that show an
 * element: bases come from factories and foreign memory, and a view of a view has the first
 * view's base. */
#include "autograd/forward.h"
#include "entry.h"
#include "whole/whole.h"
#include <string.h>

/* --- layouts --- */
static cr_status layout_new(cr_layout *out, int ndim, const int64_t *size,
                            const int64_t *stride)
{
    size_t bytes = (size_t)ndim * sizeof *size;
    int64_t *block = cr_alloc(2 * bytes);

    CR_NEED(block);
    memcpy(block, size, bytes);
    memcpy(block + ndim, stride, bytes);
    out->ndim = (uint8_t)ndim;
    out->size = block;
    out->stride = block + ndim;
    return CR_OK;
}

cr_status cr_layout_of(cr_layout *out, const cr_tensor *t)
{
    CR_TRY(layout_new(out, t->ndim, t->size, t->stride));
    out->dtype = t->dtype;
    out->device = t->device;
    out->offset = t->offset;
    out->conj = t->conj;
    out->neg = t->neg;
    return CR_OK;
}

static cr_status layout_copy(cr_layout *out, const cr_layout *of)
{
    cr_layout copy = *of;

    CR_TRY(layout_new(&copy, of->ndim, of->size, of->stride));
    *out = copy;
    return CR_OK;
}

void cr_layout_drop(cr_layout *l)
{
    cr_free(l->size);
    *l = (cr_layout){0};
}

/* Whether a layout reaches no byte; its offset may then be any number. */
static bool is_empty(const cr_layout *l)
{
    for (int i = 0; i < l->ndim; i++)
        if (!l->size[i])
            return true;
    return false;
}

static int64_t first_byte(const cr_layout *l)
{
    return l->offset * (int64_t)cr_dtype_size((cr_dtype)l->dtype);
}

static int64_t end_byte(const cr_layout *l)
{
    int64_t last = l->offset;

    for (int i = 0; i < l->ndim; i++)
        last += (l->size[i] - 1) * l->stride[i];
    return (last + 1) * (int64_t)cr_dtype_size((cr_dtype)l->dtype);
}

static cr_status layout_tensor_over(cr_tensor **out, cr_storage *s, const cr_layout *l,
                                    int64_t start)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)l->dtype);
    int64_t at = is_empty(l) ? 0 : (first_byte(l) - start) / item;

    cr_storage_keep(s);
    cr_status st = cr_tensor_over(out, s, (cr_dtype)l->dtype, l->ndim, l->size, l->stride, at);
    if (st)
        cr_storage_drop(s);
    else
        cr_tensor_set_bits(*out, l->conj, l->neg);
    return st;
}

static cr_status layout_zero(cr_storage *s, int64_t bytes)
{
    const int64_t step = 1;
    cr_view v = {NULL, &bytes, &step, 1, CR_U8, s->device, false};

    CR_TRY(cr_reach_storage(&v.data, s));
    return v.data ? cr_fill_elements(&v, cr_scalar_int(0)) : CR_OK;
}

cr_status cr_layout_pair(cr_tensor **b, cr_tensor **v, const cr_layout *base,
                         const cr_layout *view, bool zero)
{
    const cr_layout *of[] = {base, view};
    int64_t start = INT64_MAX, end = 0;
    cr_storage *s;
    cr_status st;

    for (int i = 0; i < 2; i++)
        if (!is_empty(of[i])) {
            start = first_byte(of[i]) < start ? first_byte(of[i]) : start;
            end = end_byte(of[i]) > end ? end_byte(of[i]) : end;
        }
    start = start < end ? start : end;
    start -= start % (int64_t)cr_dtype_size((cr_dtype)base->dtype);
    CR_TRY(cr_storage_new(&s, base->device, (size_t)(end - start)));
    st = zero ? layout_zero(s, end - start) : CR_OK;
    if (!st)
        st = layout_tensor_over(b, s, base, start);
    if (!st) {
        st = layout_tensor_over(v, s, view, start);
        if (st)
            cr_drop(*b);
    }
    cr_storage_drop(s);
    return st;
}

static cr_status layout_copy_elements(cr_tensor *to, cr_tensor *from)
{
    if (cr_only_wraps(from))
        return cr_fail(CR_RUNTIME,
                       "the derivative of an in-place change of a view, or of a view "
                       "by strides, is not available for tensors that wrap others");
    return cr_has_elements(to) && cr_has_elements(from) ? cr_copy_tensor(to, from) : CR_OK;
}

cr_status cr_layout_spread(cr_tensor **out, cr_tensor **view_out, cr_tensor *t,
                           const cr_layout *base, const cr_layout *view)
{
    cr_tensor *b, *v;

    CR_TRY(cr_layout_pair(&b, &v, base, view, true));
    cr_status st = layout_copy_elements(b, t);
    if (st) {
        cr_drop(v);
        cr_drop(b);
        return st;
    }
    *out = b;
    *view_out = v;
    return CR_OK;
}

/* --- gather --- */
/* The elements of `t` (shape and dtype of base) that the view sees, in fresh memory. */
static cr_status layout_gather(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                               const cr_layout *view)
{
    cr_tensor *b, *v, *made = NULL;
    cr_status st;

    CR_TRY(cr_layout_spread(&b, &v, t, base, view));
    CR_GO(cr_tensor_new(&made, (cr_dtype)v->dtype, v->device, v->ndim, v->size));
    CR_GO(layout_copy_elements(made, v));
    *out = cr_keep(made);
done:
    cr_drop(made);
    cr_drop(v);
    cr_drop(b);
    return st;
}

/* --- scatter --- */
/* *out: the slice of `t` at index `i` of dim `d`, without this dim. */
static cr_status slice(cr_tensor **out, cr_tensor *t, int d, int64_t i)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    int n = 0;

    for (int k = 0; k < t->ndim; k++)
        if (k != d) {
            size[n] = t->size[k];
            stride[n++] = t->stride[k];
        }
    cr_storage_keep(t->storage);
    cr_status st = cr_tensor_over(out, t->storage, (cr_dtype)t->dtype, n, size, stride,
                                  t->offset + i * t->stride[d]);
    if (st)
        cr_storage_drop(t->storage);
    else
        cr_tensor_set_bits(*out, t->conj, t->neg);
    return st;
}

bool cr_layout_may_overlap(int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t span = 1;
    uint64_t done = 0;

    for (int n = 0; n < ndim; n++) {
        int next = -1;
        for (int i = 0; i < ndim; i++)
            if (!(done >> i & 1) && (next < 0 || stride[i] < stride[next]))
                next = i;
        done |= (uint64_t)1 << next;
        if (size[next] <= 1)
            continue;
        if (stride[next] < span)
            return true;
        span += (size[next] - 1) * stride[next];
    }
    return false;
}

static bool may_overlap(const cr_tensor *t)
{
    return cr_layout_may_overlap(t->ndim, t->size, t->stride);
}

/* The shortest dim longer than one.  Slices along it are added one by one. */
static int dimension_to_peel(const cr_tensor *t)
{
    int best = -1;

    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] > 1 && (best < 0 || t->size[i] < t->size[best]))
            best = i;
    return best;
}

static cr_status add_into(cr_tensor *v, cr_tensor *t);

static cr_status add_slices(cr_tensor *v, cr_tensor *t, int d)
{
    cr_status st = CR_OK;

    for (int64_t i = 0; i < v->size[d] && !st; i++) {
        cr_tensor *to = NULL, *from = NULL;
        st = slice(&to, v, d, i);
        if (!st)
            st = slice(&from, t, d, i);
        if (!st)
            st = add_into(to, from);
        cr_drop(to);
        cr_drop(from);
    }
    return st;
}

/* Adds `t` to the view.  Recursion depth is the number of dims. */
static cr_status add_into(cr_tensor *v, cr_tensor *t)
{
    if (!v->numel || !cr_has_elements(v))
        return CR_OK;
    if (may_overlap(v))
        return add_slices(v, t, dimension_to_peel(v));
    return cr_call_add_inplace(v, t);
}

/* Sums dims of stride 0 first, in one reduction. */
static cr_status without_repeats(cr_tensor **v_out, cr_tensor **t_out, cr_tensor *v,
                                 cr_tensor *t)
{
    int64_t size[CR_MAX_DIMS];
    bool any = false;

    for (int i = 0; i < v->ndim; i++) {
        size[i] = v->stride[i] ? v->size[i] : v->size[i] ? 1 : 0;
        any |= size[i] != v->size[i];
    }
    *v_out = *t_out = NULL;
    if (!any) {
        *v_out = cr_keep(v);
        *t_out = cr_keep(t);
        return CR_OK;
    }
    CR_TRY(cr_reduce_to_size(t_out, t, v->ndim, size));
    cr_storage_keep(v->storage);
    cr_status st = cr_tensor_over(v_out, v->storage, (cr_dtype)v->dtype, v->ndim, size,
                                  v->stride, v->offset);
    if (st)
        cr_storage_drop(v->storage);
    else
        cr_tensor_set_bits(*v_out, v->conj, v->neg);
    return st;
}

static cr_status scatter_into(cr_tensor *v, cr_tensor *t)
{
    cr_tensor *v1 = NULL, *t1 = NULL;

    if (!may_overlap(v))
        return layout_copy_elements(v, t);
    cr_status st = without_repeats(&v1, &t1, v, t);
    if (!st)
        st = add_into(v1, t1);
    cr_drop(v1);
    cr_drop(t1);
    return st;
}

/* When a base shows an element several times (stride 0), the element's cotangent is divided
 * among these places, so that summing them gives it once. */
static cr_status share_repeats(cr_tensor *b)
{
    int64_t size[CR_MAX_DIMS], repeats = 1;
    cr_tensor *once;
    cr_value made;

    if (!b->numel || !cr_has_elements(b))
        return CR_OK;
    for (int i = 0; i < b->ndim; i++) {
        size[i] = b->stride[i] ? b->size[i] : 1;
        repeats *= b->size[i] / size[i];
    }
    if (repeats <= 1)
        return CR_OK;
    CR_TRY(cr_tensor_over(&once, b->storage, (cr_dtype)b->dtype, b->ndim, size, b->stride,
                          b->offset));
    cr_storage_keep(b->storage);
    cr_value arg[] = {cr_of_tensor(once), cr_of_number(cr_scalar_int(repeats))};
    cr_status st = cr_call_inplace(cr_entry.div, arg, &made);
    if (!st)
        cr_drop_values(&made, 1);
    cr_drop(once);
    return st;
}

cr_status cr_layout_scatter(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                            const cr_layout *view)
{
    bool was = cr_thread.no_grad;
    cr_tensor *b, *v;

    CR_TRY(cr_layout_pair(&b, &v, base, view, true));
    cr_thread.no_grad = true;
    cr_status st = scatter_into(v, t);
    if (!st)
        st = share_repeats(b);
    cr_thread.no_grad = was;
    cr_drop(v);
    CR_GIVE(st, out, b, cr_drop);
}

/* --- nodes --- */
typedef struct {
    cr_node node;
    cr_layout base, view;
    const char *name;
} layout_node;

static void free_layouts(cr_node *n)
{
    cr_layout_drop(&((layout_node *)n)->base);
    cr_layout_drop(&((layout_node *)n)->view);
}

static const char *view_name(cr_node *n)
{
    const char *name = ((layout_node *)n)->name;
    return name ? name : "AsStridedBackward0";
}

static cr_status apply_view(cr_node *n, cr_tensor *const *grads, cr_tensor **out)
{
    layout_node *l = (layout_node *)n;

    if (!grads[0])
        return CR_OK;
    return cr_layout_scatter_recorded(&out[0], grads[0], &l->base, &l->view);
}

static cr_status apply_scatter(cr_node *n, cr_tensor *const *grads, cr_tensor **out)
{
    layout_node *l = (layout_node *)n;

    if (!grads[0])
        return CR_OK;
    return cr_layout_gather_recorded(&out[0], grads[0], &l->base, &l->view);
}

/* A view is linear: what it does to its base, it does to the tangent. */
static cr_status push_view(cr_node *n, cr_tensor *const *tangents, cr_tensor **out)
{
    layout_node *l = (layout_node *)n;
    cr_tensor *made;

    CR_TRY(cr_layout_gather_recorded(&made, tangents[0], &l->base, &l->view));
    return cr_tangent_add(&out[0], n, 0, made);
}

static cr_status push_scatter(cr_node *n, cr_tensor *const *tangents, cr_tensor **out)
{
    layout_node *l = (layout_node *)n;
    cr_tensor *made;

    CR_TRY(cr_layout_scatter_recorded(&made, tangents[0], &l->base, &l->view));
    return cr_tangent_add(&out[0], n, 0, made);
}

static const cr_node_kind view_kind = {
    .name_of = view_name, .apply = apply_view, .push = push_view, .free = free_layouts};
static const cr_node_kind scatter_kind = {.name = "AsStridedBackwardBackward0",
                                          .apply = apply_scatter,
                                          .push = push_scatter,
                                          .free = free_layouts};

static cr_status layout_node_new(cr_node **out, const cr_node_kind *kind, cr_tensor *input,
                                 const cr_layout *base, const cr_layout *view)
{
    cr_node *n = NULL;
    cr_status st;

    CR_TRY(cr_node_new(&n, sizeof(layout_node), kind, 1, 1));
    CR_GO(layout_copy(&((layout_node *)n)->base, base));
    CR_GO(layout_copy(&((layout_node *)n)->view, view));
    CR_GO(cr_edge_of(&n->edges[0], input));
    *out = n;
    return CR_OK;
done:
    cr_node_drop(n);
    return st;
}

cr_status cr_layout_node(cr_node **out, cr_tensor *base, const cr_tensor *view,
                         const char *name)
{
    cr_layout b, v;

    b = (cr_layout){base->ndim,   base->dtype,  base->conj, base->neg,
                    base->device, base->offset, base->size, base->stride};
    v = (cr_layout){view->ndim,   view->dtype,  view->conj, view->neg,
                    view->device, view->offset, view->size, view->stride};
    CR_TRY(layout_node_new(out, &view_kind, base, &b, &v));
    ((layout_node *)*out)->name = name;
    return CR_OK;
}

cr_status cr_layout_node_of(cr_node **out, cr_edge to, const cr_layout *base,
                            const cr_layout *view)
{
    cr_node *n = NULL;
    cr_status st;

    CR_TRY(cr_node_new(&n, sizeof(layout_node), &view_kind, 1, 1));
    CR_GO(layout_copy(&((layout_node *)n)->base, base));
    CR_GO(layout_copy(&((layout_node *)n)->view, view));
    n->edges[0] = (cr_edge){cr_node_keep(to.node), to.input};
    *out = n;
    return CR_OK;
done:
    cr_node_drop(n);
    return st;
}

static cr_status recorded(cr_tensor *made, cr_tensor *t, const cr_node_kind *kind,
                          const cr_layout *base, const cr_layout *view)
{
    cr_node *n;

    if (!cr_recording() || !cr_requires_grad(t))
        return CR_OK;
    CR_TRY(layout_node_new(&n, kind, t, base, view));
    cr_status st = cr_set_history(made, n, 0);
    cr_node_drop(n);
    return st;
}

cr_status cr_layout_gather_recorded(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                    const cr_layout *view)
{
    cr_tensor *made;

    if (cr_layout_needs_calls(t, base))
        return cr_layout_gather_called(out, t, base, view);
    if (cr_layout_wants_calls(t) && !cr_layout_gather_called(out, t, base, view))
        return CR_OK;
    CR_TRY(layout_gather(&made, t, base, view));
    cr_status st = recorded(made, t, &view_kind, base, view);
    CR_GIVE(st, out, made, cr_drop);
}

cr_status cr_layout_scatter_recorded(cr_tensor **out, cr_tensor *t, const cr_layout *base,
                                     const cr_layout *view)
{
    cr_tensor *made;

    if (cr_layout_needs_calls(t, base))
        return cr_layout_scatter_called(out, t, base, view);
    if (cr_layout_wants_calls(t) && !cr_layout_scatter_called(out, t, base, view))
        return CR_OK;
    CR_TRY(cr_layout_scatter(&made, t, base, view));
    cr_status st = recorded(made, t, &scatter_kind, base, view);
    CR_GIVE(st, out, made, cr_drop);
}
