/* recent.c - tables that drop the entries which were not used for the longest time. */
#include "base/recent.h"
#include "base/memory.h"
#include <string.h>

struct cr_recent_entry {
    cr_recent_entry *next, *last; /* of its generation */
    void *value;
    size_t bytes, key_len;
    char key[];
};

static void generation_add(cr_generation *g, cr_recent_entry *e)
{
    e->last = NULL;
    e->next = g->first;
    if (e->next)
        e->next->last = e;
    g->first = e;
    g->len++;
    g->bytes += e->bytes;
}

static void generation_take(cr_generation *g, cr_recent_entry *e)
{
    if (e->last)
        e->last->next = e->next;
    else
        g->first = e->next;
    if (e->next)
        e->next->last = e->last;
    g->len--;
    g->bytes -= e->bytes;
}

static void generation_drop(cr_generation *g, void (*drop)(void *))
{
    for (cr_recent_entry *e = g->first, *next; e; e = next) {
        next = e->next;
        drop(e->value);
        cr_free(e);
    }
    cr_map_drop(&g->map);
    *g = (cr_generation){.first = NULL};
}

/* Puts an entry, which is in no generation, in the young. */
static cr_status recent_add(cr_recent *r, cr_recent_entry *e)
{
    if (r->young.len >= r->most || (r->most_bytes && r->young.bytes >= r->most_bytes)) {
        generation_drop(&r->old, r->drop);
        r->old = r->young;
        r->young = (cr_generation){.first = NULL};
    }
    CR_TRY(cr_map_set(&r->young.map, e->key, e->key_len, e));
    generation_add(&r->young, e);
    return CR_OK;
}

/* The old generation's map keeps the address of an entry that moves, and is read after the
 * young one's. */
void *cr_recent_get(cr_recent *r, const char *key, size_t key_len)
{
    cr_recent_entry *e = cr_map_get(&r->young.map, key, key_len);

    if (e)
        return e->value;
    e = cr_map_get(&r->old.map, key, key_len);
    if (!e)
        return NULL;
    generation_take(&r->old, e);
    if (recent_add(r, e)) /* no memory: it stays old */
        generation_add(&r->old, e);
    return e->value;
}

cr_status cr_recent_set(cr_recent *r, const char *key, size_t key_len, void *value)
{
    cr_recent_entry *e = cr_alloc(sizeof *e + key_len);
    cr_status st = e ? CR_OK : CR_MEMORY;

    if (e) {
        e->value = value;
        e->bytes = 0;
        e->key_len = key_len;
        memcpy(e->key, key, key_len);
        st = recent_add(r, e);
    }
    if (st)
        cr_free(e);
    return st;
}

void cr_recent_charge(cr_recent *r, const char *key, size_t key_len, size_t bytes)
{
    cr_recent_entry *e = cr_map_get(&r->young.map, key, key_len);

    if (e) {
        e->bytes += bytes;
        r->young.bytes += bytes;
    }
}
