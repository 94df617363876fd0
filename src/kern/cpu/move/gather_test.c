#include "base/memory.h"
#include "base/parallel.h"
#include "kern/cpu/test_views.h"

/* Sums whose bits depend on their order. */
static void sum_rows(float *out, const float *x, const int64_t *index, int threads)
{
    float zero[3 * 1000] = {0};

    OK(cr_set_threads(threads));
    OK(test_add_at(VIEW(out, CR_F32, 3, 1000), VIEW(zero, CR_F32, 3, 1000),
                   VIEW((void *)(uintptr_t)index, CR_I64, 200),
                   VIEW((void *)(uintptr_t)x, CR_F32, 200, 1000)));
}

TEST(sums_by_index_have_the_same_bits_for_any_number_of_threads)
{
    float *x = cr_alloc(200 * 1000 * sizeof *x), *one = cr_alloc(3000 * sizeof *one);
    float *two = cr_alloc(3000 * sizeof *two);
    int64_t index[200];

    for (int i = 0; i < 200 * 1000; i++)
        x[i] = 1.0f / (float)(1 + i % 977);
    for (int i = 0; i < 200; i++)
        index[i] = i * 7 % 3;
    sum_rows(one, x, index, 1);
    sum_rows(two, x, index, 4);
    EQ(memcmp(one, two, 3000 * sizeof *one), 0);
    cr_free(x);
    cr_free(one);
    cr_free(two);
}
