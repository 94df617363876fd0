/* c_job.h - a C99 file that is being printed, inside the room: c_plan.c prints the commands of
 * a plan and c_products.c its calls of operators. */
#ifndef CR_COMPILE_C_JOB_H
#define CR_COMPILE_C_JOB_H

#include "compile/c_text.h"
#include "compile/products.h"

/* Commands order[at] to order[at + n]; more than one: they are a chain (c_chain.c). */
typedef struct {
    size_t at, n;
} cr_c_group;

/* The functions of compile/file that the text calls, which follow it.
 * Invariant: a bit, or a flag, is set when text that calls the function is printed, and is
 * never cleared: a file has every function that its text calls. */
typedef struct {
    uint32_t moves[16]; /* by dtype written: bit for each dtype read, of the helpers */
    uint32_t combines[CR_COMBINE_COUNT]; /* bits for dtypes, as the following */
    uint32_t adds, multiplies;           /* in the order of columns */
    uint32_t log_scans, products, batches, convolutions, spreads, weighs, resamples;
    bool maxima, greatest, averages, launches, calls_library;
} cr_c_needs;

/* The memory of a call: one block of the caller, and what each call computes in it. */
typedef struct {
    int64_t *offset; /* of buffers in the caller's memory; -1: an input */
    int64_t bytes;
    int64_t *widened; /* of inputs in halves, whose floats each call makes; 0: not needed */
    int half;         /* the dtype of inputs in halves, or 0 */
    bool half_reads;
    int64_t scratch, own; /* elements of 8 bytes: of a call, and of each of its threads */
    int64_t *uses;        /* by buffer: how many operands and results of the plan are in it */
    int *slot; /* by buffer: its number among those that only a chain uses; 0: it is none */
} cr_c_memory;

typedef struct {
    cr_session *s;
    const cr_plan *p;
    const cr_c_how *how;
    cr_c_input *input;
    int inputs;
    cr_text kernels, body, head;
    cr_c_words words;
    CR_VEC(cr_c_printed) kernel;
    cr_c_memory memory;
    cr_c_needs needs;
    CR_VEC(size_t) order; /* numbers of commands, as the file computes them */
    CR_VEC(cr_c_group) group;
} cr_c_job;

/* The address of an array in `body`: a pointer to unsigned char. */
void cr_c_address(cr_c_job *j, const char *address, bool written);
/* static const int64_t name[] = {...}; in `body`. */
void cr_c_integers(cr_text *out, const char *name, const int64_t *at, int64_t n,
                   int64_t factor);
/* Copies an array to scratch memory, from its element `at` on, in row-major order. */
void cr_c_dense(cr_c_job *j, const cr_array *a, int64_t at);
/* Scratch memory has at least so many elements of 8 bytes; that of a thread, if threads share
 * the call. */
void cr_c_scratch(cr_c_job *j, int64_t elements);
void cr_c_own_scratch(cr_c_job *j, int64_t elements);
/* The number among the inputs of a buffer that is one. */
int cr_c_input_number(const cr_c_job *j, size_t buffer);
/* The input in halves that an address is in; NULL: it is in none. */
const cr_c_input *cr_c_half(const cr_c_job *j, const char *address);
/* A pointer to the half at an address, in `body`. */
void cr_c_half_pointer(cr_c_job *j, const char *address);

/* Adds a text; %1$s is replaced by the first text of `with`, %2$s by the second, and so on. */
void cr_c_fill_in(cr_text *out, const char *text, const char *const *with);

/* Buffers are aligned to so many bytes in the caller's memory. */
enum { CR_C_ALIGNMENT = 64 };
/* Prints the commands; `offset` of the job is known. */
void cr_c_print_commands(cr_c_job *j);
/* Prints the file around the commands. */
void cr_c_print_file(cr_c_job *j, cr_text *out);
void cr_c_job_drop(cr_c_job *j);

/* Parts of a command in `body`: bytes, numbers among the operands of a launch, and the name of
 * the function that moves elements. */
void cr_c_bytes(cr_text *out, const char *name, const void *bytes, size_t n);
void cr_c_numbers(cr_c_job *j, const cr_launch *l);
void cr_c_move_name(cr_c_job *j, int to, int from);
/* The number of the function of a launch's kernel. */
size_t cr_c_kernel_number(cr_c_job *j, const cr_launch *l);

/* --- c_chain.c --- */

/* Finds the order of the commands, and chains among them. */
void cr_c_order(cr_c_job *j);
/* Finds `uses`. */
void cr_c_count_uses(cr_c_job *j);
/* Finds buffers that only one chain uses; they have memory for a part of their elements. */
void cr_c_own_buffers(cr_c_job *j);
/* Prints a chain. */
void cr_c_chain(cr_c_job *j, const cr_c_group *g);

/* --- c_object.c --- */

/* Types at the head of an AOT object's file. */
extern const char cr_c_object_types[];

/* --- c_places.c --- */

/* Prints a command on elements at computed places, and the functions that it needs. */
void cr_c_indexed(cr_c_job *j, const cr_indexed *c);
void cr_c_print_places(const cr_c_job *j, cr_text *out);

/* --- c_products.c --- */

/* Which weights stand in the file as panels: those that only products or convolutions of one
 * form read. */
void cr_c_pack_weights(cr_c_job *j);
void cr_c_library(cr_c_job *j, const cr_library *c);
/* Elements of 8 bytes of a panel: 48 kB, of CV_DEPTH rows of a tile's columns. */
enum { CR_C_PANEL = 6144 };
/* Prints the struct of a convolution; packed: how many results a panel of the weight has. */
void cr_c_geometry(cr_c_job *j, const cr_convolution *c, int64_t packed);
/* Elements of the padded image of a group that a convolution with these numbers copies. */
int64_t cr_c_image(const int64_t *number);
/* Pointers of the dtype to an array; or to a row-major copy of it, which cr_c_dense made in
 * scratch memory at `at` if it is not row-major. */
void cr_c_pointer(cr_c_job *j, const char *address, int dtype, bool written);
void cr_c_dense_pointer(cr_c_job *j, const cr_array *a, int64_t at);
/* A text of float32; for float64, with double for float and f64 for f32. */
void cr_c_typed(cr_text *out, const char *text, int dtype);
/* The functions that the printed calls need. */
void cr_c_print_products(const cr_c_job *j, cr_text *out);

/* --- c_planes.c --- */

/* Transposed convolutions, gradients of convolutions, and resampling.  False: the call is
 * another one. */
bool cr_c_planes(cr_c_job *j, const cr_library *c);
void cr_c_print_planes(const cr_c_job *j, cr_text *out);

#endif
