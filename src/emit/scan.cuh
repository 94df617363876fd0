/* scan.cuh - running sums, products, extremes with their places, and logarithmic sums, on an
 * NVIDIA GPU, in the order of num/order.h.
 *
 * Follows move.cuh.  CN_ITEM is the type of elements, CN_OP one of the numbers below.  A line
 * is cut into blocks of 256 elements, a block into runs of 16.  A thread takes a run; results
 * of runs, then of blocks, are joined one after the other.  Where lines are few, the results of
 * their blocks are computed first, by a launch of many threads, and joined by another launch.
 * CN_CHAIN tells how: one after the other, in any order, or by guesses that are checked. */
#ifndef CR_EMIT_SCAN_CUH
#define CR_EMIT_SCAN_CUH

#include "emit/move.cuh"

#define CN_ADD   0
#define CN_MUL   1
#define CN_ABOVE 2
#define CN_BELOW 3
#define CN_LOG   4

#define CN_IN_TURN   0
#define CN_ANY_ORDER 1
#define CN_GUESSED   2

/* --- running values --- */

#if CN_OP == CN_ABOVE || CN_OP == CN_BELOW
#define CN_KEEPS 1
struct cn_state {
    CN_ITEM best;
    cm_i64 at;
};
CV_FN cn_state cn_of(CN_ITEM x, cm_i64 i) { return {x, i}; }
template <class R> CV_FN bool cn_beats(R a, R b)
{
    return (CN_OP == CN_ABOVE ? a > b : a < b) || (a != a && b == b);
}
CV_FN cn_state cn_join(cn_state a, cn_state b)
{
    return cn_beats(cm_real(a.best), cm_real(b.best)) ? a : b;
}
CV_FN CN_ITEM cn_item(cn_state s) { return s.best; }
CV_FN cm_i64 cn_place(cn_state s) { return s.at; }
#else
#define CN_KEEPS 0
template <class T> struct cn_wide {
    typedef unsigned long long type;
};
#define CN_WIDEN(T, W)                                                                         \
    template <> struct cn_wide<T> {                                                            \
        typedef W type;                                                                        \
    };
CN_WIDEN(cm_f16, double)
CN_WIDEN(cm_bf16, double)
CN_WIDEN(cm_f32, double)
CN_WIDEN(cm_f64, double)
CN_WIDEN(cm_c64, cm_c128)
CN_WIDEN(cm_c128, cm_c128)
typedef cn_wide<CN_ITEM>::type cn_state;
typedef unsigned long long cn_whole;

template <class T> CV_FN cn_whole cn_widen(T x, cn_whole)
{
    return (cn_whole)cm_to64(cm_real(x));
}
template <class T> CV_FN double cn_widen(T x, double) { return (double)cm_real(x); }
template <class T> CV_FN cm_c128 cn_widen(T x, cm_c128)
{
    return {(double)cm_real(x), (double)cm_imag(x)};
}
CV_FN cn_state cn_of(CN_ITEM x, cm_i64) { return cn_widen(x, cn_state()); }
CV_FN CN_ITEM cn_narrow(cn_whole s) { return cm_to<CN_ITEM>::of((cm_i64)s); }
template <class S> CV_FN CN_ITEM cn_narrow(S s) { return cm_to<CN_ITEM>::of(s); }
CV_FN CN_ITEM cn_item(cn_state s) { return cn_narrow(s); }
CV_FN cm_i64 cn_place(cn_state) { return 0; }
#if CN_OP == CN_LOG
/* log(exp(a) + exp(b)); equal infinities must not be subtracted. */
CV_SLOW double cn_join(double a, double b)
{
    const double low = a < b ? a : b, high = a < b ? b : a;

    if (a != a || b != b)
        return a + b;
    if (low == high && low - high != 0)
        return low;
    return high + __builtin_log1p(__builtin_exp(low - high));
}
#ifndef __CUDACC_RTC__
extern "C" double cos(double), sin(double), hypot(double, double), atan2(double, double);
#endif
/* The same for complex numbers, whose real parts are compared. */
CV_FN cm_c128 cn_exp(cm_c128 x)
{
    const double r = __builtin_exp(x.re);

    if (r == 0)
        return {0, 0};
    return {x.im == 0 ? r : r * cos(x.im), x.im == 0 ? x.im : r * sin(x.im)};
}
CV_FN cm_c128 cn_log(cm_c128 x)
{
    return {__builtin_log(hypot(x.re, x.im)), atan2(x.im, x.re)};
}
CV_SLOW cm_c128 cn_join(cm_c128 a, cm_c128 b)
{
    const cm_c128 low = b.re < a.re ? b : a, high = b.re < a.re ? a : b;

    if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im)
        return {__builtin_nan(""), __builtin_nan("")};
    if (low.re == high.re && low.re - high.re != 0) {
        const cm_c128 x = cn_exp(low), y = cn_exp(high);
        return low.re < 0 ? low : cn_log({x.re + y.re, x.im + y.im});
    }
    const cm_c128 less = cn_exp({low.re - high.re, low.im - high.im});
    const cm_c128 more = cn_log({1 + less.re, less.im});
    return {high.re + more.re, high.im + more.im};
}
#elif CN_OP == CN_ADD
template <class S> CV_FN S cn_join(S a, S b) { return a + b; }
CV_FN cm_c128 cn_join(cm_c128 a, cm_c128 b) { return {a.re + b.re, a.im + b.im}; }
#else
template <class S> CV_FN S cn_join(S a, S b) { return a * b; }
CV_FN cm_c128 cn_join(cm_c128 a, cm_c128 b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
#endif
#endif

/* --- lines --- */

enum { CN_RUN = 16, CN_BLOCK = 256, CN_RUNS = CN_BLOCK / CN_RUN, CN_DIMS = 8 };
enum {
    CN_THREADS = sizeof(CN_ITEM) + 8 * CN_KEEPS > 8 ? 128 : 256, /* of a tile, a run each */
    CN_TILE = CN_THREADS * CN_RUN,
    CN_TILE_BLOCKS = CN_TILE / CN_BLOCK,
    CN_ROOM = CN_TILE + CN_THREADS
};

/* Steps are in bytes, those along a line apart.  `totals` has a state for each block of each
 * line: [lines, blocks] for lines of adjacent elements, [blocks, lines] for others. */
struct cn_call {
    char *to, *index;
    const char *from;
    cn_state *totals;
    cm_i64 lines, n, blocks, to_step, index_step, from_step;
    cm_i64 ndim, size[CN_DIMS], to_dim[CN_DIMS], index_dim[CN_DIMS], from_dim[CN_DIMS];
};

struct cn_line {
    char *to, *index;
    const char *from;
};

CV_FN cn_line cn_line_of(const cn_call &c, cm_i64 line)
{
    cn_line l = {c.to, c.index, c.from};

    for (int d = (int)c.ndim - 1; d >= 0; d--) {
        const cm_i64 up = line / c.size[d], k = line - up * c.size[d];
        l.to += k * c.to_dim[d];
        l.index += k * c.index_dim[d];
        l.from += k * c.from_dim[d];
        line = up;
    }
    return l;
}

CV_FN cm_i64 cn_least(cm_i64 a, cm_i64 b) { return a < b ? a : b; }

/* --- lines of adjacent elements: a block of threads has a tile --- */

/* Threads read neighbouring runs of shared memory in different banks. */
CV_FN int cn_at(int i) { return i + i / CN_RUN; }

CV_FN void cn_load(const cn_call &c, const cn_line &l, cm_i64 first, int count, CN_ITEM *item)
{
    for (int k = ck_x(); k < count; k += CN_THREADS)
        item[cn_at(k)] = *(const CN_ITEM *)(l.from + (first + k) * c.from_step);
    __syncthreads();
}

/* The results of runs, joined within blocks: run[t] has the runs of thread t's block up to its
 * own. */
CV_FN void cn_join_runs(const CN_ITEM *item, cm_i64 first, int count, cn_state *run)
{
    const int begin = ck_x() * CN_RUN;

    if (begin < count) {
        cn_state own = cn_of(item[cn_at(begin)], first + begin);
        for (int i = begin + 1; i < cn_least(begin + CN_RUN, count); i++)
            own = cn_join(own, cn_of(item[cn_at(i)], first + i));
        run[ck_x()] = own;
    }
    __syncthreads();
    if (ck_x() < CN_TILE_BLOCKS)
        for (int r = 1; r < CN_RUNS; r++) {
            const int t = ck_x() * CN_RUNS + r;
            if (t * CN_RUN < count)
                run[t] = cn_join(run[t - 1], run[t]);
        }
    __syncthreads();
}

/* The number of the last run of block b of the tile. */
CV_FN int cn_last_run(int b, int count)
{
    return (int)cn_least(b * CN_RUNS + CN_RUNS, (count + CN_RUN - 1) / CN_RUN) - 1;
}

CK_KERNEL_OF(CN_THREADS, cn_totals_rows, cn_call)
{
    CK_SHARED CN_ITEM item[CN_ROOM];
    CK_SHARED cn_state run[CN_THREADS];
    const cm_i64 tiles = (call.n + CN_TILE - 1) / CN_TILE;

    for (cm_i64 u = CK_BLOCK_(x); u < call.lines * tiles; u += CK_BLOCKS_(x)) {
        const cm_i64 line = u / tiles, first = (u - line * tiles) * CN_TILE;
        const int count = (int)cn_least(CN_TILE, call.n - first);
        cn_load(call, cn_line_of(call, line), first, count, item);
        cn_join_runs(item, first, count, run);
        if (ck_x() < CN_TILE_BLOCKS && ck_x() * CN_BLOCK < count)
            call.totals[line * call.blocks + first / CN_BLOCK + ck_x()] =
                run[cn_last_run(ck_x(), count)];
        __syncthreads();
    }
}

/* Threads of the block that joins a line's totals.  A step takes as long with more of them, but
 * guesses of 1,024 threads fail too often. */
enum { CN_CHAINERS = CN_CHAIN == CN_ANY_ORDER ? 1024 : CN_THREADS };

#if CN_CHAIN != CN_GUESSED
/* Running values of some[0] ... some[count - 1], each one before its element; *all are those
 * before, if `has`, and then all. */
#if CN_CHAIN == CN_ANY_ORDER
CV_FN void cn_chain(cn_state *some, int count, bool has, cn_state *all)
{
    const int me = ck_x();
    cn_state sum, before;

    if (me < count)
        sum = some[me];
    for (int by = 1; by < CN_CHAINERS; by *= 2) {
        if (me >= by && me < count)
            before = some[me - by];
        __syncthreads();
        if (me >= by && me < count)
            some[me] = sum = cn_join(before, sum);
        __syncthreads();
    }
    if (me && me < count)
        before = has ? cn_join(*all, some[me - 1]) : some[me - 1];
    else if (has)
        before = *all;
    sum = has ? cn_join(*all, some[count - 1]) : some[count - 1];
    __syncthreads();
    if (me < count && (me || has))
        some[me] = before;
    *all = sum;
    __syncthreads();
}
#else
/* By one thread, which reads several before it writes any. */
enum { CN_AHEAD = 16 };
CV_FN void cn_chain(cn_state *some, int count, bool has, cn_state *all)
{
    for (int first = 0; ck_x() == 0 && first < count; first += CN_AHEAD) {
        cn_state next[CN_AHEAD];
        CV_ALL
        for (int k = 0; k < CN_AHEAD; k++)
            next[k] = some[first + k];
        CV_ALL
        for (int k = 0; k < CN_AHEAD; k++) {
            if (first + k >= count)
                continue;
            const bool joins = has || first + k;
            if (joins)
                some[first + k] = *all;
            *all = joins ? cn_join(*all, next[k]) : next[k];
        }
    }
    __syncthreads();
}
#endif
#endif

/* A step has CN_STEP totals; a thread has CN_OWN neighbouring ones. */
enum {
    CN_OWN = CN_CHAIN == CN_IN_TURN   ? 1
             : CN_CHAIN == CN_GUESSED ? 16
                                      : 8,
    CN_STEP = CN_CHAINERS * CN_OWN
};

/* The thread's totals of the step at `at`; returns how many it has. */
CV_FN int cn_own_totals(const cn_state *at, cm_i64 left, cn_state *own)
{
    const int begin = ck_x() * CN_OWN;

    CV_ALL
    for (int k = 0; k < CN_OWN; k++)
        if (begin + k < left)
            own[k] = at[begin + k];
    return left <= begin ? 0 : (int)cn_least(CN_OWN, left - begin);
}

#if CN_CHAIN == CN_GUESSED
/* Sums of floats, which must be added one after the other.  A thread guesses the sum before its
 * totals by adding in another order, and adds its totals to the guess.  If every thread ends
 * with the next thread's guess, all sums have the bits of the sequential order.  Otherwise the
 * guesses are shifted.  A sum that begins a few units in the last place higher ends as many
 * units higher, except where it is rounded from the middle of two numbers: there the direction
 * depends on whether the shift is even.  So both cases are joined, and few rounds suffice. */
struct cn_shift {
    double even, odd; /* the end's shift less the start's, if the start's is even or odd */
};
enum { CN_TRIES = 24, CN_TRIES_AFTER_FAILURE = 3, CN_WARPS = CN_CHAINERS / 32 };

CV_FN bool cn_is_odd(double x, double units) { return cm_to64(x * units) & 1; }
CV_FN cn_shift cn_joined(cn_shift a, cn_shift b, double units)
{
    return {a.even + (cn_is_odd(a.even, units) ? b.odd : b.even),
            a.odd + (cn_is_odd(a.odd, units) ? b.even : b.odd)};
}
CV_FN double cn_of_lane(double x, int lane)
{
    unsigned half[2];

    __builtin_memcpy(half, &x, sizeof half);
    half[0] = (unsigned)CK_SHUFFLE_(half[0], lane);
    half[1] = (unsigned)CK_SHUFFLE_(half[1], lane);
    __builtin_memcpy(&x, half, sizeof half);
    return x;
}

/* The joined shifts of the threads before this one. */
CV_FN cn_shift cn_before(cn_shift own, double units)
{
    CK_SHARED cn_shift of_warp[CN_WARPS];
    const int lane = ck_x() % 32, warp = ck_x() / 32;
    cn_shift before = {0, 0};

    for (int by = 1; by < 32; by *= 2) {
        const int from = lane < by ? lane : lane - by;
        const cn_shift other = {cn_of_lane(own.even, from), cn_of_lane(own.odd, from)};
        if (lane >= by)
            own = cn_joined(other, own, units);
    }
    if (lane == 31)
        of_warp[warp] = own;
    __syncthreads();
    for (int w = 0; w < warp; w++)
        before = cn_joined(before, of_warp[w], units);
    const int from = lane ? lane - 1 : 0;
    own = {cn_of_lane(own.even, from), cn_of_lane(own.odd, from)};
    return lane ? cn_joined(before, own, units) : before;
}

/* A unit in the last place of x. */
CV_FN double cn_unit(double x)
{
    unsigned long long bits;

    __builtin_memcpy(&bits, &x, sizeof bits);
    bits = bits >> 52 & 2047;
    bits = (bits > 53 ? bits - 52 : 1) << 52;
    __builtin_memcpy(&x, &bits, sizeof bits);
    return x;
}

/* The same bits, or both NaN. */
CV_FN bool cn_equal(double a, double b)
{
    unsigned long long x, y;

    __builtin_memcpy(&x, &a, sizeof x);
    __builtin_memcpy(&y, &b, sizeof y);
    return x == y || (a != a && b != b);
}

/* *start, *end: the sums before and after the thread's totals; `base`: the sum before the step.
 * False when all tries fail. */
CV_FN bool cn_guess(const double *own, int count, double base, int tries, double *start,
                    double *end)
{
    CK_SHARED double begin[CN_CHAINERS];
    CK_SHARED int wrong;
    const int me = ck_x();
    cn_shift shift = {0, 0};
    double units = 1;

    *start = base;
    CV_ALL
    for (int k = 0; k < CN_OWN; k++)
        if (k < count)
            shift.even += own[k];
    shift.odd = shift.even;
    while (tries-- > 0) {
        const double by = cn_before(shift, units).even;
        if (me)
            *start += by;
        begin[me] = *start;
        if (me == 0)
            wrong = 0;
        __syncthreads();
        double most = 0;
        for (int k = 0; k < 3; k++) {
            const double some = begin[k * (CN_CHAINERS - 1) / 2];
            most = some > most ? some : -some > most ? -some : most;
        }
        const double unit = cn_unit(most);
        double up = *start + unit;
        units = 1 / unit;
        *end = *start;
        CV_ALL
        for (int k = 0; k < CN_OWN; k++)
            if (k < count) {
                *end += own[k];
                up += own[k];
            }
        const double next = me + 1 < CN_CHAINERS ? begin[me + 1] : *end;
        shift = {*end - next, up - (next + unit)};
        if (!cn_equal(*end, next))
            CK_ATOMIC_ADD_(&wrong, 1);
        __syncthreads();
        if (!wrong)
            return true;
    }
    return false;
}

/* The same by one thread. */
CV_FN void cn_in_turn(const double *at, cm_i64 left, const double *own, int count, double base,
                      double *start, double *end)
{
    CK_SHARED double begin[CN_CHAINERS];

    for (int t = 0; ck_x() == 0 && t < CN_CHAINERS; t++) {
        begin[t] = base;
        CV_ALL
        for (int k = 0; k < CN_OWN; k++)
            if (t * CN_OWN + k < left)
                base += at[t * CN_OWN + k];
    }
    __syncthreads();
    *start = *end = begin[ck_x()];
    CV_ALL
    for (int k = 0; k < CN_OWN; k++)
        if (k < count)
            *end += own[k];
}

CK_KERNEL_OF(CN_CHAINERS, cn_chain_rows, cn_call)
{
    CK_SHARED double last;
    double own[CN_OWN], start, end;

    for (cm_i64 line = CK_BLOCK_(x); line < call.lines; line += CK_BLOCKS_(x)) {
        double base = -0.0; /* -0.0 + x is x */
        int tries = CN_TRIES;
        for (cm_i64 first = 0; first < call.blocks; first += CN_STEP) {
            cn_state *const at = call.totals + line * call.blocks + first;
            const int count = cn_own_totals(at, call.blocks - first, own);
            if (!cn_guess(own, count, base, tries, &start, &end)) {
                cn_in_turn(at, call.blocks - first, own, count, base, &start, &end);
                tries = CN_TRIES_AFTER_FAILURE;
            }
            CV_ALL
            for (int k = 0; k < CN_OWN; k++)
                if (k < count) {
                    at[ck_x() * CN_OWN + k] = start;
                    start += own[k];
                }
            if (ck_x() == CN_CHAINERS - 1)
                last = end;
            __syncthreads();
            base = last;
        }
    }
}
#else
/* Each block's total becomes that of the blocks before it. */
CK_KERNEL_OF(CN_CHAINERS, cn_chain_rows, cn_call)
{
    CK_SHARED cn_state some[CN_CHAINERS];
    cn_state own[CN_OWN], all, sum;

    for (cm_i64 line = CK_BLOCK_(x); line < call.lines; line += CK_BLOCKS_(x))
        for (cm_i64 first = 0; first < call.blocks; first += CN_STEP) {
            cn_state *const at = call.totals + line * call.blocks + first;
            const cm_i64 left = call.blocks - first;
            const int count = cn_own_totals(at, left, own);
            const int threads = (int)cn_least(CN_CHAINERS, (left + CN_OWN - 1) / CN_OWN);
            CV_ALL
            for (int k = 0; k < CN_OWN; k++)
                if (k < count)
                    sum = k ? cn_join(sum, own[k]) : own[k];
            if (count)
                some[ck_x()] = sum;
            __syncthreads();
            cn_chain(some, threads, first > 0, &all);
            bool joins = first > 0 || ck_x() > 0;
            if (count)
                sum = some[ck_x()];
            CV_ALL
            for (int k = 0; k < CN_OWN; k++)
                if (k < count) {
                    if (joins)
                        at[ck_x() * CN_OWN + k] = sum;
                    sum = joins ? cn_join(sum, own[k]) : own[k];
                    joins = true;
                }
            __syncthreads();
        }
}
#endif

/* What is before each block of the tile; *all is what is before the tile, in thread 0. */
CV_FN void cn_join_blocks(const cn_call &c, cm_i64 line, cm_i64 first, int count,
                          const cn_state *run, cn_state *before, cn_state *all)
{
    if (c.totals) {
        if (ck_x() < CN_TILE_BLOCKS && ck_x() * CN_BLOCK < count)
            before[ck_x()] = c.totals[line * c.blocks + first / CN_BLOCK + ck_x()];
    } else {
        for (int b = 0; ck_x() == 0 && b * CN_BLOCK < count; b++) {
            const cn_state next = run[cn_last_run(b, count)];
            const bool some = first || b;
            if (some)
                before[b] = *all;
            *all = some ? cn_join(*all, next) : next;
        }
    }
    __syncthreads();
}

CV_FN void cn_write_run(CN_ITEM *item, cm_i64 *place, cm_i64 first, int count,
                        const cn_state *run, const cn_state *before)
{
    const int t = ck_x(), begin = t * CN_RUN, b = t / CN_RUNS;
    const bool inner = t % CN_RUNS, outer = first || b;
    cn_state carry, own;

    if (begin >= count)
        return;
    if (inner)
        carry = outer ? cn_join(before[b], run[t - 1]) : run[t - 1];
    else if (outer)
        carry = before[b];
    for (int i = begin; i < cn_least(begin + CN_RUN, count); i++) {
        const cn_state x = cn_of(item[cn_at(i)], first + i);
        own = i == begin ? x : cn_join(own, x);
        const cn_state s = inner || outer ? cn_join(carry, own) : own;
        item[cn_at(i)] = cn_item(s);
        if (CN_KEEPS)
            place[cn_at(i)] = cn_place(s);
    }
}

CV_FN void cn_store(const cn_call &c, const cn_line &l, cm_i64 first, int count,
                    const CN_ITEM *item, const cm_i64 *place)
{
    __syncthreads();
    for (int k = ck_x(); k < count; k += CN_THREADS) {
        *(CN_ITEM *)(l.to + (first + k) * c.to_step) = item[cn_at(k)];
        if (CN_KEEPS)
            *(cm_i64 *)(l.index + (first + k) * c.index_step) = place[cn_at(k)];
    }
    __syncthreads();
}

CK_KERNEL_OF(CN_THREADS, cn_rows, cn_call)
{
    CK_SHARED CN_ITEM item[CN_ROOM];
    CK_SHARED cm_i64 place[CN_KEEPS ? CN_ROOM : 1];
    CK_SHARED cn_state run[CN_THREADS], before[CN_TILE_BLOCKS];
    const cm_i64 tiles = (call.n + CN_TILE - 1) / CN_TILE, apart = call.totals ? tiles : 1;
    cn_state all;

    for (cm_i64 u = CK_BLOCK_(x); u < call.lines * apart; u += CK_BLOCKS_(x)) {
        const cm_i64 line = u / apart, part = u - line * apart;
        const cn_line l = cn_line_of(call, line);
        for (cm_i64 tile = part; tile < (call.totals ? part + 1 : tiles); tile++) {
            const cm_i64 first = tile * CN_TILE;
            const int count = (int)cn_least(CN_TILE, call.n - first);
            cn_load(call, l, first, count, item);
            cn_join_runs(item, first, count, run);
            cn_join_blocks(call, line, first, count, run, before, &all);
            cn_write_run(item, place, first, count, run, before);
            cn_store(call, l, first, count, item, place);
        }
    }
}

/* --- other lines: neighbouring threads have neighbouring lines --- */

/* A run: reads its elements before it writes any. */
struct cn_run {
    CN_ITEM item[CN_RUN];
};
CV_FN cn_run cn_load_run(const cn_call &c, const cn_line &l, cm_i64 first)
{
    cn_run r;

    CV_ALL
    for (int i = 0; i < CN_RUN; i++)
        if (first + i < c.n)
            r.item[i] = *(const CN_ITEM *)(l.from + (first + i) * c.from_step);
    return r;
}

CV_FN cn_state cn_fold_run(const cn_call &c, const cn_run &r, cm_i64 first)
{
    cn_state own = cn_of(r.item[0], first);

    CV_ALL
    for (int i = 1; i < CN_RUN; i++)
        if (first + i < c.n)
            own = cn_join(own, cn_of(r.item[i], first + i));
    return own;
}

/* Returns the run's result. */
CV_FN cn_state cn_scan_run(const cn_call &c, const cn_line &l, cm_i64 first, bool carries,
                           cn_state carry)
{
    const cn_run r = cn_load_run(c, l, first);
    cn_state own;

    CV_ALL
    for (int i = 0; i < CN_RUN; i++) {
        if (first + i >= c.n)
            continue;
        const cn_state x = cn_of(r.item[i], first + i);
        own = i ? cn_join(own, x) : x;
        const cn_state s = carries ? cn_join(carry, own) : own;
        *(CN_ITEM *)(l.to + (first + i) * c.to_step) = cn_item(s);
        if (CN_KEEPS)
            *(cm_i64 *)(l.index + (first + i) * c.index_step) = cn_place(s);
    }
    return own;
}

CK_KERNEL(cn_totals_columns, cn_call)
{
    for (cm_i64 u = ck_first_x(); u < call.lines * call.blocks; u += ck_step_x()) {
        const cm_i64 b = u / call.lines;
        const cn_line l = cn_line_of(call, u - b * call.lines);
        const cm_i64 first = b * CN_BLOCK, end = cn_least(first + CN_BLOCK, call.n);
        cn_state runs = cn_fold_run(call, cn_load_run(call, l, first), first);
        for (cm_i64 i = first + CN_RUN; i < end; i += CN_RUN)
            runs = cn_join(runs, cn_fold_run(call, cn_load_run(call, l, i), i));
        call.totals[u] = runs;
    }
}

CK_KERNEL(cn_chain_columns, cn_call)
{
    for (cm_i64 line = ck_first_x(); line < call.lines; line += ck_step_x()) {
        cn_state all = call.totals[line];
        for (cm_i64 b = 1; b < call.blocks; b++) {
            const cn_state next = call.totals[b * call.lines + line];
            call.totals[b * call.lines + line] = all;
            all = cn_join(all, next);
        }
    }
}

CK_KERNEL(cn_columns, cn_call)
{
    const cm_i64 parts = call.totals ? call.blocks : 1;

    for (cm_i64 u = ck_first_x(); u < call.lines * parts; u += ck_step_x()) {
        const cm_i64 part = u / call.lines, line = u - part * call.lines;
        const cn_line l = cn_line_of(call, line);
        const cm_i64 end = call.totals ? cn_least((part + 1) * CN_BLOCK, call.n) : call.n;
        cn_state blocks, runs, carry;
        bool outer = part > 0;
        if (outer)
            blocks = carry = call.totals[part * call.lines + line];
        for (cm_i64 i = part * CN_BLOCK; i < end; i += CN_RUN) {
            const bool inner = i % CN_BLOCK;
            const cn_state own = cn_scan_run(call, l, i, inner || outer, carry);
            runs = inner ? cn_join(runs, own) : own;
            carry = outer ? cn_join(blocks, runs) : runs;
            if ((i + CN_RUN) % CN_BLOCK == 0) {
                blocks = carry;
                outer = true;
            }
        }
    }
}

#endif
