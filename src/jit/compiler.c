/* The compiler as a child process.
 *
 * The compiler runs in a separate process group, so that a hanging compiler can be ended with
 * all its children.  The leader of the group is a guard: a shell that waits on a pipe from this
 * process.  When this process ends in any way, the pipe closes, and the guard removes the
 * folder and ends the group.  In a program that ignores SIGCHLD the exit status is lost; the
 * object file's existence then tells whether the compilation succeeded. */
#include "jit/compiler.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/isa.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* --- choosing the compiler --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char asked[256], found[1024]; /* the value of CR_CC, and the compiler's path */
static bool looked;
static _Atomic bool plain,
    given_up; /* plain: without cr_isa_moves, which the compiler does not know */

static bool runs(const char *path) { return access(path, X_OK) == 0; }

/* The compiler starts in another folder, so it needs an absolute path. */
static bool make_absolute(char *path, size_t room)
{
    char copy[1024];
    size_t n;

    if (*path == '/')
        return true;
    snprintf(copy, sizeof copy, "%s", path);
    if (!getcwd(path, room))
        return false;
    n = strlen(path);
    return snprintf(path + n, room - n, "/%s", copy) < (int)(room - n);
}

static bool find_in_path(const char *name, char *out, size_t room)
{
    const char *p = cr_env(CR_ENV_PATH);

    if (strchr(name, '/')) {
        snprintf(out, room, "%s", name);
        return runs(out);
    }
    while (*p) {
        int n = (int)strcspn(p, ":");
        if (snprintf(out, room, "%.*s/%s", n, p, name) < (int)room && runs(out))
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static void find_compiler(const char *wish)
{
    static const char *const usual[] = {"gcc", "clang", "cc"};
    bool ok = false;

    snprintf(asked, sizeof asked, "%s", wish);
    if (*wish)
        ok = find_in_path(wish, found, sizeof found);
    for (size_t i = 0; !*wish && !ok && i < CR_LEN(usual); i++)
        ok = find_in_path(usual[i], found, sizeof found);
    if (!ok || !make_absolute(found, sizeof found))
        found[0] = 0;
    looked = true;
    plain = given_up = false;
}

const char *cr_compiler_path(void)
{
    const char *wish = cr_env(CR_ENV_CR_CC);

    pthread_mutex_lock(&lock);
    if (!looked || strcmp(wish, asked))
        find_compiler(wish);
    pthread_mutex_unlock(&lock);
    return found[0] ? found : NULL;
}

/* Measured with gcc 12 on the groups of 21 programs: -O2 takes 0.10 s of processor time a
 * group, -O1 with -fgcse 0.08, all of it in the background; most kernels are within 3 %, those
 * of chains of many operators up to 16 % faster (structural similarity 660 us and 569). Without
 * -fgcse, which -O2 has, kernels are up to 1.7 times slower.  -O2 also has
 * -fexpensive-optimizations, without which gcc omits vzeroupper, and the interpreter's SSE
 * instructions after a kernel wait for the upper halves of registers: 0.55 us instead of 0.36
 * for a compiled lerp of 200 (AVX-512, Sapphire Rapids). */
static const char flags[] = "-std=gnu11 -O2 -fPIC -shared -ffp-contract=off -nostartfiles -w";

void cr_compiler_identity(cr_text *out)
{
    const char *path = cr_compiler_path();
    struct stat st;

    if (!path || stat(path, &st))
        return;
    cr_text_printf(out, "%s %lld %lld %s %s %s", path, (long long)st.st_size,
                   (long long)st.st_mtime, flags, cr_isa_flags(cr_isa_chosen()),
                   cr_isa_moves(cr_isa_chosen()));
}

/* --- the child --- */

enum { MOST_WORDS = 48 };

typedef struct {
    char text[2048];
    char *word[MOST_WORDS];
    int words;
    size_t used;
    bool too_long;
} command;

static void add_word(command *c, const char *word, size_t n)
{
    c->too_long = c->too_long || c->words + 1 >= MOST_WORDS || c->used + n + 1 > sizeof c->text;
    if (c->too_long)
        return;
    c->word[c->words++] = memcpy(c->text + c->used, word, n);
    c->used += n;
    c->text[c->used++] = 0;
}

static void add_words(command *c, const char *words)
{
    while (*words) {
        size_t n = strcspn(words, " ");
        if (n)
            add_word(c, words, n);
        words += n + (words[n] == ' ');
    }
}

static void make_command(command *c, const char *path, bool moves, const char *source,
                         const char *object)
{
    c->words = 0;
    c->used = 0;
    c->too_long = false;
    add_word(c, path, strlen(path));
    add_words(c, flags);
    add_words(c, cr_isa_flags(cr_isa_chosen()));
    add_words(c, moves ? cr_isa_moves(cr_isa_chosen()) : "");
    add_words(c, "-DCK_ISA=jit -o");
    add_word(c, object, strlen(object));
    add_word(c, source, strlen(source));
    add_words(c, "-lm");
    c->word[c->words] = NULL;
}

/* --- the environment --- */

/* Strings "NAME=value", one after another, each ended by a zero.  Guarded by the lock. */
static struct {
    char *bytes;
    size_t len;
    int variables;
} kept;

static bool is_as_kept(void)
{
    size_t at = 0;

    for (char **v = environ; v && *v; v++) {
        size_t n = strlen(*v) + 1;
        if (n > kept.len - at || memcmp(kept.bytes + at, *v, n))
            return false;
        at += n;
    }
    return at == kept.len;
}

/* When memory is missing, the older copy stays. */
void cr_compiler_keep_environment(void)
{
    size_t len = 0;
    int variables = 0;
    char *bytes;

    pthread_mutex_lock(&lock);
    if (is_as_kept())
        goto done;
    for (char **v = environ; v && *v; v++, variables++)
        len += strlen(*v) + 1;
    bytes = cr_alloc(len + 1);
    if (!bytes)
        goto done;
    cr_free(kept.bytes);
    kept.bytes = bytes;
    kept.len = len;
    kept.variables = variables;
    for (char **v = environ; v && *v; v++) {
        size_t n = strlen(*v) + 1;
        bytes = (char *)memcpy(bytes, *v, n) + n;
    }
done:
    pthread_mutex_unlock(&lock);
}

/* The kept environment with another folder for temporary files, "TMPDIR=..."; ends with NULL.
 * The caller frees it. */
static char **own_environment(const char *folder)
{
    char **out, **at;

    pthread_mutex_lock(&lock);
    at = out = cr_alloc(((size_t)kept.variables + 2) * sizeof *out + kept.len);
    if (out) {
        char *bytes = (char *)(out + kept.variables + 2);
        if (kept.len)
            memcpy(bytes, kept.bytes, kept.len);
        for (size_t i = 0; i < kept.len; i += strlen(bytes + i) + 1)
            if (strncmp(bytes + i, "TMPDIR=", 7))
                *at++ = bytes + i;
        *at++ = (char *)folder;
        *at = NULL;
    }
    pthread_mutex_unlock(&lock);
    return out;
}

/* --- guards --- */

enum { MOST_GUARDS = 8 };
static struct {
    pid_t pid; /* the leader of the group */
    int pipe;  /* our end; 0 while the entry is free */
} guards[MOST_GUARDS];

/* Starts a child in the group `group`, or in a new group when that is 0.  The child runs in the
 * open folder `dir`, or in the current one when that is -1.  Signals have a shell's
 * defaults. */
static int child_start(pid_t *child, char *const *word, int in, int dir, const char *log,
                       pid_t group, char **environment)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, usual;
    int failed;

    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGCHLD);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    if (dir >= 0)
        posix_spawn_file_actions_addfchdir_np(&files, dir);
    if (in)
        posix_spawn_file_actions_adddup2(&files, in, 0);
    else
        posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&how, group);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    failed = posix_spawn(child, word[0], &files, &how, word, environment);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

/* Makes a pipe whose ends are above the standard files.  A program that has closed these gives
 * their numbers to the next files, and what it prints would then reach the guard. */
static bool guard_pipe(int *ends)
{
    int low[2];

    if (pipe2(low, O_CLOEXEC))
        return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(low[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return true;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    return false;
}

/* Starts a guard for the compilation in `folder`.  Returns its index in `guards`, or -1. */
static int guard_new(char *folder, char **environment)
{
    char *word[] = {"/bin/sh", "-c", "read x; rm -rf \"$0\"; kill -9 0", folder, NULL};
    int ends[2], k = 0;
    pid_t pid;

    if (!guard_pipe(ends))
        return -1;
    if (child_start(&pid, word, ends[0], -1, "/dev/null", 0, environment)) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    close(ends[0]);
    pthread_mutex_lock(&lock);
    while (k < MOST_GUARDS - 1 && guards[k].pipe)
        k++;
    CR_ASSERT(!guards[k].pipe);
    guards[k].pid = pid;
    guards[k].pipe = ends[1];
    pthread_mutex_unlock(&lock);
    return k;
}

/* Ends the group and all processes in it. */
static void guard_end(int k)
{
    if (k < 0)
        return;
    kill(-guards[k].pid, SIGKILL);
    waitpid(guards[k].pid, NULL, 0);
    pthread_mutex_lock(&lock);
    close(guards[k].pipe);
    guards[k].pipe = 0;
    pthread_mutex_unlock(&lock);
}

void cr_compiler_before_fork(void) { pthread_mutex_lock(&lock); }
void cr_compiler_after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }

/* The guards would wait for the child's copies of the pipes. */
void cr_compiler_after_fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    for (int k = 0; k < MOST_GUARDS; k++) {
        if (guards[k].pipe)
            close(guards[k].pipe);
        guards[k].pipe = 0;
    }
}

/* --- a run --- */

/* Waits for the child; *status is -1 when the exit status is unknown. */
static bool child_wait(pid_t child, double seconds, int *status)
{
    struct timespec nap = {0, 1000000};
    double end = cr_seconds() + seconds;

    for (;;) {
        pid_t got = waitpid(child, status, WNOHANG);
        if (got == child)
            return true;
        if (got < 0 && errno != EINTR) {
            *status = -1;
            return true;
        }
        if (cr_seconds() > end)
            break;
        nanosleep(&nap, NULL);
    }
    return false;
}

static const char log_name[] = "log";

/* Fails with the first line of the log that says "error", or else with the first line. */
static cr_status complaint(int dir)
{
    char *text = NULL, *at;
    size_t len;
    int fd = openat(dir, log_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool failed = fd < 0 || cr_read_open_file(&text, &len, fd, log_name);

    if (fd >= 0)
        close(fd);
    if (failed)
        return cr_fail(CR_RUNTIME, "the compiler failed without a word");
    at = strstr(text, "error");
    while (at && at > text && at[-1] != '\n')
        at--;
    at = at ? at : text;
    at[strcspn(at, "\n")] = 0;
    cr_status st = cr_fail(CR_RUNTIME, "the compiler failed: %.300s", at);
    cr_free(text);
    return st;
}

/* Runs the compiler once; *status as finish sets it. */
static cr_status command_run(command *c, const cr_cache_folder *folder, double seconds,
                             int *status)
{
    char **environment = own_environment("TMPDIR=.");
    pid_t child = 0;
    int guard, failed;
    bool ended = false;

    CR_NEED(environment);
    guard = guard_new(folder->path.at, environment);
    failed = child_start(&child, c->word, 0, folder->dir, log_name,
                         guard < 0 ? 0 : guards[guard].pid, environment);
    if (!failed)
        ended = child_wait(child, seconds, status);
    if (!failed && !ended) {
        kill(guard < 0 ? -child : -guards[guard].pid, SIGKILL);
        waitpid(child, status, 0);
    }
    guard_end(guard);
    cr_free(environment);
    if (failed)
        return cr_fail(CR_RUNTIME, "%s cannot be started: %s", c->word[0], strerror(failed));
    if (!ended) {
        given_up = true;
        return cr_fail(CR_RUNTIME,
                       "%s took longer than %g s and was ended; nothing more is compiled",
                       c->word[0], seconds);
    }
    return CR_OK;
}

cr_status cr_compiler_run(const cr_cache_folder *folder, const char *source, const char *object,
                          double seconds)
{
    const char *path = cr_compiler_path();
    command c;
    int status = 0;
    cr_status st = CR_OK;

    if (!path)
        return cr_fail(CR_RUNTIME, "no C compiler was found (CR_CC, gcc, clang, cc)");
    if (given_up)
        return cr_fail(CR_RUNTIME, "%s took too long before", path);
    make_command(&c, path, !plain, source, object);
    if (c.too_long)
        return cr_fail(CR_RUNTIME, "the command of the C compiler %s is too long", path);
    CR_TRY(command_run(&c, folder, seconds, &status));
    if (status == -1 ? faccessat(folder->dir, object, R_OK, 0) != 0 : status != 0)
        st = complaint(folder->dir);
    if (st && !plain && *cr_isa_moves(cr_isa_chosen()) &&
        strstr(cr_error_message(), "move-max")) {
        plain = true;
        make_command(&c, path, false, source, object);
        CR_TRY(command_run(&c, folder, seconds, &status));
        st = status > 0 ? complaint(folder->dir) : CR_OK;
    }
    return st;
}
