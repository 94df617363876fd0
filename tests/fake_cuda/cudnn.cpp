/* A stand-in for cuDNN: convolutions in float64, whose work is queued as that of a kernel is. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#define API extern "C" __attribute__((visibility("default"))) int

/* driver.cpp */
extern "C" void fake_cuda_enqueue(void *stream, const std::function<void()> *run);

enum { OK = 0, BAD_PARAM = 2000, FLOAT = 0, DOUBLE = 1, BFLOAT16 = 9, MOST = 5, FMA = 3, TENSOR = 1 };

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

double get(const void *p, int type, long i)
{
    if (type == BFLOAT16) {
        uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    return type == DOUBLE ? ((const double *)p)[i] : ((const float *)p)[i];
}

void put(void *p, int type, long i, double v)
{
    float f = (float)v;
    uint32_t bits;

    memcpy(&bits, &f, sizeof f);
    if (type == DOUBLE)
        ((double *)p)[i] = v;
    else if (type == BFLOAT16)
        ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    else
        ((float *)p)[i] = f;
}

long count(const tensor &t)
{
    long n = 1;
    for (int d = 0; d < t.n; d++)
        n *= t.size[d];
    return n;
}

/* Element i, counted row by row, as an index, three image dims at the end. */
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

/* Where element i is in memory. */
long place(const tensor &t, long i)
{
    int at[MOST];
    long p = 0;
    split(t, i, at);
    for (int d = 0; d < t.n; d++)
        p += (long)at[d] * t.stride[d];
    return p;
}

/* Row-major strides, or those with the channels last. */
void set_strides(tensor *t, bool last)
{
    int step = 1;
    if (last)
        t->stride[1] = step, step *= t->size[1];
    for (int d = t->n - 1; d >= 0; d--)
        if (d != 1 || !last)
            t->stride[d] = step, step *= t->size[d];
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

/* Found, but not computed: convolutions of one channel a group with the channels last. */
bool is_refused(const tensor &x, const tensor &w) { return x.stride[1] == 1 && x.size[1] > 1 && w.size[1] == 1; }

/* One of three arrays is the sum of products of the other two. */
void run(void *h, const tensor &x, const tensor &w, const tensor &y, const convolution &c, const void *px,
         const void *pw, const void *py, void *result)
{
    std::function<void()> job = [=] {
        const tensor &to = result == px ? x : result == pw ? w : y;
        double *sum = (double *)calloc((size_t)count(to), sizeof *sum);
        products(x, w, y, c, [&](long a, long b, long o) {
            long at = result == px ? a : result == pw ? b : o;
            double u = result == px ? get(py, y.type, place(y, o)) : get(px, x.type, place(x, a));
            double v = result == pw ? get(py, y.type, place(y, o)) : get(pw, w.type, place(w, b));
            sum[at] += u * v;
        });
        for (long i = 0; i < count(to); i++)
            put(result, to.type, place(to, i), sum[i]);
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
extern "C" __attribute__((visibility("default"))) const char *cudnnGetErrorString(int status)
{
    return status ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_SUCCESS";
}
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
    if (n < 4 || n > MOST || (type > DOUBLE && type != BFLOAT16))
        return BAD_PARAM;
    to->type = type;
    to->n = n;
    memcpy(to->size, size, (size_t)n * sizeof *size);
    for (int last = 0; last < 2; last++) {
        set_strides(to, last);
        if (!memcmp(to->stride, stride, (size_t)n * sizeof *stride))
            return OK;
    }
    return BAD_PARAM;
}

API cudnnSetFilterNdDescriptor(void *t, int type, int format, int n, const int *size)
{
    tensor *to = (tensor *)t;
    if (format > 1 || n < 4 || n > MOST)
        return BAD_PARAM;
    to->type = type;
    to->n = n;
    memcpy(to->size, size, (size_t)n * sizeof *size);
    set_strides(to, format);
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
API cudnnSetConvolutionMathType(void *c, int math) 
{
    return ((convolution *)c)->math = math, math >= 0 && math <= FMA ? OK : BAD_PARAM;
}

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
    if (algorithm != 1 || bytes != 1000 || !room || is_refused(*(tensor *)x, *(tensor *)w))
        return BAD_PARAM;
    run(h, *(tensor *)x, *(tensor *)w, *(tensor *)y, *(convolution *)c, px, pw, py, py);
    return OK;
}

API cudnnConvolutionBackwardData(void *h, const void *, void *w, const void *pw, void *y, const void *py, void *c,
                                 int algorithm, void *room, size_t bytes, const void *, void *x, void *px)
{
    if (algorithm != 1 || bytes != 1000 || !room || is_refused(*(tensor *)x, *(tensor *)w))
        return BAD_PARAM;
    run(h, *(tensor *)x, *(tensor *)w, *(tensor *)y, *(convolution *)c, px, pw, py, px);
    return OK;
}

API cudnnConvolutionBackwardFilter(void *h, const void *, void *x, const void *px, void *y, const void *py, void *c,
                                   int algorithm, void *room, size_t bytes, const void *, void *w, void *pw)
{
    if (algorithm != 1 || bytes != 1000 || !room || is_refused(*(tensor *)x, *(tensor *)w))
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
            long p = place(to, i);
            put(pc, to.type, p, get(pc, to.type, p) + get(pa, from.type, at[1]));
        }
    };
    fake_cuda_enqueue(((handle *)h)->stream, &job);
    return OK;
}
