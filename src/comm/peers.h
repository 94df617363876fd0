/* peers.h - the processes of a group: which of them have ended or are stopped.
 *
 * Each rank writes its process to the group's store.  A rank on the same host is looked up in
 * /proc; of others nothing is known. */
#ifndef CR_COMM_PEERS_H
#define CR_COMM_PEERS_H

#include "comm/group.h"

typedef enum { CR_PEER_UNKNOWN, CR_PEER_RUNS, CR_PEER_STOPPED, CR_PEER_ENDED } cr_peer_state;

typedef struct cr_peers cr_peers;
/* Writes this rank to the store, and waits until all ranks have.  CR_STORE names the ranks that
 * never came; CR_COMM when two processes have one rank, or the ranks state different sizes or
 * engines.  A failure of one rank is that of all ranks that wait. */
CR_MUST cr_status cr_peers_meet(cr_peers **out, const cr_comm_how *how);
/* Tells the ranks that wait or will come that this one lacks the engine; st is the failure, and
 * its message stays the thread's. */
CR_MUST cr_status cr_peers_miss(const cr_comm_how *how, cr_status st);
cr_peer_state cr_peers_state(const cr_peers *p, int rank);
/* The process number of a rank. */
int cr_peers_process(const cr_peers *p, int rank);
/* A rank that has ended, or -1. */
int cr_peers_ended(const cr_peers *p);
/* True when all ranks run on this host. */
bool cr_peers_share_host(const cr_peers *p);
void cr_peers_free(cr_peers *p);

#endif
