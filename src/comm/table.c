/* The table of a store: values and queues by key, in chains of a hash table.
 *
 * A request is answered at once, or is blocked until another one changes the table.  The owner
 * of the table asks again then; the table knows no time and no threads. */
#include "base/map.h"
#include "comm/store_impl.h"
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *next; /* in its chain */
    char *key;
    size_t key_len;
    bool queue;
    cr_text value;
    struct item *first, *last; /* of a queue */
    int64_t items;
} entry;

typedef struct item {
    struct item *next;
    size_t len;
    char at[];
} item;

struct cr_table {
    entry **chains;
    size_t chain_count, len; /* chain_count: a power of two */
};

enum { FIRST_CHAINS = 64 };

cr_status cr_table_new(cr_table **out)
{
    cr_table *t = cr_alloc_zero(sizeof *t);

    CR_NEED(t);
    t->chains = cr_alloc_zero(FIRST_CHAINS * sizeof *t->chains);
    if (!t->chains) {
        cr_free(t);
        return CR_MEMORY;
    }
    t->chain_count = FIRST_CHAINS;
    *out = t;
    return CR_OK;
}

static void entry_pop(entry *e)
{
    item *first = e->first;

    e->first = first->next;
    e->items--;
    cr_free(first);
}

static void entry_free(entry *e)
{
    while (e->first)
        entry_pop(e);
    cr_text_drop(&e->value);
    cr_free(e->key);
    cr_free(e);
}

void cr_table_free(cr_table *t)
{
    for (size_t i = 0; t && i < t->chain_count; i++)
        for (entry *e = t->chains[i], *next; e; e = next) {
            next = e->next;
            entry_free(e);
        }
    if (t)
        cr_free(t->chains);
    cr_free(t);
}

/* The link to the key's entry, or the end of its chain. */
static entry **table_link(const cr_table *t, cr_bytes key)
{
    entry **link = &t->chains[cr_hash(key.at, key.len) & (t->chain_count - 1)];

    while (*link && ((*link)->key_len != key.len || memcmp((*link)->key, key.at, key.len)))
        link = &(*link)->next;
    return link;
}

static entry *table_find(const cr_table *t, cr_bytes key) { return *table_link(t, key); }

/* Doubles the chains.  Without memory the chains just get longer. */
static void table_grow(cr_table *t)
{
    cr_table old = *t;
    entry **chains = cr_alloc_zero(2 * old.chain_count * sizeof *chains);

    if (!chains)
        return;
    t->chains = chains;
    t->chain_count = 2 * old.chain_count;
    for (size_t i = 0; i < old.chain_count; i++)
        for (entry *e = old.chains[i], *next; e; e = next) {
            next = e->next;
            entry **link = table_link(t, (cr_bytes){e->key, e->key_len});
            e->next = NULL;
            *link = e;
        }
    cr_free(old.chains);
}

static cr_status table_make(cr_table *t, cr_bytes key, entry **out)
{
    entry *e = table_find(t, key);

    if (e) {
        *out = e;
        return CR_OK;
    }
    e = cr_alloc_zero(sizeof *e);
    if (e && !(e->key = cr_strndup(key.at, key.len))) {
        cr_free(e);
        e = NULL;
    }
    CR_NEED(e);
    e->key_len = key.len;
    if (++t->len > t->chain_count)
        table_grow(t);
    *table_link(t, key) = *out = e;
    return CR_OK;
}

static cr_status table_store(cr_table *t, cr_bytes key, cr_bytes value, bool append)
{
    entry *e;

    CR_TRY(table_make(t, key, &e));
    if (!append)
        e->value.len = 0;
    cr_text_put_n(&e->value, value.at, value.len);
    return cr_text_status(&e->value);
}

static cr_bytes entry_value(const entry *e)
{
    return (cr_bytes){cr_text_str(&e->value), e->value.len};
}

static bool bytes_equal(cr_bytes a, cr_bytes b)
{
    return a.len == b.len && !memcmp(a.at, b.at, a.len);
}

static bool table_has_all(const cr_table *t, const cr_store_request *r)
{
    for (int i = 0; i < r->keys; i++)
        if (!table_find(t, r->key[i]))
            return false;
    return true;
}

/* --- the verbs: each returns a status, a refusal included --- */
typedef struct {
    cr_text *reply;
    bool *blocked;
} answer;

static cr_status answer_number(answer a, int64_t n)
{
    cr_wire_reply(a.reply, CR_OK, n, 0, NULL);
    return cr_text_status(a.reply);
}

static cr_status answer_value(answer a, cr_bytes v)
{
    cr_wire_reply(a.reply, CR_OK, 0, 1, &v);
    return cr_text_status(a.reply);
}

static cr_status table_set(cr_table *t, const cr_store_request *r, answer a)
{
    for (int i = 0; i < r->keys; i++)
        CR_TRY(table_store(t, r->key[i], r->value[i], r->verb == CR_STORE_APPEND));
    return answer_number(a, 0);
}

static cr_status table_get(cr_table *t, const cr_store_request *r, answer a)
{
    if (!table_has_all(t, r)) {
        *a.blocked = true;
        return CR_OK;
    }
    if (r->verb == CR_STORE_WAIT)
        return answer_number(a, 0);
    cr_bytes *values = cr_alloc(((size_t)r->keys + 1) * sizeof *values);
    CR_NEED(values);
    for (int i = 0; i < r->keys; i++)
        values[i] = entry_value(table_find(t, r->key[i]));
    cr_wire_reply(a.reply, CR_OK, 0, r->keys, values);
    cr_free(values);
    return cr_text_status(a.reply);
}

/* Sums are kept as decimal text, so that get() reads them. */
static cr_status table_add(cr_table *t, const cr_store_request *r, answer a)
{
    entry *e;
    char *end;

    CR_TRY(table_make(t, r->key[0], &e));
    int64_t sum = e->value.len ? strtoll(cr_text_str(&e->value), &end, 10) : 0;
    if (e->value.len && (*end || end == e->value.at))
        return cr_fail(CR_RUNTIME, "add() needs a number under key '%.*s'", (int)r->key[0].len,
                       r->key[0].at);
    sum = CR_WRAP_ADD(sum, r->number);
    e->value.len = 0;
    cr_text_printf(&e->value, "%lld", (long long)sum);
    CR_TRY(cr_text_status(&e->value));
    return answer_number(a, sum);
}

/* Like torch's, a key without a value equals an empty expectation. */
static cr_status table_compare_set(cr_table *t, const cr_store_request *r, answer a)
{
    const entry *e = table_find(t, r->key[0]);
    cr_bytes expected = r->value[0], desired = r->value[1];
    bool equal = e ? bytes_equal(entry_value(e), expected) : !expected.len;

    if (!equal)
        return answer_value(a, e ? entry_value(e) : expected);
    CR_TRY(table_store(t, r->key[0], desired, false));
    return answer_value(a, desired);
}

static cr_status table_delete(cr_table *t, const cr_store_request *r, answer a)
{
    entry **link = table_link(t, r->key[0]), *e = *link;

    if (e) {
        *link = e->next;
        t->len--;
        entry_free(e);
    }
    return answer_number(a, e != NULL);
}

static cr_status table_push(cr_table *t, const cr_store_request *r, answer a)
{
    entry *e;
    item *new = cr_alloc(sizeof *new + r->value[0].len);

    CR_NEED(new);
    cr_status st = table_make(t, r->key[0], &e);
    if (st) {
        cr_free(new);
        return st;
    }
    new->next = NULL;
    new->len = r->value[0].len;
    memcpy(new->at, r->value[0].at, new->len);
    *(e->first ? &e->last->next : &e->first) = new;
    e->last = new;
    e->items++;
    return answer_number(a, e->items);
}

static cr_status table_pop(cr_table *t, const cr_store_request *r, answer a)
{
    entry *e = table_find(t, r->key[0]);

    if (!e || !e->first) {
        *a.blocked = r->number != 0;
        return *a.blocked ? CR_OK
                          : cr_fail(CR_QUEUE_EMPTY, "queue %.*s is empty", (int)r->key[0].len,
                                    r->key[0].at);
    }
    CR_TRY(answer_value(a, (cr_bytes){e->first->at, e->first->len}));
    entry_pop(e);
    if (!e->first && !e->value.len) {
        cr_text unused = {0};
        bool no;
        CR_TRY(table_delete(t, r, (answer){&unused, &no}));
        cr_text_drop(&unused);
    }
    return CR_OK;
}

static cr_status table_list(cr_table *t, answer a)
{
    cr_bytes *keys = cr_alloc((t->len + 1) * sizeof *keys);
    int n = 0;

    CR_NEED(keys);
    for (size_t i = 0; i < t->chain_count; i++)
        for (const entry *e = t->chains[i]; e; e = e->next)
            keys[n++] = (cr_bytes){e->key, e->key_len};
    cr_wire_reply(a.reply, CR_OK, 0, n, keys);
    cr_free(keys);
    return cr_text_status(a.reply);
}

/* Whether the request has the keys and values of its verb. */
static bool request_is_whole(const cr_store_request *r)
{
    switch (r->verb) {
    case CR_STORE_SET:
    case CR_STORE_APPEND:
    case CR_STORE_PUSH: return r->keys && r->values == r->keys;
    case CR_STORE_COMPARE_SET: return r->keys == 1 && r->values == 2;
    case CR_STORE_ADD:
    case CR_STORE_DELETE:
    case CR_STORE_POP:
    case CR_STORE_LENGTH: return r->keys == 1;
    default: return true;
    }
}

static cr_status table_run(cr_table *t, const cr_store_request *r, answer a)
{
    const entry *e;

    if (!request_is_whole(r))
        return cr_fail(CR_VALUE, "a store's request has %d keys and %d values", r->keys,
                       r->values);
    switch (r->verb) {
    case CR_STORE_SET:
    case CR_STORE_APPEND: return table_set(t, r, a);
    case CR_STORE_GET:
    case CR_STORE_WAIT: return table_get(t, r, a);
    case CR_STORE_ADD: return table_add(t, r, a);
    case CR_STORE_COMPARE_SET: return table_compare_set(t, r, a);
    case CR_STORE_CHECK: return answer_number(a, table_has_all(t, r));
    case CR_STORE_DELETE: return table_delete(t, r, a);
    case CR_STORE_COUNT: return answer_number(a, (int64_t)t->len);
    case CR_STORE_PUSH: return table_push(t, r, a);
    case CR_STORE_POP: return table_pop(t, r, a);
    case CR_STORE_LENGTH:
        e = table_find(t, r->key[0]);
        return answer_number(a, e ? e->items : 0);
    case CR_STORE_LIST: return table_list(t, a);
    default: return answer_number(a, 0);
    }
}

cr_status cr_table_answer(cr_table *t, const cr_store_request *r, cr_text *reply, bool *blocked)
{
    size_t before = reply->len;

    *blocked = false;
    cr_status st = table_run(t, r, (answer){reply, blocked});
    if (st && st != CR_MEMORY) {
        reply->len = before;
        cr_wire_failure(reply, st);
        st = cr_text_status(reply);
    }
    return st;
}
