/* whole_impl.h - functions that operator entries name in `whole` clauses, and their helpers.
 *
 * Such a function implements an entry completely. arg is borrowed, results are owned by the
 * caller, and arguments may be fakes, which have no bytes. */
#ifndef CR_WHOLE_IMPL_H
#define CR_WHOLE_IMPL_H

#include "entry.h"
#include "functions_whole.h"
#include "tensor/geometry.h"
#include "tensor/plain.h"
#include "whole/whole.h"

/* Fills with a value that is known to fit. */
CR_MUST cr_status cr_fill(cr_tensor *t, cr_scalar value);

/* `t` itself as the result. */
static inline cr_status cr_give(cr_value *result, cr_tensor *t)
{
    *result = cr_of_tensor(cr_keep(t));
    return CR_OK;
}
/* The same for a tensor that was written. */
static inline cr_status cr_give_changed(cr_value *result, cr_tensor *t)
{
    t->storage->version++;
    return cr_give(result, t);
}

/* Values of optional arguments. */
static inline int64_t cr_int_or(const cr_value *v, int64_t preset)
{
    return v->tag == CR_NONE ? preset : v->i;
}

/* A list for a CR_TENSORS result, all CR_NONE; NULL and an error when out of memory. */
cr_value *cr_list_new(int64_t n);
static inline cr_value cr_of_list(cr_value *list, uint32_t n)
{
    return (cr_value){.tag = CR_TENSORS, .len = n, .list = list};
}
/* Drops the tensors in a list that did not become a result, and the list. */
void cr_list_drop(cr_value *list, uint32_t n);

#endif
