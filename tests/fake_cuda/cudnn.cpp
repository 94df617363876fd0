/* A stand-in for cuDNN: convolutions in float64, whose work is queued as that of a kernel is. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#define API extern "C" __attribute__((visibility("default"))) int

/* driver.cpp */
extern "C" void fake_cuda_enqueue(void *stream, const std::function<void()> *run);

enum { OK = 0, BAD_PARAM = 2000, FLOAT = 0, DOUBLE = 1, MOST = 5, FMA = 3 };

namespace
{

struct tensor {
    int type = 0, n = 0, size[MOST] = {1, 1, 1, 1, 1}, stride[MOST] = {0};
};

struct convolution {
    int n, pad[MOST], stride[MOST], dilation[MOST], groups = 1, math = 0;
};

struct handle {
    void *stream = nullptr;
};

struct found {
    int algorithm, status;
    float time;
    size_t room;
    int determinism, math, reserved[3];
};

double get(const void *p, int type, long i) { return type == DOUBLE ? ((const double *)p)[i] : ((const float *)p)[i]; }

void put(void *p, int type, long i, double v)
{
    if (type == DOUBLE)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

long count(const tensor &t)
{
    long n = 1;
    for (int d = 0; d < t.n; d++)
        n *= t.size[d];
    return n;
}

/* Element i of a row-major array as an index, three image dims at the end. */
void split(const tensor &t, long i, int *at)
{
    for (int d = 0; d < MOST; d++)
        at[d] = 0;
    for (int d = t.n - 1; d >= 0; d--) {
        at[d] = (int)(i % t.size[d]);
        i /= t.size[d];
    }
}

long join(const tensor &t, const int *at)
{
    long i = 0;
    for (int d = 0; d < t.n; d++)
        i = i * t.size[d] + at[d];
    return i;
}

/* Calls f(x element, w element, y element) for each product of the convolution. */
void products(const tensor &x, const tensor &w, const tensor &y, const convolution &c,
              const std::function<void(long, long, long)> &f)
{
    int out = w.size[0] / c.groups;
    for (long i = 0; i < count(y); i++)
        for (long k = 0; k < count(w) / w.size[0]; k++) {
            int to[MOST], wa[MOST], xa[MOST];
            bool inside = true;
            split(y, i, to);
            split(w, (long)to[1] * (count(w) / w.size[0]) + k, wa);
            xa[0] = to[0];
            xa[1] = to[1] / out * w.size[1] + wa[1];
            for (int d = 2; d < x.n; d++) {
                xa[d] = to[d] * c.stride[d - 2] - c.pad[d - 2] + wa[d] * c.dilation[d - 2];
                inside = inside && xa[d] >= 0 && xa[d] < x.size[d];
            }
            if (inside)
                f(join(x, xa), join(w, wa), i);
        }
}

/* One of three arrays is the sum of products of the other two. */
void run(void *h, const tensor &x, const tensor &w, const tensor &y, const convolution &c, const void *px,
         const void *pw, const void *py, void *result)
{
    std::function<void()> job = [=] {
        const tensor &to = result == px ? x : result == pw ? w : y;
        double *sum = (double *)calloc((size_t)count(to), sizeof *sum);
        products(x, w, y, c, [&](long a, long b, long o) {
            long at = result == px ? a : result == pw ? b : o;
            double u = result == px ? get(py, y.type, o) : get(px, x.type, a);
            double v = result == pw ? get(py, y.type, o) : get(pw, w.type, b);
            sum[at] += u * v;
        });
        for (long i = 0; i < count(to); i++)
            put(result, to.type, i, sum[i]);
        free(sum);
    };
    fake_cuda_enqueue(((handle *)h)->stream, &job);
}

int find(int *n, void *out, const convolution *c)
{
    found all[2];
    memset(all, 0, sizeof all);
    all[0].algorithm = 7; /* faster, but not deterministic */
    all[1].algorithm = 1;
    all[1].determinism = 1;
    all[1].room = 1000;
    all[0].math = all[1].math = c->math;
    memcpy(out, all, sizeof all);
    return *n = 2, OK;
}

} // namespace

API cudnnGetVersion() { return 90000; }
API cudnnCreate(void **h) { return *h = new handle, OK; }
API cudnnSetStream(void *h, void *s) { return ((handle *)h)->stream = s, OK; }
API cudnnCreateTensorDescriptor(void **t) { return *t = new tensor, OK; }
API cudnnDestroyTensorDescriptor(void *t) { return delete (tensor *)t, OK; }
API cudnnCreateFilterDescriptor(void **t) { return *t = new tensor, OK; }
API cudnnDestroyFilterDescriptor(void *t) { return delete (tensor *)t, OK; }
API cudnnCreateConvolutionDescriptor(void **c) { return *c = new convolution, OK; }
API cudnnDestroyConvolutionDescriptor(void *c) { return delete (convolution *)c, OK; }

API cudnnSetTensorNdDescriptor(void *t, int type, int n, const int *size, const int *stride)
{
    tensor *to = (tensor *)t;
    if (n < 4 || n > MOST || type > DOUBLE)
        return BAD_PARAM;
    to->type = type;
    to->n = n;
    memcpy(to->size, size, (size_t)n * sizeof *size);
    long step = 1;
    for (int d = n - 1; d >= 0; d--) {
        if (stride[d] != step)
            return BAD_PARAM;
        step *= size[d];
    }
    return OK;
}

API cudnnSetFilterNdDescriptor(void *t, int type, int format, int n, const int *size)
{
    tensor *to = (tensor *)t;
    if (format || n < 4 || n > MOST)
        return BAD_PARAM;
    to->type = type;
    to->n = n;
    memcpy(to->size, size, (size_t)n * sizeof *size);
    return OK;
}

API cudnnSetConvolutionNdDescriptor(void *c, int n, const int *pad, const int *stride, const int *dilation, int mode,
                                    int)
{
    convolution *to = (convolution *)c;
    if (mode != 1)
        return BAD_PARAM;
    to->n = n;
    memcpy(to->pad, pad, (size_t)n * sizeof *pad);
    memcpy(to->stride, stride, (size_t)n * sizeof *stride);
    memcpy(to->dilation, dilation, (size_t)n * sizeof *dilation);
    return OK;
}

API cudnnSetConvolutionGroupCount(void *c, int groups) { return ((convolution *)c)->groups = groups, OK; }
API cudnnSetConvolutionMathType(void *c, int math) { return ((convolution *)c)->math = math, math == FMA ? OK : BAD_PARAM; }

API cudnnGetConvolutionForwardAlgorithm_v7(void *, void *, void *, void *c, void *, int, int *n, void *out)
{
    return find(n, out, (convolution *)c);
}
API cudnnGetConvolutionBackwardDataAlgorithm_v7(void *, void *, void *, void *c, void *, int, int *n, void *out)
{
    return find(n, out, (convolution *)c);
}
API cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, void *, void *, void *c, void *, int, int *n, void *out)
{
    return find(n, out, (convolution *)c);
}

API cudnnConvolutionForward(void *h, const void *, void *x, const void *px, void *w, const void *pw, void *c, int algorithm,
                            void *room, size_t bytes, const void *, void *y, void *py)
{
    if (algorithm != 1 || bytes != 1000 || !room)
        return BAD_PARAM;
    run(h, *(tensor *)x, *(tensor *)w, *(tensor *)y, *(convolution *)c, px, pw, py, py);
    return OK;
}

API cudnnConvolutionBackwardData(void *h, const void *, void *w, const void *pw, void *y, const void *py, void *c,
                                 int algorithm, void *room, size_t bytes, const void *, void *x, void *px)
{
    if (algorithm != 1 || bytes != 1000 || !room)
        return BAD_PARAM;
    run(h, *(tensor *)x, *(tensor *)w, *(tensor *)y, *(convolution *)c, px, pw, py, px);
    return OK;
}

API cudnnConvolutionBackwardFilter(void *h, const void *, void *x, const void *px, void *y, const void *py, void *c,
                                   int algorithm, void *room, size_t bytes, const void *, void *w, void *pw)
{
    if (algorithm != 1 || bytes != 1000 || !room)
        return BAD_PARAM;
    run(h, *(tensor *)x, *(tensor *)w, *(tensor *)y, *(convolution *)c, px, pw, py, pw);
    return OK;
}

API cudnnAddTensor(void *h, const void *, void *a, const void *pa, const void *, void *c, void *pc)
{
    tensor from = *(tensor *)a, to = *(tensor *)c;
    if (from.size[1] != to.size[1])
        return BAD_PARAM;
    std::function<void()> job = [=] {
        for (long i = 0; i < count(to); i++) {
            int at[MOST];
            split(to, i, at);
            put(pc, to.type, i, get(pc, to.type, i) + get(pa, from.type, at[1]));
        }
    };
    fake_cuda_enqueue(((handle *)h)->stream, &job);
    return OK;
}
