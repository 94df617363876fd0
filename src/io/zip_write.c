/* Writing archives as torch does: for each record a local header, padding to 64 bytes, the
 * data, and a descriptor with checksum and sizes; at the end the directory with its 64-bit
 * records. */
#include "base/map.h"
#include "io/zip.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL_BYTES = 30, MADE_BY = 0x031E, NEEDS = 45, UTF8 = 1 << 11, DESCRIPTOR = 1 << 3 };

static void put16(cr_text *t, unsigned v)
{
    cr_text_char(t, (char)v);
    cr_text_char(t, (char)(v >> 8));
}

static void put32(cr_text *t, uint64_t v)
{
    put16(t, (unsigned)(v & 0xFFFF));
    put16(t, (unsigned)(v >> 16 & 0xFFFF));
}

static void put64(cr_text *t, uint64_t v)
{
    put32(t, v);
    put32(t, v >> 32);
}

/* The value of a 32-bit field for `v`.  UINT32_MAX means that a 64-bit field has the value. */
static uint64_t zip_narrow(uint64_t v) { return v < UINT32_MAX ? v : UINT32_MAX; }

void cr_zip_begin(cr_zip_writer *w, const char *folder, cr_zip_put put, void *to)
{
    *w = (cr_zip_writer){.put = put, .to = to, .folder = folder};
}

void cr_zip_writer_drop(cr_zip_writer *w) { cr_text_drop(&w->directory); }

static cr_status zip_emit(cr_zip_writer *w, const void *bytes, size_t len)
{
    CR_TRY(w->put(w->to, bytes, len));
    w->at += len;
    return CR_OK;
}

static cr_status emit_text(cr_zip_writer *w, cr_text *t)
{
    cr_status st = cr_text_status(t);

    if (!st)
        st = zip_emit(w, cr_text_str(t), t->len);
    cr_text_drop(t);
    return st;
}

/* The extra field with the 64-bit values; empty when all values fit 32 bits. */
static void put_wide(cr_text *t, uint64_t size, uint64_t at)
{
    unsigned bytes = (size >= UINT32_MAX ? 16 : 0) + (at >= UINT32_MAX ? 8 : 0);

    if (!bytes)
        return;
    put16(t, 1);
    put16(t, bytes);
    if (size >= UINT32_MAX) {
        put64(t, size);
        put64(t, size);
    }
    if (at >= UINT32_MAX)
        put64(t, at);
}

/* A padding field, which moves the data to a multiple of 64. */
static void put_padding(cr_text *t, uint64_t unpadded)
{
    unsigned n =
        (unsigned)((CR_ZIP_ALIGNMENT - (unpadded + 4) % CR_ZIP_ALIGNMENT) % CR_ZIP_ALIGNMENT);

    cr_text_put_n(t, "FB", 2);
    put16(t, n);
    cr_text_pad(t, n, 'Z');
}

static cr_status put_local(cr_zip_writer *w, const cr_text *name, unsigned flags, uint64_t size)
{
    cr_text head = {0}, extra = {0};

    put_wide(&extra, size, w->at);
    put_padding(&extra, w->at + LOCAL_BYTES + name->len + extra.len);
    cr_text_put_n(&head, "PK\3\4", 4);
    put16(&head, 0);
    put16(&head, flags);
    /* method, time, date; then checksum and sizes, which the descriptor gives */
    for (int i = 0; i < 9; i++)
        put16(&head, 0);
    put16(&head, (unsigned)name->len);
    put16(&head, (unsigned)extra.len);
    cr_text_put_n(&head, cr_text_str(name), name->len);
    cr_text_put_n(&head, cr_text_str(&extra), extra.len);
    if (!head.failed)
        head.failed = extra.failed;
    cr_text_drop(&extra);
    return emit_text(w, &head);
}

static cr_status put_descriptor(cr_zip_writer *w, uint32_t crc, uint64_t size, uint64_t local)
{
    cr_text t = {0};

    cr_text_put_n(&t, "PK\7\10", 4);
    put32(&t, crc);
    if (size >= UINT32_MAX || local >= UINT32_MAX) {
        put64(&t, size);
        put64(&t, size);
    } else {
        put32(&t, size);
        put32(&t, size);
    }
    return emit_text(w, &t);
}

static void zip_put_entry(cr_text *t, const cr_text *name, unsigned flags, uint32_t crc,
                          uint64_t size, uint64_t local)
{
    cr_text extra = {0};

    put_wide(&extra, size, local);
    cr_text_put_n(t, "PK\1\2", 4);
    put32(t, 0);
    put16(t, flags);
    put16(t, 0);
    put32(t, 0);
    put32(t, crc);
    put32(t, zip_narrow(size));
    put32(t, zip_narrow(size));
    put16(t, (unsigned)name->len);
    put16(t, (unsigned)extra.len);
    for (int i = 0; i < 5; i++) /* comment, disk, attributes */
        put16(t, 0);
    put32(t, zip_narrow(local));
    cr_text_put_n(t, cr_text_str(name), name->len);
    cr_text_put_n(t, cr_text_str(&extra), extra.len);
    cr_text_drop(&extra);
}

static void add_digest(cr_zip_writer *w, const cr_text *name, uint32_t crc)
{
    w->digest[0] = (w->digest[0] ^ cr_hash(cr_text_str(name), name->len)) * 1099511628211u;
    w->digest[1] = (w->digest[1] ^ crc) * 1099511628211u;
}

static cr_status zip_add_record(cr_zip_writer *w, const cr_text *name, const void *bytes,
                                size_t len)
{
    uint64_t local = w->at;
    uint32_t crc = w->unchecked ? 0 : (uint32_t)crc32_z(0, bytes, len);
    unsigned flags = UTF8 | (len ? DESCRIPTOR : 0);

    CR_TRY(cr_text_status(name));
    if (name->len > UINT16_MAX)
        return cr_fail(CR_VALUE, "the name of a record is too long");
    CR_TRY(put_local(w, name, flags, len));
    CR_TRY(zip_emit(w, bytes, len));
    if (len)
        CR_TRY(put_descriptor(w, crc, len, local));
    zip_put_entry(&w->directory, name, flags, crc, len, local);
    add_digest(w, name, crc);
    w->count++;
    return cr_text_status(&w->directory);
}

cr_status cr_zip_add(cr_zip_writer *w, const char *name, const void *bytes, size_t len)
{
    cr_text full = {0};

    cr_text_printf(&full, "%s/%s", w->folder, name);
    cr_status st = zip_add_record(w, &full, bytes, len);
    cr_text_drop(&full);
    w->versioned = w->versioned || !strcmp(name, ".data/version");
    return st;
}

static cr_status put_directory(cr_zip_writer *w)
{
    uint64_t at = w->at, size = w->directory.len, end;
    cr_text t = {0};

    CR_TRY(zip_emit(w, cr_text_str(&w->directory), w->directory.len));
    end = w->at;
    cr_text_put_n(&t, "PK\6\6", 4);
    put64(&t, 44);
    put16(&t, MADE_BY);
    put16(&t, NEEDS);
    put64(&t, 0);
    put64(&t, w->count);
    put64(&t, w->count);
    put64(&t, size);
    put64(&t, at);
    cr_text_put_n(&t, "PK\6\7", 4);
    put32(&t, 0);
    put64(&t, end);
    put32(&t, 1);
    cr_text_put_n(&t, "PK\5\6", 4);
    put32(&t, 0);
    put16(&t, w->count < UINT16_MAX ? (unsigned)w->count : UINT16_MAX);
    put16(&t, w->count < UINT16_MAX ? (unsigned)w->count : UINT16_MAX);
    put32(&t, zip_narrow(size));
    put32(&t, zip_narrow(at));
    put16(&t, 0);
    return emit_text(w, &t);
}

cr_status cr_zip_end(cr_zip_writer *w)
{
    char number[41];

    const char *version = w->version ? w->version : "3\n";

    if (!w->versioned)
        CR_TRY(cr_zip_add(w, "version", version, strlen(version)));
    snprintf(number, sizeof number, "%020" PRIu64 "%020" PRIu64, w->digest[0], w->digest[1]);
    CR_TRY(cr_zip_add(w, ".data/serialization_id", number, 40));
    return put_directory(w);
}
