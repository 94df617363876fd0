#include "base/map.h"
#include "base/test.h"
#include <stdio.h>

static void *number(int i) { return (void *)(uintptr_t)(i + 1); }

/* "0123456789...": shorter keys are prefixes of longer keys. */
static const char *const digits = "0123456789abcdefghijklmnop";

TEST(keys_of_every_length_are_distinct)
{
    cr_map m = {0};

    for (int len = 0; len <= 20; len++)
        OK(cr_map_set(&m, digits, (size_t)len, number(len)));
    EQ(m.len, 21);
    for (int len = 0; len <= 20; len++)
        EQ(cr_map_get(&m, digits, (size_t)len), number(len));
    EQ(cr_map_get(&m, digits, 21), NULL);
    EQ(cr_map_get(&m, digits + 1, 8), NULL);
    cr_map_drop(&m);
    EQ(cr_map_get(&m, digits, 3), NULL);
}

TEST(a_value_is_replaced_and_the_map_copies_its_key)
{
    cr_map m = {0};
    char key[16] = "a longer key";

    OK(cr_map_set(&m, key, 12, number(1)));
    OK(cr_map_set(&m, key, 12, number(2)));
    EQ(m.len, 1);
    key[0] = 'x';
    EQ(cr_map_get(&m, key, 12), NULL);
    EQ(cr_map_get(&m, "a longer key", 12), number(2));
    cr_map_drop(&m);
}

TEST(many_addresses_and_texts_are_found_after_growth)
{
    cr_map m = {0};
    char text[32];

    for (uintptr_t i = 0; i < 1000; i++) {
        OK(cr_map_set(&m, (const char *)&i, sizeof i, number((int)i)));
        size_t len = (size_t)snprintf(text, sizeof text, "value number %zu", (size_t)i);
        OK(cr_map_set(&m, text, len, number((int)i)));
    }
    EQ(m.len, 2000);
    for (uintptr_t i = 0; i < 1000; i++) {
        EQ(cr_map_get(&m, (const char *)&i, sizeof i), number((int)i));
        size_t len = (size_t)snprintf(text, sizeof text, "value number %zu", (size_t)i);
        EQ(cr_map_get(&m, text, len), number((int)i));
    }
    cr_map_drop(&m);
}
