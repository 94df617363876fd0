/* shadow.h - what code in the observed frames looks up and calls, and which objects it meets.
 *
 * The shadow follows the observed frames.  It has the object of every local and every entry of
 * the value stack.  Before every instruction it compares what it expects on the value stack
 * with what is there.  A difference shows that the shadow's model of an instruction is wrong;
 * it does not change a result of the program.
 *
 * The shadow borrows the program's objects and compares their addresses.  It keeps none alive,
 * except names and code objects. */
#ifndef CR_FRAME_SHADOW_H
#define CR_FRAME_SHADOW_H

#include "frame/observe.h"

typedef struct cr_shadow cr_shadow;

/* A function in C that the program called, once for each function and file of the program. */
typedef struct {
    /* 'f' function: `object` is its name, `owner` its module or the type of the object it is
     * bound to; 'd' descriptor of a type, 't' type: `object`; 'o' another callable, or an
     * object that becomes text: `object` is its type; 'i' an import: `object` is (name, level,
     * package of the code) */
    char kind;
    PyObject *object, *owner;
    PyCodeObject *code; /* the first call is instruction `at` of `code` */
    int at;
} cr_call_seen;

/* Makes a shadow; NULL with an exception.  With log = 0 nothing is logged. */
cr_shadow *cr_shadow_new(int log);
void cr_shadow_drop(cr_shadow *s);
/* The callbacks that keep the shadow up to date. */
cr_observer cr_shadow_observer(cr_shadow *s);

/* What a shadow has seen. */
typedef struct {
    uint64_t events;      /* instructions */
    uint64_t compared;    /* entries of value stacks, with what was expected */
    uint64_t differences; /* of these */
    char first[160];      /* the first difference, or "" */
} cr_shadow_sums;
/* Valid as long as the shadow; changes with each instruction. */
const cr_shadow_sums *cr_shadow_sums_of(const cr_shadow *s);

/* The C functions that were called.  The array is valid until the next callback. */
const cr_call_seen *cr_shadow_calls(const cr_shadow *s, size_t *count);
/* Looks for objects by address; 0, or -1 without memory.  Code in the folders, a tuple of
 * paths, may read modules, types and functions in C.  Calls of the code in `opaque`, a tuple or
 * NULL, and what runs in them are not logged, and names that code of the folder `quiet`, a str
 * or NULL, looks up are not noted.  The caller keeps all these arguments alive. */
int cr_shadow_watch(cr_shadow *s, PyObject *const *object, size_t count, PyObject *folders,
                    const PyObject *opaque, PyObject *quiet);
/* -1 until one of them is in an observed frame, then its index; the instruction is in `code`
 * (borrowed) and `at`. */
int cr_shadow_watched(const cr_shadow *s, PyCodeObject **code, int *at);
/* The names by which C functions read attributes, and positions of class patterns: a set of
 * str, borrowed. */
PyObject *cr_shadow_names(const cr_shadow *s);
/* The (code object, globals) of all frames that began or continued, each pair once: a new list,
 * NULL with an exception. */
PyObject *cr_shadow_codes(const cr_shadow *s);
/* The functions, classes and modules in which the program looked up names, with these: a new
 * list of (weak reference, set of str), NULL with an exception.  A lookup in another object is
 * one in its class.  Modules have only the names that code outside the folders looked up. */
PyObject *cr_shadow_asked(const cr_shadow *s);
/* Why the call may have read attributes by other names, or NULL; the instruction, if it is
 * known, is in `code` (borrowed, or NULL) and `at`. */
const char *cr_shadow_unnamed(const cr_shadow *s, PyCodeObject **code, int *at);
/* The instruction that the innermost frame outside `folder` executes: its code, borrowed, and
 * *at; NULL when there is none. */
PyCodeObject *cr_shadow_place(const cr_shadow *s, PyObject *folder, int *at);

#endif
