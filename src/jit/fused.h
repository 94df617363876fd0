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
 * depend on their number. */
CR_MUST cr_status cr_fused_run(const cr_fused *f, void *const *ptr, const int64_t *stride,
                               int64_t rows, int64_t columns, const void *param);
/* The same by a given tier, for tests and measurements; native fails with CR_RUNTIME
 * while there is no native code. */
typedef enum { CR_TIER_BEST, CR_TIER_TILES, CR_TIER_NATIVE } cr_tier;
CR_MUST cr_status cr_fused_run_by(const cr_fused *f, cr_tier tier, void *const *ptr,
                                  const int64_t *stride, int64_t rows, int64_t columns,
                                  const void *param);

/* Borrowed from `f`. */
cr_jit_kernel *cr_fused_kernel(const cr_fused *f);
const cr_nest *cr_fused_nest(const cr_fused *f);
const char *cr_fused_source(const cr_fused *f); /* the kernel's C, without the vocabulary */

#endif
