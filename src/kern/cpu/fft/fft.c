/* Discrete Fourier transforms: plans. */
#include "kern/cpu/fft/fft.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/fft/fft_plan.h"
#include "kern/cpu/pack.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#ifdef CR_MEAN
enum { LONG_LINE = 64 };
#else
enum { LONG_LINE = 4096 }; /* longer lines are transformed as matrices */
#endif
enum { COLUMNS = 16, SPARE_BYTES = 1 << 26, SPARE_HEAD = 64 };
/* An element number that no array has; sums with it do not overflow. */
static const int64_t NO_END = INT64_MAX / 2;

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

    p->passes = 0;
    while (n % 4 == 0)
        p->radix[p->passes++] = 4, n /= 4;
    for (int64_t r = 2; r <= GREATEST_RADIX && n > 1; r++)
        while (n % r == 0)
            p->radix[p->passes++] = r, n /= r;
    return n == 1;
}

static cr_status plan_new(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward);

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

/* The greatest factor of n without large prime factors. */
static int64_t smooth_part(int64_t n)
{
    int64_t rest = n;

    for (int64_t r = 2; r <= GREATEST_RADIX; r++)
        while (rest % r == 0)
            rest /= r;
    return n / rest;
}

/* The columns of a matrix for a line: the factor of n that is nearest to its root, or, with
 * large prime factors, the product of these.  0 where that is too large for a short line, or
 * the matrix is too flat or too high. */
static int64_t matrix_columns(int64_t n)
{
    int64_t a = (int64_t)sqrt((double)n), rough = n / smooth_part(n);

    if (rough > 1)
        return rough <= LONG_LINE / 4 && rough <= 32 * a && n / rough <= 32 * a ? rough : 0;
    while (n % a)
        a--;
    return a;
}

/* The line as a matrix. */
static cr_status make_matrix(cr_fft_plan *p)
{
    int64_t a = matrix_columns(p->n);

    CR_TRY(plan_new(&p->columns, p->t, a, p->forward));
    CR_TRY(plan_new(&p->rows, p->t, p->n / a, p->forward));
    p->cross = complex_array(p, p->n);
    CR_NEED(p->cross);
    for (int64_t i = 0; i < p->rows->n; i++)
        for (int64_t j = 0; j < a; j++)
            put_root(p, p->cross, i * a + j, i * j, p->n);
    return CR_OK;
}

/* exp(-+pi i k^2 / n) */
static void put_chirp(const cr_fft_plan *p, void *to, int64_t i, int64_t k, double scale)
{
    int64_t square = (int64_t)((uint64_t)k * (uint64_t)k % (uint64_t)(2 * p->n));
    double angle = 3.14159265358979323846 * (double)square / (double)p->n;

    fft_put(p, to, i, cos(angle) * scale, (p->forward ? -sin(angle) : sin(angle)) * scale);
}

/* Roughly the time of a transform of length m, a product of 2, 3 and 5; 0 for other lengths. */
static double length_cost(int64_t m)
{
    double passes = 0, n = (double)m;

    for (; m % 4 == 0; m /= 4)
        passes += 1;
    for (; m % 2 == 0; m /= 2)
        passes += 0.7;
    for (; m % 3 == 0; m /= 3)
        passes += 0.95;
    for (; m % 5 == 0; m /= 5)
        passes += 1.4;
    return m == 1 ? (passes + 1) * n : 0;
}

/* The cheapest length that is at least `least`. */
static int64_t good_length(int64_t least)
{
    int64_t best = 0;

    for (int64_t fives = 1; fives <= 25; fives *= 5)
        for (int64_t threes = 1; threes <= 81; threes *= 3) {
            int64_t m = fives * threes;
            while (m < least)
                m *= 2;
            if (!best || length_cost(m) < length_cost(best))
                best = m;
        }
    return best;
}

/* The transform of the conjugate chirp, centered at zero, including the factor 1 / m;
 * conjugated. */
static cr_status make_chirp(cr_fft_plan *p)
{
    int64_t m = good_length(p->take + p->give - 1);
    size_t item = cr_dtype_size(p->t);
    cr_fft_plan *inner;
    void *scratch;
    cr_status st;

    CR_TRY(cr_fft_plan_new(&p->inner, p->t, m, true));
    inner = p->inner;
    p->chirp = complex_array(p, p->n);
    p->filter = complex_array(p, m);
    scratch = cr_aligned_alloc(cr_fft_scratch(inner, 1));
    if (!p->chirp || !p->filter || !scratch) {
        cr_aligned_free(scratch);
        return CR_MEMORY;
    }
    memset(p->filter, 0, (size_t)m * item);
    for (int64_t k = 0; k < p->n; k++)
        put_chirp(p, p->chirp, k, k, 1);
    p->forward = !p->forward;
    for (int64_t k = 0; k < p->give; k++)
        put_chirp(p, p->filter, k, k, 1 / (double)m);
    for (int64_t k = 1; k < p->take; k++)
        put_chirp(p, p->filter, m - k, k, 1 / (double)m);
    p->forward = !p->forward;
    st = cr_fft_lines(inner, p->filter, 1, m, 1, 1, scratch);
    cr_aligned_free(scratch);
    for (int64_t k = 0; k < m; k++)
        if (p->t == CR_C64)
            ((cr_complex_float *)p->filter)[k].im *= -1;
        else
            ((cr_complex *)p->filter)[k].im *= -1;
    return st;
}

/* A real line of even length n as a complex one of n / 2 elements. */
static cr_status make_half(cr_fft_plan *p)
{
    int64_t half = p->n / 2;

    CR_TRY(cr_fft_plan_new(&p->half, p->t, half, p->forward));
    p->turn = complex_array(p, half + 1);
    CR_NEED(p->turn);
    for (int64_t k = 0; k <= half; k++)
        put_root(p, p->turn, k, k, p->n);
    return CR_OK;
}

/* Passes, or Bluestein where a prime factor is too large. */
static cr_status make_line(cr_fft_plan *p)
{
    if (plan_factor(p))
        return make_twiddles(p);
    p->passes = 0;
    return make_chirp(p);
}

static cr_status make_parts(cr_fft_plan *p)
{
    if (p->real && p->n % 2 == 0)
        return make_half(p);
    if (p->n > LONG_LINE && matrix_columns(p->n))
        return make_matrix(p);
    return make_line(p);
}

static cr_fft_plan *plan_empty(cr_dtype t, int64_t n, bool forward)
{
    cr_fft_plan *p = cr_alloc_zero(sizeof *p);

    if (p) {
        p->t = t;
        p->n = p->take = p->give = n;
        p->forward = forward;
    }
    return p;
}

/* A plan without a matrix. */
static cr_status plan_new(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward)
{
    cr_fft_plan *p = plan_empty(t, n, forward);
    cr_status st;

    CR_NEED(p);
    st = make_line(p);
    CR_GIVE(st, out, p, cr_fft_plan_drop);
}

cr_status cr_fft_plan_new(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward)
{
    cr_fft_plan *p = plan_empty(t, n, forward);
    cr_status st;

    CR_NEED(p);
    st = make_parts(p);
    CR_GIVE(st, out, p, cr_fft_plan_drop);
}

static cr_status real_new(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward)
{
    cr_fft_plan *p = plan_empty(t, n, forward);
    cr_status st;

    CR_NEED(p);
    p->real = true;
    if (forward)
        p->give = n / 2 + 1;
    else
        p->take = n / 2 + 1;
    st = make_parts(p);
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
    cr_fft_plan_drop(p->rows);
    cr_fft_plan_drop(p->columns);
    cr_fft_plan_drop(p->inner);
    cr_fft_plan_drop(p->half);
    cr_aligned_free(p->cross);
    cr_aligned_free(p->chirp);
    cr_aligned_free(p->filter);
    cr_aligned_free(p->turn);
    cr_free(p);
}

/* --- lines --- */

static const cr_fft_loops *fft_loops(const cr_fft_plan *p)
{
    static const cr_fft_loops *const all[] = {
#define CR_ISA_ROW(name, flags, moves) cr_fft_loops_##name,
        CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW
    };

    return &all[cr_isa_chosen()][p->t == CR_C128];
}

cr_fft_plan *cr_fft_half(const cr_fft_plan *p, const void **turn)
{
    *turn = p->turn;
    return p->half;
}

bool cr_fft_long(const cr_fft_plan *p) { return p->rows || (p->inner && p->inner->rows); }

size_t cr_fft_scratch(const cr_fft_plan *p, int64_t lines)
{
    return cr_fft_long(p)
               ? 1
               : 2 * (size_t)((p->inner ? p->inner->n : p->n) * lines) * cr_dtype_size(p->t);
}

/* Transforms of groups of adjacent lines of a matrix. */
typedef struct {
    const cr_fft_plan *plan;
    cr_fft_side from, to;
    int64_t lines;
    bool conjugate;
    double scale;
    _Atomic bool no_memory;
} lines_job;

static void lines_range(void *context, int64_t begin, int64_t end)
{
    lines_job *w = context;
    void *scratch = cr_aligned_alloc(cr_fft_scratch(w->plan, COLUMNS));

    if (!scratch)
        w->no_memory = true;
    for (int64_t g = begin; g < end && scratch; g++) {
        int64_t at = g * COLUMNS, count = w->lines - at < COLUMNS ? w->lines - at : COLUMNS;
        cr_fft_side from = w->from, to = w->to;
        from.first += at * from.across;
        to.first += at * to.across;
        if (w->plan->inner) /* plans with large factors are asked for no conjugates */
            fft_loops(w->plan)->bluestein(w->plan, &from, &to, count, w->scale, scratch);
        else
            fft_loops(w->plan)->lines(w->plan, &from, &to, count, w->conjugate, w->scale,
                                      scratch);
    }
    cr_aligned_free(scratch);
}

static cr_status run_lines(lines_job *w)
{
    cr_parallel_for((w->lines + COLUMNS - 1) / COLUMNS, 16384 / (COLUMNS * w->plan->n) + 1,
                    lines_range, w);
    return w->no_memory ? CR_MEMORY : CR_OK;
}

/* Transforms one line: columns of the matrix, a product with `cross`, and rows, whose results
 * are the columns of the transposed matrix.  `middle` has n elements. */
static cr_status matrix_line(const cr_fft_plan *p, const cr_fft_side *from,
                             const cr_fft_side *to, bool conjugate, double scale, void *middle)
{
    int64_t rows = p->rows->n, columns = p->columns->n;
    lines_job down = {.plan = p->rows, .from = *from, .lines = columns, .scale = 1};
    lines_job along = {
        .plan = p->columns, .to = *to, .lines = rows, .conjugate = conjugate, .scale = scale};

    down.from.along = columns;
    down.from.across = 1;
    down.to = (cr_fft_side){middle, 1, 0, columns, 1, NO_END, p->cross};
    along.from = (cr_fft_side){middle, 1, 0, 1, columns, NO_END, NULL};
    along.to.along = rows;
    along.to.across = 1;
    CR_TRY(run_lines(&down));
    return run_lines(&along);
}

/* Bluestein with an inner plan of a matrix: products with chirp and filter are made where
 * elements are loaded and stored. */
static cr_status chirp_line(const cr_fft_plan *p, void *data, int64_t step, double scale,
                            char *room)
{
    const cr_fft_plan *inner = p->inner;
    char *other = room + (size_t)inner->n * cr_dtype_size(p->t);
    cr_fft_side from = {data, step, 0, 1, 1, p->take, p->chirp};
    cr_fft_side to = {data, step, 0, 1, 1, p->give, p->chirp};
    cr_fft_side there = {other, 1, 0, 1, 1, NO_END, p->filter}, back = there;

    back.factor = NULL;
    CR_TRY(matrix_line(inner, &from, &there, true, 1, room));
    return matrix_line(inner, &back, &to, true, scale, room);
}

/* Scratch memory of the last long line, for the next one: new memory of this size costs as much
 * as a pass.  It begins with its size. */
static size_t *_Atomic spare;

static void *take_scratch(size_t bytes)
{
    size_t *block = atomic_exchange(&spare, NULL);

    if (!block || *block < bytes) {
        cr_aligned_free(block);
        block = cr_aligned_alloc(bytes + SPARE_HEAD);
        if (block)
            *block = bytes;
    }
    return block ? (char *)block + SPARE_HEAD : NULL;
}

static void give_scratch(void *room)
{
    size_t *block = (size_t *)((char *)room - SPARE_HEAD), *none = NULL;

    if (*block > SPARE_BYTES || !atomic_compare_exchange_strong(&spare, &none, block))
        cr_aligned_free(block);
}

static cr_status long_line(const cr_fft_plan *p, void *data, int64_t step, double scale)
{
    size_t bytes = (size_t)(p->inner ? 2 * p->inner->n : p->n) * cr_dtype_size(p->t);
    cr_fft_side from = {data, step, 0, 1, 1, p->real ? p->take : NO_END, NULL};
    cr_fft_side to = {data, step, 0, 1, 1, p->real ? p->give : NO_END, NULL};
    void *room = take_scratch(bytes);
    cr_status st;

    CR_NEED(room);
    st = p->inner ? chirp_line(p, data, step, scale, room)
                  : matrix_line(p, &from, &to, false, scale, room);
    give_scratch(room);
    return st;
}

cr_status cr_fft_lines(const cr_fft_plan *p, void *data, int64_t step, int64_t next,
                       int64_t lines, double scale, void *scratch)
{
    cr_fft_side from = {data, 1, 0, step, lines > 1 ? next : 1, p->real ? p->take : NO_END,
                        NULL};
    cr_fft_side to = from;
    size_t item = cr_dtype_size(p->t);

    if (!cr_fft_long(p)) {
        to.end = p->real ? p->give : NO_END;
        if (p->inner)
            fft_loops(p)->bluestein(p, &from, &to, lines, scale, scratch);
        else
            fft_loops(p)->lines(p, &from, &to, lines, false, scale, scratch);
        return CR_OK;
    }
    for (int64_t k = 0; k < lines; k++)
        CR_TRY(long_line(p, (char *)data + (size_t)(k * next) * item, step, scale));
    return CR_OK;
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

static cr_fft_plan *find_kept(cr_dtype t, int64_t n, bool forward, bool real)
{
    cr_fft_plan *found = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && !found; i++)
        if (kept[i] && kept[i]->t == t && kept[i]->n == n && kept[i]->forward == forward &&
            kept[i]->real == real) {
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

static cr_status plan_get(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward, bool real)
{
    *out = find_kept(t, n, forward, real);
    if (*out)
        return CR_OK;
    CR_TRY(real ? real_new(out, t, n, forward) : cr_fft_plan_new(out, t, n, forward));
    cache_plan(*out);
    return CR_OK;
}

cr_status cr_fft_plan_get(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward)
{
    return plan_get(out, t, n, forward, false);
}

cr_status cr_fft_real_get(cr_fft_plan **out, cr_dtype t, int64_t n, bool forward)
{
    return plan_get(out, t, n, forward, true);
}

void cr_fft_plan_release(cr_fft_plan *p)
{
    pthread_mutex_lock(&lock);
    let_go(p);
    pthread_mutex_unlock(&lock);
}
