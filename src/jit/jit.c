/* Kernels and their workers.
 *
 * A kernel's key is the hash of its source, the vocabulary, the compiler and the compiler's
 * flags.  Workers look for a kernel on disk first.  Kernels not on disk are compiled, all
 * waiting ones in one run of the compiler: the fixed cost of a run (35 ms with gcc 12) is more
 * than the cost of two kernels (13 ms each).  The symbols of a run contain their keys, so that
 * one file can hold kernels of the same name.
 *
 * The kernels that save the most time come first: those that a caller waits for, then cheap
 * chains, whose tiles take two to three times as long.  On a machine with two or more
 * processors there are two workers; the second starts when there is enough work for both.
 *
 * One lock guards table, queues and counts.  A forked child starts its own workers when it
 * waits for or requests a kernel, and compiles again what its parent was compiling. */
#include "jit/jit.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "jit/cache.h"
#include "jit/compiler.h"
#include "jit/vocabulary.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct cr_jit_kernel {
    char *body, *symbol;
    char key[CR_CACHE_KEY + 1];
    cr_unit unit; /* the vocabulary that the body needs; its text is `body` */
    cr_jit_urgency urgency;
    _Atomic(void *) function;
    _Atomic int state;
    bool from_disk;
    double asked, seconds;
    cr_jit_kernel *next;  /* in its queue */
    cr_jit_kernel *older; /* in the list of all kernels */
};

enum { PATIENCE_SECONDS = 60, MOST_WORKERS = 2, ENOUGH_FOR_TWO = 4, MOST_IN_RUN = 12 };

typedef struct {
    cr_jit_kernel *first, **last;
    int count;
} queue;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static cr_map known; /* key -> kernel */
static cr_jit_kernel *newest;
/* not looked up yet; not on disk */
static queue asked[CR_JIT_URGENCIES], missing[CR_JIT_URGENCIES];
static int running, compiling;
static bool prepared;
static cr_jit_counts counts;

/* --- source --- */

static void unit_needs(bool want[CR_VEC_COUNT], const cr_unit *u)
{
    unsigned ints = 1u << CR_I32 | 1u << CR_I64 | 1u << CR_U8;

    want[CR_VEC_BASE] = want[CR_VEC_KERNEL] = true;
    want[CR_VEC_F64] = want[CR_VEC_F64] || u->dtypes >> CR_F64 & 1 || u->complex ||
                       u->special || u->mixed || u->scan;
    want[CR_VEC_INT] = want[CR_VEC_INT] || u->dtypes & ints || u->mixed || u->scan;
    want[CR_VEC_MIXED] = want[CR_VEC_MIXED] || u->mixed || u->scan;
    want[CR_VEC_COMPLEX] = want[CR_VEC_COMPLEX] || u->complex || u->scan;
    want[CR_VEC_SCAN] = want[CR_VEC_SCAN] || u->scan;
    want[CR_VEC_SPECIAL] = want[CR_VEC_SPECIAL] || u->special;
    want[CR_VEC_RANDOM] = want[CR_VEC_RANDOM] || u->random;
}

static void put_vocabulary(cr_text *out, const bool want[CR_VEC_COUNT])
{
    for (int i = 0; i < CR_VEC_COUNT; i++)
        if (want[i])
            cr_text_put(out, cr_vec_texts[i]);
}

void cr_jit_source(cr_text *out, const cr_unit *u)
{
    bool want[CR_VEC_COUNT] = {0};

    unit_needs(want, u);
    want[CR_VEC_CUDA] = want[CR_VEC_CUDA_KERNEL] = u->launch.vector > 0;
    want[CR_VEC_CUDA_HALF] = u->halves;
    if (u->launch.vector)
        cr_text_printf(out, "#define CV_BYTES %d\n", u->launch.vector);
    if (u->launch.row_lanes)
        cr_text_printf(out, "#define CK_ROW_LANES %d\n", u->launch.row_lanes);
    put_vocabulary(out, want);
    cr_text_put(out, cr_text_str(&u->body));
}

static const char definition[] = "CK_DEFINE_";

/* Puts the definitions of folds and scans at the start of the body into `out`, unless `out` has
 * them already: several kernels may share them.  Returns the rest of the body. */
static const char *put_definitions(cr_text *out, const char *body)
{
    while (!strncmp(body, definition, strlen(definition)) || *body == '\n') {
        size_t n = strcspn(body, "\n") + 1;
        if (n > 1 && (!out->at || !memmem(out->at, out->len, body, n)))
            cr_text_put_n(out, body, n);
        body += n;
    }
    return body;
}

/* Writes one source file with all kernels. */
static void put_source(cr_text *out, cr_jit_kernel *const *k, int n)
{
    bool want[CR_VEC_COUNT] = {0};
    cr_text joins = {0}, bodies = {0};

    for (int i = 0; i < n; i++) {
        unit_needs(want, &k[i]->unit);
        cr_text_printf(&bodies, "#undef CK_ISA\n#define CK_ISA k%s\n", k[i]->key);
        cr_text_put(&bodies, put_definitions(&joins, k[i]->body));
    }
    put_vocabulary(out, want);
    cr_text_put(out, cr_text_str(&joins));
    cr_text_put(out, cr_text_str(&bodies));
    if (joins.failed || bodies.failed)
        out->failed = CR_MEMORY;
    cr_text_drop(&joins);
    cr_text_drop(&bodies);
}

static uint64_t vocabulary_hash;

static void hash_vocabulary(void)
{
    for (int i = 0; i < CR_VEC_COUNT; i++)
        vocabulary_hash =
            vocabulary_hash * 31 + cr_hash(cr_vec_texts[i], strlen(cr_vec_texts[i]));
}

/* Two hashes of the same bytes, with different initial values. */
static void set_key(char key[CR_CACHE_KEY + 1], const char *body)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    cr_text identity = {0};
    uint64_t a, b;

    pthread_once(&once, hash_vocabulary);
    cr_compiler_identity(&identity);
    a = cr_hash(body, strlen(body));
    b = a * 0x9E3779B97F4A7C15u ^ vocabulary_hash;
    for (const char *p = body; *p; p++)
        b = (b ^ (uint8_t)*p) * 0xC2B2AE3D27D4EB4Fu;
    a ^= cr_hash(cr_text_str(&identity), identity.len);
    snprintf(key, CR_CACHE_KEY + 1, "%016" PRIx64 "%016" PRIx64, a, b);
    cr_text_drop(&identity);
}

/* --- queues; the caller holds the lock --- */

static void enqueue(queue *all, cr_jit_kernel *k)
{
    queue *q = &all[k->urgency];

    k->next = NULL;
    if (!q->first)
        q->last = &q->first;
    *q->last = k;
    q->last = &k->next;
    q->count++;
}

static int waiting(const queue *all)
{
    int n = 0;

    for (int i = 0; i < CR_JIT_URGENCIES; i++)
        n += all[i].count;
    return n;
}

/* The most urgent kernel, or NULL. */
static cr_jit_kernel *dequeue(queue *all)
{
    for (int i = 0; i < CR_JIT_URGENCIES; i++) {
        cr_jit_kernel *k = all[i].first;
        if (!k)
            continue;
        all[i].first = k->next;
        all[i].count--;
        return k;
    }
    return NULL;
}

static bool take_out(queue *all, cr_jit_kernel *k)
{
    queue *q = &all[k->urgency];

    for (cr_jit_kernel **at = &q->first; *at; at = &(*at)->next) {
        if (*at != k)
            continue;
        *at = k->next;
        if (q->last == &k->next)
            q->last = at;
        q->count--;
        return true;
    }
    return false;
}

static void hurry(cr_jit_kernel *k)
{
    queue *all = take_out(asked, k) ? asked : take_out(missing, k) ? missing : NULL;

    k->urgency = CR_JIT_AWAITED;
    if (all)
        enqueue(all, k);
}

/* --- compilation --- */

static const char *function_name(char out[256], const cr_jit_kernel *k)
{
    snprintf(out, 256, "ck_k%s_%s", k->key, k->symbol);
    return out;
}

static void put_function(cr_jit_kernel *k, void *function)
{
    atomic_store_explicit(&k->function, function, memory_order_release);
}

static bool find_on_disk(cr_jit_kernel *k)
{
    char name[256];
    void *function = cr_cache_find(k->key, function_name(name, k), k->body);

    if (!function)
        return false;
    cr_log_line("cache", 1, "%s is on disk: %s", k->symbol, k->key);
    k->from_disk = true;
    put_function(k, function);
    return true;
}

static const char source_name[] = "kernels.c";

static cr_status write_source(int dir, const cr_text *text)
{
    int fd = openat(dir, source_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    cr_status st;

    if (fd < 0)
        return cr_fail(CR_IO, "cannot write the source: %s", strerror(errno));
    st = cr_write_open_file(fd, cr_text_str(text), text->len, source_name);
    if (close(fd) && !st)
        st = cr_fail(CR_IO, "cannot write the source: %s", strerror(errno));
    return st;
}

static cr_status kernels_load(cr_jit_kernel *const *k, int n, int dir, const char *object)
{
    char name[256];
    void *function[MOST_IN_RUN];

    for (int i = 0; i < n; i++)
        if (!(function[i] = cr_cache_load(dir, object, function_name(name, k[i]))))
            return CR_RUNTIME;
    for (int i = 0; i < n; i++)
        put_function(k[i], function[i]);
    return CR_OK;
}

static void kernels_store(cr_jit_kernel *const *k, int n, int dir, const char *object)
{
    const char *key[MOST_IN_RUN], *source[MOST_IN_RUN];

    for (int i = 0; i < n; i++) {
        key[i] = k[i]->key;
        source[i] = k[i]->body;
    }
    cr_cache_keep(dir, object, n, key, source);
    for (int i = 0; i < n; i++)
        cr_log_line("cache", 2, "%s is compiled: %s", k[i]->symbol, k[i]->key);
}

static cr_status compile_in(cr_jit_kernel *const *k, int n, const cr_text *source,
                            const cr_cache_folder *folder)
{
    static _Atomic int turn;
    char object[64];

    /* every object has a new name: see cr_cache_load */
    snprintf(object, sizeof object, "kernels%d.so", atomic_fetch_add(&turn, 1));
    CR_TRY(write_source(folder->dir, source));
    CR_TRY(cr_compiler_run(folder, source_name, object, PATIENCE_SECONDS));
    CR_TRY(kernels_load(k, n, folder->dir, object));
    kernels_store(k, n, folder->dir, object);
    return CR_OK;
}

/* True for failures of the folder: when files cannot be written or executed in the one for
 * temporary files, the cache's may work. */
static bool is_of_place(cr_status st)
{
    const char *why = cr_error_message();

    if (!st)
        return false;
    return st == CR_IO || strstr(why, strerror(ENOSPC)) || strstr(why, strerror(EACCES)) ||
           strstr(why, strerror(EROFS)) || strstr(why, strerror(EPERM)) ||
           strstr(why, "cannot load");
}

static cr_status compile(cr_jit_kernel *const *k, int n)
{
    cr_text source = {0};
    cr_status st;

    put_source(&source, k, n);
    st = cr_text_status(&source);
    if (!st && !cr_compiler_path())
        st = cr_fail(CR_RUNTIME, "no C compiler was found (CR_CC, gcc, clang, cc)");
    for (int place = 0;
         (!place && !st) || (place && place < CR_CACHE_PLACES && is_of_place(st)); place++) {
        cr_cache_folder folder;
        st = cr_cache_work(&folder, place);
        if (!st) {
            st = compile_in(k, n, &source, &folder);
            cr_cache_work_end(&folder);
        }
    }
    cr_text_drop(&source);
    return st;
}

/* --- results --- */

static void kernels_finish(cr_jit_kernel *const *k, int n, cr_status st)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++) {
        k[i]->seconds = cr_seconds() - k[i]->asked;
        counts.failed += st != CR_OK;
        counts.from_disk += !st && k[i]->from_disk;
        counts.compiled += !st && !k[i]->from_disk;
        counts.waiting--;
        atomic_store(&k[i]->state, st ? CR_JIT_FAILED : CR_JIT_READY);
    }
    pthread_cond_broadcast(&done);
    pthread_mutex_unlock(&lock);
}

/* Logs a reason once. */
static void kernels_report(cr_jit_kernel *const *k, int n, cr_status st, double seconds)
{
    static _Atomic uint64_t said;
    const char *why = cr_error_message();

    if (!st) {
        cr_log_line("jit", 1, "%d kernel%s ready after %.1f ms, %s first", n,
                    n > 1 ? "s are" : " is", seconds * 1e3, k[0]->symbol);
        return;
    }
    if (atomic_exchange(&said, cr_hash(why, strlen(why))) != cr_hash(why, strlen(why)))
        cr_log_line("jit", 1, "%d kernel%s, %s first, %s tiles: %s", n, n > 1 ? "s" : "",
                    k[0]->symbol, n > 1 ? "stay" : "stays", why);
}

static cr_status compile_and_report(cr_jit_kernel *const *k, int n)
{
    double start = cr_seconds();
    cr_status st = compile(k, n);

    kernels_report(k, n, st, cr_seconds() - start);
    if (!st || n == 1)
        kernels_finish(k, n, st);
    return st;
}

/* A kernel that the compiler refuses must not stop the others, so all are compiled again one by
 * one.  But when the first fails alone, too, the compiler does not work at all. */
static void compile_run(cr_jit_kernel *const *k, int n)
{
    cr_status st = compile_and_report(k, n);

    if (!st || n == 1)
        return;
    st = compile_and_report(k, 1);
    if (st)
        kernels_finish(k + 1, n - 1, st);
    for (int i = 1; !st && i < n; i++)
        (void)!compile_and_report(k + i, 1);
}

/* --- workers --- */

static bool start_worker(void);

/* Requests come in bursts: waits until none came for a millisecond.  The caller holds the
 * lock. */
static void await_burst(void)
{
    struct timespec nap = {0, 1000000};
    int before = -1;

    for (int i = 0;
         i < 10 && !asked[CR_JIT_AWAITED].count && before != waiting(missing) + waiting(asked);
         i++) {
        before = waiting(missing) + waiting(asked);
        pthread_mutex_unlock(&lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&lock);
    }
}

/* The number of missing kernels that the calling worker compiles.  The caller holds the
 * lock. */
static int share_work(void)
{
    int n = waiting(missing);

    if (n >= ENOUGH_FOR_TWO && !compiling && start_worker() && running > 1) {
        pthread_cond_signal(&work);
        n = (n + 1) / 2;
    }
    return n < MOST_IN_RUN ? n : MOST_IN_RUN;
}

/* The caller holds the lock, which is released during the lookup. */
static void look_on_disk(void)
{
    cr_jit_kernel *k = dequeue(asked);

    pthread_mutex_unlock(&lock);
    bool found = find_on_disk(k);
    if (found)
        kernels_finish(&k, 1, CR_OK);
    pthread_mutex_lock(&lock);
    if (!found)
        enqueue(missing, k);
}

static void compile_some(void)
{
    cr_jit_kernel *k[MOST_IN_RUN];
    int n = share_work();

    compiling++;
    for (int i = 0; i < n; i++)
        k[i] = dequeue(missing);
    pthread_mutex_unlock(&lock);
    compile_run(k, n);
    pthread_mutex_lock(&lock);
    compiling--;
}

static void *worker(void *unused)
{
    bool tidy = true;

    (void)unused;
    cr_env_read_kept();
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!waiting(asked) && !waiting(missing))
            pthread_cond_wait(&work, &lock);
        while (waiting(asked))
            look_on_disk();
        if (!waiting(missing))
            continue;
        await_burst();
        if (waiting(asked) || !waiting(missing)) /* the other worker may have taken them */
            continue;
        compile_some();
        /* once in each worker, when it has nothing else to do */
        if (tidy && !waiting(missing)) {
            tidy = false;
            pthread_mutex_unlock(&lock);
            cr_cache_tidy();
            pthread_mutex_lock(&lock);
        }
    }
    return NULL;
}

static int most_workers(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 2 ? 1 : MOST_WORKERS;
}

/* Starts another worker when allowed.  False when there is no worker at all.  The caller holds
 * the lock. */
static bool start_worker(void)
{
    if (running >= most_workers())
        return true;
    running += !cr_thread_start(NULL, worker, NULL);
    return running > 0;
}

/* --- fork --- */

static void jit_before_fork(void)
{
    pthread_mutex_lock(&lock);
    cr_compiler_before_fork();
}

static void after_fork_in_parent(void)
{
    cr_compiler_after_fork_in_parent();
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work, NULL);
    pthread_cond_init(&done, NULL);
    cr_compiler_after_fork_in_child();
    running = compiling = 0;
    memset(asked, 0, sizeof asked);
    memset(missing, 0, sizeof missing);
    for (cr_jit_kernel *k = newest; k; k = k->older)
        if (atomic_load(&k->state) == CR_JIT_WAITING)
            enqueue(asked, k);
}

/* --- requests --- */

static void kernel_drop(cr_jit_kernel *k)
{
    if (!k)
        return;
    cr_free(k->body);
    cr_free(k->symbol);
    cr_free(k);
}

static cr_jit_kernel *kernel_new(const cr_unit *u, const char *symbol, const char *key)
{
    cr_jit_kernel *k = cr_alloc_zero(sizeof *k);

    if (!k)
        return NULL;
    k->unit = *u;
    k->unit.body = (cr_text){0};
    k->body = cr_strdup(cr_text_str(&u->body));
    k->symbol = cr_strdup(symbol);
    k->asked = cr_seconds();
    memcpy(k->key, key, sizeof k->key);
    if (k->body && k->symbol)
        return k;
    kernel_drop(k);
    return NULL;
}

/* The caller holds the lock. */
static cr_status request(cr_jit_kernel **out, const cr_unit *u, const char *symbol,
                         cr_jit_urgency urgency, const char *key)
{
    cr_jit_kernel *k = cr_map_get(&known, key, CR_CACHE_KEY);

    counts.requested++;
    if (k) {
        counts.from_memory++;
        *out = k;
        return CR_OK;
    }
    k = kernel_new(u, symbol, key);
    if (!k || cr_map_set(&known, key, CR_CACHE_KEY, k)) {
        kernel_drop(k);
        return CR_MEMORY;
    }
    k->urgency = urgency;
    k->older = newest;
    newest = *out = k;
    counts.waiting++;
    enqueue(asked, k);
    if (running || start_worker())
        pthread_cond_signal(&work);
    else
        cr_log_line("jit", 1, "the compiler thread did not start");
    return CR_OK;
}

/* The caller holds the lock. */
static void jit_watch_forks(void)
{
    if (!prepared)
        prepared = !pthread_atfork(jit_before_fork, after_fork_in_parent, after_fork_in_child);
}

void cr_jit_watch_forks(void)
{
    pthread_mutex_lock(&lock);
    jit_watch_forks();
    pthread_mutex_unlock(&lock);
}

cr_status cr_jit_request(cr_jit_kernel **out, const cr_unit *u, const char *symbol,
                         cr_jit_urgency urgency)
{
    char key[CR_CACHE_KEY + 1];
    cr_status st;

    set_key(key, cr_text_str(&u->body));
    pthread_mutex_lock(&lock);
    cr_env_keep();
    cr_compiler_keep_environment();
    jit_watch_forks();
    st = request(out, u, symbol, urgency, key);
    pthread_mutex_unlock(&lock);
    return st;
}

cr_kernel cr_jit_function(const cr_jit_kernel *k)
{
    void *p = atomic_load_explicit(&((cr_jit_kernel *)k)->function, memory_order_acquire);
    cr_kernel f;

    /* ISO C has no cast from object to function pointers */
    memcpy(&f, &p, sizeof f);
    return f;
}

cr_jit_state cr_jit_state_of(const cr_jit_kernel *k)
{
    return (cr_jit_state)atomic_load(&((cr_jit_kernel *)k)->state);
}

static struct timespec time_in(double seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return until;
}

/* A forked child has no worker until a caller waits.  The caller holds the lock. */
static void wake(void)
{
    if (running || start_worker())
        pthread_cond_signal(&work);
}

cr_jit_state cr_jit_wait(cr_jit_kernel *k, double seconds)
{
    struct timespec until = time_in(seconds);

    pthread_mutex_lock(&lock);
    if (atomic_load(&k->state) == CR_JIT_WAITING) {
        hurry(k);
        wake();
    }
    while (atomic_load(&k->state) == CR_JIT_WAITING &&
           pthread_cond_timedwait(&done, &lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&lock);
    return cr_jit_state_of(k);
}

int64_t cr_jit_wait_all(double seconds)
{
    struct timespec until = time_in(seconds);
    int64_t left;

    pthread_mutex_lock(&lock);
    if (counts.waiting)
        wake();
    while (counts.waiting && pthread_cond_timedwait(&done, &lock, &until) != ETIMEDOUT) {
    }
    left = counts.waiting;
    pthread_mutex_unlock(&lock);
    return left;
}

const char *cr_jit_key(const cr_jit_kernel *k) { return k->key; }
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
