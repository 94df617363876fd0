/* named.h - groups by the names that graphs and plans give them.
 *
 * C programs name their groups here.  An interpreter of programs (Python) has its own names,
 * and sets a host that finds them. */
#ifndef CR_COMM_NAMED_H
#define CR_COMM_NAMED_H

#include "comm/group.h"

/* Makes a group known by a name, unless another group has it.  The group is kept until
 * cr_comm_forget. */
CR_MUST cr_status cr_comm_name(cr_comm *g, const char *name);
void cr_comm_forget(const cr_comm *g);

typedef struct {
    cr_comm *comm; /* NULL: a class of the program makes the group's calls */
    int rank;      /* of this process */
} cr_comm_found;

typedef struct {
    /* The group of a name for tensors of a kind of device; out->comm is owned. */
    cr_status (*find)(cr_comm_found *out, const char *name, cr_device_kind kind);
    /* The program's line. */
    void (*where)(char *out, size_t size);
    /* Runs a call that may wait for other processes. */
    cr_status (*wait)(cr_status (*call)(void *context), void *context);
} cr_comm_host;
/* The host is kept, not copied. */
void cr_comm_set_host(const cr_comm_host *host);

/* out->comm is owned.  CR_RUNTIME in torch's words for a name that no group has. */
CR_MUST cr_status cr_comm_find(cr_comm_found *out, const char *name, cr_device_kind kind);
void cr_comm_where(char *out, size_t size);
CR_MUST cr_status cr_comm_wait(cr_status (*call)(void *context), void *context);

/* The reduction of a name of graphs, "sum"; CR_RUNTIME in torch's words for another name. */
CR_MUST cr_status cr_reduce_named(cr_reduce_op *out, const char *name);

#endif
