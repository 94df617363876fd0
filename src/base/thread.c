#include "base/thread.h"

int cr_thread_start(pthread_t *thread, void *(*run)(void *context), void *context)
{
    pthread_attr_t how;
    pthread_t own;
    sigset_t before;
    int failed;

    pthread_attr_init(&how);
    if (!thread)
        pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    cr_thread_block_signals(&before);
    failed = pthread_create(thread ? thread : &own, &how, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    return failed;
}
