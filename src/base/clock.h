/* clock.h - the time that measurements and time limits use. */
#ifndef CR_BASE_CLOCK_H
#define CR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Seconds since a fixed moment; never set back. */
static inline double cr_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The same in nanoseconds. */
static inline int64_t cr_nanoseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The moment `ms` from now, for waits by CLOCK_MONOTONIC. */
static inline struct timespec cr_moment_after(int64_t ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

#endif
