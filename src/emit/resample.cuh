/* resample.cuh - resampling of planes, and its transpose, on an NVIDIA GPU.
 *
 * Follows move.cuh.  A thread computes the elements of CU_LANES channels at one place of the
 * result: the weighted sum over the taps of the outer axis of such sums over the middle axis,
 * and so on.  These are the sums that the host computes for one dimension after another, so
 * they have its bits.  CU_ITEM is the type of elements, CU_WIDE the type of sums, CU_WEIGHT the
 * type of weights. */
#ifndef CR_EMIT_RESAMPLE_CUH
#define CR_EMIT_RESAMPLE_CUH

#include "emit/move.cuh"

/* Place p of the result has the taps start[p] ... start[p + 1] - 1. */
struct cu_axis {
    const int *start, *index;
    const CU_WEIGHT *weight;
    cm_i64 step;  /* bytes of the source */
    int dim;      /* of the result */
    int fraction; /* bits of a byte's weight after the point */
    int one;      /* the only tap of the only place has weight 1 */
};
struct cu_call {
    char *to;
    const char *from;
    cm_i64 n, size[5], to_step[5], from_step[5]; /* from_step: 0 for dims with an axis */
    cm_i64 to_lane, from_lane;                   /* from a thread's channel to the next one */
    cu_axis axis[3];                             /* from the outermost sum inwards */
    double none;                                 /* to which the first term is added */
    int adjacent;                                /* a thread's channels, and aligned */
};

/* Elements of a thread's channels, in memory and as they are added. */
struct alignas(CU_LANES * sizeof(CU_ITEM)) cu_vector {
    CU_ITEM item[CU_LANES];
};
struct cu_sums {
    CU_WIDE of[CU_LANES];
};
#define CU_EACH CV_ALL for (int l = 0; l < CU_LANES; l++)

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

CV_FN void cu_read(const cu_call &c, const char *at, cu_sums &x)
{
    if (c.adjacent) {
        const cu_vector v = *(const cu_vector *)at;
        CU_EACH x.of[l] = cu_load(&v.item[l]);
    } else {
        CU_EACH x.of[l] = cu_load((const CU_ITEM *)(at + l * c.from_lane));
    }
}

/* Adds up `text`, which computes the elements x at `from`, over the taps of place p of an
 * axis. */
#define CU_SUM(number, p, text)                                                                \
    const cu_axis &a = c.axis[number];                                                         \
    const int first = a.one ? 0 : a.start[p], end = a.one ? 1 : a.start[(p) + 1];              \
    CU_EACH sum.of[l] = cu_start(c, number, (CU_WIDE)0);                                       \
    for (int k = first; k < end; k++) {                                                        \
        const CU_WEIGHT w = a.one ? (CU_WEIGHT)1 : a.weight[k];                                \
        const char *const from = a.one ? at : at + a.index[k] * a.step;                        \
        cu_sums x;                                                                             \
        text;                                                                                  \
        CU_EACH sum.of[l] = sum.of[l] + w * x.of[l];                                           \
    }                                                                                          \
    CU_EACH sum.of[l] = cu_end(c, number, sum.of[l]);

CV_FN void cu_line(const cu_call &c, const char *at, int p,
                   cu_sums &sum){CU_SUM(2, p, cu_read(c, from, x))} CV_FN
    void cu_plane(const cu_call &c, const char *at, int p, int q,
                  cu_sums &sum){CU_SUM(1, p, cu_line(c, from, q, x))} CV_FN
    void cu_volume(const cu_call &c, const char *at, int p, int q, int r, cu_sums &sum)
{
    CU_SUM(0, p, cu_plane(c, from, q, r, x))
}

template <class I> CV_FN void cu_element(const cu_call &c, I i)
{
    cm_i64 to = 0, from = 0;
    I place[5];
    int at[3];
    cu_sums sum;
    cu_vector out;

    CV_ALL
    for (int d = 4; d >= 0; d--) {
        const I next = d ? c.size[d] == 1 ? i : i / (I)c.size[d] : 0;
        place[d] = i - next * (I)c.size[d];
        to += place[d] * c.to_step[d];
        from += place[d] * c.from_step[d];
        i = next;
    }
    CV_ALL
    for (int k = 0; k < 3; k++) {
        at[k] = 0;
        CV_ALL
        for (int d = 0; d < 5; d++)
            at[k] = d == c.axis[k].dim ? (int)place[d] : at[k];
    }
    cu_volume(c, c.from + from, at[0], at[1], at[2], sum);
    CU_EACH out.item[l] = cm_to<CU_ITEM>::of(sum.of[l]);
    if (c.adjacent)
        *(cu_vector *)(c.to + to) = out;
    else {
        CU_EACH *(CU_ITEM *)(c.to + to + l * c.to_lane) = out.item[l];
    }
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
