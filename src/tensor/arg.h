/* arg.h - arguments of C programs: tagged values, given by position or by name.
 *
 * The public header cresset.h states the same types for programs. */
#ifndef CR_TENSOR_ARG_H
#define CR_TENSOR_ARG_H

#include "tensor/tensor.h"

typedef enum {
    CR_ARG_END, /* after the last one */
    CR_ARG_NONE,
    CR_ARG_TENSOR,  /* t; NULL stands for None */
    CR_ARG_BOOL,    /* i */
    CR_ARG_INT,     /* i; also a cr_dtype for a parameter of type dtype */
    CR_ARG_FLOAT,   /* d */
    CR_ARG_COMPLEX, /* c */
    CR_ARG_STRING,  /* s; NULL stands for None */
    CR_ARG_INTS,    /* ints, len */
    CR_ARG_FLOATS,  /* floats, len */
    CR_ARG_TENSORS, /* tensors, len */
    CR_ARG_GENERATOR,
    CR_ARG_RESULT /* result: where to store a further result of the operator */
} cr_arg_kind;

/* One argument; lists and strings are borrowed. */
typedef struct cr_arg {
    const char *name; /* of the parameter; NULL: by position */
    cr_arg_kind kind;
    uint32_t len;
    union {
        cr_tensor *t;
        int64_t i;
        double d;
        cr_complex c;
        const char *s;
        const int64_t *ints;
        const double *floats;
        cr_tensor *const *tensors;
        struct cr_generator *generator;
        cr_tensor **result;
    };
} cr_arg;

enum { CR_MAX_GIVEN = 32 }; /* arguments of one call */

/* Values of a call's parameters, and the memory of lists that were converted. */
typedef struct {
    cr_value value[CR_MAX_ARGS];
    cr_tensor **result[CR_MAX_RESULTS]; /* the pointers of CR_ARG_RESULT arguments, in order */
    int result_count;
    int64_t ints[CR_MAX_GIVEN];
    int ints_used;
    cr_arena lists;
} cr_binding;

/* Binds `args`, which end with CR_ARG_END, to the first overload in the chain of `op` that
 * takes them, and sets *bound to it.  Messages name the function `name`.  Fails with CR_TYPE in
 * torch's words.  The caller drops `b`, also after a failure. */
CR_MUST cr_status cr_bind(cr_binding *b, const cr_op **bound, const cr_op *op, const char *name,
                          const cr_arg *args);
void cr_binding_drop(cr_binding *b);

/* Checks the values of a typed call.  CR_TYPE in torch's words when a required one is missing,
 * CR_VALUE for a number that is no dtype. */
CR_MUST cr_status cr_check_args(const cr_op *op, const cr_value *value);

/* Calls the operator `name` ("add", or "add_" in place) with `args`.  The caller owns the
 * results; *called has their number.  Results stored through CR_ARG_RESULT arguments are
 * CR_NONE in `result`. */
CR_MUST cr_status cr_call_by_name(const char *name, const cr_arg *args, const cr_op **called,
                                  cr_value *result);

#endif
