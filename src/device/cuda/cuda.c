/* Devices, contexts, copies and launches. */
#include "device/cuda/cuda.h"
#include "base/env.h"
#include "base/memory.h"
#include "device/cuda/driver.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { CUDA_NONE = -1, CUDA_STREAMS = 32, CUDA_PRIORITIES = 2 };

static const cr_cuda_driver *driver;
static int device_count;
static bool launches_wait;
static _Atomic bool initialized, forked;

/* The state of a device that was used. */
typedef struct {
    void *context;
    void *stream[CUDA_PRIORITIES][CUDA_STREAMS];
    unsigned next[CUDA_PRIORITIES];
} cuda_device;

static cuda_device devices[CR_CUDA_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Thread-local storage is scarce (base/compiler.h), so the array of streams is allocated. */
typedef struct {
    int current, bound; /* the current device; the device of the bound context */
    int failed;         /* the last result that was an error */
    void **stream;      /* by device; NULL while the thread uses only default streams */
} cuda_thread;

static CR_THREAD cuda_thread mine = {.bound = CUDA_NONE};

/* --- errors --- */

static const char *cuda_say(const char *text)
{
    cr_fail(CR_RUNTIME, "%s", text);
    return cr_error_message();
}

const char *cr_cuda_check(int result)
{
    const char *text = NULL;

    if (CR_LIKELY(!result))
        return NULL;
    if (driver->error_string(result, &text) || !text)
        text = "unrecognized error code";
    mine.failed = result;
    cr_fail(
        CR_ACCELERATOR,
        "CUDA error: %s\n%sCUDA kernel errors might be asynchronously reported at some other "
        "API call, so the stacktrace below might be incorrect.\nFor debugging consider "
        "passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
        "device-side assertions.\n",
        text,
        result == CR_CUDA_NO_SUCH_DEVICE
            ? "GPU device may be out of range, do you have enough GPUs?\n"
            : "");
    return cr_error_message();
}

int cr_cuda_last_failure(void) { return mine.failed; }

#define CUDA_TRY(call)                                                                         \
    do {                                                                                       \
        const char *cuda_error = (call);                                                       \
        if (CR_UNLIKELY(cuda_error != NULL))                                                   \
            return cuda_error;                                                                 \
    } while (0)
#define CUDA_CALL(call) CUDA_TRY(cr_cuda_check(driver->call))

/* --- contexts --- */

bool cr_cuda_is_initialized(void) { return initialized && !forked; }

static void cuda_after_fork(void)
{
    if (initialized)
        forked = true;
}

static const char *cuda_make_context(int index)
{
    static bool watching;
    cuda_device *d = &devices[index];
    const char *error = NULL;
    int device;

    pthread_mutex_lock(&lock);
    if (!watching) {
        pthread_atfork(NULL, NULL, cuda_after_fork);
        watching = true;
    }
    if (!d->context) {
        error = cr_cuda_check(driver->device_get(&device, index));
        if (!error)
            error = cr_cuda_check(driver->context_retain(&d->context, device));
        initialized = initialized || !error;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static CR_NOINLINE const char *cuda_bind(int index)
{
    if (forked)
        return cuda_say("Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                        "multiprocessing, you must use the 'spawn' start method");
    if (index < 0 || index >= device_count)
        return cr_cuda_check(CR_CUDA_NO_SUCH_DEVICE);
    CUDA_TRY(cuda_make_context(index));
    CUDA_CALL(context_set(devices[index].context));
    mine.bound = index;
    return NULL;
}

const char *cr_cuda_use(int index)
{
    return CR_LIKELY(mine.bound == index && !forked) ? NULL : cuda_bind(index);
}

/* --- devices --- */

static int cuda_count(void) { return device_count; }

static int cuda_current(void) { return mine.current; }

static const char *cuda_set_current(int index)
{
    CUDA_TRY(cr_cuda_use(index));
    mine.current = index;
    return NULL;
}

static int cuda_attribute(int device, cr_cuda_attribute which)
{
    int value = 0;

    return driver->device_attribute(&value, (int)which, device) ? 0 : value;
}

const char *cr_cuda_property(cr_cuda_properties *out, int index)
{
    int d;

    *out = (cr_cuda_properties){.warp_size = 32};
    CUDA_CALL(device_get(&d, index));
    CUDA_CALL(device_name(out->name, (int)sizeof out->name, d));
    CUDA_CALL(device_memory(&out->total_memory, d));
    CUDA_CALL(device_uuid(out->uuid, d));
    out->major = cuda_attribute(d, CR_CUDA_MAJOR);
    out->minor = cuda_attribute(d, CR_CUDA_MINOR);
    out->processors = cuda_attribute(d, CR_CUDA_PROCESSORS);
    out->together = cuda_attribute(d, CR_CUDA_TOGETHER) != 0;
    out->l2_bytes = cuda_attribute(d, CR_CUDA_L2_BYTES);
    out->threads_of_processor = cuda_attribute(d, CR_CUDA_THREADS_OF_PROCESSOR);
    out->max_threads_of_block = cuda_attribute(d, CR_CUDA_MAX_THREADS_OF_BLOCK);
    out->warp_size = cuda_attribute(d, CR_CUDA_WARP_SIZE);
    out->shared_of_block = cuda_attribute(d, CR_CUDA_SHARED_OF_BLOCK);
    out->shared_of_block_optin = cuda_attribute(d, CR_CUDA_SHARED_OF_BLOCK_OPTIN);
    out->shared_of_processor = cuda_attribute(d, CR_CUDA_SHARED_OF_PROCESSOR);
    out->registers_of_processor = cuda_attribute(d, CR_CUDA_REGISTERS_OF_PROCESSOR);
    out->clocks.clock_rate = cuda_attribute(d, CR_CUDA_CLOCK_RATE);
    out->clocks.memory_clock_rate = cuda_attribute(d, CR_CUDA_MEMORY_CLOCK_RATE);
    out->clocks.memory_bus_width = cuda_attribute(d, CR_CUDA_MEMORY_BUS_WIDTH);
    out->pci.pci_domain = cuda_attribute(d, CR_CUDA_PCI_DOMAIN);
    out->pci.pci_bus = cuda_attribute(d, CR_CUDA_PCI_BUS);
    out->pci.pci_device = cuda_attribute(d, CR_CUDA_PCI_DEVICE);
    out->integrated = cuda_attribute(d, CR_CUDA_INTEGRATED) != 0;
    out->multi_gpu_board = cuda_attribute(d, CR_CUDA_MULTI_GPU_BOARD) != 0;
    return NULL;
}

int cr_cuda_shared_most(int index)
{
    static _Atomic int known[CR_CUDA_DEVICES]; /* the bytes, and 1; 0: not asked */
    cr_cuda_properties p;

    if (!known[index])
        known[index] = cr_cuda_property(&p, index) ? 1 : p.shared_of_block_optin + 1;
    return known[index] - 1;
}

int cr_cuda_together(int index, int most, int threads, int bytes)
{
    static _Atomic int processors[CR_CUDA_DEVICES]; /* 0: not asked */
    static _Atomic int all_threads[CR_CUDA_DEVICES], all_bytes[CR_CUDA_DEVICES];
    cr_cuda_properties p;

    if (!processors[index]) {
        bool known = !cr_cuda_property(&p, index) && p.together;
        all_threads[index] = known ? p.threads_of_processor : 0;
        all_bytes[index] = known ? p.shared_of_processor : 0;
        processors[index] = known ? p.processors : 1;
    }
    int by_threads = all_threads[index] / threads,
        by_bytes = bytes ? all_bytes[index] / bytes : most;
    int least = by_threads < by_bytes ? by_threads : by_bytes;
    return processors[index] * (least < 1 ? 1 : least < most ? least : most);
}

static const char *cuda_limits(int index, cr_device_limits *out)
{
    static cr_cuda_properties of[CR_CUDA_DEVICES];

    CUDA_TRY(cr_cuda_property(&of[index], index));
    *out = (cr_device_limits){
        .total_memory = of[index].total_memory, .alignment = 512, .name = of[index].name};
    return NULL;
}

const char *cr_cuda_driver_version(int *out)
{
    CUDA_CALL(driver_version(out));
    return NULL;
}

const char *cr_cuda_can_access_peer(bool *can, int index, int peer)
{
    int a, b, yes = 0;

    CUDA_CALL(device_get(&a, index));
    CUDA_CALL(device_get(&b, peer));
    CUDA_CALL(can_access_peer(&yes, a, b));
    *can = yes != 0;
    return NULL;
}

/* --- streams: pools that are never destroyed, because blocks keep their streams --- */

void *cr_cuda_stream(int index) { return mine.stream ? mine.stream[index] : NULL; }

/* Frees the array of streams of a thread that ends. */
static void cuda_free_streams(void *streams)
{
    mine.stream = NULL; /* later destructors of the thread may still ask for its stream */
    cr_free(streams);
}

static pthread_key_t streams_key;

static void cuda_make_key(void) { pthread_key_create(&streams_key, cuda_free_streams); }

static const char *cuda_own_streams(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, cuda_make_key);
    mine.stream = mine.stream ? mine.stream : cr_alloc_zero(CR_CUDA_DEVICES * sizeof(void *));
    if (!mine.stream)
        return cr_error_message();
    pthread_setspecific(streams_key, mine.stream);
    return NULL;
}

const char *cr_cuda_stream_new(int index, int priority, void **stream)
{
    cuda_device *d = &devices[index];
    int which = priority < 0;
    const char *error = NULL;

    CUDA_TRY(cr_cuda_use(index));
    pthread_mutex_lock(&lock);
    void **at = &d->stream[which][d->next[which]++ % CUDA_STREAMS];
    if (!*at)
        error = cr_cuda_check(driver->stream_new(at, CR_CUDA_STREAM_APART, which ? -1 : 0));
    *stream = *at;
    pthread_mutex_unlock(&lock);
    return error;
}

static const char *cuda_stream_new(int index, void **stream)
{
    return cr_cuda_stream_new(index, 0, stream);
}

static void cuda_stream_drop(int index, void *stream)
{
    (void)index;
    (void)stream;
}

static const char *cuda_set_stream(int index, void *stream)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_TRY(cuda_own_streams());
    mine.stream[index] = stream;
    return NULL;
}

const char *cr_cuda_stream_synchronize(int index, void *stream)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(stream_wait(stream));
    return cr_cuda_late_end(index);
}

/* *done: whether the query found all work done.  The error is an error of this work. */
static const char *cuda_is_done(int result, bool *done)
{
    *done = result != CR_CUDA_NOT_READY;
    return *done ? cr_cuda_check(result) : NULL;
}

const char *cr_cuda_stream_done(int index, void *stream, bool *done)
{
    CUDA_TRY(cr_cuda_use(index));
    return cuda_is_done(driver->stream_query(stream), done);
}

/* --- events --- */

const char *cr_cuda_event_new(int index, bool timed, bool blocking, void **event)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(event_new(event, (timed ? 0u : CR_CUDA_EVENT_NO_TIME) |
                                   (blocking ? CR_CUDA_EVENT_BLOCKING : 0u)));
    return NULL;
}

static const char *cuda_event_new(int index, void **event)
{
    return cr_cuda_event_new(index, false, false, event);
}

static void cuda_event_drop(int index, void *event)
{
    if (!cr_cuda_use(index))
        driver->event_drop(event);
}

static const char *cuda_event_record(int index, void *event)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(event_record(event, cr_cuda_stream(index)));
    return NULL;
}

static const char *cuda_event_wait(int index, void *event)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(stream_wait_event(cr_cuda_stream(index), event, 0));
    return NULL;
}

static const char *cuda_event_synchronize(int index, void *event)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(event_wait(event));
    return cr_cuda_late_end(index);
}

static bool cuda_event_done(int index, void *event)
{
    bool done = true;

    if (!cr_cuda_use(index))
        cuda_is_done(driver->event_query(event), &done);
    return done;
}

const char *cr_cuda_event_elapsed(int index, void *start, void *end, double *ms)
{
    float f = 0;

    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(event_elapsed(&f, start, end));
    *ms = (double)f;
    return NULL;
}

static const char *cuda_synchronize(int index)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(context_wait());
    return cr_cuda_late_end(index);
}

/* --- copies --- */

/* The device reads pinned memory directly, so the host must wait for the end of the copy.  The
 * driver stages other memory before its function returns. */
bool cr_cuda_is_pinned(const void *host)
{
    int kind = 0;

    return initialized && !forked &&
           !driver->pointer_attribute(&kind, CR_CUDA_POINTER_MEMORY, (uintptr_t)host) &&
           kind == CR_CUDA_POINTER_HOST_MEMORY;
}

const char *cr_cuda_device_of(int *index, const void *p)
{
    CUDA_TRY(cr_cuda_use(mine.current));
    return cr_cuda_check(
        driver->pointer_attribute(index, CR_CUDA_POINTER_DEVICE, (uintptr_t)p));
}

static _Atomic(const char *(*)(void)) wait_hook;

void cr_cuda_on_wait(const char *(*hook)(void)) { atomic_store(&wait_hook, hook); }

static const char *cuda_report_wait(void)
{
    const char *(*hook)(void) = atomic_load_explicit(&wait_hook, memory_order_relaxed);

    return CR_UNLIKELY(hook != NULL) ? hook() : NULL;
}

static const char *cuda_copy_in(int index, void *to, const void *host, size_t n)
{
    void *stream = cr_cuda_stream(index);

    CUDA_TRY(cr_cuda_use(index));
    if (CR_UNLIKELY(cr_cuda_is_capturing(index))) {
        /* The copy is done when the graph runs. */
        host = cr_cuda_is_pinned(host) ? host : cr_cuda_capture_bytes(index, host, n);
        return host ? cr_cuda_check(driver->copy_in((uintptr_t)to, host, n, stream))
                    : cr_error_message();
    }
    CUDA_CALL(copy_in((uintptr_t)to, host, n, stream));
    if (cr_cuda_is_pinned(host))
        CUDA_CALL(stream_wait(stream));
    return NULL;
}

static const char *cuda_copy_out(int index, void *host, const void *from, size_t n)
{
    void *stream = cr_cuda_stream(index);

    CUDA_TRY(cuda_report_wait());
    CUDA_TRY(cr_cuda_use(index));
    if (CR_LIKELY(!cr_cuda_is_capturing(index)))
        CUDA_CALL(copy_out(host, (uintptr_t)from, n, stream));
    CUDA_CALL(stream_wait(stream)); /* an error in a capture */
    return cr_cuda_late_end(index);
}

static const char *cuda_copy(int index, void *to, const void *from, size_t n)
{
    CUDA_TRY(cr_cuda_use(index));
    CUDA_CALL(copy((uintptr_t)to, (uintptr_t)from, n, cr_cuda_stream(index)));
    return NULL;
}

const char *cr_cuda_fill(int index, void *to, const void *item, int bytes, size_t n)
{
    uint32_t word = 0;
    uintptr_t at = (uintptr_t)to;
    void *stream = cr_cuda_stream(index);

    memcpy(&word, item, (size_t)bytes);
    CUDA_TRY(cr_cuda_use(index));
    return cr_cuda_check(bytes == 1   ? driver->fill_8(at, (unsigned char)word, n, stream)
                         : bytes == 2 ? driver->fill_16(at, (unsigned short)word, n, stream)
                                      : driver->fill_32(at, word, n, stream));
}

void *cr_cuda_block(int index, size_t bytes)
{
    uintptr_t at = 0;

    if (cr_cuda_use(index))
        return NULL;
    int mode = cr_cuda_relax();
    bool failed = driver->memory_get(&at, bytes) != 0;
    cr_cuda_tighten(mode);
    return failed ? NULL : (void *)at;
}

void cr_cuda_block_drop(int index, void *at)
{
    if (!at || cr_cuda_use(index))
        return;
    int mode = cr_cuda_relax();
    (void)driver->memory_free((uintptr_t)at);
    cr_cuda_tighten(mode);
}

/* --- kernels --- */

/* Shared memory that a launch may have, beside the 8 KB that a kernel may declare, unless the
 * function's attribute allows more. */
enum { CUDA_PLAIN_SHARED = 40 << 10, CUDA_MOST_SHARED = 8 };

const char *cr_cuda_load_code(void **function, int index, const void *image, const char *symbol)
{
    void *module = NULL;

    CUDA_TRY(cr_cuda_use(index));
    int mode = cr_cuda_relax();
    const char *error = cr_cuda_check(driver->module_load(&module, image));
    if (!error)
        error = cr_cuda_check(driver->module_function(function, module, symbol));
    cr_cuda_tighten(mode);
    return error;
}

/* Whether kernels begin with ck_begin (emit/vec.cuh), which waits for those before them. */
static bool cuda_begins(int index)
{
    enum { EARLY_MAJOR = 9 };
    static _Atomic int known[CR_CUDA_DEVICES]; /* the answer, and 1; 0: not asked */
    cr_cuda_properties p;

    if (!known[index])
        known[index] = !cr_cuda_property(&p, index) && p.major >= EARLY_MAJOR ? 2 : 1;
    return known[index] == 2;
}

/* The driver may launch the kernel while the one before it in the stream still runs: its blocks
 * take places that become free, and wait there. */
static cr_cuda_result cuda_launch_early(const cr_cuda_grid *g, void *stream, void *argument)
{
    cr_cuda_launch_attribute early = {.what = CR_CUDA_LAUNCH_EARLY, .value = {.on = 1}};
    cr_cuda_launching how = {.grid = {g->grid[0], g->grid[1], 1},
                             .block = {g->block[0], g->block[1], 1},
                             .shared = g->shared,
                             .stream = stream,
                             .attribute = &early,
                             .attributes = 1};

    return driver->launch_early(&how, g->function, &argument, NULL);
}

const char *cr_cuda_launch(int index, const cr_cuda_grid *g, void *argument)
{
    CUDA_TRY(cr_cuda_use(index));
    if (g->shared > CUDA_PLAIN_SHARED)
        CUDA_CALL(function_set(g->function, CUDA_MOST_SHARED, (int)g->shared));
    if (g->together && g->grid[0] > 1)
        CUDA_CALL(launch_together(g->function, g->grid[0], g->grid[1], 1, g->block[0],
                                  g->block[1], 1, g->shared, cr_cuda_stream(index), &argument));
    else if (!launches_wait && cuda_begins(index) && !cr_cuda_is_capturing(index))
        CUDA_TRY(cr_cuda_check(cuda_launch_early(g, cr_cuda_stream(index), argument)));
    else
        CUDA_CALL(launch(g->function, g->grid[0], g->grid[1], 1, g->block[0], g->block[1], 1,
                         g->shared, cr_cuda_stream(index), &argument, NULL));
    if (CR_LIKELY(!launches_wait) || cr_cuda_is_capturing(index))
        return NULL;
    CUDA_CALL(stream_wait(cr_cuda_stream(index)));
    return cr_cuda_late_end(index);
}

/* --- the table --- */

cr_device_ops cr_cuda_ops = {
    .bytes = sizeof cr_cuda_ops,
    .count = cuda_count,
    .current = cuda_current,
    .set_current = cuda_set_current,
    .limits = cuda_limits,
    .get = cr_cuda_memory_get,
    .release = cr_cuda_memory_release,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .copy = cuda_copy,
    .stream_new = cuda_stream_new,
    .stream_drop = cuda_stream_drop,
    .set_stream = cuda_set_stream,
    .stream = cr_cuda_stream,
    .event_new = cuda_event_new,
    .event_drop = cuda_event_drop,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_synchronize = cuda_event_synchronize,
    .event_done = cuda_event_done,
    .synchronize = cuda_synchronize,
};

static void cuda_start(void)
{
    driver = cr_cuda_load_driver();
    if (!driver || driver->device_count(&device_count))
        return;
    device_count = device_count < CR_CUDA_DEVICES ? device_count : CR_CUDA_DEVICES;
    launches_wait = cr_env_int(CR_ENV_CUDA_LAUNCH_BLOCKING) != 0;
    cr_cuda_memory_start();
}

const cr_device_ops *cr_cuda_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, cuda_start);
    return device_count ? &cr_cuda_ops : NULL;
}
