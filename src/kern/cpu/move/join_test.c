#include "kern/cpu/test_views.h"

TEST(triangles_cut_at_the_diagonal)
{
    float x[] = {1, 2, 3, 4, 5, 6}, out[6];
    cr_value self = of_view(VIEW(x, CR_F32, 2, 3));

    OK(cr_kern_tril(ARGS(self, cr_of_int(0)), VIEW(out, CR_F32, 2, 3)));
    SAME_FLOATS(out, 1, 0, 0, 4, 5, 0);
    OK(cr_kern_triu(ARGS(self, cr_of_int(1)), VIEW(out, CR_F32, 2, 3)));
    SAME_FLOATS(out, 0, 2, 3, 0, 0, 6);
}

TEST(sequences_hit_both_ends)
{
    float line[5];
    int64_t count[4];

    OK(cr_kern_linspace(
        ARGS(cr_of_number(cr_scalar_float(0)), cr_of_number(cr_scalar_float(1)), cr_of_int(5)),
        VIEW(line, CR_F32, 5)));
    SAME_FLOATS(line, 0, 0.25, 0.5, 0.75, 1);
    OK(cr_kern_arange(ARGS(cr_of_number(cr_scalar_int(7)), cr_of_number(cr_scalar_int(-5)),
                           cr_of_number(cr_scalar_int(-3))),
                      VIEW(count, CR_I64, 4)));
    SAME_INTS(count, 7, 4, 1, -2);
}
