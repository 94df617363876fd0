/* traced.h - a flushed trace as a key and as a graph; inside compile/ only.
 *
 * The key states the structure of the trace: its live calls, the storages that they use, how
 * each argument views its storage, and which results the program can still read.  Sizes of
 * inputs and numbers in arguments are listed beside it, in the order of the key: traces that
 * differ in them only have one key. */
#ifndef CR_COMPILE_TRACED_H
#define CR_COMPILE_TRACED_H

#include "compile/call.h"
#include "graph/graph.h"
#include "tensor/trace.h"

typedef CR_VEC(uint64_t) cr_traced_words;

typedef struct {
    cr_trace *x;
    const cr_tensor **base; /* for each storage, the header whose geometry its graph value has;
                               NULL: unused */
    cr_traced_words key;
    cr_traced_words number; /* bits of an int64 or a double */
} cr_traced;

/* Fails with CR_VALUE when no graph can state the trace. */
CR_MUST cr_status cr_traced_read(cr_traced *out, cr_trace *x);
void cr_traced_drop(cr_traced *t);

/* How an argument views the value of its storage. */
typedef enum {
    CR_TRACED_SAME,
    CR_TRACED_PERMUTED,
    CR_TRACED_VIEW,
    CR_TRACED_STRIDED,
    CR_TRACED_NO_VIEW
} cr_traced_view;
/* The way, and the order of base's dims if it is CR_TRACED_PERMUTED. */
cr_traced_view cr_traced_view_of(const cr_tensor *base, const cr_tensor *h, int64_t *dims);
/* Whether the sizes of this input are numbers of the trace: it is row-major. */
bool cr_traced_is_sized(const cr_tensor *base);
/* A Python number that was wrapped in a tensor. */
CR_MUST cr_status cr_traced_literal(cr_scalar *out, const cr_tensor *h);
/* Whether a scalar is a number beside the key: no truth value, no complex number. */
bool cr_traced_may_vary(cr_scalar n);
bool cr_traced_same_geometry(const cr_tensor *a, const cr_tensor *b);

/* The numbers of a graph that vary.  number[c] are those of trace c; the last one is the trace
 * itself. */
typedef struct {
    const uint64_t *const *number;
    int count;
    int32_t *symbol; /* out, by number: its index in the graph's numbers, or -1: it is fixed */
} cr_traced_varying;

/* The graph of the trace.  Inputs are the memories with a base that no call makes, outputs
 * those that a call makes and the program can read, in order, and None.  With `v`, numbers
 * that differ between the traces are symbols: sizes of inputs, arithmetic on them, and numbers
 * of the call.  *source, in the session: by number of the graph, the trace's number that it
 * stands for, or -1.  Bails with CR_VALUE. */
cr_graph *cr_traced_graph(cr_session *s, const cr_traced *t, const cr_traced_varying *v,
                          const int32_t **source);

/* --- programs of known calls (traced_known.c) --- */
/* A program for a trace, with its inputs and outputs. */
typedef struct {
    cr_compiled_call *call;
    cr_scalar *number; /* the numbers of the call */
    size_t numbers;
    const size_t *input, *output; /* indices of memories */
    int inputs, outputs;
    const cr_tensor *const *base; /* by memory, of inputs and outputs: the geometry */
} cr_traced_program;
/* The program that ran an equal trace of known calls; false: there is none.  The trace is
 * locked, and keeps the program. */
bool cr_traced_find_known(cr_traced_program *out, cr_trace *x);
/* Keeps the program for the trace that cr_traced_find_known has searched for in vain, if it is
 * the second time for the trace's key. */
void cr_traced_keep_known(cr_trace *x, const cr_traced_program *p);

#endif
