/* wait.h - waits of this room, which a program can end.
 *
 * Handlers of signals belong to the program: a thread that waits asks every CR_WAIT_SLICE_MS
 * whether one wants the wait to end, with no lock that a handler could need. */
#ifndef CR_COMM_WAIT_H
#define CR_COMM_WAIT_H

#include <pthread.h>
#include <stdbool.h>

enum { CR_WAIT_SLICE_MS = 100 };

/* Runs the handlers; true when the calling thread's waits must end.  NULL without a program
 * that has any. */
extern bool (*cr_wait_hook)(void);
/* True when the calling thread's waits must end. */
bool cr_interrupted(void);

/* Makes a condition of CLOCK_MONOTONIC. */
void cr_wait_start(pthread_cond_t *changed);
typedef enum { CR_WAKE, CR_WAKE_LATE, CR_WAKE_INTERRUPTED } cr_wake;
/* Waits for `changed`, made by cr_wait_start, until the time `end` (cr_seconds) or the
 * end of a slice, with `lock` held before and after: CR_WAKE to look again. */
cr_wake cr_wait_change(pthread_cond_t *changed, pthread_mutex_t *lock, double end);
/* Sleeps; true when the calling thread's waits must end. */
bool cr_wait_pause(unsigned microseconds);
/* The time left until `end`, for one slice of poll(): 0 when it has passed. */
int cr_wait_slice(double end);

#endif
