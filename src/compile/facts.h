/* facts.h - facts about nodes, for groups; inside compile/ only. */
#ifndef CR_COMPILE_FACTS_H
#define CR_COMPILE_FACTS_H

#include "compile/compile.h"
#include "tensor/part.h"

/* --- nodes --- */

typedef enum {
    CR_FACT_CALL,  /* stays a call */
    CR_FACT_POINT, /* elementwise: one value for each element of its result */
    CR_FACT_ROWS,  /* reduces, normalizes or scans rows */
    CR_FACT_VIEW,  /* elements of its argument with other sizes or strides */
    CR_FACT_SPLIT, /* equal windows of its row-major argument's last dim */
    CR_FACT_JOIN,  /* concatenates arguments of one shape along the last dim */
    CR_FACT_FOLD,  /* reduces the leading dims of its argument */
    CR_FACT_READ   /* elements of its arguments at other places, read part by part (part.c) */
} cr_fact_kind;

typedef struct {
    uint8_t kind;    /* cr_fact_kind */
    uint8_t entry;   /* cr_dtype: the type in which the entry computes, by its types rule */
    uint8_t compute; /* cr_dtype: the type of its loops, float32 for half types; BOOL: truth
                      * values only */
    uint8_t half;    /* cr_dtype: the type to which results are rounded, or CR_DTYPE_NONE */
    bool loose;      /* fast mode: results of half types are not rounded */
    uint8_t scans;   /* bits by cr_scan_way: its results are scans of rows */
} cr_facts;

/* The scans of one kernel have one direction, and nothing in it reduces their values. */
typedef enum { CR_SCAN_FORWARD = 1, CR_SCAN_BACK = 2, CR_SCAN_BOTH = 3 } cr_scan_way;

/* The process remembers facts by entry and kinds of arguments, so that a node costs one
 * look-up.  `cr_facts_cache` is the part of one pass, in `s`. */
typedef struct cr_facts_cache cr_facts_cache;
cr_facts_cache *cr_facts_cache_new(cr_session *s);
cr_facts cr_facts_of(cr_facts_cache *c, const cr_gnode *n);
/* Registers the handler of forks that takes the lock of facts, unless it is registered. */
void cr_facts_watch_forks(void);

/* The number of elements that a ROWS node reduces for one result, the product of the reduced
 * trailing dims of its first tensor. 0: the reduced dims are not trailing, or have one
 * element. */
int64_t cr_node_columns(const cr_gnode *n);
/* The number of elements that a FOLD node keeps: the product of the trailing dims that it does
 * not reduce. 0: the reduced dims are not leading, or fewer than two elements are kept. */
int64_t cr_node_kept(const cr_gnode *n);
const cr_gtype *cr_node_first_tensor(const cr_gnode *n);
/* True if argument i is a number that the kernel reads at run time; cr_node_number is its
 * value. */
bool cr_node_reads_number(const cr_gnode *n, int i);
cr_scalar cr_node_number(const cr_gnode *n, int i);
/* The most results that a group reads part by part. */
enum { CR_GROUP_SOURCES = 8 };
/* The parts of the node's result for the present sizes of its arguments. */
CR_MUST cr_status cr_node_part(cr_part **out, const cr_gnode *n);
/* True if the result is row-major on the host and has parts. */
bool cr_node_has_part(const cr_gnode *n);
/* The type in which loops read argument i: BOOL for masks, else the type of the loops. */
cr_dtype cr_node_wants(const cr_gnode *n, const cr_facts *f, int i);
/* True if kernels can load elements of dtype `own` and convert them to `want`, the type in
 * which the node reads them: on the host, numbers with lanes.  Bytes are only copied. */
bool cr_node_converts(const cr_gnode *n, int own, cr_dtype want);
/* The types in which loops compute the node, as bits by cr_dtype; truth values have no bit. */
unsigned cr_node_types(const cr_gnode *n, const cr_facts *f);
/* True if one kernel can have values of all these types. */
bool cr_types_mix(unsigned types, cr_device device);
/* The type of a value of dtype t in loops: float32 for half types. */
static inline cr_dtype cr_lane_type(int t) { return cr_dtype_compute((cr_dtype)t); }

/* Builds the node's results as expressions of `l`.  `value(context, i)` is the expression of
 * argument i in the type cr_node_wants; `number(context, n, t)` that of run-time number `n` as
 * dtype `t`.  Bails if loops cannot compute the node. */
typedef struct {
    const cr_expr *(*value)(void *context, int i);
    const cr_expr *(*number)(void *context, cr_scalar n, cr_dtype t);
    void *context;
} cr_node_reader;
void cr_compile_node(cr_loop *l, const cr_gnode *n, const cr_facts *f, const cr_node_reader *r,
                     const cr_expr **result);

/* The facts in fast mode: intermediate results are not rounded. */
static inline cr_facts cr_facts_loose(cr_facts f)
{
    f.half = CR_DTYPE_NONE;
    f.loose = true;
    return f;
}

#endif
