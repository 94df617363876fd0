/* The stage DEFER: a call checks its arguments, makes pending results, and is noted.
 *
 * The entry's kernel stage runs on stand-ins of the arguments (trace.h), which have no bytes,
 * so it does everything but compute.  If it refuses the stand-ins, the call runs at once on the
 * arguments themselves: an error is raised at the line of the call, in eager's words.
 *
 * Views are geometry over a storage, and are not noted.  Compositions are evaluated, and the
 * calls that they make are noted.  A call runs at once when its entry reads elements on the
 * host, draws random numbers or may raise by values, or when an argument's memory is also used
 * outside of the library. */
#include "tensor/defer.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/profile.h"
#include "tensor/sparse.h"
#include "tensor/trace.h"
#include <string.h>

enum {
    MOST_CALLS = 10000,
    MOST_SHOWN = 64,
    MOST_IN_LISTS = 1 << 16,
    MOST_INTEGERS = 1 << 20,
    MOST_VAIN = 16
};
const char cr_defer_full[] = "many calls wait";
static const size_t MOST_BYTES = (size_t)256 << 20, MOST_COPIED = (size_t)1 << 20;

/* --- how an entry is handled --- */
typedef enum { UNKNOWN, PASSES, AT_ONCE, OPAQUE, NOTED, NOTED_IF_WITHIN } handling;
static struct {
    _Atomic uint8_t how;  /* handling; set last */
    _Atomic uint8_t vain; /* calls of a composition, in a row, whose parts cannot be known */
    _Atomic bool updates; /* the arguments decide which tensors are written */
    _Atomic uint32_t written;
} handled[CR_MOST_OPS];

static handling defer_classify(const cr_op *op)
{
    const cr_op *of = op->does == CR_DOES_INPLACE ? op->inplace_of : op;
    unsigned words = op->words | of->words;
    unsigned now = CR_WORD_SIZED_BY_VALUES | CR_WORD_RAISES_BY_VALUES | CR_WORD_RANDOM |
                   CR_WORD_SPARSE | CR_WORD_RESETS | CR_WORD_CHECKS;

    if (op->custom || words & CR_WORD_MEETS)
        return OPAQUE;
    if (op->does == CR_DOES_MAP || (op->does == CR_DOES_WHOLE && words & CR_WORD_VIEW &&
                                    !(words & (now & ~CR_WORD_RAISES_BY_VALUES))))
        return PASSES;
    if (of->does == CR_DOES_IS && !of->fused && !(words & CR_WORD_SPARSE))
        return PASSES;
    if (op->defer.by_calls)
        return PASSES;
    if (cr_defer_has_bounds(of) && cr_op_makes_tensors(op) &&
        !(words & now & ~(CR_WORD_RAISES_BY_VALUES | CR_WORD_SIZED_BY_VALUES)))
        return NOTED_IF_WITHIN;
    if (words & now || !cr_op_makes_tensors(op) || of->does == CR_DOES_MAP)
        return AT_ONCE;
    return NOTED;
}

static bool marks_written(const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return true;
    return false;
}

static CR_NOINLINE handling decide_handling(const cr_op *op)
{
    uint32_t written = op->does == CR_DOES_INPLACE || op->words & CR_WORD_RESETS;

    for (int i = 0; i < op->param_count; i++)
        written |= (uint32_t)op->param[i].written << i;
    /* threads that decide at the same time store the same values */
    atomic_store_explicit(&handled[op->index].written, written, memory_order_relaxed);
    atomic_store_explicit(&handled[op->index].updates, op->updates.params != 0,
                          memory_order_relaxed);
    handling how = defer_classify(op);
    atomic_store_explicit(&handled[op->index].how, (uint8_t)how, memory_order_release);
    return how;
}

static inline handling defer_handling(const cr_op *op)
{
    handling how = atomic_load_explicit(&handled[op->index].how, memory_order_acquire);

    return CR_LIKELY(how != UNKNOWN) ? how : decide_handling(op);
}

uint32_t cr_defer_written_params(const cr_op *op, const cr_value *arg)
{
    (void)defer_handling(op);
    uint32_t written = atomic_load_explicit(&handled[op->index].written, memory_order_relaxed);
    bool updates = atomic_load_explicit(&handled[op->index].updates, memory_order_relaxed) &&
                   (op->updates.when < 0 || arg[op->updates.when].i);

    return updates ? written | op->updates.params : written;
}

/* --- arguments --- */
typedef struct {
    uint32_t stages;
    int count;
    bool outside, large_outside, written_outside, layout;
    bool written, inexact, many, large, waits;
    cr_status st;
} looked;

static void settle_argument(cr_tensor *t, void *context)
{
    cr_status *st = context;

    if (!*st)
        *st = cr_defer_settle(t);
}

cr_status cr_defer_settle_all(const cr_op *op, const cr_value *arg)
{
    cr_status st = CR_OK;

    cr_each_tensor(op, arg, settle_argument, &st);
    return st;
}

static void before_write(cr_tensor *t, void *context)
{
    cr_status *st = context;

    if (t->layout) {
        const cr_sparse *parts = cr_sparse_of(t);
        if (parts->compressed)
            before_write(parts->compressed, context);
        before_write(parts->indices, context);
        before_write(parts->values, context);
    } else if (!*st && !t->storage->device.fake) {
        *st = cr_defer_before_write(t->storage);
    }
}

/* Runs a call whose arguments have their bytes, and the calls that it makes. */
static cr_status call_now(const cr_op *op, const cr_value *arg, cr_value *result)
{
    uint32_t was = cr_thread.exclude;

    cr_thread.exclude = was | CR_STAGE_BIT(DEFER);
    cr_status st = cr_call_past(CR_STAGE_DEFER, op, arg, result);
    cr_thread.exclude = was;
    return st;
}

/* Whether the call's results depend on numbers and sizes alone. */
static bool makes_constant(const cr_op *op, const cr_value *arg)
{
    for (uint32_t mask = op->tensor_params & ~op->defer.unread; mask; mask &= mask - 1)
        if (arg[CR_CTZ(mask)].tag != CR_NONE)
            return false;
    return !(op->words & CR_WORD_RANDOM) && cr_op_makes_tensors(op);
}

static cr_status run_at_once(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_status st = CR_OK;

    cr_defer_me()->at_once += !makes_constant(op, arg);
    cr_defer_entry = op;
    for (uint32_t mask = op->tensor_params & ~op->defer.unread; mask; mask &= mask - 1)
        cr_each_tensor_of(&arg[CR_CTZ(mask)], settle_argument, &st);
    uint32_t written = op->tensor_params & cr_defer_written_params(op, arg);
    for (uint32_t mask = written; mask && !st; mask &= mask - 1)
        cr_each_tensor_of(&arg[CR_CTZ(mask)], before_write, &st);
    cr_defer_entry = NULL;
    return st ? st : call_now(op, arg, result);
}

/* --- memories of a trace --- */
static size_t memory_slot(const cr_trace *x, const cr_storage *s)
{
    size_t at = (size_t)((uintptr_t)s >> 6) * 0x9e3779b97f4a7c15u >> 20;

    for (;; at++) {
        uint32_t index = x->table[at & (x->table_size - 1)];
        if (!index || x->memories.at[index - 1]->real == s)
            return at & (x->table_size - 1);
    }
}

cr_memory *cr_trace_find(const cr_trace *x, const cr_storage *s)
{
    if (!x->memories.len || !cr_defer_references(s))
        return NULL;
    uint32_t index = x->table[memory_slot(x, s)];
    return index ? x->memories.at[index - 1] : NULL;
}

static cr_status table_grow(cr_trace *x)
{
    size_t size = x->table_size ? 2 * x->table_size : 64;

    if (x->memories.len * 2 < x->table_size)
        return CR_OK;
    uint32_t *table = cr_alloc_zero(size * sizeof *table);
    CR_NEED(table);
    cr_free(x->table);
    x->table = table;
    x->table_size = size;
    for (size_t i = 0; i < x->memories.len; i++)
        table[memory_slot(x, x->memories.at[i]->real)] = (uint32_t)i + 1;
    return CR_OK;
}

/* Takes a reference to `real`. */
static cr_status memory_new(cr_memory **out, cr_trace *x, cr_storage *real)
{
    cr_memory *m = cr_arena_get(&x->arena, sizeof *m);

    CR_NEED(m);
    CR_TRY(cr_vec_reserve(&x->memories, 1));
    CR_TRY(table_grow(x));
    m->real = cr_storage_keep(real);
    atomic_fetch_add(&real->traces, 1);
    atomic_init(&m->shown.count, 1 << 20); /* the arena has cleared the rest */
    m->shown.size = real->size;
    m->shown.device = real->device;
    m->shown.chunk = real->chunk;
    m->shown.device.fake = true;
    m->index = x->memories.len;
    size_t slot = memory_slot(x, real);
    cr_vec_put(&x->memories, m);
    x->table[slot] = (uint32_t)x->memories.len;
    *out = m;
    return CR_OK;
}

static cr_status memory_get(cr_memory **out, cr_trace *x, cr_storage *real)
{
    *out = cr_trace_find(x, real);
    return *out ? CR_OK : memory_new(out, x, real);
}

/* A copy of memory that code outside of the library may change before the flush. */
static cr_status memory_copied(cr_memory **out, cr_trace *x, const cr_storage *s)
{
    cr_storage *copy;

    CR_TRY(cr_storage_new(&copy, s->device, s->size));
    cr_status st = cr_storage_copy(copy, 0, s, 0, s->size);
    if (!st)
        st = memory_new(out, x, copy);
    if (!st)
        (*out)->copied = true;
    cr_storage_drop(copy);
    x->bytes += s->size;
    return st;
}

cr_status cr_memory_to_use(cr_memory **out, cr_trace *x, cr_storage *s)
{
    return CR_UNLIKELY(cr_storage_is_outside(s)) ? memory_copied(out, x, s)
                                                 : memory_get(out, x, s);
}

cr_status cr_memory_to_make(cr_memory **out, cr_trace *x, cr_tensor *t)
{
    cr_storage *real = t->storage;

    cr_fake_becomes_real(t);
    t->stages |= CR_STAGE_BIT(DEFER);
    CR_TRY(memory_new(out, x, real));
    (*out)->made = true;
    atomic_store(&real->pending, x->number);
    x->bytes += real->size;
    return CR_OK;
}

/* --- headers over stand-ins --- */
typedef struct {
    cr_trace *x;
    cr_noted *n;
    cr_status st;
    int count;
    cr_shown few[MOST_SHOWN], *at;
} showing;

cr_tensor *cr_header_new(cr_arena *a, const cr_tensor *t, cr_memory *m)
{
    cr_tensor *h = cr_arena_get(a, sizeof *h);

    if (!h)
        return NULL;
    h->size = h->dims;
    if (t->ndim > CR_INLINE_DIMS)
        h->size = cr_arena_get(a, 2 * t->ndim * sizeof *h->size);
    if (!h->size)
        return NULL;
    h->stride = h->size + (t->ndim > CR_INLINE_DIMS ? t->ndim : CR_INLINE_DIMS);
    memcpy(h->size, t->size, t->ndim * sizeof *h->size);
    memcpy(h->stride, t->stride, t->ndim * sizeof *h->stride);
    atomic_init(&h->count, 1 << 20);
    h->dtype = t->dtype;
    h->ndim = t->ndim;
    h->device = m ? m->shown.device : t->device;
    h->contiguous = t->contiguous;
    h->number = t->number;
    h->inference = t->inference;
    h->conj = t->conj;
    h->neg = t->neg;
    h->offset = t->offset;
    h->numel = t->numel;
    h->storage = m ? &m->shown : NULL;
    h->stages = CR_STAGE_BIT(FAKE) | (t->stages & CR_STAGE_BIT(CONJ));
    return h;
}

static cr_status show_tensor(showing *s, cr_value *v)
{
    cr_tensor *t = v->t;
    cr_memory *m;

    if (s->count == MOST_SHOWN && s->at == s->few) {
        s->at = cr_arena_get(&s->x->arena, MOST_IN_LISTS * sizeof *s->at);
        CR_NEED(s->at);
        memcpy(s->at, s->few, sizeof s->few);
    }
    if (s->count == MOST_IN_LISTS)
        return cr_fail(CR_RUNTIME, "too many tensors for a deferred call");
    CR_TRY(cr_memory_to_use(&m, s->x, t->storage));
    cr_tensor *h = cr_header_new(&s->x->arena, t, m);
    CR_NEED(h);
    m->shown.version = 0;
    s->at[s->count].real = t;
    s->at[s->count].shown = h;
    s->at[s->count++].memory = m;
    v->t = h;
    return CR_OK;
}

static void *keep_bytes(cr_trace *x, const void *p, size_t n)
{
    void *to = cr_arena_get(&x->arena, n + 1);

    if (to && n)
        memcpy(to, p, n);
    return to;
}

static cr_status show_value(showing *s, cr_value *v)
{
    const void *kept = v;

    switch (v->tag) {
    case CR_TENSOR: return show_tensor(s, v);
    case CR_STRING: kept = v->s = keep_bytes(s->x, v->s, v->len); break;
    case CR_INTS:
    case CR_TRUTHS: kept = v->ints = keep_bytes(s->x, v->ints, v->len * sizeof *v->ints); break;
    case CR_FLOATS:
        kept = v->floats = keep_bytes(s->x, v->floats, v->len * sizeof *v->floats);
        break;
    case CR_NUMBERS:
    case CR_TENSORS: {
        cr_value *list = keep_bytes(s->x, v->list, v->len * sizeof *list);
        kept = v->list = list;
        for (uint32_t i = 0; list && i < v->len; i++)
            CR_TRY(show_value(s, &list[i]));
        break;
    }
    default: break;
    }
    return kept ? CR_OK : CR_MEMORY;
}

static cr_status show_all(showing *s, const cr_op *op, const cr_value *arg)
{
    s->at = s->few;
    s->n->op = op;
    cr_value *to = s->n->arg = cr_arena_get(&s->x->arena, op->param_count * sizeof *arg + 1);
    CR_NEED(to);
    for (int i = 0; i < op->param_count; i++) {
        to[i] = arg[i];
        if (to[i].tag == CR_TENSOR || to[i].tag >= CR_STRING)
            CR_TRY(show_value(s, &to[i]));
    }
    s->n->uses = s->count;
    s->n->use = cr_arena_get(&s->x->arena, (size_t)s->count * sizeof *s->n->use + 1);
    for (int i = 0; s->n->use && i < s->count; i++)
        s->n->use[i] = s->at[i].memory;
    return s->n->use ? CR_OK : CR_MEMORY;
}

/* --- results --- */
static int shown_header(const showing *s, const cr_tensor *t)
{
    for (int i = 0; i < s->count; i++)
        if (s->at[i].shown == t)
            return i;
    return -1;
}

static int shown_storage(const showing *s, const cr_storage *of)
{
    for (int i = 0; i < s->count; i++)
        if (&s->at[i].memory->shown == of)
            return i;
    return -1;
}

/* A result that is a view of an argument. */
static cr_status view_of_argument(cr_tensor **out, cr_tensor *made, cr_storage *real)
{
    CR_TRY(cr_tensor_over(out, real, (cr_dtype)made->dtype, made->ndim, made->size,
                          made->stride, made->offset));
    cr_storage_keep(real);
    if (made->conj || made->neg)
        cr_tensor_set_bits(*out, made->conj, made->neg);
    (*out)->number = made->number;
    return CR_OK;
}

/* Makes a fake result pending. */
static cr_status make_pending(showing *s, cr_tensor *t)
{
    cr_noted *n = s->n;
    cr_storage *real = t->storage;
    cr_memory *m;

    if (n->outs && n->out[n->outs - 1]->real == real) {
        t->device.fake = false;
        t->stages = (t->stages & ~CR_STAGE_BIT(FAKE)) | CR_STAGE_BIT(DEFER);
        n->result[n->results] = cr_header_new(&s->x->arena, t, n->out[n->outs - 1]);
        return CR_OK;
    }
    if (!real->size) {
        cr_fake_becomes_real(t);
        return CR_OK;
    }
    CR_TRY(cr_memory_to_make(&m, s->x, t));
    n->out[n->outs] = m;
    n->like[n->outs] = n->result[n->results] = cr_header_new(&s->x->arena, t, m);
    return n->like[n->outs++] ? CR_OK : CR_MEMORY;
}

static cr_status take_result(showing *s, cr_value *v)
{
    cr_tensor *made = v->t, *real;
    int at = shown_header(s, made);
    if (at >= 0) {
        s->n->result[s->n->results] = made;
        v->t = cr_keep(s->at[at].real);
        return CR_OK;
    }
    at = shown_storage(s, made->storage);
    if (at < 0)
        return made->storage->device.fake || made->device.fake ? make_pending(s, made) : CR_OK;
    CR_TRY(view_of_argument(&real, made, s->at[at].real->storage));
    s->n->result[s->n->results] = cr_header_new(&s->x->arena, real, s->at[at].memory);
    cr_drop(made);
    v->t = real;
    return CR_OK;
}

static cr_status take_each(showing *s, cr_value *v)
{
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        CR_TRY(take_each(s, (cr_value *)(uintptr_t)&v->list[i]));
    if (v->tag == CR_TENSORS)
        return CR_OK;
    cr_status st = v->tag == CR_TENSOR ? take_result(s, v) : CR_OK;
    s->n->results++;
    return st;
}

static int count_results(const cr_value *v, int n)
{
    int count = 0;

    for (int k = 0; k < n; k++)
        count += v[k].tag == CR_TENSORS ? (int)v[k].len : 1;
    return count;
}

static cr_status take_results(showing *s, cr_value *result)
{
    size_t most = (size_t)count_results(result, s->n->op->result_count) + 1;

    s->n->out = cr_arena_get(&s->x->arena, most * sizeof *s->n->out);
    s->n->like = cr_arena_get(&s->x->arena, most * sizeof *s->n->like);
    s->n->result = cr_arena_get(&s->x->arena, most * sizeof *s->n->result);
    CR_NEED(s->n->out && s->n->like && s->n->result);
    for (int k = 0; k < s->n->op->result_count; k++)
        CR_TRY(take_each(s, &result[k]));
    return CR_OK;
}

/* Versions of written arguments move at once. */
static void move_versions(showing *s)
{
    for (int i = 0; i < s->count; i++) {
        cr_memory *m = s->at[i].memory;
        cr_storage *real = s->at[i].real->storage;
        if (!m->shown.version || m->copied)
            continue;
        real->version += m->shown.version;
        m->shown.version = 0;
    }
}

static void mark_written(cr_tensor *t, void *context)
{
    cr_trace *x = context;

    if (!t->storage->size)
        return;
    atomic_store(&t->storage->pending, x->number);
    t->stages |= CR_STAGE_BIT(DEFER);
}

/* --- noting --- */
static cr_status run_shown(showing *s, cr_value *result)
{
    cr_thread_state *thread = &cr_thread;
    uint32_t was = thread->exclude;
    bool fakes = thread->fakes;

    thread->exclude = was | CR_STAGE_BIT(DEFER);
    thread->fakes = true;
    cr_status st = s->n->op->kernel_stage(s->n->op, s->n->arg, result);
    thread->fakes = fakes;
    thread->exclude = was;
    return st;
}

/* Whether the call changed the geometry or the storage of an argument, as transpose_ does. */
static bool moves_header(const showing *s)
{
    for (int i = 0; i < s->count; i++) {
        const cr_tensor *a = s->at[i].real, *b = s->at[i].shown;
        if (b->storage != &s->at[i].memory->shown || a->ndim != b->ndim ||
            a->offset != b->offset || memcmp(a->size, b->size, a->ndim * sizeof *a->size) ||
            memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride))
            return true;
    }
    return false;
}

/* Whether the entry itself has to track a result as a view of an argument for autograd. */
static bool tracks_views(const showing *s, const cr_value *result)
{
    if (cr_thread.exclude & CR_STAGE_BIT(AUTOGRAD))
        return false;
    for (int k = 0; k < s->n->op->result_count; k++) {
        const cr_value *v = &result[k];
        const cr_value *one = v->tag == CR_TENSORS ? v->list : v;
        uint32_t n = v->tag == CR_TENSORS ? v->len : v->tag == CR_TENSOR;
        for (uint32_t i = 0; i < n; i++)
            if (one[i].tag == CR_TENSOR && shown_header(s, one[i].t) < 0 &&
                shown_storage(s, one[i].t->storage) >= 0)
                return true;
    }
    return false;
}

/* `key`: NULL when the call cannot be known.  *noted: false when the entry refused the
 * stand-ins; nothing has changed then. */
static cr_status note(cr_trace *x, const cr_op *op, const cr_value *arg, cr_value *result,
                      const cr_call_key *key, bool *noted)
{
    cr_noted n = {.inference = cr_thread.inference};
    showing s; /* its room is not cleared */

    s.x = x;
    s.n = &n;
    s.st = CR_OK;
    s.count = 0;
    *noted = false;
    CR_TRY(cr_vec_reserve(&x->calls, 1));
    CR_TRY(show_all(&s, op, arg));
    if (run_shown(&s, result))
        return CR_OK;
    if (CR_UNLIKELY(moves_header(&s) || tracks_views(&s, result))) {
        cr_drop_values(result, op->result_count);
        return CR_OK;
    }
    *noted = true;
    if (!x->calls.len)
        cr_trace_started(x);
    cr_status st = take_results(&s, result);
    uint32_t written = op->tensor_params & cr_defer_written_params(op, arg);
    n.writes = written != 0;
    for (uint32_t mask = written; mask; mask &= mask - 1)
        cr_each_tensor_of(&arg[CR_CTZ(mask)], mark_written, x);
    if (key && !st)
        cr_known_add(x, key, &n, s.at, result);
    move_versions(&s);
    cr_vec_put(&x->calls, n);
    return st;
}

/* A call that the entry refused to do on stand-ins. */
static cr_status run_refused(cr_trace *x, bool full, const cr_op *op, const cr_value *arg,
                             cr_value *result)
{
    if (full)
        CR_TRY(cr_trace_flush(x, cr_defer_full));
    cr_trace_forget_refused(x);
    return run_at_once(op, arg, result);
}

static cr_status note_locked(cr_defer_thread *me, const cr_op *op, const cr_value *arg,
                             cr_value *result)
{
    cr_trace *x = me->trace;
    cr_call_key key; /* its room is not cleared */
    bool keyed = cr_call_key_make(&key, op, arg), noted = true, full;

    pthread_mutex_lock(&x->lock);
    cr_known *k = keyed ? cr_known_find(x, &key) : NULL;
    if (k && k->refused) {
        k = NULL;
        keyed = false;
    }
    cr_status st = k ? cr_known_note(x, k, &key, result)
                     : note(x, op, arg, result, keyed ? &key : NULL, &noted);
    x->gone += !noted;
    full = x->calls.len + x->gone >= MOST_CALLS || x->bytes > MOST_BYTES;
    pthread_mutex_unlock(&x->lock);
    if (CR_UNLIKELY(!noted))
        return st ? st : run_refused(x, full, op, arg, result);
    CR_TRY(st);
    me->counts.noted++;
    me->counts.known += k != NULL;
    return full ? cr_trace_flush(x, cr_defer_full) : CR_OK;
}

/* --- the stage --- */
typedef struct {
    const cr_trace *own;
    const cr_op *op;
    looked sum;
    bool written;
} looking;

/* Runs the calls of other traces that the call needs; the program asked for no value. */
static cr_status settle_for_call(const cr_op *op, cr_tensor *t)
{
    cr_defer_entry = op;
    cr_status st = cr_defer_settle(t);
    cr_defer_entry = NULL;
    return st;
}

static void look_at(cr_tensor *t, void *context)
{
    looking *l = context;

    l->sum.stages |= t->stages;
    l->sum.layout |= t->layout != 0;
    l->sum.inexact |= cr_dtype_is_inexact((cr_dtype)t->dtype);
    l->sum.many |= t->numel > 1;
    l->sum.large |= t->numel > MOST_INTEGERS;
    l->sum.count++;
    if (t->layout || t->storage->device.fake || l->sum.st)
        return;
    bool outside = cr_storage_is_outside(t->storage);
    l->sum.written_outside |= outside && l->written;
    l->sum.large_outside |= outside && t->storage->size > MOST_COPIED;
    unsigned pending = atomic_load(&cr_storage_root(t->storage)->pending);
    l->sum.waits |= pending != 0;
    l->sum.written |= l->written;
    if (pending && (pending != l->own->number || outside))
        l->sum.st = settle_for_call(l->op, t);
    if (l->sum.st || !l->written)
        return;
    int32_t mine = cr_trace_find(l->own, t->storage) != NULL;
    if (cr_defer_references(t->storage) > mine)
        l->sum.st = cr_traces_flush_users(l->own, t->storage);
}

/* Indices, lengths, masks and single numbers that have their bytes: a later call may have to
 * read the result when it is made, and a condition on it should not end the trace. */
static bool is_steering(const looked *l)
{
    return !(l->inexact && l->many) && !l->large && !l->waits && !l->written;
}

/* Whether the call can be noted; runs calls of other traces that use its tensors. */
static cr_status can_note(bool *out, const cr_trace *x, const cr_op *op, const cr_value *arg)
{
    looking l = {.own = x, .op = op};
    uint32_t written = cr_defer_written_params(op, arg);

    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        l.written = written >> CR_CTZ(mask) & 1;
        if (CR_LIKELY(v->tag == CR_TENSOR))
            look_at(v->t, &l);
        else
            cr_each_tensor_of(v, look_at, &l);
    }
    uint32_t others = CR_STAGE_BIT(KERNEL) | CR_STAGE_BIT(FAKE) | CR_STAGE_BIT(PYTHON);
    *out = l.sum.count && !l.sum.layout && !(l.sum.stages & others) && !l.sum.written_outside &&
           !l.sum.large_outside && !is_steering(&l.sum);
    return l.sum.st;
}

/* An integer division raises where a divisor is 0. */
static bool divides_integers(const cr_op *op, const cr_value *arg)
{
    const cr_op *of = op->does == CR_DOES_INPLACE ? op->inplace_of : op;

    if (!(of->words & CR_WORD_DIVIDES))
        return false;
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_TENSOR && cr_dtype_is_inexact((cr_dtype)v->t->dtype))
            return false;
    }
    return true;
}

static void settle_index(cr_tensor *t, void *context)
{
    cr_status *st = context;

    if (!*st)
        *st = cr_defer_settle_alone(t);
}

/* Whether the call does not raise by elements; settles its index tensors.  A derivative's
 * indices are those of the call itself: results, or arguments that were checked. */
static cr_status find_within(bool *yes, const cr_op *op, const cr_value *arg)
{
    const cr_op *of = op->does == CR_DOES_INPLACE ? op->inplace_of : op;
    uint32_t params = cr_thread.derives ? 0 : cr_defer_bounded(of);
    cr_status st = CR_OK;

    cr_defer_entry = op;
    for (uint32_t mask = params; mask; mask &= mask - 1)
        cr_each_tensor_of(&arg[CR_CTZ(mask)], settle_index, &st);
    cr_defer_entry = NULL;
    *yes = !st && cr_defer_within(of, arg);
    return st;
}

/* A `whole` entry without a derivative: the calls that it makes are recorded one by one. */
static bool makes_recorded_calls(const cr_op *op)
{
    return op->does == CR_DOES_WHOLE && !op->differentiable && !marks_written(op) &&
           !(cr_thread.exclude & CR_STAGE_BIT(AUTOGRAD)) && !cr_thread.no_grad;
}

/* A view of self may be told where by the elements of other tensors. */
static cr_status settle_others(const cr_op *op, const cr_value *arg)
{
    cr_status st = CR_OK;

    for (uint32_t mask = op->tensor_params & ~1u; mask; mask &= mask - 1)
        cr_each_tensor_of(&arg[CR_CTZ(mask)], settle_argument, &st);
    return st;
}

cr_status cr_defer_by_parts(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_status st;

    if (op->defer.by_calls || (op->does != CR_DOES_WHOLE && defer_handling(op) == PASSES))
        return op->kernel_stage(op, arg, result);
    cr_defer_entry = op;
    st = cr_defer_settle_all(op, arg);
    cr_defer_entry = NULL;
    cr_defer_pause(1);
    st = st ? st : op->kernel_stage(op, arg, result);
    cr_defer_pause(-1);
    return st;
}

/* Calls of a program's operator wait as others do; an entry makes none. */
static cr_status run_opaque(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_defer_me()->at_once++;
    cr_defer_entry = op;
    cr_status st = cr_defer_flush(op->name);
    cr_defer_entry = NULL;
    CR_TRY(st);
    CR_TRY(cr_defer_settle_all(op, arg));
    cr_defer_pause(!op->custom);
    st = cr_call_past(CR_STAGE_DEFER, op, arg, result);
    cr_defer_pause(-!op->custom);
    return st;
}

/* --- compositions --- */
/* After MOST_VAIN calls in vain the entry is not looked up until the count is full; then one
 * further call in vain suffices. */
static bool is_in_vain(const cr_op *op)
{
    uint8_t vain = atomic_load_explicit(&handled[op->index].vain, memory_order_relaxed);

    if (vain < MOST_VAIN)
        return false;
    atomic_store_explicit(&handled[op->index].vain,
                          vain == UINT8_MAX ? MOST_VAIN - 1 : (uint8_t)(vain + 1),
                          memory_order_relaxed);
    return true;
}

/* Whether the calls of the composition come straight to this stage. */
static bool calls_come_here(const cr_op *op, const cr_value *arg)
{
    uint32_t passes = CR_STAGE_BIT(DEFER);

    if (cr_thread.no_grad)
        passes |= CR_STAGE_BIT(AUTOGRAD);
    return (op->does == CR_DOES_IS || op->defer.by_calls) &&
           !(cr_call_stages(op, arg) & ~passes) && !cr_defer_written_params(op, arg) &&
           !is_in_vain(op);
}

/* What a thread had done before a composition was evaluated. */
typedef struct {
    size_t calls;
    uint64_t flushes, at_once;
} progress;

/* Evaluates a composition, and keeps its calls if it made only those that it noted. */
static cr_status evaluate(cr_defer_thread *me, const progress *p, const cr_op *op,
                          const cr_value *arg, const cr_call_key *key, cr_value *result)
{
    cr_trace *x = me->trace;

    CR_TRY(cr_call_past(CR_STAGE_DEFER, op, arg, result));
    pthread_mutex_lock(&x->lock);
    bool whole = me->at_once == p->at_once && x->flushes == p->flushes;
    cr_known_add_parts(x, key, whole ? p->calls : x->calls.len, result);
    pthread_mutex_unlock(&x->lock);
    return CR_OK;
}

static void count_vain(const cr_op *op, bool refused, bool known)
{
    uint8_t vain = atomic_load_explicit(&handled[op->index].vain, memory_order_relaxed);

    if (refused || (known && vain))
        atomic_store_explicit(&handled[op->index].vain, known ? 0 : (uint8_t)(vain + 1),
                              memory_order_relaxed);
}

static cr_status compose(cr_defer_thread *me, const cr_op *op, const cr_value *arg,
                         cr_value *result)
{
    cr_trace *x = me->trace;
    cr_call_key key; /* its room is not cleared */
    cr_status st = CR_OK;
    bool yes, full;

    CR_TRY(can_note(&yes, x, op, arg));
    if (!yes || !cr_call_key_make(&key, op, arg))
        return cr_call_past(CR_STAGE_DEFER, op, arg, result);
    cr_call_key_of_composition(&key);
    pthread_mutex_lock(&x->lock);
    const cr_known *k = cr_known_find(x, &key);
    progress p = {x->calls.len, x->flushes, me->at_once};
    if (k && k->parts)
        st = cr_known_note_parts(x, k, &key, result);
    size_t noted = x->calls.len - p.calls;
    bool refused = k && k->refused, known = k && k->parts;
    count_vain(op, refused, known);
    full = x->calls.len + x->gone >= MOST_CALLS || x->bytes > MOST_BYTES;
    pthread_mutex_unlock(&x->lock);
    if (!known)
        return refused ? cr_call_past(CR_STAGE_DEFER, op, arg, result)
                       : evaluate(me, &p, op, arg, &key, result);
    me->counts.noted += (int64_t)noted;
    me->counts.known += (int64_t)noted;
    CR_TRY(st);
    return full ? cr_trace_flush(x, cr_defer_full) : CR_OK;
}

cr_status cr_defer_stage(const cr_op *op, const cr_value *arg, cr_value *result)
{
    cr_defer_thread *me = cr_defer_me();
    handling how = defer_handling(op);
    bool yes = false;

    CR_NEED(me);
    if (how == PASSES) {
        if (op->does == CR_DOES_WHOLE && !op->defer.by_calls)
            CR_TRY(settle_others(op, arg));
        if (cr_defer_active() && calls_come_here(op, arg))
            return compose(me, op, arg, result);
        return cr_call_past(CR_STAGE_DEFER, op, arg, result);
    }
    if (how == OPAQUE)
        return run_opaque(op, arg, result);
    if (!cr_defer_active()) {
        cr_defer_update(me);
        return run_at_once(op, arg, result);
    }
    if (how >= NOTED && !divides_integers(op, arg) && !makes_recorded_calls(op))
        CR_TRY(can_note(&yes, me->trace, op, arg));
    if (yes && how == NOTED_IF_WITHIN)
        CR_TRY(find_within(&yes, op, arg));
    if (yes)
        return note_locked(me, op, arg, result);
    me->counts.now++;
    return run_at_once(op, arg, result);
}
