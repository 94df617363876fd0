/* integer.h - arithmetic on 64-bit integers that C has no operator for. */
#ifndef CR_BASE_INTEGER_H
#define CR_BASE_INTEGER_H

#include <stdint.h>

static inline int64_t cr_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cr_most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t cr_magnitude(int64_t n) { return n < 0 ? -n : n; }

/* a - b, or the nearest number whose magnitude is an int64. */
static inline int64_t cr_clamped_sub(int64_t a, int64_t b)
{
    int64_t d;

    if (__builtin_sub_overflow(a, b, &d))
        return a < 0 ? -INT64_MAX : INT64_MAX;
    return d < -INT64_MAX ? -INT64_MAX : d;
}

/* The greatest common divisor. */
static inline int64_t cr_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The number of binary digits of n, which is not negative. */
static inline int cr_digits(int64_t n)
{
    int digits = 0;

    while (n >> digits)
        digits++;
    return digits;
}

/* The largest of n integers and 0. */
static inline int64_t cr_greatest(const int64_t *list, int64_t n)
{
    int64_t most = 0;

    for (int64_t i = 0; i < n; i++)
        most = cr_most(most, list[i]);
    return most;
}

/* The number without its fraction; 0 if int64 does not hold it. */
static inline int64_t cr_integer_of(double d)
{
    return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : 0;
}

/* The quotient rounded down; `b` is not 0. */
static inline int64_t cr_floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

#endif
