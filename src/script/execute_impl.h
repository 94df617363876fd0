/* execute_impl.h - what the executor's files share: prepared code and builtin functions. */
#ifndef CR_SCRIPT_EXECUTE_IMPL_H
#define CR_SCRIPT_EXECUTE_IMPL_H

#include "script/execute.h"

/* A call of a builtin function.  Arguments are borrowed.  The function owns nothing: it stores
 * its results in `out`, which the caller owns and which are None before. */
typedef struct {
    const cr_ivalue *arg;
    int count;
    cr_ivalue *out;
    int outs;
    const cr_snode *node;
} cr_scall;
typedef cr_status (*cr_builtin_fn)(cr_scall *c);

/* The function that computes schemas of this name ("aten::len"); NULL when there is none.  It
 * chooses by the kinds of the arguments, so it serves all overloads. */
cr_builtin_fn cr_builtin_find(const char *name);

/* --- operators of the table (execute_op.c) --- */
typedef struct cr_sop cr_sop;
/* Decides which argument goes to which parameter of the entry.  The result is in `arena`. */
CR_MUST cr_status cr_sop_prepare(cr_sop **out, cr_arena *arena, const cr_sschema *schema);
CR_MUST cr_status cr_sop_call(const cr_sop *op, cr_scall *c);
/* Calls an entry with the first n arguments; the others have their defaults. */
CR_MUST cr_status cr_sop_call_entry(const cr_op *op, const cr_ivalue *arg, int n,
                                    cr_ivalue *out, int outs);

/* --- what a call reads (seen.c) --- */
typedef struct cr_sseen cr_sseen;
/* An attribute that no function sets. */
void cr_sseen_attribute(cr_sseen *x, const cr_iobject *o, int slot, const cr_ivalue *v);
/* The constants of a graph that runs. */
void cr_sseen_constants(cr_sseen *x, const cr_ivalue *v, size_t n);
/* A call of an operator or builtin, before it runs; any other step. */
void cr_sseen_call(cr_sseen *x, const cr_scall *c);
void cr_sseen_step(cr_sseen *x, const cr_snode *n);
void cr_sseen_refuse(cr_sseen *x, const char *why);

/* A number as a cr_scalar; false for other kinds. */
bool cr_ivalue_scalar(const cr_ivalue *v, cr_scalar *out);
cr_ivalue cr_ivalue_of_scalar(cr_scalar s);
#endif
