/* rows.h - loops over rows of attention's scores.
 *
 * A sum has 16 lanes: number j goes to lane j mod 16, ascending; lanes meet as (l, l + 8), (l,
 * l
 * + 4), (l, l + 2), (0, 1).  So the bits are the same for AVX2 and AVX-512. */
#ifndef CR_KERN_ATTENTION_ROWS_H
#define CR_KERN_ATTENTION_ROWS_H

#include "base/isa.h"
#include <stdbool.h>
#include <stdint.h>

enum { CR_ROW_LANES = 16 };

/* The loops, compiled once for each instruction set (rows.inc).  Rows have room for `width`
 * numbers, a multiple of CR_ROW_LANES; numbers from n on are hidden, and become zeros. */
typedef struct {
    /* x[j] becomes exp(x[j] * factor - greatest), where *greatest is that of all products, or 0
     * if that is minus infinity; *sum is the sum of the results. */
    void (*soften)(float *x, int64_t n, int64_t width, float factor, float *greatest,
                   float *sum);
    /* x[j] becomes p = exp(x[j] * factor - log), and d[j] becomes p * (d[j] - delta) *
     * scale. */
    void (*slope)(float *x, float *d, int64_t n, int64_t width, float factor, float log,
                  float delta, float scale);
    /* x[j] becomes x[j] * factor + mask[j * step], or, with a mask of truth values, minus
     * infinity where it is false. */
    void (*mask)(float *x, int64_t n, float factor, const void *mask, int64_t step, bool truth);
    /* log[i] = greatest[i] + the logarithm of sum[i]; sum[i] becomes its inverse, but of 0 it
     * becomes 0. */
    void (*finish)(float *log, const float *greatest, float *sum, int64_t n);
    /* to[j] = from[j] * factor */
    void (*scale)(float *to, const float *from, int64_t n, float factor);
    /* The sum of a[j] * b[j]. */
    float (*dot)(const float *a, const float *b, int64_t n);
} cr_row_loops;

#define CR_ISA_ROW(name, flags, moves) extern const cr_row_loops cr_rows_##name;
CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW

#endif
