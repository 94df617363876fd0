/* Pieces of arenas. */
#include "base/memory.h"
#include "base/test.h"

TEST(an_arena_tells_the_address_of_each_piece)
{
    cr_arena_pieces pieces = {0};
    cr_arena arena = {.tight = true, .pieces = &pieces};
    const char *a = cr_arena_get(&arena, 24), *none = cr_arena_get(&arena, 0),
               *text = cr_arena_text(&arena, "ab", 2);

    EQ(pieces.len, 3);
    CHECK(pieces.at[0] == a && pieces.at[1] == none && pieces.at[2] == text);
    CHECK(none != text);
    cr_arena_drop(&arena);
    cr_vec_drop(&pieces);
}
