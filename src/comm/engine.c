/* Engines by name. */
#include "comm/engine.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static cr_status fake_load(const cr_engine **out)
{
    *out = &cr_fake_engine;
    return CR_OK;
}

static const struct {
    const char *name;
    cr_status (*load)(const cr_engine **out);
} own_engines[] = {{"gloo", cr_gloo_load}, {"mpi", cr_mpi_load}, {"fake", fake_load}};

static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static CR_VEC(const cr_engine *) registered;

const char *cr_call_kind_name(cr_call_kind kind)
{
    static const char *const names[] = {
#define CR_CALL(NAME, name) name,
#include "comm/calls.def"
#undef CR_CALL
    };
    return names[kind];
}

static const cr_engine *engine_registered(const char *name)
{
    for (size_t i = 0; i < registered.len; i++)
        if (!strcmp(registered.at[i]->name, name))
            return registered.at[i];
    return NULL;
}

static int engine_own(const char *name)
{
    for (int i = 0; i < (int)CR_LEN(own_engines); i++)
        if (!strcmp(own_engines[i].name, name))
            return i;
    return -1;
}

cr_status cr_engine_register(const cr_engine *engine)
{
    cr_status st = CR_OK;

    pthread_mutex_lock(&engines_lock);
    if (engine_own(engine->name) >= 0 || engine_registered(engine->name))
        st = cr_fail(CR_VALUE, "an engine '%s' is registered already", engine->name);
    if (!st)
        st = cr_vec_reserve(&registered, 1);
    if (!st)
        cr_vec_put(&registered, engine);
    pthread_mutex_unlock(&engines_lock);
    return st;
}

cr_status cr_engine_find(const cr_engine **out, const char *name)
{
    int own = engine_own(name);

    pthread_mutex_lock(&engines_lock);
    const cr_engine *other = engine_registered(name);
    pthread_mutex_unlock(&engines_lock);
    if (other) {
        *out = other;
        return CR_OK;
    }
    return own < 0 ? cr_fail(CR_COMM, "there is no engine '%s' for groups of processes", name)
                   : own_engines[own].load(out);
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
