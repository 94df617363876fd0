/* Convolutions of dense arrays.
 *
 * oneDNN computes float32 and bfloat16.  For other dtypes, one group of one image at a time is
 * unfolded into columns, and a matrix product follows (cr_gemm).  Unfolding uses three spatial
 * dimensions; missing leading dimensions have size one. */
#include "kern/conv.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/plane/slide.h"
#include "kern/cpu/product/matmul.h"
#include <string.h>

/* The problem with exactly three spatial dimensions. */
static cr_conv in_three(const cr_conv *c)
{
    cr_conv three = *c;
    int64_t lead = CR_CONV_DIMS - c->dims;

    three.dims = CR_CONV_DIMS;
    for (int64_t d = 0; d < CR_CONV_DIMS; d++) {
        bool own = d >= lead;
        three.in[d] = own ? c->in[d - lead] : 1;
        three.out[d] = own ? c->out[d - lead] : 1;
        three.kernel[d] = own ? c->kernel[d - lead] : 1;
        three.stride[d] = own ? c->stride[d - lead] : 1;
        three.pad[d] = own ? c->pad[d - lead] : 0;
        three.dilation[d] = own ? c->dilation[d - lead] : 1;
    }
    return three;
}

/* --- unfolding --- */

static void inside(const cr_conv *c, int d, int64_t k, int64_t *begin, int64_t *end,
                   int64_t *at)
{
    cr_slide w = {c->in[d], c->out[d], c->stride[d], c->pad[d], c->dilation[d]};

    cr_slide_range(&w, k, begin, end, at);
}

#define FOLDING(T, NAME, ADD)                                                                  \
    static void NAME##_fold(const cr_conv *c, const T *row, const int64_t *k, T *x)            \
    {                                                                                          \
        int64_t b[3], e[3], at[3], s = c->stride[2];                                           \
        for (int d = 0; d < 3; d++)                                                            \
            inside(c, d, k[d], &b[d], &e[d], &at[d]);                                          \
        for (int64_t i = b[0]; i < e[0]; i++)                                                  \
            for (int64_t j = b[1]; j < e[1]; j++) {                                            \
                int64_t y0 = at[0] + (i - b[0]) * c->stride[0];                                \
                int64_t y1 = at[1] + (j - b[1]) * c->stride[1];                                \
                T *to = x + (y0 * c->in[1] + y1) * c->in[2] + at[2];                           \
                const T *from = row + (i * c->out[1] + j) * c->out[2] + b[2];                  \
                for (int64_t n = 0; n < e[2] - b[2]; n++)                                      \
                    to[n * s] = ADD(to[n * s], from[n]);                                       \
            }                                                                                  \
    }

#define UNFOLDING(T, NAME, ADD)                                                                \
    FOLDING(T, NAME, ADD)                                                                      \
    /* One row of columns: kernel position (k0, k1, k2) of a channel. */                       \
    static void NAME##_unfold(const cr_conv *c, const T *x, const int64_t *k, T *row)          \
    {                                                                                          \
        int64_t b[3], e[3], at[3], s = c->stride[2];                                           \
        for (int d = 0; d < 3; d++)                                                            \
            inside(c, d, k[d], &b[d], &e[d], &at[d]);                                          \
        memset(row, 0, (size_t)(c->out[0] * c->out[1] * c->out[2]) * sizeof *row);             \
        for (int64_t i = b[0]; i < e[0]; i++)                                                  \
            for (int64_t j = b[1]; j < e[1]; j++) {                                            \
                int64_t y0 = at[0] + (i - b[0]) * c->stride[0];                                \
                int64_t y1 = at[1] + (j - b[1]) * c->stride[1];                                \
                const T *from = x + (y0 * c->in[1] + y1) * c->in[2] + at[2];                   \
                T *to = row + (i * c->out[1] + j) * c->out[2] + b[2];                          \
                if (s == 1)                                                                    \
                    memcpy(to, from, (size_t)(e[2] - b[2]) * sizeof *to);                      \
                else                                                                           \
                    for (int64_t n = 0; n < e[2] - b[2]; n++)                                  \
                        to[n] = from[n * s];                                                   \
            }                                                                                  \
    }                                                                                          \
    static void NAME##_add_bias(T *y, T bias, int64_t n)                                       \
    {                                                                                          \
        for (int64_t i = 0; i < n; i++)                                                        \
            y[i] = ADD(y[i], bias);                                                            \
    }

#define PLUS(a, b) (a) + (b)
static inline uint8_t plus8(uint8_t a, uint8_t b) { return (uint8_t)(a + b); }
static inline uint8_t either(uint8_t a, uint8_t b) { return a | b; }
static inline uint16_t plus16(uint16_t a, uint16_t b) { return (uint16_t)(a + b); }
static inline cr_complex_float plus_c64(cr_complex_float a, cr_complex_float b)
{
    return (cr_complex_float){a.re + b.re, a.im + b.im};
}
static inline cr_complex plus_c128(cr_complex a, cr_complex b)
{
    return (cr_complex){a.re + b.re, a.im + b.im};
}
UNFOLDING(uint8_t, i8, plus8)
FOLDING(uint8_t, boolean, either)
UNFOLDING(uint16_t, i16, plus16)
UNFOLDING(uint32_t, i32, PLUS)
UNFOLDING(uint64_t, i64, PLUS)
UNFOLDING(float, f32, PLUS)
UNFOLDING(double, f64, PLUS)
UNFOLDING(cr_complex_float, c64, plus_c64)
UNFOLDING(cr_complex, c128, plus_c128)

#define EACH_TYPE(t, DO)                                                                       \
    switch (t) {                                                                               \
    case CR_F32: DO(float, f32); break;                                                        \
    case CR_F64: DO(double, f64); break;                                                       \
    case CR_C64: DO(cr_complex_float, c64); break;                                             \
    case CR_C128: DO(cr_complex, c128); break;                                                 \
    case CR_I64: DO(uint64_t, i64); break;                                                     \
    case CR_I32: DO(uint32_t, i32); break;                                                     \
    case CR_F16:                                                                               \
    case CR_BF16:                                                                              \
    case CR_I16: DO(uint16_t, i16); break;                                                     \
    default: DO(uint8_t, i8); break;                                                           \
    }

/* Makes the call for each row of columns: channel i, kernel position k. */
#define EACH_ROW(c, T, x, col, CALL)                                                           \
    do {                                                                                       \
        int64_t k[3], image = (c)->in[0] * (c)->in[1] * (c)->in[2];                            \
        int64_t row = (c)->out[0] * (c)->out[1] * (c)->out[2], r = 0;                          \
        for (int64_t i = 0; i < (c)->ic; i++)                                                  \
            for (k[0] = 0; k[0] < (c)->kernel[0]; k[0]++)                                      \
                for (k[1] = 0; k[1] < (c)->kernel[1]; k[1]++)                                  \
                    for (k[2] = 0; k[2] < (c)->kernel[2]; k[2]++, r++)                         \
                        CALL;                                                                  \
    } while (0)

static void unfold(const cr_conv *c, cr_dtype t, const char *x, char *col)
{
#define DO(T, name)                                                                            \
    EACH_ROW(c, T, x, col,                                                                     \
             name##_unfold(c, (const T *)(const void *)x + i * image, k,                       \
                           (T *)(void *)col + r * row))
    EACH_TYPE(t, DO)
#undef DO
}

static void conv_fold(const cr_conv *c, cr_dtype t, const char *col, char *x)
{
    if (t == CR_BOOL) {
        EACH_ROW(c, uint8_t, x, col,
                 boolean_fold(c, (const uint8_t *)col + r * row, k, (uint8_t *)x + i * image));
        return;
    }
#define DO(T, name)                                                                            \
    EACH_ROW(                                                                                  \
        c, T, x, col,                                                                          \
        name##_fold(c, (const T *)(const void *)col + r * row, k, (T *)(void *)x + i * image))
    EACH_TYPE(t, DO)
#undef DO
}

void cr_conv_im2col(const cr_conv *c, cr_dtype t, const char *x, char *col)
{
    cr_conv three = in_three(c);

    unfold(&three, t, x, col);
}

void cr_conv_col2im(const cr_conv *c, cr_dtype t, const char *col, char *x)
{
    cr_conv three = in_three(c);

    conv_fold(&three, t, col, x);
}

/* --- products --- */

typedef struct {
    cr_conv c; /* three-dimensional */
    cr_dtype t;
    char *x, *w, *bias, *y;
    int64_t item, rows, positions; /* bytes; rows and columns of the unfolded input */
    bool direct;                   /* the input equals its unfolding */
    _Atomic int failed;            /* cr_status */
} job;

static bool is_direct(const cr_conv *c)
{
    for (int d = 0; d < 3; d++)
        if (c->kernel[d] != 1 || c->stride[d] != 1 || c->pad[d] || c->in[d] != c->out[d])
            return false;
    return true;
}

static job conv_start(const cr_conv *c, cr_dtype t, char *x, char *w, char *bias, char *y)
{
    job j = {.c = in_three(c), .t = t, .x = x, .w = w, .bias = bias, .y = y};

    j.item = (int64_t)cr_dtype_size(t);
    j.rows = c->ic * cr_conv_volume(c, c->kernel);
    j.positions = cr_conv_volume(c, c->out);
    j.direct = is_direct(&j.c);
    return j;
}

/* Bytes of one group of one image. */
static int64_t x_bytes(const job *j)
{
    return j->c.ic * cr_conv_volume(&j->c, j->c.in) * j->item;
}
static int64_t y_bytes(const job *j) { return j->c.oc * j->positions * j->item; }
static int64_t w_bytes(const job *j) { return j->c.oc * j->rows * j->item; }

static char *columns_new(job *j)
{
    char *col = cr_aligned_alloc((size_t)(j->rows * j->positions * j->item) + 1);

    if (!col)
        j->failed = CR_MEMORY;
    return col;
}

static void conv_note(job *j, cr_status st)
{
    if (st)
        j->failed = (int)st;
}

static cr_status conv_finish(const job *j)
{
    if (j->failed == CR_MEMORY)
        return cr_fail(CR_MEMORY, "not enough memory for a convolution");
    return (cr_status)j->failed;
}

static void add_bias(const job *j, char *to, int64_t channel, int64_t channels, int64_t n)
{
    for (int64_t i = 0; i < channels && j->bias; i++) {
        const char *bias = j->bias + (channel + i) * j->item;
        char *at = to + i * n * j->item;
#define DO(T, name) name##_add_bias((T *)(void *)at, *(const T *)(const void *)bias, n)
        EACH_TYPE(j->t, DO)
#undef DO
    }
}

static void to_y_range(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    char *col = j->direct ? NULL : columns_new(j);

    for (int64_t i = begin; i < end && !j->failed; i++) {
        int64_t group = i % j->c.groups;
        char *x = j->x + i * x_bytes(j), *y = j->y + i * y_bytes(j);
        cr_gemm g = cr_gemm_plain(j->t, j->c.oc, j->positions, j->rows);

        if (!j->direct)
            unfold(&j->c, j->t, x, col);
        g.a = (cr_matrix){j->w + group * w_bytes(j), j->rows, 1};
        g.b = (cr_matrix){j->direct ? x : col, j->positions, 1};
        g.c = (cr_matrix){y, j->positions, 1};
        conv_note(j, cr_gemm_run(&g));
        add_bias(j, y, group * j->c.oc, j->c.oc, j->positions);
    }
    cr_aligned_free(col);
}

static void to_x_range(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    int64_t image = cr_conv_volume(&j->c, j->c.in);
    char *col = j->direct ? NULL : columns_new(j);

    for (int64_t i = begin; i < end && !j->failed; i++) {
        int64_t group = i % j->c.groups;
        char *x = j->x + i * x_bytes(j), *y = j->y + i * y_bytes(j);
        cr_gemm g = cr_gemm_plain(j->t, j->rows, j->positions, j->c.oc);

        g.a = (cr_matrix){j->w + group * w_bytes(j), 1, j->rows};
        g.b = (cr_matrix){y, j->positions, 1};
        g.c = (cr_matrix){j->direct ? x : col, j->positions, 1};
        conv_note(j, cr_gemm_run(&g));
        if (!j->direct) {
            memset(x, 0, (size_t)x_bytes(j));
            conv_fold(&j->c, j->t, col, x);
        }
        add_bias(j, x, group * j->c.ic, j->c.ic, image);
    }
    cr_aligned_free(col);
}

/* Computes one group of w: adds the images in order. */
static void to_w_range(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    char *col = j->direct ? NULL : columns_new(j);

    for (int64_t group = begin; group < end && !j->failed; group++) {
        char *w = j->w + group * w_bytes(j);
        cr_gemm g = cr_gemm_plain(j->t, j->c.oc, j->rows, j->positions);

        memset(w, 0, (size_t)w_bytes(j));
        g.beta = cr_scalar_int(1);
        g.c = (cr_matrix){w, j->rows, 1};
        for (int64_t b = 0; b < j->c.batch && !j->failed; b++) {
            int64_t i = b * j->c.groups + group;
            char *x = j->x + i * x_bytes(j);
            if (!j->direct)
                unfold(&j->c, j->t, x, col);
            g.a = (cr_matrix){j->y + i * y_bytes(j), j->positions, 1};
            g.b = (cr_matrix){j->direct ? x : col, 1, j->positions};
            conv_note(j, cr_gemm_run(&g));
        }
    }
    cr_aligned_free(col);
}

/* Threads share the units of work when there are enough units; otherwise the threads share each
 * product. */
static cr_status conv_run(job *j, int64_t units, cr_range_fn fn)
{
    int64_t work = j->rows * j->positions * j->c.oc;

    if (units < cr_threads() && work > 1 << 20)
        fn(j, 0, units);
    else
        cr_parallel_for(units, 32768 / (work + 1) + 1, fn, j);
    return conv_finish(j);
}

/* --- half types without their own kernel: computed in float32 --- */

typedef struct {
    int64_t count;
    char *half;
    bool output;
    char *wide;
} wide_array;

static cr_status widen(wide_array *a, cr_dtype t)
{
    int64_t stride = 1;
    cr_view v = {
        .data = a->half, .size = &a->count, .stride = &stride, .ndim = 1, .dtype = (uint8_t)t};

    if (!a->half)
        return CR_OK;
    a->wide = cr_aligned_alloc((size_t)a->count * sizeof(float));
    CR_NEED(a->wide);
    if (!a->output)
        cr_pack(a->wide, CR_F32, &v);
    return CR_OK;
}

static void conv_narrow(wide_array *a, cr_dtype t, bool store)
{
    int64_t stride = 1;
    cr_view v = {
        .data = a->half, .size = &a->count, .stride = &stride, .ndim = 1, .dtype = (uint8_t)t};

    if (a->wide && a->output && store)
        cr_unpack(&v, a->wide, CR_F32);
    cr_aligned_free(a->wide);
}

static cr_status conv_widened(cr_conv_kind kind, const cr_conv *c, cr_dtype t, char *x, char *w,
                              char *bias, char *y)
{
    int64_t ys = c->groups * c->oc, xs = c->groups * c->ic;
    wide_array a[4] = {
        {c->batch * xs * cr_conv_volume(c, c->in), x, kind == CR_CONV_X, NULL},
        {ys * c->ic * cr_conv_volume(c, c->kernel), w, kind == CR_CONV_W, NULL},
        {kind == CR_CONV_X ? xs : ys, bias, false, NULL},
        {c->batch * ys * cr_conv_volume(c, c->out), y, kind == CR_CONV_Y, NULL},
    };
    cr_status st = CR_OK;

    for (int i = 0; i < 4 && !st; i++)
        st = widen(&a[i], t);
    if (!st)
        st = kind == CR_CONV_Y
                 ? cr_conv_to_y(c, CR_F32, a[0].wide, a[1].wide, a[2].wide, a[3].wide)
             : kind == CR_CONV_X
                 ? cr_conv_to_x(c, CR_F32, a[3].wide, a[1].wide, a[2].wide, a[0].wide)
                 : cr_conv_to_w(c, CR_F32, a[0].wide, a[3].wide, a[1].wide);
    for (int i = 0; i < 4; i++)
        conv_narrow(&a[i], t, !st);
    return st;
}

static bool conv_is_half(cr_dtype t) { return t == CR_F16 || t == CR_BF16; }

/* --- entry points --- */

cr_status cr_conv_to_y(const cr_conv *c, cr_dtype t, char *x, char *w, char *bias, char *y)
{
    job j = conv_start(c, t, x, w, bias, y);
    bool done = false;

    if (!c->batch || !j.c.oc || !j.positions)
        return CR_OK;
    if (c->ic)
        CR_TRY(cr_conv_dnnl(&done, CR_CONV_Y, c, t, x, w, bias, y));
    if (done)
        return CR_OK;
    if (conv_is_half(t))
        return conv_widened(CR_CONV_Y, c, t, x, w, bias, y);
    return conv_run(&j, c->batch * c->groups, to_y_range);
}

cr_status cr_conv_to_x(const cr_conv *c, cr_dtype t, char *y, char *w, char *bias, char *x)
{
    job j = conv_start(c, t, x, w, bias, y);
    bool done = false;

    if (!c->batch || !c->ic || !cr_conv_volume(c, c->in))
        return CR_OK;
    /* a bias of a half type is added before rounding */
    if (c->oc && j.positions && !(bias && conv_is_half(t)))
        CR_TRY(cr_conv_dnnl(&done, CR_CONV_X, c, t, x, w, NULL, y));
    if (!done)
        return conv_is_half(t) ? conv_widened(CR_CONV_X, c, t, x, w, bias, y)
                               : conv_run(&j, c->batch * c->groups, to_x_range);
    for (int64_t b = 0; b < c->batch && bias; b++)
        add_bias(&j, x + b * c->groups * x_bytes(&j), 0, c->groups * c->ic,
                 cr_conv_volume(c, c->in));
    return CR_OK;
}

cr_status cr_conv_to_w(const cr_conv *c, cr_dtype t, char *x, char *y, char *w)
{
    job j = conv_start(c, t, x, w, NULL, y);
    bool done = false;

    if (!c->groups || !c->oc || !j.rows)
        return CR_OK;
    if (c->batch && j.positions && cr_conv_volume(c, c->in))
        CR_TRY(cr_conv_dnnl(&done, CR_CONV_W, c, t, x, w, NULL, y));
    if (done)
        return CR_OK;
    if (conv_is_half(t))
        return conv_widened(CR_CONV_W, c, t, x, w, NULL, y);
    return conv_run(&j, c->groups, to_w_range);
}
