#include "kern/cpu/test_views.h"
#include "space/picked.h"

static float grid[2 * 3 * 4]; /* grid[i][j][k] = 100 i + 10 j + k */

static cr_view *grid_view(test_view *room)
{
    for (int i = 0; i < 24; i++)
        grid[i] = (float)(i / 12 * 100 + i / 4 % 3 * 10 + i % 4);
    return test_dense(room, grid, CR_F32, (const int64_t[]){2, 3, 4, -1});
}

TEST(neighbouring_indices_leave_their_dims_in_place)
{
    test_view room;
    cr_value self = of_view(grid_view(&room)), none = cr_of_none();
    int64_t j[] = {2, 0}, k[] = {-1, 1};
    float out[4];
    cr_index_plan plan;
    cr_value list = LIST(none, of_view(VIEW(j, CR_I64, 2)), of_view(VIEW(k, CR_I64, 2)));

    OK(cr_index_plan_make(&plan, self.view, &list));
    EQ(plan.result.ndim, 2);
    SAME_INTS(plan.result.size, 2, 2);
    OK(cr_kern_index(ARGS(self, list), VIEW(out, CR_F32, 2, 2)));
    SAME_FLOATS(out, 23, 1, 123, 101);
}

TEST(separated_indices_put_their_dims_in_front)
{
    test_view room;
    cr_value self = of_view(grid_view(&room)), none = cr_of_none();
    int64_t i[] = {1}, k[] = {0, 3};
    float out[6];
    cr_index_plan plan;
    cr_value list = LIST(of_view(VIEW(i, CR_I64, 1)), none, of_view(VIEW(k, CR_I64, 2)));

    OK(cr_index_plan_make(&plan, self.view, &list));
    SAME_INTS(plan.result.size, 2, 3);
    OK(cr_kern_index(ARGS(self, list), VIEW(out, CR_F32, 2, 3)));
    SAME_FLOATS(out, 100, 110, 120, 103, 113, 123);
}

TEST(a_mask_counts_as_the_places_where_it_is_true)
{
    test_view room;
    cr_value self = of_view(grid_view(&room));
    uint8_t mask[] = {0, 1, 0, 1, 0, 0};
    float out[8];
    cr_index_plan plan;
    cr_value list = LIST(of_view(VIEW(mask, CR_BOOL, 2, 3)));

    OK(cr_index_plan_make(&plan, self.view, &list));
    SAME_INTS(plan.result.size, 2, 4);
    OK(cr_kern_index(ARGS(self, list), VIEW(out, CR_F32, 2, 4)));
    SAME_FLOATS(out, 10, 11, 12, 13, 100, 101, 102, 103);
}

TEST(wrong_indices_are_named_in_torchs_words)
{
    test_view room;
    cr_value self = of_view(grid_view(&room));
    uint8_t mask[5] = {0};
    int64_t j[] = {2}, two[] = {0, 1}, three[] = {0, 1, 1};
    cr_value wide = LIST(of_view(VIEW(mask, CR_BOOL, 5)));
    cr_value uneven = LIST(of_view(VIEW(two, CR_I64, 2)), of_view(VIEW(three, CR_I64, 3)));
    cr_index_plan plan;
    float out[12];

    FAILS(CR_INDEX, cr_index_plan_make(&plan, self.view, &wide));
    EQ_STR(cr_error_message(),
           "The shape of the mask [5] at index 0 does not match the shape of the "
           "indexed tensor [2, 3, 4] at index 0");
    FAILS(CR_INDEX, cr_index_plan_make(&plan, self.view, &uneven));
    EQ_STR(cr_error_message(),
           "shape mismatch: indexing tensors could not be broadcast together with "
           "shapes [2], [3]");
    FAILS(CR_INDEX, cr_kern_index(ARGS(self, LIST(of_view(VIEW(j, CR_I64, 1)))),
                                  VIEW(out, CR_F32, 1, 3, 4)));
    EQ_STR(cr_error_message(), "index 2 is out of bounds for dimension 0 with size 2");
}

TEST(index_put_adds_repeated_places_up_and_broadcasts_values)
{
    float x[] = {0, 0, 0, 0}, value[] = {1.5f}, out[4];
    int64_t i[] = {1, 1, 3};

    OK(cr_kern_index_put(ARGS(of_view(VIEW(x, CR_F32, 4)), LIST(of_view(VIEW(i, CR_I64, 3))),
                              of_view(VIEW(value, CR_F32, 1)), cr_of_bool(true)),
                         VIEW(out, CR_F32, 4)));
    SAME_FLOATS(out, 0, 3, 0, 1.5);
}

TEST(nonzero_is_row_major_and_minus_zero_is_zero)
{
    float x[] = {1, -0.0f, 0, 2};
    int64_t out[4];
    cr_value args[] = {of_view(VIEW(x, CR_F32, 2, 2))};

    EQ(cr_count_trues(args[0].view), 2);
    OK(cr_kern_nonzero(args, VIEW(out, CR_I64, 2, 2)));
    SAME_INTS(out, 0, 0, 1, 1);
}

TEST(rows_of_nonzero_static_are_cut_and_filled)
{
    float x[] = {1, 0, 0, 2};
    int64_t few[2], many[6];
    cr_value args[] = {of_view(VIEW(x, CR_F32, 2, 2)), cr_of_int(1), cr_of_int(-7)};

    OK(cr_kern_nonzero_static(args, VIEW(few, CR_I64, 1, 2)));
    SAME_INTS(few, 0, 0);
    OK(cr_kern_nonzero_static(args, VIEW(many, CR_I64, 3, 2)));
    SAME_INTS(many, 0, 0, 1, 1, -7, -7);
    args[0] = of_view(VIEW(x, CR_F32, (int64_t)1 << 40, 0)); /* no element, many rows */
    OK(cr_kern_nonzero_static(args, VIEW(few, CR_I64, 1, 2)));
    SAME_INTS(few, -7, -7);
}

TEST(masked_scatter_wants_enough_elements)
{
    float x[] = {0, 0, 0}, few[] = {1}, enough[] = {1, 2, 3}, out[3];
    uint8_t mask[] = {1, 0, 1};

    FAILS(CR_RUNTIME, cr_kern_masked_scatter(ARGS(of_view(VIEW(x, CR_F32, 3)),
                                                  of_view(VIEW(mask, CR_BOOL, 3)),
                                                  of_view(VIEW(few, CR_F32, 1))),
                                             VIEW(out, CR_F32, 3)));
    OK(cr_kern_masked_scatter(ARGS(of_view(VIEW(x, CR_F32, 3)), of_view(VIEW(mask, CR_BOOL, 3)),
                                   of_view(VIEW(enough, CR_F32, 3))),
                              VIEW(out, CR_F32, 3)));
    SAME_FLOATS(out, 1, 0, 2);
}

TEST(masked_scatter_reads_a_source_that_shares_its_memory)
{
    float x[] = {1, 2, 3, 4};
    uint8_t mask[] = {0, 1, 1, 1};

    OK(cr_kern_masked_scatter(ARGS(of_view(VIEW(x, CR_F32, 4)), of_view(VIEW(mask, CR_BOOL, 4)),
                                   of_view(VIEW(x, CR_F32, 4))),
                              VIEW(x, CR_F32, 4)));
    SAME_FLOATS(x, 1, 1, 2, 3);
}
