/* torchvision's operators whose results are no tensors of known sizes. */
#include "kern/cpu/plane/boxes.h"
#include "ops/shape.h"
#include "whole/whole_impl.h"
#include <string.h>

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

/* (dets, scores, iou_threshold) */
cr_status cr_do_nms(const cr_value *arg, cr_value *result)
{
    const cr_tensor *boxes = arg[0].t;
    cr_view box = cr_view_of(boxes), score = cr_view_of(arg[1].t);
    int64_t count = 0;

    CR_TRY(boxes_check(boxes, arg[1].t));
    cr_sizes_of_values = true;
    if (!cr_has_bytes(boxes->device) || !cr_has_bytes(arg[1].t->device))
        return cr_fail(CR_RUNTIME, "nms: the size of the result depends on the values");
    int64_t *chosen = cr_alloc((size_t)boxes->size[0] * sizeof *chosen + 1);
    cr_status st = chosen ? cr_boxes_choose(chosen, &count, &box, &score, arg[2].d) : CR_MEMORY;
    cr_tensor *out = NULL;
    if (!st)
        st = cr_tensor_new(&out, CR_I64, boxes->device, 1, &count);
    if (!st && count)
        memcpy(out->address, chosen, (size_t)count * sizeof *chosen);
    cr_free(chosen);
    if (!st)
        result[0] = cr_of_tensor(out);
    return st;
}

/* There is no kernel for CUDA. */
cr_status cr_do_vision_cuda_version(const cr_value *arg, cr_value *result)
{
    (void)arg;
    result[0] = cr_of_int(-1);
    return CR_OK;
}
