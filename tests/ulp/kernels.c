/* kernels.c - the float32 functions of one instruction set as loops over arrays.
 *
 * Compiled once for each set, with ULP_ISA its name. */
#include "emit/vec.h"
#include "emit/vec_f64.h"
#include "ulp.h"

#define NAME2(isa) ulp_kernels_##isa
#define NAME(isa)  NAME2(isa)

#define ULP(name, reference, bound, stride)                                                    \
    static void run_##name(float *to, const float *from, long n)                               \
    {                                                                                          \
        for (long i = 0; i < n; i += CV_LANES_f32)                                             \
            cv_store_f32(to + i, cv_##name##_f32(cv_load_f32(from + i)));                      \
    }
#include "functions.def"
#undef ULP

#define ULP(name, reference, bound, stride) run_##name,
const ulp_kernel NAME(ULP_ISA)[] = {
#include "functions.def"
};
