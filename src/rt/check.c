/* Checks a program before any of it is used, and says what arrays a call takes.
 *
 * All numbers of a file are bounded by LIMIT before they are added or multiplied.  A span is
 * the range of distances, in bytes, that indices of several dims give. */
#include "rt/rt.h"

#define LIMIT RT_DISTANCE_MASK

typedef struct {
    cr_rt m;
    int64_t cost;
    cr_rt_status status;
} check_file;

/* Notes the first failure; returns 0. */
static int check_fail(check_file *f, cr_rt_status status)
{
    f->status = f->status ? f->status : status;
    return 0;
}

static int check_that(check_file *f, int holds)
{
    return holds ? 1 : check_fail(f, CR_RT_INVALID);
}

static int check_has(check_file *f, int holds)
{
    return holds ? 1 : check_fail(f, CR_RT_MISSING);
}

static int check_number(int64_t n, int64_t least, int64_t most)
{
    return n >= least && n <= most;
}

/* a * b; -1 where that, or one of the factors, is no number from 0 to LIMIT. */
static int64_t check_times(int64_t a, int64_t b)
{
    if (!check_number(a, 0, LIMIT) || !check_number(b, 0, LIMIT) || (b && a > LIMIT / b))
        return -1;
    return a * b;
}

static int64_t check_product_of(const int64_t *size, int64_t n)
{
    int64_t product = 1, d;

    for (d = 0; d < n; d++)
        product = check_times(product, size[d]);
    return product;
}

/* Sums and products of costs, which end at INT64_MAX; so do those of what is no cost. */
static int64_t check_cost_times(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || (b && a > INT64_MAX / b) ? INT64_MAX : a * b;
}

static int64_t check_cost_sum(int64_t a, int64_t b)
{
    return a < 0 || b < 0 || a > INT64_MAX - b ? INT64_MAX : a + b;
}

static void check_add_cost(check_file *f, int64_t n)
{
    f->cost = check_cost_sum(f->cost, n < 0 ? INT64_MAX : n);
}

/* --- addresses --- */

typedef struct {
    int64_t item, low, high;
    int empty, bad;
} check_span;

static check_span check_start(int64_t item)
{
    check_span s = {0, 0, 0, 0, 0};

    s.item = item;
    s.bad = item <= 0;
    return s;
}

/* A dim of `size` indices, whose elements are `step` bytes apart. */
static void check_dim(check_span *s, int64_t size, int64_t step)
{
    int64_t most;

    if (s->bad || !check_number(size, 0, LIMIT) || !check_number(step, -LIMIT, LIMIT)) {
        s->bad = 1;
        return;
    }
    s->empty = s->empty || !size;
    if (size < 2 || !step)
        return;
    most = check_times(step < 0 ? -step : step, size - 1);
    s->bad = most < 0 || step % s->item;
    if (s->bad)
        return;
    *(step < 0 ? &s->low : &s->high) += step < 0 ? -most : most;
    s->bad = s->low < -LIMIT || s->high > LIMIT;
}

static void check_dims(check_span *s, int64_t ndim, const int64_t *size, const int64_t *step)
{
    int64_t d;

    for (d = 0; d < ndim; d++)
        check_dim(s, size[d], step[d]);
}

static int64_t check_space_bytes(const check_file *f, int64_t space, int *written)
{
    const int64_t *w = f->m.word;
    cr_rt_array a;

    *written = space == RT_WORK;
    if (space == RT_WORK)
        return w[RT_HEAD_VALUES];
    if (space == RT_DATA)
        return 8 * (f->m.words - w[RT_HEAD_DATA]);
    if (space < RT_ARRAY || space - RT_ARRAY >= w[RT_HEAD_ARRAYS])
        return -1;
    a = cr_rt_at(&f->m, (int)(space - RT_ARRAY));
    *written = a.kind != CR_RT_INPUT;
    return (int64_t)a.bytes;
}

/* Whether elements at an address and all distances of a span are in memory that may be read or
 * written. */
static int check_access(check_file *f, int64_t address, const check_span *s, int writes)
{
    int64_t space = address >> RT_SPACE_SHIFT, distance = address & RT_DISTANCE_MASK, bytes;
    int written;

    if (s->bad || address < 0)
        return check_fail(f, CR_RT_INVALID);
    bytes = check_space_bytes(f, space, &written);
    if (s->empty)
        return check_that(f, distance <= bytes);
    return check_that(f, bytes >= 0 && (written || !writes) && distance % s->item == 0 &&
                             distance + s->low >= 0 && distance + s->high + s->item <= bytes);
}

/* `count` elements of `item` bytes from an address on. */
static int check_block(check_file *f, int64_t address, int64_t count, int64_t item, int writes)
{
    check_span s = check_start(item);

    check_dim(&s, count, item);
    return check_access(f, address, &s, writes);
}

/* Scratch memory, which no operand shares. */
static int check_scratch(check_file *f, int64_t address, int64_t bytes)
{
    int64_t most = f->m.word[RT_HEAD_WORK] - f->m.word[RT_HEAD_VALUES];

    return check_that(f, address == RT_ADDRESS(RT_SCRATCH, 0) && check_number(bytes, 0, most));
}

/* --- commands --- */

static int check_move(check_file *f, const int64_t *c, int64_t n)
{
    int64_t ndim = n >= RT_MOVE_WORDS ? c[RT_MOVE_NDIM] : -1;
    const int64_t *size = c + RT_MOVE_WORDS;
    check_span to, from;

    if (!check_that(f, check_number(ndim, 0, RT_MOST_DIMS) && n == RT_MOVE_WORDS + 3 * ndim))
        return 0;
    to = check_start(rt_item(c[RT_MOVE_TO_DTYPE]));
    from = check_start(rt_item(c[RT_MOVE_FROM_DTYPE]));
    check_dims(&to, ndim, size, size + ndim);
    check_dims(&from, ndim, size, size + 2 * ndim);
    check_add_cost(f, check_product_of(size, ndim));
    return check_access(f, c[RT_MOVE_TO], &to, 1) && check_access(f, c[RT_MOVE_FROM], &from, 0);
}

static int check_place_how(check_file *f, const int64_t *c, int64_t count)
{
    int64_t dtype = c[RT_PLACE_DTYPE], how = c[RT_PLACE_HOW];

    if ((how == RT_PLACE_ADD || how == RT_PLACE_MUL) &&
        (dtype == CR_RT_F32 || dtype == CR_RT_F64))
        return check_has(f, RT_USE(place_fold)) &&
               check_scratch(f, c[RT_PLACE_SCRATCH], check_times(count, 40));
    return how <= RT_PLACE_SET || check_has(f, RT_USE(place_combine));
}

static int check_place(check_file *f, const int64_t *c, int64_t n)
{
    int64_t ndim = n >= RT_PLACE_WORDS ? c[RT_PLACE_NDIM] : -1, count;
    const int64_t *size = c + RT_PLACE_WORDS;
    check_span dense, table, index;
    int reads;

    if (!check_that(f, check_number(ndim, 0, RT_MOST_DIMS) && n == RT_PLACE_WORDS + 4 * ndim &&
                           check_number(c[RT_PLACE_HOW], 0, RT_PLACE_DIVIDE)) ||
        !check_has(f, RT_USE(place)))
        return 0;
    reads = c[RT_PLACE_HOW] == RT_PLACE_READ;
    dense = table = check_start(rt_item(c[RT_PLACE_DTYPE]));
    if (c[RT_PLACE_HOW] == RT_PLACE_DIVIDE)
        dense = check_start(8);
    index = check_start(c[RT_PLACE_IS32] ? 4 : 8);
    check_dims(&dense, ndim, size, size + ndim);
    check_dims(&table, ndim, size, size + 2 * ndim);
    check_dim(&table, c[RT_PLACE_EXTENT], c[RT_PLACE_UNIT]);
    check_dims(&index, ndim, size, size + 3 * ndim);
    count = check_product_of(size, ndim);
    check_add_cost(f, check_cost_times(16, count < 0 ? LIMIT : count));
    return check_that(f, count >= 0) && check_access(f, c[RT_PLACE_DENSE], &dense, reads) &&
           check_access(f, c[RT_PLACE_TABLE], &table, !reads) &&
           check_access(f, c[RT_PLACE_INDEX], &index, 0) && check_place_how(f, c, count);
}

/* The positions of a dim of windows. */
typedef struct {
    int64_t low, high, count;
} check_positions;

static int check_range(check_positions *p, const int64_t *range)
{
    check_span s = check_start(1);

    if (!check_number(range[0], 0, LIMIT))
        return 0;
    check_dim(&s, range[2], range[1]);
    if (s.bad)
        return 0;
    if (range[2]) {
        p->low = range[0] + s.low < p->low ? range[0] + s.low : p->low;
        p->high = range[0] + s.high > p->high ? range[0] + s.high : p->high;
        p->count = check_cost_sum(p->count, range[2]);
    }
    return p->low >= 0;
}

/* Checks the table of a dim; returns its words, or -1. */
static int64_t check_window_dim(check_positions *p, const int64_t *t, int64_t left,
                                int64_t places)
{
    int64_t i, ranges;

    p->low = LIMIT;
    p->high = -1;
    p->count = 0;
    if (!check_number(places, 1, left) || places + 1 > left || t[0] != 0)
        return -1;
    for (i = 0; i < places; i++)
        if (t[i + 1] < t[i])
            return -1;
    ranges = t[places];
    if (ranges > left || places + 1 + 3 * ranges + places > left)
        return -1;
    for (i = 0; i < ranges; i++)
        if (!check_range(p, t + places + 1 + 3 * i))
            return -1;
    return places + 1 + 3 * ranges + places;
}

static int check_windows(check_file *f, const int64_t *c, int64_t n)
{
    int64_t at = RT_WINDOWS_WORDS, low = 0, high = 0, cost = 1, places, k, words;
    check_positions p;

    if (!check_that(f, n >= RT_WINDOWS_WORDS) || !check_has(f, RT_USE(windows)))
        return 0;
    places = check_product_of(c + RT_WINDOWS_PLACES, 3);
    for (k = 0; k < 3; k++, at += words) {
        words = check_window_dim(&p, c + at, n - at, c[RT_WINDOWS_PLACES + k]);
        if (!check_that(f, words >= 0))
            return 0;
        low += p.low;
        high = p.high < 0 || high < 0 ? -1 : high + p.high;
        cost = check_cost_times(cost, p.count + c[RT_WINDOWS_PLACES + k]);
    }
    check_add_cost(f, check_cost_times(cost, c[RT_WINDOWS_PLANES]));
    k = check_times(places, c[RT_WINDOWS_PLANES]);
    return check_that(f, at == n && k >= 0 && low >= 0 && high < c[RT_WINDOWS_IN] &&
                             check_number(c[RT_WINDOWS_DIVISOR], 0, LIMIT)) &&
           check_block(f, c[RT_WINDOWS_RESULT], k, 4, 1) &&
           (!c[RT_WINDOWS_EXTREME] || check_block(f, c[RT_WINDOWS_WHICH], k, 8, 1)) &&
           check_block(f, c[RT_WINDOWS_FROM],
                       check_times(c[RT_WINDOWS_IN], c[RT_WINDOWS_PLANES]), 4, 0);
}

static int check_real(check_file *f, int64_t dtype, int f32, int f64)
{
    return check_that(f, dtype == CR_RT_F32 || dtype == CR_RT_F64) &&
           check_has(f, dtype == CR_RT_F32 ? f32 : f64);
}

/* An operand of a product: two dims of its own, and those before them. */
static int check_matrix(check_file *f, const int64_t *c, int operand, int64_t address,
                        const int64_t *own)
{
    int64_t ndim = c[RT_PRODUCT_NDIM], item = rt_item(c[RT_PRODUCT_DTYPE]), d;
    const int64_t *size = c + RT_PRODUCT_WORDS, *step = size + (operand + 1) * ndim;
    check_span s = check_start(item);

    for (d = 0; d < ndim; d++)
        check_dim(&s, size[d],
                  check_number(step[d], -LIMIT / 8, LIMIT / 8) ? item * step[d] : LIMIT + 1);
    for (d = 0; d < 4; d += 2)
        check_dim(&s, own[d],
                  check_number(own[d + 1], -LIMIT / 8, LIMIT / 8) ? item * own[d + 1]
                                                                  : LIMIT + 1);
    return check_access(f, address, &s, operand == 0);
}

static int check_product(check_file *f, const int64_t *c, int64_t n)
{
    int64_t ndim = n >= RT_PRODUCT_WORDS ? c[RT_PRODUCT_NDIM] : -1, d, cost;
    const int64_t *size = c + RT_PRODUCT_WORDS;

    if (!check_that(f,
                    check_number(ndim, 0, RT_MOST_DIMS) && n == RT_PRODUCT_WORDS + 5 * ndim) ||
        !check_real(f, c[RT_PRODUCT_DTYPE], RT_USE(product_f32), RT_USE(product_f64)))
        return 0;
    for (d = 0; d < ndim; d++)
        if (!check_that(f, size[d] > 0 && (c[RT_PRODUCT_BIAS] || !size[4 * ndim + d])))
            return 0;
    cost = check_times(check_product_of(size, ndim), check_product_of(c + RT_PRODUCT_N, 2));
    cost = check_times(cost, c[RT_PRODUCT_DEPTH]);
    check_add_cost(f, cost);
    {
        const int64_t own[4][4] = {
            {c[RT_PRODUCT_N], c[RT_PRODUCT_ON], c[RT_PRODUCT_M], c[RT_PRODUCT_OM]},
            {c[RT_PRODUCT_N], c[RT_PRODUCT_AN], c[RT_PRODUCT_DEPTH], c[RT_PRODUCT_AK]},
            {c[RT_PRODUCT_DEPTH], c[RT_PRODUCT_BK], c[RT_PRODUCT_M], c[RT_PRODUCT_BM]},
            {c[RT_PRODUCT_N], c[RT_PRODUCT_CN], c[RT_PRODUCT_M], c[RT_PRODUCT_CM]}};

        for (d = 0; d < 4; d++)
            if ((d < 3 || c[RT_PRODUCT_BIAS]) &&
                !check_matrix(f, c, (int)d, c[RT_PRODUCT_OUT + d], own[d]))
                return 0;
    }
    return check_that(f, cost >= 0) &&
           check_scratch(f, c[RT_PRODUCT_SCRATCH], RT_PRODUCT_SCRATCH_BYTES);
}

/* An image or result of a convolution: images, channels of all groups, rows and columns. */
static int check_planes(check_file *f, int64_t address, int item, const int64_t *size,
                        const int64_t *step, int writes)
{
    check_span s = check_start(item);
    int d;

    for (d = 0; d < 4; d++)
        check_dim(&s, size[d],
                  check_number(step[d], 0, LIMIT / 8) ? item * step[d] : LIMIT + 1);
    return check_access(f, address, &s, writes);
}

static int check_geometry(check_file *f, const int64_t *g)
{
    int64_t k, image;

    for (k = 0; k < RT_CONVOLUTION_NUMBERS; k++)
        if (!check_that(f, check_number(g[k], k < 16 && k != 8 && k != 9, INT64_C(1) << 40)))
            return 0;
    image = check_times(check_times(4, g[0]), check_times(g[2] + 2 * g[8], g[3] + 2 * g[9]));
    return check_that(f, image >= 0 &&
                             check_product_of((const int64_t[]){g[0], g[4], g[5]}, 3) >= 0 &&
                             check_number(check_times(g[14] - 1, g[6]), 0, LIMIT) &&
                             check_number(check_times(g[15] - 1, g[7]), 0, LIMIT) &&
                             check_number(check_times(g[4] - 1, g[10]), 0, LIMIT) &&
                             check_number(check_times(g[5] - 1, g[11]), 0, LIMIT) &&
                             (g[14] - 1) * g[6] + (g[4] - 1) * g[10] < g[2] + 2 * g[8] &&
                             (g[15] - 1) * g[7] + (g[5] - 1) * g[11] < g[3] + 2 * g[9]);
}

static int check_convolution(check_file *f, const int64_t *c, int64_t n, int kind)
{
    const int64_t *g = c + RT_CONVOLVE_NUMBERS;
    int64_t depth, results, channels, cost;
    int item, spreads = kind == RT_SPREAD, weighs = kind == RT_WEIGH,
              f32 = spreads  ? RT_USE(spread_f32)
                    : weighs ? RT_USE(weigh_f32)
                             : RT_USE(convolve_f32),
              f64 = spreads  ? RT_USE(spread_f64)
                    : weighs ? RT_USE(weigh_f64)
                             : RT_USE(convolve_f64);

    if (!check_that(f, n == RT_CONVOLVE_WORDS) ||
        !check_real(f, c[RT_CONVOLVE_DTYPE], f32, f64) || !check_geometry(f, g))
        return 0;
    item = rt_item(c[RT_CONVOLVE_DTYPE]);
    depth = g[0] * g[4] * g[5];
    channels = check_times(g[0], g[13]);
    results = check_times(g[1], g[13]);
    cost =
        check_times(check_times(results, depth), check_times(check_times(g[14], g[15]), g[12]));
    check_add_cost(f, cost);
    if (spreads) /* fills the image, too */
        check_add_cost(f, check_times(check_times(channels, g[12]), check_times(g[2], g[3])));
    return check_planes(f, c[RT_CONVOLVE_OUT], item,
                        (const int64_t[]){g[12], results, g[14], g[15]}, g + 20,
                        kind == RT_CONVOLVE) &&
           check_planes(f, c[RT_CONVOLVE_X], item,
                        (const int64_t[]){g[12], channels, g[2], g[3]}, g + 16, spreads) &&
           check_block(f, c[RT_CONVOLVE_W], check_times(results, depth), item, weighs) &&
           (!c[RT_CONVOLVE_BIAS] ||
            check_block(f, c[RT_CONVOLVE_BIAS], spreads ? channels : results, item, 0)) &&
           check_that(f, cost >= 0) &&
           check_scratch(f, c[RT_CONVOLVE_SCRATCH],
                         spreads  ? rt_spread_scratch(item, g)
                         : weighs ? rt_weigh_scratch(item, g)
                                  : rt_convolution_scratch(item, g));
}

/* --- kernels --- */

typedef struct {
    check_file *f;
    const int64_t *c, *code;
    int axis, wide; /* of the innermost loop; -1: none */
} check_code;

static int check_registers(const check_code *k, int count, const int *r)
{
    int i;

    for (i = 0; i < count; i++)
        if (!check_that(k->f, r[i] < k->c[RT_KERNEL_REGISTERS] && (i == 0 || r[i] != r[0])))
            return 0;
    return 1;
}

static int check_operation(const check_code *k, int operation, int dtype, const int *r)
{
    int tests, count = rt_arguments(operation, dtype, &tests);

    return check_that(k->f, rt_item(dtype) > 0) && check_has(k->f, count > 0) &&
           check_registers(k, 1 + count, r);
}

static int check_reduce(const check_code *k, int operation, int dtype, const int *r)
{
    int tests;

    return check_has(k->f, rt_arguments(operation, dtype, &tests) == 2) &&
           check_that(k->f, !tests && r[1] != r[2]) && check_registers(k, 3, r);
}

/* r: registers of the results, the argument, the value so far, and its place. */
static int check_scan(const check_code *k, int dtype, const int *r, int number)
{
    int real = dtype == CR_RT_F32 || dtype == CR_RT_F64;

    return check_that(k->f, number < RT_SCANS && (real || number != RT_SCAN_LOG) &&
                                k->f->m.word[RT_HEAD_LANES] >= RT_SCAN_LANES && r[1] != r[2] &&
                                (number < RT_SCAN_ABOVE || (r[1] != r[3] && r[2] != r[3]))) &&
           check_has(k->f, RT_USE(scan)) &&
           check_registers(k, number < RT_SCAN_ABOVE ? 3 : 4, r);
}

/* r: result and arguments. */
static int check_special(const check_code *k, int operation, int dtype, const int *r,
                         int number)
{
    const int64_t *c = k->c;
    check_file *f = k->f;

    if (!check_that(f, rt_item(dtype) > 0))
        return 0;
    switch (operation) {
    case RT_LOAD:
        return check_that(f, number < c[RT_KERNEL_OPERANDS]) && check_registers(k, 1, r);
    case RT_STORE:
        return check_that(f, number < c[RT_KERNEL_RESULTS]) && check_registers(k, 1, r + 1);
    case RT_CONSTANT:
        return check_that(f, number < c[RT_KERNEL_CONSTANTS]) && check_registers(k, 1, r);
    case RT_INDEX: return check_that(f, number < 2) && check_registers(k, 1, r);
    case RT_SELECT: return check_registers(k, 4, r);
    case RT_CAST: return check_that(f, rt_item(number) > 0) && check_registers(k, 2, r);
    case RT_SPLAT: return check_registers(k, 2, r);
    case RT_PUT: /* as many lanes as the innermost loop has */
        return check_that(f, r[2] < 2 && (k->wide <= 0 || k->axis == r[2])) &&
               check_registers(k, 1, r + 1);
    case RT_FOLD:
        return check_real(f, dtype, RT_USE(fold_f32), RT_USE(fold_f64)) &&
               check_that(f, r[1] < 2 && r[2] < 2 && number < 2) && check_registers(k, 1, r);
    case RT_REDUCE: return check_reduce(k, number, dtype, r);
    case RT_BEYOND:
        return check_that(f, r[3] < 2 && number < 2 && r[1] != r[2]) &&
               check_registers(k, 3, r);
    case RT_SCAN: return check_scan(k, dtype, r, number);
    default: return check_fail(f, CR_RT_MISSING);
    }
}

/* Checks instructions from number `from` up to `to`; returns how many lanes they compute, or
 * -1. */
static int64_t check_instructions(check_code k, int64_t from, int64_t to, int nested)
{
    int64_t cost = 0, part;

    for (; from < to; from++) {
        const int64_t *w = k.code + RT_INSTRUCTION_WORDS * from;
        const int r[4] = {RT_PART(w[0], 2), RT_PART(w[0], 3), RT_PART(w[1], 0),
                          RT_PART(w[1], 1)};
        int operation = RT_PART(w[0], 0), dtype = RT_PART(w[0], 1), number = RT_PART(w[1], 2);

        if (operation == RT_FOR) {
            check_code inner = k;

            inner.axis = r[0];
            inner.wide = r[1];
            if (!check_that(k.f, r[0] < 2 && r[1] < 2 && number < to - from &&
                                     nested < RT_MOST_NESTED))
                return -1;
            part = check_instructions(inner, from + 1, from + 1 + number, nested + 1);
            if (part < 0)
                return -1;
            part = check_cost_times(part, k.c[RT_KERNEL_ROWS + r[0]]);
            from += number;
        } else {
            if (operation >= RT_LOAD ? !check_special(&k, operation, dtype, r, number)
                                     : !check_operation(&k, operation, dtype, r))
                return -1;
            part = operation == RT_FOLD    ? k.c[RT_KERNEL_ROWS + r[1]]
                   : operation == RT_SPLAT ? k.f->m.word[RT_HEAD_LANES]
                                           : 1;
        }
        cost = check_cost_sum(cost, part);
    }
    return cost;
}

static int check_operand(check_file *f, const int64_t *c, const int64_t *o, int writes)
{
    int64_t outer = c[RT_KERNEL_OUTER];
    check_span s = check_start(rt_item(o[RT_OPERAND_DTYPE]));

    check_dim(&s, c[RT_KERNEL_ROWS], o[RT_OPERAND_ROW]);
    check_dim(&s, c[RT_KERNEL_COLUMNS], o[RT_OPERAND_COLUMN]);
    check_dims(&s, outer, c + RT_KERNEL_WORDS, o + RT_OPERAND_WORDS);
    return check_access(f, o[RT_OPERAND_AT], &s, writes);
}

/* Whether the numbers are in range, and make up the words of the command. */
static int check_kernel_words(const int64_t *c, int64_t n)
{
    const int64_t most = 65535, *size = c + RT_KERNEL_WORDS;
    int64_t outer, d;
    check_span first = check_start(1);

    if (n < RT_KERNEL_WORDS || !check_number(c[RT_KERNEL_OUTER], 0, RT_MOST_OUTER) ||
        !check_number(c[RT_KERNEL_OPERANDS], 0, RT_MOST_OPERANDS) ||
        !check_number(c[RT_KERNEL_RESULTS], 0, c[RT_KERNEL_OPERANDS]) ||
        !check_number(c[RT_KERNEL_CONSTANTS], 0, most) ||
        !check_number(c[RT_KERNEL_INSTRUCTIONS], 0, most) ||
        !check_number(c[RT_KERNEL_REGISTERS], 0, most) ||
        !check_number(c[RT_KERNEL_ROWS], 1, LIMIT) ||
        !check_number(c[RT_KERNEL_COLUMNS], 1, LIMIT))
        return 0;
    outer = c[RT_KERNEL_OUTER];
    if (n != RT_KERNEL_WORDS + 2 * outer + c[RT_KERNEL_OPERANDS] * (RT_OPERAND_WORDS + outer) +
                 c[RT_KERNEL_CONSTANTS] + RT_INSTRUCTION_WORDS * c[RT_KERNEL_INSTRUCTIONS])
        return 0;
    for (d = 0; d < outer; d++)
        if (size[d] < 1)
            return 0;
    check_dims(&first, outer, size, size + outer);
    return !first.bad;
}

static int check_kernel(check_file *f, const int64_t *c, int64_t n)
{
    int64_t outer, k, cost, longest;
    const int64_t *operands;
    check_code code = {0};

    if (!check_that(f, check_kernel_words(c, n)))
        return 0;
    outer = c[RT_KERNEL_OUTER];
    operands = c + RT_KERNEL_WORDS + 2 * outer;
    for (k = 0; k < c[RT_KERNEL_OPERANDS]; k++)
        if (!check_operand(f, c, operands + k * (RT_OPERAND_WORDS + outer),
                           k < c[RT_KERNEL_RESULTS]))
            return 0;
    longest =
        c[RT_KERNEL_ROWS] > c[RT_KERNEL_COLUMNS] ? c[RT_KERNEL_ROWS] : c[RT_KERNEL_COLUMNS];
    longest = check_times(longest, 8);
    if (!check_that(f, longest >= 0) ||
        !check_scratch(f, c[RT_KERNEL_MEMORY],
                       longest + 8 * c[RT_KERNEL_REGISTERS] * f->m.word[RT_HEAD_LANES]))
        return 0;
    code.f = f;
    code.c = c;
    code.code =
        operands + c[RT_KERNEL_OPERANDS] * (RT_OPERAND_WORDS + outer) + c[RT_KERNEL_CONSTANTS];
    code.axis = code.wide = -1;
    cost = check_instructions(code, 0, c[RT_KERNEL_INSTRUCTIONS], 0);
    for (k = 0; k < outer && cost > 0; k++)
        cost = check_cost_times(cost, c[RT_KERNEL_WORDS + k]);
    check_add_cost(f, cost);
    return cost >= 0;
}

static int check_command(check_file *f, const int64_t *c, int64_t n)
{
    switch (c[0] & 255) {
    case RT_MOVE: return check_move(f, c + 1, n);
    case RT_PLACE: return check_place(f, c + 1, n);
    case RT_WINDOWS: return check_windows(f, c + 1, n);
    case RT_PRODUCT: return check_product(f, c + 1, n);
    case RT_CONVOLVE:
    case RT_SPREAD:
    case RT_WEIGH: return check_convolution(f, c + 1, n, (int)(c[0] & 255));
    case RT_KERNEL: return check_kernel(f, c + 1, n);
    default: return check_fail(f, CR_RT_MISSING);
    }
}

/* --- the file --- */

static int check_head(check_file *f, const void *bytes, size_t n)
{
    const int64_t *w = bytes;
    int64_t lanes;

    if (!bytes || (uintptr_t)bytes % 16)
        return check_fail(f, CR_RT_ALIGNMENT);
    if (n < 8 * RT_HEAD_WORDS || w[RT_HEAD_MAGIC] != RT_MAGIC)
        return check_fail(f, CR_RT_FORMAT);
    if (n % 8 || n / 8 > (size_t)LIMIT || w[RT_HEAD_WORDS_ALL] != (int64_t)(n / 8) ||
        w[RT_HEAD_SUM] != rt_sum(w + RT_HEAD_SUM + 1, (int64_t)(n / 8) - RT_HEAD_SUM - 1))
        return check_fail(f, CR_RT_SUM);
    f->m.word = w;
    f->m.words = (int64_t)(n / 8);
    lanes = w[RT_HEAD_LANES];
    return check_that(
        f,
        check_number(w[RT_HEAD_WORK], 0, LIMIT) &&
            check_number(w[RT_HEAD_VALUES], 0, w[RT_HEAD_WORK]) &&
            w[RT_HEAD_VALUES] % 16 == 0 && check_number(lanes, 1, 4096) &&
            (lanes & (lanes - 1)) == 0 && check_number(w[RT_HEAD_ARRAYS], 0, RT_MOST_ARRAYS) &&
            check_number(w[RT_HEAD_DATA], 0, f->m.words) && w[RT_HEAD_DATA] % 2 == 0 &&
            check_number(w[RT_HEAD_COMMANDS],
                         RT_HEAD_WORDS + RT_ARRAY_WORDS * w[RT_HEAD_ARRAYS], w[RT_HEAD_DATA]));
}

static int check_array(check_file *f, int64_t k, int64_t *last)
{
    const int64_t *w = f->m.word, *a = w + RT_HEAD_WORDS + k * RT_ARRAY_WORDS;
    int64_t least = RT_HEAD_WORDS + RT_ARRAY_WORDS * w[RT_HEAD_ARRAYS],
            most = w[RT_HEAD_COMMANDS], count;

    if (!check_that(f, check_number(a[RT_ARRAY_KIND], *last, CR_RT_RESULT) &&
                           rt_item(a[RT_ARRAY_DTYPE]) > 0 &&
                           check_number(a[RT_ARRAY_NDIM], 0, RT_MOST_DIMS) &&
                           check_number(a[RT_ARRAY_SIZES], least, most - a[RT_ARRAY_NDIM]) &&
                           check_number(a[RT_ARRAY_NAME], least, most - 1) &&
                           !((const char *)(w + most))[-1])) /* each name ends here or before */
        return 0;
    *last = a[RT_ARRAY_KIND];
    count = check_product_of(w + a[RT_ARRAY_SIZES], a[RT_ARRAY_NDIM]);
    if (!check_that(f, check_times(count, 8) >= 0))
        return 0;
    count *= rt_item(a[RT_ARRAY_DTYPE]);
    return check_that(
               f, (uint64_t)count <= SIZE_MAX &&
                      (!a[RT_ARRAY_FIRST] || a[RT_ARRAY_FIRST] >> RT_SPACE_SHIFT == RT_DATA)) &&
           (!a[RT_ARRAY_FIRST] || check_block(f, a[RT_ARRAY_FIRST], count, 1, 0));
}

static cr_rt_status check_all(check_file *f, const void *bytes, size_t n)
{
    int64_t k, at, words, last = 0;

    if (!check_head(f, bytes, n))
        return f->status;
    for (k = 0; k < f->m.word[RT_HEAD_ARRAYS]; k++)
        if (!check_array(f, k, &last))
            return f->status;
    for (at = f->m.word[RT_HEAD_COMMANDS]; at < f->m.word[RT_HEAD_DATA]; at += words) {
        words = f->m.word[at] >> 8;
        if (!check_that(f, check_number(words, 1, f->m.word[RT_HEAD_DATA] - at)) ||
            !check_command(f, f->m.word + at, words - 1))
            return f->status;
    }
    return f->status;
}

cr_rt_status cr_rt_open(cr_rt *out, const void *bytes, size_t n)
{
    check_file f = {{NULL, 0, 0}, 0, CR_RT_OK};
    cr_rt_status status = check_all(&f, bytes, n);

    if (!status && (uint64_t)f.m.word[RT_HEAD_WORK] > SIZE_MAX)
        status = CR_RT_INVALID;
    f.m.operations = f.cost;
    if (!status)
        *out = f.m;
    return status;
}

int64_t cr_rt_operations(const cr_rt *m) { return m->operations; }

size_t cr_rt_work_bytes(const cr_rt *m) { return (size_t)m->word[RT_HEAD_WORK]; }

int cr_rt_count(const cr_rt *m) { return (int)m->word[RT_HEAD_ARRAYS]; }

cr_rt_array cr_rt_at(const cr_rt *m, int k)
{
    const int64_t *a = m->word + RT_HEAD_WORDS + k * RT_ARRAY_WORDS;
    int64_t d, bytes = rt_item(a[RT_ARRAY_DTYPE]);
    cr_rt_array out;

    out.name = (const char *)(m->word + a[RT_ARRAY_NAME]);
    out.kind = (cr_rt_kind)a[RT_ARRAY_KIND];
    out.dtype = (cr_rt_dtype)a[RT_ARRAY_DTYPE];
    out.ndim = (int)a[RT_ARRAY_NDIM];
    out.size = m->word + a[RT_ARRAY_SIZES];
    for (d = 0; d < out.ndim; d++)
        bytes *= out.size[d];
    out.bytes = (size_t)bytes;
    return out;
}

int cr_rt_find(const cr_rt *m, const char *name)
{
    int k, n = cr_rt_count(m);

    for (k = 0; k < n; k++) {
        const char *a = cr_rt_at(m, k).name, *b = name;

        while (*a && *a == *b) {
            a++;
            b++;
        }
        if (*a == *b)
            return k;
    }
    return -1;
}

const char *cr_rt_text(cr_rt_status status)
{
    static const char *const text[] = {
        "no error",
        "these bytes are no program that this library knows",
        "bytes of the program are missing or have changed",
        "a command of the program is invalid",
        "this build of the library lacks an operator of the program",
        "memory is missing or not aligned",
        "an index of an element is out of range",
    };

    return status < sizeof text / sizeof *text ? text[status] : "an unknown status";
}
