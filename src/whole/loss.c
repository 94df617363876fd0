/* cross_entropy_loss: nll_loss for class targets, log_softmax for probabilities, label
 * smoothing for both. */
#include "device/facts.h"
#include "kern/cpu/library/lapack.h"
#include "whole/whole_impl.h"
#include <stdio.h>
#include <string.h>

/* The class dim: 1, or 0 for an unbatched input. */
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
    return cr_call_given(result, cr_entry._cross_entropy_probabilities, arg, 5);
}

static cr_status by_classes(cr_value *result, cr_tensor *logp, const loss_args *a)
{
    cr_value arg[] = {cr_of_tensor(logp), a->target, a->weight,
                      a->reduction,       a->ignore, cr_of_float(a->smoothing)};
    if (a->smoothing > 0)
        return cr_call_given(result, cr_entry._cross_entropy_smoothed, arg, 6);
    return cr_call_given(result, cr_entry.nll_loss_nd, arg, 5);
}

/* Devices may have a kernel for plain classes. */
static bool for_device(const cr_tensor *self, const loss_args *a)
{
    const cr_tensor *t = a->target.t;
    int kernels = 0;
    bool fits = self->ndim > 1 && t->ndim == self->ndim - 1 && t->dtype == CR_I64 &&
                a->weight.tag != CR_TENSOR && !(a->smoothing > 0) &&
                cr_dtype_is_float((cr_dtype)self->dtype) &&
                cr_same_device(t->device, self->device);

    for (int d = 0; fits && d < t->ndim; d++)
        fits = t->size[d] == self->size[d ? d + 1 : 0];
    return fits && cr_device_entries((cr_device_kind)self->device.kind, &kernels);
}

static cr_status by_scores(cr_value *result, cr_tensor *self, const loss_args *a)
{
    cr_value arg[] = {cr_of_tensor(self), a->target, a->reduction, a->ignore}, made[3];

    CR_TRY(cr_call_given(made, cr_entry._class_entropy, arg, 4));
    cr_drop_values(&made[1], 2);
    result[0] = made[0];
    return CR_OK;
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
        return cr_fail(CR_RUNTIME,
                       "Expected floating point type for target with class "
                       "probabilities, got %s",
                       cr_dtype_infos[target->dtype].legacy);
    if (!same && for_device(self, &a))
        return by_scores(result, self, &a);
    cr_value softmax[] = {arg[0], cr_of_int(class_dim(self))};
    CR_TRY(cr_call_tensor(&logp, cr_entry.log_softmax, softmax, 2));
    cr_status st = same ? by_probabilities(result, logp, &a) : by_classes(result, logp, &a);
    cr_drop(logp);
    return st;
}

/* (self, refused, message) */
cr_status cr_do_refused_where(const cr_value *arg, cr_value *result)
{
    cr_scalar any = cr_scalar_int(0);
    cr_tensor *found = NULL;

    if (cr_has_bytes(arg[1].t->device)) {
        CR_TRY(cr_call_tensor(&found, cr_entry.any, &arg[1], 1));
        cr_status st = cr_tensor_item(&any, found);
        cr_drop(found);
        CR_TRY(st);
    }
    if (any.i)
        return cr_fail(CR_RUNTIME, "%.*s", (int)arg[2].len, arg[2].s);
    result[0] = cr_of_tensor(cr_keep(arg[0].t));
    return CR_OK;
}

/* (self, info, family, name) */
cr_status cr_do_la_checked(const cr_value *arg, cr_value *result)
{
    char family[16], name[64];
    cr_tensor *info = NULL;
    cr_status st = CR_OK;

    if (!cr_has_bytes(arg[1].t->device))
        return cr_give(result, arg[0].t);
    snprintf(family, sizeof family, "%.*s", (int)arg[2].len, arg[2].s);
    snprintf(name, sizeof name, "%.*s", (int)arg[3].len, arg[3].s);
    CR_TRY(cr_copy_as(&info, arg[1].t, CR_I64, CR_HOST, CR_FORMAT_CONTIGUOUS));
    for (int64_t i = 0; i < info->numel && !st; i++)
        st = cr_lapack_refuse(name, family, (int)((const int64_t *)(void *)info->address)[i], i,
                              info->ndim > 0);
    cr_drop(info);
    return st ? st : cr_give(result, arg[0].t);
}

/* --- ctc_loss: log_probs, targets, input_lengths, target_lengths, blank, reduction,
 * zero_infinity --- */

/* The lengths as a tensor.  It is made by calls, so that a recorder records how. */
static cr_status lengths_tensor(cr_tensor **out, const cr_value *lengths, cr_dtype dtype)
{
    cr_value *each = cr_alloc(lengths->len * sizeof *each + 1);
    uint32_t n = 0;
    cr_status st = each ? CR_OK : CR_MEMORY;

    for (; !st && n < lengths->len; n++) {
        cr_tensor *one = NULL;
        cr_scalar least = cr_scalar_int(lengths->ints[n] > 1 ? lengths->ints[n] : 1);
        st = cr_call_tensor(
            &one, cr_entry.full,
            (cr_value[]){cr_of_ints(NULL, 0), cr_of_number(least), cr_of_dtype(dtype)}, 3);
        each[n] = cr_of_tensor(one);
    }
    if (!st)
        st = cr_call_tensor(out, cr_entry.stack,
                            (cr_value[]){{.tag = CR_TENSORS, .len = n, .list = each}}, 1);
    for (uint32_t i = 0; each && i < n; i++)
        cr_drop(each[i].t);
    cr_free(each);
    return st;
}

/* Takes the reference to `losses`, on failure too. */
static cr_status without_infinity(cr_tensor **out, cr_tensor *losses)
{
    cr_tensor *mask = NULL;
    cr_status st;

    CR_GO(cr_call_tensor(&mask, cr_entry.isinf, (cr_value[]){cr_of_tensor(losses)}, 1));
    CR_GO(cr_call_tensor(
        out, cr_entry.masked_fill_Scalar,
        (cr_value[]){cr_of_tensor(losses), cr_of_tensor(mask), cr_of_number(cr_scalar_int(0))},
        3));
done:
    cr_drop(mask);
    cr_drop(losses);
    return st;
}

/* The tensor itself where it is on the device; otherwise a copy there. */
static cr_status ctc_there(cr_tensor **out, cr_tensor *t, cr_device device)
{
    if (!cr_same_device(t->device, device))
        return cr_copy_as(out, t, (cr_dtype)t->dtype, device, CR_FORMAT_PRESERVE);
    *out = cr_keep(t);
    return CR_OK;
}

static cr_status reduced_ctc(cr_tensor **out, cr_tensor *losses, const cr_value *labels,
                             int64_t reduction)
{
    cr_tensor *here = NULL, *lengths = NULL, *shares = NULL;
    cr_status st;

    if (reduction == 2)
        return cr_call_tensor(out, cr_entry.sum, (cr_value[]){cr_of_tensor(losses)}, 1);
    CR_GO(lengths_tensor(&here, labels, (cr_dtype)losses->dtype));
    CR_GO(ctc_there(&lengths, here, losses->device));
    CR_GO(cr_call_tensor(&shares, cr_entry.div,
                         (cr_value[]){cr_of_tensor(losses), cr_of_tensor(lengths)}, 2));
    CR_GO(cr_call_tensor(out, cr_entry.mean, (cr_value[]){cr_of_tensor(shares)}, 1));
done:
    cr_drop(here);
    cr_drop(lengths);
    cr_drop(shares);
    return st;
}

cr_status cr_do_ctc_loss(const cr_value *arg, cr_value *result)
{
    cr_tensor *batch = NULL, *losses = NULL, *out = NULL, *targets = NULL;
    bool single = arg[0].t->ndim == 2;
    cr_status st;

    CR_GO(ctc_there(&targets, arg[1].t, arg[0].t->device));
    if (single)
        CR_GO(
            cr_call_tensor(&batch, cr_entry.unsqueeze, (cr_value[]){arg[0], cr_of_int(1)}, 2));
    else
        batch = cr_keep(arg[0].t);
    cr_value given[] =
        {cr_of_tensor(batch), cr_of_tensor(targets), arg[2], arg[3], arg[4], arg[6]},
             r[2];
    CR_GO(cr_call_given(r, cr_entry._ctc_loss, given, 6));
    cr_drop(r[1].t);
    losses = r[0].t;
    if (arg[6].i) {
        cr_tensor *taken = losses;
        losses = NULL;
        CR_GO(without_infinity(&losses, taken));
    }
    if (arg[5].i)
        CR_GO(reduced_ctc(&out, losses, &arg[3], arg[5].i));
    else if (single)
        CR_GO(cr_call_tensor(&out, cr_entry.squeeze_dim,
                             (cr_value[]){cr_of_tensor(losses), cr_of_int(0)}, 2));
    else
        out = cr_keep(losses);
    result[0] = cr_of_tensor(out);
done:
    cr_drop(batch);
    cr_drop(losses);
    cr_drop(targets);
    return st;
}

static cr_status read_lengths(cr_value *out, int64_t **ints, const cr_tensor *t)
{
    cr_view to, from = cr_view_of(t);
    cr_tensor *plain = NULL;

    if (cr_dtype_category((cr_dtype)t->dtype) != CR_CAT_INT)
        return cr_fail(CR_RUNTIME, "input_lengths and target_lengths must be integral");
    if (!cr_has_bytes(t->device))
        return cr_fail(CR_RUNTIME, "ctc_loss: sizes depend on the values of lengths");
    CR_TRY(cr_tensor_new(&plain, CR_I64, CR_HOST, t->ndim, t->size));
    to = cr_view_of(plain);
    cr_status st = cr_copy_elements(&to, &from);
    *ints = st ? NULL : cr_alloc((size_t)t->numel * sizeof **ints + 1);
    if (*ints) {
        if (t->numel)
            memcpy(*ints, plain->address, (size_t)t->numel * sizeof **ints);
        *out = cr_of_ints(*ints, (size_t)t->numel);
    }
    cr_drop(plain);
    return st ? st : *ints ? CR_OK : CR_MEMORY;
}

cr_status cr_do_ctc_loss_tensors(const cr_value *arg, cr_value *result)
{
    cr_value given[7];
    int64_t *steps = NULL, *labels = NULL;
    cr_status st;

    memcpy(given, arg, sizeof given);
    CR_GO(read_lengths(&given[2], &steps, arg[2].t));
    CR_GO(read_lengths(&given[3], &labels, arg[3].t));
    CR_GO(cr_call_given(result, cr_entry.ctc_loss_IntList, given, 7));
    cr_numbers_were_elements();
done:
    cr_free(steps);
    cr_free(labels);
    return st;
}
