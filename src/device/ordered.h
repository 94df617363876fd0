/* ordered.h - what a backend's table may leave to the library. */
#ifndef CR_DEVICE_ORDERED_H
#define CR_DEVICE_ORDERED_H

#include "device/device.h"

/* Sets missing functions of a backend's table (cresset_backend.h, version 6): the thread's
 * device, where both are missing; streams and events, where all are missing and `last`, `wait`
 * and `done` are there. */
void cr_device_complete(cr_device_ops *table);

#endif
