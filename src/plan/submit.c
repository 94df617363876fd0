/* Functions of a table that make commands for `submit`, for backends that execute host code
 * late.  A command is a copy; its addresses are those at which host code finds the elements. */
#include "device/cpu/cpu.h"
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

static const cr_device_ops *ops(void) { return cr_device_of(CR_PRIVATEUSE1); }

static char *by_distance(void *context, char *address)
{
    return address + *(const ptrdiff_t *)context;
}

static void *by_malloc(void *from, size_t size)
{
    (void)from;
    return malloc(size);
}

static const char *submit(int index, const cr_command *c)
{
    ptrdiff_t distance = ops()->distance(index);
    cr_keeping how = {.map = by_distance, .context = &distance, .get = by_malloc};
    cr_command *kept = cr_command_keep(c, &how);
    const char *error = kept ? ops()->submit(index, kept) : "no memory for a command";

    if (error)
        free(kept);
    return error;
}

#define SUBMIT(KIND, ...) submit(index, &(cr_command){.kind = CR_COMMAND_##KIND, __VA_ARGS__})

static const char *submit_copy_in(int index, void *to, const void *host, size_t n)
{
    return SUBMIT(COPY, .copy = {.to = to, .bytes = host, .n = n});
}

static const char *submit_copy(int index, void *to, const void *from, size_t n)
{
    return SUBMIT(COPY, .copy = {.to = to, .from = (char *)(uintptr_t)from, .n = n});
}

static const char *submit_copy_out(int index, void *host, const void *from, size_t n)
{
    const char *error = ops()->synchronize(index);

    memcpy(host, (const char *)from + ops()->distance(index), n);
    return error;
}

static const char *submit_move(int index, const cr_array *to, const cr_array *from)
{
    return SUBMIT(MOVE, .move = {*to, *from});
}

static const char *submit_fill(int index, const cr_array *to, const void *element)
{
    cr_command c = {.kind = CR_COMMAND_FILL, .fill = {.to = *to}};

    memcpy(c.fill.element, element, cr_dtype_size((cr_dtype)to->dtype));
    return submit(index, &c);
}

static const char *submit_launch(int index, const cr_launch *l)
{
    return SUBMIT(KERNEL, .kernel = *l);
}

static const char *submit_indexed(int index, const cr_indexed *c)
{
    return SUBMIT(INDEXED, .indexed = *c);
}

static const char *submit_combine(int index, const cr_indexed *c)
{
    return SUBMIT(COMBINE, .indexed = *c);
}

static const char *submit_windows(int index, const cr_windows *c)
{
    return SUBMIT(WINDOWS, .windows = *c);
}

const char *cr_command_name(const cr_command *c) { return cr_command_names[c->kind]; }

const char *cr_command_run(cr_command *c)
{
    static const cr_executor host_code = {.ops = &cr_cpu_ops};
    const char *error = cr_command_execute(&host_code, c);

    free(c);
    return error;
}

#define GIVE(name, own) t->name = t->name ? t->name : own

void cr_plan_complete(cr_device_ops *t)
{
    if (!t->submit || !t->distance)
        return;
    GIVE(copy_in, submit_copy_in);
    GIVE(copy_out, submit_copy_out);
    GIVE(copy, submit_copy);
    GIVE(move, submit_move);
    GIVE(fill, submit_fill);
    GIVE(build, cr_cpu_ops.build);
    GIVE(launch, submit_launch);
    GIVE(indexed, submit_indexed);
    GIVE(combine, submit_combine);
    GIVE(windows, submit_windows);
}
