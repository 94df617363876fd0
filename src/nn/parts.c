/* What layers of several operators share. */
#include "nn/parts.h"

cr_tensor *nn_apply(cr_steps *s, cr_module *m, cr_tensor *x)
{
    cr_tensor *made = NULL;

    s->st = s->st ? s->st : cr_module_forward(&made, m, x);
    return s->st ? NULL : cr_step_own(s, made);
}

cr_status nn_finish(cr_steps *s, cr_tensor **out, cr_tensor *const *result, size_t outs)
{
    for (size_t i = 1; !s->st && i < outs; i++)
        out[i] = cr_keep(result[i]);
    return cr_steps_end(s, out, result[0]);
}

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
