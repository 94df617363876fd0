/* Small calls of one work travel together.
 *
 * A message costs more than the bytes of a small tensor, and modules have many of them: the
 * buffers of a module are broadcast before every forward.  Broadcasts from one root are packed
 * one after the other, run as one call, and unpacked.  All ranks join them alike, because what
 * decides is what ranks must state alike.
 *
 * All_reduces by one operation whose bytes fit a frame go with the frame of the first one.  All
 * ranks must send the same, except where the calls are marked `apart`: the compiler makes works
 * of several calls, and not at every rank where programs differ.  There the first call runs
 * alone, and the others follow.  Elements are added in the order of ranks, as those of a call
 * alone. */
#include "comm/group_impl.h"
#include <string.h>

enum { MOST_BYTES = 1 << 20, MOST_EACH = 1 << 16, MOST_CALLS = 256 };

static size_t join_bytes(const cr_call_args *a)
{
    return (size_t)a->out[0].count * cr_dtype_size(a->dtype);
}

static bool joins_at_all(const cr_call_args *a)
{
    return (a->kind == CR_CALL_BROADCAST || a->kind == CR_CALL_ALL_REDUCE) &&
           a->device.kind == CR_CPU && join_bytes(a) <= MOST_EACH;
}

static bool are_alike(const cr_call_args *a, const cr_call_args *b)
{
    return a->kind == b->kind && a->op == b->op && a->dtype == b->dtype && a->root == b->root &&
           a->factor == b->factor && a->apart == b->apart;
}

static bool overlap(const cr_call_args *a, const cr_call_args *b)
{
    const char *x = a->out[0].at, *y = b->out[0].at;

    return x < y + join_bytes(b) && y < x + join_bytes(a);
}

/* Whether call i may travel with the calls before it.  A buffer that is reduced twice may
 * not. */
static bool may_join(const cr_call_args *a, int i)
{
    bool may = joins_at_all(&a[i]) && are_alike(&a[0], &a[i]);

    for (int k = 0; k < i && may; k++)
        may = a->kind == CR_CALL_BROADCAST || !overlap(&a[k], &a[i]);
    return may;
}

/* The most bytes that travel together; 0: one call alone. */
static size_t join_room(const cr_running *c)
{
    const cr_comm *g = c->g;

    if (c->args->kind == CR_CALL_BROADCAST)
        return MOST_BYTES;
    return g->size <= CR_FRAME_RANKS && !g->engine->run ? g->frames_of.frame_data : 0;
}

static int join_count(const cr_running *c, int n)
{
    const cr_call_args *a = c->args;
    size_t bytes = 0, room = join_room(c);
    int i = 0;

    while (i < n && i < MOST_CALLS && may_join(a, i) && bytes + join_bytes(&a[i]) <= room)
        bytes += join_bytes(&a[i++]);
    return i ? i : 1;
}

/* Copies the buffers of n calls to one place, or back. */
static void join_copy(const cr_call_args *a, int n, char *at, bool back)
{
    for (int i = 0; i < n; i++) {
        size_t m = join_bytes(&a[i]);
        if (m)
            memcpy(back ? a[i].out[0].at : at, back ? at : a[i].out[0].at, m);
        at += m;
    }
}

static cr_status join_packed(const cr_running *c, int n)
{
    cr_buffer all = {NULL, 0};
    cr_call_args together = c->args[0];
    cr_running one = *c;
    bool alone;

    for (int i = 0; i < n; i++)
        all.count += c->args[i].out[0].count;
    all.at = cr_alloc((size_t)all.count * cr_dtype_size(together.dtype) + 1);
    CR_NEED(all.at);
    together.out = &all;
    one.args = &together;
    join_copy(c->args, n, all.at, false);
    cr_status st = cr_collective_run(&one, &alone);
    if (!st)
        join_copy(c->args, n, all.at, true);
    cr_free(all.at);
    return st;
}

cr_status cr_join_run(const cr_running *c, int n, int *ran)
{
    int joined = join_count(c, n);
    cr_running first = *c;
    bool alone;

    *ran = joined;
    if (joined > 1 && c->args->kind == CR_CALL_BROADCAST)
        return join_packed(c, joined);
    first.further = joined - 1;
    CR_TRY(cr_collective_run(&first, &alone));
    *ran = alone ? 1 : joined;
    return CR_OK;
}
