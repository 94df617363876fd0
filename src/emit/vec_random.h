/* vec_random.h - the counter-based random stream of num/philox.h, on vectors.
 *
 * Element i of a call reads word i % 4 of block offset + i / 4.  One run of the rounds makes
 * two vectors of words.  cv_philox4 returns four and wastes nothing; cv_philox takes any
 * element to start from and returns one. */
#ifndef CR_EMIT_VEC_RANDOM_H
#define CR_EMIT_VEC_RANDOM_H

#include "emit/vec.h"

/* Products of the low halves of 64-bit lanes. */
CV_FN cv_u64 cv_mulwide(cv_u64 a, cv_u64 b)
{
#if defined(CV_AVX512) && !defined(__clang__)
    return (cv_u64)__builtin_ia32_pmuludq512_mask((cv_i32)a, (cv_i32)b, CV_MAKE(cv_raw64, 0),
                                                  CV_ALL64);
#elif defined(CV_AVX2) && !defined(__clang__)
    return (cv_u64)__builtin_ia32_pmuludq256((cv_i32)a, (cv_i32)b);
#elif defined(CV_SSE2) && !defined(__clang__)
    return (cv_u64)__builtin_ia32_pmuludq128((cv_i32)a, (cv_i32)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/* Blocks count[0..lanes) into word[0..4), each in the low half of a 64-bit lane. */
CV_FN void cv_philoxblocks(cv_s_u64 seed, cv_u64 count, cv_u64 *word)
{
    cv_s_u32 key0 = (cv_s_u32)seed, key1 = (cv_s_u32)(seed >> 32);
    cv_u64 c0 = count & 0xffffffffu, c1 = count >> 32, c2 = {0}, c3 = {0};
    const cv_u64 m0 = CV_MAKE(cv_u64, 0) + 0xD2511F53u, m1 = CV_MAKE(cv_u64, 0) + 0xCD9E8D57u;

    for (int i = 0; i < 10; i++) {
        cv_u64 a = cv_mulwide(m0, c0), b = cv_mulwide(m1, c2);
        c0 = (b >> 32) ^ c1 ^ (cv_s_u64)key0;
        c1 = b & 0xffffffffu;
        c2 = (a >> 32) ^ c3 ^ (cv_s_u64)key1;
        c3 = a & 0xffffffffu;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

/* All words of CV_LANES_i64 blocks from `first` on, in order, into out[0..2). */
CV_FN void cv_philoxline(cv_s_u64 seed, cv_s_u64 first, cv_i32 *out)
{
    cv_u64 word[4], a, b;

    cv_philoxblocks(seed, (cv_u64)cv_iota_i64() + first, word);
    a = word[0] | word[1] << 32;
    b = word[2] | word[3] << 32;
#if CV_BYTES == 64
    out[0] = (cv_i32)__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    out[1] = (cv_i32)__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
#elif CV_BYTES == 32
    out[0] = (cv_i32)__builtin_shufflevector(a, b, 0, 4, 1, 5);
    out[1] = (cv_i32)__builtin_shufflevector(a, b, 2, 6, 3, 7);
#else
    out[0] = (cv_i32)__builtin_shufflevector(a, b, 0, 2);
    out[1] = (cv_i32)__builtin_shufflevector(a, b, 1, 3);
#endif
}

/* Words of elements i, i + 1, ... as bits; i is any element. */
CV_FN cv_i32 cv_philox(cv_s_u64 seed, cv_s_u64 offset, cv_s_u64 i)
{
    cv_i32 line[2];

    cv_philoxline(seed, offset + i / 4, line);
    return i % 4 == 0 ? line[0] : cv_load_i32((const cv_s_i32 *)line + i % 4);
}

/* Words of elements i ... i + 4 * CV_LANES_i32 - 1 into out[0..4); i is a multiple of 4. */
CV_FN void cv_philox4(cv_s_u64 seed, cv_s_u64 offset, cv_s_u64 i, cv_i32 *out)
{
    cv_philoxline(seed, offset + i / 4, out);
    cv_philoxline(seed, offset + i / 4 + CV_LANES_i64, out + 2);
}

/* Words as floats in [0, 1): the upper 24 bits. */
CV_FN cv_f32 cv_uniform_f32(cv_i32 bits)
{
    cv_i32 high = (cv_i32)((cv_u32)bits >> 8);
    return __builtin_convertvector(high, cv_f32) * 0x1p-24f;
}

/* Called by kernels: elements i, i + 1, ... of the stream, in [0, 1). */
CV_FN cv_f32 cv_random_f32(cv_s_u64 seed, cv_s_u64 offset, cv_s_u64 i)
{
    return cv_uniform_f32(cv_philox(seed, offset, i));
}

/* Like cv_random_f32, for 64-bit lanes. */
CV_FN cv_f64 cv_random_f64(cv_s_u64 seed, cv_s_u64 offset, cv_s_u64 i)
{
    cv_f32 r = cv_random_f32(seed, offset, i);
    cv_f64 wide = {0};
    for (int l = 0; l < CV_LANES_f64; l++)
        wide[l] = (cv_s_f64)r[l];
    return wide;
}

#endif
