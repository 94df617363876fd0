/* Computations of several operators: the tensors between them, and the first failure. */
#include "nn/nn_impl.h"

static cr_tensor *work_take(nn_work *w, cr_tensor *t)
{
    cr_vec_put(&w->made, t);
    return t;
}

cr_tensor *nn_do(nn_work *w, const cr_op *op, const cr_value *arg, int n)
{
    cr_tensor *made = NULL;

    w->st = w->st ? w->st : cr_vec_reserve(&w->made, 1);
    w->st = w->st ? w->st : cr_call_tensor(&made, op, arg, n);
    return w->st ? NULL : work_take(w, made);
}

void nn_do_many(nn_work *w, cr_tensor **out, int n, const cr_op *op, const cr_value *arg,
                int args)
{
    cr_value result[CR_MAX_RESULTS] = {{0}};
    const cr_value *item = result;
    int results = 1;

    for (int i = 0; i < n; i++)
        out[i] = NULL;
    w->st = w->st ? w->st : cr_vec_reserve(&w->made, (size_t)n);
    w->st = w->st ? w->st : cr_call_given(result, op, arg, args);
    if (w->st)
        return;
    results = op->result_count;
    if (result[0].tag == CR_TENSORS)
        item = result[0].list;
    for (int i = 0; i < n; i++)
        out[i] = work_take(w, cr_keep(item[i].t));
    cr_drop_values(result, results);
}

cr_tensor *nn_apply(nn_work *w, cr_module *m, cr_tensor *x)
{
    cr_tensor *made = NULL;

    w->st = w->st ? w->st : cr_vec_reserve(&w->made, 1);
    w->st = w->st ? w->st : cr_module_forward(&made, m, x);
    return w->st ? NULL : work_take(w, made);
}

void nn_work_fail(nn_work *w, cr_status st) { w->st = w->st ? w->st : st; }

cr_status nn_finish(nn_work *w, cr_tensor **out, cr_tensor *const *result, size_t outs)
{
    for (size_t i = 0; !w->st && i < outs; i++)
        out[i] = cr_keep(result[i]);
    for (size_t i = 0; i < w->made.len; i++)
        cr_drop(w->made.at[i]);
    cr_vec_drop(&w->made);
    return w->st;
}

cr_value nn_maybe(cr_tensor *t) { return t ? cr_of_tensor(t) : cr_of_none(); }

cr_value nn_list(cr_value *item, size_t n)
{
    return (cr_value){.tag = CR_TENSORS, .len = (uint32_t)n, .list = item};
}

cr_status nn_add_child(cr_module *m, const char *name, const char *kind, const cr_arg *args)
{
    cr_module *child = NULL;

    CR_TRY(cr_module_new(&child, kind, args));
    cr_status st = cr_module_add(m, name, child);
    cr_module_drop(child);
    return st;
}

cr_status nn_check_counts(const cr_module *m, size_t inputs, size_t least, size_t most,
                          size_t outs, size_t results)
{
    if (inputs >= least && inputs <= most && outs >= 1 && outs <= results)
        return CR_OK;
    return cr_fail(CR_TYPE,
                   "%s.forward() takes %zu to %zu inputs and has %zu result%s, but %zu inputs "
                   "were given and %zu results were asked for",
                   m->kind, least, most, results, results > 1 ? "s" : "", inputs, outs);
}
