/* ulp.h - shared by the files of the vector tests. */
#ifndef CR_TESTS_ULP_H
#define CR_TESTS_ULP_H

/* n is a multiple of 16. */
typedef void (*ulp_kernel)(float *to, const float *from, long n);

/* The same for float64 functions of one argument, or two; n is a multiple of 8. */
typedef void (*ulp_kernel64)(double *to, const double *x, const double *y, long n);

enum { ULP_TRACE = 64 };

/* Checks everything except accuracy and returns the number of failures.  Adds results that must
 * have the same bits on every instruction set to `trace`. */
typedef int (*ulp_lanes)(unsigned long *trace);

int ulp_lanes_avx512(unsigned long *trace);
int ulp_lanes_avx2(unsigned long *trace);
int ulp_lanes_base(unsigned long *trace);

extern const ulp_kernel ulp_kernels_avx512[], ulp_kernels_avx2[], ulp_kernels_base[];
extern const ulp_kernel64 ulp_kernels64_avx512[], ulp_kernels64_avx2[], ulp_kernels64_base[];

#endif
