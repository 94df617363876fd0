/* The resolver's checks of names. */
#include "base/test.h"
#include "ops/ops.h"

TEST(a_parameter_of_a_kernel_has_no_name_of_a_number)
{
    static const char entry[] = "op l_fill(Tensor self, Scalar nan) -> Tensor\n"
                                "  type    self\n"
                                "  body    where(self != self, nan, self)\n";

    OK(cr_ops_read("test.op", entry, sizeof entry - 1));
    FAILS(CR_VALUE, cr_ops_resolve());
    EQ_STR(cr_error_message(),
           "test.op:1: in l_fill: a parameter has the name of a number 'nan'");
}
