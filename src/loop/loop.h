/* loop.h - the loop IR: values over index spaces, before and after scheduling.
 *
 * A program is a list of definitions in order,
 *
 *     m[i<R] = maximum[j<C](x[i, j])
 *     y[i<R, j<C] = exp(x[i, j] - m[i])
 *
 * each of which gives every element of one buffer.  An index is an integer expression over the
 * axes, or `$` and a value that is computed: y[i<P, j<C] = x[$ids[i], j].  Only the chosen
 * argument of `where` is read, so a condition guards the loads beside it.
 *
 * A reduction by `above` or `below` keeps the index of its value:
 *
 *     k[i<R] = index(above[j<C](x[i, j]))
 *
 * A scan gives each element of a line the fold of the elements up to it; its axis is an axis of
 * the definition, which it does not bind.  scan_back goes from the last element to the first.
 *
 *     y[i<R, j<C] = scan add[j<C](x[i, j])
 *
 * Expressions are hash-consed in the program's session.  A reduction binds its axis and has the
 * fixed order of num/order.h; no pass may change it.  Scheduling makes a nest (nest.h) of a
 * program, and emit/ prints nests.
 *
 * Functions that make expressions bail from the session (sym/session.h) on an error. */
#ifndef CR_LOOP_LOOP_H
#define CR_LOOP_LOOP_H

#include "loop/fn.h"
#include "num/view.h"
#include "sym/sym.h"

enum { CR_LOOP_DIMS = 8 };

typedef enum {
    CR_BUFFER_INPUT,
    CR_BUFFER_OUTPUT,
    CR_BUFFER_LOCAL /* defined and read inside the program only */
} cr_buffer_role;

typedef struct {
    const char *name;
    uint8_t dtype; /* cr_dtype */
    uint8_t role;  /* cr_buffer_role */
    bool flexible; /* input of a pointwise program: may have column stride 0 */
    int ndim;
    const cr_sym *size[CR_LOOP_DIMS];
    int slot; /* operand number in its role */
} cr_buffer;

typedef struct {
    const cr_sym *index, *extent; /* a name in [0, extent) */
} cr_axis;

typedef struct {
    const char *name;
    uint8_t dtype;
    int slot; /* at param + slot * CR_PARAM_BYTES */
} cr_loop_param;

typedef enum {
    CR_EXPR_CONST,   /* value */
    CR_EXPR_PARAM,   /* param */
    CR_EXPR_LOAD,    /* buffer at index[0..ndim); computed indices are args */
    CR_EXPR_INTEGER, /* the integer expression index[0] as a number */
    CR_EXPR_CALL,    /* fn(args) */
    CR_EXPR_REDUCE,  /* fn over axis of args[0] */
    CR_EXPR_SCAN,    /* fn of args[0] from an end of axis, an axis in scope, to the place at
                      * hand */
    CR_EXPR_INDEX_OF /* the index that args[0], a reduction or scan by above or below, keeps */
} cr_expr_kind;

typedef struct cr_expr cr_expr;
struct cr_expr {
    uint8_t kind;  /* cr_expr_kind */
    uint8_t dtype; /* cr_dtype; BOOL is a truth value */
    uint8_t fn;    /* cr_fn */
    uint8_t count;
    bool back;   /* SCAN: from the last element to the first */
    unsigned id; /* in order of making: arguments come before their users */
    const cr_expr *args[3];
    cr_scalar value;
    const cr_loop_param *param;
    const cr_buffer *buffer;
    const cr_sym *index[CR_LOOP_DIMS];
    cr_axis axis;
    const cr_expr *next; /* in its hash chain */
};

typedef struct {
    cr_buffer *target;
    int axes;
    cr_axis axis[CR_LOOP_DIMS];
    const cr_expr *value;
} cr_def;

/* A loop program.
 * Invariant: equal expressions are one node of `chain`. A definition reads parameters,
 * buffers that are inputs, and buffers that earlier definitions fill. */
typedef struct {
    cr_session *session;
    cr_syms *syms;
    const cr_expr **chain;
    size_t chains, nodes;
    CR_VEC(cr_buffer *) buffers;
    CR_VEC(cr_loop_param *) params;
    CR_VEC(cr_def *) defs;
    const char *name, *origin; /* of the kernel: "silu", "activation.op:12 silu" */
} cr_loop;

cr_loop *cr_loop_new(cr_session *s);

/* Declarations; a name is declared once. */
cr_buffer *cr_loop_buffer(cr_loop *l, cr_buffer_role role, const char *name, cr_dtype t,
                          int ndim, const cr_sym *const *size);
cr_buffer *cr_loop_find_buffer(const cr_loop *l, const char *name);
cr_loop_param *cr_loop_param_new(cr_loop *l, const char *name, cr_dtype t, int slot);
cr_loop_param *cr_loop_find_param(const cr_loop *l, const char *name);
/* Appends target[axes] = value; axes are names with extents. */
cr_def *cr_loop_define(cr_loop *l, cr_buffer *target, int axes, const cr_axis *axis,
                       const cr_expr *value);
/* Operand numbers, outputs first then inputs, in order of declaration.  Bails with CR_VALUE if
 * there are more than `most`. */
int cr_loop_operands(cr_loop *l, cr_buffer **out, int most);

/* Expressions. */
const cr_expr *cr_expr_const(cr_loop *l, cr_dtype t, cr_scalar value);
const cr_expr *cr_expr_number(cr_loop *l, cr_dtype t, double value);
const cr_expr *cr_expr_integer(cr_loop *l, cr_dtype t, const cr_sym *value);
const cr_expr *cr_expr_param(cr_loop *l, const cr_loop_param *param);
const cr_expr *cr_expr_load(cr_loop *l, const cr_buffer *b, const cr_sym *const *index);
/* A load with computed indices: where index[k] is NULL, the index is the next of `at`, which
 * are values of an integer type. */
const cr_expr *cr_expr_load_at(cr_loop *l, const cr_buffer *b, const cr_sym *const *index,
                               const cr_expr *const *at);
/* The computed index of dim k of a load; NULL when it is the integer expression index[k]. */
const cr_expr *cr_load_computed(const cr_expr *load, int k);
/* True when a load has a computed index: its place follows from values. */
static inline bool cr_expr_is_indexed(const cr_expr *e)
{
    return e->kind == CR_EXPR_LOAD && e->count > 0;
}
/* A call; argument types agree.  A function that is not elementary for bools, integers or
 * complex numbers is replaced by its meaning there (maximum of bools is `or`).  CR_TYPE when
 * the function does not exist for the type. */
const cr_expr *cr_expr_call(cr_loop *l, cr_fn fn, int count, const cr_expr *const *args);
const cr_expr *cr_expr_cast(cr_loop *l, cr_dtype t, const cr_expr *a);
const cr_expr *cr_expr_reduce(cr_loop *l, cr_fn fn, cr_axis axis, const cr_expr *a);
/* The scan of `a` along an axis in scope.  Sums and products have running values of
 * type cr_scan_running and the order of num/order.h; of equal extremes the last counts. */
const cr_expr *cr_expr_scan(cr_loop *l, cr_fn fn, bool back, cr_axis axis, const cr_expr *a);
cr_dtype cr_scan_running(cr_fn fn, cr_dtype t);
/* The int64 index, along the axis of the reduction or scan, of the element that is its
 * value. */
const cr_expr *cr_expr_index_of(cr_loop *l, const cr_expr *reduce);
/* `like` with other arguments. */
const cr_expr *cr_expr_with(cr_loop *l, const cr_expr *like, const cr_expr *const *args);
/* True when the result of a reduction depends on the order of its elements (num/order.h). */
bool cr_fn_has_order(cr_fn fn, cr_dtype t);
/* True for `above` and `below`.  The value of such a reduction is its first element that no
 * other element is beyond, bit for bit; the reduction keeps the element's index.  The axis is
 * not empty. */
bool cr_fn_keeps_index(cr_fn fn);
/* The reduction without an index that has the same value: maximum for `above`, minimum for
 * `below`.  A NaN may have other bits. */
cr_fn cr_fn_without_index(cr_fn fn, cr_dtype t);
static inline bool cr_expr_keeps_index(const cr_expr *e)
{
    return e->kind == CR_EXPR_REDUCE && cr_fn_keeps_index((cr_fn)e->fn);
}
/* True for the index of a scan's values, which is another one in each column. */
static inline bool cr_expr_is_scan_index(const cr_expr *e)
{
    return e->kind == CR_EXPR_INDEX_OF && e->args[0]->kind == CR_EXPR_SCAN;
}
/* The start value of a reduction. */
cr_scalar cr_fn_identity(cr_fn fn, cr_dtype t);

static inline const cr_expr *cr_expr_call1(cr_loop *l, cr_fn fn, const cr_expr *a)
{
    return cr_expr_call(l, fn, 1, &a);
}
static inline const cr_expr *cr_expr_call2(cr_loop *l, cr_fn fn, const cr_expr *a,
                                           const cr_expr *b)
{
    return cr_expr_call(l, fn, 2, (const cr_expr *[]){a, b});
}
static inline const cr_expr *cr_expr_call3(cr_loop *l, cr_fn fn, const cr_expr *a,
                                           const cr_expr *b, const cr_expr *c)
{
    return cr_expr_call(l, fn, 3, (const cr_expr *[]){a, b, c});
}

/* A set of expressions, for walks that visit each once. */
typedef struct {
    uint64_t *bits;
    size_t words;
} cr_expr_set;
cr_expr_set cr_expr_set_new(const cr_loop *l);
bool cr_expr_set_add(cr_expr_set *set,
                     const cr_expr *e); /* false when it was already in the set */
bool cr_expr_set_has(const cr_expr_set *set, const cr_expr *e);
/* How many values under `in`, of those that are not in `seen`, read the value of `e`. */
int cr_expr_readers(cr_expr_set *seen, const cr_expr *in, const cr_expr *e);

/* --- passes, one a file --- */

/* Replaces every expression by fn(l, expression), after its arguments. */
typedef const cr_expr *(*cr_expr_fn)(cr_loop *l, const cr_expr *e);
void cr_loop_rewrite(cr_loop *l, cr_expr_fn fn);
/* Rewrites that are exact for every value, signed zeros, infinities and NaN included. */
void cr_loop_simplify(cr_loop *l);
/* Turns sums with products into fused multiply-adds, which changes bits. */
void cr_loop_contract(cr_loop *l);
/* Substitutes locals where they are read; only definitions of outputs remain. */
void cr_loop_fuse(cr_loop *l);
/* Passes over a group of operators before it is scheduled: verify, simplify, fuse. */
void cr_loop_fuse_whole(cr_loop *l);
/* Bails with CR_RUNTIME when an invariant does not hold. */
void cr_loop_verify(cr_loop *l);
void cr_loop_print(cr_text *out, const cr_loop *l);
void cr_expr_print(cr_text *out, const cr_expr *e);
/* Reads a program; bails with CR_VALUE and "line N: ...". */
cr_loop *cr_loop_parse(cr_session *s, const char *text);

#endif
