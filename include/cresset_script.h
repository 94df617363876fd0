/* cresset_script.h - TorchScript programs in C: loading, calling, training, saving.
 *
 *     cr_script *net = NULL;
 *     cr_ivalue x = cr_iv_tensor(images), y = cr_iv_none();
 *
 *     if (cr_script_load(&net, "net.pt") || cr_script_call(&y, net, "forward", &x, 1))
 *         fprintf(stderr, "%s\n", cr_error_message());
 *     cr_ivalue_free(y);
 *     cr_script_drop(net);
 *
 * A program is an archive that torch.jit.save or torch.export.save wrote, torch's or this
 * package's.  It runs without Python, with the operators that eager code uses, and is recorded
 * for backward as they are.
 *
 * An exported program (.pt2) is a module with the method `forward`, whose arguments are the
 * tensors that the program takes, in order.  It compares their dtypes and sizes with those of
 * the program.  Parameters and buffers are attributes of the module with the names of the
 * graph's inputs, behind v_.  The attribute `signature` is a text of lines:
 *
 *     input NAME DTYPE SIZE,SIZE...     a size is a number, or an expression of symbols
 *     output NAME DTYPE SIZE,SIZE...
 *     size NAME LEAST MOST HINT         a symbol, its bounds (MOST -1: none), and its value in
 *                                       the example (-1: unknown)
 *
 * Arguments are borrowed and results are owned by the caller, who gives values back with
 * cr_ivalue_free.  Results do not change on failure.  A NULL program, value or string fails
 * with CR_TYPE.  Several threads may call one program at once; attributes must not be set
 * meanwhile. A module that refers to itself is never freed. */
#ifndef CRESSET_SCRIPT_H
#define CRESSET_SCRIPT_H

#ifndef CR_INSIDE
#include "cresset.h"
#endif
#include "cresset_nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- values ------------------------------------------------------------------------ */

#ifndef CR_INSIDE
typedef enum {
    CR_IV_NONE,
    CR_IV_TENSOR,    /* t */
    CR_IV_INT,       /* i; also dtypes (torch's numbers), layouts and memory formats */
    CR_IV_FLOAT,     /* d */
    CR_IV_COMPLEX,   /* c */
    CR_IV_BOOL,      /* i: 0 or 1 */
    CR_IV_DEVICE,    /* made by cr_ivalue_of_device */
    CR_IV_STRING,    /* cr_ivalue_string */
    CR_IV_LIST,      /* cr_ivalue_count, cr_ivalue_item */
    CR_IV_TUPLE,     /* the same */
    CR_IV_DICT,      /* the same, and cr_ivalue_key, cr_ivalue_find */
    CR_IV_OBJECT,    /* object: a module, or an object of another class */
    CR_IV_ENUM,      /* only from programs */
    CR_IV_GENERATOR, /* generator, borrowed */
    CR_IV_KIND_COUNT
} cr_iv_kind;

/* A module of a program, or another of its objects.  It has a refcount. */
typedef struct cr_iobject cr_iobject;

/* A tagged value.  It is copied as a plain struct, which adds no owner. */
typedef struct cr_ivalue {
    uint8_t kind; /* cr_iv_kind */
    union {
        int64_t i;
        double d;
        cr_complex c;
        cr_tensor *t;
        cr_iobject *object;
        cr_generator *generator;
    };
} cr_ivalue;

static inline cr_ivalue cr_iv_of(cr_iv_kind kind)
{
    cr_ivalue v;
    v.kind = (uint8_t)kind;
    v.c.re = v.c.im = 0;
    return v;
}
static inline cr_ivalue cr_iv_none(void) { return cr_iv_of(CR_IV_NONE); }
static inline cr_ivalue cr_iv_int(int64_t i)
{
    cr_ivalue v = cr_iv_of(CR_IV_INT);
    v.i = i;
    return v;
}
static inline cr_ivalue cr_iv_float(double d)
{
    cr_ivalue v = cr_iv_of(CR_IV_FLOAT);
    v.d = d;
    return v;
}
static inline cr_ivalue cr_iv_bool(bool b)
{
    cr_ivalue v = cr_iv_of(CR_IV_BOOL);
    v.i = b;
    return v;
}
/* Takes the reference; None for NULL. */
static inline cr_ivalue cr_iv_tensor(cr_tensor *t)
{
    cr_ivalue v = cr_iv_of(t ? CR_IV_TENSOR : CR_IV_NONE);
    v.t = t;
    return v;
}
#endif /* CR_INSIDE */

typedef struct cr_iobject cr_script;

/* Adds an owner and returns v; gives an owner's reference back. */
CR_API cr_ivalue cr_ivalue_hold(cr_ivalue v);
CR_API void cr_ivalue_free(cr_ivalue v);

/* Make values; items are held, not taken.  The items of a list, and the keys and the values of
 * a dict, have one type. */
CR_API CR_MUST cr_status cr_ivalue_of_text(cr_ivalue *out, const char *text);
CR_API CR_MUST cr_status cr_ivalue_list(cr_ivalue *out, const cr_ivalue *items, size_t count);
CR_API CR_MUST cr_status cr_ivalue_tuple(cr_ivalue *out, const cr_ivalue *items, size_t count);
CR_API CR_MUST cr_status cr_ivalue_dict(cr_ivalue *out, const cr_ivalue *keys,
                                        const cr_ivalue *values, size_t count);
/* A device by its name, "cpu" or "cuda:1". */
CR_API CR_MUST cr_status cr_ivalue_of_device(cr_ivalue *out, const char *name);

/* The bytes of a string, borrowed, ended by a NUL; NULL for other kinds.  `len` may be NULL. */
CR_API const char *cr_ivalue_string(const cr_ivalue *v, size_t *len);
/* The number of items of a list, tuple or dict; 0 for other kinds. */
CR_API size_t cr_ivalue_count(const cr_ivalue *v);
/* Item i of a list or tuple, the value and the key of item i of a dict; borrowed until it
 * changes.  NULL behind the last one. */
CR_API const cr_ivalue *cr_ivalue_item(const cr_ivalue *v, size_t i);
CR_API const cr_ivalue *cr_ivalue_key(const cr_ivalue *v, size_t i);
/* A dict's value under a string; NULL when there is none. */
CR_API const cr_ivalue *cr_ivalue_find(const cr_ivalue *v, const char *key);
/* The value as programs print it, in the form of torch's C++ front end.  Free *out with
 * cr_free. */
CR_API CR_MUST cr_status cr_ivalue_text(char **out, const cr_ivalue *v);

/* --- programs ---------------------------------------------------------------------- */

/* Reads an archive, from a file or from memory, which is copied.  Fails with CR_IO when the
 * file cannot be read, CR_RUNTIME when it is damaged or holds what programs lack. */
CR_API CR_MUST cr_status cr_script_load(cr_script **out, const char *path);
CR_API CR_MUST cr_status cr_script_parse(cr_script **out, const void *bytes, size_t len);
/* Writes an archive that torch reads, too.  It replaces an earlier file when it is complete. */
CR_API CR_MUST cr_status cr_script_save(cr_script *m, const char *path);
/* Adds an owner and returns m. */
CR_API cr_script *cr_script_hold(cr_script *m);
CR_API void cr_script_drop(cr_script *m);

/* The qualified name of the class, "__torch__.Net". */
CR_API const char *cr_script_class(const cr_script *m);
/* Names of methods and of attributes, by number; NULL behind the last one. */
CR_API const char *cr_script_method(const cr_script *m, size_t i);
CR_API const char *cr_script_attribute(const cr_script *m, size_t i);
/* The name of a method's argument i, behind self; NULL behind the last one. */
CR_API const char *cr_script_argument(const cr_script *m, const char *method, size_t i);
/* The declaration of a method, "forward(__torch__.Net self, Tensor x) -> Tensor"; its source;
 * its typed graph.  Free *out with cr_free.  Fail with CR_ATTRIBUTE for other names. */
CR_API CR_MUST cr_status cr_script_schema(char **out, const cr_script *m, const char *method);
CR_API CR_MUST cr_status cr_script_code(char **out, const cr_script *m, const char *method);
CR_API CR_MUST cr_status cr_script_graph(char **out, const cr_script *m, const char *method);

/* The type of an attribute, "Optional[Tensor]", by its path through modules, "layers.0.bias".
 * Free *out with cr_free. */
CR_API CR_MUST cr_status cr_script_type(char **out, const cr_script *m, const char *path);
CR_API CR_MUST cr_status cr_script_get(cr_ivalue *out, const cr_script *m, const char *path);
/* Fails with CR_TYPE and the attribute's type when v has another. */
CR_API CR_MUST cr_status cr_script_set(cr_script *m, const char *path, const cr_ivalue *v);
/* The module or the tensor at a path, borrowed; NULL when there is none.  "" is m itself. */
CR_API cr_script *cr_script_at(cr_script *m, const char *path);
CR_API cr_tensor *cr_script_tensor(cr_script *m, const char *path);

/* Calls a method with its arguments behind self; those that are missing have their defaults.
 * Fails with CR_ATTRIBUTE when there is no such method, with CR_RUNTIME and the declaration
 * when the arguments do not fit; an error of the program has torch's text with the place in its
 * source. */
CR_API CR_MUST cr_status cr_script_call(cr_ivalue *out, cr_script *m, const char *method,
                                        const cr_ivalue *args, size_t count);

/* --- training ---------------------------------------------------------------------- */

/* Sets the attribute `training` of m and of all modules below it. */
CR_API CR_MUST cr_status cr_script_train(cr_script *m, bool on);
/* All parameters, each once, in torch's order.  Free the array out->at with cr_free; its
 * tensors are borrowed. */
CR_API CR_MUST cr_status cr_script_parameters(cr_tensors *out, cr_script *m);
/* The program as a module (cresset_nn.h), which shares its parameters and buffers: for
 * cr_module_forward and cr_module_call, optimizers, states and ct_forward.  Each call sets the
 * program to the module's mode.  Results are a tensor, or a tuple or list of tensors. */
CR_API CR_MUST cr_status cr_script_as_module(cr_module **out, cr_script *m);
/* The program of such a module, borrowed; NULL for other modules. */
CR_API cr_script *cr_script_of_module(cr_module *m);

#ifdef __cplusplus
}
#endif
#endif
