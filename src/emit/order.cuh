/* order.cuh - lines of elements in order, and searches in ordered lines, on an NVIDIA GPU.
 *
 * Follows sort.cuh.  CO_ITEM is the type of elements.  Elements have unsigned keys of CO_BITS
 * bits with their order: all NaN are one last key, zeros of both signs one key; for a
 * descending order the bits are turned.  Equal elements keep their order.
 *
 * A line of few elements: a thread counts those before its own.  Up to CO_THREADS * CO_ROUNDS
 * elements: a block of threads sorts a line in shared memory by digits.  Longer lines: keys of
 * 64 bits with the line's number, up to 32 bits of the element's key, and its place; elements
 * of 64 bits are sorted by their lower halves first.  Up to 1,024 first elements of several
 * longer lines: a block of threads chooses them in a line, and sorts only these. */
#ifndef CR_EMIT_ORDER_CUH
#define CR_EMIT_ORDER_CUH

#include "emit/sort.cuh"

enum { CO_DIMS = 8 };

/* Steps are in bytes, those along a line apart.  `sorted` has places in lines, [lines, n]. */
struct co_call {
    char *to, *index;
    const char *from;
    cs_key *keys;
    const cs_key *lower;
    const cm_i64 *sorted;
    cm_i64 lines, n, count, to_step, index_step, from_step, k;
    int place_bits, descending, how, unused;
    cm_i64 ndim, size[CO_DIMS], to_dim[CO_DIMS], index_dim[CO_DIMS], from_dim[CO_DIMS];
};

struct co_line {
    char *to, *index;
    const char *from;
};

CV_FN co_line co_line_of(const co_call &c, cm_i64 line)
{
    co_line l = {c.to, c.index, c.from};

    for (int d = (int)c.ndim - 1; d >= 0; d--) {
        const cm_i64 up = line / c.size[d], k = line - up * c.size[d];
        l.to += k * c.to_dim[d];
        l.index += k * c.index_dim[d];
        l.from += k * c.from_dim[d];
        line = up;
    }
    return l;
}

/* --- keys --- */

template <class T, class U> CV_FN U co_bits(T x)
{
    U u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
/* Of a float's bits, whose sign and infinity are given. */
template <class U> CV_FN U co_float(U bits, U sign, U infinity)
{
    const U magnitude = bits & (sign - 1);

    if (magnitude > infinity)
        return (U)(sign | (sign - 1));
    if (!magnitude)
        bits = 0;
    return bits & sign ? (U)~bits : (U)(bits | sign);
}
CV_FN cs_key co_key(cm_bool x) { return x.bits != 0; }
CV_FN cs_key co_key(cm_u8 x) { return x; }
CV_FN cs_key co_key(cm_i8 x) { return (unsigned char)(x ^ -128); }
CV_FN cs_key co_key(cm_i16 x) { return (unsigned short)(x ^ -32768); }
CV_FN cs_key co_key(cm_i32 x) { return (unsigned)x ^ 0x80000000u; }
CV_FN cs_key co_key(cm_i64 x) { return (cs_key)x ^ 0x8000000000000000ULL; }
CV_FN cs_key co_key(cm_f16 x) { return co_float<unsigned short>(x.bits, 0x8000, 0x7c00); }
CV_FN cs_key co_key(cm_bf16 x) { return co_float<unsigned short>(x.bits, 0x8000, 0x7f80); }
CV_FN cs_key co_key(cm_f32 x)
{
    return co_float<unsigned>(co_bits<float, unsigned>(x), 0x80000000u, 0x7f800000u);
}
CV_FN cs_key co_key(cm_f64 x)
{
    return co_float<cs_key>(co_bits<double, cs_key>(x), 0x8000000000000000ULL,
                            0x7ff0000000000000ULL);
}

/* Digits of whole bytes. */
enum { CO_BITS = 8 * sizeof(CO_ITEM) };
#define CO_ONES (~0ULL >> (64 - CO_BITS))

CV_FN CO_ITEM co_at(const co_call &c, const co_line &l, cm_i64 i)
{
    return *(const CO_ITEM *)(l.from + i * c.from_step);
}
CV_FN cs_key co_key_at(const co_call &c, const co_line &l, cm_i64 i)
{
    const cs_key key = co_key(co_at(c, l, i));

    return c.descending ? key ^ CO_ONES : key;
}

/* Element i has rank `rank`. */
CV_FN void co_put(const co_call &c, const co_line &l, cm_i64 rank, cm_i64 i)
{
    if (rank >= c.count)
        return;
    if (c.to)
        *(CO_ITEM *)(l.to + rank * c.to_step) = co_at(c, l, i);
    *(cm_i64 *)(l.index + rank * c.index_step) = i;
}

template <int bytes> struct co_of_bytes {
    typedef unsigned type;
};
template <> struct co_of_bytes<8> {
    typedef cs_key type;
};
typedef co_of_bytes<sizeof(CO_ITEM)>::type co_kept;

#if CO_FORM == 0
/* --- few elements --- */

CK_KERNEL(co_few, co_call)
{
    for (cm_i64 u = ck_first_x(); u < call.lines * call.n; u += ck_step_x()) {
        const cm_i64 line = u / call.n, i = u - line * call.n;
        const co_line l = co_line_of(call, line);
        const cs_key key = co_key_at(call, l, i);
        cm_i64 rank = 0;
        for (cm_i64 j = 0; j < call.n; j++) {
            const cs_key other = co_key_at(call, l, j);
            rank += other < key || (other == key && j < i);
        }
        co_put(call, l, rank, i);
    }
}

/* --- one of each line, by the order of its elements --- */

#define CO_KTH        0
#define CO_MEDIAN     1
#define CO_NAN_MEDIAN 2
#define CO_MODE       3

CV_FN bool co_is_nan(CO_ITEM x) { return cm_real(x) != cm_real(x); }

/* Ranks of NaN begin here. */
CV_FN cm_i64 co_numbers(const co_call &c, const co_line &l, const cm_i64 *sorted)
{
    cm_i64 low = 0, high = c.n;

    while (low < high) {
        const cm_i64 middle = low + (high - low) / 2;
        if (co_is_nan(co_at(c, l, sorted[middle])))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The last place of the smallest of the most frequent elements. */
CV_FN cm_i64 co_mode(const co_call &c, const co_line &l, const cm_i64 *sorted)
{
    cm_i64 best = 0, most = 0, run = 0;
    cs_key last = 0;

    for (cm_i64 r = 0; r < c.n; r++) {
        const CO_ITEM x = co_at(c, l, sorted[r]);
        run = r && co_key(x) == last && !co_is_nan(x) ? run + 1 : 1;
        last = co_key(x);
        if (run > most) {
            most = run;
            best = r;
        }
    }
    return best;
}

CK_KERNEL(co_pick, co_call)
{
    for (cm_i64 line = ck_first_x(); line < call.lines; line += ck_step_x()) {
        const co_line l = co_line_of(call, line);
        const cm_i64 *const sorted = call.sorted + line * call.n;
        cm_i64 rank = call.k;
        if (call.how == CO_MODE) {
            rank = co_mode(call, l, sorted);
        } else if (call.how != CO_KTH) {
            const cm_i64 numbers = co_numbers(call, l, sorted);
            rank = numbers < call.n && call.how == CO_MEDIAN ? numbers
                   : numbers                                 ? (numbers - 1) / 2
                                                             : 0;
        }
        co_put(call, l, 0, sorted[rank]);
    }
}

/* --- long lines --- */

CV_FN cs_key co_packed(const co_call &c, cm_i64 line, cs_key key, cm_i64 place)
{
    const int bits = CO_BITS < 32 ? CO_BITS : 32;

    return ((cs_key)line << bits | (key & (~0ULL >> (64 - bits)))) << c.place_bits |
           (cs_key)place;
}
CV_FN cm_i64 co_place(const co_call &c, cs_key key)
{
    return (cm_i64)(key & (((cs_key)1 << c.place_bits) - 1));
}

CK_KERNEL(co_keys, co_call)
{
    for (cm_i64 u = ck_first_x(); u < call.lines * call.n; u += ck_step_x()) {
        const cm_i64 line = u / call.n, i = u - line * call.n;
        call.keys[u] = co_packed(call, line, co_key_at(call, co_line_of(call, line), i), i);
    }
}

/* The upper halves, in the order of the lower ones. */
CK_KERNEL(co_upper, co_call)
{
    for (cm_i64 u = ck_first_x(); u < call.lines * call.n; u += ck_step_x()) {
        const cm_i64 line = u / call.n, r = u - line * call.n;
        const cs_key key =
            co_key_at(call, co_line_of(call, line), co_place(call, call.lower[u]));
        call.keys[u] = co_packed(call, line, key >> 32, r);
    }
}

CK_KERNEL(co_write, co_call)
{
    for (cm_i64 u = ck_first_x(); u < call.lines * call.count; u += ck_step_x()) {
        const cm_i64 line = u / call.count, rank = u - line * call.count;
        cm_i64 i = co_place(call, call.keys[line * call.n + rank]);
        if (call.lower)
            i = co_place(call, call.lower[line * call.n + i]);
        co_put(call, co_line_of(call, line), rank, i);
    }
}
#elif CO_FORM == 1
/* --- a line in shared memory --- */

CK_DYNAMIC;

enum { CO_MOST = CO_THREADS * CO_ROUNDS, CO_LINE_WARPS = CO_THREADS / 32 };

/* So many blocks run at once that others read while one waits: a thread has fewer registers. */
#define CO_MANY CO_THREADS, (sizeof(co_kept) > 4 ? 512 : 768) / CO_THREADS
CK_KERNEL_OF(CO_MANY, co_lines, co_call)
{
    co_kept *const kept = (co_kept *)ck_dynamic;
    int(*const seen)[CS_DIGITS] = (int(*)[CS_DIGITS])(kept + CO_MOST);
    unsigned short *const place = (unsigned short *)(seen + CO_LINE_WARPS);
    CK_SHARED int begin[CS_DIGITS];
    const int first = ck_x() / 32 * 32 * CO_ROUNDS + ck_x() % 32, n = (int)call.n;
    co_kept key[CO_ROUNDS];
    int rank[CO_ROUNDS], total;
    unsigned from[(CO_ROUNDS + 1) / 2]; /* two places each */

    for (cm_i64 line = CK_BLOCK_(x); line < call.lines; line += CK_BLOCKS_(x)) {
        const co_line l = co_line_of(call, line);
        for (int i = ck_x(); i < n; i += CO_THREADS) {
            kept[i] = co_key_at(call, l, i);
            place[i] = (unsigned short)i;
        }
        for (int shift = 0; shift < CO_BITS; shift += 8) {
            cs_clear<CO_LINE_WARPS>(seen);
            CV_ALL
            for (int r = 0; r < CO_ROUNDS; r++) {
                const int i = first + r * 32;
                const unsigned at = i < n ? place[i] : 0;
                key[r] = i < n ? kept[i] : 0;
                from[r / 2] = r % 2 ? from[r / 2] | at << 16 : at;
            }
            cs_rank<CO_ROUNDS>(key, n - (first - ck_x() % 32), shift, seen[ck_x() / 32], rank);
            const int before = cs_before(cs_join<CO_LINE_WARPS>(seen), begin, &total);
            if (ck_x() < CS_DIGITS)
                begin[ck_x()] = before;
            __syncthreads();
            CV_ALL
            for (int r = 0; r < CO_ROUNDS; r++) {
                const unsigned digit = cs_digit(key[r], shift);
                const int at = begin[digit] + seen[ck_x() / 32][digit] + rank[r];
                if (first + r * 32 < n) {
                    kept[at] = key[r];
                    place[at] = (unsigned short)(from[r / 2] >> r % 2 * 16);
                }
            }
            __syncthreads();
        }
        for (int i = ck_x(); i < n && i < call.count; i += CO_THREADS)
            co_put(call, l, i, place[i]);
        __syncthreads();
    }
}
#elif CO_FORM == 3
/* --- the first elements of a long line --- */

/* A block of threads has a line.  It finds the last key that is chosen, a digit of eight bits
 * at a time, the highest first, by counting the keys that have the digits found so far.  Then
 * it takes the keys below, and the first of the equal keys, and sorts these. */
enum {
    CO_CHOOSERS = 1024,
    CO_CHOSEN = 1024,
    CO_AT_ONCE = 4, /* elements of a thread that are read before they are used */
    CO_WARPS = CO_CHOOSERS / 32
};

struct co_found {
    int digit, left, equal; /* left: how many keys with the digits found are chosen */
};

CV_FN void co_count(const co_call &c, const co_line &l, cs_key found, int shift, int *seen)
{
    const bool all = shift + 8 == CO_BITS;
    const int lane = ck_x() % 32;

    for (cm_i64 first = 0; first < c.n; first += CO_CHOOSERS * CO_AT_ONCE) {
        cs_key key[CO_AT_ONCE];
        CV_ALL
        for (int r = 0; r < CO_AT_ONCE; r++) {
            const cm_i64 i = first + r * CO_CHOOSERS + ck_x();
            key[r] = i < c.n ? co_key_at(c, l, i) : 0;
        }
        CV_ALL
        for (int r = 0; r < CO_AT_ONCE; r++) {
            const bool real = first + r * CO_CHOOSERS + ck_x() < c.n;
            const unsigned digit = cs_digit(key[r], shift);
            if (all) {
                /* Few digits are common to most keys. */
                const unsigned peers = cs_peers(digit, real);
                if (real && !(peers & ((1u << lane) - 1)))
                    CK_ATOMIC_ADD_(&seen[digit], __builtin_popcount(peers));
            } else if (real && key[r] >> shift >> 8 == found) {
                CK_ATOMIC_ADD_(&seen[digit], 1);
            }
        }
    }
}

/* By one warp: the digit of the key of rank `left`, counted from 1. */
CV_FN void co_find(const int *seen, int left, co_found *out)
{
    const int lane = ck_x(), each = CS_DIGITS / 32;
    int own = 0;

    for (int k = 0; k < each; k++)
        own += seen[lane * each + k];
    int sum = own;
    for (int by = 1; by < 32; by *= 2) {
        const int other = (int)CK_SHUFFLE_(sum, lane < by ? lane : lane - by);
        sum += lane < by ? 0 : other;
    }
    int before = sum - own;
    if (before >= left || sum < left)
        return;
    int digit = lane * each;
    while (before + seen[digit] < left)
        before += seen[digit++];
    *out = {digit, left - before, seen[digit]};
}

/* How many threads before this one have `yes`; *all: how many of all threads. */
CV_FN int co_votes(bool yes, int *of_warp, int *all)
{
    const int lane = ck_x() % 32, warp = ck_x() / 32;
    const unsigned votes = CK_BALLOT_(yes);
    int before = __builtin_popcount(votes & ((1u << lane) - 1));

    __syncthreads();
    if (lane == 0)
        of_warp[warp] = __builtin_popcount(votes);
    __syncthreads();
    *all = 0;
    for (int w = 0; w < CO_WARPS; w++) {
        before += w < warp ? of_warp[w] : 0;
        *all += of_warp[w];
    }
    return before;
}

CK_KERNEL_OF(CO_CHOOSERS, co_choose, co_call)
{
    CK_SHARED int seen[CS_DIGITS], of_warp[CO_WARPS], taken, place[CO_CHOSEN];
    CK_SHARED co_kept kept[CO_CHOSEN];
    CK_SHARED co_found found;
    const int me = ck_x(), count = (int)call.count;

    for (cm_i64 line = CK_BLOCK_(x); line < call.lines; line += CK_BLOCKS_(x)) {
        const co_line l = co_line_of(call, line);
        cs_key last = 0;
        int shift = CO_BITS, left = count, equal, before = 0;
        do {
            shift -= 8;
            if (me < CS_DIGITS)
                seen[me] = 0;
            if (me == 0)
                taken = 0;
            __syncthreads();
            co_count(call, l, last, shift, seen);
            __syncthreads();
            if (me < 32)
                co_find(seen, left, &found);
            __syncthreads();
            last = last << 8 | (cs_key)found.digit;
            left = found.left;
            equal = found.equal;
        } while (shift && left != equal);
        for (cm_i64 first = 0; first < call.n; first += CO_CHOOSERS) {
            const cm_i64 i = first + me;
            const cs_key key = i < call.n ? co_key_at(call, l, i) : 0;
            const bool below = i < call.n && key >> shift < last;
            bool same = i < call.n && key >> shift == last;
            if (left != equal && before < left) {
                int all;
                const int rank = before + co_votes(same, of_warp, &all);
                same = same && rank < left;
                before += all;
            } else if (left != equal) {
                same = false;
            }
            if (below || same) {
                const int at = CK_ATOMIC_ADD_(&taken, 1);
                kept[at] = (co_kept)key;
                place[at] = (int)i;
            }
        }
        __syncthreads();
        if (me < count) {
            int rank = 0;
            for (int k = 0; k < count; k++)
                rank += kept[k] < kept[me] || (kept[k] == kept[me] && place[k] < place[me]);
            co_put(call, l, rank, place[me]);
        }
        __syncthreads();
    }
}
#else
/* --- searches --- */

/* The rows have the dims of `from`, the values those of `to`, the results those of `index`;
 * `keys` has places that order the rows, with steps of rows that are those of `lower`. */
struct co_search_call {
    char *to;
    const char *value, *row, *sorter;
    cs_key *late;
    cs_key number;
    cm_i64 n, values, row_step, sorter_step;
    int right, narrow;
    cm_i64 ndim, size[CO_DIMS], to_dim[CO_DIMS], value_dim[CO_DIMS], row_dim[CO_DIMS],
        sorter_dim[CO_DIMS];
};

CK_KERNEL(co_search, co_search_call)
{
    for (cm_i64 u = ck_first_x(); u < call.values; u += ck_step_x()) {
        char *to = call.to;
        const char *value = call.value, *row = call.row, *sorter = call.sorter;
        cm_i64 rest = u, low = 0, high = call.n;
        for (int d = (int)call.ndim - 1; d >= 0; d--) {
            const cm_i64 up = rest / call.size[d], k = rest - up * call.size[d];
            to += k * call.to_dim[d];
            value += k * call.value_dim[d];
            row += k * call.row_dim[d];
            sorter += k * call.sorter_dim[d];
            rest = up;
        }
        const CO_ITEM x = *(const CO_ITEM *)value;
        while (low < high) {
            const cm_i64 middle = low + (high - low) / 2;
            cm_i64 at = middle;
            if (call.sorter)
                at = *(const cm_i64 *)(sorter + middle * call.sorter_step);
            if (at < 0 || at >= call.n) {
                *call.late = call.number | ((cs_key)at & 0xffffffffffffULL);
                at = 0;
            }
            const CO_ITEM b = *(const CO_ITEM *)(row + at * call.row_step);
            const bool before =
                call.right ? !(cm_real(b) > cm_real(x)) : !(cm_real(b) >= cm_real(x));
            low = before ? middle + 1 : low;
            high = before ? high : middle;
        }
        if (call.narrow)
            *(int *)to = (int)low;
        else
            *(cm_i64 *)to = low;
    }
}
#endif

#endif
