/* sizes.h - how the numbers of a recording's graphs follow from its symbols; inside compile/.
 *
 * The graphs of a recording are made for several choices of sizes, the *probes*, and compared.
 * When they differ only in numbers, each such number is matched with arithmetic over the
 * symbols. One program then serves all sizes that satisfy the recorded guards on the symbols.
 */
#ifndef CR_COMPILE_SIZES_H
#define CR_COMPILE_SIZES_H

#include "graph/graph.h"

enum { CR_MOST_PARAMS = 3, CR_MOST_PROBES = CR_MOST_PARAMS + 3 };

typedef struct {
    uint8_t fn;      /* cr_gnum_fn; CR_GNUM_INPUT: symbol a */
    int a, b;        /* of arithmetic: earlier numbers */
    cr_scalar value; /* of a constant */
    cr_scalar at[CR_MOST_PROBES];
} cr_size_number;

typedef struct cr_sizes {
    cr_session own;
    cr_session *s; /* `own`, or another one */
    int probes; /* the first is what programs are made for; then one for each parameter, alone
                   changed */
    const cr_scalar *symbol[CR_MOST_PROBES]; /* by number of the recording */
    int params;                              /* they are the first numbers */
    struct {
        size_t len, cap;
        cr_size_number *at;
    } numbers;
    struct {
        size_t len, cap;
        cr_gnum_guard *at;
    } guards;
    struct {
        size_t len, cap;
        double *at;
    } floats; /* of arguments that are the same at all probes: momentums and the like */
} cr_sizes;

/* In its own session. */
CR_MUST cr_status cr_sizes_new(cr_sizes **out);
void cr_sizes_drop(cr_sizes *x);
/* The next parameter: symbol `symbol`, and its values. */
void cr_sizes_param(cr_sizes *x, int symbol, const int64_t *at);
/* The number that has these values at the probes; made of earlier ones where there is none. -1:
 * it cannot be told. */
int cr_sizes_find(cr_sizes *x, const cr_scalar *at);
/* Reads the numbers of the recording `g` and the guards on them; of[p] is its instance for
 * probe p.  Symbol k is number k of g when that number is an input or the size of one.  False
 * when a number cannot be matched. */
bool cr_sizes_read(cr_sizes *x, const cr_graph *g, cr_graph *const *of);
/* All numbers for other symbols; false where a guard does not hold, or a parameter is below 2.
 */
bool cr_sizes_evaluate(const cr_sizes *x, const cr_scalar *symbol, cr_scalar *out);

/* Compares a graph as it is for each probe, and tells what varies: of graph[0]'s nodes in the
 * nodes, of inputs in *inputs, both in the session of graph[0], which bails with CR_VALUE where
 * they differ in anything but numbers that are known. */
void cr_sizes_compare(cr_sizes *x, cr_graph *const *graph, cr_gvarying_dims *inputs);
#endif
