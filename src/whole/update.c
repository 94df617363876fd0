/* Running one body over many parameters: the steps of optimizers.
 *
 * Parameters whose tensors are contiguous, have a dtype of the entry's kernel and share the
 * step's numbers form a batch, which is one parallel region over spans of all of them, so that
 * a hundred small parameters cost one region and no dispatch.  On other devices a batch is a
 * list of launches.  Each other parameter is a call.
 *
 * All checks and allocations come before the first write. */
#include "whole/update.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "tensor/geometry.h"
#include "tensor/remote.h"
#include <stdlib.h>
#include <string.h>

/* A call of the kernel costs about as much as a short span. */
enum { SPAN = 256, GRAIN_SPANS = 128 };

/* The kernel's operands: results, lists, and a tensor that is shared. */
enum { OPERANDS = 2 * CR_UPDATE_LISTS + 1 };

/* One parameter of a batch. */
typedef struct {
    void *operand[OPERANDS];
    int64_t n, first; /* elements; the number of its first span in the batch */
} piece;

typedef struct {
    const cr_update *u;
    cr_placed_kernel kernel;
    cr_params params;
    cr_dtype dtype;
    int operands;
    int64_t stride[2 * OPERANDS];
    int64_t spans;
    uint32_t count;
    bool repeats;
    piece *piece;      /* room for all parameters, */
    cr_launch *launch; /* and for their launches on another device than the host */
} batch;

static cr_tensor *list_tensor(const cr_update *u, int list, uint32_t i)
{
    return u->list[list]->list[i].t;
}

/* --- checks --- */

static cr_status check_list_lengths(const cr_update *u)
{
    for (int k = 1; k < u->lists; k++)
        if (u->list[k]->len != u->list[0]->len)
            return cr_fail(CR_RUNTIME, "%s: lists of %u and %u tensors", u->caller->name,
                           u->list[0]->len, u->list[k]->len);
    return CR_OK;
}

static cr_status check_written(const cr_tensor *t)
{
    if (t->inference && !cr_thread.inference)
        return cr_fail(CR_RUNTIME, "Inplace update to inference tensor outside InferenceMode "
                                   "is not allowed.");
    return CR_OK;
}

static cr_status check_item(const cr_update *u, uint32_t i)
{
    const cr_tensor *param = list_tensor(u, 0, i);

    if (!cr_dtype_is_float((cr_dtype)param->dtype))
        return cr_fail(CR_RUNTIME, "%s: parameters must be of a floating point type, not %s",
                       u->caller->name, cr_dtype_infos[param->dtype].legacy);
    for (int k = 0; k < u->lists; k++) {
        const cr_tensor *t = list_tensor(u, k, i);
        if (!cr_has_sizes(t, param->ndim, param->size) ||
            !cr_same_device(t->device, param->device))
            return cr_fail(CR_RUNTIME,
                           "%s: a parameter, its gradient and its state must have the same "
                           "sizes and device",
                           u->caller->name);
        if (u->written >> k & 1)
            CR_TRY(check_written(t));
    }
    return CR_OK;
}

/* The shared tensor is broadcast to a parameter, and cast to its dtype. */
static cr_status check_shared(const cr_update *u, uint32_t i)
{
    const cr_tensor *param = list_tensor(u, 0, i), *t = u->shared;

    if (t->numel == 1 && t->ndim <= param->ndim && cr_same_device(t->device, param->device) &&
        !cr_dtype_is_complex((cr_dtype)t->dtype))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s: the factor must be one real number on the tensors' device",
                   u->caller->name);
}

cr_status cr_update_check(const cr_update *u)
{
    CR_TRY(check_list_lengths(u));
    for (uint32_t i = 0; i < u->list[0]->len; i++) {
        CR_TRY(check_item(u, i));
        if (u->shared)
            CR_TRY(check_shared(u, i));
    }
    return CR_OK;
}

/* --- batches --- */

static int by_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;

    return (x > y) - (x < y);
}

/* Whether a parameter is in the list twice: its updates must then run one after the other. */
static cr_status find_repeats(bool *out, const cr_update *u)
{
    uint32_t n = u->list[0]->len;
    char **at = cr_alloc(n * sizeof *at);

    CR_NEED(at);
    for (uint32_t i = 0; i < n; i++)
        at[i] = list_tensor(u, 0, i)->address;
    qsort(at, n, sizeof *at, by_address);
    *out = false;
    for (uint32_t i = 1; i < n; i++)
        *out |= at[i] == at[i - 1] && at[i];
    cr_free(at);
    return CR_OK;
}

static bool can_share(const cr_update *u, cr_dtype dtype, cr_device device)
{
    const cr_tensor *t = u->shared;

    return !t || (cr_kernel_accepts(device, (cr_dtype)t->dtype, cr_dtype_compute(dtype)) &&
                  t->numel == 1 && t->address && cr_same_device(t->device, device));
}

/* Whether all tensors of a parameter are contiguous, in memory, and have a dtype that the
 * kernel reads and writes. */
static bool can_batch(const cr_update *u, uint32_t i)
{
    const cr_tensor *param = list_tensor(u, 0, i);
    cr_dtype dtype = (cr_dtype)param->dtype;

    if (!cr_has_bytes(param->device) ||
        !cr_kernel_accepts(param->device, dtype, cr_dtype_compute(dtype)) ||
        !can_share(u, dtype, param->device))
        return false;
    for (int k = 0; k < u->lists; k++) {
        const cr_tensor *t = list_tensor(u, k, i);
        if (t->dtype != dtype || !t->contiguous || cr_is_lazy(t) || (t->numel && !t->address))
            return false;
    }
    return true;
}

/* Calls the kernel for the part [from, to) of a parameter. */
static void update_part(const batch *b, const piece *p, int64_t from, int64_t to)
{
    void *ptr[OPERANDS];
    int64_t size[2] = {1, to - from};

    for (int k = 0; k < b->operands; k++)
        ptr[k] = (char *)p->operand[k] + from * b->stride[2 * k + 1];
    b->kernel.fn(ptr, b->stride, size, b->params.slot);
}

/* The parameter of span `s`. */
static uint32_t find_piece(const batch *b, int64_t s)
{
    uint32_t low = 0, high = b->count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (b->piece[middle].first <= s)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void update_spans(void *context, int64_t begin, int64_t end)
{
    const batch *b = context;

    for (uint32_t i = find_piece(b, begin); i < b->count && b->piece[i].first < end; i++) {
        const piece *p = &b->piece[i];
        int64_t from = begin > p->first ? (begin - p->first) * SPAN : 0;
        int64_t to = (end - p->first) * SPAN < p->n ? (end - p->first) * SPAN : p->n;
        if (from < to)
            update_part(b, p, from, to);
    }
}

/* A launch for each parameter of the batch. */
static cr_status update_launches(const batch *b)
{
    int n = 0;

    for (uint32_t i = 0; i < b->count; i++)
        if (b->piece[i].n)
            b->launch[n++] = (cr_launch){.operands = b->operands,
                                         .pointer = b->piece[i].operand,
                                         .stride = b->stride,
                                         .size = {1, b->piece[i].n},
                                         .param = b->params.slot,
                                         .param_bytes = sizeof b->params.slot};
    return cr_launch_list(&b->kernel, b->launch, n);
}

static cr_status run_update_batch(batch *b)
{
    cr_status st = CR_OK;

    if (b->kernel.fn)
        cr_parallel_for(b->spans, GRAIN_SPANS, update_spans, b);
    else if (b->count)
        st = update_launches(b);
    b->count = 0;
    b->spans = 0;
    return st;
}

/* Starts an empty batch with the params. */
static cr_status start_batch(batch *b, cr_dtype dtype, cr_device device)
{
    const cr_update *u = b->u;
    cr_dtype compute = cr_dtype_compute(dtype);
    cr_stored stored = {.any = false};
    int n = u->lists;

    for (unsigned left = u->written; left; left &= left - 1)
        n++;
    b->dtype = dtype;
    b->operands = n + (u->shared != NULL);
    for (int k = 0; k < b->operands; k++) {
        b->stride[2 * k] = 0;
        b->stride[2 * k + 1] = k < n ? (int64_t)cr_dtype_size(dtype) : 0;
        cr_stored_note(&stored, k, k < n ? dtype : (cr_dtype)u->shared->dtype, compute);
    }
    return cr_place_stored(&b->kernel, device, u->op, dtype, CR_FORM_MAIN, &stored);
}

static void add_piece(batch *b, uint32_t i)
{
    piece *p = &b->piece[b->count++];
    const cr_update *u = b->u;
    int n = 0;

    for (int k = 0; k < u->lists; k++)
        if (u->written >> k & 1)
            p->operand[n++] = list_tensor(u, k, i)->address;
    for (int k = 0; k < u->lists; k++)
        p->operand[n++] = list_tensor(u, k, i)->address;
    if (u->shared)
        p->operand[n] = u->shared->address;
    p->n = list_tensor(u, 0, i)->numel;
    p->first = b->spans;
    b->spans += (p->n + SPAN - 1) / SPAN;
}

/* --- one by one --- */

static cr_status run_alone(const cr_update *u, const cr_value *arg)
{
    cr_tensor *out[CR_UPDATE_LISTS];
    int n = 0;

    for (int k = 0; k < u->lists; k++)
        if (u->written >> k & 1)
            out[n++] = arg[k].t;
    return cr_run_body_into(u->op, arg, out);
}

static void raise_versions(const cr_update *u, uint32_t i)
{
    for (int k = 0; k < u->lists; k++)
        if (u->written >> k & 1)
            list_tensor(u, k, i)->storage->version++;
}

static cr_status run_one(batch *b, uint32_t i)
{
    const cr_update *u = b->u;
    cr_value arg[CR_MAX_ARGS];
    cr_params params = {0};
    cr_dtype dtype = (cr_dtype)list_tensor(u, 0, i)->dtype;
    cr_device device = list_tensor(u, 0, i)->device;
    int n = u->lists;

    for (int k = 0; k < n; k++)
        arg[k] = cr_of_tensor(list_tensor(u, k, i));
    if (u->shared)
        arg[n++] = cr_of_tensor(u->shared);
    if (u->numbers)
        u->numbers(u, i, arg + n);
    raise_versions(u, i);
    if (!can_batch(u, i)) {
        if (b->repeats)
            CR_TRY(run_update_batch(b));
        return run_alone(u, arg);
    }
    cr_fill_params(&params, u->op, arg, cr_dtype_compute(dtype));
    if (b->count &&
        (b->repeats || dtype != b->dtype || !cr_same_device(device, b->kernel.device) ||
         memcmp(&params, &b->params, sizeof params)))
        CR_TRY(run_update_batch(b));
    if (!b->count) {
        b->params = params;
        CR_TRY(start_batch(b, dtype, device));
    }
    add_piece(b, i);
    return CR_OK;
}

cr_status cr_update_run(const cr_update *u)
{
    uint32_t n = u->list[0]->len;
    batch b = {.u = u};
    cr_status st = CR_OK;

    if (!n)
        return CR_OK;
    b.piece = cr_alloc(n * sizeof *b.piece);
    b.launch = cr_alloc(n * sizeof *b.launch);
    if (!b.piece || !b.launch)
        CR_GO(CR_MEMORY);
    CR_GO(find_repeats(&b.repeats, u));
    if (u->start)
        CR_GO(u->start(u));
    for (uint32_t i = 0; i < n; i++)
        CR_GO(run_one(&b, i));
    CR_GO(run_update_batch(&b));
done:
    cr_free(b.launch);
    cr_free(b.piece);
    return st;
}
