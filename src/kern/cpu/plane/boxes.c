/* Non-maximum suppression, and the overlap of rotated boxes, whose intersection is one box
 * clipped by the sides of the other. */
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/plane/boxes_job.h"
#include "kern/cpu/walk.h"
#include <math.h>

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/boxes_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/boxes_loops.inc"

/* On a device boxes are compared at once; 64 boxes at a time then put others out. */
static cr_status boxes_choose_there(boxes_job *w, cr_dtype t, cr_device device)
{
    static const cr_loops overlaps = CR_LOOPS(CR_LOOPS_BOXES, boxes_job, overlaps);
    static const cr_loops choose = CR_LOOPS(CR_LOOPS_BOXES, boxes_job, choose_group);
    cr_dense bits = {0}, out_of = {0};
    size_t row = (size_t)w->words * sizeof(uint64_t);
    cr_status st;

    CR_GO(cr_dense_take(&bits, device, (size_t)w->n * row));
    CR_GO(cr_dense_take(&out_of, device, row));
    CR_GO(cr_dense_clear(&out_of, row));
    w->overlaps = (uint64_t *)(void *)bits.data, w->out_of = (uint64_t *)(void *)out_of.data;
    CR_GO(cr_loops_run(device, &overlaps, t, w->n * w->words, 1, w));
    for (; w->group < w->words; w->group++)
        CR_GO(cr_loops_run(device, &choose, t, w->words - w->group, 1, w));
done:
    cr_dense_drop(&bits);
    cr_dense_drop(&out_of);
    return st;
}

static cr_status boxes_check_order(boxes_job *w, cr_device device)
{
    for (int64_t i = 0; i < w->n && (!w->boxes || cr_is_host(device)); i++)
        if (!w->boxes || w->order[i] < 0 || w->order[i] >= w->boxes)
            return cr_fail(CR_INDEX, "the order has a number that none of %lld boxes has",
                           (long long)w->boxes);
    return cr_loops_error_begin(&w->wrong, device, CR_INDEX,
                                "the order has the number \1, which no box has");
}

/* (dets, order, iou_threshold) -> whether each box of the order is kept */
cr_status cr_kern_nms_kept(const cr_value *arg, cr_view *out)
{
    cr_dtype t = (cr_dtype)arg[0].view->dtype;
    cr_dense box = {0}, order = {0};
    cr_status st;

    if (!cr_view_numel(out))
        return CR_OK;
    CR_GO(cr_dense_in(&box, arg[0].view, t));
    CR_GO(cr_dense_in(&order, arg[1].view, CR_I64));
    boxes_job w = {.a = box.data,
                   .order = (const int64_t *)(const void *)order.data,
                   .kept = (bool *)out->data,
                   .n = out->size[0],
                   .words = (out->size[0] + 63) / 64,
                   .boxes = arg[0].view->size[0],
                   .most = arg[2].d};
    CR_GO(boxes_check_order(&w, out->device));
    if (!cr_is_host(out->device))
        CR_GO(boxes_choose_there(&w, t, out->device));
    else if (t == CR_F32)
        f32_choose(w.order, w.kept, w.n, w.a, w.most);
    else
        f64_choose(w.order, w.kept, w.n, w.a, w.most);
done:
    cr_dense_drop(&box);
    cr_dense_drop(&order);
    return st;
}

/* (boxes1, boxes2) */
cr_status cr_kern_box_iou_rotated(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_BOXES, boxes_job, rotated);
    cr_dtype t = (cr_dtype)arg[0].view->dtype;
    cr_dense a = {0}, b = {0};
    cr_status st;

    CR_GO(cr_dense_in(&a, arg[0].view, t));
    CR_GO(cr_dense_in(&b, arg[1].view, t));
    boxes_job w = {
        .a = a.data, .b = b.data, .columns = out->size[1], .out = (float *)(void *)out->data};
    CR_GO(cr_loops_run(out->device, &loops, t, cr_view_numel(out), 256, &w));
done:
    cr_dense_drop(&a);
    cr_dense_drop(&b);
    return st;
}
