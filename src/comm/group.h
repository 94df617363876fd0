/* group.h - groups of ranks and their calls.
 *
 * A group has an engine's link, a store, and one order of calls: calls run one after another,
 * in the caller's thread or in a thread of the group.  Engines of devices start calls in the
 * caller's thread, and a thread of the group watches them.  Transfers of programs (SEND,
 * RECEIVE) run beside them.  The first failure of a transfer breaks the group: it closes its
 * link, so that all ranks fail soon, and every later call fails with the first reason.
 *
 * Before data travels, ranks compare their calls: kind, operation, dtype, counts, number and
 * root. A difference is an error at every rank that names both lines of the programs.  All
 * functions may be called from any thread.
 *
 * A group belongs to the process that made it.  In a forked child its calls fail with CR_COMM;
 * dropping it there leaves the parent's link as it is. */
#ifndef CR_COMM_GROUP_H
#define CR_COMM_GROUP_H

#include "comm/engine.h"

typedef struct cr_comm cr_comm;
typedef struct cr_work cr_work;

typedef struct {
    const char *engine, *name;
    int rank, size;    /* -1: the engine knows */
    const int *global; /* numbers of the ranks in the whole run; NULL: 0, 1, ... */
    cr_store *store;   /* of this group alone; kept */
    int64_t timeout_ms;
    const char *interface; /* "" picks the loopback device where all ranks are on one host */
    const char *where;     /* the program's line, for errors; may be NULL */
} cr_comm_how;

/* Meets the other ranks at the store and opens a link.  The caller owns *out.  Fails with
 * CR_STORE when a rank does not come within the timeout (the message names it), with CR_VALUE
 * for a rank outside [0, size), with CR_COMM when the engine is missing or cannot connect. */
CR_MUST cr_status cr_comm_new(cr_comm **out, const cr_comm_how *how);
cr_comm *cr_comm_keep(cr_comm *g);
void cr_comm_drop(cr_comm *g); /* NULL is allowed */
int cr_comm_rank(const cr_comm *g);
int cr_comm_size(const cr_comm *g);
const char *cr_comm_engine(const cr_comm *g);
/* The kind of device of the group's buffers. */
cr_device_kind cr_comm_device(const cr_comm *g);
int64_t cr_comm_timeout(const cr_comm *g);
void cr_comm_set_timeout(cr_comm *g, int64_t timeout_ms);
/* Whether calls are compared between the ranks before they start, where the engine does not
 * compare them anyway.  Each call then waits for all ranks. */
bool cr_comm_compares(const cr_comm *g);
void cr_comm_set_compares(cr_comm *g, bool compares);
/* Closes the link: calls in progress and later calls fail.  `why` becomes part of their
 * errors. */
void cr_comm_shut(cr_comm *g, const char *why);
/* Waits until all started calls have ended, and ends the group's thread; further calls fail. */
void cr_comm_end(cr_comm *g);
/* The number of the last call of this rank. */
uint64_t cr_comm_sequence(const cr_comm *g);
/* Appends the last calls, one a line: number, kind, sizes, dtype, line, state, duration. */
void cr_comm_history(cr_comm *g, cr_text *out);

/* Starts `n` calls that succeed or fail together.  `where` is the program's line for messages
 * (copied).  The bytes of the buffers must stay until the work is done; the lists of buffers
 * are copied.  With `now`, the calls run before this function returns, in the calling thread if
 * the group is idle.  timeout_ms -1: the group's.  *out is owned.  Fails with CR_VALUE for bad
 * arguments, CR_COMM when the group is broken; a failure of a call is the work's. */
CR_MUST cr_status cr_comm_start(cr_work **out, cr_comm *g, const cr_call_args *calls, int n,
                                const char *where, int64_t timeout_ms, bool now);
/* The same, waiting as cr_work_wait does: also a failure of a call is this function's. */
CR_MUST cr_status cr_comm_run(cr_comm *g, const cr_call_args *call, const char *where);

/* --- works: a group must outlive its works --- */
/* Waits for the end.  timeout_ms -1: until the calls' own limits; with an engine of a device,
 * the device's later work waits and the caller does not, so that a failure may be that of the
 * group's next call.  The work's failure is this function's; CR_COMM when the wait ends before
 * the work. */
CR_MUST cr_status cr_work_wait(cr_work *w, int64_t timeout_ms);
/* True when the work has ended; of a transfer, without waiting for it. */
bool cr_work_is_done(cr_work *w);
/* The same, but of a transfer only true after a wait. */
bool cr_work_ended(cr_work *w);
/* True after a wait in which the device's later work, and not the caller, waited for the calls.
 * The buffers may then be released like those of other work of the stream that waited. */
bool cr_work_is_ordered(cr_work *w);
/* Calls fn(context) after the end, in the thread that ends the work, or now. */
CR_MUST cr_status cr_work_then(cr_work *w, void (*fn)(void *context), void *context);
/* The rank that a RECEIVE got its bytes from; -1 before. */
int cr_work_source(const cr_work *w);
void cr_work_drop(cr_work *w);

#endif
