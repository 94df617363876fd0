/* Known compositions: the calls that a composition makes are found by the composition's key.
 *
 * A composition is evaluated by its rules, which takes much longer than to note the calls that
 * it makes.  Which calls these are depends on the key alone, as long as none of them runs at
 * once.  When all are known calls (defer_known.c), the trace keeps them with the places of
 * their tensors: an argument of the composition, or a result of an earlier call.  Later
 * compositions with the key add a record for each of the calls. */
#include "entry.h"
#include "tensor/internal.h"
#include "tensor/known.h"
#include <string.h>

enum { MOST_PARTS = 64, MOST_TRIES = 4, MOST_CONSTANTS = 8, MOST_CONSTANT_BYTES = 1 << 16 };

/* Where a storage comes from: an argument of the composition, a result of an earlier part, or a
 * constant, which calls without tensors have made. */
typedef struct {
    enum { FROM_ARGUMENT, FROM_PART, FROM_CONSTANT } kind;
    int at;
} part_place;

/* A call of a composition, and where the storages of its tensors come from. */
typedef struct {
    const cr_known *call;
    bool inference;
    part_place *from;
} known_part;

typedef enum { PART_NONE, PART_ARGUMENT, PART_MADE, PART_VIEW, PART_TRACKED } part_way;
typedef struct {
    part_way way;
    int at;          /* the argument, or the storage that a part makes */
    cr_tensor *like; /* PART_VIEW, PART_TRACKED: a header like the result */
} part_result;

struct cr_known_parts {
    int count, constants;
    cr_storage *constant[MOST_CONSTANTS]; /* one reference each */
    known_part *part;
    part_result *result;
};

void cr_known_parts_drop(struct cr_known_parts *p)
{
    for (int i = 0; p && i < p->constants; i++)
        cr_storage_drop(p->constant[i]);
}

void cr_call_key_of_composition(cr_call_key *k)
{
    uint64_t wants = 0, waits = 0;

    for (int i = 0; i < k->uses; i++) {
        const cr_tensor *t = k->use[i];
        bool steers = t->numel == 1 || !cr_dtype_is_inexact((cr_dtype)t->dtype);
        wants |= (uint64_t)t->requires_grad << i;
        waits |= (uint64_t)(steers && atomic_load(&t->storage->pending)) << i;
    }
    k->word[k->words++] = wants;
    k->word[k->words++] = waits;
}

/* --- noting --- */
typedef struct {
    cr_trace *x;
    const cr_call_key *key;
    const struct cr_known_parts *parts;
    cr_memory *argument[CR_MOST_USES], *made[MOST_PARTS];
    cr_tensor *tensor[MOST_PARTS]; /* one reference each, of the tensors that parts make */
    int count;                     /* of these */
} noting;

static cr_status part_use(cr_memory **out, noting *s, part_place from)
{
    switch (from.kind) {
    case FROM_PART: *out = s->made[from.at]; return CR_OK;
    case FROM_CONSTANT: return cr_memory_to_use(out, s->x, s->parts->constant[from.at]);
    default: break;
    }
    if (!s->argument[from.at])
        CR_TRY(cr_memory_to_use(&s->argument[from.at], s->x, s->key->use[from.at]->storage));
    *out = s->argument[from.at];
    return CR_OK;
}

static cr_status part_makes(noting *s, cr_noted *n)
{
    for (int r = 0; r < n->results; r++) {
        const struct cr_known_result *one = &n->known->result[r];
        if (one->way != CR_KNOWN_MADE)
            continue;
        CR_TRY(cr_tensor_without_bytes(&s->tensor[s->count], one->like, one->bytes));
        s->count++;
        CR_TRY(cr_memory_to_make(&n->out[n->outs], s->x, s->tensor[s->count - 1]));
        s->made[s->count - 1] = n->out[n->outs++];
    }
    return CR_OK;
}

static cr_status part_note(noting *s, const known_part *p)
{
    const cr_known *k = p->call;
    cr_noted *n = &s->x->calls.at[s->x->calls.len];

    *n = (cr_noted){.op = k->op,
                    .known = k,
                    .uses = k->uses,
                    .results = k->op->result_count,
                    .inference = p->inference};
    n->use = cr_arena_get(&s->x->arena, (size_t)(k->uses + k->outs + 1) * sizeof *n->use);
    CR_NEED(n->use);
    n->out = n->use + k->uses;
    for (int i = 0; i < k->uses; i++)
        CR_TRY(part_use(&n->use[i], s, p->from[i]));
    CR_TRY(part_makes(s, n));
    if (!s->x->calls.len++)
        cr_trace_started(s->x);
    return CR_OK;
}

/* A row-major view that autograd tracks as one of the tensor that a part makes. */
static cr_status tracked_view(cr_tensor **out, cr_tensor *made, const cr_tensor *like)
{
    cr_value result, arg[] = {cr_of_tensor(made), cr_of_ints(like->size, like->ndim)};

    CR_TRY(cr_call_past(CR_STAGE_DEFER, cr_entry.view, arg, &result));
    *out = result.t;
    return CR_OK;
}

/* A view of a storage that a part makes. */
static cr_status view_of_made(cr_tensor **out, const cr_tensor *made, const cr_tensor *like)
{
    CR_TRY(cr_tensor_over(out, made->storage, (cr_dtype)like->dtype, like->ndim, like->size,
                          like->stride, like->offset));
    cr_storage_keep(made->storage);
    (*out)->stages |= CR_STAGE_BIT(DEFER);
    return CR_OK;
}

static cr_status part_result_of(cr_value *out, const noting *s, const part_result *r)
{
    cr_tensor *t = NULL;

    if (r->way == PART_ARGUMENT)
        t = cr_keep(s->key->use[r->at]);
    else if (r->way == PART_MADE)
        t = cr_keep(s->tensor[r->at]);
    else if (r->way == PART_VIEW)
        CR_TRY(view_of_made(&t, s->tensor[r->at], r->like));
    else if (r->way == PART_TRACKED)
        CR_TRY(tracked_view(&t, s->tensor[r->at], r->like));
    *out = t ? cr_of_tensor(t) : cr_of_none();
    return CR_OK;
}

cr_status cr_known_note_parts(cr_trace *x, const cr_known *k, const cr_call_key *key,
                              cr_value *result)
{
    const struct cr_known_parts *p = k->parts;
    noting s; /* its room for storages is not cleared */
    cr_status st = CR_OK;
    int r = 0;

    s.x = x;
    s.key = key;
    s.parts = p;
    s.count = 0;
    memset(s.argument, 0, (size_t)key->uses * sizeof *s.argument);
    CR_TRY(cr_vec_reserve(&x->calls, (size_t)p->count));
    for (int i = 0; i < p->count && !st; i++)
        st = part_note(&s, &p->part[i]);
    for (; r < k->op->result_count && !st; r++)
        st = part_result_of(&result[r], &s, &p->result[r]);
    if (CR_UNLIKELY(st))
        cr_drop_values(result, r);
    for (int i = 0; i < s.count; i++)
        cr_drop(s.tensor[i]);
    return st;
}

/* --- a composition becomes known --- */
typedef struct {
    cr_trace *x;
    const cr_call_key *key;
    size_t first;
    struct cr_known_parts *parts;
    const cr_memory *made[MOST_PARTS];
    cr_tensor *like[MOST_PARTS]; /* headers like the tensors that are made */
    size_t bytes[MOST_PARTS];
    int count;
} finding;

static int made_at(const finding *f, const cr_memory *m)
{
    int i = 0;

    while (i < f->count && f->made[i] != m)
        i++;
    return i < f->count ? i : -1;
}

static bool place_constant(part_place *out, struct cr_known_parts *p, cr_memory *m)
{
    int i = 0;

    while (i < p->constants && p->constant[i] != m->real)
        i++;
    *out = (part_place){FROM_CONSTANT, i};
    if (i < p->constants)
        return true;
    if (m->made || m->copied || i == MOST_CONSTANTS || m->real->size > MOST_CONSTANT_BYTES)
        return false;
    p->constant[p->constants++] = cr_storage_keep(m->real);
    return true;
}

static bool find_place(part_place *out, const finding *f, cr_memory *m)
{
    int at = made_at(f, m);

    *out = (part_place){FROM_PART, at};
    if (at >= 0)
        return true;
    for (int i = 0; i < f->key->uses; i++)
        if (m->real == f->key->use[i]->storage) {
            *out = (part_place){FROM_ARGUMENT, i};
            return true;
        }
    return place_constant(out, f->parts, m);
}

/* Whether a call makes new storages and nothing else, whatever its index tensors contain. */
static bool only_makes(finding *f, const cr_noted *n)
{
    int outs = 0;

    if (!n->known || n->writes || cr_defer_has_bounds(n->op))
        return false;
    for (int r = 0; r < n->results; r++) {
        const struct cr_known_result *one = &n->known->result[r];
        if (one->way == CR_KNOWN_NONE)
            continue;
        if (one->way != CR_KNOWN_MADE || f->count == MOST_PARTS || outs == n->outs)
            return false;
        f->like[f->count] = one->like;
        f->bytes[f->count] = one->bytes;
        f->made[f->count++] = n->out[outs++];
    }
    return outs == n->outs;
}

static bool find_part(known_part *p, finding *f, cr_arena *a, const cr_noted *n)
{
    p->call = n->known;
    p->inference = n->inference;
    p->from = cr_arena_get(a, (size_t)n->uses * sizeof *p->from + 1);
    for (int i = 0; p->from && i < n->uses; i++)
        if (!find_place(&p->from[i], f, n->use[i]))
            return false;
    return p->from && only_makes(f, n);
}

static bool find_view(part_result *r, const finding *f, const cr_tensor *t)
{
    cr_tensor *made = NULL, *view = NULL;

    r->way = PART_VIEW;
    if (cr_tensor_without_bytes(&made, f->like[r->at], f->bytes[r->at]))
        return false;
    bool same = !view_of_made(&view, made, t);
    if (same) {
        view->stages &= ~CR_STAGE_BIT(DEFER);
        same = cr_is_like(view, t) && view->offset == t->offset;
    }
    cr_drop(view);
    cr_drop(made);
    return same;
}

/* Whether autograd tracks `t` as a view: of a result of the part, because nothing else has
 * the storage. */
static bool find_tracked(part_result *r, const finding *f, const cr_tensor *t)
{
    const cr_tensor *like = f->like[r->at];

    r->way = PART_TRACKED;
    return t->contiguous && !t->offset && t->numel == like->numel && t->dtype == like->dtype &&
           like->contiguous && !t->inference && !t->number && !t->layout && !cr_is_lazy(t);
}

static bool find_made(part_result *r, const finding *f, const cr_tensor *t)
{
    cr_tensor *made = NULL;

    if (cr_tensor_without_bytes(&made, f->like[r->at], f->bytes[r->at]))
        return false;
    bool same = cr_is_like(made, t) && !t->offset;
    cr_drop(made);
    r->way = PART_MADE;
    return same;
}

static bool find_result(part_result *r, const finding *f, cr_arena *a, const cr_value *v)
{
    cr_tensor *t = v->t;

    if (v->tag == CR_NONE)
        return true;
    if (v->tag != CR_TENSOR || t->requires_grad)
        return false;
    for (int i = 0; i < f->key->uses; i++)
        if (t == f->key->use[i]) {
            *r = (part_result){.way = PART_ARGUMENT, .at = i};
            return true;
        }
    const cr_memory *m = cr_trace_find(f->x, t->storage);
    r->at = m ? made_at(f, m) : -1;
    r->like = cr_header_new(a, t, NULL);
    if (r->at < 0 || !r->like)
        return false;
    return t->grad ? find_tracked(r, f, t) : find_made(r, f, t) || find_view(r, f, t);
}

/* Whether two results are one tensor. */
static bool results_meet(const struct cr_known_parts *p, const cr_value *result, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (p->result[i].way >= PART_MADE && p->result[k].way >= PART_MADE &&
                (result[i].t == result[k].t ||
                 (p->result[i].way == PART_MADE && p->result[k].way == PART_MADE &&
                  p->result[i].at == p->result[k].at)))
                return true;
    return false;
}

/* Whether the composition can be known. */
static bool find_parts(finding *f, cr_arena *a, const cr_value *result)
{
    const cr_trace *x = f->x;
    int results = f->key->op->result_count;
    struct cr_known_parts *p = f->parts;

    p->part = cr_arena_get(a, (size_t)p->count * sizeof *p->part + 1);
    p->result = cr_arena_get(a, (size_t)results * sizeof *p->result + 1);
    if (!p->part || !p->result)
        return false;
    for (int i = 0; i < p->count; i++)
        if (!find_part(&p->part[i], f, a, &x->calls.at[f->first + (size_t)i]))
            return false;
    for (int i = 0; i < results; i++)
        if (!find_result(&p->result[i], f, a, &result[i]))
            return false;
    return !results_meet(p, result, results);
}

/* Whether all calls from `first` on are known. */
static bool all_known(const cr_trace *x, size_t first)
{
    for (size_t i = first; i < x->calls.len; i++)
        if (!x->calls.at[i].known)
            return false;
    return first < x->calls.len;
}

void cr_known_add_parts(cr_trace *x, const cr_call_key *key, size_t first,
                        const cr_value *result)
{
    cr_known *k = cr_known_at(x, key);
    finding f = {.x = x, .key = key, .first = first};
    size_t count = x->calls.len - first;

    if (!k && !(k = cr_known_put(x, key)))
        return;
    k->refused = ++k->tries == MOST_TRIES || count > MOST_PARTS;
    if (count > MOST_PARTS || !all_known(x, first))
        return;
    k->refused = true;
    f.parts = cr_arena_get(&x->known->arena, sizeof *f.parts);
    if (!f.parts)
        return;
    f.parts->count = (int)count;
    if (!find_parts(&f, &x->known->arena, result)) {
        cr_known_parts_drop(f.parts);
        return;
    }
    k->parts = f.parts;
    k->refused = false;
}
