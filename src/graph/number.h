/* number.h - numbers that a graph reads when it runs.
 *
 * A recording may treat numbers and sizes as symbols.  A symbol is an entry of its graph's list
 * of numbers: an input, the size of a value along a dim, or arithmetic on earlier entries with
 * Python's semantics.  Arguments encode symbols as integers and floats: integers just below
 * CR_GNUM_SYMBOLS and one family of NaNs are symbols, so that arguments need no other form.
 * Such values exist between the caller and the recording stage, and in graphs.  Operators never
 * see them.
 *
 * A comparison of a symbol, with the answer for its present value, is a guard. */
#ifndef CR_GRAPH_NUMBER_H
#define CR_GRAPH_NUMBER_H

#include "base/memory.h"
#include "num/dtype.h"
#include <string.h>

struct cr_gvalue;

typedef enum {
    CR_GNUM_INPUT, /* number a of the call */
    CR_GNUM_SIZE,  /* of value `of` along dim a */
    CR_GNUM_CONST, /* value */
#define CR_GNUM(NAME, name) CR_GNUM_##NAME,
#include "graph/number.def"
#undef CR_GNUM
    CR_GNUM_FN_COUNT
} cr_gnum_fn;

typedef struct {
    uint8_t fn; /* cr_gnum_fn */
    int a, b;   /* arithmetic: indices of earlier numbers */
    const struct cr_gvalue *of;
    cr_scalar value; /* the recorded value: an int or a float */
} cr_gnumber;

typedef enum { CR_GNUM_EQ, CR_GNUM_LT, CR_GNUM_LE, CR_GNUM_TEST_COUNT } cr_gnum_test;
typedef struct {
    uint8_t test; /* cr_gnum_test */
    bool holds;
    int a, b;
} cr_gnum_guard;

/* All numbers of a graph. */
typedef struct {
    CR_VEC(cr_gnumber) list;
    CR_VEC(cr_gnum_guard) guards;
    int inputs;
} cr_gnumbers;

/* Their names in text: of arithmetic (NULL for others), and of comparisons. */
extern const char *const cr_gnum_fn_name[CR_GNUM_FN_COUNT];
extern const char *const cr_gnum_test_name[CR_GNUM_TEST_COUNT];
static inline bool cr_gnum_is_unary(cr_gnum_fn fn) { return fn >= CR_GNUM_NEG; }

/* --- symbols in arguments --- */
#define CR_GNUM_SYMBOLS (INT64_MIN / 2)
enum { CR_GNUM_MOST = 1 << 24 }; /* most symbols of a graph; other integers are plain */
#define CR_GNUM_NAN UINT64_C(0xfff9c5e500000000)

static inline int64_t cr_gnum_as_int(int k) { return CR_GNUM_SYMBOLS - 1 - k; }
static inline bool cr_gnum_is_int(int64_t i)
{
    return i < CR_GNUM_SYMBOLS && i >= CR_GNUM_SYMBOLS - CR_GNUM_MOST;
}
static inline int cr_gnum_of_int(int64_t i) { return (int)(CR_GNUM_SYMBOLS - 1 - i); }

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
/* The symbol of a scalar, or -1 for a plain number. */
static inline int cr_gnum_of(cr_scalar s)
{
    if (s.category == CR_CAT_INT)
        return cr_gnum_is_int(s.i) ? cr_gnum_of_int(s.i) : -1;
    return s.category == CR_CAT_FLOAT && cr_gnum_is_float(s.d) ? cr_gnum_of_float(s.d) : -1;
}
/* The symbol as a scalar of this category. */
static inline cr_scalar cr_gnum_scalar(int k, cr_scalar like)
{
    return like.category == CR_CAT_FLOAT ? cr_scalar_float(cr_gnum_as_float(k))
                                         : cr_scalar_int(cr_gnum_as_int(k));
}

/* --- values --- */
/* Arithmetic with Python's semantics.  False when there is no value (division by zero, integer
 * overflow). */
bool cr_gnum_apply(cr_gnum_fn fn, cr_scalar a, cr_scalar b, cr_scalar *out);
bool cr_gnum_compare(cr_gnum_test test, cr_scalar a, cr_scalar b);
/* Computes all numbers from the inputs; sizes must be in out[k].  False as for
 * cr_gnum_apply. */
bool cr_gnum_evaluate(const cr_gnumbers *n, const cr_scalar *input, cr_scalar *out);
bool cr_gnum_guards_hold(const cr_gnumbers *n, const cr_scalar *value);

#endif
