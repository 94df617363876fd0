/* A thread's error record is allocated at the thread's first failure.  When that allocation
 * fails, the message goes to a short static buffer of the thread.  The record is not in
 * thread-local storage because a library that is loaded late gets only some hundred bytes of
 * it. */
#include "base/error.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 4096, SHORT_BYTES = 48, SCRATCHES = 4 };

typedef struct {
    char message[MESSAGE_BYTES];
    char scratch[SCRATCHES][CR_SCRATCH_BYTES];
    unsigned next_scratch;
} texts;

static CR_THREAD texts *mine;
static CR_THREAD cr_status kind_of_last;
static CR_THREAD char short_message[SHORT_BYTES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;

static void error_forget(void *p)
{
    mine = NULL;
    free(p);
}

static void make_key(void) { pthread_key_create(&thread_end, error_forget); }

/* The calling thread's record, allocated if need be.  NULL when there is no memory. */
static texts *own_texts(void)
{
    if (!mine) {
        pthread_once(&once, make_key);
        mine = calloc(1, sizeof *mine); /* not cr_alloc, whose failures are recorded here */
        pthread_setspecific(thread_end, mine);
    }
    return mine;
}

static void keep_message(const char *text)
{
    texts *t = own_texts();

    if (t)
        memcpy(t->message, text, strlen(text) + 1);
    else
        snprintf(short_message, sizeof short_message, "%.*s", (int)sizeof short_message - 1,
                 text);
}

char *cr_error_scratch(void)
{
    static char shared[CR_SCRATCH_BYTES];
    texts *t = own_texts();

    return t ? t->scratch[t->next_scratch++ % SCRATCHES] : shared;
}

cr_status cr_fail_va(cr_status kind, const char *fmt, va_list args)
{
    char text[MESSAGE_BYTES];

    vsnprintf(text, sizeof text, fmt, args); /* arguments may point into the record */
    keep_message(text);
    kind_of_last = kind;
    return kind;
}

cr_status cr_fail(cr_status kind, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    cr_fail_va(kind, fmt, args);
    va_end(args);
    return kind;
}

const char *cr_error_message(void) { return mine ? mine->message : short_message; }

cr_status cr_error_kind(void) { return kind_of_last; }

const char *cr_kind_class(cr_status kind)
{
    static const char *const classes[] = {
#define CR_KIND(name, pyclass) [CR_##name] = pyclass,
#include "base/kinds.def"
#undef CR_KIND
    };
    CR_ASSERT((size_t)kind < CR_LEN(classes));
    return classes[kind];
}

void cr_assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "cresset: internal error: %s (%s:%d)\n", what, file, line);
    abort();
}
