/* Tensors: headers over storages, with refcounts, sizes and strides. */
#include "tensor/tensor.h"
#include "device/cpu/cpu.h"
#include "device/facts.h"
#include "entry.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <string.h>

void (*cr_grad_meta_drop)(cr_grad_meta *m);
bool (*cr_watched_dies)(cr_tensor *t);
bool (*cr_peer_revive)(cr_tensor *t);

enum { HEADER_CLASS = (sizeof(cr_tensor) + 63) / 64 };

/* --- headers --- */

static cr_status get_dims(cr_tensor *t, int ndim)
{
    if (CR_LIKELY(ndim <= CR_INLINE_DIMS)) {
        t->size = t->dims;
        t->stride = t->dims + CR_INLINE_DIMS;
        return CR_OK;
    }
    int64_t *dims = cr_alloc(2 * (size_t)ndim * sizeof *dims);
    CR_NEED(dims);
    t->size = dims;
    t->stride = dims + ndim;
    return CR_OK;
}

static inline void release_dims(cr_tensor *t)
{
    if (CR_UNLIKELY(t->size != t->dims))
        cr_free(t->size);
}

static inline void set_inference(cr_tensor *t, bool on)
{
    t->inference = on;
    t->stages = (t->stages & ~CR_STAGE_BIT(AUTOGRAD)) | (uint32_t)on << CR_STAGE_AUTOGRAD;
}

void cr_tensor_set_inference(cr_tensor *t, bool on) { set_inference(t, on); }

/* The stages of calls with a tensor on the device. */
static inline uint32_t device_stages(cr_device d)
{
    if (CR_LIKELY(cr_is_host_memory(d)))
        return 0;
    return cr_has_bytes(d) ? CR_STAGE_BIT(KERNEL) : CR_STAGE_BIT(FAKE);
}

/* A header for `ndim` dims, without a storage. */
static inline cr_tensor *tensor_header_new(cr_dtype dtype, cr_device device, int ndim)
{
    uint32_t class;
    cr_tensor *t = cr_cpu_get(sizeof *t, &class);

    if (CR_UNLIKELY(!t))
        return NULL;
    /* gcc clears 80 bytes by vector stores; more by `rep stos`, which starts slowly. */
    memset(t, 0, offsetof(cr_tensor, peer));
    t->peer = NULL;
    t->batch = NULL;
    atomic_init(&t->count, 1);
    t->dtype = (uint8_t)dtype;
    t->device = device;
    t->ndim = (uint8_t)ndim;
    t->stages = device_stages(device);
    set_inference(t, cr_thread.inference);
    if (CR_UNLIKELY(get_dims(t, ndim))) {
        cr_cpu_release(t, HEADER_CLASS);
        return NULL;
    }
    return t;
}

static inline void header_free(cr_tensor *t)
{
    release_dims(t);
    cr_cpu_release(t, HEADER_CLASS);
}

/* Takes the caller's reference to the storage. */
static inline void set_storage(cr_tensor *t, cr_storage *s, int64_t offset)
{
    t->storage = s;
    t->offset = offset;
    /* A stand-in (trace.h) is fake, but knows where its bytes will be. */
    t->address = s->chunk && !s->device.fake
                     ? cr_moved(s->chunk, offset, cr_dtype_size(t->dtype))
                     : NULL;
    if (CR_UNLIKELY(atomic_load_explicit(&s->pending, memory_order_relaxed)))
        t->stages |= CR_STAGE_BIT(DEFER);
}

void cr_follow_moved(cr_tensor *t)
{
    cr_storage_follow(t->storage);
    set_storage(t, t->storage, t->offset);
}

cr_status cr_fail_emptied(const cr_tensor *t)
{
    return cr_fail(CR_RUNTIME,
                   "the storage of a tensor of %lld elements on %s was resized to 0 bytes; "
                   "resize it again before the tensor is used",
                   (long long)t->numel, cr_device_print(t->device).text);
}

/* --- counting --- */

static CR_NOINLINE bool peer_keeps(cr_tensor *t)
{
    atomic_store_explicit(&t->count, 0, memory_order_relaxed);
    return cr_peer_revive(t);
}

static void tensor_free(cr_tensor *t)
{
    if (t->peer && peer_keeps(t))
        return;
    if (CR_UNLIKELY(t->watched) && cr_watched_dies(t))
        return;
    if (t->grad)
        cr_grad_meta_drop(t->grad);
    if (CR_UNLIKELY(t->batch != NULL))
        cr_drop(t->batch);
    cr_storage_drop(t->storage);
    header_free(t);
}

/* The only owner needs no atomic subtraction, because no other thread can add a reference. */
void cr_drop(cr_tensor *t)
{
    if (!t)
        return;
    if (atomic_load_explicit(&t->count, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&t->count, 1, memory_order_acq_rel) == 1)
        tensor_free(t);
}

/* --- invalid sizes --- */

static CR_NOINLINE cr_status refuse_sizes(int ndim, const int64_t *size, const int64_t *stride)
{
    int bad = 0;

    while (bad < ndim && size[bad] >= 0)
        bad++;
    if (bad < ndim)
        return cr_fail(CR_RUNTIME, "Trying to create tensor with negative dimension %lld: %s",
                       (long long)size[bad], cr_shape_text(ndim, size));
    return cr_fail(CR_RUNTIME, "Storage size calculation overflowed with sizes=%s%s%s",
                   cr_shape_text(ndim, size), stride ? " and strides=" : "",
                   stride ? cr_shape_text(ndim, stride) : "");
}

static cr_status refuse_rank(int ndim)
{
    return cr_fail(CR_RUNTIME, "a tensor has at most %d dimensions, not %d", CR_MAX_DIMS, ndim);
}

/* Elements and bytes of a row-major tensor.  False on overflow. */
static inline bool count_row_major(int ndim, const int64_t *size, int64_t item, int64_t *numel,
                                   int64_t *bytes)
{
    int64_t n = 1;
    bool bad = false;

    for (int i = 0; i < ndim; i++)
        bad |= size[i] < 0 || CR_MUL_OVERFLOW(n, size[i], &n);
    *numel = n;
    return !(bad || CR_MUL_OVERFLOW(n, item, bytes));
}

/* Bytes up to the last element of a strided view. */
static bool count_strided(int ndim, const int64_t *size, const int64_t *stride, int64_t item,
                          int64_t *numel, int64_t *bytes)
{
    int64_t last = 0, reach;

    if (!count_row_major(ndim, size, item, numel, bytes))
        return false;
    for (int i = 0; i < ndim; i++)
        if (stride[i] < 0)
            return false;
    if (*numel == 0)
        return true;
    for (int i = 0; i < ndim; i++)
        if (CR_MUL_OVERFLOW(size[i] - 1, stride[i], &reach) ||
            CR_ADD_OVERFLOW(last, reach, &last))
            return false;
    return !CR_ADD_OVERFLOW(last, 1, &last) && !CR_MUL_OVERFLOW(last, item, bytes);
}

/* --- making --- */

cr_status cr_tensor_new(cr_tensor **out, cr_dtype dtype, cr_device device, int ndim,
                        const int64_t *size)
{
    int64_t numel, bytes, step = 1;
    bool overflow = false;
    cr_storage *s;

    if (CR_UNLIKELY(ndim > CR_MAX_DIMS))
        return refuse_rank(ndim);
    if (CR_UNLIKELY(
            !count_row_major(ndim, size, (int64_t)cr_dtype_size(dtype), &numel, &bytes)))
        return refuse_sizes(ndim, size, NULL);
    cr_tensor *t = tensor_header_new(dtype, device, ndim);
    CR_NEED(t);
    cr_status st = cr_storage_new(&s, device, (size_t)bytes);
    if (CR_UNLIKELY(st)) {
        header_free(t);
        return st;
    }
    for (int i = ndim - 1; i >= 0; i--) {
        t->size[i] = size[i];
        t->stride[i] = step;
        overflow |= CR_MUL_OVERFLOW(step, size[i] > 1 ? size[i] : 1, &step);
    }
    if (CR_UNLIKELY(overflow)) { /* possible only with a size of 0 */
        cr_storage_drop(s);
        header_free(t);
        return cr_fail(CR_RUNTIME, "Stride calculation overflowed");
    }
    t->numel = numel;
    t->contiguous = true;
    set_storage(t, s, 0);
    *out = t;
    return CR_OK;
}

void cr_tensor_exchange(cr_tensor *a, cr_tensor *b)
{
    cr_storage *storage = a->storage;
    cr_grad_meta *grad = a->grad;
    char *address = a->address;
    int64_t offset = a->offset;
    uint32_t stages = a->stages;
    bool requires_grad = a->requires_grad;

    a->storage = b->storage;
    a->grad = b->grad;
    a->address = b->address;
    a->offset = b->offset;
    a->stages = b->stages;
    a->requires_grad = b->requires_grad;
    b->storage = storage;
    b->grad = grad;
    b->address = address;
    b->offset = offset;
    b->stages = stages;
    b->requires_grad = requires_grad;
}

cr_status cr_tensor_without_bytes(cr_tensor **out, const cr_tensor *like, size_t bytes)
{
    cr_tensor *t = tensor_header_new((cr_dtype)like->dtype, like->device, like->ndim);

    CR_NEED(t);
    cr_status st = cr_storage_new(&t->storage, cr_as_fake(like->device), bytes);
    if (CR_UNLIKELY(st)) {
        header_free(t);
        return st;
    }
    for (int i = 0; i < like->ndim; i++) {
        t->size[i] = like->size[i];
        t->stride[i] = like->stride[i];
    }
    t->numel = like->numel;
    t->contiguous = like->contiguous;
    *out = t;
    return CR_OK;
}

static cr_status count_elements(int ndim, const int64_t *size, int64_t *numel)
{
    bool overflow = false;

    *numel = 1;
    for (int i = 0; i < ndim; i++)
        overflow |= CR_MUL_OVERFLOW(*numel, size[i], numel);
    return CR_UNLIKELY(overflow) ? cr_fail(CR_RUNTIME, "numel: integer multiplication overflow")
                                 : CR_OK;
}

static void set_dims(cr_tensor *t, int ndim, const int64_t *size, const int64_t *stride,
                     int64_t numel)
{
    t->ndim = (uint8_t)ndim;
    t->numel = numel;
    for (int i = 0; i < ndim; i++) {
        t->size[i] = size[i];
        t->stride[i] = stride[i];
    }
    t->contiguous = cr_is_contiguous(ndim, t->size, t->stride);
}

cr_status cr_tensor_new_strided(cr_tensor **out, cr_dtype dtype, cr_device device, int ndim,
                                const int64_t *size, const int64_t *stride)
{
    int64_t numel, bytes;
    cr_storage *s = NULL;
    cr_status st;

    if (!stride)
        return cr_tensor_new(out, dtype, device, ndim, size);
    if (ndim > CR_MAX_DIMS)
        return refuse_rank(ndim);
    if (!count_strided(ndim, size, stride, (int64_t)cr_dtype_size(dtype), &numel, &bytes))
        return refuse_sizes(ndim, size, stride);
    CR_TRY(cr_storage_new(&s, device, (size_t)bytes));
    st = cr_tensor_over(out, s, dtype, ndim, size, stride, 0);
    if (st)
        cr_storage_drop(s);
    return st;
}

cr_status cr_tensor_over(cr_tensor **out, cr_storage *storage, cr_dtype dtype, int ndim,
                         const int64_t *size, const int64_t *stride, int64_t offset)
{
    int64_t numel;

    if (CR_UNLIKELY(ndim > CR_MAX_DIMS))
        return refuse_rank(ndim);
    CR_TRY(count_elements(ndim, size, &numel));
    cr_tensor *t = tensor_header_new(dtype, storage->device, ndim);
    CR_NEED(t);
    set_dims(t, ndim, size, stride, numel);
    set_storage(t, storage, offset);
    *out = t;
    return CR_OK;
}

cr_status cr_tensor_view(cr_tensor **out, const cr_tensor *base, const cr_geometry *g)
{
    CR_TRY(cr_tensor_over(out, base->storage, base->dtype, g->ndim, g->size, g->stride,
                          CR_WRAP_ADD(base->offset, g->offset)));
    cr_storage_keep(base->storage);
    set_inference(*out, base->inference);
    if (CR_UNLIKELY(cr_is_lazy(base)))
        cr_tensor_set_bits(*out, base->conj, base->neg);
    return CR_OK;
}

cr_status cr_tensor_alias(cr_tensor **out, const cr_tensor *t)
{
    CR_TRY(cr_tensor_over(out, t->storage, t->dtype, t->ndim, t->size, t->stride, t->offset));
    cr_storage_keep(t->storage);
    set_inference(*out, t->inference);
    (*out)->number = t->number;
    if (CR_UNLIKELY(t->layout))
        cr_tensor_set_layout(*out, t->layout);
    if (CR_UNLIKELY(cr_is_lazy(t)))
        cr_tensor_set_bits(*out, t->conj, t->neg);
    return CR_OK;
}

cr_status cr_tensor_scalar(cr_tensor **out, cr_scalar s, cr_dtype dtype, bool number)
{
    cr_tensor *t;

    CR_TRY(cr_tensor_new(&t, dtype, CR_HOST, 0, NULL));
    cr_scalar_store(s, dtype, t->address);
    t->number = number;
    *out = t;
    return CR_OK;
}

/* Gives `t` other sizes and strides.  The arrays may be those of `t`. */
static cr_status replace_dims(cr_tensor *t, int ndim, const int64_t *size,
                              const int64_t *stride)
{
    int64_t dims[2 * CR_MAX_DIMS], *old = t->size == t->dims ? NULL : t->size, numel;

    if (ndim > CR_MAX_DIMS)
        return refuse_rank(ndim);
    CR_TRY(count_elements(ndim, size, &numel));
    memcpy(dims, size, (size_t)ndim * sizeof *dims);
    memcpy(dims + ndim, stride, (size_t)ndim * sizeof *dims);
    CR_TRY(get_dims(t, ndim));
    cr_free(old);
    set_dims(t, ndim, dims, dims + ndim, numel);
    return CR_OK;
}

cr_status cr_tensor_set_geometry(cr_tensor *t, const cr_geometry *g)
{
    CR_TRY(replace_dims(t, g->ndim, g->size, g->stride));
    set_storage(t, t->storage, t->offset + g->offset);
    return CR_OK;
}

cr_status cr_tensor_set_from(cr_tensor *t, const cr_tensor *from)
{
    cr_storage *old = t->storage;

    CR_TRY(replace_dims(t, from->ndim, from->size, from->stride));
    t->dtype = from->dtype;
    t->device = from->device;
    t->stages &= ~(CR_STAGE_BIT(FAKE) | CR_STAGE_BIT(KERNEL));
    t->stages |= device_stages(from->device);
    cr_tensor_set_layout(t, from->layout);
    set_storage(t, cr_storage_keep(from->storage), from->offset);
    cr_storage_leave(old);
    return CR_OK;
}

cr_status cr_tensor_resize(cr_tensor *t, int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t item = (int64_t)cr_dtype_size(t->dtype), numel, bytes;

    if (!count_strided(ndim, size, stride, item, &numel, &bytes) ||
        CR_ADD_OVERFLOW(bytes, t->offset * item, &bytes))
        return refuse_sizes(ndim, size, stride);
    if (numel && (size_t)bytes > t->storage->size)
        CR_TRY(cr_storage_resize(t->storage, (size_t)bytes));
    CR_TRY(replace_dims(t, ndim, size, stride));
    set_storage(t, t->storage, t->offset);
    return CR_OK;
}

/* --- properties --- */

/* The value of an element, from the stored number `s` and the tensor's bits. */
static cr_scalar item_of_stored(cr_scalar s, const cr_tensor *t)
{
    _Alignas(16) char element[16];

    if (t->conj && s.category == CR_CAT_COMPLEX)
        s.c.im = -s.c.im;
    if (!t->neg)
        return s;
    if (s.category == CR_CAT_COMPLEX)
        s.c = (cr_complex){-s.c.re, -s.c.im};
    else if (s.category == CR_CAT_FLOAT)
        s.d = -s.d;
    else
        s.i = (int64_t)(0 - (uint64_t)s.i);
    cr_scalar_store(s, (cr_dtype)t->dtype, element); /* wraps integers to the dtype */
    return cr_scalar_load((cr_dtype)t->dtype, element);
}

/* The only element of a tensor without bytes, from its handler. */
static cr_status item_by_call(cr_scalar *out, const cr_tensor *t)
{
    cr_value arg = cr_of_tensor((cr_tensor *)(uintptr_t)t), result;

    CR_TRY(cr_call_given(&result, cr_entry._local_scalar_dense, &arg, 1));
    *out = result.tag == CR_NUMBER  ? result.number
           : result.tag == CR_FLOAT ? cr_scalar_float(result.d)
                                    : cr_scalar_int(result.i);
    return CR_OK;
}

cr_status cr_tensor_item(cr_scalar *out, const cr_tensor *t)
{
    if (t->numel != 1)
        return cr_fail(CR_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar",
                       (long long)t->numel);
    if (CR_UNLIKELY(t->layout))
        return cr_fail(CR_RUNTIME, "Tensor.item() cannot be called on sparse tensors");
    char *at;
    CR_TRY(cr_reach(&at, t));
    if (!at && cr_is_dispatched(t) && !(cr_thread.exclude & CR_STAGE_BIT(PYTHON)))
        return item_by_call(out, t);
    if (!at)
        return cr_fail(CR_RUNTIME, "Tensor.item() cannot be called on meta tensors");
    if (CR_UNLIKELY(!cr_is_host(t->device))) {
        _Alignas(16) char element[16];
        CR_TRY(cr_device_copy_out(element, t->device, at, cr_dtype_size(t->dtype)));
        *out = cr_scalar_load(t->dtype, element);
    } else {
        *out = cr_scalar_load(t->dtype, at);
    }
    if (CR_UNLIKELY(cr_is_lazy(t)))
        *out = item_of_stored(*out, t);
    return CR_OK;
}

static _Atomic int default_dtype = CR_F32;

cr_dtype cr_default_dtype(void)
{
    return (cr_dtype)atomic_load_explicit(&default_dtype, memory_order_relaxed);
}

cr_status cr_set_default_dtype(cr_dtype t)
{
    if (!cr_dtype_is_float(t))
        return cr_fail(CR_TYPE, "only floating-point types are supported as the default type");
    if (cr_dtype_is_float8(t))
        return cr_fail(CR_TYPE, "couldn't find storage object %sStorage",
                       cr_dtype_infos[t].legacy);
    atomic_store(&default_dtype, (int)t);
    return CR_OK;
}

const char *cr_tensor_type_name(const cr_tensor *t)
{
    static const char *const sparse[] = {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    [CR_##NAME] = "torch.sparse." legacy "Tensor",
#include "num/dtype.def"
#undef CR_DTYPE
    };
    if (t->layout == CR_LAYOUT_COO)
        return sparse[t->dtype];
    return cr_device_type_name((cr_device_kind)t->device.kind, (cr_dtype)t->dtype);
}
