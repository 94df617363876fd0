/* each.h - functions of corresponding elements, whose loops run on any device. */
#ifndef CR_KERN_EACH_H
#define CR_KERN_EACH_H

#include "kern/cpu/each_job.h"
#include "num/view.h"

/* Runs a loop over the elements of `out`, in float64 if `out` has it and float32 otherwise; the
 * arguments are broadcast to its sizes.  `grain` is that of cr_parallel_for. */
CR_MUST cr_status cr_each_run(const cr_loops *l, int64_t which, const cr_value *arg, int count,
                              const cr_view *out, int64_t grain);
/* The same on a device for random numbers of the generator in `generator`, or the device's.
 * `text` is the error for an argument that the loop refuses. */
CR_MUST cr_status cr_each_draw(const cr_loops *l, const cr_value *arg, int count,
                               const cr_value *generator, const char *text, const cr_view *out);

#endif
