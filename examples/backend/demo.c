/* An example of a device outside the library.
 *
 * Everything that touches device memory is a job of the queue.  A job holds copies of all host
 * memory that it needs, and addresses that the queue's thread can access. */
#include "demo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char no_memory[] = "demo: no memory for a job";
static _Thread_local int current;

/* --- devices --- */

static int count(void) { return DEMO_DEVICES; }

static int get_current(void) { return current; }

static const char *set_current(int index)
{
    current = index;
    return NULL;
}

static const char *limits(int index, cr_device_limits *out)
{
    (void)index;
    *out =
        (cr_device_limits){.total_memory = demo_memory_size(), .alignment = 64, .name = "demo"};
    return NULL;
}

/* The first error of the jobs that have run, once. */
static const char *late_error(int index)
{
    static _Thread_local char text[256];

    return demo_late(index, text, sizeof text) ? text : NULL;
}

static const char *synchronize(int index)
{
    demo_wait(index, demo_last(index));
    return late_error(index);
}

/* --- bytes --- */

typedef struct {
    demo_job job;
    void *to;
    const void *from; /* NULL: `bytes` */
    size_t n;
    char bytes[];
} copy_job;

static void run_copy_in(demo_job *job)
{
    copy_job *j = (copy_job *)job;

    memcpy(demo_near(job->index, j->to), j->bytes, j->n);
}

static const char *copy_in(int index, void *to, const void *host, size_t n)
{
    copy_job *j = demo_job_new(index, sizeof *j + n, run_copy_in);

    if (!j)
        return no_memory;
    j->to = to;
    j->n = n;
    memcpy(j->bytes, host, n);
    demo_enqueue(&j->job);
    return NULL;
}

static void run_copy_out(demo_job *job)
{
    copy_job *j = (copy_job *)job;

    memcpy(j->to, demo_near(job->index, j->from), j->n);
}

static void run_copy(demo_job *job)
{
    copy_job *j = (copy_job *)job;

    memcpy(demo_near(job->index, j->to), demo_near(job->index, j->from), j->n);
}

static copy_job *copy_job_new(int index, void *to, const void *from, size_t n,
                              void (*run)(demo_job *))
{
    copy_job *j = demo_job_new(index, sizeof *j, run);

    if (j) {
        j->to = to;
        j->from = from;
        j->n = n;
    }
    return j;
}

static const char *copy_out(int index, void *host, const void *from, size_t n)
{
    copy_job *j = copy_job_new(index, host, from, n, run_copy_out);

    if (!j)
        return no_memory;
    demo_wait(index, demo_enqueue(&j->job));
    return late_error(index);
}

static const char *copy(int index, void *to, const void *from, size_t n)
{
    copy_job *j = copy_job_new(index, to, from, n, run_copy);

    if (!j)
        return no_memory;
    demo_enqueue(&j->job);
    return NULL;
}

/* --- commands --- */

/* A job has a copy of its command, in which addresses are those of the queue's thread. */
typedef struct {
    demo_job job;
    void *kept, *from;
    cr_kernel_function function;
    _Alignas(16) char element[16];
} command_job;

/* NULL, and the copies freed, without memory for one of them or for the job. */
static command_job *command_job_new(int index, void (*run)(demo_job *), void *kept, void *from)
{
    command_job *j = kept ? demo_job_new(index, sizeof *j, run) : NULL;

    if (!j) {
        free(kept);
        free(from);
        return NULL;
    }
    j->kept = kept;
    j->from = from;
    return j;
}

static const char *command_enqueue(command_job *j)
{
    if (!j)
        return no_memory;
    demo_enqueue(&j->job);
    return NULL;
}

static void command_end(command_job *j, const char *error)
{
    if (error)
        demo_fail(j->job.index, error);
    free(j->kept);
    free(j->from);
}

static void run_move(demo_job *job)
{
    command_job *j = (command_job *)job;

    command_end(j,
                j->from ? cr_array_move(j->kept, j->from) : cr_array_fill(j->kept, j->element));
}

static const char *move(int index, const cr_array *to, const cr_array *from)
{
    cr_array *kept = cr_array_keep(from, demo_distance(index));

    return kept ? command_enqueue(command_job_new(
                      index, run_move, cr_array_keep(to, demo_distance(index)), kept))
                : no_memory;
}

static const char *fill(int index, const cr_array *to, const void *element)
{
    command_job *j =
        command_job_new(index, run_move, cr_array_keep(to, demo_distance(index)), NULL);

    if (j)
        memcpy(j->element, element, cr_element_size(to->dtype));
    return command_enqueue(j);
}

static void run_indexed(demo_job *job)
{
    command_job *j = (command_job *)job;

    command_end(j, cr_indexed_run(j->kept));
}

static const char *indexed(int index, const cr_indexed *c)
{
    return command_enqueue(
        command_job_new(index, run_indexed, cr_indexed_keep(c, demo_distance(index)), NULL));
}

static void run_windows(demo_job *job)
{
    command_job *j = (command_job *)job;

    command_end(j, cr_windows_run(j->kept));
}

static const char *windows(int index, const cr_windows *c)
{
    return command_enqueue(
        command_job_new(index, run_windows, cr_windows_keep(c, demo_distance(index)), NULL));
}

/* --- kernels --- */

/* Kernels run on the host's processor, so they come from the library's compiler and cache. */
typedef struct {
    cr_kernel_function function;
} kernel;

static char program[4096];

/* What the kernel computes that was built last; for tests. */
CR_BACKEND_API const char *demo_program(void) { return program; }

static const char *build(int index, const cr_kernel_source *source, void **code)
{
    kernel *k = malloc(sizeof *k);
    const char *error = k ? cr_kernel_compile(&k->function, source) : no_memory;

    (void)index;
    if (error) {
        free(k);
        return error;
    }
    snprintf(program, sizeof program, "%s", cr_kernel_program(source));
    *code = k;
    return NULL;
}

static _Atomic uint64_t launches;

/* Kernels that have run so far; the tests count with it. */
CR_BACKEND_API uint64_t demo_launches(void) { return launches; }

static void run_launch(demo_job *job)
{
    command_job *j = (command_job *)job;

    launches++;
    cr_launch_run(j->function, j->kept);
    command_end(j, NULL);
}

static const char *launch(int index, const cr_launch *l)
{
    command_job *j =
        command_job_new(index, run_launch, cr_launch_keep(l, demo_distance(index)), NULL);

    if (j)
        j->function = ((kernel *)l->code)->function;
    return command_enqueue(j);
}

/* --- streams and events: streams of a device are one queue, so all work is in order --- */

static _Thread_local void *current_stream;

static const char *stream_new(int index, void **stream)
{
    (void)index;
    *stream = malloc(1);
    return *stream ? NULL : no_memory;
}

static void stream_drop(int index, void *stream)
{
    (void)index;
    free(stream);
}

static const char *set_stream(int index, void *stream)
{
    (void)index;
    current_stream = stream;
    return NULL;
}

static void *get_stream(int index)
{
    (void)index;
    return current_stream;
}

static const char *event_new(int index, void **event)
{
    (void)index;
    *event = calloc(1, sizeof(uint64_t));
    return *event ? NULL : no_memory;
}

static void event_drop(int index, void *event)
{
    (void)index;
    free(event);
}

static const char *event_record(int index, void *event)
{
    *(uint64_t *)event = demo_last(index);
    return NULL;
}

static const char *event_wait(int index, void *event)
{
    (void)index;
    (void)event; /* the queue runs jobs in order, so earlier work is done before later work */
    return NULL;
}

static const char *event_synchronize(int index, void *event)
{
    demo_wait(index, *(uint64_t *)event);
    return NULL;
}

static bool event_done(int index, void *event)
{
    return demo_is_done(index, *(uint64_t *)event);
}

/* --- an operator of our own --- */

/* flip(Tensor self, int[] dims): a move with negative strides; self is dense. */
static const char *flip(int index, const cr_given *given, const cr_array *result)
{
    cr_array from = given[0].array;
    int64_t stride[64];

    memcpy(stride, from.stride, (size_t)from.ndim * sizeof *stride);
    for (size_t i = 0; i < given[1].count; i++) {
        int64_t d = given[1].ints[i] < 0 ? given[1].ints[i] + from.ndim : given[1].ints[i];
        if (from.size[d] > 0)
            from.data += (from.size[d] - 1) * stride[d] * (int64_t)cr_element_size(from.dtype);
        stride[d] = -stride[d];
    }
    from.stride = stride;
    return move(index, result, &from);
}

/* --- the table --- */

static const cr_device_ops table = {
    .bytes = sizeof table,
    .count = count,
    .current = get_current,
    .set_current = set_current,
    .limits = limits,
    .get = demo_get,
    .release = demo_release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
    .move = move,
    .fill = fill,
    .build = build,
    .launch = launch,
    .stream_new = stream_new,
    .stream_drop = stream_drop,
    .set_stream = set_stream,
    .stream = get_stream,
    .event_new = event_new,
    .event_drop = event_drop,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_synchronize = event_synchronize,
    .event_done = event_done,
    .synchronize = synchronize,
    .indexed = indexed,
    .combine = indexed,
    .windows = windows,
};

__attribute__((visibility("default"))) const char *cresset_backend(void);

const char *cresset_backend(void)
{
    const char *error = demo_memory_start();

    if (!error)
        error = cr_backend_register(CR_BACKEND_ABI, "demo", &table);
    if (!error)
        error = cr_kernel_register("flip", cr_backend_kind, flip);
    cr_backend_fallback(true);
    return error;
}
