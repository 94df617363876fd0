#include "base/recent.h"
#include "base/test.h"
#include <stdio.h>

enum { KEYS = 1000 };

/* Values are addresses in this array. */
static int dropped[KEYS];

static void count_drop(void *value) { ++*(int *)value; }

static size_t key_of(char key[16], int i) { return (size_t)snprintf(key, 16, "key %d", i); }

static void add(cr_recent *r, int i)
{
    char key[16];
    size_t n = key_of(key, i);

    OK(cr_recent_set(r, key, n, &dropped[i]));
}

static bool has(cr_recent *r, int i)
{
    char key[16];
    size_t n = key_of(key, i);
    void *value = cr_recent_get(r, key, n);

    CHECK(!value || value == &dropped[i]);
    return value != NULL;
}

static int all_dropped(void)
{
    int n = 0;

    for (int i = 0; i < KEYS; i++) {
        CHECK(dropped[i] <= 1);
        n += dropped[i];
    }
    return n;
}

TEST(the_last_entries_are_kept_and_each_is_dropped_once)
{
    static cr_recent r = {.most = 50, .drop = count_drop};

    for (int i = 0; i < KEYS; i++)
        dropped[i] = 0;
    for (int i = 0; i < KEYS; i++) {
        add(&r, i);
        CHECK(has(&r, 0)); /* it is used after each other one */
        CHECK(i + 1 - all_dropped() <= 100);
        if (i % 97 == 96)
            for (int k = i - 40; k <= i; k++)
                CHECK(has(&r, k));
    }
    CHECK(!has(&r, 1) && !has(&r, KEYS - 200) && dropped[1] && !dropped[0]);
    CHECK(all_dropped() >= KEYS - 100 && r.young.len <= 50);
}

TEST(a_table_of_one_entry)
{
    static cr_recent r = {.most = 1, .drop = count_drop};

    dropped[0] = dropped[1] = dropped[2] = 0;
    for (int i = 0; i < 3; i++)
        add(&r, i);
    CHECK(dropped[0] && !dropped[1] && !dropped[2]);
    CHECK(has(&r, 1) && dropped[2] == 0 && has(&r, 2) && has(&r, 1));
    CHECK(dropped[1] + dropped[2] <= 1);
}

TEST(entries_of_many_bytes_are_fewer)
{
    static cr_recent r = {.most = 50, .most_bytes = 1000, .drop = count_drop};

    for (int i = 0; i < KEYS; i++)
        dropped[i] = 0;
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        size_t n = key_of(key, i);
        OK(cr_recent_set(&r, key, n, &dropped[i]));
        cr_recent_charge(&r, key, n, 100);
        CHECK(has(&r, 0) && i + 1 - all_dropped() <= 20);
        CHECK(r.young.bytes == 100 * r.young.len && r.old.bytes == 100 * r.old.len);
    }
    CHECK(all_dropped() >= KEYS - 20 && !dropped[0]);
    cr_recent_charge(&r, "no key", 6, 100);
    CHECK(r.young.bytes == 100 * r.young.len);
}
