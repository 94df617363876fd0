/* Running entries that are stated as loops.
 *
 * Evaluating the clauses takes microseconds, more than moving a few elements, so plans are kept
 * by the sizes, strides and numbers of the call.  A thread takes a plan out of the cache while
 * it uses it, and puts it back. */
#include "base/memory.h"
#include "kern/move.h"
#include "tensor/stated.h"
#include <stdatomic.h>
#include <string.h>

/* --- keys --- */

static void key_word(cr_stated_plan *p, int64_t word)
{
    if (p->words >= 0 && p->words < CR_STATED_KEY)
        p->key[p->words++] = word;
    else
        p->words = -1;
}

static void key_words(cr_stated_plan *p, const int64_t *word, int64_t n)
{
    key_word(p, n);
    for (int64_t i = 0; i < n && p->words >= 0; i++)
        key_word(p, word[i]);
}

static void key_view(cr_stated_plan *p, const cr_view *v)
{
    key_word(p, v->dtype);
    key_words(p, v->size, v->ndim);
    key_words(p, v->stride, v->ndim);
}

/* Other values than integers and tensors take no part in indices. */
static void key_value(cr_stated_plan *p, const cr_value *v)
{
    if (v->tag == CR_VIEW)
        key_view(p, v->view);
    else if (v->tag == CR_INT || v->tag == CR_TRUTH)
        key_word(p, v->i);
    else if (v->tag == CR_INTS || v->tag == CR_TRUTHS)
        key_words(p, v->ints, v->len);
    else
        key_word(p, v->tag);
}

/* Sets the key; a call with more numbers has no key. */
static void stated_key(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                       const cr_view *out)
{
    p->words = 0;
    key_word(p, op->index);
    for (int i = 0; i < op->param_count; i++)
        key_value(p, &arg[i]);
    key_view(p, out);
    p->words = p->words < 0 ? 0 : p->words;
}

static uint64_t key_hash(const cr_stated_plan *p)
{
    uint64_t h = 0;

    for (int i = 0; i < p->words; i++) {
        h = (h ^ (uint64_t)p->key[i]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

/* --- the cache --- */

#ifdef CR_MEAN
enum { PLANS = 1 };
#else
enum { PLANS = 64 };
#endif

static _Atomic(cr_stated_plan *) plans[PLANS];

static void plan_drop(cr_stated_plan *p)
{
    if (p)
        cr_vec_drop(&p->box);
    cr_free(p);
}

static cr_stated_plan *plan_take(const cr_stated_plan *like, uint64_t hash)
{
    cr_stated_plan *p = atomic_exchange(&plans[hash % PLANS], NULL);

    if (p && p->words == like->words &&
        !memcmp(p->key, like->key, (size_t)p->words * sizeof *p->key))
        return p;
    plan_drop(p);
    return NULL;
}

static void plan_put(cr_stated_plan *p, uint64_t hash)
{
    plan_drop(atomic_exchange(&plans[hash % PLANS], p));
}

/* A plan for the key of `like`, which may have been made before. */
static cr_status plan_get(cr_stated_plan **out, const cr_stated_plan *like, uint64_t hash,
                          const cr_op *op, const cr_value *arg, const cr_view *view)
{
    cr_stated_plan *p = like->words ? plan_take(like, hash) : NULL;
    cr_status st;

    *out = p;
    if (p)
        return CR_OK;
    p = cr_alloc_zero(sizeof *p);
    if (!p)
        return CR_MEMORY;
    memcpy(p->key, like->key, (size_t)like->words * sizeof *p->key);
    p->words = like->words;
    st = cr_stated_make(p, op, arg, view);
    if (st)
        plan_drop(p);
    else
        *out = p;
    return st;
}

/* --- moves --- */

static void run_box(cr_move *m, const int64_t *box, char *to, const char *from,
                    const char *index)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)m->dtype);

    m->to = to + box[0] * item;
    m->from = from + box[1] * item;
    m->index = index ? index + box[2] * (m->is32 ? 4 : 8) : NULL;
    for (int d = 0; d < m->ndim; d++) {
        m->size[d] = box[3 + 4 * d];
        m->to_stride[d] = box[4 + 4 * d];
        m->from_stride[d] = box[5 + 4 * d];
        m->index_stride[d] = box[6 + 4 * d];
    }
}

/* False when an index is outside. */
static bool run_boxes(const cr_stated_plan *p, const cr_value *arg, const cr_view *out)
{
    const char *index = p->index >= 0 ? arg[p->index].view->data : NULL;
    bool inside = true;
    cr_move m;

    m.ndim = p->ndim;
    m.dtype = out->dtype;
    m.kernel = p->kernel;
    m.unit = p->unit;
    m.extent = p->extent;
    m.is32 = p->is32;
    for (int i = 0; i < p->boxes; i++) {
        run_box(&m, p->box.at + i * (3 + 4 * p->ndim), out->data, arg[p->from].view->data,
                index);
        if (index)
            inside = cr_move_indexed(&m) && inside;
        else
            cr_move_copy(&m);
    }
    return inside;
}

/* Sets all elements to the value outside of the boxes. */
static cr_status run_fill(const cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                          const cr_view *out)
{
    _Alignas(16) char element[16];
    cr_frame f;
    cr_value v;
    cr_status st;

    cr_frame_init(&f, op, arg);
    st = cr_frame_eval(&f, p->fill, &v);
    cr_frame_drop(&f);
    CR_TRY(st);
    cr_scalar_store(v.tag == CR_NUMBER  ? v.number
                    : v.tag == CR_FLOAT ? cr_scalar_float(v.d)
                                        : cr_scalar_int(v.i),
                    (cr_dtype)out->dtype, element);
    cr_move_fill(out, element);
    return CR_OK;
}

/* The error of clause `index` when an element of the index tensor is outside. */
static cr_status run_check(const cr_stated_plan *p, const cr_op *op, const cr_value *given)
{
    const cr_loop_index *b = p->bounds;
    cr_value arg[CR_MAX_ARGS];
    cr_frame f;
    cr_status st;
    int64_t bad;

    if (cr_move_within(given[p->index].view, 0, p->extent, &bad))
        return CR_OK;
    memcpy(arg, given, op->param_count * sizeof *arg);
    arg[b->param] = cr_of_int(bad);
    cr_frame_init(&f, op, arg);
    st = cr_raise_check(&b->error, &f);
    cr_frame_drop(&f);
    return st;
}

static cr_status run_planned(const cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                             const cr_view *out)
{
    if (p->fill)
        CR_TRY(run_fill(p, op, arg, out));
    if (!run_boxes(p, arg, out) || (p->index >= 0 && !p->boxes))
        return run_check(p, op, arg);
    return CR_OK;
}

cr_status cr_run_stated(const cr_op *op, const cr_value *arg, cr_view *out)
{
    cr_stated_plan like, *p;
    uint64_t hash;
    cr_status st;

    stated_key(&like, op, arg, out);
    hash = key_hash(&like);
    CR_TRY(plan_get(&p, &like, hash, op, arg, out));
    st = run_planned(p, op, arg, out);
    if (p->words && p->box.len <= CR_STATED_CACHED)
        plan_put(p, hash);
    else
        plan_drop(p);
    return st;
}
