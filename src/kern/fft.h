/* fft.h - discrete Fourier transforms of any length.
 *
 * A plan holds factors and twiddles of one length; it is read-only once made, so
 * threads share it.  Lengths with large prime factors go through Bluestein's
 * convolution.  Dtypes are complex64 and complex128. */
#ifndef CR_KERN_FFT_H
#define CR_KERN_FFT_H

#include "num/view.h"

typedef struct cr_fft_plan cr_fft_plan;

/* t is C64 or C128, n at least 1.  The caller drops *out.  CR_MEMORY. */
CR_MUST cr_status cr_fft_plan_new(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward);
void cr_fft_plan_drop(cr_fft_plan *p);

/* The same from a table of plans used lately; give it back with cr_fft_plan_release
 * (NULL is allowed). */
CR_MUST cr_status cr_fft_plan_get(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward);
void cr_fft_plan_release(cr_fft_plan *p);

/* Scratch bytes that cr_fft_lines needs for `lines` lines at a time. */
size_t cr_fft_scratch(const cr_fft_plan *p, int64_t lines);
/* Transforms `lines` lines side by side: element i of line k is data[i * step + k * next]
 * (complex elements), times `scale` afterwards. */
void cr_fft_lines(const cr_fft_plan *p, void *data, int64_t step, int64_t next, int64_t lines,
                  double scale, void *scratch);

#endif
