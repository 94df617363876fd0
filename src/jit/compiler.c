/* The compiler as a child process.
 *
 * It runs in a process group of its own, so that a compiler that hangs is ended with all
 * it started.  Where the program ignores SIGCHLD the exit status is lost; the object's
 * presence then tells. */
#include "jit/compiler.h"
#include "base/env.h"
#include "base/memory.h"
#include "jit/isa.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* --- which one --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char asked[256], found[1024]; /* CR_CC as it was, and its path */
static bool looked;

static bool runs(const char *path) { return access(path, X_OK) == 0; }

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

static void look(const char *wish)
{
    static const char *const usual[] = {"gcc", "clang", "cc"};
    bool ok = false;

    snprintf(asked, sizeof asked, "%s", wish);
    if (*wish)
        ok = find_in_path(wish, found, sizeof found);
    for (size_t i = 0; !*wish && !ok && i < CR_LEN(usual); i++)
        ok = find_in_path(usual[i], found, sizeof found);
    if (!ok)
        found[0] = 0;
    looked = true;
}

const char *cr_compiler_path(void)
{
    const char *wish = cr_env(CR_ENV_CR_CC);

    pthread_mutex_lock(&lock);
    if (!looked || strcmp(wish, asked))
        look(wish);
    pthread_mutex_unlock(&lock);
    return found[0] ? found : NULL;
}

static const char flags[] = "-std=gnu11 -O2 -fPIC -shared -ffp-contract=off -nostartfiles -w";

void cr_compiler_identity(cr_text *out)
{
    const char *path = cr_compiler_path();
    struct stat st;

    if (!path || stat(path, &st))
        return;
    cr_text_printf(out, "%s %lld %lld %s %s", path, (long long)st.st_size, (long long)st.st_mtime,
                   flags, cr_isa_flags(cr_isa_chosen()));
}

/* --- the child --- */

enum { MOST_WORDS = 48 };

typedef struct {
    char text[2048];
    char *word[MOST_WORDS];
    int words;
    size_t used;
} command;

static void add_word(command *c, const char *word, size_t n)
{
    CR_ASSERT(c->words + 1 < MOST_WORDS && c->used + n + 1 < sizeof c->text);
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

static void make_command(command *c, const char *path, const char *source, const char *object)
{
    c->words = 0;
    c->used = 0;
    add_word(c, path, strlen(path));
    add_words(c, flags);
    add_words(c, cr_isa_flags(cr_isa_chosen()));
    add_words(c, "-DCK_ISA=jit -o");
    add_word(c, object, strlen(object));
    add_word(c, source, strlen(source));
    add_words(c, "-lm");
    c->word[c->words] = NULL;
}

/* The child's complaints go to `log`; its signals are as a shell's. */
static int start(pid_t *child, command *c, const char *log)
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
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                       POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    failed = posix_spawn(child, c->word[0], &files, &how, c->word, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Waits; *status is -1 when nobody knows it. */
static bool finish(pid_t child, double seconds, int *status)
{
    struct timespec nap = {0, 1000000};
    double end = now() + seconds;

    for (;;) {
        pid_t got = waitpid(child, status, WNOHANG);
        if (got == child)
            return true;
        if (got < 0 && errno != EINTR) {
            *status = -1;
            return true;
        }
        if (now() > end)
            break;
        nanosleep(&nap, NULL);
    }
    kill(-child, SIGKILL);
    waitpid(child, status, 0);
    return false;
}

/* The first line of the log that says "error", or the first line. */
static cr_status complaint(const char *log)
{
    char *text = NULL, *at;
    size_t len;

    if (cr_read_file(&text, &len, log))
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

cr_status cr_compiler_run(const char *source, const char *object, double seconds)
{
    const char *path = cr_compiler_path();
    char log[1200];
    command c;
    pid_t child;
    int status = 0, failed;
    cr_status st = CR_OK;

    if (!path)
        return cr_fail(CR_RUNTIME, "no C compiler was found (CR_CC, gcc, clang, cc)");
    snprintf(log, sizeof log, "%s.log", object);
    make_command(&c, path, source, object);
    failed = start(&child, &c, log);
    if (failed)
        st = cr_fail(CR_RUNTIME, "%s cannot be started: %s", path, strerror(failed));
    else if (!finish(child, seconds, &status))
        st = cr_fail(CR_RUNTIME, "%s took longer than %g s and was ended", path, seconds);
    else if (status == -1 ? access(object, R_OK) != 0 : status != 0)
        st = complaint(log);
    unlink(log);
    return st;
}
