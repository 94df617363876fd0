/* picked.h - how a list of index tensors picks elements of a tensor.
 *
 * The plan depends on sizes only, except for masks, whose true elements are counted.  The
 * kernels of kern/cpu/move/index.c use the same plan. */
#ifndef CR_SPACE_PICKED_H
#define CR_SPACE_PICKED_H

#include "num/view.h"

typedef struct {
    int count; /* index tensors that are not None */
    struct {
        const cr_view *view;
        int dim;       /* the first dimension that it indexes */
        int64_t trues; /* a mask: the number of true elements; -1: not a mask */
    } index[CR_MAX_DIMS];
    cr_shape picked;            /* the index tensors' broadcast shape */
    int at;                     /* the position of these sizes in the result */
    bool by_index[CR_MAX_DIMS]; /* the dimensions of self that are indexed */
    bool uncounted; /* a mask has no data (a fake): `picked` and `result` are unknown */
    cr_shape result;
} cr_index_plan;

/* Fails with CR_INDEX and torch's message.  A mask without data (a fake) cannot be counted:
 * CR_RUNTIME. */
CR_MUST cr_status cr_index_plan_make(cr_index_plan *plan, const cr_view *self,
                                     const cr_value *indices);

/* The same without the last failure: what can be known is checked, and the plan says that sizes
 * are not known. */
CR_MUST cr_status cr_index_plan_check(cr_index_plan *plan, const cr_view *self,
                                      const cr_value *indices);

/* Fails with torch's message unless values broadcast to what the plan picks. */
CR_MUST cr_status cr_index_plan_takes(const cr_index_plan *plan, const cr_view *values);

/* The number of elements that are not zero.  Any dtype; the view must have data. */
int64_t cr_count_trues(const cr_view *v);

/* Reads an element of an integral dtype. */
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
