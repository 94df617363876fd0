/* Memory and order of lists of contributions on a device. */
#include "kern/cpu/plane/spread.h"
#include "base/integer.h"

cr_status cr_spread_take(cr_spread *m, spread_list *s, cr_device d, cr_dtype t, int64_t n,
                         int64_t places)
{
    size_t marks = (size_t)places * sizeof *s->first;

    *m = (cr_spread){0};
    s->n = n;
    s->places = places;
    s->shift = cr_digits(n - 1);
    CR_TRY(cr_dense_take(&m->keys, d, 2 * (size_t)n * sizeof *s->keys));
    CR_TRY(cr_dense_take(&m->weight, d, (size_t)n * cr_dtype_size(t)));
    CR_TRY(cr_dense_take(&m->first, d, marks));
    s->keys = (uint64_t *)(void *)m->keys.data;
    s->weight = m->weight.data;
    s->first = (int64_t *)(void *)m->first.data;
    return cr_dense_clear(&m->first, marks);
}

cr_status cr_spread_sort(spread_list *s, cr_device d)
{
    uint64_t *room = s->keys + s->n;

    return cr_loops_sort(d, &s->keys, &room, s->n, s->shift, cr_digits(s->places));
}

void cr_spread_drop(cr_spread *m)
{
    cr_dense_drop(&m->keys);
    cr_dense_drop(&m->weight);
    cr_dense_drop(&m->first);
}
