/* The vocabulary of files in C99: the functions of emit/vec*.h for one lane, as texts.
 *
 * A file has the words that it uses and those that these use, in this order. */
#include "compile/c_text.h"
#include <string.h>

typedef struct {
    const char *name, *text;
} word;

/* The order of sums and products in rows and columns, num/order.h, for one type. */
#define FOLD(T, t, fn, op, identity)                                                           \
    {"cv_block_row_" #fn "_" #t,                                                               \
     "static " #T " cv_block_row_" #fn "_" #t "(const " #T " *v, int64_t n)\n{\n"              \
     "    " #T " lane[8][64];\n"                                                               \
     "    int64_t chunks = n > 1024 ? (n + 1023) / 1024 : 1, c, i, left;\n"                    \
     "    int k, half, width = 64;\n\n"                                                        \
     "    while (width > 1 && width / 2 >= n)\n        width /= 2;\n"                          \
     "    for (c = 0; c < chunks; c++) {\n"                                                    \
     "        left = n - c * 1024 < 1024 ? n - c * 1024 : 1024;\n"                             \
     "        for (k = 0; k < width; k++)\n            lane[c][k] = " identity ";\n"           \
     "        for (i = 0; i + 64 <= left; i += 64)\n"                                          \
     "            for (k = 0; k < 64; k++)\n"                                                  \
     "                lane[c][k] = lane[c][k] " op " v[c * 1024 + i + k];\n"                   \
     "        for (k = 0; k < left - i; k++)\n"                                                \
     "            lane[c][k] = lane[c][k] " op " v[c * 1024 + i + k];\n    }\n"                \
     "    for (half = 4; half; half /= 2)\n"                                                   \
     "        for (c = 0; c < half && c + half < chunks; c++)\n"                               \
     "            for (k = 0; k < 64; k++)\n"                                                  \
     "                lane[c][k] = lane[c][k] " op " lane[c + half][k];\n"                     \
     "    if (width > 32)\n        for (k = 0; k < 32; k++)\n            lane[0][k] = "        \
     "lane[0][k] " op " lane[0][k + 32];\n"                                                    \
     "    if (width > 16)\n        for (k = 0; k < 16; k++)\n            lane[0][k] = "        \
     "lane[0][k] " op " lane[0][k + 16];\n"                                                    \
     "    if (width > 8)\n        for (k = 0; k < 8; k++)\n            lane[0][k] = "          \
     "lane[0][k] " op " lane[0][k + 8];\n"                                                     \
     "    if (width > 4)\n        for (k = 0; k < 4; k++)\n            lane[0][k] = "          \
     "lane[0][k] " op " lane[0][k + 4];\n"                                                     \
     "    if (width > 2)\n        for (k = 0; k < 2; k++)\n            lane[0][k] = "          \
     "lane[0][k] " op " lane[0][k + 2];\n"                                                     \
     "    if (width > 1)\n        for (k = 0; k < 1; k++)\n            lane[0][k] = "          \
     "lane[0][k] " op " lane[0][k + 1];\n"                                                     \
     "    return lane[0][0];\n}\n"},                                                           \
        {"cv_fold_row_" #fn "_" #t,                                                            \
         "static " #T " cv_fold_row_" #fn "_" #t "(" #T                                        \
         " *v, int64_t n)\n{\n    int64_t parts = n > 8192 ? (n + 8191) / 8192 : 1, k;\n\n"    \
         "    for (; n; n = parts, parts = n > 8192 ? (n + 8191) / 8192 : 1) {\n"              \
         "        for (k = 0; k < parts; k++)\n"                                               \
         "            v[k] = cv_block_row_" #fn "_" #t                                         \
         "(v + k * 8192, n - k * 8192 < 8192 ? n - k * 8192 : 8192);\n"                        \
         "        if (parts == 1)\n            return v[0];\n    }\n"                          \
         "    return " #fn "_of_none;\n}\n"},                                                  \
        {"cv_block_column_" #fn "_" #t,                                                        \
         "static " #T " cv_block_column_" #fn "_" #t "(const " #T " *v, int64_t n)\n{\n"       \
         "    " #T                                                                             \
         " block[8], acc[4];\n    int64_t blocks = n > 64 ? (n + 63) / 64 : 1, b, i;\n"        \
         "    int k, half;\n\n    for (b = 0; b < blocks; b++) {\n"                            \
         "        for (k = 0; k < 4; k++)\n            acc[k] = " identity ";\n"               \
         "        for (i = b * 64; i < n && i < (b + 1) * 64; i++)\n"                          \
         "            acc[i % 4] = acc[i % 4] " op " v[i];\n"                                  \
         "        block[b] = (acc[0] " op " acc[1]) " op " (acc[2] " op " acc[3]);\n    }\n"   \
         "    for (half = 4; half; half /= 2)\n"                                               \
         "        for (b = 0; b < half && b + half < blocks; b++)\n"                           \
         "            block[b] = block[b] " op                                                 \
         " block[b + half];\n    return block[0];\n}\n"},                                      \
    {                                                                                          \
        "cv_fold_column_" #fn "_" #t,                                                          \
            "static " #T " cv_fold_column_" #fn "_" #t "(" #T                                  \
            " *v, int64_t n)\n{\n    int64_t parts = n > 512 ? (n + 511) / 512 : 1, k;\n\n"    \
            "    for (; n; n = parts, parts = n > 512 ? (n + 511) / 512 : 1) {\n"              \
            "        for (k = 0; k < parts; k++)\n"                                            \
            "            v[k] = cv_block_column_" #fn "_" #t                                   \
            "(v + k * 512, n - k * 512 < 512 ? n - k * 512 : 512);\n"                          \
            "        if (parts == 1)\n            return v[0];\n    }\n"                       \
            "    return " #fn "_of_none;\n}\n"                                                 \
    }

#define UNARY(name, body)                                                                      \
    {                                                                                          \
        "cv_" name "_f32", "static float cv_" name "_f32(float x)\n{\n" body "}\n"             \
    }
#define BINARY(name, body)                                                                     \
    {                                                                                          \
        "cv_" name "_f32", "static float cv_" name "_f32(float a, float b)\n{\n" body "}\n"    \
    }
#define UNARY64(name, body)                                                                    \
    {                                                                                          \
        "cv_" name "_f64", "static double cv_" name "_f64(double x)\n{\n" body "}\n"           \
    }
#define BINARY64(name, body)                                                                   \
    {                                                                                          \
        "cv_" name "_f64", "static double cv_" name "_f64(double a, double b)\n{\n" body "}\n" \
    }
#define PARAM(t, T)                                                                            \
    {                                                                                          \
        "cv_param_" t, "static " T " cv_param_" t "(const unsigned char *q)\n{\n    " T        \
                       " v;\n\n    memcpy(&v, q, sizeof v);\n    return v;\n}\n"               \
    }

static const word words[] = {
    {"add_of_none", "enum { add_of_none = 0 };\n"},
    {"mul_of_none", "enum { mul_of_none = 1 };\n"},
    PARAM("float32", "float"),
    PARAM("float64", "double"),
    PARAM("int64", "int64_t"),
    PARAM("int32", "int32_t"),
    FOLD(float, f32, add, "+", "-0.0f"),
    FOLD(float, f32, mul, "*", "1.0f"),
    FOLD(double, f64, add, "+", "-0.0"),
    FOLD(double, f64, mul, "*", "1.0"),
    {"cv_word", "static uint32_t cv_word(float x)\n{\n    uint32_t u;\n\n    memcpy(&u, &x, "
                "sizeof u);\n    return u;\n}\n"},
    {"cv_real", "static float cv_real(uint32_t u)\n{\n    float x;\n\n    memcpy(&x, &u, "
                "sizeof x);\n    return x;\n}\n"},
    {"cv_polynomial5",
     "/* Horner's rule, highest coefficient first. */\nstatic float cv_polynomial5(float x, "
     "const float *c)\n{\n    return fmaf(fmaf(fmaf(fmaf(c[0], x, c[1]), x, c[2]), x, c[3]), "
     "x, c[4]);\n}\n"},
    {"cv_polynomial6",
     "/* Horner's rule, highest coefficient first. */\nstatic float cv_polynomial6(float x, "
     "const float *c)\n{\n    return fmaf(fmaf(fmaf(fmaf(fmaf(c[0], x, c[1]), x, c[2]), x, "
     "c[3]), x, c[4]), x, c[5]);\n}\n"},
    {"cv_polynomial7",
     "/* Horner's rule, highest coefficient first. */\nstatic float cv_polynomial7(float x, "
     "const float *c)\n{\n    return fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(c[0], x, c[1]), x, c[2]), "
     "x, c[3]), x, c[4]), x, c[5]), x, c[6]);\n}\n"},
    {"cv_polynomial8",
     "/* Horner's rule, highest coefficient first. */\nstatic float cv_polynomial8(float x, "
     "const float *c)\n{\n    return fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(c[0], x, c[1]), x, "
     "c[2]), x, c[3]), x, c[4]), x, c[5]), x, c[6]), x, c[7]);\n}\n"},
    {"cv_polynomial9",
     "/* Horner's rule, highest coefficient first. */\nstatic float cv_polynomial9(float x, "
     "const float *c)\n{\n    return fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(c[0], x, c[1]), "
     "x, c[2]), x, c[3]), x, c[4]), x, c[5]), x, c[6]), x, c[7]), x, c[8]);\n}\n"},
    UNARY("abs", "    return fabsf(x);\n"),
    UNARY("sqrt", "    return sqrtf(x);\n"),
    UNARY("rsqrt", "    return 1.0f / sqrtf(x);\n"),
    UNARY("floor", "    return floorf(x);\n"),
    UNARY("ceil", "    return ceilf(x);\n"),
    UNARY("trunc", "    return truncf(x);\n"),
    UNARY("round", "    return rintf(x);\n"),
    UNARY("sgn", "    return (float)(x > 0) - (float)(x < 0);\n"),
    BINARY("maximum", "    return a != a ? a : a > b ? a : b;\n"),
    BINARY("minimum", "    return a != a ? a : a < b ? a : b;\n"),
    BINARY("fmax", "    return b != b ? a : a > b ? a : b;\n"),
    BINARY("fmin", "    return b != b ? a : a < b ? a : b;\n"),
    BINARY("greater", "    return a > b ? a : b;\n"),
    BINARY("lesser", "    return a < b ? a : b;\n"),
    BINARY("copysign", "    return copysignf(a, b);\n"),
    {"cv_fma_f32",
     "static float cv_fma_f32(float a, float b, float c)\n{\n    return fmaf(a, b, c);\n}\n"},
    {"cv_fma_f64", "static double cv_fma_f64(double a, double b, double c)\n{\n    return "
                   "fma(a, b, c);\n}\n"},
    /* Functions of C's library, whose last bits differ from eager's. */
    BINARY("pow", "    return (float)pow(a, b);\n"),
    UNARY("sin", "    return (float)sin(x);\n"),
    UNARY("cos", "    return (float)cos(x);\n"),
    UNARY("tan", "    return (float)tan(x);\n"),
    UNARY("atan", "    return (float)atan(x);\n"),
    UNARY("asin", "    return (float)asin(x);\n"),
    UNARY("acos", "    return (float)acos(x);\n"),
    UNARY("sinh", "    return (float)sinh(x);\n"),
    UNARY("cosh", "    return (float)cosh(x);\n"),
    BINARY("atan2", "    return (float)atan2(a, b);\n"),
    UNARY("exp2", "    return (float)exp2(x);\n"),
    UNARY("log2", "    return (float)log2(x);\n"),
    UNARY("log10", "    return (float)log10(x);\n"),
    UNARY("erfc", "    return (float)erfc(x);\n"),
    UNARY("lgamma", "    return (float)lgamma(x);\n"),
    BINARY("fmod", "    return fmodf(a, b);\n"),
    BINARY64("pow", "    return pow(a, b);\n"),
    BINARY64("atan2", "    return atan2(a, b);\n"),
    BINARY64("fmod", "    return fmod(a, b);\n"),
    BINARY64("copysign", "    return copysign(a, b);\n"),
    BINARY64("greater", "    return a > b ? a : b;\n"),
    BINARY64("lesser", "    return a < b ? a : b;\n"),
    BINARY64("fmax", "    return b != b ? a : a > b ? a : b;\n"),
    BINARY64("fmin", "    return b != b ? a : a < b ? a : b;\n"),
    UNARY64("sgn", "    return (double)(x > 0) - (double)(x < 0);\n"),
    UNARY64("exp", "    return exp(x);\n"),
    UNARY64("exp2", "    return exp2(x);\n"),
    UNARY64("expm1", "    return expm1(x);\n"),
    UNARY64("log", "    return log(x);\n"),
    UNARY64("log2", "    return log2(x);\n"),
    UNARY64("log10", "    return log10(x);\n"),
    UNARY64("log1p", "    return log1p(x);\n"),
    UNARY64("sin", "    return sin(x);\n"),
    UNARY64("cos", "    return cos(x);\n"),
    UNARY64("tan", "    return tan(x);\n"),
    UNARY64("asin", "    return asin(x);\n"),
    UNARY64("acos", "    return acos(x);\n"),
    UNARY64("atan", "    return atan(x);\n"),
    UNARY64("sinh", "    return sinh(x);\n"),
    UNARY64("cosh", "    return cosh(x);\n"),
    UNARY64("tanh", "    return tanh(x);\n"),
    UNARY64("erf", "    return erf(x);\n"),
    UNARY64("erfc", "    return erfc(x);\n"),
    UNARY64("sigmoid",
            "    double e = exp(-fabs(x));\n\n    return (x < 0 ? e : 1) / (1 + e);\n"),
    UNARY64("ncdf", "    return 0.5 * erfc(x * -0.70710678118654752440);\n"),
    UNARY64("abs", "    return fabs(x);\n"),
    UNARY64("sqrt", "    return sqrt(x);\n"),
    UNARY64("rsqrt", "    return 1.0 / sqrt(x);\n"),
    UNARY64("floor", "    return floor(x);\n"),
    UNARY64("ceil", "    return ceil(x);\n"),
    UNARY64("trunc", "    return trunc(x);\n"),
    UNARY64("round", "    return rint(x);\n"),
    BINARY64("maximum", "    return a != a ? a : a > b ? a : b;\n"),
    BINARY64("minimum", "    return a != a ? a : a < b ? a : b;\n"),
    {"cv_magic",
     "/* The integer that a float has in its low bits after 12582912 was added. */\n"
     "static int32_t cv_magic(float t)\n{\n    return (int32_t)(cv_word(t) & 0x7fffffffu) "
     "- 0x4B400000;\n}\n"},
    {"cv_scale", "/* r times two to the n of t, in two steps. */\nstatic float cv_scale(float "
                 "r, float t)\n{\n"
                 "    int32_t n = cv_magic(t), half = (n - (n & 1)) / 2;\n\n"
                 "    return r * cv_real((uint32_t)(half + 127) << 23) * cv_real((uint32_t)(n "
                 "- half + 127) << 23);\n}\n"},
    {"cv_scalenormal", "static float cv_scalenormal(float r, float t)\n{\n"
                       "    return cv_real(cv_word(r) + ((uint32_t)cv_magic(t) << 23));\n}\n"},
    {"cv_expreduce",
     "/* q with e^x = 2^n (1 + q); *t is 12582912 + n. */\nstatic float cv_expreduce(float x, "
     "float *t)\n{\n"
     "    static const float c[] = {0.00138410064f, 0.00836993381f, 0.0416681133f, "
     "0.166665167f, 0.49999994f};\n"
     "    float n, f, low, g;\n\n    *t = fmaf(x, 1.44269504f, 12582912.0f);\n    n = *t - "
     "12582912.0f;\n"
     "    f = fmaf(n, -0x1.62e4p-1f, x);\n    low = n * 0x1.7f7d1cp-20f;\n    g = f - low;\n"
     "    return f + fmaf(g * g, cv_polynomial5(g, c), -low);\n}\n"},
    UNARY("exp", "    float t, q, a = x < -104.0f ? 0.0f : x;\n\n    a = 89.0f < a ? 89.0f : "
                 "a;\n    q = cv_expreduce(a, &t);\n"
                 "    return x < -104.0f ? 0.0f : cv_scale(1.0f + q, t);\n"),
    UNARY("expm1", "    static const float c[] = {0.000199313246f, 0.00139341142f, "
                   "0.00833322387f, 0.0416664854f, 0.166666672f, 0.5f};\n"
                   "    float a = -20.0f > x ? -20.0f : x, t, n, f, q, half;\n\n    a = 89.0f "
                   "< a ? 89.0f : a;\n"
                   "    t = fmaf(a, 1.44269504f, 12582912.0f);\n    n = t - 12582912.0f;\n    "
                   "f = fmaf(n, -0x1.62e4p-1f, a);\n"
                   "    f = fmaf(n, -0x1.7f7d1cp-20f, f);\n    q = cv_polynomial6(f, c);\n   "
                   " q = fmaf(f * f, q, f);\n"
                   "    half = cv_scalenormal(0.5f, t);\n"
                   "    return fabsf(x) < 0x1p-25f ? x : 2.0f * fmaf(q, half, half - 0.5f);\n"),
    UNARY("sigmoid", "    float t, q, e, elow, two, scaled, d, dlow, y, top, toplow, s, rest, "
                     "a = -fabsf(x);\n    int negative = x < 0.0f;\n\n"
                     "    q = cv_expreduce(-104.0f > a ? -104.0f : a, &t);\n    e = 1.0f + "
                     "q;\n    elow = q - (e - 1.0f);\n"
                     "    two = cv_scalenormal(1.0f, 12582786.0f > t ? 12582786.0f : t);\n    "
                     "scaled = e * two;\n    d = 1.0f + scaled;\n"
                     "    dlow = scaled - (d - 1.0f) + elow * two;\n    y = 1.0f / d;\n    top "
                     "= negative ? e : 1.0f;\n"
                     "    toplow = negative ? elow : 0.0f;\n    s = top * y;\n    rest = "
                     "fmaf(-s, d, top) + (toplow - s * dlow);\n"
                     "    s = fmaf(rest, y, s);\n    return negative ? cv_scale(s, t) : s;\n"),
    UNARY("tanh",
          "    static const float c[] = {-0.000398180855f, 0.00242371392f, -0.0080927331f, "
          "0.0215726122f,\n"
          "                              -0.0539051071f, 0.133326843f, -0.333333105f};\n"
          "    float a = fabsf(x), z = x * x, t, e, two, large, small;\n\n    a = 10.0f < a ? "
          "10.0f : a;\n"
          "    e = cv_expreduce(a + a, &t);\n    two = cv_scalenormal(1.0f, t);\n    large = "
          "1.0f - 2.0f / fmaf(two, e, two + 1.0f);\n"
          "    small = fmaf(z * x, cv_polynomial7(z, c), x);\n    return copysignf(a > 0.95f "
          "? large : small, x);\n"),
    {"cv_logtail", "/* log(1 + f) - f */\nstatic float cv_logtail(float f)\n{\n"
                   "    static const float c[] = {0.067179203f, -0.116513826f, 0.118929274f, "
                   "-0.124108091f, 0.142193526f,\n"
                   "                              -0.166676119f, 0.20002088f, -0.250000149f, "
                   "0.333333135f};\n    float z = f * f;\n\n"
                   "    return fmaf(z * f, cv_polynomial9(f, c), -0.5f * z);\n}\n"},
    {"cv_exponent", "/* The n for which x / 2^n is between the root of 1/2 and that of 2. */\n"
                    "static int32_t cv_exponent(uint32_t x)\n{\n"
                    "    return (int32_t)((x - 0x3f3504f3u + 0x40000000u) >> 23) - 128;\n}\n"},
    {"cv_logreduce", "/* x = 2^e (1 + f). */\nstatic float cv_logreduce(float x, float *e)\n{\n"
                     "    int32_t n = cv_exponent(cv_word(x));\n\n    *e = (float)n;\n"
                     "    return cv_real(cv_word(x) - ((uint32_t)n << 23)) - 1.0f;\n}\n"},
    {"cv_logedge",
     "static float cv_logedge(float x, float r)\n{\n    r = x == 0.0f ? -INFINITY : r;\n"
     "    r = x < 0.0f ? NAN : r;\n    return x < INFINITY ? r : x;\n}\n"},
    {"cv_logjoin", "static float cv_logjoin(float e, float f)\n{\n    float a = e * "
                   "0x1.62e4p-1f, high = a + f, low = f - (high - a);\n\n"
                   "    return high + (fmaf(e, 0x1.7f7d1cp-20f, cv_logtail(f)) + low);\n}\n"},
    UNARY("log", "    int tiny = x < 0x1p-126f;\n    float e, f;\n\n"
                 "    f = cv_logreduce(tiny ? x * 0x1p32f : x, &e);\n"
                 "    e -= tiny ? 32.0f : 0.0f;\n"
                 "    return cv_logedge(x, cv_logjoin(e, f));\n"),
    UNARY("log1p",
          "    float u = 1.0f + x, f, four, r;\n    int32_t n = cv_exponent(cv_word(u));\n\n"
          "    four = cv_real((uint32_t)(129 - n) << 23);\n    f = fmaf(x * 0.25f, four, four "
          "* 0.25f - 1.0f);\n"
          "    r = cv_logedge(u, cv_logjoin((float)n, f));\n"
          "    return fabsf(x) < 0x1p-25f ? x : r;\n"),
    UNARY("erf", "    static const float c[] = {6.19456796e-6f, -0.000273764512f, "
                 "0.00344890961f, -0.0233655479f, 0.105791919f,\n"
                 "                              0.635410845f};\n"
                 "    static const float d[] = {-0.000646105444f, 0.00507522793f, "
                 "-0.0268165898f, 0.112830564f, -0.376126021f,\n"
                 "                              0.128379166f};\n"
                 "    float a = fabsf(x), z = x * x, t, p, q, two, large, small;\n\n    a = "
                 "3.95f < a ? 3.95f : a;\n"
                 "    p = fmaf(cv_polynomial6(a, c), a, 0.128586963f);\n    q = "
                 "cv_expreduce(fmaf(-a, p, -a), &t);\n"
                 "    two = cv_scalenormal(1.0f, t);\n    large = copysignf(fmaf(-two, q, 1.0f "
                 "- two), x);\n"
                 "    small = fmaf(cv_polynomial6(z, d), x, x);\n    return a > 0.82f ? "
                 "large : small;\n"),
    UNARY("ncdf", "    static const float c[] = {2.84050907e-6f, -3.94498456e-5f, "
                  "0.000186545367f, 0.000136005721f, -0.00706214411f,\n"
                  "                              0.0524952523f, 0.459208518f, 1.15110517f};\n"
                  "    static const float d[] = {7.72202329e-5f, -0.00066964596f, "
                  "0.00480905548f, -0.0277517904f, 0.120113254f,\n"
                  "                              -0.346573591f};\n"
                  "    float a = fabsf(x), y, t, f, e;\n\n    a = 5.6f < a ? 5.6f : a;\n    y "
                  "= a * cv_polynomial8(a, c);\n"
                  "    t = 12582912.0f - y;\n    f = y + (t - 12582912.0f);\n"
                  "    e = cv_scalenormal(fmaf(cv_polynomial6(f, d), f, 0.5f), t);\n    "
                  "return 0.5f + copysignf(0.5f - e, x);\n"),
};

/* True where the text has the name, and not as a part of a longer one. */
static bool mentions(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
        char after = at[n], before = at == text ? ' ' : at[-1];
        if (!(after == '_' || (after >= '0' && after <= '9') ||
              (after >= 'a' && after <= 'z')) &&
            before != '_')
            return true;
    }
    return false;
}

bool cr_c_need(cr_c_words *w, const char *name)
{
    size_t k = 0;

    while (k < CR_LEN(words) && strcmp(words[k].name, name))
        k++;
    if (k == CR_LEN(words))
        return false;
    if (w->needed[k])
        return true;
    w->needed[k] = true;
    for (size_t i = 0; i < CR_LEN(words); i++)
        if (i != k && mentions(words[k].text, words[i].name))
            (void)!cr_c_need(w, words[i].name);
    return true;
}

/* Functions for one element are a part of the loops that call them. */
static void put_word(cr_text *out, const char *text)
{
    const char *at = strstr(text, "static "), *fold = strstr(text, "(const ");

    if (!at || (fold && strstr(text, "int64_t n)"))) {
        cr_text_put(out, text);
        return;
    }
    cr_text_put_n(out, text, (size_t)(at - text));
    cr_text_put(out, "CV_INLINE ");
    cr_text_put(out, at + strlen("static "));
}

void cr_c_print_words(cr_text *out, const cr_c_words *w)
{
    cr_text_put(out, "#if defined(__GNUC__)\n"
                     "#define CV_INLINE static inline __attribute__((always_inline))\n"
                     "#else\n#define CV_INLINE static inline\n#endif\n\n");
    for (size_t k = 0; k < CR_LEN(words); k++)
        if (w->needed[k]) {
            put_word(out, words[k].text);
            cr_text_char(out, '\n');
        }
}
