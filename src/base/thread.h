/* thread.h - threads of the library, which leave signals to the program's threads.
 *
 * A signal for a process goes to any thread that does not block it.  When one of the library's
 * takes an interrupt, the program's thread stays in its sleep: Python runs handlers there. */
#ifndef CR_BASE_THREAD_H
#define CR_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Blocks all signals in the calling thread but those that a fault in it raises, and sets
 * *before to the mask that was there.  Threads that it starts have the mask, too. */
static inline void cr_thread_block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    sigset_t blocked;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

/* Starts a thread that calls run(context).  It blocks signals as cr_thread_block_signals does.
 * The caller must join *thread; if `thread` is NULL, the thread is detached.  Returns
 * 0 or the error number of pthread_create. */
int cr_thread_start(pthread_t *thread, void *(*run)(void *context), void *context);

#endif
