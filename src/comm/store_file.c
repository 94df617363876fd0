/* The kind file: a file with all requests that changed the table, as frames one after another.
 *
 * Each store has a table of its own and reads the frames that others appended before it
 * answers; all tables are therefore equal.  The file is locked for each request.  A process
 * that is killed while it appends leaves part of a frame, which the next one cuts off. */
#include "base/log.h"
#include "comm/store_impl.h"
#include "comm/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

typedef struct {
    cr_store head;
    pthread_mutex_t lock;
    cr_table *table;
    size_t read; /* bytes of the file that the table has */
    int64_t world_size;
    char path[];
} file_store;

static const char OPENED[] = "-opened", CLOSED[] = "-closed";
enum { LOCK_PAUSE_US = 50, LONGEST_PAUSE_US = 10000, LOCK_MS = 1000 };

static const bool changes[] = {
#define CR_VERB(NAME, does_change, waits) does_change,
#include "comm/verbs.def"
#undef CR_VERB
};

static cr_status file_error(const file_store *f, const char *what)
{
    return cr_fail(CR_STORE, "%s(%s): %s", what, f->path, strerror(errno));
}

/* Repeats the frames of `at` on the table; *used: the bytes of whole frames. */
static cr_status file_repeat(file_store *f, const char *at, size_t len, size_t *used)
{
    cr_wire_room room = {0};
    cr_text unused = {0};
    cr_store_request r;
    bool blocked;
    cr_status st = CR_OK;

    for (*used = 0; len - *used >= CR_WIRE_HEAD;) {
        size_t n = cr_wire_u32(at + *used);
        if (n > len - *used - CR_WIRE_HEAD)
            break;
        CR_GO(cr_wire_read_request(&r, &room, at + *used + CR_WIRE_HEAD, n));
        unused.len = 0;
        CR_GO(cr_table_answer(f->table, &r, &unused, &blocked));
        *used += CR_WIRE_HEAD + n;
    }
done:
    cr_vec_drop(&room);
    cr_text_drop(&unused);
    return st;
}

/* Reads the rest of the file into the table. */
static cr_status file_catch_up(file_store *f, int fd)
{
    char *bytes = NULL;
    size_t len = 0, used = 0;

    if (lseek(fd, (off_t)f->read, SEEK_SET) < 0)
        return file_error(f, "lseek");
    CR_TRY(cr_read_open_file(&bytes, &len, fd, f->path));
    cr_status st = file_repeat(f, bytes, len, &used);
    cr_free(bytes);
    f->read += used;
    if (!st && used < len && ftruncate(fd, (off_t)f->read))
        st = file_error(f, "ftruncate");
    return st;
}

static cr_status file_append(file_store *f, int fd, const cr_store_request *r)
{
    cr_text frame = {0};

    cr_wire_request(&frame, r);
    cr_status st = cr_text_status(&frame);
    if (!st && lseek(fd, (off_t)f->read, SEEK_SET) < 0)
        st = file_error(f, "lseek");
    if (!st)
        st = cr_write_open_file(fd, frame.at, frame.len, f->path);
    if (!st)
        f->read += frame.len;
    cr_text_drop(&frame);
    return st;
}

/* After a change that the file did not take: cuts off what was written of it, and empties the
 * table, which the next request reads again. */
static void file_undo(file_store *f, int fd, cr_table *empty)
{
    if (ftruncate(fd, (off_t)f->read))
        cr_log_line("comm", 1, "%s ends with a part of a request: %s", f->path,
                    strerror(errno));
    cr_table_free(f->table);
    f->table = empty;
    f->read = 0;
}

/* Changes the table, then the file; after a failure neither has changed. */
static cr_status file_change(file_store *f, int fd, const cr_store_request *r, cr_text *reply,
                             bool *blocked)
{
    cr_table *empty;

    CR_TRY(cr_table_new(&empty));
    cr_status st = cr_table_answer(f->table, r, reply, blocked);
    if (!st && !*blocked)
        st = file_append(f, fd, r);
    if (st)
        file_undo(f, fd, empty);
    else
        cr_table_free(empty);
    return st;
}

/* One attempt, with the file locked. */
static cr_status file_answer(file_store *f, int fd, const cr_store_request *r, cr_text *reply,
                             bool *blocked)
{
    CR_TRY(file_catch_up(f, fd));
    return changes[r->verb] ? file_change(f, fd, r, reply, blocked)
                            : cr_table_answer(f->table, r, reply, blocked);
}

static useconds_t longer(useconds_t pause)
{
    return pause * 2 < LONGEST_PAUSE_US ? pause * 2 : LONGEST_PAUSE_US;
}

/* Locks the file until `end`: a process that is stopped may hold the lock. */
static cr_status file_lock(const file_store *f, int fd, double end)
{
    for (useconds_t pause = LOCK_PAUSE_US; flock(fd, LOCK_EX | LOCK_NB);
         pause = longer(pause)) {
        if (errno != EINTR && errno != EWOULDBLOCK)
            return file_error(f, "flock");
        if (cr_seconds() > end)
            return cr_fail(CR_STORE, "flock(%s): another process holds the lock", f->path);
        if (cr_wait_pause(pause))
            return cr_fail(CR_STORE, "flock(%s): the wait was interrupted", f->path);
    }
    return CR_OK;
}

static cr_status file_try(file_store *f, const cr_store_request *r, cr_text *reply,
                          bool *blocked, double end)
{
    int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return file_error(f, "open");
    cr_status st = file_lock(f, fd, end + 1e-3 * LOCK_MS);
    if (!st) {
        pthread_mutex_lock(&f->lock);
        st = file_answer(f, fd, r, reply, blocked);
        pthread_mutex_unlock(&f->lock);
    }
    close(fd);
    return st;
}

static cr_status file_call(cr_store *s, const cr_store_request *r, cr_store_reply *out)
{
    file_store *f = (file_store *)s;
    int64_t limit = cr_store_timeout(s, r);
    double end = cr_seconds() + 1e-3 * (double)limit;
    bool blocked;

    for (useconds_t pause = 500;; pause = longer(pause)) {
        CR_TRY(file_try(f, r, &out->raw, &blocked, end));
        if (!blocked)
            return cr_wire_read_reply(out);
        bool late = cr_seconds() > end;
        if (late || cr_wait_pause(pause))
            return cr_store_not_waited(r, limit, !late);
    }
}

static void file_free(cr_store *s)
{
    file_store *f = (file_store *)s;
    int64_t open_stores = 1, closed = 0;

    if (f->world_size > 0 && !access(f->path, F_OK) &&
        !cr_store_add(s, OPENED, -1, &open_stores) && !cr_store_add(s, CLOSED, 1, &closed) &&
        open_stores == 0 && closed >= f->world_size)
        unlink(f->path);
    cr_table_free(f->table);
    pthread_mutex_destroy(&f->lock);
    cr_free(f);
}

cr_status cr_store_file(cr_store **out, const char *path, int64_t world_size)
{
    static const cr_store_kind kind = {file_call, file_free, NULL};
    size_t n = strlen(path) + 1;
    file_store *f = cr_alloc_zero(sizeof *f + n);
    int64_t sum;

    CR_NEED(f);
    memcpy(f->path, path, n);
    cr_store_init(&f->head, &kind, CR_STORE_TIMEOUT_MS);
    pthread_mutex_init(&f->lock, NULL);
    cr_status st = cr_table_new(&f->table);
    if (!st && world_size > 0)
        st = cr_store_add(&f->head, OPENED, 1, &sum);
    f->world_size = st ? 0 : world_size;
    if (st)
        file_free(&f->head);
    else
        *out = &f->head;
    return st;
}
