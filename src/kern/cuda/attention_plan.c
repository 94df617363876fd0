/* Attention by plans of cuDNN.
 *
 * Its kernels for compute capability 9.0 multiply by groups of four warps from shared memory.
 * The gradients' plan stores the cotangents of all scores, so it adds in one order: a call is
 * cut into parts of the batch or of heads, whose scores fit in a part of the device's memory.
 *
 * A plan is made for each key, which takes the host longer than a call, so lengths of parts of
 * a tile, which vary in programs, are left to the kernels of attention.cuh.  Of programs whose
 * batches vary, the plans that were used least recently are dropped (base/recent.h). */
#include "kern/cuda/attention_plan.h"
#include "base/memory.h"
#include "base/recent.h"
#include "device/cuda/cuda.h"
#include <stdatomic.h>

enum {
    HEADS_TILE = 64,
    HEADS_MAJOR = 9,       /* compute capability */
    HEADS_VERSION = 91600, /* since then the gradients take keys that fill no tile of 128 */
    HEADS_SHARE = 256,     /* of the device's memory, one part for scores */
    HEADS_PLANS = 256      /* of a generation (base/recent.h) */
};

/* The bytes that scores may have; 0 on devices that are left to the other kernels. */
static int64_t device_room(int device)
{
    static _Atomic int64_t known[CR_CUDA_DEVICES]; /* 0: not asked; the room and 1 */
    cr_cuda_properties p;

    if (!known[device])
        known[device] = cr_cuda_property(&p, device) || p.major != HEADS_MAJOR
                            ? 1
                            : (int64_t)(p.total_memory / HEADS_SHARE) + 1;
    return known[device] - 1;
}

static bool heads_are_taken(const heads_call *c)
{
    const heads_key *k = &c->key;

    if (k->queries % HEADS_TILE || k->keys % HEADS_TILE || !k->queries || !k->keys ||
        !k->batch || !device_room(k->index))
        return false;
    for (int i = 0; i < HEADS_STRIDED; i++)
        for (int d = 0; d < 3; d++)
            if (k->stride[i][d] <= 0 && c->at[i])
                return false;
    return cr_cudnn_is_there() && cr_cudnn_table.version() >= HEADS_VERSION;
}

/* --- parts of a call --- */

/* The batches, or the heads of one batch, of a part. */
static heads_key part_of(const heads_key *whole)
{
    heads_key k = *whole;
    int64_t repeat = k.heads / k.shared, bytes = 2 * k.queries * k.keys;
    int64_t most = device_room(k.index) / bytes; /* heads */

    if (k.way == HEADS_OUTPUT)
        return k;
    if (most < k.heads) {
        k.batch = 1;
        k.shared = most / repeat;
        k.heads = k.shared * repeat;
    } else if (most < k.heads * k.batch)
        k.batch = most / k.heads;
    return k;
}

/* The arrays of the part at a batch and a head of the keys. */
static void part_at(void *at[HEADS_ARRAYS], const heads_call *c, int64_t batch, int64_t shared)
{
    const heads_key *k = &c->key;
    int64_t heads = shared * (k->heads / k->shared);

    for (int i = 0; i < HEADS_STRIDED; i++) {
        bool of_keys = i == HEADS_K || i == HEADS_V || i == HEADS_GK || i == HEADS_GV;
        int64_t step = batch * k->stride[i][0] + (of_keys ? shared : heads) * k->stride[i][1];
        at[i] = c->at[i] ? (char *)c->at[i] + step * 2 : NULL;
    }
    at[HEADS_LSE] = (float *)c->at[HEADS_LSE] + (batch * k->heads + heads) * k->queries;
    at[HEADS_SUMS] = c->at[HEADS_SUMS];
}

/* The last part may have fewer batches, or heads. */
static heads_key part_left(const heads_key *part, const heads_key *whole, int64_t batch,
                           int64_t shared)
{
    heads_key k = *part;

    if (k.batch > whole->batch - batch)
        k.batch = whole->batch - batch;
    if (k.shared > whole->shared - shared) {
        k.shared = whole->shared - shared;
        k.heads = k.shared * (whole->heads / whole->shared);
    }
    return k;
}

/* --- calls --- */

static void plan_forget(void *plan)
{
    cr_cudnn_engine_drop(plan);
    cr_free(plan);
}

/* heads_key -> cudnn_engine, which is empty if the library has none. */
static cr_recent plans = {
    .most = HEADS_PLANS, .most_bytes = CR_CUDA_PLAN_BYTES / 2, .drop = plan_forget};

/* The caller holds the lock of the library while it uses the plan. */
static const cudnn_engine *plan_of(const heads_key *k)
{
    void *handle = cr_cudnn_handle(k->index);
    cudnn_engine *e = handle ? cr_recent_get(&plans, (const char *)k, sizeof *k) : NULL;

    if (handle && !e) {
        e = cr_alloc_zero(sizeof *e);
        if (!e || cr_recent_set(&plans, (const char *)k, sizeof *k, e)) {
            cr_free(e);
            return NULL;
        }
        size_t before = cr_heap_bytes();
        cr_heads_engine_find(e, handle, k);
        cr_recent_charge(&plans, (const char *)k, sizeof *k, cr_heap_since(before));
    }
    return e && e->plan ? e : NULL;
}

static const char *heads_error(int status)
{
    return cr_fail(CR_RUNTIME, "cuDNN error: %s", cr_cudnn_table.error_text(status))
               ? cr_error_message()
               : NULL;
}

static const char *part_run(const heads_call *c, const heads_key *k, int64_t batch,
                            int64_t shared)
{
    const cudnn_engine *e = plan_of(k);
    void *at[HEADS_ARRAYS], *room = NULL;
    uint32_t block = 0;

    if (!e)
        return cr_command_declines;
    part_at(at, c, batch, shared);
    if (e->room && !(room = cr_cuda_memory_get(k->index, e->room, &block)))
        return cr_command_declines;
    int failed = cr_cudnn_set_stream(k->index);
    if (!failed)
        failed = cr_heads_engine_run(e, cr_cudnn_handle(k->index), k, at, c->scale, room);
    if (room)
        cr_cuda_memory_release(k->index, room, block);
    return failed ? heads_error(failed) : NULL;
}

static const char *parts_run(const heads_call *c, const heads_key *part)
{
    const char *error = NULL;

    for (int64_t b = 0; b < c->key.batch && !error; b += part->batch)
        for (int64_t h = 0; h < c->key.shared && !error; h += part->shared) {
            heads_key k = part_left(part, &c->key, b, h);
            error = part_run(c, &k, b, h);
        }
    return error;
}

const char *cr_heads_run(const heads_call *given)
{
    heads_call c = *given;
    uint32_t block = 0;
    const char *error;

    if (!heads_are_taken(&c))
        return cr_command_declines;
    heads_key part = part_of(&c.key);
    size_t bytes = sizeof(float) * (size_t)(part.batch * part.heads * part.queries);
    if (!part.shared)
        return cr_command_declines;
    if (c.key.way == HEADS_GRADIENTS) {
        c.at[HEADS_SUMS] = cr_cuda_memory_get(c.key.index, bytes, &block);
        if (!c.at[HEADS_SUMS])
            return cr_command_declines;
    }
    cr_cudnn_lock();
    error = parts_run(&c, &part);
    cr_cudnn_unlock();
    if (c.at[HEADS_SUMS])
        cr_cuda_memory_release(c.key.index, c.at[HEADS_SUMS], block);
    return error;
}
