/* torchvision's operators whose results are no tensors of known sizes. */
#include "ops/shape.h"
#include "whole/steps.h"
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
    cr_steps s = {.st = CR_OK};
    cr_tensor *pair[2] = {arg[1].t};

    CR_TRY(boxes_check(arg[0].t, arg[1].t));
    cr_sizes_of_values = true;
    if (!cr_has_bytes(arg[0].t->device) || !cr_has_bytes(arg[1].t->device))
        return cr_fail(CR_RUNTIME, "nms: the size of the result depends on the values");
    cr_step_all(&s, pair, cr_entry.sort_stable, 4,
                (cr_value[]){arg[1], cr_of_bool(true), cr_of_int(0), cr_of_bool(true)});
    cr_tensor *kept = CR_STEP(&s, torchvision__nms_kept, arg[0], T(pair[1]), arg[2]);
    return cr_steps_give(&s, result, CR_STEP(&s, masked_select, T(pair[1]), T(kept)));
}
