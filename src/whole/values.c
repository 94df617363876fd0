/* Values of tensors: single elements, and comparisons with one answer. */
#include "whole/whole_impl.h"
#include <string.h>

cr_status cr_do_item(const cr_value *arg, cr_value *result)
{
    cr_scalar s;

    CR_TRY(cr_tensor_item(&s, arg[0].t));
    *result = cr_of_number(s);
    return CR_OK;
}

/* Whether no byte is zero; the tensor is bool. */
cr_status cr_do_holds_everywhere(const cr_value *arg, cr_value *result)
{
    cr_tensor *t = arg[0].t, *plain = NULL;

    if (!t->address && t->numel)
        return cr_fail(CR_NOT_IMPLEMENTED, "meta tensors have no values to compare");
    CR_TRY(cr_is_host(t->device)
               ? cr_contiguous_plain(&plain, t)
               : cr_copy_as(&plain, t, t->dtype, CR_HOST, CR_FORMAT_CONTIGUOUS));
    bool some_false = plain->numel && memchr(plain->address, 0, (size_t)plain->numel);
    *result = cr_of_bool(!some_false);
    cr_drop(plain);
    return CR_OK;
}
