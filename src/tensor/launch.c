/* Elementwise entries on other devices than the host: a launch for all elements.
 *
 * Operands that a kernel cannot read in place are moved first; a result of another layout or
 * dtype is moved afterwards. */
#include "loop/build.h"
#include "loop/libm.h"
#include "space/space.h"
#include "tensor/geometry.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <string.h>

/* A launch has at most FLAT_OUTER dims outside its rows and columns. */
enum { FLAT_OUTER = 6, FLAT_DIMS = FLAT_OUTER + 2 };

/* The operands of one launch.  Each has the layout of the first result, is one element, or
 * is broadcast: it then has a step for each of the dims.
 * Invariant: ptr, stride, stored and number have `count` entries in use. Without broadcasts,
 * outer is 0 and size is {1, numel}. */
typedef struct {
    const cr_tensor *like; /* has the sizes and strides of the launch */
    cr_device device;
    int count;
    uint64_t numbers;
    int outer;               /* dims outside the rows */
    int64_t size[FLAT_DIMS]; /* the last two are rows and columns; {1, numel} without broadcast
                              * operands */
    bool broadcasts;
    int reads;
    const cr_tensor *read[CR_MAX_OPERANDS]; /* that are broadcast */
    cr_space *space;                        /* steps in elements */
    void *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS], outer_stride[FLAT_OUTER * CR_MAX_OPERANDS]; /* bytes */
    cr_stored stored;
    _Alignas(16) char number[CR_MAX_OPERANDS][16];
    cr_tensor *made[CR_MAX_OPERANDS];
} flat_call;

static bool lies_like(const cr_tensor *t, const cr_tensor *like)
{
    if (t->ndim != like->ndim || memcmp(t->size, like->size, t->ndim * sizeof *t->size))
        return false;
    return (t->contiguous && like->contiguous) ||
           !memcmp(t->stride, like->stride, t->ndim * sizeof *t->stride);
}

static void flat_put_steps(flat_call *c, void *p, cr_dtype dtype, const int64_t *step)
{
    int64_t item = (int64_t)cr_dtype_size(dtype);

    c->ptr[c->count] = p;
    for (int d = 0; d < c->outer; d++)
        c->outer_stride[c->count * c->outer + d] = step[d] * item;
    c->stride[2 * c->count] = step[c->outer] * item;
    c->stride[2 * c->count + 1] = step[c->outer + 1] * item;
    c->count++;
}

static void flat_put(flat_call *c, void *p, cr_dtype dtype, bool one)
{
    int64_t step[FLAT_DIMS] = {0};

    if (!one)
        cr_row_major_strides(step, c->outer + 2, c->size);
    flat_put_steps(c, p, dtype, step);
}

/* --- operands that are broadcast --- */

/* True if a launch can read the tensor in place with steps. */
static bool flat_is_broadcast(const flat_call *c, const cr_tensor *t, cr_dtype want)
{
    return cr_kernel_accepts(c->device, (cr_dtype)t->dtype, want) && t->numel != 1 &&
           !cr_is_host(t->device) && !lies_like(t, c->like);
}

/* Lists the tensors that are broadcast. */
static void flat_find_broadcasts(flat_call *c, const cr_op *op, const cr_value *arg,
                                 cr_dtype compute)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        int i = (int)CR_CTZ(mask);
        cr_dtype want = op->mask_params >> i & 1 ? CR_BOOL : compute;
        if (arg[i].tag == CR_TENSOR && flat_is_broadcast(c, arg[i].t, want))
            c->read[c->reads++] = arg[i].t;
    }
}

/* The dims in the order of the first result's memory, merged where all broadcast operands allow
 * it; operand 0 of the space is the result. */
static void flat_lay_out(const flat_call *c)
{
    const cr_tensor *like = c->like;

    cr_space_start(c->space, 1 + c->reads);
    for (int d = 0; d < like->ndim; d++) {
        int64_t *step = cr_space_add(c->space, like->size[d], d);
        step[0] = like->stride[d];
        for (int i = 0; i < c->reads; i++) {
            const cr_tensor *t = c->read[i];
            step[1 + i] = cr_broadcast_step(t->ndim, t->size, t->stride, like->ndim, d);
        }
    }
    cr_space_order(c->space);
    cr_space_merge(c->space, 0);
}

/* A launch reads broadcast operands in place when FLAT_DIMS dims remain at most, along the last
 * of which each has step 0 or 1. */
static void flat_find_dims(flat_call *c, const cr_op *op, const cr_value *arg, cr_dtype compute)
{
    int dims;

    flat_find_broadcasts(c, op, arg, compute);
    if (!c->reads)
        return;
    flat_lay_out(c);
    for (int i = 0; i < c->reads; i++)
        if (cr_space_last(c->space, 0)->step[1 + i] & ~(int64_t)1)
            return;
    dims = c->space->ndim < 2 ? 2 : c->space->ndim;
    if (dims > FLAT_DIMS)
        return;
    c->outer = dims - 2;
    for (int d = 0; d < dims; d++)
        c->size[d] = cr_space_last(c->space, dims - 1 - d)->size;
    c->broadcasts = true;
}

/* The tensor's steps along the dims of the launch. */
static void flat_put_broadcast(flat_call *c, const cr_tensor *t, cr_dtype want)
{
    int64_t step[FLAT_DIMS];
    int i = 0;

    while (c->read[i] != t)
        i++;
    for (int d = 0; d < c->outer + 2; d++)
        step[d] = cr_space_last(c->space, c->outer + 1 - d)->step[1 + i];
    cr_stored_note(&c->stored, c->count, (cr_dtype)t->dtype, want);
    flat_put_steps(c, t->address, (cr_dtype)t->dtype, step);
}

static void flat_put_number(flat_call *c, cr_scalar value, cr_dtype want)
{
    cr_scalar_store(value, want, c->number[c->count]);
    c->numbers |= (uint64_t)1 << c->count;
    flat_put(c, c->number[c->count], want, true);
}

/* A copy of `t` in the kernel's dtype, with the first result's layout. */
static cr_status flat_copy(cr_tensor **out, const flat_call *c, const cr_tensor *t,
                           cr_dtype want)
{
    const cr_tensor *like = c->like;
    cr_tensor *made;

    CR_TRY(cr_tensor_new_strided(&made, want, c->device, like->ndim, like->size, like->stride));
    cr_view to = cr_view_of(made), from = cr_view_of(t);
    cr_status st = cr_copy_elements(&to, &from);
    CR_GIVE(st, out, made, cr_drop);
}

static cr_status flat_put_tensor(flat_call *c, cr_tensor *t, cr_dtype want)
{
    cr_scalar value;

    if (cr_is_host(t->device)) { /* a 0-d tensor; others are refused before */
        CR_TRY(cr_tensor_item(&value, t));
        flat_put_number(c, value, want);
        return CR_OK;
    }
    if (cr_kernel_accepts(c->device, (cr_dtype)t->dtype, want) &&
        (t->numel == 1 || lies_like(t, c->like))) {
        cr_stored_note(&c->stored, c->count, (cr_dtype)t->dtype, want);
        flat_put(c, t->address, (cr_dtype)t->dtype, t->numel == 1);
        return CR_OK;
    }
    if (c->broadcasts && flat_is_broadcast(c, t, want)) {
        flat_put_broadcast(c, t, want);
        return CR_OK;
    }
    int k = c->count;
    CR_TRY(flat_copy(&c->made[k], c, t, want));
    flat_put(c, c->made[k]->address, want, false);
    return CR_OK;
}

/* Adds a result.  The launch writes it directly when it has the first result's layout and
 * shares no memory with an operand; otherwise it writes a copy. */
static cr_status flat_put_result(flat_call *c, cr_tensor *t, cr_dtype want, bool apart)
{
    int k = c->count;

    if (cr_kernel_accepts(c->device, (cr_dtype)t->dtype, want) && lies_like(t, c->like) &&
        apart) {
        cr_stored_note(&c->stored, k, (cr_dtype)t->dtype, want);
        flat_put(c, t->address, (cr_dtype)t->dtype, false);
        return CR_OK;
    }
    CR_TRY(cr_tensor_new_strided(&c->made[k], want, c->device, c->like->ndim, c->like->size,
                                 c->like->stride));
    flat_put(c, c->made[k]->address, want, false);
    return CR_OK;
}

static cr_status flat_put_arguments(flat_call *c, const cr_op *op, const cr_value *arg,
                                    cr_dtype compute)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        int i = (int)CR_CTZ(mask);
        cr_dtype want = op->mask_params >> i & 1 ? CR_BOOL : compute;
        if (arg[i].tag == CR_TENSOR)
            CR_TRY(flat_put_tensor(c, arg[i].t, want));
        else if (arg[i].tag == CR_NUMBER)
            flat_put_number(c, arg[i].number, want);
        else
            return cr_fail(CR_TYPE, "%s(): argument '%s' must be Tensor, not None", op->name,
                           op->param[i].name);
    }
    return CR_OK;
}

/* True if the launch may write `out`: no argument shares its memory, except for one that has
 * the same elements at the same addresses, because a thread reads its elements before it
 * writes. */
static bool apart_from_arguments(const cr_op *op, const cr_value *arg, const cr_tensor *out)
{
    for (uint32_t mask = op->tensor_params; mask; mask &= mask - 1) {
        const cr_value *v = &arg[CR_CTZ(mask)];
        if (v->tag == CR_TENSOR && cr_meets(v->t, out) &&
            (v->t->address != out->address || v->t->dtype != out->dtype ||
             !lies_like(v->t, out)))
            return false;
    }
    return true;
}

/* A tensor whose layout the launch uses: `out` when it is dense, or else a row-major fake. */
static cr_status flat_layout(cr_tensor **like, cr_tensor *out)
{
    if (cr_is_dense(out)) {
        *like = cr_keep(out);
        return CR_OK;
    }
    return cr_tensor_new(like, (cr_dtype)out->dtype, cr_as_fake(out->device), out->ndim,
                         out->size);
}

/* --- calls --- */

/* True if the host must compute the entry: its kernel calls functions of complex numbers. */
static bool body_is_hosts(const cr_op *op, cr_dtype compute, cr_device device)
{
    cr_fn_set calls = {{false}, 0};

    return cr_kind_facts(device)->lacks_complex && cr_dtype_is_complex(compute) &&
           !cr_op_libm(&calls, op, compute) && calls.count > 0;
}

static cr_status flat_launch(const flat_call *c, const cr_placed_kernel *kernel,
                             const cr_params *params)
{
    return cr_launch_kernel(kernel,
                            &(cr_launch){.operands = c->count,
                                         .pointer = c->ptr,
                                         .numbers = c->numbers,
                                         .stride = c->stride,
                                         .size = {c->size[c->outer], c->size[c->outer + 1]},
                                         .param = params->slot,
                                         .param_bytes = sizeof params->slot,
                                         .outer = c->outer,
                                         .outer_size = c->size,
                                         .outer_stride = c->outer_stride});
}

cr_status cr_remote_body(const cr_op *op, const cr_value *arg, cr_tensor *const *out,
                         cr_dtype compute, const cr_dtype *kernel_result)
{
    cr_space space;
    flat_call c = {.device = out[0]->device, .space = &space};
    cr_placed_kernel kernel;
    cr_tensor *like = NULL;
    cr_params params;
    cr_status st;

    if (!out[0]->numel)
        return CR_OK;
    if (body_is_hosts(op, compute, c.device))
        return cr_remote_body_on_host(op, arg, out);
    CR_GO(flat_layout(&like, out[0]));
    c.like = like;
    c.size[0] = 1;
    c.size[1] = out[0]->numel;
    flat_find_dims(&c, op, arg, cr_dtype_compute(compute));
    for (int k = 0; k < op->result_count; k++)
        CR_GO(flat_put_result(&c, out[k], kernel_result[k],
                              apart_from_arguments(op, arg, out[k])));
    CR_GO(flat_put_arguments(&c, op, arg, cr_dtype_compute(compute)));
    CR_GO(cr_place_stored(&kernel, c.device, op, compute, CR_FORM_MAIN, &c.stored));
    cr_start_params(&params, c.device);
    cr_fill_params(&params, op, arg, cr_dtype_compute(compute));
    CR_GO(flat_launch(&c, &kernel, &params));
    for (int k = 0; k < op->result_count; k++)
        if (c.made[k]) {
            cr_view to = cr_view_of(out[k]), from = cr_view_of(c.made[k]);
            CR_GO(cr_copy_elements(&to, &from));
        }
done:
    for (int k = 0; k < CR_MAX_OPERANDS; k++)
        cr_drop(c.made[k]);
    cr_drop(like);
    return st;
}
