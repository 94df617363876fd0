/* Run-time compilation: its failures, its caches, several processes, forks. */
#include "base/test.h"
#include "jit/cache.h"
#include "jit/compiler.h"
#include "jit/fused.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
/* The thread sanitizer stops a forked child that starts threads, which these tests do. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

static char cache[128];

/* Each test has a new cache. */
static void fresh_cache(void)
{
    static int turn;

    snprintf(cache, sizeof cache, "/tmp/cr_jit_test.%ld.%d/deep/er", (long)getpid(), turn++);
    setenv("CR_CACHE", cache, 1);
    unsetenv("CR_CC");
    unsetenv("TMPDIR");
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

/* The number of files in the cache, without "." and ".."; 0 when there is no folder. */
static int all_files(void)
{
    int n = files_ending("");

    return n ? n - 2 : 0;
}

/* Programs that no other test requests, so that they are not already in memory. */
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
    EQ(all_files(), 1);
    cr_fused_drop(f);
    remove_cache();
}

enum { MANY = 9 };

/* Requests programs with factors from `first` on, and waits for all. */
static void ask_many(cr_fused *f[MANY], int first)
{
    for (int i = 0; i < MANY; i++)
        f[i] = ask(first + i);
    for (int i = 0; i < MANY; i++)
        EQ(cr_jit_wait(cr_fused_kernel(f[i]), 60), CR_JIT_READY);
}

static void many_are_right(cr_fused *f[MANY], int first)
{
    for (int i = 0; i < MANY; i++) {
        NEAR(run_once(f[i], CR_TIER_NATIVE, 2), 2 * (first + i) + 1, 0);
        cr_fused_drop(f[i]);
    }
}

TEST(waiting_kernels_are_compiled_together_and_found_singly)
{
    cr_fused *f[MANY];
    pid_t child;
    int status = -1;

    fresh_cache();
    ask_many(f, 600);
    many_are_right(f, 600);
    EQ(files_ending(".so"), MANY);
    EQ(all_files(), MANY);
    child = fork();
    if (!child) {
        cr_fused *one = ask(600 + MANY - 1);
        cr_jit_wait(cr_fused_kernel(one), 60);
        _exit(run_once(one, CR_TIER_NATIVE, 1) != 600 + MANY);
    }
    waitpid(child, &status, 0);
    EQ(status, 0);
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
    /* The child inherits the request that was being compiled and may repeat it. */
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
    EQ(all_files(), 1);
    remove_cache();
}

static void spoil(const char *how)
{
    char command[1024];

    snprintf(command, sizeof command, "cd %s && for f in *.so; do %s; done", cache, how);
    EQ(system(command), 0);
}

TEST(a_damaged_file_on_disk_is_a_miss)
{
    static const char *const ways[] = {
        "echo torn > $f",
        ": > $f",
        "truncate -s $(($(stat -c %s $f) / 2)) $f",
        "truncate -s -1 $f",
        "printf x | dd of=$f bs=1 seek=5000 conv=notrunc status=none",
        "rm $f && mkdir $f && touch $f/x && rm -r $f",
    };

    for (int i = 0; i < (int)CR_LEN(ways); i++) {
        fresh_cache();
        EQ(child_asks(1700 + i), 0);
        spoil(ways[i]);
        EQ(child_asks(1700 + i), 0);
        EQ(child_asks(1700 + i), 1);
        remove_cache();
    }
}

TEST(the_file_of_another_kernel_is_a_miss)
{
    fresh_cache();
    EQ(child_asks(1801), 0);
    spoil("mv $f ../first");
    EQ(child_asks(1802), 0);
    spoil("cp ../first $f");
    EQ(child_asks(1802), 0);
    EQ(child_asks(1802), 1);
    remove_cache();
}

/* Without native code, tier 0 is used and the state is "failed". */
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

/* The path of the machine's compiler, which the tests' scripts start. */
static const char *real_compiler(void)
{
    unsetenv("CR_CC");
    return cr_compiler_path();
}

static void write_script(char *path, size_t room, const char *text)
{
    static int turn; /* the library identifies a compiler by its path */
    FILE *f;

    snprintf(path, room, "/tmp/cr_jit_test.%ld.cc%d", (long)getpid(), turn++);
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

TEST(a_compiler_that_cannot_take_several_at_once_gets_one_at_a_time)
{
    char path[128], text[512];
    cr_fused *f[MANY];

    fresh_cache();
    snprintf(
        text, sizeof text,
        "#!/bin/sh\nfor f; do case $f in *.c) n=$(grep -c '^#undef CK_ISA' $f);; esac; done\n"
        "[ $n = 1 ] || { echo 'error: too many' >&2; exit 1; }\nexec %s \"$@\"\n",
        real_compiler());
    write_script(path, sizeof path, text);
    setenv("CR_CC", path, 1);
    ask_many(f, 700);
    many_are_right(f, 700);
    remove_cache();
}

TEST(a_compiler_that_does_not_know_how_to_move_does_without)
{
    char path[128], text[512];
    cr_fused *f;

    fresh_cache();
    snprintf(text, sizeof text,
             "#!/bin/sh\ncase \"$*\" in *-mmove-max*) echo \"error: unknown '-mmove-max'\" "
             ">&2; exit 1;;\n"
             "esac\nexec %s \"$@\"\n",
             real_compiler());
    write_script(path, sizeof path, text);
    setenv("CR_CC", path, 1);
    f = ask(37);
    EQ(cr_jit_wait(cr_fused_kernel(f), 60), CR_JIT_READY);
    NEAR(run_once(f, CR_TIER_NATIVE, 2), 75, 0);
    cr_fused_drop(f);
    remove_cache();
}

/* Writes the script of a compiler that sleeps, and the word in the command lines of its
 * processes, by which they are distinguished from those of other test runs. */
static void write_sleeper(char word[32], char *path, size_t room)
{
    static int turn;
    char text[128];

    snprintf(word, 32, "%d000.%ld", ++turn, (long)getpid());
    snprintf(text, sizeof text, "#!/bin/sh\nsleep %s &\nwait\n", word);
    write_script(path, room, text);
}

/* Processes whose command line has the word. */
static int processes_with(const char *word)
{
    char command[256], text[32] = "";
    FILE *f;

    /* the shells of this search have the pattern [w]ord, which does not match itself */
    snprintf(command, sizeof command,
             "grep -alz '[%c]%s' /proc/[0-9]*/cmdline 2>/dev/null | wc -l", *word, word + 1);
    f = popen(command, "r");
    CHECK(f && fgets(text, sizeof text, f));
    pclose(f);
    return atoi(text);
}

static int work_folders(const char *in)
{
    DIR *d = opendir(in);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)))
        n += !strncmp(e->d_name, "cresset-work-", 13);
    if (d)
        closedir(d);
    return n;
}

static void nap(void) { nanosleep(&(struct timespec){0, 20000000}, NULL); }

/* False when no process has the word for ten seconds. */
static bool comes_up(const char *word)
{
    int tries = 0;

    while (!processes_with(word) && tries++ < 300)
        nap();
    return tries < 300;
}

static bool goes_away(const char *word)
{
    int tries = 0;

    while (processes_with(word) && tries++ < 300)
        nap();
    return tries < 300;
}

TEST(a_compiler_that_hangs_is_ended_with_its_children)
{
    char path[128], word[32];
    cr_cache_folder folder;
    struct timespec a, b;

    fresh_cache();
    write_sleeper(word, path, sizeof path);
    setenv("CR_CC", path, 1);
    OK(cr_cache_work(&folder, 1));
    clock_gettime(CLOCK_MONOTONIC, &a);
    FAILS(CR_RUNTIME, cr_compiler_run(&folder, "x.c", "x.so", 0.2));
    clock_gettime(CLOCK_MONOTONIC, &b);
    CHECK(b.tv_sec - a.tv_sec < 20);
    CHECK(strstr(cr_error_message(), "took longer") != NULL);
    CHECK(goes_away(word)); /* its end becomes visible a moment later */
    /* The compiler is not run again. */
    FAILS(CR_RUNTIME, cr_compiler_run(&folder, "x.c", "x.so", 0.2));
    CHECK(strstr(cr_error_message(), "too long before") != NULL);
    cr_cache_work_end(&folder);
    EQ(work_folders(cache), 0);
    remove_cache();
}

/* Set when a process ends while its threads work and hold memory, for the leak checker. */
static bool ends_at_work;
CR_API int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return ends_at_work; }

/* A child requests a kernel and ends in the way `how` while its compiler hangs. */
static void ends_while_compiling(const char *how)
{
    char path[128], temporary[160], word[32];
    int tries = 0, status = -1;

    fresh_cache();
    write_sleeper(word, path, sizeof path);
    setenv("CR_CC", path, 1);
    snprintf(temporary, sizeof temporary, "/tmp/cr_jit_test.%ld.tmp", (long)getpid());
    mkdir(temporary, 0700);
    setenv("TMPDIR", temporary, 1);
    pid_t child = fork();
    if (!child) {
        ask(41);
        if (!comes_up(word) || work_folders(temporary) != 1)
            _exit(1);
        if (!strcmp(how, "kill"))
            kill(getpid(), SIGKILL);
        if (!strcmp(how, "exit")) {
            ends_at_work = true;
            exit(0);
        }
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    CHECK(goes_away(word));
    while (work_folders(temporary) && tries++ < 300)
        nap();
    EQ(work_folders(temporary), 0);
    unsetenv("TMPDIR");
    remove_cache();
}

TEST(a_process_that_ends_takes_its_compiler_along)
{
    ends_while_compiling("kill");
    ends_while_compiling("exit");
    ends_while_compiling("exec");
}

TEST(a_child_forked_while_compiling_does_not_keep_the_compiler)
{
    char path[128], word[32];
    int to[2];

    fresh_cache();
    EQ(pipe(to), 0);
    write_sleeper(word, path, sizeof path);
    setenv("CR_CC", path, 1);
    pid_t child = fork();
    if (!child) {
        ask(43);
        if (!comes_up(word))
            _exit(1);
        pid_t grandchild = fork();
        if (!grandchild) {
            char byte;
            close(to[1]);
            _exit(read(to[0], &byte, 1) != 0); /* ends when the test closes the pipe */
        }
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    CHECK(goes_away(word));
    close(to[0]);
    close(to[1]);
    remove_cache();
}

/* Kernels are compiled but not kept. */
static void is_not_kept(int factor)
{
    cr_fused *f = ask(factor);

    EQ(cr_jit_wait(cr_fused_kernel(f), 60), CR_JIT_READY);
    NEAR(run_once(f, CR_TIER_NATIVE, 2), 2 * factor + 1, 0);
    cr_fused_drop(f);
}

TEST(a_cache_that_cannot_be_written_is_no_error)
{
    char path[128];

    fresh_cache();
    setenv("CR_CACHE", "/proc/nowhere", 1);
    is_not_kept(31);
    setenv("CR_CACHE", "/sys/cresset", 1); /* not allowed, or a read-only file system */
    is_not_kept(67);
    fresh_cache();
    snprintf(path, sizeof path, "/tmp/cr_jit_test.%ld.file", (long)getpid());
    OK(cr_write_file(path, "x", 1));
    strcat(path, "/cache");
    setenv("CR_CACHE", path, 1);
    is_not_kept(47);
    remove_cache();
}

TEST(temporary_files_go_to_the_cache_where_they_have_no_place)
{
    fresh_cache();
    setenv("TMPDIR", "/proc/nowhere", 1);
    is_not_kept(53); /* kept, in fact */
    EQ(files_ending(".so"), 1);
    EQ(work_folders(cache), 0);
    setenv("CR_CACHE", "/proc/nowhere", 1);
    cr_fused *f = ask(59);
    EQ(cr_jit_wait(cr_fused_kernel(f), 60), CR_JIT_FAILED);
    NEAR(run_once(f, CR_TIER_BEST, 2), 119, 0);
    cr_fused_drop(f);
    unsetenv("TMPDIR");
    remove_cache();
}

TEST(files_that_cannot_be_written_completely_are_no_error)
{
    int status = -1;

    fresh_cache();
    pid_t child = fork();
    if (!child) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){2000, 2000});
        cr_fused *f = ask(61);
        bool failed = cr_jit_wait(cr_fused_kernel(f), 60) == CR_JIT_FAILED;
        _exit(!failed || run_once(f, CR_TIER_BEST, 2) != 123.0f || all_files() > 0);
    }
    waitpid(child, &status, 0);
    EQ(status, 0);
    remove_cache();
}

/* --- tidying --- */

static void put_file(const char *name, size_t bytes, int age)
{
    char path[512];
    char *zeros = calloc(1, bytes + 1);
    struct timespec when[2] = {{time(NULL) - age, 0}, {time(NULL) - age, 0}};

    snprintf(path, sizeof path, "%s/%s", cache, name);
    OK(cr_write_file(path, zeros, bytes));
    EQ(utimensat(AT_FDCWD, path, when, 0), 0);
    free(zeros);
}

static bool is_there(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", cache, name);
    return !access(path, F_OK);
}

TEST(a_note_is_read_unchanged_and_replaced_completely)
{
    const char *key = "0123456789abcdef0123456789abcdef";
    cr_text note = {0};

    fresh_cache();
    CHECK(!cr_cache_read_note(&note, key));
    OK(cr_cache_write_note(key, "one: fast\ntwo: slow\n", 20));
    CHECK(cr_cache_read_note(&note, key));
    EQ_STR(cr_text_str(&note), "one: fast\ntwo: slow\n");
    cr_text_drop(&note);
    note = (cr_text){0};
    OK(cr_cache_write_note(key, "", 0));
    CHECK(cr_cache_read_note(&note, key));
    EQ_STR(cr_text_str(&note), "");
    cr_text_drop(&note);
    EQ(all_files(), 1);
    remove_cache();
}

TEST(a_damaged_note_is_ignored)
{
    const char *key = "0123456789abcdef0123456789abcdef";
    char path[256];

    fresh_cache();
    OK(cr_cache_write_note(key, "one: fast\n", 10));
    snprintf(path, sizeof path, "%s/%s.sc", cache, key);
    for (int cut = 1; cut < 60; cut++) {
        cr_text note = {0};
        OK(cr_cache_write_note(key, "one: fast\n", 10));
        struct stat st;
        EQ(stat(path, &st), 0);
        if (st.st_size > cut) {
            EQ(truncate(path, st.st_size - cut), 0);
            CHECK(!cr_cache_read_note(&note, key));
        }
        cr_text_drop(&note);
    }
    FILE *f = fopen(path, "r+");
    fputs("two: slow", f);
    fclose(f);
    cr_text note = {0};
    CHECK(!cr_cache_read_note(&note, key));
    cr_text_drop(&note);
    remove_cache();
}

TEST(the_longest_unused_kernels_make_room)
{
    static const char *const name[] = {
        "00000000000000000000000000000000.so", "00000000000000000000000000000001.so",
        "00000000000000000000000000000002.so", "00000000000000000000000000000003.so"};
    char command[512];

    fresh_cache();
    setenv("CR_CACHE_LIMIT", "1", 1);
    snprintf(command, sizeof command, "mkdir -p %s", cache);
    EQ(system(command), 0);
    put_file(name[0], 300000, 50);
    put_file(name[1], 400000, 70);
    put_file(name[2], 400000, 90);
    put_file("notes.txt", 2000000, 99);
    snprintf(command, sizeof command, "cd %s && ln %s %s", cache, name[2], name[3]);
    EQ(system(command), 0);
    cr_cache_tidy();
    CHECK(is_there(name[0]) && is_there(name[1]));
    CHECK(!is_there(name[2]) && !is_there(name[3]));
    CHECK(is_there("notes.txt"));
    cr_cache_tidy(); /* within the limit */
    CHECK(is_there(name[1]));
    unsetenv("CR_CACHE_LIMIT");
    remove_cache();
}

TEST(the_cache_is_measured_and_cleared)
{
    char command[512];

    fresh_cache();
    EQ(cr_cache_measure(false).files, 0);
    snprintf(command, sizeof command, "mkdir -p %s", cache);
    EQ(system(command), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "%032x.so", i);
        put_file(command, 1000, 9);
    }
    snprintf(command, sizeof command, "cd %s && ln %032x.so %032x.so", cache, 0, 7);
    EQ(system(command), 0);
    put_file("notes.txt", 5, 9);
    EQ(cr_cache_measure(false).files, 2);
    EQ(cr_cache_measure(true).bytes, 2000);
    EQ(cr_cache_measure(false).files, 0);
    CHECK(is_there("notes.txt"));
    remove_cache();
    EQ(cr_cache_measure(true).files, 0);
}

TEST(old_files_of_ended_processes_are_removed)
{
    cr_cache_folder old, fresh;
    struct timespec when[2] = {{time(NULL) - 5000, 0}, {time(NULL) - 5000, 0}};

    fresh_cache();
    OK(cr_cache_work(&old, 1));
    OK(cr_cache_work(&fresh, 1));
    put_file("new.1.0", 10, 5000);
    put_file("new.1.1", 10, 5);
    EQ(utimensat(AT_FDCWD, old.path.at, when, 0), 0);
    cr_cache_tidy();
    CHECK(access(old.path.at, F_OK) != 0);
    CHECK(access(fresh.path.at, F_OK) == 0);
    CHECK(!is_there("new.1.0") && is_there("new.1.1"));
    cr_cache_work_end(&fresh);
    cr_cache_work_end(&old);
    remove_cache();
}

TEST(a_request_without_memory_fails_or_is_not_affected)
{
    fresh_cache();
    for (int n = 1; n < 400; n += n < 40 ? 1 : 13) {
        cr_fused *f = NULL;
        int factor = 2000 + n;
        cr_fail_alloc_after((uint64_t)n);
        cr_status st = cr_fused_new(&f, scaled, &factor);
        if (!st)
            cr_jit_wait(cr_fused_kernel(f), 60);
        cr_fail_alloc_after(0);
        CHECK(st == CR_OK || st == CR_MEMORY);
        if (!st)
            NEAR(run_once(f, CR_TIER_BEST, 2), 2 * factor + 1, 0);
        cr_fused_drop(f);
    }
    EQ(work_folders(cache), 0);
    EQ(all_files(), files_ending(".so"));
    remove_cache();
}
