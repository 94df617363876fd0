/* sort.cuh - stable sorts of keys by some of their bits, on an NVIDIA GPU.
 *
 * Follows move.cuh.  A pass sorts by one digit of eight bits, the lowest first.  Tiles of keys
 * are counted by digit; the counts become the places where each tile's keys of each digit
 * begin; then every key is moved to its place.  In a tile a warp has neighbouring keys, 32 at
 * a time, and the rank of a key is the number of keys of its digit before it.  With
 * CS_NO_KERNELS the text has only what order.cuh uses. */
#ifndef CR_EMIT_SORT_CUH
#define CR_EMIT_SORT_CUH

#include "emit/move.cuh"

typedef unsigned long long cs_key;

enum {
    CS_DIGITS = 256, /* and threads of a block */
    CS_WARPS = CS_DIGITS / 32,
    CS_ROUNDS = 16,
    CS_TILE = CS_DIGITS * CS_ROUNDS,
    CS_FEW_ROUNDS = 8, /* of a sort by one block */
    CS_FEW = CS_DIGITS * CS_FEW_ROUNDS
};

struct cs_call {
    const cs_key *from;
    cs_key *to;
    int *count; /* [digits, tiles], then the sums of the digits */
    cm_i64 n, tiles;
    int shift, end; /* of the digit; of the last one, for a sort by one block */
};

CV_FN unsigned cs_digit(cs_key key, int shift) { return (unsigned)(key >> shift) & 255; }

/* The sum of the numbers of the threads before this one, and of all in *total.  Threads after
 * those of the digits have no number. */
CV_FN int cs_before(int x, int *room, int *total)
{
    const int me = ck_x();
    const bool has = me < CS_DIGITS;
    int sum = x;

    if (has)
        room[me] = x;
    __syncthreads();
    for (int by = 1; by < CS_DIGITS; by *= 2) {
        const int other = has && me >= by ? room[me - by] : 0;
        __syncthreads();
        sum += other;
        if (has)
            room[me] = sum;
        __syncthreads();
    }
    *total = room[CS_DIGITS - 1];
    __syncthreads();
    return sum - x;
}

/* The lanes of the warp whose keys have the same digit. */
CV_FN unsigned cs_peers(unsigned digit, bool real)
{
    unsigned peers = CK_BALLOT_(real);

    CV_ALL
    for (int bit = 0; bit < 8; bit++) {
        const bool one = digit >> bit & 1;
        const unsigned all = CK_BALLOT_(one);
        peers &= one ? all : ~all;
    }
    return peers;
}

/* The ranks of a thread's keys among those of their digit in the warp; `seen` counts the warp's
 * digits and ends with their numbers. */
template <int rounds>
CV_FN void cs_rank(const cs_key *key, cm_i64 left, int shift, int *seen, int *rank)
{
    const int lane = ck_x() % 32;

    CV_ALL
    for (int r = 0; r < rounds; r++) {
        const bool real = r * 32 + lane < left;
        const unsigned digit = cs_digit(key[r], shift), peers = cs_peers(digit, real);
        const unsigned before = peers & ((1u << lane) - 1);
        rank[r] = real ? seen[digit] + __builtin_popcount(before) : 0;
        CK_SYNC_WARP_();
        if (real && !before)
            seen[digit] += __builtin_popcount(peers);
        CK_SYNC_WARP_();
    }
}

/* Ranks in the block: `seen` becomes the number of keys of a digit in the warps before; returns
 * that of the thread's digit in all warps. */
template <int warps = CS_WARPS> CV_FN int cs_join(int (*seen)[CS_DIGITS])
{
    int sum = 0;

    __syncthreads();
    for (int w = 0; w < warps && ck_x() < CS_DIGITS; w++) {
        const int n = seen[w][ck_x()];
        seen[w][ck_x()] = sum;
        sum += n;
    }
    __syncthreads();
    return sum;
}

template <int warps = CS_WARPS> CV_FN void cs_clear(int (*seen)[CS_DIGITS])
{
    for (int w = 0; w < warps && ck_x() < CS_DIGITS; w++)
        seen[w][ck_x()] = 0;
    __syncthreads();
}

#ifndef CS_NO_KERNELS
CK_KERNEL_OF(CS_DIGITS, cs_count, cs_call)
{
    CK_SHARED int seen[CS_DIGITS];

    for (cm_i64 tile = CK_BLOCK_(x); tile < call.tiles; tile += CK_BLOCKS_(x)) {
        seen[ck_x()] = 0;
        __syncthreads();
        CV_ALL
        for (int r = 0; r < CS_ROUNDS; r++) {
            const cm_i64 i = tile * CS_TILE + r * CS_DIGITS + ck_x();
            if (i < call.n)
                CK_ATOMIC_ADD_(&seen[cs_digit(call.from[i], call.shift)], 1);
        }
        __syncthreads();
        call.count[ck_x() * call.tiles + tile] = seen[ck_x()];
        __syncthreads();
    }
}

/* A block has the tiles of one digit. */
CK_KERNEL_OF(CS_DIGITS, cs_starts, cs_call)
{
    CK_SHARED int room[CS_DIGITS];
    int *const count = call.count + CK_BLOCK_(x) * call.tiles;
    int sum = 0, total;

    for (cm_i64 first = 0; first < call.tiles; first += CS_DIGITS) {
        const cm_i64 i = first + ck_x();
        const int n = i < call.tiles ? count[i] : 0, before = cs_before(n, room, &total);
        if (i < call.tiles)
            count[i] = sum + before;
        sum += total;
    }
    if (ck_x() == 0)
        call.count[CS_DIGITS * call.tiles + CK_BLOCK_(x)] = sum;
}

/* A tile is put in order in shared memory: neighbouring threads then write neighbouring keys.
 */
CK_KERNEL_OF(CS_DIGITS, cs_move, cs_call)
{
    CK_SHARED cs_key kept[CS_TILE];
    CK_SHARED int seen[CS_WARPS][CS_DIGITS], begin[CS_DIGITS];
    const int lane = ck_x() % 32, warp = ck_x() / 32;
    cs_key key[CS_ROUNDS];
    int rank[CS_ROUNDS], total;

    const int digits = cs_before(call.count[CS_DIGITS * call.tiles + ck_x()], begin, &total);
    for (cm_i64 tile = CK_BLOCK_(x); tile < call.tiles; tile += CK_BLOCKS_(x)) {
        const cm_i64 first = tile * CS_TILE + warp * 32 * CS_ROUNDS;
        const int goal = digits + call.count[ck_x() * call.tiles + tile];
        cs_clear(seen);
        CV_ALL
        for (int r = 0; r < CS_ROUNDS; r++) {
            const cm_i64 i = first + r * 32 + lane;
            key[r] = i < call.n ? call.from[i] : 0;
        }
        cs_rank<CS_ROUNDS>(key, call.n - first, call.shift, seen[warp], rank);
        const int before = cs_before(cs_join(seen), begin, &total);
        begin[ck_x()] = before;
        __syncthreads();
        CV_ALL
        for (int r = 0; r < CS_ROUNDS; r++) {
            const unsigned digit = cs_digit(key[r], call.shift);
            if (first + r * 32 + lane < call.n)
                kept[begin[digit] + seen[warp][digit] + rank[r]] = key[r];
        }
        __syncthreads();
        begin[ck_x()] = goal - before;
        __syncthreads();
        for (int i = ck_x(); i < total; i += CS_DIGITS)
            call.to[begin[cs_digit(kept[i], call.shift)] + i] = kept[i];
        __syncthreads();
    }
}

/* All passes of at most CS_FEW keys. */
CK_KERNEL_OF(CS_DIGITS, cs_few, cs_call)
{
    CK_SHARED cs_key kept[CS_FEW];
    CK_SHARED int seen[CS_WARPS][CS_DIGITS], begin[CS_DIGITS];
    const int lane = ck_x() % 32, warp = ck_x() / 32, first = warp * 32 * CS_FEW_ROUNDS;
    const int n = (int)call.n;
    cs_key key[CS_FEW_ROUNDS];
    int rank[CS_FEW_ROUNDS], total;

    for (int i = ck_x(); i < n; i += CS_DIGITS)
        kept[i] = call.from[i];
    for (int shift = call.shift; shift < call.end; shift += 8) {
        cs_clear(seen);
        CV_ALL
        for (int r = 0; r < CS_FEW_ROUNDS; r++)
            key[r] = first + r * 32 + lane < n ? kept[first + r * 32 + lane] : 0;
        cs_rank<CS_FEW_ROUNDS>(key, n - first, shift, seen[warp], rank);
        const int before = cs_before(cs_join(seen), begin, &total);
        begin[ck_x()] = before;
        __syncthreads();
        CV_ALL
        for (int r = 0; r < CS_FEW_ROUNDS; r++) {
            const unsigned digit = cs_digit(key[r], shift);
            if (first + r * 32 + lane < n)
                kept[begin[digit] + seen[warp][digit] + rank[r]] = key[r];
        }
        __syncthreads();
    }
    for (int i = ck_x(); i < n; i += CS_DIGITS)
        call.to[i] = kept[i];
}

#endif

#endif
