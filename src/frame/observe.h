/* observe.h - calls C functions before every instruction that CPython executes.
 *
 * 3.12 and later: events of sys.monitoring, with tool id 3 or 4.  3.11: a trace function in C.
 * One thread is observed at a time; after cr_observe_stop() no hook and no event is installed.
 * CPython executes the program: an observer changes nothing that the program can see, apart
 * from the tool id or the trace function. */
#ifndef CR_FRAME_OBSERVE_H
#define CR_FRAME_OBSERVE_H

#include "frame/frame_compat.h"

/* The callbacks.  They may not run Python code, raise, or keep `f`. */
typedef struct {
    /* A frame begins, or a generator's frame continues. */
    void (*enter)(void *context, const cr_live_frame *f);
    /* Instruction number `at` of the frame is executed next.  CPython reports the prefix
     * EXTENDED_ARG, the instruction after it, or both. */
    void (*instruction)(void *context, const cr_live_frame *f, int at);
    /* The frame returns, yields, or is left by an exception. */
    void (*leave)(void *context, const cr_live_frame *f);
    void *context;
} cr_observer;

/* Observes the running thread.  Returns 1; 0 when that is impossible now, because another
 * thread is observed, a debugger or profiler has the trace function, or both tool ids are
 * taken; -1 with an exception. */
int cr_observe_start(const cr_observer *o);
/* Ends the observation that the running thread has started with this context.  Returns 0, and
 * ends nothing, when there is none.  An exception that is set stays set. */
int cr_observe_stop(const void *context);
/* Whether the running thread is observed and its hooks are installed: a program may remove a
 * trace function. */
int cr_observe_is_on(void);

#endif
