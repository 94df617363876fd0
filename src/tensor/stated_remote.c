/* Entries that are stated as loops, on a CUDA device.
 *
 * A box of the plan is a copy, a fill, or elements at computed places; a part of a line is one
 * too.  The host computes plans with many boxes, windows, and writes that combine elements. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "tensor/remote.h"
#include "tensor/stated.h"
#include <stdio.h>
#include <string.h>

/* The most launches of a call. */
enum { THERE_MOVES = 64 };

/* A plan's moves on the tensors of a call. */
typedef struct {
    cr_stated_plan *p;
    const cr_op *op;
    cr_device device;
    cr_dtype dtype;
    char *to, *from;
    const char *index;
    bool wraps, writes;
    _Alignas(16) char item[16];
    bool refused; /* a box has more dims than a kernel takes */
} there;

/* --- errors of indices --- */

/* The error's text is that of an index which no tensor has; its digits are then replaced. */
static const int64_t there_mark = 130000000000007;

static cr_status there_text(there *t, const cr_value *given)
{
    cr_stated_plan *p = t->p;
    cr_value arg[CR_MAX_ARGS];
    char digits[24];
    cr_frame f;

    if (*p->late)
        return CR_OK;
    memcpy(arg, given, t->op->param_count * sizeof *arg);
    arg[p->bounds->param] = cr_of_int(there_mark);
    cr_frame_init(&f, t->op, arg);
    p->late_kind = cr_raise_check(&p->bounds->error, &f);
    cr_frame_drop(&f);
    const char *text = cr_error_message();
    int n = snprintf(digits, sizeof digits, "%lld", (long long)there_mark);
    const char *at = strstr(text, digits);
    if (at)
        snprintf(p->late, sizeof p->late, "%.*s%c%s", (int)(at - text), text,
                 CR_CUDA_LATE_INDEX, at + n);
    else
        snprintf(p->late, sizeof p->late, "%s", text);
    return CR_OK;
}

/* Indices are in [low, extent), and those below 0 count from the end. */
static cr_status there_bounds(there *t, const cr_value *arg, bool *known)
{
    int64_t low = 0, high = t->p->extent;

    if (t->p->bounds->low)
        CR_TRY(cr_stated_bounds(t->p->bounds, t->op, arg, &low, &high));
    t->wraps = low < 0;
    *known = high == t->p->extent && (!low || low == -high);
    return *known ? there_text(t, arg) : CR_OK;
}

/* --- boxes --- */

/* Numbers of a box, by dim. */
typedef struct {
    int ndim;
    int64_t size[CR_MAX_DIMS], to[CR_MAX_DIMS], from[CR_MAX_DIMS], index[CR_MAX_DIMS];
} there_dims;

static void there_set_dims(there_dims *d, const cr_stated_plan *p, size_t box)
{
    const int64_t *dim = p->dim.at + box * (size_t)(CR_STATED_DIM * p->ndim);

    d->ndim = p->ndim;
    for (int k = 0; k < p->ndim; k++, dim += CR_STATED_DIM) {
        d->size[k] = dim[0];
        d->to[k] = dim[1];
        d->from[k] = dim[2];
        d->index[k] = dim[3];
    }
}

static cr_view there_view(const there *t, char *data, const there_dims *d,
                          const int64_t *stride)
{
    return (cr_view){data,      d->size, stride, (uint8_t)d->ndim, (uint8_t)t->dtype,
                     t->device, false};
}

/* Copies or fills the elements of a box, or of a part of its lines. */
static cr_status there_move(there *t, const there_dims *d, char *to, char *from, bool fill)
{
    cr_view a = there_view(t, to, d, d->to), b = there_view(t, from, d, d->from);

    if (fill)
        return cr_remote_fill(&a, t->item);
    return t->writes ? cr_remote_copy(&b, &a) : cr_remote_copy(&a, &b);
}

static cr_status there_parts(there *t, const cr_stated_box *box, const there_dims *all,
                             const cr_move_part *part)
{
    int64_t item = (int64_t)cr_dtype_size(t->dtype);
    int last = all->ndim - 1;

    for (int i = 0; i < box->parts; i++, part++) {
        there_dims d = *all;
        d.size[last] = part->n;
        d.from[last] = part->stride;
        CR_TRY(there_move(t, &d, t->to + (box->to + part->at * all->to[last]) * item,
                          t->from + (box->from + part->from) * item, part->fill));
    }
    return CR_OK;
}

static cr_status there_indexed(there *t, const cr_stated_box *box, const there_dims *d)
{
    int64_t item = (int64_t)cr_dtype_size(t->dtype);
    cr_cuda_index x = {.ndim = d->ndim,
                       .item = (int)item,
                       .size = d->size,
                       .dense_stride = d->to,
                       .table_stride = d->from,
                       .index_stride = d->index,
                       .dense = t->to + box->to * item,
                       .table = t->from + box->from * item,
                       .index = t->index + box->index * (t->p->is32 ? 4 : 8),
                       .unit = t->p->unit,
                       .extent = t->p->extent,
                       .is32 = t->p->is32,
                       .wraps = t->wraps};
    bool done;
    const char *error = (t->writes ? cr_cuda_place : cr_cuda_pick)(
        t->device.index, &x, t->p->late_kind, t->p->late, &done);

    t->refused = t->refused || !done;
    return cr_device_status(error);
}

static cr_status there_boxes(there *t)
{
    const cr_stated_plan *p = t->p;
    const cr_move_part *part = p->part.at;
    int64_t item = (int64_t)cr_dtype_size(t->dtype);
    there_dims d;

    for (size_t i = 0; i < p->box.len && !t->refused; part += p->box.at[i++].parts) {
        const cr_stated_box *box = &p->box.at[i];
        there_set_dims(&d, p, i);
        if (box->parts)
            CR_TRY(there_parts(t, box, &d, part));
        else if (t->index && !box->fill)
            CR_TRY(there_indexed(t, box, &d));
        else
            CR_TRY(there_move(t, &d, t->to + box->to * item, t->from + box->from * item,
                              box->fill));
    }
    return CR_OK;
}

/* --- calls --- */

/* True if the plan has kernels here. */
static bool there_fits(const cr_stated_plan *p, const cr_op *op, const cr_value *arg)
{
    bool number = !p->fill || p->fill->kind != CR_RULE_NAME ||
                  p->fill->slot >= op->param_count || arg[p->fill->slot].tag != CR_VIEW;

    return !p->window && !p->dense && !p->unravel && number &&
           p->box.len + p->part.len <= THERE_MOVES && (p->index < 0 || p->box.len);
}

/* Writes that set elements, and start from a tensor. */
static cr_status there_writes(there *t, const cr_value *arg, cr_view *out, bool *fit)
{
    const cr_rule *start = t->op->loop_start;
    cr_stated_combination c;

    CR_TRY(cr_stated_combination_of(&c, t->op, arg));
    *fit = c.how == CR_COMBINE_SET && t->p->plain >= 0 && start->kind == CR_RULE_NAME;
    if (!*fit)
        return CR_OK;
    t->writes = true;
    t->to = arg[t->p->plain].view->data;
    t->from = out->data;
    return out->data != arg[start->slot].view->data ? cr_remote_copy(out, arg[start->slot].view)
                                                    : CR_OK;
}

static cr_status there_reads(there *t, const cr_value *arg, cr_view *out)
{
    t->to = out->data;
    t->from = arg[t->p->from].view->data;
    return t->p->fill ? cr_stated_number(t->item, t->p->fill, t->op, arg, t->dtype) : CR_OK;
}

cr_status cr_stated_plan_there(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                               cr_view *out, bool *done)
{
    there t = {.p = p, .op = op, .device = out->device, .dtype = (cr_dtype)out->dtype};

    *done = there_fits(p, op, arg);
    if (*done && p->index >= 0) {
        t.index = arg[p->index].view->data;
        CR_TRY(there_bounds(&t, arg, done));
    }
    if (*done && op->loop_start)
        CR_TRY(there_writes(&t, arg, out, done));
    else if (*done)
        CR_TRY(there_reads(&t, arg, out));
    if (!*done)
        return CR_OK;
    CR_TRY(there_boxes(&t));
    *done = !t.refused;
    return CR_OK;
}
