/* collective.h - calls between the ranks of a group, on tensors.
 *
 * A call runs in the group's thread.  It is remembered by its result until cr_collective_wait,
 * and its tensors stay alive until then. */
#ifndef CR_WHOLE_COLLECTIVE_H
#define CR_WHOLE_COLLECTIVE_H

#include "comm/named.h"
#include "tensor/tensor.h"

/* One call.  Tensors are dense and row-major, on one device. */
typedef struct {
    cr_call_kind kind;  /* BROADCAST, ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER or ALL_TO_ALL */
    const char *reduce; /* "sum"; NULL: no reduction */
    int64_t root;       /* -1: none */
    cr_tensor *in;      /* NULL: `out` is both */
    cr_tensor *out;     /* ALL_GATHER, REDUCE_SCATTER: the first dim has the ranks' parts */
    /* ALL_TO_ALL: the rows for each rank, and those of each; `rows` numbers each. */
    const int64_t *in_rows, *out_rows;
    int in_parts, out_parts;
} cr_collective;

/* Starts n calls of one kind as one work.  Does nothing for tensors without elements in memory:
 * fakes, and those on device meta.  Fails with CR_RUNTIME for a group or a reduction that does
 * not exist, else as cr_comm_start; a failure of a started call is that of the wait. */
CR_MUST cr_status cr_collective_start(const char *group, const cr_collective *call, int n);
/* Waits for the call that makes the elements of t; at once without such a call. */
CR_MUST cr_status cr_collective_wait(const cr_tensor *t);
/* Makes plans execute calls; called once, at start-up. */
void cr_collective_install(void);
/* The number of results that no wait was for.  Those that the program has dropped leave the
 * list when it grows. */
size_t cr_collective_pending(void);

/* Calls of groups that are classes of a program.  *work is waited for, and dropped. */
typedef struct {
    cr_status (*start)(void **work, const char *group, const cr_collective *call, int n);
    cr_status (*wait)(void *work);
    void (*drop)(void *work);
} cr_collective_classes;
/* The functions are kept, not copied. */
void cr_collective_set_classes(const cr_collective_classes *functions);
/* Makes cr_collective_wait of t wait for a work of the functions, which takes over. */
CR_MUST cr_status cr_collective_register(cr_tensor *t, void *work);

#endif
