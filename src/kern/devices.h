/* devices.h - kernels of the devices that this library knows. */
#ifndef CR_KERN_DEVICES_H
#define CR_KERN_DEVICES_H

/* Fills the host's table with functions that need kernels. */
void cr_kern_install_devices(void);

#endif
