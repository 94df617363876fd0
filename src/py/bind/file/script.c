/* Objects of TorchScript programs (room script): calls of methods, attributes, archives.
 *
 * Values are copied between Python and programs, except tensors and objects, which both share.
 * A call runs without the interpreter lock. */
#include "base/map.h"
#include "compile/compile.h"
#include "graph/graph.h"
#include "py/bind/bind.h"
#include "script/archive.h"
#include "script/code.h"
#include "script/execute.h"
#include "script/freeze.h"
#include "script/operators.h"
#include "script/passes.h"
#include "script/python.h"
#include <string.h>

typedef struct {
    PyObject_HEAD cr_ivalue value; /* an object */
    PyObject *weak;
} script_object;

static PyTypeObject script_object_type;
static cr_sunit *script_unit; /* of the programs that Python defines; never freed */

static cr_iobject *script_of(PyObject *x) { return ((script_object *)x)->value.object; }

typedef struct {
    PyObject_HEAD cr_sfunction *function;
    PyObject *weak, *dict;
} script_function;

static PyTypeObject script_function_type;

static cr_sfunction *script_function_of(PyObject *x)
{
    return ((script_function *)x)->function;
}

/* 1 done, -1 raised. */
static int script_status(cr_status st) { return st ? cr_py_raise_int(st) : 1; }

/* --- values to Python --- */

/* Scripted code and its objects have state that no guard of a compiled function checks. */
static void script_note_outside(void)
{
    if (!cr_py_trace_call)
        cr_py_refuse_held("a scripted function or object is used");
}

static PyObject *script_to_python(const cr_ivalue *v);

/* A value that Python may remove from its container while it is converted. */
static PyObject *script_kept_to_python(const cr_ivalue *v)
{
    cr_ivalue kept = cr_ivalue_keep(*v);
    PyObject *made = script_to_python(&kept);

    cr_ivalue_drop(kept);
    return made;
}

static PyObject *script_items(const cr_ilist *l, bool tuple)
{
    PyObject *made = PyList_New(0), *items;

    for (size_t i = 0; made && i < l->len; i++)
        cr_py_append(&made, script_kept_to_python(&l->at[i]));
    if (!tuple || !made)
        return made;
    items = PyList_AsTuple(made);
    Py_DECREF(made);
    return items;
}

/* A named tuple: jit._loaded._named_tuple(class name, fields, values). */
static PyObject *script_named_tuple(const cr_ilist *l)
{
    const cr_sclass *cls = l->type->cls;
    PyObject *values = script_items(l, true), *made = NULL;
    PyObject *fields = values ? PyTuple_New((Py_ssize_t)cls->attributes.len) : NULL;
    PyObject *module = fields ? cr_py_import("jit._loaded") : NULL;

    for (size_t i = 0; module && i < cls->attributes.len; i++) {
        PyObject *name = PyUnicode_FromString(cls->attributes.at[i].name);
        if (!name)
            Py_CLEAR(module);
        else
            PyTuple_SET_ITEM(fields, (Py_ssize_t)i, name);
    }
    if (module)
        made = PyObject_CallMethod(module, "_named_tuple", "sOO", cls->name, fields, values);
    Py_XDECREF(module);
    Py_XDECREF(fields);
    Py_XDECREF(values);
    return made;
}

static PyObject *script_dict(const cr_idict *d)
{
    PyObject *made = PyDict_New();

    for (size_t i = 0; made && i < d->len; i++) {
        PyObject *key = script_to_python(&d->at[i].key);
        PyObject *value = key ? script_to_python(&d->at[i].value) : NULL;
        if (!value || PyDict_SetItem(made, key, value) < 0)
            Py_CLEAR(made);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return made;
}

static PyObject *script_wrap(cr_ivalue v)
{
    script_object *made = PyObject_New(script_object, &script_object_type);

    if (made) {
        made->value = cr_ivalue_keep(v);
        made->weak = NULL;
    }
    return (PyObject *)made;
}

/* The result of a function of jit._objects, which takes the arguments. */
static PyObject *script_ask(const char *function, const char *format, ...)
{
    PyObject *module = cr_py_import("jit._objects"), *args = NULL, *made = NULL, *f = NULL;
    va_list list;

    va_start(list, format);
    if (module)
        args = Py_VaBuildValue(format, list);
    va_end(list);
    if (args)
        f = PyObject_GetAttrString(module, function);
    if (f)
        made = PyObject_Call(f, args, NULL);
    Py_XDECREF(f);
    Py_XDECREF(args);
    Py_XDECREF(module);
    return made;
}

/* A module as the program's object, others as an object of the Python class. */
static PyObject *script_object_to_python(const cr_ivalue *v)
{
    PyObject *wrapped = script_wrap(*v);

    if (!wrapped || v->object->type->cls->is_module)
        return wrapped;
    PyObject *made = script_ask("to_python", "(O)", wrapped);
    Py_DECREF(wrapped);
    return made;
}

static PyObject *script_member_to_python(const cr_imember *m)
{
    PyObject *name = script_to_python(&m->name), *made = NULL;
    PyObject *value = name ? script_to_python(&m->value) : NULL;

    if (value)
        made = script_ask("member", "(sOO)", m->type->cls->name, name, value);
    Py_XDECREF(name);
    Py_XDECREF(value);
    return made;
}

static PyObject *script_to_python(const cr_ivalue *v)
{
    switch ((cr_iv_kind)v->kind) {
    case CR_IV_TENSOR: return cr_py_wrap_keep(v->t);
    case CR_IV_INT: return PyLong_FromLongLong(v->i);
    case CR_IV_FLOAT: return PyFloat_FromDouble(v->d);
    case CR_IV_COMPLEX: return PyComplex_FromDoubles(v->c.re, v->c.im);
    case CR_IV_BOOL: return PyBool_FromLong((long)v->i);
    case CR_IV_DEVICE:
        return cr_py_device_object((int)cr_packed_kind(v->i), cr_packed_index(v->i));
    case CR_IV_STRING:
        return PyUnicode_DecodeUTF8(v->string->at, (Py_ssize_t)v->string->len,
                                    "surrogateescape");
    case CR_IV_LIST: return script_items(v->list, false);
    case CR_IV_TUPLE:
        return v->list->type && v->list->type->cls ? script_named_tuple(v->list)
                                                   : script_items(v->list, true);
    case CR_IV_DICT: return script_dict(v->dict);
    case CR_IV_OBJECT: return script_object_to_python(v);
    case CR_IV_ENUM: return script_member_to_python(v->member);
    default: Py_RETURN_NONE;
    }
}

/* --- types of Python's values: 1 found, 0 none, -1 raised --- */

/* Types that values of Python had, by the types inside; their unit is never freed, and used
 * with the interpreter lock. */
static cr_sunit *script_types;
static cr_map script_types_by_parts;

typedef struct {
    cr_stype_kind kind;
    int count;
    const cr_stype *const *item;
    const cr_stype *made;
} script_type_job;

static void script_make_type(cr_session *s, void *context)
{
    script_type_job *j = context;

    (void)s;
    j->made = j->kind == CR_STYPE_LIST   ? cr_stype_list(script_types, j->item[0])
              : j->kind == CR_STYPE_DICT ? cr_stype_dict(script_types, j->item[0], j->item[1])
              : j->kind == CR_STYPE_OPTIONAL
                  ? cr_stype_optional(script_types, j->item[0])
                  : cr_stype_tuple(script_types, j->count, j->item, NULL);
}

/* The type of a kind with these types inside, of which there is one. */
static int script_type_of(cr_stype_kind kind, int count, const cr_stype *const *item,
                          const cr_stype **out)
{
    script_type_job job = {kind, count, item, NULL};
    cr_text key = {0};
    int done = 1;

    cr_text_printf(&key, "%d", (int)kind);
    for (int i = 0; i < count; i++)
        cr_text_printf(&key, " %p", (const void *)item[i]);
    script_types = script_types ? script_types : cr_sunit_new();
    if (cr_text_status(&key) || !script_types)
        done = cr_py_raise_int(CR_MEMORY);
    *out = done > 0 ? cr_map_get(&script_types_by_parts, key.at, key.len) : NULL;
    if (done > 0 && !*out) {
        cr_status st = cr_session_run(cr_sunit_session(script_types), script_make_type, &job);
        st = st ? st : cr_map_set(&script_types_by_parts, key.at, key.len, (void *)job.made);
        *out = job.made;
        done = script_status(st);
    }
    cr_text_drop(&key);
    return done;
}

static int script_infer(PyObject *x, const cr_stype **out);

/* The type of all items; None among others makes it optional. */
static int script_infer_common(PyObject *items, const cr_stype **out)
{
    const cr_stype *common = NULL, *one;
    bool none = false;
    PyObject *x;

    while ((x = PyIter_Next(items)) != NULL) {
        bool is_none = x == Py_None;
        int done = is_none ? 1 : script_infer(x, &one);
        Py_DECREF(x);
        if (done <= 0)
            return done;
        none |= is_none;
        if (is_none)
            continue;
        if (common && !cr_stype_equal(common, one))
            return 0;
        common = one;
    }
    if (PyErr_Occurred())
        return -1;
    *out = common ? common : CR_STYPE_OF(NONE);
    if (!common && !none)
        return 0;
    return none && common ? script_type_of(CR_STYPE_OPTIONAL, 1, &common, out) : 1;
}

static int script_infer_items(PyObject *x, const char *method, const cr_stype **out)
{
    PyObject *view = *method ? PyObject_CallMethod(x, method, NULL) : Py_NewRef(x);
    PyObject *items = view ? PyObject_GetIter(view) : NULL;
    int done = items ? script_infer_common(items, out) : -1;

    Py_XDECREF(items);
    Py_XDECREF(view);
    return done;
}

static int script_infer_dict(PyObject *x, const cr_stype **out)
{
    const cr_stype *item[2];
    int done = script_infer_items(x, "keys", &item[0]);

    done = done > 0 ? script_infer_items(x, "values", &item[1]) : done;
    return done > 0 ? script_type_of(CR_STYPE_DICT, 2, item, out) : done;
}

static int script_infer_tuple(PyObject *x, const cr_stype **out)
{
    Py_ssize_t n = PyTuple_GET_SIZE(x);
    const cr_stype **item = PyMem_Calloc((size_t)n + 1, sizeof(*item));
    int done = item ? 1 : -1;

    if (!item)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; done > 0 && i < n; i++)
        done = script_infer(PyTuple_GET_ITEM(x, i), &item[i]);
    done = done > 0 ? script_type_of(CR_STYPE_TUPLE, (int)n, item, out) : done;
    PyMem_Free(item);
    return done;
}

/* A class that is compiled, or that jit._objects compiles now. */
static int script_infer_class(PyObject *x, const cr_stype **out)
{
    if (Py_IS_TYPE(x, &script_object_type)) {
        *out = script_of(x)->type;
        return 1;
    }
    PyObject *name = script_ask("class_of", "(O)", x);
    int done = !name ? -1 : name == Py_None ? 0 : 1;
    cr_sclass *cls = done > 0 ? cr_sunit_class(script_unit, PyUnicode_AsUTF8(name)) : NULL;

    Py_XDECREF(name);
    *out = cls ? cls->type : NULL;
    return done > 0 ? cls != NULL : done;
}

static int script_infer_container(PyObject *x, const cr_stype **out)
{
    if (PyList_Check(x)) {
        const cr_stype *item;
        int done = script_infer_items(x, "", &item);
        return done > 0 ? script_type_of(CR_STYPE_LIST, 1, &item, out) : done;
    }
    if (PyDict_Check(x))
        return script_infer_dict(x, out);
    return PyTuple_Check(x) ? script_infer_tuple(x, out) : script_infer_class(x, out);
}

static int script_infer(PyObject *x, const cr_stype **out)
{
    const cr_stype *plain = x == Py_None                        ? CR_STYPE_OF(NONE)
                            : cr_py_is_tensor(x)                ? CR_STYPE_OF(TENSOR)
                            : PyBool_Check(x)                   ? CR_STYPE_OF(BOOL)
                            : PyLong_CheckExact(x)              ? CR_STYPE_OF(INT)
                            : PyFloat_Check(x)                  ? CR_STYPE_OF(FLOAT)
                            : PyComplex_Check(x)                ? CR_STYPE_OF(COMPLEX)
                            : PyUnicode_CheckExact(x)           ? CR_STYPE_OF(STR)
                            : PyBytes_Check(x)                  ? CR_STYPE_OF(STR)
                            : Py_IS_TYPE(x, &cr_py_dtype_type)  ? CR_STYPE_OF(INT)
                            : Py_IS_TYPE(x, &cr_py_device_type) ? CR_STYPE_OF(DEVICE)
                                                                : NULL;

    *out = plain;
    if (plain)
        return 1;
    if (Py_EnterRecursiveCall(" in the type of a value"))
        return -1;
    int done = script_infer_container(x, out);
    Py_LeaveRecursiveCall();
    return done;
}

/* --- lists and dicts that Python and programs share --- */

typedef struct {
    PyObject_HEAD cr_ivalue value; /* a list or a dict that has a type */
} script_shared;

static PyTypeObject script_items_type;

/* The shared list or dict that an object of jit._containers has; 0 when it has none. */
static int script_from_shared(PyObject *x, cr_iv_kind kind, const cr_stype *type,
                              cr_ivalue *out)
{
    PyObject *inner = PyObject_GetAttrString(x, "_items");
    int done = 0;

    if (!inner)
        return cr_py_forget_error() ? 0 : -1;
    if (Py_IS_TYPE(inner, &script_items_type)) {
        cr_ivalue v = ((script_shared *)inner)->value;
        const cr_stype *has = v.kind == CR_IV_LIST ? v.list->type : v.dict->type;
        done = v.kind == (uint8_t)kind && cr_stype_equal(has, type);
        if (done)
            *out = cr_ivalue_keep(v);
    }
    Py_DECREF(inner);
    return done;
}

/* --- values from Python: 1 done, 0 not of the type, -1 raised --- */

static int script_from_python(PyObject *x, const cr_stype *type, cr_ivalue *out);

/* As in torch, lists of numbers and of tensors are made of sequences, sets, generators, views
 * of dicts, map and zip; others of all that can be iterated. */
static bool script_counts_items(const cr_stype *type)
{
    cr_stype_kind item = type->kind == CR_STYPE_LIST ? type->item[0]->kind : CR_STYPE_ANY;

    return item == CR_STYPE_INT || item == CR_STYPE_FLOAT || item == CR_STYPE_BOOL ||
           item == CR_STYPE_TENSOR;
}

static bool script_gives_items(PyObject *x, const cr_stype *type)
{
    if (!script_counts_items(type))
        return true;
    if (PyUnicode_Check(x) || PyBytes_Check(x) || cr_py_is_tensor(x))
        return false;
    return PySequence_Check(x) || PyAnySet_Check(x) || PyGen_Check(x) ||
           PyDictViewSet_Check(x) || PyDictValues_Check(x) || Py_IS_TYPE(x, &PyMap_Type) ||
           Py_IS_TYPE(x, &PyZip_Type);
}

static int script_from_items(PyObject *items, const cr_stype *type, cr_ivalue *out)
{
    bool tuple = type->kind == CR_STYPE_TUPLE;
    Py_ssize_t n = PySequence_Size(items);
    cr_ivalue made;
    int done = 1;

    if (tuple && n != type->count)
        return 0;
    if (script_status(cr_ilist_new(&made, type, (size_t)n)) < 0)
        return -1;
    for (Py_ssize_t i = 0; done > 0 && i < n; i++) {
        cr_ivalue item;
        PyObject *at = PySequence_GetItem(items, i);
        done = at ? script_from_python(at, type->item[tuple ? i : 0], &item) : -1;
        if (done > 0)
            done = script_status(cr_ilist_append(made.list, item));
        Py_XDECREF(at);
    }
    if (done <= 0)
        return cr_ivalue_drop(made), done;
    if (tuple)
        made.kind = made.box->kind = CR_IV_TUPLE;
    *out = made;
    return done;
}

static int script_from_sequence(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    if (PyTuple_Check(x) || PyList_Check(x))
        return script_from_items(x, type, out);
    int done = type->kind == CR_STYPE_LIST ? script_from_shared(x, CR_IV_LIST, type, out) : 0;
    if (done || !script_gives_items(x, type))
        return done;
    PyObject *items = PySequence_Fast(x, "");
    if (!items)
        return cr_py_forget_error() ? 0 : -1;
    done = script_from_items(items, type, out);
    Py_DECREF(items);
    return done;
}

static int script_from_dict(PyObject *x, const cr_stype *type, cr_ivalue *out);

/* What dict(x) gives. */
static int script_from_pairs(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    PyObject *dict = PyObject_CallOneArg((PyObject *)&PyDict_Type, x);

    if (!dict)
        return cr_py_forget_error() ? 0 : -1;
    int done = script_from_dict(dict, type, out);
    Py_DECREF(dict);
    return done;
}

static int script_from_dict(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    cr_ivalue made;
    int done = 1;

    if (!PyDict_Check(x)) {
        done = script_from_shared(x, CR_IV_DICT, type, out);
        return done ? done : script_from_pairs(x, type, out);
    }
    if (script_status(cr_idict_new(&made, type)) < 0)
        return -1;
    while (done > 0 && PyDict_Next(x, &at, &key, &value)) {
        cr_ivalue k, v;
        done = script_from_python(key, type->item[0], &k);
        if (done <= 0)
            break;
        done = script_from_python(value, type->item[1], &v);
        if (done > 0)
            done = script_status(cr_idict_set(made.dict, k, v));
        else
            cr_ivalue_drop(k);
    }
    if (done <= 0)
        return cr_ivalue_drop(made), done;
    *out = made;
    return done;
}

static int script_from_text(PyObject *x, cr_ivalue *out)
{
    Py_ssize_t len;

    if (!PyUnicode_Check(x) && !PyBytes_Check(x))
        return 0;
    PyObject *bytes = PyBytes_Check(x)
                          ? Py_NewRef(x)
                          : PyUnicode_AsEncodedString(x, "utf-8", "surrogateescape");
    if (!bytes)
        return cr_py_forget_error() ? 0 : -1;
    len = PyBytes_Size(bytes);
    int done = script_status(cr_istring_new(out, PyBytes_AS_STRING(bytes), (size_t)len));
    Py_DECREF(bytes);
    return done;
}

/* 1, or 0 where a conversion raised: then the value is not of the type.  -1: no Exception. */
static int script_converted(void)
{
    if (!PyErr_Occurred())
        return 1;
    return cr_py_forget_error() ? 0 : -1;
}

static int script_from_int(PyObject *x, cr_ivalue *out)
{
    if (cr_py_refuse_named(x))
        return -1;
    if (Py_IS_TYPE(x, &cr_py_dtype_type)) {
        *out = cr_iv_int(cr_dtype_number((cr_dtype)((cr_py_dtype *)x)->dtype));
        return 1;
    }
    if (!PyLong_Check(x))
        return 0;
    *out = cr_iv_int(PyLong_AsLongLong(x));
    return script_converted();
}

/* What is no int, but becomes one: a tensor of one element, a number of NumPy. */
static int script_from_int_like(PyObject *x, cr_ivalue *out)
{
    int done = script_from_int(x, out);
    PyNumberMethods *m = Py_TYPE(x)->tp_as_number;

    if (done || PyFloat_Check(x) || !m || (!m->nb_index && !m->nb_int))
        return done;
    PyObject *number = m->nb_index ? PyNumber_Index(x) : NULL;
    if (!number && m->nb_int && cr_py_forget_error())
        number = PyNumber_Long(x);
    *out = cr_iv_int(number ? PyLong_AsLongLong(number) : 0);
    Py_XDECREF(number);
    return script_converted();
}

static int script_from_bool(PyObject *x, cr_ivalue *out)
{
    PyNumberMethods *m = Py_TYPE(x)->tp_as_number;

    if (x != Py_None && (!m || !m->nb_bool))
        return 0;
    *out = cr_iv_bool(PyObject_IsTrue(x) > 0);
    return script_converted();
}

static int script_from_number(PyObject *x, cr_ivalue *out)
{
    if (PyBool_Check(x)) {
        *out = cr_iv_bool(x == Py_True);
        return 1;
    }
    if (PyFloat_Check(x)) {
        *out = cr_iv_float(PyFloat_AS_DOUBLE(x));
        return 1;
    }
    if (PyComplex_Check(x)) {
        *out =
            cr_iv_complex((cr_complex){PyComplex_RealAsDouble(x), PyComplex_ImagAsDouble(x)});
        return 1;
    }
    return script_from_int(x, out);
}

static int script_from_float(PyObject *x, cr_ivalue *out)
{
    PyNumberMethods *m = Py_TYPE(x)->tp_as_number;

    if (!PyFloat_Check(x) && (!m || (!m->nb_float && !m->nb_index)))
        return 0;
    *out = cr_iv_float(PyFloat_AsDouble(x));
    return script_converted();
}

static int script_from_complex(PyObject *x, cr_ivalue *out)
{
    if (PyUnicode_Check(x))
        return 0;
    Py_complex c = PyComplex_AsCComplex(x);
    *out = cr_iv_complex((cr_complex){c.real, c.imag});
    return script_converted();
}

static int script_from_device(PyObject *x, cr_ivalue *out)
{
    int kind, index, done = 0;

    if (PyUnicode_Check(x) || Py_IS_TYPE(x, &cr_py_device_type))
        done = cr_py_device_from(x, &kind, &index);
    if (done > 0)
        *out = (cr_ivalue){.kind = CR_IV_DEVICE, .i = cr_device_pack(kind, index)};
    return done;
}

static const cr_stype *script_type_behind(PyObject *x);

/* Why a value is none of an interface. */
static void script_put_misfit(cr_text *out, const cr_stype *found, const cr_stype *type)
{
    cr_text_printf(out, "Object of type %s is not compatible with interface %s\n",
                   cr_stype_annotation(found), type->cls->name);
    cr_stype_print_misfit(out, found, type);
}

static void script_put_cast(cr_text *out, const char *name, const cr_stype *type, PyObject *x);

static void script_refuse_attribute(const cr_sattribute *a, PyObject *x)
{
    cr_text text = {0};

    if (x)
        script_put_cast(&text, a->name, a->type, x);
    else
        cr_text_printf(&text, "Could not cast attribute '%s' to type %s", a->name,
                       cr_stype_annotation(a->type));
    PyErr_SetString(PyExc_RuntimeError, cr_text_str(&text));
    cr_text_drop(&text);
}

/* An object with these attributes; -1 raised. */
static int script_make_object(const cr_sclass *cls, PyObject *values, cr_ivalue *out)
{
    cr_ivalue v;
    cr_status st = cr_iobject_new(&v, cls->type, cls->unit, cls->attributes.len);

    if (st)
        return cr_py_raise_int(st);
    for (size_t i = 0; i < cls->attributes.len; i++) {
        PyObject *x = PyDict_GetItemString(values, cls->attributes.at[i].name);
        int done =
            x ? script_from_python(x, cls->attributes.at[i].type, &v.object->slot[i]) : 0;
        if (done > 0)
            continue;
        if (!done)
            script_refuse_attribute(&cls->attributes.at[i], x);
        v.object->slot[i] = cr_iv_none();
        cr_ivalue_drop(v);
        return -1;
    }
    *out = v;
    return 1;
}

/* An object of a Python class that is compiled: a copy with its attributes. */
static int script_from_instance(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    PyObject *values = script_ask("attributes", "(Os)", x, type->cls->name);
    int done = !values             ? -1
               : values == Py_None ? 0
                                   : script_make_object(type->cls, values, out);

    Py_XDECREF(values);
    return done;
}

static int script_from_member(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    PyObject *name = script_ask("member_name", "(Os)", x, type->cls->name);
    int done = !name ? -1 : name == Py_None ? 0 : 1;

    if (done > 0) {
        cr_sconstant member = {.type = type};
        Py_ssize_t len;
        member.s = PyUnicode_AsUTF8AndSize(name, &len);
        member.len = (size_t)len;
        done = script_status(cr_ivalue_of_constant(out, &member));
    }
    Py_XDECREF(name);
    return done;
}

/* The type of the compiled class of a Python object; NULL: none. */
static const cr_stype *script_class_of(PyObject *x)
{
    PyObject *name = script_ask("class_of", "(O)", x);
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    const cr_sclass *cls = text ? cr_sunit_class(script_unit, text) : NULL;

    if (!name)
        PyErr_Clear();
    Py_XDECREF(name);
    return cls ? cls->type : NULL;
}

static int script_from_object(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    PyObject *inner =
        Py_IS_TYPE(x, &script_object_type) ? Py_NewRef(x) : PyObject_GetAttrString(x, "_c");

    if (!inner && !cr_py_forget_error())
        return -1;
    if (!inner) {
        const cr_stype *cls = type->kind == CR_STYPE_CLASS ? type : script_class_of(x);
        return cls && cr_stype_is_subtype(cls, type) ? script_from_instance(x, cls, out) : 0;
    }
    cr_ivalue v =
        Py_IS_TYPE(inner, &script_object_type) ? ((script_object *)inner)->value : cr_iv_none();
    bool fits = v.kind == CR_IV_OBJECT && cr_ivalue_fit(&v, type);
    if (fits)
        *out = cr_ivalue_keep(v);
    Py_DECREF(inner);
    return fits;
}

/* The member that has the type of `x`. */
static int script_from_any_of(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    const cr_stype *found = NULL;
    int done = script_infer(x, &found);

    if (done < 0)
        return done;
    for (int i = 0; done && i < type->count; i++)
        if (cr_stype_is_subtype(found, type->item[i]))
            return script_from_python(x, type->item[i], out);
    return 0;
}

static int script_from_tensor(PyObject *x, cr_ivalue *out)
{
    if (!cr_py_is_tensor(x))
        return 0;
    *out = cr_iv_tensor(cr_keep(cr_py_tensor_of(x)));
    return 1;
}

static int script_from_none(PyObject *x, cr_ivalue *out)
{
    *out = cr_iv_none();
    return x == Py_None;
}

/* A value of which the type is not stated: that which it has. */
static int script_from_any(PyObject *x, cr_ivalue *out)
{
    const cr_stype *type = NULL;
    int done = script_infer(x, &type);

    return done > 0 ? script_from_python(x, type, out) : done;
}

static int script_from_python(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    switch ((cr_stype_kind)type->kind) {
    case CR_STYPE_TENSOR: return script_from_tensor(x, out);
    case CR_STYPE_INT: return script_from_int_like(x, out);
    case CR_STYPE_FLOAT: return script_from_float(x, out);
    case CR_STYPE_COMPLEX: return script_from_complex(x, out);
    case CR_STYPE_NUMBER: return script_from_number(x, out);
    case CR_STYPE_BOOL: return script_from_bool(x, out);
    case CR_STYPE_STR: return script_from_text(x, out);
    case CR_STYPE_NONE: return script_from_none(x, out);
    case CR_STYPE_DEVICE: return script_from_device(x, out);
    case CR_STYPE_OPTIONAL:
        return x == Py_None ? script_from_none(x, out)
                            : script_from_python(x, type->item[0], out);
    case CR_STYPE_UNION: return script_from_any_of(x, type, out);
    case CR_STYPE_LIST:
    case CR_STYPE_TUPLE: return script_from_sequence(x, type, out);
    case CR_STYPE_DICT: return script_from_dict(x, type, out);
    case CR_STYPE_CLASS:
    case CR_STYPE_INTERFACE: return script_from_object(x, type, out);
    case CR_STYPE_ENUM: return script_from_member(x, type, out);
    case CR_STYPE_ANY: return script_from_any(x, out);
    default: return 0;
    }
}

/* --- calls --- */

static PyObject *script_declared(const cr_sschema *s)
{
    cr_text text = {0};

    cr_sschema_print(&text, s);
    return cr_py_text(&text, CR_OK);
}

/* RuntimeError: "forward() TEXT Declaration: ... MORE"; takes the text. */
static int script_refuse_with(const cr_sfunction *f, const char *separator, PyObject *text,
                              PyObject *more)
{
    PyObject *declared = text && more ? script_declared(&f->schema) : NULL;

    if (declared)
        PyErr_Format(PyExc_RuntimeError, "%s() %U%sDeclaration: %U%s%U", f->name, text,
                     separator, declared, PyUnicode_GET_LENGTH(more) ? "\n" : "", more);
    Py_XDECREF(declared);
    Py_XDECREF(more);
    Py_XDECREF(text);
    return -1;
}

static int script_refuse(const cr_sfunction *f, const char *separator, PyObject *text)
{
    return script_refuse_with(f, separator, text, PyUnicode_FromString(""));
}

/* torch's further line for unions: which type the argument has. */
static PyObject *script_union_text(const cr_stype *want, PyObject *x)
{
    const cr_stype *found = NULL;
    int done = want->kind == CR_STYPE_UNION ? script_infer(x, &found) : 0;

    if (done < 0)
        PyErr_Clear();
    return done > 0
               ? PyUnicode_FromFormat("Cast error details: Expected a member of %s but "
                                      "instead found type %s",
                                      cr_stype_annotation(want), cr_stype_annotation(found))
               : PyUnicode_FromString("");
}

/* torch's line on the Python error that is set, which is cleared. */
static PyObject *script_error_text(void)
{
    PyObject *kind, *why, *trace, *text;

    PyErr_Fetch(&kind, &why, &trace);
    text = PyUnicode_FromFormat(" Python error details: %s: %S",
                                ((PyTypeObject *)kind)->tp_name, why ? why : Py_None);
    Py_XDECREF(kind);
    Py_XDECREF(why);
    Py_XDECREF(trace);
    return text;
}

static PyObject *script_attribute_text(const cr_stype *want, PyObject *x)
{
    const cr_sclass *cls = want->cls;

    for (size_t i = 0; i < cls->attributes.len; i++)
        if (!PyObject_HasAttrString(x, cls->attributes.at[i].name))
            return PyUnicode_FromFormat(
                "Cast error details: Tried to cast object to type %s but object was missing "
                "attribute %s",
                cr_stype_annotation(want), cls->attributes.at[i].name);
    return PyUnicode_FromString("");
}

/* Why an object is none of an interface; NULL: it has no class. */
static PyObject *script_interface_text(const cr_stype *want, PyObject *x)
{
    const cr_stype *found = script_type_behind(x);
    cr_text text = {0};

    found = found ? found : script_class_of(x);
    PyErr_Clear();
    if (!found)
        return PyUnicode_FromFormat(
            "Assigning the object %R to an interface fails because the value is not a "
            "TorchScript compatible type, did you forget toturn it into a user defined "
            "TorchScript class?",
            x);
    cr_text_printf(
        &text, "Cast error details: Object of type %s is not compatible with interface %s\n",
        cr_stype_annotation(found), want->cls->name);
    cr_stype_print_misfit(&text, found, want);
    return cr_py_text(&text, CR_OK);
}

static PyObject *script_cast_text(const cr_stype *want, PyObject *x);

/* How the conversion of an item failed; NULL: all are of the type. */
static PyObject *script_item_text(const cr_stype *item, PyObject *x)
{
    cr_ivalue v;
    int done = script_from_python(x, item, &v);

    PyErr_Clear();
    if (done > 0)
        cr_ivalue_drop(v);
    return done > 0 ? NULL : script_cast_text(item, x);
}

/* The same of a list, of which torch converts one item after the other, and of a tuple. */
static PyObject *script_items_text(const cr_stype *want, PyObject *x)
{
    bool tuple = want->kind == CR_STYPE_TUPLE;
    PyObject *text = NULL, *items = PySequence_List(x);

    if (!items)
        return script_error_text();
    Py_ssize_t n = PyList_GET_SIZE(items);
    if (tuple && n != want->count)
        text = PyUnicode_FromFormat("Cast error details: Object %S had a different number "
                                    "of elements than type %s",
                                    x, cr_stype_annotation(want));
    for (Py_ssize_t i = 0; !text && !PyErr_Occurred() && i < n; i++)
        text = script_item_text(want->item[tuple ? i : 0], PyList_GET_ITEM(items, i));
    Py_DECREF(items);
    return text;
}

static PyObject *script_dict_text(const cr_stype *want, PyObject *x)
{
    PyObject *dict = PyObject_CallOneArg((PyObject *)&PyDict_Type, x), *key, *value;
    PyObject *text = dict ? NULL : script_error_text();
    Py_ssize_t at = 0;

    while (dict && !text && PyDict_Next(dict, &at, &key, &value)) {
        text = script_item_text(want->item[1], value); /* torch's order */
        text = text ? text : script_item_text(want->item[0], key);
    }
    Py_XDECREF(dict);
    return text;
}

/* torch's last lines of an error for an argument: how the conversion failed. */
static PyObject *script_cast_text(const cr_stype *want, PyObject *x)
{
    PyObject *text = NULL;

    PyObject *kind = (PyObject *)Py_TYPE(x), *value;

    switch (want->kind) {
    case CR_STYPE_OPTIONAL: return script_cast_text(want->item[0], x);
    case CR_STYPE_UNION: return script_union_text(want, x);
    case CR_STYPE_CLASS: return script_attribute_text(want, x);
    case CR_STYPE_INTERFACE: text = script_interface_text(want, x); break;
    case CR_STYPE_ENUM:
        value = PyObject_GetAttrString(x, "name"); /* torch asks for it first */
        if (!value)
            return script_error_text();
        Py_DECREF(value);
        value = PyObject_GetAttrString(x, "value");
        if (!value)
            return script_error_text();
        kind = (PyObject *)Py_TYPE(value);
        Py_DECREF(value);
        break;
    case CR_STYPE_TENSOR:
        return PyUnicode_FromFormat("Cast error details: Unable to cast %S to Tensor", x);
    case CR_STYPE_DICT: text = script_dict_text(want, x); break;
    case CR_STYPE_TUPLE: text = script_items_text(want, x); break;
    case CR_STYPE_LIST:
        if (!script_counts_items(want))
            text = script_items_text(want, x);
        break;
    default: break;
    }
    return text ? text
                : PyUnicode_FromFormat(
                      "Cast error details: Unable to cast Python instance of type %R to C++ "
                      "type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug "
                      "mode for details)",
                      kind);
}

/* The name of an object's type; of a named tuple, with its fields. */
static PyObject *script_type_name(PyObject *x)
{
    const char *full = Py_TYPE(x)->tp_name, *dot = strrchr(full, '.');
    const char *name = dot ? dot + 1 : full;
    PyObject *fields = PyTuple_Check(x) ? PyObject_GetAttrString(x, "_fields") : NULL;
    PyObject *comma = fields ? PyUnicode_FromString(", ") : NULL;
    PyObject *joined = comma ? PyUnicode_Join(comma, fields) : NULL;
    PyObject *made = joined ? PyUnicode_FromFormat("%s (aka NamedTuple(%U))", name, joined)
                            : PyUnicode_FromString((PyErr_Clear(), name));

    Py_XDECREF(joined);
    Py_XDECREF(comma);
    Py_XDECREF(fields);
    return made;
}

static int script_refuse_type(const cr_sfunction *f, int i, PyObject *x)
{
    const cr_stype *type = f->schema.param[i].type;
    PyObject *name = script_type_name(x), *text = NULL;
    bool ours = !strncmp(f->qualified, "__torch__.torch.", 16);
    bool inferred = type == &cr_stype_inferred && !ours; /* torch's are annotated */

    if (name)
        text = PyUnicode_FromFormat(
            "Expected a value of type '%s' for argument '%s' but instead found "
            "type '%U'.%s%s%s\nPosition: %d\nValue: %R",
            cr_stype_annotation(inferred                     ? type
                                : type == &cr_stype_inferred ? CR_STYPE_OF(TENSOR)
                                                             : type),
            f->schema.param[i].name, name, inferred ? "\nInferred '" : "",
            inferred ? f->schema.param[i].name : "",
            inferred ? "' to be of type 'Tensor' because it was not annotated with an explicit "
                       "type."
                     : "",
            i, x);
    Py_XDECREF(name);
    PyObject *why = script_cast_text(type, x);
    if (why && type->kind == CR_STYPE_INTERFACE && !script_type_behind(x) &&
        !script_class_of(x)) { /* torch's error is this text alone */
        PyErr_SetObject(PyExc_RuntimeError, why);
        Py_DECREF(why);
        Py_XDECREF(text);
        return -1;
    }
    return script_refuse_with(f, "\n", text, why);
}

/* The number of parameters that take positional arguments, without the first `self`. */
static int script_positional(const cr_sschema *s, int self)
{
    int n = self;

    while (n < s->param_count && !s->param[n].keyword_only)
        n++;
    return n - self;
}

/* The argument for parameter i, borrowed, or NULL.  `self`: 1 for methods. */
static PyObject *script_argument(const cr_sschema *s, int i, int self, PyObject *args,
                                 PyObject *kwargs, Py_ssize_t *used)
{
    if (i - self < PyTuple_GET_SIZE(args))
        return PyTuple_GET_ITEM(args, i - self);
    PyObject *found = kwargs ? PyDict_GetItemString(kwargs, s->param[i].name) : NULL;
    *used += found != NULL;
    return found;
}

/* A keyword that no parameter has, or one of a parameter that has a value by its place. */
static int script_refuse_keyword(const cr_sfunction *f, Py_ssize_t given, PyObject *kwargs)
{
    int self = f->owner ? 1 : 0;
    PyObject *declared = script_declared(&f->schema), *key, *value;
    Py_ssize_t at = 0;

    while (declared && PyDict_Next(kwargs, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        int at_param = -1;
        for (int i = 0; name && i < f->schema.param_count; i++)
            at_param = strcmp(f->schema.param[i].name, name) ? at_param : i;
        if (at_param >= self && at_param < self + given)
            PyErr_Format(PyExc_RuntimeError,
                         "Argument '%U' specified both as positional and keyword argument. "
                         "Schema: %U",
                         key, declared);
        if (at_param >= self && at_param < self + given)
            break;
        if (at_param >= self)
            continue;
        PyErr_Format(PyExc_RuntimeError,
                     "Unknown keyword argument '%U' for operator '%s'. Schema: %U", key,
                     f->name, declared);
        break;
    }
    Py_XDECREF(declared);
    return -1;
}

/* Fills value[1..] and returns the number of values; -1 with an exception.  Parameters without
 * an argument have their defaults, made by the executor; they must be the last ones. */
static int script_bind(const cr_sfunction *f, PyObject *args, PyObject *kwargs,
                       cr_ivalue *value)
{
    const cr_sschema *s = &f->schema;
    int self = f->owner ? 1 : 0;
    Py_ssize_t given = PyTuple_GET_SIZE(args), used = 0;

    Py_ssize_t all = given + self + (kwargs ? PyDict_Size(kwargs) : 0);
    if (all > s->param_count)
        return script_refuse(
            f, " ",
            PyUnicode_FromFormat("expected at most %d argument(s) but received "
                                 "%zd argument(s).",
                                 s->param_count, all));
    if (given > script_positional(s, self))
        return script_refuse(
            f, " ",
            PyUnicode_FromFormat("takes %d positional argument(s) but %zd was/were given. ",
                                 script_positional(s, self), given));
    for (int i = self; i < s->param_count; i++) {
        PyObject *x = script_argument(s, i, self, args, kwargs, &used);
        if (!x && !s->param[i].preset)
            return script_refuse(
                f, " ",
                PyUnicode_FromFormat("is missing value for argument '%s'.", s->param[i].name));
        int done = x ? script_from_python(x, s->param[i].type, &value[i])
                     : script_status(cr_ivalue_of_constant(&value[i], s->param[i].preset));
        if (done <= 0)
            return done < 0 ? -1 : script_refuse_type(f, i, x);
    }
    if (kwargs && used < PyDict_Size(kwargs))
        return script_refuse_keyword(f, given, kwargs);
    return s->param_count;
}

/* Handlers of signals, for programs that run without the interpreter lock. */
static cr_status script_poll(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    int raised = PyErr_CheckSignals();

    PyGILState_Release(state);
    return raised < 0 ? CR_PYTHON : CR_OK;
}

static PyObject *script_run(cr_sfunction *f, const cr_ivalue *value, int count)
{
    cr_ivalue result;
    cr_status st;

    CR_PY_UNLOCKED(st = cr_sfunction_run(&result, f, value, count, NULL));
    if (st)
        return cr_py_raise(st);
    PyObject *made = script_to_python(&result);
    cr_ivalue_drop(result);
    return made;
}

/* `self` is NULL for functions. */
static PyObject *script_call_bound(PyObject *self, cr_sfunction *f, PyObject *args,
                                   PyObject *kwargs)
{
    size_t n = (size_t)f->schema.param_count;
    cr_ivalue *value = PyMem_Calloc(n + 1, sizeof *value);
    PyObject *made = NULL;

    if (!value)
        return PyErr_NoMemory();
    script_note_outside();
    if (self)
        value[0] = ((script_object *)self)->value;
    int count = script_bind(f, args, kwargs, value);
    if (count >= 0)
        made = script_run(f, value, count);
    for (size_t i = self ? 1 : 0; i < n; i++)
        cr_ivalue_drop(value[i]);
    PyMem_Free(value);
    return made;
}

static cr_sfunction *script_method(PyObject *self, const char *name)
{
    cr_sfunction *f = cr_sclass_method(script_of(self)->type->cls, name);

    if (!f)
        PyErr_Format(PyExc_AttributeError, "'%s' object has no method '%s'",
                     script_of(self)->type->cls->name, name);
    return f;
}

/* call(name, args, kwargs) */
static PyObject *script_call(PyObject *self, PyObject *all)
{
    PyObject *args, *kwargs = NULL;
    const char *name;

    if (!PyArg_ParseTuple(all, "sO!|O!", &name, &PyTuple_Type, &args, &PyDict_Type, &kwargs))
        return NULL;
    cr_sfunction *f = script_method(self, name);
    return f ? script_call_bound(self, f, args, kwargs) : NULL;
}

/* --- attributes --- */

static PyObject *script_lacks(PyObject *self, const char *name)
{
    return PyErr_Format(PyExc_AttributeError, "%s does not have a field with name '%s'",
                        cr_stype_annotation(script_of(self)->type), name);
}

static int script_slot(PyObject *self, const char *name)
{
    int slot = cr_sclass_attribute(script_of(self)->type->cls, name);

    script_note_outside();
    if (slot < 0)
        script_lacks(self, name);
    return slot;
}

static PyObject *script_get(PyObject *self, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    int slot = name ? script_slot(self, name) : -1;

    if (slot < 0)
        return NULL;
    cr_ivalue v = cr_islot_get(&script_of(self)->slot[slot]);
    PyObject *made = script_to_python(&v);
    cr_ivalue_drop(v);
    return made;
}

/* The class of the program's object behind `x`, or NULL. */
static const cr_stype *script_type_behind(PyObject *x)
{
    PyObject *inner =
        Py_IS_TYPE(x, &script_object_type) ? Py_NewRef(x) : PyObject_GetAttrString(x, "_c");
    const cr_stype *type =
        inner && Py_IS_TYPE(inner, &script_object_type) ? script_of(inner)->type : NULL;

    PyErr_Clear();
    Py_XDECREF(inner);
    return type;
}

static PyObject *script_cast_text(const cr_stype *want, PyObject *x);

/* torch's text for an attribute that is set to a value of another type. */
static void script_put_cast(cr_text *out, const char *name, const cr_stype *type, PyObject *x)
{
    PyObject *why = type->kind == CR_STYPE_NONE
                        ? PyUnicode_FromFormat("Cannot cast %S to None", x)
                        : script_cast_text(type, x);
    const char *text = why ? PyUnicode_AsUTF8(why) : NULL, *head = "Cast error details: ";

    PyErr_Clear();
    text = text ? text : "";
    text += strncmp(text, head, strlen(head)) ? 0 : strlen(head);
    cr_text_printf(out, "Could not cast attribute '%s' to type %s: %s", name,
                   cr_stype_annotation(type), text);
    Py_XDECREF(why);
}

static void script_refuse_set(const char *name, const cr_stype *type, PyObject *x)
{
    const cr_stype *found = script_type_behind(x);
    cr_text text = {0};

    if (found && type->kind == CR_STYPE_INTERFACE) {
        script_put_misfit(&text, found, type);
    } else if (found) {
        cr_text_printf(&text, "Expected a value of type '%s' for field '%s', but found ",
                       cr_stype_annotation(type), name);
        cr_text_printf(&text, "'%s'", cr_stype_annotation(found));
    } else {
        script_put_cast(&text, name, type, x);
    }
    PyErr_SetString(PyExc_RuntimeError, cr_text_str(&text));
    cr_text_drop(&text);
}

static PyObject *script_set(PyObject *self, PyObject *args)
{
    PyObject *x;
    const char *name;
    cr_ivalue v;

    if (!PyArg_ParseTuple(args, "sO", &name, &x))
        return NULL;
    int slot = script_slot(self, name);
    if (slot < 0)
        return NULL;
    const cr_stype *type = script_of(self)->type->cls->attributes.at[slot].type;
    int done = script_from_python(x, type, &v);
    if (!done)
        script_refuse_set(name, type, x);
    if (done <= 0)
        return NULL;
    cr_islot_set(&script_of(self)->slot[slot], v);
    Py_RETURN_NONE;
}

/* Whether an attribute is a module: of a module's class, or the value of an interface's. */
static bool script_holds_module(const cr_stype *type, const cr_ivalue *value)
{
    if (type->kind == CR_STYPE_CLASS)
        return type->cls->is_module;
    return type->kind == CR_STYPE_INTERFACE && value && value->kind == CR_IV_OBJECT &&
           value->object->type->cls->is_module;
}

/* attributes(): (name, type, is a parameter, is a buffer, is a module) in the order of
 * slots. */
static PyObject *script_attribute_rows(const cr_sclass *cls, const cr_iobject *o)
{
    PyObject *made = PyList_New(0);

    for (size_t i = 0; made && i < cls->attributes.len; i++) {
        const cr_sattribute *a = &cls->attributes.at[i];
        bool module = script_holds_module(a->type, o ? &o->slot[i] : NULL);
        cr_py_append(&made, Py_BuildValue("(ssOOO)", a->name, cr_stype_in_source(a->type),
                                          a->parameter ? Py_True : Py_False,
                                          a->buffer ? Py_True : Py_False,
                                          module ? Py_True : Py_False));
    }
    return made;
}

static PyObject *script_attributes(PyObject *self, PyObject *unused)
{
    (void)unused;
    return script_attribute_rows(script_of(self)->type->cls, script_of(self));
}

static PyObject *script_methods(PyObject *self, PyObject *unused)
{
    const cr_sclass *cls = script_of(self)->type->cls;
    PyObject *made = PyList_New(0);

    (void)unused;
    for (size_t i = 0; made && i < cls->methods.len; i++) {
        if (cls->methods.at[i]->caller || cls->methods.at[i]->dropped)
            continue; /* a method of Python */
        cr_py_append(&made, PyUnicode_FromString(cls->methods.at[i]->name));
    }
    return made;
}

/* hooks(before): names of the forward pre-hooks, or of the forward hooks. */
static PyObject *script_hooks(PyObject *self, PyObject *before)
{
    const cr_sclass *cls = script_of(self)->type->cls;
    int first = PyObject_IsTrue(before);
    size_t n = first ? cls->prehooks.len : cls->hooks.len;
    PyObject *made = first < 0 ? NULL : PyList_New(0);

    for (size_t i = 0; made && i < n; i++)
        cr_py_append(&made,
                     PyUnicode_FromString((first ? cls->prehooks.at : cls->hooks.at)[i]->name));
    return made;
}

static PyObject *script_constants(PyObject *self, PyObject *unused)
{
    const cr_sclass *cls = script_of(self)->type->cls;
    PyObject *made = PyDict_New();

    (void)unused;
    for (size_t i = 0; made && i < cls->constants.len; i++) {
        cr_ivalue v;
        if (script_status(cr_ivalue_of_constant(&v, cls->constants.at[i].value)) < 0) {
            Py_CLEAR(made);
            break;
        }
        PyObject *x = script_to_python(&v);
        cr_ivalue_drop(v);
        cr_py_put_named(&made, cls->constants.at[i].name, x);
    }
    return made;
}

/* --- text --- */

static PyObject *script_graph_after(PyObject *self, PyObject *args)
{
    const char *name, *passes;
    cr_text text = {0};

    if (!PyArg_ParseTuple(args, "ss", &name, &passes))
        return NULL;
    cr_sfunction *f = script_method(self, name);
    return f ? cr_py_text(&text, cr_sfunction_print_after(&text, f, passes)) : NULL;
}

/* A parameter, or a result, as (name, annotation, is keyword-only, default), the last where
 * there is one. */
static PyObject *script_schema_row(const cr_sparam *p)
{
    const char *name = p->name ? p->name : "", *type = cr_stype_in_source(p->type);
    cr_ivalue v;

    if (!p->preset)
        return Py_BuildValue("(ssO)", name, type, p->keyword_only ? Py_True : Py_False);
    cr_status st = cr_ivalue_of_constant(&v, p->preset);
    PyObject *value = st ? cr_py_raise(st) : script_to_python(&v);
    cr_ivalue_drop(v);
    return value ? Py_BuildValue("(ssON)", name, type, p->keyword_only ? Py_True : Py_False,
                                 value)
                 : NULL;
}

static PyObject *script_schema_rows(const cr_sparam *p, int count)
{
    PyObject *made = PyList_New(0);

    for (int i = 0; made && i < count; i++)
        cr_py_append(&made, script_schema_row(&p[i]));
    return made;
}

static PyObject *script_schema_object(const cr_sschema *s)
{
    PyObject *text = script_declared(s);
    PyObject *params = script_schema_rows(s->param, s->param_count);
    PyObject *results = script_schema_rows(s->result, s->result_count);
    PyObject *made = text && params && results
                         ? script_ask("schema_of", "(OsOO)", text, s->name, params, results)
                         : NULL;

    Py_XDECREF(results);
    Py_XDECREF(params);
    Py_XDECREF(text);
    return made;
}

static PyObject *script_schema(PyObject *self, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    cr_sfunction *f = name ? script_method(self, name) : NULL;

    return f ? script_schema_object(&f->schema) : NULL;
}

/* The lines of a method in the archive's text, with the indent of the class removed. */
static PyObject *script_code(PyObject *self, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    cr_sfunction *f = name ? script_method(self, name) : NULL;
    cr_text text = {0};

    if (!f)
        return NULL;
    return cr_py_text(&text, cr_scode_function(&text, f, NULL));
}

/* --- saving --- */

static cr_status script_put(void *to, const void *bytes, size_t len)
{
    cr_text *text = to;

    cr_text_put_n(text, bytes, len);
    return cr_text_status(text);
}

/* The extra records, whose names and bytes are borrowed from `dict`; -1 raised. */
static int script_extra_records(PyObject *dict, cr_sextra *out)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, len;
    size_t n = 0;

    for (; PyDict_Next(dict, &at, &key, &value); n++) {
        out[n].name = (char *)PyUnicode_AsUTF8(key);
        out[n].bytes = PyUnicode_Check(value) ? (char *)PyUnicode_AsUTF8AndSize(value, &len)
                                              : PyBytes_AsString(value);
        if (!out[n].name || !out[n].bytes)
            return -1;
        out[n].len = (size_t)(PyUnicode_Check(value) ? len : PyBytes_GET_SIZE(value));
    }
    return 0;
}

/* save(folder, extra): the bytes of an archive. */
static PyObject *script_save(PyObject *self, PyObject *args)
{
    const char *folder;
    PyObject *extra, *made = NULL;
    cr_text text = {0};

    if (!PyArg_ParseTuple(args, "sO!", &folder, &PyDict_Type, &extra))
        return NULL;
    size_t n = (size_t)PyDict_Size(extra);
    cr_sextra *records = PyMem_Calloc(n + 1, sizeof *records);
    if (!records)
        return PyErr_NoMemory();
    if (!script_extra_records(extra, records)) {
        cr_status st = cr_sarchive_write(&((script_object *)self)->value, folder, records, n,
                                         script_put, &text);
        made = st ? cr_py_raise(st) : PyBytes_FromStringAndSize(text.at, (Py_ssize_t)text.len);
    }
    PyMem_Free(records);
    cr_text_drop(&text);
    return made;
}

/* freeze(parameters, *names): a module of the program with constants in place of its
 * attributes, also of its parameters and buffers unless `parameters` is true. */
static PyObject *script_freeze(PyObject *self, PyObject *args)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args) - 1;
    PyObject *made = NULL;
    const char **names;
    cr_ivalue v;
    bool fits = true;

    if (n < 0)
        return PyErr_Format(PyExc_TypeError, "freeze() needs an argument");
    names = PyMem_Calloc((size_t)n + 1, sizeof(*names));
    if (!names)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; fits && i < n; i++)
        fits = (names[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(args, i + 1))) != NULL;
    if (fits) {
        cr_status st = cr_sobject_freeze(&v, &((script_object *)self)->value, names, (int)n,
                                         PyTuple_GET_ITEM(args, 0) == Py_True);
        made = st ? cr_py_raise(st) : script_wrap(v);
        if (!st)
            cr_ivalue_drop(v);
    }
    PyMem_Free(names);
    return made;
}

/* optimize(): changes the methods of a frozen module that has not run. */
static PyObject *script_optimize(PyObject *self, PyObject *none)
{
    cr_status st = cr_sobject_optimize(&((script_object *)self)->value);

    (void)none;
    return cr_py_done(st);
}

static PyObject *script_has(PyObject *self, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);

    return name ? PyBool_FromLong(cr_sclass_attribute(script_of(self)->type->cls, name) >= 0)
                : NULL;
}

/* --- the type --- */

static void script_dealloc(PyObject *self)
{
    if (((script_object *)self)->weak)
        PyObject_ClearWeakRefs(self);
    cr_ivalue_drop(((script_object *)self)->value);
    PyObject_Free(self);
}

/* Other names are attributes and methods of the program's object. */
static PyObject *script_getattr(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name), *made, *method;
    const char *text = found ? NULL : PyUnicode_AsUTF8(name);

    if (found || !text || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    if (cr_sclass_attribute(script_of(self)->type->cls, text) >= 0) {
        PyErr_Clear();
        return script_get(self, name);
    }
    PyErr_Clear();
    if (!cr_sclass_method(script_of(self)->type->cls, text))
        return script_lacks(self, text);
    made = cr_py_import("jit._loaded");
    method = made ? PyObject_CallMethod(made, "LoadedMethod", "OO", self, name) : NULL;
    Py_XDECREF(made);
    return method;
}

static PyObject *script_name(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(script_of(self)->type->cls->name);
}

static PyObject *script_is_module(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(script_of(self)->type->cls->is_module);
}

/* Objects of programs are equal when they are one object. */
static PyObject *script_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, &script_object_type) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((script_of(a) == script_of(b)) == (op == Py_EQ));
}

static Py_hash_t script_hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)script_of(self) >> 4);
}

static PyObject *script_has_method(PyObject *self, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);

    return name ? PyBool_FromLong(cr_sclass_method(script_of(self)->type->cls, name) != NULL)
                : NULL;
}

/* A method by its name. */
static PyObject *script_get_method(PyObject *self, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    PyObject *home, *method;

    if (!name)
        return NULL;
    if (!cr_sclass_method(script_of(self)->type->cls, name))
        return PyErr_Format(PyExc_RuntimeError, "Method '%s' is not defined.", name);
    home = cr_py_import("jit._loaded");
    method = home ? PyObject_CallMethod(home, "LoadedMethod", "OO", self, arg) : NULL;
    Py_XDECREF(home);
    return method;
}

static PyObject *script_copy(PyObject *self, PyObject *unused)
{
    const cr_iobject *from = script_of(self);
    cr_ivalue made;
    cr_status st = cr_iobject_new(&made, from->type, from->unit, from->len);

    (void)unused;
    if (st)
        return cr_py_raise(st);
    for (size_t i = 0; i < from->len; i++)
        made.object->slot[i] = cr_ivalue_keep(from->slot[i]);
    PyObject *wrapped = script_wrap(made);
    cr_ivalue_drop(made);
    return wrapped;
}

static PyObject *script_deepcopy(PyObject *self, PyObject *memo)
{
    cr_ivalue from = {.kind = CR_IV_OBJECT, .object = script_of(self)}, made;
    cr_status st = cr_ivalue_deepcopy(&made, &from);

    (void)memo;
    if (st)
        return cr_py_raise(st);
    PyObject *wrapped = script_wrap(made);
    cr_ivalue_drop(made);
    return wrapped;
}

/* _programs(name): those of a method */
static PyObject *script_object_programs(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    cr_sfunction *f = text ? script_method(self, text) : NULL;
    cr_text out = {0};

    return f ? cr_py_text(&out, cr_scripted_print(&out, f)) : NULL;
}

static PyMethodDef script_object_methods[] = {
    {"_programs", script_object_programs, METH_O,
     "_programs(method): the programs of calls with equal arguments."},
    {"call", script_call, METH_VARARGS, "Calls a method: call(name, args, kwargs)."},
    {"get", script_get, METH_O, "The value of an attribute."},
    {"set", script_set, METH_VARARGS, "Sets an attribute: set(name, value)."},
    {"attributes", script_attributes, METH_NOARGS, "Names, types and kinds of attributes."},
    {"methods", script_methods, METH_NOARGS, "Names of methods."},
    {"_method_names", script_methods, METH_NOARGS, "Names of methods."},
    {"_has_method", script_has_method, METH_O, "Whether the class has a method."},
    {"_get_method", script_get_method, METH_O, "A method by its name."},
    {"hooks", script_hooks, METH_O, "Names of hooks: hooks(before forward)."},
    {"constants", script_constants, METH_NOARGS, "Constants of the class by name."},
    {"graph_after", script_graph_after, METH_VARARGS, "The same after passes by name."},
    {"schema", script_schema, METH_O, "The declaration of a method."},
    {"freeze", script_freeze, METH_VARARGS, "A module with constants as attributes."},
    {"optimize", script_optimize, METH_NOARGS,
     "Joins batch norms of a frozen module with convolutions."},
    {"copy", script_copy, METH_NOARGS, "Another object with the same attributes."},
    {"__deepcopy__", script_deepcopy, METH_O, "Another object with copies of the attributes."},
    {"hasattr", script_has, METH_O, "Whether the object has an attribute."},
    {"save", script_save, METH_VARARGS, "The bytes of an archive: save(folder, extra)."},
    {"code", script_code, METH_O, "The source text of a method."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef script_object_getset[] = {
    {"name", script_name, NULL, "The qualified name of the class.", NULL},
    {"qualified_name", script_name, NULL, "The qualified name of the class.", NULL},
    {"is_module", script_is_module, NULL, "Whether the class is a module's.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject script_object_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C.ScriptObject",
    .tp_basicsize = sizeof(script_object),
    .tp_dealloc = script_dealloc,
    .tp_weaklistoffset = offsetof(script_object, weak),
    .tp_getattro = script_getattr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = script_object_methods,
    .tp_getset = script_object_getset,
    .tp_richcompare = script_compare,
    .tp_hash = script_hash};

/* --- programs from Python --- */

static PyObject *script_frontend;

static int script_constant(PyObject *x, cr_sconstant *out);

static char *script_session_text(PyObject *x, size_t *len)
{
    Py_ssize_t n = 0;
    const char *text = PyUnicode_AsUTF8AndSize(x, &n);
    char *copy =
        text ? cr_arena_text(&cr_sunit_session(script_unit)->keep, text, (size_t)n) : NULL;

    if (text && !copy)
        PyErr_NoMemory();
    if (len)
        *len = (size_t)n;
    return copy;
}

/* A tuple, or a list of one type. */
static int script_constant_items(PyObject *x, cr_sconstant *out)
{
    Py_ssize_t n = PySequence_Size(x);
    cr_arena *keep = &cr_sunit_session(script_unit)->keep;
    cr_sconstant *item = cr_arena_get(keep, (size_t)n * sizeof *item + 1);
    const cr_stype **type = cr_arena_get(keep, (size_t)n * sizeof(*type) + 1);

    if (!item || !type)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *at = PySequence_GetItem(x, i);
        int done = at ? script_constant(at, &item[i]) : -1;
        Py_XDECREF(at);
        if (done <= 0)
            return done;
        type[i] = item[i].type;
        if (PyList_Check(x) && !cr_stype_equal(type[i], type[0]))
            return 0;
    }
    if (PyList_Check(x) && !n)
        return 0;
    *out = (cr_sconstant){.type = PyList_Check(x)
                                      ? cr_stype_list(script_unit, type[0])
                                      : cr_stype_tuple(script_unit, (int)n, type, NULL)};
    out->count = (int)n;
    out->item = item;
    return 1;
}

static int script_constant_text(PyObject *x, cr_sconstant *out, const cr_stype *type)
{
    *out = (cr_sconstant){.type = type};
    out->s = script_session_text(x, &out->len);
    return out->s ? 1 : -1;
}

static int script_constant_device(PyObject *x, cr_sconstant *out)
{
    PyObject *text = PyObject_Str(x);
    int done = text ? script_constant_text(text, out, CR_STYPE_OF(DEVICE)) : -1;

    Py_XDECREF(text);
    return done;
}

/* 1 done, 0 not a constant, -1 raised. */
static int script_constant(PyObject *x, cr_sconstant *out)
{
    cr_ivalue v;
    int kind, index;

    if (x == Py_None) {
        *out = (cr_sconstant){.type = CR_STYPE_OF(NONE)};
        return 1;
    }
    if (PyUnicode_Check(x))
        return script_constant_text(x, out, CR_STYPE_OF(STR));
    if (PyTuple_Check(x) || PyList_Check(x))
        return script_constant_items(x, out);
    if (cr_py_is_tensor(x)) {
        *out = (cr_sconstant){.type = CR_STYPE_OF(TENSOR), .tensor = cr_py_tensor_of(x)};
        cr_sunit_keep_tensor(script_unit, out->tensor);
        return 1;
    }
    int done = script_from_number(x, &v);
    if (done > 0) {
        const cr_stype *const types[] = {[CR_IV_INT] = CR_STYPE_OF(INT),
                                         [CR_IV_FLOAT] = CR_STYPE_OF(FLOAT),
                                         [CR_IV_COMPLEX] = CR_STYPE_OF(COMPLEX),
                                         [CR_IV_BOOL] = CR_STYPE_OF(BOOL)};
        *out = (cr_sconstant){.type = types[v.kind]};
        if (v.kind == CR_IV_FLOAT)
            out->d[0] = v.d;
        else if (v.kind == CR_IV_COMPLEX)
            out->d[0] = v.c.re, out->d[1] = v.c.im;
        else
            out->i = v.i;
        return 1;
    }
    if (done < 0)
        return -1;
    done = cr_py_device_from(x, &kind, &index);
    return done > 0 ? script_constant_device(x, out) : done;
}

/* (kind, payload) of the frontend's answer; None: the name is unknown. */
static cr_status script_answer(PyObject *answer, cr_sname *out)
{
    static const char *const kinds[] = {"none",     "constant", "operator", "special",
                                        "function", "class",    "object",   "attributes",
                                        "refused",  "choice",   "member"};
    const char *kind;
    PyObject *payload;
    int done = 1;

    if (!answer)
        return CR_PYTHON;
    if (answer == Py_None) {
        Py_DECREF(answer);
        return CR_OK;
    }
    if (!PyArg_ParseTuple(answer, "sO", &kind, &payload)) {
        Py_DECREF(answer);
        return CR_PYTHON;
    }
    for (size_t i = 0; i < CR_LEN(kinds); i++)
        if (!strcmp(kinds[i], kind))
            out->kind = (uint8_t)i;
    if (out->kind == CR_SNAME_CONSTANT)
        done = script_constant(payload, &out->value);
    else if (out->kind == CR_SNAME_OBJECT || out->kind == CR_SNAME_CHOICE)
        out->handle = PyLong_AsLongLong(payload);
    else if (Py_TYPE(payload) == &script_function_type)
        out->function = script_function_of(payload);
    else
        done = (out->name = script_session_text(payload, NULL)) ? 1 : -1;
    if (!done)
        PyErr_Format(PyExc_RuntimeError, "python value of type '%s' cannot be used as a value",
                     Py_TYPE(payload)->tp_name);
    Py_DECREF(answer);
    return done > 0 ? CR_OK : CR_PYTHON;
}

static cr_status script_env_name(const char *function, const char *name, cr_sname *out)
{
    return script_answer(PyObject_CallMethod(script_frontend, "_on_name", "ss", function, name),
                         out);
}

static cr_status script_env_attribute(int64_t handle, const char *name, cr_sname *out)
{
    return script_answer(
        PyObject_CallMethod(script_frontend, "_on_attribute", "Ls", (long long)handle, name),
        out);
}

static cr_status script_env_call(int64_t handle, int count, cr_sname *out)
{
    return script_answer(
        PyObject_CallMethod(script_frontend, "_on_call", "Li", (long long)handle, count), out);
}

static cr_status script_env_member(const char *cls, const char *name, cr_sname *out)
{
    return script_answer(PyObject_CallMethod(script_frontend, "_on_member", "ss", cls, name),
                         out);
}

static cr_status script_env_value(const char *function, const char *text, cr_sname *out)
{
    return script_answer(
        PyObject_CallMethod(script_frontend, "_on_value", "ss", function, text), out);
}

static cr_status script_env_type(const char *function, const char *text, char **out)
{
    PyObject *answer = PyObject_CallMethod(script_frontend, "_on_type", "ss", function, text);

    if (!answer)
        return CR_PYTHON;
    *out = answer == Py_None ? NULL : script_session_text(answer, NULL);
    bool failed = answer != Py_None && !*out;
    Py_DECREF(answer);
    return failed ? CR_PYTHON : CR_OK;
}

static cr_status script_env_refuse(const char *kind, const char *text)
{
    PyObject *made = PyObject_CallMethod(script_frontend, "_on_refuse", "ss", kind, text);

    Py_XDECREF(made);
    return CR_PYTHON;
}

static const cr_senv script_env = {.name = script_env_name,
                                   .attribute = script_env_attribute,
                                   .call = script_env_call,
                                   .member = script_env_member,
                                   .value = script_env_value,
                                   .refuse = script_env_refuse,
                                   .type = script_env_type};

static bool script_begin_unit(void)
{
    cr_sunit *unit = cr_sunit_new();

    if (!unit)
        return PyErr_NoMemory(), false;
    cr_sunit_set_env(unit, &script_env);
    script_unit = unit;
    return true;
}

static bool script_start(void)
{
    if (script_unit)
        return true;
    script_frontend = cr_py_import("jit._frontend");
    return script_frontend && script_begin_unit();
}

/* _script_begin(): names are free again.  Functions and objects of the unit before, which is
 * not freed, stay as they are. */
static PyObject *script_begin(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (!script_start() || !script_begin_unit())
        return NULL;
    Py_RETURN_NONE;
}

/* --- compiled functions --- */

static PyObject *script_wrap_function(cr_sfunction *f)
{
    script_function *made = PyObject_GC_New(script_function, &script_function_type);

    if (made) {
        made->function = f;
        made->weak = made->dict = NULL;
        PyObject_GC_Track(made);
    }
    return (PyObject *)made;
}

static void script_function_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    if (((script_function *)self)->weak)
        PyObject_ClearWeakRefs(self);
    Py_CLEAR(((script_function *)self)->dict);
    PyObject_GC_Del(self);
}

static int script_function_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((script_function *)self)->dict);
    return 0;
}

static int script_function_clear(PyObject *self)
{
    Py_CLEAR(((script_function *)self)->dict);
    return 0;
}

static PyObject *script_function_reduce(PyObject *self, PyObject *unused)
{
    PyObject *pickle = PyImport_ImportModule("pickle"), *error;

    (void)self;
    (void)unused;
    error = pickle ? PyObject_GetAttrString(pickle, "PickleError") : NULL;
    if (error)
        PyErr_SetString(error, "ScriptFunction cannot be pickled");
    Py_XDECREF(error);
    Py_XDECREF(pickle);
    return NULL;
}

static PyObject *script_function_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *made = script_call_bound(NULL, script_function_of(self), args, kwargs);

    if (!made || !cr_py_trace_call)
        return made;
    PyObject *named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    PyObject *noted =
        named ? PyObject_CallFunctionObjArgs(cr_py_trace_call, self, args, named, made, NULL)
              : NULL;
    Py_XDECREF(named);
    if (!noted)
        Py_CLEAR(made);
    Py_XDECREF(noted);
    return made;
}

static PyObject *script_function_code(PyObject *self, void *closure)
{
    cr_text text = {0};

    (void)closure;
    return cr_py_text(&text, cr_scode_function(&text, script_function_of(self), NULL));
}

static PyObject *script_function_graph_after(PyObject *self, PyObject *passes)
{
    const char *names = PyUnicode_AsUTF8(passes);
    cr_text text = {0};

    return names ? cr_py_text(&text,
                              cr_sfunction_print_after(&text, script_function_of(self), names))
                 : NULL;
}

static PyObject *script_function_graph(PyObject *self, void *closure)
{
    (void)closure;
    return script_ask("graph_of", "(Os)", self, "");
}

static PyObject *script_function_inlined(PyObject *self, void *closure)
{
    (void)closure;
    return script_ask("graph_of", "(Os)", self, "inline");
}

static PyObject *script_function_graph_for(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    return script_ask("graph_of", "(Os)", self, "inline wrapped prepare");
}

static PyObject *script_function_programs(PyObject *self, PyObject *unused)
{
    cr_text text = {0};

    (void)unused;
    return cr_py_text(&text, cr_scripted_print(&text, script_function_of(self)));
}

/* The function in a module of jit._objects, whose method saves it. */
static PyObject *script_function_save(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *module = script_ask("module_of", "(O)", self);
    PyObject *save = module ? PyObject_GetAttrString(module, "save") : NULL;
    PyObject *made = save ? PyObject_Call(save, args, kwargs) : NULL;

    Py_XDECREF(save);
    Py_XDECREF(module);
    return made;
}

static PyObject *script_function_save_to_buffer(PyObject *self, PyObject *args,
                                                PyObject *kwargs)
{
    PyObject *module = script_ask("module_of", "(O)", self);
    PyObject *save = module ? PyObject_GetAttrString(module, "save_to_buffer") : NULL;
    PyObject *made = save ? PyObject_Call(save, args, kwargs) : NULL;

    Py_XDECREF(save);
    Py_XDECREF(module);
    return made;
}

static PyMethodDef script_function_methods[] = {
    {"graph_after", script_function_graph_after, METH_O, "The text of the graph after passes."},
    {"graph_for", (PyCFunction)(void (*)(void))script_function_graph_for,
     METH_VARARGS | METH_KEYWORDS,
     "The graph without calls, after the passes of the executor."},
    {"_programs", script_function_programs, METH_NOARGS,
     "The programs of calls with equal arguments: times beside the steps, and graphs with "
     "groups."},
    {"save", (PyCFunction)(void (*)(void))script_function_save, METH_VARARGS | METH_KEYWORDS,
     "Writes an archive with a module whose `forward` calls the function."},
    {"save_to_buffer", (PyCFunction)(void (*)(void))script_function_save_to_buffer,
     METH_VARARGS | METH_KEYWORDS, "The bytes of that archive."},
    {"__reduce__", script_function_reduce, METH_NOARGS, "Raises: it cannot be pickled."},
    {NULL, NULL, 0, NULL}};

static PyObject *script_function_schema(PyObject *self, void *closure)
{
    (void)closure;
    return script_schema_object(&script_function_of(self)->schema);
}

static PyObject *script_function_name(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(script_function_of(self)->name);
}

static PyObject *script_function_qualified(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(script_function_of(self)->qualified);
}

static PyObject *script_function_kind(PyObject *self, void *text)
{
    (void)self;
    return PyUnicode_FromString(text);
}

static PyGetSetDef script_function_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__name__", script_function_kind, NULL, "As in torch, that of the type.",
     "ScriptFunction"},
    {"__qualname__", script_function_kind, NULL, "As in torch, that of the type.",
     "torch.jit.ScriptFunction"},
    {"code", script_function_code, NULL, "The function's source text.", NULL},
    {"graph", script_function_graph, NULL, "The function's graph.", NULL},
    {"inlined_graph", script_function_inlined, NULL, "The graph without calls.", NULL},
    {"schema", script_function_schema, NULL, "The declaration with types.", NULL},
    {"name", script_function_name, NULL, "The function's name.", NULL},
    {"qualified_name", script_function_qualified, NULL, "The qualified name.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject script_function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "jit.ScriptFunction",
    .tp_basicsize = sizeof(script_function),
    .tp_dealloc = script_function_dealloc,
    .tp_weaklistoffset = offsetof(script_function, weak),
    .tp_dictoffset = offsetof(script_function, dict),
    .tp_traverse = script_function_traverse,
    .tp_clear = script_function_clear,
    .tp_getattro = PyObject_GenericGetAttr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_call = script_function_call,
    .tp_methods = script_function_methods,
    .tp_getset = script_function_getset};

/* --- functions of Python that programs call --- */

static PyObject *script_call_caller(const cr_sfunction *f, const cr_ivalue *args, int count)
{
    PyObject *tuple = PyTuple_New(count), *made = NULL;

    for (int i = 0; tuple && i < count; i++)
        cr_py_put_item(&tuple, i, script_to_python(&args[i]));
    if (tuple)
        made = PyObject_Call(f->caller, tuple, NULL);
    Py_XDECREF(tuple);
    return made;
}

/* What a Python function returned is not of its declared type. */
static cr_status script_refuse_result(const cr_stype *type, PyObject *x)
{
    PyObject *why = script_cast_text(type, x), *text = NULL;
    cr_status st = CR_PYTHON;

    if (why)
        text = PyUnicode_FromFormat(" expected value of type %s for return value but instead "
                                    "got value of type %s.\nValue: %R\n%U",
                                    cr_stype_annotation(type), Py_TYPE(x)->tp_name, x, why);
    if (text)
        st = cr_fail(CR_RUNTIME, "%s", PyUnicode_AsUTF8(text));
    Py_XDECREF(text);
    Py_XDECREF(why);
    return st;
}

/* An exception of a Python function becomes an error of the program, as in torch; those that
 * end Python stay. */
static cr_status script_call_failed(void)
{
    PyObject *type, *error, *trace, *text;
    cr_status st = CR_PYTHON;

    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError))
        return st;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace)
        PyException_SetTraceback(error, trace);
    text = script_ask("error_text", "(O)", error);
    if (text && PyUnicode_AsUTF8(text))
        st = cr_fail(CR_RUNTIME, "%s", PyUnicode_AsUTF8(text));
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return st;
}

static cr_status script_call_out(const cr_sfunction *f, const cr_ivalue *args, int count,
                                 cr_ivalue *out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *x = script_call_caller(f, args, count);
    const cr_stype *type = f->schema.result->type;
    int done = x ? script_from_python(x, type, out) : -1;

    cr_status st = done > 0 ? CR_OK
                   : !x     ? script_call_failed()
                   : done   ? CR_PYTHON
                            : script_refuse_result(type, x);
    Py_XDECREF(x);
    PyGILState_Release(state);
    return st;
}

/* What programs print goes to sys.stdout, which may be another file than C's. */
static cr_status script_print(const char *text, size_t len)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *file = PySys_GetObject("stdout"), *s = NULL, *done = NULL;
    bool open = file && file != Py_None;

    Py_XINCREF(file);
    s = open ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace") : NULL;
    done = s ? PyObject_CallMethod(file, "write", "O", s) : NULL;
    cr_status st = !open || done ? CR_OK : CR_PYTHON;
    Py_XDECREF(done);
    Py_XDECREF(s);
    Py_XDECREF(file);
    PyGILState_Release(state);
    return st;
}

/* _script_call_python(qualified, callable): the function, which is defined, is that of Python;
 * None: calls raise. */
static PyObject *script_call_python(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *callable;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO", &name, &callable) || !script_start())
        return NULL;
    cr_sfunction *f = cr_sunit_function(script_unit, name);
    if (!f || !f->schema.result_count)
        return PyErr_Format(PyExc_RuntimeError, "'%s' has no declared result", name);
    f->ast = NULL;
    f->dropped = callable == Py_None;
    f->caller = f->dropped ? NULL : Py_NewRef(callable); /* the unit is never freed */
    Py_RETURN_NONE;
}

static cr_sclass *script_class_named(const char *name)
{
    cr_sclass *cls = cr_sunit_class(script_unit, name);

    if (!cls)
        PyErr_Format(PyExc_RuntimeError, "class '%s' is not defined", name);
    return cls;
}

/* _script_define(qualified, owner or None, text, file, line, indent) */
static PyObject *script_define(PyObject *module, PyObject *args)
{
    const char *qualified, *owner, *text, *file;
    int line, indent;
    cr_sfunction *f;

    (void)module;
    if (!PyArg_ParseTuple(args, "szszii", &qualified, &owner, &text, &file, &line, &indent) ||
        !script_start())
        return NULL;
    cr_sclass *cls = owner ? script_class_named(owner) : NULL;
    if (owner && !cls)
        return NULL;
    cr_ssource source = {.name = file,
                         .text = text,
                         .len = strlen(text),
                         .first_line = line,
                         .indent = indent,
                         .python = file != NULL};
    return cr_py_done(cr_sunit_define(script_unit, qualified, cls, &source, &f));
}

/* _script_declare(qualified): the function is a declaration: it has no body, and a result. */
static PyObject *script_declare(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    cr_sfunction *f = name && script_start() ? cr_sunit_function(script_unit, name) : NULL;

    (void)module;
    if (!f)
        return PyErr_Format(PyExc_RuntimeError, "function '%s' is not defined", name);
    return cr_py_done(cr_sunit_declare(script_unit, f));
}

/* _script_overload(qualified, next): calls of the first function try the next one, too. */
static PyObject *script_overload(PyObject *module, PyObject *args)
{
    const char *name, *next;

    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &name, &next) || !script_start())
        return NULL;
    cr_sfunction *f = cr_sunit_function(script_unit, name);
    cr_sfunction *other = cr_sunit_function(script_unit, next);
    if (!f || !other)
        return PyErr_Format(PyExc_RuntimeError, "function '%s' is not defined",
                            f ? next : name);
    f->next = other;
    Py_RETURN_NONE;
}

/* _script_compile(qualified): the compiled function. */
static PyObject *script_compile(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);

    (void)module;
    if (!name || !script_start())
        return NULL;
    cr_sfunction *f = cr_sunit_function(script_unit, name);
    if (!f)
        return PyErr_Format(PyExc_RuntimeError, "function '%s' is not defined", name);
    cr_status st = cr_sunit_compile(script_unit, f);
    return st ? cr_py_raise(st) : script_wrap_function(f);
}

/* _script_type_seen(tensor): the type that the graph of a trace shows for it, and a number that
 * tensors with the same memory share; 0 where other storages have it, too. */
static PyObject *script_type_seen(PyObject *module, PyObject *arg)
{
    cr_text text = {0};

    (void)module;
    if (!cr_py_is_tensor(arg))
        return PyErr_Format(PyExc_TypeError, "expected a tensor, got %s",
                            Py_TYPE(arg)->tp_name);
    const cr_tensor *t = cr_py_tensor_of(arg);
    cr_stype_print_of(&text, t);
    PyObject *type = cr_py_text(&text, CR_OK);
    const cr_storage *own =
        t->storage && !t->storage->aliases && !t->storage->release ? t->storage : NULL;
    return type ? Py_BuildValue("(NK)", type, (unsigned long long)(uintptr_t)own) : NULL;
}

/* A line's types: texts that the tuple `types` owns, None where a type is not known. */
static int script_seen_line(cr_straced_line *out, PyObject *types)
{
    Py_ssize_t n = PyTuple_Check(types) ? PyTuple_GET_SIZE(types) : 0;

    *out = (cr_straced_line){(int)n, PyMem_Calloc((size_t)n + 1, sizeof *out->type)};
    if (!out->type)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *text = PyTuple_GET_ITEM(types, i);
        if (text != Py_None && !(out->type[i] = PyUnicode_AsUTF8(text)))
            return -1;
    }
    return 0;
}

/* _script_note_trace(qualified, scope or None, lines): what a trace saw of a compiled function:
 * tuples of types, of the parameters and of each line behind `def`. */
static PyObject *script_note_trace(PyObject *module, PyObject *args)
{
    const char *name, *scope;
    PyObject *lines, *made = NULL;
    int done = 0;

    (void)module;
    if (!PyArg_ParseTuple(args, "szO!", &name, &scope, &PyList_Type, &lines) || !script_start())
        return NULL;
    cr_sfunction *f = cr_sunit_function(script_unit, name);
    if (!f)
        return PyErr_Format(PyExc_RuntimeError, "function '%s' is not defined", name);
    cr_straced seen = {.scope = scope, .count = (int)PyList_GET_SIZE(lines)};
    seen.line = PyMem_Calloc((size_t)seen.count + 1, sizeof *seen.line);
    if (!seen.line)
        return PyErr_NoMemory();
    for (; done < seen.count; done++)
        if (script_seen_line(&seen.line[done], PyList_GET_ITEM(lines, done)) < 0)
            break;
    if (done == seen.count)
        made = cr_py_done(cr_sfunction_note_trace(f, &seen));
    for (int i = 0; i < seen.count; i++)
        PyMem_Free(seen.line[i].type);
    PyMem_Free(seen.line);
    return made;
}

/* _script_of_graph(qualified, text): a function that runs the graph. */
static PyObject *script_of_graph(PyObject *module, PyObject *args)
{
    const char *name, *text;
    cr_sfunction *f;

    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &name, &text) || !script_start())
        return NULL;
    cr_status st = cr_sunit_define_graph(script_unit, name, text, &f);
    return st ? cr_py_raise(st) : script_wrap_function(f);
}

/* _script_define_as(method, function): the method gets the function's graph. */
static PyObject *script_define_as(PyObject *module, PyObject *args)
{
    const char *method, *name;

    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &method, &name) || !script_start())
        return NULL;
    cr_sfunction *m = cr_sunit_function(script_unit, method);
    const cr_sfunction *f = cr_sunit_function(script_unit, name);
    if (!m || !f || !m->graph || !f->graph)
        return PyErr_Format(PyExc_RuntimeError, "'%s' or '%s' is not compiled", method, name);
    cr_status st = cr_sunit_define_as(script_unit, m, f);
    return st ? cr_py_raise(st) : Py_NewRef(Py_None);
}

/* The annotation of a parameter in source text. */
static const char *script_annotation_of(const cr_sparam *p)
{
    return cr_stype_in_source(p->type);
}

/* (name, annotation, text of the default or None) */
static PyObject *script_param_row(const cr_sparam *p)
{
    PyObject *made;
    cr_text text = {0};

    if (p->preset)
        cr_sconstant_print(&text, p->preset);
    made = Py_BuildValue("(ssz)", p->name, script_annotation_of(p),
                         p->preset ? cr_text_str(&text) : NULL);
    cr_text_drop(&text);
    return made;
}

/* _script_params(qualified): rows of the parameters of a function. */
static PyObject *script_params(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    cr_sfunction *f = name && script_start() ? cr_sunit_function(script_unit, name) : NULL;
    PyObject *made = f ? PyList_New(0) : NULL;

    (void)module;
    if (!f && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "function '%s' is not defined", name);
    for (int i = 0; made && i < f->schema.param_count; i++)
        cr_py_append(&made, script_param_row(&f->schema.param[i]));
    return made;
}

/* _script_result(qualified): the annotation of a function's result. */
static PyObject *script_result(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    cr_sfunction *f = name && script_start() ? cr_sunit_function(script_unit, name) : NULL;

    (void)module;
    if (!f && !PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "function '%s' is not defined", name);
    return f ? PyUnicode_FromString(cr_stype_in_source(f->schema.result->type)) : NULL;
}

/* (name, annotation, fixed length of a list, may be given by position, has a default that is
 * not None) of each parameter. */
static PyObject *script_parameters_of(const cr_sschema *s)
{
    PyObject *list = PyList_New(0);

    for (int i = 0; list && i < s->param_count; i++) {
        const cr_sparam *p = &s->param[i];
        bool preset = p->preset && p->preset->type->kind != CR_STYPE_NONE;
        cr_py_append(&list,
                     Py_BuildValue("(ssiNN)", p->name, script_annotation_of(p), p->fixed,
                                   PyBool_FromLong(!p->keyword_only), PyBool_FromLong(preset)));
    }
    return list;
}

/* _script_parameters("aten::add"): the parameters of each of its schemas */
static PyObject *script_parameters(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    const cr_sschemas *all;
    PyObject *list = NULL;

    (void)module;
    if (!name)
        return NULL;
    cr_status st = cr_soperators(&all, name);
    if (st)
        return cr_py_raise(st);
    list = PyList_New(0);
    for (size_t i = 0; list && i < all->len; i++)
        cr_py_append(&list, script_parameters_of(all->at[i]));
    return list;
}

/* _script_torch_name("axis"): "dim"; a name that is not NumPy's stays */
static PyObject *script_torch_name(PyObject *module, PyObject *given)
{
    const char *name = cr_py_torch_name(given);

    (void)module;
    return name ? PyUnicode_FromString(name) : Py_NewRef(given);
}

static PyObject *script_has_operator(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);
    const cr_sschemas *all;

    (void)module;
    if (!name)
        return NULL;
    cr_status st = cr_soperators(&all, name);
    return st ? cr_py_raise(st) : PyBool_FromLong(all->len > 0 || cr_slibrary_has(name));
}

/* --- classes and objects --- */

static int script_kind_of(const char *kind)
{
    return !strcmp(kind, "enum")       ? CR_STYPE_ENUM
           : !strcmp(kind, "tuple")    ? CR_STYPE_TUPLE
           : strstr(kind, "interface") ? CR_STYPE_INTERFACE
                                       : CR_STYPE_CLASS;
}

/* _script_add_class(qualified, kind): kind is module, class, tuple, enum, interface or module
 * interface. */
static PyObject *script_add_class(PyObject *module, PyObject *args)
{
    const char *qualified, *kind;

    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &qualified, &kind) || !script_start())
        return NULL;
    cr_sclass *cls =
        cr_sunit_make_class(script_unit, qualified, (cr_stype_kind)script_kind_of(kind));
    if (!cls)
        return PyErr_NoMemory();
    cls->is_module = !strncmp(kind, "module", 6);
    Py_RETURN_NONE;
}

static PyObject *script_class_attributes(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);

    (void)module;
    cr_sclass *cls = name && script_start() ? script_class_named(name) : NULL;
    return cls ? script_attribute_rows(cls, NULL) : NULL;
}

/* _script_add_attribute(class, name, annotation, is a parameter, is a buffer) */
static PyObject *script_add_attribute(PyObject *module, PyObject *args)
{
    const char *owner, *name, *annotation;
    cr_sattribute a = {0};
    int parameter, buffer;

    (void)module;
    if (!PyArg_ParseTuple(args, "sszpp", &owner, &name, &annotation, &parameter, &buffer) ||
        !script_start())
        return NULL;
    cr_sclass *cls = script_class_named(owner);
    if (!cls)
        return NULL;
    a.name = name;
    a.parameter = parameter;
    a.buffer = buffer;
    cr_status st = cr_sunit_import_type(script_unit, NULL, annotation, &a.type);
    if (st)
        return cr_py_raise(st);
    cr_sclass_add_attribute(cls, a);
    Py_RETURN_NONE;
}

/* _script_add_submodule(class, name, object): an attribute of the object's class. */
static PyObject *script_add_submodule(PyObject *module, PyObject *args)
{
    const char *owner, *name;
    PyObject *object;

    (void)module;
    if (!PyArg_ParseTuple(args, "ssO!", &owner, &name, &script_object_type, &object) ||
        !script_start())
        return NULL;
    cr_sclass *cls = script_class_named(owner);
    if (!cls)
        return NULL;
    const cr_stype *type = script_of(object)->type;
    if (type->cls->unit != script_unit)
        cr_sunit_keep_unit(script_unit, type->cls->unit);
    cr_sclass_add_attribute(cls, (cr_sattribute){.name = name, .type = type});
    Py_RETURN_NONE;
}

/* _script_add_constant(class, name, value): False when the value cannot be a constant. */
static PyObject *script_add_constant(PyObject *module, PyObject *args)
{
    const char *owner, *name;
    PyObject *x;
    cr_sconstant value;

    (void)module;
    if (!PyArg_ParseTuple(args, "ssO", &owner, &name, &x) || !script_start())
        return NULL;
    cr_sclass *cls = script_class_named(owner);
    int done = cls ? script_constant(x, &value) : -1;
    if (done < 0)
        return NULL;
    if (!done)
        Py_RETURN_FALSE;
    cr_sconstant *kept = cr_arena_get(&cr_sunit_session(script_unit)->keep, sizeof *kept);
    if (!kept)
        return PyErr_NoMemory();
    *kept = value;
    if (cls->type->kind == CR_STYPE_ENUM && !cls->constants.len)
        cls->base = value.type;
    cr_sclass_add_constant(cls, name, kept);
    Py_RETURN_TRUE;
}

/* _script_add_hook(class, method, before forward) */
static PyObject *script_add_hook(PyObject *module, PyObject *args)
{
    const char *owner, *name;
    int before;

    (void)module;
    if (!PyArg_ParseTuple(args, "ssp", &owner, &name, &before) || !script_start())
        return NULL;
    cr_sclass *cls = script_class_named(owner);
    cr_sfunction *f = cls ? cr_sclass_method(cls, name) : NULL;
    if (!f)
        return PyErr_Format(PyExc_RuntimeError, "'%s' has no method '%s'", owner, name);
    cr_sclass_add_hook(cls, f, before);
    Py_RETURN_NONE;
}

static PyObject *script_finish_tuple(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);

    (void)module;
    if (!name || !script_start())
        return NULL;
    cr_sclass *cls = script_class_named(name);
    if (!cls)
        return NULL;
    return cr_py_done(cr_sclass_finish_tuple(cls));
}

static PyObject *script_enter(PyObject *module, PyObject *arg)
{
    const char *name = PyUnicode_AsUTF8(arg);

    (void)module;
    if (!name || !script_start())
        return NULL;
    return cr_py_done(cr_sunit_enter(script_unit, name));
}

static PyObject *script_leave(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    cr_sunit_leave(script_unit);
    Py_RETURN_NONE;
}

/* _script_new(class, values): an object with these attributes. */
static PyObject *script_new(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *values, *made = NULL;
    cr_ivalue v;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO!", &name, &PyDict_Type, &values) || !script_start())
        return NULL;
    cr_sclass *cls = script_class_named(name);
    if (!cls || script_make_object(cls, values, &v) < 0)
        return NULL;
    made = script_wrap(v);
    cr_ivalue_drop(v);
    return made;
}

/* --- the type of shared lists and dicts --- */

static cr_ivalue *script_items_of(PyObject *self)
{
    script_note_outside();
    return &((script_shared *)self)->value;
}

/* The value of an item from Python; -1 with a TypeError when it is of another type. */
static int script_item_from(PyObject *x, const cr_stype *type, cr_ivalue *out)
{
    int done = script_from_python(x, type, out);

    if (!done)
        PyErr_Format(PyExc_TypeError, "Unable to cast %R to %s", (PyObject *)Py_TYPE(x),
                     cr_stype_annotation(type));
    return done > 0 ? 0 : -1;
}

/* _script_share(value): the list or dict, copied, with the type of its items. */
static PyObject *script_share(PyObject *module, PyObject *x)
{
    const cr_stype *type = NULL;
    cr_ivalue v;

    (void)module;
    const cr_stype *pair[] = {CR_STYPE_OF(STR), CR_STYPE_OF(TENSOR)};
    bool dict = PyDict_Check(x),
         empty = !dict ? PyList_Check(x) && !PyList_GET_SIZE(x) : !PyDict_GET_SIZE(x);
    int done = !empty ? script_infer(x, &type)
               : dict ? script_type_of(CR_STYPE_DICT, 2, pair, &type)
                      : script_type_of(CR_STYPE_LIST, 1, pair + 1, &type);
    done = done > 0 ? script_from_python(x, type, &v) : done;
    if (done < 0)
        return NULL;
    if (!done || (v.kind != CR_IV_LIST && v.kind != CR_IV_DICT))
        return PyErr_Format(PyExc_RuntimeError, "the items of %R have no common type", x);
    script_shared *made = PyObject_New(script_shared, &script_items_type);
    if (!made)
        return cr_ivalue_drop(v), NULL;
    made->value = v;
    return (PyObject *)made;
}

static void script_items_dealloc(PyObject *self)
{
    cr_ivalue_drop(((script_shared *)self)->value);
    PyObject_Free(self);
}

static Py_ssize_t script_items_len(PyObject *self)
{
    const cr_ivalue *v = script_items_of(self);

    return (Py_ssize_t)(v->kind == CR_IV_LIST ? v->list->len : v->dict->len);
}

/* The item of a list by its place, or of a dict by its key; NULL with an exception. */
static cr_ivalue *script_item_at(const cr_ivalue *v, PyObject *at)
{
    cr_ivalue key, *found;

    if (v->kind == CR_IV_DICT) {
        if (script_item_from(at, v->dict->type->item[0], &key) < 0)
            return NULL;
        found = cr_idict_find(v->dict, &key);
        cr_ivalue_drop(key);
        if (!found)
            PyErr_SetObject(PyExc_KeyError, at);
        return found;
    }
    Py_ssize_t i = PyNumber_AsSsize_t(at, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    if (i < 0 || (size_t)i >= v->list->len)
        return PyErr_SetString(PyExc_IndexError, "list index out of range"), NULL;
    return &v->list->at[i];
}

static PyObject *script_items_get(PyObject *self, PyObject *at)
{
    const cr_ivalue *found = script_item_at(script_items_of(self), at);

    return found ? script_kept_to_python(found) : NULL;
}

static int script_items_set_key(cr_idict *d, PyObject *at, PyObject *x)
{
    cr_ivalue key, value;

    if (script_item_from(at, d->type->item[0], &key) < 0)
        return -1;
    if (script_item_from(x, d->type->item[1], &value) < 0)
        return cr_ivalue_drop(key), -1;
    return script_status(cr_idict_set(d, key, value)) < 0 ? -1 : 0;
}

static int script_items_delete(cr_ivalue *v, PyObject *at)
{
    cr_ivalue key, *found = script_item_at(v, at);
    cr_iitem taken;

    if (!found)
        return -1;
    if (v->kind == CR_IV_LIST) {
        cr_ivalue_drop(cr_ilist_take(v->list, (size_t)(found - v->list->at)));
        return 0;
    }
    if (script_item_from(at, v->dict->type->item[0], &key) < 0)
        return -1;
    if (cr_idict_take(v->dict, &key, &taken)) {
        cr_ivalue_drop(taken.key);
        cr_ivalue_drop(taken.value);
    }
    cr_ivalue_drop(key);
    return 0;
}

static int script_items_set(PyObject *self, PyObject *at, PyObject *x)
{
    cr_ivalue *v = script_items_of(self), made;

    if (!x)
        return script_items_delete(v, at);
    if (v->kind == CR_IV_DICT)
        return script_items_set_key(v->dict, at, x);
    if (script_item_from(x, v->list->type->item[0], &made) < 0)
        return -1;
    cr_ivalue *found = script_item_at(v, at);
    if (!found)
        return cr_ivalue_drop(made), -1;
    cr_ilist_set(v->list, (size_t)(found - v->list->at), made);
    return 0;
}

/* insert(place, value) of a list */
static PyObject *script_items_insert(PyObject *self, PyObject *args)
{
    cr_ivalue *v = script_items_of(self), made;
    Py_ssize_t at;
    PyObject *x;

    if (!PyArg_ParseTuple(args, "nO", &at, &x) ||
        script_item_from(x, v->list->type->item[0], &made) < 0)
        return NULL;
    size_t place = at < 0 ? 0 : (size_t)at > v->list->len ? v->list->len : (size_t)at;
    return cr_py_done(cr_ilist_insert(v->list, place, made));
}

/* Whether a list has an item, or a dict a key; TypeError for values of another type. */
static int script_items_has(PyObject *self, PyObject *x)
{
    const cr_ivalue *v = script_items_of(self);
    cr_ivalue key;
    int found = 0;

    const cr_stype *type = v->kind == CR_IV_LIST ? v->list->type : v->dict->type;
    if (script_item_from(x, type->item[0], &key) < 0)
        return -1;
    if (v->kind == CR_IV_DICT)
        found = cr_idict_find(v->dict, &key) != NULL;
    for (size_t i = 0; v->kind == CR_IV_LIST && i < v->list->len && !found; i++)
        found = cr_ivalue_equal(&v->list->at[i], &key);
    cr_ivalue_drop(key);
    return found;
}

static PyObject *script_items_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return script_to_python(script_items_of(self));
}

static PyMethodDef script_items_methods[] = {
    {"insert", script_items_insert, METH_VARARGS, "Inserts an item into a list."},
    {"copy", script_items_copy, METH_NOARGS, "A list or dict of Python with the items."},
    {NULL, NULL, 0, NULL}};
static PyMappingMethods script_items_mapping = {script_items_len, script_items_get,
                                                script_items_set};
static PySequenceMethods script_items_sequence = {.sq_contains = script_items_has};
static PyTypeObject script_items_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "_C._ScriptItems",
    .tp_basicsize = sizeof(script_shared),
    .tp_dealloc = script_items_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_as_mapping = &script_items_mapping,
    .tp_as_sequence = &script_items_sequence,
    .tp_methods = script_items_methods};

/* --- archives --- */

static PyObject *script_extras(const cr_sextras *e)
{
    PyObject *made = PyDict_New();

    for (size_t i = 0; made && i < e->len; i++)
        cr_py_put_named(&made, e->at[i].name,
                        PyBytes_FromStringAndSize(e->at[i].bytes, (Py_ssize_t)e->at[i].len));
    return made;
}

/* _script_graph_after(text, passes): the text of the graph after the passes. */
static PyObject *script_text_after(PyObject *module, PyObject *args)
{
    const char *graph, *passes;
    cr_text text = {0};

    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &graph, &passes))
        return NULL;
    return cr_py_text(&text, cr_sgraph_print_after(&text, graph, passes));
}

/* _script_load(file): (object, extra records). */
static PyObject *script_load(PyObject *module, PyObject *file)
{
    cr_sextras extra = {0};
    cr_ivalue v;
    cr_status st;

    (void)module;
    cr_source *source = cr_py_source_of(file, 0, false);
    if (!source)
        return NULL;
    CR_PY_UNLOCKED(st = cr_sarchive_read(&v, source, &extra));
    cr_source_drop(source);
    PyObject *object = st ? cr_py_raise(st) : script_wrap(v), *records = NULL, *made = NULL;
    if (!st)
        cr_ivalue_drop(v);
    if (object)
        records = script_extras(&extra);
    if (records)
        made = PyTuple_Pack(2, object, records);
    Py_XDECREF(object);
    Py_XDECREF(records);
    cr_sextras_drop(&extra);
    return made;
}

/* _script_programs(mode) -> the mode before: 0 off, 1 measured, 2 always */
static PyObject *script_programs_mode(PyObject *m, PyObject *mode)
{
    long n = PyLong_AsLong(mode);

    (void)m;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    if (n < CR_SCRIPTED_OFF || n > CR_SCRIPTED_ALWAYS)
        return PyErr_Format(PyExc_ValueError, "a mode is 0, 1 or 2, not %ld", n);
    return PyLong_FromLong(cr_scripted_set_mode((int)n));
}

/* _script_programs_here(mode) -> the thread's mode before; -1 is that of all threads */
static PyObject *script_programs_here(PyObject *m, PyObject *mode)
{
    long n = PyLong_AsLong(mode);

    (void)m;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    if (n < CR_SCRIPTED_SHARED || n > CR_SCRIPTED_ALWAYS)
        return PyErr_Format(PyExc_ValueError, "a thread's mode is -1, 0, 1 or 2, not %ld", n);
    return PyLong_FromLong(cr_scripted_set_mode_here((int)n));
}

static PyMethodDef script_functions[] = {
    {"_script_programs", script_programs_mode, METH_O,
     "Whether equal calls of TorchScript run programs: 0 never, 1 where these are faster, 2 "
     "always; "
     "returns the mode before."},
    {"_script_programs_here", script_programs_here, METH_O,
     "The same for calls of this thread; -1 is what _script_programs says."},
    {"_script_graph_after", script_text_after, METH_VARARGS, "A graph's text after passes."},
    {"_script_load", script_load, METH_O, "Reads a TorchScript archive."},
    {"_set_trace_hooks", cr_py_set_trace_hooks, METH_VARARGS, "Sets what a trace is told."},
    {"_script_define", script_define, METH_VARARGS, "Defines a function or a method."},
    {"_script_declare", script_declare, METH_O, "Makes a function a declaration."},
    {"_script_overload", script_overload, METH_VARARGS, "Adds an overload of a function."},
    {"_script_compile", script_compile, METH_O, "Compiles a function."},
    {"_script_type_seen", script_type_seen, METH_O, "The type of a tensor in a trace."},
    {"_script_note_trace", script_note_trace, METH_VARARGS, "Notes types that a trace saw."},
    {"_script_params", script_params, METH_O, "Parameters of a function."},
    {"_script_result", script_result, METH_O, "The annotation of a function's result."},
    {"_script_parameters", script_parameters, METH_O, "Parameters of an operator's schemas."},
    {"_script_torch_name", script_torch_name, METH_O, "torch's name of a parameter."},
    {"_script_has_operator", script_has_operator, METH_O, "Whether programs have an operator."},
    {"_script_add_class", script_add_class, METH_VARARGS, "Adds a class to the programs."},
    {"_script_add_attribute", script_add_attribute, METH_VARARGS, "Adds an attribute."},
    {"_script_add_submodule", script_add_submodule, METH_VARARGS, "Adds a module inside."},
    {"_script_add_constant", script_add_constant, METH_VARARGS, "Adds a constant of a class."},
    {"_script_class_attributes", script_class_attributes, METH_O, "Attributes of a class."},
    {"_script_add_hook", script_add_hook, METH_VARARGS, "Makes a method a hook."},
    {"_script_define_as", script_define_as, METH_VARARGS, "Gives a method a function's graph."},
    {"_script_of_graph", script_of_graph, METH_VARARGS,
     "_script_of_graph(qualified, text): a function that runs the graph."},
    {"_script_call_python", script_call_python, METH_VARARGS,
     "Makes a function one of Python."},
    {"_script_finish_tuple", script_finish_tuple, METH_O, "Makes the type of a named tuple."},
    {"_script_begin", script_begin, METH_NOARGS, "Begins a unit in which no name is taken."},
    {"_script_enter", script_enter, METH_O, "Begins the compilation of a class."},
    {"_script_leave", script_leave, METH_NOARGS, "Ends it."},
    {"_script_share", script_share, METH_O, "A list or dict that programs change."},
    {"_script_new", script_new, METH_VARARGS, "Makes an object."},
    {NULL, NULL, 0, NULL}};

int cr_py_script_start(PyObject *m)
{
    if (cr_py_add_type(m, "ScriptObject", &script_object_type) < 0 ||
        cr_py_add_type(m, "_ScriptItems", &script_items_type) < 0 ||
        cr_py_add_type(m, "_ScriptFunction", &script_function_type) < 0)
        return -1;
    cr_script_poll = script_poll;
    cr_script_call_out = script_call_out;
    cr_script_print = script_print;
    return PyModule_AddFunctions(m, script_functions);
}
