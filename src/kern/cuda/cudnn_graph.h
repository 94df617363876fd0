/* cudnn_graph.h - plans of cuDNN's graph interface.
 *
 * A graph has operations on described arrays.  The library proposes configurations of its
 * engines for a graph; a plan is one of them with all that a call needs. */
#ifndef CR_KERN_CUDA_CUDNN_GRAPH_H
#define CR_KERN_CUDA_CUDNN_GRAPH_H

#include "kern/cuda/cudnn.h"

/* Kinds of objects: values of the library's enumeration. */
enum {
    GRAPH_OF_POINTWISE_RULE = 0,
    GRAPH_OF_CONV = 1,
    GRAPH_OF_ENGINE = 2,
    GRAPH_OF_CONFIG = 3,
    GRAPH_OF_CHOICE = 4,
    GRAPH_OF_PLAN = 5,
    GRAPH_OF_OUTPUT = 10,
    GRAPH_OF_WEIGHT = 11,
    GRAPH_OF_INPUT = 12,
    GRAPH_OF_POINTWISE = 13,
    GRAPH_OF_GRAPH = 15,
    GRAPH_OF_PACK = 16,
    GRAPH_OF_TENSOR = 17,
    GRAPH_OF_PRODUCT_RULE = 18,
    GRAPH_OF_PRODUCT = 19,
    GRAPH_OF_FOLD_RULE = 21,
    GRAPH_OF_FOLD = 22,
    GRAPH_OF_RESHAPE = 31
};

/* Types of attributes. */
enum {
    GRAPH_HANDLE = 0,
    GRAPH_DTYPE = 1,
    GRAPH_BOOL = 2,
    GRAPH_INT = 3,
    GRAPH_FLOAT = 4,
    GRAPH_DOUBLE = 5,
    GRAPH_POINTER = 6,
    GRAPH_CONV_MODE = 7,
    GRAPH_CHOICE_MODE = 8,
    GRAPH_NOTE = 11,
    GRAPH_POINTWISE_MODE = 14,
    GRAPH_OBJECT = 15,
    GRAPH_FOLD_MODE = 18
};

/* What the library notes about an engine. */
enum { NOTE_TENSOR_CORE = 0, NOTE_ROUNDS_INPUTS = 1, NOTE_CHANGES = 4 };

/* A graph that is being made for an engine, which owns its objects, and the first failure. */
typedef struct {
    void *handle;
    cudnn_engine *engine;
    int failed;
    const char *where;
} cudnn_graph;

/* An array of a graph.  id: its number in calls; 0 is an array that only the graph has. */
typedef struct {
    int type, n;
    const int64_t *size, *stride;
    int64_t id, align;
    bool by_value; /* a number of the host */
} cudnn_array;

/* Each of these does nothing after a failure. */
void *cr_cudnn_new(cudnn_graph *g, int kind);
void cr_cudnn_set(cudnn_graph *g, void *object, int name, int type, int64_t n, const void *at);
void cr_cudnn_end(cudnn_graph *g, void *object);
void *cr_cudnn_array(cudnn_graph *g, const cudnn_array *a);

/* What an engine may be: the notes that it may have, as bits, and the bytes that a call may
 * need.  Engines that need at most `modest` bytes go before those that need more.  `what` names
 * it in the log.  `exact`: float32 without tensor cores.  The library's usual chooser ranks
 * engines with tensor cores well and others badly, so another one is asked first. */
typedef struct {
    uint64_t notes;
    size_t most, modest;
    const char *what;
    bool exact;
} cudnn_wish;

/* Makes the plan of the best configuration of the operations that is as wished.
 * g->engine->plan is NULL if there is none, and the engine is empty. */
void cr_cudnn_choose(cudnn_graph *g, void *const *operation, int n, const cudnn_wish *wish);

void cr_cudnn_engine_drop(cudnn_engine *engine);
/* Queues the work on the handle's stream; returns the library's status.  `at` has the addresses
 * of the arrays with the numbers `id`. */
int cr_cudnn_engine_run(const cudnn_engine *engine, void *handle, int n, const int64_t *id,
                        void *const *at, void *room);

#endif
