/* Iteration spaces of several shapes, and steps of operands through them. */
#include "base/test.h"
#include "compile/facts.h"

TEST(shapes_of_one_space_have_a_common_refinement)
{
    cr_space s = {.ndim = 0};

    CHECK(cr_space_refine(&s, 2, (int64_t[]){6, 4}));
    CHECK(cr_space_refine(&s, 3, (int64_t[]){1, 3, 8}));
    EQ(s.ndim, 3);
    EQ(s.size[0], 3);
    EQ(s.size[1], 2);
    EQ(s.size[2], 4);
    EQ(cr_space_columns(&s, 8), 2);
}

TEST(shapes_that_cut_across_each_other_are_refused_and_the_space_is_untouched)
{
    cr_space s = {2, {2, 3}};

    CHECK(!cr_space_refine(&s, 2, (int64_t[]){3, 2}));
    EQ(s.ndim, 2);
    EQ(s.size[0], 2);
    EQ(s.size[1], 3);
}

TEST(an_operand_of_any_shape_has_one_step_for_each_dim)
{
    cr_space s = {3, {2, 3, 4}};
    cr_gtype rows = {.known = true, .ndim = 2, .size = (int64_t[]){6, 1}};
    cr_gtype turned = {
        .known = true, .ndim = 2, .size = (int64_t[]){6, 4}, .stride = (int64_t[]){1, 6}};
    int64_t step[CR_SPACE_DIMS];

    cr_space_steps(step, &s, 3, 2, (int64_t[]){6, 4}, &rows);
    EQ(step[0], 3);
    EQ(step[1], 1);
    EQ(step[2], 0);
    cr_space_steps(step, &s, 3, 2, (int64_t[]){6, 4}, &turned);
    EQ(step[0], 3);
    EQ(step[1], 1);
    EQ(step[2], 6);
}

TEST(values_for_each_row_and_for_each_column_are_distinguished)
{
    cr_gtype row = {.known = true, .ndim = 2, .size = (int64_t[]){5, 1}};
    cr_gtype column = {.known = true, .ndim = 1, .size = (int64_t[]){5}};

    CHECK(cr_is_one_a_row(2, (int64_t[]){5, 5}, 5, &row));
    CHECK(!cr_is_one_a_row(2, (int64_t[]){5, 5}, 5, &column));
}
