/* Element types, promotion, scalars, half types. */
#include "num/dtype.h"
#include "num/view.h"
#include <math.h>
#include <string.h>

const cr_dtype_info cr_dtype_infos[CR_DTYPE_COUNT] = {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    [CR_##NAME] = {torch, legacy, alias, #suffix, bytes, CR_CAT_##category},
#include "num/dtype.def"
#undef CR_DTYPE
};

cr_dtype cr_dtype_real(cr_dtype t) { return t == CR_C64 ? CR_F32 : t == CR_C128 ? CR_F64 : t; }

cr_dtype cr_dtype_complex(cr_dtype t)
{
    return t == CR_F64 ? CR_C128 : cr_dtype_is_float(t) ? CR_C64 : t;
}

cr_dtype cr_dtype_compute(cr_dtype t)
{
    if (t == CR_F16 || t == CR_BF16)
        return CR_F32;
    return t == CR_I8 || t == CR_I16 ? CR_I32 : t;
}

static cr_dtype promote_same_category(cr_dtype low, cr_dtype high)
{
    if (low == CR_F16 && high == CR_BF16)
        return CR_F32;
    return low == CR_U8 && high == CR_I8 ? CR_I16 : high;
}

cr_dtype cr_promote(cr_dtype a, cr_dtype b)
{
    cr_dtype low = a < b ? a : b, high = a < b ? b : a;

    if (a == b)
        return a;
    if (cr_dtype_category(low) == cr_dtype_category(high))
        return promote_same_category(low, high);
    if (cr_dtype_is_complex(high))
        return low == CR_F64 ? CR_C128 : high;
    return high;
}

bool cr_can_cast(cr_dtype from, cr_dtype to)
{
    cr_category f = cr_dtype_category(from), t = cr_dtype_category(to);

    if (f == CR_CAT_COMPLEX && t != CR_CAT_COMPLEX)
        return false;
    if (f == CR_CAT_FLOAT && t < CR_CAT_FLOAT)
        return false;
    return !(f != CR_CAT_BOOL && t == CR_CAT_BOOL);
}

cr_dtype cr_dtype_find(const char *name)
{
    for (int i = 0; i < CR_DTYPE_COUNT; i++) {
        const cr_dtype_info *d = &cr_dtype_infos[i];
        if (!strcmp(d->name, name) || !strcmp(d->suffix, name) ||
            (d->alias && !strcmp(d->alias, name)))
            return (cr_dtype)i;
    }
    return CR_DTYPE_NONE;
}

double cr_scalar_as_double(cr_scalar s)
{
    switch (s.category) {
    case CR_CAT_FLOAT: return s.d;
    case CR_CAT_COMPLEX: return s.c.re;
    default: return (double)s.i;
    }
}

/* A value that does not fit becomes INT64_MIN, as on x86. */
static int64_t double_to_int(double d)
{
    return d >= -9223372036854775808.0 && d < 9223372036854775808.0 ? (int64_t)d : INT64_MIN;
}

int64_t cr_scalar_as_int(cr_scalar s)
{
    switch (s.category) {
    case CR_CAT_FLOAT: return double_to_int(s.d);
    case CR_CAT_COMPLEX: return double_to_int(s.c.re);
    default: return s.i;
    }
}

cr_complex cr_scalar_as_complex(cr_scalar s)
{
    return s.category == CR_CAT_COMPLEX ? s.c : (cr_complex){cr_scalar_as_double(s), 0};
}

const char *cr_dtype_cpp_name(cr_dtype t)
{
    static const char *const names[CR_DTYPE_COUNT] = {
        [CR_BOOL] = "bool",
        [CR_U8] = "unsigned char",
        [CR_I8] = "signed char",
        [CR_I16] = "short int",
        [CR_I32] = "int",
        [CR_I64] = "long int",
        [CR_F16] = "c10::Half",
        [CR_BF16] = "c10::BFloat16",
        [CR_F32] = "float",
        [CR_F64] = "double",
        [CR_C64] = "c10::complex<float>",
        [CR_C128] = "c10::complex<double>",
    };
    return names[t];
}

const char *cr_dtype_scalar_name(cr_dtype t)
{
    switch (t) {
    case CR_U8: return "uint8_t";
    case CR_I8: return "int8_t";
    case CR_I16: return "int16_t";
    case CR_I64: return "int64_t";
    default: return cr_dtype_cpp_name(t);
    }
}

bool cr_scalar_is_nonzero(cr_scalar s)
{
    switch (s.category) {
    case CR_CAT_FLOAT: return s.d != 0;
    case CR_CAT_COMPLEX: return s.c.re != 0 || s.c.im != 0;
    default: return s.i != 0;
    }
}

static cr_complex_float complex_narrow(cr_complex c)
{
    return (cr_complex_float){(float)c.re, (float)c.im};
}

void cr_scalar_store(cr_scalar s, cr_dtype t, void *element)
{
    switch (t) {
    case CR_BOOL: *(uint8_t *)element = cr_scalar_is_nonzero(s); break;
    case CR_U8: *(uint8_t *)element = (uint8_t)cr_scalar_as_int(s); break;
    case CR_I8: *(int8_t *)element = (int8_t)cr_scalar_as_int(s); break;
    case CR_I16: *(int16_t *)element = (int16_t)cr_scalar_as_int(s); break;
    case CR_I32: *(int32_t *)element = (int32_t)cr_scalar_as_int(s); break;
    case CR_I64: *(int64_t *)element = cr_scalar_as_int(s); break;
    case CR_F16: *(uint16_t *)element = cr_float_to_half((float)cr_scalar_as_double(s)); break;
    case CR_BF16:
        *(uint16_t *)element = cr_float_to_bfloat((float)cr_scalar_as_double(s));
        break;
    case CR_F32: *(float *)element = (float)cr_scalar_as_double(s); break;
    case CR_F64: *(double *)element = cr_scalar_as_double(s); break;
    case CR_C64: *(cr_complex_float *)element = complex_narrow(cr_scalar_as_complex(s)); break;
    case CR_C128: *(cr_complex *)element = cr_scalar_as_complex(s); break;
    default: CR_ASSERT(!"dtype");
    }
}

static cr_scalar complex_scalar(double re, double im)
{
    return (cr_scalar){.category = CR_CAT_COMPLEX, .c = {re, im}};
}

cr_scalar cr_scalar_load(cr_dtype t, const void *element)
{
    const cr_complex_float *c = element;
    const cr_complex *z = element;

    switch (t) {
    case CR_BOOL:
        return (cr_scalar){.category = CR_CAT_BOOL, .i = *(const uint8_t *)element != 0};
    case CR_U8: return cr_scalar_int(*(const uint8_t *)element);
    case CR_I8: return cr_scalar_int(*(const int8_t *)element);
    case CR_I16: return cr_scalar_int(*(const int16_t *)element);
    case CR_I32: return cr_scalar_int(*(const int32_t *)element);
    case CR_I64: return cr_scalar_int(*(const int64_t *)element);
    case CR_F16: return cr_scalar_float((double)cr_half_to_float(*(const uint16_t *)element));
    case CR_BF16:
        return cr_scalar_float((double)cr_bfloat_to_float(*(const uint16_t *)element));
    case CR_F32: return cr_scalar_float((double)*(const float *)element);
    case CR_F64: return cr_scalar_float(*(const double *)element);
    case CR_C64: return complex_scalar((double)c->re, (double)c->im);
    case CR_C128: return complex_scalar(z->re, z->im);
    default: CR_ASSERT(!"dtype"); return cr_scalar_int(0);
    }
}

static bool int_fits(double d, cr_dtype t)
{
    static const double low[] = {[CR_U8] = 0,
                                 [CR_I8] = -128,
                                 [CR_I16] = -32768,
                                 [CR_I32] = -2147483648.0,
                                 [CR_I64] = -9223372036854775808.0};
    static const double high[] = {[CR_U8] = 255,
                                  [CR_I8] = 127,
                                  [CR_I16] = 32767,
                                  [CR_I32] = 2147483647.0,
                                  [CR_I64] = 9223372036854774784.0};
    /* torch accepts a negative number for uint8 when its absolute value fits */
    return t == CR_U8 ? fabs(d) <= 255 : d >= low[t] && d <= high[t];
}

bool cr_scalar_fits(cr_scalar s, cr_dtype t)
{
    double d = cr_scalar_as_double(s), largest;

    if (s.category == CR_CAT_COMPLEX && t > CR_BOOL && !cr_dtype_is_complex(t) && s.c.im != 0)
        return false;
    if (cr_dtype_category(t) == CR_CAT_INT)
        return t == CR_I64 && s.category <= CR_CAT_INT ? true : int_fits(d, t);
    largest = t == CR_F16                  ? 65504.0
              : t == CR_BF16               ? 3.3895313892515355e38
              : t == CR_F32 || t == CR_C64 ? 3.4028234663852886e38
                                           : HUGE_VAL;
    return t == CR_BOOL || isinf(d) || isnan(d) || fabs(d) <= largest;
}

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float cr_bfloat_to_float(uint16_t h) { return bits_float((uint32_t)h << 16); }

uint16_t cr_float_to_bfloat(float f)
{
    uint32_t u = float_bits(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float cr_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;

    if (rest >= 0x7c00u) /* infinity, NaN */
        return bits_float(sign | 0x7f800000u | rest << 13);
    if (rest >= 0x0400u)
        return bits_float(sign | ((rest << 13) + 0x38000000u));
    float tiny = (float)rest * 0x1p-24f;
    return bits_float(float_bits(tiny) | sign);
}

uint16_t cr_float_to_half(float f)
{
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;

    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* subnormal: adding 0.5 rounds at 2^-24 */
        float sum = bits_float(rest) + 0.5f;
        return (uint16_t)(sign | (float_bits(sum) - float_bits(0.5f)));
    }
    return (uint16_t)(sign | ((rest + 0xc8000fffu + (rest >> 13 & 1)) >> 13));
}

const char *const cr_format_names[CR_FORMAT_COUNT] = {
    [CR_FORMAT_CONTIGUOUS] = "contiguous_format",
    [CR_FORMAT_PRESERVE] = "preserve_format",
    [CR_FORMAT_CHANNELS_LAST] = "channels_last",
    [CR_FORMAT_CHANNELS_LAST_3D] = "channels_last_3d",
};
