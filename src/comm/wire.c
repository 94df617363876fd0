/* Requests and replies of stores as bytes, in this machine's byte order.
 *
 * A frame is a length in 4 bytes and so many bytes.  A request: verb, number, timeout, the
 * numbers of keys and of values, then each with its length.  A reply: status, number, the
 * number of values, the values.  A file store writes the same requests into its file. */
#include "comm/store_impl.h"
#include <string.h>

static void wire_u32(cr_text *out, size_t n)
{
    uint32_t v = (uint32_t)n;

    cr_text_put_n(out, (const char *)&v, sizeof v);
}

static void wire_i64(cr_text *out, int64_t v)
{
    cr_text_put_n(out, (const char *)&v, sizeof v);
}

static void wire_list(cr_text *out, int n, const cr_bytes *b)
{
    for (int i = 0; i < n; i++) {
        wire_u32(out, b[i].len);
        if (b[i].len)
            cr_text_put_n(out, b[i].at, b[i].len);
    }
}

/* Stores the length of the frame that began at `start`. */
static void wire_close(cr_text *out, size_t start)
{
    uint32_t n = (uint32_t)(out->len - start - CR_WIRE_HEAD);

    if (!out->failed)
        memcpy(out->at + start, &n, sizeof n);
}

void cr_wire_request(cr_text *out, const cr_store_request *r)
{
    size_t start = out->len;

    wire_u32(out, 0);
    cr_text_char(out, (char)r->verb);
    wire_i64(out, r->number);
    wire_i64(out, r->timeout_ms);
    wire_u32(out, (size_t)r->keys);
    wire_u32(out, (size_t)r->values);
    wire_list(out, r->keys, r->key);
    wire_list(out, r->values, r->value);
    wire_close(out, start);
}

void cr_wire_reply(cr_text *out, cr_status st, int64_t number, int values,
                   const cr_bytes *value)
{
    size_t start = out->len;

    wire_u32(out, 0);
    cr_text_char(out, (char)st);
    wire_i64(out, number);
    wire_u32(out, (size_t)values);
    wire_list(out, values, value);
    wire_close(out, start);
}

void cr_wire_failure(cr_text *out, cr_status st)
{
    cr_bytes message = cr_bytes_of(cr_error_message());

    cr_wire_reply(out, st, 0, 1, &message);
}

/* The bytes that are left to read. */
typedef struct {
    const char *at;
    size_t len;
    bool bad;
} reader;

static const char *wire_take(reader *r, size_t n)
{
    const char *at = r->at;

    if (n > r->len) {
        r->bad = true;
        return NULL;
    }
    r->at += n;
    r->len -= n;
    return at;
}

static uint32_t wire_take_u32(reader *r)
{
    const char *at = wire_take(r, 4);

    return at ? cr_wire_u32(at) : 0;
}

static int64_t wire_take_i64(reader *r)
{
    const char *at = wire_take(r, 8);
    int64_t v = 0;

    if (at)
        memcpy(&v, at, sizeof v);
    return v;
}

/* The number of items, each of at least 4 bytes. */
static size_t wire_take_count(reader *r, size_t before)
{
    size_t n = wire_take_u32(r);

    if ((before + n) * 4 > r->len)
        r->bad = true;
    return r->bad ? 0 : n;
}

static void wire_take_list(reader *r, cr_wire_room *room, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = wire_take_u32(r);
        const char *at = wire_take(r, len);

        cr_vec_put(room, ((cr_bytes){at, at ? len : 0}));
    }
}

static cr_status wire_bad(void)
{
    return cr_fail(CR_VALUE, "a store got bytes that are no message");
}

cr_status cr_wire_read_request(cr_store_request *r, cr_wire_room *room, const char *at,
                               size_t len)
{
    reader from = {at, len, false};
    const char *verb = wire_take(&from, 1);

    r->verb = verb ? (cr_store_verb)(unsigned char)*verb : CR_STORE_VERBS;
    r->number = wire_take_i64(&from);
    r->timeout_ms = wire_take_i64(&from);
    r->keys = (int)wire_take_u32(&from);
    from.bad |= (size_t)r->keys > from.len;
    r->values = (int)wire_take_count(&from, (size_t)r->keys);
    if (from.bad || r->verb >= CR_STORE_VERBS)
        return wire_bad();
    room->len = 0;
    CR_TRY(cr_vec_reserve(room, (size_t)r->keys + (size_t)r->values + 1));
    wire_take_list(&from, room, (size_t)r->keys + (size_t)r->values);
    r->key = room->at;
    r->value = room->at + r->keys;
    return from.bad ? wire_bad() : CR_OK;
}

cr_status cr_wire_read_reply(cr_store_reply *out)
{
    reader from = {out->raw.at + CR_WIRE_HEAD, out->raw.len - CR_WIRE_HEAD, false};
    const char *status = wire_take(&from, 1);

    out->number = wire_take_i64(&from);
    size_t n = wire_take_count(&from, 0);
    if (from.bad)
        return wire_bad();
    CR_TRY(cr_vec_reserve(&out->value, n + 1));
    wire_take_list(&from, (cr_wire_room *)&out->value, n);
    if (from.bad)
        return wire_bad();
    if (*status)
        return cr_fail((cr_status)*status, "%.*s", n ? (int)out->value.at[0].len : 0,
                       n ? out->value.at[0].at : "");
    return CR_OK;
}
