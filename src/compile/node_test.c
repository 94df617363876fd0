/* Facts about shapes. */
#include "base/test.h"
#include "compile/facts.h"

TEST(values_for_each_row_and_for_each_column_are_distinguished)
{
    cr_gtype row = {.known = true, .ndim = 2, .size = (int64_t[]){5, 1}};
    cr_gtype column = {.known = true, .ndim = 1, .size = (int64_t[]){5}};

    CHECK(cr_is_one_a_row(2, (int64_t[]){5, 5}, 5, &row));
    CHECK(!cr_is_one_a_row(2, (int64_t[]){5, 5}, 5, &column));
}
