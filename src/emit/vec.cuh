/* vec.cuh - the vocabulary on an NVIDIA GPU: included before vec.h.
 *
 * A thread computes with vectors of 16 bytes.  The text of vec*.h is that of processors; here
 * are the fused multiply-add, lane by lane, and the words that make its functions the
 * device's.  For clang. */
#ifndef CR_EMIT_VEC_CUH
#define CR_EMIT_VEC_CUH

#undef __SSE2__
#define CV_FN   static inline __attribute__((device, always_inline, unused))
#define CV_SLOW static __attribute__((device, noinline, unused))
#define CV_LIBM extern "C" __attribute__((device))

#define CV_HAS_FMA 1
typedef float cv_fma_lanes_f32 __attribute__((vector_size(16)));
typedef double cv_fma_lanes_f64 __attribute__((vector_size(16)));
CV_FN cv_fma_lanes_f32 cv_x_fma_f32(cv_fma_lanes_f32 a, cv_fma_lanes_f32 b, cv_fma_lanes_f32 c)
{
    for (int i = 0; i < 4; i++)
        a[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return a;
}
CV_FN cv_fma_lanes_f64 cv_x_fma_f64(cv_fma_lanes_f64 a, cv_fma_lanes_f64 b, cv_fma_lanes_f64 c)
{
    for (int i = 0; i < 2; i++)
        a[i] = __builtin_fma(a[i], b[i], c[i]);
    return a;
}
#define CV_X_FMA_f32 cv_x_fma_f32
#define CV_X_FMA_f64 cv_x_fma_f64

#endif
