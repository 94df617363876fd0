/* table.cuh - a function of one half by a table of all its values, on an NVIDIA GPU.
 *
 * A half has 65,536 values, so a table has the bits of the kernel that made it, whatever the
 * function costs.  Each block copies the table to its shared memory, and threads read their
 * elements' values there: of 16 bytes of elements at once. */
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

#endif
