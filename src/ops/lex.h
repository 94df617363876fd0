/* lex.h - tokens of the table text.  Inside ops/ only. */
#ifndef CR_OPS_LEX_H
#define CR_OPS_LEX_H

#include "base/map.h"
#include "base/memory.h"
#include <string.h>

typedef enum {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_STRING,
    TOKEN_SIGN
} token_kind;

/* A reading position with one token of look-ahead. */
typedef struct {
    const char *file, *at, *end;
    int line;
    cr_arena *arena;
    cr_map *names; /* those in the arena, which has each of them once; or NULL */
    token_kind kind;
    const char *text; /* NAME, SIGN: in the source; STRING: in the arena */
    size_t len;
    int64_t integer;
    double number;
} lexer;

/* Starts at the first token of [text, text+len).  Fails with CR_VALUE on a bad token. */
CR_MUST cr_status lex_start(lexer *x, const char *file, int line, const char *text, size_t len,
                            cr_arena *arena);
CR_MUST cr_status lex_next(lexer *x);
static inline bool lex_is(const lexer *x, const char *sign_or_name)
{
    return (x->kind == TOKEN_SIGN || x->kind == TOKEN_NAME) && *x->text == *sign_or_name &&
           strlen(sign_or_name) == x->len && !memcmp(x->text, sign_or_name, x->len);
}
/* True if the current token is followed by `text`, perhaps after blanks. */
bool lex_before(const lexer *x, const char *text);
/* Skips the token if it is `sign`, and sets *took. */
CR_MUST cr_status lex_take(lexer *x, const char *sign, bool *took);
CR_MUST cr_status lex_expect(lexer *x, const char *sign);
/* The current NAME as a string in the arena.  Skips the NAME. */
CR_MUST cr_status lex_name(lexer *x, const char **out);
/* The string in the arena. */
CR_MUST cr_status lex_keep(lexer *x, const char *text, size_t len, const char **out);
/* `max` or, naming an overload, `max.dim`. */
CR_MUST cr_status lex_dotted(lexer *x, const char **out);
cr_status lex_error(const lexer *x, const char *fmt, ...) CR_PRINTF(2, 3);

struct cr_rule;
CR_MUST cr_status rule_parse(lexer *x, struct cr_rule **out);
/* The line at which rule_parse made the rule. */
int rule_line(const struct cr_rule *r);
extern const char *rule_no_keywords[]; /* of all calls without keywords */

struct cr_op;
CR_MUST cr_status schema_parse(lexer *x, struct cr_op *op);
/* Reads the clause `aten`.  overload_imply sets the overloads of an entry without the
 * clause. */
CR_MUST cr_status overload_read(lexer *x, struct cr_op *op);
CR_MUST cr_status overload_imply(struct cr_op *op, cr_arena *arena);
/* Reads the clause `aten_out`.  overload_imply_out finds the overloads that the clause names,
 * or sets those of an entry without it. */
CR_MUST cr_status overload_read_out(lexer *x, struct cr_op *op);
CR_MUST cr_status overload_imply_out(struct cr_op *op, cr_arena *arena);
/* The overloads of an in-place form: those overloads of its entry whose self is a tensor. */
CR_MUST cr_status overload_imply_inplace(struct cr_op *made, cr_arena *arena);
/* Adds the in-place form of an entry. */
CR_MUST cr_status ops_add_inplace(struct cr_op *op);
/* Resolves the rules of one entry. */
CR_MUST cr_status ops_resolve_one(struct cr_op *op);
/* Reserves room for all records, so that entries which programs add move none of them. */
CR_MUST cr_status ops_reserve(void);

#endif
