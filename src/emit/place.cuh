/* place.cuh - elements at computed places on an NVIDIA GPU (cr_indexed of cresset_backend.h).
 *
 * Follows move.cuh.  Reading is one launch.  For writes that set elements, a first launch notes
 * the last element of each place.  Writes that combine elements are sorted first (sort.cuh): an
 * entry's key has its destination in the high bits and its number in the low ones.  The entries
 * of a destination then follow each other in index order, and are folded in the order of
 * num/order.h: a thread folds a block of 64 entries, and, where a destination has several
 * blocks, a thread of a second launch folds their results.
 *
 * Where no dims but those of entries are left, and destinations have few entries each, entries
 * are not sorted: a first launch puts them, with their elements, into buckets of neighbouring
 * destinations, in any order.  A block of threads of a second launch has a bucket in shared
 * memory, where the place of an entry is the number of those of its destination that have lower
 * numbers.  Entries with columns of elements are dealt to smaller buckets as numbers alone.  A
 * bucket that is too small for its entries is noted, and then, and only then, a last launch
 * (cp_rest) sorts and folds them all.
 *
 * Sums of integers are the same in any order: their entries are added by atomic operations.
 *
 * CP_HOW is one of the numbers below, CP_ITEM the type of elements.  CP_IN_ORDER: entries are
 * combined one by one, those of a destination by one thread.  CP_ATOMIC: the text has sums of
 * integers.  CP_LANES: a column of `cp_fold` is so many adjacent elements.  CP_FLAT: entries
 * have one dim.  CP_PACKED: entries of buckets are words; 2: a destination's are put in order
 * by one thread.  CP_NEAR: the buckets of a tile of cp_stage are neighbours.  CP_REST: the text
 * follows sort.cuh and has cp_rest. */
#ifndef CR_EMIT_PLACE_CUH
#define CR_EMIT_PLACE_CUH

#include "emit/move.cuh"

#define CP_ADD    1
#define CP_MUL    2
#define CP_MIN    3
#define CP_MAX    4
#define CP_DIVIDE 5

typedef unsigned long long cp_key;

/* The argument of all kernels.  Steps are in bytes.  Entries have the first list of dims; a
 * fold has a second list, along which neither index nor destination depends on entries. */
struct cp_call {
    char *dense, *table; /* dense NULL: `value` */
    const char *index;   /* NULL without */
    cp_key *late, *owner, *keys;
    cp_key number;
    cm_i64 n, ndim, size[CM_DIMS], dense_step[CM_DIMS], table_step[CM_DIMS],
        index_step[CM_DIMS];
    cm_i64 columns, cdim, csize[CM_DIMS], cdense_step[CM_DIMS], ctable_step[CM_DIMS];
    cm_i64 numbered, nsize[CM_DIMS], nstep[CM_DIMS]; /* dims of the array, or -1 */
    cm_i64 unit, extent, item, grain; /* grain: destinations are multiples of so many bytes */
    cm_i64 *heads;                    /* of windows of 64 keys: the first of several blocks */
    cm_i64 *blocks, *list;            /* how many blocks there are, and their first keys */
    void *parts;                      /* results of these blocks, for each column */
    /* Buckets: `room` entries each, those of 1 << low destinations.  `held`: how many each has,
     * CP_APART words apart, and then whether one has too many. */
    char *elements;
    int *held;
    cm_i64 number_step[CM_DIMS]; /* of entries, which are not numbered in the order of dims */
    int buckets, room, low;
    int is32, wraps, shift;
    /* `lined`: destinations are numbered line by line, a line has `extent` of them, `line_unit`
     * bytes apart; else by bytes. */
    int lined;
    cm_i64 ldim, lsize[CM_DIMS], lstep[CM_DIMS], line_unit;
    /* Tiles of cp_stage: 1 << `wide` elements of each of several rows of `fast` entries, which
     * `groups` tiles share. */
    int wide, groups, fast, stage_rows;
    cm_i64 spread;               /* how many destinations there are */
    cm_divisor divisor[CM_DIMS]; /* of readings: sizes */
    char value[16] __attribute__((aligned(16)));
};

/* Counters that all blocks add to are in lines of memory of their own, because a line takes one
 * addition after the other. */
enum { CP_APART = 32 };
CV_FN int *cp_held(const cp_call &c, int bucket) { return c.held + bucket * CP_APART; }
/* Whether a bucket had too many entries. */
CV_FN int *cp_full(const cp_call &c) { return cp_held(c, c.buckets); }

/* The offset of element `at` of the array whose elements indices number. */
CV_FN cm_i64 cp_numbered(const cp_call &c, cm_i64 at)
{
    cm_i64 offset = 0;

    for (int d = (int)c.numbered - 1; d >= 0; d--) {
        const cm_i64 next = d ? at / c.nsize[d] : 0;
        offset += (at - next * c.nsize[d]) * c.nstep[d];
        at = next;
    }
    return offset;
}

/* The offsets of an entry in `dense`, in `table` without its index, and in `index`; its number,
 * if that is not the place in the order of dims. */
struct cp_offsets {
    cm_i64 dense, table, index, number;
};
template <bool numbers, class I> CV_FN cp_offsets cp_offsets_in(const cp_call &c, I i, int dims)
{
    cp_offsets o = {0, 0, 0, 0};

    CV_LOOP
    for (int d = dims - 1; d >= 0; d--) {
        I next = d ? i / (I)c.size[d] : 0, k = i - next * (I)c.size[d];
        o.dense += (cm_i64)k * c.dense_step[d];
        o.table += (cm_i64)k * c.table_step[d];
        o.index += (cm_i64)k * c.index_step[d];
        if (numbers)
            o.number += (cm_i64)k * c.number_step[d];
        i = next;
    }
    return o;
}

template <bool numbers, class I> CV_FN cp_offsets cp_offsets_of(const cp_call &c, I i)
{
    return cp_offsets_in<numbers>(c, i, (int)c.ndim);
}

CV_FN cm_i64 cp_index(const cp_call &c, cm_i64 offset)
{
    return c.is32 ? *(const int *)(c.index + offset) : *(const cm_i64 *)(c.index + offset);
}

/* Adds the offset of index `at`; false if it is out of range. */
CV_FN bool cp_add_index(const cp_call &c, cm_i64 at, cm_i64 *table)
{
    const cm_i64 inside = at < 0 && c.wraps ? at + c.extent : at;

    if (inside >= 0 && inside < c.extent) {
        *table += c.numbered < 0 ? inside * c.unit : cp_numbered(c, inside);
        return true;
    }
    *c.late = c.number | ((cp_key)at & 0xffffffffffffULL);
    return false;
}

/* The offsets of entry i in `dense` and `table`; false if its index is out of range. */
template <class I> CV_FN bool cp_find(const cp_call &c, I i, cm_i64 *dense, cm_i64 *table)
{
    const cp_offsets o = cp_offsets_of<false>(c, i);

    *dense = o.dense;
    *table = o.table;
    return !c.index || cp_add_index(c, cp_index(c, o.index), table);
}

CV_FN bool cp_find_any(const cp_call &c, cm_i64 i, cm_i64 *dense, cm_i64 *table)
{
    return c.n <= 0x7fffffff ? cp_find(c, (unsigned)i, dense, table)
                             : cp_find(c, i, dense, table);
}

#define CP_EACH(text)                                                                          \
    for (cm_i64 i = ck_first_x(); i < call.n; i += ck_step_x()) {                              \
        cm_i64 dense, table;                                                                   \
        const bool inside = cp_find_any(call, i, &dense, &table);                              \
        text;                                                                                  \
    }

/* An entry outside has the highest destination. */
CV_FN void cp_make_keys(const cp_call &call, cp_key *keys)
{
    CP_EACH(keys[i] =
                (inside ? (cp_key)(table / call.grain) : ~(cp_key)0) << call.shift | (cp_key)i)
}

#ifndef CP_HOW
/* --- reading, and writes that set elements --- */

struct cp_pair8 {
    cm_i64 part[2];
};
template <class T> CV_FN T cp_zero(void) { return T(); }
enum { CP_READS = 2, CP_PICKS = 2, CP_PICKERS = 256 /* threads */ };

CK_KERNEL(cp_own, cp_call)
{
    CP_EACH(if (inside) CK_ATOMIC_MOST(&call.owner[table / call.grain], (cp_key)i + 1))
}

/* A thread finds several elements before it reads the first of them. */
template <class T> CV_FN void cp_read(const cp_call &call)
{
    const cm_i64 step = ck_step_x();

    for (cm_i64 first = ck_first_x(); first < call.n; first += CP_READS * step) {
        cm_i64 dense[CP_READS], table[CP_READS];
        bool inside[CP_READS];
        T x[CP_READS];
        CV_ALL
        for (int k = 0; k < CP_READS; k++)
            inside[k] = first + k * step < call.n &&
                        cp_find_any(call, first + k * step, &dense[k], &table[k]);
        CV_ALL
        for (int k = 0; k < CP_READS; k++)
            x[k] = inside[k] ? *(const T *)(call.table + table[k]) : cp_zero<T>();
        CV_ALL
        for (int k = 0; k < CP_READS; k++)
            if (first + k * step < call.n)
                *(T *)(call.dense + dense[k]) = x[k];
    }
}

/* --- reading from rows: up to two dims, fewer than 2^31 entries, an index of one dim --- */

CV_FN cp_offsets cp_pick_offsets(const cp_call &c, unsigned i)
{
    const unsigned row = c.ndim > 1 ? cm_quotient(i, c.divisor[1]) : i;
    const unsigned column = i - row * (unsigned)c.size[1];
    cp_offsets o = {row * c.dense_step[0], row * c.table_step[0], row * c.index_step[0], 0};

    if (c.ndim > 1) {
        o.dense += column * c.dense_step[1];
        o.table += column * c.table_step[1];
        o.index += column * c.index_step[1];
    }
    return o;
}

/* The element there, or zero. */
template <class T> CV_FN T cp_pick_one(const cp_call &c, cm_i64 at, cm_i64 table)
{
    const cm_i64 inside = at < 0 && c.wraps ? at + c.extent : at;

    if ((cp_key)inside < (cp_key)c.extent)
        return *(const T *)(c.table + table + inside * c.unit);
    *c.late = c.number | ((cp_key)at & 0xffffffffffffULL);
    return cp_zero<T>();
}

/* A block of threads reads tiles of neighbouring elements: a thread reads the indices of
 * several elements before it uses the first of them, and all elements before it writes one. */
template <class T> CV_FN void cp_pick(const cp_call &call)
{
    const unsigned wide = ck_wide(), n = (unsigned)call.n;

    for (unsigned first = CK_BLOCK_(x) * wide * CP_PICKS + ck_x(); first < n;
         first += CK_BLOCKS_(x) * wide * CP_PICKS) {
        cp_offsets o[CP_PICKS];
        cm_i64 at[CP_PICKS];
        T x[CP_PICKS];
        CV_ALL
        for (int k = 0; k < CP_PICKS; k++)
            if (first + k * wide < n) {
                o[k] = cp_pick_offsets(call, first + k * wide);
                at[k] = cp_index(call, o[k].index);
            }
        CV_ALL
        for (int k = 0; k < CP_PICKS; k++)
            if (first + k * wide < n)
                x[k] = cp_pick_one<T>(call, at[k], o[k].table);
        CV_ALL
        for (int k = 0; k < CP_PICKS; k++)
            if (first + k * wide < n)
                *(T *)(call.dense + o[k].dense) = x[k];
    }
}

/* An index out of range reads zero, and writes nothing.  Of the elements that are written to
 * one place, the last one owns it. */
#define CP_DEFINE(bytes, T)                                                                    \
    CK_KERNEL(cp_read##bytes, cp_call) { cp_read<T>(call); }                                   \
    CK_KERNEL_OF(CK_AT_ONCE(CP_PICKERS, 8), cp_pick##bytes, cp_call) { cp_pick<T>(call); }     \
    CK_KERNEL(cp_set##bytes, cp_call)                                                          \
    {                                                                                          \
        CP_EACH(if (inside && call.owner[table / call.grain] == (cp_key)i + 1) *               \
                    (T *)(call.table + table) =                                                \
                    *(const T *)(call.dense ? call.dense + dense : call.value))                \
    }
CP_DEFINE(1, unsigned char)
CP_DEFINE(2, unsigned short)
CP_DEFINE(4, unsigned)
CP_DEFINE(8, cm_i64)
CP_DEFINE(16, cp_pair8)

CK_KERNEL(cp_keys, cp_call) { cp_make_keys(call, call.keys); }
#else
/* --- arithmetic --- */

/* cell: of folds in order P; wide: of entries that are combined one by one. */
template <class T> struct cp_type {
    typedef cm_i64 cell, wide;
};
#define CP_DEFINE_TYPE(T, C, W)                                                                \
    template <> struct cp_type<T> {                                                            \
        typedef C cell;                                                                        \
        typedef W wide;                                                                        \
    };
CP_DEFINE_TYPE(cm_f16, float, float)
CP_DEFINE_TYPE(cm_bf16, float, float)
CP_DEFINE_TYPE(cm_f32, float, float)
CP_DEFINE_TYPE(cm_f64, double, double)
CP_DEFINE_TYPE(cm_c64, cm_c64, cm_c128)
CP_DEFINE_TYPE(cm_c128, cm_c128, cm_c128)
typedef cp_type<CP_ITEM>::cell cp_cell;
typedef cp_type<CP_ITEM>::wide cp_wide;

template <class T> struct cp_as {
    template <class F> __attribute__((device, always_inline)) static T of(F x)
    {
        return (T)cm_real(x);
    }
};
#define CP_DEFINE_AS(T)                                                                        \
    template <> struct cp_as<T> {                                                              \
        template <class F> __attribute__((device, always_inline)) static T of(F x)             \
        {                                                                                      \
            return cm_to<T>::of(x);                                                            \
        }                                                                                      \
    };
CP_DEFINE_AS(cm_c64)
CP_DEFINE_AS(cm_c128)

CV_FN float cp_add(float a, float b) { return a + b; }
CV_FN double cp_add(double a, double b) { return a + b; }
CV_FN cm_i64 cp_add(cm_i64 a, cm_i64 b) { return (cm_i64)((cp_key)a + (cp_key)b); }
CV_FN cm_c64 cp_add(cm_c64 a, cm_c64 b) { return cm_c64{a.re + b.re, a.im + b.im}; }
CV_FN cm_c128 cp_add(cm_c128 a, cm_c128 b) { return cm_c128{a.re + b.re, a.im + b.im}; }
CV_FN float cp_mul(float a, float b) { return a * b; }
CV_FN double cp_mul(double a, double b) { return a * b; }
CV_FN cm_i64 cp_mul(cm_i64 a, cm_i64 b) { return (cm_i64)((cp_key)a * (cp_key)b); }
CV_FN cm_c64 cp_mul(cm_c64 a, cm_c64 b)
{
    return cm_c64{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
CV_FN cm_c128 cp_mul(cm_c128 a, cm_c128 b)
{
    return cm_c128{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
CV_FN bool cp_signed(float x) { return ck_bits(x) >> 31; }
CV_FN bool cp_signed(double x)
{
    cm_i64 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits < 0;
}
CV_FN bool cp_signed(cm_i64) { return false; }
/* -0 is below +0. */
template <class T> CV_FN bool cp_below(T a, T b)
{
    return a < b || (a == b && cp_signed(a) && !cp_signed(b));
}
/* NaN wins over any number, and of equal values the present one stays. */
template <class T> CV_FN T cp_least(T a, T b) { return cp_below(b, a) || b != b ? b : a; }
template <class T> CV_FN T cp_most(T a, T b) { return cp_below(a, b) || b != b ? b : a; }
CV_FN cm_i64 cp_over(cm_i64 a, cm_i64 n) { return a / n - (a % n != 0 && a < 0); }
CV_FN float cp_over(float a, cm_i64 n) { return a / (float)n; }
CV_FN double cp_over(double a, cm_i64 n) { return a / (double)n; }
CV_FN cm_c128 cp_over(cm_c128 a, cm_i64 n)
{
    return cm_c128{a.re / (double)n, a.im / (double)n};
}

#if CP_HOW == CP_ADD
#define CP_OP   cp_add
#define CP_NONE -0.0, -0.0
#elif CP_HOW == CP_MUL
#define CP_OP   cp_mul
#define CP_NONE 1.0, 0.0
#elif CP_HOW == CP_MIN
#define CP_OP cp_least
#elif CP_HOW == CP_MAX
#define CP_OP cp_most
#elif CP_HOW == CP_DIVIDE
#define CP_OP cp_over
#endif

CV_FN const CP_ITEM *cp_value(const cp_call &c, cm_i64 dense)
{
    return (const CP_ITEM *)(c.dense ? c.dense + dense : c.value);
}

#if CP_HOW == CP_DIVIDE
/* The divisor is an int64; one below 2 changes nothing. */
CV_FN void cp_combine(CP_ITEM *to, const void *by)
{
    const cm_i64 n = *(const cm_i64 *)by;

    if (n > 1)
        *to = cm_to<CP_ITEM>::of(cp_over(cp_as<cp_wide>::of(*to), n));
}
#else
CV_FN void cp_combine(CP_ITEM *to, const CP_ITEM *x)
{
    *to = cm_to<CP_ITEM>::of(CP_OP(cp_as<cp_wide>::of(*to), cp_as<cp_wide>::of(*x)));
}
#endif

/* All places differ. */
CK_KERNEL(cp_each, cp_call)
{
    CP_EACH((void)inside; cp_combine((CP_ITEM *)(call.table + table), cp_value(call, dense)))
}

#ifdef CP_ATOMIC
/* --- sums of integers, which have no order --- */

CV_FN void cp_atomic(cm_i32 *to, cm_i32 x) { CK_ATOMIC_ADD_(to, x); }
CV_FN void cp_atomic(cm_i64 *to, cm_i64 x) { CK_ATOMIC_ADD_64_(to, x); }

CK_KERNEL(cp_sum, cp_call)
{
    CP_EACH(if (inside) cp_atomic((CP_ITEM *)(call.table + table), *cp_value(call, dense)))
}

/* For few destinations (`columns`): a block of threads has a sum for each. */
enum { CP_CELLS = 4096 };
CK_KERNEL_OF(256, cp_cells, cp_call)
{
    CK_SHARED CP_ITEM cell[CP_CELLS];

    for (int k = ck_x(); k < call.columns; k += ck_wide())
        cell[k] = 0;
    __syncthreads();
    CP_EACH(if (inside) cp_atomic(&cell[table / call.grain], *cp_value(call, dense)))
    __syncthreads();
    for (int k = ck_x(); k < call.columns; k += ck_wide())
        if (cell[k])
            cp_atomic((CP_ITEM *)(call.table + k * call.grain), cell[k]);
}
#endif

#if CP_HOW != CP_DIVIDE
/* --- folds of sorted entries --- */

/* Entry k's number, and whether it has the destination. */
CV_FN bool cp_has(const cp_call &c, cm_i64 k, cp_key dest)
{
    return k < c.n && c.keys[k] >> c.shift == dest;
}
CV_FN cm_i64 cp_entry(const cp_call &c, cm_i64 k)
{
    return (cm_i64)(c.keys[k] & (((cp_key)1 << c.shift) - 1));
}

CV_FN cm_i64 cp_dense(const cp_call &c, cm_i64 i)
{
    cm_i64 dense = 0;

    if (CP_FLAT)
        return i * c.dense_step[0];
    CV_LOOP
    for (int d = (int)c.ndim - 1; d >= 0; d--) {
        const cm_i64 next = d ? i / c.size[d] : 0;
        dense += (i - next * c.size[d]) * c.dense_step[d];
        i = next;
    }
    return dense;
}

CV_FN void cp_column(const cp_call &c, cm_i64 i, cm_i64 *dense, cm_i64 *table)
{
    *dense = *table = 0;
    CV_LOOP
    for (int d = (int)c.cdim - 1; d >= 0; d--) {
        const cm_i64 next = d ? i / c.csize[d] : 0, k = i - next * c.csize[d];
        *dense += k * c.cdense_step[d];
        *table += k * c.ctable_step[d];
        i = next;
    }
}

/* The key k's destination; false for entries outside. */
CV_FN bool cp_destination(const cp_call &c, cm_i64 k, cp_key *dest)
{
    *dest = c.keys[k] >> c.shift;
    return *dest != ~(cp_key)0 >> c.shift;
}

#if CP_IN_ORDER
CK_KERNEL(cp_fold, cp_call)
{
    for (cm_i64 i = ck_first_x(); i < call.n * call.columns; i += ck_step_x()) {
        cm_i64 k = i / call.columns, dense, table;
        cp_key dest;
        if (!cp_destination(call, k, &dest) || (k && cp_has(call, k - 1, dest)))
            continue;
        cp_column(call, i - k * call.columns, &dense, &table);
        for (; cp_has(call, k, dest); k++)
            cp_combine((CP_ITEM *)(call.table + (cm_i64)dest * call.grain + table),
                       cp_value(call, dense + cp_dense(call, cp_entry(call, k))));
    }
}
#else
enum { CP_BLOCK = 64, CP_BATCH = CP_FLAT ? 8 : 4 };

/* The columns of a thread: CP_LANES adjacent elements. */
struct alignas(CP_LANES * sizeof(CP_ITEM)) cp_vector {
    CP_ITEM item[CP_LANES];
};
struct cp_sums {
    cp_cell of[CP_LANES];
};

#ifdef CP_NONE
CV_FN cm_i64 cp_number(cm_i64 *, double re, double) { return (cm_i64)re; }
CV_FN float cp_number(float *, double re, double) { return (float)re; }
CV_FN double cp_number(double *, double re, double) { return re; }
CV_FN cm_c64 cp_number(cm_c64 *, double re, double im) { return cm_c64{(float)re, (float)im}; }
CV_FN cm_c128 cp_number(cm_c128 *, double re, double im) { return cm_c128{re, im}; }
CV_FN cp_cell cp_none(void) { return cp_number((cp_cell *)0, CP_NONE); }
CV_FN cp_cell cp_start(CP_ITEM) { return cp_none(); }
#else
/* An extreme of a number and itself is the number. */
CV_FN cp_cell cp_start(CP_ITEM x) { return cp_as<cp_cell>::of(x); }
#endif

/* The fold of the block of entries that begins with key k.  The entries of a batch are read
 * before the first of them is combined. */
CV_FN void cp_block(const cp_call &c, cm_i64 k, cp_key dest, cm_i64 dense, cp_sums &out)
{
    cp_cell acc[4][CP_LANES];

    for (int n = 0, m = CP_BATCH; n < CP_BLOCK && m == CP_BATCH; n += CP_BATCH) {
        cp_vector x[CP_BATCH];
        m = 0;
        CV_ALL
        for (int q = 0; q < CP_BATCH; q++)
            if (cp_has(c, k + n + q, dest)) {
                x[q] = *(const cp_vector *)cp_value(c, dense +
                                                           cp_dense(c, cp_entry(c, k + n + q)));
                m = q + 1;
            }
        CV_ALL
        for (int q = 0; q < CP_BATCH; q++)
            CV_ALL
        for (int l = 0; l < CP_LANES; l++) {
            if (!n && q < 4)
                acc[q][l] = cp_start(x[0].item[l]);
            if (q < m)
                acc[q % 4][l] = CP_OP(acc[q % 4][l], cp_as<cp_cell>::of(x[q].item[l]));
        }
    }
    CV_ALL
    for (int l = 0; l < CP_LANES; l++)
        out.of[l] = CP_OP(CP_OP(acc[0][l], acc[1][l]), CP_OP(acc[2][l], acc[3][l]));
}

/* The first key of the destination that key k has; a warp looks for it. */
CV_FN cm_i64 cp_first(const cp_call &c, cm_i64 k, cp_key dest)
{
    cm_i64 low = 0, high = k;

    while (low < high) {
        const cm_i64 step = (high - low + 31) / 32, at = low + ck_x() % 32 * step;
        const bool below = at < high && c.keys[at] >> c.shift < dest;
        const int n = __builtin_popcount(CK_BALLOT_(below));
        high = low + n * step < high ? low + n * step : high;
        low = n ? low + (n - 1) * step + 1 : high;
    }
    return low;
}

/* The place of the results of the block that begins with key k: no two blocks of a window that
 * have results begin a run, or do not. */
CV_FN cp_cell *cp_part(const cp_call &c, cm_i64 k, bool first)
{
    return (cp_cell *)c.parts + (2 * (k / CP_BLOCK) + first) * c.columns * CP_LANES;
}

/* The offset of a bucket's destination in the table. */
CV_FN cm_i64 cp_table_of(const cp_call &c, unsigned dest)
{
    if (!c.lined)
        return dest * c.grain;
    unsigned line = dest / (unsigned)c.extent;
    cm_i64 offset = (dest - line * (unsigned)c.extent) * c.line_unit;
    CV_LOOP
    for (int d = (int)c.ldim - 1; d >= 0; d--) {
        const unsigned next = line / (unsigned)c.lsize[d];
        offset += (line - next * (unsigned)c.lsize[d]) * c.lstep[d];
        line = next;
    }
    return offset;
}

CV_FN void cp_put(const cp_call &c, cp_key dest, cm_i64 table, cp_cell sum)
{
    CP_ITEM *to = (CP_ITEM *)(c.table + (cm_i64)dest * c.grain + table);

    *to = cm_to<CP_ITEM>::of(CP_OP(cp_as<cp_cell>::of(*to), sum));
}

/* True if key k is the first one of its destination. */
CV_FN bool cp_heads(const cp_call &c, cm_i64 k, bool real, cp_key dest)
{
    return real && (!k || !cp_has(c, k - 1, dest));
}

/* The most of the numbers of the threads up to this one; the most of all in *all. */
CV_FN int cp_most_before(int own, int *room, int *all)
{
    const int lane = ck_x() % 32, warps = ck_wide() / 32;
    int most = own;

    CV_ALL
    for (int by = 1; by < 32; by *= 2) {
        const int other = CK_SHUFFLE_(most, lane < by ? lane : lane - by);
        most = lane >= by && other > most ? other : most;
    }
    if (lane == 31)
        room[ck_x() / 32] = most;
    __syncthreads();
    *all = -1;
    for (int w = 0; w < warps; w++) {
        *all = room[w] > *all ? room[w] : *all;
        most = w < ck_x() / 32 && room[w] > most ? room[w] : most;
    }
    __syncthreads();
    return most;
}

/* Lists the keys with which blocks begin, in any order.  A tile of keys finds where its first
 * destination begins: in the tile before it, or by search. */
CV_FN void cp_list_blocks(const cp_call &call)
{
    CK_SHARED int count, room[32];
    CK_SHARED cm_i64 from, begin;

    for (cm_i64 first = ck_first_x() - ck_x(); first < call.n; first += ck_step_x()) {
        const cm_i64 k = first + ck_x(), past = k - ck_wide();
        cp_key dest = 0, past_dest = 0, first_dest;
        int all;
        const bool real = k < call.n && cp_destination(call, k, &dest);
        const bool past_real = past >= 0 && cp_destination(call, past, &past_dest);
        const bool head = cp_heads(call, k, real, dest);
        cp_most_before(cp_heads(call, past, past_real, past_dest) ? ck_x() : -1, room, &all);
        if (ck_x() < 32) {
            cp_destination(call, first, &first_dest);
            const cm_i64 at =
                all < 0 ? cp_first(call, first, first_dest) : first - ck_wide() + all;
            if (!ck_x()) {
                begin = at;
                count = 0;
            }
        }
        const int start = cp_most_before(head ? ck_x() : -1, room, &all);
        const bool begins = real && (k - (start < 0 ? begin : first + start)) % CP_BLOCK == 0;
        if (head && cp_has(call, k + CP_BLOCK, dest))
            call.heads[k / CP_BLOCK] = k + 1;
        const int at = begins ? CK_ATOMIC_ADD_(&count, 1) : 0;
        __syncthreads();
        if (!ck_x())
            from = (cm_i64)CK_ATOMIC_ADD_64_(call.blocks, (cm_i64)count);
        __syncthreads();
        if (begins)
            call.list[from + at] = k;
    }
}

/* The blocks of the list, for each vector of columns.  A destination's only block is combined
 * with it. */
CV_FN void cp_fold_blocks(const cp_call &call)
{
    const cm_i64 n = *call.blocks * call.columns;

    for (cm_i64 i = ck_first_x(); i < n; i += ck_step_x()) {
        const cm_i64 block =
            n <= 0x7fffffff ? (unsigned)i / (unsigned)call.columns : i / call.columns;
        const cm_i64 k = call.list[block], column = i - block * call.columns;
        cm_i64 dense, table;
        cp_sums sum;
        cp_key dest;
        cp_destination(call, k, &dest);
        const bool first = !k || !cp_has(call, k - 1, dest);
        cp_column(call, column, &dense, &table);
        cp_block(call, k, dest, dense, sum);
        if (first && !cp_has(call, k + CP_BLOCK, dest)) {
            cp_vector *to = (cp_vector *)(call.table + (cm_i64)dest * call.grain + table);
            cp_vector x = *to;
            CV_ALL
            for (int l = 0; l < CP_LANES; l++)
                x.item[l] = cm_to<CP_ITEM>::of(CP_OP(cp_as<cp_cell>::of(x.item[l]), sum.of[l]));
            *to = x;
            continue;
        }
        ((cp_sums *)cp_part(call, k, first))[column] = sum;
    }
}

#ifdef CP_NONE
/* Levels of four accumulators: level 0 has eight results of blocks, level 1 a block of 64
 * results of level 0, and so on in turn.  A full level is closed when its next result comes. */
enum { CP_LEVELS = 14, CP_BLOCKS = 8 };
struct cp_tower {
    cp_cell acc[CP_LEVELS][4];
    unsigned char count[CP_LEVELS + 1];
};

CV_FN cp_cell cp_close(const cp_cell *a, int level, int n)
{
    if (level % 2)
        return CP_OP(CP_OP(a[0], a[1]), CP_OP(a[2], a[3]));
    const cp_cell even = n > 2 ? CP_OP(a[0], a[2]) : a[0];
    const cp_cell odd = n > 3 ? CP_OP(a[1], a[3]) : a[1];
    return n > 1 ? CP_OP(even, odd) : even;
}

CV_FN void cp_push(cp_tower *t, int level, cp_cell x)
{
    for (bool full = true; full; level++) {
        cp_cell *a = t->acc[level], closed = x;
        full = t->count[level] == (level % 2 ? CP_BLOCK : CP_BLOCKS);
        if (full) {
            closed = cp_close(a, level, t->count[level]);
            t->count[level] = 0;
        }
        if (level % 2 && !t->count[level])
            a[0] = a[1] = a[2] = a[3] = cp_none();
        const bool set = level % 2 == 0 && t->count[level] < 4;
        cp_cell *at = &a[t->count[level]++ % 4];
        *at = set ? x : CP_OP(*at, x);
        x = closed;
    }
}

CV_FN cp_cell cp_total(cp_tower *t)
{
    int level = 0;

    for (; t->count[level + 1]; level++)
        cp_push(t, level + 1, cp_close(t->acc[level], level, t->count[level]));
    return cp_close(t->acc[level], level, t->count[level]);
}

/* The fold of the results of a destination's blocks. */
CV_FN cp_cell cp_run(const cp_call &c, cm_i64 k, cp_key dest, cm_i64 column)
{
    cp_tower t;

    for (int i = 0; i <= CP_LEVELS; i++)
        t.count[i] = 0;
    for (bool first = true; cp_has(c, k, dest); k += CP_BLOCK, first = false)
        cp_push(&t, 0, cp_part(c, k, first)[column]);
    return cp_total(&t);
}

/* The fold of n results, from the one numbered `from` on, of a run that begins with key k: an
 * element of the next level. */
CV_FN cp_cell cp_level(const cp_call &c, cm_i64 k, cm_i64 from, int n, int level, cm_i64 column)
{
    cp_cell acc[4];

    CV_ALL
    for (int q = 0; q < 4; q++)
        acc[q] = cp_none();
    for (int i = 0; i < n; i += 4)
        CV_ALL
    for (int q = 0; q < 4; q++)
        if (i + q < n) {
            const cp_cell x =
                cp_part(c, k + (from + i + q) * CP_BLOCK, from + i + q == 0)[column];
            acc[q] = i || level % 2 ? CP_OP(acc[q], x) : x;
        }
    return cp_close(acc, level, n);
}

/* The same as cp_run, by a warp: each lane folds some groups of results, level by level, and
 * puts what it has in the place of one of them. */
CV_FN cp_cell cp_long_run(const cp_call &c, cm_i64 k, cm_i64 blocks, cm_i64 column)
{
    for (int level = 0; blocks > 1; level++) {
        const int each = level % 2 ? CP_BLOCK : CP_BLOCKS;
        const cm_i64 groups = (blocks + each - 1) / each;
        for (cm_i64 first = 0; first < groups; first += 32) {
            const cm_i64 g = first + ck_x() % 32, left = blocks - g * each;
            cp_cell x = cp_none();
            if (g < groups)
                x = cp_level(c, k, g * each, left < each ? (int)left : each, level, column);
            CK_SYNC_WARP_();
            if (g < groups)
                cp_part(c, k + g * CP_BLOCK, !g)[column] = x;
        }
        CK_SYNC_WARP_();
        blocks = groups;
    }
    return cp_part(c, k, true)[column];
}
#else
CV_FN cp_cell cp_run(const cp_call &c, cm_i64 k, cp_key dest, cm_i64 column)
{
    cp_cell most = cp_part(c, k, true)[column];

    for (k += CP_BLOCK; cp_has(c, k, dest); k += CP_BLOCK)
        most = CP_OP(most, cp_part(c, k, false)[column]);
    return most;
}

/* The same by a warp: each lane has neighbouring results. */
CV_FN cp_cell cp_long_run(const cp_call &c, cm_i64 k, cm_i64 blocks, cm_i64 column)
{
    const cm_i64 each = (blocks + 31) / 32, from = ck_x() % 32 * each;
    const cm_i64 end = from + each < blocks ? from + each : blocks;

    if (from < end) {
        cp_cell most = cp_part(c, k + from * CP_BLOCK, !from)[column];
        for (cm_i64 i = from + 1; i < end; i++)
            most = CP_OP(most, cp_part(c, k + i * CP_BLOCK, false)[column]);
        cp_part(c, k + from * CP_BLOCK, !from)[column] = most;
    }
    CK_SYNC_WARP_();
    cp_cell most = cp_part(c, k, true)[column];
    for (cm_i64 i = each; i < blocks; i += each)
        most = CP_OP(most, cp_part(c, k + i * CP_BLOCK, false)[column]);
    return most;
}
#endif

enum { CP_LONG_RUN = 32 /* blocks of a destination that a thread does not fold alone */ };

CV_FN cm_i64 cp_lane_word(cm_i64 x, int lane)
{
    const unsigned low = (unsigned)CK_SHUFFLE_((unsigned)x, lane);

    return (cm_i64)(cp_key)(unsigned)CK_SHUFFLE_((unsigned)(x >> 32), lane) << 32 | low;
}

/* How many entries the destination has whose first key is k; a warp counts. */
CV_FN cm_i64 cp_run_length(const cp_call &c, cm_i64 k, cp_key dest)
{
    cm_i64 low = k, high = c.n;

    while (low < high) {
        const cm_i64 step = (high - low + 31) / 32, at = low + ck_x() % 32 * step;
        const bool own = at < high && c.keys[at] >> c.shift == dest;
        const int n = __builtin_popcount(CK_BALLOT_(own));
        high = low + n * step < high ? low + n * step : high;
        low = n ? low + (n - 1) * step + 1 : high;
    }
    return low - k;
}

/* Destinations of several blocks. */
CV_FN void cp_fold_runs(const cp_call &call)
{
    const cm_i64 columns = call.columns * CP_LANES;
    const cm_i64 all = (call.n / CP_BLOCK + 1) * columns;

    for (cm_i64 first = ck_first_x() - ck_x() % 32; first < all; first += ck_step_x()) {
        const cm_i64 i = first + ck_x() % 32, window = i / columns,
                     column = i - window * columns;
        const cm_i64 k = (i < all ? call.heads[window] : 0) - 1;
        cm_i64 dense, table = 0;
        cp_key dest = 0;
        bool far = false;
        if (k >= 0) {
            cp_destination(call, k, &dest);
            cp_column(call, column / CP_LANES, &dense, &table);
            table += column % CP_LANES * (cm_i64)sizeof(CP_ITEM);
            far = cp_has(call, k + CP_LONG_RUN * CP_BLOCK, dest);
            if (!far)
                cp_put(call, dest, table, cp_run(call, k, dest, column));
        }
        for (unsigned left = CK_BALLOT_(far); left; left &= left - 1) {
            const int lane = __builtin_popcount((left & -left) - 1);
            const cm_i64 start = cp_lane_word(k, lane);
            const cm_i64 n = cp_run_length(call, start, call.keys[start] >> call.shift);
            const cp_cell x = cp_long_run(call, start, (n + CP_BLOCK - 1) / CP_BLOCK,
                                          cp_lane_word(column, lane));
            if (ck_x() % 32 == lane)
                cp_put(call, dest, table, x);
        }
    }
}

CK_KERNEL(cp_list, cp_call) { cp_list_blocks(call); }
CK_KERNEL(cp_fold, cp_call) { cp_fold_blocks(call); }
CK_KERNEL(cp_runs, cp_call) { cp_fold_runs(call); }

#if CP_REST
/* --- all of it in one launch, whose blocks run at once --- */

/* Waits for all blocks, and for what they have written; `arrived` counts them. */
CV_FN void cp_wait_for_all(int *arrived)
{
    __syncthreads();
    if (!ck_x()) {
        ck_fence();
        const int blocks = CK_BLOCKS_(x), n = CK_ATOMIC_ADD_(arrived, 1);
        while (*(volatile int *)arrived < (n / blocks + 1) * blocks)
            ;
        ck_fence();
    }
    __syncthreads();
}

/* `place.keys` is the list with the sorted keys, `sort.from` the first one. */
struct cp_rest_call {
    cp_call place;
    cs_call sort;
    cm_i64 words; /* ints of the sort */
};
enum { CP_AT_ONCE = 4 };
CK_KERNEL_OF(CK_AT_ONCE(CS_DIGITS, 4), cp_rest, cp_rest_call)
{
    const cp_call &c = call.place;
    int *const arrived = cp_full(c) + 1;
    cs_call s = call.sort;

    if (!*cp_full(c))
        return;
    for (cm_i64 i = ck_first_x(); i < call.words; i += ck_step_x())
        s.count[i] = 0;
    for (cm_i64 i = ck_first_x(); i <= c.n / CP_BLOCK + 1; i += ck_step_x())
        c.blocks[i] = 0;
    cp_make_keys(c, (cs_key *)s.from);
    cp_wait_for_all(arrived);
    cs_count_digits(s);
    for (; s.shift < s.end; s.shift += 8) {
        cs_key *const sorted = s.to;
        int *const cleared = s.cleared;
        cp_wait_for_all(arrived);
        while (cs_move_tile(s)) {
        }
        s.to = (cs_key *)s.from;
        s.from = sorted;
        s.count += CS_DIGITS;
        s.next++;
        s.cleared = s.tile;
        s.tile = cleared;
    }
    cp_wait_for_all(arrived);
    cp_list_blocks(c);
    cp_wait_for_all(arrived);
    cp_fold_blocks(c);
    cp_wait_for_all(arrived);
    cp_fold_runs(c);
}
#endif

#if CP_ROWS
/* --- small buckets of numbers --- */

CK_DYNAMIC;
enum { CP_DEALT = 256 /* threads */, CP_PART = 64, CP_LOADS = 4, CP_STRIDE = 4 * CP_LOADS };
struct alignas(16) cp_four {
    unsigned word[4];
};

/* Puts an entry into its bucket: a word of its destination there and its number.  Where all
 * entries of a warp have one bucket, one thread counts them. */
CV_FN void cp_deal_entry(const cp_call &c, bool inside, unsigned number, unsigned dest)
{
    const unsigned bucket = dest >> c.low, some = CK_BALLOT_(inside);
    const int first = some ? __builtin_popcount((some & -some) - 1) : 0, lane = ck_x() % 32;
    const unsigned other = (unsigned)CK_SHUFFLE_(bucket, first);
    const bool one = CK_BALLOT_(inside && bucket == other) == some;
    int slot = 0;

    if (inside && (!one || lane == first))
        slot = CK_ATOMIC_ADD_(cp_held(c, (int)bucket), one ? __builtin_popcount(some) : 1);
    if (one)
        slot = CK_SHUFFLE_(slot, first) + __builtin_popcount(some & ((1u << lane) - 1));
    if (inside && slot < c.room)
        ((unsigned *)c.keys)[(cm_i64)bucket * c.room + slot] =
            (dest & ((1u << c.low) - 1)) << c.shift | number;
    else if (inside)
        *cp_full(c) = 1;
}
CK_KERNEL(cp_deal, cp_call)
{
    for (cm_i64 first = ck_first_x() - ck_x(); first < call.n; first += ck_step_x()) {
        const cm_i64 i = first + ck_x();
        cm_i64 dense, table = 0;
        const bool inside = i < call.n && cp_find(call, (unsigned)i, &dense, &table);
        cp_deal_entry(call, inside, (unsigned)i, (unsigned)(table / call.grain));
    }
}

template <class V> CV_FN V cp_shuffle(V v, int by)
{
    int word[sizeof(V) / 4];

    __builtin_memcpy(word, &v, sizeof v);
    CV_ALL
    for (int i = 0; i < (int)(sizeof(V) / 4); i++)
        word[i] = CK_SHUFFLE_DOWN_(15u << ck_x() % 32 / 4 * 4, word[i], by, 4);
    __builtin_memcpy(&v, word, sizeof v);
    return v;
}

/* The fold of a block of entries, words [k, end), in the first of four threads: thread q has
 * accumulator q. */
CV_FN void cp_fold_dealt(const cp_call &c, const unsigned *word, int k, int end, cm_i64 dense,
                         cp_sums &out)
{
    const unsigned numbers = (1u << c.shift) - 1;
    const int q = ck_x() % 4;
#ifdef CP_NONE
    CV_ALL
    for (int l = 0; l < CP_LANES; l++)
        out.of[l] = cp_none();
#else
    const cp_vector any =
        *(const cp_vector *)cp_value(c, dense + cp_dense(c, word[k] & numbers));
    CV_ALL
    for (int l = 0; l < CP_LANES; l++)
        out.of[l] = cp_start(any.item[l]);
#endif
    for (k += q; k < end; k += CP_STRIDE) {
        cp_vector x[CP_LOADS];
        CV_ALL
        for (int b = 0; b < CP_LOADS; b++)
            if (k + 4 * b < end)
                x[b] = *(const cp_vector *)cp_value(
                    c, dense + cp_dense(c, word[k + 4 * b] & numbers));
        CV_ALL
        for (int b = 0; b < CP_LOADS; b++)
            if (k + 4 * b < end)
                CV_ALL
        for (int l = 0; l < CP_LANES; l++)
            out.of[l] = CP_OP(out.of[l], cp_as<cp_cell>::of(x[b].item[l]));
    }
    CV_ALL
    for (int by = 1; by < 4; by *= 2)
        CV_ALL
    for (int l = 0; l < CP_LANES; l++)
        out.of[l] = CP_OP(out.of[l], cp_shuffle(out.of[l], by));
}

/* The same for any number of entries: blocks of 64, whose results are folded. */
CV_FN void cp_fold_more(const cp_call &c, const unsigned *word, int k, int end, cm_i64 dense,
                        cp_sums &out)
{
    cp_sums some;

    for (int l = 0; l < CP_LANES; l++) {
#ifdef CP_NONE
        cp_tower t;
        for (int i = 0; i <= CP_LEVELS; i++)
            t.count[i] = 0;
#endif
        for (int at = k; at < end; at += CP_BLOCK) {
            cp_fold_dealt(c, word, at, end - at < CP_BLOCK ? end : at + CP_BLOCK, dense, some);
#ifdef CP_NONE
            cp_push(&t, 0, some.of[l]);
        }
        out.of[l] = cp_total(&t);
#else
            out.of[l] = at == k ? some.of[l] : CP_OP(out.of[l], some.of[l]);
        }
#endif
    }
}

/* Puts the n words of a bucket in order, and lists where destinations begin and end.  Four
 * threads have a word, and compare it with a quarter of the words each: those below it, those
 * of its destination, and those of both kinds.  raw[] ends with ones up to a multiple of four.
 */
CV_FN void cp_order_words(const cp_call &c, const unsigned *raw, int n, unsigned *word,
                          unsigned *line, int *lines)
{
    for (int t = ck_x(); t < 4 * n; t += CP_DEALT) {
        const unsigned own = raw[t / 4];
        unsigned count = 0, first = 0; /* lower ones, and from bit 16 on those of the line */
        for (int k = t % 4; 4 * k < n; k += 4) {
            const cp_four four = ((const cp_four *)raw)[k];
            CV_ALL
            for (int q = 0; q < 4; q++) {
                const bool lower = four.word[q] < own;
                const bool same = 4 * k + q < n && (four.word[q] ^ own) >> c.shift == 0;
                count += lower + (same ? 1u << 16 : 0);
                first += lower && same;
            }
        }
        CV_ALL
        for (int by = 1; by < 4; by *= 2) {
            count += cp_shuffle(count, by);
            first += cp_shuffle(first, by);
        }
        if (t % 4)
            continue;
        const unsigned place = count & 0xffff;
        word[place] = own;
        if (!first)
            line[CK_ATOMIC_ADD_(lines, 1)] = place << 16 | (place + (count >> 16));
    }
}

/* A block of threads has a bucket, and up to CP_PART columns. */
CK_KERNEL_OF(CK_AT_ONCE(CP_DEALT, 5), cp_rows, cp_call)
{
    CK_SHARED int lines;
    const int bucket = CK_BLOCK_(x), n = *cp_held(call, bucket), part = CK_BLOCK_(y) * CP_PART;
    const int columns = call.columns - part < CP_PART ? (int)(call.columns - part) : CP_PART;
    unsigned *const raw = (unsigned *)ck_dynamic;
    unsigned *const word = raw + call.room, *const line = word + call.room;

    if (*cp_full(call) || !n)
        return;
    for (int i = ck_x(); i < (n + 3) / 4 * 4; i += CP_DEALT)
        raw[i] = i < n ? ((const unsigned *)call.keys)[(cm_i64)bucket * call.room + i] : ~0u;
    if (!ck_x())
        lines = 0;
    __syncthreads();
    cp_order_words(call, raw, n, word, line, &lines);
    __syncthreads();
    for (int t = ck_x(); t < lines * columns * 4; t += CP_DEALT) {
        const unsigned l = (unsigned)t / 4 / (unsigned)columns;
        const int begin = (int)(line[l] >> 16), end = (int)(line[l] & 0xffff);
        const cm_i64 dest = (cm_i64)bucket << call.low | word[begin] >> call.shift;
        cm_i64 dense, table;
        cp_sums sum;
        cp_column(call, part + t / 4 - (int)l * columns, &dense, &table);
        /* Read before the entries: loads do not wait for each other. */
        cp_vector *const to = (cp_vector *)(call.table + dest * call.grain + table);
        cp_vector x = *to;
        if (end - begin > CP_BLOCK)
            cp_fold_more(call, word, begin, end, dense, sum);
        else
            cp_fold_dealt(call, word, begin, end, dense, sum);
        if (t % 4)
            continue;
        CV_ALL
        for (int k = 0; k < CP_LANES; k++)
            x.item[k] = cm_to<CP_ITEM>::of(CP_OP(cp_as<cp_cell>::of(x.item[k]), sum.of[k]));
        *to = x;
    }
}
#endif

/* --- buckets --- */

#if CP_BUCKETED
CK_DYNAMIC;

/* An entry's destination in its bucket, its number and its element.  With CP_PACKED, where the
 * three have room, they are one word, which is written at once: the number of writes to places
 * of no order is what this launch takes its time for.  Else keys and elements are two lists.
 * `rank` orders entries of one destination by their numbers; with CP_PACKED all entries of the
 * bucket, those of lower destinations first. */
struct cp_entry_of {
    unsigned line, number;
    CP_ITEM item;
};
struct alignas(16) cp_ranks {
    unsigned rank[4];
};
#if CP_PACKED
CV_FN unsigned cp_rank_of(const cp_call &c, const cp_entry_of &e)
{
    return e.line << c.shift | e.number;
}
CV_FN cp_key cp_word_of(unsigned low, CP_ITEM x)
{
    cp_key word = 0;

    __builtin_memcpy(&word, &x, sizeof x);
    return word << 32 | low;
}
CV_FN void cp_put_entry(const cp_call &c, cm_i64 to, const cp_entry_of &e)
{
    c.keys[to] = cp_word_of(e.line << c.shift | e.number, e.item);
}
typedef cp_key cp_raw;
CV_FN cp_raw cp_get_entry(const cp_call &c, cm_i64 from) { return c.keys[from]; }
CV_FN cp_entry_of cp_entry_in(const cp_call &c, cp_raw raw)
{
    const cp_key word = raw >> 32;
    cp_entry_of e;

    e.line = (unsigned)raw >> c.shift;
    e.number = (unsigned)raw & ((1u << c.shift) - 1);
    __builtin_memcpy(&e.item, &word, sizeof e.item);
    return e;
}
/* The place of the entry that has the place `own` in no order, whose destination's entries are
 * from `begin` on, before `end`: four ranks at once, also those of neighbours. */
CV_FN int cp_place_in(const unsigned *rank, unsigned own, int begin, int end)
{
    int place = begin / 4 * 4;

    for (int k = begin / 4; 4 * k < end; k++) {
        const cp_ranks four = ((const cp_ranks *)rank)[k];
        CV_ALL
        for (int q = 0; q < 4; q++)
            place += four.rank[q] < own;
    }
    return place;
}
#else
CV_FN unsigned cp_rank_of(const cp_call &, const cp_entry_of &e) { return e.number; }
CV_FN int cp_place_in(const unsigned *rank, unsigned own, int begin, int end)
{
    int place = begin;

    for (int k = begin; k < end; k++)
        place += rank[k] < own;
    return place;
}
struct cp_raw {
    cp_key key;
    CP_ITEM item;
};
CV_FN void cp_put_entry(const cp_call &c, cm_i64 to, const cp_entry_of &e)
{
    c.keys[to] = (cp_key)e.line << 32 | e.number;
    ((CP_ITEM *)c.elements)[to] = e.item;
}
CV_FN cp_raw cp_get_entry(const cp_call &c, cm_i64 from)
{
    return {c.keys[from], ((const CP_ITEM *)c.elements)[from]};
}
CV_FN cp_entry_of cp_entry_in(const cp_call &, const cp_raw &raw)
{
    return {(unsigned)(raw.key >> 32), (unsigned)raw.key, raw.item};
}
#endif

enum {
    CP_BUCKETS = 4096,
    CP_WIDE = CP_PACKED == 2 ? 256 : 512, /* threads of a block */
    CP_ROUNDS = 8192 / CP_WIDE,           /* entries of a thread */
    CP_ROOM = CP_WIDE * CP_ROUNDS,
    CP_WIDER = 1024, /* the same of the first launch */
    CP_TURNS = 8
};

/* The entries of a tile in the order of dims: neighbouring threads read neighbouring memory.
 * Steps in `table` are in units of the grain.  All elements and indices are read before one of
 * them is used. */
CK_KERNEL_OF(CP_WIDER, cp_split, cp_call)
{
    CK_SHARED int count[CP_BUCKETS];
    const cm_i64 first = (cm_i64)CK_BLOCK_(x) * CP_WIDER * CP_TURNS + ck_x();
    unsigned number[CP_TURNS], dest[CP_TURNS];
    CP_ITEM x[CP_TURNS];
    cm_i64 at[CP_TURNS];
    int slot[CP_TURNS], taken[CP_BUCKETS / CP_WIDER];

    for (int b = ck_x(); b < call.buckets; b += CP_WIDER)
        count[b] = 0;
    CV_ALL
    for (int r = 0; r < CP_TURNS; r++) {
        const cm_i64 i = first + r * CP_WIDER;
        if (i >= call.n)
            continue;
        const cp_offsets o = cp_offsets_of<true>(call, (unsigned)i);
        number[r] = (unsigned)o.number;
        dest[r] = (unsigned)o.table;
        at[r] = cp_index(call, o.index);
        x[r] = *cp_value(call, o.dense);
    }
    __syncthreads();
    CV_ALL
    for (int r = 0; r < CP_TURNS; r++) {
        cm_i64 table = 0;
        slot[r] = -1;
        if (first + r * CP_WIDER < call.n && cp_add_index(call, at[r], &table)) {
            dest[r] += (unsigned)table;
            slot[r] = CK_ATOMIC_ADD_(&count[dest[r] >> call.low], 1);
        }
    }
    __syncthreads();
    CV_ALL
    for (int k = 0; k < CP_BUCKETS / CP_WIDER; k++) {
        const int b = k * CP_WIDER + ck_x(), n = b < call.buckets ? count[b] : 0;
        taken[k] = n ? CK_ATOMIC_ADD_(cp_held(call, b), n) : 0;
    }
    CV_ALL
    for (int k = 0; k < CP_BUCKETS / CP_WIDER; k++)
        count[k * CP_WIDER + ck_x()] = taken[k];
    __syncthreads();
    CV_ALL
    for (int r = 0; r < CP_TURNS; r++) {
        if (slot[r] < 0)
            continue;
        const unsigned bucket = dest[r] >> call.low;
        const int place = count[bucket] + slot[r];
        const cm_i64 to = (cm_i64)bucket * call.room + place;
        if (place < call.room)
            cp_put_entry(call, to, {dest[r] & ((1u << call.low) - 1), number[r], x[r]});
        else
            *cp_full(call) = 1;
    }
}

/* `start[l]`: how many entries destination l has; becomes how many those before it have. */
CV_FN void cp_starts(int *start, int n)
{
    CK_SHARED int sum[CP_WIDE / 32];
    const int each = (n + CP_WIDE - 1) / CP_WIDE, first = ck_x() * each, lane = ck_x() % 32;
    int own = 0, all, before = 0;

    __syncthreads();
    for (int l = first; l < first + each && l < n; l++)
        own += start[l];
    all = own;
    CV_ALL
    for (int by = 1; by < 32; by *= 2) {
        const int other = CK_SHUFFLE_(all, lane < by ? lane : lane - by);
        all += lane < by ? 0 : other;
    }
    if (lane == 31)
        sum[ck_x() / 32] = all;
    __syncthreads();
    CV_ALL
    for (int w = 0; w < CP_WIDE / 32; w++)
        before += w < ck_x() / 32 ? sum[w] : 0;
    before += all - own;
    for (int l = first; l < first + each && l < n; l++) {
        const int count = start[l];
        start[l] = before;
        before += count;
    }
    if (ck_x() == CP_WIDE - 1)
        start[n] = before;
    __syncthreads();
}

#if CP_PACKED
/* The same for tiles whose entries have few buckets: they are put in order of their buckets in
 * shared memory, so that neighbouring threads write neighbouring entries.  Rows of a tile are
 * parts of rows in memory: entries of one line of destinations are far apart there. */
enum { CP_STAGE_TURNS = 8, CP_STAGE = CP_WIDE * CP_STAGE_TURNS };
/* The most buckets of a tile. */
enum { CP_TILED = CP_NEAR ? CP_WIDE : CP_BUCKETS };

/* A thread's entries of all turns have one column.  With CP_FLAT rows are one dim, so that the
 * offsets of a turn are sums. */
struct cp_staged {
    unsigned row, column, more; /* more: rows between two turns */
    unsigned table, number;
    const char *dense, *index;
    cp_offsets step;
};
CV_FN cp_offsets cp_stage_offsets(const cp_call &c, unsigned row, unsigned column)
{
    const int last = (int)c.ndim - 1;
    const int dims = c.fast > 1 ? last : last + 1;
    cp_offsets o = cp_offsets_in<true>(c, row, CP_FLAT ? 1 : dims);

    if (c.fast > 1) {
        o.dense += column * c.dense_step[last];
        o.table += column * c.table_step[last];
        o.index += column * c.index_step[last];
        o.number += column * c.number_step[last];
    }
    return o;
}
CV_FN void cp_stage_set(const cp_call &c, cp_staged &s)
{
    const cp_offsets o = cp_stage_offsets(c, s.row, s.column);

    s.dense = c.dense ? c.dense + o.dense : c.value;
    s.index = c.index + o.index;
    s.table = (unsigned)o.table;
    s.number = (unsigned)o.number;
}
CV_FN cp_staged cp_stage_begin(const cp_call &c)
{
    const unsigned tile = CK_BLOCK_(x) / c.groups, group = CK_BLOCK_(x) - tile * c.groups;
    cp_staged s;

    s.row = tile * (CP_STAGE >> c.wide) + (ck_x() >> c.wide);
    s.column = (group << c.wide) + (ck_x() & ((1u << c.wide) - 1));
    s.more = CP_WIDE >> c.wide;
    cp_stage_set(c, s);
    s.step = {c.dense ? s.more * c.dense_step[0] : 0, s.more * c.table_step[0],
              s.more * c.index_step[0], s.more * c.number_step[0]};
    if (s.column >= (unsigned)c.fast)
        s.row = ~0u >> 1; /* beyond all rows */
    return s;
}
/* Whether there is an entry; and the next turn's. */
CV_FN bool cp_stage_has(const cp_call &c, const cp_staged &s)
{
    return s.row < (unsigned)c.stage_rows;
}
CV_FN void cp_stage_next(const cp_call &c, cp_staged &s)
{
    s.row += s.more;
    if (CP_FLAT) {
        s.dense += s.step.dense;
        s.index += s.step.index;
        s.table += (unsigned)s.step.table;
        s.number += (unsigned)s.step.number;
    } else if (cp_stage_has(c, s)) {
        cp_stage_set(c, s);
    }
}
/* The first bucket of a tile. */
CV_FN int cp_stage_base(const cp_call &c)
{
    const int last = (int)c.ndim - 1;
    const unsigned column = (CK_BLOCK_(x) % c.groups) << c.wide;

    return CP_NEAR && c.fast > 1 ? (int)(column * (unsigned)c.table_step[last] >> c.low) : 0;
}
/* Each step is taken for all of a thread's entries before the next one, so that the answers of
 * memory come while others are awaited; two blocks of a multiprocessor have the registers. */
CK_KERNEL_OF(CK_AT_ONCE(CP_WIDE, 2), cp_stage, cp_call)
{
    cp_key *const word = (cp_key *)ck_dynamic;
    int *const start = (int *)(word + CP_STAGE);
    unsigned short *const of = (unsigned short *)(start + CP_TILED + 1);
    unsigned low[CP_STAGE_TURNS], has = 0;
    int bucket[CP_STAGE_TURNS], slot[CP_STAGE_TURNS], taken[CP_TILED / CP_WIDE];
    CP_ITEM x[CP_STAGE_TURNS];
    CP_INDEX at[CP_STAGE_TURNS];
    cp_staged s = cp_stage_begin(call);
    const int base = cp_stage_base(call), buckets = CP_NEAR ? CP_TILED : call.buckets;

    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++, cp_stage_next(call, s)) {
        bucket[r] = (int)s.table;
        has |= (unsigned)cp_stage_has(call, s) << r;
        if (cp_stage_has(call, s)) {
            at[r] = *(const CP_INDEX *)s.index;
            x[r] = *(const CP_ITEM *)s.dense;
            low[r] = s.number;
        }
    }
    for (int b = ck_x(); b < buckets; b += CP_WIDE)
        start[b] = 0;
    __syncthreads();
    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++) {
        if (!(has >> r & 1)) {
            bucket[r] = -1;
            continue;
        }
        const cm_i64 inside = at[r] < 0 && call.wraps ? at[r] + call.extent : at[r];
        const unsigned dest = (unsigned)bucket[r] + (unsigned)inside * (unsigned)call.unit;
        bucket[r] = (int)(dest >> call.low) - base;
        low[r] |= (dest & ((1u << call.low) - 1)) << call.shift;
        if ((cp_key)inside >= (cp_key)call.extent) {
            *call.late = call.number | ((cp_key)(cm_i64)at[r] & 0xffffffffffffULL);
            bucket[r] = -1;
        }
    }
    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++)
        slot[r] = bucket[r] < 0 ? 0 : CK_ATOMIC_ADD_(&start[bucket[r]], 1);
    cp_starts(start, buckets);
    /* The answers come while entries are put in order. */
    const int all = start[buckets];
    CV_ALL
    for (int k = 0; k < CP_TILED / CP_WIDE; k++) {
        const int b = k * CP_WIDE + ck_x(), from = b < buckets ? start[b] : 0;
        const int n = b < buckets ? start[b + 1] - from : 0;
        taken[k] = (n ? CK_ATOMIC_ADD_(cp_held(call, base + b), n) : 0) - from;
    }
    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++)
        slot[r] += bucket[r] < 0 ? 0 : start[bucket[r]];
    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++)
        if (bucket[r] >= 0) {
            of[slot[r]] = (unsigned short)bucket[r];
            word[slot[r]] = cp_word_of(low[r], x[r]);
        }
    __syncthreads();
    CV_ALL
    for (int k = 0; k < CP_TILED / CP_WIDE; k++)
        start[k * CP_WIDE + ck_x()] = taken[k];
    __syncthreads();
    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++)
        bucket[r] = r * CP_WIDE + ck_x() < all ? of[r * CP_WIDE + ck_x()] : -1;
    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++)
        slot[r] = bucket[r] < 0 ? 0 : start[bucket[r]] + r * CP_WIDE + ck_x();
    CV_ALL
    for (int r = 0; r < CP_STAGE_TURNS; r++)
        if (bucket[r] >= 0 && slot[r] < call.room)
            call.keys[(cm_i64)(base + bucket[r]) * call.room + slot[r]] =
                word[r * CP_WIDE + ck_x()];
        else if (bucket[r] >= 0)
            *cp_full(call) = 1;
}
#endif

#define CP_MANY CP_WIDE, sizeof(CP_ITEM) > 4 ? 2 : 3

/* The fold of up to a block of elements, whose places are in order. */
CV_FN cp_cell cp_few(const CP_ITEM *element, const unsigned short *order, int n)
{
    cp_cell acc[4];

    CV_ALL
    for (int q = 0; q < 4; q++)
        acc[q] = cp_start(element[order[0]]);
    for (int k = 0; k < n; k += 4)
        CV_ALL
    for (int q = 0; q < 4; q++)
        if (k + q < n)
            acc[q] = CP_OP(acc[q], cp_as<cp_cell>::of(element[order[k + q]]));
    return CP_OP(CP_OP(acc[0], acc[1]), CP_OP(acc[2], acc[3]));
}

CV_SLOW cp_cell cp_many(const CP_ITEM *element, const unsigned short *order, int n)
{
#ifdef CP_NONE
    cp_tower t;

    for (int i = 0; i <= CP_LEVELS; i++)
        t.count[i] = 0;
    for (int k = 0; k < n; k += CP_BLOCK)
        cp_push(&t, 0, cp_few(element, order + k, n - k < CP_BLOCK ? n - k : CP_BLOCK));
    return cp_total(&t);
#else
    cp_cell most = cp_few(element, order, n < CP_BLOCK ? n : CP_BLOCK);

    for (int k = CP_BLOCK; k < n; k += CP_BLOCK)
        most = CP_OP(most, cp_few(element, order + k, n - k < CP_BLOCK ? n - k : CP_BLOCK));
    return most;
#endif
}

/* A thread's entries, half of them at a time. */
struct cp_half {
    cp_raw raw[CP_ROUNDS / 2];
};
CV_FN int cp_place_of(int half, int r)
{
    return (half * (CP_ROUNDS / 2) + r) * CP_WIDE + ck_x();
}
CV_FN void cp_load_half(const cp_call &c, cm_i64 first, int half, int n, cp_half &entries)
{
    CV_ALL
    for (int r = 0; r < CP_ROUNDS / 2; r++)
        if (cp_place_of(half, r) < n)
            entries.raw[r] = cp_get_entry(c, first + cp_place_of(half, r));
}

/* Counts the entries of each destination, before which start[] then has how many there are.
 * slots[]: how many entries of its destination were counted before each of the thread's. */
CV_FN void cp_count_lines(const cp_call &call, cm_i64 first, int n, int lines, int *start,
                          unsigned *slots)
{
    cp_half entries;

    for (int l = ck_x(); l < lines; l += CP_WIDE)
        start[l] = 0;
    __syncthreads();
    CV_ALL
    for (int half = 0; half < 2; half++) {
        cp_load_half(call, first, half, n, entries);
        CV_ALL
        for (int r = 0; r < CP_ROUNDS / 2; r++) {
            const unsigned l = cp_entry_in(call, entries.raw[r]).line;
            const unsigned slot =
                cp_place_of(half, r) < n ? (unsigned)CK_ATOMIC_ADD_(&start[l], 1) : 0;
            slots[r] = half ? slots[r] | slot << 16 : slot;
        }
    }
    cp_starts(start, lines);
}

#if CP_PACKED == 2
/* --- order by a network --- */

enum { CP_SLOT = 5, CP_MOST = 1 << CP_SLOT /* entries of a destination that a thread sorts */ };
enum { CP_LONG = 512 /* entries that a warp puts in order */ };
enum { CP_SLOTS = 8192 /* of all destinations of a bucket */ };

CV_FN void cp_exchange(unsigned &a, unsigned &b)
{
    const unsigned low = a < b ? a : b;

    b = a < b ? b : a;
    a = low;
}

/* Batcher's odd-even merges of runs of P numbers: those K apart, and the steps after. */
template <int N, int P, int K> CV_FN void cp_network(unsigned *x)
{
    CV_ALL
    for (int a = K % P; a + K < N; a++)
        if ((a - K % P) % (2 * K) < K && a / (2 * P) == (a + K) / (2 * P))
            cp_exchange(x[a], x[a + K]);
    if constexpr (K > 1)
        cp_network<N, P, K / 2>(x);
    else if constexpr (2 * P < N)
        cp_network<N, 2 * P, 2 * P>(x);
}

/* The slots of a bucket's destinations in shared memory: slot k of destination l is at
 * k * lines + l, so that neighbouring threads read neighbouring words.  A key is an entry's
 * number and its slot. */
struct cp_slots {
    unsigned *key;
    CP_ITEM *element;
    int *count, *cursor;    /* of each destination */
    unsigned short *listed; /* destinations that have more entries than slots */
    int lines, each;        /* each: slots of a destination, at most CP_MOST */
};
/* The parts of shared memory; the first one is for slots, or for entries in order. */
CV_FN cp_slots cp_slots_of(const cp_call &c)
{
    const int each = CP_SLOTS >> c.low < CP_MOST ? CP_SLOTS >> c.low : CP_MOST;
    const int held = (each << c.low) * (int)(4 + sizeof(CP_ITEM));
    const int ordered = c.room * (int)(6 + sizeof(CP_ITEM));
    cp_slots s;

    s.lines = 1 << c.low;
    s.each = each;
    s.key = (unsigned *)ck_dynamic;
    s.element = (CP_ITEM *)(s.key + (each << c.low));
    s.count = (int *)(ck_dynamic + (held > ordered ? held : ordered));
    s.cursor = s.count + s.lines + 1;
    s.listed = (unsigned short *)(s.cursor + s.lines);
    return s;
}

/* The fold of the n <= N elements of destination l. */
template <int N> CV_FN cp_cell cp_sorted(const cp_slots &s, int l, int n)
{
    unsigned key[N];
    cp_cell acc[4];

    CV_ALL
    for (int j = 0; j < N; j++)
        key[j] = j < n ? s.key[j * s.lines + l] : ~0u;
    cp_network<N, 1, 1>(key);
    /* A destination may have fewer slots than CP_MOST. */
    const int least = n ? (int)(key[0] % CP_MOST) : 0;
    CV_ALL
    for (int q = 0; q < 4; q++)
        acc[q] = cp_start(s.element[least * s.lines + l]);
    CV_ALL
    for (int j = 0; j < N; j++)
        if (j < n)
            acc[j % 4] =
                CP_OP(acc[j % 4],
                      cp_as<cp_cell>::of(s.element[(int)(key[j] % CP_MOST) * s.lines + l]));
    return CP_OP(CP_OP(acc[0], acc[1]), CP_OP(acc[2], acc[3]));
}

/* The order of the entries [begin, end), by threads that are `step` apart. */
CV_FN void cp_order(const unsigned *rank, unsigned short *order, int begin, int end, int first,
                    int step)
{
    for (int i = begin + first; i < end; i += step)
        order[cp_place_in(rank, rank[i], begin, end)] = (unsigned short)i;
}

/* Destinations of more entries: a warp, or the block, puts those of each in order. */
CV_FN void cp_bucket_rest(const cp_call &c, const unsigned *rank, const CP_ITEM *element,
                          unsigned short *order, const int *start, const unsigned short *listed,
                          int count)
{
    for (int b = 0; b < count; b++) {
        const int begin = start[listed[b]], end = start[listed[b] + 1];
        if (end - begin > CP_LONG)
            cp_order(rank, order, begin, end, ck_x(), CP_WIDE);
        else if (b % (CP_WIDE / 32) == ck_x() / 32)
            cp_order(rank, order, begin, end, ck_x() % 32, 32);
    }
    __syncthreads();
    for (int b = ck_x(); b < count; b += CP_WIDE) {
        const int begin = start[listed[b]], n = start[listed[b] + 1] - begin;
        cp_put(c, 0, cp_table_of(c, (unsigned)CK_BLOCK_(x) << c.low | listed[b]),
               n > CP_BLOCK ? cp_many(element, order + begin, n)
                            : cp_few(element, order + begin, n));
    }
}

/* Puts the entries of a bucket into slots; those that have none are counted only. */
CV_FN void cp_fill_slots(const cp_call &call, const cp_slots &s, cm_i64 first, int n)
{
    cp_half entries;
    int slot[CP_ROUNDS / 2];

    /* Entries that the thread does not have are counted elsewhere: a bucket has at least 128
     * destinations. */
    int *const none = &s.cursor[ck_x() % 32];
    for (int l = ck_x(); l < s.lines; l += CP_WIDE) {
        s.count[l] = 0;
        s.cursor[l] = s.each;
    }
    __syncthreads();
    CV_ALL
    for (int half = 0; half < 2; half++) {
        cp_load_half(call, first, half, n, entries);
        CV_ALL
        for (int r = 0; r < CP_ROUNDS / 2; r++) {
            const int line = (int)cp_entry_in(call, entries.raw[r]).line;
            slot[r] = CK_ATOMIC_ADD_(cp_place_of(half, r) < n ? &s.count[line] : none, 1);
        }
        CV_ALL
        for (int r = 0; r < CP_ROUNDS / 2; r++) {
            const cp_entry_of e = cp_entry_in(call, entries.raw[r]);
            const int at = (slot[r] << call.low) + (int)e.line;
            if (slot[r] < s.each) {
                s.key[at] = e.number << CP_SLOT | (unsigned)slot[r];
                s.element[at] = e.item;
            }
        }
    }
    __syncthreads();
}

/* The destinations that have more entries than slots. */
CV_FN void cp_bucket_over(const cp_call &call, const cp_slots &s, cm_i64 first, int n,
                          int listed)
{
    int *const start = s.count, *const cursor = s.cursor;
    unsigned *const rank = s.key;
    CP_ITEM *const element = (CP_ITEM *)(rank + call.room);
    unsigned short *const order = (unsigned short *)(element + call.room);

    for (int l = ck_x(); l < s.lines; l += CP_WIDE) {
        start[l] = start[l] > s.each ? start[l] : 0;
        cursor[l] = start[l] ? 0 : -1;
    }
    cp_starts(start, s.lines);
    for (int i = ck_x(); i < n; i += CP_WIDE) {
        const cp_raw raw = cp_get_entry(call, first + i);
        const int l = (int)cp_entry_in(call, raw).line;
        if (cursor[l] < 0)
            continue;
        const int at = start[l] + CK_ATOMIC_ADD_(&cursor[l], 1);
        rank[at] = (unsigned)raw;
        element[at] = cp_entry_in(call, raw).item;
    }
    for (int i = start[s.lines] + ck_x(); i < start[s.lines] + 4 && i < call.room; i += CP_WIDE)
        rank[i] = ~0u;
    __syncthreads();
    cp_bucket_rest(call, rank, element, order, start, s.listed, listed);
}

/* A block of threads has a bucket; each of them sorts and folds the entries of a
 * destination. */
CK_KERNEL_OF(CP_MANY, cp_bucket, cp_call)
{
    CK_SHARED int count;
    const int bucket = CK_BLOCK_(x), n = *cp_held(call, bucket), lines = 1 << call.low;
    const cm_i64 first = (cm_i64)bucket * call.room;
    const cp_slots s = cp_slots_of(call);

    if (*cp_full(call))
        return;
    if (!ck_x())
        count = 0;
    cp_fill_slots(call, s, first, n);
    for (int from = 0; from < lines; from += CP_WIDE) {
        const int l = from + ck_x(), own = l < lines ? s.count[l] : 0;
        const bool over = own > s.each;
        cp_cell sum;
        if (over)
            s.listed[CK_ATOMIC_ADD_(&count, 1)] = (unsigned short)l;
        const int some = over ? 0 : own;
        if (CK_BALLOT_(some > 24))
            sum = cp_sorted<32>(s, l, some);
        else if (CK_BALLOT_(some > 16))
            sum = cp_sorted<24>(s, l, some);
        else if (CK_BALLOT_(some > 8))
            sum = cp_sorted<16>(s, l, some);
        else
            sum = cp_sorted<8>(s, l, some);
        if (some)
            cp_put(call, 0, cp_table_of(call, (unsigned)bucket << call.low | (unsigned)l), sum);
    }
    __syncthreads();
    if (count)
        cp_bucket_over(call, s, first, n, count);
}
#else
/* A block of threads has a bucket.  Entries are read twice, so that a thread needs few
 * registers: others read while one waits. */
CK_KERNEL_OF(CP_MANY, cp_bucket, cp_call)
{
    const int bucket = CK_BLOCK_(x), n = *cp_held(call, bucket), lines = 1 << call.low;
    const cm_i64 first = (cm_i64)bucket * call.room;
    unsigned *const rank = (unsigned *)ck_dynamic;
    CP_ITEM *const element = (CP_ITEM *)(rank + call.room);
    int *const start = (int *)(element + call.room);
    unsigned short *const line = (unsigned short *)(start + lines + 1),
                          *order = line + call.room;
    unsigned slots[CP_ROUNDS / 2]; /* two of 16 bits each */
    cp_half entries;

    if (*cp_full(call))
        return;
    cp_count_lines(call, first, n, lines, start, slots);
    CV_ALL
    for (int half = 0; half < 2; half++) {
        cp_load_half(call, first, half, n, entries);
        CV_ALL
        for (int r = 0; r < CP_ROUNDS / 2; r++) {
            if (cp_place_of(half, r) >= n)
                continue;
            const cp_entry_of e = cp_entry_in(call, entries.raw[r]);
            const int at = start[e.line] + (int)(slots[r] >> half * 16 & 0xffff);
            rank[at] = cp_rank_of(call, e);
            line[at] = (unsigned short)e.line;
            element[at] = e.item;
        }
    }
    for (int i = n + ck_x(); i < n + 4 && i < call.room; i += CP_WIDE)
        rank[i] = ~0u;
    __syncthreads();
    for (int i = ck_x(); i < n; i += CP_WIDE) {
        const int l = line[i];
        order[cp_place_in(rank, rank[i], start[l], start[l + 1])] = (unsigned short)i;
    }
    __syncthreads();
    for (int l = ck_x(); l < lines; l += CP_WIDE) {
        const int begin = start[l], count = start[l + 1] - begin;
        if (count)
            cp_put(call, 0, cp_table_of(call, (unsigned)bucket << call.low | (unsigned)l),
                   count > CP_BLOCK ? cp_many(element, order + begin, count)
                                    : cp_few(element, order + begin, count));
    }
}
#endif
#endif
#endif
#endif
#endif

#endif
