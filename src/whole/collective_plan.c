/* Calls between ranks as commands of plans.  A command has addresses; a call has tensors over
 * them, whose memory the plan's run keeps until it has waited. */
#include "whole/collective_plan.h"
#include "base/memory.h"
#include "plan/collect.h"
#include <string.h>

/* --- collecting --- */

static cr_array array_of(const cr_tensor *t)
{
    return (cr_array){t->address, t->dtype, t->ndim, t->size, t->stride};
}

cr_status cr_collective_collect(const char *group, const cr_collective *c, int n)
{
    cr_array *array = cr_alloc((size_t)n * 2 * sizeof *array);
    cr_plan_collective made = {.call = cr_call_kind_name(c->kind),
                               .group = group,
                               .reduce = c->reduce ? c->reduce : "",
                               .root = c->root,
                               .count = n,
                               .ins = c->in ? n : 0,
                               .in = array,
                               .out = array + n,
                               .parts = c->in_parts,
                               .in_rows = c->in_rows,
                               .out_rows = c->out_rows};

    CR_NEED(array);
    for (int i = 0; i < n; i++) {
        if (c[i].in)
            array[i] = array_of(c[i].in);
        array[n + i] = array_of(c[i].out);
    }
    cr_status st = cr_collect_collective(&made);
    cr_free(array);
    return st;
}

cr_status cr_collective_collect_wait(const cr_tensor *t)
{
    cr_array array = array_of(t);
    cr_plan_collective made = {
        .wait = true, .call = "", .group = "", .reduce = "", .count = 1, .out = &array};

    return cr_collect_collective(&made);
}

/* --- executing --- */

static void keep_memory(void *owner) { (void)owner; }

static cr_status tensor_over(cr_tensor **out, const cr_array *a, cr_device device)
{
    size_t bytes = (size_t)cr_numel(a->ndim, a->size) * cr_dtype_size((cr_dtype)a->dtype);
    cr_storage *s;

    CR_TRY(cr_storage_foreign(&s, a->data, bytes, keep_memory, NULL));
    s->device = device;
    cr_status st = cr_tensor_over(out, s, (cr_dtype)a->dtype, a->ndim, a->size, a->stride, 0);
    if (st)
        cr_storage_drop(s);
    return st;
}

static cr_status kind_of(cr_call_kind *out, const char *name)
{
    for (int k = 0; k < CR_CALL_COUNT; k++)
        if (!strcmp(cr_call_kind_name((cr_call_kind)k), name)) {
            *out = (cr_call_kind)k;
            return CR_OK;
        }
    return cr_fail(CR_VALUE, "no call between ranks is called %s", name);
}

/* The rows of a tensor are those of its parts. */
static cr_status check_rows(const cr_tensor *t, const int64_t *rows, int64_t parts)
{
    int64_t sum = 0, most = t->ndim ? t->size[0] : 0;

    for (int64_t r = 0; r < parts; r++) {
        if (rows[r] < 0 || rows[r] > most - sum)
            return cr_fail(CR_VALUE, "the rows of parts are not those of their tensor");
        sum += rows[r];
    }
    return CR_OK;
}

static cr_status make_call(cr_collective *to, const cr_plan_collective *c, int i,
                           cr_device device)
{
    to->reduce = *c->reduce ? c->reduce : NULL;
    to->root = c->root;
    to->in_rows = c->in_rows;
    to->out_rows = c->out_rows;
    to->in_parts = to->out_parts = c->in_rows ? (int)c->parts : 0;
    CR_TRY(kind_of(&to->kind, c->call));
    CR_TRY(tensor_over(&to->out, &c->out[i], device));
    if (c->ins)
        CR_TRY(tensor_over(&to->in, &c->in[i], device));
    bool both = to->kind == CR_CALL_BROADCAST || to->kind == CR_CALL_ALL_REDUCE;
    bool parts = to->kind == CR_CALL_ALL_GATHER || to->kind == CR_CALL_REDUCE_SCATTER ||
                 to->kind == CR_CALL_ALL_TO_ALL;
    if (!both && !parts)
        return cr_fail(CR_VALUE, "a plan has no call %s", c->call);
    if (both == (to->in != NULL) || (to->in && to->in->dtype != to->out->dtype))
        return cr_fail(CR_VALUE, "the arrays are not those of the call %s", c->call);
    if (!to->in || !c->in_rows)
        return CR_OK;
    CR_TRY(check_rows(to->in, c->in_rows, c->parts));
    return check_rows(to->out, c->out_rows, c->parts);
}

static cr_status start_command(const cr_plan_collective *c, cr_device device)
{
    cr_collective *call = cr_alloc_zero((size_t)c->count * sizeof *call + 1);
    cr_status st = call ? CR_OK : CR_MEMORY;

    for (int i = 0; !st && i < c->count; i++)
        st = make_call(&call[i], c, i, device);
    if (!st)
        st = cr_collective_start(c->group, call, c->count);
    for (int i = 0; call && i < c->count; i++) {
        cr_drop(call[i].in);
        cr_drop(call[i].out);
    }
    cr_free(call);
    return st;
}

static cr_status wait_command(const cr_plan_collective *c, cr_device device)
{
    for (int i = 0; i < c->count; i++) {
        cr_tensor *t;
        CR_TRY(tensor_over(&t, &c->out[i], device));
        cr_status st = cr_collective_wait(t);
        cr_drop(t);
        CR_TRY(st);
    }
    return CR_OK;
}

static const char *run_command(int kind, int index, const cr_plan_collective *c)
{
    cr_device device = {.kind = (uint8_t)kind, .index = (uint8_t)index};

    return (c->wait ? wait_command(c, device) : start_command(c, device)) ? cr_error_message()
                                                                          : NULL;
}

void cr_collective_install(void) { cr_plan_collective_run = run_command; }
