/* Environment variables.
 *
 * getenv in one thread while another thread calls setenv (Python's os.environ does) can read
 * freed memory.  The library's own threads therefore read copies, which cr_env_keep() makes in
 * a thread of the program. */
#include "base/env.h"
#include "base/memory.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *preset, *help;
} variables[] = {
#define CR_ENV(name, preset, help) {#name, preset, help},
#include "base/env.def"
#undef CR_ENV
};

/* A copy of a variable's text.  Copies are never freed because another thread may read them. */
typedef struct kept {
    struct kept *older;
    char text[];
} kept;

static kept *all[CR_ENV_COUNT];
static const char *_Atomic last[CR_ENV_COUNT];
static CR_THREAD bool reads_kept;

static const char *of_process(cr_env_name which)
{
    const char *s = getenv(variables[which].name);

    return s && *s ? s : variables[which].preset;
}

/* Publishes `text` as the variable's copy.  When memory is short the previous copy remains. */
static void env_keep(cr_env_name which, const char *text)
{
    kept *k = all[which];

    while (k && strcmp(k->text, text))
        k = k->older;
    if (!k) {
        k = cr_alloc(sizeof *k + strlen(text) + 1);
        if (!k)
            return;
        strcpy(k->text, text);
        k->older = all[which];
        all[which] = k;
    }
    atomic_store(&last[which], k->text);
}

void cr_env_keep(void)
{
    for (int i = 0; i < CR_ENV_COUNT; i++) {
        const char *now = of_process((cr_env_name)i), *before = atomic_load(&last[i]);
        if (!before || strcmp(before, now))
            env_keep((cr_env_name)i, now);
    }
}

void cr_env_read_kept(void) { reads_kept = true; }

const char *cr_env(cr_env_name which)
{
    const char *s = reads_kept ? atomic_load(&last[which]) : of_process(which);

    return s ? s : variables[which].preset;
}

/* Copies `from`, without the texts in `left_out`, to `to`. */
static void copy_list(char **to, char *const *from, const char *const *left_out)
{
    for (; *from; from++) {
        const char *const *at = left_out;

        while (*at && *at != *from)
            at++;
        if (!*at)
            *to++ = *from;
    }
    *to = NULL;
}

/* setenv would free the list that another thread's getenv reads.  So the list is replaced, and
 * never freed, and assignments that another thread made meanwhile are copied. */
void cr_env_with(const char *const *more, void (*call)(void *), void *context)
{
    static struct list {
        struct list *older;
        char *text[];
    } * _Atomic lists;
    char **before = environ;
    size_t n = 0, added = 0;
    struct list *l;

    while (before && before[n])
        n++;
    while (more[added])
        added++;
    l = before ? cr_alloc(sizeof *l + (n + added + 1) * sizeof *l->text) : NULL;
    if (!l) {
        call(context);
        return;
    }
    copy_list(l->text, before, more);
    memcpy(l->text + n, more, (added + 1) * sizeof *more);
    l->older = atomic_exchange(&lists, l);
    environ = l->text;
    call(context);
    if (environ == l->text) {
        copy_list(before, l->text, more);
        environ = before;
    }
}

void cr_env_refuse(cr_env_name which, const char *why)
{
    static atomic_bool refused[CR_ENV_COUNT];

    if (!atomic_exchange(&refused[which], true))
        fprintf(stderr, "cresset: %s='%.100s' is ignored because it is %s\n",
                variables[which].name, cr_env(which), why);
}

int64_t cr_env_int(cr_env_name which)
{
    static const int64_t most = (int64_t)1 << 40; /* callers multiply it */
    const char *s = cr_env(which);
    char *end;
    long long v = strtoll(s, &end, 10);

    if (*s && !*end && v <= most && v >= -most)
        return v;
    if (*s)
        cr_env_refuse(which, *end ? "not an integer" : "too large");
    return strtoll(variables[which].preset, NULL, 10);
}

void cr_env_describe(cr_text *out)
{
    for (size_t i = 0; i < CR_LEN(variables); i++)
        cr_text_printf(out, "%-16s default '%s': %s\n", variables[i].name, variables[i].preset,
                       variables[i].help);
}
