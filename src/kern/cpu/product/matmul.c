/* Matrix products.
 *
 * A product with fewer than TINY multiplications uses the loops of matmul_loops.inc.  Larger
 * products use gemm_real.inc for float32 and float64, oneDNN for bfloat16, BLAS for complex;
 * integers use loops. BLAS gets transposed operands as such; an operand is copied only when
 * neither of its strides is one.  It gets blocks of rows whose sizes depend only on the sizes
 * of the product.  Threads take whole blocks, so the sums do not depend on threads. */
#include "kern/cpu/product/matmul.h"
#include "base/parallel.h"
#include "kern/cpu/library/blas.h"
#include "kern/cpu/library/dnnl.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/product/gemm_real.h"
#include "kern/cpu/product/turn.h"
#include "kern/cpu/walk.h"
#include <limits.h>
#include <string.h>

enum { TINY = 2048, STACK_BYTES = TINY * sizeof(cr_complex), BLOCK = 256 };

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/product/matmul_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/product/matmul_loops.inc"
#define T       uint8_t
#define NAME(x) i8_##x
#include "kern/cpu/product/matmul_loops.inc"
#define T       uint16_t
#define NAME(x) i16_##x
#include "kern/cpu/product/matmul_loops.inc"
#define T       uint32_t
#define NAME(x) i32_##x
#include "kern/cpu/product/matmul_loops.inc"
#define T       uint64_t
#define NAME(x) i64_##x
#include "kern/cpu/product/matmul_loops.inc"

#define COMPLEX_OPS(type, real)                                                                \
    static inline type type##_mul(type a, type b)                                              \
    {                                                                                          \
        return (type){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};                   \
    }                                                                                          \
    static inline type type##_add(type a, type b) { return (type){a.re + b.re, a.im + b.im}; }
COMPLEX_OPS(cr_complex_float, float)
COMPLEX_OPS(cr_complex, double)

#define T                   cr_complex_float
#define NAME(x)             c64_##x
#define T_MULADD(acc, a, b) cr_complex_float_add(acc, cr_complex_float_mul(a, b))
#define T_SCALE(s, x)       cr_complex_float_mul(s, x)
#define T_ADD(x, y)         cr_complex_float_add(x, y)
#include "kern/cpu/product/matmul_loops.inc"
#undef T_MULADD
#undef T_SCALE
#undef T_ADD
#define T                   cr_complex
#define NAME(x)             c128_##x
#define T_MULADD(acc, a, b) cr_complex_add(acc, cr_complex_mul(a, b))
#define T_SCALE(s, x)       cr_complex_mul(s, x)
#define T_ADD(x, y)         cr_complex_add(x, y)
#include "kern/cpu/product/matmul_loops.inc"
#undef T_MULADD
#undef T_SCALE
#undef T_ADD

static bool scalar_is_one(cr_scalar s)
{
    cr_complex z = cr_scalar_as_complex(s);

    return z.re == 1.0 && z.im == 0.0;
}

/* --- loops --- */

static void gemm_turn(char *to, const cr_gemm *g)
{
    switch (g->dtype) {
    case CR_F32: f32_turn(to, g); break;
    case CR_F64: f64_turn(to, g); break;
    case CR_C64: c64_turn(to, g); break;
    case CR_C128: c128_turn(to, g); break;
    case CR_I64: i64_turn(to, g); break;
    case CR_I32: i32_turn(to, g); break;
    case CR_I16: i16_turn(to, g); break;
    default: i8_turn(to, g); break;
    }
}

static void loop_rows(void *context, int64_t begin, int64_t end)
{
    const cr_gemm *g = context;
    bool keep = cr_scalar_is_nonzero(g->beta), plain = !keep && scalar_is_one(g->alpha);
    cr_complex s = cr_scalar_as_complex(g->alpha), t = cr_scalar_as_complex(g->beta);

#define INTEGER(type, name)                                                                    \
    name##_rows(g, begin, end, (type)cr_scalar_as_int(g->alpha),                               \
                (type)cr_scalar_as_int(g->beta), plain, keep)
    switch (g->dtype) {
    case CR_F32: f32_rows(g, begin, end, (float)s.re, (float)t.re, plain, keep); break;
    case CR_F64: f64_rows(g, begin, end, s.re, t.re, plain, keep); break;
    case CR_C64:
        c64_rows(g, begin, end, (cr_complex_float){(float)s.re, (float)s.im},
                 (cr_complex_float){(float)t.re, (float)t.im}, plain, keep);
        break;
    case CR_C128: c128_rows(g, begin, end, s, t, plain, keep); break;
    case CR_I64: INTEGER(uint64_t, i64); break;
    case CR_I32: INTEGER(uint32_t, i32); break;
    case CR_I16: INTEGER(uint16_t, i16); break;
    default: INTEGER(uint8_t, i8); break;
    }
#undef INTEGER
}

static cr_status loops(const cr_gemm *g)
{
    _Alignas(64) char stack[STACK_BYTES];
    size_t bytes = (size_t)(g->k * g->n) * cr_dtype_size(g->dtype);
    cr_gemm turned = *g;
    char *owned = NULL;

    if (g->b.col != 1 && g->n > 1) {
        if (bytes > sizeof stack && !(owned = cr_aligned_alloc(bytes)))
            return CR_MEMORY;
        turned.b = (cr_matrix){owned ? owned : stack, g->n, 1};
        gemm_turn(turned.b.data, g);
    }
    cr_parallel_for(g->m, 65536 / (g->n * g->k + 1) + 1, loop_rows, &turned);
    cr_aligned_free(owned);
    return CR_OK;
}

/* --- operands for libraries --- */

/* A rows x cols matrix for BLAS, in row-major terms.  `owned` is a copy when neither stride is
 * one. */
typedef struct {
    const void *data;
    bool transposed;
    int64_t step;
    void *owned;
} lib_operand;

/* Copies a matrix; rows of the copy begin `step` elements apart. */
static cr_status copy_lib_operand(lib_operand *o, const cr_matrix *x, int64_t rows,
                                  int64_t cols, int64_t step, cr_dtype t)
{
    int64_t size[2] = {rows, cols}, from[2] = {x->row, x->col}, to[2] = {step, 1};
    cr_view src = {
        .data = x->data, .size = size, .stride = from, .ndim = 2, .dtype = (uint8_t)t};
    cr_view dst = {.size = size, .stride = to, .ndim = 2, .dtype = (uint8_t)t};

    o->owned = dst.data = cr_aligned_alloc((size_t)(rows * step) * cr_dtype_size(t));
    CR_NEED(o->owned);
    cr_copy_view(&dst, &src);
    o->data = o->owned;
    o->step = step;
    return CR_OK;
}

static cr_status lib_operand_of(lib_operand *o, const cr_matrix *x, int64_t rows, int64_t cols,
                                cr_dtype t)
{
    *o = (lib_operand){.data = x->data};
    if ((cols == 1 || x->col == 1) && (rows == 1 || x->row >= cols)) {
        o->step = rows == 1 ? cols : x->row;
        return CR_OK;
    }
    if ((rows == 1 || x->row == 1) && (cols == 1 || x->col >= rows)) {
        o->transposed = true;
        o->step = cols == 1 ? rows : x->col;
        return CR_OK;
    }
    return copy_lib_operand(o, x, rows, cols, cols, t);
}

/* --- BLAS --- */

typedef struct {
    const cr_gemm *g;
    const cr_blas_table *blas;
    const lib_operand *a, *b;
} blas_job;

/* BLAS is column-major, so it computes the transposed product. */
static void blas_block(const blas_job *w, int64_t begin, int64_t rows)
{
    const cr_gemm *g = w->g;
    size_t item = cr_dtype_size(g->dtype);
    int n = (int)g->n, m = (int)rows, k = (int)g->k, lda = (int)w->a->step,
        ldb = (int)w->b->step;
    int ldc = (int)(g->m == 1 ? g->n : g->c.row);
    const char *ta = w->a->transposed ? "T" : "N", *tb = w->b->transposed ? "T" : "N";
    const void *a =
        (const char *)w->a->data + (size_t)(begin * (w->a->transposed ? 1 : w->a->step)) * item;
    void *c = g->c.data + (size_t)(begin * g->c.row) * item;
    cr_complex s = cr_scalar_as_complex(g->alpha), t = cr_scalar_as_complex(g->beta);
    cr_complex_float sf = {(float)s.re, (float)s.im}, tf = {(float)t.re, (float)t.im};

#define CALL(fn, alpha, beta)                                                                  \
    w->blas->fn(tb, ta, &n, &m, &k, alpha, w->b->data, &ldb, a, &lda, beta, c, &ldc, 1, 1)
    switch (g->dtype) {
    case CR_C64: CALL(cgemm_, &sf, &tf); break;
    default: CALL(zgemm_, &s, &t); break;
    }
#undef CALL
}

static void blas_blocks(void *context, int64_t begin, int64_t end)
{
    const blas_job *w = context;

    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * BLOCK, left = w->g->m - at;
        blas_block(w, at, left < BLOCK ? left : BLOCK);
    }
}

static bool fits_blas(const cr_gemm *g, const lib_operand *a, const lib_operand *b)
{
    return g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && a->step <= INT_MAX &&
           b->step <= INT_MAX && g->c.row <= INT_MAX;
}

static cr_status by_blas(const cr_gemm *g)
{
    const cr_blas_table *blas = cr_blas();
    lib_operand a = {0}, b = {0};
    cr_status st;

    CR_GO(lib_operand_of(&a, &g->a, g->m, g->k, g->dtype));
    CR_GO(lib_operand_of(&b, &g->b, g->k, g->n, g->dtype));
    if (blas && fits_blas(g, &a, &b)) {
        blas_job job = {g, blas, &a, &b};
        cr_parallel_for((g->m + BLOCK - 1) / BLOCK, 1, blas_blocks, &job);
    } else {
        CR_GO(loops(g));
    }
done:
    cr_aligned_free(a.owned);
    cr_aligned_free(b.owned);
    return st;
}

/* --- bfloat16 by oneDNN --- */

typedef struct {
    int64_t m, n, k, a[2], b[2], c;
    float alpha, beta;
} bf16_key;

static void desc2(const cr_dnnl_table *d, dnnl_memory_desc_t *out, int64_t rows, int64_t cols,
                  int64_t row, int64_t col)
{
    dnnl_dims_t size = {rows, cols}, stride = {row, col};

    if (d->dnnl_memory_desc_init_by_strides(out, 2, size, dnnl_bf16, stride))
        memset(out, 0, sizeof *out);
}

static bool set_scales(const cr_dnnl_table *d, dnnl_primitive_attr_t attr, const bf16_key *key)
{
    dnnl_post_ops_t post;
    bool ok = true;

    if (key->alpha != 1.0f)
        ok = !d->dnnl_primitive_attr_set_output_scales(attr, 1, 0, &key->alpha);
    if (key->beta == 0.0f || !ok)
        return ok;
    if (d->dnnl_post_ops_create(&post))
        return false;
    ok = !d->dnnl_post_ops_append_sum(post, key->beta) &&
         !d->dnnl_primitive_attr_set_post_ops(attr, post);
    d->dnnl_post_ops_destroy(post);
    return ok;
}

static bool make_bf16(const cr_dnnl_table *d, const void *bytes, cr_dnnl_recipe *out)
{
    const bf16_key *key = bytes;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attr;
    bool ok;

    desc2(d, &a, key->m, key->k, key->a[0], key->a[1]);
    desc2(d, &b, key->k, key->n, key->b[0], key->b[1]);
    desc2(d, &c, key->m, key->n, key->c, 1);
    if (d->dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c) || !cr_dnnl_attr(d, &attr))
        return false;
    ok = set_scales(d, attr, key) &&
         !d->dnnl_primitive_desc_create(&out->desc, &desc, attr, d->engine, NULL);
    d->dnnl_primitive_attr_destroy(attr);
    cr_dnnl_operand(out, DNNL_ARG_SRC, false, &a);
    cr_dnnl_operand(out, DNNL_ARG_WEIGHTS, false, &b);
    cr_dnnl_operand(out, DNNL_ARG_DST, true, &c);
    return ok;
}

/* --- half types and float8 in float32 --- */

static bool computes_wider(const cr_gemm *g)
{
    return cr_dtype_is_float(g->dtype) && cr_dtype_compute(g->dtype) != g->dtype;
}

static void set_view(cr_view *v, const cr_matrix *x, int64_t *size, int64_t *stride, cr_dtype t)
{
    stride[0] = x->row;
    stride[1] = x->col;
    *v = (cr_view){
        .data = x->data, .size = size, .stride = stride, .ndim = 2, .dtype = (uint8_t)t};
}

static cr_status gemm_widened(const cr_gemm *g)
{
    int64_t sa[2] = {g->m, g->k}, sb[2] = {g->k, g->n}, sc[2] = {g->m, g->n}, ta[2], tb[2],
            tc[2];
    cr_view va, vb, vc;
    cr_dense a = {0}, b = {0}, c = {0};
    cr_gemm wide = *g;
    cr_status st;

    set_view(&va, &g->a, sa, ta, g->dtype);
    set_view(&vb, &g->b, sb, tb, g->dtype);
    set_view(&vc, &g->c, sc, tc, g->dtype);
    CR_GO(cr_dense_in(&a, &va, CR_F32));
    CR_GO(cr_dense_in(&b, &vb, CR_F32));
    CR_GO(cr_scalar_is_nonzero(g->beta) ? cr_dense_in(&c, &vc, CR_F32)
                                        : cr_dense_out(&c, &vc, CR_F32));
    wide.dtype = CR_F32;
    wide.a = (cr_matrix){a.data, g->k, 1};
    wide.b = (cr_matrix){b.data, g->n, 1};
    wide.c = (cr_matrix){c.data, g->n, 1};
    CR_GO(cr_gemm_run(&wide));
    cr_dense_store(&c, &vc, CR_F32);
done:
    cr_dense_drop(&a);
    cr_dense_drop(&b);
    cr_dense_drop(&c);
    return st;
}

static cr_status bf16(const cr_gemm *g)
{
    bf16_key key = {.m = g->m,
                    .n = g->n,
                    .k = g->k,
                    .a = {g->a.row, g->a.col},
                    .b = {g->b.row, g->b.col},
                    .c = g->m == 1 ? g->n : g->c.row,
                    .alpha = (float)cr_scalar_as_double(g->alpha),
                    .beta = (float)cr_scalar_as_double(g->beta)};
    void *data[] = {g->a.data, g->b.data, g->c.data};
    cr_dnnl_primitive *p;
    cr_status st;

    if (g->m == 1)
        key.a[0] = g->k;
    if (g->n == 1)
        key.b[1] = 1;
    p = cr_dnnl_get(&key, sizeof key, make_bf16, INT_MAX);
    if (!p)
        return gemm_widened(g);
    st = cr_dnnl_run(p, data);
    cr_dnnl_release(p);
    return st;
}

/* --- entry points --- */

/* c = beta * c, when the product has no terms. */
static cr_status scale_only(const cr_gemm *g)
{
    cr_gemm zero = *g;
    size_t item = cr_dtype_size(g->dtype);

    if (!cr_scalar_is_nonzero(g->beta)) {
        for (int64_t i = 0; i < g->m; i++)
            memset(g->c.data + (size_t)(i * g->c.row) * item, 0, (size_t)g->n * item);
        return CR_OK;
    }
    zero.k = 0;
    zero.a = (cr_matrix){NULL, 0, 0};
    zero.b = (cr_matrix){NULL, 0, 1};
    return computes_wider(g) ? gemm_widened(&zero) : loops(&zero);
}

static bool is_tiny(const cr_gemm *g)
{
    return g->m <= TINY && g->n <= TINY && g->k <= TINY && g->m * g->n <= TINY &&
           g->m * g->n * g->k <= TINY;
}

/* The same product with the bias in c. */
static cr_status gemm_run_filled(const cr_gemm *g)
{
    size_t item = cr_dtype_size(g->dtype);
    cr_gemm filled = *g;

    for (int64_t i = 0; i < g->m; i++)
        memcpy(g->c.data + (size_t)(i * g->c.row) * item, g->bias, (size_t)g->n * item);
    filled.bias = NULL;
    filled.beta = cr_scalar_int(1);
    return cr_gemm_run(&filled);
}

/* Whether gemm_real.inc computes the product. */
static bool is_real(const cr_gemm *g)
{
    if (g->k == 0)
        return false;
    switch (g->dtype) {
    case CR_F32: return !is_tiny(g) || cr_gemm_f32_is_dots(g);
    case CR_F64: return !is_tiny(g) || cr_gemm_f64_is_dots(g);
    default: return false;
    }
}

cr_status cr_gemm_run(const cr_gemm *g)
{
    if (g->m == 0 || g->n == 0)
        return CR_OK;
    if (is_real(g))
        return g->dtype == CR_F32 ? cr_gemm_f32(g) : cr_gemm_f64(g);
    if (g->bias)
        return gemm_run_filled(g);
    if (g->k == 0)
        return scale_only(g);
    switch (g->dtype) {
    case CR_BF16: return bf16(g);
    case CR_F32:
    case CR_F64: return loops(g);
    case CR_C64:
    case CR_C128: return is_tiny(g) ? loops(g) : by_blas(g);
    default: return computes_wider(g) ? gemm_widened(g) : loops(g);
    }
}

/* --- copies of b for several products --- */

bool cr_gemm_copies_b(const cr_gemm *g)
{
    return (g->dtype == CR_F32 || g->dtype == CR_F64) && !is_tiny(g) && g->m > CR_REAL_ROWS &&
           g->n > 1 && g->k > 1 && g->b.row == 1 && g->b.col >= g->k;
}

size_t cr_gemm_copy_bytes(const cr_gemm *g)
{
    return (size_t)(g->k * g->n) * cr_dtype_size(g->dtype);
}

cr_matrix cr_gemm_copy_b(const cr_gemm *g, void *to)
{
    cr_turn_shared(
        &(cr_turn){g->b.data, to, cr_dtype_size(g->dtype), g->b.col, g->n, g->k, g->n});
    return (cr_matrix){to, g->n, 1};
}

/* --- batches --- */

enum { A, B, C };

void cr_gemm_batch_start(cr_gemm_batch *b, const cr_gemm *one)
{
    b->one = *one;
    cr_space_start(&b->space, C + 1);
}

/* A matrix without elements has no address that could be moved. */
static int64_t batch_step(const cr_gemm_batch *b, const cr_matrix *m, int64_t stride)
{
    return m->data ? CR_WRAP_MUL(stride, cr_dtype_size(b->one.dtype)) : 0;
}

void cr_gemm_batch_add(cr_gemm_batch *b, int64_t size, int64_t a_stride, int64_t b_stride,
                       int64_t c_stride)
{
    int64_t *step = cr_space_add(&b->space, size, b->space.ndim);

    step[A] = batch_step(b, &b->one.a, a_stride);
    step[B] = batch_step(b, &b->one.b, b_stride);
    step[C] = batch_step(b, &b->one.c, c_stride);
}

typedef struct {
    const cr_gemm_batch *batch;
    _Atomic int failed; /* cr_status */
} batch_job;

static void batch_range(void *context, int64_t begin, int64_t end)
{
    batch_job *w = context;
    const cr_space *s = &w->batch->space;
    cr_gemm g = w->batch->one;
    cr_place p;

    cr_place_seek(&p, s, s->ndim, (char *[]){g.a.data, g.b.data, g.c.data}, begin);
    for (int64_t i = begin; i < end && !w->failed; i++, cr_place_next(&p, s, s->ndim)) {
        g.a.data = p.at[A];
        g.b.data = p.at[B];
        g.c.data = p.at[C];
        cr_status st = cr_gemm_run(&g);
        if (st)
            w->failed = (int)st;
    }
}

cr_status cr_gemm_batch_run(const cr_gemm_batch *b)
{
    batch_job job = {b, CR_OK};
    int64_t count = cr_space_count(&b->space, b->space.ndim),
            work = b->one.m * b->one.n * (b->one.k + 1);
    bool whole;

    /* Threads divide either the products among them, or each product.  oneDNN computes bfloat16
     * outside of parallel regions only, and the way used inside adds in another order. */
    whole = b->one.dtype == CR_BF16 || (work > 100000 && count < 2 * cr_threads());
    if (whole)
        batch_range(&job, 0, count);
    else
        cr_parallel_for(count, 100000 / (work + 1) + 1, batch_range, &job);
    if (job.failed == CR_MEMORY)
        return cr_fail(CR_MEMORY, "not enough memory for a matrix product");
    return (cr_status)job.failed;
}
