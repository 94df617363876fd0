#include "base/env.h"
#include "base/test.h"
#include <pthread.h>
#include <stdlib.h>

static void *read_in_own_thread(void *seen)
{
    cr_env_read_kept();
    *(const char **)seen = cr_env(CR_ENV_CR_CACHE);
    return NULL;
}

static const char *seen_by_own_thread(void)
{
    pthread_t thread;
    const char *seen = NULL;

    EQ(pthread_create(&thread, NULL, read_in_own_thread, &seen), 0);
    pthread_join(thread, NULL);
    return seen;
}

TEST(a_library_thread_reads_kept_copies_until_the_next_keep)
{
    setenv("CR_CACHE", "first", 1);
    cr_env_keep();
    const char *first = seen_by_own_thread();
    EQ_STR(first, "first");
    setenv("CR_CACHE", "second", 1);
    EQ_STR(seen_by_own_thread(), "first");
    EQ_STR(cr_env(CR_ENV_CR_CACHE), "second");
    cr_env_keep();
    EQ_STR(seen_by_own_thread(), "second");
    EQ_STR(first, "first");
    unsetenv("CR_CACHE");
    cr_env_keep();
    EQ_STR(seen_by_own_thread(), "");
}
