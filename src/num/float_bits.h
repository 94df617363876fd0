/* float_bits.h - a float32 and its 32 bits. */
#ifndef CR_NUM_FLOAT_BITS_H
#define CR_NUM_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

CR_ALWAYS_INLINE uint32_t cr_bits_of_float(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

CR_ALWAYS_INLINE float cr_float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
