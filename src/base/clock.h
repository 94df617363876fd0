/* clock.h - the time that measurements and time limits use. */
#ifndef CR_BASE_CLOCK_H
#define CR_BASE_CLOCK_H

#include <time.h>

/* Seconds since a fixed moment; never set back. */
static inline double cr_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
