/* Programs of traces whose calls are all known (tensor/trace.h).
 *
 * The id of a known call names an entry with certain sizes, strides and numbers.  So the key of
 * a trace of known calls consists of their ids, the storages that they use and make, and which
 * of these the program can read.  This key is short, and needs no headers.
 *
 * The hash of a key gives the row of a table where its program is.  A program is kept at the
 * second sight of its key, so that keys which do not come again copy no program.  In a full row
 * it replaces any other one: of a loop over more keys than there are places, some are found. */
#include "base/map.h"
#include "compile/traced.h"
#include <string.h>

enum { ROWS = 64, ROW = 8, SIGHTS = 16 };

typedef struct {
    uint64_t hash;
    cr_traced_words key;
    cr_traced_program program;
    cr_arena arena;
} known_program;

typedef struct {
    known_program *at[ROWS][ROW]; /* NULL: free */
    uint32_t seen[ROWS][SIGHTS];  /* parts of the hashes of the last keys without a program */
    size_t count;                 /* of keys that were put there */
    cr_traced_words key;          /* of the trace that is flushed */
    uint64_t hash;
} known_programs;

/* --- keys --- */
static void put_memories(cr_traced_words *w, cr_memory *const *m, int n)
{
    for (int i = 0; i < n; i++)
        w->at[w->len++] = m[i]->index;
}

/* False: a call is not known, or memory is short. */
static bool put_calls(cr_traced_words *w, const cr_trace *x)
{
    for (size_t i = 0; i < x->calls.len; i++) {
        const cr_noted *n = &x->calls.at[i];
        if (!n->live)
            continue;
        if (!n->known || cr_vec_reserve(w, (size_t)(n->uses + n->outs + 1)))
            return false;
        w->at[w->len++] = n->known->id;
        put_memories(w, n->use, n->uses);
        put_memories(w, n->out, n->outs);
    }
    return true;
}

/* Which storages the calls make, and which of them the program reads. */
static void put_ends(cr_traced_words *w, const cr_trace *x)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < x->memories.len; i++) {
        const cr_memory *m = x->memories.at[i];
        bits = bits << 2 | (uint64_t)m->made << 1 | (uint64_t)(m->last == SIZE_MAX);
        if (i % 32 == 31)
            w->at[w->len++] = bits;
    }
    w->at[w->len++] = bits;
}

static bool make_key(known_programs *p, const cr_trace *x)
{
    cr_traced_words *w = &p->key;

    w->len = 0;
    if (cr_vec_reserve(w, x->memories.len / 32 + 3))
        return false;
    w->at[w->len++] = x->how | (uint64_t)x->memories.len << 32;
    put_ends(w, x);
    return put_calls(w, x);
}

/* --- programs --- */
static known_program *program_find(const known_programs *p)
{
    for (int i = 0; i < ROW; i++) {
        known_program *k = p->at[p->hash % ROWS][i];
        if (k && k->hash == p->hash && k->key.len == p->key.len &&
            !memcmp(k->key.at, p->key.at, p->key.len * sizeof *p->key.at))
            return k;
    }
    return NULL;
}

bool cr_traced_find_known(cr_traced_program *out, cr_trace *x)
{
    known_programs *p = x->programs;

    if (!p)
        p = x->programs = cr_alloc_zero(sizeof *p);
    if (!p || !make_key(p, x)) {
        if (p)
            p->key.len = 0;
        return false;
    }
    p->hash = cr_hash_words(p->key.at, p->key.len);
    known_program *k = program_find(p);
    if (!k)
        return false;
    *out = k->program;
    return true;
}

static void program_drop(known_program *k)
{
    cr_compiled_call_drop(k->program.call);
    cr_vec_drop(&k->key);
    cr_arena_drop(&k->arena);
    cr_free(k);
}

static const size_t *kept_indices(known_program *k, const size_t *from, int n,
                                  const cr_tensor **base, const cr_tensor *const *of)
{
    size_t *to = cr_arena_get(&k->arena, (size_t)n * sizeof *to + 1);

    for (int i = 0; to && i < n; i++) {
        to[i] = from[i];
        base[to[i]] = cr_header_new(&k->arena, of[to[i]], NULL);
        if (!base[to[i]])
            return NULL;
    }
    return to;
}

static bool program_fill(known_program *k, const cr_trace *x, const cr_traced_program *from)
{
    cr_traced_program *p = &k->program;
    const cr_tensor **base = cr_arena_get(&k->arena, (x->memories.len + 1) * sizeof *base);
    size_t bytes = from->number ? from->numbers * sizeof *from->number : 0;

    *p = *from;
    p->call = cr_compiled_call_keep(from->call);
    if (!base)
        return false;
    p->base = base;
    p->input = kept_indices(k, from->input, from->inputs, base, from->base);
    p->output =
        p->input ? kept_indices(k, from->output, from->outputs, base, from->base) : NULL;
    p->number = bytes ? cr_arena_get(&k->arena, bytes) : NULL;
    if (p->number)
        memcpy(p->number, from->number, bytes);
    return p->output && (p->number || !bytes);
}

/* Whether the key was seen before.  Remembers it, in a free place of the row or in any
 * other. */
static bool program_was_seen(known_programs *p)
{
    uint32_t *row = p->seen[p->hash % ROWS], part = (uint32_t)(p->hash >> 32) | 1;
    size_t at = ++p->count % SIGHTS;

    for (size_t i = 0; i < SIGHTS; i++) {
        if (row[i] == part) {
            row[i] = 0;
            return true;
        }
        if (!row[i])
            at = i;
    }
    row[at] = part;
    return false;
}

/* A free place of the row, or one of a program. */
static known_program **place_for(known_programs *p)
{
    known_program **row = p->at[p->hash % ROWS];

    for (int i = 0; i < ROW; i++)
        if (!row[i])
            return &row[i];
    return &row[p->count % ROW];
}

static known_program *program_new(known_programs *p, const cr_trace *x,
                                  const cr_traced_program *from)
{
    known_program *k = cr_alloc_zero(sizeof *k);

    if (!k)
        return NULL;
    if (cr_vec_reserve(&k->key, p->key.len) || !program_fill(k, x, from)) {
        program_drop(k);
        return NULL;
    }
    memcpy(k->key.at, p->key.at, p->key.len * sizeof *k->key.at);
    k->key.len = p->key.len;
    k->hash = p->hash;
    return k;
}

void cr_traced_keep_known(cr_trace *x, const cr_traced_program *from)
{
    known_programs *p = x->programs;

    if (!p || !p->key.len || !program_was_seen(p))
        return;
    known_program *k = program_new(p, x, from);
    if (!k)
        return;
    known_program **place = place_for(p);
    if (*place)
        program_drop(*place);
    *place = k;
}
