/* packed.h - cache of tensors in the layout of a kernel, valid while the tensor is
 * unchanged. */
#ifndef CR_COMPILE_PACKED_H
#define CR_COMPILE_PACKED_H

#include "tensor/tensor.h"
#include <pthread.h>

typedef struct cr_packed cr_packed;

/* The bytes from which a form was packed. */
typedef struct {
    const cr_storage *storage;
    const char *data;
    uint32_t version, hidden;
} cr_packed_of;

/* Packs `t` into a new tensor; the caller owns *out. */
typedef cr_status (*cr_pack_fn)(void *context, cr_tensor *t, cr_tensor **out);

/* The cache of one place in a program where a tensor is packed.  Thread-safe. */
typedef struct {
    pthread_mutex_t lock; /* protects the other fields */
    cr_packed *kept;
    cr_packed_of last; /* of the last request */
    int changes;       /* number of requests that made `kept` invalid */
} cr_packer;

void cr_packer_init(cr_packer *k);
void cr_packer_drop(cr_packer *k);

/* The packed form of `t`; the caller owns a reference and ends it with cr_packed_release.  A
 * cached form is used again while the storage, version and address of `t` are unchanged.  NULL
 * when caching does not pay: `t` is a different tensor on each call, or its bytes may change
 * without a new version. */
CR_MUST cr_status cr_packer_get(cr_packed **out, cr_packer *k, cr_tensor *t, cr_pack_fn pack,
                                void *context);
cr_tensor *cr_packed_tensor(const cr_packed *p);
void cr_packed_release(cr_packed *p);

#endif
