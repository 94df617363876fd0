/* gemm_f32.h - float32 matrix products.
 *
 * A sum of products runs over k in blocks of 256: each block starts at zero and adds one
 * product at a time, in order; then blocks are added in order, and from 16,384 on in double
 * precision.  Results depend neither on threads nor, from nine rows and two columns on, on the
 * number of rows or on layouts; with AVX2 and AVX-512 each step is one fused multiply-add, and
 * they are equal there, too.  Where up to eight rows meet a transposed b, or one column meets a
 * whose rows have unit stride, elements are dot products, in the order of `dots` below.
 * (Other products below 2048 multiplications are not computed here.) */
#ifndef CR_KERN_GEMM_F32_H
#define CR_KERN_GEMM_F32_H

#include "base/isa.h"
#include "kern/cpu/product/matmul.h"

/* The product of `g`, whose dtype is CR_F32, with k > 0.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_gemm_f32(const cr_gemm *g);

/* Whether elements of c are dot products, which are fast for small sizes, too. */
bool cr_gemm_f32_is_dots(const cr_gemm *g);

/* Whether a copy of b by rows gives the same bits faster. */
bool cr_gemm_f32_copies_b(const cr_gemm *g);

/* Vectors have 16 numbers on every instruction set. */
enum { CR_F32_LANES = 16, CR_F32_ROWS = 8, CR_F32_WIDTH = 64, CR_F32_DOT_ROWS = 4 };

/* A matrix for sums, whose rows are `row` numbers apart.  Sums are added to its numbers if
 * `add` is set, and replace them otherwise.  Then the bias is added to each row. */
typedef struct {
    float *at;
    int64_t row;
    bool add;
    const float *bias; /* or NULL */
} cr_f32_sums;

/* The loops, compiled once for each instruction set (gemm_f32_loops.inc). */
typedef struct {
    int rows;                 /* of the largest tile of sums that registers hold */
    int (*vectors)(int rows); /* the vectors in a row of the largest tile with this many rows */
    /* For `rows` rows and 16 * vectors columns: sum over p < k of a[i * a_row + p * a_col] *
     * b[p * b_row + j], with p ascending. */
    void (*tile)(const cr_f32_sums *to, int rows, int vectors, const float *a, int64_t a_row,
                 int64_t a_col, const float *b, int64_t b_row, int64_t k);
    /* sums[j] += the same for one row of adjacent numbers and `n` columns. */
    void (*add_row)(float *sums, int64_t n, const float *a, const float *b, int64_t b_row,
                    int64_t k);
    /* sums[i * CR_F32_WIDTH + j] = a_i . b_j for at most CR_F32_DOT_ROWS rows, and vectors of k
     * >= 16 adjacent numbers at a + i * a_row and b + j * b_row.  Number p goes to lane p mod
     * 16, ascending. Where k is no multiple of 16, the last vector starts at k - 16, and its
     * new numbers go to the last lanes.  Lanes meet as (l, l + 8), (l, l + 4), (l, l + 2), (0,
     * 1). */
    void (*dots)(float *sums, int rows, int columns, const float *a, int64_t a_row,
                 const float *b, int64_t b_row, int64_t k);
} cr_f32_loops;

#define CR_ISA_ROW(name, flags, moves) extern const cr_f32_loops cr_f32_##name;
CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW

#endif
