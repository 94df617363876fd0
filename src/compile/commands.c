/* Graphs as plans of commands: collected on a device. */
#include "compile/commands.h"
#include "plan/collect.h"
#include "tensor/defer.h"
#include <string.h>

/* --- collecting --- */

static size_t span_bytes(const cr_tensor *t)
{
    int64_t last = 0;

    for (int d = 0; d < t->ndim; d++)
        last += (t->size[d] - 1) * t->stride[d];
    return t->numel ? (size_t)(last + 1) * cr_dtype_size((cr_dtype)t->dtype) : 0;
}

/* The input on the device that collects. */
static cr_status bring_input(cr_tensor **out, const cr_tensor *t)
{
    if (!cr_is_host(t->device) || (t->numel && !t->address) || t->conj || t->neg)
        return cr_fail(CR_RUNTIME, "inputs of a plan are plain tensors on the host");
    CR_TRY(cr_tensor_new_strided(out, (cr_dtype)t->dtype, cr_collect_device(), t->ndim, t->size,
                                 t->stride));
    return cr_collect_input((*out)->address, t->address, span_bytes(t));
}

/* Gives inputs that wait for deferred calls their elements. */
static cr_status settle(cr_tensor *const *input, int n)
{
    for (int i = 0; i < n; i++)
        CR_TRY(cr_defer_settle(input[i]));
    return CR_OK;
}

static cr_status add_outputs(cr_plan *p, cr_tensor *const *made, int n)
{
    for (int i = 0; i < n; i++)
        if (made[i])
            CR_TRY(cr_plan_add_output(p, &(cr_array){made[i]->address, made[i]->dtype,
                                                     made[i]->ndim, made[i]->size,
                                                     made[i]->stride}));
    return CR_OK;
}

static void drop_all(cr_tensor **t, int n)
{
    for (int i = 0; t && i < n; i++)
        cr_drop(t[i]);
    cr_free(t);
}

cr_status cr_graph_plan(cr_plan *out, const cr_graph *g, cr_tensor *const *input)
{
    int inputs = g->input_count, outputs = g->body->output_count;
    cr_tensor **in = cr_alloc_zero((size_t)inputs * sizeof *in + 1),
              **made = cr_alloc_zero((size_t)outputs * sizeof *made + 1);
    cr_status st = in && made ? settle(input, inputs) : CR_MEMORY;

    st = st ? st : cr_collect_start(out, &cr_oracle);
    if (!st) {
        cr_defer_pause(1);
        for (int i = 0; !st && i < inputs; i++)
            st = bring_input(&in[i], input[i]);
        if (!st)
            st = cr_graph_run_on(g, cr_collect_device(), in, made);
        if (!st)
            st = add_outputs(out, made, outputs);
        for (int i = 0; i < inputs; i++) {
            cr_drop(in[i]);
            in[i] = NULL;
        }
        for (int i = 0; i < outputs; i++) {
            cr_drop(made[i]);
            made[i] = NULL;
        }
        cr_status ended = cr_collect_end();
        cr_defer_pause(-1);
        st = st ? st : ended;
    }
    drop_all(in, inputs);
    drop_all(made, outputs);
    return st;
}
