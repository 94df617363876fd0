/* packed.h - a tensor in the layout that a kernel wants, kept while the tensor is what it was. */
#ifndef CR_COMPILE_PACKED_H
#define CR_COMPILE_PACKED_H

#include "tensor/tensor.h"
#include <pthread.h>

typedef struct cr_packed cr_packed;

/* The bytes that something was packed of. */
typedef struct {
    const cr_storage *storage;
    const char *data;
    uint32_t version, hidden;
} cr_packed_of;

/* `t` in another layout; the caller owns *out. */
typedef cr_status (*cr_pack_fn)(void *context, cr_tensor *t, cr_tensor **out);

/* One place where a tensor is packed.  Any thread may ask. */
typedef struct {
    pthread_mutex_t lock; /* of what follows */
    cr_packed *kept;
    cr_packed_of last; /* what was asked for last */
    int changes;       /* how often another tensor came, or changed bytes */
} cr_packer;

void cr_packer_init(cr_packer *k);
void cr_packer_drop(cr_packer *k);

/* `t` packed, counted, to be given back with cr_packed_release; what is kept is used again while
 * storage, version and address are those of then.  NULL where it is not worth keeping: `t` was not
 * what was asked for before, it is another each time, or its bytes may change unseen. */
CR_MUST cr_status cr_packer_get(cr_packed **out, cr_packer *k, cr_tensor *t, cr_pack_fn pack, void *context);
cr_tensor *cr_packed_tensor(const cr_packed *p);
void cr_packed_release(cr_packed *p);

#endif
