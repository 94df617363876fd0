/* Promises of calls between ranks: by tensors, by entries and by commands of plans.  The engine
 * `fake` plays one rank of any number, whose calls leave buffers as they are. */
#include "base/test.h"
#include "plan/plan.h"
#include "plan/test.h"
#include "whole/collective.h"
#include <stdio.h>
#include <string.h>

static cr_comm *group;

static void start(void)
{
    cr_comm_how how = {"fake", "test", 1, 2, NULL, NULL, 20000, "", NULL};

    OK(cr_tensor_start());
    cr_collective_install();
    OK(cr_comm_new(&group, &how));
    OK(cr_comm_name(group, "0"));
}

static void end(void)
{
    cr_comm_forget(group);
    cr_comm_drop(group);
}

static const char plan_text[] =
    "plan {\n"
    "  %0 = input 16\n"
    "  %1 = buffer 16\n"
    "  MOVE %1:float32[4] = %0:float32[4]\n"
    "  COLLECTIVE all_reduce \"sum\" of \"0\" root -1 () -> (%1:float32[4])\n"
    "  %2 = buffer 16\n"
    "  COLLECTIVE all_to_all \"\" of \"0\" root -1 (%0:float32[4]) -> (%2:float32[4]) rows [1, "
    "3] to [1, 3]\n"
    "  COLLECTIVE wait (%1:float32[4])\n"
    "  return %1:float32[4]\n"
    "}\n";

static cr_status run_plan(const char *text, float *out)
{
    static const cr_executor by = {.ops = &cr_oracle_ops};
    float x[4] = {1, 2, 3, 4};
    cr_plan p = {0};
    cr_status st = cr_plan_parse(&p, text);
    cr_plan_run r = cr_plan_start(&p, &by);
    char *at;

    if (!st)
        st = test_plan_give(&r, 0, x, sizeof x);
    if (!st)
        st = cr_plan_execute(&r);
    if (!st)
        st = cr_plan_place(&at, &r, p.output.at[0].data);
    if (!st)
        memcpy(out, at, sizeof x);
    cr_status ended = cr_plan_end(&r);
    st = st ? st : ended;
    cr_plan_drop(&p);
    return st;
}

TEST(a_plan_starts_calls_and_waits_for_all_of_them)
{
    float out[4] = {0};

    start();
    OK(run_plan(plan_text, out));
    EQ((int)out[0], 1);
    EQ((int)out[3], 4);
    EQ(cr_comm_sequence(group), 2);
    EQ(cr_collective_pending(), 0); /* the end of the run waited for all_to_all */
    end();
}

/* The plan with a text replaced is refused with this error. */
static void refuses(const char *from, const char *to, const char *error)
{
    char text[sizeof plan_text + 64];
    const char *at = strstr(plan_text, from);
    float out[4];

    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - plan_text), plan_text, to,
             at + strlen(from));
    EQ(run_plan(text, out) != CR_OK, true);
    EQ_STR(strstr(cr_error_message(), error) ? error : cr_error_message(), error);
    EQ(cr_collective_pending(), 0);
}

TEST(plans_of_calls_that_cannot_be_are_refused)
{
    start();
    refuses("\"sum\" of \"0\"", "\"sum\" of \"9\"", "registered under the name 9");
    refuses("\"sum\" of", "\"median\" of", "Unrecognized reduce_op: median");
    refuses("all_reduce", "all_sum", "no call between ranks is called all_sum");
    refuses("all_reduce", "barrier", "a plan has no call barrier");
    refuses("() -> (%1", "(%0:float32[4]) -> (%1", "not those of the call all_reduce");
    refuses("[1, 3]", "[2, 3]", "the rows of parts are not those of their tensor");
    refuses("to [1, 3]", "to [5, -1]", "the rows of parts are not those of their tensor");
    refuses("(%0:float32[4]) -> (%2:float32[4]) rows",
            "(%0:float64[4]) -> (%2:float32[4]) rows", "elements are outside their buffer");
    refuses("-> (%2:float32[4])", "-> ()", "as many results as operands");
    end();
}

TEST(names_are_those_of_the_first_group_that_has_them)
{
    cr_comm_how how = {"fake", "test", 0, 4, NULL, NULL, 20000, "", NULL};
    cr_comm_found found = {NULL, -1};
    cr_comm *other = NULL;

    start();
    OK(cr_comm_new(&other, &how));
    OK(cr_comm_name(other, "0"));
    OK(cr_comm_find(&found, "0", CR_CPU));
    EQ(found.comm == group, true);
    EQ(found.rank, 1);
    cr_comm_drop(found.comm);
    end();
    FAILS(CR_RUNTIME, cr_comm_find(&found, "0", CR_CPU));
    cr_comm_drop(other);
}

TEST(results_that_nobody_can_wait_for_leave_the_list)
{
    int64_t size = 4;
    cr_call_args barrier = {.kind = CR_CALL_BARRIER, .root = -1};
    cr_tensor *kept = NULL, *view = NULL;

    start();
    for (int i = 0; i < 200; i++) {
        cr_collective c = {.kind = CR_CALL_ALL_REDUCE, .reduce = "sum", .root = -1};
        OK(cr_tensor_new(&c.out, CR_F32, (cr_device){.kind = CR_CPU}, 1, &size));
        OK(cr_collective_start("0", &c, 1));
        if (i == 0)
            kept = cr_keep(c.out);
        if (i == 1)
            OK(cr_tensor_alias(&view, c.out));
        cr_drop(c.out);
        OK(cr_comm_run(group, &barrier, "")); /* the call before it has ended */
    }
    CHECK(cr_collective_pending() < 100);
    size_t left = cr_collective_pending();
    OK(cr_collective_wait(kept));
    OK(cr_collective_wait(view));
    EQ(cr_collective_pending(), left - 2);
    cr_drop(kept);
    cr_drop(view);
    end();
}
