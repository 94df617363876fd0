/* Storages: bytes on a device.
 *
 * A small block of host memory follows its header in one allocation.  Tensors keep pointers
 * into the bytes, so bytes that other tensors may point to are never freed before the storage:
 * a storage that grows keeps its old block, and one that shrinks keeps its block.  A tensor may
 * thus have more bytes than its storage, and makes views of all of them: a new block is never
 * smaller than an earlier one.  A storage of a device that gets the size 0 gives its block
 * back, because calls on devices look for the present block of each tensor (remote_stage). */
#include "device/cpu/cpu.h"
#include "device/facts.h"
#include "tensor/internal.h"
#include "tensor/trace.h"
#include <pthread.h>
#include <string.h>

void (*cr_followed_loses)(const void *bytes);
_Atomic long cr_calls_apart;
_Atomic bool cr_storages_moved;

enum { HEADER = 64, INLINE_BYTES = 1024 - HEADER };
_Static_assert(sizeof(cr_storage) <= HEADER, "the bytes behind a header are 64-byte aligned");

static cr_storage *storage_header_new(size_t extra, cr_device device, size_t size)
{
    uint32_t class;
    cr_storage *s = cr_cpu_get(HEADER + extra, &class);

    if (CR_UNLIKELY(!s))
        return NULL;
    *s = (cr_storage){
        .count = 1, .size = size, .device = device, .header_class = (uint8_t) class};
    return s;
}

/* The host's allocator has already set the error. */
static CR_NOINLINE cr_status refuse_size(cr_device device, size_t size)
{
    return cr_is_host(device) ? CR_MEMORY : cr_device_no_memory(device, size);
}

/* Gives `s` a block of `size` bytes. */
static cr_status get_bytes(cr_storage *s, size_t size)
{
    const cr_device_ops *ops = cr_device_of(s->device.kind);
    uint32_t class;

    if (!cr_has_bytes(s->device))
        return CR_OK;
    if (!ops)
        return cr_device_named(&s->device, cr_packed_device(s->device));
    char *p = ops->get(s->device.index, size, &class);
    if (!p)
        return refuse_size(s->device, size);
    s->chunk = p;
    s->size_class = class;
    return CR_OK;
}

cr_status cr_storage_new(cr_storage **out, cr_device device, size_t size)
{
    bool together = cr_is_host_memory(device) && size - 1 < INLINE_BYTES;
    cr_storage *s = storage_header_new(together ? size : 0, device, size);

    CR_NEED(s);
    if (together) {
        s->chunk = (char *)s + HEADER;
    } else if (size) {
        cr_status st = get_bytes(s, size);
        if (st) {
            cr_cpu_release(s, s->header_class);
            return st;
        }
    }
    *out = s;
    return CR_OK;
}

cr_status cr_storage_foreign(cr_storage **out, void *bytes, size_t size,
                             void (*release)(void *), void *owner)
{
    cr_storage *s = storage_header_new(0, CR_HOST, size);

    CR_NEED(s);
    s->chunk = bytes;
    s->release = release;
    s->owner = owner;
    *out = s;
    return CR_OK;
}

/* --- changes without a new version --- */

void cr_storage_lend(cr_storage *s) { atomic_fetch_add(&s->aliases, 1); }

void cr_storage_return(cr_storage *s)
{
    s->hidden++;
    atomic_fetch_sub(&s->aliases, 1);
}

bool cr_storage_is_watched(const cr_storage *s)
{
    return !s->release && !s->exposed && !atomic_load(&s->aliases);
}

bool cr_storage_is_outside(const cr_storage *s)
{
    return s->release || s->exposed || atomic_load(&s->aliases);
}

cr_status cr_storage_bind(cr_storage *s, cr_storage *from)
{
    bool sole = atomic_load(&from->count) == 1 && from->size_class && !from->release;

    if (sole && from->size == s->size) {
        s->chunk = from->chunk;
        s->size_class = from->size_class;
        from->size_class = 0;
        return CR_OK;
    }
    CR_TRY(get_bytes(s, s->size));
    return cr_storage_copy(s, 0, from, 0, from->size < s->size ? from->size : s->size);
}

static void drop_aliased(void *of)
{
    cr_storage_return(of);
    cr_storage_drop(of);
}

/* Another function than drop_aliased, so that a part is no alias: it cannot be resized. */
static void drop_part(void *of) { drop_aliased(of); }

cr_storage *cr_storage_root(cr_storage *s)
{
    while (CR_UNLIKELY(s->release == drop_aliased || s->release == drop_part))
        s = s->owner;
    return s;
}

const void *cr_storage_key(cr_storage *s)
{
    const cr_storage *root = cr_storage_root(s);

    return root->release && root->chunk ? (const void *)root->chunk : (const void *)root;
}

cr_status cr_storage_alias(cr_storage **out, cr_storage *of)
{
    CR_TRY(cr_defer_before_write(of));
    CR_TRY(cr_storage_foreign(out, of->chunk, of->size, drop_aliased, cr_storage_keep(of)));
    cr_storage_lend(of);
    (*out)->device = of->device;
    (*out)->pinned = of->pinned;
    return CR_OK;
}

cr_status cr_storage_part(cr_storage **out, cr_storage *of, size_t start, size_t size)
{
    CR_TRY(cr_storage_alias(out, of));
    (*out)->release = drop_part;
    (*out)->chunk = of->chunk ? of->chunk + start : NULL;
    (*out)->size = size;
    return CR_OK;
}

static CR_NOINLINE void storage_free(cr_storage *s)
{
    if (s->release)
        s->release(s->owner);
    if (s->size_class)
        cr_device_of(s->device.kind)->release(s->device.index, s->chunk, s->size_class);
    cr_cpu_release(s, s->header_class);
}

static CR_NOINLINE void drop_followed(cr_storage *s)
{
    const void *bytes = cr_storage_key(s);

    if (atomic_fetch_sub_explicit(&s->count, 1, memory_order_acq_rel) == 1)
        storage_free(s);
    else
        cr_followed_loses(bytes);
}

void cr_storage_drop(cr_storage *s)
{
    if (!s)
        return;
    if (CR_UNLIKELY(s->followed))
        drop_followed(s);
    else if (atomic_load_explicit(&s->count, memory_order_acquire) == 1 ||
             atomic_fetch_sub_explicit(&s->count, 1, memory_order_acq_rel) == 1)
        storage_free(s);
}

/* --- storages that tensors left --- */

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static CR_VEC(cr_storage *) left;

void cr_storage_leave(cr_storage *s)
{
    if (CR_LIKELY(!atomic_load_explicit(&cr_calls_apart, memory_order_relaxed))) {
        cr_storage_drop(s);
        return;
    }
    pthread_mutex_lock(&left_lock);
    if (!cr_vec_reserve(&left, 1))
        cr_vec_put(&left, s); /* without memory the storage is never freed */
    pthread_mutex_unlock(&left_lock);
}

/* The lock is not held while a storage is freed: its owner may be any object. */
static cr_storage *take_left(void)
{
    cr_storage *s = NULL;

    pthread_mutex_lock(&left_lock);
    if (left.len)
        s = left.at[--left.len];
    else
        cr_vec_drop(&left);
    pthread_mutex_unlock(&left_lock);
    return s;
}

void cr_storages_drop_left(void)
{
    for (cr_storage *s; (s = take_left());)
        cr_storage_drop(s);
}

/* --- bytes --- */

static cr_status copy_through_host(cr_storage *to, size_t at, const cr_storage *from,
                                   size_t from_at, size_t n)
{
    char *host = cr_alloc(n);

    CR_NEED(host);
    cr_status st = cr_device_copy_out(host, from->device, from->chunk + from_at, n);
    if (!st)
        st = cr_device_copy_in(to->device, to->chunk + at, host, n);
    cr_free(host);
    return st;
}

cr_status cr_storage_copy(cr_storage *to, size_t at, const cr_storage *from, size_t from_at,
                          size_t n)
{
    const cr_device_ops *ops = cr_device_of(to->device.kind);

    CR_TRY(cr_defer_before_write(to));
    CR_TRY(cr_defer_settle_storage((cr_storage *)(uintptr_t)from));
    if (!n || !to->chunk || !from->chunk)
        return CR_OK;
    if (cr_same_device(to->device, from->device))
        return cr_device_status(
            ops->copy(to->device.index, to->chunk + at, from->chunk + from_at, n));
    if (cr_is_host(from->device))
        return cr_device_copy_in(to->device, to->chunk + at, from->chunk + from_at, n);
    if (cr_is_host(to->device))
        return cr_device_copy_out(to->chunk + at, from->device, from->chunk + from_at, n);
    return copy_through_host(to, at, from, from_at, n);
}

cr_status cr_note_use(const cr_tensor *t)
{
    if (cr_is_host(t->device) || !cr_has_bytes(t->device) || t->layout)
        return CR_OK;
    const cr_storage *s = cr_storage_root(t->storage);
    const cr_device_facts *f = cr_device_facts_of((cr_device_kind)s->device.kind);
    return s->size_class && f->note_use ? f->note_use(s->device.index, s->size_class) : CR_OK;
}

/* --- resizing --- */

void cr_storage_follow(cr_storage *s)
{
    cr_storage *of = s->owner;

    if (s->release != drop_aliased)
        return;
    cr_storage_follow(of);
    s->chunk = of->chunk;
    s->size = of->size;
}

/* The earlier block of a storage that grew, kept because tensors may point to it. */
typedef struct {
    char *bytes;
    uint32_t size_class;
    cr_device device;
    void (*release)(void *);
    void *owner;
} kept_block;

static void release_kept_block(void *p)
{
    kept_block *k = p;

    if (k->release)
        k->release(k->owner);
    cr_device_of(k->device.kind)->release(k->device.index, k->bytes, k->size_class);
    cr_free(k);
}

/* Keeps the present block until the storage is freed. */
static cr_status keep_block(cr_storage *s)
{
    kept_block *k;

    if (!s->size_class)
        return CR_OK;
    k = cr_alloc(sizeof *k);
    CR_NEED(k);
    *k = (kept_block){s->chunk, s->size_class, s->device, s->release, s->owner};
    s->release = release_kept_block;
    s->owner = k;
    return CR_OK;
}

/* Bytes that the storage may have without a new block; 0 on other devices, whose blocks have an
 * unknown size. */
static size_t room(const cr_storage *s)
{
    if (!cr_is_host(s->device))
        return 0;
    if (s->size_class)
        return cr_cpu_class_bytes(s->size_class);
    return s->chunk == (const char *)s + HEADER ? cr_cpu_class_bytes(s->header_class) - HEADER
                                                : 0;
}

/* True when pointers into the block may be in use. */
static bool is_in_use(const cr_storage *s)
{
    return atomic_load(&s->count) > 1 || s->exposed || atomic_load(&s->aliases) ||
           atomic_load(&cr_calls_apart);
}

static cr_status grow(cr_storage *s, size_t size, bool shared)
{
    cr_storage *fresh = NULL;
    size_t most = cr_cpu_class_bytes(s->most);

    size = size > most ? size : most;
    CR_TRY(cr_storage_new(&fresh, s->device, size > INLINE_BYTES ? size : INLINE_BYTES + 1));
    cr_status st = cr_storage_copy(fresh, 0, s, 0, s->size);
    if (st) {
        cr_storage_drop(fresh);
        return st;
    }
    if (shared && keep_block(s)) {
        cr_storage_drop(fresh);
        return CR_MEMORY;
    }
    if (shared)
        cr_storages_moved = true;
    else if (s->size_class)
        cr_device_of(s->device.kind)->release(s->device.index, s->chunk, s->size_class);
    s->chunk = fresh->chunk;
    s->size_class = fresh->size_class;
    fresh->size_class = 0;
    cr_storage_drop(fresh);
    return CR_OK;
}

/* True when the block of a device can be given back: no code outside of the library knows its
 * address.  The allocator reuses it in the order of its stream.  A call of another thread that
 * reads the tensor at this moment reads other elements, and no other memory than the device's;
 * backward passes, during which hooks empty storages, are such calls. */
static bool may_empty(const cr_storage *s)
{
    return !cr_is_host(s->device) && s->size_class && !s->exposed && !atomic_load(&s->aliases);
}

static void give_back(cr_storage *s)
{
    cr_device_of(s->device.kind)->release(s->device.index, s->chunk, s->size_class);
    s->chunk = NULL;
    s->size_class = 0;
    cr_storages_moved = true;
}

static cr_status resize_own(cr_storage *s, size_t size, bool shared)
{
    uint8_t had = (uint8_t)cr_cpu_class_of(s->size);

    s->most = had > s->most ? had : s->most;
    if (!size && may_empty(s))
        give_back(s);
    else if (cr_has_bytes(s->device) && size > s->size && size > room(s))
        CR_TRY(grow(s, size, shared));
    else if (s->chunk && cr_is_host(s->device))
        cr_cpu_extend(s->chunk, size);
    s->size = size;
    return CR_OK;
}

static cr_status resize(cr_storage *s, size_t size, bool shared)
{
    cr_storage *of = s->owner;

    shared |= is_in_use(s);
    if (!s->release || s->release == release_kept_block)
        return resize_own(s, size, shared);
    if (s->release != drop_aliased)
        return cr_fail(CR_RUNTIME, "Trying to resize storage that is not resizable");
    CR_TRY(resize(of, size, shared));
    cr_storage_follow(s);
    return CR_OK;
}

cr_status cr_storage_resize(cr_storage *s, size_t size)
{
    CR_TRY(cr_defer_before_write(s));
    return resize(s, size, false);
}
