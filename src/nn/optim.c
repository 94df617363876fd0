/* Optimizers: the state for the update operators, which Python's optimizers call, too.
 *
 * A step collects the parameters that have gradients, and their state, into lists.  One call of
 * an operator then updates them all. */
#include "entry.h"
#include "nn/nn_impl.h"
#include <stdlib.h>
#include <string.h>

/* Indices of a parameter's state tensors: SGD's buffer; Adam's mean, square and maximum;
 * Adagrad's sum; RMSprop's square, mean and buffer; and the number of steps. */
enum { FIRST, SECOND, THIRD, STEP, STATES, BUFFER = FIRST };

typedef struct {
    cr_tensor *param, *state[STATES]; /* references; state is NULL before the first step */
} slot;

typedef struct {
    const char *kind, *schema;
    const char *names[STATES]; /* of the state's tensors in torch's files; NULL: none */
    cr_status (*check)(const cr_optim *o);
    cr_status (*step)(cr_optim *o);
} optim_kind;

struct cr_optim {
    const optim_kind *kind;
    const cr_op *signature;
    cr_value arg[CR_MAX_ARGS];
    cr_arena arena;
    slot *slots;
    size_t count;
    cr_value *list; /* memory for the lists of one step: (STATES + 2) * count */
};

static cr_value optim_arg(const cr_optim *o, const char *name)
{
    int i = cr_op_find_param(o->signature, name);

    return i < 0 ? cr_of_none() : o->arg[i];
}

static double optim_number(const cr_optim *o, const char *name) { return optim_arg(o, name).d; }
static bool optim_is_on(const cr_optim *o, const char *name)
{
    return optim_arg(o, name).i != 0;
}

/* --- checks --- */

static cr_status check_not_negative(const cr_optim *o, const char *name, const char *what)
{
    double x = optim_number(o, name);

    return x >= 0 ? CR_OK : cr_fail(CR_VALUE, "Invalid %s: %.12g", what, x);
}

static cr_status check_sgd(const cr_optim *o)
{
    double momentum = optim_number(o, "momentum");

    CR_TRY(check_not_negative(o, "lr", "learning rate"));
    CR_TRY(check_not_negative(o, "momentum", "momentum value"));
    CR_TRY(check_not_negative(o, "weight_decay", "weight_decay value"));
    if (optim_is_on(o, "nesterov") && (momentum <= 0 || optim_number(o, "dampening") != 0))
        return cr_fail(CR_VALUE, "Nesterov momentum requires a momentum and zero dampening");
    return CR_OK;
}

static void betas_of(const cr_optim *o, double *beta)
{
    cr_value v = optim_arg(o, "betas");

    beta[0] = v.tag == CR_FLOATS ? v.floats[0] : 0.9;
    beta[1] = v.tag == CR_FLOATS ? v.floats[1] : 0.999;
}

static cr_status check_adam(const cr_optim *o)
{
    double beta[2];
    cr_value v = optim_arg(o, "betas");

    CR_TRY(check_not_negative(o, "lr", "learning rate"));
    CR_TRY(check_not_negative(o, "eps", "epsilon value"));
    if (v.tag == CR_FLOATS && v.len != 2)
        return cr_fail(CR_VALUE, "betas must be two numbers, not %u", v.len);
    betas_of(o, beta);
    for (int i = 0; i < 2; i++)
        if (!(beta[i] >= 0 && beta[i] < 1))
            return cr_fail(CR_VALUE, "Invalid beta parameter at index %d: %.12g", i, beta[i]);
    return check_not_negative(o, "weight_decay", "weight_decay value");
}

/* --- steps --- */

static cr_tensor *grad_of(const slot *s) { return cr_grad_of(s->param); }

static cr_status zeros_like(cr_tensor **out, cr_tensor *t)
{
    cr_value arg[] = {cr_of_tensor(t)};

    return cr_call_tensor(out, cr_entry.zeros_like, arg, 1);
}

/* One of the step's lists: a tensor of each parameter that has a gradient.  Advances *room. */
static cr_value list_of(const cr_optim *o, cr_value **room, cr_tensor *(*pick)(const slot *s))
{
    cr_value v = {.tag = CR_TENSORS, .list = *room};

    for (size_t i = 0; i < o->count; i++)
        if (grad_of(&o->slots[i]))
            (*room)[v.len++] = cr_of_tensor(pick(&o->slots[i]));
    *room += v.len;
    return v;
}

static cr_tensor *pick_param(const slot *s) { return s->param; }
static cr_tensor *pick_first(const slot *s) { return s->state[FIRST]; }
static cr_tensor *pick_second(const slot *s) { return s->state[SECOND]; }
static cr_tensor *pick_third(const slot *s) { return s->state[THIRD]; }
static cr_tensor *pick_step(const slot *s) { return s->state[STEP]; }

static cr_status call_update(const cr_op *op, const cr_value *arg, int n)
{
    cr_value result[CR_MAX_RESULTS];

    return cr_call_given(result, op, arg, n);
}

/* Updates the parameters with a momentum buffer, or with `fresh` those without one.  The first
 * step of a parameter ignores dampening, so it needs a separate call. */
static cr_status sgd_call(cr_optim *o, bool fresh)
{
    double momentum = optim_number(o, "momentum"), dampening = optim_number(o, "dampening");
    cr_value params = {.tag = CR_TENSORS}, grads = params, buffers = params, *room = o->list;

    params.list = room;
    grads.list = room + o->count;
    buffers.list = room + 2 * o->count;
    for (size_t i = 0; i < o->count; i++) {
        slot *s = &o->slots[i];
        if (!grad_of(s) || (momentum != 0 && fresh != !s->state[BUFFER]))
            continue;
        if (momentum != 0 && fresh)
            CR_TRY(zeros_like(&s->state[BUFFER], s->param));
        room[params.len++] = cr_of_tensor(s->param);
        room[o->count + grads.len++] = cr_of_tensor(grad_of(s));
        if (momentum != 0)
            room[2 * o->count + buffers.len++] = cr_of_tensor(s->state[BUFFER]);
    }
    cr_value arg[] = {params,
                      grads,
                      buffers,
                      optim_arg(o, "weight_decay"),
                      cr_of_float(momentum),
                      optim_arg(o, "lr"),
                      cr_of_float(dampening),
                      optim_arg(o, "nesterov"),
                      optim_arg(o, "maximize"),
                      cr_of_bool(fresh && dampening != 0)};
    return params.len ? call_update(cr_entry._fused_sgd_, arg, 10) : CR_OK;
}

static cr_status step_sgd(cr_optim *o)
{
    /* Parameters with a buffer first, because the second call makes buffers. */
    CR_TRY(sgd_call(o, false));
    return optim_number(o, "momentum") != 0 ? sgd_call(o, true) : CR_OK;
}

/* Makes the state of a parameter: for each bit of `kept` a tensor like the parameter, filled
 * with `value`, and the number of steps. */
static cr_status slot_start(slot *s, unsigned kept, double value)
{
    cr_value zero[] = {cr_of_ints(NULL, 0), cr_of_dtype(CR_F32)};
    cr_value like[] = {cr_of_tensor(s->param), cr_of_number(cr_scalar_float(value))};

    if (!grad_of(s) || s->state[STEP])
        return CR_OK;
    for (int k = 0; k < STEP; k++)
        if (kept >> k & 1)
            CR_TRY(cr_call_tensor(&s->state[k], cr_entry.full_like, like, 2));
    return cr_call_tensor(&s->state[STEP], cr_entry.zeros, zero, 2);
}

static cr_status start_all(cr_optim *o, unsigned kept, double value)
{
    for (size_t i = 0; i < o->count; i++)
        CR_TRY(slot_start(&o->slots[i], kept, value));
    return CR_OK;
}

/* Calls `op` with lists of the parameters' tensors.  A list that is not in `kept` is empty. */
static cr_status call_lists(cr_optim *o, const cr_op *op, unsigned kept, int lists,
                            cr_value *arg, int n)
{
    cr_tensor *(*const state[])(const slot *) = {pick_first, pick_second, pick_third};
    cr_value *room = o->list;

    arg[0] = list_of(o, &room, pick_param);
    arg[1] = list_of(o, &room, grad_of);
    for (int k = 0; k < lists; k++)
        arg[2 + k] = kept >> k & 1 ? list_of(o, &room, state[k])
                                   : (cr_value){.tag = CR_TENSORS, .list = room};
    arg[2 + lists] = list_of(o, &room, pick_step);
    return arg[0].len ? call_update(op, arg, n) : CR_OK;
}

static cr_status step_adam(cr_optim *o)
{
    unsigned kept = optim_is_on(o, "amsgrad") ? 7 : 3;
    double beta[2];

    betas_of(o, beta);
    CR_TRY(start_all(o, kept, 0));
    cr_value arg[16] = {
        [6] = optim_arg(o, "lr"),        [7] = cr_of_float(beta[0]),
        [8] = cr_of_float(beta[1]),      [9] = optim_arg(o, "weight_decay"),
        [10] = optim_arg(o, "eps"),      [11] = optim_arg(o, "amsgrad"),
        [12] = optim_arg(o, "maximize"), [15] = cr_of_bool(!strcmp(o->kind->kind, "AdamW"))};
    return call_lists(o, cr_entry._counted_adam_, kept, 3, arg, 16);
}

static cr_status check_adagrad(const cr_optim *o)
{
    CR_TRY(check_not_negative(o, "lr", "learning rate"));
    CR_TRY(check_not_negative(o, "lr_decay", "lr_decay value"));
    CR_TRY(check_not_negative(o, "weight_decay", "weight_decay value"));
    CR_TRY(
        check_not_negative(o, "initial_accumulator_value", "initial_accumulator_value value"));
    return check_not_negative(o, "eps", "epsilon value");
}

static cr_status step_adagrad(cr_optim *o)
{
    CR_TRY(start_all(o, 1, optim_number(o, "initial_accumulator_value")));
    cr_value arg[9] = {[4] = optim_arg(o, "lr"),
                       [5] = optim_arg(o, "lr_decay"),
                       [6] = optim_arg(o, "weight_decay"),
                       [7] = optim_arg(o, "eps"),
                       [8] = optim_arg(o, "maximize")};
    return call_lists(o, cr_entry._counted_adagrad_, 1, 1, arg, 9);
}

static cr_status check_rmsprop(const cr_optim *o)
{
    CR_TRY(check_not_negative(o, "lr", "learning rate"));
    CR_TRY(check_not_negative(o, "eps", "epsilon value"));
    CR_TRY(check_not_negative(o, "momentum", "momentum value"));
    CR_TRY(check_not_negative(o, "weight_decay", "weight_decay value"));
    return check_not_negative(o, "alpha", "alpha value");
}

static cr_status step_rmsprop(cr_optim *o)
{
    double alpha = optim_number(o, "alpha");
    unsigned kept =
        1u | (optim_is_on(o, "centered") ? 2u : 0) | (optim_number(o, "momentum") > 0 ? 4u : 0);

    CR_TRY(start_all(o, kept, 0));
    cr_value arg[13] = {[6] = optim_arg(o, "lr"),
                        [7] = cr_of_float(alpha),
                        [8] = cr_of_float(1 - alpha),
                        [9] = optim_arg(o, "eps"),
                        [10] = optim_arg(o, "weight_decay"),
                        [11] = optim_arg(o, "momentum"),
                        [12] = optim_arg(o, "maximize")};
    return call_lists(o, cr_entry._counted_rmsprop_, kept, 3, arg, 13);
}

/* --- the kinds --- */

#define ADAM(decay)                                                                            \
    "optim(float lr=0.001, float[2]? betas=None, float eps=1e-08, float weight_decay=" decay   \
    ", bool amsgrad=False, *, bool maximize=False) -> Tensor"

#define ADAM_NAMES                                                                             \
    {                                                                                          \
        "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"                                      \
    }

static const optim_kind kinds[] = {
    {"SGD",
     "optim(float lr=0.001, float momentum=0, float dampening=0, float weight_decay=0, "
     "bool nesterov=False, *, bool maximize=False) -> Tensor",
     {"momentum_buffer"},
     check_sgd,
     step_sgd},
    {"Adam", ADAM("0"), ADAM_NAMES, check_adam, step_adam},
    {"AdamW", ADAM("0.01"), ADAM_NAMES, check_adam, step_adam},
    {"Adagrad",
     "optim(float lr=0.01, float lr_decay=0, float weight_decay=0, "
     "float initial_accumulator_value=0, float eps=1e-10, *, bool maximize=False) -> Tensor",
     {[FIRST] = "sum", [STEP] = "step"},
     check_adagrad,
     step_adagrad},
    {"RMSprop",
     "optim(float lr=0.01, float alpha=0.99, float eps=1e-08, float weight_decay=0, "
     "float momentum=0, bool centered=False, bool maximize=False) -> Tensor",
     {"square_avg", "grad_avg", "momentum_buffer", "step"},
     check_rmsprop,
     step_rmsprop},
};

static cr_status check_params(cr_tensor *const *params, size_t count)
{
    if (!count)
        return cr_fail(CR_VALUE, "optimizer got an empty parameter list");
    for (size_t i = 0; i < count; i++) {
        if (!params[i])
            return cr_fail(CR_TYPE,
                           "optimizer can only optimize Tensors, but one of the params is "
                           "NoneType");
        if (!cr_is_leaf(params[i]))
            return cr_fail(CR_VALUE, "can't optimize a non-leaf Tensor");
    }
    return CR_OK;
}

static cr_status set_up(cr_optim *o, cr_tensor *const *params, size_t count, const cr_arg *args)
{
    CR_TRY(nn_bind(&o->signature, o->arg, &o->arena, o->kind->schema, o->kind->kind, args));
    CR_TRY(o->kind->check(o));
    CR_TRY(check_params(params, count));
    o->slots = cr_alloc_zero(count * sizeof *o->slots);
    o->list = cr_alloc((STATES + 2) * count * sizeof *o->list);
    CR_NEED(o->slots && o->list);
    for (; o->count < count; o->count++)
        o->slots[o->count].param = cr_keep(params[o->count]);
    return CR_OK;
}

cr_status cr_optim_new(cr_optim **out, const char *kind, cr_tensor *const *params, size_t count,
                       const cr_arg *args)
{
    size_t k = 0;

    CR_TRY(nn_need(kind, "Optimizer", "kind", "str"));
    CR_TRY(nn_need(count ? params : (const void *)kind, kind, "params", "iterable"));
    while (k < CR_LEN(kinds) && strcmp(kinds[k].kind, kind))
        k++;
    if (k == CR_LEN(kinds))
        return cr_fail(CR_ATTRIBUTE, "module 'torch.optim' has no attribute '%s'", kind);
    cr_optim *o = cr_alloc_zero(sizeof *o);
    CR_NEED(o);
    o->kind = &kinds[k];
    cr_status st = set_up(o, params, count, args);
    CR_GIVE(st, out, o, cr_optim_drop);
}

void cr_optim_drop(cr_optim *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->count; i++) {
        for (int k = 0; k < STATES; k++)
            cr_drop(o->slots[i].state[k]);
        cr_drop(o->slots[i].param);
    }
    cr_arena_drop(&o->arena);
    cr_free(o->slots);
    cr_free(o->list);
    cr_free(o);
}

cr_status cr_optim_step(cr_optim *o)
{
    bool before = cr_thread.no_grad;

    CR_TRY(nn_need(o, "step", "self", "Optimizer"));
    cr_thread.no_grad = true;
    cr_status st = o->kind->step(o);
    cr_thread.no_grad = before;
    return st;
}

cr_status cr_optim_zero_grad(cr_optim *o)
{
    CR_TRY(nn_need(o, "zero_grad", "self", "Optimizer"));
    for (size_t i = 0; i < o->count; i++)
        CR_TRY(cr_set_grad(o->slots[i].param, NULL));
    return CR_OK;
}

double cr_optim_lr(const cr_optim *o) { return o ? optim_number(o, "lr") : 0; }

cr_status cr_optim_set_lr(cr_optim *o, double lr)
{
    CR_TRY(nn_need(o, "set_lr", "self", "Optimizer"));
    if (!(lr >= 0))
        return cr_fail(CR_VALUE, "Invalid learning rate: %.12g", lr);
    o->arg[0] = cr_of_float(lr); /* every schema starts with lr */
    return CR_OK;
}

/* --- state --- */

static const char lr_name[] = "param_groups.0.lr";

/* "state.NUMBER.NAME" of a state tensor. */
static cr_status state_name(cr_text *out, size_t i, const char *name)
{
    out->len = 0;
    cr_text_printf(out, "state.%zu.%s", i, name);
    return cr_text_status(out);
}

static cr_status put_lr(cr_state *s, double lr)
{
    cr_value arg[] = {cr_of_ints(NULL, 0), cr_of_number(cr_scalar_float(lr)),
                      cr_of_dtype(CR_F64)};
    cr_tensor *t = NULL;

    CR_TRY(cr_call_tensor(&t, cr_entry.full, arg, 3));
    cr_status st = cr_state_set(s, lr_name, t);
    cr_drop(t);
    return st;
}

static cr_status put_slots(cr_state *s, const cr_optim *o)
{
    cr_text name = {0};
    cr_status st = CR_OK;

    for (size_t i = 0; !st && i < o->count; i++)
        for (int k = 0; !st && k < STATES; k++) {
            if (!o->slots[i].state[k] || !o->kind->names[k])
                continue;
            st = state_name(&name, i, o->kind->names[k]);
            st = st ? st : cr_state_set(s, name.at, o->slots[i].state[k]);
        }
    cr_text_drop(&name);
    return st;
}

cr_status cr_optim_state(cr_state **out, cr_optim *o)
{
    cr_state *s = NULL;

    CR_TRY(nn_need(o, "state_dict", "self", "Optimizer"));
    CR_TRY(cr_state_new(&s));
    cr_status st = put_slots(s, o);
    st = st ? st : put_lr(s, cr_optim_lr(o));
    CR_GIVE(st, out, s, cr_state_drop);
}

/* A tensor of a file for state `k` of a parameter; every one but the number of steps has the
 * parameter's sizes. */
static cr_status check_state(const slot *s, int k, const char *name, const cr_tensor *t)
{
    bool fits = k == STEP ? t->numel == 1 : t->ndim == s->param->ndim;

    for (int d = 0; fits && k != STEP && d < t->ndim; d++)
        fits = t->size[d] == s->param->size[d];
    return fits ? CR_OK
                : cr_fail(CR_VALUE, "loaded state '%s' has other sizes than its parameter",
                          name);
}

static cr_status take_slot(slot *s, int k, const char *name, cr_tensor *t)
{
    cr_value arg[] = {cr_of_tensor(t)};
    cr_tensor *copy = NULL;

    CR_TRY(check_state(s, k, name, t));
    CR_TRY(cr_call_tensor(&copy, cr_entry.clone, arg, 1));
    cr_drop(s->state[k]);
    s->state[k] = copy;
    return CR_OK;
}

static cr_status take_slots(cr_optim *o, const cr_state *from)
{
    cr_text name = {0};
    cr_status st = CR_OK;

    for (size_t i = 0; !st && i < o->count; i++)
        for (int k = 0; !st && k < STATES; k++) {
            if (!o->kind->names[k])
                continue;
            st = state_name(&name, i, o->kind->names[k]);
            cr_tensor *t = st ? NULL : cr_state_find(from, name.at);
            st = t ? take_slot(&o->slots[i], k, name.at, t) : st;
        }
    cr_text_drop(&name);
    return st;
}

/* Every entry must be of a parameter that the optimizer has. */
static cr_status check_numbers(const cr_optim *o, const cr_state *from)
{
    for (size_t i = 0; i < cr_state_count(from); i++) {
        const char *name = cr_state_name(from, i);
        if (strncmp(name, "state.", 6))
            continue;
        if (strtoull(name + 6, NULL, 10) >= o->count)
            return cr_fail(CR_VALUE,
                           "loaded state dict contains a parameter group that doesn't "
                           "match the size of optimizer's group");
    }
    return CR_OK;
}

cr_status cr_optim_load_state(cr_optim *o, const cr_state *s)
{
    bool before = cr_thread.no_grad;
    cr_scalar lr;

    CR_TRY(nn_need(o, "load_state_dict", "self", "Optimizer"));
    CR_TRY(nn_need(s, "load_state_dict", "state_dict", "dict"));
    CR_TRY(check_numbers(o, s));
    cr_tensor *rate = cr_state_find(s, lr_name);
    if (rate)
        CR_TRY(cr_tensor_item(&lr, rate));
    cr_thread.no_grad = true;
    cr_status st = take_slots(o, s);
    cr_thread.no_grad = before;
    return st || !rate ? st : cr_optim_set_lr(o, cr_scalar_as_double(lr));
}
