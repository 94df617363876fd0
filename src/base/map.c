/* Open addressing with linear probing.  At most half of the slots are used.  Keys are never
 * removed. */
#include "base/map.h"
#include "base/memory.h"
#include <string.h>

struct cr_map_slot {
    union {
        char *far;
        char near[8]; /* a key of at most eight bytes, such as an address */
    } key;
    uint32_t len, hash;
    void *value; /* NULL when the slot is free */
};

uint64_t cr_hash(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static bool is_near(size_t len) { return len <= sizeof((struct cr_map_slot *)0)->key.near; }

static const char *map_key(const struct cr_map_slot *s)
{
    return is_near(s->len) ? s->key.near : s->key.far;
}

/* The slot that holds the key, or the free slot where the key would be inserted. */
static struct cr_map_slot *map_find(const cr_map *m, const char *key, size_t len, uint32_t hash)
{
    size_t i = hash & (m->cap - 1);

    for (;; i = (i + 1) & (m->cap - 1)) {
        struct cr_map_slot *s = &m->slots[i];
        if (!s->value || (s->hash == hash && s->len == len && !memcmp(map_key(s), key, len)))
            return s;
    }
}

void *cr_map_get(const cr_map *m, const char *key, size_t key_len)
{
    return m->cap ? map_find(m, key, key_len, (uint32_t)cr_hash(key, key_len))->value : NULL;
}

static cr_status map_grow(cr_map *m)
{
    cr_map wide = {.cap = m->cap ? m->cap * 2 : 16, .len = m->len};

    wide.slots = cr_alloc_zero(wide.cap * sizeof *wide.slots);
    CR_NEED(wide.slots);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].value)
            *map_find(&wide, map_key(&m->slots[i]), m->slots[i].len, m->slots[i].hash) =
                m->slots[i];
    cr_free(m->slots);
    *m = wide;
    return CR_OK;
}

cr_status cr_map_set(cr_map *m, const char *key, size_t key_len, void *value)
{
    uint32_t hash = (uint32_t)cr_hash(key, key_len);

    CR_ASSERT(value && key_len <= UINT32_MAX);
    if (m->len * 2 >= m->cap)
        CR_TRY(map_grow(m));
    struct cr_map_slot *s = map_find(m, key, key_len, hash);
    if (!s->value) {
        struct cr_map_slot made = {.len = (uint32_t)key_len, .hash = hash};
        if (is_near(key_len))
            memcpy(made.key.near, key, key_len);
        else if (!(made.key.far = cr_strndup(key, key_len)))
            return CR_MEMORY;
        *s = made;
        m->len++;
    }
    s->value = value;
    return CR_OK;
}

void cr_map_drop(cr_map *m)
{
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].value && !is_near(m->slots[i].len))
            cr_free(m->slots[i].key.far);
    cr_free(m->slots);
    *m = (cr_map){0};
}
