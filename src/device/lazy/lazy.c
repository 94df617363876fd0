/* Devices whose commands are collected as a plan, instead of being executed
 * (plan/collect.c). */
#include "device/facts.h"
#include <stdatomic.h>

static const cr_device_ops *_Atomic collector;

static const cr_device_ops *find(void) { return atomic_load(&collector); }

void cr_device_set_collector(const cr_device_ops *ops) { atomic_store(&collector, ops); }

const cr_device_facts cr_lazy_facts = {
    .find = find, .dialect = "c", .has_fallback = true, .low_precision = CR_BF16};
