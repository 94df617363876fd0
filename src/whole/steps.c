/* Sequences of calls. */
#include "whole/steps.h"
#include "base/memory.h"

cr_tensor *cr_step_own(cr_steps *s, cr_tensor *t)
{
    cr_step_fail(s, cr_vec_reserve(&s->made, 1));
    if (s->st) {
        cr_drop(t);
        return NULL;
    }
    cr_vec_put(&s->made, t);
    return t;
}

cr_tensor *cr_step(cr_steps *s, const cr_op *op, int n, const cr_value *arg)
{
    cr_tensor *all[CR_MAX_RESULTS];

    cr_step_all(s, all, op, n, arg);
    return all[0];
}

void cr_step_all(cr_steps *s, cr_tensor **out, const cr_op *op, int n, const cr_value *arg)
{
    cr_value result[CR_MAX_RESULTS];

    for (int k = 0; k < op->result_count; k++)
        out[k] = NULL;
    if (!s->st)
        cr_step_fail(s, cr_call_given(result, op, arg, n));
    if (s->st)
        return;
    for (int k = 0; k < op->result_count; k++)
        out[k] = cr_step_own(s, result[k].t);
}

void cr_step_list(cr_steps *s, cr_tensor **out, int64_t count, const cr_op *op, int n,
                  const cr_value *arg)
{
    cr_value list = cr_of_none();

    for (int64_t i = 0; i < count; i++)
        out[i] = NULL;
    if (!s->st)
        cr_step_fail(s, cr_call_given(&list, op, arg, n));
    if (!s->st && list.len != count)
        cr_step_fail(s, cr_fail(CR_RUNTIME, "%s: expected %lld parts, got %u", op->name,
                                (long long)count, list.len));
    for (int64_t i = 0; !s->st && i < count; i++)
        out[i] = cr_step_own(s, cr_keep(list.list[i].t));
    cr_drop_values(&list, 1);
}

cr_tensor *cr_step_join(cr_steps *s, const cr_op *op, cr_tensor *const *part, int64_t n,
                        int64_t dim)
{
    cr_value *list = s->st ? NULL : cr_alloc((size_t)n * sizeof *list + 1);
    cr_tensor *joined = NULL;

    cr_step_fail(s, list ? CR_OK : CR_MEMORY);
    for (int64_t i = 0; !s->st && i < n; i++)
        list[i] = cr_of_tensor(part[i]);
    if (!s->st)
        joined = cr_step(s, op, 2, (cr_value[]){cr_of_list(list, (uint32_t)n), I(dim)});
    cr_free(list);
    return joined;
}

cr_tensor *cr_step_cast(cr_steps *s, cr_tensor *t, cr_dtype dtype)
{
    return !t || t->dtype == dtype ? t : CR_STEP(s, to_dtype, T(t), cr_of_dtype(dtype));
}

cr_tensor **cr_step_room(cr_steps *s, int64_t n)
{
    cr_tensor **room = s->st ? NULL : cr_alloc_zero((size_t)n * sizeof *room + 1);

    cr_step_fail(s, room ? CR_OK : CR_MEMORY);
    return room;
}

cr_status cr_steps_end(cr_steps *s, cr_tensor **out, cr_tensor *t)
{
    if (!s->st)
        *out = cr_keep(t);
    for (size_t i = 0; i < s->made.len; i++)
        cr_drop(s->made.at[i]);
    cr_vec_drop(&s->made);
    return s->st;
}

cr_status cr_steps_give_all(cr_steps *s, cr_value *result, cr_tensor *const *t, int n)
{
    cr_tensor *first;

    for (int k = 1; !s->st && k < n; k++)
        result[k] = cr_of_tensor(cr_keep(t[k]));
    CR_TRY(cr_steps_end(s, &first, t[0]));
    result[0] = cr_of_tensor(first);
    return CR_OK;
}

cr_status cr_steps_give(cr_steps *s, cr_value *result, cr_tensor *t)
{
    return cr_steps_give_all(s, result, &t, 1);
}
