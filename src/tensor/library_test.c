/* The command LIBRARY on the host: calls that do not agree with the entry are refused. */
#include "base/test.h"
#include "tensor/remote.h"

/* Runs a command on buffers of 64 bytes. */
static cr_status ran(const char *command)
{
    cr_plan p = {.arena = {0}};
    cr_text text = {0};

    OK(cr_tensor_start());
    cr_text_printf(&text, "plan {\n %%0 = buffer 64\n %%1 = buffer 64\n LIBRARY %s\n}\n",
                   command);
    OK(cr_plan_parse(&p, cr_text_str(&text)));
    cr_plan_run r = cr_plan_start(&p, &cr_host_executor);
    cr_status st = cr_plan_execute(&r);
    cr_plan_end(&r);
    cr_text_drop(&text);
    cr_plan_drop(&p);
    return st;
}

TEST(results_have_the_sizes_and_dtypes_of_the_rules)
{
    OK(ran("mm(%0:float32[2, 2], %0:float32[2, 2]) -> (%1:float32[2, 2])"));
    OK(ran("mm(%0:float32[2, 2], %0:float32[2, 2]) -> (%1:float32[2, 2] by [1, 2])"));
    CHECK(ran("mm(%0:float32[2, 2], %0:float32[2, 2]) -> (%1:float32[4, 4])"));
    CHECK(strstr(cr_error_message(), "has not the sizes or the dtype"));
    CHECK(ran("mm(%0:float32[2, 2], %0:float32[2, 2]) -> (%1:float64[2, 2])"));
    CHECK(ran("mm(%0:float32[2, 3], %0:float32[2, 2]) -> (%1:float32[2, 2])"));
    CHECK(strstr(cr_error_message(), "mat1 and mat2 shapes cannot be multiplied"));
}

TEST(arguments_have_the_types_of_the_schema)
{
    CHECK(ran("mm(%0:float32[2, 2], 3) -> (%1:float32[2, 2])"));
    CHECK(strstr(cr_error_message(), "mm(): argument 'mat2' has another type"));
    CHECK(ran("mm(%0:float32[2, 2], None) -> (%1:float32[2, 2])"));
    CHECK(ran("mm(%0:float32[2, 2]) -> (%1:float32[2, 2])"));
    CHECK(strstr(cr_error_message(), "no operator with 1 arguments"));
    CHECK(ran("add(%0:float32[2, 2], 3, 1) -> (%1:float32[2, 2])"));
}
