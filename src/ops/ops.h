/* ops.h - operator records, read from the table text.
 *
 * opgen uses this reader at build time, and the library at run time on the embedded text.
 * Records are read-only after start-up, when other rooms have set the function pointers. */
#ifndef CR_OPS_OPS_H
#define CR_OPS_OPS_H

#include "base/memory.h"
#include "base/text.h"
#include "ops/rule.h"

enum { CR_MAX_ARGS = 24, CR_MAX_RESULTS = 8, CR_MAX_SLOTS = 64 };

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
    char alias;         /* alias letter or 0 */
    int fixed;          /* int[2]: 2; a single int is repeated; 0 when not fixed */
    cr_value preset;    /* the default, when has_default */
    bool preset_is_int; /* `Scalar x=1`: an integral default */
} cr_param;

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
    CR_DOES_STEPS,  /* a composition with a function that is faster: body, extern_fn */
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
    CR_AS_C = 32        /* a C function; Python has other syntax for it */
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

/* Text of a clause as the table has it: lines are joined by cr_clause_put. */
typedef struct {
    const char *at;
    size_t len;
} cr_clause_text;

/* torch's overloads of an entry (clause `aten`, else by rule): "Tensor", "Scalar", "default".
 */
typedef struct {
    const char *name;
    /* Differences from the entry; bit i is for parameter i. */
    uint32_t scalars;  /* it is a Scalar; the entry also accepts a Tensor */
    uint32_t numbers;  /* it is a Tensor, and torch also accepts a Python number */
    uint32_t absent;   /* it does not exist */
    uint32_t required; /* it has no default */
} cr_overload;

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
    CR_OUT_APART = 16   /* none that shares memory with an argument */
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

struct cr_op {
    /* Hot: every call reads these. */
    cr_call_fn kernel_stage; /* the last stage, chosen by `does` */
    uint16_t index;          /* index in the table */
    uint8_t param_count, result_count;
    uint8_t does;                      /* cr_does */
    bool differentiable;               /* has a grad clause */
    uint8_t autocast, autocast_cuda;   /* cr_autocast_way; of CUDA tensors */
    uint8_t custom;                    /* cr_custom */
    uint8_t fast_type, fast_type_args; /* tensor/: the kind of type rule */
    int8_t dim_param, keepdim_param;   /* FOLD: indices of `dim` and `keepdim`, or -1 */
    uint32_t tensor_params;            /* bit i: parameter i is a Tensor or Tensor[] */
    uint32_t mask_params; /* bit i: a kernel reads parameter i as bool, because the type rule
                           * names other tensors only */
    bool steady; /* tensor/: tensor types alone determine checks and types while the arguments
                  * `steady_params` have their defaults */
    uint32_t steady_params;
    _Atomic uint64_t decided;           /* tensor/: the last tensor types and their decision */
    cr_kernel (*kernel)[CR_FORM_COUNT]; /* [CR_DTYPE_KERNELS] */
    cr_param *param;                    /* [param_count] */
    cr_result result[CR_MAX_RESULTS];
    /* Cold. */
    const char *name;     /* "add" */
    const char *overload; /* "" or "dim" */
    cr_clause_text doc, ref, sample, example;
    const char *tags;
    int aten_count; /* torch's overloads of this entry */
    cr_overload *aten;
    int aten_inplace_count; /* overloads of the in-place form, if they differ */
    cr_overload *aten_inplace;
    const char *also; /* further Python names of all overloads: "clip" */
    const char *file; /* table file, for messages */
    int line;
    unsigned forms;
    unsigned dtypes;     /* bit per cr_dtype: supported compute types; 0 = all */
    unsigned stored;     /* those of them that have no kernels */
    const char *refuses; /* torch's name of the kernel, for refusing a dtype; or NULL */
    cr_rule *type;       /* compute and default result type; NULL: as self */
    cr_rule *returns[CR_MAX_RESULTS]; /* result types; NULL: as type */
    cr_rule *shape[CR_MAX_RESULTS];   /* NULL: broadcast of the tensor arguments */
    const char *shape_extern;
    cr_shape_fn shape_fn;
    int let_count;
    cr_let *lets; /* in order; each may use the earlier ones */
    int body_count;
    cr_rule *body[CR_MAX_RESULTS]; /* BODY: one for each result; IS: the results */
    cr_rule *fold;   /* FOLD: the call of a combining function on an expression of self */
    bool fold_index; /* FOLD: the first result is the index that the reduction keeps */
    bool fused;      /* IS with an eager row kernel */
    int fused_dim; /* fused: the parameter with the dim of a row (int), or with the sizes of the
                    * trailing dims of a row (int[]) */
    uint8_t operand[CR_MAX_ARGS];         /* fused: cr_operand of each tensor parameter */
    uint8_t fused_result[CR_MAX_RESULTS]; /* fused: cr_operand of each result */
    /* LOOP, clauses `axes`, `loop` and `index`: loop_target, an element of the result, is or
     * adds loop_value, for all axes.  A result of which not every element is written so starts
     * as loop_start, a tensor or a number; else this is NULL.  extern_name is then a faster
     * kernel (clause `kernel cpu`), or NULL. */
    int axis_count, index_count;
    cr_loop_axis *axis;
    cr_loop_index *index_check;
    cr_rule *loop_start, *loop_target, *loop_value;
    cr_rule *loop_combine; /* the name of the operation that writes, or NULL */
    cr_rule *loop_fresh;   /* true: written places start as the operation's identity; or NULL */
    bool loop_adds;
    cr_loop_window *loop_window; /* loop_value is folded over the window; or NULL */
    cr_rule *scan;  /* SCAN, along the parameter `dim`: the call of a combining function on
                     * self; a second result is the index */
    bool scan_back; /* from the last element to the first */
    const char *extern_name;
    cr_extern_fn extern_fn;
    cr_whole_fn whole_fn;
    cr_map_fn map_fn;
    cr_rule
        *flops;    /* floating point operations, from sizes of arguments and results; or NULL */
    cr_rule *node; /* name of its autograd node, from the saved values; or NULL */
    int check_count;
    cr_check *checks;
    int grad_count;
    cr_derivative *grads;
    double ulp;     /* error bound of its functions in ulp; 0: exact or 1 ulp */
    int slot_count; /* arguments, results, g's, lets, loop variables */
    int first_result_slot, first_grad_slot, first_let_slot;
    unsigned words; /* CR_WORD_* */
    /* Clause `inverse`: an entry that, called on the result with the same further arguments,
     * returns self's bits, for results of these dtypes.  NULL without the clause. */
    const char *inverse_name;
    const cr_op *inverse;
    unsigned inverse_dtypes;
    /* Clause `neutral`: a parameter and a number.  With this number and defaults for the other
     * arguments the result equals a real self of the same dtype, bit for bit. -1 without the
     * clause.  For floats the sign of a zero counts. */
    int8_t neutral_param;
    double neutral;
    /* Clause `functional`, of an entry that writes self: the new value of self, without writes.
     * Either a parameter, whose elements self gets, or a call of an entry on parameters. */
    cr_rule *functional;
    /* Clause `scatter`, of a view: an entry that, called on self, new elements and the view's
     * further arguments, returns self with the new elements in the places of the view.  Or
     * NULL. */
    const char *scatter_name;
    const cr_op *scatter;
    /* Clause `sparse`: the entry that computes this one for arguments of sparse layouts, and
     * the one for its in-place form, with the same parameters.  NULL without the clause. */
    const char *sparse_name, *sparse_inplace_name;
    const cr_op *sparse, *sparse_inplace;
    /* Clause `format`: results have the memory format of the tensors `format_params` (bits), of
     * an EXTERN entry.  See cr_format_rule. */
    uint8_t format_rule;
    uint32_t format_params;
    /* Clause `updates`: bits of tensor parameters that the entry writes although torch's schema
     * does not mark them, if the bool parameter `updates_when` is true. */
    uint32_t updates;
    int8_t updates_when;
    /* Clause `out`: CR_OUT_*; the class and the text of the error about its dtype, or NULL. */
    uint8_t out_rule, out_error;
    const char *out_message;
    /* Clause `filled`: all elements of the result are this number or parameter. */
    cr_rule *filled;
    /* Clause `dispatch`: how programs with __torch_dispatch__ see a call.  `dispatch_call`: as
     * a call of this entry.  `dispatch`: as these calls.  Without the clause: a composition
     * without derivatives as its calls, another entry as a call. */
    bool dispatch_call;
    cr_rule *dispatch;
    const cr_op *next; /* next overload of the same name, or NULL */
    /* The in-place form `name_` is a separate record, made from this one.  It writes its first
     * parameter; does == CR_DOES_INPLACE, forms == 0. */
    const cr_op *inplace;    /* this entry's in-place form, or NULL */
    const cr_op *inplace_of; /* of an in-place form: the entry it computes */
};

/* Clause `format`: row-major results; channels_last (or channels_last_3d) where one of the
 * tensors is, of a list all; self's order of dims. */
typedef enum {
    CR_FORMAT_RULE_NONE,
    CR_FORMAT_RULE_CHANNELS,
    CR_FORMAT_RULE_IMAGES, /* channels_last alone */
    CR_FORMAT_RULE_LIKE
} cr_format_rule;

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

/* True if the result may share memory with an argument: for views, and for entries such as
 * reshape that copy only if necessary. */
bool cr_op_may_view(const cr_op *op);

/* Reads table text and adds its records, which refer to it: the text must stay.  `file` is the
 * name in messages.  Fails with CR_VALUE and a message "file:line: ...". */
CR_MUST cr_status cr_ops_read(const char *file, const char *text, size_t len);
/* Reads a schema alone, "name(int n, bool bias=True) -> Tensor": the names, parameters and
 * results of *op, which must be zero; strings go to `arena`.  CR_VALUE. */
CR_MUST cr_status cr_schema_read(cr_op *op, cr_arena *arena, const char *schema);
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
#define CR_BUILTIN(name, least, most) CR_BUILTIN_##name,
#include "ops/builtin.def"
#undef CR_BUILTIN
    CR_BUILTIN_COUNT
} cr_builtin;

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
/* Prints the schema line, which parses to an equal record. */
void cr_op_print_schema(cr_text *out, const cr_op *op);
void cr_rule_print(cr_text *out, const cr_rule *rule);
/* Appends the text of a clause, its lines joined by blanks. */
void cr_clause_put(cr_text *out, cr_clause_text text);
/* The name of a parameter's type in messages: "tuple of ints". */
const char *cr_param_type_text(const cr_param *p);

#endif
