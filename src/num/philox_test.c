#include "base/test.h"
#include "num/philox.h"

/* Known answers from the method's authors.  Of these, this interface can express only the one
 * with an all-zero key and counter. */
TEST(zero_key_and_counter_give_the_published_words)
{
    uint32_t w[4];

    cr_philox(0, 0, w);
    EQ(w[0], 0x6627e8d5u);
    EQ(w[1], 0xe169c58du);
    EQ(w[2], 0xbc57ac4cu);
    EQ(w[3], 0x9b00dbd8u);
}

TEST(a_word_depends_on_its_number_alone)
{
    uint32_t w[4];

    cr_philox(7, 105, w);
    for (uint32_t i = 0; i < 4; i++)
        EQ(cr_philox_word(7, 100, 20 + i), w[i]);
}

TEST(floats_are_below_one)
{
    CHECK(cr_philox_float(0xffffffffu) < 1.0f);
    CHECK(cr_philox_float(0) == 0.0f);
}
