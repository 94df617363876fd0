/* The host as an executor: calls of operators, and moves. */
#include "base/test.h"
#include "jit/oracle.h"
#include "plan/test.h"
#include "tensor/remote.h"
#include <string.h>

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

/* The bytes of buffer 1 after a run of a plan whose buffer 0 is the input. */
static void run_by(const cr_executor *by, const char *commands, const float *in, char out[64])
{
    cr_plan p = {.arena = {0}};
    cr_text text = {0};

    memset(out, 0, 64);
    cr_text_printf(&text, "plan {\n %%0 = input 64\n %%1 = input 64\n %s\n}\n", commands);
    OK(cr_plan_parse(&p, cr_text_str(&text)));
    cr_plan_run r = cr_plan_start(&p, by);
    OK(test_plan_give(&r, 0, (void *)(uintptr_t)in, 64));
    OK(test_plan_give(&r, 1, out, 64));
    OK(cr_plan_execute(&r));
    cr_plan_end(&r);
    cr_text_drop(&text);
    cr_plan_drop(&p);
}

TEST(the_host_moves_as_the_oracle_does)
{
    static const char *const moves[] = {
        "MOVE %1:int32[4, 4] = %0:float32[4, 4] by [1, 4]",
        "MOVE %1:float64[2, 4] = %0:float32[4]",
        "MOVE %1:float16[4, 4] by [1, 4] = %0:float32[4, 1]",
        "MOVE %1:uint8[0] = %0:float32[1] FILL %1:int16[3] by [2] = #0700",
    };
    float in[16];
    char host[64], oracle[64];

    OK(cr_tensor_start());
    for (int i = 0; i < 16; i++)
        in[i] = (float)i * 1.5f;
    for (size_t i = 0; i < CR_LEN(moves); i++) {
        run_by(&cr_host_executor, moves[i], in, host);
        run_by(&cr_oracle, moves[i], in, oracle);
        CHECK(!memcmp(host, oracle, sizeof host));
    }
}
