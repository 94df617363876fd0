/* Products against the definition, for every dtype, layout and size class. */
#include "base/parallel.h"
#include "base/test.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/product/matmul.h"
#include <math.h>
#include <stdlib.h>

/* Small integers, so that every dtype holds the products exactly. */
static cr_scalar value_at(int64_t i) { return cr_scalar_int((i * 7 + 3) % 5); }

/* An owned rows x cols matrix; `turned` stores it column by column. */
typedef struct {
    char *bytes;
    int64_t size[2], stride[2];
    cr_view view;
} matrix;

static void make(matrix *m, cr_dtype t, int64_t rows, int64_t cols, bool turned, int64_t gap)
{
    int64_t step = turned ? rows + gap : cols + gap;
    size_t item = cr_dtype_size(t);

    m->bytes = cr_alloc_zero((size_t)((turned ? cols : rows) * step + 1) * item);
    m->size[0] = rows, m->size[1] = cols;
    m->stride[0] = turned ? 1 : step, m->stride[1] = turned ? step : 1;
    m->view = (cr_view){
        .data = m->bytes, .size = m->size, .stride = m->stride, .ndim = 2, .dtype = (uint8_t)t};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            cr_scalar_store(value_at(i * cols + j), t,
                            m->bytes + (size_t)(i * m->stride[0] + j * m->stride[1]) * item);
}

static double at(const matrix *m, int64_t i, int64_t j)
{
    size_t item = cr_dtype_size((cr_dtype)m->view.dtype);
    const char *p = m->bytes + (size_t)(i * m->stride[0] + j * m->stride[1]) * item;

    return cr_scalar_as_complex(cr_scalar_load((cr_dtype)m->view.dtype, p)).re;
}

/* The greatest difference from the definition, over at most some hundred elements. */
static double wrongness(const matrix *a, const matrix *b, const matrix *c)
{
    double worst = 0;

    for (int64_t i = 0; i < c->size[0]; i += 1 + c->size[0] / 9)
        for (int64_t j = 0; j < c->size[1]; j += 1 + c->size[1] / 9) {
            double want = 0;
            for (int64_t p = 0; p < a->size[1]; p++)
                want += at(a, i, p) * at(b, p, j);
            worst = fmax(worst, fabs(at(c, i, j) - want) / fmax(1, fabs(want)));
        }
    return worst;
}

static double product_wrongness(cr_dtype t, int64_t m, int64_t n, int64_t k, int turned)
{
    matrix a, b, c;
    double worst;
    cr_value arg[2] = {{.tag = CR_VIEW}, {.tag = CR_VIEW}};

    make(&a, t, m, k, turned & 1, turned & 4 ? 3 : 0);
    make(&b, t, k, n, turned & 2, turned & 4 ? 5 : 0);
    make(&c, t, m, n, false, 0);
    arg[0].view = &a.view, arg[1].view = &b.view;
    OK(cr_kern_mm(arg, &c.view));
    worst = wrongness(&a, &b, &c);
    cr_free(a.bytes), cr_free(b.bytes), cr_free(c.bytes);
    return worst;
}

TEST(mm_agrees_with_the_definition_in_every_dtype_and_layout)
{
    static const int64_t size[][3] = {{1, 1, 1},   {4, 2, 8},   {3, 17, 5},    {33, 40, 29},
                                      {1, 70, 90}, {90, 1, 70}, {130, 70, 300}};

    for (int t = CR_U8; t < CR_DTYPE_KERNELS; t++)
        for (size_t s = 0; s < CR_LEN(size); s++)
            for (int turned = 0; turned < 8; turned++) {
                double w;
                if (t <= CR_I8 && size[s][2] > 5)
                    continue; /* the sums would wrap */
                w = product_wrongness((cr_dtype)t, size[s][0], size[s][1], size[s][2], turned);
                NEAR(w, 0, t == CR_BF16 ? 8e-3 : t == CR_F16 ? 1e-3 : 1e-6);
            }
}

TEST(an_empty_inner_dimension_gives_zeros)
{
    matrix a, b, c;
    cr_value arg[2] = {{.tag = CR_VIEW}, {.tag = CR_VIEW}};

    make(&a, CR_F32, 2, 0, false, 0);
    make(&b, CR_F32, 0, 3, false, 0);
    make(&c, CR_F32, 2, 3, false, 0);
    arg[0].view = &a.view, arg[1].view = &b.view;
    OK(cr_kern_mm(arg, &c.view));
    for (int i = 0; i < 6; i++)
        NEAR(at(&c, i / 3, i % 3), 0, 0);
    cr_free(a.bytes), cr_free(b.bytes), cr_free(c.bytes);
}

TEST(addmm_scales_both_terms_and_ignores_the_first_when_its_factor_is_zero)
{
    matrix self, a, b, c;
    cr_value arg[5] = {{.tag = CR_VIEW}, {.tag = CR_VIEW}, {.tag = CR_VIEW}};

    for (int t = CR_I16; t < CR_DTYPE_KERNELS; t++) {
        make(&self, (cr_dtype)t, 1, 30, false, 0);
        make(&a, (cr_dtype)t, 20, 10, false, 0);
        make(&b, (cr_dtype)t, 10, 30, false, 0);
        make(&c, (cr_dtype)t, 20, 30, false, 0);
        arg[0].view = &self.view, arg[1].view = &a.view, arg[2].view = &b.view;
        for (int beta = 0; beta < 3; beta++) {
            double want = beta * at(&self, 0, 4);
            arg[3] = cr_of_number(cr_scalar_int(beta));
            arg[4] = cr_of_number(cr_scalar_int(2));
            OK(cr_kern_addmm(arg, &c.view));
            for (int p = 0; p < 10; p++)
                want += 2 * at(&a, 7, p) * at(&b, p, 4);
            NEAR(at(&c, 7, 4), want, want * (t == CR_BF16 ? 8e-3 : 1e-3));
        }
        cr_free(self.bytes), cr_free(a.bytes), cr_free(b.bytes), cr_free(c.bytes);
    }
}

/* Random data: exact sums would hide a change of order. */
static void randomize(matrix *m)
{
    for (int64_t i = 0; i < m->size[0] * m->size[1]; i++)
        cr_scalar_store(cr_scalar_float((double)rand() / RAND_MAX - 0.5),
                        (cr_dtype)m->view.dtype,
                        m->bytes + (size_t)i * cr_dtype_size((cr_dtype)m->view.dtype));
}

/* Whether the bias is what c holds before a product with beta 1. */
static bool bias_is_added(cr_dtype t, int64_t m, int64_t n, int64_t k, double alpha)
{
    size_t item = cr_dtype_size(t);
    matrix a, b, c, d, bias;
    cr_gemm g = cr_gemm_plain(t, m, n, k), filled;

    make(&a, t, m, k, false, 0);
    make(&b, t, k, n, true, 0);
    make(&c, t, m, n, false, 3);
    make(&d, t, m, n, false, 3);
    make(&bias, t, 1, n, false, 0);
    randomize(&a), randomize(&b), randomize(&bias);
    g.a = (cr_matrix){a.bytes, k, 1}, g.b = (cr_matrix){b.bytes, 1, k};
    g.c = (cr_matrix){c.bytes, n + 3, 1}, g.alpha = cr_scalar_float(alpha);
    filled = g, filled.beta = cr_scalar_int(1), filled.c.data = d.bytes;
    for (int64_t i = 0; i < m; i++)
        memcpy(d.bytes + (size_t)(i * (n + 3)) * item, bias.bytes, (size_t)n * item);
    g.bias = bias.bytes;
    OK(cr_gemm_run(&g));
    OK(cr_gemm_run(&filled));
    bool same = !memcmp(c.bytes, d.bytes, (size_t)(m * (n + 3)) * item);
    cr_free(a.bytes), cr_free(b.bytes), cr_free(c.bytes), cr_free(d.bytes), cr_free(bias.bytes);
    return same;
}

TEST(a_bias_is_added_to_every_row_of_a_product)
{
    static const cr_dtype types[] = {CR_F32, CR_F64, CR_BF16, CR_I64};
    static const int64_t size[][3] = {{4, 3, 2},      {1, 70, 90},    {90, 1, 70},
                                      {5, 40, 200},   {130, 70, 256}, {50, 49, 300},
                                      {9, 33, 17000}, {3, 5, 0}};

    for (size_t t = 0; t < CR_LEN(types); t++)
        for (size_t s = 0; s < CR_LEN(size); s++)
            for (int alpha = 1; alpha < 3; alpha++) {
                cr_test_compared();
                if (!bias_is_added(types[t], size[s][0], size[s][1], size[s][2], alpha))
                    cr_test_failed(__FILE__, __LINE__, "%s, size %zu", cr_dtype_name(types[t]),
                                   s);
            }
}

static bool same_bits_for_threads(cr_dtype t, int64_t m, int64_t n, int64_t k, bool turned)
{
    matrix a, b, c, d;
    cr_value arg[2] = {{.tag = CR_VIEW}, {.tag = CR_VIEW}};
    bool same = true;

    make(&a, t, m, k, false, 0);
    make(&b, t, k, n, turned, 0);
    make(&c, t, m, n, false, 0);
    make(&d, t, m, n, false, 0);
    randomize(&a);
    randomize(&b);
    arg[0].view = &a.view, arg[1].view = &b.view;
    OK(cr_set_threads(1));
    OK(cr_kern_mm(arg, &c.view));
    for (int threads = 2; threads < 5; threads++) {
        OK(cr_set_threads(threads));
        OK(cr_kern_mm(arg, &d.view));
        same = same && !memcmp(c.bytes, d.bytes, (size_t)(m * n) * cr_dtype_size(t));
    }
    OK(cr_set_threads(1));
    cr_free(a.bytes), cr_free(b.bytes), cr_free(c.bytes), cr_free(d.bytes);
    return same;
}

TEST(products_have_the_same_bits_for_any_number_of_threads)
{
    static const cr_dtype types[] = {CR_F32, CR_F64, CR_C64, CR_I64};
    static const int64_t size[][3] = {
        {64, 10, 784},  {1, 1003, 512}, {1000, 1, 700}, {256, 256, 256}, {100, 33, 77},
        {10, 784, 64},  {16, 16, 9000}, {7, 5, 20000},  {500, 300, 30},  {128, 300, 768},
        {1, 1, 100000}, {3, 2048, 300}, {3, 2, 50000},  {12, 3, 40000},  {1, 40, 33000}};

    for (size_t t = 0; t < CR_LEN(types); t++)
        for (size_t s = 0; s < CR_LEN(size); s++)
            for (int turned = 0; turned < 2; turned++) {
                cr_test_compared();
                if (!same_bits_for_threads(types[t], size[s][0], size[s][1], size[s][2],
                                           turned))
                    cr_test_failed(__FILE__, __LINE__, "%s, size %zu, turned %d",
                                   cr_dtype_name(types[t]), s, turned);
            }
}
