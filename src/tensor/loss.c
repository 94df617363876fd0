/* cross_entropy_loss: by classes through nll_loss, by probabilities through log_softmax,
 * with label smoothing in both. */
#include "tensor/entries.h"
#include "tensor/internal.h"
#include <string.h>

static cr_status call(cr_tensor **out, const char *name, const cr_value *arg, int n)
{
    cr_value r[CR_MAX_RESULTS];

    CR_TRY(cr_call_named(name, arg, n, r));
    *out = r[0].t;
    return CR_OK;
}

/* Class dim: 1, or 0 of an unbatched input. */
static int64_t class_dim(const cr_tensor *self) { return self->ndim == 1 ? 0 : 1; }

typedef struct {
    cr_value target, weight, reduction, ignore;
    double smoothing;
} loss_args;

/* -sum over classes of target * logp * weight, reduced; target are probabilities. */
static cr_status by_probabilities(cr_value *result, cr_tensor *logp, const loss_args *a)
{
    cr_value arg[] = {cr_of_tensor(logp), a->target, a->weight, a->reduction,
                      cr_of_float(a->smoothing)};
    return cr_call_named("_cross_entropy_probabilities", arg, 5, result);
}

static cr_status by_classes(cr_value *result, cr_tensor *logp, const loss_args *a)
{
    cr_value arg[] = {cr_of_tensor(logp), a->target, a->weight, a->reduction, a->ignore,
                      cr_of_float(a->smoothing)};
    if (a->smoothing > 0)
        return cr_call_named("_cross_entropy_smoothed", arg, 6, result);
    return cr_call_named("nll_loss_nd", arg, 5, result);
}

cr_status cr_do_cross_entropy_loss(const cr_value *arg, cr_value *result)
{
    cr_tensor *self = arg[0].t, *target = arg[1].t, *logp = NULL;
    loss_args a = {arg[1], arg[2], arg[3], arg[4], arg[5].d};
    bool same = target->ndim == self->ndim &&
                !memcmp(target->size, self->size, self->ndim * sizeof *self->size);

    if (a.smoothing < 0 || a.smoothing > 1)
        return cr_fail(CR_RUNTIME, "label_smoothing must be between 0.0 and 1.0. Got: %g",
                       a.smoothing);
    if (same && !cr_dtype_is_float((cr_dtype)target->dtype))
        return cr_fail(CR_RUNTIME, "Expected floating point type for target with class "
                                   "probabilities, got %s",
                       cr_dtype_infos[target->dtype].legacy);
    cr_value softmax[] = {arg[0], cr_of_int(class_dim(self))};
    CR_TRY(call(&logp, "log_softmax", softmax, 2));
    cr_status st = same ? by_probabilities(result, logp, &a) : by_classes(result, logp, &a);
    cr_drop(logp);
    return st;
}

/* NaN is not between 0 and 1 either. */
static cr_status all_shares(bool *out, cr_tensor *t)
{
    cr_value zero[] = {cr_of_tensor(t), cr_of_number(cr_scalar_int(0))};
    cr_value one[] = {cr_of_tensor(t), cr_of_number(cr_scalar_int(1))};
    cr_tensor *low = NULL, *high = NULL, *both = NULL, *all = NULL;
    cr_scalar s;
    cr_status st;

    CR_GO(call(&low, "ge", zero, 2));
    CR_GO(call(&high, "le", one, 2));
    CR_GO(call(&both, "logical_and", (cr_value[]){cr_of_tensor(low), cr_of_tensor(high)}, 2));
    CR_GO(call(&all, "all", (cr_value[]){cr_of_tensor(both)}, 1));
    CR_GO(cr_tensor_item(&s, all));
    *out = s.i != 0;
done:
    cr_drop(low);
    cr_drop(high);
    cr_drop(both);
    cr_drop(all);
    return st;
}

/* Binary cross entropy of anything else is a mistake: logits, mostly. */
cr_status cr_do_checked_share(const cr_value *arg, cr_value *result)
{
    bool good = true;

    if (arg[0].t->device != CR_META)
        CR_TRY(all_shares(&good, arg[0].t));
    if (!good)
        return cr_fail(CR_RUNTIME, "all elements of input should be between 0 and 1");
    result[0] = cr_of_tensor(cr_keep(arg[0].t));
    return CR_OK;
}
