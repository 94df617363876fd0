/* shape_index.h - how a list of index tensors picks from a tensor.
 *
 * The plan is made from sizes alone, except that a mask's true elements are counted;
 * the kernels of kern/index.c use the same plan. */
#ifndef CR_OPS_SHAPE_INDEX_H
#define CR_OPS_SHAPE_INDEX_H

#include "num/view.h"

typedef struct {
    int count; /* index tensors that are not None */
    struct {
        const cr_view *view;
        int dim;       /* first dimension that it picks from */
        int64_t trues; /* of a mask: how many elements are true; -1: not a mask */
    } index[CR_MAX_DIMS];
    cr_shape picked;            /* what the index tensors broadcast to */
    int at;                     /* the result's dimension where these sizes stand */
    bool by_index[CR_MAX_DIMS]; /* the dimensions of self that indices pick from */
    cr_shape result;
} cr_index_plan;

/* Fails in torch's words: CR_INDEX.  A mask without data (a fake) cannot be counted:
 * CR_RUNTIME. */
CR_MUST cr_status cr_index_plan_make(cr_index_plan *plan, const cr_view *self,
                                     const cr_value *indices);

/* How many elements of a view of any dtype are not zero; its data must be there. */
int64_t cr_count_trues(const cr_view *v);

/* An element of an integral dtype. */
static inline int64_t cr_integer_at(const cr_view *v, const char *p)
{
    switch (v->dtype) {
    case CR_I64: return *(const int64_t *)(const void *)p;
    case CR_I32: return *(const int32_t *)(const void *)p;
    case CR_I16: return *(const int16_t *)(const void *)p;
    case CR_I8: return *(const int8_t *)p;
    default: return *(const uint8_t *)p;
    }
}

static inline bool cr_is_mask(const cr_view *v)
{
    return v->dtype == CR_BOOL || v->dtype == CR_U8;
}

#endif
