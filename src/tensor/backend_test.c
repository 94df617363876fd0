/* Registration of tables and kernels by a backend outside the library, and the C text that it
 * gets. */
#include "base/test.h"
#include "cresset_backend.h"
#include "device/ordered.h"
#include "plan/plan.h"
#include "tensor/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool says(const char *error, const char *text) { return error && strstr(error, text); }

TEST(a_backend_of_another_version_is_refused)
{
    cr_device_ops table = {.bytes = sizeof table};
    char text[128];

    snprintf(text, sizeof text,
             "was built for version %d of the interface of backends, and this library has "
             "version %d",
             CR_BACKEND_ABI + 1, (int)CR_BACKEND_ABI);
    CHECK(says(cr_backend_register(CR_BACKEND_ABI + 1, "other", &table), text));
    CHECK(says(cr_backend_register(CR_BACKEND_ABI, "other", NULL), "has not filled its table"));
    EQ(cr_device_of(CR_PRIVATEUSE1), NULL);
}

TEST(a_table_with_missing_functions_is_refused)
{
    cr_device_ops table = {.bytes = sizeof table};

    CHECK(
        says(cr_backend_register(CR_BACKEND_ABI, "other", &table), "has not filled its table"));
    table.bytes--;
    CHECK(
        says(cr_backend_register(CR_BACKEND_ABI, "other", &table), "has not filled its table"));
    EQ(cr_device_of(CR_PRIVATEUSE1), NULL);
}

static uint64_t number(int index) { return (uint64_t)index; }

static void wait_for(int index, uint64_t job)
{
    (void)index;
    (void)job;
}

static bool is_done(int index, uint64_t job) { return job <= number(index); }

static void *stream(int index)
{
    (void)index;
    return NULL;
}

TEST(streams_and_events_follow_from_the_numbers_of_jobs)
{
    cr_device_ops table = {.last = number, .wait = wait_for, .done = is_done}, own = table;
    void *event;

    cr_device_complete(&table);
    EQ(table.set_current(3), NULL);
    EQ(table.current(), 3);
    EQ(table.set_current(0), NULL);
    CHECK(table.stream_new && table.stream_drop && table.set_stream && table.stream);
    CHECK(table.event_record && table.event_wait && table.event_synchronize);
    EQ(table.event_new(0, &event), NULL);
    table.event_drop(0, event);
    own.stream = stream;
    cr_device_complete(&own);
    EQ(own.event_new, NULL);
    own = (cr_device_ops){.last = number, .done = is_done};
    cr_device_complete(&own);
    EQ(own.stream_new, NULL);
}

static const char *submit(int index, cr_command *c)
{
    (void)index;
    free(c);
    return NULL;
}

static ptrdiff_t distance(int index) { return index; }

static const char *fill(int index, const cr_array *to, const void *element)
{
    (void)index;
    (void)to;
    (void)element;
    return NULL;
}

TEST(functions_of_commands_follow_from_submit)
{
    cr_device_ops table = {.submit = submit, .distance = distance, .fill = fill};
    cr_device_ops without = {.submit = submit};

    OK(cr_tensor_start()); /* sets the host's `build` */
    cr_plan_complete(&table);
    CHECK(table.copy_in && table.copy_out && table.copy && table.move && table.build);
    CHECK(table.launch && table.indexed && table.combine && table.windows);
    CHECK(table.fill == fill);
    cr_plan_complete(&without);
    EQ(without.move, NULL);
}

static const char *kernel(int index, const cr_given *arg, const cr_array *result)
{
    (void)index;
    (void)arg;
    (void)result;
    return NULL;
}

TEST(only_entries_without_a_statement_take_a_kernel)
{
    OK(cr_tensor_start());
    CHECK(says(cr_kernel_register("add", cr_backend_kind, kernel),
               "add states what it computes"));
    CHECK(says(cr_kernel_register("nothing", cr_backend_kind, kernel),
               "no operator is called 'nothing'"));
    CHECK(says(cr_kernel_register("sort", CR_HOST.kind, kernel), "is not a kind of device"));
    EQ(cr_kernel_register("sort", cr_backend_kind, kernel), NULL);
}

TEST(the_c_text_of_an_entry_is_a_function_with_its_results)
{
    const float a[] = {1, 2, 3}, b[] = {10, 20, 30}, want[] = {21, 42, 63};
    _Alignas(16) char param[CR_MAX_ARGS][CR_PARAM_BYTES] = {{0}};
    float out[3] = {0};
    void *pointer[] = {out, (void *)(uintptr_t)a, (void *)(uintptr_t)b};
    const int64_t stride[] = {0, 4, 0, 4, 0, 4}, size[] = {1, 3, 0};
    const float alpha = 2;
    const cr_kernel_source *s = NULL;
    cr_kernel_function f = NULL;

    OK(cr_tensor_start());
    EQ(cr_emit_entry(&s, "add", CR_F32, CR_FORM_MAIN), NULL);
    CHECK(strstr(cr_kernel_text(s), "CK(add)("));
    CHECK(!strcmp(cr_kernel_symbol(s), "ck_device_add"));
    CHECK(strstr(cr_kernel_flags(), "-ffp-contract=off"));
    EQ(cr_kernel_compile(&f, s), NULL);
    memcpy(param[0], &alpha, sizeof alpha);
    f(pointer, stride, size, param);
    CHECK(!memcmp(out, want, sizeof out));
    cr_kernel_source_drop(s);
}

/* Two rows of a softmax, by the function. */
static void softmax_rows(cr_kernel_function f, float *out, const float *x)
{
    void *pointer[] = {out, (void *)(uintptr_t)x};
    const int64_t stride[] = {12, 4, 12, 4}, size[] = {2, 3, 0};

    f(pointer, stride, size, NULL);
}

TEST(a_group_is_a_program_whose_text_gives_the_bits_of_the_entry)
{
    static const char group[] = "m[i<R] = maximum[j<C](x[i, j])\n"
                                "e[i<R, j<C] = exp(x[i, j] - m[i])\n"
                                "s[i<R] = add[j<C](e[i, j])\n"
                                "y[i<R, j<C] = e[i, j] * (1 / s[i])\n";
    const float x[] = {1, 2.5f, -3, 0.25f, 7, 7.5f};
    float out[6] = {0}, want[6] = {0};
    const cr_kernel_source *entry = NULL, *made = NULL, *again = NULL;
    cr_kernel_function f = NULL;

    OK(cr_tensor_start());
    EQ(cr_emit_entry(&entry, "_softmax", CR_F32, CR_FORM_MAIN), NULL);
    EQ(cr_kernel_compile(&f, entry), NULL);
    softmax_rows(f, want, x);
    CHECK(strstr(cr_kernel_program(entry), "add["));

    EQ(cr_emit_group(&made, group), NULL);
    EQ(cr_kernel_compile(&f, made), NULL);
    softmax_rows(f, out, x);
    CHECK(!memcmp(out, want, sizeof out));

    EQ(cr_emit_group(&again, cr_kernel_program(made)), NULL);
    CHECK(!strcmp(cr_kernel_program(again), cr_kernel_program(made)));
    cr_kernel_source_drop(again);
    cr_kernel_source_drop(made);
    cr_kernel_source_drop(entry);
}

TEST(text_is_refused_for_entries_without_a_kernel)
{
    const cr_kernel_source *s = NULL;

    OK(cr_tensor_start());
    CHECK(
        says(cr_emit_entry(&s, "sort", CR_F32, CR_FORM_MAIN), "sort has no kernel of form 0"));
    CHECK(says(cr_emit_entry(&s, "nothing", CR_F32, CR_FORM_MAIN), "no operator is called"));
    CHECK(says(cr_emit_entry(&s, "add", 99, CR_FORM_MAIN), "there is no dtype 99"));
    CHECK(says(cr_emit_group(&s, "y[i<N] = x[i] +\n"), "line 1: "));
    CHECK(says(cr_emit_group(&s, "y[i<N] = nothing(x[i])\n"), "line 1: "));
    EQ(s, NULL);
}
