/* The device without bytes. */
#include "device/facts.h"

static const cr_device_ops meta_ops = {0};
const cr_device_facts cr_meta_facts = {
    .ops = &meta_ops, .dialect = "c", .low_precision = CR_BF16};
