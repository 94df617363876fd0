/* collect.h - a device that collects the commands that it gets as a plan.
 *
 * Its devices have the kind CR_LAZY and exist for a thread while it collects.  Work is executed
 * only when the host reads elements; a plan then depends on the values of its inputs. */
#ifndef CR_PLAN_COLLECT_H
#define CR_PLAN_COLLECT_H

#include "plan/plan.h"

/* Collects the calling thread's commands in an empty plan; `by` executes those whose results
 * the host reads.  CR_RUNTIME if the thread collects already. */
CR_MUST cr_status cr_collect_start(cr_plan *into, const cr_executor *by);
/* The device of tensors whose commands are collected. */
cr_device cr_collect_device(void);
/* The buffer of an address is filled by the caller of a run; until then by `bytes`. */
CR_MUST cr_status cr_collect_input(const char *address, const void *bytes, size_t n);
/* Adds a call between ranks, with the collecting device's addresses. */
CR_MUST cr_status cr_collect_collective(const cr_plan_collective *c);
/* Ends it; tensors on the device must have been dropped.  Fails where a call between ranks does
 * that nothing has waited for. */
CR_MUST cr_status cr_collect_end(void);

#endif
