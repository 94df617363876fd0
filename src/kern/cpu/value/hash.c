/* hash_tensor: the exclusive or of all elements, as 64 bits each.
 *
 * Floats count as doubles and integers as int64, so that equal numbers have equal bits in every
 * dtype. */
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"
#include "num/convert.h"

enum { HASH_BLOCK = 256 };

/* Row by row: `to` is the result of the row's elements, or advances with them. */
static void hash_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    cr_dtype from = *(const cr_dtype *)context;
    cr_convert_fn widen = cr_convert_row(cr_dtype_is_float(from) ? CR_F64 : CR_I64, from);
    uint64_t bits[HASH_BLOCK];

    for (int64_t i = 0; i < n; i += HASH_BLOCK) {
        int64_t some = n - i < HASH_BLOCK ? n - i : HASH_BLOCK;
        widen(bits, sizeof *bits, at[1] + i * step[1], step[1], some);
        for (int64_t k = 0; k < some; k++)
            *(uint64_t *)(void *)(at[0] + (i + k) * step[0]) ^= bits[k];
    }
}

/* The result's strides over the dims of self, 0 for those that are reduced. */
static void hash_strides(int64_t *stride, const cr_view *self, const cr_value *dims,
                         bool keepdim, const cr_view *out)
{
    bool reduced[CR_MAX_DIMS] = {false};
    int at = 0;

    for (int d = 0; d < self->ndim; d++)
        reduced[d] = !dims->len;
    for (uint32_t i = 0; i < dims->len && self->ndim; i++)
        reduced[dims->ints[i] < 0 ? dims->ints[i] + self->ndim : dims->ints[i]] = true;
    for (int d = 0; d < self->ndim; d++) {
        stride[d] = reduced[d] ? 0 : out->stride[at];
        at += !reduced[d] || keepdim;
    }
}

/* (self, dim, *, keepdim, mode) */
cr_status cr_kern_hash_tensor(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    cr_dtype dtype = (cr_dtype)self->dtype;
    int64_t stride[CR_MAX_DIMS];
    cr_walk w;

    cr_zero_view(out);
    hash_strides(stride, self, &arg[1], arg[2].i, out);
    cr_walk_start(&w, self->ndim, self->size, -1);
    cr_walk_add_strides(&w, out->data, stride, sizeof(uint64_t));
    cr_walk_add(&w, self);
    cr_walk_merge(&w);
    cr_walk_all(&w, hash_row, &dtype);
    return CR_OK;
}
