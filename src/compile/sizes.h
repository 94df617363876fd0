/* sizes.h - numbers of a recording's graphs as functions of its symbols; inside compile/ only.
 *
 * The graphs of a recording are made for several choices of sizes, the *probes*, and compared.
 * If they differ only in numbers, each such number is matched with arithmetic over the symbols.
 * Then one program is valid for all sizes that satisfy the recorded guards on the symbols. */
#ifndef CR_COMPILE_SIZES_H
#define CR_COMPILE_SIZES_H

#include "graph/graph.h"
#include "tensor/decide.h"

enum { CR_MOST_PARAMS = 3, CR_MOST_PROBES = CR_MOST_PARAMS + 3 };

typedef struct {
    uint8_t fn;      /* cr_gnum_fn; CR_GNUM_INPUT: symbol a */
    int a, b;        /* operands of arithmetic: earlier numbers */
    cr_scalar value; /* of a constant */
    cr_scalar at[CR_MOST_PROBES];
} cr_size_number;

/* Number `number` is the size of dim `dim` of a node's result, or number `recorded` of the
 * recording if that is not negative. */
typedef struct {
    uint32_t node;
    uint16_t result, dim;
    int recorded, number;
} cr_size_of;

/* Invariant: symbol has `probes` lists, and the first `params` numbers of each are the
 * parameters of that probe. A guard's numbers are among `numbers`. */
typedef struct cr_sizes {
    cr_session own;
    cr_session *s; /* `own`, or another one */
    int probes; /* programs are made for the first; the next ones change one parameter each */
    const cr_scalar *symbol[CR_MOST_PROBES]; /* by number of the recording */
    int params;                              /* the first numbers */
    CR_VEC(cr_size_number) numbers;
    CR_VEC(cr_gnum_guard) guards;
    CR_VEC(double) floats; /* arguments that are equal at all probes, such as momentums */
    CR_VEC(cr_size_of)
    computed; /* sizes of the nodes' results, and numbers that were read from them */
} cr_sizes;

/* In its own session. */
CR_MUST cr_status cr_sizes_new(cr_sizes **out);
void cr_sizes_drop(cr_sizes *x);
/* Adds a parameter: symbol `symbol`, with its values at the probes. */
void cr_sizes_param(cr_sizes *x, int symbol, const int64_t *at);
/* The number with these values at the probes, computed from earlier ones if it is new; -1:
 * there is no match. */
int cr_sizes_find(cr_sizes *x, const cr_scalar *at);
/* Reads the numbers of the recording `g` and the guards on them; of[p] is its instance for
 * probe p.  Symbol k is number k of g when that number is an input or the size of one.  False
 * when a number cannot be matched. */
bool cr_sizes_read(cr_sizes *x, const cr_graph *g, cr_graph *const *of);
/* Adds guards on the comparisons by which rules chose calls at the probes; log[p] has those of
 * probe p, in the same order.  Bails with CR_VALUE when the probes differ in one, or when its
 * operands cannot be matched. */
void cr_sizes_decide(cr_sizes *x, const cr_decisions *log);
/* Whether the recording's instance `of` for these symbols has the sizes that are computed from
 * them here.  A size that is the lesser of two, as the length of a diagonal, follows one of
 * them at the probes and another one elsewhere.  True also when a guard does not hold. */
bool cr_sizes_agree(const cr_sizes *x, const cr_scalar *symbol, const cr_graph *of);
/* Evaluates all numbers for other symbols; false if a guard does not hold, or a parameter is
 * below 2. */
bool cr_sizes_evaluate(const cr_sizes *x, const cr_scalar *symbol, cr_scalar *out);

/* Compares the graphs of the probes.  Stores the numbers that vary in the nodes of graph[0],
 * and the dims of inputs that vary in *inputs, both in the session of graph[0].  Bails with
 * CR_VALUE if the graphs differ in anything except matched numbers. */
void cr_sizes_compare(cr_sizes *x, cr_graph *const *graph, cr_gvarying_dims *inputs);
#endif
