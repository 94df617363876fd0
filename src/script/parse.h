/* parse.h - what the files of the parser share: the tokens that are left, and the parts of the
 * grammar that another file needs. */
#ifndef CR_SCRIPT_PARSE_H
#define CR_SCRIPT_PARSE_H

#include "script/lex.h"

typedef struct {
    cr_session *session;
    const cr_ssource *source;
    cr_stokens tokens;
    size_t at;
    int depth;
} parser;

typedef CR_VEC(cr_sast *) parse_list;

/* --- tokens and nodes (parse.c) --- */
/* The next token, behind type comments. */
const cr_stoken *parse_token(parser *p);
const char *parse_text(const parser *p, const cr_stoken *t);
size_t parse_length(const cr_stoken *t);
bool parse_is(parser *p, const char *word);
/* True when the token after the next one is `word`. */
bool parse_is_second(parser *p, const char *word);
/* Reads `word` when it is next. */
bool parse_take(parser *p, const char *word);
/* Bails with torch's text for an unexpected token. */
CR_NORETURN void parse_expected(parser *p, const char *what);
/* Reads `word`, or bails. */
void parse_want(parser *p, const char *word);
bool parse_take_kind(parser *p, cr_stoken_kind kind);
/* The type comment at this place, or just before it, or NULL. */
const cr_stoken *parse_type_comment(parser *p);
void parse_add(parser *p, parse_list *list, cr_sast *a);
/* Where the last token that was read ends. */
uint32_t parse_last_end(const parser *p);
/* Sets the end of torch's mark of an attribute. */
void parse_mark_attribute(cr_sast *a);
/* A node from `start` to the last token that was read. */
cr_sast *parse_node(parser *p, cr_sast_kind kind, uint32_t start, const parse_list *list);
cr_sast *parse_node_of(parser *p, cr_sast_kind kind, uint32_t start, int count,
                       cr_sast **child);
#define PARSE_NODE(p, kind, start, ...)                                                        \
    parse_node_of(p, CR_SAST_##kind, start, (int)CR_LEN(((cr_sast *[]){__VA_ARGS__})),         \
                  (cr_sast *[]){__VA_ARGS__})
cr_sast *parse_with_text(parser *p, cr_sast *a, const char *text, size_t len);
cr_sast *parse_token_node(parser *p, cr_sast_kind kind);
/* One more nested construct; bails when there are too many. */
void parse_deeper(parser *p);
bool parse_is_keyword(parser *p);
cr_sast *parse_name(parser *p);
/* An expression in part of the text; *stop, unless NULL: where it ended. */
cr_sast *parse_part(parser *p, uint32_t start, uint32_t end, uint32_t *stop);

/* --- literals (parse_literal.c) --- */
/* Adjacent literals are one. */
cr_sast *parse_strings(parser *p);

/* --- expressions and parameters (parse_expression.c) --- */
cr_sast *parse_star_or_named(parser *p);
/* True where an expression cannot go on. */
bool parse_at_end(parser *p);
/* a, b, ... without brackets: a tuple when there is a comma. */
cr_sast *parse_tests(parser *p);
/* The target of a for. */
cr_sast *parse_target(parser *p);
cr_sast *parse_list_display(parser *p);
cr_sast *parse_yield(parser *p);
/* The arguments of a call of `function`. */
cr_sast *parse_call(parser *p, cr_sast *function);
/* Operators whose precedence is at least `least`. */
cr_sast *parse_binary(parser *p, int least);
cr_sast *parse_test(parser *p);
cr_sast *parse_comment_type(parser *p, const cr_stoken *t);
cr_sast *parse_params(parser *p, const char *end, bool typed);

/* --- statements (parse_statement.c) --- */
/* The statements after a colon.  *comment: the type comment before them. */
cr_sast *parse_body_after(parser *p, const cr_stoken **comment);
cr_sast *parse_body(parser *p);
void parse_statement(parser *p, parse_list *out);

/* --- functions and classes (parse_define.c) --- */
/* def f[T](...): the type parameters are skipped. */
void parse_type_params(parser *p);
/* A function or class with its decorators. */
cr_sast *parse_decorated(parser *p);

#endif
