#include "base/test.h"
#include "num/generator.h"

TEST(words_equal_the_published_twisters)
{
    cr_mt19937 mt;

    cr_mt_seed(&mt, 5489);
    for (int i = 0; i < 9999; i++)
        cr_mt_next(&mt);
    EQ(cr_mt_next(&mt), 4123659995u); /* the C++ standard's check value */
}

TEST(a_block_of_words_equals_single_words)
{
    static uint32_t word[2000];
    cr_mt19937 one, many;
    int at = 0;

    cr_mt_seed(&one, 7);
    cr_mt_seed(&many, 7);
    for (int n = 0; at + n <= 2000; at += n, n = n * 2 + 1)
        cr_mt_fill(&many, word + at, n);
    for (int i = 0; i < at; i++)
        EQ(word[i], cr_mt_next(&one));
    EQ(cr_mt_next(&many), cr_mt_next(&one));
    EQ(one.left, many.left);
    EQ(one.next, many.next);
}

TEST(normal_numbers_after_seed_zero_equal_torchs)
{
    cr_generator *g = NULL;

    OK(cr_generator_new(&g, 0));
    NEAR(cr_generator_normal(g), 1.5409961, 1e-6);
    NEAR(cr_generator_normal(g), -0.2934289, 1e-6);
    NEAR(cr_generator_normal(g), -2.1787894, 1e-6);
    cr_generator_drop(g);
}

TEST(a_saved_state_resumes_the_stream_in_the_middle_of_a_pair)
{
    cr_generator *g = NULL;
    char state[CR_GENERATOR_STATE_BYTES];
    double a, b;

    OK(cr_generator_new(&g, 42));
    (void)cr_generator_normal(g);
    cr_generator_get_state(g, state);
    a = cr_generator_normal(g);
    b = cr_generator_normal(g);
    OK(cr_generator_set_state(g, state, sizeof state));
    CHECK(cr_generator_normal(g) == a);
    CHECK(cr_generator_normal(g) == b);
    EQ(cr_generator_initial_seed(g), 42);
    cr_generator_drop(g);
}

TEST(a_state_that_would_read_outside_the_twister_is_refused)
{
    cr_generator *g = NULL;
    char state[CR_GENERATOR_STATE_BYTES];
    uint64_t far = 700;

    OK(cr_generator_new(&g, 1));
    cr_generator_get_state(g, state);
    FAILS(CR_RUNTIME, cr_generator_set_state(g, state, 100));
    memcpy(state + 16, &far, sizeof far);
    FAILS(CR_RUNTIME, cr_generator_set_state(g, state, sizeof state));
    EQ(cr_generator_initial_seed(g), 1);
    cr_generator_drop(g);
}

TEST(reservations_follow_each_other_and_restart_with_the_seed)
{
    cr_generator *g = NULL;
    uint64_t seed, offset;

    OK(cr_generator_new(&g, 9));
    cr_generator_reserve(g, 10, &seed, &offset);
    EQ(seed, 9);
    EQ(offset, 0);
    cr_generator_reserve(g, 1, &seed, &offset);
    EQ(offset, 10);
    OK(cr_generator_seed(g, 9));
    cr_generator_philox(g, &seed, &offset);
    EQ(offset, 0);
    cr_generator_drop(g);
}

TEST(a_clone_gives_the_same_numbers_independently)
{
    cr_generator *g = NULL, *h = NULL;
    double a;

    OK(cr_generator_new(&g, 3));
    (void)cr_generator_normal(g);
    OK(cr_generator_clone(&h, g));
    a = cr_generator_normal(g);
    CHECK(cr_generator_normal(h) == a);
    cr_generator_drop(g);
    cr_generator_drop(h);
}
