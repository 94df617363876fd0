/* random.cuh - random numbers on an NVIDIA GPU: Philox4x32-10 with the seed as its key.
 *
 * Follows move.cuh.  CX_FORM is one of the numbers below, CX_ITEM the type of elements.
 *
 * cx_fill: the upper half of a counter is a thread's number, the lower half counts its blocks
 * of four words.  A thread makes four numbers of a block (two of CX_REAL double, and of 64
 * bits) for elements that are as many threads apart as the grid has: so torch's kernels draw.
 * Words become numbers as in cuRAND, with the GPU's fast functions where torch has them.
 * cx_each: element i has word i % 4 of block offset + i / 4, as num/philox.h says. */
#ifndef CR_EMIT_RANDOM_CUH
#define CR_EMIT_RANDOM_CUH

#include "emit/move.cuh"

#define CX_UNIFORM     0
#define CX_NORMAL      1
#define CX_LOG_NORMAL  2
#define CX_CAUCHY      3
#define CX_EXPONENTIAL 4
#define CX_GEOMETRIC   5
#define CX_BERNOULLI   6
#define CX_INTEGERS    7
#define CX_KEPT        8
#define CX_CHANCES     9

typedef unsigned long long cx_word64;

enum { CX_DIMS = 8, CX_ROUNDS = 10, CX_THREADS = 256 };

/* Steps are in bytes.  chance: a probability for each element. */
struct cx_call {
    char *to;
    const char *chance;
    cx_word64 *late;
    cx_word64 number, seed, block, range;
    const cx_word64 *state; /* NULL, or the seed and what is added to the block */
    cm_i64 from, n, ndim, size[CX_DIMS], step[CX_DIMS], chance_step[CX_DIMS];
    double a, b;
};

struct cx_words {
    unsigned word[4];
};

/* The compiler's product of 64 bits adds zeros to the upper half. */
CV_FN cx_word64 cx_product(unsigned a, unsigned b)
{
#ifdef __CUDA_ARCH__
    cx_word64 x;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(x) : "r"(a), "r"(b));
    return x;
#else
    return (cx_word64)a * b;
#endif
}

CV_FN cx_words cx_philox(cx_word64 seed, cx_word64 low, cx_word64 high)
{
    unsigned a = (unsigned)low, b = (unsigned)(low >> 32), c = (unsigned)high,
             d = (unsigned)(high >> 32), key = (unsigned)seed, lock = (unsigned)(seed >> 32);

    CV_ALL
    for (int i = 0; i < CX_ROUNDS; i++) {
        const cx_word64 p = cx_product(a, 0xD2511F53u), q = cx_product(c, 0xCD9E8D57u);
        a = (unsigned)(q >> 32) ^ b ^ key;
        b = (unsigned)q;
        c = (unsigned)(p >> 32) ^ d ^ lock;
        d = (unsigned)p;
        key += 0x9E3779B9u;
        lock += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}

CV_FN cx_word64 cx_seed(const cx_call &c) { return c.state ? c.state[0] : c.seed; }
CV_FN cx_word64 cx_first(const cx_call &c) { return c.block + (c.state ? c.state[1] : 0); }

CV_FN void cx_place(const cx_call &c, cm_i64 i, cm_i64 *to, cm_i64 *chance)
{
    *to = *chance = 0;
    for (int d = (int)c.ndim - 1; d > 0; d--) {
        const cm_i64 up = i / c.size[d], k = i - up * c.size[d];
        *to += k * c.step[d];
        *chance += k * c.chance_step[d];
        i = up;
    }
    if (c.ndim) {
        *to += i * c.step[0];
        *chance += i * c.chance_step[0];
    }
}

#if CX_FORM < CX_KEPT
/* --- functions, fast ones where torch has them --- */

#ifdef __CUDACC_RTC__
CV_FN float cx_log(float x) { return __logf(x); }
CV_FN float cx_exp(float x) { return __expf(x); }
CV_FN float cx_tan(float x) { return __tanf(x); }
CV_FN void cx_turn(float x, float *s, float *c) { __sincosf(x, s, c); }
CV_FN void cx_turn_pi(double x, double *s, double *c) { sincospi(x, s, c); }
CV_FN float cx_full_log(float x) { return logf(x); }
#else
CV_FN float cx_log(float x) { return __builtin_logf(x); }
CV_FN float cx_exp(float x) { return __builtin_expf(x); }
CV_FN float cx_tan(float x) { return __builtin_tanf(x); }
CV_FN void cx_turn(float x, float *s, float *c)
{
    *s = __builtin_sinf(x);
    *c = __builtin_cosf(x);
}
CV_FN void cx_turn_pi(double x, double *s, double *c)
{
    *s = __builtin_sin(x * 3.14159265358979323846);
    *c = __builtin_cos(x * 3.14159265358979323846);
}
CV_FN float cx_full_log(float x) { return __builtin_logf(x); }
#endif
CV_FN double cx_log(double x) { return __builtin_log(x); }
CV_FN double cx_exp(double x) { return __builtin_exp(x); }
CV_FN double cx_tan(double x) { return __builtin_tan(x); }
CV_FN float cx_fma(float a, float b, float c) { return CV_FMAF(a, b, c); }
CV_FN double cx_fma(double a, double b, double c) { return CV_FMAD(a, b, c); }

/* --- numbers of (0, 1], and normal pairs --- */

CV_FN cx_word64 cx_long(unsigned low, unsigned high) { return low ^ (cx_word64)high << 21; }

CV_FN void cx_uniform(const cx_words &w, float *v)
{
    CV_ALL
    for (int k = 0; k < 4; k++)
        v[k] = cx_fma((float)w.word[k], 0x1p-32f, 0x1p-33f);
}
CV_FN void cx_uniform(const cx_words &w, double *v)
{
    CV_ALL
    for (int k = 0; k < 2; k++)
        v[k] = cx_fma((double)cx_long(w.word[2 * k], w.word[2 * k + 1]), 0x1p-53, 0x1p-54);
}
CV_FN void cx_normal(const cx_words &w, float *v)
{
    const float turn = 0x1p-32f * 6.2831855f;

    CV_ALL
    for (int k = 0; k < 4; k += 2) {
        const float u = cx_fma((float)w.word[k], 0x1p-32f, 0x1p-33f);
        const float r = __builtin_sqrtf(-2.0f * cx_full_log(u));
        cx_turn(cx_fma((float)w.word[k + 1], turn, turn / 2), &v[k], &v[k + 1]);
        v[k] *= r;
        v[k + 1] *= r;
    }
}
CV_FN void cx_normal(const cx_words &w, double *v)
{
    const double u = cx_fma((double)cx_long(w.word[0], w.word[1]), 0x1p-53, 0x1p-54);
    const double r = __builtin_sqrt(-2.0 * __builtin_log(u));

    cx_turn_pi(cx_fma((double)cx_long(w.word[2], w.word[3]), 0x1p-52, 0x1p-53), &v[0], &v[1]);
    v[0] *= r;
    v[1] *= r;
}

/* --- distributions of parameters a, b --- */

#if CX_FORM == CX_INTEGERS
typedef cx_word64 cx_value;
enum { CX_NUMBERS = CX_WIDE ? 2 : 4 };
CV_FN void cx_draw(const cx_words &w, cx_value *v)
{
    CV_ALL
    for (int k = 0; k < CX_NUMBERS; k++)
        v[k] =
            CX_WIDE ? (cx_word64)w.word[2 * k % 4] << 32 | w.word[(2 * k + 1) % 4] : w.word[k];
}
CV_FN CX_ITEM cx_item(const cx_call &c, cx_value v)
{
    return cm_to<CX_ITEM>::of((cm_i64)((c.range ? v % c.range : v) + (cx_word64)c.from));
}
#else
typedef CX_REAL cx_value;
enum { CX_NUMBERS = sizeof(cx_value) == 8 ? 2 : 4 };
CV_FN void cx_draw(const cx_words &w, cx_value *v)
{
    if (CX_FORM == CX_NORMAL || CX_FORM == CX_LOG_NORMAL)
        cx_normal(w, v);
    else
        cx_uniform(w, v);
}
CV_FN cx_value cx_epsilon(void)
{
    return (cx_value)(sizeof(cx_value) == 8 ? 0x1p-52 : 0x1p-23);
}
CV_FN CX_ITEM cx_item(const cx_call &c, cx_value v)
{
    const cx_value a = (cx_value)c.a, b = (cx_value)c.b, e = cx_epsilon();
    cx_value x;

#if CX_FORM == CX_UNIFORM
    const CX_ITEM first = cm_to<CX_ITEM>::of(a), end = cm_to<CX_ITEM>::of(b);
    const CX_ITEM span = cm_to<CX_ITEM>::of(cm_real(end) - cm_real(first));
    const CX_ITEM y =
        cm_to<CX_ITEM>::of(cx_fma(v, (cx_value)cm_real(span), (cx_value)cm_real(first)));
    return cm_real(y) == cm_real(end) ? first : y;
#elif CX_FORM == CX_NORMAL
    x = cx_fma(v, b, a);
#elif CX_FORM == CX_LOG_NORMAL
    x = cx_exp(cx_fma(v, b, a));
#elif CX_FORM == CX_CAUCHY
    v = v > 1 - e ? 1 - e : v < e ? e : v;
    x = cx_fma(b, cx_tan((cx_value)3.14159265358979323846 * (v - (cx_value)0.5)), a);
#elif CX_FORM == CX_EXPONENTIAL
    x = -1 / a * (v >= 1 - e / 2 ? -e / 2 : cx_log(v));
#elif CX_FORM == CX_GEOMETRIC
    x = cx_log(v) / cx_log(1 - a);
    const cx_value down = sizeof x == 8 ? (cx_value)__builtin_floor((double)-x)
                                        : (cx_value)__builtin_floorf((float)-x);
    x = -down;
#else
    x = v < a;
#endif
    return cm_to<CX_ITEM>::of(x);
}
#endif

/* Elements of one dim.  All blocks of torch's grid have to run at once, which leaves a thread
 * 32 registers. */
CK_KERNEL_OF(CK_AT_ONCE(CX_THREADS, 8), cx_fill, cx_call)
{
    const cm_i64 me = ck_first_x(), apart = ck_step_x(), step = apart * call.step[0];
    const cx_word64 seed = cx_seed(call);
    cx_word64 block = cx_first(call);
    char *to = call.to + me * call.step[0];

    for (cm_i64 left = call.n - me; left > 0; left -= CX_NUMBERS * apart, block++) {
        cx_value v[4];
        cx_draw(cx_philox(seed, block, me), v);
        CV_ALL
        for (int k = 0; k < CX_NUMBERS; k++, to += step)
            if (left > k * apart)
                *(CX_ITEM *)to = cx_item(call, v[k]);
    }
}

CK_KERNEL_OF(CX_THREADS, cx_fill_dims, cx_call)
{
    const cm_i64 me = ck_first_x(), apart = ck_step_x();
    const cx_word64 seed = cx_seed(call);
    cx_word64 block = cx_first(call);

    for (cm_i64 first = me; first < call.n; first += CX_NUMBERS * apart, block++) {
        cx_value v[4];
        cx_draw(cx_philox(seed, block, me), v);
        CV_ALL
        for (int k = 0; k < CX_NUMBERS; k++) {
            cm_i64 i = first + k * apart, to, chance;
            if (i >= call.n)
                continue;
            cx_place(call, i, &to, &chance);
            *(CX_ITEM *)(call.to + to) = cx_item(call, v[k]);
        }
    }
}
#else
/* --- truths: element i of its own word --- */

#if CX_FORM == CX_KEPT
/* Dense bytes: true where the number is at least a.  A number is the upper 24 bits of a word
 * times 2^-24, so words are compared with an integer: the greatest that is not kept, unless all
 * are.  A thread draws the words of CX_BYTES elements. */
enum { CX_BYTES = 16 };
struct alignas(CX_BYTES) cx_bytes {
    unsigned word[CX_BYTES / 4];
};

CK_KERNEL_OF(CX_THREADS, cx_each, cx_call)
{
    const float end = (float)call.a * 0x1p24f;
    const unsigned least = (unsigned)end + ((float)(unsigned)end < end);
    const unsigned last = (least << 8) - 1;
    const bool all = !least;
    const cx_word64 seed = cx_seed(call), block = cx_first(call);
    const bool aligned = (cm_i64)call.to % CX_BYTES == 0;

    for (cm_i64 first = ck_first_x() * CX_BYTES; first < call.n;
         first += ck_step_x() * CX_BYTES) {
        cx_bytes kept;
        CV_ALL
        for (int q = 0; q < CX_BYTES / 4; q++) {
            const cx_words w = cx_philox(seed, block + first / 4 + q, 0);
            kept.word[q] = 0;
            CV_ALL
            for (int k = 0; k < 4; k++)
                kept.word[q] |= w.word[k] > last || all ? 1u << 8 * k : 0;
        }
        if (aligned && first + CX_BYTES <= call.n)
            *(cx_bytes *)(call.to + first) = kept;
        else
            CV_ALL
        for (int k = 0; k < CX_BYTES; k++)
            if (first + k < call.n)
                call.to[first + k] = (char)(kept.word[k / 4] >> k % 4 * 8 & 1);
    }
}
#else
CV_FN float cx_unit(unsigned word) { return (float)(word >> 8) * 0x1p-24f; }

CK_KERNEL_OF(CX_THREADS, cx_each, cx_call)
{
    for (cm_i64 b = ck_first_x(); 4 * b < call.n; b += ck_step_x()) {
        const cx_words w = cx_philox(cx_seed(call), cx_first(call) + b, 0);
        CV_ALL
        for (int k = 0; k < 4; k++) {
            cm_i64 i = 4 * b + k, to, chance;
            if (i >= call.n)
                continue;
            cx_place(call, i, &to, &chance);
            const double p = (double)cm_real(*(const CX_CHANCE *)(call.chance + chance));
            if (!(p >= 0 && p <= 1))
                *call.late = call.number | ((cx_word64)i & 0xffffffffffffULL);
            *(CX_ITEM *)(call.to + to) =
                cm_to<CX_ITEM>::of((int)((double)cx_unit(w.word[k]) < p));
        }
    }
}
#endif
#endif

#endif
