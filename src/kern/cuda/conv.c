/* Convolutions by cuDNN.
 *
 * A convolution's algorithm is a function of its key: the device, what is computed, dtype,
 * sizes, strides of the convolution.  cuDNN's heuristics choose it among the algorithms whose
 * results do not change from call to call, and one table for the process keeps it, so eager and
 * compiled programs get the same bits.  float32 is not rounded to TF32 unless a program allows
 * it.  A key has an engine of the graph interface (conv_engine.c), or, where the library has
 * none, an algorithm of its older functions.
 *
 * Arrays that are channels_last are computed in the library's channels-last layout, others row
 * by row: an engine turns them where that is faster.  A convolution without an engine in one
 * layout is tried in the other, and computed by the library's own kernel (convolve.c) where
 * cuDNN has none in both: cuDNN has no transposed convolutions with an output padding of the
 * stride or more.  Arrays of another layout are copied. */
#include "base/memory.h"
#include "base/recent.h"
#include "device/cuda/cuda.h"
#include "device/facts.h"
#include "kern/cuda/cudnn_graph.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

/* Values of the library's enumerations. */
enum {
    CUDNN_ROW_MAJOR = 0,
    CUDNN_CHANNELS_LAST = 1,
    CUDNN_CROSS_CORRELATION = 1,
    CUDNN_DETERMINISTIC = 1,
    CUDNN_MATH_DEFAULT = 0, /* float32: TF32 */
    CUDNN_MATH_TENSOR = 1,
    CUDNN_MATH_FMA = 3,
    CUDNN_BAD_PARAM = 2000,
    CUDNN_NOT_SUPPORTED = 3000 /* and the numbers up to 3999 */
};

enum { CONV_ALGORITHMS = 10, CONV_NONE = 1 /* no algorithm is deterministic */ };
enum { CONV_PLANS = 512 /* of a generation (base/recent.h) */ };

static const cr_cudnn *const cudnn = &cr_cudnn_table;

/* --- keys and plans --- */

/* cudnnConvolutionFwdAlgoPerf_t and its siblings */
typedef struct {
    int algorithm, status;
    float time;
    size_t room;
    int determinism, math, reserved[3];
} conv_found;

typedef struct {
    void *x, *w, *y, *conv;
    void *result, *bias;
    conv_found found;
    cudnn_engine engine;
    bool declined;
} conv_plan;

bool cr_conv_type(int dtype, int *type, int *compute)
{
    static const struct {
        int dtype, type, compute;
    } rows[] = {{CR_F32, 0, 0}, {CR_F64, 1, 1}, {CR_F16, 2, 0}, {CR_BF16, 9, 0}};

    for (size_t i = 0; i < CR_LEN(rows); i++)
        if (rows[i].dtype == dtype) {
            *type = rows[i].type;
            *compute = rows[i].compute;
            return true;
        }
    return false;
}

int cr_conv_dim(int place, int n, bool last)
{
    if (last && place < n - 1)
        return place ? n - place : 1;
    return n - 1 - place;
}

static int conv_tensor(void **out, int type, int n, const int32_t *size, bool last)
{
    int stride[CONV_ALL], step = 1, failed = cudnn->new_tensor(out);

    for (int i = 0; i < n; i++) {
        int d = cr_conv_dim(i, n, last);
        stride[d] = step;
        step *= size[d];
    }
    return failed ? failed : cudnn->set_tensor(*out, type, n, size, stride);
}

/* The result and the bias of a call that adds one. */
static int conv_describe_bias(conv_plan *p, const conv_key *k)
{
    int32_t size[CONV_ALL] = {1, 1, 1, 1, 1};
    const int32_t *result = k->way == CONV_INPUT ? k->x : k->y;
    int type = 0, compute, n = k->dims + 2;

    cr_conv_type(k->dtype, &type, &compute);
    size[1] = result[1];
    int failed = conv_tensor(&p->result, type, n, result, k->last);
    return failed ? failed : conv_tensor(&p->bias, type, n, size, k->last);
}

static int conv_math(const conv_key *k)
{
    if (k->dtype == CR_F32 || k->dtype == CR_F64)
        return k->tf32 ? CUDNN_MATH_DEFAULT : CUDNN_MATH_FMA;
    return CUDNN_MATH_TENSOR;
}

/* What the older functions take. */
static int conv_describe(conv_plan *p, const conv_key *k)
{
    int type = 0, compute = 0, failed, n = k->dims + 2;

    cr_conv_type(k->dtype, &type, &compute);
    failed = conv_tensor(&p->x, type, n, k->x, k->last);
    if (!failed)
        failed = conv_tensor(&p->y, type, n, k->y, k->last);
    if (!failed)
        failed = cudnn->new_filter(&p->w);
    if (!failed)
        failed = cudnn->set_filter(p->w, type, k->last ? CUDNN_CHANNELS_LAST : CUDNN_ROW_MAJOR,
                                   n, k->w);
    if (!failed)
        failed = cudnn->new_conv(&p->conv);
    if (!failed)
        failed = cudnn->set_conv(p->conv, k->dims, k->pad, k->stride, k->dilation,
                                 CUDNN_CROSS_CORRELATION, compute);
    if (!failed)
        failed = cudnn->set_groups(p->conv, k->groups);
    if (!failed)
        failed = cudnn->set_math(p->conv, conv_math(k));
    return failed;
}

/* The library's best algorithm that is deterministic. */
static int conv_find(conv_plan *p, const conv_key *k, void *handle)
{
    conv_found found[CONV_ALGORITHMS];
    int n = 0, failed;

    if (k->way == CONV_OUTPUT)
        failed =
            cudnn->find_output(handle, p->x, p->w, p->conv, p->y, CONV_ALGORITHMS, &n, found);
    else if (k->way == CONV_INPUT)
        failed =
            cudnn->find_input(handle, p->w, p->y, p->conv, p->x, CONV_ALGORITHMS, &n, found);
    else
        failed =
            cudnn->find_weight(handle, p->x, p->y, p->conv, p->w, CONV_ALGORITHMS, &n, found);
    for (int i = 0; i < n && !failed; i++)
        if (!found[i].status && found[i].determinism == CUDNN_DETERMINISTIC) {
            p->found = found[i];
            return 0;
        }
    return failed ? failed : CONV_NONE;
}

static int conv_choose(conv_plan *p, const conv_key *k)
{
    int failed = conv_describe(p, k);

    return failed ? failed : conv_find(p, k, cr_cudnn_handle(k->index));
}

static size_t conv_room(const conv_plan *p)
{
    return p->engine.plan ? p->engine.room : p->found.room;
}

static void conv_empty(conv_plan *p)
{
    void *tensor[4] = {p->x, p->y, p->result, p->bias};

    for (int i = 0; i < 4; i++)
        if (tensor[i])
            cudnn->drop_tensor(tensor[i]);
    if (p->w)
        cudnn->drop_filter(p->w);
    if (p->conv)
        cudnn->drop_conv(p->conv);
    cr_cudnn_engine_drop(&p->engine);
    *p = (conv_plan){.x = NULL};
}

static void conv_forget(void *plan)
{
    conv_empty(plan);
    cr_free(plan);
}

/* By conv_key. */
static cr_recent plans = {
    .most = CONV_PLANS, .most_bytes = CR_CUDA_PLAN_BYTES / 2, .drop = conv_forget};

/* The library has nothing for this key, and will not have it later. */
static bool conv_is_declined(int status)
{
    return status == CONV_NONE || status == CUDNN_BAD_PARAM ||
           status / 1000 == CUDNN_NOT_SUPPORTED / 1000;
}

static const char *conv_fill(conv_plan *p, const conv_key *k, size_t most)
{
    cr_conv_engine_find(&p->engine, cr_cudnn_handle(k->index), k, most);
    int failed = conv_describe_bias(p, k);

    if (!failed && !p->engine.plan)
        failed = conv_choose(p, k);
    if (!failed && conv_room(p) <= most)
        return NULL;
    conv_empty(p);
    p->declined = most == SIZE_MAX && conv_is_declined(failed);
    return cr_command_declines;
}

/* The plan of a key; the caller holds the lock while it uses the plan.  The library declines
 * sizes that it has no algorithm for. */
static const char *conv_plan_of(conv_plan **out, const conv_key *k)
{
    conv_plan *p = cr_recent_get(&plans, (const char *)k, sizeof *k);

    *out = p;
    if (p && (p->engine.plan || p->conv))
        return NULL;
    if ((p && p->declined) || !cr_cudnn_handle(k->index))
        return cr_command_declines;
    if (!p) {
        p = cr_alloc_zero(sizeof *p);
        if (!p || cr_recent_set(&plans, (const char *)k, sizeof *k, p)) {
            cr_free(p);
            return cr_error_message();
        }
    }
    *out = p;
    size_t before = cr_heap_bytes();
    const char *error = conv_fill(p, k, SIZE_MAX);
    cr_recent_charge(&plans, (const char *)k, sizeof *k, cr_heap_since(before));
    return error;
}

/* --- arrays --- */

/* A copy of an array in the layout of the call. */
typedef struct {
    void *at;
    uint32_t block;
    int64_t stride[CONV_ALL];
} conv_copy;

static bool conv_has_layout(const cr_array *a, bool last)
{
    int64_t step = 1;

    for (int i = 0; i < a->ndim; i++) {
        int d = cr_conv_dim(i, a->ndim, last);
        if (a->size[d] != 1 && a->stride[d] != step)
            return false;
        step *= a->size[d];
    }
    return true;
}

static const char *conv_make_dense(int index, cr_array *a, conv_copy *copy, bool last,
                                   bool filled)
{
    const cr_device_ops *ops = cr_cuda_table();
    int64_t n = 1;

    if (conv_has_layout(a, last))
        return NULL;
    for (int i = 0; i < a->ndim; i++) {
        int d = cr_conv_dim(i, a->ndim, last);
        copy->stride[d] = n;
        n *= a->size[d];
    }
    n *= (int64_t)cr_dtype_size((cr_dtype)a->dtype);
    copy->at = ops->get(index, (size_t)n, &copy->block);
    if (!copy->at)
        return cr_cuda_no_memory(index, (size_t)n);
    cr_array dense = {copy->at, a->dtype, a->ndim, a->size, copy->stride};
    const char *error = filled ? ops->move(index, &dense, a) : NULL;
    *a = dense;
    return error;
}

/* --- one convolution --- */

static int conv_start(const conv_plan *p, const conv_key *k, const conv_call *c, void *room)
{
    static const double one = 1, zero = 0;
    static const float single_one = 1, single_zero = 0;
    bool wide = k->dtype == CR_F64;
    const void *alpha = wide ? (const void *)&one : &single_one;
    const void *beta = wide ? (const void *)&zero : &single_zero;
    void *h = cr_cudnn_handle(k->index);
    int algorithm = p->found.algorithm, failed;
    size_t bytes = p->found.room;

    if (p->engine.plan)
        failed = cr_conv_engine_run(&p->engine, h, c->x.data, c->w.data, c->y.data, room);
    else if (k->way == CONV_OUTPUT)
        failed = cudnn->run_output(h, alpha, p->x, c->x.data, p->w, c->w.data, p->conv,
                                   algorithm, room, bytes, beta, p->y, c->y.data);
    else if (k->way == CONV_INPUT)
        failed = cudnn->run_input(h, alpha, p->w, c->w.data, p->y, c->y.data, p->conv,
                                  algorithm, room, bytes, beta, p->x, c->x.data);
    else
        failed = cudnn->run_weight(h, alpha, p->x, c->x.data, p->y, c->y.data, p->conv,
                                   algorithm, room, bytes, beta, p->w, c->w.data);
    if (failed || !c->biased)
        return failed;
    return cudnn->add(h, alpha, p->bias, c->bias.data, alpha, p->result,
                      k->way == CONV_INPUT ? c->x.data : c->y.data);
}

static const char *conv_error(int status)
{
    return cr_fail(CR_RUNTIME, "cuDNN error: %s", cudnn->error_text(status))
               ? cr_error_message()
               : NULL;
}

/* The memory of a call.  Where a plan needs more than there is, *p becomes `less`, a plan of
 * this call alone that needs less: later calls, which may have the memory, keep the first. */
static const char *conv_get_room(conv_plan **p, conv_plan *less, const conv_key *k, void **room,
                                 uint32_t *block)
{
    *room = NULL;
    for (size_t bytes; (bytes = conv_room(*p)) != 0; *p = less) {
        *room = cr_cuda_table()->get(k->index, bytes, block);
        if (*room)
            return NULL;
        const char *error = cr_cuda_no_memory(k->index, bytes);
        conv_empty(less);
        if (conv_fill(less, k, bytes - 1))
            return error;
    }
    return NULL;
}

static const char *conv_start_in(const conv_plan *p, const conv_key *k, const conv_call *c,
                                 void *room, uint32_t block, int *failed)
{
    *failed = cr_cudnn_set_stream(k->index);
    if (!*failed)
        *failed = conv_start(p, k, c, room);
    if (room)
        cr_cuda_table()->release(k->index, room, block);
    if (k->last && conv_is_declined(*failed)) /* it does not compute all that it finds */
        return cr_command_declines;
    return *failed ? conv_error(*failed) : NULL;
}

static const char *conv_with_plan(const conv_key *k, const conv_call *c)
{
    conv_plan *kept, *p, less = {.x = NULL};
    void *room;
    uint32_t block = 0;
    int failed;
    const char *error = conv_plan_of(&kept, k);

    p = kept;
    if (!error)
        error = conv_get_room(&p, &less, k, &room, &block);
    if (!error)
        error = conv_start_in(p, k, c, room, block, &failed);
    else
        failed = 0;
    if (p == kept && k->last && conv_is_declined(failed)) {
        conv_empty(kept);
        kept->declined = true;
    }
    conv_empty(&less);
    return error;
}

/* Copies sizes; a convolution in one dim gets a second dim of size 1.  False for an array of
 * more than INT_MAX elements: the library's strides are ints. */
static bool conv_sizes(int32_t *out, const cr_array *a)
{
    int n = a->ndim == 3 ? 4 : a->ndim;
    int64_t elements = 1;

    for (int d = 0; d < n; d++) {
        int64_t size = d < 2 ? a->size[d] : d < n - a->ndim + 2 ? 1 : a->size[d - n + a->ndim];
        if (size < 1 || size > INT_MAX / elements)
            return false;
        elements *= size;
        out[d] = (int32_t)size;
    }
    return true;
}

bool cr_conv_steps(int32_t *out, const cr_given *g, int real, int dims, int64_t fill)
{
    if (g->kind != CR_GIVEN_INTS || (g->count != 1 && g->count != (size_t)real))
        return false;
    for (int d = 0; d < dims; d++) {
        int at = d - (dims - real);
        int64_t step = at < 0 ? fill : g->ints[g->count == 1 ? 0 : at];
        if (step < 0 || step > INT_MAX)
            return false;
        out[d] = (int32_t)step;
    }
    return true;
}

/* Whether the call is computed with the channels last. */
static bool conv_is_last(const conv_call *c)
{
    return (!conv_has_layout(&c->x, false) && conv_has_layout(&c->x, true)) ||
           (!conv_has_layout(&c->y, false) && conv_has_layout(&c->y, true));
}

static _Atomic bool convolutions_of_tf32;

void cr_cuda_allow_conv_tf32(bool on) { atomic_store(&convolutions_of_tf32, on); }

/* False for problems that are left to the host. */
static bool conv_key_of(conv_key *k, int index, const conv_call *c)
{
    int type, compute, dims = c->w.ndim - 2;

    memset(k, 0, sizeof *k);
    k->index = index;
    k->way = (int32_t)c->way;
    k->dtype = c->w.dtype;
    k->dims = dims < 2 ? 2 : dims;
    k->groups = (int32_t)c->groups;
    k->last = conv_is_last(c);
    k->tf32 = k->dtype == CR_F32 && atomic_load(&convolutions_of_tf32);
    if (dims < 1 || dims > CONV_DIMS || !cr_conv_type(k->dtype, &type, &compute) ||
        c->x.dtype != k->dtype || c->y.dtype != k->dtype || c->x.ndim != c->w.ndim)
        return false;
    if (c->biased && c->bias.dtype != k->dtype)
        return false;
    return conv_sizes(k->x, &c->x) && conv_sizes(k->w, &c->w) && conv_sizes(k->y, &c->y) &&
           cr_conv_steps(k->stride, &c->step[0], dims, k->dims, 1) &&
           cr_conv_steps(k->pad, &c->step[1], dims, k->dims, 0) &&
           cr_conv_steps(k->dilation, &c->step[2], dims, k->dims, 1);
}

static bool conv_is_aligned(const conv_call *c)
{
    uintptr_t bits = (uintptr_t)c->x.data | (uintptr_t)c->w.data | (uintptr_t)c->y.data;

    return bits % CONV_ALIGN == 0;
}

/* Runs the convolution with arrays in the layout of the key. */
static const char *conv_run_as(const conv_key *key, conv_call c)
{
    conv_copy copy[CONV_WAYS + 1] = {{.at = NULL}};
    cr_array *array[CONV_WAYS] = {
        [CONV_OUTPUT] = &c.y, [CONV_INPUT] = &c.x, [CONV_WEIGHT] = &c.w};
    cr_array result = *array[c.way];
    int index = key->index;
    const char *error = cr_cuda_use(index);

    for (int i = 0; i < CONV_WAYS && !error; i++)
        error = conv_make_dense(index, array[i], &copy[i], key->last, i != (int)c.way);
    if (!error && c.biased)
        error = conv_make_dense(index, &c.bias, &copy[CONV_WAYS], false, true);
    if (!error) {
        conv_key given = *key;
        given.aligned = conv_is_aligned(&c);
        cr_cudnn_lock();
        error = conv_with_plan(&given, &c);
        cr_cudnn_unlock();
    }
    if (!error && copy[c.way].at)
        error = cr_cuda_table()->move(index, &result, array[c.way]);
    for (int i = 0; i <= CONV_WAYS; i++)
        if (copy[i].at)
            cr_cuda_table()->release(index, copy[i].at, copy[i].block);
    return error;
}

static bool conv_is_empty(const cr_array *a)
{
    for (int d = 0; d < a->ndim; d++)
        if (!a->size[d])
            return true;
    return false;
}

/* The result where an operand has no elements: the bias, or zeros. */
static const char *conv_of_nothing(int index, const conv_call *c, const cr_array *result)
{
    const cr_device_ops *ops = cr_cuda_table();
    _Alignas(16) static const char zero[16];
    int64_t stride[CONV_ALL] = {0};

    if (conv_is_empty(result))
        return NULL;
    if (!c->biased)
        return ops->fill(index, result, zero);
    stride[1] = c->bias.stride[0];
    cr_array spread = {c->bias.data, c->bias.dtype, result->ndim, result->size, stride};
    return ops->move(index, result, &spread);
}

/* Dtypes that the library lacks. */
static bool conv_is_direct(int dtype)
{
    cr_category c = cr_dtype_category((cr_dtype)dtype);

    return dtype < CR_DTYPE_KERNELS && (c == CR_CAT_INT || c == CR_CAT_COMPLEX);
}

static const char *conv_run(int index, conv_call *c)
{
    const cr_array *array[CONV_WAYS] = {
        [CONV_OUTPUT] = &c->y, [CONV_INPUT] = &c->x, [CONV_WEIGHT] = &c->w};
    conv_key key;

    for (int i = 0; i < CONV_WAYS; i++)
        if (array[i]->ndim <= CONV_ALL && conv_is_empty(array[i]))
            return conv_of_nothing(index, c, array[c->way]);
    if (conv_is_direct(c->w.dtype))
        return cr_conv_direct(index, c);
    if (!conv_key_of(&key, index, c))
        return cr_command_declines;
    if (!cr_cudnn_is_there())
        return CR_LACKS("It needs cuDNN, and libcudnn.so was not found.");
    const char *error = conv_run_as(&key, *c);
    if (error != cr_command_declines)
        return error;
    key.last = !key.last;
    error = conv_run_as(&key, *c);
    return error == cr_command_declines ? cr_conv_direct(index, c) : error;
}

/* --- entries --- */

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) */
const char *cr_cuda_convolution(int index, const cr_given *arg, const cr_array *result)
{
    conv_call c = {
        .w = arg[1].array, .bias = arg[2].array, .step = arg + 3, .groups = arg[8].i};

    if (arg[2].kind != CR_GIVEN_ARRAY && arg[2].kind != CR_GIVEN_NONE)
        return cr_command_declines;
    c.biased = arg[2].kind == CR_GIVEN_ARRAY;
    c.way = arg[6].i ? CONV_INPUT : CONV_OUTPUT;
    c.x = arg[6].i ? *result : arg[0].array;
    c.y = arg[6].i ? arg[0].array : *result;
    return conv_run(index, &c);
}

/* The last arguments are those of `way`, after its operands and the sizes of its result. */
static const char *conv_part(int index, const cr_given *arg, cr_array x, cr_array w, cr_array y,
                             int way)
{
    conv_call c = {.x = x, .w = w, .y = y, .step = arg + 3, .groups = arg[6].i, .way = way};

    return conv_run(index, &c);
}

/* (input, weight, output_size, stride, padding, dilation, groups) */
const char *cr_cuda_conv_output(int index, const cr_given *arg, const cr_array *result)
{
    return conv_part(index, arg, arg[0].array, arg[1].array, *result, CONV_OUTPUT);
}

/* (grad_output, weight, input_size, stride, padding, dilation, groups) */
const char *cr_cuda_conv_input_grad(int index, const cr_given *arg, const cr_array *result)
{
    return conv_part(index, arg, *result, arg[1].array, arg[0].array, CONV_INPUT);
}

/* (grad_output, input, weight_size, stride, padding, dilation, groups) */
const char *cr_cuda_conv_weight_grad(int index, const cr_given *arg, const cr_array *result)
{
    return conv_part(index, arg, arg[1].array, *result, arg[0].array, CONV_WEIGHT);
}
