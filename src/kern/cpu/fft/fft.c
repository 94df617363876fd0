/* Discrete Fourier transforms: plans. */
#include "kern/cpu/fft/fft.h"
#include "base/memory.h"
#include "kern/cpu/pack.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { MOST_PASSES = 64, GREATEST_RADIX = 31 };

struct cr_fft_plan {
    int count; /* references to a cached plan, guarded by `lock` */
    cr_dtype t;
    int64_t n;
    bool forward;
    int passes;
    int64_t radix[MOST_PASSES];
    void *twiddle[MOST_PASSES]; /* [rest, radix - 1] complex */
    void *roots[MOST_PASSES];   /* radix-th roots of one, for radices above 4 */
    cr_fft_plan *inner;         /* Bluestein: a forward plan whose length is a power of two */
    void *chirp, *filter;       /* [n] and [inner->n] complex */
};

typedef struct {
    int64_t count, rest, radix; /* count: lines in an inner loop; rest: remaining length */
    double sign;
    const void *twiddle, *roots;
} fft_pass;

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/fft/fft_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/fft/fft_loops.inc"

static void fft_put(const cr_fft_plan *p, void *to, int64_t i, double re, double im)
{
    if (p->t == CR_C64)
        ((cr_complex_float *)to)[i] = (cr_complex_float){(float)re, (float)im};
    else
        ((cr_complex *)to)[i] = (cr_complex){re, im};
}

/* exp(+-2 pi i k / n).  Reduces k first, so that large products keep their digits. */
static void put_root(const cr_fft_plan *p, void *to, int64_t i, int64_t k, int64_t n)
{
    double angle = 2 * 3.14159265358979323846 * (double)(k % n) / (double)n;

    fft_put(p, to, i, cos(angle), p->forward ? -sin(angle) : sin(angle));
}

static void *complex_array(const cr_fft_plan *p, int64_t n)
{
    return cr_aligned_alloc((size_t)(n > 0 ? n : 1) * cr_dtype_size(p->t));
}

/* Splits n into radices; false when a prime factor is too large. */
static bool plan_factor(cr_fft_plan *p)
{
    int64_t n = p->n;

    while (n % 4 == 0)
        p->radix[p->passes++] = 4, n /= 4;
    for (int64_t r = 2; r <= GREATEST_RADIX && n > 1; r++)
        while (n % r == 0)
            p->radix[p->passes++] = r, n /= r;
    return n == 1;
}

static cr_status make_twiddles(cr_fft_plan *p)
{
    int64_t rest = p->n;

    for (int i = 0; i < p->passes; i++) {
        int64_t r = p->radix[i], whole = rest;
        rest /= r;
        p->twiddle[i] = complex_array(p, rest * (r - 1));
        p->roots[i] = complex_array(p, r);
        CR_NEED(p->twiddle[i] && p->roots[i]);
        for (int64_t j = 0; j < rest; j++)
            for (int64_t q = 1; q < r; q++)
                put_root(p, p->twiddle[i], j * (r - 1) + q - 1, j * q, whole);
        for (int64_t q = 0; q < r; q++)
            put_root(p, p->roots[i], q, q, r);
    }
    return CR_OK;
}

/* exp(-+pi i k^2 / n) */
static void put_chirp(const cr_fft_plan *p, void *to, int64_t i, int64_t k, bool conjugate,
                      double scale)
{
    int64_t square = (int64_t)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * p->n));
    double angle = 3.14159265358979323846 * (double)square / (double)p->n;
    double im = p->forward == conjugate ? sin(angle) : -sin(angle);

    fft_put(p, to, i, cos(angle) * scale, im * scale);
}

/* The transform of the conjugate chirp, centered at zero, including the factor 1 / m. */
static cr_status make_chirp(cr_fft_plan *p)
{
    int64_t m = 1;
    void *scratch;

    while (m < 2 * p->n - 1)
        m *= 2;
    CR_TRY(cr_fft_plan_new(&p->inner, p->t, m, true));
    p->chirp = complex_array(p, p->n);
    p->filter = complex_array(p, m);
    scratch = cr_aligned_alloc(cr_fft_scratch(p->inner, 1));
    if (!p->chirp || !p->filter || !scratch) {
        cr_aligned_free(scratch);
        return CR_MEMORY;
    }
    memset(p->filter, 0, (size_t)m * cr_dtype_size(p->t));
    for (int64_t k = 0; k < p->n; k++) {
        put_chirp(p, p->chirp, k, k, false, 1);
        put_chirp(p, p->filter, k, k, true, 1 / (double)m);
        if (k)
            put_chirp(p, p->filter, m - k, k, true, 1 / (double)m);
    }
    cr_fft_lines(p->inner, p->filter, 1, m, 1, 1, scratch);
    cr_aligned_free(scratch);
    return CR_OK;
}

cr_status cr_fft_plan_new(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward)
{
    cr_fft_plan *p = cr_alloc_zero(sizeof *p);
    cr_status st;

    CR_NEED(p);
    p->t = t;
    p->n = n;
    p->forward = forward;
    if (plan_factor(p))
        st = make_twiddles(p);
    else {
        p->passes = 0;
        st = make_chirp(p);
    }
    CR_GIVE(st, out, p, cr_fft_plan_drop);
}

void cr_fft_plan_drop(cr_fft_plan *p)
{
    if (!p)
        return;
    for (int i = 0; i < MOST_PASSES; i++) {
        cr_aligned_free(p->twiddle[i]);
        cr_aligned_free(p->roots[i]);
    }
    cr_fft_plan_drop(p->inner);
    cr_aligned_free(p->chirp);
    cr_aligned_free(p->filter);
    cr_free(p);
}

size_t cr_fft_scratch(const cr_fft_plan *p, int64_t lines)
{
    return 2 * (size_t)((p->inner ? p->inner->n : p->n) * lines) * cr_dtype_size(p->t);
}

void cr_fft_lines(const cr_fft_plan *p, void *data, int64_t step, int64_t next, int64_t lines,
                  double scale, void *scratch)
{
    if (p->t == CR_C64)
        f32_lines(p, data, step, next, lines, scale, scratch);
    else
        f64_lines(p, data, step, next, lines, scale, scratch);
}

/* --- cached plans --- */

#ifdef CR_MEAN
enum { KEPT = 1 };
#else
enum { KEPT = 32 };
#endif

static cr_fft_plan *kept[KEPT];
static uint64_t used[KEPT], now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The caller holds the lock. */
static void let_go(cr_fft_plan *p)
{
    if (p && --p->count == 0)
        cr_fft_plan_drop(p);
}

static cr_fft_plan *find_kept(cr_dtype t, int64_t n, bool forward)
{
    cr_fft_plan *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && !found; i++)
        if (kept[i] && kept[i]->t == t && kept[i]->n == n && kept[i]->forward == forward) {
            found = kept[i];
            found->count++;
            used[i] = ++now;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

static void cache_plan(cr_fft_plan *p)
{
    int at = 0;

    pthread_mutex_lock(&lock);
    for (int i = 1; i < KEPT; i++)
        if (used[i] < used[at])
            at = i;
    let_go(kept[at]);
    kept[at] = p;
    used[at] = ++now;
    p->count = 2; /* the cache's reference and the caller's */
    pthread_mutex_unlock(&lock);
}

cr_status cr_fft_plan_get(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward)
{
    *out = find_kept(t, n, forward);
    if (*out)
        return CR_OK;
    CR_TRY(cr_fft_plan_new(out, t, n, forward));
    cache_plan(*out);
    return CR_OK;
}

void cr_fft_plan_release(cr_fft_plan *p)
{
    pthread_mutex_lock(&lock);
    let_go(p);
    pthread_mutex_unlock(&lock);
}
