/* linalg_job.h - loops over elements of matrices, as a device gets them. */
#ifndef CR_KERN_LINALG_JOB_H
#define CR_KERN_LINALG_JOB_H

#include "kern/loops.h"

/* Matrices are column-major; an element has one or two real numbers. */
typedef struct {
    void *to;
    const void *from;
    int64_t *order;              /* room for a permutation of each matrix */
    int64_t m, n, parts, to_row; /* to_row: elements from one column of `to` to the next */
    int64_t from_row;
    bool above;
    cr_loops_error wrong;
    /* Of a batch of matrices that are factored at once; int32_t, as LAPACK has them. */
    int32_t *pivots, *info;
    int64_t sides; /* columns of right sides of a matrix */
    void *ldl;     /* the factors of right sides that are solved by ldl_loops.inc */
    bool hermitian;
} linalg_job;

#endif
