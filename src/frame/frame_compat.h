/* frame_compat.h - the layout of CPython's frames, 3.11 to 3.13.
 *
 * No other file includes CPython's internal headers.  CPython owns a frame and frees it when
 * the call ends; everything read here is borrowed, and valid in a callback of the observer
 * only. */
#ifndef CR_FRAME_FRAME_COMPAT_H
#define CR_FRAME_FRAME_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030e0000
#error "frames are known for CPython 3.11 to 3.13"
#endif
#ifdef Py_GIL_DISABLED
#error "free-threaded builds of CPython are not supported"
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wpedantic"
#define Py_BUILD_CORE 1
#undef _PyGC_FINALIZED
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#pragma GCC diagnostic pop

#if PY_VERSION_HEX >= 0x030c0000
#define cr_frame_new_extra PyUnstable_Eval_RequestCodeExtraIndex
#define cr_frame_get_extra(code, slot, out)                                                    \
    PyUnstable_Code_GetExtra((PyObject *)(code), slot, out)
#define cr_frame_set_extra(code, slot, x) PyUnstable_Code_SetExtra((PyObject *)(code), slot, x)
#else
#define cr_frame_new_extra                  _PyEval_RequestCodeExtraIndex
#define cr_frame_get_extra(code, slot, out) _PyCode_GetExtra((PyObject *)(code), slot, out)
#define cr_frame_set_extra(code, slot, x)   _PyCode_SetExtra((PyObject *)(code), slot, x)
#endif

typedef struct _PyInterpreterFrame cr_live_frame;

/* FOR_ITER skips this many units at its target when the loop ends: END_FOR, and 3.13's
 * POP_TOP. */
enum {
    CR_FRAME_LOOP_END = PY_VERSION_HEX >= 0x030d0000   ? 2
                        : PY_VERSION_HEX >= 0x030c0000 ? 1
                                                       : 0
};

/* The frame that the thread is running, NULL outside Python code. */
static inline cr_live_frame *cr_frame_current(const PyThreadState *thread)
{
#if PY_VERSION_HEX >= 0x030d0000
    return thread->current_frame;
#else
    return thread->cframe->current_frame;
#endif
}

static inline PyCodeObject *cr_frame_code(const cr_live_frame *f)
{
#if PY_VERSION_HEX >= 0x030d0000
    return (PyCodeObject *)f->f_executable;
#else
    return f->f_code;
#endif
}

static inline PyObject *cr_frame_globals(const cr_live_frame *f) { return f->f_globals; }

static inline PyObject *cr_frame_builtins(const cr_live_frame *f) { return f->f_builtins; }

/* Locals, cells and free variables: cr_frame_code(f)->co_nlocalsplus objects or NULLs. */
static inline PyObject *const *cr_frame_locals(const cr_live_frame *f) { return f->localsplus; }

/* The value stack: objects or NULLs.  Only the first `depth` are valid, see facts.h. */
static inline PyObject *const *cr_frame_stack(const cr_live_frame *f)
{
    return f->localsplus + cr_frame_code(f)->co_nlocalsplus;
}

/* The depth of the value stack in a callback, or -1: 3.12 and 3.13 do not store it. */
static inline int cr_frame_depth(const cr_live_frame *f)
{
#if PY_VERSION_HEX >= 0x030c0000
    (void)f;
    return -1;
#else
    return f->stacktop - cr_frame_code(f)->co_nlocalsplus;
#endif
}

/* The type's own attributes, a new reference.  The field tp_dict of a built-in type is NULL in
 * later releases of CPython 3.12. */
static inline PyObject *cr_frame_type_dict(PyTypeObject *type)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyType_GetDict(type);
#else
    return Py_XNewRef(type->tp_dict);
#endif
}

#endif
