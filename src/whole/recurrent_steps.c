/* The steps of one direction of a recurrent layer, and their derivative.
 *
 * Products have the dtype of the weights; states, and a gru's share of the input, may have a
 * wider one, as under autocast. A step is a product with the hidden state and one elementwise
 * entry.  Backward computes the hidden state's share of all steps again, by one product: only
 * arguments and results are saved for it. */
#include "base/memory.h"
#include "tensor/remote.h"
#include "whole/recurrent.h"

enum { RNN_GATES = 4 };
/* Multiplications of a step from which the products of a library are faster than a kernel that
 * has a step in one launch. */
enum { RNN_MOST_PRODUCTS = 1 << 27 };

/* (gates, hidden, cell, w_hh, b_hh, kind, reverse, by_calls) */
typedef struct {
    cr_tensor *gates, *hidden, *cell, *w, *b; /* cell, b: may be NULL */
    cr_rnn_kind kind;
    bool reverse, by_calls, records; /* records: the call is to be differentiated again */
    int parts;                       /* gates */
    int64_t steps;
} direction;

static direction direction_of(const cr_value *arg)
{
    direction d = {.gates = arg[0].t,
                   .hidden = arg[1].t,
                   .cell = arg[2].t,
                   .w = arg[3].t,
                   .b = arg[4].t,
                   .kind = (cr_rnn_kind)arg[5].i,
                   .reverse = arg[6].i != 0,
                   .by_calls = arg[7].i != 0,
                   .steps = arg[0].t->ndim == 3 ? arg[0].t->size[0] : 0};

    d.parts = d.kind == CR_RNN_LSTM ? 4 : d.kind == CR_RNN_GRU ? 3 : 1;
    return d;
}

static cr_status direction_check(const direction *d)
{
    int64_t gates;

    if (d->gates->ndim != 3 || d->hidden->ndim != 2 || d->w->ndim != 2 ||
        (d->kind == CR_RNN_LSTM && !d->cell))
        return cr_fail(
            CR_RUNTIME,
            "a recurrent layer takes gates of 3 dims, a hidden state and weights of 2, "
            "and an lstm a cell");
    gates = CR_WRAP_MUL(d->parts, d->hidden->size[1]);
    if (d->gates->size[2] == gates && d->w->size[0] == gates &&
        d->w->size[1] == d->hidden->size[1] && d->gates->size[1] == d->hidden->size[0] &&
        (!d->cell || cr_has_sizes(d->cell, d->hidden->ndim, d->hidden->size)))
        return CR_OK;
    return cr_fail(CR_RUNTIME,
                   "a recurrent layer of %lld hidden numbers has %lld gates; got gates of size "
                   "%lld and weights of sizes (%lld, %lld)",
                   (long long)d->hidden->size[1], (long long)gates,
                   (long long)d->gates->size[2], (long long)d->w->size[0],
                   (long long)d->w->size[1]);
}

static int64_t direction_step(const direction *d, int64_t i)
{
    return d->reverse ? d->steps - 1 - i : i;
}

/* The parts of t (steps, rows, gates) by gate and step: at[gate * steps + step]. */
static cr_tensor **direction_split(cr_steps *s, const direction *d, cr_tensor *t)
{
    cr_tensor *gate[RNN_GATES], **at = cr_step_room(s, d->parts * d->steps);

    cr_step_list(s, gate, d->parts, cr_entry.chunk, 3, (cr_value[]){T(t), I(d->parts), I(2)});
    for (int k = 0; !s->st && k < d->parts; k++)
        cr_step_list(s, at + k * d->steps, d->steps, cr_entry.unbind_int, 2,
                     (cr_value[]){T(gate[k]), I(0)});
    return at;
}

/* --- steps by a device's kernel --- */

static bool direction_agrees(const direction *d, const cr_tensor *t)
{
    return !t || (t->dtype == d->w->dtype && cr_same_device(t->device, d->w->device));
}

/* True if the device has a kernel for the steps, which are not too large for it.  Biases of
 * other sizes than the gates' are left to the calls, which broadcast or refuse them. */
static bool direction_has_kernel(const direction *d, const cr_op *op)
{
    cr_device device = d->w->device;

    if (d->b && !cr_has_sizes(d->b, 1, d->w->size))
        return false;

    if (d->by_calls || d->records || cr_is_host(device) || !cr_has_bytes(device) ||
        !cr_remote_has_kernel(op, device) || !cr_dtype_is_float((cr_dtype)d->w->dtype))
        return false;
    return direction_agrees(d, d->gates) && direction_agrees(d, d->hidden) &&
           direction_agrees(d, d->cell) && direction_agrees(d, d->b) &&
           CR_WRAP_MUL(d->w->numel, d->hidden->size[0]) <= RNN_MOST_PRODUCTS;
}

/* A row-major array for the kernel; NULL stays NULL. */
static cr_tensor *direction_dense(cr_steps *s, cr_tensor *t)
{
    return t && !s->st ? CR_STEP(s, contiguous, T(t)) : t;
}

/* The results of a call of the entry with dense tensors, of which NULL is none. */
static void direction_call(cr_steps *s, const direction *d, cr_tensor **all, const cr_op *op,
                           int n, cr_tensor *const *tensor)
{
    cr_value arg[CR_MAX_ARGS];

    for (int i = 0; i < n; i++)
        arg[i] = cr_maybe(direction_dense(s, tensor[i]));
    arg[n] = I(d->kind);
    arg[n + 1] = cr_of_bool(d->reverse);
    cr_step_all(s, all, op, n + 2, arg);
}

/* --- forward --- */

/* The states after a step: x has the input's share of each gate. */
static void step_forward(cr_steps *s, const direction *d, cr_tensor *const x[],
                         cr_tensor *state[2])
{
    cr_tensor *h[RNN_GATES];
    cr_tensor *own = cr_step_cast(s, state[0], (cr_dtype)d->w->dtype);
    cr_tensor *share = CR_STEP(s, linear, T(own), T(d->w), cr_maybe(d->b));

    cr_step_list(s, h, d->parts, cr_entry.chunk, 3, (cr_value[]){T(share), I(d->parts), I(1)});
    switch (d->kind) {
    case CR_RNN_LSTM:
        cr_step_all(s, state, cr_entry._lstm_step, 9,
                    (cr_value[]){T(x[0]), T(x[1]), T(x[2]), T(x[3]), T(h[0]), T(h[1]), T(h[2]),
                                 T(h[3]), T(state[1])});
        return;
    case CR_RNN_GRU:
        state[0] = CR_STEP(s, _gru_step, T(x[0]), T(x[1]), T(x[2]), T(h[0]), T(h[1]), T(h[2]),
                           T(state[0]));
        return;
    case CR_RNN_TANH:
        state[0] = CR_STEP(s, tanh, T(CR_STEP(s, add, T(x[0]), T(share))));
        return;
    default: state[0] = CR_STEP(s, relu, T(CR_STEP(s, add, T(x[0]), T(share))));
    }
}

/* An empty tensor, in place of cells. */
static cr_tensor *no_cells(cr_steps *s, const direction *d)
{
    cr_tensor *t = NULL;

    if (!s->st)
        cr_step_fail(s, cr_tensor_new(&t, (cr_dtype)d->gates->dtype, d->gates->device, 1,
                                      (int64_t[]){0}));
    return t ? cr_step_own(s, t) : NULL;
}

static void forward_by_calls(cr_steps *s, const direction *d, cr_tensor *all[2])
{
    cr_tensor **x = direction_split(s, d, d->gates), **out = cr_step_room(s, 2 * d->steps);
    cr_tensor *state[2] = {d->hidden, d->cell};

    for (int64_t i = 0; i < d->steps && !s->st; i++) {
        int64_t at = direction_step(d, i);
        cr_tensor *share[RNN_GATES];
        for (int k = 0; k < d->parts; k++)
            share[k] = x[k * d->steps + at];
        step_forward(s, d, share, state);
        out[at] = state[0];
        out[d->steps + at] = state[1];
    }
    all[0] = cr_step_join(s, cr_entry.stack, out, d->steps, 0);
    all[1] = d->kind == CR_RNN_LSTM
                 ? cr_step_join(s, cr_entry.stack, out ? out + d->steps : NULL, d->steps, 0)
                 : no_cells(s, d);
    cr_free(x);
    cr_free(out);
}

cr_status cr_do_rnn_direction(const cr_value *arg, cr_value *result)
{
    direction d = direction_of(arg);
    cr_steps s = {.st = direction_check(&d)};
    cr_tensor *all[2] = {NULL, NULL};

    if (!s.st && direction_has_kernel(&d, cr_entry._rnn_steps))
        direction_call(&s, &d, all, cr_entry._rnn_steps, 5,
                       (cr_tensor *[]){d.gates, d.hidden, d.cell, d.w, d.b});
    else
        forward_by_calls(&s, &d, all);
    return cr_steps_give_all(&s, result, all, 2);
}

/* --- backward --- */

/* Lists by step, or by gate and step as direction_split has them. */
typedef struct {
    cr_tensor **grad, **grad_cell, **output, **cells;
    cr_tensor **x;       /* the gates' arguments; of a gru, the input's share */
    cr_tensor **h;       /* of a gru, the hidden state's share */
    cr_tensor **made;    /* cotangents of the gates, by step; then of a gru's own share */
    cr_tensor *state[2]; /* cotangents of the states after the step */
} reversal;

static cr_tensor **by_step(cr_steps *s, const direction *d, cr_tensor *t)
{
    cr_tensor **at = cr_step_room(s, d->steps);

    if (at)
        cr_step_list(s, at, d->steps, cr_entry.unbind_int, 2, (cr_value[]){T(t), I(0)});
    return at;
}

/* The state before a step. */
static cr_tensor *state_before(const direction *d, cr_tensor **states, cr_tensor *first,
                               int64_t i)
{
    return i ? states[direction_step(d, i - 1)] : first;
}

/* Cotangents of the gates as one tensor with the dtype of `like`. */
static cr_tensor *joined_gates(cr_steps *s, const direction *d, cr_tensor *const *part,
                               const cr_tensor *like)
{
    return cr_step_cast(s, cr_step_join(s, cr_entry.cat, part, d->parts, 1),
                        (cr_dtype)like->dtype);
}

static void lstm_backward(cr_steps *s, const direction *d, reversal *r, int64_t i)
{
    int64_t at = direction_step(d, i), n = d->steps;
    const cr_op *op = d->records ? cr_entry._lstm_step_gradient : cr_entry._lstm_step_backward;
    cr_tensor *part[5];

    cr_step_all(s, part, op, 10,
                (cr_value[]){T(r->grad[at]), T(r->state[0]), T(r->grad_cell[at]),
                             T(r->state[1]), T(r->x[at]), T(r->x[n + at]), T(r->x[2 * n + at]),
                             T(r->x[3 * n + at]), T(state_before(d, r->cells, d->cell, i)),
                             T(r->cells[at])});
    r->made[at] = joined_gates(s, d, part, d->w);
    r->state[0] = CR_STEP(s, mm, T(r->made[at]), T(d->w));
    r->state[1] = part[4];
}

static void gru_backward(cr_steps *s, const direction *d, reversal *r, int64_t i)
{
    int64_t at = direction_step(d, i), n = d->steps;
    const cr_op *op = d->records ? cr_entry._gru_step_gradient : cr_entry._gru_step_backward;
    cr_tensor *part[5];

    cr_step_all(s, part, op, 9,
                (cr_value[]){T(r->grad[at]), T(r->state[0]), T(r->x[at]), T(r->x[n + at]),
                             T(r->x[2 * n + at]), T(r->h[at]), T(r->h[n + at]),
                             T(r->h[2 * n + at]), T(state_before(d, r->output, d->hidden, i))});
    r->made[at] = joined_gates(s, d, part, d->gates);
    part[2] = part[3];
    r->made[n + at] = joined_gates(s, d, part, d->w);
    cr_tensor *through = CR_STEP(s, mm, T(r->made[n + at]), T(d->w));
    r->state[0] = CR_STEP(s, add, T(part[4]), T(through));
}

static void plain_backward(cr_steps *s, const direction *d, reversal *r, int64_t i)
{
    int64_t at = direction_step(d, i);
    cr_tensor *g = CR_STEP(s, add, T(r->grad[at]), T(r->state[0]));

    g = d->kind == CR_RNN_TANH ? CR_STEP(s, tanh_backward, T(g), T(r->output[at]))
                               : CR_STEP(s, threshold_backward, T(g), T(r->output[at]),
                                         cr_of_number(cr_scalar_int(0)));
    r->made[at] = cr_step_cast(s, g, (cr_dtype)d->w->dtype);
    r->state[0] = CR_STEP(s, mm, T(r->made[at]), T(d->w));
}

/* The arguments of an lstm's gates in all steps, or the hidden state's share in a gru's. */
static cr_tensor *share_again(cr_steps *s, const direction *d, cr_tensor *output)
{
    cr_tensor *before, *share;

    before = CR_STEP(s, _rnn_previous, T(output), T(d->hidden), cr_of_bool(d->reverse));
    before = cr_step_cast(s, before, (cr_dtype)d->w->dtype);
    share = CR_STEP(s, linear, T(before), T(d->w), cr_maybe(d->b));
    return d->kind == CR_RNN_GRU ? share : CR_STEP(s, add, T(d->gates), T(share));
}

static void gates_again(cr_steps *s, const direction *d, reversal *r, cr_tensor *output)
{
    cr_tensor *share;

    if (d->parts == 1)
        return;
    share = share_again(s, d, output);
    if (d->kind == CR_RNN_GRU)
        r->h = direction_split(s, d, share);
    r->x = direction_split(s, d, d->kind == CR_RNN_GRU ? d->gates : share);
}

static void reversal_drop(reversal *r)
{
    cr_tensor **list[] = {r->grad, r->grad_cell, r->output, r->cells, r->x, r->h, r->made};

    for (size_t i = 0; i < CR_LEN(list); i++)
        cr_free(list[i]);
}

static void reversal_start(cr_steps *s, const direction *d, reversal *r, const cr_value *arg)
{
    bool lstm = d->kind == CR_RNN_LSTM;

    r->grad = by_step(s, d, arg[0].t);
    r->grad_cell = lstm ? by_step(s, d, arg[1].t) : NULL;
    r->output = by_step(s, d, arg[2].t);
    r->cells = lstm ? by_step(s, d, arg[3].t) : NULL;
    r->made = cr_step_room(s, 2 * d->steps);
    r->state[0] = CR_STEP(s, zeros_like, T(d->hidden));
    r->state[1] = lstm ? CR_STEP(s, zeros_like, T(d->cell)) : NULL;
    gates_again(s, d, r, arg[2].t);
}

static bool is_recorded(const cr_value *arg, int n)
{
    for (int i = 0; i < n; i++)
        if (arg[i].tag == CR_TENSOR && arg[i].t->requires_grad)
            return !cr_thread.no_grad;
    return false;
}

/* The states of all steps and their cotangents have the sizes of the forward call's results. */
static cr_status direction_check_states(const direction *d, const cr_value *arg)
{
    int64_t size[] = {d->steps, d->hidden->size[0], d->hidden->size[1]};

    for (int i = 0; i < 4; i++)
        if ((i % 2 == 0 || d->kind == CR_RNN_LSTM) && !cr_has_sizes(arg[i].t, 3, size))
            return cr_fail(CR_RUNTIME,
                           "states and cotangents of a recurrent layer have the sizes (%lld, "
                           "%lld, %lld)",
                           (long long)size[0], (long long)size[1], (long long)size[2]);
    return CR_OK;
}

static void backward_by_calls(cr_steps *s, const direction *d, const cr_value *arg,
                              cr_tensor *all[4])
{
    reversal r = {.grad = NULL};

    reversal_start(s, d, &r, arg);
    for (int64_t i = d->steps - 1; i >= 0 && !s->st; i--)
        switch (d->kind) {
        case CR_RNN_LSTM: lstm_backward(s, d, &r, i); break;
        case CR_RNN_GRU: gru_backward(s, d, &r, i); break;
        default: plain_backward(s, d, &r, i);
        }
    all[0] = cr_step_join(s, cr_entry.stack, r.made, d->steps, 0);
    all[1] =
        d->kind == CR_RNN_GRU
            ? cr_step_join(s, cr_entry.stack, r.made ? r.made + d->steps : NULL, d->steps, 0)
            : no_cells(s, d);
    all[2] = r.state[0];
    all[3] = r.state[1] ? r.state[1] : no_cells(s, d);
    reversal_drop(&r);
}

/* (grad_output, grad_cells, output, cells, and the arguments of the forward call) */
cr_status cr_do_rnn_direction_backward(const cr_value *arg, cr_value *result)
{
    direction d = direction_of(arg + 4);
    cr_steps s = {.st = direction_check(&d)};
    cr_tensor *all[4] = {NULL, NULL, NULL, NULL};

    s.st = s.st ? s.st : direction_check_states(&d, arg);
    d.records = is_recorded(arg, 9);
    if (!s.st && direction_agrees(&d, arg[0].t) && direction_agrees(&d, arg[1].t) &&
        direction_has_kernel(&d, cr_entry._rnn_steps_backward)) {
        cr_tensor *share = d.parts == 1 ? d.gates : share_again(&s, &d, arg[2].t);
        direction_call(&s, &d, all, cr_entry._rnn_steps_backward, 10,
                       (cr_tensor *[]){arg[0].t, arg[1].t, arg[2].t, arg[3].t, d.gates, share,
                                       d.hidden, d.cell, d.w, d.b});
    } else {
        backward_by_calls(&s, &d, arg, all);
    }
    return cr_steps_give_all(&s, result, all, 4);
}
