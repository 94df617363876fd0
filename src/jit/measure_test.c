/* The choice between ways, with invented times. */
#include "base/test.h"
#include "jit/measure.h"

/* Measures until a way is chosen; returns the number of calls. */
static int measure(cr_measure *m, const double *seconds, unsigned ready)
{
    int calls = 0, way;

    while ((way = cr_measure_next(m, ready)) >= 0) {
        cr_measure_note(m, way, seconds[way]);
        calls++;
    }
    return calls;
}

TEST(the_fastest_way_is_chosen)
{
    cr_measure m;

    cr_measure_init(&m, 4);
    EQ(m.chosen, CR_MEASURE_NONE);
    EQ(cr_measure_next(&m, 15), 0);
    measure(&m, (double[]){4e-3, 3.5e-3, 3e-3, 5e-3}, 15);
    EQ(m.chosen, 2);
    EQ(cr_measure_next(&m, 15), CR_MEASURE_NONE);
}

TEST(the_usual_way_stays_unless_another_is_clearly_faster)
{
    cr_measure m;

    cr_measure_init(&m, 2);
    measure(&m, (double[]){1e-3, 0.98e-3}, 3);
    EQ(m.chosen, 0);
    cr_measure_init(&m, 2);
    measure(&m, (double[]){1e-3, 0.95e-3}, 3);
    EQ(m.chosen, 1);
}

TEST(the_shortest_time_counts_not_the_first_or_the_last)
{
    cr_measure m;
    const double times[5] = {9e-3, 2e-3, 8e-3, 1e-3, 9e-3};

    cr_measure_init(&m, 2);
    for (int i = 0; i < 5; i++) {
        EQ(m.chosen, CR_MEASURE_NONE);
        cr_measure_note(&m, 0, 2.9e-3);
        cr_measure_note(&m, 1, times[i] < 2.9e-3 ? times[i] : 2.9e-3 * 1.5);
    }
    EQ(m.chosen, 1);
    CHECK(m.best[1] == 1e-3);
}

TEST(ways_take_turns_and_short_calls_are_measured_more_often)
{
    cr_measure m;

    cr_measure_init(&m, 3);
    for (int i = 0; i < 9; i++) {
        EQ(cr_measure_next(&m, 7), i % 3);
        cr_measure_note(&m, i % 3, 1e-3);
    }
    cr_measure_init(&m, 3);
    EQ(measure(&m, (double[]){1e-3, 1e-3, 1e-3}, 7), 15);
    cr_measure_init(&m, 3);
    EQ(measure(&m, (double[]){1e-6, 1e-6, 1e-6}, 7), 60);
}

TEST(a_way_that_is_far_behind_is_tried_three_times)
{
    cr_measure m;

    cr_measure_init(&m, 2);
    EQ(measure(&m, (double[]){1e-3, 1}, 3), 8);
    EQ(m.calls[1], 3);
    EQ(m.chosen, 0);
}

TEST(ways_that_are_not_ready_are_waited_for_and_those_that_never_are_left_out)
{
    cr_measure m;

    cr_measure_init(&m, 3);
    measure(&m, (double[]){1e-3, 1, 1}, 1);
    EQ(m.chosen, CR_MEASURE_NONE);
    cr_measure_leave_out(&m, 2);
    EQ(m.chosen, CR_MEASURE_NONE);
    measure(&m, (double[]){1e-3, 0.5e-3, 1}, 3);
    EQ(m.chosen, 1);
    cr_measure_init(&m, 2);
    cr_measure_leave_out(&m, 1);
    measure(&m, (double[]){1e-3, 0}, 3);
    EQ(m.chosen, 0);
}
