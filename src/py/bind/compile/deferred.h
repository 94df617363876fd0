/* deferred.h - the ways that calls of compiled functions run: deferred (tensor/defer.h), by a
 * recording's program, or plainly. */
#ifndef CR_PY_BIND_COMPILE_DEFERRED_H
#define CR_PY_BIND_COMPILE_DEFERRED_H

#include "compile/call.h"
#include "py/bind/bind.h"

/* Measurements of a function's calls with certain sizes: how long they take compiled (deferred,
 * or by a recording's program) and when the plain function runs at once, with the backward
 * passes and flushes between one call and the next. */
typedef struct {
    uint64_t of;        /* hash of the arguments' sizes, or of the program's address */
    double seconds[2];  /* by way: 0 at once, 1 compiled; 0: not measured */
    bool way;           /* the faster one */
    bool ready;         /* a program has all its native code */
    unsigned gap, next; /* the other one is tried at call `next` */
    unsigned ran;       /* calls */
} cr_py_timing;

enum { CR_PY_TIMINGS = 16 };
/* How the calls of one function are run: at once, or deferred.
 * Invariant: `now` is NULL or one of `timing`. thread, took and mark are of the last call,
 * and are valid while `open` is set. deferred <= ran. */
typedef struct {
    bool at_once;                /* calls are not deferred */
    bool failed;                 /* `flushed` raised: all are deferred, none is recorded */
    bool again;                  /* gradients are differentiated again: no program makes them */
    uint64_t number, again_seen; /* of the function, for autograd/again.h */
    bool strict;                 /* none runs at once, so that each flush is seen */
    PyObject *flushed;           /* called with the flushes inside of a call, or NULL */
    unsigned how;                /* flags of the programs (compile/how.h) */
    unsigned ran, deferred, broken;     /* calls; deferred ones; those with flushes inside */
    cr_py_timing timing[CR_PY_TIMINGS]; /* by hash */
    cr_py_timing *now;                  /* of the last call */
    bool open;                          /* the last call's time may still grow: */
    bool last;                          /* its way, */
    const void *thread;                 /* the thread that made it, */
    double took, mark;                  /* its seconds, and the thread's clock at its end */
} cr_py_deferral;

/* Calls `f`.  The slower way is tried again now and then.  Results with a history wait after
 * the call, so that a backward pass continues the trace; others have their elements. */
PyObject *cr_py_deferred_call(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                              size_t flagged, PyObject *names);

/* Runs a call that a recording serves: program(call), or plain(call), where that is faster. */
PyObject *cr_py_recorded_call(cr_py_deferral *d, const cr_compiled_call *c,
                              PyObject *(*program)(void *), PyObject *(*plain)(void *),
                              void *call);

/* Runs the plain function in place of a program: torch.compiler.is_compiling() is as there. */
PyObject *cr_py_plain_call(PyObject *f, PyObject *const *args, size_t flagged, PyObject *names);

/* The same as cr_py_deferred_call for a call that is being recorded: it is deferred in any
 * case, and not measured. */
PyObject *cr_py_watched_call(cr_py_deferral *d, PyObject *f, PyObject *const *args,
                             size_t flagged, PyObject *names);

/* Ends what an earlier call left open: the calls that wait run, and the next backward pass is
 * not deferred for that call's sake.  Does nothing inside of a region. */
CR_MUST cr_status cr_py_deferral_closes(void);

/* Whether the thread is in such a call, and in one of a function with fullgraph=True: functions
 * that it calls are parts of its graph. */
bool cr_py_in_deferred_call(void);
bool cr_py_in_strict_call(void);
/* Runs the calls that wait.  Inside of such a call the flush is one that the program wants, and
 * is reported; outside of such calls nothing runs. */
int cr_py_defer_break(PyObject *why);

/* --- flushes inside of a call (py/bind/defer.c) --- */
/* What one graph can have of a value that Python reads (py/bind/reads.def), or of the size of a
 * result that depends on values. */
typedef enum {
    CR_PY_PART_BREAK,
    CR_PY_PART_VALUE,
    CR_PY_PART_TRUTH,
    CR_PY_PART_SIZE,
    CR_PY_PART_HELD
} cr_py_part;
/* "value", "truth", "size", "held"; NULL: a break. */
const char *cr_py_part_name(cr_py_part part);
/* That of the read of which a recorder is told; a break outside of cr_py_note_read and
 * cr_py_refuse_held. */
cr_py_part cr_py_part_read(void);

typedef struct {
    PyCodeObject *code; /* of the program that needed a value; NULL: unknown */
    int at, line;       /* the instruction, and its line */
    size_t calls;
    PyObject *why;
    bool error;   /* error_on_graph_break(True) */
    bool by_call; /* a call needed elements that no size and no Python code depends on */
    cr_py_part part;
} cr_py_flush;

enum { CR_PY_FLUSHES = 8 };
typedef struct cr_py_flushes {
    struct cr_py_flushes *outer;
    int count; /* the first ones are kept: two places are for flushes that the program wanted,
                * the last of these for one that is an error */
    cr_py_flush flush[CR_PY_FLUSHES];
} cr_py_flushes;

/* Keeps the thread's flushes in `f` until the end; a flush that memory demands is not one. */
void cr_py_flushes_begin(cr_py_flushes *f);
void cr_py_flushes_end(cr_py_flushes *f);
void cr_py_flushes_drop(cr_py_flushes *f);
/* [(calls, needed value, code or None, instruction, by_call, error, name of the part)]; NULL
 * with an exception. */
PyObject *cr_py_flushes_list(const cr_py_flushes *f);

#endif
