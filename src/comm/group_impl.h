/* group_impl.h - shared by group.c, collective.c and report.c. */
#ifndef CR_COMM_GROUP_IMPL_H
#define CR_COMM_GROUP_IMPL_H

#include "base/clock.h"
#include "comm/group.h"
#include "comm/peers.h"
#include <pthread.h>
#include <stdatomic.h>

enum {
    CR_WHERE_BYTES = 160,
    CR_FRAME_DATA = 65536,      /* bytes of a call that a rank sends with its descriptions */
    CR_FRAME_LEAST_DATA = 4096, /* the same to one other rank, where there are many */
    CR_FRAME_RANKS = 16,        /* with more ranks, descriptions go to neighbours only */
    CR_HISTORY = 4096
};

/* What ranks tell each other about a call.  Where `whole` is set, `data` has all bytes that
 * this rank contributes.  A frame has room for the group's frame_data bytes; those that are
 * used travel. */
typedef struct {
    uint64_t sequence;
    int64_t count;    /* elements that this rank contributes */
    int64_t shown;    /* elements that errors name: those of this rank's tensor */
    uint64_t sizes;   /* a hash of counts that all ranks must state alike */
    uint64_t further; /* a hash of the counts of further calls, whose data follow */
    uint32_t more;    /* the number of further calls */
    uint8_t strict;   /* all ranks must make the same ones */
    uint32_t bytes;   /* of data */
    int32_t root;
    uint8_t kind, op, dtype, whole;
    char where[CR_WHERE_BYTES];
    _Alignas(16) char data[];
} cr_frame;

/* A line of the history. */
typedef struct {
    uint64_t sequence;
    double start, end;    /* end 0: in progress */
    int64_t count, taken; /* elements that this rank gives, and takes */
    uint8_t kind, dtype;
    bool failed;
    char where[CR_WHERE_BYTES];
} cr_history_line;

/* The works that wait, and the thread that runs them. */
typedef struct {
    cr_work *first, *last; /* waiting for the thread */
    bool has_thread, ends, busy;
    pthread_t thread;
    pid_t process; /* that made the group */
} cr_comm_queue;

/* Why a group is broken. */
typedef struct {
    bool broken;
    bool told; /* the reason is complete: ranks and calls were looked up */
    cr_text why;
} cr_comm_broken;

/* Comparing calls of an engine of a device before they start. */
typedef struct {
    pthread_mutex_t starting; /* held while an engine of a device starts a call */
    _Atomic bool compares; /* calls of an engine of a device are compared before they start */
    uint64_t compared;     /* calls; by the thread that starts */
} cr_comm_compared;

/* The memory of the call in progress, which alone uses it. */
typedef struct {
    size_t frame_data;           /* bytes of data in a frame */
    char *frames, *other_frames; /* two sets of size + 1 frames; the last is this rank's own */
    void **ahead;                /* by rank: receives of the next call's frames */
    void **transfers;            /* room for 2 * size */
    char *scratch;
    size_t scratch_bytes;
} cr_comm_frames;

/* A group of processes.
 * Invariant: queue, broken_by.broken and .told, and .why change under `lock`. frames_of is
 * used by the call in progress alone. `global` has `size` ranks, and rank < size. A group
 * that is broken stays broken. */
struct cr_comm {
    _Atomic int count;
    const cr_engine *engine;
    void *link;
    cr_store *store;
    cr_peers *peers; /* NULL: the engine needs none */
    int rank, size;
    int *global;
    _Atomic int64_t timeout_ms;
    char *name;

    pthread_mutex_t lock; /* of the fields below */
    pthread_cond_t changed;
    cr_comm_queue queue;
    cr_comm_broken broken_by;
    cr_comm_compared compared_by;
    uint64_t sequence;
    cr_history_line *history; /* CR_HISTORY lines, by sequence */
    cr_comm_frames frames_of;
};

/* The number of a rank in the whole run, which errors name. */
static inline int cr_global_rank(const cr_comm *g, int rank)
{
    return g->global && rank >= 0 && rank < g->size ? g->global[rank] : rank;
}

/* A call in progress. */
typedef struct {
    cr_comm *g;
    const cr_call_args *args;
    int further; /* all_reduces after args[0] that go with it if the other ranks do the same */
    const char *where;
    uint64_t sequence;
    double start, end; /* end: the time limit */
} cr_running;

/* The bytes of a frame of a group, of which sets are made. */
static inline size_t cr_frame_bytes(const cr_comm *g)
{
    return sizeof(cr_frame) + g->frames_of.frame_data;
}

/* Runs a call by messages, or by the engine (collective.c).  *alone: the further calls were not
 * run. */
CR_MUST cr_status cr_collective_run(const cr_running *c, bool *alone);
/* Compares a call with those of the other ranks, through the group's store, and waits for them.
 * c->sequence counts compared calls. */
CR_MUST cr_status cr_collective_compare(const cr_running *c);
/* A rank leaves the comparison; the last one deletes the remaining frames from the store. */
void cr_collective_leave(cr_comm *g);
/* Runs the first calls of c, which has n, that travel as one; *ran: how many (join.c). */
CR_MUST cr_status cr_join_run(const cr_running *c, int n, int *ran);

/* Waits for a transfer until the time `end`. */
CR_MUST cr_status cr_transfer_wait(cr_comm *g, void *transfer, double end, int *from);

/* Replaces the thread's error by one that says which call failed, and where the other ranks are
 * (report.c).  The group is broken already. */
cr_status cr_report(const cr_running *c, cr_status st);
/* The same for a group that cannot be made: names it, and a rank that has ended. */
cr_status cr_report_open(const cr_comm *g, const cr_comm_how *how, cr_status st);
/* Whether another rank has reported a failure. */
bool cr_is_broken_elsewhere(const cr_comm *g);
#define CR_BROKEN_KEY "broken"
/* Marks the group broken and shuts its link; the first reason stays. */
void cr_comm_break(cr_comm *g, const char *why);

#endif
