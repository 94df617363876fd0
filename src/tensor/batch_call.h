/* batch_call.h - one call for a batch, and the rules that make it (tensor/batch.c).
 *
 * A rule gets the call of an example and makes that of the batch: it changes `given`, or calls
 * other entries, and sets the results.  Where it does not fit it leaves the call. */
#ifndef CR_TENSOR_BATCH_CALL_H
#define CR_TENSOR_BATCH_CALL_H

#include "tensor/tensor.h"

enum { BATCH_FEW = 16, BATCH_LISTS = 3 };

typedef struct {
    const cr_op *op;
    const cr_value *arg;         /* of an example */
    cr_value given[CR_MAX_ARGS]; /* for the batch */
    uint64_t level;
    int64_t size; /* number of examples */
    bool left;    /* no rule fits */
    cr_tensor *few[BATCH_FEW];
    int few_count;
    CR_VEC(cr_tensor *) more; /* tensors of the call after the first few */
    cr_arena memory;
    int64_t ints[BATCH_LISTS][CR_MAX_DIMS + 1];
    int lists;
} batch_call;

static inline cr_status cr_batch_leave(batch_call *c)
{
    c->left = true;
    return CR_OK;
}

static inline bool cr_batch_has(const batch_call *c, const cr_tensor *t)
{
    return t->batch && t->level == c->level;
}

static inline bool cr_batch_has_value(const batch_call *c, const cr_value *v)
{
    return v->tag == CR_TENSOR && cr_batch_has(c, v->t);
}

/* Makes the call with `given`. */
static inline cr_status cr_batch_run(batch_call *c, cr_value *result)
{
    return cr_call(c->op, c->given, result);
}

/* The call drops the tensor, also when there is no memory. */
CR_MUST cr_status cr_batch_keep(batch_call *c, cr_tensor *t);
void cr_batch_drop(batch_call *c);

/* --- tensors, which are borrowed from the call --- */

/* The result of an entry. */
CR_MUST cr_status cr_batch_apply(batch_call *c, cr_tensor **out, const cr_op *op,
                                 const cr_value *arg, int n);
CR_MUST cr_status cr_batch_reshape(batch_call *c, cr_tensor **out, cr_tensor *t, int ndim,
                                   const int64_t *size);
CR_MUST cr_status cr_batch_permute(batch_call *c, cr_tensor **out, cr_tensor *t,
                                   const int64_t *dims);
/* Moves a dim to another place. */
CR_MUST cr_status cr_batch_move(batch_call *c, cr_tensor **out, cr_tensor *t, int from, int to);
/* The batch that an example is of; another tensor, repeated. */
CR_MUST cr_status cr_batch_whole(batch_call *c, cr_tensor **out, cr_tensor *t);
/* A batch whose examples have `ndim` dims: of size 1 where they have fewer. */
CR_MUST cr_status cr_batch_widen(batch_call *c, cr_tensor **out, cr_tensor *batch, int ndim);

/* --- arguments of the call for the batch --- */

/* The batches in the places of the examples, but for those in lists. */
void cr_batch_give(batch_call *c);
/* Argument i as a batch, also where it is no example. */
CR_MUST cr_status cr_batch_give_whole(batch_call *c, int i);
/* A list of ints that the call keeps: `first`, if it is not negative, then `n` others. */
CR_MUST cr_status cr_batch_list(batch_call *c, int64_t **out, int64_t first,
                                const int64_t *ints, uint32_t n);
/* Argument i, a list of ints, with another one in front. */
CR_MUST cr_status cr_batch_prepend(batch_call *c, int i, int64_t first);

bool cr_batch_names_dim(const cr_param *p);
bool cr_batch_names_size(const cr_param *p);
/* The parameter of a view's or a new tensor's sizes, or -1. */
int cr_batch_find_size(const cr_op *op);
/* The only tensor among the arguments, in the first place, or NULL. */
cr_tensor *cr_batch_only(const batch_call *c);
/* The dims that the examples' results have at least. */
int cr_batch_most_dims(const batch_call *c);
bool cr_batch_dim_fits(int64_t d, int ndim);
/* Moves a dim, or a list of dims, by that of the batch.  Negative ones count from the end. */
CR_MUST cr_status cr_batch_shift(batch_call *c, int i, int ndim);

/* --- rules --- */

/* An entry of one tensor that names dims: each example is computed alone. */
CR_MUST cr_status cr_batch_dims(batch_call *c, int ndim, cr_value *result);
/* The same, where dims are counted in the sizes of the result if the call names these. */
CR_MUST cr_status cr_batch_named_dims(batch_call *c, cr_value *result);
/* Whether dims of a function on tensors are those of the examples: its results are views, or
 * have sizes that the call names. */
bool cr_batch_has_dims(const cr_op *op);

CR_MUST cr_status cr_batch_pointwise(batch_call *c, cr_value *result);
/* An entry that writes self and says what it writes, which is copied into the batch; none that
 * makes self another view. */
bool cr_batch_is_functional(const cr_op *op);
CR_MUST cr_status cr_batch_functional(batch_call *c, cr_value *result);
/* In place: an elementwise entry writes the batch where it is, if self has the dims of the
 * result.  Of another entry the result is copied. */
CR_MUST cr_status cr_batch_inplace(batch_call *c, cr_value *result);

/* The same elements under other sizes. */
CR_MUST cr_status cr_batch_resize(batch_call *c, cr_value *result);
CR_MUST cr_status cr_batch_map(batch_call *c, cr_value *result);
/* Tensors of a list, along a dim. */
CR_MUST cr_status cr_batch_join(batch_call *c, cr_value *result);
/* Copies, conversions and new tensors of the batch's sizes.  A memory format that names dims is
 * that of an example. */
CR_MUST cr_status cr_batch_like(batch_call *c, cr_value *result);
bool cr_batch_is_like(const batch_call *c);

CR_MUST cr_status cr_batch_fold(batch_call *c, cr_value *result);
/* A fused composition: rows along a dim, or along the trailing dims of given sizes. */
CR_MUST cr_status cr_batch_fused(batch_call *c, cr_value *result);

/* The dims of a product's factors, or 0. */
int cr_batch_factor_dims(const cr_op *op, int *right);
CR_MUST cr_status cr_batch_product(batch_call *c, int left_dims, int right_dims,
                                   cr_value *result);

/* An entry that states its axes; *stated is false, and nothing is done, where it states none,
 * several forms, or sums. */
CR_MUST cr_status cr_batch_axes(batch_call *c, bool *stated, cr_value *result);
/* Entries over the last `dims` dims: the batch becomes a part of the dim in front of them. */
CR_MUST cr_status cr_batch_trailing(batch_call *c, cr_value *result);

/* A loop whose first axes are a pack, of which the batch is one more. */
CR_MUST cr_status cr_batch_loop(batch_call *c, cr_value *result);

/* Any rule; a call in place whose rule leaves it is left. */
CR_MUST cr_status cr_batch_any(batch_call *c, cr_value *result);
/* The call of an entry that has no other rule. */
CR_MUST cr_status cr_batch_other(batch_call *c, cr_value *result);

/* A level that never ends. */
uint64_t cr_level_new_endless(void);

#endif
