/* Finding a BLAS: OpenBLAS first, then whatever the system's alternatives name. */
#include "kern/blas.h"
#include "base/log.h"
#include "kern/library.h"
#include <pthread.h>

static cr_blas_table table;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const names[] = {"libopenblas.so.0", "libblas.so.3", NULL};
static const cr_symbol symbols[] = {
#define CR_BLAS(result, name, args) {#name, &table.name},
#include "kern/blas.def"
#undef CR_BLAS
};

static void load(void)
{
    void (*set_threads)(int);
    const cr_symbol only[] = {{"openblas_set_num_threads", &set_threads}};

    found = cr_library_load(names, symbols, CR_LEN(symbols));
    if (!found)
        cr_log_line("kern", 1, "no BLAS: plain loops are used");
    if (cr_library_load(names, only, 1))
        set_threads(1);
}

const cr_blas_table *cr_blas(void)
{
    pthread_once(&once, load);
    return found ? &table : NULL;
}
