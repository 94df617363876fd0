/* abi.h - the part of NCCL's C interface that the engine uses, from NVIDIA's documentation.
 * Streams are the driver's. */
#ifndef CR_COMM_NCCL_ABI_H
#define CR_COMM_NCCL_ABI_H

#include <stddef.h>

typedef struct cr_nccl_comm_ *cr_nccl_comm;
/* Goes by value. */
typedef struct {
    char at[128];
} cr_nccl_id;

enum { CR_NCCL_OK = 0, CR_NCCL_IN_PROGRESS = 7, CR_NCCL_HOST_SCALAR = 1 };
typedef enum {
    CR_NCCL_I8,
    CR_NCCL_U8,
    CR_NCCL_I32,
    CR_NCCL_U32,
    CR_NCCL_I64,
    CR_NCCL_U64,
    CR_NCCL_F16,
    CR_NCCL_F32,
    CR_NCCL_F64,
    CR_NCCL_BF16
} cr_nccl_type;
typedef enum { CR_NCCL_SUM, CR_NCCL_PROD, CR_NCCL_MAX, CR_NCCL_MIN, CR_NCCL_AVG } cr_nccl_op;

/* clang-format off */
#define CR_NCCL_FUNCTIONS(X)                                                                   \
    X(const char *, GetErrorString, (int))                                                     \
    X(int, GetVersion, (int *))                                                                \
    X(int, GetUniqueId, (cr_nccl_id *))                                                        \
    X(int, CommInitRank, (cr_nccl_comm *, int size, cr_nccl_id, int rank))                     \
    X(int, CommDestroy, (cr_nccl_comm))                                                        \
    X(int, CommAbort, (cr_nccl_comm))                                                          \
    X(int, CommGetAsyncError, (cr_nccl_comm, int *))                                           \
    X(int, GroupStart, (void))                                                                 \
    X(int, GroupEnd, (void))                                                                   \
    X(int, AllReduce, (const void *, void *, size_t, int type, int op, cr_nccl_comm, void *))  \
    X(int, Reduce, (const void *, void *, size_t, int type, int op, int root,                  \
        cr_nccl_comm, void *))                                                                 \
    X(int, Broadcast, (const void *, void *, size_t, int type, int root, cr_nccl_comm,         \
        void *))                                                                               \
    X(int, AllGather, (const void *, void *, size_t, int type, cr_nccl_comm, void *))          \
    X(int, ReduceScatter, (const void *, void *, size_t, int type, int op, cr_nccl_comm,       \
        void *))                                                                               \
    X(int, Send, (const void *, size_t, int type, int peer, cr_nccl_comm, void *))             \
    X(int, Recv, (void *, size_t, int type, int peer, cr_nccl_comm, void *))                   \
    X(int, RedOpCreatePreMulSum, (int *op, void *factor, int type, int where, cr_nccl_comm))   \
    X(int, RedOpDestroy, (int op, cr_nccl_comm))
/* clang-format on */

#endif
