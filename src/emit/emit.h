/* emit.h - nests as source text.
 *
 * A unit is one source file; kernels are appended to it.  A dialect says what the text of a
 * target looks like (dialect.h), one dialect a file: c.c prints C with vector extensions over
 * vec.h, cuda.c CUDA C++. */
#ifndef CR_EMIT_EMIT_H
#define CR_EMIT_EMIT_H

#include "loop/nest.h"

typedef struct {
    cr_text body;
    unsigned dtypes; /* bit per cr_dtype that some value has */
    bool complex, special, random;
    uint32_t chunks[CR_FN_COUNT]; /* by combining function: bit per dtype, its definitions
                                     are there */
} cr_unit;

/* What may be chosen of a kernel; no bit of its results depends on it. */
typedef struct {
    bool stream;    /* what is written and not read again goes past the cache */
    uint8_t unroll; /* vectors a step of loops that reduce nothing; 0: as their costs say */
} cr_emit_choice;

typedef struct cr_dialect cr_dialect;
extern const cr_dialect cr_dialect_c, cr_dialect_cuda;
/* "c", "cuda"; NULL when no dialect has the name. */
const cr_dialect *cr_dialect_named(const char *name);

/* Appends the nest as a function of that name, after definitions that the unit lacks.  `choice`
 * may be NULL.  Bails with CR_TYPE when the values of the nest need vectors of different lane
 * widths. */
void cr_emit(cr_unit *u, const cr_dialect *d, const cr_nest *n, const char *symbol,
             const cr_emit_choice *choice);
/* The includes that the unit needs, for files compiled inside this project. */
void cr_emit_includes(cr_text *out, const cr_dialect *d, const cr_unit *u);
void cr_unit_drop(cr_unit *u);

#endif
