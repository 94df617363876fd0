/* Element types, promotion, scalars, half types. */
#include "num/dtype.h"
#include "num/convert.h"
#include "num/float_bits.h"
#include "num/view.h"
#include <math.h>
#include <string.h>

const cr_dtype_info cr_dtype_infos[CR_DTYPE_COUNT] = {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    [CR_##NAME] = {torch, legacy, alias, #suffix, bytes, CR_CAT_##category},
#include "num/dtype.def"
#undef CR_DTYPE
};

bool cr_dtype_is_signed(cr_dtype t)
{
    return t != CR_BOOL && t != CR_U8 && t != CR_U16 && t != CR_U32 && t != CR_U64 &&
           t != CR_E8M0FNU;
}

cr_dtype cr_dtype_real(cr_dtype t)
{
    switch (t) {
    case CR_C32: return CR_F16;
    case CR_C64: return CR_F32;
    case CR_C128: return CR_F64;
    default: return t;
    }
}

cr_dtype cr_dtype_complex(cr_dtype t)
{
    if (cr_dtype_is_float8(t))
        return CR_DTYPE_NONE;
    if (t == CR_F16)
        return CR_C32;
    return t == CR_F64 ? CR_C128 : cr_dtype_is_float(t) ? CR_C64 : t;
}

cr_dtype cr_dtype_compute(cr_dtype t)
{
    switch (t) {
    case CR_F16:
    case CR_BF16: return CR_F32;
    case CR_I8:
    case CR_I16:
    case CR_U16: return CR_I32;
    case CR_U32:
    case CR_U64: return CR_I64;
    case CR_C32: return CR_C64;
    default: return cr_dtype_is_float8(t) ? CR_F32 : t;
    }
}

/* A stored dtype with a lower one. */
static cr_dtype promote_stored(cr_dtype low, cr_dtype stored)
{
    if (cr_dtype_is_float8(stored))
        return CR_DTYPE_NONE;
    if (stored != CR_C32)
        return cr_dtype_is_float(low) ? low : CR_DTYPE_NONE;
    if (cr_dtype_is_stored(low))
        return CR_DTYPE_NONE;
    if (cr_dtype_is_complex(low))
        return low;
    return cr_dtype_is_float(low) ? cr_dtype_complex(low) : CR_C32;
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
    if (cr_dtype_is_stored(high))
        return promote_stored(low, high);
    if (cr_dtype_category(low) == cr_dtype_category(high))
        return promote_same_category(low, high);
    if (cr_dtype_is_complex(high))
        return low == CR_F64 ? CR_C128 : high;
    return high;
}

cr_status cr_refuse_promotion(cr_dtype a, cr_dtype b)
{
    bool float8 = cr_dtype_is_float8(a) || cr_dtype_is_float8(b);

    return cr_fail(CR_RUNTIME,
                   "Promotion for %s is not supported, attempted to promote %s and %s",
                   float8 ? "Float8 Types" : "uint16, uint32, uint64 types",
                   cr_dtype_infos[a].legacy, cr_dtype_infos[b].legacy);
}

cr_status cr_promote_checked(cr_dtype *out, cr_dtype a, cr_dtype b)
{
    cr_dtype t = cr_promote(a, b);

    if (t == CR_DTYPE_NONE)
        return cr_refuse_promotion(a, b);
    *out = t;
    return CR_OK;
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
    for (int i = 0; name && i < CR_DTYPE_COUNT; i++) {
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
    default: return s.large ? (double)(uint64_t)s.i : (double)s.i;
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

int cr_dtype_number(cr_dtype t)
{
    static const uint8_t number[CR_DTYPE_COUNT] = {
        [CR_BOOL] = 11,   [CR_U8] = 0,      [CR_I8] = 1,        [CR_I16] = 2,
        [CR_I32] = 3,     [CR_I64] = 4,     [CR_F16] = 5,       [CR_BF16] = 15,
        [CR_F32] = 6,     [CR_F64] = 7,     [CR_C64] = 9,       [CR_C128] = 10,
        [CR_U16] = 27,    [CR_U32] = 28,    [CR_U64] = 29,      [CR_C32] = 8,
        [CR_E5M2] = 23,   [CR_E4M3FN] = 24, [CR_E5M2FNUZ] = 25, [CR_E4M3FNUZ] = 26,
        [CR_E8M0FNU] = 44};

    return number[t];
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
        [CR_U16] = "uint16_t",
        [CR_U32] = "uint32_t",
        [CR_U64] = "uint64_t",
        [CR_C32] = "c10::complex<c10::Half>",
        [CR_E4M3FN] = "c10::Float8_e4m3fn",
        [CR_E5M2] = "c10::Float8_e5m2",
        [CR_E4M3FNUZ] = "c10::Float8_e4m3fnuz",
        [CR_E5M2FNUZ] = "c10::Float8_e5m2fnuz",
        [CR_E8M0FNU] = "c10::Float8_e8m0fnu",
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

/* The dtype of which s.i, s.d or s.c is an element. */
static cr_dtype scalar_dtype(cr_scalar s)
{
    switch (s.category) {
    case CR_CAT_FLOAT: return CR_F64;
    case CR_CAT_COMPLEX: return CR_C128;
    default: return s.large ? CR_U64 : CR_I64;
    }
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
    default: cr_convert_row(t, scalar_dtype(s))(element, 0, &s.i, 0, 1);
    }
}

static cr_scalar complex_scalar(double re, double im)
{
    return (cr_scalar){.category = CR_CAT_COMPLEX, .c = {re, im}};
}

/* An element of a dtype without kernels. */
static cr_scalar load_stored(cr_dtype t, const void *element)
{
    static const cr_dtype wide[] = {
        [CR_CAT_INT] = CR_I64, [CR_CAT_FLOAT] = CR_F64, [CR_CAT_COMPLEX] = CR_C128};
    cr_scalar s = {.category = cr_dtype_category(t)};

    cr_convert_row(wide[s.category], t)(&s.i, 0, element, 0, 1);
    s.large = t == CR_U64 && s.i < 0;
    return s;
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
    default: return load_stored(t, element);
    }
}

static bool int_fits(cr_scalar s, cr_dtype t)
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
                                  [CR_I64] = 9223372036854774784.0,
                                  [CR_U16] = 65535,
                                  [CR_U32] = 4294967295.0,
                                  [CR_U64] = 18446744073709549568.0};
    double d = cr_scalar_as_double(s);

    if ((t == CR_I64 || t == CR_U64) && s.category <= CR_CAT_INT)
        return t == CR_U64 || !s.large;
    /* torch accepts a negative integer for an unsigned dtype when its absolute value fits */
    if (!cr_dtype_is_signed(t) && s.category > CR_CAT_INT)
        return d >= 0 && d <= high[t];
    return cr_dtype_is_signed(t) ? d >= low[t] && d <= high[t] : fabs(d) <= high[t];
}

static bool float8_fits(cr_scalar s, cr_dtype t)
{
    static const double high[] = {[CR_E4M3FN] = 448,
                                  [CR_E5M2] = 57344,
                                  [CR_E4M3FNUZ] = 240,
                                  [CR_E5M2FNUZ] = 57344,
                                  [CR_E8M0FNU] = 0x1p127};
    double d = cr_scalar_as_double(s);

    if (isnan(d) || (isinf(d) && t == CR_E5M2))
        return true;
    if (t == CR_E8M0FNU) /* torch checks the lower end for floats only */
        return d <= high[t] && (s.category != CR_CAT_FLOAT || d >= 0x1p-127);
    return fabs(d) <= high[t];
}

static bool float_fits(double d, cr_dtype t)
{
    double largest = t == CR_F16                  ? 65504.0
                     : t == CR_BF16               ? 3.3895313892515355e38
                     : t == CR_F32 || t == CR_C64 ? 3.4028234663852886e38
                                                  : HUGE_VAL;
    return isinf(d) || isnan(d) || fabs(d) <= largest;
}

bool cr_scalar_fits(cr_scalar s, cr_dtype t)
{
    cr_complex c = cr_scalar_as_complex(s);

    if (t > CR_BOOL && !cr_dtype_is_complex(t) && c.im != 0)
        return false;
    if (cr_dtype_category(t) == CR_CAT_INT)
        return int_fits(s, t);
    if (cr_dtype_is_float8(t))
        return float8_fits(s, t);
    return t == CR_BOOL || float_fits(c.re, t);
}

float cr_bfloat_to_float(uint16_t h) { return cr_float_of_bits((uint32_t)h << 16); }

uint16_t cr_float_to_bfloat(float f)
{
    uint32_t u = cr_bits_of_float(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float cr_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;

    if (rest >= 0x7c00u) /* infinity, NaN */
        return cr_float_of_bits(sign | 0x7f800000u | rest << 13);
    if (rest >= 0x0400u)
        return cr_float_of_bits(sign | ((rest << 13) + 0x38000000u));
    float tiny = (float)rest * 0x1p-24f;
    return cr_float_of_bits(cr_bits_of_float(tiny) | sign);
}

uint16_t cr_float_to_half(float f)
{
    uint32_t u = cr_bits_of_float(f), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;

    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* subnormal: adding 0.5 rounds at 2^-24 */
        float sum = cr_float_of_bits(rest) + 0.5f;
        return (uint16_t)(sign | (cr_bits_of_float(sum) - cr_bits_of_float(0.5f)));
    }
    return (uint16_t)(sign | ((rest + 0xc8000fffu + (rest >> 13 & 1)) >> 13));
}

const char *const cr_format_names[CR_FORMAT_COUNT] = {
    [CR_FORMAT_CONTIGUOUS] = "contiguous_format",
    [CR_FORMAT_PRESERVE] = "preserve_format",
    [CR_FORMAT_CHANNELS_LAST] = "channels_last",
    [CR_FORMAT_CHANNELS_LAST_3D] = "channels_last_3d",
};
