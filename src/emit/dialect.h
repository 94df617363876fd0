/* dialect.h - the interface between the walk over a nest and a target's text.
 *
 * walk.c visits a nest: it finds types and operands and declares each value once, at the start
 * of its scope.  The dialect prints the rest: heads of kernels, loops over rows and columns,
 * loads and stores, and accumulators of reductions. spell.c prints values as words of one
 * vocabulary (vec.h), so that a program has the same bits in every dialect; a target may define
 * the words differently.
 *
 * Names in the text: p<k> pointer to operand k's row, v<id> value, z<id> identity of a
 * reduction, a<id>[] its accumulators, s<id> its result, k<id> the index that it keeps, q<id>
 * an indexed load's row; rows, columns, row0, and r, the row at hand; at, the first column of
 * the vector at hand, and m, its lanes within the row. */
#ifndef CR_EMIT_DIALECT_H
#define CR_EMIT_DIALECT_H

#include "emit/emit.h"

/* The access to elements in a loop's body. */
typedef enum {
    CR_ACCESS_WHOLE, /* full vectors */
    CR_ACCESS_REST,  /* the first `m` lanes */
    CR_ACCESS_EITHER /* full vectors, or the first `m` lanes */
} cr_access;

/* The vectors of a kernel. */
typedef struct {
    cr_dtype lane; /* names the lane count: CV_LANES_<lane> */
    int width;     /* bits of a lane: masks are cv_m<width> */
    int vector;    /* bytes of a vector in CUDA C++ */
    bool mixed; /* lanes of 32 bits; values of 64 bits are two vectors, of 8 bits a lane each */
    bool complex; /* some value is complex */
    int part;     /* the current vector of a value of two vectors */
} cr_printer_lanes;

/* Where the text is: the sweep, and how operands are accessed in the loop at hand. */
typedef struct {
    const char *base; /* of the load at hand instead of p<k>, or NULL */
    bool phased;      /* bodies are those of phases of scans */
    bool from_first;  /* its first element is that of column `first` */
    int sweep, phase, indent;
    cr_access how;
    bool stepping; /* operands have steps d<k> in variables */
} cr_printer_place;

/* One kernel that is being printed.
 * Invariant: operand, computed and the bits of held and widened are by operand, below
 * `operands`. A value is in `hoisted` or in `inner`, not in both. lanes.width is that of
 * lanes.lane. */
typedef struct {
    const cr_dialect *dialect;
    cr_unit *u;
    cr_text *out;
    const cr_nest *n;
    cr_emit_choice choice;
    cr_session *s;
    cr_buffer *operand[CR_EMIT_OPERANDS];
    int operands;
    uint8_t computed[CR_EMIT_OPERANDS]; /* bit k: some load computes its index of dim k */
    cr_printer_place at;
    cr_printer_lanes lanes;
    cr_expr_set hoisted, inner; /* values declared outside, and inside the current body */
    uint32_t held;    /* bit k: registers h<k>[q] hold the row's elements of operand k */
    uint32_t widened; /* bit k: not as halves, if they are halves in memory */
    bool few;         /* rows: registers hold few elements of a thread */
    bool near;        /* exponents of the loop at hand are at least -87 */
    bool together; /* rows go through each sweep together, w<id>[r - from_row] keeps results */
    bool batched;  /* random words of four vectors are in q<id>[4] */
} cr_printer;

/* The target language of emitted code.
 * Invariant: members are constant and set, but for those whose comment says what NULL means. */
struct cr_dialect {
    /* --- files and functions --- */
    const char *name;         /* of crc's pass: "c" */
    const char *first_header; /* before the vocabulary, or NULL */
    const char *last_header;  /* after it */
    bool any_address;         /* vectors are loaded from any address */
    bool mixes;               /* values of 64 bits beside lanes of 32, as pairs of vectors */
    bool lanes_are_rows;      /* a vector has one column of several rows */
    int (*vector)(const cr_printer *p); /* bytes of a vector; NULL: the vocabulary's */
    /* Combines the operand and the column's number into the accumulators of a reduction that
     * keeps its index.  NULL: a sweep accumulates the value, and end_fold finds the index. */
    void (*keep_index)(cr_printer *p, const cr_expr *e);
    /* Prints missing definitions for the nest's reductions. */
    void (*define_folds)(cr_printer *p);
    /* The function's head, its opening brace included: declares stride, size, param, and ptr,
     * which has an address for each operand. */
    void (*open_kernel)(cr_printer *p, const char *symbol);
    void (*end_kernel)(cr_printer *p); /* before its closing brace */

    /* --- elements --- */
    /* An expression: the vector of columns at..at+lanes of the operand. */
    const char *(*load)(cr_printer *p, const cr_buffer *b);
    void (*store)(cr_printer *p, const cr_store *st);
    void (*store_row)(cr_printer *p, const cr_store *st); /* one value for each row */
    /* Another word than a call's or a reduction's function, with the same bits, or NULL. */
    const char *(*word)(const cr_printer *p, const cr_expr *e);

    /* --- loops --- */
    /* The head of a loop over groups of rows, of at most CK_ROWS_TOGETHER.  NULL: each row goes
     * through all sweeps before the next one begins. */
    void (*open_rows)(cr_printer *p);
    void (*open_row)(cr_printer *p); /* the head of the loop over r, and pointers */
    /* All columns of the only sweep of a pointwise program; flexible operands may have column
     * stride 0. */
    void (*pointwise)(cr_printer *p);
    void (*columns_loop)(cr_printer *p); /* all columns of a sweep without reductions */
    /* Columns from `from` to `end`, of a phase of scans; NULL: the target has no scans. */
    void (*some_columns)(cr_printer *p, const char *from, const char *end);

    /* --- reductions along rows --- */
    void (*begin_folds)(cr_printer *p, const cr_sweep *sweep); /* declares s<id> of each */
    void (*fold_row)(cr_printer *p, const cr_sweep *sweep);
    void (*end_fold)(cr_printer *p, const cr_expr *e); /* s<id> is the result */

    /* A nest of kind CR_NEST_COLUMNS. */
    void (*fold_columns)(cr_printer *p);
};

/* --- lines (spell.c) --- */

void cr_print_line(cr_printer *p, const char *fmt, ...) CR_PRINTF(2, 3);
void cr_print_open(cr_printer *p, const char *head); /* a block: "head {" */
void cr_print_shut(cr_printer *p);

/* True for x - max(x) (cuda.c). */
bool cr_expr_is_below_zero(const cr_expr *e);

/* --- words of the vocabulary (spell.c); texts live as long as the session --- */

const char *cr_spell_dtype(cr_dtype t);                       /* "f32" */
const char *cr_spell_vector(const cr_printer *p, cr_dtype t); /* "f32", "m32" of truths */
/* The vectors of a value: 1, or 2 for 64 bits beside lanes of 32. */
int cr_spell_parts(const cr_printer *p, cr_dtype t);
const char *cr_spell_name(cr_printer *p, const cr_expr *e); /* "v7", or "v7_1" of two parts */
/* The number of lanes of the vector at hand within the row: "m", or its rest. */
const char *cr_spell_rest(cr_printer *p, cr_dtype t);
/* "32", with letter "b" in cv_load<letter>, for the truths beside 32-bit lanes; "f32" and "" */
const char *cr_spell_memory(const cr_printer *p, cr_dtype t, const char **letter);
const char *cr_spell_set1(cr_printer *p, cr_dtype t, const char *scalar);
const char *cr_spell_value(cr_printer *p, const cr_expr *e);
/* The element at the start of an operand's row. */
const char *cr_spell_element(cr_printer *p, const cr_buffer *b);
/* The address of column `at` of an operand. */
const char *cr_spell_address(cr_printer *p, const cr_buffer *b);
/* An integer, or a value declared before the loop, for the given column. */
const char *cr_spell_scalar(cr_printer *p, const cr_expr *e, const char *column);
/* Seed, offset and element of random(). */
const char *cr_spell_random(cr_printer *p, const cr_expr *e, const char *column);
const char *cr_spell_fold(cr_printer *p, const cr_expr *e); /* "add_f32" */
const char *cr_spell_identity(cr_printer *p, const cr_expr *e);
const char *cr_spell_empty_sum(cr_printer *p, const cr_expr *e);
const char *cr_spell_combine(cr_printer *p, const cr_expr *e, const char *a, const char *b);
/* The function that combines a reduction's accumulators: "maximum" for `above`. */
const char *cr_spell_combiner(const cr_expr *e);
/* The value of a reduction without an order, whose result is `v`. */
const char *cr_spell_without_order(cr_printer *p, const cr_expr *e, const char *v);

int cr_operand_number(const cr_printer *p, const cr_buffer *b);
/* The dtype of an operand's elements in memory. */
cr_dtype cr_operand_stored(const cr_printer *p, const cr_buffer *b);
bool cr_expr_takes_scalars(const cr_expr *e); /* random() */
bool cr_expr_has_order(const cr_expr *e);     /* a reduction whose bits depend on the order */
bool cr_nest_keeps_index(const cr_nest *n);   /* some reduction keeps its index */

/* --- parts of the walk (walk.c) --- */

void cr_print_value(cr_printer *p, const cr_expr *e, const char *text); /* declares v<id> */
void cr_print_pointers(cr_printer *p, bool outputs_too); /* declares p<k> for row r */
/* Declares the values of a row that sweep p->sweep needs. */
void cr_print_sweep_values(cr_printer *p, const cr_sweep *sweep);
/* The body of a loop over columns: values, stores, and accumulators a<id>[index]. */
void cr_print_body(cr_printer *p, const char *index);
/* Declares a value of a column, if the current body has not declared it. */
void cr_print_column(cr_printer *p, const cr_expr *e);
/* Declares a value of a column, without the stores and accumulators of its sweep. */
void cr_print_column_value(cr_printer *p, const cr_expr *e);

/* --- scans (scan.c) --- */

void cr_define_scans(cr_printer *p);       /* the functions of the nest's scans */
void cr_print_scan_row(cr_printer *p);     /* a sweep with scans along the columns */
void cr_print_scan_columns(cr_printer *p); /* a nest with scans down the rows */
void cr_print_phase(cr_printer *p);
void cr_print_scanned(cr_printer *p, const cr_expr *e); /* declares v<id> */

/* --- loads at computed indices (indexed.c) --- */

/* Finds the computed dims of all operands.  Their byte strides are stride[2 * operands ...],
 * and their sizes size[3 ...], by operand and dim. */
void cr_find_computed(cr_printer *p);
int cr_computed_dims(const cr_printer *p); /* how many there are */
/* Declares v<id> of an indexed load, and before it, at a row's start, the address q<id>. */
void cr_print_indexed(cr_printer *p, const cr_expr *e);
void cr_print_indexed_row(cr_printer *p, const cr_expr *e);
/* True for a nest that only moves elements. */
bool cr_nest_is_move(const cr_nest *n);
/* Moves the elements of a row. */
void cr_print_move(cr_printer *p);

#endif
