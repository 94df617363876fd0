/* move.h - the host's commands on elements at computed places (cr_indexed). */
#ifndef CR_KERN_MOVE_H
#define CR_KERN_MOVE_H

#include "cresset_backend.h"
#include "num/view.h"

/* Copies n elements of `item` bytes, `stride` elements apart, to adjacent ones, in this
 * thread. */
void cr_move_line(char *to, const char *from, int64_t stride, int64_t n, int64_t item);
/* The functions of the host's table. */
const char *cr_host_move(int index, const cr_array *to, const cr_array *from);
const char *cr_host_fill(int index, const cr_array *to, const void *element);
const char *cr_host_indexed(int index, const cr_indexed *c);
const char *cr_host_combine(int index, const cr_indexed *c);
const char *cr_host_windows(int index, const cr_windows *c);
const char *cr_host_lines(int index, const cr_indexed *c, const cr_move_part *part, int parts);
/* True when all elements of an int32 or int64 view are in [low, high); else *bad is the first
 * that is not. */
bool cr_move_within(const cr_view *index, int64_t low, int64_t high, int64_t *bad);
/* The same for n elements, `step` bytes apart, and [0, extent), in this thread. */
bool cr_move_row_within(const char *index, int64_t step, int64_t n, int64_t extent, bool is32);

#endif
