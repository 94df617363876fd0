/* Files that become visible when complete: written beside the target, synced, renamed. */
#include "io/output.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static cr_status output_error(const cr_output *o)
{
    return cr_fail(CR_IO, "[Errno %d] cannot write: %s: '%s'", errno, strerror(errno), o->path);
}

cr_status cr_output_open(cr_output *o, const char *path)
{
    static _Atomic unsigned number;

    *o = (cr_output){.fd = -1, .path = path};
    struct stat info;
    /* Renaming would replace a device by a regular file. */
    if (!stat(path, &info) && !S_ISREG(info.st_mode))
        return cr_fail(CR_IO, "not a regular file: '%s'", path);
    cr_text_printf(&o->part, "%s.%ld.%u.part", path, (long)getpid(),
                   atomic_fetch_add(&number, 1));
    cr_status st = cr_text_status(&o->part);
    if (!st) {
        o->fd = open(o->part.at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd < 0)
            st = output_error(o);
    }
    if (st)
        cr_text_drop(&o->part);
    return st;
}

cr_status cr_output_put(cr_output *o, const void *bytes, size_t len)
{
    const char *p = bytes;

    while (len) {
        ssize_t n = write(o->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return output_error(o);
        p += n;
        len -= (size_t)n;
    }
    return CR_OK;
}

cr_status cr_output_close(cr_output *o, cr_status st)
{
    if (!st && fsync(o->fd))
        st = output_error(o);
    if (close(o->fd) && !st)
        st = output_error(o);
    if (!st && rename(o->part.at, o->path))
        st = output_error(o);
    if (st)
        unlink(o->part.at);
    cr_text_drop(&o->part);
    o->fd = -1;
    return st;
}
