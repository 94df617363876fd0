/* table.cuh - a function of one half by a table of all its values, on an NVIDIA GPU.
 *
 * A half has 65,536 values, so a table has the bits of the kernel that made it, whatever the
 * function costs.  Each block copies the table to its shared memory, and threads read their
 * elements' values there: of 16 bytes of elements at once.
 *
 * With CT_HALF, products of elements and of a function of others, whose values are floats.
 * Shared memory has those of the CT_NEAR halves of each sign from CT_FIRST on; the others are
 * read from the table. */
#ifndef CR_EMIT_TABLE_CUH
#define CR_EMIT_TABLE_CUH

#include "emit/move.cuh"

enum { CT_THREADS = 1024, CT_VALUES = 65536, CT_PACK = 8, CT_AT_ONCE = 4 };

struct ct_call {
    const unsigned short *table;
    unsigned short *to;
    const unsigned short *from; /* both at multiples of 16 bytes */
    cm_i64 n;
};

struct alignas(16) ct_pack {
    unsigned pair[CT_PACK / 2];
};

CK_DYNAMIC;

#ifndef CT_HALF
CV_FN ct_pack ct_values(const unsigned short *table, ct_pack p)
{
    CV_ALL
    for (int k = 0; k < CT_PACK / 2; k++)
        p.pair[k] = (unsigned)table[p.pair[k] & 0xffff] | (unsigned)table[p.pair[k] >> 16]
                                                              << 16;
    return p;
}

/* The thread's elements from pack i on, `step` apart. */
struct ct_some {
    ct_pack pack[CT_AT_ONCE];
};
CV_FN void ct_load(ct_some &some, const ct_call &call, cm_i64 i, cm_i64 packs, cm_i64 step)
{
    CV_ALL
    for (int k = 0; k < CT_AT_ONCE; k++)
        if (i + k * step < packs)
            some.pack[k] = ((const ct_pack *)call.from)[i + k * step];
}

/* Elements are read before those in hand are looked up, the first ones before the table is. */
CK_KERNEL_OF(CT_THREADS, ct_halves, ct_call)
{
    unsigned short *const table = (unsigned short *)ck_dynamic;
    const cm_i64 packs = call.n / CT_PACK, step = ck_step_x();
    ct_pack *const to = (ct_pack *)call.to;
    ct_some some, next;

    ct_load(next, call, ck_first_x(), packs, step);
    CV_ALL
    for (int i = 0; i < CT_VALUES / CT_PACK; i += CT_THREADS)
        ((ct_pack *)table)[i + ck_x()] = ((const ct_pack *)call.table)[i + ck_x()];
    __syncthreads();
    for (cm_i64 i = ck_first_x(); i < packs; i += CT_AT_ONCE * step) {
        some = next;
        ct_load(next, call, i + CT_AT_ONCE * step, packs, step);
        CV_ALL
        for (int k = 0; k < CT_AT_ONCE; k++)
            if (i + k * step < packs)
                to[i + k * step] = ct_values(table, some.pack[k]);
    }
    for (cm_i64 i = packs * CT_PACK + ck_first_x(); i < call.n; i += step)
        call.to[i] = table[call.from[i]];
}

#else
#define CT_JOIN2_(a, b) a##b
#define CT_JOIN_(a, b)  CT_JOIN2_(a, b)
#define CT_WIDEN        CT_JOIN_(ck_widen_, CT_HALF)
#define CT_PAIR         CT_JOIN_(ck_pair_, CT_HALF)
struct ct_product_call {
    const float *table;
    unsigned short *to;
    const unsigned short *by, *from; /* all at multiples of 16 bytes */
    cm_i64 n;
};

struct ct_operands {
    ct_pack by, from;
};
CV_FN void ct_read(ct_operands &p, const ct_product_call &call, cm_i64 i, cm_i64 packs)
{
    if (i < packs) {
        p.by = ((const ct_pack *)call.by)[i];
        p.from = ((const ct_pack *)call.from)[i];
    }
}

/* Whether shared memory has the values of all of them. */
CV_FN bool ct_are_near(ct_pack p)
{
    bool near = true;

    CV_ALL
    for (int k = 0; k < CT_PACK / 2; k++)
        near = near & ((p.pair[k] & 0x7fffu) - CT_FIRST < CT_NEAR) &
               ((p.pair[k] >> 16 & 0x7fffu) - CT_FIRST < CT_NEAR);
    return near;
}
CV_FN float ct_near(const float *near, unsigned half)
{
    return near[(half & 0x7fffu) - CT_FIRST + (half >> 15) * CT_NEAR];
}
CV_FN float ct_value(const float *near, const float *table, unsigned half)
{
    return (half & 0x7fffu) - CT_FIRST < CT_NEAR ? ct_near(near, half) : table[half];
}
CV_FN unsigned ct_times(unsigned by, float low, float high)
{
    return CT_PAIR(CT_WIDEN((unsigned short)by) * low,
                   CT_WIDEN((unsigned short)(by >> 16)) * high);
}
CV_FN ct_pack ct_multiply(const float *near, const float *table, const ct_operands &p)
{
    ct_pack r;

    if (ct_are_near(p.from)) {
        CV_ALL
        for (int k = 0; k < CT_PACK / 2; k++)
            r.pair[k] = ct_times(p.by.pair[k], ct_near(near, p.from.pair[k] & 0xffff),
                                 ct_near(near, p.from.pair[k] >> 16));
        return r;
    }
    CV_ALL
    for (int k = 0; k < CT_PACK / 2; k++)
        r.pair[k] = ct_times(p.by.pair[k], ct_value(near, table, p.from.pair[k] & 0xffff),
                             ct_value(near, table, p.from.pair[k] >> 16));
    return r;
}

CV_FN void ct_copy_near(float *near, const float *table)
{
    for (int sign = 0; sign < 2; sign++) {
        const ct_pack *const from = (const ct_pack *)(table + 0x8000 * sign + CT_FIRST);
        ct_pack *const to = (ct_pack *)(near + CT_NEAR * sign);
        CV_LOOP
        for (int i = ck_x(); i < CT_NEAR / 4; i += CT_THREADS)
            to[i] = from[i];
    }
}

/* Operands are read before the products of those in hand, the first ones before the table is.
 */
CK_KERNEL_OF(CT_THREADS, ct_products, ct_product_call)
{
    float *const near = (float *)ck_dynamic;
    const cm_i64 packs = call.n / CT_PACK, step = ck_step_x();
    ct_operands some, next;

    ct_read(next, call, ck_first_x(), packs);
    ct_copy_near(near, call.table);
    __syncthreads();
    for (cm_i64 i = ck_first_x(); i < packs; i += step) {
        some = next;
        ct_read(next, call, i + step, packs);
        ((ct_pack *)call.to)[i] = ct_multiply(near, call.table, some);
    }
    for (cm_i64 i = packs * CT_PACK + ck_first_x(); i < call.n; i += step)
        call.to[i] =
            (unsigned short)ct_times(call.by[i], ct_value(near, call.table, call.from[i]), 0);
}
#endif

#endif
