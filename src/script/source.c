/* Ranges in sources, and torch's error texts with marks. */
#include "script/ast.h"
#include <string.h>

static size_t line_start(const cr_ssource *s, size_t at)
{
    while (at > 0 && s->text[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(const cr_ssource *s, size_t at)
{
    const char *end = at < s->len ? memchr(s->text + at, '\n', s->len - at) : NULL;

    return end ? (size_t)(end - s->text) : at < s->len ? s->len : at;
}

static int newlines(const cr_ssource *s, uint32_t from, uint32_t to)
{
    int n = 0;

    for (size_t i = from; i < to && i < s->len; i++)
        n += s->text[i] == '\n';
    return n;
}

void cr_srange_place(cr_srange r, cr_splace *last, int *line, int *column)
{
    if (last->source != r.source)
        *last = (cr_splace){r.source, 0, r.source->first_line};
    last->line += r.start >= last->at ? newlines(r.source, last->at, r.start)
                                      : -newlines(r.source, r.start, last->at);
    last->at = r.start;
    *line = last->line;
    *column = (int)(r.start - line_start(r.source, r.start)) + r.source->indent;
}

static void put_line(cr_text *out, const cr_ssource *s, size_t start)
{
    cr_text_pad(out, (size_t)s->indent, ' ');
    cr_text_put_n(out, s->text + start, line_end(s, start) - start);
    cr_text_char(out, '\n');
}

/* The start of the second line before this one. */
static size_t context_start(const cr_ssource *s, size_t line)
{
    for (int i = 0; i < 2 && line > 0; i++)
        line = line_start(s, line - 1);
    return line;
}

/* The last line that the mark is on, under which the ~ are. */
static void put_mark(cr_text *out, const cr_ssource *s, size_t line, cr_srange r)
{
    size_t end = line_end(s, line), from = r.start > line ? r.start : line;
    size_t to = r.end < end ? r.end : end;

    while (from < to && s->text[from] == ' ' && from > r.start)
        from++;
    cr_text_pad(out, (size_t)s->indent + from - line, ' ');
    cr_text_pad(out, to > from ? to - from : 1, '~');
}

void cr_srange_mark(cr_text *out, cr_srange r) { cr_srange_mark_in(out, r, NULL); }

void cr_srange_mark_in(cr_text *out, cr_srange r, const char *function)
{
    const cr_ssource *s = r.source;
    bool marked = r.end != r.start; /* empty ranges have no mark, as in torch */
    size_t first, line, end;
    int number, column;

    if (!s)
        return;
    r.end = r.end > s->len ? (uint32_t)s->len : r.end;
    r.start = r.start > r.end ? r.end : r.start;
    if (s->name) {
        cr_srange_place(r, &(cr_splace){0}, &number, &column);
        cr_text_printf(out, "  File \"%s\", line %d%s%s\n", s->name, number,
                       function ? ", in " : "", function ? function : "");
    }
    first = line_start(s, r.start);
    for (line = context_start(s, first); line < first; line = line_end(s, line) + 1)
        put_line(out, s, line);
    for (line = first;; line = end + 1) {
        end = line_end(s, line);
        put_line(out, s, line);
        if (!marked)
            break;
        put_mark(out, s, line, r);
        if (end + 1 >= r.end || end >= s->len)
            break;
        cr_text_char(out, '\n');
    }
    cr_text_put(out, marked ? " <--- HERE\n" : "");
    for (int i = 0; i < 2 && end < s->len; i++, end = line_end(s, end + 1))
        if (end + 1 < s->len)
            put_line(out, s, end + 1);
}

void cr_scallers_put(cr_text *out, const cr_scaller *innermost)
{
    for (const cr_scaller *c = innermost; c && c->outer; c = c->outer) {
        cr_text_printf(out, "'%s' is being compiled since it was called from '%s'\n", c->name,
                       c->outer->name);
        cr_srange_mark(out, c->outer->at);
    }
}

void cr_srange_bail(cr_session *s, cr_status kind, cr_srange r, const char *fmt, ...)
{
    cr_text text = {0};
    va_list args;
    cr_status st;

    va_start(args, fmt);
    st = cr_fail_va(kind, fmt, args);
    va_end(args);
    cr_text_printf(&text, "\n%s:\n", cr_error_message());
    cr_srange_mark(&text, r);
    cr_scallers_put(&text, s->place);
    cr_bail(s, st, "%s", cr_session_take_text(s, &text));
}
