/* Tests of examples and levels. */
#include "base/test.h"
#include "entry.h"
#include "tensor/batch.h"

TEST(an_example_has_the_sizes_and_strides_behind_the_first_dim_and_no_elements)
{
    cr_tensor *batch, *one;

    OK(cr_tensor_new(&batch, CR_F32, CR_HOST, 3, (int64_t[]){4, 2, 3}));
    OK(cr_example_new(&one, batch, cr_level_new()));
    EQ(one->ndim, 2);
    EQ(one->size[1], 3);
    EQ(one->stride[0], 3);
    CHECK(cr_is_example(one) && one->batch == batch && !cr_has_elements(one));
    cr_drop(batch); /* the example keeps it */
    EQ(one->batch->size[0], 4);
    cr_drop(one);
}

TEST(a_call_of_examples_is_left_unless_their_level_runs)
{
    uint64_t level = cr_level_new();
    cr_tensor *batch, *one;
    cr_value result;
    bool left;

    OK(cr_tensor_start());
    OK(cr_tensor_new(&batch, CR_F32, CR_HOST, 2, (int64_t[]){4, 2}));
    OK(cr_example_new(&one, batch, level));
    cr_value arg[CR_MAX_ARGS];
    for (int i = 0; i < cr_entry.sum->param_count; i++)
        arg[i] = cr_entry.sum->param[i].preset;
    arg[0] = cr_of_tensor(one);
    OK(cr_batch_call(cr_entry.sum, arg, &result, &left));
    CHECK(left);
    cr_level_starts(level);
    OK(cr_batch_call(cr_entry.sum, arg, &result, &left));
    CHECK(!left);
    EQ(result.t->ndim, 0);
    EQ(result.t->batch->size[0], 4);
    cr_drop(result.t);
    cr_level_ends(level);
    cr_drop(one);
    cr_drop(batch);
}
