#include "base/parallel.h"
#include "kern/cpu/test_views.h"

TEST(the_padding_row_gets_no_gradient_and_frequent_rows_an_average)
{
    float g[] = {1, 3, 5}, out[3];
    int64_t index[] = {1, 1, 2};

    OK(cr_kern_embedding_backward(ARGS(of_view(VIEW(g, CR_F32, 3, 1)),
                                       of_view(VIEW(index, CR_I64, 3)), cr_of_int(3),
                                       cr_of_int(2), cr_of_bool(true)),
                                  VIEW(out, CR_F32, 3, 1)));
    SAME_FLOATS(out, 0, 2, 0);
}

TEST(an_empty_bag_is_zero)
{
    float table[] = {1, 2, 3}, out[3];
    int64_t index[] = {0, 2}, offset[] = {0, 2, 2}, bag[2], size[3], most[3];
    cr_view results[4] = {*VIEW(out, CR_F32, 3, 1), *VIEW(bag, CR_I64, 2),
                          *VIEW(size, CR_I64, 3), *VIEW(most, CR_I64, 3, 1)};
    cr_value args[] = {of_view(VIEW(table, CR_F32, 3, 1)),
                       of_view(VIEW(index, CR_I64, 2)),
                       of_view(VIEW(offset, CR_I64, 3)),
                       cr_of_bool(false),
                       cr_of_int(1),
                       cr_of_bool(false),
                       cr_of_none(),
                       cr_of_bool(false),
                       cr_of_int(-1)};

    OK(cr_kern_embedding_bag(args, results));
    SAME_FLOATS(out, 2, 0, 0);
    SAME_INTS(size, 2, 0, 0);
    args[4] = cr_of_int(2);
    OK(cr_kern_embedding_bag(args, results));
    SAME_FLOATS(out, 3, 0, 0);
    SAME_INTS(most, 2, -1, -1);
}
