/* An example of a device outside the library.
 *
 * Everything that touches device memory is a job of the queue: a command of the library, which
 * holds copies of all host memory that it needs, and addresses that the queue's thread can
 * access. */
#include "demo.h"
#include <stdio.h>
#include <string.h>

/* --- devices --- */

static int count(void) { return DEMO_DEVICES; }

static const char *limits(int index, cr_device_limits *out)
{
    (void)index;
    *out =
        (cr_device_limits){.total_memory = demo_memory_size(), .alignment = 64, .name = "demo"};
    return NULL;
}

/* The first error of the jobs that have run, once. */
static const char *synchronize(int index)
{
    static _Thread_local char text[256];

    demo_wait(index, demo_last(index));
    return demo_late(index, text, sizeof text) ? text : NULL;
}

/* --- commands --- */

typedef struct {
    demo_job job;
    cr_command *command;
} command_job;

static _Atomic uint64_t launches;

/* Kernels that have run so far; the tests count with it. */
CR_BACKEND_API uint64_t demo_launches(void) { return launches; }

static void run(demo_job *job)
{
    cr_command *c = ((command_job *)job)->command;
    bool kernel = !strcmp(cr_command_name(c), "KERNEL");
    const char *error = cr_command_run(c);

    launches += kernel;
    if (error)
        demo_fail(job->index, error);
}

static const char *submit(int index, cr_command *c)
{
    command_job *j = demo_job_new(index, sizeof *j, run);

    if (!j)
        return "demo: no memory for a job";
    j->command = c;
    demo_enqueue(&j->job);
    return NULL;
}

/* --- kernels --- */

static char program[4096];

/* What the kernel computes that was built last; for tests. */
CR_BACKEND_API const char *demo_program(void) { return program; }

/* Kernels run on the host's processor, so they come from the library's compiler and cache. */
static const char *build(int index, const cr_kernel_source *source, void **code)
{
    cr_kernel_function function;
    const char *error = cr_kernel_compile(&function, source);

    (void)index;
    if (error)
        return error;
    snprintf(program, sizeof program, "%s", cr_kernel_program(source));
    *code = (void *)(uintptr_t)function;
    return NULL;
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
    return cr_backend_table()->move(index, result, &from);
}

/* --- the table --- */

static const cr_device_ops table = {
    .bytes = sizeof table,
    .count = count,
    .limits = limits,
    .get = demo_get,
    .release = demo_release,
    .build = build,
    .synchronize = synchronize,
    .last = demo_last,
    .wait = demo_wait,
    .done = demo_is_done,
    .submit = submit,
    .distance = demo_distance,
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
