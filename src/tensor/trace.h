/* trace.h - the trace of a thread, shared by the files defer*.c.
 *
 * A trace keeps arguments as headers over stand-ins: storages without bytes that only the trace
 * knows.  While a call is noted, kernels take them for fakes, and no header of the program
 * changes.  A flush gives the stand-ins their bytes. */
#ifndef CR_TENSOR_TRACE_H
#define CR_TENSOR_TRACE_H

#include "base/memory.h"
#include "tensor/defer.h"
#include <pthread.h>
#include <stddef.h>

enum { CR_MOST_TRACES = 1024, CR_FAILED_TRACE = 0xffff };

struct cr_known;

/* A storage that calls of a trace read, write or make. */
typedef struct {
    cr_storage *real; /* one reference; NULL once a flush has freed it */
    cr_storage shown; /* the stand-in */
    size_t index;     /* in the trace */
    size_t last; /* in a flush: the last call that uses it; SIZE_MAX: the program reads it */
    bool made;   /* a call of the trace makes the bytes */
    bool copied; /* a copy of outside memory, which only the trace has */
    bool failed; /* in a flush: the call that makes it failed */
    bool needed; /* in a flush: a later call or the program reads it */
    bool other;  /* while some calls run alone: another call uses or writes it */
} cr_memory;

/* `arg`, `like` and `result` of a known call are NULL until cr_noted_spell_out. */
typedef struct {
    const cr_op *op;
    const struct cr_known *known; /* the kept call with the same key, or NULL */
    cr_memory **use;  /* the storages of the tensors among the arguments, in their order */
    cr_memory **out;  /* the storages that the results get, in the order of the results */
    cr_value *arg;    /* tensors are headers over stand-ins */
    cr_tensor **like; /* a header of each of `out`, with the geometry that was promised */
    cr_tensor *
        *result; /* a header of each tensor of the results; NULL: none, or without bytes */
    int uses, outs, results;
    bool inference, writes, live;
} cr_noted;

struct cr_defer_thread;
/* Calls that wait to be run together.
 * Invariant: `calls` is in the order in which the program made them. A memory of `memories`
 * is in `table` by its block. The first `gone` calls ran already. `flusher` alone runs the
 * calls. */
typedef struct cr_trace {
    pthread_mutex_t lock;
    uint16_t number;                           /* 1 to CR_MOST_TRACES */
    int regions;                               /* of the owner, nested */
    _Atomic(struct cr_defer_thread *) flusher; /* runs the calls now; NULL: none */
    unsigned how;                              /* flags of the compiler for its program */
    bool measured; /* a compiled function measures whether programs pay */
    bool found;    /* the program of the last flush was found by known calls */
    CR_VEC(cr_noted) calls;
    size_t gone; /* calls that ran before the next flush, or were refused: stand-ins stay */
    CR_VEC(cr_memory *) memories;
    uint32_t *table; /* hash table of memories by `real`: index + 1, or 0 */
    size_t table_size;
    cr_arena arena;
    size_t bytes;           /* of results and copies */
    uint64_t flushes;       /* times that calls ran and left `calls` */
    _Atomic uint64_t apart; /* of these, those that other threads began */
    struct cr_known_calls *known;
    void *programs; /* of compile/defer.c: programs by known calls */
} cr_trace;

/* A thread that made a call. */
typedef struct cr_defer_thread {
    struct cr_defer_thread *next;
    _Atomic uint32_t *bits; /* the thread's cr_deferring */
    cr_trace *trace;        /* NULL until its first region */
    cr_defer_counts counts;
    uint64_t at_once; /* calls that ran at once */
} cr_defer_thread;

/* --- threads (defer_thread.c) --- */
/* The calling thread; NULL when memory is short. */
cr_defer_thread *cr_defer_me(void);
/* The trace of that number, or NULL. */
cr_trace *cr_trace_numbered(unsigned number);
/* A trace got its first call, or lost the last one.  The trace is locked. */
void cr_trace_started(cr_trace *x);
void cr_trace_ended(void);
/* Clears the thread's stage bit when it has no region and no trace has calls. */
void cr_defer_update(cr_defer_thread *me);

/* --- memories --- */
/* The storage that owns the bytes of `s`: an alias (`.data`) leads to it. */
cr_storage *cr_storage_root(cr_storage *s);
/* Whether code outside of the library may read or change the bytes without a call. */
bool cr_storage_is_outside(const cr_storage *s);
cr_memory *cr_trace_find(const cr_trace *x, const cr_storage *real);

/* The memory of an argument's storage: a copy, if code outside of the library may change it. */
CR_MUST cr_status cr_memory_to_use(cr_memory **out, cr_trace *x, cr_storage *s);
/* Makes a fake with a new storage pending; *out: its memory. */
CR_MUST cr_status cr_memory_to_make(cr_memory **out, cr_trace *x, cr_tensor *t);
/* `t` is a fake with a new storage. */
static inline void cr_fake_becomes_real(cr_tensor *t)
{
    t->device.fake = t->storage->device.fake = false;
    t->stages &= ~CR_STAGE_BIT(FAKE);
}
/* A header like `t` over a stand-in; of `a`, without a storage if m is NULL.  NULL: memory is
 * short. */
cr_tensor *cr_header_new(cr_arena *a, const cr_tensor *t, cr_memory *m);

/* The memory of a header of the trace. */
static inline cr_memory *cr_memory_of(const cr_tensor *header)
{
    return (cr_memory *)(void *)((char *)header->storage - offsetof(cr_memory, shown));
}

/* --- known calls (defer_known.c) --- */
enum { CR_MOST_USES = 64, CR_MOST_KEY = 256 };
/* A noted call that is kept: its key determines the geometry of its results.
 * Invariant: hash is of the `words` words of the key. version and result have one entry for
 * each of `uses` and `outs`; bits of written are below `uses`. */
typedef struct cr_known {
    uint64_t id, hash;
    struct cr_known *next; /* the call that followed the last time */
    const cr_op *op;
    uint64_t *word;
    size_t words;
    cr_value *arg; /* tensors are headers without storages */
    int uses, outs;
    uint64_t written;  /* bit i: the call writes use i */
    uint32_t *version; /* by use: how far the call moves the version of its storage */
    struct cr_known_result *result;
    struct cr_known_parts *parts; /* of a composition: the calls that it makes */
    int tries;                    /* of a composition: to find these */
    bool writes;
    bool refused; /* such results cannot be known: each call is noted in full */
} cr_known;
/* The key of a call: entry, geometry of tensors, numbers, modes of the thread. */
typedef struct {
    const cr_op *op;
    cr_tensor *use[CR_MOST_USES]; /* the tensors among the arguments */
    int uses;
    size_t words;
    uint64_t word[CR_MOST_KEY + 2]; /* two of compositions; not cleared */
} cr_call_key;
/* A tensor of a call's arguments, while the call is noted. */
typedef struct {
    cr_tensor *real, *shown;
    cr_memory *memory;
} cr_shown;
/* False: such a call cannot be known. */
bool cr_call_key_make(cr_call_key *out, const cr_op *op, const cr_value *arg);
/* The trace is locked.  NULL: the call is not known. */
cr_known *cr_known_find(cr_trace *x, cr_call_key *key);
/* Notes a known call: its results become pending. */
CR_MUST cr_status cr_known_note(cr_trace *x, cr_known *k, const cr_call_key *key,
                                cr_value *result);
/* Keeps the call at the second time that its key is seen.  `n` is the noted call and `at` has
 * its tensors; their versions have not moved yet. */
void cr_known_add(cr_trace *x, const cr_call_key *key, const cr_noted *n, const cr_shown *at,
                  const cr_value *result);
/* The same of a composition, of which the calls are known that it makes: each of them is noted,
 * and no rule of the composition runs.  The key of a composition also says which arguments
 * require a gradient, and which of those that may steer a program wait. */
void cr_call_key_of_composition(cr_call_key *k);
CR_MUST cr_status cr_known_note_parts(cr_trace *x, const cr_known *k, const cr_call_key *key,
                                      cr_value *result);
/* The composition made the calls of the trace from `first` on, and nothing else but constants.
 * Keeps these calls once all of them are known.  Without calls it was another attempt. */
void cr_known_add_parts(cr_trace *x, const cr_call_key *key, size_t first,
                        const cr_value *result);
/* Makes the arguments and headers of a known call, or of all calls of the trace. */
CR_MUST cr_status cr_noted_spell_out(cr_trace *x, cr_noted *n);
CR_MUST cr_status cr_trace_spell_out(cr_trace *x);
/* Forgets the kept calls when they are many.  The trace must have no calls. */
void cr_known_trim(cr_trace *x);
/* Bytes of its known calls. */
size_t cr_known_bytes(const cr_trace *x);

/* --- bounds of elements (defer_bounds.c) --- */
/* Whether the entry states the bounds in which elements of index tensors do not raise. */
bool cr_defer_has_bounds(const cr_op *op);
/* The parameters with these index tensors, as bits. */
uint32_t cr_defer_bounded(const cr_op *op);
/* Whether the elements are within the bounds; false when that cannot be told.  The index
 * tensors have their bytes, unless cr_thread.derives is set. */
bool cr_defer_within(const cr_op *op, const cr_value *arg);

/* --- flushes (defer_flush.c) --- */
/* Set by compile/: runs the live calls as one program, with all their effects, if there is one
 * for the trace; else *done is false and nothing has happened. */
extern cr_status (*cr_defer_by_program)(cr_trace *x, bool *done);
/* Of an argument of a call that is spelled out. */
void cr_header_device_is_real(cr_tensor *h, void *unused);
/* Gives `s`, which is pending, the bytes of `from`; takes the block when it is the only
 * owner. */
CR_MUST cr_status cr_storage_bind(cr_storage *s, cr_storage *from);
/* Runs the calls of a trace of any thread. */
CR_MUST cr_status cr_trace_flush(cr_trace *x, const char *why);
/* Drops the stand-ins of refused calls, unless calls wait.  The trace is not locked. */
void cr_trace_forget_refused(cr_trace *x);
/* The parameters that the call writes, as bits. */
uint32_t cr_defer_written_params(const cr_op *op, const cr_value *arg);
/* cr_defer_settle, but of the thread's own trace only the calls that `t` needs run, if these
 * are few and none that waits on reads what they write. */
CR_MUST cr_status cr_defer_settle_alone(cr_tensor *t);
/* Runs the calls of all other traces that use the storage. */
CR_MUST cr_status cr_traces_flush_users(const cr_trace *own, const cr_storage *s);

#endif
