/* graph.h - the graph IR: calls of operators as nodes, in single assignment.
 *
 *     graph(%x: float32[8, 4], %w: float32[4]) {
 *       $0: 8 = size(%x, 0)
 *       %mul: float32[8, 4] = mul(%x, %w)
 *       %values: float32[8], %indices: int64[8] = max.dim(%mul, 1)
 *       return %values
 *     }
 *
 * A node is a call of an entry of the operator table, a constant, a choice between two nested
 * blocks, or a group: a block that is computed as one.  Values are tensors; all other arguments
 * are literals in the node.  A block reads the values of the blocks around it.  What is known
 * of a value's tensor (dtype, sizes, strides) stands beside it and may be missing.
 *
 * Nodes live in the session of their graph; a pass makes a new graph, in the same session or
 * another, and forgets the old one.  Functions that build bail from the session. */
#ifndef CR_GRAPH_GRAPH_H
#define CR_GRAPH_GRAPH_H

#include "graph/number.h"
#include "sym/session.h"
#include "tensor/tensor.h"

typedef struct cr_graph cr_graph;
typedef struct cr_gblock cr_gblock;
typedef struct cr_gnode cr_gnode;
typedef struct cr_gvalue cr_gvalue;

/* What is known of a tensor; `known` false: nothing. */
typedef struct {
    bool known, requires_grad;
    uint8_t dtype, ndim;
    cr_device device;
    const int64_t *size, *stride; /* stride NULL: row-major */
} cr_gtype;

/* The elements lie in row-major order, whatever strides dims of one position have. */
static inline bool cr_gtype_is_contiguous(const cr_gtype *t)
{
    return !t->stride || cr_is_contiguous(t->ndim, t->size, t->stride);
}

struct cr_gvalue {
    const char *name;  /* without the %; unique in its graph */
    uint32_t hash;     /* of the name */
    int same_name;     /* how many values that wanted it got a number behind it */
    unsigned id;       /* below cr_graph.values; in order of making */
    int index;         /* which input or result */
    cr_gnode *by;      /* NULL: an input of the graph */
    uint64_t symbolic; /* dimensions whose size may be another one in another call */
    cr_gtype type;
};

/* An argument: as a cr_value, with values for tensors.  CR_TENSOR: value; CR_TENSORS: list. */
typedef struct cr_garg {
    uint8_t tag; /* cr_tag */
    uint32_t len;
    union {
        cr_gvalue *value;
        cr_scalar number;
        int64_t i;
        double d;
        const char *s;
        const int64_t *ints;
        const double *floats;
        const struct cr_garg *list;
    };
} cr_garg;

typedef enum { CR_GNODE_CALL, CR_GNODE_CONSTANT, CR_GNODE_IF, CR_GNODE_GROUP } cr_gnode_kind;

/* Of the others `len` says nothing. */
static inline bool cr_garg_has_len(const cr_garg *a)
{
    return a->tag == CR_STRING || a->tag == CR_INTS || a->tag == CR_TRUTHS ||
           a->tag == CR_FLOATS || a->tag == CR_TENSORS || a->tag == CR_NUMBERS;
}

/* A number of an argument that is another one for other sizes. */
typedef struct {
    uint16_t arg;
    uint32_t item; /* of a list of integers; else 0 */
    int number;    /* which of the values that cr_gsizes_set is given */
} cr_gvarying;

/* A size, or a stride, of an input that is another one for other sizes. */
typedef struct {
    uint32_t input;
    uint8_t dim;
    bool is_stride;
    int number;
} cr_gvarying_dim;
typedef struct {
    size_t len, cap;
    cr_gvarying_dim *at; /* in the order of the inputs */
} cr_gvarying_dims;

struct cr_gnode {
    uint8_t kind;    /* cr_gnode_kind */
    const cr_op *op; /* CALL */
    int arg_count;   /* CALL: op->param_count; IF: 1, the condition; else 0 */
    cr_garg *arg;
    int result_count; /* CALL: op->result_count; a Tensor[] result counts its items */
    cr_gvalue **result;
    cr_tensor *constant;         /* CONSTANT: the graph's count */
    cr_gblock *block[2];         /* IF: then, else; GROUP: one */
    const struct cr_gcode *code; /* GROUP: computes it, or NULL: its nodes are called */
    int varying_count;           /* CALL */
    const cr_gvarying *varying;
    const char *source; /* "file.py:12", or NULL */
    bool same;    /* CALL: the result is an argument itself, and would not be for all sizes */
    bool no_grad; /* CALL: writes a tensor that has a gradient, and the tape did not see it */
};

/* Code of a group: output[k] from the values that it reads of the blocks around it. */
typedef struct cr_gcode {
    int read_count;
    cr_gvalue **read;
    uint32_t overwrites; /* bit i: the only result may be written over the elements of read i */
    /* output[k] is NULL, or a tensor of the result's type, counted, that becomes it.  Results
     * are owned by the caller; on failure nothing is. */
    cr_status (*run)(const struct cr_gcode *code, cr_tensor *const *read, cr_tensor **output);
} cr_gcode;

struct cr_gblock {
    size_t len, cap;
    cr_gnode **at;
    int output_count;
    cr_garg *output; /* CR_TENSOR or CR_NONE */
};

struct cr_graph {
    cr_session *session;
    int input_count;
    cr_gvalue **input;
    cr_gblock *body;
    unsigned values;   /* made so far */
    cr_gvalue **names; /* by hash, at most half full */
    size_t name_room;
    struct {
        size_t len, cap;
        cr_tensor **at;
    } constants; /* counted */
    cr_gnumbers numbers;
    bool parts; /* recorded with compositions as their parts; of copies nobody says so */
};

/* --- making --- */
cr_graph *cr_graph_new(cr_session *s);
/* Gives back the tensors of constants; the session keeps everything else. */
void cr_graph_drop(cr_graph *g);
/* `name` may be NULL; it is made unique. */
cr_gvalue *cr_graph_input(cr_graph *g, const char *name, const cr_gtype *type);
/* A value of the graph, made by no node, becomes the next input. */
void cr_graph_push_input(cr_graph *g, cr_gvalue *v);
cr_gblock *cr_graph_block(cr_graph *g);
/* Appends a call.  `arg` is copied; `results` counts the items of a Tensor[] result.  `names`
 * are those wanted for the results, made unique; NULL: the operator's. */
cr_gnode *cr_graph_call(cr_graph *g, cr_gblock *b, const cr_op *op, const cr_garg *arg,
                        int results, const char *const *names);
/* Appends a constant; counts `t`. */
cr_gvalue *cr_graph_constant(cr_graph *g, cr_gblock *b, cr_tensor *t, const char *name);
/* Appends a choice; the blocks' outputs are its results, equally many in both. */
cr_gnode *cr_graph_if(cr_graph *g, cr_gblock *b, cr_gvalue *condition, cr_gblock *then,
                      cr_gblock *other, const char *const *names);
/* The value of that name, or NULL. */
cr_gvalue *cr_graph_find(const cr_graph *g, const char *name);
/* Appends a group; its block's outputs are its results. */
cr_gnode *cr_graph_group(cr_graph *g, cr_gblock *b, cr_gblock *inner, const char *const *names);
/* How many blocks lie in a node. */
static inline int cr_gnode_blocks(const cr_gnode *n)
{
    return n->kind == CR_GNODE_IF ? 2 : n->kind == CR_GNODE_GROUP;
}
void cr_gblock_return(cr_graph *g, cr_gblock *b, const cr_garg *output, int n);
/* What is known of `t`, with the session's own sizes. */
cr_gtype cr_gtype_of(cr_session *s, const cr_tensor *t);
/* The same with strides unless they are a new tensor's: those of dims of one position follow
 * from nothing else in the graph, and views and results of calls may pass them on. */
cr_gtype cr_gtype_of_input(cr_session *s, const cr_tensor *t);
/* A copy of an argument in the graph's session; `map(context, value)` gives the values. */
typedef cr_gvalue *(*cr_gvalue_map)(void *context, cr_gvalue *v);
cr_garg cr_garg_copy(cr_graph *g, const cr_garg *a, cr_gvalue_map map, void *context);

static inline cr_garg cr_garg_value(cr_gvalue *v)
{
    return (cr_garg){.tag = v ? CR_TENSOR : CR_NONE, .value = v};
}

/* Calls fn(context, value) for every value that an argument names. */
void cr_garg_each(const cr_garg *a, void (*fn)(void *context, cr_gvalue *v), void *context);

/* --- text --- */
void cr_graph_print(cr_text *out, const cr_graph *g);
/* Bails with CR_VALUE: "line 3: ...". */
cr_graph *cr_graph_parse(cr_session *s, const char *text);

/* --- checking --- */
/* Every value is made once and before it is read, literals have their parameters' types, the
 * blocks of a choice return equally many.  Bails with CR_VALUE naming the node. */
void cr_graph_verify(const cr_graph *g);

/* --- passes; each makes a new graph in g's session --- */
/* Without nodes whose results nobody reads and that write and draw nothing. */
cr_graph *cr_graph_dead(const cr_graph *g);
/* Equal calls of the same values become one, where nothing was written in between. */
cr_graph *cr_graph_common(const cr_graph *g);
/* Calls of constants become constants, up to CR_GRAPH_FOLD_BYTES each. */
enum { CR_GRAPH_FOLD_BYTES = 1 << 16 };
cr_graph *cr_graph_fold(const cr_graph *g);
/* Rewrites that are exact for every value, -0, infinities and NaN included. */
cr_graph *cr_graph_simplify(const cr_graph *g);
/* Without writes, but for copies to inputs and constants at the end, and draws: see
 * functional.c.  The bits are those of the graph as it was; inputs must not share memory. */
cr_graph *cr_graph_functional(const cr_graph *g);
/* Composite nodes, but for those that loops compute as one, become the calls that they make.
 * For graphs that are differentiated already: gradients are those of entries. */
cr_graph *cr_graph_decompose(const cr_graph *g);
/* The pass called "dead", "common", "fold", "simplify", "functional" or "decompose"; NULL: no
 * such pass. */
typedef cr_graph *(*cr_graph_pass)(const cr_graph *g);
cr_graph_pass cr_graph_find_pass(const char *name);

/* Makes the constants of `g` inputs, after those that are read; other inputs are gone.  Input k
 * was input from[k], or is the constant constant[k] (borrowed of `g`) where that is not NULL.
 * The arrays are the session's. */
typedef struct {
    const int *from;
    cr_tensor *const *constant;
} cr_origins;
cr_origins cr_graph_lift(cr_graph *g);
/* A copy in another session. */
cr_graph *cr_graph_copy(cr_session *s, const cr_graph *g);

/* --- facts about nodes --- */
/* The node writes an argument, or draws random numbers: it stays and keeps its place. */
bool cr_gnode_has_effect(const cr_gnode *n);
/* The node, or one in its blocks, writes elements or sizes of an argument. */
bool cr_gnode_writes(const cr_gnode *n);
/* The entry, or one that its composition calls, has the word (CR_WORD_BIT_RANDOM, ...). */
bool cr_op_reaches(const cr_op *op, int word);
/* The same of `random`: it draws random numbers. */
bool cr_op_draws(const cr_op *op);
/* Some node writes a tensor. */
bool cr_graph_writes(const cr_graph *g);
/* All that the entry calls is pointwise work, views, copies and fills: computing it again costs
 * about as much as reading its result. */
bool cr_op_is_cheap(const cr_op *op);
/* A result may share memory with an argument. */
bool cr_gnode_may_view(const cr_gnode *n);
/* A copy to an input or a constant, as functional graphs have them at their end. */
bool cr_gnode_copies_back(const cr_gnode *n);

/* --- running --- */
/* Calls the nodes in order through all stages.  `input` is borrowed; output[k] is owned by the
 * caller, NULL where the graph returns None.  On failure nothing is owned. */
CR_MUST cr_status cr_graph_run(const cr_graph *g, cr_tensor *const *input, cr_tensor **output);
/* The same on tensors without bytes: factories make such, and a call whose results were
 * recorded without a gradient has none. */
CR_MUST cr_status cr_graph_replay(const cr_graph *g, cr_tensor *const *input,
                                  cr_tensor **output);

/* --- instances --- */
/* The call's result is an argument itself that it did not write, as contiguous() has it where
 * it can. */
bool cr_op_gives_back(const cr_op *op, const cr_value *arg, const cr_value *result);
/* An argument is or has a symbol (graph/number.h). */
bool cr_gnode_has_symbol(const cr_gnode *n);
/* Sizes of the node's results may be others in another call: it has a symbol, or reads a value
 * of such sizes. */
bool cr_gnode_sizes_vary(const cr_gnode *n);
/* Some input has a size that may be another, or some number is an input. */
bool cr_graph_is_symbolic(const cr_graph *g);
/* Some input has a size that may be another, or some whole number is an input: passes that look
 * at sizes take an instance. */
bool cr_graph_sizes_vary(const cr_graph *g);
/* Bails with CR_VALUE where they do. */
void cr_graph_need_sizes(const cr_graph *g);
/* The graph for tensors like input[] and these numbers, in session `s`: symbols that decide
 * sizes become integers, types are what the operators' rules say.  With `open`, floats that are
 * inputs stay symbols, in the instance's own list of numbers.  *out is NULL when a guard does
 * not hold.  Fails with what a rule refuses. */
CR_MUST cr_status cr_graph_instantiate(cr_graph **out, cr_session *s, const cr_graph *g,
                                       cr_tensor *const *input, const cr_scalar *number,
                                       bool open);

/* The same for inputs of the types stated: symbol[k] is number k's value where it is an input
 * or the size of one.  Inputs of other sizes than stated are row-major. */
CR_MUST cr_status cr_graph_instantiate_at(cr_graph **out, cr_session *s, const cr_graph *g,
                                          const cr_scalar *symbol, bool open);

/* --- other sizes --- */
/* The types of a graph's values as functions of numbers: which values have equal types
 * (classes), and which calls of operators' rules give them (resize.c).  value[p] are the
 * numbers at probe p, of which the graph has those of probe 0; inputs and nodes tell which of
 * them they take.  The graph has no symbols, and its arrays are its own (cr_graph_copy): values
 * of a class share them from now on.  `inputs` is borrowed.  CR_VALUE where the graph is not
 * right for the sizes of a probe. */
typedef struct cr_gsizes cr_gsizes;
CR_MUST cr_status cr_gsizes_new(cr_gsizes **out, cr_graph *g, const cr_gvarying_dims *inputs,
                                const cr_scalar *const *value, int probes);
void cr_gsizes_drop(cr_gsizes *x);
/* Sets types and arguments of the graph for other numbers, in place.  CR_VALUE where the graph
 * is not right for them: a size that was more than 1 is not, or the reverse; a tensor that was
 * row-major is not, or the reverse; values of a class have different types.  Fails with what a
 * rule refuses, too; the types mean nothing then, until the next call. */
CR_MUST cr_status cr_gsizes_set(cr_gsizes *x, const cr_scalar *value);
int cr_gsizes_classes(const cr_gsizes *x);
/* The class of a value, -1: it is no tensor; whether its type is the same for all sizes; its
 * type, which is set in place. */
int cr_gsizes_class(const cr_gsizes *x, const cr_gvalue *v);
bool cr_gsizes_is_fixed(const cr_gsizes *x, int k);
const cr_gtype *cr_gsizes_type(const cr_gsizes *x, int k);
/* The rule of a call with results: calls of one rule have equal arguments and classes. */
int cr_gsizes_rules(const cr_gsizes *x);
int cr_gsizes_rule(const cr_gsizes *x, const cr_gnode *n);
/* Of a map's rule that is not fixed: where its result begins in its argument, and its strides.
 */
void cr_gsizes_view(const cr_gsizes *x, int rule, int64_t *offset, const int64_t **stride);

/* --- recording --- */
/* Watches the calls of the thread between start and stop, those of the backward pass included.
 * Calls inside an operator are part of it and not seen; with `parts`, a composition without a
 * derivative of its own is its parts, so that what autograd saves is in the graph. */
typedef struct cr_recorder cr_recorder;
CR_MUST cr_status cr_recorder_new(cr_recorder **out, bool parts);
void cr_recorder_drop(cr_recorder *r);
/* Before anything is recorded: tensors that calls make are not kept alive. */
void cr_recorder_borrow(cr_recorder *r);
/* The next input of the graph. */
CR_MUST cr_status cr_recorder_input(cr_recorder *r, cr_tensor *t, const char *name);
/* Makes `r` the thread's recorder; fails with CR_RUNTIME when there is one. */
/* Symbols: the next number of the call; the sizes of an input along the dimensions of `dims`.
 */
CR_MUST cr_status cr_recorder_number(int *out, cr_recorder *r, cr_scalar value);
CR_MUST cr_status cr_recorder_dynamic(cr_recorder *r, cr_tensor *input, uint64_t dims);
/* The symbol of a size, or -1 where it is plain. */
int cr_recorder_size(cr_recorder *r, cr_tensor *t, int dim);
/* Arithmetic; -1 where it has no value. */
int cr_recorder_apply(cr_recorder *r, cr_gnum_fn fn, int a, int b);
int cr_recorder_plain_number(cr_recorder *r, cr_scalar value);
/* The answer for the value at hand, which becomes a guard. */
bool cr_recorder_ask(cr_recorder *r, cr_gnum_test test, int a, int b);
cr_scalar cr_recorder_value(const cr_recorder *r, int k);
CR_MUST cr_status cr_recorder_start(cr_recorder *r);
void cr_recorder_stop(cr_recorder *r);
/* Ends the graph with these outputs (NULL: None) and verifies it.  The graph lives as long as
 * the recorder or who else keeps its session.  A tensor that came from elsewhere is a constant.
 */
CR_MUST cr_status cr_recorder_finish(cr_graph **out, cr_recorder *r, cr_tensor *const *output,
                                     int n);
/* Tells the recorder where in the program the next calls are; "" or NULL: unknown. */
void cr_recorder_at(cr_recorder *r, const char *source);
/* The same by asking at every call: `where` gives a text of the session, or NULL when it does
 * not know, which leaves the last. */
typedef const char *(*cr_recorder_where)(void *context, cr_session *s);
void cr_recorder_follow(cr_recorder *r, cr_recorder_where where, void *context);
cr_recorder *cr_recorder_active(void);
/* Of the thread's recorder, if it has one: `t` was made of plain data by the program that runs;
 * it is a constant and nothing that the program found. */
void cr_recorder_literal(cr_tensor *t);
/* The program did what no graph can stand for (it looked at an element): finishing fails with
 * CR_RUNTIME and these words. */
void cr_recorder_refuse(const char *why);
/* From here on `t`, which is recorded or looks at what is, has no history: no gradient reaches
 * through it what it was computed from. */
void cr_recorder_cut(cr_tensor *t);
/* A backward pass runs: its calls are recorded, too. */
void cr_recorder_note_backward(void);
bool cr_recorder_saw_backward(const cr_recorder *r);
/* Tensors that the recorded calls read and that nothing recorded has made: not inputs, not
 * literals.  Borrowed; they are constants of the graph. */
size_t cr_recorder_foreign(const cr_recorder *r, cr_tensor *const **out);
/* Installs the stage; once, after cr_tensor_start. */
void cr_graph_start(void);

#endif
