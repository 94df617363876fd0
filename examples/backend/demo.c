/* An example of a device outside the library.
 *
 * Everything that touches device memory is a job of the queue.  A job holds copies of all host
 * memory that it needs, and translates addresses of tensors before it reads or writes. */
#include "demo.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char no_memory[] = "demo: no memory for a job";
static _Thread_local int current;

static int64_t item_size(int dtype)
{
    static const int64_t bytes[] = {1,  1, 1, 2, 4, 8, 2, 2, 4, 8, 8,
                                    16, 2, 4, 8, 4, 1, 1, 1, 1, 1};

    return bytes[dtype];
}

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

static const char *synchronize(int index)
{
    demo_wait(index, demo_last(index));
    return NULL;
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
    return NULL;
}

static const char *copy(int index, void *to, const void *from, size_t n)
{
    copy_job *j = copy_job_new(index, to, from, n, run_copy);

    if (!j)
        return no_memory;
    demo_enqueue(&j->job);
    return NULL;
}

/* --- elements --- */

enum { MOST_DIMS = 64 };

typedef struct {
    demo_job job;
    char *to;
    const char *from; /* NULL: every element is `element` */
    int to_dtype, from_dtype, ndim;
    int64_t size[MOST_DIMS], to_step[MOST_DIMS], from_step[MOST_DIMS]; /* bytes */
    _Alignas(16) char element[16];
} move_job;

/* Moves the dims from `d` on.  The last dim is one call. */
static void move_rows(const move_job *j, int d, char *to, const char *from)
{
    if (d >= j->ndim - 1) {
        int last = j->ndim - 1;
        cr_convert_elements(j->to_dtype, to, last < 0 ? 0 : j->to_step[last], j->from_dtype,
                            from, last < 0 ? 0 : j->from_step[last],
                            last < 0 ? 1 : j->size[last]);
        return;
    }
    for (int64_t i = 0; i < j->size[d]; i++)
        move_rows(j, d + 1, to + i * j->to_step[d], from + i * j->from_step[d]);
}

static void run_move(demo_job *job)
{
    move_job *j = (move_job *)job;
    const char *from = j->from ? demo_near(job->index, j->from) : j->element;

    move_rows(j, 0, demo_near(job->index, j->to), from);
}

static move_job *move_job_new(int index, const cr_array *to)
{
    move_job *j = demo_job_new(index, sizeof *j, run_move);

    if (!j)
        return NULL;
    j->to = to->data;
    j->to_dtype = j->from_dtype = to->dtype;
    j->ndim = to->ndim;
    for (int d = 0; d < to->ndim; d++) {
        j->size[d] = to->size[d];
        j->to_step[d] = to->stride[d] * item_size(to->dtype);
    }
    return j;
}

static const char *move(int index, const cr_array *to, const cr_array *from)
{
    move_job *j = move_job_new(index, to);

    if (!j)
        return no_memory;
    j->from = from->data;
    j->from_dtype = from->dtype;
    for (int d = 0; d < from->ndim; d++)
        j->from_step[d] = from->stride[d] * item_size(from->dtype);
    demo_enqueue(&j->job);
    return NULL;
}

static const char *fill(int index, const cr_array *to, const void *element)
{
    move_job *j = move_job_new(index, to);

    if (!j)
        return no_memory;
    memcpy(j->element, element, (size_t)item_size(to->dtype));
    demo_enqueue(&j->job);
    return NULL;
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

enum { MOST_OPERANDS = 64 };

typedef struct {
    demo_job job;
    const kernel *kernel;
    void *pointer[MOST_OPERANDS];
    int64_t stride[2 * MOST_OPERANDS], size[3];
    int operands, outer;
    int64_t *outer_size, *outer_stride; /* after the parameters */
    _Alignas(16) char number[MOST_OPERANDS][16];
    _Alignas(16) char param[];
} launch_job;

static _Atomic uint64_t launches;

/* Kernels that have run so far; the tests count with it. */
CR_BACKEND_API uint64_t demo_launches(void) { return launches; }

/* Calls the kernel for all indices of the outer dims from `d` on. */
static void call_planes(launch_job *j, int d, void *const *pointer, int64_t *first)
{
    void *at[MOST_OPERANDS];
    int64_t size[3] = {j->size[0], j->size[1], *first};

    if (d == j->outer) {
        j->kernel->function(pointer, j->stride, size, j->param);
        *first += j->size[0];
        return;
    }
    for (int64_t i = 0; i < j->outer_size[d]; i++) {
        for (int k = 0; k < j->operands; k++)
            at[k] = (char *)pointer[k] + i * j->outer_stride[k * j->outer + d];
        call_planes(j, d + 1, at, first);
    }
}

static void run_launch(demo_job *job)
{
    launch_job *j = (launch_job *)job;
    int64_t first = j->size[2];

    launches++;
    call_planes(j, 0, j->pointer, &first);
}

/* Copies the outer dims to `at`. */
static void set_outer(launch_job *j, const cr_launch *l, char *at)
{
    size_t n = (size_t)l->outer;

    j->outer = l->outer;
    j->operands = l->operands;
    j->outer_size = (int64_t *)(void *)at;
    j->outer_stride = j->outer_size + n;
    if (!n)
        return;
    memcpy(j->outer_size, l->outer_size, n * sizeof *j->outer_size);
    memcpy(j->outer_stride, l->outer_stride, n * (size_t)l->operands * sizeof *j->outer_stride);
    for (int k = 0; k < l->operands; k++)
        if (l->numbers >> k & 1)
            memset(j->outer_stride + (size_t)k * n, 0, n * sizeof *j->outer_stride);
}

static const char *launch(int index, const cr_launch *l)
{
    size_t param = (l->param_bytes + 15) / 16 * 16;
    size_t outer = (size_t)l->outer * (size_t)(l->operands + 1) * sizeof(int64_t);
    launch_job *j = demo_job_new(index, sizeof *j + param + outer, run_launch);

    if (!j || l->operands > MOST_OPERANDS) {
        free(j);
        return no_memory;
    }
    j->kernel = l->code;
    for (int k = 0; k < l->operands; k++) {
        if (l->numbers >> k & 1)
            j->pointer[k] = memcpy(j->number[k], l->pointer[k], sizeof j->number[k]);
        else
            j->pointer[k] = demo_near(index, l->pointer[k]);
    }
    memcpy(j->stride, l->stride, 2 * (size_t)l->operands * sizeof *j->stride);
    memcpy(j->size, l->size, sizeof j->size);
    if (l->param_bytes)
        memcpy(j->param, l->param, l->param_bytes);
    set_outer(j, l, j->param + param);
    demo_enqueue(&j->job);
    return NULL;
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
    int64_t stride[MOST_DIMS];

    memcpy(stride, from.stride, (size_t)from.ndim * sizeof *stride);
    for (size_t i = 0; i < given[1].count; i++) {
        int64_t d = given[1].ints[i] < 0 ? given[1].ints[i] + from.ndim : given[1].ints[i];
        if (from.size[d] > 0)
            from.data += (from.size[d] - 1) * stride[d] * item_size(from.dtype);
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
