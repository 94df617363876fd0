/* dim.h - sizes that are plain integers, or symbols while shapes are traced.
 *
 * A cr_dim is an int64_t.  A plain size is its own value.  A value below CR_DIM_SYMBOLS is a
 * symbol: an integer expression of the calling thread's context.  Shape rules are written once
 * with these functions, which cost one comparison for plain sizes.
 *
 * A symbol has a hint, the recorded size.  A comparison that cannot be decided for all sizes is
 * decided for the hint and stored as a guard of the context.  Results are valid wherever all
 * guards hold. */
#ifndef CR_SYM_DIM_H
#define CR_SYM_DIM_H

#include "base/integer.h"
#include "base/text.h"
#include "sym/sym.h"

typedef int64_t cr_dim;
#define CR_DIM_SYMBOLS (INT64_MIN / 2)

typedef struct cr_dims cr_dims;

CR_MUST cr_status cr_dims_new(cr_dims **out);
void cr_dims_drop(cr_dims *d);
/* Sets the calling thread's context, or none (NULL).  Returns the earlier one. */
cr_dims *cr_dims_use(cr_dims *d);
/* Returns the first failure in the context since the last call of this function.  Results
 * computed after a failure are meaningless. */
CR_MUST cr_status cr_dims_status(cr_dims *d);

/* A size that may have any value from `low` on, recorded as `hint`.  A context must be set.
 * The name is copied; the same name gives the same symbol. */
cr_dim cr_dim_symbol(const char *name, int64_t hint, int64_t low);

static inline bool cr_dim_is_symbol(cr_dim a) { return CR_UNLIKELY(a < CR_DIM_SYMBOLS); }
static inline bool cr_dim_any_symbol(cr_dim a, cr_dim b)
{
    return CR_UNLIKELY(a < CR_DIM_SYMBOLS || b < CR_DIM_SYMBOLS);
}

/* The slow paths, for symbols. */
typedef enum {
    CR_DIM_ADD,
    CR_DIM_SUB,
    CR_DIM_MUL,
    CR_DIM_FLOORDIV,
    CR_DIM_MOD,
    CR_DIM_MIN,
    CR_DIM_MAX
} cr_dim_fn;
typedef enum { CR_DIM_EQ, CR_DIM_LT, CR_DIM_LE } cr_dim_test;
cr_dim cr_dim_symbolic(cr_dim_fn fn, cr_dim a, cr_dim b);
bool cr_dim_guard(cr_dim_test test, cr_dim a, cr_dim b);

static inline cr_dim cr_dim_add(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_symbolic(CR_DIM_ADD, a, b) : a + b;
}
static inline cr_dim cr_dim_sub(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_symbolic(CR_DIM_SUB, a, b) : a - b;
}
static inline cr_dim cr_dim_mul(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_symbolic(CR_DIM_MUL, a, b) : a * b;
}
/* Rounds down.  b must not be zero. */
static inline cr_dim cr_dim_floordiv(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_symbolic(CR_DIM_FLOORDIV, a, b)
                                   : cr_floor_div(a, b);
}
static inline cr_dim cr_dim_mod(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_symbolic(CR_DIM_MOD, a, b)
                                   : a - b * cr_floor_div(a, b);
}
static inline cr_dim cr_dim_min(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_symbolic(CR_DIM_MIN, a, b) : a < b ? a : b;
}
static inline cr_dim cr_dim_max(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_symbolic(CR_DIM_MAX, a, b) : a > b ? a : b;
}

/* Comparisons.  The answer for symbols may become a guard. */
static inline bool cr_dim_eq(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_guard(CR_DIM_EQ, a, b) : a == b;
}
static inline bool cr_dim_lt(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_guard(CR_DIM_LT, a, b) : a < b;
}
static inline bool cr_dim_le(cr_dim a, cr_dim b)
{
    return cr_dim_any_symbol(a, b) ? cr_dim_guard(CR_DIM_LE, a, b) : a <= b;
}

/* The recorded size, without a guard.  For decisions that do not affect results. */
int64_t cr_dim_hint(cr_dim a);
/* The expression in the context's table, also for integers; NULL after a failure. */
const cr_sym *cr_dim_expression(cr_dim a);
/* The size of an expression of the context's table. */
cr_dim cr_dim_of(const cr_sym *e);
/* Appends a text such as "3*s0 + 1". */
void cr_dim_print(cr_text *out, cr_dim a);

/* --- guards --- */

/* A comparison between expressions and its answer. */
typedef struct {
    uint8_t test; /* cr_dim_test */
    bool holds;
    const cr_sym *left, *right;
} cr_dim_relation;

int cr_dims_guard_count(const cr_dims *d);
/* True when all guards hold for the values value(context, name). */
bool cr_dims_guards_hold(const cr_dims *d, cr_sym_value_fn value, void *context);
/* Appends "s0 == s1 and s2 < 8"; "True" when there are no guards. */
void cr_dims_print_guards(cr_text *out, const cr_dims *d);

#endif
