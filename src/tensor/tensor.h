/* tensor.h - tensors, storages, and calling operators.
 *
 * A tensor has a refcount, sizes, strides (in elements) and an offset into a storage, which has
 * a refcount, too.  Arguments are borrowed, results are owned by the caller, dropping NULL is
 * fine.  Every operator is called through cr_call. */
#ifndef CR_TENSOR_TENSOR_H
#define CR_TENSOR_TENSOR_H

#include "base/memory.h"
#include "device/device.h"
#include "ops/ops.h"
#include "space/shape.h"
#include <stdatomic.h>

/* Stages of a call, first to last.  A call starts at the first stage whose bit is set in the
 * thread or in an argument. */
typedef enum {
#define CR_STAGE(name) CR_STAGE_##name,
#include "tensor/stages.def"
#undef CR_STAGE
    CR_STAGE_COUNT
} cr_stage;
#define CR_STAGE_BIT(name) (1u << CR_STAGE_##name)
/* The stages up to `stage`, except PROFILE and SPARSE, which calls inside of other calls also
 * go through. */
#define CR_STAGES_UP_TO(stage)                                                                 \
    (((2u << (stage)) - 1) & ~(CR_STAGE_BIT(PROFILE) | CR_STAGE_BIT(SPARSE)))

/* A block of bytes on one device.  Never moves to another device.
 * Invariant: chunk is NULL, or has at least `size` bytes. Bytes that no call has made yet
 * have no chunk, and are pending. release is set for foreign memory and aliases alone. */
typedef struct cr_storage {
    _Atomic int32_t count;
    uint32_t version; /* counts in-place changes; views share it */
    char *chunk;      /* an address on the device; NULL when empty, without bytes or pending */
    size_t size;      /* bytes */
    uint32_t size_class;
    cr_device device;
    uint8_t most;         /* at least the class of the bytes of all earlier sizes; 0: none */
    uint8_t header_class; /* class of the block of this header and, when small, its bytes */
    bool pinned;
    bool followed : 1; /* a recorder owns tensors of this storage (cr_followed_loses) */
    bool exposed : 1;  /* the address was given out: bytes may change without a new version */
    _Atomic int32_t
        aliases; /* other storages and arrays over these bytes; they do not raise `version` */
    _Atomic uint32_t hidden; /* number of aliases that ended; each may have changed bytes */
    _Atomic uint16_t
        pending; /* number of the trace whose calls make or write the bytes; 0: none */
    _Atomic uint16_t traces; /* number of traces with calls that use the bytes: references */
    /* Foreign memory or an alias of another storage: called once when this one is freed. */
    void (*release)(void *owner);
    void *owner;
} cr_storage;

/* How the elements of a tensor are stored; sparse.h has the layouts other than strided. */
typedef enum {
#define CR_LAYOUT_(NAME, name, text, backend) CR_LAYOUT_##NAME,
#include "ops/layouts.def"
#undef CR_LAYOUT_
    CR_LAYOUT_COUNT
} cr_layout_kind;
extern const char *const cr_layout_names[CR_LAYOUT_COUNT];

/* Opaque slots of upper rooms. */
typedef struct cr_grad_meta cr_grad_meta; /* autograd/ */

enum { CR_INLINE_DIMS = 5 };

/* A tensor: a view of the elements of a storage.
 * Invariant: size and stride have ndim entries, and numel is the product of the sizes.
 * address is NULL, or the storage's chunk and `offset` elements; elements at an address are
 * inside of the chunk. */
typedef struct cr_tensor {
    _Atomic int32_t count;
    uint32_t stages; /* CR_STAGE_BIT set */
    uint8_t dtype, ndim;
    cr_device device;
    bool contiguous;    /* row-major without gaps */
    bool requires_grad; /* a leaf that requires a gradient, or a result with a grad_fn */
    bool number;        /* stands for a Python number: weak in promotion */
    bool inference;     /* made in inference mode */
    bool watched;       /* a recorder refers to it without a reference (cr_watched_dies) */
    bool conj, neg;     /* elements are the conjugates (conj) or the negatives (neg) of the
                         * stored numbers; cr_tensor_set_bits changes the bits */
    uint8_t layout;     /* cr_layout_kind */
    cr_storage *storage;
    /* For the kernels; code above them calls cr_reach.  The block of the storage + offset; NULL
     * for fakes, meta, sparse and pending tensors. */
    char *address;
    int64_t offset; /* elements from the storage's start */
    int64_t numel;
    int64_t *size, *stride;  /* ndim each; inline up to CR_INLINE_DIMS */
    cr_grad_meta *grad;      /* NULL until needed */
    void *peer;              /* the Python object, see py/bind */
    struct cr_tensor *batch; /* the batch of which this is an example (batch.h), or NULL */
    uint64_t level;          /* of the map; undefined without a batch */
    int64_t dims[2 * CR_INLINE_DIMS];
} cr_tensor;

/* Exchanges memory and history of two tensors with equal dtype, device, sizes and strides. */
void cr_tensor_exchange(cr_tensor *a, cr_tensor *b);

/* --- counting --- */
CR_API void cr_drop(cr_tensor *t);
static inline cr_tensor *cr_keep(cr_tensor *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
    return t;
}
/* Drops the tensors in results.  A Tensor[] result's `list` is an array of cr_alloc that the
 * results own; it is freed here too. */
void cr_drop_values(cr_value *v, int n);
void cr_storage_drop(cr_storage *s);
static inline cr_storage *cr_storage_keep(cr_storage *s)
{
    atomic_fetch_add_explicit(&s->count, 1, memory_order_relaxed);
    return s;
}
/* cr_grad_meta_drop is set by autograd/ and frees the slot. cr_peer_revive is set by py/ and
 * called when the refcount of a tensor with a Python object reaches 0. It returns true when the
 * object keeps the tensor alive and has taken a reference. */
extern void (*cr_grad_meta_drop)(cr_grad_meta *m);
extern bool (*cr_peer_revive)(cr_tensor *t);
/* Set by graph/, called when a watched tensor loses its last reference.  Returns true when the
 * recorder takes that reference. */
extern bool (*cr_watched_dies)(cr_tensor *t);
/* Set by graph/, called after a followed storage lost a reference.  The storage may already
 * have been freed.  `bytes` is its cr_storage_key. */
extern void (*cr_followed_loses)(const void *bytes);

/* --- making --- */
/* Row-major, contents undefined. */
CR_MUST cr_status cr_tensor_new(cr_tensor **out, cr_dtype dtype, cr_device device, int ndim,
                                const int64_t *size);
/* With strides for a dense layout given by the caller (elements, non-overlapping); NULL:
 * row-major. */
CR_MUST cr_status cr_tensor_new_strided(cr_tensor **out, cr_dtype dtype, cr_device device,
                                        int ndim, const int64_t *size, const int64_t *stride);
/* A tensor over `storage`.  On success the tensor takes the caller's reference to the storage;
 * a caller that needs one, too, calls cr_storage_keep(storage) afterwards. */
CR_MUST cr_status cr_tensor_over(cr_tensor **out, cr_storage *storage, cr_dtype dtype, int ndim,
                                 const int64_t *size, const int64_t *stride, int64_t offset);
/* A tensor over the storage of `base`; g->offset counts from base's first element. */
CR_MUST cr_status cr_tensor_view(cr_tensor **out, const cr_tensor *base, const cr_geometry *g);
/* Marks a new tensor without history as an inference tensor, or as none.  Outside inference
 * mode the autograd stage refuses to change or to save one.  A view is what its base is. */
void cr_tensor_set_inference(cr_tensor *t, bool on);
/* A 0-d tensor holding `s` as `dtype`; `number` marks it weak in promotion. */
CR_MUST cr_status cr_tensor_scalar(cr_tensor **out, cr_scalar s, cr_dtype dtype, bool number);
CR_MUST cr_status cr_storage_new(cr_storage **out, cr_device device, size_t size);
/* Foreign bytes: `release(owner)` is called once, when the storage is freed. */
CR_MUST cr_status cr_storage_foreign(cr_storage **out, void *bytes, size_t size,
                                     void (*release)(void *), void *owner);
/* Another storage over the same bytes; it has a separate version (`.data`).  Resizing it
 * resizes `of`. */
CR_MUST cr_status cr_storage_alias(cr_storage **out, cr_storage *of);
/* The bytes [start, start + size) of `of` as another storage, which cannot be resized. */
CR_MUST cr_status cr_storage_part(cr_storage **out, cr_storage *of, size_t start, size_t size);
/* Number of calls in progress beside which the program makes others, as Python's threads do.
 * While it is not 0, they may read bytes that a tensor leaves, which are therefore kept. */
extern _Atomic long cr_calls_apart;
/* Drops the storages that tensors left meanwhile.  Call when the number is 0 again, from a
 * thread that may free what storages own. */
void cr_storages_drop_left(void);
/* Between these two calls other code may change the bytes without raising the version. */
void cr_storage_lend(cr_storage *s);
void cr_storage_return(cr_storage *s);
/* True when every change of the bytes raises `version` or `hidden`. */
bool cr_storage_is_watched(const cr_storage *s);
/* A second tensor over the same storage, sizes and strides; no gradient, no peer. */
CR_MUST cr_status cr_tensor_alias(cr_tensor **out, const cr_tensor *t);
/* Makes `t` another view of its storage (in-place transpose_, squeeze_, resize_). */
CR_MUST cr_status cr_tensor_set_geometry(cr_tensor *t, const cr_geometry *g);
/* set_/`.data =`: takes over the storage, geometry and dtype of `from`. */
CR_MUST cr_status cr_tensor_set_from(cr_tensor *t, const cr_tensor *from);
/* Gives `t` these sizes and strides from its offset on, growing the storage when needed
 * (resize_, out=).  Other tensors over a storage that had to move point to the old bytes until
 * cr_follow_storage. */
CR_MUST cr_status cr_tensor_resize(cr_tensor *t, int ndim, const int64_t *size,
                                   const int64_t *stride);
/* Copies bytes between storages on any devices.  Does nothing when one of them has no bytes. */
CR_MUST cr_status cr_storage_copy(cr_storage *to, size_t at, const cr_storage *from,
                                  size_t from_at, size_t n);
/* A dense copy on the host if `t` has bytes on another device, or has bytes and the bit conj or
 * neg; else a new reference to `t`. */
CR_MUST cr_status cr_tensor_on_host(cr_tensor **out, cr_tensor *t);
/* Never moves the bytes when they fit the block; see cr_tensor_resize.  Tensors that have more
 * bytes than the storage afterwards keep them, but for size 0 on a device other than the host:
 * the block goes back to the device, and calls that read the tensors fail (cr_is_emptied). */
CR_MUST cr_status cr_storage_resize(cr_storage *s, size_t size);
/* True from the first time on that a storage got other bytes while it was shared. */
extern _Atomic bool cr_storages_moved;
void cr_follow_moved(cr_tensor *t);
/* Points `t` to the bytes that its storage has now. */
static inline void cr_follow_storage(cr_tensor *t)
{
    if (CR_UNLIKELY(atomic_load_explicit(&cr_storages_moved, memory_order_relaxed)))
        cr_follow_moved(t);
}
/* True for a tensor with elements of a device whose storage was resized to 0 bytes. */
static inline bool cr_is_emptied(const cr_tensor *t)
{
    return !t->address && t->numel && !t->layout && cr_has_bytes(t->device) &&
           !t->storage->device.fake && !t->storage->chunk &&
           !atomic_load_explicit(&t->storage->pending, memory_order_relaxed);
}
/* Sets the error of a read of such a tensor. */
cr_status cr_fail_emptied(const cr_tensor *t);
/* Says that work of the calling thread's stream uses the bytes of a tensor of a device
 * (note_use of facts.h). */
CR_MUST cr_status cr_note_use(const cr_tensor *t);

/* --- elements --- */
/* Code above the kernels reaches elements through these functions only, because making them
 * present may fail; `address` and `chunk` are for the kernels (tools/counts checks that). */
/* Number of traces with calls that wait (defer.h). */
extern _Atomic int cr_defer_live;
CR_MUST cr_status cr_reach_slowly(char **out, const cr_tensor *t);
/* The first element of `t`, for reading; NULL for tensors without bytes. */
CR_MUST static inline cr_status cr_reach(char **out, const cr_tensor *t)
{
    *out = t->address;
    if (CR_LIKELY(*out && !atomic_load_explicit(&cr_defer_live, memory_order_relaxed)))
        return CR_OK;
    return cr_reach_slowly(out, t);
}
/* The same for writing, or for code outside of the library that reads and writes at any
 * time. */
CR_MUST cr_status cr_reach_to_write(char **out, const cr_tensor *t);
/* The first byte of `s`, to write or to read; NULL for storages without bytes. */
CR_MUST cr_status cr_reach_storage(char **out, cr_storage *s);
/* The same for all storages over the same bytes, and the same before and after a flush: the
 * address of foreign memory, or of the storage that owns the bytes. */
const void *cr_storage_key(cr_storage *s);
/* Whether both tensors start at the same byte, or have none. */
static inline bool cr_same_start(const cr_tensor *a, const cr_tensor *b)
{
    return a->address == b->address;
}
/* Whether cr_reach finds an element. */
static inline bool cr_has_elements(const cr_tensor *t)
{
    return t->address != NULL || t->stages & CR_STAGE_BIT(DEFER);
}
/* The plain view of a tensor for the kernels, valid until the tensor's geometry changes. */
static inline cr_view cr_view_of(const cr_tensor *t)
{
    return (cr_view){t->address, t->size, t->stride, t->ndim, t->dtype, t->device, t->number};
}
/* The same for code above the kernels, which reads or writes the elements... */
CR_MUST static inline cr_status cr_reach_view(cr_view *out, const cr_tensor *t)
{
    *out = cr_view_of(t);
    return cr_reach(&out->data, t);
}
/* ... or reads sizes and strides only. */
static inline cr_view cr_shape_view(const cr_tensor *t)
{
    return (cr_view){NULL, t->size, t->stride, t->ndim, t->dtype, t->device, t->number};
}

/* Sets the layout, and the stage of calls with such tensors (sparse.h). */
void cr_tensor_set_layout(cr_tensor *t, int layout);

/* --- tensors with the bit conj or neg (lazy.c) --- */
/* Code below the stage CONJ sees no such tensors, except in entries that take them
 * (cr_op_takes_bits), and may therefore read the stored numbers. */
static inline bool cr_is_lazy(const cr_tensor *t)
{
    return (t->stages & CR_STAGE_BIT(CONJ)) != 0;
}
void cr_tensor_set_bits(cr_tensor *t, bool conj, bool neg);
/* Whether a tensor among the arguments has one of the bits. */
bool cr_any_lazy(const cr_op *op, const cr_value *arg);

/* True if a handler in Python makes the call, and autograd records the calls that the handler
 * makes: it gets arguments with their bits, so that copies without bits have a history.  NULL
 * without Python. */
extern bool (*cr_handler_records)(const cr_op *op, const cr_value *arg);
/* A new reference to `t`, or a copy without bits when it has some.  Not recorded. */
CR_MUST cr_status cr_tensor_resolved(cr_tensor **out, cr_tensor *t);
/* The same by calls through all stages. */
CR_MUST cr_status cr_tensor_resolved_by_calls(cr_tensor **out, cr_tensor *t);
typedef cr_status (*cr_resolve_fn)(cr_tensor **out, cr_tensor *t);
/* Copies elements as cr_copy_elements does, for tensors that may have bits. */
CR_MUST cr_status cr_copy_tensor(const cr_tensor *to, const cr_tensor *from);
/* Runs `call` with copies, made by `resolve`, instead of the arguments that have bits, and
 * copies back to those that the entry writes. */
CR_MUST cr_status cr_call_resolved(cr_call_fn call, cr_resolve_fn resolve, const cr_op *op,
                                   const cr_value *arg, cr_value *result);
/* True if the entry takes tensors that have bits: a view, a composition, or an entry whose
 * function handles the bits. */
bool cr_op_takes_bits(const cr_op *op);

/* --- tensors and modes with __torch_dispatch__ (stage PYTHON, py/bind/call/dispatch.c) --- */
/* Calls with such a tensor go through the stages AUTOGRAD and PYTHON.  A tensor that only wraps
 * others has no bytes; its device is a fake one. */
#define CR_DISPATCH_BITS (CR_STAGE_BIT(AUTOGRAD) | CR_STAGE_BIT(PYTHON))
static inline bool cr_is_dispatched(const cr_tensor *t)
{
    return (t->stages & CR_STAGE_BIT(PYTHON)) != 0;
}
/* The device of new tensors that belong to `t`. */
static inline cr_device cr_device_beside(const cr_tensor *t)
{
    cr_device device = t->device;

    device.fake &= !cr_is_dispatched(t);
    return device;
}
/* Runs a composition or a `whole` entry as the calls that programs with __torch_dispatch__ see
 * instead of it. */
CR_MUST cr_status cr_call_dispatch_parts(const cr_op *op, const cr_value *arg,
                                         cr_value *result);

/* Runs the calls of a composition (IS, STEPS), also where the entry has a faster function. */
CR_MUST cr_status cr_run_composition(const cr_op *op, const cr_value *arg, cr_value *result);

/* --- properties --- */
bool cr_is_channels_last(const cr_tensor *t); /* NCHW with NHWC strides */
bool cr_is_dense(const cr_tensor *t);         /* no gaps, no overlap, in some order */
/* True when elements share memory through a stride of 0. Like torch, it detects no other
 * overlap. */
bool cr_has_internal_overlap(const cr_tensor *t);
/* Fails with torch's message about a write to such a tensor. */
CR_MUST cr_status cr_refuse_internal_overlap(void);
CR_MUST cr_status cr_tensor_item(cr_scalar *out,
                                 const cr_tensor *t); /* one element; CR_RUNTIME */
CR_API cr_dtype cr_default_dtype(void);
CR_API cr_status cr_set_default_dtype(cr_dtype t);
/* The dtype that torch infers for a number: of a float the default dtype. */
cr_dtype cr_number_dtype(cr_category category);
/* torch's promotion of tensors, numbers and dtypes; CR_NONE values are skipped, and without
 * others *out is CR_DTYPE_NONE.  Fails with torch's message where it refuses (cr_promote). */
CR_MUST cr_status cr_promote_values(cr_dtype *out, const cr_value *v, int n);
/* Broadcast of the sizes of the tensors in `v`.  CR_RUNTIME in torch's words. */
CR_MUST cr_status cr_broadcast(cr_shape *out, const cr_value *v, int n);
/* Sizes and strides of a result of a body with these arguments, of which only geometry is
 * read. CR_RUNTIME where sizes do not fit each other. */
CR_MUST cr_status cr_elementwise_geometry(cr_geometry *out, const cr_op *op,
                                          const cr_value *arg);
/* Whether the entry's checks have the same answer for tensors of other sizes, with the same
 * dtypes, numbers of dims and arguments but for those of bits `varying`. */
bool cr_checks_ignore_sizes(const cr_op *op, uint32_t varying);
/* "[2, 3]" as torch prints sizes. */
void cr_print_sizes(cr_text *out, int ndim, const int64_t *size);
const char *cr_tensor_type_name(const cr_tensor *t); /* "torch.FloatTensor" */

/* --- calling --- */
typedef struct {
    uint32_t include, exclude; /* stage bits of the thread */
    bool no_grad, inference;   /* grad mode, kept here so that a call reads one cache line */
    bool warn_always;
    bool fakes;    /* factories make fakes, while graphs are replayed to find types */
    bool derives;  /* the calls are those of a derivative: their indices were checked before */
    bool converts; /* autocast's stage converts an argument */
    cr_device device; /* where factories make tensors when the call names no device */
} cr_thread_state;
extern CR_THREAD cr_thread_state cr_thread;
/* CR_STAGE_BIT(DEFER) while calls may be pending, in this thread or another one, else 0.  Other
 * threads set it. */
extern CR_THREAD _Atomic uint32_t cr_deferring;

typedef cr_status (*cr_stage_fn)(const cr_op *op, const cr_value *arg, cr_value *result);
extern cr_stage_fn cr_stage_fns[CR_STAGE_COUNT]; /* upper rooms install theirs */

/* True if a tensor among the arguments, or in a list of them, passes the test. */
bool cr_any_tensor(const cr_op *op, const cr_value *arg, bool (*test)(const cr_tensor *));
/* Calls fn(tensor, context) for each tensor of an argument, and of all arguments. */
void cr_each_tensor_of(const cr_value *v, void (*fn)(cr_tensor *, void *), void *context);
void cr_each_tensor(const cr_op *op, const cr_value *arg, void (*fn)(cr_tensor *, void *),
                    void *context);

/* Calls through all stages.  arg has op->param_count entries, result
 * op->result_count; results are owned by the caller.  On failure nothing is owned. */
CR_API CR_MUST cr_status cr_call(const cr_op *op, const cr_value *arg, cr_value *result);
/* The same, starting at the stage after `stage`. */
CR_MUST cr_status cr_call_below(cr_stage stage, const cr_op *op, const cr_value *arg,
                                cr_value *result);
/* The same for this call only: the calls that the operator makes go through all stages. */
CR_MUST cr_status cr_call_past(cr_stage stage, const cr_op *op, const cr_value *arg,
                               cr_value *result);
/* The stages that a call of the thread with these arguments goes through. */
uint32_t cr_call_stages(const cr_op *op, const cr_value *arg);
/* The in-place form: cr_call of op->inplace, a record whose first parameter is written
 * (so every stage sees that); the result is arg[0] again, counted.  Stages recognise an
 * in-place call by op->param[0].written, and the entry it computes by op->inplace_of. */
CR_MUST cr_status cr_call_inplace(const cr_op *op, const cr_value *arg, cr_value *result);
/* Computes an elementwise entry with one result into `out`, which has the result's sizes and
 * dtype, is row-major, and shares no memory with an argument unless the argument has exactly
 * its elements. */
CR_MUST cr_status cr_call_into(const cr_op *op, const cr_value *arg, cr_tensor *out);
/* The out= form: results go to out[k] (resized when needed, as torch does). */
CR_MUST cr_status cr_call_out(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                              cr_value *result);
/* The same for an entry whose result is a list: writes to `n` tensors. */
CR_MUST cr_status cr_call_out_list(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                                   int n);
/* cr_call with the first n arguments; the others have their defaults.  C code names an operator
 * by its field in cr_entry (entry.h). */
CR_MUST cr_status cr_call_given(cr_value *result, const cr_op *op, const cr_value *arg, int n);
/* The same; *out is the first result, which must be the only tensor among them. */
CR_MUST cr_status cr_call_tensor(cr_tensor **out, const cr_op *op, const cr_value *arg, int n);
/* Calls an operator by a name that is known at run time. */
CR_MUST cr_status cr_call_named(const char *name, const cr_value *arg, int n, cr_value *result);
/* Called when arguments were read from a tensor's elements: a recording of these calls holds
 * for these elements only. */
void cr_numbers_were_elements(void);

/* --- rules --- */
/* Runs an entry's checks, then finds the dtypes of the computation and of every result. */
CR_MUST cr_status cr_decide_types(const cr_op *op, const cr_value *arg, cr_dtype *compute,
                                  cr_dtype *dtypes);
/* The text of the entry's warning i (clause `warn`) after a call with these arguments, appended
 * to `out`: nothing where its condition does not hold. */
CR_MUST cr_status cr_op_print_warning(cr_text *out, const cr_op *op, int i,
                                      const cr_value *arg);
/* CR_RUNTIME when the dtype cannot hold the number. */
CR_MUST cr_status cr_check_fits(cr_scalar value, cr_dtype dtype);
/* The same for the numbers of a call, as the entry's clause `fits` says. */
CR_MUST cr_status cr_check_numbers(const cr_op *op, const cr_value *arg, cr_dtype compute);
/* Evaluates rule trees in an environment of slots (ops.h).  Used for compositions,
 * derivatives, shapes and checks.  A frame is a local variable; it allocates only for
 * long lists. */
enum { CR_FRAME_TENSORS = 24, CR_FRAME_BYTES = 768 };
typedef struct cr_frame {
    const cr_op *op,
        *called;         /* called: named in errors; it asks for the sizes of op's result */
    const cr_value *arg; /* slots below op->param_count */
    cr_value slot[CR_MAX_SLOTS];          /* slots that are not arguments */
    uint64_t known;                       /* bit i: slot[i] has a value; set both to give one */
    cr_tensor *tensors[CR_FRAME_TENSORS]; /* made during evaluation */
    int tensor_count;
    CR_VEC(cr_tensor *) more_tensors;
    size_t used;
    _Alignas(16) char bytes[CR_FRAME_BYTES];
    cr_arena more_bytes;
} cr_frame;
/* `arg` is borrowed while the frame lives. */
void cr_frame_init(cr_frame *f, const cr_op *op, const cr_value *arg);
/* *out is borrowed from the frame: keep a tensor before the frame is dropped. */
CR_MUST cr_status cr_frame_eval(cr_frame *f, const cr_rule *rule, cr_value *out);
/* Binds the evaluated arguments `v` of a rule's call of an entry: the overload that takes them,
 * and its arguments, borrowed from the frame. */
CR_MUST cr_status cr_frame_bind(cr_frame *f, const cr_rule *call, const cr_value *v,
                                const cr_op **op, cr_value *arg);
bool cr_value_is_true(const cr_value *v); /* as a condition of a rule */
/* Evaluates a clause `shape`, which must give a list of sizes. */
CR_MUST cr_status cr_rule_shape(cr_shape *out, const cr_rule *rule, cr_frame *f);
/* The same for the value of a composition.  *owned: it is the result of a call, which belongs
 * to the caller, and not to the frame. */
CR_MUST cr_status cr_rule_result(cr_frame *f, const cr_rule *rule, cr_value *out, bool *owned);
/* Evaluates a rule that gives a number: a bool, an integer, a float or a Scalar. */
CR_MUST cr_status cr_rule_number(cr_value *out, const cr_rule *rule, cr_type type, cr_frame *f);
/* Gives a slot a value (a result, a cotangent); tensors stay borrowed from the caller. */
static inline void cr_frame_set(cr_frame *f, int slot, cr_value v)
{
    f->slot[slot] = v;
    f->known |= (uint64_t)1 << slot;
}
void cr_frame_drop(cr_frame *f);

/* --- moving elements --- */
/* Copies with conversion and broadcasting, without autograd; to and from may overlap. */
CR_MUST cr_status cr_copy_elements(const cr_view *to, const cr_view *from);
/* The same; at most `few` row-major ones on the host are converted directly, which takes less
 * time. */
CR_MUST cr_status cr_copy_few(const cr_view *to, const cr_view *from, int64_t few);
CR_MUST cr_status cr_fill_elements(const cr_view *to, cr_scalar value);

/* Loads the table, picks kernels, installs the stages of this and lower rooms.
 * Called once by cr_init; idempotent. */
CR_MUST cr_status cr_tensor_start(void);

#endif
