/* A stand-in for cuDNN: convolutions and graphs in float64, whose work is queued as that of a kernel is. */
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

/* driver.cpp */
extern "C" void fake_cuda_enqueue(void *stream, const std::function<void()> *run);

enum { OK = 0, BAD_PARAM = 2000, FLOAT = 0, DOUBLE = 1, INT32 = 4, BFLOAT16 = 9, BOOLEAN = 11, MOST = 5, FMA = 3, TENSOR = 1 };

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

/* The sizes of y are those that x, w and the convolution give. */
bool fits(const tensor &x, const tensor &w, const tensor &y, const convolution &c)
{
    for (int d = 0; d < c.n; d++) {
        long room = (long)x.size[d + 2] + 2 * c.pad[d] - (long)(w.size[d + 2] - 1) * c.dilation[d] - 1;
        if (room / c.stride[d] + 1 != y.size[d + 2])
            return false;
    }
    return true;
}

int find(int *n, void *out, const void *x, const void *w, const void *y, const convolution *c)
{
    if (!fits(*(const tensor *)x, *(const tensor *)w, *(const tensor *)y, *c))
        return BAD_PARAM;
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

API cudnnGetVersion() { return 91900; }
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

API cudnnGetConvolutionForwardAlgorithm_v7(void *, void *x, void *w, void *c, void *y, int, int *n, void *out)
{
    return find(n, out, x, w, y, (convolution *)c);
}
API cudnnGetConvolutionBackwardDataAlgorithm_v7(void *, void *w, void *y, void *c, void *x, int, int *n, void *out)
{
    return find(n, out, x, w, y, (convolution *)c);
}
API cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *, void *x, void *y, void *c, void *w, int, int *n, void *out)
{
    return find(n, out, x, w, y, (convolution *)c);
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

/* --- the graph interface: objects with attributes --- */

namespace
{

enum {
    POINTWISE_RULE = 0, CONV = 1, ENGINE = 2, CONFIG = 3, CHOICE = 4, PLAN = 5, FORWARD = 10, FILTER = 11, DATA = 12,
    POINTWISE = 13, GRAPH = 15, PACK = 16, TENSOR = 17, PRODUCT_RULE = 18, PRODUCT = 19, FOLD_RULE = 21, FOLD = 22, RESHAPE = 31
};
enum { OBJECT = 15, LAST_TYPE = 18 };
/* Bytes of an element of each type of attribute. */
const size_t bytes_of[] = {8, 4, 1, 8, 4, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 8, 4, 4, 4};

struct attribute {
    int type;
    std::vector<char> bytes;
    long count() const { return (long)(bytes.size() / bytes_of[type]); }
};

struct object {
    int kind;
    bool ended = false;
    int engine = 0; /* of an engine and a configuration: 0 is not deterministic, 1 is */
    std::map<int, attribute> at;

    template <class T> T one(int name) const
    {
        T v = {};
        auto found = at.find(name);
        if (found != at.end() && found->second.bytes.size() >= sizeof v)
            memcpy(&v, found->second.bytes.data(), sizeof v);
        return v;
    }
    const object *part(int name) const { return one<object *>(name); }
    std::vector<int64_t> ints(int name) const
    {
        auto found = at.find(name);
        std::vector<int64_t> v(found == at.end() ? 0 : (size_t)found->second.count());
        if (!v.empty())
            memcpy(v.data(), found->second.bytes.data(), v.size() * sizeof v[0]);
        return v;
    }
};

tensor tensor_of(const object *o)
{
    tensor t;
    auto size = o->ints(902), stride = o->ints(903);
    t.type = o->one<int>(901);
    t.n = (int)size.size();
    for (int d = 0; d < t.n; d++)
        t.size[d] = (int)size[(size_t)d], t.stride[d] = (int)stride[(size_t)d];
    return t;
}

bool is_tensor(const object *o)
{
    int type = o->one<int>(901);
    auto size = o->ints(902), stride = o->ints(903);
    return size.size() >= 4 && size.size() <= MOST && stride.size() == size.size() && o->one<int64_t>(906) && o->one<int64_t>(900) &&
           (type <= DOUBLE || type == BFLOAT16 || (o->one<bool>(907) && (type == INT32 || type == BOOLEAN)));
}

/* As a convolution needs it. */
bool has_layout(const object *o)
{
    tensor t = tensor_of(o), like = t;
    if (o->one<bool>(907) || o->one<bool>(908))
        return false;
    for (int last = 0; last < 2; last++) {
        set_strides(&like, last);
        if (!memcmp(t.stride, like.stride, (size_t)t.n * sizeof(int)))
            return true;
    }
    return false;
}

/* The first attribute of an operation: alpha, beta, the convolution, w, x and y follow. */
int first_of(int kind) { return kind == FORWARD ? 700 : kind == DATA ? 706 : 712; }

/* The sizes of y are those that x, w and the convolution give. */
bool fits(const object *o)
{
    int first = first_of(o->kind);
    const object *part[4];
    for (int i = 0; i < 4; i++) {
        part[i] = o->part(first + 2 + i);
        if (!part[i] || !part[i]->ended || part[i]->kind != (i ? TENSOR : CONV) || (i && !has_layout(part[i])))
            return false;
    }
    tensor w = tensor_of(part[1]), x = tensor_of(part[2]), y = tensor_of(part[3]);
    auto dilation = part[0]->ints(102), stride = part[0]->ints(103), after = part[0]->ints(104), before = part[0]->ints(105);
    size_t n = (size_t)part[0]->one<int64_t>(106);
    if (o->at.find(first) == o->at.end() || o->at.find(first + 1) == o->at.end() || part[0]->one<int>(101) != 1 ||
        dilation.size() != n || stride.size() != n || after != before || before.size() != n || n + 2 != (size_t)x.n)
        return false;
    if (x.size[0] != y.size[0] || y.size[1] != w.size[0] || x.size[1] % w.size[1])
        return false;
    for (size_t d = 0; d < n; d++) {
        long room = x.size[d + 2] + before[d] + after[d] - (w.size[d + 2] - 1) * dilation[d] - 1;
        if (room / stride[d] + 1 != y.size[d + 2])
            return false;
    }
    return true;
}

bool can_end(const object *o)
{
    switch (o->kind) {
    case TENSOR:
        return is_tensor(o);
    case FORWARD: case FILTER: case DATA:
        return fits(o);
    case GRAPH:
        return o->part(801) && o->part(801)->ended && o->one<void *>(800);
    case CHOICE:
        return o->part(201) && o->part(201)->ended && o->at.count(200);
    case PLAN:
        return o->part(401) && o->part(401)->ended && o->one<void *>(400);
    case PACK:
        return o->ints(1000).size() >= 3 && o->ints(1001).size() == o->ints(1000).size() && o->one<void *>(1003);
    case POINTWISE:
        return o->part(750) && o->part(751) && o->part(753);
    case PRODUCT:
        return o->part(1520) && o->part(1521) && o->part(1522) && o->part(1523);
    case FOLD:
        return o->part(1610) && o->part(1611) && o->part(1612);
    case RESHAPE:
        return o->part(2200) && o->part(2201);
    default:
        return true;
    }
}

const object *operation_of(const object *config) { return config->part(201)->part(801); }
bool is_conv(const object *o) { return o->kind == FORWARD || o->kind == FILTER || o->kind == DATA; }

/* --- graphs of several operations, on arrays of four dims --- */

/* The elements of an array, counted row by row. */
typedef std::vector<double> elements;

struct graph_run {
    std::map<const object *, elements> known;
    std::map<int64_t, char *> given;

    /* Where element i of the array is, in elements. */
    static long at(const tensor &t, long i) { return place(t, i); }
    const elements &of(const object *o)
    {
        auto found = known.find(o);
        if (found != known.end())
            return found->second;
        tensor t = tensor_of(o);
        elements e((size_t)count(t));
        char *p = given[o->one<int64_t>(906)];
        for (long i = 0; p && i < count(t); i++)
            e[(size_t)i] = get(p, t.type, at(t, i));
        return known[o] = e;
    }
    void set(const object *o, elements e)
    {
        tensor t = tensor_of(o);
        char *p = o->one<bool>(907) ? nullptr : given[o->one<int64_t>(906)];
        std::vector<char> one(8);
        for (long i = 0; i < count(t); i++) {
            if (t.type == BFLOAT16 || t.type == FLOAT) {
                put(one.data(), t.type, 0, e[(size_t)i]);
                e[(size_t)i] = get(one.data(), t.type, 0);
            }
            if (p)
                put(p, t.type, at(t, i), e[(size_t)i]);
        }
        known[o] = e;
    }
    /* The element of `o` that belongs to element i of `t`: a dim may have a part of the places. */
    double spread(const object *o, const tensor &t, long i)
    {
        tensor own = tensor_of(o);
        int place_of[MOST];
        split(t, i, place_of);
        for (int d = 0; d < own.n; d++)
            place_of[d] = (int)((long)place_of[d] * own.size[d] / t.size[d]);
        return of(o)[(size_t)join(own, place_of)];
    }
    void pointwise(const object *o)
    {
        const object *rule = o->part(750), *y = o->part(753), *b = o->part(752), *c = o->part(758);
        tensor t = tensor_of(y);
        elements e((size_t)count(t));
        int mode = rule->one<int>(0);
        for (long i = 0; i < count(t); i++) {
            int where[MOST];
            split(t, i, where);
            double x = spread(o->part(751), t, i), v = b ? spread(b, t, i) : 0;
            e[(size_t)i] = mode == 0     ? x + v
                           : mode == 1   ? x * v
                           : mode == 6   ? x / v
                           : mode == 9   ? x - v
                           : mode == 13  ? std::exp(x)
                           : mode == 15  ? std::log(x)
                           : mode == 303 ? x >= v
                           : mode == 501 ? where[rule->one<int64_t>(9)]
                                         : (spread(c, t, i) != 0 ? x : v);
        }
        set(y, e);
    }
    void product(const object *o)
    {
        const object *a = o->part(1520), *b = o->part(1521);
        tensor t = tensor_of(o->part(1522)), ta = tensor_of(a), tb = tensor_of(b);
        const elements left = of(a), right = of(b);
        elements e((size_t)count(t));
        for (long i = 0; i < count(t); i++) {
            int w[MOST];
            split(t, i, w);
            size_t ra = ((size_t)w[0] * (size_t)ta.size[1] + (size_t)(w[1] * ta.size[1] / t.size[1])) * (size_t)ta.size[2] + (size_t)w[2];
            size_t mb = (size_t)w[0] * (size_t)tb.size[1] + (size_t)(w[1] * tb.size[1] / t.size[1]);
            for (size_t k = 0; k < (size_t)ta.size[3]; k++)
                e[(size_t)i] += left[ra * (size_t)ta.size[3] + k] * right[(mb * (size_t)tb.size[2] + k) * (size_t)tb.size[3] + (size_t)w[3]];
        }
        set(o->part(1522), e);
    }
    void fold(const object *o)
    {
        tensor t = tensor_of(o->part(1611)), from = tensor_of(o->part(1610));
        bool most = o->part(1612)->one<int>(1600) == 3;
        elements e((size_t)count(t), most ? -INFINITY : 0);
        for (long i = 0; i < count(from); i++) {
            int w[MOST];
            split(from, i, w);
            for (int d = 0; d < t.n; d++)
                w[d] = (int)((long)w[d] * t.size[d] / from.size[d]);
            double &to = e[(size_t)join(t, w)], x = of(o->part(1610))[(size_t)i];
            to = most ? (x > to ? x : to) : to + x;
        }
        set(o->part(1611), e);
    }
    /* Elements of both arrays that are at one place. */
    void reshape(const object *o)
    {
        tensor from = tensor_of(o->part(2200)), t = tensor_of(o->part(2201));
        std::map<long, double> by_place;
        elements e((size_t)count(t));
        for (long i = 0; i < count(from); i++)
            by_place[at(from, i)] = of(o->part(2200))[(size_t)i];
        for (long i = 0; i < count(t); i++)
            e[(size_t)i] = by_place[at(t, i)];
        set(o->part(2201), e);
    }
    void run(const object *o)
    {
        if (o->kind == POINTWISE)
            pointwise(o);
        else if (o->kind == PRODUCT)
            product(o);
        else if (o->kind == FOLD)
            fold(o);
        else
            reshape(o);
    }
};

int run_graph(void *h, const object *graph, const object *with)
{
    graph_run r;
    std::vector<const object *> work;
    auto ids = with->ints(1000), pointers = with->ints(1001), operations = graph->ints(801);
    for (int64_t o : operations)
        work.push_back((const object *)o);
    for (size_t i = 0; i < ids.size(); i++)
        r.given[ids[i]] = (char *)pointers[i];
    for (const object *o : work) /* numbers of the host are read now, arrays when the work runs */
        for (auto &a : o->at)
            if (a.second.type == OBJECT && o->part(a.first)->kind == TENSOR) {
                const object *t = o->part(a.first);
                if (!t->one<bool>(907) && !r.given[t->one<int64_t>(906)])
                    return BAD_PARAM;
                if (t->one<bool>(908))
                    r.of(t);
            }
    std::function<void()> job = [=]() mutable {
        for (const object *o : work)
            r.run(o);
    };
    fake_cuda_enqueue(((handle *)h)->stream, &job);
    return OK;
}

} // namespace

static long objects;

/* How many objects of the graph interface there are; for tests. */
extern "C" __attribute__((visibility("default"))) long fake_cudnn_objects() { return objects; }

API cudnnBackendCreateDescriptor(int kind, void **o)
{
    objects++;
    object *made = new object;
    made->kind = kind;
    return *o = made, OK;
}
API cudnnBackendDestroyDescriptor(void *o)
{
    objects--;
    return delete (object *)o, OK;
}

API cudnnBackendSetAttribute(void *o, int name, int type, int64_t n, const void *p)
{
    object *to = (object *)o;
    if (to->ended || n < 1 || type < 0 || type > LAST_TYPE)
        return BAD_PARAM;
    attribute &a = to->at[name];
    a.type = type;
    a.bytes.assign((const char *)p, (const char *)p + (size_t)n * bytes_of[type]);
    return OK;
}

API cudnnBackendFinalize(void *o)
{
    object *to = (object *)o;
    if (to->ended || !can_end(to))
        return BAD_PARAM;
    if (to->kind == PLAN) { /* a choice that fails only here */
        const object *work = operation_of(to->part(401));
        int first = first_of(work->kind);
        if (is_conv(work) && is_refused(tensor_of(work->part(first + 4)), tensor_of(work->part(first + 3))))
            return 3000;
    }
    to->ended = true;
    return OK;
}

/* Two proposals, of which the first is faster, but not deterministic.  With FAKE_CUDNN_ROOM the
 * second needs so many bytes, and there is a third. */
API cudnnBackendGetAttribute(void *o, int name, int, int64_t most, int64_t *n, void *p)
{
    object *from = (object *)o;
    const char *large = getenv("FAKE_CUDNN_ROOM");
    const int proposals = large ? 3 : 2;
    if (from->kind == CHOICE && name == 202) {
        for (int i = 0; i < proposals && i < most; i++) {
            object *config = ((object **)p)[i];
            config->engine = i;
            config->ended = true;
            config->at = from->at;
        }
        return *n = proposals, OK;
    }
    if (from->kind == CONFIG && name == 300)
        return ((object **)p)[0]->engine = from->engine, *n = 1, OK;
    if (from->kind == ENGINE && name == 1303) {
        ((int *)p)[0] = from->engine ? 9 : 4;
        return *n = 1, OK;
    }
    if (from->kind == PLAN && name == 402 && from->ended)
        return *(int64_t *)p = large && from->part(401)->engine == 1 ? atol(large) : 1000, *n = 1, OK;
    return BAD_PARAM;
}

API cudnnBackendExecute(void *h, void *plan, void *pack)
{
    object *with = (object *)pack;
    const object *config = ((object *)plan)->part(401);
    if (!with->ended || config->engine < 1)
        return BAD_PARAM;
    const object *work = operation_of(config);
    if (!is_conv(work))
        return run_graph(h, config->part(201), with);
    int first = first_of(work->kind);
    convolution c = {};
    const object *conv = work->part(first + 2);
    c.n = (int)conv->one<int64_t>(106);
    for (int d = 0; d < c.n; d++) {
        c.dilation[d] = (int)conv->ints(102)[(size_t)d];
        c.stride[d] = (int)conv->ints(103)[(size_t)d];
        c.pad[d] = (int)conv->ints(105)[(size_t)d];
    }
    const object *role[3] = {work->part(first + 3), work->part(first + 4), work->part(first + 5)};
    void *at[3] = {};
    auto ids = with->ints(1000), pointers = with->ints(1001);
    for (int r = 0; r < 3; r++)
        for (size_t i = 0; i < ids.size(); i++)
            if (ids[i] == role[r]->one<int64_t>(906))
                at[r] = (void *)pointers[i];
    for (int r = 0; r < 3; r++)
        if (!at[r] || (uintptr_t)at[r] % (uintptr_t)role[r]->one<int64_t>(900))
            return BAD_PARAM;
    tensor w = tensor_of(role[0]), x = tensor_of(role[1]), y = tensor_of(role[2]);
    c.groups = x.size[1] / w.size[1];
    run(h, x, w, y, c, at[1], at[0], at[2], work->kind == FORWARD ? at[2] : work->kind == DATA ? at[1] : at[0]);
    return OK;
}
