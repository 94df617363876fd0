/* Optimizer steps over lists of parameters: chooses the step's entry and computes its
 * numbers. */
#include "whole/steps.h"
#include "whole/update.h"
#include "whole/whole_impl.h"
#include <math.h>

/* --- amp's gradient scaler: the scale, and whether an infinite gradient was found --- */

static cr_status read_scaler_number(double *out, const cr_value *v)
{
    cr_scalar s;

    CR_TRY(cr_tensor_item(&s, v->t));
    *out = cr_scalar_as_double(s);
    return CR_OK;
}

/* Divides the gradients by the scale, in place as torch's fused steps do. */
static cr_status unscale(const cr_value *grads, const cr_value *scale)
{
    const cr_op *op = cr_entry.div_;

    for (uint32_t i = 0; i < grads->len; i++) {
        cr_value arg[] = {grads->list[i], *scale}, result = {0};
        CR_TRY(cr_call(op, arg, &result));
        cr_drop_values(&result, 1);
    }
    return CR_OK;
}

/* Runs the update unless an infinite gradient was found. */
static cr_status run_update(const cr_update *u, const cr_value *scale,
                            const cr_value *found_inf)
{
    double found = 0;

    CR_TRY(cr_update_check(u));
    if (found_inf->tag == CR_TENSOR)
        CR_TRY(read_scaler_number(&found, found_inf));
    if (found != 0)
        return CR_OK;
    if (scale->tag == CR_TENSOR)
        CR_TRY(unscale(u->list[1], scale));
    return cr_update_run(u);
}

/* --- gradient descent --- */

static void sgd_numbers(const cr_update *u, uint32_t i, cr_value *to)
{
    const cr_value *arg = u->context; /* decay, momentum, lr, dampening, nesterov, ... */
    int n = 0;

    (void)i;
    to[n++] = arg[2];
    to[n++] = arg[0];
    if (u->lists == 3) {
        to[n++] = arg[1];
        to[n++] = cr_of_float(1 - arg[3].d);
        to[n++] = arg[4];
    }
    to[n++] = arg[5];
    if (u->lists == 3)
        to[n++] = arg[6];
}

cr_status cr_fused_sgd(const cr_value *arg, cr_value *result)
{
    bool momentum = arg[4].d != 0;
    cr_update u = {.caller = cr_entry._fused_sgd_,
                   .op = momentum ? cr_entry._sgd_momentum_step : cr_entry._sgd_step,
                   .lists = momentum ? 3 : 2,
                   .written = momentum ? 1 | 4 : 1,
                   .list = {&arg[0], &arg[1], &arg[2]},
                   .numbers = sgd_numbers,
                   .context = arg + 3};

    (void)result;
    return run_update(&u, &arg[10], &arg[11]);
}

/* --- counting steps --- */

/* The numbers of steps, in tensors on any device. */
typedef struct {
    const cr_value *list;
    bool counts;         /* the entry counts the steps, not its caller */
    const double *known; /* their values, or NULL: reading a device's makes the host wait */
    double *value;       /* set by steps_start() */
} update_steps;

static cr_status steps_check(const update_steps *s, const cr_value *params)
{
    if (s->list->len != params->len)
        return cr_fail(CR_RUNTIME, "lists of %u parameters and %u steps", params->len,
                       s->list->len);
    for (uint32_t i = 0; i < params->len; i++) {
        const cr_tensor *t = s->list->list[i].t;
        if (t->numel != 1)
            return cr_fail(CR_RUNTIME, "a step must be one number, and has %lld elements",
                           (long long)t->numel);
    }
    return CR_OK;
}

/* Reads the steps; 1 for a fake, which has no elements. */
static cr_status steps_read(update_steps *s)
{
    for (uint32_t i = 0; i < s->list->len; i++) {
        cr_scalar number = cr_scalar_float(1);
        if (s->known)
            number = cr_scalar_float(s->known[i]);
        else if (cr_has_bytes(s->list->list[i].t->device))
            CR_TRY(cr_tensor_item(&number, s->list->list[i].t));
        s->value[i] = cr_scalar_as_double(number);
    }
    return CR_OK;
}

/* True if all steps are floats on another device than the host. */
static bool steps_are_elsewhere(const update_steps *s)
{
    bool elsewhere = s->list->len > 0;

    for (uint32_t i = 0; i < s->list->len; i++) {
        const cr_tensor *t = s->list->list[i].t;
        elsewhere = elsewhere && !cr_is_host(t->device) && cr_has_bytes(t->device) &&
                    cr_dtype_is_float((cr_dtype)t->dtype);
    }
    return elsewhere;
}

/* Adds one to each step by few launches. */
static cr_status steps_add_one(update_steps *s)
{
    cr_update u = {.caller = cr_entry._counted_adam_,
                   .op = cr_entry._count_step,
                   .lists = 1,
                   .written = 1,
                   .list = {s->list}};

    CR_TRY(cr_update_check(&u));
    CR_TRY(cr_update_run(&u));
    for (uint32_t i = 0; i < s->list->len; i++)
        s->value[i]++;
    return CR_OK;
}

static cr_status steps_count_up(update_steps *s)
{
    if (steps_are_elsewhere(s))
        return steps_add_one(s);
    for (uint32_t i = 0; i < s->list->len; i++) {
        cr_tensor *t = s->list->list[i].t;
        cr_view v = cr_view_of(t);
        if (cr_has_bytes(t->device)) {
            CR_TRY(cr_fill_elements(&v, cr_scalar_float(s->value[i] + 1)));
            s->value[i]++;
        }
        t->storage->version++;
    }
    return CR_OK;
}

/* Called before the first write of an update. */
static cr_status steps_start(update_steps *s)
{
    CR_TRY(steps_read(s));
    return s->counts ? steps_count_up(s) : CR_OK;
}

/* Sets the values that the caller knows. */
static cr_status steps_know(update_steps *s, const cr_value *known)
{
    if (known->tag != CR_FLOATS)
        return CR_OK;
    if (known->len != s->list->len)
        return cr_fail(CR_RUNTIME, "lists of %u steps and %u known values", s->list->len,
                       known->len);
    s->known = known->floats;
    return CR_OK;
}

/* Runs the update; `s` is part of its context. */
static cr_status run_with_steps(const cr_update *u, update_steps *s, const cr_value *scale,
                                const cr_value *found_inf)
{
    CR_TRY(steps_check(s, u->list[0]));
    s->value = cr_alloc(s->list->len * sizeof *s->value + 1);
    cr_status st = s->value ? run_update(u, scale, found_inf) : CR_MEMORY;
    cr_free(s->value);
    return st;
}

/* --- Adam --- */

typedef struct {
    update_steps *steps;
    double lr, beta1, beta2, decay;
    cr_value eps, maximize;
    bool decoupled;
} adam;

/* The numbers of one step. */
static void adam_numbers(const cr_update *u, uint32_t i, cr_value *to)
{
    const adam *a = u->context;
    double step = a->steps->value[i];
    int n = 0;

    to[n++] = cr_of_float(a->decoupled ? 1 - a->lr * a->decay : 1);
    to[n++] = cr_of_float(a->decoupled ? 0 : a->decay);
    to[n++] = cr_of_float(a->beta1);
    to[n++] = cr_of_float(1 - a->beta1);
    to[n++] = cr_of_float(a->beta2);
    to[n++] = cr_of_float(1 - a->beta2);
    to[n++] = cr_of_float(a->lr / (1 - pow(a->beta1, step)));
    to[n++] = cr_of_float(sqrt(1 - pow(a->beta2, step)));
    to[n++] = a->eps;
    to[n++] = a->maximize;
}

static cr_status adam_start(const cr_update *u)
{
    return steps_start(((const adam *)u->context)->steps);
}

/* (params, grads, means, squares, maxima, steps, lr, beta1, beta2, weight_decay, eps, amsgrad,
 * maximize, grad_scale, found_inf) */
static cr_status run_adam(const cr_op *caller, const cr_value *arg, bool decoupled,
                          const cr_value *known)
{
    bool amsgrad = arg[11].i;
    update_steps steps = {.list = &arg[5], .counts = known != NULL};
    adam a = {&steps, arg[6].d, arg[7].d, arg[8].d, arg[9].d, arg[10], arg[12], decoupled};
    cr_update u = {.caller = caller,
                   .op = amsgrad ? cr_entry._amsgrad_step : cr_entry._adam_step,
                   .lists = amsgrad ? 5 : 4,
                   .written = amsgrad ? 1 | 4 | 8 | 16 : 1 | 4 | 8,
                   .list = {&arg[0], &arg[1], &arg[2], &arg[3], &arg[4]},
                   .numbers = adam_numbers,
                   .start = adam_start,
                   .context = &a};

    if (known)
        CR_TRY(steps_know(&steps, known));
    return run_with_steps(&u, &steps, &arg[13], &arg[14]);
}

cr_status cr_fused_adam(const cr_value *arg, cr_value *result)
{
    (void)result;
    return run_adam(cr_entry._fused_adam_, arg, false, NULL);
}

cr_status cr_fused_adamw(const cr_value *arg, cr_value *result)
{
    (void)result;
    return run_adam(cr_entry._fused_adamw_, arg, true, NULL);
}

/* The same arguments followed by `decoupled` and the known steps; counts the steps. */
cr_status cr_counted_adam(const cr_value *arg, cr_value *result)
{
    (void)result;
    return run_adam(cr_entry._counted_adam_, arg, arg[15].i, &arg[16]);
}

/* --- Adagrad --- */

typedef struct {
    update_steps *steps;
    double lr, lr_decay;
    cr_value decay, eps, maximize;
} adagrad;

static void adagrad_numbers(const cr_update *u, uint32_t i, cr_value *to)
{
    const adagrad *a = u->context;

    to[0] = cr_of_float(a->lr / (1 + (a->steps->value[i] - 1) * a->lr_decay));
    to[1] = a->decay;
    to[2] = a->eps;
    to[3] = a->maximize;
}

static cr_status adagrad_start(const cr_update *u)
{
    return steps_start(((const adagrad *)u->context)->steps);
}

/* (params, grads, sums, steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale,
 * found_inf) */
static cr_status run_adagrad(const cr_op *caller, const cr_value *arg, const cr_value *known)
{
    update_steps steps = {.list = &arg[3], .counts = known != NULL};
    adagrad a = {&steps, arg[4].d, arg[5].d, arg[6], arg[7], arg[8]};
    cr_update u = {.caller = caller,
                   .op = cr_entry._adagrad_step,
                   .lists = 3,
                   .written = 1 | 4,
                   .list = {&arg[0], &arg[1], &arg[2]},
                   .numbers = adagrad_numbers,
                   .start = adagrad_start,
                   .context = &a};

    if (known)
        CR_TRY(steps_know(&steps, known));
    return run_with_steps(&u, &steps, &arg[9], &arg[10]);
}

cr_status cr_fused_adagrad(const cr_value *arg, cr_value *result)
{
    (void)result;
    return run_adagrad(cr_entry._fused_adagrad_, arg, NULL);
}

cr_status cr_counted_adagrad(const cr_value *arg, cr_value *result)
{
    (void)result;
    return run_adagrad(cr_entry._counted_adagrad_, arg, &arg[11]);
}

/* --- RMSprop and Adadelta: their numbers are the same for every parameter --- */

typedef struct {
    update_steps steps;
    const cr_value *number;
    int numbers;
} counted;

static void counted_numbers(const cr_update *u, uint32_t i, cr_value *to)
{
    const counted *c = u->context;

    (void)i;
    for (int n = 0; n < c->numbers; n++)
        to[n] = c->number[n];
}

static cr_status counted_start(const cr_update *u)
{
    counted *c = (counted *)(uintptr_t)u->context;

    return steps_start(&c->steps);
}

static cr_status run_counted(cr_update *u, counted *c)
{
    cr_value none = cr_of_none();

    c->steps.counts = true;
    u->numbers = counted_numbers;
    u->start = counted_start;
    u->context = c;
    return run_with_steps(u, &c->steps, &none, &none);
}

/* (params, grads, squares, means, buffers, steps, lr, alpha, one_alpha, eps, weight_decay,
 * momentum, maximize): means when centered, buffers with momentum. */
cr_status cr_counted_rmsprop(const cr_value *arg, cr_value *result)
{
    const cr_op *const steps[] = {cr_entry._rmsprop_step, cr_entry._rmsprop_momentum_step,
                                  cr_entry._rmsprop_centered_step,
                                  cr_entry._rmsprop_centered_momentum_step};
    bool centered = arg[3].len > 0, momentum = arg[4].len > 0;
    counted c = {{.list = &arg[5]}, &arg[6], 7};
    cr_update u = {.caller = cr_entry._counted_rmsprop_,
                   .op = steps[2 * centered + momentum],
                   .lists = 3,
                   .list = {&arg[0], &arg[1], &arg[2]}};

    (void)result;
    if (centered)
        u.list[u.lists++] = &arg[3];
    if (momentum)
        u.list[u.lists++] = &arg[4];
    u.written = (1u << u.lists) - 1 - 2;
    return run_counted(&u, &c);
}

/* (params, grads, squares, updates, steps, lr, rho, one_rho, eps, weight_decay, maximize) */
cr_status cr_counted_adadelta(const cr_value *arg, cr_value *result)
{
    counted c = {{.list = &arg[4]}, &arg[5], 6};
    cr_update u = {.caller = cr_entry._counted_adadelta_,
                   .op = cr_entry._adadelta_step,
                   .lists = 4,
                   .written = 1 | 4 | 8,
                   .list = {&arg[0], &arg[1], &arg[2], &arg[3]}};

    (void)result;
    return run_counted(&u, &c);
}

/* --- norms of gradients --- */

static cr_tensor *norms_one_by_one(cr_steps *s, const cr_value *list)
{
    cr_tensor **norm = cr_step_room(s, list->len);
    cr_tensor *joined = NULL;

    for (uint32_t i = 0; i < list->len && norm; i++)
        norm[i] = CR_STEP(s, linalg_vector_norm, list->list[i]);
    if (!s->st)
        joined = cr_step_join(s, cr_entry.stack, norm, list->len, 0);
    cr_free(norm);
    return joined;
}

static cr_tensor *norms_at_once(cr_steps *s, const cr_value *list)
{
    cr_tensor *squares = NULL;

    cr_step_fail(s, cr_fold_list(&squares, cr_entry._sum_squares, list));
    squares = s->st ? NULL : cr_step_own(s, squares);
    return cr_step_cast(s, CR_STEP(s, sqrt, T(squares)), (cr_dtype)list->list[0].t->dtype);
}

/* (self) */
cr_status cr_norms(const cr_value *arg, cr_value *result)
{
    cr_steps s = {.st = CR_OK};
    cr_tensor *norms =
        cr_can_fold_list(&arg[0]) ? norms_at_once(&s, &arg[0]) : norms_one_by_one(&s, &arg[0]);

    return cr_steps_give(&s, result, norms);
}

/* (self, factor) */
cr_status cr_scale_each(const cr_value *arg, cr_value *result)
{
    cr_update u = {.caller = cr_entry._scale_each_,
                   .op = cr_entry._scale_step,
                   .lists = 1,
                   .written = 1,
                   .list = {&arg[0]},
                   .shared = arg[1].t};

    (void)result;
    CR_TRY(cr_update_check(&u));
    return cr_update_run(&u);
}
