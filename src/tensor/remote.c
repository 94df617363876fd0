/* Devices whose memory the host does not address: kernels, copies, and the host fallback.
 *
 * Kernels are cached by (device, entry, dtype, form).  At the first call the device builds the
 * kernel from the entry's C text.  The device copies between two layouts of its memory; between
 * a device and the host, elements are copied as one dense block. */
#include "tensor/remote.h"
#include "base/log.h"
#include "base/map.h"
#include "base/parallel.h"
#include "device/facts.h"
#include "emit/dialect.h"
#include "jit/cache.h"
#include "jit/entry.h"
#include "loop/build.h"
#include "loop/libm.h"
#include "space/picked.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const cr_device_ops *ops_of(cr_device d) { return cr_device_of((cr_device_kind)d.kind); }

static const cr_device_facts *facts_of(cr_device d)
{
    return cr_device_facts_of((cr_device_kind)d.kind);
}

/* --- kernels --- */

typedef struct {
    uint16_t op;
    uint8_t kind, index, dtype, form;
    uint8_t stored[CR_MAX_OPERANDS];
} kernel_key;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_map
    kernels; /* kernel_key, or the key of a fused kernel -> the kernel that the device built */
static cr_map entries; /* kind and name -> cr_entry_kernel */
static cr_map told;    /* names of entries whose fallback was logged */
static _Atomic bool fallback;

static void *known_code(const void *key, size_t len)
{
    pthread_mutex_lock(&lock);
    void *code = cr_map_get(&kernels, key, len);
    pthread_mutex_unlock(&lock);
    return code;
}

static cr_status remember_code(const void *key, size_t len, void *code)
{
    pthread_mutex_lock(&lock);
    cr_status st = cr_map_set(&kernels, key, len, code);
    pthread_mutex_unlock(&lock);
    return st;
}

/* The dialect of the texts that the device builds. */
static const cr_dialect *dialect_of(cr_device device)
{
    return cr_dialect_named(facts_of(device)->dialect);
}

bool cr_kernel_accepts(cr_device device, cr_dtype memory, cr_dtype value)
{
    return memory == value || (value == CR_F32 && (memory == CR_F16 || memory == CR_BF16) &&
                               facts_of(device)->reads_halves);
}

cr_status cr_cast_for_kernel(cr_tensor **out, cr_tensor *t, cr_dtype want)
{
    if (t->dtype == want || cr_is_lazy(t) ||
        !cr_kernel_accepts(t->device, (cr_dtype)t->dtype, want))
        return cr_cast_plain(out, t, want);
    *out = cr_keep(t);
    return CR_OK;
}

void cr_stored_note(cr_stored *s, int operand, cr_dtype memory, cr_dtype value)
{
    s->dtype[operand] = memory != value ? (uint8_t)memory : 0;
    s->any = s->any || memory != value;
}

bool cr_has_scans(cr_device device) { return dialect_of(device)->some_columns != NULL; }

/* Drops the source. */
static cr_status build_code(void **code, cr_device device, cr_kernel_source *source)
{
    cr_status st = cr_device_status(ops_of(device)->build(device.index, source, code));
    cr_kernel_source_drop(source);
    return st;
}

static cr_status find_code(void **code, cr_device device, const cr_op *op, cr_dtype dtype,
                           cr_form form, const cr_stored *stored)
{
    cr_kernel_source *source;
    kernel_key key;

    memset(&key, 0, sizeof key);
    key.op = op->index;
    key.kind = device.kind;
    key.index = device.index;
    key.dtype = (uint8_t)dtype;
    key.form = (uint8_t)form;
    if (stored)
        memcpy(key.stored, stored->dtype, sizeof key.stored);
    *code = known_code(&key, sizeof key);
    if (*code)
        return CR_OK;
    CR_TRY(cr_entry_source(&source, dialect_of(device), op, dtype, form,
                           stored && stored->any ? stored->dtype : NULL));
    CR_TRY(build_code(code, device, source));
    return remember_code(&key, sizeof key, *code);
}

/* With halves, a kernel that reduces rows keeps values in registers (source_emit in entry.c).
 */
static cr_status fused_source(cr_kernel_source **out, const cr_dialect *d, const cr_fused *f,
                              const uint8_t *stored)
{
    const cr_loop *l = cr_fused_nest(f)->loop;
    bool rows = stored && cr_nest_fits_registers(cr_fused_nest(f));
    cr_emit_choice choice = {.steps = rows, .stored = stored};
    cr_unit unit = {.launch.params = 0};

    if (d == &cr_dialect_c)
        return cr_unit_source(out, d, cr_fused_unit(f), l, NULL);
    cr_status st = cr_fused_print(&unit, f, rows ? &cr_dialect_cuda_rows : d, &choice);
    if (!st)
        st = cr_unit_source(out, d, &unit, l, stored);
    cr_unit_drop(&unit);
    return st;
}

/* The key of a fused kernel; returns its length. */
static size_t fused_key(char key[static CR_CACHE_KEY + 32 + CR_EMIT_OPERANDS], cr_device device,
                        const cr_fused *f, const cr_stored *stored)
{
    int n = snprintf(key, CR_CACHE_KEY + 32, "%d:%d:%s:", device.kind, device.index,
                     cr_jit_key(cr_fused_kernel(f)));

    if (!stored->any)
        return (size_t)n;
    memcpy(key + n, stored->dtype, sizeof stored->dtype);
    return (size_t)n + sizeof stored->dtype;
}

/* In the place of the code of a kernel that a device could not build. */
static char refused_kernel;

cr_status cr_place_fused(cr_placed_kernel *out, cr_device device, const cr_fused *f,
                         const cr_stored *stored)
{
    cr_kernel_source *source;
    char key[CR_CACHE_KEY + 32 + CR_EMIT_OPERANDS];
    size_t n = fused_key(key, device, f, stored);

    *out = (cr_placed_kernel){.device = device, .code = known_code(key, n)};
    if (out->code == &refused_kernel)
        return cr_fail(CR_RUNTIME, "the device has refused this kernel before");
    if (out->code)
        return CR_OK;
    cr_status st =
        fused_source(&source, dialect_of(device), f, stored->any ? stored->dtype : NULL);
    if (!st)
        st = build_code(&out->code, device, source);
    if (!st)
        return remember_code(key, n, out->code);
    cr_log_line("fusion", 1, "%s has no kernel on %s: %s", cr_fused_nest(f)->loop->name,
                cr_device_kind_name((cr_device_kind)device.kind), cr_error_message());
    if (st == CR_RUNTIME && remember_code(key, n, &refused_kernel))
        return CR_MEMORY;
    return st;
}

cr_status cr_place_kernel(cr_placed_kernel *out, cr_device device, const cr_op *op,
                          cr_dtype dtype, cr_form form)
{
    return cr_place_stored(out, device, op, dtype, form, NULL);
}

cr_status cr_place_stored(cr_placed_kernel *out, cr_device device, const cr_op *op,
                          cr_dtype dtype, cr_form form, const cr_stored *stored)
{
    *out = (cr_placed_kernel){.device = device};
    /* The host has no kernel for both results of a fold that keeps its index. */
    bool both = form >= CR_FORM_JOIN && cr_op_keeps_index(op);
    CR_TRY(cr_find_kernel(&out->fn, op, dtype, both ? CR_FORM_MAIN : form));
    if (cr_is_host(device) || !cr_has_bytes(device))
        return CR_OK;
    out->fn = NULL;
    return find_code(&out->code, device, op, cr_dtype_compute(dtype), form, stored);
}

cr_status cr_launch_kernel(const cr_placed_kernel *k, const cr_launch *how)
{
    cr_launch l = *how;

    l.code = k->code;
    return cr_device_status(ops_of(k->device)->launch(k->device.index, &l));
}

cr_status cr_launch_space(const cr_placed_kernel *k, const cr_launch *how, const cr_space *s,
                          int outer)
{
    int64_t size[CR_MAX_DIMS], stride[CR_SPACE_OPERANDS * CR_MAX_DIMS];
    cr_launch l = *how;

    for (int d = 0; d < outer; d++) {
        size[d] = s->dim[d].size;
        for (int i = 0; i < s->operands; i++)
            stride[i * outer + d] = s->dim[d].step[i];
    }
    l.operands = s->operands;
    l.outer = outer;
    l.outer_size = size;
    l.outer_stride = stride;
    return cr_launch_kernel(k, &l);
}

void cr_share_out(cr_device device, int64_t n, int64_t grain,
                  void (*fn)(void *context, int64_t begin, int64_t end), void *context)
{
    if (CR_LIKELY(cr_is_host(device)))
        cr_parallel_for(n, grain, fn, context);
    else if (n)
        fn(context, 0, n);
}

/* --- temporary blocks --- */

cr_status cr_block_get(cr_block *b, cr_device device, size_t size)
{
    b->device = device;
    b->at = size ? ops_of(device)->get(device.index, size, &b->size_class) : NULL;
    if (size && !b->at)
        return cr_is_host(device) ? CR_MEMORY : cr_device_no_memory(device, size);
    return CR_OK;
}

void cr_block_drop(cr_block *b)
{
    if (b->at)
        ops_of(b->device)->release(b->device.index, b->at, b->size_class);
}

/* --- copies --- */

static cr_array array_of(const cr_view *v)
{
    return (cr_array){v->data, v->dtype, v->ndim, v->size, v->stride};
}

static size_t view_bytes(const cr_view *v)
{
    return (size_t)cr_numel(v->ndim, v->size) * cr_dtype_size((cr_dtype)v->dtype);
}

static bool is_dense(const cr_view *v) { return cr_is_contiguous(v->ndim, v->size, v->stride); }

/* `from` broadcast to the sizes of `to`. */
static cr_view broadcast(const cr_view *from, const cr_view *to, int64_t *stride)
{
    cr_view v = *from;
    int lead = to->ndim - from->ndim;

    for (int d = 0; d < to->ndim; d++)
        stride[d] = d < lead || (from->size[d - lead] == 1 && to->size[d] != 1)
                        ? 0
                        : from->stride[d - lead];
    v.ndim = to->ndim;
    v.size = to->size;
    v.stride = stride;
    return v;
}

/* A dense view of the sizes and dtype of `like` in a block of `device`. */
static cr_status dense_block(cr_block *b, cr_view *v, int64_t *stride, const cr_view *like,
                             cr_device device)
{
    CR_TRY(cr_block_get(b, device, view_bytes(like)));
    cr_row_major(like->ndim, like->size, stride);
    *v = *like;
    v->data = b->at;
    v->stride = stride;
    v->device = device;
    return CR_OK;
}

static cr_status ask_move(const cr_view *to, const cr_view *from)
{
    cr_array a = array_of(to), b = array_of(from);

    return cr_device_status(ops_of(to->device)->move(to->device.index, &a, &b));
}

/* Copies elements on one device. */
static cr_status move_there(const cr_view *to, const cr_view *from)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view between;
    cr_block b = {.at = NULL};

    cr_overlap overlap = cr_overlap_of(to, from);
    if (overlap == CR_APART)
        return ask_move(to, from);
    if (overlap == CR_SAME && to->dtype == from->dtype)
        return CR_OK;
    CR_TRY(dense_block(&b, &between, stride, from, from->device));
    cr_status st = ask_move(&between, from);
    if (!st)
        st = ask_move(to, &between);
    cr_block_drop(&b);
    return st;
}

/* Copies elements from the host to a device: converts them to a dense block of the
 * destination's dtype, copies the block, and moves it to the destination's layout. */
static cr_status move_in(const cr_view *to, const cr_view *from)
{
    int64_t host_stride[CR_MAX_DIMS], there_stride[CR_MAX_DIMS];
    cr_view host = *from, there = *to;
    cr_block h = {.at = NULL}, t = {.at = NULL};
    cr_status st = CR_OK;

    if (from->dtype != to->dtype || !is_dense(from)) {
        CR_GO(dense_block(&h, &host, host_stride, to, CR_HOST));
        CR_GO(cr_copy_elements(&host, from));
    }
    if (!is_dense(to))
        CR_GO(dense_block(&t, &there, there_stride, to, to->device));
    CR_GO(cr_device_copy_in(to->device, there.data, host.data, view_bytes(to)));
    if (t.at)
        CR_GO(ask_move(to, &there));
done:
    cr_block_drop(&h);
    cr_block_drop(&t);
    return st;
}

static cr_status move_out(const cr_view *to, const cr_view *from)
{
    int64_t host_stride[CR_MAX_DIMS], there_stride[CR_MAX_DIMS];
    cr_view host = *to, there = *from;
    cr_block h = {.at = NULL}, t = {.at = NULL};
    cr_status st = CR_OK;

    if (!is_dense(from)) {
        CR_GO(dense_block(&t, &there, there_stride, from, from->device));
        CR_GO(ask_move(&there, from));
    }
    if (from->dtype != to->dtype || !is_dense(to))
        CR_GO(dense_block(&h, &host, host_stride, from, CR_HOST));
    CR_GO(cr_device_copy_out(host.data, from->device, there.data, view_bytes(from)));
    if (h.at)
        CR_GO(cr_copy_elements(to, &host));
done:
    cr_block_drop(&h);
    cr_block_drop(&t);
    return st;
}

/* Copies elements between two devices. */
static cr_status move_through_host(const cr_view *to, const cr_view *from)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view host;
    cr_block h = {.at = NULL};
    cr_status st;

    CR_GO(dense_block(&h, &host, stride, from, CR_HOST));
    CR_GO(move_out(&host, from));
    CR_GO(move_in(to, &host));
done:
    cr_block_drop(&h);
    return st;
}

cr_status cr_remote_copy(const cr_view *to, const cr_view *given)
{
    int64_t stride[CR_MAX_DIMS];
    cr_view from = broadcast(given, to, stride);

    if (cr_same_device(to->device, from.device))
        return move_there(to, &from);
    if (cr_is_host(from.device))
        return move_in(to, &from);
    return cr_is_host(to->device) ? move_out(to, &from) : move_through_host(to, &from);
}

cr_status cr_remote_fill(const cr_view *to, const void *element)
{
    cr_array a = array_of(to);

    return cr_device_status(ops_of(to->device)->fill(to->device.index, &a, element));
}

/* --- elementwise entries --- */

/* A launch has at most FLAT_OUTER dims outside its rows and columns. */
enum { FLAT_OUTER = 6, FLAT_DIMS = FLAT_OUTER + 2 };

/* The operands of one launch.  Each has the layout of the first result, is one element, or is
 * broadcast: it then has a step for each of the dims. */
typedef struct {
    const cr_tensor *like; /* has the sizes and strides of the launch */
    cr_device device;
    int count;
    uint64_t numbers;
    int outer;               /* dims outside the rows */
    int64_t size[FLAT_DIMS]; /* the last two are rows and columns; {1, numel} without broadcast
                              * operands */
    bool broadcasts;
    int reads;
    const cr_tensor *read[CR_MAX_OPERANDS]; /* that are broadcast */
    cr_space *space;                        /* steps in elements */
    void *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS], outer_stride[FLAT_OUTER * CR_MAX_OPERANDS]; /* bytes */
    cr_stored stored;
    _Alignas(16) char number[CR_MAX_OPERANDS][16];
    cr_tensor *made[CR_MAX_OPERANDS];
} flat_call;

static bool lies_like(const cr_tensor *t, const cr_tensor *like)
{
    if (t->ndim != like->ndim || memcmp(t->size, like->size, t->ndim * sizeof *t->size))
        return false;
    return (t->contiguous && like->contiguous) ||
           !memcmp(t->stride, like->stride, t->ndim * sizeof *t->stride);
}

static void flat_put_steps(flat_call *c, void *p, cr_dtype dtype, const int64_t *step)
{
    int64_t item = (int64_t)cr_dtype_size(dtype);

    c->ptr[c->count] = p;
    for (int d = 0; d < c->outer; d++)
        c->outer_stride[c->count * c->outer + d] = step[d] * item;
    c->stride[2 * c->count] = step[c->outer] * item;
    c->stride[2 * c->count + 1] = step[c->outer + 1] * item;
    c->count++;
}

static void flat_put(flat_call *c, void *p, cr_dtype dtype, bool one)
{
    int64_t step[FLAT_DIMS] = {0};

    if (!one)
        cr_row_major(c->outer + 2, c->size, step);
    flat_put_steps(c, p, dtype, step);
}

/* --- operands that are broadcast --- */

/* True if a launch can read the tensor in place with steps. */
static bool flat_is_broadcast(const flat_call *c, const cr_tensor *t, cr_dtype want)
{
    return cr_kernel_accepts(c->device, (cr_dtype)t->dtype, want) && t->numel != 1 &&
           !cr_is_host(t->device) && !lies_like(t, c->like);
}

/* Lists the tensors that are broadcast. */
static void flat_find_broadcasts(flat_call *c, const cr_op *op, const cr_value *arg,
                                 cr_dtype compute)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        int i = (int)CR_CTZ(mask);
        cr_dtype want = op->mask_params >> i & 1 ? CR_BOOL : compute;
        if (arg[i].tag == CR_TENSOR && flat_is_broadcast(c, arg[i].t, want))
            c->read[c->reads++] = arg[i].t;
    }
}

/* The dims in the order of the first result's memory, merged where all broadcast operands allow
 * it; operand 0 of the space is the result. */
static void flat_lay_out(const flat_call *c)
{
    const cr_tensor *like = c->like;

    cr_space_start(c->space, 1 + c->reads);
    for (int d = 0; d < like->ndim; d++) {
        int64_t *step = cr_space_add(c->space, like->size[d], d);
        step[0] = like->stride[d];
        for (int i = 0; i < c->reads; i++) {
            const cr_tensor *t = c->read[i];
            step[1 + i] = cr_broadcast_step(t->ndim, t->size, t->stride, like->ndim, d);
        }
    }
    cr_space_order(c->space);
    cr_space_merge(c->space, 0);
}

/* A launch reads broadcast operands in place when FLAT_DIMS dims remain at most, along the last
 * of which each has step 0 or 1. */
static void flat_find_dims(flat_call *c, const cr_op *op, const cr_value *arg, cr_dtype compute)
{
    int dims;

    flat_find_broadcasts(c, op, arg, compute);
    if (!c->reads)
        return;
    flat_lay_out(c);
    for (int i = 0; i < c->reads; i++)
        if (cr_space_last(c->space, 0)->step[1 + i] & ~(int64_t)1)
            return;
    dims = c->space->ndim < 2 ? 2 : c->space->ndim;
    if (dims > FLAT_DIMS)
        return;
    c->outer = dims - 2;
    for (int d = 0; d < dims; d++)
        c->size[d] = cr_space_last(c->space, dims - 1 - d)->size;
    c->broadcasts = true;
}

/* The tensor's steps along the dims of the launch. */
static void flat_put_broadcast(flat_call *c, const cr_tensor *t, cr_dtype want)
{
    int64_t step[FLAT_DIMS];
    int i = 0;

    while (c->read[i] != t)
        i++;
    for (int d = 0; d < c->outer + 2; d++)
        step[d] = cr_space_last(c->space, c->outer + 1 - d)->step[1 + i];
    cr_stored_note(&c->stored, c->count, (cr_dtype)t->dtype, want);
    flat_put_steps(c, t->address, (cr_dtype)t->dtype, step);
}

static void flat_put_number(flat_call *c, cr_scalar value, cr_dtype want)
{
    cr_scalar_store(value, want, c->number[c->count]);
    c->numbers |= (uint64_t)1 << c->count;
    flat_put(c, c->number[c->count], want, true);
}

/* A copy of `t` in the kernel's dtype, with the first result's layout. */
static cr_status flat_copy(cr_tensor **out, const flat_call *c, const cr_tensor *t,
                           cr_dtype want)
{
    const cr_tensor *like = c->like;
    cr_tensor *made;

    CR_TRY(cr_tensor_new_strided(&made, want, c->device, like->ndim, like->size, like->stride));
    cr_view to = cr_view_of(made), from = cr_view_of(t);
    cr_status st = cr_copy_elements(&to, &from);
    if (st)
        cr_drop(made);
    else
        *out = made;
    return st;
}

static cr_status flat_put_tensor(flat_call *c, cr_tensor *t, cr_dtype want)
{
    cr_scalar value;

    if (cr_is_host(t->device)) { /* a 0-d tensor; others are refused before */
        CR_TRY(cr_tensor_item(&value, t));
        flat_put_number(c, value, want);
        return CR_OK;
    }
    if (cr_kernel_accepts(c->device, (cr_dtype)t->dtype, want) &&
        (t->numel == 1 || lies_like(t, c->like))) {
        cr_stored_note(&c->stored, c->count, (cr_dtype)t->dtype, want);
        flat_put(c, t->address, (cr_dtype)t->dtype, t->numel == 1);
        return CR_OK;
    }
    if (c->broadcasts && flat_is_broadcast(c, t, want)) {
        flat_put_broadcast(c, t, want);
        return CR_OK;
    }
    int k = c->count;
    CR_TRY(flat_copy(&c->made[k], c, t, want));
    flat_put(c, c->made[k]->address, want, false);
    return CR_OK;
}

/* Adds a result.  The launch writes it directly when it has the first result's layout and
 * shares no memory with an operand; otherwise it writes a copy. */
static cr_status flat_put_result(flat_call *c, cr_tensor *t, cr_dtype want, bool apart)
{
    int k = c->count;

    if (cr_kernel_accepts(c->device, (cr_dtype)t->dtype, want) && lies_like(t, c->like) &&
        apart) {
        cr_stored_note(&c->stored, k, (cr_dtype)t->dtype, want);
        flat_put(c, t->address, (cr_dtype)t->dtype, false);
        return CR_OK;
    }
    CR_TRY(cr_tensor_new_strided(&c->made[k], want, c->device, c->like->ndim, c->like->size,
                                 c->like->stride));
    flat_put(c, c->made[k]->address, want, false);
    return CR_OK;
}

static cr_status flat_put_arguments(flat_call *c, const cr_op *op, const cr_value *arg,
                                    cr_dtype compute)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        int i = (int)CR_CTZ(mask);
        cr_dtype want = op->mask_params >> i & 1 ? CR_BOOL : compute;
        if (arg[i].tag == CR_TENSOR)
            CR_TRY(flat_put_tensor(c, arg[i].t, want));
        else if (arg[i].tag == CR_NUMBER)
            flat_put_number(c, arg[i].number, want);
        else
            return cr_fail(CR_TYPE, "%s(): argument '%s' must be Tensor, not None", op->name,
                           op->param[i].name);
    }
    return CR_OK;
}

/* True if the launch may write `out`: no argument shares its memory, except for one that has
 * the same elements at the same addresses, because a thread reads its elements before it
 * writes. */
static bool apart_from_arguments(const cr_op *op, const cr_value *arg, const cr_tensor *out)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_TENSOR && cr_meets(v->t, out) &&
            (v->t->address != out->address || v->t->dtype != out->dtype ||
             !lies_like(v->t, out)))
            return false;
    }
    return true;
}

/* A tensor whose layout the launch uses: `out` when it is dense, or else a row-major fake. */
static cr_status flat_layout(cr_tensor **like, cr_tensor *out)
{
    if (cr_is_dense(out)) {
        *like = cr_keep(out);
        return CR_OK;
    }
    return cr_tensor_new(like, (cr_dtype)out->dtype, cr_as_fake(out->device), out->ndim,
                         out->size);
}

/* --- kernels of entries written in C --- */

static size_t entry_key(char *key, size_t room, cr_device_kind kind, const cr_op *op)
{
    return (size_t)snprintf(key, room, "%d %s.%s", (int)kind, op->name, op->overload);
}

cr_status cr_remote_register(const char *entry, cr_device_kind kind, cr_entry_kernel fn)
{
    const cr_op *op = cr_ops_find(entry);
    char key[160];

    if (!op)
        return cr_fail(CR_RUNTIME, "no operator is called '%s'", entry);
    if (!cr_op_on_views(op))
        return cr_fail(CR_RUNTIME, "%s states what it computes: it takes no kernel of a device",
                       entry);
    size_t n = entry_key(key, sizeof key, kind, op);
    pthread_mutex_lock(&lock);
    cr_status st = cr_map_set(&entries, key, n, (void *)(uintptr_t)fn);
    pthread_mutex_unlock(&lock);
    return st;
}

cr_status cr_remote_install(void)
{
    for (int kind = 0; kind < CR_DEVICE_COUNT; kind++) {
        int n;
        const cr_device_entry *rows = cr_device_entries((cr_device_kind)kind, &n);
        for (int i = 0; i < n; i++)
            CR_TRY(cr_remote_register(rows[i].entry, (cr_device_kind)kind, rows[i].kernel));
    }
    return CR_OK;
}

static cr_entry_kernel registered(const cr_op *op, cr_device device)
{
    char key[160];
    size_t n = entry_key(key, sizeof key, (cr_device_kind)device.kind, op);

    pthread_mutex_lock(&lock);
    void *fn = cr_map_get(&entries, key, n);
    pthread_mutex_unlock(&lock);
    return (cr_entry_kernel)(uintptr_t)fn;
}

static cr_given given_number(cr_scalar s)
{
    if (s.category == CR_CAT_COMPLEX)
        return (cr_given){.kind = CR_GIVEN_OTHER};
    return s.category == CR_CAT_FLOAT ? (cr_given){.kind = CR_GIVEN_FLOAT, .d = s.d}
                                      : (cr_given){.kind = CR_GIVEN_INT, .i = s.i};
}

static cr_given given_of(const cr_value *v)
{
    switch ((cr_tag)v->tag) {
    case CR_NONE: return (cr_given){.kind = CR_GIVEN_NONE};
    case CR_VIEW:
        if (cr_is_host(v->view->device))
            return given_number(cr_scalar_load((cr_dtype)v->view->dtype, v->view->data));
        return (cr_given){.kind = CR_GIVEN_ARRAY, .array = array_of(v->view)};
    case CR_INT:
    case CR_TRUTH:
    case CR_DTYPE_VAL: return (cr_given){.kind = CR_GIVEN_INT, .i = v->i};
    case CR_FLOAT: return (cr_given){.kind = CR_GIVEN_FLOAT, .d = v->d};
    case CR_NUMBER: return given_number(v->number);
    case CR_INTS:
    case CR_TRUTHS: return (cr_given){.kind = CR_GIVEN_INTS, .count = v->len, .ints = v->ints};
    case CR_FLOATS:
        return (cr_given){.kind = CR_GIVEN_FLOATS, .count = v->len, .floats = v->floats};
    case CR_STRING: return (cr_given){.kind = CR_GIVEN_TEXT, .count = v->len, .text = v->s};
    default: return (cr_given){.kind = CR_GIVEN_OTHER};
    }
}

static const char *ask_library(const cr_op *op, const cr_given *arg, const cr_array *result,
                               cr_device device)
{
    char name[160];
    cr_library c = {name, op->param_count, op->result_count, arg, result};

    snprintf(name, sizeof name, "%s%s%s", op->name, *op->overload ? "." : "", op->overload);
    return ops_of(device)->library(device.index, &c);
}

/* Without a function, by the command LIBRARY. */
static cr_status call_registered(cr_entry_kernel fn, const cr_op *op, const cr_value *arg,
                                 const cr_view *out, cr_device device, bool *declined)
{
    cr_given given[CR_MAX_ARGS];
    cr_array result[CR_MAX_RESULTS];
    cr_arena room = {0};

    for (int i = 0; i < op->param_count; i++) {
        given[i] = given_of(&arg[i]);
        if (arg[i].tag != CR_TENSORS)
            continue;
        cr_given *list = cr_arena_get(&room, arg[i].len * sizeof *list + 1);
        if (!list) {
            cr_arena_drop(&room);
            return CR_MEMORY;
        }
        for (uint32_t k = 0; k < arg[i].len; k++)
            list[k] = given_of(&arg[i].list[k]);
        given[i] = (cr_given){.kind = CR_GIVEN_LIST, .count = arg[i].len, .list = list};
    }
    for (int k = 0; k < op->result_count; k++)
        result[k] = array_of(&out[k]);
    const char *error =
        fn ? fn(device.index, given, result) : ask_library(op, given, result, device);
    cr_arena_drop(&room);
    *declined = error == cr_command_declines;
    return *declined ? CR_OK : cr_device_status(error);
}

/* --- the host fallback --- */

void cr_remote_allow_fallback(bool on) { atomic_store(&fallback, on); }

/* Logs the first fallback of an entry, and at level 2 every one. */
static void tell_fallback(const cr_op *op, cr_device device)
{
    pthread_mutex_lock(&lock);
    bool known = cr_map_get(&told, op->name, strlen(op->name)) != NULL;
    if (!known && cr_map_set(&told, op->name, strlen(op->name), (void *)(uintptr_t)op))
        known = false;
    pthread_mutex_unlock(&lock);
    cr_log_line("backend", known ? 2 : 1, "%s has no kernel for %s and is computed on the host",
                op->name, cr_device_kind_name((cr_device_kind)device.kind));
}

static cr_status check_fallback(const cr_op *op, cr_device device)
{
    if (!facts_of(device)->has_fallback && !atomic_load(&fallback))
        return cr_fail(
            CR_NOT_IMPLEMENTED,
            "Could not run 'aten::%s' with arguments from the 'PrivateUse1' backend. "
            "This could be because the operator doesn't exist for this backend, or was "
            "omitted during the selective/custom build process (if using custom build).",
            op->name);
    tell_fallback(op, device);
    return CR_OK;
}

/* A copy on the host of a view on the device, with the same strides. */
typedef struct {
    cr_view there, here;
    const char *begin; /* the first byte of the view on the device */
    size_t bytes;
    cr_block block;
} mirror;

static cr_status mirror_new(mirror *m, const cr_view *v, bool filled)
{
    const char *end;

    m->there = m->here = *v;
    m->here.device = CR_HOST;
    cr_view_extent(v, &m->begin, &end);
    m->bytes = (size_t)(end - m->begin);
    CR_TRY(cr_block_get(&m->block, CR_HOST, m->bytes));
    m->here.data = m->block.at ? m->block.at + (v->data - m->begin) : NULL;
    return filled ? cr_device_copy_out(m->block.at, v->device, m->begin, m->bytes) : CR_OK;
}

static cr_status mirror_return(const mirror *m)
{
    return cr_device_copy_in(m->there.device, (void *)(uintptr_t)m->begin, m->block.at,
                             m->bytes);
}

typedef CR_VEC(mirror *) mirrors;

static cr_status mirror_value(mirrors *all, cr_arena *room, const cr_value *v, cr_value *out)
{
    *out = *v;
    if (v->tag == CR_TENSORS) {
        cr_value *list = cr_arena_get(room, v->len * sizeof *list + 1);
        if (!list)
            return CR_MEMORY;
        for (uint32_t k = 0; k < v->len; k++)
            CR_TRY(mirror_value(all, room, &v->list[k], &list[k]));
        out->list = list;
    }
    if (v->tag != CR_VIEW || cr_is_host(v->view->device) || !cr_has_bytes(v->view->device))
        return CR_OK;
    mirror *m = cr_arena_get(room, sizeof *m);
    if (!m)
        return CR_MEMORY;
    *m = (mirror){.bytes = 0};
    CR_TRY(cr_vec_reserve(all, 1));
    cr_vec_put(all, m);
    CR_TRY(mirror_new(m, v->view, true));
    out->view = &m->here;
    return CR_OK;
}

static void mirrors_drop(mirrors *all, cr_arena *room)
{
    for (size_t i = 0; i < all->len; i++)
        cr_block_drop(&all->at[i]->block);
    cr_vec_drop(all);
    cr_arena_drop(room);
}

/* True for a list with masks, whose elements the sizes of a result depend on. */
static bool has_masks(const cr_value *v)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        if (v->list[i].tag == CR_VIEW && cr_is_mask(v->list[i].view))
            return true;
    return false;
}

cr_status cr_remote_shape(const cr_op *op, const cr_value *arg, cr_shape *shape)
{
    cr_value given[CR_MAX_ARGS];
    mirrors all = {0};
    cr_arena room = {0};
    cr_status st = CR_OK;

    for (int i = 0; i < op->param_count; i++)
        if (!(op->words & CR_WORD_HOST_INDICES) || has_masks(&arg[i]))
            CR_GO(mirror_value(&all, &room, &arg[i], &given[i]));
        else
            given[i] = arg[i];
    CR_GO(op->sizes.fn(given, shape));
done:
    mirrors_drop(&all, &room);
    return st;
}

static cr_status extern_on_host(const cr_op *op, const cr_value *arg, cr_view *out)
{
    cr_value given[CR_MAX_ARGS];
    cr_view result[CR_MAX_RESULTS];
    mirror made[CR_MAX_RESULTS] = {0};
    mirrors all = {0};
    cr_arena room = {0};
    cr_status st = CR_OK;

    for (int i = 0; i < op->param_count; i++)
        CR_GO(mirror_value(&all, &room, &arg[i], &given[i]));
    for (int k = 0; k < op->result_count; k++) {
        bool old = op->result[k].written || !is_dense(&out[k]);
        CR_GO(mirror_new(&made[k], &out[k], old));
        result[k] = made[k].here;
    }
    CR_GO(cr_run_on_views(op, given, result));
    for (size_t i = 0; op->updates.params && i < all.len; i++)
        CR_GO(mirror_return(all.at[i]));
    for (int k = 0; k < op->result_count; k++)
        CR_GO(mirror_return(&made[k]));
done:
    for (int k = 0; k < op->result_count; k++)
        cr_block_drop(&made[k].block);
    mirrors_drop(&all, &room);
    return st;
}

cr_status cr_remote_kernel(const cr_op *op, const cr_value *arg, cr_view *out, cr_device device,
                           bool *declined)
{
    cr_entry_kernel fn = registered(op, device);
    cr_status st;

    *declined = true;
    if (!fn)
        return CR_OK;
    st = call_registered(fn, op, arg, out, device, declined);
    return *declined ? CR_OK : st;
}

/* A command of a plan has the values of numbers, but no other objects of the host. */
static bool fits_library(const cr_value *v)
{
    bool fits = v->tag != CR_VIEW || !cr_is_host(v->view->device);

    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        fits = fits && fits_library(&v->list[i]);
    return fits && (v->tag == CR_TENSORS || given_of(v).kind != CR_GIVEN_OTHER);
}

/* Offers the call to the device; *declined when it does not take it. */
static cr_status call_library(const cr_op *op, const cr_value *arg, const cr_view *out,
                              cr_device device, bool *declined)
{
    const cr_device_ops *ops = ops_of(device);

    *declined = !ops->library || (op->words & CR_WORD_RANDOM); /* the host has the generators */
    for (int i = 0; i < op->param_count; i++)
        *declined = *declined || !fits_library(&arg[i]);
    return *declined ? CR_OK : call_registered(NULL, op, arg, out, device, declined);
}

cr_status cr_remote_extern(const cr_op *op, const cr_value *arg, cr_view *out, cr_device device)
{
    bool declined;

    CR_TRY(call_library(op, arg, out, device, &declined));
    if (!declined)
        return CR_OK;
    CR_TRY(check_fallback(op, device));
    return extern_on_host(op, arg, out);
}

static cr_status bring(cr_value *v, cr_device to)
{
    cr_tensor *made;

    CR_TRY(cr_copy_as(&made, v->t, (cr_dtype)v->t->dtype, to, CR_FORMAT_PRESERVE));
    *v = cr_of_tensor(made);
    return CR_OK;
}

/* --- elementwise entries, on the device or the host --- */

/* True if the host must compute the entry: its kernel calls functions of complex numbers. */
static bool body_is_hosts(const cr_op *op, cr_dtype compute, cr_device device)
{
    cr_fn_set calls = {{false}, 0};

    return facts_of(device)->lacks_complex && cr_dtype_is_complex(compute) &&
           !cr_op_libm(&calls, op, compute) && calls.count > 0;
}

static cr_status body_on_host(const cr_op *op, const cr_value *arg, cr_tensor *const *out)
{
    cr_value given[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_tensor *made[CR_MAX_ARGS] = {0};
    cr_status st = CR_OK;

    tell_fallback(op, out[0]->device);
    memcpy(given, arg, op->param_count * sizeof *given);
    for (int i = 0; i < op->param_count; i++)
        if (arg[i].tag == CR_TENSOR && !cr_is_host(arg[i].t->device)) {
            CR_GO(bring(&given[i], CR_HOST));
            made[i] = given[i].t;
        }
    CR_GO(op->kernel_stage(op, given, result));
    for (int k = 0; k < op->result_count; k++) {
        cr_view to = cr_view_of(out[k]), from = cr_view_of(result[k].t);
        if (!st)
            st = cr_copy_elements(&to, &from);
    }
    cr_drop_values(result, op->result_count);
done:
    for (int i = 0; i < op->param_count; i++)
        cr_drop(made[i]);
    return st;
}

static cr_status flat_launch(const flat_call *c, const cr_placed_kernel *kernel,
                             const cr_params *params)
{
    return cr_launch_kernel(kernel,
                            &(cr_launch){.operands = c->count,
                                         .pointer = c->ptr,
                                         .numbers = c->numbers,
                                         .stride = c->stride,
                                         .size = {c->size[c->outer], c->size[c->outer + 1]},
                                         .param = params->slot,
                                         .param_bytes = sizeof params->slot,
                                         .outer = c->outer,
                                         .outer_size = c->size,
                                         .outer_stride = c->outer_stride});
}

cr_status cr_remote_body(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                         cr_dtype compute, const cr_dtype *kernel_result)
{
    cr_space space;
    flat_call c = {.device = out[0]->device, .space = &space};
    cr_placed_kernel kernel;
    cr_tensor *like = NULL;
    cr_params params;
    cr_status st;

    if (!out[0]->numel)
        return CR_OK;
    if (body_is_hosts(op, compute, c.device))
        return body_on_host(op, arg, out);
    CR_GO(flat_layout(&like, out[0]));
    c.like = like;
    c.size[0] = 1;
    c.size[1] = out[0]->numel;
    flat_find_dims(&c, op, arg, cr_dtype_compute(compute));
    for (int k = 0; k < op->result_count; k++)
        CR_GO(flat_put_result(&c, out[k], kernel_result[k],
                              apart_from_arguments(op, arg, out[k])));
    CR_GO(flat_put_arguments(&c, op, arg, cr_dtype_compute(compute)));
    CR_GO(cr_place_stored(&kernel, c.device, op, compute, CR_FORM_MAIN, &c.stored));
    cr_start_params(&params, c.device);
    cr_fill_params(&params, op, arg, cr_dtype_compute(compute));
    CR_GO(flat_launch(&c, &kernel, &params));
    for (int k = 0; k < op->result_count; k++)
        if (c.made[k]) {
            cr_view to = cr_view_of(out[k]), from = cr_view_of(c.made[k]);
            CR_GO(cr_copy_elements(&to, &from));
        }
done:
    for (int k = 0; k < CR_MAX_OPERANDS; k++)
        cr_drop(c.made[k]);
    cr_drop(like);
    return st;
}

/* --- entries over tensors --- */

cr_status cr_remote_whole(const cr_op *op, const cr_value *arg, cr_value *result,
                          cr_device device)
{
    cr_value given[CR_MAX_ARGS];
    cr_tensor *made[CR_MAX_ARGS] = {0};
    cr_status st = CR_OK;

    CR_TRY(check_fallback(op, device));
    memcpy(given, arg, op->param_count * sizeof *given);
    for (int i = 0; i < op->param_count; i++)
        if (arg[i].tag == CR_TENSOR && !cr_is_host(arg[i].t->device)) {
            CR_GO(bring(&given[i], CR_HOST));
            made[i] = given[i].t;
        }
    CR_GO(op->fn.on_tensors(given, result));
    for (int k = 0; !st && k < op->result_count; k++)
        if (result[k].tag == CR_TENSOR) {
            cr_tensor *here = result[k].t;
            st = bring(&result[k], device);
            if (st)
                break;
            cr_drop(here);
        }
    if (st)
        cr_drop_values(result, op->result_count);
done:
    for (int i = 0; i < op->param_count; i++)
        cr_drop(made[i]);
    return st;
}

/* Copies index tensors of the host to the device; `made` gets the copies. */
static cr_status place_indices(cr_value *list, uint32_t n, cr_device device, cr_tensor **made)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].tag != CR_TENSOR || cr_same_device(list[i].t->device, device))
            continue;
        if (!cr_is_host(list[i].t->device))
            return cr_fail(CR_RUNTIME,
                           "indices should be either on cpu or on the same device as the "
                           "indexed tensor (%s)",
                           cr_device_print(device).text);
        CR_TRY(bring(&list[i], device));
        made[i] = list[i].t;
    }
    return CR_OK;
}

cr_status cr_remote_indices(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_value given[CR_MAX_ARGS], *list;
    uint32_t n = 0, at = 0;
    cr_tensor **made;
    cr_device device;
    cr_status st;

    while (arg[at].tag != CR_TENSORS)
        at++;
    n = arg[at].len;
    memcpy(given, arg, op->param_count * sizeof *given);
    list = cr_alloc(n * sizeof *list + 1);
    made = cr_alloc_zero(n * sizeof *made + 1);
    st = list && made ? CR_OK : CR_MEMORY;
    if (!st) {
        memcpy(list, arg[at].list, n * sizeof *list);
        given[at].list = list;
        st = place_indices(list, n, arg[0].t->device, made);
    }
    if (!st)
        st = cr_common_device(&device, op, given);
    if (!st && !cr_same_device(device, arg[0].t->device))
        st = cr_refuse_devices(arg[0].t->device, device);
    if (!st)
        st = op->kernel_stage(op, given, result);
    for (uint32_t i = 0; made && i < n; i++)
        cr_drop(made[i]);
    cr_free(made);
    cr_free(list);
    return st;
}
