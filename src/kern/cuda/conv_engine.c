/* Convolutions by cuDNN's graph interface. */
#include "base/log.h"
#include "kern/cuda/cudnn.h"
#include "num/dtype.h"
#include <inttypes.h>
#include <string.h>

/* Values of the library's enumerations. */
enum {
    GRAPH_OF_CONV = 1,
    GRAPH_OF_ENGINE = 2,
    GRAPH_OF_CONFIG = 3,
    GRAPH_OF_CHOICE = 4,
    GRAPH_OF_PLAN = 5,
    GRAPH_OF_OUTPUT = 10,
    GRAPH_OF_WEIGHT = 11,
    GRAPH_OF_INPUT = 12,
    GRAPH_OF_GRAPH = 15,
    GRAPH_OF_PACK = 16,
    GRAPH_OF_TENSOR = 17
};

enum {
    GRAPH_HANDLE = 0,
    GRAPH_DTYPE = 1,
    GRAPH_INT = 3,
    GRAPH_FLOAT = 4,
    GRAPH_DOUBLE = 5,
    GRAPH_POINTER = 6,
    GRAPH_CONV_MODE = 7,
    GRAPH_CHOICE_MODE = 8,
    GRAPH_NOTE = 11,
    GRAPH_OBJECT = 15
};

enum {
    CONV_COMPUTE = 100, /* and the mode, dilations, strides, both paddings, number of dims */
    CHOICE_MODE = 200,
    CHOICE_GRAPH = 201,
    CHOICE_RESULTS = 202,
    CONFIG_ENGINE = 300,
    PLAN_HANDLE = 400,
    PLAN_CONFIG = 401,
    PLAN_ROOM = 402,
    OUTPUT_ALPHA = 700, /* and beta, the convolution, w, x, y */
    INPUT_ALPHA = 706,  /* and beta, the convolution, w, dx, dy */
    WEIGHT_ALPHA = 712, /* and beta, the convolution, dw, x, dy */
    GRAPH_OF_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    TENSOR_ALIGNMENT = 900,
    TENSOR_DTYPE = 901,
    TENSOR_SIZES = 902,
    TENSOR_STRIDES = 903,
    TENSOR_ID = 906,
    PACK_IDS = 1000,
    PACK_POINTERS = 1001,
    PACK_ROOM = 1003,
    ENGINE_NOTE = 1303
};

/* How the library chooses, and what it notes about an engine. */
enum { CHOOSE_WELL = 3, CHOOSE_ANY = 2 };
enum { NOTE_TENSOR_CORE = 0, NOTE_ROUNDS_INPUTS = 1, NOTE_CHANGES = 4, NOTES = 32 };

/* A graph that is being made for an engine, which owns its objects, and the first failure. */
typedef struct {
    const cr_cudnn *cudnn;
    void *handle;
    conv_engine *engine;
    int failed;
    const char *where;
} graph;

static void graph_note(graph *g, int failed, const char *where)
{
    if (failed && !g->failed) {
        g->failed = failed;
        g->where = where;
    }
}

static void *graph_new(graph *g, int kind)
{
    conv_engine *e = g->engine;
    void *object = NULL;

    if (g->failed || e->count == CONV_OBJECTS)
        return NULL;
    graph_note(g, g->cudnn->new_object(kind, &object), "create");
    if (!g->failed)
        e->object[e->count++] = object;
    return g->failed ? NULL : object;
}

static void graph_set(graph *g, void *object, int name, int type, int64_t n, const void *at)
{
    if (!g->failed)
        graph_note(g, g->cudnn->set_object(object, name, type, n, at), "set");
}

static void graph_end(graph *g, void *object)
{
    if (!g->failed)
        graph_note(g, g->cudnn->end_object(object), "finalize");
}

static void graph_set_ints(graph *g, void *object, int name, const int32_t *from, int n)
{
    int64_t wide[CONV_ALL];

    for (int i = 0; i < n; i++)
        wide[i] = from[i];
    graph_set(g, object, name, GRAPH_INT, n, wide);
}

static void *graph_tensor(graph *g, const conv_key *k, const int32_t *size, int64_t id)
{
    void *t = graph_new(g, GRAPH_OF_TENSOR);
    int n = k->dims + 2, type = 0, compute;
    int64_t align = k->aligned ? CONV_ALIGN : (int64_t)cr_dtype_size((cr_dtype)k->dtype);
    int32_t stride[CONV_ALL], step = 1;

    cr_conv_type(k->dtype, &type, &compute);
    for (int i = 0; i < n; i++) {
        int d = cr_conv_dim(i, n, k->last);
        stride[d] = step;
        step *= size[d];
    }
    graph_set(g, t, TENSOR_DTYPE, GRAPH_DTYPE, 1, &type);
    graph_set_ints(g, t, TENSOR_SIZES, size, n);
    graph_set_ints(g, t, TENSOR_STRIDES, stride, n);
    graph_set(g, t, TENSOR_ID, GRAPH_INT, 1, &id);
    graph_set(g, t, TENSOR_ALIGNMENT, GRAPH_INT, 1, &align);
    graph_end(g, t);
    return t;
}

static void *graph_conv(graph *g, const conv_key *k)
{
    void *c = graph_new(g, GRAPH_OF_CONV);
    int type, compute = 0, mode = 1; /* cross-correlation */
    int64_t dims = k->dims;

    cr_conv_type(k->dtype, &type, &compute);
    graph_set(g, c, CONV_COMPUTE, GRAPH_DTYPE, 1, &compute);
    graph_set(g, c, CONV_COMPUTE + 1, GRAPH_CONV_MODE, 1, &mode);
    graph_set_ints(g, c, CONV_COMPUTE + 2, k->dilation, k->dims);
    graph_set_ints(g, c, CONV_COMPUTE + 3, k->stride, k->dims);
    graph_set_ints(g, c, CONV_COMPUTE + 4, k->pad, k->dims);
    graph_set_ints(g, c, CONV_COMPUTE + 5, k->pad, k->dims);
    graph_set(g, c, CONV_COMPUTE + 6, GRAPH_INT, 1, &dims);
    graph_end(g, c);
    return c;
}

/* The numbers of the arrays in a call. */
enum { ID_X = 1, ID_W = 2, ID_Y = 3 };

/* The operation's kind and its first attribute. */
static const struct {
    int kind, first;
} graph_ways[CONV_WAYS] = {
    [CONV_OUTPUT] = {GRAPH_OF_OUTPUT, OUTPUT_ALPHA},
    [CONV_INPUT] = {GRAPH_OF_INPUT, INPUT_ALPHA},
    [CONV_WEIGHT] = {GRAPH_OF_WEIGHT, WEIGHT_ALPHA},
};

/* A graph of one operation; NULL after a failure. */
static void *graph_of_key(graph *g, const conv_key *k)
{
    static const double one = 1, zero = 0;
    static const float single_one = 1, single_zero = 0;
    bool wide = k->dtype == CR_F64;
    int type = wide ? GRAPH_DOUBLE : GRAPH_FLOAT, first = graph_ways[k->way].first;
    void *tensor[] = {graph_tensor(g, k, k->w, ID_W), graph_tensor(g, k, k->x, ID_X),
                      graph_tensor(g, k, k->y, ID_Y)};
    void *conv = graph_conv(g, k), *operation = graph_new(g, graph_ways[k->way].kind);

    graph_set(g, operation, first, type, 1, wide ? (const void *)&one : &single_one);
    graph_set(g, operation, first + 1, type, 1, wide ? (const void *)&zero : &single_zero);
    graph_set(g, operation, first + 2, GRAPH_OBJECT, 1, &conv);
    for (int i = 0; i < 3; i++)
        graph_set(g, operation, first + 3 + i, GRAPH_OBJECT, 1, &tensor[i]);
    graph_end(g, operation);
    void *all = graph_new(g, GRAPH_OF_GRAPH);
    graph_set(g, all, GRAPH_OPERATIONS, GRAPH_OBJECT, 1, &operation);
    graph_set(g, all, GRAPH_OF_HANDLE, GRAPH_HANDLE, 1, &g->handle);
    graph_end(g, all);
    return g->failed ? NULL : all;
}

/* --- engines --- */

/* Whether a proposed engine computes what the key allows. */
static bool config_is_allowed(graph *g, const conv_key *k, void *config)
{
    int note[NOTES];
    int64_t n = 0, one = 0;
    void *engine = NULL;
    bool allowed =
        !g->cudnn->new_object(GRAPH_OF_ENGINE, &engine) &&
        !g->cudnn->get_object(config, CONFIG_ENGINE, GRAPH_OBJECT, 1, &one, &engine) &&
        !g->cudnn->get_object(engine, ENGINE_NOTE, GRAPH_NOTE, NOTES, &n, note);

    for (int64_t i = 0; i < n && allowed; i++)
        allowed = note[i] != NOTE_CHANGES && note[i] != NOTE_ROUNDS_INPUTS &&
                  (note[i] != NOTE_TENSOR_CORE || k->dtype != CR_F32 || k->tf32);
    if (engine)
        g->cudnn->drop_object(engine);
    return allowed;
}

static bool graph_plan(graph *g, void *config)
{
    conv_engine *e = g->engine;
    int64_t room = 0, n = 0;
    void *plan = NULL;
    bool works = !g->cudnn->new_object(GRAPH_OF_PLAN, &plan) &&
                 !g->cudnn->set_object(plan, PLAN_HANDLE, GRAPH_HANDLE, 1, &g->handle) &&
                 !g->cudnn->set_object(plan, PLAN_CONFIG, GRAPH_OBJECT, 1, &config) &&
                 !g->cudnn->end_object(plan) &&
                 !g->cudnn->get_object(plan, PLAN_ROOM, GRAPH_INT, 1, &n, &room);

    if (works) {
        e->plan = plan;
        e->room = (size_t)room;
    } else if (plan)
        g->cudnn->drop_object(plan);
    return works;
}

enum { CONFIGS = 32 };

/* The configurations that the library proposes for a graph, the best first; returns how many.
 * All `CONFIGS` objects are the caller's. */
static int graph_configs(graph *g, void *of, int mode, void *config[CONFIGS])
{
    void *choice = graph_new(g, GRAPH_OF_CHOICE);
    int64_t n = 0;

    graph_set(g, choice, CHOICE_GRAPH, GRAPH_OBJECT, 1, &of);
    graph_set(g, choice, CHOICE_MODE, GRAPH_CHOICE_MODE, 1, &mode);
    graph_end(g, choice);
    for (int i = 0; i < CONFIGS && !g->failed; i++)
        graph_note(g, g->cudnn->new_object(GRAPH_OF_CONFIG, &config[i]), "create");
    if (!g->failed)
        graph_note(
            g, g->cudnn->get_object(choice, CHOICE_RESULTS, GRAPH_OBJECT, CONFIGS, &n, config),
            "get");
    return g->failed ? 0 : (int)(n < CONFIGS ? n : CONFIGS);
}

/* Makes the plan of the first configuration that works.  The engine keeps the configuration. */
static void graph_find(graph *g, const conv_key *k, void *of, int mode)
{
    conv_engine *e = g->engine;
    void *config[CONFIGS] = {NULL};
    int n = graph_configs(g, of, mode, config);

    for (int i = 0; i < n && !e->plan && e->count < CONV_OBJECTS; i++)
        if (config_is_allowed(g, k, config[i]) && graph_plan(g, config[i])) {
            cr_log_line("cuda", 1, "a convolution takes choice %d of %d, %zu bytes", i, n,
                        e->room);
            e->object[e->count++] = config[i];
            config[i] = NULL;
        }
    for (int i = 0; i < CONFIGS; i++)
        if (config[i])
            g->cudnn->drop_object(config[i]);
}

void cr_conv_engine_find(conv_engine *engine, const cr_cudnn *cudnn, void *handle,
                         const conv_key *k)
{
    static const int mode[] = {CHOOSE_WELL, CHOOSE_ANY};
    graph g = {.cudnn = cudnn, .handle = handle, .engine = engine};

    *engine = (conv_engine){.plan = NULL};
    void *of = graph_of_key(&g, k);
    for (size_t i = 0; of && i < CR_LEN(mode) && !engine->plan; i++) {
        g.failed = 0;
        graph_find(&g, k, of, mode[i]);
    }
    if (g.failed)
        cr_log_line("cuda", 1, "no engine for a convolution: %s, %s", g.where,
                    cudnn->error_text(g.failed));
    if (!engine->plan)
        cr_conv_engine_drop(engine, cudnn);
}

void cr_conv_engine_drop(conv_engine *engine, const cr_cudnn *cudnn)
{
    if (engine->plan)
        cudnn->drop_object(engine->plan);
    while (engine->count)
        cudnn->drop_object(engine->object[--engine->count]);
    engine->plan = NULL;
}

int cr_conv_engine_run(const conv_engine *engine, const cr_cudnn *cudnn, void *handle, void *x,
                       void *w, void *y, void *room)
{
    static const int64_t id[3] = {ID_X, ID_W, ID_Y};
    void *at[3] = {x, w, y}, *pack = NULL;
    int failed = cudnn->new_object(GRAPH_OF_PACK, &pack);

    if (!failed)
        failed = cudnn->set_object(pack, PACK_IDS, GRAPH_INT, 3, id);
    if (!failed)
        failed = cudnn->set_object(pack, PACK_POINTERS, GRAPH_POINTER, 3, at);
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
