/* blas.h - the system's BLAS, loaded at first use.
 *
 * BLAS runs with one thread.  Callers divide the work themselves, so that there is one thread
 * pool and the order of summation does not depend on the number of threads. */
#ifndef CR_KERN_BLAS_H
#define CR_KERN_BLAS_H

#include "num/dtype.h"

typedef struct {
#define CR_BLAS(result, name, args) result(*name) args;
#include "kern/cpu/library/blas.def"
#undef CR_BLAS
} cr_blas_table;

/* The functions, or NULL when the system has no BLAS. */
const cr_blas_table *cr_blas(void);

#endif
