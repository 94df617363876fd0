/* emit.h - nests as source text.
 *
 * A unit is one source file; kernels are appended to it.  A dialect defines the text of a
 * target (dialect.h); each is one file: c.c prints C with vector extensions over vec.h, cuda.c
 * CUDA C++. */
#ifndef CR_EMIT_EMIT_H
#define CR_EMIT_EMIT_H

#include "loop/nest.h"

/* CR_EMIT_OUTER: the dims outside a launch that a kernel in CUDA C++ may have. */
enum { CR_EMIT_OPERANDS = 32, CR_EMIT_OUTER = 6 };
/* The vectors of a thread of a pointwise kernel over several arrays; the largest argument of a
 * kernel that every CUDA device accepts. */
enum { CR_EMIT_LIST_STEPS = 4, CR_EMIT_CALL_BYTES = 4096 };

/* How a CUDA kernel is launched (kernel.cuh). */
typedef enum { CR_LAUNCH_POINTWISE, CR_LAUNCH_ROWS, CR_LAUNCH_COLUMNS } cr_launch_kind;
typedef struct {
    cr_launch_kind kind;
    int threads;                     /* threads of a chunk; of a column */
    int lanes;                       /* lanes of a vector */
    int row_lanes;                   /* CK_ROW_LANES; 0: CR_FOLD_LANES */
    int vector;                      /* bytes of a vector of the widest values */
    int operands, params, computed;  /* the arguments of its ck_call */
    uint32_t flexible;               /* bit k: operand k may be a number */
    uint8_t align[CR_EMIT_OPERANDS]; /* bytes of operand k's vectors, at most 16; 0: it has one
                                      * value a row */
    bool rows_fit;                   /* cr_dialect_cuda_rows prints the nest */
    bool tabled; /* pointwise: a half of one half and parameters, for which a table is faster */
    int factor;  /* with `tabled`: the half is multiplied by that of this operand; or 0 */
    int most;    /* arrays of its ck_list_call, or 0 */
} cr_emit_launch;

typedef struct {
    cr_text body;
    cr_emit_launch launch; /* of the last kernel; only in CUDA C++ */
    unsigned dtypes;       /* bit for each cr_dtype of a value */
    bool complex, special, random, mixed, scan;
    bool halves;                  /* some operand is stored as halves (half.cuh) */
    uint32_t chunks[CR_FN_COUNT]; /* by combining function: bit for each dtype whose definitions
                                   * the unit has */
    uint32_t scans[2][CR_FN_COUNT]; /* the same for scans: along lines, down rows */
} cr_unit;

/* Choices of a kernel that do not change its results. */
typedef struct {
    bool stream;    /* stores of values that are not read again bypass the cache */
    uint8_t unroll; /* vectors for each step of loops without reductions; 0: chosen by cost */
    uint8_t steps;  /* cuda_rows: the row has at most CR_FOLD_LANES * steps columns for each of
                     * the block's chunks; 0: CR_FOLD_CHUNK columns */
    uint8_t lanes;  /* cuda_rows with one step: the row has at most so many columns, a power of
                     * two; 0: CR_FOLD_LANES */
    bool whole;     /* cuda_rows: each chunk has CR_FOLD_LANES * steps columns or none, and all
                     * vectors are aligned */
    bool outer;     /* CUDA C++: the argument is a ck_outer_call */
    bool list;      /* CUDA C++ but for columns: it is a ck_list_call */
    bool exact;     /* CUDA C++: results are stored before they are rounded to halves */
    const uint8_t
        *stored; /* CUDA C++, or NULL: by operand, the dtype of its elements in memory,
                  * float16 or bfloat16 beside float32; 0: that of its values */
} cr_emit_choice;

typedef struct cr_dialect cr_dialect;
/* across: C for rows of at most CR_FOLD_LANES columns that are reduced; the lanes of a vector
 * are rows.  Operands with two dims, and those with a value for each row, have rows that are
 * adjacent in memory. */
extern const cr_dialect cr_dialect_c, cr_dialect_across, cr_dialect_cuda;
/* CUDA C++ for reductions of rows of at most CR_FOLD_ROW columns; registers hold elements. */
extern const cr_dialect cr_dialect_cuda_rows;
/* True when cr_dialect_cuda_rows prints the nest: it reduces rows, and no reduction keeps its
 * index. */
bool cr_nest_fits_registers(const cr_nest *n);
/* True when that dialect holds all kept values in registers, so that none is rounded to the
 * dtype of the result in whose place it is kept. */
bool cr_nest_keeps_in_registers(const cr_nest *n);
/* "c", "across", "cuda", "cuda_rows"; NULL if no dialect has the name. */
const cr_dialect *cr_dialect_named(const char *name);

/* Appends the nest as a function named `symbol`, after missing definitions.  `choice` may be
 * NULL.  Bails with CR_TYPE if the values of the nest need vectors of different lane widths. */
void cr_emit(cr_unit *u, const cr_dialect *d, const cr_nest *n, const char *symbol,
             const cr_emit_choice *choice);
/* The includes that the unit needs, for files compiled inside this project. */
void cr_emit_includes(cr_text *out, const cr_dialect *d, const cr_unit *u);
void cr_unit_drop(cr_unit *u);

#endif
