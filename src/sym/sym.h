/* sym.h - integer expressions over names: sizes, indices, strides.
 *
 * Expressions are canonical and hash-consed.  Equal polynomials are one node, so comparing
 * pointers decides the equality of sums and products of the same atoms.  A node has bounds of
 * its value.  Nodes live in the session of their table.
 *
 *   x*y + 2*x - 3    sums of products; terms in order of first creation
 *   a // b, a % b    floor division and its remainder, b > 0
 *   min(a, b), max(a, b)
 *   a / b            a fraction, which only texts have: it has no value */
#ifndef CR_SYM_SYM_H
#define CR_SYM_SYM_H

#include "base/text.h"
#include "sym/session.h"

typedef enum {
    CR_SYM_INT,      /* integer */
    CR_SYM_NAME,     /* name, within [low, high] */
    CR_SYM_ADD,      /* args: products and at most one integer, which is last */
    CR_SYM_MUL,      /* args: at most one integer, which is first, then atoms */
    CR_SYM_FLOORDIV, /* args[0] // args[1] */
    CR_SYM_MOD,
    CR_SYM_MIN,
    CR_SYM_MAX,
    CR_SYM_FRACTION
} cr_sym_kind;

typedef struct cr_sym cr_sym;
struct cr_sym {
    uint8_t kind; /* cr_sym_kind */
    unsigned id;  /* in order of creation */
    int count;
    const cr_sym *const *args;
    const char *name;
    int64_t integer;
    int64_t low, high;  /* CR_SYM_LOW and CR_SYM_HIGH when unknown */
    const cr_sym *next; /* next in the hash chain */
};

#define CR_SYM_LOW  (INT64_MIN / 4)
#define CR_SYM_HIGH (INT64_MAX / 4)

/* The expressions of one session. */
typedef struct {
    cr_session *session;
    const cr_sym **chain;
    size_t chains, nodes;
} cr_syms;

cr_syms *cr_syms_new(cr_session *s);

const cr_sym *cr_sym_int(cr_syms *t, int64_t value);
/* The node of a name.  A name keeps the range of its first call. */
const cr_sym *cr_sym_name(cr_syms *t, const char *name, int64_t low, int64_t high);
/* The node of a name, or NULL when there is none. */
const cr_sym *cr_sym_find(cr_syms *t, const char *name);

const cr_sym *cr_sym_add(cr_syms *t, const cr_sym *a, const cr_sym *b);
const cr_sym *cr_sym_sub(cr_syms *t, const cr_sym *a, const cr_sym *b);
const cr_sym *cr_sym_mul(cr_syms *t, const cr_sym *a, const cr_sym *b);
/* Floor division.  Bails with CR_ARITHMETIC when b is the integer zero. */
const cr_sym *cr_sym_floordiv(cr_syms *t, const cr_sym *a, const cr_sym *b);
const cr_sym *cr_sym_mod(cr_syms *t, const cr_sym *a, const cr_sym *b);
const cr_sym *cr_sym_min(cr_syms *t, const cr_sym *a, const cr_sym *b);
const cr_sym *cr_sym_max(cr_syms *t, const cr_sym *a, const cr_sym *b);
const cr_sym *cr_sym_fraction(cr_syms *t, const cr_sym *a, const cr_sym *b);

/* The answer of a comparison. */
typedef enum { CR_SYM_NO, CR_SYM_YES, CR_SYM_UNKNOWN } cr_sym_answer;
cr_sym_answer cr_sym_lt(cr_syms *t, const cr_sym *a, const cr_sym *b);
cr_sym_answer cr_sym_le(cr_syms *t, const cr_sym *a, const cr_sym *b);

/* `e` with `name` replaced by `by`. */
const cr_sym *cr_sym_replace(cr_syms *t, const cr_sym *e, const cr_sym *name, const cr_sym *by);
bool cr_sym_uses(const cr_sym *e, const cr_sym *name);

/* The value of `e`, with values of names from value(context, name).  Overflow and division by
 * zero give 0 and set *wrong. */
typedef int64_t (*cr_sym_value_fn)(void *context, const cr_sym *name);
int64_t cr_sym_eval(const cr_sym *e, cr_sym_value_fn value, void *context, bool *wrong);

void cr_sym_print(cr_text *out, const cr_sym *e);
/* Parses an expression at *text and advances *text.  New names get the range [0, CR_SYM_HIGH].
 * Bails with CR_VALUE. */
const cr_sym *cr_sym_parse(cr_syms *t, const char **text);

#endif
