/* Operators of sparse tensors by hand, with arguments that no method gives them. */
#include "base/test.h"
#include "whole/whole_impl.h"

TEST(sums_of_two_numbers_are_refused)
{
    cr_value number = cr_of_number(cr_scalar_int(3)), result;

    OK(cr_tensor_start());
    EQ(cr_call_named("_sparse_add", (cr_value[]){number, number, number}, 3, &result),
       CR_RUNTIME);
    EQ_STR(cr_error_message(),
           "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
}

TEST(cotangents_of_a_norm_have_its_sizes)
{
    static const int64_t size[] = {3, 4}, other = 65536;
    cr_tensor *t = NULL;
    cr_value result;

    OK(cr_tensor_start());
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, 2, size));
    cr_value x = cr_of_tensor(t), arg[] = {x, x, cr_of_ints(&other, 1), x, x};
    EQ(cr_call_named("_layer_norm_parameters", arg, 5, &result), CR_RUNTIME);
    EQ_STR(cr_error_message(), "expected last sizes [65536], but got sizes [3, 4]");
    cr_drop(t);
}
