/* abi.h - what a compiled model says of itself.  The text is also a part of its C file. */
#ifndef CR_OBJECT_ABI_H
#define CR_OBJECT_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Version 2 has the member `libraries`; models that call no library are of version 1. */
#define CR_OBJECT_VERSION 2

/* Threads of the caller: run() calls part(argument, k) for each k below `parts`. */
typedef struct cr_object_threads {
    void *context;
    int parts;
    void (*run)(void *context, void (*part)(void *argument, int k), void *argument, int parts);
} cr_object_threads;

/* Dim d has size[3 * d] + size[3 * d + 1] * n + size[3 * d + 2] * n * n elements. */
typedef struct {
    const char *name, *dtype;
    int item_bytes, ndim;
    const int64_t *size;
} cr_object_array;

/* Functions of libraries, set before run() is called. */
typedef struct {
    /* c[m, n] = op(a) op(b) of float32, as dnnl_sgemm of oneDNN: ta and tb are 'N', or 'T'
     * where the matrix in memory is the transposed one; rows in memory are lda, ldb and ldc
     * elements apart.  Not 0 if it failed. */
    int (*sgemm)(char ta, char tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float *c, int64_t ldc);
} cr_object_libraries;

typedef struct {
    int64_t version;
    const char *symbol; /* the name of n, which is between `least` and `most`; NULL: none */
    int64_t least, most;
    int inputs, outputs, states;
    const cr_object_array *input, *output;
    const int64_t *state; /* bytes of each state */
    int64_t weights;      /* bytes of the weights */
    size_t (*work_bytes)(int64_t n, int parts);
    void (*start)(const void *weights, void *const *state); /* or NULL */
    int (*run)(int64_t n, const void *weights, void *const *input, void *const *state,
               void *const *output, void *work, const cr_object_threads *threads);
    cr_object_libraries *libraries; /* version 2: of the model, which calls them; or NULL */
} cr_object_model;

#endif
