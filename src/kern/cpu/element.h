/* element.h - reads and writes elements of every dtype, for kernels that are written once.
 *
 * For each dtype suffix: wide_<suffix> is the type for arithmetic, sum_<suffix> the type for
 * long sums (torch's choice on the CPU: double for floats); load_<suffix> and store_<suffix>
 * convert.  (The suffix of bool is b8, because bool is a macro.)  CR_ALL_TYPES(M) and the
 * narrower lists apply M to suffixes. */
#ifndef CR_KERN_ELEMENT_H
#define CR_KERN_ELEMENT_H

#include "num/view.h"
#include <complex.h>
#include <math.h>
#include <string.h>

#define CR_INT_TYPES(M)     M(b8) M(u8) M(i8) M(i16) M(i32) M(i64)
#define CR_FLOAT_TYPES(M)   M(f16) M(bf16) M(f32) M(f64)
#define CR_COMPLEX_TYPES(M) M(c64) M(c128)
#define CR_REAL_TYPES(M)    CR_INT_TYPES(M) CR_FLOAT_TYPES(M)
#define CR_ALL_TYPES(M)     CR_REAL_TYPES(M) CR_COMPLEX_TYPES(M)

/* A table with one function per dtype, in the order of dtype.def. */
#define CR_TYPE_TABLE(name, M)                                                                 \
    [CR_BOOL] = name##_b8, [CR_U8] = name##_u8, [CR_I8] = name##_i8, [CR_I16] = name##_i16,    \
    [CR_I32] = name##_i32, [CR_I64] = name##_i64 M(name)
#define CR_AND_FLOATS(name)                                                                    \
    , [CR_F16] = name##_f16, [CR_BF16] = name##_bf16, [CR_F32] = name##_f32,                   \
      [CR_F64] = name##_f64
#define CR_AND_FLOATS_AND_COMPLEX(name)                                                        \
    CR_AND_FLOATS(name), [CR_C64] = name##_c64, [CR_C128] = name##_c128

typedef uint8_t item_b8, item_u8;
typedef int8_t item_i8;
typedef int16_t item_i16;
typedef int32_t item_i32;
typedef int64_t item_i64;
typedef uint16_t item_f16, item_bf16;
typedef float item_f32;
typedef double item_f64;
typedef cr_complex_float item_c64;
typedef cr_complex item_c128;

typedef int64_t wide_b8, wide_u8, wide_i8, wide_i16, wide_i32, wide_i64;
typedef float wide_f16, wide_bf16, wide_f32;
typedef double wide_f64;
typedef double _Complex wide_c64, wide_c128;

typedef int64_t sum_b8, sum_u8, sum_i8, sum_i16, sum_i32, sum_i64;
typedef float sum_f16, sum_bf16;
typedef double sum_f32, sum_f64;
typedef double _Complex sum_c64, sum_c128;

static inline wide_b8 load_b8(const void *p) { return *(const uint8_t *)p != 0; }
static inline wide_u8 load_u8(const void *p) { return *(const uint8_t *)p; }
static inline wide_i8 load_i8(const void *p) { return *(const int8_t *)p; }
static inline wide_i16 load_i16(const void *p) { return *(const int16_t *)p; }
static inline wide_i32 load_i32(const void *p) { return *(const int32_t *)p; }
static inline wide_i64 load_i64(const void *p) { return *(const int64_t *)p; }
static inline wide_f16 load_f16(const void *p)
{
    return cr_half_to_float(*(const uint16_t *)p);
}
static inline wide_bf16 load_bf16(const void *p)
{
    uint32_t bits = (uint32_t) * (const uint16_t *)p << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline wide_f32 load_f32(const void *p) { return *(const float *)p; }
static inline wide_f64 load_f64(const void *p) { return *(const double *)p; }

/* C11 can combine any real and imaginary part only through the memory layout. */
static inline double _Complex cr_join_complex(double re, double im)
{
    double part[2] = {re, im};
    double _Complex z;

    memcpy(&z, part, sizeof z);
    return z;
}
static inline wide_c64 load_c64(const void *p)
{
    const cr_complex_float *c = p;

    return cr_join_complex((double)c->re, (double)c->im);
}
static inline wide_c128 load_c128(const void *p)
{
    const cr_complex *c = p;

    return cr_join_complex(c->re, c->im);
}

/* Integers wrap as torch's do. */
static inline void store_b8(void *p, int64_t x) { *(uint8_t *)p = x != 0; }
static inline void store_u8(void *p, int64_t x) { *(uint8_t *)p = (uint8_t)x; }
static inline void store_i8(void *p, int64_t x) { *(int8_t *)p = (int8_t)x; }
static inline void store_i16(void *p, int64_t x) { *(int16_t *)p = (int16_t)x; }
static inline void store_i32(void *p, int64_t x) { *(int32_t *)p = (int32_t)x; }
static inline void store_i64(void *p, int64_t x) { *(int64_t *)p = x; }
static inline void store_f16(void *p, float x) { *(uint16_t *)p = cr_float_to_half(x); }
static inline void store_bf16(void *p, float x) { *(uint16_t *)p = cr_float_to_bfloat(x); }
static inline void store_f32(void *p, float x) { *(float *)p = x; }
static inline void store_f64(void *p, double x) { *(double *)p = x; }
static inline void store_c64(void *p, double _Complex z)
{
    *(cr_complex_float *)p = (cr_complex_float){(float)creal(z), (float)cimag(z)};
}
static inline void store_c128(void *p, double _Complex z)
{
    *(cr_complex *)p = (cr_complex){creal(z), cimag(z)};
}

/* Integer sums and products wrap; C allows that for unsigned integers only. */
static inline int64_t cr_wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t cr_wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* An element of an index tensor: int32 or int64. */
static inline int64_t cr_index_at(const char *p, bool is32)
{
    return is32 ? *(const int32_t *)p : *(const int64_t *)p;
}

#endif
