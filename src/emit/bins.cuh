/* bins.cuh - how many elements fall into each of equal bins, on an NVIDIA GPU.
 *
 * Follows move.cuh.  CB_ITEM is the type of elements; a bin is computed operation by operation,
 * each rounded to it, as the composition of the entry _bin_counts does.  A block counts in its
 * shared memory: several copies of few bins, so that fewer threads wait for each other. */
#ifndef CR_EMIT_BINS_CUH
#define CR_EMIT_BINS_CUH

#include "emit/move.cuh"

typedef decltype(cm_real(CB_ITEM())) cb_real;

enum { CB_THREADS = 512, CB_ROOM = 8192, CB_AT_ONCE = 8 };

struct cb_call {
    const CB_ITEM *x, *low, *high;
    cm_i64 *to; /* zeros */
    cm_i64 n, bins;
};

CV_FN cb_real cb_round(cb_real x) { return cm_real(cm_to<CB_ITEM>::of(x)); }

struct cb_range {
    cb_real low, high, width, bins;
    cm_i64 last;
};

/* -1 outside of the range, and of NaN. */
CV_FN cm_i64 cb_bin(const cb_range &r, CB_ITEM item)
{
    const cb_real x = cm_real(item);

    if (!(x >= r.low && x <= r.high))
        return -1;
    const cb_real at = cb_round(cb_round(cb_round(x - r.low) * r.bins) / r.width);
    const cm_i64 bin = cm_to64(at);
    return bin < 0 ? 0 : bin > r.last ? r.last : bin;
}

CK_KERNEL_OF(CB_THREADS, cb_count, cb_call)
{
    CK_SHARED int seen[CB_ROOM];
    const bool shared = call.bins <= CB_ROOM;
    const int bins = shared ? (int)call.bins : 0, copies = shared ? CB_ROOM / bins : 1;
    const int all = copies > CB_THREADS / 32 ? bins * (CB_THREADS / 32) : bins * copies;
    int *const own = seen + (shared ? ck_x() / 32 * bins % all : 0);
    cb_range r = {cm_real(*call.low), cm_real(*call.high), 0, 0, call.bins - 1};
    const cm_i64 step = ck_step_x();

    r.width = cb_round(r.high - r.low);
    r.bins = cb_round((cb_real)call.bins);
    for (int i = ck_x(); i < all; i += CB_THREADS)
        seen[i] = 0;
    __syncthreads();
    for (cm_i64 i = ck_first_x(); i < call.n; i += CB_AT_ONCE * step) {
        CB_ITEM x[CB_AT_ONCE];
        CV_ALL
        for (int k = 0; k < CB_AT_ONCE; k++)
            if (i + k * step < call.n)
                x[k] = call.x[i + k * step];
        CV_ALL
        for (int k = 0; k < CB_AT_ONCE; k++) {
            const cm_i64 bin = i + k * step < call.n ? cb_bin(r, x[k]) : -1;
            if (bin >= 0 && shared)
                CK_ATOMIC_ADD_(&own[bin], 1);
            else if (bin >= 0)
                CK_ATOMIC_ADD_64_(&call.to[bin], (cm_i64)1);
        }
    }
    __syncthreads();
    for (int b = ck_x(); b < bins; b += CB_THREADS) {
        cm_i64 sum = 0;
        for (int i = b; i < all; i += bins)
            sum += seen[i];
        if (sum)
            CK_ATOMIC_ADD_64_(&call.to[b], sum);
    }
}

#endif
