/* upsample.h - resamples planes, one dimension after another.
 *
 * Every mode is a table of taps for each dimension: output o is the sum of weight * input over
 * the taps of o.  Dtypes are F32 and F64, and U8 without a transpose. */
#ifndef CR_KERN_UPSAMPLE_H
#define CR_KERN_UPSAMPLE_H

#include "num/view.h"

typedef enum {
    CR_UPSAMPLE_NEAREST,
    CR_UPSAMPLE_NEAREST_EXACT,
    CR_UPSAMPLE_LINEAR,
    CR_UPSAMPLE_CUBIC,
    CR_UPSAMPLE_LINEAR_AA, /* with antialiasing */
    CR_UPSAMPLE_CUBIC_AA,
    CR_UPSAMPLE_MODES
} cr_upsample_mode;

/* Missing leading dimensions have size 1. */
typedef struct {
    int64_t planes, in[3], out[3];
    double scale[3]; /* the user's factor; 0 when only sizes were given */
    cr_upsample_mode mode;
    bool align_corners;
} cr_upsample;

/* The taps of one dimension: output o adds up weight[o * taps + t] * input[index[o * taps +
 * t]], t ascending.  Weights are float for F32, double for F64, and int16_t with `fraction`
 * bits after the point for U8. */
typedef struct {
    int64_t in, out, taps;
    double scale;
    int64_t *index;
    void *weight;
    int fraction;
} cr_upsample_axis;

/* Dimension d's taps, which the caller drops, also on failure.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_upsample_axis_make(cr_upsample_axis *a, const cr_upsample *u, int d,
                                        cr_dtype t);
void cr_upsample_axis_drop(cr_upsample_axis *a);

/* Computes y from x.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_upsample_run(const cr_upsample *u, cr_dtype t, const void *x, void *y);
/* The transpose: computes x from y and writes all of x.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_upsample_back(const cr_upsample *u, cr_dtype t, const void *y, void *x);

#endif
