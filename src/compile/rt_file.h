/* rt_file.h - plans as files for the runtime (include/cresset_rt.h, rt/format.h).
 *
 * Kernels become instructions on registers, whose values have eager's bits: operations are the
 * words of exported C files (c_text.h), and folds have order P. */
#ifndef CR_COMPILE_RT_FILE_H
#define CR_COMPILE_RT_FILE_H

#include "plan/plan.h"
#include "sym/session.h"

/* An input of the plan, or a result, whose `values` is NULL.  An input with values is a
 * constant in the file, or the first values of a state; one without is an argument of each
 * call. */
typedef struct {
    const char *name;
    int dtype, ndim;
    const int64_t *size;
    const void *values;
    bool state; /* the program may write it */
} cr_rt_input;

/* The bytes of a plan, in `out`.  CR_VALUE where the plan has what no instruction does. */
CR_MUST cr_status cr_rt_file(cr_session *s, cr_text *out, const cr_plan *p,
                             const cr_rt_input *input, int inputs, const char *const *results);

/* --- parts --- */

typedef CR_VEC(int64_t) cr_rt_words;

typedef struct {
    cr_session *s;
    const cr_plan *p;
    const cr_rt_input *input;
    int inputs;
    int64_t *offset;  /* of buffers in work memory; -1: an input */
    int64_t *space;   /* of inputs: the address of their first byte */
    bool *turned;     /* of inputs: columns of a matrix stand in the file as rows */
    int64_t *columns; /* of these: how many */
    int64_t bytes, copies, scratch; /* of buffers; of row-major copies; of scratch memory */
    cr_rt_words code;
    cr_text data;
} cr_rt_job;

enum { CR_RT_LANES = 64 };

/* The address of an array in the file. */
int64_t cr_rt_address(cr_rt_job *j, const char *address, bool written);
/* Scratch memory of `bytes`; returns its address. */
int64_t cr_rt_scratch(cr_rt_job *j, int64_t bytes);
/* The address of bytes that become a part of the data. */
int64_t cr_rt_data(cr_rt_job *j, const void *bytes, size_t n);
/* A command that is made of `n` words. */
void cr_rt_command(cr_rt_job *j, int kind, const cr_rt_words *w);
void cr_rt_push(cr_rt_job *j, cr_rt_words *w, int64_t value);

void cr_rt_kernel(cr_rt_job *j, const cr_launch *l);
/* A call of logcumsumexp(). */
void cr_rt_log_scan(cr_rt_job *j, const cr_library *c);

#endif
