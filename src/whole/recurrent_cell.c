/* lstm_cell and gru_cell: two products, then the gates.
 *
 * Where no stage sees the calls, one elementwise entry computes all gates.  A body rounds
 * float32 and float64 after each operation, so its numbers are those of separate calls, of
 * which the gates are made otherwise. */
#include "tensor/geometry.h"
#include "whole/recurrent.h"

enum { CELL_GATES = 4 };

/* The input's and the hidden state's shares of the gates, and the state that they change. */
typedef struct {
    cr_tensor *x, *h, *state;
} cell;

static bool cell_agrees(const cr_tensor *share, const cr_tensor *state, int64_t columns)
{
    return share->dtype == state->dtype && cr_same_device(share->device, state->device) &&
           share->ndim == 2 && share->size[0] == state->size[0] && share->size[1] == columns;
}

/* Whether one call of `step` computes the gates. */
static bool cell_is_one_call(const cell *c, const cr_op *step, int gates)
{
    const cr_tensor *s = c->state;
    cr_value watched[CR_MAX_ARGS];
    int64_t columns;

    if (s->ndim != 2 || (s->dtype != CR_F32 && s->dtype != CR_F64))
        return false;
    if (CR_MUL_OVERFLOW(gates, s->size[1], &columns) || !cell_agrees(c->x, s, columns) ||
        !cell_agrees(c->h, s, columns))
        return false;
    for (int i = 0; i < step->param_count; i++)
        watched[i] = T(i < gates ? c->x : i < 2 * gates ? c->h : c->state);
    return !(cr_call_stages(step, watched) & ~CR_STAGE_BIT(KERNEL));
}

/* Views of the gates' columns. */
static void cell_split(cr_steps *s, cr_value *part, const cr_tensor *t, int gates)
{
    int64_t width = t->size[1] / gates;
    cr_geometry g = {.ndim = 2};
    cr_tensor *made;

    for (int i = 0; i < 2; i++)
        g.stride[i] = t->stride[i];
    g.size[0] = t->size[0], g.size[1] = width;
    for (int k = 0; k < gates && !s->st; k++) {
        g.offset = CR_WRAP_MUL(k * width, t->stride[1]);
        cr_step_fail(s, cr_tensor_view(&made, t, &g));
        part[k] = cr_maybe(s->st ? NULL : cr_step_own(s, made));
    }
}

/* The states after a step by one call; the second one is that of an lstm. */
static void cell_by_one_call(cr_steps *s, const cell *c, const cr_op *step, int gates,
                             cr_tensor **state)
{
    cr_value all[2 * CELL_GATES + 1];

    cell_split(s, all, c->x, gates);
    cell_split(s, all + gates, c->h, gates);
    all[2 * gates] = T(c->state);
    cr_step_all(s, state, step, 2 * gates + 1, all);
}

static cr_tensor *cell_add(cr_steps *s, cr_tensor *a, cr_tensor *b)
{
    return CR_STEP(s, add, T(a), T(b));
}

static cr_tensor *cell_mul(cr_steps *s, cr_tensor *a, cr_tensor *b)
{
    return CR_STEP(s, mul, T(a), T(b));
}

static cr_tensor *cell_sigmoid(cr_steps *s, cr_tensor *t) { return CR_STEP(s, sigmoid, T(t)); }

static cr_tensor *cell_tanh(cr_steps *s, cr_tensor *t) { return CR_STEP(s, tanh, T(t)); }

static void cell_chunk(cr_steps *s, cr_tensor **part, cr_tensor *t, int gates)
{
    cr_step_list(s, part, gates, cr_entry.chunk, 3, (cr_value[]){T(t), I(gates), I(1)});
}

static void lstm_by_calls(cr_steps *s, const cell *c, cr_tensor *state[2])
{
    cr_tensor *gate[CELL_GATES], *out, *kept, *added;

    cell_chunk(s, gate, cell_add(s, c->x, c->h), CELL_GATES);
    out = cell_sigmoid(s, gate[3]);
    kept = cell_mul(s, cell_sigmoid(s, gate[1]), c->state);
    added = cell_sigmoid(s, gate[0]);
    added = cell_mul(s, added, cell_tanh(s, gate[2]));
    state[1] = cell_add(s, kept, added);
    state[0] = cell_mul(s, out, cell_tanh(s, state[1]));
}

static void gru_by_calls(cr_steps *s, const cell *c, cr_tensor *state[1])
{
    cr_tensor *x[CELL_GATES], *h[CELL_GATES], *made, *reset, *keep;

    cell_chunk(s, x, c->x, 3);
    cell_chunk(s, h, c->h, 3);
    reset = cell_sigmoid(s, cell_add(s, x[0], h[0]));
    made = cell_tanh(s, cell_add(s, x[2], cell_mul(s, reset, h[2])));
    keep = cell_sigmoid(s, cell_add(s, x[1], h[1]));
    state[0] = CR_STEP(s, sub, T(c->state), T(made));
    state[0] = cell_add(s, cell_mul(s, state[0], keep), made);
}

/* The shares of (input, hidden, w_ih, w_hh, b_ih, b_hh), whose state is `state`. */
static cell cell_of(cr_steps *s, const cr_value *arg, cr_tensor *hidden, cr_tensor *state)
{
    cr_tensor *x = CR_STEP(s, linear, arg[0], arg[2], arg[4]);
    cr_tensor *h = CR_STEP(s, linear, T(hidden), arg[3], arg[5]);

    return (cell){x, h, state};
}

cr_status cr_do_gru_cell(const cr_value *arg, cr_value *result)
{
    cr_steps s = {0};
    cell c = cell_of(&s, arg, arg[1].t, arg[1].t);
    cr_tensor *state[1] = {NULL};

    if (!s.st && cell_is_one_call(&c, cr_entry._gru_step, 3))
        cell_by_one_call(&s, &c, cr_entry._gru_step, 3, state);
    else
        gru_by_calls(&s, &c, state);
    return cr_steps_give_all(&s, result, state, 1);
}

cr_status cr_do_lstm_cell(const cr_value *arg, cr_value *result)
{
    const cr_value *hx = arg[1].list;
    cr_steps s = {0};
    cell c = cell_of(&s, arg, hx[0].t, hx[1].t);
    cr_tensor *state[2] = {NULL, NULL};

    if (!s.st && cell_is_one_call(&c, cr_entry._lstm_step, CELL_GATES))
        cell_by_one_call(&s, &c, cr_entry._lstm_step, CELL_GATES, state);
    else
        lstm_by_calls(&s, &c, state);
    return cr_steps_give_all(&s, result, state, 2);
}
