/* error.h - statuses and the thread's error record.
 *
 * A function that can fail returns cr_status, which is zero on success.  The function that
 * detects a failure records it with cr_fail().  Its callers return the same status: with CR_TRY
 * when they have nothing to release, with CR_GO (which jumps to `done:`) when they do. */
#ifndef CR_BASE_ERROR_H
#define CR_BASE_ERROR_H

#include "base/compiler.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    CR_OK = 0,
#define CR_KIND(name, pyclass) CR_##name,
#include "base/kinds.def"
#undef CR_KIND
    CR_KIND_COUNT
} cr_status;

/* Records an error of `kind` with a printf message.  Returns `kind`. */
CR_API cr_status cr_fail(cr_status kind, const char *fmt, ...) CR_PRINTF(2, 3);
cr_status cr_fail_va(cr_status kind, const char *fmt, va_list args);

/* The calling thread's last error: its message (borrowed until the thread's next failure) and
 * its kind.  "" and CR_OK when the thread had no failure. */
CR_API const char *cr_error_message(void);
CR_API cr_status cr_error_kind(void);

/* A buffer of CR_SCRATCH_BYTES for text that becomes part of a message.  The calling thread has
 * four of them in turn, so a buffer is reused at the fourth next call. */
enum { CR_SCRATCH_BYTES = 256 };
char *cr_error_scratch(void);

/* The name of the Python class that `kind` is raised as; NULL for CR_PYTHON and CR_OK. */
const char *cr_kind_class(cr_status kind);

/* Prints a failed assertion and aborts.  For bugs of the library, never for a user's
 * mistake. */
CR_NORETURN void cr_assert_failed(const char *what, const char *file, int line);

#define CR_TRY(call)                                                                           \
    do {                                                                                       \
        cr_status cr_try_status = (call);                                                      \
        if (CR_UNLIKELY(cr_try_status))                                                        \
            return cr_try_status;                                                              \
    } while (0)

/* For what an allocation returned: CR_MEMORY is returned where it is NULL. */
#define CR_NEED(made)                                                                          \
    do {                                                                                       \
        if (CR_UNLIKELY(!(made)))                                                              \
            return CR_MEMORY;                                                                  \
    } while (0)

/* Ends a function that makes something: returns `st`, after *out = made, or drop(made) if it is
 * a failure. */
#define CR_GIVE(st, out, made, drop)                                                           \
    do {                                                                                       \
        if (st)                                                                                \
            drop(made);                                                                        \
        else                                                                                   \
            *(out) = (made);                                                                   \
        return st;                                                                             \
    } while (0)

/* Needs `cr_status st` and a label `done:`.  `st` is CR_OK when `call` succeeds. */
#define CR_GO(call)                                                                            \
    do {                                                                                       \
        st = (call);                                                                           \
        if (CR_UNLIKELY(st))                                                                   \
            goto done;                                                                         \
    } while (0)

#define CR_ASSERT(what)                                                                        \
    do {                                                                                       \
        if (CR_UNLIKELY(!(what)))                                                              \
            cr_assert_failed(#what, __FILE__, __LINE__);                                       \
    } while (0)

#endif
