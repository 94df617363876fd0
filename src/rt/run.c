/* The commands of a program: moves, elements at computed places, windows; and calls. */
#include "rt/rt.h"
#include "rt/words.h"

unsigned char *rt_reach(const rt_memory *m, int64_t address)
{
    int64_t space = address >> RT_SPACE_SHIFT, distance = address & RT_DISTANCE_MASK;

    if (space >= RT_ARRAY)
        return (unsigned char *)m->array[space - RT_ARRAY] + distance;
    if (space == RT_DATA)
        return (unsigned char *)(uintptr_t)(m->word + m->word[RT_HEAD_DATA]) + distance;
    if (space == RT_SCRATCH)
        return m->work + m->word[RT_HEAD_VALUES] + distance;
    return m->work + distance;
}

/* --- moves --- */

/* The next index of n dims in row-major order: 0 after the last one.  Distances change by their
 * steps, which follow each other n by n. */
static int run_next(int64_t n, const int64_t *size, int64_t *at, int64_t *distance, int count,
                    const int64_t *steps)
{
    int64_t d, back;
    int k;

    for (d = n - 1; d >= 0; d--) {
        back = ++at[d] < size[d] ? 1 : 1 - size[d];
        for (k = 0; k < count; k++)
            distance[k] += back * steps[k * n + d];
        if (back == 1)
            return 1;
        at[d] = 0;
    }
    return 0;
}

static int run_is_empty(int64_t n, const int64_t *size)
{
    int64_t d;

    for (d = 0; d < n; d++)
        if (size[d] == 0)
            return 1;
    return 0;
}

#define RT_COPY(T)                                                                             \
    for (i = 0; i < n; i++)                                                                    \
    *(T *)(void *)(to + i * ts) = *(const T *)(const void *)(from + i * fs)

static void run_copy_line(int item, unsigned char *to, int64_t ts, const unsigned char *from,
                          int64_t fs, int64_t n)
{
    int64_t i;

    if (ts == item && fs == item)
        memmove(to, from, (size_t)(n * item));
    else if (item == 1)
        RT_COPY(uint8_t);
    else if (item == 2)
        RT_COPY(uint16_t);
    else if (item == 4)
        RT_COPY(uint32_t);
    else
        RT_COPY(uint64_t);
}

static void run_convert_line(int to_dtype, unsigned char *to, int64_t ts, int from_dtype,
                             const unsigned char *from, int64_t fs, int64_t n)
{
    int64_t a[32], b[32], i, part;

    for (i = 0; i < n; i += part) {
        part = n - i < 32 ? n - i : 32;
        rt_load(from_dtype, a, from + i * fs, fs, part);
        rt_cast(to_dtype, b, from_dtype, a, part);
        rt_store(to_dtype, to + i * ts, ts, b, part);
    }
}

static void run_move(const rt_memory *m, const int64_t *c)
{
    static const int64_t one = 1, none = 0;
    int64_t ndim = c[RT_MOVE_NDIM], outer = ndim ? ndim - 1 : 0, at[RT_MOST_DIMS] = {0},
            distance[2] = {0}, steps[2 * RT_MOST_DIMS], d;
    const int64_t *size = c + RT_MOVE_WORDS, *ts = size + ndim, *fs = ts + ndim;
    const int64_t *n = ndim ? size + outer : &one, *t = ndim ? ts + outer : &none,
                  *f = ndim ? fs + outer : &none;
    unsigned char *to = rt_reach(m, c[RT_MOVE_TO]), *from = rt_reach(m, c[RT_MOVE_FROM]);
    int same = c[RT_MOVE_TO_DTYPE] == c[RT_MOVE_FROM_DTYPE];

    if (run_is_empty(ndim, size))
        return;
    for (d = 0; d < outer; d++) {
        steps[d] = ts[d];
        steps[outer + d] = fs[d];
    }
    do {
        if (same)
            run_copy_line(rt_item(c[RT_MOVE_TO_DTYPE]), to + distance[0], *t,
                          from + distance[1], *f, *n);
        else
            run_convert_line((int)c[RT_MOVE_TO_DTYPE], to + distance[0], *t,
                             (int)c[RT_MOVE_FROM_DTYPE], from + distance[1], *f, *n);
    } while (run_next(outer, size, at, distance, 2, steps));
}

/* --- computed places --- */

/* An index of the table; -1 out of range. */
static int64_t run_index_of(const int64_t *c, const unsigned char *index)
{
    int64_t at = c[RT_PLACE_IS32] ? *(const int32_t *)(const void *)index
                                  : *(const int64_t *)(const void *)index;

    at += at < 0 && c[RT_PLACE_WRAPS] ? c[RT_PLACE_EXTENT] : 0;
    return at < 0 || at >= c[RT_PLACE_EXTENT] ? -1 : at;
}

/* 0 where an index is out of range.  A program may overwrite its own indices while it sets
 * elements, so run_places looks at them again. */
static int run_are_inside(const rt_memory *m, const int64_t *c)
{
    int64_t ndim = c[RT_PLACE_NDIM], at[RT_MOST_DIMS] = {0}, distance[3] = {0};
    const int64_t *size = c + RT_PLACE_WORDS;
    const unsigned char *index = rt_reach(m, c[RT_PLACE_INDEX]);

    do
        if (run_index_of(c, index + distance[2]) < 0)
            return 0;
    while (run_next(ndim, size, at, distance, 3, size + ndim));
    return 1;
}

static void run_combine(const int64_t *c, unsigned char *table, const unsigned char *dense);

static cr_rt_status run_places(const rt_memory *m, const int64_t *c)
{
    int64_t ndim = c[RT_PLACE_NDIM], at[RT_MOST_DIMS] = {0}, distance[3] = {0}, k, place;
    const int64_t *size = c + RT_PLACE_WORDS;
    unsigned char *dense = rt_reach(m, c[RT_PLACE_DENSE]),
                  *table = rt_reach(m, c[RT_PLACE_TABLE]),
                  *index = rt_reach(m, c[RT_PLACE_INDEX]);
    size_t item = (size_t)rt_item(c[RT_PLACE_DTYPE]);
    int64_t how = c[RT_PLACE_HOW];

    do {
        k = run_index_of(c, index + distance[2]);
        if (k < 0)
            return CR_RT_INDEX;
        place = distance[1] + k * c[RT_PLACE_UNIT];
        if (how == RT_PLACE_READ)
            memmove(dense + distance[0], table + place, item);
        else if (how == RT_PLACE_SET)
            memmove(table + place, dense + distance[0], item);
        else if (RT_USE(place_combine))
            run_combine(c, table + place, dense + distance[0]);
    } while (run_next(ndim, size, at, distance, 3, size + ndim));
    return CR_RT_OK;
}

/* Sorts n items, pairs of a place and a distance, by place; equal ones stay in order.  The
 * result is in `items`; `other` has the same size.  No place is above `most`. */
static void run_sort(int64_t *items, int64_t *other, int64_t n, int64_t most)
{
    int64_t start[256], k, to, sum, *was = items, *now = other;
    int shift;

    for (shift = 0; shift < 63 && most >> shift; shift += 8) {
        memset(start, 0, sizeof start);
        for (k = 0; k < n; k++)
            start[was[2 * k] >> shift & 255]++;
        for (k = 0, sum = 0; k < 256; k++) {
            to = start[k];
            start[k] = sum;
            sum += to;
        }
        for (k = 0; k < n; k++) {
            to = start[was[2 * k] >> shift & 255]++;
            now[2 * to] = was[2 * k];
            now[2 * to + 1] = was[2 * k + 1];
        }
        was = now;
        now = was == items ? other : items;
    }
    if (was != items)
        memcpy(items, was, (size_t)(2 * n) * sizeof *items);
}

/* Pairs of a place and a distance in `dense`, sorted by place; returns how many.  *least is
 * subtracted from places. */
static int64_t run_sorted(const rt_memory *m, const int64_t *c, int64_t *items, int64_t *least)
{
    int64_t ndim = c[RT_PLACE_NDIM], at[RT_MOST_DIMS] = {0}, distance[3] = {0}, n = 0, k,
            most = 0;
    const int64_t *size = c + RT_PLACE_WORDS;
    const unsigned char *index = rt_reach(m, c[RT_PLACE_INDEX]);

    *least = 0;
    do {
        items[2 * n] = distance[1] + run_index_of(c, index + distance[2]) * c[RT_PLACE_UNIT];
        items[2 * n + 1] = distance[0];
        *least = items[2 * n] < *least ? items[2 * n] : *least;
        most = items[2 * n] > most ? items[2 * n] : most;
        n++;
    } while (run_next(ndim, size, at, distance, 3, size + ndim));
    for (k = 0; k < n && *least; k++)
        items[2 * k] -= *least;
    run_sort(items, items + 2 * n, n, most - *least);
    return n;
}

static float run_fold_f32(int product, float *v, int64_t n, float to)
{
    return product ? to * cv_fold_column_mul_f32(v, n) : to + cv_fold_column_add_f32(v, n);
}

static double run_fold_f64(int product, double *v, int64_t n, double to)
{
    return product ? to * cv_fold_column_mul_f64(v, n) : to + cv_fold_column_add_f64(v, n);
}

/* Sums or products of the elements of each place, in the order of columns. */
static void run_ordered(const rt_memory *m, const int64_t *c)
{
    int64_t *items = (int64_t *)(void *)rt_reach(m, c[RT_PLACE_SCRATCH]), least, from, to,
            n = run_sorted(m, c, items, &least);
    unsigned char *dense = rt_reach(m, c[RT_PLACE_DENSE]),
                  *table = rt_reach(m, c[RT_PLACE_TABLE]);
    void *found = items + 4 * n;
    int product = c[RT_PLACE_HOW] == RT_PLACE_MUL;

    for (from = 0; from < n; from = to) {
        int64_t at = items[2 * from];
        unsigned char *place = table + at + least;

        for (to = from; to < n && items[2 * to] == at; to++)
            if (c[RT_PLACE_DTYPE] == CR_RT_F32)
                ((float *)found)[to - from] =
                    *(const float *)(const void *)(dense + items[2 * to + 1]);
            else
                ((double *)found)[to - from] =
                    *(const double *)(const void *)(dense + items[2 * to + 1]);
        if (c[RT_PLACE_DTYPE] == CR_RT_F32)
            *(float *)(void *)place =
                run_fold_f32(product, found, to - from, *(const float *)(void *)place);
        else
            *(double *)(void *)place =
                run_fold_f64(product, found, to - from, *(const double *)(void *)place);
    }
}

/* Combinations that do not depend on the order.  NaN wins over any number, and -0 is below
 * +0. */
static double run_combined(int64_t how, double x, double y)
{
    int below = how == RT_PLACE_MIN ? y < x || (x == y && signbit(y) && !signbit(x))
                                    : x < y || (x == y && signbit(x) && !signbit(y));

    return below || y != y ? y : x;
}

static int64_t run_combined_integer(int64_t how, int64_t x, int64_t y)
{
    switch (how) {
    case RT_PLACE_ADD: return (int64_t)((uint64_t)x + (uint64_t)y);
    case RT_PLACE_MUL: return (int64_t)((uint64_t)x * (uint64_t)y);
    case RT_PLACE_MIN: return y < x ? y : x;
    case RT_PLACE_MAX: return y > x ? y : x;
    default: return y < 2 ? x : x / y - (x % y != 0 && x < 0);
    }
}

static void run_combine(const int64_t *c, unsigned char *table, const unsigned char *dense)
{
    int64_t how = c[RT_PLACE_HOW], x = 0, y = 0;
    int dtype = (int)c[RT_PLACE_DTYPE], divides = how == RT_PLACE_DIVIDE;
    float *narrow = (float *)(void *)table;
    double *wide = (double *)(void *)table;

    if (divides)
        memcpy(&y, dense, sizeof y);
    if (dtype == CR_RT_F32) {
        if (!divides)
            *narrow = (float)run_combined(how, (double)*narrow,
                                          (double)*(const float *)(const void *)dense);
        else if (y > 1)
            *narrow /= (float)y;
    } else if (dtype == CR_RT_F64) {
        if (!divides)
            *wide = run_combined(how, *wide, *(const double *)(const void *)dense);
        else if (y > 1)
            *wide /= (double)y;
    } else {
        rt_load(dtype, &x, table, 0, 1);
        if (!divides)
            rt_load(dtype, &y, dense, 0, 1);
        x = run_combined_integer(how, x, y);
        x = dtype == CR_RT_BOOL ? x != 0 : x;
        rt_store(dtype, table, 0, &x, 1);
    }
}

static int run_is_ordered(const int64_t *c)
{
    int64_t how = c[RT_PLACE_HOW];

    return (how == RT_PLACE_ADD || how == RT_PLACE_MUL) &&
           (c[RT_PLACE_DTYPE] == CR_RT_F32 || c[RT_PLACE_DTYPE] == CR_RT_F64);
}

static cr_rt_status run_place(const rt_memory *m, const int64_t *c)
{
    if (run_is_empty(c[RT_PLACE_NDIM], c + RT_PLACE_WORDS))
        return CR_RT_OK;
    if (!run_are_inside(m, c))
        return CR_RT_INDEX;
    if (!run_is_ordered(c))
        return run_places(m, c);
    if (RT_USE(place_fold))
        run_ordered(m, c);
    return CR_RT_OK;
}

/* --- windows --- */

typedef struct {
    int64_t size;
    const int64_t *start, *range;
    const double *factor;
} run_dim;

/* A fold of a window: the sum, or the extreme and its position. */
typedef struct {
    float value;
    int64_t which;
} run_window;

static run_window run_fold(const float *plane, const run_dim *dim, const int64_t *at,
                           int extreme)
{
    const run_dim *a = dim, *b = dim + 1, *c = dim + 2;
    int64_t i, j, l, x, y, z, place;
    run_window w = {0, -1};

    w.value = extreme ? -INFINITY : 0;
    for (i = a->start[at[0]]; i < a->start[at[0] + 1]; i++)
        for (x = 0; x < a->range[3 * i + 2]; x++)
            for (j = b->start[at[1]]; j < b->start[at[1] + 1]; j++)
                for (y = 0; y < b->range[3 * j + 2]; y++)
                    for (l = c->start[at[2]]; l < c->start[at[2] + 1]; l++)
                        for (z = 0; z < c->range[3 * l + 2]; z++) {
                            place = a->range[3 * i] + x * a->range[3 * i + 1] +
                                    b->range[3 * j] + y * b->range[3 * j + 1] +
                                    c->range[3 * l] + z * c->range[3 * l + 1];
                            if (!extreme)
                                w.value += plane[place];
                            else if (w.which < 0 || plane[place] > w.value ||
                                     plane[place] != plane[place])
                                w.value = plane[place];
                            else
                                continue;
                            w.which = place;
                        }
    return w;
}

static void run_windows(const rt_memory *m, const int64_t *c)
{
    int64_t at[3], k, d;
    run_dim dim[3];
    float *to = (float *)(void *)rt_reach(m, c[RT_WINDOWS_RESULT]);
    int64_t *which =
        c[RT_WINDOWS_EXTREME] ? (int64_t *)(void *)rt_reach(m, c[RT_WINDOWS_WHICH]) : NULL;
    const float *from = (const float *)(const void *)rt_reach(m, c[RT_WINDOWS_FROM]);
    const int64_t *next = c + RT_WINDOWS_WORDS;
    double divisor = (double)c[RT_WINDOWS_DIVISOR];
    run_window w;

    for (d = 0; d < 3; d++) {
        dim[d].size = c[RT_WINDOWS_PLACES + d];
        dim[d].start = next;
        dim[d].range = next + dim[d].size + 1;
        dim[d].factor =
            (const double *)(const void *)(dim[d].range + 3 * dim[d].start[dim[d].size]);
        next = (const int64_t *)(const void *)(dim[d].factor + dim[d].size);
    }
    for (k = 0; k < c[RT_WINDOWS_PLANES]; k++, from += c[RT_WINDOWS_IN])
        for (at[0] = 0; at[0] < dim[0].size; at[0]++)
            for (at[1] = 0; at[1] < dim[1].size; at[1]++)
                for (at[2] = 0; at[2] < dim[2].size; at[2]++) {
                    w = run_fold(from, dim, at, c[RT_WINDOWS_EXTREME] != 0);
                    if (c[RT_WINDOWS_EXTREME])
                        *which++ = w.which;
                    else if (w.which >= 0 && divisor != 0)
                        w.value /= (float)(divisor * dim[0].factor[at[0]] *
                                           dim[1].factor[at[1]] * dim[2].factor[at[2]]);
                    *to++ = w.value;
                }
}

/* --- calls --- */

#ifdef RT_FAST
static int run_is_fast(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#define RUN(name, m, c) (run_is_fast() ? rt_run_##name##_fast : rt_run_##name)(m, c)
#else
#define RUN(name, m, c) rt_run_##name(m, c)
#endif

static cr_rt_status run_command(const rt_memory *m, const int64_t *c)
{
    switch ((rt_kind)(c[0] & 255)) {
    case RT_MOVE: run_move(m, c + 1); break;
    case RT_PLACE:
        if (RT_USE(place))
            return run_place(m, c + 1);
        break;
    case RT_WINDOWS:
        if (RT_USE(windows))
            run_windows(m, c + 1);
        break;
    case RT_PRODUCT: RUN(product, m, c + 1); break;
    case RT_CONVOLVE:
    case RT_SPREAD:
    case RT_WEIGH: RUN(convolution, m, c); break;
    default: RUN(kernel, m, c + 1); break;
    }
    return CR_RT_OK;
}

static int run_is_aligned(const cr_rt *m, void *const *array, int k)
{
    cr_rt_array a = cr_rt_at(m, k);

    return array[k] ? (uintptr_t)array[k] % (size_t)rt_item(a.dtype) == 0 : a.bytes == 0;
}

cr_rt_status cr_rt_start(const cr_rt *m, void *const *array)
{
    rt_memory memory = {m->word, NULL, array, 0};
    int k, n = cr_rt_count(m);

    for (k = 0; k < n; k++) {
        int64_t first = m->word[RT_HEAD_WORDS + k * RT_ARRAY_WORDS + RT_ARRAY_FIRST];
        cr_rt_array a = cr_rt_at(m, k);

        if (a.kind != CR_RT_STATE || !a.bytes || !first)
            continue;
        if (!run_is_aligned(m, array, k))
            return CR_RT_ALIGNMENT;
        memcpy(array[k], rt_reach(&memory, first), a.bytes);
    }
    return CR_RT_OK;
}

cr_rt_status cr_rt_run(const cr_rt *m, void *const *array, void *work)
{
    rt_memory memory = {m->word, work, array, (int)m->word[RT_HEAD_LANES]};
    int64_t at = m->word[RT_HEAD_COMMANDS];
    cr_rt_status status = CR_RT_OK;
    int k, n = cr_rt_count(m);

    for (k = 0; k < n; k++)
        if (!run_is_aligned(m, array, k))
            return CR_RT_ALIGNMENT;
    if (cr_rt_work_bytes(m) && (!work || (uintptr_t)work % 16))
        return CR_RT_ALIGNMENT;
    for (; at < m->word[RT_HEAD_DATA] && !status; at += m->word[at] >> 8)
        status = run_command(&memory, m->word + at);
    return status;
}
