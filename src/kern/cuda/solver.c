/* LAPACK's functions for matrices of NVIDIA devices, by cuSOLVER and cuBLAS.
 *
 * A function with LAPACK's arguments calls the library's on the thread's stream and waits for
 * `info` where it tells more than wrong arguments.  Both libraries are opened at the first
 * call.  A stream has handles for its work only, because they have scratch memory; threads
 * share them under one lock.  After a call that fails, the thread's calls do nothing until the
 * error is taken; `info` never holds it. */
#include "base/map.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "kern/cpu/library/lapack.h"
#include "kern/cpu/linalg/linalg_job.h"
#include "kern/cuda/commands.h"
#include "kern/cuda/product.h"
#include <pthread.h>
#include <string.h>

typedef struct {
#define CR_TYPED_CALL(field, s, d, c, z, arguments) int(*field[4]) arguments;
#define CR_CALL(field, symbol, arguments)           int(*field) arguments;
#include "kern/cuda/cusolver.def"
} solver_table;

typedef struct {
#define CR_TYPED_CALL(field, s, d, c, z, arguments) int(*field[4]) arguments;
#define CR_CALL(field, symbol, arguments)           int(*field) arguments;
#include "kern/cuda/cublas_solver.def"
} blas_table;

static const char *const solver_names[] = {
#define CR_TYPED_CALL(field, s, d, c, z, arguments) #s, #d, #c, #z,
#define CR_CALL(field, symbol, arguments)           #symbol,
#include "kern/cuda/cusolver.def"
};

static const char *const blas_names[] = {
#define CR_TYPED_CALL(field, s, d, c, z, arguments) #s, #d, #c, #z,
#define CR_CALL(field, symbol, arguments)           #symbol,
#include "kern/cuda/cublas_solver.def"
};

/* The general eigenvalue problem, which older versions lack. */
static int (*solver_eig_size)(void *handle, void *params, int left, int right, int64_t n,
                              int type, const void *a, int64_t lda, int w_type, const void *w,
                              int l_type, const void *l, int64_t ldl, int r_type, const void *r,
                              int64_t ldr, int compute, size_t *there, size_t *here);
static int (*solver_eig)(void *handle, void *params, int left, int right, int64_t n, int type,
                         void *a, int64_t lda, int w_type, void *w, int l_type, void *l,
                         int64_t ldl, int r_type, void *r, int64_t ldr, int compute,
                         void *there, size_t there_size, void *here, size_t here_size,
                         int *info);
static int (*solver_params)(void **params);

static solver_table solver;
static blas_table blas;
static bool solver_works;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The handles of a stream. */
typedef struct {
    int device;
    void *solver, *blas, *jacobi, *params;
} solver_set;

typedef struct {
    int64_t device;
    void *stream;
} solver_key;

static cr_map sets; /* solver_key -> solver_set */

/* Of the calls that the thread makes: the handles, and the first error. */
static _Thread_local const solver_set *now;
static _Thread_local const char *solver_error;

static void solver_load(void)
{
    static const cr_cuda_library solvers[] = {
        {"libcusolver.so.12", "cu13", "libcusparse.so."},
        {"libcusolver.so.11", "cusolver", NULL},
        {"libcusolver.so", NULL, NULL},
    };
    static const cr_cuda_library blases[] = {
        {"libcublas.so.13", "cu13", "libcublasLt.so."},
        {"libcublas.so.12", "cublas", "libcublasLt.so."},
        {"libcublas.so", NULL, NULL},
    };
    static const char *const eig[] = {"cusolverDnXgeev_bufferSize"};
    static const char *const eig_run[] = {"cusolverDnXgeev"};
    static const char *const eig_params[] = {"cusolverDnCreateParams"};
    void *b = cr_cuda_open(blases, (int)CR_LEN(blases));
    void *s = b ? cr_cuda_open(solvers, (int)CR_LEN(solvers)) : NULL;

    solver_works = s && cr_cuda_symbols(s, &solver, solver_names, (int)CR_LEN(solver_names)) &&
                   cr_cuda_symbols(b, &blas, blas_names, (int)CR_LEN(blas_names));
    if (solver_works && (!cr_cuda_symbols(s, &solver_eig_size, eig, 1) ||
                         !cr_cuda_symbols(s, &solver_eig, eig_run, 1) ||
                         !cr_cuda_symbols(s, &solver_params, eig_params, 1)))
        solver_eig = NULL;
}

/* --- calls --- */

/* Scratch memory of a call, `info` first.  The caller holds the lock until solver_end. */
typedef struct {
    char *room;
    uint32_t block;
    int failed; /* a status of cuSOLVER, or any number after another error */
    void *handle;
} solver_call;

enum { SOLVER_INFO = 256 };

/* The thread's first error. */
static int solver_fail(const char *error)
{
    if (error && !solver_error)
        solver_error = error;
    return error != NULL;
}

/* Names a status of cuSOLVER. */
static int solver_status(int status)
{
    static const char *const names[] = {
#define NAMED(name) "cusolver error: CUSOLVER_STATUS_" #name
        NAMED(NOT_INITIALIZED), NAMED(ALLOC_FAILED),
        NAMED(INVALID_VALUE),   NAMED(ARCH_MISMATCH),
        NAMED(MAPPING_ERROR),   NAMED(EXECUTION_FAILED),
        NAMED(INTERNAL_ERROR),  NAMED(MATRIX_TYPE_NOT_SUPPORTED),
        NAMED(NOT_SUPPORTED),
#undef NAMED
    };

    if (status > 0 && status <= (int)CR_LEN(names))
        return solver_fail(names[status - 1]);
    return solver_fail(status ? "cusolver error: a function of cuSOLVER failed" : NULL);
}

static void solver_begin(solver_call *c)
{
    *c = (solver_call){.handle = now->solver};
    c->failed = solver_error != NULL || solver_fail(cr_cuda_use(now->device));
    pthread_mutex_lock(&lock);
}

/* `count` elements of scratch memory after `info`. */
static void *solver_room(solver_call *c, int64_t count, size_t item)
{
    size_t bytes = SOLVER_INFO + (size_t)(count > 0 ? count : 1) * item;

    if (c->failed)
        return NULL;
    c->room = cr_cuda_ops.get(now->device, bytes, &c->block);
    if (c->room)
        return c->room + SOLVER_INFO;
    c->failed = solver_fail(cr_cuda_no_memory(now->device, bytes));
    return NULL;
}

/* Adds `waits`: *info is the device's; otherwise, and after a failure, it is 0. */
static void solver_end(solver_call *c, int *info, bool waits)
{
    *info = 0;
    pthread_mutex_unlock(&lock);
    if (!solver_error)
        c->failed = solver_status(c->failed);
    if (!c->failed && waits &&
        solver_fail(cr_cuda_ops.copy_out(now->device, info, c->room, sizeof *info)))
        *info = 0;
    if (c->room)
        cr_cuda_ops.release(now->device, c->room, c->block);
}

static size_t solver_item(int type)
{
    static const size_t item[4] = {4, 8, 8, 16};

    return item[type];
}

static int solver_upper(const char *uplo) { return *uplo == 'U' || *uplo == 'u'; }
static int solver_turn(const char *t) { return *t == 'N' ? 0 : *t == 'T' ? 1 : 2; }
static int solver_right(const char *side) { return *side == 'R'; }

/* The answer to a query of scratch memory: none is needed. */
static bool solver_answers(int type, void *work, int size)
{
    const double wide = 1;
    const float single = 1;

    if (size == -1)
        memcpy(work, type & 1 ? (const void *)&wide : (const void *)&single,
               type & 1 ? sizeof wide : sizeof single);
    return size == -1;
}

/* A call for which `measure` sets `size`, and which `act` makes with as many elements at
 * `work`; cuSOLVER writes its number for `info` to `there`. */
#define SOLVE(measure, act, waits)                                                             \
    do {                                                                                       \
        solver_call c;                                                                         \
        int size = 0;                                                                          \
        solver_begin(&c);                                                                      \
        if (!c.failed)                                                                         \
            c.failed = (measure);                                                              \
        void *work = solver_room(&c, size, solver_item(t));                                    \
        int *there = (int *)(void *)c.room;                                                    \
        if (!c.failed)                                                                         \
            c.failed = (act);                                                                  \
        solver_end(&c, info, waits);                                                           \
    } while (0)

static void solver_potrf(int t, const char *uplo, int n, void *a, int lda, int *info)
{
    SOLVE(solver.potrf_size[t](c.handle, solver_upper(uplo), n, a, lda, &size),
          solver.potrf[t](c.handle, solver_upper(uplo), n, a, lda, work, size, there), true);
}

/* Runs `loops` for the elements of a matrix; `seen` are the words that they read or write. */
static int solver_each(const cr_loops *loops, int t, int m, int n, void *a, int lda, int *seen)
{
    cr_device there = {.kind = CR_CUDA, .index = (uint8_t)now->device};
    linalg_job w = {.to = a,
                    .from = a,
                    .m = m,
                    .n = n,
                    .parts = 1 + t / 2,
                    .to_row = lda,
                    .from_row = lda,
                    .info = seen};

    return cr_loops_run(there, loops, t & 1 ? CR_F64 : CR_F32, (int64_t)m * n, 1, &w)
               ? solver_fail(cr_error_message())
               : 0;
}

/* cuSOLVER's factors of a matrix with NaN are finite (seen on an H200): all elements become NaN
 * where the matrix had one and the factors have none.  `seen` has room for two words. */
static int solver_factor(void *handle, int t, int m, int n, void *a, int lda, void *work,
                         int *pivots, int *info, int *seen)
{
    static const cr_loops find = {CR_LOOPS_LINALG, "find_nan", NULL, NULL, sizeof(linalg_job)};
    static const cr_loops give = {CR_LOOPS_LINALG, "give_nan", NULL, NULL, sizeof(linalg_job)};
    const int zero = 0;
    int failed = solver_fail(cr_cuda_fill(now->device, seen, &zero, sizeof zero, 2));

    failed = failed ? failed : solver_each(&find, t, m, n, a, lda, seen);
    failed = failed ? failed : solver.getrf[t](handle, m, n, a, lda, work, pivots, info);
    failed = failed ? failed : solver_each(&find, t, m, n, a, lda, seen + 1);
    return failed ? failed : solver_each(&give, t, m, n, a, lda, seen);
}

static void solver_getrf(int t, int m, int n, void *a, int lda, int *pivots, int *info)
{
    SOLVE(solver.getrf_size[t](c.handle, m, n, a, lda, &size),
          solver_factor(c.handle, t, m, n, a, lda, work, pivots, there, there + 1), true);
}

static void solver_getrs(int t, const char *turn, int n, int columns, const void *a, int lda,
                         const int *pivots, void *b, int ldb, int *info)
{
    solver_call c;

    solver_begin(&c);
    solver_room(&c, 0, 1);
    if (!c.failed)
        c.failed = solver.getrs[t](c.handle, solver_turn(turn), n, columns, a, lda, pivots, b,
                                   ldb, (int *)(void *)c.room);
    solver_end(&c, info, false);
}

static void solver_trsm(int t, const char *side, const char *uplo, const char *turn,
                        const char *diagonal, int m, int n, const void *alpha, const void *a,
                        int lda, void *b, int ldb)
{
    int ignored;
    solver_call c;

    solver_begin(&c);
    if (!c.failed &&
        blas.trsm[t](now->blas, solver_right(side), solver_upper(uplo), solver_turn(turn),
                     *diagonal == 'U', m, n, alpha, a, lda, b, ldb))
        c.failed = solver_fail("cublas error: a call of `cublas<t>trsm` failed");
    solver_end(&c, &ignored, false);
}

static void solver_geqrf(int t, int m, int n, void *a, int lda, void *tau, void *answer,
                         int query, int *info)
{
    if (solver_answers(t, answer, query))
        return;
    SOLVE(solver.geqrf_size[t](c.handle, m, n, a, lda, &size),
          solver.geqrf[t](c.handle, m, n, a, lda, tau, work, size, there), false);
}

static void solver_orgqr(int t, int m, int n, int k, void *a, int lda, const void *tau,
                         void *answer, int query, int *info)
{
    if (solver_answers(t, answer, query))
        return;
    SOLVE(solver.orgqr_size[t](c.handle, m, n, k, a, lda, tau, &size),
          solver.orgqr[t](c.handle, m, n, k, a, lda, tau, work, size, there), false);
}

static void solver_ormqr(int t, const char *side, const char *turn, int m, int n, int k,
                         const void *a, int lda, const void *tau, void *b, int ldb,
                         void *answer, int query, int *info)
{
    int right = solver_right(side), way = solver_turn(turn);

    if (solver_answers(t, answer, query))
        return;
    SOLVE(
        solver.ormqr_size[t](c.handle, right, way, m, n, k, a, lda, tau, b, ldb, &size),
        solver.ormqr[t](c.handle, right, way, m, n, k, a, lda, tau, b, ldb, work, size, there),
        false);
}

static void solver_eigh(int t, const char *job, const char *uplo, int n, void *a, int lda,
                        void *w, void *answer, int query, void *real_answer, int *integers,
                        int *info)
{
    int vectors = *job == 'V', upper = solver_upper(uplo);

    if (solver_answers(t, answer, query)) {
        if (real_answer)
            solver_answers(t, real_answer, query);
        *integers = 1;
        return;
    }
    SOLVE(solver.eigh_size[t](c.handle, vectors, upper, n, a, lda, w, &size),
          solver.eigh[t](c.handle, vectors, upper, n, a, lda, w, work, size, there), true);
}

/* to = the adjoint of the first m rows and n columns of `from`. */
static int solver_adjoint(int t, void *to, int to_row, const void *from, int from_row, int m,
                          int n)
{
    static const cr_loops loops = {CR_LOOPS_LINALG, "adjoint", NULL, NULL, sizeof(linalg_job)};
    cr_device there = {.kind = CR_CUDA, .index = (uint8_t)now->device};
    linalg_job w = {.to = to,
                    .from = from,
                    .m = m,
                    .n = n,
                    .parts = 1 + t / 2,
                    .to_row = to_row,
                    .from_row = from_row};

    return cr_loops_run(there, &loops, t & 1 ? CR_F64 : CR_F32, (int64_t)m * n, 1, &w)
               ? solver_fail(cr_error_message())
               : 0;
}

/* The library returns V, LAPACK its adjoint. */
static void solver_svd(int t, const char *job, int m, int n, void *a, int lda, void *s, void *u,
                       int ldu, void *vt, int ldvt, void *answer, int query, int *info)
{
    int vectors = *job != 'N', econ = *job != 'A', size = 0, k = m < n ? m : n;
    int columns = econ ? k : n;
    int64_t v = (int64_t)n * columns;
    solver_call c;

    if (solver_answers(t, answer, query))
        return;
    solver_begin(&c);
    if (!c.failed)
        c.failed = solver.svd_size[t](c.handle, vectors, econ, m, n, a, lda, s, u, ldu, vt, n,
                                      &size, now->jacobi);
    char *work = solver_room(&c, v + size, solver_item(t));
    if (!c.failed)
        c.failed = solver.svd[t](c.handle, vectors, econ, m, n, a, lda, s, u, ldu, work, n,
                                 work + (size_t)v * solver_item(t), size, (int *)(void *)c.room,
                                 now->jacobi);
    if (!c.failed && vectors)
        c.failed = solver_adjoint(t, vt, ldvt, work, n, n, columns);
    solver_end(&c, info, true);
}

/* Of complex matrices; `pair` is 1 for double precision. */
static void solver_geev(int pair, const char *job, int n, void *a, int lda, void *w, void *v,
                        int ldv, void *answer, int query, int *info)
{
    int type = pair ? 5 : 4, right = *job == 'V';
    size_t there = 0, here = 0;
    solver_call c;

    if (solver_answers(2 + pair, answer, query))
        return;
    solver_begin(&c);
    if (!c.failed)
        c.failed = solver_eig_size(c.handle, now->params, 0, right, n, type, a, lda, type, w,
                                   type, NULL, 1, type, v, ldv, type, &there, &here);
    void *work = solver_room(&c, (int64_t)there, 1), *host = cr_alloc(here + 1);
    if (!host)
        c.failed = solver_fail(cr_error_message());
    if (!c.failed)
        c.failed =
            solver_eig(c.handle, now->params, 0, right, n, type, a, lda, type, w, type, NULL, 1,
                       type, v, ldv, type, work, there, host, here, (int *)(void *)c.room);
    solver_end(&c, info, true);
    cr_free(host);
}

/* Least squares: R x = Q' b for m rows at least n, or else R' y = b and x = Q y. */
static void solver_gels(int t, int m, int n, int columns, void *a, int lda, void *b, int ldb,
                        void *answer, int query, int *info)
{
    const char *turn = t < 2 ? "T" : "C";
    const double one[2] = {1, 0};
    const float one_f[2] = {1, 0};
    const void *alpha = t & 1 ? (const void *)one : (const void *)one_f;
    int k = m < n ? m : n, big = m < n ? n : m, size = 0;
    size_t item = solver_item(t);
    uint32_t block = 0;

    if (solver_answers(t, answer, query))
        return;
    *info = 0;
    size_t bytes = (size_t)(k + 1) * (size_t)(big + 1) * item;
    char *room = cr_cuda_ops.get(now->device, bytes, &block);
    if (!room) {
        solver_fail(cr_cuda_no_memory(now->device, bytes));
        return;
    }
    char *tau = room + (size_t)k * (size_t)big * item;
    if (m >= n) {
        solver_geqrf(t, m, n, a, lda, tau, NULL, size, info);
        solver_ormqr(t, "L", turn, m, columns, n, a, lda, tau, b, ldb, NULL, size, info);
        solver_trsm(t, "L", "U", "N", "N", n, columns, alpha, a, lda, b, ldb);
    } else if (!solver_adjoint(t, room, n, a, lda, m, n)) {
        solver_geqrf(t, n, m, room, n, tau, NULL, size, info);
        solver_trsm(t, "L", "U", turn, "N", m, columns, alpha, room, n, b, ldb);
        solver_ormqr(t, "L", "N", n, columns, m, room, n, tau, b, ldb, NULL, size, info);
    }
    cr_cuda_ops.release(now->device, room, block);
}

/* --- LAPACK's arguments --- */

#define INT const int *
#define CHR const char *
/* clang-format off */
#define SOLVER_EACH(t)                                                                        \
    static void potrf_##t(CHR uplo, INT n, void *a, INT lda, int *info, size_t l)             \
    { (void)l; solver_potrf(t, uplo, *n, a, *lda, info); }                                    \
    static void getrf_##t(INT m, INT n, void *a, INT lda, int *pivots, int *info)             \
    { solver_getrf(t, *m, *n, a, *lda, pivots, info); }                                       \
    static void getrs_##t(CHR turn, INT n, INT c, const void *a, INT lda, INT p, void *b,     \
        INT ldb, int *info, size_t l)                                                         \
    { (void)l; solver_getrs(t, turn, *n, *c, a, *lda, p, b, *ldb, info); }                    \
    static void trsm_##t(CHR side, CHR uplo, CHR turn, CHR d, INT m, INT n,                   \
        const void *alpha, const void *a, INT lda, void *b, INT ldb, size_t l0, size_t l1,    \
        size_t l2, size_t l3)                                                                 \
    { (void)l0, (void)l1, (void)l2, (void)l3; solver_trsm(t, side, uplo, turn, d, *m, *n,     \
        alpha, a, *lda, b, *ldb); }                                                           \
    static void geqrf_##t(INT m, INT n, void *a, INT lda, void *tau, void *work, INT size,    \
        int *info)                                                                            \
    { solver_geqrf(t, *m, *n, a, *lda, tau, work, *size, info); }                             \
    static void orgqr_##t(INT m, INT n, INT k, void *a, INT lda, const void *tau,             \
        void *work, INT size, int *info)                                                      \
    { solver_orgqr(t, *m, *n, *k, a, *lda, tau, work, *size, info); }                         \
    static void ormqr_##t(CHR side, CHR turn, INT m, INT n, INT k, const void *a, INT lda,    \
        const void *tau, void *c, INT ldc, void *work, INT size, int *info, size_t l0,        \
        size_t l1)                                                                            \
    { (void)l0, (void)l1; solver_ormqr(t, side, turn, *m, *n, *k, a, *lda, tau, c, *ldc,      \
        work, *size, info); }                                                                 \
    static void gels_##t(CHR turn, INT m, INT n, INT c, void *a, INT lda, void *b, INT ldb,   \
        void *work, INT size, int *info, size_t l)                                            \
    { (void)l, (void)turn; solver_gels(t, *m, *n, *c, a, *lda, b, *ldb, work, *size, info); }
SOLVER_EACH(0)
SOLVER_EACH(1)
SOLVER_EACH(2)
SOLVER_EACH(3)
#define SOLVER_PAIR(p)                                                                        \
    static void gesdd_real_##p(CHR job, INT m, INT n, void *a, INT lda, void *s, void *u,     \
        INT ldu, void *vt, INT ldvt, void *work, INT size, int *i, int *info, size_t l)       \
    { (void)l, (void)i; solver_svd(p, job, *m, *n, a, *lda, s, u, *ldu, vt, *ldvt, work,      \
        *size, info); }                                                                       \
    static void gesdd_complex_##p(CHR job, INT m, INT n, void *a, INT lda, void *s, void *u,  \
        INT ldu, void *vt, INT ldvt, void *work, INT size, void *r, int *i, int *info,        \
        size_t l)                                                                             \
    { (void)l, (void)i, (void)r; solver_svd(2 + p, job, *m, *n, a, *lda, s, u, *ldu, vt,      \
        *ldvt, work, *size, info); }                                                          \
    static void syevd_##p(CHR job, CHR uplo, INT n, void *a, INT lda, void *w, void *work,    \
        INT size, int *i, INT isize, int *info, size_t l0, size_t l1)                         \
    { (void)l0, (void)l1, (void)isize; solver_eigh(p, job, uplo, *n, a, *lda, w, work,        \
        *size, NULL, i, info); }                                                              \
    static void heevd_##p(CHR job, CHR uplo, INT n, void *a, INT lda, void *w, void *work,    \
        INT size, void *r, INT rsize, int *i, INT isize, int *info, size_t l0, size_t l1)     \
    { (void)l0, (void)l1, (void)isize, (void)rsize; solver_eigh(2 + p, job, uplo, *n, a,      \
        *lda, w, work, *size, r, i, info); }                                                  \
    static void geev_complex_##p(CHR left, CHR job, INT n, void *a, INT lda, void *w,         \
        void *none, INT one, void *v, INT ldv, void *work, INT size, void *r, int *info,      \
        size_t l0, size_t l1)                                                                 \
    { (void)l0, (void)l1, (void)left, (void)none, (void)one, (void)r; solver_geev(p, job,     \
        *n, a, *lda, w, v, *ldv, work, *size, info); }
SOLVER_PAIR(0)
SOLVER_PAIR(1)
/* clang-format on */

static const cr_lapack_table table = {
#define FOUR(f) .f = {f##_0, f##_1, f##_2, f##_3}
#define TWO(f)  .f = {f##_0, f##_1}
    FOUR(potrf), FOUR(getrf), FOUR(getrs),       FOUR(trsm),      FOUR(geqrf),
    FOUR(orgqr), FOUR(ormqr), FOUR(gels),        TWO(gesdd_real), TWO(gesdd_complex),
    TWO(syevd),  TWO(heevd),  TWO(geev_complex),
#undef FOUR
#undef TWO
};

static int solver_fill(solver_set *s, void *stream)
{
    int failed = solver.new_handle(&s->solver);

    if (!failed)
        failed = solver.stream(s->solver, stream);
    if (!failed)
        failed = blas.blas_handle(&s->blas);
    if (!failed)
        failed = blas.blas_stream(s->blas, stream);
    if (!failed)
        failed = solver.new_jacobi(&s->jacobi);
    if (!failed && solver_eig)
        failed = solver_params(&s->params);
    return failed;
}

/* The handles of the thread's stream, or NULL; the caller holds the lock. */
static const solver_set *solver_set_of(int device)
{
    solver_key k;

    memset(&k, 0, sizeof k);
    k.device = device;
    k.stream = cr_cuda_stream(device);
    solver_set *s = cr_map_get(&sets, (const char *)&k, sizeof k);
    if (s || !(s = cr_alloc_zero(sizeof *s)))
        return s;
    s->device = device;
    if (!solver_fill(s, k.stream) && !cr_map_set(&sets, (const char *)&k, sizeof k, s))
        return s;
    cr_free(s);
    return NULL;
}

static cr_status solver_find(const cr_lapack_table **out, int index, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, solver_load);
    if (!solver_works)
        return cr_fail(CR_RUNTIME,
                       "Calling %s on a CUDA tensor requires cuSOLVER and cuBLAS, and "
                       "libcusolver.so or libcublas.so was not found",
                       name);
    if (!solver_eig && !strcmp(name, "linalg.eig"))
        return cr_fail(CR_RUNTIME,
                       "%s on a CUDA tensor requires a cuSOLVER that has "
                       "cusolverDnXgeev",
                       name);
    const char *error = cr_cuda_use(index);
    if (error)
        return cr_device_status(error);
    pthread_mutex_lock(&lock);
    now = solver_set_of(index);
    pthread_mutex_unlock(&lock);
    solver_error = NULL;
    *out = &table;
    return now ? CR_OK
               : cr_fail(CR_RUNTIME, "cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED, when "
                                     "calling `cusolverDnCreate(handle)`");
}

static const char *solver_take_error(void)
{
    const char *error = solver_error;

    solver_error = NULL;
    return error;
}

void cr_cuda_install_solver(void)
{
    cr_lapack_set_device(CR_CUDA, solver_find, solver_take_error);
}
