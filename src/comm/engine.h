/* engine.h - what carries bytes between the ranks of a group: Gloo, MPI, or a table of
 * functions that a program registers.
 *
 * An engine moves messages; the calls of groups (collective.c) are built from messages.  An
 * engine may also run whole calls itself (`run`).  Engines are loaded when a group first names
 * them. */
#ifndef CR_COMM_ENGINE_H
#define CR_COMM_ENGINE_H

#include "comm/reduce.h"
#include "comm/store.h"
#include "num/device.h"

typedef enum {
#define CR_CALL(NAME, name) CR_CALL_##NAME,
#include "comm/calls.def"
#undef CR_CALL
    CR_CALL_COUNT
} cr_call_kind;
/* "all_reduce" */
const char *cr_call_kind_name(cr_call_kind kind);

/* Contiguous elements, in memory of the call's device. */
typedef struct {
    void *at;
    int64_t count;
} cr_buffer;

/* One call of one rank.
 *
 *   BROADCAST       out[0] is sent by the root and received by the others
 *   ALL_REDUCE      out[0], in place
 *   REDUCE          out[0], in place at the root; unchanged at the others
 *   ALL_GATHER      in[0]; out[size]
 *   GATHER          in[0]; out[size] at the root
 *   SCATTER         in[size] at the root; out[0]
 *   REDUCE_SCATTER  in[size]; out[0]
 *   ALL_TO_ALL      in[size]; out[size]
 *   SEND, RECEIVE   in[0] or out[0]; root is the peer, -1 for any
 *
 * Counts may differ between ranks where each has another buffer (ALL_GATHER, GATHER,
 * SCATTER, REDUCE_SCATTER, ALL_TO_ALL), but both ends of a transfer state the same. */
typedef struct {
    cr_call_kind kind;
    cr_reduce_op op;
    cr_dtype dtype;
    cr_device device; /* of all buffers; the engine's kind, or the host */
    int root;
    uint64_t tag;
    double factor; /* of PREMUL_SUM */
    int ins, outs;
    const cr_buffer *in, *out;
    bool apart; /* of an ALL_REDUCE: other ranks may make it in a work of other calls */
} cr_call_args;

/* How a link between the ranks of a group is opened.  Borrowed. */
typedef struct {
    int rank, size;    /* of the group; -1: the engine knows (MPI under mpirun) */
    const int *global; /* `size` numbers of the ranks in the whole run; NULL: 0, 1, ... */
    cr_store *store;   /* of this group alone */
    int64_t timeout_ms;
    const char *interface; /* a host name or address of this rank, or "" */
} cr_link_how;

/* The functions of a library that moves bytes between ranks.
 * Invariant: an engine either has send, receive, wait and drop, or it has plan and start,
 * which take all calls; order is set if `device` is no host. */
typedef struct cr_engine {
    const char *name;
    bool by_slices;    /* a wait may end before the transfer and be repeated */
    bool alone;        /* there are no other processes */
    bool no_quotients; /* AVG of integers is refused, in torch's words; else quotients lose
                        * their fraction */
    uint8_t tag_bits;  /* that a message of channel 1 has for its tag; 0: all */
    /* Opens a link.  *rank and *size are set where they were not known. */
    cr_status (*open)(void **link, const cr_link_how *how, int *rank, int *size);
    /* Ends all transfers of the link, from any thread: they fail at this rank and at its
     * peers. */
    void (*shut)(void *link);
    /* Frees the link, of which no transfer is in progress.  `shut` was called if it is
     * broken. */
    void (*close)(void *link, bool broken);
    /* Start a transfer.  The bytes stay until it is done.  Transfers of one pair with one
     * channel and tag arrive in order.  `channel` 0: calls; a message may be shorter than the
     * place where it is received.  1: SEND and RECEIVE of programs; a message of another size
     * than its place fails the receive, or the receive does not take it and ends at its time
     * limit.  from -1: any rank.  *transfer is then to be waited for, and dropped. */
    cr_status (*send)(void *link, void **transfer, const void *at, size_t bytes, int to,
                      int channel, uint64_t tag);
    cr_status (*receive)(void *link, void **transfer, void *at, size_t bytes, int from,
                         int channel, uint64_t tag);
    /* Waits at most `ms`.  *done: the transfer ended; *from: the rank that sent (if not NULL).
     * Without by_slices, a transfer that is not done in time breaks the link. */
    cr_status (*wait)(void *link, void *transfer, int64_t ms, bool *done, int *from);
    void (*drop)(void *link, void *transfer);
    /* Runs a whole call; *did false: the messages run it.  NULL: never. */
    cr_status (*run)(void *link, const cr_call_args *call, int64_t ms, bool *did);

    /* Of engines that run all calls themselves, also SEND and RECEIVE, and need no messages:
     * `send` and `receive` are NULL.  Both are called in the program's thread.  `plan` notes
     * after which work of the device the calls come; `start` starts n planned calls together,
     * and returns before they have ended.  Then the transfer is waited for by another thread,
     * and dropped, as those of messages. */
    cr_device_kind device; /* of the buffers; host buffers are taken, too */
    cr_status (*plan)(void *link, void **transfer, const cr_call_args *calls, int n);
    cr_status (*start)(void *link, void *transfer, const cr_call_args *calls, int n);
    /* Makes the device's work that the calling thread gives it from now on come after started
     * calls.  *ordered false: only their end on the host is enough, because they move host
     * memory or are a barrier. */
    cr_status (*order)(void *link, void *transfer, const cr_call_args *calls, int n,
                       bool *ordered);
} cr_engine;

/* The engine of a name.  Fails with CR_COMM: unknown, or a library is missing (the message says
 * which, and what to install). */
CR_MUST cr_status cr_engine_find(const cr_engine **out, const char *name);
/* Whether the engine and its library are there. */
bool cr_engine_is_available(const char *name);

/* --- the engines of this room --- */
/* An engine whose library is opened when a group first names it. */
typedef struct {
    cr_engine engine;
    /* Opens the library; appends the files that it did not find to `tried`.  NULL: the engine
     * needs no library. */
    bool (*open)(cr_text *tried);
    const char *advice; /* the error where the library is missing */
    bool was_opened, found;
    cr_text tried;
} cr_engine_library;
extern cr_engine_library cr_gloo_engine, cr_mpi_engine, cr_nccl_engine, cr_fake_engine;
/* dlopen; NULL when the file is missing, whose reason is appended to `tried`. */
void *cr_engine_dlopen(const char *path, int flags, cr_text *tried);
/* The folder of this library or program's file, as "/a/b/"; "" when unknown. */
const char *cr_engine_folder(void);

#endif
