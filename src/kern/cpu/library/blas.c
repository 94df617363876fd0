/* Finds a BLAS: first OpenBLAS, then the library that the system's alternatives name. */
#include "kern/cpu/library/blas.h"
#include "base/library.h"
#include "base/log.h"
#include "base/parallel.h"
#include <pthread.h>

static cr_blas_table table;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const names[] = {"libopenblas.so.0", "libblas.so.3", NULL};
static const cr_symbol symbols[] = {
#define CR_BLAS(result, name, args) {#name, &table.name},
#include "kern/cpu/library/blas.def"
#undef CR_BLAS
};

/* OpenBLAS maps a buffer for each processor when it is loaded and one for each further thread
 * that calls it.  When it cannot, it tries again for ever. */
static const size_t buffer_bytes = (size_t)160 << 20;

static bool has_room_to_load(void)
{
    int n = cr_processors(); /* OpenBLAS has at most 128 threads */

    return cr_library_has_room((size_t)(1 + (n < 128 ? n : 128)) * buffer_bytes);
}

static void blas_load(void)
{
    void (*set_threads)(int);
    const cr_symbol only[] = {{"openblas_set_num_threads", &set_threads}};

    if (!has_room_to_load()) {
        cr_log_line("kern", 1, "no BLAS: too little address space: plain loops are used");
        return;
    }
    found = cr_library_load(names, symbols, CR_LEN(symbols));
    if (!found)
        cr_log_line("kern", 1, "no BLAS: plain loops are used");
    if (cr_library_load(names, only, 1))
        set_threads(1);
}

const cr_blas_table *cr_blas(void)
{
    static CR_THREAD bool has_buffer;

    pthread_once(&once, blas_load);
    has_buffer = has_buffer || (found && cr_library_has_room(buffer_bytes));
    return has_buffer ? &table : NULL;
}
