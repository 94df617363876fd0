/* Attention by cuDNN's graph interface.
 *
 * The graphs are those that the library has a fused kernel for: their operations, and the order
 * of these, may not change. */
#include "kern/cuda/attention_engine.h"
#include "num/dtype.h"
#include <math.h>
#include <string.h>

/* Names of attributes: values of the library's enumeration. */
enum {
    POINTWISE_MODE = 0,
    POINTWISE_COMPUTE = 1,
    POINTWISE_AXIS = 9,
    POINTWISE_RULE = 750,
    POINTWISE_X = 751,
    POINTWISE_B = 752,
    POINTWISE_Y = 753,
    POINTWISE_T = 758,
    PRODUCT_COMPUTE = 1500,
    PRODUCT_A = 1520,
    PRODUCT_B = 1521,
    PRODUCT_C = 1522,
    PRODUCT_RULE = 1523,
    FOLD_MODE = 1600,
    FOLD_COMPUTE = 1601,
    FOLD_X = 1610,
    FOLD_Y = 1611,
    FOLD_RULE = 1612,
    RESHAPE_X = 2200,
    RESHAPE_Y = 2201
};

/* Pointwise functions and folds. */
enum {
    POINTWISE_ADD = 0,
    POINTWISE_MUL = 1,
    POINTWISE_DIV = 6,
    POINTWISE_SUB = 9,
    POINTWISE_EXP = 13,
    POINTWISE_LOG = 15,
    POINTWISE_GE = 303,
    POINTWISE_INDEX = 501,
    POINTWISE_SELECT = 601,
    FOLD_SUM = 0,
    FOLD_MOST = 3
};

enum { TYPE_F32 = 0, TYPE_F16 = 2, TYPE_I32 = 4, TYPE_BF16 = 9, TYPE_BOOL = 11 };

/* The numbers of the arrays in a call are 1 + heads_array, and these. */
enum { ID_SCALE = HEADS_ARRAYS + 1, ID_LOW, ID_ONE, ID_ALL };

enum { HEADS_DIMS = 4, HEADS_OPERATIONS = 32, HEADS_ALIGN = 16 };

/* A graph that is being made: its operations, and the type of the heads. */
typedef struct {
    cudnn_graph g;
    const heads_key *k;
    int type;
    void *operation[HEADS_OPERATIONS];
    int count;
    void *scale, *low, *one;
    int64_t scores[HEADS_DIMS], numbers[HEADS_DIMS]; /* the sizes of a score a pair, a row */
} heads_graph;

/* --- arrays --- */

static void *heads_new(heads_graph *h, const int64_t *size, int type)
{
    int64_t stride[HEADS_DIMS], step = 1;

    for (int d = HEADS_DIMS - 1; d >= 0; step *= size[d--])
        stride[d] = step;
    return cr_cudnn_array(
        &h->g, &(cudnn_array){type, HEADS_DIMS, size, stride, 0, HEADS_ALIGN, false});
}

static void *heads_number(heads_graph *h, int64_t id)
{
    static const int64_t one[HEADS_DIMS] = {1, 1, 1, 1};

    return cr_cudnn_array(&h->g, &(cudnn_array){TYPE_F32, HEADS_DIMS, one, one, id, 4, true});
}

/* An array of float32 with a number for each row. */
static void *heads_numbers(heads_graph *h, heads_array of)
{
    const int64_t *size = h->numbers;
    const int64_t stride[HEADS_DIMS] = {size[1] * size[2], size[2], 1, 1};

    return cr_cudnn_array(&h->g,
                          &(cudnn_array){TYPE_F32, HEADS_DIMS, size, stride, 1 + of, 4, false});
}

/* The heads, or with `turned` the heads with rows and columns exchanged. */
static void *heads_given(heads_graph *h, heads_array of, bool turned)
{
    const heads_key *k = h->k;
    bool key = of == HEADS_K || of == HEADS_V || of == HEADS_GK || of == HEADS_GV;
    int row = turned ? 3 : 2, column = turned ? 2 : 3;
    int64_t size[HEADS_DIMS] = {k->batch, key ? k->shared : k->heads};
    int64_t stride[HEADS_DIMS] = {k->stride[of][0], k->stride[of][1]};

    size[row] = key ? k->keys : k->queries;
    size[column] = k->width;
    stride[row] = k->stride[of][2];
    stride[column] = 1;
    return cr_cudnn_array(
        &h->g, &(cudnn_array){h->type, HEADS_DIMS, size, stride, 1 + of, HEADS_ALIGN, false});
}

/* --- operations --- */

static void *heads_operation(heads_graph *h, int kind)
{
    void *o = cr_cudnn_new(&h->g, kind);

    if (h->count == HEADS_OPERATIONS)
        return NULL;
    return h->operation[h->count++] = o;
}

static void heads_with(heads_graph *h, void *operation, int name, void *object)
{
    cr_cudnn_set(&h->g, operation, name, GRAPH_OBJECT, 1, &object);
}

/* y = f(x, b, t); of b and t those that f has. */
static void heads_pointwise(heads_graph *h, int mode, int compute, void *x, void *b, void *t,
                            void *y, int64_t axis)
{
    void *rule = cr_cudnn_new(&h->g, GRAPH_OF_POINTWISE_RULE);

    cr_cudnn_set(&h->g, rule, POINTWISE_MODE, GRAPH_POINTWISE_MODE, 1, &mode);
    cr_cudnn_set(&h->g, rule, POINTWISE_COMPUTE, GRAPH_DTYPE, 1, &compute);
    if (mode == POINTWISE_INDEX)
        cr_cudnn_set(&h->g, rule, POINTWISE_AXIS, GRAPH_INT, 1, &axis);
    cr_cudnn_end(&h->g, rule);
    void *o = heads_operation(h, GRAPH_OF_POINTWISE);
    heads_with(h, o, POINTWISE_RULE, rule);
    heads_with(h, o, POINTWISE_X, x);
    if (b)
        heads_with(h, o, POINTWISE_B, b);
    heads_with(h, o, POINTWISE_Y, y);
    if (t)
        heads_with(h, o, POINTWISE_T, t);
    cr_cudnn_end(&h->g, o);
}

/* A new array of float32 with `size`, of a function of x and b. */
static void *heads_of(heads_graph *h, int mode, void *x, void *b, const int64_t *size)
{
    void *y = heads_new(h, size, TYPE_F32);

    heads_pointwise(h, mode, TYPE_F32, x, b, NULL, y, 0);
    return y;
}

static void heads_product(heads_graph *h, void *a, void *b, void *c)
{
    static const int compute = TYPE_F32;
    void *rule = cr_cudnn_new(&h->g, GRAPH_OF_PRODUCT_RULE);

    cr_cudnn_set(&h->g, rule, PRODUCT_COMPUTE, GRAPH_DTYPE, 1, &compute);
    cr_cudnn_end(&h->g, rule);
    void *o = heads_operation(h, GRAPH_OF_PRODUCT);
    heads_with(h, o, PRODUCT_RULE, rule);
    heads_with(h, o, PRODUCT_A, a);
    heads_with(h, o, PRODUCT_B, b);
    heads_with(h, o, PRODUCT_C, c);
    cr_cudnn_end(&h->g, o);
}

static void heads_fold(heads_graph *h, int mode, void *x, void *y)
{
    static const int compute = TYPE_F32;
    void *rule = cr_cudnn_new(&h->g, GRAPH_OF_FOLD_RULE);

    cr_cudnn_set(&h->g, rule, FOLD_COMPUTE, GRAPH_DTYPE, 1, &compute);
    cr_cudnn_set(&h->g, rule, FOLD_MODE, GRAPH_FOLD_MODE, 1, &mode);
    cr_cudnn_end(&h->g, rule);
    void *o = heads_operation(h, GRAPH_OF_FOLD);
    heads_with(h, o, FOLD_RULE, rule);
    heads_with(h, o, FOLD_X, x);
    heads_with(h, o, FOLD_Y, y);
    cr_cudnn_end(&h->g, o);
}

static void heads_reshape(heads_graph *h, void *x, void *y)
{
    void *o = heads_operation(h, GRAPH_OF_RESHAPE);

    heads_with(h, o, RESHAPE_X, x);
    heads_with(h, o, RESHAPE_Y, y);
    cr_cudnn_end(&h->g, o);
}

/* x, exchanged in its last dims, as heads. */
static void *heads_turned(heads_graph *h, void *x)
{
    const int64_t *s = h->scores, size[HEADS_DIMS] = {s[0], s[1], s[3], s[2]};
    const int64_t stride[HEADS_DIMS] = {s[1] * s[2] * s[3], s[2] * s[3], 1, s[3]};
    void *y = cr_cudnn_array(
        &h->g, &(cudnn_array){h->type, HEADS_DIMS, size, stride, 0, HEADS_ALIGN, false});

    heads_reshape(h, x, y);
    return y;
}

/* Minus infinity for keys after their query. */
static void *heads_masked(heads_graph *h, void *s)
{
    void *row, *column, *shown, *y;

    if (!h->k->causal)
        return s;
    row = heads_new(h, h->scores, TYPE_I32);
    heads_pointwise(h, POINTWISE_INDEX, TYPE_F32, s, NULL, NULL, row, 2);
    column = heads_new(h, h->scores, TYPE_I32);
    heads_pointwise(h, POINTWISE_INDEX, TYPE_F32, s, NULL, NULL, column, 3);
    shown = heads_new(h, h->scores, TYPE_BOOL);
    heads_pointwise(h, POINTWISE_GE, TYPE_BOOL, row, column, NULL, shown, 0);
    y = heads_new(h, h->scores, TYPE_F32);
    heads_pointwise(h, POINTWISE_SELECT, TYPE_F32, s, h->low, shown, y, 0);
    return y;
}

/* --- graphs --- */

static void heads_output(heads_graph *h)
{
    void *s = heads_new(h, h->scores, TYPE_F32);

    heads_product(h, heads_given(h, HEADS_Q, false), heads_given(h, HEADS_K, true), s);
    s = heads_masked(h, heads_of(h, POINTWISE_MUL, s, h->scale, h->scores));
    void *most = heads_new(h, h->numbers, TYPE_F32), *sum = heads_new(h, h->numbers, TYPE_F32);
    heads_fold(h, FOLD_MOST, s, most);
    s = heads_of(h, POINTWISE_SUB, s, most, h->scores);
    s = heads_of(h, POINTWISE_EXP, s, NULL, h->scores);
    heads_fold(h, FOLD_SUM, s, sum);
    void *log = heads_of(h, POINTWISE_LOG, sum, NULL, h->numbers);
    heads_pointwise(h, POINTWISE_ADD, TYPE_F32, most, log, NULL, heads_numbers(h, HEADS_LSE),
                    0);
    void *p = heads_new(h, h->scores, h->type);
    heads_pointwise(h, POINTWISE_DIV, TYPE_F32, s, sum, NULL, p, 0);
    heads_product(h, p, heads_given(h, HEADS_V, false), heads_given(h, HEADS_OUT, false));
}

/* The products of each row's cotangent and result, summed. */
static void *heads_sums(heads_graph *h, void *grad)
{
    const heads_key *k = h->k;
    const int64_t size[HEADS_DIMS] = {k->batch, k->heads, k->queries, k->width};
    void *x = heads_of(h, POINTWISE_MUL, grad, heads_given(h, HEADS_OUT, false), size);
    void *sum = heads_new(h, h->numbers, TYPE_F32), *sums = heads_numbers(h, HEADS_SUMS);

    heads_fold(h, FOLD_SUM, x, sum);
    heads_pointwise(h, POINTWISE_MUL, TYPE_F32, sum, h->one, NULL, sums, 0);
    return sums;
}

/* The product is the gradient of heads of keys, or each is the sum of those of the heads that
 * share it. */
static void heads_key_gradient(heads_graph *h, void *a, void *b, heads_array of)
{
    const heads_key *k = h->k;
    const int64_t size[HEADS_DIMS] = {k->batch, k->heads, k->keys, k->width};
    void *each, *y = heads_given(h, of, false);

    if (k->heads == k->shared) {
        heads_product(h, a, b, y);
        return;
    }
    each = heads_new(h, size, h->type);
    heads_product(h, a, b, each);
    heads_fold(h, FOLD_SUM, each, y);
}

static void heads_gradients(heads_graph *h)
{
    void *q = heads_given(h, HEADS_Q, false), *k = heads_given(h, HEADS_K, true);
    void *grad = heads_given(h, HEADS_GRAD, false), *sums = heads_sums(h, grad);
    void *s = heads_new(h, h->scores, TYPE_F32), *p;

    heads_product(h, q, k, s);
    s = heads_of(h, POINTWISE_MUL, s, h->scale, h->scores);
    s = heads_of(h, POINTWISE_SUB, s, heads_numbers(h, HEADS_LSE), h->scores);
    p = heads_of(h, POINTWISE_EXP, heads_masked(h, s), NULL, h->scores);
    heads_key_gradient(h, heads_turned(h, p), grad, HEADS_GV);
    s = heads_new(h, h->scores, TYPE_F32);
    heads_product(h, grad, heads_given(h, HEADS_V, true), s);
    s = heads_of(h, POINTWISE_SUB, s, sums, h->scores);
    s = heads_of(h, POINTWISE_MUL, s, p, h->scores);
    s = heads_of(h, POINTWISE_MUL, s, h->scale, h->scores);
    heads_key_gradient(h, heads_turned(h, s), q, HEADS_GK);
    const int64_t *by = h->k->stride[HEADS_K], stride[HEADS_DIMS] = {by[0], by[1], by[2], 1};
    const int64_t size[HEADS_DIMS] = {h->k->batch, h->k->shared, h->k->keys, h->k->width};
    void *turned = cr_cudnn_array(
        &h->g, &(cudnn_array){h->type, HEADS_DIMS, size, stride, 0, HEADS_ALIGN, false});
    heads_reshape(h, k, turned);
    heads_product(h, s, turned, heads_given(h, HEADS_GQ, false));
}

void cr_heads_engine_find(cudnn_engine *engine, void *handle, const heads_key *k)
{
    heads_graph h = {.g = {.handle = handle, .engine = engine},
                     .k = k,
                     .type = k->dtype == CR_BF16 ? TYPE_BF16 : TYPE_F16,
                     .scores = {k->batch, k->heads, k->queries, k->keys},
                     .numbers = {k->batch, k->heads, k->queries, 1}};

    *engine = (cudnn_engine){.plan = NULL};
    h.scale = heads_number(&h, ID_SCALE);
    h.low = k->causal ? heads_number(&h, ID_LOW) : NULL;
    h.one = k->way == HEADS_GRADIENTS ? heads_number(&h, ID_ONE) : NULL;
    if (k->way == HEADS_OUTPUT)
        heads_output(&h);
    else
        heads_gradients(&h);
    cr_cudnn_choose(
        &h.g, h.operation, h.count,
        &(cudnn_wish){~(uint64_t)(1u << NOTE_CHANGES), SIZE_MAX, SIZE_MAX,
                      k->way == HEADS_OUTPUT ? "attention" : "the gradients of attention",
                      false});
}

int cr_heads_engine_run(const cudnn_engine *engine, void *handle, const heads_key *k,
                        void *const at[HEADS_ARRAYS], float scale, void *room)
{
    float low = -INFINITY, one = 1;
    int64_t id[ID_ALL];
    void *place[ID_ALL];
    int n = 0;

    for (int i = 0; i < HEADS_ARRAYS; i++)
        if (at[i]) {
            id[n] = 1 + i;
            place[n++] = at[i];
        }
    id[n] = ID_SCALE;
    place[n++] = &scale;
    if (k->causal) {
        id[n] = ID_LOW;
        place[n++] = &low;
    }
    if (k->way == HEADS_GRADIENTS) {
        id[n] = ID_ONE;
        place[n++] = &one;
    }
    return cr_cudnn_engine_run(engine, handle, n, id, place, room);
}
