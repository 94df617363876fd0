/* oneDNN for compiled models.
 *
 * A call is computed by the calling thread: models share products among threads, so results do
 * not depend on how many there are.  oneDNN 2.6 keeps the stack pointer in the heap during a
 * product, and a signal's frame would then be written there; so signals wait for its end. */
#include "object/library.h"
#include "base/library.h"
#include <oneapi/dnnl/dnnl_types.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static struct {
    dnnl_status_t (*dnnl_sgemm)(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float,
                                const float *, dnnl_dim_t, const float *, dnnl_dim_t, float,
                                float *, dnnl_dim_t);
    int (*omp_get_max_threads)(void);
    void (*omp_set_num_threads)(int);
} table;
static bool found;
static atomic_uint_fast64_t failures;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const names[] = {"libdnnl.so.2", NULL};
static const cr_symbol symbols[] = {{"dnnl_sgemm", &table.dnnl_sgemm},
                                    {"omp_get_max_threads", &table.omp_get_max_threads},
                                    {"omp_set_num_threads", &table.omp_set_num_threads}};

static void object_load_dnnl(void)
{
    /* with too little address space its constructors crash */
    found = cr_library_has_room((size_t)192 << 20) &&
            cr_library_load(names, symbols, sizeof symbols / sizeof *symbols);
}

static int sgemm(char ta, char tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float *c, int64_t ldc)
{
    sigset_t all, before;
    int threads = table.omp_get_max_threads(); /* of the calling thread's regions */
    dnnl_status_t st;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (threads != 1)
        table.omp_set_num_threads(1);
    st = table.dnnl_sgemm(ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, ldc);
    if (threads != 1)
        table.omp_set_num_threads(threads);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (st == dnnl_success)
        return 0;
    atomic_fetch_add(&failures, 1);
    return 1;
}

uint64_t cr_object_failures(void) { return atomic_load(&failures); }

cr_status cr_object_library(cr_object_libraries *out, const char *path)
{
    pthread_once(&once, object_load_dnnl);
    if (!found)
        return cr_fail(CR_RUNTIME,
                       "%s cannot be loaded: it calls oneDNN, and the system has no "
                       "libdnnl.so.2 with dnnl_sgemm and OpenMP",
                       path);
    out->sgemm = sgemm;
    return CR_OK;
}
