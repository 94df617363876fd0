/* Reductions.
 *
 * The input's dims are ordered by stride and merged; then the reduced dims are folded one at a
 * time, the one with the smallest stride first.  A contiguous reduced dim is folded along rows,
 * CR_FOLD_ROW elements in each kernel call; any other as columns, CR_FOLD_COLUMN rows in each
 * call.  The results of the calls are folded again in the same way, so the order (num/order.h)
 * depends on sizes and strides alone. */
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <string.h>

/* LAUNCH_ROWS: rows from which a launch on another device has work for all its processors. */
enum { SHORT = 32768, LAUNCH_ROWS = 1024 };

typedef struct {
    const cr_op *op;
    cr_dtype compute, partial; /* dtype of elements, and of fold results */
    cr_dtype stored;           /* of the results of the last fold, as kernels write them */
    bool joining;              /* folding results of folds */
    bool is_last;              /* folding the last axis */
} folding;

/* The dtype in which a fold of an axis stores its results, `parts` of them for each one. */
static cr_dtype made_dtype(const folding *f, int64_t parts)
{
    return f->is_last && parts == 1 ? f->stored : f->partial;
}

static cr_form form_of(const folding *f, cr_form form)
{
    if (f->joining)
        form = form == CR_FORM_MAIN ? CR_FORM_JOIN : CR_FORM_JOIN_COLUMNS;
    return form;
}

static bool has_kernel(const folding *f, cr_form form)
{
    return f->op->kernel[f->compute][form_of(f, form)];
}

/* True when the elements next to each other in `t` are not so in memory. */
static bool has_gaps(const cr_tensor *t)
{
    return t->size[t->ndim - 1] != 1 && t->stride[t->ndim - 1] != 1;
}

/* True for an input of integers of another dtype than the kernel's. */
static bool converted(const folding *f, const cr_tensor *t)
{
    return !f->joining && t->dtype != f->compute &&
           cr_dtype_category(f->compute) < CR_CAT_FLOAT;
}

/* --- one axis --- */

enum { OUT, IN };

/* A fold over one axis of a tensor, divided into units of work.  Not initialized: a space is
 * long. */
typedef struct {
    cr_placed_kernel kernel;
    cr_status status; /* of launches */
    const void *param;
    char *at[2];    /* results and elements */
    int64_t outer;  /* positions in `space` */
    cr_space space; /* dims other than the axis and, for columns, the contiguous one; bytes */
    int64_t length, axis_stride; /* of the folded axis */
    int64_t parts, part; /* parts of the axis, each folded by one call, and their length */
    int64_t columns;     /* column folds */
    int64_t step,
        out_item; /* bytes from an element to the next, of the contiguous dim or axis */
} axis_job;

/* The kernel for the elements of `in`: those of the input may be halves, and the results.  On
 * the host, its calls get adjacent elements. */
static cr_status place_fold(axis_job *j, const folding *f, const cr_tensor *in, cr_form form)
{
    cr_stored stored = {.any = false};

    cr_stored_note(&stored, OUT, made_dtype(f, j->parts), f->partial);
    if (in->dtype != f->compute && in->dtype != f->partial && !converted(f, in))
        cr_stored_note(&stored, IN, (cr_dtype)in->dtype, f->compute);
    CR_TRY(
        cr_place_stored(&j->kernel, in->device, f->op, f->compute, form_of(f, form), &stored));
    j->kernel.cut.gathers = converted(f, in) || has_gaps(in);
    j->kernel.cut.from = in->dtype;
    j->kernel.cut.to = (uint8_t)(converted(f, in) ? f->compute : (cr_dtype)in->dtype);
    return CR_OK;
}

/* --- one axis: a launch for all indices of the outer dims --- */

static void launch_fold(axis_job *j, cr_launch l, int outer)
{
    cr_status st;

    l.param = j->param;
    l.param_bytes = CR_MAX_ARGS * CR_PARAM_BYTES;
    st = cr_launch_space(&j->kernel, &l, &j->space, outer);
    if (st)
        j->status = st;
}

static void launch_rows(axis_job *j)
{
    const cr_space_dim *rows = cr_space_last(&j->space, 0);

    launch_fold(j,
                (cr_launch){.pointer = (void *const *)j->at,
                            .stride = (int64_t[]){j->out_item, 0, rows->step[IN], j->step},
                            .size = {rows->size, j->length}},
                j->space.ndim ? j->space.ndim - 1 : 0);
}

/* Folds `parts` parts of each row, of `length` elements each, from part `first` on. */
static void launch_parts(axis_job *j, int64_t first, int64_t parts, int64_t length)
{
    void *at[2] = {j->at[OUT] + first * j->out_item, j->at[IN] + first * j->part * j->step};

    if (parts && length)
        launch_fold(
            j,
            (cr_launch){.pointer = at,
                        .stride = (int64_t[]){j->out_item, 0, j->part * j->step, j->step},
                        .size = {parts, length}},
            j->space.ndim);
}

static void launch_all_parts(axis_job *j)
{
    int64_t whole = j->length / j->part;

    launch_parts(j, 0, whole, j->part);
    launch_parts(j, whole, 1, j->length - whole * j->part);
}

/* One launch folds all parts and columns: it takes any number of rows and stores one result for
 * every CR_FOLD_COLUMN rows. */
static void launch_columns(axis_job *j)
{
    launch_fold(j,
                (cr_launch){.pointer = (void *const *)j->at,
                            .stride = (int64_t[]){j->columns * j->out_item, j->out_item,
                                                  j->axis_stride, j->step},
                            .size = {j->length, j->columns}},
                j->space.ndim);
}

/* --- jobs --- */

/* Adds the dims other than the axis and the column, with the results' `unit` bytes for each of
 * their positions. */
static void set_outer(axis_job *j, const cr_tensor *t, int axis, int column, int64_t unit)
{
    int64_t left = j->outer, item = (int64_t)cr_dtype_size((cr_dtype)t->dtype);

    cr_space_start(&j->space, 2);
    for (int d = 0; d < t->ndim; d++) {
        if (d == axis || d == column)
            continue;
        int64_t *step = cr_space_add(&j->space, t->size[d], d);
        left /= t->size[d];
        step[OUT] = left * unit;
        step[IN] = CR_WRAP_MUL(t->stride[d], item);
    }
    cr_space_merge(&j->space, 0);
}

/* Starts a job over the axis of `t`; `column` is the contiguous dim of a fold of columns, or
 * -1.  On another device a kernel folds the blocks of a row, too: parts are for threads. */
static void start_job(axis_job *j, const folding *f, const cr_tensor *t, int axis, int column)
{
    bool rows = column < 0;
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)t->dtype);

    j->status = CR_OK;
    j->at[IN] = t->address;
    j->length = t->size[axis];
    j->step = t->size[t->ndim - 1] == 1 ? item : t->stride[t->ndim - 1] * item;
    j->axis_stride = CR_WRAP_MUL(t->stride[axis], item);
    j->columns = rows ? 1 : t->size[column];
    j->outer = t->numel / j->length / j->columns;
    j->part = rows ? CR_FOLD_ROW : CR_FOLD_COLUMN;
    j->parts = (j->length + j->part - 1) / j->part;
    if (rows && !cr_is_host(t->device) && j->outer >= LAUNCH_ROWS)
        j->parts = 1;
    j->out_item = (int64_t)cr_dtype_size(made_dtype(f, j->parts));
    set_outer(j, t, axis, column, j->parts * j->columns * j->out_item);
}

static cr_status fold_axis(cr_tensor **out, folding *f, cr_tensor *t, int axis,
                           const void *param);

/* Folds the parts' results along dim `axis` of `partial`. */
static cr_status join_axis_parts(cr_tensor **out, folding *f, cr_tensor *partial, int axis,
                                 const void *param)
{
    bool was = f->joining;

    f->joining = true;
    cr_status st = fold_axis(out, f, partial, axis, param);
    f->joining = was;
    cr_drop(partial);
    return st;
}

/* A tensor with the dims of `t`, but `parts` elements along `axis`. */
static cr_status new_partial(cr_tensor **out, const folding *f, const cr_tensor *t, int axis,
                             int64_t parts)
{
    int64_t size[CR_MAX_DIMS];
    int n = 0;

    for (int d = 0; d < t->ndim; d++)
        if (d != axis || parts > 1)
            size[n++] = d == axis ? parts : t->size[d];
    return cr_tensor_new(out, made_dtype(f, parts), t->device, n, size);
}

static cr_status check_job(const axis_job *j, cr_tensor *made)
{
    if (CR_UNLIKELY(j->status))
        cr_drop(made);
    return j->status;
}

static cr_status fold_axis_rows(cr_tensor **out, folding *f, cr_tensor *t, int axis,
                                const void *param)
{
    cr_tensor *made;
    axis_job j;

    start_job(&j, f, t, axis, -1);
    j.param = param;
    CR_TRY(place_fold(&j, f, t, CR_FORM_MAIN));
    CR_TRY(new_partial(&made, f, t, axis, j.parts));
    j.at[OUT] = made->address;
    if (j.parts > 1)
        launch_all_parts(&j);
    else
        launch_rows(&j);
    CR_TRY(check_job(&j, made));
    if (j.parts > 1)
        return join_axis_parts(out, f, made, axis, param);
    *out = made;
    return CR_OK;
}

static cr_status fold_columns(cr_tensor **out, folding *f, cr_tensor *t, int axis,
                              const void *param)
{
    int column = t->ndim - 1;
    cr_tensor *made;
    axis_job j;

    start_job(&j, f, t, axis, column);
    j.param = param;
    CR_TRY(place_fold(&j, f, t, CR_FORM_COLUMNS));
    /* Partial results have the sizes [outer, parts, columns]. */
    int64_t size[3] = {j.outer, j.parts, j.columns};
    CR_TRY(cr_tensor_new(&made, made_dtype(f, j.parts), t->device, 3, size));
    j.at[OUT] = made->address;
    launch_columns(&j);
    CR_TRY(check_job(&j, made));
    if (j.parts > 1)
        CR_TRY(join_axis_parts(&made, f, made, 1, param));
    cr_geometry g = {.ndim = 0};
    int64_t step = j.columns * j.outer;
    for (int d = 0; d < t->ndim; d++)
        if (d != axis) {
            g.size[g.ndim] = t->size[d];
            step /= t->size[d];
            g.stride[g.ndim++] = step;
        }
    cr_status st = cr_tensor_set_geometry(made, &g);
    CR_GIVE(st, out, made, cr_drop);
}

/* Folds `axis`.  The last dim of `t` has the smallest stride; if that is not 1, the kernel's
 * blocks are copied, on another device all of `t`. */
static cr_status fold_axis(cr_tensor **out, folding *f, cr_tensor *t, int axis,
                           const void *param)
{
    cr_tensor *dense = NULL;
    int last = t->ndim - 1;
    cr_status st;

    if (!cr_is_host(t->device) && has_gaps(t))
        CR_TRY(cr_contiguous_plain(&dense, t));
    t = dense ? dense : t;
    st = axis == last ? fold_axis_rows(out, f, t, axis, param)
                      : fold_columns(out, f, t, axis, param);
    cr_drop(dense);
    return st;
}

/* --- the input's dims --- */

/* Dim d of the space is reduced. */
static bool is_reduced(const cr_space *s, int d, uint64_t mask)
{
    return mask >> s->dim[d].number & 1;
}

/* The dims of `t`, with these strides, by decreasing stride.  Reduced neighbours without gaps
 * between them are merged; the others keep their numbers. */
static void find_dims(cr_space *s, const cr_tensor *t, const int64_t *stride, uint64_t mask)
{
    uint64_t apart = 0;

    cr_space_start(s, 1);
    for (int d = 0; d < t->ndim; d++)
        *cr_space_add(s, t->size[d], d) = stride[d];
    cr_space_order(s);
    for (int d = 1; d < s->ndim; d++)
        if (!is_reduced(s, d - 1, mask) || !is_reduced(s, d, mask))
            apart |= (uint64_t)1 << d;
    cr_space_merge(s, apart);
}

/* True if `t` is folded in the order of a copy of it, whose elements are dense.  An expanded
 * tensor may have its dims in another order, and in a part of a tensor neighbours are not
 * merged. */
static bool folds_like_copy(const cr_tensor *t, uint64_t mask)
{
    int64_t stride[CR_MAX_DIMS];
    cr_space mine, copied;
    bool same;

    if (cr_is_dense(t))
        return true;
    cr_like_strides(t->ndim, t->size, t->stride, stride);
    find_dims(&mine, t, t->stride, mask);
    find_dims(&copied, t, stride, mask);
    same = mine.ndim == copied.ndim;
    for (int d = 0; same && d < mine.ndim; d++)
        same = mine.dim[d].number == copied.dim[d].number &&
               mine.dim[d].size == copied.dim[d].size;
    return same;
}

/* The elements that kernels fold.  Where a device's kernels read halves in place, the order of
 * sums is that of the host, which converts them first. */
static cr_status fold_input(cr_tensor **out, const folding *f, cr_tensor *self, uint64_t mask)
{
    if (cr_is_host(self->device) && !cr_is_lazy(self) && converted(f, self)) {
        *out = cr_keep(self); /* the order of integers does not matter */
        return CR_OK;
    }
    bool in_place = self->dtype == f->compute || folds_like_copy(self, mask);
    return in_place ? cr_cast_for_kernel(out, self, f->compute)
                    : cr_cast_plain(out, self, f->compute);
}

/* The geometry of the dims.  If none is reduced, the last one is a reduced dim of one element,
 * because a fold computes its expression for each element even then. */
static void lay_out_dims(cr_geometry *g, const cr_space *s, uint64_t mask)
{
    bool any = false;

    g->ndim = s->ndim;
    for (int d = 0; d < s->ndim; d++) {
        g->size[d] = s->dim[d].size;
        g->stride[d] = s->dim[d].step[0];
        any = any || is_reduced(s, d, mask);
    }
    if (any)
        return;
    g->size[g->ndim] = g->stride[g->ndim] = 1;
    g->ndim++;
}

static cr_status fold_all(cr_tensor **out, folding *f, cr_tensor *self, const cr_space *s,
                          uint64_t mask, const void *param)
{
    cr_geometry g;
    cr_tensor *t;
    int last = 0;

    lay_out_dims(&g, s, mask);
    while (last < s->ndim && !is_reduced(s, last, mask))
        last++;
    CR_TRY(cr_tensor_over(&t, self->storage, (cr_dtype)self->dtype, g.ndim, g.size, g.stride,
                          self->offset));
    cr_storage_keep(self->storage);
    for (int d = g.ndim - 1; d >= 0; d--) {
        if (d < s->ndim && !is_reduced(s, d, mask))
            continue;
        cr_tensor *next = NULL;
        f->is_last = d == last;
        cr_status st = fold_axis(&next, f, t, d, param);
        cr_drop(t);
        CR_TRY(st);
        t = next;
        f->joining = true;
    }
    *out = t;
    return CR_OK;
}

/* --- results --- */

/* The error of a fold of no elements that has no identity. */
static cr_status refuse_empty(const cr_op *op, const cr_value *arg)
{
    int p = cr_op_find_param(op, "dim");
    const cr_tensor *self = arg[0].t;

    for (uint32_t k = 0; p >= 0 && arg[p].tag == CR_INTS && k < arg[p].len; k++) {
        int64_t d = arg[p].ints[k];
        if (self->ndim && !self->size[d < 0 ? d + self->ndim : d])
            return cr_fail(CR_INDEX, "%s(): Expected reduction dim %lld to have non-zero size.",
                           op->name, (long long)d);
    }
    return cr_fail(CR_RUNTIME,
                   "%s(): Expected reduction dim to be specified for input.numel() == 0. "
                   "Specify the reduction dim with the 'dim' argument.",
                   op->name);
}

static cr_status identity_of(cr_scalar *out, const cr_op *op, const cr_value *arg)
{
    const char *name = op->fold.rule->name;

    if (!strcmp(name, "add") || !strcmp(name, "or"))
        *out = cr_scalar_int(0);
    else if (!strcmp(name, "mul") || !strcmp(name, "and"))
        *out = cr_scalar_int(1);
    else
        return refuse_empty(op, arg);
    return CR_OK;
}

/* The sizes of a result; kept_dim: for each dim that of the input, or -2 if it is reduced. */
typedef struct {
    int ndim;
    int64_t size[CR_MAX_DIMS];
    int kept_dim[CR_MAX_DIMS];
} fold_shape;

/* Makes the geometry under which the folded tensor, whose dims are the kept ones in the order
 * of the space, has the dims of the result. */
static void view_back(cr_geometry *g, const cr_tensor *folded, const cr_space *s, uint64_t mask,
                      const fold_shape *result)
{
    g->ndim = result->ndim;
    g->offset = 0;
    for (int r = 0; r < result->ndim; r++) {
        int k = 0;
        g->size[r] = result->size[r];
        g->stride[r] = 0;
        for (int d = 0; d < s->ndim; d++) {
            if (is_reduced(s, d, mask))
                continue;
            if (s->dim[d].number == result->kept_dim[r])
                g->stride[r] = folded->stride[k];
            k++;
        }
    }
}

typedef struct {
    cr_dtype compute, result;
    uint64_t mask;
    bool keep;
    int64_t count; /* elements that go into one result */
} fold_facts;

static void find_shape(fold_shape *out, const cr_tensor *self, const fold_facts *x)
{
    int n = 0;

    for (int d = 0; d < self->ndim; d++) {
        bool reduced = x->mask >> d & 1;
        if (reduced && !x->keep)
            continue;
        out->kept_dim[n] = reduced ? -2 : d;
        out->size[n++] = reduced ? 1 : self->size[d];
    }
    out->ndim = n;
}

static cr_status new_result(cr_tensor **out, const fold_shape *shape, const cr_tensor *self,
                            const fold_facts *x)
{
    return cr_tensor_new(out, x->result, self->device, shape->ndim, shape->size);
}

/* The folded tensor itself, if it has the result's dtype and is row-major in the result's dims;
 * or else its copy.  *out may be set on failure, too. */
static cr_status fold_result(cr_tensor **out, cr_tensor *folded, cr_geometry *g,
                             const fold_shape *shape, const fold_facts *x)
{
    if (folded->dtype == x->result && cr_is_contiguous(g->ndim, g->size, g->stride)) {
        cr_row_major_strides(g->stride, g->ndim, g->size);
        *out = cr_keep(folded);
        return cr_tensor_set_geometry(folded, g);
    }
    CR_TRY(new_result(out, shape, folded, x));
    cr_view to = cr_view_of(*out);
    cr_view from = {folded->address, g->size,        g->stride, (uint8_t)g->ndim,
                    folded->dtype,   folded->device, false};
    return cr_copy_elements(&to, &from);
}

/* *out may be set on failure, too. */
static cr_status fold_into(cr_tensor **out, const fold_shape *shape, const cr_op *op,
                           const cr_value *arg, cr_tensor *self, const fold_facts *x)
{
    folding f = {.op = op, .compute = cr_dtype_compute(x->compute)};
    cr_tensor *input = NULL, *folded = NULL;
    cr_space s;
    cr_params params;
    cr_geometry g;
    cr_status st;

    bool logical = !strcmp(op->fold.rule->name, "and") || !strcmp(op->fold.rule->name, "or");
    f.partial = logical ? CR_BOOL : f.compute;
    bool stores = !logical && !cr_is_host(self->device) && !cr_is_lazy(self) &&
                  cr_kernel_accepts(self->device, x->result, f.compute);
    f.stored = stores ? x->result : f.partial;
    CR_GO(has_kernel(&f, CR_FORM_MAIN) && has_kernel(&f, CR_FORM_COLUMNS)
              ? CR_OK
              : cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op->name,
                        cr_dtype_infos[x->compute].legacy));
    CR_GO(fold_input(&input, &f, self, x->mask));
    cr_start_params(&params, self->device);
    cr_fill_params(&params, op, arg, f.compute);
    find_dims(&s, input, input->stride, x->mask);
    CR_GO(fold_all(&folded, &f, input, &s, x->mask, params.slot));
    view_back(&g, folded, &s, x->mask, shape);
    st = fold_result(out, folded, &g, shape, x);
done:
    cr_drop(input);
    cr_drop(folded);
    return st;
}

static const cr_value *arg_at(const cr_value *arg, int at)
{
    static const cr_value none = {.tag = CR_NONE};

    return at < 0 ? &none : &arg[at];
}

static cr_status gather_facts(fold_facts *x, const cr_op *op, const cr_value *arg)
{
    const cr_tensor *self = arg[0].t;
    const cr_value *dim = arg_at(arg, op->fold.dim), *keep = arg_at(arg, op->fold.keepdim);

    x->keep = keep->tag == CR_TRUTH && keep->i;
    CR_TRY(cr_dim_mask(&x->mask, dim, self->ndim));
    x->count = 1;
    for (int d = 0; d < self->ndim; d++)
        if (x->mask >> d & 1 && CR_MUL_OVERFLOW(x->count, self->size[d], &x->count))
            x->count = INT64_MAX; /* of a tensor without elements: there is no result */
    return cr_decide_types(op, arg, &x->compute, &x->result);
}

/* True when the last dims of `t`, and no others, are reduced. */
static bool reduces_last_dims(const cr_tensor *t, uint64_t mask)
{
    int first = 0;

    while (first < t->ndim && !(mask >> first & 1))
        first++;
    return mask == (first < t->ndim ? (~(uint64_t)0 >> (64 - t->ndim)) >> first << first : 0);
}

/* True for the fast path: the tensor is contiguous, has the kernel's compute type and is small
 * enough for one thread. */
static bool is_short(const cr_op *op, const cr_value *arg, const fold_facts *x)
{
    const cr_tensor *self = arg[0].t;

    return self->contiguous && self->numel && self->numel <= SHORT &&
           reduces_last_dims(self, x->mask) && self->address && cr_is_host(self->device) &&
           x->compute == self->dtype && x->result == self->dtype &&
           cr_dtype_compute(x->compute) == x->compute && x->compute != CR_BOOL &&
           op->kernel[x->compute][CR_FORM_MAIN] && !op->returns[0];
}

/* Folds all rows in one kernel call, which also joins the blocks of a row. */
static void fold_short(cr_tensor *out, const cr_op *op, const cr_value *arg,
                       const fold_facts *x)
{
    const cr_tensor *self = arg[0].t;
    int64_t item = (int64_t)cr_dtype_size(x->compute);
    int64_t size[2] = {self->numel / x->count, x->count};
    int64_t stride[4] = {item, 0, x->count * item, item};
    cr_params params;

    cr_fill_params(&params, op, arg, x->compute);
    op->kernel[x->compute][CR_FORM_MAIN]((void *[2]){out->address, self->address}, stride, size,
                                         params.slot);
}

/* The result of a call whose elements are not folded on the way: in one kernel call, or there
 * are none.  *out may be set on failure, too. */
static cr_status fold_direct(cr_tensor **out, const fold_shape *shape, const cr_op *op,
                             const cr_value *arg, const fold_facts *x, bool is_one_call)
{
    cr_scalar identity;

    if (x->count == 0)
        CR_TRY(identity_of(&identity, op, arg));
    CR_TRY(new_result(out, shape, arg[0].t, x));
    if (is_one_call)
        fold_short(*out, op, arg, x);
    if (is_one_call || !cr_has_bytes((*out)->device) || !(*out)->numel)
        return CR_OK;
    cr_view to = cr_view_of(*out);
    return cr_fill_elements(&to, identity);
}

cr_status cr_run_fold(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *out = NULL;
    fold_shape shape;
    fold_facts x;
    cr_status st;

    CR_TRY(gather_facts(&x, op, arg));
    find_shape(&shape, self, &x);
    bool one = is_short(op, arg, &x);
    st = one || !self->numel || !cr_has_bytes(self->device)
             ? fold_direct(&out, &shape, op, arg, &x, one)
             : fold_into(&out, &shape, op, arg, self, &x);
    if (st)
        cr_drop(out);
    else
        result[0] = cr_of_tensor(out);
    return st;
}
