/* meta.h - the device without bytes. */
#ifndef CR_DEVICE_META_META_H
#define CR_DEVICE_META_META_H

#include "device/device.h"

extern const cr_device_ops cr_meta_ops;

#endif
