/* ulp.h - what the parts of the vector tests know of each other. */
#ifndef CR_TESTS_ULP_H
#define CR_TESTS_ULP_H

/* n is a multiple of 16. */
typedef void (*ulp_kernel)(float *to, const float *from, long n);

extern const ulp_kernel ulp_kernels_avx512[], ulp_kernels_avx2[], ulp_kernels_base[];

#endif
