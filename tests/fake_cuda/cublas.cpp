/* A stand-in for cuBLASLt: products of column-major matrices in float64, whose work is queued as that of a kernel
 * is. */
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>

#define API extern "C" __attribute__((visibility("default"))) int

/* driver.cpp */
extern "C" void fake_cuda_enqueue(void *stream, const std::function<void()> *run);

typedef std::complex<double> number;

enum { OK = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { FLOAT = 0, DOUBLE = 1, HALF = 2, COMPLEX = 4, COMPLEX_DOUBLE = 5, BFLOAT16 = 14 };
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4, EPILOGUE = 7, BIAS_AT = 8, ADDS_BIAS = 4, BATCH_COUNT = 5, BATCH_STEP = 6 };

namespace
{

struct product {
    int scale;
    int32_t transposed[2] = {0, 0};
    bool adds = false;
    const void *bias = nullptr; /* a number for each row */
};

struct layout {
    int type;
    int64_t rows, columns, step, batch_step = 0;
    int32_t batch = 1;
};

/* cublasLtMatmulHeuristicResult_t */
struct found {
    uint64_t algorithm[8];
    size_t room;
    int state;
    float waves;
    int reserved[4];
};

template <class T> T read(const void *p, int64_t i)
{
    T v;
    memcpy(&v, (const char *)p + i * (int64_t)sizeof v, sizeof v);
    return v;
}

number get(const void *p, int type, int64_t i)
{
    if (type == BFLOAT16) {
        uint32_t bits = (uint32_t)read<uint16_t>(p, i) << 16;
        return read<float>(&bits, 0);
    }
    switch (type) {
    case DOUBLE: return read<double>(p, i);
    case HALF: return (double)(float)read<_Float16>(p, i);
    case COMPLEX: return number(read<std::complex<float>>(p, i));
    case COMPLEX_DOUBLE: return read<number>(p, i);
    default: return read<float>(p, i);
    }
}

template <class T> void write(void *p, int64_t i, T v)
{
    memcpy((char *)p + i * (int64_t)sizeof v, &v, sizeof v);
}

void put(void *p, int type, int64_t i, number v)
{
    float f = (float)v.real();
    uint32_t bits;

    memcpy(&bits, &f, sizeof f);
    switch (type) {
    case DOUBLE: write(p, i, v.real()); break;
    case HALF: write(p, i, (_Float16)v.real()); break;
    case BFLOAT16: write(p, i, (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)); break;
    case COMPLEX: write(p, i, std::complex<float>(v)); break;
    case COMPLEX_DOUBLE: write(p, i, v); break;
    default: write(p, i, f);
    }
}

int64_t place(const layout &m, bool transposed, int64_t row, int64_t column)
{
    return transposed ? column + row * m.step : row + column * m.step;
}

/* Sizes of the three matrices that do not fit are a fault of the caller. */
bool fit(const product &p, const layout &a, const layout &b, const layout &c)
{
    int64_t rows = p.transposed[0] ? a.columns : a.rows, inner = p.transposed[0] ? a.rows : a.columns;
    int64_t other = p.transposed[1] ? b.columns : b.rows, columns = p.transposed[1] ? b.rows : b.columns;

    return rows == c.rows && columns == c.columns && inner == other && a.step >= a.rows && b.step >= b.rows &&
           c.step >= c.rows && a.batch == c.batch && b.batch == c.batch;
}

struct call {
    product p;
    layout a, b, c;
    const char *x, *y;
    char *z;
    number alpha, beta;

    number sum(int64_t n, int64_t row, int64_t column) const
    {
        number s = 0;
        int64_t inner = p.transposed[0] ? a.rows : a.columns;

        for (int64_t k = 0; k < inner; k++)
            s += get(x, a.type, n * a.batch_step + place(a, p.transposed[0], row, k)) *
                 get(y, b.type, n * b.batch_step + place(b, p.transposed[1], k, column));
        return s;
    }

    void run() const
    {
        for (int64_t n = 0; n < c.batch; n++)
            for (int64_t column = 0; column < c.columns; column++)
                for (int64_t row = 0; row < c.rows; row++) {
                    int64_t at = n * c.batch_step + place(c, false, row, column);
                    number v = alpha * sum(n, row, column);
                    v += p.adds ? get(p.bias, c.type, row) : 0.;
                    put(z, c.type, at, beta == 0. ? v : v + beta * get(z, c.type, at));
                }
    }
};

long products;

} // namespace

/* The number of calls of cublasLtMatmul. */
extern "C" __attribute__((visibility("default"))) long fake_cublas_products() { return products; }

API cublasLtCreate(void **handle)
{
    static char one;
    *handle = &one;
    return OK;
}

API cublasLtMatmulDescCreate(void **desc, int, int scale)
{
    *desc = new product{scale};
    return OK;
}

API cublasLtMatmulDescDestroy(void *desc)
{
    delete (product *)desc;
    return OK;
}

API cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
    product &p = *(product *)desc;

    if (attribute == EPILOGUE && bytes == sizeof(int32_t) && read<int32_t>(value, 0) == ADDS_BIAS)
        p.adds = true;
    else if (attribute == BIAS_AT && bytes == sizeof p.bias)
        memcpy(&p.bias, value, bytes);
    else if ((attribute == TRANSPOSE_A || attribute == TRANSPOSE_B) && bytes == sizeof(int32_t))
        memcpy(&p.transposed[attribute == TRANSPOSE_B], value, bytes);
    else
        return INVALID_VALUE;
    return OK;
}

static long layouts;

/* How many layouts there are; for tests. */
extern "C" __attribute__((visibility("default"))) long fake_cublas_layouts() { return layouts; }

API cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t step)
{
    layouts++;
    *out = new layout{type, (int64_t)rows, (int64_t)columns, step};
    return OK;
}

API cublasLtMatrixLayoutDestroy(void *m)
{
    layouts--;
    delete (layout *)m;
    return OK;
}

API cublasLtMatrixLayoutSetAttribute(void *m, int attribute, const void *value, size_t bytes)
{
    layout *l = (layout *)m;

    if (attribute == BATCH_COUNT && bytes == sizeof l->batch)
        memcpy(&l->batch, value, bytes);
    else if (attribute == BATCH_STEP && bytes == sizeof l->batch_step)
        memcpy(&l->batch_step, value, bytes);
    else
        return INVALID_VALUE;
    return OK;
}

API cublasLtMatmulPreferenceCreate(void **wish)
{
    static char one;
    *wish = &one;
    return OK;
}

API cublasLtMatmulPreferenceDestroy(void *) { return OK; }
API cublasLtMatmulPreferenceSetAttribute(void *, int, const void *, size_t) { return OK; }

API cublasLtMatmulAlgoGetHeuristic(void *, void *desc, void *a, void *b, void *c, void *, void *, int most,
                                   void *result, int *count)
{
    *count = 0;
    if (most < 1 || !fit(*(product *)desc, *(layout *)a, *(layout *)b, *(layout *)c))
        return INVALID_VALUE;
    memset(result, 0, sizeof(found));
    *count = 1;
    return OK;
}

API cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *x, void *a, const void *y, void *b,
                   const void *beta, const void *, void *, void *z, void *c, const void *, void *, size_t,
                   void *stream)
{
    if (!handle)
        return NOT_INITIALIZED;
    const product &p = *(product *)desc;
    if (!fit(p, *(layout *)a, *(layout *)b, *(layout *)c) || (p.adds && !p.bias))
        return INVALID_VALUE;
    call one = {p,         *(layout *)a, *(layout *)b,           *(layout *)c,          (const char *)x,
                (const char *)y, (char *)z,    get(alpha, p.scale, 0), get(beta, p.scale, 0)};
    std::function<void()> run = [one] { one.run(); };
    products++;
    fake_cuda_enqueue(stream, &run);
    return OK;
}
