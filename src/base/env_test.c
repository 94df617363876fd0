#include "base/env.h"
#include "base/test.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

static const char *const lent[] = {"CR_CC=lent", "CR_LENT=1", NULL};

static void read_lent(void *seen)
{
    snprintf(seen, 64, "%s %s %s", getenv("CR_CC") ? getenv("CR_CC") : "none",
             getenv("CR_LENT") ? getenv("CR_LENT") : "none", getenv("CR_CACHE"));
}

TEST(added_variables_are_seen_during_the_call_only)
{
    char seen[64];
    char **before;

    setenv("CR_CACHE", "kept", 1);
    before = environ;
    cr_env_with(lent, read_lent, seen);
    EQ_STR(seen, "lent 1 kept");
    EQ(environ, before);
    EQ(getenv("CR_CC"), NULL);
    EQ(getenv("CR_LENT"), NULL);
    unsetenv("CR_CACHE");
}

static void assign(void *unused)
{
    (void)unused;
    setenv("CR_CACHE", "changed", 1);
    unsetenv("CR_ISA");
}

static void add(void *unused)
{
    (void)unused;
    setenv("CR_ADDED", "1", 1);
}

/* As another thread may do while the call runs. */
TEST(assignments_made_during_the_call_stay)
{
    setenv("CR_CACHE", "before", 1);
    setenv("CR_ISA", "base", 1);
    cr_env_with(lent, assign, NULL);
    EQ_STR(getenv("CR_CACHE"), "changed");
    EQ(getenv("CR_ISA"), NULL);
    EQ(getenv("CR_LENT"), NULL);
    cr_env_with(lent, add, NULL);
    EQ_STR(getenv("CR_ADDED"), "1");
    EQ_STR(getenv("CR_CACHE"), "changed");
    unsetenv("CR_ADDED");
    unsetenv("CR_CACHE");
}

static void count_call(void *calls) { ++*(int *)calls; }

TEST(a_call_without_an_environment_runs)
{
    char **before = environ;
    int calls = 0;

    environ = NULL;
    cr_env_with(lent, count_call, &calls);
    environ = before;
    EQ(calls, 1);
}

TEST(an_integer_that_is_none_gives_the_default)
{
    static const char *const texts[] = {"", "abc", "4x", "1e3", "99999999999999999999", "4,2"};

    for (size_t i = 0; i < CR_LEN(texts); i++) {
        setenv("CR_SIZES_LIMIT", texts[i], 1);
        EQ(cr_env_int(CR_ENV_CR_SIZES_LIMIT), 64);
    }
    setenv("CR_SIZES_LIMIT", "-5", 1);
    EQ(cr_env_int(CR_ENV_CR_SIZES_LIMIT), -5);
    unsetenv("CR_SIZES_LIMIT");
}
