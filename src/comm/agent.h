/* agent.h - requests and replies between any two processes of a run (remote procedure calls).
 *
 * An agent listens at a port that the store tells the others.  It connects to another agent
 * when it first sends there; a connection's first bytes are a secret that the receiver put in
 * the store, so processes without the store are refused.  Messages are lists of parts, which
 * are blocks of bytes; each part that arrives has memory of its own, which the receiver may
 * keep.  A thread reads all connections, so senders never wait for each other.
 *
 * The agent knows the requests that have no reply yet.  Each of them ends once: with a reply,
 * late at its time limit, or lost when the other process closes its connection.  All functions
 * may be called from any thread. */
#ifndef CR_COMM_AGENT_H
#define CR_COMM_AGENT_H

#include "comm/store.h"

typedef struct cr_agent cr_agent;

typedef enum {
    CR_MESSAGE_REQUEST,
    CR_MESSAGE_CONTROL, /* a request whose answer needs no function of the program */
    CR_MESSAGE_REPLY,
    CR_MESSAGE_LATE, /* a request of this agent had no reply in time */
    CR_MESSAGE_LOST  /* the process that was asked has closed its connection */
} cr_message_kind;

typedef struct {
    void *at; /* owned; cr_free */
    size_t len;
} cr_message_part;

typedef struct cr_message {
    struct cr_message *next;
    cr_message_kind kind;
    int from;
    uint64_t id;
    uint32_t parts;
    cr_message_part *part;
} cr_message;
void cr_message_drop(cr_message *m); /* NULL is allowed */

/* Listens at an address of `host` and tells the store.  Keeps the store.  The caller owns *out.
 * CR_NETWORK, CR_STORE. */
CR_MUST cr_status cr_agent_new(cr_agent **out, cr_store *store, int rank, const char *host);
/* Ends the thread and all connections: every cr_agent_next returns NULL, sends fail. */
void cr_agent_shut(cr_agent *a);
/* No other thread may be in a call of the agent. */
void cr_agent_free(cr_agent *a); /* NULL is allowed */

/* Sends a REQUEST or CONTROL message, whose reply, LATE or LOST message has the same id.  The
 * id is one that this agent has not used before.  The parts are borrowed until the return.
 * timeout_ms 0: no limit. CR_NETWORK when the other process cannot be reached; no message comes
 * then. */
CR_MUST cr_status cr_agent_ask(cr_agent *a, cr_message_kind kind, int to, uint64_t id,
                               int64_t timeout_ms, const cr_bytes *part, uint32_t parts);
/* Sends the reply to a request of agent `to`.  CR_NETWORK. */
CR_MUST cr_status cr_agent_reply(cr_agent *a, int to, uint64_t id, const cr_bytes *part,
                                 uint32_t parts);
/* Waits for the next request, or for the next message of another kind.  The caller owns *out;
 * NULL after cr_agent_shut.  *waiting: the other threads that wait for the same. */
void cr_agent_next(cr_agent *a, bool requests, cr_message **out, int *waiting);
/* Forgets the connection to a process that left, so that a later process may have its rank. */
void cr_agent_forget(cr_agent *a, int rank);

#endif
