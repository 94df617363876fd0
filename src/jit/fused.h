/* fused.h - a loop program that runs: tier 0 at once, native code when it is ready.
 *
 * The two give equal bits, so the change from one to the other cannot be seen. */
#ifndef CR_JIT_FUSED_H
#define CR_JIT_FUSED_H

#include "jit/jit.h"

typedef struct cr_fused cr_fused;

/* Builds the program of a fused kernel in the session given. */
typedef cr_loop *(*cr_loop_maker)(cr_session *s, void *context);

/* Makes the program, simplifies, fuses and schedules it, and asks for its native code.
 * Fails with what the passes refuse.  The caller owns *out. */
CR_MUST cr_status cr_fused_new(cr_fused **out, cr_loop_maker make, void *context);
void cr_fused_drop(cr_fused *f);

/* Operands as a cr_kernel takes them: outputs, inputs, two byte strides each.  Outputs
 * must not overlap inputs.  Rows are shared out over the threads; the result does not
 * depend on their number.  Native code is waited for where there are no tiles. */
CR_MUST cr_status cr_fused_run(const cr_fused *f, void *const *ptr, const int64_t *stride,
                               int64_t rows, int64_t columns, const void *param);
/* The same by a given tier, for tests and measurements; native fails with CR_RUNTIME
 * while there is no native code. */
typedef enum { CR_TIER_BEST, CR_TIER_TILES, CR_TIER_NATIVE } cr_tier;
CR_MUST cr_status cr_fused_run_by(const cr_fused *f, cr_tier tier, void *const *ptr,
                                  const int64_t *stride, int64_t rows, int64_t columns,
                                  const void *param);

/* Tiles need kernels of all the program's functions: it may have none. */
bool cr_fused_has_tiles(const cr_fused *f);

/* The same in parts, for callers that share out the work themselves.  Begin once: it takes the
 * tier.  Nothing is waited for: CR_RUNTIME where there are neither tiles nor native code yet. */
typedef struct {
    const cr_fused *f;
    cr_kernel native;
} cr_fused_call;
/* Rows of `size` = {rows, columns, number of the first row}, in this thread.  A long row may be
 * cut where the program reduces nothing and numbers no columns (cr_fused_cuts_rows). */
CR_MUST cr_status cr_fused_part(const cr_fused_call *c, void *const *ptr, const int64_t *stride, const int64_t *size,
                                const void *param);
bool cr_fused_cuts_rows(const cr_fused *f);
/* The oracle looks over every part: they have to come one after the other. */
bool cr_fused_is_checked(const cr_fused *f);

/* --- schedules --- */

/* Kernels of one program that differ in how they go about it, not in a bit. */
typedef enum {
#define CR_SCHEDULE(name, stream, unroll) CR_SCHEDULE_##name,
#include "jit/schedules.def"
#undef CR_SCHEDULE
    CR_SCHEDULES
} cr_schedule;
extern const char *const cr_schedule_names[CR_SCHEDULES];

/* Prints the kernels of all schedules; once, by whoever made `f`, before others have it. */
CR_MUST cr_status cr_fused_add_schedules(cr_fused *f);
/* The schedule's kernel is another than that of PLAIN; false where they were not added. */
bool cr_fused_has_schedule(const cr_fused *f, cr_schedule s);
/* Asks for its native code, in the background; and where it stands. */
CR_MUST cr_status cr_fused_ask(cr_fused *f, cr_schedule s, cr_jit_urgency urgency);
cr_jit_state cr_fused_state(const cr_fused *f, cr_schedule s);
/* As cr_fused_begin with CR_TIER_BEST; by the schedule's code where it is there. */
CR_MUST cr_status cr_fused_begin_schedule(cr_fused_call *out, const cr_fused *f, cr_schedule s);

/* Borrowed from `f`. */
cr_jit_kernel *cr_fused_kernel(const cr_fused *f);
const cr_nest *cr_fused_nest(const cr_fused *f);
const char *cr_fused_source(const cr_fused *f); /* the kernel's C, without the vocabulary */

#endif
