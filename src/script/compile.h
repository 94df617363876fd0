/* compile.h - from syntax trees to graphs; what the compiler's files share.
 *
 * A name means a term: a value of the graph, or something that exists only in the compiler (a
 * module path, a builtin, a class, a bound method).  Each variable of a function has a record,
 * which holds its present term; blocks log what they change, so that leaving a block restores
 * it (compile_flow.c). */
#ifndef CR_SCRIPT_COMPILE_H
#define CR_SCRIPT_COMPILE_H

#include "script/operators.h"
#include "script/python.h"

typedef enum {
    TERM_VALUE,    /* value */
    TERM_PATH,     /* name: torch, torch.nn, ops.prim, __torch__.a.b */
    TERM_OPERATOR, /* name: aten::add; self, or NULL */
    TERM_METHOD,   /* function, self */
    TERM_FUNCTION, /* function */
    TERM_CLASS,    /* type */
    TERM_CLOSURE,  /* ast: a function inside the function */
    TERM_SPECIAL,  /* name: of a form that the compiler computes */
    TERM_PYTHON,   /* handle: an object of the caller's language, whose attributes are names */
    TERM_CHOICE,   /* handle: two functions, and the constant argument that chooses */
    TERM_ITEMS,    /* items: known when compiled, such as the modules of a list */
    TERM_SLICE     /* items: start, stop and step, NULL where absent */
} term_kind;

typedef struct term {
    uint8_t kind; /* term_kind */
    const char *name;
    bool casts; /* OPERATOR: x.long(), to this dtype */
    cr_dtype dtype;
    cr_svalue *value, *self;
    cr_sfunction *function;
    const cr_stype *type;
    const cr_sast *ast;
    int64_t handle;
    int count;
    struct term **items;
} term;

/* Why a variable has no term behind an `if`: one branch does not set it, or its types
 * differ. */
typedef struct {
    const char *branch; /* the one that does not set it */
    const cr_stype *yes, *no;
    cr_srange range; /* of the `if` */
} loss;

typedef struct variable variable;
struct variable {
    variable *next; /* of its hash chain */
    const char *name;
    term *now;
    const loss *lost;         /* or NULL */
    int depth;                /* of the block that set it */
    const cr_stype *declared; /* by an annotation, or NULL */
};

typedef struct {
    variable *var;
    term *before;
    const loss *lost;
    int depth;
} change;

typedef CR_VEC(change) changes;

enum { VARIABLE_CHAINS = 64 };

/* Compiles one function.
 * Invariant: variables and constants are chains by hash. `block` is a block of `graph`, and
 * a change in `log` is undone when the block ends that it was made in. */
typedef struct {
    cr_session *s;
    cr_sunit *unit;
    const cr_sarchive *archive;
    const cr_senv *env; /* what names mean, of functions that do not come from an archive */
    cr_sfunction *function;
    cr_sgraph *graph;
    cr_sblock *block;
    variable *variables[VARIABLE_CHAINS];
    variable *constants[VARIABLE_CHAINS]; /* literals by type and text */
    changes log;
    int depth, steps;
    int *nesting;             /* levels in all functions that are being compiled */
    const cr_stype *declared; /* the result's declared type, or NULL */
    const cr_stype *result;   /* of the returns so far; NULL: there is none */
    struct looping *loop;     /* the innermost loop */
    cr_scaller *caller;       /* the function, for errors of those that it calls; or NULL */
} compiler;

/* An argument of a call; name NULL: positional. */
typedef struct {
    const char *name;
    cr_svalue *value;
    cr_srange range;
} argument;

typedef CR_VEC(argument) arguments;

/* Forms that the compiler computes. */
typedef enum {
#define CR_SPECIAL(name) SPECIAL_##name,
#include "script/specials.def"
#undef CR_SPECIAL
    SPECIAL_COUNT
} special;

/* --- types (compile_type.c) --- */
const cr_stype *compile_type(compiler *c, const cr_sast *a);
/* The type of dicts with these keys, which not all types can be. */
const cr_stype *compile_dict_type(compiler *c, const cr_stype *key, const cr_stype *value);

/* --- schemas (compile_match.c) --- */
/* Calls the first schema of the operator that takes the arguments. */
term *compile_operator(compiler *c, const char *name, const arguments *args, cr_srange range);
/* Calls a function or method with the arguments: NULL result, and why in *failure, when it does
 * not take them. */
cr_svalue *compile_call(compiler *c, cr_sfunction *f, cr_svalue *self, const arguments *args,
                        cr_srange range);
/* The value as one of this type, when conversions that every call makes allow it. */
cr_svalue *compile_convert(compiler *c, cr_svalue *v, const cr_stype *to, bool implicit,
                           cr_srange range);
/* A variable has the value: [] stays a list of tensors. */
void compile_close(const cr_svalue *v);
/* Whether a parameter of type `formal` takes a value of type `actual` as it is. */
bool compile_takes(compiler *c, const cr_stype *formal, const cr_stype *actual);
/* The values of a named tuple's fields. */
cr_svalue **compile_fields(compiler *c, const cr_sclass *cls, const arguments *args,
                           cr_srange range);
cr_svalue *compile_construct(compiler *c, cr_sprim prim, const cr_stype *type, int count,
                             cr_svalue *const *item, cr_srange range);
/* A tuple of values. */
cr_svalue *compile_tuple_of(compiler *c, int count, cr_svalue *const *item, cr_srange range);

/* --- expressions (compile.c) --- */
/* Notes the place of a call that may compile another function. */
static inline void compile_note(compiler *c, cr_srange at)
{
    if (c->caller)
        c->caller->at = at;
}
/* Count levels of the C stack; entering bails when there are too many. */
void compile_enter(compiler *c, cr_srange range);
void compile_leave(compiler *c);
term *compile_term(compiler *c, const cr_sast *a, const cr_stype *hint);
cr_svalue *compile_value(compiler *c, const cr_sast *a, const cr_stype *hint);
/* The member of an annotation that a display of kind LIST, DICT or TUPLE has; NULL when there
 * is none, or several.  Annotations without one are refused. */
const cr_stype *compile_display_hint(compiler *c, const cr_stype *hint, cr_stype_kind kind,
                                     cr_srange range);
/* How many members of a union are of this kind; 0 of other annotations. */
int compile_display_members(const cr_stype *hint, cr_stype_kind kind);
/* The display, cast to an annotation of several types. */
cr_svalue *compile_display_cast(compiler *c, cr_svalue *made, const cr_stype *hint,
                                cr_srange range);
term *compile_term_value(compiler *c, cr_svalue *v);
cr_svalue *compile_as_value(compiler *c, term *t, cr_srange range);
cr_svalue *compile_constant(compiler *c, const cr_sconstant *value, cr_srange range);
cr_svalue *compile_int(compiler *c, int64_t i, cr_srange range);
/* A literal of the source, or a number that the compiler adds as one. */
cr_svalue *compile_literal(compiler *c, int64_t i, cr_srange range);
cr_svalue *compile_none(compiler *c, cr_srange range);
cr_svalue *compile_truth(compiler *c, const cr_sast *a);
cr_svalue *compile_one(compiler *c, const char *name, cr_srange range, int count,
                       cr_svalue *const *arg);

/* The values of arguments, as an array. */
cr_svalue **compile_item_values(compiler *c, const arguments *args);
/* Whether an object has an attribute, constant, method or property. */
bool compile_has(compiler *c, cr_svalue *v, const char *name, cr_srange range);
/* The form with this name; SPECIAL_COUNT when there is none. */
special compile_special_of(const char *name);
/* Calls a method of an object whose name is that of an operator: __add__. */
cr_svalue *compile_magic(compiler *c, const char *name, cr_svalue *self, int count,
                         cr_svalue *const *arg, cr_srange range);
term *compile_modules(compiler *c, cr_svalue *v, cr_srange range);

/* -9223372036854775808, the least int, whose digits alone are none. */
bool compile_is_least_int(const cr_sast *a);

/* --- subscripts (compile_subscript.c) --- */
/* A value, an item of a module's list that is known when it is compiled, or one of the
 * interface that `hint` is. */
term *compile_subscript(compiler *c, const cr_sast *a, const cr_stype *hint);
/* x[i] = value of a tensor. */
void compile_tensor_store(compiler *c, cr_svalue *v, const cr_sast *a, cr_svalue *value);
/* x[i] += value of a tensor: `name` is the operator in place. */
void compile_tensor_update(compiler *c, cr_svalue *v, const cr_sast *a, const char *name,
                           const cr_sast *by, cr_srange range);

/* --- assignments (compile_assign.c) --- */
void compile_assign(compiler *c, const cr_sast *a);
/* x += y */
void compile_augmented(compiler *c, const cr_sast *a);
/* Gives the target the value; `range` is the statement. */
void compile_target(compiler *c, const cr_sast *target, term *t, cr_srange range);

/* --- conditions (compile_cond.c) --- */

/* Types of variables that hold in a branch. */
typedef struct facts facts;

typedef struct {
    cr_svalue *value;
    int known; /* 0, 1: when the program is compiled; -1: not */
    facts *yes, *no;
} condition;

condition *compile_condition(compiler *c, const cr_sast *a);
/* Sets the variables to values of their types in the branch that begins. */
void compile_assume(compiler *c, const facts *f, cr_srange range);

/* --- statements (compile_flow.c) --- */
variable *compile_variable(compiler *c, const char *name);
void compile_set(compiler *c, const char *name, term *t, cr_srange range);
/* Undoes what was set since the log had this length. */
void compile_undo(compiler *c, size_t mark);
/* Undoes it, too; the result has the terms of the variables that the branch changed. */
changes compile_branch_leave(compiler *c, size_t mark);
/* The error of a use of a variable that is lost. */
const char *compile_lost_text(compiler *c, const variable *v);
/* Makes variables that the branches of an IF changed results of the node. */
void compile_branches_join(compiler *c, cr_snode *n, const changes *yes, const changes *no);
cr_svalue *compile_comprehension(compiler *c, const cr_sast *a, const cr_stype *hint);
cr_svalue *compile_dict_comprehension(compiler *c, const cr_sast *a, const cr_stype *hint);
/* list(x) and dict(x, key=value). */
cr_svalue *compile_list_call(compiler *c, const cr_sast *a, const cr_stype *hint);
cr_svalue *compile_dict_call(compiler *c, const cr_sast *a, const cr_stype *hint);
void compile_body(compiler *c, const cr_sast *def);
/* fork(f) of a function inside the function: its future. */
cr_svalue *compile_fork(compiler *c, const cr_sast *def, cr_srange range);

/* --- names of functions that are not of an archive (define.c) --- */

/* NULL: the name means nothing there. */
term *define_name(compiler *c, const char *name, cr_srange range);
term *define_attribute(compiler *c, const term *object, const char *name, cr_srange range);
/* The function that a call of an object means; NULL: it cannot be called. */
cr_sfunction *define_called(compiler *c, const term *object, int count, cr_srange range);
/* The function of a CHOICE that a call with these arguments means. */
term *define_choose(compiler *c, const term *choice, const arguments *args, cr_srange range);
/* The qualified name of an exception's class, "builtins.ValueError"; NULL for other objects. */
const char *define_exception(compiler *c, const term *object, cr_srange range);
/* A member that the class lacks: NULL, or a method or constant that the class gets now. */
term *define_member(compiler *c, cr_svalue *self, const cr_sclass *cls, const char *name,
                    cr_srange range);
/* A function of the class without self, which the class has in Python; or NULL. */
cr_sfunction *define_static(compiler *c, const cr_sclass *cls, const char *name);
const cr_stype *define_type(compiler *c, const cr_sast *a);
const cr_sconstant *define_constant(compiler *c, const cr_sast *a);
/* Refuse syntax, with torch's class of the error. */
CR_NORETURN void define_refuse(compiler *c, const char *kind, cr_srange range,
                               const char *what);
CR_NORETURN void define_unsupported(compiler *c, const cr_sast *a);

/* --- names of archives (import.c) --- */
cr_sfunction *import_define(compiler *c, const char *name, cr_sclass *owner, const cr_sast *a);
term *import_name(compiler *c, const char *name, cr_srange range);
term *import_path(compiler *c, const char *path, cr_srange range);
/* The i-th function that stands for an operator in this archive (library.def); NULL behind the
 * last one.  `known`: the operator has schemas. */
cr_sfunction *import_operator(compiler *c, const char *name, bool known, int i);
cr_sclass *import_class(compiler *c, const char *name, cr_srange range);
/* The class's method, also one that is defined when it is first asked for; or NULL. */
cr_sfunction *compile_method(compiler *c, cr_sclass *cls, const char *name, cr_srange range);
/* Compiles a function that is not compiled yet. */
void compile_function(compiler *from, cr_sfunction *f, cr_srange range);

#endif
