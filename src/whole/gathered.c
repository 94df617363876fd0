/* Tensors from the parts that ranks have sent. */
#include "whole/gathered.h"
#include "tensor/internal.h"

static cr_status gathered_check(const cr_tensor *every, cr_tensor *const *out, int n, int ranks)
{
    int64_t total = 0;
    bool fits = every->contiguous && !every->layout && ranks > 0;

    for (int i = 0; i < n; i++) {
        const cr_tensor *t = out[i];
        fits = fits && t->contiguous && !t->layout && t->dtype == every->dtype &&
               cr_same_device(t->device, every->device) && t->numel % ranks == 0;
        total += t->numel;
    }
    return fits && total == every->numel
               ? CR_OK
               : cr_fail(CR_VALUE, "the parts of %d ranks do not fit the tensors", ranks);
}

/* Copies one tensor, whose parts begin at element `at` of each rank's. */
static cr_status gathered_take(cr_tensor *out, const cr_tensor *every, int64_t at, int ranks)
{
    char *bytes;
    int64_t size[] = {ranks, out->numel / ranks};
    int64_t to_stride[] = {size[1], 1}, from_stride[] = {every->numel / ranks, 1};
    cr_view to = cr_view_of(out), from = cr_view_of(every);

    CR_TRY(cr_reach_to_write(&bytes, out));
    to.data = bytes;
    CR_TRY(cr_reach(&bytes, every));
    from.data = bytes + at * (int64_t)cr_dtype_size((cr_dtype)every->dtype);
    to.ndim = from.ndim = 2;
    to.size = from.size = size;
    to.stride = to_stride;
    from.stride = from_stride;
    return cr_copy_elements(&to, &from);
}

cr_status cr_take_gathered(cr_tensor *every, cr_tensor *const *out, int n, int ranks)
{
    int64_t at = 0;
    char *unused;

    CR_TRY(gathered_check(every, out, n, ranks));
    if (!cr_has_bytes(every->device) || !every->numel)
        return CR_OK;
    CR_TRY(cr_reach(&unused, every));
    for (int i = 0; i < n; i++)
        CR_TRY(cr_reach_to_write(&unused, out[i]));
    for (int i = 0; i < n; i++) {
        if (out[i]->numel)
            CR_TRY(gathered_take(out[i], every, at, ranks));
        at += out[i]->numel / ranks;
    }
    return CR_OK;
}
