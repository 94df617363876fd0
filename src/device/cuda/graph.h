/* graph.h - work that is captured once and launched often.
 *
 * Between the begin and the end of a capture, work on the captured stream, and on streams that
 * wait for it, becomes a graph of the driver.  Memory that it requests comes from a pool that
 * lasts as long as the graph; sizes, addresses and numbers of the host are those of the
 * capture. Draws of registered generators are made from a seed and an offset in memory of the
 * device, which each launch sets. */
#ifndef CR_DEVICE_CUDA_GRAPH_H
#define CR_DEVICE_CUDA_GRAPH_H

#include "device/cuda/cuda.h"
#include "num/generator.h"
#include <stddef.h>

typedef struct cr_cuda_graph cr_cuda_graph;

/* Two numbers that name a pool, as torch's. */
typedef struct {
    uint64_t first, second;
} cr_cuda_pool_number;

/* A number that no pool has. */
CR_API cr_cuda_pool_number cr_cuda_pool_new(void);

/* How a pool serves requests: with functions that get and free its segments, or the driver's if
 * they are NULL; with `on_shortage`, its free blocks also serve other requests that would fail;
 * with `whole`, a block is never divided. */
typedef struct {
    void *(*get)(ptrdiff_t size, int device, void *stream);
    void (*free)(void *p, ptrdiff_t size, int device, void *stream);
    bool on_shortage, whole;
} cr_cuda_pool_rules;

/* A pool that a program names: it is used until cr_cuda_pool_drop, which gives its free
 * segments back.  NULL without memory. */
CR_API cr_cuda_pool *cr_cuda_pool_make(int index, const cr_cuda_pool_rules *rules);
CR_API void cr_cuda_pool_drop(cr_cuda_pool *pool);
CR_API cr_cuda_pool_number cr_cuda_pool_number_of(const cr_cuda_pool *pool);
CR_API int cr_cuda_pool_uses(const cr_cuda_pool *pool);
/* Between these calls, requests of the calling thread on the device come from the pool of this
 * number, unless an earlier pool or a capture serves them. */
CR_API const char *cr_cuda_pool_begin(int index, cr_cuda_pool_number number);
CR_API void cr_cuda_pool_end(int index, cr_cuda_pool_number number);

/* `keeps`: the captured graph stays, and is made launchable by a call.  NULL without memory. */
CR_API cr_cuda_graph *cr_cuda_graph_new(bool keeps);
CR_API void cr_cuda_graph_drop(cr_cuda_graph *g);
/* The graph draws from the generator, beside the default one of its device. */
CR_API const char *cr_cuda_graph_register(cr_cuda_graph *g, cr_generator *generator);
/* Captures the work of the thread's stream.  `mode` is "global", "thread_local" or "relaxed".
 * `pool` may be NULL. */
CR_API const char *cr_cuda_graph_begin(cr_cuda_graph *g, int index, const char *mode,
                                       const cr_cuda_pool_number *pool);
/* *empty: nothing was captured. */
CR_API const char *cr_cuda_graph_end(cr_cuda_graph *g, bool *empty);
CR_API const char *cr_cuda_graph_make(cr_cuda_graph *g);
/* Launches the graph on the thread's stream of its device. */
CR_API const char *cr_cuda_graph_replay(cr_cuda_graph *g);
CR_API const char *cr_cuda_graph_reset(cr_cuda_graph *g);
CR_API const char *cr_cuda_graph_pool(const cr_cuda_graph *g, cr_cuda_pool_number *out);
/* The driver's graph, or with `launchable` what it launches. */
CR_API const char *cr_cuda_graph_raw(const cr_cuda_graph *g, bool launchable, void **out);
/* Writes the graph as text. */
CR_API const char *cr_cuda_graph_print(const cr_cuda_graph *g, const char *path);

#endif
