/* defer.h - calls that wait until somebody needs a value.
 *
 * In a region of a thread, calls of operators check their arguments and make results with exact
 * sizes, strides and dtype, but without bytes ("pending"), and are noted in the thread's trace.
 * A flush runs the noted calls in order.  cr_reach and its kin flush, and so do calls that
 * cannot be deferred, other threads that use a pending tensor, and the end of the thread. */
#ifndef CR_TENSOR_DEFER_H
#define CR_TENSOR_DEFER_H

#include "tensor/tensor.h"

/* Starts a region of the thread, and ends it; regions nest.  The end does not flush. */
CR_MUST cr_status cr_defer_begin(void);
void cr_defer_end(void);
/* by = 1: calls run at once, in a region too; -1 ends that. */
void cr_defer_pause(int by);
bool cr_defer_in_region(void);
/* Whether a call that the thread makes now is deferred, if its entry can be. */
bool cr_defer_active(void);
/* Number of calls that wait in the thread's trace. */
size_t cr_defer_pending(void);
/* Runs the calls of the thread's trace; `why` is for the report.  Fails with the error of the
 * first call that failed; results of failed calls raise that error whenever they are read. */
CR_MUST cr_status cr_defer_flush(const char *why);
/* The reason of a flush for which the program did nothing: the trace is at its bounds. */
extern const char cr_defer_full[];
/* The reason of a flush before another thread writes elements that a waiting call reads. */
extern const char cr_defer_written[];
/* The region is a call of a compiled function, which measures whether programs pay.  `how`:
 * flags of the compiler for the calls that wait in the thread's trace and those of this
 * region. */
void cr_defer_programs_are(unsigned how);
/* Whether the thread's next backward pass is deferred: a region has made its graph. */
extern CR_THREAD bool cr_defer_backward;
/* Seconds that the thread has spent in flushes and in backward passes.  What takes time is
 * between a start and a stop; these nest. */
double cr_defer_clock(void);
void cr_defer_clock_start(void);
void cr_defer_clock_stop(void);
/* Every thread is in a region from now on (CR_LAZY=1). */
void cr_defer_everywhere(void);

/* What happened in the thread since the last call of cr_defer_take_counts. */
typedef struct {
    int64_t noted; /* calls deferred */
    int64_t known; /* of these, those whose results were known by their keys */
    int64_t ran;   /* calls that a flush ran */
    int64_t dead;  /* calls dropped because nobody can read their results */
    int64_t now;   /* calls of a region that ran at once */
    int64_t flushes;
    int64_t programs; /* flushes that ran one program */
    int64_t found;    /* of these, those whose program was found by known calls */
    int64_t bytes;    /* of the trace's records now */
} cr_defer_counts;
cr_defer_counts cr_defer_take_counts(void);
/* How often other threads ran the thread's calls, since they needed or wrote elements. */
uint64_t cr_defer_flushed_apart(void);
/* Called after each flush, with its number of calls and its reason.  `op`: the entry whose call
 * needed elements; NULL: the program did.  NULL: no report. */
typedef void (*cr_defer_report_fn)(size_t calls, const char *why, const cr_op *op);
void cr_defer_set_report(cr_defer_report_fn fn);
/* The reason of the flushes that the thread's next cr_reach makes, for the report. */
extern CR_THREAD const char *cr_defer_reason;
extern CR_THREAD const cr_op *cr_defer_entry;

/* --- for the kernels --- */
/* Runs the calls that make or write `t`, and gives `t` its address.  Does nothing inside of a
 * flush or a call that runs at once: their arguments have bytes. */
CR_MUST cr_status cr_defer_settle(cr_tensor *t);
CR_MUST cr_status cr_defer_settle_all(const cr_op *op, const cr_value *arg);
/* Runs an entry below all stages for a recorder, which gets the calls that it makes: those of a
 * composition are deferred, those of an entry that may read elements are not. */
CR_MUST cr_status cr_defer_by_parts(const cr_op *op, const cr_value *arg, cr_value *result);
CR_MUST cr_status cr_defer_settle_storage(cr_storage *s);
/* The same before bytes are written other than by a call: calls that read them run, too. */
CR_MUST cr_status cr_defer_before_write(cr_storage *s);
/* References that traces hold to the storage. */
static inline int32_t cr_defer_references(const cr_storage *s)
{
    return atomic_load_explicit(&s->traces, memory_order_relaxed);
}

#endif
