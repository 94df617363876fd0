/* Reading archives: finds the directory from the file's end, reads it, and checks it as a
 * whole. */
#include "io/zip.h"
#include "base/map.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30
};
enum { MOST_COMMENT = 65535, DEFLATED = 8 };

struct cr_zip {
    cr_source *source;
    cr_source
        *archive; /* of an archive with deflated records: its file; `source` is `memory` */
    char *memory;
    cr_arena arena;
    cr_map names; /* name to entry index + 1 */
    CR_VEC(cr_zip_entry) entries;
    const char *folder;
    size_t folder_len;
    bool deflated; /* some record is */
};

/* The position of the directory. */
typedef struct {
    uint64_t at, size, count, end; /* end: the position of the end records */
} directory;

static uint16_t get16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)get16(p) | (uint32_t)get16(p + 2) << 16;
}
static uint64_t get64(const unsigned char *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

/* `what` is "reading zip archive" or a record's name. */
static cr_status zip_refuse(const char *what, const char *why)
{
    return cr_fail(
        CR_RUNTIME,
        "PytorchStreamReader failed %s: %s. This is an internal miniz error. If you are "
        "seeing this error, there is a high likelihood that your checkpoint file is "
        "corrupted. This can happen if the checkpoint was not saved properly, was "
        "transferred incorrectly, or the file was modified after saving.",
        what, why);
}

static cr_status refuse_archive(const char *why)
{
    return zip_refuse("reading zip archive", why);
}

static cr_status refuse_record(const char *doing, const char *name, const char *why)
{
    char what[160];

    snprintf(what, sizeof what, "%s file %.120s", doing, name);
    return zip_refuse(what, why);
}

static cr_status corrupted(void)
{
    return refuse_archive("invalid header or archive is corrupted");
}

bool cr_zip_begins(const cr_source *source)
{
    char first[4];

    return cr_source_size(source) >= sizeof first &&
           !cr_source_read(source, 0, sizeof first, first) && !memcmp(first, "PK\3\4", 4);
}

/* --- the end records --- */

/* The position of the end record in the last bytes of the file; -1 when there is none. */
static int64_t zip_find_end(const unsigned char *tail, size_t len)
{
    for (int64_t i = (int64_t)len - END_BYTES; i >= 0; i--)
        if (!memcmp(tail + i, "PK\5\6", 4) &&
            get16(tail + i + 20) <= len - (size_t)i - END_BYTES)
            return i;
    return -1;
}

/* Takes sizes from the 64-bit end record when a locator precedes the end record. */
static cr_status wide_end(const cr_source *source, uint64_t end_at, directory *d)
{
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];

    if (end_at < LOCATOR_BYTES)
        return CR_OK;
    CR_TRY(cr_source_read(source, end_at - LOCATOR_BYTES, sizeof locator, locator));
    if (memcmp(locator, "PK\6\7", 4))
        return CR_OK;
    uint64_t at = get64(locator + 8), latest = end_at - LOCATOR_BYTES;
    if (latest < END64_BYTES || at > latest - END64_BYTES)
        return corrupted();
    CR_TRY(cr_source_read(source, at, sizeof end, end));
    if (memcmp(end, "PK\6\6", 4))
        return corrupted();
    *d = (directory){get64(end + 48), get64(end + 40), get64(end + 32), at};
    return CR_OK;
}

static cr_status find_directory(const cr_source *source, directory *d)
{
    uint64_t size = cr_source_size(source);
    size_t len = size < END_BYTES + MOST_COMMENT ? (size_t)size : END_BYTES + MOST_COMMENT;
    unsigned char *tail = NULL;
    cr_status st;

    if (size < END_BYTES)
        return refuse_archive("not a ZIP archive");
    tail = cr_alloc(len);
    CR_NEED(tail);
    CR_GO(cr_source_read(source, size - len, len, tail));
    int64_t i = zip_find_end(tail, len);
    CR_GO(i < 0 ? refuse_archive("failed finding central directory") : CR_OK);
    const unsigned char *end = tail + i;
    uint64_t end_at = size - len + (uint64_t)i;
    *d = (directory){get32(end + 16), get32(end + 12), get16(end + 10), end_at};
    CR_GO(wide_end(source, end_at, d));
    if (d->at > d->end || d->size > d->end - d->at || d->count > d->size / ENTRY_BYTES)
        st = corrupted();
done:
    cr_free(tail);
    return st;
}

/* --- entries --- */

/* Replaces a full narrow field by its value in the 64-bit extra field. */
static bool zip_widen(uint64_t *value, const unsigned char **extra, size_t *left)
{
    if (*value != UINT32_MAX)
        return true;
    if (*left < 8)
        return false;
    *value = get64(*extra);
    *extra += 8;
    *left -= 8;
    return true;
}

static bool widen_all(const unsigned char *extra, size_t len, uint64_t *size, uint64_t *packed,
                      uint64_t *local)
{
    while (len >= 4) {
        size_t n = get16(extra + 2);
        if (n > len - 4)
            return false;
        if (get16(extra) == 1) {
            const unsigned char *field = extra + 4;
            return zip_widen(size, &field, &n) && zip_widen(packed, &field, &n) &&
                   zip_widen(local, &field, &n);
        }
        extra += 4 + n;
        len -= 4 + n;
    }
    return *size != UINT32_MAX && *packed != UINT32_MAX && *local != UINT32_MAX;
}

/* The data follows the local header, whose name and extra field may differ in length from the
 * directory's. */
static cr_status find_data(const cr_zip *z, cr_zip_entry *e, uint64_t local, uint64_t limit)
{
    unsigned char head[LOCAL_BYTES];

    if (limit < LOCAL_BYTES || local > limit - LOCAL_BYTES)
        return corrupted();
    CR_TRY(cr_source_read(z->source, local, sizeof head, head));
    e->at = local + LOCAL_BYTES + get16(head + 26) + get16(head + 28);
    if (memcmp(head, "PK\3\4", 4) || e->at > limit || e->packed > limit - e->at)
        return corrupted();
    return CR_OK;
}

/* The archive's folder is that of the first record. */
static cr_status take_folder(cr_zip *z, const char *name)
{
    const char *slash = strchr(name, '/');

    if (!slash)
        return cr_fail(CR_RUNTIME, "file in archive is not in a subdirectory: %.200s", name);
    z->folder = name;
    z->folder_len = (size_t)(slash - name) + 1;
    return CR_OK;
}

static cr_status add_entry(cr_zip *z, const char *name, cr_zip_entry e)
{
    if (!z->folder)
        CR_TRY(take_folder(z, name));
    if (strncmp(name, z->folder, z->folder_len))
        return CR_OK; /* not written by torch; ignored */
    e.name = name + z->folder_len;
    CR_TRY(cr_vec_reserve(&z->entries, 1));
    cr_vec_put(&z->entries, e);
    size_t len = strlen(e.name);
    if (cr_map_get(&z->names, e.name, len))
        return CR_OK; /* the first entry of a name is used */
    return cr_map_set(&z->names, e.name, len, (void *)(uintptr_t)z->entries.len);
}

/* Reads one directory entry at `p`; *used is the entry's length. */
static cr_status read_entry(cr_zip *z, const unsigned char *p, size_t left, uint64_t limit,
                            size_t *used)
{
    if (left < ENTRY_BYTES || memcmp(p, "PK\1\2", 4))
        return corrupted();
    size_t name_len = get16(p + 28), extra_len = get16(p + 30);
    *used = ENTRY_BYTES + name_len + extra_len + get16(p + 32);
    if (*used > left || memchr(p + ENTRY_BYTES, 0, name_len))
        return corrupted();
    uint64_t size = get32(p + 24), packed = get32(p + 20), local = get32(p + 42);
    if ((size == UINT32_MAX || packed == UINT32_MAX || local == UINT32_MAX) &&
        !widen_all(p + ENTRY_BYTES + name_len, extra_len, &size, &packed, &local))
        return corrupted();
    char *name = cr_arena_text(&z->arena, (const char *)p + ENTRY_BYTES, name_len);
    CR_NEED(name);
    unsigned method = get16(p + 10);
    if ((method && method != DEFLATED) || get16(p + 8) & 1 || (!method && packed != size))
        return refuse_record("reading", name, "unsupported method");
    cr_zip_entry e = {
        .size = size, .packed = packed, .crc = get32(p + 16), .deflated = method == DEFLATED};
    z->deflated |= e.deflated;
    CR_TRY(find_data(z, &e, local, limit));
    return add_entry(z, name, e);
}

static int by_place(const void *a, const void *b)
{
    const cr_zip_entry *x = *(const cr_zip_entry *const *)a,
                       *y = *(const cr_zip_entry *const *)b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->packed < y->packed ? -1 : x->packed > y->packed;
}

/* Rejects overlapping records, which would let a small file fill the memory. */
static cr_status check_overlap(const cr_zip *z)
{
    const cr_zip_entry **sorted = cr_alloc(z->entries.len * sizeof *sorted + 1);
    cr_status st = CR_OK;

    CR_NEED(sorted);
    for (size_t i = 0; i < z->entries.len; i++)
        sorted[i] = &z->entries.at[i];
    if (z->entries.len)
        qsort(sorted, z->entries.len, sizeof *sorted, by_place);
    for (size_t i = 1; !st && i < z->entries.len; i++)
        if (sorted[i]->at - sorted[i - 1]->at < sorted[i - 1]->packed)
            st = corrupted();
    cr_free(sorted);
    return st;
}

static cr_status read_entries(cr_zip *z, const directory *d, const unsigned char *bytes)
{
    size_t at = 0, used = 0;

    for (uint64_t i = 0; i < d->count; i++) {
        CR_TRY(read_entry(z, bytes + at, (size_t)d->size - at, d->at, &used));
        at += used;
    }
    return check_overlap(z);
}

static cr_status read_directory(cr_zip *z)
{
    directory d = {0};
    cr_status st;

    CR_TRY(find_directory(z->source, &d));
    unsigned char *bytes = cr_alloc((size_t)d.size + 1);
    CR_NEED(bytes);
    CR_GO(cr_source_read(z->source, d.at, (size_t)d.size, bytes));
    CR_GO(read_entries(z, &d, bytes));
done:
    cr_free(bytes);
    return st;
}

/* --- deflated records --- */

/* A byte of deflated data gives at most 1032 bytes. */
static bool zip_size_is_possible(const cr_zip_entry *e)
{
    return !e->deflated || e->size / 1032 <= e->packed;
}

static cr_status zip_inflate(const cr_zip_entry *e, unsigned char *packed, char *to)
{
    z_stream s = {.next_in = packed, .next_out = (unsigned char *)to};
    uint64_t in = e->packed, out = e->size;
    int done = inflateInit2(&s, -MAX_WBITS);

    while (done == Z_OK) {
        uInt give = in > UINT32_MAX ? UINT32_MAX : (uInt)in;
        uInt room = out > UINT32_MAX ? UINT32_MAX : (uInt)out;
        s.avail_in = give;
        s.avail_out = room;
        done = inflate(&s, Z_NO_FLUSH);
        if (done == Z_OK && give == s.avail_in && room == s.avail_out)
            break; /* the data ends early, or is longer than stated */
        in -= give - s.avail_in;
        out -= room - s.avail_out;
    }
    inflateEnd(&s);
    return done == Z_STREAM_END && !out
               ? CR_OK
               : refuse_record("reading", e->name, "decompression failed");
}

/* The bytes of a record from the archive. */
static cr_status zip_record_bytes(const cr_zip *z, const cr_zip_entry *e, char *to)
{
    if (!e->deflated)
        return cr_source_read(z->archive, e->from, (size_t)e->size, to);
    unsigned char *packed = cr_alloc((size_t)e->packed + 1);
    CR_NEED(packed);
    cr_status st = cr_source_read(z->archive, e->from, (size_t)e->packed, packed);
    st = st ? st : zip_inflate(e, packed, to);
    cr_free(packed);
    return st;
}

cr_status cr_zip_unpack(cr_zip *z, const cr_zip_entry *entry)
{
    cr_zip_entry *e = &z->entries.at[entry - z->entries.at];

    if (e->absent)
        CR_TRY(zip_record_bytes(z, e, z->memory + e->at));
    e->absent = false;
    return CR_OK;
}

/* The size of the unpacked memory: each record at a multiple of CR_ZIP_ALIGNMENT. */
static bool zip_unpacked_size(const cr_zip *z, uint64_t *total)
{
    *total = 0;
    for (size_t i = 0; i < z->entries.len; i++) {
        const cr_zip_entry *e = &z->entries.at[i];
        if (!zip_size_is_possible(e) || CR_ADD_OVERFLOW(*total, e->size, total) ||
            CR_ADD_OVERFLOW(*total, (uint64_t)CR_ZIP_ALIGNMENT - 1, total))
            return false;
        *total &= ~(uint64_t)(CR_ZIP_ALIGNMENT - 1);
    }
    return true;
}

static void zip_free(void *bytes) { cr_free(bytes); }

/* Gives each record its place in memory, which has pages only where records are unpacked. */
static cr_status zip_prepare(cr_zip *z)
{
    uint64_t total, at = 0;

    if (!zip_unpacked_size(z, &total))
        return corrupted();
    z->memory = cr_alloc((size_t)total + 1);
    CR_NEED(z->memory);
    z->archive = z->source;
    z->source = NULL;
    cr_status st = cr_source_memory(&z->source, z->memory, (size_t)total, zip_free, z->memory);
    if (st)
        cr_free(z->memory);
    for (size_t i = 0; i < z->entries.len; i++) {
        cr_zip_entry *e = &z->entries.at[i];
        e->from = e->at;
        e->at = at;
        e->absent = true;
        at = (at + e->size + CR_ZIP_ALIGNMENT - 1) & ~(uint64_t)(CR_ZIP_ALIGNMENT - 1);
    }
    return st;
}

/* --- opening and reading --- */
cr_status cr_zip_open(cr_zip **out, cr_source *source)
{
    cr_zip *z = cr_alloc_zero(sizeof *z);

    CR_NEED(z);
    z->source = cr_source_keep(source);
    cr_status st = read_directory(z);
    if (!st && z->deflated)
        st = zip_prepare(z);
    CR_GIVE(st, out, z, cr_zip_drop);
}

void cr_zip_drop(cr_zip *z)
{
    if (!z)
        return;
    cr_vec_drop(&z->entries);
    cr_map_drop(&z->names);
    cr_arena_drop(&z->arena);
    cr_source_drop(z->source);
    cr_source_drop(z->archive);
    cr_free(z);
}

cr_source *cr_zip_source(const cr_zip *z) { return z->source; }

const cr_zip_entry *cr_zip_find(const cr_zip *z, const char *name)
{
    size_t i = (size_t)(uintptr_t)cr_map_get(&z->names, name, strlen(name));

    return i ? &z->entries.at[i - 1] : NULL;
}

const cr_zip_entry *cr_zip_at(const cr_zip *z, size_t i)
{
    return i < z->entries.len ? &z->entries.at[i] : NULL;
}

cr_status cr_zip_need(const cr_zip_entry **out, const cr_zip *z, const char *name)
{
    *out = cr_zip_find(z, name);
    return *out ? CR_OK : refuse_record("locating", name, "file not found");
}

cr_status cr_zip_read(const cr_zip *z, const cr_zip_entry *e, void *to)
{
    CR_TRY(e->absent ? zip_record_bytes(z, e, to)
                     : cr_source_read(z->source, e->at, (size_t)e->size, to));
    if (e->crc && crc32_z(0, to, (size_t)e->size) != e->crc)
        return refuse_record("reading", e->name, "CRC-32 check failed");
    return CR_OK;
}

cr_status cr_zip_text(char **out, size_t *len, const cr_zip *zip, const char *name)
{
    const cr_zip_entry *e;

    CR_TRY(cr_zip_need(&e, zip, name));
    char *bytes = cr_alloc((size_t)e->size + 1);
    CR_NEED(bytes);
    cr_status st = cr_zip_read(zip, e, bytes);
    if (st) {
        cr_free(bytes);
        return st;
    }
    bytes[e->size] = 0;
    *out = bytes;
    *len = (size_t)e->size;
    return CR_OK;
}
