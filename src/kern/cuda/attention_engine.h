/* attention_engine.h - attention by cuDNN's graph interface. */
#ifndef CR_KERN_CUDA_ATTENTION_ENGINE_H
#define CR_KERN_CUDA_ATTENTION_ENGINE_H

#include "kern/cuda/cudnn_graph.h"

typedef enum { HEADS_OUTPUT, HEADS_GRADIENTS } heads_way;

/* The arrays of a call, of heads [batch, heads, rows, width]; of LSE, [batch, heads, rows],
 * each element is the logarithm of a row's sum of exponentials, and SUMS has room for as
 * many. */
typedef enum {
    HEADS_Q,
    HEADS_K,
    HEADS_V,
    HEADS_OUT,
    HEADS_GRAD,
    HEADS_GQ,
    HEADS_GK,
    HEADS_GV,
    HEADS_STRIDED,
    HEADS_LSE = HEADS_STRIDED,
    HEADS_SUMS,
    HEADS_ARRAYS
} heads_array;

/* Compared by its bytes.  `shared` heads of the keys serve `heads` of the queries; elements of
 * a row are next to each other. */
typedef struct {
    int32_t index, way, dtype, causal;
    int64_t batch, heads, shared, queries, keys, width;
    int64_t stride[HEADS_STRIDED][3];
} heads_key;

/* The engine's results do not change from call to call; engine->plan is NULL if there is
 * none. */
void cr_heads_engine_find(cudnn_engine *engine, void *handle, const heads_key *k);
int cr_heads_engine_run(const cudnn_engine *engine, void *handle, const heads_key *k,
                        void *const at[HEADS_ARRAYS], float scale, void *room);

#endif
