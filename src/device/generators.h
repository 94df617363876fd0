/* generators.h - the default generators of devices. */
#ifndef CR_DEVICE_GENERATORS_H
#define CR_DEVICE_GENERATORS_H

#include "num/device.h"
#include "num/generator.h"

/* The device's default generator: the process's, unless the kind of device has generators.
 * Borrowed, never freed.  Without memory for a new one it is the process's. */
CR_API cr_generator *cr_device_generator(cr_device d);
/* Seeds the generators of all devices but the host's; later ones start with this seed.  Fails
 * as cr_generator_seed does. */
CR_API CR_MUST cr_status cr_device_generators_seed(uint64_t seed);

#endif
