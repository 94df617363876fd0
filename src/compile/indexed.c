/* Commands on elements at computed places as numbers. */
#include "compile/indexed.h"
#include "space/space.h"

/* Whether the elements that indices count have one distance, which is then *unit. */
static bool has_one_step(const cr_indexed *c, int64_t *unit)
{
    const cr_array *a = c->numbered;

    *unit = 1;
    return cr_one_step(unit, a->ndim, a->size, a->stride);
}

/* Whether a command without an index has several elements for one place. */
static bool repeats_places(const cr_indexed *c)
{
    for (int d = 0; d < c->ndim; d++)
        if (c->size[d] > 1 && !c->table_stride[d])
            return true;
    return false;
}

cr_indexed_numbers cr_indexed_numbers_of(const cr_indexed *c)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)c->dtype), unit;
    bool sums = c->how == CR_COMBINE_ADD || c->how == CR_COMBINE_MUL,
         folds = c->how != CR_COMBINE_READ && c->how != CR_COMBINE_SET;
    cr_indexed_numbers n = {.wraps = c->index && c->wraps,
                            .is32 = c->index && c->is32,
                            .ordered = sums && cr_dtype_is_float((cr_dtype)c->dtype),
                            .unit = c->index ? c->unit : 0,
                            .extent = c->index ? c->extent : 1,
                            .dense_item = c->how == CR_COMBINE_DIVIDE ? 8 : item};

    n.index_item = n.is32 ? 4 : 8;
    if (!c->index && folds && repeats_places(c))
        n.lacks = "without an index";
    if (!c->index || !c->numbered)
        return n;
    n.wraps = true;
    n.extent = cr_numel(c->numbered->ndim, c->numbered->size);
    n.copies = !has_one_step(c, &unit);
    n.unit = n.copies ? item : unit * item;
    if (n.copies && c->how != CR_COMBINE_READ)
        n.lacks = "of a table without one step";
    return n;
}
