/* Reductions by dtype and operation.  Half types and float8 are added in float32 and rounded
 * once for each pair of ranks.  bool adds by "or" and multiplies by "and". */
#include "comm/reduce.h"
#include "num/convert.h"

const char *cr_reduce_name(cr_reduce_op op)
{
    static const char *const names[] = {
#define CR_REDUCE(NAME, name) name,
#include "comm/reduce.def"
#undef CR_REDUCE
    };
    return names[op];
}

static bool is_bitwise(cr_reduce_op op)
{
    return op == CR_REDUCE_BAND || op == CR_REDUCE_BOR || op == CR_REDUCE_BXOR;
}

cr_status cr_reduce_check(cr_reduce_op op, cr_dtype dtype)
{
    bool inexact = cr_dtype_is_inexact(dtype);
    bool refused = is_bitwise(op)                               ? inexact
                   : op == CR_REDUCE_AVG                        ? dtype == CR_BOOL
                   : op == CR_REDUCE_PREMUL_SUM                 ? !inexact
                   : op == CR_REDUCE_MIN || op == CR_REDUCE_MAX ? cr_dtype_is_complex(dtype)
                                                                : false;

    refused |= dtype == CR_C32 || (cr_dtype_is_float8(dtype) && op != CR_REDUCE_SUM &&
                                   op != CR_REDUCE_MAX && op != CR_REDUCE_MIN);
    return refused ? cr_fail(CR_VALUE, "ReduceOp.%s is not defined for tensors of dtype %s",
                             cr_reduce_name(op), cr_dtype_name(dtype))
                   : CR_OK;
}

#define ADD(x, y)      ((x) + (y))
#define MULTIPLY(x, y) ((x) * (y))
#define SMALLER(x, y)  ((y) < (x) ? (y) : (x))
#define LARGER(x, y)   ((y) > (x) ? (y) : (x))
/* NaN wins over any number. */
#define SMALLER_OR_NAN(x, y) ((y) < (x) || (y) != (y) ? (y) : (x))
#define LARGER_OR_NAN(x, y)  ((y) > (x) || (y) != (y) ? (y) : (x))
#define AND(x, y)            ((x) & (y))
#define OR(x, y)             ((x) | (y))
#define XOR(x, y)            ((x) ^ (y))

#define LOOP(T, FN)                                                                            \
    do {                                                                                       \
        T *o = out;                                                                            \
        const T *x = a, *y = b;                                                                \
        CR_SIMD for (int64_t i = 0; i < n; i++) o[i] = (T)FN(x[i], y[i]);                      \
    } while (0)

#define FOUR(T)                                                                                \
    switch (op) {                                                                              \
    case CR_REDUCE_PRODUCT: LOOP(T, MULTIPLY); return;                                         \
    case CR_REDUCE_MIN: LOOP(T, SMALLER_OR_NAN); return;                                       \
    case CR_REDUCE_MAX: LOOP(T, LARGER_OR_NAN); return;                                        \
    default: LOOP(T, ADD); return;                                                             \
    }

#define FLOATS(name, T)                                                                        \
    CR_WIDE static void name(cr_reduce_op op, void *out, const void *a, const void *b,         \
                             int64_t n)                                                        \
    {                                                                                          \
        FOUR(T)                                                                                \
    }
FLOATS(reduce_f32, float)
FLOATS(reduce_f64, double)

/* Unsigned arithmetic wraps; U is the type of sums, T that of comparisons. */
#define INTEGERS(name, T, U)                                                                   \
    CR_WIDE static void name(cr_reduce_op op, void *out, const void *a, const void *b,         \
                             int64_t n)                                                        \
    {                                                                                          \
        switch (op) {                                                                          \
        case CR_REDUCE_PRODUCT: LOOP(U, MULTIPLY); return;                                     \
        case CR_REDUCE_MIN: LOOP(T, SMALLER); return;                                          \
        case CR_REDUCE_MAX: LOOP(T, LARGER); return;                                           \
        case CR_REDUCE_BAND: LOOP(U, AND); return;                                             \
        case CR_REDUCE_BOR: LOOP(U, OR); return;                                               \
        case CR_REDUCE_BXOR: LOOP(U, XOR); return;                                             \
        default: LOOP(U, ADD); return;                                                         \
        }                                                                                      \
    }
INTEGERS(reduce_u8, uint8_t, uint8_t)
INTEGERS(reduce_i8, int8_t, uint8_t)
INTEGERS(reduce_i16, int16_t, uint16_t)
INTEGERS(reduce_i32, int32_t, uint32_t)
INTEGERS(reduce_i64, int64_t, uint64_t)
INTEGERS(reduce_u16, uint16_t, uint16_t)
INTEGERS(reduce_u32, uint32_t, uint32_t)
INTEGERS(reduce_u64, uint64_t, uint64_t)

CR_WIDE static void reduce_bool(cr_reduce_op op, void *out, const void *a, const void *b,
                                int64_t n)
{
    switch (op) {
    case CR_REDUCE_PRODUCT:
    case CR_REDUCE_MIN:
    case CR_REDUCE_BAND: LOOP(uint8_t, AND); return;
    case CR_REDUCE_BXOR: LOOP(uint8_t, XOR); return;
    default: LOOP(uint8_t, OR); return;
    }
}

#define COMPLEX(type, name, parts)                                                             \
    static void name(cr_reduce_op op, void *out, const void *a, const void *b, int64_t n)      \
    {                                                                                          \
        const type *x = a, *y = b;                                                             \
                                                                                               \
        if (op != CR_REDUCE_PRODUCT)                                                           \
            parts(op, out, a, b, 2 * n);                                                       \
        for (int64_t i = 0; op == CR_REDUCE_PRODUCT && i < n; i++)                             \
            ((type *)out)[i] = (type){x[i].re * y[i].re - x[i].im * y[i].im,                   \
                                      x[i].re * y[i].im + x[i].im * y[i].re};                  \
    }
COMPLEX(cr_complex_float, reduce_c64, reduce_f32)
COMPLEX(cr_complex, reduce_c128, reduce_f64)

/* Dtypes that are computed in float32, by parts. */
static void reduce_through_f32(cr_reduce_op op, cr_dtype dtype, void *out, const void *a,
                               const void *b, int64_t n)
{
    enum { PART = 512 };
    float x[PART], y[PART];
    size_t size = cr_dtype_size(dtype);
    cr_convert_fn load = cr_convert_row(CR_F32, dtype), store = cr_convert_row(dtype, CR_F32);

    for (int64_t i = 0; i < n; i += PART) {
        int64_t m = n - i < PART ? n - i : PART;
        size_t at = (size_t)i * size;
        load(x, 4, (const char *)a + at, (int64_t)size, m);
        load(y, 4, (const char *)b + at, (int64_t)size, m);
        reduce_f32(op, x, x, y, m);
        store((char *)out + at, (int64_t)size, x, 4, m);
    }
}

void cr_reduce(cr_reduce_op op, cr_dtype dtype, void *out, const void *a, const void *b,
               int64_t n)
{
    switch (dtype) {
    case CR_BOOL: reduce_bool(op, out, a, b, n); return;
    case CR_U8: reduce_u8(op, out, a, b, n); return;
    case CR_I8: reduce_i8(op, out, a, b, n); return;
    case CR_I16: reduce_i16(op, out, a, b, n); return;
    case CR_I32: reduce_i32(op, out, a, b, n); return;
    case CR_I64: reduce_i64(op, out, a, b, n); return;
    case CR_U16: reduce_u16(op, out, a, b, n); return;
    case CR_U32: reduce_u32(op, out, a, b, n); return;
    case CR_U64: reduce_u64(op, out, a, b, n); return;
    case CR_F32: reduce_f32(op, out, a, b, n); return;
    case CR_F64: reduce_f64(op, out, a, b, n); return;
    case CR_C64: reduce_c64(op, out, a, b, n); return;
    case CR_C128: reduce_c128(op, out, a, b, n); return;
    default: reduce_through_f32(op, dtype, out, a, b, n); return;
    }
}

static void scale_half(cr_dtype dtype, char *at, int64_t n, double factor)
{
    size_t size = cr_dtype_size(dtype);
    cr_convert_fn load = cr_convert_row(CR_F32, dtype), store = cr_convert_row(dtype, CR_F32);

    for (int64_t i = 0; i < n; i++, at += size) {
        float x;
        load(&x, 4, at, (int64_t)size, 1);
        x *= (float)factor;
        store(at, (int64_t)size, &x, 4, 1);
    }
}

CR_WIDE static void scale_f32(float *at, int64_t n, float factor)
{
    CR_SIMD for (int64_t i = 0; i < n; i++) at[i] *= factor;
}

CR_WIDE static void scale_f64(double *at, int64_t n, double factor)
{
    CR_SIMD for (int64_t i = 0; i < n; i++) at[i] *= factor;
}

void cr_reduce_scale(cr_dtype dtype, void *at, int64_t n, double factor)
{
    cr_dtype real = cr_dtype_real(dtype);

    n = cr_dtype_is_complex(dtype) ? 2 * n : n;
    if (real == CR_F32)
        scale_f32(at, n, (float)factor);
    else if (real == CR_F64)
        scale_f64(at, n, factor);
    else
        scale_half(real, at, n, factor);
}

/* In `wide`, which holds the number of ranks. */
#define DIVIDE(T, wide)                                                                        \
    do {                                                                                       \
        T *x = at;                                                                             \
        for (int64_t i = 0; i < n; i++)                                                        \
            x[i] = (T)(x[i] / (wide)ranks);                                                    \
    } while (0)

void cr_reduce_average(cr_dtype dtype, void *at, int64_t n, int ranks)
{
    switch (dtype) {
    case CR_U8: DIVIDE(uint8_t, uint64_t); return;
    case CR_I8: DIVIDE(int8_t, int64_t); return;
    case CR_I16: DIVIDE(int16_t, int64_t); return;
    case CR_I32: DIVIDE(int32_t, int64_t); return;
    case CR_I64: DIVIDE(int64_t, int64_t); return;
    case CR_U16: DIVIDE(uint16_t, uint64_t); return;
    case CR_U32: DIVIDE(uint32_t, uint64_t); return;
    case CR_U64: DIVIDE(uint64_t, uint64_t); return;
    default: cr_reduce_scale(dtype, at, n, 1.0 / ranks); return;
    }
}
