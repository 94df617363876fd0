/* abi.h - the part of MPI's standard ABI (MPI 5.0) that the engine uses.
 *
 * In the standard ABI handles are pointers and predefined handles are small numbers, so one
 * build works with every libmpi_abi.so.1, which is opened at run time. */
#ifndef CR_COMM_MPI_ABI_H
#define CR_COMM_MPI_ABI_H

#include <stdint.h>

typedef struct cr_mpi_comm_ *cr_mpi_comm;
typedef struct cr_mpi_group_ *cr_mpi_group;
typedef struct cr_mpi_type_ *cr_mpi_type;
typedef struct cr_mpi_request_ *cr_mpi_request;
typedef struct cr_mpi_errhandler_ *cr_mpi_errhandler;
typedef struct {
    int source, tag, error, reserved[5];
} cr_mpi_status;

#define CR_MPI_HANDLE(T, n)  ((T)(uintptr_t)(n))
#define CR_MPI_WORLD         CR_MPI_HANDLE(cr_mpi_comm, 0x101)
#define CR_MPI_ERRORS_RETURN CR_MPI_HANDLE(cr_mpi_errhandler, 0x143)
#define CR_MPI_BYTE          CR_MPI_HANDLE(cr_mpi_type, 0x247)
enum { CR_MPI_ANY_SOURCE = -1, CR_MPI_THREAD_MULTIPLE = 4096 };

#define CR_MPI_FUNCTIONS(X)                                                                    \
    X(Init_thread, (int *, char ***, int, int *))                                              \
    X(Finalize, (void))                                                                        \
    X(Error_string, (int, char *, int *))                                                      \
    X(Comm_rank, (cr_mpi_comm, int *))                                                         \
    X(Comm_size, (cr_mpi_comm, int *))                                                         \
    X(Comm_set_errhandler, (cr_mpi_comm, cr_mpi_errhandler))                                   \
    X(Comm_group, (cr_mpi_comm, cr_mpi_group *))                                               \
    X(Group_incl, (cr_mpi_group, int, const int *, cr_mpi_group *))                            \
    X(Comm_create_group, (cr_mpi_comm, cr_mpi_group, int, cr_mpi_comm *))                      \
    X(Isend_c, (const void *, int64_t, cr_mpi_type, int, int, cr_mpi_comm, cr_mpi_request *))  \
    X(Irecv_c, (void *, int64_t, cr_mpi_type, int, int, cr_mpi_comm, cr_mpi_request *))        \
    X(Cancel, (cr_mpi_request *))                                                              \
    X(Test, (cr_mpi_request *, int *, cr_mpi_status *))                                        \
    X(Get_count_c, (const cr_mpi_status *, cr_mpi_type, int64_t *))

#endif
