/* loops.cuh - loops of the host (kern/loops.h) on an NVIDIA GPU: before the text of the loops.
 *
 * CL_REAL is the element type, CL_FN the function, CL_JOB the bytes of its job. */
#ifndef CR_EMIT_LOOPS_CUH
#define CR_EMIT_LOOPS_CUH

#include "emit/move.cuh"

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef cm_i64 int64_t;
#else
extern "C" float fmaf(float, float, float), fabsf(float), cosf(float), sinf(float),
    acosf(float);
extern "C" float log1pf(float);
extern "C" double acos(double), lgamma(double);
extern "C" double floor(double), ceil(double), rint(double), round(double), fabs(double),
    fmod(double, double), cos(double), sin(double), sqrt(double), exp(double), log(double),
    log1p(double), pow(double, double), tan(double), fma(double, double, double);
extern "C" void *memset(void *, int, unsigned long),
    *memcpy(void *, const void *, unsigned long);
#endif
typedef unsigned char uint8_t;
typedef unsigned uint32_t;
typedef unsigned long uint64_t;
#define FLT_MAX            0x1.fffffep127f
#define NAN                __builtin_nan("")
#define INFINITY           __builtin_inf()
#define CR_LEN(a)          (sizeof(a) / sizeof *(a))
#define CL_FOR(k, n, most) CV_ALL for (int64_t k = 0; k < (most); k++) if (k < (n))
#if CL_DOUBLE
#define F(name) name
#else
#define F(name) name##f
#endif

typedef struct {
    uint64_t *word, number;
} cr_loops_error;
CV_FN void cr_loops_report(const cr_loops_error *e, int64_t index)
{
    *e->word = e->number | ((uint64_t)index & 0xffffffffffffULL);
}

#define T          CL_REAL
#define NAME(name) cl_##name

#endif
