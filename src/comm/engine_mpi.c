/* The engine mpi: messages of MPI's standard ABI, from a libmpi_abi.so.1 that is opened at run
 * time.
 *
 * MPI starts once a process.  Ranks that mpirun did not start are given a PMI server, which the
 * first group's rank 0 runs; later groups are made of that group's ranks.
 *
 * Transfers are started and tested under one lock and none blocks in MPI, so a thread that
 * waits sees its time limit.  Only making a group waits for other ranks inside of MPI: it runs
 * in a thread beside the lock, and its caller waits no longer than the time limit. */
#include "base/clock.h"
#include "base/env.h"
#include "base/map.h"
#include "comm/engine.h"
#include "comm/late.h"
#include "comm/mpi/abi.h"
#include "comm/mpi/pmi.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
#define MPI_FUNCTION(name, args) int(*name) args;
    CR_MPI_FUNCTIONS(MPI_FUNCTION)
#undef MPI_FUNCTION
} mpi;
/* All calls of MPI are made under this lock, but those that make a group. */
static pthread_mutex_t mpi_lock = PTHREAD_MUTEX_INITIALIZER;

/* The run: ranks of the first group, in MPI's order. */
static struct {
    bool started, by_launcher;
    int size, rank;
    int *global; /* numbers of the ranks in the program's run */
} world;

typedef struct {
    cr_mpi_comm channel[2];
    atomic_bool shut;
    int rank;
} mpi_link;

typedef struct {
    cr_mpi_request request;
    bool done, receives;
    int from;
    int64_t bytes; /* that must come; -1: any number */
} mpi_transfer;

enum { YIELDS = 400, FIRST_PAUSE = 10, LONGEST_PAUSE = 500, LONG_YIELD = 200 /* us */ };
enum { CROWDED_MS = 100 };

/* --- the library --- */
static bool mpi_bind(void *file)
{
    bool all = true;

#define MPI_FUNCTION(name, args)                                                               \
    *(void **)&mpi.name = dlsym(file, "MPI_" #name);                                           \
    all &= mpi.name != NULL;
    CR_MPI_FUNCTIONS(MPI_FUNCTION)
#undef MPI_FUNCTION
    return all;
}

static bool mpi_try(const char *path, cr_text *tried)
{
    void *file = cr_engine_dlopen(path, RTLD_NOW | RTLD_GLOBAL, tried);
    bool found = file && mpi_bind(file);

    if (file && !found)
        cr_text_printf(tried, "; %s: a library without MPI 5's functions", path);
    return found;
}

static bool mpi_open_library(cr_text *tried)
{
    const char *named = cr_env(CR_ENV_CR_MPI), *env = cr_env(CR_ENV_VIRTUAL_ENV);
    char path[4200];

    if (*named && mpi_try(named, tried))
        return true;
    /* The wheel is in the environment's lib folder, the package in
     * lib/python3.x/site-packages/. */
    for (const char *up = "../../../../"; *up; up += 3) {
        snprintf(path, sizeof path, "%s%slibmpi_abi.so.1", cr_engine_folder(), up);
        if (mpi_try(path, tried))
            return true;
    }
    snprintf(path, sizeof path, "%s/lib/libmpi_abi.so.1", env);
    return (*env && mpi_try(path, tried)) || mpi_try("libmpi_abi.so.1", tried);
}

static cr_status mpi_failed(int rc, const char *function)
{
    char text[1024] = "";
    int n = 0;

    mpi.Error_string(rc, text, &n);
    return cr_fail(CR_COMM, "MPI_%s: %s", function, text);
}

/* A call of MPI as a status; the lock is held. */
#define MPI_DO(name, ...)                                                                      \
    do {                                                                                       \
        int mpi_rc = mpi.name(__VA_ARGS__);                                                    \
        if (mpi_rc)                                                                            \
            return mpi_failed(mpi_rc, #name);                                                  \
    } while (0)

/* --- starting --- */
static bool mpi_is_launched(void)
{
    static const cr_env_name marks[] = {CR_ENV_PMI_RANK, CR_ENV_PMI_FD, CR_ENV_PMI_PORT,
                                        CR_ENV_PMIX_RANK};

    for (size_t i = 0; i < CR_LEN(marks); i++)
        if (*cr_env(marks[i]))
            return true;
    return false;
}

/* Tells MPI where the PMI server of this run is; rank 0 runs it. */
static cr_status mpi_find_server(const cr_link_how *how, int rank, int size)
{
    char text[32];
    cr_text address = {0};
    int port;

    if (rank == 0) {
        CR_TRY(cr_pmi_serve(size, false, &port));
        snprintf(text, sizeof text, "127.0.0.1:%d", port);
        CR_TRY(cr_store_set(how->store, "mpi/pmi", cr_bytes_of(text)));
    }
    CR_TRY(cr_store_get(how->store, "mpi/pmi", how->timeout_ms, &address));
    setenv("PMI_PORT", cr_text_str(&address), 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("PMI_ID", text, 1);
    cr_text_drop(&address);
    /* Ranks often outnumber processors: MPICH's waiting threads yield.  All is on one host. */
    setenv("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1", 0);
    setenv("FI_PROVIDER", "tcp", 0);
    setenv("FI_TCP_IFACE", "lo", 0);
    setenv("MPIR_CVAR_CH4_NETMOD", "ofi", 0);
    return CR_OK;
}

static cr_status mpi_read_world(int *rank, int *size)
{
    MPI_DO(Comm_set_errhandler, CR_MPI_WORLD, CR_MPI_ERRORS_RETURN);
    MPI_DO(Comm_rank, CR_MPI_WORLD, &world.rank);
    MPI_DO(Comm_size, CR_MPI_WORLD, &world.size);
    if (*rank < 0) {
        *rank = world.rank;
        *size = world.size;
    }
    if (world.rank != *rank || world.size != *size)
        return cr_fail(
            CR_COMM,
            "MPI started this process as rank %d of %d, but the group asks for rank %d "
            "of %d",
            world.rank, world.size, *rank, *size);
    return CR_OK;
}

static cr_status mpi_start(const cr_link_how *how, int *rank, int *size)
{
    int level;

    world.by_launcher = mpi_is_launched();
    if (!world.by_launcher && *rank < 0)
        return cr_fail(CR_VALUE, "backend 'mpi' needs a rank and a world size, unless mpirun "
                                 "starts the processes");
    if (!world.by_launcher)
        CR_TRY(mpi_find_server(how, *rank, *size));
    MPI_DO(Init_thread, NULL, NULL, CR_MPI_THREAD_MULTIPLE, &level);
    if (!world.by_launcher) { /* not for programs that this one starts */
        unsetenv("PMI_PORT");
        unsetenv("PMI_ID");
    }
    if (level < CR_MPI_THREAD_MULTIPLE)
        return cr_fail(CR_COMM, "this MPI does not allow calls of several threads (level %d)",
                       level);
    CR_TRY(mpi_read_world(rank, size));
    world.global = cr_alloc((size_t)*size * sizeof(int));
    for (int i = 0; world.global && i < *size; i++)
        world.global[i] = how->global ? how->global[i] : i;
    world.started = world.global != NULL;
    return world.started ? CR_OK : CR_MEMORY;
}

/* The numbers of a group's ranks in MPI's world.  CR_COMM for a rank that is not there. */
static cr_status mpi_ranks_of(int *out, const cr_link_how *how, int size)
{
    for (int i = 0; i < size; i++) {
        int wanted = how->global ? how->global[i] : i, at = 0;
        while (at < world.size && world.global[at] != wanted)
            at++;
        if (at == world.size)
            return cr_fail(CR_COMM,
                           "rank %d is not among the %d ranks with which MPI started; make the "
                           "first mpi group of all ranks",
                           wanted, world.size);
        out[i] = at;
    }
    return CR_OK;
}

/* A group that is being made. */
typedef struct {
    mpi_link *link;
    int size, tag, ranks[];
} making;

/* Waits for the other ranks. */
static cr_status making_run(void *at)
{
    const making *m = at;
    cr_mpi_group all, some;

    MPI_DO(Comm_group, CR_MPI_WORLD, &all);
    MPI_DO(Group_incl, all, m->size, m->ranks, &some);
    for (int i = 0; i < 2; i++) {
        MPI_DO(Comm_create_group, CR_MPI_WORLD, some, m->tag + i, &m->link->channel[i]);
        MPI_DO(Comm_set_errhandler, m->link->channel[i], CR_MPI_ERRORS_RETURN);
    }
    return CR_OK;
}

static void making_free(void *at)
{
    making *m = at;

    cr_free(m->link);
    cr_free(m);
}

/* The tag of a group's making: groups of other ranks that are made at the same time have other
 * tags. */
static int making_tag(const int *ranks, int size)
{
    return (int)(cr_hash((const char *)ranks, (size_t)size * sizeof *ranks) & 0x3ffe);
}

static cr_status making_new(making **out, const cr_link_how *how, int rank, int size)
{
    making *m = cr_alloc_zero(sizeof *m + (size_t)size * sizeof *m->ranks);

    CR_NEED(m);
    m->size = size;
    m->link = cr_alloc_zero(sizeof *m->link);
    cr_status st = m->link ? mpi_ranks_of(m->ranks, how, size) : CR_MEMORY;
    if (st) {
        making_free(m);
        return st;
    }
    m->link->rank = rank;
    m->tag = making_tag(m->ranks, size);
    *out = m;
    return CR_OK;
}

static cr_status mpi_link_open(void **link, const cr_link_how *how, int *rank, int *size)
{
    making *m = NULL;
    bool late;
    cr_status st = CR_OK;

    pthread_mutex_lock(&mpi_lock);
    if (!world.started)
        st = mpi_start(how, rank, size);
    pthread_mutex_unlock(&mpi_lock);
    CR_TRY(st);
    CR_TRY(making_new(&m, how, *rank, *size));
    st = cr_run_limited(making_run, m, making_free, how->timeout_ms, "MPI: making a group",
                        &late);
    if (!st) {
        *link = m->link;
        m->link = NULL;
    }
    if (!late)
        making_free(m);
    return st;
}

static void mpi_link_shut(void *link) { ((mpi_link *)link)->shut = true; }

/* Communicators stay: freeing one waits for all its ranks.  MPI ends with the process, except
 * under mpirun, which takes a process that does not end MPI for a failure. */
static void mpi_finalize(void)
{
    pthread_mutex_lock(&mpi_lock);
    mpi.Finalize();
    pthread_mutex_unlock(&mpi_lock);
}

static void mpi_link_close(void *link, bool broken)
{
    static bool planned;

    if (world.by_launcher && !broken && !planned) {
        planned = true;
        atexit(mpi_finalize);
    }
    cr_free(link);
}

/* --- transfers --- */
/* MPI's implementations have tags of more than 23 bits, the standard of 15. */
static int mpi_tag(uint64_t tag) { return (int)(tag & 0x7fffff); }

static mpi_transfer *transfer_new(const mpi_link *l)
{
    if (l->shut) {
        cr_fail(CR_COMM, "MPI: the group is closed");
        return NULL;
    }
    return cr_alloc_zero(sizeof(mpi_transfer));
}

static cr_status mpi_send(void *link, void **out, const void *at, size_t bytes, int to,
                          int channel, uint64_t tag)
{
    const mpi_link *l = link;
    mpi_transfer *t = transfer_new(l);

    if (!t)
        return cr_error_kind();
    pthread_mutex_lock(&mpi_lock);
    int rc = mpi.Isend_c(at, (int64_t)bytes, CR_MPI_BYTE, to, mpi_tag(tag), l->channel[channel],
                         &t->request);
    pthread_mutex_unlock(&mpi_lock);
    if (!rc)
        *out = t;
    else
        cr_free(t);
    return rc ? mpi_failed(rc, "Isend") : CR_OK;
}

static cr_status mpi_receive(void *link, void **out, void *at, size_t bytes, int from,
                             int channel, uint64_t tag)
{
    const mpi_link *l = link;
    mpi_transfer *t = transfer_new(l);

    if (!t)
        return cr_error_kind();
    t->receives = true;
    t->bytes = channel ? (int64_t)bytes : -1;
    pthread_mutex_lock(&mpi_lock);
    int rc = mpi.Irecv_c(at, (int64_t)bytes, CR_MPI_BYTE, from < 0 ? CR_MPI_ANY_SOURCE : from,
                         mpi_tag(tag), l->channel[channel], &t->request);
    pthread_mutex_unlock(&mpi_lock);
    if (!rc)
        *out = t;
    else
        cr_free(t);
    return rc ? mpi_failed(rc, "Irecv") : CR_OK;
}

/* A longer message is MPI's own error. */
static cr_status transfer_check(const mpi_transfer *t, const cr_mpi_status *status)
{
    int64_t came = 0;

    pthread_mutex_lock(&mpi_lock);
    int rc = mpi.Get_count_c(status, CR_MPI_BYTE, &came);
    pthread_mutex_unlock(&mpi_lock);
    if (rc)
        return mpi_failed(rc, "Get_count");
    return came == t->bytes ? CR_OK
                            : cr_fail(CR_COMM, "a message of %lld bytes came, not %lld",
                                      (long long)came, (long long)t->bytes);
}

static cr_status transfer_test(mpi_transfer *t)
{
    cr_mpi_status status = {.source = -1};
    int done = 0;

    pthread_mutex_lock(&mpi_lock);
    int rc = mpi.Test(&t->request, &done, &status);
    pthread_mutex_unlock(&mpi_lock);
    if (rc)
        return mpi_failed(rc, "Test");
    t->done = done;
    t->from = status.source;
    return done && t->receives && t->bytes >= 0 ? transfer_check(t, &status) : CR_OK;
}

/* The time until which waits sleep at once. */
static _Atomic double crowded_until;

/* Yields at first, then sleeps longer and longer: ranks share processors.  Where other programs
 * run meanwhile, a yield gives them whole slices of time, but a thread that slept runs soon
 * after it wakes: a long yield is the last one for a while. */
static void pause_after(int *tries)
{
    double start = cr_seconds();

    if (*tries < YIELDS && start < crowded_until)
        *tries = YIELDS;
    if (*tries >= YIELDS) {
        int pause = FIRST_PAUSE * (*tries - YIELDS + 1);
        usleep((useconds_t)(pause < LONGEST_PAUSE ? pause : LONGEST_PAUSE));
        return;
    }
    sched_yield();
    double end = cr_seconds();
    if (1e6 * (end - start) > LONG_YIELD)
        crowded_until = end + 1e-3 * CROWDED_MS;
}

static cr_status mpi_wait(void *link, void *transfer, int64_t ms, bool *done, int *from)
{
    mpi_transfer *t = transfer;
    double end = cr_seconds() + 1e-3 * (double)ms;

    for (int tries = 0; !t->done; tries++) {
        CR_TRY(transfer_test(t));
        if (t->done || cr_seconds() > end)
            break;
        if (((mpi_link *)link)->shut)
            return cr_fail(CR_COMM, "MPI: the group was closed");
        pause_after(&tries);
    }
    *done = t->done;
    if (from)
        *from = t->from;
    return CR_OK;
}

/* A receive in progress is taken back, so that MPI does not write to its bytes later. */
static void mpi_drop(void *link, void *transfer)
{
    mpi_transfer *t = transfer;

    (void)link;
    if (!t->done && t->receives) {
        pthread_mutex_lock(&mpi_lock);
        mpi.Cancel(&t->request);
        pthread_mutex_unlock(&mpi_lock);
        for (int tries = 0; !t->done && tries < YIELDS && !transfer_test(t); tries++)
            sched_yield();
    }
    cr_free(t);
}

cr_engine_library cr_mpi_engine = {
    .engine = {.name = "mpi",
               .tag_bits = 23,
               .by_slices = true,
               .open = mpi_link_open,
               .shut = mpi_link_shut,
               .close = mpi_link_close,
               .send = mpi_send,
               .receive = mpi_receive,
               .wait = mpi_wait,
               .drop = mpi_drop},
    .open = mpi_open_library,
    .advice = "backend 'mpi' needs an MPI library with the standard ABI, libmpi_abi.so.1: 'pip "
              "install mpich' brings one, CR_MPI names another one"};
