/* collective_plan.h - calls between ranks as commands of plans; for files of whole/ only. */
#ifndef CR_WHOLE_COLLECTIVE_PLAN_H
#define CR_WHOLE_COLLECTIVE_PLAN_H

#include "whole/collective.h"

/* Add the start of calls, or the wait for one, to the plan that the thread collects. */
CR_MUST cr_status cr_collective_collect(const char *group, const cr_collective *call, int n);
CR_MUST cr_status cr_collective_collect_wait(const cr_tensor *t);

#endif
