/* Sources: files that are read through a descriptor or mapped, and memory. */
#include "io/source.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct cr_source {
    _Atomic int count;
    int fd; /* -1 when the source is memory */
    char *bytes;
    uint64_t start, size;
    void *mapped; /* the mapping, or NULL */
    void (*release)(void *owner);
    void *owner;
};

static cr_status system_error(const char *what)
{
    return cr_fail(CR_IO, "[Errno %d] %s: %s", errno, what, strerror(errno));
}

static cr_source *source_new(uint64_t size)
{
    cr_source *s = cr_alloc_zero(sizeof *s);

    if (s) {
        atomic_init(&s->count, 1);
        s->fd = -1;
        s->size = size;
    }
    return s;
}

static cr_status regular_size(int fd, uint64_t *size)
{
    struct stat info;

    if (fstat(fd, &info))
        return system_error("cannot read");
    if (!S_ISREG(info.st_mode))
        return cr_fail(CR_IO, "not a regular file");
    *size = (uint64_t)info.st_size;
    return CR_OK;
}

cr_status cr_source_file(cr_source **out, int fd, uint64_t start)
{
    uint64_t size;

    CR_TRY(regular_size(fd, &size));
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return system_error("cannot read");
    cr_source *s = source_new(start < size ? size - start : 0);
    if (!s) {
        close(own);
        return CR_MEMORY;
    }
    s->fd = own;
    s->start = start;
    *out = s;
    return CR_OK;
}

cr_status cr_source_open(cr_source **out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return cr_fail(CR_IO, "[Errno %d] %s: '%s'", errno, strerror(errno), path);
    cr_status st = cr_source_file(out, fd, 0);
    close(fd);
    return st;
}

/* Maps the file from its start, because a mapping must start at a page. */
static cr_status map_from(cr_source **out, int fd, uint64_t start)
{
    static char nothing[1];
    uint64_t size;

    CR_TRY(regular_size(fd, &size));
    cr_source *s = source_new(start < size ? size - start : 0);
    CR_NEED(s);
    void *p = s->size ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) : NULL;
    if (p == MAP_FAILED) {
        cr_free(s);
        return system_error("cannot map");
    }
    s->mapped = p;
    s->start = start;
    s->bytes = p ? (char *)p + start : nothing;
    *out = s;
    return CR_OK;
}

cr_status cr_source_map(cr_source **out, int fd) { return map_from(out, fd, 0); }

cr_status cr_source_remap(cr_source **out, const cr_source *file)
{
    return map_from(out, file->fd, file->start);
}

cr_status cr_source_memory(cr_source **out, void *bytes, size_t len, void (*release)(void *),
                           void *owner)
{
    cr_source *s = source_new(len);

    CR_NEED(s);
    s->bytes = bytes;
    s->release = release;
    s->owner = owner;
    *out = s;
    return CR_OK;
}

cr_source *cr_source_keep(cr_source *s)
{
    atomic_fetch_add(&s->count, 1);
    return s;
}

void cr_source_drop(cr_source *s)
{
    if (!s || atomic_fetch_sub(&s->count, 1) != 1)
        return;
    if (s->mapped)
        munmap(s->mapped, s->start + s->size);
    if (s->fd >= 0)
        close(s->fd);
    if (s->release)
        s->release(s->owner);
    cr_free(s);
}

uint64_t cr_source_size(const cr_source *s) { return s->size; }

char *cr_source_bytes(const cr_source *s, uint64_t at)
{
    return s->fd < 0 ? s->bytes + at : NULL;
}

static cr_status read_file(const cr_source *s, uint64_t at, size_t len, char *to)
{
    while (len) {
        ssize_t n = pread(s->fd, to, len, (off_t)(s->start + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error("cannot read");
        if (!n)
            return cr_fail(CR_IO, "the file was shortened while it was read");
        to += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return CR_OK;
}

cr_status cr_source_read(const cr_source *s, uint64_t at, size_t len, void *to)
{
    if (at > s->size || len > s->size - at)
        return cr_fail(CR_IO, "the file ends before byte %llu", (unsigned long long)at + len);
    if (s->fd >= 0)
        return read_file(s, at, len, to);
    if (len)
        memcpy(to, s->bytes + at, len);
    return CR_OK;
}
