/* Expressions by precedence, and the parameters of functions and lambdas. */
#include "script/parse.h"
#include <string.h>

cr_sast *parse_star_or_named(parser *p)
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

bool parse_at_end(parser *p)
{
    static const char *const ends[] = {")", "]", "}", "=", ":", ";"};
    uint8_t kind = parse_token(p)->kind;

    for (size_t i = 0; i < CR_LEN(ends); i++)
        if (parse_is(p, ends[i]))
            return true;
    return kind == STOKEN_NEWLINE || kind == STOKEN_END || kind == STOKEN_DEDENT;
}

/* a, b, ... without brackets: a tuple when there is a comma. */
cr_sast *parse_tests(parser *p)
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

/* The target of a for: names, attributes, tuples; `in` is no operator there. */
static cr_sast *parse_target_item(parser *p)
{
    uint32_t start = parse_token(p)->start;

    if (parse_take(p, "*"))
        return PARSE_NODE(p, STAR, start, parse_binary(p, 5));
    return parse_binary(p, 5);
}

cr_sast *parse_target(parser *p)
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

cr_sast *parse_list_display(parser *p)
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

cr_sast *parse_yield(parser *p)
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
    if (parse_is(p, "...") || (t->kind == STOKEN_NAME && parse_is(p, "Ellipsis")))
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

cr_sast *parse_call(parser *p, cr_sast *function)
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

cr_sast *parse_binary(parser *p, int least)
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

cr_sast *parse_test(parser *p)
{
    cr_sast *a;

    parse_deeper(p);
    a = parse_is(p, "lambda") ? parse_lambda(p) : parse_condition(p);
    p->depth--;
    return a;
}

/* --- parameters --- */

cr_sast *parse_comment_type(parser *p, const cr_stoken *t)
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

cr_sast *parse_params(parser *p, const char *end, bool typed)
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
