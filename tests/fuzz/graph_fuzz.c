/* Random graphs through every way of running them: graph_fuzz [SECONDS] [SEED] [GRAPHS]
 * [native|show]
 *
 * A graph is made of entries of the operator table with arguments that they take: pointwise
 * work, views, sums, scans, windows, lists, reads and writes at computed places, products,
 * casts, choices, writes and draws, over inputs of several dtypes, sizes (0 and 1 among them)
 * and layouts.  The expected results are those of the calls made one by one.  The graph must
 * give the same bits (all NaNs are equal), sizes, strides, shared memory, written inputs and
 * drawn numbers when it is run, after every pass, parsed from its text, as a plan of commands
 * that is printed, parsed and executed by the oracle, as such a plan with groups as a device
 * has them, in groups by tiles and by their nodes, as a program, as an instance of a recording
 * of other sizes, as a call that shares its program with other sizes, and cut in two; each with
 * one and two threads.  `native` also waits for the compiler, once for the groups of 25 graphs.
 *
 * A graph that differs is reduced while it still differs, and printed as text that crc reads.
 * `show` prints every graph first.  The run ends after GRAPHS or SECONDS, whichever comes
 * first; SECONDS 0 is no limit. */
#include "aot/aot.h"
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "compile/call.h"
#include "compile/commands.h"
#include "compile/compile.h"
#include "compile/program.h"
#include "num/generator.h"
#include "plan/collect.h"
#include "plan/test.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INPUTS = 4, NODES = 24, VALUES = 128, OUTPUTS = 5, LARGEST = 3000, TRIES = 400 };

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

/* --- programs: descriptions from which graphs are built --- */

typedef struct {
    cr_dtype dtype;
    int ndim, layout; /* 0 row-major, 1 column-major, 2 with gaps */
    int64_t size[4];
    uint64_t seed;
    bool cotangent; /* an input of the backward part when the graph is cut */
    bool indices;   /* its elements are small and not negative */
} input;

typedef struct {
    const cr_op *op;
    cr_garg arg[CR_MAX_ARGS]; /* a tensor is the number of its value, in .i */
    int first, results;       /* its values */
    bool gone;
} node;

typedef struct {
    input in[INPUTS];
    node at[NODES];
    int output[OUTPUTS];
    int inputs, len, outputs, values;
    bool chain; /* most nodes read the node before, and are of kinds that are fused */
} program;

static cr_arena literals; /* lists in arguments; until the next program */

static void *room(size_t n)
{
    void *p = cr_arena_get(&literals, n + 1);

    if (!p)
        exit(2);
    return p;
}

/* --- inputs --- */

static double special(void)
{
    static const double values[] = {0.0,        -0.0,      1.0,   -1.0, 1.0 / 0.0,
                                    -1.0 / 0.0, 0.0 / 0.0, 1e-40, 3e38, 0.5};

    return values[draw(CR_LEN(values))];
}

static cr_scalar element(cr_dtype t)
{
    if (!cr_dtype_is_inexact(t))
        return cr_scalar_int(t == CR_U8 ? draw(9) : (int64_t)draw(9) - 4);
    return cr_scalar_float(draw(12) ? (draw(2001) - 1000.0) / 300 : special());
}

static void layout_of(const input *in, int64_t *stride)
{
    int64_t step = in->layout == 2 ? 2 : 1;

    for (int k = 0; k < in->ndim; k++) {
        int d = in->layout == 1 ? k : in->ndim - 1 - k;
        stride[d] = step;
        step *= in->size[d] ? in->size[d] : 1;
    }
}

static cr_tensor *input_tensor(const input *in)
{
    int64_t stride[4], span = 1, size = 1;
    uint64_t was = state;
    cr_tensor *base = NULL, *t = NULL;
    cr_geometry g = {.ndim = in->ndim};

    layout_of(in, stride);
    for (int d = 0; d < in->ndim; d++) {
        span += in->size[d] ? (in->size[d] - 1) * stride[d] : 0;
        g.size[d] = in->size[d];
        g.stride[d] = stride[d];
    }
    size = span;
    if (cr_tensor_new(&base, in->dtype, CR_HOST, 1, &size) || cr_tensor_view(&t, base, &g))
        exit(2);
    state = in->seed;
    for (int64_t i = 0; i < span; i++)
        cr_scalar_store(in->indices ? cr_scalar_int(draw(3)) : element(in->dtype), in->dtype,
                        base->address + i * (int64_t)cr_dtype_size(in->dtype));
    state = was;
    cr_drop(base);
    return t;
}

static int64_t any_size(void)
{
    static const int64_t sizes[] = {1, 2, 3, 3, 4, 4, 4, 5, 8, 17};

    return draw(25) ? sizes[draw(CR_LEN(sizes))] : 0;
}

static input any_input(const program *p)
{
    static const cr_dtype types[] = {CR_F32, CR_F32,  CR_F32, CR_F32,  CR_F32, CR_F64, CR_I64,
                                     CR_I32, CR_BOOL, CR_F16, CR_BF16, CR_U8,  CR_C64};
    input in = {.dtype = types[draw(CR_LEN(types))],
                .ndim = (int)draw(4),
                .layout = draw(3) ? 0 : (int)draw(3)};

    in.seed = state;
    for (int d = 0; d < in.ndim; d++)
        in.size[d] = any_size();
    if (p->inputs && draw(3)) { /* usually sizes that broadcast with the input before */
        in.ndim = p->in[0].ndim;
        memcpy(in.size, p->in[0].size, sizeof in.size);
        for (int d = 0; d < in.ndim; d++)
            in.size[d] = draw(5) ? in.size[d] : 1;
        in.dtype = draw(3) ? p->in[0].dtype : in.dtype;
    }
    in.cotangent = p->inputs && !draw(4);
    in.indices = (in.dtype == CR_I64 || in.dtype == CR_I32) && draw(2);
    return in;
}

/* --- arguments --- */

typedef struct {
    cr_tensor *at[VALUES]; /* owned; NULL: no tensor */
} machine;

static void drop_machine(machine *m)
{
    for (int i = 0; i < VALUES; i++)
        cr_drop(m->at[i]);
    memset(m, 0, sizeof *m);
}

static int any_value(const program *p, const machine *m)
{
    if (p->chain && draw(3) && m->at[p->values - 1])
        return p->values - 1;
    for (int k = 0; k < 20; k++) {
        int v = draw(3) ? p->values - 1 - (int)draw((uint32_t)(p->values < 6 ? p->values : 6))
                        : (int)draw((uint32_t)p->values);
        if (m->at[v])
            return v;
    }
    for (int v = 0; v < p->values;
         v++) /* one remains: the result of the call that dropped others */
        if (m->at[v])
            return v;
    return 0;
}

static cr_garg any_number(void)
{
    static const double floats[] = {0.5, 2.0, -1.5, 1.0, 0.0, 3.25};

    return (cr_garg){.tag = CR_NUMBER,
                     .number = draw(2) ? cr_scalar_float(floats[draw(CR_LEN(floats))])
                                       : cr_scalar_int((int64_t)draw(6) - 2)};
}

static int64_t any_int(void) { return draw(4) ? draw(4) : -1 - (int64_t)draw(3); }

/* Up to four sizes whose product is `numel`. */
static uint32_t any_factors(int64_t *at, int64_t numel)
{
    uint32_t len = 1 + draw(4);

    for (uint32_t i = 0; i < len; i++)
        at[i] = 1;
    for (int64_t by = 2; numel > 1; by++)
        for (; numel % by == 0; numel /= by)
            at[draw(len)] *= by;
    return len;
}

/* The first or the last dims. */
static uint32_t any_dims(int64_t *at, int ndim)
{
    uint32_t len = ndim ? 1 + draw((uint32_t)ndim) : 0;
    int first = draw(2) ? 0 : ndim - (int)len;

    for (uint32_t i = 0; i < len; i++)
        at[i] = first + (int)i;
    return len;
}

/* Sizes, steps or margins of windows; false when the argument is of another kind. */
static bool any_window(cr_garg *a, int64_t *at, const char *name)
{
    static const char *const names[] = {"kernel_size", "output_size", "stride", "dilation",
                                        "padding"};

    for (uint32_t k = 0; k < CR_LEN(names); k++)
        if (!strcmp(name, names[k])) {
            a->len = 1 + draw(2);
            for (uint32_t i = 0; i < a->len; i++)
                at[i] = k < 2 ? 1 + draw(3) : k < 4 ? 1 + draw(2) : draw(2);
            return true;
        }
    return false;
}

static cr_garg any_ints(const program *p, const machine *m, const char *name)
{
    const cr_tensor *like = m->at[any_value(p, m)];
    int64_t *at = room(8 * sizeof *at);
    cr_garg a = {.tag = CR_INTS, .len = draw(4), .ints = at};

    for (uint32_t i = 0; i < 4; i++)
        at[i] = any_int();
    if (any_window(&a, at, name))
        return a;
    uint32_t how = p->chain ? draw(2) : draw(4);
    if (how == 0 && like->ndim <= 4 && !strcmp(name, "dim")) {
        a.len = any_dims(at, like->ndim);
    } else if (how == 0 && like->numel) {
        a.len = any_factors(at, like->numel);
    } else if (how < 3 && like->ndim <= 4) { /* the sizes of a value */
        a.len = like->ndim;
        for (int d = 0; d < like->ndim; d++)
            at[d] = like->size[d];
    }
    return a;
}

static cr_garg any_tensors(const program *p, const machine *m)
{
    cr_garg *list = room(3 * sizeof *list);
    cr_garg a = {.tag = CR_TENSORS, .len = 1 + draw(3), .list = list};
    int first = any_value(p, m);

    for (uint32_t i = 0; i < a.len; i++)
        list[i] = (cr_garg){.tag = CR_TENSOR, .i = draw(3) ? first : any_value(p, m)};
    return a;
}

static cr_garg preset(const cr_param *p)
{
    cr_garg a = {.tag = p->preset.tag, .len = p->preset.len};

    memcpy(&a.number, &p->preset.number, sizeof a.number);
    return a;
}

static bool is_index(const cr_tensor *t)
{
    return t && (t->dtype == CR_I64 || t->dtype == CR_I32);
}

/* A tensor of integers if there is one. */
static cr_garg any_index(const program *p, const machine *m)
{
    for (int k = 0; k < 12; k++) {
        int v = (int)draw((uint32_t)p->values);
        if (is_index(m->at[v]))
            return (cr_garg){.tag = CR_TENSOR, .i = v};
    }
    return (cr_garg){.tag = CR_TENSOR, .i = any_value(p, m)};
}

static bool names_index(const cr_param *param)
{
    return !strcmp(param->name, "index") || !strcmp(param->name, "indices");
}

static cr_garg any_arg(const program *p, const machine *m, const cr_param *param)
{
    static const cr_dtype types[] = {CR_F32, CR_F64, CR_I64, CR_I32, CR_BOOL, CR_F16};

    if (param->has_default && draw(p->chain && !strcmp(param->name, "dim") ? 2 : 3))
        return preset(param);
    if (param->optional && !draw(3))
        return (cr_garg){.tag = CR_NONE};
    if (param->type == CR_T_TENSOR && names_index(param) && draw(4))
        return any_index(p, m);
    switch ((cr_type)param->type) {
    case CR_T_TENSOR:
        return param->number && !draw(3) ? any_number()
                                         : (cr_garg){.tag = CR_TENSOR, .i = any_value(p, m)};
    case CR_T_TENSORS: return any_tensors(p, m);
    case CR_T_SCALAR: return any_number();
    case CR_T_INT: return (cr_garg){.tag = CR_INT, .i = any_int()};
    case CR_T_INTS: return any_ints(p, m, param->name);
    case CR_T_FLOAT: return (cr_garg){.tag = CR_FLOAT, .d = draw(2) ? 0.5 : draw(4) / 2.0};
    case CR_T_BOOL: return (cr_garg){.tag = CR_TRUTH, .i = draw(2)};
    case CR_T_DTYPE: return (cr_garg){.tag = CR_DTYPE_VAL, .i = types[draw(CR_LEN(types))]};
    default: return param->has_default ? preset(param) : (cr_garg){.tag = CR_NONE};
    }
}

/* --- entries --- */

static bool starts(const char *name, const char *front)
{
    return !strncmp(name, front, strlen(front));
}

/* True for entries that do not check their arguments, have undefined elements, take long,
 * depend on the number of threads, read the sign of NaN, or whose results are written only by
 * programs that use no other tensor on that memory (unsafe_split). */
static bool is_left_out(const cr_op *op)
{
    static const char *const fronts[] = {"_",
                                         "linalg_",
                                         "fft_",
                                         "empty",
                                         "new_empty",
                                         "resize",
                                         "set_",
                                         "as_strided",
                                         "lu",
                                         "svd",
                                         "qr",
                                         "eig",
                                         "geqrf",
                                         "orm",
                                         "org",
                                         "householder",
                                         "cholesky",
                                         "triangular",
                                         "pinverse",
                                         "inverse",
                                         "logdet",
                                         "slogdet",
                                         "det",
                                         "matrix_exp",
                                         "lstsq",
                                         "ctc_",
                                         "multinomial",
                                         "unique",
                                         "tril_indices",
                                         "triu_indices",
                                         "combinations",
                                         "cartesian",
                                         "repeat_interleave",
                                         "bincount",
                                         "item",
                                         "equal",
                                         "allclose",
                                         "is_",
                                         "pin_memory",
                                         "stft",
                                         "istft",
                                         "detach_",
                                         "kaiser",
                                         "range",
                                         "record_stream",
                                         "topk",
                                         "native_group_norm",
                                         "native_layer_norm",
                                         "signbit",
                                         "copysign",
                                         "unsafe_"};
    size_t n = strlen(op->name);

    for (size_t i = 0; i < CR_LEN(fronts); i++)
        if (starts(op->name, fronts[i]))
            return true;
    /* Graphs have no views with other bits conj and neg: recordings compute conjugates. */
    return (op->words & (CR_WORD_THREADS | CR_WORD_BITS)) || !strcmp(op->overload, "dtype") ||
           (n > 9 && !strcmp(op->name + n - 9, "_backward")) || !op->result_count;
}

/* True for entries that change the sizes or strides of self. */
static bool turns(const cr_op *op)
{
    static const char *const names[] = {"t_",        "transpose_", "swapaxes_",
                                        "swapdims_", "squeeze_",   "unsqueeze_"};

    for (size_t i = 0; i < CR_LEN(names); i++)
        if (!strcmp(op->name, names[i]))
            return true;
    return false;
}

static const cr_op *named(const char *const *names, uint32_t n)
{
    const cr_op *op = cr_ops_find(names[draw(n)]);

    if (!op) {
        printf("graph_fuzz: an operator is missing\n");
        exit(2);
    }
    while (op->next && draw(2)) /* an overload */
        op = op->next;
    return op;
}
#define NAMED(...)                                                                             \
    named((const char *const[]){__VA_ARGS__}, CR_LEN(((const char *const[]){__VA_ARGS__})))

static const cr_op *any_of_table(void)
{
    for (;;) {
        const cr_op *op = cr_ops_at((int)draw((uint32_t)cr_ops_count()));
        if (!is_left_out(op))
            return op;
    }
}

/* Windows, lists, reads and writes at computed places. */
static const cr_op *any_of_indices(void)
{
    switch (draw(4)) {
    case 0:
        return NAMED("max_pool1d", "avg_pool1d", "max_pool2d", "avg_pool2d",
                     "max_pool2d_with_indices", "adaptive_avg_pool2d", "adaptive_max_pool2d",
                     "im2col");
    case 1: return NAMED("cat", "stack", "select_scatter", "slice_scatter", "hstack");
    case 2:
        return NAMED("gather", "index_select", "take", "embedding", "flip", "roll", "tril",
                     "repeat", "constant_pad_nd");
    default: return NAMED("scatter_add", "index_add", "index_copy", "scatter", "index_fill");
    }
}

static const cr_op *any_of_chain(void)
{
    switch (draw(9)) {
    case 0:
    case 1: return NAMED("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze");
    case 2:
        return NAMED("sum", "mean", "amax", "var", "softmax", "log_softmax", "norm", "cumsum",
                     "cumsum", "cumprod", "cummax", "layer_norm");
    case 3:
        return NAMED("cat", "stack", "split", "chunk", "slice", "transpose", "permute",
                     "expand", "tril");
    case 4:
        return NAMED("where", "maximum", "dropout", "clamp", "to_dtype", "matmul", "linear");
    case 5: return any_of_indices();
    default:
        return NAMED("add", "sub", "mul", "exp", "relu", "neg", "sigmoid", "square", "abs",
                     "lerp");
    }
}

static const cr_op *any_op(bool chain)
{
    uint32_t k = draw(100);

    if (chain && draw(12))
        return any_of_chain();

    if (k < 38)
        return NAMED("add", "sub", "mul", "div", "maximum", "minimum", "where", "exp", "tanh",
                     "sigmoid", "relu", "gelu", "neg", "abs", "sqrt", "clamp", "lt", "ge", "eq",
                     "logical_not", "bitwise_and", "lerp", "silu", "pow", "floor", "rsqrt",
                     "addcmul", "masked_fill", "sin", "erf", "log1p", "square");
    if (k < 54)
        return NAMED("transpose", "view", "reshape", "select", "slice", "permute", "expand",
                     "unsqueeze", "squeeze", "flatten", "t", "diagonal", "unbind", "split",
                     "narrow", "chunk", "movedim", "unfold", "alias");
    if (k < 66)
        return NAMED("add_", "mul_", "relu_", "copy_", "fill_", "zero_", "sub_", "clamp_",
                     "masked_fill_", "t_", "unsqueeze_", "exp_", "transpose_", "logical_not_",
                     "neg_", "squeeze_", "index_fill_", "cumsum_", "fill_diagonal_", "addcmul_",
                     "tril_");
    if (k < 74)
        return NAMED("sum", "mean", "amax", "prod", "any", "argmax", "softmax", "log_softmax",
                     "var", "norm", "cumsum", "cumprod", "cummax", "cummin", "logsumexp",
                     "layer_norm");
    if (k < 78)
        return NAMED("matmul", "mm", "bmm", "linear", "addmm");
    if (k < 86)
        return NAMED("clone", "contiguous", "to_dtype", "cat", "stack", "zeros_like",
                     "full_like", "index_select", "gather", "flip", "roll", "tril", "type_as",
                     "ones", "arange", "full");
    if (k < 88)
        return any_of_indices();
    if (k < 91)
        return NAMED("dropout", "native_dropout", "rand_like", "bernoulli", "uniform_",
                     "normal_", "rand");
    return any_of_table();
}

/* --- running a program by calls --- */

static cr_value load(const machine *m, const cr_garg *a)
{
    cr_value v = {.tag = a->tag, .len = a->len};
    cr_value *list;

    if (a->tag == CR_TENSOR)
        return cr_of_tensor(m->at[a->i]);
    memcpy(&v.number, &a->number, sizeof a->number);
    if (a->tag != CR_TENSORS)
        return v;
    list = room(a->len * sizeof *list);
    for (uint32_t i = 0; i < a->len; i++)
        list[i] = cr_of_tensor(m->at[a->list[i].i]);
    v.list = list;
    return v;
}

/* True when a node that made a tensor of the argument was removed. */
static bool lacks_tensor(const cr_garg *a, const cr_value *v)
{
    for (uint32_t i = 0; a->tag == CR_TENSORS && i < a->len; i++)
        if (v->list[i].tag != CR_TENSOR)
            return true;
    return a->tag == CR_TENSOR && v->tag != CR_TENSOR;
}

/* Makes the call and adds its results to the values.  Returns their number, or -1 when the call
 * fails or a result is no tensor. */
static int call(machine *m, const node *n, int room_left)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS], *list = result;
    int count = n->op->result_count;
    bool fits = true;

    for (int i = 0; i < n->op->param_count; i++) {
        arg[i] = load(m, &n->arg[i]);
        if (lacks_tensor(&n->arg[i], &arg[i]))
            return -1;
    }
    if (cr_call(n->op, arg, result))
        return -1;
    if (count == 1 && result[0].tag == CR_TENSORS) {
        count = (int)result[0].len;
        list = (cr_value *)(uintptr_t)result[0].list;
    }
    for (int k = 0; k < count; k++)
        fits = fits && list[k].tag == CR_TENSOR && list[k].t->numel <= LARGEST &&
               list[k].t->ndim <= 5 && cr_is_host(list[k].t->device) &&
               !list[k].t->layout; /* compiled functions run eagerly where a tensor is sparse */
    fits = fits && count && count <= room_left;
    for (int k = 0; k < count && fits; k++) {
        cr_drop(m->at[n->first + k]);
        m->at[n->first + k] = cr_keep(list[k].t);
    }
    cr_drop_values(result, n->op->result_count);
    return fits ? count : -1;
}

/* --- making a program --- */

/* True when elements may share memory, so that the result of a write is undefined. */
static bool may_overlap(const cr_tensor *t)
{
    int order[CR_MAX_DIMS], n = 0;
    int64_t reach = 0;

    for (int d = 0; d < t->ndim; d++) {
        int at = n;
        if (t->size[d] < 2)
            continue;
        for (; at > 0 && t->stride[order[at - 1]] > t->stride[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
        n++;
    }
    for (int k = 0; k < n; k++) {
        if (t->stride[order[k]] <= reach)
            return true;
        reach += (t->size[order[k]] - 1) * t->stride[order[k]];
    }
    return false;
}

static bool writes_overlap(const machine *m, const node *n)
{
    for (int i = 0; i < n->op->param_count; i++)
        if (n->op->param[i].written && n->arg[i].tag == CR_TENSOR && m->at[n->arg[i].i] &&
            may_overlap(m->at[n->arg[i].i]))
            return true;
    return false;
}

static bool add_call(program *p, machine *m, const cr_op *op)
{
    node *n = &p->at[p->len];
    int results;

    memset(n, 0, sizeof *n);
    n->op = op;
    n->first = p->values;
    for (int i = 0; i < n->op->param_count; i++)
        n->arg[i] = any_arg(p, m, &n->op->param[i]);
    if ((turns(n->op) && n->arg[0].i < p->inputs) || writes_overlap(m, n))
        return false;
    results = call(m, n, VALUES - p->values);
    if (results < 0)
        return false;
    for (int v = 0; turns(n->op) && v < n->first; v++)
        if (m->at[v] == m->at[n->first]) { /* a recording has only its newest value */
            cr_drop(m->at[v]);
            m->at[v] = NULL;
        }
    n->results = results;
    p->values += results;
    p->len++;
    return true;
}

/* Adds a call of any entry that takes one of a few draws of arguments. */
static void add_node(program *p, machine *m)
{
    const cr_op *op = any_op(p->chain);

    for (int k = 0; k < 4 && !is_left_out(op); k++)
        if (add_call(p, m, op))
            return;
}

static void make_program(program *p)
{
    machine m = {{0}};
    int want = 2 + (int)draw(NODES - 2);

    cr_arena_drop(&literals);
    memset(&literals, 0, sizeof literals);
    memset(p, 0, sizeof *p);
    p->chain = draw(2);
    for (int n = 1 + (int)draw(INPUTS); p->inputs < n; p->inputs++) {
        p->in[p->inputs] = any_input(p);
        m.at[p->values++] = input_tensor(&p->in[p->inputs]);
    }
    for (int k = 0; k < TRIES && p->len < want && p->values < VALUES; k++)
        add_node(p, &m);
    p->outputs = 1 + (int)draw(OUTPUTS);
    for (int k = 0; k < p->outputs; k++)
        p->output[k] = any_value(p, &m);
    drop_machine(&m);
}

/* --- results of a run --- */

typedef struct {
    int len;
    cr_tensor *at[OUTPUTS + INPUTS]; /* owned: outputs, then inputs */
    float drawn;
    bool late[OUTPUTS + INPUTS]; /* made by the backward part, so it shares no memory */
} outcome;

static void drop_outcome(outcome *o)
{
    for (int i = 0; i < o->len; i++)
        cr_drop(o->at[i]);
    o->len = 0;
}

static float next_drawn(void)
{
    int64_t one = 1;
    cr_value size = cr_of_ints(&one, 1), result;
    float x;

    if (cr_call_named("rand", &size, 1, &result))
        exit(2);
    x = *(const float *)(const void *)result.t->address;
    cr_drop_values(&result, 1);
    return x;
}

static bool same_bytes(const char *a, const char *b, cr_dtype t)
{
    size_t n = cr_dtype_size(t);

    if (!memcmp(a, b, n))
        return true;
    if (!cr_dtype_is_inexact(t))
        return false;
    cr_complex x = cr_scalar_as_complex(cr_scalar_load(t, a)),
               y = cr_scalar_as_complex(cr_scalar_load(t, b));
    bool re = isnan(x.re) ? isnan(y.re) : x.re == y.re && signbit(x.re) == signbit(y.re);
    bool im = isnan(x.im) ? isnan(y.im) : x.im == y.im && signbit(x.im) == signbit(y.im);
    return re && im;
}

/* Strides of dims of size 1 are not compared. */
static bool same_layout(const cr_tensor *a, const cr_tensor *b)
{
    for (int d = 0; d < a->ndim; d++)
        if (a->numel && a->size[d] > 1 && a->stride[d] != b->stride[d])
            return false;
    return true;
}

static const char *tensor_difference(const cr_tensor *a, const cr_tensor *b)
{
    int64_t at[CR_MAX_DIMS] = {0};

    if (!a || !b)
        return a == b ? NULL : "there is no tensor";
    if (a->dtype != b->dtype || a->ndim != b->ndim ||
        (a->ndim && memcmp(a->size, b->size, a->ndim * sizeof *a->size)))
        return "another dtype or size";
    if (!same_layout(a, b))
        return "other strides";
    for (int64_t i = 0; i < a->numel; i++) {
        int64_t x = 0, y = 0;
        for (int d = 0; d < a->ndim; d++) {
            x += at[d] * a->stride[d];
            y += at[d] * b->stride[d];
        }
        int64_t size = (int64_t)cr_dtype_size((cr_dtype)a->dtype);
        if (!same_bytes(a->address + x * size, b->address + y * size, (cr_dtype)a->dtype))
            return "other bits";
        for (int d = a->ndim - 1; d >= 0 && ++at[d] == a->size[d]; d--)
            at[d] = 0;
    }
    return NULL;
}

/* Names the first difference; NULL when there is none. */
static const char *difference(const outcome *a, const outcome *b, int outputs)
{
    for (int i = 0; i < a->len; i++) {
        const char *what = tensor_difference(a->at[i], b->at[i]);
        if (what)
            return i < outputs ? what : "an input was left otherwise";
        for (int k = 0; k < i; k++)
            if ((a->at[i]->storage == a->at[k]->storage) !=
                    (b->at[i]->storage == b->at[k]->storage) &&
                a->at[i]->numel && a->at[k]->numel && !a->late[i] && !a->late[k])
                return "other tensors share memory";
    }
    return a->drawn == b->drawn ? NULL : "other numbers were drawn";
}

static void seed_draws(void)
{
    if (cr_generator_seed(cr_generator_default(), 7))
        abort();
}

/* --- graphs --- */

typedef struct {
    const program *p;
    cr_session session;
    cr_graph *g; /* the calls, before any pass */
    cr_gvalue *value[VALUES];
    cr_gtype type[VALUES]; /* types of the calls' results */
    outcome want;
    cr_graph *made[64]; /* results of passes */
    int made_count;
    const char *stage; /* the way of running that differed */
    char what[256];
} trial;

/* Makes the calls one by one and stores the expected results; false when a call fails. */
static bool run_calls(trial *t)
{
    const program *p = t->p;
    machine m = {{0}};
    bool ok = true;

    seed_draws();
    for (int i = 0; i < p->inputs; i++) {
        m.at[i] = input_tensor(&p->in[i]);
        t->type[i] = cr_gtype_of(&t->session, m.at[i]);
    }
    for (int i = 0; ok && i < p->len; i++) {
        const node *n = &p->at[i];
        ok = n->gone || call(&m, n, n->results) == n->results;
        for (int k = 0; ok && !n->gone && k < n->results; k++)
            t->type[n->first + k] = cr_gtype_of(&t->session, m.at[n->first + k]);
    }
    t->want.len = p->outputs + p->inputs;
    for (int k = 0; k < t->want.len; k++) {
        t->want.at[k] = cr_keep(m.at[k < p->outputs ? p->output[k] : k - p->outputs]);
        ok = ok && t->want.at[k];
    }
    t->want.drawn = next_drawn();
    drop_machine(&m);
    return ok;
}

static cr_garg graph_arg(trial *t, const cr_garg *a)
{
    cr_garg out = *a, *list;

    if (a->tag == CR_TENSOR)
        return cr_garg_value(t->value[a->i]);
    if (a->tag != CR_TENSORS)
        return out;
    list = CR_NEW_N(&t->session, cr_garg, a->len);
    for (uint32_t i = 0; i < a->len; i++)
        list[i] = cr_garg_value(t->value[a->list[i].i]);
    out.list = list;
    return out;
}

static void build_graph(cr_session *s, void *context)
{
    trial *t = context;
    const program *p = t->p;
    cr_garg out[OUTPUTS], arg[CR_MAX_ARGS];
    char name[16];

    t->g = cr_graph_new(s);
    for (int i = 0; i < p->inputs; i++) {
        snprintf(name, sizeof name, "x%d", i);
        t->value[i] = cr_graph_input(t->g, name, &t->type[i]);
    }
    for (int i = 0; i < p->len; i++) {
        const node *n = &p->at[i];
        if (n->gone)
            continue;
        for (int k = 0; k < n->op->param_count; k++)
            arg[k] = graph_arg(t, &n->arg[k]);
        cr_gnode *made = cr_graph_call(t->g, t->g->body, n->op, arg, n->results, NULL);
        for (int k = 0; k < n->results; k++) {
            made->result[k]->type = t->type[n->first + k];
            t->value[n->first + k] = made->result[k];
        }
    }
    for (int k = 0; k < p->outputs; k++)
        out[k] = cr_garg_value(t->value[p->output[k]]);
    cr_gblock_return(t->g, t->g->body, out, p->outputs);
    cr_graph_verify(t->g);
}

static void start_trial(trial *t, const program *p)
{
    memset(t, 0, sizeof *t);
    t->p = p;
}

static void end_trial(trial *t)
{
    drop_outcome(&t->want);
    for (int i = 0; i < t->made_count; i++)
        cr_graph_drop(t->made[i]);
    cr_session_drop(&t->session);
}

/* --- ways of running --- */

typedef cr_status (*runner)(void *what, cr_tensor *const *in, cr_tensor **out);

static bool differs(trial *t, const char *stage, const char *what)
{
    t->stage = stage;
    snprintf(t->what, sizeof t->what, "%s", what);
    return true;
}

static bool run_differs(trial *t, const char *stage, runner run, void *what)
{
    outcome got = {.len = t->want.len};
    cr_tensor **in = got.at + t->p->outputs;
    const char *found;

    for (int i = 0; i < t->p->inputs; i++)
        in[i] = input_tensor(&t->p->in[i]);
    seed_draws();
    if (run(what, in, got.at)) {
        memset(got.at, 0, (size_t)t->p->outputs * sizeof *got.at);
        drop_outcome(&got);
        return differs(t, stage, cr_error_message());
    }
    got.drawn = next_drawn();
    found = difference(&t->want, &got, t->p->outputs);
    drop_outcome(&got);
    return found && differs(t, stage, found);
}

static cr_status run_graph(void *g, cr_tensor *const *in, cr_tensor **out)
{
    return cr_graph_run(g, in, out);
}

static cr_status run_program(void *p, cr_tensor *const *in, cr_tensor **out)
{
    return cr_program_run(p, in, NULL, out);
}

/* --- plans of commands --- */

/* The bytes of the storage from the tensor's first element on. */
static size_t bytes_from(const cr_tensor *t)
{
    return t->storage->size - (size_t)(t->address - (char *)t->storage->chunk);
}

/* The memory of each buffer: of an input, or new. */
static cr_status give_memory(cr_plan_run *r, cr_storage **storage, cr_tensor *const *in,
                             int inputs)
{
    const cr_plan *p = r->plan;
    int next = 0;

    for (size_t b = 0; b < p->buffer.len; b++) {
        while (p->buffer.at[b].input && next < inputs && !in[next]->numel)
            next++;
        if (p->buffer.at[b].input && next == inputs)
            return cr_fail(CR_VALUE, "the plan has more inputs than %d", inputs);
        if (p->buffer.at[b].input) {
            cr_tensor *t = in[next++];
            storage[b] = cr_storage_keep(t->storage);
            CR_TRY(test_plan_give(r, b, t->address, bytes_from(t)));
            continue;
        }
        CR_TRY(cr_storage_new(&storage[b], CR_HOST, p->buffer.at[b].bytes));
        CR_TRY(test_plan_give(r, b, storage[b]->chunk, p->buffer.at[b].bytes));
    }
    return CR_OK;
}

static cr_status plan_output(cr_tensor **out, cr_plan_run *r, cr_storage **storage,
                             const cr_array *a)
{
    cr_dtype t = (cr_dtype)a->dtype;
    cr_storage *s;
    char *at;

    if (!a->data)
        return cr_tensor_new_strided(out, t, CR_HOST, a->ndim, a->size, a->stride);
    CR_TRY(cr_plan_place(&at, r, a->data));
    s = storage[cr_plan_buffer_of(a->data)];
    CR_TRY(cr_tensor_over(out, s, t, a->ndim, a->size, a->stride,
                          (at - (char *)s->chunk) / (int64_t)cr_dtype_size(t)));
    cr_storage_keep(s);
    return CR_OK;
}

/* Runs a plan of cr_graph_plan on the host.  Inputs are those of the collection; outputs that
 * are views of inputs or of each other share their storages.  The caller owns the outputs. */
static cr_status plan_run(const cr_plan *p, const cr_executor *by, cr_tensor *const *in,
                          int inputs, cr_tensor **output)
{
    cr_storage **storage = cr_alloc_zero(p->buffer.len * sizeof *storage + 1);
    cr_plan_run r = cr_plan_start(p, by);
    size_t made = 0;
    cr_status st = storage ? give_memory(&r, storage, in, inputs) : CR_MEMORY;

    if (!st)
        st = cr_plan_execute(&r);
    for (; !st && made < p->output.len; made++)
        st = plan_output(&output[made], &r, storage, &p->output.at[made]);
    size_t whole = st && made ? made - 1 : made; /* the last one failed */
    cr_status ended = cr_plan_end(&r);
    st = st ? st : ended;
    for (size_t i = 0; st && i < whole; i++)
        cr_drop(output[i]);
    for (size_t b = 0; storage && b < p->buffer.len; b++)
        if (storage[b])
            cr_storage_drop(storage[b]);
    cr_free(storage);
    return st;
}

/* Parses the text of the commands; its text must be the same. */
static cr_status read_plan(cr_plan *out, const cr_plan *from)
{
    cr_text text = {0}, again = {0};

    cr_plan_print(&text, from);
    cr_status st = cr_plan_parse(out, cr_text_str(&text));
    cr_plan_print(&again, out);
    if (!st && strcmp(cr_text_str(&text), cr_text_str(&again)))
        st = cr_fail(CR_ASSERTION, "the text of the plan is not that of the parsed plan");
    cr_text_drop(&text);
    cr_text_drop(&again);
    return st;
}

typedef cr_status (*planner)(cr_plan *out, const cr_graph *g, cr_tensor *const *in);

/* The graph's commands, one element after another. */
static cr_status run_plan_of(planner plan, const cr_graph *g, cr_tensor *const *in,
                             cr_tensor **out)
{
    cr_plan p = {.arena = {0}}, again = {.arena = {0}};
    cr_status st = plan(&p, g, in);

    if (!st)
        st = read_plan(&again, &p);
    if (!st)
        st = plan_run(&again, &cr_oracle, in, g->input_count, out);
    cr_plan_drop(&again);
    cr_plan_drop(&p);
    return st;
}

static cr_status run_plan(void *g, cr_tensor *const *in, cr_tensor **out)
{
    return run_plan_of(cr_graph_plan, g, in, out);
}

static cr_status run_group_plan(void *g, cr_tensor *const *in, cr_tensor **out)
{
    return run_plan_of(cr_graph_group_plan, g, in, out);
}

static bool keeps_geometry(const input *in, const cr_tensor *now)
{
    cr_tensor *was = input_tensor(in);
    size_t bytes = (size_t)in->ndim * sizeof *was->size;
    bool same = now->ndim == was->ndim && now->storage->size == was->storage->size &&
                !memcmp(now->size, was->size, bytes) &&
                !memcmp(now->stride, was->stride, bytes);

    cr_drop(was);
    return same;
}

/* True if an operator wants a tensor on the host that is on the device that collects. */
static bool plan_is_refused(trial *t, planner plan)
{
    cr_plan p = {.arena = {0}};
    cr_tensor *in[INPUTS] = {0};
    bool refused = false;

    for (int i = 0; i < t->p->inputs; i++)
        in[i] = input_tensor(&t->p->in[i]);
    if (plan(&p, t->g, in))
        refused = strstr(cr_error_message(), cr_device_print(cr_collect_device()).text) != NULL;
    for (int i = 0; i < t->p->inputs; i++)
        cr_drop(in[i]);
    cr_plan_drop(&p);
    return refused;
}

/* A plan writes elements of inputs, but gives no tensor other sizes. */
static bool plan_differs(trial *t)
{
    for (int i = 0; i < t->p->inputs; i++)
        if (!keeps_geometry(&t->p->in[i], t->want.at[t->p->outputs + i]))
            return false;
    return (run_differs(t, "plan", run_plan, t->g) && !plan_is_refused(t, cr_graph_plan)) ||
           (run_differs(t, "plan of groups", run_group_plan, t->g) &&
            !plan_is_refused(t, cr_graph_group_plan));
}

static bool at_both_threads(trial *t, const char *stage, runner run, void *what)
{
    bool found = false;

    for (int n = 1; n <= 2 && !found; n++)
        found = cr_set_threads(n) || run_differs(t, stage, run, what);
    return cr_set_threads(1) || found;
}

/* --- passes --- */

typedef struct {
    const cr_graph *from;
    const char *passes; /* names with blanks between them */
    cr_graph *out;
} pass_job;

static void run_passes(cr_session *s, void *context)
{
    pass_job *j = context;
    char names[128], *rest = names, *name;
    const cr_graph *g = j->from;

    (void)s;
    snprintf(names, sizeof names, "%s", j->passes);
    while ((name = strtok_r(rest, " ", &rest))) {
        cr_graph_pass pass =
            strcmp(name, "group") ? cr_graph_find_pass(name) : cr_compile_group;
        cr_graph *next = pass(g);
        if (next != g) {
            cr_graph_verify(next);
            cr_graph_drop(j->out);
            g = j->out = next;
        }
    }
    if (!j->out)
        j->out = (cr_graph *)(uintptr_t)j->from;
}

static void keep_graph(trial *t, cr_graph *g)
{
    if (g != t->g && t->made_count < (int)CR_LEN(t->made))
        t->made[t->made_count++] = g;
}

static cr_graph *passed(trial *t, const cr_graph *g, const char *passes)
{
    pass_job j = {.from = g, .passes = passes};

    if (!cr_session_run(&t->session, run_passes, &j)) {
        keep_graph(t, j.out);
        return j.out;
    }
    differs(t, passes, cr_error_message());
    return NULL;
}

static bool passes_differ(trial *t)
{
    static const char *const chains[] = {"dead",
                                         "common",
                                         "simplify",
                                         "fold",
                                         "functional",
                                         "decompose",
                                         "functional decompose simplify common dead",
                                         "functional common simplify fold common dead",
                                         "group"};

    for (size_t i = 0; i < CR_LEN(chains); i++) {
        cr_graph *g = passed(t, t->g, chains[i]);
        if (!g || run_differs(t, chains[i], run_graph, g))
            return true;
    }
    return false;
}

/* --- text --- */

static void read_text(cr_session *s, void *context)
{
    pass_job *j = context;

    j->out = cr_graph_parse(s, j->passes);
    cr_graph_verify(j->out);
}

static bool text_differs(trial *t)
{
    cr_text text = {0}, again = {0};
    pass_job j = {0};
    bool found;

    cr_graph_print(&text, t->g);
    j.passes = cr_text_str(&text);
    if (cr_session_run(&t->session, read_text, &j)) {
        found = differs(t, "text", cr_error_message());
    } else {
        cr_graph_print(&again, j.out);
        found = strcmp(cr_text_str(&text), cr_text_str(&again))
                    ? differs(t, "text", "it prints otherwise")
                    : run_differs(t, "text", run_graph, j.out);
    }
    cr_text_drop(&again);
    cr_text_drop(&text);
    return found;
}

/* --- groups and programs --- */

static bool tiles_differ(trial *t)
{
    cr_graph *g = passed(t, t->g, "functional common simplify dead group");
    cr_compiled *c = NULL;
    bool found;

    if (!g)
        return true;
    for (int tiles = 1; tiles >= 0; tiles--) { /* without them groups call their nodes */
        setenv("CR_TILES", tiles ? "1" : "0", 1);
        if (cr_compile_code(&c, g, 0))
            return differs(t, "code", cr_error_message());
        found = at_both_threads(t, tiles ? "tiles" : "nodes", run_graph, g);
        cr_compiled_drop(c);
        if (found)
            return true;
    }
    return false;
}

static bool program_differs(trial *t, const char *passes, const char *stage)
{
    cr_graph *g = passed(t, t->g, passes);
    cr_program *p = NULL;
    bool found;

    if (!g)
        return true;
    if (cr_program_new(&p, g, 0))
        return differs(t, stage, cr_error_message());
    found = at_both_threads(t, stage, run_program, p);
    cr_program_drop(p);
    return found;
}

/* --- other sizes --- */

/* Replaces the first size above 1 by `to` in all inputs and marks these dims; false when no
 * size is above 1. */
static bool vary(program *q, uint64_t *dims, int64_t to)
{
    int64_t from = 0;

    for (int i = 0; i < q->inputs; i++)
        for (int d = 0; d < q->in[i].ndim; d++) {
            if (!from && q->in[i].size[d] > 1)
                from = q->in[i].size[d];
            if (!from || q->in[i].size[d] != from || q->in[i].layout)
                continue;
            q->in[i].size[d] = to == from ? to + 1 : to;
            dims[i] |= UINT64_C(1) << d;
        }
    return from;
}

/* Records the calls of p with the sizes `dims` as symbols; NULL when that fails. */
static cr_graph *record(const program *p, cr_recorder *r, const uint64_t *dims)
{
    machine m = {{0}};
    cr_tensor *out[OUTPUTS];
    cr_graph *g = NULL;
    bool ok = true;

    for (int i = 0; ok && i < p->inputs; i++) {
        m.at[i] = input_tensor(&p->in[i]);
        ok = !cr_recorder_input(r, m.at[i], NULL) &&
             (!dims[i] || !cr_recorder_dynamic(r, m.at[i], dims[i]));
    }
    ok = ok && !cr_recorder_start(r);
    for (int i = 0; ok && i < p->len; i++)
        ok = p->at[i].gone || call(&m, &p->at[i], p->at[i].results) == p->at[i].results;
    cr_recorder_stop(r);
    for (int k = 0; ok && k < p->outputs; k++)
        ok = (out[k] = m.at[p->output[k]]);
    if (ok && cr_recorder_finish(&g, r, out, p->outputs))
        g = NULL;
    drop_machine(&m);
    return g;
}

/* Compares the instance for u's sizes with u's calls; true when they differ. */
static bool instance_of(trial *u, const cr_graph *g)
{
    cr_tensor *in[INPUTS];
    cr_graph *made = NULL;
    cr_status st;

    for (int i = 0; i < u->p->inputs; i++)
        in[i] = input_tensor(&u->p->in[i]);
    st = cr_graph_instantiate(&made, &u->session, g, in, NULL, false);
    for (int i = 0; i < u->p->inputs; i++)
        cr_drop(in[i]);
    if (st || !made) /* no instance: such a call runs eagerly */
        return false;
    keep_graph(u, made);
    u->g = made;
    return run_differs(u, "instance", run_graph, made) ||
           program_differs(u, "", "program of an instance");
}

static cr_status run_call(void *c, cr_tensor *const *in, cr_tensor **out)
{
    return cr_compiled_call_run(c, in, NULL, out);
}

static cr_compiled_call *call_for(const program *p, cr_compiled_calls *calls)
{
    cr_compiled_call *c = NULL;
    cr_tensor *in[INPUTS];

    for (int i = 0; i < p->inputs; i++)
        in[i] = input_tensor(&p->in[i]);
    if (cr_compiled_calls_find(&c, calls, in, NULL))
        c = NULL;
    for (int i = 0; i < p->inputs; i++)
        cr_drop(in[i]);
    return c;
}

static long shared_calls; /* compared so far */

/* A call for u's sizes that shares its program with those before gives what its calls give. */
static bool shared_call_differs(trial *u, cr_compiled_calls *calls)
{
    int programs = cr_compiled_calls_shared(calls);
    cr_compiled_call *c = call_for(u->p, calls);

    if (!c || !programs || cr_compiled_calls_shared(calls) != programs)
        return false;
    shared_calls++;
    return at_both_threads(u, "call that shares its program", run_call, c);
}

/* The same for further sizes, one after the other: instances follow each other. */
static bool more_sizes_differ(trial *u, const program *p, cr_compiled_calls *calls,
                              const uint64_t *dims)
{
    static const int64_t sizes[] = {12, 2, 33, 5};
    bool found = false;

    for (size_t i = 0; !found && i < CR_LEN(sizes); i++) {
        program q = *p;
        uint64_t same[INPUTS] = {0};
        trial v = {.p = &q};
        vary(&q, same, sizes[i]);
        if (!memcmp(same, dims, sizeof same) && run_calls(&v))
            found = shared_call_differs(&v, calls);
        if (found) {
            u->stage = v.stage;
            memcpy(u->what, v.what, sizeof u->what);
        }
        end_trial(&v);
    }
    return found;
}

/* The same for a call of u's sizes that shares its program with a call of other sizes; false
 * when no program is shared. */
static bool shared_differs(trial *u, const program *p, const cr_graph *g, uint64_t *dims)
{
    program other = *p;
    cr_compiled_calls *calls = NULL;
    bool found = false;

    if (g->constants.len || !vary(&other, dims, 9 + (int64_t)(p->in[0].seed % 3)) ||
        cr_compiled_calls_new(&calls, g, false, 0))
        return false;
    if (call_for(&other, calls))
        found = shared_call_differs(u, calls) || more_sizes_differ(u, p, calls, dims);
    cr_compiled_calls_drop(calls);
    return found;
}

static bool instance_differs(trial *t)
{
    program q = *t->p;
    uint64_t dims[INPUTS] = {0};
    cr_recorder *r = NULL;
    bool found = false;
    trial u;

    if (!vary(&q, dims, 2 + (int64_t)(q.in[0].seed % 7)) || cr_recorder_new(&r, false))
        return false;
    memset(&u, 0, sizeof u);
    u.p = &q;
    cr_graph *g = record(t->p, r, dims);
    if (g && run_calls(&u))
        found = (instance_of(&u, g) || shared_differs(&u, t->p, g, dims)) &&
                differs(t, u.stage, u.what);
    u.g = NULL;
    end_trial(&u);
    cr_recorder_drop(r);
    return found;
}

/* --- forward and backward --- */

typedef struct {
    trial *t;
    const cr_graph *g;
    int primals, outputs; /* of the forward part */
    int order[OUTPUTS];   /* outputs, those of the forward part first */
    int input[INPUTS];    /* inputs in the same order */
    cr_aot_policy policy;
    cr_aot_parts parts;
} cut;

/* Sets late[v] when value v depends on a cotangent.  True when such a node draws or writes, so
 * that the graph cannot be cut. */
static bool find_late(const program *p, bool *late)
{
    bool drawn = false;

    for (int i = 0; i < p->inputs; i++)
        late[i] = p->in[i].cotangent;
    for (int i = 0; i < p->len; i++) {
        const node *n = &p->at[i];
        bool any = false, writes = n->op->updates.params != 0;
        for (int k = 0; k < n->op->param_count && !n->gone; k++) {
            writes |= n->op->param[k].written;
            any |= n->arg[k].tag == CR_TENSOR && late[n->arg[k].i];
            for (uint32_t e = 0; n->arg[k].tag == CR_TENSORS && e < n->arg[k].len; e++)
                any |= late[n->arg[k].list[e].i];
        }
        for (int k = 0; k < n->results; k++)
            late[n->first + k] = any;
        drawn |= any && !n->gone && (cr_op_draws(n->op) || writes);
    }
    return drawn;
}

static void make_cut(cr_session *s, void *context)
{
    cut *c = context;
    const program *p = c->t->p;
    cr_graph *g = c->t->g;
    cr_garg out[OUTPUTS];
    cr_gvalue **in = CR_NEW_N(s, cr_gvalue *, p->inputs);
    cr_graph *f;

    /* inputs and outputs in the order of the cut */
    for (int i = 0; i < p->inputs; i++)
        (in[i] = g->input[c->input[i]])->index = i;
    for (int k = 0; k < p->outputs; k++)
        out[k] = cr_garg_value(c->t->value[p->output[c->order[k]]]);
    g->input = in;
    cr_gblock_return(g, g->body, out, p->outputs);
    f = cr_graph_functional(g);
    keep_graph(c->t, f);
    c->parts = cr_aot_partition(f, c->primals, c->outputs, c->policy);
    keep_graph(c->t, c->parts.forward);
    keep_graph(c->t, c->parts.backward);
    cr_graph_verify(c->parts.forward);
    cr_graph_verify(c->parts.backward);
}

static cr_status run_cut(void *what, cr_tensor *const *in, cr_tensor **out)
{
    cut *c = what;
    const program *p = c->t->p;
    cr_tensor *first[INPUTS], *made[OUTPUTS + VALUES] = {0}, *late[OUTPUTS] = {0},
                                              *args[VALUES + INPUTS];
    cr_status st;

    for (int i = 0; i < p->inputs; i++)
        first[i] = in[c->input[i]];
    CR_TRY(cr_graph_run(c->parts.forward, first, made));
    memcpy(args, made + c->outputs, (size_t)c->parts.saved * sizeof *args);
    memcpy(args + c->parts.saved, first + c->primals,
           (size_t)(p->inputs - c->primals) * sizeof *args);
    st = cr_graph_run(c->parts.backward, args, late);
    for (int k = 0; k < c->parts.saved; k++)
        cr_drop(made[c->outputs + k]);
    for (int k = 0; k < c->outputs && st; k++)
        cr_drop(made[k]);
    for (int k = 0; k < p->outputs && !st; k++)
        out[c->order[k]] = k < c->outputs ? made[k] : late[k - c->outputs];
    return st;
}

/* Compares the cut graph.  Graphs with writes that a functional graph does not have cannot be
 * cut and are skipped. */
static bool cut_differs(trial *t)
{
    const program *p = t->p;
    bool late[VALUES];
    cut c = {.t = t};
    int n = 0;

    if (find_late(p, late))
        return false;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < p->outputs; k++)
            if (late[p->output[k]] == pass)
                c.order[n++] = k;
        c.outputs = pass ? c.outputs : n;
    }
    n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < p->inputs; i++)
            if (p->in[i].cotangent == pass)
                c.input[n++] = i;
        c.primals = pass ? c.primals : n;
    }
    for (int k = 0; k < 2; k++) {
        cr_graph *was = t->g;
        cr_gvalue **in = was->input;
        c.policy = k ? CR_AOT_MIN_CUT : CR_AOT_SAVE;
        cr_status st = cr_session_run(&t->session, make_cut, &c);
        t->g->input = in;
        for (int i = 0; i < p->inputs; i++)
            in[i]->index = i;
        if (st && strstr(cr_error_message(), "a graph that writes to tensors cannot be cut"))
            return false;
        if (st)
            return differs(t, k ? "min cut" : "save", cr_error_message());
        for (int i = 0; i < p->outputs; i++)
            t->want.late[c.order[i]] = i >= c.outputs;
        if (run_differs(t, k ? "min cut" : "save", run_cut, &c))
            return true;
    }
    return false;
}

/* --- one graph --- */

/* True when a call or the graph is refused, so that there is no expected result. */
static bool is_void(trial *t)
{
    return !run_calls(t) || cr_session_run(&t->session, build_graph, t);
}

static bool graph_differs(trial *t)
{
    return at_both_threads(t, "run", run_graph, t->g) || text_differs(t) || plan_differs(t) ||
           passes_differ(t) || tiles_differ(t) || program_differs(t, "", "program") ||
           program_differs(t, "functional", "functional program") || instance_differs(t) ||
           cut_differs(t);
}

static bool program_fails(const program *p, const char *stage)
{
    trial t;
    bool found;

    start_trial(&t, p);
    found = !is_void(&t) && graph_differs(&t) && (!stage || !strcmp(t.stage, stage));
    end_trial(&t);
    return found;
}

/* --- shrinking --- */

static bool reads(const node *n, int v)
{
    for (int i = 0; i < n->op->param_count; i++) {
        if (n->arg[i].tag == CR_TENSOR && n->arg[i].i == v)
            return true;
        for (uint32_t k = 0; n->arg[i].tag == CR_TENSORS && k < n->arg[i].len; k++)
            if (n->arg[i].list[k].i == v)
                return true;
    }
    return false;
}

static bool is_read(const program *p, const node *n)
{
    for (int k = n->first; k < n->first + n->results; k++) {
        for (int i = 0; i < p->len; i++)
            if (!p->at[i].gone && reads(&p->at[i], k))
                return true;
        for (int i = 0; i < p->outputs; i++)
            if (p->output[i] == k)
                return true;
    }
    return false;
}

static void replace(program *p, int from, int to)
{
    for (int i = 0; i < p->len; i++)
        for (int k = 0; k < p->at[i].op->param_count; k++) {
            cr_garg *a = &p->at[i].arg[k];
            if (a->tag == CR_TENSOR && a->i == from)
                a->i = to;
            if (a->tag != CR_TENSORS)
                continue;
            cr_garg *list = room(a->len * sizeof *list);
            for (uint32_t e = 0; e < a->len; e++)
                list[e] =
                    (cr_garg){.tag = CR_TENSOR, .i = a->list[e].i == from ? to : a->list[e].i};
            a->list = list;
        }
    for (int i = 0; i < p->outputs; i++)
        p->output[i] = p->output[i] == from ? to : p->output[i];
}

/* Takes the smaller program when it fails in the same way. */
static bool take(program *p, const program *smaller, const char *stage)
{
    if (!program_fails(smaller, stage))
        return false;
    *p = *smaller;
    return true;
}

static bool drop_nodes(program *p, const char *stage)
{
    bool any = false;

    for (int i = p->len; i-- > 0;) {
        program q = *p;
        if (p->at[i].gone)
            continue;
        q.at[i].gone = true;
        if (!is_read(p, &p->at[i])) {
            any |= take(p, &q, stage);
            continue;
        }
        for (int to = 0; to < p->at[i].first && !p->at[i].gone; to++) {
            q = *p;
            q.at[i].gone = true;
            for (int k = 0; k < p->at[i].results; k++)
                replace(&q, p->at[i].first + k, to);
            any |= take(p, &q, stage);
        }
    }
    return any;
}

static bool drop_outputs(program *p, const char *stage)
{
    bool any = false;

    for (int k = p->outputs; k-- > 0 && p->outputs > 1;) {
        program q = *p;
        memmove(q.output + k, q.output + k + 1, (size_t)(q.outputs - k - 1) * sizeof *q.output);
        q.outputs--;
        any |= take(p, &q, stage);
    }
    return any;
}

/* Replaces a size by a smaller one in all inputs, then layouts by row-major. */
static bool shrink_sizes(program *p, const char *stage)
{
    bool any = false;

    for (int64_t from = 17; from > 1; from--)
        for (int64_t to = 1; to < from && to < 4; to++) {
            program q = *p;
            bool there = false;
            for (int i = 0; i < q.inputs; i++)
                for (int d = 0; d < q.in[i].ndim; d++)
                    if (q.in[i].size[d] == from) {
                        q.in[i].size[d] = to;
                        there = true;
                    }
            any |= there && take(p, &q, stage);
        }
    for (int i = 0; i < p->inputs; i++) {
        program q = *p;
        q.in[i].layout = 0;
        any |= p->in[i].layout && take(p, &q, stage);
    }
    return any;
}

static void shrink(program *p)
{
    trial t;
    char stage[64];

    start_trial(&t, p);
    if (is_void(&t) || !graph_differs(&t)) {
        end_trial(&t);
        return;
    }
    snprintf(stage, sizeof stage, "%s", t.stage);
    end_trial(&t);
    while (drop_nodes(p, stage) || drop_outputs(p, stage) || shrink_sizes(p, stage))
        ;
}

/* Prints the graph before any pass. */
static void show(const program *p)
{
    cr_text text = {0};
    trial t;

    start_trial(&t, p);
    if (!is_void(&t))
        cr_graph_print(&text, t.g);
    printf("%s", cr_text_str(&text));
    fflush(stdout);
    cr_text_drop(&text);
    end_trial(&t);
}

static void report(program *p, uint64_t seed)
{
    cr_text text = {0};
    program whole = *p;
    trial t;

    shrink(p);
    if (!program_fails(p, NULL)) { /* the failure does not repeat */
        printf("graph_fuzz: seed %llu, once\n", (unsigned long long)seed);
        show(&whole);
        return;
    }
    start_trial(&t, p);
    if (!is_void(&t) && graph_differs(&t)) {
        cr_graph_print(&text, t.g);
        printf("graph_fuzz: seed %llu, %s: %s\n%s", (unsigned long long)seed, t.stage, t.what,
               cr_text_str(&text));
        cr_text_drop(&text);
    }
    end_trial(&t);
}

/* --- native code, some graphs at a time --- */

enum { BATCH = 25 };

typedef struct {
    program p;
    cr_arena literals;
    trial t;
    cr_graph *g;
    cr_compiled *c;
    uint64_t seed;
} waiting;

static waiting batch[BATCH];
static int batched;
static long native_groups;

static void end_waiting(waiting *w)
{
    cr_compiled_drop(w->c);
    end_trial(&w->t);
    cr_arena_drop(&w->literals);
}

static bool native_differs(waiting *w)
{
    for (int k = 0; k < cr_compiled_groups(w->c); k++)
        native_groups +=
            cr_jit_wait(cr_fused_kernel(cr_compiled_fused(w->c, k)), 60) == CR_JIT_READY;
    if (!at_both_threads(&w->t, "native", run_graph, w->g))
        return false;
    cr_text text = {0};
    cr_graph_print(&text, w->t.g);
    printf("graph_fuzz: seed %llu, native code: %s\n%s", (unsigned long long)w->seed, w->t.what,
           cr_text_str(&text));
    cr_text_drop(&text);
    return true;
}

static bool batch_differs(void)
{
    bool found = false;

    for (int i = 0; i < batched; i++) {
        found = native_differs(&batch[i]) || found;
        end_waiting(&batch[i]);
    }
    batched = 0;
    return found;
}

/* Requests native code for the program's groups.  The batch takes its literals. */
static bool add_to_batch(const program *p, uint64_t seed)
{
    waiting *w = &batch[batched];

    memset(w, 0, sizeof *w);
    w->p = *p;
    w->seed = seed;
    start_trial(&w->t, &w->p);
    if (is_void(&w->t) ||
        !(w->g = passed(&w->t, w->t.g, "functional common simplify dead group")) ||
        cr_compile_code(&w->c, w->g, 0)) {
        end_waiting(w);
        return false;
    }
    w->literals = literals;
    memset(&literals, 0, sizeof literals);
    batched++;
    return batched == BATCH && batch_differs();
}

/* --- main --- */

static char now[64];

static void say_where(int signal_)
{
    (void)!write(1, now, strlen(now));
    signal(signal_, SIG_DFL);
    raise(signal_);
}

static bool try_one(uint64_t seed, bool native, bool shows)
{
    program p;

    state = seed * 2654435761u + 12345;
    snprintf(now, sizeof now, "graph_fuzz: seed %llu ended it\n", (unsigned long long)seed);
    make_program(&p);
    if (shows)
        show(&p);
    if (native)
        return add_to_batch(&p, seed);
    if (!program_fails(&p, NULL))
        return false;
    report(&p, seed);
    return true;
}

int main(int argc, char **argv)
{
    time_t seconds = argc > 1 ? atoi(argv[1]) : 10, end = time(NULL) + seconds;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    long most = argc > 3 ? atol(argv[3]) : 0, graphs = 0;
    bool native = argc > 4 && !strcmp(argv[4], "native"),
         shows = argc > 4 && !strcmp(argv[4], "show");
    bool found = false;

    if (!native) /* native code is not waited for */
        setenv("CR_CC", "none", 1);
    printf("graph_fuzz: seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    signal(SIGSEGV, say_where);
    signal(SIGABRT, say_where);
    signal(SIGFPE, say_where);
    if (cr_tensor_start() || cr_autograd_start() || cr_set_threads(1))
        return 2;
    cr_graph_start();
    cr_thread.no_grad = true;
    while ((!most || graphs < most) && (!seconds || time(NULL) < end) && !found) {
        found = try_one(seed++, native, shows);
        graphs++;
    }
    found = batch_differs() || found;
    cr_arena_drop(&literals);
    printf("graph_fuzz: %ld graphs, %ld shared their program with other sizes", graphs,
           shared_calls);
    if (native)
        printf(", %ld groups by native code", native_groups);
    printf("%s\n", found ? ", one differs" : "");
    return found;
}
