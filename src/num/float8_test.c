/* The float8 formats against a search for the nearest value. */
#include "base/test.h"
#include "num/convert.h"
#include <math.h>
#include <string.h>

typedef struct {
    cr_dtype dtype;
    int mantissa, bias;
    int last;     /* the code of the largest number */
    int overflow; /* the code of larger numbers; 0x80 is without sign */
    int nan_code;
} format;

static const format formats[] = {
    {CR_E4M3FN, 3, 7, 0x7e, 0x7e, 0x7f},
    {CR_E5M2, 2, 15, 0x7b, 0x7c, 0x7f},
    {CR_E4M3FNUZ, 3, 8, 0x7f, 0x80, 0x80},
    {CR_E5M2FNUZ, 2, 16, 0x7f, 0x80, 0x80},
};

static float float_of(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint8_t encoded(cr_dtype t, float f)
{
    uint8_t code;

    cr_convert_row(t, CR_F32)(&code, 1, &f, 4, 1);
    return code;
}

/* The value of a code without sign, by the definition of the format; codes may go beyond the
 * format's last. */
static double value_of(const format *f, int code)
{
    int ones = (1 << f->mantissa) - 1, exponent = code >> f->mantissa;
    double m = (code & ones) / (double)(ones + 1);

    return exponent ? ldexp(1 + m, exponent - f->bias) : ldexp(m, 1 - f->bias);
}

/* The code whose value is nearest to the magnitude; of two, the even one. */
static int nearest(const format *f, double magnitude)
{
    int best = 0;

    for (int code = 1; code <= f->last + 1; code++) {
        double d = fabs(magnitude - value_of(f, code));
        double least = fabs(magnitude - value_of(f, best));
        if (d < least || (d == least && code % 2 == 0))
            best = code;
    }
    return best > f->last ? f->overflow : best;
}

static int expected(const format *f, float x)
{
    bool zero_has_sign = f->nan_code != 0x80;
    int code = isnan(x) ? f->nan_code : isinf(x) ? f->overflow : nearest(f, fabs((double)x));

    return signbit(x) && (code ? code != 0x80 : zero_has_sign) ? code | 0x80 : code;
}

TEST(float8_rounds_to_the_nearest)
{
    for (size_t k = 0; k < CR_LEN(formats); k++)
        for (uint32_t top = 0; top < 0x10000; top += 3) {
            float x = float_of(top << 16), between = float_of(top << 16 | 0x8000u);
            EQ(encoded(formats[k].dtype, x), expected(&formats[k], x));
            EQ(encoded(formats[k].dtype, between), expected(&formats[k], between));
        }
}

TEST(float8_widens_to_its_value)
{
    for (size_t k = 0; k < CR_LEN(formats); k++)
        for (int code = 0; code <= formats[k].last; code++) {
            uint8_t both[2] = {(uint8_t)code, (uint8_t)(code | 0x80)};
            float f[2];
            cr_convert_row(CR_F32, formats[k].dtype)(f, 4, both, 1, 2);
            CHECK((double)f[0] == value_of(&formats[k], code));
            CHECK((double)f[1] == -value_of(&formats[k], code) ||
                  (both[1] == 0x80 && formats[k].nan_code == 0x80 && isnan(f[1])));
        }
}

TEST(e8m0fnu_is_the_nearest_power_of_two)
{
    for (int e = 1; e < 0xff; e++) {
        float f = float_of((uint32_t)e << 23);
        EQ(encoded(CR_E8M0FNU, f), e);
        EQ(encoded(CR_E8M0FNU, -f * 1.25f), e);
        EQ(encoded(CR_E8M0FNU, f * 1.5f), e + 1);
    }
    EQ(encoded(CR_E8M0FNU, 0.0f), 0);
    EQ(encoded(CR_E8M0FNU, INFINITY), 0xff);
    EQ(encoded(CR_E8M0FNU, NAN), 0xff);
}

TEST(unsigned_integers_hold_their_whole_range)
{
    CHECK(cr_double_to_u32(4294967295.0) == 4294967295u);
    CHECK(cr_double_to_u32(-1.0) == 4294967295u);
    CHECK(cr_double_to_u64(18446744073709549568.0) == 18446744073709549568u);
    cr_scalar large = {.category = CR_CAT_INT, .large = true, .i = -1};
    uint64_t stored;
    cr_scalar_store(large, CR_U64, &stored);
    CHECK(stored == UINT64_MAX);
    CHECK(cr_scalar_load(CR_U64, &stored).large);
    CHECK(cr_scalar_as_double(large) == 0x1p64);
    CHECK(!cr_scalar_fits(large, CR_I64) && cr_scalar_fits(large, CR_U64));
}
