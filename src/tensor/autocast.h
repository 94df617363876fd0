/* autocast.h - what recorders ask about autocast, whose stage is in the room autograd. */
#ifndef CR_TENSOR_AUTOCAST_H
#define CR_TENSOR_AUTOCAST_H

#include "tensor/tensor.h"

/* True if autocast's stage converts arguments of the call, or keeps it whole; the stage passes
 * other calls on.  NULL until the stage is there. */
extern bool (*cr_autocast_takes)(const cr_op *op, const cr_value *arg);

#endif
