/* The device without bytes. */
#include "device/meta/meta.h"

const cr_device_ops cr_meta_ops = {0};
