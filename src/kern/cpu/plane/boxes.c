/* Non-maximum suppression, and the overlap of rotated boxes, whose intersection is one box
 * clipped by the sides of the other. */
#include "kern/cpu/plane/boxes.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/order/sort_line.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <math.h>

enum { BOX_CORNERS = 12 };

typedef struct {
    const void *a, *b;
    int64_t columns; /* boxes in b */
    float *out;
} boxes_job;

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/plane/boxes_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/plane/boxes_loops.inc"

/* Sets order to the indices of scores in descending order; equal scores keep theirs. */
static cr_status boxes_order(int64_t *order, const char *scores, cr_dtype t, int64_t n)
{
    cr_line line = {scores, (int64_t)cr_dtype_size(t), n, t, true};
    void *room = cr_alloc(cr_line_room(t, n));

    if (!room)
        return CR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    cr_line_sort(&line, order, room);
    cr_free(room);
    return CR_OK;
}

cr_status cr_boxes_choose(int64_t *chosen, int64_t *count, const cr_view *boxes,
                          const cr_view *scores, double most)
{
    cr_dtype t = (cr_dtype)boxes->dtype;
    int64_t n = boxes->size[0];
    cr_dense box = {0}, score = {0};
    cr_status st;

    CR_GO(cr_dense_in(&box, boxes, t));
    CR_GO(cr_dense_in(&score, scores, t));
    CR_GO(boxes_order(chosen, score.data, t, n));
    *count = t == CR_F32 ? f32_choose(chosen, n, (const float *)(const void *)box.data, most)
                         : f64_choose(chosen, n, (const double *)(const void *)box.data, most);
done:
    cr_dense_drop(&box);
    cr_dense_drop(&score);
    return st;
}

/* (boxes1, boxes2) */
cr_status cr_kern_box_iou_rotated(const cr_value *arg, cr_view *out)
{
    cr_dtype t = (cr_dtype)arg[0].view->dtype;
    cr_dense a = {0}, b = {0};
    cr_status st;

    CR_GO(cr_dense_in(&a, arg[0].view, t));
    CR_GO(cr_dense_in(&b, arg[1].view, t));
    boxes_job w = {a.data, b.data, out->size[1], (float *)(void *)out->data};
    cr_parallel_for(cr_view_numel(out), 256, t == CR_F32 ? f32_rotated : f64_rotated, &w);
done:
    cr_dense_drop(&a);
    cr_dense_drop(&b);
    return st;
}
