/* Measuring.
 *
 * The ways take turns, so that a disturbance of the machine affects all of them.  The shortest
 * time of each way is used, because disturbances only add time.  A way that is far slower after
 * three calls is not tried again, so that measuring costs little. */
#include "jit/measure.h"

enum { CALLS = 5, SHORT_CALLS = 20, SOON = 3 };
static const double short_seconds = 50e-6; /* the clock's cost matters below this */
static const double hopeless =
    2; /* a way that takes this many times the best is not tried again */
static const double clearly =
    0.97; /* fraction of way 0's time below which another way is chosen */

void cr_measure_init(cr_measure *m, int ways)
{
    CR_ASSERT(ways > 0 && ways <= CR_MEASURE_WAYS);
    *m = (cr_measure){.ways = ways, .chosen = CR_MEASURE_NONE};
}

static bool is_done(const cr_measure *m, int way)
{
    return m->out[way] || (m->calls[way] >= CALLS &&
                           (m->best[way] >= short_seconds || m->calls[way] >= SHORT_CALLS));
}

int cr_measure_next(const cr_measure *m, unsigned ready)
{
    int next = CR_MEASURE_NONE;

    for (int k = 0; m->chosen < 0 && k < m->ways; k++)
        if (ready >> k & 1 && !is_done(m, k) && (next < 0 || m->calls[k] < m->calls[next]))
            next = k;
    return next;
}

static double shortest(const cr_measure *m)
{
    double best = m->best[0];

    for (int k = 1; k < m->ways; k++)
        if (m->calls[k] && m->best[k] < best)
            best = m->best[k];
    return best;
}

static void choose_way(cr_measure *m)
{
    int best = 0;

    for (int k = 0; k < m->ways; k++)
        if (!is_done(m, k))
            return;
    for (int k = 1; k < m->ways; k++)
        if (!m->out[k] && m->best[k] < m->best[best])
            best = k;
    m->chosen = m->best[best] < clearly * m->best[0] ? best : 0;
}

void cr_measure_note(cr_measure *m, int way, double seconds)
{
    if (!m->calls[way]++ || seconds < m->best[way])
        m->best[way] = seconds;
    for (int k = 1; m->calls[0] && k < m->ways; k++)
        if (m->calls[k] >= SOON && m->best[k] > hopeless * shortest(m))
            m->out[k] = true;
    choose_way(m);
}

void cr_measure_leave_out(cr_measure *m, int way)
{
    CR_ASSERT(way > 0);
    m->out[way] = true;
    if (m->calls[0])
        choose_way(m);
}
