/* bind.h - shared by the files of the Python extension.
 *
 * Unless stated otherwise, a function that returns PyObject * returns a new reference, or NULL
 * with a Python exception set, and a function that returns int returns 0 on success, or -1 with
 * an exception set. */
#ifndef CR_PY_BIND_BIND_H
#define CR_PY_BIND_BIND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "autograd/autograd.h"
#include "num/generator.h"

/* --- tensors (tensor.c) --- */

/* Python's tensor.  When `owns` is true, it owns a reference on `t`.  Otherwise `t` owns the
 * wrapper, and only C can reach the wrapper. */
typedef struct {
    PyObject_HEAD cr_tensor *t; /* never NULL after construction */
    PyObject *dict, *weak;
    /* The dicts of tensor hooks and of post-accumulate hooks, borrowed from the C hooks that
     * own them. */
    PyObject *hooks, *accumulated;
    bool owns;
} cr_py_tensor;

extern PyTypeObject *cr_py_tensor_type;

static inline bool cr_py_is_tensor(PyObject *x)
{
    return Py_IS_TYPE(x, cr_py_tensor_type) || PyType_IsSubtype(Py_TYPE(x), cr_py_tensor_type);
}
static inline cr_tensor *cr_py_tensor_of(PyObject *x)
{
    cr_tensor *t = ((cr_py_tensor *)x)->t;

    cr_follow_storage(t);
    return t;
}

/* The Python object of `t`.  Takes ownership of the caller's reference, also on failure. */
PyObject *cr_py_wrap(cr_tensor *t);
/* As cr_py_wrap, but takes a new reference; None for NULL. */
PyObject *cr_py_wrap_keep(cr_tensor *t);
/* A new object of a subclass over `t`; its Python object if that has the class already, and a
 * RuntimeError if it has another.  Takes ownership of the caller's reference, also on
 * failure. */
PyObject *cr_py_wrap_as(PyTypeObject *type, cr_tensor *t);
/* The class of examples of batches. */
PyTypeObject *cr_py_example_type(void);
/* Visits the objects that are reachable only through `t`.  For tp_traverse. */
int cr_py_visit_tensor(cr_tensor *t, visitproc visit, void *arg);
/* Number of Python objects that only C refers to.  While it is 0, the garbage collector need
 * not enter graphs. */
extern long cr_py_graph_objects;

/* Runs `code` without the interpreter lock.  The garbage collector must not enter graphs while
 * cr_calls_apart is not 0; only threads with the lock change it. */
#define CR_PY_UNLOCKED(code)                                                                   \
    do {                                                                                       \
        PyThreadState *cr_py_saved = cr_py_unlock();                                           \
        code;                                                                                  \
        cr_py_lock(cr_py_saved);                                                               \
    } while (0)
PyThreadState *cr_py_unlock(void);
void cr_py_lock(PyThreadState *saved);

/* --- the package's root name (root.c) --- */

/* "torch" or "cresset". */
const char *cr_py_root(void);
/* The root, a point, and `name`; kept for the life of the process.  NULL on failure. */
const char *cr_py_full_name(const char *name);
/* Imports a module of the package, named without the root. */
PyObject *cr_py_import(const char *module);
/* PyType_Ready, after the root is put before tp_name. */
int cr_py_type_ready(PyTypeObject *type);
/* Takes the root from the name of the extension's module. */
int cr_py_root_start(PyObject *m);

/* --- errors (raise.c) --- */

/* Raises the Python exception for `st` and the thread's error record.  Returns NULL. */
PyObject *cr_py_raise(cr_status st);
/* As cr_py_raise, but returns -1. */
int cr_py_raise_int(cr_status st);
/* None, or the exception. */
PyObject *cr_py_done(cr_status st);
/* The same for a call of a device, which returns NULL or an error. */
PyObject *cr_py_said(const char *error);
/* Reads (index of a device, address as a number); false with an exception. */
bool cr_py_pair(PyObject *args, int *index, void **at);
/* As cr_py_said, without the interpreter lock during the call. */
PyObject *cr_py_wait_on(const char *(*call)(int index, void *at), int index, void *at);
/* A function of (index, address): `result` is an expression of `ops`, which `table` gives,
 * `index` and `at`. */
#define CR_PY_ON_PAIR(name, table, result)                                                     \
    static PyObject *name(PyObject *m, PyObject *args)                                         \
    {                                                                                          \
        const cr_device_ops *ops = table;                                                      \
        void *at;                                                                              \
        int index;                                                                             \
                                                                                               \
        (void)m;                                                                               \
        return ops && cr_py_pair(args, &index, &at) ? (result) : NULL;                         \
    }
/* The string that the text has, or the exception of `st` or of the text's failure; drops the
 * text. */
PyObject *cr_py_text(cr_text *text, cr_status st);
extern PyObject *cr_py_linalg_error;
/* Raises a UserWarning at the first call with this flag. */
int cr_py_warn_once(bool *said, const char *text);
/* The warning, once, that a conversion drops imaginary parts. */
int cr_py_warn_cast(cr_dtype from, cr_dtype to);
/* The warning of a new tensor of complex32; -1 with an exception. */
int cr_py_warn_complex_half(void);
/* The warning that the in-place entry writes a `self` whose elements share memory. */
int cr_py_warn_expanded(const cr_op *op, const cr_tensor *self);

/* Reads the truth value of `x`; false with an exception. */
bool cr_py_truth(PyObject *x, bool *out);
/* Put an object into a list or a tuple that is made, behind the items of a list, or into a
 * dict. They take the object; where it or its place is missing, the container is dropped and
 * NULL. */
void cr_py_put_item(PyObject **to, Py_ssize_t i, PyObject *item);
void cr_py_append(PyObject **list, PyObject *item);
void cr_py_put_named(PyObject **dict, const char *name, PyObject *value);
/* Clears an exception that the caller replaces or ignores.  One that is no `Exception`, as
 * KeyboardInterrupt, belongs to the program: it stays, and the result is false. */
bool cr_py_forget_error(void);
/* For code that can return no exception: the program gets it at its next instruction. */
void cr_py_raise_later(void);

/* --- small objects --- */

typedef struct {
    PyObject_HEAD uint8_t dtype;
} cr_py_dtype;
extern PyTypeObject cr_py_dtype_type;
PyObject *cr_py_dtype_object(cr_dtype t); /* borrowed */
/* The dtype of a dtype object, or of the classes float, int, bool, complex; else
 * CR_DTYPE_NONE. */
cr_dtype cr_py_dtype_from(PyObject *x);
/* True with NotImplementedError for a dtype that no tensor has (torch.qint8, torch.int4). */
bool cr_py_refuse_named(PyObject *x);

typedef struct {
    PyObject_HEAD int kind, index; /* index -1: no index */
    PyObject *before;              /* stack of defaults that __enter__ saved */
} cr_py_device;
extern PyTypeObject cr_py_device_type;
PyObject *cr_py_device_object(int kind, int index);
/* The object of a tensor's device: without a number for cpu and meta. */
PyObject *cr_py_device_of(cr_device d);
/* Reads a device, a string or an index.  1: done; 0: x is none of these; -1: raised. */
int cr_py_device_from(PyObject *x, int *kind, int *index);

/* A constant such as torch.strided or torch.channels_last. */
typedef struct {
    PyObject_HEAD const char *name;
    int value;
} cr_py_constant;
extern PyTypeObject cr_py_layout_type, cr_py_format_type;
PyObject *cr_py_layout_object(int value); /* borrowed */
PyObject *cr_py_format_object(int value); /* borrowed */

extern PyTypeObject cr_py_size_type;
PyObject *cr_py_size(int ndim, const int64_t *size);

typedef struct {
    PyObject_HEAD cr_generator *generator;
} cr_py_generator;
extern PyTypeObject cr_py_generator_type;
/* A new reference to an object for the generator. */
PyObject *cr_py_generator_object(cr_generator *g);

extern PyTypeObject cr_py_storage_type;
/* The Python object of a storage, of which there is at most one; borrows `s`. */
PyObject *cr_py_storage_object(cr_storage *s);
cr_storage *cr_py_storage_of(PyObject *x);

/* --- recordings (compiled.c) --- */

/* While a function is traced: a use of a tensor that the trace cannot record ("bool", "len")
 * warns; -1 with an exception. */
int cr_py_note_untraced(const char *use);
/* Whether a thread records a trace. */
bool cr_py_is_tracing(void);
extern PyObject *cr_py_trace_call;
PyObject *cr_py_set_trace_hooks(PyObject *module, PyObject *args);
typedef enum {
#define CR_READ(name, text, part) CR_READ_##name,
#include "py/bind/reads.def"
#undef CR_READ
} cr_py_read;
/* Call before Python reads the elements of `t`.  A recording in progress is then refused,
 * because its graph would depend on these values. */
void cr_py_note_read(const cr_tensor *t, cr_py_read by);
/* Ends a recording (cr_recorder_refuse) at an action that one graph can have. */
void cr_py_refuse_held(const char *why);
/* A call whose effect is outside of tensors is made: a recording of it gives no graph. */
void cr_py_note_outside(void);
/* Symbols of a recording (symbol.c).  cr_py_symbol_scalar encodes a symbol as an argument
 * (graph/number.h).  cr_py_symbol_value gives its value and fixes it by a guard.  Both return
 * false when x is not a symbol. */
bool cr_py_symbol_scalar(PyObject *x, cr_scalar *out);
bool cr_py_symbol_value(PyObject *x, cr_scalar *out);
/* True where numbers of a recording stand in `data`, nested lists, whose values no call may
 * fix: *out is then their tensor, which calls of the recording make, or NULL with an
 * exception. */
bool cr_py_symbol_tensor(PyObject **out, PyObject *data, PyObject *dtype);
/* Sizes, a size and the number of elements of `t` with symbols of the recording in progress.
 * NULL without an exception when they have no symbols. */
PyObject *cr_py_symbolic_size(cr_tensor *t);
PyObject *cr_py_symbolic_dim(cr_tensor *t, int dim);
PyObject *cr_py_symbolic_numel(cr_tensor *t);
/* Fixes the sizes of `t` by guards of the recording. */
void cr_py_fix_sizes(cr_tensor *t);

/* --- numbers (scalar.c) --- */

/* The outcome of a conversion. */
typedef enum { CR_PY_FITS, CR_PY_MISFIT, CR_PY_RAISED } cr_py_fit;

/* Converts Python's bool, int, float, complex and NumPy's scalars. */
cr_py_fit cr_py_scalar_from(PyObject *x, cr_scalar *out);
PyObject *cr_py_scalar_object(cr_scalar s);
/* Converts an index: int (no bool), NumPy integer, or integral tensor of one element. */
cr_py_fit cr_py_int_from(PyObject *x, int64_t *out);
/* Turns the error of cr_py_int_from about an integer beyond 64 bits into torch's about item i
 * of a list of sizes; other errors stay. */
void cr_py_blame_item(const char *function, const char *argument, Py_ssize_t i);
/* As cr_py_int_from, for an operator's argument, which may be a symbol (graph/number.h). */
cr_py_fit cr_py_size_from(PyObject *x, int64_t *out);
bool cr_py_is_numpy_scalar(PyObject *x);
/* Item i of a list or tuple; NULL with an exception when a list has become shorter.  For loops
 * that call code of the program for an item, which may change the list and free the item. */
PyObject *cr_py_item(PyObject *list, Py_ssize_t i);
/* Reads a list or tuple of at most `room` ints. */
cr_py_fit cr_py_ints_from(PyObject *x, int64_t *out, int room, int *count);
PyObject *cr_py_ints_tuple(const int64_t *v, size_t n);

/* --- calling operators (args.c, sig.c, call.c) --- */

/* Stores field by field: assembling a value and copying it whole causes a stalled load. */
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

/* One overload with its Python parameter names. */
typedef struct cr_py_sig {
    const cr_op *op;
    /* interned names of the parameters; "input" for a function's self */
    PyObject **name;
    /* indices of the positional parameters; self first for methods */
    uint8_t order[CR_MAX_ARGS];
    uint8_t positional; /* length of `order` */
    /* index of the parameter that a method fills with self, or -1 */
    int8_t self;
    /* index of the parameter that takes all positional ints, or -1 */
    int8_t varargs;
    int8_t device; /* index of a factory's device parameter, or -1 */
    bool out;      /* out= is allowed */
    bool overload; /* of an object of torch.ops, whose order is that of its schema */
    /* of an overload that writes to given tensors, which are keywords of these names; or
     * NULL */
    const char *const *given;
    bool factory; /* requires_grad= and other factory keywords are allowed */
    /* torch has overloads by which of the arguments are numbers, and takes no other calls */
    bool by_numbers;
    struct cr_py_sig *next;
} cr_py_sig;

/* The signatures of `op` and its overloads that have a form in `forms` (0: all), as a list
 * linked by `next`.  NULL with an exception, or without one when there are none.  Never
 * freed. */
cr_py_sig *cr_py_sig_chain(const cr_op *op, unsigned forms, bool method);

/* torch 0.4 had the numbers of `x.add(2, y)` and `addmm(beta, x, alpha, a, b)` before tensors.
 * Bits of the keyword-only numbers of an entry with a method that otherwise takes tensors, else
 * 0; rsub, which is no method, never had that order. */
uint32_t cr_py_old_numbers(const cr_py_sig *s);
/* Makes the signature of such an order: way 0 with all numbers, way 1 without the second of
 * two. False when there is none. */
bool cr_py_old_sig(cr_py_sig *out, const cr_py_sig *s, int way);
/* torch's warning about a call of the signature `old` of `sig`. */
CR_MUST cr_status cr_py_text_of_old(cr_text *out, const char *name, const cr_py_sig *old,
                                    const cr_py_sig *sig);

/* The signature of one overload; NULL with an exception. */
cr_py_sig *cr_py_sig_one(const cr_op *op);
/* The signature of one overload that writes to given tensors; NULL with an exception. */
cr_py_sig *cr_py_sig_out(const cr_op *op, const cr_out_overload *o);
/* The Python forms of an entry or an in-place form. */
unsigned cr_py_forms(const cr_op *op);

/* The arguments of a vectorcall. */
typedef struct {
    PyObject *const *args; /* positional arguments, then the keywords' values */
    Py_ssize_t count;      /* number of positional arguments */
    PyObject *names;       /* keywords, or NULL */
} cr_py_given;

enum { CR_PY_MAX_OVERLOADED = 8 };

/* A bound call.  Initialize with cr_py_args_init, release with cr_py_args_drop. */
typedef struct {
    PyObject *overloaded[CR_PY_MAX_OVERLOADED]; /* borrowed: objects with __torch_function__ */
    int overloaded_count;
    PyObject *out; /* the value of out=, borrowed, or NULL */
    /* The values of the keywords `given`, borrowed, in the order of the results; or NULL. */
    PyObject **given;
    bool requires_grad;
    size_t used;
    void *blocks; /* memory that did not fit into scratch */
    void *held;   /* copies of lists, whose items `value` and `overloaded` refer to */
    /* After a misfit, or an argument that raised: the parameter, its position (0: keyword), the
     * value, and the index in a list.  bad_spread: the list was given as positional arguments;
     * the value is the item. */
    bool bad_spread;
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
    a->given = NULL;
    a->bad_value = NULL;
    a->requires_grad = false;
    a->used = 0;
    a->blocks = a->held = NULL;
}
void cr_py_args_release(cr_py_args *a);
static inline void cr_py_args_drop(cr_py_args *a)
{
    if (CR_UNLIKELY(a->blocks != NULL || a->held != NULL))
        cr_py_args_release(a);
}
/* `size` bytes that are valid until cr_py_args_drop; NULL with an exception. */
void *cr_py_args_get(cr_py_args *a, size_t size);
/* Converts x for parameter p. */
cr_py_fit cr_py_convert(cr_py_args *a, const cr_param *p, PyObject *x, cr_value *out);
/* True when `x` has a __torch_function__, or an item of `x` for a list parameter.  Adds these
 * objects to `a`. */
bool cr_py_handles_call(cr_py_args *a, const cr_param *p, PyObject *x);
cr_py_fit cr_py_bind(cr_py_args *a, const cr_py_sig *s, const cr_py_given *g, bool method);
/* The parameter with this keyword, which may be NumPy's; -1 when there is none. */
int cr_py_find_keyword(const cr_py_sig *s, PyObject *name);
/* Binds a keyword that is no parameter of the entry: out=, and those of all factories. */
cr_py_fit cr_py_bind_extra(cr_py_args *a, const cr_py_sig *s, PyObject *name, PyObject *x);
/* After an argument that raised: names it in the error if it is an item of a list of sizes. */
void cr_py_explain_raised(const char *name, const cr_py_sig *s, const cr_py_args *a);
/* Raises torch's TypeError for a call that matches no signature.  Returns NULL. */
PyObject *cr_py_explain(const char *name, const cr_py_sig *chain, const cr_py_given *g,
                        bool method);

/* The arguments of a call as a tuple and a dict. */
PyObject *cr_py_given_args(const cr_py_given *g);
PyObject *cr_py_given_kwargs(const cr_py_given *g);

/* The schema's name of a type, as in "Tensor[]". */
PyObject *cr_py_schema_type(unsigned type);
/* A list of (name, type) of the results (overload.c). */
PyObject *cr_py_op_results(const cr_op *op);
/* An entry of the table as a dict (table.c). */
PyObject *cr_py_record(const cr_op *op);

/* The Python callable of an operator. */
typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    cr_py_sig *chain;
    PyObject *name;
    /* the function that __torch_function__ receives instead of this callable, or NULL */
    PyObject *shown;
    bool method;
} cr_py_op;
extern PyTypeObject cr_py_function_type, cr_py_method_type;
/* Makes a callable with this name and these signatures; NULL with an exception. */
PyObject *cr_py_op_callable(cr_py_sig *chain, const char *name, bool method);
/* Calls an operator, without the interpreter lock when the tensors are large.  The caller owns
 * the results. */
cr_status cr_py_call(const cr_op *op, const cr_value *arg, cr_value *result);
/* Calls an operator and wraps the result. */
PyObject *cr_py_call_wrap(const cr_op *op, const cr_value *arg);
/* The arguments of a call of C as a tuple with an item for each parameter (custom.c). */
PyObject *cr_py_arguments(const cr_op *op, const cr_value *arg);
/* Converts the results of a Python function for a call of `op`; the caller owns them. */
CR_MUST cr_status cr_py_results(cr_value *result, const cr_op *op, PyObject *x);
/* Implements a factory's requires_grad=True, with the factories' error message. */
CR_MUST cr_status cr_py_ask_grad(cr_tensor *t);
/* Fills arg[from..] with the default values of op. */
void cr_py_defaults(const cr_op *op, cr_value *arg, int from);
/* Finds an operator that the binding calls.  Raises when the table lacks it. */
const cr_op *cr_py_find_op(const char *name);

/* --- __torch_function__ (override.c) --- */

/* True when objects of this class have a __torch_function__ that handles calls. */
bool cr_py_overrides(PyTypeObject *type);
/* Calls the handlers of the overloaded arguments, one after the other until one answers. */
PyObject *cr_py_override_call(PyObject *function, PyObject *const *overloaded, int count,
                              const cr_py_given *g);
extern CR_THREAD int cr_py_override_off; /* > 0: subclasses are treated as plain tensors */
/* torch's name of a parameter that has one of NumPy's names; NULL: `given` is not NumPy's. */
const char *cr_py_torch_name(PyObject *given);

/* > 0: a TorchFunctionMode is active and handles calls of `function`. */
extern CR_THREAD int cr_py_mode_count;
/* Whether the class of `mode` has the method; TypeError if not. */
bool cr_py_has_handler(PyObject *mode, const char *method);
PyObject *cr_py_mode_call(PyObject *function, const cr_py_given *g);
/* The same for the function `name` of the module `m`; kwargs: NULL for none. */
PyObject *cr_py_mode_answer(PyObject *m, const char *name, PyObject *args, PyObject *kwargs);
/* True when a mode, or the class of the tensor `self`, handles calls of its methods. */
static inline bool cr_py_asks(PyObject *self)
{
    return cr_py_mode_count ||
           (!Py_IS_TYPE(self, cr_py_tensor_type) && cr_py_overrides(Py_TYPE(self)));
}
/* Lets the handler answer self.NAME(*args, **kwargs) or, with `one`, self.NAME(one).  The
 * others may be NULL. */
PyObject *cr_py_ask(PyObject *self, const char *name, PyObject *args, PyObject *one,
                    PyObject *kwargs);
/* Makes properties of a type ask handlers; private ones do not.  The list stays in use. */
void cr_py_ask_properties(PyGetSetDef *list);

/* --- __torch_dispatch__ (dispatch.c) --- */

/* Makes calls with `t` go to the class, if it has a __torch_dispatch__. */
void cr_py_mark_dispatched(PyTypeObject *type, cr_tensor *t);
int cr_py_dispatch_start(PyObject *m);

/* --- pieces of the Tensor type --- */

extern const PyType_Slot cr_py_number_slots[];  /* number.c */
extern const PyType_Slot cr_py_convert_slots[]; /* convert.c */
/* _truth(x) -> bool(x), where the library checks arguments or an operator decides. */
PyObject *cr_py_truth_of_check(PyObject *module, PyObject *x);
PyObject *cr_py_richcompare(PyObject *a, PyObject *b, int op);
PyObject *cr_py_subscript(PyObject *self, PyObject *index); /* index.c */
int cr_py_ass_subscript(PyObject *self, PyObject *index, PyObject *value);
extern PyGetSetDef cr_py_properties[]; /* property.c */
extern PyMethodDef cr_py_methods[];    /* method.c */
extern const PyType_Slot cr_py_method_slots[];
extern PyMethodDef cr_py_convert_methods[]; /* convert.c */
extern PyMethodDef cr_py_numpy_methods[], cr_py_dlpack_methods[], cr_py_legacy_methods[];
extern PyMethodDef cr_py_engine_methods[], cr_py_make_methods[];
int cr_py_getbuffer(PyObject *self, Py_buffer *view, int flags); /* numpy.c */
void cr_py_releasebuffer(PyObject *self, Py_buffer *view);
PyObject *cr_py_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs); /* legacy.c */

/* --- making tensors (make.c, numpy.c, dlpack.c) --- */

/* The keywords of tensor factories. */
typedef struct {
    cr_dtype dtype; /* CR_DTYPE_NONE: inferred from the data */
    bool placed;    /* device was given */
    cr_device device;
    bool requires_grad;
} cr_py_options;

/* Copies numbers, nested sequences, arrays or buffers.  NULL with an exception. */
cr_tensor *cr_py_tensor_from_data(PyObject *data, cr_dtype dtype, cr_device device);
/* A tensor over an array's memory.  Warns for a read-only array when `warn` is set. */
cr_tensor *cr_py_tensor_from_array(PyObject *array, bool warn);
/* Shares the memory of an object that has __cuda_array_interface__ (cuda_array.c). */
cr_tensor *cr_py_tensor_from_cuda_array(PyObject *x);
/* True for numpy.ndarray and subclasses.  Does not import NumPy. */
bool cr_py_is_array(PyObject *x);
/* True for an array that stands for a tensor in a compiled function. */
bool cr_py_is_stand_in(PyObject *x);
/* The tensor that such an array stands for, owned; NULL with an exception. */
cr_tensor *cr_py_tensor_of_stand_in(PyObject *x);

/* --- autograd (node.c, function.c, hook.c, engine.c) --- */

/* The Python object of a node; borrows n. */
PyObject *cr_py_node_object(cr_node *n);
/* The node of a grad_fn, borrowed; NULL with an exception. */
cr_node *cr_py_node_of(PyObject *grad_fn);
/* The Function context that a Python node owns (borrowed), or NULL; and the node of a
 * context. */
PyObject *cr_py_node_context(cr_node *n);
cr_node *cr_py_context_node(PyObject *context);
extern PyMethodDef cr_py_node_methods[];
extern PyGetSetDef cr_py_node_getset[];
/* A hook that runs the Python callables in an OrderedDict and holds a reference on the dict. */
cr_hook_call cr_py_tensor_hooks(PyObject *dict);
cr_hook_call cr_py_accumulated_hooks(PyObject *dict);
cr_hook_call cr_py_before_hooks(PyObject *dict);
cr_hook_call cr_py_after_hooks(PyObject *dict);
/* The dict of a node's hooks of one of these kinds, borrowed; NULL: none yet. */
PyObject *cr_py_node_hooks(const cr_node *n, bool after);
/* Empties a dict of hooks, for the garbage collector; NULL: does nothing. */
void cr_py_clear_hooks(PyObject *dict);
/* Appends `callable` to *dict and returns its RemovableHandle.  When *dict is NULL, makes an
 * OrderedDict and sets *made. */
PyObject *cr_py_hook_dict_add(PyObject **dict, PyObject *callable, bool *made);

/* Functions that add the types and functions of each file to the module. */
int cr_py_raise_start(PyObject *m);
int cr_py_dtype_start(PyObject *m);
int cr_py_device_start(PyObject *m);
int cr_py_backend_start(PyObject *m);
int cr_py_defer_start(PyObject *m);
int cr_py_cuda_start(PyObject *m);
int cr_py_cuda_graph_start(PyObject *m);
int cr_py_constant_start(PyObject *m);
int cr_py_size_start(PyObject *m);
/* False with an exception inside of a transform of torch.func, where Tensor.name() is refused;
 * `more` follows the name in the text. */
bool cr_py_is_outside_transforms(const char *name, const char *more);
int cr_py_generator_start(PyObject *m);
int cr_py_storage_start(PyObject *m);
int cr_py_tensor_start(PyObject *m);
int cr_py_op_start(PyObject *m);
int cr_py_number_start(PyObject *m);
int cr_py_make_start(PyObject *m);
int cr_py_numpy_start(PyObject *m);
int cr_py_crc_start(PyObject *m);
int cr_py_print_start(PyObject *m);
int cr_py_dlpack_start(PyObject *m);
int cr_py_legacy_start(PyObject *m);
int cr_py_gradmode_start(PyObject *m);
int cr_py_autocast_start(PyObject *m);
int cr_py_jit_start(PyObject *m);
int cr_py_observed_start(PyObject *m);
int cr_py_saved_hooks_start(PyObject *m);
int cr_py_node_start(PyObject *m);
int cr_py_function_start(PyObject *m);
int cr_py_engine_start(PyObject *m);
int cr_py_override_start(PyObject *m);
int cr_py_settings_start(PyObject *m);
int cr_py_config_start(PyObject *m);
int cr_py_profile_start(PyObject *m);
int cr_py_custom_start(PyObject *m); /* custom.c */
/* Adds functions that are bound as methods where a class has them as attributes: `self` is
 * their argument, or the first of their arguments. */
int cr_py_add_methods(PyObject *m, PyMethodDef *methods);
/* Adds a static type under `name`.  Its tp_name states the module without the root, as
 * "storage.UntypedStorage". */
int cr_py_add_type(PyObject *m, const char *name, PyTypeObject *type);

/* --- the operator table as data (table.c) --- */

/* _records(): a list of dicts, one for each entry, in table order. */
int cr_py_table_start(PyObject *m);
int cr_py_overload_start(PyObject *m);    /* overload.c */
int cr_py_overridable_start(PyObject *m); /* overridable.c */
int cr_py_safetensors_start(PyObject *m); /* safetensors.c */
int cr_py_nn_module_start(PyObject *m);   /* nn_module.c */
int cr_py_graph_start(PyObject *m);       /* graph.c */
int cr_py_program_start(PyObject *m);     /* program.c */
int cr_py_c_file_start(PyObject *m);      /* c_file.c */
int cr_py_aot_start(PyObject *m);         /* aot.c */
/* Makes the Program of `g`.  `graph` is the Python object that keeps `g` alive. */
struct cr_graph;
PyObject *cr_py_program_new(PyObject *graph, const struct cr_graph *g, unsigned how);
/* A tuple of n tensors, whose references it takes; None for NULL. */
PyObject *cr_py_outputs_tuple(cr_tensor **output, int n);
int cr_py_checkpoint_start(PyObject *m); /* checkpoint.c */
/* A source over a file descriptor (from byte `start` on) or an object with a buffer, which the
 * caller owns; NULL with an exception. */
struct cr_source *cr_py_source_of(PyObject *file, unsigned long long start, bool map);
int cr_py_archive_start(PyObject *m);      /* archive.c */
int cr_py_script_start(PyObject *m);       /* script.c */
int cr_py_comm_store_start(PyObject *m);   /* comm/store.c */
int cr_py_comm_agent_start(PyObject *m);   /* comm/agent.c */
int cr_py_comm_group_start(PyObject *m);   /* comm/group.c */
int cr_py_comm_named_start(PyObject *m);   /* comm/named.c */
int cr_py_comm_reducer_start(PyObject *m); /* comm/reducer.c */
int cr_py_comm_parts_start(PyObject *m);   /* comm/parts.c */
int cr_py_comm_shard_start(PyObject *m);   /* comm/shard.c */

#endif
