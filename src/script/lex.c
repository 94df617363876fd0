/* Python's tokens.
 *
 * The whole text becomes a list, whose length is at most that of the text.  An f-string is one
 * token: its end is the first closing quote outside of braces, so that literals inside may have
 * the same quotes, as of Python 3.12. */
#include "script/lex.h"
#include <string.h>

enum { MOST_INDENTS = 100, MOST_NESTING = 100, TAB = 8 };

typedef struct {
    cr_session *session;
    cr_stokens *out;
    const cr_ssource *source;
    const char *text;
    uint32_t at, end;
    int depth; /* of open brackets */
    bool inside;
    int indents;
    uint32_t indent[MOST_INDENTS];
} lexer;

static bool lex_is_letter(char c)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || (unsigned char)c >= 128;
}
static bool lex_is_digit(char c) { return c >= '0' && c <= '9'; }
static bool lex_is_word(char c) { return lex_is_letter(c) || lex_is_digit(c); }

static cr_srange lex_range(const lexer *x, uint32_t start, uint32_t end)
{
    return (cr_srange){x->source, start, end};
}

static char lex_peek(const lexer *x, uint32_t ahead)
{
    return x->at + ahead < x->end ? x->text[x->at + ahead] : '\0';
}

static void lex_put(lexer *x, cr_stoken_kind kind, uint32_t start, uint32_t end)
{
    CR_PUSH(x->session, x->out, ((cr_stoken){(uint8_t)kind, start, end}));
}

/* --- comments, lines, indentation --- */

static void lex_comment(lexer *x)
{
    uint32_t start = ++x->at;

    while (x->at < x->end && x->text[x->at] != '\n')
        x->at++;
    while (start < x->at && x->text[start] == ' ')
        start++;
    if (x->at - start < 5 || strncmp(x->text + start, "type:", 5))
        return;
    for (start += 5; start < x->at && x->text[start] == ' ';)
        start++;
    if (x->at - start < 6 || strncmp(x->text + start, "ignore", 6))
        lex_put(x, STOKEN_TYPE_COMMENT, start, x->at);
}

/* The column of the line's first character, and x->at there. */
static uint32_t lex_column(lexer *x)
{
    uint32_t column = 0;

    for (; x->at < x->end; x->at++) {
        char c = x->text[x->at];
        if (c == ' ')
            column++;
        else if (c == '\t')
            column += TAB - column % TAB;
        else if (c == '\f')
            column = 0;
        else
            break;
    }
    return column;
}

static void lex_set_indent(lexer *x, uint32_t column)
{
    if (column > x->indent[x->indents]) {
        if (x->indents + 1 == MOST_INDENTS)
            cr_srange_bail(x->session, CR_RUNTIME, lex_range(x, x->at, x->at + 1),
                           "too many levels of indentation");
        x->indent[++x->indents] = column;
        lex_put(x, STOKEN_INDENT, x->at, x->at);
    }
    while (column < x->indent[x->indents]) {
        x->indents--;
        lex_put(x, STOKEN_DEDENT, x->at, x->at);
    }
    if (column != x->indent[x->indents])
        cr_srange_bail(x->session, CR_RUNTIME, lex_range(x, x->at, x->at + 1),
                       "invalid indentation");
}

/* At the start of a line: blank lines and comments have no indentation. */
static void lex_line(lexer *x)
{
    for (;;) {
        uint32_t column = lex_column(x);
        char c = lex_peek(x, 0);
        if (x->at >= x->end)
            return;
        if (c == '#')
            lex_comment(x);
        else if (c != '\n' && c != '\r') {
            lex_set_indent(x, column);
            return;
        }
        if (x->at < x->end)
            x->at++;
    }
}

/* --- literals --- */

static bool lex_is_prefix(const char *s, uint32_t n)
{
    static const char known[][3] = {"r", "u", "b", "f", "br", "rb", "fr", "rf"};

    for (size_t i = 0; i < CR_LEN(known); i++)
        if (strlen(known[i]) == n && (s[0] | 32) == known[i][0] &&
            (n == 1 || (s[1] | 32) == known[i][1]))
            return true;
    return n == 0;
}

static CR_NORETURN void lex_unclosed(lexer *x, uint32_t start)
{
    cr_srange_bail(x->session, CR_RUNTIME, lex_range(x, start, start + 1),
                   "unterminated string literal");
}

static void lex_quoted(lexer *x, uint32_t start, bool format, int nesting);

/* In the braces of an f-string, after the opening brace; stops after the closing one. */
static void lex_field(lexer *x, uint32_t start, int nesting)
{
    int depth = 1;

    while (depth) {
        char c = lex_peek(x, 0);
        if (x->at >= x->end || nesting > MOST_NESTING)
            lex_unclosed(x, start);
        if (c == '"' || c == '\'') {
            bool format = x->at > 0 && (x->text[x->at - 1] | 32) == 'f';
            lex_quoted(x, x->at, format, nesting + 1);
            continue;
        }
        depth += (c == '{' || c == '(' || c == '[') - (c == '}' || c == ')' || c == ']');
        x->at++;
    }
}

/* From the opening quote to after the closing one. */
static void lex_quoted(lexer *x, uint32_t start, bool format, int nesting)
{
    char quote = lex_peek(x, 0);
    uint32_t width = lex_peek(x, 1) == quote && lex_peek(x, 2) == quote ? 3 : 1;

    x->at += width;
    for (;;) {
        char c = lex_peek(x, 0);
        if (x->at >= x->end || (c == '\n' && width == 1))
            lex_unclosed(x, start);
        if (c == quote && (width == 1 || (lex_peek(x, 1) == quote && lex_peek(x, 2) == quote)))
            break;
        if (format && c == '{' && lex_peek(x, 1) != '{') {
            x->at++;
            lex_field(x, start, nesting);
            continue;
        }
        x->at += c == '\\' || (format && c == '{') ? 2 : 1;
    }
    x->at += width;
}

static bool lex_string(lexer *x)
{
    uint32_t start = x->at, n = 0;
    bool format = false;

    while (n < 3 && lex_is_letter(lex_peek(x, n))) {
        format |= (lex_peek(x, n) | 32) == 'f';
        n++;
    }
    if ((lex_peek(x, n) != '"' && lex_peek(x, n) != '\'') || !lex_is_prefix(x->text + x->at, n))
        return false;
    x->at += n;
    lex_quoted(x, start, format, 0);
    lex_put(x, STOKEN_STRING, start, x->at);
    return true;
}

/* Digits, letters and points; a sign after an exponent.  The parser reads the number. */
static void lex_number(lexer *x)
{
    uint32_t start = x->at;
    bool hex = lex_peek(x, 0) == '0' && (lex_peek(x, 1) | 32) == 'x';

    while (lex_is_word(lex_peek(x, 0)) || lex_peek(x, 0) == '.') {
        char c = lex_peek(x, 0) | 32, next = lex_peek(x, 1);
        x->at++;
        if (!hex && c == 'e' && (next == '-' || next == '+'))
            x->at++;
    }
    lex_put(x, STOKEN_NUMBER, start, x->at);
}

static void lex_name(lexer *x)
{
    uint32_t start = x->at;

    while (x->at < x->end && lex_is_word(x->text[x->at]))
        x->at++;
    lex_put(x, STOKEN_NAME, start, x->at);
}

/* --- signs --- */

static uint32_t lex_sign_length(const lexer *x)
{
    static const char signs[][4] = {"...", "**=", "//=", ">>=", "<<=", "->", ":=", "**",
                                    "//",  "<<",  ">>",  "<=",  ">=",  "==", "!=", "+=",
                                    "-=",  "*=",  "/=",  "%=",  "&=",  "|=", "^=", "@="};

    for (size_t i = 0; i < CR_LEN(signs); i++) {
        uint32_t n = (uint32_t)strlen(signs[i]);
        if (x->end - x->at >= n && !strncmp(x->text + x->at, signs[i], n))
            return n;
    }
    return strchr("+-*/%@&|^~<>()[]{},:.;=!?", lex_peek(x, 0)) ? 1 : 0;
}

static void lex_sign(lexer *x)
{
    uint32_t n = lex_peek(x, 0) ? lex_sign_length(x) : 0;
    char c = lex_peek(x, 0);

    if (!n)
        cr_srange_bail(x->session, CR_RUNTIME, lex_range(x, x->at, x->at + 1),
                       "unexpected character");
    x->depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    x->depth = x->depth < 0 ? 0 : x->depth;
    lex_put(x, STOKEN_SIGN, x->at, x->at + n);
    x->at += n;
}

static void lex_newline(lexer *x)
{
    if (!x->depth && !x->inside)
        lex_put(x, STOKEN_NEWLINE, x->at, x->at + 1);
    x->at++;
    if (!x->depth && !x->inside)
        lex_line(x);
}

static void lex_one(lexer *x)
{
    char c = lex_peek(x, 0);

    if (c == '\n')
        lex_newline(x);
    else if (c == ' ' || c == '\t' || c == '\r' || c == '\f')
        x->at++;
    else if (c == '\\' && (lex_peek(x, 1) == '\n' || lex_peek(x, 1) == '\r'))
        x->at += lex_peek(x, 1) == '\r' && lex_peek(x, 2) == '\n' ? 3 : 2;
    else if (c == '#')
        lex_comment(x);
    else if (lex_is_digit(c) || (c == '.' && lex_is_digit(lex_peek(x, 1))))
        lex_number(x);
    else if (!lex_string(x)) {
        if (lex_is_letter(c))
            lex_name(x);
        else
            lex_sign(x);
    }
}

static bool lex_at_line_start(const lexer *x)
{
    size_t n = x->out->len;

    while (n && x->out->at[n - 1].kind == STOKEN_TYPE_COMMENT)
        n--;
    return !n || x->out->at[n - 1].kind == STOKEN_NEWLINE;
}

void cr_script_lex(cr_session *s, cr_stokens *out, const cr_ssource *source, uint32_t start,
                   uint32_t end, bool inside)
{
    lexer x = {.session = s,
               .out = out,
               .source = source,
               .text = source->text,
               .at = start,
               .end = end,
               .inside = inside};

    if (!inside)
        lex_line(&x);
    while (x.at < x.end)
        lex_one(&x);
    if (!inside) {
        if (!lex_at_line_start(&x))
            lex_put(&x, STOKEN_NEWLINE, end, end);
        lex_set_indent(&x, 0);
    }
    lex_put(&x, STOKEN_END, end, end);
}

/* --- escapes --- */

static void decode_utf8(cr_text *out, uint32_t c)
{
    if (c < 0x80) {
        cr_text_char(out, (char)c);
    } else if (c < 0x800) {
        cr_text_char(out, (char)(0xc0 | c >> 6));
        cr_text_char(out, (char)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        cr_text_char(out, (char)(0xe0 | c >> 12));
        cr_text_char(out, (char)(0x80 | (c >> 6 & 63)));
        cr_text_char(out, (char)(0x80 | (c & 63)));
    } else {
        cr_text_char(out, (char)(0xf0 | c >> 18));
        cr_text_char(out, (char)(0x80 | (c >> 12 & 63)));
        cr_text_char(out, (char)(0x80 | (c >> 6 & 63)));
        cr_text_char(out, (char)(0x80 | (c & 63)));
    }
}

static int digit_value(char c)
{
    return lex_is_digit(c)                      ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : 99;
}

/* Up to `most` digits in `base`; the number of those read. */
static size_t decode_digits(const char *s, size_t n, size_t most, int base, uint32_t *out)
{
    size_t i = 0;

    for (*out = 0; i < most && i < n && digit_value(s[i]) < base; i++)
        *out = *out * (uint32_t)base + (uint32_t)digit_value(s[i]);
    return i;
}

/* What follows a backslash, s[0, n); the number of characters used. */
static size_t decode_escape(cr_session *s, cr_srange range, cr_text *out, const char *at,
                            size_t n)
{
    static const char letters[] = "abfnrtv\\'\"", codes[] = "\a\b\f\n\r\t\v\\'\"";
    const char *simple = strchr(letters, at[0]);
    size_t want = at[0] == 'x' ? 2 : at[0] == 'u' ? 4 : at[0] == 'U' ? 8 : 0;
    uint32_t c;

    if (at[0] == '\n')
        return 1;
    if (at[0] && simple) {
        cr_text_char(out, codes[simple - letters]);
        return 1;
    }
    if (at[0] >= '0' && at[0] <= '7') {
        size_t used = decode_digits(at, n, 3, 8, &c);
        cr_text_char(out, (char)c); /* a byte: so archives have texts that are not ASCII */
        return used;
    }
    if (!want) {
        cr_text_char(out, '\\');
        return 0;
    }
    if (decode_digits(at + 1, n - 1, want, 16, &c) < want || c > 0x10ffff) {
        cr_text_drop(out);
        cr_srange_bail(s, CR_RUNTIME, range, "truncated \\%c escape", at[0]);
    }
    decode_utf8(out, c);
    return want + 1;
}

char *cr_script_decode(cr_session *s, cr_srange range, const char *text, size_t len, bool raw,
                       size_t *out_len)
{
    cr_text out = {0};

    for (size_t i = 0; i < len;) {
        if (text[i] != '\\' || raw || i + 1 == len)
            cr_text_char(&out, text[i++]);
        else
            i += 1 + decode_escape(s, range, &out, text + i + 1, len - i - 1);
    }
    *out_len = out.len;
    return cr_session_take_text(s, &out);
}
