/* Running a group's code.
 *
 * A group is the command KERNEL.  Its operands are placed: in place where the executor accepts
 * them, or else as dense copies; such results are copied back.  The host executes the command
 * through tiles (tiles.c), another device by one launch. */
#include "compile/code.h"
#include "tensor/geometry.h"
#include <string.h>

const cr_way cr_usual_way = {.name = "plain", .grain = 16384, .tile = 2048};

/* --- arguments and results --- */

cr_status cr_refuse_tensor(const cr_gvalue *v, const cr_tensor *t, const char *owner)
{
    return cr_fail(CR_RUNTIME, "%%%s is not what %s was made for: a tensor of %s and dtype %s",
                   v->name, owner, cr_view_text(t), cr_dtype_name((cr_dtype)t->dtype));
}

bool cr_tensor_has_strides(const cr_tensor *t, const int64_t *stride)
{
    for (int d = 0; d < t->ndim; d++)
        if (t->size[d] > 1 && t->stride[d] != stride[d])
            return false;
    return true;
}

/* True if the elements of `t` can be copied to the strides of `type`: no two positions of
 * `type` share an element. */
static bool may_lie_otherwise(const cr_tensor *t, const cr_gtype *type)
{
    return cr_tensor_has_sizes(t, type) &&
           (!type->stride || cr_is_dense_view(type->ndim, type->size, type->stride));
}

/* *otherwise: some tensors have other strides than the types.  That happens because strides of
 * dims of one element, which types leave out, can determine the strides of results of calls. */
static cr_status check_read(const cr_group_code *c, cr_tensor *const *read, int i,
                            const cr_gtype *type, bool *otherwise)
{
    bool so = cr_tensor_is_of(read[i], type);

    if (!so && !may_lie_otherwise(read[i], type))
        return cr_refuse_tensor(c->code.read[i], read[i], "its group");
    *otherwise = *otherwise || !so;
    if (read[i]->requires_grad && !cr_thread.no_grad)
        return cr_fail(CR_RUNTIME,
                       "a compiled group records no gradient, and %%%s requires one",
                       c->code.read[i]->name);
    return CR_OK;
}

static cr_status check_reads(const cr_group_code *c, cr_tensor *const *read, bool *otherwise)
{
    *otherwise = false;
    for (int k = c->outputs; k < c->operands; k++)
        if (c->operand[k].number >= 0)
            CR_TRY(check_read(c, read, c->operand[k].number, c->operand[k].type, otherwise));
    for (int s = 0; s < c->sources; s++)
        for (int k = 0; k < c->source[s].tensors; k++)
            CR_TRY(check_read(c, read, c->source[s].read[k], c->source[s].type[k], otherwise));
    return CR_OK;
}

static cr_status make_outputs(const cr_group_code *c, cr_tensor **output)
{
    for (int k = 0; k < c->outputs; k++) {
        const cr_gtype *t = c->operand[k].type;
        cr_tensor **out = &output[c->operand[k].number];
        if (!*out)
            CR_TRY(cr_tensor_new_strided(out, (cr_dtype)t->dtype, t->device, t->ndim, t->size,
                                         t->stride));
    }
    return CR_OK;
}

/* --- operands --- */

/* Whether the operand has one element along a dim of its group: it has one value for each row,
 * or all rows share it. */
static bool is_one_along(const cr_group_code *c, const cr_operand_plan *o, int d)
{
    bool last = d == c->over.ndim - 1;

    return !o->copied && (last ? o->row : o->shared);
}

/* The operand's elements along the dims of its group. */
static cr_view operand_view(const cr_group_code *c, const cr_operand_plan *o,
                            const cr_tensor *t, int64_t *size)
{
    cr_view v = cr_view_of(t);

    v.data += o->offset * (int64_t)cr_dtype_size((cr_dtype)t->dtype);
    v.ndim = (uint8_t)(o->copied ? c->over.space.ndim : c->over.ndim);
    v.stride = o->copied ? o->spread : o->step;
    for (int d = 0; d < v.ndim; d++)
        size[d] = o->copied               ? c->over.space.size[d]
                  : is_one_along(c, o, d) ? 1
                                          : c->over.size[d];
    v.size = size;
    return v;
}

/* Sets the first element of operand k, and its steps along the dims: those of the code, or of a
 * dense copy. */
static void set_operand(cr_group_command *g, int k, char *first, cr_dtype dtype, bool dense)
{
    const cr_operand_plan *o = &g->c->operand[k];
    int64_t item = (int64_t)cr_dtype_size(dtype), next = item;

    g->ptr[k] = first;
    for (int d = g->space->ndim - 1; d >= 0; d--) {
        bool one = is_one_along(g->c, o, d);
        g->space->dim[d].step[k] = !dense ? o->step[d] * item : one ? 0 : next;
        next *= one ? 1 : g->space->dim[d].size;
    }
}

/* Replaces operand k by a dense tensor. */
static cr_status move_operand(cr_group_command *g, int k, const cr_tensor *t, cr_dtype dtype)
{
    int64_t size[CR_REFINED_DIMS + CR_MAX_DIMS];
    cr_view from = operand_view(g->c, &g->c->operand[k], t, size);

    CR_TRY(cr_tensor_new(&g->moved[k], dtype, t->device, from.ndim, from.size));
    cr_view to = cr_view_of(g->moved[k]);
    set_operand(g, k, to.data, dtype, true);
    return k < g->c->outputs ? CR_OK : cr_copy_elements(&to, &from);
}

/* Copies a result from its dense tensor to its place. */
static cr_status return_operand(const cr_group_command *g, int k, const cr_tensor *out)
{
    int64_t size[CR_REFINED_DIMS + CR_MAX_DIMS];
    cr_view to = operand_view(g->c, &g->c->operand[k], out, size),
            from = cr_view_of(g->moved[k]);

    return cr_copy_elements(&to, &from);
}

/* True if the operand is staged only because its elements are halves, and the device's kernel
 * accesses these.  It rounds a result only where it keeps the result's values for later sweeps
 * in registers. */
static bool accepts_halves(const cr_group_code *c, int k, cr_device device)
{
    const cr_operand_plan *o = &c->operand[k];
    int last = c->over.ndim - 1;
    const cr_nest *n = cr_fused_nest(c->program->fused);

    return cr_kernel_accepts(device, (cr_dtype)o->dtype, (cr_dtype)o->lane) && o->number >= 0 &&
           (o->row || o->step[last] == 1 || c->over.size[last] == 1) &&
           (k >= c->outputs || !n->keeps ||
            (c->over.columns <= CR_FOLD_ROW && cr_nest_keeps_in_registers(n)));
}

static cr_status place_operand(cr_group_command *g, int k, const cr_tensor *t)
{
    const cr_operand_plan *o = &g->c->operand[k];
    cr_dtype dtype = (cr_dtype)o->dtype, lane = (cr_dtype)o->lane;
    bool host = cr_is_host(t->device);

    if (o->copied || (o->staged && !host && !accepts_halves(g->c, k, t->device)))
        return move_operand(g, k, t, host ? dtype : lane);
    if (!host)
        cr_stored_note(&g->stored, k, dtype, lane);
    set_operand(g, k, t->address + o->offset * (int64_t)cr_dtype_size(dtype), dtype, false);
    return CR_OK;
}

static void place_sources(cr_group_command *g, cr_tensor *const *read)
{
    for (int i = 0; i < g->c->sources; i++) {
        const cr_source_plan *x = &g->c->source[i];
        g->source[i].part = x->part;
        for (int k = 0; k < x->tensors; k++)
            g->source[i].data[k] = read[x->read[k]]->address;
    }
}

static cr_status place_operands(cr_group_command *g, cr_tensor *const *read,
                                cr_tensor *const *output)
{
    const cr_group_code *c = g->c;

    cr_space_start(g->space, c->operands);
    for (int d = 0; d < c->over.ndim; d++)
        memset(cr_space_add(g->space, c->over.size[d], d), 0,
               (size_t)c->operands * sizeof(int64_t));
    for (int k = 0; k < c->operands; k++) {
        int i = c->operand[k].number;
        if (!cr_group_is_source(c, k))
            CR_TRY(place_operand(g, k, k < c->outputs ? output[i] : read[i]));
    }
    place_sources(g, read);
    return CR_OK;
}

/* --- the command --- */

/* True for the failure of a device's compiler. */
static bool is_refusal(cr_status st)
{
    return st == CR_RUNTIME || st == CR_TYPE || st == CR_VALUE || st == CR_NOT_IMPLEMENTED;
}

/* One launch on another device than the host; *refused is set if it has no kernel. */
static cr_status launch(const cr_group_command *g, bool *refused)
{
    const cr_group_code *c = g->c;
    const cr_space_dim *rows = cr_space_last(g->space, 1);
    int64_t stride[2 * CR_GROUP_OPERANDS];
    cr_placed_kernel kernel;
    cr_status st =
        cr_place_fused(&kernel, c->operand[0].type->device, c->program->fused, &g->stored);

    *refused = is_refusal(st);
    CR_TRY(st);
    for (int k = 0; k < c->operands; k++) {
        const cr_operand_plan *o = &c->operand[k];
        stride[2 * k] = rows->step[k];
        stride[2 * k + 1] =
            o->row ? 0 : (int64_t)cr_dtype_size((cr_dtype)(g->moved[k] ? o->lane : o->dtype));
    }
    return cr_launch_space(&kernel,
                           &(cr_launch){.operands = c->operands,
                                        .pointer = (void *const *)g->ptr,
                                        .stride = stride,
                                        .size = {rows->size, c->over.columns},
                                        .param = c->param,
                                        .param_bytes = c->param_bytes},
                           g->space, g->space->ndim > 2 ? g->space->ndim - 2 : 0);
}

static cr_status run_code(const cr_group_code *c, const cr_way *way, cr_tensor *const *read,
                          cr_tensor **output, bool *refused)
{
    cr_space space;
    cr_group_command g = {.c = c, .space = &space};
    cr_status st;

    CR_TRY(make_outputs(c, output));
    if (c->over.empty)
        return CR_OK;
    CR_GO(place_operands(&g, read, output));
    CR_GO(cr_is_host(c->operand[0].type->device) ? cr_group_execute(&g, way)
                                                 : launch(&g, refused));
    for (int k = 0; k < c->outputs; k++)
        if (g.moved[k])
            CR_GO(return_operand(&g, k, output[c->operand[k].number]));
done:
    for (int k = 0; k < c->operands; k++)
        cr_drop(g.moved[k]);
    return st;
}

/* --- without tiles and native code --- */

/* Copies `t` to a tensor with these strides; NULL: row-major. */
static cr_status laid_out(cr_tensor **out, const cr_tensor *t, const int64_t *stride)
{
    cr_tensor *made = NULL;
    cr_view to, from = cr_view_of(t);

    CR_TRY(
        cr_tensor_new_strided(&made, (cr_dtype)t->dtype, t->device, t->ndim, t->size, stride));
    to = cr_view_of(made);
    cr_status st = cr_copy_elements(&to, &from);
    CR_GIVE(st, out, made, cr_drop);
}

/* Copies *result if anything else shares its storage, or if it does not have the strides of
 * `type`: results of code are new. */
static cr_status own_result(cr_tensor **result, const cr_gtype *type)
{
    cr_tensor *t = *result;

    if (cr_tensor_lies_so(t, type) &&
        atomic_load_explicit(&t->count, memory_order_acquire) == 1 &&
        atomic_load_explicit(&t->storage->count, memory_order_acquire) == 1)
        return CR_OK;
    CR_TRY(laid_out(result, t, type->stride));
    cr_drop(t);
    return CR_OK;
}

/* Calls the nodes one at a time.  A tensor given for the result is also an argument, so that it
 * is dropped afterwards. */
static cr_status run_nodes(const cr_group_code *c, cr_tensor *const *read, cr_tensor **output)
{
    cr_tensor *over = output[0];
    cr_status st;

    output[0] = NULL;
    st = cr_program_run(c->nodes, read, NULL, output);
    for (int k = 0; !st && k < c->outputs; k++)
        st = own_result(&output[c->operand[k].number], c->operand[k].type);
    cr_drop(over);
    return st;
}

/* True if the group has tiles or native code; native code stays once it is compiled.  A device
 * compiles at the first run. */
static bool has_code(const cr_group_code *c)
{
    return !c->nodes || c->over.empty || !cr_is_host(c->operand[0].type->device) ||
           cr_fused_has_tiles(c->program->fused) ||
           cr_jit_function(cr_fused_kernel(c->program->fused));
}

/* Calls the nodes if the device cannot compile the kernel. */
cr_status cr_group_run_way(const cr_group_code *c, const cr_way *way, cr_tensor *const *read,
                           cr_tensor **output)
{
    bool refused = false;
    cr_status st;

    if (way->calls || !has_code(c))
        return run_nodes(c, read, output);
    st = run_code(c, way, read, output, &refused);
    if (!refused || !c->nodes)
        return st;
    for (int k = 0; k < c->outputs; k++) {
        int i = c->operand[k].number;
        if (i > 0) {
            cr_drop(output[i]);
            output[i] = NULL;
        }
    }
    return run_nodes(c, read, output);
}

static cr_status run(const cr_group_code *c, cr_tensor *const *read, cr_tensor **output)
{
    return CR_UNLIKELY(c->tuner && cr_is_host(c->operand[0].type->device))
               ? cr_tuner_run(c->tuner, read, output)
               : cr_group_run_way(c, &cr_usual_way, read, output);
}

static cr_status lay_read(cr_tensor **made, cr_tensor *const *read, int i, const cr_gtype *type)
{
    return made[i] || cr_tensor_lies_so(read[i], type)
               ? CR_OK
               : laid_out(&made[i], read[i], type->stride);
}

static cr_status run_laid_out(const cr_group_code *c, cr_tensor *const *read,
                              cr_tensor **output)
{
    size_t n = (size_t)c->code.read_count;
    cr_tensor **all = cr_alloc_zero((2 * n + 1) * sizeof *all), **made;
    cr_tensor *over = output[0]; /* may be an argument that the result may overwrite */
    cr_status st = CR_OK;

    CR_NEED(all);
    made = all + n;
    output[0] = NULL;
    for (int k = c->outputs; !st && k < c->operands; k++)
        if (c->operand[k].number >= 0)
            st = lay_read(made, read, c->operand[k].number, c->operand[k].type);
    for (int s = 0; s < c->sources; s++)
        for (int k = 0; !st && k < c->source[s].tensors; k++)
            st = lay_read(made, read, c->source[s].read[k], c->source[s].type[k]);
    for (size_t i = 0; !st && i < n; i++)
        all[i] = made[i] ? made[i] : read[i];
    if (!st)
        st = run(c, all, output);
    cr_drop(over);
    for (size_t i = 0; i < n; i++)
        cr_drop(made[i]);
    cr_free(all);
    return st;
}

cr_status cr_group_run(const cr_gcode *code, cr_tensor *const *read, cr_tensor **output)
{
    const cr_group_code *c = (const cr_group_code *)code;
    bool otherwise;
    cr_status st = check_reads(c, read, &otherwise);

    if (!st)
        st = CR_UNLIKELY(otherwise) ? run_laid_out(c, read, output) : run(c, read, output);
    for (int k = 0; st && k < c->results; k++) {
        cr_drop(output[k]);
        output[k] = NULL;
    }
    return st;
}
