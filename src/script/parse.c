/* The syntax tree from tokens, by recursive descent.
 *
 * Statements are parsed line by line; expressions by precedence.  The depth of the tree is
 * bounded (MOST_DEPTH), so that walking it needs a bounded C stack. */
#include "script/lex.h"
#include <stdio.h>
#include <string.h>

enum { MOST_DEPTH = 400 };

typedef struct {
    cr_session *session;
    const cr_ssource *source;
    cr_stokens tokens;
    size_t at;
    int depth;
} parser;

typedef struct {
    size_t len, cap;
    cr_sast **at;
} parse_list;

static cr_sast *parse_test(parser *p);
static cr_sast *parse_body(parser *p);
static void parse_statement(parser *p, parse_list *out);

/* --- tokens --- */

static const cr_stoken *parse_token(parser *p)
{
    while (p->tokens.at[p->at].kind == STOKEN_TYPE_COMMENT)
        p->at++;
    return &p->tokens.at[p->at];
}

static const char *parse_text(const parser *p, const cr_stoken *t)
{
    return p->source->text + t->start;
}

static size_t parse_length(const cr_stoken *t) { return t->end - t->start; }

static bool parse_is(parser *p, const char *word)
{
    const cr_stoken *t = parse_token(p);
    const char *text = parse_text(p, t);
    size_t n = parse_length(t);

    return (t->kind == STOKEN_NAME || t->kind == STOKEN_SIGN) && *text == *word &&
           n == strlen(word) && !memcmp(text, word, n);
}

/* True when the token after the next one is `word`. */
static bool parse_is_second(parser *p, const char *word)
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

static bool parse_take(parser *p, const char *word)
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

static CR_NORETURN void parse_expected(parser *p, const char *what)
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

static void parse_want(parser *p, const char *word)
{
    if (!parse_take(p, word))
        parse_expected(p, word);
}

static bool parse_take_kind(parser *p, cr_stoken_kind kind)
{
    bool is = parse_token(p)->kind == kind;

    p->at += is;
    return is;
}

/* The type comment at this place, or just before it, or NULL. */
static const cr_stoken *parse_type_comment(parser *p)
{
    const cr_stoken *t = &p->tokens.at[p->at];

    if (t->kind != STOKEN_TYPE_COMMENT)
        return p->at && t[-1].kind == STOKEN_TYPE_COMMENT ? t - 1 : NULL;
    p->at++;
    return t;
}

/* --- nodes --- */

static void parse_add(parser *p, parse_list *list, cr_sast *a) { CR_PUSH(p->session, list, a); }

static uint32_t parse_last_end(const parser *p)
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
static void parse_mark_attribute(cr_sast *a)
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
static cr_sast *parse_node(parser *p, cr_sast_kind kind, uint32_t start, const parse_list *list)
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

static cr_sast *parse_node_of(parser *p, cr_sast_kind kind, uint32_t start, int count,
                              cr_sast **child)
{
    parse_list list = {0};

    for (int i = 0; i < count; i++)
        parse_add(p, &list, child[i]);
    return parse_node(p, kind, start, &list);
}
#define PARSE_NODE(p, kind, start, ...)                                                        \
    parse_node_of(p, CR_SAST_##kind, start, (int)CR_LEN(((cr_sast *[]){__VA_ARGS__})),         \
                  (cr_sast *[]){__VA_ARGS__})

static cr_sast *parse_with_text(parser *p, cr_sast *a, const char *text, size_t len)
{
    a->text = cr_arena_text(&p->session->keep, text, len);
    a->len = len;
    if (!a->text)
        cr_session_check(p->session, CR_MEMORY);
    return a;
}

static cr_sast *parse_token_node(parser *p, cr_sast_kind kind)
{
    const cr_stoken *t = parse_token(p);

    p->at++;
    return parse_with_text(p, parse_node(p, kind, t->start, NULL), parse_text(p, t),
                           parse_length(t));
}

static void parse_deeper(parser *p)
{
    if (++p->depth > MOST_DEPTH)
        cr_srange_bail(p->session, CR_RUNTIME, parse_here(p), "too deeply nested");
}

static bool parse_is_keyword(parser *p)
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

static cr_sast *parse_name(parser *p)
{
    if (parse_token(p)->kind != STOKEN_NAME || parse_is_keyword(p))
        parse_expected(p, "ident");
    return parse_token_node(p, CR_SAST_NAME);
}

/* An expression in part of the text. */
static cr_sast *parse_part(parser *p, uint32_t start, uint32_t end, uint32_t *stop)
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

/* --- literals --- */

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
static cr_sast *parse_strings(parser *p)
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

/* --- expressions --- */

static cr_sast *parse_star_or_named(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *a;

    if (parse_take(p, "*"))
        return PARSE_NODE(p, STAR, start, parse_test(p));
    a = parse_test(p);
    if (a->kind == CR_SAST_NAME && parse_take(p, ":="))
        return PARSE_NODE(p, NAMED, start, a, parse_test(p));
    return a;
}

static bool parse_at_end(parser *p)
{
    static const char *const ends[] = {")", "]", "}", "=", ":", ";"};
    uint8_t kind = parse_token(p)->kind;

    for (size_t i = 0; i < CR_LEN(ends); i++)
        if (parse_is(p, ends[i]))
            return true;
    return kind == STOKEN_NEWLINE || kind == STOKEN_END || kind == STOKEN_DEDENT;
}

/* a, b, ... without brackets: a tuple when there is a comma. */
static cr_sast *parse_tests(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    cr_sast *a = parse_star_or_named(p);

    if (!parse_is(p, ","))
        return a;
    parse_add(p, &list, a);
    while (parse_take(p, ",") && !parse_at_end(p))
        parse_add(p, &list, parse_star_or_named(p));
    return parse_node(p, CR_SAST_TUPLE, start, &list);
}

static cr_sast *parse_binary(parser *p, int least);

/* The target of a for: names, attributes, tuples; `in` is no operator there. */
static cr_sast *parse_target_item(parser *p)
{
    uint32_t start = parse_token(p)->start;

    if (parse_take(p, "*"))
        return PARSE_NODE(p, STAR, start, parse_binary(p, 5));
    return parse_binary(p, 5);
}

static cr_sast *parse_target(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    cr_sast *a = parse_target_item(p);

    if (!parse_is(p, ","))
        return a;
    parse_add(p, &list, a);
    while (parse_take(p, ",") && !parse_is(p, "in"))
        parse_add(p, &list, parse_target_item(p));
    return parse_node(p, CR_SAST_TUPLE, start, &list);
}

static cr_sast *parse_or(parser *p) { return parse_binary(p, 1); }

static bool parse_is_for(parser *p)
{
    return parse_is(p, "for") || (parse_is(p, "async") && parse_is_second(p, "for"));
}

static void parse_fors(parser *p, parse_list *out)
{
    while (parse_is_for(p)) {
        uint32_t start = parse_token(p)->start;
        bool async = parse_take(p, "async");
        parse_list list = {0};
        parse_want(p, "for");
        parse_add(p, &list, parse_target(p));
        parse_want(p, "in");
        parse_add(p, &list, parse_or(p));
        while (parse_take(p, "if"))
            parse_add(p, &list, parse_or(p));
        parse_add(p, out, parse_node(p, CR_SAST_COMP_FOR, start, &list));
        if (async)
            parse_with_text(p, out->at[out->len - 1], "async", 5);
    }
}

static cr_sast *parse_list_display(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    cr_sast_kind kind = CR_SAST_LIST;

    parse_want(p, "[");
    while (!parse_is(p, "]")) {
        parse_add(p, &list, parse_star_or_named(p));
        if (list.len == 1 && parse_is_for(p)) {
            kind = CR_SAST_LIST_COMP;
            parse_fors(p, &list);
            break;
        }
        if (!parse_take(p, ","))
            break;
    }
    parse_want(p, "]");
    return parse_node(p, kind, start, &list);
}

static void parse_entry(parser *p, parse_list *list, bool *dict)
{
    if (parse_take(p, "**")) {
        *dict = true;
        parse_add(p, list, NULL);
        parse_add(p, list, parse_or(p));
        return;
    }
    parse_add(p, list, parse_star_or_named(p));
    if (parse_take(p, ":")) {
        *dict = true;
        parse_add(p, list, parse_test(p));
    }
}

static cr_sast *parse_braces(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    bool dict, comp = false;

    parse_want(p, "{");
    dict = parse_is(p, "}");
    while (!parse_is(p, "}") && !comp) {
        parse_entry(p, &list, &dict);
        comp = parse_is_for(p);
        if (comp)
            parse_fors(p, &list);
        else if (!parse_take(p, ","))
            break;
    }
    parse_want(p, "}");
    if (dict && !comp && list.len % 2)
        parse_expected(p, ":");
    return parse_node(p,
                      comp   ? dict ? CR_SAST_DICT_COMP : CR_SAST_SET_COMP
                      : dict ? CR_SAST_DICT
                             : CR_SAST_SET,
                      start, &list);
}

static cr_sast *parse_yield(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *value = NULL;
    bool from;

    parse_want(p, "yield");
    from = parse_take(p, "from");
    if (!parse_at_end(p))
        value = parse_tests(p);
    value = PARSE_NODE(p, YIELD, start, value);
    return from ? parse_with_text(p, value, "from", 4) : value;
}

static cr_sast *parse_parentheses(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    cr_sast *a;

    parse_want(p, "(");
    if (parse_take(p, ")"))
        return parse_node(p, CR_SAST_TUPLE, start, NULL);
    a = parse_is(p, "yield") ? parse_yield(p) : parse_star_or_named(p);
    if (parse_is_for(p)) {
        parse_add(p, &list, a);
        parse_fors(p, &list);
        parse_want(p, ")");
        return parse_node(p, CR_SAST_GENERATOR, start, &list);
    }
    if (!parse_is(p, ",")) {
        parse_want(p, ")");
        return a;
    }
    parse_add(p, &list, a);
    while (parse_take(p, ",") && !parse_is(p, ")"))
        parse_add(p, &list, parse_star_or_named(p));
    parse_want(p, ")");
    return parse_node(p, CR_SAST_TUPLE, start, &list);
}

static cr_sast *parse_lambda(parser *p);

static cr_sast *parse_atom(parser *p)
{
    const cr_stoken *t = parse_token(p);

    if (t->kind == STOKEN_NUMBER)
        return parse_token_node(p, CR_SAST_NUMBER);
    if (t->kind == STOKEN_STRING)
        return parse_strings(p);
    if (parse_is(p, "("))
        return parse_parentheses(p);
    if (parse_is(p, "["))
        return parse_list_display(p);
    if (parse_is(p, "{"))
        return parse_braces(p);
    if (parse_is(p, "..."))
        return parse_token_node(p, CR_SAST_ELLIPSIS);
    if (parse_is(p, "True"))
        return parse_token_node(p, CR_SAST_TRUE);
    if (parse_is(p, "False"))
        return parse_token_node(p, CR_SAST_FALSE);
    if (parse_is(p, "None"))
        return parse_token_node(p, CR_SAST_NONE);
    if (t->kind != STOKEN_NAME || parse_is_keyword(p))
        parse_expected(p, "an expression");
    return parse_name(p);
}

static cr_sast *parse_argument(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    cr_sast *a;

    if (parse_take(p, "**"))
        return PARSE_NODE(p, STARSTAR, start, parse_test(p));
    if (parse_token(p)->kind == STOKEN_NAME && parse_is_second(p, "=")) {
        cr_sast *name = parse_name(p);
        parse_want(p, "=");
        a = PARSE_NODE(p, KEYWORD, start, parse_test(p));
        return parse_with_text(p, a, name->text, name->len);
    }
    a = parse_star_or_named(p);
    if (!parse_is_for(p))
        return a;
    parse_add(p, &list, a);
    parse_fors(p, &list);
    return parse_node(p, CR_SAST_GENERATOR, start, &list);
}

static cr_sast *parse_call(parser *p, cr_sast *function)
{
    parse_list list = {0};

    parse_add(p, &list, function);
    parse_want(p, "(");
    while (!parse_is(p, ")")) {
        parse_add(p, &list, parse_argument(p));
        if (!parse_take(p, ","))
            break;
    }
    parse_want(p, ")");
    return parse_node(p, CR_SAST_CALL, function->range.start, &list);
}

static cr_sast *parse_index(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *part[3] = {NULL, NULL, NULL};
    int n = 0;

    if (!parse_is(p, ":")) {
        part[0] = parse_star_or_named(p);
        if (!parse_is(p, ":"))
            return part[0];
    }
    while (n < 2 && parse_take(p, ":")) {
        n++;
        if (!parse_is(p, ":") && !parse_is(p, "]") && !parse_is(p, ","))
            part[n] = parse_test(p);
    }
    return PARSE_NODE(p, SLICE, start, part[0], part[1], part[2]);
}

/* a[i, j] has the indices as further children; a[i,] and a[(i, j)] one tuple. */
static cr_sast *parse_subscript(parser *p, cr_sast *object)
{
    parse_list list = {0};
    uint32_t start;
    bool comma = false;

    parse_add(p, &list, object);
    parse_want(p, "[");
    start = parse_token(p)->start;
    do {
        parse_add(p, &list, parse_index(p));
        comma = parse_take(p, ",");
    } while (comma && !parse_is(p, "]"));
    if (comma && list.len == 2 && list.at[1]->kind != CR_SAST_SLICE)
        list.at[1] = PARSE_NODE(p, TUPLE, start, list.at[1]);
    parse_want(p, "]");
    return parse_node(p, CR_SAST_SUBSCRIPT, object->range.start, &list);
}

static cr_sast *parse_postfix(parser *p)
{
    uint32_t start = parse_token(p)->start;
    bool await = parse_take(p, "await");
    cr_sast *a = parse_atom(p);

    for (;;) {
        if (parse_is(p, "("))
            a = parse_call(p, a);
        else if (parse_is(p, "["))
            a = parse_subscript(p, a);
        else if (parse_take(p, ".")) {
            const cr_stoken *t = parse_token(p);
            if (t->kind != STOKEN_NAME)
                parse_expected(p, "ident");
            p->at++;
            a = parse_with_text(p, PARSE_NODE(p, ATTRIBUTE, a->range.start, a),
                                parse_text(p, t), parse_length(t));
            parse_mark_attribute(a);
        } else
            return await ? PARSE_NODE(p, AWAIT, start, a) : a;
    }
}

static cr_sast *parse_unary(parser *p);

static cr_sast *parse_power(parser *p)
{
    cr_sast *a = parse_postfix(p);

    if (!parse_take(p, "**"))
        return a;
    return parse_with_text(p, PARSE_NODE(p, BINARY, a->range.start, a, parse_unary(p)), "**",
                           2);
}

static cr_sast *parse_unary(parser *p)
{
    const cr_stoken *t = parse_token(p);
    cr_sast *a;

    if (!parse_is(p, "-") && !parse_is(p, "+") && !parse_is(p, "~"))
        return parse_power(p);
    parse_deeper(p);
    p->at++;
    a = PARSE_NODE(p, UNARY, t->start, parse_unary(p));
    p->depth--;
    return parse_with_text(p, a, parse_text(p, t), 1);
}

/* The precedence of the operator at this place, from 1, and its text; 0: none. */
static int parse_operator(parser *p, const char **text)
{
    static const struct {
        const char *text;
        int level;
    } operators[] = {{"or", 1}, {"and", 2}, {"==", 4}, {"!=", 4}, {"<=", 4}, {">=", 4},
                     {"<", 4},  {">", 4},   {"in", 4}, {"is", 4}, {"|", 5},  {"^", 6},
                     {"&", 7},  {"<<", 8},  {">>", 8}, {"+", 9},  {"-", 9},  {"*", 10},
                     {"/", 10}, {"//", 10}, {"%", 10}, {"@", 10}};

    if (parse_is(p, "not") && parse_is_second(p, "in")) {
        *text = "not in";
        return 4;
    }
    for (size_t i = 0; i < CR_LEN(operators); i++)
        if (parse_is(p, operators[i].text)) {
            *text = operators[i].text;
            if (operators[i].level == 4 && parse_is(p, "is") && parse_is_second(p, "not"))
                *text = "is not";
            return operators[i].level;
        }
    return 0;
}

/* a < b < c */
static cr_sast *parse_chain(parser *p, cr_sast *first)
{
    parse_list list = {0};
    const char *text;

    parse_add(p, &list, first);
    while (parse_operator(p, &text) == 4) {
        cr_sast *left = list.at[list.len - 1]->at[1];
        p->at += strchr(text, ' ') ? 2 : 1;
        cr_sast *pair = PARSE_NODE(p, BINARY, left->range.start, left, parse_binary(p, 5));
        parse_add(p, &list, parse_with_text(p, pair, text, strlen(text)));
    }
    return parse_node(p, CR_SAST_CHAIN, first->range.start, &list);
}

static cr_sast *parse_not(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *a;

    parse_deeper(p);
    parse_want(p, "not");
    a = PARSE_NODE(p, UNARY, start, parse_binary(p, 3));
    p->depth--;
    return parse_with_text(p, a, "not", 3);
}

static cr_sast *parse_binary(parser *p, int least)
{
    cr_sast *a = parse_is(p, "not") && least <= 3 ? parse_not(p) : parse_unary(p);
    const char *text;
    int level;

    while ((level = parse_operator(p, &text)) >= least && level) {
        p->at += strchr(text, ' ') ? 2 : 1;
        cr_sast *b = parse_binary(p, level + 1);
        a = parse_node_of(p, level <= 2 ? CR_SAST_BOOLEAN : CR_SAST_BINARY, a->range.start, 2,
                          (cr_sast *[]){a, b});
        parse_with_text(p, a, text, strlen(text));
        const char *next;
        if (level == 4 && parse_operator(p, &next) == 4)
            a = parse_chain(p, a);
    }
    return a;
}

static cr_sast *parse_condition(parser *p)
{
    cr_sast *a = parse_or(p), *condition;

    if (!parse_take(p, "if"))
        return a;
    condition = parse_or(p);
    parse_want(p, "else");
    return PARSE_NODE(p, CONDITION, a->range.start, condition, a, parse_test(p));
}

static cr_sast *parse_test(parser *p)
{
    cr_sast *a;

    parse_deeper(p);
    a = parse_is(p, "lambda") ? parse_lambda(p) : parse_condition(p);
    p->depth--;
    return a;
}

/* --- parameters --- */

static cr_sast *parse_comment_type(parser *p, const cr_stoken *t)
{
    return t ? parse_part(p, t->start, t->end, NULL) : NULL;
}

static cr_sast *parse_param(parser *p, bool typed)
{
    const cr_stoken *t = parse_token(p);
    const char *stars = parse_take(p, "**") ? "**" : parse_take(p, "*") ? "*" : "";
    cr_sast *type = NULL, *preset = NULL, *name;
    char *text;

    if (parse_take(p, "/"))
        return parse_with_text(p, parse_node(p, CR_SAST_PARAM, t->start, NULL), "/", 1);
    if (*stars && (parse_is(p, ",") || parse_is(p, ")") || parse_is(p, ":"))) {
        name = PARSE_NODE(p, PARAM, t->start, NULL, NULL);
        return parse_with_text(p, name, stars, strlen(stars));
    }
    name = parse_name(p);
    if (typed && parse_take(p, ":"))
        type = parse_test(p);
    if (parse_take(p, "="))
        preset = parse_test(p);
    text = cr_session_printf(p->session, "%s%s", stars, name->text);
    return parse_with_text(p, PARSE_NODE(p, PARAM, t->start, type, preset), text, strlen(text));
}

static cr_sast *parse_params(parser *p, const char *end, bool typed)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};

    while (!parse_is(p, end)) {
        cr_sast *param = parse_param(p, typed);
        bool more = parse_take(p, ",");
        const cr_stoken *comment = typed ? parse_type_comment(p) : NULL;
        if (comment && param->count && !param->at[0])
            param->at[0] = parse_comment_type(p, comment);
        parse_add(p, &list, param);
        if (!more)
            break;
    }
    return parse_node(p, CR_SAST_PARAMS, start, &list);
}

static cr_sast *parse_lambda(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *params;

    parse_want(p, "lambda");
    params = parse_params(p, ":", false);
    parse_want(p, ":");
    return PARSE_NODE(p, LAMBDA, start, params, parse_test(p));
}

/* --- statements --- */

static cr_sast *parse_tests_or_yield(parser *p)
{
    return parse_is(p, "yield") ? parse_yield(p) : parse_tests(p);
}

/* a = b = value, with the type that a comment behind it states. */
static cr_sast *parse_assignment(parser *p, cr_sast *first)
{
    parse_list list = {0};
    cr_sast *value = NULL;

    parse_add(p, &list, NULL);
    parse_add(p, &list, NULL);
    parse_add(p, &list, first);
    if (parse_take(p, ":")) {
        list.at[1] = parse_test(p);
        if (parse_take(p, "="))
            value = parse_tests_or_yield(p);
    } else {
        while (parse_take(p, "=")) {
            if (value)
                parse_add(p, &list, value);
            value = parse_tests_or_yield(p);
        }
    }
    list.at[0] = value;
    const cr_stoken *comment = parse_type_comment(p);
    if (comment && !list.at[1])
        list.at[1] = parse_comment_type(p, comment);
    return parse_node(p, CR_SAST_ASSIGN, first->range.start, &list);
}

/* += and the like, which are no comparisons. */
static bool parse_is_augmented(parser *p)
{
    static const char *const signs[] = {
        "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "**=", "//=", "<<=", ">>="};

    for (size_t i = 0; i < CR_LEN(signs); i++)
        if (parse_is(p, signs[i]))
            return true;
    return false;
}

static cr_sast *parse_expression_statement(parser *p)
{
    cr_sast *a = parse_tests_or_yield(p);
    const cr_stoken *t = parse_token(p);
    size_t n = parse_length(t);

    if (parse_is(p, "=") || parse_is(p, ":"))
        return parse_assignment(p, a);
    if (parse_is_augmented(p)) {
        p->at++;
        a = PARSE_NODE(p, AUGMENTED, a->range.start, a, parse_tests_or_yield(p));
        return parse_with_text(p, a, parse_text(p, t), n - 1);
    }
    return PARSE_NODE(p, EXPRESSION, a->range.start, a);
}

static cr_sast *parse_dotted(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_text text = {0};
    char *whole;

    while (parse_is(p, ".") || parse_is(p, "...")) {
        cr_text_put(&text, parse_is(p, ".") ? "." : "...");
        p->at++;
    }
    while (!parse_is(p, "import")) {
        const cr_stoken *t = parse_token(p);
        if (t->kind != STOKEN_NAME) {
            cr_text_drop(&text);
            parse_expected(p, "ident");
        }
        p->at++;
        cr_text_put_n(&text, parse_text(p, t), parse_length(t));
        if (!parse_take(p, "."))
            break;
        cr_text_char(&text, '.');
    }
    whole = cr_session_take_text(p->session, &text);
    return parse_with_text(p, parse_node(p, CR_SAST_NAME, start, NULL), whole, strlen(whole));
}

static void parse_imported(parser *p, parse_list *list, bool dotted)
{
    do {
        uint32_t start = parse_token(p)->start;
        cr_sast *name, *as = NULL;
        if (parse_take(p, "*"))
            name = parse_with_text(p, parse_node(p, CR_SAST_NAME, start, NULL), "*", 1);
        else
            name = dotted ? parse_dotted(p) : parse_name(p);
        if (parse_take(p, "as"))
            as = parse_name(p);
        parse_add(p, list,
                  parse_with_text(p, PARSE_NODE(p, NAME, start, as), name->text, name->len));
    } while (parse_take(p, ",") && !parse_is(p, ")"));
}

static cr_sast *parse_import(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    cr_sast *from;
    bool open;

    if (parse_take(p, "import")) {
        parse_imported(p, &list, true);
        return parse_node(p, CR_SAST_IMPORT, start, &list);
    }
    parse_want(p, "from");
    from = parse_dotted(p);
    parse_want(p, "import");
    open = parse_take(p, "(");
    parse_imported(p, &list, false);
    if (open)
        parse_want(p, ")");
    return parse_with_text(p, parse_node(p, CR_SAST_FROM_IMPORT, start, &list), from->text,
                           from->len);
}

static cr_sast *parse_names_statement(parser *p, cr_sast_kind kind)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};

    p->at++;
    do
        parse_add(p, &list, parse_name(p));
    while (parse_take(p, ","));
    return parse_node(p, kind, start, &list);
}

static cr_sast *parse_return(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *value = NULL;

    parse_want(p, "return");
    if (!parse_at_end(p))
        value = parse_tests(p);
    return PARSE_NODE(p, RETURN, start, value);
}

static cr_sast *parse_raise(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *value = NULL, *cause = NULL;

    parse_want(p, "raise");
    if (!parse_at_end(p))
        value = parse_test(p);
    if (parse_take(p, "from"))
        cause = parse_test(p);
    return PARSE_NODE(p, RAISE, start, value, cause);
}

static cr_sast *parse_assert(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *condition, *message = NULL;

    parse_want(p, "assert");
    condition = parse_test(p);
    if (parse_take(p, ","))
        message = parse_test(p);
    return PARSE_NODE(p, ASSERT, start, condition, message);
}

static cr_sast *parse_delete(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};

    parse_want(p, "del");
    do
        parse_add(p, &list, parse_test(p));
    while (parse_take(p, ",") && !parse_at_end(p));
    return parse_node(p, CR_SAST_DELETE, start, &list);
}

static cr_sast *parse_small(parser *p)
{
    if (parse_is(p, "return"))
        return parse_return(p);
    if (parse_is(p, "pass"))
        return parse_token_node(p, CR_SAST_PASS);
    if (parse_is(p, "break"))
        return parse_token_node(p, CR_SAST_BREAK);
    if (parse_is(p, "continue"))
        return parse_token_node(p, CR_SAST_CONTINUE);
    if (parse_is(p, "raise"))
        return parse_raise(p);
    if (parse_is(p, "assert"))
        return parse_assert(p);
    if (parse_is(p, "del"))
        return parse_delete(p);
    if (parse_is(p, "global"))
        return parse_names_statement(p, CR_SAST_GLOBAL);
    if (parse_is(p, "nonlocal"))
        return parse_names_statement(p, CR_SAST_NONLOCAL);
    if (parse_is(p, "import") || parse_is(p, "from"))
        return parse_import(p);
    return parse_expression_statement(p);
}

/* Statements with ; between them, to the end of the line. */
static void parse_line(parser *p, parse_list *out)
{
    do
        parse_add(p, out, parse_small(p));
    while (parse_take(p, ";") && parse_token(p)->kind != STOKEN_NEWLINE);
    if (!parse_take_kind(p, STOKEN_NEWLINE))
        parse_expected(p, "newline");
}

static cr_sast *parse_empty(parser *p)
{
    return parse_node(p, CR_SAST_BODY, parse_token(p)->start, NULL);
}

static cr_sast *parse_else(parser *p)
{
    if (!parse_take(p, "else"))
        return NULL;
    return parse_body(p);
}

static cr_sast *parse_if(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *condition, *body, *other;

    parse_deeper(p);
    p->at++;
    condition = parse_star_or_named(p);
    body = parse_body(p);
    if (parse_is(p, "elif")) {
        uint32_t from = parse_token(p)->start;
        other = PARSE_NODE(p, BODY, from, parse_if(p));
    } else {
        other = parse_else(p);
        other = other ? other : parse_empty(p);
    }
    p->depth--;
    return PARSE_NODE(p, IF, start, condition, body, other);
}

static cr_sast *parse_while(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *condition, *body;

    parse_want(p, "while");
    condition = parse_star_or_named(p);
    body = parse_body(p);
    return PARSE_NODE(p, WHILE, start, condition, body, parse_else(p));
}

static cr_sast *parse_for(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *target, *over, *body;

    parse_want(p, "for");
    target = parse_target(p);
    parse_want(p, "in");
    over = parse_tests(p);
    body = parse_body(p);
    return PARSE_NODE(p, FOR, start, target, over, body, parse_else(p));
}

/* with (a as b, c as d): has the same tokens as a tuple until `as`; try both. */
static bool parse_with_is_bracketed(parser *p)
{
    int depth = 0;

    if (!parse_is(p, "("))
        return false;
    for (size_t i = p->at; p->tokens.at[i].kind != STOKEN_END; i++) {
        const cr_stoken *t = &p->tokens.at[i];
        char c = parse_length(t) == 1 && t->kind == STOKEN_SIGN ? *parse_text(p, t) : ' ';
        depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (depth == 1 && t->kind == STOKEN_NAME && parse_length(t) == 2 &&
            !strncmp(parse_text(p, t), "as", 2))
            return true;
        if (!depth)
            return false;
    }
    return false;
}

static cr_sast *parse_with(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};
    bool bracketed;

    parse_want(p, "with");
    bracketed = parse_with_is_bracketed(p) && parse_take(p, "(");
    parse_add(p, &list, NULL);
    do {
        uint32_t from = parse_token(p)->start;
        cr_sast *value = parse_test(p), *target = NULL;
        if (parse_take(p, "as"))
            target = parse_binary(p, 5);
        parse_add(p, &list, PARSE_NODE(p, WITH_ITEM, from, value, target));
    } while (parse_take(p, ",") && !parse_is(p, ")"));
    if (bracketed)
        parse_want(p, ")");
    list.at[0] = parse_body(p);
    return parse_node(p, CR_SAST_WITH, start, &list);
}

static cr_sast *parse_except(parser *p)
{
    uint32_t start = parse_token(p)->start;
    cr_sast *type = NULL, *name = NULL, *a;

    parse_want(p, "except");
    parse_take(p, "*");
    if (!parse_is(p, ":"))
        type = parse_tests(p);
    if (parse_take(p, "as"))
        name = parse_name(p);
    a = PARSE_NODE(p, EXCEPT, start, type, parse_body(p));
    return name ? parse_with_text(p, a, name->text, name->len) : a;
}

static cr_sast *parse_try(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};

    parse_want(p, "try");
    parse_add(p, &list, parse_body(p));
    while (parse_is(p, "except"))
        parse_add(p, &list, parse_except(p));
    parse_add(p, &list, parse_else(p));
    parse_add(p, &list, parse_take(p, "finally") ? parse_body(p) : NULL);
    return parse_node(p, CR_SAST_TRY, start, &list);
}

/* def f[T](...): the type parameters are skipped. */
static void parse_type_params(parser *p)
{
    if (parse_is(p, "["))
        parse_list_display(p);
}

/* (int, str) -> Tensor behind a function's line: types of the parameters that have none, but
 * not of self; with one dim, `...` leaves them. */
static void parse_signature(parser *p, const cr_stoken *comment, cr_srange head,
                            cr_sast *params, cr_sast **result)
{
    const char *arrow = NULL, *text = parse_text(p, comment);
    cr_sast *types;
    int skip;

    for (size_t i = 0; i + 1 < parse_length(comment); i++)
        if (!strncmp(text + i, "->", 2))
            arrow = text + i;
    if (!arrow && !memchr(text, '(', parse_length(comment)))
        return;
    if (arrow)
        *result =
            parse_part(p, comment->start + (uint32_t)(arrow - text) + 2, comment->end, NULL);
    types = parse_part(p, comment->start,
                       arrow ? comment->start + (uint32_t)(arrow - text) : comment->end, NULL);
    if (types->kind != CR_SAST_TUPLE)
        types = PARSE_NODE(p, TUPLE, types->range.start, types);
    if (types->count == 1 && types->at[0]->kind == CR_SAST_ELLIPSIS)
        return;
    skip = params->count == types->count + 1;
    if (params->count != types->count + skip ||
        (skip && (!params->at[0]->text || strcmp(params->at[0]->text, "self"))))
        cr_srange_bail(p->session, CR_RUNTIME, head,
                       "Number of type annotations (%d) did not match the number of function "
                       "parameters (%d)",
                       types->count, params->count);
    for (int i = 0; i < types->count && i + skip < params->count; i++)
        if (params->at[i + skip]->count && !params->at[i + skip]->at[0])
            params->at[i + skip]->at[0] = types->at[i];
}

/* The statements after a colon.  *comment: the type comment before them. */
static cr_sast *parse_body_after(parser *p, const cr_stoken **comment)
{
    uint32_t start = parse_token(p)->start;
    parse_list list = {0};

    parse_deeper(p);
    parse_want(p, ":");
    *comment = parse_type_comment(p);
    if (!parse_take_kind(p, STOKEN_NEWLINE)) {
        parse_line(p, &list);
    } else {
        if (!*comment)
            *comment = parse_type_comment(p);
        if (!parse_take_kind(p, STOKEN_INDENT))
            parse_expected(p, "indent");
        while (!parse_take_kind(p, STOKEN_DEDENT))
            parse_statement(p, &list);
    }
    p->depth--;
    return parse_node(p, CR_SAST_BODY, list.len ? list.at[0]->range.start : start, &list);
}

static cr_sast *parse_body(parser *p)
{
    const cr_stoken *comment;

    return parse_body_after(p, &comment);
}

static cr_sast *parse_function(parser *p, uint32_t start, const parse_list *decorators)
{
    parse_list list = {0};
    const cr_stoken *comment;
    cr_sast *name, *params, *result = NULL, *body;

    parse_want(p, "def");
    name = parse_name(p);
    parse_type_params(p);
    parse_want(p, "(");
    params = parse_params(p, ")", true);
    parse_want(p, ")");
    if (parse_take(p, "->"))
        result = parse_test(p);
    body = parse_body_after(p, &comment);
    if (comment)
        parse_signature(p, comment, (cr_srange){p->source, start, params->range.end}, params,
                        &result);
    parse_add(p, &list, params);
    parse_add(p, &list, result);
    parse_add(p, &list, body);
    for (size_t i = 0; i < decorators->len; i++)
        parse_add(p, &list, decorators->at[i]);
    return parse_with_text(p, parse_node(p, CR_SAST_FUNCTION, start, &list), name->text,
                           name->len);
}

static cr_sast *parse_class(parser *p, uint32_t start, const parse_list *decorators)
{
    parse_list list = {0};
    cr_sast *name, *bases = NULL;

    parse_want(p, "class");
    name = parse_name(p);
    parse_type_params(p);
    if (parse_is(p, "("))
        bases = parse_call(p, name);
    parse_add(p, &list, parse_body(p));
    parse_add(p, &list, bases);
    for (size_t i = 0; i < decorators->len; i++)
        parse_add(p, &list, decorators->at[i]);
    return parse_with_text(p, parse_node(p, CR_SAST_CLASS, start, &list), name->text,
                           name->len);
}

static cr_sast *parse_decorated(parser *p)
{
    uint32_t start = parse_token(p)->start;
    parse_list decorators = {0};

    while (parse_take(p, "@")) {
        parse_add(p, &decorators, parse_test(p));
        if (!parse_take_kind(p, STOKEN_NEWLINE))
            parse_expected(p, "newline");
        start = parse_token(p)->start;
    }
    parse_take(p, "async");
    if (parse_is(p, "class"))
        return parse_class(p, start, &decorators);
    return parse_function(p, start, &decorators);
}

/* Skips the lines of an indented block. */
static void parse_skip_block(parser *p)
{
    int depth = 0;

    do {
        uint8_t kind = parse_token(p)->kind;
        if (kind == STOKEN_END)
            parse_expected(p, "indent");
        depth += (kind == STOKEN_INDENT) - (kind == STOKEN_DEDENT);
        p->at++;
    } while (depth || p->tokens.at[p->at - 1].kind != STOKEN_DEDENT);
}

/* `match` and `type` are keywords only in such statements; other uses are names. */
static cr_sast *parse_soft(parser *p)
{
    uint32_t start = parse_token(p)->start;
    size_t at = p->at;
    cr_sast *a, *name;

    if (parse_is(p, "type") && p->tokens.at[at + 1].kind == STOKEN_NAME) {
        p->at++;
        name = parse_name(p);
        parse_type_params(p);
        parse_want(p, "=");
        a = PARSE_NODE(p, TYPE_ALIAS, start, parse_test(p));
        if (!parse_take_kind(p, STOKEN_NEWLINE))
            parse_expected(p, "newline");
        return parse_with_text(p, a, name->text, name->len);
    }
    if (!parse_is(p, "match"))
        return NULL;
    while (p->tokens.at[at].kind != STOKEN_NEWLINE && p->tokens.at[at].kind != STOKEN_END)
        at++;
    if (p->tokens.at[at].kind == STOKEN_END || p->tokens.at[at + 1].kind != STOKEN_INDENT)
        return NULL;
    p->at++;
    a = parse_tests(p);
    parse_want(p, ":");
    p->at++;
    parse_skip_block(p);
    return PARSE_NODE(p, MATCH, start, a);
}

static cr_sast *parse_async(parser *p)
{
    cr_sast *a;

    p->at++;
    a = parse_is(p, "with") ? parse_with(p) : parse_for(p);
    return parse_with_text(p, a, "async", 5);
}

static cr_sast *parse_compound(parser *p)
{
    if (parse_is(p, "if"))
        return parse_if(p);
    if (parse_is(p, "for"))
        return parse_for(p);
    if (parse_is(p, "while"))
        return parse_while(p);
    if (parse_is(p, "with"))
        return parse_with(p);
    if (parse_is(p, "try"))
        return parse_try(p);
    if (parse_is(p, "def") || parse_is(p, "class") || parse_is(p, "@") ||
        (parse_is(p, "async") && parse_is_second(p, "def")))
        return parse_decorated(p);
    if (parse_is(p, "async"))
        return parse_async(p);
    return parse_soft(p);
}

static void parse_statement(parser *p, parse_list *out)
{
    cr_sast *a = parse_compound(p);

    if (a)
        parse_add(p, out, a);
    else
        parse_line(p, out);
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
