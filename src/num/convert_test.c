#include "base/test.h"
#include "num/convert.h"
#include <string.h>

enum { MOST = 203, WIDEST = 7 };

/* Copies every `apart`-th element; bytes after the last one must stay. */
static bool copies(cr_dtype t, int64_t apart, int64_t n)
{
    static uint8_t from[WIDEST * MOST * 8], to[(MOST + 1) * 8];
    int64_t item = (int64_t)cr_dtype_size(t);
    bool same = true;

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 37 + i / 256);
    memset(to, 0xA5, sizeof to);
    cr_convert_row(t, t)(to, item, from, apart * item, n);
    for (int64_t i = 0; i < n; i++)
        same = same && !memcmp(to + i * item, from + i * apart * item, (size_t)item);
    for (int64_t i = 0; i < item; i++)
        same = same && to[n * item + i] == 0xA5;
    return same;
}

TEST(elements_at_any_distance_are_copied)
{
    static const cr_dtype types[] = {CR_U8, CR_I16, CR_F32, CR_F64};
    static const int64_t counts[] = {0, 1, 2, 5, 16, 31, 32, 33, 64, 100, MOST};

    for (size_t k = 0; k < CR_LEN(types); k++)
        for (int64_t apart = 0; apart <= WIDEST; apart++)
            for (size_t i = 0; i < CR_LEN(counts); i++)
                CHECK(copies(types[k], apart, counts[i]));
}

TEST(columns_become_rows)
{
    static uint64_t from[5 * MOST], to[5 * MOST + 1];
    static const int64_t counts[] = {0, 1, 3, 4, 7, 33, MOST};

    for (size_t i = 0; i < CR_LEN(from); i++)
        from[i] = i * 0x9E3779B97F4A7C15u;
    for (int64_t columns = 1; columns <= 5; columns++)
        for (size_t c = 0; c < CR_LEN(counts); c++) {
            int64_t n = counts[c];
            bool some = columns > 1 && columns < 5;
            memset(to, 0xA5, sizeof to);
            EQ(cr_weave_8(to, from, MOST, columns, n), some);
            for (int64_t i = 0; some && i < n * columns; i++)
                EQ(to[i], from[i % columns * MOST + i / columns]);
            EQ(to[some ? n * columns : 0], 0xA5A5A5A5A5A5A5A5u);
        }
}

TEST(elements_that_are_repeated_fill_their_places_alone)
{
    uint64_t from[3 * 40], to[16 * 40 + 1];

    for (size_t i = 0; i < CR_LEN(from); i++)
        from[i] = 1000003 * i + 1;
    for (int64_t item = 4; item <= 8; item += 4)
        for (int64_t times = 1; times <= 64 / item; times++)
            for (int64_t n = 0; n <= 40; n++) {
                char *end = (char *)to + item * times * n;
                bool right = true;
                memset(to, 0x5a, sizeof to);
                CHECK(cr_repeat_items(to, from, item, 24, times, n));
                for (int64_t i = 0; i < n * times; i++)
                    right = right && !memcmp((char *)to + i * item, from + 3 * (i / times),
                                             (size_t)item);
                CHECK(right && *end == 0x5a);
            }
    CHECK(!cr_repeat_items(to, from, 8, 8, 9, 1) && !cr_repeat_items(to, from, 2, 2, 2, 1));
}
