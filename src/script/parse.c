/* The syntax tree from tokens, by recursive descent.
 *
 * Statements are parsed line by line; expressions by precedence.  The depth of the tree is
 * bounded (MOST_DEPTH), so that walking it needs a bounded C stack. */
#include "script/parse.h"
#include <string.h>

enum { MOST_DEPTH = 400 };

/* --- tokens --- */

const cr_stoken *parse_token(parser *p)
{
    while (p->tokens.at[p->at].kind == STOKEN_TYPE_COMMENT)
        p->at++;
    return &p->tokens.at[p->at];
}

const char *parse_text(const parser *p, const cr_stoken *t)
{
    return p->source->text + t->start;
}

size_t parse_length(const cr_stoken *t) { return t->end - t->start; }

bool parse_is(parser *p, const char *word)
{
    const cr_stoken *t = parse_token(p);
    const char *text = parse_text(p, t);
    size_t n = parse_length(t);

    return (t->kind == STOKEN_NAME || t->kind == STOKEN_SIGN) && *text == *word &&
           n == strlen(word) && !memcmp(text, word, n);
}

/* True when the token after the next one is `word`. */
bool parse_is_second(parser *p, const char *word)
{
    size_t at = p->at;
    bool is;

    parse_token(p);
    if (p->tokens.at[p->at].kind == STOKEN_END)
        return false;
    p->at++;
    is = parse_is(p, word);
    p->at = at;
    return is;
}

bool parse_take(parser *p, const char *word)
{
    bool is = parse_is(p, word);

    p->at += is;
    return is;
}

static cr_srange parse_here(parser *p)
{
    const cr_stoken *t = parse_token(p);

    return (cr_srange){p->source, t->start, t->end};
}

CR_NORETURN void parse_expected(parser *p, const char *what)
{
    const cr_stoken *t = parse_token(p);
    static const char *const kinds[] = {
        [STOKEN_END] = "EOF",       [STOKEN_NEWLINE] = "newline",
        [STOKEN_INDENT] = "indent", [STOKEN_DEDENT] = "dedent",
        [STOKEN_NUMBER] = "number", [STOKEN_STRING] = "string_literal"};
    int n = parse_length(t) > 64 ? 64 : (int)parse_length(t);

    if (t->kind == STOKEN_NAME || t->kind == STOKEN_SIGN)
        cr_srange_bail(p->session, CR_RUNTIME, parse_here(p),
                       "expected %s but found '%.*s' here", what, n, parse_text(p, t));
    cr_srange_bail(p->session, CR_RUNTIME, parse_here(p), "expected %s but found '%s' here",
                   what, kinds[t->kind]);
}

void parse_want(parser *p, const char *word)
{
    if (!parse_take(p, word))
        parse_expected(p, word);
}

bool parse_take_kind(parser *p, cr_stoken_kind kind)
{
    bool is = parse_token(p)->kind == kind;

    p->at += is;
    return is;
}

/* The type comment at this place, or just before it, or NULL. */
const cr_stoken *parse_type_comment(parser *p)
{
    const cr_stoken *t = &p->tokens.at[p->at];

    if (t->kind != STOKEN_TYPE_COMMENT)
        return p->at && t[-1].kind == STOKEN_TYPE_COMMENT ? t - 1 : NULL;
    p->at++;
    return t;
}

/* --- nodes --- */

void parse_add(parser *p, parse_list *list, cr_sast *a) { CR_PUSH(p->session, list, a); }

uint32_t parse_last_end(const parser *p)
{
    size_t at = p->at;

    while (at > 0 && (p->tokens.at[at - 1].kind == STOKEN_NEWLINE ||
                      p->tokens.at[at - 1].kind == STOKEN_DEDENT ||
                      p->tokens.at[at - 1].kind == STOKEN_TYPE_COMMENT))
        at--;
    return at ? p->tokens.at[at - 1].end : 0;
}

static bool is_whole_slice(const cr_sast *a)
{
    return a->kind == CR_SAST_SLICE && !a->at[0] && !a->at[1] && !a->at[2];
}

/* torch's mark of a node of Python ends where that of its last part does; that of a subscript
 * has one character more, and no part of a slice without bounds. */
static void parse_mark_end(cr_sast *a)
{
    bool display = a->kind == CR_SAST_LIST || a->kind == CR_SAST_DICT;
    bool format = a->kind == CR_SAST_FSTRING;
    uint32_t end = display || format ? a->range.start + 1 : 0;

    for (int i = 0; i < a->count; i++) {
        const cr_sast *part = a->at[i];
        if (!part || is_whole_slice(part) || (format && part->kind != CR_SAST_FIELD))
            continue;
        part = format ? part->at[0] : part;
        end = part->range.end > end ? part->range.end : end;
    }
    end += a->kind == CR_SAST_SUBSCRIPT;
    if (end && end < a->range.end)
        a->range.end = end;
}

/* torch's mark of an attribute: as long as the name, from the second character behind the mark
 * of its object on, blanks left out. */
void parse_mark_attribute(cr_sast *a)
{
    const char *text = a->range.source->text;
    uint32_t at = a->at[0]->range.end + 1;

    if (!a->range.source->python)
        return;
    while (at < a->text_end && strchr(" \t\n\r", text[at]))
        at++;
    at += (uint32_t)a->len;
    if (at <= a->text_end)
        a->range.end = at;
}

/* A node from `start` to the last token that was read. */
cr_sast *parse_node(parser *p, cr_sast_kind kind, uint32_t start, const parse_list *list)
{
    cr_sast *a = CR_NEW(p->session, cr_sast);
    uint32_t end = parse_last_end(p);

    a->kind = (uint8_t)kind;
    a->range = (cr_srange){p->source, start, end > start ? end : start};
    a->text_end = a->range.end;
    a->count = list ? (int)list->len : 0;
    a->at = list ? list->at : NULL;
    if (p->source->python)
        parse_mark_end(a);
    for (int i = 0; i < a->count; i++)
        if (a->at[i] && a->at[i]->depth >= a->depth)
            a->depth = (uint16_t)(a->at[i]->depth + 1);
    if (a->depth > MOST_DEPTH)
        cr_srange_bail(p->session, CR_RUNTIME, a->range, "too deeply nested");
    return a;
}

cr_sast *parse_node_of(parser *p, cr_sast_kind kind, uint32_t start, int count, cr_sast **child)
{
    parse_list list = {0};

    for (int i = 0; i < count; i++)
        parse_add(p, &list, child[i]);
    return parse_node(p, kind, start, &list);
}

cr_sast *parse_with_text(parser *p, cr_sast *a, const char *text, size_t len)
{
    a->text = cr_arena_text(&p->session->keep, text, len);
    a->len = len;
    if (!a->text)
        cr_session_check(p->session, CR_MEMORY);
    return a;
}

cr_sast *parse_token_node(parser *p, cr_sast_kind kind)
{
    const cr_stoken *t = parse_token(p);

    p->at++;
    return parse_with_text(p, parse_node(p, kind, t->start, NULL), parse_text(p, t),
                           parse_length(t));
}

void parse_deeper(parser *p)
{
    if (++p->depth > MOST_DEPTH)
        cr_srange_bail(p->session, CR_RUNTIME, parse_here(p), "too deeply nested");
}

bool parse_is_keyword(parser *p)
{
    static const char *const words[] = {
        "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
        "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
        "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
        "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

    for (size_t i = 0; i < CR_LEN(words); i++)
        if (parse_is(p, words[i]))
            return true;
    return false;
}

cr_sast *parse_name(parser *p)
{
    if (parse_token(p)->kind != STOKEN_NAME || parse_is_keyword(p))
        parse_expected(p, "ident");
    return parse_token_node(p, CR_SAST_NAME);
}

/* An expression in part of the text. */
cr_sast *parse_part(parser *p, uint32_t start, uint32_t end, uint32_t *stop)
{
    parser inner = {.session = p->session, .source = p->source, .depth = p->depth};
    parse_list list = {0};
    cr_sast *a;

    parse_deeper(p);
    inner.depth = p->depth;
    cr_script_lex(p->session, &inner.tokens, p->source, start, end, true);
    a = parse_test(&inner);
    if (parse_is(&inner, ",")) {
        parse_add(p, &list, a);
        while (parse_take(&inner, ",") && parse_token(&inner)->kind != STOKEN_END)
            parse_add(p, &list, parse_test(&inner));
        a = parse_node(&inner, CR_SAST_TUPLE, start, &list);
    }
    if (stop)
        *stop = parse_token(&inner)->start;
    else if (parse_token(&inner)->kind != STOKEN_END)
        parse_expected(&inner, "EOF");
    p->depth--;
    return a;
}

cr_sast *cr_sast_parse(cr_session *s, const cr_ssource *source)
{
    parser p = {.session = s, .source = source};
    parse_list list = {0};

    cr_script_lex(s, &p.tokens, source, 0, (uint32_t)source->len, false);
    while (parse_take_kind(&p, STOKEN_NEWLINE))
        ;
    while (parse_token(&p)->kind != STOKEN_END)
        parse_statement(&p, &list);
    return parse_node(&p, CR_SAST_BODY, 0, &list);
}

cr_sast *cr_sast_parse_expression(cr_session *s, const cr_ssource *source)
{
    parser p = {.session = s, .source = source};

    return parse_part(&p, 0, (uint32_t)source->len, NULL);
}

/* --- printing --- */

static const char *const ast_text[CR_SAST_COUNT] = {
#define CR_SAST(NAME, text) [CR_SAST_##NAME] = text,
#include "script/ast.def"
#undef CR_SAST
};

void cr_sast_print(cr_text *out, const cr_sast *a)
{
    if (!a) {
        cr_text_put(out, "-");
        return;
    }
    if (a->kind == CR_SAST_NAME && !a->count) {
        cr_text_put(out, a->text);
        return;
    }
    cr_text_printf(out, "(%s", ast_text[a->kind]);
    if (a->text)
        cr_text_printf(out, " '%s'", a->text);
    for (int i = 0; i < a->count; i++) {
        cr_text_put(out, " ");
        cr_sast_print(out, a->at[i]);
    }
    cr_text_put(out, ")");
}
