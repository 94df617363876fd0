/* Graphs as plans of commands: collected on a device. */
#include "compile/commands.h"
#include "compile/compile.h"
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

/* --- values that nothing reads --- */

typedef struct {
    const cr_plan *p;
    bool *read; /* by buffer: by a later command, or by the caller */
} readers;

static void note_read(void *context, const char *address)
{
    readers *r = context;
    size_t b = address ? cr_plan_buffer_of(address) : SIZE_MAX;

    if (b < r->p->buffer.len)
        r->read[b] = true;
}

static bool is_read(const readers *r, const char *address)
{
    size_t b = address ? cr_plan_buffer_of(address) : SIZE_MAX;

    return b < r->p->buffer.len && r->read[b];
}

/* Whether a command only writes buffers that nothing reads afterwards, and cannot fail. */
static cr_status is_unread(bool *out, const readers *r, const cr_command *c)
{
    cr_plan_operand operand[CR_PLAN_OPERANDS];

    *out = false;
    if (c->kind == CR_COMMAND_MOVE)
        *out = !is_read(r, c->move.to.data);
    if (c->kind == CR_COMMAND_FILL)
        *out = !is_read(r, c->fill.to.data);
    if (c->kind != CR_COMMAND_KERNEL)
        return CR_OK;
    CR_TRY(cr_oracle.operands(&c->kernel, operand));
    *out = true;
    for (int k = 0; k < c->kernel.operands; k++)
        *out = *out && !(operand[k].written && is_read(r, c->kernel.pointer[k]));
    return CR_OK;
}

/* Removes the commands whose results nothing reads, as attention's logarithms of sums are in
 * inference. */
static cr_status drop_unread(cr_plan *p)
{
    size_t n = p->command.len, kept = 0, b = 0;
    readers r = {p, cr_alloc_zero(p->buffer.len + 1)};
    bool *unread = cr_alloc_zero(n + 1);
    cr_status st = r.read && unread ? CR_OK : CR_MEMORY;

    for (size_t k = 0; !st && k < p->buffer.len; k++)
        r.read[k] = p->buffer.at[k].input;
    for (size_t k = 0; !st && k < p->output.len; k++)
        note_read(&r, p->output.at[k].data);
    for (size_t i = n; !st && i-- > 0;) {
        st = is_unread(&unread[i], &r, p->command.at[i]);
        if (!st && !unread[i])
            cr_command_each_address(p->command.at[i], note_read, &r);
    }
    for (size_t i = 0; !st && i < n; i++) {
        for (; b < p->buffer.len && p->buffer.at[b].before <= i; b++)
            p->buffer.at[b].before = kept;
        if (!unread[i])
            p->command.at[kept++] = p->command.at[i];
    }
    for (; !st && b < p->buffer.len; b++)
        p->buffer.at[b].before = kept;
    p->command.len = st ? n : kept;
    cr_free(r.read);
    cr_free(unread);
    return st;
}

/* --- groups --- */

typedef struct {
    const cr_graph *from;
    cr_device device;
    cr_graph *made;
} grouping;

static void move_block(cr_gblock *b, cr_device device)
{
    for (size_t i = 0; i < b->len; i++) {
        cr_gnode *n = b->at[i];
        for (int k = 0; k < n->result_count; k++)
            n->result[k]->type.device = device;
        for (int k = 0; k < cr_gnode_blocks(n); k++)
            move_block(n->block[k], device);
    }
}

/* Makes the groups of a graph whose values are on the device. */
static void make_groups(cr_session *s, void *context)
{
    grouping *x = context;
    cr_graph *g = cr_graph_copy(s, x->from);

    for (int i = 0; i < g->input_count; i++)
        g->input[i]->type.device = x->device;
    move_block(g->body, x->device);
    x->made = g; /* also where the next call ends the session */
    x->made = cr_compile_group(g);
    if (x->made != g)
        cr_graph_drop(g);
}

static cr_status run_groups(const cr_graph *g, cr_device device, cr_tensor *const *input,
                            cr_tensor **output)
{
    cr_session s = {.status = CR_OK};
    grouping x = {g, device, NULL};
    cr_compiled *code = NULL;
    cr_status st = cr_session_run(&s, make_groups, &x);

    if (!st)
        st = cr_compile_code(&code, x.made, 0);
    if (!st)
        st = cr_graph_run_on(x.made, device, input, output);
    cr_compiled_drop(code);
    cr_graph_drop(x.made);
    cr_session_drop(&s);
    return st;
}

/* --- plans --- */

typedef cr_status (*runner)(const cr_graph *g, cr_device device, cr_tensor *const *input,
                            cr_tensor **output);

static cr_status plan_by(cr_plan *out, const cr_graph *g, cr_tensor *const *input, runner run)
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
            st = run(g, cr_collect_device(), in, made);
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
        st = st ? st : ended ? ended : drop_unread(out);
    }
    drop_all(in, inputs);
    drop_all(made, outputs);
    return st;
}

cr_status cr_graph_plan(cr_plan *out, const cr_graph *g, cr_tensor *const *input)
{
    return plan_by(out, g, input, cr_graph_run_on);
}

cr_status cr_graph_group_plan(cr_plan *out, const cr_graph *g, cr_tensor *const *input)
{
    return plan_by(out, g, input, run_groups);
}
