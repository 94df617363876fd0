/* The device that collects commands. */
#include "plan/collect.h"
#include "base/map.h"
#include "base/memory.h"
#include "device/facts.h"
#include <pthread.h>
#include <string.h>

/* What a thread collects. */
typedef struct {
    cr_plan *plan;
    cr_plan_run run; /* executes what the host reads */
    int inputs;
} collection;

static CR_THREAD collection *now; /* NULL: nothing */

static const char collect_idle[] = "this thread does not collect commands";

/* The caller's mistake, or a shortage of memory, is the error of the function of the table. */
static const char *text_of(cr_status st) { return st ? cr_error_message() : NULL; }

static const char *add(const cr_command *c)
{
    if (!now)
        return collect_idle;
    return text_of(cr_plan_add(now->plan, c));
}

/* --- devices --- */

static int collect_count(void) { return now ? 1 : 0; }

static int collect_current(void) { return 0; }

static const char *collect_set_current(int index)
{
    (void)index;
    return NULL;
}

static const char *collect_limits(int index, cr_device_limits *out)
{
    (void)index;
    *out = (cr_device_limits){
        .total_memory = (size_t)1 << 39, .alignment = 64, .name = "a plan of commands"};
    return NULL;
}

/* --- memory --- */

static void *collect_get(int index, size_t size, uint32_t *block)
{
    size_t buffer;

    (void)index;
    if (!now || size >> 39 || cr_plan_add_buffer(&buffer, now->plan, size, false))
        return NULL;
    *block = 1;
    return cr_plan_address(buffer, 0);
}

static void collect_release(int index, void *p, uint32_t block)
{
    (void)index;
    (void)p;
    (void)block;
}

/* --- copies --- */

static const char *collect_copy_in(int index, void *to, const void *host, size_t n)
{
    cr_command c = {.kind = CR_COMMAND_COPY, .copy = {.to = to, .bytes = host, .n = n}};

    (void)index;
    return add(&c);
}

static cr_status read_now(void *host, const void *from, size_t n)
{
    const cr_executor *by = now->run.by;
    char *at;

    now->plan->of_values = true;
    CR_TRY(cr_plan_execute(&now->run));
    CR_TRY(cr_plan_place(&at, &now->run, from));
    return cr_device_status(by->ops->copy_out(by->index, host, at, n));
}

static const char *collect_copy_out(int index, void *host, const void *from, size_t n)
{
    cr_command c = {.kind = CR_COMMAND_COPY, .copy = {.from = (char *)(uintptr_t)from, .n = n}};
    const char *error = add(&c);

    (void)index;
    return error ? error : text_of(read_now(host, from, n));
}

static const char *collect_copy(int index, void *to, const void *from, size_t n)
{
    cr_command c = {.kind = CR_COMMAND_COPY,
                    .copy = {.to = to, .from = (char *)(uintptr_t)from, .n = n}};

    (void)index;
    return add(&c);
}

/* --- commands --- */

static const char *collect_move(int index, const cr_array *to, const cr_array *from)
{
    cr_command c = {.kind = CR_COMMAND_MOVE, .move = {*to, *from}};

    (void)index;
    return add(&c);
}

static const char *collect_fill(int index, const cr_array *to, const void *element)
{
    cr_command c = {.kind = CR_COMMAND_FILL, .fill = {.to = *to}};

    (void)index;
    memcpy(c.fill.element, element, cr_dtype_size((cr_dtype)to->dtype));
    return add(&c);
}

static const char *collect_launch(int index, const cr_launch *l)
{
    cr_command c = {.kind = CR_COMMAND_KERNEL, .kernel = *l};

    (void)index;
    return add(&c);
}

/* A plan has no functions of the host. */
static cr_command indexed_command(cr_command_kind kind, const cr_indexed *i)
{
    cr_command c = {.kind = kind, .indexed = *i};

    c.indexed.kernel[0] = c.indexed.kernel[1] = NULL;
    return c;
}

static const char *collect_indexed(int index, const cr_indexed *i)
{
    cr_command c = indexed_command(CR_COMMAND_INDEXED, i);

    (void)index;
    return add(&c);
}

static const char *collect_combine(int index, const cr_indexed *i)
{
    cr_command c = indexed_command(CR_COMMAND_COMBINE, i);

    (void)index;
    return add(&c);
}

static const char *collect_windows(int index, const cr_windows *w)
{
    cr_command c = {.kind = CR_COMMAND_WINDOWS, .windows = *w};

    (void)index;
    return add(&c);
}

static const char *collect_library(int index, const cr_library *l)
{
    cr_command c = {.kind = CR_COMMAND_LIBRARY, .library = *l};

    (void)index;
    return add(&c);
}

cr_status cr_collect_collective(const cr_plan_collective *c)
{
    cr_command made = {.kind = CR_COMMAND_COLLECTIVE, .collective = *c};

    return cr_device_status(add(&made));
}

static const char *collect_synchronize(int index)
{
    cr_command c = {.kind = CR_COMMAND_WAIT};

    (void)index;
    return add(&c);
}

/* --- kernels: kept for the process, as those of other devices --- */

static const char *collect_build(int index, const cr_kernel_source *source, void **code)
{
    cr_plan_kernel *k;

    (void)index;
    if (!now)
        return collect_idle;
    k = cr_alloc(sizeof *k);
    if (k) {
        *k = now->run.by->describe(source);
        k->name = cr_strdup(k->name);
        k->program = cr_strdup(k->program);
    }
    *code = k;
    if (k && k->name && k->program)
        return NULL;
    if (k) {
        cr_free((void *)(uintptr_t)k->name);
        cr_free((void *)(uintptr_t)k->program);
    }
    cr_free(k);
    *code = NULL;
    return text_of(CR_MEMORY);
}

/* --- streams and events: a plan has one order --- */

static const char *collect_new(int index, void **made)
{
    static char any;

    (void)index;
    *made = &any;
    return NULL;
}

static void collect_drop(int index, void *p)
{
    (void)index;
    (void)p;
}

static const char *collect_nothing(int index, void *p)
{
    (void)index;
    (void)p;
    return NULL;
}

static void *collect_stream(int index)
{
    (void)index;
    return NULL;
}

static bool collect_done(int index, void *p)
{
    (void)index;
    (void)p;
    return true;
}

static const cr_device_ops collector = {
    .bytes = sizeof collector,
    .count = collect_count,
    .current = collect_current,
    .set_current = collect_set_current,
    .limits = collect_limits,
    .get = collect_get,
    .release = collect_release,
    .copy_in = collect_copy_in,
    .copy_out = collect_copy_out,
    .copy = collect_copy,
    .move = collect_move,
    .fill = collect_fill,
    .build = collect_build,
    .launch = collect_launch,
    .stream_new = collect_new,
    .stream_drop = collect_drop,
    .set_stream = collect_nothing,
    .stream = collect_stream,
    .event_new = collect_new,
    .event_drop = collect_drop,
    .event_record = collect_nothing,
    .event_wait = collect_nothing,
    .event_synchronize = collect_nothing,
    .event_done = collect_done,
    .synchronize = collect_synchronize,
    .indexed = collect_indexed,
    .combine = collect_combine,
    .windows = collect_windows,
    .library = collect_library,
};

/* --- a thread's collection --- */

static void offer(void) { cr_device_set_collector(&collector); }

cr_status cr_collect_start(cr_plan *into, const cr_executor *by)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (now)
        return cr_fail(CR_RUNTIME, "this thread collects commands already");
    pthread_once(&once, offer);
    now = cr_alloc(sizeof *now);
    CR_NEED(now);
    *now = (collection){.plan = into, .run = cr_plan_start(into, by)};
    return CR_OK;
}

cr_device cr_collect_device(void) { return (cr_device){.kind = CR_LAZY}; }

cr_status cr_collect_input(const char *address, const void *bytes, size_t n)
{
    const cr_executor *by = now->run.by;
    int number = now->inputs++;
    cr_plan_buffer *b;
    char *at;

    if (!n) /* it has no buffer */
        return CR_OK;
    b = &now->plan->buffer.at[cr_plan_buffer_of(address)];
    b->input = true;
    b->number = number;
    CR_TRY(cr_plan_place(&at, &now->run, address));
    return cr_device_status(by->ops->copy_in(by->index, at, bytes, n));
}

cr_status cr_collect_end(void)
{
    if (!now)
        return CR_OK;
    cr_status st = cr_plan_end(&now->run);
    cr_free(now);
    now = NULL;
    return st;
}
