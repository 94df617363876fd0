/* Reading JSON: one pass, by recursive descent. */
#include "io/json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 64 };

typedef struct {
    cr_arena *arena;
    const char *text, *at, *end;
    int depth;
} json_reader;

static cr_status wrong(const json_reader *r, const char *what)
{
    return cr_fail(CR_VALUE, "%s at character %zu of the JSON text", what,
                   (size_t)(r->at - r->text));
}

static void skip_space(json_reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool take(json_reader *r, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n))
        return false;
    r->at += n;
    return true;
}

static cr_status make(json_reader *r, cr_json_kind kind, cr_json **out)
{
    *out = cr_arena_get(r->arena, sizeof **out);
    CR_NEED(*out);
    **out = (cr_json){.kind = kind};
    return CR_OK;
}

/* --- texts --- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Four hexadecimal digits; -1: there are others. */
static int32_t code_unit(json_reader *r)
{
    int32_t code = 0;

    for (int k = 0; k < 4; k++) {
        int digit = r->at < r->end ? hex(*r->at) : -1;
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
        r->at++;
    }
    return code;
}

static char *put_utf8(char *to, int32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *to++ = (char)(lead[more] | c >> 6 * more);
    while (more--)
        *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return to;
}

/* What follows a backslash. */
static cr_status escape(json_reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *found = c ? strchr(from, c) : NULL;

    if (found) {
        *(*to)++ = meant[found - from];
        return CR_OK;
    }
    int32_t code = c == 'u' ? code_unit(r) : -1;
    if (code >= 0xd800 && code < 0xdc00 && take(r, "\\u")) { /* a pair */
        int32_t low = code_unit(r);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + low - 0xdc00
                                             : -1;
    }
    if (code < 0 || (code >= 0xd800 && code < 0xe000))
        return wrong(r, "an unknown escape");
    *to = put_utf8(*to, code);
    return CR_OK;
}

/* A text behind its first quote.  It is at most as long as its spelling. */
static cr_status read_text(json_reader *r, const char **out, size_t *count)
{
    const char *end = r->at;

    while (end < r->end && *end != '"')
        end += *end == '\\' ? 2 : 1;
    if (end >= r->end)
        return wrong(r, "a text without an end");
    char *bytes = cr_arena_get(r->arena, (size_t)(end - r->at) + 1), *to = bytes;
    CR_NEED(bytes);
    while (r->at < end) {
        char c = *r->at;
        if ((unsigned char)c < 0x20)
            return wrong(r, "a control character in a text");
        r->at++;
        if (c == '\\')
            CR_TRY(escape(r, &to));
        else
            *to++ = c;
    }
    r->at = end + 1;
    *to = 0;
    *out = bytes;
    *count = (size_t)(to - bytes);
    return CR_OK;
}

/* --- numbers --- */

static size_t digits(const char *at, const char *end)
{
    size_t n = 0;

    while (at + n < end && at[n] >= '0' && at[n] <= '9')
        n++;
    return n;
}

/* The end of a number; NULL: there is none.  whole: it has no fraction and no exponent. */
static const char *number_end(const json_reader *r, bool *whole)
{
    const char *at = r->at + (*r->at == '-'), *start = at;
    size_t n = digits(at, r->end);

    *whole = true;
    if (!n || (n > 1 && *start == '0'))
        return NULL;
    at += n;
    if (at < r->end && *at == '.') {
        *whole = false;
        if (!(n = digits(at + 1, r->end)))
            return NULL;
        at += 1 + n;
    }
    if (at < r->end && (*at == 'e' || *at == 'E')) {
        *whole = false;
        at++;
        at += at < r->end && (*at == '+' || *at == '-');
        if (!(n = digits(at, r->end)))
            return NULL;
        at += n;
    }
    return at;
}

static cr_status read_number(json_reader *r, cr_json **out)
{
    bool whole, negative = *r->at == '-';
    const char *end;
    char spelled[64];

    CR_TRY(make(r, CR_JSON_FLOAT, out));
    if (take(r, "NaN")) {
        (*out)->d = NAN;
        return CR_OK;
    }
    if (take(r, "Infinity") || take(r, "-Infinity")) {
        (*out)->d = negative ? -INFINITY : INFINITY;
        return CR_OK;
    }
    end = number_end(r, &whole);
    if (!end || (size_t)(end - r->at) >= sizeof spelled)
        return wrong(r, "an unknown value");
    memcpy(spelled, r->at, (size_t)(end - r->at));
    spelled[end - r->at] = 0;
    (*out)->d = strtod(spelled, NULL);
    if (whole && fabs((*out)->d) < 9.3e18) {
        (*out)->kind = CR_JSON_INT;
        (*out)->i = strtoll(spelled, NULL, 10);
    }
    r->at = end;
    return CR_OK;
}

/* --- values --- */

static cr_status read_value(json_reader *r, cr_json **out);

/* The items of a list or an object, behind the bracket. */
static cr_status read_items(json_reader *r, cr_json *of, char close)
{
    cr_json **last = &of->item;
    size_t unused;

    if (++r->depth > MOST_DEPTH)
        return wrong(r, "values are nested too deep");
    skip_space(r);
    while (r->at < r->end && (*r->at != close || of->count)) {
        const char *key = NULL;
        if (close == '}') {
            if (!take(r, "\""))
                return wrong(r, "a key is missing");
            CR_TRY(read_text(r, &key, &unused));
            skip_space(r);
            if (!take(r, ":"))
                return wrong(r, "a colon is missing");
        }
        CR_TRY(read_value(r, last));
        (*last)->key = key;
        last = &(*last)->next;
        of->count++;
        skip_space(r);
        if (!take(r, ","))
            break;
        skip_space(r);
    }
    if (r->at >= r->end || *r->at++ != close)
        return wrong(r, "a bracket is missing");
    r->depth--;
    return CR_OK;
}

static cr_status read_value(json_reader *r, cr_json **out)
{
    skip_space(r);
    if (r->at >= r->end)
        return wrong(r, "a value is missing");
    if (take(r, "{")) {
        CR_TRY(make(r, CR_JSON_OBJECT, out));
        return read_items(r, *out, '}');
    }
    if (take(r, "[")) {
        CR_TRY(make(r, CR_JSON_LIST, out));
        return read_items(r, *out, ']');
    }
    if (take(r, "\"")) {
        CR_TRY(make(r, CR_JSON_TEXT, out));
        return read_text(r, &(*out)->text, &(*out)->count);
    }
    if (take(r, "null"))
        return make(r, CR_JSON_NULL, out);
    if (take(r, "true"))
        return make(r, CR_JSON_TRUE, out);
    if (take(r, "false"))
        return make(r, CR_JSON_FALSE, out);
    return read_number(r, out);
}

cr_status cr_json_parse(const cr_json **out, cr_arena *arena, const char *text, size_t len)
{
    json_reader r = {arena, text, text, text + len, 0};
    cr_json *v = NULL;

    CR_TRY(read_value(&r, &v));
    skip_space(&r);
    if (r.at != r.end)
        return wrong(&r, "characters behind the value");
    *out = v;
    return CR_OK;
}

const cr_json *cr_json_get(const cr_json *v, const char *key)
{
    if (v && v->kind == CR_JSON_OBJECT)
        for (const cr_json *item = v->item; item; item = item->next)
            if (!strcmp(item->key, key))
                return item;
    return NULL;
}

const char *cr_json_text(const cr_json *v)
{
    return v && v->kind == CR_JSON_TEXT ? v->text : NULL;
}
