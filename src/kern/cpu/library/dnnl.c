/* oneDNN: loading, primitives and their cache.
 *
 * The cache is a table of sets.  A key may be at any place of its set; a new key replaces the
 * one unused longest.  Entries are reference counted, so that one thread may run an entry that
 * another thread evicts.  A key that oneDNN refuses is kept as well, because asking costs about
 * a millisecond. */
#include "kern/cpu/library/dnnl.h"
#include "base/library.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/workers.h"
#include "kern/cpu/pack.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

_Static_assert(DNNL_VERSION_MAJOR == 2, "the interface of oneDNN 2 is used");

static cr_dnnl_table table;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const names[] = {"libdnnl.so.2", NULL};
static const cr_symbol symbols[] = {
#define CR_DNNL(name, args)               {#name, &table.name},
#define CR_DNNL_OTHER(result, name, args) {#name, &table.name},
#include "kern/cpu/library/dnnl.def"
#undef CR_DNNL
#undef CR_DNNL_OTHER
};

bool cr_dnnl_attr(const cr_dnnl_table *d, dnnl_primitive_attr_t *out)
{
    if (d->dnnl_primitive_attr_create(out))
        return false;
    if (!d->dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user))
        return true;
    d->dnnl_primitive_attr_destroy(*out);
    return false;
}

static void dnnl_load(void)
{
    /* with too little address space its constructors crash */
    found = cr_library_has_room((size_t)192 << 20) &&
            cr_library_load(names, symbols, CR_LEN(symbols)) &&
            !table.dnnl_engine_create(&table.engine, dnnl_cpu, 0) &&
            !table.dnnl_stream_create(&table.stream, table.engine, dnnl_stream_default_flags) &&
            cr_dnnl_attr(&table, &table.attr);
    if (!found)
        cr_log_line("kern", 1, "no oneDNN: slower kernels are used");
}

const cr_dnnl_table *cr_dnnl(void)
{
    pthread_once(&once, dnnl_load);
    return found ? &table : NULL;
}

/* --- OpenMP's threads --- */

/* How many threads oneDNN may use, at most `most`. */
static int threads_up_to(int most)
{
    int threads = cr_in_parallel() ? 1 : cr_threads();

    return threads < most ? threads : most;
}

typedef struct {
    int threads, before; /* of the calling thread's regions: between begin and end, and else */
} team;

/* Until the end, regions of the calling thread have this many threads.  Other libraries of the
 * program may use OpenMP, too. */
static team team_begin(int threads)
{
    team t = {threads, table.omp_get_max_threads()};

    if (threads != t.before)
        table.omp_set_num_threads(threads);
    if (threads > 1)
        cr_workers_yield();
    return t;
}

static void team_end(const team *t)
{
    if (t->threads > 1)
        cr_workers_resume();
    if (t->threads != t->before)
        table.omp_set_num_threads(t->before);
}

/* --- primitives --- */

typedef struct {
    dnnl_primitive_t run;
    dnnl_memory_desc_t scratch; /* the scratch memory of a run */
    size_t scratch_bytes;
} runner;

typedef struct {
    int arg;
    bool output;
    runner reorder; /* .run is NULL when the primitive uses the plain layout */
    dnnl_memory_desc_t plain, own;
} operand;

struct cr_dnnl_primitive {
    _Atomic int count;
    int threads; /* for which it was made */
    runner self; /* .run is NULL when oneDNN refused the key */
    int operands;
    operand operand[CR_DNNL_OPERANDS];
};

void cr_dnnl_operand(cr_dnnl_recipe *r, int arg, bool output, const dnnl_memory_desc_t *plain)
{
    CR_ASSERT(r->count < CR_DNNL_OPERANDS);
    r->operand[r->count].arg = arg;
    r->operand[r->count].output = output;
    r->operand[r->count++].plain = *plain;
}

static bool runner_new(runner *r, dnnl_primitive_desc_t desc)
{
    r->scratch = *table.dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    r->scratch_bytes = table.dnnl_memory_desc_get_size(&r->scratch);
    if (!table.dnnl_primitive_create(&r->run, desc))
        return true;
    r->run = NULL;
    return false;
}

static void runner_free(runner *r)
{
    if (r->run)
        table.dnnl_primitive_destroy(r->run);
}

static void primitive_free(cr_dnnl_primitive *p)
{
    for (int i = 0; i < p->operands; i++)
        runner_free(&p->operand[i].reorder);
    runner_free(&p->self);
    cr_free(p);
}

void cr_dnnl_release(cr_dnnl_primitive *p)
{
    if (p && atomic_fetch_sub(&p->count, 1) == 1)
        primitive_free(p);
}

static bool make_reorder(operand *o)
{
    const dnnl_memory_desc_t *from = o->output ? &o->own : &o->plain;
    const dnnl_memory_desc_t *to = o->output ? &o->plain : &o->own;
    dnnl_primitive_desc_t desc;
    bool ok;

    if (table.dnnl_memory_desc_equal(from, to))
        return true;
    if (table.dnnl_reorder_primitive_desc_create(&desc, from, table.engine, to, table.engine,
                                                 table.attr))
        return false;
    ok = runner_new(&o->reorder, desc);
    table.dnnl_primitive_desc_destroy(desc);
    return ok;
}

static bool primitive_add_operands(cr_dnnl_primitive *p, const cr_dnnl_recipe *r)
{
    for (int i = 0; i < r->count; i++) {
        operand *o = &p->operand[p->operands++];
        const dnnl_memory_desc_t *own = table.dnnl_primitive_desc_query_md(
            r->desc, dnnl_query_exec_arg_md, r->operand[i].arg);

        *o = (operand){.arg = r->operand[i].arg, .output = r->operand[i].output};
        o->plain = r->operand[i].plain;
        o->own = *own;
        if (!make_reorder(o))
            return false;
    }
    return true;
}

/* Leaves p->self.run NULL when oneDNN has no primitive. */
static void primitive_build(cr_dnnl_primitive *p, const void *key, cr_dnnl_make make)
{
    cr_dnnl_recipe recipe = {0};

    if (!make(&table, key, &recipe))
        return;
    if (primitive_add_operands(p, &recipe))
        runner_new(&p->self, recipe.desc);
    table.dnnl_primitive_desc_destroy(recipe.desc);
}

/* --- the cache --- */

#ifdef CR_MEAN
enum { SETS = 1, WAYS = 1 };
#else
enum { SETS = 64, WAYS = 8 };
#endif

typedef struct {
    uint64_t used; /* 0: empty */
    uint64_t hash;
    size_t size;
    int threads;
    cr_dnnl_make make;
    cr_dnnl_primitive *primitive;
    char key[CR_DNNL_KEY_BYTES];
} place;

static place cache[SETS][WAYS];
static uint64_t now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static place *primitive_find(uint64_t hash, const void *key, size_t size, int threads,
                             cr_dnnl_make make)
{
    place *set = cache[hash % SETS];

    for (int i = 0; i < WAYS; i++)
        if (set[i].used && set[i].hash == hash && set[i].make == make && set[i].size == size &&
            set[i].threads == threads && !memcmp(set[i].key, key, size))
            return &set[i];
    return NULL;
}

static cr_dnnl_primitive *primitive_cached(uint64_t hash, const void *key, size_t size,
                                           int threads, cr_dnnl_make make)
{
    cr_dnnl_primitive *p = NULL;
    place *at;

    pthread_mutex_lock(&lock);
    at = primitive_find(hash, key, size, threads, make);
    if (at) {
        at->used = ++now;
        p = at->primitive;
        atomic_fetch_add(&p->count, 1);
    }
    pthread_mutex_unlock(&lock);
    return p;
}

static void primitive_remember(cr_dnnl_primitive *p, uint64_t hash, const void *key,
                               size_t size, int threads, cr_dnnl_make make)
{
    cr_dnnl_primitive *old;
    place *set = cache[hash % SETS], *at = set;

    pthread_mutex_lock(&lock);
    for (int i = 1; i < WAYS; i++)
        if (set[i].used < at->used)
            at = &set[i];
    old = at->used ? at->primitive : NULL;
    at->used = ++now;
    at->hash = hash;
    at->size = size;
    at->threads = threads;
    at->make = make;
    at->primitive = p;
    memcpy(at->key, key, size);
    atomic_fetch_add(&p->count, 1);
    pthread_mutex_unlock(&lock);
    cr_dnnl_release(old);
}

/* NULL when the entry says that oneDNN refused the key. */
static cr_dnnl_primitive *usable(cr_dnnl_primitive *p)
{
    if (p->self.run)
        return p;
    cr_dnnl_release(p);
    return NULL;
}

cr_dnnl_primitive *cr_dnnl_get(const void *key, size_t size, cr_dnnl_make make, int most)
{
    uint64_t hash = cr_hash(key, size);
    cr_dnnl_primitive *p;
    int threads;

    CR_ASSERT(size <= CR_DNNL_KEY_BYTES);
    if (!cr_dnnl() || cr_in_parallel())
        return NULL;
    threads = threads_up_to(most);
    p = primitive_cached(hash, key, size, threads, make);
    if (p)
        return usable(p);
    p = cr_alloc_zero(sizeof *p);
    if (!p)
        return NULL;
    p->count = 1;
    p->threads = threads;
    team t = team_begin(threads);
    primitive_build(p, key, make);
    team_end(&t);
    primitive_remember(p, hash, key, size, threads, make);
    return usable(p);
}

/* --- running --- */

typedef struct {
    dnnl_memory_t plain, own; /* own equals plain when no reorder is needed */
    void *scratch;
} binding;

static cr_status failed(void) { return cr_fail(CR_RUNTIME, "could not execute a primitive"); }

/* args has n elements, and room for one more. */
static cr_status execute(const runner *r, int n, dnnl_exec_arg_t *args)
{
    dnnl_memory_t scratch = NULL;
    void *bytes = NULL;
    cr_status st = CR_OK;

    if (r->scratch_bytes) {
        bytes = cr_aligned_alloc(r->scratch_bytes);
        CR_NEED(bytes);
        if (table.dnnl_memory_create(&scratch, &r->scratch, table.engine, bytes))
            st = failed();
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, scratch};
    }
    if (!st && table.dnnl_primitive_execute(r->run, table.stream, n, args))
        st = failed();
    if (scratch)
        table.dnnl_memory_destroy(scratch);
    cr_aligned_free(bytes);
    return st;
}

static cr_status reorder(const operand *o, const binding *b, bool into)
{
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_FROM, into ? b->plain : b->own},
                               {DNNL_ARG_TO, into ? b->own : b->plain}};

    return execute(&o->reorder, 2, args);
}

static cr_status operand_bind(const operand *o, binding *b, void *data, bool own)
{
    if (table.dnnl_memory_create(&b->plain, own ? &o->own : &o->plain, table.engine, data))
        return failed();
    if (!o->reorder.run || own) {
        b->own = b->plain;
        return CR_OK;
    }
    b->scratch = cr_aligned_alloc(table.dnnl_memory_desc_get_size(&o->own));
    CR_NEED(b->scratch);
    if (table.dnnl_memory_create(&b->own, &o->own, table.engine, b->scratch))
        return failed();
    return o->output ? CR_OK : reorder(o, b, true);
}

static void unbind(binding *b)
{
    if (b->own && b->own != b->plain)
        table.dnnl_memory_destroy(b->own);
    if (b->plain)
        table.dnnl_memory_destroy(b->plain);
    cr_aligned_free(b->scratch);
}

cr_status cr_dnnl_run(cr_dnnl_primitive *p, void *const *data)
{
    return cr_dnnl_run_own(p, data, 0);
}

cr_status cr_dnnl_run_own(cr_dnnl_primitive *p, void *const *data, unsigned own)
{
    binding b[CR_DNNL_OPERANDS] = {{0}};
    dnnl_exec_arg_t args[CR_DNNL_OPERANDS + 1];
    team t = team_begin(threads_up_to(p->threads));
    cr_status st;

    for (int i = 0; i < p->operands; i++) {
        CR_GO(operand_bind(&p->operand[i], &b[i], data[i], own >> i & 1));
        args[i] = (dnnl_exec_arg_t){p->operand[i].arg, b[i].own};
    }
    CR_GO(execute(&p->self, p->operands, args));
    for (int i = 0; i < p->operands; i++)
        if (p->operand[i].output && b[i].own != b[i].plain)
            CR_GO(reorder(&p->operand[i], &b[i], false));
done:
    for (int i = 0; i < p->operands; i++)
        unbind(&b[i]);
    team_end(&t);
    return st;
}

/* --- layouts --- */

size_t cr_dnnl_own_bytes(const cr_dnnl_primitive *p, int i)
{
    return table.dnnl_memory_desc_get_size(&p->operand[i].own);
}

bool cr_dnnl_own_is_plain(const cr_dnnl_primitive *p, int i)
{
    return !p->operand[i].reorder.run;
}

bool cr_dnnl_own_is_same(const cr_dnnl_primitive *a, const cr_dnnl_primitive *b, int i)
{
    return table.dnnl_memory_desc_equal(&a->operand[i].own, &b->operand[i].own);
}

int64_t cr_dnnl_own_block(const cr_dnnl_primitive *p, int i)
{
    const dnnl_memory_desc_t *d = &p->operand[i].own;
    const dnnl_blocking_desc_t *b = &d->format_desc.blocking;
    int64_t step;

    if (d->format_kind != dnnl_blocked || b->inner_nblks != 1 || b->inner_idxs[0] != 1 ||
        d->offset0 || memcmp(d->dims, d->padded_dims, (size_t)d->ndims * sizeof *d->dims))
        return 0;
    step = b->inner_blks[0];
    for (int k = d->ndims - 1; k >= 0; k--) {
        if (b->strides[k] != step)
            return 0;
        step *= k == 1 ? d->dims[k] / b->inner_blks[0] : d->dims[k];
    }
    return b->inner_blks[0];
}

cr_status cr_dnnl_pack(cr_dnnl_primitive *p, int i, void *plain, void *own)
{
    const operand *o = &p->operand[i];
    binding b = {0};
    team t = team_begin(threads_up_to(p->threads));
    cr_status st = CR_OK;

    if (table.dnnl_memory_create(&b.plain, &o->plain, table.engine, plain) ||
        table.dnnl_memory_create(&b.own, &o->own, table.engine, own))
        st = failed();
    if (!st)
        st = reorder(o, &b, true);
    unbind(&b);
    team_end(&t);
    return st;
}
