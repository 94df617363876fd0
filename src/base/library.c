/* Loading system libraries. */
#include "base/library.h"
#include "base/env.h"
#include "base/log.h"
#include "base/object.h"
#include "base/parallel.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

static bool fill(void *handle, const cr_symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, symbols[i].name);

        if (!found)
            return false;
        memcpy(symbols[i].slot, &found, sizeof found);
    }
    return true;
}

bool cr_library_has_room(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p != MAP_FAILED)
        munmap(p, bytes);
    return p != MAP_FAILED;
}

/* --- OpenMP --- */

/* Its threads spin for a moment and then sleep, unless the program's user says otherwise.
 * libgomp's own choice is to spin for milliseconds, in which the processor is lost to the
 * thread that they wait for when programs share processors. */
static const char *const short_spin[] = {"OMP_WAIT_POLICY=passive", "GOMP_SPINCOUNT=1000",
                                         NULL};

typedef int (*pause_function)(int);
static _Atomic pause_function pause_threads;
enum { PAUSE_HARD = 2 };

static void openmp_before_fork(void)
{
    pause_function pause_all = atomic_load(&pause_threads);

    if (pause_all && !cr_in_parallel())
        pause_all(PAUSE_HARD);
}

/* libgomp's threads do not survive a fork: a child would wait for threads that it does not
 * have. So a fork ends the threads of the thread that forks. */
static void openmp_follow_forks(void *handle)
{
    pause_function found;
    const cr_symbol only[] = {{"omp_pause_resource_all", &found}};

    if (!fill(handle, only, 1))
        return;
    if (!atomic_exchange(&pause_threads, found))
        pthread_atfork(openmp_before_fork, NULL, NULL);
}

typedef struct {
    const char *name;
    void *handle;
} opening;

static void library_open(void *context)
{
    opening *o = context;

    o->handle = cr_object_open(o->name, RTLD_NOW | RTLD_LOCAL);
    if (o->handle)
        openmp_follow_forks(o->handle);
}

static void *library_open_quietly(const char *name)
{
    opening o = {name, NULL};

    if (*cr_env(CR_ENV_OMP_WAIT_POLICY) || *cr_env(CR_ENV_GOMP_SPINCOUNT))
        library_open(&o);
    else
        cr_env_with(short_spin, library_open, &o);
    return o.handle;
}

bool cr_library_load(const char *const *names, const cr_symbol *symbols, size_t n)
{
    for (; *names; names++) {
        void *handle = library_open_quietly(*names);

        if (!handle)
            continue;
        if (fill(handle, symbols, n)) {
            cr_log_line("kern", 1, "loaded %s", *names);
            return true;
        }
        dlclose(handle);
    }
    return false;
}
