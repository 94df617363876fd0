/* Plans: building, and running by an executor. */
#include "plan/plan.h"
#include <string.h>

const char *const cr_command_names[CR_COMMAND_KINDS] = {
#define CR_COMMAND(NAME) #NAME,
#include "plan/commands.def"
#undef CR_COMMAND
};

const char *const cr_combine_names[CR_COMBINE_COUNT] = {
#define CR_COMBINE(NAME, name) [CR_COMBINE_##NAME] = #name,
#include "plan/combines.def"
#undef CR_COMBINE
};

/* --- building --- */

void cr_plan_drop(cr_plan *p)
{
    cr_vec_drop(&p->buffer);
    cr_vec_drop(&p->command);
    cr_vec_drop(&p->output);
    cr_arena_drop(&p->arena);
}

static void *in_arena(void *arena, size_t size) { return cr_arena_get(arena, size); }

cr_status cr_plan_add_buffer(size_t *out, cr_plan *p, size_t bytes, bool input)
{
    CR_TRY(cr_vec_reserve(&p->buffer, 1));
    *out = p->buffer.len;
    cr_vec_put(&p->buffer,
               ((cr_plan_buffer){.bytes = bytes, .input = input, .before = p->command.len}));
    return CR_OK;
}

cr_status cr_plan_add(cr_plan *p, const cr_command *c)
{
    cr_keeping how = {.get = in_arena, .from = &p->arena};

    CR_TRY(cr_vec_reserve(&p->command, 1));
    cr_command *kept = cr_command_keep(c, &how);
    CR_NEED(kept);
    cr_vec_put(&p->command, kept);
    return CR_OK;
}

cr_status cr_plan_add_output(cr_plan *p, const cr_array *a)
{
    cr_keeping how = {.get = in_arena, .from = &p->arena};

    CR_TRY(cr_vec_reserve(&p->output, 1));
    cr_array *kept = cr_array_keep_by(a, &how);
    CR_NEED(kept);
    cr_vec_put(&p->output, *kept);
    return CR_OK;
}

/* --- memory of a run --- */

static cr_status memory_list(cr_plan_run *r, size_t buffers)
{
    size_t more = buffers > r->memory.len ? buffers - r->memory.len : 0;

    CR_TRY(cr_vec_reserve(&r->memory, more));
    if (more)
        memset(r->memory.at + r->memory.len, 0, more * sizeof *r->memory.at);
    r->memory.len += more;
    return CR_OK;
}

static cr_status memory_get(cr_plan_run *r, size_t buffer)
{
    size_t size = r->plan->buffer.at[buffer].bytes;

    CR_TRY(memory_list(r, buffer + 1));
    cr_plan_memory *m = &r->memory.at[buffer];
    if (!m->at)
        m->at = r->by->ops->get(r->by->index, size ? size : 1, &m->block);
    return m->at ? CR_OK : CR_MEMORY;
}

cr_status cr_plan_place(char **out, cr_plan_run *r, const char *address)
{
    size_t buffer = cr_plan_buffer_of(address);

    if (buffer >= r->plan->buffer.len)
        return cr_fail(CR_VALUE, "a plan uses a buffer that it does not have");
    CR_TRY(memory_get(r, buffer));
    *out = (char *)r->memory.at[buffer].at + cr_plan_offset_of(address);
    return CR_OK;
}

/* For cr_keeping; a failure is noted in the run. */
static char *run_address(void *context, char *address)
{
    cr_plan_run *r = context;
    char *at = NULL;
    cr_status st = cr_plan_place(&at, r, address);

    if (st)
        r->failed = st;
    return at;
}

static void *by_alloc(void *from, size_t size)
{
    (void)from;
    return cr_alloc(size);
}

static cr_keeping run_keeping(cr_plan_run *r)
{
    return (cr_keeping){.map = run_address, .context = r, .get = by_alloc};
}

/* --- executing --- */

static cr_status find_code(void **code, cr_plan_run *r, const cr_plan_kernel *k)
{
    for (size_t i = 0; i < r->code.len; i++)
        if (r->code.at[i].kernel == k) {
            *code = r->code.at[i].code;
            return CR_OK;
        }
    CR_TRY(cr_vec_reserve(&r->code, 1));
    CR_TRY(cr_device_status(r->by->build(r->by->ops, r->by->index, k, code)));
    cr_vec_put(&r->code, ((cr_plan_code){k, *code}));
    return CR_OK;
}

static const char *run_kernel(cr_plan_run *r, cr_launch *l)
{
    if (r->by->build && find_code(&l->code, r, l->code))
        return cr_error_message();
    return r->by->ops->launch(r->by->index, l);
}

static const char *run_copy(const cr_executor *by, const cr_plan_copy *c)
{
    if (!c->to)
        return NULL; /* the host that read it is not there any more */
    return c->from ? by->ops->copy(by->index, c->to, c->from, c->n)
                   : by->ops->copy_in(by->index, c->to, c->bytes, c->n);
}

static const char *run_lacks(cr_command_kind kind)
{
    cr_fail(CR_NOT_IMPLEMENTED, "the device does not execute the command %s",
            cr_command_names[kind]);
    return cr_error_message();
}

const char *(*cr_plan_collective_run)(int kind, int index, const cr_plan_collective *c);

static const char *run_collective(const cr_executor *by, const cr_plan_collective *c)
{
    if (!cr_plan_collective_run)
        return run_lacks(CR_COMMAND_COLLECTIVE);
    return cr_plan_collective_run(by->kind, by->index, c);
}

#define RUN(function, ...)                                                                     \
    (ops->function ? ops->function(index, __VA_ARGS__) : run_lacks(c->kind))

/* A command whose addresses are the executor's. */
static const char *run_command(cr_plan_run *r, cr_command *c)
{
    const cr_device_ops *ops = r->by->ops;
    int index = r->by->index;

    switch (c->kind) {
    case CR_COMMAND_KERNEL: return ops->launch ? run_kernel(r, &c->kernel) : RUN(launch, NULL);
    case CR_COMMAND_MOVE: return RUN(move, &c->move.to, &c->move.from);
    case CR_COMMAND_FILL: return RUN(fill, &c->fill.to, c->fill.element);
    case CR_COMMAND_INDEXED: return RUN(indexed, &c->indexed);
    case CR_COMMAND_COMBINE: return RUN(combine, &c->indexed);
    case CR_COMMAND_WINDOWS: return RUN(windows, &c->windows);
    case CR_COMMAND_LIBRARY: return RUN(library, &c->library);
    case CR_COMMAND_COLLECTIVE: return run_collective(r->by, &c->collective);
    case CR_COMMAND_COPY: return run_copy(r->by, &c->copy);
    case CR_COMMAND_WAIT: return ops->synchronize ? ops->synchronize(index) : NULL;
    case CR_COMMAND_KINDS: break;
    }
    return NULL;
}

const char *cr_command_execute(const cr_executor *by, cr_command *c)
{
    cr_plan_run r = {.by = by};

    return run_command(&r, c);
}

/* The memory of calls that nothing has waited for is still in use. */
static cr_status end_collectives(cr_plan_run *r, bool *ended)
{
    cr_status st = r->failed;

    *ended = true;
    for (size_t i = 0; i < r->done; i++) {
        const cr_command *c = r->plan->command.at[i];
        if (c->kind != CR_COMMAND_COLLECTIVE || c->collective.wait)
            continue;
        cr_command wait = {.kind = CR_COMMAND_COLLECTIVE, .collective = c->collective};
        wait.collective.wait = true;
        cr_keeping how = run_keeping(r);
        cr_command *placed = cr_command_keep(&wait, &how);
        cr_status of = placed ? cr_device_status(run_command(r, placed)) : CR_MEMORY;
        *ended = *ended && placed;
        st = st ? st : of;
        cr_free(placed);
    }
    return st;
}

cr_status cr_plan_end(cr_plan_run *r)
{
    bool ended;
    cr_status st = end_collectives(r, &ended);

    for (size_t i = 0; ended && i < r->memory.len; i++)
        if (r->memory.at[i].at && r->memory.at[i].block)
            r->by->ops->release(r->by->index, r->memory.at[i].at, r->memory.at[i].block);
    cr_vec_drop(&r->memory);
    cr_vec_drop(&r->code);
    return st;
}

cr_status cr_plan_execute(cr_plan_run *r)
{
    cr_keeping how = run_keeping(r);

    if (!r->failed)
        r->failed = cr_plan_check(r->plan, r->by, r->done);
    while (!r->failed && r->done < r->plan->command.len) {
        cr_command *c = cr_command_keep(r->plan->command.at[r->done], &how);
        if (!c)
            r->failed = CR_MEMORY;
        if (!r->failed)
            r->failed = cr_device_status(run_command(r, c));
        cr_free(c);
        r->done++;
    }
    return r->failed;
}
