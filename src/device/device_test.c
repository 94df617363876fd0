/* Promises of device.h. */
#include "base/memory.h"
#include "base/parallel.h"
#include "base/test.h"
#include "device/cpu/cpu.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(blocks_are_aligned_and_as_large_as_asked)
{
    for (size_t size = 1; size < (size_t)5 << 20; size = size * 3 / 2 + 1) {
        uint32_t class;
        char *p = cr_cpu_get(size, &class);
        CHECK(p && (uintptr_t)p % 64 == 0);
        CHECK(cr_cpu_class_bytes(class) >= size);
        CHECK(size <= 1024 || cr_cpu_class_bytes(class) * 4 <= size * 5);
        memset(p, 1, size);
        cr_cpu_release(p, class);
    }
}

TEST(there_may_be_more_blocks_than_mappings)
{
    enum { MANY = 20000 };
    static char *block[MANY];
    static uint32_t class[MANY];

    for (int i = 0; i < MANY; i++) {
        block[i] = cr_cpu_get(130 << 10, &class[i]);
        CHECK(block[i] && (uintptr_t)block[i] % 64 == 0);
        block[i][0] = block[i][(130 << 10) - 1] = (char)i;
    }
    for (int i = 0; i < MANY; i++)
        CHECK(block[i][0] == (char)i && block[i][(130 << 10) - 1] == (char)i);
    for (int k = 0; k < 2; k++) { /* even blocks first, then odd ones */
        for (int i = k; i < MANY; i += 2)
            cr_cpu_release(block[i], class[i]);
        cr_cpu_memory_trim();
    }
}

TEST(a_released_block_is_found_again)
{
    uint32_t class;
    char *p = cr_cpu_get(3 << 20, &class);

    cr_cpu_release(p, class);
    char *q = cr_cpu_get(3 << 20, &class);
    EQ(q, p);
    cr_cpu_release(q, class);
}

TEST(bytes_in_use_are_counted)
{
    cr_memory_stats before, during, after;
    uint32_t small, large;

    cr_cpu_memory_stats(&before);
    void *p = cr_cpu_get(100, &small), *q = cr_cpu_get(1 << 20, &large);
    cr_cpu_memory_stats(&during);
    EQ(during.used - before.used, 128 + (1 << 20));
    CHECK(during.peak >= during.used);
    cr_cpu_release(p, small);
    cr_cpu_release(q, large);
    cr_cpu_memory_stats(&after);
    EQ(after.used, before.used);
    cr_cpu_memory_trim();
    cr_cpu_memory_stats(&after);
    EQ(after.cached, 0);
}

static int64_t cached(void)
{
    cr_memory_stats s;

    cr_cpu_memory_stats(&s);
    return s.cached;
}

TEST(a_thread_in_mode_fit_gets_larger_cached_blocks)
{
    uint32_t class;
    void *large = cr_cpu_get(3 << 20, &class);

    cr_cpu_memory_trim();
    EQ(cr_cpu_memory_set_mode(CR_MEMORY_FIT), CR_MEMORY_FAST);
    cr_cpu_release(large, class);
    int64_t free = cached();
    void *p = cr_cpu_get(2 << 20, &class);
    if (free) {
        EQ(p, large);
        EQ(cr_cpu_class_bytes(class), 3 << 20);
        EQ(cached(), 0);
    }
    cr_cpu_release(p, class);
    void *small = cr_cpu_get(1 << 20, &class);
    CHECK(small != large && cr_cpu_class_bytes(class) == 1 << 20);
    cr_cpu_release(small, class);
    EQ(cr_cpu_memory_set_mode(CR_MEMORY_FAST), CR_MEMORY_FIT);
    p = cr_cpu_get(2 << 20, &class);
    EQ(cr_cpu_class_bytes(class), 2 << 20);
    cr_cpu_release(p, class);
}

TEST(too_large_a_size_is_refused_in_torchs_words)
{
    uint32_t class;

    EQ(cr_cpu_get((size_t)1 << 60, &class), NULL);
    EQ_STR(cr_error_message(),
           "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
           "1152921504606846976 bytes. Error code 12 (Cannot allocate memory)");
    EQ(cr_error_kind(), CR_MEMORY);
    cr_fail_alloc_after(1);
    EQ(cr_cpu_get(64, &class), NULL);
    void *p = cr_cpu_get(64, &class);
    CHECK(p != NULL);
    cr_cpu_release(p, class);
}

static void *release_elsewhere(void *p)
{
    uint32_t class;
    void *own = cr_cpu_get(64, &class);

    cr_cpu_release(p, 1);
    cr_cpu_release(own, class);
    return NULL;
}

TEST(any_thread_may_release)
{
    uint32_t class;
    pthread_t t;

    for (int i = 0; i < 50; i++) {
        void *p = cr_cpu_get(64, &class);
        CHECK(!pthread_create(&t, NULL, release_elsewhere, p));
        pthread_join(t, NULL);
    }
}

/* Gets and releases a block of each size. */
static void *use_three(void *blocks)
{
    void **p = blocks;
    uint32_t class[3];

    for (size_t i = 0; i < 3; i++)
        p[i] = cr_cpu_get(128 + 128 * i, &class[i]);
    for (size_t i = 0; i < 3; i++)
        cr_cpu_release(p[i], class[i]);
    return NULL;
}

TEST(a_thread_gets_the_blocks_of_one_that_ended)
{
    void *first[3], *second[3];
    pthread_t t;

    cr_cpu_memory_trim();
    CHECK(!pthread_create(&t, NULL, use_three, first));
    pthread_join(t, NULL);
#ifndef CR_SANITIZE
    EQ(cached(), 128 + 256 + 384);
#endif
    CHECK(!pthread_create(&t, NULL, use_three, second));
    pthread_join(t, NULL);
#ifndef CR_SANITIZE
    for (int i = 0; i < 3; i++)
        EQ(second[i], first[i]);
    EQ(cached(), 128 + 256 + 384);
#endif
    cr_cpu_memory_trim();
    EQ(cached(), 0);
}

TEST(more_threads_end_than_lists_are_kept)
{
    enum { THREADS = 40 };
    void *block[THREADS][3];
    pthread_t t[THREADS];

    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&t[i], NULL, use_three, block[i]));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    cr_cpu_memory_trim();
    EQ(cached(), 0);
}

/* Gets blocks of all sizes that a thread's lists keep, as many as they keep, then waits for the
 * other threads, so that each has lists of its own. */
static void *fill_lists(void *all)
{
    static const size_t list_bytes = 1 << 16;
    void *first = NULL;
    uint32_t class;

    for (size_t size = 64; size <= list_bytes; size = size * 5 / 4)
        for (size_t n = list_bytes / size; n > 0; n--) {
            void **p = cr_cpu_get(size < 2 * sizeof p ? 2 * sizeof p : size, &class);
            p[0] = first;
            p[1] = (void *)(uintptr_t) class;
            first = p;
        }
    for (void **p = first, **next; p; p = next) {
        next = p[0];
        cr_cpu_release(p, (uint32_t)(uintptr_t)p[1]);
    }
    pthread_barrier_wait(all);
    return NULL;
}

TEST(lists_of_ended_threads_are_within_the_limit)
{
    enum { THREADS = 24 };
    const size_t limit = (size_t)256 << 20, most = limit / 8 * 7;
    pthread_barrier_t all;
    pthread_t t[THREADS];
    cr_memory_stats s;
    uint32_t class;

    cr_cpu_memory_trim();
    pthread_barrier_init(&all, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&t[i], NULL, fill_lists, &all));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    pthread_barrier_destroy(&all);
#if !defined(CR_SANITIZE) && !defined(CR_MEAN)
    CHECK((size_t)cached() > limit - most);
#endif
    void *p = cr_cpu_get(most, &class);
    cr_cpu_memory_stats(&s);
    CHECK(p && (size_t)(s.used + s.cached) <= limit);
    cr_cpu_release(p, class);
    cr_cpu_memory_trim();
    EQ(cached(), 0);
}

TEST(a_forked_child_can_allocate)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        uint32_t class;
        void *p = cr_cpu_get(10 << 20, &class);
        if (p)
            cr_cpu_release(p, class);
        _exit(p ? 0 : 1);
    }
    waitpid(child, &status, 0);
    EQ(status, 0);
}

static void use_blocks(void *context, int64_t begin, int64_t end)
{
    (void)context;
    for (int64_t i = begin; i < end; i++) {
        uint32_t class;
        void *p = cr_cpu_get(256, &class);
        cr_cpu_release(p, class);
    }
}

/* Threads that keep blocks do not hold the lock that the fork takes. */
TEST(a_process_with_threads_that_keep_blocks_forks)
{
    pid_t child;
    int status = 0, threads = cr_threads();

    OK(cr_set_threads(2));
    alarm(60);
    cr_parallel_for(2, 1, use_blocks, NULL);
    child = fork();
    if (!child)
        _exit(0);
    alarm(0);
    waitpid(child, &status, 0);
    CHECK(child > 0 && WIFEXITED(status) && !WEXITSTATUS(status));
    OK(cr_set_threads(threads));
}

TEST(device_text_is_parsed_as_torch_parses_it)
{
    int kind, index;

    OK(cr_device_parse("cpu", &kind, &index));
    EQ(kind, CR_CPU);
    EQ(index, -1);
    OK(cr_device_parse("cuda:1", &kind, &index));
    EQ(kind, CR_CUDA);
    EQ(index, 1);
    FAILS(CR_RUNTIME, cr_device_parse("", &kind, &index));
    EQ_STR(cr_error_message(), "Device string must not be empty");
    FAILS(CR_RUNTIME, cr_device_parse("cuda:01", &kind, &index));
    EQ_STR(cr_error_message(), "Invalid device string: 'cuda:01'");
    FAILS(CR_RUNTIME, cr_device_parse("cpu:x", &kind, &index));
    FAILS(CR_RUNTIME, cr_device_parse("foo", &kind, &index));
}

TEST(meta_has_no_bytes)
{
    CHECK(!cr_device_of(CR_META)->get);
    CHECK(cr_device_of(CR_CPU)->get);
}
