#include "kern/cpu/test_views.h"
#include "num/generator.h"

static cr_value seeded(cr_generator *g, uint64_t seed)
{
    OK(cr_generator_seed(g, seed));
    return (cr_value){.tag = CR_GENERATOR, .generator = g};
}

TEST(numbers_after_seed_zero_are_torchs)
{
    cr_generator *g = NULL;
    float x[20];
    int64_t order[10];

    OK(cr_generator_new(&g, 0));
    OK(cr_kern_randn(ARGS(cr_of_none(), seeded(g, 0)), VIEW(x, CR_F32, 3)));
    SAME_FLOATS(x, 1.5409961, -0.2934289, -2.1787894);
    OK(cr_kern_randn(ARGS(cr_of_none(), seeded(g, 0)), VIEW(x, CR_F32, 16)));
    NEAR(x[0], -1.1258398, 1e-6); /* 16 or more numbers are drawn in blocks */
    NEAR(x[1], -1.1523602, 1e-6);
    OK(cr_kern_rand(ARGS(cr_of_none(), seeded(g, 0)), VIEW(x, CR_F32, 2)));
    SAME_FLOATS(x, 0.4962566, 0.7682218);
    OK(cr_kern_randperm(ARGS(cr_of_int(10), seeded(g, 0)), VIEW(order, CR_I64, 10)));
    SAME_INTS(order, 4, 1, 7, 5, 3, 9, 0, 8, 6, 2);
    cr_generator_drop(g);
}

TEST(numbers_are_drawn_in_memory_order)
{
    cr_generator *g = NULL;
    float a[6], b[6];

    OK(cr_generator_new(&g, 0));
    OK(cr_kern_rand(ARGS(cr_of_none(), seeded(g, 1)), VIEW(a, CR_F32, 2, 3)));
    OK(cr_kern_rand(ARGS(cr_of_none(), seeded(g, 1)),
                    test_turned(VIEW(b, CR_F32, 2, 3), 0, 1)));
    EQ(memcmp(a, b, sizeof a), 0);
    cr_generator_drop(g);
}

TEST(ranges_are_checked_against_the_dtype)
{
    uint8_t x[2];
    cr_view *v = VIEW(x, CR_U8, 2);

    FAILS(CR_RUNTIME,
          cr_kern_random_from(ARGS(of_view(v), cr_of_int(0), cr_of_int(300), cr_of_none()), v));
    EQ_STR(cr_error_message(), "to - 1 is out of bounds for unsigned char");
    FAILS(CR_RUNTIME,
          cr_kern_random_from(ARGS(of_view(v), cr_of_int(5), cr_of_int(2), cr_of_none()), v));
    EQ_STR(cr_error_message(),
           "random_ expects 'from' to be less than 'to', but got from=5 >= to=2");
}

TEST(a_counted_mask_can_be_made_again)
{
    enum { N = 1001 };
    float x[N], a[N], b[N];
    uint8_t kept[N], again[N];
    cr_view first[2] = {*VIEW(a, CR_F32, N), *VIEW(kept, CR_BOOL, N)};
    cr_view second[2] = {*VIEW(b, CR_F32, N), *VIEW(again, CR_BOOL, N)};
    cr_value self = of_view(VIEW(x, CR_F32, N));
    cr_value half = cr_of_float(0.5), seed = cr_of_int(42), offset = cr_of_int(7);

    for (int i = 0; i < N; i++)
        x[i] = 1;
    OK(cr_kern_philox_dropout(ARGS(self, half, seed, offset), first));
    OK(cr_kern_philox_dropout(ARGS(self, half, seed, offset), second));
    EQ(memcmp(kept, again, N), 0);
    EQ(memcmp(a, b, sizeof a), 0);
    for (int i = 0; i < N; i++)
        CHECK(a[i] == (kept[i] ? 2.0f : 0.0f));
}

TEST(a_dropout_mask_has_the_draws_of_bernoulli)
{
    enum { N = 1001 };
    float x[N];
    uint8_t kept[N];
    cr_value self = of_view(VIEW(x, CR_F32, N)), p = cr_of_float(0.3);

    OK(cr_generator_seed(cr_generator_default(), 5));
    OK(cr_kern_bernoulli_float(ARGS(self, p, cr_of_none()), VIEW(x, CR_F32, N)));
    OK(cr_generator_seed(cr_generator_default(), 5));
    OK(cr_kern_dropout_mask(ARGS(self, p), VIEW(kept, CR_BOOL, N)));
    for (int i = 0; i < N; i++)
        EQ(kept[i], (uint8_t)x[i]);
}

TEST(a_mask_is_drawn_in_the_order_of_the_inputs_memory)
{
    float x[6] = {0};
    uint8_t rows[6], columns[6];
    cr_view turned = *VIEW(x, CR_F32, 3, 2);
    int64_t stride[] = {1, 3};
    turned.stride = stride;

    OK(cr_generator_seed(cr_generator_default(), 5));
    OK(cr_kern_dropout_mask(ARGS(of_view(VIEW(x, CR_F32, 2, 3)), cr_of_float(0.5)),
                            VIEW(rows, CR_BOOL, 2, 3)));
    OK(cr_generator_seed(cr_generator_default(), 5));
    OK(cr_kern_dropout_mask(ARGS(of_view(&turned), cr_of_float(0.5)),
                            VIEW(columns, CR_BOOL, 3, 2)));
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            EQ(columns[i * 2 + j], rows[j * 3 + i]);
}

TEST(categories_without_weight_are_not_drawn)
{
    float w[] = {0, 3, 0, 1}, none[] = {0, 0};
    int64_t out[50];

    OK(cr_kern_multinomial(
        ARGS(of_view(VIEW(w, CR_F32, 4)), cr_of_int(50), cr_of_bool(true), cr_of_none()),
        VIEW(out, CR_I64, 50)));
    for (int i = 0; i < 50; i++)
        CHECK(out[i] == 1 || out[i] == 3);
    FAILS(CR_RUNTIME, cr_kern_multinomial(ARGS(of_view(VIEW(none, CR_F32, 2)), cr_of_int(1),
                                               cr_of_bool(false), cr_of_none()),
                                          VIEW(out, CR_I64, 1)));
    EQ_STR(cr_error_message(), "invalid multinomial distribution (sum of probabilities <= 0)");
}
