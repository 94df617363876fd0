/* Plans of cuDNN's graph interface. */
#include "kern/cuda/cudnn_graph.h"
#include "base/log.h"

/* Names of attributes: values of the library's enumeration. */
enum {
    CHOICE_MODE = 200,
    CHOICE_GRAPH = 201,
    CHOICE_RESULTS = 202,
    CONFIG_ENGINE = 300,
    PLAN_HANDLE = 400,
    PLAN_CONFIG = 401,
    PLAN_ROOM = 402,
    GRAPH_OF_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    TENSOR_ALIGNMENT = 900,
    TENSOR_DTYPE = 901,
    TENSOR_SIZES = 902,
    TENSOR_STRIDES = 903,
    TENSOR_ID = 906,
    TENSOR_IS_INNER = 907,
    TENSOR_IS_VALUE = 908,
    PACK_IDS = 1000,
    PACK_POINTERS = 1001,
    PACK_ROOM = 1003,
    ENGINE_NOTE = 1303
};

/* How the library chooses. */
enum { CHOOSE_WELL = 3, CHOOSE_ANY = 2, CHOOSE_LONG = 1 };
enum { NOTES = 32, CONFIGS = 32 };

static const cr_cudnn *const cudnn = &cr_cudnn_table;

static void graph_note(cudnn_graph *g, int failed, const char *where)
{
    if (failed && !g->failed) {
        g->failed = failed;
        g->where = where;
    }
}

void *cr_cudnn_new(cudnn_graph *g, int kind)
{
    cudnn_engine *e = g->engine;
    void *object = NULL;

    if (g->failed || e->count == CUDNN_OBJECTS)
        return NULL;
    graph_note(g, cudnn->new_object(kind, &object), "create");
    if (!g->failed)
        e->object[e->count++] = object;
    return g->failed ? NULL : object;
}

void cr_cudnn_set(cudnn_graph *g, void *object, int name, int type, int64_t n, const void *at)
{
    if (!g->failed)
        graph_note(g, cudnn->set_object(object, name, type, n, at), "set");
}

void cr_cudnn_end(cudnn_graph *g, void *object)
{
    if (!g->failed)
        graph_note(g, cudnn->end_object(object), "finalize");
}

void *cr_cudnn_array(cudnn_graph *g, const cudnn_array *a)
{
    static const bool yes = true;
    void *t = cr_cudnn_new(g, GRAPH_OF_TENSOR);
    int64_t id = a->id;

    if (!id) /* the library wants a number of arrays that calls do not have, too */
        id = CUDNN_INNER + g->engine->count;
    cr_cudnn_set(g, t, TENSOR_DTYPE, GRAPH_DTYPE, 1, &a->type);
    cr_cudnn_set(g, t, TENSOR_SIZES, GRAPH_INT, a->n, a->size);
    cr_cudnn_set(g, t, TENSOR_STRIDES, GRAPH_INT, a->n, a->stride);
    cr_cudnn_set(g, t, TENSOR_ID, GRAPH_INT, 1, &id);
    cr_cudnn_set(g, t, TENSOR_ALIGNMENT, GRAPH_INT, 1, &a->align);
    if (!a->id)
        cr_cudnn_set(g, t, TENSOR_IS_INNER, GRAPH_BOOL, 1, &yes);
    if (a->by_value)
        cr_cudnn_set(g, t, TENSOR_IS_VALUE, GRAPH_BOOL, 1, &yes);
    cr_cudnn_end(g, t);
    return t;
}

/* --- engines --- */

/* Whether the notes of a proposed engine are allowed. */
static bool config_is_allowed(uint64_t allowed, void *config)
{
    int note[NOTES];
    int64_t n = 0, one = 0;
    void *engine = NULL;
    bool is = !cudnn->new_object(GRAPH_OF_ENGINE, &engine) &&
              !cudnn->get_object(config, CONFIG_ENGINE, GRAPH_OBJECT, 1, &one, &engine) &&
              !cudnn->get_object(engine, ENGINE_NOTE, GRAPH_NOTE, NOTES, &n, note);

    for (int64_t i = 0; i < n && is; i++)
        is = note[i] >= 0 && note[i] < 64 && (allowed >> note[i] & 1);
    if (engine)
        cudnn->drop_object(engine);
    return is;
}

/* The plan of a configuration, unless it needs more than `most` bytes. */
static bool graph_plan(cudnn_graph *g, void *config, size_t most)
{
    cudnn_engine *e = g->engine;
    int64_t room = 0, n = 0;
    void *plan = NULL;
    bool works = !cudnn->new_object(GRAPH_OF_PLAN, &plan) &&
                 !cudnn->set_object(plan, PLAN_HANDLE, GRAPH_HANDLE, 1, &g->handle) &&
                 !cudnn->set_object(plan, PLAN_CONFIG, GRAPH_OBJECT, 1, &config) &&
                 !cudnn->end_object(plan) &&
                 !cudnn->get_object(plan, PLAN_ROOM, GRAPH_INT, 1, &n, &room) &&
                 (size_t)room <= most;

    if (works) {
        e->plan = plan;
        e->room = (size_t)room;
    } else if (plan)
        cudnn->drop_object(plan);
    return works;
}

/* The configurations that the library proposes for a graph, the best first; returns how many.
 * All `CONFIGS` objects are the caller's. */
static int graph_configs(cudnn_graph *g, void *of, int mode, void *config[CONFIGS])
{
    void *choice = cr_cudnn_new(g, GRAPH_OF_CHOICE);
    int64_t n = 0;

    cr_cudnn_set(g, choice, CHOICE_GRAPH, GRAPH_OBJECT, 1, &of);
    cr_cudnn_set(g, choice, CHOICE_MODE, GRAPH_CHOICE_MODE, 1, &mode);
    cr_cudnn_end(g, choice);
    for (int i = 0; i < CONFIGS && !g->failed; i++)
        graph_note(g, cudnn->new_object(GRAPH_OF_CONFIG, &config[i]), "create");
    if (!g->failed)
        graph_note(g,
                   cudnn->get_object(choice, CHOICE_RESULTS, GRAPH_OBJECT, CONFIGS, &n, config),
                   "get");
    return g->failed ? 0 : (int)(n < CONFIGS ? n : CONFIGS);
}

/* Makes the plan of the first configuration that works with at most `most` bytes.  The engine
 * keeps the configuration. */
static void graph_find(cudnn_graph *g, void *of, int mode, const cudnn_wish *wish, size_t most)
{
    cudnn_engine *e = g->engine;
    void *config[CONFIGS] = {NULL};
    int n = graph_configs(g, of, mode, config);

    for (int i = 0; i < n && !e->plan && e->count < CUDNN_OBJECTS; i++)
        if (config_is_allowed(wish->notes, config[i]) && graph_plan(g, config[i], most)) {
            cr_log_line("cuda", 1, "%s takes choice %d of %d, %zu bytes", wish->what, i, n,
                        e->room);
            e->object[e->count++] = config[i];
            config[i] = NULL;
        }
    for (int i = 0; i < CONFIGS; i++)
        if (config[i])
            cudnn->drop_object(config[i]);
}

static void *graph_of(cudnn_graph *g, void *const *operation, int n)
{
    void *all = cr_cudnn_new(g, GRAPH_OF_GRAPH);

    cr_cudnn_set(g, all, GRAPH_OPERATIONS, GRAPH_OBJECT, n, operation);
    cr_cudnn_set(g, all, GRAPH_OF_HANDLE, GRAPH_HANDLE, 1, &g->handle);
    cr_cudnn_end(g, all);
    return g->failed ? NULL : all;
}

void cr_cudnn_choose(cudnn_graph *g, void *const *operation, int n, const cudnn_wish *wish)
{
    const struct {
        int mode;
        size_t most;
    } way[] = {{CHOOSE_LONG, wish->modest < wish->most ? wish->modest : wish->most},
               {CHOOSE_WELL, wish->modest < wish->most ? wish->modest : wish->most},
               {CHOOSE_WELL, wish->most},
               {CHOOSE_ANY, wish->most}};
    void *of = graph_of(g, operation, n);

    for (size_t i = !wish->exact; of && i < CR_LEN(way) && !g->engine->plan; i++) {
        g->failed = 0;
        if (i < 2 || way[i].mode != way[i - 1].mode || way[i].most != way[i - 1].most)
            graph_find(g, of, way[i].mode, wish, way[i].most);
    }
    if (g->failed)
        cr_log_line("cuda", 1, "no engine for %s: %s, %s", wish->what, g->where,
                    cudnn->error_text(g->failed));
    if (!g->engine->plan)
        cr_cudnn_engine_drop(g->engine);
}

void cr_cudnn_engine_drop(cudnn_engine *engine)
{
    if (engine->plan)
        cudnn->drop_object(engine->plan);
    while (engine->count)
        cudnn->drop_object(engine->object[--engine->count]);
    engine->plan = NULL;
}

int cr_cudnn_engine_run(const cudnn_engine *engine, void *handle, int n, const int64_t *id,
                        void *const *at, void *room)
{
    void *pack = NULL;
    int failed = cudnn->new_object(GRAPH_OF_PACK, &pack);

    if (!failed)
        failed = cudnn->set_object(pack, PACK_IDS, GRAPH_INT, n, id);
    if (!failed)
        failed = cudnn->set_object(pack, PACK_POINTERS, GRAPH_POINTER, n, at);
    if (!failed)
        failed = cudnn->set_object(pack, PACK_ROOM, GRAPH_POINTER, 1, &room);
    if (!failed)
        failed = cudnn->end_object(pack);
    if (!failed)
        failed = cudnn->execute(handle, engine->plan, pack);
    if (pack)
        cudnn->drop_object(pack);
    return failed;
}
