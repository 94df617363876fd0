/* Strategies of calls.
 *
 * Each axis that is not whole makes one.  It is tried on the sizes that a rank has: the local
 * call must make the same parts, of the expected sizes, with the same numbers, at every size.
 * A call whose numbers depend on sizes (a mean) is run as its parts, or not split. */
#include "dist/shard.h"
#include "ops/ops.h"
#include <string.h>

double cr_shard_cost(int from, int to, double bytes, int ranks)
{
    double share = (double)(ranks - 1) / ranks, latency = 4096;

    if (from == to)
        return 0;
    if (from == CR_PLACE_REPLICATE)
        return to >= 0 || to == CR_PLACE_SUM ? 0 : -1;
    if (to == CR_PLACE_REPLICATE)
        return latency + (from >= 0 ? 1 : 2) * bytes * share;
    if (from < 0)
        return to >= 0 ? latency + bytes * share : -1;
    return to >= 0 ? latency + bytes * share / ranks : -1;
}

/* --- the local call --- */

typedef struct {
    cr_axes_maker *m;
    const cr_axes *a;
    int ranks, rank, axis;
    const int8_t *placed;
    int placed_count;
    cr_strategy *s;
} attempt;

/* The size of a rank's part of a dim. */
static int64_t local_size(const attempt *t, int64_t n)
{
    int64_t part = (n + t->ranks - 1) / t->ranks, first = part * t->rank;

    return first >= n ? 0 : n - first < part ? n - first : part;
}

static cr_tensor *local_fake(const attempt *t, const cr_axes_tensor *x)
{
    cr_tensor *made = NULL;
    int64_t size[CR_AXES_DIMS];

    for (int d = 0; d < x->t->ndim; d++)
        size[d] = x->axis[d] == t->axis ? local_size(t, x->t->size[d]) : x->t->size[d];
    cr_session_check(t->m->session, cr_tensor_new(&made, (cr_dtype)x->t->dtype, x->t->device,
                                                  x->t->ndim, size));
    cr_session_check(t->m->session, cr_vec_reserve(&t->m->fakes, 1));
    cr_vec_put(&t->m->fakes, made);
    return made;
}

static cr_value local_arg(const attempt *t, int *operand, const cr_value *v)
{
    cr_value out = *v, *list;

    if (v->tag == CR_TENSOR) {
        out.t = local_fake(t, &t->a->operand[(*operand)++]);
    } else if (v->tag == CR_TENSORS) {
        list = CR_NEW_N(t->m->session, cr_value, v->len + 1);
        for (uint32_t i = 0; i < v->len; i++)
            list[i] = local_arg(t, operand, &v->list[i]);
        out.list = list;
    }
    return out;
}

static bool fits(const attempt *t, const cr_axes_tensor *whole, const cr_tensor *local)
{
    if (whole->t->ndim != local->ndim)
        return false;
    for (int d = 0; d < local->ndim; d++) {
        int64_t n = whole->t->size[d];
        if (local->size[d] != (whole->axis[d] == t->axis ? local_size(t, n) : n))
            return false;
    }
    return true;
}

/* --- comparing the parts --- */

static bool same_ints(const cr_value *x, const cr_value *y)
{
    return x->len == y->len && (!x->len || !memcmp(x->ints, y->ints, x->len * sizeof *x->ints));
}

static bool are_sizes(const cr_value *v, const cr_tensor *t)
{
    return v->len == t->ndim &&
           (!v->len || !memcmp(v->ints, t->size, v->len * sizeof *t->size));
}

static bool same_arg(const cr_axes *a, const cr_axes *b, const cr_value *x, const cr_value *y)
{
    if (x->tag != y->tag)
        return false;
    switch ((cr_tag)x->tag) {
    case CR_INTS: {
        bool same = same_ints(x, y);
        for (int k = 0; k < a->results && k < b->results && !same; k++)
            same = are_sizes(x, a->result[k].t) && are_sizes(y, b->result[k].t);
        for (int k = 0; k < a->operands && k < b->operands && !same; k++)
            same = are_sizes(x, a->operand[k].t) && are_sizes(y, b->operand[k].t);
        return same;
    }
    case CR_TRUTHS: return same_ints(x, y);
    case CR_FLOATS:
        return x->len == y->len &&
               (!x->len || !memcmp(x->floats, y->floats, x->len * sizeof *x->floats));
    case CR_NUMBER: return !memcmp(&x->number, &y->number, sizeof x->number);
    case CR_FLOAT: return x->d == y->d || (x->d != x->d && y->d != y->d);
    case CR_INT:
    case CR_TRUTH:
    case CR_DTYPE_VAL: return x->i == y->i;
    default: return true;
    }
}

static bool same_call(const cr_axes *a, const cr_axes *b)
{
    if (a->op != b->op || a->parts != b->parts || a->operands != b->operands ||
        a->results != b->results || a->values != b->values)
        return false;
    for (int i = 0; i < a->op->param_count; i++)
        if (!same_arg(a, b, &a->arg[i], &b->arg[i]))
            return false;
    for (int i = 0; i < a->parts; i++)
        if (memcmp(a->part[i].operand, b->part[i].operand, sizeof a->part[i].operand) ||
            !same_call(a->part[i].call, b->part[i].call))
            return false;
    return true;
}

/* Values inside have the sizes that the axis says. */
static bool values_fit(const attempt *t, const cr_axes *local)
{
    for (int v = 0; v < t->a->values; v++) {
        cr_axes_tensor whole = {.t = t->a->value[v]};
        memcpy(whole.axis, t->a->dim[v], sizeof whole.axis);
        if (!fits(t, &whole, local->value[v]))
            return false;
    }
    return true;
}

static bool keeps_axis(const attempt *t, const cr_axes_tensor *whole, const cr_axes *local,
                       const cr_axes_tensor *part, const int16_t *as)
{
    for (int d = 0; d < part->t->ndim; d++) {
        int k = whole->axis[d];
        if (k < 0 || (as ? as[k] : k) != t->axis || part->t->size[d] <= 1)
            continue;
        if (part->axis[d] < 0 || local->axis[part->axis[d]].whole)
            return false;
    }
    return true;
}

/* Dims along the axis are computed independently in the local call too: an index may leave
 * places of one size, and move those of another.  `as`: axes of the whole call, as numbered in
 * its composition. */
static bool keeps_axes(const attempt *t, const cr_axes *whole, const cr_axes *local,
                       const int16_t *as)
{
    for (int i = 0; i < whole->operands; i++)
        if (!keeps_axis(t, &whole->operand[i], local, &local->operand[i], as))
            return false;
    for (int k = 0; k < whole->results; k++)
        if (!keeps_axis(t, &whole->result[k], local, &local->result[k], as))
            return false;
    return true;
}

static bool same_parts(const attempt *t, const cr_axes *local)
{
    const cr_axes *a = t->a;

    if (a->parts != local->parts || a->values != local->values)
        return false;
    for (int i = 0; i < a->parts; i++)
        if (memcmp(a->part[i].operand, local->part[i].operand, sizeof a->part[i].operand) ||
            !same_call(a->part[i].call, local->part[i].call) ||
            !keeps_axes(t, a->part[i].call, local->part[i].call, a->part_axis[i]))
            return false;
    return values_fit(t, local);
}

/* --- one axis --- */

typedef struct {
    attempt *t;
    cr_axes *made;
    cr_value *arg;
} local_call;

static void find_local(cr_session *s, void *context)
{
    local_call *c = context;

    (void)s;
    c->made = cr_axes_of(c->t->m, c->t->a->op, c->arg);
}

/* Results have the expected sizes.  Those of a composition that need no part of a split operand
 * may follow from its sizes: *parts is set where its calls must have whole sizes. */
static bool results_fit(const attempt *t, const cr_axes *local, bool *parts)
{
    *parts = false;
    if (t->a->results != local->results)
        return false;
    for (int k = 0; k < t->a->results; k++)
        if (!fits(t, &t->a->result[k], local->result[k].t)) {
            *parts = t->a->part && t->a->axis[t->axis].apart >> k & 1;
            if (!*parts)
                return false;
        }
    return true;
}

/* The argument that has the sizes of the result (-1: any size), or -1. */
static int sizes_param(const cr_axes *a)
{
    for (int i = 0; i < a->op->param_count; i++) {
        const cr_value *v = &a->arg[i];
        bool same = v->tag == CR_INTS && a->results && v->len == a->result[0].t->ndim;
        for (uint32_t d = 0; same && d < v->len; d++)
            same = v->ints[d] == a->result[0].t->size[d] || v->ints[d] == -1;
        if (same)
            return i;
    }
    return -1;
}

/* Whether a rank can call the entry on its parts; sets s->sized, or s->parts. */
static bool works_locally(attempt *t)
{
    cr_value *arg = CR_NEW_N(t->m->session, cr_value, CR_MAX_ARGS);
    local_call c = {.t = t, .arg = arg};
    int operand = 0, sized;
    bool ran, fit, parts;

    for (int i = 0; i < t->a->op->param_count; i++)
        arg[i] = local_arg(t, &operand, &t->a->arg[i]);
    t->m->calls = 0;
    ran = !cr_session_run(t->m->session, find_local, &c);
    fit = ran && results_fit(t, c.made, &parts);
    if (fit && (parts || (t->a->part && t->a->axis[t->axis].looked)))
        return t->s->parts = true;
    if (fit && (t->a->part || keeps_axes(t, t->a, c.made, NULL)))
        return !t->a->part || same_parts(t, c.made) || (t->s->parts = true);
    sized = sizes_param(t->a);
    if (sized >= 0) {
        const cr_axes_tensor *y = &t->a->result[0];
        int64_t *size = CR_NEW_N(t->m->session, int64_t, CR_AXES_DIMS);
        for (int d = 0; d < y->t->ndim; d++)
            size[d] = y->axis[d] == t->axis ? local_size(t, y->t->size[d]) : y->t->size[d];
        arg[sized].ints = size;
        t->m->calls = 0;
        ran = !cr_session_run(t->m->session, find_local, &c);
        t->s->sized = sized;
        t->s->parts = false;
        return ran && results_fit(t, c.made, &parts) && !parts &&
               (t->a->part ? same_parts(t, c.made) : keeps_axes(t, t->a, c.made, NULL));
    }
    return false;
}

/* The placement of a tensor when the axis is split; false where two of its dims have it. */
static bool place(const attempt *t, const cr_axes_tensor *x, bool result, int8_t *out)
{
    static const int8_t reduced[] = {CR_PLACE_REPLICATE, CR_PLACE_SUM, CR_PLACE_PRODUCT,
                                     CR_PLACE_MIN, CR_PLACE_MAX};
    int found = CR_PLACE_REPLICATE;

    for (int d = 0; d < x->t->ndim; d++)
        if (x->axis[d] == t->axis) {
            if (found >= 0)
                return false;
            found = d;
        }
    if (found < 0 && (result || x->added))
        found = reduced[t->a->axis[t->axis].how];
    *out = (int8_t)found;
    return true;
}

/* The operand of places along the axis, and its dims along those of the result. */
static void place_looked(const attempt *t)
{
    const cr_axes *a = t->a;
    int of = a->axis[t->axis].looked - 1;

    if (of < 0 || a->part)
        return;
    t->s->looked = of;
    memset(t->s->over, -1, sizeof t->s->over);
    for (int d = 0; d < a->result[0].t->ndim; d++)
        for (int e = 0; e < a->operand[of].t->ndim; e++)
            if (a->operand[of].axis[e] == a->result[0].axis[d])
                t->s->over[d] = (int8_t)e;
}

static int64_t axis_size(const cr_axes *a, int axis, bool *even)
{
    int64_t size = -1;

    for (int i = 0; i < a->operands + a->results; i++) {
        const cr_axes_tensor *x =
            i < a->operands ? &a->operand[i] : &a->result[i - a->operands];
        for (int d = 0; d < x->t->ndim; d++)
            if (x->axis[d] == axis) {
                *even |= size >= 0 && size != x->t->size[d];
                size = x->t->size[d];
            }
    }
    for (int v = 0; v < a->values; v++)
        for (int d = 0; d < a->value[v]->ndim; d++)
            *even |= a->dim[v][d] == axis && a->value[v]->size[d] != size;
    return size;
}

static bool divides(const cr_axes *a, int axis, int ranks)
{
    for (int i = 0; i < a->operands + a->results; i++) {
        const cr_axes_tensor *x =
            i < a->operands ? &a->operand[i] : &a->result[i - a->operands];
        for (int d = 0; d < x->t->ndim; d++)
            if (x->axis[d] == axis && x->t->size[d] % ranks)
                return false;
    }
    for (int v = 0; v < a->values; v++)
        for (int d = 0; d < a->value[v]->ndim; d++)
            if (a->dim[v][d] == axis && a->value[v]->size[d] % ranks)
                return false;
    return true;
}

/* Whether an operand is placed along the axis. */
static bool is_placed(const attempt *t)
{
    for (int i = 0; i < t->a->operands && i < t->placed_count; i++) {
        int d = t->placed[i];
        if (d >= 0 && d < t->a->operand[i].t->ndim && t->a->operand[i].axis[d] == t->axis)
            return true;
    }
    return false;
}

/* The placements of all tensors when the axis is split; false where there are none. */
static bool place_all(attempt *t)
{
    const cr_axes *a = t->a;
    bool operand = false, reads = !a->op->filled && !(a->op->words & CR_WORD_UNDEFINED);
    cr_strategy *s = t->s;

    for (int i = 0; i < a->operands; i++) {
        if (!place(t, &a->operand[i], false, &s->operand[i]))
            return false;
        operand |= s->operand[i] >= 0;
    }
    for (int k = 0; k < a->results; k++)
        if (a->axis[t->axis].apart >> k & 1)
            s->result[k] = CR_PLACE_REPLICATE;
        else if (!place(t, &a->result[k], true, &s->result[k]) ||
                 (s->result[k] == CR_PLACE_REPLICATE && operand && reads))
            return false;
    return true;
}

static void try_axis(attempt *t, cr_strategies *out)
{
    const cr_axes *a = t->a;
    cr_strategy *s = &out->strategy[out->count];
    bool even = false;
    bool reads_some = a->axis[t->axis].how >= CR_AXIS_MIN || a->axis[t->axis].looked;
    int64_t size = axis_size(a, t->axis, &even);

    /* A part without elements has no least element, and no place to look up. */
    if (reads_some && (t->ranks - 1) * ((size + t->ranks - 1) / t->ranks) >= size)
        return;
    /* A dim of 1 stays with the rank that has it; no other tensor is divided along it. */
    if ((size <= 1 && !is_placed(t)) || (even && !divides(a, t->axis, t->ranks)) ||
        out->count == (int)CR_LEN(out->strategy))
        return;
    *s = (cr_strategy){.sized = -1, .looked = -1, .even = even};
    t->s = s;
    if (!place_all(t))
        return;
    if (!works_locally(t))
        return;
    place_looked(t);
    /* Other sizes: of the last rank that has a part, and of ranks without elements. */
    if (!divides(a, t->axis, t->ranks)) {
        t->rank = (int)(size / ((size + t->ranks - 1) / t->ranks));
        if (t->rank < t->ranks && !works_locally(t))
            return;
        t->rank = t->ranks - 1;
        if (!works_locally(t))
            return;
    }
    out->count++;
}

/* --- all strategies --- */

typedef struct {
    cr_strategies *out;
    cr_axes_maker maker;
    const cr_op *op;
    const cr_value *arg;
    int ranks;
    const int8_t *placed;
    int placed_count;
    cr_axes *a;
} shard_job;

/* Operands that are partial stay so, if the call is linear in them. */
static void try_partial(shard_job *j, uint32_t partial, int how)
{
    static const uint8_t hows[] = {CR_AXIS_SUM, CR_AXIS_PRODUCT, CR_AXIS_MIN, CR_AXIS_MAX,
                                   CR_AXIS_SUM};
    cr_strategies *out = j->out;
    cr_strategy *s = &out->strategy[out->count];

    if (!partial || out->count == (int)CR_LEN(out->strategy) ||
        !cr_axes_keep_partial(j->a, partial, hows[-2 - how]))
        return;
    *s = (cr_strategy){.sized = -1, .looked = -1};
    for (int i = 0; i < out->operands; i++)
        s->operand[i] = partial >> i & 1 ? (int8_t)how : CR_PLACE_REPLICATE;
    for (int k = 0; k < out->results; k++)
        s->result[k] = (int8_t)how;
    out->count++;
}

/* Whether a call neither reads nor writes its operands: their sums need not be known. */
static bool reads_none(const cr_op *op)
{
    bool writes = op->inplace_of || op->does == CR_DOES_INPLACE;

    for (int i = 0; i < op->param_count; i++)
        writes |= op->param[i].written;
    return !writes && (op->filled || op->words & CR_WORD_UNDEFINED);
}

/* Partial operands that are not read stay so; results are whole. */
static void try_unread(shard_job *j, uint32_t partial, int how)
{
    cr_strategies *out = j->out;
    cr_strategy *s = &out->strategy[out->count];

    if (out->count == (int)CR_LEN(out->strategy) || !reads_none(j->op))
        return;
    *s = (cr_strategy){.sized = -1, .looked = -1};
    memset(s->result, CR_PLACE_REPLICATE, CR_AXES_TENSORS);
    for (int i = 0; i < out->operands; i++)
        s->operand[i] = partial >> i & 1 ? (int8_t)how : CR_PLACE_REPLICATE;
    out->count++;
}

static void partial_strategies(shard_job *j)
{
    uint32_t partial = 0, floats = 0;
    int how = CR_PLACE_REPLICATE;

    for (int i = 0; i < j->a->operands && i < j->placed_count; i++) {
        if (j->placed[i] <= CR_PLACE_SUM &&
            (how == CR_PLACE_REPLICATE || how == j->placed[i])) {
            how = j->placed[i];
            partial |= (uint32_t)1 << i;
        }
        if (cr_dtype_is_float((cr_dtype)j->a->operand[i].t->dtype))
            floats |= (uint32_t)1 << i;
    }
    if (!partial)
        return;
    try_partial(j, partial, how);
    try_unread(j, partial, how);
    if (how == CR_PLACE_SUM && floats != partial)
        try_partial(j, floats | partial, how);
}

static void find_strategies(cr_session *s, void *context)
{
    shard_job *j = context;
    cr_axes *a;

    j->maker.session = s;
    a = j->a = cr_axes_of(&j->maker, j->op, j->arg);
    j->out->operands = a->operands;
    j->out->results = a->results;
    j->out->rule = a->rule;
    for (int k = 0; k < a->results; k++) {
        j->out->result[k].ndim = a->result[k].t->ndim;
        j->out->result[k].dtype = (cr_dtype)a->result[k].t->dtype;
        memcpy(j->out->result[k].stride, a->result[k].t->stride,
               a->result[k].t->ndim * sizeof *a->result[k].t->stride);
        memcpy(j->out->result[k].size, a->result[k].t->size,
               a->result[k].t->ndim * sizeof *a->result[k].t->size);
    }
    j->out->count = 1;
    j->out->strategy[0] = (cr_strategy){.sized = -1, .looked = -1};
    memset(j->out->strategy[0].operand, CR_PLACE_REPLICATE, CR_AXES_TENSORS);
    memset(j->out->strategy[0].result, CR_PLACE_REPLICATE, CR_AXES_TENSORS);
    if (!a->rule)
        return;
    for (int k = 0; k < a->count; k++) {
        attempt t = {.m = &j->maker,
                     .a = a,
                     .ranks = j->ranks,
                     .axis = k,
                     .placed = j->placed,
                     .placed_count = j->placed_count};
        if (!a->axis[k].whole)
            try_axis(&t, j->out);
    }
    partial_strategies(j);
}

static double bytes_of(const cr_tensor *t)
{
    return (double)t->numel * (double)cr_dtype_size((cr_dtype)t->dtype);
}

static void find_costs(shard_job *j)
{
    for (int n = 0; n < j->out->count; n++) {
        cr_strategy *s = &j->out->strategy[n];
        for (int i = 0; i < j->out->operands; i++) {
            int from = i < j->placed_count ? j->placed[i] : CR_PLACE_REPLICATE;
            double cost =
                cr_shard_cost(from, s->operand[i], bytes_of(j->a->operand[i].t), j->ranks);
            s->changes += from != s->operand[i];
            s->cost = cost < 0 || s->cost < 0 ? -1 : s->cost + cost;
        }
    }
}

int cr_shard_cheapest(const cr_strategies *s)
{
    int best = 0;

    for (int n = 1; n < s->count; n++) {
        const cr_strategy *x = &s->strategy[n], *y = &s->strategy[best];
        if (x->cost < 0)
            continue;
        if (y->cost < 0 || x->cost < y->cost || (x->cost == y->cost && x->changes < y->changes))
            best = n;
    }
    return best;
}

cr_status cr_shard_strategies(cr_strategies *out, const cr_op *op, const cr_value *arg,
                              int ranks, const int8_t *placed, int placed_count)
{
    cr_session session = {.status = CR_OK};
    shard_job j = {.out = out,
                   .op = op,
                   .arg = arg,
                   .ranks = ranks,
                   .placed = placed,
                   .placed_count = placed_count};
    cr_thread_state was = cr_thread;
    cr_status st;

    out->count = 0;
    cr_thread.include = cr_thread.exclude = 0;
    cr_thread.no_grad = cr_thread.fakes = true;
    st = cr_session_run(&session, find_strategies, &j);
    cr_thread = was;
    if (st && st != CR_MEMORY) { /* the call itself says why, on whole tensors */
        *out = (cr_strategies){.operands = placed_count, .count = 1};
        out->strategy[0].sized = out->strategy[0].looked = -1;
        memset(out->strategy[0].operand, CR_PLACE_REPLICATE, CR_AXES_TENSORS);
        st = CR_OK;
    } else if (!st) {
        find_costs(&j);
    }
    cr_axes_maker_drop(&j.maker);
    cr_session_drop(&session);
    return st;
}
