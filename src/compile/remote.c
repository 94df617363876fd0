/* Running a group's code on another device than the host.
 *
 * Operands that the kernel cannot read in place, or that have another dtype, are first copied
 * to dense tensors of the kernel's dtype; such results are copied back afterwards.  One launch
 * computes all rows. */
#include "tensor/remote.h"
#include "compile/code.h"
#include "tensor/geometry.h"
#include <string.h>

typedef struct {
    const cr_group_code *c;
    cr_placed_kernel kernel;
    cr_tensor *moved[CR_GROUP_OPERANDS]; /* or NULL: used in place */
    cr_stored stored;
    char *ptr[CR_GROUP_OPERANDS];
    int64_t step[CR_GROUP_OPERANDS][CR_REFINED_DIMS]; /* bytes */
} remote_run;

/* The operand's elements along the dims of its group; an operand with one value for each row
 * has one column. */
static cr_view operand_view(const cr_group_code *c, const cr_operand_plan *o,
                            const cr_tensor *t, int64_t *size)
{
    cr_view v = cr_view_of(t);

    v.data += o->offset * (int64_t)cr_dtype_size((cr_dtype)t->dtype);
    v.ndim = (uint8_t)(o->copied ? c->space.ndim : c->ndim);
    v.stride = o->copied ? o->spread : o->step;
    for (int d = 0; d < v.ndim; d++)
        size[d] = o->copied ? c->space.size[d] : c->size[d];
    if (o->row && !o->copied)
        size[c->ndim - 1] = 1;
    v.size = size;
    return v;
}

/* Replaces the operand by a dense tensor. */
static cr_status move_operand(remote_run *r, int k, const cr_tensor *t)
{
    const cr_group_code *c = r->c;
    const cr_operand_plan *o = &c->operand[k];
    int64_t size[CR_REFINED_DIMS + CR_MAX_DIMS];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->lane), step = item;
    cr_view from = operand_view(c, o, t, size);

    CR_TRY(cr_tensor_new(&r->moved[k], (cr_dtype)o->lane, t->device, from.ndim, from.size));
    cr_view to = cr_view_of(r->moved[k]);
    r->ptr[k] = to.data;
    for (int d = c->ndim - 1; d >= 0; d--) {
        bool one = o->row && !o->copied && d == c->ndim - 1;
        r->step[k][d] = one ? 0 : step;
        step *= one ? 1 : c->size[d];
    }
    return k < c->outputs ? CR_OK : cr_copy_elements(&to, &from);
}

/* True if the operand is staged only because its elements are halves, and the kernel accesses
 * these.  It rounds a result only where it keeps the result's values for later sweeps in
 * registers. */
static bool accepts_halves(const remote_run *r, int k, const cr_tensor *t)
{
    const cr_group_code *c = r->c;
    const cr_operand_plan *o = &c->operand[k];
    int last = c->ndim - 1;
    const cr_nest *n = cr_fused_nest(c->program->fused);

    return cr_kernel_accepts(t->device, (cr_dtype)o->dtype, (cr_dtype)o->lane) &&
           o->number >= 0 && (o->row || o->step[last] == 1 || c->size[last] == 1) &&
           (k >= c->outputs || !n->keeps || (n->keeps == 1 && c->columns <= CR_FOLD_ROW));
}

static cr_status place_operand(remote_run *r, int k, const cr_tensor *t)
{
    const cr_operand_plan *o = &r->c->operand[k];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)o->dtype);

    if (o->copied || (o->staged && !accepts_halves(r, k, t)))
        return move_operand(r, k, t);
    cr_stored_note(&r->stored, k, (cr_dtype)o->dtype, (cr_dtype)o->lane);
    r->ptr[k] = t->address + o->offset * item;
    for (int d = 0; d < r->c->ndim; d++)
        r->step[k][d] = o->step[d] * item;
    return CR_OK;
}

static int64_t element_bytes(const remote_run *r, int k)
{
    return (int64_t)cr_dtype_size(
        (cr_dtype)(r->stored.dtype[k] ? r->stored.dtype[k] : r->c->operand[k].lane));
}

/* Launches the kernel for all planes. */
static cr_status launch_planes(const remote_run *r)
{
    const cr_group_code *c = r->c;
    int outer = c->ndim > 2 ? c->ndim - 2 : 0;
    int64_t stride[2 * CR_GROUP_OPERANDS], outer_stride[CR_GROUP_OPERANDS * CR_REFINED_DIMS];

    for (int k = 0; k < c->operands; k++) {
        stride[2 * k] = c->ndim > 1 ? r->step[k][c->ndim - 2] : 0;
        stride[2 * k + 1] = c->operand[k].row ? 0 : element_bytes(r, k);
        memcpy(&outer_stride[k * outer], r->step[k], (size_t)outer * sizeof *outer_stride);
    }
    return cr_launch_kernel(
        &r->kernel, &(cr_launch){.operands = c->operands,
                                 .pointer = (void *const *)r->ptr,
                                 .stride = stride,
                                 .size = {c->ndim > 1 ? c->size[c->ndim - 2] : 1, c->columns},
                                 .param = c->param,
                                 .param_bytes = c->param_bytes,
                                 .outer = outer,
                                 .outer_size = c->size,
                                 .outer_stride = outer_stride});
}

/* Copies a result from its dense tensor to its place. */
static cr_status return_operand(const remote_run *r, int k, const cr_tensor *out)
{
    int64_t size[CR_REFINED_DIMS + CR_MAX_DIMS];
    cr_view to = operand_view(r->c, &r->c->operand[k], out, size),
            from = cr_view_of(r->moved[k]);

    return cr_copy_elements(&to, &from);
}

/* True for the failure of a device's compiler. */
static bool is_refusal(cr_status st)
{
    return st == CR_RUNTIME || st == CR_TYPE || st == CR_VALUE || st == CR_NOT_IMPLEMENTED;
}

cr_status cr_group_run_remote(const cr_group_code *c, cr_tensor *const *read,
                              cr_tensor **output, bool *refused)
{
    remote_run r = {.c = c};
    cr_status st;

    for (int k = 0; k < c->operands; k++) {
        int i = c->operand[k].number;
        CR_GO(place_operand(&r, k, k < c->outputs ? output[i] : read[i]));
    }
    st = cr_place_fused(&r.kernel, c->operand[0].type->device, c->program->fused, &r.stored);
    *refused = is_refusal(st);
    CR_GO(st);
    CR_GO(launch_planes(&r));
    for (int k = 0; k < c->outputs; k++)
        if (r.moved[k])
            CR_GO(return_operand(&r, k, output[c->operand[k].number]));
done:
    for (int k = 0; k < c->operands; k++)
        cr_drop(r.moved[k]);
    return st;
}
