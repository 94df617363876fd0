/* lanes.c - compares every lane of the vector vocabulary with scalar C.
 *
 * Compiled once for each instruction set, with ULP_ISA its name. */
#define _GNU_SOURCE
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emit/vec.h"
#include "emit/vec_complex.h"
#include "emit/vec_f32.h"
#include "emit/vec_f64.h"
#include "emit/vec_int.h"
#include "emit/vec_random.h"
#include "emit/vec_special.h"
#include "num/philox.h"
#include "ulp.h"

#define NAME2(isa) ulp_lanes_##isa
#define NAME(isa)  NAME2(isa)

static int failures;

#define CHECK(ok, ...)                                                                         \
    do {                                                                                       \
        if (!(ok) && failures++ < 20) {                                                        \
            printf("%s:%d: ", __FILE__, __LINE__);                                             \
            printf(__VA_ARGS__);                                                               \
            printf("\n");                                                                      \
        }                                                                                      \
    } while (0)

static uint64_t state;

static uint64_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 11 ^ state << 21;
}

static int same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

/* --- integers --- */

static int64_t wrapped(int bits, uint64_t x)
{
    return bits == 32 ? (int32_t)(uint32_t)x : bits == 8 ? (uint8_t)x : (int64_t)x;
}

static int64_t least(int bits) { return bits == 8 ? 0 : bits == 32 ? INT32_MIN : INT64_MIN; }

static int64_t ref_div(int bits, int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    return b == -1 ? wrapped(bits, 0 - (uint64_t)a) : a / b;
}

static int64_t ref_fmod(int bits, int64_t a, int64_t b)
{
    (void)bits;
    return b == 0 || b == -1 ? 0 : a % b;
}

static int64_t ref_floordiv(int bits, int64_t a, int64_t b)
{
    int64_t r = ref_fmod(bits, a, b);
    return ref_div(bits, a, b) - (r != 0 && (r < 0) != (b < 0));
}

static int64_t ref_remainder(int bits, int64_t a, int64_t b)
{
    int64_t r = ref_fmod(bits, a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t ref_shl(int bits, int64_t a, int64_t b)
{
    return b < 0 || b >= bits ? 0 : wrapped(bits, (uint64_t)a << b);
}

static int64_t ref_shr(int bits, int64_t a, int64_t b)
{
    return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b;
}

static int64_t ref_pow(int bits, int64_t a, int64_t b)
{
    uint64_t r = 1;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    if (b > 400) /* the loop below would take its time; squares of squares agree with it */
        return a == 0 || a == 1 ? a : a == -1 ? (b % 2 ? -1 : 1) : INT64_MAX;
    for (int64_t i = 0; i < b; i++)
        r *= (uint64_t)a;
    return wrapped(bits, r);
}

static int64_t ref_gcd(int bits, int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y != 0) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return wrapped(bits, x);
}

static int64_t any_int(int bits)
{
    static const int64_t few[] = {0, 1, -1, 2, -2, 3, -7, 31, 32, 33, 63, 64, 65, 127, 255};
    uint64_t r = draw();

    switch (r % 4) {
    case 0: return wrapped(bits, (uint64_t)few[r / 4 % 15]);
    case 1: return wrapped(bits, (uint64_t)least(bits) + r / 4 % 2);
    case 2: return wrapped(bits, (uint64_t)(int64_t)(r / 4 % 41) - 20);
    default: return wrapped(bits, draw());
    }
}

#define INT_OP(T, bits, name, want)                                                            \
    do {                                                                                       \
        cv_##T r_ = cv_##name##_##T(cv_load_##T(x), cv_load_##T(y));                           \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            int64_t a = x[l], b = y[l], w = want;                                              \
            CHECK(w == INT64_MAX || (int64_t)r_[l] == w, "%s_%s(%ld, %ld): %ld, not %ld",      \
                  #name, #T, (long)a, (long)b, (long)r_[l], (long)w);                          \
        }                                                                                      \
    } while (0)

#define INT_TEST(T, W, name, op)                                                               \
    do {                                                                                       \
        unsigned char m_[CV_LANES_##T];                                                        \
        cv_storeb_##W(m_, cv_##name##_##T(cv_load_##T(x), cv_load_##T(y)));                    \
        for (int l = 0; l < CV_LANES_##T; l++)                                                 \
            CHECK(m_[l] == (x[l] op y[l]), "%s_%s lane %d", #name, #T, l);                     \
    } while (0)

#define DEFINE_INT_CHECK(T, W)                                                                 \
    static void check_##T(void)                                                                \
    {                                                                                          \
        cv_s_##T x[CV_LANES_##T], y[CV_LANES_##T];                                             \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            x[l] = (cv_s_##T)any_int(W);                                                       \
            y[l] = (cv_s_##T)any_int(W);                                                       \
        }                                                                                      \
        INT_OP(T, W, add, wrapped(W, (uint64_t)a + (uint64_t)b));                              \
        INT_OP(T, W, sub, wrapped(W, (uint64_t)a - (uint64_t)b));                              \
        INT_OP(T, W, mul, wrapped(W, (uint64_t)a *(uint64_t)b));                               \
        INT_OP(T, W, div, ref_div(W, a, b));                                                   \
        INT_OP(T, W, fmod, ref_fmod(W, a, b));                                                 \
        INT_OP(T, W, floordiv, ref_floordiv(W, a, b));                                         \
        INT_OP(T, W, remainder, ref_remainder(W, a, b));                                       \
        INT_OP(T, W, maximum, a > b ? a : b);                                                  \
        INT_OP(T, W, minimum, a < b ? a : b);                                                  \
        INT_OP(T, W, and, a &b);                                                               \
        INT_OP(T, W, or, a | b);                                                               \
        INT_OP(T, W, xor, a ^ b);                                                              \
        INT_OP(T, W, shl, ref_shl(W, a, b));                                                   \
        INT_OP(T, W, shr, ref_shr(W, a, b));                                                   \
        INT_OP(T, W, pow, ref_pow(W, a, b));                                                   \
        INT_OP(T, W, gcd, ref_gcd(W, a, b));                                                   \
        INT_TEST(T, W, eq, ==);                                                                \
        INT_TEST(T, W, ne, !=);                                                                \
        INT_TEST(T, W, lt, <);                                                                 \
        INT_TEST(T, W, le, <=);                                                                \
        INT_TEST(T, W, gt, >);                                                                 \
        INT_TEST(T, W, ge, >=);                                                                \
        cv_##T v = cv_load_##T(x), n = cv_neg_##T(v), s = cv_sgn_##T(v), m = cv_abs_##T(v);    \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            int64_t a = x[l];                                                                  \
            CHECK((int64_t)n[l] == wrapped(W, 0 - (uint64_t)a), "neg_%s", #T);                 \
            CHECK((int64_t)s[l] == (a > 0) - (a < 0), "sgn_%s", #T);                           \
            CHECK((int64_t)m[l] == (a < 0 ? wrapped(W, 0 - (uint64_t)a) : a), "abs_%s", #T);   \
        }                                                                                      \
    }

DEFINE_INT_CHECK(i32, 32)
DEFINE_INT_CHECK(i64, 64)
DEFINE_INT_CHECK(u8, 8)

/* --- memory: the last page of a region is not accessible --- */

static char *fence; /* its first byte */

static int make_fence(void)
{
    long page = sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, (size_t)(2 * page), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED || mprotect(p + page, (size_t)page, PROT_NONE) != 0)
        return 1;
    fence = p + page;
    return 0;
}

#define DEFINE_MEMORY_CHECK(T, ZERO)                                                           \
    static void memory_##T(void)                                                               \
    {                                                                                          \
        size_t size = sizeof(cv_s_##T);                                                        \
        for (int n = 0; n <= CV_LANES_##T; n++) {                                              \
            char *p = fence - (size_t)n * size, back[CV_LANES_##T * sizeof(cv_s_##T)];         \
            char old[CV_LANES_##T * sizeof(cv_s_##T)];                                         \
            memset(fence - 512, 0x5a, 512);                                                    \
            for (size_t i = 0; i < (size_t)n * size; i++)                                      \
                p[i] = (char)(i * 7 + 1);                                                      \
            memcpy(old, p, (size_t)n *size);                                                   \
            cv_##T v = cv_loadn_##T(p, n);                                                     \
            cv_store_##T(back, v);                                                             \
            CHECK(memcmp(back, old, (size_t)n *size) == 0, "loadn_%s(%d)", #T, n);             \
            for (size_t i = (size_t)n * size; i < sizeof back; i++)                            \
                CHECK(back[i] == 0, "loadn_%s(%d) is not zero above", #T, n);                  \
            memset(p, 0, (size_t)n *size);                                                     \
            cv_storen_##T(p, v, n);                                                            \
            CHECK(memcmp(p, old, (size_t)n *size) == 0, "storen_%s(%d)", #T, n);               \
            CHECK(p[-1] == 0x5a, "storen_%s(%d) wrote below", #T, n);                          \
        }                                                                                      \
    }
DEFINE_MEMORY_CHECK(f32, 0)
DEFINE_MEMORY_CHECK(f64, 0)
DEFINE_MEMORY_CHECK(i32, 0)
DEFINE_MEMORY_CHECK(i64, 0)
DEFINE_MEMORY_CHECK(u8, 0)
DEFINE_MEMORY_CHECK(c64, 0)
DEFINE_MEMORY_CHECK(c128, 0)

#define DEFINE_MASK_CHECK(W, T)                                                                \
    static void masks_##W(void)                                                                \
    {                                                                                          \
        enum { N = CV_LANES_m##W };                                                            \
        for (int n = 0; n <= N; n++) {                                                         \
            char *p = fence - n, back[N], old[N];                                              \
            int count = 0;                                                                     \
            memset(fence - 512, 0x5a, 512);                                                    \
            for (int i = 0; i < n; i++) {                                                      \
                p[i] = old[i] = (char)(draw() >> 20 & 1);                                      \
                count += old[i];                                                               \
            }                                                                                  \
            cv_m##W m = cv_loadbn_##W(p, n);                                                   \
            cv_storeb_##W(back, m);                                                            \
            for (int i = 0; i < N; i++)                                                        \
                CHECK(back[i] == (i < n ? old[i] : 0), "loadbn_%d(%d)", W, n);                 \
            memset(p, 7, (size_t)n);                                                           \
            cv_storebn_##W(p, m, n);                                                           \
            CHECK(memcmp(p, old, (size_t)n) == 0, "storebn_%d(%d)", W, n);                     \
            CHECK(p[-1] == 0x5a, "storebn_%d(%d) wrote below", W, n);                          \
            CHECK(cv_count_m##W(m) == count, "count_m%d", W);                                  \
            CHECK(cv_any_m##W(m) == (count > 0), "any_m%d", W);                                \
            CHECK(cv_all_m##W(m) == (count == N), "all_m%d", W);                               \
            CHECK(cv_count_m##W(cv_not_m##W(m)) == N - count, "not_m%d", W);                   \
            CHECK(cv_count_m##W(cv_firstn_##W(n)) == n, "firstn_%d(%d)", W, n);                \
            CHECK(!cv_any_m##W(cv_xor_m##W(m, cv_loadb_##W(back))), "loadb_%d", W);            \
            cv_##T one = cv_frommask_##T(m);                                                   \
            for (int i = 0; i < N; i++)                                                        \
                CHECK((int)one[i] == (i < n ? old[i] : 0), "frommask_%s", #T);                 \
        }                                                                                      \
        CHECK(cv_all_m##W(cv_set1b_##W(1)) && !cv_any_m##W(cv_set1b_##W(0)), "set1b_%d", W);   \
    }
DEFINE_MASK_CHECK(8, u8)
DEFINE_MASK_CHECK(32, f32)
DEFINE_MASK_CHECK(64, i64)

/* --- floats --- */

static double any_float(int narrow)
{
    static const double few[] = {0,        -0.0,      1,    -1,       0.5,       -0.5,
                                 2.5,      -3.5,      7,    HUGE_VAL, -HUGE_VAL, (double)NAN,
                                 0x1p-149, -0x1p-130, 1e30, 8388609,  -0x1p31,   3};
    uint64_t r = draw();

    if (r % 3 == 0)
        return few[r / 3 % 18];
    double x = ldexp((double)(int64_t)draw(), (int)(r / 3 % 60) - 75);
    return narrow ? (double)(float)x : x;
}

static double ref_maximum(double a, double b)
{
    return isnan(a) ? a : isnan(b) ? b : a > b ? a : b;
}

static double ref_minimum(double a, double b)
{
    return isnan(a) ? a : isnan(b) ? b : a < b ? a : b;
}

static double ref_fmax(double a, double b) { return isnan(b) ? a : a > b ? a : b; }
static double ref_fmin(double a, double b) { return isnan(b) ? a : a < b ? a : b; }

static double ref_floatrem(double a, double b)
{
    double m = fmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

static double ref_floorf(double fa, double fb)
{
    float a = (float)fa, b = (float)fb, m = fmodf(a, b), div = (a - m) / b;
    if (b == 0)
        return (double)(a / b);
    div -= m != 0 && (m < 0) != (b < 0) ? 1.0f : 0.0f;
    float down = floorf(div);
    down += div - down > 0.5f ? 1.0f : 0.0f;
    return (double)(div == 0 ? copysignf(0, a / b) : down);
}

static double ref_floord(double a, double b)
{
    double m = fmod(a, b), div = (a - m) / b;
    if (b == 0)
        return a / b;
    div -= m != 0 && (m < 0) != (b < 0) ? 1.0 : 0.0;
    double down = floor(div);
    down += div - down > 0.5 ? 1.0 : 0.0;
    return div == 0 ? copysign(0, a / b) : down;
}

static double ref_frexpm(double a, double b)
{
    int e;
    (void)b;
    return frexp(a, &e);
}

#define FLOAT_OP(T, name, want)                                                                \
    do {                                                                                       \
        cv_##T r_ = cv_##name##_##T(cv_load_##T(x), cv_load_##T(y));                           \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            double a = (double)x[l], b = (double)y[l], w = want;                               \
            CHECK(same((double)r_[l], w), "%s_%s(%a, %a): %a, not %a", #name, #T, a, b,        \
                  (double)r_[l], w);                                                           \
        }                                                                                      \
    } while (0)

#define FLOAT_OP1(T, name, want)                                                               \
    do {                                                                                       \
        cv_##T r_ = cv_##name##_##T(cv_load_##T(x));                                           \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            double a = (double)x[l], b = 0, w = want;                                          \
            (void)b;                                                                           \
            CHECK(same((double)r_[l], w), "%s_%s(%a): %a, not %a", #name, #T, a,               \
                  (double)r_[l], w);                                                           \
        }                                                                                      \
    } while (0)

#define FLOAT_TEST(T, W, name, want)                                                           \
    do {                                                                                       \
        unsigned char m_[CV_LANES_##T];                                                        \
        cv_storeb_##W(m_, cv_##name##_##T(cv_load_##T(x)));                                    \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            double a = (double)x[l];                                                           \
            CHECK(m_[l] == !!(want), "%s_%s(%a)", #name, #T, a);                               \
        }                                                                                      \
    } while (0)

#define FLOAT_COMPARE(T, W, name, op)                                                          \
    do {                                                                                       \
        unsigned char m_[CV_LANES_##T];                                                        \
        cv_storeb_##W(m_, cv_##name##_##T(cv_load_##T(x), cv_load_##T(y)));                    \
        for (int l = 0; l < CV_LANES_##T; l++)                                                 \
            CHECK(m_[l] == (x[l] op y[l]), "%s_%s", #name, #T);                                \
    } while (0)

#define DEFINE_FLOAT_CHECK(T, I, W, narrow, ref_floor_div, next)                               \
    static void check_##T(void)                                                                \
    {                                                                                          \
        cv_s_##T x[CV_LANES_##T], y[CV_LANES_##T];                                             \
        for (int l = 0; l < CV_LANES_##T; l++) {                                               \
            x[l] = (cv_s_##T)any_float(narrow);                                                \
            y[l] = (cv_s_##T)any_float(narrow);                                                \
        }                                                                                      \
        FLOAT_OP(T, maximum, ref_maximum(a, b));                                               \
        FLOAT_OP(T, minimum, ref_minimum(a, b));                                               \
        FLOAT_OP(T, fmax, ref_fmax(a, b));                                                     \
        FLOAT_OP(T, fmin, ref_fmin(a, b));                                                     \
        FLOAT_OP(T, fmod, fmod(a, b));                                                         \
        FLOAT_OP(T, remainder, (double)(cv_s_##T)ref_floatrem(a, b));                          \
        FLOAT_OP(T, floordiv, ref_floor_div(a, b));                                            \
        FLOAT_OP(T, copysign, copysign(a, b));                                                 \
        FLOAT_OP(T, nextafter, (double)next(x[l], y[l]));                                      \
        FLOAT_OP(T, add, (double)(x[l] + y[l]));                                               \
        FLOAT_OP(T, div, (double)(x[l] / y[l]));                                               \
        FLOAT_OP1(T, floor, floor(a));                                                         \
        FLOAT_OP1(T, ceil, ceil(a));                                                           \
        FLOAT_OP1(T, trunc, trunc(a));                                                         \
        FLOAT_OP1(T, round, rint(a));                                                          \
        FLOAT_OP1(T, sqrt, (double)(cv_s_##T)sqrt(a));                                         \
        FLOAT_OP1(T, abs, fabs(a));                                                            \
        FLOAT_OP1(T, neg, -a);                                                                 \
        FLOAT_OP1(T, sgn, (double)((a > 0) - (a < 0)));                                        \
        FLOAT_OP1(T, frexpm, ref_frexpm(a, b));                                                \
        FLOAT_TEST(T, W, isnan, isnan(a));                                                     \
        FLOAT_TEST(T, W, isinf, isinf(a));                                                     \
        FLOAT_TEST(T, W, isfinite, isfinite(a));                                               \
        FLOAT_TEST(T, W, signbit, signbit(a));                                                 \
        FLOAT_COMPARE(T, W, eq, ==);                                                           \
        FLOAT_COMPARE(T, W, ne, !=);                                                           \
        FLOAT_COMPARE(T, W, lt, <);                                                            \
        FLOAT_COMPARE(T, W, le, <=);                                                           \
        FLOAT_COMPARE(T, W, gt, >);                                                            \
        FLOAT_COMPARE(T, W, ge, >=);                                                           \
        cv_##I e = cv_frexpe_##T(cv_load_##T(x));                                              \
        cv_##T back = cv_ldexp_##T(cv_frexpm_##T(cv_load_##T(x)), e);                          \
        for (int l = 0; l < CV_LANES_##T; l++)                                                 \
            CHECK(same((double)back[l], (double)x[l]), "frexp and ldexp of %a", (double)x[l]); \
    }
DEFINE_FLOAT_CHECK(f32, i32, 32, 1, ref_floorf, nextafterf)
DEFINE_FLOAT_CHECK(f64, i64, 64, 0, ref_floord, nextafter)

/* --- functions of two arguments, special and complex functions: sampled accuracy --- */

static int near(double got, double want, double tolerance)
{
    if (isnan(want) || isinf(want) || want == 0)
        return same(got, want);
    return fabs(got - want) <= tolerance * fabs(want) + 0x1p-149;
}

/* Exponents that keep the result in range, and small whole ones for negative bases. */
static void check_pow(void)
{
    cv_s_f32 x[CV_LANES_f32], y[CV_LANES_f32];

    for (int l = 0; l < CV_LANES_f32; l++) {
        x[l] = (float)ldexp((double)(int64_t)draw(), (int)(draw() % 40) - 80);
        y[l] = (float)((double)(int64_t)draw() * 0x1p-59);
        y[l] = draw() % 2 ? y[l] : rintf(y[l]);
    }
    cv_f32 p = cv_pow_f32(cv_load_f32(x), cv_load_f32(y));
    for (int l = 0; l < CV_LANES_f32; l++) {
        double want = pow((double)x[l], (double)y[l]);
        CHECK(near((double)p[l], (double)(float)want, 0x1p-23), "pow(%a, %a): %a, not %a",
              (double)x[l], (double)y[l], (double)p[l], want);
    }
}

static void check_pairs(void)
{
    cv_s_f32 x[CV_LANES_f32], y[CV_LANES_f32];

    for (int l = 0; l < CV_LANES_f32; l++) {
        x[l] = (float)any_float(1);
        y[l] = (float)any_float(1);
    }
    cv_f32 a = cv_atan2_f32(cv_load_f32(x), cv_load_f32(y));
    cv_f32 h = cv_hypot_f32(cv_load_f32(x), cv_load_f32(y));
    cv_f32 p = cv_pow_f32(cv_load_f32(x), cv_load_f32(y));
    check_pow();
    for (int l = 0; l < CV_LANES_f32; l++) {
        double u = (double)x[l], v = (double)y[l];
        CHECK(near((double)a[l], atan2(u, v), 0x1p-22), "atan2(%a, %a): %a, not %a", u, v,
              (double)a[l], atan2(u, v));
        CHECK(near((double)h[l], (double)(float)hypot(u, v), 0x1p-22), "hypot(%a, %a): %a", u,
              v, (double)h[l]);
        CHECK(near((double)p[l], (double)powf(x[l], y[l]), 0x1p-22), "pow(%a, %a): %a", u, v,
              (double)p[l]);
    }
}

static int exact32(double x) { return (double)(float)x == x; }

static void check_special(void)
{
#define SPECIAL1(name, x, want)                                                                \
    CHECK(near(cv_##name##_f64(cv_set1_f64(x))[0], want, 1e-12), "%s(%g): %.17g", #name,       \
          (double)x, cv_##name##_f64(cv_set1_f64(x))[0]);                                      \
    CHECK(near((double)cv_##name##_f32(cv_set1_f32((float)(x)))[0], want, 0x1p-21) ||          \
              !exact32(x),                                                                     \
          "%s_f32(%g)", #name, (double)x);
#define SPECIAL2(name, x, y, want)                                                             \
    CHECK(near(cv_##name##_f64(cv_set1_f64(x), cv_set1_f64(y))[0], want, 1e-12),               \
          "%s(%g, %g): %.17g", #name, x, y,                                                    \
          cv_##name##_f64(cv_set1_f64(x), cv_set1_f64(y))[0]);
#include "special.def"
    CHECK(isnan(cv_d_digamma(-2)) && cv_d_digamma(0) == -HUGE_VAL, "digamma at its poles");
    CHECK(cv_d_i0(HUGE_VAL) == HUGE_VAL && cv_d_i1(-HUGE_VAL) == -HUGE_VAL, "i0, i1 at inf");
    CHECK(isnan(cv_d_i0(nan(""))) && isnan(cv_d_i1(nan(""))), "i0, i1 of NaN");
    CHECK(cv_d_erfinv(1) == HUGE_VAL && isnan(cv_d_erfinv(1.5)), "erfinv at its ends");
    CHECK(cv_d_ndtri(0) == -HUGE_VAL && cv_d_ndtri(1) == HUGE_VAL, "ndtri at its ends");
    CHECK(cv_d_erfcx(HUGE_VAL) == 0 && cv_d_erfcx(-HUGE_VAL) == HUGE_VAL, "erfcx at its ends");
    CHECK(cv_d_log_ndtr(HUGE_VAL) == 0 && cv_d_log_ndtr(-HUGE_VAL) == -HUGE_VAL, "log_ndtr");
}

/* The normal distribution function is as near as floats are below 1. */
static void check_ncdf(void)
{
    const float inf = HUGE_VALF;

    for (int i = -70000; i <= 70000; i++) {
        float x = (float)i * 1e-4f;
        double want = 0.5 * erfc(-(double)x * sqrt(0.5)), wide = (double)x;
        CHECK(fabs((double)cv_ncdf_f32(cv_set1_f32(x))[0] - want) < 7e-8, "ncdf_f32(%g)", wide);
        CHECK(fabs(cv_ncdf_f64(cv_set1_f64(wide))[0] - want) < 3e-16, "ncdf_f64(%g)", wide);
    }
    CHECK(cv_ncdf_f32(cv_set1_f32(-0.0f))[0] == 0.5f, "ncdf(-0)");
    CHECK(cv_ncdf_f32(cv_set1_f32(inf))[0] == 1 && cv_ncdf_f32(cv_set1_f32(-inf))[0] == 0,
          "ncdf at inf");
    CHECK(cv_ncdf_f64(cv_set1_f64(inf))[0] == 1 && cv_ncdf_f64(cv_set1_f64(-inf))[0] == 0,
          "ncdf_f64 at inf");
    CHECK(isnan(cv_ncdf_f32(cv_set1_f32(nanf("")))[0]), "ncdf of NaN");
}

static int nearc(double re, double im, double complex want, double tolerance)
{
    double size = cabs(want);
    return !isfinite(size) || cabs(__builtin_complex(re, im) - want) <= tolerance * size;
}

static void check_complex(void)
{
    cv_s_c64 x[CV_LANES_c64], y[CV_LANES_c64];
    cv_s_c128 d[CV_LANES_c128];

    for (int l = 0; l < CV_LANES_c64; l++) {
        float big = l % 3 == 0 ? 0x1p60f : l % 3 == 1 ? 0x1p-60f : 1.0f;
        x[l] = (cv_s_c64){(float)(int64_t)draw() * 0x1p-63f * big, (float)(l - 3) * big};
        y[l] = (cv_s_c64){(float)(int64_t)draw() * 0x1p-63f * big, (float)(l + 1) * 0.3f * big};
    }
    for (int l = 0; l < CV_LANES_c128; l++)
        d[l] = (cv_s_c128){(double)x[l].re, (double)x[l].im};
    cv_c64 a = cv_load_c64(x), b = cv_load_c64(y), q = cv_div_c64(a, b), m = cv_mul_c64(a, b);
    cv_c64 s = cv_sqrt_c64(a), one = cv_log1p_c64(a), less = cv_expm1_c64(a);
    cv_f32 size = cv_abs_c64(a), angle = cv_angle_c64(a);
    cv_c128 qd = cv_div_c128(cv_load_c128(d), cv_pair_c128(3, -4));
    for (int l = 0; l < CV_LANES_c64; l++) {
        double complex u = __builtin_complex((double)x[l].re, (double)x[l].im);
        double complex v = __builtin_complex((double)y[l].re, (double)y[l].im);
        CHECK(nearc((double)q.re[l], (double)q.im[l], u / v, 1e-6), "c64 div lane %d", l);
        CHECK(nearc((double)m.re[l], (double)m.im[l], u * v, 1e-6), "c64 mul lane %d", l);
        CHECK(nearc((double)s.re[l], (double)s.im[l], csqrt(u), 1e-6), "c64 sqrt lane %d", l);
        CHECK(near((double)size[l], cabs(u), 4e-7), "c64 abs lane %d", l);
        CHECK(near((double)angle[l], carg(u), 4e-7), "c64 angle lane %d", l);
        if (cabs(u) > 0.1 && cabs(u) < 50) {
            CHECK(nearc((double)one.re[l], (double)one.im[l], clog(1 + u), 2e-6), "log1p %d",
                  l);
            CHECK(nearc((double)less.re[l], (double)less.im[l], cexp(u) - 1, 2e-6), "expm1 %d",
                  l);
        } else if (cabs(u) <= 0.1) {
            CHECK(nearc((double)one.re[l], (double)one.im[l], u, 2e-6), "log1p %d", l);
            CHECK(nearc((double)less.re[l], (double)less.im[l], u, 2e-6), "expm1 %d", l);
        }
    }
    for (int l = 0; l < CV_LANES_c128; l++) {
        double complex u = __builtin_complex(d[l].re, d[l].im);
        CHECK(nearc(qd.re[l], qd.im[l], u / __builtin_complex(3.0, -4.0), 1e-15),
              "c128 div lane %d", l);
    }
    cv_c64 none = cv_div_c64(cv_pair_c64(1, 0), cv_pair_c64(0, 0));
    CHECK(isinf(none.re[0]) && isnan(none.im[0]), "c64 division by zero");
}

/* Functions of complex numbers against libm's in long double: NaN, infinities and zeros must
 * agree, and the error is at most 12 units of the result's size.  Signs of zeros and infinities
 * are not compared: C leaves many of them open. */
static int kind_of(double x, double least)
{
    return isnan(x) ? 0 : isinf(x) ? 1 : fabs(x) < least ? 2 : 3;
}

static void check_complex_value(const char *name, double x, double y, double re, double im,
                                long double complex want, double least, double unit)
{
    int single = unit > 0x1p-40;
    double a = single ? (double)(float)creall(want) : (double)creall(want);
    double b = single ? (double)(float)cimagl(want) : (double)cimagl(want);
    long double size = cabsl(want),
                d = hypotl((long double)re - creall(want), (long double)im - cimagl(want));

    CHECK(kind_of(re, least) == kind_of(a, least) && kind_of(im, least) == kind_of(b, least),
          "%s(%a, %a): %a, %a; not %a, %a", name, x, y, re, im, a, b);
    if (isfinite(a) && isfinite(b) && size > (long double)least)
        CHECK(d <= size * 12 * (long double)unit, "%s(%a, %a): %a, %a; not %a, %a", name, x, y,
              re, im, a, b);
}

#define COMPLEX_CHECK(name)                                                                    \
    static void complex_##name(double x, double y)                                             \
    {                                                                                          \
        float u = (float)x, v = (float)y;                                                      \
        cv_c128 d = cv_##name##_c128(cv_pair_c128(x, y));                                      \
        cv_c64 f = cv_##name##_c64(cv_pair_c64(u, v));                                         \
        check_complex_value(#name "_c128", x, y, d.re[0], d.im[0],                             \
                            c##name##l(__builtin_complex((long double)x, (long double)y)),     \
                            0x1p-1021, 0x1p-53);                                               \
        check_complex_value(                                                                   \
            #name "_c64", (double)u, (double)v, (double)f.re[0], (double)f.im[0],              \
            c##name##l(__builtin_complex((long double)u, (long double)v)), 0x1p-125, 0x1p-24); \
    }
COMPLEX_CHECK(exp)
COMPLEX_CHECK(log)
COMPLEX_CHECK(sqrt)
COMPLEX_CHECK(sin)
COMPLEX_CHECK(cos)
COMPLEX_CHECK(tan)
COMPLEX_CHECK(sinh)
COMPLEX_CHECK(cosh)
COMPLEX_CHECK(tanh)

static void complex_functions(double x, double y)
{
    complex_exp(x, y);
    complex_log(x, y);
    complex_sqrt(x, y);
    complex_sin(x, y);
    complex_cos(x, y);
    complex_tan(x, y);
    complex_sinh(x, y);
    complex_cosh(x, y);
    complex_tanh(x, y);
}

static void check_complex_functions(void)
{
    static const double few[] = {0,    -0.0, 1,  -1,  0.5, -2,    HUGE_VAL,   -HUGE_VAL,
                                 1e30, -30,  50, 100, -85, 1e-30, (double)NAN};
    enum { FEW = sizeof few / sizeof few[0] };

    for (int i = 0; i < FEW * FEW; i++)
        complex_functions(few[i / FEW], few[i % FEW]);
    for (int i = 0; i < 2000; i++) {
        double angle = (double)(draw() % 6283) * 0.001;
        complex_functions((double)(int64_t)draw() * 0x1p-61, (double)(int64_t)draw() * 0x1p-61);
        complex_functions(cos(angle), sin(angle)); /* where the logarithm is small */
    }
}

/* --- random numbers --- */

static void check_random(void)
{
    uint64_t seed = draw(), offset = draw(), start = draw() % 1000;
    cv_i32 line = cv_philox(seed, offset, start), four[4];
    cv_f32 u = cv_random_f32(seed, offset, start);

    cv_philox4(seed, offset, start / 4 * 4, four);
    for (int l = 0; l < CV_LANES_i32; l++) {
        uint32_t word = cr_philox_word(seed, offset, start + (uint64_t)l);
        CHECK((uint32_t)line[l] == word, "philox lane %d", l);
        CHECK(u[l] == cr_philox_float(word), "random lane %d", l);
    }
    for (int i = 0; i < 4 * CV_LANES_i32; i++)
        CHECK((uint32_t)four[i / CV_LANES_i32][i % CV_LANES_i32] ==
                  cr_philox_word(seed, offset, start / 4 * 4 + (uint64_t)i),
              "philox4 element %d", i);
}

/* --- reductions: against the tree in scalar C, and across instruction sets --- */

static unsigned long *trace_end;

static void trace(double x)
{
    unsigned long bits;
    memcpy(&bits, &x, sizeof bits);
    *trace_end++ = bits;
}

#define REDUCE(T, op, combine)                                                                 \
    do {                                                                                       \
        cv_s_##T t_[64];                                                                       \
        cv_##T acc_[CV_REDUCE_##T];                                                            \
        memcpy(t_, x, sizeof t_);                                                              \
        for (int i = 0; i < CV_REDUCE_##T; i++)                                                \
            acc_[i] = cv_load_##T(x + i * CV_LANES_##T);                                       \
        for (int half = 32; half > 0; half /= 2)                                               \
            for (int l = 0; l < half; l++) {                                                   \
                cv_s_##T a = t_[l], b = t_[l + half];                                          \
                t_[l] = combine;                                                               \
            }                                                                                  \
        cv_s_##T r_ = cv_reduce_##op##_##T(acc_);                                              \
        CHECK(same((double)r_, (double)t_[0]), "reduce_%s_%s", #op, #T);                       \
        trace((double)r_);                                                                     \
    } while (0)

#define DEFINE_REDUCE_CHECK(T, make)                                                           \
    static void reduce_##T(void)                                                               \
    {                                                                                          \
        cv_s_##T x[64];                                                                        \
        for (int l = 0; l < 64; l++)                                                           \
            x[l] = (cv_s_##T)(make);                                                           \
        REDUCE(T, add, a + b);                                                                 \
        REDUCE(T, mul, a *b);                                                                  \
        REDUCE(T, maximum, (cv_s_##T)(a > b ? a : b));                                         \
        REDUCE(T, minimum, (cv_s_##T)(a < b ? a : b));                                         \
    }
DEFINE_REDUCE_CHECK(f32, ldexp((double)(int64_t)draw(), -62))
DEFINE_REDUCE_CHECK(f64, ldexp((double)(int64_t)draw(), -62))
DEFINE_REDUCE_CHECK(i32, (draw() % 8 == 0) + 1)
DEFINE_REDUCE_CHECK(i64, (draw() % 8 == 0) + 1)

static void reduce_rest(void)
{
    cv_s_f32 x[64];
    cv_s_u8 bytes[64];
    cv_c64 acc[CV_REDUCE_c64];
    cv_s_c64 z[64];

    for (int l = 0; l < 64; l++) {
        x[l] = (float)(l % 7);
        z[l] = (cv_s_c64){(float)(int64_t)draw() * 0x1p-62f, (float)(int64_t)draw() * 0x1p-62f};
    }
    x[19] = NAN;
    cv_f32 v[CV_REDUCE_f32];
    for (int i = 0; i < CV_REDUCE_f32; i++)
        v[i] = cv_load_f32(x + i * CV_LANES_f32);
    CHECK(isnan(cv_reduce_maximum_f32(v)) && isnan(cv_reduce_minimum_f32(v)),
          "NaN is passed on");
    for (int i = 0; i < CV_REDUCE_c64; i++)
        acc[i] = cv_load_c64(z + i * CV_LANES_c64);
    cv_s_c64 sum = cv_reduce_add_c64(acc), product = cv_reduce_mul_c64(acc);
    trace((double)sum.re);
    trace((double)sum.im);
    trace((double)product.re);
    trace((double)product.im);
    unsigned total = 0, product8 = 1, most = 0;
    for (int l = 0; l < 64; l++) {
        bytes[l] = (cv_s_u8)(l * 2 + 1);
        if (l < CV_LANES_u8 * CV_REDUCE_u8) {
            total += bytes[l];
            product8 = product8 * bytes[l] & 255;
            most = bytes[l] > most ? bytes[l] : most;
        }
    }
    cv_u8 b[CV_REDUCE_u8];
    for (int i = 0; i < CV_REDUCE_u8; i++)
        b[i] = cv_load_u8(bytes + i * CV_LANES_u8);
    CHECK(cv_reduce_add_u8(b) == (cv_s_u8)total, "reduce_add_u8");
    CHECK(cv_reduce_mul_u8(b) == (cv_s_u8)product8, "reduce_mul_u8");
    CHECK(cv_reduce_maximum_u8(b) == (cv_s_u8)most, "reduce_maximum_u8");
    CHECK(cv_reduce_minimum_u8(b) == 1, "reduce_minimum_u8");
}

int NAME(ULP_ISA)(unsigned long *out)
{
    failures = 0;
    state = 12345;
    trace_end = out;
    if (make_fence())
        return 1;
    /* First, so that all instruction sets draw the same numbers. */
    reduce_f32();
    reduce_f64();
    reduce_i32();
    reduce_i64();
    reduce_rest();
    for (int i = 0; i < 3000; i++) {
        check_i32();
        check_i64();
        check_u8();
        check_f32();
        check_f64();
        check_pairs();
    }
    for (int i = 0; i < 50; i++) {
        check_random();
        check_ncdf();
        check_complex();
    }
    check_complex_functions();
    check_special();
    memory_f32();
    memory_f64();
    memory_i32();
    memory_i64();
    memory_u8();
    memory_c64();
    memory_c128();
    masks_8();
    masks_32();
    masks_64();
    return failures;
}
