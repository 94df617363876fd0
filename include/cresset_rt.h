/* cresset_rt.h - runs programs that cresset.export.to_rt wrote.
 *
 * The runtime is C99 and calls only memcpy, memset, memcmp and functions of libm.  It
 * allocates no memory and has no global variables: a cr_rt and all memory belong to the
 * caller.  Calls with different work memory, states and results may run at the same time. */
#ifndef CRESSET_RT_H
#define CRESSET_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    CR_RT_OK,
    CR_RT_FORMAT,    /* these bytes are no program, of a known version, for this byte order */
    CR_RT_SUM,       /* bytes are missing, or have changed since the program was written */
    CR_RT_INVALID,   /* a command does not agree with itself, or would leave its memory */
    CR_RT_MISSING,   /* this build of the library lacks an operator of the program */
    CR_RT_ALIGNMENT, /* memory is NULL, or its alignment is too small */
    CR_RT_INDEX      /* an index of an element is out of range; results are incomplete */
} cr_rt_status;

/* A status in words. */
const char *cr_rt_text(cr_rt_status status);

/* A program that has been checked.  The members belong to the library. */
typedef struct {
    const int64_t *word;
    int64_t words, operations;
} cr_rt;

/* Checks the bytes of a program, which must be aligned to 16 and stay unchanged while *out is
 * used; *out needs no release.  Afterwards no call accesses other memory than that of the
 * program, of the arrays and of the work memory.  The time is linear in the number of bytes. */
cr_rt_status cr_rt_open(cr_rt *out, const void *bytes, size_t n);

/* Work memory of a call in bytes; it is aligned to 16. */
size_t cr_rt_work_bytes(const cr_rt *m);
/* How many elements the commands of a call compute and move, and products add; at most
 * INT64_MAX.  It bounds the time of a call for callers that do not trust the program. */
int64_t cr_rt_operations(const cr_rt *m);

typedef enum {
    CR_RT_INPUT,
    CR_RT_STATE, /* read and written: it stays from call to call */
    CR_RT_RESULT
} cr_rt_kind;

typedef enum {
    CR_RT_BOOL = 0, /* a byte, 0 or 1 */
    CR_RT_U8 = 1,
    CR_RT_I8 = 2,
    CR_RT_I16 = 3,
    CR_RT_I32 = 4,
    CR_RT_I64 = 5,
    CR_RT_F32 = 8,
    CR_RT_F64 = 9
} cr_rt_dtype;

/* An argument of a call: a row-major array.  `name` and `size` are a part of the program. */
typedef struct {
    const char *name;
    cr_rt_kind kind;
    cr_rt_dtype dtype;
    int ndim;
    const int64_t *size;
    size_t bytes;
} cr_rt_array;

/* How many arrays a call takes: inputs, then states, then results. */
int cr_rt_count(const cr_rt *m);
/* Array k, which is below cr_rt_count(m). */
cr_rt_array cr_rt_at(const cr_rt *m, int k);
/* The number of the array with this name; -1 if there is none. */
int cr_rt_find(const cr_rt *m, const char *name);

/* Fills the states that have first values in the program.  array[k] is memory for array k,
 * aligned to its elements; those of inputs and results may be NULL. */
cr_rt_status cr_rt_start(const cr_rt *m, void *const *array);
/* Computes results and next states.  Inputs are only read.  No array may overlap another one.
 * CR_RT_ALIGNMENT before anything is written, or CR_RT_INDEX. */
cr_rt_status cr_rt_run(const cr_rt *m, void *const *array, void *work);

/* Maps a file for reading: cr_rt_open follows.  NULL where that fails.  The caller ends the
 * mapping by munmap.  POSIX only. */
const void *cr_rt_map(const char *path, size_t *n);

#ifdef __cplusplus
}
#endif

#endif
