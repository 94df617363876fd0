/* float8.h - the five 8-bit floating-point formats and float32.
 *
 * e4m3fn has no infinity: larger values and infinities become the largest number.  e5m2
 * overflows to infinity.  The formats with "uz" have neither infinity nor negative zero; 0x80
 * is their only NaN, and they overflow to it.  e8m0fnu is a power of two without sign or zero.
 * Rounding is to nearest even.  All functions are free of branches, so that loops over them
 * become vector code. */
#ifndef CR_NUM_FLOAT8_H
#define CR_NUM_FLOAT8_H

#include "num/float_bits.h"

/* The magnitude of f in a format with `mantissa` bits of mantissa and the exponent `bias`, as
 * its bits without sign; bits beyond the format's largest number where it overflows.  Adding
 * `half` rounds a subnormal number: its last bit is the format's smallest number. */
static inline uint32_t float8_round(uint32_t magnitude, int mantissa, int bias)
{
    uint32_t cut = 23 - (uint32_t)mantissa, first = (uint32_t)(128 - bias) << 23;
    uint32_t half = (uint32_t)(151 - bias - mantissa) << 23;
    uint32_t small = cr_bits_of_float(cr_float_of_bits(magnitude) + cr_float_of_bits(half));
    uint32_t lowest = magnitude - ((uint32_t)(127 - bias) << 23);
    uint32_t odd = magnitude >> cut & 1;
    uint32_t normal = (lowest + (1u << (cut - 1)) - 1 + odd) >> cut;

    return magnitude < first ? small - half : normal;
}

/* The number whose bits without sign are `rest`; the product makes subnormal numbers normal. */
static inline float float8_widen(uint32_t rest, int mantissa, int bias)
{
    float scale = cr_float_of_bits((uint32_t)(254 - bias) << 23);

    return cr_float_of_bits(rest << (23 - mantissa)) * scale;
}

static inline float float8_signed(float f, uint8_t x)
{
    return cr_float_of_bits(cr_bits_of_float(f) | (uint32_t)(x & 0x80u) << 24);
}

static inline uint8_t e4m3fn_from_float(float f)
{
    uint32_t u = cr_bits_of_float(f), magnitude = u & 0x7fffffffu;
    uint32_t rest = float8_round(magnitude, 3, 7);

    rest = magnitude >= 0x43e80000u ? 0x7eu : rest; /* 464 rounds beyond 448 */
    rest = magnitude > 0x7f800000u ? 0x7fu : rest;
    return (uint8_t)(rest | (u >> 24 & 0x80u));
}

static inline float e4m3fn_to_float(uint8_t x)
{
    uint32_t rest = x & 0x7fu;
    float f = float8_widen(rest, 3, 7);

    return float8_signed(rest == 0x7f ? cr_float_of_bits(0x7fc00000u) : f, x);
}

static inline uint8_t e5m2_from_float(float f)
{
    uint32_t u = cr_bits_of_float(f), magnitude = u & 0x7fffffffu;
    uint32_t rest = float8_round(magnitude, 2, 15);

    rest = magnitude >= 0x47700000u ? 0x7cu : rest; /* 61440 rounds to infinity */
    rest = magnitude > 0x7f800000u ? 0x7fu : rest;
    return (uint8_t)(rest | (u >> 24 & 0x80u));
}

/* The upper byte of a float16. */
static inline float e5m2_to_float(uint8_t x)
{
    uint32_t rest = x & 0x7fu, top = rest >= 0x7c ? 0x7f800000u : 0;
    float f = float8_widen(rest, 2, 15);

    return float8_signed(cr_float_of_bits(cr_bits_of_float(f) | top), x);
}

static inline uint8_t float8_finite_unsigned_zero(float f, int mantissa, int bias,
                                                  uint32_t beyond)
{
    uint32_t u = cr_bits_of_float(f), magnitude = u & 0x7fffffffu;
    uint32_t rest = float8_round(magnitude, mantissa, bias);
    uint32_t with_sign = rest | (u >> 24 & 0x80u);

    with_sign = rest ? with_sign : 0;
    return (uint8_t)(magnitude >= beyond ? 0x80u : with_sign);
}

static inline uint8_t e4m3fnuz_from_float(float f)
{
    return float8_finite_unsigned_zero(f, 3, 8, 0x43780000u); /* 248 rounds beyond 240 */
}

static inline uint8_t e5m2fnuz_from_float(float f)
{
    return float8_finite_unsigned_zero(f, 2, 16, 0x47700000u);
}

static inline float e4m3fnuz_to_float(uint8_t x)
{
    float f = float8_signed(float8_widen(x & 0x7fu, 3, 8), x);

    return x == 0x80 ? cr_float_of_bits(0x7fc00000u) : f;
}

static inline float e5m2fnuz_to_float(uint8_t x)
{
    float f = float8_signed(float8_widen(x & 0x7fu, 2, 16), x);

    return x == 0x80 ? cr_float_of_bits(0x7fc00000u) : f;
}

/* Half of a subnormal float's leading unit is a tie that goes down to zero's code. */
static inline uint8_t e8m0fnu_from_float(float f)
{
    uint32_t magnitude = cr_bits_of_float(f) & 0x7fffffffu, exponent = magnitude >> 23;
    uint32_t rest = magnitude & 0x7fffffu;
    uint32_t up = rest > 0x400000u || (rest == 0x400000u && exponent > 0);

    return (uint8_t)(exponent == 0xff ? 0xffu : exponent + up);
}

static inline float e8m0fnu_to_float(uint8_t x)
{
    uint32_t u = (uint32_t)x << 23;

    u = x == 0 ? 0x00400000u : u;
    return cr_float_of_bits(x == 0xff ? 0x7fc00000u : u);
}

#endif
