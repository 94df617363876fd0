/* update.h - an elementwise entry over lists of parameters, gradients and states, in place.
 *
 * The entry's tensor parameters come first, one for each list; those in `written` are also its
 * results, in order.  A tensor of one element that all parameters share may follow.  The
 * numbers that follow may differ between parameters. */
#ifndef CR_WHOLE_UPDATE_H
#define CR_WHOLE_UPDATE_H

#include "tensor/kernel.h"

enum { CR_UPDATE_LISTS = 6 };

typedef struct cr_update cr_update;

struct cr_update {
    const cr_op *caller; /* named in messages */
    const cr_op *op;
    int lists;
    unsigned written; /* bit k: the entry writes list k */
    const cr_value *list[CR_UPDATE_LISTS];
    cr_tensor *shared; /* or NULL */
    /* Sets the entry's arguments after the tensors, for parameter i; NULL without numbers. */
    void (*numbers)(const cr_update *u, uint32_t i, cr_value *arg);
    /* Called after all allocations and before the first write; may be NULL. */
    cr_status (*start)(const cr_update *u);
    const void *context;
};

/* CR_RUNTIME when the lists differ in length, their tensors in sizes or device, when a tensor
 * may not be written, or when the shared tensor is not one real number on the same device. */
CR_MUST cr_status cr_update_check(const cr_update *u);
/* Call it after the check.  On the host it fails only with CR_MEMORY, and then without a
 * write. */
CR_MUST cr_status cr_update_run(const cr_update *u);

#endif
