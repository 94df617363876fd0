/* fft_plan.h - a plan's contents, and the loops over lines, compiled once for each instruction
 * set.
 *
 * The loops round each product and each sum, so the bits are the same for all of them. */
#ifndef CR_KERN_FFT_PLAN_H
#define CR_KERN_FFT_PLAN_H

#include "base/isa.h"
#include "kern/cpu/fft/fft.h"

enum { MOST_PASSES = 64, GREATEST_RADIX = 31 };

/* How a line of n elements is transformed.
 * Invariant: one of three holds: n is the product of the radices; or rows and columns are
 * set; or inner is set, for a length with a large factor. half is set for real lines of even
 * length alone. */
struct cr_fft_plan {
    int count; /* references to a cached plan, guarded by the cache's lock */
    cr_dtype t;
    int64_t n;
    bool forward, real;
    int64_t take,
        give; /* the first elements that are not zero, and the first results that are needed */
    /* passes */
    int passes;
    int64_t radix[MOST_PASSES];
    void *twiddle[MOST_PASSES]; /* [rest, radix - 1] complex */
    void *roots[MOST_PASSES];   /* radix-th roots of one, for radices above 5 */
    /* A line as a matrix of n = rows->n * columns->n elements; a column has rows->n of them. */
    cr_fft_plan *rows, *columns;
    void *cross; /* [n] complex, by place in the matrix */
    /* Bluestein: a forward plan of a length with small factors */
    cr_fft_plan *inner;
    void *chirp, *filter; /* [n] and [inner->n] complex; the filter is conjugated */
    /* A real line of even length as a complex one of half the length */
    cr_fft_plan *half;
    void *turn; /* [half->n + 1] complex */
};

/* Where elements of lines are.  Element i of line k has the number first + i * along + k *
 * across; elements from `end` on are zeros, and are not stored. */
typedef struct {
    void *data; /* element e is data[e * step] */
    int64_t step, first, along, across, end;
    const void *factor; /* complex, by number; or NULL */
} cr_fft_side;

typedef struct {
    /* Transforms lines by the plan's passes, and multiplies results by `scale`.  With
     * `conjugate`, results are conjugated before they are multiplied by factors.  `scratch` has
     * 4 * n * lines real numbers. */
    void (*lines)(const cr_fft_plan *p, const cr_fft_side *from, const cr_fft_side *to,
                  int64_t lines, bool conjugate, double scale, void *scratch);
    /* The same by Bluestein, where the inner plan has passes. */
    void (*bluestein)(const cr_fft_plan *p, const cr_fft_side *from, const cr_fft_side *to,
                      int64_t lines, double scale, void *scratch);
} cr_fft_loops;

/* For complex64 and complex128. */
#define CR_ISA_ROW(name, flags, moves) extern const cr_fft_loops cr_fft_loops_##name[2];
CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW

#endif
