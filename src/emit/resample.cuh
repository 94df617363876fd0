/* resample.cuh - resampling of planes, and its transpose, on an NVIDIA GPU.
 *
 * Follows move.cuh.  A thread computes an element of the result: the weighted sum over the taps
 * of the outer axis of such sums over the middle axis, and so on.  These are the sums that the
 * host computes for one dimension after another, so they have its bits.  CU_ITEM is the type of
 * elements, CU_WIDE the type of sums, CU_WEIGHT the type of weights. */
#ifndef CR_EMIT_RESAMPLE_CUH
#define CR_EMIT_RESAMPLE_CUH

#include "emit/move.cuh"

/* Place p of the result has the taps start[p] ... start[p + 1] - 1. */
struct cu_axis {
    const cm_i64 *start, *index;
    const CU_WEIGHT *weight;
    cm_i64 step;  /* bytes of the source */
    int dim;      /* of the result */
    int fraction; /* bits of a byte's weight after the point */
};
struct cu_call {
    char *to;
    const char *from;
    cm_i64 n, size[5], to_step[5], from_step[5]; /* from_step: 0 for dims with an axis */
    cu_axis axis[3];                             /* from the outermost sum inwards */
    double none;                                 /* to which the first term is added */
};

CV_FN float cu_load(const cm_f16 *p) { return cm_real(*p); }
CV_FN float cu_load(const cm_bf16 *p) { return cm_real(*p); }
CV_FN float cu_load(const float *p) { return *p; }
CV_FN double cu_load(const double *p) { return *p; }
CV_FN int cu_load(const unsigned char *p) { return *p; }

CV_FN float cu_start(const cu_call &c, int, float) { return (float)c.none; }
CV_FN double cu_start(const cu_call &c, int, double) { return c.none; }
CV_FN int cu_start(const cu_call &c, int axis, int)
{
    return c.axis[axis].fraction ? 1 << (c.axis[axis].fraction - 1) : 0;
}
CV_FN float cu_end(const cu_call &, int, float x) { return x; }
CV_FN double cu_end(const cu_call &, int, double x) { return x; }
CV_FN int cu_end(const cu_call &c, int axis, int x)
{
    x >>= c.axis[axis].fraction;
    return x < 0 ? 0 : x > 255 ? 255 : x;
}

CV_FN CU_WIDE cu_line(const cu_call &c, const char *at, cm_i64 p)
{
    const cu_axis &a = c.axis[2];
    CU_WIDE sum = cu_start(c, 2, (CU_WIDE)0);

    for (cm_i64 k = a.start[p]; k < a.start[p + 1]; k++)
        sum = sum + a.weight[k] * cu_load((const CU_ITEM *)(at + a.index[k] * a.step));
    return cu_end(c, 2, sum);
}

CV_FN CU_WIDE cu_plane(const cu_call &c, const char *at, cm_i64 p, cm_i64 q)
{
    const cu_axis &a = c.axis[1];
    CU_WIDE sum = cu_start(c, 1, (CU_WIDE)0);

    for (cm_i64 k = a.start[p]; k < a.start[p + 1]; k++)
        sum = sum + a.weight[k] * cu_line(c, at + a.index[k] * a.step, q);
    return cu_end(c, 1, sum);
}

template <class I> CV_FN void cu_element(const cu_call &c, I i)
{
    const cu_axis &a = c.axis[0];
    cm_i64 place[5], to = 0, from = 0;
    CU_WIDE sum = cu_start(c, 0, (CU_WIDE)0);

    CV_ALL
    for (int d = 4; d >= 0; d--) {
        const I next = d ? i / (I)c.size[d] : 0;
        place[d] = i - next * (I)c.size[d];
        to += place[d] * c.to_step[d];
        from += place[d] * c.from_step[d];
        i = next;
    }
    cm_i64 at[3];
    CV_ALL
    for (int k = 0; k < 3; k++) {
        at[k] = 0;
        CV_ALL
        for (int d = 0; d < 5; d++)
            at[k] = d == c.axis[k].dim ? place[d] : at[k];
    }
    for (cm_i64 k = a.start[at[0]]; k < a.start[at[0] + 1]; k++)
        sum =
            sum + a.weight[k] * cu_plane(c, c.from + from + a.index[k] * a.step, at[1], at[2]);
    *(CU_ITEM *)(c.to + to) = cm_to<CU_ITEM>::of(cu_end(c, 0, sum));
}

CK_KERNEL(cu_resample, cu_call)
{
    for (cm_i64 i = ck_first_x(); i < call.n; i += ck_step_x())
        if (call.n <= 0x7fffffff)
            cu_element(call, (unsigned)i);
        else
            cu_element(call, i);
}

#endif
