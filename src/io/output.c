/* Files that become visible when complete: written beside the target, synced, renamed. */
#include "io/output.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static cr_status output_error(const cr_output *o)
{
    return cr_fail(CR_IO, "[Errno %d] cannot write: %s: '%s'", errno, strerror(errno), o->path);
}

/* Whether `name` is "BASE.NUMBER.NUMBER.part", the temporary file of a target called BASE. */
static bool output_is_part(const char *name, const char *base, size_t len)
{
    size_t first, second;

    if (strncmp(name, base, len) || name[len] != '.')
        return false;
    name += len + 1;
    first = strspn(name, "0123456789");
    if (!first || name[first] != '.')
        return false;
    name += first + 1;
    second = strspn(name, "0123456789");
    return second && !strcmp(name + second, ".part");
}

/* Removes a temporary file that no process writes: its writer holds a lock on it. */
static void output_remove_stale(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return;
    if (!flock(fd, LOCK_EX | LOCK_NB))
        unlinkat(folder, name, 0);
    close(fd);
}

/* Removes what writers of this target that were killed left beside it. */
static void output_clean(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    cr_text folder = {0};
    struct dirent *e;

    cr_text_put_n(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
    DIR *d = cr_text_status(&folder) ? NULL : opendir(folder.at);
    while (d && (e = readdir(d)) != NULL)
        if (output_is_part(e->d_name, base, strlen(base)))
            output_remove_stale(dirfd(d), e->d_name);
    if (d)
        closedir(d);
    cr_text_drop(&folder);
}

/* Creates the temporary file, locked, with the mode of the file that it will replace. */
static cr_status output_create(cr_output *o, const struct stat *old)
{
    o->fd = open(o->part.at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd < 0)
        return output_error(o);
    flock(o->fd, LOCK_EX | LOCK_NB); /* where locks are missing, stale files stay */
    if (old && fchmod(o->fd, old->st_mode & 07777)) {
        cr_status st = output_error(o);
        close(o->fd);
        unlink(o->part.at);
        return st;
    }
    return CR_OK;
}

cr_status cr_output_open(cr_output *o, const char *path)
{
    static _Atomic unsigned number;
    struct stat info;
    bool replaces = !stat(path, &info);

    *o = (cr_output){.fd = -1, .path = path};
    /* Renaming would replace a device by a regular file. */
    if (replaces && !S_ISREG(info.st_mode))
        return cr_fail(CR_IO, "not a regular file: '%s'", path);
    output_clean(path);
    cr_text_printf(&o->part, "%s.%ld.%u.part", path, (long)getpid(),
                   atomic_fetch_add(&number, 1));
    cr_status st = cr_text_status(&o->part);
    st = st ? st : output_create(o, replaces ? &info : NULL);
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
