/* The source line of a call: the line of the innermost frame outside this package.
 *
 * Every recorded call needs it, so a table caches the texts by instruction. */
#include "py/bind/compile/where.h"
#include <stdio.h>
#include <string.h>

enum { MET = 128, TEXT = 160 };

/* A cached instruction; `code` is a reference. */
typedef struct {
    PyCodeObject *code;
    int instruction;
    const char *text; /* in the session's memory; NULL: no memory */
} met;

struct cr_py_where {
    PyObject *package; /* the package's folder */
    met met[MET];
};

static const char *file_of(PyCodeObject *code)
{
    const char *name = PyUnicode_AsUTF8(code->co_filename);

    if (!name)
        PyErr_Clear();
    return name ? name : "?";
}

static bool is_inside(PyObject *package, PyCodeObject *code)
{
    int yes = PyUnicode_Check(code->co_filename)
                  ? (int)PyUnicode_Tailmatch(code->co_filename, package, 0, PY_SSIZE_T_MAX, -1)
                  : 0;

    if (yes < 0)
        PyErr_Clear();
    return yes > 0;
}

PyFrameObject *cr_py_user_frame(PyObject *package)
{
    PyFrameObject *f = PyEval_GetFrame();

    Py_XINCREF(f);
    while (f) {
        PyCodeObject *code = PyFrame_GetCode(f);
        bool inside = is_inside(package, code);
        Py_DECREF(code);
        if (!inside)
            return f;
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    return NULL;
}

static const char *where_place(cr_session *s, PyCodeObject *code, int line)
{
    const char *file = file_of(code), *slash = strrchr(file, '/');
    char text[TEXT];
    int n = snprintf(text, sizeof text, "%.140s:%d", slash ? slash + 1 : file, line);

    return cr_arena_text(&s->keep, text, (size_t)n);
}

/* Returns NULL without the interpreter lock.  A backward pass runs without it; its calls get
 * the line that started the backward. */
const char *cr_py_where_now(void *context, cr_session *s)
{
    cr_py_where *w = context;
    PyFrameObject *f;

    if (!PyGILState_Check() || !(f = cr_py_user_frame(w->package)))
        return NULL;
    PyCodeObject *code = PyFrame_GetCode(f);
    int instruction = PyFrame_GetLasti(f);
    met *m = &w->met[((uintptr_t)code / 64 + (unsigned)instruction / 2) % MET];
    if (m->code != code || m->instruction != instruction) {
        Py_XSETREF(m->code, (PyCodeObject *)Py_NewRef(code));
        m->instruction = instruction;
        m->text = where_place(s, code, PyFrame_GetLineNumber(f));
    }
    Py_DECREF(code);
    Py_DECREF(f);
    return m->text;
}

PyObject *cr_py_package_folder(void)
{
    PyObject *module = PyImport_ImportModule(cr_py_root());
    PyObject *file = module ? PyModule_GetFilenameObject(module) : NULL, *out = NULL;
    const char *text = file ? PyUnicode_AsUTF8(file) : NULL,
               *slash = text ? strrchr(text, '/') : NULL;

    if (slash)
        out = PyUnicode_FromStringAndSize(text, slash + 1 - text);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "the package has no folder");
    Py_XDECREF(file);
    Py_XDECREF(module);
    return out;
}

cr_py_where *cr_py_where_new(void)
{
    cr_py_where *w = PyMem_Calloc(1, sizeof *w);

    if (!w)
        return (cr_py_where *)PyErr_NoMemory();
    w->package = cr_py_package_folder();
    if (w->package)
        return w;
    PyMem_Free(w);
    return NULL;
}

void cr_py_where_drop(cr_py_where *w)
{
    if (!w)
        return;
    Py_XDECREF(w->package);
    for (int i = 0; i < MET; i++)
        Py_XDECREF(w->met[i].code);
    PyMem_Free(w);
}
