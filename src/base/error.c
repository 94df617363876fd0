/* The error record is a fixed buffer per thread: recording needs no memory, so
 * running out of memory can be recorded too. */
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 4096 };

static CR_THREAD struct {
    cr_status kind;
    char message[MESSAGE_BYTES];
} record;

cr_status cr_fail_va(cr_status kind, const char *fmt, va_list args)
{
    char text[MESSAGE_BYTES];

    vsnprintf(text, sizeof text, fmt, args); /* arguments may point into the record */
    memcpy(record.message, text, strlen(text) + 1);
    record.kind = kind;
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

void cr_error_prefix(const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        return;
    snprintf(text + n, sizeof text - (size_t)n, "%s", record.message);
    memcpy(record.message, text, strlen(text) + 1);
}

const char *cr_error_message(void) { return record.message; }

cr_status cr_error_kind(void) { return record.kind; }

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
