/* Running entries that are stated as loops.
 *
 * Evaluating the clauses takes microseconds, more than moving a few elements, so plans are kept
 * by the sizes, strides and numbers of the call.  Every thread has its own plans, because two
 * atomic exchanges would cost a tenth of a small call. */
#include "base/memory.h"
#include "kern/move.h"
#include "tensor/geometry.h"
#include "tensor/stated.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

/* --- keys --- */

/* Room for n more words of the key; NULL when there is none. */
static int64_t *key_room(cr_stated_plan *p, int n)
{
    int64_t *at = p->key + p->words;

    if (p->words < 0 || n > CR_STATED_KEY - p->words) {
        p->words = -1;
        return NULL;
    }
    p->words += n;
    return at;
}

static inline uint64_t key_mixed(uint64_t h, int64_t word)
{
    return (h << 7 | h >> 57) ^ (uint64_t)word;
}

static void key_word(cr_stated_plan *p, int64_t word)
{
    int64_t *at = key_room(p, 1);

    if (at)
        *at = word;
    p->hash = key_mixed(p->hash, word);
}

static void key_words(cr_stated_plan *p, const int64_t *word, uint32_t n)
{
    int64_t *at = n < CR_STATED_KEY ? key_room(p, (int)n + 1) : key_room(p, CR_STATED_KEY + 1);

    if (!at)
        return;
    *at++ = n;
    for (uint32_t i = 0; i < n; i++) {
        at[i] = word[i];
        p->hash = key_mixed(p->hash, word[i]);
    }
}

static void key_view(cr_stated_plan *p, const cr_view *v)
{
    int n = v->ndim;
    int64_t *at = key_room(p, 1 + 2 * n);
    uint64_t h = key_mixed(p->hash, v->dtype | n << 8);

    if (!at)
        return;
    *at++ = v->dtype | n << 8;
    for (int d = 0; d < n; d++) {
        at[2 * d] = v->size[d];
        at[2 * d + 1] = v->stride[d];
        h = key_mixed(key_mixed(h, v->size[d]), v->stride[d]);
    }
    p->hash = h;
}

/* Adds a value that affects indices: an integer, a list of them, or a tensor.  False for other
 * values. */
static bool key_value(cr_stated_plan *p, const cr_value *v)
{
    if (v->tag == CR_VIEW)
        key_view(p, v->view);
    else if (v->tag == CR_INT || v->tag == CR_TRUTH)
        key_word(p, v->i);
    else if (v->tag == CR_INTS || v->tag == CR_TRUTHS)
        key_words(p, v->ints, v->len);
    else
        return false;
    return true;
}

/* Sets the key; a call with more numbers has no key.  One word has a bit for each argument
 * that is not in the key, because an optional integer may be None. */
static void stated_key(cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                       const cr_view *out)
{
    int64_t absent = 0;

    p->words = 0;
    p->hash = 0;
    key_word(p, op->index);
    for (int i = 0; i < op->param_count; i++)
        absent |= (int64_t)!key_value(p, &arg[i]) << i;
    key_word(p, absent);
    key_view(p, out);
    p->words = p->words < 0 ? 0 : p->words;
    p->hash *= 0x9E3779B97F4A7C15u;
    p->hash ^= p->hash >> 32;
}

/* Compares word by word: the key was just written by words, and vector loads of memcmp would
 * wait for these stores. */
static bool key_is(const cr_stated_plan *p, const cr_stated_plan *like)
{
    int64_t differ = p->words ^ like->words;

    for (int i = 0; i < like->words && !differ; i++)
        differ = p->key[i] ^ like->key[i];
    return !differ;
}

/* --- the cache --- */

#ifdef CR_MEAN
enum { PLANS = 1 };
#else
enum { PLANS = 64 };
#endif

/* The most bytes that the lists of a thread's plans for windows may have: those of a dim of
 * millions of places would stay in memory until the thread ends. */
enum { CACHE_BYTES = 1 << 23 };

typedef struct {
    cr_stated_plan *slot[PLANS];
    size_t bytes; /* of the plans' windows */
} plan_cache;

static CR_THREAD plan_cache *cache; /* NULL until the thread keeps a plan */
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static pthread_key_t cache_end;
static bool cache_ends; /* caches are dropped when their threads end */

static void plan_drop(cr_stated_plan *p)
{
    if (p) {
        cr_vec_drop(&p->box);
        cr_vec_drop(&p->dim);
        cr_vec_drop(&p->part);
        cr_window_drop(p->window);
    }
    cr_free(p);
}

static void cache_clear(plan_cache *c)
{
    for (int i = 0; i < PLANS; i++) {
        plan_drop(c->slot[i]);
        c->slot[i] = NULL;
    }
    c->bytes = 0;
}

static void cache_drop(void *of)
{
    plan_cache *c = of;

    if (c)
        cache_clear(c);
    cr_free(c);
    cache = NULL;
}

static void cache_start(void) { cache_ends = !pthread_key_create(&cache_end, cache_drop); }

/* The thread's plan for the key of `like`, or NULL. */
static cr_stated_plan *plan_find(const cr_stated_plan *like)
{
    cr_stated_plan *p = cache && like->words ? cache->slot[like->hash % PLANS] : NULL;

    return p && key_is(p, like) ? p : NULL;
}

/* Replaces the plan of the slot, or all plans when they would have too many bytes. */
static void cache_put(plan_cache *c, cr_stated_plan *p, size_t bytes)
{
    cr_stated_plan **slot = &c->slot[p->hash % PLANS];

    if (c->bytes + bytes > CACHE_BYTES)
        cache_clear(c);
    if (*slot)
        c->bytes -= cr_window_bytes((*slot)->window);
    plan_drop(*slot);
    *slot = p;
    c->bytes += bytes;
}

size_t cr_stated_kept_bytes(void) { return cache ? cache->bytes : 0; }

/* Keeps the plan in place of another one; false when it is not kept. */
static bool plan_keep(cr_stated_plan *p)
{
    size_t bytes = cr_window_bytes(p->window);

    if (!p->words || p->dim.len > CR_STATED_CACHED || bytes > CACHE_BYTES)
        return false;
    if (!cache) {
        pthread_once(&cache_once, cache_start);
        cache = cache_ends ? cr_alloc_zero(sizeof *cache) : NULL;
        if (cache && pthread_setspecific(cache_end, cache))
            cache_drop(cache);
    }
    if (!cache)
        return false;
    cache_put(cache, p, bytes);
    return true;
}

/* A new plan for the key of `like`. */
static cr_status plan_new(cr_stated_plan **out, const cr_stated_plan *like, const cr_op *op,
                          const cr_value *arg, const cr_view *view)
{
    cr_stated_plan *p = cr_alloc_zero(sizeof *p);
    cr_status st;

    if (!p)
        return CR_MEMORY;
    memcpy(p->key, like->key, (size_t)like->words * sizeof *p->key);
    p->words = like->words;
    p->hash = like->hash;
    st = cr_stated_make(p, op, arg, view);
    if (st)
        plan_drop(p);
    else
        *out = p;
    return st;
}

/* --- moves --- */

/* GIVEN: the arguments of the call.  WRAPPED: with a copy of the indices in which none is
 * negative.  COUNTS: the result counts how often the call writes each place. */
typedef enum { GIVEN, WRAPPED, COUNTS } run_how;

/* A plan's moves on the tensors of a call. */
typedef struct {
    const cr_stated_plan *p;
    cr_move m;
    char *to;
    const char *from, *index; /* index: NULL without */
    _Alignas(16) char item[16];
    bool inside; /* all indices were */
    bool counts; /* each place that is written counts; even axes share their counts */
} running;

/* An integer or a parameter needs no frame. */
static cr_status number_value(cr_value *v, const cr_rule *number, const cr_op *op,
                              const cr_value *arg)
{
    cr_frame f;
    cr_status st = CR_OK;

    if (number->kind == CR_RULE_INT) {
        *v = cr_of_int(number->integer);
    } else if (number->kind == CR_RULE_NAME && number->slot < op->param_count) {
        *v = arg[number->slot];
    } else {
        cr_frame_init(&f, op, arg);
        st = cr_frame_eval(&f, number, v);
        cr_frame_drop(&f);
    }
    return st;
}

cr_status cr_stated_number(void *item, const cr_rule *number, const cr_op *op,
                           const cr_value *arg, cr_dtype dtype)
{
    cr_value v;

    if (number->kind == CR_RULE_INT && !number->integer) {
        memset(item, 0, cr_dtype_size(dtype));
        return CR_OK;
    }
    CR_TRY(number_value(&v, number, op, arg));
    cr_scalar_store(v.tag == CR_NUMBER  ? v.number
                    : v.tag == CR_FLOAT ? cr_scalar_float(v.d)
                    : v.tag == CR_VIEW  ? cr_scalar_load((cr_dtype)v.view->dtype, v.view->data)
                                        : cr_scalar_int(v.i),
                    dtype, item);
    return CR_OK;
}

static void run_place(running *r, const cr_stated_box *box, const int64_t *dim)
{
    cr_move *m = &r->m;
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)m->dtype);

    m->to = r->to + box->to * item;
    m->from = r->from + box->from * item;
    m->index = r->index ? r->index + box->index * (m->is32 ? 4 : 8) : NULL;
    for (int d = 0; d < m->ndim; d++, dim += CR_STATED_DIM) {
        m->size[d] = dim[0];
        m->to_stride[d] = dim[1];
        m->from_stride[d] = dim[2];
        m->index_stride[d] = dim[3];
    }
}

/* Sets the result to what a loop that writes starts from. */
static cr_status run_start(running *r, const cr_op *op, const cr_value *arg, cr_view *out)
{
    const cr_rule *start = op->loop_start;

    if (start->kind != CR_RULE_NAME) {
        CR_TRY(cr_stated_number(r->item, start, op, arg, (cr_dtype)out->dtype));
        cr_move_fill(out, r->item);
        return CR_OK;
    }
    if (out->data != arg[start->slot].view->data)
        cr_move_view(out, arg[start->slot].view);
    return CR_OK;
}

static const struct {
    const char *name;
    cr_stated_combination is;
} combinations[] = {
    {"set", {.how = CR_COMBINE_SET}},      {"add", {.how = CR_COMBINE_ADD}},
    {"multiply", {.how = CR_COMBINE_MUL}}, {"sum", {.how = CR_COMBINE_ADD}},
    {"prod", {.how = CR_COMBINE_MUL}},     {"amin", {.how = CR_COMBINE_MIN}},
    {"amax", {.how = CR_COMBINE_MAX}},     {"mean", {.how = CR_COMBINE_ADD, .mean = true}}};

static cr_status combination_of_clause(cr_stated_combination *c, const cr_op *op, cr_frame *f)
{
    cr_value v;

    CR_TRY(cr_frame_eval(f, op->loop_combine, &v));
    for (size_t i = 0; i < CR_LEN(combinations); i++) {
        const char *name = combinations[i].name;
        if (v.len == strlen(name) && !memcmp(v.s, name, v.len))
            *c = combinations[i].is;
    }
    if (!op->loop_fresh)
        return CR_OK;
    CR_TRY(cr_frame_eval(f, op->loop_fresh, &v));
    c->fresh = v.i != 0;
    return CR_OK;
}

/* The operation that clause `combine` names; without the clause, that of `=` or `+=`. */
cr_status cr_stated_combination_of(cr_stated_combination *c, const cr_op *op,
                                   const cr_value *arg)
{
    cr_frame f;
    cr_status st;

    *c = (cr_stated_combination){.how = op->loop_adds ? CR_COMBINE_ADD : CR_COMBINE_SET};
    if (!op->loop_combine)
        return CR_OK;
    cr_frame_init(&f, op, arg);
    st = combination_of_clause(c, op, &f);
    cr_frame_drop(&f);
    return st;
}

/* The least number of a dtype, or the greatest. */
static cr_scalar combination_limit(cr_dtype t, bool greatest)
{
    int bits = 8 * (int)cr_dtype_size(t);
    int64_t top = t == CR_BOOL ? 1 : t == CR_U8 ? UINT8_MAX : INT64_MAX >> (64 - bits);

    if (cr_dtype_category(t) >= CR_CAT_FLOAT)
        return cr_scalar_float(greatest ? (double)INFINITY : -(double)INFINITY);
    return cr_scalar_int(greatest ? top : t == CR_BOOL || t == CR_U8 ? 0 : -top - 1);
}

static cr_scalar combination_identity(cr_stated_combination c, cr_dtype t)
{
    switch (c.how) {
    case CR_COMBINE_MUL: return cr_scalar_int(1);
    case CR_COMBINE_MIN:
    case CR_COMBINE_MAX: return combination_limit(t, c.how == CR_COMBINE_MIN);
    default: return cr_scalar_int(0);
    }
}

static cr_status run_write_boxes(running *r, cr_combine how)
{
    const cr_stated_plan *p = r->p;

    for (size_t i = 0; i < p->box.len; i++) {
        run_place(r, &p->box.at[i], p->dim.at + i * (size_t)(CR_STATED_DIM * p->ndim));
        CR_TRY(cr_move_combine(&r->m, how, p->picked));
    }
    return CR_OK;
}

/* The same with r->item in place of all elements that are written. */
static cr_status run_item_boxes(running *r, cr_combine how)
{
    const cr_stated_plan *p = r->p;

    for (size_t i = 0; i < p->box.len; i++) {
        run_place(r, &p->box.at[i], p->dim.at + i * (size_t)(CR_STATED_DIM * p->ndim));
        r->m.to = r->item;
        for (int d = 0; d < p->ndim; d++) {
            r->m.to_stride[d] = 0;
            r->m.size[d] = r->counts && p->even >> d & 1 ? 1 : r->m.size[d];
        }
        CR_TRY(cr_move_combine(&r->m, how, p->picked));
    }
    return CR_OK;
}

cr_status cr_stated_check(const cr_loop_index *b, const cr_op *op, const cr_value *given,
                          int64_t low, int64_t high)
{
    cr_value arg[CR_MAX_ARGS];
    cr_frame f;
    cr_status st;
    int64_t bad;

    if (cr_move_within(given[b->param].view, low, high, &bad))
        return CR_OK;
    memcpy(arg, given, op->param_count * sizeof *arg);
    arg[b->param] = cr_of_int(bad);
    cr_frame_init(&f, op, arg);
    st = cr_raise_check(&b->error, &f);
    cr_frame_drop(&f);
    return st;
}

static cr_status run_counts(running *r)
{
    int64_t one = 1;

    memcpy(r->item, &one, sizeof one);
    return run_item_boxes(r, CR_COMBINE_ADD);
}

static cr_status run_mean(uint64_t even, const cr_op *op, const cr_value *arg,
                          const cr_view *out, bool fresh);

/* All indices are inside. */
static cr_status run_writes(running *r, const cr_op *op, const cr_value *arg, cr_view *out)
{
    const cr_stated_plan *p = r->p;
    cr_dtype t = (cr_dtype)out->dtype;
    cr_stated_combination c;

    CR_TRY(cr_stated_combination_of(&c, op, arg));
    CR_TRY(run_start(r, op, arg, out));
    if (c.fresh) {
        cr_scalar_store(combination_identity(c, t), t, r->item);
        CR_TRY(run_item_boxes(r, CR_COMBINE_SET));
    }
    if (p->fill)
        CR_TRY(cr_stated_number(r->item, p->fill, op, arg, t));
    CR_TRY(run_write_boxes(r, c.how));
    return c.mean ? run_mean(p->even_dims, op, arg, out, c.fresh) : CR_OK;
}

static void run_box(running *r, const cr_stated_box *box, const cr_move_part *part)
{
    const cr_move *m = &r->m;
    cr_view to = {m->to, m->size, m->to_stride, (uint8_t)m->ndim, m->dtype, CR_HOST, false};

    if (box->fill)
        cr_move_fill(&to, r->item);
    else if (box->parts)
        cr_move_lines(m, part, box->parts, r->item);
    else if (r->index)
        r->inside = cr_move_indexed(m) && r->inside;
    else
        cr_move_copy(m);
}

static void run_boxes(running *r)
{
    const cr_stated_plan *p = r->p;
    const cr_move_part *part = p->part.at;

    for (size_t i = 0; i < p->box.len; part += p->box.at[i++].parts) {
        run_place(r, &p->box.at[i], p->dim.at + i * (size_t)(CR_STATED_DIM * p->ndim));
        run_box(r, &p->box.at[i], part);
    }
}

static cr_status run_reads(running *r, const cr_op *op, const cr_value *arg, const cr_view *out)
{
    const cr_stated_plan *p = r->p;

    if (p->fill)
        CR_TRY(cr_stated_number(r->item, p->fill, op, arg, (cr_dtype)out->dtype));
    run_boxes(r);
    return CR_OK;
}

static cr_status run_wrapped(const cr_loop_index *b, const cr_op *op, const cr_value *arg,
                             cr_view *out);

/* A call of which some index is not in [0, extent): some may count from the end. */
static cr_status run_outside(const cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                             cr_view *out, run_how how)
{
    return p->bounds->low && how == GIVEN ? run_wrapped(p->bounds, op, arg, out)
                                          : cr_stated_check(p->bounds, op, arg, 0, p->extent);
}

/* True if the indices cannot be used as they are.  Reads find an index outside when they come
 * to it; writes check all indices first. */
static bool run_refuses(const cr_stated_plan *p, const cr_op *op, const cr_value *arg)
{
    int64_t bad;

    return p->unravel || (op->loop_start && p->index >= 0 &&
                          !cr_move_within(arg[p->index].view, 0, p->extent, &bad));
}

static cr_status run_planned(const cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                             cr_view *out, run_how how)
{
    running r; /* an initializer would clear two kilobytes */

    if (p->window)
        return cr_window_run_all(p->window, arg[p->from].view, out);
    if (how == GIVEN && run_refuses(p, op, arg))
        return run_outside(p, op, arg, out, how);
    r.p = p;
    r.inside = true;
    r.counts = how == COUNTS;
    r.index = p->index >= 0 ? arg[p->index].view->data : NULL;
    r.m.ndim = p->ndim;
    r.m.dtype = out->dtype;
    r.m.kernel = p->kernel;
    r.m.unit = p->unit;
    r.m.extent = p->extent;
    r.m.is32 = p->is32;
    r.m.gaps = p->unravel;
    if (p->unravel)
        cr_move_unravel((int64_t *)(void *)arg[p->index].view->data, arg[p->index].view,
                        p->from >= 0 ? arg[p->from].view : out);
    if (how == COUNTS) {
        r.from = out->data;
        return run_counts(&r);
    }
    if (op->loop_start) {
        r.to = p->plain >= 0 ? arg[p->plain].view->data : r.item;
        r.from = out->data;
        return run_writes(&r, op, arg, out);
    }
    r.to = out->data;
    r.from = arg[p->from].view->data;
    CR_TRY(run_reads(&r, op, arg, out));
    return !r.inside || (r.index && !p->box.len) ? run_outside(p, op, arg, out, how) : CR_OK;
}

static cr_status run_by_plan(const cr_op *op, const cr_value *arg, cr_view *out, run_how how);

/* Allocates a row-major copy of v, which the caller frees; copies the elements if `filled`. */
static cr_status run_dense_view(cr_view *copy, int64_t *stride, const cr_view *v, bool filled)
{
    cr_view all = *v;
    int64_t n = cr_numel(v->ndim, v->size);

    *copy = *v;
    copy->stride = stride;
    cr_row_major(v->ndim, v->size, stride);
    copy->data = cr_alloc((size_t)n * cr_dtype_size((cr_dtype)v->dtype) + 1);
    if (!copy->data)
        return CR_MEMORY;
    if (filled && n)
        cr_move_view(copy, &all);
    return CR_OK;
}

/* The call with row-major copies of the tensors that the plan asks for. */
static cr_status run_dense(uint64_t dense, const cr_op *op, const cr_value *arg, cr_view *out,
                           run_how how)
{
    cr_value given[CR_MAX_ARGS];
    cr_view copy[CR_MAX_ARGS + 1];
    int64_t stride[CR_MAX_ARGS + 1][CR_MAX_DIMS];
    bool result = dense >> CR_STATED_RESULT & 1;
    cr_view *into = result ? &copy[CR_MAX_ARGS] : out;
    cr_status st;

    memset(copy, 0, sizeof copy);
    memcpy(given, arg, op->param_count * sizeof *given);
    for (int i = 0; i < op->param_count; i++)
        if (dense >> i & 1) {
            CR_GO(run_dense_view(&copy[i], stride[i], arg[i].view, true));
            given[i].view = &copy[i];
        }
    if (result)
        CR_GO(run_dense_view(into, stride[CR_MAX_ARGS], out, false));
    CR_GO(run_by_plan(op, given, into, how));
    if (result)
        cr_move_view(out, into);
done:
    for (int i = 0; i <= CR_MAX_ARGS; i++)
        cr_free(copy[i].data);
    return st;
}

/* A plan that asks for copies makes a call with another key.  That call may remove p from the
 * cache, so p is not read after it. */
static cr_status run_plan(const cr_stated_plan *p, const cr_op *op, const cr_value *arg,
                          cr_view *out, run_how how)
{
    return p->dense ? run_dense(p->dense, op, arg, out, how)
                    : run_planned(p, op, arg, out, how);
}

static cr_status run_by_plan(const cr_op *op, const cr_value *arg, cr_view *out, run_how how)
{
    cr_stated_plan like, *p;
    bool kept;
    cr_status st;

    stated_key(&like, op, arg, out);
    p = plan_find(&like);
    if (p)
        return run_plan(p, op, arg, out, how);
    CR_TRY(plan_new(&p, &like, op, arg, out));
    kept = plan_keep(p);
    st = run_plan(p, op, arg, out, how);
    if (!kept)
        plan_drop(p);
    return st;
}

/* Divides each place that was written by the number of its terms, one more unless `fresh`. */
static cr_status run_mean(uint64_t even, const cr_op *op, const cr_value *arg,
                          const cr_view *out, bool fresh)
{
    int64_t stride[CR_MAX_DIMS], n = 1, *count;
    cr_view counts = *out;
    cr_status st;

    counts.stride = stride;
    counts.dtype = CR_I64;
    for (int d = out->ndim - 1; d >= 0; d--) {
        stride[d] = even >> d & 1 ? 0 : n;
        n *= even >> d & 1 ? 1 : out->size[d];
    }
    count = cr_alloc((size_t)n * sizeof *count);
    if (!count)
        return CR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        count[i] = !fresh;
    counts.data = (char *)count;
    st = run_by_plan(op, arg, &counts, COUNTS);
    if (!st)
        cr_move_divide(out, &counts);
    cr_free(count);
    return st;
}

cr_status cr_stated_bounds(const cr_loop_index *b, const cr_op *op, const cr_value *arg,
                           int64_t *low, int64_t *high)
{
    cr_value least, most;
    cr_frame f;
    cr_status st;

    cr_frame_init(&f, op, arg);
    CR_GO(cr_frame_eval(&f, b->low, &least));
    CR_GO(cr_frame_eval(&f, b->high, &most));
    *low = least.i;
    *high = most.i;
done:
    cr_frame_drop(&f);
    return st;
}

/* With indices that are negative: these count from the end. */
static cr_status run_wrapped(const cr_loop_index *b, const cr_op *op, const cr_value *arg,
                             cr_view *out)
{
    const cr_view *index = arg[b->param].view;
    cr_value given[CR_MAX_ARGS];
    int64_t stride[CR_MAX_DIMS], low, high, next = 1;
    cr_view dense = *index;
    cr_status st;

    CR_TRY(cr_stated_bounds(b, op, arg, &low, &high));
    CR_TRY(cr_stated_check(b, op, arg, low, high));
    dense.stride = stride;
    dense.dtype = CR_I64;
    for (int d = index->ndim - 1; d >= 0; next *= index->size[d--])
        stride[d] = next;
    dense.data = (char *)cr_move_wrapped(index, high);
    if (!dense.data)
        return CR_MEMORY;
    memcpy(given, arg, op->param_count * sizeof *given);
    given[b->param].view = &dense;
    st = run_by_plan(op, given, out, WRAPPED);
    cr_free(dense.data);
    return st;
}

cr_status cr_run_stated_there(const cr_op *op, const cr_value *arg, cr_view *out, bool *done)
{
    cr_stated_plan like, *p;
    bool kept = true;
    cr_status st;

    *done = cr_stated_has_list(op);
    if (*done)
        return cr_run_stated_list(op, arg, out);
    if (cr_stated_scale(op) >= 0)
        return CR_OK;
    stated_key(&like, op, arg, out);
    p = plan_find(&like);
    if (!p) {
        CR_TRY(plan_new(&p, &like, op, arg, out));
        kept = plan_keep(p);
    }
    st = cr_stated_plan_there(p, op, arg, out, done);
    if (!kept)
        plan_drop(p);
    return st;
}

static bool is_one(cr_scalar s)
{
    cr_complex c = cr_scalar_as_complex(s);

    return c.re == 1 && c.im == 0;
}

/* A tensor that is written may be multiplied by a number. */
cr_status cr_run_stated(const cr_op *op, const cr_value *arg, cr_view *out)
{
    int by = cr_stated_scale(op), param;
    cr_value given[CR_MAX_ARGS];
    int64_t stride[CR_MAX_DIMS];
    cr_view scaled = {0};
    cr_status st;

    if (cr_stated_has_list(op))
        return cr_run_stated_list(op, arg, out);
    if (by < 0 || is_one(arg[by].number))
        return run_by_plan(op, arg, out, GIVEN);
    param = op->loop_value->args[1]->args[0]->slot;
    memcpy(given, arg, op->param_count * sizeof *given);
    given[param].view = &scaled;
    CR_TRY(cr_move_scale(&scaled, stride, arg[param].view, arg[by].number));
    st = run_by_plan(op, given, out, GIVEN);
    cr_free(scaled.data);
    return st;
}
