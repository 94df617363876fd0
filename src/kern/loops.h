/* loops.h - loops over units of work whose text is compiled for processors and for devices.
 *
 * A file *_loops.inc defines functions of type cr_range_fn for one element type.  Their context
 * is a job: a struct without pointers to the host's memory, which a device gets by value.  Its
 * arrays are memory of the device that runs the loop.  The text is C and CUDA C++: no
 * designated initializers, CV_MAKE for compound literals, casts from void *. */
#ifndef CR_KERN_LOOPS_H
#define CR_KERN_LOOPS_H

#include "base/parallel.h"
#include "num/device.h"
#include "num/dtype.h"

#ifndef CV_MAKE
#define CV_MAKE(type, ...) ((type){__VA_ARGS__})
#endif
/* For k from 0 to n - 1, n at most `most`: a device unrolls it, so arrays are registers. */
#ifndef CL_FOR
#define CL_FOR(k, n, most) for (int64_t k = 0; k < (n); k++)
#endif

/* The texts, in the order of jit/vocabulary.h. */
typedef enum {
    CR_LOOPS_GRID,
    CR_LOOPS_ROI,
    CR_LOOPS_ROI_POOL,
    CR_LOOPS_DEFORM,
    CR_LOOPS_BOXES,
    CR_LOOPS_EACH,
    CR_LOOPS_SLOPES,
    CR_LOOPS_SCALE,
    CR_LOOPS_LINALG,
    CR_LOOPS_DRAWS,
    CR_LOOPS_CHOICES,
    CR_LOOPS_XOR,
    CR_LOOPS_CTC,
    CR_LOOPS_LDL,
    CR_LOOPS_COUNT
} cr_loops_text;

typedef struct {
    cr_loops_text text;
    const char *name; /* of the function without its type; it lasts as long as the program */
    cr_range_fn f32, f64; /* the host's */
    size_t job;           /* bytes */
} cr_loops;

#define CR_LOOPS(text, job, name)                                                              \
    {                                                                                          \
        text, #name, f32_##name, f64_##name, sizeof(job)                                       \
    }

/* An error that a loop on a device finds: the loop stores `number | (index & (2^48 - 1))` at
 * `word`, and the next function that waits for the device raises it.  NULL on the host. */
typedef struct {
    uint64_t *word, number;
} cr_loops_error;

static inline void cr_loops_report(const cr_loops_error *e, int64_t index)
{
    (void)e, (void)index;
}
/* Runs units [0, n) for element type F32 or F64; other types are an error.  `grain` is that of
 * cr_parallel_for. */
CR_MUST cr_status cr_loops_run(cr_device d, const cr_loops *l, cr_dtype t, int64_t n,
                               int64_t grain, void *job);
/* Registers the text of an error, in which CR_INDEX_MARK is the index's place.  Nothing on the
 * host, where the caller looks for errors before the loop. */
CR_MUST cr_status cr_loops_error_begin(cr_loops_error *out, cr_device d, cr_status kind,
                                       const char *text);

/* Sorts n keys of a device, stably, by `bits` of their bits from bit `low` on.  *room has as
 * many keys; the two change places where the result is there. */
CR_MUST cr_status cr_loops_sort(cr_device d, uint64_t **keys, uint64_t **room, int64_t n,
                                int low, int bits);

/* The functions of a device that runs loops; set at start-up. */
typedef struct {
    const char *(*run)(int index, const cr_loops *l, cr_dtype t, int64_t n, const void *job);
    const char *(*error_begin)(cr_loops_error *out, int index, cr_status kind,
                               const char *text);
    const char *(*sort)(int index, uint64_t **keys, uint64_t **room, int64_t n, int low,
                        int bits);
} cr_loops_device;
void cr_loops_set_device(cr_device_kind kind, const cr_loops_device *d);

#endif
