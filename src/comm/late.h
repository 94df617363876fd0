/* late.h - calls of libraries that may never return. */
#ifndef CR_COMM_LATE_H
#define CR_COMM_LATE_H

#include "base/error.h"

/* Calls work(context) in a thread and waits at most `ms` for it.  Returns the call's status and
 * error.  After the limit *late is true, the failure is CR_COMM with the text `what`, and the
 * thread calls drop(context) when it ends; otherwise the context stays the caller's. */
CR_MUST cr_status cr_run_limited(cr_status (*work)(void *context), void *context,
                                 void (*drop)(void *context), int64_t ms, const char *what,
                                 bool *late);

#endif
