/* Scaled dot product attention of float32 heads.
 *
 * Rows of scores are taken by blocks: two products, and between them a loop over each row.
 * Blocks and the order of all sums depend on sizes only.  A block of causal attention ends at
 * the last key that one of its rows sees.  Keys are transposed once for many rows.  The
 * gradient computes the scores again, from the logarithms of their sums. */
#include "base/parallel.h"
#include "kern/cpu/attention/rows.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/product/matmul.h"
#include "kern/cpu/product/turn.h"
#include "space/space.h"
#include <string.h>

enum {
    BLOCK = 24,       /* rows of scores: a multiple of the rows of tiles of products */
    SLOPE_BLOCK = 48, /* the same of gradients, for many rows */
    FEW = 8,          /* rows for which transposing keys takes longer than it saves */
    APART = 16,       /* numbers between rows, which keep them off the same places in caches */
    SHARE = 1 << 17   /* multiplications for which a thread is worth while */
};

/* An operand: [batch, head, row, column], of unit stride along columns. */
typedef struct {
    cr_view view;
    int64_t stride[4];
    cr_dense copy; /* of a view of another stride */
} heads;

/* A call.  Invariant: `grad` and those after it are of the gradient. */
typedef struct {
    heads q, k, v, out, log, grad, q_grad, k_grad, v_grad;
    const cr_view *mask; /* or NULL */
    int64_t mask_step[4];
    int64_t batch, heads, key_heads, repeat, rows, keys, width;
    int64_t groups; /* of the row blocks of a head */
    bool causal;
    float scale;
    const cr_row_loops *loops;
    _Atomic int failed; /* cr_status */
} attention;

static const cr_row_loops *loops_chosen(void)
{
    static const cr_row_loops *const all[] = {
#define CR_ISA_ROW(name, flags, moves) &cr_rows_##name,
        CR_ISA_ROWS(CR_ISA_ROW)
#undef CR_ISA_ROW
    };

    return all[cr_isa_chosen()];
}

/* --- operands --- */

static cr_status heads_load(heads *h, const cr_view *v)
{
    int64_t step = 1;

    *h = (heads){.view = *v};
    memcpy(h->stride, v->stride, (size_t)v->ndim * sizeof *h->stride);
    if (v->ndim < 4 || v->size[3] == 1 || v->stride[3] == 1)
        return CR_OK;
    CR_TRY(cr_dense_in(&h->copy, v, CR_F32));
    h->view.data = h->copy.data;
    for (int d = 3; d >= 0; step *= v->size[d--])
        h->stride[d] = step;
    return CR_OK;
}

static float *head_at(const heads *h, int64_t batch, int64_t head, int64_t row)
{
    int64_t at = batch * h->stride[0] + head * h->stride[1] + row * h->stride[2];

    return (float *)(void *)h->view.data + at;
}

static cr_matrix rows_of(const float *at, int64_t step)
{
    return (cr_matrix){(char *)(uintptr_t)at, step, 1};
}

static cr_matrix columns_of(const float *at, int64_t step)
{
    return (cr_matrix){(char *)(uintptr_t)at, 1, step};
}

/* --- a head's memory --- */

static int64_t whole_lanes(int64_t n)
{
    return (n + CR_ROW_LANES - 1) / CR_ROW_LANES * CR_ROW_LANES;
}

/* The memory of a thread, and the head that it computes.
 * Invariant: key_head = head / repeat. Members that are not NULL point into the memory
 * `owned`. */
typedef struct {
    const attention *a;
    int64_t batch, head, key_head;
    int64_t block;             /* rows */
    int64_t row;               /* distance of rows of scores and of transposed matrices */
    float *scores, *slopes;    /* block x row; slopes of gradients only */
    float *sums;               /* block x width */
    float *turned, *turned_v;  /* width x row, or NULL: keys, and of gradients values */
    float *plain;              /* keys x width: values, or of gradients keys; or NULL */
    float *most, *total, *log; /* of each row of a block */
    void *owned;
} worker;

static bool turns_keys(const attention *a) { return a->rows > FEW; }

static cr_status worker_start(worker *w, const attention *a, int64_t block, bool slope)
{
    int64_t row = whole_lanes(a->keys) + APART, scores = block * row;
    int64_t turned = turns_keys(a) ? a->width * row : 0;
    int64_t sums = whole_lanes(block * a->width), each = whole_lanes(block);
    int64_t plain = turned ? whole_lanes(a->keys * a->width) : 0;
    float *at = cr_aligned_alloc(
        (size_t)((scores + turned) * (slope ? 2 : 1) + plain + sums + 3 * each) * sizeof *at);

    *w = (worker){.a = a, .block = block, .row = row, .owned = at};
    CR_NEED(at);
    w->most = at, at += each;
    w->total = at, at += each;
    w->log = at, at += each;
    w->sums = at, at += sums;
    w->plain = plain ? at : NULL, at += plain;
    w->scores = at, at += scores;
    w->slopes = slope ? at : NULL, at += slope ? scores : 0;
    w->turned = turned ? at : NULL, at += turned;
    w->turned_v = turned && slope ? at : NULL;
    return CR_OK;
}

static void worker_turn(const worker *w, float *to, const heads *h)
{
    if (to)
        cr_turn_run(&(cr_turn){head_at(h, w->batch, w->key_head, 0), to, sizeof *to,
                               h->stride[2], w->row, w->a->width, w->a->keys});
}

/* Copies the rows that each block multiplies by. */
static void worker_copy(const worker *w, const heads *h)
{
    for (int64_t j = 0; w->plain && j < w->a->keys; j++)
        memcpy(w->plain + j * w->a->width, head_at(h, w->batch, w->key_head, j),
               (size_t)w->a->width * sizeof(float));
}

/* These rows as a matrix. */
static cr_matrix worker_rows(const worker *w, const heads *h)
{
    return w->plain ? rows_of(w->plain, w->a->width)
                    : rows_of(head_at(h, w->batch, w->key_head, 0), h->stride[2]);
}

static void worker_seek(worker *w, int64_t head)
{
    w->batch = head / w->a->heads;
    w->head = head % w->a->heads;
    w->key_head = w->head / w->a->repeat;
}

/* --- scores --- */

static cr_status product(int64_t m, int64_t n, int64_t k, cr_matrix a, cr_matrix b, cr_matrix c,
                         bool add)
{
    cr_gemm g = cr_gemm_plain(CR_F32, m, n, k);

    g.a = a, g.b = b, g.c = c;
    if (add)
        g.beta = cr_scalar_int(1);
    return cr_gemm_run(&g);
}

/* Rows [i, i + rows) of `left` times the transposed `right`, whose first `keys` rows count. */
static cr_status worker_product(const worker *w, float *to, const heads *left, int64_t i,
                                int64_t rows, int64_t keys, const heads *right,
                                const float *turned)
{
    const float *at = head_at(right, w->batch, w->key_head, 0);
    cr_matrix b = turned ? rows_of(turned, w->row) : columns_of(at, right->stride[2]);

    return product(rows, keys, w->a->width,
                   rows_of(head_at(left, w->batch, w->head, i), left->stride[2]), b,
                   rows_of(to, w->row), false);
}

/* The keys that row i sees, of `keys`. */
static int64_t seen(const attention *a, int64_t i, int64_t keys)
{
    return a->causal && i < keys ? i + 1 : keys;
}

/* Masks the scores of row i; returns the factor that they still need. */
static float mask_row(const worker *w, float *x, int64_t i, int64_t n)
{
    const attention *a = w->a;
    const int64_t *step = a->mask_step;

    if (!a->mask)
        return a->scale;
    bool truth = a->mask->dtype == CR_BOOL;
    int64_t at = w->batch * step[0] + w->head * step[1] + i * step[2];
    a->loops->mask(x, n, a->scale, cr_moved(a->mask->data, at, truth ? 1 : sizeof *x), step[3],
                   truth);
    return 1.0f;
}

/* --- results --- */

static void store_rows(const worker *w, int64_t i, int64_t rows)
{
    const attention *a = w->a;

    for (int64_t r = 0; r < rows; r++) {
        float *to = head_at(&a->out, w->batch, w->head, i + r);
        a->loops->scale(to, w->sums + r * a->width, a->width, w->total[r]);
    }
}

static cr_status attend_block(const worker *w, int64_t i)
{
    const attention *a = w->a;
    int64_t rows = a->rows - i < w->block ? a->rows - i : w->block;
    int64_t keys = seen(a, i + rows - 1, a->keys);

    CR_TRY(worker_product(w, w->scores, &a->q, i, rows, keys, &a->k, w->turned));
    for (int64_t r = 0; r < rows; r++) {
        float *x = w->scores + r * w->row;
        int64_t n = seen(a, i + r, keys);
        float factor = mask_row(w, x, i + r, n);
        a->loops->soften(x, n, whole_lanes(keys), factor, &w->most[r], &w->total[r]);
    }
    a->loops->finish(w->log, w->most, w->total, rows);
    memcpy((float *)(void *)a->log.view.data + (w->batch * a->heads + w->head) * a->rows + i,
           w->log, (size_t)rows * sizeof *w->log);
    CR_TRY(product(rows, a->width, keys, rows_of(w->scores, w->row), worker_rows(w, &a->v),
                   rows_of(w->sums, a->width), false));
    store_rows(w, i, rows);
    return CR_OK;
}

/* Blocks of a group: of each 2 * groups neighbours one from either end, so that groups have
 * equal work when rows see more and more keys. */
static cr_status attend_group(const worker *w, int64_t group)
{
    int64_t step = w->block * w->a->groups;

    for (int64_t i = 0, turn = 0; i < w->a->rows; i += step, turn = !turn) {
        int64_t at = i + w->block * (turn ? w->a->groups - 1 - group : group);
        if (at < w->a->rows)
            CR_TRY(attend_block(w, at));
    }
    return CR_OK;
}

static void attend_range(void *context, int64_t begin, int64_t end)
{
    attention *a = context;
    worker w;
    cr_status st = worker_start(&w, a, BLOCK, false);

    for (int64_t i = begin; i < end && !st && !a->failed; i++) {
        worker_seek(&w, i / a->groups);
        if (i == begin || i % a->groups == 0) {
            worker_turn(&w, w.turned, &a->k);
            worker_copy(&w, &a->v);
        }
        st = attend_group(&w, i % a->groups);
    }
    cr_aligned_free(w.owned);
    if (st)
        a->failed = (int)st;
}

/* --- gradients --- */

/* Scores become probabilities, and slopes the cotangents of scores. */
static void slope_rows(const worker *w, int64_t i, int64_t rows, int64_t keys)
{
    const attention *a = w->a;
    const float *log = (const float *)(const void *)a->log.view.data;

    for (int64_t r = 0; r < rows; r++) {
        float *x = w->scores + r * w->row;
        int64_t n = seen(a, i + r, keys);
        float delta = a->loops->dot(head_at(&a->grad, w->batch, w->head, i + r),
                                    head_at(&a->out, w->batch, w->head, i + r), a->width);
        float factor = mask_row(w, x, i + r, n);
        a->loops->slope(x, w->slopes + r * w->row, n, whole_lanes(keys), factor,
                        log[(w->batch * a->heads + w->head) * a->rows + i + r], delta,
                        a->scale);
    }
}

static cr_status slope_block(const worker *w, int64_t i)
{
    const attention *a = w->a;
    int64_t rows = a->rows - i < w->block ? a->rows - i : w->block;
    int64_t keys = seen(a, i + rows - 1, a->keys), b = w->batch, h = w->head, kh = w->key_head;

    CR_TRY(worker_product(w, w->scores, &a->q, i, rows, keys, &a->k, w->turned));
    CR_TRY(worker_product(w, w->slopes, &a->grad, i, rows, keys, &a->v, w->turned_v));
    slope_rows(w, i, rows, keys);
    CR_TRY(product(rows, a->width, keys, rows_of(w->slopes, w->row), worker_rows(w, &a->k),
                   rows_of(head_at(&a->q_grad, b, h, i), a->q_grad.stride[2]), false));
    CR_TRY(product(keys, a->width, rows, columns_of(w->slopes, w->row),
                   rows_of(head_at(&a->q, b, h, i), a->q.stride[2]),
                   rows_of(head_at(&a->k_grad, b, kh, 0), a->k_grad.stride[2]), true));
    return product(keys, a->width, rows, columns_of(w->scores, w->row),
                   rows_of(head_at(&a->grad, b, h, i), a->grad.stride[2]),
                   rows_of(head_at(&a->v_grad, b, kh, 0), a->v_grad.stride[2]), true);
}

static void clear_rows(const worker *w, const heads *h)
{
    for (int64_t j = 0; j < w->a->keys; j++)
        memset(head_at(h, w->batch, w->key_head, j), 0, (size_t)w->a->width * sizeof(float));
}

/* A head of keys, and the heads of queries that share it. */
static cr_status slope_head(worker *w, int64_t i)
{
    const attention *a = w->a;

    w->batch = i / a->key_heads, w->key_head = i % a->key_heads;
    w->head = w->key_head * a->repeat;
    worker_turn(w, w->turned, &a->k);
    worker_turn(w, w->turned_v, &a->v);
    worker_copy(w, &a->k);
    clear_rows(w, &a->k_grad);
    clear_rows(w, &a->v_grad);
    for (int64_t r = 0; r < a->repeat; r++, w->head++)
        for (int64_t row = 0; row < a->rows; row += w->block)
            CR_TRY(slope_block(w, row));
    return CR_OK;
}

static void slope_range(void *context, int64_t begin, int64_t end)
{
    attention *a = context;
    worker w;
    cr_status st = worker_start(&w, a, a->rows <= 4 * SLOPE_BLOCK ? BLOCK : SLOPE_BLOCK, true);

    for (int64_t i = begin; i < end && !st && !a->failed; i++)
        st = slope_head(&w, i);
    cr_aligned_free(w.owned);
    if (st)
        a->failed = (int)st;
}

/* --- entries --- */

static cr_status attention_mask(attention *a, const cr_value *mask)
{
    int64_t size[4] = {a->batch, a->heads, a->rows, a->keys};

    a->mask = mask->tag == CR_VIEW ? mask->view : NULL;
    if (!a->mask)
        return CR_OK;
    const cr_view *m = a->mask;
    bool fits = m->ndim <= 4 && (m->dtype == CR_BOOL || m->dtype == CR_F32);
    for (int d = 0; fits && d < m->ndim; d++)
        fits = m->size[d] == 1 || m->size[d] == size[4 - m->ndim + d];
    if (!fits)
        return cr_fail(CR_RUNTIME,
                       "a mask of this type and these sizes does not fit scores of "
                       "[%lld, %lld, %lld, %lld]",
                       (long long)size[0], (long long)size[1], (long long)size[2],
                       (long long)size[3]);
    for (int d = 0; d < 4; d++)
        a->mask_step[d] = cr_broadcast_step(m->ndim, m->size, m->stride, 4, d);
    return CR_OK;
}

static cr_status attention_start(attention *a, const cr_view *q, const cr_view *k,
                                 const cr_view *v, const cr_value *mask, const cr_value *causal,
                                 const cr_value *scale)
{
    memset(a, 0, sizeof *a);
    a->batch = q->size[0], a->heads = q->size[1], a->rows = q->size[2], a->width = q->size[3];
    a->key_heads = k->size[1], a->keys = k->size[2];
    a->repeat = a->heads / a->key_heads;
    a->causal = causal->i != 0;
    a->scale = (float)(scale->tag == CR_INT ? (double)scale->i : scale->d);
    a->loops = loops_chosen();
    CR_TRY(attention_mask(a, mask));
    CR_TRY(heads_load(&a->q, q));
    CR_TRY(heads_load(&a->k, k));
    return heads_load(&a->v, v);
}

static void attention_drop(attention *a)
{
    cr_dense_drop(&a->q.copy);
    cr_dense_drop(&a->k.copy);
    cr_dense_drop(&a->v.copy);
    cr_dense_drop(&a->grad.copy);
    cr_dense_drop(&a->out.copy);
}

/* Runs `units` ranges of equal work. */
static cr_status attention_run(attention *a, int64_t units, cr_range_fn fn)
{
    double work = 2.0 * (double)a->rows * (double)a->keys * (double)(a->width + 1) *
                  (double)a->batch * (double)a->heads / (double)(units ? units : 1);

    cr_parallel_for(units, work >= SHARE ? 1 : (int64_t)(SHARE / (work + 1)) + 1, fn, a);
    return a->failed ? cr_fail(CR_MEMORY, "not enough memory for attention") : CR_OK;
}

/* Groups of blocks that give each thread work. */
static int64_t groups_for(const attention *a)
{
    int64_t count = a->batch * a->heads, threads = cr_in_parallel() ? 1 : cr_threads();
    int64_t most = (a->rows + 4 * BLOCK - 1) / (4 * BLOCK);
    int64_t wanted = count ? (2 * threads + count - 1) / count : 1;

    return threads == 1 || count >= 2 * threads || most < 1 ? 1 : wanted < most ? wanted : most;
}

cr_status cr_kern_attention(const cr_value *arg, cr_view *out)
{
    attention a;
    cr_status st;

    CR_GO(
        attention_start(&a, arg[0].view, arg[1].view, arg[2].view, &arg[3], &arg[4], &arg[5]));
    CR_GO(heads_load(&a.out, &out[0]));
    CR_GO(heads_load(&a.log, &out[1]));
    a.groups = groups_for(&a);
    CR_GO(attention_run(&a, a.batch * a.heads * a.groups, attend_range));
done:
    attention_drop(&a);
    return st;
}

cr_status cr_kern_attention_backward(const cr_value *arg, cr_view *out)
{
    attention a;
    cr_dense log = {0};
    cr_status st;

    CR_GO(
        attention_start(&a, arg[1].view, arg[2].view, arg[3].view, &arg[4], &arg[7], &arg[8]));
    CR_GO(heads_load(&a.grad, arg[0].view));
    CR_GO(heads_load(&a.out, arg[5].view));
    CR_GO(cr_dense_in(&log, arg[6].view, CR_F32));
    a.log.view.data = log.data;
    CR_GO(heads_load(&a.q_grad, &out[0]));
    CR_GO(heads_load(&a.k_grad, &out[1]));
    CR_GO(heads_load(&a.v_grad, &out[2]));
    CR_GO(attention_run(&a, a.batch * a.key_heads, slope_range));
done:
    cr_dense_drop(&log);
    attention_drop(&a);
    return st;
}
