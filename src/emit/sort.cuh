/* sort.cuh - stable sorts of keys by some of their bits, on an NVIDIA GPU.
 *
 * Follows move.cuh.  A pass sorts by one digit of eight bits, the lowest first, and is one
 * launch; a launch before the passes counts the digits of all of them.  A block of threads has
 * a tile: it ranks its keys, writes how many it has of each digit, and adds up what the tiles
 * before it have written: back to one that knows the sum of all tiles up to it.  In a tile a
 * warp has neighbouring keys, 32 at a time, and the rank of a key is the number of keys of its
 * digit before it.  CS_ROUNDS: keys of a thread.  With CS_NO_KERNELS the text has only what
 * order.cuh uses; place.cuh has a launch that sorts, too. */
#ifndef CR_EMIT_SORT_CUH
#define CR_EMIT_SORT_CUH

#include "emit/move.cuh"

typedef unsigned long long cs_key;

enum {
    CS_DIGITS = 256, /* and threads of a block */
    CS_WARPS = CS_DIGITS / 32,
    CS_FEW_ROUNDS = 8, /* of a sort by one block */
    CS_FEW = CS_DIGITS * CS_FEW_ROUNDS
};

enum { CS_PASSES = 8 };
/* `tile`: of each tile before `next` and digit, CS_OWN or CS_ALL and the number of keys of the
 * tile, or of all tiles up to it.  `cleared`: the same of the next pass. */
struct cs_call {
    const cs_key *from;
    cs_key *to;
    int *count; /* of each pass, the digits */
    int *next, *tile, *cleared;
    cm_i64 n, tiles;
    int shift, end; /* of the digit; of the last one */
};

template <class K> CV_FN unsigned cs_digit(K key, int shift)
{
    return (unsigned)(key >> shift) & 255;
}

/* The sum of the numbers of the threads before this one, and of all in *total.  Threads after
 * those of the digits have no number. */
CV_FN int cs_before(int x, int *room, int *total)
{
    const int lane = ck_x() % 32, warp = ck_x() / 32;
    int sum = x, before = 0;

    CV_ALL
    for (int by = 1; by < 32; by *= 2) {
        const int other = CK_SHUFFLE_(sum, lane < by ? lane : lane - by);
        sum += lane < by ? 0 : other;
    }
    if (lane == 31 && warp < CS_WARPS)
        room[warp] = sum;
    __syncthreads();
    *total = 0;
    CV_ALL
    for (int w = 0; w < CS_WARPS; w++) {
        const int of_warp = room[w];
        before += w < warp ? of_warp : 0;
        *total += of_warp;
    }
    __syncthreads();
    return before + sum - x;
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
template <int rounds, class K>
CV_FN void cs_rank(const K *key, cm_i64 left, int shift, int *seen, int *rank)
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
enum { CS_TILE = CS_DIGITS * CS_ROUNDS };

/* Counts the digits of all passes. */
CV_FN void cs_count_digits(const cs_call &call)
{
    CK_SHARED int seen[CS_PASSES][CS_DIGITS];

    for (int p = 0; p < CS_PASSES; p++)
        seen[p][ck_x()] = 0;
    __syncthreads();
    for (cm_i64 first = (cm_i64)CK_BLOCK_(x) * CS_TILE; first < call.n;
         first += (cm_i64)CK_BLOCKS_(x) * CS_TILE) {
        cs_key key[CS_ROUNDS];
        CV_ALL
        for (int r = 0; r < CS_ROUNDS; r++) {
            const cm_i64 i = first + r * CS_DIGITS + ck_x();
            key[r] = i < call.n ? call.from[i] : 0;
        }
        for (int p = 0, shift = call.shift; shift < call.end; p++, shift += 8) {
            CV_ALL
            for (int r = 0; r < CS_ROUNDS; r++)
                if (first + r * CS_DIGITS + ck_x() < call.n)
                    CK_ATOMIC_ADD_(&seen[p][cs_digit(key[r], shift)], 1);
        }
    }
    __syncthreads();
    for (int p = 0, shift = call.shift; shift < call.end; p++, shift += 8)
        if (seen[p][ck_x()])
            CK_ATOMIC_ADD_(&call.count[p * CS_DIGITS + ck_x()], seen[p][ck_x()]);
}
CK_KERNEL_OF(CS_DIGITS, cs_count, cs_call) { cs_count_digits(call); }

enum {
    CS_OWN = 1 << 30,
    CS_ALL = (-0x7fffffff - 1),
    CS_NUMBER = CS_OWN - 1,
    CS_BACK = 4 /* words that are read at once */
};

/* How many keys of the thread's digit the tiles before `tile` have; the tile itself has `own`.
 * Blocks take tiles in order, so the tiles before are those of blocks that run or have
 * ended. */
CV_FN int cs_look_back(const cs_call &c, cm_i64 tile, int own)
{
    volatile int *const of = c.tile + ck_x();
    int sum = 0;

    of[tile * CS_DIGITS] = (tile ? CS_OWN : CS_ALL) | own;
    for (cm_i64 t = tile - 1; t >= 0;) {
        int word[CS_BACK];
        CV_ALL
        for (int k = 0; k < CS_BACK; k++)
            word[k] = of[(t < k ? 0 : t - k) * CS_DIGITS];
        for (int k = 0; k < CS_BACK && word[k]; k++, t--) {
            sum += word[k] & CS_NUMBER;
            if (word[k] & CS_ALL) {
                t = -1;
                break;
            }
        }
    }
    if (tile)
        of[tile * CS_DIGITS] = CS_ALL | (sum + own);
    return sum;
}

/* Moves the keys of the next tile; false if there is none.  A tile is put in order in shared
 * memory: neighbouring threads then write neighbouring keys. */
CV_FN bool cs_move_tile(const cs_call &call)
{
    CK_SHARED cs_key kept[CS_TILE];
    CK_SHARED int seen[CS_WARPS][CS_DIGITS], begin[CS_DIGITS];
    CK_SHARED cm_i64 taken;
    const int lane = ck_x() % 32, warp = ck_x() / 32;
    cs_key key[CS_ROUNDS];
    int rank[CS_ROUNDS], total;

    if (ck_x() == 0)
        taken = CK_ATOMIC_ADD_(call.next, 1);
    cs_clear(seen);
    const cm_i64 tile = taken, first = tile * CS_TILE + warp * 32 * CS_ROUNDS;
    if (tile >= call.tiles)
        return false;
    call.cleared[tile * CS_DIGITS + ck_x()] = 0;
    CV_ALL
    for (int r = 0; r < CS_ROUNDS; r++) {
        const cm_i64 i = first + r * 32 + lane;
        key[r] = i < call.n ? call.from[i] : 0;
    }
    const int digits = cs_before(call.count[ck_x()], begin, &total);
    cs_rank<CS_ROUNDS>(key, call.n - first, call.shift, seen[warp], rank);
    const int own = cs_join(seen), before = cs_before(own, begin, &total);
    begin[ck_x()] = before;
    __syncthreads();
    CV_ALL
    for (int r = 0; r < CS_ROUNDS; r++) {
        const unsigned digit = cs_digit(key[r], call.shift);
        if (first + r * 32 + lane < call.n)
            kept[begin[digit] + seen[warp][digit] + rank[r]] = key[r];
    }
    const int goal = digits + cs_look_back(call, tile, own);
    __syncthreads();
    begin[ck_x()] = goal - before;
    __syncthreads();
    for (int i = ck_x(); i < total; i += CS_DIGITS)
        call.to[begin[cs_digit(kept[i], call.shift)] + i] = kept[i];
    return true;
}
CK_KERNEL_OF(CS_DIGITS, cs_move, cs_call) { cs_move_tile(call); }

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
