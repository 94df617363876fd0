/* Waits that a program can end. */
#include "comm/wait.h"
#include "base/clock.h"
#include <unistd.h>

bool (*cr_wait_hook)(void);

bool cr_interrupted(void) { return cr_wait_hook && cr_wait_hook(); }

void cr_wait_start(pthread_cond_t *changed)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int cr_wait_slice(double end)
{
    double ms = 1e3 * (end - cr_seconds());

    return ms <= 0 ? 0 : ms > CR_WAIT_SLICE_MS ? CR_WAIT_SLICE_MS : (int)ms + 1;
}

cr_wake cr_wait_change(pthread_cond_t *changed, pthread_mutex_t *lock, double end)
{
    struct timespec slice = cr_moment_after(cr_wait_slice(end));

    if (!pthread_cond_timedwait(changed, lock, &slice))
        return CR_WAKE;
    pthread_mutex_unlock(lock);
    bool interrupted = cr_interrupted();
    pthread_mutex_lock(lock);
    return interrupted ? CR_WAKE_INTERRUPTED : cr_seconds() >= end ? CR_WAKE_LATE : CR_WAKE;
}

bool cr_wait_pause(unsigned microseconds)
{
    usleep(microseconds);
    return cr_interrupted();
}
