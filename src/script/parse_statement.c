/* Statements: those of one line, and those with a body. */
#include "script/parse.h"
#include <string.h>

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

/* The statements after a colon.  *comment: the type comment before them. */
cr_sast *parse_body_after(parser *p, const cr_stoken **comment)
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

cr_sast *parse_body(parser *p)
{
    const cr_stoken *comment;

    return parse_body_after(p, &comment);
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

void parse_statement(parser *p, parse_list *out)
{
    cr_sast *a = parse_compound(p);

    if (a)
        parse_add(p, out, a);
    else
        parse_line(p, out);
}
