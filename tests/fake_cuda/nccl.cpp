/* A stand-in for NCCL: calls are jobs of the stand-in's streams, which exchange bytes with the other processes through a
 * file of shared memory.
 *
 * For each pair of ranks there is a box of one chunk.  A job does what the boxes allow and is tried again later.  One
 * that waits for a peer longer than FAKE_NCCL_LIMIT milliseconds (3000), or whose communicator was aborted, gives up;
 * ncclCommGetAsyncError then tells. */
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

/* driver.cpp */
extern "C" void fake_cuda_enqueue_tries(void *stream, const std::function<bool()> *run);

enum { OK = 0, SYSTEM = 2, REMOTE = 6, RANKS = 8, ABORTED = 99 };
const size_t CHUNK = 1 << 16;
enum { I8, U8, I32, U32, I64, U64, F16, F32, F64, BF16 };
enum { SUM, PROD, MAX, MIN, AVG, FIRST_MADE };

namespace
{

struct box {
    std::atomic<int> full;
    size_t bytes;
    char data[CHUNK];
};

struct shared {
    std::atomic<int> joined;
    box pair[RANKS][RANKS]; /* from, to */
};

struct id {
    char text[128];
};

struct comm {
    shared *at;
    int rank, size;
    std::atomic<int> error{0};
    std::vector<double> factors; /* of made operations */
};

double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

double limit()
{
    const char *text = getenv("FAKE_NCCL_LIMIT");
    return text ? atof(text) : 3000;
}

/* Bytes on their way between this rank and a peer. */
struct message {
    char *at;
    size_t bytes, done;
    int peer;
    bool sends, begun;
};

/* Moves a chunk if the box allows it. */
bool advance(comm *c, message &m)
{
    box &b = m.sends ? c->at->pair[c->rank][m.peer] : c->at->pair[m.peer][c->rank];
    if (b.full.load() != !m.sends)
        return false;
    size_t n = m.bytes - m.done < CHUNK ? m.bytes - m.done : CHUNK;
    if (m.sends)
        memcpy(b.data, m.at + m.done, b.bytes = n);
    else if (b.bytes != n)
        c->error = REMOTE;
    else
        memcpy(m.at + m.done, b.data, n);
    m.done += n;
    m.begun = true;
    b.full = m.sends;
    return true;
}

bool ended(const message &m) { return m.begun && m.done == m.bytes; }

/* Moves one chunk of each message that may move now: messages of a pair and direction keep their order. */
bool advance_all(comm *c, std::vector<message> &list)
{
    bool moved = false;
    for (size_t i = 0; i < list.size(); i++) {
        bool first = !ended(list[i]);
        for (size_t k = 0; k < i; k++)
            first &= ended(list[k]) || list[k].peer != list[i].peer || list[k].sends != list[i].sends;
        if (first)
            moved |= advance(c, list[i]);
    }
    return moved;
}

/* One call of a stream: messages, which `begin` lists when it is the call's turn, and `end` after the last one. */
struct call {
    comm *c;
    std::function<std::vector<message>()> begin;
    std::function<void()> end;
    bool begun = false;
    std::vector<message> list = {};
    double tried = 0, waited = 0; /* only time between tries that follow soon counts */

    /* Has it ended, or given up? */
    bool attempt()
    {
        if (!begun && !c->error)
            list = begin(), begun = true, tried = now();
        while (!c->error && advance_all(c, list))
            waited = 0;
        bool all = true;
        for (const message &m : list)
            all &= ended(m);
        if (all && !c->error && end)
            end();
        return all || c->error || late();
    }

    bool late()
    {
        double at = now();
        waited += at - tried < 100 ? at - tried : 100;
        tried = at;
        return waited > limit() && (c->error = REMOTE);
    }
};

float half(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    float f = e ? (float)(1024 + m) / 1024 * (float)(e > 15 ? 1 << (e - 15) : 1) / (float)(e < 15 ? 1 << (15 - e) : 1)
                : (float)m / (1 << 24);
    return h & 0x8000 ? -f : f;
}

uint16_t to_half(float f)
{
    uint16_t best = 0;
    for (int h = 0; h < 0x7c00; h++) /* slow and plain */
        if (__builtin_fabsf(half((uint16_t)h) - __builtin_fabsf(f)) < __builtin_fabsf(half(best) - __builtin_fabsf(f)))
            best = (uint16_t)h;
    return f < 0 ? best | 0x8000 : best;
}

size_t width(int type) { return type <= U8 ? 1 : type == F16 || type == BF16 ? 2 : type == I64 || type == U64 || type == F64 ? 8 : 4; }

double get(const char *at, int type, size_t i)
{
    uint32_t wide;
    float f;
    switch (type) {
    case I8: return ((const int8_t *)at)[i];
    case U8: return ((const uint8_t *)at)[i];
    case I32: return ((const int32_t *)at)[i];
    case U32: return ((const uint32_t *)at)[i];
    case I64: return (double)((const int64_t *)at)[i];
    case U64: return (double)((const uint64_t *)at)[i];
    case F16: return half(((const uint16_t *)at)[i]);
    case BF16:
        wide = (uint32_t)((const uint16_t *)at)[i] << 16;
        memcpy(&f, &wide, 4);
        return f;
    case F32: return ((const float *)at)[i];
    default: return ((const double *)at)[i];
    }
}

void put(char *at, int type, size_t i, double v)
{
    float f = (float)v;
    uint32_t wide;
    switch (type) {
    case I8: ((int8_t *)at)[i] = (int8_t)v; break;
    case U8: ((uint8_t *)at)[i] = (uint8_t)v; break;
    case I32: ((int32_t *)at)[i] = (int32_t)v; break;
    case U32: ((uint32_t *)at)[i] = (uint32_t)v; break;
    case I64: ((int64_t *)at)[i] = (int64_t)v; break;
    case U64: ((uint64_t *)at)[i] = (uint64_t)v; break;
    case F16: ((uint16_t *)at)[i] = to_half(f); break;
    case BF16:
        memcpy(&wide, &f, 4);
        ((uint16_t *)at)[i] = (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
        break;
    case F32: ((float *)at)[i] = f; break;
    default: ((double *)at)[i] = v;
    }
}

typedef std::vector<std::vector<char>> parts; /* a rank's bytes each */

/* Messages that bring every rank's bytes to the ranks that `wants` names. */
std::vector<message> everyone(comm *c, parts &all, const char *own, size_t n, const std::function<bool(int)> &wants)
{
    all.assign((size_t)c->size, std::vector<char>(n + 1));
    std::vector<message> list;
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank)
            memcpy(all[(size_t)r].data(), own, n);
        else if (wants(r))
            list.push_back({(char *)own, n, 0, r, true, false});
        if (r != c->rank && wants(c->rank))
            list.push_back({all[(size_t)r].data(), n, 0, r, false, false});
    }
    return list;
}

/* Reduces elements [begin, begin + n) of all ranks' bytes. */
void fold(comm *c, const parts &all, char *out, size_t begin, size_t n, int type, int op)
{
    double factor = op >= FIRST_MADE ? c->factors[(size_t)(op - FIRST_MADE)] : 1;
    for (size_t i = 0; i < n; i++) {
        double sum = get(all[0].data(), type, begin + i) * factor;
        for (int r = 1; r < c->size; r++) {
            double v = get(all[(size_t)r].data(), type, begin + i) * factor;
            sum = op == PROD ? sum * v : op == MAX ? (v > sum ? v : sum) : op == MIN ? (v < sum ? v : sum) : sum + v;
        }
        put(out, type, i, op == AVG ? sum / c->size : sum);
    }
}

struct waiting {
    comm *c;
    void *stream;
    bool message_only;
    message m;
    call run;
};

thread_local int depth;
thread_local std::vector<waiting> group;

/* Messages of a group travel together. */
call together(const std::vector<waiting> &all)
{
    std::vector<message> list, sent, taken; /* the latter two: to this rank itself */
    comm *c = nullptr;
    for (const waiting &w : all)
        if (w.message_only && w.m.peer == (c = w.c)->rank)
            (w.m.sends ? sent : taken).push_back(w.m);
        else if (w.message_only)
            list.push_back(w.m);
    return {c, [=] {
                for (size_t i = 0; i < sent.size() && i < taken.size(); i++)
                    memmove(taken[i].at, sent[i].at, sent[i].bytes);
                return list;
            }, nullptr};
}

void flush()
{
    std::vector<waiting> all;
    all.swap(group);
    if (all.empty())
        return;
    auto calls = std::make_shared<std::vector<call>>();
    for (const waiting &w : all)
        if (!w.message_only)
            calls->push_back(w.run);
    if (call messages = together(all); messages.c)
        calls->push_back(messages);
    size_t next = 0;
    std::function<bool()> job = [calls, next]() mutable {
        while (next < calls->size() && (*calls)[next].attempt())
            next++;
        return next == calls->size();
    };
    fake_cuda_enqueue_tries(all[0].stream, &job);
}

int queue(waiting w)
{
    if (w.c->error)
        return REMOTE;
    group.push_back(std::move(w));
    if (!depth)
        flush();
    return OK;
}

int queue_call(comm *c, void *stream, std::function<std::vector<message>()> begin, std::function<void()> end)
{
    return queue({c, stream, false, {}, {c, begin, end}});
}

} // namespace

API const char *ncclGetErrorString(int rc) { return rc == REMOTE ? "remote process exited or there was a network error" : rc == ABORTED ? "aborted" : "invalid argument"; }
API int ncclGetVersion(int *version) { return *version = 23203, OK; }

API int ncclGetUniqueId(id *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->text, sizeof out->text, "/dev/shm/fake_nccl.%d.%ld", (int)getpid(), (long)(now() * 1000));
    return OK;
}

API int ncclCommInitRank(comm **out, int size, id name, int rank)
{
    int file = open(name.text, O_RDWR | O_CREAT, 0600);
    if (size > RANKS || file < 0 || ftruncate(file, sizeof(shared)))
        return SYSTEM;
    shared *at = (shared *)mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    at->joined++;
    while (at->joined < size) /* without a limit, as NCCL */
        usleep(100);
    unlink(name.text);
    *out = new comm;
    (*out)->at = at;
    (*out)->rank = rank;
    (*out)->size = size;
    return OK;
}

API int ncclCommDestroy(comm *) { return OK; } /* jobs may still refer to it */
API int ncclCommAbort(comm *c) { return c->error = ABORTED, OK; }
API int ncclCommGetAsyncError(comm *c, int *out) { return *out = c->error, OK; }
API int ncclGroupStart() { return depth++, OK; }
API int ncclGroupEnd()
{
    if (!--depth)
        flush();
    return OK;
}

API int ncclRedOpCreatePreMulSum(int *op, void *factor, int type, int, comm *c)
{
    c->factors.push_back(get((const char *)factor, type, 0));
    return *op = FIRST_MADE + (int)c->factors.size() - 1, OK;
}
API int ncclRedOpDestroy(int, comm *) { return OK; }

API int ncclAllReduce(const void *in, void *out, size_t n, int type, int op, comm *c, void *stream)
{
    auto all = std::make_shared<parts>();
    return queue_call(
        c, stream, [=] { return everyone(c, *all, (const char *)in, n * width(type), [](int) { return true; }); },
        [=] { fold(c, *all, (char *)out, 0, n, type, op); });
}

API int ncclReduce(const void *in, void *out, size_t n, int type, int op, int root, comm *c, void *stream)
{
    auto all = std::make_shared<parts>();
    return queue_call(
        c, stream, [=] { return everyone(c, *all, (const char *)in, n * width(type), [=](int r) { return r == root; }); },
        [=] {
            if (c->rank == root)
                fold(c, *all, (char *)out, 0, n, type, op);
        });
}

API int ncclBroadcast(const void *in, void *out, size_t n, int type, int root, comm *c, void *stream)
{
    std::function<std::vector<message>()> begin = [=] {
        std::vector<message> list;
        for (int r = 0; r < c->size; r++)
            if (c->rank == root && r != root)
                list.push_back({(char *)in, n * width(type), 0, r, true, false});
        if (c->rank != root)
            list.push_back({(char *)out, n * width(type), 0, root, false, false});
        else if (in != out)
            memmove(out, in, n * width(type));
        return list;
    };
    return queue_call(c, stream, begin, nullptr);
}

API int ncclAllGather(const void *in, void *out, size_t n, int type, comm *c, void *stream)
{
    auto all = std::make_shared<parts>();
    size_t bytes = n * width(type);
    return queue_call(
        c, stream, [=] { return everyone(c, *all, (const char *)in, bytes, [](int) { return true; }); },
        [=] {
            for (int r = 0; r < c->size; r++)
                memcpy((char *)out + (size_t)r * bytes, (*all)[(size_t)r].data(), bytes);
        });
}

API int ncclReduceScatter(const void *in, void *out, size_t n, int type, int op, comm *c, void *stream)
{
    auto all = std::make_shared<parts>();
    size_t bytes = n * width(type) * (size_t)c->size;
    return queue_call(
        c, stream, [=] { return everyone(c, *all, (const char *)in, bytes, [](int) { return true; }); },
        [=] { fold(c, *all, (char *)out, n * (size_t)c->rank, n, type, op); });
}

API int ncclSend(const void *at, size_t n, int type, int peer, comm *c, void *stream)
{
    return queue({c, stream, true, {(char *)at, n * width(type), 0, peer, true, false}, {}});
}

API int ncclRecv(void *at, size_t n, int type, int peer, comm *c, void *stream)
{
    return queue({c, stream, true, {(char *)at, n * width(type), 0, peer, false, false}, {}});
}
