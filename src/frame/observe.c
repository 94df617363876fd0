/* The observer: sys.monitoring on 3.12 and later, a trace function on 3.11. */
#include "frame/observe.h"
#include <unistd.h>

/* The observation in progress; `thread` is NULL when there is none.  The interpreter lock
 * protects it. */
static struct {
    cr_observer observer;
    PyThreadState *thread;
    pid_t process; /* of the thread */
    int tool;
} seen;

/* A fork copies the observation of a thread that the new process does not have. */
static int observe_is_of_lost_thread(void)
{
    return seen.thread && seen.thread != PyThreadState_Get() && seen.process != getpid();
}

#if PY_VERSION_HEX >= 0x030c0000

enum { FIRST_TOOL = 3, LAST_TOOL = 4 };

static int observe_is_here(void) { return seen.thread && seen.thread == PyThreadState_Get(); }

/* `call` is made with the frame `f` that runs the code args[0], if the observer is here. */
#define OBSERVE(name, call)                                                                    \
    static PyObject *observe_##name(PyObject *self, PyObject *const *args, Py_ssize_t n)       \
    {                                                                                          \
        (void)self;                                                                            \
        if (n >= 2 && observe_is_here()) {                                                     \
            const cr_live_frame *f = cr_frame_current(seen.thread);                            \
            if (f && cr_frame_code(f) == (PyCodeObject *)args[0])                              \
                seen.observer.call;                                                            \
        }                                                                                      \
        Py_RETURN_NONE;                                                                        \
    }
OBSERVE(instruction, instruction(seen.observer.context, f,
                                 (int)PyLong_AsLong(args[1]) / (int)sizeof(_Py_CODEUNIT)))
OBSERVE(enter, enter(seen.observer.context, f))
OBSERVE(leave, leave(seen.observer.context, f))

#define OBSERVE_METHOD(name, f)                                                                \
    {                                                                                          \
        name, (PyCFunction)(void (*)(void))(f), METH_FASTCALL, NULL                            \
    }
static PyMethodDef instruction_method = OBSERVE_METHOD("instruction", observe_instruction);
static PyMethodDef enter_method = OBSERVE_METHOD("enter", observe_enter);
static PyMethodDef leave_method = OBSERVE_METHOD("leave", observe_leave);

static const struct {
    const char *event;
    PyMethodDef *method;
} observe_events[] = {
    {"INSTRUCTION", &instruction_method}, {"PY_START", &enter_method},
    {"PY_RESUME", &enter_method},         {"PY_THROW", &enter_method},
    {"PY_RETURN", &leave_method},         {"PY_YIELD", &leave_method},
    {"PY_UNWIND", &leave_method},
};
enum { EVENTS = sizeof observe_events / sizeof *observe_events };

/* sys.monitoring.NAME(...); the result is dropped.  0, or -1 with an exception. */
static int observe_call(PyObject *monitoring, const char *name, const char *format, ...)
{
    va_list list;
    PyObject *method = PyObject_GetAttrString(monitoring, name), *args, *out = NULL;

    va_start(list, format);
    args = method ? Py_VaBuildValue(format, list) : NULL;
    va_end(list);
    if (args)
        out = PyObject_CallObject(method, args);
    Py_XDECREF(args);
    Py_XDECREF(method);
    Py_XDECREF(out);
    return out ? 0 : -1;
}

/* The bit of an event, -1 with an exception. */
static long observe_bit(PyObject *monitoring, const char *event)
{
    PyObject *events = PyObject_GetAttrString(monitoring, "events");
    PyObject *bit = events ? PyObject_GetAttrString(events, event) : NULL;
    long out = bit ? PyLong_AsLong(bit) : -1;

    Py_XDECREF(bit);
    Py_XDECREF(events);
    return out;
}

/* Takes a tool id.  Returns 0 when both are taken; -1 with an exception. */
static int observe_take_tool(PyObject *monitoring)
{
    for (int tool = FIRST_TOOL; tool <= LAST_TOOL; tool++) {
        if (!observe_call(monitoring, "use_tool_id", "(is)", tool, "cresset"))
            return tool;
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear();
    }
    return 0;
}

/* Registers or, with on = 0, removes the callbacks and events. */
static int observe_switch(PyObject *monitoring, int tool, int on)
{
    long all = 0;

    for (int i = 0; i < EVENTS; i++) {
        long bit = observe_bit(monitoring, observe_events[i].event);
        PyObject *f = bit < 0 ? NULL
                      : on    ? PyCFunction_New(observe_events[i].method, NULL)
                              : Py_NewRef(Py_None);
        if (!f || observe_call(monitoring, "register_callback", "(ilN)", tool, bit, f) < 0)
            return -1;
        all |= bit;
    }
    return observe_call(monitoring, "set_events", "(il)", tool, on ? all : 0L);
}

static void observe_free_tool(PyObject *monitoring, int tool)
{
    if (observe_switch(monitoring, tool, 0) < 0 ||
        observe_call(monitoring, "free_tool_id", "(i)", tool) < 0)
        PyErr_WriteUnraisable(monitoring);
}

static PyObject *observe_monitoring(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring");

    if (!monitoring)
        PyErr_SetString(PyExc_RuntimeError, "sys.monitoring is missing");
    return monitoring;
}

int cr_observe_start(const cr_observer *o)
{
    PyObject *monitoring = observe_monitoring();
    PyThreadState *thread = PyThreadState_Get();
    int tool;

    if (!monitoring)
        return -1;
    if (observe_is_of_lost_thread()) {
        seen.thread = NULL;
        observe_free_tool(monitoring, seen.tool);
    }
    if (seen.thread || thread->c_tracefunc)
        return 0;
    tool = observe_take_tool(monitoring);
    if (tool <= 0)
        return tool;
    seen.observer = *o;
    seen.tool = tool;
    seen.thread = thread;
    seen.process = getpid();
    if (!observe_switch(monitoring, tool, 1))
        return 1;
    cr_observe_stop(o->context);
    return -1;
}

int cr_observe_stop(const void *context)
{
    PyObject *type, *value, *trace, *monitoring;

    if (!observe_is_here() || seen.observer.context != context)
        return 0;
    seen.thread = NULL;
    PyErr_Fetch(&type, &value, &trace);
    monitoring = observe_monitoring();
    if (monitoring)
        observe_free_tool(monitoring, seen.tool);
    else
        PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return 1;
}

/* Whether sys.monitoring still has our tool with its events. */
int cr_observe_is_on(void)
{
    PyObject *monitoring = observe_is_here() ? observe_monitoring() : NULL;
    PyObject *events =
        monitoring ? PyObject_CallMethod(monitoring, "get_events", "i", seen.tool) : NULL;
    long all = events ? PyLong_AsLong(events) : 0,
         bit = events ? observe_bit(monitoring, "INSTRUCTION") : 0;

    Py_XDECREF(events);
    PyErr_Clear();
    return bit > 0 && (all & bit);
}

#else

static int observe_trace(PyObject *self, PyFrameObject *frame, int event, PyObject *result)
{
    const cr_live_frame *f = cr_frame_current(seen.thread);

    (void)self;
    (void)result;
    if (event == PyTrace_CALL) {
        frame->f_trace_opcodes = 1;
        frame->f_trace_lines = 0;
        seen.observer.enter(seen.observer.context, f);
    } else if (event == PyTrace_RETURN) {
        seen.observer.leave(seen.observer.context, f);
    } else if (event == PyTrace_OPCODE) {
        seen.observer.instruction(seen.observer.context, f, _PyInterpreterFrame_LASTI(f));
    }
    return 0;
}

int cr_observe_start(const cr_observer *o)
{
    PyThreadState *thread = PyThreadState_Get();

    if ((seen.thread && !observe_is_of_lost_thread()) || thread->c_tracefunc)
        return 0;
    seen.observer = *o;
    seen.thread = thread;
    seen.process = getpid();
    PyEval_SetTrace(observe_trace, NULL);
    return 1;
}

int cr_observe_is_on(void)
{
    return seen.thread && seen.thread == PyThreadState_Get() &&
           seen.thread->c_tracefunc == observe_trace;
}

int cr_observe_stop(const void *context)
{
    PyObject *type, *value, *trace;

    if (!seen.thread || seen.thread != PyThreadState_Get() || seen.observer.context != context)
        return 0;
    PyErr_Fetch(&type, &value, &trace);
    if (cr_observe_is_on())
        PyEval_SetTrace(NULL, NULL);
    seen.thread = NULL;
    PyErr_Restore(type, value, trace);
    return 1;
}

#endif
