/* Packed tensors.
 *
 * A storage counts its changes in `version`, and in `hidden` those that others may have made to
 * bytes that were lent to them (tensor.h).  The storage is held while something packed of it is
 * kept, so that its address stays its own. */
#include "compile/packed.h"
#include <string.h>

enum { MOST_CHANGES = 3 }; /* a tensor that changes so often is not kept */

struct cr_packed {
    _Atomic int count;
    cr_storage *storage; /* counted */
    const char *data;
    uint32_t version, hidden;
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

static bool is_of(const cr_packed *p, const cr_tensor *t)
{
    return p && p->storage == t->storage && p->data == t->data && p->version == t->storage->version &&
           p->hidden == atomic_load(&t->storage->hidden);
}

static cr_status make(cr_packed **out, cr_tensor *t, cr_pack_fn pack, void *context)
{
    cr_packed *p = cr_alloc_zero(sizeof *p);

    if (!p)
        return CR_MEMORY;
    p->count = 1;
    p->storage = cr_storage_keep(t->storage);
    p->data = t->data;
    p->version = t->storage->version;
    p->hidden = atomic_load(&t->storage->hidden);
    cr_status st = pack(context, t, &p->tensor);
    if (st)
        cr_packed_release(p);
    else
        *out = p;
    return st;
}

/* In place of what was kept; too many changes end it. */
static void keep(cr_packer *k, cr_packed *p)
{
    cr_packed *old;

    pthread_mutex_lock(&k->lock);
    old = k->kept;
    k->changes += old != NULL;
    k->kept = k->changes < MOST_CHANGES ? p : NULL;
    if (k->kept)
        atomic_fetch_add(&p->count, 1);
    pthread_mutex_unlock(&k->lock);
    cr_packed_release(old);
}

cr_status cr_packer_get(cr_packed **out, cr_packer *k, cr_tensor *t, cr_pack_fn pack, void *context)
{
    cr_packed *p = NULL;
    bool given_up;

    *out = NULL;
    if (!cr_storage_is_watched(t->storage))
        return CR_OK;
    pthread_mutex_lock(&k->lock);
    given_up = k->changes >= MOST_CHANGES;
    if (!given_up && is_of(k->kept, t)) {
        p = k->kept;
        atomic_fetch_add(&p->count, 1);
    }
    pthread_mutex_unlock(&k->lock);
    if (!p && !given_up) {
        CR_TRY(make(&p, t, pack, context));
        keep(k, p);
    }
    *out = p;
    return CR_OK;
}
