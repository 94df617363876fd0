/* gemm_real.h - float32 and float64 matrix products.
 *
 * A sum of products runs over k in blocks of 256: each block starts at zero and adds one
 * product at a time, in order; then blocks are added in order, and from 16,384 on in double
 * precision.  Results depend neither on threads nor, from nine rows and two columns on, on the
 * number of rows or on layouts; with AVX2 and AVX-512 each step is one fused multiply-add, and
 * they are equal there, too.  Where up to eight rows meet a transposed b, or columns that fill
 * half a vector at most, and k is at least the rows times the numbers of a vector, or one
 * column meets a whose rows have unit stride, elements are dot products, in the order of `dots`
 * below. Threads divide a long sum where it is cut anyway. (Other products below 2048
 * multiplications are not computed here.) */
#ifndef CR_KERN_GEMM_REAL_H
#define CR_KERN_GEMM_REAL_H

#include "base/isa.h"
#include "kern/cpu/product/matmul.h"

/* The product of `g`, whose dtype is CR_F32 or CR_F64, with k > 0.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_gemm_f32(const cr_gemm *g);
CR_MUST cr_status cr_gemm_f64(const cr_gemm *g);

/* Whether elements of c are dot products of adjacent numbers, which are fast for small sizes,
 * too. */
bool cr_gemm_f32_is_dots(const cr_gemm *g);
bool cr_gemm_f64_is_dots(const cr_gemm *g);

/* A vector has 64 bytes on every instruction set: 16 or 8 numbers.  A strip has up to four
 * vectors. */
enum {
    CR_REAL_VECTORS = 4,
    CR_REAL_ROWS = 8, /* most rows of dot products */
    CR_REAL_DOT_ROWS = 4
};

/* The loops for one type, compiled once for each instruction set (gemm_real_loops.inc).
 *
 * cr_NAME_sums: a matrix for sums, whose rows are `row` numbers apart.  Sums are added to its
 * numbers if `add` is set, and replace them otherwise.  Then the bias, unless it is NULL, is
 * added to each row.
 *
 * rows        of the largest tile of sums that registers hold
 * vectors     in a row of the largest tile with this many rows
 * tile        for `rows` rows and this many vectors of columns: the sum over p < k of
 *             a[i * a_row + p * a_col] * b[p * b_row + j], with p ascending
 * add_row     sums[j] += the same for one row of adjacent numbers and `n` columns
 * dots        sums[i * W + j] = a_i . b_j, W being the numbers of four vectors, for at most
 *             CR_REAL_DOT_ROWS rows, and vectors of k adjacent numbers at a + i * a_row and b +
 *             j * b_row; k is at least the number L of a vector's lanes.  Number p goes to lane
 *             p mod L, ascending.  Where k is no multiple of L, the last vector starts at k -
 *             L, and its new numbers go to the last lanes.  Lanes meet as (l, l + L / 2), (l, l
 *             + L / 4), ..., (0, 1). */
#define CR_REAL_LOOPS(T, name)                                                                 \
    typedef struct {                                                                           \
        T *at;                                                                                 \
        int64_t row;                                                                           \
        bool add;                                                                              \
        const T *bias;                                                                         \
    } cr_##name##_sums;                                                                        \
    typedef struct {                                                                           \
        int rows;                                                                              \
        int (*vectors)(int rows);                                                              \
        void (*tile)(const cr_##name##_sums *to, int rows, int vectors, const T *a,            \
                     int64_t a_row, int64_t a_col, const T *b, int64_t b_row, int64_t k);      \
        void (*add_row)(T * sums, int64_t n, const T *a, const T *b, int64_t b_row,            \
                        int64_t k);                                                            \
        void (*dots)(T * sums, int rows, int columns, const T *a, int64_t a_row, const T *b,   \
                     int64_t b_row, int64_t k);                                                \
    } cr_##name##_loops;
CR_REAL_LOOPS(float, f32)
CR_REAL_LOOPS(double, f64)
#undef CR_REAL_LOOPS

#define CR_ISA_ROW(name, flags, moves)                                                         \
    extern const cr_f32_loops cr_f32_##name;                                                   \
    extern const cr_f64_loops cr_f64_##name;
CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW

#endif
