/* Sequences of calls on the parts of sparse tensors. */
#include "whole/sparse_impl.h"
#include <string.h>

cr_tensor *cr_step_coo(cr_steps *s, int ndim, const int64_t *size, cr_tensor *indices,
                       cr_tensor *values, bool coalesced)
{
    cr_tensor *t;

    if (s->st)
        return NULL;
    cr_sparse parts = {.indices = indices, .values = values, .coalesced = coalesced};
    cr_step_fail(s, cr_sparse_new(&t, CR_LAYOUT_COO, ndim, size, &parts));
    return s->st ? NULL : cr_step_own(s, t);
}

cr_tensor *cr_step_coo_like(cr_steps *s, const cr_tensor *like, cr_tensor *indices,
                            cr_tensor *values, bool coalesced)
{
    return cr_step_coo(s, like->ndim, like->size, indices, values, coalesced);
}

cr_tensor *cr_step_row(cr_steps *s, cr_tensor *indices, int64_t r)
{
    return CR_STEP(s, select_int, T(indices), I(0), I(r));
}

static cr_value sparse_number(int64_t n) { return cr_of_number(cr_scalar_int(n)); }

cr_tensor *cr_step_arange(cr_steps *s, int64_t n, const cr_tensor *like)
{
    cr_value device = {.tag = CR_DEVICE_VAL, .i = cr_packed_device(like->device)};

    return CR_STEP(s, arange, sparse_number(n), cr_of_dtype(CR_I64), cr_of_none(), device);
}

int64_t cr_step_product(cr_steps *s, int n, const int64_t *size)
{
    int64_t product = 1;

    for (int i = 0; i < n; i++)
        if (CR_MUL_OVERFLOW(product, size[i], &product) && !s->st)
            cr_step_fail(s, cr_fail(CR_RUNTIME, "numel: integer multiplication overflow"));
    return product;
}

cr_tensor *cr_step_flat(cr_steps *s, cr_tensor *indices, int dims, const int64_t *size)
{
    if (s->st)
        return NULL;
    if (!dims) {
        int64_t n = indices->size[1];
        return CR_STEP(s, new_zeros, T(indices), cr_of_ints(&n, 1));
    }
    cr_tensor *flat = cr_step_row(s, indices, 0);
    for (int d = 1; d < dims; d++) {
        flat = CR_STEP(s, mul, T(flat), sparse_number(size[d]));
        flat = CR_STEP(s, add, T(flat), T(cr_step_row(s, indices, d)));
    }
    return flat;
}

cr_tensor *cr_step_unflat(cr_steps *s, cr_tensor *flat, int dims, const int64_t *size)
{
    cr_value row[CR_MAX_DIMS];

    if (s->st)
        return NULL;
    if (dims == 1)
        return CR_STEP(s, unsqueeze, T(flat), I(0));
    for (int d = dims - 1; d >= 0; d--) {
        cr_value divisor = sparse_number(size[d] ? size[d] : 1); /* no position where 0 */
        row[d] = T(d ? CR_STEP(s, remainder, T(flat), divisor) : flat);
        if (d)
            flat = CR_STEP(s, floor_divide, T(flat), divisor);
    }
    if (!dims) {
        int64_t none[2] = {0, s->st ? 0 : flat->size[0]};
        return CR_STEP(s, new_zeros, T(flat), cr_of_ints(none, 2));
    }
    cr_value list = {.tag = CR_TENSORS, .len = (uint32_t)dims, .list = row};
    return CR_STEP(s, stack, list);
}

cr_tensor *cr_step_cat(cr_steps *s, const cr_value *list, uint32_t n, int64_t dim)
{
    cr_value v = {.tag = CR_TENSORS, .len = n, .list = list};

    return CR_STEP(s, cat, v, I(dim));
}

cr_tensor *cr_step_add_rows(cr_steps *s, cr_tensor *values, cr_tensor *index, int64_t rows)
{
    int64_t size[CR_MAX_DIMS];
    bool truth;

    if (s->st)
        return NULL;
    truth = values->dtype == CR_BOOL;
    if (truth)
        values = CR_STEP(s, to_dtype, T(values), cr_of_dtype(CR_U8));
    if (s->st)
        return NULL;
    memcpy(size, values->size, values->ndim * sizeof *size);
    size[0] = rows;
    cr_tensor *sum = CR_STEP(s, new_zeros, T(values), cr_of_ints(size, values->ndim));
    cr_tensor *arg[] = {sum, index, values};
    if (s->st)
        return NULL;
    cr_value call[] = {T(arg[0]), I(0), T(arg[1]), T(arg[2]), sparse_number(1)}, result;
    cr_step_fail(s, cr_call_inplace(cr_entry.index_add, call, &result));
    if (!s->st)
        cr_drop_values(&result, 1);
    return truth ? CR_STEP(s, ne, T(sum), sparse_number(0)) : sum;
}

cr_tensor *cr_step_places(cr_steps *s, cr_tensor *holds)
{
    int64_t none = 0;

    if (!s->st && !holds->numel)
        return CR_STEP(s, new_zeros, T(holds), cr_of_ints(&none, 1), cr_of_dtype(CR_I64));
    return CR_STEP(s, select_int, T(CR_STEP(s, nonzero, T(holds))), I(1), I(0));
}

cr_tensor *cr_step_repeat(cr_steps *s, cr_tensor *counts, int64_t items)
{
    if (!items)
        return CR_STEP(s, new_zeros, T(counts), cr_of_ints(&items, 1), cr_of_dtype(CR_I64));
    return CR_STEP(s, repeat_interleave_Tensor, T(counts));
}

cr_tensor *cr_step_distinct(cr_steps *s, cr_tensor *flat, cr_tensor **place)
{
    cr_value found[CR_MAX_RESULTS];

    *place = flat;
    if (s->st || !flat->numel)
        return s->st ? NULL : flat;
    cr_step_fail(s,
                 cr_call_given(found, cr_entry._unique2,
                               (cr_value[]){T(flat), cr_of_bool(true), cr_of_bool(true)}, 3));
    if (s->st)
        return NULL;
    for (int k = 0; k < 3; k++)
        cr_step_own(s, found[k].t);
    *place = found[1].t;
    return found[0].t;
}

/* Whether the positions increase. */
bool cr_step_increases(cr_steps *s, cr_tensor *flat)
{
    cr_scalar answer;

    if (s->st)
        return false;
    int64_t n = flat->size[0];
    if (n < 2)
        return true;
    cr_tensor *low = CR_STEP(s, narrow, T(flat), I(0), I(0), I(n - 1));
    cr_tensor *high = CR_STEP(s, narrow, T(flat), I(0), I(1), I(n - 1));
    cr_tensor *all = CR_STEP(s, all, T(CR_STEP(s, lt, T(low), T(high))));
    if (s->st)
        return false;
    cr_step_fail(s, cr_tensor_item(&answer, all));
    return !s->st && answer.i;
}

/* The sorted distinct positions of `flat` and the sums of their values. */
static cr_tensor *coalesced_of(cr_steps *s, cr_tensor *t, cr_tensor *flat)
{
    const cr_sparse *p = cr_sparse_of(t);
    int dims = cr_sparse_dims(t);
    cr_value sorted[CR_MAX_RESULTS], groups[CR_MAX_RESULTS];

    cr_step_fail(s, cr_call_given(sorted, cr_entry.sort_stable,
                                  (cr_value[]){T(flat), cr_of_bool(true), I(0)}, 3));
    if (s->st)
        return NULL;
    cr_step_own(s, sorted[0].t);
    cr_step_own(s, sorted[1].t);
    cr_step_fail(s, cr_call_given(groups, cr_entry.unique_consecutive,
                                  (cr_value[]){sorted[0], cr_of_bool(true)}, 2));
    if (s->st)
        return NULL;
    for (int k = 0; k < 3; k++)
        cr_step_own(s, groups[k].t);
    cr_tensor *values = CR_STEP(s, index_select, T(p->values), I(0), sorted[1]);
    values = cr_step_add_rows(s, values, groups[1].t, groups[0].t->size[0]);
    cr_tensor *indices = cr_step_unflat(s, groups[0].t, dims, t->size);
    return cr_step_coo_like(s, t, indices, values, true);
}

cr_tensor *cr_step_coalesced(cr_steps *s, cr_tensor *t)
{
    if (s->st || cr_sparse_of(t)->coalesced)
        return s->st ? NULL : t;
    const cr_sparse *p = cr_sparse_of(t);
    cr_step_product(s, cr_sparse_dims(t), t->size);
    cr_tensor *flat = cr_step_flat(s, p->indices, cr_sparse_dims(t), t->size);
    if (cr_step_increases(s, flat))
        return cr_step_coo_like(s, t, p->indices, p->values, true);
    return s->st ? NULL : coalesced_of(s, t, flat);
}

/* The row or column of each element of the blocks that begin at the multiples `line`. */
static cr_tensor *block_places(cr_steps *s, cr_tensor *line, const int64_t *block, int axis)
{
    if (s->st)
        return NULL;
    int64_t size[] = {line->size[0], block[0], block[1]}, outer[] = {line->size[0], 1, 1};
    int64_t inner[] = {1, 1, 1}, all = cr_step_product(s, 3, size);
    inner[1 + axis] = block[axis];
    cr_tensor *within = cr_step_arange(s, block[axis], line);
    within = CR_STEP(s, reshape, T(within), cr_of_ints(inner, 3));
    line = CR_STEP(s, mul, T(line), sparse_number(block[axis]));
    line = CR_STEP(s, add, T(CR_STEP(s, reshape, T(line), cr_of_ints(outer, 3))), T(within));
    line = CR_STEP(s, expand, T(line), cr_of_ints(size, 3));
    return CR_STEP(s, reshape, T(line), cr_of_ints(&all, 1));
}

/* The values of blocks as one list of elements. */
static cr_tensor *block_elements(cr_steps *s, cr_tensor *values)
{
    int64_t size[CR_MAX_DIMS];

    size[0] = cr_step_product(s, 3, values->size);
    memcpy(size + 1, values->size + 3, (size_t)(values->ndim - 3) * sizeof *size);
    return CR_STEP(s, reshape, T(values), cr_of_ints(size, (size_t)values->ndim - 2));
}

cr_tensor *cr_step_as_layout(cr_steps *s, cr_tensor *made, const cr_tensor *like)
{
    const int64_t *block = cr_sparse_of(like)->values->size + 1;

    return CR_STEP(s, _to_sparse, T(made), I(like->layout),
                   cr_is_blocked(like) ? cr_of_ints(block, 2) : cr_of_none(), I(0));
}

cr_tensor *cr_step_indexed(cr_steps *s, cr_tensor *t)
{
    if (s->st || cr_is_coo(t))
        return s->st ? NULL : t;
    const cr_sparse *p = cr_sparse_of(t);
    cr_tensor *values = p->values;
    bool columns = !cr_by_rows(t->layout);
    cr_tensor *other = CR_STEP(s, to_dtype, T(p->indices), cr_of_dtype(CR_I64));
    cr_tensor *counts = CR_STEP(s, diff, T(p->compressed));
    cr_tensor *lines = cr_step_repeat(s, counts, cr_sparse_count(t));
    lines = CR_STEP(s, to_dtype, T(lines), cr_of_dtype(CR_I64));
    cr_tensor *place[] = {columns ? other : lines, columns ? lines : other};
    if (cr_is_blocked(t)) {
        for (int axis = 0; axis < 2; axis++)
            place[axis] = block_places(s, place[axis], values->size + 1, axis);
        values = block_elements(s, values);
    }
    cr_value rows[] = {T(place[0]), T(place[1])};
    cr_value list = {.tag = CR_TENSORS, .len = 2, .list = rows};
    return cr_step_coo_like(s, t, CR_STEP(s, stack, list), values, false);
}

cr_tensor *cr_step_as_coo(cr_steps *s, cr_tensor *t)
{
    if (s->st || cr_is_coo(t))
        return s->st ? NULL : t;
    t = cr_step_indexed(s, t);
    return s->st ? NULL : cr_step_coalesced(s, t);
}

cr_tensor *cr_step_find(cr_steps *s, cr_tensor *coo, cr_tensor *flat, cr_tensor **found)
{
    if (s->st)
        return NULL;
    int64_t n = cr_sparse_count(coo);
    cr_tensor *have =
        cr_step_flat(s, cr_sparse_of(coo)->indices, cr_sparse_dims(coo), coo->size);
    if (!n) {
        *found = CR_STEP(s, ne, T(flat), T(flat));
        return flat;
    }
    have = CR_STEP(s, contiguous, T(have));
    cr_tensor *place = CR_STEP(s, searchsorted_Tensor, T(have), T(flat));
    place = CR_STEP(s, clamp_max, T(place), sparse_number(n - 1));
    *found = CR_STEP(s, eq, T(CR_STEP(s, index_select, T(have), I(0), T(place))), T(flat));
    return place;
}

cr_tensor *cr_step_at(cr_steps *s, cr_tensor *dense, const cr_tensor *coo)
{
    cr_value list[CR_MAX_DIMS];
    int dims = cr_sparse_dims(coo);

    for (int d = 0; d < dims; d++)
        list[d] = T(cr_step_row(s, cr_sparse_of(coo)->indices, d));
    if (!dims)
        return CR_STEP(s, unsqueeze, T(dense), I(0));
    cr_value all = {.tag = CR_TENSORS, .len = (uint32_t)dims, .list = list};
    return CR_STEP(s, index_Tensor, T(dense), all);
}

cr_status cr_expect_sparse(const char *name, const cr_tensor *t)
{
    if (cr_is_sparse(t))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s expected sparse tensor layout but got Strided", name);
}

cr_status cr_expect_coo(const char *name, const cr_tensor *t)
{
    if (cr_is_coo(t))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "%s expected sparse coordinate tensor layout but got %s", name,
                   cr_layout_text(t->layout));
}

cr_status cr_expect_value_sizes(const cr_tensor *values, int dims, const int64_t *size)
{
    int64_t expected[CR_MAX_DIMS + 1] = {values->size[0]};

    memcpy(expected + 1, size, (size_t)dims * sizeof *size);
    if (cr_has_sizes(values, dims + 1, expected))
        return CR_OK;
    return cr_fail(CR_RUNTIME, "values has incorrect size, expected %s, got %s",
                   cr_shape_text(dims + 1, expected), cr_view_text(values));
}

bool cr_same_indices(const cr_tensor *a, const cr_tensor *b)
{
    const cr_tensor *x = cr_sparse_of(a)->indices, *y = cr_sparse_of(b)->indices;

    return a->layout == b->layout && x->address == y->address &&
           x->size[x->ndim - 1] == y->size[y->ndim - 1] && x->numel == y->numel &&
           x->contiguous && y->contiguous;
}
