/* Reading safetensors: a strict JSON parser for the header, then checks of all entries, then
 * tensors over the bytes. */
#include "io/safetensors.h"
#include "base/map.h"
#include "io/safetensors_impl.h"
#include "io/source.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HEADER = 100000000 };

typedef struct {
    const char *key, *value;
} pair;

struct cr_safetensors {
    cr_source *source;
    const char *data;
    size_t data_len;
    cr_arena arena;
    cr_map names; /* name to entry index + 1, before sorting */
    CR_VEC(cr_safetensors_entry) entries;
    CR_VEC(pair) metadata;
};

static cr_status safetensors_refuse(const char *why)
{
    return cr_fail(CR_VALUE, "Error while deserializing header: %s", why);
}

/* --- the source --- */
static void release_source(void *source) { cr_source_drop(source); }

static cr_status map_file(cr_source **out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return cr_fail(CR_IO, "[Errno %d] %s: '%s'", errno, strerror(errno), path);
    cr_status st = cr_source_map(out, fd);
    close(fd);
    return st;
}

/* --- JSON --- */
typedef struct {
    const char *at, *end, *start;
    cr_arena *arena;
} parser;

static cr_status bad(const parser *p, const char *what)
{
    return cr_fail(CR_VALUE, "Error while deserializing header: %s at byte %zu", what,
                   (size_t)(p->at - p->start));
}

static void parse_skip_space(parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
        p->at++;
}

static bool accept(parser *p, char c)
{
    parse_skip_space(p);
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static cr_status parse_expect(parser *p, char c)
{
    static const char *const what[128] = {
        ['{'] = "'{' expected",     ['}'] = "'}' expected", ['['] = "'[' expected",
        [']'] = "']' expected",     [':'] = "':' expected", [','] = "',' expected",
        ['"'] = "a string expected"};

    return accept(p, c) ? CR_OK : bad(p, what[(unsigned char)c]);
}

static cr_status hex4(parser *p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        if (p->at == p->end)
            return bad(p, "an escape is cut short");
        char c = *p->at;
        int d = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87
                                                     : -1;
        if (d < 0)
            return bad(p, "hexadecimal digits expected");
        *out = *out * 16 + (uint32_t)d;
        p->at++;
    }
    return CR_OK;
}

static void put_utf8(char **out, uint32_t c)
{
    char *o = *out;

    if (c < 0x80) {
        *o++ = (char)c;
    } else if (c < 0x800) {
        *o++ = (char)(0xC0 | c >> 6);
        *o++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *o++ = (char)(0xE0 | c >> 12);
        *o++ = (char)(0x80 | (c >> 6 & 63));
        *o++ = (char)(0x80 | (c & 63));
    } else {
        *o++ = (char)(0xF0 | c >> 18);
        *o++ = (char)(0x80 | (c >> 12 & 63));
        *o++ = (char)(0x80 | (c >> 6 & 63));
        *o++ = (char)(0x80 | (c & 63));
    }
    *out = o;
}

static cr_status unicode_escape(parser *p, char **out)
{
    uint32_t c, low;

    CR_TRY(hex4(p, &c));
    if (c >= 0xDC00 && c < 0xE000)
        return bad(p, "a lone surrogate");
    if (c >= 0xD800 && c < 0xDC00) {
        if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u')
            return bad(p, "a lone surrogate");
        p->at += 2;
        CR_TRY(hex4(p, &low));
        if (low < 0xDC00 || low >= 0xE000)
            return bad(p, "a lone surrogate");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
    }
    if (!c)
        return bad(p, "a NUL character in a string");
    put_utf8(out, c);
    return CR_OK;
}

static cr_status escape(parser *p, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

    if (p->at == p->end)
        return bad(p, "an escape is cut short");
    char c = *p->at++;
    if (c == 'u')
        return unicode_escape(p, out);
    const char *i = c ? strchr(from, c) : NULL;
    if (!i)
        return bad(p, "an unknown escape");
    *(*out)++ = to[i - from];
    return CR_OK;
}

/* Bytes of the UTF-8 sequence at `s`; 0 when it is malformed. */
static int utf8_length(const unsigned char *s, size_t left)
{
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
            : (s[0] & 0xF0) == 0xE0       ? 3
            : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                          : 0;

    if (!n || (size_t)n > left)
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return n;
}

static cr_status character(parser *p, char **out)
{
    const unsigned char *s = (const unsigned char *)p->at;

    if (*s < 0x20)
        return bad(p, "a control character in a string");
    if (*s == '\\') {
        p->at++;
        return escape(p, out);
    }
    int n = utf8_length(s, (size_t)(p->end - p->at));
    if (!n)
        return bad(p, "invalid UTF-8");
    memcpy(*out, s, (size_t)n);
    *out += n;
    p->at += n;
    return CR_OK;
}

static cr_status parse_string(parser *p, const char **out)
{
    CR_TRY(parse_expect(p, '"'));
    const char *close = p->at;
    while (close < p->end && *close != '"')
        close += *close == '\\' ? 2 : 1;
    if (close >= p->end)
        return bad(p, "a string is not closed");
    /* Unescaping shortens the text: six bytes of an escape become at most three. */
    char *text = cr_arena_get(p->arena, (size_t)(close - p->at) + 1), *o = text;
    CR_NEED(text);
    while (p->at < p->end && *p->at != '"')
        CR_TRY(character(p, &o));
    *o = 0;
    *out = text;
    return parse_expect(p, '"');
}

static cr_status parse_json_integer(parser *p, uint64_t *out)
{
    parse_skip_space(p);
    const char *first = p->at;
    *out = 0;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        uint64_t d = (uint64_t)(*p->at - '0');
        if (CR_MUL_OVERFLOW(*out, (uint64_t)10, out) || CR_ADD_OVERFLOW(*out, d, out))
            return bad(p, "a number is too large");
        p->at++;
    }
    if (p->at == first)
        return bad(p, "a non-negative integer expected");
    if (*first == '0' && p->at - first > 1)
        return bad(p, "a number begins with zero");
    return CR_OK;
}

/* --- entries --- */
static const char *const dtype_names[CR_DTYPE_COUNT] = {[CR_BOOL] = "BOOL",
                                                        [CR_U8] = "U8",
                                                        [CR_I8] = "I8",
                                                        [CR_I16] = "I16",
                                                        [CR_I32] = "I32",
                                                        [CR_I64] = "I64",
                                                        [CR_F16] = "F16",
                                                        [CR_BF16] = "BF16",
                                                        [CR_F32] = "F32",
                                                        [CR_F64] = "F64",
                                                        [CR_C64] = "C64",
                                                        [CR_U16] = "U16",
                                                        [CR_U32] = "U32",
                                                        [CR_U64] = "U64",
                                                        [CR_E4M3FN] = "F8_E4M3",
                                                        [CR_E5M2] = "F8_E5M2",
                                                        [CR_E8M0FNU] = "F8_E8M0",
                                                        [CR_E4M3FNUZ] = "F8_E4M3FNUZ",
                                                        [CR_E5M2FNUZ] = "F8_E5M2FNUZ"};

const char *cr_safetensors_dtype(cr_dtype t) { return dtype_names[t]; }

static cr_status parse_dtype(parser *p, cr_safetensors_entry *e)
{
    const char *name;

    CR_TRY(parse_string(p, &name));
    for (int i = 0; i < CR_DTYPE_COUNT; i++)
        if (dtype_names[i] && !strcmp(dtype_names[i], name)) {
            e->dtype = (cr_dtype)i;
            return CR_OK;
        }
    return cr_fail(CR_VALUE,
                   "Error while deserializing header: dtype %.40s of tensor %.200s is not "
                   "supported",
                   name, e->name);
}

static cr_status shape(parser *p, cr_safetensors_entry *e)
{
    int64_t size[CR_MAX_DIMS];
    uint64_t n;

    CR_TRY(parse_expect(p, '['));
    while (!accept(p, ']')) {
        if (e->ndim)
            CR_TRY(parse_expect(p, ','));
        if (e->ndim == CR_MAX_DIMS)
            return bad(p, "too many dimensions");
        CR_TRY(parse_json_integer(p, &n));
        if (n > INT64_MAX)
            return bad(p, "a number is too large");
        size[e->ndim++] = (int64_t)n;
    }
    int64_t *own = cr_arena_get(p->arena, (size_t)e->ndim * sizeof *own + 1);
    CR_NEED(own);
    memcpy(own, size, (size_t)e->ndim * sizeof *own);
    e->size = own;
    return CR_OK;
}

static cr_status offsets(parser *p, cr_safetensors_entry *e)
{
    CR_TRY(parse_expect(p, '['));
    CR_TRY(parse_json_integer(p, &e->begin));
    CR_TRY(parse_expect(p, ','));
    CR_TRY(parse_json_integer(p, &e->end));
    return parse_expect(p, ']');
}

static cr_status entry(parser *p, cr_safetensors_entry *e)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    int seen = 0;

    CR_TRY(parse_expect(p, '{'));
    while (!accept(p, '}')) {
        const char *key;
        if (seen)
            CR_TRY(parse_expect(p, ','));
        CR_TRY(parse_string(p, &key));
        CR_TRY(parse_expect(p, ':'));
        int which = !strcmp(key, "dtype")          ? DTYPE
                    : !strcmp(key, "shape")        ? SHAPE
                    : !strcmp(key, "data_offsets") ? OFFSETS
                                                   : 0;
        if (!which || seen & which)
            return bad(p, which ? "a field is given twice" : "an unknown field");
        seen |= which;
        CR_TRY(which == DTYPE   ? parse_dtype(p, e)
               : which == SHAPE ? shape(p, e)
                                : offsets(p, e));
    }
    return seen == (DTYPE | SHAPE | OFFSETS) ? CR_OK : bad(p, "a field is missing");
}

static cr_status metadata(cr_safetensors *s, parser *p)
{
    CR_TRY(parse_expect(p, '{'));
    while (!accept(p, '}')) {
        pair m;
        if (s->metadata.len)
            CR_TRY(parse_expect(p, ','));
        CR_TRY(parse_string(p, &m.key));
        CR_TRY(parse_expect(p, ':'));
        CR_TRY(parse_string(p, &m.value));
        CR_TRY(cr_vec_reserve(&s->metadata, 1));
        cr_vec_put(&s->metadata, m);
    }
    return CR_OK;
}

static cr_status member(cr_safetensors *s, parser *p, bool *seen_metadata)
{
    cr_safetensors_entry e = {0};

    CR_TRY(parse_string(p, &e.name));
    CR_TRY(parse_expect(p, ':'));
    if (!strcmp(e.name, "__metadata__")) {
        if (*seen_metadata)
            return bad(p, "__metadata__ is given twice");
        *seen_metadata = true;
        return metadata(s, p);
    }
    if (cr_map_get(&s->names, e.name, strlen(e.name)))
        return bad(p, "a tensor is given twice");
    CR_TRY(cr_map_set(&s->names, e.name, strlen(e.name), s));
    CR_TRY(entry(p, &e));
    CR_TRY(cr_vec_reserve(&s->entries, 1));
    cr_vec_put(&s->entries, e);
    return CR_OK;
}

static cr_status header(cr_safetensors *s, parser *p)
{
    bool first = true, seen_metadata = false;

    if (p->at == p->end || *p->at != '{')
        return safetensors_refuse("the header does not begin with '{'");
    p->at++;
    while (!accept(p, '}')) {
        if (!first)
            CR_TRY(parse_expect(p, ','));
        first = false;
        CR_TRY(member(s, p, &seen_metadata));
    }
    parse_skip_space(p);
    return p->at == p->end ? CR_OK : bad(p, "text after the header's end");
}

/* --- the whole --- */
static cr_status check_size(const cr_safetensors_entry *e)
{
    uint64_t bytes = cr_dtype_size(e->dtype);
    bool overflow = false;

    for (int i = 0; i < e->ndim; i++)
        overflow |= CR_MUL_OVERFLOW(bytes, (uint64_t)e->size[i], &bytes);
    if (overflow || e->end < e->begin || e->end - e->begin != bytes)
        return cr_fail(CR_VALUE,
                       "Error while deserializing header: shape, dtype and offsets of "
                       "tensor %.200s do not agree",
                       e->name);
    return CR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const cr_safetensors_entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : strcmp(x->name, y->name);
}

static cr_status check_entries(cr_safetensors *s)
{
    uint64_t at = 0;

    if (s->entries.len)
        qsort(s->entries.at, s->entries.len, sizeof *s->entries.at, by_offset);
    for (size_t i = 0; i < s->entries.len; i++) {
        const cr_safetensors_entry *e = &s->entries.at[i];
        CR_TRY(check_size(e));
        if (e->begin != at)
            return cr_fail(CR_VALUE,
                           "Error while deserializing header: invalid offset for tensor "
                           "%.200s",
                           e->name);
        at = e->end;
    }
    if (at != s->data_len)
        return safetensors_refuse("the tensors do not fill the data exactly");
    return CR_OK;
}

static cr_status safetensors_read_all(cr_safetensors *s)
{
    const char *start = cr_source_bytes(s->source, 0);
    const unsigned char *b = (const unsigned char *)start;
    uint64_t n = 0, len = cr_source_size(s->source);

    if (len < 8)
        return safetensors_refuse("header too small");
    for (int i = 7; i >= 0; i--)
        n = n << 8 | b[i];
    if (n > MOST_HEADER)
        return safetensors_refuse("header too large");
    if (n > len - 8)
        return safetensors_refuse("invalid header length");
    s->data = start + 8 + n;
    s->data_len = (size_t)(len - 8 - n);
    parser p = {.at = start + 8, .end = s->data, .arena = &s->arena};
    p.start = p.at;
    CR_TRY(header(s, &p));
    return check_entries(s);
}

void cr_safetensors_drop(cr_safetensors *s)
{
    if (!s)
        return;
    cr_vec_drop(&s->entries);
    cr_vec_drop(&s->metadata);
    cr_map_drop(&s->names);
    cr_arena_drop(&s->arena);
    cr_source_drop(s->source);
    cr_free(s);
}

/* Opens `from` and takes ownership of it, also on failure. */
static cr_status safetensors_over(cr_safetensors **out, cr_source *from)
{
    cr_safetensors *s = cr_alloc_zero(sizeof *s);

    if (!s) {
        cr_source_drop(from);
        return CR_MEMORY;
    }
    s->source = from;
    cr_status st = safetensors_read_all(s);
    CR_GIVE(st, out, s, cr_safetensors_drop);
}

cr_status cr_safetensors_open(cr_safetensors **out, const char *path)
{
    cr_source *from = NULL;

    if (!path)
        return cr_fail(CR_TYPE, "safe_open(): argument 'filename' must be str, not NoneType");
    CR_TRY(map_file(&from, path));
    return safetensors_over(out, from);
}

cr_status cr_safetensors_parse(cr_safetensors **out, const void *bytes, size_t len)
{
    char *copy = bytes || !len ? cr_alloc(len) : NULL;
    cr_source *from = NULL;

    if (!bytes && len)
        return cr_fail(CR_TYPE, "deserialize(): argument 'bytes' must be bytes, not NoneType");
    CR_NEED(copy);
    if (len)
        memcpy(copy, bytes, len);
    cr_status st = cr_source_memory(&from, copy, len, cr_free, copy);
    if (st) {
        cr_free(copy);
        return st;
    }
    return safetensors_over(out, from);
}

/* --- contents --- */
int cr_safetensors_count(const cr_safetensors *s) { return s ? (int)s->entries.len : 0; }

const cr_safetensors_entry *cr_safetensors_at(const cr_safetensors *s, int i)
{
    return i < 0 || i >= cr_safetensors_count(s) ? NULL : &s->entries.at[i];
}

/* Linear search.  Callers with many lookups build an index from the entries. */
int cr_safetensors_find(const cr_safetensors *s, const char *name)
{
    for (size_t i = 0; s && name && i < s->entries.len; i++)
        if (!strcmp(s->entries.at[i].name, name))
            return (int)i;
    return -1;
}

bool cr_safetensors_metadata(const cr_safetensors *s, int i, const char **key,
                             const char **value)
{
    if (!s || i < 0 || (size_t)i >= s->metadata.len)
        return false;
    *key = s->metadata.at[i].key;
    *value = s->metadata.at[i].value;
    return true;
}

static cr_status safetensors_copied(cr_tensor **out, const cr_safetensors_entry *e,
                                    const char *bytes)
{
    CR_TRY(cr_tensor_new(out, e->dtype, CR_HOST, e->ndim, e->size));
    char *to;
    CR_TRY(cr_reach(&to, *out));
    if (e->end > e->begin)
        memcpy(to, bytes, e->end - e->begin);
    return CR_OK;
}

static cr_status shared(cr_tensor **out, const cr_safetensors *s, const cr_safetensors_entry *e)
{
    int64_t stride[CR_MAX_DIMS];
    cr_storage *block;

    cr_status st = cr_storage_foreign(&block, (char *)s->data + e->begin, e->end - e->begin,
                                      release_source, cr_source_keep(s->source));
    if (st) {
        cr_source_drop(s->source);
        return st;
    }
    cr_row_major_strides(stride, e->ndim, e->size);
    st = cr_tensor_over(out, block, e->dtype, e->ndim, e->size, stride, 0);
    if (st)
        cr_storage_drop(block);
    return st;
}

cr_status cr_safetensors_tensor(cr_tensor **out, const cr_safetensors *s, int i)
{
    const cr_safetensors_entry *e = cr_safetensors_at(s, i);

    if (!e)
        return cr_fail(CR_INDEX, "the file has no tensor number %d", i);
    const char *bytes = s->data + e->begin;
    size_t item = cr_dtype_size(e->dtype), part = e->dtype == CR_C64 ? item / 2 : item;

    if (e->end == e->begin || (uintptr_t)bytes % part)
        return safetensors_copied(out, e, bytes);
    return shared(out, s, e);
}
