/* Functions of all stores, and the kinds hash and prefix. */
#include "base/clock.h"
#include "comm/store_impl.h"
#include "comm/wait.h"
#include <pthread.h>
#include <string.h>

void cr_store_reply_drop(cr_store_reply *r)
{
    cr_vec_drop(&r->value);
    cr_text_drop(&r->raw);
    r->number = 0;
}

void cr_store_init(cr_store *s, const cr_store_kind *kind, int64_t timeout_ms)
{
    s->count = 1;
    s->kind = kind;
    s->timeout_ms = timeout_ms;
}

void cr_store_drop(cr_store *s)
{
    if (s && --s->count == 0)
        s->kind->free(s);
}

bool cr_store_serves(const cr_store *s) { return s->kind->serves && s->kind->serves(s); }

int64_t cr_store_timeout(const cr_store *s, const cr_store_request *r)
{
    return r->timeout_ms >= 0 ? r->timeout_ms : s->timeout_ms;
}

cr_status cr_store_timed_out(const cr_store_request *r, int64_t timeout_ms, const char *root)
{
    cr_text keys = {0};

    for (int i = 0; i < r->keys && i < 16; i++) {
        cr_text_printf(&keys, "%s%s", i ? ", " : "", root);
        cr_text_put_n(&keys, r->key[i].at, r->key[i].len);
    }
    cr_fail(CR_STORE, "wait timeout after %lldms, keys: %s", (long long)timeout_ms,
            cr_text_str(&keys));
    cr_text_drop(&keys);
    return CR_STORE;
}

cr_status cr_store_not_waited(const cr_store_request *r, int64_t timeout_ms, bool interrupted)
{
    return interrupted ? cr_fail(CR_STORE, "the wait was interrupted")
                       : cr_store_timed_out(r, timeout_ms, "");
}

cr_status cr_store_call(cr_store *s, const cr_store_request *r, cr_store_reply *out)
{
    return s->kind->call(s, r, out);
}

/* --- requests with one key --- */
static cr_status store_one(cr_store *s, cr_store_verb verb, const char *key, cr_store_request r,
                           cr_store_reply *out)
{
    cr_bytes k = cr_bytes_of(key);

    r.verb = verb;
    r.keys = 1;
    r.key = &k;
    return cr_store_call(s, &r, out);
}

cr_status cr_store_set(cr_store *s, const char *key, cr_bytes value)
{
    cr_store_reply reply = {0};
    cr_status st =
        store_one(s, CR_STORE_SET, key,
                  (cr_store_request){.values = 1, .value = &value, .timeout_ms = -1}, &reply);

    cr_store_reply_drop(&reply);
    return st;
}

static cr_status store_get(cr_store *s, const char *key, cr_store_request r, cr_text *out)
{
    cr_store_reply reply = {0};
    cr_status st = store_one(s, CR_STORE_GET, key, r, &reply);

    if (!st) {
        cr_text_put_n(out, reply.value.at[0].at, reply.value.at[0].len);
        st = cr_text_status(out);
    }
    cr_store_reply_drop(&reply);
    return st;
}

cr_status cr_store_get(cr_store *s, const char *key, int64_t timeout_ms, cr_text *out)
{
    return store_get(s, key, (cr_store_request){.timeout_ms = timeout_ms}, out);
}

cr_status cr_store_get_slice(cr_store *s, const char *key, int64_t slice_ms, double end,
                             cr_text *out)
{
    double left = 1e3 * (end - cr_seconds());
    int64_t late = left > 1000 ? (int64_t)left : 1000;

    return store_get(s, key, (cr_store_request){.timeout_ms = slice_ms, .late_ms = late}, out);
}

cr_status cr_store_add(cr_store *s, const char *key, int64_t addend, int64_t *sum)
{
    cr_store_reply reply = {0};
    cr_status st = store_one(s, CR_STORE_ADD, key,
                             (cr_store_request){.number = addend, .timeout_ms = -1}, &reply);

    *sum = reply.number;
    cr_store_reply_drop(&reply);
    return st;
}

cr_status cr_store_wait(cr_store *s, const char *key, int64_t timeout_ms)
{
    cr_store_reply reply = {0};
    cr_status st =
        store_one(s, CR_STORE_WAIT, key, (cr_store_request){.timeout_ms = timeout_ms}, &reply);

    cr_store_reply_drop(&reply);
    return st;
}

cr_status cr_store_check(cr_store *s, const char *key, bool *exists)
{
    cr_store_reply reply = {0};
    cr_status st =
        store_one(s, CR_STORE_CHECK, key, (cr_store_request){.timeout_ms = -1}, &reply);

    *exists = reply.number != 0;
    cr_store_reply_drop(&reply);
    return st;
}

/* --- hash: a table of this process --- */
typedef struct {
    cr_store head;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    cr_table *table;
} hash_store;

/* Asks the table until it answers.  Called with the lock. */
static cr_status hash_answer(hash_store *h, const cr_store_request *r, cr_text *reply)
{
    int64_t limit = cr_store_timeout(&h->head, r);
    double end = cr_seconds() + 1e-3 * (double)limit;
    cr_wake wake = CR_WAKE;
    bool blocked;

    for (;;) {
        CR_TRY(cr_table_answer(h->table, r, reply, &blocked));
        if (!blocked)
            return CR_OK;
        if (wake != CR_WAKE)
            return cr_store_not_waited(r, limit, wake == CR_WAKE_INTERRUPTED);
        wake = cr_wait_change(&h->changed, &h->lock, end);
    }
}

static cr_status hash_call(cr_store *s, const cr_store_request *r, cr_store_reply *out)
{
    hash_store *h = (hash_store *)s;

    pthread_mutex_lock(&h->lock);
    cr_status st = hash_answer(h, r, &out->raw);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return st ? st : cr_wire_read_reply(out);
}

static void hash_free(cr_store *s)
{
    hash_store *h = (hash_store *)s;

    cr_table_free(h->table);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    cr_free(h);
}

cr_status cr_store_hash(cr_store **out)
{
    static const cr_store_kind kind = {hash_call, hash_free, NULL};
    hash_store *h = cr_alloc_zero(sizeof *h);

    CR_NEED(h);
    cr_status st = cr_table_new(&h->table);
    if (st) {
        cr_free(h);
        return st;
    }
    cr_store_init(&h->head, &kind, CR_STORE_TIMEOUT_MS);
    pthread_mutex_init(&h->lock, NULL);
    cr_wait_start(&h->changed);
    *out = &h->head;
    return CR_OK;
}

/* --- prefix: another store, whose keys have a prefix --- */
typedef struct {
    cr_store head;
    cr_store *under;
    size_t prefix_len;
    char prefix[];
} prefix_store;

/* The keys with the prefix, in one block that the caller frees. */
static cr_bytes *prefix_keys(const prefix_store *p, const cr_store_request *r)
{
    size_t bytes = (size_t)r->keys * sizeof(cr_bytes);

    for (int i = 0; i < r->keys; i++)
        bytes += p->prefix_len + r->key[i].len;
    cr_bytes *keys = cr_alloc(bytes + 1);
    char *at = (char *)(keys + r->keys);
    for (int i = 0; keys && i < r->keys; i++) {
        keys[i] = (cr_bytes){at, p->prefix_len + r->key[i].len};
        memcpy(at, p->prefix, p->prefix_len);
        memcpy(at + p->prefix_len, r->key[i].at, r->key[i].len);
        at += keys[i].len;
    }
    return keys;
}

/* Keeps the keys of a list that have the prefix, without it. */
static void prefix_cut(const prefix_store *p, cr_store_reply *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < out->value.len; i++) {
        cr_bytes k = out->value.at[i];
        if (k.len >= p->prefix_len && !memcmp(k.at, p->prefix, p->prefix_len))
            out->value.at[kept++] = (cr_bytes){k.at + p->prefix_len, k.len - p->prefix_len};
    }
    out->value.len = kept;
}

static cr_status prefix_call(cr_store *s, const cr_store_request *r, cr_store_reply *out)
{
    const prefix_store *p = (const prefix_store *)s;
    cr_bytes *keys = prefix_keys(p, r);
    cr_store_request under = *r;

    CR_NEED(keys);
    under.key = keys;
    under.timeout_ms = cr_store_timeout(s, r);
    cr_status st = cr_store_call(p->under, &under, out);
    if (!st && r->verb == CR_STORE_LIST)
        prefix_cut(p, out);
    cr_free(keys);
    return st;
}

static void prefix_free(cr_store *s)
{
    cr_store_drop(((prefix_store *)s)->under);
    cr_free(s);
}

static bool prefix_serves(const cr_store *s)
{
    return cr_store_serves(((const prefix_store *)s)->under);
}

cr_status cr_store_prefix(cr_store **out, const char *prefix, cr_store *under)
{
    static const cr_store_kind kind = {prefix_call, prefix_free, prefix_serves};
    size_t n = strlen(prefix) + 1;
    prefix_store *p = cr_alloc(sizeof *p + n);

    CR_NEED(p);
    cr_store_init(&p->head, &kind, under->timeout_ms);
    p->under = cr_store_keep(under);
    p->prefix_len = n;
    memcpy(p->prefix, prefix, n - 1);
    p->prefix[n - 1] = '/';
    *out = &p->head;
    return CR_OK;
}
