/* session.h - the working memory of a compiler pass: arenas, and one exit for errors.
 *
 * Inside a session a failure is cr_bail(), which jumps to cr_session_run().  Outside of it a
 * failure is a status.  A bail must not jump over a lock or a Python frame.  Nodes live until
 * the session is dropped and are never freed singly. */
#ifndef CR_SYM_SESSION_H
#define CR_SYM_SESSION_H

#include "base/memory.h"
#include "base/text.h"
#include <setjmp.h>
#include <stdatomic.h>

typedef struct cr_session {
    cr_arena keep;           /* results; freed by cr_session_drop */
    cr_status status;        /* status of the bail in progress */
    jmp_buf *way_out;        /* set by the innermost cr_session_run */
    void *place;             /* what the pass works on, for texts of errors; run restores it */
    _Atomic int32_t holders; /* refcount of a session made by cr_session_new */
} cr_session;

typedef void (*cr_session_fn)(cr_session *s, void *context);

/* Calls fn(s, context).  A bail inside becomes the returned status. */
CR_MUST cr_status cr_session_run(cr_session *s, cr_session_fn fn, void *context);
void cr_session_drop(cr_session *s);

/* Makes a session with a refcount, whose arena uses mmap.  The last owner's drop frees it.
 * NULL when there is no memory. */
cr_session *cr_session_new(void);
cr_session *cr_session_keep(cr_session *s);
void cr_session_release(cr_session *s);

/* Leaves the session with an error of `kind`. */
CR_NORETURN void cr_bail(cr_session *s, cr_status kind, const char *fmt, ...) CR_PRINTF(3, 4);
/* Bails when `status` is a failure.  The error record must be set. */
void cr_session_check(cr_session *s, cr_status status);

/* Zeroed memory of the session.  Never NULL. */
void *cr_session_get(cr_session *s, size_t size);
#define CR_NEW(s, type)      ((type *)cr_session_get((s), sizeof(type)))
#define CR_NEW_N(s, type, n) ((type *)cr_session_get((s), sizeof(type) * (size_t)(n)))
/* Copies `size` bytes to the session. */
void *cr_session_copy(cr_session *s, const void *from, size_t size);
char *cr_session_text(cr_session *s, const char *text);
/* Copies a text to the session and drops the text, also on failure. */
char *cr_session_take_text(cr_session *s, cr_text *t);
char *cr_session_printf(cr_session *s, const char *fmt, ...) CR_PRINTF(2, 3);

/* Returns a growable array with room for one more item.  Growth doubles; the old memory stays
 * in the arena. */
void *cr_session_grow(cr_session *s, void *at, size_t len, size_t *cap, size_t item);
#define CR_PUSH(s, list, value)                                                                \
    do {                                                                                       \
        if ((list)->len == (list)->cap)                                                        \
            (list)->at = cr_session_grow((s), (list)->at, (list)->len, &(list)->cap,           \
                                         sizeof *(list)->at);                                  \
        (list)->at[(list)->len++] = (value);                                                   \
    } while (0)

#endif
