/* matrix.cuh - products of small matrices of half types by a warp, on tensor cores.
 *
 * Follows move.cuh. */
#ifndef CR_EMIT_MATRIX_CUH
#define CR_EMIT_MATRIX_CUH

#include "emit/move.cuh"

/* Lane l has of an 8 x 8 matrix row l / 4, columns l % 4 * 2 and the next one.  A 16 x 16
 * operand has four such matrices. */
#if defined(__CUDA_ARCH__)
CV_FN unsigned ca_shared(const void *p)
{
    unsigned at;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(at) : "l"(p));
    return at;
}
/* An address of shared memory. */
typedef unsigned ca_place;
CV_FN ca_place ca_place_of(const void *p) { return ca_shared(p); }
/* Lane 8 * j + i has the address of row i of matrix j. */
CV_FN void ca_load_at(unsigned *r, ca_place row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
CV_FN void ca_load_turned_at(unsigned *r, ca_place row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(row)
                 : "memory");
}
#define CA_MULTIPLY(type)                                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
CV_FN void ca_multiply(float *c, const unsigned *a, const unsigned *b, cm_bf16)
{
    CA_MULTIPLY("bf16");
}
CV_FN void ca_multiply(float *c, const unsigned *a, const unsigned *b, cm_f16)
{
    CA_MULTIPLY("f16");
}
/* Operands of products, whose NaN may have any bits. */
CV_FN unsigned ca_round(float low, float high, cm_bf16)
{
    unsigned u;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
}
CV_FN unsigned ca_round(float low, float high, cm_f16)
{
    unsigned u;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
}
#else
typedef char *ca_place;
CV_FN ca_place ca_place_of(const void *p) { return (char *)p; }
CV_FN void ca_load_at(unsigned *r, ca_place row) { simt::load_matrices(r, row, false); }
CV_FN void ca_load_turned_at(unsigned *r, ca_place row) { simt::load_matrices(r, row, true); }
template <class T> CV_FN void ca_multiply(float *c, const unsigned *a, const unsigned *b, T)
{
    simt::multiply(c, a, b, [](unsigned short h) { return cm_real(T{h}); });
}
CV_FN unsigned ca_round(float low, float high, cm_bf16) { return ck_pair_bf16(low, high); }
CV_FN unsigned ca_round(float low, float high, cm_f16) { return ck_pair_f16(low, high); }
#endif

CV_FN void ca_load(unsigned *r, const void *row) { ca_load_at(r, ca_place_of(row)); }
CV_FN void ca_load_turned(unsigned *r, const void *row)
{
    ca_load_turned_at(r, ca_place_of(row));
}

#endif
