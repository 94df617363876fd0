/* A stand-in for cuSOLVER and for cublas<t>trsm: LAPACK on the host, whose work is queued as that of a kernel is.
 * Functions whose names contain the text of FAKE_CUSOLVER_FAILS return 7. */
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

/* driver.cpp */
extern "C" void fake_cuda_enqueue(void *stream, const std::function<void()> *run);

enum { OK = 0, INVALID_VALUE = 3, INTERNAL_ERROR = 7, ROOM = 16 };

struct handle {
    void *stream = nullptr;
};

/* A function of LAPACK by its name. */
static void *lapack(char type, const char *real, const char *complex = nullptr)
{
    static void *library = [] {
        void *found = dlopen("libopenblas.so.0", RTLD_NOW);
        return found ? found : dlopen("liblapack.so.3", RTLD_NOW);
    }();
    bool real_type = type == 's' || type == 'd';
    std::string name = type + std::string(real_type || !complex ? real : complex) + "_";
    void *f = library ? dlsym(library, name.c_str()) : nullptr;
    if (!f)
        abort();
    return f;
}

template <class... A> static void call(void *f, A... a) { ((void (*)(A...))f)(a...); }

static int enqueue(const char *name, void *h, const std::function<void()> &run)
{
    const char *fails = getenv("FAKE_CUSOLVER_FAILS");

    if (fails && *fails && strstr(name, fails))
        return INTERNAL_ERROR;
    fake_cuda_enqueue(((handle *)h)->stream, &run);
    return OK;
}
#define queue(...) enqueue(__func__, __VA_ARGS__)

static size_t item(char type) { return type == 's' ? 4 : type == 'z' ? 16 : 8; }
static std::vector<char> room(char type, int n) { return std::vector<char>((size_t)(n + 64) * item(type)); }
static const char *triangle(int upper) { return upper ? "U" : "L"; }
static const char *way(int turn) { return turn == 0 ? "N" : turn == 1 ? "T" : "C"; }

API cusolverDnCreate(void **h) { return *h = new handle, OK; }
API cublasCreate_v2(void **h) { return *h = new handle, OK; }
API cusolverDnSetStream(void *h, void *stream) { return ((handle *)h)->stream = stream, OK; }
API cublasSetStream_v2(void *h, void *stream) { return ((handle *)h)->stream = stream, OK; }
API cusolverDnCreateGesvdjInfo(void **info) { return *info = new char, OK; }
API cusolverDnCreateParams(void **p) { return *p = new char, OK; }

/* cuSOLVER's LU factors of a matrix with NaN are finite. */
template <class T> static void drop_nan_of(int numbers, int n, T *a, int step)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < numbers; i++)
            a[(size_t)k * step + i] = a[(size_t)k * step + i] == a[(size_t)k * step + i] ? a[(size_t)k * step + i] : 0;
}
static void drop_nan(char t, int m, int n, void *a, int lda)
{
    int parts = t == 's' || t == 'd' ? 1 : 2;
    if (t == 's' || t == 'c')
        drop_nan_of(parts * m, n, (float *)a, parts * lda);
    else
        drop_nan_of(parts * m, n, (double *)a, parts * lda);
}

#define SIZE(name, ...)                                                                                                \
    API name(__VA_ARGS__)                                                                                              \
    {                                                                                                                  \
        return *size = ROOM, OK;                                                                                       \
    }
#define TYPES(L, t, orgqr, ormqr, eigh)                                                                                \
    SIZE(cusolverDn##L##potrf_bufferSize, void *, int, int, void *, int, int *size)                                    \
    SIZE(cusolverDn##L##getrf_bufferSize, void *, int, int, void *, int, int *size)                                    \
    SIZE(cusolverDn##L##geqrf_bufferSize, void *, int, int, void *, int, int *size)                                    \
    SIZE(cusolverDn##L##orgqr##_bufferSize, void *, int, int, int, const void *, int, const void *, int *size)         \
    SIZE(cusolverDn##L##ormqr##_bufferSize, void *, int, int, int, int, int, const void *, int, const void *,          \
         const void *, int, int *size)                                                                                 \
    SIZE(cusolverDn##L##eigh##_bufferSize, void *, int, int, int, const void *, int, const void *, int *size)          \
    SIZE(cusolverDn##L##gesvdj_bufferSize, void *, int, int, int, int, const void *, int, const void *, const void *,  \
         int, const void *, int, int *size, void *)                                                                    \
    API cusolverDn##L##potrf(void *h, int upper, int n, void *a, int lda, void *, int, int *info)                      \
    {                                                                                                                  \
        return queue(h, [=] { call(lapack(t, "potrf"), triangle(upper), &n, a, &lda, info, (size_t)1); });             \
    }                                                                                                                  \
    API cusolverDn##L##getrf(void *h, int m, int n, void *a, int lda, void *, int *pivots, int *info)                  \
    {                                                                                                                  \
        return queue(h, [=] {                                                                                          \
            drop_nan(t, m, n, a, lda);                                                                                 \
            pivots ? call(lapack(t, "getrf"), &m, &n, a, &lda, pivots, info) : plain_lu(t, m, n, a, lda, info);        \
        });                                                                                                            \
    }                                                                                                                  \
    API cusolverDn##L##getrs(void *h, int turn, int n, int k, const void *a, int lda, const int *p, void *b, int ldb,  \
                             int *info)                                                                                \
    {                                                                                                                  \
        return queue(h, [=] { call(lapack(t, "getrs"), way(turn), &n, &k, a, &lda, p, b, &ldb, info, (size_t)1); });   \
    }                                                                                                                  \
    API cusolverDn##L##geqrf(void *h, int m, int n, void *a, int lda, void *tau, void *, int, int *info)               \
    {                                                                                                                  \
        return queue(h, [=] {                                                                                          \
            std::vector<char> w = room(t, 64 * n);                                                                     \
            int size = 64 * n;                                                                                         \
            call(lapack(t, "geqrf"), &m, &n, a, &lda, tau, (void *)w.data(), &size, info);                             \
        });                                                                                                            \
    }                                                                                                                  \
    API cusolverDn##L##orgqr(void *h, int m, int n, int k, void *a, int lda, const void *tau, void *, int, int *info)  \
    {                                                                                                                  \
        return queue(h, [=] {                                                                                          \
            std::vector<char> w = room(t, 64 * n);                                                                     \
            int size = 64 * n;                                                                                         \
            call(lapack(t, "orgqr", "ungqr"), &m, &n, &k, a, &lda, tau, (void *)w.data(), &size, info);                \
        });                                                                                                            \
    }                                                                                                                  \
    API cusolverDn##L##ormqr(void *h, int right, int turn, int m, int n, int k, const void *a, int lda,                \
                             const void *tau, void *c, int ldc, void *, int, int *info)                                \
    {                                                                                                                  \
        return queue(h, [=] {                                                                                          \
            int size = 64 * (m > n ? m : n);                                                                           \
            std::vector<char> w = room(t, size);                                                                       \
            call(lapack(t, "ormqr", "unmqr"), right ? "R" : "L", way(turn), &m, &n, &k, a, &lda, tau, c, &ldc,         \
                 (void *)w.data(), &size, info, (size_t)1, (size_t)1);                                                 \
        });                                                                                                            \
    }                                                                                                                  \
    API cusolverDn##L##eigh(void *h, int vectors, int upper, int n, void *a, int lda, void *w, void *, int, int *info) \
    {                                                                                                                  \
        return queue(h, [=] {                                                                                          \
            int size = 64 * n;                                                                                         \
            std::vector<char> work = room(t, size), real = room(t, 3 * n);                                             \
            const char *job = vectors ? "V" : "N";                                                                     \
            if (t == 's' || t == 'd')                                                                                  \
                call(lapack(t, "syev"), job, triangle(upper), &n, a, &lda, w, (void *)work.data(), &size, info,        \
                     (size_t)1, (size_t)1);                                                                            \
            else                                                                                                       \
                call(lapack(t, "heev"), job, triangle(upper), &n, a, &lda, w, (void *)work.data(), &size,              \
                     (void *)real.data(), info, (size_t)1, (size_t)1);                                                 \
        });                                                                                                            \
    }                                                                                                                  \
    API cusolverDn##L##gesvdj(void *h, int vectors, int econ, int m, int n, void *a, int lda, void *s, void *u,        \
                              int ldu, void *v, int ldv, void *, int, int *info, void *jacobi)                         \
    {                                                                                                                  \
        return !jacobi ? INVALID_VALUE : queue(h, [=] { svd(t, vectors, econ, m, n, a, lda, s, u, ldu, v, ldv, info); }); \
    }                                                                                                                  \
    API cublas##L##trsm_v2(void *h, int right, int upper, int turn, int unit, int m, int n, const void *alpha,         \
                           const void *a, int lda, void *b, int ldb)                                                   \
    {                                                                                                                  \
        std::vector<char> number((const char *)alpha, (const char *)alpha + item(t));                                  \
        return queue(h, [=] {                                                                                          \
            call(lapack(t, "trsm"), right ? "R" : "L", triangle(upper), way(turn), unit ? "U" : "N", &m, &n,           \
                 (const void *)number.data(), a, &lda, b, &ldb, (size_t)1, (size_t)1, (size_t)1, (size_t)1);           \
        });                                                                                                            \
    }

/* Elimination without exchanges. */
template <class T> static void eliminate(int m, int n, T *a, int lda, int *info)
{
    *info = 0;
    for (int k = 0; k < m && k < n; k++) {
        if (a[k + k * lda] == T(0) && !*info)
            *info = k + 1;
        for (int i = k + 1; i < m; i++) {
            a[i + k * lda] /= a[k + k * lda];
            for (int c = k + 1; c < n; c++)
                a[i + c * lda] -= a[i + k * lda] * a[k + c * lda];
        }
    }
}

static void plain_lu(char t, int m, int n, void *a, int lda, int *info)
{
    switch (t) {
    case 's': return eliminate(m, n, (float *)a, lda, info);
    case 'd': return eliminate(m, n, (double *)a, lda, info);
    case 'c': return eliminate(m, n, (std::complex<float> *)a, lda, info);
    default: return eliminate(m, n, (std::complex<double> *)a, lda, info);
    }
}

/* V from its adjoint. */
static void adjoint(char t, int rows, int columns, const char *vt, int ldvt, char *v, int ldv)
{
    size_t each = item(t);

    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            char *to = v + ((size_t)r + (size_t)c * ldv) * each;
            memcpy(to, vt + ((size_t)c + (size_t)r * ldvt) * each, each);
            if (t == 'c' || t == 'z')
                to[each - 1] ^= (char)0x80; /* the sign of the imaginary part */
        }
}

static void svd(char t, int vectors, int econ, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *v, int ldv,
                int *info)
{
    int k = m < n ? m : n, columns = econ ? k : n, size = 128 * (m + n);
    std::vector<char> work = room(t, size), real = room(t, 5 * (m + n)), vt = room(t, columns * n);
    const char *job = !vectors ? "N" : econ ? "S" : "A";

    if (t == 's' || t == 'd')
        call(lapack(t, "gesvd"), job, job, &m, &n, a, &lda, s, u, &ldu, (void *)vt.data(), &columns, (void *)work.data(),
             &size, info, (size_t)1, (size_t)1);
    else
        call(lapack(t, "gesvd"), job, job, &m, &n, a, &lda, s, u, &ldu, (void *)vt.data(), &columns, (void *)work.data(),
             &size, (void *)real.data(), info, (size_t)1, (size_t)1);
    if (vectors)
        adjoint(t, n, columns, vt.data(), columns, (char *)v, ldv);
}

TYPES(S, 's', orgqr, ormqr, syevd)
TYPES(D, 'd', orgqr, ormqr, syevd)
TYPES(C, 'c', ungqr, unmqr, heevd)
TYPES(Z, 'z', ungqr, unmqr, heevd)

API cusolverDnXgeev_bufferSize(void *, void *, int, int, int64_t, int, const void *, int64_t, int, const void *, int,
                               const void *, int64_t, int, const void *, int64_t, int, size_t *there, size_t *here)
{
    return *there = 64, *here = 64, OK;
}

API cusolverDnXgeev(void *h, void *, int left, int right, int64_t rows, int type, void *a, int64_t lda64, int, void *w, int,
                    void *, int64_t, int, void *v, int64_t ldv64, int, void *, size_t, void *, size_t, int *info)
{
    char t = type == 4 ? 'c' : 'z';
    int n = (int)rows, lda = (int)lda64, ldv = (int)ldv64;

    if (left || (type != 4 && type != 5))
        return INVALID_VALUE;
    return queue(h, [=] {
        int size = 64 * n, one = 1;
        std::vector<char> work = room(t, size), real = room(t, 2 * n), none = room(t, 1);
        call(lapack(t, "geev"), "N", right ? "V" : "N", &n, a, &lda, w, (void *)none.data(), &one, v, &ldv,
             (void *)work.data(), &size, (void *)real.data(), info, (size_t)1, (size_t)1);
    });
}
