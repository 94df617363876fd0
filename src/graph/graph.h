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
 * are literals in the node.  A block may read the values of the enclosing blocks.  The type of
 * a value (dtype, sizes, strides) is optional.
 *
 * Nodes are in the session of their graph.  A pass makes a new graph, in the same session or
 * another.  Functions that make nodes bail from the session. */
#ifndef CR_GRAPH_GRAPH_H
#define CR_GRAPH_GRAPH_H

#include "graph/number.h"
#include "sym/session.h"
#include "tensor/tensor.h"

typedef struct cr_graph cr_graph;
typedef struct cr_gblock cr_gblock;
typedef struct cr_gnode cr_gnode;
typedef struct cr_gvalue cr_gvalue;

/* The type of a tensor; nothing is known unless `known` is set. */
typedef struct {
    bool known, requires_grad;
    bool exact; /* strides of dims of size 1, too, are eager's: of results of the graph */
    uint8_t dtype, ndim;
    cr_device device;
    const int64_t *size, *stride; /* stride NULL: row-major */
} cr_gtype;

/* True for two types of one dtype and the same sizes, whatever their strides. */
static inline bool cr_gtype_has_sizes_of(const cr_gtype *a, const cr_gtype *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->size, b->size, a->ndim * sizeof *a->size);
}

/* True when the elements are in row-major order; strides of dims of size 1 are ignored. */
static inline bool cr_gtype_is_contiguous(const cr_gtype *t)
{
    return !t->stride || cr_is_contiguous(t->ndim, t->size, t->stride);
}

struct cr_gvalue {
    const char *name;  /* without the %; unique in its graph */
    uint32_t hash;     /* of the name */
    int same_name;     /* number of values whose wanted name was this one and got a suffix */
    unsigned id;       /* below cr_graph.values; in order of making */
    int index;         /* index of the input or result */
    cr_gnode *by;      /* NULL: an input of the graph */
    uint64_t symbolic; /* mask of dims whose size may differ in another call */
    cr_gtype type;
};

/* An argument: like a cr_value, with values of the graph for tensors.  CR_TENSOR: value;
 * CR_TENSORS: list. */
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

/* True for arguments with a `len`, which others leave undefined. */
static inline bool cr_garg_has_len(const cr_garg *a)
{
    return a->tag == CR_STRING || a->tag == CR_INTS || a->tag == CR_TRUTHS ||
           a->tag == CR_FLOATS || a->tag == CR_TENSORS || a->tag == CR_NUMBERS;
}

/* A number in an argument that depends on the sizes of a call. */
typedef struct {
    uint16_t arg;
    uint32_t item; /* of a list of integers; else 0 */
    int number;    /* index in the values given to cr_gsizes_set */
} cr_gvarying;

/* A size or a stride of an input that depends on the sizes of a call. */
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
    cr_tensor *constant;         /* CONSTANT: a reference of the graph */
    cr_gblock *block[2];         /* IF: then, else; GROUP: one */
    const struct cr_gcode *code; /* GROUP: computes it, or NULL: its nodes are called */
    int varying_count;           /* CALL */
    const cr_gvarying *varying;
    const char *source; /* "file.py:12", or NULL */
    bool same;    /* CALL: the result is an argument itself, which is not so for all sizes */
    bool no_grad; /* CALL: writes a tensor that requires a gradient, without a record of the
                     tape */
    /* CALL: converts an argument for autocast.  Only graphs as recorded have it. */
    bool autocast;
};

/* Code of a group: computes output[k] from the values that it reads from enclosing blocks. */
typedef struct cr_gcode {
    int read_count;
    cr_gvalue **read;
    uint32_t overwrites; /* bit i: the only result may be written over the elements of read i */
    /* output[k] is NULL or a tensor of the result's type that becomes the result.  Results are
     * owned by the caller; on failure nothing is. */
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
    CR_VEC(cr_tensor *) constants; /* counted */
    cr_gnumbers numbers;
    bool parts; /* recorded with compositions as their parts; not set in copies */
};

/* --- making --- */
cr_graph *cr_graph_new(cr_session *s);
/* Drops the tensors of constants; the session owns everything else. */
void cr_graph_drop(cr_graph *g);
/* `name` may be NULL; it is made unique. */
cr_gvalue *cr_graph_input(cr_graph *g, const char *name, const cr_gtype *type);
/* Makes a value without a node the next input. */
void cr_graph_push_input(cr_graph *g, cr_gvalue *v);
cr_gblock *cr_graph_block(cr_graph *g);
/* Appends a call.  `arg` is copied; `results` counts the items of a Tensor[] result.  `names`
 * are wanted names of the results, which are made unique; NULL: the operator's names. */
cr_gnode *cr_graph_call(cr_graph *g, cr_gblock *b, const cr_op *op, const cr_garg *arg,
                        int results, const char *const *names);
/* Appends a constant, which takes a reference to `t`. */
cr_gvalue *cr_graph_constant(cr_graph *g, cr_gblock *b, cr_tensor *t, const char *name);
/* Appends a choice.  Its results are the outputs of the blocks, which have the same number. */
cr_gnode *cr_graph_if(cr_graph *g, cr_gblock *b, cr_gvalue *condition, cr_gblock *then,
                      cr_gblock *other, const char *const *names);
/* The value with this name, or NULL. */
cr_gvalue *cr_graph_find(const cr_graph *g, const char *name);
/* Appends a group; its block's outputs are its results. */
cr_gnode *cr_graph_group(cr_graph *g, cr_gblock *b, cr_gblock *inner, const char *const *names);
/* The number of blocks of a node. */
static inline int cr_gnode_blocks(const cr_gnode *n)
{
    return n->kind == CR_GNODE_IF ? 2 : n->kind == CR_GNODE_GROUP;
}
void cr_gblock_return(cr_graph *g, cr_gblock *b, const cr_garg *output, int n);
/* The type of `t`, with sizes in the session's memory.  It has strides where the elements are
 * not in row-major order, and where there are no elements and the strides are not row-major. */
cr_gtype cr_gtype_of(cr_session *s, const cr_tensor *t);
/* The same with strides, unless they are those of a new tensor: strides of dims of size 1
 * cannot be inferred from the graph, and views and results of calls may pass them on. */
cr_gtype cr_gtype_of_input(cr_session *s, const cr_tensor *t);
/* Gives a value that is a result of the graph the strides of `as` in dims of size 1, too, which
 * a program of the graph gives the tensor.  Values of other sizes and strides stay. */
void cr_gvalue_show(cr_session *s, cr_gvalue *v, const cr_gtype *as);
void cr_gvalue_show_as(cr_session *s, cr_gvalue *v, const cr_tensor *t);
/* A tensor of the type, which must be known, without bytes. */
CR_MUST cr_status cr_gtype_fake(cr_tensor **out, const cr_gtype *t);
/* A copy of an argument in the graph's session; `map(context, value)` gives the values. */
typedef cr_gvalue *(*cr_gvalue_map)(void *context, cr_gvalue *v);
cr_garg cr_garg_copy(cr_graph *g, const cr_garg *a, cr_gvalue_map map, void *context);

static inline cr_garg cr_garg_value(cr_gvalue *v)
{
    return (cr_garg){.tag = v ? CR_TENSOR : CR_NONE, .value = v};
}

/* Appends a key: equal for equal literals, and for values with equal numbers. */
typedef uintptr_t (*cr_gvalue_number)(void *context, const cr_gvalue *v);
void cr_garg_key(cr_text *out, const cr_garg *a, cr_gvalue_number number, void *context);
/* The same of a call: its operator, its arguments and their numbers that vary. */
void cr_gnode_key(cr_text *out, const cr_gnode *n, cr_gvalue_number number, void *context);
/* Whether the bodies have the same operators, and results of as many dims. */
bool cr_graph_alike(const cr_graph *a, const cr_graph *b);

/* Calls fn(context, value) for every value in an argument. */
typedef void (*cr_gvalue_fn)(void *context, cr_gvalue *v);
void cr_garg_each(const cr_garg *a, cr_gvalue_fn fn, void *context);
/* The same for the arguments of a node, for the outputs of a block, and for all that the nodes
 * of a block, with their blocks, and then its outputs read. */
void cr_gnode_each_read(const cr_gnode *n, cr_gvalue_fn fn, void *context);
void cr_gblock_each_output(const cr_gblock *b, cr_gvalue_fn fn, void *context);
void cr_gblock_each_read(const cr_gblock *b, cr_gvalue_fn fn, void *context);

/* --- text --- */
void cr_graph_print(cr_text *out, const cr_graph *g);
/* Bails with CR_VALUE: "line 3: ...". */
cr_graph *cr_graph_parse(cr_session *s, const char *text);

/* --- checking --- */
/* Every value is made once and before it is read, literals have their parameters' types, the
 * blocks of a choice return equally many.  Bails with CR_VALUE naming the node. */
void cr_graph_verify(const cr_graph *g);

/* --- passes; each makes a new graph in g's session --- */
/* Drops nodes whose results are not read, and which write and draw nothing. */
cr_graph *cr_graph_dead(const cr_graph *g);
/* Merges equal calls of the same values. */
cr_graph *cr_graph_common(const cr_graph *g);
/* Replaces calls of constants by constants of at most CR_GRAPH_FOLD_BYTES. */
enum { CR_GRAPH_FOLD_BYTES = 1 << 16 };
cr_graph *cr_graph_fold(const cr_graph *g);
/* Replaces values that depend on no input, such as masks and positions, by constants: of at
 * most 1 MiB, and 4 MiB in all.  For graphs whose sizes do not vary. */
cr_graph *cr_graph_precompute(const cr_graph *g);
/* Rewrites that are exact for every value, -0, infinities and NaN included. */
cr_graph *cr_graph_simplify(const cr_graph *g);
/* Removes writes, except draws and copies to inputs and constants at the end (functional.c).
 * The bits do not change.  Inputs must not share memory. */
cr_graph *cr_graph_functional(const cr_graph *g);
/* Replaces composite nodes by the calls they make, except those that loops compute as one.  For
 * graphs that are differentiated already: gradients are those of entries. */
cr_graph *cr_graph_decompose(const cr_graph *g);
/* Replaces nodes for which `splits` is true by the calls that they make, in several walks: the
 * parts are asked, too.  For graphs whose sizes do not vary. */
typedef bool (*cr_node_test)(const cr_gnode *n);
cr_graph *cr_graph_split(const cr_graph *g, cr_node_test splits);
/* Moves calls between ranks up to their operands, waits for them down to their readers, and
 * joins small calls (overlap.c). */
cr_graph *cr_graph_overlap(const cr_graph *g);
/* The pass called "dead", "common", "fold", "precompute", "simplify", "functional", "decompose"
 * or "overlap"; NULL: no such pass. */
typedef cr_graph *(*cr_graph_pass)(const cr_graph *g);
cr_graph_pass cr_graph_find_pass(const char *name);

/* Makes the constants of `g` inputs, after the inputs that are read; other inputs are removed.
 * Input k is the constant constant[k] (borrowed from `g`), or the earlier input from[k] when
 * that is NULL.  The session owns the arrays. */
typedef struct {
    const int *from;
    cr_tensor *const *constant;
} cr_origins;
cr_origins cr_graph_lift(cr_graph *g);
/* A copy in another session. */
cr_graph *cr_graph_copy(cr_session *s, const cr_graph *g);

/* --- facts about nodes --- */
/* True when the node writes an argument, draws random numbers or is a call between ranks:
 * passes keep it and its position. */
bool cr_gnode_has_effect(const cr_gnode *n);
/* True when the node, or one in its blocks, draws random numbers. */
bool cr_gnode_draws(const cr_gnode *n);
/* True when the node, or one in its blocks, is a call between ranks or the wait for one. */
bool cr_gnode_meets(const cr_gnode *n);
/* True when the node stays even if nothing reads its results: it has an effect, or may
 * raise. */
bool cr_gnode_stays(const cr_gnode *n);
/* True when the node, or one in its blocks, may raise by the elements of its arguments. */
bool cr_gnode_may_raise(const cr_gnode *n);
/* True when the node, or one in its blocks, writes elements or sizes of an argument. */
bool cr_gnode_writes(const cr_gnode *n);
/* True when the entry, or one that its composition calls, has the word (CR_WORD_BIT_RANDOM,
 * ...). */
bool cr_op_reaches(const cr_op *op, int word);
/* The same for the word `random`. */
bool cr_op_draws(const cr_op *op);
/* True when some node writes a tensor. */
bool cr_graph_writes(const cr_graph *g);
/* True when the entry calls only pointwise entries, views, copies and fills: recomputing it
 * costs about as much as reading its result. */
bool cr_op_is_cheap(const cr_op *op);
/* False when results always have memory of their own: a kernel computes them, or the entry
 * promises it (`copy`), or its composition gives no argument and no view of one.  True for
 * C functions on tensors and for entries that programs add, unless they promise it. */
bool cr_op_may_share(const cr_op *op);
/* True when a result may share memory with an argument. */
bool cr_gnode_may_view(const cr_gnode *n);
/* True for a copy to an input or a constant, as at the end of functional graphs. */
bool cr_gnode_copies_back(const cr_gnode *n);

/* --- running --- */
/* Calls the nodes in order through all stages.  `input` is borrowed; output[k] is owned by the
 * caller; NULL when the graph returns None.  On failure nothing is owned. */
CR_MUST cr_status cr_graph_run(const cr_graph *g, cr_tensor *const *input, cr_tensor **output);
/* The same on a device: tensors that the graph makes on the host are made, or copied, there. */
CR_MUST cr_status cr_graph_run_on(const cr_graph *g, cr_device device, cr_tensor *const *input,
                                  cr_tensor **output);
/* The same on tensors without bytes.  Factories make such tensors, and calls whose results were
 * recorded without a gradient record none. */
CR_MUST cr_status cr_graph_replay(const cr_graph *g, cr_tensor *const *input,
                                  cr_tensor **output);

/* --- instances --- */
/* True when the call's result is an argument itself, which it did not write, as for
 * contiguous(). */
bool cr_op_gives_back(const cr_op *op, const cr_value *arg, const cr_value *result);
/* True when an argument is or contains a symbol (graph/number.h). */
bool cr_gnode_has_symbol(const cr_gnode *n);
/* True when sizes of the node's results may differ in another call: it has a symbol, or reads a
 * value of such sizes. */
bool cr_gnode_sizes_vary(const cr_gnode *n);
/* True when some input has a symbolic size, or some number is an input. */
bool cr_graph_is_symbolic(const cr_graph *g);
/* True when some input has a symbolic size, or some integer is an input: passes that use sizes
 * need an instance. */
bool cr_graph_sizes_vary(const cr_graph *g);
/* Bails with CR_VALUE when cr_graph_sizes_vary is true. */
void cr_graph_need_sizes(const cr_graph *g);
/* The graph for tensors like input[] and these numbers, in session `s`: symbols that decide
 * sizes become integers, and the operators' rules give the types.  With `open`, floats that are
 * inputs stay symbols, in the instance's list of numbers.  *out is NULL when a guard does not
 * hold.  Fails with the error of a rule. */
CR_MUST cr_status cr_graph_instantiate(cr_graph **out, cr_session *s, const cr_graph *g,
                                       cr_tensor *const *input, const cr_scalar *number,
                                       bool open);

/* The same for inputs with the recorded types: symbol[k] is the value of number k when it is an
 * input or a size of an input.  Inputs with other sizes than recorded are row-major. */
CR_MUST cr_status cr_graph_instantiate_at(cr_graph **out, cr_session *s, const cr_graph *g,
                                          const cr_scalar *symbol, bool open);

/* --- other sizes --- */
/* The types of a graph's values as functions of numbers: values with equal types form a class,
 * and calls of operators' rules compute the types (resize.c). value[p] are the numbers of probe
 * p; the graph has those of probe 0. `inputs` and the nodes' `varying` state which numbers they
 * use.  The graph has no symbols and owns its arrays (cr_graph_copy); values of a class share
 * them afterwards.  `inputs` is borrowed.  Fails with CR_VALUE when the graph does not hold for
 * the sizes of a probe. */
typedef struct cr_gsizes cr_gsizes;
CR_MUST cr_status cr_gsizes_new(cr_gsizes **out, cr_graph *g, const cr_gvarying_dims *inputs,
                                const cr_scalar *const *value, int probes);
void cr_gsizes_drop(cr_gsizes *x);
/* Sets types and arguments of the graph for other numbers, in place.  Fails with CR_VALUE when
 * the graph does not hold for them: a size greater than 1 becomes 1 or less, or the reverse; a
 * tensor stops or starts being row-major; values of a class get different types.  Also fails
 * with the error of a rule.  After a failure the types are invalid until the next call. */
CR_MUST cr_status cr_gsizes_set(cr_gsizes *x, const cr_scalar *value);
int cr_gsizes_classes(const cr_gsizes *x);
/* The class of a value (-1 when it is no tensor); whether the type of a class is the same for
 * all sizes; the type of a class, which is set in place. */
int cr_gsizes_class(const cr_gsizes *x, const cr_gvalue *v);
bool cr_gsizes_is_fixed(const cr_gsizes *x, int k);
const cr_gtype *cr_gsizes_type(const cr_gsizes *x, int k);
/* The rule of a call with results.  Calls with one rule have equal arguments and classes. */
int cr_gsizes_rules(const cr_gsizes *x);
int cr_gsizes_rule(const cr_gsizes *x, const cr_gnode *n);
/* For the rule of a `map` entry that is not fixed: the result's offset in its argument, and its
 * strides. */
void cr_gsizes_view(const cr_gsizes *x, int rule, int64_t *offset, const int64_t **stride);

/* --- recording --- */
/* Records the calls of the thread between start and stop, including those of a backward pass.
 * Calls inside an operator are not recorded.  With `parts`, a composition without a derivative
 * is recorded as its parts, so that values saved by autograd are in the graph. */
typedef struct cr_recorder cr_recorder;
/* How a recorder records a call that a handler of Python takes: not at all, by the calls that
 * the handler makes, or as one call.  `cr_recorder_handling` is set by py. */
typedef enum { CR_HANDLED_NOT, CR_HANDLED_PARTS, CR_HANDLED_WHOLE } cr_handled;
extern cr_handled (*cr_recorder_handling)(const cr_op *op, const cr_value *arg);
CR_MUST cr_status cr_recorder_new(cr_recorder **out, bool parts);
/* Records the copies that autograd makes of tensors before they are overwritten, too. */
void cr_recorder_record_copies(cr_recorder *r);
/* Records each call that the program makes as one call, also one that autograd would split, a
 * handler of Python takes, or a program's operator makes of others. */
void cr_recorder_record_whole(cr_recorder *r);
/* Of a recorder of whole calls: whether calls whose sizes depend on elements are left out,
 * since a handler of Python makes their results by other calls. */
void cr_recorder_sized_apart(cr_recorder *r, bool apart);
/* The calls so far, without outputs; borrowed. */
const cr_graph *cr_recorder_graph(const cr_recorder *r);
void cr_recorder_drop(cr_recorder *r);
/* True while a recorder with parts records. */
bool cr_recorder_has_parts(void);
/* True while a recorder records whole calls. */
bool cr_recorder_is_whole(void);
/* Makes the recorder watch tensors instead of keeping them alive.  Call it before the first
 * recorded call. */
void cr_recorder_borrow(cr_recorder *r);
/* The next input of the graph. */
CR_MUST cr_status cr_recorder_input(cr_recorder *r, cr_tensor *t, const char *name);
/* Symbols: the next number of the call; the sizes of an input along the dimensions of
 * `dims`. */
CR_MUST cr_status cr_recorder_number(int *out, cr_recorder *r, cr_scalar value);
CR_MUST cr_status cr_recorder_dynamic(cr_recorder *r, cr_tensor *input, uint64_t dims);
/* The symbol of a size, or -1 for a plain size. */
int cr_recorder_size(cr_recorder *r, cr_tensor *t, int dim);
/* Arithmetic on symbols; -1 when it has no value. */
int cr_recorder_apply(cr_recorder *r, cr_gnum_fn fn, int a, int b);
int cr_recorder_plain_number(cr_recorder *r, cr_scalar value);
/* The answer for the present values, which becomes a guard. */
bool cr_recorder_ask(cr_recorder *r, cr_gnum_test test, int a, int b);
cr_scalar cr_recorder_value(const cr_recorder *r, int k);
/* Makes `r` the thread's recorder; fails with CR_RUNTIME when there is one. */
CR_MUST cr_status cr_recorder_start(cr_recorder *r);
void cr_recorder_stop(cr_recorder *r);
/* Ends the graph with these outputs (NULL: None) and verifies it.  The graph lives as long as
 * the recorder, or another owner of its session.  A tensor that the call did not make is a
 * constant. */
CR_MUST cr_status cr_recorder_finish(cr_graph **out, cr_recorder *r, cr_tensor *const *output,
                                     int n);
/* Sets the source line of the next calls; "" or NULL when unknown. */
void cr_recorder_at(cr_recorder *r, const char *source);
/* The same by a function that is called at every recorded call: `where` returns a text in the
 * session's memory, or NULL to keep the last one. */
typedef const char *(*cr_recorder_where)(void *context, cr_session *s);
void cr_recorder_follow(cr_recorder *r, cr_recorder_where where, void *context);
cr_recorder *cr_recorder_active(void);
/* A number that no other recorder has, also not one made later at the same address; 0 of
 * NULL. */
uint64_t cr_recorder_serial(const cr_recorder *r);
/* Between the two, the thread's recording sees nothing: of an operator whose inside is not part
 * of the graph.  The pair nests. */
cr_recorder *cr_recorder_pause(void);
void cr_recorder_resume(cr_recorder *r);
/* Tells the thread's recorder, if any, that the program made `t` from plain data: `t` is a
 * constant, but not a tensor from outside the call. */
void cr_recorder_literal(cr_tensor *t);
/* Tells the thread's recorder, if its graph is a part of a call, that the input `t` has got a
 * history which no recorded call made, before a recorded call reads it. */
void cr_recorder_gets_history(const cr_tensor *t);
/* Called when a graph cannot represent the program's action (it read an element): finishing
 * then fails with CR_RUNTIME and this text. */
void cr_recorder_refuse(const char *why);
/* Makes the recorder call ends(context, why, of_size) in such a case, and, with of_size, where
 * the size of a result depends on values, instead of failing.  It stops the recorder, and may
 * start another one. The recorder must outlive the call that ended its graph. */
typedef void (*cr_recorder_end)(void *context, const char *why, bool of_size);
void cr_recorder_ends(cr_recorder *r, cr_recorder_end ends, void *context);
/* Number of results of recorded calls that are alive and have a peer; out[i], if not NULL,
 * borrowed. */
size_t cr_recorder_made(const cr_recorder *r, cr_tensor **out);
/* Number of dead tensors over t's storage that the recorder keeps. */
int cr_recorder_kept(const cr_recorder *r, const cr_tensor *t);
/* Whether finishing the thread's recording would fail; false without a recording. */
bool cr_recorder_has_failed(void);
/* Ends the autograd history of `t`, which is recorded or has the elements of a recorded tensor:
 * later calls pass no gradient through it. */
void cr_recorder_cut(cr_tensor *t);
/* Called when a backward pass runs; its calls are recorded, too. */
void cr_recorder_note_backward(void);
bool cr_recorder_saw_backward(const cr_recorder *r);
/* True if a guard fixes a float because a derivative keeps it. */
bool cr_recorder_fixed_floats(const cr_recorder *r);
/* Tensors that recorded calls read and that no recorded call made; without inputs and literals.
 * Borrowed; they are constants of the graph. */
size_t cr_recorder_foreign(const cr_recorder *r, cr_tensor *const **out);
/* Number of sparse tensors among the values of a recording of whole calls; out[i], borrowed,
 * and name[i], that of its value, if not NULL. */
size_t cr_recorder_sparse(const cr_recorder *r, cr_tensor **out, const char **name);
/* Installs the stage; called once, after cr_tensor_start. */
void cr_graph_start(void);

#endif
