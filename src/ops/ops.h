/* ops.h - operator records, read from the table text.
 *
 * opgen uses this reader at build time, and the library at run time on the embedded text.
 * Records are read-only after start-up, when other rooms have set the function pointers. */
#ifndef CR_OPS_OPS_H
#define CR_OPS_OPS_H

#include "base/memory.h"
#include "base/text.h"
#include "ops/rule.h"

enum { CR_MAX_ARGS = 24, CR_MAX_RESULTS = 8, CR_MAX_SLOTS = 64, CR_MAX_WARNINGS = 2 };

/* Types of the schema language. */
typedef enum {
    CR_T_TENSOR,
    CR_T_TENSORS, /* Tensor[] or Tensor?[] */
    CR_T_SCALAR,
    CR_T_SCALARS,
    CR_T_INT,
    CR_T_INTS,
    CR_T_FLOAT,
    CR_T_FLOATS,
    CR_T_BOOL,
    CR_T_BOOLS,
    CR_T_STRING,
    CR_T_DTYPE,
    CR_T_LAYOUT,
    CR_T_DEVICE,
    CR_T_FORMAT,
    CR_T_GENERATOR
} cr_type;

typedef struct {
    const char *name;
    uint8_t type;       /* cr_type */
    bool optional;      /* `?` after the type: None is allowed */
    bool item_optional; /* Tensor?[] */
    bool keyword_only;  /* after `*` */
    bool has_default;
    bool number;        /* a Tensor that may also be a Python number (clause `numbers`) */
    bool written;       /* alias mark with `!`: the operator writes to it */
    bool constant;      /* it must not require a gradient (clause `constant`) */
    char alias;         /* alias letter or 0 */
    int fixed;          /* int[2]: 2; a single int is repeated; 0 when not fixed */
    cr_value preset;    /* the default, when has_default */
    bool preset_is_int; /* `Scalar x=1`: an integral default */
} cr_param;

/* True when an argument with this tag fits the parameter's type; a view is a CR_TENSOR. */
bool cr_param_takes(const cr_param *p, cr_tag tag);

typedef struct {
    const char *name; /* "" if the schema has no name */
    uint8_t type;
    char alias;
    bool written;
    bool constant; /* has no gradient (clause `constant`) */
} cr_result;

/* How an entry computes. */
typedef enum {
    CR_DOES_BODY, /* elementwise: body */
    CR_DOES_FOLD, /* reduction: fold */
    CR_DOES_MAP,  /* view: a function of geometry */
    CR_DOES_IS,   /* composition of other entries: body */
    /* Results are allocated by rules, then computed on plain views (cr_op_on_views). */
    CR_DOES_LOOP,   /* clause `loop`; a function may be faster */
    CR_DOES_SCAN,   /* clause `scan` */
    CR_DOES_STEPS,  /* a composition with a faster function (on the host: fn.on_views, or
                     * NULL) */
    CR_DOES_EXTERN, /* a function alone */
    /* --- */
    CR_DOES_WHOLE,   /* a function on tensors that also allocates its results */
    CR_DOES_INPLACE, /* computes inplace_of into its first argument */
    CR_DOES_COUNT
} cr_does;

/* Call forms, a bit set. */
enum {
    CR_AS_FUNCTION = 1, /* cresset.name(...) */
    CR_AS_METHOD = 2,   /* Tensor.name(...) */
    CR_AS_INPLACE = 4,  /* name_ : method, and function where torch has one */
    CR_AS_OUT = 8,      /* out= */
    CR_AS_NN = 16,      /* torch._C._nn / nn.functional only */
    CR_AS_C = 32,       /* a C function; Python has other syntax for it */
    CR_AS_COPIED = 64   /* out= in torch.ops alone: the results are copied to the tensors */
};

typedef struct {
    const char *input; /* the parameter */
    int arg;           /* index of the parameter */
    cr_rule *rule;     /* the gradient; NULL: explicitly not differentiable */
} cr_derivative;

typedef struct {
    cr_rule *when;       /* the error is raised when this is true */
    uint8_t kind;        /* cr_status */
    const char *message; /* {} is replaced by the next of `args` */
    int count;
    cr_rule **args;
} cr_check;

/* Clause `warn`: what a program that calls the entry is told after a call for which `when`
 * holds.  Calls that a composition makes tell nothing. */
typedef struct {
    cr_check say; /* kind is unused */
    bool once;    /* in the first such call of a process */
} cr_warning;

typedef struct {
    const char *name;
    cr_rule *rule;
    int slot;
} cr_let;

/* A name of clause `axes`: an axis of the loops over a result, or a pack of any number of
 * axes. */
typedef struct {
    const char *name;
    bool pack;
    cr_rule *count; /* of a pack: the number of its axes (NULL: all that other names leave); of
                     * an axis: its size (NULL: that of its dim) */
    int slot;
} cr_loop_axis;
enum { CR_LOOP_AXES = 6, CR_LOOP_INDICES = 3 };

/* Of a loop whose element is a fold: `add[u.. < n](inside : value) / divisor`.  The window's
 * axis is the last one of the entry, and its `count` gives the sizes of the window. */
typedef struct {
    cr_window_how how;
    cr_rule *inside;  /* positions at which this does not hold are left out; NULL: none */
    cr_rule *divisor; /* of the sum, if there is a position; or NULL */
    cr_rule *index; /* the element of the second result, for the row-major number of the value's
                     * position in the source's dims of the window; or NULL */
} cr_loop_window;

/* Clause `index`: the elements of an integer tensor are within [low, high). */
typedef struct {
    int param;
    cr_rule *low, *high; /* low may be NULL: 0 */
    cr_check error;      /* its arguments see the element as the parameter; `when` is unused */
} cr_loop_index;

/* Clause `within`: a call does not raise by elements while those of an integer tensor are in
 * [low, high), or equal to a number.  `each`: the tensors of a list are indices of the dims of
 * another parameter, in order; negative ones count from the end. */
typedef struct {
    int param;
    cr_rule *low, *high; /* low may be NULL: 0; both NULL with `each` */
    int8_t spared;       /* the parameter with that number, or -1 */
    int8_t each;         /* the indexed parameter, or -1 */
} cr_within;

/* Text of a clause as the table has it: lines are joined by cr_clause_put. */
typedef struct {
    const char *at;
    size_t len;
} cr_clause_text;

/* torch's overloads of an entry (clause `aten`, else by rule): "Tensor", "Scalar",
 * "default". */
typedef struct {
    const char *name;
    /* Differences from the entry; bit i is for parameter i. */
    uint32_t scalars;    /* it is a Scalar; the entry also accepts a Tensor */
    uint32_t numbers;    /* it is a Tensor, and torch also accepts a Python number */
    uint32_t absent;     /* it does not exist */
    uint32_t required;   /* it has no default */
    uint32_t positional; /* it is no keyword-only parameter */
    bool unlisted;       /* torch's Python has no signature of it under the entry's name */
} cr_overload;

/* torch's overload that writes the results of another overload to tensors (clause `aten_out`,
 * else by rule). */
typedef struct {
    const char *name;
    const char *from;         /* name of the other; NULL: the first of the list */
    const cr_overload *of;    /* the other */
    const char *const *given; /* names of the tensors, one a result */
} cr_out_overload;

typedef enum { CR_OPERAND_FULL, CR_OPERAND_ROW, CR_OPERAND_COLUMN } cr_operand;

/* The type to which autocast converts floating-point arguments (clause `autocast`). */
typedef enum {
    CR_AUTOCAST_AS_GIVEN,
    CR_AUTOCAST_LOWER, /* the chosen lower precision */
    CR_AUTOCAST_FLOAT32,
    CR_AUTOCAST_PROMOTE /* the widest type of the arguments */
} cr_autocast_way;

/* Which tensors out= takes (clause `out`). */
enum {
    CR_OUT_EXACT = 1,   /* only those of the result's dtype */
    CR_OUT_ANY = 2,     /* those of any dtype; otherwise the result must be castable */
    CR_OUT_TYPED = 4,   /* its dtype is the default of parameter `dtype`, exact beside that */
    CR_OUT_ALIGNED = 8, /* none that shares part of the elements of an argument */
    CR_OUT_APART = 16,  /* none that shares memory with an argument */
    CR_OUT_BOOLS = 32   /* bool or uint8, whatever the result's dtype is */
};
/* Entries that programs add at run time (cr_ops_add). */
typedef enum {
    CR_CUSTOM_NONE,   /* an entry of the table */
    CR_CUSTOM_INLINE, /* graphs have the calls that it makes, if these make its results */
    CR_CUSTOM_OPAQUE  /* graphs have the call itself */
} cr_custom;

struct cr_tensor;
typedef struct cr_op cr_op;

/* Functions that a record points to after start-up. */
typedef cr_status (*cr_call_fn)(const cr_op *op, const cr_value *arg, cr_value *result);
typedef cr_status (*cr_extern_fn)(const cr_value *arg, cr_view *out);
typedef cr_status (*cr_whole_fn)(const cr_value *arg, cr_value *result);
typedef cr_status (*cr_map_fn)(const cr_value *arg, const cr_view *self, cr_geometry *out);
typedef cr_status (*cr_shape_fn)(const cr_value *arg, cr_shape *out);
struct cr_frame;
/* Rules as C (tools/opgen_rules.c).  False: the trees decide. */
typedef bool (*cr_passes_fn)(const cr_value *arg);
typedef bool (*cr_sizes_fn)(const cr_value *arg, cr_shape *out);
typedef bool (*cr_let_fn)(struct cr_frame *f, const cr_value *arg, cr_value *out);

/* --- clauses of a record --- */

/* Clause `format`: row-major results; channels_last (or channels_last_3d) where one of the
 * tensors is, of a list all; self's order of dims.  Results of a body have the order of the
 * operands' dims, those named by LAST after the others. */
typedef enum {
    CR_FORMAT_RULE_NONE,
    CR_FORMAT_RULE_CHANNELS,
    CR_FORMAT_RULE_IMAGES, /* channels_last alone */
    CR_FORMAT_RULE_LIKE,
    CR_FORMAT_RULE_COLUMNS,   /* the last two dims column by column, of the results named */
    CR_FORMAT_RULE_TRANSFORM, /* of an FFT over `dim`: these dims innermost, in self's order */
    CR_FORMAT_RULE_STACKED,   /* each position along `dim` as the tensors of the list */
    CR_FORMAT_RULE_PICKED,    /* of indexing: the orders of dims of self and of the indices */
    CR_FORMAT_RULE_OPERANDS,  /* of a function: as of a body without the clause */
    CR_FORMAT_RULE_LAST,
    CR_FORMAT_RULE_ROW_MAJOR
} cr_format_rule;

/* Texts of an entry, as the table has them; text.file and text.line are its place. */
typedef struct {
    cr_clause_text doc, ref, sample, example, sizes;
    cr_clause_text axes; /* of an entry that is no loop: dist/axes_clause.c reads it */
    const char *tags;
    const char *also; /* further Python names of all overloads: "clip" */
    const char *file;
    int line;
} cr_op_text;

/* torch's overloads of the entry, of its in-place form where these differ, and those that
 * write to given tensors.
 * Invariant: list has `count` overloads, inplace `inplace_count`, out `out_count`. */
typedef struct {
    int count, inplace_count, out_count;
    bool out_stated; /* by clause `aten_out` */
    bool backwards;  /* torch's scripts try the entries of this name from the last one */
    cr_overload *list, *inplace;
    cr_out_overload *out;
} cr_op_aten;

/* Numbers of the names in rules.  Parameters have the numbers from 0.
 * Invariant: parameters, results, cotangents (one a result), lets and axes follow each other,
 * and 0 <= result <= grad <= let <= count <= CR_MAX_SLOTS. */
typedef struct {
    int count; /* of all names, axes and variables too */
    int result, grad, let;
} cr_op_slots;

/* What tensor/ found about the type rule; no other room reads it.
 * Invariant: if `steady`, tensor types alone determine checks and types while the arguments
 * `steady_params` (bits) have their defaults, and `decided` is the last such decision. */
typedef struct {
    uint8_t kind, args;
    bool steady;
    uint32_t steady_params;
    _Atomic uint64_t decided;
} cr_op_typing;

/* Sizes of results: one rule for each, or a C function; without either the broadcast of the
 * tensors.  Invariant: `fn` is set at start-up if and only if `name` is, and rules are then
 * unused; rule[0] stands for results without a rule.  `compiled` gives the sizes of all results
 * as the rules do, or is NULL. */
typedef struct {
    cr_rule *rule[CR_MAX_RESULTS];
    const char *name;
    cr_shape_fn fn;
    cr_sizes_fn compiled;
} cr_op_sizes;

/* FOLD: the call of a combining function on an expression of self.
 * Invariant: `rule` is set in FOLD records only.  `dim` and `keepdim` are the parameters of
 * these names, of any record, or -1. */
typedef struct {
    cr_rule *rule;
    bool index; /* the first result is the index that the reduction keeps */
    int8_t dim, keepdim;
} cr_op_fold;

/* A record with `fused`: its composition is one eager kernel over rows.
 * Invariant: `dim` is a parameter: the dim of a row (int), or the sizes of its trailing dims
 * (int[]).  operand: of each tensor parameter, cr_operand; result: of each result. */
typedef struct {
    int dim;
    uint8_t operand[CR_MAX_ARGS], result[CR_MAX_RESULTS];
} cr_op_rows;

/* LOOP: `target`, an element of the result, is or adds `value`, for all axes.
 * Invariant: target and value are set in LOOP records only.  A result of which not every
 * element is written starts as `start`, a tensor or a number; else `start` is NULL, and target
 * is the element at all axes in order.  `combine`, `fresh` and `adds` need `start`; `adds`
 * excludes `combine`. */
typedef struct {
    int axis_count, index_count;
    cr_loop_axis *axis;
    cr_loop_index *index;
    cr_rule *start, *target, *value;
    cr_rule *combine; /* the name of the operation that writes, or NULL */
    cr_rule *fresh;   /* true: written places start as the operation's identity; or NULL */
    bool adds;
    cr_loop_window *window; /* value is folded over the window; or NULL */
} cr_op_loop;

/* SCAN, along the parameter `dim`: the call of a combining function on self; a second result is
 * the index.  Invariant: `rule` is set in SCAN records only. */
typedef struct {
    cr_rule *rule;
    bool back; /* from the last element to the first */
} cr_op_scan;

/* The C function of a record.
 * Invariant: at most one pointer is set, at start-up: on_geometry of MAP and where `remaps`,
 * on_tensors of WHOLE otherwise, on_views of EXTERN and STEPS, and of LOOP where it is faster
 * than the statement.  It is that of `name`. */
typedef struct {
    const char *name;
    cr_extern_fn on_views;
    cr_whole_fn on_tensors;
    cr_map_fn on_geometry;
    unsigned dtypes; /* of results that on_views of STEPS computes; 0: all */
    bool remaps;     /* of WHOLE, clause `map`: self takes the geometry */
} cr_op_function;

/* Clause `inverse`: an entry that, called on the result with the same further arguments,
 * returns self's bits, for results of these dtypes.
 * Invariant of this and of the following clauses that name entries: `op` is the entry `name`
 * after resolving; both are NULL without the clause. */
typedef struct {
    const char *name;
    const cr_op *op;
    unsigned dtypes;
} cr_op_inverse;

/* Clause `neutral`: with this number as parameter `param` and defaults for the other arguments
 * the result equals a real self of the same dtype, bit for bit; for floats the sign of a zero
 * counts.  Invariant: `param` is -1 without the clause, and never 0. */
typedef struct {
    int8_t param;
    double number;
} cr_op_neutral;

/* Clause `scatter`, of a view: called on self, new elements and the view's further arguments,
 * `op` returns self with the new elements in the places of the view. */
typedef struct {
    const char *name;
    const cr_op *op;
} cr_op_scatter;

/* Clause `sparse`: the entries that compute this one, and its in-place form, for arguments of
 * sparse layouts, with the same parameters.  Clause `batches`: an entry with the word `sparse`
 * takes batches of compressed matrices. */
typedef struct {
    const char *name, *inplace_name;
    const cr_op *op, *inplace;
    bool batches;
} cr_op_sparse;

/* Clause `format`: results have the memory format of the tensors `params` (bits); with COLUMNS
 * these are results.
 * Invariant: rule is not NONE only where cr_op_on_views(). */
typedef struct {
    uint8_t rule; /* cr_format_rule */
    uint32_t params;
} cr_op_format;

/* Clause `out`: CR_OUT_*; the class and the text of the error about a result's dtype. */
typedef struct {
    uint8_t rule, error;
    const char *message; /* or NULL */
} cr_op_out;

/* Clause `updates`: tensor parameters (bits) that the entry writes although torch's schema does
 * not mark them, if the bool parameter `when` is true.  Invariant: params is 0 without it. */
typedef struct {
    uint32_t params;
    int8_t when;
} cr_op_updates;

/* What a deferred call needs (tensor/defer.h).  Clause `unread`: tensor parameters (bits) of
 * which only sizes, strides and dtype are read.  `by_calls`, of a WHOLE entry: it reads and
 * writes bytes only by calls of entries. */
typedef struct {
    uint32_t unread;
    cr_within *within; /* clause `within`, or NULL */
    bool by_calls;
} cr_op_defer;

/* Clause `dispatch`: how programs with __torch_dispatch__ see a call.  `call`: as a call of
 * this entry.  `calls`: as these calls.  Without the clause: a composition without derivatives
 * as its calls, another entry as a call.  Invariant: `call` excludes `calls`. */
typedef struct {
    bool call;
    cr_rule *calls;
} cr_op_dispatch;

/* Clause `fits`: which numbers of a call (parameters of type Scalar) are refused, where the
 * entry has a compute type. */
typedef enum {
    CR_FITS_WIDE,    /* those that the compute type cannot hold; half dtypes hold what float32
                        holds */
    CR_FITS_EXACT,   /* those that the compute type cannot hold */
    CR_FITS_NEGATED, /* those whose negative it cannot hold */
    CR_FITS_ANY,     /* none */
} cr_op_fits;

/* Clauses `autocast` and `autocast_cuda`: cr_autocast_way of host and CUDA tensors. */
typedef struct {
    uint8_t host, cuda;
} cr_op_autocast;

/* An entry, or an in-place form.
 * Invariant: `does` decides which of body, fold, loop, scan and fn are set.  After start-up
 * records are read-only but for `typing` and `kernel`. */
struct cr_op {
    /* Hot: every call reads these. */
    cr_call_fn kernel_stage; /* the last stage, chosen by `does` */
    uint16_t index;          /* index in the table */
    uint8_t param_count, result_count;
    uint8_t does;           /* cr_does */
    bool differentiable;    /* has a grad clause */
    bool fused;             /* IS with an eager row kernel: `rows` */
    uint8_t custom;         /* cr_custom */
    uint32_t tensor_params; /* bit i: parameter i is a Tensor or Tensor[] */
    uint32_t mask_params;   /* bit i: a kernel reads parameter i as bool, because the type rule
                             * names other tensors only */
    uint32_t rounds;        /* bit i: a kernel of a half or 8-bit float dtype reads parameter i
                             * rounded to this dtype (clause `rounds`) */
    cr_op_autocast autocast;
    uint32_t scalar_params; /* bit i: parameter i is a Scalar whose number must fit (`fits`) */
    uint32_t factors;       /* bit i: a factor of no higher kind than the compute type (clause
                             * `factors`) */
    bool factors_real; /* of a real compute type, a complex factor counts as its real part */
    uint8_t fits;      /* cr_op_fits */
    cr_op_typing typing;
    cr_kernel (*kernel)[CR_FORM_COUNT]; /* [CR_DTYPE_KERNELS] */
    cr_param *param;                    /* [param_count] */
    cr_result result[CR_MAX_RESULTS];
    unsigned words; /* CR_WORD_* */
    /* Cold. */
    const char *name;     /* "add" */
    const char *overload; /* "" or "dim" */
    cr_op_text text;
    cr_op_aten aten;
    unsigned forms;
    unsigned dtypes;     /* bit per cr_dtype: supported compute types; 0 = all */
    unsigned stored;     /* those of them that have no kernels */
    const char *refuses; /* torch's name of the kernel, for refusing a dtype; or NULL */
    cr_rule *type;       /* compute and default result type; NULL: as self */
    cr_rule *returns[CR_MAX_RESULTS]; /* result types; NULL: as type */
    cr_op_sizes sizes;
    cr_op_slots slots;
    int let_count;
    cr_let *lets;              /* in order; each may use the earlier ones */
    const cr_let_fn *let_code; /* IS: of each let, or NULL; or NULL for all */
    int check_count;
    cr_check *checks;
    cr_passes_fn passes; /* true: no check holds; or NULL */
    int warning_count;
    cr_warning *warnings;
    cr_passes_fn silent; /* true: no warning comes; or NULL */
    int body_count;
    cr_rule *body[CR_MAX_RESULTS]; /* BODY: one for each result; IS, STEPS: the results */
    cr_op_fold fold;
    cr_op_rows rows;
    cr_op_loop loop;
    cr_op_scan scan;
    cr_op_function fn;
    int grad_count;
    cr_derivative *grads;
    cr_rule *node;   /* name of its autograd node, from the saved values; or NULL */
    cr_rule *flops;  /* floating point operations, from sizes of arguments and results; or
                      * NULL */
    double ulp;      /* error bound of its functions in ulp; 0: exact or 1 ulp */
    uint32_t counts; /* bit i: the number of results follows parameter i; of a tensor, its size
                      * along `dim` (clause `counts`) */
    int onnx_count;
    cr_rule **onnx; /* the results as calls of ONNX's operators, or NULL (clause `onnx`) */
    cr_op_inverse inverse;
    cr_op_neutral neutral;
    cr_op_scatter scatter;
    cr_op_sparse sparse;
    cr_op_format format;
    cr_op_updates updates;
    cr_op_defer defer;
    cr_op_out out;
    cr_op_dispatch dispatch;
    /* Clause `functional`, of an entry that writes self: the new value of self, without writes.
     * Either a parameter, whose elements self gets, or a call of an entry on parameters. */
    cr_rule *functional;
    /* Clause `expanded`: the memory of a self whose elements share it, after the in-place form;
     * and the example in the warning. */
    cr_rule *expanded;
    const char *expanded_example;
    /* Clause `filled`: all elements of the result are this number or parameter. */
    cr_rule *filled;
    const cr_op *next; /* next overload of the same name, or NULL */
    /* The in-place form `name_` is a separate record, made from this one.  It writes its first
     * parameter; does == CR_DOES_INPLACE, forms == 0. */
    const cr_op *inplace;    /* this entry's in-place form, or NULL */
    const cr_op *inplace_of; /* of an in-place form: the entry it computes */
};

/* Properties of entries (clause `words`), a bit set; words.def defines them. */
enum {
#define CR_WORD(NAME, name, promise) CR_WORD_BIT_##NAME,
#include "ops/words.def"
#undef CR_WORD
    CR_WORD_COUNT
};
enum {
#define CR_WORD(NAME, name, promise) CR_WORD_##NAME = 1u << CR_WORD_BIT_##NAME,
#include "ops/words.def"
#undef CR_WORD
};
typedef struct {
    const char *name, *promise;
} cr_word_info;
extern const cr_word_info cr_word_infos[CR_WORD_COUNT];

/* True if results are allocated by the entry's rules, then computed on plain views. */
static inline bool cr_op_on_views(const cr_op *op)
{
    return op->does >= CR_DOES_LOOP && op->does <= CR_DOES_EXTERN;
}

/* True if every result is a tensor or a list of tensors, and none a number. */
static inline bool cr_op_makes_tensors(const cr_op *op)
{
    for (int k = 0; k < op->result_count; k++)
        if (op->result[k].type != CR_T_TENSOR && op->result[k].type != CR_T_TENSORS)
            return false;
    return true;
}

/* True if the result may share memory with an argument: for views, and for entries such as
 * reshape that copy only if necessary. */
bool cr_op_may_view(const cr_op *op);

/* Reads table text and adds its records, which refer to it: the text must stay.  `file` is the
 * name in messages.  Fails with CR_VALUE and a message "file:line: ...". */
CR_MUST cr_status cr_ops_read(const char *file, const char *text, size_t len);
/* Reads a schema alone, "name(int n, bool bias=True) -> Tensor": the names, parameters and
 * results of *op, which must be zero; strings go to `arena`.  CR_VALUE. */
CR_MUST cr_status cr_schema_read(cr_op *op, cr_arena *arena, const char *schema);
/* The records of a table and all that they refer to, as opgen writes them at build time, so
 * that start-up does not parse the table.  Bit i of `links` is set where word i stands for an
 * address: the lowest two bits of the word name a cr_ops_part, the other bits count bytes from
 * the start of that part.
 * Structs without addresses are in `fixed`, which start-up does not write.  Equal structs are
 * stored once.  Invariant: words are as those of a program with the same structs
 * (opgen states the sizes). */
typedef enum { CR_OPS_WORDS, CR_OPS_FIXED, CR_OPS_TEXTS, CR_OPS_CONSTANTS } cr_ops_part;
typedef struct {
    uint64_t *words;
    const uint64_t *fixed, *links;
    size_t count;        /* of words */
    const char *texts;   /* of free clauses, which only documentation reads */
    const uint32_t *ops; /* of each record, its distance in bytes from `words` */
    int op_count, entries;
} cr_ops_image;
/* Makes the records of an image the table, instead of cr_ops_read and cr_ops_resolve.  Links
 * become addresses, so an image is loaded once.  CR_MEMORY, CR_VALUE. */
CR_MUST cr_status cr_ops_load(const cr_ops_image *image);
/* For opgen: the memory of all records; objects outside of it that records refer to. */
cr_arena *cr_ops_arena(void);
enum { CR_OPS_CONSTANT_COUNT = 2 };
extern const void *const cr_ops_constants[CR_OPS_CONSTANT_COUNT];

/* Adds an entry after the table: `name` is its full name ("mylib::f"), `schema` as for
 * cr_schema_read.  `stage` is its kernel stage.  Entries are never removed.  CR_VALUE for a
 * schema that cannot be read or a name that exists. */
CR_MUST cr_status cr_ops_add(cr_op **out, const char *name, const char *schema,
                             cr_call_fn stage);
/* Gives `op` a table of kernels to fill, unless it has one.  Records start with a shared table
 * without kernels.  CR_MEMORY. */
CR_MUST cr_status cr_op_add_kernels(cr_op *op);
/* The number of records that there may be: arrays by cr_op.index have this length. */
enum { CR_MOST_OPS = 4096 };
/* Resolves names and calls in all rule trees, once, after the last read. */
CR_MUST cr_status cr_ops_resolve(void);
/* CR_VALUE for an entry that computes elements itself and whose results may be floats, but that
 * states neither derivatives (`grad`) nor results without (`constant`): a result without
 * history would end gradients silently. */
CR_MUST cr_status cr_op_check_derivative(const cr_op *op);

/* Built-in functions of rules (builtin.def), the values of cr_rule.builtin. */
typedef enum {
#define CR_BUILTIN(name, least, most, reads) CR_BUILTIN_##name,
#include "ops/builtin.def"
#undef CR_BUILTIN
    CR_BUILTIN_COUNT
} cr_builtin;
/* What a built-in function reads of its tensors; each includes the ones before. */
typedef enum { CR_READS_TYPE, CR_READS_NDIM, CR_READS_SHAPE, CR_READS_VALUE } cr_rule_reads;
/* False for calls that are no built-in functions (builtin < 0). */
bool cr_builtin_reads_only(int builtin, cr_rule_reads most);

/* Entries of the table, in table order; in-place forms come after them. */
int cr_ops_count(void);
int cr_ops_table_count(void);
cr_op *cr_ops_at(int index);
/* The first overload of `name` ("add") or exactly one ("max.dim"); NULL when absent. */
cr_op *cr_ops_find(const char *name);
/* The number of the parameter called `name`; -1 when there is none. */
int cr_op_find_param(const cr_op *op, const char *name);

/* Prints torch's schema of one of op->aten: "aten::add.Scalar(Tensor self, ...) -> Tensor".
 * `name` is the entry's name, or one of clause `also`. */
void cr_op_print_overload(cr_text *out, const cr_op *op, const char *name,
                          const cr_overload *overload);
void cr_op_print_out_overload(cr_text *out, const cr_op *op, const char *name,
                              const cr_out_overload *overload);
/* True when an overload that writes to given tensors lacks parameter i: such a tensor has the
 * dtype, layout and device of the result. */
bool cr_op_out_lacks(const cr_op *op, int i);
/* Prints the schema line, which parses to an equal record. */
void cr_op_print_schema(cr_text *out, const cr_op *op);

/* The dtypes in which an entry computes, by class where it takes a whole one: "integer,
 * float32", and "; others become floating" where its type rule is float(...).  Nothing where
 * the entry does not tell. */
void cr_op_print_dtypes(cr_text *out, const cr_op *op);
void cr_rule_print(cr_text *out, const cr_rule *rule);
/* Appends the text of a clause, its lines joined by blanks. */
void cr_clause_put(cr_text *out, cr_clause_text text);
/* The name of a parameter's type in messages: "tuple of ints". */
const char *cr_param_type_text(const cr_param *p);
/* The schema's name of a type; of the items' type where it is a list. */
const char *cr_schema_type(unsigned type, bool *list);

#endif
