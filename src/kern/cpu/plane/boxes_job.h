/* boxes_job.h - pairs of boxes, as their loops get them. */
#ifndef CR_KERN_BOXES_JOB_H
#define CR_KERN_BOXES_JOB_H

#include "kern/loops.h"

enum { BOX_CORNERS = 12, BOX_ROWS = 8 /* that are read at once */ };

typedef struct {
    const void *a, *b; /* dense rows */
    int64_t columns;   /* boxes in b */
    float *out;
    /* To leave out boxes: their order, a row of bits for each, and those left out so far. */
    const int64_t *order;
    uint64_t *overlaps, *out_of;
    bool *kept;
    int64_t n, words, boxes;
    int64_t group; /* of 64 boxes of the order */
    double most;
    cr_loops_error wrong; /* a number of the order that no box has */
} boxes_job;

#endif
