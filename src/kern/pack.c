/* Dense copies of views.
 *
 * A view is walked row by row: the last dimension is handed to a row function
 * that converts `n` elements with a stride, the outer ones are counted.  Rows
 * are dealt to threads; every element is written once, so the cut is free. */
#include "kern/pack.h"
#include "kern/walk.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void *cr_aligned_alloc(size_t size)
{
    char *block = cr_alloc(size + ALIGNMENT + sizeof(void *)), *at;

    if (!block)
        return NULL;
    at = block + sizeof(void *);
    at += (ALIGNMENT - (uintptr_t)at % ALIGNMENT) % ALIGNMENT;
    memcpy(at - sizeof block, &block, sizeof block);
    return at;
}

void cr_aligned_free(void *p)
{
    void *block = NULL;

    if (p)
        memcpy(&block, (char *)p - sizeof block, sizeof block);
    cr_free(block);
}

/* --- rows: n elements at dst (stride ds) from src (stride ss), strides in elements --- */

typedef void (*row_fn)(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n);

#define ROW(name, to_type, from_type, convert)                                                     \
    static void name(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n)                \
    {                                                                                              \
        to_type *to = (to_type *)(void *)dst;                                                      \
        const from_type *from = (const from_type *)(const void *)src;                              \
        if (ds == 1 && ss == 1)                                                                    \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = convert(from[i]);                                                          \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i * ds] = convert(from[i * ss]);                                                \
    }

#define AS_IS(x)     (x)
#define AS_FLOAT(x)  ((float)(x))
#define AS_DOUBLE(x) ((double)(x))
#define AS_INT64(x)  ((int64_t)(x))
#define AS_TRUTH(x)  ((uint8_t)((x) != 0))
typedef struct {
    char bytes[16];
} bytes16;

ROW(copy_1, uint8_t, uint8_t, AS_IS)
ROW(copy_2, uint16_t, uint16_t, AS_IS)
ROW(copy_4, uint32_t, uint32_t, AS_IS)
ROW(copy_8, uint64_t, uint64_t, AS_IS)
ROW(copy_16, bytes16, bytes16, AS_IS)

static inline uint16_t bfloat_of(float f) { return cr_float_to_bfloat(f); }
static inline float of_bfloat(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline cr_complex complex_of(cr_complex_float z)
{
    return (cr_complex){(double)z.re, (double)z.im};
}
static inline cr_complex_float complex_float_of(cr_complex z)
{
    return (cr_complex_float){(float)z.re, (float)z.im};
}
#define AS_COMPLEX(x)   ((cr_complex){(double)(x), 0.0})
#define HALF_COMPLEX(x) ((cr_complex){(double)cr_half_to_float(x), 0.0})
#define BF_COMPLEX(x)   ((cr_complex){(double)of_bfloat(x), 0.0})
#define HALF_DOUBLE(x)  ((double)cr_half_to_float(x))
#define BF_DOUBLE(x)    ((double)of_bfloat(x))

#define CONVERTERS(name, type, as, half, bfloat)                                                   \
    ROW(name##_u8, type, uint8_t, as)                                                              \
    ROW(name##_i8, type, int8_t, as)                                                               \
    ROW(name##_i16, type, int16_t, as)                                                             \
    ROW(name##_i32, type, int32_t, as)                                                             \
    ROW(name##_i64, type, int64_t, as)                                                             \
    ROW(name##_f16, type, uint16_t, half)                                                          \
    ROW(name##_bf16, type, uint16_t, bfloat)                                                       \
    ROW(name##_f32, type, float, as)                                                               \
    ROW(name##_f64, type, double, as)
CONVERTERS(f32, float, AS_FLOAT, cr_half_to_float, of_bfloat)
CONVERTERS(f64, double, AS_DOUBLE, HALF_DOUBLE, BF_DOUBLE)
CONVERTERS(c128, cr_complex, AS_COMPLEX, HALF_COMPLEX, BF_COMPLEX)
ROW(c128_c64, cr_complex, cr_complex_float, complex_of)
ROW(i64_u8, int64_t, uint8_t, AS_INT64)
ROW(i64_i8, int64_t, int8_t, AS_INT64)
ROW(i64_i16, int64_t, int16_t, AS_INT64)
ROW(i64_i32, int64_t, int32_t, AS_INT64)
ROW(f16_f32, uint16_t, float, cr_float_to_half)
ROW(bf16_f32, uint16_t, float, bfloat_of)
ROW(f32_from_f64, float, double, AS_FLOAT)
ROW(c64_c128, cr_complex_float, cr_complex, complex_float_of)
ROW(bool_i64, uint8_t, int64_t, AS_TRUTH)
#define AS_U8(x)  ((uint8_t)(x))
#define AS_U16(x) ((uint16_t)(x))
#define AS_U32(x) ((uint32_t)(x))
ROW(u8_i64, uint8_t, int64_t, AS_U8)
ROW(u16_i64, uint16_t, int64_t, AS_U16)
ROW(u32_i64, uint32_t, int64_t, AS_U32)

#define FROM_REALS(name)                                                                           \
    {                                                                                              \
        [CR_BOOL] = name##_u8, [CR_U8] = name##_u8, [CR_I8] = name##_i8, [CR_I16] = name##_i16,    \
        [CR_I32] = name##_i32, [CR_I64] = name##_i64, [CR_F16] = name##_f16,                       \
        [CR_BF16] = name##_bf16, [CR_F32] = name##_f32, [CR_F64] = name##_f64                      \
    }
static const row_fn to_f32[CR_DTYPE_COUNT] = FROM_REALS(f32);
static const row_fn to_f64[CR_DTYPE_COUNT] = FROM_REALS(f64);
static const row_fn to_c128[CR_C64] = FROM_REALS(c128);
static const row_fn to_i64[CR_DTYPE_COUNT] = {
    [CR_BOOL] = i64_u8, [CR_U8] = i64_u8, [CR_I8] = i64_i8, [CR_I16] = i64_i16, [CR_I32] = i64_i32};
static const row_fn from_i64[CR_DTYPE_COUNT] = {
    [CR_BOOL] = bool_i64, [CR_U8] = u8_i64, [CR_I8] = u8_i64, [CR_I16] = u16_i64, [CR_I32] = u32_i64};

static row_fn copier(size_t bytes)
{
    switch (bytes) {
    case 1: return copy_1;
    case 2: return copy_2;
    case 4: return copy_4;
    case 8: return copy_8;
    default: return copy_16;
    }
}

static row_fn from_f32(cr_dtype to)
{
    return to == CR_F16 ? f16_f32 : to == CR_BF16 ? bf16_f32 : NULL;
}

static row_fn converter(cr_dtype to, cr_dtype from)
{
    row_fn fn = NULL;

    if (to == from)
        return copier(cr_dtype_size(to));
    if (to == CR_C128)
        fn = from == CR_C64 ? c128_c64 : to_c128[from];
    else if (to == CR_C64 && from == CR_C128)
        fn = c64_c128;
    else if (to == CR_F64)
        fn = to_f64[from];
    else if (to == CR_F32)
        fn = from == CR_F64 ? f32_from_f64 : to_f32[from];
    else if (to == CR_I64)
        fn = to_i64[from];
    else
        fn = from == CR_I64 ? from_i64[to] : from == CR_F32 ? from_f32(to) : NULL;
    CR_ASSERT(fn);
    return fn;
}

/* --- walking --- */

/* Both sides of a copy; to and from may be broadcast (stride 0) on the reading side. */
typedef struct {
    row_fn row;
    char *to;
    const char *from;
    size_t to_bytes, from_bytes;
    int ndim; /* outer dimensions */
    int64_t size[CR_MAX_DIMS], to_stride[CR_MAX_DIMS], from_stride[CR_MAX_DIMS];
    int64_t n, to_inner, from_inner;
} walk;

static void walk_rows(void *context, int64_t begin, int64_t end)
{
    const walk *w = context;

    for (int64_t r = begin; r < end; r++) {
        int64_t rest = r, to = 0, from = 0;

        for (int d = w->ndim - 1; d >= 0; d--) {
            int64_t i = rest % w->size[d];

            rest /= w->size[d];
            to += i * w->to_stride[d];
            from += i * w->from_stride[d];
        }
        w->row(w->to + to * (int64_t)w->to_bytes, w->to_inner,
               w->from + from * (int64_t)w->from_bytes, w->from_inner, w->n);
    }
}

/* Adds a dimension outside the ones there are, joined with the outermost when both
 * sides step evenly over it. */
static void add_dim(walk *w, int64_t size, int64_t to, int64_t from)
{
    int last = w->ndim - 1;

    if (size == 1)
        return;
    if (last >= 0 && to == w->to_stride[last] * w->size[last] &&
        from == w->from_stride[last] * w->size[last]) {
        w->size[last] *= size;
        return;
    }
    w->size[w->ndim] = size;
    w->to_stride[w->ndim] = to;
    w->from_stride[w->ndim++] = from;
}

/* Dims were added innermost first: takes the innermost as the row, turns the rest round. */
static void finish_dims(walk *w)
{
    w->n = w->ndim ? w->size[0] : 1;
    w->to_inner = w->ndim ? w->to_stride[0] : 1;
    w->from_inner = w->ndim ? w->from_stride[0] : 1;
    for (int i = 1, j = w->ndim - 1; i < j; i++, j--) {
        int64_t s = w->size[i], t = w->to_stride[i], f = w->from_stride[i];

        w->size[i] = w->size[j], w->to_stride[i] = w->to_stride[j];
        w->from_stride[i] = w->from_stride[j];
        w->size[j] = s, w->to_stride[j] = t, w->from_stride[j] = f;
    }
    if (w->ndim) {
        w->ndim--;
        memmove(w->size, w->size + 1, (size_t)w->ndim * sizeof *w->size);
        memmove(w->to_stride, w->to_stride + 1, (size_t)w->ndim * sizeof *w->size);
        memmove(w->from_stride, w->from_stride + 1, (size_t)w->ndim * sizeof *w->size);
    }
}

enum { GRAIN_ELEMENTS = 32768 };

static void run(walk *w)
{
    int64_t rows = 1, grain;

    finish_dims(w);
    for (int d = 0; d < w->ndim; d++)
        rows *= w->size[d];
    grain = GRAIN_ELEMENTS / (w->n ? w->n : 1) + 1;
    if (w->n)
        cr_parallel_for(rows, grain, walk_rows, w);
}

static void start(walk *w, char *to, cr_dtype to_type, const char *from, cr_dtype from_type)
{
    w->row = converter(to_type, from_type);
    w->to = to;
    w->from = from;
    w->to_bytes = cr_dtype_size(to_type);
    w->from_bytes = cr_dtype_size(from_type);
    w->ndim = 0;
}

void cr_pack(void *dst, cr_dtype to, const cr_view *v)
{
    walk w;
    int64_t dense = 1;

    start(&w, dst, to, v->data, (cr_dtype)v->dtype);
    for (int d = v->ndim - 1; d >= 0; d--) {
        add_dim(&w, v->size[d], dense, v->stride[d]);
        dense *= v->size[d];
    }
    if (dense)
        run(&w);
}

void cr_unpack(const cr_view *v, const void *src, cr_dtype from)
{
    walk w;
    int64_t dense = 1;

    start(&w, v->data, (cr_dtype)v->dtype, src, from);
    for (int d = v->ndim - 1; d >= 0; d--) {
        add_dim(&w, v->size[d], v->stride[d], dense);
        dense *= v->size[d];
    }
    if (dense)
        run(&w);
}

void cr_broadcast_copy(const cr_view *to, const cr_view *from)
{
    walk w;
    int lead = to->ndim - from->ndim;

    if (!cr_view_numel(to))
        return;
    start(&w, to->data, (cr_dtype)to->dtype, from->data, (cr_dtype)from->dtype);
    for (int d = to->ndim - 1; d >= 0; d--) {
        bool absent = d < lead || from->size[d - lead] == 1;
        add_dim(&w, to->size[d], to->stride[d], absent ? 0 : from->stride[d - lead]);
    }
    run(&w);
}

cr_status cr_dense_in(cr_dense *d, const cr_view *v, cr_dtype to)
{
    *d = (cr_dense){.data = v->data};
    if (v->dtype == to && cr_view_is_contiguous(v))
        return CR_OK;
    d->owned = cr_aligned_alloc((size_t)cr_view_numel(v) * cr_dtype_size(to));
    if (!d->owned)
        return CR_MEMORY;
    d->data = d->owned;
    cr_pack(d->data, to, v);
    return CR_OK;
}

cr_status cr_dense_out(cr_dense *d, const cr_view *v, cr_dtype from)
{
    *d = (cr_dense){.data = v->data};
    if (v->dtype == from && cr_view_is_contiguous(v))
        return CR_OK;
    d->owned = cr_aligned_alloc((size_t)cr_view_numel(v) * cr_dtype_size(from));
    d->data = d->owned;
    return d->owned ? CR_OK : CR_MEMORY;
}

void cr_dense_store(const cr_dense *d, const cr_view *v, cr_dtype from)
{
    if (d->owned)
        cr_unpack(v, d->data, from);
}

void cr_dense_drop(cr_dense *d)
{
    cr_aligned_free(d->owned);
    d->owned = NULL;
}
