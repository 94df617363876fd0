/* steps.h - entries that are sequences of calls of other entries.
 *
 * A `cr_steps` holds the tensors that the calls make.  After a failure, further steps do
 * nothing and return NULL; cr_steps_end reports the failure. */
#ifndef CR_WHOLE_STEPS_H
#define CR_WHOLE_STEPS_H

#include "whole/whole_impl.h"

typedef struct {
    CR_VEC(cr_tensor *) made;
    cr_status st;
} cr_steps;

/* The first result of a call with the first n arguments, borrowed from the steps. */
cr_tensor *cr_step(cr_steps *s, const cr_op *op, int n, const cr_value *arg);
#define CR_STEP(s, op, ...)                                                                    \
    cr_step(s, cr_entry.op, (int)(sizeof((cr_value[]){__VA_ARGS__}) / sizeof(cr_value)),       \
            (cr_value[]){__VA_ARGS__})
/* All results of a call, each a tensor, borrowed from the steps; all NULL after a failure. */
void cr_step_all(cr_steps *s, cr_tensor **out, const cr_op *op, int n, const cr_value *arg);
/* The `count` tensors that a call with one list as its result returns. */
void cr_step_list(cr_steps *s, cr_tensor **out, int64_t count, const cr_op *op, int n,
                  const cr_value *arg);
/* A call with a list of tensors and a dim. */
cr_tensor *cr_step_join(cr_steps *s, const cr_op *op, cr_tensor *const *part, int64_t n,
                        int64_t dim);
/* The tensor in another dtype; itself if it has that.  NULL stays NULL. */
cr_tensor *cr_step_cast(cr_steps *s, cr_tensor *t, cr_dtype dtype);
/* Gives the steps a tensor that the caller owns.  NULL when out of memory. */
cr_tensor *cr_step_own(cr_steps *s, cr_tensor *t);
/* Room for n tensors, which the caller frees with cr_free; NULL when out of memory. */
cr_tensor **cr_step_room(cr_steps *s, int64_t n);
/* Makes the failure of another function that of the steps. */
static inline void cr_step_fail(cr_steps *s, cr_status st) { s->st = s->st ? s->st : st; }
/* Drops the tensors; *out is a reference to `t` unless a step failed. */
CR_MUST cr_status cr_steps_end(cr_steps *s, cr_tensor **out, cr_tensor *t);
/* The same with the tensor as the result of an entry. */
CR_MUST cr_status cr_steps_give(cr_steps *s, cr_value *result, cr_tensor *t);
/* The same with n tensors as its results; it has none after a failure. */
CR_MUST cr_status cr_steps_give_all(cr_steps *s, cr_value *result, cr_tensor *const *t, int n);

/* Values of arguments; a NULL tensor, of a failed step, is not read. */
#define T(t) cr_of_tensor(t)
#define I(i) cr_of_int(i)

/* The value of an optional tensor. */
static inline cr_value cr_maybe(cr_tensor *t) { return t ? cr_of_tensor(t) : cr_of_none(); }

#endif
