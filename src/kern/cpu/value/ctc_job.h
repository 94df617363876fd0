/* ctc_job.h - connectionist temporal classification, a sample a unit. */
#ifndef CR_KERN_CTC_JOB_H
#define CR_KERN_CTC_JOB_H

#include "kern/loops.h"

/* A call of the connectionist temporal classification.
 * Invariant: states = 2 * (most labels of a sample) + 1. Members of one direction are NULL
 * in the other one. */
typedef struct {
    const void *logp;       /* [steps, samples, classes] */
    const int64_t *targets; /* one after the other */
    const int64_t *length;  /* of each sample: steps, labels, the place of its first target */
    int64_t steps, samples, classes, states, blank;
    double *alpha, *beta; /* [samples, steps, states]; beta: backward only */
    double *share;        /* backward: [samples, classes] */
    void *loss;           /* [samples] */
    void *log_alpha;      /* forward: [samples, steps, states] */
    const void *grad;     /* backward: [samples] */
    void *slope;          /* backward: [steps, samples, classes], zeros */
    int64_t skips;        /* backward: samples of infinite loss have no slope */
    cr_loops_error wrong;
} ctc_job;

#endif
