/* slide.h - the outputs of a sliding window that contain a position inside the input. */
#ifndef CR_KERN_SLIDE_H
#define CR_KERN_SLIDE_H

#include <stdint.h>

/* One dimension of a sliding window. */
typedef struct {
    int64_t in, out, stride, pad, dilation;
} cr_slide;

/* Outputs [*begin, *end) for which kernel position k is inside the input.  *at is the input
 * position of output *begin; each further output is `stride` further. */
static inline void cr_slide_range(const cr_slide *w, int64_t k, int64_t *begin, int64_t *end,
                                  int64_t *at)
{
    int64_t shift = k * w->dilation - w->pad, last = w->in - 1 - shift;

    *begin = shift >= 0 ? 0 : (-shift + w->stride - 1) / w->stride;
    *end = last < 0 ? 0 : last / w->stride + 1;
    *end = *end > w->out ? w->out : *end;
    *begin = *begin > *end ? *end : *begin;
    *at = *begin * w->stride + shift;
}

#endif
