/* Known calls: the geometry of a noted call's results is found by the call's key.
 *
 * Programs repeat their calls.  The geometry of the results depends on the key alone: the
 * entry, the geometry of its tensors, its numbers, and the modes of the thread.  The thread's
 * trace keeps the second call with a key.  Later calls run no rules.  Each adds one short
 * record: the kept call, and the storages that the call uses and makes.  cr_noted_spell_out
 * makes arguments and headers of a record for a replay or a graph. */
#include "base/map.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/known.h"
#include <string.h>

enum { MOST_KNOWN = 2048, LEAST_TABLE = 64 };

static _Atomic uint64_t known_ids;

/* --- keys --- */
static inline bool key_put(cr_call_key *k, uint64_t v)
{
    if (CR_UNLIKELY(k->words == CR_MOST_KEY))
        return false;
    k->word[k->words++] = v;
    return true;
}

static bool key_put_bytes(cr_call_key *k, const void *p, size_t n)
{
    size_t words = (n + 7) / 8;

    if (words > CR_MOST_KEY - k->words)
        return false;
    if (words)
        k->word[k->words + words - 1] = 0;
    if (n)
        memcpy(&k->word[k->words], p, n);
    k->words += words;
    return true;
}

/* The value of a number in a tensor's place is part of the key. */
static bool key_put_literal(cr_call_key *k, const cr_tensor *t)
{
    return t->address && t->numel == 1 &&
           key_put_bytes(k, t->address, cr_dtype_size((cr_dtype)t->dtype));
}

/* Index of the first tensor over s: rules depend on which arguments share a storage. */
static inline int first_with(const cr_call_key *k, const cr_storage *s)
{
    int i = 0;

    while (i < k->uses && k->use[i]->storage != s)
        i++;
    return i;
}

/* dtype, number of dims, device and row-major flag, which are adjacent members. */
static inline uint64_t kind_of(const cr_tensor *t)
{
    uint64_t kind = 0;

    _Static_assert(offsetof(cr_tensor, contiguous) - offsetof(cr_tensor, dtype) < sizeof kind,
                   "the kind of a tensor is one word");
    memcpy(&kind, &t->dtype, offsetof(cr_tensor, contiguous) - offsetof(cr_tensor, dtype) + 1);
    return kind;
}

static inline bool key_put_tensor(cr_call_key *k, cr_tensor *t)
{
    int n = t->ndim;

    if (CR_UNLIKELY(k->uses == CR_MOST_USES || t->layout ||
                    k->words + 4 + 2 * (size_t)n > CR_MOST_KEY))
        return false;
    uint64_t *w = &k->word[k->words];
    w[0] = kind_of(t) | (uint64_t)CR_TENSOR << 56;
    w[1] = (uint64_t)first_with(k, t->storage) | (uint64_t)t->number << 8 |
           (uint64_t)t->inference << 9 | (uint64_t)t->conj << 10 | (uint64_t)t->neg << 11;
    w[2] = (uint64_t)t->offset;
    w[3] = t->storage->size;
    w += 4;
    for (int d = 0; d < n; d++) {
        w[d] = (uint64_t)t->size[d];
        w[n + d] = (uint64_t)t->stride[d];
    }
    k->words += 4 + 2 * (size_t)n;
    k->use[k->uses++] = t;
    return !t->number || key_put_literal(k, t);
}

static bool key_put_scalar(cr_call_key *k, cr_scalar n)
{
    bool large = n.category == CR_CAT_INT && n.large; /* of other categories it is undefined */

    if (!key_put(k, CR_NUMBER | (uint64_t)n.category << 8 | (uint64_t)large << 16))
        return false;
    return n.category == CR_CAT_COMPLEX ? key_put_bytes(k, &n.c, sizeof n.c)
                                        : key_put(k, (uint64_t)n.i);
}

static bool key_put_value(cr_call_key *k, const cr_value *v)
{
    if (CR_LIKELY(v->tag == CR_TENSOR))
        return key_put_tensor(k, v->t);
    if (v->tag == CR_NUMBER)
        return key_put_scalar(k, v->number);
    if (!key_put(k, v->tag | (uint64_t)(v->tag >= CR_STRING ? v->len : 0) << 8))
        return false;
    switch (v->tag) {
    case CR_NONE: return true;
    case CR_STRING: return key_put_bytes(k, v->s, v->len);
    case CR_INTS:
    case CR_TRUTHS:
    case CR_FLOATS: return key_put_bytes(k, v->ints, v->len * sizeof *v->ints);
    case CR_NUMBERS:
    case CR_TENSORS:
        for (uint32_t i = 0; i < v->len; i++)
            if (!key_put_value(k, &v->list[i]))
                return false;
        return true;
    case CR_VIEW:
    case CR_GENERATOR: return false;
    default: return key_put(k, (uint64_t)v->i);
    }
}

/* Modes of the thread that rules may ask for. */
static void key_put_modes(cr_call_key *k)
{
    const cr_thread_state *t = &cr_thread;
    uint32_t device;

    memcpy(&device, &t->device, sizeof device);
    k->word[k->words++] = t->include | (uint64_t)t->exclude << 32;
    k->word[k->words++] = (uint64_t)t->no_grad | (uint64_t)t->inference << 1 |
                          (uint64_t)t->fakes << 2 | (uint64_t)t->derives << 3 |
                          (uint64_t)cr_default_dtype() << 8 | (uint64_t)device << 32;
}

bool cr_call_key_make(cr_call_key *out, const cr_op *op, const cr_value *arg)
{
    out->op = op;
    out->uses = 0;
    out->words = 0;
    key_put_modes(out);
    out->word[out->words++] = op->index;
    for (int i = 0; i < op->param_count; i++)
        if (!key_put_value(out, &arg[i]))
            return false;
    return true;
}

/* --- the known calls of a trace --- */
static bool has_key(const cr_known *k, const cr_call_key *key)
{
    return k->op == key->op && k->words == key->words &&
           !memcmp(k->word, key->word, k->words * sizeof *k->word);
}

static size_t known_slot(const struct cr_known_calls *c, uint64_t hash, const cr_call_key *key)
{
    for (size_t at = hash;; at++) {
        uint32_t index = c->table[at & (c->table_size - 1)];
        const cr_known *k = index ? c->list.at[index - 1] : NULL;
        if (!k || (key && k->hash == hash && has_key(k, key)))
            return at & (c->table_size - 1);
    }
}

cr_known *cr_known_at(const cr_trace *x, const cr_call_key *key)
{
    const struct cr_known_calls *c = x->known;

    if (!c || !c->list.len)
        return NULL;
    uint32_t index = c->table[known_slot(c, cr_hash_words(key->word, key->words), key)];
    return index ? c->list.at[index - 1] : NULL;
}

cr_known *cr_known_find(cr_trace *x, cr_call_key *key)
{
    struct cr_known_calls *c = x->known;
    cr_known *k = c && c->last ? c->last->next : NULL;

    if (CR_UNLIKELY(!c))
        return NULL;
    if (CR_UNLIKELY(!k || !has_key(k, key))) {
        k = cr_known_at(x, key);
        if (c->last)
            c->last->next = k;
    }
    c->last = k;
    return k;
}

static cr_status known_table_grow(struct cr_known_calls *c)
{
    size_t size = c->table_size ? 2 * c->table_size : LEAST_TABLE;

    if (c->list.len * 2 < c->table_size)
        return CR_OK;
    uint32_t *table = cr_alloc_zero(size * sizeof *table);
    CR_NEED(table);
    cr_free(c->table);
    c->table = table;
    c->table_size = size;
    for (size_t i = 0; i < c->list.len; i++)
        table[known_slot(c, c->list.at[i]->hash, NULL)] = (uint32_t)i + 1;
    return CR_OK;
}

void cr_known_trim(cr_trace *x)
{
    struct cr_known_calls *c = x->known;

    if (!c || c->list.len < MOST_KNOWN)
        return;
    for (size_t i = 0; i < c->list.len; i++)
        cr_known_parts_drop(c->list.at[i]->parts);
    cr_arena_drop(&c->arena);
    cr_vec_drop(&c->list);
    cr_free(c->table);
    cr_free(c);
    x->known = NULL;
}

size_t cr_known_bytes(const cr_trace *x)
{
    const struct cr_known_calls *c = x->known;

    return c ? sizeof *c + cr_arena_used(&c->arena) + c->list.cap * sizeof *c->list.at +
                   c->table_size * sizeof *c->table
             : 0;
}

/* --- noting --- */
static cr_status known_result(cr_trace *x, cr_noted *n, const struct cr_known_result *r,
                              const cr_call_key *key, cr_value *result)
{
    cr_tensor *t = NULL;

    *result = cr_of_none();
    if (r->way == CR_KNOWN_ARGUMENT)
        t = cr_keep(key->use[r->use]);
    else if (r->way != CR_KNOWN_NONE)
        CR_TRY(cr_tensor_without_bytes(&t, r->like, r->bytes));
    if (r->way == CR_KNOWN_EMPTY)
        cr_fake_becomes_real(t);
    *result = cr_of_tensor(t);
    return r->way == CR_KNOWN_MADE ? cr_memory_to_make(&n->out[n->outs++], x, t) : CR_OK;
}

static void known_writes(cr_trace *x, const cr_known *k, const cr_call_key *key)
{
    for (uint64_t mask = k->written; mask; mask &= mask - 1) {
        cr_tensor *t = key->use[__builtin_ctzll(mask)];
        if (!t->storage->size)
            continue;
        atomic_store(&t->storage->pending, x->number);
        t->stages |= CR_STAGE_BIT(DEFER);
    }
    for (int i = 0; k->version && i < k->uses; i++)
        key->use[i]->storage->version += k->version[i];
}

cr_status cr_known_note(cr_trace *x, cr_known *k, const cr_call_key *key, cr_value *result)
{
    cr_status st = CR_OK;
    int r = 0;

    CR_TRY(cr_vec_reserve(&x->calls, 1));
    cr_noted *n = &x->calls.at[x->calls.len];
    *n = (cr_noted){.op = k->op,
                    .known = k,
                    .uses = k->uses,
                    .results = k->op->result_count,
                    .inference = cr_thread.inference,
                    .writes = k->writes};
    n->use = cr_arena_get(&x->arena, (size_t)(k->uses + k->outs + 1) * sizeof *n->use);
    CR_NEED(n->use);
    n->out = n->use + k->uses;
    for (int i = 0; i < k->uses; i++)
        CR_TRY(cr_memory_to_use(&n->use[i], x, key->use[i]->storage));
    for (; r < n->results && !st; r++)
        st = known_result(x, n, &k->result[r], key, &result[r]);
    if (CR_UNLIKELY(st)) {
        cr_drop_values(result, r);
        return st;
    }
    if (k->writes)
        known_writes(x, k, key);
    if (!x->calls.len++)
        cr_trace_started(x);
    return CR_OK;
}

/* --- a call becomes known --- */
static cr_value *copied_values(cr_arena *a, const cr_value *v, size_t n);

static bool copy_value(cr_arena *a, cr_value *v)
{
    const void *from = v->s;
    size_t bytes = v->len * sizeof(int64_t);

    switch (v->tag) {
    case CR_TENSOR: return (v->t = cr_header_new(a, v->t, NULL)) != NULL;
    case CR_NUMBERS:
    case CR_TENSORS: return (v->list = copied_values(a, v->list, v->len)) != NULL;
    case CR_STRING: bytes = v->len; break;
    case CR_INTS:
    case CR_TRUTHS:
    case CR_FLOATS: break;
    default: return true;
    }
    char *to = cr_arena_get(a, bytes + 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    v->s = to;
    return to != NULL;
}

static cr_value *copied_values(cr_arena *a, const cr_value *v, size_t n)
{
    cr_value *to = cr_arena_get(a, n * sizeof *to + 1);

    for (size_t i = 0; to && i < n; i++) {
        to[i] = v[i];
        if (!copy_value(a, &to[i]))
            return NULL;
    }
    return to;
}

bool cr_is_like(const cr_tensor *made, const cr_tensor *t)
{
    const cr_storage *a = made->storage, *b = t->storage;
    uint32_t fake = CR_STAGE_BIT(FAKE), defer = CR_STAGE_BIT(DEFER);

    return (made->stages & ~fake) == (t->stages & ~defer) && made->ndim == t->ndim &&
           made->numel == t->numel && made->contiguous == t->contiguous &&
           made->inference == t->inference && !t->number && !t->conj && !t->neg && !t->layout &&
           !memcmp(made->size, t->size, t->ndim * sizeof *t->size) &&
           !memcmp(made->stride, t->stride, t->ndim * sizeof *t->stride) &&
           a->size == b->size && a->version == b->version && !b->release;
}

/* A result without elements, and no other tensor has its storage. */
static bool is_empty(const cr_tensor *t)
{
    return t->storage && !t->storage->size && atomic_load(&t->storage->count) == 1;
}

static cr_status result_becomes_known(struct cr_known_result *r, cr_arena *a, const cr_noted *n,
                                      int k, const cr_shown *at, const cr_value *result)
{
    const cr_tensor *h = n->result[k];

    if (result->tag == CR_NONE && !h)
        return CR_OK;
    if (result->tag != CR_TENSOR || (!h && !is_empty(result->t)))
        return CR_VALUE;
    for (int i = 0; h && i < n->uses; i++)
        if (at[i].shown == h) {
            *r = (struct cr_known_result){.way = CR_KNOWN_ARGUMENT, .use = i};
            return CR_OK;
        }
    r->way = h ? CR_KNOWN_MADE : CR_KNOWN_EMPTY;
    r->bytes = result->t->storage->size;
    r->like = cr_header_new(a, result->t, NULL);
    CR_NEED(r->like);
    cr_tensor *made;
    CR_TRY(cr_tensor_without_bytes(&made, r->like, r->bytes));
    bool same = cr_is_like(made, result->t) && !result->t->offset;
    cr_drop(made);
    return same ? CR_OK : CR_VALUE;
}

static cr_status results_become_known(cr_known *k, cr_arena *a, const cr_noted *n,
                                      const cr_shown *at, const cr_value *result)
{
    int made = 0;

    k->result = cr_arena_get(a, (size_t)n->results * sizeof *k->result + 1);
    CR_NEED(k->result);
    for (int i = 0; i < n->results; i++) {
        CR_TRY(result_becomes_known(&k->result[i], a, n, i, at, &result[i]));
        made += k->result[i].way == CR_KNOWN_MADE;
    }
    k->outs = n->outs;
    return made == n->outs ? CR_OK : CR_VALUE;
}

static void mark_written_uses(cr_known *k, const cr_value *v, bool written, int *use)
{
    if (v->tag == CR_TENSOR) {
        k->written |= (uint64_t)written << *use;
        ++*use;
    }
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        mark_written_uses(k, &v->list[i], written, use);
}

/* Of the uses that share a storage, the first one counts the change of its version. */
static cr_status versions_become_known(cr_known *k, cr_arena *a, const cr_shown *at)
{
    uint32_t written = cr_defer_written_params(k->op, k->arg);
    int use = 0;

    for (int i = 0; i < k->op->param_count; i++)
        mark_written_uses(k, &k->arg[i], written >> i & 1, &use);
    if (!k->writes)
        return CR_OK;
    k->version = cr_arena_get(a, (size_t)k->uses * sizeof *k->version + 1);
    for (int i = 0; k->version && i < k->uses; i++) {
        int first = 0;
        while (at[first].memory != at[i].memory)
            first++;
        k->version[i] = first == i ? at[i].memory->shown.version : 0;
    }
    return k->version ? CR_OK : CR_MEMORY;
}

static cr_known *known_new(cr_arena *a, const cr_call_key *key)
{
    cr_known *k = cr_arena_get(a, sizeof *k);

    if (!k || !(k->word = cr_arena_get(a, key->words * sizeof *k->word)))
        return NULL;
    memcpy(k->word, key->word, key->words * sizeof *k->word);
    k->words = key->words;
    k->hash = cr_hash_words(key->word, key->words);
    k->id = atomic_fetch_add(&known_ids, 1) + 1;
    k->op = key->op;
    return k;
}

static cr_status known_fill(cr_known *k, cr_arena *a, const cr_noted *n, const cr_shown *at,
                            const cr_value *result)
{
    k->uses = n->uses;
    k->writes = n->writes;
    k->arg = copied_values(a, n->arg, n->op->param_count);
    if (!k->arg || n->results != n->op->result_count)
        return k->arg ? CR_VALUE : CR_MEMORY;
    CR_TRY(versions_become_known(k, a, at));
    return results_become_known(k, a, n, at, result);
}

/* Whether the key was seen before.  Remembers it. */
static bool was_seen(struct cr_known_calls *c, uint64_t hash)
{
    uint32_t *at = &c->seen[hash % CR_LEN(c->seen)], part = (uint32_t)(hash >> 32) | 1;
    bool yes = *at == part;

    *at = part;
    return yes;
}

cr_known *cr_known_put(cr_trace *x, const cr_call_key *key)
{
    struct cr_known_calls *c = x->known;
    uint64_t hash = cr_hash_words(key->word, key->words);
    cr_known *k;

    if (!c)
        c = x->known = cr_alloc_zero(sizeof *c);
    if (!c || !was_seen(c, hash) || c->list.len >= MOST_KNOWN)
        return NULL;
    if (cr_vec_reserve(&c->list, 1) || known_table_grow(c) || !(k = known_new(&c->arena, key)))
        return NULL;
    size_t slot = known_slot(c, hash, NULL);
    cr_vec_put(&c->list, k);
    c->table[slot] = (uint32_t)c->list.len;
    return k;
}

void cr_known_add(cr_trace *x, const cr_call_key *key, const cr_noted *n, const cr_shown *at,
                  const cr_value *result)
{
    cr_known *k = n->uses == key->uses ? cr_known_put(x, key) : NULL;

    if (k)
        k->refused = known_fill(k, &x->known->arena, n, at, result) != CR_OK;
}

/* --- spelling out --- */
typedef struct {
    cr_trace *x;
    cr_noted *n;
    int use;
} spelling;

static cr_status spell_value(spelling *s, cr_value *v)
{
    if (v->tag == CR_TENSOR) {
        v->t = cr_header_new(&s->x->arena, v->t, s->n->use[s->use++]);
        return v->t ? CR_OK : CR_MEMORY;
    }
    if (v->tag != CR_TENSORS)
        return CR_OK;
    cr_value *list = cr_arena_get(&s->x->arena, v->len * sizeof *list + 1);
    CR_NEED(list);
    for (uint32_t i = 0; i < v->len; i++) {
        list[i] = v->list[i];
        CR_TRY(spell_value(s, &list[i]));
    }
    v->list = list;
    return CR_OK;
}

static cr_tensor *spelled_use(const cr_value *v, int n, int *use)
{
    for (int i = 0; i < n; i++) {
        if (v[i].tag == CR_TENSOR && !(*use)--)
            return v[i].t;
        cr_tensor *t =
            v[i].tag == CR_TENSORS ? spelled_use(v[i].list, (int)v[i].len, use) : NULL;
        if (t)
            return t;
    }
    return NULL;
}

static cr_status spell_results(cr_trace *x, cr_noted *n, const cr_value *arg)
{
    int made = 0;

    for (int i = 0; i < n->results; i++) {
        const struct cr_known_result *r = &n->known->result[i];
        int use = r->use;
        if (r->way == CR_KNOWN_ARGUMENT)
            n->result[i] = spelled_use(arg, n->op->param_count, &use);
        if (r->way != CR_KNOWN_MADE)
            continue;
        n->result[i] = n->like[made] = cr_header_new(&x->arena, r->like, n->out[made]);
        if (!n->like[made++])
            return CR_MEMORY;
    }
    return CR_OK;
}

cr_status cr_noted_spell_out(cr_trace *x, cr_noted *n)
{
    spelling s = {.x = x, .n = n};
    size_t params = n->op->param_count, results = (size_t)n->results + 1;

    if (n->arg)
        return CR_OK;
    cr_value *arg = cr_arena_get(&x->arena, params * sizeof *arg + 1);

    n->like = cr_arena_get(&x->arena, 2 * results * sizeof *n->like);
    CR_NEED(arg && n->like);
    n->result = n->like + results;
    for (size_t i = 0; i < params; i++) {
        arg[i] = n->known->arg[i];
        CR_TRY(spell_value(&s, &arg[i]));
    }
    CR_TRY(spell_results(x, n, arg));
    n->arg = arg;
    return CR_OK;
}

cr_status cr_trace_spell_out(cr_trace *x)
{
    for (size_t i = 0; i < x->calls.len; i++)
        CR_TRY(cr_noted_spell_out(x, &x->calls.at[i]));
    return CR_OK;
}
