/* Captures of streams, and the graphs that they make. */
#include "device/cuda/graph.h"
#include "base/memory.h"
#include "device/cuda/driver.h"
#include "device/generators.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { GRAPH_STATE_BYTES = 16, BLOCK_WORDS = 4 };

/* A generator of a graph: its seed and first block are in memory of the device. */
typedef struct {
    cr_generator *generator;
    void *state;
    uint32_t block;
    uint64_t words; /* that a launch draws */
} graph_draws;

struct cr_cuda_graph {
    cr_cuda_graph *next; /* of those that are captured */
    int index;
    void *stream;
    uint64_t id; /* of the capture */
    cr_cuda_pool *pool;
    cr_cuda_pool_number number;
    void *graph, *exec;
    bool keeps, captured;
    CR_VEC(graph_draws) draws;
    CR_VEC(void *) bytes; /* page-locked memory that copies of the graph read */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_cuda_graph *underway;
static _Atomic int captures;

#define GRAPH_TRY(call)                                                                        \
    do {                                                                                       \
        const char *graph_error = (call);                                                      \
        if (graph_error)                                                                       \
            return graph_error;                                                                \
    } while (0)

static const char *graph_say(const char *text)
{
    return cr_fail(CR_RUNTIME, "%s", text) ? cr_error_message() : NULL;
}

/* --- what other files ask --- */

bool cr_cuda_captures(void)
{
    return CR_UNLIKELY(atomic_load_explicit(&captures, memory_order_relaxed) != 0);
}

/* The capture of a stream; 0 without one. */
static uint64_t capture_id(void *stream)
{
    int status = 0;
    uint64_t id = 0;

    if (!stream || cr_cuda_load_driver()->capture_info(stream, &status, &id, NULL, NULL, NULL))
        return 0;
    return status == CR_CUDA_CAPTURE_ACTIVE ? id : 0;
}

bool cr_cuda_is_capturing(int index)
{
    void *stream = cr_cuda_captures() ? cr_cuda_stream(index) : NULL;
    int status = 0;

    return stream && !cr_cuda_use(index) &&
           !cr_cuda_load_driver()->capture_info(stream, &status, NULL, NULL, NULL, NULL) &&
           status;
}

/* The graph that the stream's work becomes a part of; the caller holds the lock. */
static cr_cuda_graph *graph_of(int index, void *stream)
{
    uint64_t id = capture_id(stream);
    cr_cuda_graph *g = id ? underway : NULL;

    while (g && (g->index != index || g->id != id))
        g = g->next;
    return g;
}

cr_cuda_pool *cr_cuda_pool_of(int index, void *stream)
{
    if (!cr_cuda_captures())
        return NULL;
    pthread_mutex_lock(&lock);
    const cr_cuda_graph *g = graph_of(index, stream);
    cr_cuda_pool *pool = g ? g->pool : NULL;
    pthread_mutex_unlock(&lock);
    return pool;
}

const void *cr_cuda_capture_bytes(int index, const void *host, size_t n)
{
    void *copy = cr_cuda_pinned_get(index, n);

    if (!copy) {
        (void)graph_say("CUDA: no page-locked memory for a copy of a graph");
        return NULL;
    }
    memcpy(copy, host, n);
    pthread_mutex_lock(&lock);
    cr_cuda_graph *g = graph_of(index, cr_cuda_stream(index));
    bool kept = g && !cr_vec_reserve(&g->bytes, 1);
    if (kept)
        cr_vec_put(&g->bytes, copy);
    pthread_mutex_unlock(&lock);
    if (kept)
        return copy;
    cr_cuda_pinned_release(copy);
    if (!g)
        (void)graph_say("CUDA: a capture that failed takes no copies");
    return NULL;
}

int cr_cuda_relax(void)
{
    int mode = CR_CUDA_CAPTURE_RELAXED;

    return cr_cuda_captures() && !cr_cuda_load_driver()->capture_mode(&mode)
               ? mode
               : CR_CUDA_CAPTURE_RELAXED;
}

void cr_cuda_tighten(int mode)
{
    if (mode != CR_CUDA_CAPTURE_RELAXED)
        (void)cr_cuda_load_driver()->capture_mode(&mode);
}

/* --- pools --- */

cr_cuda_pool_number cr_cuda_pool_new(void)
{
    static _Atomic uint64_t last;

    return (cr_cuda_pool_number){0, atomic_fetch_add(&last, 1) + 1};
}

/* The number of the pool of a graph that was given none. */
static cr_cuda_pool_number pool_of_graph(void)
{
    static _Atomic uint64_t last;

    return (cr_cuda_pool_number){atomic_fetch_add(&last, 1) + 1, 0};
}

/* --- graphs --- */

cr_cuda_graph *cr_cuda_graph_new(bool keeps)
{
    cr_cuda_graph *g = cr_alloc_zero(sizeof *g);

    if (g)
        g->keeps = keeps;
    return g;
}

const char *cr_cuda_graph_register(cr_cuda_graph *g, cr_generator *generator)
{
    for (size_t i = 0; i < g->draws.len; i++)
        if (g->draws.at[i].generator == generator)
            return NULL;
    if (cr_vec_reserve(&g->draws, 1))
        return cr_error_message();
    graph_draws d = {.generator = cr_generator_hold(generator)};
    cr_vec_put(&g->draws, d);
    return NULL;
}

static const char *draws_begin(cr_cuda_graph *g)
{
    cr_device d = {.kind = CR_CUDA, .index = (uint8_t)g->index};

    GRAPH_TRY(cr_cuda_graph_register(g, cr_device_generator(d)));
    for (size_t i = 0; i < g->draws.len; i++) {
        graph_draws *draws = &g->draws.at[i];
        if (!draws->state)
            draws->state = cr_cuda_memory_get(g->index, GRAPH_STATE_BYTES, &draws->block);
        if (!draws->state)
            return graph_say("CUDA: no memory for a generator's state");
    }
    for (size_t i = 0; i < g->draws.len; i++)
        cr_generator_capture(g->draws.at[i].generator, g->draws.at[i].state);
    return NULL;
}

static void draws_end(cr_cuda_graph *g)
{
    for (size_t i = 0; i < g->draws.len; i++)
        g->draws.at[i].words = cr_generator_end_capture(g->draws.at[i].generator);
}

/* Sets what a launch draws from, and moves the generators behind it. */
static const char *draws_set(const cr_cuda_graph *g)
{
    const cr_cuda_driver *d = cr_cuda_load_driver();

    for (size_t i = 0; i < g->draws.len; i++) {
        const graph_draws *draws = &g->draws.at[i];
        uint64_t state[2], offset;
        if (!draws->words)
            continue;
        cr_generator_reserve(draws->generator, draws->words, &state[0], &offset);
        state[1] = offset / BLOCK_WORDS;
        GRAPH_TRY(cr_cuda_check(d->copy_in((uintptr_t)draws->state, state, sizeof state,
                                           cr_cuda_stream(g->index))));
    }
    return NULL;
}

static void capture_add(cr_cuda_graph *g)
{
    pthread_mutex_lock(&lock);
    g->id = capture_id(g->stream);
    g->next = underway;
    underway = g;
    pthread_mutex_unlock(&lock);
}

static void capture_take(cr_cuda_graph *g)
{
    pthread_mutex_lock(&lock);
    for (cr_cuda_graph **at = &underway; *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            break;
        }
    g->next = NULL;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&captures, 1);
}

static const char *graph_mode(int *out, const char *name)
{
    static const char *const names[] = {"global", "thread_local", "relaxed"};

    for (*out = 0; *out < (int)CR_LEN(names); ++*out)
        if (!strcmp(names[*out], name))
            return NULL;
    (void)cr_fail(CR_RUNTIME,
                  "Unknown capture error mode. Expected `global`, `thread_local`, or "
                  "`relaxed`, got %s",
                  name);
    return cr_error_message();
}

static void graph_leave_pool(cr_cuda_graph *g)
{
    if (g->pool)
        cr_cuda_pool_leave(g->pool);
    g->pool = NULL;
}

const char *cr_cuda_graph_begin(cr_cuda_graph *g, int index, const char *mode,
                                const cr_cuda_pool_number *pool)
{
    void *stream = cr_cuda_stream(index);
    int which;

    GRAPH_TRY(graph_mode(&which, mode));
    if (g->captured || g->pool)
        return graph_say("This CUDAGraph instance already owns a captured graph. To capture a "
                         "new graph, create a new instance.");
    if (!stream)
        return graph_say(
            "CUDA graphs must be captured on a non-default stream. (However, after "
            "capture, it's ok to replay them on the default stream.)");
    GRAPH_TRY(cr_cuda_use(index));
    g->index = index;
    g->stream = stream;
    GRAPH_TRY(draws_begin(g));
    g->number = pool ? *pool : pool_of_graph();
    g->pool = cr_cuda_pool_use(index, g->number.first, g->number.second);
    if (!g->pool) {
        draws_end(g);
        return cr_error_message();
    }
    atomic_fetch_add(&captures, 1);
    const char *error = cr_cuda_check(cr_cuda_load_driver()->capture_begin(stream, which));
    if (!error) {
        capture_add(g);
        return NULL;
    }
    atomic_fetch_sub(&captures, 1);
    draws_end(g);
    graph_leave_pool(g);
    return error;
}

/* Ends the capture that the graph began.  A graph whose capture failed has no pool. */
static const char *capture_stop(cr_cuda_graph *g)
{
    const char *error = cr_cuda_use(g->index);

    if (!error)
        error = cr_cuda_check(cr_cuda_load_driver()->capture_end(g->stream, &g->graph));
    draws_end(g);
    capture_take(g);
    if (!error && !g->graph)
        error = graph_say("Invalid capture.");
    if (error)
        graph_leave_pool(g);
    return error;
}

const char *cr_cuda_graph_end(cr_cuda_graph *g, bool *empty)
{
    size_t nodes = 0;

    *empty = false;
    if (!g->pool || g->captured)
        return graph_say("Called CUDAGraph::capture_end without a preceding capture_begin.");
    if (cr_cuda_stream(g->index) != g->stream)
        return graph_say("Capture must end on the same stream it began on.");
    GRAPH_TRY(capture_stop(g));
    g->captured = true;
    GRAPH_TRY(cr_cuda_check(cr_cuda_load_driver()->graph_nodes(g->graph, NULL, &nodes)));
    *empty = !nodes;
    return g->keeps ? NULL : cr_cuda_graph_make(g);
}

const char *cr_cuda_graph_make(cr_cuda_graph *g)
{
    const cr_cuda_driver *d = cr_cuda_load_driver();

    if (!g->graph)
        return graph_say("capture_end() must have been called before calling instantiate");
    GRAPH_TRY(cr_cuda_use(g->index));
    if (g->exec)
        d->graph_exec_drop(g->exec);
    g->exec = NULL;
    return cr_cuda_check(d->graph_make(&g->exec, g->graph, CR_CUDA_GRAPH_FREES));
}

const char *cr_cuda_graph_replay(cr_cuda_graph *g)
{
    if (!g->captured)
        return graph_say("Called CUDAGraph::replay without a preceding successful capture.");
    if (!g->exec)
        GRAPH_TRY(cr_cuda_graph_make(g));
    GRAPH_TRY(cr_cuda_use(g->index));
    GRAPH_TRY(draws_set(g));
    return cr_cuda_check(
        cr_cuda_load_driver()->graph_launch(g->exec, cr_cuda_stream(g->index)));
}

/* Work of the graph may still run, so the host waits for it. */
static const char *graph_settle(const cr_cuda_graph *g)
{
    if (!g->exec || cr_cuda_captures() || !cr_cuda_is_initialized())
        return NULL;
    GRAPH_TRY(cr_cuda_use(g->index));
    return cr_cuda_check(cr_cuda_load_driver()->context_wait());
}

const char *cr_cuda_graph_reset(cr_cuda_graph *g)
{
    const cr_cuda_driver *d = cr_cuda_load_driver();
    const char *error = graph_settle(g);
    bool alive = cr_cuda_is_initialized() && !cr_cuda_use(g->index);

    if (g->pool && !g->captured)
        (void)capture_stop(g); /* a capture that was not ended */
    if (g->exec && alive)
        d->graph_exec_drop(g->exec);
    if (g->graph && alive)
        d->graph_drop(g->graph);
    g->exec = g->graph = NULL;
    g->captured = false;
    graph_leave_pool(g);
    for (size_t i = 0; i < g->draws.len; i++) {
        if (g->draws.at[i].state)
            cr_cuda_memory_release(g->index, g->draws.at[i].state, g->draws.at[i].block);
        cr_generator_drop(g->draws.at[i].generator);
    }
    g->draws.len = 0;
    for (size_t i = 0; i < g->bytes.len; i++)
        cr_cuda_pinned_release(g->bytes.at[i]);
    g->bytes.len = 0;
    return error;
}

void cr_cuda_graph_drop(cr_cuda_graph *g)
{
    (void)cr_cuda_graph_reset(g);
    cr_vec_drop(&g->draws);
    cr_vec_drop(&g->bytes);
    cr_free(g);
}

const char *cr_cuda_graph_pool(const cr_cuda_graph *g, cr_cuda_pool_number *out)
{
    if (!g->captured)
        return graph_say("Called CUDAGraph::pool() without a preceding successful capture.");
    *out = g->number;
    return NULL;
}

const char *cr_cuda_graph_raw(const cr_cuda_graph *g, bool launchable, void **out)
{
    *out = launchable ? g->exec : g->graph;
    if (!launchable && !g->keeps)
        return graph_say("You cannot access the raw cudaGraph_t instance unless CUDAGraph was "
                         "initialized with keep_graph=true");
    if (!launchable && !g->graph)
        return graph_say("You cannot access the raw cudaGraph_t instance until "
                         "CUDAGraph::capture_end() has been called");
    if (launchable && !g->exec)
        return graph_say("You cannot access the raw cudaGraphExec_t instance until "
                         "CUDAGraph::instantiate() has been called");
    return NULL;
}

const char *cr_cuda_graph_print(const cr_cuda_graph *g, const char *path)
{
    if (!g->graph)
        return graph_say("CUDA: there is no graph to print");
    return cr_cuda_check(cr_cuda_load_driver()->graph_print(g->graph, path, 1));
}
