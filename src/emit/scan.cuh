/* scan.cuh - running sums, products, extremes with their places, and logarithmic sums, on an
 * NVIDIA GPU, in the order of num/order.h.
 *
 * Follows move.cuh.  CN_ITEM is the type of elements, CN_OP one of the numbers below.  In lines
 * of adjacent elements a thread has a run of 16, and a block of threads a tile of 4,096: a run
 * of the third level.  Where lines are few and long, each tile has a block of threads of its
 * own, which adds up the totals that the tiles before it have published.  In other lines a
 * thread goes along a line, or along a block of it. */
#ifndef CR_EMIT_SCAN_CUH
#define CR_EMIT_SCAN_CUH

#include "emit/move.cuh"

#define CN_ADD   0
#define CN_MUL   1
#define CN_ABOVE 2
#define CN_BELOW 3
#define CN_LOG   4

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
#if CN_OP == CN_LOG
/* most + log(1 + rest): a join takes one exponential, and an element one logarithm.  `most` is
 * an element. */
template <int bytes> struct cn_top {
    typedef float type;
};
template <> struct cn_top<8> {
    typedef double type;
};
struct cn_log {
    cn_top<sizeof(CN_ITEM)>::type most;
    double rest;
};
typedef cn_log cn_real;
#else
typedef double cn_real;
#endif
CN_WIDEN(cm_f16, cn_real)
CN_WIDEN(cm_bf16, cn_real)
CN_WIDEN(cm_f32, cn_real)
CN_WIDEN(cm_f64, cn_real)
CN_WIDEN(cm_c64, cm_c128)
CN_WIDEN(cm_c128, cm_c128)
typedef cn_wide<CN_ITEM>::type cn_state;
typedef unsigned long long cn_whole;

template <class T> CV_FN cn_whole cn_widen(T x, cn_whole)
{
    return (cn_whole)cm_to64(cm_real(x));
}
template <class T> CV_FN double cn_widen(T x, double) { return (double)cm_real(x); }
#if CN_OP == CN_LOG
template <class T> CV_FN cn_log cn_widen(T x, cn_log)
{
    return {(cn_top<sizeof(CN_ITEM)>::type)cm_real(x), 0};
}
CV_FN float cn_log1p(float x) { return __builtin_log1pf(x); }
CV_FN double cn_log1p(double x) { return __builtin_log1p(x); }
CV_FN CN_ITEM cn_narrow(cn_log s)
{
    return cm_to<CN_ITEM>::of((double)s.most + cn_log1p((cn_top<sizeof(CN_ITEM)>::type)s.rest));
}
#endif
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
/* The rounding of an exponential of float32 is that of its result. */
CV_FN double cn_exp(float x) { return __builtin_expf(x); }
CV_FN double cn_exp(double x) { return __builtin_exp(x); }
/* Equal infinities must not be subtracted. */
template <class R> CV_FN R cn_less(R low, R high) { return low == high ? 0 : low - high; }
CV_FN cn_log cn_join(cn_log a, cn_log b)
{
    const cn_log low = a.most < b.most ? a : b, high = a.most < b.most ? b : a;

    if (a.most != a.most || b.most != b.most)
        return {a.most + b.most, 0};
    return {high.most, high.rest + (low.rest + 1) * cn_exp(cn_less(low.most, high.most))};
}
#ifndef __CUDACC_RTC__
extern "C" double cos(double), sin(double), hypot(double, double), atan2(double, double);
#endif
/* log(exp(a) + exp(b)) of complex numbers, whose real parts are compared. */
CV_FN cm_c128 cn_exp(cm_c128 x)
{
    const double r = __builtin_exp(x.re);

    if (r == 0)
        return {0, 0};
    return {x.im == 0 ? r : r * cos(x.im), x.im == 0 ? x.im : r * sin(x.im)};
}
CV_FN cm_c128 cn_ln(cm_c128 x) { return {__builtin_log(hypot(x.re, x.im)), atan2(x.im, x.re)}; }
CV_SLOW cm_c128 cn_join(cm_c128 a, cm_c128 b)
{
    const cm_c128 low = b.re < a.re ? b : a, high = b.re < a.re ? a : b;

    if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im)
        return {__builtin_nan(""), __builtin_nan("")};
    if (low.re == high.re && low.re - high.re != 0) {
        const cm_c128 x = cn_exp(low), y = cn_exp(high);
        return low.re < 0 ? low : cn_ln({x.re + y.re, x.im + y.im});
    }
    const cm_c128 less = cn_exp({low.re - high.re, low.im - high.im});
    const cm_c128 more = cn_ln({1 + less.re, less.im});
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

enum { CN_BITS = 4, CN_RUN = 1 << CN_BITS, CN_BLOCK = CN_RUN * CN_RUN, CN_DIMS = 8 };
enum { CN_THREADS = CN_BLOCK, CN_TILE = CN_BLOCK * CN_RUN, CN_LEVELS = 14 };
typedef unsigned long long cn_word;

/* Steps are in bytes, those along a line apart.  `words` of adjacent elements: for each line,
 * `published` totals: those of its `parts` tiles, of its runs of 16 tiles, and so on, all zero
 * until they are written; `next` says which tile has no block yet.  `totals` of other elements:
 * a total for each part, a block, of each line, [parts, lines]. */
struct cn_call {
    char *to, *index;
    const char *from;
    cn_state *totals;
    cn_word *words;
    int *next;
    cm_i64 published, lines, n, parts, to_step, index_step, from_step;
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

/* What is before a part of a line, if `is`. */
struct cn_carry {
    cn_state all;
    bool is;
};
CV_FN void cn_add(cn_carry *c, cn_state x)
{
    c->all = c->is ? cn_join(c->all, x) : x;
    c->is = true;
}

/* After run `n` of a line's runs of one length, whose total is given: level[k] is the fold of
 * those of 16^k of these runs that are not part of a longer run yet.  Returns the fold of
 * all. */
CV_FN cn_carry cn_push(cn_state *level, cm_i64 n, cn_state total)
{
    cm_i64 full = n, all = n + 1;
    cn_carry c;
    int k = 0;

    level[0] = full % CN_RUN ? cn_join(level[0], total) : total;
    for (; full % CN_RUN == CN_RUN - 1; k++) {
        full /= CN_RUN;
        level[k + 1] = full % CN_RUN ? cn_join(level[k + 1], level[k]) : level[k];
    }
    for (k = 0; all >= CN_RUN; k++)
        all /= CN_RUN;
    c.is = false;
    for (; k >= 0; k--)
        if ((n + 1) >> k * CN_BITS & (CN_RUN - 1))
            cn_add(&c, level[k]);
    return c;
}

/* --- lines of adjacent elements: a block of threads has a tile --- */

/* Elements pass through shared memory in parts of at most eight bytes, so that threads read and
 * write neighbouring memory; threads use neighbouring runs of shared memory in different
 * banks. */
enum { CN_PARTS = sizeof(CN_ITEM) > 8 ? 2 : 1, CN_ROOM = CN_TILE + CN_THREADS };
template <int parts> struct cn_split {
    typedef CN_ITEM type;
};
template <> struct cn_split<2> {
    typedef cm_i64 type;
};
typedef cn_split<CN_PARTS>::type cn_part;
union cn_room {
    cn_part part[CN_ROOM];
    cm_i64 place[CN_KEEPS ? CN_ROOM : 1];
};
CV_FN int cn_at(int i) { return i + i / CN_RUN; }
CV_FN int cn_at_own(int i) { return ck_x() * (CN_RUN + 1) + i; }
CV_FN int cn_near(int r) { return r * CN_THREADS + ck_x(); }

/* The run of a thread: `count` elements, of which the first is element `first` of the line.
 * Elements of one part stay in shared memory, so that a thread needs few registers while it
 * waits for totals. */
struct cn_own {
    cn_part part[CN_PARTS > 1 ? CN_RUN : 1][CN_PARTS];
    cm_i64 place[CN_KEEPS ? CN_RUN : 1];
    cm_i64 first;
    int count;
};
CV_FN cn_state cn_own_at(const cn_room &room, const cn_own &own, int i)
{
    CN_ITEM x;

    if (CN_PARTS > 1)
        __builtin_memcpy(&x, own.part[CN_PARTS > 1 ? i : 0], sizeof x);
    else
        __builtin_memcpy(&x, &room.part[cn_at_own(i)], sizeof x);
    return cn_of(x, own.first + i);
}
CV_FN void cn_own_put(cn_room &room, cn_own &own, int i, CN_ITEM x)
{
    if (CN_PARTS > 1)
        __builtin_memcpy(own.part[CN_PARTS > 1 ? i : 0], &x, sizeof x);
    else
        __builtin_memcpy(&room.part[cn_at_own(i)], &x, sizeof x);
}

/* Reads the tile before any of it is stored. */
template <bool full>
CV_FN void cn_load(const char *from, cm_i64 first, int count, cn_room &room, cn_own &own)
{
    const cn_part *const at =
        (const cn_part *)(from + (first + ck_x()) * (cm_i64)sizeof(CN_ITEM));
    const int left = count - ck_x() * CN_RUN;

    own.first = first + ck_x() * CN_RUN;
    own.count = left < 0 ? 0 : left < CN_RUN ? left : (int)CN_RUN;
    CV_ALL
    for (int p = 0; p < CN_PARTS; p++) {
        cn_part x[CN_RUN];
        CV_ALL
        for (int r = 0; r < CN_RUN; r++)
            if (full || cn_near(r) < count)
                x[r] = at[r * CN_THREADS * CN_PARTS + p];
        __syncthreads();
        CV_ALL
        for (int r = 0; r < CN_RUN; r++)
            if (full || cn_near(r) < count)
                room.part[cn_at(cn_near(r))] = x[r];
        __syncthreads();
        CV_ALL
        for (int i = 0; i < CN_RUN && CN_PARTS > 1; i++)
            if (full || i < own.count)
                own.part[i][p] = room.part[cn_at_own(i)];
    }
}

template <bool full>
CV_FN void cn_store(char *to, cm_i64 first, int count, cn_room &room, const cn_own &own)
{
    cn_part *const at = (cn_part *)(to + (first + ck_x()) * (cm_i64)sizeof(CN_ITEM));

    CV_ALL
    for (int p = 0; p < CN_PARTS; p++) {
        if (CN_PARTS > 1)
            __syncthreads();
        CV_ALL
        for (int i = 0; i < CN_RUN && CN_PARTS > 1; i++)
            if (full || i < own.count)
                room.part[cn_at_own(i)] = own.part[i][p];
        __syncthreads();
        CV_ALL
        for (int r = 0; r < CN_RUN; r++)
            if (full || cn_near(r) < count)
                at[r * CN_THREADS * CN_PARTS + p] = room.part[cn_at(cn_near(r))];
    }
}

CV_FN void cn_store_places(char *to, cm_i64 step, int count, cn_room &room, const cn_own &own)
{
    __syncthreads();
    CV_ALL
    for (int i = 0; i < CN_RUN; i++)
        if (i < own.count)
            room.place[cn_at_own(i)] = own.place[CN_KEEPS ? i : 0];
    __syncthreads();
    CV_ALL
    for (int r = 0; r < CN_RUN; r++)
        if (cn_near(r) < count)
            *(cm_i64 *)(to + cn_near(r) * step) = room.place[cn_at(cn_near(r))];
}

#if CN_OP == CN_LOG
/* The maximum first: then exponentials do not wait for each other. */
template <bool full, class S> CV_FN S cn_fold_most(const cn_room &room, const cn_own &own, S)
{
    S all = cn_own_at(room, own, 0);
    double sum = 0;

    CV_ALL
    for (int i = 1; i < CN_RUN; i++)
        if (full || i < own.count) {
            const S x = cn_own_at(room, own, i);
            all.most = x.most > all.most || x.most != x.most ? x.most : all.most;
        }
    CV_ALL
    for (int i = 0; i < CN_RUN; i++)
        if (full || i < own.count) {
            const S x = cn_own_at(room, own, i);
            sum += cn_exp(cn_less(x.most, all.most));
        }
    all.rest = sum - 1;
    return all;
}
template <bool full> CV_FN cn_log cn_fold(const cn_room &room, const cn_own &own, cn_log none)
{
    return cn_fold_most<full>(room, own, none);
}
#endif
template <bool full, class S> CV_FN S cn_fold(const cn_room &room, const cn_own &own, S)
{
    S sum = cn_own_at(room, own, 0);

    CV_ALL
    for (int i = 1; i < CN_RUN; i++)
        if (full || i < own.count)
            sum = cn_join(sum, cn_own_at(room, own, i));
    return sum;
}
template <bool full> CV_FN cn_state cn_total(const cn_room &room, const cn_own &own)
{
    return cn_fold<full>(room, own, cn_state());
}

/* The elements become the values of the scan. */
template <bool full> CV_FN void cn_scan(cn_room &room, cn_own &own, const cn_carry &before)
{
    cn_state sum;

    CV_ALL
    for (int i = 0; i < CN_RUN; i++) {
        if (!full && i >= own.count)
            continue;
        const cn_state x = cn_own_at(room, own, i);
        if (CN_OP == CN_LOG) /* an exponential less */
            sum = i || before.is ? cn_join(i ? sum : before.all, x) : x;
        else
            sum = i ? cn_join(sum, x) : x;
        const cn_state s = before.is && CN_OP != CN_LOG ? cn_join(before.all, sum) : sum;
        cn_own_put(room, own, i, cn_item(s));
        own.place[CN_KEEPS ? i : 0] = cn_place(s);
    }
}

/* What is before the thread's run in its tile: in its block of runs, and in the blocks
 * before. */
struct cn_inside {
    cn_state inner, outer;
};

/* In a tile of `runs` runs; the thread's run has the total `own`.  *all: the tile's total, in
 * the thread of its last run. */
CV_FN cn_inside cn_inside_of(cn_state own, int runs, cn_state *all)
{
    CK_SHARED cn_state run[CN_THREADS], block[CN_RUN];
    const int of_block = ck_x() % CN_RUN, b = ck_x() / CN_RUN;
    cn_inside in;

    if (ck_x() < runs)
        run[ck_x()] = own;
    __syncthreads();
    in.inner = run[b * CN_RUN];
    CV_ALL
    for (int k = 1; k < CN_RUN - 1; k++)
        if (k < of_block)
            in.inner = cn_join(in.inner, run[b * CN_RUN + k]);
    const cn_state whole = of_block ? cn_join(in.inner, own) : own;
    if (ck_x() < runs && (of_block == CN_RUN - 1 || ck_x() == runs - 1))
        block[b] = whole;
    __syncthreads();
    in.outer = block[0];
    CV_ALL
    for (int k = 1; k < CN_RUN - 1; k++)
        if (k < b)
            in.outer = cn_join(in.outer, block[k]);
    *all = b ? cn_join(in.outer, whole) : whole;
    return in;
}

/* What is before the thread's run; `c`: what is before its tile. */
CV_FN cn_carry cn_before(cn_carry c, const cn_inside &in)
{
    if (ck_x() / CN_RUN)
        cn_add(&c, in.outer);
    if (ck_x() % CN_RUN)
        cn_add(&c, in.inner);
    return c;
}

CV_FN int cn_runs(int count) { return (count + CN_RUN - 1) / CN_RUN; }
CV_FN int cn_tile_count(cm_i64 left) { return left < CN_TILE ? (int)left : (int)CN_TILE; }

/* So many blocks run at once that others read while one waits: a thread has fewer registers. */
#define CN_MANY                                                                                \
    CN_THREADS, sizeof(CN_ITEM) > 4 ? 2 : CN_OP == CN_LOG ? 3 : sizeof(cn_state) > 8 ? 2 : 4
template <bool full>
CV_FN cn_inside cn_read(const cn_line &l, cm_i64 first, int count, cn_room &room, cn_own &own,
                        cn_state *all)
{
    cn_load<full>(l.from, first, count, room, own);
    return cn_inside_of(cn_total<full>(room, own), cn_runs(count), all);
}

template <bool full>
CV_FN void cn_write(const cn_call &call, const cn_line &l, cm_i64 first, int count,
                    const cn_carry &base, const cn_inside &in, cn_room &room, cn_own &own)
{
    cn_scan<full>(room, own, cn_before(base, in));
    cn_store<full>(l.to, first, count, room, own);
    if (CN_KEEPS)
        cn_store_places(l.index + first * call.index_step, call.index_step, count, room, own);
}

/* --- few long lines: a tile has a block of threads --- */

/* The totals of the level's runs that end before tile `tile` and are in its run of the next
 * level; `number`: of the first of the line's totals of the level. */
struct cn_level {
    cm_i64 number;
    int runs;
};
CV_FN cn_level cn_level_of(const cn_call &c, cm_i64 line, cm_i64 tile, int level)
{
    cm_i64 number = line * c.published;

    for (int k = 0; k < level; k++)
        number += c.parts >> k * CN_BITS;
    const cm_i64 run = tile >> level * CN_BITS;
    return {number + run, (int)(run & (CN_RUN - 1))};
}

/* A total is published in words that have 32 of its bits and a one, so that a wait is over
 * when the words have been read: no word says that others are there. */
enum { CN_WORDS = sizeof(cn_state) / 4 };

CV_FN void cn_publish(const cn_call &c, cm_i64 number, const cn_state &total)
{
    unsigned part[CN_WORDS];

    __builtin_memcpy(part, &total, sizeof part);
    CV_ALL
    for (int w = 0; w < CN_WORDS; w++)
        ck_publish(&c.words[number * CN_WORDS + w], (cn_word)part[w] << 32 | 1);
}

/* A lane waits for one of the totals of a level, and copies it. */
CV_FN void cn_wait(const cn_call &c, cm_i64 line, cm_i64 tile, int level, cn_state *to)
{
    const cn_level l = cn_level_of(c, line, tile, level);
    const int lane = ck_x() % 32;
    const cn_word *const at = &c.words[(l.number - l.runs + lane) * CN_WORDS];
    unsigned part[CN_WORDS];

    if (lane >= l.runs)
        return;
    for (bool is = false; !is;) {
        is = true;
        CV_ALL
        for (int w = 0; w < CN_WORDS; w++) {
            const cn_word word = ck_published(&at[w]);
            is = is && (word & 1);
            part[w] = (unsigned)(word >> 32);
        }
    }
    __builtin_memcpy(&to[lane], part, sizeof part);
}

CV_FN int cn_digit(cm_i64 tile, int level)
{
    return (int)(tile >> level * CN_BITS) & (CN_RUN - 1);
}

CV_FN cn_state cn_fold_of(const cn_state *some, int n)
{
    cn_state sum = some[0];

    CV_ALL
    for (int k = 1; k < CN_RUN - 1; k++)
        if (k < n)
            sum = cn_join(sum, some[k]);
    return sum;
}

/* Tiles are at most 2^30, so that there is a warp for each level. */
enum { CN_WAITS = CN_THREADS / 32 };

/* After the tile's total was published: a warp sets some[level][0] to what is before the tile
 * in its run of level + 1.  The first warp publishes the totals of longer runs that end with
 * the tile, each when those of its own runs are there: so they do not wait for what is before
 * these runs.  Blocks take tiles in order, so the tiles before are those of blocks that run or
 * have ended. */
CV_FN void cn_look_back(const cn_call &c, cm_i64 line, cm_i64 tile, cn_state total,
                        cn_state (*some)[CN_RUN])
{
    CK_SHARED cn_state longer[CN_RUN];
    const int level = ck_x() / 32, lane = ck_x() % 32, n = cn_digit(tile, level);
    cn_state sum;

    if (!n)
        return;
    cn_wait(c, line, tile, level, some[level]);
    CK_SYNC_WARP_();
    if (!lane)
        some[level][0] = sum = cn_fold_of(some[level], n);
    for (int k = 0; !level && cn_digit(tile, k) == CN_RUN - 1; k++) {
        if (k)
            cn_wait(c, line, tile, k, longer);
        CK_SYNC_WARP_();
        if (!lane) {
            total = cn_join(k ? cn_fold_of(longer, CN_RUN - 1) : sum, total);
            cn_publish(c, cn_level_of(c, line, tile, k + 1).number, total);
        }
        CK_SYNC_WARP_();
    }
}

#define CN_WAITING                                                                             \
    CN_THREADS, sizeof(CN_ITEM) > 4 ? 3 : CN_OP == CN_LOG ? 5 : sizeof(cn_state) > 8 ? 3 : 6
CK_KERNEL_OF(CN_WAITING, cn_tiles, cn_call)
{
    CK_SHARED cn_room room;
    CK_SHARED cn_state last, some[CN_WAITS][CN_RUN];
    CK_SHARED int taken;
    cn_carry base;
    cn_inside in;
    cn_state all;
    cn_own own;

    if (!ck_x())
        taken = CK_ATOMIC_ADD_(call.next, 1);
    __syncthreads();
    const int line = taken / (int)call.parts, tile = taken - line * (int)call.parts;
    const cm_i64 first = (cm_i64)tile * CN_TILE;
    const int count = cn_tile_count(call.n - first);
    const cn_line l = cn_line_of(call, line);
    if (count == CN_TILE)
        in = cn_read<true>(l, first, count, room, own, &all);
    else
        in = cn_read<false>(l, first, count, room, own, &all);
    if (ck_x() == cn_runs(count) - 1) {
        last = all;
        cn_publish(call, cn_level_of(call, line, tile, 0).number, all);
    }
    __syncthreads();
    cn_look_back(call, line, tile, last, some);
    __syncthreads();
    base.is = false;
    for (int k = CN_WAITS - 1; k >= 0; k--)
        if (cn_digit(tile, k))
            cn_add(&base, some[k][0]);
    if (count == CN_TILE)
        cn_write<true>(call, l, first, count, base, in, room, own);
    else
        cn_write<false>(call, l, first, count, base, in, room, own);
}

/* --- other lines of adjacent elements --- */

/* The tile that begins with element `first`; returns its total, in the thread of its last
 * run. */
template <bool full>
CV_FN cn_state cn_tile(const cn_call &call, const cn_line &l, cm_i64 first, int count,
                       const cn_carry &base, cn_room &room)
{
    cn_state all;
    cn_own own;
    const cn_inside in = cn_read<full>(l, first, count, room, own, &all);

    cn_write<full>(call, l, first, count, base, in, room, own);
    return all;
}

/* A block of threads has a line. */
CK_KERNEL_OF(CN_MANY, cn_rows, cn_call)
{
    CK_SHARED cn_room room;
    CK_SHARED cn_state level[CN_LEVELS];
    CK_SHARED cn_carry next;
    const cm_i64 tiles = (call.n + CN_TILE - 1) / CN_TILE;

    for (cm_i64 line = CK_BLOCK_(x); line < call.lines; line += CK_BLOCKS_(x)) {
        const cn_line l = cn_line_of(call, line);
        cn_carry base;
        base.is = false;
        for (cm_i64 tile = 0; tile < tiles; tile++) {
            const cm_i64 first = tile * CN_TILE;
            const int count = cn_tile_count(call.n - first);
            const cn_state all = count == CN_TILE
                                     ? cn_tile<true>(call, l, first, count, base, room)
                                     : cn_tile<false>(call, l, first, count, base, room);
            if (tile + 1 == tiles)
                continue;
            if (ck_x() == CN_THREADS - 1)
                next = cn_push(level, tile, all);
            __syncthreads();
            base = next;
        }
    }
}

/* Lines of at most a block: a block of threads has as many as it has runs for. */
enum {
    CN_SHORT_THREADS = sizeof(CN_ITEM) + 8 * CN_KEEPS > 8 ? 128 : 256,
    CN_SHORT_ROOM = CN_SHORT_THREADS * (CN_RUN + 1)
};
CK_KERNEL_OF(CN_SHORT_THREADS, cn_short, cn_call)
{
    CK_SHARED CN_ITEM item[CN_SHORT_ROOM];
    CK_SHARED cm_i64 place[CN_KEEPS ? CN_SHORT_ROOM : 1];
    CK_SHARED cn_state run[CN_SHORT_THREADS];
    const unsigned n = (unsigned)call.n, runs = (n + CN_RUN - 1) / CN_RUN;
    const unsigned most = CN_SHORT_THREADS / runs, mine = ck_x() % runs;

    for (cm_i64 u = (cm_i64)CK_BLOCK_(x) * most; u < call.lines;
         u += (cm_i64)CK_BLOCKS_(x) * most) {
        const unsigned lines = call.lines - u < most ? (unsigned)(call.lines - u) : most;
        for (unsigned k = ck_x(); k < lines * n; k += CN_SHORT_THREADS) {
            const unsigned l = k / n, i = k - l * n;
            item[cn_at(l * runs * CN_RUN + i)] =
                *(const CN_ITEM *)(cn_line_of(call, u + l).from + i * call.from_step);
        }
        __syncthreads();
        const unsigned begin = mine * CN_RUN, end = begin + CN_RUN < n ? begin + CN_RUN : n;
        const int count = ck_x() < (int)(lines * runs) ? (int)(end - begin) : 0;
        CN_ITEM *const own = item + cn_at_own(0);
        cn_carry total, before;
        total.is = before.is = false;
        for (int i = 0; i < count; i++)
            cn_add(&total, cn_of(own[i], begin + i));
        if (count)
            run[ck_x()] = total.all;
        __syncthreads();
        for (unsigned k = 0; k < mine && count; k++)
            cn_add(&before, run[ck_x() - mine + k]);
        total.is = false;
        for (int i = 0; i < count; i++) {
            cn_add(&total, cn_of(own[i], begin + i));
            const cn_state s = before.is ? cn_join(before.all, total.all) : total.all;
            own[i] = cn_item(s);
            if (CN_KEEPS)
                place[cn_at_own(i)] = cn_place(s);
        }
        __syncthreads();
        for (unsigned k = ck_x(); k < lines * n; k += CN_SHORT_THREADS) {
            const unsigned l = k / n, i = k - l * n;
            const cn_line line = cn_line_of(call, u + l);
            const int at = cn_at(l * runs * CN_RUN + i);
            *(CN_ITEM *)(line.to + i * call.to_step) = item[at];
            if (CN_KEEPS)
                *(cm_i64 *)(line.index + i * call.index_step) = place[at];
        }
        __syncthreads();
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
    for (cm_i64 u = ck_first_x(); u < call.lines * call.parts; u += ck_step_x()) {
        const cm_i64 b = u / call.lines;
        const cn_line l = cn_line_of(call, u - b * call.lines);
        const cm_i64 first = b * CN_BLOCK, end = cn_least(first + CN_BLOCK, call.n);
        cn_state runs = cn_fold_run(call, cn_load_run(call, l, first), first);
        for (cm_i64 i = first + CN_RUN; i < end; i += CN_RUN)
            runs = cn_join(runs, cn_fold_run(call, cn_load_run(call, l, i), i));
        call.totals[u] = runs;
    }
}

/* Each block's total becomes the value before it. */
CK_KERNEL(cn_chain_columns, cn_call)
{
    for (cm_i64 line = ck_first_x(); line < call.lines; line += ck_step_x()) {
        cn_state level[CN_LEVELS], next = call.totals[line];
        for (cm_i64 b = 1; b < call.parts; b++) {
            cn_state *const at = &call.totals[b * call.lines + line];
            const cn_carry before = cn_push(level, b - 1, next);
            next = *at;
            *at = before.all;
        }
    }
}

CK_KERNEL(cn_columns, cn_call)
{
    const cm_i64 parts = call.totals ? call.parts : 1;

    for (cm_i64 u = ck_first_x(); u < call.lines * parts; u += ck_step_x()) {
        const cm_i64 part = u / call.lines, line = u - part * call.lines;
        const cn_line l = cn_line_of(call, line);
        const cm_i64 end = call.totals ? cn_least((part + 1) * CN_BLOCK, call.n) : call.n;
        cn_state level[CN_LEVELS], runs;
        cn_carry before, carry;
        before.is = part > 0;
        if (before.is)
            before.all = call.totals[u];
        carry = before;
        for (cm_i64 i = part * CN_BLOCK; i < end; i += CN_RUN) {
            const bool inner = i % CN_BLOCK;
            const cn_state own = cn_scan_run(call, l, i, carry.is, carry.all);
            runs = inner ? cn_join(runs, own) : own;
            if ((i + CN_RUN) % CN_BLOCK == 0 && !call.totals) {
                carry = before = cn_push(level, i / CN_BLOCK, runs);
                continue;
            }
            carry = before;
            cn_add(&carry, runs);
        }
    }
}

#endif
