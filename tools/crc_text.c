/* crc text - golden tests of passes.
 *
 * A file contains cases separated by lines of "---":
 *
 *     # what the case shows
 *     a[i<8] = x[i] * 2
 *     y[i<8] = a[i] + 1
 *     == fuse
 *     y[i<8] = x[i] * 2 + 1
 *
 * "== passes" names the passes.  The expected text follows.  When a pass fails, the expected
 * text is "error: " and the message.  A program may have several such parts. */
#include "crc.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *path;
    cr_text out;            /* the corrected file */
    int parts, wrong, line; /* line: of the current part */
} checker;

/* The end of the line at `p`, after its newline. */
static const char *next_line(const char *p)
{
    const char *end = strchr(p, '\n');

    return end ? end + 1 : p + strlen(p);
}

static bool starts(const char *p, const char *with) { return !strncmp(p, with, strlen(with)); }

/* The end of the lines before the next "==" or "---". */
static const char *block_end(const char *p)
{
    while (*p && !starts(p, "== ") && !starts(p, "---"))
        p = next_line(p);
    return p;
}

static int count_lines(const char *from, const char *to)
{
    int n = 0;

    for (; from < to; from++)
        n += *from == '\n';
    return n;
}

static void part(checker *c, const char *program, const char *passes, const char *expected,
                 size_t len)
{
    cr_text got = {0};

    if (crc_pass(&got, passes, program)) {
        got.len = 0;
        cr_text_printf(&got, "error: %s\n", cr_error_message());
    }
    c->parts++;
    if (got.len != len || memcmp(cr_text_str(&got), expected, len)) {
        c->wrong++;
        printf("%s:%d: == %s gives\n%s-- not\n%.*s", c->path, c->line, passes,
               cr_text_str(&got), (int)len, expected);
    }
    cr_text_put(&c->out, cr_text_str(&got));
    cr_text_drop(&got);
}

static char *copied(const char *from, size_t n) { return cr_strndup(from, n); }

/* Checks one program and its parts.  Advances *at. */
static void one_case(checker *c, const char **at)
{
    const char *end = block_end(*at);
    char *program = copied(*at, (size_t)(end - *at));

    cr_text_put_n(&c->out, *at, (size_t)(end - *at));
    c->line += count_lines(*at, end);
    while (program && starts(end, "== ")) {
        const char *body = next_line(end), *stop = block_end(body);
        char *passes = copied(end + 3, strcspn(end + 3, "\n"));
        cr_text_put_n(&c->out, end, (size_t)(body - end));
        if (passes)
            part(c, program, passes, body, (size_t)(stop - body));
        c->line += count_lines(end, stop);
        cr_free(passes);
        end = stop;
    }
    cr_free(program);
    if (starts(end, "---")) {
        cr_text_put_n(&c->out, end, (size_t)(next_line(end) - end));
        c->line++;
        end = next_line(end);
    }
    *at = end;
}

static int check_file(const char *path, bool write, checker *total)
{
    checker c = {.path = path, .line = 1};
    char *text;
    const char *at;
    size_t len;
    cr_status st;

    if (cr_read_file(&text, &len, path))
        return crc_failed();
    for (at = text; *at;)
        one_case(&c, &at);
    st = cr_text_status(&c.out);
    if (!st && write && c.wrong)
        st = cr_write_file(path, cr_text_str(&c.out), c.out.len);
    total->parts += c.parts;
    total->wrong += c.wrong;
    cr_text_drop(&c.out);
    cr_free(text);
    return st ? crc_failed() : 0;
}

int crc_text(int argc, char **argv)
{
    bool write = argc > 1 && !strcmp(argv[1], "-w");
    checker total = {.parts = 0};

    for (int i = write ? 2 : 1; i < argc; i++)
        if (check_file(argv[i], write, &total))
            return 1;
    printf("crc text: %d of %d as expected%s\n", total.parts - total.wrong, total.parts,
           write && total.wrong ? "; rewritten" : "");
    return total.wrong && !write;
}
