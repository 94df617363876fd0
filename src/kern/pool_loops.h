/* pool_loops.h - pooling for one element type, included once per type.
 *
 * Before inclusion: T the element type, NAME(x) the suffixed name, LOWEST the
 * smallest value, IS_NAN(v) whether a value is no number.  Windows of fixed size go row by row: for each kernel position the
 * outputs that see it take it, a loop over neighbours that the compiler turns into
 * vectors. */

static inline void NAME(take_max)(T *restrict m, int64_t *restrict index, const T *x, int64_t at,
                                  int64_t n, const int64_t s)
{
    for (int64_t j = 0; j < n; j++) {
        T v = x[j * s];
        bool take = v > m[j] || IS_NAN(v) || index[j] < 0;
        m[j] = take ? v : m[j];
        index[j] = take ? at + j * s : index[j];
    }
}

/* A NaN that is there stays, a NaN that comes is taken. */
static inline void NAME(take_max_value)(T *restrict m, const T *x, int64_t n, const int64_t s)
{
    for (int64_t j = 0; j < n; j++) {
        T v = x[j * s];
        m[j] = v > m[j] || IS_NAN(v) ? v : m[j];
    }
}

static void NAME(max_shift)(T *m, int64_t *index, const T *x, int64_t at, int64_t n, int64_t s)
{
    if (!index) {
        if (s == 1)
            NAME(take_max_value)(m, x + at, n, 1);
        else if (s == 2)
            NAME(take_max_value)(m, x + at, n, 2);
        else
            NAME(take_max_value)(m, x + at, n, s);
    } else if (s == 1) {
        NAME(take_max)(m, index, x + at, at, n, 1);
    } else if (s == 2) {
        NAME(take_max)(m, index, x + at, at, n, 2);
    } else {
        NAME(take_max)(m, index, x + at, at, n, s);
    }
}

/* Calls for every kernel position and the outputs [b, e) of row (i0, i1) that see it;
 * `at` is the input position of output b. */
#define EACH_SHIFT(p, i0, i1, CALL)                                                                \
    for (int64_t k0 = 0; k0 < (p)->kernel[0]; k0++)                                                \
        for (int64_t k1 = 0; k1 < (p)->kernel[1]; k1++) {                                          \
            int64_t y0 = (i0) * (p)->stride[0] + k0 * (p)->dilation[0] - (p)->pad[0];              \
            int64_t y1 = (i1) * (p)->stride[1] + k1 * (p)->dilation[1] - (p)->pad[1];              \
            if (y0 < 0 || y0 >= (p)->in[0] || y1 < 0 || y1 >= (p)->in[1])                          \
                continue;                                                                          \
            for (int64_t k2 = 0; k2 < (p)->kernel[2]; k2++) {                                      \
                cr_window w2 = last_window(p);                                                     \
                int64_t b, e, at;                                                                  \
                cr_window_range(&w2, k2, &b, &e, &at);                                             \
                at += (y0 * (p)->in[1] + y1) * (p)->in[2];                                         \
                CALL;                                                                              \
            }                                                                                      \
        }

static void NAME(max_plane)(const cr_pool *p, const T *x, T *y, int64_t *index)
{
    for (int64_t i0 = 0; i0 < p->out[0]; i0++)
        for (int64_t i1 = 0; i1 < p->out[1]; i1++) {
            for (int64_t j = 0; j < p->out[2]; j++)
                y[j] = LOWEST;
            for (int64_t j = 0; index && j < p->out[2]; j++)
                index[j] = -1;
            EACH_SHIFT(p, i0, i1,
                       NAME(max_shift)(y + b, index ? index + b : NULL, x, at, e - b, p->stride[2]))
            y += p->out[2];
            index = index ? index + p->out[2] : NULL;
        }
}

/* --- averages --- */

static inline void NAME(add_shift)(T *restrict sum, const T *x, int64_t n, int64_t s)
{
    if (s == 1)
        for (int64_t j = 0; j < n; j++)
            sum[j] += x[j];
    else if (s == 2)
        for (int64_t j = 0; j < n; j++)
            sum[j] += x[j * 2];
    else
        for (int64_t j = 0; j < n; j++)
            sum[j] += x[j * s];
}

static void NAME(average_plane)(const cr_pool *p, const T *x, T *y)
{
    for (int64_t i0 = 0; i0 < p->out[0]; i0++)
        for (int64_t i1 = 0; i1 < p->out[1]; i1++) {
            memset(y, 0, (size_t)p->out[2] * sizeof *y);
            EACH_SHIFT(p, i0, i1, NAME(add_shift)(y + b, x + at, e - b, p->stride[2]))
            for (int64_t j = 0; j < p->out[2]; j++)
                y[j] = (T)(y[j] / (T)window_count(p, i0, i1, j));
            y += p->out[2];
        }
}

/* Adds the shares of outputs [j0, j1) where [b, e) see the position at `at`. */
static inline void NAME(spread_shift)(T *x, int64_t at, const T *share, int64_t b, int64_t e,
                                      int64_t j0, int64_t j1, int64_t s)
{
    int64_t from = b > j0 ? b : j0, to = e < j1 ? e : j1;

    for (int64_t j = from; j < to; j++)
        x[at + (j - b) * s] = (T)(x[at + (j - b) * s] + share[j - j0]);
}

/* Outputs [j0, j1) of a row, at most SHARES of them. */
static void NAME(spread_some)(const cr_pool *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1,
                              const T *y, T *x)
{
    T share[SHARES];

    for (int64_t j = j0; j < j1; j++)
        share[j - j0] = (T)(y[j] / (T)window_count(p, i0, i1, j));
    EACH_SHIFT(p, i0, i1, NAME(spread_shift)(x, at, share, b, e, j0, j1, p->stride[2]))
}

static void NAME(spread_plane)(const cr_pool *p, const T *y, T *x)
{
    memset(x, 0, (size_t)(p->in[0] * p->in[1] * p->in[2]) * sizeof *x);
    for (int64_t i0 = 0; i0 < p->out[0]; i0++)
        for (int64_t i1 = 0; i1 < p->out[1]; i1++) {
            for (int64_t j = 0; j < p->out[2]; j += SHARES)
                NAME(spread_some)(p, i0, i1, j, j + SHARES < p->out[2] ? j + SHARES : p->out[2], y, x);
            y += p->out[2];
        }
}

/* --- adaptive windows: each output walks its own --- */

#define EACH_OUTPUT(p, o, r)                                                                       \
    for (o[0] = 0; o[0] < (p)->out[0]; o[0]++)                                                     \
        for (o[1] = 0; o[1] < (p)->out[1]; o[1]++)                                                 \
            for (o[2] = 0, adaptive_range(p, o, r); o[2] < (p)->out[2];                            \
                 o[2]++, adaptive_range(p, o, r))

#define EACH_INSIDE(p, r, at)                                                                      \
    for (int64_t i0 = r[0]; i0 < r[1]; i0++)                                                       \
        for (int64_t i1 = r[2]; i1 < r[3]; i1++)                                                   \
            for (int64_t at = (i0 * (p)->in[1] + i1) * (p)->in[2] + r[4],                          \
                         end_ = at + r[5] - r[4];                                                  \
                 at < end_; at++)

static void NAME(adaptive_max_plane)(const cr_pool *p, const T *x, T *y, int64_t *index)
{
    int64_t o[3], r[6];

    EACH_OUTPUT(p, o, r)
    {
        T best = LOWEST;
        int64_t where = -1;
        EACH_INSIDE(p, r, at)
        if (x[at] > best || IS_NAN(x[at]) || where < 0) {
            best = x[at];
            where = at;
        }
        *y++ = best;
        *index++ = where;
    }
}

static void NAME(adaptive_average_plane)(const cr_pool *p, const T *x, T *y)
{
    int64_t o[3], r[6];

    EACH_OUTPUT(p, o, r)
    {
        T sum = 0;
        EACH_INSIDE(p, r, at)
        sum = (T)(sum + x[at]);
        *y++ = (T)(sum / (T)((r[1] - r[0]) * (r[3] - r[2]) * (r[5] - r[4])));
    }
}

static void NAME(adaptive_spread_plane)(const cr_pool *p, const T *y, T *x)
{
    int64_t o[3], r[6];

    memset(x, 0, (size_t)(p->in[0] * p->in[1] * p->in[2]) * sizeof *x);
    EACH_OUTPUT(p, o, r)
    {
        T share = (T)(*y++ / (T)((r[1] - r[0]) * (r[3] - r[2]) * (r[5] - r[4])));
        EACH_INSIDE(p, r, at)
        x[at] = (T)(x[at] + share);
    }
}

/* --- places --- */

static void NAME(scatter)(const cr_pool_places *p, const T *y, const int64_t *index, T *x)
{
    memset(x, 0, (size_t)p->m * sizeof *x);
    for (int64_t i = 0; i < p->n; i++)
        x[index[i]] = (T)(x[index[i]] + y[i]);
}

static void NAME(put)(const cr_pool_places *p, const T *y, const int64_t *index, T *x)
{
    memset(x, 0, (size_t)p->m * sizeof *x);
    for (int64_t i = 0; i < p->n; i++)
        x[index[i]] = y[i];
}

static void NAME(gather)(const cr_pool_places *p, const T *x, const int64_t *index, T *y)
{
    for (int64_t i = 0; i < p->n; i++)
        y[i] = x[index[i]];
}

/* --- ranges of planes, for threads --- */

static void NAME(max_range)(void *context, int64_t begin, int64_t end)
{
    const pool_job *w = context;
    const T *x = w->x;
    T *y = w->y;

    for (int64_t i = begin; i < end; i++) {
        int64_t *index = w->index ? w->index + i * w->out : NULL;
        (w->p->adaptive ? NAME(adaptive_max_plane) : NAME(max_plane))(w->p, x + i * w->in,
                                                                     y + i * w->out, index);
    }
}

static void NAME(average_range)(void *context, int64_t begin, int64_t end)
{
    const pool_job *w = context;
    const T *x = w->x;
    T *y = w->y;

    for (int64_t i = begin; i < end; i++)
        (w->p->adaptive ? NAME(adaptive_average_plane) : NAME(average_plane))(w->p, x + i * w->in,
                                                                             y + i * w->out);
}

static void NAME(spread_range)(void *context, int64_t begin, int64_t end)
{
    const pool_job *w = context;
    const T *y = w->x;
    T *x = w->y;

    for (int64_t i = begin; i < end; i++)
        (w->p->adaptive ? NAME(adaptive_spread_plane) : NAME(spread_plane))(w->p, y + i * w->out,
                                                                           x + i * w->in);
}

static void NAME(places_range)(void *context, int64_t begin, int64_t end)
{
    const places_job *w = context;
    const cr_pool_places *p = w->p;

    for (int64_t i = begin; i < end; i++) {
        const int64_t *index = w->index + i * p->n;
        if (w->what == SCATTER)
            NAME(scatter)(p, (const T *)w->from + i * p->n, index, (T *)w->to + i * p->m);
        else if (w->what == PUT)
            NAME(put)(p, (const T *)w->from + i * p->n, index, (T *)w->to + i * p->m);
        else
            NAME(gather)(p, (const T *)w->from + i * p->m, index, (T *)w->to + i * p->n);
    }
}

#undef EACH_SHIFT
#undef EACH_OUTPUT
#undef EACH_INSIDE
#undef T
#undef NAME
#undef LOWEST
#undef IS_NAN
