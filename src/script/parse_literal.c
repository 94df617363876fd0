/* Strings: prefixes, adjacent literals, the fields of f-strings. */
#include "script/parse.h"
#include <string.h>

typedef struct {
    bool raw, bytes, format;
    uint32_t start, end; /* of the body */
} parse_literal;

static parse_literal parse_literal_of(const parser *p, const cr_stoken *t)
{
    const char *s = parse_text(p, t);
    parse_literal l = {0};
    uint32_t n = 0, width;

    for (; s[n] != '"' && s[n] != '\''; n++) {
        l.raw |= (s[n] | 32) == 'r';
        l.bytes |= (s[n] | 32) == 'b';
        l.format |= (s[n] | 32) == 'f';
    }
    width = parse_length(t) - n >= 6 && s[n + 1] == s[n] && s[n + 2] == s[n] ? 3 : 1;
    l.start = t->start + n + width;
    l.end = t->end - width;
    return l;
}

/* Appends decoded text to the list's last string, or as a new one. */
static void parse_add_string(parser *p, parse_list *parts, cr_sast_kind kind, uint32_t start,
                             const char *text, size_t len)
{
    cr_sast *last = parts->len ? parts->at[parts->len - 1] : NULL;

    if (last && last->kind == kind) {
        char *both = cr_session_get(p->session, last->len + len + 1);
        memcpy(both, last->text, last->len);
        memcpy(both + last->len, text, len);
        last->text = both;
        last->len += len;
        return;
    }
    parse_add(p, parts, parse_with_text(p, parse_node(p, kind, start, NULL), text, len));
}

/* The end of a field: the closing brace of the one that is open at `at`. */
static uint32_t parse_field_end(const parser *p, uint32_t at, uint32_t end)
{
    const char *s = p->source->text;
    int depth = 1;

    for (; at < end; at++) {
        if (s[at] == '"' || s[at] == '\'') {
            char quote = s[at++];
            while (at < end && s[at] != quote)
                at += s[at] == '\\' ? 2 : 1;
            continue;
        }
        depth += (s[at] == '{') - (s[at] == '}');
        if (!depth)
            return at;
    }
    return end;
}

static void parse_field(parser *p, parse_list *parts, uint32_t start, uint32_t end)
{
    uint32_t stop;
    cr_sast *value = parse_part(p, start, end, &stop);
    cr_sast *field = PARSE_NODE(p, FIELD, start, value);

    field->range.end = end;
    parse_with_text(p, field, p->source->text + stop, end > stop ? end - stop : 0);
    parse_add(p, parts, field);
}

static void parse_format(parser *p, parse_list *parts, parse_literal l)
{
    const char *s = p->source->text;
    cr_srange range = {p->source, l.start, l.end};
    uint32_t from = l.start, at = l.start;
    size_t n;

    while (at < l.end) {
        bool twice = at + 1 < l.end && s[at + 1] == s[at];
        if (s[at] != '{' && s[at] != '}') {
            at += s[at] == '\\' && !l.raw ? 2 : 1;
            continue;
        }
        char *text =
            cr_script_decode(p->session, range, s + from, at - from + twice, l.raw, &n);
        if (n)
            parse_add_string(p, parts, CR_SAST_STRING, l.start, text, n);
        if (s[at] == '{' && !twice) {
            uint32_t end = parse_field_end(p, at + 1, l.end);
            parse_field(p, parts, at + 1, end);
            at = end;
        }
        at += twice ? 2 : 1;
        from = at;
    }
    if (from < l.end) {
        char *text = cr_script_decode(p->session, range, s + from, l.end - from, l.raw, &n);
        parse_add_string(p, parts, CR_SAST_STRING, l.start, text, n);
    }
}

/* torch's marks of a string of Python have the room of its characters and one quote. */
static cr_sast *parse_string_end(parser *p, cr_sast *a)
{
    uint32_t end = parse_last_end(p), short_end = a->range.start + (uint32_t)a->len + 1;

    a->text_end = a->range.end = end;
    if (p->source->python && short_end < end)
        a->range.end = short_end;
    return a;
}

/* Adjacent literals are one. */
cr_sast *parse_strings(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list parts = {0};
    bool format = false;

    while (parse_token(p)->kind == STOKEN_STRING) {
        const cr_stoken *t = parse_token(p);
        parse_literal l = parse_literal_of(p, t);
        size_t n;
        p->at++;
        format |= l.format;
        if (l.format) {
            parse_format(p, &parts, l);
            continue;
        }
        char *text = cr_script_decode(p->session, (cr_srange){p->source, t->start, t->end},
                                      p->source->text + l.start, l.end - l.start, l.raw, &n);
        parse_add_string(p, &parts, l.bytes ? CR_SAST_BYTES : CR_SAST_STRING, start, text, n);
    }
    if (format || parts.len != 1)
        return parse_node(p, CR_SAST_FSTRING, start, &parts);
    return parse_string_end(p, parts.at[0]);
}
