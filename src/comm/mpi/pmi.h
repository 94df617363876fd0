/* pmi.h - how processes that no mpirun started become the ranks of one MPI run: they ask a
 * server with the text messages of PMI-1, whose address is in PMI_PORT and their rank in
 * PMI_ID. */
#ifndef CR_COMM_MPI_PMI_H
#define CR_COMM_MPI_PMI_H

#include "base/error.h"

/* Starts a thread that serves `size` ranks, until all of them have gone.  *port: at 127.0.0.1,
 * or at all addresses when `everywhere`.  CR_COMM. */
CR_MUST cr_status cr_pmi_serve(int size, bool everywhere, int *port);

#endif
