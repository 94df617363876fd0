/* Flushes by programs: equal traces are compiled once and run as one program.
 *
 * The key of a trace states its calls: entries, arguments, numbers, which storages they use
 * with which geometry, and which results the program can still read.  Keys are compared as a
 * whole. A key is compiled at its second sight; a trace that no graph can state is replayed.
 *
 * The graph is built from the noted calls.  A storage has one value: the input, or the result
 * of the call that makes it; an argument with another geometry is a view call of that value.
 * Writes are calls too, which the pass `functional` turns into values. */
#include "base/log.h"
#include "compile/call.h"
#include "compile/compile.h"
#include "entry.h"
#include "graph/graph.h"
#include "tensor/geometry.h"
#include "tensor/trace.h"
#include <pthread.h>
#include <string.h>

enum { MOST_PROGRAMS = 256, MOST_TRACED = 4000, MANY_MISSES = 16, PAUSE = 64, LEAST_CALLS = 2 };

typedef CR_VEC(uint64_t) key_words;

typedef struct {
    uint64_t hash;
    key_words key;
    int seen;
    bool refused;
    cr_compiled_call *call; /* set once, under the lock */
    size_t *input;          /* indices of memories */
    size_t *output;
    int inputs, outputs;
} entry;

static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;
static entry *entries;
static size_t entry_count;
static bool first_sight; /* CR_DEFER=2: programs are made at the first sight (tests) */
static CR_THREAD int misses, pause_left;

/* --- keys --- */
static cr_status key_put(key_words *k, uint64_t v)
{
    CR_TRY(cr_vec_reserve(k, 1));
    cr_vec_put(k, v);
    return CR_OK;
}

static cr_status key_bytes(key_words *k, const void *p, size_t n)
{
    CR_TRY(cr_vec_reserve(k, n / 8 + 2));
    k->at[k->len++] = n;
    k->at[k->len + n / 8] = 0;
    if (n)
        memcpy(&k->at[k->len], p, n);
    k->len += (n + 7) / 8;
    return CR_OK;
}

/* A Python number that was wrapped in a tensor is a literal of the graph. */
static cr_status literal_of(cr_scalar *out, const cr_tensor *h)
{
    const cr_memory *m = cr_memory_of(h);

    if (m->made || !m->shown.chunk || h->numel != 1)
        return cr_fail(CR_VALUE, "a number that a call makes");
    *out = cr_scalar_load((cr_dtype)h->dtype, cr_moved(m->shown.chunk, h->offset,
                                                       cr_dtype_size((cr_dtype)h->dtype)));
    return CR_OK;
}

static cr_status key_number(key_words *k, cr_scalar n)
{
    CR_TRY(key_put(k, n.category));
    CR_TRY(key_bytes(k, &n.i, sizeof n.i));
    return n.category == CR_CAT_COMPLEX ? key_bytes(k, &n.c, sizeof n.c) : CR_OK;
}

static cr_status key_tensor(key_words *k, const cr_tensor *h)
{
    cr_scalar n;

    CR_TRY(key_put(k, cr_memory_of(h)->index | (uint64_t)h->dtype << 32 |
                          (uint64_t)h->ndim << 40 | (uint64_t)h->number << 48 |
                          (uint64_t)(h->conj || h->neg) << 49));
    if (h->number) {
        CR_TRY(literal_of(&n, h));
        return key_number(k, n);
    }
    CR_TRY(key_put(k, (uint64_t)h->offset));
    CR_TRY(key_bytes(k, h->size, h->ndim * sizeof *h->size));
    return key_bytes(k, h->stride, h->ndim * sizeof *h->stride);
}

static cr_status key_value(key_words *k, const cr_value *v)
{
    CR_TRY(key_put(k, v->tag));
    switch (v->tag) {
    case CR_TENSOR: return key_tensor(k, v->t);
    case CR_NUMBER: return key_number(k, v->number);
    case CR_STRING: return key_bytes(k, v->s, v->len);
    case CR_INTS:
    case CR_TRUTHS: return key_bytes(k, v->ints, v->len * sizeof *v->ints);
    case CR_FLOATS: return key_bytes(k, v->floats, v->len * sizeof *v->floats);
    case CR_NUMBERS:
    case CR_TENSORS:
        CR_TRY(key_put(k, v->len));
        for (uint32_t i = 0; i < v->len; i++)
            CR_TRY(key_value(k, &v->list[i]));
        return CR_OK;
    case CR_NONE: return CR_OK;
    case CR_GENERATOR:
    case CR_VIEW: return cr_fail(CR_VALUE, "an argument that no graph has");
    default: return key_bytes(k, &v->i, sizeof v->i);
    }
}

static cr_status key_call(key_words *k, const cr_noted *n)
{
    CR_TRY(key_put(k, n->op->index | (uint64_t)n->live << 32 | (uint64_t)n->results << 33));
    for (int i = 0; i < n->op->param_count; i++)
        CR_TRY(key_value(k, &n->arg[i]));
    for (int r = 0; r < n->results; r++)
        CR_TRY(n->result[r] ? key_tensor(k, n->result[r]) : key_put(k, UINT64_MAX));
    return CR_OK;
}

static cr_status key_of(key_words *k, const cr_trace *x)
{
    for (size_t i = 0; i < x->memories.len; i++) {
        const cr_memory *m = x->memories.at[i];
        CR_TRY(key_put(k, m->shown.size << 2 | (uint64_t)m->made << 1 | (m->last == SIZE_MAX)));
    }
    for (size_t i = 0; i < x->calls.len; i++)
        CR_TRY(key_call(k, &x->calls.at[i]));
    return CR_OK;
}

static uint64_t key_hash(const key_words *k)
{
    uint64_t h = 0x9e3779b97f4a7c15u;

    for (size_t i = 0; i < k->len; i++) {
        h = (h ^ k->at[i]) * 0x9ddfea08eb382d69u;
        h ^= h >> 29;
    }
    return h;
}

/* The caller holds the lock.  A new entry takes the key. */
static entry *entry_find(key_words *k)
{
    uint64_t hash = key_hash(k);

    for (size_t i = 0; i < entry_count; i++)
        if (entries[i].hash == hash && entries[i].key.len == k->len &&
            !memcmp(entries[i].key.at, k->at, k->len * sizeof *k->at))
            return &entries[i];
    if (!entries)
        entries = cr_alloc_zero(MOST_PROGRAMS * sizeof *entries);
    if (!entries || entry_count == MOST_PROGRAMS)
        return NULL;
    entries[entry_count] = (entry){.hash = hash, .key = *k};
    *k = (key_words){0};
    return &entries[entry_count++];
}

/* --- graphs --- */
typedef struct {
    cr_trace *x;
    entry *e;
    cr_graph *g;
    const cr_tensor **base; /* by memory: the header that its value stands for */
    cr_gvalue **value;
} building;

static bool defer_same_geometry(const cr_tensor *a, const cr_tensor *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && a->offset == b->offset &&
           !memcmp(a->size, b->size, a->ndim * sizeof *a->size) &&
           !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride);
}

/* Whether the header has every byte of its storage, once. */
static bool covers(const cr_tensor *h)
{
    return !h->offset && cr_is_dense(h) &&
           (size_t)h->numel * cr_dtype_size((cr_dtype)h->dtype) == h->storage->size;
}

static void choose_base(building *b, const cr_tensor *h)
{
    const cr_tensor **at = &b->base[cr_memory_of(h)->index];

    if (h->conj || h->neg)
        cr_bail(b->g->session, CR_VALUE, "a view with a bit");
    if (!*at || (!cr_memory_of(h)->made && !covers(*at) && covers(h)))
        *at = h;
}

static void choose_of_value(building *b, const cr_value *v)
{
    if (v->tag == CR_TENSOR && !v->t->number)
        choose_base(b, v->t);
    for (uint32_t i = 0; v->tag == CR_TENSORS && i < v->len; i++)
        choose_of_value(b, &v->list[i]);
}

static void choose_bases(building *b)
{
    for (size_t i = 0; i < b->x->calls.len; i++) {
        const cr_noted *n = &b->x->calls.at[i];
        for (int k = 0; k < n->outs; k++)
            b->base[n->out[k]->index] = n->like[k];
        for (int a = 0; n->live && a < n->op->param_count; a++)
            choose_of_value(b, &n->arg[a]);
    }
}

static cr_gnode *defer_node(building *b, const cr_op *op, const cr_garg *arg, int results)
{
    return cr_graph_call(b->g, b->g->body, op, arg, results, NULL);
}

static cr_garg ints_arg(building *b, const int64_t *at, int n)
{
    int64_t *copy = CR_NEW_N(b->g->session, int64_t, n + 1);

    memcpy(copy, at, (size_t)n * sizeof *at);
    return (cr_garg){.tag = CR_INTS, .len = (uint32_t)n, .ints = copy};
}

/* The order of base's dims in which they are those of `h`. */
static bool is_permuted(const cr_tensor *base, const cr_tensor *h, int64_t *dims)
{
    uint64_t used = 0;

    if (h->ndim != base->ndim || h->offset != base->offset)
        return false;
    for (int d = 0; d < h->ndim; d++) {
        int at = 0;
        while (at < base->ndim && (used >> at & 1 || base->size[at] != h->size[d] ||
                                   base->stride[at] != h->stride[d]))
            at++;
        if (at == base->ndim)
            return false;
        used |= (uint64_t)1 << at;
        dims[d] = at;
    }
    return true;
}

static cr_gvalue *view_value(building *b, const cr_tensor *base, cr_gvalue *v,
                             const cr_tensor *h)
{
    int64_t dims[CR_MAX_DIMS];
    cr_garg arg[4] = {cr_garg_value(v)};
    cr_gnode *n;

    if (base->dtype != h->dtype)
        cr_bail(b->g->session, CR_VALUE, "a view with another dtype");
    if (is_permuted(base, h, dims)) {
        arg[1] = ints_arg(b, dims, h->ndim);
        n = defer_node(b, cr_entry.permute, arg, 1);
    } else if (base->contiguous && h->contiguous && base->numel == h->numel &&
               base->offset == h->offset) {
        arg[1] = ints_arg(b, h->size, h->ndim);
        n = defer_node(b, cr_entry.view, arg, 1);
    } else if (covers(base)) {
        arg[1] = ints_arg(b, h->size, h->ndim);
        arg[2] = ints_arg(b, h->stride, h->ndim);
        arg[3] = (cr_garg){.tag = CR_INT, .i = h->offset};
        n = defer_node(b, cr_entry.as_strided, arg, 1);
    } else {
        cr_bail(b->g->session, CR_VALUE, "views of a part of a storage");
    }
    n->result[0]->type = cr_gtype_of(b->g->session, h);
    return n->result[0];
}

static cr_gvalue *value_of(building *b, const cr_tensor *h)
{
    size_t m = cr_memory_of(h)->index;

    if (!b->value[m])
        cr_bail(b->g->session, CR_VALUE, "a storage without a value");
    return defer_same_geometry(b->base[m], h) ? b->value[m]
                                              : view_value(b, b->base[m], b->value[m], h);
}

static cr_garg defer_arg(building *b, const cr_value *v)
{
    cr_garg a = {.tag = v->tag, .len = v->len};
    cr_scalar n;

    if (v->tag == CR_TENSOR && v->t->number) {
        cr_session_check(b->g->session, literal_of(&n, v->t));
        return (cr_garg){.tag = CR_NUMBER, .number = n};
    }
    if (v->tag == CR_TENSOR)
        return cr_garg_value(value_of(b, v->t));
    if (v->tag == CR_TENSORS || v->tag == CR_NUMBERS) {
        cr_garg *list = CR_NEW_N(b->g->session, cr_garg, v->len + 1);
        for (uint32_t i = 0; i < v->len; i++)
            list[i] = defer_arg(b, &v->list[i]);
        a.list = list;
        return a;
    }
    memcpy(&a.number, &v->number, sizeof a.number);
    return a;
}

static void build_call(building *b, const cr_noted *n)
{
    cr_garg arg[CR_MAX_ARGS];

    for (int i = 0; i < n->op->param_count; i++)
        arg[i] = defer_arg(b, &n->arg[i]);
    cr_gnode *node = defer_node(b, n->op, arg, n->results);
    for (int k = 0; k < n->results; k++) {
        const cr_tensor *h = n->result[k];
        if (!h)
            cr_bail(b->g->session, CR_VALUE, "%s has a result without a storage", n->op->name);
        node->result[k]->type = cr_gtype_of(b->g->session, h);
        cr_memory *m = cr_memory_of(h);
        if (m->made && b->base[m->index] == h)
            b->value[m->index] = node->result[k];
    }
}

static void build_inputs(building *b)
{
    cr_session *s = b->g->session;

    b->e->input = cr_alloc((b->x->memories.len + 1) * sizeof *b->e->input);
    b->e->output = cr_alloc((b->x->memories.len + 1) * sizeof *b->e->output);
    if (!b->e->input || !b->e->output)
        cr_bail(s, CR_MEMORY, "memory is short");
    for (size_t i = 0; i < b->x->memories.len; i++) {
        if (b->x->memories.at[i]->made || !b->base[i])
            continue;
        cr_gtype type = cr_gtype_of_input(s, b->base[i]);
        b->value[i] = cr_graph_input(b->g, NULL, &type);
        b->e->input[b->e->inputs++] = i;
    }
}

static void build_graph(cr_session *s, void *context)
{
    building *b = context;
    size_t n = b->x->memories.len;

    b->g = cr_graph_new(s);
    b->base = CR_NEW_N(s, const cr_tensor *, n + 1);
    b->value = CR_NEW_N(s, cr_gvalue *, n + 1);
    memset(b->base, 0, (n + 1) * sizeof *b->base);
    memset(b->value, 0, (n + 1) * sizeof *b->value);
    choose_bases(b);
    build_inputs(b);
    for (size_t i = 0; i < b->x->calls.len; i++)
        if (b->x->calls.at[i].live)
            build_call(b, &b->x->calls.at[i]);
    cr_garg *out = CR_NEW_N(s, cr_garg, n + 1);
    for (size_t i = 0; i < n; i++) {
        cr_memory *m = b->x->memories.at[i];
        if (!m->made || m->last != SIZE_MAX)
            continue;
        if (!b->value[i] || !covers(b->base[i]))
            cr_bail(s, CR_VALUE, "a result that is a part of its storage");
        out[b->e->outputs] = cr_garg_value(b->value[i]);
        b->e->output[b->e->outputs++] = i;
    }
    out[b->e->outputs] = cr_garg_value(NULL); /* a graph without outputs loses its writes */
    cr_gblock_return(b->g, b->g->body, out, b->e->outputs + 1);
    cr_graph_verify(b->g);
}

static cr_status entry_compile(entry *e, cr_trace *x)
{
    building b = {.x = x, .e = e};
    cr_session *s = cr_session_new();

    if (!s)
        return CR_MEMORY;
    e->inputs = e->outputs = 0;
    cr_status st = cr_session_run(s, build_graph, &b);
    if (!st)
        st = cr_compiled_call_new(&e->call, b.g, false, 0);
    if (b.g)
        cr_graph_drop(b.g);
    cr_session_release(s);
    return st;
}

/* --- runs --- */
/* Inputs are headers over the storages themselves: programs keep facts about storages. */
static cr_status input_header(cr_tensor **out, const cr_trace *x, const entry *e, int i,
                              const cr_tensor *base)
{
    cr_storage *real = x->memories.at[e->input[i]]->real;

    CR_TRY(cr_tensor_over(out, real, (cr_dtype)base->dtype, base->ndim, base->size,
                          base->stride, base->offset));
    cr_storage_keep(real);
    (*out)->stages &= ~CR_STAGE_BIT(DEFER);
    return CR_OK;
}

/* Gives the pending storage the elements of an output. */
static cr_status bind_output(cr_memory *m, const cr_tensor *like, cr_tensor *t)
{
    cr_storage *s;
    cr_tensor *to = NULL;
    cr_status st = CR_OK;

    if (!t->offset && t->storage->size == m->real->size && !t->storage->release &&
        defer_same_geometry(t, like)) {
        s = cr_storage_keep(t->storage);
        cr_drop(t);
        st = cr_storage_bind(m->real, s);
        cr_storage_drop(s);
        return st;
    }
    CR_GO(cr_storage_new(&s, m->real->device, m->real->size));
    st = cr_tensor_over(&to, s, (cr_dtype)like->dtype, like->ndim, like->size, like->stride, 0);
    if (st) {
        cr_storage_drop(s);
        goto done;
    }
    CR_GO(cr_copy_tensor(to, t));
    cr_storage_keep(s);
    cr_drop(to);
    to = NULL;
    st = cr_storage_bind(m->real, s);
    cr_storage_drop(s);
done:
    cr_drop(to);
    cr_drop(t);
    return st;
}

typedef struct {
    cr_tensor **input, **output;
    uint32_t *version;
    const cr_tensor **base;
} running;

static void find_bases(const cr_trace *x, const cr_tensor **base)
{
    building b = {.x = (cr_trace *)(uintptr_t)x, .base = base};

    choose_bases(&b);
}

static cr_status entry_run(const entry *e, cr_trace *x, running *r)
{
    cr_status st = CR_OK;

    find_bases(x, r->base);
    for (int i = 0; i < e->inputs; i++) {
        CR_TRY(input_header(&r->input[i], x, e, i, r->base[e->input[i]]));
        r->version[i] = r->input[i]->storage->version;
    }
    st = cr_compiled_call_run(e->call, r->input, NULL, r->output);
    for (int i = 0; i < e->inputs; i++)
        r->input[i]->storage->version = r->version[i];
    CR_TRY(st);
    for (int k = 0; k < e->outputs; k++) {
        cr_tensor *t = r->output[k];
        r->output[k] = NULL;
        cr_status one = bind_output(x->memories.at[e->output[k]], r->base[e->output[k]], t);
        st = st ? st : one;
    }
    return st;
}

static cr_status run_entry(const entry *e, cr_trace *x)
{
    size_t n = (size_t)(e->inputs + e->outputs + 1), all = x->memories.len + 1;
    running r = {.input = cr_alloc_zero(2 * n * sizeof *r.input),
                 .version = cr_alloc_zero(n * sizeof *r.version),
                 .base = cr_alloc_zero(all * sizeof *r.base)};
    cr_status st = r.input && r.version && r.base ? CR_OK : CR_MEMORY;

    r.output = r.input ? r.input + n : NULL;
    if (!st)
        st = entry_run(e, x, &r);
    for (size_t i = 0; r.input && i < 2 * n; i++)
        cr_drop(r.input[i]);
    cr_free(r.input);
    cr_free(r.version);
    cr_free(r.base);
    return st;
}

/* --- a flush --- */
static void headers_are_real(cr_trace *x)
{
    for (size_t i = 0; i < x->calls.len; i++) {
        const cr_noted *n = &x->calls.at[i];
        cr_noted_each(n, cr_header_device_is_real, NULL);
        for (int k = 0; k < n->results; k++)
            if (n->result[k])
                cr_header_device_is_real(n->result[k], NULL);
    }
}

/* The program for the trace; NULL: it is replayed. */
static const entry *entry_for(cr_trace *x)
{
    key_words k = {0};
    entry *e = NULL;

    if (!key_of(&k, x)) {
        pthread_mutex_lock(&entries_lock);
        e = entry_find(&k);
        if (e && !e->call && !e->refused && ++e->seen > 1 - first_sight) {
            headers_are_real(x);
            e->refused = entry_compile(e, x) != CR_OK;
            if (e->refused)
                cr_log_line("capture", 1, "%zu deferred calls are no program: %s", x->calls.len,
                            cr_error_message());
        }
        pthread_mutex_unlock(&entries_lock);
    }
    cr_vec_drop(&k);
    return e && e->call ? e : NULL;
}

static size_t live_calls(const cr_trace *x)
{
    size_t n = 0;

    for (size_t i = 0; i < x->calls.len; i++)
        n += x->calls.at[i].live;
    return n;
}

static cr_status flush_by_program(cr_trace *x, bool *done)
{
    *done = false;
    if (x->calls.len > MOST_TRACED || live_calls(x) < LEAST_CALLS)
        return CR_OK;
    if (pause_left) {
        pause_left--;
        return CR_OK;
    }
    const entry *e = entry_for(x);
    if (!e) {
        if (++misses >= MANY_MISSES) {
            misses = 0;
            pause_left = PAUSE;
        }
        return CR_OK;
    }
    misses = 0;
    *done = true;
    return run_entry(e, x);
}

void cr_defer_use_programs(bool at_first_sight)
{
    first_sight = at_first_sight;
    cr_defer_by_program = flush_by_program;
}
