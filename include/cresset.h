/* cresset.h - tensors, operators and automatic differentiation for C and C++ programs.
 *
 *     cr_tensor *x = NULL, *y = NULL;
 *     int64_t size[] = {2, 3};
 *
 *     if (cr_init() || cr_randn(&x, size, 2, NULL, CR_DTYPE_NONE) || cr_exp(&y, x))
 *         fprintf(stderr, "%s\n", cr_error_message());
 *     cr_drop(y);
 *     cr_drop(x);
 *
 * Compile and link with `pkg-config --cflags --libs cresset`.
 *
 * Functions that can fail return a cr_status, zero on success, and leave their results as
 * they were on failure.  Arguments are borrowed.  Results are owned by the caller, who
 * gives tensors back with cr_drop.  Dropping NULL is fine.  Functions may be called from
 * any thread; a tensor must not be changed by one thread while another uses it. */
#ifndef CRESSET_H
#define CRESSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's own sources declare these types in their rooms.  tests/c/facts.h checks that
 * both declarations agree. */
#ifndef CR_INSIDE

#define CR_API  __attribute__((visibility("default")))
#define CR_MUST __attribute__((warn_unused_result))

/* Kinds of errors: CR_RUNTIME, CR_VALUE, CR_TYPE, CR_INDEX, CR_MEMORY, ... */
typedef enum {
    CR_OK = 0,
#define CR_KIND(name, pyclass) CR_##name,
#include "cresset/kinds.def"
#undef CR_KIND
    CR_KIND_COUNT
} cr_status;

/* Types of elements: CR_BOOL, CR_U8, CR_I8, CR_I16, CR_I32, CR_I64, CR_F16, CR_BF16, CR_F32,
 * CR_F64, CR_C64, CR_C128.  For storage, conversion and a few operators, as in torch: CR_U16,
 * CR_U32, CR_U64, CR_C32 (a pair of float16), CR_E4M3FN, CR_E5M2, CR_E4M3FNUZ, CR_E5M2FNUZ,
 * CR_E8M0FNU. */
typedef enum {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias) CR_##NAME,
#include "cresset/dtype.def"
#undef CR_DTYPE
    CR_DTYPE_COUNT,
    CR_DTYPE_NONE = 0xff /* the operator chooses */
} cr_dtype;

/* Devices.  CR_META tensors have sizes and no elements. */
typedef enum {
#define CR_DEVICE_KIND(NAME, name) CR_##NAME,
#include "cresset/device.def"
#undef CR_DEVICE_KIND
    CR_DEVICE_COUNT
} cr_device_kind;

typedef struct {
    double re, im;
} cr_complex;

/* A number and its category, which takes part in type promotion. */
typedef enum { CR_CAT_BOOL, CR_CAT_INT, CR_CAT_FLOAT, CR_CAT_COMPLEX } cr_category;
typedef struct {
    cr_category category;
    bool large; /* INT: i has the bits of an uint64 above INT64_MAX */
    union {
        int64_t i; /* BOOL, INT */
        double d;  /* FLOAT */
        cr_complex c;
    };
} cr_scalar;

static inline cr_scalar cr_scalar_int(int64_t i)
{
    cr_scalar s;
    s.category = CR_CAT_INT;
    s.large = false;
    s.i = i;
    return s;
}
static inline cr_scalar cr_scalar_float(double d)
{
    cr_scalar s;
    s.category = CR_CAT_FLOAT;
    s.large = false;
    s.d = d;
    return s;
}

typedef struct cr_tensor cr_tensor;
typedef struct cr_generator cr_generator;
typedef struct cr_safetensors cr_safetensors;

typedef struct {
    cr_tensor *const *roots;
    /* Cotangents of the roots.  A NULL entry means ones, for roots with one element. */
    cr_tensor *const *grads;
    int root_count;
    cr_tensor *const *inputs; /* NULL: adds to the gradients of the leaves */
    int input_count;
    bool accumulate_inputs; /* adds to the gradients of the inputs only */
    bool retain_graph;      /* keeps the graph for another backward */
    bool create_graph;      /* records the computation of the gradients */
    bool allow_unused;      /* no error when an input is unused */
} cr_backward_call;

/* Bytes held by tensors, bytes in the allocator's cache, and the peak of the former. */
typedef struct {
    int64_t used, cached, peak;
} cr_memory_stats;

/* The kind of an argument; see cresset_call.h. */
typedef enum {
    CR_ARG_END, /* after the last one */
    CR_ARG_NONE,
    CR_ARG_TENSOR,  /* t; NULL means None */
    CR_ARG_BOOL,    /* i */
    CR_ARG_INT,     /* i; also a cr_dtype where a dtype is expected */
    CR_ARG_FLOAT,   /* d */
    CR_ARG_COMPLEX, /* c */
    CR_ARG_STRING,  /* s; NULL means None */
    CR_ARG_INTS,    /* ints, len */
    CR_ARG_FLOATS,  /* floats, len */
    CR_ARG_TENSORS, /* tensors, len */
    CR_ARG_GENERATOR,
    CR_ARG_RESULT /* result: receives a further result of the operator */
} cr_arg_kind;

/* One argument; lists and strings are borrowed. */
typedef struct cr_arg {
    const char *name; /* of the parameter; NULL: given by position */
    cr_arg_kind kind;
    uint32_t len;
    union {
        cr_tensor *t;
        int64_t i;
        double d;
        cr_complex c;
        const char *s;
        const int64_t *ints;
        const double *floats;
        cr_tensor *const *tensors;
        cr_generator *generator;
        cr_tensor **result;
    };
} cr_arg;

/* A tensor of a safetensors file.  All pointers are borrowed from the file. */
typedef struct {
    const char *name;
    cr_dtype dtype;
    int ndim;
    const int64_t *size;
    uint64_t begin, end; /* bytes from the start of the data */
} cr_safetensors_entry;

#endif /* CR_INSIDE */

/* --- start --------------------------------------------------------------------- */

/* Initializes the library.  Call it before anything else; further calls do nothing. */
CR_API CR_MUST cr_status cr_init(void);

/* --- errors -------------------------------------------------------------------- */

/* The calling thread's last error: its message (borrowed until the next error) and its kind.
 * "" and CR_OK when there was none. */
CR_API const char *cr_error_message(void);
CR_API cr_status cr_error_kind(void);

/* --- tensors ------------------------------------------------------------------- */

/* Most tensors are made by operators: cr_zeros, cr_arange, cr_randn, ... in cresset_ops.h. */

/* Makes a tensor with a copy of the elements, which are in row-major order. */
CR_API CR_MUST cr_status cr_tensor_from(cr_tensor **out, cr_dtype dtype, int ndim,
                                        const int64_t *size, const void *elements);
/* Makes a tensor over the caller's elements, which are in row-major order.  `release(owner)` is
 * called once, when the last tensor over them is freed.  It is not called on failure.  It may
 * be NULL. */
CR_API CR_MUST cr_status cr_tensor_borrow(cr_tensor **out, cr_dtype dtype, int ndim,
                                          const int64_t *size, void *elements,
                                          void (*release)(void *owner), void *owner);

/* Adds an owner and returns t. */
CR_API cr_tensor *cr_hold(cr_tensor *t);
CR_API void cr_drop(cr_tensor *t);
/* Frees the array of a list result. */
CR_API void cr_free(void *p);

CR_API cr_dtype cr_tensor_dtype(const cr_tensor *t);
CR_API cr_device_kind cr_tensor_device(const cr_tensor *t);
CR_API int cr_tensor_ndim(const cr_tensor *t);
CR_API int64_t cr_tensor_numel(const cr_tensor *t);
/* ndim sizes; ndim strides, in elements.  Borrowed until the shape of t changes. */
CR_API const int64_t *cr_tensor_size(const cr_tensor *t);
CR_API const int64_t *cr_tensor_stride(const cr_tensor *t);
/* True when the elements are in row-major order without gaps. */
CR_API bool cr_tensor_is_contiguous(const cr_tensor *t);
/* The first element, borrowed; NULL for CR_META.  Writes through the pointer are not
 * recorded. */
CR_API void *cr_tensor_data(const cr_tensor *t);

/* The bytes of an element; a name such as "float32"; the dtype called "float32", "float" or
 * "f32" (CR_DTYPE_NONE when there is none). */
CR_API size_t cr_dtype_bytes(cr_dtype dtype);
CR_API const char *cr_dtype_text(cr_dtype dtype);
CR_API cr_dtype cr_dtype_find(const char *name);
/* The dtype of factories without a dtype argument. */
CR_API cr_dtype cr_default_dtype(void);
CR_API cr_status cr_set_default_dtype(cr_dtype t);

CR_API double cr_scalar_as_double(cr_scalar s);
CR_API int64_t cr_scalar_as_int(cr_scalar s);
CR_API cr_complex cr_scalar_as_complex(cr_scalar s);

/* The tensor as Python prints it.  Free *out with cr_free.  Fails with CR_NOT_IMPLEMENTED for a
 * sparse tensor. */
CR_API CR_MUST cr_status cr_tensor_text(char **out, cr_tensor *t);

/* --- gradients ----------------------------------------------------------------- */

/* A leaf that requires a gradient gets one from every backward that reaches it. */
CR_API CR_MUST cr_status cr_set_requires_grad(cr_tensor *t, bool on);
CR_API bool cr_tensor_requires_grad(const cr_tensor *t);
CR_API bool cr_is_leaf(cr_tensor *t);
/* Makes backward set the gradient of a tensor that is not a leaf. */
CR_API CR_MUST cr_status cr_retain_grad(cr_tensor *t);
/* The gradient, borrowed, or NULL. */
CR_API cr_tensor *cr_tensor_grad(const cr_tensor *t);
/* Sets the gradient and adds an owner to it; NULL clears it. */
CR_API CR_MUST cr_status cr_set_grad(cr_tensor *t, cr_tensor *grad);
/* Computes gradients from the roots.  With call->inputs, results[i] is the gradient of input i
 * (owned; NULL for an unused input). */
CR_API CR_MUST cr_status cr_backward(const cr_backward_call *call, cr_tensor **results);
/* Enables or disables recording in the calling thread.  Returns the earlier state. */
CR_API bool cr_set_grad_enabled(bool on);

/* --- random numbers -------------------------------------------------------------- */

/* A NULL generator means the default generator.  Its stream is that of
 * torch's CPU generator. */
CR_API CR_MUST cr_status cr_generator_new(cr_generator **out, uint64_t seed);
CR_API CR_MUST cr_status cr_generator_clone(cr_generator **out, cr_generator *from);
CR_API void cr_generator_drop(cr_generator *g);
CR_API cr_generator *cr_generator_default(void);
/* CR_RUNTIME while a CUDA graph captures draws of the generator, unless it has this seed. */
CR_API CR_MUST cr_status cr_generator_seed(cr_generator *g, uint64_t seed);
CR_API uint64_t cr_generator_initial_seed(cr_generator *g);
/* *seed (NULL: not wanted) is a random number of the system.  CR_RUNTIME while a CUDA graph
 * captures draws. */
CR_API CR_MUST cr_status cr_generator_reseed(cr_generator *g, uint64_t *seed);
enum { CR_GENERATOR_BYTES = 5056 };
CR_API void cr_generator_get_state(cr_generator *g, void *bytes);
CR_API CR_MUST cr_status cr_generator_set_state(cr_generator *g, const void *bytes,
                                                size_t size);

/* --- threads and memory ---------------------------------------------------------- */

/* The number of threads that one operator may use. */
CR_API int cr_threads(void);
CR_API cr_status cr_set_threads(int n);
CR_API void cr_cpu_memory_stats(cr_memory_stats *out);
/* Returns cached blocks to the system. */
CR_API void cr_cpu_memory_trim(void);

/* --- files ----------------------------------------------------------------------- */

/* Opens a file and checks it as a whole.  Its tensors share a private mapping of the file. */
CR_API CR_MUST cr_status cr_safetensors_open(cr_safetensors **out, const char *path);
/* Reads a file's contents from memory, which is copied. */
CR_API CR_MUST cr_status cr_safetensors_parse(cr_safetensors **out, const void *bytes,
                                              size_t len);
CR_API void cr_safetensors_drop(cr_safetensors *s);
CR_API int cr_safetensors_count(const cr_safetensors *s);
CR_API const cr_safetensors_entry *cr_safetensors_at(const cr_safetensors *s, int i);
/* The index of a tensor; -1 when the name is not in the file. */
CR_API int cr_safetensors_find(const cr_safetensors *s, const char *name);
/* Entry i of "__metadata__", in the file's order; false after the last entry. */
CR_API bool cr_safetensors_metadata(const cr_safetensors *s, int i, const char **key,
                                    const char **value);
CR_API CR_MUST cr_status cr_safetensors_tensor(cr_tensor **out, const cr_safetensors *s, int i);
/* Writes a file, which replaces an earlier file when it is complete.  `metadata` is pairs of
 * key and value, ended by NULL; or NULL. */
CR_API CR_MUST cr_status cr_safetensors_write(const char *path, const char *const *names,
                                              cr_tensor *const *tensors, int count,
                                              const char *const *metadata);
/* Writes 8 bits a channel.  Rows start at the top; channels are interleaved: 1 gray, 3 RGB, 4
 * RGBA. */
CR_API CR_MUST cr_status cr_png_write(const char *path, int64_t width, int64_t height,
                                      int channels, const uint8_t *pixels, int64_t row_bytes);

/* --- operators ------------------------------------------------------------------- */

#include "cresset_ops.h"

#ifdef __cplusplus
}
#endif

#endif
