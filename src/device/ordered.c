/* Functions of a table that a backend need not write: the thread's device, and, for devices
 * whose jobs have numbers and run in order, streams and events.  All streams of such a device
 * are its one queue; an event is the number of the job that was the last one. */
#include "device/ordered.h"
#include <stdlib.h>

static CR_THREAD_COLD int current;
static CR_THREAD_COLD void *current_stream;

static const char *no_memory(void *p)
{
    return p ? NULL : "no memory for a stream or an event";
}

static const cr_device_ops *ops(void) { return cr_device_of(CR_PRIVATEUSE1); }

static int ordered_current(void) { return current; }

static const char *ordered_set_current(int index)
{
    current = index;
    return NULL;
}

static const char *ordered_new(int index, void **made)
{
    (void)index;
    *made = calloc(1, sizeof(uint64_t));
    return no_memory(*made);
}

static void ordered_drop(int index, void *made)
{
    (void)index;
    free(made);
}

static const char *ordered_set_stream(int index, void *stream)
{
    (void)index;
    current_stream = stream;
    return NULL;
}

static void *ordered_stream(int index)
{
    (void)index;
    return current_stream;
}

static const char *ordered_record(int index, void *event)
{
    *(uint64_t *)event = ops()->last(index);
    return NULL;
}

static const char *ordered_follow(int index, void *event)
{
    (void)index;
    (void)event; /* later jobs run after earlier ones */
    return NULL;
}

static const char *ordered_wait(int index, void *event)
{
    ops()->wait(index, *(uint64_t *)event);
    return NULL;
}

static bool ordered_done(int index, void *event)
{
    return ops()->done(index, *(uint64_t *)event);
}

static bool lacks_streams(const cr_device_ops *t)
{
    return !t->stream_new && !t->stream_drop && !t->set_stream && !t->stream && !t->event_new &&
           !t->event_drop && !t->event_record && !t->event_wait && !t->event_synchronize &&
           !t->event_done;
}

void cr_device_complete(cr_device_ops *t)
{
    if (!t->current && !t->set_current) {
        t->current = ordered_current;
        t->set_current = ordered_set_current;
    }
    if (!lacks_streams(t) || !t->last || !t->wait || !t->done)
        return;
    t->stream_new = t->event_new = ordered_new;
    t->stream_drop = t->event_drop = ordered_drop;
    t->set_stream = ordered_set_stream;
    t->stream = ordered_stream;
    t->event_record = ordered_record;
    t->event_wait = ordered_follow;
    t->event_synchronize = ordered_wait;
    t->event_done = ordered_done;
}
