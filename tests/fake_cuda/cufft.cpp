/* A stand-in for cuFFT: transforms in float64 by their definition, whose work is queued as that of a kernel is. */
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

/* driver.cpp */
extern "C" void fake_cuda_enqueue(void *stream, const std::function<void()> *run);

typedef std::complex<double> number;
typedef std::vector<number> numbers;

enum { OK = 0, INVALID_PLAN = 1, INVALID_VALUE = 4 };
enum { C2C = 0x29, R2C = 0x2a, C2R = 0x2c, DOUBLE = 0x40, ROOM = 64, TABLES = 300 << 10 };

struct plan {
    int type = 0;
    std::vector<int64_t> n;
    std::vector<char> tables; /* of the host's memory, as many bytes as cuFFT takes */
    int64_t batch = 0;
    void *stream = nullptr, *room = nullptr;
};

static std::vector<plan> plans(1); /* 0 is no plan */

/* One dim of a row-major array. */
static void transform(numbers &x, const std::vector<int64_t> &size, size_t dim, int sign)
{
    int64_t n = size[dim], inner = 1;

    for (size_t d = dim + 1; d < size.size(); d++)
        inner *= size[d];
    for (int64_t line = 0; line < (int64_t)x.size() / n; line++) {
        int64_t first = line / inner * inner * n + line % inner;
        numbers y(n);
        for (int64_t k = 0; k < n; k++)
            for (int64_t i = 0; i < n; i++)
                y[k] += x[first + i * inner] * std::polar(1., sign * 2 * M_PI * (double)(i * k % n) / (double)n);
        for (int64_t k = 0; k < n; k++)
            x[first + k * inner] = y[k];
    }
}

template <class T> static void run(const plan &p, const T *from, T *to, int sign)
{
    int type = p.type & ~DOUBLE;
    int64_t all = p.batch, n = p.n.back(), half = n / 2 + 1;
    std::vector<int64_t> size(1, p.batch);

    for (int64_t s : p.n)
        size.push_back(s), all *= s;
    numbers x(all);
    for (int64_t i = 0; i < all; i++) {
        int64_t line = i / n, k = i % n, m = k < half ? k : n - k;
        const T *at = from + 2 * (line * half + m);
        if (type == R2C)
            x[i] = from[i];
        else if (type == C2C)
            x[i] = number(from[2 * i], from[2 * i + 1]);
        else
            x[i] = number(at[0], m == 0 || 2 * m == n ? 0 : k < half ? at[1] : -at[1]);
    }
    for (size_t d = 1; d < size.size(); d++)
        transform(x, size, d, type == R2C ? -1 : type == C2R ? 1 : sign);
    for (int64_t i = 0, at = 0; i < all; i++) {
        if (type == R2C && i % n >= half)
            continue;
        to[at++] = (T)x[i].real();
        if (type != C2R)
            to[at++] = (T)x[i].imag();
    }
}

static plan *find(int handle) { return handle > 0 && handle < (int)plans.size() ? &plans[handle] : nullptr; }

API cufftCreate(int *handle)
{
    plans.emplace_back();
    return *handle = (int)plans.size() - 1, OK;
}

API cufftDestroy(int handle)
{
    plan *p = find(handle);

    if (!p || p->tables.empty())
        return INVALID_PLAN;
    *p = plan();
    return OK;
}

API cufftSetAutoAllocation(int handle, int on) { return !find(handle) ? INVALID_PLAN : on ? INVALID_VALUE : OK; }

API cufftMakePlanMany64(int handle, int rank, long long *n, long long *in, long long, long long, long long *out, long long,
                        long long, int type, long long batch, size_t *room)
{
    plan *p = find(handle);
    int kind = type & ~DOUBLE;

    if (!p || rank < 1 || rank > 3 || in || out || batch < 1 || (kind != C2C && kind != R2C && kind != C2R) ||
        (kind != C2C && rank != 1))
        return INVALID_VALUE;
    p->type = type;
    p->n.assign(n, n + rank);
    p->batch = batch;
    p->tables.resize(TABLES);
    return *room = ROOM, OK;
}

API cufftSetStream(int handle, void *stream) { return find(handle) ? find(handle)->stream = stream, OK : INVALID_PLAN; }
API cufftSetWorkArea(int handle, void *room) { return find(handle) ? find(handle)->room = room, OK : INVALID_PLAN; }

API cufftXtExec(int handle, void *from, void *to, int sign)
{
    plan *p = find(handle);

    if (!p || !p->room || p->tables.empty())
        return INVALID_PLAN;
    plan one = *p;
    std::function<void()> work = [one, from, to, sign] {
        if (one.type & DOUBLE)
            run(one, (const double *)from, (double *)to, sign);
        else
            run(one, (const float *)from, (float *)to, sign);
    };
    fake_cuda_enqueue(p->stream, &work);
    return OK;
}
