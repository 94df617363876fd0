/* Dinic's method: breadth-first search finds the shortest paths, then each path gets as much
 * flow as fits.  Both steps are loops, because a graph may be 100,000 nodes deep. */
#include "aot/flow.h"

typedef struct {
    int to, next; /* next: the following edge out of the same point, or -1 */
    int64_t room; /* remaining capacity */
} edge;

struct cr_flow {
    cr_session *s;
    int points;
    int *first; /* first[p]: the first edge out of point p */
    struct {
        size_t len, cap;
        edge *at; /* an edge and its reverse are adjacent */
    } edges;
    int *level, *next, *queue, *way;
};

cr_flow *cr_flow_new(cr_session *s, int points)
{
    cr_flow *f = CR_NEW(s, cr_flow);

    f->s = s;
    f->points = points;
    f->first = CR_NEW_N(s, int, points);
    f->level = CR_NEW_N(s, int, points);
    f->next = CR_NEW_N(s, int, points);
    f->queue = CR_NEW_N(s, int, points);
    f->way = CR_NEW_N(s, int, points);
    for (int p = 0; p < points; p++)
        f->first[p] = -1;
    return f;
}

static void half_edge(cr_flow *f, int from, int to, int64_t room)
{
    edge e = {to, f->first[from], room};

    f->first[from] = (int)f->edges.len;
    CR_PUSH(f->s, &f->edges, e);
}

void cr_flow_edge(cr_flow *f, int from, int to, int64_t capacity)
{
    half_edge(f, from, to, capacity);
    half_edge(f, to, from, 0);
}

/* Sets distances from the source along edges with capacity left.  False when the sink cannot be
 * reached. */
static bool set_levels(cr_flow *f)
{
    int head = 0, tail = 0;

    for (int p = 0; p < f->points; p++)
        f->level[p] = -1;
    f->level[CR_FLOW_SOURCE] = 0;
    f->queue[tail++] = CR_FLOW_SOURCE;
    while (head < tail) {
        int p = f->queue[head++];
        for (int e = f->first[p]; e >= 0; e = f->edges.at[e].next)
            if (f->edges.at[e].room > 0 && f->level[f->edges.at[e].to] < 0) {
                f->level[f->edges.at[e].to] = f->level[p] + 1;
                f->queue[tail++] = f->edges.at[e].to;
            }
    }
    return f->level[CR_FLOW_SINK] >= 0;
}

/* The next usable edge out of `p`, or -1.  Edges before it are not tried again. */
static int flow_usable_edge(cr_flow *f, int p)
{
    for (; f->next[p] >= 0; f->next[p] = f->edges.at[f->next[p]].next) {
        const edge *e = &f->edges.at[f->next[p]];
        if (e->room > 0 && f->level[e->to] == f->level[p] + 1)
            return f->next[p];
    }
    return -1;
}

/* Pushes flow along way[0..n).  Returns the first step whose edge is full afterwards. */
static int flow_push(cr_flow *f, int n, int64_t *pushed)
{
    int64_t least = CR_FLOW_MUCH;
    int full = 0;

    for (int i = 0; i < n; i++)
        if (f->edges.at[f->way[i]].room < least)
            least = f->edges.at[f->way[i]].room;
    for (int i = n; i-- > 0;) {
        f->edges.at[f->way[i]].room -= least;
        f->edges.at[f->way[i] ^ 1].room += least;
        if (!f->edges.at[f->way[i]].room)
            full = i;
    }
    *pushed += least;
    return full;
}

/* Fills all shortest paths, depth first.  The current path is the stack. */
static int64_t flow_fill(cr_flow *f)
{
    int64_t pushed = 0;
    int n = 0, p = CR_FLOW_SOURCE;

    for (int i = 0; i < f->points; i++)
        f->next[i] = f->first[i];
    for (;;) {
        int e = p == CR_FLOW_SINK ? -1 : flow_usable_edge(f, p);
        if (p == CR_FLOW_SINK) {
            n = flow_push(f, n, &pushed);
            p = f->edges.at[f->way[n] ^ 1].to;
        } else if (e >= 0) {
            f->way[n++] = e;
            p = f->edges.at[e].to;
        } else if (n) {
            f->level[p] = -1; /* no path to the sink */
            p = f->edges.at[f->way[--n] ^ 1].to;
        } else {
            return pushed;
        }
    }
}

/* Clears `side` of the points from which flow still reaches the sink. */
static void clear_ends(cr_flow *f, bool *side)
{
    int head = 0, tail = 0;

    side[CR_FLOW_SINK] = false;
    f->queue[tail++] = CR_FLOW_SINK;
    while (head < tail)
        for (int e = f->first[f->queue[head++]]; e >= 0; e = f->edges.at[e].next)
            if (f->edges.at[e ^ 1].room > 0 && side[f->edges.at[e].to]) {
                side[f->edges.at[e].to] = false;
                f->queue[tail++] = f->edges.at[e].to;
            }
}

int64_t cr_flow_cut(cr_flow *f, bool *side)
{
    int64_t total = 0;

    while (total < CR_FLOW_MUCH && set_levels(f))
        total += flow_fill(f);
    const bool cut = f->level[CR_FLOW_SINK] < 0;
    for (int p = 0; p < f->points; p++)
        side[p] = cut || f->level[p] >= 0;
    if (cut)
        clear_ends(f, side);
    return total;
}
