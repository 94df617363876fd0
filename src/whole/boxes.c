/* torchvision's operators whose results are no tensors of known sizes. */
#include "entry.h"
#include "ops/shape.h"
#include "whole/whole_impl.h"

static cr_status boxes_check(const cr_tensor *boxes, const cr_tensor *scores)
{
    if (boxes->ndim != 2)
        return cr_fail(CR_RUNTIME, "boxes should be a 2d tensor, got %dD", boxes->ndim);
    if (boxes->size[1] != 4)
        return cr_fail(CR_RUNTIME, "boxes should have 4 elements in dimension 1, got %lld",
                       (long long)boxes->size[1]);
    if (scores->ndim != 1)
        return cr_fail(CR_RUNTIME, "scores should be a 1d tensor, got %dD", scores->ndim);
    if (boxes->size[0] != scores->size[0])
        return cr_fail(CR_RUNTIME,
                       "boxes and scores should have same number of elements in dimension 0, "
                       "got %lld and %lld",
                       (long long)boxes->size[0], (long long)scores->size[0]);
    if (boxes->dtype != scores->dtype)
        return cr_fail(CR_RUNTIME, "dets should have the same type as scores");
    if (boxes->dtype != CR_F32 && boxes->dtype != CR_F64)
        return cr_fail(CR_NOT_IMPLEMENTED, "\"nms_kernel\" not implemented for '%s'",
                       cr_dtype_infos[boxes->dtype].legacy);
    return CR_OK;
}

/* (dets, scores, iou_threshold): the boxes of the descending order of scores that are kept.
 * Equal scores keep their order. */
cr_status cr_do_nms(const cr_value *arg, cr_value *result)
{
    const cr_op *const step[] = {cr_entry.sort_stable, cr_entry.torchvision__nms_kept,
                                 cr_entry.masked_select};
    cr_value sorting[4] = {arg[1], cr_of_bool(true), cr_of_int(0), cr_of_bool(true)};
    cr_value sorted[2], keeping[3] = {arg[0], cr_of_none(), arg[2]}, kept, picking[2];

    CR_TRY(boxes_check(arg[0].t, arg[1].t));
    cr_sizes_of_values = true;
    if (!cr_has_bytes(arg[0].t->device) || !cr_has_bytes(arg[1].t->device))
        return cr_fail(CR_RUNTIME, "nms: the size of the result depends on the values");
    CR_TRY(step[0]->kernel_stage(step[0], sorting, sorted));
    keeping[1] = picking[0] = sorted[1];
    cr_status st = step[1]->kernel_stage(step[1], keeping, &kept);
    if (!st) {
        picking[1] = kept;
        st = step[2]->kernel_stage(step[2], picking, result);
        cr_drop_values(&kept, 1);
    }
    cr_drop_values(sorted, 2);
    return st;
}

/* There is no kernel for CUDA. */
cr_status cr_do_vision_cuda_version(const cr_value *arg, cr_value *result)
{
    (void)arg;
    result[0] = cr_of_int(-1);
    return CR_OK;
}
