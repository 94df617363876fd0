/* devices.h - kernels of the devices that this library knows. */
#ifndef CR_KERN_DEVICES_H
#define CR_KERN_DEVICES_H

/* Fills the tables of the devices with functions that generated kernels need, and lists the
 * entries that have kernels there. */
void cr_kern_install_devices(void);
void cr_kern_install_cuda(void);

#endif
