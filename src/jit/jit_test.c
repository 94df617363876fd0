/* Run-time compilation: its failures, its caches, several processes, forks. */
#include "base/test.h"
#include "jit/compiler.h"
#include "jit/fused.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
/* The thread sanitizer gives up in a forked child that starts threads; here that is tested. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

static char cache[128];

/* Each test has a cache of its own. */
static void fresh_cache(void)
{
    static int turn;

    snprintf(cache, sizeof cache, "/tmp/cr_jit_test.%ld.%d/deep/er", (long)getpid(), turn++);
    setenv("CR_CACHE", cache, 1);
    unsetenv("CR_CC");
}

static void remove_cache(void)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf /tmp/cr_jit_test.%ld.*", (long)getpid());
    EQ(system(command), 0);
}

static int files_ending(const char *end)
{
    DIR *d = opendir(cache);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d))) {
        size_t len = strlen(e->d_name), k = strlen(end);
        n += len >= k && !strcmp(e->d_name + len - k, end);
    }
    if (d)
        closedir(d);
    return n;
}

static int all_files(void) { return files_ending("") - 2; }

/* Programs that no other test asks for: memory would have them. */
static cr_loop *scaled(cr_session *s, void *context)
{
    char text[128];

    snprintf(text, sizeof text, "y[i<N] = x[i] * %d + 1\n", *(int *)context);
    return cr_loop_parse(s, text);
}

static cr_fused *ask(int factor)
{
    cr_fused *f = NULL;

    OK(cr_fused_new(&f, scaled, &factor));
    return f;
}

static float run_once(cr_fused *f, cr_tier tier, float v)
{
    float x[40], y[40] = {0};
    void *ptr[2] = {y, x};
    int64_t stride[4] = {0, 4, 0, 4};

    for (int i = 0; i < 40; i++)
        x[i] = v;
    OK(cr_fused_run_by(f, tier, ptr, stride, 1, 40, NULL));
    EQ(y[39] == y[0], 1);
    return y[39];
}

TEST(a_kernel_is_compiled_loaded_and_right)
{
    fresh_cache();
    cr_fused *f = ask(3);

    NEAR(run_once(f, CR_TIER_BEST, 2), 7, 0);
    EQ(cr_jit_wait(cr_fused_kernel(f), 60), CR_JIT_READY);
    NEAR(run_once(f, CR_TIER_NATIVE, 2), 7, 0);
    CHECK(!cr_jit_from_disk(cr_fused_kernel(f)));
    EQ(files_ending(".so"), 1);
    EQ(files_ending(".c"), 1);
    EQ(all_files(), 2);
    cr_fused_drop(f);
    remove_cache();
}

TEST(equal_programs_are_one_kernel)
{
    fresh_cache();
    cr_jit_counts before = cr_jit_count();
    cr_fused *f = ask(5), *g = ask(5);

    CHECK(cr_fused_kernel(f) == cr_fused_kernel(g));
    cr_jit_wait(cr_fused_kernel(g), 60);
    EQ(cr_jit_count().compiled - before.compiled, 1);
    EQ(cr_jit_count().from_memory - before.from_memory, 1);
    cr_fused_drop(f);
    cr_fused_drop(g);
    remove_cache();
}

/* In a child: compiles or loads factor; the exit status is 1 when it came from disk. */
static int child_asks(int factor)
{
    pid_t child = fork();
    int status;

    if (!child) {
        cr_fused *f = ask(factor);
        bool ready = cr_jit_wait(cr_fused_kernel(f), 60) == CR_JIT_READY;
        bool right = run_once(f, CR_TIER_BEST, 1) == (float)factor + 1;
        _exit(!ready || !right ? 2 : cr_jit_from_disk(cr_fused_kernel(f)));
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_second_process_finds_the_kernel_on_disk)
{
    fresh_cache();
    EQ(child_asks(7), 0);
    EQ(child_asks(7), 1);
    remove_cache();
}

TEST(a_fork_while_compiling_leaves_both_with_a_kernel)
{
    fresh_cache();
    cr_fused *f = ask(11);

    EQ(child_asks(12), 0);
    EQ(cr_jit_wait(cr_fused_kernel(f), 60), CR_JIT_READY);
    /* The child inherits what was being compiled and may ask for it too. */
    int again = child_asks(11);
    CHECK(again == 0 || again == 1);
    cr_fused_drop(f);
    remove_cache();
}

TEST(several_processes_compile_one_kernel_at_once)
{
    pid_t child[6];

    fresh_cache();
    for (int i = 0; i < 6; i++) {
        child[i] = fork();
        if (!child[i]) {
            cr_fused *f = ask(13);
            cr_jit_wait(cr_fused_kernel(f), 60);
            _exit(run_once(f, CR_TIER_NATIVE, 1) != 14.0f);
        }
    }
    for (int i = 0; i < 6; i++) {
        int status = -1;
        waitpid(child[i], &status, 0);
        EQ(status, 0);
    }
    EQ(all_files(), 2);
    remove_cache();
}

TEST(a_torn_file_on_disk_is_only_a_miss)
{
    char name[512], command[768];

    fresh_cache();
    EQ(child_asks(17), 0);
    snprintf(command, sizeof command, "for f in %s/*.so; do echo torn > $f; done", cache);
    EQ(system(command), 0);
    EQ(child_asks(17), 0);
    EQ(child_asks(17), 1);
    snprintf(command, sizeof command, "for f in %s/*.c; do echo other > $f; done", cache);
    EQ(system(command), 0);
    EQ(child_asks(17), 0);
    snprintf(name, sizeof name, "%s", cache);
    remove_cache();
}

/* Without native code tier 0 goes on, and the failure is known. */
static void fails_softly(int factor)
{
    cr_fused *f = ask(factor);

    EQ(cr_jit_wait(cr_fused_kernel(f), 60), CR_JIT_FAILED);
    CHECK(cr_jit_function(cr_fused_kernel(f)) == NULL);
    NEAR(run_once(f, CR_TIER_BEST, 2), 2 * factor + 1, 0);
    EQ(all_files() > 0 ? all_files() : 0, 0);
    cr_fused_drop(f);
    remove_cache();
}

static void write_script(char *path, size_t room, const char *text)
{
    FILE *f;

    snprintf(path, room, "/tmp/cr_jit_test.%ld.cc", (long)getpid());
    f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
    chmod(path, 0755);
}

TEST(no_compiler_is_no_error)
{
    fresh_cache();
    setenv("CR_CC", "/nowhere/cc", 1);
    CHECK(cr_compiler_path() == NULL);
    fails_softly(19);
}

TEST(a_compiler_that_fails_is_no_error)
{
    char path[128];

    fresh_cache();
    write_script(path, sizeof path, "#!/bin/sh\necho 'x.c: error: broken' >&2\nexit 1\n");
    setenv("CR_CC", path, 1);
    fails_softly(23);
}

TEST(a_compiler_that_writes_nonsense_is_no_error)
{
    char path[128];

    fresh_cache();
    write_script(path, sizeof path,
                 "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho nonsense > $2\n");
    setenv("CR_CC", path, 1);
    fails_softly(29);
}

TEST(a_compiler_that_hangs_is_ended_with_its_children)
{
    char path[128], source[256], object[256];
    struct timespec a, b;

    fresh_cache();
    write_script(path, sizeof path, "#!/bin/sh\nsleep 1000 &\nwait\n");
    setenv("CR_CC", path, 1);
    snprintf(source, sizeof source, "/tmp/cr_jit_test.%ld.x.c", (long)getpid());
    snprintf(object, sizeof object, "/tmp/cr_jit_test.%ld.x.so", (long)getpid());
    clock_gettime(CLOCK_MONOTONIC, &a);
    FAILS(CR_RUNTIME, cr_compiler_run(source, object, 0.2));
    clock_gettime(CLOCK_MONOTONIC, &b);
    CHECK(b.tv_sec - a.tv_sec < 20);
    CHECK(strstr(cr_error_message(), "took longer") != NULL);
    remove_cache();
}

TEST(a_cache_that_cannot_be_written_is_no_error)
{
    fresh_cache();
    setenv("CR_CACHE", "/proc/nowhere", 1);
    cr_fused *f = ask(31);

    EQ(cr_jit_wait(cr_fused_kernel(f), 60), CR_JIT_FAILED);
    NEAR(run_once(f, CR_TIER_BEST, 2), 63, 0);
    cr_fused_drop(f);
}
