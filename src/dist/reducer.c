/* Reducing gradients by buckets.
 *
 * A hook on each parameter runs after its gradient was added.  It copies the gradient to its
 * place in a bucket and counts.  Neighbours in a bucket make a piece, which is one call; a
 * complete piece starts when all pieces before it have started.  A function at the end of
 * backward waits for the pieces and gives the averages back.
 *
 * A backward is armed by cr_reducer_after_forward and disarmed at its end; one that ends with
 * buckets that never started stays armed, which the next forward reports. */
#include "dist/reducer.h"
#include "base/log.h"
#include "base/map.h"
#include "dist/sparse_sum.h"
#include "tensor/profile.h"
#include "tensor/sparse.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    cr_reducer *r;
    cr_tensor *t, *view; /* view: its place in the bucket */
    cr_hook *hook;
    int index, bucket, piece;
    bool ready, unused, sparse;
    bool late;       /* the backward that reduced had no gradient for it */
    bool touched;    /* has a gradient of a backward that did not reduce */
    int fires, left; /* of a static graph: hooks of a backward, hooks to come */
} member;

/* Members of a bucket, from `first`, whose `n` elements are reduced by one call. */
typedef struct {
    int first, members;
    int64_t at, n;
    int pending;
    cr_work *work;
} piece;

typedef struct {
    cr_tensor *flat; /* of a sparse parameter, its bucket's only one: the gradient */
    CR_VEC(int) members;
    CR_VEC(piece) pieces;
    int pending, begun; /* members to come; pieces that have started */
} bucket;

/* Averages gradients over the ranks during backward.
 * Invariant: `at` and `used` have `count` entries. Every parameter is in one bucket. Buckets
 * before `next` have started. */
struct cr_reducer {
    cr_comm *comm;
    member *at;
    int count;
    size_t bucket_bytes, first_bytes;
    bool views, find_unused, static_graph;
    bool sync, armed, queued, rebuilt, counted;
    CR_VEC(bucket) buckets;
    int next;    /* the bucket that starts next */
    int divisor; /* of the sums of gradients */
    CR_VEC(int) order;
    cr_reducer_hook hook;
    int32_t *used; /* by parameter: ranks that used it */
    cr_work *used_work;
};

/* Of the shortest piece on the host, for each rank: the steps of a call grow with the ranks. */
enum { PIECE_BYTES_A_RANK = 2 << 20 };

/* --- buckets --- */
static void bucket_drop(bucket *b)
{
    for (size_t i = 0; i < b->pieces.len; i++) {
        cr_work *w = b->pieces.at[i].work;
        if (w && cr_work_wait(w, -1))
            cr_log_line("dist", 1, "a bucket of a reducer that ends: %s", cr_error_message());
        cr_work_drop(w);
    }
    cr_drop(b->flat);
    cr_vec_drop(&b->pieces);
    cr_vec_drop(&b->members);
}

static void buckets_drop(cr_reducer *r)
{
    for (size_t i = 0; i < r->buckets.len; i++)
        bucket_drop(&r->buckets.at[i]);
    r->buckets.len = 0;
    for (int i = 0; i < r->count; i++) {
        cr_drop(r->at[i].view);
        r->at[i].view = NULL;
    }
}

static size_t tensor_bytes(const cr_tensor *t)
{
    return (size_t)t->numel * cr_dtype_size((cr_dtype)t->dtype);
}

/* Adds a parameter to the bucket *open, which is made when it is -1. */
static cr_status bucket_add(cr_reducer *r, int *open, int index)
{
    if (*open < 0) {
        CR_TRY(cr_vec_reserve(&r->buckets, 1));
        *open = (int)r->buckets.len;
        cr_vec_put(&r->buckets, ((bucket){0}));
    }
    bucket *b = &r->buckets.at[*open];
    CR_TRY(cr_vec_reserve(&b->members, 1));
    cr_vec_put(&b->members, index);
    r->at[index].bucket = *open;
    return CR_OK;
}

/* Deals parameters, in the order of `order`, to buckets. */
static cr_status buckets_deal(cr_reducer *r, const int *order)
{
    int open[CR_DTYPE_COUNT];
    size_t bytes[CR_DTYPE_COUNT] = {0};
    bool later[CR_DTYPE_COUNT] = {0}; /* the dtype has a full bucket */

    memset(open, -1, sizeof open);
    for (int i = 0; i < r->count; i++) {
        const cr_tensor *t = r->at[order[i]].t;
        int alone = -1;
        if (r->at[order[i]].sparse) {
            CR_TRY(bucket_add(r, &alone, order[i]));
            continue;
        }
        CR_TRY(bucket_add(r, &open[t->dtype], order[i]));
        bytes[t->dtype] += tensor_bytes(t);
        if (bytes[t->dtype] >= (later[t->dtype] ? r->bucket_bytes : r->first_bytes)) {
            later[t->dtype] = true;
            open[t->dtype] = -1;
            bytes[t->dtype] = 0;
        }
    }
    return CR_OK;
}

/* A view with the strides of the parameter, or row-major ones if it has gaps. */
static cr_status member_place(member *m, const cr_tensor *flat, int64_t offset)
{
    cr_geometry g = {.ndim = m->t->ndim, .offset = offset};
    int64_t step = 1;

    for (int d = g.ndim - 1; d >= 0; d--) {
        g.size[d] = m->t->size[d];
        g.stride[d] = cr_is_dense(m->t) ? m->t->stride[d] : step;
        step *= g.size[d];
    }
    return cr_tensor_view(&m->view, flat, &g);
}

static bool bucket_is_sparse(const cr_reducer *r, const bucket *b)
{
    return r->at[b->members.at[0]].sparse;
}

/* Whether a piece takes no more members.  On GPUs buckets stay whole. */
static bool piece_is_full(const cr_reducer *r, const piece *p, size_t size)
{
    return cr_comm_device(r->comm) == CR_CPU &&
           (size_t)p->n * size >= PIECE_BYTES_A_RANK * (size_t)cr_comm_size(r->comm);
}

/* Adds the bucket's member `k`, whose elements start at `at`, to the last piece or to a new
 * one. */
static cr_status piece_add(const cr_reducer *r, bucket *b, int k, int64_t at)
{
    member *m = &r->at[b->members.at[k]];
    piece *last = b->pieces.len ? &b->pieces.at[b->pieces.len - 1] : NULL;

    if (!last || piece_is_full(r, last, cr_dtype_size((cr_dtype)m->t->dtype))) {
        CR_TRY(cr_vec_reserve(&b->pieces, 1));
        cr_vec_put(&b->pieces, ((piece){.first = k, .at = at}));
        last = &b->pieces.at[b->pieces.len - 1];
    }
    m->piece = (int)b->pieces.len - 1;
    last->members++;
    last->n += m->t->numel;
    return CR_OK;
}

static cr_status bucket_fill(cr_reducer *r, bucket *b)
{
    int64_t n = 0, at = 0;
    const cr_tensor *first = r->at[b->members.at[0]].t;

    if (bucket_is_sparse(r, b)) {
        CR_TRY(piece_add(r, b, 0, 0));
        return cr_sparse_zeros(&b->flat, first);
    }
    for (size_t i = 0; i < b->members.len; i++)
        n += r->at[b->members.at[i]].t->numel;
    CR_TRY(cr_tensor_new(&b->flat, (cr_dtype)first->dtype, first->device, 1, &n));
    for (size_t i = 0; i < b->members.len; i++) {
        member *m = &r->at[b->members.at[i]];
        CR_TRY(member_place(m, b->flat, at));
        CR_TRY(piece_add(r, b, (int)i, at));
        at += m->t->numel;
    }
    return CR_OK;
}

static cr_status buckets_make(cr_reducer *r, const int *order)
{
    buckets_drop(r);
    CR_TRY(buckets_deal(r, order));
    for (size_t i = 0; i < r->buckets.len; i++)
        CR_TRY(bucket_fill(r, &r->buckets.at[i]));
    return CR_OK;
}

/* No message comes from the other ranks: the caller's hook reduces. */
static bool is_fake(const cr_reducer *r) { return !strcmp(cr_comm_engine(r->comm), "fake"); }

/* --- reducing --- */
/* Sparse averages are not overlapped with backward: their sizes have to be known first. */
static cr_status bucket_average_sparse(const cr_reducer *r, bucket *b, const char *where)
{
    cr_tensor *average = NULL;

    CR_TRY(cr_sparse_sum(&average, r->comm, b->flat, 1.0 / r->divisor, where));
    cr_drop(b->flat);
    b->flat = average;
    return CR_OK;
}

/* Starts the average of `n` elements of a bucket. */
static cr_status bucket_average(cr_work **out, const cr_reducer *r, bucket *b, int64_t at,
                                int64_t n, const char *where)
{
    char *flat;
    if (bucket_is_sparse(r, b))
        return bucket_average_sparse(r, b, where);
    CR_TRY(cr_reach(&flat, b->flat));
    size_t size = cr_dtype_size((cr_dtype)b->flat->dtype);
    cr_buffer part = {flat + (size_t)at * size, n};
    bool premul = size < 4 || r->divisor != cr_comm_size(r->comm); /* a sum may overflow */
    cr_call_args call = {.kind = CR_CALL_ALL_REDUCE,
                         .op = premul ? CR_REDUCE_PREMUL_SUM : CR_REDUCE_AVG,
                         .dtype = (cr_dtype)b->flat->dtype,
                         .device = b->flat->device,
                         .root = -1,
                         .factor = 1.0 / r->divisor,
                         .outs = 1,
                         .out = &part};

    return cr_comm_start(out, r->comm, &call, 1, where, -1, false);
}

/* The event of a bucket in a profile; -1 without one.  The last character of its name marks
 * calls between ranks (autograd/profiler.py). */
static int32_t bucket_profile(const cr_reducer *r)
{
    char name[64];

    if (!cr_profiling())
        return -1;
    snprintf(name, sizeof name, "%s:all_reduce\x1f", cr_comm_engine(r->comm));
    return cr_profile_enter(CR_PROFILE_USER, name, -1);
}

/* The call of the hook instead of the average. */
static cr_status bucket_hook(const cr_reducer *r, cr_status (*hook)(void *context, int bucket),
                             int i)
{
    if (r->hook.python)
        cr_lock_python();
    cr_status st = hook(r->hook.context, i);
    if (r->hook.python)
        cr_unlock_python();
    return st;
}

static cr_status piece_start(const cr_reducer *r, int i, piece *p)
{
    char where[64];

    snprintf(where, sizeof where, "bucket %d of gradients, in backward()", i);
    int32_t event = bucket_profile(r);
    cr_status st = bucket_average(&p->work, r, &r->buckets.at[i], p->at, p->n, where);
    if (event >= 0)
        cr_profile_leave(event);
    return st;
}

/* Starts the complete pieces of bucket i.  A bucket with a hook starts as a whole. */
static cr_status bucket_start(const cr_reducer *r, int i, bool *whole)
{
    bucket *b = &r->buckets.at[i];

    *whole = b->pending == 0;
    if (r->hook.start)
        return *whole ? bucket_hook(r, r->hook.start, i) : CR_OK;
    while (b->begun < (int)b->pieces.len && b->pieces.at[b->begun].pending == 0)
        CR_TRY(piece_start(r, i, &b->pieces.at[b->begun++]));
    return CR_OK;
}

static cr_status start_complete(cr_reducer *r)
{
    bool whole = true;

    while (r->next < (int)r->buckets.len && whole) {
        CR_TRY(bucket_start(r, r->next, &whole));
        r->next += whole;
    }
    return CR_OK;
}

static cr_status fail_twice(const member *m)
{
    return cr_fail(
        CR_RUNTIME,
        "Expected to mark a variable ready only once. This error is caused by one of the "
        "following "
        "reasons: 1) Use of a module parameter outside the `forward` function. Please make "
        "sure "
        "model parameters are not shared across multiple concurrent forward-backward passes. "
        "or try "
        "to use _set_static_graph() as a workaround if this module graph does not change "
        "during "
        "training loop. 2) Reused parameters in multiple reentrant backward passes. For "
        "example, if "
        "you use multiple `checkpoint` functions to wrap the same part of your model, it would "
        "result in the same set of parameters been used by different reentrant backward passes "
        "multiple times, and hence marking a variable ready multiple times. Parameter at index "
        "%d "
        "has been marked as ready twice.",
        m->index);
}

static cr_status tensor_zero(cr_tensor *t)
{
    cr_value arg = cr_of_tensor(t), result = {0};

    CR_TRY(cr_call_named("zero_", &arg, 1, &result));
    cr_drop(result.t);
    return CR_OK;
}

static cr_status member_take_sparse(const member *m, cr_tensor *grad)
{
    bucket *b = &m->r->buckets.at[m->bucket];

    if (grad && !cr_is_coo(grad))
        return cr_fail(CR_RUNTIME,
                       "parameter %d of a module with sparse gradients has a dense one",
                       m->index);
    cr_drop(b->flat);
    b->flat = grad ? cr_keep(grad) : NULL;
    return grad ? CR_OK : cr_sparse_zeros(&b->flat, m->t);
}

/* Takes the gradient into the bucket: zeros where there is none. */
static cr_status member_copy(const member *m)
{
    cr_tensor *grad = cr_grad_of(m->t);

    if (m->sparse)
        return member_take_sparse(m, grad);
    if (grad && cr_is_sparse(grad))
        return cr_fail(CR_RUNTIME,
                       "parameter %d has a sparse gradient, which DistributedDataParallel "
                       "expects of nn.Embedding and nn.EmbeddingBag with sparse=True only",
                       m->index);
    if (grad == m->view)
        return CR_OK;
    if (grad)
        return cr_copy_tensor(m->view, grad);
    return tensor_zero(m->view);
}

static cr_status member_ready(member *m)
{
    cr_reducer *r = m->r;

    if (m->ready)
        return fail_twice(m);
    m->ready = true;
    CR_TRY(member_copy(m));
    if (r->views && !m->sparse && cr_grad_of(m->t) && cr_grad_of(m->t) != m->view)
        CR_TRY(cr_set_grad(m->t, m->view));
    if (!r->rebuilt)
        cr_vec_put(&r->order, m->index);
    bucket *b = &r->buckets.at[m->bucket];
    b->pending--;
    b->pieces.at[m->piece].pending--;
    return start_complete(r);
}

static cr_status ready_unused(cr_reducer *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->at[i].unused)
            CR_TRY(member_ready(&r->at[i]));
    return CR_OK;
}

static cr_status reducer_end(void *at);

static cr_status reducer_begin(cr_reducer *r)
{
    r->queued = true;
    CR_TRY(cr_backward_at_end(reducer_end, r));
    return ready_unused(r);
}

/* The hook of a parameter. */
static cr_status member_hook(void *context, cr_tensor **grads, int n, cr_tensor *const *given,
                             int given_n)
{
    member *m = context;
    cr_reducer *r = m->r;

    (void)grads;
    (void)n;
    (void)given;
    (void)given_n;
    m->touched |= !r->sync;
    if (r->sync && m->late)
        return fail_twice(m);
    if (!r->sync || !r->armed)
        return CR_OK;
    if (!r->queued)
        CR_TRY(reducer_begin(r));
    if (r->static_graph && !r->counted) {
        m->fires++;
        return CR_OK; /* reduced at the end: it may fire again */
    }
    if (r->static_graph && --m->left > 0)
        return CR_OK;
    return member_ready(m);
}

/* A program's hook may step the parameters of a bucket. */
static bool member_is_early(const void *context)
{
    const cr_reducer *r = ((const member *)context)->r;

    return r->sync && r->armed && !r->hook.start;
}

/* --- the end of backward --- */
static cr_status give_back(cr_reducer *r, member *m)
{
    cr_tensor *grad = cr_grad_of(m->t), *copy = NULL;

    if (r->find_unused && !r->static_graph && !r->used[m->index])
        return CR_OK; /* no rank used it */
    if (m->sparse)
        return cr_set_grad(m->t, r->buckets.at[m->bucket].flat);
    if (r->views)
        return grad == m->view ? CR_OK : cr_set_grad(m->t, m->view);
    if (grad) {
        grad->storage->version++;
        return cr_copy_tensor(grad, m->view);
    }
    if (r->static_graph)
        return CR_OK;
    CR_TRY(cr_tensor_new_strided(&copy, (cr_dtype)m->view->dtype, m->view->device,
                                 m->view->ndim, m->view->size, m->view->stride));
    cr_status st = cr_copy_tensor(copy, m->view);
    if (!st)
        st = cr_set_grad(m->t, copy);
    cr_drop(copy);
    return st;
}

static cr_status piece_wait(piece *p)
{
    cr_status st = p->work ? cr_work_wait(p->work, -1) : CR_OK;

    cr_work_drop(p->work);
    p->work = NULL;
    return st;
}

/* Gives a piece back while later ones travel. */
static cr_status piece_finish(cr_reducer *r, const bucket *b, piece *p)
{
    CR_TRY(piece_wait(p));
    for (int k = 0; k < p->members; k++)
        CR_TRY(give_back(r, &r->at[b->members.at[p->first + k]]));
    return CR_OK;
}

static cr_status bucket_finish(cr_reducer *r, int i)
{
    bucket *b = &r->buckets.at[i];

    if (r->hook.finish)
        CR_TRY(bucket_hook(r, r->hook.finish, i));
    for (size_t k = 0; k < b->pieces.len; k++)
        CR_TRY(piece_finish(r, b, &b->pieces.at[k]));
    return CR_OK;
}

/* Adds up over the ranks which parameters they used. */
static cr_status start_used(cr_reducer *r)
{
    cr_buffer all = {r->used, r->count};
    cr_call_args call = {
        .kind = CR_CALL_ALL_REDUCE, .dtype = CR_I32, .root = -1, .outs = 1, .out = &all};

    return cr_comm_start(&r->used_work, r->comm, &call, 1, "used parameters, in backward()", -1,
                         false);
}

static cr_status finish_used(cr_reducer *r)
{
    cr_status st = r->used_work ? cr_work_wait(r->used_work, -1) : CR_OK;

    cr_work_drop(r->used_work);
    r->used_work = NULL;
    return st;
}

/* Of a static graph's first backward: how often each parameter fires. */
static cr_status first_static(cr_reducer *r)
{
    r->counted = true;
    for (int i = 0; i < r->count; i++)
        CR_TRY(member_ready(&r->at[i]));
    return CR_OK;
}

/* Parameters without a gradient though the outputs depend on them: the loss has not used all
 * outputs. */
static cr_status ready_late(cr_reducer *r)
{
    for (int i = 0; i < r->count; i++)
        if (!r->at[i].ready) {
            r->at[i].unused = r->at[i].late = true;
            CR_TRY(member_ready(&r->at[i]));
        }
    return CR_OK;
}

static cr_status reducer_end(void *at)
{
    cr_reducer *r = at;

    r->queued = false;
    if (!r->armed)
        return CR_OK;
    if (r->static_graph && !r->counted)
        CR_TRY(first_static(r));
    if (r->find_unused && !r->static_graph)
        CR_TRY(ready_late(r));
    if (r->next < (int)r->buckets.len)
        return CR_OK; /* the next forward tells which gradients did not come */
    for (int i = 0; i < r->count; i++) {
        r->used[i] = !r->at[i].unused || r->at[i].touched || is_fake(r);
        r->at[i].touched = false;
    }
    if (r->find_unused && !r->static_graph)
        CR_TRY(start_used(r));
    CR_TRY(finish_used(r));
    for (int i = 0; i < (int)r->buckets.len; i++)
        CR_TRY(bucket_finish(r, i));
    r->armed = false;
    return CR_OK;
}

/* --- a rank without inputs --- */
static cr_status bucket_zero(const cr_reducer *r, bucket *b)
{
    if (!bucket_is_sparse(r, b))
        return tensor_zero(b->flat);
    cr_drop(b->flat);
    b->flat = NULL;
    return cr_sparse_zeros(&b->flat, r->at[b->members.at[0]].t);
}

/* The calls of the other ranks for bucket i, with zeros. */
static cr_status bucket_join(const cr_reducer *r, int i)
{
    bucket *b = &r->buckets.at[i];

    CR_TRY(bucket_zero(r, b));
    if (r->hook.start)
        return bucket_hook(r, r->hook.start, i);
    for (size_t k = 0; k < b->pieces.len; k++) {
        piece *p = &b->pieces.at[k];
        CR_TRY(bucket_average(&p->work, r, b, p->at, p->n, "join() of a rank without inputs"));
    }
    return CR_OK;
}

static cr_status bucket_join_end(const cr_reducer *r, int i)
{
    const bucket *b = &r->buckets.at[i];

    if (r->hook.finish)
        CR_TRY(bucket_hook(r, r->hook.finish, i));
    for (size_t k = 0; k < b->pieces.len; k++)
        CR_TRY(piece_wait(&b->pieces.at[k]));
    return CR_OK;
}

cr_status cr_reducer_idle(cr_reducer *r)
{
    for (int i = 0; i < (int)r->buckets.len; i++)
        CR_TRY(bucket_join(r, i));
    memset(r->used, 0, (size_t)r->count * sizeof *r->used);
    if (r->find_unused && !r->static_graph)
        CR_TRY(start_used(r));
    CR_TRY(finish_used(r));
    for (int i = 0; i < (int)r->buckets.len; i++)
        CR_TRY(bucket_join_end(r, i));
    return CR_OK;
}

/* --- around a forward --- */
static cr_status fail_unfinished(const cr_reducer *r)
{
    cr_text list = {0};

    for (int i = 0; i < r->count; i++)
        if (!r->at[i].ready)
            cr_text_printf(&list, " %d", i);
    cr_fail(
        CR_RUNTIME,
        "Expected to have finished reduction in the prior iteration before starting a new one. "
        "This error indicates that your module has parameters that were not used in producing "
        "loss. You can enable unused parameter detection by passing the keyword argument "
        "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by "
        "\n"
        "making sure all `forward` function outputs participate in calculating loss. \n"
        "If you already have done the above, then the distributed data parallel module wasn't "
        "able to locate the output tensors in the return value of your module's `forward` "
        "function. Please include the loss function and the structure of the return value of "
        "`forward` of your module when reporting this issue (e.g. list, dict, iterable).\n"
        "Parameter indices which did not receive grad for rank %d:%s",
        cr_comm_rank(r->comm), cr_text_str(&list));
    cr_text_drop(&list);
    return CR_RUNTIME;
}

/* Makes buckets in rank 0's order of the first backward. */
static cr_status rebuild(cr_reducer *r)
{
    cr_buffer all = {r->order.at, r->count};
    cr_call_args call = {.kind = CR_CALL_BROADCAST, .dtype = CR_I32, .outs = 1, .out = &all};

    r->rebuilt = true;
    CR_TRY(cr_comm_run(r->comm, &call, "order of buckets"));
    return buckets_make(r, r->order.at);
}

cr_status cr_reducer_before_forward(cr_reducer *r)
{
    bool may = !r->rebuilt && (!r->find_unused || r->static_graph) && !is_fake(r);

    if (r->armed && r->next && r->next < (int)r->buckets.len)
        return fail_unfinished(r);
    for (int i = 0; r->armed && i < r->count; i++)
        if (r->at[i].ready)
            return fail_unfinished(r);
    if (may && !r->armed && (int)r->order.len == r->count && r->count)
        return rebuild(r);
    return CR_OK;
}

static void reducer_arm(cr_reducer *r)
{
    r->armed = true;
    r->queued = false;
    r->next = 0;
    r->order.len = r->rebuilt ? r->order.len : 0;
    for (int i = 0; i < r->count; i++) {
        member *m = &r->at[i];
        m->ready = m->late = false;
        m->left = m->fires;
        m->unused = r->static_graph && r->counted && !m->fires;
    }
    for (size_t i = 0; i < r->buckets.len; i++) {
        bucket *b = &r->buckets.at[i];
        b->begun = 0;
        b->pending = (int)b->members.len;
        for (size_t k = 0; k < b->pieces.len; k++)
            b->pieces.at[k].pending = b->pieces.at[k].members;
    }
}

/* Nodes that were seen, and those to look at. */
typedef struct {
    cr_map seen;
    CR_VEC(cr_node *) todo;
} walk;

static cr_status walk_push(walk *w, cr_node *n)
{
    if (!n || cr_map_get(&w->seen, (const char *)&n, sizeof n))
        return CR_OK;
    CR_TRY(cr_map_set(&w->seen, (const char *)&n, sizeof n, n));
    CR_TRY(cr_vec_reserve(&w->todo, 1));
    cr_vec_put(&w->todo, n);
    return CR_OK;
}

static cr_status walk_run(walk *w, cr_tensor *const *outputs, int n)
{
    cr_edge e;

    for (int i = 0; i < n; i++) {
        CR_TRY(cr_edge_of(&e, outputs[i]));
        cr_status st = walk_push(w, e.node);
        cr_node_drop(e.node); /* the output keeps it */
        CR_TRY(st);
    }
    while (w->todo.len) {
        const cr_node *at = w->todo.at[--w->todo.len];
        for (uint32_t i = 0; i < at->edge_count; i++)
            CR_TRY(walk_push(w, at->edges[i].node));
    }
    return CR_OK;
}

/* Marks the parameters that the outputs do not depend on. */
static cr_status mark_unused(cr_reducer *r, cr_tensor *const *outputs, int n)
{
    walk w = {0};
    cr_status st = walk_run(&w, outputs, n);

    for (int i = 0; i < r->count && !st; i++) {
        cr_edge e = {0};
        st = cr_edge_of(&e, r->at[i].t);
        r->at[i].unused = !st && !cr_map_get(&w.seen, (const char *)&e.node, sizeof e.node);
        cr_node_drop(e.node);
    }
    cr_map_drop(&w.seen);
    cr_vec_drop(&w.todo);
    return st;
}

cr_status cr_reducer_after_forward(cr_reducer *r, cr_tensor *const *outputs, int n)
{
    reducer_arm(r);
    return r->find_unused && !r->static_graph ? mark_unused(r, outputs, n) : CR_OK;
}

/* --- making --- */
static cr_status member_init(cr_reducer *r, int i, cr_tensor *t, bool sparse)
{
    member *m = &r->at[i];
    cr_hook_call call = {.fn = member_hook, .context = m, .early = member_is_early};

    if (t->layout != CR_LAYOUT_STRIDED || t->device.kind != cr_comm_device(r->comm) ||
        !cr_has_bytes(t->device) || cr_is_lazy(t))
        return cr_fail(CR_NOT_IMPLEMENTED,
                       "parameter %d is not a dense tensor on a device of backend '%s'", i,
                       cr_comm_engine(r->comm));
    m->r = r;
    m->index = i;
    m->sparse = sparse;
    m->t = cr_keep(t);
    return cr_hook_accumulated(&m->hook, t, &call);
}

static cr_status reducer_init(cr_reducer *r, const cr_reducer_how *how)
{
    CR_TRY(cr_vec_reserve(&r->order, (size_t)how->count + 1));
    for (int i = 0; i < how->count; i++)
        CR_TRY(member_init(r, i, how->param[i], how->sparse && how->sparse[i]));
    for (int i = 0; i < how->count; i++) /* gradients come from the last layers first */
        cr_vec_put(&r->order, how->count - 1 - i);
    cr_status st = buckets_make(r, r->order.at);
    r->order.len = 0;
    return st;
}

cr_status cr_reducer_new(cr_reducer **out, const cr_reducer_how *how)
{
    cr_reducer *r = cr_alloc_zero(sizeof *r);

    CR_NEED(r);
    r->comm = cr_comm_keep(how->comm);
    r->divisor = cr_comm_size(how->comm);
    r->count = how->count;
    r->bucket_bytes = how->bucket_bytes;
    r->first_bytes = how->first_bytes;
    r->views = how->views;
    r->find_unused = how->find_unused;
    r->static_graph = how->static_graph;
    r->sync = true;
    r->at = cr_alloc_zero(((size_t)how->count + 1) * sizeof *r->at);
    r->used = cr_alloc_zero(((size_t)how->count + 1) * sizeof *r->used);
    cr_status st = r->at && r->used ? reducer_init(r, how) : CR_MEMORY;
    CR_GIVE(st, out, r, cr_reducer_free);
}

void cr_reducer_free(cr_reducer *r)
{
    if (!r)
        return;
    for (int i = 0; r->at && i < r->count; i++)
        if (r->at[i].hook) {
            cr_hook_remove(r->at[i].hook);
            cr_hook_drop(r->at[i].hook);
        }
    cr_reducer_set_hook(r, NULL);
    if (r->at)
        buckets_drop(r);
    for (int i = 0; r->at && i < r->count; i++)
        cr_drop(r->at[i].t);
    cr_work_drop(r->used_work);
    cr_vec_drop(&r->buckets);
    cr_vec_drop(&r->order);
    cr_comm_drop(r->comm);
    cr_free(r->used);
    cr_free(r->at);
    cr_free(r);
}

void cr_reducer_set_hook(cr_reducer *r, const cr_reducer_hook *hook)
{
    r->hook = hook ? *hook : (cr_reducer_hook){0};
}

void cr_reducer_set_divisor(cr_reducer *r, int n) { r->divisor = n; }

void cr_reducer_set_sync(cr_reducer *r, bool sync) { r->sync = sync; }
int cr_reducer_buckets(const cr_reducer *r) { return (int)r->buckets.len; }
cr_tensor *cr_reducer_buffer(const cr_reducer *r, int i) { return r->buckets.at[i].flat; }
cr_tensor *cr_reducer_view(const cr_reducer *r, int param) { return r->at[param].view; }
bool cr_reducer_is_rebuilt(const cr_reducer *r) { return r->rebuilt; }

const int *cr_reducer_members(const cr_reducer *r, int i, int *n)
{
    *n = (int)r->buckets.at[i].members.len;
    return r->buckets.at[i].members.at;
}
