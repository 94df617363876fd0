/* Taking back what a run changed before it raised.
 *
 * A call that may raise by elements raises after the writes and draws before it, as in eager
 * mode; but the program may catch the error, and a run cannot go on in the program's handler.
 * So the run is taken back, and the plain function runs in its place.  Kept are the inputs that
 * the graph writes before its last such call, and the generator if it draws before it.  A run
 * is not taken back, and its error leaves its writes, if copies of these inputs would be long
 * beside its work, if storages were moved, or if another thread wrote, too. */
#include "base/text.h"
#include "compile/call.h"
#include "num/generator.h"
#include "tensor/geometry.h"
#include "tensor/trace.h"
#include <string.h>

struct cr_undo_plan {
    bool raises, meets; /* some call may raise; some call is between ranks */
    bool draws, again;  /* some call draws; on the host, before the last call that may raise */
    uint32_t writes;    /* how often a run may move the version of a storage */
    int inputs;
    bool written[]; /* by input: before the last call that may raise */
};

/* --- the plan --- */

typedef struct {
    const cr_gblock *b;
    size_t end; /* index of the last call that may raise */
    bool *mark; /* by value id: written before it, or a source of such a value */
} finder;

static uintptr_t value_id(void *unused, const cr_gvalue *v)
{
    (void)unused;
    return v->id;
}

/* The same for calls that check the same indices against the same sizes. */
static void put_check(cr_text *key, const cr_gnode *n)
{
    uint32_t bounded = cr_defer_bounded(n->op);

    cr_text_put_n(key, (const char *)&n->op, sizeof n->op);
    for (int i = 0; i < n->arg_count; i++) {
        const cr_garg *a = &n->arg[i];
        if (a->tag != CR_TENSOR || bounded >> i & 1)
            cr_garg_key(key, a, value_id, NULL);
        else if (a->value->type.known)
            cr_text_put_n(key, (const char *)a->value->type.size,
                          a->value->type.ndim * sizeof *a->value->type.size);
        else
            cr_text_put_n(key, (const char *)&a->value->id, sizeof a->value->id);
    }
}

/* Whether an earlier call has checked the indices. */
static bool is_checked(const cr_gblock *b, size_t at)
{
    cr_text own = {0}, other = {0};
    const cr_gnode *n = b->at[at];
    bool same = false;

    if (n->kind != CR_GNODE_CALL || !cr_defer_has_bounds(n->op))
        return false;
    put_check(&own, n);
    for (size_t i = 0; i < at && !same; i++) {
        if (b->at[i]->kind != CR_GNODE_CALL || b->at[i]->op != n->op)
            continue;
        other.len = 0;
        put_check(&other, b->at[i]);
        same = !cr_text_status(&own) && !cr_text_status(&other) && own.len == other.len &&
               !memcmp(own.at, other.at, own.len);
    }
    cr_text_drop(&own);
    cr_text_drop(&other);
    return same;
}

static void mark_value(void *context, cr_gvalue *v) { ((finder *)context)->mark[v->id] = true; }

static void mark_writes(finder *f, const cr_gnode *n)
{
    for (int k = 0; k < cr_gnode_blocks(n); k++)
        for (size_t i = 0; i < n->block[k]->len; i++)
            mark_writes(f, n->block[k]->at[i]);
    for (int i = 0; n->kind == CR_GNODE_CALL && i < n->arg_count; i++)
        if (n->op->param[i].written || n->op->updates.params >> i & 1)
            cr_garg_each(&n->arg[i], mark_value, f);
}

static uint32_t count_writes(const cr_gnode *n)
{
    uint32_t sum = n->kind == CR_GNODE_CALL && cr_gnode_writes(n);

    for (int k = 0; k < cr_gnode_blocks(n); k++)
        for (size_t i = 0; i < n->block[k]->len; i++)
            sum += count_writes(n->block[k]->at[i]);
    return sum;
}

static bool any_marked(const finder *f, const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (f->mark[n->result[k]->id])
            return true;
    return false;
}

/* From the written values to the inputs that they may be views of. */
static void mark_sources(finder *f)
{
    for (size_t i = f->end; i-- > 0;) {
        const cr_gnode *n = f->b->at[i];
        if (cr_gnode_writes(n))
            mark_writes(f, n);
        if (any_marked(f, n) && cr_gnode_may_view(n))
            cr_gnode_each_read(n, mark_value, f);
    }
}

/* The generators of other devices are not kept. */
static bool draws_otherwise(const cr_gnode *n)
{
    return cr_gnode_draws(n) && (!n->result_count || !n->result[0]->type.known ||
                                 !cr_is_host(n->result[0]->type.device));
}

static void find_calls(cr_undo_plan *p, finder *f)
{
    bool otherwise = false;

    for (size_t i = 0; i < f->b->len; i++) {
        const cr_gnode *n = f->b->at[i];
        if (cr_gnode_may_raise(n) && !is_checked(f->b, i)) {
            p->raises = true;
            f->end = i;
            p->again = p->draws && !otherwise;
        }
        p->writes += count_writes(n);
        p->meets = p->meets || cr_gnode_meets(n);
        p->draws = p->draws || cr_gnode_draws(n);
        otherwise = otherwise || draws_otherwise(n);
    }
}

cr_status cr_undo_plan_new(cr_undo_plan **out, const cr_graph *g)
{
    cr_undo_plan *p = cr_alloc_zero(sizeof *p + (size_t)g->input_count);
    finder f = {.b = g->body, .mark = cr_alloc_zero(g->values + 1)};

    if (p && f.mark) {
        p->inputs = g->input_count;
        find_calls(p, &f);
        mark_sources(&f);
        for (int i = 0; i < p->inputs; i++)
            p->written[i] = f.mark[g->input[i]->id];
    }
    bool made = p && f.mark;
    cr_free(f.mark);
    if (!made)
        cr_free(p);
    *out = made ? p : NULL;
    return made ? CR_OK : CR_MEMORY;
}

bool cr_undo_may_raise(const cr_undo_plan *p) { return p->raises; }

/* --- a run --- */

typedef struct {
    cr_storage *of; /* counted */
    uint32_t version;
    char *at, *bytes, *chunk;
    size_t size, of_size;
} kept;

struct cr_undo {
    cr_generator *generator;
    size_t count;
    kept kept[];
};

/* Copies may take a page, or this part of the elements that the run gets. */
enum { SHORT = 4096, PART = 16 };

typedef struct {
    char *at;
    size_t size;
} bytes;

static cr_status bytes_of(bytes *out, const cr_tensor *t)
{
    const char *begin, *end;
    cr_view v;

    CR_TRY(cr_reach_view(&v, t));
    cr_view_extent(&v, &begin, &end);
    *out = (bytes){(char *)(uintptr_t)begin, (size_t)(end - begin)};
    return CR_OK;
}

static bool has_bytes(const cr_tensor *t)
{
    return cr_is_host(t->device) && t->storage && !t->layout;
}

/* *yes: the inputs that the graph writes are short. */
static cr_status are_short(bool *yes, const cr_undo_plan *p, cr_tensor *const *input)
{
    size_t written = 0, all = 0;
    bytes b;

    for (int i = 0; i < p->inputs; i++) {
        all += (size_t)input[i]->numel * cr_dtype_size((cr_dtype)input[i]->dtype);
        if (!p->written[i] || !has_bytes(input[i]))
            continue;
        CR_TRY(bytes_of(&b, input[i]));
        written += b.size;
    }
    *yes = written <= SHORT || written <= all / PART;
    return CR_OK;
}

static cr_status keep_input(cr_undo *u, cr_tensor *t)
{
    kept *k = &u->kept[u->count];
    bytes b;

    if (!has_bytes(t))
        return CR_OK;
    CR_TRY(bytes_of(&b, t));
    *k = (kept){.version = t->storage->version,
                .at = b.at,
                .size = b.size,
                .chunk = t->storage->chunk,
                .of_size = t->storage->size};
    k->bytes = cr_alloc(k->size + 1);
    CR_NEED(k->bytes);
    memcpy(k->bytes, k->at, k->size);
    k->of = cr_storage_keep(t->storage);
    u->count++;
    return CR_OK;
}

cr_status cr_undo_keep(cr_undo **out, const cr_undo_plan *p, cr_tensor *const *input)
{
    size_t count = 0;
    cr_status st = CR_OK;
    bool fits;

    *out = NULL;
    for (int i = 0; i < p->inputs; i++)
        count += p->written[i];
    if (!p->raises || p->meets || (p->draws && !p->again) || (!count && !p->draws))
        return CR_OK;
    CR_TRY(are_short(&fits, p, input));
    if (!fits)
        return CR_OK;
    cr_undo *u = cr_alloc_zero(sizeof *u + count * sizeof *u->kept);
    CR_NEED(u);
    for (int i = 0; i < p->inputs && !st; i++)
        if (p->written[i])
            st = keep_input(u, input[i]);
    if (!st && p->draws)
        st = cr_generator_clone(&u->generator, NULL);
    CR_GIVE(st, out, u, cr_undo_drop);
}

/* Whether each storage has the block it had before the run, and only the run can have written
 * it. */
static bool may_return(const cr_undo *u, const cr_undo_plan *p)
{
    for (size_t i = 0; i < u->count; i++) {
        const kept *k = &u->kept[i];
        if (k->of->chunk != k->chunk || k->of->size != k->of_size ||
            k->of->version - k->version > p->writes)
            return false;
    }
    return true;
}

bool cr_undo_all(const cr_undo *u, const cr_undo_plan *p)
{
    if (u && !may_return(u, p))
        return false;
    for (size_t i = u ? u->count : 0; i-- > 0;) {
        const kept *k = &u->kept[i];
        memcpy(k->at, k->bytes, k->size);
        k->of->version = k->version;
    }
    if (u && u->generator)
        cr_generator_return(cr_generator_default(), u->generator);
    return !p->meets && (!p->draws || (u && u->generator));
}

void cr_undo_drop(cr_undo *u)
{
    for (size_t i = u ? u->count : 0; i-- > 0;) {
        cr_storage_drop(u->kept[i].of);
        cr_free(u->kept[i].bytes);
    }
    if (u)
        cr_generator_drop(u->generator);
    cr_free(u);
}
