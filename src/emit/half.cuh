/* half.cuh - elements of float16 and bfloat16 beside vectors of float32, on an NVIDIA GPU.
 *
 * A load converts to float32, and a store rounds to the nearest half, ties to even: the bits of
 * num/convert.c. */
#ifndef CR_EMIT_HALF_CUH
#define CR_EMIT_HALF_CUH

#include "emit/vec.cuh"

CV_FN unsigned ck_bits(float x)
{
    unsigned u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
CV_FN float ck_float(unsigned u)
{
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}

CV_FN float ck_widen_bf16(unsigned short h) { return ck_float((unsigned)h << 16); }

/* A pair of floats as halves, the first one in the low bits. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
CV_FN float ck_widen_f16(unsigned short h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
CV_FN unsigned ck_nan_f16(float f) { return 0x7e00u | (ck_bits(f) >> 16 & 0x8000u); }
/* The same, but a NaN becomes 0x7fff; and the greater halves of two pairs, NaN before
 * others. */
CV_FN unsigned ck_raw_f16(float low, float high)
{
    unsigned u;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
}
CV_FN unsigned ck_raw_bf16(float low, float high)
{
    unsigned u;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
}
CV_FN unsigned ck_most_f16(unsigned a, unsigned b)
{
    unsigned u;
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));
    return u;
}
CV_FN unsigned ck_most_bf16(unsigned a, unsigned b)
{
    unsigned u;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));
    return u;
}
CV_FN unsigned ck_pair_f16(float low, float high)
{
    unsigned u = ck_raw_f16(low, high);
    u = low != low ? (u & 0xffff0000u) | ck_nan_f16(low) : u;
    return high != high ? (u & 0xffffu) | ck_nan_f16(high) << 16 : u;
}
#if __CUDA_ARCH__ >= 900
/* As signed integers, no half but a NaN is above 0x7fc0. */
#define CK_PAIRS_BF16 1
CV_FN unsigned ck_pair_bf16(float low, float high)
{
    unsigned u;
    asm("min.s16x2 %0, %1, %2;" : "=r"(u) : "r"(ck_raw_bf16(low, high)), "r"(0x7fc07fc0u));
    return u;
}
#else
CV_FN unsigned ck_pair_bf16(float low, float high)
{
    unsigned u = ck_raw_bf16(low, high);
    u = low != low ? (u & 0xffff0000u) | 0x7fc0u : u;
    return high != high ? (u & 0xffffu) | 0x7fc00000u : u;
}
#endif
#else
CV_FN float ck_widen_f16(unsigned short h)
{
    unsigned rest = h & 0x7fffu, top = rest >= 0x7c00u ? 0x7f800000u : 0;
    float f = ck_float(rest << 13) * 0x1p112f;

    return ck_float(ck_bits(f) | top | (unsigned)(h & 0x8000u) << 16);
}
CV_FN unsigned ck_round_f16(float f)
{
    unsigned u = ck_bits(f), rest = u & 0x7fffffffu;
    unsigned small = ck_bits(ck_float(rest) + 0.5f) - 0x3f000000u;
    unsigned normal = (rest + 0xc8000fffu + (rest >> 13 & 1)) >> 13;
    unsigned large = 0x7c00u | (rest > 0x7f800000u) << 9;
    unsigned h = rest < 0x38800000u ? small : rest >= 0x477ff000u ? large : normal;

    return (h & 0x7fffu) | (u >> 16 & 0x8000u);
}
CV_FN unsigned ck_round_bf16(float f)
{
    unsigned u = ck_bits(f);

    return (u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (u + 0x7fffu + (u >> 16 & 1)) >> 16;
}
CV_FN unsigned ck_raw_f16(float low, float high)
{
    return (low != low ? 0x7fffu : ck_round_f16(low)) |
           (high != high ? 0x7fffu : ck_round_f16(high)) << 16;
}
CV_FN unsigned ck_raw_bf16(float low, float high)
{
    return (low != low ? 0x7fffu : ck_round_bf16(low) & 0xffffu) |
           (high != high ? 0x7fffu : ck_round_bf16(high)) << 16;
}
/* Which of two numbers is taken does not matter: their NaN are looked for. */
CV_FN unsigned ck_most_f16(unsigned a, unsigned b)
{
    const unsigned low = (a & 0x7fffu) == 0x7fffu ? a : b, high = a >> 16;
    return (low & 0xffffu) | ((high & 0x7fffu) == 0x7fffu ? a : b) >> 16 << 16;
}
CV_FN unsigned ck_most_bf16(unsigned a, unsigned b) { return ck_most_f16(a, b); }
CV_FN unsigned ck_pair_f16(float low, float high)
{
    return ck_round_f16(low) | ck_round_f16(high) << 16;
}
CV_FN unsigned ck_pair_bf16(float low, float high)
{
    return (ck_round_bf16(low) & 0xffffu) | ck_round_bf16(high) << 16;
}
#endif
CV_FN unsigned short ck_half_f16(float f) { return (unsigned short)ck_pair_f16(f, 0); }
CV_FN unsigned short ck_half_bf16(float f) { return (unsigned short)ck_pair_bf16(f, 0); }

/* Whether one of two halves is 0x7fff, as the NaN of ck_raw are. */
CV_FN bool ck_has_nan(unsigned u) { return ((u & 0x7fff7fffu) + 0x00010001u) & 0x80008000u; }

/* --- vectors --- */

#ifdef CV_LANES_f32
/* The halves that become a vector of floats. */
CV_TYPE(unsigned, ck_halves, CV_BYTES / 2);

/* The greater, or the lesser, of two vectors; NaN wins.  Which of two zeros is taken is not
 * said. And a vector that all others win over. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define CK_DEFINE_EXTREME(name, op, H, word, none)                                             \
    CV_FN unsigned ck_two_##name##_##H(unsigned a, unsigned b)                                 \
    {                                                                                          \
        unsigned u;                                                                            \
        asm(word " %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));                                   \
        return u;                                                                              \
    }                                                                                          \
    CK_DEFINE_EXTREMES(name, H, none)
#else
#define CK_DEFINE_EXTREME(name, op, H, word, none)                                             \
    CV_FN unsigned ck_one_##name##_##H(unsigned a, unsigned b)                                 \
    {                                                                                          \
        const float x = ck_widen_##H((unsigned short)a), y = ck_widen_##H((unsigned short)b);  \
        return x != x || x op y || (x == y) ? a : b;                                           \
    }                                                                                          \
    CV_FN unsigned ck_two_##name##_##H(unsigned a, unsigned b)                                 \
    {                                                                                          \
        return (ck_one_##name##_##H(a, b) & 0xffffu) | ck_one_##name##_##H(a >> 16, b >> 16)   \
                                                           << 16;                              \
    }                                                                                          \
    CK_DEFINE_EXTREMES(name, H, none)
#endif
#define CK_DEFINE_EXTREMES(name, H, none)                                                      \
    CV_FN ck_halves ck_halves_##name##_##H(void)                                               \
    {                                                                                          \
        ck_halves h;                                                                           \
        CV_UNROLL(8)                                                                           \
        for (int l = 0; l < CV_LANES_f32 / 2; l++)                                             \
            h[l] = none;                                                                       \
        return h;                                                                              \
    }                                                                                          \
    CV_FN ck_halves ck_##name##_##H(ck_halves a, ck_halves b)                                  \
    {                                                                                          \
        CV_UNROLL(8)                                                                           \
        for (int l = 0; l < CV_LANES_f32 / 2; l++)                                             \
            a[l] = ck_two_##name##_##H(a[l], b[l]);                                            \
        return a;                                                                              \
    }
CK_DEFINE_EXTREME(mosts, >, f16, "max.NaN.f16x2", 0xfc00fc00u)
CK_DEFINE_EXTREME(mosts, >, bf16, "max.NaN.bf16x2", 0xff80ff80u)
CK_DEFINE_EXTREME(leasts, <, f16, "min.NaN.f16x2", 0x7c007c00u)
CK_DEFINE_EXTREME(leasts, <, bf16, "min.NaN.bf16x2", 0x7f807f80u)
/* The least lane, or NaN. */
CV_FN float ck_least_lane(cv_f32 v)
{
    float x = v[0];

    CV_UNROLL(8)
    for (int l = 1; l < CV_LANES_f32; l++)
        x = x != x || x < v[l] ? x : v[l];
    return x;
}

/* Pairs are looked at again only if one of them has a NaN. */
#define CK_DEFINE_NARROW(H)                                                                    \
    CV_FN ck_halves ck_narrow_##H(cv_f32 v)                                                    \
    {                                                                                          \
        ck_halves h;                                                                           \
        unsigned most = 0;                                                                     \
        CV_UNROLL(8)                                                                           \
        for (int l = 0; l < CV_LANES_f32; l += 2) {                                            \
            h[l / 2] = ck_raw_##H(v[l], v[l + 1]);                                             \
            most = l ? ck_most_##H(most, h[l / 2]) : h[0];                                     \
        }                                                                                      \
        if (!ck_has_nan(most))                                                                 \
            return h;                                                                          \
        CV_UNROLL(8)                                                                           \
        for (int l = 0; l < CV_LANES_f32; l += 2)                                              \
            h[l / 2] = ck_pair_##H(v[l], v[l + 1]);                                            \
        return h;                                                                              \
    }
#define CK_DEFINE_NARROW_PAIRS(H)                                                              \
    CV_FN ck_halves ck_narrow_##H(cv_f32 v)                                                    \
    {                                                                                          \
        ck_halves h;                                                                           \
        CV_UNROLL(8)                                                                           \
        for (int l = 0; l < CV_LANES_f32; l += 2)                                              \
            h[l / 2] = ck_pair_##H(v[l], v[l + 1]);                                            \
        return h;                                                                              \
    }
CK_DEFINE_NARROW(f16)
#ifdef CK_PAIRS_BF16
CK_DEFINE_NARROW_PAIRS(bf16)
#else
CK_DEFINE_NARROW(bf16)
#endif

#define CK_DEFINE_HALF(H)                                                                      \
    CV_FN cv_f32 ck_wide_##H(ck_halves h)                                                      \
    {                                                                                          \
        cv_f32 v;                                                                              \
        CV_UNROLL(8)                                                                           \
        for (int l = 0; l < CV_LANES_f32; l++)                                                 \
            v[l] = ck_widen_##H((unsigned short)(h[l / 2] >> l % 2 * 16));                     \
        return v;                                                                              \
    }                                                                                          \
    CV_FN float ck_get_##H(const void *p) { return ck_widen_##H(*(const unsigned short *)p); } \
    CV_FN cv_f32 ck_load_##H(const void *p) { return ck_wide_##H(*(const ck_halves *)p); }     \
    CV_FN cv_f32 ck_loadn_##H(const void *p, cv_s_i64 n)                                       \
    {                                                                                          \
        return ck_wide_##H(ck_loadn_halves(p, n));                                             \
    }                                                                                          \
    CV_FN void ck_store_##H(void *p, cv_f32 v) { *(ck_halves *)p = ck_narrow_##H(v); }         \
    CV_FN void ck_storen_##H(void *p, cv_f32 v, cv_s_i64 n)                                    \
    {                                                                                          \
        CV_UNROLL(8)                                                                           \
        for (int l = 0; l < CV_LANES_f32; l++)                                                 \
            if (l < n)                                                                         \
                ((unsigned short *)p)[l] = ck_half_##H(v[l]);                                  \
    }

CV_FN ck_halves ck_load_halves(const void *p) { return *(const ck_halves *)p; }
CV_FN ck_halves ck_loadn_halves(const void *p, cv_s_i64 n)
{
    ck_halves h = {0};

    CV_UNROLL(8)
    for (int l = 0; l < CV_LANES_f32; l++)
        if (l < n)
            h[l / 2] |= (unsigned)((const unsigned short *)p)[l] << l % 2 * 16;
    return h;
}
CK_DEFINE_HALF(f16)
CK_DEFINE_HALF(bf16)
#endif

#endif
