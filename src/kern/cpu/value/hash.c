/* hash_tensor: the exclusive or of all elements, as 64 bits each.
 *
 * Floats count as doubles and integers as int64, so that equal numbers have equal bits in every
 * dtype.  The elements of a result are brought next to each other; long lines are cut into
 * parts, whose results are a line again. */
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/value/choices_job.h"
#include "kern/cpu/walk.h"

enum { HASH_PART = 256, HASH_PARTS = 4096 };

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/value/xor_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/value/xor_loops.inc"

/* The view with the dims that are reduced behind the others, and the length of its lines. */
static int64_t hash_turn(cr_view *v, int64_t *size, int64_t *stride, const cr_value *dims)
{
    const cr_view self = *v;
    bool reduced[CR_MAX_DIMS] = {false};
    int64_t length = 1;
    int at = 0;

    for (int d = 0; d < self.ndim; d++)
        reduced[d] = !dims->len;
    for (uint32_t i = 0; i < dims->len && self.ndim; i++)
        reduced[dims->ints[i] < 0 ? dims->ints[i] + self.ndim : dims->ints[i]] = true;
    for (int late = 0; late < 2; late++)
        for (int d = 0; d < self.ndim; d++)
            if (reduced[d] == (late == 1)) {
                size[at] = self.size[d];
                stride[at++] = self.stride[d];
                length *= late ? self.size[d] : 1;
            }
    v->size = size;
    v->stride = stride;
    return length;
}

/* (self, dim, *, keepdim, mode) */
cr_status cr_kern_hash_tensor(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_XOR, xor_job, fold_bits);
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS], lines = cr_view_numel(out);
    cr_view v = *arg[0].view;
    int64_t length = hash_turn(&v, size, stride, &arg[1]);
    int64_t parts = length / HASH_PART < HASH_PARTS ? length / HASH_PART + 1 : HASH_PARTS;
    cr_dense from = {0}, part = {0};
    cr_status st;

    CR_GO(cr_dense_in(&from, &v, cr_dtype_is_float((cr_dtype)v.dtype) ? CR_F64 : CR_I64));
    CR_GO(cr_dense_take(&part, out->device, (size_t)(lines * parts) * sizeof(uint64_t)));
    xor_job w = {(const uint64_t *)(const void *)from.data, (uint64_t *)(void *)part.data,
                 length, parts};
    CR_GO(cr_loops_run(out->device, &loops, CR_F64, lines * parts, 256, &w));
    w = (xor_job){w.to, (uint64_t *)(void *)out->data, parts, 1};
    CR_GO(cr_loops_run(out->device, &loops, CR_F64, lines, 4096, &w));
done:
    cr_dense_drop(&from);
    cr_dense_drop(&part);
    return st;
}
