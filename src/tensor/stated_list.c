/* Loops that read a list of tensors.
 *
 * `tensors[i][o, i, n]` is position i of the tensors one after another; `tensors[k][o, n]` is
 * the k-th tensor.  Each tensor fills a piece of the result along the axis that indexes the
 * list. */
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/move.h"
#include "tensor/geometry.h"
#include "tensor/remote.h"
#include "tensor/stated.h"
#include <string.h>

/* Less is copied by one thread. */
enum { LIST_BYTES = 1 << 19, LIST_FEW = 4 };

/* The axis that indexes the list, among the entry's axes. */
static int list_axis(const cr_op *op)
{
    const cr_rule *at = op->loop.value->args[0]->args[1];

    return at->slot - op->loop.axis[0].slot;
}

/* Axes before the one that indexes the list are single or have a number of dims. */
static cr_status list_dim(const cr_op *op, cr_frame *f, int ndim, int *dim)
{
    int axis = list_axis(op);

    *dim = 0;
    for (int i = 0; i < axis; i++) {
        cr_value n = cr_of_int(1);
        if (op->loop.axis[i].pack)
            CR_TRY(cr_frame_eval(f, op->loop.axis[i].count, &n));
        *dim += (int)n.i + (n.i < 0 ? ndim : 0);
    }
    return CR_OK;
}

cr_status cr_stated_list(cr_stated_list_of *l, const cr_op *op, const cr_value *arg,
                         const cr_view *out)
{
    const cr_rule *element = op->loop.value;
    int slot = op->loop.axis[list_axis(op)].slot;
    cr_frame f;
    cr_status st;

    l->param = element->args[0]->args[0]->slot;
    l->stacked = true;
    for (int i = 1; i < element->count; i++)
        l->stacked = l->stacked && element->args[i]->slot != slot;
    cr_frame_init(&f, op, arg);
    cr_frame_set(&f, op->slots.result, (cr_value){.tag = CR_VIEW, .view = out});
    st = list_dim(op, &f, out->ndim, &l->dim);
    cr_frame_drop(&f);
    return st;
}

/* --- copies --- */

typedef struct {
    const cr_view *out;
    const cr_value *list;
    cr_stated_list_of of;
} list_copy;

/* The positions of the result along the list's dim that tensor i fills.  A vector without
 * elements among tensors of more dims, which cat allows, fills none. */
static int64_t list_length(const list_copy *c, int64_t i)
{
    const cr_view *v = c->list[i].view;

    return c->of.stacked ? 1 : v->ndim == c->out->ndim ? v->size[c->of.dim] : 0;
}

/* The part of the result, from `at` on along the list's dim, that a tensor fills. */
static cr_array list_piece(const list_copy *c, int64_t *stride, int64_t at, const cr_view *from)
{
    cr_array to = cr_array_of(from);
    int dim = c->of.dim;

    to.dtype = c->out->dtype;
    to.data = c->out->data + CR_WRAP_MUL(CR_WRAP_MUL(at, c->out->stride[dim]),
                                         cr_dtype_size((cr_dtype)c->out->dtype));
    to.stride = stride;
    for (int d = 0; d < from->ndim; d++)
        stride[d] = c->out->stride[d + (c->of.stacked && d >= dim)];
    return to;
}

static void list_pieces(void *context, int64_t begin, int64_t end)
{
    const list_copy *c = context;
    int64_t at = 0;

    for (int64_t i = 0; i < end; at += list_length(c, i++))
        if (i >= begin && list_length(c, i)) {
            int64_t stride[CR_MAX_DIMS];
            cr_array to = list_piece(c, stride, at, c->list[i].view);
            cr_array from = cr_array_of(c->list[i].view);
            (void)cr_host_move(0, &to, &from);
        }
}

/* A piece from the host: a number may be there. */
static cr_status list_from_host(const list_copy *c, const cr_array *piece, const cr_view *from)
{
    cr_view to = *from;

    to.data = piece->data;
    to.dtype = c->out->dtype;
    to.stride = piece->stride;
    to.device = c->out->device;
    return cr_remote_copy(&to, from);
}

/* All copies of a device at once. */
static cr_status list_remote(const list_copy *c, int64_t n)
{
    size_t dims = (size_t)c->out->ndim;
    int64_t at = 0, *stride = cr_alloc((size_t)n * dims * sizeof *stride);
    cr_array *to = cr_alloc((size_t)n * sizeof *to), *from = cr_alloc((size_t)n * sizeof *from);
    cr_status st = stride && to && from ? CR_OK : CR_MEMORY;
    int pieces = 0;

    for (int64_t i = 0; i < n && !st; at += list_length(c, i++)) {
        const cr_view *v = c->list[i].view;
        if (!list_length(c, i))
            continue;
        to[pieces] = list_piece(c, stride + (size_t)pieces * dims, at, v);
        from[pieces] = cr_array_of(v);
        if (cr_same_device(v->device, c->out->device))
            pieces++;
        else
            st = list_from_host(c, &to[pieces], v);
    }
    if (!st)
        st = cr_remote_copy_list(c->out->device, to, from, pieces);
    cr_free(stride);
    cr_free(to);
    cr_free(from);
    return st;
}

/* Threads share many pieces of one size as whole pieces, which wakes the threads once.  In
 * other lists the pieces are copied one after the other, and threads share each piece. */
static bool list_is_even(const list_copy *c, int64_t n)
{
    int64_t longest = 0, total = c->out->size[c->of.dim];
    int64_t bytes =
        cr_numel(c->out->ndim, c->out->size) * (int64_t)cr_dtype_size((cr_dtype)c->out->dtype);

    if (n < LIST_FEW || bytes < LIST_BYTES)
        return false;
    for (int64_t i = 0; i < n; i++)
        longest = list_length(c, i) > longest ? list_length(c, i) : longest;
    return longest * n <= 2 * total;
}

cr_status cr_run_stated_list(const cr_op *op, const cr_value *arg, cr_view *out)
{
    list_copy c = {.out = out};
    int64_t n;

    if (!cr_numel(out->ndim, out->size)) /* vectors without elements: any dim is allowed */
        return CR_OK;
    CR_TRY(cr_stated_list(&c.of, op, arg, out));
    c.list = arg[c.of.param].list;
    n = arg[c.of.param].len;
    if (!cr_is_host(out->device))
        return list_remote(&c, n);
    cr_parallel_for(n, list_is_even(&c, n) ? 1 : n, list_pieces, &c);
    return CR_OK;
}
