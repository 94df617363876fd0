/* thread.h - threads of the library, which leave signals to the program's threads.
 *
 * A signal for a process goes to any thread that does not block it.  When one of the library's
 * takes an interrupt, the program's thread stays in its sleep: Python runs handlers there. */
#ifndef CR_BASE_THREAD_H
#define CR_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread that calls run(context).  It blocks all signals but those that a fault in it
 * raises.  The caller must join *thread; if `thread` is NULL, the thread is detached.  Returns
 * 0 or the error number of pthread_create. */
int cr_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

#endif
