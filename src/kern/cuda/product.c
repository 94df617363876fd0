/* Products by cuBLASLt, whose matrices are column-major: a row-major C = A B is its C' = B'
 * A'. */
#include "kern/cuda/product.h"
#include "base/memory.h"
#include "base/recent.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/facts.h"
#include "jit/cuda.h"
#include "kern/cuda/commands.h"
#include "kern/cuda/entries.h"
#include "num/dtype.h"
#include "space/space.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    PRODUCT_DIMS = 64,
    PRODUCT_ROOM = 32 << 20,
    PRODUCT_ALIGN = 256,
    PRODUCT_BIAS_ALIGN = 16,
    PRODUCT_PLANS = 2048 /* of a generation (base/recent.h) */
};

/* Values of the library's enumerations. */
enum {
    CUBLAS_COMPUTE_TF32 = 77,
    CUBLAS_TRANSPOSE_A = 3,
    CUBLAS_TRANSPOSE_B = 4,
    CUBLAS_EPILOGUE = 7,
    CUBLAS_BIAS_AT = 8,
    CUBLAS_ADDS_BIAS = 4, /* a value of CUBLAS_EPILOGUE */
    CUBLAS_BATCH_COUNT = 5,
    CUBLAS_BATCH_STEP = 6,
    CUBLAS_WISH_ROOM = 1,
    CUBLAS_WISH_ALIGN = 5, /* of A; B, C and D follow */
    CUBLAS_OPERANDS = 4
};

typedef struct {
#define CR_CUBLAS_CALL(name, symbol, arguments) int(*name) arguments;
#include "kern/cuda/cublas.def"
#undef CR_CUBLAS_CALL
} cublas_table;

static const char *const cublas_names[] = {
#define CR_CUBLAS_CALL(name, symbol, arguments) #symbol,
#include "kern/cuda/cublas.def"
#undef CR_CUBLAS_CALL
};

static cublas_table cublas;
static bool cublas_works;
static void *handles[CR_CUDA_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void cublas_load(void)
{
    static const cr_cuda_library list[] = {
        {"libcublasLt.so.13", "cu13", NULL},
        {"libcublasLt.so.12", "cublas", NULL},
        {"libcublasLt.so", NULL, NULL},
    };
    void *library = cr_cuda_open(list, (int)CR_LEN(list));

    cublas_works =
        library && cr_cuda_symbols(library, &cublas, cublas_names, (int)CR_LEN(cublas_names));
}

static bool cublas_is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, cublas_load);
    return cublas_works;
}

/* --- plans --- */

/* A column-major matrix in memory. */
typedef struct {
    int64_t rows, columns, step, batch_step;
    int64_t transposed; /* 0 or 1; no padding, because a key is compared by its bytes */
} product_side;

typedef struct {
    int32_t index, dtype, align;
    int32_t tf32; /* operands of float32 may be rounded to TF32 */
    int32_t bias; /* 1: a number is added to each column of the result; 0 */
    int32_t zero; /* no padding */
    int64_t batch;
    product_side a, b, c;
} product_key;

/* cublasLtMatmulHeuristicResult_t */
typedef struct {
    uint64_t algorithm[8];
    size_t room;
    int state;
    float waves;
    int reserved[4];
} product_found;

typedef struct {
    void *desc, *a, *b, *c;
    product_found found;
} product_plan;

/* The library's dtype, how it computes, and the dtype of alpha and beta. */
typedef struct {
    int dtype, type, compute, scale;
} product_type;

static const product_type *product_type_of(int dtype)
{
    static const product_type rows[] = {
        {CR_F32, 0, 68, 0},   {CR_F64, 1, 70, 1}, {CR_F16, 2, 68, 0},
        {CR_BF16, 14, 68, 0}, {CR_C64, 4, 68, 4}, {CR_C128, 5, 70, 5},
    };

    for (size_t i = 0; i < CR_LEN(rows); i++)
        if (rows[i].dtype == dtype)
            return &rows[i];
    return NULL;
}

static int product_layout(void **out, int type, const product_side *s, int64_t batch)
{
    int32_t count = (int32_t)batch;
    int failed = cublas.new_layout(out, type, (uint64_t)s->rows, (uint64_t)s->columns, s->step);

    if (failed || batch == 1)
        return failed;
    failed = cublas.set_layout(*out, CUBLAS_BATCH_COUNT, &count, sizeof count);
    return failed ? failed
                  : cublas.set_layout(*out, CUBLAS_BATCH_STEP, &s->batch_step,
                                      sizeof s->batch_step);
}

static int product_find(product_plan *p, const product_key *k, void *handle)
{
    size_t most = PRODUCT_ROOM;
    uint32_t align = (uint32_t)k->align;
    void *wish = NULL;
    int count = 0, failed = cublas.new_wish(&wish);

    if (!failed)
        failed = cublas.set_wish(wish, CUBLAS_WISH_ROOM, &most, sizeof most);
    for (int i = 0; i < CUBLAS_OPERANDS && !failed; i++)
        failed = cublas.set_wish(wish, CUBLAS_WISH_ALIGN + i, &align, sizeof align);
    if (!failed)
        failed =
            cublas.find(handle, p->desc, p->a, p->b, p->c, p->c, wish, 1, &p->found, &count);
    if (wish)
        cublas.drop_wish(wish);
    return failed ? failed : count < 1;
}

static _Atomic bool products_of_tf32;

void cr_cuda_allow_tf32(bool on) { atomic_store(&products_of_tf32, on); }

static int product_make(product_plan *p, const product_key *k, void *handle)
{
    const product_type *t = product_type_of(k->dtype);
    int32_t a = (int32_t)k->a.transposed, b = (int32_t)k->b.transposed;
    int32_t adds = CUBLAS_ADDS_BIAS;
    int failed =
        cublas.new_product(&p->desc, k->tf32 ? CUBLAS_COMPUTE_TF32 : t->compute, t->scale);
    if (!failed && k->bias)
        failed = cublas.set_product(p->desc, CUBLAS_EPILOGUE, &adds, sizeof adds);
    if (!failed)
        failed = cublas.set_product(p->desc, CUBLAS_TRANSPOSE_A, &a, sizeof a);
    if (!failed)
        failed = cublas.set_product(p->desc, CUBLAS_TRANSPOSE_B, &b, sizeof b);
    if (!failed)
        failed = product_layout(&p->a, t->type, &k->a, k->batch);
    if (!failed)
        failed = product_layout(&p->b, t->type, &k->b, k->batch);
    if (!failed)
        failed = product_layout(&p->c, t->type, &k->c, k->batch);
    return failed ? failed : product_find(p, k, handle);
}

static void product_forget(void *plan)
{
    product_plan *p = plan;
    void *layout[3] = {p->a, p->b, p->c};

    for (int i = 0; i < 3; i++)
        if (layout[i])
            cublas.drop_layout(layout[i]);
    if (p->desc)
        cublas.drop_product(p->desc);
    cr_free(p);
}

static cr_recent plans = {.most = PRODUCT_PLANS, .drop = product_forget}; /* by product_key */

/* The plan of a key; the caller holds the lock while it uses the plan. */
static const char *product_plan_of(product_plan **out, const product_key *k)
{
    product_plan *p = cr_recent_get(&plans, (const char *)k, sizeof *k);

    if (p) {
        *out = p;
        return NULL;
    }
    if (!handles[k->index] && cublas.new_handle(&handles[k->index]))
        return "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
               "`cublasLtCreate(handle)`";
    p = cr_alloc_zero(sizeof *p);
    if (!p)
        return cr_error_message();
    if (product_make(p, k, handles[k->index])) {
        product_forget(p);
        return "CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling "
               "`cublasLtMatmulAlgoGetHeuristic`";
    }
    if (cr_recent_set(&plans, (const char *)k, sizeof *k, p)) {
        product_forget(p);
        return cr_error_message();
    }
    *out = p;
    return NULL;
}

/* --- one product --- */

/* A batch of row-major matrices in memory: sizes and distances in elements. */
typedef struct {
    char *data;
    int64_t rows, columns, row, column, batch;
} product_matrix;

/* Describes the matrix to the library.  False unless the elements of each row, or of each
 * column, are adjacent and these lines do not overlap. */
static bool product_side_of(product_side *s, const product_matrix *m)
{
    int64_t row = m->rows == 1 ? m->columns : m->row, column = m->columns == 1 ? 1 : m->column;

    if (column == 1 && row >= m->columns) {
        *s = (product_side){m->columns, m->rows, row > 0 ? row : 1, m->batch, false};
        return true;
    }
    column = m->columns == 1 ? m->rows : m->column;
    row = m->rows == 1 ? 1 : m->row;
    if (row != 1 || column < m->rows)
        return false;
    *s = (product_side){m->rows, m->columns, column > 0 ? column : 1, m->batch, true};
    return true;
}

static int product_alignment(const product_matrix *a, const product_matrix *b,
                             const product_matrix *c)
{
    uintptr_t bits = (uintptr_t)a->data | (uintptr_t)b->data | (uintptr_t)c->data;

    for (int align = PRODUCT_ALIGN; align > 1; align /= 2)
        if (!(bits & (uintptr_t)(align - 1)))
            return align;
    return 1;
}

typedef struct {
    int index, dtype;
    cr_scalar alpha, beta;
    const char *bias; /* a number for each column, added to the product; or NULL */
} product_call;

const char *cr_cuda_no_memory(int index, size_t bytes)
{
    return cr_device_no_memory((cr_device){.kind = CR_CUDA, .index = (uint8_t)index}, bytes)
               ? cr_error_message()
               : NULL;
}

/* The number as the library reads it beside operands of the dtype. */
static void product_number(void *out, int dtype, cr_scalar x)
{
    cr_scalar_store(x, dtype == CR_F16 || dtype == CR_BF16 ? CR_F32 : (cr_dtype)dtype, out);
}

static bool product_is(cr_scalar x, double number)
{
    cr_complex c = cr_scalar_as_complex(x);

    return c.re == number && c.im == 0;
}

/* The caller holds the lock: threads share the plan, which holds the bias's address. */
static const char *product_start(const product_call *p, const product_plan *plan,
                                 const product_matrix *a, const product_matrix *b,
                                 const product_matrix *c)
{
    const cr_device_ops *ops = cr_cuda_table();
    _Alignas(16) char alpha[16], beta[16];
    uint32_t block = 0;
    size_t bytes = plan->found.room;
    void *room = bytes ? ops->get(p->index, bytes, &block) : NULL;

    if (bytes && !room)
        return cr_cuda_no_memory(p->index, bytes);
    product_number(alpha, p->dtype, p->alpha);
    product_number(beta, p->dtype, p->beta);
    int failed =
        p->bias ? cublas.set_product(plan->desc, CUBLAS_BIAS_AT, &p->bias, sizeof p->bias) : 0;
    if (!failed)
        failed = cublas.run(handles[p->index], plan->desc, alpha, b->data, plan->a, a->data,
                            plan->b, beta, c->data, plan->c, c->data, plan->c,
                            plan->found.algorithm, room, bytes, ops->stream(p->index));
    if (room)
        ops->release(p->index, room, block);
    return failed ? "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasLtMatmul`"
                  : NULL;
}

/* --- integers, which the library does not multiply --- */

/* ci_call of emit/integer.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. Steps are in
 * elements. */
typedef struct {
    char *c;
    const char *a, *b;
    int64_t m, n, k, batch, c_row, c_column, c_batch, a_row, a_column, a_batch, b_row, b_column,
        b_batch;
    uint64_t alpha, beta;
} integer_call;

enum { INTEGER_SIDE = 32, INTEGER_THREADS = 256, INTEGER_BLOCKS = 1 << 30 };

static void integer_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CI_ITEM cm_%s\n", cr_dtype_infos[k->a].suffix);
    snprintf(symbol, 32, "ci_product");
}

static bool is_integer(int dtype)
{
    return dtype < CR_DTYPE_KERNELS && cr_dtype_category((cr_dtype)dtype) == CR_CAT_INT;
}

static const char *integer_run(const product_call *p, const product_matrix *a,
                               const product_matrix *b, const product_matrix *c, int64_t batch)
{
    integer_call call = {c->data,
                         a->data,
                         b->data,
                         c->rows,
                         c->columns,
                         a->columns,
                         batch,
                         c->row,
                         c->column,
                         c->batch,
                         a->row,
                         a->column,
                         a->batch,
                         b->row,
                         b->column,
                         b->batch,
                         (uint64_t)cr_scalar_as_int(p->alpha),
                         (uint64_t)cr_scalar_as_int(p->beta)};
    int64_t tiles = (call.m + INTEGER_SIDE - 1) / INTEGER_SIDE *
                    ((call.n + INTEGER_SIDE - 1) / INTEGER_SIDE) * batch;
    cr_cuda_text k = {
        .print = integer_print, .device = p->index, .part = CR_VEC_CUDA_INTEGER, .a = p->dtype};
    cr_cuda_grid g = {.block = {INTEGER_THREADS, 1},
                      .grid = {(unsigned)(tiles < INTEGER_BLOCKS ? tiles : INTEGER_BLOCKS), 1}};
    const char *error = cr_cuda_find(&g.function, &k);

    return error ? error : cr_cuda_launch(p->index, &g, &call);
}

/* --- products of matrices --- */

static const char *product_on_tensor_cores(const product_call *p, const product_key *key,
                                           const product_matrix *a, const product_matrix *b,
                                           const product_matrix *c)
{
    cr_product_f32 f = {.c = (float *)(void *)c->data,
                        .a = (const float *)(const void *)a->data,
                        .b = (const float *)(const void *)b->data,
                        .bias = (const float *)(const void *)p->bias,
                        .a_step = key->b.step,
                        .b_step = key->a.step,
                        .c_step = key->c.step,
                        .a_batch = a->batch,
                        .b_batch = b->batch,
                        .c_batch = c->batch,
                        .m = c->rows,
                        .n = c->columns,
                        .k = a->columns,
                        .batch = key->batch,
                        .index = p->index,
                        .a_deep = !key->b.transposed,
                        .b_deep = (int32_t)key->a.transposed};

    product_number(&f.alpha, p->dtype, p->alpha);
    product_number(&f.beta, p->dtype, p->beta);
    return cr_cuda_product_f32(&f);
}

/* c = beta c + alpha a b, for `batch` matrices.  The caller has copied operands that the
 * library cannot read. */
static const char *product_run(const product_call *p, const product_matrix *a,
                               const product_matrix *b, const product_matrix *c, int64_t batch)
{
    product_key key;
    product_plan *plan = NULL;

    if (is_integer(p->dtype))
        return integer_run(p, a, b, c, batch);
    memset(&key, 0, sizeof key);
    key.index = p->index;
    key.dtype = p->dtype;
    key.tf32 = p->dtype == CR_F32 && atomic_load(&products_of_tf32);
    key.bias = p->bias != NULL;
    key.align = product_alignment(a, b, c);
    key.batch = batch;
    if (!product_side_of(&key.a, b) || !product_side_of(&key.b, a) ||
        !product_side_of(&key.c, c) || key.c.transposed)
        return "CUDA: a product's operands are not dense";
    const char *error = cr_cuda_use(p->index);
    if (error)
        return error;
    if (p->dtype == CR_F32 && !key.tf32) {
        error = product_on_tensor_cores(p, &key, a, b, c);
        if (error != cr_command_declines)
            return error;
    }
    pthread_mutex_lock(&lock);
    error = product_plan_of(&plan, &key);
    if (!error)
        error = product_start(p, plan, a, b, c);
    pthread_mutex_unlock(&lock);
    return error;
}

/* --- arrays --- */

/* A copy of an array whose matrices the library cannot read. */
typedef struct {
    void *at;
    uint32_t block;
    int64_t stride[PRODUCT_DIMS];
} product_copy;

static int64_t product_item(const cr_array *a)
{
    return (int64_t)cr_dtype_size((cr_dtype)a->dtype);
}

static product_matrix product_last(const cr_array *a)
{
    int n = a->ndim;

    return (product_matrix){.data = a->data,
                            .rows = a->size[n - 2],
                            .columns = a->size[n - 1],
                            .row = a->stride[n - 2],
                            .column = a->stride[n - 1]};
}

/* True if the matrices of the batch have one distance, so that one call of the library takes
 * them.  An array that repeats its matrices is not worth a copy: it counts as such. */
static bool product_batch_is_even(const cr_array *a)
{
    int64_t step = 0;

    for (int d = 0; d < a->ndim - 2; d++)
        if (!a->stride[d] && a->size[d] > 1)
            return true;
    return cr_one_step(&step, a->ndim - 2, a->size, a->stride);
}

/* Replaces the array by a dense copy where the library cannot read its matrices, or not all of
 * them in one call: heads of attention are such batches, and a copy costs less than a call for
 * each sequence. */
static const char *product_readable(int index, cr_array *a, product_copy *copy)
{
    const cr_device_ops *ops = cr_cuda_table();
    product_matrix m = product_last(a);
    product_side side;

    if (is_integer(a->dtype) || (product_side_of(&side, &m) && product_batch_is_even(a)))
        return NULL;
    int64_t n = cr_dense_strides(copy->stride, a->ndim, a->size);
    copy->at = ops->get(index, (size_t)(n * product_item(a)), &copy->block);
    if (!copy->at)
        return cr_cuda_no_memory(index, (size_t)(n * product_item(a)));
    cr_array dense = {copy->at, a->dtype, a->ndim, a->size, copy->stride};
    const char *error = ops->move(index, &dense, a);
    *a = dense;
    return error;
}

static void product_drop(int index, product_copy *copy)
{
    if (copy->at)
        cr_cuda_table()->release(index, copy->at, copy->block);
}

/* The batch as a space; its operands are a, b and c, its steps in elements.  Its longest dim is
 * the last one, which one call takes. */
static void product_space(cr_space *s, const cr_array *const operand[3])
{
    const cr_array *c = operand[2];
    int batch = c->ndim - 2, longest = 0;

    cr_space_start(s, 3);
    for (int d = 0; d < batch; d++) {
        int64_t *step = cr_space_add(s, c->size[d], d);
        for (int i = 0; i < 3; i++)
            step[i] = cr_broadcast_step(operand[i]->ndim - 2, operand[i]->size,
                                        operand[i]->stride, batch, d);
    }
    cr_space_merge(s, 0);
    for (int d = 1; d < s->ndim; d++)
        longest = s->dim[d].size > s->dim[longest].size ? d : longest;
    if (s->ndim)
        cr_space_move(s, longest, s->ndim - 1);
}

/* Computes all matrices of c: those along the last dim of the batch in one call. */
static const char *product_batches(const product_call *p, const cr_array *a, const cr_array *b,
                                   const cr_array *c)
{
    const cr_array *operand[3] = {a, b, c};
    const char *error = NULL;
    cr_space s;

    product_space(&s, operand);
    const cr_space_dim *last = cr_space_last(&s, 0);
    int outer = s.ndim ? s.ndim - 1 : 0;
    for (int64_t i = 0, n = cr_space_count(&s, outer); i < n && !error; i++) {
        product_matrix m[3];
        for (int k = 0; k < 3; k++) {
            m[k] = product_last(operand[k]);
            m[k].data += cr_space_offset(&s, outer, k, i) * product_item(operand[k]);
            m[k].batch = last->step[k];
        }
        error = product_run(p, &m[0], &m[1], &m[2], last->size);
    }
    return error;
}

/* Makes one matrix of an array of more dims; false unless all rows have one distance. */
static bool product_flatten(cr_array *a, int64_t *size, int64_t *stride)
{
    int last = a->ndim - 2;
    int64_t step = a->stride[last];

    if (!cr_one_step(&step, last + 1, a->size, a->stride) || step != a->stride[last])
        return false;
    size[0] = 1;
    for (int d = 0; d <= last; d++)
        size[0] *= a->size[d];
    size[1] = a->size[a->ndim - 1];
    stride[0] = step;
    stride[1] = a->stride[a->ndim - 1];
    *a = (cr_array){a->data, a->dtype, 2, size, stride};
    return true;
}

static bool product_is_empty(const cr_array *a)
{
    for (int d = 0; d < a->ndim; d++)
        if (!a->size[d])
            return true;
    return false;
}

static bool product_can(int dtype) { return is_integer(dtype) || product_type_of(dtype); }

/* c = beta c + alpha a b, over batches, for operands of some elements. */
static const char *product_of(const product_call *p, const cr_array *given_a,
                              const cr_array *given_b, const cr_array *given_c)
{
    cr_array a = *given_a, b = *given_b, c = *given_c;
    product_copy copy_a = {.at = NULL}, copy_b = {.at = NULL};
    int64_t a_size[2], a_stride[2], c_size[2], c_stride[2];

    if (b.ndim == 2 && a.ndim > 2 && a.ndim == c.ndim) {
        cr_array whole = a, result = c;
        if (product_flatten(&whole, a_size, a_stride) &&
            product_flatten(&result, c_size, c_stride)) {
            a = whole;
            c = result;
        }
    }
    const char *error = product_readable(p->index, &a, &copy_a);
    if (!error)
        error = product_readable(p->index, &b, &copy_b);
    if (!error)
        error = product_batches(p, &a, &b, &c);
    product_drop(p->index, &copy_a);
    product_drop(p->index, &copy_b);
    return error;
}

/* The same for operands without elements, whose product is zero: that of a column and a row of
 * zeros. */
static const char *product_nothing(const product_call *p, const cr_array *c)
{
    const cr_device_ops *ops = cr_cuda_table();
    _Alignas(16) static const char zero[16];
    int64_t still[2] = {0, 0}, column[2] = {c->size[c->ndim - 2], 1};
    int64_t row[2] = {1, c->size[c->ndim - 1]};
    uint32_t block;

    if (product_is(p->beta, 0))
        return ops->fill(p->index, c, zero);
    if (product_is(p->beta, 1))
        return NULL;
    char *at = ops->get(p->index, sizeof zero, &block);
    if (!at)
        return cr_cuda_no_memory(p->index, sizeof zero);
    cr_array a = {at, c->dtype, 2, column, still}, b = {at, c->dtype, 2, row, still};
    const char *error = cr_cuda_fill(p->index, at, zero, 1, sizeof zero);
    if (!error)
        error = product_of(p, &a, &b, c);
    ops->release(p->index, at, block);
    return error;
}

static const char *product(const product_call *p, const cr_array *a, const cr_array *b,
                           const cr_array *c)
{
    if (!product_can(p->dtype) || a->dtype != p->dtype || b->dtype != p->dtype)
        return cr_command_declines;
    if (product_is_empty(c))
        return NULL;
    if (!is_integer(p->dtype) && !cublas_is_there())
        return CR_LACKS("It needs cuBLASLt, and libcublasLt.so was not found.");
    return product_is_empty(a) ? product_nothing(p, c) : product_of(p, a, b, c);
}

/* --- entries --- */

static product_call product_plain(int index, const cr_array *result)
{
    return (product_call){.index = index,
                          .dtype = result->dtype,
                          .alpha = cr_scalar_int(1),
                          .beta = cr_scalar_int(0)};
}

static bool product_given(cr_scalar *out, const cr_given *g)
{
    if (g->kind == CR_GIVEN_COMPLEX)
        *out = (cr_scalar){.category = CR_CAT_COMPLEX,
                           .c = {g->complex_number[0], g->complex_number[1]}};
    else
        *out = g->kind == CR_GIVEN_INT ? cr_scalar_int(g->i) : cr_scalar_float(g->d);
    return g->kind == CR_GIVEN_INT || g->kind == CR_GIVEN_FLOAT || g->kind == CR_GIVEN_COMPLEX;
}

static const char *product_mm(int index, const cr_given *arg, const cr_array *result)
{
    product_call p = product_plain(index, result);

    return product(&p, &arg[0].array, &arg[1].array, result);
}

static const char *product_bmm(int index, const cr_given *arg, const cr_array *result)
{
    return product_mm(index, arg, result);
}

/* Whether the library adds `self` as it stores the result: a number for each column. */
static bool product_takes_bias(const product_call *p, const cr_array *self,
                               const cr_array *result)
{
    bool real = p->dtype == CR_F32 || p->dtype == CR_F16 || p->dtype == CR_BF16;
    uintptr_t at = (uintptr_t)self->data;

    return real && product_is(p->alpha, 1) && product_is(p->beta, 1) && self->ndim == 1 &&
           self->size[0] == result->size[result->ndim - 1] &&
           (self->stride[0] == 1 || self->size[0] == 1) && at % PRODUCT_BIAS_ALIGN == 0;
}

/* beta * self + alpha * a b: self is first copied to the result, unless the library adds it. */
static const char *product_added(int index, const cr_array *self, const cr_array *a,
                                 const cr_array *b, const cr_array *result, cr_scalar alpha,
                                 cr_scalar beta)
{
    const cr_device_ops *ops = cr_cuda_table();
    product_call p = product_plain(index, result);
    int64_t stride[PRODUCT_DIMS];
    int lead = result->ndim - self->ndim;

    p.alpha = alpha;
    p.beta = beta;
    if (!product_can(p.dtype) || self->dtype != result->dtype)
        return cr_command_declines;
    if (!product_is_empty(a) && product_takes_bias(&p, self, result)) {
        p.bias = self->data;
        p.beta = cr_scalar_int(0);
        return product(&p, a, b, result);
    }
    for (int d = 0; d < result->ndim; d++)
        stride[d] = d < lead || self->size[d - lead] == 1 ? 0 : self->stride[d - lead];
    cr_array spread = {self->data, self->dtype, result->ndim, result->size, stride};
    if (!product_is(beta, 0) && self->data != result->data) {
        const char *error = ops->move(index, result, &spread);
        if (error)
            return error;
    }
    return product(&p, a, b, result);
}

static const char *product_addmm(int index, const cr_given *arg, const cr_array *result)
{
    cr_scalar alpha, beta;

    if (!product_given(&beta, &arg[3]) || !product_given(&alpha, &arg[4]) ||
        arg[0].kind != CR_GIVEN_ARRAY)
        return cr_command_declines;
    return product_added(index, &arg[0].array, &arg[1].array, &arg[2].array, result, alpha,
                         beta);
}

/* Matrix i of a batch. */
static cr_array product_matrix_of(const cr_array *a, int64_t i)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)a->dtype);

    return (cr_array){a->data + i * a->stride[0] * item, a->dtype, 2, a->size + 1,
                      a->stride + 1};
}

/* beta * self, by matrices without columns and rows. */
static const char *product_added_nothing(int index, const cr_array *self,
                                         const cr_array *result, cr_scalar alpha,
                                         cr_scalar beta)
{
    int64_t a_size[2] = {result->size[0], 0}, b_size[2] = {0, result->size[1]}, one[2] = {1, 1};
    cr_array a = {result->data, result->dtype, 2, a_size, one};
    cr_array b = {result->data, result->dtype, 2, b_size, one};

    return product_added(index, self, &a, &b, result, alpha, beta);
}

/* Adds the products of a batch in order. */
static const char *product_addbmm(int index, const cr_given *arg, const cr_array *result)
{
    cr_scalar alpha, beta;

    if (!product_given(&beta, &arg[3]) || !product_given(&alpha, &arg[4]) ||
        arg[0].kind != CR_GIVEN_ARRAY)
        return cr_command_declines;
    const cr_array *self = &arg[0].array;
    const char *error = NULL;
    if (!arg[1].array.size[0])
        return product_added_nothing(index, self, result, alpha, beta);
    for (int64_t i = 0; i < arg[1].array.size[0] && !error; i++) {
        cr_array a = product_matrix_of(&arg[1].array, i);
        cr_array b = product_matrix_of(&arg[2].array, i);
        error = product_added(index, self, &a, &b, result, alpha, beta);
        self = result;
        beta = cr_scalar_int(1);
    }
    return error;
}

static const char *product_baddbmm(int index, const cr_given *arg, const cr_array *result)
{
    return product_addmm(index, arg, result);
}

/* The dims of an array, where vectors are matrices of one row or one column. */
typedef struct {
    int64_t size[PRODUCT_DIMS], stride[PRODUCT_DIMS];
} product_dims;

/* Inserts a dim of size 1 before dim `at`. */
static cr_array product_wider(product_dims *d, const cr_array *a, int at)
{
    for (int i = 0, from = 0; i <= a->ndim; i++) {
        d->size[i] = i == at ? 1 : a->size[from];
        d->stride[i] = i == at ? 1 : a->stride[from];
        from += i != at;
    }
    return (cr_array){a->data, a->dtype, a->ndim + 1, d->size, d->stride};
}

/* self, unless it is NULL, and a product of which each operand may be a vector: the first one
 * as a row, the second one as a column. */
static const char *product_any(int index, const cr_array *self, const cr_array *given_a,
                               const cr_array *given_b, const cr_array *result)
{
    cr_array a = *given_a, b = *given_b, c = *result, add;
    product_dims dims[5];
    int row = a.ndim == 1, column = b.ndim == 1;

    if (a.ndim < 1 || b.ndim < 1 || c.ndim + 2 > PRODUCT_DIMS ||
        (self && self->ndim > c.ndim + row))
        return cr_command_declines;
    add = self ? *self : c;
    if (row) {
        a = product_wider(&dims[0], &a, 0);
        c = product_wider(&dims[1], &c, c.ndim - (column ? 0 : 1));
    }
    if (column) {
        b = product_wider(&dims[2], &b, 1);
        c = product_wider(&dims[3], &c, c.ndim);
        add = product_wider(&dims[4], &add, add.ndim);
    }
    if (self)
        return product_added(index, &add, &a, &b, &c, cr_scalar_int(1), cr_scalar_int(1));
    product_call p = product_plain(index, result);
    return product(&p, &a, &b, &c);
}

static const char *product_matmul(int index, const cr_given *arg, const cr_array *result)
{
    return product_any(index, NULL, &arg[0].array, &arg[1].array, result);
}

static const char *product_mv(int index, const cr_given *arg, const cr_array *result)
{
    return product_matmul(index, arg, result);
}

static const char *product_dot(int index, const cr_given *arg, const cr_array *result)
{
    return product_matmul(index, arg, result);
}

/* linear(input, weight, bias): input weight' + bias */
static const char *product_linear(int index, const cr_given *arg, const cr_array *result)
{
    const cr_array *w = &arg[1].array, *bias = &arg[2].array;
    bool matrix = w->ndim == 2;

    if (w->ndim < 1 || w->ndim > 2 ||
        (arg[2].kind != CR_GIVEN_ARRAY && arg[2].kind != CR_GIVEN_NONE))
        return cr_command_declines;
    int64_t size[2] = {w->size[matrix], w->size[0]},
            stride[2] = {w->stride[matrix], w->stride[0]};
    cr_array turned = {w->data, w->dtype, w->ndim, size, stride};
    return product_any(index, arg[2].kind == CR_GIVEN_ARRAY ? bias : NULL, &arg[0].array,
                       &turned, result);
}

void cr_kern_install_cuda(void)
{
    static const cr_device_entry rows[] = {
        {"mm", product_mm, NULL},
        {"bmm", product_bmm, NULL},
        {"addmm", product_addmm, NULL},
        {"baddbmm", product_baddbmm, NULL},
        {"addbmm", product_addbmm, NULL},
        {"mv", product_mv, NULL},
        {"dot", product_dot, NULL},
        {"matmul", product_matmul, NULL},
        {"linear", product_linear, NULL},
        {"convolution", cr_cuda_convolution, NULL},
        {"_convolution_output", cr_cuda_conv_output, NULL},
        {"_convolution_input_grad", cr_cuda_conv_input_grad, NULL},
        {"_convolution_weight_grad", cr_cuda_conv_weight_grad, NULL},
        {"arange.start_step", cr_cuda_arange, NULL},
        {"range.step", cr_cuda_range, NULL},
        {"linspace", cr_cuda_linspace, NULL},
        {"logspace", cr_cuda_logspace, NULL},
        {"tril", cr_cuda_tril, NULL},
        {"triu", cr_cuda_triu, NULL},
        {"uniform_", cr_cuda_uniform, NULL},
        {"normal_", cr_cuda_normal, NULL},
        {"log_normal_", cr_cuda_log_normal, NULL},
        {"cauchy_", cr_cuda_cauchy, NULL},
        {"exponential_", cr_cuda_exponential, NULL},
        {"geometric_", cr_cuda_geometric, NULL},
        {"random_", cr_cuda_random, NULL},
        {"random_.from", cr_cuda_random_from, NULL},
        {"random_.to", cr_cuda_random_to, NULL},
        {"bernoulli_.float", cr_cuda_bernoulli_float, NULL},
        {"bernoulli_.Tensor", cr_cuda_bernoulli_tensor, NULL},
        {"bernoulli", cr_cuda_bernoulli, NULL},
        {"_dropout_mask", cr_cuda_dropout_mask, NULL},
        {"bernoulli.p", cr_cuda_bernoulli_float, NULL},
        {"sort", cr_cuda_sort_lines, NULL},
        {"sort.stable", cr_cuda_sort_stable, NULL},
        {"topk", cr_cuda_topk, NULL},
        {"kthvalue", cr_cuda_kthvalue, NULL},
        {"median", cr_cuda_median, NULL},
        {"nanmedian", cr_cuda_nanmedian, NULL},
        {"median.dim", cr_cuda_median_dim, NULL},
        {"nanmedian.dim", cr_cuda_nanmedian_dim, NULL},
        {"mode", cr_cuda_mode, NULL},
        {"randperm", cr_cuda_randperm, NULL},
        {"_searchsorted", cr_cuda_searchsorted, NULL},
        {"nonzero", cr_cuda_nonzero, cr_cuda_nonzero_sizes},
        {"masked_select", cr_cuda_masked_select, cr_cuda_masked_select_sizes},
        {"bincount", cr_cuda_bincount, cr_cuda_bincount_sizes},
        {"_bin_counts", cr_cuda_bin_counts, NULL},
        {"repeat_interleave.Tensor", NULL, cr_cuda_repeats_sizes},
        {"_repeat_interleave_each", NULL, cr_cuda_repeat_each_sizes},
        {"cumsum", cr_cuda_cumsum, NULL},
        {"cumprod", cr_cuda_cumprod, NULL},
        {"cummax", cr_cuda_cummax, NULL},
        {"cummin", cr_cuda_cummin, NULL},
        {"logcumsumexp", cr_cuda_logcumsumexp, NULL},
        {"_upsample", cr_cuda_upsample, NULL},
        {"_upsample_backward", cr_cuda_upsample_backward, NULL},
        {"_embedding_bag", cr_cuda_embedding_bag, NULL},
        {"_largest_of_bags", cr_cuda_largest_of_bags, NULL},
        {"_bags_of", cr_cuda_bags_of, NULL},
        {"_attention", cr_cuda_attention, NULL},
        {"_attention_backward", cr_cuda_attention_backward, NULL},
        {"_attention_backward_joined", cr_cuda_attention_backward_joined, NULL},
        {"_pool_scatter", cr_cuda_pool_scatter, NULL},
        {"_class_entropy", cr_cuda_class_entropy, NULL},
        {"_class_entropy_backward", cr_cuda_class_entropy_backward, NULL},
        {"_rnn_steps", cr_cuda_rnn_steps, NULL},
        {"_rnn_steps_backward", cr_cuda_rnn_steps_backward, NULL},
        {"_batch_norm_channels", cr_cuda_batch_norm, NULL},
        {"_batch_norm_given", cr_cuda_batch_norm_given, NULL},
        {"_batch_norm_backward", cr_cuda_batch_norm_backward, NULL},
        {"_batch_norm_relu", cr_cuda_batch_norm_relu, NULL},
        {"_batch_norm_relu_backward", cr_cuda_batch_norm_relu_backward, NULL},
        {"_batch_norm_masked_backward", cr_cuda_batch_norm_masked_backward, NULL},
        {"_layer_norm_parameters", cr_cuda_layer_norm_parameters, NULL},
        {"_rms_norm_weight", cr_cuda_rms_norm_weight, NULL},
        {"_fft_c2c", cr_cuda_fft_c2c, NULL},
        {"_fft_r2c", cr_cuda_fft_r2c, NULL},
        {"_fft_c2r", cr_cuda_fft_c2r, NULL},
        {"_la_cholesky", cr_device_runs_on_views, NULL},
        {"_la_lu", cr_device_runs_on_views, NULL},
        {"_la_permutation", cr_device_runs_on_views, NULL},
        {"_la_lu_solve", cr_device_runs_on_views, NULL},
        {"_la_solve", cr_device_runs_on_views, NULL},
        {"_la_inv", cr_device_runs_on_views, NULL},
        {"linalg_solve_triangular", cr_device_runs_on_views, NULL},
        {"geqrf", cr_device_runs_on_views, NULL},
        {"_la_qr", cr_device_runs_on_views, NULL},
        {"_la_householder_product", cr_device_runs_on_views, NULL},
        {"_la_ormqr", cr_device_runs_on_views, NULL},
        {"_la_svd", cr_device_runs_on_views, NULL},
        {"_la_eigh", cr_device_runs_on_views, NULL},
        {"_la_eig", cr_device_runs_on_views, NULL},
        {"_la_lstsq", cr_device_runs_on_views, NULL},
        {"_la_ldl", cr_device_runs_on_views, NULL},
        {"linalg_ldl_solve", cr_device_runs_on_views, NULL},
        {"poisson", cr_device_runs_on_views, NULL},
        {"binomial", cr_device_runs_on_views, NULL},
        {"_standard_gamma", cr_device_runs_on_views, NULL},
        {"_combination_indices", cr_device_runs_on_views, NULL},
        {"hash_tensor", cr_device_runs_on_views, NULL},
        {"_ctc_loss", cr_device_runs_on_views, NULL},
        {"_ctc_loss_backward", cr_device_runs_on_views, NULL},
        {"_polynomial", cr_device_runs_on_views, NULL},
        {"_standard_gamma_grad", cr_device_runs_on_views, NULL},
        {"_dirichlet_grad", cr_device_runs_on_views, NULL},
        {"grid_sampler", cr_device_runs_on_views, NULL},
        {"_grid_sampler_input_grad", cr_device_runs_on_views, NULL},
        {"_grid_sampler_grid_grad", cr_device_runs_on_views, NULL},
        {"_grid_sampler_along", cr_device_runs_on_views, NULL},
        {"_grid_sampler_along_input_grad", cr_device_runs_on_views, NULL},
        {"_grid_sampler_along_grid_grad", cr_device_runs_on_views, NULL},
        {"torchvision::_roi_align", cr_device_runs_on_views, NULL},
        {"torchvision::_roi_align_backward", cr_device_runs_on_views, NULL},
        {"torchvision::_roi_pool", cr_device_runs_on_views, NULL},
        {"torchvision::_roi_pool_backward", cr_device_runs_on_views, NULL},
        {"torchvision::_ps_roi_align", cr_device_runs_on_views, NULL},
        {"torchvision::_ps_roi_align_backward", cr_device_runs_on_views, NULL},
        {"torchvision::_ps_roi_pool", cr_device_runs_on_views, NULL},
        {"torchvision::_ps_roi_pool_backward", cr_device_runs_on_views, NULL},
        {"torchvision::_deform_columns", cr_device_runs_on_views, NULL},
        {"torchvision::_deform_input_grad", cr_device_runs_on_views, NULL},
        {"torchvision::_deform_offset_grad", cr_device_runs_on_views, NULL},
        {"torchvision::_deform_mask_grad", cr_device_runs_on_views, NULL},
        {"torchvision::_nms_kept", cr_device_runs_on_views, NULL},
        {"torchvision::box_iou_rotated", cr_device_runs_on_views, NULL},
    };

    cr_cuda_install();
    cr_cuda_install_loops();
    cr_cuda_install_solver();
    cr_cuda_ops.move = cr_cuda_move;
    cr_cuda_ops.move_list = cr_cuda_move_list;
    cr_cuda_ops.fill = cr_cuda_fill_array;
    cr_cuda_ops.indexed = cr_cuda_indexed;
    cr_cuda_ops.combine = cr_cuda_combine;
    cr_cuda_ops.windows = cr_cuda_windows;
    cr_device_set_entries(CR_CUDA, rows, (int)CR_LEN(rows));
}
