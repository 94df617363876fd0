/* The engine fake: one process plays one rank of a group of any size, and no bytes travel.
 *
 * A call leaves its own rank's data where it would come from itself, and other results as they
 * are, as torch's fake backend does. */
#include "comm/engine.h"
#include <string.h>

static char fake_link;

static cr_status fake_open(void **link, const cr_link_how *how, int *rank, int *size)
{
    (void)how;
    (void)rank;
    (void)size;
    *link = &fake_link;
    return CR_OK;
}

static void fake_shut(void *link) { (void)link; }

static void fake_close(void *link, bool broken)
{
    (void)link;
    (void)broken;
}

static void fake_copy(cr_buffer to, cr_buffer from, cr_dtype dtype)
{
    int64_t n = to.count < from.count ? to.count : from.count;

    if (n && to.at != from.at)
        memmove(to.at, from.at, (size_t)n * cr_dtype_size(dtype));
}

static cr_status fake_run(void *link, const cr_call_args *c, int64_t ms, bool *did)
{
    (void)link;
    (void)ms;
    *did = true;
    for (int i = 0; i < c->outs && c->ins; i++)
        fake_copy(c->out[i], c->in[i < c->ins ? i : 0], c->dtype);
    return CR_OK;
}

static cr_status fake_send(void *link, void **transfer, const void *at, size_t bytes, int to,
                           int channel, uint64_t tag)
{
    (void)at;
    (void)bytes;
    (void)to;
    (void)channel;
    (void)tag;
    *transfer = link;
    return CR_OK;
}

static cr_status fake_receive(void *link, void **transfer, void *at, size_t bytes, int from,
                              int channel, uint64_t tag)
{
    return fake_send(link, transfer, at, bytes, from, channel, tag);
}

static cr_status fake_wait(void *link, void *transfer, int64_t ms, bool *done, int *from)
{
    (void)link;
    (void)transfer;
    (void)ms;
    *done = true;
    if (from)
        *from = 0;
    return CR_OK;
}

static void fake_drop(void *link, void *transfer)
{
    (void)link;
    (void)transfer;
}

cr_engine_library cr_fake_engine = {.engine = {.name = "fake",
                                               .alone = true,
                                               .open = fake_open,
                                               .shut = fake_shut,
                                               .close = fake_close,
                                               .send = fake_send,
                                               .receive = fake_receive,
                                               .wait = fake_wait,
                                               .drop = fake_drop,
                                               .run = fake_run}};
