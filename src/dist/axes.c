/* Axes of compositions: the calls that a composition makes are recorded on fakes, and dims that
 * a call keeps together get one axis.
 *
 * Then each axis is followed through the calls, in order.  A value that has it is split; one
 * that a call reduces along it is partial; others are whole.  An axis that a call needs whole,
 * or a partial value that a call does not keep partial, makes the axis whole. */
#include "dist/axes.h"
#include "graph/graph.h"
#include "ops/ops.h"
#include <string.h>

enum { AXES_DEPTH = 12, AXES_CALLS = 600 };

/* --- recording --- */

static void keep_fake(cr_axes_maker *m, cr_tensor *t)
{
    cr_status st = cr_vec_reserve(&m->fakes, 1);

    if (st)
        cr_drop(t);
    cr_session_check(m->session, st);
    cr_vec_put(&m->fakes, t);
}

void cr_axes_maker_drop(cr_axes_maker *m)
{
    for (size_t i = 0; i < m->fakes.len; i++)
        cr_drop(m->fakes.at[i]);
    cr_vec_drop(&m->fakes);
}

static cr_tensor *fake_like(cr_axes_maker *m, const cr_gtype *type)
{
    cr_tensor *t = NULL;

    if (!type->known)
        cr_bail(m->session, CR_VALUE, "a value has no type");
    cr_session_check(m->session, cr_gtype_fake(&t, type));
    keep_fake(m, t);
    return t;
}

static cr_tensor *fake_of(cr_axes_maker *m, const cr_tensor *t)
{
    cr_gtype type = cr_gtype_of(m->session, t);

    type.device = cr_device_beside(t);
    return fake_like(m, &type);
}

/* Makes a fake tensor for each tensor among the arguments; these are the operands. */
static cr_value own_arg(cr_axes_maker *m, cr_axes *a, int param, const cr_value *v)
{
    cr_value out = *v, *list;

    if (v->tag == CR_TENSOR) {
        if (a->operands == CR_AXES_TENSORS || v->t->ndim > CR_AXES_DIMS)
            cr_bail(m->session, CR_VALUE, "%s has more tensors or dims than axes are found of",
                    a->op->name);
        cr_axes_tensor *x = &a->operand[a->operands++];
        x->t = fake_of(m, v->t);
        x->param = param;
        out.t = x->t;
    } else if (v->tag == CR_TENSORS) {
        list = CR_NEW_N(m->session, cr_value, v->len + 1);
        for (uint32_t i = 0; i < v->len; i++)
            list[i] = own_arg(m, a, param, &v->list[i]);
        out.list = list;
    }
    return out;
}

static void set_result(cr_axes_maker *m, cr_axes *a, cr_value *v)
{
    if (v->tag == CR_TENSOR && v->t->ndim <= CR_AXES_DIMS && a->results < CR_AXES_TENSORS) {
        keep_fake(m, cr_keep(v->t));
        a->result[a->results++].t = v->t;
    } else if (v->tag == CR_TENSORS) {
        for (uint32_t i = 0; i < v->len; i++)
            set_result(m, a, (cr_value *)(uintptr_t)&v->list[i]);
    } else if (v->tag != CR_NONE) {
        cr_bail(m->session, CR_VALUE, "%s has results that are no tensors", a->op->name);
    }
}

static bool is_composite(const cr_op *op)
{
    return op->does == CR_DOES_IS || op->does == CR_DOES_STEPS ||
           (op->does == CR_DOES_WHOLE && op->defer.by_calls);
}

/* Calls the entry, or runs its composition, on fakes. */
static cr_status call_on_fakes(const cr_axes *a, cr_value *result, bool parts)
{
    if (!parts)
        return cr_call(a->op, a->arg, result);
    if (a->op->does == CR_DOES_WHOLE)
        return a->op->kernel_stage(a->op, a->arg, result);
    return cr_run_composition(a->op, a->arg, result);
}

/* --- parts from a recorded graph --- */

typedef struct {
    cr_axes_maker *m;
    cr_axes *a;
    const cr_graph *g;
    int *number; /* of each value id, -1 */
    cr_axes_part *part;
    bool failed;
} part_reader;

static cr_value part_arg(part_reader *p, cr_axes_part *to, int *operands, const cr_garg *g)
{
    cr_value out = {.tag = g->tag, .len = g->len};

    if (g->tag == CR_TENSOR) {
        int k = p->number[g->value->id];
        if (k < 0 || *operands == CR_AXES_TENSORS) {
            p->failed = true;
            return cr_of_none();
        }
        to->operand[(*operands)++] = k;
        out.t = p->a->value[k];
    } else if (g->tag == CR_TENSORS || g->tag == CR_NUMBERS) {
        cr_value *list = CR_NEW_N(p->m->session, cr_value, g->len + 1);
        for (uint32_t i = 0; i < g->len; i++)
            list[i] = part_arg(p, to, operands, &g->list[i]);
        out.list = list;
    } else {
        memcpy(&out.number, &g->number, sizeof g->number);
        if (g->tag == CR_STRING)
            out.s = cr_session_text(p->m->session, g->s);
        if (g->tag == CR_INTS || g->tag == CR_TRUTHS)
            out.ints = cr_session_copy(p->m->session, g->ints, g->len * sizeof *g->ints);
        if (g->tag == CR_FLOATS)
            out.floats = cr_session_copy(p->m->session, g->floats, g->len * sizeof *g->floats);
    }
    return out;
}

static void number_value(part_reader *p, const cr_gvalue *v)
{
    if (!v || v->type.ndim > CR_AXES_DIMS) {
        p->failed = true;
        return;
    }
    p->number[v->id] = p->a->values;
    p->a->value[p->a->values++] = fake_like(p->m, &v->type);
}

static void read_part(part_reader *p, const cr_gnode *n)
{
    cr_axes_part *to = &p->part[p->a->parts];
    cr_value *arg = CR_NEW_N(p->m->session, cr_value, CR_MAX_ARGS);
    int operands = 0;

    if (n->kind != CR_GNODE_CALL || n->result_count > CR_AXES_TENSORS) {
        p->failed = true;
        return;
    }
    for (int i = 0; i < n->arg_count && !p->failed; i++)
        arg[i] = part_arg(p, to, &operands, &n->arg[i]);
    for (int k = 0; k < n->result_count && !p->failed; k++) {
        number_value(p, n->result[k]);
        to->result[k] = p->a->values - 1;
    }
    if (p->failed)
        return;
    for (int i = 0; i < n->op->param_count; i++)
        p->a->writes |= n->op->param[i].written;
    p->a->writes |= n->op->does == CR_DOES_INPLACE;
    to->call = cr_axes_of(p->m, n->op, arg);
    /* A call without axes needs its operands whole. */
    p->failed = n->op->words & CR_WORD_RANDOM || to->call->operands != operands ||
                to->call->results != n->result_count;
    p->a->parts++;
}

static bool read_parts(cr_axes_maker *m, cr_axes *a, const cr_graph *g)
{
    part_reader p = {.m = m, .a = a, .g = g};
    const cr_gblock *b = g->body;

    if (g->constants.len || g->input_count != a->operands)
        return false;
    p.number = CR_NEW_N(m->session, int, g->values + 1);
    memset(p.number, -1, (g->values + 1) * sizeof *p.number);
    a->value = CR_NEW_N(m->session, cr_tensor *, g->values + 1);
    a->part = p.part = CR_NEW_N(m->session, cr_axes_part, b->len + 1);
    for (int i = 0; i < a->operands; i++) {
        p.number[g->input[i]->id] = a->values;
        a->value[a->values++] = a->operand[i].t;
    }
    for (size_t i = 0; i < b->len && !p.failed; i++)
        read_part(&p, b->at[i]);
    for (int k = 0; k < b->output_count && k < a->results && !p.failed; k++) {
        a->out[k] = b->output[k].tag == CR_TENSOR ? p.number[b->output[k].value->id] : -1;
        p.failed = a->out[k] < 0;
    }
    return !p.failed && b->output_count == a->results;
}

typedef struct {
    cr_axes *a;
    cr_recorder *r;
    cr_graph *g;
    cr_value result[CR_MAX_RESULTS];
} recording;

static cr_status finish_recording(recording *x)
{
    cr_tensor *out[CR_AXES_TENSORS];
    int n = 0;

    for (int k = 0; k < x->a->op->result_count; k++) {
        const cr_value *v = &x->result[k];
        for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
            if (n < CR_AXES_TENSORS && v->list[i].tag == CR_TENSOR)
                out[n++] = v->list[i].t;
        if (v->tag == CR_TENSOR && n < CR_AXES_TENSORS)
            out[n++] = v->t;
    }
    return cr_recorder_finish(&x->g, x->r, out, n);
}

static cr_status record_call(recording *x)
{
    cr_status st;

    CR_TRY(cr_recorder_new(&x->r, true));
    for (int i = 0; i < x->a->operands; i++)
        CR_TRY(cr_recorder_input(x->r, x->a->operand[i].t, NULL));
    CR_TRY(cr_recorder_start(x->r));
    st = call_on_fakes(x->a, x->result, true);
    cr_recorder_stop(x->r);
    CR_TRY(st);
    st = finish_recording(x);
    cr_drop_values(x->result, x->a->op->result_count);
    return st;
}

/* The recorder is dropped on every way out: reading may bail. */
typedef struct {
    cr_axes_maker *m;
    recording *x;
    bool good;
} reading;

static void read_in_session(cr_session *s, void *context)
{
    reading *r = context;

    (void)s;
    r->good = read_parts(r->m, r->x->a, r->x->g);
}

static bool find_parts(cr_axes_maker *m, cr_axes *a)
{
    recording x = {.a = a};
    reading r = {.m = m, .x = &x};
    cr_recorder *outer = cr_recorder_pause();
    cr_status st = record_call(&x);

    cr_recorder_resume(outer);
    if (!st)
        st = cr_session_run(m->session, read_in_session, &r);
    cr_recorder_drop(x.r);
    return !st && r.good;
}

/* --- joining axes --- */

typedef struct {
    cr_axes *a;
    int16_t *root; /* a forest over axes */
    int count;
} joiner;

static int root_of(const joiner *j, int k)
{
    while (j->root[k] != k)
        k = j->root[k];
    return k;
}

static void join(joiner *j, int x, int y)
{
    x = root_of(j, x);
    y = root_of(j, y);
    if (x == y)
        return;
    j->root[y] = (int16_t)x;
    j->a->axis[x].whole |= j->a->axis[y].whole;
    j->a->axis[x].divided |= j->a->axis[y].divided;
    j->a->axis[x].looked |= j->a->axis[y].looked;
}

static void join_tensor(joiner *j, const cr_axes_tensor *t, int value, const int16_t *of_part)
{
    for (int d = 0; d < t->t->ndim; d++) {
        int k = j->a->dim[value][d];
        if (t->axis[d] < 0)
            j->a->axis[root_of(j, k)].whole = true;
        else
            join(j, k, of_part[t->axis[d]]);
    }
}

static void join_part(cr_axes_maker *m, joiner *j, int i)
{
    const cr_axes_part *p = &j->a->part[i];
    const cr_axes *c = p->call;
    int16_t *own = CR_NEW_N(m->session, int16_t, c->count + 1);

    for (int k = 0; k < c->count; k++) {
        int n = cr_axes_add(m, j->a, CR_AXIS_ALONG);
        j->root[n] = (int16_t)n;
        own[k] = (int16_t)n;
        j->a->axis[n].whole = c->axis[k].whole;
        j->a->axis[n].divided = c->axis[k].divided;
        j->a->axis[n].looked = c->axis[k].looked;
    }
    j->a->part_axis[i] = own;
    for (int k = 0; k < c->operands; k++)
        join_tensor(j, &c->operand[k], p->operand[k], own);
    for (int k = 0; k < c->results; k++)
        join_tensor(j, &c->result[k], p->result[k], own);
}

/* Two dims of a value cannot have one axis. */
static void check_value(const joiner *j, int v)
{
    const cr_tensor *t = j->a->value[v];

    for (int d = 0; d < t->ndim; d++) {
        j->a->dim[v][d] = (int16_t)root_of(j, j->a->dim[v][d]);
        for (int e = 0; e < d; e++)
            if (j->a->dim[v][e] == j->a->dim[v][d])
                j->a->axis[j->a->dim[v][d]].whole = true;
    }
}

static void join_axes(cr_axes_maker *m, cr_axes *a)
{
    joiner j = {.a = a, .root = CR_NEW_N(m->session, int16_t, CR_AXES_MOST)};

    a->dim = cr_session_get(m->session, sizeof *a->dim * (size_t)(a->values + 1));
    a->part_axis = CR_NEW_N(m->session, int16_t *, a->parts + 1);
    for (int v = 0; v < a->values; v++)
        for (int d = 0; d < a->value[v]->ndim; d++) {
            int n = cr_axes_add(m, a, CR_AXIS_ALONG);
            j.root[n] = a->dim[v][d] = (int16_t)n;
        }
    for (int i = 0; i < a->parts; i++)
        join_part(m, &j, i);
    for (int v = 0; v < a->values; v++)
        check_value(&j, v);
    for (int i = 0; i < a->parts; i++)
        for (int k = 0; k < a->part[i].call->count; k++)
            a->part_axis[i][k] = (int16_t)root_of(&j, a->part_axis[i][k]);
}

/* --- following an axis --- */

static bool has_dim(const cr_axes *a, int v, int axis)
{
    for (int d = 0; d < a->value[v]->ndim; d++)
        if (a->dim[v][d] == axis)
            return true;
    return false;
}

/* How a part reduces along an axis, or -1 where two of its axes are this one. */
static int part_how(const cr_axes *a, int i, int axis, bool *has, uint32_t *apart)
{
    int how = CR_AXIS_ALONG, n = 0;

    *apart = 0;

    for (int k = 0; k < a->part[i].call->count; k++)
        if (a->part_axis[i][k] == axis) {
            how = a->part[i].call->axis[k].how;
            *apart = a->part[i].call->axis[k].apart;
            n++;
        }
    *has = n > 0;
    return n > 1 ? -1 : how;
}

/* The states of a part's results from those of its operands; false where it needs the axis
 * whole.  `how` is that of partial values. */
static bool follow_part(const cr_axes *a, int i, int axis, uint8_t *state, cr_axis_how *how)
{
    const cr_axes_part *p = &a->part[i];
    uint32_t split = 0, partial = 0, added = 0, apart;
    bool has;
    int reduces = part_how(a, i, axis, &has, &apart);
    cr_part_state made = CR_PART_WHOLE;

    for (int k = 0; k < p->call->operands; k++) {
        uint32_t bit = (uint32_t)1 << k;
        split |= state[p->operand[k]] == CR_PART_SPLIT ? bit : 0;
        partial |= state[p->operand[k]] == CR_PART_PARTIAL ? bit : 0;
        added |= p->call->operand[k].added && !has_dim(a, p->operand[k], axis) ? bit : 0;
    }
    if (reduces < 0)
        return false;
    if (p->call->op->filled) /* its operands are not read */
        split = partial = 0;
    if (split && reduces != CR_AXIS_ALONG) {
        if (partial != added || (*how && (int)*how != reduces))
            return false;
        *how = (cr_axis_how)reduces;
        made = CR_PART_PARTIAL;
    } else if (partial) {
        if (split || !cr_axes_keep_partial(p->call, partial, *how))
            return false;
        made = CR_PART_PARTIAL;
    }
    for (int k = 0; k < p->call->results; k++) {
        bool own = has_dim(a, p->result[k], axis);
        if (!own && split && !partial && apart >> k & 1) {
            state[p->result[k]] = CR_PART_WHOLE;
            continue;
        }
        if (own ? made == CR_PART_PARTIAL && partial : made == CR_PART_WHOLE && split)
            return false;
        state[p->result[k]] = own ? CR_PART_SPLIT : (uint8_t)made;
    }
    return true;
}

static bool any_state(const uint8_t *state, int n, cr_part_state s)
{
    for (int v = 0; v < n; v++)
        if (state[v] == s)
            return true;
    return false;
}

/* Sets axis->how from the states of the results, or makes the axis whole. */
static void follow_axis(cr_axes *a, int axis, uint8_t *state)
{
    cr_axis_how how = CR_AXIS_ALONG;
    bool good = true, lacks = false, split = false;
    uint32_t apart = 0;

    for (int v = 0; v < a->values; v++)
        state[v] = v < a->operands && has_dim(a, v, axis) ? CR_PART_SPLIT : CR_PART_WHOLE;
    for (int i = 0; i < a->parts && good; i++)
        good = follow_part(a, i, axis, state, &how);
    good = good && !(a->writes && any_state(state, a->values, CR_PART_PARTIAL));
    split = any_state(state, a->operands, CR_PART_SPLIT);
    for (int k = 0; k < a->results && good; k++) {
        uint8_t s = state[a->out[k]];
        lacks |= s == CR_PART_PARTIAL;
        apart |= s == CR_PART_WHOLE && split ? (uint32_t)1 << k : 0;
    }
    good = good && (!apart || apart != ((uint64_t)1 << a->results) - 1);
    a->axis[axis].apart = apart;
    a->axis[axis].whole |= !good;
    a->axis[axis].how = lacks ? (uint8_t)how : CR_AXIS_ALONG;
}

static void find_axes(cr_axes_maker *m, cr_axes *a)
{
    uint8_t *state = CR_NEW_N(m->session, uint8_t, a->values + 1);

    join_axes(m, a);
    for (int i = 0; i < a->operands; i++)
        memcpy(a->operand[i].axis, a->dim[i], sizeof a->operand[i].axis);
    for (int k = 0; k < a->results; k++)
        memcpy(a->result[k].axis, a->dim[a->out[k]], sizeof a->result[k].axis);
    for (int v = 0; v < a->values; v++)
        for (int d = 0; d < a->value[v]->ndim; d++) {
            int k = a->dim[v][d];
            if (!a->axis[k].whole && a->axis[k].how == CR_AXIS_ALONG)
                follow_axis(a, k, state);
        }
    a->rule = "parts";
}

/* --- partial operands --- */

static bool is_one_bit(uint32_t x) { return x && !(x & (x - 1)); }

static bool rule_keeps_partial(const cr_axes *a, uint32_t partial, cr_axis_how how)
{
    const cr_op *op = a->op;
    uint32_t added = 0, all = (uint32_t)(((uint64_t)1 << a->operands) - 1);

    if (op->does == CR_DOES_MAP ||
        op->words & (CR_WORD_IDENTITY | CR_WORD_CAST | CR_WORD_RESHAPE))
        return partial & 1 && (a->operands == 1 || !(partial >> 1)) &&
               (cr_dtype_is_float((cr_dtype)a->result[0].t->dtype) ||
                a->result[0].t->dtype == a->operand[0].t->dtype);
    if (op->words & CR_WORD_JOIN)
        return partial == all;
    if (how != CR_AXIS_SUM || op->filled)
        return false;
    switch (op->does) {
    case CR_DOES_BODY:
        for (int k = 0; k < op->body_count; k++)
            if (cr_axes_degree(a, op->body[k], partial) != 1)
                return false;
        return true;
    case CR_DOES_FOLD:
        return op->fold.rule->name && !strcmp(op->fold.rule->name, "add") && !op->fold.index &&
               cr_axes_degree(a, op->fold.rule->args[0], partial) == 1;
    case CR_DOES_SCAN:
        return !strcmp(op->scan.rule->name, "add") &&
               cr_axes_degree(a, op->scan.rule->args[0], partial) == 1;
    case CR_DOES_LOOP:
        for (unsigned i = 1; i < op->loop.target->count; i++)
            if (cr_axes_degree(a, op->loop.target->args[i], partial))
                return false;
        if (op->loop.start && op->loop.start->kind == CR_RULE_NAME &&
            cr_axes_degree(a, op->loop.start, partial) != 1)
            return false;
        if (op->loop.start && op->loop.start->kind != CR_RULE_NAME && op->loop.start->integer)
            return false;
        return (!op->loop.window || op->loop.window->how == CR_WINDOW_ADD) &&
               cr_axes_degree(a, op->loop.value, partial) == 1 && !op->loop.combine;
    default: break;
    }
    /* Products: the factors, and what is added to their product. */
    for (int i = 0; i < a->operands; i++)
        added |= a->operand[i].added ? (uint32_t)1 << i : 0;
    for (int k = 0; k < a->count; k++)
        if (a->axis[k].how == CR_AXIS_SUM)
            return (partial & added) == added && is_one_bit(partial & ~added);
    return false;
}

static bool parts_keep_partial(const cr_axes *a, uint32_t partial, cr_axis_how how)
{
    uint8_t state[1024] = {0};

    if (a->writes || a->values > (int)CR_LEN(state))
        return false;
    for (int i = 0; i < a->operands; i++)
        state[i] = partial >> i & 1 ? CR_PART_PARTIAL : CR_PART_WHOLE;
    for (int i = 0; i < a->parts; i++) {
        const cr_axes_part *p = &a->part[i];
        uint32_t own = 0;
        for (int k = 0; k < p->call->operands; k++)
            own |= state[p->operand[k]] == CR_PART_PARTIAL ? (uint32_t)1 << k : 0;
        if (own && !cr_axes_keep_partial(p->call, own, how))
            return false;
        for (int k = 0; k < p->call->results; k++)
            state[p->result[k]] = own ? CR_PART_PARTIAL : CR_PART_WHOLE;
    }
    for (int k = 0; k < a->results; k++)
        if (state[a->out[k]] != CR_PART_PARTIAL)
            return false;
    return true;
}

bool cr_axes_keep_partial(const cr_axes *a, uint32_t partial, cr_axis_how how)
{
    if (!a->rule)
        return false;
    return a->part ? parts_keep_partial(a, partial, how) : rule_keeps_partial(a, partial, how);
}

/* --- a call --- */

static void forget_axes(cr_axes *a)
{
    a->count = 0;
    for (int i = 0; i < a->operands; i++) {
        a->operand[i].added = false;
        memset(a->operand[i].axis, -1, sizeof a->operand[i].axis);
    }
    for (int k = 0; k < a->results; k++)
        memset(a->result[k].axis, -1, sizeof a->result[k].axis);
}

cr_axes *cr_axes_of(cr_axes_maker *m, const cr_op *op, const cr_value *arg)
{
    cr_axes *a = CR_NEW(m->session, cr_axes);
    cr_value *own = CR_NEW_N(m->session, cr_value, CR_MAX_ARGS), result[CR_MAX_RESULTS];
    cr_recorder *outer;
    cr_status st;

    a->op = op->inplace_of ? op->inplace_of : op;
    a->arg = own;
    if (++m->calls > AXES_CALLS || m->depth == AXES_DEPTH)
        return a;
    for (int i = 0; i < op->param_count; i++)
        own[i] = own_arg(m, a, i, &arg[i]);
    outer = cr_recorder_pause();
    st = call_on_fakes(a, result, false);
    cr_recorder_resume(outer);
    cr_session_check(m->session, st);
    for (int k = 0; k < a->op->result_count; k++)
        set_result(m, a, &result[k]);
    cr_drop_values(result, a->op->result_count);
    forget_axes(a);
    cr_axes_by_rule(m, a);
    m->depth++;
    if (!a->rule && is_composite(a->op) && !(a->op->words & CR_WORD_SPARSE) && find_parts(m, a))
        find_axes(m, a);
    m->depth--;
    if (!a->rule)
        forget_axes(a);
    return a;
}
