/* execute.h - running programs: calls of functions and methods with tagged values.
 *
 * Graphs are run without the Python lock.  Operators of the table go through cr_call, so
 * autograd records them and results have eager's bits.  Several threads may run one function at
 * once; the first call of a function prepares it. */
#ifndef CR_SCRIPT_EXECUTE_H
#define CR_SCRIPT_EXECUTE_H

#include "script/unit.h"
#include "script/value.h"

/* How to run a call. */
typedef struct {
    /* The number of nodes and iterations that the call may still run, in all functions that it
     * calls; 0: no limit.  A call that needs more fails with CR_RUNTIME. */
    uint64_t most_steps;
} cr_srun;

/* Calls a function, or a method with its object as the first argument.  Missing arguments have
 * their defaults.  `how` may be NULL.  The caller owns *out; several results are a tuple.
 * Errors have torch's text with the place in the source. */
CR_MUST cr_status cr_sfunction_run(cr_ivalue *out, cr_sfunction *f, const cr_ivalue *args,
                                   int count, const cr_srun *how);

/* The dtype of cr_dtype_number; CR_DTYPE_NONE for other numbers. */
cr_dtype cr_dtype_of_number(int64_t n);
/* The value of a constant. */
CR_MUST cr_status cr_ivalue_of_constant(cr_ivalue *out, const cr_sconstant *c);
/* "cuda:0" as a device; CR_RUNTIME for a name that is no device. */
CR_MUST cr_status cr_ivalue_device(cr_ivalue *out, const char *text);
/* The member of an enum that has this value. */
CR_MUST cr_status cr_imember_of(cr_ivalue *out, cr_sclass *cls, const cr_ivalue *value);
/* Whether isinstance(v, type) holds. */
bool cr_ivalue_is(const cr_ivalue *v, const cr_stype *type);
/* Appends the result of str(v) in a program (print.c).  CR_NOT_IMPLEMENTED: a tensor on meta,
 * or a sparse one. */
CR_MUST cr_status cr_ivalue_print(cr_text *out, const cr_ivalue *v);

/* Set by an upper room: called in loops, some times a second.  A failure ends the call with the
 * same status. */
extern cr_status (*cr_script_poll)(void);
/* Writes what programs print; an upper room may set another one than that to the C library's
 * stdout. */
extern cr_status (*cr_script_print)(const char *text, size_t len);
/* Set by an upper room: calls f->caller with the arguments.  The caller owns *out. */
extern cr_status (*cr_script_call_out)(const cr_sfunction *f, const cr_ivalue *args, int count,
                                       cr_ivalue *out);

#endif
