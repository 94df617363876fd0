/* Plans: texts, copies, runs by the oracle, and what is collected. */
#include "base/test.h"
#include "plan/collect.h"
#include "plan/test.h"
#include <math.h>

static const char every_command[] =
    "plan {\n"
    "  %0 = input 48\n"
    "  %1 = buffer 24\n"
    "  kernel 0 add {\n"
    "    out[i<R, j<C] = self[i, j] + alpha * other[i, j]\n"
    "  }\n"
    "  KERNEL 0 add over [2, 3, 2] (%1 by [0, 8, 4], %0 by [24, 8, 4], #0000803f by [0, 0, 0])"
    " param #00000040\n"
    "  MOVE %1:float32[2, 3] by [1, 2] = %0+24:float64[3]\n"
    "  FILL %1:int32[6] = #07\n"
    "  INDEXED read float32[2, 3] table %0 by [0, 1] dense %1 by [3, 1] at int64 %0+8 by [1, 0]"
    " unit 12 below 4 wraps error 5 \"index \\01 is out of \\22range\\22\"\n"
    "  COMBINE add float32[6] table %0 by [0] number #0000803f at int32 %1 by [1] unit 4 below "
    "12"
    " picked 1\n"
    "  COMBINE set float32[2] table %0 by [1] dense %1 by [2] at int64 %0 by [0] unit 4 below "
    "12"
    " numbered %0:float32[3, 4] by [1, 3]\n"
    "  WINDOWS max %1:float32[1, 2] which %0+8:int64[1, 2] from %0:float32[1, 4] planes 1 of"
    " [4, 2] divisor 1 dim 1 of 1 start [0, 1] ranges [0, 0, 1] dim 1 of 1 start [0, 1] ranges"
    " [0, 0, 1] dim 2 of 4 start [0, 1, 3] ranges [0, 1, 2, 2, 1, 1, 3, 1, 1] count [1.0, 0.5]"
    " share [1.0, 2.0, inf, nan]\n"
    "  LIBRARY sort.stable(%0:float32[4], None, -1, 2.5, [1, 2], [0.5], \"a b\", (%1:int64[0],"
    " None)) -> (%1:float32[4], none:int64[0])\n"
    "  COPY %1+8 = #0102\n"
    "  COPY host = %1 24\n"
    "  %2 = buffer 8\n"
    "  COPY %2 = %1 8\n"
    "  WAIT\n"
    "  return %1:float32[2, 3], none:float32[0]\n"
    "}\n";

static void reads_back(const char *text)
{
    cr_plan p = {.arena = {0}};
    cr_text out = {0};

    OK(cr_plan_parse(&p, text));
    cr_plan_print(&out, &p);
    EQ_STR(cr_text_str(&out), text);
    cr_text_drop(&out);
    cr_plan_drop(&p);
}

TEST(every_command_is_printed_as_it_was_read)
{
    reads_back(every_command);
    reads_back("plan {\n}\n");
    reads_back("plan of values {\n  %0 = buffer 4\n  COPY host = %0 4\n}\n");
    reads_back("plan {\n  %0 = buffer 4\n  COPY %0 = none 4\n  COPY host = none 4\n}\n");
}

TEST(geometry_at_its_limits_is_printed_as_it_was_read)
{
    reads_back("plan {\n  %0 = buffer 0\n  %1 = buffer 549755813887\n"
               "  MOVE %0:int8[0, 4611686018427387904] = none:int8[0, 1] by [1, "
               "-4611686018427387904]\n"
               "  MOVE %1+549755813886:int8[1, 1, 1, 1] by [9, 9, 9, 9] = %1-8:bool[]\n}\n");
}

static void refuses(const char *text, const char *message)
{
    cr_plan p = {.arena = {0}};

    FAILS(CR_VALUE, cr_plan_parse(&p, text));
    CHECK(strstr(cr_error_message(), message));
    cr_plan_drop(&p);
}

typedef struct {
    const char *at[64];
    int n;
} addresses;

static void note_address(void *context, const char *address)
{
    addresses *x = context;

    x->at[x->n++] = address;
}

static char *note_copied(void *context, char *address)
{
    note_address(context, address);
    return address;
}

static void *some_memory(void *from, size_t size)
{
    (void)from;
    return cr_alloc(size);
}

TEST(addresses_of_a_command_are_those_that_a_copy_maps_and_need_no_memory)
{
    cr_plan p = {.arena = {0}};
    int all = 0;

    OK(cr_plan_parse(&p, every_command));
    for (size_t i = 0; i < p.command.len; i++) {
        addresses seen = {.n = 0}, mapped = {.n = 0};
        cr_keeping how = {.map = note_copied, .context = &mapped, .get = some_memory};
        cr_free(cr_command_keep(p.command.at[i], &how));
        cr_fail_alloc_after(1);
        cr_command_each_address(p.command.at[i], note_address, &seen);
        cr_fail_alloc_after(0);
        EQ(seen.n, mapped.n);
        for (int k = 0; k < seen.n; k++)
            CHECK(seen.at[k] == mapped.at[k]);
        all += seen.n;
    }
    CHECK(all > 20);
    cr_plan_drop(&p);
}

TEST(errors_of_texts_name_their_line)
{
    refuses("", "line 1 of the plan: plan is expected");
    refuses("plan {\n  STOP\n}\n", "line 2 of the plan: a command is expected at 'STOP'");
    refuses("plan {\n  FILL %0:int8[1] = #00\n}\n", "line 2 of the plan: a buffer of the plan");
    refuses("plan {\n  %1 = buffer 4\n}\n", "the next number of a buffer");
    refuses("plan {\n  %0 = buffer -4\n}\n", "a size in bytes");
    refuses("plan {\n  %0 = buffer 4\n  MOVE %0:int8[2] by [1, 1] = %0:int8[2]\n}\n",
            "line 3 of the plan: a list of another length");
    refuses("plan {\n  %0 = buffer 4\n  KERNEL 0 add over [1, 1] (%0 by [4, 4])\n}\n",
            "a kernel of the plan");
    refuses("plan {\n  %0 = buffer 4\n  FILL %0:float33[1] = #00\n}\n", "a dtype");
    refuses("plan {\n  %0 = buffer 4\n  FILL %0:int8[1] = #00", "a command is expected");
    refuses("plan {\n  %0 = buffer 4\n  WINDOWS sum %0:float32[1] which none:float32[] from "
            "%0:float32[1] planes 1 of [1, 1] divisor 1 dim -1 of 1 start [] ranges []\n}\n",
            "a size of a dim");
    refuses("plan {\n  %0 = buffer 4\n  FILL %0+549755813888:int8[1] = #00\n}\n",
            "a distance in a buffer");
    refuses("plan {\n  %0 = buffer 4\n  COPY host = %0 -8\n}\n", "a number of bytes");
    refuses("plan {\n  %0 = buffer 4\n  WINDOWS sum %0:float32[1] which none:float32[] from "
            "%0:float32[1] planes 1 of [1, 1] divisor 1 dim 1 of 1 start [0, "
            "6148914691236517206] ranges [0, 0]\n}\n",
            "a number of ranges");
}

TEST(lists_in_lists_of_lists_are_refused)
{
    enum { DEEP = 200000 };
    cr_text text = {0};

    cr_text_put(&text, "plan {\n  LIBRARY cat(");
    for (int i = 0; i < DEEP; i++)
        cr_text_put(&text, "(");
    refuses(cr_text_str(&text), "line 2 of the plan: an item that is no list");
    cr_text_drop(&text);
}

TEST(every_prefix_of_a_text_is_refused)
{
    for (size_t n = 0; n + 2 < sizeof every_command; n++) {
        char text[sizeof every_command];
        cr_plan p = {.arena = {0}};
        memcpy(text, every_command, n);
        text[n] = '\0';
        EQ(cr_plan_parse(&p, text), CR_VALUE);
        cr_plan_drop(&p);
    }
}

/* --- the oracle --- */

/* Runs a plan whose buffer 0 is the input, and compares the bytes of buffer 1. */
static void gives(const char *text, const void *input, const void *want, size_t n)
{
    static const cr_executor by = {.ops = &cr_oracle_ops};
    cr_plan p = {.arena = {0}};
    char *at;

    OK(cr_plan_parse(&p, text));
    cr_plan_run r = cr_plan_start(&p, &by);
    OK(test_plan_give(&r, 0, (void *)(uintptr_t)input, p.buffer.at[0].bytes));
    OK(cr_plan_execute(&r));
    OK(cr_plan_place(&at, &r, cr_plan_address(1, 0)));
    CHECK(!memcmp(at, want, n));
    cr_plan_end(&r);
    cr_plan_drop(&p);
}

TEST(elements_are_moved_between_any_layouts)
{
    float in[6] = {1, 2, 3, 4, 5, 6};
    int32_t turned[6] = {6, 3, 5, 2, 4, 1}, sevens[4] = {7, 7, 0, 7};

    gives("plan {\n %0 = input 24\n %1 = buffer 24\n"
          " MOVE %1:int32[3, 2] = %0+20:float32[3, 2] by [-1, -3]\n}\n",
          in, turned, sizeof turned);
    gives("plan {\n %0 = input 24\n %1 = buffer 16\n"
          " FILL %1:int32[2] = #07\n FILL %1+12:int32[] = #07\n}\n",
          in, sevens, sizeof sevens);
}

TEST(elements_are_read_and_combined_at_computed_places)
{
    struct {
        int64_t index[4];
        float value[4];
    } in = {{2, 0, 2, -1}, {1, 10, 100, 1000}};
    float read[3] = {100, 1, 100}, sums[4] = {10, 0, 101, 1000};

    gives(
        "plan {\n %0 = input 48\n %1 = buffer 12\n"
        " INDEXED read float32[3] table %0+32 by [0] dense %1 by [1] at int64 %0 by [1] unit 4 "
        "below 4\n}\n",
        &in, read, sizeof read);
    gives(
        "plan {\n %0 = input 48\n %1 = buffer 16\n"
        " COMBINE add float32[4] table %1 by [0] dense %0+32 by [1] at int64 %0 by [1] unit 4 "
        "below 4 wraps picked 1\n}\n",
        &in, sums, sizeof sums);
}

TEST(integers_are_divided_downwards)
{
    int64_t in[2][3] = {{-7, 7, -7}, {2, 2, 1}}, quotients[3] = {-4, 3, -7};

    gives("plan {\n %0 = input 48\n %1 = buffer 24\n MOVE %1:int64[3] = %0:int64[3]\n"
          " COMBINE divide int64[3] table %1 by [1] dense %0+24 by [1]\n}\n",
          in, quotients, sizeof quotients);
}

TEST(an_index_out_of_range_is_the_commands_error)
{
    static const cr_executor by = {.ops = &cr_oracle_ops};
    cr_plan p = {.arena = {0}};
    int64_t index = 4;

    OK(cr_plan_parse(&p, "plan {\n %0 = input 8\n %1 = buffer 16\n"
                         " INDEXED read float32[1] table %1 by [0] dense %1 by [1] at int64 %0 "
                         "by [1] unit 4 below 4 error 5 \"index \\01 is too large\"\n}\n"));
    cr_plan_run r = cr_plan_start(&p, &by);
    OK(test_plan_give(&r, 0, &index, sizeof index));
    CHECK(cr_plan_execute(&r) != CR_OK);
    EQ_STR(cr_error_message(), "index 4 is too large");
    cr_plan_end(&r);
    cr_plan_drop(&p);
}

TEST(windows_take_the_first_of_equals_and_the_last_nan)
{
    float in[4] = {3, NAN, NAN, 3}, most[2] = {3, 0};

    gives("plan {\n %0 = input 16\n %1 = buffer 8\n %2 = buffer 16\n"
          " WINDOWS max %1:float32[2] which %2:int64[2] from %0:float32[4] planes 1 of [4, 2] "
          "divisor 1 dim 1 of 1 start [0, 1] ranges [0, 0, 1] dim 1 of 1 start [0, 1] ranges "
          "[0, 0, 1] dim 2 of 4 start [0, 1, 2] ranges [0, 3, 2, 0, 1, 3]\n"
          " MOVE %1+4:float32[1] = %2+8:int64[1]\n}\n",
          in, (most[1] = 2, most), sizeof most);
}

TEST(a_device_that_lacks_a_function_refuses_the_command)
{
    static const cr_device_ops lacks = {.get = NULL};
    static const cr_executor by = {.ops = &lacks};
    cr_plan p = {.arena = {0}};

    OK(cr_plan_parse(&p, "plan {\n %0 = input 4\n FILL %0:int8[4] = #01\n}\n"));
    cr_plan_run r = cr_plan_start(&p, &by);
    char bytes[4];
    OK(test_plan_give(&r, 0, bytes, sizeof bytes));
    FAILS(CR_NOT_IMPLEMENTED, cr_plan_execute(&r));
    EQ_STR(cr_error_message(), "the device does not execute the command FILL");
    cr_plan_end(&r);
    cr_plan_drop(&p);
}

/* --- checks --- */

/* The commands use buffers of 64 bytes; 0 is the input. */
static void breaks(const char *commands, const char *message)
{
    static const cr_executor by = {.ops = &cr_oracle_ops};
    cr_plan p = {.arena = {0}};
    cr_text text = {0};

    cr_text_printf(&text, "plan {\n %%0 = input 64\n %%1 = buffer 64\n %s\n}\n", commands);
    OK(cr_plan_parse(&p, cr_text_str(&text)));
    FAILS(CR_VALUE, cr_plan_check(&p, &by, 0));
    CHECK(strstr(cr_error_message(), message));
    cr_text_drop(&text);
    cr_plan_drop(&p);
}

TEST(elements_outside_their_buffer_are_refused)
{
    breaks("FILL %1:float32[17] = #00",
           "FILL 1 of the plan: elements are outside their buffer");
    breaks("WAIT FILL %1+4:float32[16] = #00", "FILL 2 of the plan: elements are outside");
    breaks("FILL %1-4:float32[1] = #00", "outside");
    breaks("MOVE %1:int8[2] = %0:int8[2] by [-1]", "outside");
    breaks("MOVE %1:int8[2] = %0:int8[2] by [4611686018427387904]", "outside");
    breaks("COPY %1 = %0 65", "outside");
    breaks("COPY host = %1+60 8", "outside");
    breaks("LIBRARY sort((%0:float32[32])) -> ()", "outside");
    breaks("return %1:float32[4, 5]", "result 1 of the plan: elements are outside");
}

TEST(other_geometry_that_no_command_has_is_refused)
{
    breaks("FILL %1+2:float32[1] = #00", "not aligned");
    breaks("FILL none:float32[1] = #00", "no buffer");
    breaks("FILL %1:float32[4] by [0] = #00", "a result share memory");
    breaks("FILL %1:float32[-1] = #00", "negative");
    breaks("FILL %1:int8[4611686018427387904, 4] by [0, 0] = #00", "too many elements");
    breaks("MOVE %1:int8[4] = %0:int8[3]", "does not broadcast");
    breaks("MOVE %1:int8[4] = %0:int8[1, 4]", "does not broadcast");
    breaks("COPY %1 = %1+8 16", "share memory");
    breaks("COPY %1 = none 4", "no such bytes");
}

TEST(elements_at_computed_places_are_inside_for_each_index)
{
    breaks("INDEXED read float32[2] table %0 by [0] dense %1 by [1] at int64 %0 by [1] unit 4 "
           "below 17",
           "outside");
    breaks("COMBINE add float32[2] table %1 by [0] number # at int64 %0 by [1] unit 4 below 4 "
           "numbered %1:float32[2] by [16]",
           "outside");
    breaks("COMBINE add float32[2] table %1 by [0] number # at int64 %1 by [1] unit 4 below 4",
           "the index shares memory");
    breaks("COMBINE min complex64[2] table %1 by [1] number #", "the dtype");
    breaks("COMBINE read float32[2] table %1 by [1] number #", "this operation");
    breaks("INDEXED read float32[2] table %0 by [0] dense %1 by [1] at int64 %0 by [1] unit 4 "
           "below 4 error 99 \"\"",
           "kind of error");
}

#define WINDOWS(last) WINDOWS_BY(" ", last)
#define WINDOWS_BY(divisor, last)                                                              \
    "WINDOWS sum %1:float32[2] which none:float32[] from %0:float32[4] planes 1 of [4, 2] "    \
    "divisor 1" divisor                                                                        \
    "dim 1 of 1 start [0, 1] ranges [0, 0, 1] dim 1 of 1 start [0, 1] ranges "                 \
    "[0, 0, 1] " last

TEST(windows_stay_in_their_plane)
{
    breaks(WINDOWS("dim 2 of 4 start [0, 1, 2] ranges [0, 1, 2, 3, 1, 2]"),
           "outside their plane");
    breaks(WINDOWS("dim 2 of 4 start [0, 1, 2] ranges [0, 1, 2, -1, 1, 2]"), "out of range");
    breaks(WINDOWS("dim 2 of 3 start [0, 1, 2] ranges [0, 1, 4, 1, 1, 4]"),
           "outside their plane");
    breaks(WINDOWS_BY(" shares ", "dim 2 of 3 start [0, 1, 2] ranges [0, 1, 2, 1, 1, 2]"),
           "outside their plane");
    breaks(WINDOWS("dim 2 of 0 start [0, 1, 1] ranges [0, 1, 2]"), "no elements");
    breaks(WINDOWS("dim 2 of 4 start [0, 2, 1] ranges [0, 1, 2]"), "before they begin");
    breaks(WINDOWS("dim 2 of 4 start [0, 0, 0] ranges [] count [1.0, nan]"), "a factor");
}

TEST(limits_of_geometry_pass)
{
    static const cr_executor by = {.ops = &cr_oracle_ops};
    cr_plan p = {.arena = {0}};

    OK(cr_plan_parse(&p, "plan {\n %0 = buffer 0\n %1 = buffer 64\n"
                         " MOVE %0:int8[0, 4611686018427387904] = none:int8[0, 1] by [1, -9]\n"
                         " FILL %1+60:float32[1, 1, 1] by [4611686018427387904, -1, 0] = #00\n"
                         " MOVE %1:int8[8] by [8] = %1+1:int8[1] by [9]\n}\n"));
    EQ(cr_plan_check(&p, &by, 0), CR_OK);
    cr_plan_drop(&p);
}

TEST(memory_of_the_caller_has_the_bytes_of_its_buffer)
{
    static const cr_executor by = {.ops = &cr_oracle_ops};
    cr_plan p = {.arena = {0}};
    char bytes[8];

    OK(cr_plan_parse(&p, "plan {\n %0 = input 9\n}\n"));
    cr_plan_run r = cr_plan_start(&p, &by);
    FAILS(CR_VALUE, test_plan_give(&r, 0, bytes, sizeof bytes));
    EQ_STR(cr_error_message(), "buffer 0 of the plan has 9 bytes, and 8 are given");
    cr_plan_end(&r);
    cr_plan_drop(&p);
}

/* --- collecting --- */

TEST(commands_of_a_device_are_collected)
{
    static const cr_executor by = {.ops = &cr_oracle_ops};
    const cr_device_ops *ops;
    cr_plan p = {.arena = {0}};
    cr_text out = {0};
    int64_t size = 2, step = 1;
    uint32_t block;
    int32_t seven = 7, read[2] = {0, 0};

    OK(cr_collect_start(&p, &by));
    FAILS(CR_RUNTIME, cr_collect_start(&p, &by));
    ops = cr_device_of((cr_device_kind)cr_collect_device().kind);
    cr_array a = {ops->get(0, 8, &block), CR_I32, 1, &size, &step};
    EQ(ops->fill(0, &a, &seven), NULL);
    EQ(ops->copy_out(0, read, a.data, sizeof read), NULL);
    EQ(read[0] + read[1], 14);
    OK(cr_plan_add_output(&p, &a));
    OK(cr_collect_end());
    EQ(ops->count(), 0);
    EQ(ops->get(0, 8, &block), NULL);
    cr_plan_print(&out, &p);
    EQ_STR(cr_text_str(&out), "plan of values {\n  %0 = buffer 8\n  FILL %0:int32[2] = #07\n"
                              "  COPY host = %0 8\n  return %0:int32[2]\n}\n");
    cr_text_drop(&out);
    cr_plan_drop(&p);
}
