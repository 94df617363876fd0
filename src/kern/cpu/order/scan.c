/* Running sums, products, logarithmic sums and extremes along a dimension.
 *
 * Sums and products of floats follow the order of num/order.h: the totals of earlier runs and
 * blocks are added to each element of a run.  Their running values have double precision, as in
 * torch on the CPU (float for half types).  All other scans combine the elements one after the
 * other.  Lines that are adjacent in memory are scanned together, TILE at a time. */
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
    int64_t *index; /* cummax, cummin */
    int64_t lines, n;
    int64_t to_step, from_step, index_step;
    int64_t to_line, from_line, index_line;
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

/* `own` is the total of the run's elements so far, `runs` that of the block's earlier runs,
 * `blocks` that of the earlier blocks.  `carry` combines the last two. */
#define RUNS(suffix, type, start, combine, count, from_line, to_line)                          \
    for (int64_t first = 0; first < t->n; first += CR_SCAN_RUN) {                              \
        int64_t end = first + CR_SCAN_RUN < t->n ? first + CR_SCAN_RUN : t->n;                 \
        for (int64_t j = 0; j < (count); j++) {                                                \
            if (first % CR_SCAN_BLOCK == 0) {                                                  \
                blocks[j] = combine(blocks[j], runs[j]);                                       \
                runs[j] = start;                                                               \
            }                                                                                  \
            carry[j] = combine(blocks[j], runs[j]);                                            \
            own[j] = (type)load_##suffix(t->from + first * t->from_step + j * (from_line));    \
            store_##suffix(t->to + first * t->to_step + j * (to_line),                         \
                           combine(carry[j], own[j]));                                         \
        }                                                                                      \
        for (int64_t i = first + 1; i < end; i++)                                              \
            for (int64_t j = 0; j < (count); j++) {                                            \
                type x = (type)load_##suffix(t->from + i * t->from_step + j * (from_line));    \
                own[j] = combine(own[j], x);                                                   \
                store_##suffix(t->to + i * t->to_step + j * (to_line),                         \
                               combine(carry[j], own[j]));                                     \
            }                                                                                  \
        for (int64_t j = 0; j < (count); j++)                                                  \
            runs[j] = combine(runs[j], own[j]);                                                \
    }
#define ORDERED_SCAN(name, suffix, type, start, combine)                                       \
    static void name##_##suffix(const scan_tile *t)                                            \
    {                                                                                          \
        enum { ITEM = sizeof(item_##suffix) };                                                 \
        type own[TILE], carry[TILE], runs[TILE], blocks[TILE];                                 \
        for (int64_t j = 0; j < t->lines; j++)                                                 \
            runs[j] = blocks[j] = start;                                                       \
        if (t->lines == 1)                                                                     \
            RUNS(suffix, type, start, combine, 1, 0, 0)                                        \
        else if (t->lines == FEW)                                                              \
            RUNS(suffix, type, start, combine, FEW, t->from_line, t->to_line)                  \
        else if (t->lines == TILE && t->from_line == ITEM && t->to_line == ITEM)               \
            RUNS(suffix, type, start, combine, TILE, ITEM, ITEM)                               \
        else                                                                                   \
            RUNS(suffix, type, start, combine, t->lines, t->from_line, t->to_line)             \
    }

#define PLUS(a, x)  ((a) + (x))
#define TIMES(a, x) ((a) * (x))
#define INT_SCANS(s)                                                                           \
    SCAN(running_sum, s, sum_##s, 0, cr_wrap_add)                                              \
    SCAN(running_product, s, sum_##s, 1, cr_wrap_mul)
#define REAL_SCANS(s)                                                                          \
    ORDERED_SCAN(running_sum, s, sum_##s, -(sum_##s)0, PLUS)                                   \
    ORDERED_SCAN(running_product, s, sum_##s, 1, TIMES)
#define COMPLEX_SCANS(s)                                                                       \
    ORDERED_SCAN(running_sum, s, sum_##s, cr_join_complex(-0.0, -0.0), PLUS)                   \
    ORDERED_SCAN(running_product, s, sum_##s, 1, TIMES)
CR_INT_TYPES(INT_SCANS)
CR_FLOAT_TYPES(REAL_SCANS)
CR_COMPLEX_TYPES(COMPLEX_SCANS)

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

/* The index is that of the last of equal extremes.  NaN wins over any number. */
#define EXTREME(name, suffix, BETTER)                                                          \
    static void name##_##suffix(const scan_tile *t)                                            \
    {                                                                                          \
        wide_##suffix best[TILE] = {0};                                                        \
        int64_t at[TILE] = {0};                                                                \
        for (int64_t i = 0; i < t->n; i++)                                                     \
            for (int64_t j = 0; j < t->lines; j++) {                                           \
                wide_##suffix x =                                                              \
                    load_##suffix(t->from + i * t->from_step + j * t->from_line);              \
                bool take = i == 0 || x != x || (best[j] == best[j] && BETTER(x, best[j]));    \
                best[j] = take ? x : best[j];                                                  \
                at[j] = take ? i : at[j];                                                      \
                store_##suffix(t->to + i * t->to_step + j * t->to_line, best[j]);              \
                *(int64_t *)((char *)t->index + i * t->index_step + j * t->index_line) =       \
                    at[j];                                                                     \
            }                                                                                  \
    }
#define AT_LEAST(x, best) ((x) >= (best))
#define AT_MOST(x, best)  ((x) <= (best))
#define EXTREMES(s)       EXTREME(max, s, AT_LEAST) EXTREME(min, s, AT_MOST)
CR_REAL_TYPES(EXTREMES)

typedef struct {
    scan_fn fn;
    scan_tile shape; /* n and the steps along lines */
} scan_context;

enum { TO, FROM, INDEX };

static void scan_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const scan_context *c = context;
    scan_tile t = c->shape;
    int64_t near = step[FROM] < 0 ? -step[FROM] : step[FROM];
    int64_t together = near && near < t.from_step ? TILE : FEW;

    t.to_line = step[TO];
    t.from_line = step[FROM];
    t.index_line = step[INDEX];
    for (int64_t first = 0; first < n; first += together) {
        t.lines = n - first < together ? n - first : together;
        t.to = at[TO] + first * step[TO];
        t.from = at[FROM] + first * step[FROM];
        t.index = t.index_step ? (int64_t *)(at[INDEX] + first * step[INDEX]) : NULL;
        c->fn(&t);
    }
}

static cr_status scan(scan_fn fn, const cr_value *arg, cr_view *out, cr_view *index)
{
    const cr_view *self = arg[0].view;
    int64_t dim = cr_view_dim(self, arg[1].i), n = cr_view_size(self, dim);
    scan_context c = {fn,
                      {.n = n,
                       .to_step = cr_view_step(out, dim),
                       .from_step = cr_view_step(self, dim),
                       .index_step = index ? cr_view_step(index, dim) : 0}};
    cr_walk w;

    if (index && !index->ndim)
        c.shape.index_step = sizeof(int64_t);
    cr_walk_start(&w, self->ndim, self->size, (int)dim);
    cr_walk_add(&w, out);
    cr_walk_add(&w, self);
    cr_walk_add(&w, index ? index : out);
    cr_walk_merge(&w);
    if (n)
        cr_walk_run(&w, cr_walk_grain(n), scan_row, &c);
    return CR_OK;
}

cr_status cr_kern_cumsum(const cr_value *arg, cr_view *out)
{
    static const scan_fn fns[] = {CR_TYPE_TABLE(running_sum, CR_AND_FLOATS_AND_COMPLEX)};

    return scan(fns[out->dtype], arg, out, NULL);
}

cr_status cr_kern_cumprod(const cr_value *arg, cr_view *out)
{
    static const scan_fn fns[] = {CR_TYPE_TABLE(running_product, CR_AND_FLOATS_AND_COMPLEX)};

    return scan(fns[out->dtype], arg, out, NULL);
}

cr_status cr_kern_logcumsumexp(const cr_value *arg, cr_view *out)
{
    static const scan_fn fns[CR_DTYPE_COUNT] = {
        [CR_F16] = logsum_f16, [CR_BF16] = logsum_bf16, [CR_F32] = logsum_f32,
        [CR_F64] = logsum_f64, [CR_C64] = logsum_c64,   [CR_C128] = logsum_c128};

    return scan(fns[out->dtype], arg, out, NULL);
}

cr_status cr_kern_cummax(const cr_value *arg, cr_view *out)
{
    static const scan_fn fns[CR_DTYPE_COUNT] = {CR_TYPE_TABLE(max, CR_AND_FLOATS)};

    return scan(fns[out[0].dtype], arg, &out[0], &out[1]);
}

cr_status cr_kern_cummin(const cr_value *arg, cr_view *out)
{
    static const scan_fn fns[CR_DTYPE_COUNT] = {CR_TYPE_TABLE(min, CR_AND_FLOATS)};

    return scan(fns[out[0].dtype], arg, &out[0], &out[1]);
}
