/* abi.h - what a compiled model says of itself.  The text is also a part of its C file. */
#ifndef CR_OBJECT_ABI_H
#define CR_OBJECT_ABI_H

#include <stddef.h>
#include <stdint.h>

#define CR_OBJECT_VERSION 1

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
} cr_object_model;

#endif
