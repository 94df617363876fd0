/* Learning rates by epoch, and limits of gradients.
 *
 * A schedule computes each rate from the one before, by the formulas of Python's schedulers, so
 * rates have the same bits. */
#include "entry.h"
#include "nn/nn_impl.h"
#include <math.h>
#include <string.h>

typedef struct {
    const char *kind, *schema;
    cr_status (*check)(const cr_schedule *s);
    double (*next)(const cr_schedule *s, double lr); /* for s->epoch, from the earlier rate */
} schedule_kind;

struct cr_schedule {
    const schedule_kind *kind;
    const cr_op *signature;
    cr_value arg[CR_MAX_ARGS];
    cr_arena arena;
    cr_optim *optim; /* borrowed */
    double base;     /* the optimizer's rate when the schedule was made */
    int64_t epoch;
};

static cr_value schedule_arg(const cr_schedule *s, const char *name)
{
    int i = cr_op_find_param(s->signature, name);

    return i < 0 ? cr_of_none() : s->arg[i];
}

static double schedule_number(const cr_schedule *s, const char *name)
{
    return schedule_arg(s, name).d;
}

static int64_t schedule_int(const cr_schedule *s, const char *name)
{
    return schedule_arg(s, name).i;
}

/* --- rates --- */

static double next_step(const cr_schedule *s, double lr)
{
    bool due = s->epoch && s->epoch % schedule_int(s, "step_size") == 0;

    return due ? lr * schedule_number(s, "gamma") : lr;
}

static double next_multi_step(const cr_schedule *s, double lr)
{
    cr_value milestones = schedule_arg(s, "milestones");
    int passed = 0;

    for (uint32_t i = 0; i < milestones.len; i++)
        passed += milestones.ints[i] == s->epoch;
    return passed ? lr * pow(schedule_number(s, "gamma"), passed) : lr;
}

static double next_constant(const cr_schedule *s, double lr)
{
    double factor = schedule_number(s, "factor");

    if (!s->epoch)
        return lr * factor;
    return s->epoch == schedule_int(s, "total_iters") ? lr * (1.0 / factor) : lr;
}

static double next_linear(const cr_schedule *s, double lr)
{
    double start = schedule_number(s, "start_factor");
    double rise = schedule_number(s, "end_factor") - start;
    int64_t total = schedule_int(s, "total_iters");

    if (!s->epoch)
        return lr * start;
    if (s->epoch > total)
        return lr;
    return lr * (1.0 + rise / ((double)total * start + (double)(s->epoch - 1) * rise));
}

static double next_exponential(const cr_schedule *s, double lr)
{
    return s->epoch ? lr * schedule_number(s, "gamma") : lr;
}

static double next_polynomial(const cr_schedule *s, double lr)
{
    double n = (double)schedule_int(s, "total_iters"), epoch = (double)s->epoch;

    if (!s->epoch || epoch > n)
        return lr;
    return lr * pow((1.0 - epoch / n) / (1.0 - (epoch - 1) / n), schedule_number(s, "power"));
}

static double next_cosine(const cr_schedule *s, double lr)
{
    static const double pi = 3.141592653589793;
    double low = schedule_number(s, "eta_min"), epoch = (double)s->epoch;
    int64_t half = schedule_int(s, "T_max");

    if (!s->epoch)
        return lr;
    if ((s->epoch - 1 - half) % (2 * half) == 0) /* at the minimum the ratio is 0 / 0 */
        return lr + (s->base - low) * (1 - cos(pi / (double)half)) / 2;
    double ratio =
        (1 + cos(pi * epoch / (double)half)) / (1 + cos(pi * (epoch - 1) / (double)half));
    return ratio * (lr - low) + low;
}

/* --- checks --- */

static cr_status schedule_positive(const cr_schedule *s, const char *name)
{
    return schedule_int(s, name) > 0
               ? CR_OK
               : cr_fail(CR_VALUE, "%s must be a positive integer, but got %lld", name,
                         (long long)schedule_int(s, name));
}

static cr_status check_step(const cr_schedule *s) { return schedule_positive(s, "step_size"); }
static cr_status check_cosine(const cr_schedule *s) { return schedule_positive(s, "T_max"); }
static cr_status check_polynomial(const cr_schedule *s)
{
    return schedule_positive(s, "total_iters");
}

static cr_status check_constant(const cr_schedule *s)
{
    double factor = schedule_number(s, "factor");

    return factor >= 0 && factor <= 1
               ? CR_OK
               : cr_fail(CR_VALUE,
                         "Constant multiplicative factor expected to be between 0 and 1.");
}

static cr_status check_linear(const cr_schedule *s)
{
    double start = schedule_number(s, "start_factor"), end = schedule_number(s, "end_factor");

    if (!(start > 0 && start <= 1))
        return cr_fail(CR_VALUE, "Starting multiplicative factor expected to be greater than 0 "
                                 "and less or equal to 1.");
    return end >= 0 && end <= 1
               ? CR_OK
               : cr_fail(CR_VALUE,
                         "Ending multiplicative factor expected to be between 0 and 1.");
}

static const schedule_kind kinds[] = {
    {"StepLR", "schedule(int step_size, float gamma=0.1) -> Tensor", check_step, next_step},
    {"MultiStepLR", "schedule(int[] milestones, float gamma=0.1) -> Tensor", NULL,
     next_multi_step},
    {"ConstantLR", "schedule(float factor=0.3333333333333333, int total_iters=5) -> Tensor",
     check_constant, next_constant},
    {"LinearLR",
     "schedule(float start_factor=0.3333333333333333, float end_factor=1.0, int total_iters=5) "
     "-> Tensor",
     check_linear, next_linear},
    {"ExponentialLR", "schedule(float gamma) -> Tensor", NULL, next_exponential},
    {"PolynomialLR", "schedule(int total_iters=5, float power=1.0) -> Tensor", check_polynomial,
     next_polynomial},
    {"CosineAnnealingLR", "schedule(int T_max, float eta_min=0.0) -> Tensor", check_cosine,
     next_cosine},
};

static cr_status schedule_apply(cr_schedule *s)
{
    return cr_optim_set_lr(s->optim, s->kind->next(s, cr_optim_lr(s->optim)));
}

static cr_status schedule_set_up(cr_schedule *s, const cr_arg *args)
{
    CR_TRY(nn_bind(&s->signature, s->arg, &s->arena, s->kind->schema, s->kind->kind, args));
    if (s->kind->check)
        CR_TRY(s->kind->check(s));
    s->base = cr_optim_lr(s->optim);
    return schedule_apply(s);
}

cr_status cr_schedule_new(cr_schedule **out, const char *kind, cr_optim *o, const cr_arg *args)
{
    size_t k = 0;

    CR_TRY(nn_need(kind, "LRScheduler", "kind", "str"));
    CR_TRY(nn_need(o, kind, "optimizer", "Optimizer"));
    while (k < CR_LEN(kinds) && strcmp(kinds[k].kind, kind))
        k++;
    if (k == CR_LEN(kinds))
        return cr_fail(CR_ATTRIBUTE, "module 'torch.optim.lr_scheduler' has no attribute '%s'",
                       kind);
    cr_schedule *s = cr_alloc_zero(sizeof *s);
    CR_NEED(s);
    s->kind = &kinds[k];
    s->optim = o;
    cr_status st = schedule_set_up(s, args);
    CR_GIVE(st, out, s, cr_schedule_drop);
}

cr_status cr_schedule_step(cr_schedule *s)
{
    CR_TRY(nn_need(s, "step", "self", "LRScheduler"));
    s->epoch++;
    return schedule_apply(s);
}

void cr_schedule_drop(cr_schedule *s)
{
    if (!s)
        return;
    cr_arena_drop(&s->arena);
    cr_free(s);
}

/* --- limits of gradients --- */

/* The norm of all gradients as one vector; *norms has room for `count` values. */
static cr_status clip_total(cr_tensor **out, cr_tensor *const *params, size_t count,
                            cr_value *norms)
{
    cr_value list = {.tag = CR_TENSORS, .list = norms};
    cr_tensor *all = NULL;
    cr_status st = CR_OK;

    for (size_t i = 0; !st && i < count; i++) {
        cr_value grad[] = {cr_of_tensor(cr_grad_of(params[i]))};
        cr_tensor *norm = NULL;
        if (!grad[0].t)
            continue;
        st = cr_call_tensor(&norm, cr_entry.linalg_vector_norm, grad, 1);
        if (!st)
            norms[list.len++] = cr_of_tensor(norm);
    }
    cr_value arg[] = {list};
    if (!st && list.len)
        st = cr_call_tensor(&all, cr_entry.stack, arg, 1);
    arg[0] = cr_of_tensor(all);
    if (!st && all)
        st = cr_call_tensor(out, cr_entry.linalg_vector_norm, arg, 1);
    cr_drop(all);
    for (uint32_t i = 0; i < list.len; i++)
        cr_drop(norms[i].t);
    return st;
}

/* Multiplies the gradients by max_norm / (total + 1e-6), at most 1. */
static cr_status clip_scale(cr_tensor *const *params, size_t count, double max_norm,
                            cr_tensor *total)
{
    cr_value more[] = {cr_of_tensor(total), cr_of_number(cr_scalar_float(1e-6))};
    cr_tensor *sum = NULL, *inverse = NULL, *scaled = NULL, *factor = NULL;
    cr_value result[CR_MAX_RESULTS];
    cr_status st;

    CR_GO(cr_call_given(result, cr_entry.add, more, 2));
    sum = result[0].t;
    more[0] = cr_of_tensor(sum);
    CR_GO(cr_call_tensor(&inverse, cr_entry.reciprocal, more, 1));
    more[0] = cr_of_tensor(inverse);
    more[1] = cr_of_number(cr_scalar_float(max_norm));
    CR_GO(cr_call_given(result, cr_entry.mul, more, 2));
    scaled = result[0].t;
    cr_value bounds[] = {cr_of_tensor(scaled), cr_of_none(), cr_of_number(cr_scalar_float(1))};
    CR_GO(cr_call_tensor(&factor, cr_entry.clamp, bounds, 3));
    for (size_t i = 0; i < count; i++) {
        cr_value arg[] = {cr_of_tensor(cr_grad_of(params[i])), cr_of_tensor(factor)};
        if (!arg[0].t)
            continue;
        CR_GO(cr_call_given(result, cr_entry.mul_, arg, 2));
        cr_drop(result[0].t);
    }
done:
    cr_drop(sum);
    cr_drop(inverse);
    cr_drop(scaled);
    cr_drop(factor);
    return st;
}

static cr_status clip_all(double *norm, cr_tensor *const *params, size_t count, double max_norm,
                          cr_value *room)
{
    cr_tensor *total = NULL;
    cr_scalar value;
    cr_status st;

    *norm = 0;
    CR_TRY(clip_total(&total, params, count, room));
    if (!total)
        return CR_OK;
    CR_GO(clip_scale(params, count, max_norm, total));
    CR_GO(cr_tensor_item(&value, total));
    *norm = value.category == CR_CAT_FLOAT ? value.d : 0;
done:
    cr_drop(total);
    return st;
}

cr_status cr_clip_grad_norm(double *norm, cr_tensor *const *params, size_t count,
                            double max_norm)
{
    bool before = cr_thread.no_grad;
    double found = 0;

    CR_TRY(nn_need(count ? params : (const void *)&found, "clip_grad_norm_", "parameters",
                   "iterable"));
    for (size_t i = 0; i < count; i++)
        CR_TRY(nn_need(params[i], "clip_grad_norm_", "parameters", "Tensor"));
    cr_value *room = cr_alloc((count + 1) * sizeof *room);
    CR_NEED(room);
    cr_thread.no_grad = true;
    cr_status st = clip_all(&found, params, count, max_norm, room);
    cr_thread.no_grad = before;
    cr_free(room);
    if (!st && norm)
        *norm = found;
    return st;
}
