/* bind.h - what the files of the Python extension share.
 *
 * A function that returns PyObject * returns a new reference, or NULL with a
 * Python exception set, unless it says otherwise.  A function that returns int
 * for success returns 0, or -1 with an exception set. */
#ifndef CR_PY_BIND_BIND_H
#define CR_PY_BIND_BIND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "autograd/autograd.h"
#include "num/generator.h"

/* --- tensors (tensor.c) --- */

/* Python's tensor.  It owns one count of `t` while `owns`; otherwise `t` owns the
 * wrapper, which then is reachable only from C. */
typedef struct {
    PyObject_HEAD
    cr_tensor *t; /* never NULL after construction */
    PyObject *dict, *weak;
    /* Dicts of tensor hooks and of hooks after accumulation, borrowed from the C hooks
     * that hold them. */
    PyObject *hooks, *accumulated;
    bool owns;
} cr_py_tensor;

extern PyTypeObject *cr_py_tensor_type;

static inline bool cr_py_is_tensor(PyObject *x)
{
    return Py_IS_TYPE(x, cr_py_tensor_type) || PyType_IsSubtype(Py_TYPE(x), cr_py_tensor_type);
}
static inline cr_tensor *cr_py_tensor_of(PyObject *x) { return ((cr_py_tensor *)x)->t; }

/* The Python object of `t`; takes the caller's count, also on failure. */
PyObject *cr_py_wrap(cr_tensor *t);
/* The same, counting `t` first; None for NULL. */
PyObject *cr_py_wrap_keep(cr_tensor *t);
/* A new object of a subclass over `t`, which must have no peer; takes the count. */
PyObject *cr_py_wrap_as(PyTypeObject *type, cr_tensor *t);
/* Visits what is reachable only through `t`; for tp_traverse. */
int cr_py_visit_tensor(cr_tensor *t, visitproc visit, void *arg);
/* Regions of C that run without the interpreter lock; the collector must not enter
 * graphs meanwhile. */
extern long cr_py_unlocked;
/* Python objects that only C holds: while 0, the collector need not enter graphs. */
extern long cr_py_graph_objects;

/* Leaves and re-enters the interpreter around `code`. */
#define CR_PY_UNLOCKED(code)                                                                   \
    do {                                                                                       \
        cr_py_unlocked++;                                                                      \
        PyThreadState *cr_py_saved = PyEval_SaveThread();                                      \
        code;                                                                                  \
        PyEval_RestoreThread(cr_py_saved);                                                     \
        cr_py_unlocked--;                                                                      \
    } while (0)

/* --- errors (raise.c) --- */

/* Raises what `st` and the thread's record say.  Always NULL. */
PyObject *cr_py_raise(cr_status st);
/* The same for functions that return int: always -1. */
int cr_py_raise_int(cr_status st);
extern PyObject *cr_py_linalg_error;
/* A UserWarning, at the first call with this flag only. */
int cr_py_warn_once(bool *said, const char *text);

/* --- small objects --- */

typedef struct {
    PyObject_HEAD
    uint8_t dtype;
} cr_py_dtype;
extern PyTypeObject cr_py_dtype_type;
PyObject *cr_py_dtype_object(cr_dtype t); /* borrowed */
/* A dtype object, or float, int, bool, complex; CR_DTYPE_NONE when x is neither. */
cr_dtype cr_py_dtype_from(PyObject *x);

/* kind | index << 8, index 0xff.. when none was given; see cr_py_device_pack. */
typedef struct {
    PyObject_HEAD
    int kind, index; /* index -1: none */
    PyObject *before; /* stack of defaults saved by __enter__ */
} cr_py_device;
extern PyTypeObject cr_py_device_type;
PyObject *cr_py_device_object(int kind, int index);
static inline int64_t cr_py_device_pack(int kind, int index)
{
    return kind | (int64_t)(index < 0 ? 0 : index) << 8;
}
/* From a device, a string or an index.  1: done, 0: x is none of them, -1: raised. */
int cr_py_device_from(PyObject *x, int *kind, int *index);
/* Where factories make tensors when no device is named. */
extern CR_THREAD int cr_py_default_device;

/* An enumeration constant: torch.strided, torch.channels_last. */
typedef struct {
    PyObject_HEAD
    const char *name;
    int value;
} cr_py_constant;
extern PyTypeObject cr_py_layout_type, cr_py_format_type;
enum { CR_LAYOUT_STRIDED };
PyObject *cr_py_layout_object(int value); /* borrowed */
PyObject *cr_py_format_object(int value); /* borrowed */

extern PyTypeObject cr_py_size_type;
PyObject *cr_py_size(int ndim, const int64_t *size);

typedef struct {
    PyObject_HEAD
    cr_generator *generator;
} cr_py_generator;
extern PyTypeObject cr_py_generator_type;

extern PyTypeObject cr_py_storage_type;
/* The one Python object of a storage; borrows `s`. */
PyObject *cr_py_storage_object(cr_storage *s);
cr_storage *cr_py_storage_of(PyObject *x);

/* --- recordings (compiled.c) --- */

/* The program looks at what is in `t`: a recording under way cannot stand for other values. */
void cr_py_note_read(const cr_tensor *t, const char *by);
/* Symbols of a recording (symbol.c).  As arguments have them (graph/number.h), or as the value
 * that is a fact of the recording from then on; false: x is no symbol. */
bool cr_py_symbol_scalar(PyObject *x, cr_scalar *out);
bool cr_py_symbol_value(PyObject *x, cr_scalar *out);
/* Sizes and number of elements of `t` as a recording under way has them: NULL without an
 * exception where they are plain. */
PyObject *cr_py_symbolic_size(cr_tensor *t);
PyObject *cr_py_symbolic_dim(cr_tensor *t, int dim);
PyObject *cr_py_symbolic_numel(cr_tensor *t);
/* The sizes of `t` are facts of the recording from now on. */
void cr_py_fix_sizes(cr_tensor *t);

/* --- numbers (scalar.c) --- */

/* Whether and how a value was taken. */
typedef enum { CR_PY_FITS, CR_PY_MISFIT, CR_PY_RAISED } cr_py_fit;

/* Python's bool, int, float, complex and NumPy's scalars. */
cr_py_fit cr_py_scalar_from(PyObject *x, cr_scalar *out);
PyObject *cr_py_scalar_object(cr_scalar s);
/* An index: int (no bool), NumPy integer, integral tensor of one element. */
cr_py_fit cr_py_int_from(PyObject *x, int64_t *out);
/* The same for an operator's argument: a symbol of a recording may be it (graph/number.h). */
cr_py_fit cr_py_size_from(PyObject *x, int64_t *out);
bool cr_py_is_numpy_scalar(PyObject *x);
/* The dtype torch infers for a number: default dtype for float. */
cr_dtype cr_py_dtype_of_scalar(cr_scalar s);
/* Reads a list or tuple of ints; sizes beyond `room` are refused. */
cr_py_fit cr_py_ints_from(PyObject *x, int64_t *out, int room, int *count);
PyObject *cr_py_ints_tuple(const int64_t *v, size_t n);

/* --- calling operators (args.c, sig.c, call.c) --- */

/* Field by field: a value that is assembled and then copied whole costs a stalled load. */
static inline void cr_py_set_tensor(cr_value *v, cr_tensor *t)
{
    v->tag = CR_TENSOR;
    v->t = t;
}
static inline void cr_py_set_int(cr_value *v, int64_t i)
{
    v->tag = CR_INT;
    v->i = i;
}

/* One overload as Python sees it. */
typedef struct cr_py_sig {
    const cr_op *op;
    PyObject **name;            /* interned, by parameter; "input" for a function's self */
    uint8_t order[CR_MAX_ARGS]; /* positional parameters, self first for methods */
    uint8_t positional;         /* how many of them */
    int8_t self;                /* parameter that a method call fills, or -1 */
    int8_t varargs;             /* parameter that takes all positional ints, or -1 */
    int8_t device;              /* a factory's device, or -1 */
    bool out;                   /* out= is allowed */
    bool factory;               /* requires_grad= and the like are allowed */
    struct cr_py_sig *next;
} cr_py_sig;

/* The chain of signatures of `op` and its overloads that have a form in `forms` (0: all of
 * them); NULL with an exception, or without one when there is none.  It lives forever. */
cr_py_sig *cr_py_sig_chain(const cr_op *op, unsigned forms, bool method);

/* The signature of one overload alone; NULL with an exception. */
cr_py_sig *cr_py_sig_one(const cr_op *op);
/* Python's forms of an entry or an in-place form. */
unsigned cr_py_forms(const cr_op *op);

/* A call as the interpreter makes it. */
typedef struct {
    PyObject *const *args; /* positional ones, then the values of the keywords */
    Py_ssize_t count;      /* positional */
    PyObject *names;       /* keywords, or NULL */
} cr_py_given;

enum { CR_PY_MAX_OVERLOADED = 8 };

/* A bound call.  Begin with cr_py_args_init, end with cr_py_args_drop. */
typedef struct {
    PyObject *overloaded[CR_PY_MAX_OVERLOADED]; /* borrowed: objects with __torch_function__ */
    int overloaded_count;
    PyObject *out; /* as given, borrowed, or NULL */
    bool requires_grad;
    size_t used;
    void *blocks; /* what did not fit into scratch */
    /* Of a misfit: the parameter, its position (0: keyword), the value, the item in it. */
    int bad_param, bad_position;
    Py_ssize_t bad_item;
    PyObject *bad_value;
    cr_value value[CR_MAX_ARGS];
    _Alignas(16) char scratch[768];
} cr_py_args;

static inline void cr_py_args_init(cr_py_args *a)
{
    a->overloaded_count = 0;
    a->out = NULL;
    a->requires_grad = false;
    a->used = 0;
    a->blocks = NULL;
}
void cr_py_args_free_blocks(cr_py_args *a);
static inline void cr_py_args_drop(cr_py_args *a)
{
    if (CR_UNLIKELY(a->blocks != NULL))
        cr_py_args_free_blocks(a);
}
/* `size` bytes that live until cr_py_args_drop; NULL with an exception. */
void *cr_py_args_get(cr_py_args *a, size_t size);
/* Converts x for parameter p. */
cr_py_fit cr_py_convert(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out);
/* Whether `x`, or an item of it where a list is wanted, has a __torch_function__; noted in `a`.
 */
bool cr_py_handles_call(cr_py_args *a, const cr_param *p, PyObject *x);
cr_py_fit cr_py_bind(cr_py_args *a, const cr_py_sig *s, const cr_py_given *g, bool method);
/* Raises torch's TypeError for a call that no signature takes.  Always NULL. */
PyObject *cr_py_explain(const char *name, const cr_py_sig *chain, const cr_py_given *g,
                        bool method);

/* The arguments of a call as a tuple and a dict. */
PyObject *cr_py_given_args(const cr_py_given *g);
PyObject *cr_py_given_kwargs(const cr_py_given *g);

/* A schema's type as a word: "Tensor[]". */
const char *cr_py_schema_type(unsigned type);
/* An entry as Python data (table.c). */
PyObject *cr_py_record(const cr_op *op);

/* The callable of an operator name. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    cr_py_sig *chain;
    PyObject *name;
    PyObject *shown; /* what __torch_function__ gets instead of the callable, or NULL */
    bool method;
} cr_py_op;
extern PyTypeObject cr_py_function_type, cr_py_method_type;
/* A callable of that name with these signatures; NULL with an exception. */
PyObject *cr_py_op_callable(cr_py_sig *chain, const char *name, bool method);
/* Calls an operator, without the interpreter lock when it is large.  Results are owned. */
cr_status cr_py_call(const cr_op *op, const cr_value *arg, cr_value *result);
/* Calls and wraps the result. */
PyObject *cr_py_call_wrap(const cr_op *op, const cr_value *arg);
/* A factory's requires_grad=True; the message is the factories' own. */
CR_MUST cr_status cr_py_ask_grad(cr_tensor *t);
/* Fills arg[from..] with the defaults of op. */
void cr_py_defaults(const cr_op *op, cr_value *arg, int from);
/* An operator that the binding itself uses; raises when the table lacks it. */
const cr_op *cr_py_find_op(const char *name);

/* --- __torch_function__ (override.c) --- */

/* Whether objects of this class ask to handle calls themselves. */
bool cr_py_overrides(PyTypeObject *type);
/* Calls the handlers of the overloaded arguments in turn. */
PyObject *cr_py_override_call(PyObject *function, PyObject *const *overloaded, int count,
                              const cr_py_given *g);
extern CR_THREAD int cr_py_override_off; /* > 0: subclasses are treated as plain */
/* A TorchFunctionMode is active: `function` is called through it. */
extern CR_THREAD int cr_py_mode_count;
PyObject *cr_py_mode_call(PyObject *function, const cr_py_given *g);

/* --- pieces of the Tensor type --- */

extern const PyType_Slot cr_py_number_slots[];                           /* number.c */
extern const PyType_Slot cr_py_convert_slots[];                          /* convert.c */
PyObject *cr_py_richcompare(PyObject *a, PyObject *b, int op);
PyObject *cr_py_subscript(PyObject *self, PyObject *index);              /* index.c */
int cr_py_ass_subscript(PyObject *self, PyObject *index, PyObject *value);
extern PyGetSetDef cr_py_properties[];                                    /* property.c */
extern PyMethodDef cr_py_methods[];                                       /* method.c */
extern const PyType_Slot cr_py_method_slots[];
extern PyMethodDef cr_py_convert_methods[];                              /* convert.c */
extern PyMethodDef cr_py_numpy_methods[], cr_py_dlpack_methods[], cr_py_legacy_methods[];
extern PyMethodDef cr_py_engine_methods[], cr_py_make_methods[];
int cr_py_getbuffer(PyObject *self, Py_buffer *view, int flags);          /* numpy.c */
void cr_py_releasebuffer(PyObject *self, Py_buffer *view);
PyObject *cr_py_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs); /* legacy.c */

/* --- making tensors (make.c, numpy.c, dlpack.c) --- */

/* Keywords of tensor factories. */
typedef struct {
    cr_dtype dtype; /* CR_DTYPE_NONE: inferred */
    int device;     /* kind; -1: the default */
    bool requires_grad;
} cr_py_options;

/* From numbers, nested sequences, arrays, buffers; copies.  NULL with an exception. */
cr_tensor *cr_py_tensor_from_data(PyObject *data, cr_dtype dtype, int device);
/* Shares an array's memory; with `warn`, warns when it is read-only. */
cr_tensor *cr_py_tensor_from_array(PyObject *array, bool warn);
/* numpy.ndarray and its subclasses, without importing NumPy. */
bool cr_py_is_array(PyObject *x);

/* --- autograd (node.c, function.c, hook.c, engine.c) --- */

/* The Python object of a node; borrows n. */
PyObject *cr_py_node_object(cr_node *n);
/* The node of a grad_fn, borrowed; NULL with an exception. */
cr_node *cr_py_node_of(PyObject *grad_fn);
/* The Function context that a Python node owns (borrowed), or NULL; and back. */
PyObject *cr_py_node_context(cr_node *n);
cr_node *cr_py_context_node(PyObject *context);
extern PyMethodDef cr_py_node_methods[];
extern PyGetSetDef cr_py_node_getset[];
/* A call that runs the Python callables in an OrderedDict, which it holds. */
cr_hook_call cr_py_tensor_hooks(PyObject *dict);
cr_hook_call cr_py_accumulated_hooks(PyObject *dict);
cr_hook_call cr_py_before_hooks(PyObject *dict);
cr_hook_call cr_py_after_hooks(PyObject *dict);
/* Appends `callable` to *dict, an OrderedDict that is made when NULL (then *made is set),
 * and returns its RemovableHandle. */
PyObject *cr_py_hook_dict_add(PyObject **dict, PyObject *callable, bool *made);

/* Every file adds its types and functions to the module. */
int cr_py_raise_start(PyObject *m);
int cr_py_dtype_start(PyObject *m);
int cr_py_device_start(PyObject *m);
int cr_py_constant_start(PyObject *m);
int cr_py_size_start(PyObject *m);
int cr_py_generator_start(PyObject *m);
int cr_py_storage_start(PyObject *m);
int cr_py_tensor_start(PyObject *m);
int cr_py_op_start(PyObject *m);
int cr_py_number_start(PyObject *m);
int cr_py_index_start(PyObject *m);
int cr_py_make_start(PyObject *m);
int cr_py_numpy_start(PyObject *m);
int cr_py_dlpack_start(PyObject *m);
int cr_py_legacy_start(PyObject *m);
int cr_py_gradmode_start(PyObject *m);
int cr_py_autocast_start(PyObject *m);
int cr_py_jit_start(PyObject *m);
int cr_py_saved_hooks_start(PyObject *m);
int cr_py_node_start(PyObject *m);
int cr_py_function_start(PyObject *m);
int cr_py_engine_start(PyObject *m);
int cr_py_override_start(PyObject *m);
int cr_py_settings_start(PyObject *m);
/* Adds a static type under `name`. */
int cr_py_add_type(PyObject *m, const char *name, PyTypeObject *type);

/* --- the operator table as data (table.c) --- */

/* _records(): a list of dicts, one an entry, in table order. */
int cr_py_table_start(PyObject *m);
int cr_py_overload_start(PyObject *m);    /* overload.c */
int cr_py_overridable_start(PyObject *m); /* overridable.c */
int cr_py_safetensors_start(PyObject *m); /* safetensors.c */
int cr_py_nn_module_start(PyObject *m);   /* nn_module.c */
int cr_py_graph_start(PyObject *m);       /* graph.c */
int cr_py_program_start(PyObject *m);     /* program.c */
/* The Program of `g`, which `graph` keeps. */
struct cr_graph;
PyObject *cr_py_program_new(PyObject *graph, const struct cr_graph *g);
int cr_py_checkpoint_start(PyObject *m);  /* checkpoint.c */

#endif
