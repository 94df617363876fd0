/* select.cuh - places and elements where a mask is true, on an NVIDIA GPU.
 *
 * Follows move.cuh.  CL_MASK is the type of the mask.  Tiles of 4,096 elements are counted, the
 * counts become the places where the tiles' results begin, and then every true element is
 * written: its coordinates, or an element of CL_BYTES bytes.  cl_extremes finds the least and
 * the greatest element of a mask of integers, cl_sums the least one and the sum. */
#ifndef CR_EMIT_SELECT_CUH
#define CR_EMIT_SELECT_CUH

#include "emit/move.cuh"

enum {
    CL_DIMS = 8,
    CL_THREADS = 256,
    CL_WARPS = CL_THREADS / 32,
    CL_ROUNDS = 16,
    CL_TILE = CL_THREADS * CL_ROUNDS
};

/* Steps are in bytes, along merged dims.  `count` has a number for each tile, then that of all
 * true elements.  Coordinates are those of `places` dims. */
struct cl_call {
    const char *mask, *from;
    char *to;
    cm_i64 *count;
    cm_i64 n, tiles, ndim, size[CL_DIMS], mask_step[CL_DIMS], from_step[CL_DIMS];
    cm_i64 places, place_size[CL_DIMS];
};

/* a / b of numbers that are not negative; division of 32 bits is much faster. */
CV_FN cm_i64 cl_quotient(cm_i64 a, cm_i64 b)
{
    return (a | b) >> 32 ? a / b : (cm_i64)((unsigned)a / (unsigned)b);
}

struct cl_place {
    cm_i64 mask, from;
};

CV_FN cl_place cl_place_of(const cl_call &c, cm_i64 i)
{
    cl_place p = {0, 0};

    CV_LOOP
    for (int d = (int)c.ndim - 1; d >= 0; d--) {
        const cm_i64 up = d ? cl_quotient(i, c.size[d]) : 0, k = i - up * c.size[d];
        p.mask += k * c.mask_step[d];
        p.from += k * c.from_step[d];
        i = up;
    }
    return p;
}

CV_FN bool cl_is_true(const cl_call &c, cm_i64 i)
{
    const CL_MASK x = *(const CL_MASK *)(c.mask + cl_place_of(c, i).mask);

    return cm_real(x) != 0 || cm_imag(x) != 0;
}

/* True if an access reads the elements of a thread, which has CL_ROUNDS neighbours then. */
CV_FN bool cl_is_dense(const cl_call &c)
{
    return sizeof(CL_MASK) == 1 && c.ndim == 1 && c.mask_step[0] == 1 &&
           ((cm_i64)c.mask & 15) == 0;
}

struct alignas(16) cl_bytes {
    unsigned word[CL_ROUNDS / 4];
};

/* A bit for each of the CL_ROUNDS elements of a dense mask from i on. */
CV_FN unsigned cl_bits(const cl_call &c, cm_i64 i)
{
    unsigned bits = 0;

    if (i + CL_ROUNDS > c.n) {
        CV_LOOP
        for (int k = 0; i + k < c.n; k++)
            bits |= (unsigned)(c.mask[i + k] != 0) << k;
        return bits;
    }
    const cl_bytes v = *(const cl_bytes *)(c.mask + i);
    CV_ALL
    for (int k = 0; k < CL_ROUNDS / 4; k++) {
        /* The upper bits of bytes that are not zero, then the same bits side by side. */
        const unsigned x = v.word[k];
        const unsigned some = (((x & 0x7f7f7f7f) + 0x7f7f7f7f) | x) & 0x80808080;
        bits |= (some >> 7) * 0x10204080u >> 28 << (4 * k);
    }
    return bits;
}

#if CL_FORM == 0
CV_FN int cl_trues(const cl_call &c, cm_i64 tile)
{
    int trues = 0;

    if (cl_is_dense(c)) {
        const cm_i64 i = tile * CL_TILE + ck_x() * CL_ROUNDS;
        return i < c.n ? __builtin_popcount(cl_bits(c, i)) : 0;
    }
    CV_ALL
    for (int r = 0; r < CL_ROUNDS; r++) {
        const cm_i64 i = tile * CL_TILE + r * CL_THREADS + ck_x();
        trues += i < c.n && cl_is_true(c, i);
    }
    return trues;
}

CK_KERNEL_OF(CL_THREADS, cl_count, cl_call)
{
    CK_SHARED int sum;

    for (cm_i64 tile = CK_BLOCK_(x); tile < call.tiles; tile += CK_BLOCKS_(x)) {
        const int trues = cl_trues(call, tile);
        if (ck_x() == 0)
            sum = 0;
        __syncthreads();
        CK_ATOMIC_ADD_(&sum, trues);
        __syncthreads();
        if (ck_x() == 0)
            call.count[tile] = sum;
        __syncthreads();
    }
}

/* By one block; a thread has neighbouring tiles. */
enum { CL_OWN = 16 };
CK_KERNEL_OF(CL_THREADS, cl_starts, cl_call)
{
    CK_SHARED cm_i64 room[CL_THREADS];
    const int me = ck_x();
    cm_i64 before = 0, own[CL_OWN];

    for (cm_i64 first = 0; first < call.tiles; first += CL_THREADS * CL_OWN) {
        const cm_i64 begin = first + me * CL_OWN;
        cm_i64 sum = 0;
        CV_ALL
        for (int k = 0; k < CL_OWN; k++) {
            own[k] = begin + k < call.tiles ? call.count[begin + k] : 0;
            sum += own[k];
        }
        room[me] = sum;
        __syncthreads();
        for (int by = 1; by < CL_THREADS; by *= 2) {
            const cm_i64 other = me >= by ? room[me - by] : 0;
            __syncthreads();
            sum += other;
            room[me] = sum;
            __syncthreads();
        }
        sum = before + (me ? room[me - 1] : 0);
        CV_ALL
        for (int k = 0; k < CL_OWN; k++) {
            if (begin + k < call.tiles)
                call.count[begin + k] = sum;
            sum += own[k];
        }
        before += room[CL_THREADS - 1];
        __syncthreads();
    }
    if (me == 0)
        call.count[call.tiles] = before;
}

/* Sums of numbers that are not negative end here. */
#define CL_MOST (1LL << 62)

/* The greater number, or the sum. */
template <bool ADDS> CV_FN cm_i64 cl_joined(cm_i64 a, cm_i64 b)
{
    if (!ADDS)
        return a > b ? a : b;
    a = a < 0 ? 0 : a;
    b = b < 0 ? 0 : b < CL_MOST ? b : CL_MOST;
    return a < CL_MOST - b ? a + b : CL_MOST;
}

/* The least element of each block's part, and the greatest one or the sum: count[2 * block],
 * count[2 * block + 1]; by one block, those of all `tiles` parts. */
template <bool ADDS>
CV_FN void cl_join_extremes(cm_i64 *least, cm_i64 *most, cm_i64 (*room)[CL_THREADS])
{
    room[0][ck_x()] = *least;
    room[1][ck_x()] = *most;
    for (int by = CL_THREADS / 2; by; by /= 2) {
        __syncthreads();
        if (ck_x() < by) {
            const cm_i64 a = room[0][ck_x() + by], b = room[1][ck_x() + by];
            room[0][ck_x()] = a < room[0][ck_x()] ? a : room[0][ck_x()];
            room[1][ck_x()] = cl_joined<ADDS>(room[1][ck_x()], b);
        }
    }
    __syncthreads();
    *least = room[0][0];
    *most = room[1][0];
}

template <bool ADDS> CV_FN void cl_find(const cl_call &call, cm_i64 (*room)[CL_THREADS])
{
    cm_i64 least = 0x7fffffffffffffffLL, most = -least - 1;

    for (cm_i64 i = ck_first_x(); i < call.n; i += ck_step_x()) {
        const cm_i64 x =
            cm_to64(cm_real(*(const CL_MASK *)(call.mask + cl_place_of(call, i).mask)));
        least = x < least ? x : least;
        most = cl_joined<ADDS>(most, x);
    }
    cl_join_extremes<ADDS>(&least, &most, room);
    if (ck_x() == 0) {
        call.count[2 * CK_BLOCK_(x)] = least;
        call.count[2 * CK_BLOCK_(x) + 1] = most;
    }
}

template <bool ADDS> CV_FN void cl_find_all(const cl_call &call, cm_i64 (*room)[CL_THREADS])
{
    cm_i64 least = 0x7fffffffffffffffLL, most = -least - 1;

    for (cm_i64 b = ck_x(); b < call.tiles; b += CL_THREADS) {
        least = call.count[2 * b] < least ? call.count[2 * b] : least;
        most = cl_joined<ADDS>(most, call.count[2 * b + 1]);
    }
    cl_join_extremes<ADDS>(&least, &most, room);
    if (ck_x() == 0) {
        call.count[0] = least;
        call.count[1] = most;
    }
}

#define CL_SEARCH(name, function)                                                              \
    CK_KERNEL_OF(CL_THREADS, name, cl_call)                                                    \
    {                                                                                          \
        CK_SHARED cm_i64 room[2][CL_THREADS];                                                  \
        function(call, room);                                                                  \
    }
CL_SEARCH(cl_extremes, cl_find<false>)
CL_SEARCH(cl_all_extremes, cl_find_all<false>)
CL_SEARCH(cl_sums, cl_find<true>)
CL_SEARCH(cl_all_sums, cl_find_all<true>)
#else
#if CL_BYTES == 16
struct cl_item {
    cm_i64 part[2];
};
#elif CL_BYTES == 8
typedef cm_i64 cl_item;
#elif CL_BYTES == 4
typedef unsigned cl_item;
#elif CL_BYTES == 2
typedef unsigned short cl_item;
#else
typedef unsigned char cl_item;
#endif

/* Result k is that of element i. */
CV_FN void cl_write(const cl_call &c, cm_i64 i, cm_i64 k)
{
#if CL_BYTES
    ((cl_item *)c.to)[k] = *(const cl_item *)(c.from + cl_place_of(c, i).from);
#else
    if (c.places == 2 && ((cm_i64)c.to & 15) == 0) {
        const cm_i64 up = cl_quotient(i, c.place_size[1]);
        const cm_i64 pair[2] = {up, i - up * c.place_size[1]};
        cm_store<16>(c.to + 16 * k, pair);
        return;
    }
    for (int d = (int)c.places - 1; d >= 0; d--) {
        const cm_i64 up = d ? cl_quotient(i, c.place_size[d]) : 0;
        ((cm_i64 *)c.to)[k * c.places + d] = i - up * c.place_size[d];
        i = up;
    }
#endif
}

/* The number of true elements before those of each 32 neighbours. */
CV_FN void cl_begins(const unsigned *trues, int *begin)
{
    CK_SHARED int of_warp[CL_ROUNDS * CL_WARPS / 32];
    const int me = ck_x(), lane = me % 32;
    const int own = me < CL_ROUNDS * CL_WARPS ? __builtin_popcount(trues[me]) : 0;
    int sum = own;

    for (int by = 1; by < 32; by *= 2) {
        const int other = (int)CK_SHUFFLE_(sum, lane < by ? lane : lane - by);
        sum += lane < by ? 0 : other;
    }
    if (lane == 31 && me < CL_ROUNDS * CL_WARPS)
        of_warp[me / 32] = sum;
    __syncthreads();
    if (me < CL_ROUNDS * CL_WARPS) {
        for (int w = 0; w < me / 32; w++)
            sum += of_warp[w];
        begin[me] = sum - own;
    }
    __syncthreads();
}

/* trues: a bit for each of 32 neighbours; begin: the numbers of true ones before these. */
CK_KERNEL_OF(CL_THREADS, cl_put, cl_call)
{
    CK_SHARED unsigned trues[CL_ROUNDS * CL_WARPS];
    CK_SHARED int begin[CL_ROUNDS * CL_WARPS];
    const int lane = ck_x() % 32, warp = ck_x() / 32;

    for (cm_i64 tile = CK_BLOCK_(x); tile < call.tiles; tile += CK_BLOCKS_(x)) {
        if (cl_is_dense(call)) {
            const cm_i64 i = tile * CL_TILE + ck_x() * CL_ROUNDS;
            ((unsigned short *)trues)[ck_x()] =
                (unsigned short)(i < call.n ? cl_bits(call, i) : 0);
        } else {
            CV_ALL
            for (int r = 0; r < CL_ROUNDS; r++) {
                const cm_i64 i = tile * CL_TILE + r * CL_THREADS + ck_x();
                const unsigned some = CK_BALLOT_(i < call.n && cl_is_true(call, i));
                if (lane == 0)
                    trues[r * CL_WARPS + warp] = some;
            }
        }
        __syncthreads();
        cl_begins(trues, begin);
        for (int r = 0; r < CL_ROUNDS; r++) {
            const unsigned some = trues[r * CL_WARPS + warp];
            if (some >> lane & 1)
                cl_write(call, tile * CL_TILE + r * CL_THREADS + ck_x(),
                         call.count[tile] + begin[r * CL_WARPS + warp] +
                             __builtin_popcount(some & ((1u << lane) - 1)));
        }
        __syncthreads();
    }
}
#endif

#endif
