/* Calls for all examples of a batch at once.
 *
 * A rule makes a call of the batch out of a call of an example: operands of elementwise entries
 * get the same number of dims behind that of the batch, named dims move by one, products become
 * products of batches, and where an entry states its axes the examples are more matrices, rows
 * or groups.  Any other entry whose function takes plain views is run on the views of one
 * example after the other, with results that were allocated once (extern.c).
 *
 * Where autograd records a call of this last kind for the batch, it is made for each example.
 * Batches of examples of a lower level become examples of one batch of all, at a level that
 * never ends. */
#include "tensor/batch.h"
#include "entry.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <ctype.h>
#include <string.h>

/* --- levels --- */

enum { LEVELS_RUNNING = 64 };
static _Atomic uint64_t level_last;
static _Atomic uint64_t levels_running[LEVELS_RUNNING]; /* 0: no level */

/* Levels that never end are odd. */
uint64_t cr_level_new(void) { return atomic_fetch_add(&level_last, 2) + 2; }

static uint64_t level_new_endless(void) { return cr_level_new() | 1; }

void cr_level_starts(uint64_t level)
{
    for (int i = 0; i < LEVELS_RUNNING; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&levels_running[i], &none, level))
            return;
    }
}

void cr_level_ends(uint64_t level)
{
    for (int i = 0; i < LEVELS_RUNNING; i++) {
        uint64_t own = level;
        if (atomic_compare_exchange_strong(&levels_running[i], &own, 0))
            return;
    }
}

static bool level_runs(uint64_t level)
{
    if (level & 1)
        return true;
    for (int i = 0; i < LEVELS_RUNNING; i++)
        if (atomic_load_explicit(&levels_running[i], memory_order_relaxed) == level)
            return true;
    return false;
}

/* --- examples --- */

void cr_example_set(cr_tensor *t, cr_tensor *batch, uint64_t level)
{
    cr_tensor *old = t->batch;

    t->batch = cr_keep(batch);
    t->level = level;
    t->stages |= CR_DISPATCH_BITS;
    cr_drop(old);
}

cr_status cr_example_new(cr_tensor **out, cr_tensor *batch, uint64_t level)
{
    cr_tensor *t;

    CR_ASSERT(batch->ndim);
    CR_TRY(cr_tensor_new_strided(&t, (cr_dtype)batch->dtype, cr_as_fake(batch->device),
                                 batch->ndim - 1, batch->size + 1, batch->stride + 1));
    t->offset = batch->offset;
    cr_example_set(t, batch, level);
    *out = t;
    return CR_OK;
}

/* --- one call --- */

enum { BATCH_FEW = 16, BATCH_LISTS = 3 };

typedef struct {
    const cr_op *op;
    const cr_value *arg;         /* of an example */
    cr_value given[CR_MAX_ARGS]; /* for the batch */
    uint64_t level;
    int64_t size; /* number of examples */
    bool left;    /* no rule fits */
    cr_tensor *few[BATCH_FEW];
    int few_count;
    CR_VEC(cr_tensor *) more; /* tensors of the call after the first few */
    cr_arena memory;
    int64_t ints[BATCH_LISTS][CR_MAX_DIMS + 1];
    int lists;
} batch_call;

static cr_status batch_leave(batch_call *c)
{
    c->left = true;
    return CR_OK;
}

/* The call drops the tensor, also when there is no memory. */
static cr_status batch_keep(batch_call *c, cr_tensor *t)
{
    if (c->few_count < BATCH_FEW) {
        c->few[c->few_count++] = t;
        return CR_OK;
    }
    if (cr_vec_reserve(&c->more, 1)) {
        cr_drop(t);
        return CR_MEMORY;
    }
    cr_vec_put(&c->more, t);
    return CR_OK;
}

static void batch_drop(batch_call *c)
{
    for (int i = 0; i < c->few_count; i++)
        cr_drop(c->few[i]);
    for (size_t i = 0; i < c->more.len; i++)
        cr_drop(c->more.at[i]);
    cr_vec_drop(&c->more);
    cr_arena_drop(&c->memory);
}

/* *out, borrowed from the call: the result of an entry. */
static cr_status batch_apply(batch_call *c, cr_tensor **out, const cr_op *op,
                             const cr_value *arg, int n)
{
    CR_TRY(cr_call_tensor(out, op, arg, n));
    return batch_keep(c, *out);
}

static bool batch_has(const batch_call *c, const cr_tensor *t)
{
    return t->batch && t->level == c->level;
}

static bool batch_has_value(const batch_call *c, const cr_value *v)
{
    return v->tag == CR_TENSOR && batch_has(c, v->t);
}

/* t under other sizes. */
static cr_status batch_reshape(batch_call *c, cr_tensor **out, cr_tensor *t, int ndim,
                               const int64_t *size)
{
    if (cr_has_sizes(t, ndim, size)) {
        *out = t;
        return CR_OK;
    }
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(size, (size_t)ndim)};
    return batch_apply(c, out, cr_entry.reshape, arg, 2);
}

static cr_status batch_permute(batch_call *c, cr_tensor **out, cr_tensor *t,
                               const int64_t *dims)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(dims, t->ndim)};

    return batch_apply(c, out, cr_entry.permute, arg, 2);
}

/* Moves a dim to another place. */
static cr_status batch_move(batch_call *c, cr_tensor **out, cr_tensor *t, int from, int to)
{
    int64_t dims[CR_MAX_DIMS];

    *out = t;
    if (from == to)
        return CR_OK;
    for (int d = 0, at = 0; d < t->ndim; d++) {
        at += at == from;
        dims[d] = d == to ? from : at++;
    }
    return batch_permute(c, out, t, dims);
}

/* The batch that an example is of; another tensor, repeated. */
static cr_status batch_whole(batch_call *c, cr_tensor **out, cr_tensor *t)
{
    int64_t size[CR_MAX_DIMS];

    *out = t->batch;
    if (batch_has(c, t))
        return CR_OK;
    if (t->ndim == CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a batch of tensors has more than %d dims", CR_MAX_DIMS);
    size[0] = c->size;
    memcpy(size + 1, t->size, t->ndim * sizeof *size);
    cr_value arg[] = {cr_of_tensor(t), cr_of_ints(size, (size_t)t->ndim + 1)};
    return batch_apply(c, out, cr_entry.expand, arg, 2);
}

/* A batch whose examples have `ndim` dims: of size 1 where they have fewer. */
static cr_status batch_widen(batch_call *c, cr_tensor **out, cr_tensor *batch, int ndim)
{
    int64_t size[CR_MAX_DIMS];
    int more = ndim + 1 - batch->ndim;

    *out = batch;
    if (more <= 0)
        return CR_OK;
    size[0] = batch->size[0];
    for (int d = 0; d < more; d++)
        size[d + 1] = 1;
    for (int d = 1; d < batch->ndim; d++)
        size[d + more] = batch->size[d];
    return batch_reshape(c, out, batch, ndim + 1, size);
}

static cr_status batch_give_whole(batch_call *c, int i)
{
    cr_tensor *t;

    CR_TRY(batch_whole(c, &t, c->arg[i].t));
    c->given[i] = cr_of_tensor(t);
    return CR_OK;
}

/* A list of ints that the call keeps: `first`, if it is not negative, then `n` others. */
static cr_status batch_list(batch_call *c, int64_t **out, int64_t first, const int64_t *ints,
                            uint32_t n)
{
    int at = first >= 0;

    *out = NULL;
    if (c->lists == BATCH_LISTS || n >= CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "%s: a batch has more than %d dims", c->op->name,
                       CR_MAX_DIMS);
    *out = c->ints[c->lists++];
    (*out)[0] = first;
    memcpy(*out + at, ints, n * sizeof *ints);
    return CR_OK;
}

static cr_status batch_prepend(batch_call *c, int i, int64_t first)
{
    int64_t *list;

    CR_TRY(batch_list(c, &list, first, c->arg[i].ints, c->arg[i].len));
    c->given[i] = cr_of_ints(list, c->arg[i].len + 1);
    return CR_OK;
}

/* The batches in the places of the examples, but for those in lists. */
static void batch_give(batch_call *c)
{
    memcpy(c->given, c->arg, c->op->param_count * sizeof *c->given);
    for (int i = 0; i < c->op->param_count; i++)
        if (batch_has_value(c, &c->arg[i]))
            c->given[i].t = c->arg[i].t->batch;
    c->lists = 0;
}

static cr_status batch_run(batch_call *c, cr_value *result)
{
    return cr_call(c->op, c->given, result);
}

/* --- parameters that name dims and sizes --- */

static bool batch_is_one_of(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static bool batch_names_dim(const cr_param *p)
{
    static const char *const names[] = {"dim",       "dims",   "dim0",        "dim1",  "dim2",
                                        "dimension", "source", "destination", "axis0", "axis1"};

    return (p->type == CR_T_INT || p->type == CR_T_INTS) &&
           batch_is_one_of(p->name, names, CR_LEN(names));
}

static bool batch_names_size(const cr_param *p)
{
    static const char *const names[] = {"input_sizes", "input_size", "size"};

    return p->type == CR_T_INTS && batch_is_one_of(p->name, names, CR_LEN(names));
}

/* The only tensor among the arguments, in the first place, or NULL. */
static cr_tensor *batch_only(const batch_call *c)
{
    if (!batch_has_value(c, &c->arg[0]))
        return NULL;
    for (int i = 1; i < c->op->param_count; i++)
        if (c->arg[i].tag == CR_TENSOR || (c->arg[i].tag == CR_TENSORS && c->arg[i].len))
            return NULL;
    return c->arg[0].t;
}

static bool batch_dim_fits(int64_t d, int ndim) { return d >= -ndim && d < ndim; }

/* Moves a dim, or a list of dims, by that of the batch.  Negative ones count from the end. */
static cr_status batch_shift(batch_call *c, int i, int ndim)
{
    const cr_value *v = &c->arg[i];
    int64_t *list;

    if (v->tag == CR_INT) {
        if (!batch_dim_fits(v->i, ndim))
            return batch_leave(c);
        c->given[i] = cr_of_int(v->i < 0 ? v->i : v->i + 1);
        return CR_OK;
    }
    if (v->tag != CR_INTS || !v->len)
        return batch_leave(c);
    CR_TRY(batch_list(c, &list, -1, v->ints, v->len));
    for (uint32_t k = 0; k < v->len; k++) {
        if (!batch_dim_fits(list[k], ndim))
            return batch_leave(c);
        list[k] += list[k] >= 0;
    }
    c->given[i] = cr_of_ints(list, v->len);
    return CR_OK;
}

/* An entry of one tensor that names dims: each example is computed alone. */
static cr_status batch_dims(batch_call *c, int ndim, cr_value *result)
{
    bool named = false;

    for (int i = 0; i < c->op->param_count && !c->left; i++) {
        if (batch_names_dim(&c->op->param[i])) {
            named = true;
            CR_TRY(batch_shift(c, i, ndim));
        } else if (batch_names_size(&c->op->param[i]) && c->arg[i].tag == CR_INTS) {
            CR_TRY(batch_prepend(c, i, c->size));
        }
    }
    if (!named || c->left)
        return batch_leave(c);
    return batch_run(c, result);
}

static int batch_find_size(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_INTS &&
            (!strcmp(op->param[i].name, "size") || !strcmp(op->param[i].name, "shape")))
            return i;
    return -1;
}

/* Replaces -1 in the sizes of an example by the size that gives `numel` elements; false where
 * the other sizes do not determine it. */
static bool batch_solve(int64_t *list, uint32_t n, int64_t numel)
{
    int64_t known = 1, at = -1;

    for (uint32_t k = 0; k < n; k++)
        if (list[k] == -1)
            at = k;
        else if (CR_MUL_OVERFLOW(known, list[k], &known))
            return false;
    if (at < 0)
        return true;
    if (known <= 0)
        return false;
    list[at] = numel / known;
    return true;
}

/* The same elements under other sizes. */
static cr_status batch_resize(batch_call *c, cr_value *result)
{
    int i = batch_find_size(c->op);

    if (i < 0 || c->arg[i].tag != CR_INTS)
        return batch_leave(c);
    CR_TRY(batch_prepend(c, i, c->size));
    if (!batch_solve((int64_t *)c->given[i].ints + 1, c->arg[i].len, c->arg[0].t->numel))
        return batch_leave(c);
    return batch_run(c, result);
}

/* --- elementwise entries --- */

/* The dims that the examples' results have at least. */
static int batch_most_dims(const batch_call *c)
{
    int most = 0;

    for (int i = 0; i < c->op->param_count; i++)
        if (c->arg[i].tag == CR_TENSOR && c->arg[i].t->ndim > most)
            most = c->arg[i].t->ndim;
    return most;
}

/* A tensor without dims has less weight in promotion than one with dims, and in a batch it has
 * one.  Such tensors are converted to the compute type of an example first. */
static cr_status batch_convert(batch_call *c, int i, cr_dtype compute)
{
    const cr_tensor *one = c->arg[i].t;
    cr_tensor *t;

    if (one->ndim || one->number || one->dtype == compute || one->dtype == CR_BOOL ||
        c->op->mask_params >> i & 1)
        return CR_OK;
    cr_value arg[] = {c->given[i], cr_of_dtype(compute)};
    CR_TRY(batch_apply(c, &t, cr_entry.to_dtype, arg, 2));
    c->given[i] = cr_of_tensor(t);
    return CR_OK;
}

static cr_status batch_compute_type(cr_dtype *out, const batch_call *c)
{
    cr_frame f;

    cr_frame_init(&f, c->op, c->arg);
    cr_status st = cr_compute_type(out, c->op, c->arg, &f);
    cr_frame_drop(&f);
    return st;
}

/* True if tensors differ in dtype and some have no dims. */
static bool batch_weighs(const batch_call *c)
{
    int dtype = -1;
    bool differ = false, single = false;

    for (int i = 0; i < c->op->param_count; i++) {
        if (c->arg[i].tag != CR_TENSOR || c->arg[i].t->number)
            continue;
        differ |= dtype >= 0 && dtype != c->arg[i].t->dtype;
        dtype = c->arg[i].t->dtype;
        single |= !c->arg[i].t->ndim;
    }
    return differ && single;
}

static cr_status batch_pointwise(batch_call *c, cr_value *result)
{
    int ndim = batch_most_dims(c);
    cr_dtype compute = CR_F32;
    bool weighs = batch_weighs(c);

    if (weighs)
        CR_TRY(batch_compute_type(&compute, c));
    for (int i = 0; i < c->op->param_count; i++) {
        if (c->arg[i].tag == CR_TENSORS)
            return batch_leave(c);
        if (batch_names_dim(&c->op->param[i])) { /* which the entry's derivative sums over */
            CR_TRY(batch_shift(c, i, ndim));
            if (c->left)
                return CR_OK;
        }
        if (c->arg[i].tag != CR_TENSOR)
            continue;
        if (batch_has(c, c->arg[i].t)) {
            cr_tensor *t;
            CR_TRY(batch_widen(c, &t, c->arg[i].t->batch, ndim));
            c->given[i] = cr_of_tensor(t);
        }
        if (weighs)
            CR_TRY(batch_convert(c, i, compute));
    }
    return batch_run(c, result);
}

/* Copies a batch into that of the first argument, whose examples then are the result. */
static cr_status batch_write(batch_call *c, cr_tensor *from, cr_value *result)
{
    cr_value arg[] = {cr_of_tensor(c->arg[0].t->batch), cr_of_tensor(from)}, made;

    CR_TRY(cr_call_given(&made, cr_entry.copy_, arg, 2));
    cr_drop(made.t);
    result[0] = cr_of_tensor(cr_keep(c->arg[0].t));
    c->arg[0].t->storage->version++;
    return CR_OK;
}

static cr_status batch_copy(batch_call *c, cr_value *result)
{
    cr_tensor *from = c->arg[1].tag == CR_TENSOR ? c->arg[1].t : NULL;

    if (!from || !batch_has_value(c, &c->arg[0]) || from->ndim > c->arg[0].t->ndim)
        return batch_leave(c);
    if (batch_has(c, from))
        CR_TRY(batch_widen(c, &from, from->batch, c->arg[0].t->ndim));
    return batch_write(c, from, result);
}

static cr_status batch_any(batch_call *c, cr_value *result);

/* In place: an elementwise entry writes the batch where it is, if self has the dims of the
 * result.  Of another entry the result is copied. */
static cr_status batch_inplace(batch_call *c, cr_value *result)
{
    const cr_op *of = c->op->inplace_of;
    cr_tensor *self = c->arg[0].t;
    bool body = of->does == CR_DOES_BODY && !batch_weighs(c);
    cr_value made;

    if (!batch_has_value(c, &c->arg[0]) || of->words & CR_WORD_RESETS ||
        of->result_count != 1 || (body && self->ndim != batch_most_dims(c)))
        return batch_leave(c);
    if (!body) {
        const cr_op *op = c->op;
        c->op = of;
        cr_status st = batch_any(c, &made);
        c->op = op;
        if (st || c->left)
            return st;
        if (made.t->dtype == self->dtype &&
            cr_has_sizes(made.t, self->batch->ndim, self->batch->size))
            st = batch_write(c, made.t, result);
        else
            c->left = true;
        cr_drop(made.t);
        return st;
    }
    CR_TRY(batch_pointwise(c, result));
    if (c->left)
        return CR_OK;
    cr_drop(result[0].t);
    result[0] = cr_of_tensor(cr_keep(self));
    self->storage->version++;
    return CR_OK;
}

/* --- views --- */

/* The sizes and strides of the entry's view of an example; `stride` replaces the example's. */
static cr_status batch_geometry(const batch_call *c, cr_geometry *g, const int64_t *stride)
{
    cr_view view = cr_shape_view(c->arg[0].t);
    cr_status st = CR_OK;

    if (c->op->check_count) {
        cr_frame f;
        cr_frame_init(&f, c->op, c->arg);
        st = cr_run_checks(c->op, &f);
        cr_frame_drop(&f);
    }
    view.stride = stride ? stride : view.stride;
    return st ? st : c->op->fn.on_geometry(c->arg, &view, g);
}

static cr_status batch_expand(batch_call *c, cr_value *result)
{
    int i = batch_find_size(c->op);
    cr_geometry g;
    cr_tensor *t;

    CR_TRY(batch_geometry(c, &g, NULL)); /* the errors of an example */
    if (i < 0 || c->arg[i].tag != CR_INTS)
        return batch_leave(c);
    CR_TRY(batch_widen(c, &t, c->given[0].t, (int)c->arg[i].len));
    c->given[0] = cr_of_tensor(t);
    CR_TRY(batch_prepend(c, i, c->size));
    return batch_run(c, result);
}

/* Another order of the dims.  Dims of an example may have equal sizes and strides (expand), so
 * that only other strides, which count the batch's dims, tell the order. */
static cr_status batch_ordered(batch_call *c, cr_value *result)
{
    int64_t place[CR_MAX_DIMS], dims[CR_MAX_DIMS + 1] = {0};
    cr_tensor *made;
    cr_geometry g;

    for (int d = 0; d < c->arg[0].t->ndim; d++)
        place[d] = d + 1;
    CR_TRY(batch_geometry(c, &g, place));
    memcpy(dims + 1, g.stride, g.ndim * sizeof *dims);
    CR_TRY(batch_permute(c, &made, c->given[0].t, dims));
    result[0] = cr_of_tensor(cr_keep(made));
    return CR_OK;
}

/* Places that are counted in the storage: each example's are one distance further. */
static cr_status batch_absolute(batch_call *c, cr_value *result)
{
    int size = cr_op_find_param(c->op, "size"), stride = cr_op_find_param(c->op, "stride");

    if (size < 0 || stride < 0 || c->arg[size].len != c->arg[stride].len)
        return batch_leave(c);
    CR_TRY(batch_prepend(c, size, c->size));
    CR_TRY(batch_prepend(c, stride, c->arg[0].t->batch->stride[0]));
    return batch_run(c, result);
}

/* Any view: a function gives an example's sizes and strides, and the batch has one dim more. */
static cr_status batch_view(batch_call *c, cr_value *result)
{
    int64_t size[CR_MAX_DIMS + 1] = {c->size}, stride[CR_MAX_DIMS + 1];
    cr_tensor *t = c->arg[0].t, *whole = t->batch, *made;
    cr_geometry g;

    CR_TRY(batch_geometry(c, &g, NULL));
    if (g.ndim >= CR_MAX_DIMS)
        return batch_leave(c);
    if (c->op->words & CR_WORD_IDENTITY)
        return batch_run(c, result);
    if (c->op->words & CR_WORD_RESHAPE) {
        memcpy(size + 1, g.size, g.ndim * sizeof *size);
        cr_value arg[] = {cr_of_tensor(whole), cr_of_ints(size, (size_t)g.ndim + 1)};
        CR_TRY(batch_apply(c, &made, cr_entry.view, arg, 2));
    } else {
        stride[0] = whole->stride[0];
        memcpy(size + 1, g.size, g.ndim * sizeof *size);
        memcpy(stride + 1, g.stride, g.ndim * sizeof *stride);
        cr_value arg[] = {cr_of_tensor(whole), cr_of_ints(size, (size_t)g.ndim + 1),
                          cr_of_ints(stride, (size_t)g.ndim + 1),
                          cr_of_int(t->offset + g.offset)};
        CR_TRY(batch_apply(c, &made, cr_entry.as_strided, arg, 4));
    }
    result[0] = cr_of_tensor(cr_keep(made));
    return CR_OK;
}

/* Where dims are named, unsqueeze and its like take one dim more than the example has. */
static cr_status batch_named_view(batch_call *c, cr_value *result)
{
    int ndim = c->arg[0].t->ndim;
    cr_geometry g;

    CR_TRY(batch_geometry(c, &g, NULL)); /* the errors of an example */
    return batch_dims(c, g.ndim > ndim ? g.ndim : ndim, result);
}

static cr_status batch_map(batch_call *c, cr_value *result)
{
    bool named = false;

    if (c->op->words & CR_WORD_BITS || !batch_only(c))
        return batch_leave(c);
    if (c->op->words & CR_WORD_ABSOLUTE)
        return batch_absolute(c, result);
    if (c->op->words & CR_WORD_PERMUTE)
        return batch_ordered(c, result);
    if (c->op->words & CR_WORD_RESHAPE)
        return batch_view(c, result);
    if (c->op->words & CR_WORD_EXPAND)
        return batch_expand(c, result);
    for (int i = 1; i < c->op->param_count; i++) {
        if (c->op->param[i].type == CR_T_DTYPE)
            return batch_leave(c);
        named |= batch_names_dim(&c->op->param[i]) && c->arg[i].tag != CR_NONE;
    }
    if (named && c->arg[0].t->ndim)
        CR_TRY(batch_named_view(c, result));
    else
        return batch_view(c, result);
    if (!c->left)
        return CR_OK;
    c->left = false;
    return batch_view(c, result);
}

/* --- reductions --- */

/* All elements of each example, along dim 1; `keepdim`, if it is a parameter, is false then. */
static cr_status batch_fold_row(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    int64_t size[] = {c->size, c->arg[0].t->numel}, one = 1, *list;
    int dim = op->fold.dim, keep = op->fold.keepdim;
    cr_tensor *t;

    if (keep >= 0 && c->arg[keep].tag == CR_TRUTH && c->arg[keep].i && c->arg[0].t->ndim)
        return batch_leave(c);
    CR_TRY(batch_reshape(c, &t, c->given[0].t, 2, size));
    c->given[0] = cr_of_tensor(t);
    CR_TRY(batch_list(c, &list, -1, &one, 1));
    c->given[dim] = op->param[dim].type == CR_T_INTS ? cr_of_ints(list, 1) : cr_of_int(1);
    if (keep >= 0)
        c->given[keep] = cr_of_bool(false);
    return batch_run(c, result);
}

static cr_status batch_fold(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    cr_tensor *t = batch_only(c);
    int dim = op->fold.dim;
    int64_t *list, first[CR_MAX_DIMS];

    if (!t || dim < 0)
        return batch_leave(c);
    const cr_value *v = &c->arg[dim];
    bool all = v->tag == CR_NONE || (v->tag == CR_INTS && !v->len);
    if (!t->ndim) {
        for (uint32_t k = 0; !all && k < (v->tag == CR_INTS ? v->len : 1); k++)
            if (!batch_dim_fits(v->tag == CR_INTS ? v->ints[k] : v->i, 1))
                return batch_leave(c);
        return batch_fold_row(c, result);
    }
    if (!all)
        return batch_dims(c, t->ndim, result);
    if (op->param[dim].type != CR_T_INTS)
        return batch_fold_row(c, result);
    for (int d = 0; d < t->ndim; d++)
        first[d] = d + 1;
    CR_TRY(batch_list(c, &list, -1, first, t->ndim));
    c->given[dim] = cr_of_ints(list, t->ndim);
    return batch_run(c, result);
}

/* --- fused compositions: rows along a dim, or along the trailing dims of given sizes --- */

static bool batch_shares_rows(const batch_call *c, int i)
{
    return c->op->rows.operand[i] == CR_OPERAND_ROW;
}

static cr_status batch_fused(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    int dim = op->rows.dim, ndim = -1;

    for (int k = 0; k < op->result_count; k++)
        if (op->rows.result[k] == CR_OPERAND_ROW)
            return batch_leave(c);
    for (int i = 0; i < op->param_count; i++) {
        if (c->arg[i].tag == CR_TENSORS)
            return batch_leave(c);
        if (c->arg[i].tag != CR_TENSOR)
            continue;
        if (batch_shares_rows(c, i)) {
            if (batch_has(c, c->arg[i].t))
                return batch_leave(c);
            continue;
        }
        if (ndim >= 0 && c->arg[i].t->ndim != ndim)
            return batch_leave(c);
        ndim = c->arg[i].t->ndim;
        CR_TRY(batch_give_whole(c, i));
    }
    if (ndim <= 0)
        return batch_leave(c);
    if (op->param[dim].type == CR_T_INT) {
        CR_TRY(batch_shift(c, dim, ndim));
        if (c->left)
            return CR_OK;
    }
    return batch_run(c, result);
}

/* --- products --- */

/* The dims of a product's factors, or 0. */
static int batch_factor_dims(const cr_op *op, int *right)
{
    *right = op == cr_entry.mm || op == cr_entry.addmm ? 2 : 1;
    if (op == cr_entry.dot)
        return 1;
    return op == cr_entry.mm || op == cr_entry.addmm || op == cr_entry.mv ||
                   op == cr_entry.addmv
               ? 2
               : 0;
}

/* A factor as a matrix, or as a batch of them. */
static cr_status batch_factor(batch_call *c, cr_tensor **out, cr_tensor *t, int at)
{
    cr_tensor *whole = batch_has(c, t) ? t->batch : t;

    *out = whole;
    if (t->ndim == 2)
        return CR_OK;
    cr_value arg[] = {cr_of_tensor(whole), cr_of_int(at)};
    return batch_apply(c, out, cr_entry.unsqueeze, arg, 2);
}

/* self + rows of all examples times one matrix: one product. */
static cr_status batch_one_product(batch_call *c, cr_tensor *left, cr_tensor *right,
                                   cr_value *result)
{
    int64_t rows[] = {left->size[0] * left->size[1], left->size[2]};
    int64_t size[] = {left->size[0], left->size[1], right->size[1]};
    cr_tensor *t, *made;

    CR_TRY(batch_reshape(c, &t, left, 2, rows));
    c->given[1] = cr_of_tensor(t);
    c->given[2] = cr_of_tensor(right);
    CR_TRY(batch_apply(c, &made, c->op, c->given, c->op->param_count));
    CR_TRY(batch_reshape(c, &t, made, 3, size));
    result[0] = cr_of_tensor(cr_keep(t));
    return CR_OK;
}

/* beta * self + alpha * the product of two batches. */
static cr_status batch_plus_product(batch_call *c, cr_tensor *left, cr_tensor *right,
                                    cr_tensor **out)
{
    cr_tensor *self = c->arg[0].t, *factor[2] = {left, right};
    cr_value arg[5];

    if (batch_has(c, self) || self->ndim > 2)
        CR_TRY(batch_widen(c, &self, self->batch, 2));
    for (int i = 0; i < 2; i++)
        if (factor[i]->ndim == 2)
            CR_TRY(batch_whole(c, &factor[i], factor[i]));
    arg[0] = cr_of_tensor(self);
    arg[1] = cr_of_tensor(factor[0]);
    arg[2] = cr_of_tensor(factor[1]);
    arg[3] = c->arg[3];
    arg[4] = c->arg[4];
    return batch_apply(c, out, cr_entry.baddbmm, arg, 5);
}

static cr_status batch_product(batch_call *c, int left_dims, int right_dims, cr_value *result)
{
    int at = c->op->param_count > 2;
    cr_tensor *a = c->arg[at].t, *b = c->arg[at + 1].t, *left, *right, *made;

    if (a->ndim != left_dims || b->ndim != right_dims || a->dtype != b->dtype)
        return batch_leave(c);
    if (at && (right_dims == 1 || c->arg[0].t->ndim > 2 || c->arg[0].t->dtype != a->dtype))
        return batch_leave(c);
    bool mapped = batch_has(c, a) || batch_has(c, b);
    if (!mapped)
        return batch_leave(c);
    CR_TRY(batch_factor(c, &left, a, -2));
    CR_TRY(batch_factor(c, &right, b, -1));
    if (at && right->ndim == 2 && !batch_has(c, c->arg[0].t) &&
        (c->arg[0].t->ndim < 2 || c->arg[0].t->size[0] == 1) && c->size)
        return batch_one_product(c, left, right, result);
    cr_value arg[] = {cr_of_tensor(left), cr_of_tensor(right)};
    if (at) {
        CR_TRY(batch_plus_product(c, left, right, &made));
    } else {
        bool outer = left->size[left->ndim - 1] == 1 && right->size[right->ndim - 2] == 1 &&
                     cr_dtype_is_float((cr_dtype)left->dtype);
        CR_TRY(batch_apply(c, &made, outer ? cr_entry.mul : cr_entry.matmul, arg, 2));
    }
    for (int k = 0; k < (right_dims == 1) + (left_dims == 1); k++) {
        cr_value squeeze[] = {cr_of_tensor(made), cr_of_int(-1)};
        CR_TRY(batch_apply(c, &made, cr_entry.squeeze_dim, squeeze, 2));
    }
    result[0] = cr_of_tensor(cr_keep(made));
    return CR_OK;
}

/* --- entries that state their axes --- */

enum { AXES_GROUPS = 10 };

/* A group of clause `axes`: its first name, and the number of names. */
typedef struct {
    char first[8];
    int names;   /* but for those of several dims */
    bool packed; /* `*` is among them: any dims, that are those of a batch */
} axes_group;

typedef struct {
    axes_group group[AXES_GROUPS];
    int given, made; /* groups of tensors, then those of results */
} axes_clause;

static bool axes_read_group(axes_group *g, const char **at, const char *end)
{
    memset(g, 0, sizeof *g);
    for (int count = 0; *at < end && **at != ')';) {
        char word[8] = "";
        size_t n = 0;
        while (*at < end && (isalnum((unsigned char)**at) || **at == '_' || **at == '*')) {
            if (n + 1 < sizeof word)
                word[n++] = **at;
            ++*at;
        }
        if (!n) {
            ++*at;
            continue;
        }
        word[n] = 0;
        if (!count++)
            memcpy(g->first, word, sizeof word);
        g->packed |= !strcmp(word, "*");
        g->names += !strchr(word, '*');
    }
    return *at < end;
}

/* False where the entry states no axes, several forms, or sums. */
static bool axes_read(axes_clause *a, const cr_op *op)
{
    const char *at = op->text.axes.at, *end = at ? at + op->text.axes.len : NULL;
    bool arrow = false;
    int n = 0;

    if (!at || op->does == CR_DOES_INPLACE)
        return false;
    a->given = a->made = 0;
    for (; at < end; at++) {
        if (*at == '|' || *at == '+')
            return false;
        arrow |= *at == '>';
        if (*at != '(')
            continue;
        at++;
        if (n == AXES_GROUPS || !axes_read_group(&a->group[n++], &at, end))
            return false;
        *(arrow ? &a->made : &a->given) += 1;
    }
    return arrow && a->given && a->made;
}

/* group[i] becomes that of parameter i; NULL without a tensor.  False if they do not fit. */
static bool axes_of_params(const axes_group **group, const axes_clause *a, const batch_call *c)
{
    int n = 0;

    for (int i = 0; i < c->op->param_count; i++) {
        group[i] = NULL;
        if (c->op->param[i].type == CR_T_TENSORS)
            return false;
        if (c->op->param[i].type != CR_T_TENSOR)
            continue;
        if (n == a->given)
            return false;
        if (c->arg[i].tag == CR_TENSOR)
            group[i] = &a->group[n];
        if (group[i] && c->arg[i].t->ndim < group[i]->names)
            return false; /* an example alone raises */
        n++;
    }
    return n == a->given;
}

/* The first name of all results and mapped tensors; NULL if these differ. */
static const char *axes_first(const axes_group *const *group, const axes_clause *a,
                              const batch_call *c)
{
    const char *first = a->group[a->given].first;

    for (int k = 0; k < a->made; k++)
        if (strcmp(first, a->group[a->given + k].first))
            return NULL;
    for (int i = 0; i < c->op->param_count; i++)
        if (group[i] && batch_has(c, c->arg[i].t) && strcmp(first, group[i]->first))
            return NULL;
    return first;
}

static cr_status axes_more_matrices(batch_call *c, const axes_group *const *group,
                                    cr_value *result)
{
    int dims = -1;

    for (int i = 0; i < c->op->param_count; i++) {
        if (!group[i] || !group[i]->packed)
            continue;
        int own = c->arg[i].t->ndim - group[i]->names;
        if (dims >= 0 && own != dims)
            return batch_leave(c);
        dims = own;
        CR_TRY(batch_give_whole(c, i));
    }
    return batch_run(c, result);
}

/* Sizes of a result with all its axes: one of them is that of all examples. */
static cr_status axes_grow_sizes(batch_call *c, int ndim, int at)
{
    for (int i = 0; i < c->op->param_count; i++) {
        const char *name = c->op->param[i].name;
        size_t n = strlen(name);
        int64_t *list;
        if (c->arg[i].tag != CR_INTS || (int)c->arg[i].len != ndim || n < 5 ||
            strcmp(name + n - 5, "_size"))
            continue;
        CR_TRY(batch_list(c, &list, -1, c->arg[i].ints, c->arg[i].len));
        list[at] *= c->size;
        c->given[i] = cr_of_ints(list, c->arg[i].len);
    }
    return CR_OK;
}

/* Dims `at` of the batch's examples and of the batch become one, which is dim `at` after. */
static cr_status axes_join(batch_call *c, cr_tensor **out, cr_tensor *t, int at)
{
    cr_tensor *whole, *moved;
    int64_t size[CR_MAX_DIMS];

    CR_TRY(batch_whole(c, &whole, t));
    CR_TRY(batch_move(c, &moved, whole, 0, at));
    for (int d = 0, k = 0; d < moved->ndim; d++) {
        size[k] = moved->size[d];
        if (d == at)
            size[k] *= moved->size[++d];
        k++;
    }
    return batch_reshape(c, out, moved, moved->ndim - 1, size);
}

/* The reverse of axes_join for a result: `size` examples. */
static cr_status axes_part(batch_call *c, cr_tensor **out, cr_tensor *t, int at)
{
    int64_t size[CR_MAX_DIMS + 1];
    cr_tensor *parted;

    for (int d = 0, k = 0; d < t->ndim; d++) {
        if (d == at) {
            size[k++] = c->size;
            size[k++] = t->size[d] / c->size;
        } else {
            size[k++] = t->size[d];
        }
    }
    CR_TRY(batch_reshape(c, &parted, t, t->ndim + 1, size));
    return batch_move(c, out, parted, at, 0);
}

/* Calls the entry and takes its results apart. */
static cr_status axes_run_parted(batch_call *c, int at, cr_value *result)
{
    cr_value made[CR_MAX_RESULTS];
    cr_status st;

    CR_TRY(batch_run(c, made));
    for (int k = 0; k < c->op->result_count; k++)
        result[k] = cr_of_none();
    for (int k = 0; k < c->op->result_count; k++) {
        cr_tensor *t;
        if (made[k].tag != CR_TENSOR)
            continue;
        CR_GO(axes_part(c, &t, made[k].t, at));
        result[k] = cr_of_tensor(cr_keep(t));
    }
    st = CR_OK;
done:
    cr_drop_values(made, c->op->result_count);
    if (st)
        cr_drop_values(result, c->op->result_count);
    return st;
}

static cr_status axes_more_rows(batch_call *c, const axes_group *const *group,
                                const char *first, cr_value *result)
{
    int64_t rows = -1;
    int ndim = 0;

    for (int i = 0; i < c->op->param_count; i++) {
        if (!group[i] || strcmp(group[i]->first, first))
            continue;
        if (!c->arg[i].t->ndim || (rows >= 0 && c->arg[i].t->size[0] != rows))
            return batch_leave(c);
        rows = c->arg[i].t->size[0];
        ndim = ndim ? ndim : c->arg[i].t->ndim;
    }
    for (int i = 0; i < c->op->param_count; i++) {
        cr_tensor *t;
        if (!group[i] || strcmp(group[i]->first, first))
            continue;
        CR_TRY(axes_join(c, &t, c->arg[i].t, 0));
        c->given[i] = cr_of_tensor(t);
    }
    CR_TRY(axes_grow_sizes(c, ndim, 0));
    return axes_run_parted(c, 0, result);
}

/* Channels are the second axis where a tensor has rows, else its first. */
static int axes_channel(const axes_group *g) { return strcmp(g->first, "_") ? 1 : 0; }

static cr_status axes_more_groups(batch_call *c, const axes_group *const *group,
                                  const axes_clause *a, cr_value *result)
{
    int groups = cr_op_find_param(c->op, "groups"), ndim = 0;
    int place = axes_channel(&a->group[a->given]);

    if (groups < 0 || a->made != 1 || c->arg[groups].tag != CR_INT)
        return batch_leave(c);
    for (int i = 0; i < c->op->param_count; i++) {
        cr_tensor *t;
        if (!group[i])
            continue;
        ndim = c->arg[i].t->ndim > ndim ? c->arg[i].t->ndim : ndim;
        CR_TRY(axes_join(c, &t, c->arg[i].t, axes_channel(group[i])));
        c->given[i] = cr_of_tensor(t);
    }
    CR_TRY(axes_grow_sizes(c, ndim, place));
    c->given[groups] = cr_of_int(c->arg[groups].i * c->size);
    return axes_run_parted(c, place, result);
}

static cr_status batch_axes(batch_call *c, const axes_clause *a, cr_value *result)
{
    const axes_group *group[CR_MAX_ARGS];

    if (!axes_of_params(group, a, c))
        return batch_leave(c);
    const char *first = axes_first(group, a, c);
    if (first && !strcmp(first, "*"))
        return axes_more_matrices(c, group, result);
    if (!c->size)
        return batch_leave(c);
    if (first && *first && strcmp(first, "_") && strcmp(first, "_*"))
        return axes_more_rows(c, group, first, result);
    return axes_more_groups(c, group, a, result);
}

/* --- other rules --- */

/* Tensors of a list, along a dim. */
static cr_status batch_join(batch_call *c, cr_value *result)
{
    const cr_value *v = &c->arg[0];
    int dim = cr_op_find_param(c->op, "dim");
    cr_value *list;

    if (v->tag != CR_TENSORS || !v->len || dim < 0 || c->arg[dim].tag != CR_INT)
        return batch_leave(c);
    int ndim = v->list[0].t->ndim + (c->op == cr_entry.stack);
    for (uint32_t k = 0; k < v->len; k++)
        if (v->list[k].t->ndim != v->list[0].t->ndim)
            return batch_leave(c);
    CR_TRY(batch_shift(c, dim, ndim));
    if (c->left)
        return CR_OK;
    list = cr_arena_get(&c->memory, v->len * sizeof *list);
    CR_NEED(list);
    for (uint32_t k = 0; k < v->len; k++) {
        cr_tensor *t;
        CR_TRY(batch_whole(c, &t, v->list[k].t));
        list[k] = cr_of_tensor(t);
    }
    c->given[0] = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
    return batch_run(c, result);
}

/* Entries over the last `dims` dims: the batch becomes a part of the dim in front of them. */
static cr_status batch_trailing(batch_call *c, cr_value *result)
{
    int dims = cr_op_find_param(c->op, "dims"), ndim = batch_most_dims(c);

    if (c->arg[dims].tag != CR_INT || ndim <= c->arg[dims].i || !c->size)
        return batch_leave(c);
    for (int i = 0; i < c->op->param_count; i++) {
        cr_tensor *t;
        int64_t *list;
        if (c->arg[i].tag == CR_TENSORS ||
            (c->arg[i].tag == CR_TENSOR && c->arg[i].t->ndim != ndim))
            return batch_leave(c);
        if (c->arg[i].tag == CR_TENSOR) {
            CR_TRY(axes_join(c, &t, c->arg[i].t, 0));
            c->given[i] = cr_of_tensor(t);
        } else if (batch_names_size(&c->op->param[i]) && c->arg[i].tag == CR_INTS) {
            if ((int)c->arg[i].len != ndim)
                return batch_leave(c);
            CR_TRY(batch_list(c, &list, -1, c->arg[i].ints, c->arg[i].len));
            list[0] *= c->size;
            c->given[i] = cr_of_ints(list, c->arg[i].len);
        }
    }
    return axes_run_parted(c, 0, result);
}

/* Of sizes and strides: each example follows the one before. */
static cr_status batch_strided(batch_call *c, int size, int stride, cr_value *result)
{
    const cr_value *sizes = &c->arg[size], *strides = &c->arg[stride];
    int64_t step = 1, last;

    if (sizes->tag != CR_INTS || strides->tag != CR_INTS || sizes->len != strides->len)
        return batch_leave(c);
    for (uint32_t k = 0; k < sizes->len; k++)
        if (sizes->ints[k] < 0 || strides->ints[k] < 0 ||
            CR_MUL_OVERFLOW(sizes->ints[k] - (sizes->ints[k] > 0), strides->ints[k], &last) ||
            CR_ADD_OVERFLOW(step, last, &step))
            return batch_leave(c);
    CR_TRY(batch_prepend(c, size, c->size));
    CR_TRY(batch_prepend(c, stride, step));
    return batch_run(c, result);
}

/* Copies, conversions and new tensors of the batch's sizes.  A memory format that names dims is
 * that of an example. */
static cr_status batch_like(batch_call *c, cr_value *result)
{
    int size = cr_op_find_param(c->op, "size"), stride = cr_op_find_param(c->op, "stride");

    if (size >= 0 && stride >= 0)
        return batch_strided(c, size, stride, result);
    for (int i = 1; i < c->op->param_count; i++) {
        if (c->arg[i].tag == CR_FORMAT_VAL && c->arg[i].i != CR_FORMAT_CONTIGUOUS &&
            c->arg[i].i != CR_FORMAT_PRESERVE)
            return batch_leave(c);
        if (c->arg[i].tag != CR_INTS)
            continue;
        if (!batch_names_size(&c->op->param[i]))
            return batch_leave(c);
        CR_TRY(batch_prepend(c, i, c->size));
    }
    return batch_run(c, result);
}

static bool batch_is_like(const batch_call *c)
{
    return batch_only(c) && (c->op->words & (CR_WORD_IDENTITY | CR_WORD_CAST) ||
                             (c->op->does == CR_DOES_WHOLE && c->op->defer.unread & 1));
}

/* --- any other entry --- */

static void batch_find_history(cr_tensor *t, void *context)
{
    bool *found = context;

    *found |= t->requires_grad;
}

/* Whether autograd will record a call for the batch. */
static bool batch_is_recorded(const batch_call *c)
{
    bool found = false;

    if (cr_thread.no_grad || !c->op->differentiable)
        return false;
    cr_each_tensor(c->op, c->given, batch_find_history, &found);
    return found;
}

static void batch_find_lower(cr_tensor *t, void *context)
{
    uint64_t *level = context;

    if (t->batch && t->level > *level)
        *level = t->level;
}

/* Replaces the tensors of an argument by what `make` makes of them. */
static cr_status
batch_replace(batch_call *c, int i,
              cr_status (*make)(batch_call *, cr_tensor **, cr_tensor *, void *), void *context)
{
    const cr_value *v = &c->arg[i];
    cr_value *list;
    cr_tensor *t;

    if (v->tag == CR_TENSOR) {
        CR_TRY(make(c, &t, v->t, context));
        c->given[i] = cr_of_tensor(t);
    }
    if (v->tag != CR_TENSORS || !v->len)
        return CR_OK;
    list = cr_arena_get(&c->memory, v->len * sizeof *list);
    CR_NEED(list);
    for (uint32_t k = 0; k < v->len; k++) {
        list[k] = v->list[k];
        if (list[k].tag != CR_TENSOR)
            continue;
        CR_TRY(make(c, &t, v->list[k].t, context));
        list[k].t = t;
    }
    c->given[i] = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
    return CR_OK;
}

/* Replaces the batches among the arguments by one example. */
static cr_status batch_select(batch_call *c, cr_tensor **out, cr_tensor *t, void *context)
{
    *out = t;
    if (!batch_has(c, t))
        return CR_OK;
    cr_value arg[] = {cr_of_tensor(t->batch), cr_of_int(0), cr_of_int(*(int64_t *)context)};
    return batch_apply(c, out, cr_entry.select_int, arg, 3);
}

static bool batch_has_lists(const cr_op *op)
{
    for (int k = 0; k < op->result_count; k++)
        if (op->result[k].type != CR_T_TENSOR)
            return true;
    return false;
}

/* Makes result k of the results of all examples. */
static cr_status batch_stack(batch_call *c, cr_value *list, int k, cr_value *result)
{
    int n = c->op->result_count;

    for (int64_t e = 0; e < c->size; e++)
        list[e] = cr_of_tensor(c->more.at[e * n + k]);
    cr_value arg = {.tag = CR_TENSORS, .len = (uint32_t)c->size, .list = list};
    return cr_call_tensor(&result->t, cr_entry.stack, &arg, 1);
}

/* Makes the call for one example after the other, so that autograd records each. */
static cr_status batch_each(batch_call *c, cr_value *result)
{
    batch_call all = {.op = c->op, .size = c->size}; /* owns the results */
    int n = c->op->result_count;
    cr_value *list = cr_arena_get(&c->memory, (size_t)c->size * sizeof *list + 1);
    cr_status st;

    CR_NEED(list);
    CR_GO(cr_vec_reserve(&all.more, (size_t)c->size * n));
    for (int64_t e = 0; e < c->size; e++) {
        cr_value made[CR_MAX_RESULTS];
        batch_give(c);
        for (int i = 0; i < c->op->param_count; i++)
            CR_GO(batch_replace(c, i, batch_select, &e));
        CR_GO(batch_run(c, made));
        for (int k = 0; k < n; k++)
            cr_vec_put(&all.more, made[k].t);
    }
    for (int k = 0; k < n; k++) {
        result[k] = cr_of_tensor(NULL);
        st = batch_stack(&all, list, k, &result[k]);
        if (st) {
            cr_drop_values(result, k);
            goto done;
        }
        result[k].tag = CR_TENSOR;
    }
done:
    batch_drop(&all);
    return st;
}

/* What batches of examples of a lower level become: one batch of all. */
typedef struct {
    uint64_t lower, level;
    int64_t size; /* number of examples of the lower level */
} batch_merge;

static cr_status batch_to_merged(batch_call *c, cr_tensor **out, cr_tensor *t, void *context)
{
    const batch_merge *m = context;
    int64_t size[CR_MAX_DIMS];
    cr_tensor *whole, *all;
    batch_call lower = {.op = c->op, .level = m->lower, .size = m->size};
    cr_status st;

    *out = t;
    if (!batch_has(c, t) && !(t->batch && t->level == m->lower))
        return CR_OK;
    CR_TRY(batch_whole(c, &whole, t));
    CR_GO(batch_whole(&lower, &all, whole));
    size[0] = m->size * c->size;
    memcpy(size + 1, all->size + 2, (all->ndim - 2) * sizeof *size);
    CR_GO(batch_reshape(c, &all, all, all->ndim - 1, size));
    CR_GO(cr_example_new(&all, all, m->level));
    CR_GO(batch_keep(c, all));
    *out = all;
done:
    batch_drop(&lower);
    return st;
}

/* The batch of all results becomes an example of the lower level. */
static cr_status batch_unmerge(cr_value *v, const batch_merge *m, int64_t size)
{
    int64_t sizes[CR_MAX_DIMS];
    cr_tensor *parted, *made;

    for (uint32_t k = 0; v->tag == CR_TENSORS && k < v->len; k++)
        CR_TRY(batch_unmerge((cr_value *)&v->list[k], m, size));
    if (v->tag != CR_TENSOR)
        return CR_OK;
    cr_tensor *all = v->t->batch;
    CR_ASSERT(all && v->t->level == m->level);
    if (all->ndim >= CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a batch of results has more than %d dims", CR_MAX_DIMS);
    sizes[0] = m->size;
    sizes[1] = size;
    memcpy(sizes + 2, all->size + 1, (all->ndim - 1) * sizeof *sizes);
    cr_value arg[] = {cr_of_tensor(all), cr_of_ints(sizes, (size_t)all->ndim + 1)};
    CR_TRY(cr_call_tensor(&parted, cr_entry.reshape, arg, 2));
    cr_status st = cr_example_new(&made, parted, m->lower);
    cr_drop(parted);
    CR_TRY(st);
    cr_drop(v->t);
    v->t = made;
    return CR_OK;
}

/* Batches of examples of a lower level: the call for all examples of both levels. */
static cr_status batch_merged(batch_call *c, uint64_t lower, int64_t lower_size,
                              cr_value *result)
{
    batch_merge m = {.lower = lower, .level = level_new_endless(), .size = lower_size};

    for (int i = 0; i < c->op->param_count; i++)
        CR_TRY(batch_replace(c, i, batch_to_merged, &m));
    CR_TRY(batch_run(c, result));
    for (int k = 0; k < c->op->result_count; k++) {
        cr_status st = batch_unmerge(&result[k], &m, c->size);
        if (st) {
            cr_drop_values(result, c->op->result_count);
            return st;
        }
    }
    return CR_OK;
}

typedef struct {
    uint64_t level;
    int64_t size;
} batch_size_of;

static void batch_find_size_of(cr_tensor *t, void *context)
{
    batch_size_of *s = context;

    if (t->batch && t->level == s->level)
        s->size = t->batch->size[0];
}

static void batch_find_bytes(cr_tensor *t, void *context)
{
    bool *plain = context;

    *plain &= cr_is_host_memory(t->device) && !(t->stages & ~CR_STAGE_BIT(AUTOGRAD)) &&
              (t->address || !t->numel);
}

/* The call of an entry that has no other rule. */
static cr_status batch_other(batch_call *c, cr_value *result)
{
    batch_size_of lower = {0};
    bool plain = true;

    if (cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(CAPTURE))
        return batch_leave(c);
    if (batch_is_recorded(c)) {
        bool each = c->size && c->op->does != CR_DOES_WHOLE && !batch_has_lists(c->op);
        return each ? batch_each(c, result) : batch_leave(c);
    }
    if (!cr_extern_takes_batch(c->op, c->given))
        return batch_leave(c);
    cr_each_tensor(c->op, c->given, batch_find_lower, &lower.level);
    if (lower.level) {
        cr_each_tensor(c->op, c->given, batch_find_size_of, &lower);
        return batch_merged(c, lower.level, lower.size, result);
    }
    CR_TRY(cr_defer_settle_all(c->op, c->given));
    cr_each_tensor(c->op, c->given, batch_find_bytes, &plain);
    if (!plain)
        return batch_leave(c);
    return cr_run_extern_batch(c->op, c->arg, c->given, c->size, result);
}

/* --- which rule --- */

/* Whether dims of a function on tensors are those of the examples: its results are views, or
 * have sizes that the call names. */
static bool batch_has_dims(const cr_op *op)
{
    return op->words & (CR_WORD_SPLIT | CR_WORD_VIEW) ||
           cr_op_find_param(op, "input_sizes") >= 0;
}

/* Dims are counted in the sizes of the result where the call names these. */
static cr_status batch_named_dims(batch_call *c, cr_value *result)
{
    int sizes = cr_op_find_param(c->op, "input_sizes"), ndim = c->arg[0].t->ndim;

    if (sizes >= 0 && c->arg[sizes].tag == CR_INTS) {
        int lost = (int)c->arg[sizes].len - ndim; /* dims that the view left out */
        if (lost != 0 && (lost != 1 || cr_op_find_param(c->op, "step") >= 0))
            return batch_leave(c);
        ndim = (int)c->arg[sizes].len;
    }
    return ndim ? batch_dims(c, ndim, result) : batch_leave(c);
}

static bool batch_writes(const cr_op *op)
{
    return op->does == CR_DOES_INPLACE || op == cr_entry.copy_;
}

/* Tries the rule for the entry's kind. */
static cr_status batch_rule(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    axes_clause axes;
    int right, left = batch_factor_dims(op, &right);
    cr_tensor *only = batch_only(c);

    if (op == cr_entry.copy_)
        return batch_copy(c, result);
    if (op->does == CR_DOES_INPLACE)
        return batch_inplace(c, result);
    if (left)
        return batch_product(c, left, right, result);
    if (op->words & CR_WORD_JOIN || op == cr_entry.stack)
        return batch_join(c, result);
    if (op->does == CR_DOES_MAP)
        return batch_map(c, result);
    if (op->words & CR_WORD_RESHAPE && only)
        return batch_resize(c, result);
    if (op->does == CR_DOES_BODY)
        return batch_pointwise(c, result);
    if (cr_op_find_param(op, "dims") >= 0 &&
        op->param[cr_op_find_param(op, "dims")].type == CR_T_INT)
        return batch_trailing(c, result);
    if (axes_read(&axes, op))
        return batch_axes(c, &axes, result);
    if (batch_is_like(c))
        return batch_like(c, result);
    if (op->does == CR_DOES_FOLD)
        return batch_fold(c, result);
    if (op->fused)
        return batch_fused(c, result);
    if (only && op->words & CR_WORD_VIEW && op->words & CR_WORD_BITS && op->param_count == 1)
        return batch_run(c, result);
    if (only && (op->does != CR_DOES_WHOLE || batch_has_dims(op)))
        return batch_named_dims(c, result);
    return batch_leave(c);
}

/* The batches in a list, where no rule has replaced them. */
static cr_status batch_give_list(batch_call *c, int i)
{
    const cr_value *v = &c->arg[i];
    cr_value *list = cr_arena_get(&c->memory, v->len * sizeof *list + 1);

    CR_NEED(list);
    for (uint32_t k = 0; k < v->len; k++) {
        list[k] = v->list[k];
        if (batch_has_value(c, &list[k]))
            list[k].t = list[k].t->batch;
    }
    c->given[i] = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
    return CR_OK;
}

static cr_status batch_any(batch_call *c, cr_value *result)
{
    batch_give(c);
    CR_TRY(batch_rule(c, result));
    if (!c->left || batch_writes(c->op))
        return CR_OK;
    c->left = false;
    batch_give(c);
    for (int i = 0; i < c->op->param_count; i++)
        if (c->arg[i].tag == CR_TENSORS)
            CR_TRY(batch_give_list(c, i));
    return batch_other(c, result);
}

/* Makes each result an example.  One without the batch's dim is left out, such as the vectors
 * of a decomposition that computes values only: it is that of all examples. */
static cr_status batch_show(batch_call *c, cr_value *v)
{
    cr_tensor *t, *whole;

    for (uint32_t k = 0; v->tag == CR_TENSORS && k < v->len; k++)
        CR_TRY(batch_show(c, (cr_value *)&v->list[k]));
    if (v->tag != CR_TENSOR)
        return CR_OK;
    whole = v->t;
    if (!whole->ndim || whole->size[0] != c->size)
        CR_TRY(batch_whole(c, &whole, v->t));
    CR_TRY(cr_example_new(&t, whole, c->level));
    cr_drop(v->t);
    v->t = t;
    return CR_OK;
}

typedef struct {
    uint64_t level;
    int64_t size;
    bool other; /* a tensor that another handler takes, or that has another layout */
} batch_found;

static void batch_find(cr_tensor *t, void *context)
{
    batch_found *f = context;

    if (!t->batch) {
        f->other |= cr_is_dispatched(t) || t->layout;
        return;
    }
    f->other |= t->batch->layout || !t->batch->ndim;
    if (t->level > f->level) {
        f->level = t->level;
        f->size = t->batch->ndim ? t->batch->size[0] : 0;
    }
}

/* Of an entry whose results' sizes depend on elements: false where these are those of one mask
 * for all examples, in a list of indices. */
static bool batch_sizes_differ(const cr_op *op, const cr_value *arg)
{
    bool listed = false;

    for (int i = 0; i < op->param_count; i++) {
        if (op->param[i].type != CR_T_TENSORS || arg[i].tag != CR_TENSORS)
            continue;
        listed = true;
        for (uint32_t k = 0; k < arg[i].len; k++)
            if (arg[i].list[k].tag == CR_TENSOR && arg[i].list[k].t->batch &&
                (arg[i].list[k].t->dtype == CR_BOOL || arg[i].list[k].t->dtype == CR_U8))
                return true;
    }
    return !listed;
}

/* Entries that no rule takes: programs' own, those that draw numbers or write arguments, and
 * those whose results' sizes depend on elements. */
static bool batch_refuses(const cr_op *op, const cr_value *arg)
{
    if (op->custom || op->updates.params ||
        op->words & (CR_WORD_RANDOM | CR_WORD_SPARSE | CR_WORD_RESETS | CR_WORD_MEETS))
        return true;
    if (op->words & CR_WORD_SIZED_BY_VALUES && batch_sizes_differ(op, arg))
        return true;
    for (int i = batch_writes(op); i < op->param_count; i++)
        if (op->param[i].written)
            return true;
    return false;
}

cr_status cr_batch_call(const cr_op *op, const cr_value *arg, cr_value *result, bool *left)
{
    batch_found found = {0};
    uint32_t was = cr_thread.exclude;
    cr_status st;

    *left = true;
    cr_each_tensor(op, arg, batch_find, &found);
    if (!found.level || found.other || batch_refuses(op, arg) || !level_runs(found.level))
        return CR_OK;
    batch_call c = {.op = op, .arg = arg, .level = found.level, .size = found.size};
    if (op == cr_entry.detach) { /* of a saved result: the batch keeps its history */
        *left = false;
        result[0] = cr_of_tensor(NULL);
        CR_TRY(cr_example_new(&result[0].t, arg[0].t->batch, found.level));
        result[0].tag = CR_TENSOR;
        return CR_OK;
    }
    cr_thread.exclude = was & ~CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
    st = batch_any(&c, result);
    cr_thread.exclude = was;
    *left = !st && c.left;
    if (!st && !c.left && !batch_writes(op))
        for (int k = 0; !st && k < op->result_count; k++)
            if ((st = batch_show(&c, &result[k])))
                cr_drop_values(result, op->result_count);
    batch_drop(&c);
    return st;
}

/* --- compositions --- */

static void batch_find_outer(cr_tensor *t, void *context)
{
    bool *found = context;

    for (t = t->batch ? t->batch : t; t; t = t->batch)
        *found |= t->requires_grad;
}

static void batch_find_written(cr_tensor *t, void *context)
{
    bool *empty = context;

    *empty |= t->batch && t->batch->ndim && !t->batch->size[0];
}

bool cr_batch_comes_apart(const cr_op *op, const cr_value *arg)
{
    bool found = false, empty = false;
    bool parts = op->does == CR_DOES_IS || (op->does == CR_DOES_STEPS && op->body_count) ||
                 (op->does == CR_DOES_WHOLE && op->defer.by_calls);

    if (!parts || op->custom || op->updates.params ||
        op->words & (CR_WORD_RANDOM | CR_WORD_SPARSE | CR_WORD_SIZED_BY_VALUES))
        return false;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return false;
    cr_each_tensor(op, arg, batch_find_written, &empty);
    if (empty)
        return false;
    if (!cr_thread.no_grad && op->grad_count)
        cr_each_tensor(op, arg, batch_find_outer, &found);
    return !found;
}
