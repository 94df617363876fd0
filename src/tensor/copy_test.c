/* Copies compared with one element at a time, over random sizes, strides and dtypes. */
#include "base/memory.h"
#include "base/test.h"
#include "num/convert.h"
#include "tensor/geometry.h"
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 12345;
static int64_t pick(int64_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int64_t)(seed >> 8) % n;
}

/* A view of random layout over fresh bytes: a permutation of a dense block with gaps. */
typedef struct {
    cr_view view;
    int64_t size[8], stride[8];
    char *bytes;
    size_t len;
} sample;

static void lay_out(sample *s, cr_dtype dtype, int ndim, const int64_t *size, bool gaps)
{
    int order[8];
    int64_t step = 1;

    for (int i = 0; i < ndim; i++) {
        int at = (int)pick(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < ndim; i++) {
        int d = order[i];
        s->size[d] = size[d];
        s->stride[d] = step;
        step *= size[d] * (gaps ? 1 + pick(2) : 1);
    }
    s->len = (size_t)(step ? step : 1) * cr_dtype_size(dtype);
    s->bytes = cr_alloc(s->len);
    for (size_t i = 0; i < s->len; i += cr_dtype_size(dtype))
        cr_scalar_store(cr_scalar_float((double)pick(1000) / 8 - 60), dtype, s->bytes + i);
    s->view =
        (cr_view){s->bytes, s->size, s->stride, (uint8_t)ndim, (uint8_t)dtype, CR_HOST, false};
}

static char *element(const cr_view *v, const int64_t *index, int shift)
{
    int64_t at = 0;

    for (int i = 0; i < v->ndim; i++)
        at += (v->size[i] == 1 ? 0 : index[i + shift]) * v->stride[i];
    return v->data + at * (int64_t)cr_dtype_size(v->dtype);
}

/* The expected element of the destination. */
static void expect(const cr_view *from, cr_dtype to, const int64_t *index, int shift, char *out)
{
    cr_scalar_store(cr_scalar_load(from->dtype, element(from, index, shift)), to, out);
}

static int wrong_elements(const cr_view *to, const cr_view *from)
{
    int64_t n = cr_numel(to->ndim, to->size), index[8];
    int wrong = 0;

    for (int64_t i = 0; i < n; i++) {
        char want[16];
        int64_t rest = i;
        for (int d = to->ndim - 1; d >= 0; d--) {
            index[d] = rest % to->size[d];
            rest /= to->size[d];
        }
        expect(from, to->dtype, index, to->ndim - from->ndim, want);
        wrong += memcmp(want, element(to, index, 0), cr_dtype_size(to->dtype)) != 0;
    }
    return wrong;
}

static void one_copy(int most)
{
    int64_t size[8], from_size[8];
    int ndim = (int)pick(6), shift = ndim ? (int)pick(3) == 0 ? (int)pick(ndim + 1) : 0 : 0;
    sample to, from;

    for (int i = 0; i < ndim; i++)
        size[i] = pick(10) == 0 ? 1 : 1 + pick(most);
    for (int i = shift; i < ndim; i++)
        from_size[i - shift] = pick(6) ? size[i] : 1;
    cr_dtype to_type = (cr_dtype)pick(CR_DTYPE_COUNT);
    cr_dtype from_type = pick(2) ? to_type : (cr_dtype)pick(CR_DTYPE_COUNT);
    lay_out(&to, to_type, ndim, size, pick(2));
    lay_out(&from, from_type, ndim - shift, from_size, pick(2));
    OK(cr_copy_elements(&to.view, &from.view));
    EQ(wrong_elements(&to.view, &from.view), 0);
    cr_free(to.bytes);
    cr_free(from.bytes);
}

TEST(any_layout_and_dtype_copies_like_single_elements)
{
    for (int i = 0; i < 3000; i++)
        one_copy(7);
    for (int i = 0; i < 200; i++)
        one_copy(i % 2 ? 12 : 20);
}

TEST(large_transposes_are_right)
{
    int64_t size[2] = {301, 277};

    for (int t = 0; t < CR_DTYPE_COUNT; t++) {
        sample to, from;
        lay_out(&to, (cr_dtype)t, 2, size, false);
        lay_out(&from, CR_F32, 2, size, false);
        to.stride[0] = 277;
        to.stride[1] = 1;
        from.stride[0] = 1;
        from.stride[1] = 301;
        OK(cr_copy_elements(&to.view, &from.view));
        EQ(wrong_elements(&to.view, &from.view), 0);
        cr_free(to.bytes);
        cr_free(from.bytes);
    }
}

TEST(overlapping_views_copy_as_if_the_source_came_first)
{
    float row[1000];
    int64_t size = 900, step = 1;
    cr_view to = {(char *)(row + 50), &size, &step, 1, CR_F32, CR_HOST, false};
    cr_view from = {(char *)row, &size, &step, 1, CR_F32, CR_HOST, false};

    for (int i = 0; i < 1000; i++)
        row[i] = (float)i;
    OK(cr_copy_elements(&to, &from));
    for (int i = 0; i < 900; i++)
        EQ(row[50 + i], i);
    int64_t square[2] = {30, 30}, across[2] = {30, 1}, down[2] = {1, 30};
    for (int i = 0; i < 900; i++)
        row[i] = (float)i;
    cr_view a = {(char *)row, square, across, 2, CR_F32, CR_HOST, false};
    cr_view b = {(char *)row, square, down, 2, CR_F32, CR_HOST, false};
    OK(cr_copy_elements(&a, &b));
    for (int i = 0; i < 900; i++)
        EQ(row[i], i % 30 * 30 + i / 30);
}

TEST(fills_reach_every_element_and_no_other)
{
    for (int round = 0; round < 300; round++) {
        int64_t size[3] = {1 + pick(9), 1 + pick(9), 1 + pick(9)}, zero[1] = {0};
        cr_dtype dtype = (cr_dtype)pick(CR_DTYPE_COUNT);
        cr_scalar value = cr_scalar_float(pick(2) ? 0 : 3);
        char want[16];
        sample s;
        lay_out(&s, dtype, 3, size, pick(2));
        OK(cr_fill_elements(&s.view, value));
        cr_scalar_store(value, dtype, want);
        cr_view one = {want, zero, zero, 0, (uint8_t)dtype, CR_HOST, false};
        EQ(wrong_elements(&s.view, &one), 0);
        cr_free(s.bytes);
    }
}

TEST(every_half_goes_to_float_and_back)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i, back;
        float f, g;
        cr_convert_row(CR_F32, CR_F16)(&f, 4, &h, 2, 1);
        g = cr_half_to_float(h);
        EQ(memcmp(&f, &g, 4), 0);
        cr_convert_row(CR_F16, CR_F32)(&back, 2, &f, 4, 1);
        EQ(back, cr_float_to_half(f));
    }
}

TEST(floats_round_to_halves_as_single_numbers_do)
{
    uint16_t h = 0, b = 0, half = 0, bfloat = 0;

    for (uint32_t i = 0; i < 4000000 && h == half && b == bfloat; i++) {
        uint32_t bits = i * 1073u;
        float f;
        memcpy(&f, &bits, 4);
        cr_convert_row(CR_F16, CR_F32)(&h, 2, &f, 4, 1);
        cr_convert_row(CR_BF16, CR_F32)(&b, 2, &f, 4, 1);
        half = cr_float_to_half(f);
        bfloat = cr_float_to_bfloat(f);
    }
    EQ(h, half);
    EQ(b, bfloat);
}

TEST(numbers_that_do_not_fit_wrap_as_torch_wraps_them)
{
    float f[4] = {3e9f, -1.0f, 300.0f, 1e20f};
    uint8_t u[4];
    int8_t s[4];
    int64_t l[4];

    cr_convert_row(CR_U8, CR_F32)(u, 1, f, 4, 4);
    EQ(u[0], 0);
    EQ(u[1], 255);
    EQ(u[2], 44);
    EQ(u[3], 0);
    cr_convert_row(CR_I8, CR_F32)(s, 1, f, 4, 4);
    EQ(s[1], -1);
    EQ(s[2], 44);
    cr_convert_row(CR_I64, CR_F32)(l, 8, f, 4, 4);
    EQ(l[3], INT64_MIN);
}
