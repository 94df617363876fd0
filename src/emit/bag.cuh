/* bag.cuh - sums, means and maxima of the rows that runs of indices name, on an NVIDIA GPU.
 *
 * Follows move.cuh.  A thread folds the rows of one bag for one column, in index order, as the
 * host does.  CB_ITEM is the type of elements. */
#ifndef CR_EMIT_BAG_CUH
#define CR_EMIT_BAG_CUH

#include "emit/move.cuh"

enum { CB_SUM, CB_MEAN, CB_MAX };

/* Steps are in bytes. */
struct cb_list {
    const char *at;
    cm_i64 step, n;
    int is32, unused;
};
struct cb_call {
    const char *weight, *samples; /* samples: NULL without */
    cm_i64 row_step, step, sample_step;
    cb_list indices, offsets;
    cm_i64 rows, bags, columns, skip, mode;
    CB_ITEM *out;
    cm_i64 *bag_of, *size, *most;
    bool *inside;                                                   /* NULL without */
    unsigned long long *late, wrong_row, wrong_first, wrong_offset; /* numbers of errors */
};

typedef decltype(cm_real(CB_ITEM())) cb_number;
CV_FN cb_number cb_load(const char *p) { return cm_real(*(const CB_ITEM *)p); }

CV_FN cm_i64 cb_item(const cb_list &l, cm_i64 i)
{
    const char *p = l.at + i * l.step;

    return l.is32 ? *(const int *)p : *(const cm_i64 *)p;
}

CV_FN void cb_report(const cb_call &c, unsigned long long number, cm_i64 index)
{
    *c.late = number | ((unsigned long long)index & 0xffffffffffffULL);
}

/* The first index of a bag, or the end of the last one. */
CV_FN cm_i64 cb_start(const cb_call &c, cm_i64 bag)
{
    const cm_i64 at = bag < c.offsets.n ? cb_item(c.offsets, bag) : c.indices.n;

    return at < 0 ? 0 : at > c.indices.n ? c.indices.n : at;
}

CV_FN void cb_check(const cb_call &c, cm_i64 bag)
{
    const cm_i64 at = bag < c.offsets.n ? cb_item(c.offsets, bag) : c.indices.n;
    const cm_i64 next = bag + 1 < c.offsets.n ? cb_item(c.offsets, bag + 1) : c.indices.n;

    if (bag == 0 && at != 0)
        cb_report(c, c.wrong_first, at);
    else if (at <= c.indices.n && (next < at || next > c.indices.n))
        cb_report(c, c.wrong_offset, next);
}

CV_FN void cb_fold(const cb_call &c, cm_i64 bag, cm_i64 column)
{
    const cm_i64 begin = cb_start(c, bag), end = cb_start(c, bag + 1);
    cm_i64 n = 0, most = 0;
    cb_number sum = 0;

    for (cm_i64 i = begin; i < end; i++) {
        const cm_i64 row = cb_item(c.indices, i);
        if (row == c.skip || row < 0 || row >= c.rows)
            continue;
        const cb_number x = cb_load(c.weight + row * c.row_step + column * c.step);
        if (c.mode != CB_MAX) {
            sum += c.samples ? x * cb_load(c.samples + i * c.sample_step) : x;
        } else if (n == 0 || x > sum || x != x) {
            sum = x;
            most = row;
        }
        n++;
    }
    if (c.mode == CB_MEAN && n > 1)
        sum /= (cb_number)n;
    c.out[bag * c.columns + column] = cm_to<CB_ITEM>::of(sum);
    c.most[bag * c.columns + column] = n ? most : -1;
    if (column == 0)
        c.size[bag] = n;
}

/* The rows of a bag without columns. */
CV_FN void cb_count(const cb_call &c, cm_i64 bag)
{
    cm_i64 n = 0;

    for (cm_i64 i = cb_start(c, bag); i < cb_start(c, bag + 1); i++)
        n += cb_item(c.indices, i) != c.skip;
    c.size[bag] = n;
}

/* The bag of index i: the last one that begins at i or before; -1 for indices after the last
 * bag. */
CV_FN cm_i64 cb_bag_of(const cb_call &c, cm_i64 i)
{
    cm_i64 low = 0, high = c.bags;

    while (low < high) {
        const cm_i64 middle = low + (high - low) / 2;
        if (cb_start(c, middle) <= i)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && i < cb_start(c, low) ? low - 1 : -1;
}

CK_KERNEL(cb_bags, cb_call)
{
    const cm_i64 wide = call.columns ? call.columns : 1;

    for (cm_i64 i = ck_first_x(); i < call.bags * wide; i += ck_step_x()) {
        const cm_i64 bag = i / wide;
        if (i == bag * wide)
            cb_check(call, bag);
        if (call.columns)
            cb_fold(call, bag, i - bag * wide);
        else
            cb_count(call, bag);
    }
    for (cm_i64 i = ck_first_x(); i < call.indices.n; i += ck_step_x()) {
        const cm_i64 row = cb_item(call.indices, i);
        if (row < 0 || row >= call.rows)
            cb_report(call, call.wrong_row, row);
        const cm_i64 bag = cb_bag_of(call, i);
        call.bag_of[i] = bag < 0 ? 0 : bag;
    }
}

CK_KERNEL(cb_places, cb_call)
{
    for (cm_i64 i = ck_first_x(); i < call.bags; i += ck_step_x())
        cb_check(call, i);
    for (cm_i64 i = ck_first_x(); i < call.indices.n; i += ck_step_x()) {
        const cm_i64 bag = cb_bag_of(call, i);
        call.bag_of[i] = bag < 0 ? 0 : bag;
        call.inside[i] = bag >= 0;
    }
}

#endif
