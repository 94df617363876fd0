/* window.h - folds of windows: what a loop `fold[u.. < n](...)` becomes
 * (tensor/stated_window.c).
 *
 * Planes of the source and of the result follow each other, row-major.  A dim of a window has,
 * for each place of the result along it, positions of the source.  An element of the result is
 * the fold of the elements at all sums of a position of each dim, the last dim fastest. */
#ifndef CR_KERN_WINDOW_H
#define CR_KERN_WINDOW_H

#include "base/memory.h"
#include "cresset_backend.h"
#include "num/view.h"

enum { CR_WINDOW_DIMS = 3 };

/* `n` positions from `offset` on, `step` elements apart; `first` is the first one's number in
 * the window. */
typedef struct {
    int64_t offset, step, n, first;
} cr_window_range;

/* Places at, at + step, ... of the result: `n` of them, whose positions are in the same ranges,
 * each time `shift` elements further. */
typedef struct {
    int64_t at, n, step, shift;
    int64_t range, ranges; /* in the dim's list */
} cr_window_run;

/* The places [place, place + n) of a dim's order have a position with one number in the window:
 * `offset`, and for each further place the dim's `shift` more. */
typedef struct {
    int64_t place, n, offset, number;
} cr_window_segment;

typedef struct {
    int64_t size, in; /* of the result, and of the source */
    CR_VEC(cr_window_run) run;
    CR_VEC(cr_window_range) range;
    int64_t *run_of; /* the run of each place, but for the last dim; else NULL */
    double *count;   /* the factor of each place in the divisor of the sum, or NULL */
    double *share;   /* the factor of each source element's divisor, or NULL; the factors are
                      * sizes, which double holds exactly */
    /* Of the last dim.  Segments, in the order of positions, if rows are folded by them; a
     * segment's places are numbered as follows: first the places 0, period, 2 * period, ...,
     * then 1, 1 + period, and so on. */
    CR_VEC(cr_window_segment) segment;
    int64_t period, shift;
    int64_t *first; /* with segments: the offset of each place's first position, or -1, in the
                     * same numbering */
} cr_window_dim;

/* Missing leading dims have one place and one position. */
typedef struct {
    bool extreme;            /* the maximum, and its position; or else the sum */
    int64_t planes, in, out; /* in, out: elements of a plane */
    int64_t divisor;         /* 1, or the constant part of the divisor */
    bool divides;            /* the sum; and, if `shares`, the source's elements before */
    bool shares;
    cr_window_dim dim[CR_WINDOW_DIMS];
} cr_window;

/* The same as lists of each place's ranges, for devices: `lists` owns what `out` names.
 * CR_MEMORY. */
typedef CR_VEC(int64_t) cr_window_lists;
CR_MUST cr_status cr_window_list(cr_windows *out, cr_window_lists *lists, const cr_window *w);
/* The bytes of a window and its lists; 0 for NULL. */
size_t cr_window_bytes(const cr_window *w);
void cr_window_drop(cr_window *w);

#endif
