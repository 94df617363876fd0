/* c_text.h - plans as one C99 file without allocations, globals and libraries but libm.
 *
 * The file has a function for each kernel, in which the loop program stands as loops over rows
 * and columns; helpers for the other commands; and one function that runs the plan on memory of
 * its caller.  Kernels have eager's bits: the words of the file are those of emit/vec*.h for
 * one lane, with each fused multiply-add spelled, and folds have order P (num/order.h). */
#ifndef CR_COMPILE_C_TEXT_H
#define CR_COMPILE_C_TEXT_H

#include "plan/plan.h"
#include "sym/session.h"

/* An input of the plan.  `values`: its elements stand in the file, or else they are an argument
 * `name` of the function.  A state is an argument whose first elements stand in the file. */
typedef struct {
    const char *name;
    int dtype;
    int64_t count;
    const void *values; /* or NULL */
    bool from_file;     /* it is read from the argument `weights` */
    bool state;         /* an argument that the function may write */
    int half; /* CR_F16 or CR_BF16: the file has the values, of a float32 input, in it; or 0 */
    /* Found by cr_c_file: if not 0, the file has the values as panels of so many of the
     * `columns` of a matrix, whose elements are `deep` apart along the rows and `wide` along
     * the columns. */
    int64_t panel, columns, depth, deep, wide;
} cr_c_input;

/* threads: the function takes threads of its caller, which share the commands.  object: it is
 * that of an AOT object, which has threads, products with fused multiply-adds where the
 * processor has them, and an argument for a size that varies.  varies: there is such a size.
 * libraries: products of float32 of an object call the library that loads it. */
typedef struct {
    const char *name;
    bool threads, object, varies, libraries;
} cr_c_how;

/* The file of a plan whose inputs are `input`, in order; the session has its working memory.
 * CR_VALUE where the plan has what C99 text cannot say. */
CR_MUST cr_status cr_c_file(cr_session *s, cr_text *out, const cr_plan *p, const cr_c_how *how,
                            cr_c_input *input, int inputs);
/* A plan of the same program at a size, and its inputs' sizes. */
typedef struct {
    const cr_plan *plan;
    int64_t n;
    const int64_t *const *size; /* of each input that has no values */
    const int *ndim;
} cr_c_probe;
/* What varies: its name and bounds; NULL: nothing, and there is one probe. */
typedef struct {
    const char *symbol;
    int64_t least, most;
} cr_c_range;
/* The file of an AOT object for all sizes in a range: that of each probe, in which numbers that
 * differ are polynomials of the size.  libraries: as of cr_c_how.  CR_VALUE where the files
 * differ in more than that. */
CR_MUST cr_status cr_c_object(cr_session *s, cr_text *out, const cr_c_probe *probe, int probes,
                              const cr_c_range *range, bool libraries, cr_c_input *input,
                              int inputs);
/* The bytes of an input in the file of weights, which are a multiple of 16. */
void cr_c_weight_bytes(cr_text *out, const cr_c_input *in);
int64_t cr_c_weight_span(const cr_c_input *in);
/* Elements in the file, with those that fill panels. */
int64_t cr_c_weight_count(const cr_c_input *in);

/* --- parts --- */

/* Words of the vocabulary that a file needs, by number. */
typedef struct {
    bool needed[256];
} cr_c_words;
/* Notes that the file uses a word, and those that it is made of.  False: there is no such
 * word. */
bool cr_c_need(cr_c_words *w, const char *name);
void cr_c_print_words(cr_text *out, const cr_c_words *w);

/* The type of an element in C; NULL for dtypes without one. */
const char *cr_c_type(cr_dtype t);
/* An element as a literal. */
void cr_c_literal(cr_text *out, cr_dtype t, const void *element);
/* A kernel in the file.  apart: its results share no memory with its other operands; outputs:
 * of its operands, the first ones; varies: it has a further argument, the size that varies;
 * columns: it folds columns; splits: its columns do not depend on each other, nor on their
 * numbers; whole: its rows depend on each other; fixed: it is for this number of columns, 0:
 * for any; columns_vary: it must be for any; blocks: it is for up to 512 rows, and folds some
 * columns at a time. */
typedef struct {
    const cr_launch *of;
    bool apart, varies, columns, splits, whole, columns_vary, blocks;
    int outputs;
    int64_t fixed;
} cr_c_printed;
/* The function of a kernel for the strides of a launch: static void symbol(unsigned char *const
 * *p, int64_t rows, int64_t columns, int64_t first, const unsigned char *q, void *scratch).
 * Finds outputs, columns, splits and fixed.  Scratch has max(rows, columns) elements. */
void cr_c_kernel(cr_session *s, cr_text *out, cr_c_words *w, cr_c_printed *k,
                 const char *symbol);

/* The number of results of a kernel whose columns depend neither on each other nor on their
 * numbers; 0: they do. */
int cr_c_line_outputs(cr_session *s, const cr_launch *l);

#endif
