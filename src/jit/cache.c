/* The disk cache.
 *
 * A file is written under a temporary name, renamed, and then linked to its further names.  A
 * file system without links gets copies.  All names of a file share one modification time, so
 * that removing old files removes all names of a file together.
 *
 * Security: a cached file is machine code, so another user must not be able to supply it.  The
 * cache opens its folder once, without following a symbolic link, and checks the descriptor:
 * this user owns the folder and only this user may write to it.  All files are then opened
 * relative to that descriptor and checked in the same way, so no other user can exchange a
 * folder or a file between the check and the use.  The seal only detects damage; it is not a
 * signature.
 *
 * A temporary file older than ten minutes belongs to an ended process, because no compilation
 * takes that long. */
#include "jit/cache.h"
#include "base/env.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/object.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ABANDONED_SECONDS = 600, TOUCH_SECONDS = 3600 };

/* --- trust --- */

/* Why a file with this record may come from another user, or NULL. */
static const char *cache_distrust(const struct stat *st)
{
    if (st->st_uid != geteuid())
        return "it belongs to another user";
    return st->st_mode & (S_IWGRP | S_IWOTH) ? "it can be written by other users" : NULL;
}

/* Logs a reason unless it was the last reason logged. */
static void cache_log_once(const char *consequence, const char *reason)
{
    static _Atomic uint64_t last;
    uint64_t hash = cr_hash(reason, strlen(reason));

    if (atomic_exchange(&last, hash) != hash)
        cr_log_line("cache", 1, "%s: %s", consequence, reason);
}

/* --- folders --- */

static const char *cache_temporary(void)
{
    const char *own = cr_env(CR_ENV_TMPDIR);

    return *own ? own : "/tmp";
}

cr_status cr_cache_path(cr_text *out)
{
    const char *own = cr_env(CR_ENV_CR_CACHE), *xdg = cr_env(CR_ENV_XDG_CACHE_HOME);
    const char *home = cr_env(CR_ENV_HOME);

    if (*own)
        cr_text_put(out, own);
    else if (*xdg)
        cr_text_printf(out, "%s/cresset", xdg);
    else if (*home)
        cr_text_printf(out, "%s/.cache/cresset", home);
    else
        cr_text_printf(out, "%s/cresset-%ld", cache_temporary(), (long)geteuid());
    while (out->len > 1 && out->at[out->len - 1] == '/') /* "link/" would follow the link */
        out->at[--out->len] = 0;
    return cr_text_status(out);
}

/* Makes the folder and its parents.  cache_open checks folders that exist. */
static cr_status cache_make_path(char *path)
{
    for (char *at = path + 1;; at++) {
        char was = *at;
        if (was != '/' && was)
            continue;
        *at = 0;
        if (mkdir(path, 0700) && errno != EEXIST && access(path, F_OK))
            return cr_fail(CR_IO, "cannot create %.400s: %s", path, strerror(errno));
        *at = was;
        if (!was)
            return CR_OK;
    }
}

/* Opens the folder or file `name` in the open folder `above` (or AT_FDCWD) and checks it.
 * Returns a descriptor, or -1 and records the reason; errno is then ENOENT when the file does
 * not exist. */
static int cache_open_checked(int above, const char *name, int flags, struct stat *st)
{
    int fd = openat(above, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags);
    int failed = fd < 0 ? errno : EPERM;
    const char *why;

    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        why = "it is a symbolic link or not a folder";
    else if (fd < 0 || fstat(fd, st))
        why = strerror(errno);
    else if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
        why = "it is not a regular file";
    else if (!(why = cache_distrust(st)))
        return fd;
    cr_fail(CR_IO, "%.400s: %s", name, why);
    if (fd >= 0)
        close(fd);
    errno = failed;
    return -1;
}

static cr_status cache_open_folder(int *out, int above, const char *name)
{
    struct stat st;

    *out = cache_open_checked(above, name, O_DIRECTORY, &st);
    return *out < 0 ? CR_IO : CR_OK;
}

/* Opens the cache's folder; the caller closes it.  Logs once why the folder cannot be used. */
static cr_status cache_open(cr_cache_folder *out, bool make)
{
    cr_cache_folder f = {-1, {0}};
    cr_status st;

    CR_GO(cr_cache_path(&f.path));
    if (make)
        CR_GO(cache_make_path(f.path.at));
    CR_GO(cache_open_folder(&f.dir, AT_FDCWD, f.path.at));
done:
    if (st == CR_IO && (make || errno != ENOENT))
        cache_log_once("the disk cache of kernels is not used", cr_error_message());
    if (st)
        cr_text_drop(&f.path);
    else
        *out = f;
    return st;
}

static void cache_close(cr_cache_folder *f)
{
    if (f->path.at && f->dir >= 0)
        close(f->dir);
    cr_text_drop(&f->path);
}

/* --- folders for compilations --- */

static const char cache_work_name[] = "cresset-work-";

/* Makes a new folder in the open folder `above`, whose path is `place`. */
static cr_status cache_new_folder(cr_cache_folder *out, int above, const char *place)
{
    cr_cache_folder f = {-1, {0}};
    char name[64];
    uint64_t number = 0;
    int failed = EEXIST;
    cr_status st;

    for (int tries = 0; failed == EEXIST && tries < 100; tries++) {
        if (getrandom(&number, sizeof number, 0) < 0)
            number += (uint64_t)getpid();
        snprintf(name, sizeof name, "%s%ld-%016" PRIx64, cache_work_name, (long)geteuid(),
                 number);
        failed = mkdirat(above, name, 0700) ? errno : 0;
    }
    if (failed)
        return cr_fail(CR_IO, "cannot create a folder in %.400s: %s", place, strerror(failed));
    cr_text_printf(&f.path, "%s/%s", place, name);
    CR_GO(cr_text_status(&f.path));
    CR_GO(cache_open_folder(&f.dir, above, name));
    *out = f;
    return CR_OK;
done:
    unlinkat(above, name, AT_REMOVEDIR);
    cr_text_drop(&f.path);
    return st;
}

cr_status cr_cache_work(cr_cache_folder *out, int place)
{
    cr_cache_folder above = {-1, {0}};
    cr_status st;

    if (place == 0) {
        cr_text_put(&above.path, cache_temporary());
        CR_GO(cr_text_status(&above.path));
        above.dir = open(above.path.at, O_PATH | O_DIRECTORY | O_CLOEXEC);
        CR_GO(above.dir < 0 ? cr_fail(CR_IO, "%.400s: %s", above.path.at, strerror(errno))
                            : CR_OK);
    } else {
        CR_GO(cache_open(&above, true));
    }
    st = cache_new_folder(out, above.dir, above.path.at);
done:
    cache_close(&above);
    return st;
}

/* Removes the files of an open folder.  Compilers make no folders. */
static void cache_empty(int dir)
{
    DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dir, e->d_name, 0);
    if (d)
        closedir(d);
}

void cr_cache_work_end(cr_cache_folder *f)
{
    if (!f->path.at)
        return;
    cache_empty(f->dir);
    rmdir(f->path.at);
    cache_close(f);
}

/* --- the seal --- */

/* "\n/" "* cresset <bytes before> <their sum> *" "/\n": a fixed length. */
enum { SEAL = 4 + 8 + 16 + 1 + 16 + 4 };

/* Sums eight bytes at a time, because every loaded file is summed. */
static uint64_t file_checksum(const char *bytes, size_t len)
{
    uint64_t h = len, word;

    for (; len >= 8; bytes += 8, len -= 8) {
        memcpy(&word, bytes, 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15u;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, bytes, len);
    h = (h ^ word) * 0xC2B2AE3D27D4EB4Fu;
    return h ^ h >> 29;
}

static void seal(char out[SEAL + 1], const char *bytes, size_t len)
{
    snprintf(out, SEAL + 1, "\n/* cresset %016llx %016llx */\n", (unsigned long long)len,
             (unsigned long long)file_checksum(bytes, len));
}

static bool sealed(const char *bytes, size_t len)
{
    char wanted[SEAL + 1];

    if (len < SEAL)
        return false;
    seal(wanted, bytes, len - SEAL);
    return !memcmp(bytes + len - SEAL, wanted, SEAL);
}

/* --- lookup --- */

void *cr_cache_load(int dir, const char *object, const char *symbol)
{
    char path[128];
    void *library, *found;

    /* opened through the folder's descriptor, because its path may now lead to another
     * folder */
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", dir, object);
    library = cr_object_open(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = cr_object_error();
        size_t n = strlen(path);
        /* the caller's message names the file */
        why += strncmp(why, path, n) || why[n] != ':' ? 0 : n + 2;
        cr_fail(CR_RUNTIME, "cannot load the object: %s", why);
        return NULL;
    }
    found = dlsym(library, symbol);
    if (found)
        return found;
    cr_fail(CR_RUNTIME, "the object has no %s", symbol);
    dlclose(library);
    return NULL;
}

typedef struct {
    char *bytes;
    size_t len;
} cache_content;

/* Reads a file of the cache and checks it and its seal.  False when the file does not exist or
 * must not be used; the log then says why. */
static bool cache_read(cache_content *out, int dir, const char *name)
{
    cache_content c = {0};
    struct stat st;
    int fd = cache_open_checked(dir, name, 0, &st);
    bool missing = fd < 0 && errno == ENOENT;
    bool sound = fd >= 0 && !cr_read_open_file(&c.bytes, &c.len, fd, name);

    if (sound && !sealed(c.bytes, c.len)) {
        cr_fail(CR_IO, "%s: it is damaged", name);
        sound = false;
    }
    if (sound && time(NULL) - st.st_mtime > TOUCH_SECONDS)
        /* marks the file as used: the files longest unused are removed first */
        futimens(fd, NULL);
    if (!sound && !missing)
        cr_log_line("cache", 1, "a file is not used: %s", cr_error_message());
    if (fd >= 0)
        close(fd);
    if (sound)
        *out = c;
    else
        cr_free(c.bytes);
    return sound;
}

enum { CACHE_NAME = CR_CACHE_KEY + 4 };

static void *cache_find_in(int dir, const char *key, const char *symbol, const char *source)
{
    char name[CACHE_NAME];
    cache_content c;
    void *found = NULL;

    snprintf(name, sizeof name, "%s.so", key);
    if (!cache_read(&c, dir, name))
        return NULL;
    if (!memmem(c.bytes, c.len, source, strlen(source)))
        cr_fail(CR_IO, "it has another source");
    else
        found = cr_cache_load(dir, name, symbol);
    if (!found)
        cr_log_line("cache", 1, "%s is not used: %s", name, cr_error_message());
    cr_free(c.bytes);
    return found;
}

static _Atomic bool is_off;

void cr_cache_turn_off(bool off) { is_off = off; }

void *cr_cache_find(const char *key, const char *symbol, const char *source)
{
    cr_cache_folder f;
    void *found;

    if (is_off || cache_open(&f, false))
        return NULL;
    found = cache_find_in(f.dir, key, symbol, source);
    cache_close(&f);
    return found;
}

/* --- writing --- */

static cr_status read_object(cr_text *out, int dir, const char *object, int n,
                             const char *const *source)
{
    char *bytes = NULL, end[SEAL + 1];
    size_t len;
    struct stat info;
    int fd = cache_open_checked(dir, object, 0, &info);
    cr_status st;

    if (fd < 0)
        return CR_IO;
    st = cr_read_open_file(&bytes, &len, fd, object);
    close(fd);
    if (st)
        return st;
    cr_text_put_n(out, bytes, len);
    cr_free(bytes);
    for (int i = 0; i < n; i++) {
        cr_text_char(out, '\n');
        cr_text_put(out, source[i]);
    }
    CR_TRY(cr_text_status(out));
    seal(end, out->at, out->len);
    cr_text_put(out, end);
    return cr_text_status(out);
}

/* Writes a new file; fails when it exists.  The file is not synced: losing it with the power is
 * only a cache miss. */
static cr_status cache_write_new(int dir, const char *name, const cr_text *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
    cr_status st;

    if (fd < 0)
        return cr_fail(CR_IO, "cannot write %s: %s", name, strerror(errno));
    st = cr_write_open_file(fd, cr_text_str(text), text->len, name);
    if (close(fd) && !st)
        st = cr_fail(CR_IO, "cannot write %s: %s", name, strerror(errno));
    if (st)
        unlinkat(dir, name, 0);
    return st;
}

static cr_status cache_rename(int dir, const char *from, const char *to)
{
    cr_status st = CR_OK;

    if (renameat(dir, from, dir, to))
        st = cr_fail(CR_IO, "cannot name %s: %s", to, strerror(errno));
    unlinkat(dir, from, 0); /* rename() leaves the old name when both are names of one file */
    return st;
}

/* Adds a name for the file `first`.  The name is added by renaming, which replaces an older
 * file. */
static cr_status add_name(int dir, const char *first, const char *name, const cr_text *text)
{
    char spare[80];

    snprintf(spare, sizeof spare, "%s.name", first);
    if (linkat(dir, first, dir, spare, 0))
        CR_TRY(cache_write_new(dir, spare, text));
    return cache_rename(dir, spare, name);
}

static void cache_new_name(char out[64])
{
    static _Atomic int turn;

    snprintf(out, 64, "new.%ld.%d", (long)getpid(), atomic_fetch_add(&turn, 1));
}

void cr_cache_keep(int from, const char *object, int n, const char *const *key,
                   const char *const *source)
{
    cr_cache_folder f = {-1, {0}};
    cr_text text = {0};
    char first[64], name[CACHE_NAME];
    cr_status st;

    if (is_off || cache_open(&f, true))
        return;
    cache_new_name(first);
    CR_GO(read_object(&text, from, object, n, source));
    CR_GO(cache_write_new(f.dir, first, &text));
    for (int i = 0; i < n && !st; i++) {
        snprintf(name, sizeof name, "%s.so", key[i]);
        st = add_name(f.dir, first, name, &text);
    }
    unlinkat(f.dir, first, 0);
done:
    if (st)
        cr_log_line("cache", 1, "%d kernel%s not kept: %s", n, n > 1 ? "s are" : " is",
                    cr_error_message());
    cache_close(&f);
    cr_text_drop(&text);
}

/* --- notes --- */

bool cr_cache_read_note(cr_text *out, const char *key)
{
    cr_cache_folder f;
    cache_content c;
    char name[CACHE_NAME];

    if (is_off || cache_open(&f, false))
        return false;
    snprintf(name, sizeof name, "%s.sc", key);
    bool sound = cache_read(&c, f.dir, name);
    cache_close(&f);
    if (!sound)
        return false;
    cr_text_put_n(out, c.bytes, c.len - SEAL);
    cr_free(c.bytes);
    return !cr_text_status(out);
}

cr_status cr_cache_write_note(const char *key, const char *note, size_t n)
{
    cr_cache_folder f = {-1, {0}};
    cr_text text = {0};
    char end[SEAL + 1], spare[64], name[CACHE_NAME];
    cr_status st;

    if (is_off)
        return CR_OK;
    CR_GO(cache_open(&f, true));
    cache_new_name(spare);
    snprintf(name, sizeof name, "%s.sc", key);
    cr_text_put_n(&text, note, n);
    seal(end, note, n);
    cr_text_put(&text, end);
    CR_GO(cr_text_status(&text));
    CR_GO(cache_write_new(f.dir, spare, &text));
    st = cache_rename(f.dir, spare, name);
done:
    cache_close(&f);
    cr_text_drop(&text);
    return st;
}

/* --- cleaning up --- */

typedef struct {
    char name[CR_CACHE_KEY + 4];
    ino_t file;
    int64_t bytes;
    struct timespec used;
} entry;

typedef CR_VEC(entry) entries;

static int by_use(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return x->file < y->file ? -1 : x->file > y->file;
}

/* True for the names of kernels and notes. */
static bool is_kernel(const char *name)
{
    return strlen(name) == CR_CACHE_KEY + 3 &&
           (!strcmp(name + CR_CACHE_KEY, ".so") || !strcmp(name + CR_CACHE_KEY, ".sc"));
}

static bool starts(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

static void remove_abandoned(int base, const char *name, const struct stat *st)
{
    int dir;

    if (time(NULL) - st->st_mtime < ABANDONED_SECONDS || st->st_uid != geteuid())
        return;
    if (!S_ISDIR(st->st_mode)) {
        unlinkat(base, name, 0);
    } else if (!cache_open_folder(&dir, base, name)) {
        cache_empty(dir);
        close(dir);
        unlinkat(base, name, AT_REMOVEDIR);
    }
}

/* Removes files that ended processes left in a folder.  Lists the folder's kernels when `out`
 * is not NULL.  Closes `dir`. */
static void look_through(entries *out, int dir)
{
    DIR *d = fdopendir(dir);
    struct dirent *e;
    struct stat st;

    while (d && (e = readdir(d))) {
        bool ours = is_kernel(e->d_name);
        if (!ours && !starts(e->d_name, cache_work_name) && !(out && starts(e->d_name, "new.")))
            continue;
        if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (!ours) {
            remove_abandoned(dir, e->d_name, &st);
        } else if (out && !cr_vec_reserve(out, 1)) {
            entry item = {.file = st.st_ino, .bytes = st.st_size, .used = st.st_mtim};
            snprintf(item.name, sizeof item.name, "%.*s", (int)sizeof item.name - 1, e->d_name);
            cr_vec_put(out, item);
        }
    }
    if (d)
        closedir(d);
}

/* Sorted by time of use, the names of one file are neighbours and count once. */
static int64_t sum_bytes(const entries *all)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < all->len; i++)
        bytes += i && all->at[i].file == all->at[i - 1].file ? 0 : all->at[i].bytes;
    return bytes;
}

static void remove_oldest(const entries *all, const cr_cache_folder *base, int64_t bytes,
                          int64_t limit)
{
    size_t i = 0;

    while (i < all->len && bytes > limit) {
        ino_t file = all->at[i].file;
        bytes -= all->at[i].bytes;
        for (; i < all->len && all->at[i].file == file; i++)
            unlinkat(base->dir, all->at[i].name, 0);
    }
    cr_log_line(
        "cache", 1,
        "%zu of %zu kernels are removed, the longest unused: %s holds more than %" PRId64 " MB",
        i, all->len, base->path.at, cr_env_int(CR_ENV_CR_CACHE_LIMIT));
}

void cr_cache_tidy(void)
{
    int64_t limit = cr_env_int(CR_ENV_CR_CACHE_LIMIT) * 1000000, bytes;
    entries all = {0};
    cr_cache_folder base;

    look_through(NULL, open(cache_temporary(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (cache_open(&base, false))
        return;
    look_through(&all, openat(base.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (all.len)
        qsort(all.at, all.len, sizeof *all.at, by_use);
    bytes = sum_bytes(&all);
    if (limit > 0 && bytes > limit)
        remove_oldest(&all, &base, bytes, limit - limit / 4);
    cache_close(&base);
    cr_vec_drop(&all);
}

static int64_t count_files(const entries *all)
{
    int64_t files = 0;

    for (size_t i = 0; i < all->len; i++)
        files += !i || all->at[i].file != all->at[i - 1].file;
    return files;
}

cr_cache_size cr_cache_measure(bool clear)
{
    cr_cache_size size = {0};
    entries all = {0};
    cr_cache_folder base;

    if (cache_open(&base, false))
        return size;
    look_through(&all, openat(base.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (all.len)
        qsort(all.at, all.len, sizeof *all.at, by_use);
    size = (cr_cache_size){count_files(&all), sum_bytes(&all)};
    for (size_t i = 0; clear && i < all.len; i++)
        unlinkat(base.dir, all.at[i].name, 0);
    cache_close(&base);
    cr_vec_drop(&all);
    return size;
}
