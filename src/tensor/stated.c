/* Entries that are stated as loops (clauses `axes`, `loop`, `index`).
 *
 * A loop that reads, result[AXES] = source[INDICES] or GUARD ? source[INDICES] : number, is
 * carried out as moves (stated_run.c).  Each index is a function of one axis, which is linear
 * over pieces of the axis, or an element of an index tensor.  The result is cut into boxes
 * where all indices are linear and the guard is constant: a padded row is a prefix, a body and
 * a suffix.  A box is one move.
 *
 * A loop that writes, result = START; result[INDICES] += VALUE, is the same with the result in
 * the source's place.
 *
 * Indices by `axis % n` and `axis // n` cut an axis into two axes.  An index that is a sum over
 * several axes (`i * step + k`) has one map for each axis. */
#include "base/integer.h"
#include "loop/build.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/stated_piece.h"

cr_status cr_stated_refuse(const stated *s, const cr_rule *r, const char *what)
{
    return cr_fail(CR_RUNTIME, "%s:%d: in %s: %s%s%s", s->op->text.file, s->op->text.line,
                   s->op->name, r->name ? r->name : "", r->name ? ": " : "", what);
}

/* --- names of axes --- */

/* The number of the axis name in a slot, or -1. */
static int stated_name(const stated *s, const cr_rule *r)
{
    int k = s->op->loop.axis_count ? r->slot - s->op->loop.axis[0].slot : -1;

    return r->kind == CR_RULE_NAME && k >= 0 && k < s->op->loop.axis_count ? k : -1;
}

/* The rule of the let that a name refers to, or NULL. */
static const cr_rule *stated_let(const stated *s, const cr_rule *r)
{
    int k = r->slot - s->op->slots.let;

    return r->kind == CR_RULE_NAME && k >= 0 && k < s->op->let_count ? s->op->lets[k].rule
                                                                     : NULL;
}

unsigned cr_stated_names(const stated *s, const cr_rule *r)
{
    int name = stated_name(s, r);
    unsigned all = name >= 0 ? 1u << name : 0;

    if (stated_let(s, r))
        return s->let_names[r->slot - s->op->slots.let];

    for (int i = 0; i < r->count; i++)
        all |= cr_stated_names(s, r->args[i]);
    return all;
}

/* `total` of a pack: the sum over its axes. */
static bool stated_is_total(const cr_rule *r)
{
    return r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_total;
}

static bool stated_has_total(const cr_rule *r)
{
    bool found = stated_is_total(r);

    for (int i = 0; i < r->count && !found; i++)
        found = stated_has_total(r->args[i]);
    return found;
}

/* --- pieces (stated_piece.h) --- */

static int64_t piece_least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t divided_up(int64_t a, int64_t b) { return -cr_floor_div(-a, b); }

/* The end of the piece that lasts `n` steps from p. */
static int64_t piece_after(const place *p, int64_t n)
{
    return n >= INT64_MAX - p->t ? INT64_MAX : p->t + n;
}

/* The end of the piece whose last step is the n-th from p on. */
static int64_t piece_past(const place *p, int64_t n)
{
    return n == INT64_MAX ? n : piece_after(p, n + 1);
}

static cr_status piece_constant(const place *p, const cr_rule *r, piece *out)
{
    cr_value v;

    CR_TRY(cr_frame_eval(&p->s->f, r, &v));
    *out = (piece){v.i, 0, INT64_MAX};
    if (v.tag == CR_INT || v.tag == CR_TRUTH)
        return CR_OK;
    if ((v.tag != CR_INTS && v.tag != CR_TRUTHS) || (uint32_t)p->item >= v.len)
        return cr_stated_refuse(p->s, r, "an index needs one integer for each axis");
    out->value = v.ints[p->item];
    return CR_OK;
}

static piece piece_varying(const place *p)
{
    return p->step ? (piece){p->start + p->step * p->t, p->step, INT64_MAX}
                   : (piece){p->t, 1, INT64_MAX};
}

static cr_status piece_of_name(const place *p, const cr_rule *r, piece *out)
{
    int name = stated_name(p->s, r);
    const cr_rule *let = stated_let(p->s, r);
    int axis;

    if (p->bound && r->kind == CR_RULE_NAME && r->slot == p->bound) {
        *out = piece_varying(p);
        return CR_OK;
    }
    if (name < 0)
        return let && cr_stated_names(p->s, r) ? cr_stated_piece(p, let, out)
                                               : piece_constant(p, r, out);
    axis =
        p->joint ? p->s->first[name] + (p->s->op->loop.axis[name].pack ? p->item : 0) : p->axis;
    *out = p->at_zero >> name & 1 ? (piece){0, 0, INT64_MAX}
           : axis == p->axis      ? piece_varying(p)
                                  : (piece){p->s->at[axis], 0, INT64_MAX};
    return CR_OK;
}

/* Notes that the axis goes in steps of n / gcd(n, slope) without a division's rest. */
static void piece_add_period(const place *p, int64_t n, int64_t slope)
{
    int64_t step = n / cr_common_divisor(n, cr_magnitude(slope));

    if (p->period)
        *p->period = CR_WRAP_MUL(*p->period / cr_common_divisor(*p->period, step), step);
}

/* a // n, or a % n when `rest`, for a constant n. */
static cr_status piece_divide(const place *p, const cr_rule *r, piece a, piece n, bool rest,
                              piece *out)
{
    int64_t quotient, over;

    if (n.value <= 0 || n.slope)
        return cr_stated_refuse(p->s, r,
                                "an index is divided by a number that is not positive");
    quotient = cr_floor_div(a.value, n.value);
    over = a.value % n.value;
    over += over < 0 ? n.value : 0;
    *out = (piece){rest ? over : quotient, rest ? a.slope : 0, piece_least(a.end, n.end)};
    if (a.slope % n.value == 0) {
        out->slope = rest ? 0 : a.slope / n.value;
        return CR_OK;
    }
    piece_add_period(p, n.value, a.slope);
    if (a.slope > 0)
        out->end = piece_least(out->end, piece_after(p, divided_up(n.value - over, a.slope)));
    else if (a.slope < 0)
        out->end = piece_least(out->end, piece_past(p, over / -a.slope));
    return CR_OK;
}

/* The piece on which `a` is the smaller, or else the larger, of a and b; or that of b.  Sums
 * and differences wrap around, as they do when elements are computed one by one: an index that
 * wrapped (a pad by -2^63) is still ordered by its true value. */
static piece piece_choose(const place *p, piece a, piece b, bool smaller)
{
    int64_t sign = smaller ? 1 : -1;
    int64_t gap = CR_WRAP_MUL(sign, CR_WRAP_ADD(a.value, CR_WRAP_MUL(-1, b.value)));
    int64_t rate = sign * (a.slope - b.slope);
    bool first = gap < 0 || (gap == 0 && rate <= 0);
    piece r = first ? a : b;

    r.end = piece_least(a.end, b.end);
    if (first && rate > 0)
        r.end = piece_least(r.end, piece_past(p, CR_WRAP_MUL(-1, gap) / rate));
    else if (!first && rate < 0)
        r.end = piece_least(r.end, piece_past(p, gap / -rate));
    return r;
}

/* The truth of value < 0, as 0 or 1. */
static piece piece_negative(const place *p, piece d)
{
    piece r = {d.value < 0, 0, d.end};

    if (d.value < 0 && d.slope > 0)
        r.end = piece_least(r.end, piece_past(p, -(d.value + 1) / d.slope));
    else if (d.value >= 0 && d.slope < 0)
        r.end = piece_least(r.end, piece_past(p, d.value / -d.slope));
    return r;
}

static piece piece_minus(piece a, piece b)
{
    return (piece){CR_WRAP_SUB(a.value, b.value), CR_WRAP_SUB(a.slope, b.slope),
                   piece_least(a.end, b.end)};
}

/* The truth of a - b < less, for comparisons: a number that is out of range is the nearest in
 * range, and the piece then ends too early, which is right as well. */
static piece piece_below(const place *p, piece a, piece b, int64_t less)
{
    piece d = piece_minus(a, b);

    d.value = cr_clamped_sub(cr_clamped_sub(a.value, b.value), less);
    return piece_negative(p, d);
}

static piece piece_not(piece a) { return (piece){!a.value, 0, a.end}; }

static piece piece_both(piece a, piece b)
{
    return (piece){a.value && b.value, 0, piece_least(a.end, b.end)};
}

static cr_status piece_pair(const place *p, const cr_rule *r, piece a, piece b, piece *out)
{
    switch (r->builtin) {
    case CR_BUILTIN_add:
        *out = (piece){CR_WRAP_ADD(a.value, b.value), a.slope + b.slope,
                       piece_least(a.end, b.end)};
        break;
    case CR_BUILTIN_sub: *out = piece_minus(a, b); break;
    case CR_BUILTIN_mul:
        if (a.slope && b.slope)
            return cr_stated_refuse(p->s, r, "a product of axes");
        *out = (piece){CR_WRAP_MUL(a.value, b.value),
                       CR_WRAP_MUL(a.slope, b.value) + CR_WRAP_MUL(b.slope, a.value),
                       piece_least(a.end, b.end)};
        break;
    case CR_BUILTIN_floordiv: return piece_divide(p, r, a, b, false, out);
    case CR_BUILTIN_remainder: return piece_divide(p, r, a, b, true, out);
    case CR_BUILTIN_least: *out = piece_choose(p, a, b, true); break;
    case CR_BUILTIN_most: *out = piece_choose(p, a, b, false); break;
    case CR_BUILTIN_lt: *out = piece_below(p, a, b, 0); break;
    case CR_BUILTIN_le: *out = piece_below(p, a, b, 1); break;
    case CR_BUILTIN_gt: *out = piece_below(p, b, a, 0); break;
    case CR_BUILTIN_ge: *out = piece_below(p, b, a, 1); break;
    case CR_BUILTIN_and: *out = piece_both(a, b); break;
    case CR_BUILTIN_or: *out = piece_not(piece_both(piece_not(a), piece_not(b))); break;
    default: return cr_stated_refuse(p->s, r, "no index is computed so");
    }
    return CR_OK;
}

static bool piece_is_arithmetic(const cr_rule *r)
{
    return r->kind == CR_RULE_CALL && r->builtin >= 0 && r->count == 2 &&
           (r->builtin == CR_BUILTIN_least || r->builtin == CR_BUILTIN_most ||
            (r->builtin >= CR_BUILTIN_add && r->builtin <= CR_BUILTIN_or));
}

cr_status cr_stated_piece(const place *p, const cr_rule *r, piece *out)
{
    piece a, b;

    if (r->kind == CR_RULE_NAME)
        return piece_of_name(p, r, out);
    if (r->kind == CR_RULE_CHOOSE) {
        CR_TRY(cr_stated_piece(p, r->args[0], &a));
        CR_TRY(cr_stated_piece(p, r->args[a.value ? 1 : 2], out));
        out->end = piece_least(out->end, a.end);
        return CR_OK;
    }
    if (piece_is_arithmetic(r)) {
        CR_TRY(cr_stated_piece(p, r->args[0], &a));
        CR_TRY(cr_stated_piece(p, r->args[1], &b));
        return piece_pair(p, r, a, b, out);
    }
    if (stated_is_total(r) && cr_stated_names(p->s, r)) { /* the item's part of the sum */
        if (cr_stated_names(p->s, r) & ~p->at_zero)
            return cr_stated_piece(p, r->args[0], out);
        *out = (piece){0, 0, INT64_MAX};
        return CR_OK;
    }
    if (r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_neg) {
        CR_TRY(cr_stated_piece(p, r->args[0], &a));
        *out = (piece){CR_WRAP_SUB(0, a.value), CR_WRAP_SUB(0, a.slope), a.end};
        return CR_OK;
    }
    return piece_constant(p, r, out);
}

/* --- from the clauses to one move over all axes --- */

/* The names of the result's axes: all but that of a window. */
static int stated_result_names(const stated *s)
{
    return s->op->loop.axis_count - (s->op->loop.window != NULL);
}

/* Sets the sizes of single axes for which clause `axes` states one. */
static cr_status stated_sizes(stated *s)
{
    for (int i = 0; i < stated_result_names(s); i++) {
        const cr_loop_axis *a = &s->op->loop.axis[i];
        cr_value v;
        if (a->pack || !a->count)
            continue;
        CR_TRY(cr_frame_eval(&s->f, a->count, &v));
        s->size[s->first[i]] = v.i;
    }
    return CR_OK;
}

/* Divides the result's dims among the names of axes.  A result without dims has one axis, but a
 * pack of all dims has none. */
static cr_status stated_axes(stated *s, const cr_view *out)
{
    int left = out->ndim ? out->ndim : s->op->loop.axis_count > 0, open = -1, next = 0;
    int names = stated_result_names(s);

    for (int i = 0; i < names; i++) {
        const cr_loop_axis *a = &s->op->loop.axis[i];
        cr_value v = cr_of_int(1);
        if (a->pack && a->count)
            CR_TRY(cr_frame_eval(&s->f, a->count, &v));
        v.i += v.i < 0 ? out->ndim : 0;
        open = a->pack && !a->count ? i : open;
        s->count[i] = open == i ? 0 : (int)v.i;
        left -= s->count[i];
    }
    if (open >= 0)
        s->count[open] = out->ndim && left > 0 ? left : 0;
    for (int i = 0; i < names; i++) {
        s->first[i] = next;
        next += s->count[i];
    }
    s->ndim = next;
    for (int d = 0; d < next; d++) {
        s->size[d] = d < out->ndim ? out->size[d] : 1;
        s->in.to_stride[d] = d < out->ndim ? out->stride[d] : 0;
        s->in.from_stride[d] = s->in.index_stride[d] = 0;
        s->cut[d] = s->steps[d] = false;
    }
    return stated_sizes(s);
}

/* The number of dims that an index covers: as many as its pack has axes, or one.  *name is
 * its pack or, without one, the first axis name in it, or -1. */
static int stated_width(const stated *s, const cr_rule *r, int *name)
{
    unsigned all = r->kind == CR_RULE_INDEX ? 0 : cr_stated_names(s, r);

    *name = all ? (int)CR_CTZ(all) : -1;
    for (int i = 0; i < s->op->loop.axis_count; i++)
        if (all >> i & 1 && s->op->loop.axis[i].pack) {
            *name = i;
            return s->count[i];
        }
    return 1;
}

/* If a tensor has more dims than indices, its last index numbers the elements of the dims from
 * `dim` on, row-major.  Returns the number of these elements and sets *stride to the distance
 * between them; if they have no common distance, the plan asks for a row-major copy. */
static int64_t stated_flat(stated *s, const cr_view *v, int dim, int param, int64_t *stride)
{
    int64_t n = 1;

    *stride = 1;
    for (int d = dim; d < v->ndim; d++)
        n = v->size[d] ? CR_WRAP_MUL(n, v->size[d]) : 0;
    if (n && !cr_one_step(stride, v->ndim - dim, v->size + dim, v->stride + dim))
        s->plan->dense |= UINT64_C(1) << (param < 0 ? CR_STATED_RESULT : param);
    return n;
}

/* True if index `i` of r is the last one and numbers the elements of several dims of v, from
 * `dim` on, or of none. */
static bool stated_is_flat(const stated *s, const cr_rule *r, int i, int dim, const cr_view *v)
{
    int name;

    (void)stated_width(s, r->args[i], &name);
    return i + 1 == r->count && v->ndim - dim != 1 &&
           (name < 0 || !s->op->loop.axis[name].pack);
}

/* Sets the axes of a tensor that is indexed by axes: their sizes, and its strides. */
static cr_status stated_axes_of(stated *s, const cr_rule *r, int param, const cr_view *v,
                                int64_t *stride)
{
    int dim = 0, name;

    for (int i = 1; i < r->count; i++) {
        int n = stated_width(s, r->args[i], &name);
        if (stated_name(s, r->args[i]) < 0)
            return cr_stated_refuse(s, r,
                                    "index tensors and written tensors are indexed by axes");
        if (stated_is_flat(s, r, i, dim, v)) {
            int axis = s->first[name];
            s->size[axis] = stated_flat(s, v, dim, param, &stride[axis]);
            return CR_OK;
        }
        for (int k = 0; k < n && dim < v->ndim; k++, dim++) {
            stride[s->first[name] + k] = v->stride[dim];
            s->size[s->first[name] + k] = v->size[dim];
        }
    }
    return CR_OK;
}

/* The strides of an index tensor, which is indexed by axes. */
static cr_status stated_index(stated *s, const cr_rule *r, int64_t unit, int64_t extent)
{
    int param = r->args[0]->slot;
    const cr_view *v = s->f.arg[param].view;

    if (s->plan->picks.index >= 0)
        return cr_stated_refuse(s, r, "a second index tensor");
    if (v->dtype != CR_I32 && v->dtype != CR_I64 && cr_numel(v->ndim, v->size))
        return cr_fail(CR_RUNTIME, "%s: expected %s to be Long or Int, but got %s", s->op->name,
                       s->op->param[param].name, cr_dtype_infos[v->dtype].legacy);
    s->plan->picks.index = param;
    s->plan->picks.is32 = v->dtype == CR_I32;
    s->plan->unit = unit;
    s->plan->extent = extent;
    CR_TRY(stated_axes_of(s, r, param, v, s->in.index_stride));
    for (int i = 0; i < s->op->loop.index_count; i++)
        if (s->op->loop.index[i].param == param)
            s->plan->picks.bounds = &s->op->loop.index[i];
    return s->plan->picks.bounds ? CR_OK : cr_stated_refuse(s, r, "no `index` clause bounds");
}

static cr_status stated_add_map(stated *s, stated_map map)
{
    if (s->maps == (int)CR_LEN(s->map))
        return cr_stated_refuse(s, map.rule, "too many indices");
    s->map[s->maps++] = map;
    s->cut[map.axis] = true;
    return CR_OK;
}

/* True for a sum whose terms name one axis at most. */
static bool stated_is_sum(const stated *s, const cr_rule *r)
{
    unsigned all = cr_stated_names(s, r);
    const cr_rule *let = stated_let(s, r);

    if (!(all & (all - 1)))
        return true;
    if (let)
        return stated_is_sum(s, let);
    return r->kind == CR_RULE_CALL && r->count == 2 &&
           (r->builtin == CR_BUILTIN_add || r->builtin == CR_BUILTIN_sub) &&
           stated_is_sum(s, r->args[0]) && stated_is_sum(s, r->args[1]);
}

/* An index that is a sum over several axes: a map for each, with the others at 0; constants
 * belong to the first. */
static cr_status stated_sum(stated *s, const cr_rule *r, int item, int64_t stride)
{
    unsigned all = cr_stated_names(s, r);
    stated_map map = {.item = item, .rule = r, .stride = stride};
    piece constant;

    if (!stated_is_sum(s, r))
        return cr_stated_refuse(s, r, "an index of several axes is a sum");
    CR_TRY(cr_stated_piece(&(place){.s = s, .item = item, .at_zero = all}, r, &constant));
    for (int i = 0; i < s->op->loop.axis_count; i++) {
        if (!(all >> i & 1))
            continue;
        map.axis = s->first[i] + (s->op->loop.axis[i].pack ? item : 0);
        map.at_zero = all & ~(1u << i);
        CR_TRY(stated_add_map(s, map));
        map.less = constant.value;
    }
    return CR_OK;
}

/* A dim that all elements read at the same index. */
static cr_status stated_fixed(stated *s, const cr_rule *r, int64_t stride)
{
    piece at;

    CR_TRY(piece_constant(&(place){.s = s}, r, &at));
    s->in.from += CR_WRAP_MUL(at.value, stride);
    return CR_OK;
}

/* One index of the source, for its dims from `dim` on; returns the dims in *n. */
static cr_status stated_source_index(stated *s, const cr_view *v, const cr_rule *r, int dim,
                                     int *n)
{
    int name, width = stated_width(s, r, &name);
    unsigned all = r->kind == CR_RULE_INDEX ? 0 : cr_stated_names(s, r);

    *n = width;
    if (r->kind == CR_RULE_INDEX)
        return stated_index(
            s, r, CR_WRAP_MUL(cr_dtype_size((cr_dtype)v->dtype), v->ndim ? v->stride[dim] : 0),
            v->ndim ? v->size[dim] : 1);
    if (name < 0)
        return dim < v->ndim ? stated_fixed(s, r, v->stride[dim]) : CR_OK;
    for (int k = 0; k < width && dim + k < v->ndim; k++) {
        int axis = s->first[name] + k;
        if (stated_name(s, r) >= 0)
            s->in.from_stride[axis] += v->stride[dim + k];
        else if (all & (all - 1))
            CR_TRY(stated_sum(s, r, k, v->stride[dim + k]));
        else
            CR_TRY(stated_add_map(s, (stated_map){axis, k, r, v->stride[dim + k], 0, 0}));
    }
    return CR_OK;
}

/* The tensor whose element a rule is: a parameter or, -1, the result. */
static cr_status stated_tensor(stated *s, const cr_rule *r, int *param, const cr_view **v)
{
    cr_value of;

    if (r->kind != CR_RULE_INDEX || r->args[0]->kind != CR_RULE_NAME)
        return cr_stated_refuse(s, r, "a loop is about elements of tensors");
    CR_TRY(cr_frame_eval(&s->f, r->args[0], &of));
    *param = r->args[0]->slot < s->op->param_count ? r->args[0]->slot : -1;
    *v = of.view;
    return of.tag == CR_VIEW ? CR_OK
                             : cr_stated_refuse(s, r, "a loop is about elements of tensors");
}

/* The tensor that a loop writes to places of the result, or a number; its axes have its
 * sizes. */
static cr_status stated_written(stated *s, const cr_rule *r)
{
    const cr_view *v;

    for (int d = 0; d < s->ndim; d++)
        s->in.to_stride[d] = 0;
    if (cr_stated_scale(s->op) >= 0)
        r = r->args[1];
    if (r->kind != CR_RULE_INDEX) {
        s->plan->fill = r;
        return CR_OK;
    }
    CR_TRY(stated_tensor(s, r, &s->plan->plain, &v));
    return stated_axes_of(s, r, s->plan->plain, v, s->in.to_stride);
}

/* Avoids the row-major copy of the source: indices that may be negative are copied for each
 * call, and the copy can hold offsets of elements instead.  Returns the end of the offsets. */
static int64_t stated_unravel(stated *s, const cr_view *v, int64_t *stride)
{
    int64_t span = 1;

    for (int d = 0; d < v->ndim; d++)
        span += CR_WRAP_MUL(v->size[d] - 1, v->stride[d]);
    s->plan->dense &= ~(UINT64_C(1) << (s->plan->from < 0 ? CR_STATED_RESULT : s->plan->from));
    s->plan->axes.unravel = true;
    *stride = 1;
    return span;
}

/* The last index of a source with more dims than indices: dims from `dim` on count as one. */
static cr_status stated_flat_index(stated *s, const cr_view *v, const cr_rule *r, int dim)
{
    int64_t stride, size = stated_flat(s, v, dim, s->plan->from, &stride);
    cr_view rest = *v;
    int n;

    if (s->plan->dense && dim == 0 && s->op->loop.index_count && s->op->loop.index[0].low)
        size = stated_unravel(s, v, &stride);
    rest.ndim = 1;
    rest.size = &size;
    rest.stride = &stride;
    return stated_source_index(s, &rest, r, 0, &n);
}

/* An index that is a constant and a sum over a pack's axes: the number of an element, with a
 * map for each axis. */
static cr_status stated_total(stated *s, const cr_view *v, const cr_rule *r, int dim)
{
    stated_map map = {.rule = r};
    piece constant;
    int name, n = stated_width(s, r, &name);

    (void)stated_flat(s, v, dim, s->plan->from, &map.stride);
    CR_TRY(cr_stated_piece(&(place){.s = s, .at_zero = cr_stated_names(s, r)}, r, &constant));
    s->in.from += CR_WRAP_MUL(constant.value, map.stride);
    map.less = constant.value;
    for (map.item = 0; map.item < n; map.item++) {
        map.axis = s->first[name] + map.item;
        CR_TRY(stated_add_map(s, map));
    }
    return CR_OK;
}

static cr_status stated_source(stated *s, const cr_rule *r)
{
    const cr_view *v;
    int dim = 0, n;

    CR_TRY(stated_tensor(s, r, &s->plan->from, &v));
    for (int i = 1; i < r->count; i++, dim += n) {
        if (stated_has_total(r->args[i]))
            return stated_total(s, v, r->args[i], dim);
        if (v->ndim && stated_is_flat(s, r, i, dim, v))
            return stated_flat_index(s, v, r->args[i], dim);
        CR_TRY(stated_source_index(s, v, r->args[i], dim, &n));
    }
    return CR_OK;
}

/* The axes that a guard cuts: those of one name, or, of several single axes, the last; the
 * others then go one by one. */
static void stated_guard(stated *s, const cr_rule *r)
{
    unsigned all = cr_stated_names(s, r);

    s->guards.guard = r;
    s->guards.joint = (all & (all - 1)) != 0;
    s->guards.guarded = 0;
    for (int i = 0; i < s->op->loop.axis_count; i++)
        s->guards.guarded = all >> i & 1 ? i : s->guards.guarded;
    for (int i = 0; i < s->op->loop.axis_count; i++)
        for (int k = 0; all >> i & 1 && k < s->count[i]; k++) {
            s->cut[s->first[i] + k] = true;
            s->steps[s->first[i] + k] = i != s->guards.guarded;
        }
}

/* --- cutting an axis in two --- */

/* n of `axis % n` or `axis // n`, which divides the axis's size; 0 for another rule. */
static cr_status stated_period(stated *s, const stated_map *map, int64_t *n)
{
    const cr_rule *r = map->rule;
    place p = {.s = s, .axis = map->axis, .item = map->item};
    piece by;

    *n = 0;
    if (r->kind != CR_RULE_CALL ||
        (r->builtin != CR_BUILTIN_remainder && r->builtin != CR_BUILTIN_floordiv) ||
        stated_name(s, r->args[0]) < 0 || s->guards.guard)
        return CR_OK;
    CR_TRY(cr_stated_piece(&p, r->args[1], &by));
    *n = by.value > 0 && s->size[map->axis] % by.value == 0 ? by.value : 0;
    return CR_OK;
}

static void stated_open_axis(stated *s, int axis)
{
    for (int d = s->ndim; d > axis; d--) {
        s->size[d] = s->size[d - 1];
        s->in.to_stride[d] = s->in.to_stride[d - 1];
        s->in.from_stride[d] = s->in.from_stride[d - 1];
        s->in.index_stride[d] = s->in.index_stride[d - 1];
        s->cut[d] = s->cut[d - 1];
        s->steps[d] = s->steps[d - 1];
    }
    for (int i = 0; i < s->maps; i++)
        s->map[i].axis += s->map[i].axis > axis;
    for (int i = 0; i < s->op->loop.axis_count; i++)
        s->first[i] += s->first[i] > axis;
    s->ndim++;
}

/* Replaces the only map of an axis, `axis % n` or `axis // n`, by two axes. */
static void stated_split(stated *s, stated_map *map, int64_t n)
{
    int outer = map->axis, inner = outer + 1;
    bool rest = map->rule->builtin == CR_BUILTIN_remainder;

    stated_open_axis(s, outer);
    s->size[outer] /= n;
    s->size[inner] = n;
    s->in.to_stride[outer] *= n;
    s->in.index_stride[outer] *= n;
    s->in.from_stride[outer] = rest ? 0 : map->stride;
    s->in.from_stride[inner] = rest ? map->stride : 0;
    s->cut[outer] = s->cut[inner] = false;
    *map = s->map[--s->maps];
}

static bool stated_maps_once(const stated *s, int k)
{
    for (int i = 0; i < s->maps; i++)
        if (i != k && s->map[i].axis == s->map[k].axis)
            return false;
    return s->in.from_stride[s->map[k].axis] == 0;
}

static cr_status stated_splits(stated *s)
{
    for (int i = s->maps - 1; i >= 0; i--) {
        int64_t n;
        CR_TRY(stated_period(s, &s->map[i], &n));
        if (n && s->ndim < CR_MAX_DIMS && stated_maps_once(s, i))
            stated_split(s, &s->map[i], n);
    }
    return CR_OK;
}

/* --- boxes --- */

/* The part of an axis from t on: its end, the source's offset and stride in elements, and
 * whether the guard holds. */
typedef struct {
    int64_t end, offset, stride;
    bool inside;
} segment;

static cr_status segment_guard(stated *s, int axis, int64_t t, segment *out)
{
    int item = s->guards.guard && !s->steps[axis] ? axis - s->first[s->guards.guarded] : -1;
    place p = {.s = s, .axis = axis, .item = item, .joint = s->guards.joint, .t = t};
    piece v;

    if (item < 0 || item >= s->count[s->guards.guarded])
        return CR_OK;
    CR_TRY(cr_stated_piece(&p, s->guards.guard, &v));
    out->inside = v.value != 0;
    out->end = piece_least(out->end, v.end);
    return CR_OK;
}

static cr_status stated_segment(stated *s, int axis, int64_t t, segment *out)
{
    piece v;

    *out = (segment){s->size[axis], t * s->in.from_stride[axis], s->in.from_stride[axis], true};
    for (int i = 0; i < s->maps; i++) {
        const stated_map *map = &s->map[i];
        if (map->axis != axis)
            continue;
        CR_TRY(cr_stated_piece(
            &(place){.s = s, .axis = axis, .item = map->item, .t = t, .at_zero = map->at_zero},
            map->rule, &v));
        out->offset += CR_WRAP_MUL(v.value - map->less, map->stride);
        out->stride += CR_WRAP_MUL(v.slope, s->map[i].stride);
        out->end = piece_least(out->end, v.end);
    }
    if (s->steps[axis])
        out->end = t + 1;
    return segment_guard(s, axis, t, out);
}

static cr_status stated_boxes(stated *s, int k);

/* The axis that is cut k-th: the last one first, where elements are added, because the
 * gradients of pads add whole runs of columns. */
static int stated_axis(const stated *s, int k)
{
    return !s->op->loop.start ? k : k ? k - 1 : s->ndim - 1;
}

static void stated_put(cr_stated_plan *p, const int64_t *number)
{
    for (int d = 0; d < p->ndim; d++)
        cr_vec_put(&p->dim, number[d]);
}

static cr_status stated_add_box(stated *s, cr_stated_box box)
{
    cr_stated_plan *p = s->plan;

    CR_TRY(cr_vec_reserve(&p->box, 1));
    CR_TRY(cr_vec_reserve(&p->dim, (size_t)(CR_STATED_DIM * s->ndim)));
    cr_vec_put(&p->box, box);
    stated_put(p, s->size);
    stated_put(p, s->in.to_stride);
    stated_put(p, s->in.from_stride);
    stated_put(p, s->in.index_stride);
    return CR_OK;
}

/* True when the last axis, along which elements are neighbours, is cut.  Other strides are left
 * to copies, which go by tiles when the source is dense along another dim. */
static bool stated_has_lines(const stated *s, int axis)
{
    int64_t stride = s->in.from_stride[axis];

    for (int i = 0; i < s->maps; i++)
        stride = s->map[i].axis == axis ? s->map[i].stride : stride;
    return axis + 1 == s->ndim && s->plan->picks.index < 0 && !s->op->loop.start && stride == 1;
}

/* Cuts the last axis: all its parts are one box. */
static cr_status stated_lines(stated *s, int axis)
{
    cr_stated_plan *p = s->plan;
    cr_stated_box box = {s->in.to, s->in.from, s->in.index, 0, false};
    segment g = {.end = 0};

    for (int64_t t = 0; t < s->size[axis]; t = g.end, box.parts++) {
        CR_TRY(stated_segment(s, axis, t, &g));
        CR_TRY(cr_vec_reserve(&p->part, 1));
        cr_vec_put(&p->part, ((cr_move_part){t, g.end - t, g.offset, g.stride, !g.inside}));
    }
    return stated_add_box(s, box);
}

/* Cuts the k-th axis, and boxes of its parts along the axes after it. */
static cr_status stated_cut(stated *s, int k)
{
    int axis = stated_axis(s, k);
    int64_t size = s->size[axis], stride = s->in.from_stride[axis];
    int64_t to = s->in.to, from = s->in.from, index = s->in.index;
    segment g = {.end = 0};

    for (int64_t t = 0; t < size; t = g.end) {
        s->size[axis] = size;
        s->in.from_stride[axis] = stride;
        CR_TRY(stated_segment(s, axis, t, &g));
        s->at[axis] = t;
        s->size[axis] = g.end - t;
        s->in.from_stride[axis] = g.stride;
        s->in.to = to + t * s->in.to_stride[axis];
        s->in.from = from + g.offset;
        s->in.index = index + t * s->in.index_stride[axis];
        CR_TRY(g.inside ? stated_boxes(s, k + 1)
                        : stated_add_box(s, (cr_stated_box){s->in.to, 0, 0, 0, true}));
    }
    s->size[axis] = size;
    s->in.from_stride[axis] = stride;
    s->in.to = to;
    s->in.from = from;
    s->in.index = index;
    return CR_OK;
}

/* Adds the boxes into which the axes from the k-th on are cut. */
static cr_status stated_boxes(stated *s, int k)
{
    while (k < s->ndim && !s->cut[stated_axis(s, k)])
        k++;
    if (k == s->ndim)
        return stated_add_box(s, (cr_stated_box){s->in.to, s->in.from, s->in.index, 0, false});
    return stated_has_lines(s, k) ? stated_lines(s, k) : stated_cut(s, k);
}

/* --- the plan --- */

static cr_status stated_reads(stated *s, const cr_view *out)
{
    const cr_rule *value = s->op->loop.value;
    cr_stated_plan *p = s->plan;

    CR_TRY(stated_source(s, value->kind == CR_RULE_CHOOSE ? value->args[1] : value));
    if (value->kind == CR_RULE_CHOOSE) {
        stated_guard(s, value->args[0]);
        p->fill = value->args[2];
    }
    if (p->picks.index >= 0) {
        const cr_kernel *all = s->op->kernel[cr_loop_moved_as((cr_dtype)out->dtype)];
        p->picks.kernel[false] = all[CR_FORM_MAIN];
        p->picks.kernel[true] = all[CR_FORM_INT32];
    }
    return stated_splits(s);
}

/* True if index i of the target is an axis, or a pack, that no other index names. */
static bool stated_is_even(const stated *s, int i)
{
    const cr_rule *target = s->op->loop.target;
    int name = stated_name(s, target->args[i]);

    for (int k = 1; name >= 0 && k < target->count; k++)
        if (k != i && cr_stated_names(s, target->args[k]) >> name & 1)
            return false;
    return name >= 0;
}

static void stated_even(stated *s, const cr_view *out)
{
    const cr_rule *target = s->op->loop.target;
    int dim = 0, name;

    for (int i = 1; i < target->count && !stated_is_flat(s, target, i, dim, out); i++) {
        int n = stated_width(s, target->args[i], &name);
        uint64_t bits = n && stated_is_even(s, i) ? UINT64_MAX >> (64 - n) : 0;
        s->plan->axes.even |= bits ? bits << s->first[name] : 0;
        s->plan->axes.even_dims |= bits << dim;
        dim += n;
    }
}

static cr_status stated_writes(stated *s, const cr_view *out)
{
    CR_TRY(stated_written(s, s->op->loop.value));
    stated_even(s, out);
    CR_TRY(stated_source(s, s->op->loop.target));
    for (int d = 0; d < s->ndim; d++)
        s->plan->axes.picked |= (uint64_t)(s->cut[d] || !s->in.from_stride[d]) << d;
    return CR_OK;
}

static bool stated_has_elements(const cr_value *arg, int param)
{
    for (int d = 0; param >= 0 && d < arg[param].view->ndim; d++)
        if (!arg[param].view->size[d])
            return false;
    return true;
}

/* Index tensors without elements may have any number of dims; nothing is moved then. */
static cr_status stated_clauses(stated *s, const cr_value *arg, const cr_view *out)
{
    cr_stated_plan *p = s->plan;

    CR_TRY(stated_axes(s, out));
    if (s->op->loop.window)
        return cr_stated_window(s, arg, out);
    CR_TRY(s->op->loop.start ? stated_writes(s, out) : stated_reads(s, out));
    p->ndim = s->ndim;
    if (p->dense)
        return CR_OK;
    if (!stated_has_elements(arg, p->picks.index) || !stated_has_elements(arg, p->plain))
        return CR_OK;
    for (int d = 0; d < s->ndim; d++)
        if (!s->size[d])
            return CR_OK;
    return stated_boxes(s, 0);
}

cr_status cr_stated_make(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                         const cr_view *out)
{
    stated s = {.op = op, .plan = p};
    cr_status st;

    p->picks.index = p->plain = -1;
    p->axes.picked = p->axes.even = p->axes.even_dims = p->dense = 0;
    p->axes.unravel = false;
    p->fill = NULL;
    p->picks.bounds = NULL;
    p->window = NULL;
    cr_frame_init(&s.f, op, arg);
    cr_frame_set(&s.f, op->slots.result, (cr_value){.tag = CR_VIEW, .view = out});
    for (int i = 0; i < op->let_count; i++)
        s.let_names[i] = cr_stated_names(&s, op->lets[i].rule);
    st = stated_clauses(&s, arg, out);
    cr_frame_drop(&s.f);
    return st;
}
