/* Promises about profiles. */
#include "base/test.h"
#include "entry.h"
#include "tensor/profile.h"
#include <string.h>

static cr_tensor *profile_ones(void)
{
    int64_t size[] = {2, 3};
    cr_tensor *t = NULL;

    OK(cr_tensor_start());
    OK(cr_tensor_new(&t, CR_F32, CR_HOST, 2, size));
    cr_view v = cr_view_of(t);
    OK(cr_fill_elements(&v, cr_scalar_int(1)));
    return t;
}

static void profile_call_exp(cr_tensor *t)
{
    cr_value arg = cr_of_tensor(t), result;

    OK(cr_call(cr_entry.exp, &arg, &result));
    cr_drop(result.t);
}

TEST(calls_are_events_inside_the_running_event)
{
    cr_tensor *t = profile_ones();

    OK(cr_profile_start(true));
    int32_t outer = cr_profile_enter(CR_PROFILE_USER, "outer", -1);
    profile_call_exp(t);
    cr_profile_leave(outer);
    profile_call_exp(t);
    cr_profile *p = cr_profile_stop();
    EQ(p->events.len, 3);
    EQ(strcmp(p->events.at[0].name, "outer"), 0);
    EQ(strcmp(p->events.at[1].name, "exp"), 0);
    EQ(p->events.at[1].parent, 0);
    EQ(p->events.at[2].parent, -1);
    CHECK(p->events.at[0].start <= p->events.at[1].start);
    CHECK(p->events.at[1].end <= p->events.at[0].end);
    EQ(p->inputs.at[p->events.at[1].inputs], CR_TENSOR);
    EQ(p->inputs.at[p->events.at[1].inputs + 4], 3);
    cr_profile_drop(p);
    cr_drop(t);
}

TEST(a_thread_without_a_profile_writes_nothing)
{
    cr_tensor *t = profile_ones();

    CHECK(!cr_profiling());
    profile_call_exp(t);
    EQ(cr_profile_enter(CR_PROFILE_USER, "none", -1), -1);
    cr_profile_leave(-1);
    EQ(cr_profile_stop(), NULL);
    cr_drop(t);
}

TEST(a_second_profile_is_refused_and_open_events_end_with_the_profile)
{
    OK(cr_tensor_start());
    OK(cr_profile_start(false));
    FAILS(CR_RUNTIME, cr_profile_start(false));
    cr_profile_enter(CR_PROFILE_USER, "open", -1);
    cr_profile *p = cr_profile_stop();
    CHECK(p->events.at[0].end >= p->events.at[0].start);
    EQ(p->open, -1);
    cr_profile_drop(p);
}
