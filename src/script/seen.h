/* seen.h - what a call of a function reads, for rooms that keep programs of calls.
 *
 * A call is *plain* when it only calls operators of the table, on its arguments, on attributes
 * that no function sets, and on constants, and when its branches, loops, numbers and containers
 * follow from these values and from sizes alone.  An equal call on tensors of the same geometry
 * then calls the same operators.  (Which operators write, or draw random numbers, is not looked
 * at here.) */
#ifndef CR_SCRIPT_SEEN_H
#define CR_SCRIPT_SEEN_H

#include "script/execute.h"

/* An attribute that was read.  Its object is argument `from`, or the value of read ~from; that
 * read comes before this one. */
typedef struct {
    int from, slot;
    uint32_t version; /* of a tensor, when it was read */
    uint64_t number;  /* of an object's class */
    cr_ivalue value;  /* tensors and objects: an address without a reference; else owned */
} cr_sread;

typedef struct cr_sseen {
    const cr_ivalue *arg; /* borrowed during the call */
    int count;
    CR_VEC(cr_sread) read;
    CR_VEC(cr_ivalue) held;       /* references of the tensors and objects that were read */
    CR_VEC(cr_tensor *) constant; /* of graphs that ran, borrowed from their functions */
    const char *why;              /* why the call is not plain; NULL: it is */
    const char *step;             /* the step that is the reason */
} cr_sseen;

/* Runs a call as cr_sfunction_run does, without the programs below, and notes what it reads in
 * *seen, which is empty before and which the caller drops. */
CR_MUST cr_status cr_sfunction_watch(cr_ivalue *out, cr_sfunction *f, const cr_ivalue *args,
                                     int count, cr_sseen *seen);
void cr_sseen_drop(cr_sseen *seen);
/* Drops the references of tensors and objects: only their addresses stay. */
void cr_sseen_let_go(cr_sseen *seen);
/* Whether a tensor that was read has been written since, or may have been. */
bool cr_sseen_wrote(const cr_sseen *seen);
/* The number of an object's class, which decides what its methods and attributes are; 0 for
 * other values. */
uint64_t cr_ivalue_class(const cr_ivalue *v);
/* The value of an attribute that was read, in a call with these arguments, borrowed; `value`
 * has those of the reads before it.  The objects have the classes of the recorded call.  NULL:
 * there is no such attribute. */
const cr_ivalue *cr_sread_again(const cr_sread *r, const cr_ivalue *arg,
                                const cr_ivalue *const *value);
/* Whether both are the same value; for tensors and objects: have the same address. */
bool cr_ivalue_same(const cr_ivalue *a, const cr_ivalue *b);

/* Set by an upper room at start-up: computes the call, or leaves *done false.  It may run the
 * call by cr_sfunction_watch or cr_sfunction_steps. */
typedef cr_status (*cr_sprogram_fn)(bool *done, cr_ivalue *out, cr_sfunction *f,
                                    const cr_ivalue *args, int count);
extern cr_sprogram_fn cr_script_program;
/* Runs a call by its steps. */
CR_MUST cr_status cr_sfunction_steps(cr_ivalue *out, cr_sfunction *f, const cr_ivalue *args,
                                     int count);
/* What the upper room keeps for a function whose steps have been prepared; else NULL.  `drop`
 * frees it with the function. */
void *_Atomic *cr_sfunction_kept(cr_sfunction *f, void (*drop)(void *kept));

#endif
