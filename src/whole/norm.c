/* Norms that keep running statistics: the statistics are updated here, in place and without
 * autograd; the differentiable part is an entry. */
#include "device/facts.h"
#include "whole/whole_impl.h"
#include <string.h>

enum { INPUT, WEIGHT, BIAS, MEAN, VAR, TRAINING, MOMENTUM, EPS };

static const char *const names[] = {"input", "weight", "bias", "running_mean", "running_var"};

static cr_status check_sizes(const cr_value *arg)
{
    const cr_tensor *x = arg[INPUT].t;
    int64_t channels = x->ndim < 2 ? 0 : x->size[1];
    static const uint8_t order[] = {MEAN, VAR, WEIGHT, BIAS};

    for (size_t k = 0; k < CR_LEN(order); k++) {
        int i = order[k];
        if (arg[i].tag == CR_TENSOR && arg[i].t->numel != channels)
            return cr_fail(CR_RUNTIME, "%s should contain %lld elements not %lld", names[i],
                           (long long)channels, (long long)arg[i].t->numel);
    }
    return CR_OK;
}

static cr_status call_inplace(const cr_op *op, const cr_value *arg)
{
    cr_value r;

    CR_TRY(cr_call_inplace(op, arg, &r));
    cr_drop_values(&r, 1);
    return CR_OK;
}

/* running = running * (1 - momentum) + value * momentum * scale */
static cr_status update(cr_tensor *running, cr_tensor *value, double momentum, double scale)
{
    uint32_t was = cr_thread.exclude;
    cr_value shrink[] = {cr_of_tensor(running), cr_of_number(cr_scalar_float(1 - momentum))};
    cr_value grow[] = {cr_of_tensor(running), cr_of_tensor(value),
                       cr_of_number(cr_scalar_float(momentum * scale))};
    cr_status st;

    cr_thread.exclude |= CR_STAGE_BIT(AUTOGRAD);
    st = call_inplace(cr_entry.mul, shrink);
    if (!st)
        st = call_inplace(cr_entry.add, grow);
    cr_thread.exclude = was;
    return st;
}

/* The factor n / (n - 1) that makes a variance unbiased. */
static double unbiased(int64_t n) { return (double)n / ((double)n - 1); }

static cr_status update_both(const cr_value *arg, const cr_value *stats, int64_t n)
{
    double momentum = arg[MOMENTUM].d;

    if (!arg[INPUT].t->numel) /* there are no statistics */
        return CR_OK;
    if (arg[MEAN].tag == CR_TENSOR)
        CR_TRY(update(arg[MEAN].t, stats[1].t, momentum, 1));
    if (arg[VAR].tag == CR_TENSOR)
        CR_TRY(update(arg[VAR].t, stats[3].t, momentum, unbiased(n)));
    return CR_OK;
}

/* The dtype of the statistics that are results: that of the parameters. */
static cr_dtype statistics_type(const cr_value *arg)
{
    for (int i = WEIGHT; i <= VAR; i++)
        if (arg[i].tag == CR_TENSOR)
            return (cr_dtype)arg[i].t->dtype;
    return (cr_dtype)arg[INPUT].t->dtype;
}

static cr_status convert_result(cr_value *v, cr_dtype dtype)
{
    cr_tensor *cast;

    if (v->t->dtype == dtype)
        return CR_OK;
    CR_TRY(cr_call_tensor(&cast, cr_entry.to_dtype, (cr_value[]){*v, cr_of_dtype(dtype)}, 2));
    cr_drop(v->t);
    v->t = cast;
    return CR_OK;
}

/* Whether the input's device has kernels; elsewhere compositions are fused. */
static bool has_kernels(const cr_value *arg)
{
    const cr_tensor *x = arg[INPUT].t;
    int kernels = 0;

    return cr_dtype_is_float((cr_dtype)x->dtype) &&
           cr_device_entries((cr_device_kind)x->device.kind, &kernels);
}

/* The input, in float32 if its dtype has 16 bits. */
static cr_status widen(cr_value *out, const cr_value *arg)
{
    cr_tensor *x = arg[INPUT].t;

    *out = cr_of_tensor(cr_keep(x));
    cr_status st = cr_dtype_size((cr_dtype)x->dtype) == 2 ? convert_result(out, CR_F32) : CR_OK;
    if (st)
        cr_drop_values(out, 1);
    return st;
}

/* The input of a kernel, or that of a composition, which is not of 16 bits. */
static cr_status wide_input(cr_value *out, const cr_value *arg)
{
    if (!has_kernels(arg))
        return widen(out, arg);
    *out = cr_of_tensor(cr_keep(arg[INPUT].t));
    return CR_OK;
}

static const cr_op *for_device(const cr_value *arg, const cr_op *composition,
                               const cr_op *kernel)
{
    return has_kernels(arg) ? kernel : composition;
}

static cr_status train(const cr_value *arg, cr_value *result)
{
    const cr_tensor *x = arg[INPUT].t;
    cr_value call[] = {arg[INPUT], arg[WEIGHT], arg[BIAS], arg[EPS]}, stats[4];
    const cr_op *op =
        for_device(arg, cr_entry._batch_norm_train, cr_entry._batch_norm_channels);

    CR_TRY(wide_input(&call[0], arg));
    cr_status st = cr_call_given(stats, op, call, 4);
    cr_drop_values(call, 1);
    CR_TRY(st);
    st = update_both(arg, stats, x->size[1] ? x->numel / x->size[1] : 0);
    st = st ? st : convert_result(&stats[0], (cr_dtype)x->dtype);
    for (int k = 1; !st && k < 3; k++)
        st = convert_result(&stats[k], statistics_type(arg));
    if (st) {
        cr_drop_values(stats, 4);
        return st;
    }
    cr_drop_values(&stats[3], 1);
    memcpy(result, stats, 3 * sizeof *result);
    return CR_OK;
}

static cr_status evaluate(const cr_value *arg, cr_value *result)
{
    cr_value call[] = {arg[INPUT], arg[WEIGHT], arg[BIAS], arg[MEAN], arg[VAR], arg[EPS]};
    int64_t none = 0;
    cr_tensor *empty = NULL;

    for (int i = MEAN; i <= VAR; i++)
        if (arg[i].tag != CR_TENSOR)
            return cr_fail(CR_RUNTIME, "%s must be defined in evaluation mode", names[i]);
    CR_TRY(cr_tensor_new(&empty, statistics_type(arg), arg[INPUT].t->device, 1, &none));
    cr_status st = wide_input(&call[0], arg);
    if (!st) {
        st = cr_call_given(
            result, for_device(arg, cr_entry._batch_norm_eval, cr_entry._batch_norm_given),
            call, 6);
        cr_drop_values(call, 1);
    }
    if (!st) {
        st = convert_result(result, (cr_dtype)arg[INPUT].t->dtype);
        if (st)
            cr_drop_values(result, 1);
    }
    if (st) {
        cr_drop(empty);
        return st;
    }
    result[1] = cr_of_tensor(empty);
    result[2] = cr_of_tensor(cr_keep(empty));
    return CR_OK;
}

/* An input without a dim of channels has a result only when it is empty. */
static cr_status without_channels(const cr_value *arg, cr_value *result)
{
    cr_tensor *x = arg[INPUT].t, *same = NULL;
    int64_t none = 0;

    if (x->numel)
        return cr_fail(
            CR_INDEX, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    CR_TRY(cr_call_tensor(&same, cr_entry.clone, &arg[INPUT], 1));
    for (int k = 1; k < 3; k++)
        result[k] = cr_of_none();
    result[0] = cr_of_tensor(same);
    for (int k = 1; k < 3; k++) {
        cr_status st = cr_tensor_new(&same, statistics_type(arg), x->device, 1, &none);
        if (st) {
            cr_drop_values(result, 3);
            return st;
        }
        result[k] = cr_of_tensor(same);
    }
    return CR_OK;
}

cr_status cr_do_native_batch_norm(const cr_value *arg, cr_value *result)
{
    CR_TRY(check_sizes(arg));
    if (arg[INPUT].t->ndim < 2)
        return without_channels(arg, result);
    return arg[TRAINING].i ? train(arg, result) : evaluate(arg, result);
}

/* --- instance norm --- */

/* Averages the statistics of [1, N*C, ...] over the samples, to [C]. */
static cr_status mean_over_samples(cr_tensor **out, cr_tensor *stat, int64_t samples,
                                   int64_t channels)
{
    int64_t size[2] = {samples, channels}, dim = 0;
    cr_value reshape[] = {cr_of_tensor(stat), cr_of_ints(size, 2)}, grid, mean;

    CR_TRY(cr_call_given(&grid, cr_entry.reshape, reshape, 2));
    cr_value call[] = {grid, cr_of_ints(&dim, 1)};
    cr_status st = cr_call_given(&mean, cr_entry.mean, call, 2);
    cr_drop_values(&grid, 1);
    if (!st)
        *out = mean.t;
    return st;
}

static cr_status update_instance(const cr_value *arg, const cr_value *stats, int64_t n)
{
    const cr_tensor *x = arg[INPUT].t;
    cr_tensor *mean = NULL, *var = NULL;
    cr_status st = CR_OK;

    if (arg[MEAN].tag != CR_TENSOR || arg[VAR].tag != CR_TENSOR)
        return CR_OK;
    CR_GO(mean_over_samples(&mean, stats[1].t, x->size[0], x->size[1]));
    CR_GO(mean_over_samples(&var, stats[3].t, x->size[0], x->size[1]));
    CR_GO(update(arg[MEAN].t, mean, arg[MOMENTUM].d, 1));
    CR_GO(update(arg[VAR].t, var, arg[MOMENTUM].d, unbiased(n)));
done:
    cr_drop(mean);
    cr_drop(var);
    return st;
}

/* x * weight + bias, with one weight and bias for each channel. */
static cr_status affine(cr_value *result, const cr_value *arg, cr_value *x)
{
    const cr_op *const op[] = {cr_entry.mul, cr_entry.add};

    for (int i = WEIGHT; i <= BIAS; i++) {
        cr_value shape[] = {arg[i], cr_of_int(arg[INPUT].t->ndim)}, one, next;
        if (arg[i].tag != CR_TENSOR)
            continue;
        CR_TRY(cr_call_given(&one, cr_entry._per_channel, shape, 2));
        cr_value call[] = {*x, one};
        cr_status st = cr_call_given(&next, op[i - WEIGHT], call, 2);
        cr_drop_values(&one, 1);
        CR_TRY(st);
        cr_drop_values(x, 1);
        *x = next;
    }
    *result = *x;
    *x = cr_of_none();
    return CR_OK;
}

static cr_status by_instance(const cr_value *arg, cr_value *result)
{
    const cr_tensor *x = arg[INPUT].t;
    int64_t size[CR_MAX_DIMS], places;
    cr_value dense = cr_of_none(), flat = cr_of_none(), back = cr_of_none(), stats[4] = {{0}};
    cr_value wide;
    cr_status st;

    if (x->ndim < 2)
        return cr_fail(
            CR_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got 1)",
            x->ndim ? -x->ndim : -1, x->ndim ? x->ndim - 1 : 0);
    if (CR_MUL_OVERFLOW(x->size[0], x->size[1], &places))
        return cr_fail(CR_RUNTIME, "numel: integer multiplication overflow");
    size[0] = 1;
    size[1] = places;
    for (int d = 2; d < x->ndim; d++)
        size[d] = x->size[d];
    CR_TRY(widen(&wide, arg)); /* until the weight and the bias are in */
    CR_GO(
        cr_call_given(&dense, cr_entry.contiguous, &wide, 1)); /* so results are, as torch's */
    cr_value reshape[] = {dense, cr_of_ints(size, x->ndim)};
    CR_GO(cr_call_given(&flat, cr_entry.reshape, reshape, 2));
    cr_value call[] = {flat, cr_of_none(), cr_of_none(), arg[EPS]};
    CR_GO(cr_call_given(
        stats, for_device(arg, cr_entry._batch_norm_train, cr_entry._batch_norm_channels), call,
        4));
    CR_GO(update_instance(arg, stats, places ? x->numel / places : 0));
    cr_value restore[] = {stats[0], cr_of_ints(x->size, x->ndim)};
    CR_GO(cr_call_given(&back, cr_entry.reshape, restore, 2));
    CR_GO(affine(result, arg, &back));
    st = convert_result(result, (cr_dtype)x->dtype);
    if (st)
        cr_drop_values(result, 1);
done:
    cr_drop_values(&wide, 1);
    cr_drop_values(&dense, 1);
    cr_drop_values(&flat, 1);
    cr_drop_values(&back, 1);
    cr_drop_values(stats, 4);
    return st;
}

cr_status cr_do_instance_norm(const cr_value *arg, cr_value *result)
{
    cr_value all[3];

    CR_TRY(check_sizes(arg));
    if (arg[TRAINING].i)
        return by_instance(arg, result);
    CR_TRY(evaluate(arg, all));
    cr_drop_values(&all[1], 2);
    result[0] = all[0];
    return CR_OK;
}
