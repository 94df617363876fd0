/* Operands of kernels of plans. */
#include "base/test.h"
#include "jit/oracle.h"
#include <string.h>

/* Checks a command KERNEL whose program has one line. */
static cr_status checked(const char *program, const char *command)
{
    cr_plan p = {.arena = {0}};
    cr_text text = {0};

    cr_text_printf(&text,
                   "plan {\n %%0 = input 64\n %%1 = buffer 64\n  kernel 0 k {\n    %s\n  }\n"
                   " KERNEL 0 k over %s\n}\n",
                   program, command);
    OK(cr_plan_parse(&p, cr_text_str(&text)));
    cr_status st = cr_plan_check(&p, &cr_oracle, 0);
    cr_text_drop(&text);
    cr_plan_drop(&p);
    return st;
}

static void breaks(const char *program, const char *command, const char *message)
{
    CHECK(checked(program, command));
    CHECK(strstr(cr_error_message(), message));
}

static const char negated[] = "y[i<R, j<C] = -x[i, j]";

TEST(operands_of_kernels_are_inside_their_buffers)
{
    OK(checked(negated, "[4, 4] (%1 by [16, 4], %0 by [16, 4])"));
    OK(checked(negated, "[2, 2, 4] (%1 by [32, 16, 4], %0 by [0, 0, 4])"));
    OK(checked("y[i<R] = add[j<C](x[i, j])", "[4, 4] (%1 by [16, 99], %0 by [16, 4])"));
    OK(checked(negated, "[4, 4] (%1 by [16, 4], #0000803f by [0, 0])"));
    breaks(negated, "[4, 4] (%1 by [16, 4], %0+4 by [16, 4])", "outside their buffer");
    breaks(negated, "[4, 5] (%1 by [16, 4], %0 by [16, 4])", "outside their buffer");
    breaks(negated, "[2, 4, 4] (%1 by [16, 16, 4], %0 by [0, 16, 4])", "outside their buffer");
    breaks(negated, "[4, 4] (%1 by [16, 4], %0 by [16, 3])", "not aligned");
    breaks(negated, "[4, 4] (%1 by [16, 4], #0000803f by [0, 4])", "a number");
    breaks(negated, "[4, 4] (#0000803f by [0, 0], %0 by [16, 4])", "a number");
}

TEST(operands_that_do_not_vary_have_no_steps)
{
    static const char weighted[] = "y[i<R, j<C] = x[i, j] * w[j] + add[j<C](x[i, j])";
    static const char scaled[] = "y[i<R, j<C] = x[i, j] * w[i]";
    static const char sums[] = "y[j<C] = add[i<R](x[i, j] * w[j])";

    OK(checked(weighted, "[2, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [0, 4])"));
    OK(checked(weighted, "[1, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [999, 4])"));
    breaks(weighted, "[2, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [32, 4])", "a step where");
    breaks(weighted, "[2, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [4096, 4])", "a step where");
    OK(checked(scaled, "[2, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [4, 0])"));
    breaks(scaled, "[2, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [4, 4])", "a step where");
    OK(checked(sums, "[2, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [0, 4])"));
    breaks(sums, "[2, 8] (%1 by [32, 4], %0 by [32, 4], %0 by [-64, 4])", "a step where");
}

TEST(columns_give_a_row_of_results_for_each_block)
{
    static const char sums[] = "y[j<C] = add[i<R](x[i, j])";

    OK(checked(sums, "[512, 1] (%1 by [4, 4], %0 by [0, 4])"));
    breaks(sums, "[262144, 1] (%1 by [64, 4], %0 by [0, 4])", "outside their buffer");
}

TEST(folds_of_no_elements_store_their_results)
{
    static const char rows[] = "y[i<R] = add[j<C](x[i, j])";
    static const char columns[] = "y[j<C] = add[i<R](x[i, j])";

    OK(checked(rows, "[16, 0] (%1 by [4, 4], %0+64 by [4, 4])"));
    breaks(rows, "[100, 0] (%1 by [4, 4], %0 by [4, 4])", "outside their buffer");
    OK(checked(rows, "[0, 100, 0] (%1 by [4, 4, 4], %0 by [4, 4, 4])"));
    OK(checked(columns, "[0, 16] (%1 by [64, 4], %0+64 by [4, 4])"));
    breaks(columns, "[0, 100] (%1 by [400, 4], %0 by [400, 4])", "outside their buffer");
    OK(checked(negated, "[0, 100] (%1 by [400, 4], %0 by [400, 4])"));
}

TEST(programs_that_are_not_of_rows_and_columns_are_refused)
{
    breaks(negated, "[4, 4] (%1 by [16, 4])", "other operands");
    breaks("y[i<R, j<C] = x[j, i]", "[4, 4] (%1 by [16, 4], %0 by [16, 4])", "row by row");
    breaks("input x: f32[R, C]\n    y[i<R, j<C] = x[i, j + 1]",
           "[4, 4] (%1 by [16, 4], %0 by [16, 4])", "an index leaves");
    breaks("input x: f32[C]\n    y[i<R, j<C] = x[i]", "[4, 1] (%1 by [4, 4], %0 by [0, 4])",
           "an index is no axis");
    breaks("y[i<4, j<C] = x[i, j]", "[4, 4] (%1 by [16, 4], %0 by [16, 4])",
           "has no rows and columns");
    breaks("param a: f32 @64\n    y[i<R, j<C] = x[i, j] * a",
           "[4, 4] (%1 by [16, 4], %0 by [16, 4])", "a parameter is missing");
}
