/* Plans of loops that fold windows (kern/window.h).
 *
 * The clause `axes` names a pack of places (dims of the result) and, last, a pack of positions
 * (dims of the window), one for each dim of places.  The loop's rules are linear pieces
 * (stated_piece.h) of either.  For one place, the positions that satisfy the loop's condition
 * are pieces of the positions' axis, called ranges.  A run is a sequence of places whose ranges
 * differ only by a constant offset from one place to the next.  A rule that divides by n is
 * linear only over every n-th place; runs then have a step of n. */
#include "base/integer.h"
#include "tensor/stated_piece.h"
#include <stdlib.h>
#include <string.h>

/* An index of the element that is folded, and the source's first dim that it covers: one for
 * each axis of the window or, with `total(RULE)`, one for all. */
typedef struct {
    const cr_rule *rule;
    int dim;
    bool total;
} window_index;

typedef struct {
    stated *s;
    cr_window *w;
    const cr_loop_window *window;
    const cr_rule *source, *share;    /* the element that is folded, and its divisor or NULL */
    const cr_view *view;              /* of the source */
    int64_t stride[CR_MAX_DIMS];      /* its row-major strides */
    int places, positions;            /* names of axes: of the result, and of the window */
    window_index moved[CR_LOOP_AXES]; /* indices that name places or positions */
    int moves;
} window_plan;

static bool window_has_total(const stated *s, const cr_rule *r)
{
    bool has =
        r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_total && cr_stated_names(s, r);

    for (int i = 0; !has && i < r->count; i++)
        has = window_has_total(s, r->args[i]);
    return has;
}

/* Finds the indices that name axes of the window or the result's places. */
static cr_status window_moves(window_plan *p)
{
    unsigned moved = 1u << p->places | 1u << p->positions;

    for (int i = 1, dim = 0; i < p->source->count; i++) {
        const cr_rule *r = p->source->args[i];
        unsigned all = cr_stated_names(p->s, r);
        bool fixed = !(all & moved), total = window_has_total(p->s, r);
        if (!fixed && p->moves == CR_LOOP_AXES)
            return cr_stated_refuse(p->s, r, "too many indices");
        if (!fixed)
            p->moved[p->moves++] = (window_index){r, dim, total};
        dim += total ? 1 : p->s->count[fixed && all ? (int)CR_CTZ(all) : p->positions];
    }
    return CR_OK;
}

/* --- the rules along an axis --- */

/* What the rules are from a place on, along the places or along the positions. */
typedef struct {
    bool inside;
    int64_t offset, slope, end;
} window_piece;

static void window_add(window_piece *out, int64_t stride, piece at)
{
    out->offset += CR_WRAP_MUL(at.value, stride);
    out->slope += CR_WRAP_MUL(at.slope, stride);
    out->end = cr_least(out->end, at.end);
}

static cr_status window_rules(const window_plan *p, const place *at, window_piece *out)
{
    piece v;

    *out = (window_piece){.inside = true, .end = INT64_MAX};
    if (p->window->inside) {
        CR_TRY(cr_stated_piece(at, p->window->inside, &v));
        out->inside = v.value != 0;
        out->end = v.end;
    }
    for (int i = 0; i < p->moves; i++) {
        CR_TRY(cr_stated_piece(at, p->moved[i].rule, &v));
        window_add(out, p->stride[p->moved[i].dim + (p->moved[i].total ? 0 : at->item)], v);
    }
    return CR_OK;
}

/* Places t = start + step * q of an axis, and the position u. */
typedef struct {
    int item;
    int64_t start, step, q, u;
    int64_t *period;
} window_at;

static cr_status window_along_places(const window_plan *p, const window_at *a,
                                     window_piece *out)
{
    stated *s = p->s;
    place at = {.s = s,
                .axis = s->first[p->places] + a->item,
                .item = a->item,
                .joint = true,
                .t = a->q,
                .start = a->start,
                .step = a->step,
                .period = a->period};

    s->at[s->first[p->positions] + a->item] = a->u;
    return window_rules(p, &at, out);
}

static cr_status window_along_positions(const window_plan *p, const window_at *a,
                                        window_piece *out)
{
    stated *s = p->s;
    place at = {.s = s,
                .axis = s->first[p->positions] + a->item,
                .item = a->item,
                .joint = true,
                .t = a->u};

    s->at[s->first[p->places] + a->item] = a->start + a->step * a->q;
    CR_TRY(window_rules(p, &at, out));
    out->end = cr_least(out->end, s->size[at.axis]);
    return CR_OK;
}

/* --- runs --- */

/* Lowers *end to the first place at which some position from a.u to `last` has another piece of
 * the rules.  The rules are linear in the position as well, so this place is the first one for
 * either a.u or `last`. */
static cr_status window_end(const window_plan *p, window_at a, int64_t last, cr_window_run *r,
                            int64_t *end)
{
    window_piece v;

    CR_TRY(window_along_places(p, &a, &v));
    *end = cr_least(*end, v.end);
    if (v.inside && r->ranges && r->shift != v.slope)
        *end = cr_least(*end, a.q + 1); /* ranges that move apart */
    r->shift = v.inside ? v.slope : r->shift;
    a.u = last;
    CR_TRY(window_along_places(p, &a, &v));
    *end = cr_least(*end, v.end);
    return CR_OK;
}

/* The run that starts at the q-th of the places of a phase, `n` in all. */
static cr_status window_run(const window_plan *p, cr_window_dim *d, window_at a, int64_t n,
                            int64_t *end)
{
    int64_t size = p->s->size[p->s->first[p->positions] + a.item];
    cr_window_run r = {a.start + a.step * a.q, 0, a.step, 0, (int64_t)d->range.len, 0};
    window_piece v;

    *end = n;
    for (a.u = 0; a.u < size; a.u = v.end) {
        CR_TRY(window_along_positions(p, &a, &v));
        CR_TRY(window_end(p, a, v.end - 1, &r, end));
        if (!v.inside)
            continue;
        CR_TRY(cr_vec_reserve(&d->range, 1));
        cr_vec_put(&d->range, ((cr_window_range){v.offset, v.slope, v.end - a.u, a.u}));
        r.ranges++;
    }
    r.n = *end - a.q;
    CR_TRY(cr_vec_reserve(&d->run, 1));
    cr_vec_put(&d->run, r);
    return CR_OK;
}

static cr_status window_runs(const window_plan *p, cr_window_dim *d, int item)
{
    int64_t period = 1, end;
    window_piece v;

    CR_TRY(window_along_places(p, &(window_at){item, 0, 1, 0, 0, &period}, &v));
    period = period < 1 || period > d->size ? d->size : period;
    d->period = period;
    for (int64_t start = 0; start < period; start++) {
        int64_t n = (d->size - start + period - 1) / period;
        window_at a = {item, start, period, 0, 0, NULL};
        for (; a.q < n; a.q = end)
            CR_TRY(window_run(p, d, a, n, &end));
    }
    return CR_OK;
}

/* The run of each place. */
static cr_status window_places(cr_window_dim *d)
{
    d->run_of = cr_alloc((size_t)(d->size + 1) * sizeof *d->run_of);
    CR_NEED(d->run_of);
    for (size_t i = 0; i < d->run.len; i++)
        for (int64_t k = 0; k < d->run.at[i].n; k++)
            d->run_of[d->run.at[i].at + k * d->run.at[i].step] = (int64_t)i;
    return CR_OK;
}

/* --- segments --- */

/* The most positions of runs of which segments are made. */
enum { WINDOW_POSITIONS = 1 << 22 };

/* Positions of all runs, and places of all runs for each of their positions. */
typedef struct {
    int64_t ranges, positions, elements, lowest, highest;
} window_measure;

static window_measure window_measured(const cr_window_dim *d)
{
    window_measure m = {0, 0, 0, INT64_MAX, -1};

    for (size_t i = 0; i < d->run.len; i++)
        for (int64_t k = 0; k < d->run.at[i].ranges; k++) {
            const cr_window_range *r = &d->range.at[d->run.at[i].range + k];
            m.ranges += d->run.at[i].n;
            m.positions += r->n;
            m.elements += r->n * d->run.at[i].n;
            m.lowest = cr_least(m.lowest, r->first);
            m.highest = cr_most(m.highest, r->first + r->n);
        }
    return m;
}

static bool window_has_one_shift(cr_window_dim *d)
{
    bool some = false;

    for (size_t i = 0; i < d->run.len; i++) {
        if (!d->run.at[i].ranges || d->run.at[i].n == 1)
            continue;
        if (some && d->shift != d->run.at[i].shift)
            return false;
        d->shift = d->run.at[i].shift;
        some = true;
    }
    return true;
}

/* The place of a run's first element in the order by remainders. */
static int64_t window_slot(const cr_window_dim *d, const cr_window_run *r)
{
    int64_t rest = r->at % d->period;

    return rest * (d->size / d->period) + cr_least(rest, d->size % d->period) +
           r->at / d->period;
}

/* Adds a run's places to the segment of a position: *open is its number in the list, or -1. */
static cr_status window_extend(cr_window_dim *d, const cr_window_run *r, int64_t number,
                               int64_t offset, int64_t *open)
{
    int64_t slot = window_slot(d, r);
    cr_window_segment *last = *open < 0 ? NULL : &d->segment.at[*open];

    if (last && last->place + last->n == slot && last->offset + last->n * d->shift == offset) {
        last->n += r->n;
        return CR_OK;
    }
    *open = (int64_t)d->segment.len;
    CR_TRY(cr_vec_reserve(&d->segment, 1));
    cr_vec_put(&d->segment, ((cr_window_segment){slot, r->n, offset, number}));
    return CR_OK;
}

static cr_status window_run_segments(cr_window_dim *d, const cr_window_run *r, int64_t lowest,
                                     int64_t *open)
{
    int64_t slot = window_slot(d, r);

    for (int64_t j = 0; j < r->n; j++)
        d->first[slot + j] = r->ranges ? d->range.at[r->range].offset + j * r->shift : -1;
    for (int64_t i = 0; i < r->ranges; i++) {
        cr_window_range *of = &d->range.at[r->range + i];
        for (int64_t k = 0; k < of->n; k++)
            CR_TRY(window_extend(d, r, of->first + k, of->offset + k * of->step,
                                 &open[of->first + k - lowest]));
    }
    return CR_OK;
}

static int window_compare(const void *a, const void *b)
{
    const cr_window_segment *x = a, *y = b;

    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* True if rows are folded faster by segments than place by place, by estimates in
 * nanoseconds. */
static bool window_prefers_segments(const cr_window_dim *d, const window_measure *m)
{
    int64_t by_segments = 8 * d->period + 4 * (int64_t)d->segment.len +
                          (d->shift > 2 ? m->elements : m->elements / 4);

    return by_segments < 2 * m->ranges + m->elements;
}

/* Makes the segments, if they are used. */
static cr_status window_segments(cr_window_dim *d)
{
    window_measure m = window_measured(d);
    int64_t *open, span = m.highest - m.lowest;
    cr_status st = CR_OK;

    if (m.positions > WINDOW_POSITIONS || span > WINDOW_POSITIONS || span <= 0 ||
        !window_has_one_shift(d))
        return CR_OK;
    open = cr_alloc((size_t)span * sizeof *open);
    d->first = cr_alloc((size_t)(d->size + 1) * sizeof *d->first);
    if (!open || !d->first)
        st = CR_MEMORY;
    for (int64_t i = 0; !st && i < span; i++)
        open[i] = -1;
    for (size_t i = 0; !st && i < d->run.len; i++)
        st = window_run_segments(d, &d->run.at[i], m.lowest, open);
    cr_free(open);
    if (!st && !window_prefers_segments(d, &m)) {
        cr_vec_drop(&d->segment);
        cr_free(d->first);
        d->first = NULL;
    }
    if (d->segment.len)
        qsort(d->segment.at, d->segment.len, sizeof *d->segment.at, window_compare);
    return st;
}

/* --- divisors --- */

/* The factors `product(rule)` of a divisor along one dim: a list of `size` numbers.  The rule
 * varies with the axis, or with the let in slot `bound`. */
static cr_status window_factors(const window_plan *p, const cr_rule *r, int item, int bound,
                                int64_t size, double **out)
{
    place at = {.s = p->s,
                .axis = p->s->first[p->places] + item,
                .item = item,
                .joint = true,
                .bound = bound};
    piece v;

    *out = cr_alloc((size_t)(size + 1) * sizeof **out);
    CR_NEED(*out);
    for (int64_t end; at.t < size; at.t = end) {
        CR_TRY(cr_stated_piece(&at, r, &v));
        end = cr_least(v.end, size);
        for (int64_t t = at.t; t < end; t++)
            (*out)[t] = (double)(v.value + v.slope * (t - at.t));
    }
    return CR_OK;
}

/* The rule whose items are the factors of a divisor `product(RULE)`; NULL if the divisor is one
 * number, which is then in w->divisor.  `CONDITION ? a : b` is one of both. */
static cr_status window_divisor(const window_plan *p, const cr_rule *r, const cr_rule **each)
{
    cr_value v;

    *each = NULL;
    while (r->kind == CR_RULE_CHOOSE && !cr_stated_names(p->s, r->args[0])) {
        CR_TRY(cr_frame_eval(&p->s->f, r->args[0], &v));
        r = r->args[v.i ? 1 : 2];
    }
    if (r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_product) {
        *each = r->args[0];
        return CR_OK;
    }
    CR_TRY(cr_frame_eval(&p->s->f, r, &v));
    p->w->divisor = v.i;
    return v.tag == CR_INT
               ? CR_OK
               : cr_stated_refuse(p->s, r, "a divisor is a product over the axes of a pack");
}

static cr_status window_dividers(const window_plan *p, int dims)
{
    cr_window *w = p->w;
    const cr_rule *r = p->share ? p->share : p->window->divisor, *each;

    w->divides = r && !p->share;
    w->shares = r && p->share;
    if (!r)
        return CR_OK;
    CR_TRY(window_divisor(p, r, &each));
    for (int k = 0; each && k < dims; k++) {
        cr_window_dim *d = &w->dim[CR_WINDOW_DIMS - dims + k];
        CR_TRY(window_factors(p, each, k, p->share ? p->moved[0].rule->slot : 0,
                              p->share ? d->in : d->size, p->share ? &d->share : &d->count));
    }
    return CR_OK;
}

/* --- the plan --- */

/* The sizes of the window, and the names of its axes and of the result's places. */
static cr_status window_names(window_plan *p)
{
    stated *s = p->s;
    unsigned all;
    cr_value v;

    p->positions = s->op->loop.axis_count - 1;
    CR_TRY(cr_frame_eval(&s->f, s->op->loop.axis[p->positions].count, &v));
    if (v.tag != CR_INTS || v.len > CR_WINDOW_DIMS)
        return cr_stated_refuse(s, p->source, "a window has a list of up to three sizes");
    s->first[p->positions] = s->ndim;
    s->count[p->positions] = (int)v.len;
    memcpy(s->size + s->ndim, v.ints, v.len * sizeof *v.ints);
    all = cr_stated_names(s, p->source);
    all |= p->window->inside ? cr_stated_names(s, p->window->inside) : 0;
    all &= ~(1u << p->positions);
    p->places = all ? 63 - (int)CR_CLZ64(all) : 0; /* the last axes of the result */
    return p->places == p->positions - 1 && s->count[p->places] == (int)v.len
               ? CR_OK
               : cr_stated_refuse(s, p->source, "a window is over the last axes of a result");
}

static void window_planes(window_plan *p, const cr_view *out, int dims)
{
    cr_window *w = p->w;
    int lead = p->s->ndim - dims;

    w->planes = w->in = w->out = w->divisor = 1;
    for (int d = 0; d < lead; d++)
        w->planes *= out->size[d];
    for (int d = lead; d < out->ndim; d++)
        w->out *= out->size[d];
    for (int d = p->view->ndim - 1; d >= 0; d--) {
        p->stride[d] = w->in;
        w->in = CR_WRAP_MUL(w->in, p->view->size[d]);
    }
    w->in /= w->planes ? w->planes : 1;
    for (int k = 0; k < CR_WINDOW_DIMS; k++)
        w->dim[k].size = w->dim[k].in = 1;
    for (int i = 0; i < p->moves; i++)
        for (int k = 0; !p->moved[i].total && k < dims; k++)
            w->dim[CR_WINDOW_DIMS - dims + k].in = p->view->size[p->moved[i].dim + k];
}

static cr_status window_missing(cr_window_dim *d)
{
    CR_TRY(cr_vec_reserve(&d->range, 1));
    CR_TRY(cr_vec_reserve(&d->run, 1));
    cr_vec_put(&d->range, ((cr_window_range){.n = 1}));
    cr_vec_put(&d->run, ((cr_window_run){.n = 1, .step = 1, .ranges = 1}));
    return window_places(d);
}

static cr_status window_dims(window_plan *p, const cr_view *out, int dims)
{
    int lead = CR_WINDOW_DIMS - dims;

    for (int k = 0; k < CR_WINDOW_DIMS; k++) {
        cr_window_dim *d = &p->w->dim[k];
        if (k < lead) {
            CR_TRY(window_missing(d));
            continue;
        }
        d->size = out->size[out->ndim - dims + k - lead];
        CR_TRY(window_runs(p, d, k - lead));
        CR_TRY(k + 1 < CR_WINDOW_DIMS ? window_places(d) : window_segments(d));
    }
    return CR_OK;
}

/* The element that is folded: SOURCE[...], or SOURCE[...] / DIVISOR. */
static cr_status window_source(window_plan *p, const cr_value *arg)
{
    const cr_rule *r = p->s->op->loop.value;

    if (r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_div) {
        p->share = r->args[1];
        r = r->args[0];
    }
    p->source = r;
    if (r->kind != CR_RULE_INDEX || r->args[0]->slot >= p->s->op->param_count)
        return cr_stated_refuse(p->s, r, "a window folds elements of an argument");
    p->s->plan->from = r->args[0]->slot;
    p->view = arg[p->s->plan->from].view;
    return CR_OK;
}

cr_status cr_stated_window(stated *s, const cr_value *arg, const cr_view *out)
{
    window_plan p = {.s = s, .window = s->op->loop.window};
    int dims;

    CR_TRY(window_source(&p, arg));
    CR_TRY(window_names(&p));
    CR_TRY(window_moves(&p));
    p.w = s->plan->window = cr_alloc_zero(sizeof *p.w);
    CR_NEED(p.w);
    dims = s->count[p.positions];
    p.w->extreme = p.window->how == CR_WINDOW_ABOVE_LAST_NAN;
    window_planes(&p, out, dims);
    if (!p.w->in || !p.w->out || !p.w->planes)
        return CR_OK;
    CR_TRY(window_dims(&p, out, dims));
    return window_dividers(&p, dims);
}

/* --- lists --- */

/* Appends start and ranges of a dim's places. */
static void list_axis(cr_window_axis *a, cr_window_lists *lists, const cr_window_dim *d)
{
    int64_t *start = lists->at + lists->len, *range = start + d->size + 1;

    memset(start, 0, (size_t)(d->size + 1) * sizeof *start);
    for (size_t i = 0; i < d->run.len; i++)
        for (int64_t j = 0; j < d->run.at[i].n; j++)
            start[d->run.at[i].at + j * d->run.at[i].step + 1] = d->run.at[i].ranges;
    for (int64_t t = 0; t < d->size; t++)
        start[t + 1] += start[t];
    for (size_t i = 0; i < d->run.len; i++) {
        const cr_window_run *r = &d->run.at[i];
        for (int64_t j = 0; j < r->n; j++)
            for (int64_t k = 0; k < r->ranges; k++) {
                const cr_window_range *from = &d->range.at[r->range + k];
                int64_t *to = range + 3 * (start[r->at + j * r->step] + k);
                to[0] = from->offset + j * r->shift;
                to[1] = from->step;
                to[2] = from->n;
            }
    }
    lists->len += (size_t)(d->size + 1 + 3 * start[d->size]);
    *a = (cr_window_axis){d->size, d->in, start, range, d->count, d->share};
}

static size_t list_room(const cr_window_dim *d)
{
    int64_t n = d->size + 1;

    for (size_t i = 0; i < d->run.len; i++)
        n += 3 * d->run.at[i].n * d->run.at[i].ranges;
    return (size_t)n;
}

cr_status cr_window_list(cr_windows *out, cr_window_lists *lists, const cr_window *w)
{
    size_t room = 0;

    for (int k = 0; k < CR_WINDOW_DIMS; k++)
        room += list_room(&w->dim[k]);
    CR_TRY(cr_vec_reserve(lists, room));
    for (int k = 0; k < CR_WINDOW_DIMS; k++)
        list_axis(&out->dim[k], lists, &w->dim[k]);
    out->extreme = w->extreme;
    out->planes = w->planes;
    out->in = w->in;
    out->out = w->out;
    out->divides = w->divides;
    out->shares = w->shares;
    out->divisor = w->divisor;
    return CR_OK;
}

size_t cr_window_bytes(const cr_window *w)
{
    size_t n = w ? sizeof *w : 0;

    for (int k = 0; w && k < CR_WINDOW_DIMS; k++) {
        const cr_window_dim *d = &w->dim[k];
        size_t places = (size_t)d->size + 1, elements = (size_t)d->in + 1;
        n += d->run.len * sizeof *d->run.at + d->range.len * sizeof *d->range.at +
             d->segment.len * sizeof *d->segment.at;
        n += d->run_of ? places * sizeof *d->run_of : 0;
        n += d->first ? places * sizeof *d->first : 0;
        n += d->count ? places * sizeof *d->count : 0;
        n += d->share ? elements * sizeof *d->share : 0;
    }
    return n;
}

void cr_window_drop(cr_window *w)
{
    for (int k = 0; w && k < CR_WINDOW_DIMS; k++) {
        cr_vec_drop(&w->dim[k].run);
        cr_vec_drop(&w->dim[k].range);
        cr_vec_drop(&w->dim[k].segment);
        cr_free(w->dim[k].first);
        cr_free(w->dim[k].run_of);
        cr_free(w->dim[k].count);
        cr_free(w->dim[k].share);
    }
    cr_free(w);
}
