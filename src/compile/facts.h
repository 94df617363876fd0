/* facts.h - what grouping knows of nodes and of the spaces they run over; inside compile/ only.
 */
#ifndef CR_COMPILE_FACTS_H
#define CR_COMPILE_FACTS_H

#include "compile/compile.h"

/* --- nodes --- */

typedef enum {
    CR_FACT_CALL,  /* stays a call */
    CR_FACT_POINT, /* one value for each point of its result */
    CR_FACT_ROWS,  /* reduces along rows, or normalizes them */
    CR_FACT_VIEW,  /* the elements of its argument by other sizes or strides */
    CR_FACT_SPLIT, /* its row-major argument in equal windows of the last dim, one a result */
    CR_FACT_JOIN,  /* its arguments of one shape beside each other along the last dim */
    CR_FACT_FOLD   /* the columns of its argument, reduced over the leading dims */
} cr_fact_kind;

typedef struct {
    uint8_t kind;  /* cr_fact_kind */
    uint8_t entry; /* cr_dtype: the type in which the entry computes, as its types rule says */
    uint8_t compute; /* cr_dtype: that of its loops, float32 for half types; BOOL: truth values
                        alone */
    uint8_t half;    /* cr_dtype: what results are rounded to, or CR_DTYPE_NONE */
    bool loose;      /* results of half types stay as they were computed: fast mode */
} cr_facts;

/* Facts are remembered by entry and kinds of arguments, so that a node costs a look-up; the
 * cache is what a pass has of its own beside, in `s`. */
typedef struct cr_facts_cache cr_facts_cache;
cr_facts_cache *cr_facts_cache_new(cr_session *s);
cr_facts cr_facts_of(cr_facts_cache *c, const cr_gnode *n);

/* The number of elements that a ROWS node reduces for one result: the product of the trailing
 * dims of its first tensor.  0: they are not trailing, or it is one element. */
int64_t cr_node_columns(const cr_gnode *n);
/* The number of elements that a FOLD node keeps: the product of the trailing dims that it does
 * not reduce.  0: those it reduces are not leading. */
int64_t cr_node_kept(const cr_gnode *n);
const cr_gtype *cr_node_first_tensor(const cr_gnode *n);
/* The argument is a number that the kernel reads when it runs; and which. */
bool cr_node_reads_number(const cr_gnode *n, int i);
cr_scalar cr_node_number(const cr_gnode *n, int i);
/* The type in which loops read argument i: BOOL, or that of the loops. */
cr_dtype cr_node_wants(const cr_gnode *n, const cr_facts *f, int i);
/* The type in which loops have a value of dtype t: float32 for half types. */
static inline cr_dtype cr_lane_type(int t) { return cr_dtype_compute((cr_dtype)t); }

/* The node's results as expressions of `l`: `value(context, i)` gives that of argument i in the
 * type that the node wants, `number(context, n)` that of a run-time number of dtype `t`.  Bails
 * where the facts do not hold. */
typedef struct {
    const cr_expr *(*value)(void *context, int i);
    const cr_expr *(*number)(void *context, cr_scalar n, cr_dtype t);
    void *context;
} cr_node_reader;
void cr_compile_node(cr_loop *l, const cr_gnode *n, const cr_facts *f, const cr_node_reader *r,
                     const cr_expr **result);

/* The same for fast mode: nothing is rounded on the way. */
static inline cr_facts cr_facts_loose(cr_facts f)
{
    f.half = CR_DTYPE_NONE;
    f.loose = true;
    return f;
}

/* --- spaces --- */

enum { CR_SPACE_DIMS = 12 };

/* Sizes without ones, such that every shape in it is made of products of neighbours. */
typedef struct {
    int ndim;
    int64_t size[CR_SPACE_DIMS];
} cr_space;

int64_t cr_sizes_numel(int ndim, const int64_t *size);
/* Cuts dims of `s` so that `size`, of as many elements, is a shape of it; false, with `s` as it
 * was, when that cannot be.  A space of no dims takes any shape. */
bool cr_space_refine(cr_space *s, int ndim, const int64_t *size);
/* Steps, in elements, along the first `dims` dims of `s` through an operand of sizes and
 * strides (NULL: row-major) `in` that is broadcast to the shape `size` of these dims. */
void cr_space_steps(int64_t *step, const cr_space *s, int dims, int ndim, const int64_t *size,
                    const cr_gtype *in);
/* How many trailing dims make `columns` elements. */
int cr_space_columns(const cr_space *s, int64_t columns);

/* Whether `in` has one value for each row when the shape `size` is cut into rows of `columns`.
 */
bool cr_is_one_a_row(int ndim, const int64_t *size, int64_t columns, const cr_gtype *in);

#endif
