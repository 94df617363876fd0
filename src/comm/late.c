/* Calls with time limits: a thread makes the call, and its caller may leave earlier. */
#include "comm/late.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "comm/wait.h"
#include <stdio.h>

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    cr_status (*work)(void *context);
    void (*drop)(void *context);
    void *context;
    bool done, left;
    cr_status st;
    char error[512];
} limited;

static void limited_free(limited *l)
{
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    cr_free(l);
}

static void *limited_thread(void *at)
{
    limited *l = at;
    cr_status st = l->work(l->context);

    pthread_mutex_lock(&l->lock);
    l->st = st;
    if (st)
        snprintf(l->error, sizeof l->error, "%s", cr_error_message());
    l->done = true;
    bool left = l->left;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (left) {
        l->drop(l->context);
        limited_free(l);
    }
    return NULL;
}

/* True when the thread has ended within the limit. */
static bool limited_wait(limited *l, int64_t ms)
{
    double end = cr_seconds() + (double)(ms / 1000 + 1);
    cr_wake wake = CR_WAKE;

    pthread_mutex_lock(&l->lock);
    while (!l->done && wake == CR_WAKE)
        wake = cr_wait_change(&l->changed, &l->lock, end);
    bool done = l->done;
    l->left = !done;
    pthread_mutex_unlock(&l->lock);
    return done;
}

static cr_status limited_start(limited **out, cr_status (*work)(void *), void *context,
                               void (*drop)(void *))
{
    limited *l = cr_alloc_zero(sizeof *l);

    CR_NEED(l);
    pthread_mutex_init(&l->lock, NULL);
    cr_wait_start(&l->changed);
    l->work = work;
    l->drop = drop;
    l->context = context;
    if (cr_thread_start(NULL, limited_thread, l)) {
        limited_free(l);
        return cr_fail(CR_COMM, "no thread for a call with a time limit");
    }
    *out = l;
    return CR_OK;
}

cr_status cr_run_limited(cr_status (*work)(void *context), void *context,
                         void (*drop)(void *context), int64_t ms, const char *what, bool *late)
{
    limited *l = NULL;

    *late = false;
    CR_TRY(limited_start(&l, work, context, drop));
    if (!limited_wait(l, ms)) {
        *late = true;
        return cr_fail(CR_COMM, "%s was not done after %lldms", what, (long long)ms);
    }
    cr_status st = l->st ? cr_fail(l->st, "%s", l->error) : CR_OK;
    limited_free(l);
    return st;
}
