/* Logarithms of running sums of exponentials along a dimension, with functions of the C
 * library.
 *
 * The elements are combined one after the other, in double precision.  Lines that are adjacent
 * in memory are scanned together, TILE at a time. */
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"

/* Adjacent lines are scanned TILE at a time; other lines FEW at a time, so that the processor
 * overlaps their chains of dependent operations. */
enum { TILE = 32, FEW = 4 };

/* `lines` lines of `n` elements.  Steps are in bytes: x_step along a line, x_line from line to
 * line. */
typedef struct {
    char *to;
    const char *from;
    int64_t lines, n;
    int64_t to_step, from_step;
    int64_t to_line, from_line;
} scan_tile;
typedef void (*scan_fn)(const scan_tile *t);

/* One running value for each line: acc = combine(acc, x). */
#define STEPS(suffix, type, combine, count)                                                    \
    for (int64_t i = 0; i < t->n; i++)                                                         \
        for (int64_t j = 0; j < (count); j++) {                                                \
            type x = (type)load_##suffix(t->from + i * t->from_step + j * t->from_line);       \
            acc[j] = combine(acc[j], x);                                                       \
            store_##suffix(t->to + i * t->to_step + j * t->to_line, acc[j]);                   \
        }
#define SCAN(name, suffix, type, start, combine)                                               \
    static void name##_##suffix(const scan_tile *t)                                            \
    {                                                                                          \
        type acc[TILE];                                                                        \
        for (int64_t j = 0; j < t->lines; j++)                                                 \
            acc[j] = start;                                                                    \
        if (t->lines == 1)                                                                     \
            STEPS(suffix, type, combine, 1)                                                    \
        else if (t->lines == FEW)                                                              \
            STEPS(suffix, type, combine, FEW)                                                  \
        else                                                                                   \
            STEPS(suffix, type, combine, t->lines)                                             \
    }

/* log(exp(a) + exp(x)); equal infinities must not be subtracted. */
static double log_add(double a, double x)
{
    double low = a < x ? a : x, high = a < x ? x : a;

    if (a != a || x != x)
        return a + x;
    if (low == high && isinf(low))
        return low;
    return high + log1p(exp(low - high));
}

/* The same for complex numbers, whose real parts are compared. */
static double _Complex log_add_complex(double _Complex a, double _Complex x)
{
    double _Complex low = creal(x) < creal(a) ? x : a, high = creal(x) < creal(a) ? a : x;
    double _Complex one = cr_join_complex(1, 0);

    if (isnan(creal(a)) || isnan(cimag(a)) || isnan(creal(x)) || isnan(cimag(x)))
        return cr_join_complex((double)NAN, (double)NAN);
    if (isinf(creal(low)) && creal(low) == creal(high))
        return creal(low) < 0 ? low : clog(cexp(low) + cexp(high));
    return high + clog(one + cexp(low - high));
}

#define NOTHING             (-(double)INFINITY)
#define NOTHING_COMPLEX     cr_join_complex(-(double)INFINITY, 0)
#define LOG_SCAN(s)         SCAN(logsum, s, double, NOTHING, log_add)
#define LOG_SCAN_COMPLEX(s) SCAN(logsum, s, double _Complex, NOTHING_COMPLEX, log_add_complex)

CR_FLOAT_TYPES(LOG_SCAN)
CR_COMPLEX_TYPES(LOG_SCAN_COMPLEX)

typedef struct {
    scan_fn fn;
    scan_tile shape; /* n and the steps along lines */
} scan_context;

enum { TO, FROM };

static void scan_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const scan_context *c = context;
    scan_tile t = c->shape;
    int64_t near = step[FROM] < 0 ? -step[FROM] : step[FROM];
    int64_t together = near && near < t.from_step ? TILE : FEW;

    t.to_line = step[TO];
    t.from_line = step[FROM];
    for (int64_t first = 0; first < n; first += together) {
        t.lines = n - first < together ? n - first : together;
        t.to = at[TO] + first * step[TO];
        t.from = at[FROM] + first * step[FROM];
        c->fn(&t);
    }
}

static cr_status scan(scan_fn fn, const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int64_t dim = cr_view_dim(self, arg[1].i), n = cr_view_size(self, dim);
    scan_context c = {
        fn, {.n = n, .to_step = cr_view_step(out, dim), .from_step = cr_view_step(self, dim)}};
    cr_walk w;

    cr_walk_start(&w, self->ndim, self->size, (int)dim);
    cr_walk_add(&w, out);
    cr_walk_add(&w, self);
    cr_walk_merge(&w);
    if (n)
        cr_walk_run(&w, cr_walk_grain(n), scan_row, &c);
    return CR_OK;
}

cr_status cr_kern_logcumsumexp(const cr_value *arg, cr_view *out)
{
    static const scan_fn fns[CR_DTYPE_COUNT] = {
        [CR_F16] = logsum_f16, [CR_BF16] = logsum_bf16, [CR_F32] = logsum_f32,
        [CR_F64] = logsum_f64, [CR_C64] = logsum_c64,   [CR_C128] = logsum_c128};

    return scan(fns[out->dtype], arg, out);
}
