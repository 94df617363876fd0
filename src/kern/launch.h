/* launch.h - the host as an executor of the command KERNEL. */
#ifndef CR_KERN_LAUNCH_H
#define CR_KERN_LAUNCH_H

#include "cresset_backend.h"
#include "space/space.h"

/* The dtypes of operands in memory, and those that the kernel reads or writes; the first
 * `results` are written.  Operands that the kernel cannot take in place go through tiles. */
enum { CR_HOST_TILED = 16 };
typedef struct {
    int results;
    uint8_t memory[CR_HOST_TILED], value[CR_HOST_TILED]; /* cr_dtype */
} cr_host_values;

/* How calls of a kernel may be cut.  {0}: each call takes all columns of some rows. */
typedef struct {
    bool columns;     /* all rows of some columns, instead */
    bool wide;        /* a single row may be cut, too */
    int64_t block;    /* not 0: at most so many rows, for one row of the result, operand 0 */
    bool gathers;     /* operand 1 of 2 is copied to adjacent elements before each call, */
    uint8_t from, to; /* and converted: cr_dtype */
    const cr_host_values *values; /* or NULL */
} cr_host_cut;

/* Executes a command KERNEL, whose outer dims are the first `outer` of the space: their steps
 * are bytes.  Threads share the calls.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_host_launch(cr_kernel fn, const cr_host_cut *cut, const cr_launch *l,
                                 const cr_space *s, int outer);

#endif
