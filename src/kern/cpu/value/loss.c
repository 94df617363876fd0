/* Negative log likelihood: the selected element of each row, weighted and reduced.
 *
 * Sums are in double and in row order, so they do not depend on threads. */
#include "kern/cpu/entries.h"
#include "kern/cpu/value/real.h"
#include "kern/cpu/walk.h"
#include <string.h>

/* The operands of one call, the same in both directions. */
typedef struct {
    const cr_view *self, *target, *weight; /* weight may be NULL */
    int64_t rows, classes, row_step, class_step;
    int64_t reduction, ignore;
} nll;

static nll nll_of(const cr_value *self, const cr_value *target, const cr_value *weight,
                  int64_t reduction, int64_t ignore)
{
    const cr_view *x = self->view;
    bool batched = x->ndim == 2;

    return (nll){.self = x,
                 .target = target->view,
                 .weight = weight->tag == CR_VIEW ? weight->view : NULL,
                 .rows = batched ? x->size[0] : 1,
                 .classes = x->size[x->ndim - 1],
                 .row_step = batched ? x->stride[0] : 0,
                 .class_step = x->stride[x->ndim - 1],
                 .reduction = reduction,
                 .ignore = ignore};
}

static int64_t class_at(const nll *x, int64_t row)
{
    int64_t step = x->target->ndim ? x->target->stride[0] : 0;
    if (x->target->dtype == CR_I64)
        return ((const int64_t *)(const void *)x->target->data)[row * step];
    size_t item = cr_dtype_size((cr_dtype)x->target->dtype);
    const char *p = x->target->data + row * step * (int64_t)item;

    return cr_scalar_as_int(cr_scalar_load((cr_dtype)x->target->dtype, p));
}

static double weight_of(const nll *x, int64_t class)
{
    return x->weight ? cr_real_get(x->weight, class * x->weight->stride[0]) : 1;
}

static cr_status check_classes(const nll *x)
{
    for (int64_t r = 0; r < x->rows; r++) {
        int64_t c = class_at(x, r);
        if (c != x->ignore && (c < 0 || c >= x->classes))
            return cr_fail(CR_INDEX, "Target %lld is out of bounds.", (long long)c);
    }
    return CR_OK;
}

/* nll_loss_forward: from self [N, C] or [C], target, weight [C] or None, reduction and
 * ignore_index to output and total weight.  Fails with CR_INDEX for a class out of range. */
cr_status cr_kern_nll_loss(const cr_value *arg, cr_view *out)
{
    nll x = nll_of(&arg[0], &arg[1], &arg[2], arg[3].i, arg[4].i);
    bool each = x.reduction == 0 && x.self->ndim == 2;
    double sum = 0, total = 0;

    CR_TRY(check_classes(&x));
    for (int64_t r = 0; r < x.rows; r++) {
        int64_t c = class_at(&x, r);
        double w = c == x.ignore ? 0 : weight_of(&x, c);
        double v =
            c == x.ignore ? 0 : -w * cr_real_get(x.self, r * x.row_step + c * x.class_step);
        if (each)
            cr_real_put(&out[0], r, v);
        sum += v;
        total += w;
    }
    if (!each)
        cr_real_put(&out[0], 0, x.reduction == 1 ? sum / total : sum);
    cr_real_put(&out[1], 0, each ? 0 : total);
    return CR_OK;
}

/* A number rounded to the width in which the table states the gradient. */
static double rounded(const nll *x, double v)
{
    return x->self->dtype == CR_F64 ? v : (double)(float)v;
}

/* nll_loss_backward: grad_output, the arguments of nll_loss_forward, and the total weight. */
cr_status cr_kern_nll_loss_backward(const cr_value *arg, cr_view *out)
{
    nll x = nll_of(&arg[1], &arg[2], &arg[3], arg[4].i, arg[5].i);
    bool each = x.reduction == 0 && x.self->ndim == 2;
    double total = x.reduction == 1 ? rounded(&x, cr_real_get(arg[6].view, 0)) : 1;

    CR_TRY(check_classes(&x));
    cr_zero_view(out);
    for (int64_t r = 0; r < x.rows; r++) {
        int64_t c = class_at(&x, r);
        const cr_view *g = arg[0].view;
        if (c == x.ignore)
            continue;
        double scaled = rounded(&x, cr_real_get(g, each ? r * g->stride[0] : 0) / total);
        cr_real_put(&out[0], r * x.classes + c, rounded(&x, -weight_of(&x, c) * scaled));
    }
    return CR_OK;
}
