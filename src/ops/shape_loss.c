/* Shape rules of losses. */
#include "base/error.h"
#include "ops/shape.h"

static const char ctc_place[] = "(while checking arguments for ctc_loss_allocate_outputs)";

static cr_status check_ctc_lengths(const cr_view *logp, const cr_value *steps,
                                   const cr_value *labels)
{
    if (steps->len != logp->size[1])
        return cr_fail(CR_RUNTIME, "input_lengths must be of size batch_size");
    if (labels->len != logp->size[1])
        return cr_fail(CR_RUNTIME, "target_lengths must be of size batch_size");
    for (uint32_t n = 0; n < steps->len; n++)
        if (steps->ints[n] < 0 || steps->ints[n] > logp->size[0])
            return cr_fail(
                CR_RUNTIME,
                "Expected input_lengths to have value at most %lld, but got value %lld "
                "%s",
                (long long)logp->size[0], (long long)steps->ints[n], ctc_place);
    for (uint32_t n = 0; n < labels->len; n++)
        if (labels->ints[n] < 0)
            return cr_fail(
                CR_RUNTIME,
                "Expected target_lengths to have value at least 0, but got value %lld %s",
                (long long)labels->ints[n], ctc_place);
    return CR_OK;
}

cr_status cr_shape_ctc(const cr_value *arg, cr_shape *out)
{
    const cr_view *logp = arg[0].view, *targets = arg[1].view;
    int64_t longest = 0, sum = 0;

    if (logp->ndim != 3)
        return cr_fail(CR_RUNTIME,
                       "Expected 3-dimensional tensor, but got %d-dimensional tensor "
                       "for argument #1 'log_probs' %s",
                       logp->ndim, ctc_place);
    if (arg[4].i < 0 || arg[4].i >= logp->size[2])
        return cr_fail(CR_RUNTIME, "blank must be in label range");
    CR_TRY(check_ctc_lengths(logp, &arg[2], &arg[3]));
    for (uint32_t n = 0; n < arg[3].len; n++) {
        longest = arg[3].ints[n] > longest ? arg[3].ints[n] : longest;
        if (CR_ADD_OVERFLOW(sum, arg[3].ints[n], &sum))
            sum = INT64_MAX;
    }
    if (targets->ndim == 1 && targets->size[0] != sum)
        return cr_fail(CR_RUNTIME,
                       "Expected tensor to have size %lld at dimension 0, but got size "
                       "%lld for argument #2 'targets' %s",
                       (long long)sum, (long long)targets->size[0], ctc_place);
    if (targets->ndim == 2 && targets->size[1] < longest)
        return cr_fail(CR_RUNTIME,
                       "Expected tensor to have size at least %lld at dimension 1, but "
                       "got size %lld for argument #2 'targets' %s",
                       (long long)longest, (long long)targets->size[1], ctc_place);
    if (targets->ndim != 1 && (targets->ndim != 2 || targets->size[0] != logp->size[1]))
        return cr_fail(CR_RUNTIME,
                       "ctc_loss: targets must be a vector, or a matrix with a row a "
                       "sample");
    out[0].ndim = 1;
    out[0].size[0] = logp->size[1];
    out[1].ndim = 3;
    out[1].size[0] = logp->size[1];
    out[1].size[1] = logp->size[0];
    out[1].size[2] = 2 * longest + 1;
    return CR_OK;
}
