/* lower.h - writing the nodes of a graph as nodes of ONNX.  For files of onnx/ only.
 *
 * A graph whose sizes vary is there once for each sample of sizes.  Graphs of all samples have
 * the same nodes in the same order; graph[0] is that of the example. */
#ifndef CR_ONNX_LOWER_H
#define CR_ONNX_LOWER_H

#include "onnx/model.h"

enum { OX_SAMPLES = 12 };

/* A size that varies: `at` is its value in each sample, and it is that of dim `dim` of
 * `value`. */
typedef struct {
    const int64_t *at;
    ox_value value;
    int dim;
} ox_known;

typedef struct {
    cr_session *s;
    ox_model *m;
    int samples;
    const cr_graph *graph[OX_SAMPLES];
    cr_gvalue **twin[OX_SAMPLES];     /* by id of a value of graph[0]: that of the sample */
    ox_value *now;                    /* by id of a value of graph[0]: the file's value */
    const cr_gnode *node[OX_SAMPLES]; /* the node that is written, in each sample */
    CR_VEC(ox_known) known;
} ox;

/* An argument, or the value of an expression of a clause. */
typedef struct ox_arg {
    uint8_t
        tag; /* cr_tag: NONE, TENSOR, INT, FLOAT, TRUTH, STRING, DTYPE_VAL, TENSORS: any list */
    ox_value v;          /* TENSOR */
    const cr_gvalue *of; /* TENSOR: the value of graph[0], or NULL */
    int64_t i;
    const int64_t *at; /* INT that varies: by sample; else NULL */
    double d;
    const char *text;
    uint32_t len;
    struct ox_arg *list;
} ox_arg;

/* Leaves with the operator, its place in the program, and the reason. */
CR_NORETURN void ox_refuse(ox *x, const char *fmt, ...) CR_PRINTF(2, 3);

/* --- arguments and sizes (size.c) --- */
/* Argument i of the node. */
ox_arg ox_argument(ox *x, int i);
/* The size of a value along a dim. */
ox_arg ox_size(ox *x, const cr_gvalue *v, int d);
ox_arg ox_int(int64_t i);
/* An integer with these values, one a sample, of which the session has a copy. */
ox_arg ox_varying(ox *x, const int64_t *at);
/* The integer as an int64 tensor of one dim and one element. */
ox_value ox_int_value(ox *x, const ox_arg *a);
/* A list of integers as an int64 tensor. */
ox_value ox_list_value(ox *x, const ox_arg *list, size_t n);
/* Notes the sizes of a value that vary. */
void ox_know(ox *x, const cr_gvalue *v);

/* --- ways to write a node; false: another way is needed --- */
/* By the clause `onnx` (clause.c); out has `results` values. */
bool ox_by_clause(ox *x, ox_value *out);
/* By promises of the entry about where the elements of results are (view.c). */
bool ox_is_view(const cr_gnode *n);
void ox_by_view(ox *x, ox_value *out);
/* By its loop program (loop.c). */
bool ox_is_loop(const cr_gnode *n);
void ox_by_loop(ox *x, ox_value *out);

#endif
