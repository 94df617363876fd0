/* fft.h - discrete Fourier transforms of any length.
 *
 * A plan has the factors and twiddles of one length, which threads share.  Lengths with large
 * prime factors use Bluestein's convolution.  Dtypes are complex64 and complex128. */
#ifndef CR_KERN_FFT_H
#define CR_KERN_FFT_H

#include "num/view.h"

typedef struct cr_fft_plan cr_fft_plan;

/* t is C64 or C128, n is at least 1.  The caller drops *out.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_fft_plan_new(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward);
void cr_fft_plan_drop(cr_fft_plan *p);

/* The same from a cache of recently used plans.  The caller drops its reference with
 * cr_fft_plan_release (NULL is allowed). */
CR_MUST cr_status cr_fft_plan_get(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward);
void cr_fft_plan_release(cr_fft_plan *p);

/* The same for one real line: a forward plan gives the first n / 2 + 1 results, and a backward
 * plan takes as many elements of a symmetric spectrum. */
CR_MUST cr_status cr_fft_real_get(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward);
/* The plan of n / 2 complex elements that a real plan of even length n uses, and its n / 2 + 1
 * factors exp(-+2 pi i k / n); or NULL.  Borrowed from p. */
cr_fft_plan *cr_fft_half(const cr_fft_plan *p, const void **turn);

/* True when threads share each line. */
bool cr_fft_long(const cr_fft_plan *p);
/* The scratch bytes of cr_fft_lines for `lines` lines. */
size_t cr_fft_scratch(const cr_fft_plan *p, int64_t lines);
/* Transforms `lines` lines together and multiplies the results by `scale`.  Element i of line k
 * is data[i * step + k * next]; steps count complex elements.  A real plan transforms one line
 * with step 1, and does not read elements from n / 2 + 1 on (backward) or does not give them
 * (forward).  Fails with CR_MEMORY. */
CR_MUST cr_status cr_fft_lines(const cr_fft_plan *p, void *data, int64_t step, int64_t next,
                               int64_t lines, double scale, void *scratch);

#endif
