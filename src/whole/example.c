/* Examples of batches, and batches of examples: each is the other's derivative. */
#include "tensor/batch.h"
#include "whole/whole_impl.h"
#include <string.h>

/* An alias of t without its history. */
static cr_status example_apart(cr_tensor **out, cr_tensor *t)
{
    cr_value arg = cr_of_tensor(t), made;

    if (!cr_is_dispatched(t))
        return cr_tensor_alias(out, t);
    CR_TRY(cr_call_below(CR_STAGE_AUTOGRAD, cr_entry.detach, &arg, &made));
    *out = made.t;
    return CR_OK;
}

cr_status cr_do_example_of(const cr_value *arg, cr_value *result)
{
    cr_tensor *batch, *made;

    CR_TRY(example_apart(&batch, arg[0].t));
    cr_status st = cr_example_new(&made, batch, (uint64_t)arg[1].i);
    cr_drop(batch);
    CR_TRY(st);
    *result = cr_of_tensor(made);
    return CR_OK;
}

cr_status cr_do_batch_of(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t, *made;
    int64_t size[CR_MAX_DIMS + 1] = {arg[2].i};

    if (cr_is_example(t) && t->level == (uint64_t)arg[1].i) {
        CR_TRY(example_apart(&made, t->batch));
    } else {
        memcpy(size + 1, t->size, t->ndim * sizeof *size);
        cr_value expand[] = {arg[0], cr_of_ints(size, (size_t)t->ndim + 1)};
        CR_TRY(cr_call_tensor(&made, cr_entry.expand, expand, 2));
    }
    *result = cr_of_tensor(made);
    return CR_OK;
}
