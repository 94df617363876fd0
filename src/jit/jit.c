/* The kernel cache and its worker.
 *
 * A kernel is known by the hash of all that decides its code: source, compiler, flags.
 * On disk it is <hash>.so beside <hash>.c; the source is compared on loading, so that a
 * collision or a torn file is only a miss.  Both are written under other names and
 * renamed, the source first: whoever sees the .so sees its source.
 *
 * One lock guards the table and the queue.  The worker starts with the first request; a
 * forked child starts its own when it waits for or asks for something, and compiles again
 * what its parent was compiling. */
#include "jit/jit.h"
#include "base/env.h"
#include "base/log.h"
#include "base/map.h"
#include "jit/compiler.h"
#include "jit/isa.h"
#include "jit/vocabulary.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct cr_jit_kernel {
    char *source, *symbol;
    uint64_t hash[2];
    _Atomic(void *) function;
    _Atomic int state;
    bool from_disk;
    double asked, seconds;
    cr_jit_kernel *next; /* in the queue */
};

enum { PATIENCE_SECONDS = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static cr_map known; /* hash -> kernel */
static cr_jit_kernel *first, **last = &first, *current;
static bool running, prepared;
static cr_jit_counts counts;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- source --- */

/* The texts of the vocabulary that a unit needs, a bit each. */
static unsigned wanted_texts(const cr_unit *u)
{
    unsigned ints = 1u << CR_I32 | 1u << CR_I64 | 1u << CR_U8;
    unsigned want = 1u << CR_VEC_BASE | 1u << CR_VEC_KERNEL;

    if (u->dtypes >> CR_F64 & 1 || u->complex || u->special)
        want |= 1u << CR_VEC_F64;
    if (u->dtypes & ints)
        want |= 1u << CR_VEC_INT;
    return want | (unsigned)u->complex << CR_VEC_COMPLEX | (unsigned)u->special << CR_VEC_SPECIAL |
           (unsigned)u->random << CR_VEC_RANDOM;
}

void cr_jit_source(cr_text *out, const cr_unit *u)
{
    unsigned want = wanted_texts(u);

    for (int i = 0; i < CR_VEC_COUNT; i++)
        if (want >> i & 1)
            cr_text_put(out, cr_vec_texts[i]);
    cr_text_put(out, cr_text_str(&u->body));
}

/* Two hashes of the same bytes, which differ in what they start from. */
static void add_bytes(uint64_t hash[2], const void *bytes, size_t n)
{
    uint64_t h = cr_hash(bytes, n);

    hash[0] = (hash[0] ^ h) * 0x9E3779B97F4A7C15u;
    for (const char *p = bytes, *end = p + n; p < end; p++)
        hash[1] = (hash[1] ^ (uint8_t)*p) * 0xC2B2AE3D27D4EB4Fu;
}

/* The vocabulary and the compiler stay what they are: their hashes are made once. */
static uint64_t fixed[CR_VEC_COUNT][2];
static pthread_once_t fixed_once = PTHREAD_ONCE_INIT;

static void hash_fixed(void)
{
    cr_text identity = {0};

    cr_compiler_identity(&identity);
    for (int i = 0; i < CR_VEC_COUNT; i++) {
        add_bytes(fixed[i], cr_vec_texts[i], strlen(cr_vec_texts[i]));
        add_bytes(fixed[i], cr_text_str(&identity), identity.len);
    }
    cr_text_drop(&identity);
}

static void hash_kernel(uint64_t hash[2], const cr_unit *u)
{
    unsigned want = wanted_texts(u);

    pthread_once(&fixed_once, hash_fixed);
    hash[0] = hash[1] = u->body.len;
    for (int i = 0; i < CR_VEC_COUNT; i++)
        if (want >> i & 1)
            add_bytes(hash, fixed[i], sizeof fixed[i]);
    add_bytes(hash, cr_text_str(&u->body), u->body.len);
}

/* --- disk --- */

static void folder(cr_text *out)
{
    const char *own = cr_env(CR_ENV_CR_CACHE), *xdg = cr_env(CR_ENV_XDG_CACHE_HOME);
    const char *home = cr_env(CR_ENV_HOME);

    if (*own)
        cr_text_put(out, own);
    else if (*xdg)
        cr_text_printf(out, "%s/cresset", xdg);
    else if (*home)
        cr_text_printf(out, "%s/.cache/cresset", home);
    else
        cr_text_printf(out, "/tmp/cresset-%ld", (long)getuid());
}

static cr_status make_folder(const char *path)
{
    char part[1024];
    size_t n = strlen(path);

    if (n >= sizeof part)
        return cr_fail(CR_IO, "the cache's path is too long: %.80s...", path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i])
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) && errno != EEXIST)
            return cr_fail(CR_IO, "cannot create %s: %s", part, strerror(errno));
    }
    return CR_OK;
}

/* Names of one kernel's files. */
typedef struct {
    cr_text source, object, new_source, new_object;
} paths;

static cr_status set_paths(paths *p, const cr_jit_kernel *k)
{
    static _Atomic int turn;
    cr_text base = {0};
    int mine = atomic_fetch_add(&turn, 1);

    folder(&base);
    cr_status st = make_folder(cr_text_str(&base));
    cr_text_printf(&base, "/%016llx%016llx", (unsigned long long)k->hash[0],
                   (unsigned long long)k->hash[1]);
    cr_text_printf(&p->source, "%s.c", cr_text_str(&base));
    cr_text_printf(&p->object, "%s.so", cr_text_str(&base));
    cr_text_printf(&p->new_source, "%s.%ld.%d.c", cr_text_str(&base), (long)getpid(), mine);
    cr_text_printf(&p->new_object, "%s.%ld.%d.so", cr_text_str(&base), (long)getpid(), mine);
    cr_text_drop(&base);
    return st ? st : cr_text_status(&p->new_object);
}

static void drop_paths(paths *p)
{
    cr_text_drop(&p->source);
    cr_text_drop(&p->object);
    cr_text_drop(&p->new_source);
    cr_text_drop(&p->new_object);
}

/* Not synced: a file lost with the machine's power is only a miss. */
static cr_status write_plain(const char *path, const char *text)
{
    size_t left = strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    while (fd >= 0 && left) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno != EINTR)
            break;
        text += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    if (fd < 0 || left || close(fd))
        return cr_fail(CR_IO, "cannot write %s: %s", path, strerror(errno));
    return CR_OK;
}

static bool same_source(const char *path, const char *source)
{
    char *text = NULL;
    size_t len;
    bool same = !access(path, R_OK) && !cr_read_file(&text, &len, path) && !strcmp(text, source);

    cr_free(text);
    return same;
}

static cr_status load(cr_jit_kernel *k, const char *object)
{
    char name[256];
    void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL), *function;

    if (!library)
        return cr_fail(CR_RUNTIME, "cannot load %s: %s", object, dlerror());
    snprintf(name, sizeof name, "ck_jit_%s", k->symbol);
    function = dlsym(library, name);
    if (!function) {
        dlclose(library);
        return cr_fail(CR_RUNTIME, "%s has no %s", object, name);
    }
    atomic_store_explicit(&k->function, function, memory_order_release);
    return CR_OK;
}

static cr_status compile(cr_jit_kernel *k, paths *p)
{
    CR_TRY(write_plain(p->new_source.at, k->source));
    CR_TRY(cr_compiler_run(p->new_source.at, p->new_object.at, PATIENCE_SECONDS));
    CR_TRY(load(k, p->new_object.at));
    if (rename(p->new_source.at, p->source.at) || rename(p->new_object.at, p->object.at))
        cr_log_line("jit", 1, "kernel %s is not kept: %s", k->symbol, strerror(errno));
    return CR_OK;
}

static cr_status make(cr_jit_kernel *k)
{
    paths p = {{0}, {0}, {0}, {0}};
    cr_status st = set_paths(&p, k);

    if (!st && same_source(p.source.at, k->source) && !access(p.object.at, R_OK)) {
        k->from_disk = !load(k, p.object.at);
        if (!k->from_disk)
            cr_log_line("jit", 1, "%s", cr_error_message());
    }
    if (!st && !k->from_disk) {
        st = compile(k, &p);
        unlink(p.new_source.at);
        unlink(p.new_object.at);
    }
    drop_paths(&p);
    return st;
}

/* --- worker --- */

static void report(cr_jit_kernel *k, cr_status st)
{
    k->seconds = now() - k->asked;
    if (st)
        cr_log_line("jit", 1, "kernel %s failed: %s", k->symbol, cr_error_message());
    else
        cr_log_line("jit", 1, "kernel %s is ready after %.1f ms%s", k->symbol, k->seconds * 1e3,
               k->from_disk ? ", from disk" : "");
}

static void finish(cr_jit_kernel *k, cr_status st)
{
    pthread_mutex_lock(&lock);
    counts.failed += st != CR_OK;
    counts.from_disk += !st && k->from_disk;
    counts.compiled += !st && !k->from_disk;
    current = NULL;
    atomic_store(&k->state, st ? CR_JIT_FAILED : CR_JIT_READY);
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
}

static void *worker(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!first)
            pthread_cond_wait(&work, &lock);
        cr_jit_kernel *k = current = first;
        first = k->next;
        if (!first)
            last = &first;
        pthread_mutex_unlock(&lock);
        cr_status st = make(k);
        report(k, st);
        finish(k, st);
    }
    return NULL;
}

/* In the lock.  Signals are for the program's own threads. */
static bool start_worker(void)
{
    pthread_attr_t how;
    pthread_t thread;
    sigset_t all, before;

    if (running)
        return true;
    sigfillset(&all);
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    running = !pthread_create(&thread, &how, worker, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&how);
    return running;
}

static void enqueue(cr_jit_kernel *k)
{
    k->next = NULL;
    *last = k;
    last = &k->next;
}

/* --- fork --- */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }

static void after_fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work, NULL);
    pthread_cond_init(&done, NULL);
    running = false;
    if (current)
        enqueue(current);
    current = NULL;
}

/* --- requests --- */

static cr_jit_kernel *kernel_new(const char *source, const char *symbol)
{
    cr_jit_kernel *k = cr_alloc_zero(sizeof *k);

    if (!k)
        return NULL;
    k->source = cr_strdup(source);
    k->symbol = cr_strdup(symbol);
    if (k->source && k->symbol)
        return k;
    cr_free(k->source);
    cr_free(k->symbol);
    cr_free(k);
    return NULL;
}

static cr_jit_kernel *new_of_unit(const cr_unit *u, const char *symbol)
{
    cr_text source = {0};
    cr_jit_kernel *k = NULL;

    cr_jit_source(&source, u);
    if (!cr_text_status(&source))
        k = kernel_new(cr_text_str(&source), symbol);
    cr_text_drop(&source);
    return k;
}

/* In the lock. */
static cr_status request(cr_jit_kernel **out, const cr_unit *u, const char *symbol,
                         const uint64_t hash[2])
{
    cr_jit_kernel *k = cr_map_get(&known, (const char *)hash, 16);

    counts.requested++;
    if (k) {
        counts.from_memory++;
        *out = k;
        return CR_OK;
    }
    k = new_of_unit(u, symbol);
    if (!k)
        return CR_MEMORY;
    k->hash[0] = hash[0];
    k->hash[1] = hash[1];
    k->asked = now();
    CR_TRY(cr_map_set(&known, (const char *)hash, 16, k));
    *out = k;
    enqueue(k);
    if (start_worker()) {
        pthread_cond_signal(&work);
        return CR_OK;
    }
    cr_log_line("jit", 1, "no thread to compile in");
    return CR_OK;
}

cr_status cr_jit_request(cr_jit_kernel **out, const cr_unit *u, const char *symbol)
{
    uint64_t hash[2];
    cr_status st;

    hash_kernel(hash, u);
    pthread_mutex_lock(&lock);
    if (!prepared)
        prepared = !pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    st = request(out, u, symbol, hash);
    pthread_mutex_unlock(&lock);
    return st;
}

cr_kernel cr_jit_function(const cr_jit_kernel *k)
{
    void *p = atomic_load_explicit(&((cr_jit_kernel *)k)->function, memory_order_acquire);
    cr_kernel f;

    /* ISO C has no cast from object to function pointers. */
    memcpy(&f, &p, sizeof f);
    return f;
}

cr_jit_state cr_jit_state_of(const cr_jit_kernel *k)
{
    return (cr_jit_state)atomic_load(&((cr_jit_kernel *)k)->state);
}

cr_jit_state cr_jit_wait(cr_jit_kernel *k, double seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&lock);
    if (atomic_load(&k->state) == CR_JIT_WAITING && start_worker())
        pthread_cond_signal(&work);
    while (atomic_load(&k->state) == CR_JIT_WAITING &&
           pthread_cond_timedwait(&done, &lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&lock);
    return cr_jit_state_of(k);
}

double cr_jit_seconds(const cr_jit_kernel *k) { return k->seconds; }
bool cr_jit_from_disk(const cr_jit_kernel *k) { return k->from_disk; }

cr_jit_counts cr_jit_count(void)
{
    cr_jit_counts c;

    pthread_mutex_lock(&lock);
    c = counts;
    pthread_mutex_unlock(&lock);
    return c;
}
