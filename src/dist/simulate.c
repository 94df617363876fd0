/* Running the actions of a step on clocks.
 *
 * An action of a rank starts when the action before it has ended and those of other stages that
 * it needs have sent their results.  Inside of it the units of the stage follow each other.  A
 * call between ranks starts when the rank's last call has ended; while one is in progress the
 * rank computes slower by the machine's `share`.
 *
 * The host issues commands and calls in the order of the program.  A device begins a unit when
 * the host has begun to issue it, and ends it no earlier than the host does; a call starts when
 * it has been issued.  Without a device the host computes, so its work delays computation. */
#include "dist/simulate.h"
#include "base/memory.h"
#include <string.h>

typedef struct {
    double compute, calls; /* when the last one ends */
    double host;           /* when it has issued the last command, where a device computes */
    double busy, exposed, hosted, idle;
    double bucket; /* bytes of gradients that wait for their call */
    bool full;     /* the first bucket has started */
    int next;      /* of its actions */
} rank_clock;

/* Of a stage. */
typedef struct {
    int first, units, rank;
    int forwards, ends; /* parts that went forward, and that backward has left */
    int most;           /* parts between the two */
} stage_state;

typedef struct {
    const cr_sim_step *step;
    const cr_sim_machine *m;
    const cr_sim_how *how;
    const cr_sim_schedule *schedule;
    cr_sim_schedule alone; /* one stage, one part */
    int data, parts;
    double forward_scale, backward_scale;
    double commands; /* of all units */
    rank_clock *rank;
    stage_state *stage;
    double *done; /* by kind, stage and part: the end of an action, or -1 */
    cr_sim_result out;
    size_t room;
} simulation;

static const char kinds[] = "FBIW";

/* --- units --- */

/* The time of a unit's forward pass of the whole batch without the scale. */
static double unit_work(const simulation *x, int k)
{
    const cr_sim_unit *u = &x->step->unit[k];
    double by_flops = u->flops / x->m->flops, by_bytes = u->moved / x->m->memory;

    return by_flops > by_bytes ? by_flops : by_bytes;
}

/* A measured time is divided among the units as the model says. */
static void find_scales(simulation *x)
{
    double all = 0;

    const double *measured = x->step->measured;

    for (int k = 0; k < x->step->units; k++) {
        all += unit_work(x, k);
        x->commands += x->step->unit[k].commands;
    }
    x->forward_scale =
        all > 0 && measured[CR_SIM_FORWARD] > 0 ? measured[CR_SIM_FORWARD] / all : 1;
    x->backward_scale =
        all > 0 && measured[CR_SIM_BACKWARD] > 0 ? measured[CR_SIM_BACKWARD] / all : 2;
}

static double unit_bytes(const simulation *x, int k)
{
    return x->step->unit[k].parameters * x->step->element / x->how->tensor;
}

static bool shards(const simulation *x) { return x->data > 1 && x->how->data == CR_SIM_FSDP; }

/* Contiguous units of about equal work, at least one for each stage. */
static void cut_stages(simulation *x)
{
    int stages = x->schedule->stages, at = 0;
    double all = 0, before = 0;

    for (int k = 0; k < x->step->units; k++)
        all += unit_work(x, k);
    for (int s = 0; s < stages; s++) {
        stage_state *t = &x->stage[s];
        t->first = at;
        while (at < x->step->units - (stages - 1 - s) &&
               (!t->units || s == stages - 1 ||
                before + unit_work(x, at) / 2 < all * (s + 1) / stages)) {
            before += unit_work(x, at++);
            t->units++;
        }
    }
}

/* --- clocks --- */

static cr_status note(simulation *x, int rank, cr_sim_lane lane, double from, double to,
                      cr_sim_action a)
{
    if (x->out.events == x->room) {
        size_t room = x->room ? 2 * x->room : 64;
        cr_sim_event *more = cr_realloc(x->out.event, room * sizeof *more);
        if (!more)
            return CR_MEMORY;
        x->out.event = more;
        x->room = room;
    }
    x->out.event[x->out.events++] =
        (cr_sim_event){rank, lane, from, to, a.kind, a.stage, a.part};
    return CR_OK;
}

/* Computes for `work` seconds, longer while calls are in progress. */
static void advance(const simulation *x, rank_clock *c, double work)
{
    double beside = c->calls > c->compute ? c->calls - c->compute : 0, speed = 1 - x->m->share;
    double took = beside * speed >= work ? work / speed : work + beside * (1 - speed);

    c->compute += took;
    c->busy += work;
    c->exposed += took - work;
}

static void wait_until(rank_clock *c, double time)
{
    if (time > c->compute) {
        c->exposed += time - c->compute;
        c->compute = time;
    }
}

/* --- the host --- */

/* The host works for `seconds` on something else than computation. */
static void host_works(const simulation *x, rank_clock *c, double seconds)
{
    if (x->m->device) {
        c->host += seconds;
        return;
    }
    c->compute += seconds;
    c->hosted += seconds;
}

static void wait_for_host(rank_clock *c)
{
    if (c->host > c->compute) {
        c->hosted += c->host - c->compute;
        c->compute = c->host;
    }
}

/* The time in which the host issues the commands of a unit for one part of the batch. */
static double issue_time(const simulation *x, int k, cr_sim_phase phase)
{
    double all = x->step->host[phase];

    if (!(all > 0))
        all = x->m->command * x->commands * (phase == CR_SIM_BACKWARD ? 2 : 1);
    return all *
           (x->commands > 0 ? x->step->unit[k].commands / x->commands : 1. / x->step->units);
}

/* A unit is issued, and computed for `work` seconds. */
static void run_unit(const simulation *x, rank_clock *c, int k, cr_sim_phase phase, double work)
{
    if (x->m->device) {
        wait_for_host(c);
        c->host += issue_time(x, k, phase);
    }
    advance(x, c, work);
    wait_for_host(c);
}

/* What the classes of data parallel ranks add for a unit; `first` of those of a pass. */
static void add_host(const simulation *x, rank_clock *c, int k, cr_sim_phase phase, bool first)
{
    const cr_sim_host *h = &x->m->host[x->how->data][phase];
    const cr_sim_unit *u = &x->step->unit[k];
    double bytes = unit_bytes(x, k);
    bool unit = x->how->data == CR_SIM_FSDP ? bytes > 0 : first;

    if (x->data > 1)
        host_works(x, c, h->unit * unit + h->tensor * u->tensors + h->byte * bytes);
}

/* A device copies parameters or gradients between their tensors and the memory of a call; on
 * hosts these copies are among the bytes of cr_sim_host. */
static void copy_bytes(const simulation *x, rank_clock *c, double bytes)
{
    if (x->m->device)
        advance(x, c, 2 * bytes / x->m->memory);
}

/* --- calls --- */

static double call_start(const rank_clock *c)
{
    double from = c->calls > c->compute ? c->calls : c->compute;

    return from > c->host ? from : c->host;
}

/* Starts a call of the data parallel ranks. */
static cr_status start_call(simulation *x, int rank, char kind, cr_sim_action a, double bytes)
{
    static const cr_sim_call calls[] = {['G' - 'G'] = CR_SIM_ALL_GATHER,
                                        ['R' - 'G'] = CR_SIM_ALL_REDUCE,
                                        ['S' - 'G'] = CR_SIM_REDUCE_SCATTER};
    rank_clock *c = &x->rank[rank];
    double from = call_start(c);

    a.kind = kind;
    c->calls = from + cr_sim_call_time(x->m, calls[kind - 'G'], x->data,
                                       x->how->tensor * x->how->pipeline, bytes);
    return note(x, rank, CR_SIM_TALKS, from, c->calls, a);
}

/* Rank 0 of the data parallel ranks sends the stage's buffers, for which forward waits.  A host
 * that computes spends all of the time itself. */
static cr_status send_buffers(simulation *x, int rank, cr_sim_action a)
{
    const stage_state *t = &x->stage[a.stage];
    rank_clock *c = &x->rank[rank];
    double buffers = 0;

    for (int k = t->first; k < t->first + t->units; k++)
        buffers += x->step->unit[k].buffers;
    if (x->data == 1 || shards(x) || !(buffers > 0))
        return CR_OK;
    host_works(x, c, buffers * x->m->host[CR_SIM_DDP][CR_SIM_FORWARD].buffer);
    if (!x->m->device)
        return CR_OK;
    double from = call_start(c);
    c->calls = from + x->m->buffers + buffers * x->m->each_buffer;
    a.kind = 'C';
    CR_TRY(note(x, rank, CR_SIM_TALKS, from, c->calls, a));
    wait_until(c, c->calls);
    return CR_OK;
}

/* Tensor parallel ranks add two results of a layer, and wait. */
static cr_status add_results(simulation *x, int rank, cr_sim_action a, int k)
{
    const cr_sim_unit *u = &x->step->unit[k];
    rank_clock *c = &x->rank[rank];

    if (x->how->tensor == 1 || !(u->flops > 0))
        return CR_OK;
    double from = call_start(c);
    a.kind = 'R';
    c->calls = from + 2 * cr_sim_call_time(x->m, CR_SIM_ALL_REDUCE, x->how->tensor, 1,
                                           u->output / x->parts);
    CR_TRY(note(x, rank, CR_SIM_TALKS, from, c->calls, a));
    wait_until(c, c->calls);
    return CR_OK;
}

/* --- actions --- */

static cr_status forward(simulation *x, int rank, cr_sim_action a)
{
    const stage_state *t = &x->stage[a.stage];
    rank_clock *c = &x->rank[rank];

    if (!t->forwards)
        CR_TRY(send_buffers(x, rank, a));
    for (int k = t->first; k < t->first + t->units; k++) {
        double work = unit_work(x, k) * x->forward_scale / x->parts / x->how->tensor;
        if (!t->forwards)
            add_host(x, c, k, CR_SIM_FORWARD, k == t->first);
        if (shards(x) && !t->forwards && unit_bytes(x, k) > 0) {
            CR_TRY(start_call(x, rank, 'G', a, unit_bytes(x, k)));
            wait_until(c, c->calls);
            copy_bytes(x, c, unit_bytes(x, k));
        }
        run_unit(x, c, k, CR_SIM_FORWARD, work);
        CR_TRY(add_results(x, rank, a, k));
    }
    return CR_OK;
}

/* A unit's gradients are reduced when all parts of the batch have gone back. */
static cr_status reduce(simulation *x, int rank, cr_sim_action a, int k, bool last)
{
    rank_clock *c = &x->rank[rank];
    double bytes = unit_bytes(x, k);

    if (x->data == 1)
        return CR_OK;
    add_host(x, c, k, CR_SIM_BACKWARD, last);
    copy_bytes(x, c, bytes);
    if (shards(x)) {
        if (!(bytes > 0))
            return CR_OK;
        CR_TRY(start_call(x, rank, 'S', a, bytes));
        if (x->m->blocking)
            wait_until(c, c->calls);
        return CR_OK;
    }
    c->bucket += bytes;
    double most = c->full ? x->m->bucket : x->m->first_bucket;
    while (c->bucket > 0 && (c->bucket >= most || last)) {
        double sent = c->bucket < most ? c->bucket : most;
        CR_TRY(start_call(x, rank, 'R', a, sent));
        c->bucket -= sent;
        c->full = true;
        most = x->m->bucket;
    }
    return CR_OK;
}

/* The calls that collect the parameters of a unit go ahead by one unit; with a pipeline, and of
 * the last unit, they stay from forward on. */
static cr_status gather_again(simulation *x, int rank, cr_sim_action a, int k)
{
    const stage_state *t = &x->stage[a.stage];

    if (!shards(x) || x->schedule->parts > 1 || k < t->first || k == t->first + t->units - 1 ||
        !(unit_bytes(x, k) > 0))
        return CR_OK;
    return start_call(x, rank, 'G', a, unit_bytes(x, k));
}

static cr_status backward(simulation *x, int rank, cr_sim_action a)
{
    const stage_state *t = &x->stage[a.stage];
    rank_clock *c = &x->rank[rank];
    bool ends = a.kind != 'I' && t->ends == x->schedule->parts - 1;
    double half = a.kind == 'B' ? 1 : 0.5, ready = c->compute;

    for (int k = t->first + t->units - 1; k >= t->first; k--) {
        double work = unit_work(x, k) * x->backward_scale * half / x->parts / x->how->tensor;
        wait_until(c, ready);
        CR_TRY(gather_again(x, rank, a, k - 1));
        ready = c->calls;
        run_unit(x, c, k, CR_SIM_BACKWARD, work);
        if (a.kind != 'W')
            CR_TRY(add_results(x, rank, a, k));
        if (ends)
            CR_TRY(reduce(x, rank, a, k, k == t->first));
    }
    return CR_OK;
}

static double *end_of(const simulation *x, char kind, int stage, int part)
{
    size_t k = (size_t)(strchr(kinds, kind) - kinds);

    return &x->done[(k * (size_t)x->schedule->stages + (size_t)stage) *
                        (size_t)x->schedule->parts +
                    (size_t)part];
}

/* The time at which what the action needs is there; -1: not yet. */
static double ready_at(const simulation *x, cr_sim_action a)
{
    int from = a.kind == 'F' ? a.stage - 1 : a.stage + 1;
    double own = a.kind == 'F'   ? 0
                 : a.kind == 'W' ? *end_of(x, 'I', a.stage, a.part)
                                 : *end_of(x, 'F', a.stage, a.part);

    if (own < 0 || a.kind == 'W' || from < 0 || from >= x->schedule->stages)
        return own;
    const stage_state *t = &x->stage[a.kind == 'F' ? from : a.stage];
    double end = *end_of(x, a.kind == 'F' ? 'F' : 'B', from, a.part);
    if (end < 0 && a.kind != 'F')
        end = *end_of(x, 'I', from, a.part);
    if (end < 0)
        return -1;
    if (x->stage[from].rank != x->stage[a.stage].rank)
        end += cr_sim_send_time(x->m, x->how->tensor,
                                x->step->unit[t->first + t->units - 1].output / x->parts);
    return end > own ? end : own;
}

static void count_part(stage_state *t, char kind)
{
    t->forwards += kind == 'F';
    t->ends += kind == 'B' || kind == 'W';
    t->most = t->forwards - t->ends > t->most ? t->forwards - t->ends : t->most;
}

/* Runs the next action of a rank if it is ready. */
static cr_status try_next(simulation *x, int rank, bool *moved)
{
    rank_clock *c = &x->rank[rank];
    cr_sim_action a = x->schedule->at[rank][c->next];
    double ready = ready_at(x, a);

    if (ready < 0)
        return CR_OK;
    if (ready > c->compute) {
        c->idle += ready - c->compute;
        c->compute = ready;
    }
    double from = c->compute;
    CR_TRY(a.kind == 'F' ? forward(x, rank, a) : backward(x, rank, a));
    CR_TRY(note(x, rank, CR_SIM_COMPUTES, from, c->compute, a));
    *end_of(x, a.kind, a.stage, a.part) = c->compute;
    count_part(&x->stage[a.stage], a.kind);
    c->next++;
    *moved = true;
    return CR_OK;
}

static cr_status fail_cycle(const simulation *x)
{
    cr_text waits = {0};

    for (int r = 0; r < x->schedule->ranks; r++) {
        int k = x->rank[r].next;
        if (k == x->schedule->len[r])
            continue;
        cr_sim_action a = x->schedule->at[r][k];
        cr_text_printf(&waits, "%srank %d waits at %d%c%d", waits.len ? "; " : "", r, a.stage,
                       a.kind, a.part);
    }
    cr_status st = cr_fail(CR_RUNTIME, "the schedule has a cycle: %s", cr_text_str(&waits));
    cr_text_drop(&waits);
    return st;
}

static cr_status run_actions(simulation *x)
{
    bool moved = true, left = true;

    while (moved && left) {
        moved = left = false;
        for (int r = 0; r < x->schedule->ranks; r++)
            while (x->rank[r].next < x->schedule->len[r]) {
                bool one = false;
                CR_TRY(try_next(x, r, &one));
                moved |= one;
                left |= !one;
                if (!one)
                    break;
            }
    }
    return left ? fail_cycle(x) : CR_OK;
}

/* --- the end --- */

static double parameters_of(const simulation *x, int rank)
{
    double n = 0;

    for (int s = 0; s < x->schedule->stages; s++)
        for (int k = 0; x->stage[s].rank == rank && k < x->stage[s].units; k++)
            n += x->step->unit[x->stage[s].first + k].parameters / x->how->tensor;
    return n;
}

/* The optimizer's step is issued; averages have been copied back to the gradients before. */
static void issue_update(const simulation *x, int rank)
{
    rank_clock *c = &x->rank[rank];

    if (x->data > 1 && !shards(x))
        copy_bytes(x, c, parameters_of(x, rank) * x->step->element);
    for (int s = 0; s < x->schedule->stages; s++)
        for (int k = 0; x->stage[s].rank == rank && k < x->stage[s].units; k++)
            add_host(x, c, x->stage[s].first + k, CR_SIM_UPDATE, !k);
    if (x->m->device) {
        wait_for_host(c);
        c->host += x->step->host[CR_SIM_UPDATE];
    }
}

static cr_status update(simulation *x, int rank)
{
    rank_clock *c = &x->rank[rank];
    double n = parameters_of(x, rank) / (shards(x) ? x->data : 1), all = 0;
    double measured = x->step->measured[CR_SIM_UPDATE];

    for (int k = 0; k < x->step->units; k++)
        all += x->step->unit[k].parameters;
    double took = measured > 0 && all > 0
                      ? measured * n / all
                      : n * x->step->element * (3 + 2 * x->step->states) / x->m->memory;
    wait_until(c, c->calls);
    issue_update(x, rank);
    double from = c->compute;
    c->compute += took;
    c->busy += took;
    wait_for_host(c);
    return note(x, rank, CR_SIM_COMPUTES, from, c->compute, (cr_sim_action){.kind = 'U'});
}

/* Parameters, gradients, states, buckets; the whole parameters and gradients of units that are
 * there at one time; and what forward saved. */
static double memory_of(const simulation *x, int rank)
{
    double bytes = parameters_of(x, rank) * x->step->element, saved = 0, whole = 0;

    for (int s = 0; s < x->schedule->stages; s++)
        for (int k = 0; x->stage[s].rank == rank && k < x->stage[s].units; k++) {
            int unit = x->stage[s].first + k;
            saved += x->step->unit[unit].saved / x->parts / x->how->tensor * x->stage[s].most;
            whole = unit_bytes(x, unit) > whole ? unit_bytes(x, unit) : whole;
        }
    if (!shards(x))
        return bytes * (2 + x->step->states + (x->data > 1)) + saved;
    whole = x->schedule->parts > 1 ? bytes : 2 * whole;
    return bytes / x->data * (2 + x->step->states) + 2 * whole + saved;
}

static cr_status finish(simulation *x)
{
    const rank_clock *longest = &x->rank[0];

    for (int r = 0; r < x->schedule->ranks; r++) {
        CR_TRY(update(x, r));
        double memory = memory_of(x, r);
        x->out.memory = memory > x->out.memory ? memory : x->out.memory;
        if (x->rank[r].compute > x->out.seconds)
            x->out.seconds = x->rank[r].compute;
        longest = x->rank[r].busy > longest->busy ? &x->rank[r] : longest;
    }
    x->out.compute = longest->busy;
    x->out.exposed = longest->exposed;
    x->out.host = longest->hosted;
    x->out.idle = longest->idle + x->out.seconds - longest->compute;
    x->out.fits = !(x->m->capacity > 0) || x->out.memory <= x->m->capacity;
    return CR_OK;
}

/* --- checks --- */

static cr_status find_data(int *data, const cr_sim_how *how)
{
    if (how->ranks < 1 || how->tensor < 1 || how->pipeline < 1)
        return cr_fail(CR_VALUE, "numbers of ranks must be positive");
    int64_t each = (int64_t)how->tensor * how->pipeline;
    if (how->ranks % each)
        return cr_fail(
            CR_VALUE,
            "%d ranks are not a multiple of %lld: %d tensor parallel ranks for each of "
            "%d ranks of the pipeline",
            how->ranks, (long long)each, how->tensor, how->pipeline);
    *data = (int)(how->ranks / each);
    return CR_OK;
}

/* Each stage is on one rank, and each action comes once. */
static cr_status place_stages(simulation *x)
{
    const cr_sim_schedule *s = x->schedule;

    for (int k = 0; k < s->stages; k++)
        x->stage[k].rank = -1;
    for (int r = 0; r < s->ranks; r++)
        for (int k = 0; k < s->len[r]; k++) {
            cr_sim_action a = s->at[r][k];
            double *end = end_of(x, a.kind, a.stage, a.part);
            int *rank = &x->stage[a.stage].rank;
            if (*rank >= 0 && *rank != r)
                return cr_fail(CR_VALUE,
                               "Rank %d, step %d: Stage %d is assigned to both rank %d and "
                               "rank %d",
                               r, k, a.stage, r, *rank);
            if (*end == -2)
                return cr_fail(CR_VALUE, "Rank %d, step %d: %d%c%d comes twice", r, k, a.stage,
                               a.kind, a.part);
            *rank = r;
            *end = -2;
        }
    for (int k = 0; k < s->stages; k++)
        for (int m = 0; m < s->parts; m++)
            if (*end_of(x, 'F', k, m) != -2)
                return cr_fail(CR_VALUE, "stage %d of the schedule has no %dF%d", k, k, m);
    return CR_OK;
}

static cr_status prepare(simulation *x)
{
    CR_TRY(find_data(&x->data, x->how));
    if (!x->how->schedule)
        CR_TRY(cr_sim_schedule_make(&x->alone, "gpipe", 1, 1, 1));
    x->schedule = x->how->schedule ? x->how->schedule : &x->alone;
    x->parts = x->schedule->parts;
    if (x->schedule->ranks != x->how->pipeline)
        return cr_fail(CR_VALUE, "the schedule has %d ranks, the pipeline %d",
                       x->schedule->ranks, x->how->pipeline);
    if (x->step->units < x->schedule->stages)
        return cr_fail(CR_VALUE, "the step has %d units, fewer than the %d stages",
                       x->step->units, x->schedule->stages);
    size_t ends = strlen(kinds) * (size_t)x->schedule->stages * (size_t)x->parts;
    x->rank = cr_alloc_zero((size_t)x->schedule->ranks * sizeof *x->rank);
    x->stage = cr_alloc_zero((size_t)x->schedule->stages * sizeof *x->stage);
    x->done = cr_alloc_zero(ends * sizeof *x->done);
    if (!x->rank || !x->stage || !x->done)
        return CR_MEMORY;
    CR_TRY(place_stages(x));
    for (size_t k = 0; k < ends; k++)
        x->done[k] = -1;
    find_scales(x);
    cut_stages(x);
    return CR_OK;
}

cr_status cr_simulate(cr_sim_result *out, const cr_sim_step *step, const cr_sim_machine *m,
                      const cr_sim_how *how)
{
    simulation x = {.step = step, .m = m, .how = how};
    cr_status st = prepare(&x);

    if (!st)
        st = run_actions(&x);
    if (!st)
        st = finish(&x);
    cr_free(x.rank);
    cr_free(x.stage);
    cr_free(x.done);
    cr_sim_schedule_drop(&x.alone);
    if (st)
        cr_sim_result_drop(&x.out);
    else
        *out = x.out;
    return st;
}

void cr_sim_result_drop(cr_sim_result *r)
{
    cr_free(r->event);
    r->event = NULL;
}
