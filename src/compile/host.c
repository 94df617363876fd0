/* Temporaries in the bytes of results that come later.
 *
 * What leaves a program, a gradient say, needs a storage of its own in the end, and until its step
 * nobody needs the bytes.  A *host* is such a storage that is there early; *guests* are storages
 * at most half as large that die before the host's step, each at an offset of its own while it
 * lives.  (A larger one leaves a block behind that the result takes anyway.)
 *
 * Guests stay only where no step holds more bytes than the plan's peak was without them, and where
 * the run needs fewer blocks: of every size as many as are alive together.  Plans with choices have
 * none. */
#include "compile/program_impl.h"
#include "jit/oracle.h"
#include <string.h>

enum { MOST_GUESTS = 64 /* of a host */, MOST_WORK = 1 << 25 /* lives and steps that are looked at */ };
static const int64_t alignment = 64;

#ifdef CR_MEAN
static const int64_t least = 1;
#else
static const int64_t least = (64 << 10) + 1; /* bytes; smaller blocks are in a thread's own lists */
#endif

typedef struct {
    cr_plan *p;
    cr_life *life; /* of storages */
    int lives, host;
    int64_t host_was_born, most;       /* bytes at a step */
    int64_t *alive;                    /* by step, as it is planned now */
    int64_t *count;                    /* by step: scratch */
    int guest[MOST_GUESTS], guests;
    int64_t work;
} host_planner;

/* --- what may be a host or a guest --- */

/* Whether the step can be given the tensor that it makes. */
static bool takes_result(const cr_step *s)
{
    if (s->results != 1)
        return false;
    return s->kind == CR_STEP_GROUP || (s->kind == CR_STEP_CALL && !s->tracked && !s->list_result && cr_can_call_into(s->op));
}

static bool has_own_bytes(const host_planner *x, int k)
{
    const cr_life *l = &x->life[k];
    const cr_step *s = &x->p->steps.at[l->born];

    return l->bytes >= least && l->holds < 0 && l->host < 0 && s->reuse_read < 0 && takes_result(s) &&
           s->made_value[0]->type.known && !s->made_value[0]->type.stride;
}

static bool leaves(const host_planner *x, int k) { return x->life[k].dies >= (int64_t)x->p->steps.len; }

/* --- bytes --- */

static void count_alive(host_planner *x)
{
    const int64_t steps = (int64_t)x->p->steps.len;

    x->alive = CR_NEW_N(x->p->s, int64_t, steps);
    x->count = CR_NEW_N(x->p->s, int64_t, steps + 1);
    for (int k = 0; k < x->lives; k++) {
        const cr_life *l = &x->life[k];
        x->alive[l->born] += l->bytes;
        if (l->dies + 1 < steps)
            x->alive[l->dies + 1] -= l->bytes;
    }
    for (int64_t i = 0; i < steps; i++) {
        x->alive[i] += i ? x->alive[i - 1] : 0;
        x->most = x->alive[i] > x->most ? x->alive[i] : x->most;
    }
}

static void add_alive(host_planner *x, int64_t from, int64_t to, int64_t bytes)
{
    for (int64_t i = from; i < to; i++)
        x->alive[i] += bytes;
    x->work += to > from ? to - from : 0;
}

/* Blocks of so many bytes that are in use together. */
static int64_t most_together(host_planner *x, int64_t bytes)
{
    const int64_t steps = (int64_t)x->p->steps.len;
    int64_t now = 0, most = 0;

    memset(x->count, 0, (size_t)(steps + 1) * sizeof *x->count);
    for (int k = 0; k < x->lives; k++)
        if (x->life[k].bytes == bytes && x->life[k].host < 0) {
            x->count[x->life[k].born]++;
            x->count[x->life[k].dies < steps ? x->life[k].dies + 1 : steps]--;
        }
    for (int64_t i = 0; i < steps; i++) {
        now += x->count[i];
        most = now > most ? now : most;
    }
    x->work += x->lives + 2 * steps;
    return most;
}

/* Bytes of the blocks that the run needs of the host's and the guests' sizes. */
static int64_t bytes_of_blocks(host_planner *x)
{
    int64_t bytes = x->life[x->host].bytes, all = bytes * most_together(x, bytes);

    for (int i = 0; i < x->guests; i++) {
        bool again = false;
        bytes = x->life[x->guest[i]].bytes;
        for (int k = 0; k < i; k++)
            again = again || x->life[x->guest[k]].bytes == bytes;
        all += again ? 0 : bytes * most_together(x, bytes);
    }
    return all;
}

/* --- guests --- */

static bool live_together(const cr_life *a, const cr_life *b) { return a->born <= b->dies && b->born <= a->dies; }

/* Where the guest lies apart from those that live when it does; -1: nowhere. */
static int64_t find_place(const host_planner *x, const cr_life *guest)
{
    int64_t at = 0;

    for (int i = 0; i < x->guests; i++) {
        const cr_life *g = &x->life[x->guest[i]];
        if (live_together(g, guest) && at < g->at + g->bytes && g->at < at + guest->bytes) {
            at = (g->at + g->bytes + alignment - 1) / alignment * alignment;
            i = -1; /* it moved on: all of them again */
        }
    }
    return at + guest->bytes <= x->life[x->host].bytes ? at : -1;
}

static void take_in(host_planner *x, int k)
{
    cr_life *host = &x->life[x->host], *guest = &x->life[k];

    if (!has_own_bytes(x, k) || leaves(x, k) || guest->dies >= x->host_was_born || 2 * guest->bytes > host->bytes)
        return;
    if ((guest->at = find_place(x, guest)) < 0)
        return;
    add_alive(x, guest->born, host->born, host->bytes);
    add_alive(x, guest->born, guest->dies + 1, -guest->bytes);
    host->born = guest->born < host->born ? guest->born : host->born;
    x->guest[x->guests++] = k;
}

/* Those that were born until then get bytes of their own again. */
static void send_away(host_planner *x, int64_t until)
{
    cr_life *host = &x->life[x->host];
    int64_t first = x->host_was_born;
    int stay = 0;

    for (int i = 0; i < x->guests; i++) {
        const cr_life *g = &x->life[x->guest[i]];
        if (g->born <= until) {
            add_alive(x, g->born, g->dies + 1, g->bytes);
            continue;
        }
        first = g->born < first ? g->born : first;
        x->guest[stay++] = x->guest[i];
    }
    x->guests = stay;
    add_alive(x, host->born, first, -host->bytes);
    host->born = first;
}

/* The last step before the host's own at which there are more bytes than there may be; -1: none. */
static int64_t find_excess(host_planner *x)
{
    int64_t i = x->host_was_born - 1, from = x->life[x->host].born;

    while (i >= from && x->alive[i] <= x->most)
        i--;
    x->work += x->host_was_born - i;
    return i < from ? -1 : i;
}

/* Guests that the host has for the time being become its guests, or are none. */
static void set_hosts(host_planner *x, int host)
{
    for (int i = 0; i < x->guests; i++)
        x->life[x->guest[i]].host = host;
}

/* Whether fewer bytes of blocks are needed with the guests. */
static bool is_worth_it(host_planner *x)
{
    int64_t *born = &x->life[x->host].born, early = *born, without;

    *born = x->host_was_born;
    without = bytes_of_blocks(x);
    *born = early;
    set_hosts(x, x->host);
    if (bytes_of_blocks(x) < without)
        return true;
    set_hosts(x, -1);
    return false;
}

/* The latest first: what a late guest needs, an earlier one has. */
static void fill_host(host_planner *x)
{
    int64_t i;

    x->guests = 0;
    x->host_was_born = x->life[x->host].born;
    for (int k = x->lives - 1; k >= 0 && x->guests < MOST_GUESTS; k--)
        if (x->life[k].born < x->host_was_born)
            take_in(x, k);
    x->work += x->lives;
    while ((i = find_excess(x)) >= 0)
        send_away(x, i);
    if (x->guests && !is_worth_it(x))
        send_away(x, x->host_was_born);
}

/* --- the steps --- */

static void set_hosting(cr_plan *p, int64_t step, cr_hosting h)
{
    cr_hosting *kept = CR_NEW(p->s, cr_hosting);

    *kept = h;
    p->steps.at[step].hosting = kept;
}

static uint32_t alive_at(const host_planner *x, int64_t step)
{
    uint32_t n = 0;

    for (int i = 0; i < x->guests; i++)
        n += x->life[x->guest[i]].born < step && x->life[x->guest[i]].dies >= step;
    return n;
}

static void tell_steps(host_planner *x)
{
    cr_plan *p = x->p;
    const cr_gvalue *of = p->steps.at[x->host_was_born].made_value[0];
    uint32_t slot = p->slots++;

    set_hosting(p, x->host_was_born, (cr_hosting){slot, 0, CR_WHOLE_HOST, x->life[x->host].bytes, of});
    for (int i = 0; i < x->guests; i++) {
        cr_life *g = &x->life[x->guest[i]];
        set_hosting(p, g->born, (cr_hosting){slot, alive_at(x, g->born), g->at, g->bytes, of});
        g->bytes = 0;
    }
    p->hosted += x->guests;
}

static bool is_straight(const cr_plan *p)
{
    for (size_t i = 0; i < p->steps.len; i++)
        if (p->steps.at[i].kind == CR_STEP_CHOOSE || p->steps.at[i].kind == CR_STEP_JUMP)
            return false;
    return p->steps.len;
}

void cr_plan_hosts(cr_plan *p, cr_life *life, size_t lives)
{
    host_planner x = {.p = p, .life = life, .lives = (int)lives};

    if (p->threads == CR_CALLS_ONLY || cr_oracle_wanted() || !is_straight(p))
        return;
    for (x.host = x.lives - 1; x.host >= 0 && x.work < MOST_WORK; x.host--) {
        if (!leaves(&x, x.host) || !has_own_bytes(&x, x.host))
            continue;
        if (!x.alive)
            count_alive(&x);
        fill_host(&x);
        if (x.guests)
            tell_steps(&x);
    }
}
