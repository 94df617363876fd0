/* Tokens: names (nms, torchvision::nms), numbers, "strings", signs of one or two characters.  A
 * # starts a comment. */
#include "ops/lex.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cr_status lex_error(const lexer *x, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return cr_fail(CR_VALUE, "%s:%d: %s", x->file, x->line, text);
}

/* The table is ASCII: these are inlined, and depend on no locale. */
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_'; }

static void skip_space(lexer *x)
{
    while (x->at < x->end) {
        if (*x->at == '#')
            while (x->at < x->end && *x->at != '\n')
                x->at++;
        else if (*x->at == '\n')
            x->line++, x->at++;
        else if (*x->at == ' ' || *x->at == '\t' || *x->at == '\r')
            x->at++;
        else
            return;
    }
}

bool lex_before(const lexer *x, const char *text)
{
    lexer ahead = *x;
    size_t n = strlen(text);

    if (x->at < x->end && !strchr(" #\n\t\r", *x->at) && *x->at != *text)
        return false;
    skip_space(&ahead);
    return (size_t)(ahead.end - ahead.at) >= n && !memcmp(ahead.at, text, n);
}

static cr_status lex_string(lexer *x)
{
    char quote = *x->at++;
    const char *from = x->at;
    size_t n = 0;

    while (x->at < x->end && *x->at != quote)
        x->at += *x->at == '\\' ? 2 : 1;
    if (x->at >= x->end)
        return lex_error(x, "a string has no end");
    char *copy = cr_arena_get(x->arena, (size_t)(x->at - from) + 1);
    CR_NEED(copy);
    for (const char *p = from; p < x->at; p++) {
        if (*p == '\\' && p + 1 < x->at) {
            p++;
            copy[n++] = *p == 'n' ? '\n' : *p;
        } else {
            copy[n++] = *p;
        }
    }
    x->at++;
    x->kind = TOKEN_STRING;
    x->text = copy;
    x->len = n;
    return CR_OK;
}

static void lex_number(lexer *x)
{
    const char *from = x->at;
    bool real = false;
    char digits[64];

    while (x->at < x->end && (is_digit(*x->at) || is_letter(*x->at) || *x->at == '.' ||
                              ((*x->at == '-' || *x->at == '+') && (x->at[-1] | 32) == 'e'))) {
        real |= *x->at == '.' || (*x->at | 32) == 'e';
        x->at++;
    }
    x->text = from;
    x->len = (size_t)(x->at - from);
    snprintf(digits, sizeof digits, "%.*s", (int)x->len, from);
    x->kind = real ? TOKEN_FLOAT : TOKEN_INT;
    x->number = strtod(digits, NULL);
    x->integer = real ? 0 : strtoll(digits, NULL, 10);
}

static void lex_sign(lexer *x)
{
    char first = *x->at, second = x->end - x->at >= 2 ? x->at[1] : ' ';
    bool pair =
        (second == '=' &&
         (first == '=' || first == '!' || first == '<' || first == '>' || first == '+')) ||
        (second == first && (first == '/' || first == '*')) || (first == '-' && second == '>');

    x->kind = TOKEN_SIGN;
    x->text = x->at;
    x->len = pair ? 2 : 1;
    x->at += x->len;
}

static bool lex_starts_word(const char *at, const char *end)
{
    return at < end && is_letter(*at);
}

/* A name, or a name of a namespace: nms, torchvision::nms. */
static void lex_word(lexer *x)
{
    x->text = x->at;
    for (;;) {
        while (x->at < x->end && (is_letter(*x->at) || is_digit(*x->at)))
            x->at++;
        if (x->end - x->at < 3 || memcmp(x->at, "::", 2) || !lex_starts_word(x->at + 2, x->end))
            break;
        x->at += 2;
    }
    x->len = (size_t)(x->at - x->text);
    x->kind = TOKEN_NAME;
}

cr_status lex_next(lexer *x)
{
    int line = x->line;

    skip_space(x);
    x->kind = TOKEN_END;
    x->len = 0;
    if (x->at == x->end) {
        x->line = line; /* an error at the end is one of the last line, not of the next */
        return CR_OK;
    }
    char c = *x->at;
    if (is_letter(c)) {
        lex_word(x);
        return CR_OK;
    }
    if (is_digit(c) || (c == '.' && x->at + 1 < x->end && is_digit(x->at[1]))) {
        lex_number(x);
        return CR_OK;
    }
    if (c == '"' || c == '\'')
        return lex_string(x);
    lex_sign(x);
    return CR_OK;
}

cr_status lex_start(lexer *x, const char *file, int line, const char *text, size_t len,
                    cr_arena *arena)
{
    *x = (lexer){.file = file, .line = line, .at = text, .end = text + len, .arena = arena};
    return lex_next(x);
}

cr_status lex_take(lexer *x, const char *sign, bool *took)
{
    *took = lex_is(x, sign);
    return *took ? lex_next(x) : CR_OK;
}

cr_status lex_expect(lexer *x, const char *sign)
{
    if (!lex_is(x, sign))
        return lex_error(x, "expected '%s', got '%.*s'", sign, (int)x->len,
                         x->len ? x->text : "");
    return lex_next(x);
}

cr_status lex_keep(lexer *x, const char *text, size_t len, const char **out)
{
    char *kept = x->names ? cr_map_get(x->names, text, len) : NULL;

    if (!kept) {
        kept = cr_arena_text(x->arena, text, len);
        CR_NEED(kept);
        if (x->names)
            CR_TRY(cr_map_set(x->names, text, len, kept));
    }
    *out = kept;
    return CR_OK;
}

cr_status lex_name(lexer *x, const char **out)
{
    if (x->kind != TOKEN_NAME)
        return lex_error(x, "expected a name, got '%.*s'", (int)x->len, x->len ? x->text : "");
    CR_TRY(lex_keep(x, x->text, x->len, out));
    return lex_next(x);
}
