#include "base/thread.h"
#include "base/compiler.h"
#include <signal.h>

int cr_thread_start(pthread_t *thread, void *(*run)(void *context), void *context)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    pthread_attr_t how;
    pthread_t own;
    sigset_t blocked, before;
    int failed;

    sigfillset(&blocked);
    for (size_t i = 0; i < CR_LEN(faults); i++)
        sigdelset(&blocked, faults[i]);
    pthread_attr_init(&how);
    if (!thread)
        pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    failed = pthread_create(thread ? thread : &own, &how, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    return failed;
}
