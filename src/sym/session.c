/* Sessions: arenas and the exit by longjmp. */
#include "sym/session.h"
#include <stdio.h>
#include <string.h>

cr_status cr_session_run(cr_session *s, cr_session_fn fn, void *context)
{
    jmp_buf here, *outer = s->way_out;
    void *place = s->place;
    cr_status st = CR_OK;

    s->way_out = &here;
    if (!setjmp(here))
        fn(s, context);
    else
        st = s->status;
    s->way_out = outer;
    s->place = place;
    return st;
}

void cr_session_drop(cr_session *s) { cr_arena_drop(&s->keep); }

cr_session *cr_session_new(void)
{
    cr_session *s = cr_alloc_zero(sizeof *s);

    if (s) {
        atomic_store(&s->holders, 1);
        s->keep.mapped = true;
    }
    return s;
}

cr_session *cr_session_keep(cr_session *s)
{
    int32_t before = atomic_fetch_add_explicit(&s->holders, 1, memory_order_relaxed);

    CR_ASSERT(before > 0);
    (void)before;
    return s;
}

void cr_session_release(cr_session *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->holders, 1, memory_order_acq_rel) != 1)
        return;
    cr_session_drop(s);
    cr_free(s);
}

void cr_session_check(cr_session *s, cr_status status)
{
    if (!status)
        return;
    CR_ASSERT(s->way_out);
    s->status = status;
    longjmp(*s->way_out, 1);
}

void cr_bail(cr_session *s, cr_status kind, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    cr_fail_va(kind, fmt, args);
    va_end(args);
    CR_ASSERT(s->way_out);
    s->status = kind;
    longjmp(*s->way_out, 1);
}

void *cr_session_get(cr_session *s, size_t size)
{
    void *p = cr_arena_get(&s->keep, size ? size : 1);

    if (!p)
        cr_session_check(s, CR_MEMORY);
    return p;
}

void *cr_session_copy(cr_session *s, const void *from, size_t size)
{
    void *p = cr_session_get(s, size);

    if (size)
        memcpy(p, from, size);
    return p;
}

char *cr_session_text(cr_session *s, const char *text)
{
    return cr_session_copy(s, text, strlen(text) + 1);
}

char *cr_session_take_text(cr_session *s, cr_text *t)
{
    char *copy = cr_text_status(t) ? NULL : cr_arena_text(&s->keep, cr_text_str(t), t->len);

    cr_text_drop(t);
    if (!copy)
        cr_session_check(s, CR_MEMORY);
    return copy;
}

char *cr_session_printf(cr_session *s, const char *fmt, ...)
{
    char line[512], *text;
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    CR_ASSERT(n >= 0);
    if ((size_t)n < sizeof line)
        return cr_session_copy(s, line, (size_t)n + 1);
    text = cr_session_get(s, (size_t)n + 1);
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

void *cr_session_grow(cr_session *s, void *at, size_t len, size_t *cap, size_t item)
{
    size_t room = *cap ? *cap * 2 : 8;
    void *p = cr_session_get(s, room * item);

    if (len)
        memcpy(p, at, len * item);
    *cap = room;
    return p;
}
