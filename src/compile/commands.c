/* Graphs as plans of commands: collected on a device, and run on the host. */
#include "compile/commands.h"
#include "plan/collect.h"
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
    cr_status st = in && made ? cr_collect_start(out, &cr_oracle) : CR_MEMORY;

    if (!st) {
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
        st = st ? st : ended;
    }
    drop_all(in, inputs);
    drop_all(made, outputs);
    return st;
}

/* --- running --- */

/* The bytes of the storage from the tensor's first element on. */
static size_t bytes_from(const cr_tensor *t)
{
    return t->storage->size - (size_t)(t->address - (char *)t->storage->chunk);
}

/* The memory of each buffer: of an input, or new. */
static cr_status give_memory(cr_plan_run *r, cr_storage **storage, cr_tensor *const *input,
                             int inputs)
{
    const cr_plan *p = r->plan;
    int next = 0;

    for (size_t b = 0; b < p->buffer.len; b++) {
        while (p->buffer.at[b].input && next < inputs && !input[next]->numel)
            next++;
        if (p->buffer.at[b].input && next == inputs)
            return cr_fail(CR_VALUE, "the plan has more inputs than %d", inputs);
        if (p->buffer.at[b].input) {
            cr_tensor *t = input[next++];
            storage[b] = cr_storage_keep(t->storage);
            CR_TRY(cr_plan_give(r, b, t->address, bytes_from(t)));
            continue;
        }
        CR_TRY(cr_storage_new(&storage[b], CR_HOST, p->buffer.at[b].bytes));
        CR_TRY(cr_plan_give(r, b, storage[b]->chunk, p->buffer.at[b].bytes));
    }
    return CR_OK;
}

static cr_status plan_output(cr_tensor **out, cr_plan_run *r, cr_storage **storage,
                             const cr_array *a)
{
    cr_dtype t = (cr_dtype)a->dtype;
    cr_storage *s;
    char *at;

    if (!a->data)
        return cr_tensor_new_strided(out, t, CR_HOST, a->ndim, a->size, a->stride);
    CR_TRY(cr_plan_place(&at, r, a->data));
    s = storage[cr_plan_buffer_of(a->data)];
    CR_TRY(cr_tensor_over(out, s, t, a->ndim, a->size, a->stride,
                          (at - (char *)s->chunk) / (int64_t)cr_dtype_size(t)));
    cr_storage_keep(s);
    return CR_OK;
}

cr_status cr_graph_run_plan(const cr_plan *p, const cr_executor *by, cr_tensor *const *input,
                            int inputs, cr_tensor **output)
{
    cr_storage **storage = cr_alloc_zero(p->buffer.len * sizeof *storage + 1);
    cr_plan_run r = cr_plan_start(p, by);
    size_t made = 0;
    cr_status st = storage ? give_memory(&r, storage, input, inputs) : CR_MEMORY;

    if (!st)
        st = cr_plan_execute(&r);
    for (; !st && made < p->output.len; made++)
        st = plan_output(&output[made], &r, storage, &p->output.at[made]);
    size_t whole = st && made ? made - 1 : made; /* the last one failed */
    cr_status ended = cr_plan_end(&r);
    st = st ? st : ended;
    for (size_t i = 0; st && i < whole; i++)
        cr_drop(output[i]);
    for (size_t b = 0; storage && b < p->buffer.len; b++)
        if (storage[b])
            cr_storage_drop(storage[b]);
    cr_free(storage);
    return st;
}
