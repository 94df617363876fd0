/* Conversion of rows of elements: one function for each pair of dtypes.
 *
 * Half types are converted without branches, so that the compiler vectorizes the loops.
 *
 * A dtype without kernels is converted to and from one or two wider dtypes with kernels. All
 * other pairs go through the wider dtype, in blocks: their functions only name the pair. */
#include "num/convert.h"
#include "num/float8.h"
#include <string.h>

/* The product moves the exponent and makes subnormal numbers normal. */
static inline float half_to_float(uint16_t h)
{
    uint32_t rest = h & 0x7fffu, top = rest >= 0x7c00u ? 0x7f800000u : 0;
    float f = cr_float_of_bits(rest << 13) * 0x1p112f;

    return cr_float_of_bits(cr_bits_of_float(f) | top | (uint32_t)(h & 0x8000u) << 16);
}

/* Adding 0.5 rounds a subnormal result at 2^-24.  Masks select the case, because a branch would
 * keep the compiler from vectorizing the loop. */
static inline uint16_t float_to_half(float f)
{
    uint32_t u = cr_bits_of_float(f), rest = u & 0x7fffffffu;
    uint32_t small = cr_bits_of_float(cr_float_of_bits(rest) + 0.5f) - 0x3f000000u;
    uint32_t normal = (rest + 0xc8000fffu + (rest >> 13 & 1)) >> 13;
    uint32_t large = 0x7c00u | (rest > 0x7f800000u) << 9;
    uint32_t is_small = 0u - (rest < 0x38800000u), is_large = 0u - (rest >= 0x477ff000u);
    uint32_t h = (small & is_small) | (normal & ~is_small & ~is_large) | (large & is_large);

    return (uint16_t)(h | (u >> 16 & 0x8000u));
}

static inline float bfloat_to_float(uint16_t h) { return cr_float_of_bits((uint32_t)h << 16); }

static inline uint16_t float_to_bfloat(float f)
{
    uint32_t u = cr_bits_of_float(f), rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;

    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    typedef ctype raw_##NAME;
#include "num/dtype.def"
#undef CR_DTYPE

/* The real part of an element, its imaginary part, and whether the element is nonzero. */
#define NUM_BOOL(x) ((int32_t)(x))
#define NUM_U8(x)   ((int32_t)(x))
#define NUM_I8(x)   ((int32_t)(x))
#define NUM_I16(x)  ((int32_t)(x))
#define NUM_I32(x)  (x)
#define NUM_I64(x)  (x)
#define NUM_F16(x)  half_to_float(x)
#define NUM_BF16(x) bfloat_to_float(x)
#define NUM_F32(x)  (x)
#define NUM_F64(x)  (x)
#define NUM_C64(x)  ((x).re)
#define NUM_C128(x) ((x).re)

#define IMAG_BOOL(x) 0
#define IMAG_U8(x)   0
#define IMAG_I8(x)   0
#define IMAG_I16(x)  0
#define IMAG_I32(x)  0
#define IMAG_I64(x)  0
#define IMAG_F16(x)  0
#define IMAG_BF16(x) 0
#define IMAG_F32(x)  0
#define IMAG_F64(x)  0
#define IMAG_C64(x)  ((x).im)
#define IMAG_C128(x) ((x).im)

/* Conversions to each dtype.  Integers that do not fit wrap; uint8 goes through int64 as in
 * torch. */
#define TO_BOOL(F, x) ((uint8_t)((NUM_##F(x) != 0) | (IMAG_##F(x) != 0)))
#define TO_U8(F, x)   ((uint8_t)(int64_t)NUM_##F(x))
#define TO_I8(F, x)   ((int8_t)(int32_t)NUM_##F(x))
#define TO_I16(F, x)  ((int16_t)(int32_t)NUM_##F(x))
#define TO_I32(F, x)  ((int32_t)NUM_##F(x))
#define TO_I64(F, x)  ((int64_t)NUM_##F(x))
#define TO_F16(F, x)  float_to_half((float)NUM_##F(x))
#define TO_BF16(F, x) float_to_bfloat((float)NUM_##F(x))
#define TO_F32(F, x)  ((float)NUM_##F(x))
#define TO_F64(F, x)  ((double)NUM_##F(x))
#define TO_C64(F, x)  ((cr_complex_float){(float)NUM_##F(x), (float)IMAG_##F(x)})
#define TO_C128(F, x) ((cr_complex){(double)NUM_##F(x), (double)IMAG_##F(x)})

#define ROW(T, F) ROW_FOR(, T, F)
#define ROW_FOR(targets, T, F)                                                                 \
    targets static void T##_from_##F(void *to, int64_t to_step, const void *from,              \
                                     int64_t from_step, int64_t n)                             \
    {                                                                                          \
        raw_##T *restrict t = to;                                                              \
        const raw_##F *restrict f = from;                                                      \
        if (to_step == (int64_t)sizeof *t && from_step == (int64_t)sizeof *f) {                \
            for (int64_t i = 0; i < n; i++)                                                    \
                t[i] = TO_##T(F, f[i]);                                                        \
            return;                                                                            \
        }                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                      \
            const raw_##F *e = (const raw_##F *)((const char *)from + i * from_step);          \
            *(raw_##T *)((char *)to + i * to_step) = TO_##T(F, *e);                            \
        }                                                                                      \
    }

#define ROWS(T)                                                                                \
    ROW(T, BOOL)                                                                               \
    ROW(T, U8)                                                                                 \
    ROW(T, I8)                                                                                 \
    ROW(T, I16)                                                                                \
    ROW(T, I32) ROW(T, I64) ROW(T, F16) ROW(T, BF16) ROW(T, F64) ROW(T, C64) ROW(T, C128)

ROWS(BOOL)
ROWS(U8)
ROWS(I8)
ROWS(I16)
ROWS(I32)
ROWS(I64)
ROWS(F16)
ROWS(BF16)
ROWS(F32)
ROWS(F64)
ROWS(C64)
ROWS(C128)

/* Every second, third or fourth element, such as a channel of an image: a constant distance is
 * vectorized. */
#define THIN(bytes, type, k)                                                                   \
    CR_WIDE static void thin_##bytes##_##k(type *restrict to, const type *restrict from,       \
                                           int64_t n)                                          \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                        \
            to[i] = from[k * i];                                                               \
    }
#define THINS(bytes, type)                                                                     \
    THIN(bytes, type, 2)                                                                       \
    THIN(bytes, type, 3)                                                                       \
    THIN(bytes, type, 4)                                                                       \
    static bool thin_##bytes(type *to, const type *from, int64_t from_step, int64_t n)         \
    {                                                                                          \
        switch (from_step) {                                                                   \
        case 2 * bytes: thin_##bytes##_2(to, from, n); return true;                            \
        case 3 * bytes: thin_##bytes##_3(to, from, n); return true;                            \
        case 4 * bytes: thin_##bytes##_4(to, from, n); return true;                            \
        default: return false;                                                                 \
        }                                                                                      \
    }
THINS(1, uint8_t)
THINS(2, uint16_t)
THINS(4, uint32_t)
THINS(8, uint64_t)
#define thin_16(to, from, from_step, n) false

/* Columns of 8 bytes to short rows: constant numbers of columns are vectorized. */
CR_WIDE static void weave_2(uint64_t *restrict to, const uint64_t *restrict from, int64_t pitch,
                            int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = from[i + pitch];
    }
}

CR_WIDE static void weave_3(uint64_t *restrict to, const uint64_t *restrict from, int64_t pitch,
                            int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[3 * i] = from[i];
        to[3 * i + 1] = from[i + pitch];
        to[3 * i + 2] = from[i + 2 * pitch];
    }
}

CR_WIDE static void weave_4(uint64_t *restrict to, const uint64_t *restrict from, int64_t pitch,
                            int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[4 * i] = from[i];
        to[4 * i + 1] = from[i + pitch];
        to[4 * i + 2] = from[i + 2 * pitch];
        to[4 * i + 3] = from[i + 3 * pitch];
    }
}

bool cr_weave_8(void *to, const void *from, int64_t pitch, int64_t columns, int64_t n)
{
    switch (columns) {
    case 2: weave_2(to, from, pitch, n); return true;
    case 3: weave_3(to, from, pitch, n); return true;
    case 4: weave_4(to, from, pitch, n); return true;
    default: return false;
    }
}

/* Plain copies, by element size. */
#define COPY(bytes, type)                                                                      \
    static void copy_##bytes(void *to, int64_t to_step, const void *from, int64_t from_step,   \
                             int64_t n)                                                        \
    {                                                                                          \
        if (to_step == bytes && from_step == bytes) {                                          \
            memmove(to, from, (size_t)n *bytes);                                               \
            return;                                                                            \
        }                                                                                      \
        if (to_step == bytes && from_step == 0) {                                              \
            type one;                                                                          \
            memcpy(&one, from, bytes);                                                         \
            for (int64_t i = 0; i < n; i++)                                                    \
                ((type *)to)[i] = one;                                                         \
            return;                                                                            \
        }                                                                                      \
        if (to_step == bytes && n >= 64 && thin_##bytes(to, from, from_step, n))               \
            return;                                                                            \
        for (int64_t i = 0; i < n; i++)                                                        \
            memcpy((char *)to + i * to_step, (const char *)from + i * from_step, bytes);       \
    }

COPY(1, uint8_t)
COPY(2, uint16_t)
COPY(4, uint32_t)
COPY(8, uint64_t)
COPY(16, cr_complex)

/* Half types need integer arithmetic, which is faster with wide vectors. */
ROW(BOOL, F32)
ROW(U8, F32)
ROW(I8, F32)
ROW(I16, F32)
ROW(I32, F32)
ROW(I64, F32)
ROW_FOR(CR_WIDE, F16, F32)
ROW_FOR(CR_WIDE, BF16, F32)
ROW(F32, F32)
ROW(F64, F32)
ROW(C64, F32)
ROW(C128, F32)

/* --- dtypes without kernels --- */

uint32_t cr_double_to_u32(double d)
{
    double top = 0x1p31, rest = d >= top ? d - top : d;
    int32_t i = rest > -0x1p31 - 1 && rest < 0x1p31 ? (int32_t)rest : INT32_MIN;

    return (uint32_t)i ^ (d >= top ? 0x80000000u : 0);
}

uint64_t cr_double_to_u64(double d)
{
    double top = 0x1p63, rest = d >= top ? d - top : d;
    int64_t i = rest >= -0x1p63 && rest < 0x1p63 ? (int64_t)rest : INT64_MIN;

    return (uint64_t)i ^ (d >= top ? (uint64_t)1 << 63 : 0);
}

static inline cr_complex_float complex_widen(cr_complex_half x)
{
    return (cr_complex_float){half_to_float(x.re), half_to_float(x.im)};
}

static inline cr_complex_half complex_halve(cr_complex_float x)
{
    return (cr_complex_half){float_to_half(x.re), float_to_half(x.im)};
}

/* T from F by a function of the element. */
#define EACH_ROW(targets, T, F, function)                                                      \
    targets static void T##_from_##F(void *to, int64_t to_step, const void *from,              \
                                     int64_t from_step, int64_t n)                             \
    {                                                                                          \
        raw_##T *restrict t = to;                                                              \
        const raw_##F *restrict f = from;                                                      \
        if (to_step == (int64_t)sizeof *t && from_step == (int64_t)sizeof *f) {                \
            for (int64_t i = 0; i < n; i++)                                                    \
                t[i] = function(f[i]);                                                         \
            return;                                                                            \
        }                                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                      \
            const raw_##F *e = (const raw_##F *)((const char *)from + i * from_step);          \
            *(raw_##T *)((char *)to + i * to_step) = function(*e);                             \
        }                                                                                      \
    }

EACH_ROW(, I32, U16, (int32_t))
EACH_ROW(, U16, I32, (uint16_t))
EACH_ROW(, I64, U32, (int64_t))
EACH_ROW(, U32, I64, (uint32_t))
EACH_ROW(, U32, F64, cr_double_to_u32)
EACH_ROW(, I64, U64, (int64_t))
EACH_ROW(, U64, I64, (uint64_t))
EACH_ROW(, F32, U64, (float))
EACH_ROW(, F64, U64, (double))
EACH_ROW(, U64, F64, cr_double_to_u64)
EACH_ROW(CR_WIDE, C64, C32, complex_widen)
EACH_ROW(CR_WIDE, C32, C64, complex_halve)
EACH_ROW(CR_WIDE, F32, E4M3FN, e4m3fn_to_float)
EACH_ROW(CR_WIDE, E4M3FN, F32, e4m3fn_from_float)
EACH_ROW(CR_WIDE, F32, E5M2, e5m2_to_float)
EACH_ROW(CR_WIDE, E5M2, F32, e5m2_from_float)
EACH_ROW(CR_WIDE, F32, E4M3FNUZ, e4m3fnuz_to_float)
EACH_ROW(CR_WIDE, E4M3FNUZ, F32, e4m3fnuz_from_float)
EACH_ROW(CR_WIDE, F32, E5M2FNUZ, e5m2fnuz_to_float)
EACH_ROW(CR_WIDE, E5M2FNUZ, F32, e5m2fnuz_from_float)
EACH_ROW(CR_WIDE, F32, E8M0FNU, e8m0fnu_to_float)
EACH_ROW(CR_WIDE, E8M0FNU, F32, e8m0fnu_from_float)

/* The dtype with kernels between `stored` and `other`; `reads`: `stored` is the source. */
static cr_dtype via_dtype(cr_dtype stored, cr_dtype other, bool reads)
{
    bool inexact = cr_dtype_is_inexact(other);

    switch (stored) {
    case CR_U32:
        if (!inexact || reads)
            return CR_I64;
        return other >= CR_BF16 && other <= CR_C128 ? CR_F64 : CR_I64; /* torch's bits */
    case CR_U64:
        if (!inexact)
            return CR_I64;
        return !reads || other == CR_F64 || other == CR_C128 ? CR_F64 : CR_F32;
    default: return cr_dtype_compute(stored);
    }
}

enum { VIA_BLOCK = 256 };

/* One step through a buffer in the next dtype; the rest of the way starts from there. */
CR_NOINLINE static void convert_via(cr_dtype t, void *to, int64_t to_step, cr_dtype f,
                                    const void *from, int64_t from_step, int64_t n)
{
    cr_complex buffer[VIA_BLOCK];
    cr_dtype via = cr_dtype_is_stored(f) ? via_dtype(f, t, true) : via_dtype(t, f, false);
    int64_t step = (int64_t)cr_dtype_size(via);

    for (int64_t i = 0; i < n; i += VIA_BLOCK) {
        int64_t some = n - i < VIA_BLOCK ? n - i : VIA_BLOCK;
        cr_convert_row(via, f)(buffer, step, (const char *)from + i * from_step, from_step,
                               some);
        cr_convert_row(t, via)((char *)to + i * to_step, to_step, buffer, step, some);
    }
}

#define VIA(T, F)                                                                              \
    static void T##_from_##F(void *to, int64_t to_step, const void *from, int64_t from_step,   \
                             int64_t n)                                                        \
    {                                                                                          \
        convert_via(CR_##T, to, to_step, CR_##F, from, from_step, n);                          \
    }

#define VIA_BOTH(S, K) VIA(S, K) VIA(K, S)
/* With the dtypes that no dtype without kernels is converted to directly. */
#define VIA_COMMON(S)                                                                          \
    VIA_BOTH(S, BOOL)                                                                          \
    VIA_BOTH(S, U8)                                                                            \
    VIA_BOTH(S, I8)                                                                            \
    VIA_BOTH(S, I16) VIA_BOTH(S, F16) VIA_BOTH(S, BF16) VIA_BOTH(S, C128)
#define VIA_FLOAT8(S)                                                                          \
    VIA_COMMON(S) VIA_BOTH(S, I32) VIA_BOTH(S, I64) VIA_BOTH(S, F64) VIA_BOTH(S, C64)
#define VIA_STORED(T)                                                                          \
    VIA(T, U16)                                                                                \
    VIA(T, U32)                                                                                \
    VIA(T, U64)                                                                                \
    VIA(T, C32)                                                                                \
    VIA(T, E4M3FN)                                                                             \
    VIA(T, E5M2) VIA(T, E4M3FNUZ) VIA(T, E5M2FNUZ) VIA(T, E8M0FNU)

/* clang-format off */
VIA_COMMON(U16) VIA_BOTH(U16, I64) VIA_BOTH(U16, F32) VIA_BOTH(U16, F64) VIA_BOTH(U16, C64)
VIA_COMMON(U32) VIA_BOTH(U32, I32) VIA_BOTH(U32, F32) VIA_BOTH(U32, C64) VIA(F64, U32)
VIA_COMMON(U64) VIA_BOTH(U64, I32) VIA_BOTH(U64, C64) VIA(U64, F32)
VIA_COMMON(C32) VIA_BOTH(C32, I32) VIA_BOTH(C32, I64) VIA_BOTH(C32, F32) VIA_BOTH(C32, F64)
VIA_FLOAT8(E4M3FN)
VIA_FLOAT8(E5M2)
VIA_FLOAT8(E4M3FNUZ)
VIA_FLOAT8(E5M2FNUZ)
VIA_FLOAT8(E8M0FNU)
VIA_STORED(U16)
VIA_STORED(U32)
VIA_STORED(U64)
VIA_STORED(C32)
VIA_STORED(E4M3FN)
VIA_STORED(E5M2)
VIA_STORED(E4M3FNUZ)
VIA_STORED(E5M2FNUZ)
VIA_STORED(E8M0FNU)
/* clang-format on */

#define LINE(T)                                                                                \
    {                                                                                          \
        [CR_BOOL] = T##_from_BOOL, [CR_U8] = T##_from_U8, [CR_I8] = T##_from_I8,               \
        [CR_I16] = T##_from_I16, [CR_I32] = T##_from_I32, [CR_I64] = T##_from_I64,             \
        [CR_F16] = T##_from_F16, [CR_BF16] = T##_from_BF16, [CR_F32] = T##_from_F32,           \
        [CR_F64] = T##_from_F64, [CR_C64] = T##_from_C64, [CR_C128] = T##_from_C128,           \
        [CR_U16] = T##_from_U16, [CR_U32] = T##_from_U32, [CR_U64] = T##_from_U64,             \
        [CR_C32] = T##_from_C32, [CR_E4M3FN] = T##_from_E4M3FN, [CR_E5M2] = T##_from_E5M2,     \
        [CR_E4M3FNUZ] = T##_from_E4M3FNUZ, [CR_E5M2FNUZ] = T##_from_E5M2FNUZ,                  \
        [CR_E8M0FNU] = T##_from_E8M0FNU                                                        \
    }

                            static const cr_convert_fn rows[CR_DTYPE_COUNT][CR_DTYPE_COUNT] = {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    [CR_##NAME] = LINE(NAME),
#include "num/dtype.def"
#undef CR_DTYPE
};

cr_convert_fn cr_convert_row(cr_dtype to, cr_dtype from)
{
    static const cr_convert_fn copiers[] = {
        [1] = copy_1, [2] = copy_2, [4] = copy_4, [8] = copy_8, [16] = copy_16};

    return to == from ? copiers[cr_dtype_size(to)] : rows[to][from];
}

/* Each element is written as a block of 64 bytes.  The blocks of the next elements overwrite
 * the bytes behind its copies. */
#define REPEAT(bytes, type)                                                                    \
    CR_WIDE static void repeat_##bytes(char *to, const char *from, int64_t step,               \
                                       int64_t times, int64_t n)                               \
    {                                                                                          \
        type block[64 / bytes], one;                                                           \
        int64_t i = 0;                                                                         \
        for (; (n - i) * times * bytes >= 64; i++) {                                           \
            memcpy(&one, from + i * step, bytes);                                              \
            for (int k = 0; k < 64 / bytes; k++)                                               \
                block[k] = one;                                                                \
            memcpy(to + i * times * bytes, block, sizeof block);                               \
        }                                                                                      \
        for (; i < n; i++)                                                                     \
            for (int64_t k = 0; k < times; k++)                                                \
                memcpy(to + (i * times + k) * bytes, from + i * step, bytes);                  \
    }
REPEAT(4, uint32_t)
REPEAT(8, uint64_t)

bool cr_repeat_items(void *to, const void *from, int64_t item, int64_t step, int64_t times,
                     int64_t n)
{
    if ((item != 4 && item != 8) || times * item > 64)
        return false;
    (item == 4 ? repeat_4 : repeat_8)(to, from, step, times, n);
    return true;
}

/* Blocks of few elements are transposed in registers.  A strip of rows is as high as a cache
 * line of results, which is written at once. */
enum { STRIP = 16 };

typedef uint32_t four_32 __attribute__((vector_size(16)));
typedef uint64_t two_64 __attribute__((vector_size(16)));

static inline void block_4(char *to, int64_t to_down, const char *from, int64_t from_down)
{
    four_32 a, b, c, d;

    memcpy(&a, from, sizeof a);
    memcpy(&b, from + from_down, sizeof b);
    memcpy(&c, from + 2 * from_down, sizeof c);
    memcpy(&d, from + 3 * from_down, sizeof d);
    four_32 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5),
            cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    four_32 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
            cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    a = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    b = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
    memcpy(to, &a, sizeof a);
    memcpy(to + to_down, &b, sizeof b);
    memcpy(to + 2 * to_down, &c, sizeof c);
    memcpy(to + 3 * to_down, &d, sizeof d);
}

static inline void block_8(char *to, int64_t to_down, const char *from, int64_t from_down)
{
    two_64 a, b, low, high;

    memcpy(&a, from, sizeof a);
    memcpy(&b, from + from_down, sizeof b);
    low = __builtin_shufflevector(a, b, 0, 2);
    high = __builtin_shufflevector(a, b, 1, 3);
    memcpy(to, &low, sizeof low);
    memcpy(to + to_down, &high, sizeof high);
}

/* Elements of rows [row, end) and columns [column, last), one at a time. */
#define TRANSPOSE(bytes, side)                                                                 \
    static void single_##bytes(char *to, int64_t to_down, const char *from, int64_t from_down, \
                               int64_t row, int64_t end, int64_t column, int64_t last)         \
    {                                                                                          \
        for (int64_t c = column; c < last; c++)                                                \
            for (int64_t r = row; r < end; r++)                                                \
                memcpy(to + c * to_down + r * bytes, from + r * from_down + c * bytes, bytes); \
    }                                                                                          \
    static void strip_##bytes(char *to, int64_t to_down, const char *from, int64_t from_down,  \
                              int64_t first, int64_t end, int64_t columns)                     \
    {                                                                                          \
        int64_t whole = first + (end - first) / side * side, across = columns / side * side;   \
        for (int64_t c = 0; c < across; c += side)                                             \
            for (int64_t r = first; r < whole; r += side)                                      \
                block_##bytes(to + c * to_down + r * bytes, to_down,                           \
                              from + r * from_down + c * bytes, from_down);                    \
        single_##bytes(to, to_down, from, from_down, first, whole, across, columns);           \
        single_##bytes(to, to_down, from, from_down, whole, end, 0, columns);                  \
    }
TRANSPOSE(4, 4)
TRANSPOSE(8, 2)

bool cr_transpose_items(char *to, int64_t to_down, const char *from, int64_t from_down,
                        int64_t item, int64_t high, int64_t columns)
{
    if (item != 4 && item != 8)
        return false;
    for (int64_t r = 0; r < high; r += STRIP) {
        int64_t end = r + STRIP < high ? r + STRIP : high;
        (item == 4 ? strip_4 : strip_8)(to, to_down, from, from_down, r, end, columns);
    }
    return true;
}
