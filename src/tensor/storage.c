/* Storages: bytes on a device.
 *
 * A small block of host memory follows its header in one allocation.  Tensors keep pointers
 * into the bytes, so bytes that other tensors may point to are never freed before the storage:
 * a storage that grows keeps its old block, and one that shrinks keeps its block. */
#include "device/cpu/cpu.h"
#include "tensor/tensor.h"
#include <string.h>

void (*cr_followed_loses)(const void *bytes);

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
    s->bytes = p;
    s->size_class = class;
    return CR_OK;
}

cr_status cr_storage_new(cr_storage **out, cr_device device, size_t size)
{
    bool together = cr_is_host_memory(device) && size - 1 < INLINE_BYTES;
    cr_storage *s = storage_header_new(together ? size : 0, device, size);

    if (CR_UNLIKELY(!s))
        return CR_MEMORY;
    if (together) {
        s->bytes = (char *)s + HEADER;
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

    if (!s)
        return CR_MEMORY;
    s->bytes = bytes;
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

static void drop_aliased(void *of)
{
    cr_storage_return(of);
    cr_storage_drop(of);
}

cr_status cr_storage_alias(cr_storage **out, cr_storage *of)
{
    CR_TRY(cr_storage_foreign(out, of->bytes, of->size, drop_aliased, cr_storage_keep(of)));
    cr_storage_lend(of);
    (*out)->device = of->device;
    (*out)->pinned = of->pinned;
    return CR_OK;
}

static CR_NOINLINE void storage_free(cr_storage *s)
{
    if (s->release)
        s->release(s->owner);
    if (s->size_class)
        cr_device_of(s->device.kind)->release(s->device.index, s->bytes, s->size_class);
    cr_cpu_release(s, s->header_class);
}

static CR_NOINLINE void drop_followed(cr_storage *s)
{
    const void *bytes = s->bytes ? (const void *)s->bytes : (const void *)s;

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

/* --- bytes --- */

static cr_status copy_through_host(cr_storage *to, size_t at, const cr_storage *from,
                                   size_t from_at, size_t n)
{
    char *host = cr_alloc(n);

    if (!host)
        return CR_MEMORY;
    cr_status st = cr_device_copy_out(host, from->device, from->bytes + from_at, n);
    if (!st)
        st = cr_device_copy_in(to->device, to->bytes + at, host, n);
    cr_free(host);
    return st;
}

cr_status cr_storage_copy(cr_storage *to, size_t at, const cr_storage *from, size_t from_at,
                          size_t n)
{
    const cr_device_ops *ops = cr_device_of(to->device.kind);

    if (!n || !to->bytes || !from->bytes)
        return CR_OK;
    if (cr_same_device(to->device, from->device))
        return cr_device_status(
            ops->copy(to->device.index, to->bytes + at, from->bytes + from_at, n));
    if (cr_is_host(from->device))
        return cr_device_copy_in(to->device, to->bytes + at, from->bytes + from_at, n);
    if (cr_is_host(to->device))
        return cr_device_copy_out(to->bytes + at, from->device, from->bytes + from_at, n);
    return copy_through_host(to, at, from, from_at, n);
}

/* --- resizing --- */

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
    if (!k)
        return CR_MEMORY;
    *k = (kept_block){s->bytes, s->size_class, s->device, s->release, s->owner};
    s->release = release_kept_block;
    s->owner = k;
    return CR_OK;
}

/* Bytes that the storage may have without a new block.  With sanitizers only those
 * requested. */
static size_t room(const cr_storage *s)
{
#ifdef CR_SANITIZE
    return s->size;
#endif
    if (!cr_is_host(s->device))
        return s->size;
    if (s->size_class)
        return cr_cpu_class_bytes(s->size_class);
    return s->bytes == (const char *)s + HEADER ? cr_cpu_class_bytes(s->header_class) - HEADER
                                                : 0;
}

static cr_status grow(cr_storage *s, size_t size)
{
    cr_storage *fresh = NULL;
    bool shared = atomic_load(&s->count) > 1;

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
    if (!shared && s->size_class)
        cr_device_of(s->device.kind)->release(s->device.index, s->bytes, s->size_class);
    s->bytes = fresh->bytes;
    s->size_class = fresh->size_class;
    fresh->size_class = 0;
    cr_storage_drop(fresh);
    return CR_OK;
}

cr_status cr_storage_resize(cr_storage *s, size_t size)
{
    if (s->release && s->release != drop_aliased && s->release != release_kept_block)
        return cr_fail(CR_RUNTIME, "Trying to resize storage that is not resizable");
    if (cr_has_bytes(s->device) && size > room(s))
        CR_TRY(grow(s, size));
    s->size = size;
    return CR_OK;
}
