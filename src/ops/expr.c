/* Expressions, by precedence climbing; prints them back. */
#include "ops/eval.h"
#include "ops/lex.h"
#include "ops/ops.h"
#include <string.h>

/* Loosest first.  Comparison does not chain. */
static const struct {
    const char *sign, *name;
    int level;
} infix[] = {
    {"or", "or", 1},       {"and", "and", 2},     {"==", "eq", 3},  {"!=", "ne", 3},
    {"<", "lt", 3},        {"<=", "le", 3},       {">", "gt", 3},   {">=", "ge", 3},
    {"+", "add", 4},       {"-", "sub", 4},       {"*", "mul", 5},  {"/", "div", 5},
    {"//", "floordiv", 5}, {"%", "remainder", 5}, {"**", "pow", 7},
};
enum { LEVEL_UNARY = 6 };

/* Where rules are stated, for messages about them. */
typedef struct {
    const cr_rule *rule;
    int line;
} placed_rule;
static CR_VEC(placed_rule) placed;

int rule_line(const cr_rule *r)
{
    for (size_t i = 0; i < placed.len; i++)
        if (placed.at[i].rule == r)
            return placed.at[i].line;
    return 0;
}

static cr_status rule_new(lexer *x, cr_rule **out, cr_rule_kind kind, const char *name)
{
    cr_rule *r = cr_arena_get(x->arena, sizeof *r);

    CR_NEED(r);
    CR_TRY(cr_vec_reserve(&placed, 1));
    cr_vec_put(&placed, ((placed_rule){r, x->line}));
    r->kind = kind;
    r->name = name;
    r->slot = r->builtin = -1;
    *out = r;
    return CR_OK;
}

enum { MOST_ARGS = 32 };
const char *rule_no_keywords[MOST_ARGS];

/* Copies a list of children into the arena. */
static cr_status set_args(lexer *x, cr_rule *r, cr_rule **args, const char **keyword, int n)
{
    size_t bytes = (size_t)n * sizeof *args;

    r->count = n;
    r->args = cr_arena_get(x->arena, bytes);
    r->keyword = keyword ? cr_arena_get(x->arena, bytes) : rule_no_keywords;
    CR_NEED(r->args && r->keyword);
    memcpy(r->args, args, bytes);
    if (keyword)
        memcpy(r->keyword, keyword, bytes);
    return CR_OK;
}

static cr_status make_call_rule(lexer *x, cr_rule **out, const char *name, cr_rule *a,
                                cr_rule *b)
{
    cr_rule *args[2] = {a, b};

    CR_TRY(rule_new(x, out, CR_RULE_CALL, name));
    return set_args(x, *out, args, NULL, b ? 2 : 1);
}

/* `name=` of a keyword argument; `name == ` is a comparison. */
static bool is_keyword(const lexer *x)
{
    return x->kind == TOKEN_NAME && lex_before(x, "=") && !lex_before(x, "==");
}

static cr_status parse_list(lexer *x, cr_rule *r, const char *close)
{
    cr_rule *args[MOST_ARGS];
    const char *keyword[MOST_ARGS] = {0};
    int n = 0;
    bool more = !lex_is(x, close), any = false;

    while (more) {
        if (n == MOST_ARGS)
            return lex_error(x, "more than %d arguments", MOST_ARGS);
        if (is_keyword(x)) {
            CR_TRY(lex_name(x, &keyword[n]));
            CR_TRY(lex_expect(x, "="));
            any = true;
        }
        CR_TRY(rule_parse(x, &args[n++]));
        CR_TRY(lex_take(x, ",", &more));
    }
    CR_TRY(lex_expect(x, close));
    return set_args(x, r, args, any ? keyword : NULL, n);
}

static bool is_each(const lexer *x) { return x->kind == TOKEN_NAME && lex_before(x, "in "); }

static cr_status parse_brackets(lexer *x, cr_rule **out)
{
    cr_rule *args[3];
    const char *name;
    bool filters;

    CR_TRY(lex_next(x));
    if (!is_each(x)) {
        CR_TRY(rule_new(x, out, CR_RULE_LIST, NULL));
        return parse_list(x, *out, "]");
    }
    CR_TRY(lex_name(x, &name));
    CR_TRY(lex_next(x)); /* in */
    CR_TRY(rule_parse(x, &args[0]));
    CR_TRY(lex_take(x, "if", &filters));
    if (filters)
        CR_TRY(rule_parse(x, &args[2]));
    CR_TRY(lex_expect(x, ":"));
    CR_TRY(rule_parse(x, &args[1]));
    CR_TRY(lex_expect(x, "]"));
    CR_TRY(rule_new(x, out, CR_RULE_EACH, name));
    return set_args(x, *out, args, NULL, filters ? 3 : 2);
}

cr_status lex_dotted(lexer *x, const char **out)
{
    const char *from = x->text, *overload;

    CR_TRY(lex_name(x, out));
    if (!lex_is(x, "."))
        return CR_OK;
    CR_TRY(lex_next(x));
    size_t len = (size_t)(x->text + x->len - from);
    CR_TRY(lex_name(x, &overload));
    return lex_keep(x, from, len, out);
}

static cr_status parse_rule_name(lexer *x, cr_rule **out)
{
    const char *name;

    CR_TRY(lex_dotted(x, &name));
    if (!strcmp(name, "None"))
        return rule_new(x, out, CR_RULE_NONE, name);
    if (!strcmp(name, "True") || !strcmp(name, "False")) {
        CR_TRY(rule_new(x, out, CR_RULE_BOOL, name));
        (*out)->integer = name[0] == 'T';
        return CR_OK;
    }
    if (!lex_is(x, "("))
        return rule_new(x, out, CR_RULE_NAME, name);
    CR_TRY(rule_new(x, out, CR_RULE_CALL, name));
    CR_TRY(lex_next(x));
    return parse_list(x, *out, ")");
}

static cr_status parse_number(lexer *x, cr_rule **out)
{
    CR_TRY(rule_new(x, out, x->kind == TOKEN_INT ? CR_RULE_INT : CR_RULE_FLOAT, NULL));
    if (x->kind == TOKEN_INT)
        (*out)->integer = x->integer;
    else
        (*out)->number = x->number;
    return lex_next(x);
}

static cr_status parse_primary(lexer *x, cr_rule **out)
{
    if (x->kind == TOKEN_NAME)
        return parse_rule_name(x, out);
    if (x->kind == TOKEN_INT || x->kind == TOKEN_FLOAT)
        return parse_number(x, out);
    if (x->kind == TOKEN_STRING) {
        CR_TRY(rule_new(x, out, CR_RULE_STRING, x->text));
        return lex_next(x);
    }
    if (lex_is(x, "["))
        return parse_brackets(x, out);
    CR_TRY(lex_expect(x, "("));
    CR_TRY(rule_parse(x, out));
    return lex_expect(x, ")");
}

static cr_status parse_index(lexer *x, cr_rule **out)
{
    cr_rule *args[MOST_ARGS] = {*out};
    int n = 1;
    bool more = true;

    CR_TRY(lex_next(x));
    while (more) {
        if (n == MOST_ARGS)
            return lex_error(x, "more than %d indices", MOST_ARGS - 1);
        CR_TRY(rule_parse(x, &args[n++]));
        CR_TRY(lex_take(x, ",", &more));
    }
    CR_TRY(lex_expect(x, "]"));
    CR_TRY(rule_new(x, out, CR_RULE_INDEX, NULL));
    return set_args(x, *out, args, NULL, n);
}

static cr_status parse_postfix(lexer *x, cr_rule **out)
{
    CR_TRY(parse_primary(x, out));
    while (lex_is(x, "["))
        CR_TRY(parse_index(x, out));
    return CR_OK;
}

static cr_status parse_infix(lexer *x, cr_rule **out, int level);

static cr_status parse_unary(lexer *x, cr_rule **out)
{
    bool minus = lex_is(x, "-"), inverse = lex_is(x, "not");
    cr_rule *inner;

    if (!minus && !inverse)
        return parse_postfix(x, out);
    CR_TRY(lex_next(x));
    CR_TRY(parse_infix(x, &inner, minus ? LEVEL_UNARY : 3));
    if (minus && inner->kind == CR_RULE_INT)
        inner->integer = -inner->integer;
    else if (minus && inner->kind == CR_RULE_FLOAT)
        inner->number = -inner->number;
    else
        return make_call_rule(x, out, minus ? "neg" : "not", inner, NULL);
    *out = inner;
    return CR_OK;
}

/* The operator at `x`, of at least this level; CR_LEN(infix) if there is none. */
static size_t infix_at(const lexer *x, int level)
{
    size_t i = 0;

    /* most expressions end at one of these signs */
    if (x->kind != TOKEN_SIGN && x->kind != TOKEN_NAME)
        return CR_LEN(infix);
    if (strchr(",)]:?", *x->text))
        return CR_LEN(infix);
    while (i < CR_LEN(infix) && !(infix[i].level >= level && lex_is(x, infix[i].sign)))
        i++;
    return i;
}

static cr_status parse_infix(lexer *x, cr_rule **out, int level)
{
    CR_TRY(parse_unary(x, out));
    for (;;) {
        size_t i = infix_at(x, level);
        if (i == CR_LEN(infix))
            return CR_OK;
        cr_rule *right;
        CR_TRY(lex_next(x));
        /* `**` binds to the right and takes a unary minus on its right. */
        CR_TRY(parse_infix(x, &right, infix[i].level == 7 ? LEVEL_UNARY : infix[i].level + 1));
        CR_TRY(make_call_rule(x, out, infix[i].name, *out, right));
    }
}

cr_status rule_parse(lexer *x, cr_rule **out)
{
    cr_rule *args[3];
    bool choose;

    CR_TRY(parse_infix(x, out, 0));
    CR_TRY(lex_take(x, "?", &choose));
    if (!choose)
        return CR_OK;
    args[0] = *out;
    CR_TRY(rule_parse(x, &args[1]));
    CR_TRY(lex_expect(x, ":"));
    CR_TRY(rule_parse(x, &args[2]));
    CR_TRY(rule_new(x, out, CR_RULE_CHOOSE, NULL));
    return set_args(x, *out, args, NULL, 3);
}

static void print_rule_args(cr_text *out, const cr_rule *r)
{
    for (int i = 0; i < r->count; i++) {
        cr_text_put(out, i ? ", " : "");
        if (r->keyword[i])
            cr_text_printf(out, "%s=", r->keyword[i]);
        cr_rule_print(out, r->args[i]);
    }
}

static const char *infix_sign(const cr_rule *r)
{
    for (size_t i = 0; i < CR_LEN(infix); i++)
        if (r->count == 2 && !strcmp(r->name, infix[i].name))
            return infix[i].sign;
    return NULL;
}

static void print_rule_call(cr_text *out, const cr_rule *r)
{
    const char *sign = infix_sign(r);

    if (!sign) {
        cr_text_printf(out, "%s(", r->name);
        print_rule_args(out, r);
        cr_text_put(out, ")");
        return;
    }
    cr_text_put(out, "(");
    cr_rule_print(out, r->args[0]);
    cr_text_printf(out, " %s ", sign);
    cr_rule_print(out, r->args[1]);
    cr_text_put(out, ")");
}

/* --- the domain: texts, to whose end each part is appended --- */

static cr_status text_part(void *in, const cr_rule *r, void *out)
{
    (void)in;
    cr_rule_print(out, r);
    return CR_OK;
}

static cr_status text_constant(void *in, cr_value v, void *out)
{
    (void)in;
    if (v.tag == CR_INT)
        cr_text_printf(out, "%lld", (long long)v.i);
    else if (v.tag == CR_FLOAT)
        cr_text_printf(out, "%.17g", v.d);
    else if (v.tag == CR_STRING)
        cr_text_printf(out, "\"%s\"", v.s);
    else
        cr_text_put(out, v.tag == CR_NONE ? "None" : v.i ? "True" : "False");
    return CR_OK;
}

static cr_status text_name(void *in, const cr_rule *r, void *out)
{
    (void)in;
    cr_text_put(out, r->name);
    return CR_OK;
}

static cr_status text_call(void *in, const cr_rule *r, void *out)
{
    (void)in;
    print_rule_call(out, r);
    return CR_OK;
}

static cr_status text_list(void *in, const cr_rule *r, void *out)
{
    (void)in;
    cr_text_put(out, "[");
    print_rule_args(out, r);
    cr_text_put(out, "]");
    return CR_OK;
}

static cr_status text_each(void *in, const cr_rule *r, void *out)
{
    (void)in;
    cr_text_printf(out, "[%s in ", r->name);
    cr_rule_print(out, r->args[0]);
    if (r->count > 2) {
        cr_text_put(out, " if ");
        cr_rule_print(out, r->args[2]);
    }
    cr_text_put(out, ": ");
    cr_rule_print(out, r->args[1]);
    cr_text_put(out, "]");
    return CR_OK;
}

static cr_status text_index(void *in, const cr_rule *r, void *out)
{
    (void)in;
    cr_rule_print(out, r->args[0]);
    for (int i = 1; i < r->count; i++) {
        cr_text_put(out, i > 1 ? ", " : "[");
        cr_rule_print(out, r->args[i]);
    }
    cr_text_put(out, "]");
    return CR_OK;
}

/* The condition has been appended. */
static cr_status text_branches(void *in, const cr_rule *r, void *out)
{
    (void)in;
    cr_text_put(out, " ? ");
    cr_rule_print(out, r->args[1]);
    cr_text_put(out, " : ");
    cr_rule_print(out, r->args[2]);
    cr_text_put(out, ")");
    return CR_OK;
}

static const cr_rule_domain texts = {.eval = text_part,
                                     .constant = text_constant,
                                     .name = text_name,
                                     .call = text_call,
                                     .list = text_list,
                                     .each = text_each,
                                     .index = text_index,
                                     .either = text_branches};

void cr_rule_print(cr_text *out, const cr_rule *r)
{
    if (r->kind == CR_RULE_CHOOSE)
        cr_text_put(out, "(");
    cr_rule_eval(&texts, NULL, r, out);
}
