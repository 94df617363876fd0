/* The disk cache.
 *
 * A file is written under another name and renamed, then linked to its further names; a
 * file system without links gets copies.  All names of a file share its time, so what is
 * removed for lack of room is removed with all of its names.
 *
 * What ended processes left is known by its age: nothing is worked on for ten minutes. */
#include "jit/cache.h"
#include "base/env.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ABANDONED_SECONDS = 600, TOUCH_SECONDS = 3600 };

/* --- folders --- */

static void folder(cr_text *out)
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
        cr_text_printf(out, "/tmp/cresset-%ld", (long)getuid());
}

/* Code of others is not run: in /tmp anyone could have made the folder. */
static cr_status check_owner(const char *path)
{
    struct stat st;

    if (!stat(path, &st) && st.st_uid != geteuid() && geteuid() != 0)
        return cr_fail(CR_IO, "%s belongs to another user", path);
    return CR_OK;
}

static cr_status make_folder(const char *path)
{
    char part[1024];
    size_t n = strlen(path);

    if (n >= sizeof part)
        return cr_fail(CR_IO, "the cache's path is too long: %.80s...", path);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i])
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, 0700) && errno != EEXIST && access(part, F_OK))
            return cr_fail(CR_IO, "cannot create %s: %s", part, strerror(errno));
    }
    return check_owner(path);
}

static const char *temporary(void)
{
    const char *own = cr_env(CR_ENV_TMPDIR);

    return *own ? own : "/tmp";
}

static const char work_name[] = "cresset-work-";

cr_status cr_cache_work(cr_text *out, int place)
{
    cr_text path = {0};
    cr_status st = CR_OK;

    if (place == 0) {
        cr_text_put(&path, temporary());
    } else {
        folder(&path);
        st = cr_text_status(&path) ? CR_MEMORY : make_folder(path.at);
    }
    size_t n = path.len;
    cr_text_printf(&path, "/%s%ld-XXXXXX", work_name, (long)geteuid());
    st = st ? st : cr_text_status(&path);
    if (!st && !mkdtemp(path.at))
        st = cr_fail(CR_IO, "cannot create a folder in %.*s: %s", (int)n, path.at, strerror(errno));
    if (st)
        cr_text_drop(&path);
    else
        *out = path;
    return st;
}

/* The folder and the files in it; compilers make no folders. */
void cr_cache_work_end(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(path);
}

/* --- the seal --- */

/* "\n/" "* cresset <bytes before> <their sum> *" "/\n", of fixed length. */
enum { SEAL = 4 + 8 + 16 + 1 + 16 + 4 };

/* Eight bytes at a time: everything that is loaded passes here. */
static uint64_t sum_of(const char *bytes, size_t len)
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
             (unsigned long long)sum_of(bytes, len));
}

static bool sealed(const char *bytes, size_t len)
{
    char wanted[SEAL + 1];

    if (len < SEAL)
        return false;
    seal(wanted, bytes, len - SEAL);
    return !memcmp(bytes + len - SEAL, wanted, SEAL);
}

/* --- finding --- */

void *cr_cache_load(const char *object, const char *symbol)
{
    void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL), *found;

    if (!library) {
        const char *why = dlerror();
        size_t n = strlen(object);
        why += strncmp(why, object, n) || why[n] != ':' ? 0 : n + 2; /* the caller knows the file */
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

/* Whole, and with this source in it. */
static bool is_sound(const char *path, const char *source)
{
    char *bytes = NULL;
    size_t len = 0;
    bool sound = !cr_read_file(&bytes, &len, path) && sealed(bytes, len) &&
                 memmem(bytes, len, source, strlen(source));

    cr_free(bytes);
    return sound;
}

/* Used again: the last to be removed for lack of room. */
static void touch(const char *path, const struct stat *st)
{
    if (time(NULL) - st->st_mtime > TOUCH_SECONDS)
        utimensat(AT_FDCWD, path, NULL, 0);
}

static bool file_name(cr_text *out, const char *key, const char *kind)
{
    folder(out);
    cr_text_printf(out, "/%s.%s", key, kind);
    return !cr_text_status(out);
}

void *cr_cache_find(const char *key, const char *symbol, const char *source)
{
    cr_text path = {0};
    struct stat st;
    void *found = NULL;

    if (file_name(&path, key, "so") && !stat(path.at, &st)) {
        bool sound = is_sound(path.at, source);
        found = sound ? cr_cache_load(path.at, symbol) : NULL;
        if (found)
            touch(path.at, &st);
        else
            cr_log_line("cache", 1, "%s is not used: %s", path.at,
                        sound ? cr_error_message() : "it is torn, or of another source");
    }
    cr_text_drop(&path);
    return found;
}

/* --- keeping --- */

static cr_status read_object(cr_text *out, const char *object, int n, const char *const *source)
{
    char *bytes = NULL, end[SEAL + 1];
    size_t len;

    CR_TRY(cr_read_file(&bytes, &len, object));
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

/* Not synced: a file lost with the machine's power is only a miss. */
static cr_status write_new(const char *path, const cr_text *text)
{
    const char *at = text->at;
    size_t left = text->len;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700), failed = fd < 0 ? errno : 0;

    while (!failed && left) {
        ssize_t n = write(fd, at, left);
        failed = n < 0 && errno != EINTR ? errno : 0;
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0 && close(fd) && !failed)
        failed = errno;
    if (!failed)
        return CR_OK;
    if (fd >= 0)
        unlink(path);
    return cr_fail(CR_IO, "cannot write %s: %s", path, strerror(failed));
}

/* One more name for `first`: renamed, so that what had the name is replaced. */
static cr_status add_name(const char *first, const char *spare, const char *name, const cr_text *text)
{
    if (link(first, spare))
        CR_TRY(write_new(spare, text));
    if (!rename(spare, name)) {
        unlink(spare); /* it stays where both are names of one file */
        return CR_OK;
    }
    cr_status st = cr_fail(CR_IO, "cannot name %s: %s", name, strerror(errno));
    unlink(spare);
    return st;
}

cr_status cr_cache_keep(const char *object, int n, const char *const *key, const char *const *source)
{
    static _Atomic int turn;
    cr_text text = {0}, base = {0}, first = {0}, spare = {0};
    int mine = atomic_fetch_add(&turn, 1);
    cr_status st;

    folder(&base);
    CR_GO(cr_text_status(&base));
    CR_GO(make_folder(base.at));
    cr_text_printf(&first, "%s/new.%ld.%d", base.at, (long)getpid(), mine);
    cr_text_printf(&spare, "%s.name", cr_text_str(&first));
    CR_GO(cr_text_status(&first));
    CR_GO(cr_text_status(&spare));
    CR_GO(read_object(&text, object, n, source));
    CR_GO(write_new(first.at, &text));
    for (int i = 0; i < n && !st; i++) {
        cr_text name = {0};
        cr_text_printf(&name, "%s/%s.so", base.at, key[i]);
        st = cr_text_status(&name);
        st = st ? st : add_name(first.at, spare.at, name.at, &text);
        cr_text_drop(&name);
    }
    unlink(first.at);
done:
    cr_text_drop(&spare);
    cr_text_drop(&first);
    cr_text_drop(&base);
    cr_text_drop(&text);
    return st;
}

/* --- notes --- */

bool cr_cache_read_note(cr_text *out, const char *key)
{
    cr_text path = {0};
    char *bytes = NULL;
    size_t len = 0;
    bool sound = file_name(&path, key, "sc") && !access(path.at, R_OK) && !cr_read_file(&bytes, &len, path.at) &&
                 sealed(bytes, len);

    if (sound)
        cr_text_put_n(out, bytes, len - SEAL);
    else if (bytes)
        cr_log_line("cache", 1, "%s is not used: it is torn", path.at);
    cr_free(bytes);
    cr_text_drop(&path);
    return sound && !cr_text_status(out);
}

cr_status cr_cache_write_note(const char *key, const char *note)
{
    static _Atomic int turn;
    cr_text text = {0}, base = {0}, spare = {0}, name = {0};
    char end[SEAL + 1];
    cr_status st;

    folder(&base);
    CR_GO(cr_text_status(&base));
    CR_GO(make_folder(base.at));
    cr_text_printf(&spare, "%s/new.%ld.note%d", base.at, (long)getpid(), atomic_fetch_add(&turn, 1));
    cr_text_put(&text, note);
    seal(end, note, strlen(note));
    cr_text_put(&text, end);
    CR_GO(cr_text_status(&text));
    CR_GO(cr_text_status(&spare));
    st = file_name(&name, key, "sc") ? CR_OK : CR_MEMORY;
    CR_GO(st);
    CR_GO(write_new(spare.at, &text));
    if (rename(spare.at, name.at)) {
        st = cr_fail(CR_IO, "cannot name %s: %s", name.at, strerror(errno));
        unlink(spare.at);
    }
done:
    cr_text_drop(&name);
    cr_text_drop(&spare);
    cr_text_drop(&base);
    cr_text_drop(&text);
    return st;
}

/* --- tidying --- */

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

/* Kernels and notes. */
static bool is_kernel(const char *name)
{
    return strlen(name) == CR_CACHE_KEY + 3 &&
           (!strcmp(name + CR_CACHE_KEY, ".so") || !strcmp(name + CR_CACHE_KEY, ".sc"));
}

static bool starts(const char *name, const char *with) { return !strncmp(name, with, strlen(with)); }

static void remove_abandoned(const char *base, const char *name, const struct stat *st)
{
    cr_text path = {0};

    if (time(NULL) - st->st_mtime < ABANDONED_SECONDS || (st->st_uid != geteuid() && geteuid() != 0))
        return;
    cr_text_printf(&path, "%s/%s", base, name);
    if (!cr_text_status(&path) && S_ISDIR(st->st_mode))
        cr_cache_work_end(path.at);
    else if (path.at)
        unlink(path.at);
    cr_text_drop(&path);
}

/* Removes what was left in a folder, and lists its kernels when `out` is given. */
static void look_through(entries *out, const char *base)
{
    DIR *d = opendir(base);
    struct dirent *e;
    struct stat st;

    while (d && (e = readdir(d))) {
        bool ours = is_kernel(e->d_name);
        if (!ours && !starts(e->d_name, work_name) && !(out && starts(e->d_name, "new.")))
            continue;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        if (!ours) {
            remove_abandoned(base, e->d_name, &st);
        } else if (out && !cr_vec_reserve(out, 1)) {
            entry item = {.file = st.st_ino, .bytes = st.st_size, .used = st.st_mtim};
            snprintf(item.name, sizeof item.name, "%s", e->d_name);
            cr_vec_put(out, item);
        }
    }
    if (d)
        closedir(d);
}

/* Sorted by use, the names of one file stand together and count once. */
static int64_t sum_bytes(const entries *all)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < all->len; i++)
        bytes += i && all->at[i].file == all->at[i - 1].file ? 0 : all->at[i].bytes;
    return bytes;
}

static void remove_oldest(const entries *all, const char *base, int64_t bytes, int64_t limit)
{
    size_t i = 0;
    int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    while (dir >= 0 && i < all->len && bytes > limit) {
        ino_t file = all->at[i].file;
        bytes -= all->at[i].bytes;
        for (; i < all->len && all->at[i].file == file; i++)
            unlinkat(dir, all->at[i].name, 0);
    }
    if (dir >= 0)
        close(dir);
    cr_log_line("cache", 1, "%zu of %zu kernels are removed, the longest unused: %s holds more than %" PRId64 " MB",
                i, all->len, base, cr_env_int(CR_ENV_CR_CACHE_LIMIT));
}

void cr_cache_tidy(void)
{
    int64_t limit = cr_env_int(CR_ENV_CR_CACHE_LIMIT) * 1000000;
    entries all = {0};
    cr_text base = {0};

    look_through(NULL, temporary());
    folder(&base);
    if (!cr_text_status(&base)) {
        look_through(&all, base.at);
        if (all.len)
            qsort(all.at, all.len, sizeof *all.at, by_use);
        int64_t bytes = sum_bytes(&all);
        if (limit > 0 && bytes > limit)
            remove_oldest(&all, base.at, bytes, limit - limit / 4);
    }
    cr_text_drop(&base);
    cr_vec_drop(&all);
}
