/* number.h - numbers that a graph reads when it runs.
 *
 * A recording may take numbers and sizes as symbols.  A symbol is an entry of its graph's list
 * of numbers: an input, the size of a value along a dimension, or arithmetic of earlier entries
 * in Python's meaning.  In arguments a symbol stands where an integer or a float would: integers
 * just below CR_DIM_SYMBOLS and one family of NaNs are symbols, so that arguments need no other form.
 * Such values exist between the caller and the recording stage and in graphs; operators never
 * see them.
 *
 * What the program asked of a symbol and was answered for the value at hand is a guard. */
#ifndef CR_GRAPH_NUMBER_H
#define CR_GRAPH_NUMBER_H

#include "num/dtype.h"
#include "sym/dim.h"
#include <string.h>

struct cr_gvalue;

typedef enum {
    CR_GNUM_INPUT, /* number a of the call */
    CR_GNUM_SIZE,  /* of value `of` along dimension a */
    CR_GNUM_CONST, /* value */
    CR_GNUM_ADD, CR_GNUM_SUB, CR_GNUM_MUL, CR_GNUM_DIV, CR_GNUM_FLOORDIV, CR_GNUM_MOD, CR_GNUM_POW,
    CR_GNUM_NEG, CR_GNUM_ABS,
    CR_GNUM_FN_COUNT
} cr_gnum_fn;

typedef struct {
    uint8_t fn; /* cr_gnum_fn */
    int a, b;   /* of arithmetic: earlier numbers */
    const struct cr_gvalue *of;
    cr_scalar value; /* as seen when it was recorded: an int or a float */
} cr_gnumber;

typedef enum { CR_GNUM_EQ, CR_GNUM_LT, CR_GNUM_LE, CR_GNUM_TEST_COUNT } cr_gnum_test;
typedef struct {
    uint8_t test; /* cr_gnum_test */
    bool holds;
    int a, b;
} cr_gnum_guard;

/* The whole of a graph's numbers. */
typedef struct {
    struct { size_t len, cap; cr_gnumber *at; } list;
    struct { size_t len, cap; cr_gnum_guard *at; } guards;
    int inputs;
} cr_gnumbers;

/* Their names in text: of arithmetic (NULL: the others), and signs. */
extern const char *const cr_gnum_fn_name[CR_GNUM_FN_COUNT];
extern const char *const cr_gnum_test_name[CR_GNUM_TEST_COUNT];
static inline bool cr_gnum_is_unary(cr_gnum_fn fn) { return fn == CR_GNUM_NEG || fn == CR_GNUM_ABS; }

/* --- symbols in arguments --- */
enum { CR_GNUM_MOST = 1 << 24 }; /* symbols of a graph; integers beyond are integers again */
#define CR_GNUM_NAN UINT64_C(0xfff9c5e500000000)

static inline int64_t cr_gnum_as_int(int k) { return CR_DIM_SYMBOLS - 1 - k; }
static inline bool cr_gnum_is_int(int64_t i)
{
    return i < CR_DIM_SYMBOLS && i >= CR_DIM_SYMBOLS - CR_GNUM_MOST;
}
static inline int cr_gnum_of_int(int64_t i) { return (int)(CR_DIM_SYMBOLS - 1 - i); }

static inline double cr_gnum_as_float(int k)
{
    uint64_t bits = CR_GNUM_NAN | (uint32_t)k;
    double d;

    memcpy(&d, &bits, sizeof d);
    return d;
}
static inline bool cr_gnum_is_float(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof bits);
    return (bits & UINT64_C(0xffffffff00000000)) == CR_GNUM_NAN;
}
static inline int cr_gnum_of_float(double d)
{
    uint64_t bits;

    memcpy(&bits, &d, sizeof bits);
    return (int)(uint32_t)bits;
}
/* The symbol of a scalar, or -1. */
static inline int cr_gnum_of(cr_scalar s)
{
    if (s.category == CR_CAT_INT)
        return cr_gnum_is_int(s.i) ? cr_gnum_of_int(s.i) : -1;
    return s.category == CR_CAT_FLOAT && cr_gnum_is_float(s.d) ? cr_gnum_of_float(s.d) : -1;
}
/* A symbol of that category as a scalar. */
static inline cr_scalar cr_gnum_scalar(int k, cr_scalar like)
{
    return like.category == CR_CAT_FLOAT ? cr_scalar_float(cr_gnum_as_float(k)) : cr_scalar_int(cr_gnum_as_int(k));
}

/* --- values --- */
/* Arithmetic as Python has it.  False: no value (division by zero, an integer out of range). */
bool cr_gnum_apply(cr_gnum_fn fn, cr_scalar a, cr_scalar b, cr_scalar *out);
bool cr_gnum_compare(cr_gnum_test test, cr_scalar a, cr_scalar b);
/* All numbers from those of a call; sizes are out[k] already.  False as above. */
bool cr_gnum_evaluate(const cr_gnumbers *n, const cr_scalar *input, cr_scalar *out);
bool cr_gnum_guards_hold(const cr_gnumbers *n, const cr_scalar *value);

#endif
