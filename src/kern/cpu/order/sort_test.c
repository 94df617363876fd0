#include "base/memory.h"
#include "kern/cpu/test_views.h"
#include <math.h>

TEST(nan_is_largest_and_the_zeros_are_equal)
{
    float x[] = {0.0f, NAN, -1, -0.0f, INFINITY}, value[5];
    int64_t index[5];
    cr_view out[2] = {*VIEW(value, CR_F32, 5), *VIEW(index, CR_I64, 5)};
    cr_value self = of_view(VIEW(x, CR_F32, 5));

    OK(cr_kern_sort_stable(ARGS(self, cr_of_bool(true), cr_of_int(0), cr_of_bool(false)), out));
    SAME_INTS(index, 2, 0, 3, 4, 1);
    OK(cr_kern_sort_stable(ARGS(self, cr_of_bool(true), cr_of_int(0), cr_of_bool(true)), out));
    SAME_INTS(index, 1, 4, 0, 3, 2);
}

/* Every n that changes the method, in every width of key. */
static void check_stable(cr_dtype t, int64_t n)
{
    int64_t item = (int64_t)cr_dtype_size(t);
    char *x = cr_alloc((size_t)(n * item)), *value = cr_alloc((size_t)(n * item));
    int64_t *index = cr_alloc((size_t)n * sizeof *index), last = -1000;
    cr_view out[2] = {*VIEW(value, t, n), *VIEW(index, CR_I64, n)};

    for (int64_t i = 0; i < n; i++)
        cr_scalar_store(cr_scalar_int(i * 37 % 101 - 50), t, x + i * item);
    OK(cr_kern_sort_stable(
        ARGS(of_view(VIEW(x, t, n)), cr_of_bool(true), cr_of_int(0), cr_of_bool(false)), out));
    for (int64_t i = 0; i < n; i++) {
        int64_t now = cr_scalar_as_int(cr_scalar_load(t, value + i * item));
        CHECK(now >= last && now == index[i] * 37 % 101 - 50);
        CHECK(i == 0 || now > last || index[i] > index[i - 1]);
        last = now;
    }
    cr_free(x);
    cr_free(value);
    cr_free(index);
}

TEST(a_stable_sort_keeps_equal_elements_in_order)
{
    static const cr_dtype types[] = {CR_I8,  CR_I16,  CR_I32, CR_I64,
                                     CR_F16, CR_BF16, CR_F32, CR_F64};
    static const int64_t sizes[] = {1, 2, 16, 17, 100, 767, 768, 5000};

    for (size_t t = 0; t < CR_LEN(types); t++)
        for (size_t s = 0; s < CR_LEN(sizes); s++)
            check_stable(types[t], sizes[s]);
}

TEST(topk_gives_the_largest_in_order)
{
    int64_t x[] = {3, 9, -1, 9, 4}, value[3], index[3];
    cr_view out[2] = {*VIEW(value, CR_I64, 3), *VIEW(index, CR_I64, 3)};

    OK(cr_kern_topk(ARGS(of_view(VIEW(x, CR_I64, 5)), cr_of_int(3), cr_of_int(-1),
                         cr_of_bool(true), cr_of_bool(true)),
                    out));
    SAME_INTS(value, 9, 9, 4);
    EQ(index[0] + index[1], 4);
    EQ(index[2], 4);
}

TEST(the_median_of_an_even_count_is_the_lower_one)
{
    double x[] = {4, 1, 3, 2, 8, 8, 8, (double)NAN}, value[2];
    int64_t index[2];
    cr_view out[2] = {*VIEW(value, CR_F64, 2), *VIEW(index, CR_I64, 2)};
    cr_value args[] = {of_view(VIEW(x, CR_F64, 2, 4)), cr_of_int(1), cr_of_bool(false)};

    OK(cr_kern_median_dim(args, out));
    CHECK(value[0] == 2 && index[0] == 3);
    CHECK(value[1] != value[1] && index[1] == 3);
    OK(cr_kern_nanmedian_dim(args, out));
    CHECK(value[1] == 8);
}

TEST(the_mode_is_the_smallest_of_the_most_frequent)
{
    int32_t x[] = {5, 2, 5, 2, 9}, value;
    int64_t index;
    cr_view out[2] = {*SCALAR_VIEW(&value, CR_I32), *SCALAR_VIEW(&index, CR_I64)};

    OK(cr_kern_mode(ARGS(of_view(VIEW(x, CR_I32, 5)), cr_of_int(0), cr_of_bool(false)), out));
    EQ(value, 2);
    EQ(index, 3);
}

TEST(lines_of_any_dim_are_sorted)
{
    float x[] = {3, 1, 2, 0}, value[4];
    int64_t index[4];
    cr_view out[2] = {*VIEW(value, CR_F32, 2, 2), *VIEW(index, CR_I64, 2, 2)};

    OK(cr_kern_sort(ARGS(of_view(VIEW(x, CR_F32, 2, 2)), cr_of_int(0), cr_of_bool(false)),
                    out));
    SAME_FLOATS(value, 2, 0, 3, 1);
    SAME_INTS(index, 1, 1, 0, 0);
}

TEST(running_logarithms_survive_infinities)
{
    double x[] = {-(double)INFINITY, 1000, 1000}, out[3];

    OK(cr_kern_logcumsumexp(ARGS(of_view(VIEW(x, CR_F64, 3)), cr_of_int(0)),
                            VIEW(out, CR_F64, 3)));
    CHECK(out[0] == -(double)INFINITY);
    NEAR(out[1], 1000, 0);
    NEAR(out[2], 1000.6931471805599, 1e-9);
}

TEST(searches_tell_both_sides_of_equal_boundaries)
{
    float row[] = {1, 3, 3, 5}, x[] = {3, 0, 9};
    int64_t left[3], right[3];
    cr_value r = of_view(VIEW(row, CR_F32, 4)), v = of_view(VIEW(x, CR_F32, 3));

    OK(cr_kern_bucketize(ARGS(v, r, cr_of_bool(false), cr_of_bool(false)),
                         VIEW(left, CR_I64, 3)));
    OK(cr_kern_bucketize(ARGS(v, r, cr_of_bool(false), cr_of_bool(true)),
                         VIEW(right, CR_I64, 3)));
    SAME_INTS(left, 1, 0, 4);
    SAME_INTS(right, 3, 0, 4);
}
