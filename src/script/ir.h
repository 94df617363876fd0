/* ir.h - the typed IR of TorchScript: nodes with nested blocks, in single assignment.
 *
 *     graph(%x.1 : Tensor,
 *           %n.1 : int):
 *       %2 : int = prim::Constant[value=1]()
 *       %y.1 : Tensor = aten::add(%x.1, %n.1, %2) # f.py:3:8
 *       return (%y.1)
 *
 * Graphs, nodes and values are in the session of their graph and are never freed singly.
 * Functions that make them bail from it. */
#ifndef CR_SCRIPT_IR_H
#define CR_SCRIPT_IR_H

#include "num/dtype.h"
#include "script/ast.h"
#include "script/type.h"
#include "tensor/tensor.h"

typedef struct cr_sgraph cr_sgraph;
typedef struct cr_sblock cr_sblock;
typedef struct cr_snode cr_snode;
typedef struct cr_svalue cr_svalue;

/* A constant: of a node, a default, a class.  The type says which member it has; NONE none. */
typedef struct cr_sconstant cr_sconstant;
struct cr_sconstant {
    const cr_stype *type;
    /* LIST, DICT: the value itself, which the unit holds and programs may change; the items are
     * those that it had.  NULL: each run makes a value of the items. */
    const struct cr_ivalue *live;
    union {
        int64_t i;   /* INT, BOOL */
        double d[2]; /* FLOAT, COMPLEX */
        struct {     /* STR, DEVICE: the text; ENUM: the name of the member */
            const char *s;
            size_t len;
        };
        struct { /* LIST, TUPLE; DICT: keys and values in turn */
            int count;
            const cr_sconstant *item;
        };
        cr_tensor *tensor;      /* TENSOR: a reference of the unit or graph that owns it */
        cr_sfunction *function; /* FUNCTION */
        void *object;           /* CLASS: an object of an archive, of its reader */
    };
};

/* An argument or result of a schema. */
typedef struct {
    const char *name;
    const cr_stype *type;
    const cr_sconstant *preset; /* the default, or NULL */
    bool keyword_only, written; /* written: alias mark with `!` */
    char alias;                 /* the alias letter, 0: none, '*': wildcard */
    int fixed;                  /* int[2]: 2; else 0 */
    const char *shown;          /* type and alias mark as the schema states them, or NULL */
} cr_sparam;

/* The signature of an operator, a function, or a method (whose first parameter is self). */
typedef struct {
    const char *name;     /* "aten::add" */
    const char *overload; /* "Tensor", or "" */
    int param_count, result_count;
    cr_sparam *param, *result;
    bool any_params;  /* `...` */
    const cr_op *op;  /* the entry that it calls; NULL: a builtin, or a function */
    int builtin;      /* of a builtin: its line in builtins.def; else -1 */
    const char *text; /* as the table has it */
} cr_sschema;

struct cr_svalue {
    const char *name; /* without % and number: %x.3 has "x"; NULL: it is a number alone */
    unsigned id;      /* unique in its graph, in order of making */
    const cr_stype *type;
    cr_snode *by;     /* NULL: an input of `block` */
    cr_sblock *block; /* of an input */
    int index;        /* of the output or input */
    int uses;         /* number of nodes' inputs and blocks' outputs that read it */
};

typedef enum {
    CR_SPRIM_OPERATOR, /* a call of `schema` */
#define CR_SPRIM(NAME, text) CR_SPRIM_##NAME,
#include "script/prims.def"
#undef CR_SPRIM
    CR_SPRIM_COUNT
} cr_sprim;

/* The items of a TUPLE_SLICE. */
typedef struct {
    int64_t begin, end; /* TUPLE_SLICE */
} cr_snode_slice;

/* The types that IS_INSTANCE tests for. */
typedef struct {
    const cr_stype *const *types; /* IS_INSTANCE */
    int type_count;
} cr_snode_types;

/* Where a node comes from. */
typedef struct {
    const char *scope; /* module path of a traced node, or NULL */
    cr_srange range;
} cr_snode_source;

/* A node of a script graph.
 * Invariant: prim decides which members are set. A node is in the list of `owner` by next
 * and prev, or `owner` is NULL. input, output and block have input_count, output_count and
 * block_count entries. */
struct cr_snode {
    uint8_t prim;              /* cr_sprim */
    const cr_sschema *schema;  /* OPERATOR */
    const cr_sconstant *value; /* CONSTANT */
    const char *name;          /* attribute name="...": GET_ATTR, CALL_METHOD, ... or NULL */
    cr_snode_types tests;
    cr_snode_slice slice;
    bool widens;         /* only while compiling: UNCHECKED_CAST to the annotated type;
                          * LIST_CONSTRUCT of [], which gets the type of what takes it */
    cr_sgraph *subgraph; /* FORK, FUSION_GROUP; or NULL */
    cr_snode_source from;
    int input_count, output_count, block_count;
    cr_svalue **input, **output;
    cr_sblock *
        *block; /* IF: two; LOOP: one, with inputs i, carried...; outputs go on, carried... */
    cr_snode *next, *prev;
    cr_sblock *owner;
    size_t input_cap, output_cap;
};

struct cr_sblock {
    cr_sgraph *graph;
    cr_snode *by; /* the node that has the block; NULL: the graph's body */
    cr_snode *first, *last;
    int input_count, output_count;
    cr_svalue **input, **output;
    size_t input_cap, output_cap;
};

struct cr_sgraph {
    cr_session *session;
    cr_sunit *unit; /* owner of its types; borrowed: the function's unit */
    cr_sblock *body;
    unsigned values; /* number of values made */
    bool traced;     /* its text shows what a trace saw, and names as a trace has them */
};

cr_sgraph *cr_sgraph_new(cr_session *s, cr_sunit *u);
/* `name` is copied, or NULL.  Names need not be unique: printing adds numbers. */
size_t cr_sblock_nodes(const cr_sblock *b); /* with those inside of nodes */
cr_svalue *cr_sblock_input(cr_sblock *b, const char *name, const cr_stype *type);
void cr_sblock_output(cr_sblock *b, cr_svalue *v);
/* Appends a node to `b`. */
cr_snode *cr_snode_new(cr_sblock *b, cr_sprim prim, cr_srange range);
/* A node before `at`. */
cr_snode *cr_snode_before(cr_snode *at, cr_sprim prim, cr_srange range);
void cr_snode_input(cr_snode *n, cr_svalue *v);
cr_svalue *cr_snode_output(cr_snode *n, const char *name, const cr_stype *type);
cr_sblock *cr_snode_block(cr_snode *n);
/* Replaces input `i`. */
void cr_snode_set_input(cr_snode *n, int i, cr_svalue *v);
void cr_sblock_set_output(cr_sblock *b, int i, cr_svalue *v);
void cr_sblock_clear_outputs(cr_sblock *b);
/* Remove one; what they remove is not read. */
void cr_snode_erase_input(cr_snode *n, int i);
void cr_snode_erase_output(cr_snode *n, int i);
void cr_sblock_erase_input(cr_sblock *b, int i);
void cr_sblock_erase_output(cr_sblock *b, int i);
/* A constant, and a value that is never read, at the start of the graph. */
cr_svalue *cr_sgraph_constant_first(cr_sgraph *g, const cr_sconstant *value);
cr_svalue *cr_sgraph_blank_first(cr_sgraph *g, const cr_stype *type);
/* The node's value when it is a constant; else NULL. */
const cr_sconstant *cr_svalue_constant(const cr_svalue *v);
/* True for a call of prim::RaiseException. */
bool cr_snode_raises(const cr_snode *n);
/* Unlinks a node whose results are not read. */
void cr_snode_remove(cr_snode *n);
/* Moves a node before `at`, or to the end of `b` when `at` is NULL. */
void cr_snode_move(cr_snode *n, cr_sblock *b, cr_snode *at);
/* Moves all nodes of `b` before `at`, which is in another block. */
void cr_sblock_inline(cr_sblock *b, cr_snode *at);
/* Appends copies of the nodes and outputs of `from` to `to`.  `map` has, by id, the values that
 * replace values; NULL where the value itself is meant.  Its room is for `from`'s graph; ids of
 * the copies are not in it. */
void cr_sblock_copy(cr_sblock *to, const cr_sblock *from, cr_svalue **map);
/* A copy of the graph, in the session. */
cr_sgraph *cr_sgraph_copy(cr_session *s, const cr_sgraph *g);
/* Copies the graph's constants to its session, so that it needs no other session but the
 * unit's. */
void cr_sgraph_own_constants(cr_sgraph *g);
/* Every reader of `from` reads `to`. */
void cr_svalue_replace(cr_sgraph *g, cr_svalue *from, cr_svalue *to);
/* The nodes behind `n` in its block, and the block's results, read `to`. */
void cr_svalue_replace_after(cr_snode *n, cr_svalue *from, cr_svalue *to);
/* A constant at the end of `b`. */
cr_svalue *cr_sblock_constant(cr_sblock *b, const cr_sconstant *value, cr_srange range);

/* "aten::add", "prim::If". */
const char *cr_snode_kind(const cr_snode *n);
/* torch's text of the graph; `ranges`: with the comments # file:line:column.  Values are
 * numbered in the order of their definitions. */
void cr_sgraph_print(cr_text *out, const cr_sgraph *g, bool ranges);
void cr_sconstant_print(cr_text *out, const cr_sconstant *c);
/* The type with all that is known of a tensor: Float(2, 3, strides=[3, 1], requires_grad=0,
 * device=cpu); "Tensor" for layouts without strides. */
void cr_stype_print_of(cr_text *out, const cr_tensor *t);
/* "name(Tensor x, int n=1) -> Tensor". */
void cr_sschema_print(cr_text *out, const cr_sschema *s);

#endif
