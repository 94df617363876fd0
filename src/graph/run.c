/* Runs a graph: its nodes in order, through all stages. */
#include "graph/graph.h"
#include "tensor/defer.h"
#include "tensor/plain.h"
#include <string.h>

/* Tensors by value id.  A tensor is dropped after its last reader. */
typedef struct {
    const cr_graph *g;
    cr_tensor **at;
    uint32_t *readers; /* readers that have not run yet */
    bool fakes;        /* tensors are fakes */
    cr_device device;  /* of tensors that are made without one */
} machine;

/* --- readers --- */

static void count_read(void *context, cr_gvalue *v) { ((machine *)context)->readers[v->id]++; }

/* The tensor, or its copy, on another device than the host. */
static cr_status machine_bring(const machine *m, cr_tensor **t)
{
    cr_tensor *host = *t;

    if (!host || cr_is_host(m->device) || !cr_is_host(host->device))
        return CR_OK;
    CR_TRY(cr_copy_as(t, host, (cr_dtype)host->dtype, m->device, CR_FORMAT_PRESERVE));
    cr_drop(host);
    return CR_OK;
}

static void machine_put(machine *m, const cr_gvalue *v, cr_tensor *t)
{
    cr_drop(m->at[v->id]);
    m->at[v->id] = m->readers[v->id] ? t : NULL;
    if (!m->readers[v->id])
        cr_drop(t);
}

static void read_once(void *context, cr_gvalue *v)
{
    machine *m = context;

    if (--m->readers[v->id])
        return;
    cr_drop(m->at[v->id]);
    m->at[v->id] = NULL;
}

/* --- arguments --- */

static cr_status machine_arg(cr_value *out, const machine *m, const cr_garg *a, cr_arena *room)
{
    *out = (cr_value){.tag = a->tag, .len = a->len};
    if (a->tag == CR_TENSOR) {
        *out = cr_of_tensor(m->at[a->value->id]);
        return CR_OK;
    }
    if (a->tag != CR_TENSORS && a->tag != CR_NUMBERS) {
        memcpy(&out->number, &a->number, sizeof a->number); /* the largest member */
        return CR_OK;
    }
    cr_value *list = cr_arena_get(room, a->len * sizeof *list + 1);
    CR_NEED(list);
    for (uint32_t i = 0; i < a->len; i++)
        CR_TRY(machine_arg(&list[i], m, &a->list[i], room));
    out->list = list;
    return CR_OK;
}

/* --- nodes --- */

static cr_status run_block(machine *m, const cr_gblock *b);

/* The items of a Tensor[] result. */
static void machine_put_list(machine *m, const cr_gnode *n, cr_value *v)
{
    cr_value *list = (cr_value *)(uintptr_t)v->list;

    for (uint32_t i = 0; i < v->len && (int)i < n->result_count; i++) {
        machine_put(m, n->result[i], list[i].tag == CR_TENSOR ? list[i].t : NULL);
        list[i].tag = CR_NONE;
    }
    cr_drop_values(v, 1);
}

static bool may_need_grad(const cr_gnode *n)
{
    for (int k = 0; k < n->result_count; k++)
        if (!n->result[k]->type.known || n->result[k]->type.requires_grad)
            return true;
    return false;
}

static cr_status call_fakes(const cr_gnode *n, cr_value *arg, cr_value *result)
{
    bool was = cr_thread.no_grad;

    cr_thread.no_grad = was || n->no_grad || !may_need_grad(n);
    cr_status st = cr_call(n->op, arg, result);
    cr_thread.no_grad = was;
    return st;
}

/* True when the call converts a tensor, or makes one like it, on the host.  On another device
 * the result is wanted there, so the tensor need not be read. */
static bool converts_to_host(const cr_gnode *n, const cr_value *device)
{
    return n->arg[0].tag == CR_TENSOR && device->tag == CR_DEVICE_VAL &&
           cr_packed_kind(device->i) == CR_CPU;
}

static cr_status machine_call(machine *m, const cr_gnode *n)
{
    cr_value arg[CR_MAX_ARGS], result[CR_MAX_RESULTS];
    cr_arena room = {0};
    cr_status st = CR_OK;

    for (int i = 0; !st && i < n->arg_count; i++) {
        st = machine_arg(&arg[i], m, &n->arg[i], &room);
        if (!cr_is_host(m->device) && n->op->param[i].type == CR_T_DEVICE &&
            (arg[i].tag == CR_NONE || converts_to_host(n, &arg[i])))
            arg[i] = (cr_value){.tag = CR_DEVICE_VAL, .i = cr_packed_device(m->device)};
    }
    if (cr_recorder_active()) /* sets the nodes' sources for a recording of this run */
        cr_recorder_at(cr_recorder_active(), n->source);
    if (!st)
        st = m->fakes ? call_fakes(n, arg, result) : cr_call(n->op, arg, result);
    cr_arena_drop(&room);
    CR_TRY(st);
    if (n->op->result_count == 1 && result[0].tag == CR_TENSORS) {
        if ((int)result[0].len != n->result_count) {
            cr_drop_values(result, 1);
            return cr_fail(CR_RUNTIME, "%s returned %u tensors, the graph has %d", n->op->name,
                           (unsigned)result[0].len, n->result_count);
        }
        machine_put_list(m, n, &result[0]);
    } else {
        for (int k = 0; k < n->result_count; k++) {
            cr_tensor *t = result[k].tag == CR_TENSOR ? result[k].t : NULL;
            cr_status brought = machine_bring(m, &t);
            st = st ? st : brought;
            machine_put(m, n->result[k], t);
        }
    }
    return st;
}

/* Runs a block of a node; its outputs are the node's results. */
static cr_status run_inner(machine *m, const cr_gnode *n, const cr_gblock *b)
{
    CR_TRY(run_block(m, b));
    for (int i = 0; i < n->result_count; i++) {
        const cr_garg *a = &b->output[i];
        cr_tensor *out = a->tag == CR_TENSOR ? cr_keep(m->at[a->value->id]) : NULL;
        cr_garg_each(a, read_once, m);
        machine_put(m, n->result[i], out);
    }
    return CR_OK;
}

static cr_status run_if(machine *m, const cr_gnode *n)
{
    cr_scalar truth;

    CR_TRY(cr_tensor_item(&truth, m->at[n->arg[0].value->id]));
    int k = cr_scalar_as_double(truth) != 0 ? 0 : 1;
    CR_TRY(run_inner(m, n, n->block[k]));
    cr_gblock_each_read(n->block[!k], read_once, m);
    return CR_OK;
}

static cr_status machine_group(machine *m, const cr_gnode *n)
{
    const cr_gcode *code = n->code;
    cr_tensor **room;
    cr_status st = CR_OK;

    if (!code)
        return run_inner(m, n, n->block[0]);
    room = cr_alloc_zero((size_t)(code->read_count + n->result_count) * sizeof *room + 1);
    CR_NEED(room);
    for (int i = 0; i < code->read_count && !st; i++) {
        room[i] = m->at[code->read[i]->id];
        st = cr_defer_settle(room[i]);
    }
    if (!st)
        st = code->run(code, room, room + code->read_count);
    for (int k = 0; !st && k < n->result_count; k++)
        machine_put(m, n->result[k], room[code->read_count + k]);
    cr_free(room);
    cr_gblock_each_read(n->block[0], read_once, m);
    return st;
}

static cr_status run_constant(machine *m, const cr_gnode *n)
{
    cr_tensor *t = cr_keep(n->constant);
    cr_status st = machine_bring(m, &t);

    machine_put(m, n->result[0], t);
    return st;
}

static cr_status run_node(machine *m, const cr_gnode *n)
{
    if (n->kind == CR_GNODE_CONSTANT)
        CR_TRY(run_constant(m, n));
    else if (n->kind == CR_GNODE_IF)
        CR_TRY(run_if(m, n));
    else if (n->kind == CR_GNODE_GROUP)
        CR_TRY(machine_group(m, n));
    else
        CR_TRY(machine_call(m, n));
    cr_gnode_each_read(n, read_once, m);
    return CR_OK;
}

static cr_status run_block(machine *m, const cr_gblock *b)
{
    for (size_t i = 0; i < b->len; i++)
        CR_TRY(run_node(m, b->at[i]));
    return CR_OK;
}

static cr_status run_graph(const cr_graph *g, bool fakes, cr_device device,
                           cr_tensor *const *input, cr_tensor **output)
{
    machine m = {g, cr_alloc_zero((g->values + 1) * sizeof *m.at),
                 cr_alloc_zero((g->values + 1) * sizeof *m.readers), fakes, device};
    cr_status st = m.at && m.readers ? CR_OK : CR_MEMORY;

    if (!st) {
        cr_gblock_each_read(g->body, count_read, &m);
        for (int i = 0; i < g->input_count; i++)
            machine_put(&m, g->input[i], cr_keep(input[i]));
        st = run_block(&m, g->body);
    }
    for (int i = 0; !st && i < g->body->output_count; i++) {
        const cr_garg *a = &g->body->output[i];
        output[i] = a->tag == CR_TENSOR ? cr_keep(m.at[a->value->id]) : NULL;
    }
    for (unsigned i = 0; m.at && i < g->values; i++)
        cr_drop(m.at[i]);
    cr_free(m.at);
    cr_free(m.readers);
    return st;
}

/* True when arguments contain symbols, which operators do not know. */
static bool has_symbols(const cr_graph *g)
{
    for (size_t i = 0; g->numbers.list.len && i < g->body->len; i++)
        if (cr_gnode_has_symbol(g->body->at[i]))
            return true;
    return false;
}

cr_status cr_graph_run_on(const cr_graph *g, cr_device device, cr_tensor *const *input,
                          cr_tensor **output)
{
    if (has_symbols(g))
        return cr_fail(CR_VALUE, "a graph with symbols runs as an instance");
    return run_graph(g, false, device, input, output);
}

cr_status cr_graph_run(const cr_graph *g, cr_tensor *const *input, cr_tensor **output)
{
    return cr_graph_run_on(g, CR_HOST, input, output);
}

cr_status cr_graph_replay(const cr_graph *g, cr_tensor *const *input, cr_tensor **output)
{
    cr_status st;
    bool was = cr_thread.fakes;

    cr_thread.fakes = true;
    st = run_graph(g, true, CR_HOST, input, output);
    cr_thread.fakes = was;
    return st;
}
