/* cresset_backend.h - a device that is written outside the library.
 *
 * A backend is a shared object with a function
 *
 *     const char *cresset_backend(void);
 *
 * which cr_backend_load() calls once.  It fills a cr_device_ops and registers it by
 * cr_backend_register(). It returns NULL on success, or the text of an error.  Afterwards the
 * device is torch's `privateuseone` under the registered name.
 *
 * The library never reads or writes device memory.  It passes addresses on and adds offsets to
 * them.  All other work is done through the table:
 *
 *   elementwise operators, reductions, compositions   kernels that the backend makes of C text
 *   groups of operators that compile() fuses          the same: one text and one launch a group
 *   views                                             nothing
 *   copies, conversions, fills                        `move`, `fill`, `copy_in`, `copy_out`
 *   operators written in C (sort, matmul, ...)        kernels registered by
 * cr_kernel_register(), or, where cr_backend_fallback() allows it, the host's
 *
 * A function of the table returns NULL on success, or a text that becomes a RuntimeError; the
 * text must live until the thread's next call.  Functions may be called from several threads.
 *
 * Order: the calls of one thread take effect in their order.  `copy_out` and `synchronize`
 * wait.  All other functions may return before their work is done, but may not access the host
 * memory of their arguments after they have returned. */
#ifndef CRESSET_BACKEND_H
#define CRESSET_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CR_BACKEND_API __attribute__((visibility("default")))

/* The version of this header. */
enum { CR_BACKEND_ABI = 7 };

/* An array with strides in elements, in memory of a device or of the host. dtype is a cr_dtype:
 * 0 bool, 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 float16, 7 bfloat16, 8 float32, 9
 * float64, 10 complex64, 11 complex128.  Since version 2 also 12 uint16, 13 uint32, 14 uint64,
 * 15 complex32, 16 float8_e4m3fn, 17 float8_e5m2, 18 float8_e4m3fnuz, 19 float8_e5m2fnuz, 20
 * float8_e8m0fnu, which `move` and `fill` get and kernels do not. */
typedef struct {
    char *data;
    int dtype, ndim;
    const int64_t *size, *stride;
} cr_array;

/* --- kernels --- */

/* The type of printed kernels.  Arguments: pointers to operands (results first); two strides in
 * bytes for each (from row to row, and within a row); {rows, columns, number of the first row};
 * scalar parameters in slots of 16 bytes. */
typedef void (*cr_kernel_function)(void *const *pointer, const int64_t *stride,
                                   const int64_t *size, const void *param);

/* The C text of one kernel. */
typedef struct cr_kernel_source cr_kernel_source;

/* Calls of a kernel for all indices of the outer dims, in any order. */
typedef struct {
    void *code; /* the result of `build` */
    int operands;
    void *const *pointer;  /* addresses on the device */
    uint64_t numbers;      /* bit k: pointer[k] is host memory, a number of at most 16 bytes */
    const int64_t *stride; /* 2 * operands */
    int64_t size[3];
    const void *param; /* host memory */
    size_t param_bytes;
    /* Since version 3: dims outside the rows, the slowest first.  Operand k's address moves by
     * outer_stride[k * outer + d] bytes along dim d; that of a number does not.  The number of
     * the first row grows by size[0] from one index to the next. */
    int outer;
    const int64_t *outer_size, *outer_stride;
} cr_launch;

/* --- commands on elements at computed places --- */

/* What happens at a place of the table. */
typedef enum {
    CR_COMBINE_SET, /* of several elements for one place, the last one remains */
    CR_COMBINE_ADD,
    CR_COMBINE_MUL,
    CR_COMBINE_MIN,
    CR_COMBINE_MAX,
    CR_COMBINE_DIVIDE, /* by int64 elements of `dense`; those below 2 change nothing */
    CR_COMBINE_READ,   /* the element of the table is copied to `dense` */
    CR_COMBINE_COUNT
} cr_combine;

/* Corresponding elements of an array `dense`, of a table and of an index, over dims with a
 * stride in elements for each.  An element's place in the table is `unit` bytes times its index
 * further. */
typedef struct {
    cr_combine how;
    int dtype, ndim; /* dtype: of dense and table */
    const int64_t *size, *dense_stride, *table_stride, *index_stride;
    char *dense; /* NULL: all elements are the one in `item` */
    char *table;
    const char *index;    /* NULL without an index */
    bool is32;            /* its elements are int32, or else int64 */
    bool wraps;           /* those below 0 count from the end */
    int64_t unit, extent; /* they are below `extent` */
    /* If not NULL, indices are the row-major numbers of the elements of this array, instead. */
    const cr_array *numbered;
    uint64_t picked; /* bit d: several positions along dim d may have one place */
    /* The error of an index out of range; \1 is the index's place in the text.  A reading
     * command may read anything of the table instead, a writing one writes nothing. */
    const char *outside;
    int outside_kind;
    cr_kernel_function kernel[2]; /* the host's: for indices of int64, and of int32 */
    _Alignas(16) char item[16];
} cr_indexed;

/* A part of a line along the last dim of a reading command, in elements: a copy, or a fill. */
typedef struct {
    int64_t at, n;        /* of `dense` */
    int64_t from, stride; /* of the table */
    bool fill;
} cr_move_part;

/* A dim of windows.  Place p of the result has the positions of the ranges
 * start[p] ... start[p + 1] - 1; a range has three numbers: its first position, the distance
 * to the next one, and how many there are. */
typedef struct {
    int64_t size, in; /* places; elements of the source */
    const int64_t *start, *range;
    const double *count, *share; /* factors of divisors by place and by element, or NULL */
} cr_window_axis;

/* Folds of windows.  An element of the result is the sum, or the extreme, of the source's
 * elements at all sums of a position of each dim, in row-major order.  Planes of the source and
 * of the result follow each other in row-major order. */
typedef struct {
    bool extreme;                 /* the maximum: the first one, or the last NaN; -1 in `which`
                                     without positions */
    cr_array result, which, from; /* which: int64 numbers of elements in their planes */
    int64_t planes, in, out;      /* in, out: elements of a plane */
    /* A sum is divided, or the source's elements are before they are added: by this number
     * times the factors of the dims. */
    bool divides, shares;
    int64_t divisor;
    cr_window_axis dim[3]; /* missing dims have one place and one position */
    const void *prepared;  /* the host's */
} cr_windows;

/* --- calls of operators --- */

typedef enum {
    CR_GIVEN_NONE,
    CR_GIVEN_ARRAY,
    CR_GIVEN_INT, /* integers, truths, dtypes */
    CR_GIVEN_FLOAT,
    CR_GIVEN_INTS,
    CR_GIVEN_FLOATS,
    CR_GIVEN_TEXT,
    CR_GIVEN_LIST,   /* of arrays */
    CR_GIVEN_OTHER,  /* a generator (`object`, a cr_generator, or NULL) */
    CR_GIVEN_COMPLEX /* since version 5; CR_GIVEN_OTHER before */
} cr_given_kind;

/* An argument of an operator, by its position in the schema. */
typedef struct cr_given {
    cr_given_kind kind;
    size_t count; /* INTS, FLOATS, TEXT, LIST */
    union {
        cr_array array;
        int64_t i;
        double d;
        double complex_number[2]; /* its real and its imaginary part */
        const int64_t *ints;
        const double *floats;
        const char *text;
        const struct cr_given *list;
        void *object;
    };
} cr_given;

/* A call of an operator that is written in C, such as "sort.stable": arguments are on the
 * device and in the compute type, results are made by the entry's rules.  An argument that the
 * operator writes is also a result. */
typedef struct {
    const char *entry;
    int args, results;
    const cr_given *arg;
    const cr_array *result;
} cr_library;

/* Any command, to be executed later (`submit`). */
typedef struct cr_command cr_command;

/* --- the table --- */

typedef struct {
    size_t total_memory; /* bytes */
    size_t alignment;    /* of the blocks of `get`; at least 64 */
    const char *name;    /* of the model */
} cr_device_limits;

typedef struct cr_device_ops {
    size_t bytes; /* sizeof(cr_device_ops) where the backend was compiled */

    /* Devices are numbered from 0; `current` is the calling thread's. */
    int (*count)(void);
    int (*current)(void);
    const char *(*set_current)(int index);
    const char *(*limits)(int index, cr_device_limits *out);

    /* A block of `size` > 0 undefined bytes; NULL when out of memory.  *block is passed to
     * `release` and must not be 0. `release` takes effect in order: earlier calls may still use
     * the block. */
    void *(*get)(int index, size_t size, uint32_t *block);
    void (*release)(int index, void *p, uint32_t block);

    /* Copies bytes from the host, to the host, and within a device; source and destination do
     * not overlap. */
    const char *(*copy_in)(int index, void *to, const void *host, size_t n);
    const char *(*copy_out)(int index, void *host, const void *from, size_t n);
    const char *(*copy)(int index, void *to, const void *from, size_t n);
    /* Copies elements of any strides and dtypes on one device: converts them like C casts and
     * broadcasts `from` to the sizes of `to`.  The arrays do not overlap. */
    const char *(*move)(int index, const cr_array *to, const cr_array *from);
    /* Sets all elements of `to` to the one at `element`, which is in host memory and has the
     * dtype of `to`. */
    const char *(*fill)(int index, const cr_array *to, const void *element);

    /* Builds a kernel from C text.  *code identifies it in launches; it is never freed. */
    const char *(*build)(int index, const cr_kernel_source *source, void **code);
    const char *(*launch)(int index, const cr_launch *l);

    /* Streams and events order work further.  NULL is the default stream. */
    const char *(*stream_new)(int index, void **stream);
    void (*stream_drop)(int index, void *stream);
    const char *(*set_stream)(int index, void *stream); /* of the calling thread */
    void *(*stream)(int index);
    const char *(*event_new)(int index, void **event);
    void (*event_drop)(int index, void *event);
    const char *(*event_record)(int index, void *event);      /* on the thread's stream */
    const char *(*event_wait)(int index, void *event);        /* the thread's stream waits */
    const char *(*event_synchronize)(int index, void *event); /* the caller waits */
    bool (*event_done)(int index, void *event);
    /* Waits for all earlier work and returns the first error of it. */
    const char *(*synchronize)(int index);

    /* Since version 3; each may be NULL.  Operators that select, scatter or pool elements are
     * such commands, and are computed on the host without them.  A function may return
     * cr_command_declines for a command that it does not take.  `combine` gets commands that
     * write the table, `indexed` those that read it.  The arrays of one command share no
     * memory.  Sums and products have order P (src/num/order.h). */
    const char *(*indexed)(int index, const cr_indexed *c);
    const char *(*combine)(int index, const cr_indexed *c);
    const char *(*windows)(int index, const cr_windows *c);
    /* Makes lines of parts; the element of fills is c->item.  Without the function, parts are
     * moved and filled one by one. */
    const char *(*lines)(int index, const cr_indexed *c, const cr_move_part *part, int parts);
    /* Gets calls for which no kernel is registered; it may return cr_command_declines. */
    const char *(*library)(int index, const cr_library *c);
    /* Since version 4; may be NULL: `launch` is called n times.  n launches of one kernel, in
     * any order; none reads or writes what another one writes. */
    const char *(*launch_list)(int index, const cr_launch *l, int n);

    /* Since version 6; each may be NULL, and instead of them other functions of the table.
     *
     * A device whose jobs run in order, as of one queue, and are counted from 1: the number of
     * the newest job; waits in the caller until job `number` is done; whether it is done.  Such
     * a device needs no function of streams and events: a stream is another name of the queue,
     * an event the number of a job.  Without `current` and `set_current` the library keeps the
     * thread's device. */
    uint64_t (*last)(int index);
    void (*wait)(int index, uint64_t number);
    bool (*done)(int index, uint64_t number);
    /* A device that executes host code, late: `submit` gets a copy of each command, which it
     * passes to cr_command_run after all commands before it, and owns it unless it returns an
     * error.  Addresses of elements are `distance` bytes further than the device's.  Of the
     * functions from `copy_in` to `windows` it needs those that do something else; a kernel's
     * code is its cr_kernel_function. */
    const char *(*submit)(int index, cr_command *c);
    ptrdiff_t (*distance)(int index);

    /* Since version 7; may be NULL: `move` is called n times.  n moves, in any order; none
     * reads or writes what another one writes. */
    const char *(*move_list)(int index, const cr_array *to, const cr_array *from, int n);
} cr_device_ops;

/* Calls below return NULL, or the error's text, which lives until the thread's next error. */

/* Registers a copy of the table under a name such as "npu", once a process.  Refuses another
 * `abi` than CR_BACKEND_ABI, and a table with missing functions. */
CR_BACKEND_API const char *cr_backend_register(int abi, const char *name,
                                               const cr_device_ops *table);
/* The registered table, in which functions that the library gives are set; or NULL. */
CR_BACKEND_API const cr_device_ops *cr_backend_table(void);
/* Allows operators without a kernel for the device to be computed on the host: arguments are
 * copied to the host and results to the device.  Off by default.  Each operator is logged once
 * (CR_LOG=backend). */
CR_BACKEND_API void cr_backend_fallback(bool on);
/* Loads a backend; for programs. */
CR_BACKEND_API const char *cr_backend_load(const char *path);

/* --- operators --- */

/* A kernel of an entry of the operator table that is written in C: arguments are on the device
 * and in the compute type, results are made by the entry's rules.  An argument that the
 * operator writes is also a result. */
typedef const char *(*cr_entry_kernel)(int index, const cr_given *arg, const cr_array *result);
/* The kind of all devices outside the library. */
CR_BACKEND_API extern const int cr_backend_kind;
/* Registers a kernel for an entry, such as "sort" or "sort.stable", and a kind of device.
 * Refuses entries that are not written in C, because they need no kernel. */
CR_BACKEND_API const char *cr_kernel_register(const char *entry, int kind,
                                              cr_entry_kernel kernel);

/* --- commands on devices that run host code --- */

/* The result of a function of the table that does not take a command. */
CR_BACKEND_API extern const char cr_command_declines[];
/* Executes a command of `submit`, whose elements the caller can access, and frees it. */
CR_BACKEND_API const char *cr_command_run(cr_command *c);
/* Its kind, as in the text of a plan: "KERNEL", "MOVE". */
CR_BACKEND_API const char *cr_command_name(const cr_command *c);
/* Executes the calls of a launch, whose elements the caller can access. */
CR_BACKEND_API void cr_launch_run(cr_kernel_function function, const cr_launch *l);
/* Bytes of an element. */
CR_BACKEND_API size_t cr_element_size(int dtype);

/* --- C text --- */

/* The kernel of an entry for a compute type, "add" in float32.  form: 0 elementwise, rows of a
 * composition, rows of a fold; 1 columns of a fold; 2 and 3 join results of 0 and 1. */
CR_BACKEND_API const char *cr_emit_entry(const cr_kernel_source **out, const char *entry,
                                         int dtype, int form);
/* The kernel of a group of operators, which is a program of the loop IR (docs/design/loop.md):
 *
 *     m[i<R] = maximum[j<C](x[i, j])
 *     y[i<R, j<C] = exp(x[i, j] - m[i])
 *
 * Results are the definitions that no later one reads.  Operands are the results in order, then
 * the arguments in the order in which the program names them. */
CR_BACKEND_API const char *cr_emit_group(const cr_kernel_source **out, const char *program);
CR_BACKEND_API void cr_kernel_source_drop(const cr_kernel_source *s);
/* What a kernel computes, as such a program, for devices that print their own text. */
CR_BACKEND_API const char *cr_kernel_program(const cr_kernel_source *s);
/* A file of C (GNU C11 with vector extensions) that defines one function of type
 * cr_kernel_function, its name, and compiler flags with which its results have the host's
 * bits. */
CR_BACKEND_API const char *cr_kernel_text(const cr_kernel_source *s);
CR_BACKEND_API const char *cr_kernel_symbol(const cr_kernel_source *s);
CR_BACKEND_API const char *cr_kernel_flags(void);
/* Compiles the text for this processor by the library's compiler, or loads it from its cache;
 * for devices that run host code. */
CR_BACKEND_API const char *cr_kernel_compile(cr_kernel_function *out,
                                             const cr_kernel_source *s);
/* Converts n elements as `move` must; both arrays are in memory that the caller can access.
 * Steps are in bytes. */
CR_BACKEND_API void cr_convert_elements(int to_dtype, void *to, int64_t to_step, int from_dtype,
                                        const void *from, int64_t from_step, int64_t n);

#ifdef __cplusplus
}
#endif

#endif
