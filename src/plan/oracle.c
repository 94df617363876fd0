/* The oracle: each command as it is defined, one element after another, on the host.
 *
 * Nothing here is shared with the functions of devices, so equal results are evidence for
 * both. */
#include "device/facts.h"
#include "num/convert.h"
#include "plan/plan.h"
#include "space/space.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- spaces --- */

static void add_dims(cr_space *s, int operands, int ndim, const int64_t *size)
{
    cr_space_start(s, operands);
    for (int d = 0; d < ndim; d++)
        memset(cr_space_add(s, size[d], d), 0, (size_t)operands * sizeof(int64_t));
}

/* Dims of one element have no steps. */
static void add_steps(cr_space *s, int operand, const int64_t *stride, size_t item)
{
    for (int i = 0; stride && i < s->ndim; i++)
        s->dim[i].step[operand] = CR_WRAP_MUL(stride[s->dim[i].number], (int64_t)item);
}

static void each(const cr_space *s, char *const *at, cr_row_fn fn, void *context)
{
    cr_space_walk(s, s->ndim, at, 0, cr_space_count(s, s->ndim), fn, context);
}

static size_t item_of(int dtype) { return cr_dtype_size((cr_dtype)dtype); }

/* --- copies --- */

static void oracle_convert_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const cr_plan_move *m = context;
    cr_convert_fn convert = cr_convert_row((cr_dtype)m->to.dtype, (cr_dtype)m->from.dtype);

    for (int64_t i = 0; i < n; i++)
        convert(at[0] + i * step[0], 0, at[1] + i * step[1], 0, 1);
}

/* `from` has the sizes of `to`, or fewer dims, or ones. */
static void oracle_copy(const cr_array *to, const cr_array *from)
{
    cr_plan_move m = {*to, *from};
    char *at[2] = {to->data, from->data};
    cr_space s;

    add_dims(&s, 2, to->ndim, to->size);
    add_steps(&s, 0, to->stride, item_of(to->dtype));
    for (int i = 0; i < s.ndim; i++)
        s.dim[i].step[1] = CR_WRAP_MUL(cr_broadcast_step(from->ndim, from->size, from->stride,
                                                         to->ndim, (int)s.dim[i].number),
                                       (int64_t)item_of(from->dtype));
    each(&s, at, oracle_convert_row, &m);
}

static const char *oracle_move(int index, const cr_array *to, const cr_array *from)
{
    (void)index;
    oracle_copy(to, from);
    return NULL;
}

static const char *oracle_fill(int index, const cr_array *to, const void *element)
{
    cr_array from = {.data = (char *)(uintptr_t)element, .dtype = to->dtype};

    (void)index;
    oracle_copy(to, &from);
    return NULL;
}

/* --- elements at computed places --- */

/* An element of the table and the one that it is combined with, in index order. */
typedef struct {
    char *table;
    const char *dense;
    size_t number; /* in index order */
} meeting;

typedef struct {
    const cr_indexed *c;
    CR_VEC(meeting) all;
    cr_space numbered; /* the dims of the array whose elements are numbered */
    int64_t outside;   /* an index that is out of range */
    bool failed, missed;
} meetings;

/* The distance of an index from the table's address; false out of range. */
static bool place_of(meetings *m, const char *index, int64_t *distance)
{
    const cr_indexed *c = m->c;
    int64_t at = 0,
            limit = c->numbered ? cr_space_count(&m->numbered, m->numbered.ndim) : c->extent;

    *distance = 0;
    if (!c->index)
        return true;
    at =
        c->is32 ? *(const int32_t *)(const void *)index : *(const int64_t *)(const void *)index;
    m->outside = at;
    at += at < 0 && (c->wraps || c->numbered) ? limit : 0;
    if (at < 0 || at >= limit)
        return false;
    *distance =
        c->numbered ? cr_space_offset(&m->numbered, m->numbered.ndim, 0, at) : at * c->unit;
    return true;
}

static void note_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    meetings *m = context;
    int64_t distance;

    m->failed = m->failed || cr_vec_reserve(&m->all, (size_t)n);
    for (int64_t i = 0; i < n && !m->failed && !m->missed; i++) {
        m->missed = !place_of(m, at[2] + i * step[2], &distance);
        if (!m->missed)
            cr_vec_put(&m->all, ((meeting){at[1] + i * step[1] + distance, at[0] + i * step[0],
                                           m->all.len}));
    }
}

static void find_meetings(meetings *m, const cr_indexed *c, size_t dense_item)
{
    char *at[3] = {c->dense ? c->dense : (char *)(uintptr_t)c->item, c->table,
                   (char *)(uintptr_t)c->index};
    const cr_array *a = c->numbered;
    cr_space s;

    m->c = c;
    if (a) {
        add_dims(&m->numbered, 1, a->ndim, a->size);
        add_steps(&m->numbered, 0, a->stride, item_of(a->dtype));
    }
    add_dims(&s, 3, c->ndim, c->size);
    add_steps(&s, 0, c->dense ? c->dense_stride : NULL, dense_item);
    add_steps(&s, 1, c->table_stride, item_of(c->dtype));
    add_steps(&s, 2, c->index ? c->index_stride : NULL, c->is32 ? 4 : 8);
    each(&s, at, note_row, m);
}

static const char *end_meetings(meetings *m)
{
    const char *error = m->missed   ? cr_index_error(m->c, m->outside)
                        : m->failed ? cr_error_message()
                                    : NULL;

    cr_vec_drop(&m->all);
    return error;
}

static const char *oracle_indexed(int index, const cr_indexed *c)
{
    meetings m = {.failed = false};

    (void)index;
    find_meetings(&m, c, item_of(c->dtype));
    for (size_t i = 0; i < m.all.len && !m.missed && !m.failed; i++)
        memcpy((char *)(uintptr_t)m.all.at[i].dense, m.all.at[i].table, item_of(c->dtype));
    return end_meetings(&m);
}

/* --- arithmetic: integers in int64, halves in float32 --- */

typedef struct {
    int64_t i;
    cr_complex c; /* of floats, the real part */
} number;

static number number_load(cr_dtype t, const void *p)
{
    cr_scalar s = cr_scalar_load(t, p);

    if (s.category <= CR_CAT_INT)
        return (number){.i = t == CR_BOOL ? s.i != 0 : s.i};
    return (number){.c = cr_scalar_as_complex(s)};
}

static void number_store(cr_dtype t, void *p, number x)
{
    cr_scalar s = {.category = cr_dtype_category(t)};

    if (s.category <= CR_CAT_INT)
        s.i = x.i;
    else if (s.category == CR_CAT_FLOAT)
        s.d = x.c.re;
    else
        s.c = x.c;
    cr_scalar_store(s, t, p);
}

/* Numbers of type t are computed in double precision. */
static bool is_double(cr_dtype t) { return t == CR_F64 || t == CR_C128; }

#define REAL(name, sign)                                                                       \
    static double real_##name(cr_dtype t, double a, double b)                                  \
    {                                                                                          \
        float x = (float)a, y = (float)b;                                                      \
        return is_double(t) ? a sign b : (double)(x sign y);                                   \
    }
REAL(sum, +)
REAL(difference, -)
REAL(product, *)
REAL(quotient, /)

static number number_add(cr_dtype t, number a, number b)
{
    return (number){.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i),
                    .c = {real_sum(t, a.c.re, b.c.re), real_sum(t, a.c.im, b.c.im)}};
}

static number number_mul(cr_dtype t, number a, number b)
{
    number x = {.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i),
                .c = {real_product(t, a.c.re, b.c.re), 0}};

    if (!cr_dtype_is_complex(t))
        return x;
    x.c.re = real_difference(t, x.c.re, real_product(t, a.c.im, b.c.im));
    x.c.im = real_sum(t, real_product(t, a.c.re, b.c.im), real_product(t, a.c.im, b.c.re));
    return x;
}

static number number_over(cr_dtype t, number a, double by)
{
    return (number){.c = {real_quotient(t, a.c.re, by), real_quotient(t, a.c.im, by)}};
}

/* -0 is below +0. */
static bool is_below(cr_dtype t, number a, number b)
{
    if (!cr_dtype_is_inexact(t))
        return a.i < b.i;
    return a.c.re < b.c.re || (a.c.re == b.c.re && signbit(a.c.re) && !signbit(b.c.re));
}

static number number_extreme(cr_dtype t, number a, number b, bool most)
{
    if (isnan(b.c.re))
        return b;
    return (most ? is_below(t, a, b) : is_below(t, b, a)) ? b : a;
}

static number number_combine(cr_combine how, cr_dtype t, number a, number b)
{
    switch (how) {
    case CR_COMBINE_ADD: return number_add(t, a, b);
    case CR_COMBINE_MUL: return number_mul(t, a, b);
    case CR_COMBINE_MIN: return number_extreme(t, a, b, false);
    case CR_COMBINE_MAX: return number_extreme(t, a, b, true);
    default: return b;
    }
}

/* --- order P of a column (num/order.h) --- */

typedef struct {
    cr_combine how;
    cr_dtype dtype;
} folding;

static number fold_halves(const folding *f, number *v, int64_t there, int64_t half)
{
    for (; half; half /= 2)
        for (int64_t k = 0; k < half && k + half < there; k++)
            v[k] = number_combine(f->how, f->dtype, v[k], v[k + half]);
    return v[0];
}

static number fold_block(const folding *f, const number *v, int64_t n)
{
    number acc[CR_FOLD_ACCUMULATORS];
    int64_t there = n < CR_FOLD_ACCUMULATORS ? n : CR_FOLD_ACCUMULATORS;

    for (int64_t i = 0; i < n; i++) {
        number *a = &acc[i % CR_FOLD_ACCUMULATORS];
        *a = i < CR_FOLD_ACCUMULATORS ? v[i] : number_combine(f->how, f->dtype, *a, v[i]);
    }
    for (int k = 0; k + 1 < there; k += 2)
        acc[k] = number_combine(f->how, f->dtype, acc[k], acc[k + 1]);
    return there > 2 ? number_combine(f->how, f->dtype, acc[0], acc[2]) : acc[0];
}

/* Replaces the values by the results of `width` of them each. */
static int64_t fold_blocks(const folding *f, number *v, int64_t n)
{
    int64_t parts = 0;

    for (int64_t at = 0; at < n; at += CR_FOLD_COLUMN, parts++) {
        number block[CR_FOLD_BLOCKS];
        int64_t left = n - at < CR_FOLD_COLUMN ? n - at : CR_FOLD_COLUMN, blocks = 0;
        for (int64_t i = 0; i < left; i += CR_FOLD_BLOCK)
            block[blocks++] =
                fold_block(f, v + at + i, left - i < CR_FOLD_BLOCK ? left - i : CR_FOLD_BLOCK);
        v[parts] = fold_halves(f, block, blocks, CR_FOLD_BLOCKS / 2);
    }
    return parts;
}

static number fold_column(const folding *f, number *v, int64_t n)
{
    do
        n = fold_blocks(f, v, n);
    while (n > 1);
    return v[0];
}

/* --- writing --- */

static int by_table(const void *a, const void *b)
{
    const meeting *x = a, *y = b;

    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Combines n elements with one of the table. */
static void combine_place(const cr_indexed *c, const meeting *m, size_t n, number *v)
{
    cr_dtype t = (cr_dtype)c->dtype;
    folding f = {c->how, t};
    bool ordered = c->index && cr_dtype_is_inexact(t) &&
                   (c->how == CR_COMBINE_ADD || c->how == CR_COMBINE_MUL);
    number x = number_load(t, m->table);

    for (size_t i = 0; i < n; i++)
        v[i] = number_load(t, m[i].dense);
    if (ordered)
        x = number_combine(c->how, t, x, fold_column(&f, v, (int64_t)n));
    for (size_t i = 0; !ordered && i < n; i++) {
        number_store(t, m->table, number_combine(c->how, t, x, v[i]));
        x = number_load(t, m->table);
    }
    if (c->how == CR_COMBINE_SET)
        memcpy(m->table, m[n - 1].dense, item_of(c->dtype));
    else
        number_store(t, m->table, x);
}

static void divide_place(cr_dtype t, const meeting *m)
{
    int64_t by = *(const int64_t *)(const void *)m->dense;
    number x = number_load(t, m->table);

    if (by < 2)
        return;
    int64_t quotient = x.i / by - (x.i % by != 0 && x.i < 0);
    x = number_over(t, x, (double)by);
    x.i = quotient;
    number_store(t, m->table, x);
}

static const char *oracle_combine(int index, const cr_indexed *c)
{
    bool divides = c->how == CR_COMBINE_DIVIDE;
    meetings m = {.failed = false};
    number *v;

    (void)index;
    find_meetings(&m, c, divides ? sizeof(int64_t) : item_of(c->dtype));
    v = cr_alloc((m.all.len + 1) * sizeof *v);
    m.failed = m.failed || !v;
    if (m.all.len)
        qsort(m.all.at, m.all.len, sizeof *m.all.at, by_table);
    for (size_t i = 0, n; i < m.all.len && !m.missed && !m.failed; i += n) {
        for (n = 1; i + n < m.all.len && m.all.at[i + n].table == m.all.at[i].table;)
            n++;
        if (divides)
            divide_place((cr_dtype)c->dtype, &m.all.at[i]);
        else
            combine_place(c, &m.all.at[i], n, v);
    }
    cr_free(v);
    return end_meetings(&m);
}

/* --- windows --- */

/* A place of the result: its number in each dim. */
typedef struct {
    const cr_windows *c;
    const char *plane; /* of the source */
    int64_t place[3];
    number sum;
    int64_t which; /* -1: no position yet */
} window;

static double factor(const double *list, int64_t i) { return list ? list[i] : 1; }

static number divided(const cr_windows *c, number x, const int64_t *at, bool share)
{
    cr_dtype t = (cr_dtype)c->from.dtype;
    double by = (double)c->divisor;
    int64_t whole = c->divisor;

    for (int k = 0; k < 3; k++) {
        double f = factor(share ? c->dim[k].share : c->dim[k].count, at[k]);
        by *= f;
        whole = (int64_t)((uint64_t)whole * (uint64_t)(int64_t)f);
    }
    if (!cr_dtype_is_inexact(t))
        return (number){.i = whole == -1 ? (int64_t)(0 - (uint64_t)x.i)
                             : whole     ? x.i / whole
                                         : 0};
    return number_over(t, x, by);
}

/* Takes the element at a distance in the plane. */
static void window_take(window *w, int64_t distance)
{
    const cr_windows *c = w->c;
    cr_dtype t = (cr_dtype)c->from.dtype;
    int64_t row = distance / c->dim[2].in;
    int64_t at[3] = {row / c->dim[1].in, row % c->dim[1].in, distance % c->dim[2].in};
    number x = number_load(t, w->plane + distance * (int64_t)item_of(t));

    if (c->shares)
        x = divided(c, x, at, true);
    if (!c->extreme)
        w->sum = number_add(t, w->sum, x);
    else if (w->which < 0 || isnan(x.c.re) ||
             (cr_dtype_is_inexact(t) ? x.c.re > w->sum.c.re : x.i > w->sum.i))
        w->sum = x;
    else
        return;
    w->which = distance;
}

/* All sums of a position of each dim from k on. */
static void window_positions(window *w, int k, int64_t distance)
{
    const cr_windows *c = w->c;

    if (k == 3) {
        window_take(w, distance);
        return;
    }
    const int64_t *start = c->dim[k].start + w->place[k];
    for (int64_t r = start[0]; r < start[1]; r++) {
        const int64_t *range = c->dim[k].range + 3 * r;
        for (int64_t i = 0; i < range[2]; i++)
            window_positions(w, k + 1, distance + range[0] + i * range[1]);
    }
}

static number window_lowest(cr_dtype t)
{
    if (cr_dtype_is_inexact(t))
        return (number){.c = {-HUGE_VAL, 0}};
    return (number){.i = INT64_MIN};
}

static void window_fold(window *w, int64_t n)
{
    const cr_windows *c = w->c;
    cr_dtype t = (cr_dtype)c->from.dtype;

    w->sum = c->extreme ? window_lowest(t) : (number){.i = 0};
    w->which = -1;
    window_positions(w, 0, 0);
    if (c->divides && w->which >= 0)
        w->sum = divided(c, w->sum, w->place, false);
    number_store(t, c->result.data + n * (int64_t)item_of(t), w->sum);
    if (c->extreme)
        ((int64_t *)(void *)c->which.data)[n] = w->which;
}

/* The same array in row-major order, in memory that the caller frees. */
static cr_array row_major(const cr_array *a, int64_t *stride)
{
    cr_array dense = *a;
    int64_t n = cr_dense_strides(stride, a->ndim, a->size);

    dense.stride = stride;
    dense.data = cr_alloc((size_t)n * item_of(a->dtype));
    return dense;
}

/* All places of all planes, in row-major order. */
static void fold_places(const cr_windows *c)
{
    int64_t size[4] = {c->planes, c->dim[0].size, c->dim[1].size, c->dim[2].size};
    char *at[1] = {c->from.data};
    window w = {.c = c};
    cr_place p;
    cr_space s;

    add_dims(&s, 1, 4, size);
    for (int i = 0; i < s.ndim; i++)
        s.dim[i].step[0] = s.dim[i].number ? 0 : c->in * (int64_t)item_of(c->from.dtype);
    cr_place_seek(&p, &s, s.ndim, at, 0);
    for (int64_t n = 0; n < c->planes * c->out; n++) {
        w.plane = p.at[0];
        for (int i = 0; i < s.ndim; i++)
            if (s.dim[i].number)
                w.place[s.dim[i].number - 1] = p.index[i];
        window_fold(&w, n);
        cr_place_next(&p, &s, s.ndim);
    }
}

static const char *oracle_windows(int index, const cr_windows *c)
{
    int64_t stride[3][CR_MAX_DIMS];
    cr_windows dense = *c;

    (void)index;
    dense.from = row_major(&c->from, stride[0]);
    dense.result = row_major(&c->result, stride[1]);
    dense.which = row_major(&c->which, stride[2]);
    bool made = dense.from.data && dense.result.data && dense.which.data;
    if (made) {
        oracle_copy(&dense.from, &c->from);
        fold_places(&dense);
        oracle_copy(&c->result, &dense.result);
    }
    if (made && c->extreme)
        oracle_copy(&c->which, &dense.which);
    cr_free(dense.from.data);
    cr_free(dense.result.data);
    cr_free(dense.which.data);
    return made ? NULL : cr_error_message();
}

/* --- memory --- */

static void *oracle_get(int index, size_t size, uint32_t *block)
{
    (void)index;
    *block = 1;
    return calloc(1, size);
}

static void oracle_release(int index, void *p, uint32_t block)
{
    (void)index;
    (void)block;
    free(p);
}

static const char *oracle_copy_bytes(int index, void *to, const void *from, size_t n)
{
    (void)index;
    memcpy(to, from, n);
    return NULL;
}

cr_device_ops cr_oracle_ops = {
    .bytes = sizeof cr_oracle_ops,
    .get = oracle_get,
    .release = oracle_release,
    .copy_in = oracle_copy_bytes,
    .copy_out = oracle_copy_bytes,
    .copy = oracle_copy_bytes,
    .move = oracle_move,
    .fill = oracle_fill,
    .indexed = oracle_indexed,
    .combine = oracle_combine,
    .windows = oracle_windows,
};
