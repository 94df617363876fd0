/* cudnn.h - cuDNN's functions and handles, the key of a convolution, and its engine.
 *
 * An engine is a plan of cuDNN's graph interface: the library prepares all that a call needs
 * when the plan is made.  Its older functions prepare it at each call, which takes the host
 * longer than a small convolution takes the device. */
#ifndef CR_KERN_CUDA_CUDNN_H
#define CR_KERN_CUDA_CUDNN_H

#include "cresset_backend.h"

typedef struct {
#define CR_CUDNN_CALL(type, name, symbol, arguments) type(*name) arguments;
#include "kern/cuda/cudnn.def"
#undef CR_CUDNN_CALL
} cr_cudnn;

/* Filled by the first call of cr_cudnn_is_there that returns true. */
extern cr_cudnn cr_cudnn_table;
bool cr_cudnn_is_there(void);
/* A call holds the lock while it uses the handle of a device, or plans. */
void cr_cudnn_lock(void);
void cr_cudnn_unlock(void);
/* NULL if the library makes none. */
void *cr_cudnn_handle(int index);
/* The handle's work is queued on the device's current stream; returns the library's status. */
int cr_cudnn_set_stream(int index);

/* Two or three dims of an image, after the batch and the channels. */
enum { CONV_DIMS = 3, CONV_ALL = CONV_DIMS + 2 };

/* A convolution computes its output, or the gradient of its input or of its weight. */
typedef enum { CONV_OUTPUT, CONV_INPUT, CONV_WEIGHT, CONV_WAYS } conv_way;

/* A call: the arrays in their roles. */
typedef struct {
    cr_array x, w, y, bias;
    bool biased;
    const cr_given *step; /* stride, padding, dilation */
    int64_t groups;
    conv_way way;
} conv_call;

/* Numbers of one of the lists of `step`, for the last `real` of `dims` dims; those before get
 * `fill`.  One number is that of all dims.  False for numbers that do not fit. */
bool cr_conv_steps(int32_t *out, const cr_given *g, int real, int dims, int64_t fill);

/* A convolution of integers, of complex numbers, or of sizes for which the library has no
 * algorithm (convolve.c). */
const char *cr_conv_direct(int index, const conv_call *c);

/* The arrays are x (input), w (weight) and y (output), all in one layout: row-major, or with
 * the channels last.  int32_t, because the library has ints and a key is compared by its
 * bytes. */
typedef struct {
    int32_t index, way, dtype, dims, groups;
    int32_t last;    /* the channels have unit stride */
    int32_t tf32;    /* operands of float32 may be rounded to TF32 */
    int32_t aligned; /* all addresses are multiples of CONV_ALIGN */
    int32_t x[CONV_ALL], w[CONV_ALL], y[CONV_ALL];
    int32_t stride[CONV_DIMS], pad[CONV_DIMS], dilation[CONV_DIMS];
} conv_key;

enum { CONV_ALIGN = 16 };

/* The library's dtype, and the dtype of alpha, beta and sums. */
bool cr_conv_type(int dtype, int *type, int *compute);
/* The dim at a place of the layout of n dims, from the innermost. */
int cr_conv_dim(int place, int n, bool last);

/* Objects of the library that a plan is made of. */
enum { CUDNN_OBJECTS = 120, CUDNN_INNER = 1000 /* the numbers of inner arrays begin here */ };

typedef struct {
    void *plan;
    size_t room; /* bytes that a call needs */
    void *object[CUDNN_OBJECTS];
    int count;
} cudnn_engine;

/* Makes the first engine that the library proposes, that is allowed and that needs at most
 * `most` bytes in a call: its results do not change from call to call, it does not round its
 * operands, and float32 is not rounded to TF32 unless the key says so.  engine->plan is NULL if
 * there is none. */
void cr_conv_engine_find(cudnn_engine *engine, void *handle, const conv_key *k, size_t most);
/* Queues the work on the handle's stream; returns the library's status. */
int cr_conv_engine_run(const cudnn_engine *engine, void *handle, void *x, void *w, void *y,
                       void *room);

#endif
