/* Engines by name. */
#include "comm/engine.h"
#include "base/object.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static cr_engine_library *const own_engines[] = {&cr_gloo_engine, &cr_mpi_engine,
                                                 &cr_nccl_engine, &cr_fake_engine};

static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;

const char *cr_call_kind_name(cr_call_kind kind)
{
    static const char *const names[] = {
#define CR_CALL(NAME, name) name,
#include "comm/calls.def"
#undef CR_CALL
    };
    return names[kind];
}

static cr_engine_library *engine_own(const char *name)
{
    for (size_t i = 0; i < CR_LEN(own_engines); i++)
        if (!strcmp(own_engines[i]->engine.name, name))
            return own_engines[i];
    return NULL;
}

void *cr_engine_dlopen(const char *path, int flags, cr_text *tried)
{
    void *file = cr_object_open(path, flags);

    if (!file)
        cr_text_printf(tried, "%s%s", tried->len ? "; " : "", cr_object_error());
    return file;
}

/* Opens an engine's library at the first call; the lock is held. */
static cr_status engine_open_library(cr_engine_library *e)
{
    if (!e->was_opened)
        e->found = !e->open || e->open(&e->tried);
    e->was_opened = true;
    return e->found ? CR_OK : cr_fail(CR_COMM, "%s [%s]", e->advice, cr_text_str(&e->tried));
}

cr_status cr_engine_find(const cr_engine **out, const char *name)
{
    cr_engine_library *own = engine_own(name);

    if (!own)
        return cr_fail(CR_COMM, "there is no engine '%s' for groups of processes", name);
    pthread_mutex_lock(&engines_lock);
    cr_status st = engine_open_library(own);
    pthread_mutex_unlock(&engines_lock);
    if (!st)
        *out = &own->engine;
    return st;
}

bool cr_engine_is_available(const char *name)
{
    const cr_engine *e;

    return !cr_engine_find(&e, name);
}

static char own_folder[4096];

static void find_own_folder(void)
{
    Dl_info info;

    if (dladdr((void *)own_folder, &info) && info.dli_fname) {
        const char *end = strrchr(info.dli_fname, '/');
        snprintf(own_folder, sizeof own_folder, "%.*s",
                 end ? (int)(end + 1 - info.dli_fname) : 0, info.dli_fname);
    }
}

const char *cr_engine_folder(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_own_folder);
    return own_folder;
}
