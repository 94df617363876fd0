/* The engine gloo: messages of Gloo's contexts, through the shared object of gloo/gloo.cc. */
#include "comm/engine.h"
#include "comm/gloo/shim.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static const cr_shim *gloo;

static bool gloo_try(const char *path, cr_text *tried)
{
    void *file = cr_engine_dlopen(path, RTLD_NOW | RTLD_LOCAL, tried);
    const cr_shim *shim = file ? dlsym(file, CR_SHIM_SYMBOL) : NULL;

    if (shim && shim->version == CR_SHIM_VERSION)
        gloo = shim;
    else if (file)
        cr_text_printf(tried, "; %s: another version", path);
    return gloo != NULL;
}

static bool gloo_open_library(cr_text *tried)
{
    static const char *const places[] = {"%slibcresset_gloo.so", "%s../libcresset_gloo.so",
                                         "%s../../libcresset_gloo.so"};
    char path[4200];

    for (size_t i = 0; i < CR_LEN(places); i++) {
        snprintf(path, sizeof path, places[i], cr_engine_folder());
        if (gloo_try(path, tried))
            return true;
    }
    return false;
}

/* Bits 63 and 62 of a slot separate programs' messages from those of calls and of Gloo.  The
 * slot of a program's message has its size, too: Gloo ends the process where a message is
 * longer than the place where it is received, and leaves the rest of the place as it was where
 * it is shorter. */
static uint64_t gloo_slot(int channel, uint64_t tag, size_t bytes)
{
    return channel ? (uint64_t)3 << 62 | (tag & 0xfffffff) << 34 | (bytes & 0x3ffffffff)
                   : (uint64_t)1 << 62 | (tag & 0xffffffffffff);
}

static cr_status gloo_failed(const char *error) { return cr_fail(CR_COMM, "Gloo: %s", error); }

/* --- the store, for Gloo --- */
static int gloo_store_set(void *user, const char *key, const void *at, size_t n)
{
    return cr_store_set(user, key, (cr_bytes){at, n}) != CR_OK;
}

static long gloo_store_get(void *user, const char *key, void *at, size_t cap)
{
    cr_text t = {0};
    long n = cr_store_get(user, key, -1, &t) ? -1 : (long)t.len;

    if (n > 0)
        memcpy(at, t.at, t.len < cap ? t.len : cap);
    cr_text_drop(&t);
    return n;
}

static int gloo_store_wait(void *user, const char *key, long timeout_ms)
{
    return cr_store_wait(user, key, timeout_ms) != CR_OK;
}

static cr_status gloo_link_open(void **link, const cr_link_how *how, int *rank, int *size)
{
    cr_shim_store store = {how->store, gloo_store_set, gloo_store_get, gloo_store_wait};
    char error[CR_SHIM_ERROR] = "";

    if (gloo->open(link, *rank, *size, how->interface, &store, how->timeout_ms, error))
        return gloo_failed(error);
    return CR_OK;
}

static void gloo_link_shut(void *link) { gloo->shut(link); }

static void gloo_link_close(void *link, bool broken)
{
    (void)broken;
    gloo->close(link);
}

static cr_status gloo_send(void *link, void **transfer, const void *at, size_t bytes, int to,
                           int channel, uint64_t tag)
{
    char error[CR_SHIM_ERROR] = "";

    if (gloo->send(link, transfer, at, bytes, to, gloo_slot(channel, tag, bytes), error))
        return gloo_failed(error);
    return CR_OK;
}

static cr_status gloo_receive(void *link, void **transfer, void *at, size_t bytes, int from,
                              int channel, uint64_t tag)
{
    char error[CR_SHIM_ERROR] = "";

    if (gloo->receive(link, transfer, at, bytes, from, gloo_slot(channel, tag, bytes), error))
        return gloo_failed(error);
    return CR_OK;
}

static cr_status gloo_wait(void *link, void *transfer, int64_t ms, bool *done, int *from)
{
    char error[CR_SHIM_ERROR] = "";
    int ended = 0, who = -1;

    (void)link;
    if (gloo->wait(transfer, (long)ms, &ended, &who, error))
        return gloo_failed(error);
    *done = ended;
    if (from)
        *from = who;
    return CR_OK;
}

static void gloo_drop(void *link, void *transfer)
{
    (void)link;
    gloo->drop(transfer);
}

cr_engine_library cr_gloo_engine = {
    .engine = {.name = "gloo",
               .tag_bits = 28,
               .no_quotients = true,
               .open = gloo_link_open,
               .shut = gloo_link_shut,
               .close = gloo_link_close,
               .send = gloo_send,
               .receive = gloo_receive,
               .wait = gloo_wait,
               .drop = gloo_drop},
    .open = gloo_open_library,
    .advice = "backend 'gloo' needs Gloo, with which this package was not built (on Debian: "
              "apt-get install libgloo-dev, then build again); backend 'mpi' needs only "
              "'pip install mpich'"};
