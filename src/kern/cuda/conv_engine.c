/* Convolutions by cuDNN's graph interface. */
#include "kern/cuda/cudnn_graph.h"
#include "num/dtype.h"
#include <string.h>

/* Names of attributes: values of the library's enumeration. */
enum {
    CONV_COMPUTE = 100, /* and the mode, dilations, strides, both paddings, number of dims */
    OUTPUT_ALPHA = 700, /* and beta, the convolution, w, x, y */
    INPUT_ALPHA = 706,  /* and beta, the convolution, w, dx, dy */
    WEIGHT_ALPHA = 712  /* and beta, the convolution, dw, x, dy */
};

static void graph_set_ints(cudnn_graph *g, void *object, int name, const int32_t *from, int n)
{
    int64_t wide[CONV_ALL];

    for (int i = 0; i < n; i++)
        wide[i] = from[i];
    cr_cudnn_set(g, object, name, GRAPH_INT, n, wide);
}

static void *graph_tensor(cudnn_graph *g, const conv_key *k, const int32_t *of, int64_t id)
{
    int n = k->dims + 2, type = 0, compute;
    int64_t align = k->aligned ? CONV_ALIGN : (int64_t)cr_dtype_size((cr_dtype)k->dtype);
    int64_t size[CONV_ALL], stride[CONV_ALL], step = 1;

    cr_conv_type(k->dtype, &type, &compute);
    for (int i = 0; i < n; i++) {
        int d = cr_conv_dim(i, n, k->last);
        size[d] = of[d];
        stride[d] = step;
        step *= of[d];
    }
    return cr_cudnn_array(g, &(cudnn_array){type, n, size, stride, id, align, false});
}

static void *graph_conv(cudnn_graph *g, const conv_key *k)
{
    void *c = cr_cudnn_new(g, GRAPH_OF_CONV);
    int type, compute = 0, mode = 1; /* cross-correlation */
    int64_t dims = k->dims;

    cr_conv_type(k->dtype, &type, &compute);
    cr_cudnn_set(g, c, CONV_COMPUTE, GRAPH_DTYPE, 1, &compute);
    cr_cudnn_set(g, c, CONV_COMPUTE + 1, GRAPH_CONV_MODE, 1, &mode);
    graph_set_ints(g, c, CONV_COMPUTE + 2, k->dilation, k->dims);
    graph_set_ints(g, c, CONV_COMPUTE + 3, k->stride, k->dims);
    graph_set_ints(g, c, CONV_COMPUTE + 4, k->pad, k->dims);
    graph_set_ints(g, c, CONV_COMPUTE + 5, k->pad, k->dims);
    cr_cudnn_set(g, c, CONV_COMPUTE + 6, GRAPH_INT, 1, &dims);
    cr_cudnn_end(g, c);
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

static void *conv_operation(cudnn_graph *g, const conv_key *k)
{
    static const double one = 1, zero = 0;
    static const float single_one = 1, single_zero = 0;
    bool wide = k->dtype == CR_F64;
    int type = wide ? GRAPH_DOUBLE : GRAPH_FLOAT, first = graph_ways[k->way].first;
    void *tensor[] = {graph_tensor(g, k, k->w, ID_W), graph_tensor(g, k, k->x, ID_X),
                      graph_tensor(g, k, k->y, ID_Y)};
    void *conv = graph_conv(g, k), *operation = cr_cudnn_new(g, graph_ways[k->way].kind);

    cr_cudnn_set(g, operation, first, type, 1, wide ? (const void *)&one : &single_one);
    cr_cudnn_set(g, operation, first + 1, type, 1, wide ? (const void *)&zero : &single_zero);
    cr_cudnn_set(g, operation, first + 2, GRAPH_OBJECT, 1, &conv);
    for (int i = 0; i < 3; i++)
        cr_cudnn_set(g, operation, first + 3 + i, GRAPH_OBJECT, 1, &tensor[i]);
    cr_cudnn_end(g, operation);
    return operation;
}

/* Engines that need many times the bytes of the arrays, such as transforms of all tiles, write
 * and read this memory: what the library proposes next is faster, or about as fast. */
enum { CONV_MODEST = 32 << 20, CONV_MODEST_TIMES = 4 /* of the arrays */ };

static size_t conv_modest(const conv_key *k)
{
    const int32_t *const array[] = {k->x, k->w, k->y};
    size_t bytes = 0;

    for (size_t i = 0; i < CR_LEN(array); i++) {
        size_t n = cr_dtype_size((cr_dtype)k->dtype);
        for (int d = 0; d < k->dims + 2; d++)
            n *= (size_t)array[i][d];
        bytes += n;
    }
    return bytes * CONV_MODEST_TIMES > CONV_MODEST ? bytes * CONV_MODEST_TIMES : CONV_MODEST;
}

void cr_conv_engine_find(cudnn_engine *engine, void *handle, const conv_key *k, size_t most)
{
    cudnn_graph g = {.handle = handle, .engine = engine};
    uint64_t refused = 1u << NOTE_CHANGES | 1u << NOTE_ROUNDS_INPUTS;
    bool exact = k->dtype == CR_F32 && !k->tf32;

    if (exact)
        refused |= 1u << NOTE_TENSOR_CORE;
    *engine = (cudnn_engine){.plan = NULL};
    void *operation = conv_operation(&g, k);
    cr_cudnn_choose(&g, &operation, 1,
                    &(cudnn_wish){~refused, most, conv_modest(k), "a convolution", exact});
}

int cr_conv_engine_run(const cudnn_engine *engine, void *handle, void *x, void *w, void *y,
                       void *room)
{
    static const int64_t id[3] = {ID_X, ID_W, ID_Y};
    void *const at[3] = {x, w, y};

    return cr_cudnn_engine_run(engine, handle, 3, id, at, room);
}
