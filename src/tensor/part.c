/* Parts of results (part.h).
 *
 * A result is cut into boxes, as in stated.c.  A box has lines along its last dim; a range of
 * elements is a number of whole lines of each box, and parts of at most two.
 *
 * Invariant: the offset of a box's line in the result grows with the line's number, because
 * the result is row-major. */
#include "tensor/part.h"
#include "base/memory.h"
#include "space/space.h"
#include "tensor/stated.h"
#include <string.h>

/* The most boxes of a result, because every read searches all boxes, and the most dims of a
 * box. */
enum { PART_BOXES = 32, PART_DIMS = 12 };

/* Offsets and strides are in elements, of the result, of the source and of the index. */
typedef struct {
    int64_t to, from, index;
    int source, ndim;
    bool fill;
    int pieces; /* of its lines, from `piece` on; 0: not cut */
    const cr_move_part *piece;
    int64_t size[PART_DIMS], to_stride[PART_DIMS], from_stride[PART_DIMS],
        index_stride[PART_DIMS];
} part_box;

struct cr_part {
    const cr_op *op;
    cr_stated_plan plan; /* of a stated entry */
    cr_value arg[CR_MAX_ARGS];
    cr_view view[CR_PART_TENSORS];
    int64_t *numbers;  /* lists of the arguments, sizes and strides of the views */
    int tensors;       /* among the arguments */
    int source, index; /* numbers of tensors; index -1: none */
    int64_t item;
    _Alignas(16) char fill[16];
    int boxes;
    part_box box[PART_BOXES];
};

/* --- arguments --- */

static int64_t part_numbers(const cr_value *v)
{
    int64_t n = 0;

    if (v->tag == CR_INTS || v->tag == CR_TRUTHS)
        return v->len;
    if (v->tag == CR_VIEW)
        return 2 * v->view->ndim;
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        n += part_numbers(&v->list[i]);
    return n;
}

static int64_t *part_copy(int64_t **at, const int64_t *from, int n)
{
    int64_t *to = *at;

    memcpy(to, from, (size_t)n * sizeof *to);
    *at += n;
    return to;
}

static cr_status part_view(cr_part *p, int64_t **at, const cr_view *v)
{
    if (p->tensors == CR_PART_TENSORS)
        return cr_fail(CR_VALUE, "%s of too many tensors", p->op->name);
    p->view[p->tensors] = *v;
    p->view[p->tensors].size = part_copy(at, v->size, v->ndim);
    p->view[p->tensors++].stride = part_copy(at, v->stride, v->ndim);
    return CR_OK;
}

static cr_status part_arg(cr_part *p, int64_t **at, int i, const cr_value *v)
{
    p->arg[i] = *v;
    if (v->tag == CR_INTS || v->tag == CR_TRUTHS)
        p->arg[i].ints = part_copy(at, v->ints, (int)v->len);
    else if (v->tag == CR_VIEW) {
        CR_TRY(part_view(p, at, v->view));
        p->arg[i].view = &p->view[p->tensors - 1];
    }
    for (uint32_t k = 0; v->tag == CR_TENSORS && k < v->len; k++)
        CR_TRY(part_view(p, at, v->list[k].view));
    return CR_OK;
}

static cr_status part_args(cr_part *p, const cr_value *arg)
{
    int64_t count = 0, *at;

    for (int i = 0; i < p->op->param_count; i++)
        count += part_numbers(&arg[i]);
    p->numbers = at = cr_alloc((size_t)(count + 1) * sizeof *at);
    CR_NEED(at);
    for (int i = 0; i < p->op->param_count; i++)
        CR_TRY(part_arg(p, &at, i, &arg[i]));
    return CR_OK;
}

/* --- boxes --- */

enum { TO, FROM, INDEX };

static void box_add(part_box *b, int64_t size, int64_t to, int64_t from, int64_t index)
{
    b->size[b->ndim] = size;
    b->to_stride[b->ndim] = to;
    b->from_stride[b->ndim] = from;
    b->index_stride[b->ndim++] = index;
}

static void box_add_dims(part_box *b, cr_space *s)
{
    cr_space_merge(s, 0);
    for (int d = 0; d < s->ndim; d++)
        box_add(b, s->dim[d].size, s->dim[d].step[TO], s->dim[d].step[FROM],
                s->dim[d].step[INDEX]);
}

static cr_status part_box_new(cr_part *p, part_box **out, int ndim)
{
    if (p->boxes == PART_BOXES || ndim > PART_DIMS)
        return cr_fail(CR_VALUE, "%s in too many pieces", p->op->name);
    *out = &p->box[p->boxes++];
    return CR_OK;
}

/* Adds a dim of size 1 for the lines, unless the last dim's elements are adjacent in the
 * result. */
static void box_end(part_box *b)
{
    if (!b->ndim || (b->to_stride[b->ndim - 1] != 1 && b->size[b->ndim - 1] != 1))
        box_add(b, 1, 1, 0, 0);
}

/* `dim` has CR_STATED_DIM lists of `ndim` numbers.  The dim of a box's pieces is not merged. */
static void box_set_dims(part_box *b, const int64_t *dim, int ndim)
{
    cr_space s;

    cr_space_start(&s, INDEX + 1);
    int d = 0;
    for (; d < ndim - (b->pieces > 0); d++) {
        int64_t *step = cr_space_add(&s, dim[d], d);
        for (int k = 0; k <= INDEX; k++)
            step[k] = dim[(1 + k) * ndim + d];
    }
    box_add_dims(b, &s);
    if (b->pieces)
        box_add(b, dim[d], dim[ndim + d], dim[2 * ndim + d], dim[3 * ndim + d]);
    box_end(b);
}

static cr_status part_stated_boxes(cr_part *p)
{
    const cr_stated_plan *plan = &p->plan;
    const cr_move_part *piece = plan->part.at;

    for (size_t i = 0; i < plan->box.len; piece += plan->box.at[i++].parts) {
        const cr_stated_box *from = &plan->box.at[i];
        const int64_t *dim = plan->dim.at + i * (size_t)(CR_STATED_DIM * plan->ndim);
        part_box *b = NULL;
        CR_TRY(part_box_new(p, &b, plan->ndim + 1));
        *b = (part_box){.to = from->to,
                        .from = from->from,
                        .index = from->index,
                        .source = p->source,
                        .fill = from->fill,
                        .pieces = from->parts,
                        .piece = piece};
        box_set_dims(b, dim, plan->ndim);
    }
    return CR_OK;
}

static int part_number_of(const cr_part *p, int param)
{
    return param < 0 ? -1 : (int)(p->arg[param].view - p->view);
}

static cr_status part_stated(cr_part *p, const cr_view *result)
{
    CR_TRY(cr_stated_make(&p->plan, p->op, p->arg, result));
    p->source = part_number_of(p, p->plan.from);
    p->index = part_number_of(p, p->plan.picks.index);
    if (p->source < 0 || p->view[p->source].dtype != result->dtype)
        return cr_fail(CR_VALUE, "%s converts", p->op->name);
    if (p->plan.fill)
        CR_TRY(cr_stated_number(p->fill, p->plan.fill, p->op, p->arg, (cr_dtype)result->dtype));
    return part_stated_boxes(p);
}

/* One box for each tensor of a list. */
static cr_status part_list(cr_part *p, const cr_view *result)
{
    int64_t at = 0, stride[CR_MAX_DIMS], to = 1;
    cr_stated_list_of l;
    cr_space s;

    CR_TRY(cr_stated_list(&l, p->op, p->arg, result));
    for (int d = result->ndim - 1; d >= 0; to *= result->size[d--])
        stride[d] = to;
    for (int k = 0; k < p->tensors; k++) {
        const cr_view *v = &p->view[k];
        part_box *b = NULL;
        if (v->dtype != result->dtype || v->ndim + l.stacked != result->ndim)
            return cr_fail(CR_VALUE, "%s converts", p->op->name);
        CR_TRY(part_box_new(p, &b, v->ndim + 1));
        *b = (part_box){.to = at * stride[l.dim], .source = k};
        cr_space_start(&s, INDEX + 1);
        for (int d = 0; d < v->ndim; d++) {
            int64_t *step = cr_space_add(&s, v->size[d], d);
            step[TO] = stride[d + (l.stacked && d >= l.dim)];
            step[FROM] = v->stride[d];
            step[INDEX] = 0;
        }
        box_add_dims(b, &s);
        box_end(b);
        at += l.stacked ? 1 : v->size[l.dim];
    }
    return CR_OK;
}

bool cr_op_has_parts(const cr_op *op)
{
    bool wraps = op->loop.index_count && op->loop.index[0].low;

    return op->does == CR_DOES_LOOP && !op->loop.start && !op->loop.window &&
           op->result_count == 1 && !wraps;
}

cr_status cr_part_new(cr_part **out, const cr_op *op, const cr_value *arg,
                      const cr_view *result)
{
    cr_part *p = cr_alloc_zero(sizeof *p);
    cr_status st;

    CR_NEED(p);
    p->op = op;
    p->index = -1;
    p->item = (int64_t)cr_dtype_size((cr_dtype)result->dtype);
    CR_GO(part_args(p, arg));
    CR_GO(cr_stated_has_list(op) ? part_list(p, result) : part_stated(p, result));
    *out = p;
    return CR_OK;
done:
    cr_part_drop(p);
    return st;
}

void cr_part_drop(cr_part *p)
{
    if (!p)
        return;
    cr_vec_drop(&p->plan.box);
    cr_vec_drop(&p->plan.dim);
    cr_vec_drop(&p->plan.part);
    cr_free(p->numbers);
    cr_free(p);
}

/* --- lines --- */

static void line_fill(const cr_part *p, char *to, int64_t n)
{
    static const char zeros[16];

    if (!memcmp(p->fill, zeros, (size_t)p->item)) {
        memset(to, 0, (size_t)(n * p->item));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * p->item, p->fill, (size_t)p->item);
}

/* Elements [first, last) of a line in pieces, whose `at` counts from the line's start. */
static void line_pieces(const cr_part *p, const part_box *b, const char *from, int64_t first,
                        int64_t last, char *to)
{
    for (int i = 0; i < b->pieces; i++) {
        const cr_move_part *m = &b->piece[i];
        int64_t begin = m->at > first ? m->at : first,
                end = m->at + m->n < last ? m->at + m->n : last;
        char *there = to + (begin - first) * p->item;
        if (begin >= end)
            continue;
        if (m->fill)
            line_fill(p, there, end - begin);
        else
            cr_move_line(there, from + (m->from + (begin - m->at) * m->stride) * p->item,
                         m->stride, end - begin, p->item);
    }
}

/* --- ranges --- */

/* A line of a box: its place along the box's other dims, and its offsets. */
typedef struct {
    int64_t at[PART_DIMS], to, from, index;
} part_place;

static void place_move(part_place *x, const part_box *b, int d, int64_t by)
{
    x->at[d] += by;
    x->to += by * b->to_stride[d];
    x->from += by * b->from_stride[d];
    x->index += by * b->index_stride[d];
}

/* The next line; false after the last one. */
static bool place_next(part_place *x, const part_box *b)
{
    for (int d = b->ndim - 2; d >= 0; d--) {
        if (x->at[d] + 1 < b->size[d]) {
            place_move(x, b, d, 1);
            return true;
        }
        place_move(x, b, d, -x->at[d]);
    }
    return false;
}

/* The first line that ends after element `at` of the result; false if there is none. */
static bool place_first(part_place *x, const part_box *b, int64_t at)
{
    bool past = false; /* the rest of the dims are at their ends */

    *x = (part_place){.to = b->to, .from = b->from, .index = b->index};
    for (int d = 0; d + 1 < b->ndim && at > x->to; d++) {
        int64_t i = past ? b->size[d] : (at - x->to) / b->to_stride[d];
        past = i >= b->size[d];
        place_move(x, b, d, past ? b->size[d] - 1 : i);
    }
    return x->to + b->size[b->ndim - 1] > at || place_next(x, b);
}

/* Elements [first, last) of `rows` lines of a box, stored from `to` on.  Several lines are
 * always whole. */
typedef struct {
    int64_t rows, first, last;
    char *to;
} part_lines;

/* The stride from one line of a box to the next; 0 if the box has one line. */
static int64_t lines_stride(const part_box *b, const int64_t *stride)
{
    return b->ndim > 1 ? stride[b->ndim - 2] : 0;
}

static bool lines_pick(const cr_part *p, const part_box *b, const char *from, const char *index,
                       const part_lines *l)
{
    int64_t n = l->last - l->first, item = p->item, size = p->plan.picks.is32 ? 4 : 8;
    int64_t down = lines_stride(b, b->index_stride) * size,
            along = b->index_stride[b->ndim - 1] * size;
    int64_t sizes[2] = {l->rows, n};
    int64_t stride[7] = {lines_stride(b, b->to_stride) * item,
                         item,
                         lines_stride(b, b->from_stride) * item,
                         b->from_stride[b->ndim - 1] * item,
                         down,
                         along,
                         p->plan.unit};

    if (!along && !cr_move_row_within(index, down, l->rows, p->plan.extent, p->plan.picks.is32))
        return false;
    for (int64_t r = 0; along && r < l->rows; r++)
        if (!cr_move_row_within(index + r * down, along, n, p->plan.extent, p->plan.picks.is32))
            return false;
    p->plan.picks.kernel[p->plan.picks.is32](
        (void *[3]){l->to, (char *)(uintptr_t)from, (char *)(uintptr_t)index}, stride, sizes,
        NULL);
    return true;
}

static bool lines_read(const cr_part *p, const part_box *b, const part_place *x,
                       char *const *data, const part_lines *l)
{
    int64_t step = b->from_stride[b->ndim - 1], n = l->last - l->first, item = p->item;
    int64_t down = lines_stride(b, b->to_stride) * item,
            from_down = lines_stride(b, b->from_stride) * item,
            size = p->plan.picks.is32 ? 4 : 8;
    const char *from = b->fill ? NULL : data[b->source] + x->from * item;

    if (!b->fill && p->index >= 0)
        return lines_pick(
            p, b, from + l->first * step * item,
            data[p->index] + (x->index + l->first * b->index_stride[b->ndim - 1]) * size, l);
    for (int64_t r = 0; r < l->rows; r++) {
        char *to = l->to + r * down;
        if (b->fill)
            line_fill(p, to, n);
        else if (b->pieces)
            line_pieces(p, b, from + r * from_down, l->first, l->last, to);
        else
            cr_move_line(to, from + r * from_down + l->first * step * item, step, n, item);
    }
    return true;
}

/* The number of whole lines that end before element `end`: line x and the lines after it along
 * the second-last dim. */
static int64_t whole_lines(const part_box *b, const part_place *x, int64_t end)
{
    int64_t left = end - b->size[b->ndim - 1] - x->to, n;

    if (b->ndim < 2 || left < 0)
        return left >= 0;
    n = left / b->to_stride[b->ndim - 2] + 1;
    return n < b->size[b->ndim - 2] - x->at[b->ndim - 2]
               ? n
               : b->size[b->ndim - 2] - x->at[b->ndim - 2];
}

/* Copies the elements of a box that are in [at, at + n) of the result.  False if an index is
 * outside. */
static bool box_read(const cr_part *p, const part_box *b, char *const *data, int64_t at,
                     int64_t n, char *to)
{
    int64_t length = b->size[b->ndim - 1];
    part_place x;
    bool more = place_first(&x, b, at), inside = true;

    while (more && inside && x.to < at + n) {
        int64_t first = x.to < at ? at - x.to : 0,
                rows = first ? 0 : whole_lines(b, &x, at + n);
        part_lines l = {rows ? rows : 1, first, x.to + length > at + n ? at + n - x.to : length,
                        to + (x.to + first - at) * p->item};
        inside = lines_read(p, b, &x, data, &l);
        if (rows > 1)
            place_move(&x, b, b->ndim - 2, rows - 1);
        more = place_next(&x, b);
    }
    return inside;
}

bool cr_part_read(const cr_part *p, char *const *data, int64_t at, int64_t n, char *to)
{
    for (int i = 0; i < p->boxes; i++)
        if (!box_read(p, &p->box[i], data, at, n, to))
            return false;
    return true;
}

/* The address of element `at` of a line, if the next n are its neighbours; or NULL. */
static const char *line_place(const cr_part *p, const part_box *b, const char *from, int64_t at,
                              int64_t n)
{
    if (!b->pieces)
        return b->from_stride[b->ndim - 1] == 1 ? from + at * p->item : NULL;
    for (int i = 0; i < b->pieces; i++) {
        const cr_move_part *m = &b->piece[i];
        if (m->at <= at && at + n <= m->at + m->n && m->stride == 1 && !m->fill)
            return from + (m->from + at - m->at) * p->item;
    }
    return NULL;
}

const char *cr_part_place(const cr_part *p, char *const *data, int64_t at, int64_t n)
{
    for (int i = 0; p->index < 0 && i < p->boxes; i++) {
        const part_box *b = &p->box[i];
        part_place x;
        if (b->fill || !place_first(&x, b, at) || x.to > at ||
            x.to + b->size[b->ndim - 1] < at + n)
            continue;
        return line_place(p, b, data[b->source] + x.from * p->item, at - x.to, n);
    }
    return NULL;
}

cr_status cr_part_check(const cr_part *p, char *const *data)
{
    cr_value arg[CR_MAX_ARGS];
    cr_view view[CR_PART_TENSORS];

    if (p->index < 0)
        return CR_OK;
    memcpy(arg, p->arg, sizeof arg);
    memcpy(view, p->view, sizeof view);
    for (int k = 0; k < p->tensors; k++)
        view[k].data = data[k];
    for (int i = 0; i < p->op->param_count; i++)
        if (arg[i].tag == CR_VIEW)
            arg[i].view = &view[p->arg[i].view - p->view];
    return cr_stated_check(p->plan.picks.bounds, p->op, arg, 0, p->plan.extent);
}
