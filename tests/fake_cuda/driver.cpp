/* A stand-in for libcuda: device memory is host memory, and the threads of kernels are fibers.
 *
 * The memory of a device is protected except while a job runs, so a process whose library reads or
 * writes device memory ends.  A stream is a queue of jobs, which run with a delay: a call of the
 * driver runs up to two random jobs, and a wait runs all jobs that it needs.  So a missing wait
 * shows as a wrong result.  A job that has to wait for another process says so and is tried again
 * later: other streams and other threads go on.
 *
 *   FAKE_CUDA_DEVICES   how many devices there are (1)
 *   FAKE_CUDA_MEMORY    megabytes of a device (512)
 *   FAKE_CUDA_THREADS   threads that a processor runs at once (2048)
 *   FAKE_CUDA_LATE      0: jobs run at once
 *   FAKE_CUDA_VERSION   of the driver (13000)
 *   FAKE_CUDA_INIT      what cuInit returns (0) */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_INIT = 3, NO_DEVICE = 100, NO_IMAGE = 200, NO_SYMBOL = 500, NOT_READY = 600 };

namespace
{

typedef unsigned long address;

struct stream;

struct event {
    long recorded = 0, happened = 0; /* counts of records */
    double at = 0;
    unsigned long capture = 0; /* in which it was recorded last, or 0 */
    stream *source = nullptr;
    long position = 0; /* how many jobs of the source were captured before */
};

/* A job runs when the jobs before it in its stream have run, and its event has happened.  `run`
 * gives false if it has to be tried again. */
struct job {
    std::function<bool()> run;
    event *waits = nullptr;
    long count = 0;
};

struct graph {
    std::vector<std::function<bool()>> jobs; /* in an order that no dependency is against */
};

/* A capture that is underway.  A call that it does not allow breaks it. */
struct capture {
    unsigned long id;
    int mode;
    pthread_t thread;
    stream *origin;
    graph *made = new graph;
    bool broken = false;
};

struct stream {
    std::deque<job> jobs;
    capture *in = nullptr;
    long captured = 0, joined = 0; /* jobs; how many of them other streams wait for */
};

struct device {
    char *heap = nullptr;
    std::map<size_t, size_t> used; /* begin -> size */
    std::vector<stream *> streams;
    stream first;
};

typedef void (*kernel_body)(const void *, int, int, int, int);

struct kernel {
    kernel_body run;
    size_t bytes; /* of its parameter */
};

std::recursive_mutex lock;
thread_local int held; /* how many times by this thread */
device devices[8];
std::map<void *, size_t> pinned;
thread_local int current;
unsigned seed = 1;
bool started;
std::vector<capture *> captures;
thread_local int own_mode; /* of captures, in this thread's calls */

enum { NOT_IN_CAPTURE = 900, BROKEN = 901, UNJOINED = 904, UNMATCHED = 905, ISOLATION = 907 };
enum { GLOBAL, THREAD_LOCAL, RELAXED };

/* Breaks the captures during which this thread makes no unsafe call; true if there are any. */
bool is_unsafe()
{
    bool any = false;
    for (capture *c : captures) {
        bool mine = pthread_equal(c->thread, pthread_self()) && c->mode != RELAXED;
        if (own_mode != RELAXED && (mine || (c->mode == GLOBAL && own_mode == GLOBAL)))
            any = c->broken = true;
    }
    return any;
}

int number(const char *name, int preset)
{
    const char *text = getenv(name);
    return text ? atoi(text) : preset;
}

int most_shared() { return number("FAKE_CUDA_SHARED", 227 << 10); }
size_t heap_bytes() { return (size_t)number("FAKE_CUDA_MEMORY", 512) << 20; }

double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Device memory is accessible as long as one of these exists; to change that costs as much as a
 * small job. */
int openings;

struct opening {
    opening() { protect(openings++ == 0, PROT_READ | PROT_WRITE); }
    ~opening() { protect(--openings == 0, PROT_NONE); }
    static void protect(bool changes, int how)
    {
        for (device &d : devices)
            if (changes && d.heap)
                mprotect(d.heap, heap_bytes(), how);
    }
};

struct holding {
    holding() { lock.lock(), held++; }
    ~holding() { held--, lock.unlock(); }
};

#define LOCKED holding guard

/* Gives the lock away for a moment. */
void pause()
{
    for (int i = 0; i < held; i++)
        lock.unlock();
    usleep(50);
    for (int i = 0; i < held; i++)
        lock.lock();
}

enum progress { NONE, AGAIN, MOVED };

/* Runs the first job of a stream, if the event for which it waits has happened. */
progress step(stream *s)
{
    if (s->jobs.empty())
        return NONE;
    const job &first = s->jobs.front();
    if (first.waits && first.waits->happened < first.count)
        return NONE;
    job j = std::move(s->jobs.front());
    s->jobs.pop_front();
    if (j.run) {
        opening here;
        if (!j.run())
            return s->jobs.push_front(std::move(j)), AGAIN;
    }
    return MOVED;
}

std::vector<stream *> all_streams()
{
    std::vector<stream *> all;
    for (device &d : devices) {
        all.push_back(&d.first);
        all.insert(all.end(), d.streams.begin(), d.streams.end());
    }
    return all;
}

/* Runs jobs until no more can run, or `until` holds. */
progress run_jobs(const std::function<bool()> &until)
{
    std::vector<stream *> all = all_streams();
    opening here;
    for (progress most = MOVED; !until();) {
        if (most != MOVED)
            return most;
        most = NONE;
        for (stream *s : all)
            most = std::max(most, step(s));
    }
    return NONE;
}

void settle(const std::function<bool()> &until)
{
    while (run_jobs(until) == AGAIN)
        pause();
}

stream *stream_of(void *s) { return s ? (stream *)s : &devices[current].first; }

void enqueue_job(void *handle, const job &j)
{
    stream *s = stream_of(handle);
    if (s->in) {
        s->captured++;
        s->in->made->jobs.push_back(j.run);
        return;
    }
    s->jobs.push_back(j);
    if (!number("FAKE_CUDA_LATE", 1)) {
        settle([&] { return s->jobs.empty(); });
        return;
    }
    std::vector<stream *> all = all_streams();
    for (int n = rand_r(&seed) % 3; n > 0; n--)
        step(all[(size_t)rand_r(&seed) % all.size()]);
}

void enqueue(void *handle, const std::function<void()> &run)
{
    enqueue_job(handle, {[run] { return run(), true; }});
}

bool empty(stream *s) { return s->jobs.empty(); }

/* A wait for a stream that is captured breaks the capture. */
bool is_captured(stream *s)
{
    if (s->in)
        s->in->broken = true;
    return s->in;
}

} // namespace

API cuInit(unsigned)
{
    LOCKED;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible && !*visible)
        return NO_DEVICE;
    if (number("FAKE_CUDA_INIT", 0))
        return number("FAKE_CUDA_INIT", 0);
    if (started)
        return OK;
    for (int i = 0; i < number("FAKE_CUDA_DEVICES", 1); i++) {
        devices[i].heap = (char *)mmap(nullptr, heap_bytes(), PROT_NONE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (devices[i].heap == MAP_FAILED)
            return NO_MEMORY;
    }
    started = true;
    return OK;
}

API cuDriverGetVersion(int *version) { return *version = number("FAKE_CUDA_VERSION", 13000), OK; }
API cuGetErrorName(int, const char **name) { return *name = "CUDA_ERROR", OK; }

API cuGetErrorString(int error, const char **text)
{
    *text = error == NO_MEMORY    ? "out of memory"
            : error == NO_IMAGE   ? "device kernel image is invalid"
            : error == NO_SYMBOL  ? "named symbol not found"
            : error == NOT_READY  ? "device not ready"
            : error == NOT_IN_CAPTURE ? "operation not permitted when stream is capturing"
            : error == BROKEN     ? "operation failed due to a previous error during capture"
            : error == UNJOINED   ? "capturing stream has unjoined work"
            : error == UNMATCHED  ? "the capture was not initiated in this stream"
            : error == ISOLATION  ? "dependency created on uncaptured work in another stream"
            : error == 401        ? "the operation cannot be performed in the present state"
            : error == 101        ? "invalid device ordinal"
                                  : "invalid argument";
    return OK;
}

API cuDeviceGetCount(int *count) { return !started ? NO_INIT : *count = number("FAKE_CUDA_DEVICES", 1), OK; }
API cuDeviceGet(int *device, int ordinal) { return *device = ordinal, OK; }
API cuDeviceGetName(char *name, int room, int) { return snprintf(name, room, "Fake GPU"), OK; }
API cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = heap_bytes(), OK; }
API cuDeviceGetUuid(void *uuid, int device) { return memset(uuid, device + 1, 16), OK; }
API cuDeviceCanAccessPeer(int *can, int, int) { return *can = 0, OK; }

API cuDeviceGetAttribute(int *value, int attribute, int)
{
    static const std::map<int, int> known = {{1, 1024}, {8, 49152}, {10, 32}, {16, 4},
                                             {82, 65536}};
    if (attribute == 75 || attribute == 76) {
        int capability = number("FAKE_CUDA_CAPABILITY", 90);
        return *value = attribute == 75 ? capability / 10 : capability % 10, OK;
    }
    if (attribute == 39)
        return *value = number("FAKE_CUDA_THREADS", 2048), OK;
    if (attribute == 97)
        return *value = most_shared(), OK;
    auto found = known.find(attribute);
    *value = found == known.end() ? 0 : found->second;
    return OK;
}

API cuDevicePrimaryCtxRetain(void **context, int device)
{
    return *context = (void *)(long)(device + 1), OK;
}
API cuCtxSetCurrent(void *context) { return current = (int)(long)context - 1, OK; }
API cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    return *least = 0, *greatest = -1, OK;
}

API cuCtxSynchronize()
{
    LOCKED;
    if (is_unsafe())
        return NOT_IN_CAPTURE;
    device &d = devices[current];
    settle([&] {
        bool done = empty(&d.first);
        for (stream *s : d.streams)
            done = done && empty(s);
        return done;
    });
    return OK;
}

/* --- memory --- */

API cuMemGetInfo_v2(size_t *free, size_t *total)
{
    LOCKED;
    *total = *free = heap_bytes();
    for (auto &b : devices[current].used)
        *free -= b.second;
    return OK;
}

API cuMemAlloc_v2(address *p, size_t bytes)
{
    LOCKED;
    if (is_unsafe())
        return NOT_IN_CAPTURE;
    device &d = devices[current];
    size_t at = 0, size = (bytes + 511) / 512 * 512;
    for (auto &b : d.used) {
        if (b.first - at >= size)
            break;
        at = b.first + b.second;
    }
    if (at + size > heap_bytes())
        return NO_MEMORY;
    d.used[at] = size;
    *p = (address)(d.heap + at);
    return OK;
}

API cuMemFree_v2(address p)
{
    LOCKED;
    if (is_unsafe())
        return NOT_IN_CAPTURE;
    cuCtxSynchronize();
    return devices[current].used.erase(p - (address)devices[current].heap) ? OK : INVALID;
}

API cuMemHostAlloc(void **p, size_t bytes, unsigned)
{
    LOCKED;
    if (is_unsafe())
        return NOT_IN_CAPTURE;
    *p = malloc(bytes);
    if (!*p)
        return NO_MEMORY;
    pinned[*p] = bytes;
    return OK;
}

API cuMemFreeHost(void *p)
{
    LOCKED;
    if (!pinned.erase(p))
        return INVALID;
    free(p);
    return OK;
}

API cuPointerGetAttribute(void *value, int attribute, address p)
{
    LOCKED;
    for (int i = 0; attribute == 9 && i < number("FAKE_CUDA_DEVICES", 1); i++)
        if (p >= (address)devices[i].heap && p < (address)devices[i].heap + heap_bytes())
            return *(int *)value = i, OK;
    auto after = pinned.upper_bound((void *)p);
    if (after == pinned.begin())
        return INVALID;
    --after;
    if ((char *)p >= (char *)after->first + after->second)
        return INVALID;
    *(int *)value = 1;
    return OK;
}

API cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, void *s)
{
    LOCKED;
    int kind;
    /* What is read when the job runs. */
    if (stream_of(s)->in || !cuPointerGetAttribute(&kind, 2, (address)from)) {
        enqueue(s, [=] { memcpy((void *)to, from, n); });
        return OK;
    }
    std::string bytes((const char *)from, n);
    enqueue(s, [=] { memcpy((void *)to, bytes.data(), n); });
    return OK;
}

API cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, void *s)
{
    LOCKED;
    enqueue(s, [=] { memcpy(to, (void *)from, n); });
    return OK;
}

API cuMemcpyDtoDAsync_v2(address to, address from, size_t n, void *s)
{
    LOCKED;
    enqueue(s, [=] { memmove((void *)to, (void *)from, n); });
    return OK;
}

template <class T> static int fill(address to, T value, size_t n, void *s)
{
    LOCKED;
    enqueue(s, [=] {
        for (size_t i = 0; i < n; i++)
            ((T *)to)[i] = value;
    });
    return OK;
}
API cuMemsetD8Async(address to, unsigned char value, size_t n, void *s) { return fill(to, value, n, s); }
API cuMemsetD16Async(address to, unsigned short value, size_t n, void *s) { return fill(to, value, n, s); }
API cuMemsetD32Async(address to, unsigned value, size_t n, void *s) { return fill(to, value, n, s); }

/* --- streams and events --- */

API cuStreamCreateWithPriority(void **s, unsigned, int)
{
    LOCKED;
    stream *made = new stream;
    devices[current].streams.push_back(made);
    return *s = made, OK;
}

API cuStreamSynchronize(void *s)
{
    LOCKED;
    stream *of = stream_of(s);
    if (is_captured(of))
        return NOT_IN_CAPTURE;
    settle([&] { return empty(of); });
    return OK;
}

API cuStreamQuery(void *s)
{
    LOCKED;
    if (is_captured(stream_of(s)))
        return NOT_IN_CAPTURE;
    step(stream_of(s));
    return empty(stream_of(s)) ? OK : NOT_READY;
}

API cuEventCreate(void **e, unsigned) { return *e = new event, OK; }
API cuEventDestroy_v2(void *e)
{
    (void)e; /* jobs may still refer to it */
    return OK;
}

API cuEventRecord(void *e, void *s)
{
    LOCKED;
    event *of = (event *)e;
    stream *from = stream_of(s);
    of->capture = from->in ? from->in->id : 0;
    of->source = from;
    of->position = from->captured;
    if (from->in)
        return OK;
    long count = ++of->recorded;
    enqueue(s, [=] {
        of->happened = count;
        of->at = now();
    });
    return OK;
}

API cuStreamWaitEvent(void *s, void *e, unsigned)
{
    LOCKED;
    event *of = (event *)e;
    stream *to = stream_of(s);
    for (capture *c : captures)
        if (c->id == of->capture) { /* the stream becomes a part of the capture */
            to->captured = to->in ? to->captured : 0;
            to->joined = to->in ? to->joined : 0;
            to->in = c;
            of->source->joined = std::max(of->source->joined, of->position);
            return OK;
        }
    if (to->in)
        return to->in->broken = true, ISOLATION;
    enqueue_job(s, {nullptr, of, of->recorded});
    return OK;
}

API cuEventSynchronize(void *e)
{
    LOCKED;
    event *of = (event *)e;
    for (capture *c : captures)
        if (c->id == of->capture)
            return c->broken = true, NOT_IN_CAPTURE;
    settle([&] { return of->happened >= of->recorded; });
    return OK;
}

API cuEventQuery(void *e)
{
    LOCKED;
    event *of = (event *)e;
    if (is_unsafe())
        return NOT_IN_CAPTURE;
    std::vector<stream *> all = all_streams();
    step(all[(size_t)rand_r(&seed) % all.size()]);
    return of->happened >= of->recorded ? OK : NOT_READY;
}

API cuEventElapsedTime(float *ms, void *start, void *end)
{
    LOCKED;
    event *a = (event *)start, *b = (event *)end;
    if (a->happened < a->recorded || b->happened < b->recorded)
        return NOT_READY;
    *ms = (float)(b->at - a->at);
    return OK;
}

/* --- captures and graphs --- */

API cuStreamBeginCapture_v2(void *s, int mode)
{
    static unsigned long last;
    LOCKED;
    if (!s || stream_of(s)->in)
        return s ? 401 : NOT_IN_CAPTURE;
    stream *origin = stream_of(s);
    origin->captured = origin->joined = 0;
    captures.push_back(origin->in = new capture{++last, mode, pthread_self(), origin});
    return OK;
}

API cuStreamEndCapture(void *s, void **out)
{
    LOCKED;
    stream *origin = stream_of(s);
    capture *c = origin->in;
    *out = nullptr;
    if (!c || c->origin != origin)
        return c ? (c->broken = true, UNMATCHED) : 401;
    bool unjoined = false;
    for (stream *each : all_streams())
        if (each->in == c) {
            unjoined = unjoined || (each != origin && each->joined < each->captured);
            each->in = nullptr;
        }
    captures.erase(std::find(captures.begin(), captures.end(), c));
    int result = c->broken ? (int)BROKEN : unjoined ? (int)UNJOINED : 0;
    if (result)
        delete c->made;
    else
        *out = c->made;
    delete c;
    return result;
}

API cuStreamGetCaptureInfo_v2(void *s, int *status, unsigned long *id, void **, const void **, size_t *)
{
    LOCKED;
    capture *c = stream_of(s)->in;
    *status = !c ? 0 : c->broken ? 2 : 1;
    if (c && id)
        *id = c->id;
    return OK;
}

API cuThreadExchangeStreamCaptureMode(int *mode) { return std::swap(*mode, own_mode), OK; }

API cuGraphGetNodes(void *g, void **, size_t *count) { return *count = ((graph *)g)->jobs.size(), OK; }
API cuGraphInstantiateWithFlags(void **exec, void *g, unsigned long long)
{
    return *exec = new graph(*(graph *)g), OK;
}
API cuGraphLaunch(void *exec, void *s)
{
    LOCKED;
    for (const std::function<bool()> &run : ((graph *)exec)->jobs)
        enqueue_job(s, {run});
    return OK;
}
API cuGraphDebugDotPrint(void *g, const char *path, unsigned)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return INVALID;
    fprintf(f, "digraph { nodes_%zu }\n", ((graph *)g)->jobs.size());
    return fclose(f), OK;
}
API cuGraphDestroy(void *g) { return delete (graph *)g, OK; }
API cuGraphExecDestroy(void *g) { return delete (graph *)g, OK; }

/* For the stand-ins of libraries: queues work on a stream. */
extern "C" __attribute__((visibility("default"))) void fake_cuda_enqueue(void *s, const std::function<void()> *run)
{
    LOCKED;
    enqueue(s, *run);
}

/* The same for work that may have to wait for other processes: `run` is called until it gives true. */
extern "C" __attribute__((visibility("default"))) void fake_cuda_enqueue_tries(void *s, const std::function<bool()> *run)
{
    LOCKED;
    enqueue_job(s, {*run});
}

/* --- kernels: an image is a magic word, a length and a shared object (nvrtc.cpp) --- */

API cuModuleLoadData(void **out, const void *image)
{
    LOCKED;
    if (is_unsafe())
        return NOT_IN_CAPTURE;
    uint64_t n;
    if (memcmp(image, "FAKECUDA", 8))
        return NO_IMAGE;
    memcpy(&n, (const char *)image + 8, sizeof n);
    int file = memfd_create("kernel", MFD_CLOEXEC);
    if (file < 0 || write(file, (const char *)image + 16, n) != (ssize_t)n)
        return NO_MEMORY;
    std::string path = "/proc/self/fd/" + std::to_string(file);
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    /* The file stays open, because the loader identifies objects by device and inode. */
    return library ? (*out = library, OK) : NO_IMAGE;
}

API cuModuleGetFunction(void **function, void *library, const char *name)
{
    void *body = dlsym(library, (std::string(name) + "_simt").c_str());
    const int *bytes = (const int *)dlsym(library, (std::string(name) + "_bytes").c_str());
    if (!body || !bytes)
        return NO_SYMBOL;
    *function = new kernel{(kernel_body)body, (size_t)*bytes};
    return OK;
}

static long launches;

/* How many kernels were launched; for tests. */
extern "C" __attribute__((visibility("default"))) long fake_cuda_launches() { return launches; }

/* Shared memory of launches is an array of simt.h. */
API cuFuncSetAttribute(void *, int attribute, int value)
{
    enum { MOST_SHARED = 8 };
    return attribute == MOST_SHARED && value <= most_shared() ? OK : INVALID;
}

API cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned, void *s, void **argument, void **)
{
    LOCKED;
    if (!gx || !gy || gy > (unsigned)number("FAKE_CUDA_GRID", 65535) || !bx || !by || bx * by > 1024 || gz != 1 || bz != 1)
        return INVALID;
    launches++;
    kernel k = *(kernel *)function;
    std::string call((const char *)argument[0], k.bytes);
    enqueue(s, [=] {
        alignas(16) char copy[4096];
        memcpy(copy, call.data(), k.bytes);
        k.run(copy, (int)gx, (int)gy, (int)bx, (int)by);
    });
    return OK;
}

struct launching {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct {
        int what;
        char unused[4];
        int on;
    } *attribute;
    unsigned attributes;
};

/* A kernel may begin while the one before it runs, or afterwards, as here.  Not in a capture: drivers before 12.3 refuse that. */
API cuLaunchKernelEx(const launching *how, void *function, void **argument, void **extra)
{
    {
        LOCKED;
        if (stream_of(how->stream)->in)
            return INVALID;
    }
    if (how->attributes != 1 || how->attribute->what != 6 || how->attribute->on != 1)
        return INVALID;
    return cuLaunchKernel(function, how->grid[0], how->grid[1], how->grid[2], how->block[0], how->block[1], how->block[2], how->shared,
                          how->stream, argument, extra);
}

/* Blocks run one after the other, so there may be one. */
API cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, void *s, void **argument)
{
    return gx * gy * gz == 1 ? cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, s, argument, nullptr)
                             : 720;
}
