/* Packed tensors.
 *
 * A storage counts its changes in `version`, and in `hidden` the aliases that ended, which may
 * have changed bytes without a new version (tensor.h).  The cache holds a reference to the
 * storage, so that no other storage can get the same address. */
#include "compile/packed.h"
#include <string.h>

enum { MOST_CHANGES = 3 }; /* after this number of changes nothing is packed */

struct cr_packed {
    _Atomic int count;
    cr_storage *storage; /* counted */
    cr_packed_of of;
    cr_tensor *tensor;
};

void cr_packer_init(cr_packer *k)
{
    *k = (cr_packer){.kept = NULL};
    pthread_mutex_init(&k->lock, NULL);
}

void cr_packer_drop(cr_packer *k)
{
    cr_packed_release(k->kept);
    pthread_mutex_destroy(&k->lock);
}

void cr_packed_release(cr_packed *p)
{
    if (!p || atomic_fetch_sub(&p->count, 1) > 1)
        return;
    cr_storage_drop(p->storage);
    cr_drop(p->tensor);
    cr_free(p);
}

cr_tensor *cr_packed_tensor(const cr_packed *p) { return p->tensor; }

static cr_packed_of bytes_of(const cr_tensor *t)
{
    return (cr_packed_of){t->storage, t->address, t->storage->version,
                          atomic_load(&t->storage->hidden)};
}

static bool same(const cr_packed_of *a, const cr_packed_of *b)
{
    return a->storage == b->storage && a->data == b->data && a->version == b->version &&
           a->hidden == b->hidden;
}

static cr_status make(cr_packed **out, cr_tensor *t, cr_pack_fn pack, void *context)
{
    cr_packed *p = cr_alloc_zero(sizeof *p);

    CR_NEED(p);
    p->count = 1;
    p->storage = cr_storage_keep(t->storage);
    p->of = bytes_of(t);
    cr_status st = pack(context, t, &p->tensor);
    CR_GIVE(st, out, p, cr_packed_release);
}

static void keep(cr_packer *k, cr_packed *p)
{
    cr_packed *old;

    pthread_mutex_lock(&k->lock);
    old = k->kept;
    k->kept = p;
    atomic_fetch_add(&p->count, 1);
    pthread_mutex_unlock(&k->lock);
    cr_packed_release(old);
}

/* *found is the cached form of these bytes, with a reference for the caller; a form of other
 * bytes is dropped.  True if the last request was for the same bytes, so that packing them
 * pays, and the bytes have not changed too often. */
static bool look(cr_packer *k, const cr_packed_of *now, cr_packed **found)
{
    cr_packed *old = NULL;
    bool again;

    pthread_mutex_lock(&k->lock);
    again = same(&k->last, now) && k->changes < MOST_CHANGES;
    k->last = *now;
    if (k->kept && same(&k->kept->of, now)) {
        *found = k->kept;
        atomic_fetch_add(&k->kept->count, 1);
    } else if (k->kept) {
        old = k->kept;
        k->kept = NULL;
        k->changes++;
    }
    pthread_mutex_unlock(&k->lock);
    cr_packed_release(old);
    return again;
}

cr_status cr_packer_get(cr_packed **out, cr_packer *k, cr_tensor *t, cr_pack_fn pack,
                        void *context)
{
    cr_packed_of now = bytes_of(t);
    cr_packed *p = NULL;

    *out = NULL;
    if (!cr_storage_is_watched(t->storage))
        return CR_OK;
    if (look(k, &now, &p) && !p) {
        CR_TRY(make(&p, t, pack, context));
        keep(k, p);
    }
    *out = p;
    return CR_OK;
}
