/* kernels64.c - the float64 functions of one instruction set as loops over arrays.
 *
 * Compiled once for each set, with ULP_ISA its name. */
#include "emit/vec.h"
#include "emit/vec_f64.h"
#include "ulp.h"

#define NAME2(isa) ulp_kernels64_##isa
#define NAME(isa)  NAME2(isa)

#define ULP64(name, reference, bound, draw)                                                    \
    static void run_##name(double *to, const double *x, const double *y, long n)               \
    {                                                                                          \
        (void)y;                                                                               \
        for (long i = 0; i < n; i += CV_LANES_f64)                                             \
            cv_store_f64(to + i, cv_##name##_f64(cv_load_f64(x + i)));                         \
    }
#define ULP64_2(name, reference, bound, draw)                                                  \
    static void run_##name(double *to, const double *x, const double *y, long n)               \
    {                                                                                          \
        for (long i = 0; i < n; i += CV_LANES_f64)                                             \
            cv_store_f64(to + i, cv_##name##_f64(cv_load_f64(x + i), cv_load_f64(y + i)));     \
    }
#include "doubles.def"
#undef ULP64
#undef ULP64_2

#define ULP64(name, reference, bound, draw)   run_##name,
#define ULP64_2(name, reference, bound, draw) run_##name,
const ulp_kernel64 NAME(ULP_ISA)[] = {
#include "doubles.def"
};
