/* Growing strings and whole files. */
#define _POSIX_C_SOURCE 200809L
#include "base/text.h"
#include "base/memory.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void cr_text_put_n(cr_text *t, const char *s, size_t n)
{
    if (t->failed)
        return;
    t->failed = cr_vec_reserve_bytes((void **)&t->at, t->len, &t->cap, n + 1, 1);
    if (t->failed)
        return;
    memcpy(t->at + t->len, s, n);
    t->len += n;
    t->at[t->len] = 0;
}

void cr_text_put(cr_text *t, const char *s) { cr_text_put_n(t, s, strlen(s)); }

void cr_text_char(cr_text *t, char c) { cr_text_put_n(t, &c, 1); }

void cr_text_pad(cr_text *t, size_t n, char c)
{
    if (t->failed)
        return;
    t->failed = cr_vec_reserve_bytes((void **)&t->at, t->len, &t->cap, n + 1, 1);
    if (t->failed)
        return;
    memset(t->at + t->len, c, n);
    t->len += n;
    t->at[t->len] = 0;
}

void cr_text_printf(cr_text *t, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    cr_text_printf_va(t, fmt, args);
    va_end(args);
}

void cr_text_printf_va(cr_text *t, const char *fmt, va_list args)
{
    char small[256];
    va_list again;

    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, fmt, args);
    if ((size_t)n < sizeof small)
        cr_text_put_n(t, small, (size_t)n);
    else if (!t->failed)
        t->failed = cr_vec_reserve_bytes((void **)&t->at, t->len, &t->cap, (size_t)n + 1, 1);
    if ((size_t)n >= sizeof small && !t->failed) {
        vsnprintf(t->at + t->len, (size_t)n + 1, fmt, again);
        t->len += (size_t)n;
    }
    va_end(again);
}

cr_status cr_text_status(const cr_text *t) { return t->failed; }

const char *cr_text_str(const cr_text *t) { return t->at ? t->at : ""; }

void cr_text_drop(cr_text *t)
{
    cr_free(t->at);
    *t = (cr_text){0};
}

static cr_status text_file_error(const char *what, const char *path)
{
    return cr_fail(CR_IO, "[Errno %d] %s %s: '%s'", errno, what, strerror(errno), path);
}

cr_status cr_read_open_file(char **out, size_t *len, int fd, const char *path)
{
    cr_text t = {0};
    char part[65536];
    ssize_t n;
    cr_status st;

    while ((n = read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            cr_text_put_n(&t, part, (size_t)n);
    CR_GO(n < 0 ? text_file_error("cannot read:", path) : CR_OK);
    cr_text_put_n(&t, "", 0);
    CR_GO(cr_text_status(&t));
    *out = t.at;
    *len = t.len;
    t = (cr_text){0};
done:
    cr_text_drop(&t);
    return st;
}

bool cr_is_identifier(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

cr_status cr_read_file(char **out, size_t *len, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return text_file_error("cannot open:", path);
    cr_status st = cr_read_open_file(out, len, fd, path);
    close(fd);
    return st;
}

cr_status cr_write_open_file(int fd, const void *bytes, size_t len, const char *path)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return text_file_error("cannot write:", path);
        at += n;
        len -= (size_t)n;
    }
    return CR_OK;
}

cr_status cr_write_file(const char *path, const void *bytes, size_t len)
{
    cr_text tmp = {0};
    cr_status st;
    int fd = -1;

    cr_text_printf(&tmp, "%s.%ld.part", path, (long)getpid());
    CR_GO(cr_text_status(&tmp));
    fd = open(tmp.at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CR_GO(fd < 0 ? text_file_error("cannot create:", path) : CR_OK);
    CR_GO(cr_write_open_file(fd, bytes, len, path));
    CR_GO(fsync(fd) ? text_file_error("cannot write:", path) : CR_OK);
    CR_GO(rename(tmp.at, path) ? text_file_error("cannot rename to:", path) : CR_OK);
done:
    if (fd >= 0) {
        close(fd);
        if (st)
            unlink(tmp.at);
    }
    cr_text_drop(&tmp);
    return st;
}
