/* choices_job.h - all choices of r of n indices, and exclusive or of lines. */
#ifndef CR_KERN_CHOICES_JOB_H
#define CR_KERN_CHOICES_JOB_H

#include "kern/loops.h"

typedef struct {
    int64_t *to;
    int64_t n, r;
    bool again; /* an index may be chosen more than once */
} choices_job;

/* Lines of `length` dense elements, each cut into `parts`. */
typedef struct {
    const uint64_t *from;
    uint64_t *to;
    int64_t length, parts;
} xor_job;

#endif
