/* fused.h - running a loop program: by tiles (tier 0) at once, by native code as soon as it is
 * ready.
 *
 * Both give equal bits. */
#ifndef CR_JIT_FUSED_H
#define CR_JIT_FUSED_H

#include "jit/jit.h"

typedef struct cr_fused cr_fused;

/* Builds the program of a fused kernel in the given session. */
typedef cr_loop *(*cr_loop_maker)(cr_session *s, void *context);

/* Makes the program, simplifies, fuses and schedules it, and requests its native code.  Fails
 * with the errors of the passes.  The caller owns *out. */
CR_MUST cr_status cr_fused_new(cr_fused **out, cr_loop_maker make, void *context);
/* The same for rows of at most CR_FOLD_LANES columns that are reduced: the lanes of the native
 * code are rows (cr_dialect_across), and there are no tiles.  Rows of operands are adjacent. */
CR_MUST cr_status cr_fused_new_across(cr_fused **out, cr_loop_maker make, void *context);
void cr_fused_drop(cr_fused *f);

/* Runs rows.  Operands are those of a cr_kernel: outputs, then inputs, each with two strides in
 * bytes.  Outputs must not overlap inputs.  Threads share the rows; the result does not depend
 * on their number.  A program without tiles waits for its native code. */
CR_MUST cr_status cr_fused_run(const cr_fused *f, void *const *ptr, const int64_t *stride,
                               int64_t rows, int64_t columns, const void *param);
/* The same with a given tier, for tests and measurements.  CR_TIER_NATIVE fails with CR_RUNTIME
 * while there is no native code. */
typedef enum { CR_TIER_BEST, CR_TIER_TILES, CR_TIER_NATIVE } cr_tier;
CR_MUST cr_status cr_fused_run_by(const cr_fused *f, cr_tier tier, void *const *ptr,
                                  const int64_t *stride, int64_t rows, int64_t columns,
                                  const void *param);

/* True when every function of the program has a prebuilt kernel. */
bool cr_fused_has_tiles(const cr_fused *f);

/* The same in parts, for callers that divide the work among threads.  The caller calls begin
 * once, which chooses the tier.  It does not wait, and fails with CR_RUNTIME when there are
 * neither tiles nor native code yet. */
typedef struct {
    const cr_fused *f;
    cr_kernel native;
} cr_fused_call;
/* Runs rows in this thread; `size` is {rows, columns, number of the first row}. The caller may
 * divide a long row when cr_fused_cuts_rows is true: the program has no reduction and no
 * scan, and uses no column's number. */
CR_MUST cr_status cr_fused_part(const cr_fused_call *c, void *const *ptr, const int64_t *stride,
                                const int64_t *size, const void *param);
bool cr_fused_cuts_rows(const cr_fused *f);
/* True when the oracle checks every part: the caller must then run one part after the other. */
bool cr_fused_is_checked(const cr_fused *f);

/* --- schedules --- */

/* Kernels of one program that compute the same bits in different ways. */
typedef enum {
#define CR_SCHEDULE(name, stream, unroll) CR_SCHEDULE_##name,
#include "jit/schedules.def"
#undef CR_SCHEDULE
    CR_SCHEDULES
} cr_schedule;
extern const char *const cr_schedule_names[CR_SCHEDULES];

/* Prints the kernels of all schedules.  The owner of `f` calls it once, before other threads
 * get `f`. */
CR_MUST cr_status cr_fused_add_schedules(cr_fused *f);
/* True when the schedule's kernel differs from that of PLAIN; false when no schedules were
 * added. */
bool cr_fused_has_schedule(const cr_fused *f, cr_schedule s);
/* Requests the schedule's native code in the background.  cr_fused_state tells whether it is
 * ready. */
CR_MUST cr_status cr_fused_ask(cr_fused *f, cr_schedule s, cr_jit_urgency urgency);
cr_jit_state cr_fused_state(const cr_fused *f, cr_schedule s);
/* Like cr_fused_begin with CR_TIER_BEST, with the schedule's native code when it is ready. */
CR_MUST cr_status cr_fused_begin_schedule(cr_fused_call *out, const cr_fused *f, cr_schedule s);

/* Borrowed from `f`. */
cr_jit_kernel *cr_fused_kernel(const cr_fused *f);
const cr_unit *cr_fused_unit(const cr_fused *f);
const cr_nest *cr_fused_nest(const cr_fused *f);
/* Prints the program in another dialect, with a choice or NULL; the caller drops the unit.  Any
 * thread may call it. */
CR_MUST cr_status cr_fused_print(cr_unit *out, const cr_fused *f, const cr_dialect *d,
                                 const cr_emit_choice *choice);
const char *cr_fused_source(const cr_fused *f); /* the kernel's C, without the vocabulary */

#endif
